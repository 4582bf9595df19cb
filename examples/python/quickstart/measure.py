"""Counts and clocks: what each epoch did, over all ranks, and the memory of all processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from ddpcache.torch import CachedDataset
from digits import DigitFiles

BYTES_LOGGED = 4  # a decode


class Epochs:
    """Reports each epoch, and how far the first has come, on rank 0."""

    def __init__(self, count: int, data_sets: list[DigitFiles]) -> None:
        self.count = count
        self.data_sets = data_sets
        self.length = sum(map(len, data_sets))
        self.results: list[dict] = []
        self._decoded_before = 0
        self._quarters_shown = 0

    def decoded(self) -> int:
        """Decodes of all processes so far."""
        return sum(one.log.stat().st_size // BYTES_LOGGED for one in self.data_sets if one.log.exists())

    def progress(self) -> None:
        """While the first epoch warms the cache: a bar, or where there is no terminal a line each quarter."""
        if dist.get_rank() or self.results:
            return
        share = min(1.0, self.decoded() / len(self.data_sets[0]))
        if sys.stdout.isatty():
            print(f"\r  warming  [{'#' * int(30 * share):30}] {share:4.0%}", end="", flush=True)
        elif share >= (self._quarters_shown + 1) / 4:
            self._quarters_shown = int(share * 4)
            print(f"  warming  {share:4.0%}", flush=True)

    def report(self, loaded: int, right: int, judged: int, begin: float) -> None:
        """The epoch's numbers over all ranks."""
        totals = torch.tensor([loaded, right, judged])
        dist.all_reduce(totals)  # also waits for all
        loaded, right, judged = totals.tolist()
        seconds = time.perf_counter() - begin
        decoded = self.decoded() - self._decoded_before
        self._decoded_before += decoded
        hits = loaded - decoded
        self.results.append(
            {"loaded": loaded, "decoded": decoded, "judged": judged, "accuracy": right / judged, "seconds": seconds}
        )
        if dist.get_rank() == 0:
            over_the_bar = "\r" if sys.stdout.isatty() else ""
            print(
                f"{over_the_bar}  epoch {len(self.results)}/{self.count}  decoded {decoded:5}  hits {hits:5}  "
                f"hit rate {hits / loaded:6.1%}  {seconds:5.1f} s  accuracy {right / judged:6.1%}",
                flush=True,
            )
        dist.barrier()


def descendants(pid: int) -> list[int]:
    """A process and all that it started, and they."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def payload_bytes(data_sets: list) -> int:
    """The samples that all ranks' caches hold; one that ranks share counts once."""
    mine = {}
    for data_set in data_sets:
        if isinstance(data_set, CachedDataset):
            mine[data_set.cache.info.uuid] = data_set.cache.stats().bytes_filled
        else:
            mine[f"{id(data_set)} of rank {dist.get_rank()}"] = data_set.payload_bytes()
    everyone = [mine] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return sum({name: size for one in everyone for name, size in one.items()}.values())


def memory_bytes(name: str) -> int:
    """The memory of the ranks, their workers and servers, and of their caches.

    A process's PSS is its share of the memory that it touches. Of shared memory it counts only what some process has
    mapped in at the moment, so that caches are counted by what their files occupy instead.
    """
    ranks = [0] * dist.get_world_size()
    dist.all_gather_object(ranks, os.getpid())
    private = 0
    for pid in {one for rank in ranks for one in descendants(rank)}:
        sizes = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        private += 1024 * (int(sizes["Pss:"]) - int(sizes["Pss_Shmem:"]))
    files = Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.{name}-*")
    total = private + sum(file.stat().st_blocks * 512 for file in files)
    dist.barrier()
    return total
