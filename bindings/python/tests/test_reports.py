"""Situations that users of other software have reported, each with the outcome that they wanted.

docs/situations.md is the list of all, with the tests that stand elsewhere; the last test here holds it against them.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import ddpcache
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
fork = multiprocessing.get_context("fork")


def run_all(target, *arguments, count):
    """Forked processes, with what each of them put into the queue that is its last argument."""
    answers = fork.Queue()
    processes = [fork.Process(target=target, args=(*arguments, number, answers)) for number in range(count)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return found


# One copy a machine.


def look_and_measure(cache, barrier, number, answers):
    total = sum(int(cache.get(index).sum()) for index in range(len(cache)))
    barrier.wait(60)  # all have mapped all of it
    share, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-", line):
            ours = "/dev/shm/" in line
        elif line.startswith("Pss:") and ours:
            share += int(line.split()[1]) * 1024
    answers.put((total, share))
    barrier.wait(60)


def test_memory_of_all_ranks_together_is_one_copy(open_cache):
    """Each rank with its own copy of the data ends in swapping or the OOM killer; here their shares add up to one."""
    cache = open_cache(length=32, capacity="48MiB", sample_bytes_max="2MiB")
    for index in range(32):
        cache[index] = np.full(1 << 20, index, np.uint8)
    barrier = fork.Barrier(4)
    found = run_all(look_and_measure, cache, barrier, count=4)
    assert {total for total, _ in found} == {sum(range(32)) << 20}
    together = sum(share for _, share in found)
    assert 0.5 * (32 << 20) < together < 1.2 * (32 << 20), f"{together / 2**20:.1f} MiB"


def read_epochs(samples, number, answers):
    def private():
        rollup = Path("/proc/self/smaps_rollup").read_text()
        return sum(int(kilobytes) for kilobytes in re.findall(r"Private_\w+: +(\d+) kB", rollup)) * 1024

    taken = [private()]
    for _ in range(3):
        for index in range(len(samples)):
            sample = samples[index]
            assert sample["boxes"][3] == f"{index} object 3"
        taken.append(private())
    answers.put(taken)


def test_workers_that_read_python_objects_do_not_grow(open_cache):
    """Reference counts of inherited objects copy their pages in each worker, epoch by epoch; samples here have none."""

    def sample(index):
        return {"boxes": [f"{index} object {number}" for number in range(100)], "label": index}

    cache = open_cache(length=3500, capacity="64MiB")
    for index in range(3500):
        cache[index] = sample(index)
    with_cache = run_all(read_epochs, cache, count=2)
    with_list = run_all(read_epochs, [sample(index) for index in range(3500)], count=2)
    grown = [max(taken[-1] - taken[0] for taken in each) >> 20 for each in (with_cache, with_list)]
    assert grown[0] < 4 < 8 < grown[1], f"MiB in three epochs, with the cache and with a list: {grown}"


# Left-overs and collisions.

RUN = textwrap.dedent("""
    import sys, time, numpy, ddpcache
    cache = ddpcache.Cache(sys.argv[1], length=1000, capacity="32MiB", fingerprint=sys.argv[2] or None)
    first = cache.get(0)
    print("began with", "nothing" if first is None else first[0], flush=True)
    for index in range(1000):
        cache.get_or_load(index, lambda index: numpy.full(1000, int(sys.argv[3])))
        if index == 0:
            print("under way", flush=True)
        time.sleep(float(sys.argv[4]))
    print("ended", flush=True)
""")


def run(name, fingerprint, value, pause=0.0):
    command = [sys.executable, "-c", RUN, name, fingerprint, str(value), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop_in_the_middle(process, how):
    assert process.stdout.readline().startswith("began")
    assert process.stdout.readline() == "under way\n"
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_run_that_was_stopped_is_no_obstacle_for_the_next(name, how):
    """Ctrl-C, a scheduler's SIGTERM, kill -9: the next start finds no "File exists" and does not hang."""
    for value in (1, 2):
        stop_in_the_middle(run(name, "data v1", value, 0.01), how)
    again = run(name, "data v1", 3)
    output, errors = again.communicate(timeout=60)
    assert again.returncode == 0 and output.endswith("ended\n"), errors


def test_what_a_crashed_run_left_is_not_given_to_another(name):
    """Without a fingerprint nobody takes it over, and with one only who says the same."""
    for fingerprint, then, expected in [("", "", "nothing"), ("v1", "v2", "nothing"), ("v1", "v1", "7")]:
        stop_in_the_middle(run(name, fingerprint, 7, 0.01), signal.SIGKILL)
        output, errors = run(name, then, 8).communicate(timeout=60)
        assert output.startswith(f"began with {expected}\n"), errors


