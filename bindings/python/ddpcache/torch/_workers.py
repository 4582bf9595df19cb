"""What a data-loader worker knows of the cores that it shares."""

from __future__ import annotations

import os

import torch.utils.data


def has_idle_core() -> bool:
    """Whether this is a worker that may run on more cores than there are ranks and workers on its node.

    Ranks are counted by LOCAL_WORLD_SIZE, which torchrun sets, and are taken to have as many workers as this one has.
    """
    worker = torch.utils.data.get_worker_info()
    if worker is None:
        return False
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    busy = (worker.num_workers + 1) * (int(ranks) if ranks.isdecimal() else 1)
    return len(os.sched_getaffinity(0)) > busy
