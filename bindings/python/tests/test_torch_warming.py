"""warm_up fills what the node's cache lacks, each rank a part; check_loader finds what is dealt twice."""

from pathlib import Path

import pytest
import torch
from ddpcache.torch import CachedDataset, DealtTwiceError, NodeBatchSampler, NodeSampler, check_loader, warm_up
from ddpcache.torch import DistributedSampler as OurDistributedSampler
from torch.utils.data import ConcatDataset, DataLoader, Dataset, DistributedSampler, Sampler, Subset

LENGTH = 50


class Noted(Dataset):
    """Each decode leaves a line in a file, whichever process it is in."""

    def __init__(self, notes: Path, length: int = LENGTH, size: int = 8) -> None:
        self.notes, self.length, self.size = notes, length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.notes.open("a") as notes:
            notes.write(f"{index}\n")
        return torch.full((self.size,), float(index))


def decoded(notes: Path) -> list[int]:
    return sorted(map(int, notes.read_text().split())) if notes.exists() else []


def forbidden(_):
    raise AssertionError("a transform has no part in warming up")


@pytest.mark.parametrize("workers", [0, 2])
def test_the_ranks_of_a_node_fill_its_cache_together_and_what_is_there_is_not_decoded_again(name, tmp_path, workers):
    notes, seen = tmp_path / "notes", []
    with CachedDataset(Noted(notes), name, capacity="4MiB", transform=forbidden) as data:
        data.cache.get_or_load(7, data._decode)
        for rank in range(2):
            sampler = NodeSampler(data, num_nodes=1, node=0, local_rank=rank, local_world=2)
            count = warm_up(data, sampler, num_workers=workers, batch_size=8, progress=lambda *done: seen.append(done))
            assert count == 25 - (rank == 1)
            assert seen == [(8, 25), (16, 25), (24, 25), (25, 25)]
            seen.clear()
        assert decoded(notes) == list(range(LENGTH))
        assert warm_up(data, sampler) == 0


def test_a_node_fills_what_it_holds_only(name, tmp_path):
    with CachedDataset(Noted(tmp_path / "notes"), name, capacity="4MiB") as data:
        sampler = NodeSampler(data, num_nodes=2, node=1, local_rank=0, local_world=1)
        assert warm_up(data, NodeBatchSampler(sampler, 4)) == 25
        assert decoded(tmp_path / "notes") == sorted(sampler._dealt().shard().tolist())


def test_subsets_and_concatenations_fill_the_caches_below_them(name, tmp_path):
    first, second = (Noted(tmp_path / f"notes{number}") for number in range(2))
    with CachedDataset(first, f"{name}.1", capacity="4MiB") as one, CachedDataset(second, f"{name}.2") as two:
        both = ConcatDataset([Subset(one, range(10, 30)), two])
        assert warm_up(Subset(both, [0, 19, 20, 69])) == 4
    assert decoded(first.notes) == [10, 29] and decoded(second.notes) == [0, 49]


def test_a_full_cache_ends_it(name, tmp_path):
    data = Noted(tmp_path / "notes", length=1000, size=4000)  # 262 of 16 KB fit
    with CachedDataset(data, name, capacity="4MiB") as cached:
        assert 200 < warm_up(cached, batch_size=4) < 300
        assert 200 < len(decoded(data.notes)) < 300


def test_what_has_no_cache_or_no_known_sampler_is_an_error(name, tmp_path):
    data = Noted(tmp_path / "notes")
    with pytest.raises(TypeError, match="Noted has no cache to warm up"):
        warm_up(data)
    with CachedDataset(data, name, capacity="4MiB") as cached:
        with pytest.raises(TypeError, match="takes a sampler of ddpcache.torch, not RandomSampler"):
            warm_up(cached, torch.utils.data.RandomSampler(cached))
    assert decoded(data.notes) == []


class Holding(Sampler):
    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return iter(self.inner)

    def __len__(self):
        return len(self.inner)


def node(data=range(LENGTH)):
    return NodeSampler(data, num_nodes=1, node=0, local_rank=0, local_world=2)


ONCE = {
    "ours": lambda: DataLoader(range(LENGTH), sampler=node()),
    "ours in batches": lambda: DataLoader(range(LENGTH), batch_sampler=NodeBatchSampler(node(), 4)),
    "ours in another": lambda: DataLoader(range(LENGTH), sampler=Holding(node())),
    "torch's": lambda: DataLoader(range(LENGTH), sampler=DistributedSampler(range(LENGTH), 2, 0)),
    "none": lambda: DataLoader(range(LENGTH), shuffle=True),
    "one rank": lambda: DataLoader(
        range(LENGTH), sampler=DistributedSampler(Holding(DistributedSampler(range(LENGTH), 1, 0)), 2, 0)
    ),
}


@pytest.mark.parametrize("kind", ONCE)
def test_samples_that_are_dealt_once_or_not_at_all_pass(kind):
    check_loader(ONCE[kind]())


class Deals(Holding):
    """As a trainer's wrapper: deals another sampler's indices to ranks."""

    num_replicas = 2


@pytest.mark.parametrize("inner", [node, lambda: OurDistributedSampler(range(LENGTH), 2, 0), lambda: Holding(node())])
def test_samples_that_are_dealt_twice_are_an_error(inner):
    with pytest.raises(DealtTwiceError, match="dealt to the ranks 2 times, by ddpcache.*Sampler and then by .*Deals"):
        check_loader(DataLoader(range(LENGTH), sampler=Deals(inner())))
