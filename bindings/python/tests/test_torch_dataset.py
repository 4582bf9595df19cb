"""CachedDataset: decoded once, the caller's own copies, no mix-up of data sets, and what it refuses."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import warnings
from collections import namedtuple

import ddpcache
import numpy as np
import pytest
import torch
from ddpcache.torch import CachedDataset, NodeSampler, NondeterministicError, fingerprint
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

Point = namedtuple("Point", "x y")


class Squares(Dataset):
    """Sample i is i*i + offset, in everything that a sample can be made of. Counts what it decodes."""

    def __init__(self, length=20, offset=0):
        self.length, self.offset = length, offset
        self.decoded = []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.decoded.append(index)
        value = index * index + self.offset
        return {
            "tensor": torch.full((2, 3), value),
            "array": np.full(4, value, dtype=np.float32),
            "scalar": np.array(value),
            "ragged": torch.arange(index % 3),
            "number": value,
            "nested": (Point(np.ones(2, dtype=bool), "text"), [np.int16(1), None, b"bytes"], (), []),
        }


class Plain(Dataset):
    """Tensors only: the sample is `base` + index."""

    def __init__(self, length=10, base=0):
        self.length, self.base = length, base

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor([self.base + index])


def assert_same(one, other):
    """Equal in types, structure and values."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        one, other = list(one.values()), list(other.values())
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    elif isinstance(one, (torch.Tensor, np.ndarray)):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert (one == other).all()
    else:
        assert one == other


@pytest.fixture
def cached(name):
    with CachedDataset(Squares(), name, capacity="8MiB") as dataset:
        yield dataset


@pytest.mark.parametrize("copy_samples", [True, False])
def test_samples_come_back_as_they_were_and_are_decoded_once(name, copy_samples):
    plain = Squares()
    with CachedDataset(plain, name, copy=copy_samples, capacity="8MiB") as dataset:
        assert len(dataset) == 20
        for _ in range(3):
            for index in range(20):
                assert_same(dataset[index], Squares()[index])
            for sample, index in zip(dataset.__getitems__([5, 3, 5, 19]), [5, 3, 5, 19], strict=True):
                assert_same(sample, Squares()[index])
        assert plain.decoded == list(range(20))
        del sample


def test_batch_is_read_as_its_samples_are(cached):
    indices = [3, 4, 3, 0, 19]
    for sample, index in zip(cached.__getitems__(indices), indices, strict=True):
        assert_same(sample, cached[index])
    assert cached.__getitems__([]) == []


