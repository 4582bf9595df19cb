"""Caches whose samples have keys: what a key is, which keys are the same, and that all calls take them."""

from __future__ import annotations

import collections
import enum
import json
import multiprocessing
import os
import pathlib
import pickle
import random

import ddpcache
import numpy as np
import pytest
from ddpcache import _swig

GOLDEN = pathlib.Path(__file__).parents[3] / "tests" / "golden" / "keys.json"


@pytest.fixture
def keyed(open_cache):
    return open_cache(keyed=True)


def sample(value: int) -> np.ndarray:
    return np.full(5, value, dtype=np.int32)


def golden_key(key: dict) -> object:
    ((kind, value),) = key.items()
    makers = {"str": str, "int": int, "bytes": bytes.fromhex, "tuple": lambda parts: tuple(map(golden_key, parts))}
    return makers[kind](value)


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: str(case["key"])[:50])
def test_keys_are_the_bytes_that_all_languages_agree_on(keyed, case):
    key = golden_key(case["key"])
    index = keyed.intern(key)
    assert _swig.dc_cache_lookup(keyed, bytes.fromhex(case["bytes"])) == [_swig.DC_OK, index]
    assert keyed.info.keys == 1


def test_keys_differ_where_type_value_or_nesting_does(open_cache):
    cache = open_cache(keyed=True, length=1000)
    values = ["", "1", "a", "ab", "b", b"", b"1", b"a", 0, 1, -1, 2**70, (), ("",), ((),), ("1",), (1,), (b"1",)]
    values += [("a", "b"), ("ab",), ("a", ("b",)), (("a", "b"),), ("a", "b", ()), ("b", "a"), ("", "ab"), (1, "1")]
    values += [("train", 3), ("val", 3), ("train", "3"), "('train', 3)", "train3", ("train", -3), "\ud800", "\udfff"]
    # Text that has the bytes of other kinds, as far as text can.
    values += ["\xffi1", "\xffb", "i1", b"\xffi1", "\0", "\0\0", "A" * 1000, "A" * 1001]
    indices = [cache.intern(value) for value in values]
    assert len(set(indices)) == len(values)
    assert [cache.lookup(value) for value in values] == indices


def test_random_nested_keys_have_an_index_each(open_cache):
    cache = open_cache(keyed=True, length=20_000)
    random.seed(4)

    def key(depth: int) -> object:
        kind = random.randrange(4 if depth else 3)
        if kind == 3:
            return tuple(key(depth - 1) for _ in range(random.randrange(4)))
        text = "".join(random.choices("ab1\xff\0", k=random.randrange(4)))
        return (text, text.encode("latin-1"), random.randrange(-2, 12))[kind]

    # By repr, since Python takes 1 for True and the like, but keys do not.
    keys = {repr(one): one for one in (key(3) for _ in range(15_000))}
    assert len(keys) > 2000
    assert len({cache.intern(one) for one in keys.values()}) == len(keys)
    assert cache.check().keys == len(keys)


class Colour(enum.IntEnum):
    RED = 7


Point = collections.namedtuple("Point", "x y")


class Folder:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (np.int64(7), 7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (Colour.RED, 7),
        (Point("a", np.int32(1)), ("a", 1)),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        (pathlib.Path("train/7.png"), "train/7.png"),
        (Folder(b"\xe4"), b"\xe4"),
        ((pathlib.Path("a"), 1), ("a", 1)),
        (pathlib.Path(os.fsdecode(b"\xe4.png")), "\udce4.png"),
    ],
    ids=repr,
)
def test_what_stands_for_a_key_is_that_key(keyed, key, same):
    assert keyed.intern(key) == keyed.intern(same)
    keyed[key] = sample(3)
    assert (keyed[same] == sample(3)).all()


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (True, "True of type <class 'bool'>"),
        (1.0, "1.0 of type <class 'float'>"),
        (None, "None of type"),
        (["a"], "list"),
        (bytearray(b"a"), "bytearray"),
        ({"a": 1}, "dict"),
        (("a", None), "None of type <class 'NoneType'>"),
        (("a", ("b", 1.5)), "1.5 of type <class 'float'>"),
        (slice(1), "slice"),
    ],
)
def test_other_types_are_no_keys(keyed, key, shown):
    calls = [
        keyed.intern,
        keyed.lookup,
        keyed.get,
        keyed.__getitem__,
        keyed.__contains__,
        lambda k: keyed.put(k, 1),
        lambda k: keyed.__setitem__(k, 1),
        lambda k: keyed.__delitem__(k),
        lambda k: keyed.get_or_load(k, id),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="a key is a str, bytes, int, path or a tuple of these, not") as caught:
            call(key)
        assert shown in str(caught.value)
    assert keyed.info.keys == 0


