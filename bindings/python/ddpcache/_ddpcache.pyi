"""The C half of the package: what SWIG makes of the headers (typed in raw), and bindings/swig by hand."""

from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

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

SIZEOF_CACHE_OPTIONS: int
SIZEOF_CACHE_INFO: int
SIZEOF_CACHE_STATS: int
SIZEOF_CACHE_REPORT: int
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

class Handle:
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    @overload
    def get(self, index: int, default: None = None, *, view: bool = False) -> Any: ...
    @overload
    def get(self, index: int, default: _Default, *, view: bool = False) -> Any | _Default: ...
    def get_or_load(
        self, index: int, loader: Callable[[int], Any], timeout: float | None = None, *, view: bool = False
    ) -> Any: ...
    def put(self, index: int, sample: Any) -> bool: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __setitem__(self, index: int, sample: Any, /) -> None: ...
    def __contains__(self, index: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def _array(self, index: int, number: int, /) -> NDArray[Any]: ...
