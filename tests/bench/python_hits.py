"""A hit from Python on 150 KB, against stocaching's get_slot and against a Manager's dict."""

from __future__ import annotations

import contextlib
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
CALLS, MANAGED_CALLS = 20 * SAMPLES, MANAGED


def random_order(samples: int, calls: int) -> list[int]:
    generator = random.Random(1)
    return [generator.randrange(samples) for _ in range(calls)]


def get_all(get: Callable[[int], object], order: list[int]) -> None:
    for index in order:
        get(index)


def get_all_views(get: Callable[..., object], order: list[int]) -> None:
    for index in order:
        get(index, view=True)


def nanoseconds(loop: Callable, get: Callable, samples: int, calls: int) -> Callable[[], float]:
    """A side: `calls` hits in random order, in nanoseconds each."""
    order = random_order(samples, calls)
    return lambda: seconds(lambda: loop(get, order)) / calls * 1e9


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
            "Python hit, NumPy view": (get_all, of_arrays.get, managed_arrays, "ndarrays"),
            "Python hit, torch view": (get_all_views, of_tensors.get, managed_tensors, "tensors"),
        }
        check(arrays, peer.get_slot, SAMPLES)
        for row, (loop, get, managed, kind) in rows.items():
            check(arrays, get, SAMPLES)
            check(arrays, managed.__getitem__, MANAGED)
            sides = {
                "ddpcache": nanoseconds(loop, get, SAMPLES, CALLS),
                "stocaching get_slot": nanoseconds(get_all, peer.get_slot, SAMPLES, CALLS),
                f"Manager().dict() of {kind}": nanoseconds(get_all, managed.__getitem__, MANAGED, MANAGED_CALLS),
            }
            measure(row, "ns", sides, facts)


if __name__ == "__main__":
    main()
