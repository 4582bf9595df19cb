"""get_or_load: one decode an index, the loader's own exceptions, and what happens where a sample cannot be cached."""

from __future__ import annotations

import os
import signal
import threading
import time

import ddpcache
import numpy as np
import pytest


class Decoder:
    """Counts its calls."""

    def __init__(self, size: int = 10) -> None:
        self.calls: list[int] = []
        self.size = size

    def __call__(self, index: int) -> np.ndarray:
        self.calls.append(index)
        return np.full(self.size, index, dtype=np.int64)


def held(cache: ddpcache.Cache, index: int) -> tuple[threading.Thread, threading.Event]:
    """A thread that is filling an index until the event is set."""
    inside, leave = threading.Event(), threading.Event()

    def decode(index: int) -> int:
        inside.set()
        assert leave.wait(60)
        return index

    thread = threading.Thread(target=cache.get_or_load, args=(index, decode))
    thread.start()
    assert inside.wait(60)
    return thread, leave


def test_a_sample_is_decoded_once(cache):
    decode = Decoder()
    for _ in range(3):
        found = cache.get_or_load(5, decode)
        assert (found == 5).all() and not found.flags.writeable
    assert decode.calls == [5] and type(decode.calls[0]) is int
    assert (cache[5] == 5).all()


def test_a_waiting_caller_gets_what_the_other_decoded(cache):
    thread, leave = held(cache, 7)
    timer = threading.Timer(0.2, leave.set)
    timer.start()
    decode = Decoder()
    assert cache.get_or_load(7, decode, timeout=60) == 7
    thread.join()
    assert decode.calls == [] and cache.stats().waits >= 1


@pytest.mark.parametrize("timeout", [0, 0.05, np.float64(0.05)])
def test_at_the_deadline_a_caller_decodes_for_itself(cache, timeout):
    thread, leave = held(cache, 7)
    decode = Decoder()
    found = cache.get_or_load(7, decode, timeout=timeout)
    assert (found == 7).all() and found.flags.writeable and decode.calls == [7]
    assert cache.put(7, 1) is False
    with pytest.raises(ddpcache.BusyError, match="index 7") as caught:
        cache[7] = 1
    assert isinstance(caught.value, TimeoutError)
    assert 7 not in cache and cache.stats().timeouts >= 1 and cache.stats().open_fills == 1
    leave.set()
    thread.join()
    assert cache[7] == 7


@pytest.mark.parametrize("timeout", [-1, -0.5, float("nan")])
def test_a_timeout_that_is_none_is_a_value_error(cache, timeout):
    with pytest.raises(ValueError, match="timeout"):
        cache.get_or_load(1, int, timeout)


def test_for_ever_is_a_timeout(cache):
    assert cache.get_or_load(1, int, float("inf")) == 1


class Own(Exception):
    pass


@pytest.mark.parametrize("error", [Own("mine"), KeyError(3), StopIteration(), SystemExit(3), KeyboardInterrupt()])
def test_the_loaders_exception_passes_unchanged_and_leaves_the_index_empty(cache, error):
    def fail(index: int) -> object:
        raise error

    with pytest.raises(type(error)) as caught:
        cache.get_or_load(1, fail)
    assert caught.value is error
    assert 1 not in cache and cache.stats().open_fills == 0 and cache.stats().aborts == 1
    assert cache.get_or_load(1, int) == 1


def test_after_a_failed_loader_a_waiter_decodes(cache):
    inside = threading.Event()
    errors: list[BaseException] = []

    def fail(index: int) -> object:
        inside.set()
        time.sleep(0.2)
        raise Own

    def work() -> None:
        try:
            cache.get_or_load(3, fail)
        except Own as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    decode = Decoder()
    assert (cache.get_or_load(3, decode, timeout=60) == 3).all()
    thread.join()
    assert decode.calls == [3] and len(errors) == 1 and 3 in cache


