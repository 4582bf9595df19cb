"""Measures all ways in one run, and writes what came of it to build/bench/peers.json; `tests/bench/run peers` calls it.

For each kind of images and number of ranks, all sides are started, and then take turns. With as many ranks as there are
cores, or fewer, they are timed; with more, only their memory and their decodes are looked at.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import images
import tables
from images import KINDS, Kind
from sides import VARIANTS, FailedError, Side
from ways import WAYS, workers_of

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "build" / "bench" / "peers.json"
RANKS = (1, 2, 4)
ROUNDS, TURN_SECONDS, EPOCHS_MAX = 5, 0.25, 50
SLOW_SECONDS, SLOW_ROUNDS = 1.0, 3
WARM_EPOCHS = 2
FIRST_SECONDS, EPOCHS_SECONDS, MEMORY_SECONDS = 60, 40, 20


def log(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


class Cell:
    """What is measured of a side with one kind of images and number of ranks."""

    def __init__(self, side: Side, kind: Kind, ranks: int) -> None:
        self.side, self.kind, self.ranks = side, kind, ranks
        self.workers = workers_of(ranks) if side.variant.with_workers else 0
        self.error = self.details = ""
        self.values: dict[str, Any] = {}
        self.rates: list[float] = []
        self.bytes_per_second: list[float] = []
        self.epochs = 1

    def attempt(self, what: Any, *arguments: Any) -> None:
        if self.error:
            return
        try:
            what(*arguments)
        except FailedError as error:
            self.error, self.details = str(error), error.details
            log(f"\n  {self.side.variant.label}: {error}")

    def start(self, command: dict[str, Any]) -> None:
        if not self.kind.side and self.side.variant.way.one_size:
            raise FailedError("all its samples have one shape, so it cannot hold these")
        first = self.side.start(
            FIRST_SECONDS,
            kind=self.kind.name,
            ranks=self.ranks,
            workers=self.workers,
            name=f"peers-{os.getpid()}-{self.side.variant.key}-{int(self.side.variant.with_workers)}",
            **command,
        )
        self.values["first"] = first
        # Ranks may drop what does not divide among them, but no more than a batch each.
        lost = self.kind.count - first["different"]
        if lost > self.ranks * self.kind.batch:
            raise FailedError(f"its first epoch left out {lost} of {self.kind.count} samples")

    def warm(self) -> None:
        """Two more epochs; and what the three took."""
        done = self.side.ask(EPOCHS_SECONDS, do="epochs", count=WARM_EPOCHS)
        seconds = done["seconds"] / WARM_EPOCHS
        self.epochs = max(1, min(EPOCHS_MAX, round(TURN_SECONDS / seconds)))
        self.rounds = SLOW_ROUNDS if seconds > SLOW_SECONDS else ROUNDS
        self.values["memory"] = self.side.ask(MEMORY_SECONDS, do="memory")

    def take_turn(self, number: int) -> None:
        if number < self.rounds:
            done = self.side.ask(EPOCHS_SECONDS, do="epochs", count=self.epochs)
            self.rates.append(done["samples"] / done["seconds"])
            self.bytes_per_second.append(done["bytes"] / done["seconds"])

    def stop(self) -> None:
        self.side.stop()

    def result(self) -> dict[str, Any]:
        variant = self.side.variant
        found = {
            "way": variant.key,
            "kind": self.kind.name,
            "ranks": self.ranks,
            "workers": self.workers,
            "with_workers": variant.with_workers,
            "samples": self.kind.count,
        }
        if self.error:
            return found | {"error": self.error, "details": self.details}
        first = self.values["first"]
        seconds = first["prepare_seconds"] + first["seconds"]
        return found | {
            "first_rate": first["samples"] / seconds,
            "first_seconds": seconds,
            "prepare_seconds": first["prepare_seconds"],
            "different": first["different"],
            "rates": self.rates,
            "bytes_per_second": self.bytes_per_second,
            "epochs_a_turn": self.epochs,
            "memory": self.values["memory"],
            "decodes_per_sample": self.values["memory"]["decodes"] / self.kind.count,
        }


def measure(sides: list[Side], kind: Kind, ranks: int, command: dict[str, Any]) -> list[dict[str, Any]]:
    """All sides side by side: where they are timed, all are started before the first takes its turn."""
    cells = [Cell(side, kind, ranks) for side in sides]
    timed = ranks <= len(os.sched_getaffinity(0))
    begin = time.monotonic()
    log(f"{kind.name}, {ranks} rank{'s' if ranks > 1 else ''} ...", end=" ")
    for cell in cells:
        cell.attempt(cell.start, command)
        cell.attempt(cell.warm)
        if not timed:
            cell.attempt(cell.stop)
    for number in range(ROUNDS if timed else 0):
        first = number * len(cells) // ROUNDS
        for cell in cells[first:] + cells[:first]:
            cell.attempt(cell.take_turn, number)
    for cell in cells if timed else []:
        cell.attempt(cell.stop)
    log(f"{time.monotonic() - begin:.0f} s")
    return [cell.result() for cell in cells]


def write_images(folder: Path, kinds: list[Kind]) -> dict[str, int]:
    """The bytes that all samples of a kind decode to."""
    begin = time.monotonic()
    log("images ...", end=" ")
    sizes = {kind.name: images.write(kind, folder / kind.name) for kind in kinds}
    log(f"{time.monotonic() - begin:.0f} s")
    return sizes


def measure_all(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    absent = json.loads(arguments.absent)
    kinds = [KINDS[name].scaled(arguments.scale) for name in arguments.kinds]
    sizes = write_images(folder / "images", kinds)
    sides = [
        Side(variant, folder / f"{variant.key}-{int(variant.with_workers)}", arguments.patience)
        for variant in VARIANTS
        if variant.key in arguments.ways and WAYS[variant.key].package not in absent
    ]
    cells, skipped, end = [], [], time.monotonic() + 60 * arguments.minutes
    try:
        for side in sides:
            side.launch()
        for side in sides:
            # Else the first to be measured share the cores with those that still import. A failure is its first cell's.
            with contextlib.suppress(FailedError):
                side.await_import()
        for ranks in RANKS:
            for kind in kinds:
                if time.monotonic() > end:
                    skipped.append(f"{kind.name} with {ranks} ranks")
                    continue
                command = {"images": str(folder / "images" / kind.name), "scale": arguments.scale}
                cells += measure(sides, kind, ranks, command)
    finally:
        for side in sides:
            side.close()
    return {"cells": cells, "bytes": sizes, "absent": absent, "skipped": skipped, "ways": arguments.ways}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the samples")
    parser.add_argument("--patience", type=float, default=1.0, help="so many times the time limits, for a busy machine")
    parser.add_argument("--minutes", type=float, default=25, help="begin nothing new after these")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--absent", default="{}", help="packages that could not be installed, and why, as JSON")
    parser.add_argument("--write", action="store_true", help="renew docs/benchmarks.md, README.md and docs/peers.png")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # what was started is ended then too
    arguments.patience *= max(1.0, arguments.scale)
    begin, load = time.monotonic(), os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="ddpcache-peers-"))
    try:
        measured = measure_all(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured["about"] = tables.about(load, time.monotonic() - begin)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(measured, indent=1))
    tables.show(measured)
    if arguments.write:
        tables.write(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
