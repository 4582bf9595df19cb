"""The worker processes of a CachedLoader: started only when needed, in every way there is, and killed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import ddpcache
import pytest
import torch
from ddpcache.torch import CachedDataset, CachedLoader
from torch.utils.data import DataLoader, Dataset, get_worker_info

LENGTH = 48
HANG_SECONDS = 120


class Images(Dataset):
    """Says in each sample which process decoded it."""

    def __init__(self, bad: int = -1, seconds: float = 0.0) -> None:
        self.bad, self.seconds = bad, seconds

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.seconds)
        if index == self.bad:
            raise ValueError(f"sample {index} cannot be decoded")
        return torch.full((3000,), index, dtype=torch.int16), os.getpid()


def check(loader: Any, length: int = LENGTH) -> set[int]:
    """One epoch is right; the processes that decoded it."""
    indices, processes = [], set()
    for images, decoders in loader:
        assert (images == images[:, :1]).all()
        indices += images[:, 0].tolist()
        processes |= set(decoders.tolist())
    assert indices == list(range(length))
    return processes


def workers_of(iterator: Any) -> list[Any]:
    return iterator._workers._workers


def children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children()}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_decode_what_is_missing_however_they_are_started(method: str, persistent: bool, name: str) -> None:
    with CachedDataset(Images(), name, capacity="16MiB") as dataset:
        loader = CachedLoader(
            dataset, 4, num_workers=2, multiprocessing_context=method, persistent_workers=persistent, prefetch_factor=3
        )
        gc.collect()
        before = children()
        decoders = check(loader)
        assert os.getpid() not in decoders
        assert len(decoders) == 2
        assert len(children() - before) == (2 if persistent else 0)
        for _ in range(2):
            assert check(loader) == decoders
        stats = dataset.cache.stats()
        assert (stats.fills, stats.misses) == (LENGTH, LENGTH)
        del loader
        assert children() == before


def test_a_warm_epoch_starts_no_worker(name: str) -> None:
    with CachedDataset(Images(), name, capacity="16MiB") as dataset:
        for index in range(LENGTH):
            dataset[index]
        loader = CachedLoader(dataset, 4, num_workers=2, persistent_workers=True, worker_init_fn=fail)
        assert check(loader) == {os.getpid()}
        assert check(loader) == {os.getpid()}


def fail(worker: int) -> None:
    raise AssertionError(f"worker {worker} was started")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_comes_with_the_workers_traceback_in_its_turn(workers: int, name: str) -> None:
    with CachedDataset(Images(bad=9), name, capacity="16MiB") as dataset:
        loader = CachedLoader(dataset, 4, num_workers=workers)
        for _ in range(2):
            iterator = iter(loader)
            seen = [next(iterator)[0][:, 0].tolist() for _ in range(2)]
            with pytest.raises(ValueError, match="sample 9 cannot be decoded") as caught:
                next(iterator)
            assert not workers or "in __getitem__" in str(caught.value)  # the text of its traceback
            seen += [images[:, 0].tolist() for images, _ in iterator]
            assert seen == [list(range(first, first + 4)) for first in range(0, LENGTH, 4) if first != 8]


def test_worker_init_fn_seeds_and_worker_info_are_torchs(name: str, tmp_path: Path) -> None:
    def said(kind: Any) -> list[str]:
        say = Say(tmp_path / kind.__name__)
        say.path.touch()
        torch.manual_seed(5)
        with CachedDataset(Images(), name + kind.__name__, capacity="16MiB") as dataset:
            check(kind(dataset, 4, num_workers=2, worker_init_fn=say))
        return sorted(say.path.read_text().splitlines())

    assert said(CachedLoader) == said(DataLoader)
    with CachedDataset(Images(), name, capacity="16MiB") as dataset:
        with pytest.raises(AssertionError, match="worker 0 was started"):
            list(CachedLoader(dataset, num_workers=1, worker_init_fn=fail))


class Say:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        with self.path.open("a") as file:
            file.write(f"{worker} of {info.num_workers}, {info.seed} {torch.initial_seed()} {len(info.dataset)}\n")


@pytest.mark.parametrize("persistent", [False, True])
def test_a_killed_worker_raises_and_the_loader_goes_on(persistent: bool, name: str) -> None:
    with CachedDataset(Images(seconds=0.02), name, capacity="16MiB") as dataset:
        loader = CachedLoader(dataset, 4, num_workers=2, persistent_workers=persistent)
        iterator = iter(loader)
        seen = [next(iterator)]
        with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(?s?\)? ?\d+\)"):
            os.kill(workers_of(iterator)[1].pid, signal.SIGKILL)
            for _ in range(LENGTH):
                seen.append(next(iterator))
                time.sleep(0.05)  # torch raises from a signal handler, wherever the program is
        deadline = time.monotonic() + HANG_SECONDS
        while len(seen) < LENGTH // 4:
            assert time.monotonic() < deadline
            try:
                seen.append(next(iterator))
            except RuntimeError as error:
                assert "DataLoader worker" in str(error)  # where torch had raised outside of the loader
        check(seen)
        with pytest.raises(StopIteration):
            next(iterator)
        check(loader)
        del iterator, loader
        gc.collect()  # the error that was caught knows the iterator


def test_slow_workers_are_a_timeout(name: str) -> None:
    with CachedDataset(Images(seconds=3), name, capacity="16MiB") as dataset:
        with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.5 seconds"):
            next(iter(CachedLoader(dataset, 4, num_workers=1, timeout=0.5)))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("cold", [False, True])
def test_an_iterator_that_is_dropped_in_mid_epoch_leaves_nothing(cold: bool, persistent: bool, name: str) -> None:
    with CachedDataset(Images(), name, capacity="16MiB") as dataset:
        if not cold:
            check(DataLoader(dataset, 4))
        gc.collect()  # what other tests left to an error that knows it
        before = children()
        loader = CachedLoader(dataset, 4, num_workers=2, persistent_workers=persistent)
        iterator = iter(loader)
        next(iterator)
        del iterator
        for _ in range(3):
            for images, _ in loader:
                assert images[0, 0] == 0
                break
        check(loader)
        del loader
        assert children() == before
        assert "ddpcache-loader" not in [thread.name for thread in threading.enumerate()]


def test_a_program_that_ends_in_mid_epoch_ends(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_torch_loader_workers as tests
        if __name__ == "__main__":
            dataset = tests.CachedDataset(tests.Images(), {name!r}, capacity="16MiB")
            loader = tests.CachedLoader(dataset, 4, num_workers=int(sys.argv[1]), persistent_workers=sys.argv[1] != "0")
            for _ in range(int(sys.argv[2])):
                tests.check(loader)
            iterator = iter(loader)
            print(next(iterator)[0][:, 0].tolist())
        """)
    )
    for workers, epochs in (("0", "0"), ("0", "1"), ("2", "0"), ("2", "1")):
        command = [sys.executable, str(script), workers, epochs]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2, 3]\n", "")
        assert name not in ddpcache.Cache.list()


