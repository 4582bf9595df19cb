"""The C half of the package: what SWIG makes of the headers (typed in _swig), and bindings/swig by hand."""

import os
from collections.abc import Callable
from typing import Any, Self, SupportsIndex, TypeAlias, TypeVar, overload

from numpy.typing import NDArray

_Default = TypeVar("_Default")

PLAN_NDARRAY: int
PLAN_TENSOR: int
PLAN_INT: int
PLAN_FLOAT: int
PLAN_COMPLEX: int
PLAN_BOOL: int
PLAN_STR: int
PLAN_BYTES: int
PLAN_NUMPY: int
PLAN_NUMBERS: int
PLAN_CONSTANT: int
PLAN_LIST: int
PLAN_CALL: int
PLAN_TUPLE: int
PLAN_DICT: int
PLAN_PACKED: int

NOT_DROPPABLE: str
READ_ONLY: str

SIZEOF_CACHE_OPTIONS: int
SIZEOF_CACHE_INFO: int
SIZEOF_CACHE_STATS: int
SIZEOF_CACHE_REPORT: int
SIZEOF_SAVED_INFO: int
SIZEOF_SAMPLER_OPTIONS: int
SIZEOF_TOPOLOGY: int

def _connect(
    error_of: Callable[[int, str], BaseException],
    flatten: Callable[[Any], tuple[tuple[Any, ...], str | None]],
    plan_of_structure: Callable[[bytes], tuple[Any, ...]],
    plan_of_names: Callable[[tuple[str, ...]], tuple[Any, ...]],
    plan_of_packed: Callable[[bytes], tuple[Any, ...]],
    /,
) -> None: ...

class View:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

_Key: TypeAlias = str | bytes | SupportsIndex | os.PathLike[str] | os.PathLike[bytes] | tuple[_Key, ...]

class Handle:
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    @overload
    def get(self, index: _Key, default: None = None, *, view: bool = False) -> Any: ...
    @overload
    def get(self, index: _Key, default: _Default, *, view: bool = False) -> Any | _Default: ...
    def get_or_load(
        self, index: _Key, loader: Callable[[Any], Any], timeout: float | None = None, *, view: bool = False
    ) -> Any: ...
    def put(self, index: _Key, sample: Any) -> bool: ...
    def intern(self, key: _Key, /) -> int: ...
    def lookup(self, key: _Key, /) -> int | None: ...
    def close(self) -> None: ...
    @property
    def keyed(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def __getitem__(self, index: _Key, /) -> Any: ...
    def __setitem__(self, index: _Key, sample: Any, /) -> None: ...
    def __contains__(self, index: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def _array(self, index: int, number: int, /) -> NDArray[Any]: ...
    def _gather_alike(
        self,
        indices: NDArray[Any],
        parts: list[tuple[int, Any, int, None]],
        layouts: bytes,
        arrays: int,
        structure: int,
        threads: int,
        /,
    ) -> bool: ...