def test_errors_of_what_stands_for_a_key_pass(keyed):
    class Broken:
        def __index__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        keyed.intern(("a", Broken()))
    with pytest.raises(TypeError, match="not <.*Folder"):
        keyed.intern(Folder(3))


def test_a_key_nested_without_end_is_an_error(keyed):
    key: tuple = ()
    for _ in range(100_000):
        key = (key,)
    with pytest.raises(RecursionError, match="in a key"):
        keyed.intern(key)


def test_every_call_takes_keys(open_cache):
    cache = open_cache(keyed=True, droppable=True)
    key = ("train", 7)
    assert key not in cache and cache.get(key) is None and cache.get(key, "none") == "none"
    assert cache.lookup(key) is None
    assert cache.info.keys == 0
    with pytest.raises(ddpcache.MissError, match=r"the sample of the key \('train', 7\) is not in the cache"):
        cache[key]
    with pytest.raises(KeyError, match=r"\('train', 7\)"):
        del cache[key]
    assert cache.put(key, sample(7)) is True
    assert cache.put(key, sample(8)) is False
    with pytest.raises(ddpcache.PresentError, match=r"key \('train', 7\)"):
        cache[key] = sample(8)
    assert key in cache and (cache[key] == sample(7)).all() and (cache.get(key) == sample(7)).all()
    assert (cache.get_or_load(key, None.__class__) == sample(7)).all()
    del cache[key]
    assert key not in cache
    cache[key] = sample(9)
    assert (cache[key] == sample(9)).all()
    assert cache.keyed and cache.info.keyed and cache.info.keys == 1


def test_a_loader_is_given_the_key(keyed):
    key = (pathlib.Path("train"), 7)
    seen = []

    def load(wanted):
        seen.append(wanted)
        return sample(7)

    assert (keyed.get_or_load(key, load) == sample(7)).all()
    assert (keyed.get_or_load(("train", 7), load) == sample(7)).all()
    assert seen == [key] and seen[0] is key


def test_ints_are_keys_and_no_indices(keyed):
    for key in (-5, 0, 99, 100, 10**30):
        keyed[key] = sample(key % 1000)
    for key in (-5, 0, 99, 100, 10**30):
        assert (keyed[key] == sample(key % 1000)).all()
    assert 1 not in keyed and 101 not in keyed
    assert keyed.stats().resident == 5


def test_two_data_sets_share_a_cache_without_a_mix_up(keyed):
    for index in range(40):
        for part, value in (("train", index), ("val", 1000 + index)):
            got = keyed.get_or_load((part, index), lambda key, value=value: sample(value))
            assert (got == sample(value)).all()
    assert keyed.stats().fills == 80


def test_batches_of_keys(open_cache):
    cache = open_cache(keyed=True, droppable=True)
    keys = [("train", i) for i in range(10)]
    for i, key in enumerate(keys):
        cache[key] = sample(i)
    assert (cache.read_batch(keys)[:, 0] == np.arange(10)).all()
    cache[3] = sample(3)
    cache[5] = sample(5)
    assert (cache.read_batch(np.array([5, 3]))[:, 0] == [5, 3]).all()
    assert cache.remove(keys[0]) == 1 and cache.remove(keys[0]) == 0
    assert cache.remove([keys[1], keys[2], ("val", 1)]) == 2
    assert cache.remove(3) == 1 and cache.remove(np.array([3, 5])) == 1
    assert cache.remove([]) == 0
    assert keys[3] in cache and keys[2] not in cache
    with pytest.raises(ddpcache.MissError, match=r"1 of 2 samples: keys \('train', 2\)"):
        cache.read_batch([keys[3], keys[2]])
    assert cache.clear() == 7


