"""What a data-loader worker knows of the cores that it shares."""

from __future__ import annotations

import os
from pathlib import Path

import torch.utils.data


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The cores that this process may run on, or fewer where its container (cgroup v2) has a quota of CPU time."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return cores if quota == "max" else min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores


def has_idle_core() -> bool:
    """Whether this is a worker that may run on more cores than there are ranks and workers on its node.

    Ranks are counted by LOCAL_WORLD_SIZE, which torchrun sets, and are taken to have as many workers as this one has.
    """
    worker = torch.utils.data.get_worker_info()
    if worker is None:
        return False
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    busy = (worker.num_workers + 1) * (int(ranks) if ranks.isdecimal() else 1)
    return usable_cores() >= busy + 1
