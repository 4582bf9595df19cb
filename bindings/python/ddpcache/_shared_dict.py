"""A dict that all processes of a machine share, in place of ``multiprocessing.Manager().dict()``.

How a value is replaced, since what a cache holds never changes. A key has two places in the cache: the first is the key
itself, and the second is used when the value in the first is replaced, and the other way round. Where both are filled,
the first one counts. So

    from the first to the second:  fill the second, then empty the first: that is the moment of the change
    from the second to the first:  fill the first: that is the moment of the change; then empty the second

and at every instant, a kill included, a key has its old value or its new one. What a killed process leaves in a second
place beside a filled first one counts for nothing, and the next who changes the key empties it. Who changes a key does
it under one of a few locks: the fill of an entry that is never stored, which another process takes over if its holder
dies. Readers need it only where a key that was replaced before is in neither place.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import time
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Literal, Self

import numpy as np

from . import _swig
from ._arguments import number, parse_bytes
from ._cache import Cache
from ._errors import BusyError, FillsError, FormatError, FullError, PresentError, check
from ._values import decode, encode

_LENGTH = 1 << 17
_FORMAT = "ddpcache.SharedDict 1"
# Fills that a process may have open are 64, and who lists the keys holds all locks.
_LOCKS = 16
_KEY_BYTES = 64
_LOCK_SECONDS = 60.0
# A thread that has a fill open does not wait in the library, and a signal may come between two waits of it.
_POLL_SECONDS = 0.001
_WAIT_SECONDS = 1.0

_MISSING: Any = object()
# Keys of users have no bytes in them.
_SECOND, _LOCK, _REPLACED = b"second", b"lock", (b"replaced",)


class SharedDict(MutableMapping[Any, Any]):
    """A dict in shared memory, in place of ``multiprocessing.Manager().dict()``: without a server process.

        cache = ddpcache.SharedDict()
        sample = cache.get(7)
        if sample is None:
            sample = cache[7] = decode(7)

    Every process that opens the name shares the dict; forked children go on using their parent's, and it can be pickled
    for others of this machine (spawn, forkserver), which stands for its name. Any number of threads may use it.

    Keys are int, str and tuples of these, which may be nested; what is equal to one (NumPy integers, IntEnum, named
    tuples) is the same key. Others, bool, float, None and bytes included, are a TypeError, also for ``in``.

    Values are whatever can be pickled, None included. NumPy arrays and CPU tensors, also inside other values, are
    stored raw, and only what a Cache cannot hold is pickled around them. What is read is the reader's own: to change a
    value for all, assign it again. An object that is in a value twice comes back as one. Unpickling runs code; a
    cache's file can only be written by its user.

    A key's value is replaced at one instant: whoever reads it, also while the process that writes it is killed, gets
    the old or the new value, never none and no mixture. setdefault, pop and popitem are atomic; update and ``|=``
    assign one key after the other, and copy, items and values read so, leaving out what is removed meanwhile. A listing
    of the keys holds each that is there throughout once, in no particular order.

    Nothing is ever dropped. A value that does not fit raises FullError (a MemoryError), and the dict stays as it was;
    replacing a value needs room for both, since others may be reading the old one. With ``full="skip"`` such an
    assignment does nothing instead, as a cache of samples has it: the key stays without its value, or with the old one.

    Args:
        name: 1 to 200 characters of A-Z a-z 0-9 . _ -; None: a new one, for the processes that this object reaches.
        length: how many different keys there may be over the dict's life, removed ones included: each takes 63 bytes.
        capacity: memory for values, in bytes or as "8GiB"; None: half of what is free. Taken as values come.
        sample_bytes: where each value is one array or tensor of one size: its bytes. Keys are ints then, or short.
        sample_bytes_max: the largest value in bytes, up to 2**32; None: capacity/256, or as `sample_bytes` says.
        fingerprint: identifies the data, for a later job that takes over what a killed one left; None: nobody does.
        full: what an assignment does where there is no room: "raise" or "skip".
        views: arrays are read-only views of the memory instead of copies, which saves time; those of pickled values
            and tensors are copies all the same.
        keep, directory, partial, clients_max: as for Cache.

    `name`, `length` and `sample_bytes` must be the same for all who open it. Raises what opening a Cache does, and
    ValueError (TooLargeError) for a value larger than `sample_bytes_max`; BusyError (a TimeoutError) where a process
    that is stopped in the middle of a change keeps others waiting for 60 s.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        length: int = _LENGTH,
        capacity: int | str | None = None,
        sample_bytes: int | str | None = None,
        sample_bytes_max: int | str | None = None,
        fingerprint: str | None = None,
        full: Literal["raise", "skip"] = "raise",
        views: bool = False,
        keep: bool = False,
        directory: str | os.PathLike[str] | None = None,
        partial: bool = False,
        clients_max: int | None = None,
    ) -> None:
        if full not in ("raise", "skip"):
            raise ValueError(f"full is 'raise' or 'skip', not {full!r}")
        if isinstance(name, Mapping):
            raise TypeError("the first argument is a name; to put what is in a mapping into the dict, call update")
        keys = number("length", length, 1, (_swig.DC_LENGTH_MAX - _LOCKS - 1) // 3)
        self._skips, self._views = full == "skip", bool(views)
        self._cache = Cache(
            f"dict.{secrets.token_hex(8)}" if name is None else name,
            length=_LOCKS + 1 + keys * 26 // 10 + 1,
            capacity=capacity,
            # The key lies beside the value.
            sample_bytes=None if sample_bytes is None else parse_bytes(sample_bytes) + _KEY_BYTES,
            sample_bytes_max=sample_bytes_max,
            fingerprint=None if fingerprint is None else f"{_FORMAT}\n{fingerprint}",
            keep=keep,
            directory=directory,
            partial=partial,
            clients_max=clients_max,
            droppable=True,
            keyed=True,
        )
        self._opened()

    def _opened(self) -> None:
        self._locks = [_Lock(self._cache, self._cache.intern((_LOCK, which))) for which in range(_LOCKS)]

    @property
    def cache(self) -> Cache:
        """The cache below it, for its stats and info. Its keys and samples are private."""
        return self._cache

    @property
    def name(self) -> str:
        """The dict's name, and its cache's."""
        return self._cache.name

    def close(self) -> None:
        """Ends this process's use of the dict; the last one that does, or ends, removes it unless it is to be kept."""
        self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._cache, self._skips, self._views)

    def __repr__(self) -> str:
        if self._cache.closed:
            return f"<ddpcache.SharedDict {self.name!r}, closed>"
        return f"<ddpcache.SharedDict {self.name!r} of {len(self)}>"

    # Reading.

    def __getitem__(self, key: Any) -> Any:
        record = self._find(_plain(key))
        if record is None:
            raise KeyError(key)
        return self._value(record)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or `default` where there is none."""
        record = self._find(_plain(key))
        return default if record is None else self._value(record)

    def __contains__(self, key: object) -> bool:
        plain = _plain(key)
        return plain in self._cache or self._elsewhere(plain, self._cache.__contains__) is not None

    def _find(self, key: Any) -> Any:
        record = self._cache.get(key)
        return record if record is not None else self._elsewhere(key, self._cache.get)

    def _elsewhere(self, key: Any, look: Callable[[Any], Any]) -> Any:
        """What `look` finds of a key that was not in its first place; None for nothing."""
        second = (_SECOND, key)
        if self._cache.lookup(second) is None:
            return None  # it was never replaced, and has no other place
        found = look(second)
        # The second place counts if the first one is still empty.
        if found and key not in self._cache:
            return found
        with self._lock(key):
            return look(key) or look(second) or None

    def _value(self, record: Any) -> Any:
        if type(record) is not tuple or len(record) != 2 or type(record[0]) is not bytes:
            raise FormatError(f"the cache {self.name!r} has a sample that no SharedDict has put there: {record!r:.200}")
        return decode(record[1], self._views)

    # Changing.

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = _plain(key)
        record = self._made(plain, value)
        # A key that was never replaced has but one place, and its first value needs no lock.
        if self._cache.lookup((_SECOND, plain)) is None:
            with contextlib.suppress(FillsError):
                if self._cache.put(plain, record):
                    return
        with self._full(), self._lock(plain):
            self._replace(plain, record)

    def _made(self, key: Any, value: Any) -> tuple[bytes, Any]:
        return pickle.dumps(key, protocol=5), encode(value)

    def _replace(self, key: Any, record: Any) -> None:
        """Under the key's lock. Where it raises, nothing has changed."""
        second = (_SECOND, key)
        while True:
            try:
                if key not in self._cache:
                    self._store(key, record)
                    self._cache.remove(second)
                    return
                self._cache.remove(second)
                self._cache.intern(_REPLACED)
                self._store(second, record)
                self._cache.remove(key)
                return
            except PresentError:
                continue  # a first value came without the lock

    def _store(self, place: Any, record: Any) -> None:
        """Fills one place, which a process that was killed may still seem to be at."""
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self._cache[place] = record
                return
            except (BusyError, FillsError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    @contextlib.contextmanager
    def _full(self) -> Iterator[None]:
        try:
            yield
        except FullError as error:
            if self._skips:
                return
            info = self._cache.info
            raise FullError(
                f"the dict {self.name!r} has no room for the value, and stays as it was: its capacity is "
                f"{info.capacity_bytes} bytes, and {info.keys} of {len(self._cache)} entries for keys are taken (a key "
                "takes two if its value is replaced). Open it with a larger capacity= or length=, remove keys, or take "
                'full="skip" where values that are missing do no harm'
            ) from error

    def __delitem__(self, key: Any) -> None:
        if not self._take(_plain(key), self._cache.__contains__):
            raise KeyError(key)

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Removes a key; its value, or `default` where there is none. KeyError without a default."""
        record = self._take(_plain(key), self._cache.get)
        if record:
            return self._value(record)
        if default is _MISSING:
            raise KeyError(key)
        return default

    def _take(self, key: Any, look: Callable[[Any], Any]) -> Any:
        """Removes a key; what `look` found of it before, or what is false."""
        if self._cache.lookup(key) is None:
            return None
        second = (_SECOND, key)
        with self._lock(key):
            found = look(key)
            if found:
                # In this order: what a killed process left there must not come to count.
                self._cache.remove(second)
                self._cache.remove(key)
            else:
                found = look(second)
                self._cache.remove(second)
        return found

    def popitem(self) -> tuple[Any, Any]:
        """Removes any key; the key and its value. KeyError where the dict is empty."""
        for key in self:
            value = self.pop(key, _MISSING)
            if value is not _MISSING:
                return key, value
        raise KeyError(f"the dict {self.name!r} is empty")

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, which is set to `default` where there is none."""
        plain = _plain(key)
        found = self._find(plain)
        if found is None:
            record = self._made(plain, default)
            with self._full(), self._lock(plain):
                found = self._under_lock(plain)
                if found is None:
                    # A first value that comes without the lock is older.
                    with contextlib.suppress(PresentError):
                        self._store(plain, record)
                    found = self._under_lock(plain)
        return default if found is None else self._value(found)

    def _under_lock(self, key: Any) -> Any:
        record = self._cache.get(key)
        return record if record is not None else self._cache.get((_SECOND, key))

    def clear(self) -> None:
        """Removes all keys that are there at some moment of the call."""
        with self._all_locks():
            self._cache.clear()

    # All of it.

    def __len__(self) -> int:
        # Where keys may have two places, entries do not say how many keys there are.
        if self._cache.lookup(_REPLACED) is not None:
            return len(self._listing())
        return int(np.count_nonzero(self._cache.residency()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listing())

    def items(self) -> ItemsView[Any, Any]:
        """Keys with their values, read one after the other."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """The values, read one after the other."""
        return _Values(self)

    def _listing(self) -> list[Any]:
        """All keys, each once."""
        with self._all_locks():
            indices = np.flatnonzero(self._cache.residency()).tolist()
            # As a dict, since a key may be in both of its places.
            return list(dict.fromkeys(pickle.loads(self._cache._array(index, 0)) for index in indices))

    def copy(self) -> dict[Any, Any]:
        """A dict of the process's own with all that is in this one."""
        return dict(self.items())

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return self.copy() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(other) | self.copy() if isinstance(other, Mapping) else NotImplemented

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    # Locks.

    def _lock(self, key: Any) -> _Lock:
        return self._locks[self._cache.intern(key) % _LOCKS]

    @contextlib.contextmanager
    def _all_locks(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            yield


class _Lock:
    """Held by one thread of all processes, until it lets go or is gone."""

    def __init__(self, cache: Cache, index: int) -> None:
        self._cache, self._index = cache, index
        self._fill: Any = None

    def __enter__(self) -> None:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            status, fill = _swig.dc_cache_fill_begin(self._cache, self._index, round(_WAIT_SECONDS * 1e9))
            if status == _swig.DC_OK:
                self._fill = fill
                return
            if status not in (_swig.DC_BUSY, _swig.DC_INTERRUPTED, _swig.DC_ERROR_FILLS):
                check(status)
                raise FormatError(f"entry {self._index} of the cache {self._cache.name!r} is a lock, but has a sample")
            if time.monotonic() > deadline:
                raise BusyError(
                    f"another process has been changing the dict {self._cache.name!r} for {_LOCK_SECONDS:.0f} s: it "
                    "may be stopped"
                )
            time.sleep(_POLL_SECONDS)

    def __exit__(self, *exception: object) -> None:
        fill, self._fill = self._fill, None
        check(_swig.dc_cache_fill_abort(fill))


class _Items(ItemsView[Any, Any]):
    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for key in self._mapping:
            value = self._mapping.get(key, _MISSING)
            if value is not _MISSING:
                yield key, value


class _Values(ValuesView[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in _Items(self._mapping))


def _plain(key: Any) -> Any:
    """A key without what subclasses add to it, which is equal to it."""
    cls = type(key)
    if cls is int or cls is str:
        return key
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int | np.integer) and cls is not bool:
        return int(key)
    raise TypeError(f"a key of a SharedDict is an int, a str or a tuple of these, not {key!r} of type {cls.__name__}")


def _reopen(cls: type[SharedDict], cache: Cache, skips: bool, views: bool) -> SharedDict:
    shared = cls.__new__(cls)
    shared._cache, shared._skips, shared._views = cache, skips, views
    shared._opened()
    return shared
