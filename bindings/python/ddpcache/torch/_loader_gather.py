"""Batches that are copied out of the cache at once, as torch's default_collate would make them of the samples."""

from __future__ import annotations

import atexit
import functools
import math
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import default_collate

from .. import Cache, MissError, RecordError, _swig
from .._batches import _LAYOUT, _bytes_of, _dtype_of, _Reading, _shape_of
from .._samples import TORCH_CODES, decode_key, named_class
from ._loader_workers import Left

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_DTYPES = {code: getattr(torch, name) for name, code in TORCH_CODES.items()}
# The C library itself uses smaller memory again.
_POOLED_BYTES_MIN = 1 << 20
_IDLE_MAX = 8
# Copied in a tenth of a millisecond, which is what it takes to hand a batch to another thread of Python and back.
_SMALL_BYTES_MAX = 1 << 20
_ALIGNMENT = 64


class UnlikeError(Exception):
    """Samples of which no batch can be gathered: torch must make it, or say why it cannot."""


class Buffers:
    """Memory for batches, used again when the user has let go of the tensors in it.

    Fresh memory costs a page fault every 4 KiB, which takes longer than copying the samples; and what was used last may
    still be in the processor's caches.
    """

    def __init__(self, pinned: bool) -> None:
        self._pinned = pinned
        self._lock = threading.Lock()
        self._owners: list[Bytes] = []

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
        """A tensor, not initialised, and its memory."""
        size = dtype.itemsize * math.prod(shape)
        if self._pinned or size < _POOLED_BYTES_MIN:
            # Of pinned memory torch's allocator keeps buffers.
            tensor = torch.empty(shape, dtype=dtype, pin_memory=self._pinned)
            return tensor, _bytes_of(tensor)
        owner = self._free(size + _ALIGNMENT)
        begin = -owner.ctypes.data % _ALIGNMENT
        memory = owner[begin : begin + size]
        return torch.from_numpy(memory).view(dtype).view(shape), memory

    def _free(self, size: int) -> Bytes:
        with self._lock:
            # A tensor holds the array that it was made of, and that one its owner. What only the list holds is idle.
            idle = [place for place in range(len(self._owners)) if sys.getrefcount(self._owners[place]) <= 2]
            for place in reversed(idle[_IDLE_MAX:]):
                del self._owners[place]
            for place in idle[:_IDLE_MAX]:
                if size <= self._owners[place].nbytes <= 2 * size:
                    return self._owners[place]
            self._owners.append(np.empty(size, np.uint8))
            return self._owners[-1]


