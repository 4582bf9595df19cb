"""How far a long call has come: told to a function of the caller's, or shown as a bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from ._errors import TopologyError
from ._sampler import topology

# Called with what is done, and all; what it raises stops the call.
Hearer = Callable[[int, int], object]
# True: a bar; None and False: nothing.
Progress = Hearer | bool | None


def _tqdm() -> Any:
    try:
        return import_module("tqdm").tqdm
    except ImportError as error:
        raise ImportError(
            "progress=True shows a bar of the package tqdm, which cannot be imported "
            f"({error}): pip install tqdm, or give a function of (done, total)"
        ) from error


class _Bar:
    """A bar on stderr, from the first time that there is something to show."""

    def __init__(self, description: str, unit: str) -> None:
        self._make = _tqdm()
        self._options = {"desc": description, "unit": unit, "unit_scale": True, "dynamic_ncols": True}
        self._bar: Any = None

    def hear(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, initial=done, **self._options)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self, stays: bool) -> None:
        """`stays`: on the screen, also if it is not at its end."""
        if self._bar is not None:
            self._bar.leave = stays or self._bar.n >= self._bar.total
            self._bar.close()


@contextlib.contextmanager
def heard(
    progress: Progress, description: str, unit: str, shown: bool = True, stays: bool = False
) -> Iterator[Hearer | None]:
    """Whom to tell, for as long as a call takes.

    Args:
        shown: whether this process is the one to show a bar.
        stays: a bar stays on the screen where the call ends early, as where it fails. Else it goes: a restore ends
            early that finds the cache there.

    Raises TypeError for what is no progress; ImportError for a bar without tqdm, also where it would not be shown, so
    that the processes of a job do not go apart.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        if not callable(progress):
            raise TypeError(f"progress is True, False, None or a callable of (done, total), not {progress!r}")
        yield progress
    else:
        bar = _Bar(description, unit)
        failed = True
        try:
            yield bar.hear if shown else None
            failed = False
        finally:
            bar.close(stays or failed)


def is_first_of_node() -> bool:
    """Whether a bar is this process's to show: of the ranks that a launcher's variables tell apart, the first is."""
    try:
        return topology().local_rank == 0
    except TopologyError:
        return True