def test_loaders_side_by_side_and_forks_in_mid_epoch_do_not_disturb(name: str) -> None:
    with (
        CachedDataset(Images(), name + "a", capacity="16MiB") as one,
        CachedDataset(Images(), name + "b", capacity="16MiB") as other,
    ):
        check(DataLoader(one, 4))
        warm = CachedLoader(one, 4)
        cold = CachedLoader(other, 4, num_workers=2, multiprocessing_context="fork")
        for (images, _), (others, _), (again, _) in zip(warm, cold, warm, strict=True):
            assert torch.equal(images, others)
            assert torch.equal(images, again)
        iterator = iter(warm)
        next(iterator)
        process = multiprocessing.get_context("fork").Process(target=check_again, args=(iterator, warm))
        process.start()
        process.join(HANG_SECONDS)
        assert process.exitcode == 0
        assert len(list(iterator)) == LENGTH // 4 - 1


def check_again(iterator: Any, loader: Any) -> None:
    del iterator  # the parent's
    check(loader)


def test_no_thread_runs_while_workers_are_forked(name: str) -> None:
    """From Python 3.12 on, a fork of a process with several threads warns."""
    with CachedDataset(Images(), name, capacity="16MiB") as dataset:
        for index in range(LENGTH // 2):
            dataset[index]
        gc.collect()
        counts = []
        os.register_at_fork(before=lambda: counts.append([thread.name for thread in threading.enumerate()]))
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            loader = CachedLoader(dataset, 4, num_workers=2, multiprocessing_context="fork", prefetch_factor=1)
            assert len(check(loader)) == 3
        assert counts
        assert not any("ddpcache-loader" in names for names in counts)
        assert any("MainThread" in names for names in counts)
