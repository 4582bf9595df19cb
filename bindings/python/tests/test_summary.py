"""The line that says what a cache did: on demand, and when the last process leaves."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from ddpcache import Cache

OPTIONS = "length=100, capacity='32MiB', fingerprint='summary 1'"


def environment(value="1"):
    return {**os.environ, "DDPCACHE_SUMMARY": value}


def run(code, *arguments, value="1"):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment(value), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("ddpcache ")]


def test_summary_is_one_line_of_all_counts(cache):
    for index in [1, 2, 3, 1, 1]:
        cache.get_or_load(index, lambda index: np.zeros(1000))
    line = cache.summary()
    assert line.startswith(f"ddpcache {cache.name}: 3 of 100 samples in ")
    assert line.endswith(", 2 hits, 3 misses, hit rate 40.0 %, 3 decoded")
    assert "\n" not in line


def test_summary_says_that_a_cache_is_full(open_cache):
    cache = open_cache(".small", capacity="1MiB", sample_bytes=400_000)
    for index in range(10):
        cache.get_or_load(index, lambda index: np.zeros(400_000, np.uint8))
    bypasses = cache.stats().bypasses
    assert bypasses > 0
    assert cache.summary().endswith(f", hit rate 0.0 %, 10 decoded, {bypasses} of them without room: full")


ENDINGS = {
    "exit": "cache.get_or_load(7, str)",
    "close": "cache.get_or_load(7, str); cache.close(); cache.close()",
    "with": "with cache: cache.get_or_load(7, str)",
    "collected": "cache.get_or_load(7, str); del cache",
    "exception": "cache.get_or_load(7, str); import atexit; atexit.register(lambda: 1 / 0)",
    "two handles": "cache.get_or_load(7, str); other = ddpcache.Cache(sys.argv[1]); cache.close()",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_is_alone_prints_it_however_it_ends(name, ending):
    code = f"import sys, ddpcache\ncache = ddpcache.Cache(sys.argv[1], {OPTIONS})\n{ENDINGS[ending]}"
    lines = run(code, name)
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"ddpcache {name}: 1 of 100 samples in ")


@pytest.mark.parametrize("value", ["", "0"])
def test_nobody_prints_it_unasked(name, value):
    assert run(f"import sys, ddpcache\ncache = ddpcache.Cache(sys.argv[1], {OPTIONS})", name, value=value) == []


RANK = f"""
import sys, ddpcache
cache = ddpcache.Cache(sys.argv[1], {OPTIONS})
for index in range(50):
    cache.get_or_load(index, str)
print("ready", flush=True)
sys.stdin.read()
"""


def start(name, output):
    rank = subprocess.Popen(
        [sys.executable, "-c", RANK, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        env=environment(),
        text=True,
    )
    assert rank.stdout.readline() == "ready\n"
    return rank


@pytest.mark.parametrize("killed", [0, 2])
def test_of_processes_that_leave_together_exactly_one_prints_it(name, tmp_path, killed):
    for turn in range(2):
        with (tmp_path / f"stderr{turn}").open("w+") as output:
            ranks = [start(name, output) for _ in range(4)]
            for rank in ranks[:killed]:
                rank.kill()
                rank.wait()
            for rank in ranks:
                rank.stdin.close()
            statuses = [rank.wait(60) for rank in ranks]
            for rank in ranks:
                rank.stdout.close()
            assert statuses == [-signal.SIGKILL] * killed + [0] * (4 - killed)
            output.seek(0)
            lines = output.read().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].endswith("150 hits, 50 misses, hit rate 75.0 %, 50 decoded")


LOADING = """
import sys, torch
from ddpcache.torch import CachedDataset
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return torch.full((100,), index * index)

if __name__ == "__main__":
    dataset = CachedDataset(Squares(), sys.argv[1], capacity="32MiB")
    loader = DataLoader(dataset, batch_size=4, num_workers=1, multiprocessing_context=sys.argv[2],
                        persistent_workers=sys.argv[3] == "persistent")
    for epoch in range(2):
        assert sum(len(batch) for batch in loader) == 40
"""


@pytest.mark.parametrize(("method", "kept"), [("fork", "persistent"), ("fork", "anew"), ("spawn", "persistent")])
def test_data_loader_workers_print_none_of_their_own(name, tmp_path, method, kept):
    script = tmp_path / "loading.py"
    script.write_text(LOADING)
    command = [sys.executable, script, name, method, kept]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddpcache ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].endswith("40 hits, 40 misses, hit rate 50.0 %, 40 decoded")
    # At the end of a script persistent workers are terminated, before the last client removes the cache.
    assert name not in Cache.list()


FORKING = f"""
import os, sys, ddpcache
cache = ddpcache.Cache(sys.argv[1], {OPTIONS})
cache.get_or_load(1, str)
child = os.fork()
if not child:
    cache.get_or_load(1, str)
    sys.exit(0)  # by way of atexit
os.waitpid(child, 0)
left = os.fork()  # a child that outlives its parent's cache holds copies of all descriptors
if not left:
    os.read(0, 1)
    os._exit(0)
cache.close()
os.close(0)
os.kill(left, 9)
os.waitpid(left, 0)
"""


def test_forked_children_leave_it_to_their_parent(name):
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", FORKING, name],
            stdin=reading,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ddpcache ") == 1, done.stderr
    assert "1 hits, 1 misses" in done.stderr


NO_STDERR = f"""
import os, sys, ddpcache
cache = ddpcache.Cache(sys.argv[1], {OPTIONS})
if sys.argv[2] == "none":
    sys.stderr = None
elif sys.argv[2] == "closed":
    os.close(2)
else:
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(read); os.close(write)
"""


@pytest.mark.parametrize("kind", ["none", "closed", "broken"])
def test_an_exit_without_stderr_is_none_the_worse(name, kind):
    done = subprocess.run([sys.executable, "-c", NO_STDERR, name, kind], env=environment(), timeout=60)
    assert done.returncode == 0
    assert name not in Cache.list()


def test_a_look_only_waits_for_nobody_and_prints_nothing(name, cache):
    lines = run("import sys, ddpcache; ddpcache.Cache(sys.argv[1], read_only=True).summary()", name)
    assert lines == []


# Its own descriptor with a lock of the kind that whoever leaves takes, as if it were another process's.
STOPPED = f"""
import fcntl, os, sys, ddpcache
cache = ddpcache.Cache(sys.argv[1], {OPTIONS})
file = os.open(f"/dev/shm/ddpcache.{{os.geteuid()}}.{{sys.argv[1]}}", os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
"""


def test_an_exit_does_not_wait_for_one_that_is_stopped(name):
    assert run(STOPPED, name) == []
    assert name not in Cache.list()
