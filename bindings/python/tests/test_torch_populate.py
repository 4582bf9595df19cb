"""CachedDataset and the thread that maps a cache's pages: who calls for it, and when."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch.utils.data
from ddpcache.torch import CachedDataset, CachedLoader, _workers
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return np.full(500_000, index, np.uint8)


@pytest.mark.parametrize(
    ("workers", "ranks", "cores", "expected"),
    [
        (None, "1", 64, False),
        (3, None, 4, False),
        (3, None, 5, True),
        (3, "2", 8, False),
        (3, "2", 9, True),
        (1, "x", 3, True),
    ],
)
def test_a_core_is_idle_where_there_are_more_than_ranks_and_workers(monkeypatch, workers, ranks, cores, expected):
    info = None if workers is None else SimpleNamespace(num_workers=workers)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)
    monkeypatch.setattr(_workers, "usable_cores", lambda: cores)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert _workers.has_idle_core() is expected


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 8), ("max 100000", 8), ("250000 100000", 2.5), ("1600000 100000", 8), ("?", 8)]
)
def test_cores_are_those_of_the_affinity_or_of_the_quota(monkeypatch, tmp_path, limit, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    if limit is not None:
        (tmp_path / "cpu.max").write_text(limit + "\n")
    assert _workers.usable_cores(tmp_path) == expected


class Watched(CachedDataset):
    """Says how often its cache was asked to populate: by the process that made it, and by this one."""

    calls = 0

    def _populate(self):
        super()._populate()
        self.calls += 1

    def __getitems__(self, indices):
        return [(sample[0], self.calls) for sample in super().__getitems__(indices)]


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_each_worker_asks_once(name, start_method):
    with Watched(Images(), name, populate=True) as dataset:
        dataset[0]
        loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=start_method)
        for _ in range(2):
            rows = [[int(number) for number in row] for batch in loader for row in zip(*batch, strict=True)]
            assert sorted(first for first, _ in rows) == list(range(64))
            assert {calls for _, calls in rows} == {2}, "the parent's once, and the worker's once"


def mapped_kilobytes(inode: int) -> int:
    """How much of the read-only mapping of a file this process has in its page tables."""
    found = 0
    with open("/proc/self/smaps") as maps:
        mine = False
        for line in maps:
            if "-" in line.split(" ", 1)[0] and ":" not in line.split(" ", 1)[0]:
                mine = f" {inode} " in line and " r--s " in line
            elif mine and line.startswith("Rss:"):
                found += int(line.split()[1])
    return found


@pytest.mark.parametrize("read", [lambda dataset: dataset[0], lambda dataset: next(iter(CachedLoader(dataset)))])
def test_the_pages_of_a_filled_cache_are_mapped_without_being_read(name, read):
    with CachedDataset(Images(), name, populate=False) as dataset:
        for index in range(64):
            dataset[index]
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            inode = os.stat(f"/dev/shm/ddpcache.{os.getuid()}.{name}").st_ino
            before, dataset.populate = mapped_kilobytes(inode), True
            read(dataset)
            deadline = time.monotonic() + 60
            while mapped_kilobytes(inode) < 64 * 500_000 // 1024 and time.monotonic() < deadline:
                time.sleep(0.001)
            os.write(writer, f"{before} {mapped_kilobytes(inode)}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        before, after = map(int, os.read(reader, 100).split())
        os.close(reader)
        os.close(writer)
        assert before < 1000 and after >= 64 * 500_000 // 1024
