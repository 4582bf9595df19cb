"""Exceptions: one class per status of the C library, each also the built-in exception that Python users expect."""

from __future__ import annotations

from . import _swig


class Error(Exception):
    """Any failure that ddpcache reports. `status` is the C library's number for it (``DC_ERROR_...`` in base.h)."""

    status: int = _swig.DC_ERROR_INTERNAL

    def __str__(self) -> str:
        # KeyError would show its argument's repr, and OSError a tuple.
        return str(self.args[0]) if self.args else ""


class MissError(Error, KeyError):
    """The index is not in the cache."""

    status = _swig.DC_MISS


class BusyError(Error, TimeoutError):
    """Another client is filling the index."""

    status = _swig.DC_BUSY


class FullError(Error, MemoryError):
    """The cache has no room for the sample."""

    status = _swig.DC_FULL


class PresentError(Error, ValueError):
    """The index has its sample already; samples never change."""

    status = _swig.DC_PRESENT


class ArgumentError(Error, ValueError):
    """A value that is not allowed, or contradicts another."""

    status = _swig.DC_ERROR_ARGUMENT


class RangeError(Error, IndexError, ValueError):
    """An index, position or size outside its range."""

    status = _swig.DC_ERROR_RANGE


class NoMemoryError(Error, MemoryError):
    """The process is out of memory."""

    status = _swig.DC_ERROR_NO_MEMORY


class SystemCallError(Error, OSError):
    """A system call failed; the text names it and its reason."""

    status = _swig.DC_ERROR_SYSTEM


class InternalError(Error, RuntimeError):
    """A defect of ddpcache itself: please report it."""

    status = _swig.DC_ERROR_INTERNAL


class UnsupportedError(Error, RuntimeError):
    """This platform, file system or option cannot do it."""

    status = _swig.DC_ERROR_UNSUPPORTED


class StateError(Error, RuntimeError):
    """The object is not in a state that allows the call, such as a closed cache."""

    status = _swig.DC_ERROR_STATE


class InvalidNameError(Error, ValueError):
    """The cache's name is not of the allowed form."""

    status = _swig.DC_ERROR_NAME


class NotFoundError(Error, FileNotFoundError):
    """No cache has this name."""

    status = _swig.DC_ERROR_NOT_FOUND


class MismatchError(Error, ValueError):
    """The cache in use has other options, or is another one than was pickled."""

    status = _swig.DC_ERROR_MISMATCH


class FingerprintError(Error, ValueError):
    """The cache in use, or its data, belongs to another data set, version or transform."""

    status = _swig.DC_ERROR_FINGERPRINT


class FormatError(Error, RuntimeError):
    """The cache, or a sample's structure, has another format version."""

    status = _swig.DC_ERROR_FORMAT


class DamagedError(Error, RuntimeError):
    """The file is not a sound cache."""

    status = _swig.DC_ERROR_DAMAGED


class NotOwnedError(Error, PermissionError):
    """The file is not the user's own, or is no regular file."""

    status = _swig.DC_ERROR_PERMISSION


class NoSpaceError(Error, MemoryError):
    """Too little memory or file-system space; the text says what is there and what is needed."""

    status = _swig.DC_ERROR_NO_SPACE


class ClientsError(Error, RuntimeError):
    """The cache's client table is full."""

    status = _swig.DC_ERROR_CLIENTS


class LockedError(Error, TimeoutError):
    """The user's lock file was held until the deadline."""

    status = _swig.DC_ERROR_LOCKED


class TooLargeError(Error, ValueError):
    """A sample larger than the cache's `sample_bytes_max`."""

    status = _swig.DC_ERROR_TOO_LARGE


class LoaderError(Error, RuntimeError):
    """A loader failed without an exception of its own."""

    status = _swig.DC_ERROR_LOADER


class LoadRecursionError(Error, RecursionError):
    """A loader asked for the index that it is loading."""

    status = _swig.DC_ERROR_RECURSION


class LostError(Error, RuntimeError):
    """The fill was taken over by another client."""

    status = _swig.DC_ERROR_LOST


class FillsError(Error, RuntimeError):
    """The process has as many open fills as it may have."""

    status = _swig.DC_ERROR_FILLS


class RecordError(Error, ValueError):
    """The sample's arrays are not what the call needs."""

    status = _swig.DC_ERROR_RECORD


class BufferSizeError(Error, ValueError):
    """A buffer is too small."""

    status = _swig.DC_ERROR_BUFFER


class ThreadError(Error, RuntimeError):
    """A fill was used on another thread than the one that began it."""

    status = _swig.DC_ERROR_THREAD


class UnregisteredError(Error, RuntimeError):
    """This process closed the cache's descriptor: it can read, not fill."""

    status = _swig.DC_ERROR_UNREGISTERED


class TopologyError(Error, ValueError):
    """The launcher's variables contradict each other or leave the layout unknown."""

    status = _swig.DC_ERROR_TOPOLOGY


class EmptyError(Error, ValueError):
    """Dropping the tail leaves no sample for any rank."""

    status = _swig.DC_ERROR_EMPTY


class SamplerStateError(Error, ValueError):
    """A saved sampler state that is damaged, or of another version or sampler."""

    status = _swig.DC_ERROR_SAMPLER_STATE


_BY_STATUS = {cls.status: cls for cls in Error.__subclasses__()}


def error_of(status: int, message: str) -> Error:
    """The exception for a status."""
    cls = _BY_STATUS.get(status)
    if cls is not None:
        return cls(message)
    error = Error(message)
    error.status = status
    return error


def check(status: int, error: _swig.dc_error | None = None) -> int:
    """Passes an expected outcome (a status from 0 on), and raises any other."""
    if status >= 0:
        return status
    message = error.message if error is not None and error.status == status else ""
    raise error_of(status, message or _swig.dc_strerror(status))
