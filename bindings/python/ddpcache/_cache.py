"""The cache as Python sees it. Its hit path (get, get_or_load, put, [], in, len, close) is C: swig/handle.c."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from . import _ddpcache as core
from . import _swig
from ._arguments import (
    KEY_TYPES,
    absolute_directory,
    cache_name,
    cache_options,
    check_fingerprint,
    indices_of,
    keys_of,
    number,
    timeout_ns,
)
from ._batches import Batches
from ._errors import MismatchError, NotFoundError, RangeError, StateError, check, error_of
from ._job import job_id
from ._records import CacheEstimate, CacheInfo, CacheReport, CacheStats, record, sized
from ._saving import Saving
from ._summary import Presence, leaving, presence_in, summary_of

_OPEN_SECONDS = 10.0


class _Required:
    """Stands for an argument that was not given, where None says something."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED: Any = _Required()


class Cache(Batches, Saving):
    """A cache of decoded samples, in shared memory, one per machine: every process that opens its name shares it.

    ``Cache(name, length=n, fingerprint=text)`` opens the cache, or creates it; of any number of processes exactly one
    does. ``Cache(name)`` attaches to one that a process has open, and to no other. Each of the samples 0..length-1 is
    filled once, by whoever asks first, and then read by all without a copy; samples never change. Negative indices are
    none.

        cache = ddpcache.Cache("digits", length=60000, fingerprint="digits v1")
        image, label = cache.get_or_load(7, decode)     # decode(7) if no process has done so before

    A sample is a NumPy array, a torch tensor, a number, str, bytes, None, or a tuple, list, dict or namedtuple of
    samples, and comes back with the same structure and types. NumPy arrays come back as read-only views, tensors as
    private copies.

    ``cache[i]`` is get(i) that raises KeyError for a miss; ``cache[i] = sample`` is put(i, sample) that raises
    PresentError, BusyError or FullError instead of returning False; ``del cache[i]`` removes a sample from a cache made
    `droppable`, or raises KeyError; ``i in cache``; ``len(cache)`` is the length. It
    can be pickled (the receiver attaches to the same cache, on this machine), used in forked children, and by any
    number of threads.

    In a cache opened with ``keyed=True`` samples have keys instead: str, bytes, int, paths, and tuples of these, so
    that several data sets can share it: ``cache["train", 3]``. Whatever takes an index elsewhere takes a key, a loader
    is given the key, and ints are keys like any other, not indices. Keys are the same if type and value are: ``"1"``,
    ``b"1"``, ``1`` and ``("1",)`` are four; but a path is its str (os.fspath), an integer of another type (NumPy's, an
    IntEnum) its int, and a named tuple its tuple. Anything else, bool, float and None included, is a TypeError. Keys
    are never forgotten, also when their samples are removed or could not be stored: once there are ``len(cache)``, new
    ones are as samples without room. ``cache.intern(key)`` and ``cache.lookup(key)`` give the index, which `residency`
    and other languages use.

    Args:
        name: 1 to 200 characters of A-Z a-z 0-9 . _ -
        length: samples of the data set, 1 to 2**34 - 1. Required, with `fingerprint`, unless attaching.
        capacity: memory for samples, in bytes or as "8GiB"; None: half of what the file system, cgroup and machine have
            free; of a disk, half of what is free there.
        fingerprint: identifies the data: data set, version, deterministic transform; up to 1,024 bytes. None, which
            must be said, for none: such a cache is never taken over by a later job.
        sample_bytes: where all samples have one size: the bytes of a sample's arrays, each rounded up to 64.
        sample_bytes_max: the largest sample in bytes, up to 2**32; None: capacity/256, or sample_bytes where that is
            set.
        keep: the cache stays when its last client has left, until Cache.unlink, or a reboot if it is in memory.
        directory: a directory of your own instead of /dev/shm: on a tmpfs, a hugetlbfs, or a local disk with ext4 or
            xfs, for data larger than memory. There the last `close` of a kept cache waits until all of it is written.
        partial: where `capacity` is more than is free, take what is free instead of failing.
        droppable: samples can be removed; a hit then costs a little more.
        checksums: "fill": storing a sample takes a checksum of it, which `check` compares. "read": every access
            compares it too, and a damaged sample is a miss; a hit then takes time in proportion to the sample's size.
            On a disk "off" means "fill".
        keyed: samples have keys instead of indices; `length` should be 1.3 times the number of keys, and an entry takes
            16 bytes more.
        clients_max: processes that may be attached at one time, 1 to 4,095; None: 1,024.
        interleave: spread the samples' memory over all NUMA nodes, for ranks on several sockets; see info.numa_nodes.
        huge_pages: ask for transparent huge pages, on a tmpfs that has them; see info.page_bytes.
        read_only: attach to a cache that is in use or kept, without being able to change anything in it: `put` and
            `remove` raise UnsupportedError, `get_or_load` returns what it loads without storing it, nothing is counted.
            It also works where the file system is mounted read only. Of a droppable cache views are private copies.
        timeout: seconds to wait for the lock under which names are made, from 0 on.
        populate: calls populate(), for a first pass with few page faults.

    Raises, when opening: TypeError, ValueError for arguments; NotFoundError (a FileNotFoundError) when attaching;
    MismatchError and FingerprintError (ValueErrors) where the cache in use is another; NoSpaceError (a MemoryError);
    NotOwnedError (a PermissionError); LockedError (a TimeoutError); FormatError, DamagedError, ClientsError,
    UnsupportedError, SystemCallError (an OSError). Opening may block for up to `timeout`.
    """

    _name: str = ""
    _directory: str | None = None
    _read_only: bool = False
    _presence: Presence | None = None

    def __init__(
        self,
        name: str,
        *,
        length: int | None = None,
        capacity: int | str | None = None,
        fingerprint: str | None = _REQUIRED,
        sample_bytes: int | None = None,
        sample_bytes_max: int | str | None = None,
        keep: bool = False,
        directory: str | os.PathLike[str] | None = None,
        partial: bool = False,
        droppable: bool = False,
        checksums: Literal["off", "fill", "read"] = "off",
        keyed: bool = False,
        clients_max: int | None = None,
        interleave: bool = False,
        huge_pages: bool = False,
        read_only: bool = False,
        timeout: float = _OPEN_SECONDS,
        populate: bool = False,
    ) -> None:
        self._name = cache_name(name)
        self._directory = absolute_directory(directory)
        self._read_only = bool(read_only)
        if read_only and not (length is None and fingerprint is _REQUIRED):
            raise TypeError("read_only attaches to a cache that is there: give its name, directory and timeout alone")
        if length is None and fingerprint is _REQUIRED:
            given = (capacity, sample_bytes, sample_bytes_max, clients_max)
            flags = (keep, partial, droppable, keyed, interleave, huge_pages, checksums != "off")
            if any(flags) or any(value is not None for value in given):
                raise TypeError(
                    "to create a cache, give length and fingerprint too; to attach to one, give its name alone"
                )
            self._attach(timeout)
            if self.info.adopted and not read_only:
                self.close()
                raise NotFoundError(
                    f"no process is attached to the cache {name!r}: give length and fingerprint to take it over"
                )
        else:
            if length is None or fingerprint is _REQUIRED:
                missing = "length" if length is None else "fingerprint (None says that the data have none)"
                raise TypeError(f"to create a cache, give {missing} too; to attach to one, give its name alone")
            options = cache_options(
                length,
                capacity,
                sample_bytes,
                sample_bytes_max,
                clients_max,
                keep,
                partial,
                droppable,
                timeout,
                checksums,
                keyed,
                interleave,
                huge_pages,
                job_id(),
            )
            check_fingerprint(fingerprint)
            error = _swig.dc_error()
            check(_swig.dc_cache_open(name, self._directory, fingerprint, options, self, error), error)
        self._opened()
        if populate:
            self.populate()

    def _opened(self) -> None:
        _open_caches.add(self)
        if not self._read_only:
            self._presence = presence_in(self)

    def _attach(self, timeout: float) -> None:
        error = _swig.dc_error()
        attach = _swig.dc_cache_attach_read_only if self._read_only else _swig.dc_cache_attach
        check(attach(self._name, self._directory, timeout_ns(timeout), self, error), error)

    @property
    def name(self) -> str:
        """The cache's name."""
        return self._name

    @property
    def directory(self) -> str | None:
        """The directory that it lies in; None for shared memory."""
        return self._directory

    @property
    def info(self) -> CacheInfo:
        """What the cache is, and how this handle came to it. Never blocks."""
        info = sized(_swig.dc_cache_info, core.SIZEOF_CACHE_INFO)
        check(_swig.dc_cache_info_get(self, info))
        return record(CacheInfo, info)

    def stats(self, scope: Literal["cache", "client"] = "cache") -> CacheStats:
        """Counts of all clients since the cache was made, or of this process since it attached. Never blocks."""
        scopes = {"cache": _swig.DC_STATS_CACHE, "client": _swig.DC_STATS_CLIENT}
        if scope not in scopes:
            raise ValueError(f"scope is 'cache' or 'client', not {scope!r}")
        stats = sized(_swig.dc_cache_stats, core.SIZEOF_CACHE_STATS)
        check(_swig.dc_cache_stats_get(self, scopes[scope], stats))
        return record(CacheStats, stats)

    def summary(self) -> str:
        """One line on the cache: samples, memory, and the counts of all clients since it was made. Never blocks.

        With DDPCACHE_SUMMARY=1 in the environment, of the processes of a machine that have the cache open the last one
        to close it prints the line to stderr. Data-loader workers are not counted among them.
        """
        return summary_of(self)

    def check(self) -> CacheReport:
        """Proves every invariant of the cache, while others use it, in time proportional to entries and memory.

        Raises DamagedError, which says what is broken and where.
        """
        report = sized(_swig.dc_cache_report, core.SIZEOF_CACHE_REPORT)
        error = _swig.dc_error()
        check(_swig.dc_cache_check(self, report, error), error)
        return record(CacheReport, report)

    def residency(self, first: int = 0, count: int | None = None) -> NDArray[np.bool_]:
        """For each of `count` indices from `first` on (None: all that follow), whether its sample is in the cache.

        Raises RangeError (an IndexError) for a range beyond the cache. Never blocks.
        """
        length = len(self)
        first = number("first", first, 0, length)
        count = length - first if count is None else number("count", count, 0, length - first)
        bits = np.zeros((count + 7) // 8, dtype=np.uint8)
        check(_swig.dc_cache_residency(self, first, count, bits))
        return np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)

    def remove(self, indices: Any) -> int:
        """Removes those of some samples that are there, from a cache made `droppable`; how many.

        `indices` is an index or many, or, in a keyed cache, a key or a list of keys.

        They are gone at once for everybody. Their memory is used again when no array over it is left, in any process.

        Raises RangeError (an IndexError), with nothing removed, where an index is beyond the cache, TypeError for
        indices that are no integers, UnsupportedError for a cache that is not droppable. Never blocks.
        """
        if self.keyed:
            wanted = self._known(keys_of([indices] if isinstance(indices, KEY_TYPES) else indices))
            wanted = wanted[wanted >= 0]
        else:
            wanted = indices_of(indices if np.ndim(indices) else [indices])
        status, removed = _swig.dc_cache_remove_batch(self, wanted, wanted.size)
        if status == _swig.DC_ERROR_RANGE:
            outside = wanted[(wanted < 0) | (wanted >= len(self))].tolist()
            raise RangeError(f"not in 0..{len(self) - 1}: {', '.join(map(str, outside[:8]))}; nothing was removed")
        return self._removed(status, removed)

    def clear(self) -> int:
        """Removes all samples there are; how many. Fills under way go on. Never blocks. Raises UnsupportedError."""
        return self._removed(*_swig.dc_cache_clear(self))

    def _removed(self, status: int, removed: int) -> int:
        if status == _swig.DC_ERROR_UNSUPPORTED:
            raise error_of(status, core.READ_ONLY if self._read_only else core.NOT_DROPPABLE)
        check(status)
        return removed

    def _known(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """The indices of keys; -1 for one that has none."""
        found = (self.lookup(key) for key in keys)
        return np.fromiter((-1 if index is None else index for index in found), np.int64, len(keys))

    @staticmethod
    def estimate(
        length: int, sample_bytes: int, *, fixed: bool = False, clients_max: int | None = None, keyed: bool = False
    ) -> CacheEstimate:
        """How large a cache must be for `length` samples of `sample_bytes` bytes (each array rounded up to 64).

        `fixed`: it will be opened with this `sample_bytes`, so that samples of one size are packed densely. `keyed`: it
        will be opened with keyed=True.
        """
        size = number("sample_bytes", sample_bytes, 1, _swig.DC_SAMPLE_BYTES_MAX)
        options = cache_options(
            length, None, size if fixed else None, size, clients_max, False, False, False, 0, keyed=keyed
        )
        error = _swig.dc_error()
        status, capacity, total = _swig.dc_cache_estimate(options, size, error)
        check(status, error)
        return CacheEstimate(capacity, total)

    @staticmethod
    def unlink(name: str, *, directory: str | os.PathLike[str] | None = None) -> None:
        """Removes a cache's name at once, kept or not. Processes that have it open go on with it.

        Raises NotFoundError (a FileNotFoundError). Blocks for up to 10 s.
        """
        error = _swig.dc_error()
        check(_swig.dc_cache_unlink(cache_name(name), absolute_directory(directory), error), error)

    @staticmethod
    def gc(*, directory: str | os.PathLike[str] | None = None) -> int:
        """Removes every cache of this user that nobody is attached to and that is not kept; returns how many."""
        error = _swig.dc_error()
        status, removed = _swig.dc_cache_gc(absolute_directory(directory), error)
        check(status, error)
        return int(removed)

    @staticmethod
    def list(*, directory: str | os.PathLike[str] | None = None) -> Sequence[str]:
        """The names of this user's caches, sorted."""
        room = 1 << 12
        while True:
            error = _swig.dc_error()
            memory = bytearray(room)
            status, needed = _swig.dc_cache_list(absolute_directory(directory), memory, error)
            if status != _swig.DC_ERROR_BUFFER:
                check(status, error)
                return memory[:needed].decode().splitlines()
            room = needed

    def close(self) -> None:
        with leaving(self):
            super().close()

    close.__doc__ = core.Handle.close.__doc__

    def __del__(self) -> None:
        if self._presence is not None:
            with contextlib.suppress(Exception):
                self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reattach, (type(self), self._name, self._directory, self.info.uuid, self._read_only)

    def __repr__(self) -> str:
        if self.closed:
            return f"<ddpcache.Cache {self._name!r}, closed>"
        return f"<ddpcache.Cache {self._name!r}, {self.stats().resident} of {len(self)} samples>"


def _reattach(cls: type[Cache], name: str, directory: str | None, uuid: str, read_only: bool) -> Cache:
    """Unpickles: attaches to the cache that was pickled, and to no other of its name."""
    cache = cls.__new__(cls)
    cache._name, cache._directory, cache._read_only = name, directory, read_only
    cache._attach(_OPEN_SECONDS)
    cache._opened()
    found = cache.info.uuid
    if found != uuid:
        cache.close()
        raise MismatchError(
            f"the cache {name!r} was made anew: its uuid is {found}, and that of the pickled one {uuid}"
        )
    return cache


# A cache that is still open when the interpreter ends is closed then, so that the last client removes it.
_open_caches: weakref.WeakSet[Cache] = weakref.WeakSet()


def _close_all() -> None:
    for cache in list(_open_caches):
        # A daemon thread that is still inside a call keeps its cache open until the process is gone.
        with contextlib.suppress(StateError):
            cache.close()


@atexit.register
def _close_all_at_exit() -> None:
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.active_children():
        # Daemons, as data-loader workers are, have caches open until multiprocessing ends them, which it does between
        # its finalizers of priority 0 and those below.
        multiprocessing.util.Finalize(None, _close_all, exitpriority=-1)
    else:
        _close_all()
