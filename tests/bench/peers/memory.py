"""What the processes of a run occupy, each byte counted once."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MAPPING = re.compile(r"^([0-9a-f]+-[0-9a-f]+) \S+ (\S+) (\S+) (\d+) *(.*)$")
PAGE = mmap.PAGESIZE


def descendants(pid: int) -> list[int]:
    """A process and all that it started, and they."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def _kilobytes(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size) for name, size, *_ in map(str.split, lines)}


def _mappings(pid: int) -> Iterator[tuple[str, str, tuple[str, str, str], dict[str, int]]]:
    """Of each mapping the addresses, the path, what tells its pages apart, and the sizes in kilobytes."""
    head, sizes = None, {}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if found := MAPPING.match(line):
            if head:
                yield *head, sizes
            addresses, offset, device, inode, path = found.groups()
            head, sizes = (addresses, path, (device, inode, offset)), {}
        elif line.endswith(" kB"):
            name, size, _ = line.split()
            sizes[name] = int(size)
    if head:
        yield *head, sizes


def _is_shared_memory(path: str) -> bool:
    return path.startswith(("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"))


def _open_files(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if _is_shared_memory(os.readlink(descriptor)):
                yield str(descriptor)
        except OSError:
            continue  # closed meanwhile


def _occupied(paths: set[str]) -> int:
    """What files occupy, each once, however many paths lead to it."""
    files = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue  # gone meanwhile; or /proc/PID/map_files, which only root may follow
        files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(files.values())


def _cached(folder: Path) -> int:
    """What the page cache holds of the files below a folder."""
    libc, pages = ctypes.CDLL(None, use_errno=True), 0
    for file in folder.rglob("*"):
        size = file.stat().st_size if file.is_file() else 0
        if not size:
            continue
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped,
        ):
            count = -(-size // PAGE)
            states = (ctypes.c_ubyte * count)()
            address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states):
                raise OSError(ctypes.get_errno(), f"mincore of {file}")
            pages += sum(state & 1 for state in states)
    return pages * PAGE


def measure(pid: int, stores: Path) -> dict[str, int]:
    """Bytes of a process and all that it started: their own memory, libraries, shared memory, and files below `stores`.

    Pss divides what is shared by all that share it, processes of other runs included. So libraries are taken whole, as
    far as any process of this run has them in memory; and shared memory by what its files occupy, since Pss counts only
    what is mapped in at the moment. What is forked shares with its launcher only, which is one of these processes.
    """
    anonymous = mapped_shared = pss = 0
    libraries: dict[tuple, int] = defaultdict(int)
    shared_files = set()
    for process in descendants(pid):
        sizes = _kilobytes(process)
        pss += sizes["Pss:"]
        anonymous += sizes["Pss_Anon:"]
        mapped_shared += sizes["Pss_Shmem:"]
        shared_files.update(_open_files(process))
        for addresses, path, identity, mapping in _mappings(process):
            if _is_shared_memory(path):
                shared_files.add(f"/proc/{process}/map_files/{addresses}")
            elif identity[1] != "0" and not path.startswith(f"{stores}/"):
                libraries[identity] = max(libraries[identity], mapping["Rss:"] - mapping["Anonymous:"])
    return {
        "processes": 1024 * (anonymous + sum(libraries.values())),
        "shared_memory": max(_occupied(shared_files), 1024 * mapped_shared),
        "files": _cached(stores),
        "pss": 1024 * pss,
    }
