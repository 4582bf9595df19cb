"""Epochs of CachedLoader against DataLoader's, and against memcpy: in a cache that has filled, and in an empty one.

Always on the wall: most of what is measured happens in other threads and processes.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from ddpcache.torch import CachedDataset, CachedLoader
from support import measure
from torch.utils.data import DataLoader, Dataset

SHAPE = (3, 224, 224)
SAMPLE_BYTES = 3 * 224 * 224
BATCH, WORKERS = 64, 2
WARM, COLD = 4096, 512
COLD_ROUNDS = 7
# As many as a loader has in turn: one with the user, the one that is asked for, and the next.
BUFFERS = 3


class Images(Dataset):
    """Compressed images, six times as large as what is kept of them: decoding one takes 3 ms."""

    def __init__(self, length: int) -> None:
        self.length = length
        levels = np.random.default_rng(1).integers(0, 16, (6, SAMPLE_BYTES), dtype=np.uint8)
        self.packed = zlib.compress(levels.tobytes(), 1)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = np.frombuffer(zlib.decompress(self.packed), np.uint8)[::6].copy()
        image[:8] = np.frombuffer(index.to_bytes(8, "little"), np.uint8)
        return torch.from_numpy(image).view(SHAPE), index


def check(loader: Iterable[Any], order: list[int]) -> None:
    """What is timed is also right."""
    labels = []
    for images, numbers in loader:
        first = images.reshape(len(images), -1)[:, :8].contiguous().view(torch.int64)
        assert torch.equal(first[:, 0], numbers)
        labels += numbers.tolist()
    assert labels == order


def rate(body: Callable[[], object], amount: float) -> float:
    begin = time.perf_counter()
    body()
    return amount / (time.perf_counter() - begin)


def epoch(loader: Iterable[Any]) -> None:
    for _ in loader:
        pass


def warm() -> None:
    with CachedDataset(Images(WARM), f"bench-{os.getpid()}-warm", capacity="900MB") as dataset:
        order = torch.randperm(WARM, generator=torch.Generator().manual_seed(1)).tolist()
        check(DataLoader(dataset, BATCH, sampler=order), order)
        samples = [dataset.cache.get(index, view=True)[0].numpy() for index in range(WARM)]
        buffers = [np.empty((BATCH, *SHAPE), np.uint8) for _ in range(BUFFERS)]

        def memcpy() -> None:
            for first in range(0, WARM, BATCH):
                buffer = buffers[first // BATCH % BUFFERS]
                for place in range(BATCH):
                    buffer[place] = samples[order[first + place]]

        without: dict[str, Any] = {"batch_size": BATCH, "sampler": order}
        with_workers = {**without, "num_workers": WORKERS, "persistent_workers": True}
        loaders = {
            "without workers": {
                "CachedLoader": CachedLoader(dataset, **without),
                "memcpy on one core": None,
                "DataLoader with none": DataLoader(dataset, **without),
            },
            f"{WORKERS} workers": {
                "CachedLoader": CachedLoader(dataset, **with_workers),
                "memcpy on one core": None,
                f"DataLoader with {WORKERS}": DataLoader(dataset, **with_workers),
            },
        }
        gigabytes = WARM * SAMPLE_BYTES / 1e9
        for row, sides in loaders.items():
            for loader in filter(None, sides.values()):
                check(loader, order)
            bodies = {
                name: (lambda loader=loader: rate((lambda: epoch(loader)) if loader else memcpy, gigabytes))
                for name, loader in sides.items()
            }
            facts = {"sample_bytes": SAMPLE_BYTES, "samples": WARM, "batch": BATCH}
            measure(f"warm epoch, {BATCH} of 150 KB, {row}", "GB/s", bodies, facts)


def cold() -> None:
    images = Images(COLD)
    numbers = iter(range(1000))

    def side(kind: Any, cached: bool) -> Callable[[], float]:
        def once() -> float:
            if not cached:
                return rate(lambda: epoch(kind(images, BATCH, num_workers=WORKERS)), COLD)
            with CachedDataset(images, f"bench-{os.getpid()}-cold{next(numbers)}", capacity="200MB") as dataset:
                return rate(lambda: epoch(kind(dataset, BATCH, num_workers=WORKERS)), COLD)

        return once

    sides = {
        "CachedLoader": side(CachedLoader, True),
        f"DataLoader with {WORKERS}": side(DataLoader, True),
        f"DataLoader with {WORKERS}, no cache": side(DataLoader, False),
    }
    facts = {"sample_bytes": SAMPLE_BYTES, "samples": COLD, "batch": BATCH, "rounds": COLD_ROUNDS}
    measure(f"cold epoch, {BATCH} of 150 KB, {WORKERS} workers", "samples/s", sides, facts, COLD_ROUNDS)


def main() -> None:
    torch.set_num_threads(1)  # as torchrun sets it for ranks
    warm()
    cold()


if __name__ == "__main__":
    main()
