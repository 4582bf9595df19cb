"""One epoch's NODE order, all ranks' parts of it read by this one core, against permutations of the same length."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from support import ROUNDS, measure, seconds

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from sampler_library import NODE, PAD, Sampler, load  # noqa: E402

LENGTHS = {"10^7": 10**7, "2^23+1": 2**23 + 1}
NODES_AND_RANKS = [(1, 1), (1, 4), (4, 1), (4, 4)]
RANKS_MAX = 16
# Read by one rank; the longest takes its peers ten seconds a round.
WHOLE = {"10^6": (10**6, ROUNDS), "10^7": (10**7, ROUNDS), "10^8": (10**8, 2)}


def randperm(length: int) -> Callable[[], float]:
    order = torch.empty(length, dtype=torch.int64)
    generator = torch.Generator()
    epochs = itertools.count()

    def draw() -> None:
        generator.manual_seed(next(epochs))
        torch.randperm(length, generator=generator, out=order)

    return lambda: seconds(draw) * 1e3


def numpy_permutation(length: int) -> Callable[[], float]:
    generator = np.random.default_rng(1)
    return lambda: seconds(lambda: generator.permutation(length)) * 1e3


def node_order(library: ctypes.CDLL, length: int, nodes: int, ranks: int, memory: np.ndarray) -> Callable[[], float]:
    """A side: a new epoch's indices of all ranks of all nodes, into memory that is there already, as randperm's is."""
    samplers = [
        Sampler(
            library,
            length=length,
            order=NODE,
            tail=PAD,
            shuffle=1,
            node=node,
            nodes=nodes,
            local_rank=local_rank,
            local_size=ranks,
        )
        for node in range(nodes)
        for local_rank in range(ranks)
    ]
    count = samplers[0].size()
    address = memory.ctypes.data
    epochs = itertools.count()

    def read() -> None:
        epoch = next(epochs)
        for number, sampler in enumerate(samplers):
            begin = ctypes.cast(address + 8 * number * count, ctypes.POINTER(ctypes.c_int64))
            sampler.set_epoch(epoch)
            sampler.check(library.dc_sampler_read(sampler.handle, 0, begin, count, None))

    read()
    dealt = memory[: len(samplers) * count]
    assert dealt.min() == 0 and dealt.max() == length - 1 and np.bincount(dealt).all(), "an index was not dealt"
    return lambda: seconds(read) * 1e3


def nanoseconds_an_index(milliseconds: Callable[[], float], length: int) -> Callable[[], float]:
    return lambda: milliseconds() * 1e6 / length


def main() -> None:
    torch.set_num_threads(1)
    library = load(str(ROOT / "build" / "install" / "lib" / "libddpcache.so"))
    for label, length in LENGTHS.items():
        memory = np.zeros(length + RANKS_MAX, dtype=np.int64)
        for nodes, ranks in NODES_AND_RANKS:
            sides = {"ddpcache": node_order(library, length, nodes, ranks, memory), "torch.randperm": randperm(length)}
            row = f"NODE order of {label}, {nodes} node{'s' if nodes > 1 else ''} of {ranks}"
            measure(row, "ms", sides, {"length": length, "nodes": nodes, "ranks of a node": ranks})
    for label, (length, rounds) in WHOLE.items():
        memory = np.zeros(length, dtype=np.int64)
        sides = {
            "ddpcache": node_order(library, length, 1, 1, memory),
            "torch.randperm": randperm(length),
            "NumPy's permutation": numpy_permutation(length),
        }
        each = {name: nanoseconds_an_index(side, length) for name, side in sides.items()}
        measure(f"NODE read of {label}", "ns an index", each, {"length": length}, rounds)


if __name__ == "__main__":
    main()
