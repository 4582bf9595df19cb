"""A cache to a file and back."""

from __future__ import annotations

import os
from typing import Literal, Self

from . import _ddpcache as core
from . import _swig
from ._arguments import absolute_directory, cache_name, cache_options, check_fingerprint
from ._errors import check
from ._job import job_id
from ._progress import Progress, heard, is_first_of_node
from ._records import SavedInfo, record, sized


class Saving(core.Handle):
    """What Cache has for files."""

    _name: str
    _directory: str | None

    def _opened(self) -> None:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], progress: Progress = None) -> int:
        """Writes every sample in the cache, and a keyed cache's keys, to one file; how many samples.

        The file gets its name, in place of what had it before, when it is complete and on disk; a call that fails or is
        interrupted leaves what was there. Others may use the cache meanwhile. A sample that comes or goes during the
        call may be in the file or not, one that is damaged is not.

        Args:
            path: on any file system; a symbolic link is followed.
            progress: called as ``progress(done_bytes, total_bytes)`` at the start, then about ten times a second, and
                at the end; what it raises stops the call and is raised. The total is an estimate until the end. True:
                a bar on stderr, by the package tqdm.

        Raises NoSpaceError with what is needed and what is free; ValueError for a path that is no file's; ImportError
        for a bar without tqdm; SystemCallError (an OSError); KeyboardInterrupt. Runs without the GIL.
        """
        error = _swig.dc_error()
        with heard(progress, f"save {self._name}", "B") as hear:
            status, saved = _swig.dc_cache_save(self, path, hear, error)
            check(status, error)
        return int(saved)

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        name: str,
        *,
        fingerprint: str | None = None,
        capacity: int | str | None = None,
        sample_bytes: int | None = None,
        sample_bytes_max: int | str | None = None,
        keep: bool = False,
        directory: str | os.PathLike[str] | None = None,
        partial: bool = False,
        droppable: bool | None = None,
        checksums: Literal["off", "fill", "read"] = "off",
        interleave: bool = False,
        huge_pages: bool = False,
        clients_max: int | None = None,
        timeout: float = 10.0,
        progress: Progress = None,
    ) -> Self:
        """Opens a cache with the samples of a saved file; any number of processes may make the same call at once.

        Exactly one of them reads the file, the others wait for it and attach. A cache of this name that is in use and
        has the same identity is attached to, whatever it holds (``info.created`` is False then); one that nobody uses
        is used where it has as many samples as the file, else replaced. The cache gets its name when all of the file
        has been read and compared with its checksums: there is never half a cache.

        Args:
            path: the file.
            name: of the cache, need not be what it was.
            fingerprint: what the data must be; None: whatever the file says. The cache has the file's.
            timeout: seconds for which another process that is restoring the cache may make no progress.
            progress: as of `save`. A bar is shown by the first rank of a node only, where a launcher's variables say
                which that is, and tells how far whichever process reads has come.

        The other arguments are as of Cache; where they are None the cache has what the saved one had.

        Raises FingerprintError with both; DamagedError with what is wrong and where; MismatchError where a cache in use
        is another; NoSpaceError, TooLargeError where the cache could not hold the samples; LockedError; NotFoundError
        for no such file; FormatError for a file of another version; KeyboardInterrupt; and as Cache does. Nothing is
        left then. Runs without the GIL.
        """
        cache = cls.__new__(cls)
        cache._name, cache._directory = cache_name(name), absolute_directory(directory)
        check_fingerprint(fingerprint)
        saved = cls.saved(path)
        options = cache_options(
            saved.length,
            capacity,
            sample_bytes,
            sample_bytes_max,
            clients_max,
            keep,
            partial,
            saved.droppable if droppable is None else droppable,
            timeout,
            checksums,
            saved.keyed,
            interleave,
            huge_pages,
            job_id(),
        )
        error = _swig.dc_error()
        with heard(progress, f"restore {name}", "B", is_first_of_node()) as hear:
            status = _swig.dc_cache_restore(path, name, cache._directory, fingerprint, options, hear, cache, error)
            check(status, error)
        cache._opened()
        return cache

    @staticmethod
    def saved(path: str | os.PathLike[str]) -> SavedInfo:
        """What is in a saved file, by its header alone. Raises NotFoundError, DamagedError, FormatError, ValueError."""
        info = sized(_swig.dc_saved_info, core.SIZEOF_SAVED_INFO)
        error = _swig.dc_error()
        check(_swig.dc_saved_info_get(path, info, error), error)
        return record(SavedInfo, info)