def test_keys_that_are_missing_do_not_stop_those_that_are_there(keyed):
    keyed["a"] = sample(1)
    out = np.zeros((3, 5), dtype=np.int32)
    with pytest.raises(ddpcache.MissError, match="2 of 3 samples: keys x, y"):
        keyed.read_batch(["x", "a", "y"], out)
    assert (out[:, 0] == [0, 1, 0]).all()
    with pytest.raises(ddpcache.MissError, match="1 of 2 samples: keys x"):
        keyed.read_batch(["x", "a"])
    assert keyed.info.keys == 1


@pytest.mark.parametrize("key", ["a", b"a", ("a", "b"), 3])
def test_one_key_is_no_batch(keyed, key):
    with pytest.raises(TypeError, match="a batch is a list of keys, not the key"):
        keyed.read_batch(key)


def test_a_cache_without_indices_left_decodes_uncached(open_cache):
    cache = open_cache(keyed=True, length=2)
    cache["a"] = sample(1)
    cache["b"] = sample(2)
    assert (cache.get_or_load("c", lambda key: sample(ord(key))) == sample(99)).all()
    assert cache.put("c", sample(3)) is False
    with pytest.raises(ddpcache.FullError, match="key 'c'"):
        cache["c"] = sample(3)
    with pytest.raises(ddpcache.FullError, match="key 'c'"):
        cache.intern("c")
    assert cache.lookup("c") is None and "c" not in cache and cache.get("c") is None
    assert (cache["a"] == sample(1)).all()


@pytest.mark.parametrize("key", ["a", b"a", ("train", 3)])
def test_a_cache_without_keys_says_so(cache, key):
    for call in (cache.get, cache.__getitem__, cache.__contains__, lambda k: cache.put(k, 1)):
        with pytest.raises(TypeError, match="an index is an integer, not .*keyed=True"):
            call(key)
    for call in (cache.intern, cache.lookup):
        with pytest.raises(ddpcache.UnsupportedError, match="keyed=True"):
            call(key)
    assert not cache.keyed and not cache.info.keyed


def test_keys_are_part_of_what_a_cache_is(open_cache):
    open_cache(keyed=True)
    with pytest.raises(ddpcache.MismatchError, match="has keyed 1, asked for was 0"):
        open_cache()
    with pytest.raises(TypeError, match="to create a cache"):
        ddpcache.Cache("some", keyed=True)


def test_a_closed_cache_takes_no_keys(keyed):
    keyed.close()
    for call in (keyed.intern, keyed.lookup, keyed.get, keyed.__getitem__, keyed.__contains__, keyed.__delitem__):
        with pytest.raises(ddpcache.StateError, match="is closed"):
            call("a")


def test_keys_take_memory_that_the_estimate_counts():
    without = ddpcache.Cache.estimate(100_000, 1000)
    keyed = ddpcache.Cache.estimate(100_000, 1000, keyed=True)
    assert keyed.capacity_bytes == without.capacity_bytes
    assert abs(keyed.total_bytes - without.total_bytes - 1_600_000) <= 4096


def _intern_all(cache, keys, indices):
    random.shuffle(keys)
    indices.put({key: cache.intern(key) for key in keys})


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_agree_on_every_index(open_cache, method):
    cache = open_cache(keyed=True, length=1000)
    context = multiprocessing.get_context(method)
    keys = [(part, i) for part in ("train", "val") for i in range(300)]
    indices = context.Queue()
    workers = [context.Process(target=_intern_all, args=(cache, keys, indices)) for _ in range(3)]
    for worker in workers:
        worker.start()
    answers = [indices.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert answers[0] == answers[1] == answers[2] == {key: cache.lookup(key) for key in keys}
    assert len(set(answers[0].values())) == len(keys)


def test_a_pickled_cache_knows_its_keys(keyed):
    keyed["a"] = sample(1)
    with pickle.loads(pickle.dumps(keyed)) as other:
        assert other.keyed and (other["a"] == sample(1)).all()
