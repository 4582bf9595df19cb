"""The binary interface against its committed baselines. Where a change is meant, tests/abi/renew writes them anew."""

import subprocess
from pathlib import Path

from dump import BASELINE, dump
from generator import layout
from generator.public import UMBRELLA, public_interface
from project import INCLUDE

LAYOUT = Path(__file__).with_name("layout.txt")


def test_layout_is_the_committed_one():
    actual = layout.probed(public_interface(), INCLUDE, [UMBRELLA])
    assert actual == LAYOUT.read_text(), "if this is meant: DC_ABI_VERSION, then tests/abi/renew"


def test_library_is_compatible_with_the_baseline(tmp_path):
    actual = tmp_path / "actual.abi"
    dump(actual)
    result = subprocess.run(["abidiff", BASELINE, actual], capture_output=True, text=True)
    assert result.returncode == 0, f"{result.stdout}\nif this is meant: DC_ABI_VERSION, then tests/abi/renew"
