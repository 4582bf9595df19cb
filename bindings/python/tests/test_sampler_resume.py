"""Exchange, canonical nodes and resuming as Python sees them; tests/model proves that the orders are right."""

from __future__ import annotations

import copy
import pickle

import ddpcache
import pytest
from ddpcache import Sampler, Topology


def ranks(nodes: int, local_size: int) -> list[Topology]:
    return [Topology(node, nodes, rank, local_size) for node in range(nodes) for rank in range(local_size)]


def test_a_node_keeps_its_window_and_the_last_ones():
    sampler = Sampler(1000, exchange=0.1, topology=Topology(1, 4))
    last: set[int] = set()
    for epoch in range(12):
        sampler.set_epoch(epoch)
        held = set(sampler.shard().tolist())
        assert held == set(sampler) and len(held) == sampler.shard_size == 250
        assert {index for index in range(1000) if sampler.keeps(index)} == held | last
        if epoch:
            assert len(held - last) == 25
        last = held


def test_canonical_nodes_make_the_same_global_batches_whatever_the_layout():
    def batches(nodes, local_size):
        samplers = [Sampler(960, canonical_nodes=4, seed=2, topology=place) for place in ranks(nodes, local_size)]
        each = 48 // len(samplers)
        return [
            sorted(i for sampler in samplers for i in sampler.read(t * each, each).tolist()) for t in range(960 // 48)
        ]

    expected = batches(1, 1)
    for layout in ((1, 3), (2, 1), (2, 4), (4, 1), (4, 3)):
        assert batches(*layout) == expected


@pytest.mark.parametrize("tail", ["pad", "exact"])
def test_an_epoch_is_finished_under_other_layouts(tail):
    seen: list[int] = []
    state = None
    for layout, consumed in (((2, 2), 70), ((3, 1), 50), ((1, 4), 10)):
        samplers = [Sampler(1000, tail=tail, exchange=0.2, topology=place) for place in ranks(*layout)]
        for sampler in samplers:
            sampler.set_epoch(4)
            if state is not None:
                sampler.load_state(state)
            assert sampler.epoch == 4
            seen += sampler.read(0, consumed).tolist()
        states = {sampler.save_state(consumed) for sampler in samplers}
        assert len(states) == 1 and len(seen) == len(set(seen))
        state = states.pop()
    for place in ranks(4, 2):
        sampler = Sampler(1000, tail=tail, exchange=0.2, topology=place)
        sampler.load_state(state)
        seen += sampler.read(0, sampler.real_size).tolist()
    assert sorted(seen) == list(range(1000))


def test_the_loaded_epoch_keeps_its_rest_and_others_are_whole():
    sampler = Sampler(100, epoch=3)
    whole = list(sampler)
    sampler.load_state(sampler.save_state(40))
    assert len(sampler) == 60 and list(sampler) == whole[40:]
    sampler.set_epoch(3)
    assert list(sampler) == whole[40:]
    assert sampler.find(whole[39]) is None and sampler.find(whole[45]) == (0, 5)
    sampler.set_epoch(4)
    assert len(sampler) == 100
    sampler.set_epoch(3)
    assert list(sampler) == whole


def test_copies_stand_where_the_original_stands():
    saved = Sampler(900, exchange=0.3, epoch=5, topology=Topology(0, 3))
    sampler = Sampler(900, exchange=0.1, topology=Topology(1, 2))
    sampler.load_state(saved.save_state(100))
    for epoch in (5, 6, 9, 5, 0):  # resumed, after the change, and the same epoch as a whole one
        sampler.set_epoch(epoch)
        for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
            assert other.epoch == epoch and len(other) == len(sampler)
            assert list(other) == list(sampler) and other.shard().tolist() == sampler.shard().tolist()


def test_an_iteration_goes_on_though_a_state_is_loaded():
    sampler = Sampler(20_000, seed=1)
    expected = list(sampler)
    running = iter(sampler)
    first = [next(running) for _ in range(10)]
    sampler.load_state(sampler.save_state(15_000))
    assert first + list(running) == expected
    resumed = iter(sampler)
    first = [next(resumed) for _ in range(10)]
    sampler.set_epoch(1)
    assert first + list(resumed) == expected[15_000:]


def test_a_state_that_does_not_fit_says_why_and_changes_nothing():
    state = Sampler(100, seed=1).save_state(10)
    sampler = Sampler(100, seed=2)
    before = list(sampler)
    with pytest.raises(ddpcache.SamplerStateError, match="seed 1, and this one has seed 2"):
        sampler.load_state(state)
    damaged = bytearray(state)
    damaged[50] ^= 1
    for wrong in (b"", b"nonsense", state[:-1], bytes(damaged)):
        with pytest.raises((ddpcache.SamplerStateError, ValueError), match="state"):
            sampler.load_state(wrong)
    with pytest.raises(TypeError):
        sampler.load_state("text")
    assert list(sampler) == before and sampler.epoch == 0