def test_a_full_cache_returns_the_loaders_own_sample_and_decodes_once(open_cache):
    cache = open_cache(capacity="1MiB", sample_bytes=65536)
    decode = Decoder(8192)
    first = [cache.get_or_load(index, decode) for index in range(40)]
    assert decode.calls == list(range(40))
    assert all((sample == index).all() for index, sample in enumerate(first))
    stats = cache.stats()
    assert 8 <= stats.resident < 17 and stats.bypasses == 40 - stats.resident
    again = cache.get_or_load(39, decode)
    assert decode.calls == [*range(40), 39] and again.flags.writeable and again.base is None


def test_too_large_a_sample_is_an_error_with_both_sizes(open_cache):
    cache = open_cache(sample_bytes_max=1024)
    with pytest.raises(ValueError, match=r"80000.*1024"):
        cache.get_or_load(1, Decoder(10_000))
    assert 1 not in cache and cache.stats().open_fills == 0


def test_a_loader_may_use_the_cache_but_not_load_its_own_index(cache, open_cache):
    other = open_cache(".other")

    def nested(index: int) -> tuple:
        assert cache.get(index) is None and index not in cache
        assert cache.put(index + 1, "next")
        return (cache[index + 1], cache.get_or_load(index + 2, Decoder()), other.get_or_load(index, Decoder()))

    text, two, three = cache.get_or_load(10, nested)
    assert (text, two[0], three[0]) == ("next", 12, 10)
    with pytest.raises(ddpcache.LoadRecursionError, match="index 20") as caught:
        cache.get_or_load(20, lambda index: cache.get_or_load(index, int))
    assert isinstance(caught.value, RecursionError) and 20 not in cache
    with pytest.raises(ddpcache.LoadRecursionError):
        cache.get_or_load(20, lambda index: cache.put(index, 1))
    with pytest.raises(ddpcache.StateError, match="loader"):
        cache.get_or_load(20, lambda index: cache.close())
    assert cache.get_or_load(20, int) == 20


def test_a_thread_with_an_open_fill_does_not_wait(cache):
    thread, leave = held(cache, 7)
    decode = Decoder()
    began = time.monotonic()
    cache.get_or_load(8, lambda index: cache.get_or_load(7, decode, timeout=60))
    assert decode.calls == [7] and time.monotonic() - began < 30
    leave.set()
    thread.join()


def test_views_of_several_types_may_be_loaded(cache):
    found = cache.get_or_load(1, lambda index: {"image": np.arange(5), "label": index, "name": "x"})
    assert found["image"].tolist() == [0, 1, 2, 3, 4] and (found["label"], found["name"]) == (1, "x")
    assert not found["image"].flags.writeable


def test_an_interrupt_ends_the_wait(cache):
    thread, leave = held(cache, 7)
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            cache.get_or_load(7, int, timeout=60)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, previous)
        leave.set()
        thread.join()
    assert cache[7] == 7


def test_a_handled_signal_does_not_end_the_wait(cache):
    handled: list[int] = []
    thread, leave = held(cache, 7)
    previous = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))

    def disturb() -> None:
        for _ in range(5):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            time.sleep(0.05)
        leave.set()

    other = threading.Thread(target=disturb)
    other.start()
    try:
        assert cache.get_or_load(7, Decoder(), timeout=60) == 7
    finally:
        other.join()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
    assert handled


def test_waiting_lets_other_threads_run(cache):
    thread, leave = held(cache, 7)
    ticks: list[float] = []

    def tick() -> None:
        for _ in range(20):
            ticks.append(time.monotonic())
            time.sleep(0.005)
        leave.set()

    other = threading.Thread(target=tick)
    other.start()
    assert cache.get_or_load(7, Decoder(), timeout=60) == 7
    other.join()
    thread.join()
    assert len(ticks) == 20


def test_a_fork_inside_a_loader_leaves_the_fill_to_the_parent(cache):
    def decode(index: int) -> int:
        child = os.fork()
        if not child:
            os._exit(0 if cache.get(index) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        return index

    assert cache.get_or_load(1, decode) == 1 and cache[1] == 1
