"""Removing samples from a droppable cache, and arrays that outlive what they show."""

import gc

import ddpcache
import numpy as np
import pytest

SAMPLE = np.arange(1024, dtype=np.float32)


@pytest.fixture
def cache(open_cache):
    return open_cache(length=1000, capacity="1MiB", sample_bytes=SAMPLE.nbytes, droppable=True)


def fill_up(cache):
    count = 0
    while cache.put(count, SAMPLE + count):
        count += 1
    return count


def test_a_removed_sample_is_gone_and_can_be_stored_anew(cache):
    cache[3] = SAMPLE
    del cache[3]
    assert 3 not in cache
    assert cache.get(3) is None
    with pytest.raises(KeyError, match="index 3"):
        del cache[3]
    cache[3] = SAMPLE + 1
    assert np.array_equal(cache[3], SAMPLE + 1)
    assert cache.stats().removed == 1
    assert cache.info.droppable


def test_many_are_removed_at_once_and_counted(cache):
    for index in range(10):
        cache[index] = SAMPLE
    assert cache.remove([0, 2, 2, 500]) == 2
    assert cache.remove(4) == 1
    assert cache.residency(0, 6).tolist() == [False, True, False, True, False, True]
    assert cache.clear() == 7
    assert cache.stats().resident == 0


def test_an_array_keeps_its_values_until_the_last_one_over_them_is_gone(cache):
    room = fill_up(cache)
    part = cache[5][10:20][::2]
    del cache[5]
    assert not cache.put(room, SAMPLE), "its memory was taken under an array"
    assert part.tolist() == (SAMPLE + 5)[10:20:2].tolist()
    del part
    gc.collect()
    assert cache.put(room, SAMPLE)


def test_indices_that_are_none_remove_nothing(cache):
    cache[1] = SAMPLE
    for beyond in (2**70, [1, 2**70], [-1, 2**63]):
        with pytest.raises(ddpcache.RangeError, match="beyond"):
            cache.remove(beyond)
    with pytest.raises(IndexError, match="not in 0..999: -1, 1000"):
        cache.remove([1, -1, 1000])
    with pytest.raises(TypeError):
        cache.remove([1.5])
    assert 1 in cache


def test_a_cache_that_was_not_made_for_it_keeps_its_samples(open_cache):
    fixed = open_cache(length=10, capacity="1MiB")
    fixed[1] = SAMPLE
    for attempt in (lambda: fixed.__delitem__(1), lambda: fixed.remove(1), fixed.clear):
        with pytest.raises(ddpcache.UnsupportedError, match="open it with droppable=True"):
            attempt()
    assert 1 in fixed
