"""The example ddp_log says what it should, and would say so if it were not so."""

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "python" / "ddp_log.py"


def test_each_item_is_added_once_on_the_node_and_all_before_epoch_1():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    lines = re.findall(r"^rank ([012]) worker [01] adds item (\d+)$", done.stdout, re.MULTILINE)
    assert Counter(int(item) for _, item in lines) == Counter(range(50))
    assert {rank for rank, _ in lines} == {"0", "1", "2"}
    added = re.findall(r"^epoch (\d): (\d+) items added$", done.stdout, re.MULTILINE)
    assert added == [("0", "50"), ("1", "0"), ("2", "0"), ("3", "0"), ("4", "0")]
    assert not list(Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.ddp-log-*"))


@pytest.fixture
def ddp_log():
    specification = importlib.util.spec_from_file_location("ddp_log", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "items, added, found",
    [
        (range(50), [50, 0, 0, 0, 0], []),
        ([*range(50), 7], [50, 0, 0, 0, 1], ["item 7 was added 2 times", "items added by epoch: [50, 0, 0, 0, 1]"]),
        (range(49), [49, 0, 0, 0, 0], ["item 49 was added 0 times", "items added by epoch: [49, 0, 0, 0, 0]"]),
        (range(50), [49, 1, 0, 0, 0], ["items added by epoch: [49, 1, 0, 0, 0]"]),
    ],
)
def test_its_check_finds_what_is_not_so(ddp_log, tmp_path, items, added, found):
    log = tmp_path / "additions.log"
    log.write_text("".join(f"rank 0 worker 0 adds item {item}\n" for item in items))
    model = ddp_log.Model(log)
    model.added = added
    assert ddp_log.violations(model) == found
