"""What a command of the tests leaves behind: processes of its session, and caches in shared memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def wait_for_none(find: Callable[[], set], seconds: float) -> set:
    """What `find` still finds after some time in which it may go away by itself."""
    deadline = time.monotonic() + seconds
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def processes_of_session(session: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, process_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(process_session) == session and state not in "ZX":
            found.add(int(stat.parent.name))
    return found


def cache_files() -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob(f"ddpcache.{os.getuid()}.*")}


def is_in_use(name: str) -> bool:
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if f"{SHARED_MEMORY}/{name}\n" in maps.read_text():
                return True
        except OSError:
            continue
    return False


def left_behind(before: set[str]) -> set[str]:
    """Caches that are new and that no process uses: other runs on this machine may have theirs."""
    left = wait_for_none(lambda: {name for name in cache_files() - before if not is_in_use(name)}, 5)
    lock_file = SHARED_MEMORY / f"ddpcache.{os.getuid()}"
    if lock_file.exists() and lock_file.stat().st_size:
        left.add(f"{lock_file.name} (the lock file is not empty)")
    return left