class Gatherer:
    """Makes batches of samples in the cache, in any thread."""

    def __init__(self, cache: Cache, threads: int, pinned: bool) -> None:
        self._cache = cache
        self._threads = threads
        self._buffers = Buffers(pinned)
        self._process = os.getpid()
        self._form: _Form | None = None
        """What the samples of the last batch were: those of the next are usually the same."""

    @property
    def is_the_parents(self) -> bool:
        """Whether this is a forked child, in which its lock may be held for ever."""
        return os.getpid() != self._process

    def is_small(self, samples: int) -> bool:
        """Whether a batch of so many samples, if they are like the last ones, is copied sooner than handed over."""
        return self._form is not None and samples * self._form.sample_bytes <= _SMALL_BYTES_MAX

    def batch(self, names: Sequence[Any], left: Left | None) -> Any:
        """A batch of samples in the cache and of those that were left.

        Raises MissError where another one is not there any more, and UnlikeError where the samples are not alike, or
        default_collate does not make of them what lies in the cache.
        """
        form = self._form
        if left is None and form is not None:
            leaves = self._copied(form, names)
            if leaves is not None:
                return form.build(leaves)
        reading = _Collating(self._cache, names, left, self._buffers, self._threads)
        build = reading.prepared(left)
        reading.copy()
        reading.statuses[reading.rows] = _swig.DC_OK
        if reading.statuses.any():
            raise MissError("some of the samples are not in the cache any more")
        if left is None:
            self._form = reading.form(build)
        return build(reading.leaves)

    def _copied(self, form: _Form, names: Sequence[Any]) -> dict[int, torch.Tensor] | None:
        """The tensors of a batch, if all of its samples are there, and like those that `form` is of."""
        wanted = self._cache._known(names) if self._cache.keyed else np.array(names, np.int64)
        leaves, parts = {}, []
        for array, shape, dtype in form.leaves:
            leaves[array], memory = self._buffers.tensor((len(names), *shape), dtype)
            parts.append((array, memory, memory.nbytes // len(names), None))
        same = self._cache._gather_alike(wanted, parts, form.layouts, form.arrays, form.structure, self._threads)
        return leaves if same else None


Leaves = dict[int, torch.Tensor]
Build = Callable[[Leaves], Any]


class _Form(NamedTuple):
    """What samples that are alike have in common, and how a batch of them is made of its tensors."""

    build: Build
    leaves: list[tuple[int, tuple[int, ...], torch.dtype]]
    sample_bytes: int
    layouts: bytes
    arrays: int
    structure: int


class _Collating(_Reading):
    """A batch on its way, with tensors instead of arrays, in containers as torch's default_collate makes them."""

    def __init__(self, cache: Cache, names: Sequence[Any], left: Left | None, buffers: Buffers, threads: int) -> None:
        super().__init__(cache, names, threads, np.zeros(len(names), np.int32))
        self.buffers = buffers
        self.rows = [] if left is None else left.rows
        self.places = torch.tensor(self.rows)
        self.leaves: Leaves = {}
        self.has_text = False

    def prepared(self, left: Left | None) -> Build:
        """Makes room for the batch. What it returns makes it of its tensors."""
        try:
            self.describe(0)
            if self.first is None:
                raise MissError("none of the samples is in the cache")
            build: Build = self.column(self.common_structure(), None if left is None else left.batch)
        except (RecordError, TypeError) as error:
            raise UnlikeError from error
        if self.unlike.any():
            raise UnlikeError
        self.unlike[self.rows] = True  # so that they are not copied
        return build

    def form(self, build: Build) -> _Form | None:
        """Of samples without text, whose lengths differ."""
        if self.has_text or not self.leaves:
            return None
        leaves = [(array, tuple(leaf.shape[1:]), leaf.dtype) for array, leaf in self.leaves.items()]
        layouts = b"".join(self.described[array].arrays[0].tobytes()[_LAYOUT] for array, _, _ in leaves)
        head = self.described[0]
        sample_bytes = sum(dtype.itemsize * math.prod(shape) for _, shape, dtype in leaves)
        return _Form(build, leaves, sample_bytes, layouts, int(head.counts[0]), int(head.structures[0]))

    def column(self, node: Any, left: Any, listed: Callable[[list[Any]], Any] = list) -> Build:  # type: ignore[override]
        """As of _Reading. `left` is the same column of what is left, or None; `listed` is what text comes in."""
        if isinstance(node, int):
            return self.tensor(node, left)
        kind, *rest = node
        if kind in {"tensor", "int", "float", "bool"}:
            return self.tensor(rest[0], left)
        if kind == "numpy":
            return self.numpy_numbers(rest[0], left)
        if kind in {"numbers", "numbertuple"}:
            return self.numbers(rest[0], left)
        if kind in _TEXT:
            return self.strings(rest[0], kind, left, listed)
        if kind in {"dict", "list", "tuple", "named"}:
            return self.nested(kind, rest, left)
        raise UnlikeError(f"default_collate has its own way with {kind}")

    def nested(self, kind: str, rest: list[Any], left: Any) -> Build:
        nodes = rest[-1]
        keys = [decode_key(key) for key in rest[0]] if kind == "dict" else list(range(len(nodes)))
        if left is None:
            parts = [None] * len(nodes)
        else:
            found = list(left) if isinstance(left, Mapping) else list(range(len(left)))
            if found != keys or isinstance(left, Mapping) != (kind == "dict"):
                raise UnlikeError
            parts = [left[key] for key in keys]
        listed = list if kind == "dict" else tuple
        inner = [self.column(node, part, listed) for node, part in zip(nodes, parts, strict=True)]
        if kind == "dict":
            return lambda leaves: dict(zip(keys, [one(leaves) for one in inner], strict=True))
        if kind == "named":
            make = named_class(rest[0])._make
            return lambda leaves: make([one(leaves) for one in inner])
        return lambda leaves: [one(leaves) for one in inner]

    def tensor(self, array: int, left: Any) -> Callable[[Leaves], torch.Tensor]:
        first, found = self.with_array(array)
        one = found.arrays[first]
        self.must_be(found.like(first), "shape")
        dtype, shape = _DTYPES.get(_type_of(one)), _shape_of(one)
        if dtype is None or one["lanes"] > 1:
            raise UnlikeError
        if left is not None and not (
            isinstance(left, torch.Tensor) and left.dtype == dtype and tuple(left.shape[1:]) == shape
        ):
            raise UnlikeError
        self.leaves[array], memory = self.buffers.tensor((self.size, *shape), dtype)
        self.parts.append((array, memory, int(one["bytes"]), None))
        if left is None:
            return lambda leaves: leaves[array]
        return lambda leaves: leaves[array].index_copy_(0, self.places, left)

    def numpy_numbers(self, array: int, left: Any) -> Callable[[Leaves], torch.Tensor]:
        first, found = self.with_array(array)
        collated = _collated_dtype(_dtype_of(found.arrays[first]))
        if left is not None and collated != _DTYPES.get(_type_of(found.arrays[first])):
            raise UnlikeError
        numbers = self.tensor(array, left)
        return lambda leaves: numbers(leaves).to(collated)

    def numbers(self, array: int, left: Any) -> Callable[[Leaves], list[torch.Tensor]]:
        """A list of numbers in each sample becomes a tensor for each place in the list."""
        first, found = self.with_array(array)
        if _type_of(found.arrays[first])[0] == _COMPLEX:
            raise UnlikeError
        if left is not None:
            left = torch.stack(left, 1) if isinstance(left, list) and left else False
        rows = self.tensor(array, left)
        return lambda leaves: [column.clone() for column in rows(leaves).unbind(1)]

    def strings(self, array: int, kind: str, left: Any, listed: Callable[[list[Any]], Any]) -> Build:
        self.has_text = True
        cls, decode = _TEXT[kind]
        text = self.text(array, decode)
        if left is not None and not (isinstance(left, (list, tuple)) and all(type(one) is cls for one in left)):
            raise UnlikeError

        def made(_: Leaves) -> Any:
            values = text()
            for row, value in zip(self.rows or (), left or (), strict=True):
                values[row] = value
            return listed(values)

        return made


_COMPLEX = 5
_TEXT: dict[str, tuple[type, Callable[[bytes], Any]]] = {
    "str": (str, lambda text: text.decode("utf-8", "surrogatepass")),
    "bytes": (bytes, lambda text: text),
}


def _type_of(one: Any) -> tuple[int, int]:
    return int(one["code"]), int(one["bits"])


@functools.cache
def _collated_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """What default_collate makes of NumPy scalars of a type."""
    made: torch.dtype = default_collate([np.zeros((), dtype)[()]]).dtype
    return made


class Thread:
    """Runs what it is given, in turn, in a thread that there is only where it is needed."""

    def __init__(self, pinned: bool) -> None:
        self._device = torch.accelerator.current_device_index() if pinned else None
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        _threads.add(self)

    @property
    def is_the_parents(self) -> bool:
        """Whether this is a forked child, in which its locks may be held for ever."""
        return os.getpid() != self._process

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Its result, or what it raises."""
        future: Future[Any] = Future()
        self._jobs.put((future, function, arguments))
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(self._jobs, self._device), name="ddpcache-loader", daemon=True
            )
            self._thread.start()
        return future

    def result(self, future: Future[Any]) -> Any:
        """What came of a submission, or raises it. Where that takes time, does meanwhile what was not begun yet."""
        while not future.done():
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            _do(*job)
        return future.result()

    def stop(self) -> None:
        """Ends the thread when it has done all that it was given; it begins again with the next.

        Does nothing in a forked child, nor where Python ends, which keeps all other threads from running.
        """
        thread, self._thread = self._thread, None
        if thread is None or self.is_the_parents or sys.is_finalizing():
            return
        self._jobs.put(None)
        if thread is not threading.current_thread():
            thread.join()


def _run(jobs: queue.SimpleQueue[Any], device: int | None) -> None:
    # Nothing in here may hold the loader's iterator: it must be collected when the user lets go of it.
    if device is not None:
        torch.accelerator.set_device_index(device)
    while (job := jobs.get()) is not None:
        _do(*job)
        del job


def _do(future: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    except BaseException:
        # Interrupted by the user, it is made anew if he goes on.
        future.set_exception(MissError("the copying was interrupted"))
        raise


_threads: weakref.WeakSet[Thread] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    # Before caches are closed: one that a thread is just reading would stay open.
    for thread in list(_threads):
        thread.stop()
