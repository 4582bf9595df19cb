"""The cache's own calls: opening, looking, storing, reading in batches, and what they say about wrong arguments."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import threading
import weakref
from pathlib import Path

import ddpcache
import numpy as np
import pytest


def image(index: int, shape: tuple[int, ...] = (4, 5)) -> np.ndarray:
    return np.full(shape, index, dtype=np.int32)


def test_a_stored_sample_is_found_and_a_missing_one_is_not(cache):
    assert cache.put(3, image(3)) is True
    assert (cache[3] == image(3)).all()
    assert (cache.get(3) == image(3)).all()
    assert cache.get(4) is None
    assert cache.get(4, "other") == "other"
    assert cache.get(index=4, default="other") == "other"
    assert 3 in cache and 4 not in cache
    assert len(cache) == 100
    with pytest.raises(KeyError, match="index 4"):
        cache[4]


def test_samples_never_change(cache):
    cache[3] = image(3)
    assert cache.put(3, image(7)) is False
    with pytest.raises(ddpcache.PresentError, match="index 3") as caught:
        cache[3] = image(7)
    assert isinstance(caught.value, ValueError)
    assert (cache[3] == image(3)).all()


@pytest.mark.parametrize("index", [100, -1, 2**40, 2**70, -(2**70)])
def test_an_index_outside_the_cache_is_an_index_error(cache, index):
    for call in (cache.get, cache.__getitem__, lambda i: cache.put(i, 1), lambda i: cache.get_or_load(i, int)):
        with pytest.raises(ddpcache.RangeError, match=f"index {index} is not in 0..99"):
            call(index)
    with pytest.raises(ddpcache.RangeError, match=str(index)):
        cache.read_batch([0, index], np.zeros((2, 1), np.uint8))
    assert index not in cache


@pytest.mark.parametrize("index", ["3", 3.0, None, np.float64(3), (3,)])
def test_an_index_that_is_no_integer_is_a_type_error(cache, index):
    for call in (cache.get, cache.__getitem__, lambda i: cache.put(i, 1), lambda i: cache.get_or_load(i, int)):
        with pytest.raises(TypeError):
            call(index)
    with pytest.raises(TypeError):
        index in cache  # noqa: B015


@pytest.mark.parametrize("index", [True, False])
def test_a_bool_is_no_index(cache, index):
    calls = (
        cache.get,
        cache.__getitem__,
        cache.__delitem__,
        cache.__contains__,
        lambda i: cache.put(i, 1),
        lambda i: cache.get_or_load(i, int),
        lambda i: cache.read_batch([i]),
    )
    for call in calls:
        with pytest.raises(TypeError, match="integer"):
            call(index)
    assert cache.stats().resident == 0


def test_integers_of_numpy_are_indices(cache):
    cache[np.int64(3)] = image(3)
    assert np.uint8(3) in cache
    assert (cache[np.int32(3)] == image(3)).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda cache: cache.get(), "lacks the argument 'index'"),
        (lambda cache: cache.get(1, 2, 3), "up to 2 positional"),
        (lambda cache: cache.get(1, index=1), "two values for argument 'index'"),
        (lambda cache: cache.get(1, views=True), "unexpected keyword argument 'views'"),
        (lambda cache: cache.put(1), "lacks the argument 'sample'"),
        (lambda cache: cache.get_or_load(1), "lacks the argument 'loader'"),
        (lambda cache: cache.get_or_load(1, 2), "2 cannot be called"),
        (lambda cache: cache.get_or_load(1, int, timeout="long"), "must be real number"),
        (lambda cache: cache.__delitem__("one"), "integer"),
        (lambda cache: iter(cache), "not iterable"),
    ],
)
def test_calls_check_their_arguments(cache, call, text):
    with pytest.raises((TypeError, AttributeError), match=text):
        call(cache)


def test_a_cache_is_shared_by_all_that_open_its_name(open_cache, name):
    first = open_cache()
    first[1] = image(1)
    second = open_cache()
    third = ddpcache.Cache(name)
    assert first.info.created and not second.info.created and not third.info.created
    assert first.info.uuid == second.info.uuid == third.info.uuid
    for other in (second, third):
        assert (other[1] == image(1)).all()
    third.close()


def test_the_last_client_removes_the_cache(open_cache, name):
    first, second = open_cache(), open_cache()
    first.close()
    assert name in ddpcache.Cache.list()
    second.close()
    assert name not in ddpcache.Cache.list()
    with pytest.raises(FileNotFoundError, match=name):
        ddpcache.Cache(name)


def test_a_cache_to_keep_stays_and_is_adopted(open_cache, name):
    with open_cache(keep=True) as first:
        first[1] = image(1)
        uuid = first.info.uuid
    try:
        with open_cache(keep=True) as second:
            assert second.info.adopted and not second.info.created and second.info.uuid == uuid
            assert (second[1] == image(1)).all()
    finally:
        ddpcache.Cache.unlink(name)


def test_a_name_alone_attaches_only_where_a_process_is(open_cache, name):
    with open_cache(keep=True) as first:
        first[1] = image(1)
        received = pickle.dumps(first)
    try:
        with pytest.raises(ddpcache.NotFoundError, match=f"'{name}': give length and fingerprint"):
            ddpcache.Cache(name)
        assert name in ddpcache.Cache.list()
        with pickle.loads(received) as again:
            assert (again[1] == image(1)).all()
    finally:
        ddpcache.Cache.unlink(name)


def test_a_directory_is_the_same_wherever_the_process_goes(open_cache, monkeypatch):
    monkeypatch.chdir("/dev")
    cache = open_cache(directory="shm")
    cache[1] = image(1)
    monkeypatch.chdir("/")
    assert cache.directory == "/dev/shm"
    with pickle.loads(pickle.dumps(cache)) as other:
        assert (other[1] == image(1)).all()


def test_unlinking_frees_the_name_at_once(open_cache, name):
    first = open_cache()
    first[1] = image(1)
    ddpcache.Cache.unlink(name)
    assert (first[1] == image(1)).all()
    second = open_cache()
    assert second.info.created and 1 not in second
    first.close()
    assert name in ddpcache.Cache.list()
    with pytest.raises(ddpcache.NotFoundError):
        ddpcache.Cache.unlink(name + ".other")


def test_a_cache_of_other_options_or_data_is_refused_with_both_values(open_cache):
    open_cache()
    with pytest.raises(ddpcache.MismatchError, match=r"100.*101|101.*100"):
        open_cache(length=101)
    with pytest.raises(ddpcache.FingerprintError, match=r"test v1.*test v2"):
        open_cache(fingerprint="test v2")
    with pytest.raises(ddpcache.FingerprintError):
        open_cache(fingerprint=None)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"length": 0}, ValueError, "length is from 1 to 17179869183, not 0"),
        ({"length": -1}, ValueError, "not -1"),
        ({"length": 2**34}, ValueError, str(2**34)),
        ({"length": 1.5}, TypeError, "1.5"),
        ({"length": True}, TypeError, "True"),
        ({"capacity": 0}, ValueError, "at least 1 byte"),
        ({"capacity": -5}, ValueError, "-5"),
        ({"capacity": "8 giraffes"}, ValueError, "8 giraffes"),
        ({"capacity": "8G"}, ValueError, "8G"),
        ({"capacity": 2.5}, TypeError, "2.5"),
        ({"capacity": "4000TiB"}, MemoryError, "(?i)need"),
        ({"capacity": "999999999TiB"}, ValueError, "999999999TiB.*1099511626676488372224"),
        ({"capacity": "9" * 400 + ".5TiB"}, ValueError, "999.5TiB"),
        ({"sample_bytes": -1}, ValueError, "-1"),
        ({"sample_bytes_max": 2**40}, ValueError, str(2**40)),
        ({"clients_max": 0}, ValueError, "from 1 to 4095, not 0"),
        ({"clients_max": 5000}, ValueError, "5000"),
        ({"timeout": -1}, ValueError, "-1"),
        ({"timeout": float("nan")}, ValueError, "nan"),
        ({"fingerprint": ""}, ValueError, "fingerprint"),
        ({"fingerprint": 7}, ValueError, "7"),
        ({"fingerprint": "a\0b"}, ValueError, "fingerprint"),
        ({"fingerprint": "é" * 513}, ValueError, "1026 bytes, and may have 1024"),
        ({"directory": "/proc"}, ddpcache.Error, "proc"),
        ({"directory": "/nowhere/at/all"}, OSError, "nowhere"),
    ],
)
def test_wrong_options_are_named_with_their_values(open_cache, options, error, text):
    with pytest.raises(error, match=text):
        open_cache(**options)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("", ValueError), ("a/b", ValueError), ("x" * 201, ValueError), ("a\0b", ValueError), (7, TypeError)],
)
def test_wrong_names_are_refused(wrong, error):
    for call in (lambda: ddpcache.Cache(wrong), lambda: ddpcache.Cache.unlink(wrong)):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize(
    "options", [{"length": 5}, {"fingerprint": "x"}, {"capacity": 5}, {"keep": True}, {"clients_max": 3}]
)
def test_creating_needs_length_and_fingerprint(name, options):
    with pytest.raises(TypeError, match="give"):
        ddpcache.Cache(name, **options)


def file_of(name: str) -> Path:
    return Path(f"/dev/shm/ddpcache.{os.getuid()}.{name}")


def test_one_client_too_many_is_an_error_with_the_count(open_cache, name):
    first = open_cache(clients_max=1)
    with pytest.raises(ddpcache.ClientsError, match="1"):
        ddpcache.Cache(name)
    first.close()
    assert open_cache(clients_max=1).put(1, 1)


def test_a_lock_held_by_another_is_a_timeout(open_cache, name):
    with open(f"/dev/shm/ddpcache.{os.getuid()}", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for call in (lambda: open_cache(timeout=0.05), lambda: ddpcache.Cache(name, timeout=0)):
            with pytest.raises(ddpcache.LockedError) as caught:
                call()
            assert isinstance(caught.value, TimeoutError)
    assert open_cache().put(1, 1)


def test_a_file_that_is_no_cache_is_refused_and_left_alone(open_cache, name, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    file_of(name).symlink_to(target)
    with pytest.raises(PermissionError, match=name):
        open_cache()
    assert target.read_bytes() == b"precious" and file_of(name).is_symlink()
    file_of(name).unlink()
    file_of(name).write_bytes(b"no cache at all" * 1000)
    with pytest.raises((ddpcache.DamagedError, ddpcache.FormatError, ddpcache.NotOwnedError), match=name):
        ddpcache.Cache(name)
    file_of(name).unlink()


def test_sizes_are_numbers_or_text():
    sizes = {"8GiB": 8 << 30, "500MB": 500 * 10**6, "1.5 TiB": 3 << 39, "64kib": 65536, "7": 7, "7B": 7, 12: 12}
    for text, size in sizes.items():
        assert ddpcache.parse_bytes(text) == size


def test_a_closed_cache_refuses_every_call(cache):
    cache[1] = image(1)
    cache.close()
    cache.close()
    assert cache.closed
    calls = (
        lambda: cache.get(1),
        lambda: cache[1],
        lambda: cache.put(2, 1),
        lambda: 1 in cache,
        lambda: cache.get_or_load(1, int),
        lambda: cache.info,
        lambda: cache.stats(),
        lambda: cache.check(),
        lambda: cache.read_batch([1]),
    )
    for call in calls:
        with pytest.raises(ddpcache.StateError, match=f"{cache.name}' is closed"):
            call()
    assert "closed" in repr(cache)


def test_too_large_a_sample_is_an_error_with_both_sizes(open_cache):
    cache = open_cache(sample_bytes_max=1 << 16)
    with pytest.raises(ddpcache.TooLargeError, match=r"200000.*65536.*sample_bytes_max=") as caught:
        cache.put(1, np.zeros(200_000, dtype=np.uint8))
    assert isinstance(caught.value, ValueError)
    assert 1 not in cache and cache.put(1, np.zeros(65536, dtype=np.uint8))


def test_a_full_cache_keeps_what_it_has_and_says_so(open_cache):
    cache = open_cache(capacity="1MiB", sample_bytes=65536)
    stored = [index for index in range(100) if cache.put(index, np.full(65536, index, dtype=np.uint8))]
    assert 8 <= len(stored) < 17
    assert stored == list(range(len(stored)))
    with pytest.raises(ddpcache.FullError):
        cache[99] = np.zeros(65536, dtype=np.uint8)
    assert all((cache[index] == index).all() for index in stored)


def test_stats_count_what_happened(cache):
    cache[1] = image(1)
    cache.get(1)
    cache.get(2)
    cache.get_or_load(3, image)
    cache.get_or_load(3, image)
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.fills, stats.resident) == (2, 2, 2, 2)
    assert stats.hit_rate == 0.5
    assert stats.bytes_filled == 2 * image(1).nbytes
    assert cache.stats("client").fills == 2
    with pytest.raises(ValueError, match="everyone"):
        cache.stats("everyone")


def test_info_describes_the_cache(open_cache, name):
    info = open_cache(sample_bytes=640, clients_max=7, fingerprint="digits v1").info
    assert (info.name, info.length, info.sample_bytes, info.clients_max) == (name, 100, 640, 7)
    assert (info.fingerprint, info.creator_pid, info.keep) == ("digits v1", os.getpid(), False)
    assert info.job_id == ddpcache.job_id() != 0
    assert abs(info.capacity_bytes - (32 << 20)) <= info.step_bytes and info.clients_attached == 1


def test_residency_says_which_samples_are_there(cache):
    for index in (0, 7, 8, 63, 99):
        cache[index] = image(index)
    assert np.flatnonzero(cache.residency()).tolist() == [0, 7, 8, 63, 99]
    assert np.flatnonzero(cache.residency(7, 57)).tolist() == [0, 1, 56]
    assert cache.residency().dtype == bool and cache.residency(100).shape == (0,)
    with pytest.raises(IndexError, match="101"):
        cache.residency(101)
    with pytest.raises(IndexError, match="51"):
        cache.residency(50, 51)


def test_estimates_are_enough_for_all_samples(name):
    for fixed in (True, False):
        estimate = ddpcache.Cache.estimate(500, 10_000, fixed=fixed)
        assert 5_000_000 < estimate.capacity_bytes < estimate.total_bytes
        size = {"sample_bytes": 10_000} if fixed else {"sample_bytes_max": 10_000}
        with ddpcache.Cache(name, length=500, capacity=estimate.capacity_bytes, fingerprint=None, **size) as cache:
            assert all(cache.put(index, np.zeros(10_000, dtype=np.uint8)) for index in range(500))
    with pytest.raises(ValueError, match="-1"):
        ddpcache.Cache.estimate(500, -1)


def test_a_cache_can_be_collected(open_cache, name):
    cache = ddpcache.Cache(name, length=10, capacity="1MiB", fingerprint=None)
    cache.itself = cache
    reference = weakref.ref(cache)
    del cache
    gc.collect()
    assert reference() is None
    assert name not in ddpcache.Cache.list()


def test_any_number_of_threads_may_use_a_cache(cache):
    decoded: list[int] = []
    wrong: list[int] = []

    def decode(index: int) -> np.ndarray:
        decoded.append(index)
        return image(index)

    def work() -> None:
        for index in range(100):
            if not (cache.get_or_load(index, decode) == index).all():
                wrong.append(index)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and sorted(decoded) == list(range(100))


def test_closing_is_refused_while_a_thread_is_inside_a_call(cache):
    inside, leave = threading.Event(), threading.Event()

    def decode(index: int) -> int:
        inside.set()
        leave.wait(60)
        return index

    thread = threading.Thread(target=cache.get_or_load, args=(1, decode))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(ddpcache.StateError, match="another thread"):
        cache.close()
    leave.set()
    thread.join()
    assert cache[1] == 1


def test_statuses_have_their_exceptions():
    assert ddpcache.Error.__subclasses__()
    for cls in ddpcache.Error.__subclasses__():
        assert isinstance(cls("text"), ddpcache.Error) and str(cls("text")) == "text"
    statuses = [cls.status for cls in ddpcache.Error.__subclasses__()]
    known = {value for key, value in vars(ddpcache._swig).items() if key.startswith("DC_ERROR_")}
    assert len(statuses) == len(set(statuses)) and known <= set(statuses)
