"""What the package shows, where it has its compiled module."""

from __future__ import annotations

from . import _ddpcache, _swig

if _swig.dc_abi_version() != _swig.DC_ABI_VERSION:
    raise ImportError(
        f"ddpcache was built for ABI version {_swig.DC_ABI_VERSION}, but libddpcache has {_swig.dc_abi_version()}: "
        "reinstall it"
    )

from . import _samples
from ._arguments import parse_bytes
from ._cache import Cache
from ._errors import (
    ArgumentError,
    BufferSizeError,
    BusyError,
    ClientsError,
    DamagedError,
    EmptyError,
    Error,
    FillsError,
    FingerprintError,
    FormatError,
    FullError,
    InternalError,
    InvalidNameError,
    LoaderError,
    LoadRecursionError,
    LockedError,
    LostError,
    MismatchError,
    MissError,
    NoMemoryError,
    NoSpaceError,
    NotFoundError,
    NotOwnedError,
    PresentError,
    RangeError,
    RecordError,
    SamplerStateError,
    StateError,
    SystemCallError,
    ThreadError,
    TooLargeError,
    TopologyError,
    UnregisteredError,
    UnsupportedError,
    error_of,
)
from ._job import job_id
from ._records import CacheEstimate, CacheInfo, CacheReport, CacheStats, SavedInfo
from ._sampler import Sampler, Topology, topology
from ._shared_dict import SharedDict

_ddpcache._connect(
    error_of, _samples.flatten, _samples.plan_of_structure, _samples.plan_of_names, _samples.plan_of_structure
)
del error_of

__all__ = [
    "__version__",
    "ArgumentError",
    "BufferSizeError",
    "BusyError",
    "Cache",
    "CacheEstimate",
    "CacheInfo",
    "CacheReport",
    "CacheStats",
    "ClientsError",
    "DamagedError",
    "EmptyError",
    "Error",
    "FillsError",
    "FingerprintError",
    "FormatError",
    "FullError",
    "InternalError",
    "InvalidNameError",
    "LoadRecursionError",
    "LoaderError",
    "LockedError",
    "LostError",
    "MismatchError",
    "MissError",
    "NoMemoryError",
    "NoSpaceError",
    "NotFoundError",
    "NotOwnedError",
    "PresentError",
    "RangeError",
    "RecordError",
    "Sampler",
    "SamplerStateError",
    "SavedInfo",
    "SharedDict",
    "StateError",
    "SystemCallError",
    "ThreadError",
    "TooLargeError",
    "Topology",
    "TopologyError",
    "UnregisteredError",
    "UnsupportedError",
    "job_id",
    "parse_bytes",
    "topology",
]

__version__: str = _swig.dc_version()
