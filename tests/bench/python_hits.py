"""A hit from Python on 150 KB, against stocaching's get_slot and against a Manager's dict."""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing
import os
import random
from collections.abc import Callable

import ddpcache
import numpy as np
import stocaching
import torch
from support import measure, seconds

SHAPE = (150_000,)
SAMPLES = 1024
# A Manager keeps a descriptor open for each tensor that it holds.
MANAGED = 64
CALLS, MANAGED_CALLS = 4096, 64


def nanoseconds(get: Callable[[int], object], samples: int, calls: int) -> Callable[[], float]:
    """A side: `calls` hits in random order, in nanoseconds each."""
    order = [random.Random(1).randrange(samples) for _ in range(calls)]

    def loop() -> None:
        for index in order:
            get(index)

    return lambda: seconds(loop) / calls * 1e9


def stocaching_cache(samples: list[np.ndarray]) -> stocaching.SharedCache:
    with contextlib.redirect_stdout(io.StringIO()):  # it says what it allocates
        cache = stocaching.SharedCache(1, SAMPLES, SHAPE, torch.uint8)
    for index, sample in enumerate(samples):
        cache.set_slot(index, torch.from_numpy(sample))
    return cache


def cache_of(kind: str, samples: list) -> ddpcache.Cache:
    name = f"bench-{os.getpid()}-{kind}"
    cache = ddpcache.Cache(name, length=SAMPLES, capacity="300MB", fingerprint=None, sample_bytes_max=SHAPE[0])
    for index, sample in enumerate(samples):
        cache[index] = sample
    return cache


def check(arrays: list[np.ndarray], get: Callable[[int], object], samples: int) -> None:
    """What is timed is also right."""
    for index in range(samples):
        assert np.array_equal(np.asarray(get(index)), arrays[index]), f"sample {index} is not what was stored"


def main() -> None:
    torch.set_num_threads(1)
    generator = np.random.default_rng(1)
    arrays = [generator.integers(0, 256, SHAPE, dtype=np.uint8) for _ in range(SAMPLES)]
    tensors = [torch.from_numpy(array) for array in arrays]
    peer = stocaching_cache(arrays)
    facts = {"sample_bytes": SHAPE[0], "samples": SAMPLES}
    with (
        multiprocessing.Manager() as manager,
        cache_of("numpy", arrays) as of_arrays,
        cache_of("torch", tensors) as of_tensors,
    ):
        managed_arrays = manager.dict(enumerate(arrays[:MANAGED]))
        managed_tensors = manager.dict(enumerate(tensors[:MANAGED]))
        rows = {
            "Python hit, NumPy view": (of_arrays.get, managed_arrays, "ndarrays"),
            "Python hit, torch view": (functools.partial(of_tensors.get, view=True), managed_tensors, "tensors"),
        }
        for row, (get, managed, kind) in rows.items():
            check(arrays, get, SAMPLES)
            check(arrays, peer.get_slot, SAMPLES)
            check(arrays, managed.__getitem__, MANAGED)
            sides = {
                "ddpcache": nanoseconds(get, SAMPLES, CALLS),
                "stocaching get_slot": nanoseconds(peer.get_slot, SAMPLES, CALLS),
                f"Manager().dict() of {kind}": nanoseconds(managed.__getitem__, MANAGED, MANAGED_CALLS),
            }
            measure(row, "ns", sides, facts)


if __name__ == "__main__":
    main()
