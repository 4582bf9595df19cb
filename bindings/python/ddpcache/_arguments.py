"""Checks of arguments that several classes share, with the actual values in what they raise."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _ddpcache as core
from . import _swig
from ._errors import RangeError, check
from ._records import CHECKSUMS

KEY_TYPES = (str, bytes, int, tuple, os.PathLike, np.integer)
"""What is one key, and not many."""

_UNITS: dict[str, int] = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", 1)},
}


def parse_bytes(size: int | str) -> int:
    """A size: a number of bytes, or text such as "8GiB", "500MB", "1.5 TiB" (powers of 1024 with an i, else 1000).

    Raises ValueError (RangeError for one beyond 2**63 - 1), TypeError.
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ValueError(f"a size is a number of bytes or text such as '8GiB' or '500MB', not {size!r}")
        return number(f"a size ({size!r})", round(Fraction(match[1]) * unit), 0, 2**63 - 1)
    return number("a size", size, 0, 2**63 - 1)


def number(what: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an integer, not {value!r}")
    whole = int(value.__index__())
    if not low <= whole <= high:
        raise RangeError(f"{what} is from {low} to {high}, not {whole}")
    return whole


def timeout_ns(seconds: float) -> int:
    if not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise ValueError(f"a timeout is a number of seconds from 0 on, not {seconds!r}")
    return round(min(seconds, 9e9) * 1e9)


def cache_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a cache's name is a str, not {name!r}")
    if "\0" in name:
        raise ValueError(f"a cache's name has no NUL character: {name!r}")
    return name


def absolute_directory(directory: str | os.PathLike[str] | None) -> str | None:
    if directory is None:
        return None
    path = os.fspath(directory)
    # Absolute, so that a pickle, or a process that goes elsewhere, means the same. The C library refuses an empty one.
    return os.path.abspath(path) if path else path


def check_fingerprint(fingerprint: Any) -> None:
    if fingerprint is not None and (not isinstance(fingerprint, str) or not fingerprint or "\0" in fingerprint):
        raise ValueError(f"a fingerprint is None or a str that is not empty and has no NUL, not {fingerprint!r}")
    if fingerprint is not None and (size := len(fingerprint.encode())) > _swig.DC_FINGERPRINT_BYTES_MAX:
        raise RangeError(f"the fingerprint has {size} bytes, and may have {_swig.DC_FINGERPRINT_BYTES_MAX}")


def cache_options(
    length: int,
    capacity: int | str | None,
    sample_bytes: int | None,
    sample_bytes_max: int | str | None,
    clients_max: int | None,
    keep: bool,
    partial: bool,
    droppable: bool,
    timeout: float,
    checksums: str = "off",
    keyed: bool = False,
    interleave: bool = False,
    huge_pages: bool = False,
    job: int = 0,
) -> _swig.dc_cache_options:
    options = _swig.dc_cache_options()
    check(_swig.dc_cache_options_init(options, core.SIZEOF_CACHE_OPTIONS))
    options.length = number("length", length, 1, _swig.DC_LENGTH_MAX)
    options.capacity_bytes = 0 if capacity is None else parse_bytes(capacity)
    if capacity is not None and not options.capacity_bytes:
        raise ValueError("capacity is at least 1 byte; None takes half of what is free")
    options.sample_bytes = 0 if sample_bytes is None else parse_bytes(sample_bytes)
    options.sample_bytes_max = 0 if sample_bytes_max is None else parse_bytes(sample_bytes_max)
    options.clients_max = 0 if clients_max is None else number("clients_max", clients_max, 1, _swig.DC_CLIENTS_MAX)
    options.keep = int(bool(keep))
    options.partial = int(bool(partial))
    options.droppable = int(bool(droppable))
    options.keyed = int(bool(keyed))
    options.interleave = int(bool(interleave))
    options.huge_pages = int(bool(huge_pages))
    options.job_id = job
    options.timeout_ns = timeout_ns(timeout)
    if checksums not in CHECKSUMS:
        raise ValueError(f"checksums is 'off', 'fill' or 'read', not {checksums!r}")
    options.checksums = CHECKSUMS.index(checksums)
    return options


def indices_of(indices: ArrayLike) -> NDArray[np.int64]:
    """A batch of indices, which may be beyond the cache."""
    found = np.asarray(indices)
    if found.ndim == 1 and found.dtype.kind in "Of":
        # What NumPy makes of integers that it has no type for.
        for index in np.asarray(indices, dtype=object):
            if isinstance(index, int) and not -(2**63) <= index < 2**63:
                raise RangeError(f"index {index} is beyond every cache")
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"indices are a sequence of integers, not of {found.dtype} and {found.ndim} dimensions")
    if found.dtype == np.uint64 and found.size and int(found.max()) > _swig.DC_LENGTH_MAX:
        raise RangeError(f"index {found.max()} is beyond every cache")
    return np.ascontiguousarray(found, dtype=np.int64)


def keys_of(keys: Any) -> Sequence[Any]:
    """A batch of keys."""
    if isinstance(keys, KEY_TYPES):
        raise TypeError(f"a batch is a list of keys, not the key {keys!r}")
    return keys if isinstance(keys, list) else list(keys)
