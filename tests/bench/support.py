"""Paired timing for the rows in Python, and the line of JSON that `run` reads; support.hpp does it for those in C++."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

ROUNDS = 21
CLOCK = time.CLOCK_THREAD_CPUTIME_ID if os.environ.get("DDPCACHE_BENCH_CLOCK") == "cpu" else time.CLOCK_MONOTONIC


def seconds(body: Callable[[], object]) -> float:
    begin = time.clock_gettime_ns(CLOCK)
    body()
    return (time.clock_gettime_ns(CLOCK) - begin) / 1e9


def measure(
    row: str, unit: str, sides: dict[str, Callable[[], float]], facts: dict[str, object], rounds: int = ROUNDS
) -> None:
    """Runs all sides in turn, `rounds` times after one that is thrown away, each round beginning with the next side."""
    values: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(-1, rounds):
        first = (number + 1) % len(names)
        for name in names[first:] + names[:first]:
            value = sides[name]()
            if number >= 0:
                values[name].append(value)
    print(json.dumps({"row": row, "unit": unit, "sides": values, "facts": facts}), flush=True)
