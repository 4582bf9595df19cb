"""Stopping and resuming an epoch of NODE against the model's Epoch and Stage."""

import itertools
import random

import node_model
import pytest
import sampler_model
from node_model import TAILS, check_rank, first_places, open_sampler, shard
from sampler_library import Failure
from sampler_model import Epoch, Spec, Stage

LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 2)]


@pytest.fixture(autouse=True)
def model_with_the_real_bijection(monkeypatch):
    monkeypatch.setattr(sampler_model, "shuffled", node_model.shuffled)


def deal(orders, local, tail):
    """As the model's, but that DROP deals nothing where too little is left: an epoch may end so."""
    if tail == "DROP" and sum(map(len, orders)) < len(orders) * local:
        return [[] for _ in range(len(orders) * local)]
    return sampler_model.deal(orders, local, tail)


def fits(spec, layout, tail):
    return tail != "DROP" or spec.length >= layout[0] * layout[1]


def resume_and_check(epoch, state, layout, tail, ranks=None, found=None):
    """Loads the state into samplers of a layout, compares them with the model, and gives the first one."""
    nodes, local = layout
    orders = epoch.orders(nodes)
    dealt = deal(orders, local, tail)
    places = first_places(dealt, orders, local)
    first = None
    for rank in range(nodes * local) if ranks is None else ranks:
        sampler = open_sampler(epoch.spec, nodes, local, tail, rank)
        sampler.load(state)
        check_rank(sampler, rank, local, orders, dealt)
        for index in range(epoch.spec.length) if found is None else found:
            assert sampler.find(index) == places.get(index)
        if first is None:
            first = sampler
        else:
            assert sampler.save(0) == first.save(0)
            sampler.close()
    return first, max(map(len, dealt))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("length", range(10))
def test_every_small_epoch_is_resumed_as_the_model_resumes_it(tail, length):
    """Stopped after any number of samples, resumed under any layout, stopped again and resumed again."""
    spec = Spec(length, seed=5)
    for first in LAYOUTS:
        if not fits(spec, first, tail):
            continue
        with open_sampler(spec, *first, tail) as sampler:
            sampler.set_epoch(3)
            states = [sampler.save(used) for used in range(-(-length // (first[0] * first[1])) + (tail != "DROP"))]
        for used, state in enumerate(states):
            for second in LAYOUTS:
                if not fits(spec, second, tail):
                    continue
                stages = [Stage(*first, used)]
                resumed, size = resume_and_check(Epoch(spec, 3, stages), state, second, tail)
                for used2 in {0, size // 2, size}:
                    epoch = Epoch(spec, 3, [*stages, Stage(*second, used2)])
                    for third in LAYOUTS[1:4]:
                        if fits(spec, third, tail):
                            resume_and_check(epoch, resumed.save(used2), third, tail)[0].close()
                resumed.close()


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("draw", range(8))
def test_large_epochs_are_resumed_as_the_model_resumes_them(tail, draw):
    rng = random.Random(f"{tail} {draw}")
    length = rng.choice([500, 4097, 20000, 50021])
    canonical = rng.choice([0, 0, 12, 120])
    nodes_of = [n for n in range(1, 9) if canonical % n == 0]
    spec = Spec(
        length,
        seed=rng.getrandbits(64),
        ring_seed=rng.getrandbits(64),
        shuffle=rng.random() < 0.8,
        exchange_ppm=rng.choice([0, 123_456]),
        canonical=canonical,
    )
    number = rng.randrange(1, 100)
    layout = (rng.choice(nodes_of), rng.randint(1, 4))
    sampler, size = open_sampler(spec, *layout, tail), length // (layout[0] * layout[1])
    sampler.set_epoch(number)
    epoch = Epoch(spec, number)
    for _ in range(6):
        used = rng.randint(0, size // 2)
        epoch.stages.append(Stage(*layout, used))
        state = sampler.save(used)
        sampler.close()
        layout = (rng.choice(nodes_of), rng.randint(1, 4))
        ranks = sorted({0, layout[0] * layout[1] - 1, rng.randrange(layout[0] * layout[1])})
        sampler, size = resume_and_check(epoch, state, layout, tail, ranks, rng.sample(range(length), 100))
    sampler.close()


def test_a_change_of_nodes_or_exchange_counts_from_the_next_epoch_on():
    """s0 becomes the old s(e), and e0 becomes e: the model's spec of the epochs that follow."""
    for length, ppm, new_ppm, nodes, new_nodes in itertools.product(
        (13, 1000), (0, 100_000), (0, 100_000, 999_999), (1, 2, 3), (1, 2, 4)
    ):
        old = Spec(length, seed=4, exchange_ppm=ppm)
        with open_sampler(old, nodes, 1, "PAD") as sampler:
            sampler.set_epoch(7)
            state = sampler.save(2)
        changed = ppm != new_ppm or nodes != new_nodes
        e0, s0 = (8, sampler_model.shift(old, nodes, 8)) if changed else (0, 0)
        new = Spec(length, seed=4, exchange_ppm=new_ppm, e0=e0, s0=s0)
        for rank in range(new_nodes):
            with open_sampler(new, new_nodes, 1, "PAD", rank) as sampler:
                sampler.load(state)
                for epoch in (8, 9, 20, 3):  # 3: the line goes on backwards
                    sampler.set_epoch(epoch)
                    orders = sampler_model.node_orders(new, new_nodes, epoch)
                    check_rank(sampler, rank, 1, orders, deal(orders, 1, "PAD"))
                    assert sampler.shard() == shard(new, new_nodes, rank, epoch)
                # And what a second job takes over, in an epoch after the change.
                sampler.set_epoch(20)
                again = sampler.save(1)
            with open_sampler(new, new_nodes, 1, "PAD", rank) as sampler:
                sampler.load(again)
                sampler.set_epoch(30)
                assert sampler.shard() == shard(new, new_nodes, rank, 30)


def test_states_of_other_samplers_are_refused():
    state = open_sampler(Spec(100, seed=1), 2, 1, "PAD").save(5)
    with pytest.raises(Failure, match="seed 1, and this one has seed 2"):
        open_sampler(Spec(100, seed=2), 2, 1, "PAD").load(state)
