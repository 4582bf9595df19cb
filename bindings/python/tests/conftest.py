"""What all tests of the package share: caches with names of their own, and proof that none stays behind."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import ddpcache
import pytest

SHARED_MEMORY = Path("/dev/shm")
_numbers = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    """A cache name that no other test has. At the end of the test, no file of it may be left."""
    chosen = f"pytest.{os.getpid()}.{next(_numbers)}.{secrets.token_hex(4)}"
    yield chosen
    left = [path.name for path in SHARED_MEMORY.glob(f"ddpcache.{os.getuid()}.{chosen}*")]
    for cache in left:
        ddpcache.Cache.unlink(cache.split(".", 2)[2])
    assert not left, f"left in {SHARED_MEMORY}: {left}"


@pytest.fixture
def open_cache(name: str) -> Iterator[Callable[..., ddpcache.Cache]]:
    """Opens caches (by default of 100 entries and 32 MiB), which are checked and closed at the end."""
    opened: list[ddpcache.Cache] = []

    def open_one(suffix: str = "", **options: object) -> ddpcache.Cache:
        arguments = {"length": 100, "capacity": "32MiB", "fingerprint": "test v1", **options}
        opened.append(ddpcache.Cache(name + suffix, **arguments))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for cache in opened:
        if not cache.closed:
            assert cache.check().violations == 0
            cache.close()


@pytest.fixture
def cache(open_cache: Callable[..., ddpcache.Cache]) -> ddpcache.Cache:
    return open_cache()


@pytest.fixture
def open_dict(name: str) -> Iterator[Callable[..., ddpcache.SharedDict]]:
    """Opens dicts (by default of 1000 keys and 32 MiB), which are checked and closed at the end."""
    opened: list[ddpcache.SharedDict] = []

    def open_one(suffix: str = "", **options: object) -> ddpcache.SharedDict:
        arguments = {"length": 1000, "capacity": "32MiB", **options}
        opened.append(ddpcache.SharedDict(name + suffix, **arguments))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for one in opened:
        if not one.cache.closed:
            assert one.cache.check().violations == 0
            one.close()


@pytest.fixture
def shared(open_dict: Callable[..., ddpcache.SharedDict]) -> ddpcache.SharedDict:
    return open_dict()
