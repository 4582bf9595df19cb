"""Many samples at once: what of ddpcache.Cache copies batches out of the cache."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _ddpcache as core
from . import _swig
from ._arguments import indices_of, keys_of, number
from ._errors import MissError, RangeError, RecordError, check
from ._samples import TORCH_CODES, decode_key, named_class, plan_of_structure

Ints = NDArray[np.int64]
Statuses = NDArray[np.int32]

_THREADS_MAX = _swig.DC_COPY_THREADS_MAX
# What describe_batch writes: dc_array.
_DESCRIPTION = np.dtype(
    {
        "names": ["bytes", "shape", "dimensions", "code", "bits", "lanes", "name"],
        "formats": ["u8", ("i8", (8,)), "u4", "u1", "u1", "u2", "S56"],
        "offsets": [8, 16, 80, 84, 85, 86, 88],
        "itemsize": 168,
    }
)
_LAYOUT = slice(16, 88)  # the bytes of shape, number of dimensions and dtype
_TYPE = slice(80, 88)  # the last two alone
_NUMPY = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (2, 128): "longdouble",
    (5, 64): "complex64",
    (5, 128): "complex128",
    (6, 8): "bool",
}
_TORCH = {code: name for name, code in TORCH_CODES.items()}
_TEXT: dict[str, Callable[[bytes], Any]] = {
    "str": lambda text: text.decode("utf-8", "surrogatepass"),
    "bytes": lambda text: text,
    "bigint": lambda text: int(text, 16),
}
_NUMBERS = {"int", "float", "complex", "bool", "numpy", "numbers", "numbertuple"}


class Ragged(NamedTuple):
    """A batch of arrays of different shape, one after the other in one piece of memory."""

    values: Any
    """All elements, in C order, sample after sample."""
    offsets: Any
    """Sample i is values[offsets[i]:offsets[i + 1]]: int64, one more than samples."""
    shapes: Any
    """The shape of each sample: int64, (samples, dimensions)."""

    def sample(self, number: int) -> Any:
        """One array of the batch, in its shape: a view."""
        begin, end = (int(self.offsets[number]), int(self.offsets[number + 1])) if number >= 0 else (-1, -1)
        if begin < 0:
            raise IndexError(f"sample {number} of a batch of {len(self.shapes)}")
        return self.values[begin:end].reshape(tuple(map(int, self.shapes[number])))

    def jagged(self) -> tuple[Any, Any]:
        """Values and offsets by rows, as torch.nested.nested_tensor_from_jagged takes them.

        For samples that differ in their first dimension only: the values are (all rows, *rest), a view. Raises
        ValueError where they differ in others too.
        """
        shapes = np.asarray(self.shapes)
        lengths = np.diff(np.asarray(self.offsets))
        rest = np.unique(shapes[lengths > 0, 1:], axis=0)
        if shapes.shape[1] < 1 or len(rest) > 1:
            raise ValueError(f"samples differ in more than their first dimension: {rest[:4].tolist()}")
        tail = tuple(map(int, rest[0] if len(rest) else shapes[0, 1:] if len(shapes) else ()))
        row = max(1, math.prod(tail))
        return self.values.reshape((-1, *tail)), self.offsets // row


class _Described(NamedTuple):
    """One array of each sample of a batch."""

    arrays: NDArray[Any]
    counts: NDArray[np.uint32]
    structures: NDArray[np.uint64]
    statuses: Statuses

    def like(self, first: int, compared: slice = _LAYOUT) -> NDArray[np.bool_]:
        """Which samples have an array of the type and shape of that of the first one."""
        rows = self.arrays.view(np.uint8).reshape(len(self.arrays), -1)[:, compared]
        return (self.statuses == _swig.DC_OK) & (rows == rows[first]).all(axis=1)


class Batches(core.Handle):
    """The batch methods of ddpcache.Cache."""

    def read_batch(
        self,
        indices: Any,
        out: Any = None,
        threads: int = 1,
        *,
        array: int | None = None,
        statuses: Statuses | None = None,
    ) -> Any:
        """Copies many samples that are alike into one batch, with each array of the sample at once.

        The batch is nested as the samples are: for samples (image, {"mask": m, "label": 3}) it is (images, {"mask":
        masks, "label": labels}), where arrays have one dimension more, in front. Arrays, numbers and lists of numbers
        become NumPy arrays, tensors tensors, and text a list.

        Args:
            indices: integers 0..len-1, or a list of keys in a keyed cache; in any order, repeats allowed.
            out: a batch to fill, nested like what is returned: writable C-contiguous arrays or CPU tensors of the
                samples' dtype and shape (len(indices), *shape of a sample). It is then returned. None: a new one.
            threads: native threads to copy with, 1 to 64. Small batches take fewer: one for each MB.
            array: only this array of each sample, whatever its structure: 0 is the first. As a NumPy array.
            statuses: an int32 array of len(indices), which receives for each sample 0 where it was copied, else
                raw.DC_MISS, raw.DC_ERROR_RECORD (not like the first) or raw.DC_ERROR_RANGE, of `ddpcache.raw`. Then
                these are not raised, and their places are 0 in a new batch, None in a list, and as they were in `out`.

        Raises MissError (a KeyError) where a sample is not in the cache, RecordError (a ValueError) where one is not
        like the first that is, RangeError (an IndexError); `out` then holds those that could be copied. RecordError,
        with nothing copied, where `out` is not like the first sample. Runs without the GIL, and never blocks.
        """
        reading = _Reading(self, indices, threads, statuses)
        if reading.size == 0:
            if out is None:
                raise ValueError("an empty batch has no shape: give `out`, or at least one index")
            return out
        if array is not None:
            array = number("array", array, 0, _swig.DC_ARRAYS_MAX - 1)
        reading.describe(array or 0)
        if reading.first is None:
            return reading.nothing(array or 0, out)
        node = reading.common_structure() if array is None else array
        batch = reading.column(node, out)
        reading.copy()
        return batch() if out is None else out

    def read_ragged(
        self,
        indices: Any,
        array: int = 0,
        *,
        threads: int = 1,
        tensors: bool = False,
        statuses: Statuses | None = None,
    ) -> Ragged:
        """Copies one array of many samples, whose shapes may differ, into one piece of memory.

            values, offsets, shapes = cache.read_ragged(indices)
            torch.nested.nested_tensor_from_jagged(*cache.read_ragged(indices, tensors=True).jagged())

        Args:
            indices: integers 0..len-1, or a list of keys in a keyed cache; in any order, repeats allowed.
            array: which array of each sample: 0 is the first. All must have one dtype and number of dimensions.
            threads: native threads to copy with, 1 to 64. Small batches take fewer: one for each MB.
            tensors: as torch tensors instead of NumPy arrays.
            statuses: as for read_batch; a sample that was not copied then has no elements, or zeros where it was
                removed during the call.

        Raises MissError, RecordError and RangeError as read_batch. Runs without the GIL, and never blocks.
        """
        reading = _Reading(self, indices, threads, statuses)
        if reading.size == 0:
            raise ValueError("an empty batch has no dtype: give at least one index")
        reading.describe(number("array", array, 0, _swig.DC_ARRAYS_MAX - 1))
        if reading.first is None:
            reading.nothing(array, None)
        values = reading.ragged(array, "tensor" if tensors else "array")
        reading.copy()
        return values()

    def populate(self) -> None:
        """Lets a thread of the library map what is in the cache into this process, while the program goes on.

        A process's first look at each page is a page fault, also in every data-loader worker: with a core to spare, its
        first pass over a filled cache takes 1.3 times what the next takes, instead of 2 times. The thread ends by
        itself after 60 ms a GiB; a further call maps what was added since. Without a core to spare it is no use. Never
        blocks. Raises SystemCallError (an OSError) where no thread is to be had.
        """
        check(_swig.dc_cache_populate(self))


class _Reading:
    """One batch on its way: what its samples are, where they go, and how each of them went."""

    def __init__(self, cache: Any, indices: Any, threads: int, statuses: Statuses | None) -> None:
        self.cache = cache
        self.names = keys_of(indices) if cache.keyed else indices_of(indices)
        self.wanted: Ints = cache._known(self.names) if cache.keyed else self.names
        self.size = len(self.wanted)
        self.threads = number("threads", threads, 1, _THREADS_MAX)
        self.statuses = np.zeros(self.size, np.int32) if statuses is None else statuses
        self.raises = statuses is None
        if statuses is not None and not (
            isinstance(statuses, np.ndarray) and statuses.dtype == np.int32 and statuses.shape == (self.size,)
        ):
            raise ValueError(f"statuses is an int32 array of {self.size} elements, not {statuses!r}")
        self.described: dict[int, _Described] = {}
        self.there = np.zeros(self.size, np.bool_)
        self.first: int | None = None
        """The place of the first sample that is there: others must be like it."""
        self.unlike = np.zeros(self.size, np.bool_)
        self.like_what = "array"
        self.parts: list[tuple[int, Any, int, Any]] = []

    def describe(self, array: int) -> _Described:
        if array not in self.described:
            found = _Described(
                np.zeros(self.size, _DESCRIPTION),
                np.zeros(self.size, np.uint32),
                np.zeros(self.size, np.uint64),
                np.zeros(self.size, np.int32),
            )
            status = _swig.dc_cache_describe_batch(self.cache, self.wanted, self.size, array, *found)
            if status < 0 and status not in found.statuses:
                check(status)
            self.described[array] = found
            self.there &= found.statuses != _swig.DC_MISS  # some may have been removed since the last look
            if self.first is None and found.counts.any():
                self.there = found.counts > 0  # perhaps without this array
                self.first = int(self.there.argmax())
        return self.described[array]

    def nothing(self, array: int, out: Any) -> Any:
        """The end of a batch of which nothing is there; counted, as any other."""
        self.parts.append((array, bytearray(), 0, None))
        self.copy()
        if out is None:
            raise MissError(f"none of the {self.size} samples is in the cache, so nothing says the batch's shape")
        return out

    def common_structure(self) -> Any:
        """The NODE of _samples that all samples of the batch have in common with the first one."""
        found = self.described[0]
        same = (found.structures == found.structures[self.first]) & (found.counts == found.counts[self.first])
        self.must_be(same, "structure")
        memory = np.empty(_swig.DC_STRUCTURE_BYTES_MAX, np.uint8)
        alike = self.wanted[same & self.there].tolist()
        for index in alike:
            status, length = _swig.dc_cache_structure(self.cache, index, memory)
            if status != _swig.DC_MISS:  # else it was removed meanwhile
                break
        else:
            raise MissError(f"the {len(alike)} samples like index {alike[0]} were removed meanwhile")
        check(status)
        return _node_of(memory[:length].tobytes()) if length else self._node_of_names()

    def _node_of_names(self) -> Any:
        count = int(self.described[0].counts[self.first])
        if count == 1:
            return 0
        names = [self.describe(k).arrays["name"][self.first].decode(errors="replace") for k in range(count)]
        nodes = list(range(count))
        return ["dict", names, nodes] if all(names) and len(set(names)) == count else ["tuple", nodes]

    def must_be(self, fits: NDArray[np.bool_], what: str) -> None:
        """Leaves those samples out that are there and not like the first one."""
        unlike = ~fits & self.there
        if unlike.any() and not self.unlike.any():
            self.like_what = what
        self.unlike |= unlike

    def column(self, node: Any, out: Any) -> Callable[[], Any]:
        """Makes room for what a NODE stands for, in all samples; what it returns makes the batch of it, once copied."""
        if isinstance(node, int):
            return self.equal(node, "array", out)
        kind, *rest = node
        if kind == "tensor" or kind in _NUMBERS:
            return self.equal(rest[0], "tensor" if kind == "tensor" else "array", out)
        if kind == "none":
            return lambda: None
        if kind in _TEXT:
            if out is not None:
                raise ValueError("samples with text in them cannot be read into `out`: text has no fixed length")
            return self.text(rest[0], _TEXT[kind])
        return self.container(kind, rest, out)

    def container(self, kind: str, rest: list[Any], out: Any) -> Callable[[], Any]:
        nodes = rest[-1]
        keys = [decode_key(key) for key in rest[0]] if kind == "dict" else range(len(nodes))
        if out is not None:
            fits = isinstance(out, dict if kind == "dict" else (list, tuple)) and len(out) == len(nodes)
            if not fits or (kind == "dict" and set(out) != set(keys)):
                raise RecordError(f"out has a {type(out).__name__} where the samples have a {kind} of {list(keys)}")
        places = [None if out is None else out[key] for key in keys]
        inner = [self.column(node, place) for node, place in zip(nodes, places, strict=True)]
        make: Callable[[list[Any]], Any] = {"list": list, "tuple": tuple}.get(kind, list)
        if kind == "dict":
            return lambda: dict(zip(keys, (one() for one in inner), strict=True))
        if kind == "named":
            make = named_class(rest[0])._make
        return lambda: make([one() for one in inner])

    def equal(self, array: int, kind: str, out: Any) -> Callable[[], Any]:
        """Room for an array that has one shape in all samples."""
        first, found = self.with_array(array)
        one = found.arrays[first]
        self.must_be(found.like(first), "shape")
        shape = (self.size, *_shape_of(one))
        if out is None:
            batch, memory = (_tensor if kind == "tensor" else _array)(one, shape, self.raises)
        else:
            samples = f"{self.size} samples like {self.kind} {self.names[first]}"
            batch, memory = out, _memory_of(out, one, shape, samples)
        self.parts.append((array, memory, int(one["bytes"]), None))
        return lambda: batch

    def ragged(self, array: int, kind: str) -> Callable[[], Ragged]:
        """Room for an array whose shape is another one in each sample."""
        first, found = self.with_array(array)
        one = found.arrays[first]
        self.must_be(found.like(first, _TYPE), "dtype and number of dimensions")
        present = (found.statuses == _swig.DC_OK) & ~self.unlike
        lengths = np.where(present, found.arrays["bytes"], 0).astype(np.int64)
        places = np.concatenate([[0], np.cumsum(lengths)])
        shapes = found.arrays["shape"][:, : one["dimensions"]]
        if one["lanes"] > 1:
            shapes = np.concatenate([shapes, np.full((self.size, 1), one["lanes"], np.int64)], axis=1)
        offsets = places * 8 // int(one["bits"])
        total = (int(offsets[-1]),)
        values, memory = (_tensor if kind == "tensor" else _array)(one, total, self.raises)
        self.parts.append((array, memory, 0, places))
        result: list[Any] = [values, offsets, np.where(present[:, None], shapes, 0)]
        if kind == "tensor":
            import torch

            result[1:] = [torch.from_numpy(numbers) for numbers in result[1:]]
        return lambda: Ragged(*result)

    def with_array(self, array: Any) -> tuple[int, _Described]:
        """The place of the first sample that has this array, and all descriptions; leaves those out that lack it."""
        if type(array) is not int or not 0 <= array < _swig.DC_ARRAYS_MAX:
            raise RecordError(f"the samples' structure names an array {array!r}")
        found = self.describe(array)
        has = found.statuses == _swig.DC_OK
        self.must_be(has, "array")
        if not self.there.any():
            raise MissError(f"all {self.size} samples are gone: they were removed meanwhile")
        if not has.any():
            raise RecordError(f"the {int(self.there.sum())} samples that are there have no array {array}")
        return int(has.argmax()), found

    def text(self, array: int, decode: Callable[[bytes], Any]) -> Callable[[], list[Any]]:
        _, found = self.with_array(array)
        places = np.concatenate([[0], np.cumsum(found.arrays["bytes"], dtype=np.int64)])
        memory = np.empty(int(places[-1]), np.uint8)
        self.parts.append((array, memory, 0, places))

        def decoded() -> list[Any]:
            text = memory.tobytes()
            parts = zip(places[:-1], places[1:], self.statuses, strict=True)
            return [decode(text[begin:end]) if status == _swig.DC_OK else None for begin, end, status in parts]

        return decoded

    def copy(self) -> None:
        """Copies what the batch is made of, and raises what its samples' statuses say unless they were asked for."""
        asked = np.where(self.unlike, -1, self.wanted)
        parts = self.parts or [(0, bytearray(), 0, None)]
        status = _swig.dc_cache_gather(self.cache, asked, self.size, parts, self.statuses, self.threads)
        if status < 0 and status not in self.statuses:
            check(status)
        self.statuses[self.unlike] = _swig.DC_ERROR_RECORD
        if self.cache.keyed:
            self.statuses[self.wanted < 0] = _swig.DC_MISS
        if self.raises:
            for bad in (*sorted(set(self.statuses[self.statuses < 0].tolist()), reverse=True), _swig.DC_MISS):
                if (self.statuses == bad).any():
                    self.fail(bad)

    @property
    def kind(self) -> str:
        return "key" if self.cache.keyed else "index"

    def fail(self, status: int) -> None:
        failed = [self.names[i] for i in np.flatnonzero(self.statuses == status)]
        kind = "keys" if self.cache.keyed else "indices"
        shown = f"{len(failed)} of {self.size} samples: {kind} {', '.join(map(str, failed[:8]))}"
        shown += ", ..." if len(failed) > 8 else ""
        if status == _swig.DC_MISS:
            raise MissError(f"not in the cache: {shown}")
        if status == _swig.DC_ERROR_RANGE:
            raise RangeError(f"not in 0..{len(self.cache) - 1}: {shown}")
        if status == _swig.DC_ERROR_RECORD and self.like_what == "array":
            raise RecordError(f"without such an array: {shown}")
        if status == _swig.DC_ERROR_RECORD:
            first = self.names[self.first] if self.first is not None else None
            raise RecordError(
                f"not of the {self.like_what} that {self.kind} {first!r} has: {shown}; read_ragged takes arrays of "
                "different shape"
            )
        check(status)


