"""rows.toml against the tests that there are: a test that is renamed or switched off cannot drop out unnoticed."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from project import ROOT, run

ROWS = tomllib.loads(Path(__file__).with_name("rows.toml").read_text())["row"]

# Prints each test that pytest finds, and whether it is switched off.
COLLECT = """
import sys, pytest
class Printer:
    def pytest_collection_finish(self, session):
        for item in session.items:
            off = any(item.get_closest_marker(mark) for mark in ("skip", "xfail"))
            print("TEST", "off" if off else "on", item.nodeid)
sys.exit(pytest.main(["--collect-only", "-qq", *sys.argv[1:]], plugins=[Printer()]))
"""


def expanded(name: str) -> list[str]:
    parts = re.split(r"\{(.*?)\}", name)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def names(row: dict) -> list[str]:
    return [name for pattern in row["tests"] for name in expanded(pattern)]


@pytest.fixture(scope="module")
def switched_off() -> dict[str, bool]:
    """Every test that a row names, where it is there at all: whether it is switched off."""
    listed = run("ctest", "--test-dir", ROOT / "build" / "dev", "--show-only=json-v1")
    tests = json.loads(listed)["tests"]
    found = {
        # CMake 3.25 leaves the parameter in the name.
        test["name"].partition("  # ")[0]: any(
            entry["name"] == "DISABLED" and entry["value"] for entry in test.get("properties", [])
        )
        for test in tests
    }
    files = {name.partition("::")[0] for row in ROWS for name in names(row) if "::" in name}
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, *sorted(files)], cwd=ROOT, capture_output=True, text=True
    )
    for off, name in re.findall(r"^TEST (on|off) (.*)$", collected.stdout, re.MULTILINE):
        found[name] = off == "off"
    return found


def test_each_row_is_there_once_in_order():
    assert [row["number"] for row in ROWS] == list(range(1, 34))
    for row in ROWS:
        assert row["fault"] and row["promise"] and row["tests"], row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row {row['number']}")
def test_each_test_of_a_row_is_there_and_runs(row, switched_off):
    missing = [name for name in names(row) if name not in switched_off]
    assert not missing, f"no such tests: {missing}"
    off = [name for name in names(row) if switched_off[name]]
    assert not off, f"switched off: {off}"
