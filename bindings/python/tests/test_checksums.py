"""Checksums of samples: who takes them, who compares them, and what a damaged sample looks like."""

import os
from pathlib import Path

import ddpcache
import numpy as np
import pytest

SAMPLE = np.arange(5000, dtype=np.int32)


def damage(name):
    """Changes one byte of the only sample like SAMPLE, as no program should."""
    with Path(f"/dev/shm/ddpcache.{os.getuid()}.{name}").open("r+b") as file:
        place = file.read().index(SAMPLE.tobytes())
        file.seek(place + 400)
        file.write(b"\x7f")


@pytest.mark.parametrize("mode", ["off", "fill", "read"])
def test_mode_is_part_of_what_a_cache_is(open_cache, mode):
    cache = open_cache(checksums=mode)
    assert cache.info.checksums == mode
    cache[0] = SAMPLE
    assert np.array_equal(cache[0], SAMPLE)
    assert open_cache(checksums=mode).info.uuid == cache.info.uuid
    other = "off" if mode == "read" else "read"
    with pytest.raises(ddpcache.MismatchError, match=f'checksums "{mode}", asked for was "{other}"'):
        open_cache(checksums=other)


def test_none_is_taken_unless_asked_for(open_cache, name):
    cache = open_cache()
    assert cache.info.checksums == "off"
    cache[3] = SAMPLE
    damage(name)
    assert cache.check().violations == 0
    assert not np.array_equal(cache[3], SAMPLE)


def test_fill_lets_check_find_a_damaged_sample(open_cache, name):
    cache = open_cache(checksums="fill")
    cache[3] = SAMPLE
    assert cache.check().entries_ready == 1
    damage(name)
    with pytest.raises(ddpcache.DamagedError, match=r"entry 3 .*checksum [0-9a-f]{16}, whose bytes have [0-9a-f]{16}"):
        cache.check()
    assert 3 in cache
    cache.close()


def test_read_makes_a_damaged_sample_a_miss(open_cache, name):
    cache = open_cache(checksums="read", droppable=True)
    cache[3] = SAMPLE
    damage(name)
    assert cache.get(3) is None
    assert 3 not in cache
    assert cache.stats().damaged == 1
    with pytest.raises(KeyError):
        cache.read_batch([3])
    assert np.array_equal(cache.get_or_load(3, lambda index: SAMPLE), SAMPLE), "decoded for this caller alone"
    assert 3 not in cache
    cache.clear()
    assert np.array_equal(cache.get_or_load(3, lambda index: SAMPLE), SAMPLE)
    assert 3 in cache


@pytest.mark.parametrize("mode", ["", "on", "READ", None, 1])
def test_what_is_no_mode_is_refused(open_cache, mode):
    with pytest.raises(ValueError, match=r"'off', 'fill' or 'read'"):
        open_cache(checksums=mode)


def test_attaching_takes_no_mode(cache, name):
    with pytest.raises(TypeError, match="give length and fingerprint too"):
        ddpcache.Cache(name, checksums="fill")
