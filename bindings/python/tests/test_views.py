"""What a user gets by default can neither change the cache nor dangle, and nothing leaks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import warnings

import ddpcache
import numpy as np
import pytest


def image(value: int, size: int = 1000) -> np.ndarray:
    return np.full(size, value, dtype=np.int32)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.__setitem__(0, 5),
        lambda a: a.__iadd__(1),
        lambda a: a.sort(),
        lambda a: a.fill(3),
        lambda a: np.add(a, 1, out=a),
        lambda a: a[::2].__setitem__(slice(None), 0),
        lambda a: a.reshape(10, -1).T.__setitem__(0, 5),
        lambda a: a.view(np.uint8).__setitem__(0, 1),
        lambda a: a.setflags(write=True),
        lambda a: a.base.__class__ and memoryview(a).__setitem__(0, 1),
        lambda a: np.asarray(a.base).__setitem__(0, 1),
        lambda a: a.resize(5),
    ],
)
def test_arrays_refuse_to_be_changed(cache, change):
    cache[1] = image(1)
    cache[2] = (image(2), 3)
    for found in (cache[1], cache.get_or_load(1, int), cache[2][0]):
        before = found.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((ValueError, TypeError, BufferError)):
                change(found)
        assert (found == before).all()
    assert (cache[1] == 1).all() and (cache[2][0] == 2).all()


def test_copies_may_be_changed(cache):
    cache[1] = image(1)
    changed = cache[1].copy()
    changed += 1
    batch = cache.read_batch([1])
    batch += 1
    assert (cache[1] == 1).all()


@pytest.mark.parametrize("end", ["close", "delete", "unlink and close"])
def test_views_outlive_the_handle(name, end):
    cache = ddpcache.Cache(name, length=10, capacity="4MiB", fingerprint=None)
    cache[1] = image(1)
    cache[2] = {"a": image(2), "b": [image(3), "text"]}
    views = [cache[1], cache[2]["a"], cache[2]["b"][0], cache[1][10:20], memoryview(cache[1])]
    if end == "unlink and close":
        ddpcache.Cache.unlink(name)
    if end != "delete":
        cache.close()
    del cache
    gc.collect()
    assert name not in ddpcache.Cache.list()
    for view, value in zip(views, (1, 2, 3, 1, 1), strict=True):
        assert (np.asarray(view) == value).all()
    while views:
        views.pop(len(views) // 2)
        gc.collect()
        assert all(np.asarray(view).any() for view in views)


def test_views_may_be_released_on_any_thread_in_any_order(cache):
    cache[1] = image(1)
    cache[2] = (image(2), image(3))
    views = [cache[index] for index in (1, 2) * 500]
    cache.close()

    def release(part: list) -> None:
        part.clear()

    threads = [threading.Thread(target=release, args=(views[number::4],)) for number in range(4)]
    views.clear()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def mapped_bytes() -> int:
    """How much of shared memory this process has mapped; the creator's mapping has a number for a name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ranges = [line.split()[0].split("-") for line in maps if " /dev/shm/" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def test_the_last_view_frees_the_mapping(name):
    before = mapped_bytes()
    cache = ddpcache.Cache(name, length=10, capacity="4MiB", fingerprint=None)
    cache[1] = image(1)
    view, part = cache[1], cache[1][5:]
    cache.close()
    del view
    assert mapped_bytes() > before + (4 << 20) and part[0] == 1
    del part
    assert mapped_bytes() == before


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def use_everything(cache: ddpcache.Cache, rounds: int) -> None:
    def fail(index: int) -> object:
        raise KeyError(index)

    for _ in range(rounds):
        cache.get(1), cache[2], cache.get_or_load(2, int), 1 in cache, len(cache), cache.get(99, "none")
        cache.put(1, image(1)), cache.read_batch([1, 1]), cache.residency(), cache.stats(), repr(cache)
        for call in (
            lambda: cache[50],
            lambda: cache[1000],
            lambda: cache.put(60, object()),
            lambda: cache.put(60, [1, {"a": object()}]),
            lambda: cache.get_or_load(61, fail),
            lambda: cache.get_or_load(61, lambda index: {1, 2}),
            lambda: cache.read_batch([1, 70]),
            lambda: cache.__setitem__(1, 5),
        ):
            with pytest.raises((KeyError, IndexError, TypeError, ValueError)):
                call()


def test_nothing_leaks(cache):
    cache[1] = image(1)
    cache[2] = {"a": image(2), "b": (1, 2.5, 2**70, "text", b"bytes", None, True, 1j, np.float32(1), [1, 2], [1, "x"])}
    use_everything(cache, 300)
    gc.collect()
    references = [sys.getrefcount(obj) for obj in (None, np.ndarray, np.dtype("int32"), ddpcache.Cache)]
    blocks, resident = sys.getallocatedblocks(), resident_bytes()
    use_everything(cache, 1000)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500
    assert resident_bytes() - resident < 4 << 20
    after = [sys.getrefcount(obj) for obj in (None, np.ndarray, np.dtype("int32"), ddpcache.Cache)]
    assert all(abs(new - old) < 100 for new, old in zip(after, references, strict=True))


def test_opening_and_closing_leaks_nothing(open_cache, name):
    open_cache()[1] = image(1)

    def attach(rounds: int) -> None:
        for _ in range(rounds):
            with ddpcache.Cache(name) as other:
                view = other[1]
            assert view[0] == 1

    attach(20)
    descriptors = len(os.listdir("/proc/self/fd"))
    mapped, resident = mapped_bytes(), resident_bytes()
    attach(200)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert mapped_bytes() == mapped
    assert resident_bytes() - resident < 4 << 20


def _use_inherited(views: list[np.ndarray], cache: ddpcache.Cache, results: multiprocessing.Queue) -> None:
    seen = [int(view[0]) for view in views]
    views.clear()
    gc.collect()
    seen.append(int(cache[2][0]))
    cache.close()
    results.put(seen)


def test_a_forked_child_may_drop_inherited_views(cache):
    cache[1] = image(1)
    cache[2] = image(2)
    views = [cache[1], cache[2]]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_use_inherited, args=(list(views), cache, results))
    child.start()
    assert results.get(timeout=60) == [1, 2, 2]
    child.join(60)
    assert child.exitcode == 0
    assert [int(view[0]) for view in views] == [1, 2] and cache.put(3, image(3))