def test_what_a_killed_process_left_may_be_opened_as_something_else(name):
    stop_in_the_middle(run(name, "v1", 1, 0.01), signal.SIGKILL)
    options = {"length": 5, "capacity": "1MiB", "fingerprint": "v1", "keyed": True, "droppable": True}
    with ddpcache.Cache(name, **options) as cache:
        cache["a"] = 1
        assert cache.info.created and len(cache) == 5


def open_at_once(name, barrier, number, answers):
    barrier.wait(60)
    with ddpcache.Cache(name, length=100, capacity="1MiB", fingerprint="v1") as cache:
        cache.get_or_load(number % 3, lambda index: index)
        answers.put((cache.info.created, cache.info.uuid))
        barrier.wait(60)


def test_constructors_at_the_same_time_make_one_cache(name):
    for _ in range(10):
        found = run_all(open_at_once, name, fork.Barrier(6), count=6)
        assert sum(created for created, _ in found) == 1 and len({uuid for _, uuid in found}) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_second_user_of_the_machine_has_caches_of_the_same_names(open_cache, name):
    open_cache()[1] = "root's"
    other = 54_321
    child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            os.setgid(other)
            os.setuid(other)
            with ddpcache.Cache(name, length=10, capacity="1MiB", fingerprint="other") as cache:
                mine = 1 not in cache and cache.put(1, "the other's") and ddpcache.Cache.list() == [name]
                status = 0 if mine and cache[1] == "the other's" else 2
        os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert open_cache()[1] == "root's"
        left = list(Path("/dev/shm").glob(f"ddpcache.{other}.*"))
        assert not left
    finally:
        Path(f"/dev/shm/ddpcache.{other}").unlink(missing_ok=True)  # that user's lock file, which stays


def open_and_close(name, number, answers):
    generator = random.Random(number)
    answers.put("began")
    while True:
        with ddpcache.Cache(name, length=100, capacity="1MiB", fingerprint="v1", timeout=60) as cache:
            cache.put(generator.randrange(100), number)


def test_processes_killed_while_they_open_and_close_lock_nobody_out(name):
    """No lock file of a dead process has to be removed by hand."""
    for number in range(15):
        answers = fork.Queue()
        victims = [fork.Process(target=open_and_close, args=(name, number + part, answers)) for part in range(2)]
        for victim in victims:
            victim.start()
        for _ in victims:
            answers.get(timeout=60)
        time.sleep(random.Random(number).random() * 0.02)
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
            victim.join(60)
        began = time.monotonic()
        with ddpcache.Cache(name, length=100, capacity="1MiB", fingerprint="v1") as cache:
            cache.check()
        assert time.monotonic() - began < 10


# Too little shared memory.

SMALL = textwrap.dedent("""
    import os, sys, numpy, ddpcache
    options = {"length": 1000, "fingerprint": "v1", "sample_bytes_max": "256KiB"}
    try:
        ddpcache.Cache("small", capacity="64MiB", **options)
        raise SystemExit("64 MiB of 8")
    except ddpcache.NoSpaceError as error:
        print(error)
    with ddpcache.Cache("small", capacity="64MiB", partial=True, **options) as cache:
        count = 0
        while cache.put(count, numpy.full(100_000, count % 251, numpy.uint8)):
            count += 1
        print("stored", count)
        assert all((cache[index] == index % 251).all() for index in range(count))
    with ddpcache.Cache("small", capacity="4MiB", **options) as cache:
        cache[0] = numpy.zeros(100_000, numpy.uint8)
        with open("/dev/shm/others", "wb", buffering=0) as others:
            try:
                while others.write(bytes(65536)):
                    pass
            except OSError:
                pass
        stored = [cache.put(index, numpy.ones(100_000, numpy.uint8)) for index in range(1, 100)]
        assert not all(stored) and (cache[0] == 0).all()
        assert (cache.get_or_load(500, lambda index: numpy.full(100_000, 5, numpy.uint8)) == 5).all()
    print("survived")
""")


