"""The binary interface against its committed baselines. Where a change is meant, tests/abi/renew writes them anew."""

import re
import subprocess

from dump import BASELINE, dump
from layout import LAYOUT, actual_layout
from project import interface


def test_layout_is_the_committed_one(tmp_path):
    assert actual_layout(tmp_path) == LAYOUT.read_text(), "if this is meant: DC_ABI_VERSION, then tests/abi/renew"


def test_structs_have_no_hidden_padding(tmp_path):
    """Padding is memory that one language copies and another leaves undefined; reserved fields say what it is."""
    layout = actual_layout(tmp_path)
    for struct in interface().open_structs():
        block = re.search(rf"^{struct} size (\d+) align \d+\n((?:  .*\n)+)", layout, re.MULTILINE)
        sizes = [int(size) for size in re.findall(r"size (\d+)$", block[2], re.MULTILINE)]
        assert sum(sizes) == int(block[1]), struct


def test_library_is_compatible_with_the_baseline(tmp_path):
    actual = tmp_path / "actual.abi"
    dump(actual)
    result = subprocess.run(["abidiff", BASELINE, actual], capture_output=True, text=True)
    assert result.returncode == 0, f"{result.stdout}\nif this is meant: DC_ABI_VERSION, then tests/abi/renew"
