"""The code of docs/guide-sampler.md does what the guide says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ddpcache import Sampler, Topology

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide-sampler.md"


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(GUIDE), "exec"), names)
    return names


def ranks(nodes: int, local_size: int) -> list[Topology]:
    return [Topology(node, nodes, rank, local_size) for node in range(nodes) for rank in range(local_size)]


def test_a_cache_with_room_for_the_windows_and_the_exchange_hits_all_but_the_new_samples(guide, open_cache):
    cache = open_cache(length=4000, sample_bytes=64, capacity="4MiB", droppable=True)
    sampler = Sampler(4000, exchange=0.1, topology=Topology(2, 4))
    most, decoded, seen = 0, Counter(), set()
    for epoch in range(12):
        guide["enter"](sampler, cache, epoch)
        for index in sampler:
            if index not in cache:
                cache[index] = np.full(64, index % 251, dtype=np.uint8)
                decoded[epoch] += 1
        assert all((cache[index] == index % 251).all() for index in sampler.read(0, 50).tolist())
        most = max(most, int(cache.residency().sum()))
        seen |= set(sampler)
    assert decoded[0] == 1000 and all(decoded[epoch] == 100 for epoch in range(1, 12))
    assert most == 1100 and len(seen) == 1000 + 11 * 100


def test_training_goes_on_where_it_was_stopped(guide):
    trained: list[tuple[int, int]] = []
    state = None
    for layout, stop in (((2, 2), 40), ((3, 1), 37), ((1, 2), None)):
        samplers = [Sampler(1200, canonical_nodes=6, topology=place) for place in ranks(*layout)]
        loops = [guide["epochs"](sampler, state, 3) for sampler in samplers]
        batches = 0
        for epochs_of_ranks in zip(*loops, strict=True):
            for batch in range(-(-len(samplers[0]) // 4)):
                for sampler, epoch in zip(samplers, epochs_of_ranks, strict=True):
                    count = min(4, len(sampler) - batch * 4)
                    trained += [(epoch, index) for index in sampler.read(batch * 4, count).tolist()]
                batches = batch + 1
                if batches == stop:
                    break
            if batches == stop:
                break
        states = {guide["checkpoint"](sampler, batches, 4) for sampler in samplers}
        assert len(states) == 1
        state = states.pop()
    assert sorted(trained) == [(epoch, index) for epoch in range(3) for index in range(1200)]


def test_a_subset_stays_on_its_nodes_and_every_rank_has_as_many(guide):
    member = np.random.default_rng(1).random(5000) < 0.3
    previous = None
    for epoch in (0, 1):
        per_node = []
        sizes = set()
        for node in range(3):
            samplers = [Sampler(5000, topology=Topology(node, 3, rank, 4)) for rank in range(4)]
            own = [guide["SubsetSampler"](sampler, member, seed=5) for sampler in samplers]
            for subset in own:
                subset.set_epoch(epoch)
            dealt = [index for subset in own for index in subset]
            sizes |= {len(list(subset)) for subset in own} | {len(subset) for subset in own}
            assert set(dealt) == {index for index in samplers[0].shard().tolist() if member[index]}
            per_node.append(dealt)
        assert len(sizes) == 1
        assert set().union(*per_node) == set(np.flatnonzero(member).tolist())
        assert per_node != previous
        previous = per_node


def test_pages_are_the_shard(guide):
    sampler = Sampler(5000, topology=Topology(1, 3))
    assert np.concatenate(list(guide["pages"](sampler, 100))).tolist() == sampler.shard().tolist()


def test_weighted_draws_are_in_proportion_and_from_the_nodes_own(guide):
    weights = np.where(np.arange(4000) % 4 == 0, 5.0, 1.0)
    weights[7::10] = 0
    drawn: Counter[int] = Counter()
    for place in ranks(2, 2):
        sampler = Sampler(4000, topology=place)
        weighted = guide["WeightedSampler"](sampler, weights, seed=2)
        own, orders = set(sampler.shard().tolist()), set()
        for epoch in range(200):
            weighted.set_epoch(epoch)
            order = list(weighted)
            assert len(order) == len(weighted) == 1000 and own.issuperset(order)
            drawn.update(order)
            orders.add(tuple(order))
        assert len(orders) == 200
    assert not any(drawn[index] for index in range(7, 4000, 10))
    counts = np.array([drawn[index] for index in range(4000)])
    expected = weights / weights.sum() * counts.sum()
    # By class, 800,000 draws: the noise is below 0.1 %; the nodes' sums differ by a few percent at most.
    for weight in (1.0, 5.0):
        chosen = weights == weight
        assert counts[chosen].sum() == pytest.approx(expected[chosen].sum(), rel=0.02)