def test_a_small_dev_shm_is_no_bus_error(tmp_path):
    """A container's 64 MB, here 8; and others that fill it while a cache is in use."""
    shell = 'mount -t tmpfs -o size=8m none /dev/shm && exec "$0" -c "$1"'
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run([*unshare, "true"]).returncode:
        pytest.skip("making a mount of one's own is not permitted here")
    done = subprocess.run([*unshare, shell, sys.executable, SMALL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    error, stored, survived = done.stdout.splitlines()
    # Of the place where the cache lies, not of the machine's memory, and with what to do about it.
    assert re.search(r"/dev/shm/ddpcache.0.small needs 6\d.*MiB, but the file system has 8 MiB free", error), error
    assert "--shm-size" in error and "emptyDir with medium Memory" in error
    assert int(stored.split()[1]) > 20 and survived == "survived"


# Wrong bytes.


def store_slowly(cache, start):
    start.wait(60)
    for index in range(len(cache)):
        cache[index] = np.full(200_000, index)


def test_no_reader_sees_a_sample_before_all_of_it_is_there(open_cache):
    cache = open_cache(length=60, capacity="128MiB", sample_bytes_max="2MiB")
    start = fork.Barrier(2)
    writer = fork.Process(target=store_slowly, args=(cache, start))
    writer.start()
    start.wait(60)
    seen, deadline = collections.Counter(), time.monotonic() + 60
    while seen[59] == 0 and time.monotonic() < deadline:
        for index in range(60):
            sample = cache.get(index)
            if sample is not None and seen[index] < 3:
                seen[index] += 1
                assert sample.shape == (200_000,) and (sample == index).all()
    writer.join(60)
    assert writer.exitcode == 0 and len(seen) == 60


# Fork.


def test_a_child_forked_while_threads_open_and_fill_works(open_cache, name):
    """A lock that another thread holds at the fork stays locked in the child for ever, unless somebody sees to it."""
    cache, stop = open_cache(length=10_000), threading.Event()

    def fill(first):
        for index in range(first, 10_000, 3):
            if stop.is_set():
                return
            cache.get_or_load(index, lambda index: np.full(100, index))

    def open_others(_):
        while not stop.is_set():
            with ddpcache.Cache(f"{name}.other", length=10, capacity="1MiB", fingerprint="v1") as other:
                other.put(1, 1)

    threads = [threading.Thread(target=target, args=(number,)) for target in (fill, open_others) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            child = os.fork()
            if not child:
                signal.alarm(60)
                fine = (cache.get_or_load(9_999 - 3 * number, lambda index: np.full(100, index)) >= 0).all()
                with ddpcache.Cache(f"{name}.other", length=10, capacity="1MiB", fingerprint="v1") as other:
                    fine = fine and other.get_or_load(2, lambda index: index) == 2
                os._exit(0 if fine else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


# Sampler.


def test_every_node_sees_a_mix_of_a_sorted_data_set_and_with_exchange_all_of_it():
    """Shards that are cut once and never change cost accuracy: a node would see some classes only."""
    length, nodes = 10_000, 4

    def epoch_of(number, epoch, exchange):
        place = ddpcache.Topology(number, nodes, 0, 1)
        return np.fromiter(
            ddpcache.Sampler(length, topology=place, epoch=epoch, exchange=exchange, tail="exact"), np.int64
        )

    for number in range(nodes):
        classes = np.bincount(epoch_of(number, 0, 0) // 1000, minlength=10)
        assert (abs(classes - 250) < 100).all(), f"samples of each class on node {number}: {classes}"
        seen = set()
        for epoch in range(45):
            seen.update(epoch_of(number, epoch, 0.1).tolist())
        assert len(seen) == length


# The list.


def names_in(path):
    """The functions of a file."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_the_list_of_situations_names_tests_that_there_are():
    """A test that is renamed or removed cannot drop out of docs/situations.md unnoticed."""
    rows = [line for line in (ROOT / "docs" / "situations.md").read_text().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| what happened", "|---"))]
    known: dict[str, set[str]] = {}
    for row in rows:
        named = re.findall(r"`([\w/.]+\.py)::(\w+)`", row)
        assert named, f"no test in the row: {row}"
        for file, test in named:
            path = ROOT / file if "/" in file else Path(__file__).with_name(file)
            if file not in known:
                known[file] = names_in(path)
            assert test in known[file], f"{file} has no {test}"
    here = {name for name in names_in(Path(__file__)) if name.startswith("test_")}
    listed = set(re.findall(r"`test_reports.py::(\w+)`", "\n".join(rows)))
    assert here - listed == {test_the_list_of_situations_names_tests_that_there_are.__name__}
    assert len(rows) > 25
