"""The chart of README.md: what later epochs deliver, and what memory the ranks of a machine take together."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from ways import WAYS  # noqa: E402

if TYPE_CHECKING:
    from tables import Measured

TIMED, MANY, MEMORY_KIND = 2, 4, "150 KB"
COLOURS = ("#9ecae1", "#4292c6", "#08519c", "#f28e2b")
PARTS = {"processes": "#bab0ac", "shared_memory": "#4e79a7", "files": "#edc948"}
PART_NAMES = {"processes": "processes", "shared_memory": "shared memory", "files": "page cache of its files"}


def draw(measured: Measured, file: Path) -> None:
    ways = measured.ways[::-1]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 0.42 * len(ways) + 1.4), sharey=True, layout="constrained")
    _speeds(left, measured, ways)
    _memory(right, measured, ways)
    left.set_ylim(-0.6, len(ways) - 0.4)
    left.set_yticks(range(len(ways)), [WAYS[key].name for key in ways])
    for label, key in zip(left.get_yticklabels(), ways, strict=True):
        label.set_fontweight("bold" if WAYS[key].is_ours else "normal")
    for axes in (left, right):
        axes.grid(axis="x", color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _speeds(axes: plt.Axes, measured: Measured, ways: list[str]) -> None:
    height = 0.8 / len(measured.kinds)
    for number, kind in enumerate(measured.kinds):
        places, values = [], []
        for place, key in enumerate(ways):
            cell = measured.best(key, kind, TIMED)
            if cell and cell.get("rates"):
                places.append(place + 0.4 - (number + 0.5) * height)
                values.append(statistics.median(cell["bytes_per_second"]) / 1e9)
        axes.barh(places, values, height, color=COLOURS[number], label=kind)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(f"later epochs with {TIMED} ranks, GB/s of images (logarithmic)")
    _legend(axes)


def _memory(axes: plt.Axes, measured: Measured, ways: list[str]) -> None:
    cells = [measured.best(key, MEMORY_KIND, MANY) for key in ways]
    bottoms = [0.0] * len(ways)
    for part, colour in PARTS.items():
        sizes = [cell["memory"][part] / 1e6 if cell else 0.0 for cell in cells]
        axes.barh(range(len(ways)), sizes, 0.6, left=bottoms, color=colour, label=PART_NAMES[part])
        bottoms = [one + other for one, other in zip(bottoms, sizes, strict=True)]
    for place, (cell, end) in enumerate(zip(cells, bottoms, strict=True)):
        text = f" {cell['decodes_per_sample']:.2f} decodes a sample" if cell else " not measured"
        axes.text(end, place, text, va="center", fontsize="small")
    axes.set_xlim(0, 1.45 * max(bottoms, default=1.0))
    axes.set_xlabel(f"memory with {MANY} ranks after 3 epochs of {MEMORY_KIND}, MB")
    _legend(axes)


def _legend(axes: plt.Axes) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize="small")