def test_samples_are_the_callers_own(cached):
    """In-place operations on what a user gets by default change nothing, crash nothing and warn of nothing."""
    for read in (lambda: cached[7], lambda: cached.__getitems__([7, 7, 8])[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sample = read()
            sample["tensor"].mul_(0)
            sample["array"] += 1
            sample["scalar"][...] = 0
            sample["nested"][0].x[:] = False
            sample["nested"][3].append(1)
            sample["tensor"][0] *= torch.ones(3, requires_grad=True).sum().long()
            torch.as_tensor(sample["array"])
        assert_same(read(), Squares()[7])


def test_samples_of_one_batch_do_not_share_memory(cached):
    one, other = cached.__getitems__([7, 7])
    one["tensor"].zero_()
    one["array"][:] = 0
    assert_same(other, Squares()[7])


def test_default_collation_of_arrays_does_not_warn(cached):
    keep = CachedDataset(cached.dataset, cached.cache, transform=lambda sample: sample["array"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = list(DataLoader(keep, batch_size=5))
    assert torch.cat(batches)[:, 0].tolist() == [index * index for index in range(20)]
    keep.close()


def test_views_are_read_only_arrays_of_the_cache(name):
    with CachedDataset(Squares(), name, copy=False, capacity="8MiB") as dataset:
        with pytest.raises(ValueError):
            dataset[1]["array"][0] = 0
        assert not dataset[1]["array"].flags.owndata


def test_transform_runs_after_every_hit_and_is_not_cached(name):
    calls = []

    def augment(sample):
        calls.append(int(sample))
        return sample.add_(1000 * len(calls))

    with CachedDataset(Plain(), name, transform=augment, capacity="1MiB") as dataset:
        first, second = dataset[3], dataset.__getitems__([3, 4])
        assert calls == [3, 3, 4]
        assert first != second[0]
        assert dataset.cache.get(3).item() == 3


def test_indices_of_many_kinds(cached):
    for index in (4, -16, np.int64(4), torch.tensor(4)):
        assert cached[index]["number"] == 16
    for index in (20, -21, 10**30):
        with pytest.raises(IndexError, match=f"{index} of a data set of 20 samples"):
            cached[index]
    with pytest.raises(TypeError):
        cached["4"]
    assert cached.dataset.decoded == [4]


def test_iteration_ends(cached):
    assert [sample["number"] for sample in cached] == [index * index for index in range(20)]


def test_errors_of_the_data_set_reach_the_caller_and_nothing_is_stored(name):
    class Broken(Plain):
        def __getitem__(self, index):
            raise OSError(f"cannot read {index}")

    with CachedDataset(Broken(), name, capacity="1MiB") as dataset:
        for _ in range(2):
            with pytest.raises(OSError, match="cannot read 3"):
                dataset[3]
        assert dataset.cache.stats().resident == 0


def test_cache_that_is_full_goes_on_uncached(name):
    class Large(Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return np.full(100_000, index, dtype=np.uint8)

    options = {"length": 40, "fingerprint": "large", "capacity": "2MiB", "sample_bytes": 100_032}
    with ddpcache.Cache(name, **options) as cache, CachedDataset(Large(), cache) as dataset:
        for _ in range(2):
            for index in range(40):
                sample = dataset[index]
                assert (sample == index).all()
                sample[:] = 0
        assert 0 < cache.stats().resident < 40


def test_works_with_a_cache_object_and_leaves_it_open(name):
    with ddpcache.Cache(name, length=20, fingerprint="mine", capacity="8MiB") as cache:
        with CachedDataset(Squares(), cache) as dataset:
            assert dataset.cache is cache
            assert_same(dataset[2], Squares()[2])
        assert not cache.closed and 2 in cache


def test_cache_of_another_length_is_an_error(name):
    with ddpcache.Cache(name, length=19, fingerprint="mine", capacity="8MiB") as cache:
        with pytest.raises(ddpcache.MismatchError, match="19 samples.*has 20"):
            CachedDataset(Squares(), cache)


def test_a_second_data_set_under_one_name_is_an_error(name):
    train, validation = Squares(), Squares(offset=1)
    with CachedDataset(train, name, capacity="8MiB") as dataset:
        with pytest.raises(ddpcache.FingerprintError, match=f"{name}.*training and validation need two names"):
            CachedDataset(validation, name)
        with pytest.raises(ddpcache.FingerprintError, match="uuid.*taken by another data set"):
            CachedDataset(validation, dataset.cache)
        assert dataset[3]["number"] == 9
    with CachedDataset(validation, name, capacity="8MiB") as dataset:
        assert dataset[3]["number"] == 10


def test_a_name_is_free_again_when_its_data_set_is_gone(name):
    dataset = CachedDataset(Squares(), name, capacity="8MiB")
    del dataset.dataset  # the claim is the CachedDataset's, not what it wraps
    gc.collect()
    with pytest.raises(ddpcache.FingerprintError, match="taken by another.*or delete"):
        CachedDataset(Squares(), name)
    del dataset
    gc.collect()
    with CachedDataset(Squares(offset=1), name, capacity="8MiB") as other:
        assert other[3]["number"] == 10


def test_a_claim_outlives_the_copies_of_its_data_set(name):
    with CachedDataset(Squares(), name, capacity="8MiB") as dataset:
        copies = [copy.copy(dataset), pickle.loads(pickle.dumps(dataset))]
        del copies
        gc.collect()
        with pytest.raises(ddpcache.FingerprintError, match="taken by another"):
            CachedDataset(Squares(), name)


def test_the_same_data_set_may_open_its_name_again(name):
    data = Squares()
    with CachedDataset(data, name, capacity="8MiB") as one:
        with CachedDataset(data, name) as other:
            assert_same(one[3], other[3])
        with pytest.raises(ddpcache.FingerprintError):
            CachedDataset(Squares(), name)
    assert data.decoded == [3]


def test_name_is_free_again_when_opening_failed(name):
    with pytest.raises(ddpcache.RangeError):
        CachedDataset(Squares(length=0), name)
    CachedDataset(Squares(), name, capacity="8MiB").close()


@pytest.mark.parametrize(
    "change",
    [
        lambda name: fingerprint(Squares(), name, version="2"),
        lambda name: fingerprint(Squares(), name + "x"),
        lambda name: fingerprint(Squares(length=21), name),
        lambda name: fingerprint(Plain(length=20), name),
        lambda name: fingerprint(type("Squares", (Plain,), {"__getitem__": lambda self, index: index})(20), name),
        lambda name: fingerprint(Subset(Squares(), range(20)), name),
    ],
)
def test_fingerprint_is_of_name_type_length_source_and_version(change):
    assert fingerprint(Squares(), "name") == fingerprint(Squares(offset=1), "name")
    assert change("name") != fingerprint(Squares(), "name")


def test_fingerprint_tells_subsets_and_wrapped_data_sets_apart():
    parts = [Subset(Squares(), range(5)), Subset(Squares(), range(5, 10)), Subset(Plain(20), range(5))]
    joined = [ConcatDataset([parts[0], parts[1]]), ConcatDataset([parts[1], parts[0]])]
    assert len({fingerprint(part, "name") for part in parts + joined}) == 5


def test_fingerprint_fits_whatever_the_version():
    assert len(fingerprint(Squares(), "n" * 200, "v" * 5000).encode()) <= 1024
    assert fingerprint(Squares(), "n", "v" * 5000) != fingerprint(Squares(), "n", "v" * 5001)


def test_fingerprint_of_classes_without_source():
    def defined(text):
        namespace = {"Dataset": Dataset}
        exec(text, namespace)
        return namespace["Typed"]()

    body = "class Typed(Dataset):\n  def __len__(self): return 3\n  def __getitem__(self, index): return index"
    assert (
        fingerprint(defined(body), "n") == fingerprint(defined(body), "n") != fingerprint(defined(f"{body} + 1"), "n")
    )


def test_other_version_of_a_cache_in_use_is_an_error_that_shows_both(name):
    data = Squares()
    with CachedDataset(data, name, version="first", capacity="8MiB"):
        with pytest.raises(ddpcache.FingerprintError, match="(?s)'second'.*'first'|'first'.*'second'"):
            CachedDataset(data, name, version="second")


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"cache": 5}, "5"),
        ({"transform": "flip"}, "'flip'"),
        ({"version": 2}, "2"),
        ({"dataset": object()}, "object.*__getitem__"),
    ],
)
def test_bad_arguments_are_type_errors(name, arguments, text):
    given = {"dataset": Squares(), "cache": name, **arguments}
    with pytest.raises(TypeError, match=text):
        CachedDataset(given.pop("dataset"), given.pop("cache"), **given)


def test_capacity_is_for_names(name):
    with ddpcache.Cache(name, length=20, fingerprint="mine", capacity="8MiB") as cache:
        with pytest.raises(TypeError, match="capacity='1GiB'"):
            CachedDataset(Squares(), cache, capacity="1GiB")


def test_iterable_data_set_is_a_type_error(name):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index

    with pytest.raises(TypeError, match="Stream.*IterableDataset"):
        CachedDataset(Stream(), name)


def test_sample_that_cannot_be_stored_is_a_type_error_that_says_what(name):
    class Sets(Plain):
        def __getitem__(self, index):
            return {"image": {1, 2}}

    with CachedDataset(Sets(), name, capacity="1MiB") as dataset:
        with pytest.raises(TypeError, match="image is a builtins.set"):
            dataset[0]


def test_check_deterministic_finds_what_is_random(name):
    class Noisy(Plain):
        def __getitem__(self, index):
            return torch.rand(3) if index == 9 else torch.zeros(3)

    with CachedDataset(Noisy(), name, capacity="1MiB") as dataset:
        dataset.check_deterministic(5)
        with pytest.raises(NondeterministicError, match="sample 9.*Noisy.*transform"):
            dataset.check_deterministic(10)
        for k in (0, -1):
            with pytest.raises(ValueError, match=str(k)):
                dataset.check_deterministic(k)


def test_check_deterministic_decodes_each_of_k_samples_twice_and_uses_no_cache(cached):
    cached.check_deterministic(4)
    assert cached.dataset.decoded == [0, 0, 5, 5, 10, 10, 15, 15]
    assert cached.cache.stats().resident == 0


def test_not_a_number_and_negative_zero_count_by_their_bits(name):
    class Odd(Plain):
        def __getitem__(self, index):
            return torch.tensor([float("nan"), -0.0])

    with CachedDataset(Odd(), name, capacity="1MiB") as dataset:
        dataset.check_deterministic()


def test_pickled_data_set_reads_the_same_cache(cached):
    cached[3]
    for twin in (pickle.loads(pickle.dumps(cached)), copy.copy(cached)):
        assert_same(twin[3], Squares()[3])
        assert twin.dataset.decoded == [3]
        twin.cache.close()


def test_closing_twice_is_allowed_and_reading_afterwards_is_an_error(name):
    dataset = CachedDataset(Squares(), name, capacity="8MiB")
    dataset.close()
    dataset.close()
    with pytest.raises(ddpcache.StateError):
        dataset[0]


def test_nested_and_concatenated_data_sets_do_not_collide(name):
    """stochastic-caching#3."""
    with (
        CachedDataset(Plain(10), f"{name}.a", capacity="1MiB") as one,
        CachedDataset(Plain(10, base=100), f"{name}.b", capacity="1MiB") as other,
        CachedDataset(ConcatDataset([one, other]), f"{name}.both", capacity="1MiB") as both,
    ):
        expected = [*range(10), *range(100, 110)]
        for _ in range(2):
            assert [int(sample) for sample in both] == expected
            assert torch.cat(list(DataLoader(both, batch_size=7))).flatten().tolist() == expected
            assert torch.cat(list(DataLoader(ConcatDataset([one, other]), batch_size=7))).flatten().tolist() == expected
            subset = Subset(both, [19, 0])
            assert torch.cat(list(DataLoader(subset, batch_size=2))).flatten().tolist() == [109, 0]


def test_cache_of_a_data_set_is_the_node_samplers(cached):
    for dataset in (cached, Subset(cached, range(5)), Subset(Subset(cached, range(5)), [1])):
        assert NodeSampler(dataset)._cache is cached.cache
    assert NodeSampler(cached.dataset)._cache is None


@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_the_cache(name, start_method, persistent):
    data = TensorDataset(torch.arange(40), torch.arange(40) * 2)
    with CachedDataset(data, name, capacity="1MiB") as dataset:
        loader = DataLoader(
            dataset,
            batch_size=8,
            num_workers=2,
            multiprocessing_context=start_method,
            persistent_workers=persistent,
        )
        for epoch in range(2):
            for one, two in loader:
                assert (one * 2 == two).all()
            stats = dataset.cache.stats()
            assert (stats.fills, stats.hits) == (40, 40 * epoch)
        del loader


JOB = """
import sys, torch, ddpcache, ddpcache.torch
from torch.utils.data import TensorDataset
name, values, keep, options = sys.argv[1], eval(sys.argv[2]), sys.argv[3] == "keep", eval(sys.argv[4])
key = options.pop("key", None)
data = TensorDataset(torch.tensor(values))
decoded = []
class Counting(TensorDataset):
    def __getitem__(self, index):
        decoded.append(index)
        return super().__getitem__(index)
data = Counting(torch.tensor(values))
cache = ddpcache.Cache(name, **{"length": len(data), **options}, fingerprint="same", capacity="1MiB", keep=True)
try:
    dataset = ddpcache.torch.CachedDataset(data, cache, key=key)
except ddpcache.FingerprintError as error:
    print("FingerprintError", error)
else:
    print([int(sample) for (sample,) in dataset], len(decoded))
if not keep:
    ddpcache.Cache.unlink(name)
"""


def run_job(name, values, keep, options="{}"):
    """A job of its own: without the variable by which this process's children know that they belong to it."""
    environment = {key: value for key, value in os.environ.items() if key != "DDPCACHE_JOB"}
    command = [sys.executable, "-c", JOB, name, values, keep, options]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize(
    "options", ["{}", "{'length': 50, 'keyed': True}", "{'length': 50, 'keyed': True, 'key': lambda i: ('a', i)}"]
)
def test_job_that_finds_anothers_samples_compares_one(name, options):
    values = list(range(10, 20))
    assert run_job(name, str(values), "keep", options) == f"{values} 10\n"
    # The same data: one sample is decoded, and compared, and all come from the cache.
    assert run_job(name, str(values), "keep", options) == f"{values} 1\n"
    other = run_job(name, str([value + 1 for value in values]), "remove", options)
    assert other.startswith("FingerprintError") and "which another job made" in other


def test_processes_of_one_job_compare_nothing(name):
    data = Squares()
    with CachedDataset(data, name, capacity="8MiB") as dataset:
        _ = dataset[3]
        with CachedDataset(data, name) as second:
            _ = second[3]
    assert data.decoded == [3]
