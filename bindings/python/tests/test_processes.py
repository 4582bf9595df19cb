"""Real processes: started in each way, killed, and forked at the wrong moment."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import ddpcache
import numpy as np
import pytest

METHODS = ("fork", "spawn", "forkserver")
SAMPLES = 60


def decode(log: str, index: int) -> tuple[np.ndarray, int]:
    """Logs each decode as a line of its own, which a short append keeps whole."""
    with open(log, "ab", buffering=0) as lines:
        lines.write(f"{index}\n".encode())
    return np.full(5000, index, dtype=np.int32), index


def load_all(cache: ddpcache.Cache, log: str, seed: int, results: multiprocessing.Queue) -> None:
    order = np.random.default_rng(seed).permutation(SAMPLES).tolist()
    wrong = 0
    for index in order * 2:
        image, label = cache.get_or_load(index, lambda index: decode(log, index))
        wrong += not (label == index and (image == index).all() and image.shape == (5000,))
    results.put((wrong, cache.info.uuid, cache.stats("client").misses))


@pytest.mark.parametrize("method", METHODS)
def test_workers_decode_each_sample_once(open_cache, tmp_path, method):
    cache = open_cache(length=SAMPLES)
    log = str(tmp_path / "log")
    context = multiprocessing.get_context(method)
    results = context.Queue()
    workers = [context.Process(target=load_all, args=(cache, log, seed, results)) for seed in range(4)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert all(wrong == 0 and uuid == cache.info.uuid for wrong, uuid, _ in found)
    assert sorted(map(int, Path(log).read_text().split())) == list(range(SAMPLES))
    assert cache.stats().fills == SAMPLES and cache.check().entries_ready == SAMPLES


def test_pickles_attach_to_the_same_cache(cache):
    cache[1] = "one"
    for other in (pickle.loads(pickle.dumps(cache)), copy.copy(cache), copy.deepcopy(cache)):
        assert other is not cache and other.info.uuid == cache.info.uuid and other[1] == "one"
        other.close()
    assert cache[1] == "one"


def test_a_pickle_of_a_cache_that_is_gone_is_an_error(open_cache, name):
    cache = open_cache()
    pickled = pickle.dumps(cache)
    cache.close()
    with pytest.raises(FileNotFoundError, match=name):
        pickle.loads(pickled)
    other = open_cache()
    with pytest.raises(ddpcache.MismatchError, match=other.info.uuid):
        pickle.loads(pickled)
    assert other.info.clients_attached == 1
    other.close()
    with pytest.raises(ddpcache.StateError, match="closed"):
        pickle.dumps(other)


class Named(ddpcache.Cache):
    """A user's own kind of cache."""


def test_subclasses_are_pickled_as_what_they_are(name):
    with Named(name, length=5, capacity="1MiB", fingerprint=None) as cache:
        cache[1] = 1
        other = pickle.loads(pickle.dumps(cache))
        assert type(other) is Named and other[1] == 1
        other.close()


def hold_fill(cache: ddpcache.Cache, ready: object) -> None:
    def decode_for_ever(index: int) -> object:
        ready.set()
        time.sleep(600)
        return index

    cache.get_or_load(3, decode_for_ever)


@pytest.mark.parametrize("method", METHODS)
def test_the_entry_of_a_killed_worker_is_taken_over(cache, method):
    context = multiprocessing.get_context(method)
    ready = context.Event()
    worker = context.Process(target=hold_fill, args=(cache, ready))
    worker.start()
    assert ready.wait(240)
    assert cache.get_or_load(3, lambda index: "own", timeout=0.2) == "own" and 3 not in cache
    os.kill(worker.pid, signal.SIGKILL)
    assert cache.get_or_load(3, lambda index: "taken over", timeout=60) == "taken over"
    assert cache[3] == "taken over" and cache.stats().takeovers == 1
    worker.join(60)


def test_a_forked_child_that_ends_leaves_the_parents_cache_alone(cache, name):
    cache[1] = "one"
    for close in (True, False):
        child = os.fork()
        if not child:
            fine = cache[1] == "one" and cache.put(2 + close, "child's")
            if close:
                cache.close()
            os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert name in ddpcache.Cache.list()
    assert cache[1] == "one" and cache[2] == cache[3] == "child's"
    assert cache.put(4, "parent's")


PROGRAM = """
import sys, ddpcache
cache = ddpcache.Cache(sys.argv[1], length=10, capacity="1MiB", fingerprint="x")
cache[1] = "one"
cache.itself = cache
view = cache
"""


def test_a_program_that_ends_without_closing_leaves_nothing(name):
    subprocess.run([sys.executable, "-c", PROGRAM, name], check=True)
    assert name not in ddpcache.Cache.list()


def test_a_daemon_thread_inside_a_call_does_not_disturb_the_end(name):
    program = PROGRAM + (
        "import threading, time\n"
        "inside = threading.Event()\n"
        "def decode(index):\n"
        "    inside.set()\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=cache.get_or_load, args=(2, decode), daemon=True).start()\n"
        "inside.wait()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    ddpcache.Cache.gc()
    assert name not in ddpcache.Cache.list()


def test_what_a_killed_program_leaves_is_collected(name):
    program = PROGRAM + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", program, name]).returncode == -signal.SIGKILL
    assert name in ddpcache.Cache.list()
    ddpcache.Cache.gc()
    assert name not in ddpcache.Cache.list()


def report_job(results: multiprocessing.Queue) -> None:
    results.put(ddpcache.job_id())


@pytest.mark.parametrize("method", METHODS)
def test_all_processes_of_a_job_have_its_number(method):
    own = ddpcache.job_id()
    assert own == ddpcache.job_id() and 0 < own < 2**64
    context = multiprocessing.get_context(method)
    results = context.Queue()
    worker = context.Process(target=report_job, args=(results,))
    worker.start()
    assert results.get(timeout=240) == own
    worker.join(60)


def job_of(**variables: str) -> str:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("TORCHELASTIC", "SLURM", "DDPCACHE"))
    }
    program = "import ddpcache; print(ddpcache.job_id())"
    output = subprocess.run(
        [sys.executable, "-c", program], env={**clean, **variables}, check=True, capture_output=True, text=True
    )
    return output.stdout


def test_jobs_are_told_apart_by_their_launchers():
    jobs = [
        {"TORCHELASTIC_RUN_ID": "a"},
        {"TORCHELASTIC_RUN_ID": "b"},
        {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"},
        {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "1"},
        {"DDPCACHE_JOB": "x"},
    ]
    numbers = [job_of(**job) for job in jobs]
    assert len(set(numbers)) == len(jobs) and numbers == [job_of(**job) for job in jobs]
    # torchrun without an id: the ranks have one parent.
    assert job_of(TORCHELASTIC_RUN_ID="none") == job_of(TORCHELASTIC_RUN_ID="none") not in numbers
    assert job_of() != job_of()
