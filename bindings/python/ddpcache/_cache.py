"""The cache as Python sees it. Its hit path (get, get_or_load, put, [], in, len, close) is C: swig/handle.c."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _ddpcache as core
from . import raw
from ._arguments import absolute_directory, cache_name, cache_options, check_fingerprint, number, timeout_ns
from ._errors import MismatchError, MissError, NotFoundError, RangeError, RecordError, StateError, check, error_of
from ._job import job_id
from ._records import CacheEstimate, CacheInfo, CacheReport, CacheStats, record, sized
from ._saving import Saving

_OPEN_SECONDS = 10.0
# What is one key, and not many.
_KEY_TYPES = (str, bytes, int, tuple, os.PathLike, np.integer)


class _Required:
    """Stands for an argument that was not given, where None says something."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED: Any = _Required()


class Cache(Saving):
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
    are never forgotten, also when their samples are removed: once there are ``len(cache)``, new ones are as samples
    without room. ``cache.intern(key)`` and ``cache.lookup(key)`` give the index, which `residency` and other languages
    use.

    Args:
        name: 1 to 200 characters of A-Z a-z 0-9 . _ -
        length: samples of the data set, 1 to 2**34 - 1. Required, with `fingerprint`, unless attaching.
        capacity: memory for samples, in bytes or as "8GiB"; None: half of what the file system, cgroup and machine have
            free.
        fingerprint: identifies the data: data set, version, deterministic transform; up to 1,024 bytes. None, which
            must be said, for none: such a cache is never taken over by a later job.
        sample_bytes: where all samples have one size: the bytes of a sample's arrays, each rounded up to 64.
        sample_bytes_max: the largest sample in bytes, up to 2**32; None: capacity/256, or sample_bytes where that is
            set.
        keep: the cache stays when its last client has left, until Cache.unlink or a reboot.
        directory: a directory on a tmpfs of your own instead of /dev/shm.
        partial: where `capacity` is more than is free, take what is free instead of failing.
        droppable: samples can be removed; a hit then costs a little more.
        checksums: "fill": storing a sample takes a checksum of it, which `check` compares. "read": every access
            compares it too, and a damaged sample is a miss; a hit then takes time in proportion to the sample's size.
        keyed: samples have keys instead of indices; `length` should be 1.3 times the number of keys, and an entry takes
            16 bytes more.
        clients_max: processes that may be attached at one time, 1 to 4,095; None: 1,024.
        timeout: seconds to wait for the lock under which names are made, from 0 on.

    Raises, when opening: TypeError, ValueError for arguments; NotFoundError (a FileNotFoundError) when attaching;
    MismatchError and FingerprintError (ValueErrors) where the cache in use is another; NoSpaceError (a MemoryError);
    NotOwnedError (a PermissionError); LockedError (a TimeoutError); FormatError, DamagedError, ClientsError,
    UnsupportedError, SystemCallError (an OSError). Opening may block for up to `timeout`.
    """

    _name: str = ""
    _directory: str | None = None

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
        timeout: float = _OPEN_SECONDS,
    ) -> None:
        self._name = cache_name(name)
        self._directory = absolute_directory(directory)
        if length is None and fingerprint is _REQUIRED:
            given = (capacity, sample_bytes, sample_bytes_max, clients_max)
            if keep or partial or droppable or keyed or checksums != "off" or any(value is not None for value in given):
                raise TypeError(
                    "to create a cache, give length and fingerprint too; to attach to one, give its name alone"
                )
            self._attach(timeout)
            if self.info.adopted:
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
            )
            options.job_id = job_id()
            check_fingerprint(fingerprint)
            error = raw.dc_error()
            check(raw.dc_cache_open(name, self._directory, fingerprint, options, self, error), error)
        self._opened()

    def _opened(self) -> None:
        _open_caches.add(self)

    def _attach(self, timeout: float) -> None:
        error = raw.dc_error()
        check(raw.dc_cache_attach(self._name, self._directory, timeout_ns(timeout), self, error), error)

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
        info = sized(raw.dc_cache_info, core.SIZEOF_CACHE_INFO)
        check(raw.dc_cache_info_get(self, info))
        return record(CacheInfo, info)

    def stats(self, scope: Literal["cache", "client"] = "cache") -> CacheStats:
        """Counts of all clients since the cache was made, or of this process since it attached. Never blocks."""
        scopes = {"cache": raw.DC_STATS_CACHE, "client": raw.DC_STATS_CLIENT}
        if scope not in scopes:
            raise ValueError(f"scope is 'cache' or 'client', not {scope!r}")
        stats = sized(raw.dc_cache_stats, core.SIZEOF_CACHE_STATS)
        check(raw.dc_cache_stats_get(self, scopes[scope], stats))
        return record(CacheStats, stats)

    def check(self) -> CacheReport:
        """Proves every invariant of the cache, while others use it, in time proportional to entries and memory.

        Raises DamagedError, which says what is broken and where.
        """
        report = sized(raw.dc_cache_report, core.SIZEOF_CACHE_REPORT)
        error = raw.dc_error()
        check(raw.dc_cache_check(self, report, error), error)
        return record(CacheReport, report)

    def residency(self, first: int = 0, count: int | None = None) -> NDArray[np.bool_]:
        """For each of `count` indices from `first` on (None: all that follow), whether its sample is in the cache.

        Raises RangeError (an IndexError) for a range beyond the cache. Never blocks.
        """
        length = len(self)
        first = number("first", first, 0, length)
        count = length - first if count is None else number("count", count, 0, length - first)
        bits = np.zeros((count + 7) // 8, dtype=np.uint8)
        check(raw.dc_cache_residency(self, first, count, bits))
        return np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)

    def remove(self, indices: Any) -> int:
        """Removes those of some samples that are there, from a cache made `droppable`; how many.

        `indices` is an index or many, or, in a keyed cache, a key or a list of keys.

        They are gone at once for everybody. Their memory is used again when no array over it is left, in any process.

        Raises RangeError (an IndexError), with nothing removed, where an index is beyond the cache, TypeError for
        indices that are no integers, UnsupportedError for a cache that is not droppable. Never blocks.
        """
        if self.keyed:
            wanted = self._known(_keys([indices] if isinstance(indices, _KEY_TYPES) else indices))
            wanted = wanted[wanted >= 0]
        else:
            wanted = _indices(indices if np.ndim(indices) else [indices])
        status, removed = raw.dc_cache_remove_batch(self, wanted, wanted.size)
        if status == raw.DC_ERROR_RANGE:
            outside = wanted[(wanted < 0) | (wanted >= len(self))].tolist()
            raise RangeError(f"not in 0..{len(self) - 1}: {', '.join(map(str, outside[:8]))}; nothing was removed")
        return _removed(status, removed)

    def clear(self) -> int:
        """Removes all samples there are; how many. Fills under way go on. Never blocks. Raises UnsupportedError."""
        return _removed(*raw.dc_cache_clear(self))

    def read_batch(self, indices: Any, out: Any = None, threads: int = 1, *, array: int = 0) -> Any:
        """Copies many samples of one shape into one array, one after the other.

        Args:
            indices: integers 0..len-1, or a list of keys in a keyed cache; in any order, repeats allowed.
            out: a writable C-contiguous array (or CPU tensor) of the samples' dtype and shape (len(indices), *shape of
                a sample), which is then returned; None: a new NumPy array.
            threads: native threads to copy with, 1 to 64.
            array: which array of each sample, for samples of several: 0 is the first.

        Raises MissError (a KeyError) where a sample is not in the cache, RecordError (a ValueError) where one has
        another size or no such array, RangeError (an IndexError); `out` then holds those that could be copied.
        RecordError, with nothing copied, where `out` is not like the first sample. Runs without the GIL, and never
        blocks. The look at the first sample counts as one hit more.
        """
        names = _keys(indices) if self.keyed else _indices(indices)
        wanted = self._known(names) if self.keyed else names
        threads = number("threads", threads, 1, 64)
        array = number("array", array, 0, raw.DC_ARRAYS_MAX - 1)
        if out is None and wanted.size == 0:
            raise ValueError("an empty batch has no shape: give `out`, or at least one index")
        if out is None and self.keyed and wanted[0] < 0:
            raise MissError(f"the sample of the key {names[0]!r}, which says the batch's shape, is not in the cache")
        target = self._new_batch(wanted, array) if out is None else _batch_memory(out)
        if out is not None and wanted.size:
            self._compare_batch(target, wanted, array)
        sample_bytes, rest = divmod(target.nbytes, max(1, wanted.size))
        if rest or (target.ndim and target.shape[0] != wanted.size):
            raise ValueError(f"out has shape {target.shape}, but there are {wanted.size} samples")
        statuses = np.zeros(wanted.size, dtype=np.int32)
        status = raw.dc_cache_read_batch(self, wanted, wanted.size, array, target, sample_bytes, statuses, threads)
        if self.keyed and (wanted < 0).any():
            statuses[wanted < 0] = raw.DC_MISS
            status = min(int(statuses.min()), raw.DC_OK) or raw.DC_MISS
        if status != raw.DC_OK:
            self._raise_batch(status, names, statuses, sample_bytes)
        return target if out is None else out

    def _new_batch(self, wanted: NDArray[np.int64], array: int) -> NDArray[Any]:
        """Room for the batch, as large as its first sample says."""
        view = self._array(int(wanted[0]), array)
        return np.empty((wanted.size, *view.shape), dtype=view.dtype)

    def _compare_batch(self, target: NDArray[Any], wanted: NDArray[np.int64], array: int) -> None:
        """Refuses a batch's memory that is not like its first sample, where that is in the cache."""
        first = int(wanted[0])
        if raw.dc_cache_contains(self, first) != raw.DC_OK:
            return
        try:
            view = self._array(first, array)
        except MissError:  # removed meanwhile
            return
        shape = (wanted.size, *view.shape)
        if target.dtype != view.dtype or target.shape != shape:
            raise RecordError(
                f"out is {target.dtype} of shape {target.shape}, but {wanted.size} samples like index {first} take "
                f"{view.dtype} of shape {shape}"
            )

    def _known(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """The indices of keys; -1 for one that has none."""
        found = (self.lookup(key) for key in keys)
        return np.fromiter((-1 if index is None else index for index in found), np.int64, len(keys))

    def _raise_batch(
        self, status: int, names: Sequence[Any] | NDArray[Any], statuses: NDArray[np.int32], sample_bytes: int
    ) -> None:
        failed = [names[i] for i in np.flatnonzero(statuses == status)]
        kind = "keys" if self.keyed else "indices"
        shown = f"{len(failed)} of {len(names)} samples: {kind} {', '.join(map(str, failed[:8]))}"
        shown += ", ..." if len(failed) > 8 else ""
        if status == raw.DC_MISS:
            raise MissError(f"not in the cache: {shown}")
        if status == raw.DC_ERROR_RANGE:
            raise RangeError(f"not in 0..{len(self) - 1}: {shown}")
        if status == raw.DC_ERROR_RECORD:
            raise RecordError(f"not of {sample_bytes} bytes, or without such an array: {shown}")
        check(status)

    @staticmethod
    def estimate(
        length: int, sample_bytes: int, *, fixed: bool = False, clients_max: int | None = None, keyed: bool = False
    ) -> CacheEstimate:
        """How large a cache must be for `length` samples of `sample_bytes` bytes (each array rounded up to 64).

        `fixed`: it will be opened with this `sample_bytes`, so that samples of one size are packed densely. `keyed`: it
        will be opened with keyed=True.
        """
        size = number("sample_bytes", sample_bytes, 1, raw.DC_SAMPLE_BYTES_MAX)
        options = cache_options(
            length, None, size if fixed else None, size, clients_max, False, False, False, 0, keyed=keyed
        )
        error = raw.dc_error()
        status, capacity, total = raw.dc_cache_estimate(options, size, error)
        check(status, error)
        return CacheEstimate(capacity, total)

    @staticmethod
    def unlink(name: str, *, directory: str | os.PathLike[str] | None = None) -> None:
        """Removes a cache's name at once, kept or not. Processes that have it open go on with it.

        Raises NotFoundError (a FileNotFoundError). Blocks for up to 10 s.
        """
        error = raw.dc_error()
        check(raw.dc_cache_unlink(cache_name(name), absolute_directory(directory), error), error)

    @staticmethod
    def gc(*, directory: str | os.PathLike[str] | None = None) -> int:
        """Removes every cache of this user that nobody is attached to and that is not kept; returns how many."""
        error = raw.dc_error()
        status, removed = raw.dc_cache_gc(absolute_directory(directory), error)
        check(status, error)
        return int(removed)

    @staticmethod
    def list(*, directory: str | os.PathLike[str] | None = None) -> Sequence[str]:
        """The names of this user's caches, sorted."""
        room = 1 << 12
        while True:
            error = raw.dc_error()
            memory = bytearray(room)
            status, needed = raw.dc_cache_list(absolute_directory(directory), memory, error)
            if status != raw.DC_ERROR_BUFFER:
                check(status, error)
                return memory[:needed].decode().splitlines()
            room = needed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reattach, (type(self), self._name, self._directory, self.info.uuid)

    def __repr__(self) -> str:
        if self.closed:
            return f"<ddpcache.Cache {self._name!r}, closed>"
        return f"<ddpcache.Cache {self._name!r}, {self.stats().resident} of {len(self)} samples>"


def _reattach(cls: type[Cache], name: str, directory: str | None, uuid: str) -> Cache:
    """Unpickles: attaches to the cache that was pickled, and to no other of its name."""
    cache = cls.__new__(cls)
    cache._name, cache._directory = name, directory
    cache._attach(_OPEN_SECONDS)
    cache._opened()
    found = cache.info.uuid
    if found != uuid:
        cache.close()
        raise MismatchError(
            f"the cache {name!r} was made anew: its uuid is {found}, and that of the pickled one {uuid}"
        )
    return cache


def _indices(indices: ArrayLike) -> NDArray[np.int64]:
    found = np.asarray(indices)
    if found.ndim == 1 and found.dtype.kind in "Of":
        # What NumPy makes of integers that it has no type for.
        for index in np.asarray(indices, dtype=object):
            if isinstance(index, int) and not -(2**63) <= index < 2**63:
                raise RangeError(f"index {index} is beyond every cache")
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"indices are a sequence of integers, not of {found.dtype} and {found.ndim} dimensions")
    if found.dtype == np.uint64 and found.size and int(found.max()) > raw.DC_LENGTH_MAX:
        raise RangeError(f"index {found.max()} is beyond every cache")
    return np.ascontiguousarray(found, dtype=np.int64)


def _keys(keys: Any) -> Sequence[Any]:
    """A batch of keys."""
    if isinstance(keys, _KEY_TYPES):
        raise TypeError(f"a batch is a list of keys, not the key {keys!r}")
    return keys if isinstance(keys, list) else list(keys)


def _removed(status: int, removed: int) -> int:
    if status == raw.DC_ERROR_UNSUPPORTED:
        raise error_of(status, core.NOT_DROPPABLE)
    check(status)
    return removed


def _batch_memory(out: Any) -> NDArray[Any]:
    """The array whose memory `out` is."""
    target = out if isinstance(out, np.ndarray) else np.asarray(out)
    if target is not out and not np.may_share_memory(target, np.asarray(out)):
        raise TypeError(f"out is an array or a CPU tensor, not {out!r}")
    if not (target.flags.writeable and target.flags.c_contiguous):
        raise ValueError("out must be writable and contiguous in C order")
    return target


# A cache that is still open when the interpreter ends is closed then, so that the last client removes it.
_open_caches: weakref.WeakSet[Cache] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for cache in list(_open_caches):
        # A daemon thread that is still inside a call keeps its cache open until the process is gone.
        with contextlib.suppress(StateError):
            cache.close()
