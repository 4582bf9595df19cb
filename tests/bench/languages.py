"""A hit through each language against C, in turn, in processes that share one cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ddpcache
import numpy as np
from support import CLOCK, measure

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests" / "bench" / "languages"
PROGRAMS = ROOT / "build" / "bench" / "tests" / "bench"
INSTALL = ROOT / "build" / "install"
RUST = ROOT / "build" / "rust" / "release" / "examples"
SAMPLES, SAMPLE_BYTES = 1024, 4096
HITS = 100 * SAMPLES

COMMANDS = {
    "C": [PROGRAMS / "hit_c"],
    "C++": [PROGRAMS / "hit_cpp"],
    "Rust": [RUST / "hit_rounds"],
    "Julia": [
        ROOT / "build" / "julia" / "bin" / "julia",
        f"--project={ROOT / 'bindings' / 'julia'}",
        FOLDER / "hit.jl",
    ],
    "Python (SWIG)": [sys.executable, FOLDER / "hit.py"],
    "Python (ctypes)": [sys.executable, FOLDER / "hit_ctypes.py"],
}
ENVIRONMENT = {**os.environ, "DDPCACHE_LIBRARY": str(INSTALL / "lib" / "libddpcache.so.1")}


class Program:
    """A process that makes hits when told how many."""

    def __init__(self, command: list, name: str) -> None:
        self.process = subprocess.Popen(
            [*map(str, command), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self.hit(10 * SAMPLES)  # what a language compiles at its first use

    def now(self) -> int:
        """On the clock that the rows are measured by: the time on the wall, or that of the process's first thread."""
        if CLOCK == time.CLOCK_MONOTONIC:
            return time.clock_gettime_ns(CLOCK)
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])

    def hit(self, count: int) -> float:
        """Nanoseconds a hit. The pipe's share is some tens of microseconds in all."""
        begin = self.now()
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        spent = self.now() - begin
        if answer != f"{count * SAMPLE_BYTES}\n":
            raise RuntimeError(f"{self.process.args[0]} answered {answer!r} to {count} hits of {SAMPLE_BYTES} bytes")
        return spent / count

    def end(self) -> None:
        self.process.communicate(timeout=60)
        if self.process.returncode:
            raise RuntimeError(f"{self.process.args[0]} ended with status {self.process.returncode}")


def build_rust() -> None:
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(INSTALL / "lib" / "pkgconfig"),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": str(ROOT / "build" / "rust"),
    }
    command = ["cargo", "build", "--quiet", "--release", "--example", "hit_rounds"]
    subprocess.run(command, cwd=ROOT / "bindings" / "rust" / "ddpcache", env=environment, check=True)


def side(program: Program) -> Callable[[], float]:
    return lambda: program.hit(HITS)


def main() -> None:
    build_rust()
    name = f"bench-languages-{os.getpid()}"
    with ddpcache.Cache(
        name, length=SAMPLES, capacity="16MiB", fingerprint=None, sample_bytes_max=SAMPLE_BYTES
    ) as cache:
        for index in range(SAMPLES):
            cache[index] = np.full(SAMPLE_BYTES, index % 256, np.uint8)
        programs = {language: Program(command, name) for language, command in COMMANDS.items()}
        try:
            facts = {"sample_bytes": SAMPLE_BYTES, "samples": SAMPLES, "hits": HITS}
            for language, program in programs.items():
                if language != "C":
                    sides = {"ddpcache": side(program), "C": side(programs["C"])}
                    measure(f"hit through {language}", "ns", sides, facts)
        finally:
            for program in programs.values():
                program.end()


if __name__ == "__main__":
    main()
