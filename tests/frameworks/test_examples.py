"""Each example of examples/frameworks trains two ranks, and each sample is decoded once on the node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "frameworks"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
# Debian's mpirun refuses root, and more ranks than cores, unless told.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl_tcp_if_include", "lo", "-n", "2"]
COMMANDS = {
    "torchrun": [*TORCHRUN, FOLDER / "torchrun_digits.py"],
    "lightning": [sys.executable, FOLDER / "lightning_digits.py"],
    "fabric": [sys.executable, FOLDER / "fabric_digits.py"],
    "accelerate": [*TORCHRUN, FOLDER / "accelerate_digits.py"],
    "ray": [sys.executable, FOLDER / "ray_digits.py"],
    "mpirun": [*MPIRUN, sys.executable, FOLDER / "mpirun_digits.py"],
}


@pytest.fixture
def folder():
    """Its path is short, since Ray makes sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="fw-"))
    yield folder
    shutil.rmtree(folder)


def processes_that_name(text: str) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in file.read_bytes():
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def run(framework: str, folder: Path) -> str:
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        "HOME": str(folder),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONWARNINGS": "ignore",
    }
    name = f"fw-{framework}-{os.getpid()}"
    command = [*COMMANDS[framework], name, "--notes", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, cwd=folder)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert not list(Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.{name}*"))
    assert not list(folder.glob("*.decodes"))
    deadline = time.monotonic() + 20
    while (left := processes_that_name(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, f"processes left behind: {left}"
    return done.stdout


@pytest.fixture(scope="module")
def trained():
    """What the model of each framework read right, as far as its test has run."""
    return {}


@pytest.mark.parametrize("framework", COMMANDS)
def test_each_sample_is_decoded_once_on_the_node(framework, folder, trained):
    printed = run(framework, folder)
    assert re.search(r"^train: 1438 of 1438 samples decoded on this node, each once$", printed, re.MULTILINE)
    assert re.search(r"^validation: 359 of 359 samples decoded on this node, each once$", printed, re.MULTILINE)
    right = re.search(r"^reads (\d+) of 359 right", printed, re.MULTILINE)
    assert right and int(right[1]) > 250
    trained[framework] = int(right[1])
    if framework == "lightning":
        epochs = re.findall(r"^epoch (\d): decoded (\d+), hit rate ([\d.]+)%, \d+ samples/s$", printed, re.MULTILINE)
        assert epochs == [("0", "0", "100.0"), ("1", "0", "100.0"), ("2", "0", "100.0")]
    if framework == "accelerate":
        assert re.search(
            "^a prepared loader: samples are dealt to the ranks 2 times, by ddpcache", printed, re.MULTILINE
        )


def test_no_framework_comes_between_the_sampler_and_the_ranks(trained):
    """The model, the seeds and the order are the same everywhere, so what was learnt is too."""
    if len(trained) < 2:
        pytest.skip("runs after the examples")
    assert len(set(trained.values())) == 1, trained


def test_the_report_finds_what_was_not_decoded_once(tmp_path):
    program = "import sys; from pathlib import Path; from digits import report; report('x', Path(sys.argv[1]), 1, 1)"
    for part, count in (("train", 1438), ("validation", 359)):
        lines = [f"{index}\n" for index in range(count)]
        (tmp_path / f"x-{part}.decodes").write_text("".join(lines + ([] if part == "train" else ["7\n"])))
    command = [sys.executable, "-c", program, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["train: 1438 of 1438 samples decoded on this node, each once"]
    assert done.stderr.strip() == "validation: not decoded once, but as often as this: {7: 2}"
