"""The sampler as Python sees it; that its orders are right is proved by tests/golden and tests/model."""

from __future__ import annotations

import copy
import gc
import pickle

import ddpcache
import numpy as np
import pytest
from ddpcache import Sampler, Topology


def ranks(nodes: int, local_size: int) -> list[Topology]:
    return [Topology(node, nodes, rank, local_size) for node in range(nodes) for rank in range(local_size)]


@pytest.mark.parametrize("order", ["node", "torch", "viscy"])
@pytest.mark.parametrize("tail", ["pad", "drop"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_all_ranks_together_deal_every_sample(order, tail, shuffle):
    samplers = [Sampler(101, order=order, tail=tail, shuffle=shuffle, seed=3, topology=place) for place in ranks(2, 3)]
    dealt = [index for sampler in samplers for index in sampler]
    assert len(dealt) == sum(map(len, samplers)) == (102 if tail == "pad" else 96)
    assert set(dealt) <= set(range(101)) and len(set(dealt)) == (101 if tail == "pad" else 96)
    assert all(type(index) is int for index in dealt)


def test_exact_deals_each_sample_once():
    samplers = [Sampler(101, tail="exact", topology=place) for place in ranks(3, 2)]
    assert sorted(index for sampler in samplers for index in sampler) == list(range(101))
    assert [sampler.real_size for sampler in samplers] == [len(sampler) for sampler in samplers]


def test_a_node_keeps_its_samples_through_the_epochs():
    sampler = Sampler(1000, topology=Topology(1, 4))
    shard = sorted(sampler.shard())
    assert sampler.shard_size == len(shard) == len(sampler) == 250
    orders = set()
    for epoch in range(5):
        sampler.set_epoch(epoch)
        assert sampler.epoch == epoch and sorted(sampler) == shard
        orders.add(tuple(sampler))
    assert len(orders) == 5
    assert sorted(np.concatenate([sampler.shard(0, 100), sampler.shard(100)])) == shard


def test_reading_finding_and_iterating_agree():
    samplers = [Sampler(1000, seed=5, epoch=2, topology=place) for place in ranks(2, 2)]
    for rank, sampler in enumerate(samplers):
        everything = sampler.read()
        assert everything.dtype == np.int64 and everything.tolist() == list(sampler)
        assert (sampler.read(10, 20) == everything[10:30]).all() and sampler.read(250).size == 0
        for position in (0, 17, 249):
            assert samplers[0].find(int(everything[position])) == (rank, position)


def test_what_drop_leaves_out_is_not_found():
    samplers = [Sampler(10, tail="drop", topology=place) for place in ranks(1, 4)]
    dealt = {index for sampler in samplers for index in sampler}
    assert [samplers[0].find(index) is None for index in range(10)] == [index not in dealt for index in range(10)]


def test_an_iteration_goes_on_in_its_epoch():
    sampler = Sampler(20_000, seed=1)
    expected = sampler.read().tolist()
    running = iter(sampler)
    first = [next(running) for _ in range(10)]
    sampler.set_epoch(1)
    assert first + list(running) == expected
    assert list(sampler) != expected


def test_samplers_are_copied_with_their_epoch():
    sampler = Sampler(500, order="torch", seed=2**64 - 1, topology=Topology(0, 1, 2, 3))
    sampler.set_epoch(7)
    for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert other.epoch == 7 and list(other) == list(sampler) and other.topology == sampler.topology
    del sampler
    gc.collect()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"length": -1}, ValueError, "-1"),
        ({"length": 2**63}, ValueError, str(2**63)),
        ({"length": "10"}, TypeError, "'10'"),
        ({"order": "random"}, ValueError, "'node', 'torch', 'viscy'.*'random'"),
        ({"tail": "wrap"}, ValueError, "'wrap'"),
        ({"order": "torch", "tail": "exact"}, ValueError, "EXACT"),
        ({"length": 3, "tail": "drop", "topology": Topology(0, 2, 0, 2)}, ddpcache.EmptyError, "3 samples"),
        ({"seed": -1}, ValueError, "seed.*-1"),
        ({"seed": 2**64}, ValueError, str(2**64)),
        ({"seed": 1.5}, TypeError, "1.5"),
        ({"epoch": -1}, ValueError, "-1"),
        ({"exchange": -0.1}, ValueError, "exchange.*-0.1"),
        ({"exchange": 1.1}, ValueError, "exchange.*1.1"),
        ({"exchange": "0.1"}, TypeError, "exchange.*'0.1'"),
        ({"exchange": 0.5, "order": "torch"}, ValueError, "exchange_ppm is 500000.*NODE only"),
        ({"canonical_nodes": 3, "topology": Topology(0, 2)}, ValueError, "canonical_nodes 3.*2 nodes"),
        ({"topology": Topology(4, 4)}, ValueError, "4"),
        ({"topology": Topology(0, 1, 3, 2)}, ValueError, "3"),
        ({"topology": Topology(0, 0)}, ValueError, "0"),
    ],
)
def test_wrong_arguments_are_named_with_their_values(arguments, error, text):
    with pytest.raises(error, match=text):
        Sampler(**{"length": 100, **arguments})


def test_wrong_calls_change_nothing():
    sampler = Sampler(100)
    expected = list(sampler)
    for call in (
        lambda: sampler.set_epoch(-1),
        lambda: sampler.set_epoch(2**40),
        lambda: sampler.read(101),
        lambda: sampler.read(50, 51),
        lambda: sampler.read(-1),
        lambda: sampler.shard(0, 101),
        lambda: sampler.find(100),
        lambda: sampler.find(-1),
        lambda: sampler.keeps(100),
        lambda: sampler.save_state(101),
        lambda: sampler.save_state(-1),
    ):
        with pytest.raises(IndexError):
            call()
    assert list(sampler) == expected and sampler.epoch == 0
    assert list(Sampler(0)) == []


def test_the_repeats_of_a_shuffled_viscy_sampler_cannot_be_told():
    with pytest.raises(ddpcache.UnsupportedError):
        _ = Sampler(10, order="viscy", topology=Topology(0, 1, 0, 3)).real_size
    assert Sampler(10, topology=Topology(0, 1, 2, 3)).real_size == 3


def test_topology_comes_from_the_launchers_variables(monkeypatch):
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(variable, raising=False)
    assert ddpcache.topology() == Topology()
    values = {
        "RANK": 5,
        "WORLD_SIZE": 8,
        "LOCAL_RANK": 1,
        "LOCAL_WORLD_SIZE": 4,
        "GROUP_RANK": 1,
        "GROUP_WORLD_SIZE": 2,
    }
    for variable, value in values.items():
        monkeypatch.setenv(variable, str(value))
    place = ddpcache.topology()
    assert (place.node, place.nodes, place.local_rank, place.local_size) == (1, 2, 1, 4)
    assert (place.rank, place.world_size, place.launcher) == (5, 8, "torchrun")
    assert Sampler(100).topology == place
    monkeypatch.setenv("RANK", "9")
    with pytest.raises(ddpcache.TopologyError, match="RANK=9") as caught:
        Sampler(100)
    assert isinstance(caught.value, ValueError)
