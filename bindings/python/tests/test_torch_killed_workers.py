"""Data loaders whose workers are killed: every value is right, nothing hangs, no space of the cache is lost.

Run as a program, this file is a rank. In a soak there are 4 ranks of 8 workers: by fork, a worker is killed every
second for a minute; by spawn and forkserver, whose workers are slow to start, one is killed each time all ranks have
delivered since the last, 5 times.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ddpcache
import pytest
import torch
from ddpcache.torch import CachedDataset
from torch.utils.data import DataLoader, Dataset, RandomSampler

SOAKING = os.environ.get("DDPCACHE_SOAK") == "1"
LENGTH, NUMBERS = 400, 2500
HANG_SECONDS = 300
# What torch says of a loader whose worker is gone. What a worker's own exception says begins with "Caught".
GONE = ("killed by signal", "exited unexpectedly")


def options() -> dict[str, object]:
    """Of a cache with room for half of the samples, so that there is always something to fill."""
    return {
        "length": LENGTH,
        "capacity": "2MiB",
        "sample_bytes_max": 20_000,
        "fingerprint": "killed",
        "droppable": True,
    }


class Slow(Dataset):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.001)
        return torch.full((NUMBERS,), index, dtype=torch.int32), index


class Rank:
    def __init__(self, name: str, method: str, workers: str, folder: str, number: str) -> None:
        self.method, self.workers, self.number = method, int(workers), int(number)
        self.folder = Path(folder)
        self.cache = ddpcache.Cache(name, **options())
        self.dataset = CachedDataset(Slow(), self.cache)
        self.delivered = (self.folder / f"delivered{number}").open("ab", buffering=0)

    def run(self) -> None:
        torch.set_num_threads(1)
        # torch raises from a signal handler, so also where nobody loads: while the loop goes round, or in `excuse`.
        while True:
            try:
                try:
                    while not self.is_over():
                        self.train()
                    return
                except (RuntimeError, OSError, EOFError) as error:
                    self.excuse(error)
            except RuntimeError as error:
                self.excuse(error)

    def excuse(self, error: Exception) -> None:
        """Goes on after what a killed worker costs a loader, and after nothing else."""
        if "Caught" in str(error) or (type(error) is RuntimeError and not any(words in str(error) for words in GONE)):
            raise error
        print("again:", repr(error), file=sys.stderr, flush=True)

    def is_over(self) -> bool:
        return (self.folder / "over").exists()

    def train(self) -> None:
        loader = DataLoader(
            self.dataset,
            batch_size=4,
            sampler=RandomSampler(self.dataset, replacement=True, num_samples=10**9),
            num_workers=self.workers,
            multiprocessing_context=self.method,
            worker_init_fn=Announce(self.folder / "workers"),
        )
        for count, (images, indices) in enumerate(loader):
            assert (images == indices[:, None]).all(), f"{indices.tolist()} are {images[:, 0].tolist()}"
            self.delivered.write(b".")
            if self.number == 0 and count % 200 == 0:
                self.cache.clear()
            if self.is_over():
                return


class Announce:
    """Tells a worker's number, as a line that a short append keeps whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, _: int) -> None:
        with self.path.open("ab", buffering=0) as lines:
            lines.write(f"{os.getpid()}\n".encode())


class Job:
    def __init__(self, name: str, method: str, ranks: int, workers: int, folder: Path) -> None:
        self.folder, self.killed = folder, set()
        self.ranks = []
        for number in range(ranks):
            command = [sys.executable, __file__, name, method, str(workers), str(folder), str(number)]
            with (folder / f"stderr{number}").open("wb") as errors:
                self.ranks.append(
                    subprocess.Popen(
                        command,
                        stderr=errors,
                        start_new_session=True,
                        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
                    )
                )

    def delivered(self) -> list[int]:
        files = [self.folder / f"delivered{number}" for number in range(len(self.ranks))]
        return [file.stat().st_size if file.exists() else 0 for file in files]

    def await_deliveries(self) -> None:
        """Until each rank has delivered something more."""
        before = self.delivered()
        self.wait(lambda: all(now > then for now, then in zip(self.delivered(), before, strict=True)))

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not condition():
            ended = [rank.poll() for rank in self.ranks]
            assert all(status in (None, 0) for status in ended), f"ranks ended with {ended}\n{self.errors()}"
            assert time.monotonic() < deadline, f"a rank hangs: {self.delivered()} delivered\n{self.errors()}"
            time.sleep(0.02)

    def alive(self) -> list[int]:
        """The workers that may be killed; none while all ranks are starting theirs again."""
        sessions = {rank.pid for rank in self.ranks}
        announced = set(map(int, (self.folder / "workers").read_text().split()))
        return [pid for pid in announced - self.killed if session_of(pid) in sessions]

    def kill_a_worker(self) -> None:
        self.wait(lambda: bool(self.alive()))
        victim = random.choice(self.alive())
        self.killed.add(victim)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

    def end(self) -> None:
        (self.folder / "over").touch()
        self.wait(lambda: all(rank.poll() == 0 for rank in self.ranks))

    def errors(self) -> str:
        return "\n".join(file.read_text()[-2000:] for file in sorted(self.folder.glob("stderr*")))

    def kill(self) -> None:
        """Of a test that failed: until nobody uses the cache any more. The ranks are reaped last, so that nobody else
        gets the numbers of their sessions."""
        running = [rank for rank in self.ranks if rank.poll() is None]
        for rank in running:
            rank.kill()
        sessions = {rank.pid for rank in running}
        while left := [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if session_of(pid) in sessions
        ]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for rank in running:
            rank.wait()


def session_of(pid: int) -> int | None:
    """The session of a process that is alive."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[3])


def expect_nothing_lost(cache: ddpcache.Cache) -> None:
    for index in range(LENGTH):
        sample = cache.get(index)
        assert sample is None or (sample[1] == index and (sample[0] == index).all())
    # In the end every piece of memory holds a sample.
    for _ in range(50):
        for index in range(LENGTH):
            cache.put(index, Slow()[index])
        if cache.check().extents_free == 0:
            break
    report = cache.check()
    assert (report.violations, report.extents_free, report.extents_named) == (0, 0, 0)
    assert report.entries_writing == 0 and report.entries_ready == report.extents_owned


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_killed_workers_cost_time_and_nothing_else(name, tmp_path, method):
    ranks, workers = (4, 8) if SOAKING or method == "fork" else (2, 2)
    with ddpcache.Cache(name, **options()) as cache:
        job = Job(name, method, ranks, workers, tmp_path)
        try:
            job.await_deliveries()
            if method == "fork":
                for _ in range(60 if SOAKING else 5):
                    time.sleep(1)
                    job.kill_a_worker()
            else:
                for _ in range(5 if SOAKING else 1):
                    job.kill_a_worker()
                    job.await_deliveries()
            job.await_deliveries()
            job.end()
        finally:
            job.kill()
        print(f"{method}: {sum(job.delivered())} batches, {len(job.killed)} workers killed, {cache.stats()}")
        expect_nothing_lost(cache)


if __name__ == "__main__":
    rank = Rank(*sys.argv[1:])
    rank.run()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
