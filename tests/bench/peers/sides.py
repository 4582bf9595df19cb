"""A way with a number of workers, as the other end of its launcher sees it: time limits, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory import descendants
from ways import WAYS, Way

LAUNCHER = Path(__file__).resolve().parent / "launcher.py"
START_SECONDS, STOP_SECONDS = 90, 20
SHARED_MEMORY = Path("/dev/shm")
ENVIRONMENT = {
    **os.environ,
    # One thread for each process that loads, as torchrun has it.
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TOKENIZERS_PARALLELISM": "false",
}


class FailedError(Exception):
    """Why a side has no values, in a line, and what there is beside."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.details = details


@dataclass(frozen=True)
class Variant:
    """A way, with workers or without."""

    key: str
    with_workers: bool

    @property
    def way(self) -> Way:
        return WAYS[self.key]

    @property
    def label(self) -> str:
        return f"{self.key}{'' if self.with_workers else ', no workers'}"


VARIANTS = [
    Variant(key, with_workers)
    for key, way in WAYS.items()
    for with_workers in ((True, False) if way.without_workers else (True,))
]


class Side:
    """A launcher, started again after it failed."""

    def __init__(self, variant: Variant, folder: Path, patience: float) -> None:
        self.variant, self.folder, self.patience = variant, folder, patience
        self.process: subprocess.Popen | None = None
        self.runs = 0

    def launch(self) -> None:
        """Begins to import what the way needs."""
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        self.errors = (self.folder / "errors.txt").open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), self.variant.key, str(temporary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=ENVIRONMENT | {"TMPDIR": str(temporary), "HOME": str(temporary)},
            start_new_session=True,
        )
        self.ready = self.stopping = False

    def await_import(self) -> None:
        if not self.ready:
            self._answer(START_SECONDS * self.patience, "its import")
            self.ready = True

    def ask(self, seconds: float, **command: Any) -> dict[str, Any]:
        """The launcher's answer. Raises FailedError where there is none in time or it is an error; then all is gone."""
        if self.process is None:
            self.launch()
        try:
            self.await_import()
            self._send(command)
            return self._answer(seconds * self.patience, command["do"])
        except FailedError:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends a run. Nobody waits for it before the next one: some loaders take five seconds."""
        self._send({"do": "stop"})
        self.stopping = True

    def _settle(self) -> None:
        """Waits for the end of the last run, and makes one where it does not come."""
        if self.process is not None and self.stopping:
            self.stopping = False
            try:
                self._answer(STOP_SECONDS * self.patience, "stop")
            except FailedError:
                self.kill()

    def _send(self, command: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the answer's absence will say it
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()

    def _answer(self, seconds: float, what: str) -> dict[str, Any]:
        line = b""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise FailedError(f"no answer to “{what}” within {seconds:.0f} s", self._words())
                some = os.read(self.process.stdout.fileno(), 1 << 16)
                if not some:
                    raise FailedError("its process ended", self._words())
                line += some
        answer = json.loads(line)
        if "error" in answer:
            raise FailedError(answer["error"], answer["trace"])
        return answer

    def _words(self) -> str:
        return (self.folder / "errors.txt").read_text(errors="replace")[-4000:]

    def start(self, seconds: float, **command: Any) -> dict[str, Any]:
        self._settle()
        self.runs += 1
        return self.ask(seconds, do="start", folder=str(self.folder / f"run-{self.runs}"), **command)

    def close(self) -> None:
        """Ends the launcher; its ranks have been stopped."""
        if self.process is None:
            return
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()

    def kill(self) -> None:
        """Ends the launcher and all that it started, and removes what they had in shared memory and files."""
        if self.process is None:
            return
        left = shared_memory_of(self.process.pid)
        # It leads a session of its own, in which all that it started is.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for path in left:
            path.unlink(missing_ok=True)
        for run in self.folder.glob("run-*"):
            shutil.rmtree(run, ignore_errors=True)
        self.errors.close()
        self.process = None


def shared_memory_of(pid: int) -> set[Path]:
    """The files in /dev/shm that a process, or one that it started, has open or mapped; not ddpcache's lock file."""
    found = set()
    with contextlib.suppress(OSError):
        for process in descendants(pid):
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{process}/maps").read_text().splitlines()
                found.update(line.split(maxsplit=5)[5] for line in maps if str(SHARED_MEMORY) in line)
    names = {Path(path).name for path in found if not path.endswith(" (deleted)")}
    return {SHARED_MEMORY / name for name in names if name != f"ddpcache.{os.getuid()}"}
