"""The order NODE of the installed library, epoch by whole epoch, against the model."""

import itertools
import random

import node_model
import pytest
import sampler_model
from node_model import TAILS, check_rank, first_places, open_sampler, shard, shuffled_but_the_ring
from sampler_library import EMPTY, Failure


@pytest.fixture(autouse=True)
def model_with_the_real_bijection(monkeypatch):
    monkeypatch.setattr(sampler_model, "shuffled", node_model.shuffled)


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
            check_rank(sampler, rank, local, orders, dealt)
            own = shard(spec, nodes, rank // local, epoch)
            assert sampler.shard() == own
            kept = {*own, *(shard(spec, nodes, rank // local, epoch - 1) if epoch else ())}
            for index in range(spec.length) if found is None else found:
                assert sampler.find(index) == places.get(index)
                assert sampler.keeps(index) == (index in kept)
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
        length,
        seed=rng.getrandbits(64),
        ring_seed=rng.getrandbits(64),
        shuffle=rng.random() < 0.8,
        exchange_ppm=rng.choice([0, rng.randint(1, 10**6)]),
        canonical=nodes * rng.choice([0, 0, 1, 2, 5, 100]),
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


@pytest.mark.parametrize("tail", TAILS)
def test_windows_move_as_the_model_moves_them(tail):
    for length, nodes, ppm in itertools.product((1, 7, 12, 13), (1, 2, 3, 5), (1, 100_000, 370_000, 10**6)):
        spec = sampler_model.Spec(length, seed=2, exchange_ppm=ppm)
        if tail != "DROP" or length >= nodes:
            compare(spec, nodes, 1, tail, epochs=(0, 1, 2, 3, 10, 2**40 - 1))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_canonical_windows_are_dealt_as_the_model_deals_them(tail, shuffle):
    for length, nodes, share, local in itertools.product(range(1, 30, 4), (1, 2, 3), (1, 2, 3, 7), (1, 2, 3)):
        spec = sampler_model.Spec(
            length, seed=3, shuffle=shuffle, canonical=nodes * share, exchange_ppm=length % 3 * 250_000
        )
        if tail != "DROP" or length >= nodes * local:
            compare(spec, nodes, local, tail, epochs=(0, 5))


@pytest.mark.parametrize("tail", ["PAD", "EXACT"])
def test_more_ranks_than_samples(tail):
    for length, nodes, local in ((1, 40, 1), (5, 7, 9), (3, 1, 50), (2, 64, 8)):
        compare(sampler_model.Spec(length, seed=3), nodes, local, tail, epochs=(0, 1))


def test_the_model_holds_with_the_real_bijection():
    """The model's own properties: partition, tails, resumption in stages, canonical nodes."""
    assert sampler_model.check() > 1000
