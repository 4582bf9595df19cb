"""Crash points are in the builds of the tests alone: what is installed has none."""

from __future__ import annotations

import re

import pytest
from project import INSTALL, ROOT

POINTS = sorted(
    {
        point
        for source in ROOT.glob("src/*/*.cpp")
        for point in re.findall(r'DC_FAULT_POINT\("([a-z-]+)"\)', source.read_text())
    }
)
MARKS = [b"DDPCACHE_FAULT", b"DDPCACHE_WAIT_SLICE_NS"]


def test_test_builds_have_every_point():
    built = (ROOT / "build" / "dev" / "libddpcache.so").read_bytes()
    assert len(POINTS) > 20
    # A name that another ends with is stored within it.
    assert not [point for point in POINTS if point.encode() + b"\0" not in built]
    assert all(mark in built for mark in MARKS)


@pytest.mark.parametrize("library", ["libddpcache.so", "libddpcache.a"])
def test_the_installed_library_has_none(library):
    installed = (INSTALL / "lib" / library).read_bytes()
    # Some points are words that a message may hold; those of two words are not.
    assert not [point for point in POINTS if "-" in point and point.encode() + b"\0" in installed]
    assert not [mark for mark in MARKS if mark in installed]
