"""A cache attached with read_only=True."""

import gc
import os
import pickle
import subprocess
import sys

import ddpcache
import numpy as np
import pytest

SAMPLE = np.arange(1024, dtype=np.float32)


@pytest.fixture(params=[False, True], ids=["stays", "droppable"])
def cache(request, open_cache):
    cache = open_cache(droppable=request.param)
    for index in range(3):
        cache[index] = SAMPLE + index
    return cache


@pytest.fixture
def looking(cache, name):
    with ddpcache.Cache(name, read_only=True) as looking:
        yield looking


def test_it_sees_samples_in_every_way_there_is(cache, looking):
    assert looking.info.read_only and not cache.info.read_only
    assert np.array_equal(looking[1], SAMPLE + 1)
    assert looking.get(9) is None and 9 not in looking
    cache[9] = SAMPLE + 9
    assert np.array_equal(looking[9], SAMPLE + 9) and 9 in looking
    assert np.array_equal(looking.read_batch([2, 0, 9]), np.stack([SAMPLE + 2, SAMPLE, SAMPLE + 9]))
    assert looking.residency(0, 4).tolist() == [True, True, True, False]
    assert looking.check().entries_ready == 4
    assert looking.stats().resident == 4
    assert looking.stats("client").hits == 0
    assert looking.info.clients_attached == 1


def test_nothing_can_be_changed(cache, looking):
    attempts = [
        lambda: looking.put(5, SAMPLE),
        lambda: looking.__setitem__(5, SAMPLE),
        lambda: looking.__delitem__(1),
        lambda: looking.remove([1, 2]),
        looking.clear,
    ]
    for attempt in attempts:
        with pytest.raises(ddpcache.UnsupportedError, match="attached with read_only=True: nothing in it"):
            attempt()
    assert 1 in cache and 5 not in cache


def test_what_is_loaded_is_returned_and_not_stored(cache, looking):
    assert np.array_equal(looking.get_or_load(7, lambda index: SAMPLE * index), SAMPLE * 7)
    assert 7 not in cache
    assert np.array_equal(looking.get_or_load(1, lambda index: pytest.fail("it is there")), SAMPLE + 1)


def test_keys_that_have_no_index_get_none(open_cache, name):
    keyed = open_cache(keyed=True)
    keyed["a"] = SAMPLE
    with ddpcache.Cache(name, read_only=True) as looking:
        assert np.array_equal(looking["a"], SAMPLE)
        assert "b" not in looking
        assert np.array_equal(looking.get_or_load("b", lambda key: SAMPLE * 2), SAMPLE * 2)
        assert not looking.put("b", SAMPLE)
        with pytest.raises(ddpcache.UnsupportedError, match="read_only=True"):
            looking.put("c", SAMPLE) or looking.put("a", SAMPLE)
    assert keyed.info.keys == 1 and "b" not in keyed


def test_an_array_keeps_its_values_whatever_others_remove(open_cache, name):
    cache = open_cache(droppable=True, length=1000, capacity="1MiB", sample_bytes=SAMPLE.nbytes)
    cache[5] = SAMPLE
    with ddpcache.Cache(name, read_only=True) as looking:
        part = looking[5][10:20]
    del cache[5]
    for index in range(6, 300):
        cache.put(index, SAMPLE * 2)
    gc.collect()
    assert part.tolist() == SAMPLE[10:20].tolist()


def test_a_pickle_of_it_is_read_only_too(cache, looking, name):
    with pickle.loads(pickle.dumps(looking)) as again:
        assert again.info.read_only
        assert np.array_equal(again[2], SAMPLE + 2)


def test_a_forked_child_reads_on(cache, looking):
    assert np.array_equal(looking[0], SAMPLE)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(looking[2], SAMPLE + 2) and looking.get(50) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_attaches_to_a_kept_cache_that_nobody_uses(open_cache, name):
    cache = open_cache(keep=True)
    cache[0] = SAMPLE
    cache.close()
    with ddpcache.Cache(name, read_only=True) as looking:
        assert np.array_equal(looking[0], SAMPLE)
    ddpcache.Cache.unlink(name)


def test_another_process_looks_while_this_one_stores(cache, name):
    program = "import sys, ddpcache; print(float(ddpcache.Cache(sys.argv[1], read_only=True)[2][10]))"
    assert subprocess.check_output([sys.executable, "-c", program, name], text=True) == "12.0\n"
    assert cache.stats().hits == 0


def test_it_creates_nothing(name):
    with pytest.raises(ddpcache.NotFoundError):
        ddpcache.Cache(name, read_only=True)
    for options in ({"length": 10, "fingerprint": None}, {"length": 10}, {"fingerprint": "x"}):
        with pytest.raises(TypeError, match="read_only attaches to a cache that is there"):
            ddpcache.Cache(name, read_only=True, **options)
    with pytest.raises(TypeError, match="give length and fingerprint too"):
        ddpcache.Cache(name, read_only=True, keep=True)
