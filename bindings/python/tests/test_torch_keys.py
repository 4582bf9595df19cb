"""Several data sets, and several choices from one, in one keyed cache."""

import functools
import pickle

import ddpcache
import pytest
import torch
from ddpcache.torch import CachedDataset, NodeSampler
from torch.utils.data import DataLoader, Dataset, Subset


class Slides(Dataset):
    """Sample i of a folder is the number that stands for both. Counts what it decodes."""

    def __init__(self, folder, length=20):
        self.folder, self.length = folder, length
        self.decoded = []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        self.decoded.append(index)
        return torch.tensor([self.folder * 1000 + index])


def by_folder(folder, index):
    return ("folder", folder, index)


@pytest.fixture
def cache(open_cache):
    return open_cache(keyed=True)


def read_all(dataset, **options):
    return torch.cat(list(DataLoader(dataset, batch_size=7, **options))).flatten().tolist()


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 2, "multiprocessing_context": "spawn"}])
def test_training_and_validation_share_a_cache_by_their_keys(cache, workers):
    """VisCy#411, seisbench#80, musubi-tuner#1060, yolov5#2121."""
    train, validation = (
        CachedDataset(Slides(folder), cache, key=functools.partial(by_folder, folder)) for folder in (1, 2)
    )
    for epoch in range(2):
        assert read_all(train, **workers) == [1000 + i for i in range(20)]
        assert read_all(validation, **workers) == [2000 + i for i in range(20)]
        assert (cache.stats().fills, cache.stats().hits) == (40, 40 * epoch)
    assert int(cache["folder", 1, 7]) == 1007 and int(cache["folder", 2, 7]) == 2007


def test_choices_from_one_data_set_share_what_they_have_in_common(cache):
    data = Slides(1)
    chosen, others = [3, 5, 7, 9], [9, 3, 4]
    one, other = (
        CachedDataset(Subset(data, choice), cache, key=lambda i, choice=choice: choice[i])
        for choice in (chosen, others)
    )
    assert read_all(one) == [1000 + i for i in chosen]
    assert read_all(other) == [1000 + i for i in others]
    assert sorted(data.decoded) == [3, 4, 5, 7, 9]


@pytest.mark.parametrize("workers", [0, 2])
def test_without_a_key_no_two_choices_share_a_sample(cache, workers):
    data = Slides(1)
    whole = CachedDataset(data, cache)
    choices = [CachedDataset(Subset(data, choice), cache) for choice in ([3, 5, 7], [7, 5, 3])]
    longer = CachedDataset(Slides(2, length=21), cache)
    for _ in range(2):
        assert read_all(whole, num_workers=workers) == [1000 + i for i in range(20)]
        assert read_all(longer, num_workers=workers) == [2000 + i for i in range(21)]
        assert read_all(choices[0], num_workers=workers) == [1003, 1005, 1007]
        assert read_all(choices[1], num_workers=workers) == [1007, 1005, 1003]
    assert cache.stats().fills == 20 + 21 + 3 + 3


def test_without_a_key_data_sets_that_look_alike_are_an_error_until_a_version_tells_them_apart(cache):
    train = CachedDataset(Slides(1), cache)
    with pytest.raises(ddpcache.FingerprintError, match="same type, length, source and version: give `version` or"):
        CachedDataset(Slides(2), cache)
    validation = CachedDataset(Slides(2), cache, version="validation")
    assert read_all(train) == [1000 + i for i in range(20)]
    assert read_all(validation) == [2000 + i for i in range(20)]
    train.close()
    CachedDataset(Slides(3), cache).close()


def test_without_a_key_the_same_data_set_finds_its_samples_again(cache):
    data = Slides(1)
    read_all(CachedDataset(data, cache))
    assert read_all(pickle.loads(pickle.dumps(CachedDataset(data, cache)))) == [1000 + i for i in range(20)]
    assert len(data.decoded) == 20


def test_a_batch_is_the_callers_own_and_may_be_transformed(cache):
    dataset = CachedDataset(Slides(1), cache, key=str, transform=lambda sample: sample.mul_(2))
    for _ in range(2):
        assert read_all(dataset) == [2 * (1000 + i) for i in range(20)]
    assert int(dataset[-1]) == 2038
    assert int(cache["19"]) == 1019


def test_errors_of_the_data_set_and_of_the_key_pass(cache):
    def key(index):
        if index == 3:
            raise LookupError("no key")
        return index if index < 5 else 1.5

    class Failing(Slides):
        def __getitem__(self, index):
            raise OSError("no file")

    dataset = CachedDataset(Failing(1), cache, key=key)
    with pytest.raises(LookupError, match="no key"):
        dataset[3]
    with pytest.raises(TypeError, match="a key is a str"):
        dataset[5]
    with pytest.raises(OSError, match="no file"):
        dataset[0]
    assert cache.stats().open_fills == 0


def test_keys_that_find_no_place_are_decoded_each_time(open_cache):
    cache = open_cache(keyed=True, length=10)
    data = Slides(1)
    dataset = CachedDataset(data, cache, key=str)
    for _ in range(2):
        assert read_all(dataset) == [1000 + i for i in range(20)]
    assert len(data.decoded) == 30
    with pytest.raises(ddpcache.MismatchError, match="10 entries, and the data set 20 samples.*1.3 times"):
        CachedDataset(data, cache)


def test_key_is_for_keyed_caches(open_cache, name):
    with pytest.raises(TypeError, match="key= is for an open Cache that was made with keyed=True"):
        CachedDataset(Slides(1), name, key=str)
    with pytest.raises(TypeError, match="keyed=True"):
        CachedDataset(Slides(1), open_cache(length=20), key=str)
    with pytest.raises(TypeError, match="key is a function of an index, not 'train'"):
        CachedDataset(Slides(1), open_cache(".keyed", keyed=True), key="train")


def test_sampler_of_a_data_set_with_keys_finds_its_cache(cache):
    dataset = CachedDataset(Slides(1), cache, key=str)
    sampler = NodeSampler(dataset)
    assert sorted(read_all(dataset, sampler=sampler)) == [1000 + i for i in range(20)]
    assert sampler._cache is cache
