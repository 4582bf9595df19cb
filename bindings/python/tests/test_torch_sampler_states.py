"""The samplers for torch stop in an epoch and go on with its rest, under other ranks too."""

import pickle

import pytest
import torch
from ddpcache import SamplerStateError
from ddpcache.torch import DistributedSampler, NodeBatchSampler, NodeSampler, ShardedDistributedSampler
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 103
DATA = TensorDataset(torch.arange(LENGTH))


def node_sampler(rank, world, **options):
    return NodeSampler(DATA, num_nodes=1, node=0, local_rank=rank, local_world=world, **options)


def torch_sampler(rank, world):
    return DistributedSampler(DATA, num_replicas=world, rank=rank)


def viscy_sampler(rank, world):
    return ShardedDistributedSampler(DATA, num_replicas=world, rank=rank)


@pytest.mark.parametrize("make", [node_sampler, torch_sampler, viscy_sampler])
@pytest.mark.parametrize("consumed", [0, 10, 52])
def test_the_rest_of_an_epoch_is_what_was_left_and_other_epochs_are_whole(make, consumed):
    first = make(1, 2)
    first.set_epoch(3)
    whole = list(first)
    state = first.save_state(consumed)

    second = make(1, 2)
    second.set_epoch(3)
    second.load_state(state)
    assert second.epoch == 3
    # The last sample of rank 1 is a repeat, and may be another one.
    rest = whole[consumed:51]
    assert list(second)[: len(rest)] == rest and len(list(second)) == len(second) == 52 - consumed
    second.set_epoch(3)  # trainers do so after loading
    assert list(second)[: len(rest)] == rest
    copied = pickle.loads(pickle.dumps(second))
    assert list(copied) == list(second) and len(copied) == 52 - consumed
    second.set_epoch(4)
    first.set_epoch(4)
    assert list(second) == list(first) and len(second) == 52


@pytest.mark.parametrize("make", [node_sampler, torch_sampler, viscy_sampler])
def test_a_resumed_epoch_is_stopped_and_resumed_again(make):
    sampler = make(0, 2)
    sampler.set_epoch(2)
    whole = list(sampler)
    for _ in range(2):
        state = sampler.save_state(10)
        sampler = make(0, 2)
        sampler.set_epoch(2)
        sampler.load_state(state)
    assert list(sampler) == whole[20:]


@pytest.mark.filterwarnings("ignore:.*tail='exact'")
def test_other_ranks_finish_what_was_left():
    def part(sampler, count):
        return [index for index, _ in zip(sampler, range(count), strict=False)]

    before = [node_sampler(rank, 2, tail="exact") for rank in range(2)]
    for sampler in before:
        sampler.set_epoch(5)
    seen = [index for sampler in before for index in part(sampler, 20)]
    states = {sampler.save_state(20) for sampler in before}
    assert len(states) == 1
    state = states.pop()
    for rank in range(3):
        sampler = node_sampler(rank, 3, tail="exact")
        sampler.load_state(state)
        assert sampler.epoch == 5
        seen += sampler
    assert sorted(seen) == list(range(LENGTH))


@pytest.mark.parametrize("make", [torch_sampler, viscy_sampler])
def test_torchs_orders_go_on_under_the_same_number_of_ranks_only(make):
    state = make(0, 2).save_state(7)
    other = make(0, 3)
    expected = list(other)
    with pytest.raises(SamplerStateError):
        other.load_state(state)
    assert list(other) == expected


def test_a_state_of_another_data_set_is_refused_and_changes_nothing():
    sampler = node_sampler(0, 2)
    expected = list(sampler)
    state = NodeSampler(range(7), num_nodes=1, node=0, local_rank=0, local_world=2).save_state(1)
    with pytest.raises(SamplerStateError, match="103"):
        sampler.load_state(state)
    assert list(sampler) == expected


def test_batches_go_on_with_whole_ones():
    def loader():
        return DataLoader(DATA, batch_sampler=NodeBatchSampler(node_sampler(0, 2), 8))

    first = loader()
    batches = [batch[0].tolist() for batch in first]
    state = first.batch_sampler.save_state(3 * 8)
    second = loader()
    second.batch_sampler.load_state(state)
    assert len(second) == len(batches) - 3
    assert [batch[0].tolist() for batch in second] == batches[3:]
