"""One line on what a cache did for a job, when the job ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._cache import Cache

_VARIABLE = "DDPCACHE_SUMMARY"
# Of the cache's file: beyond its end, and not among the bytes that the library locks (docs/format.md).
_PRESENT_BYTE = 1 << 61
_LEAVING_SECONDS_MAX = 1.0


def readable_bytes(count: float) -> str:
    """A number of bytes in the decimal unit that suits it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 1000 else f"{count:,.0f} TB"


def summary_of(cache: Cache) -> str:
    """What Cache.summary returns."""
    stats = cache.stats()
    text = (
        f"ddpcache {cache.name}: {stats.resident:,} of {len(cache):,} samples "
        f"in {readable_bytes(stats.reserved_bytes)}, {stats.hits:,} hits, {stats.misses:,} misses, "
        f"hit rate {100 * stats.hit_rate:.1f} %, {stats.fills + stats.bypasses:,} decoded"
    )
    return f"{text}, {stats.bypasses:,} of them without room: full" if stats.bypasses else text


class Presence:
    """Stands for a process that has a cache open and would print its summary: the last one to leave does.

    Each holds a shared lock on one byte of the cache's file. Who leaves gives up its own and looks for others', one
    process at a time, so that of any number that leave together exactly one finds none. The kernel gives up the locks
    of those that are killed.
    """

    def __init__(self, file: int) -> None:
        """Takes over a descriptor of the cache's file."""
        self._process = os.getpid()
        self._file = file
        self.enter()

    def enter(self) -> None:
        if os.getpid() == self._process:
            _lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_RDLCK)

    def leave(self) -> bool:
        """Whether this was the last one. A child that was forked with it is none of its own."""
        if os.getpid() != self._process:
            return False
        # A lock of another kind, on a description of its own: forked children hold copies of the other.
        turn = os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not _take_turn(turn):
                return False
            # A lock lasts as long as any copy of its descriptor, those in forked workers too, so closing is not enough.
            _lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK)
            return _lock(self._file, fcntl.F_OFD_GETLK, fcntl.F_WRLCK) == fcntl.F_UNLCK
        finally:
            os.close(turn)

    def __del__(self) -> None:
        os.close(self._file)


def _lock(file: int, command: int, kind: int) -> int:
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, _PRESENT_BYTE, 1, 0)
    answer: int = struct.unpack("hhqqi4x", fcntl.fcntl(file, command, request))[0]
    return answer


def _take_turn(file: int) -> bool:
    """False where a process has been stopped in its turn: an exit does not wait for that."""
    deadline = time.monotonic() + _LEAVING_SECONDS_MAX
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)


def presence_in(cache: Cache) -> Presence | None:
    """One, where a summary is asked for. Data-loader workers and the like have none: they end with whom they serve."""
    if os.environ.get(_VARIABLE, "") in ("", "0"):
        return None
    from multiprocessing import current_process

    # A spawned process is not yet known as a worker while it imports the script and unpickles what it was given.
    if current_process().daemon or getattr(current_process(), "_inheriting", False):
        return None
    path = os.path.join(cache.directory or "/dev/shm", f"ddpcache.{os.geteuid()}.{cache.name}")
    with contextlib.suppress(OSError):
        return Presence(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    return None


@contextlib.contextmanager
def leaving(cache: Cache) -> Iterator[None]:
    """Around the closing of a cache: prints the summary to stderr if this process is the last. Breaks nothing."""
    presence = cache._presence
    line = ""
    with contextlib.suppress(Exception):
        if presence is not None and not cache.closed and presence.leave():
            line = summary_of(cache)
    try:
        yield
    except BaseException:  # it goes on
        with contextlib.suppress(Exception):
            if presence is not None:
                presence.enter()
        raise
    cache._presence = None
    if line:
        with contextlib.suppress(Exception):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
