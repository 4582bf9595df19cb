"""The order NODE of the installed library against sampler_model.py, which has the library's own bijection put in.

The model is the specification, written as lists; here it deals with the permutations that dc_permutation gives for the
keys of DESIGN, so that everything else about the order must be the same to the index.
"""

import itertools
import random
from functools import lru_cache

import pytest
import sampler_model
from project import INSTALL
from sampler_library import DROP, EMPTY, EXACT, INNER, PAD, RING, Failure, Sampler, load, permutation

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


@pytest.fixture(autouse=True)
def model_with_the_real_bijection(monkeypatch):
    monkeypatch.setattr(sampler_model, "shuffled", shuffled)


def open_sampler(spec, nodes, local, tail, rank=0, **more):
    return Sampler(
        LIBRARY,
        length=spec.length,
        seed=spec.seed,
        ring_seed=spec.ring_seed,
        shuffle=spec.shuffle,
        tail=TAILS[tail],
        nodes=nodes,
        node=rank // local,
        local_size=local,
        local_rank=rank % local,
        **more,
    )


def first_places(dealt, orders, local):
    """index -> (rank, position) of what is dealt and no repeat."""
    places = {}
    for rank, indices in enumerate(dealt):
        real = sampler_model.real_size(len(orders[rank // local]), local, rank % local)
        for position, index in enumerate(indices[:real]):
            assert index not in places
            places[index] = (rank, position)
    return places


def compare(spec, nodes, local, tail, epochs, ranks=None, found=None, **more):
    """All ranks, or those given, and the places of all indices, or of those given."""
    samplers = {}
    for rank in range(nodes * local) if ranks is None else ranks:
        samplers[rank] = open_sampler(spec, nodes, local, tail, rank, **more)
    for epoch in epochs:
        orders = sampler_model.node_orders(spec, nodes, epoch)
        dealt = sampler_model.deal(orders, local, tail)
        places = first_places(dealt, orders, local)
        for rank, sampler in samplers.items():
            sampler.set_epoch(epoch)
            assert list(sampler.read()) == dealt[rank]
            assert sampler.size() == len(dealt[rank])
            real = sampler_model.real_size(len(orders[rank // local]), local, rank % local)
            assert sampler.real_size() == min(real, len(dealt[rank]))
            assert sampler.shard() == sampler_model.window(spec, nodes, rank // local, epoch)
            for index in range(spec.length) if found is None else found:
                assert sampler.find(index) == places.get(index)
        if ranks is None:
            assert samplers[0].following() == dealt[0]
    for sampler in samplers.values():
        sampler.close()


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_small_case_is_dealt_as_the_model_deals_it(tail, shuffle):
    for length, nodes, local in itertools.product(range(13), (1, 2, 3, 4, 5), (1, 2, 3)):
        spec = sampler_model.Spec(length, seed=5, ring_seed=length % 3, shuffle=shuffle)
        if tail == "DROP" and length < nodes * local:
            with pytest.raises(Failure) as failure:
                open_sampler(spec, nodes, local, tail)
            assert failure.value.status == EMPTY
            assert f"nothing of {length} samples for {nodes * local} ranks" in str(failure.value)
        else:
            compare(spec, nodes, local, tail, epochs=(0, 1, 7))


@pytest.mark.parametrize("tail", TAILS)
def test_the_ring_can_be_the_data_sets_own_order(tail, monkeypatch):
    monkeypatch.setattr(sampler_model, "shuffled", shuffled_but_the_ring)
    for length, nodes, local in itertools.product((6, 7, 12), (1, 2, 3), (1, 2)):
        compare(sampler_model.Spec(length, seed=1), nodes, local, tail, epochs=(0, 3), ring_identity=1)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("draw", range(12))
def test_large_cases_are_dealt_as_the_model_deals_them(tail, draw):
    """Lengths on both sides of where the permutation's method changes, for the ring and for windows."""
    rng = random.Random(f"{tail} {draw}")
    length = rng.choice([1000, 4096, 4097, 8192, 8193, 12289, 50000, 100003]) + rng.randrange(3)
    nodes, local = rng.randint(1, 7), rng.randint(1, 8)
    spec = sampler_model.Spec(
        length, seed=rng.getrandbits(64), ring_seed=rng.getrandbits(64), shuffle=rng.random() < 0.8
    )
    compare(
        spec,
        nodes,
        local,
        tail,
        epochs=(0, rng.randrange(2**40)),
        ranks={0, nodes * local - 1, rng.randrange(nodes * local)},
        found=rng.sample(range(length), 200),
    )


@pytest.mark.parametrize("tail", ["PAD", "EXACT"])
def test_more_ranks_than_samples(tail):
    for length, nodes, local in ((1, 40, 1), (5, 7, 9), (3, 1, 50), (2, 64, 8)):
        compare(sampler_model.Spec(length, seed=3), nodes, local, tail, epochs=(0, 1))


def test_the_model_holds_with_the_real_bijection():
    """The model's own properties: partition, tails, resumption in stages, canonical nodes."""
    assert sampler_model.check() > 1000
