"""The installed library's order NODE beside sampler_model.py, which has the library's own bijection put in.

The model is the specification, written as lists; here it deals with the permutations that dc_permutation gives for the
keys of DESIGN, so that everything else about the order must be the same to the index.
"""

import itertools
from functools import lru_cache

import sampler_model
from project import INSTALL
from sampler_library import DROP, EXACT, INNER, PAD, RING, Sampler, load, permutation

TAILS = {"PAD": PAD, "DROP": DROP, "EXACT": EXACT}
LIBRARY = load(INSTALL / "lib" / "libddpcache.so")


@lru_cache(maxsize=4096)
def shuffled(length, key):
    match key:
        case ("ring", ring_seed):
            return permutation(LIBRARY, length, ring_seed, 0, 0, RING)
        case ("inner", seed, epoch, window):
            return permutation(LIBRARY, length, seed, epoch, window, INNER)


def shuffled_but_the_ring(length, key):
    return tuple(range(length)) if key[0] == "ring" else shuffled(length, key)


def open_sampler(spec, nodes, local, tail, rank=0, **more):
    return Sampler(
        LIBRARY,
        length=spec.length,
        seed=spec.seed,
        ring_seed=spec.ring_seed,
        shuffle=spec.shuffle,
        exchange_ppm=spec.exchange_ppm,
        canonical_nodes=spec.canonical,
        tail=TAILS[tail],
        nodes=nodes,
        node=rank // local,
        local_size=local,
        local_rank=rank % local,
        **more,
    )


def shard(spec, nodes, node, epoch):
    """What a node holds, in ring order: its windows are neighbours."""
    windows = spec.canonical or nodes
    share = windows // nodes
    own = range(node * share, (node + 1) * share)
    return list(itertools.chain.from_iterable(sampler_model.window(spec, windows, c, epoch) for c in own))


def first_places(dealt, orders, local):
    """index -> (rank, position) of what is dealt and no repeat."""
    places = {}
    for rank, indices in enumerate(dealt):
        real = sampler_model.real_size(len(orders[rank // local]), local, rank % local)
        for position, index in enumerate(indices[:real]):
            assert index not in places
            places[index] = (rank, position)
    return places


def check_rank(sampler, rank, local, orders, dealt):
    """One sampler in its current epoch against the model's orders (one a node) and dealt indices (one list a rank)."""
    assert list(sampler.read()) == dealt[rank]
    assert sampler.size() == len(dealt[rank])
    real = sampler_model.real_size(len(orders[rank // local]), local, rank % local)
    assert sampler.real_size() == min(real, len(dealt[rank]))
