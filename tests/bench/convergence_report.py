"""The table and the plot of docs/convergence.md. The plot is SVG, written here: a few hundred marks need no library."""

from __future__ import annotations

import json
from pathlib import Path

MARKERS = (
    "<!-- tests/bench/convergence.py --write: begin -->",
    "<!-- tests/bench/convergence.py --write: end -->",
)

WIDTH, LEFT, ROW, TOP, BOTTOM = 860, 236, 26, 40, 44
PANEL, GAP = 280, 32
INK, FAINT, BAND, DOT, MEAN = "#24292f", "#d0d7de", "#dafbe1", "#0969da", "#cf222e"


def table(results: dict) -> list[str]:
    lines = [
        "| | accuracy, % | difference, points | 95 % interval | | with the mean of all ranks' statistics |",
        "|---|--:|--:|--:|---|--:|",
    ]
    for name, arm in results["arms"].items():
        own, averaged = arm["rank 0"], arm["mean of ranks"]
        cells = [name, f"{own['mean']:.2f} ± {own['deviation']:.2f}", "", "", "", f"{averaged['mean']:.2f}"]
        if name != results["reference"]:
            verdict = f"within {results['points']}" if own["within"] else "not shown"
            if own["high"] < -results["points"]:
                verdict = "**worse**"
            cells[2:5] = f"{own['difference']:+.2f}", f"{own['low']:+.2f} to {own['high']:+.2f}", verdict
            cells[5] += f" ({averaged['difference']:+.2f})"
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def facts(results: dict) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [
        f"- {results['seeds']} seeds, {results['epochs']} epochs of {results['training samples']:,} images, "
        f"{results['ranks']} ranks with batches of {results['batch of a rank']}, "
        f"{results['test samples']:,} test images",
        f"- {results['seconds']} s with {results['processes']} processes; {versions}",
    ]


class Axis:
    """A panel from `low` to `high` per cent."""

    def __init__(self, left: int, low: float, high: float, step: float) -> None:
        self.left, self.low, self.high, self.step = left, low, high, step

    def x(self, value: float) -> float:
        return self.left + PANEL * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def axes(results: dict) -> list[Axis]:
    """All of it, and what is near the reference."""
    everything = [value for arm in results["arms"].values() for value in arm["rank 0"]["accuracies"]]
    reference = results["arms"][results["reference"]]["rank 0"]["mean"]
    low, high = 10 * (min(everything) // 10), 10 * (max(everything) // 10 + 1)
    return [Axis(LEFT, low, high, 10), Axis(LEFT + PANEL + GAP, round(reference) - 2, round(reference) + 2, 1)]


def plot(results: dict) -> str:
    arms = results["arms"]
    bottom = TOP + ROW * len(arms)
    reference = arms[results["reference"]]["rank 0"]["mean"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + BOTTOM}" '
        f'viewBox="0 0 {WIDTH} {bottom + BOTTOM}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{bottom + BOTTOM}" fill="white"/>',
    ]
    for axis, title in zip(axes(results), ("all", "near the global shuffle"), strict=True):
        begin, end = axis.x(reference - results["points"]), axis.x(reference + results["points"])
        parts.append(
            f'<rect x="{begin:.1f}" y="{TOP}" width="{end - begin:.1f}" height="{bottom - TOP}" fill="{BAND}"/>'
        )
        parts.append(f'<text x="{axis.left + PANEL / 2}" y="{TOP - 14}" text-anchor="middle">{title}</text>')
        for tick in axis.ticks():
            x = axis.x(tick)
            parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{FAINT}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
        for row, arm in enumerate(arms.values()):
            y = TOP + ROW * (row + 0.5)
            own = arm["rank 0"]
            for value in filter(axis.holds, own["accuracies"]):
                parts.append(f'<circle cx="{axis.x(value):.1f}" cy="{y}" r="3.5" fill="{DOT}" fill-opacity="0.5"/>')
            if axis.holds(own["mean"]):
                x = axis.x(own["mean"])
                parts.append(
                    f'<line x1="{x:.1f}" y1="{y - 9}" x2="{x:.1f}" y2="{y + 9}" stroke="{MEAN}" stroke-width="2"/>'
                )
    for row, name in enumerate(arms):
        parts.append(f'<text x="{LEFT - 14}" y="{TOP + ROW * (row + 0.5) + 4}" text-anchor="end">{name}</text>')
    caption = f"accuracy on the test images, %; band: the global shuffle's mean ± {results['points']}; bar: mean"
    parts.append(f'<text x="{LEFT + PANEL + GAP / 2}" y="{bottom + 36}" text-anchor="middle">{caption}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write_document(results: dict, folder: Path | None) -> None:
    """Prints the table, and renews document, plot and results in the folder."""
    lines = [*table(results), "", *facts(results)]
    print("\n".join(lines))
    if folder is None:
        return
    document = folder / "convergence.md"
    before, _, rest = document.read_text().partition(MARKERS[0])
    _, _, after = rest.partition(MARKERS[1])
    if not after:
        raise SystemExit(f"{document} lacks the lines that the table goes between: {MARKERS}")
    document.write_text("\n".join([f"{before}{MARKERS[0]}", "", *lines, "", f"{MARKERS[1]}{after}"]))
    (folder / "convergence.svg").write_text(plot(results))
    (folder / "convergence.json").write_text(json.dumps(results, indent=1) + "\n")
