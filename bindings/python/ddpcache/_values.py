"""Any value that can be pickled, as something that a cache can hold, with its arrays and tensors raw.

What `_samples` can hold, and gives back as it was, stays as it is. Everything else becomes a `Pickled`, whose pickle
does not contain the bytes of NumPy arrays and CPU tensors, however deep in it they are: those lie beside it.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any, NamedTuple

import numpy as np

from . import _swig
from ._samples import TORCH_CODES, named_class

_ALIGNMENT = 64
# A sample holds 64 arrays, and its nesting is parsed recursively.
_ARRAYS_MAX = 48
_DEPTH_MAX = 32

_IMMUTABLE = frozenset((int, float, bool, complex, str, bytes, type(None)))
_KEYS = frozenset((str, int, float, bool, type(None)))


class Pickled(NamedTuple):
    """A value's pickle, and the buffers that it refers to, one after the other."""

    state: bytes
    lengths: tuple[int, ...]
    buffers: np.ndarray


def encode(value: Any) -> Any:
    """What to give to Cache.put for a value; it may refer to the value's arrays.

    Raises what pickle raises for what it cannot take.
    """
    return value if type(value) in _IMMUTABLE or _Judge().plain(value, 0) else _pickled(value)


def decode(value: Any, views: bool = False) -> Any:
    """The value that `encode` was given, from what Cache.get returned.

    It is the caller's own; with `views` NumPy arrays are read-only views of the cache, unless they were pickled.
    """
    cls = type(value)
    if cls in _IMMUTABLE:
        return value
    if cls is np.ndarray:
        return value if views else value.copy()
    if cls is Pickled:
        return _unpickled(value)
    if cls is dict:
        return {key: decode(item, views) for key, item in value.items()}
    if cls is list or cls is tuple:
        if _IMMUTABLE.issuperset(map(type, value)):
            return value
        return cls([decode(item, views) for item in value])
    if isinstance(value, tuple):
        return tuple.__new__(cls, [decode(item, views) for item in value])
    return value  # a tensor, or a NumPy number


class _Judge:
    """Says whether a value is a tree of parts that `_samples` gives back exactly as they were."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.arrays = 0

    def plain(self, value: Any, depth: int) -> bool:
        cls = type(value)
        if cls in _IMMUTABLE:
            return True
        if cls is np.ndarray:
            return _is_plain_array(value) and self.another_array(value)
        if cls is tuple or cls is list:
            if not value:
                return True
            return self.first(value, depth) and (
                _IMMUTABLE.issuperset(map(type, value)) or all(self.plain(item, depth + 1) for item in value)
            )
        if cls is dict:
            return self.first(value, depth) and all(
                _is_plain_key(key) and self.plain(item, depth + 1) for key, item in value.items()
            )
        if isinstance(value, tuple):
            return (
                _is_plain_namedtuple(cls)
                and self.first(value, depth)
                and all(self.plain(item, depth + 1) for item in value)
            )
        if isinstance(value, np.number | np.bool_):
            return value.dtype.itemsize <= 16 and value.dtype.kind in "iufcb"
        torch = sys.modules.get("torch")
        return torch is not None and _is_plain_tensor(torch, value) and self.another_array(value)

    def first(self, value: Any, depth: int) -> bool:
        """One object in two places must come back as one, and a value may contain itself: pickle sees to both."""
        if id(value) in self.seen or depth > _DEPTH_MAX:
            return False
        self.seen.add(id(value))
        return True

    def another_array(self, value: Any) -> bool:
        self.arrays += 1
        return self.arrays <= _ARRAYS_MAX and self.first(value, 0)


def _is_plain_key(key: Any) -> bool:
    return type(key) in _KEYS or (type(key) is tuple and all(map(_is_plain_key, key)))


def _is_plain_array(value: np.ndarray) -> bool:
    dtype = value.dtype
    kind = dtype.kind in "iufcb" and dtype.itemsize <= 16 and dtype.isnative and dtype.metadata is None
    return kind and value.ndim <= _swig.DC_DIMENSIONS_MAX and (value.flags.c_contiguous or not value.flags.f_contiguous)


def _is_plain_namedtuple(cls: Any) -> bool:
    """Whether it is found again by its name, and has nothing beside its fields."""
    if not hasattr(cls, "_fields") or cls.__mro__[1] is not tuple or cls is Pickled:
        return False
    try:
        return named_class(f"{cls.__module__}:{cls.__qualname__}") is cls
    except (ImportError, AttributeError, ValueError):
        return False


def _is_plain_tensor(torch: Any, value: Any) -> bool:
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.requires_grad
        and str(value.dtype).removeprefix("torch.") in TORCH_CODES
        and value.dim() <= _swig.DC_DIMENSIONS_MAX
        and not value.__dict__
    )


class _Pickler(pickle.Pickler):
    """NumPy takes its buffers out of a pickle by itself; torch does not."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.untyped: dict[tuple[int, int], _Untyped] = {}

    def reducer_override(self, value: Any) -> Any:
        if type(value) is _Untyped:
            return _untyped_storage, (pickle.PickleBuffer(value.data),)
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.storage.TypedStorage | torch.UntypedStorage):
            return NotImplemented
        typed = isinstance(value, torch.storage.TypedStorage)
        storage = value._untyped_storage if typed else value
        if storage.device.type != "cpu":
            return NotImplemented
        # Each tensor has a storage object of its own, also where they share the memory.
        memory = storage.data_ptr(), storage.nbytes()
        if memory not in self.untyped:
            self.untyped[memory] = _Untyped(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
        # For tensors of newer types torch gives an untyped storage, and takes a typed one.
        return _typed_storage, (self.untyped[memory], value.dtype if typed else torch.uint8)


class _Untyped:
    """The memory of a storage on its way into a pickle."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data


def _untyped_storage(buffer: Any) -> Any:
    """A storage over a buffer that it keeps."""
    import torch

    if not memoryview(buffer).nbytes:
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def _typed_storage(untyped: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _pickled(value: Any) -> Pickled:
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(buffer.raw())

    text = io.BytesIO()
    _Pickler(text, protocol=5, buffer_callback=keep).dump(value)
    lengths = tuple(buffer.nbytes for buffer in buffers)
    if len(buffers) == 1 and lengths[0]:
        return Pickled(text.getvalue(), lengths, np.frombuffer(buffers[0], np.uint8))
    places, size = _places(lengths)
    data = np.zeros(size, np.uint8)
    for buffer, begin in zip(buffers, places, strict=True):
        data[begin : begin + buffer.nbytes] = buffer
    return Pickled(text.getvalue(), lengths, data)


def _unpickled(value: Pickled) -> Any:
    # A copy in any case: torch has no tensors over memory that must not be written.
    memory = memoryview(value.buffers.copy())
    parts = [
        memory[begin : begin + length] if length else bytearray()
        for begin, length in zip(_places(value.lengths)[0], value.lengths, strict=True)
    ]
    return pickle.loads(value.state, buffers=parts)


def _places(lengths: tuple[int, ...]) -> tuple[list[int], int]:
    """Where the buffers begin, and the length of all."""
    places, end = [], 0
    for length in lengths:
        places.append(end)
        end += -(-length // _ALIGNMENT) * _ALIGNMENT
    return places, end
