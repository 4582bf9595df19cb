"""Prints the matrix: which language's samples and saved samplers which other language read."""

import pytest
from programs import COMMANDS

PAIRS = pytest.StashKey[dict]()


def pytest_configure(config):
    config.stash[PAIRS] = {}


@pytest.fixture(scope="session")
def pairs(pytestconfig):
    """(filler, reader) -> whether the pair did all that it had to."""
    return pytestconfig.stash[PAIRS]


def pytest_terminal_summary(terminalreporter, config):
    pairs = config.stash[PAIRS]
    if not pairs:
        return
    width = max(map(len, COMMANDS)) + 2
    terminalreporter.section("interop: rows fill and save, columns read and resume")
    for row in [
        ["", *COMMANDS],
        *([filler, *("yes" if pairs.get((filler, reader)) else "NO" for reader in COMMANDS)] for filler in COMMANDS),
    ]:
        terminalreporter.write_line("".join(f"{cell:<{width}}" for cell in row).rstrip())
    terminalreporter.write_line(f"{sum(pairs.values())} of {len(COMMANDS) ** 2}")
