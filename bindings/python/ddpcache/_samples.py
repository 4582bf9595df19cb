"""How Python samples lie in the cache: the arrays that a sample is made of, and how they are nested again.

A structure is JSON, ``{"ddpcache": 1, "sample": NODE}``, where a NODE is

    n                             array n as a NumPy array
    ["tensor", n]                 array n as a torch tensor
    ["int" | "float" | "complex" | "bool" | "numpy", n]      the one element of array n as that Python (NumPy) number
    ["str" | "bytes" | "bigint", n]                          the uint8 array n as text, bytes, hexadecimal digits
    ["numbers" | "numbertuple", n]                           array n as a list or tuple of Python numbers of one type
    ["none"]
    ["list" | "tuple", [NODE...]]   ["dict", [KEY...], [NODE...]]   ["named", "module:class", [NODE...]]

so that it says nothing of the values: samples alike in shape have one structure, which is parsed once. A plain NumPy
array has none. Where a sample would have too many arrays or too long a structure, it is
``{"ddpcache": 1, "packed": n}``, and array n holds the structure with the small values in it: ["value", JSON],
["bigintvalue", hexadecimal digits], ["complexvalue", re, im], ["bytesvalue", latin-1 text],
["numpyvalue", dtype, latin-1 text].
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _ddpcache as core
from . import _swig
from ._errors import FormatError, TooLargeError

VERSION = 1

Array = tuple[Any, int, int, tuple[int, ...], str]
"""Bytes to store (a buffer), DLPack type code, bits, shape, name."""
Plan = tuple[Any, ...]

_NUMPY_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
TORCH_CODES = {
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    **{f"complex{bits}": (5, bits) for bits in (32, 64, 128)},
    "bfloat16": (4, 16),
    "bool": (6, 8),
}
_NAME_BYTES_MAX = 55
_INT64 = range(-(2**63), 2**63)
_KEY_TYPES = (str, int, bool, float, type(None))


class _Flattener:
    """Takes one sample apart. Packed: numbers and text go into the structure instead of into arrays."""

    def __init__(self, packed: bool) -> None:
        self.packed = packed
        self.arrays: list[Array] = []

    def add(self, buffer: Any, code: int, bits: int, shape: tuple[int, ...], path: str) -> int:
        name = path if len(path.encode(errors="replace")) <= _NAME_BYTES_MAX and "\0" not in path else ""
        self.arrays.append((buffer, code, bits, shape, name.encode(errors="replace").decode()))
        return len(self.arrays) - 1

    def node(self, value: Any, path: str) -> Any:
        """The NODE of a value, whose arrays are added."""
        cls = type(value)
        if cls is np.ndarray or cls is np.memmap:
            return self.ndarray(value, path)
        if cls in _SCALARS:
            return _PACKED_SCALARS[cls](value) if self.packed else _SCALARS[cls](self, value, path)
        if cls is tuple or cls is list:
            return self.sequence(value, path)
        if cls is dict:
            return self.mapping(value, path)
        if isinstance(value, np.generic):
            return self.numpy_scalar(value, path)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self.tensor(torch, value, path)
        if isinstance(value, tuple) and hasattr(cls, "_fields") and cls.__mro__[1] is tuple:
            nodes = [self.node(item, _join(path, name)) for name, item in zip(cls._fields, value, strict=True)]
            return ["named", f"{cls.__module__}:{cls.__qualname__}", nodes]
        raise TypeError(
            f"{_place(path)} is a {cls.__module__}.{cls.__qualname__}, which a cache cannot hold: it takes NumPy "
            "arrays, torch tensors, numbers, str, bytes, None, and tuples, lists, dicts and namedtuples of them"
        )

    def ndarray(self, value: np.ndarray, path: str) -> int:
        code = _NUMPY_CODES.get(value.dtype.kind)
        if code is None or value.dtype.itemsize > 16:
            raise TypeError(
                f"{_place(path)} has dtype {value.dtype}, which a cache cannot hold: it takes numbers and bool"
            )
        plain = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
        return self.add(plain, code, plain.dtype.itemsize * 8, plain.shape, path)

    def numpy_scalar(self, value: np.generic, path: str) -> Any:
        number = _Flattener(False)
        number.ndarray(np.asarray(value), path)
        plain, code, bits, shape, _ = number.arrays[0]
        if self.packed:
            return ["numpyvalue", plain.dtype.str, plain.tobytes().decode("latin-1")]
        return ["numpy", self.add(plain, code, bits, shape, path)]

    def tensor(self, torch: Any, value: Any, path: str) -> Any:
        dtype = str(value.dtype).removeprefix("torch.")
        plain_type = type(value) is torch.Tensor and value.layout is torch.strided and not value.is_meta
        if not plain_type or dtype not in TORCH_CODES:
            raise TypeError(
                f"{_place(path)} is a {type(value).__name__} of {value.dtype}, {value.layout} on {value.device}, which "
                "a cache cannot hold: it takes plain dense torch.Tensor objects of numbers and bool"
            )
        plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        data = plain.reshape(-1).view(torch.uint8).numpy()
        return ["tensor", self.add(data, *TORCH_CODES[dtype], tuple(plain.shape), path)]

    def sequence(self, values: Sequence[Any], path: str) -> Any:
        kind = "tuple" if type(values) is tuple else "list"
        dtype = None if self.packed else _numbers_dtype(values)
        if dtype is not None:
            numbers = self.ndarray(np.array(values, dtype=dtype), path)
            return ["numbertuple" if kind == "tuple" else "numbers", numbers]
        return [kind, [self.node(value, _join(path, number)) for number, value in enumerate(values)]]

    def mapping(self, values: dict[Any, Any], path: str) -> Any:
        keys = [_encode_key(key, path) for key in values]
        return ["dict", keys, [self.node(value, _join(path, key)) for key, value in values.items()]]

    def integer(self, value: int, path: str) -> Any:
        if value in _INT64:
            return ["int", self.add(struct.pack("<q", value), 0, 64, (), path)]
        return ["bigint", self.text(f"{value:x}".encode(), path)]

    def text(self, value: bytes, path: str) -> int:
        return self.add(value, 1, 8, (len(value),), path)


_SCALARS: dict[type, Callable[[_Flattener, Any, str], Any]] = {
    int: _Flattener.integer,
    float: lambda self, value, path: ["float", self.add(struct.pack("<d", value), 2, 64, (), path)],
    bool: lambda self, value, path: ["bool", self.add(b"\1" if value else b"\0", 6, 8, (), path)],
    complex: lambda self, value, path: [
        "complex",
        self.add(struct.pack("<dd", value.real, value.imag), 5, 128, (), path),
    ],
    str: lambda self, value, path: ["str", self.text(value.encode("utf-8", "surrogatepass"), path)],
    bytes: lambda self, value, path: ["bytes", self.text(value, path)],
    type(None): lambda self, value, path: ["none"],
}
_PACKED_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: ["value", value] if value in _INT64 else ["bigintvalue", f"{value:x}"],
    float: lambda value: ["value", value],
    bool: lambda value: ["value", value],
    complex: lambda value: ["complexvalue", value.real, value.imag],
    str: lambda value: ["value", value],
    bytes: lambda value: ["bytesvalue", value.decode("latin-1")],
    type(None): lambda value: ["none"],
}


def _place(path: str) -> str:
    return f"the sample's item {path}" if path else "the sample"


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _numbers_dtype(values: Sequence[Any]) -> str | None:
    """The dtype of an array for a list of Python numbers of one type; None for any other list."""
    classes = set(map(type, values))
    if classes == {int}:
        return "int64" if min(values) in _INT64 and max(values) in _INT64 else None
    if len(classes) == 1:
        return {float: "float64", bool: "bool", complex: "complex128"}.get(classes.pop())
    return None


def _encode_key(key: Any, path: str) -> Any:
    if type(key) in _KEY_TYPES:
        return key
    if type(key) is tuple:
        return [_encode_key(item, path) for item in key]
    raise TypeError(f"{_place(path)} has the key {key!r}; keys are str, int, float, bool, None and tuples of them")


def decode_key(key: Any) -> Any:
    return tuple(map(decode_key, key)) if isinstance(key, list) else key


def _dump(**content: Any) -> str:
    """ASCII, whatever the text in it."""
    return json.dumps({"ddpcache": VERSION, **content}, separators=(",", ":"))


def flatten(sample: Any) -> tuple[tuple[Array, ...], str | None]:
    """A sample's arrays and its structure; None for a plain NumPy array.

    Raises TypeError for what a cache cannot hold, and TooLargeError (a ValueError) for more than 64 arrays.
    """
    flat = _Flattener(packed=False)
    node = flat.node(sample, "")
    if node == 0:
        return tuple(flat.arrays), None
    structure = _dump(sample=node)
    if len(flat.arrays) > _swig.DC_ARRAYS_MAX or len(structure) > _swig.DC_STRUCTURE_BYTES_MAX:
        flat = _Flattener(packed=True)
        content = _dump(sample=flat.node(sample, ""))
        structure = _dump(packed=flat.text(content.encode(), "structure"))
    if len(flat.arrays) > _swig.DC_ARRAYS_MAX:
        raise TooLargeError(
            f"the sample has {len(flat.arrays) - 1} arrays; a cache holds up to {_swig.DC_ARRAYS_MAX - 1} beside a "
            "structure this large: stack some"
        )
    if not flat.arrays:
        flat.text(b"", "")
    return tuple(flat.arrays), structure


_LEAVES = {
    "tensor": core.PLAN_TENSOR,
    "int": core.PLAN_INT,
    "float": core.PLAN_FLOAT,
    "complex": core.PLAN_COMPLEX,
    "bool": core.PLAN_BOOL,
    "str": core.PLAN_STR,
    "bytes": core.PLAN_BYTES,
    "numpy": core.PLAN_NUMPY,
    "numbers": core.PLAN_NUMBERS,
}
_CONSTANTS: dict[str, Callable[..., Any]] = {
    "none": lambda: None,
    "value": lambda value: value,
    "complexvalue": complex,
    "bytesvalue": lambda text: text.encode("latin-1"),
    "bigintvalue": lambda text: int(text, 16),
    "numpyvalue": lambda dtype, text: np.frombuffer(text.encode("latin-1"), dtype=dtype)[0],
}


def _plan(node: Any) -> Plan:
    """A NODE as what the C code walks: see plan.h."""
    if isinstance(node, int):
        return (core.PLAN_NDARRAY, node)
    kind, *rest = node
    if kind in _LEAVES:
        return (_LEAVES[kind], rest[0])
    if kind in _CONSTANTS:
        return (core.PLAN_CONSTANT, _CONSTANTS[kind](*rest))
    if kind == "bigint":
        return (core.PLAN_CALL, ((core.PLAN_STR, rest[0]),), lambda values: int(values[0], 16))
    if kind == "numbertuple":
        return (core.PLAN_CALL, ((core.PLAN_NUMBERS, rest[0]),), lambda values: tuple(values[0]))
    plans = tuple(map(_plan, rest[-1]))
    if kind == "list":
        return (core.PLAN_LIST, plans)
    if kind == "tuple":
        return (core.PLAN_TUPLE, plans)
    if kind == "dict":
        keys = tuple(map(decode_key, rest[0]))
        if len(keys) != len(plans):
            raise ValueError(f"{len(keys)} keys for {len(plans)} values")
        return (core.PLAN_DICT, plans, keys)
    if kind == "named":
        return (core.PLAN_CALL, plans, named_class(rest[0])._make)
    raise ValueError(f"unknown kind {kind!r}")


def named_class(path: str) -> Any:
    module, _, qualname = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise ValueError(f"{path} is no namedtuple")
    return found


def plan_of_structure(structure: bytes) -> Plan:
    """The plan of a structure string, or of the content of a packed one.

    Raises FormatError for one that this version cannot read.
    """
    try:
        content = json.loads(structure)
        if content["ddpcache"] != VERSION:
            raise ValueError(f"version {content['ddpcache']!r}, but this is version {VERSION}")
        if "packed" in content:
            return (core.PLAN_PACKED, content["packed"])
        return _plan(content["sample"])
    except (ValueError, KeyError, TypeError, IndexError, ImportError, AttributeError, RecursionError) as error:
        shown = structure[:200].decode(errors="replace")
        raise FormatError(
            f"the sample's structure cannot be read ({type(error).__name__}: {error}): {shown}"
        ) from error


def plan_of_names(names: tuple[str, ...]) -> Plan:
    """The plan of a record without a structure: a dict where every array has a name of its own, else a tuple."""
    plans = tuple((core.PLAN_NDARRAY, number) for number in range(len(names)))
    if all(names) and len(set(names)) == len(names):
        return (core.PLAN_DICT, plans, names)
    return (core.PLAN_TUPLE, plans)