@functools.lru_cache(maxsize=256)
def _node_of(structure: bytes) -> Any:
    """The NODE of a structure string, of which a batch can be made. Raises FormatError where it cannot be read."""
    plan_of_structure(structure)
    content = json.loads(structure)
    if "packed" in content:
        raise RecordError(
            "these samples have so many small values that they are kept as one piece of text, which is no array: read "
            "single arrays (array=...), or the samples one by one"
        )
    return content["sample"]


def _shape_of(one: Any) -> tuple[int, ...]:
    shape = tuple(map(int, one["shape"][: one["dimensions"]]))
    return shape if one["lanes"] == 1 else (*shape, int(one["lanes"]))


def _dtype_of(one: Any) -> np.dtype[Any]:
    """Types that NumPy lacks, such as bfloat16, are seen as unsigned integers of their width."""
    code, bits = int(one["code"]), int(one["bits"])
    name = _NUMPY.get((code, bits)) or _NUMPY.get((1, bits))
    if name is None:
        raise TypeError(f"an array of DLPack type code {code} with {bits} bits has no NumPy dtype")
    return np.dtype(name)


def _torch_name(one: Any) -> str:
    code, bits = int(one["code"]), int(one["bits"])
    name = _TORCH.get((code, bits))
    if name is None:
        raise TypeError(f"an array of DLPack type code {code} with {bits} bits has no torch dtype")
    return name


