"""From the measured values to tables and text in docs/benchmarks.md and README.md; the chart is chart.py's."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chart
from images import KINDS, Kind
from ways import COPIED_AHEAD, WAYS

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
from report import machine, short  # noqa: E402

DOCUMENT, README, CHART = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "docs" / "peers.png"
MARKERS = ("<!-- tests/bench/run peers --write: begin -->", "<!-- tests/bench/run peers --write: end -->")
README_KIND, README_RANKS = "150 KB", (2, 4)
# Below this a difference is none: of two runs of the same side.
SAME = 0.03

Cell = dict[str, Any]


def about(load: float, seconds: float) -> dict[str, str]:
    packages = dict.fromkeys(["ddpcache", "torch", "numpy", "pillow", *(way.package for way in WAYS.values())])
    found = [f"{name} {version}" for name in packages if (version := version_of(name))]
    return {
        **machine(),
        "versions": f"Python {platform.python_version()}, {', '.join(found)}",
        "load average": f"{load:.1f} before, {os.getloadavg()[0]:.1f} after",
        "measured": f"{time.strftime('%Y-%m-%d', time.gmtime())}, in {seconds / 60:.0f} minutes",
        "command": "tests/bench/run peers --write",
    }


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def rate(cell: Cell) -> float:
    return statistics.median(cell["rates"]) if cell.get("rates") else 0.0


def total_memory(cell: Cell) -> int:
    return sum(cell["memory"][part] for part in ("processes", "shared_memory", "files"))


class Measured:
    """The cells, as the tables ask for them."""

    def __init__(self, measured: dict[str, Any]) -> None:
        self.cells: list[Cell] = measured["cells"]
        self.about, self.bytes = measured["about"], measured["bytes"]
        self.absent, self.skipped = measured["absent"], measured["skipped"]
        self.kinds = [name for name in KINDS if name in self.bytes]
        self.ranks = sorted({cell["ranks"] for cell in self.cells})
        self.timed = [
            ranks for ranks in self.ranks if any(cell["ranks"] == ranks and rate(cell) for cell in self.cells)
        ]
        self.ways = [key for key in WAYS if any(cell["way"] == key for cell in self.cells)]

    def count(self, kind: str) -> int:
        return next(cell["samples"] for cell in self.cells if cell["kind"] == kind)

    def cell(self, key: str, with_workers: bool, kind: str, ranks: int) -> Cell | None:
        wanted = (key, with_workers, kind, ranks)
        return next(
            (one for one in self.cells if (one["way"], one["with_workers"], one["kind"], one["ranks"]) == wanted), None
        )

    def best(self, key: str, kind: str, ranks: int, with_workers: bool | None = None) -> Cell | None:
        """The better of a way's two numbers of workers, unless one is asked for: where that is timed, or else was with
        the most ranks."""
        timed = ranks if ranks in self.timed else max(self.timed, default=0)
        asked_for = (True, False) if with_workers is None else (with_workers,)
        pairs = [(self.cell(key, some, kind, timed), self.cell(key, some, kind, ranks)) for some in asked_for]
        good = [(rate(one) if one else 0, asked) for one, asked in pairs if asked and "error" not in asked]
        return max(good, key=lambda pair: pair[0])[1] if good else None

    def ours(self, kind: str, ranks: int, with_workers: bool | None = None) -> Cell | None:
        """The better of ddpcache's ways, with workers or without if that is asked for."""
        timed = ranks if ranks in self.timed else max(self.timed, default=0)
        own = [key for key in self.ways if WAYS[key].is_ours]
        found = [(self.best(key, kind, timed, with_workers), self.best(key, kind, ranks, with_workers)) for key in own]
        good = [(rate(one) if one else 0, asked) for one, asked in found if asked]
        return max(good, key=lambda pair: pair[0])[1] if good else None

    def peers(self) -> list[str]:
        return [key for key in self.ways if not WAYS[key].is_ours]


def ratio(ours: Cell, peer: Cell) -> float:
    """Of what they read in a second in later epochs: the median over the rounds, in which they took turns."""
    return statistics.median(a / b for a, b in zip(ours["rates"], peer["rates"], strict=False))


def times(value: float) -> str:
    return f"{short(value)}×"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f}"


def memory_text(cell: Cell) -> str:
    files = cell["memory"]["files"]
    return megabytes(total_memory(cell)) + (f" ({megabytes(files)} files)" if files > 1e6 else "")


