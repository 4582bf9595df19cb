"""Metrics over padded parts without their repeats are those of one process; parts of unequal size stop a job."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

JOB = Path(__file__).with_name("validation_job.py")
sys.path.insert(0, str(JOB.parent))
sys.path.insert(0, str(JOB.parents[2] / "examples" / "frameworks"))


HANG_SECONDS = 8


def torchrun(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", JOB, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)


def finished(process):
    """What was printed. Also where the test ends early, no process is left."""
    try:
        return process.communicate(timeout=300)
    finally:
        end(process)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)  # torchrun ends its ranks, which have sessions of their own
        process.wait(60)


def test_metrics_of_two_padded_ranks_are_those_of_one_process_if_repeats_do_not_count(tmp_path):
    import digits
    import validation_job

    name = f"fw-{os.getpid()}-{secrets.token_hex(4)}"
    process = torchrun("metrics", tmp_path, name)
    _, errors = finished(process)
    assert process.returncode == 0, errors[-5000:]

    data = digits.Digits("validation", tmp_path / "notes")
    images = torch.stack([data[index][0] for index in range(len(data))])
    labels = torch.tensor(data.labels)
    with torch.no_grad():
        answers = validation_job.fixed_model()(images)
    right = int((answers.argmax(1) == labels).sum())
    loss = float(torch.nn.functional.cross_entropy(answers, labels))
    assert 0 < right < len(labels) == 359

    for rank in range(2):
        results = json.loads((tmp_path / f"{rank}.json").read_text())
        assert results["samples"] == 180  # each rank: one of the 360 is a repeat
        assert results["plain"] == [right, 359]
        assert results["masked"]["accuracy"] == pytest.approx(right / 359, abs=1e-7)
        assert results["masked"]["loss"] == pytest.approx(loss, rel=1e-5)
        # Or the test would see no difference.
        assert abs(results["unmasked"]["accuracy"] - right / 359) > 1e-6


def test_nine_samples_dealt_exactly_to_two_ranks_stop_lightning_and_are_warned_of():
    process = torchrun("nine", "exact")
    try:
        # Rank 0 has a fifth batch, and rank 1 has not.
        for line in process.stdout:
            if line.strip() == "rank 0 begins step 4":
                break
        time.sleep(HANG_SECONDS)
        # It hangs, unless gloo notices that the ranks are in different calls, which is an error.
        assert process.poll() != 0
    finally:
        end(process)
    printed, errors = process.stdout.read(), process.stderr.read()
    assert "rank 1 begins step 4" not in printed and printed.count("has trained") < 2
    warning = "9 samples over 2 ranks with tail='exact': some ranks get one sample less, and a collective call"
    assert errors.count(warning) == 2


def test_nine_samples_padded_to_two_ranks_train():
    process = torchrun("nine", "pad")
    printed, errors = finished(process)
    assert process.returncode == 0, errors[-5000:]
    assert printed.count("has trained") == 2 and "tail='exact'" not in errors
    assert printed.count("begins step 4") == 2