def _array(one: Any, shape: tuple[int, ...], all_or_none: bool) -> tuple[Any, Any]:
    """A new batch, and its memory. Unless nobody sees it in part, what is not copied is 0."""
    batch = (np.empty if all_or_none else np.zeros)(shape, _dtype_of(one))
    return batch, batch


def _tensor(one: Any, shape: tuple[int, ...], all_or_none: bool) -> tuple[Any, Any]:
    import torch

    batch = (torch.empty if all_or_none else torch.zeros)(shape, dtype=getattr(torch, _torch_name(one)))
    return batch, _bytes_of(batch)


def _bytes_of(tensor: Any) -> NDArray[np.uint8]:
    import torch

    flat: NDArray[np.uint8] = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return flat


def _memory_of(out: Any, one: Any, shape: tuple[int, ...], samples: str) -> Any:
    """The memory of the caller's array or tensor, which must be like the samples."""
    is_tensor = hasattr(out, "is_contiguous") and hasattr(out, "detach")
    if is_tensor:
        if out.device.type != "cpu":
            raise TypeError(f"out is an array or a CPU tensor, not one on {out.device}")
        found, wanted = str(out.dtype).removeprefix("torch."), _torch_name(one)
        ordered = out.is_contiguous()
    else:
        target = np.asarray(out)
        if target is not out and not np.may_share_memory(target, np.asarray(out)):
            raise TypeError(f"out is an array or a CPU tensor, not {out!r}")
        found, wanted = str(target.dtype), str(_dtype_of(one))
        ordered = target.flags.writeable and target.flags.c_contiguous
    if not ordered:
        raise ValueError("out must be writable and contiguous in C order")
    if found != wanted or tuple(out.shape) != shape:
        raise RecordError(f"out is {found} of shape {tuple(out.shape)}, but {samples} take {wanted} of shape {shape}")
    return _bytes_of(out) if is_tensor else target