def grid(heads: list[str], rows: list[list[str]], words: int = 1) -> list[str]:
    marks = ["---"] * words + ["--:"] * (len(heads) - words)
    return ["| " + " | ".join(heads) + " |", "|" + "|".join(marks) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def name_of(cell: Cell) -> str:
    return f"**{WAYS[cell['way']].name}**" if WAYS[cell["way"]].is_ours else WAYS[cell["way"]].name


def variants(measured: Measured, kind: str) -> list[list[Cell | None]]:
    """Of each way with some number of workers, its cells by ranks."""
    lines = [
        [measured.cell(key, some, kind, ranks) for ranks in measured.ranks]
        for key in measured.ways
        for some in (True, False)
    ]
    return [line for line in lines if any(line)]


def speeds(measured: Measured, kind: str) -> list[str]:
    heads = ["", "workers"]
    for ranks in measured.timed:
        heads += [f"{ranks} rank{'s' if ranks > 1 else ''}: first epoch", "later", "GB/s", "ddpcache is"]
    rows = []
    for line in variants(measured, kind):
        cells = dict(zip(measured.ranks, line, strict=True))
        some = next(cell for cell in line if cell)
        row = [name_of(some), ", ".join(dict.fromkeys(f"{cells[r]['workers']}" for r in measured.timed if cells[r]))]
        for ranks in measured.timed:
            row += speed_cells(measured, cells[ranks], kind, ranks)
        rows.append(row)
    return grid(heads, rows)


def speed_cells(measured: Measured, cell: Cell | None, kind: str, ranks: int) -> list[str]:
    if cell is None or "error" in cell:
        return ["–", "–", "–", ""]
    ours = measured.ours(kind, ranks)
    compared = times(ratio(ours, cell)) if ours and ours is not cell else ""
    gigabytes = statistics.median(cell["bytes_per_second"]) / 1e9
    return [f"{cell['first_rate']:,.0f}", f"{rate(cell):,.0f}", f"{gigabytes:.2f}", compared]


def memories(measured: Measured, kind: str) -> list[str]:
    heads = ["", "workers"]
    for ranks in measured.ranks:
        heads += [f"{ranks} rank{'s' if ranks > 1 else ''}: MB", "decodes"]
    rows = []
    for line in variants(measured, kind):
        some = next(cell for cell in line if cell)
        row = [name_of(some), ", ".join(dict.fromkeys(f"{cell['workers']}" for cell in line if cell))]
        for cell in line:
            good = cell and "error" not in cell
            row += [memory_text(cell), f"{cell['decodes_per_sample']:.2f}"] if good else ["–", "–"]
        rows.append(row)
    return grid(heads, rows)


@dataclass(frozen=True)
class Comparison:
    """ddpcache with one peer. `lead` is above 1 where the peer is ahead."""

    what: str
    kind: str
    ranks: int
    key: str
    lead: float
    words: str

    @property
    def lost(self) -> bool:
        return self.lead > 1 + SAME


def comparisons(measured: Measured) -> list[Comparison]:
    found = []
    for kind, ranks, key in itertools.product(measured.kinds, measured.ranks, measured.peers()):
        ours, peer = measured.ours(kind, ranks), measured.best(key, kind, ranks)
        if ours is None or peer is None:
            continue
        if ranks in measured.timed:
            words = f"{rate(peer):,.0f} samples/s against {rate(ours):,.0f}"
            found.append(Comparison("later epochs", kind, ranks, key, 1 / ratio(ours, peer), words))
        alike = measured.ours(kind, ranks, peer["with_workers"])
        if WAYS[key].keeps and alike is not None:
            sizes = total_memory(alike), total_memory(peer)
            words = f"{megabytes(sizes[1])} MB against {megabytes(sizes[0])}"
            found.append(Comparison("memory", kind, ranks, key, sizes[0] / sizes[1], words))
        decodes = ours["decodes_per_sample"], peer["decodes_per_sample"]
        words = f"{decodes[1]:.2f} decodes a sample against {decodes[0]:.2f}"
        found.append(Comparison("decodes", kind, ranks, key, decodes[0] / decodes[1], words))
    return found


def verdict(measured: Measured) -> list[str]:
    """How many comparisons are lost, and each of these with its reason."""
    found = comparisons(measured)
    counts = []
    for what in ("later epochs", "memory", "decodes"):
        some = [one for one in found if one.what == what]
        counts.append(f"{what}: {sum(one.lost for one in some)} of {len(some)}")
    lines = [f"Rows in which a peer is ahead by more than {SAME:.0%}: {'; '.join(counts)}.", ""]
    for one in found:
        if one.lost:
            way, ranks = WAYS[one.key], f"{one.ranks} rank{'s' if one.ranks > 1 else ''}"
            why = way.why
            if one.what == "memory":
                why = COPIED_AHEAD if KINDS[one.kind].side else way.why_memory
            lines.append(f"- {one.what}, {one.kind}, {ranks}: {way.name}, {one.words}{f': {why}' if why else ''}")
    return lines


def not_measured(measured: Measured) -> list[str]:
    lines = [
        f"- {WAYS[key].name}: {WAYS[key].package} cannot be installed here: {measured.absent[WAYS[key].package]}"
        for key in WAYS
        if WAYS[key].package in measured.absent
    ]
    errors: dict[tuple[str, str], list[str]] = {}
    for cell in measured.cells:
        if "error" in cell:
            place = f"{cell['kind']}, {cell['ranks']} rank{'s' if cell['ranks'] > 1 else ''}, {cell['workers']} workers"
            errors.setdefault((WAYS[cell["way"]].name, cell["error"]), []).append(place)
    lines += [f"- {name}: {error} ({'; '.join(places)})" for (name, error), places in errors.items()]
    return lines + [f"- {what}: out of time" for what in measured.skipped]


def describe(measured: Measured) -> list[str]:
    rows = []
    for way in WAYS.values():
        version = version_of(way.package)
        rows.append([f"**{way.name}**" if way.is_ours else way.name, f"{way.package} {version}", way.form, way.first])
    return grid(["", "version", "how it is used", "its first epoch"], rows, words=4)


def size_text(kind: Kind) -> str:
    return (
        f"{kind.side} × {kind.side}"
        if kind.side
        else f"{kind.sides[0]} to {kind.sides[1]} pixels each way, read as crops of {kind.crop} × {kind.crop}"
    )


def document(measured: Measured) -> list[str]:
    lines = [*picture("peers.png"), "", *describe(measured), "", *verdict(measured), ""]
    for name in measured.kinds:
        kind, count = KINDS[name], measured.count(name)
        decoded = f"{megabytes(measured.bytes[name])} MB decoded, batches of {kind.batch}"
        lines += [
            f"#### {name}: {count:,} images, {size_text(kind)}, {decoded}",
            "",
            *speeds(measured, name),
            "",
            *memories(measured, name),
            "",
        ]
    if missing := not_measured(measured):
        lines += ["Not measured:", "", *missing, ""]
    return lines + [f"- {name}: {text}" for name, text in measured.about.items()]


def summary(measured: Measured) -> list[str]:
    """The table of the README: one kind, and each way with the better of its two numbers of workers."""
    timed, many = README_RANKS
    heads = ["", "first epoch, samples/s", "later epochs", "ddpcache is", f"MB with {many} ranks", "decodes a sample"]
    rows = []
    for key in measured.ways:
        cell, large = measured.best(key, README_KIND, timed), measured.best(key, README_KIND, many)
        if cell is None or not rate(cell):
            rows.append([WAYS[key].name, *["–"] * 5])
            continue
        first, later, _, compared = speed_cells(measured, cell, README_KIND, timed)
        sizes = [memory_text(large), f"{large['decodes_per_sample']:.2f}"] if large else ["–", "–"]
        rows.append([name_of(cell), first, later, compared, *sizes])
    return [*grid(heads, rows), "", *picture("docs/peers.png")]


def picture(path: str) -> list[str]:
    return [f"![What later epochs deliver with 2 ranks, and the memory of 4]({path})"]


def replace(file: Path, lines: list[str]) -> None:
    before, _, rest = file.read_text().partition(MARKERS[0])
    _, _, after = rest.partition(MARKERS[1])
    if not after:
        sys.exit(f"{file} lacks the lines that the table goes between: {MARKERS}")
    file.write_text("\n".join([f"{before}{MARKERS[0]}", "", *lines, "", f"{MARKERS[1]}{after}"]))


def show(measured: dict[str, Any]) -> None:
    print("\n".join(document(Measured(measured))))


def write(measured: dict[str, Any]) -> None:
    found = Measured(measured)
    replace(DOCUMENT, document(found))
    replace(README, summary(found))
    chart.draw(found, CHART)
