"""Starting the players, one program a language, and talking to them: see README.md."""

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from project import INSTALL, ROOT
from rust import TARGET, cargo

FOLDER = Path(__file__).resolve().parent / "players"
PROGRAMS = ROOT / "build" / "dev" / "tests" / "interop"
ANSWER_SECONDS_MAX = 300


class PlayerFailed(AssertionError):
    """A player has answered with an error, or not at all."""


def ctypes_command(folder: Path) -> tuple[list, dict]:
    # The generated file alone, as a Python build without the compiled module would have it.
    shutil.copy(ROOT / "bindings" / "python" / "ddpcache" / "raw.py", folder)
    environment = {"PYTHONPATH": str(folder), "DDPCACHE_LIBRARY": str(INSTALL / "lib" / "libddpcache.so")}
    return [sys.executable, FOLDER / "player_ctypes.py"], environment


def rust_command(_: Path) -> tuple[list, dict]:
    cargo(
        "build", "--quiet", "--release", "--example", "interop_player", folder=ROOT / "bindings" / "rust" / "ddpcache"
    )
    return [TARGET / "release" / "examples" / "interop_player"], {}


def julia_command(_: Path) -> tuple[list, dict]:
    julia, project = ROOT / "build" / "julia" / "bin" / "julia", ROOT / "bindings" / "julia"
    environment = {"DDPCACHE_LIBRARY": str(INSTALL / "lib" / "libddpcache.so.1")}
    # Unoptimised: nearly all of its time goes into compiling code for each type and number of dimensions.
    return [julia, "-O0", "--startup-file=no", f"--project={project}", FOLDER / "player.jl"], environment


# What starts the player of a language, and the environment variables that it needs; from a folder of its own.
COMMANDS = {
    "C": lambda folder: ([PROGRAMS / "interop_c"], {}),
    "C++": lambda folder: ([PROGRAMS / "interop_cpp"], {}),
    "Python (SWIG)": lambda folder: ([sys.executable, FOLDER / "player.py"], {}),
    "Python (ctypes)": ctypes_command,
    "Julia": julia_command,
    "Rust": rust_command,
}


class Player:
    """A running player."""

    def __init__(self, language: str, folder: Path) -> None:
        self.language = language
        command, environment = COMMANDS[language](folder)
        self.words = folder / "stderr.txt"
        with self.words.open("w") as words:
            self.process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env={**os.environ, **environment},
            )
        self.buffered = b""

    def __call__(self, *words: object) -> str:
        """The answer to a command, behind `ok`."""
        line = " ".join(map(str, words))
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail(line, "has ended")
        answer = self.answer(line)
        if answer != "ok" and not answer.startswith("ok "):
            self.fail(line, answer)
        return answer.removeprefix("ok").strip()

    def answer(self, line: str) -> str:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while b"\n" not in self.buffered:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self.fail(line, f"has not answered for {ANSWER_SECONDS_MAX} s")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                self.fail(line, f"has ended with status {self.process.wait()}")
            self.buffered += more
        answer, _, self.buffered = self.buffered.partition(b"\n")
        return answer.decode(errors="replace")

    def fail(self, line: str, reason: str) -> None:
        raise PlayerFailed(
            f"{self.language}, told {line!r}: {reason}\n{self.words.read_text(errors='replace')[-2000:]}"
        )

    def end(self) -> int:
        """Its exit status, after it was told to quit."""
        try:
            self.process.communicate(b"quit\n", timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode
