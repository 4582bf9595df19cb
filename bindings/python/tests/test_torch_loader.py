"""CachedLoader gives the batches that DataLoader gives, whatever the samples, options and state of the cache."""

from __future__ import annotations

import gc
import itertools
import os
import random
import threading
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ddpcache
import numpy as np
import pytest
import torch
from ddpcache.torch import CachedDataset, CachedLoader, NodeBatchSampler, NodeSampler
from ddpcache.torch._loader_gather import Thread
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Subset, WeightedRandomSampler
from torch.utils.data._utils.collate import default_collate_fn_map

LENGTH = 23
Pair = namedtuple("Pair", ["image", "label"])


class Endless(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class Samples(Dataset):
    """Samples of a kind; counts what is decoded in this process."""

    def __init__(self, kind: str, length: int = LENGTH) -> None:
        self.kind, self.length, self.decoded = kind, length, 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        self.decoded += 1
        return KINDS[self.kind](index)


def image(index: int) -> torch.Tensor:
    return torch.arange(12, dtype=torch.float32).reshape(3, 4) + index


KINDS: dict[str, Callable[[int], Any]] = {
    "tensor": image,
    "array": lambda i: np.full((2, 3), i, np.int16),
    "scalar array": lambda i: np.array(i, np.int32),
    "scalar tensor": lambda i: torch.tensor(i),
    "empty": lambda i: torch.zeros(0, 3),
    "bfloat16": lambda i: torch.full((5,), i, dtype=torch.bfloat16),
    "uint16": lambda i: np.full(3, i, np.uint16),
    "bool array": lambda i: np.array([i % 2 == 0, True]),
    "complex": lambda i: torch.tensor([1j * i, 1]),
    "large": lambda i: torch.full((16_000,), i, dtype=torch.int32),
    "int": lambda i: i,
    "float": lambda i: i / 3,
    "bool": lambda i: i % 3 == 0,
    "str": lambda i: f"sample \N{GREEK SMALL LETTER ALPHA} {i}" * (i % 4),
    "bytes": lambda i: bytes([i]) * (i % 5),
    **{f"np.{name}": lambda i, name=name: getattr(np, name)(i) for name in ("float16", "float32", "float64", "int64")},
    **{f"np.{name}": lambda i, name=name: getattr(np, name)(i) for name in ("int8", "uint8", "uint32", "complex64")},
    "np.bool_": lambda i: np.bool_(i % 2),
    "pair": lambda i: (image(i), i),
    "named": lambda i: Pair(np.full(3, i), f"{i}"),
    "list of numbers": lambda i: [i, i + 1, i + 2],
    "tuple of floats": lambda i: (i / 2, 0.5),
    "list of bools": lambda i: [i % 2 == 0, False],
    "list": lambda i: [image(i), "text", 1.5],
    "empty list": lambda i: (image(i), []),
    "dict": lambda i: {"image": image(i), 3: i, ("a", 1): f"{i}"},
    "nested": lambda i: (
        {"image": image(i), "boxes": [[i, 2, 3, 4], [5, 6, 7, i]], "name": f"file {i}"},
        Pair(np.float32(i), (f"{i}", b"x", [i, 0.5])),
        [{"mask": np.ones((2, 2), bool)}, (1, 2, 3)],
    ),
    "packed": lambda i: {f"key {k}": (k, i, str(i), [0.5]) for k in range(40)},
}
# Of which torch makes no batch; its error is the loader's.
BAD: dict[str, Callable[[int], Any]] = {
    "None": lambda i: (image(i), None),
    "complex number": lambda i: complex(i, 1),
    "shapes": lambda i: torch.zeros(1 + i % 2),
    "lengths": lambda i: [0] * (1 + i % 3),
    "big": lambda i: 2**70 + i,
    "long double": lambda i: np.zeros(2, np.longdouble),
}
# Unlike samples of which torch does make a batch.
ODD: dict[str, Callable[[int], Any]] = {
    "int and float": lambda i: i if i % 2 else i / 2,
    "dtypes": lambda i: np.full(2, i, np.int32 if i % 5 else np.int64),
    "keys": lambda i: {"a": i, "b": 1} if i % 2 else {"b": 1, "a": i},
    "types": lambda i: image(i) if i % 5 else f"{i}",
    "dtypes of one size": lambda i: np.full(2, i, np.int32 if i % 5 else np.float32),
    # Alike within a batch of 5, but not from batch to batch.
    "dtype of a batch": lambda i: np.full(2, i, np.int32 if i // 5 % 2 else np.float32),
    "shape of a batch": lambda i: np.full((2, 3) if i // 5 % 2 else (3, 2), i),
    "structure of a batch": lambda i: [(i, 1.5), {"a": i, "b": 1.5}, [[i, 1.5]], (i, 1.5, 1)][i // 5 % 4],
    "tuple and list": lambda i: (i, "x") if i % 2 else [i, "x"],
}
KINDS |= BAD | ODD


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert torch.equal(one, other)
        assert one.is_contiguous() == other.is_contiguous()
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other


def assert_same_epochs(ours: Iterable[Any], theirs: Iterable[Any], epochs: int = 1) -> None:
    for _ in range(epochs):
        mine, expected = list(ours), list(theirs)
        assert len(mine) == len(expected)
        for one, other in zip(mine, expected, strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BAD])
def test_batches_of_every_kind_of_sample_are_those_of_torch(kind: str, name: str) -> None:
    with CachedDataset(Samples(kind), name, capacity="16MiB") as dataset:
        assert_same_epochs(CachedLoader(dataset, 5), DataLoader(Samples(kind), 5), epochs=2)


@pytest.mark.parametrize("kind", BAD)
def test_what_torch_cannot_collate_raises_as_with_torch(kind: str, name: str) -> None:
    with pytest.raises((TypeError, RuntimeError, ValueError)) as expected:
        list(DataLoader(Samples(kind), 4))
    with CachedDataset(Samples(kind), name, capacity="16MiB") as dataset:
        loader = CachedLoader(dataset, 4)
        for _ in range(2):
            with pytest.raises(expected.type, match=str(expected.value)[:20]):
                list(loader)


def test_a_warm_epoch_is_gathered_ahead_of_use_and_decodes_nothing(name: str) -> None:
    with CachedDataset(Samples("nested"), name, capacity="16MiB") as dataset:
        list(CachedLoader(dataset, 4))
        assert dataset.dataset.decoded == LENGTH
        before = dataset.cache.stats()
        iterator = iter(CachedLoader(dataset, 4, num_workers=2))
        next(iterator)
        assert "ddpcache-loader" in [thread.name for thread in threading.enumerate()]
        assert len(list(iterator)) == 5
        after = dataset.cache.stats()
        assert (after.fills, after.misses, dataset.dataset.decoded) == (before.fills, before.misses, LENGTH)
        assert after.hits - before.hits == LENGTH
        assert after.bytes_copied > before.bytes_copied  # by gather: workers take views
        assert iterator._workers is None
        assert "ddpcache-loader" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["nested", "large", "packed", "list of numbers", "keys"])
def test_samples_that_find_no_room_arrive_too(kind: str, workers: int, name: str) -> None:
    room = {"capacity": "1MiB", "sample_bytes_max": 70_000} if kind == "large" else {"capacity": "32KiB"}
    length = 60 if kind == "packed" else 300
    with ddpcache.Cache(name, length=length, fingerprint=None, **{"sample_bytes_max": 12_000, **room}) as cache:
        dataset = CachedDataset(Samples(kind, length), cache)
        expected = list(DataLoader(Samples(kind, length), 7))
        assert_same_epochs(CachedLoader(dataset, 7, num_workers=workers), expected, epochs=2)
        if not workers and kind not in {"packed", "keys"}:  # of these torch makes batches, from samples
            assert dataset.dataset.decoded == 2 * length - cache.stats().resident
        order = torch.randperm(length, generator=torch.Generator().manual_seed(1)).tolist()
        mixed = CachedLoader(dataset, 7, sampler=order, num_workers=workers)
        assert_same_epochs(mixed, DataLoader(Samples(kind, length), 7, sampler=order))
        assert 0 < cache.stats().resident < length
        dataset.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_are_removed_meanwhile_arrive_too(workers: int, name: str) -> None:
    cache = ddpcache.Cache(name, length=200, capacity="16MiB", droppable=True, fingerprint=None)
    done = threading.Event()

    def remove() -> None:
        while not done.is_set():
            cache.remove([random.randrange(200) for _ in range(20)])

    with cache, CachedDataset(Samples("pair", 200), cache) as dataset:
        expected = list(DataLoader(Samples("pair", 200), 8))
        thread = threading.Thread(target=remove)
        thread.start()
        try:
            assert_same_epochs(CachedLoader(dataset, 8, num_workers=workers), expected, epochs=4)
        finally:
            done.set()
            thread.join()


def test_damaged_samples_arrive_too(name: str) -> None:
    cache = ddpcache.Cache(name, length=LENGTH, capacity="16MiB", checksums="read", fingerprint=None)
    with cache, CachedDataset(Samples("large"), cache) as dataset:
        list(CachedLoader(dataset, 5))
        with open(f"/dev/shm/{shared_file(name)}", "r+b") as file:
            data = file.read()
            place = data.index(np.full(16_000, 7, np.int32).tobytes())
            file.seek(place + 4)
            file.write(b"\xff")
        assert_same_epochs(CachedLoader(dataset, 5), DataLoader(Samples("large"), 5), epochs=2)
        assert cache.stats().damaged == 1


def shared_file(name: str) -> str:
    return f"ddpcache.{os.getuid()}.{name}"


def test_keyed_caches_and_read_only_ones_work(name: str) -> None:
    expected = list(DataLoader(Samples("nested"), 5))
    with ddpcache.Cache(name, length=100, capacity="16MiB", keyed=True, fingerprint=None) as cache:
        dataset = CachedDataset(Samples("nested"), cache, key=key)
        assert_same_epochs(CachedLoader(dataset, 5, num_workers=1), expected, epochs=2)
        assert dataset.dataset.decoded == 0  # the worker did
        other = CachedDataset(Samples("pair", 3), cache)
        assert_same_epochs(CachedLoader(other, 2), DataLoader(Samples("pair", 3), 2), epochs=2)
        other.close()
        dataset.close()
        with ddpcache.Cache(name, read_only=True) as reader:
            dataset = CachedDataset(Samples("nested"), reader, key=key)
            assert_same_epochs(CachedLoader(dataset, 5), expected)
            assert dataset.dataset.decoded == 0


def key(index: int) -> tuple[str, int]:
    return "train", index


OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "batch_size": lambda _: {"batch_size": 7},
    "drop_last": lambda _: {"batch_size": 7, "drop_last": True},
    "one": lambda _: {},
    "shuffle": lambda _: {"batch_size": 4, "shuffle": True},
    "generator": lambda _: {"batch_size": 4, "shuffle": True, "generator": torch.Generator().manual_seed(9)},
    "repeats": lambda _: {"batch_size": 6, "sampler": WeightedRandomSampler([1.0] * LENGTH, 40)},
    "batch_sampler": lambda _: {"batch_sampler": [[3, 1], [2], [-1, 0, 5]]},
    "tensors as indices": lambda _: {"batch_sampler": [torch.tensor([3, 1]), np.array([2, 2])]},
    "NodeSampler": lambda data: {"batch_size": 4, "sampler": NodeSampler(data)},
    "NodeBatchSampler": lambda data: {"batch_sampler": NodeBatchSampler(NodeSampler(data), 4)},
    "BatchSampler": lambda data: {"batch_sampler": BatchSampler(NodeSampler(data), 4, True)},
    "no batches": lambda _: {"batch_size": None},
    "collate_fn": lambda _: {"batch_size": 4, "collate_fn": list},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("option", OPTIONS)
def test_batches_of_every_option_are_those_of_torch(option: str, workers: int, name: str) -> None:
    with CachedDataset(Samples("pair"), name, capacity="16MiB") as dataset:

        def epochs(kind: Any) -> list[Any]:
            torch.manual_seed(4)
            loader = kind(dataset, num_workers=workers, **OPTIONS[option](dataset))
            return [(len(loader), list(loader), torch.rand(())) for _ in range(3)]

        assert_same(epochs(CachedLoader), epochs(DataLoader))


def test_set_epoch_deals_another_order(name: str) -> None:
    with CachedDataset(Samples("int"), name, capacity="16MiB") as dataset:
        sampler = NodeSampler(dataset)
        loader = CachedLoader(dataset, LENGTH, sampler=sampler)
        orders = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            orders.append(next(iter(loader)).tolist())
        assert orders[0] == orders[2] != orders[1]
        assert sorted(orders[1]) == list(range(LENGTH))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_sees_each_sample(workers: int, name: str) -> None:
    with CachedDataset(Samples("pair"), name, capacity="16MiB", transform=negative) as dataset:
        for _ in range(2):
            images = torch.cat([images for images, _ in CachedLoader(dataset, 5, num_workers=workers)])
            assert torch.equal(images, -torch.stack([image(i) for i in range(LENGTH)]))


def negative(sample: tuple[torch.Tensor, int]) -> tuple[torch.Tensor, int]:
    return -sample[0], sample[1]


def test_a_subclass_and_types_of_ones_own_are_honoured(name: str) -> None:
    class Doubled(CachedDataset):
        def __getitems__(self, indices: Any) -> list[Any]:
            return [2 * sample for sample in super().__getitems__(indices)]

    with Doubled(Samples("int"), name, capacity="16MiB") as dataset:
        assert torch.cat(list(CachedLoader(dataset, 5))).tolist() == list(range(0, 2 * LENGTH, 2))
    with CachedDataset(Samples("str"), name, capacity="16MiB") as dataset:
        torch_way = default_collate_fn_map[str]
        default_collate_fn_map[str] = joined
        try:
            assert next(iter(CachedLoader(dataset, 5))) == "".join(KINDS["str"](i) for i in range(5))
        finally:
            default_collate_fn_map[str] = torch_way
        assert next(iter(CachedLoader(dataset, 2))) == [KINDS["str"](0), KINDS["str"](1)]


def joined(batch: list[str], *, collate_fn_map: Any = None) -> str:
    return "".join(batch)


def test_only_a_cached_data_set_is_taken(name: str) -> None:
    with CachedDataset(Samples("int"), name, capacity="16MiB") as dataset:
        for other in (Samples("int"), Subset(dataset, [1, 2]), Endless()):
            with pytest.raises(TypeError, match=f"CachedDataset, not for a .*{type(other).__name__}"):
                CachedLoader(other, batch_size=2)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="mutually exclusive"):
            CachedLoader(dataset, shuffle=True, sampler=[1])
        with pytest.raises(AssertionError, match="timeout"):
            iter(CachedLoader(dataset, timeout=1))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_index_raises_in_its_turn(workers: int, name: str) -> None:
    with CachedDataset(Samples("int"), name, capacity="16MiB") as dataset:
        list(CachedLoader(dataset))
        iterator = iter(CachedLoader(dataset, batch_sampler=[[1, 2], [3, LENGTH], [4]], num_workers=workers))
        assert next(iterator).tolist() == [1, 2]
        with pytest.raises(IndexError, match=f"index {LENGTH} of a data set of {LENGTH} samples"):
            next(iterator)
        assert next(iterator).tolist() == [4]
        with pytest.raises(StopIteration):
            next(iterator)


def test_batches_are_the_callers_own(name: str) -> None:
    """Memory is used again only when no tensor is in it."""
    with CachedDataset(Samples("large", 200), name, capacity="16MiB") as dataset:
        loader = CachedLoader(dataset, 20)
        kept = [batch[1:2, ::2] for batch in loader]  # views of parts
        places = set()
        for number, batch in enumerate(loader):
            places.add(batch.data_ptr())
            assert batch.data_ptr() % 64 == 0
            assert (batch[:, 0] == torch.arange(20 * number, 20 * number + 20)).all()
            batch.zero_()
            del batch
        assert len(places) < 6
        assert [int(part[0, 0]) for part in kept] == list(range(1, 200, 20))
        del kept, loader
        gc.collect()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_who_waits_for_a_batch_does_what_the_thread_has_not_begun() -> None:
    thread, begun, done = Thread(pinned=False), threading.Event(), threading.Event()
    first = thread.submit(lambda: begun.set() or done.wait(60))
    assert begun.wait(60)
    assert thread.result(thread.submit(threading.current_thread)) is threading.main_thread()
    interrupted = thread.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.result(interrupted)
    with pytest.raises(ddpcache.MissError):  # so that the batch is made anew
        thread.result(interrupted)
    done.set()
    assert thread.result(first)
    thread.stop()


def test_pin_memory_warns_as_torch_does_where_there_is_no_accelerator(name: str) -> None:
    with CachedDataset(Samples("pair"), name, capacity="16MiB") as dataset:
        loader = CachedLoader(dataset, 5, pin_memory=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert_same_epochs(loader, list(DataLoader(dataset, 5)))
        if torch.accelerator.is_available():
            assert all(images.is_pinned() for images, _ in loader)
        else:
            assert [str(warning.message)[:12] for warning in caught] == ["'pin_memory'"]
