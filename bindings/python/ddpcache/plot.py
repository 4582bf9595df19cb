"""Pictures of what a cache does. They need matplotlib, which is imported when the first one is drawn.

    recorder = plot.Recorder(dataset.cache)
    for epoch in range(epochs):
        ...
        recorder.end_epoch()
    plot.hit_rate(recorder, path="hit-rate.png")

Each function draws into the Axes that it is given as `ax`, or into a new figure, and returns the Axes. With `path` it
also writes the figure to a file, a PNG or whatever its ending says; a new figure is then not pyplot's, which keeps its
own until they are closed.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ._arguments import number, parse_bytes
from ._cache import Cache
from ._records import CacheStats
from ._summary import readable_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOR, _PALE, _OTHER = "#1f6fb4", "#dbe5ee", "#d9813a"
_PAGE = 1 << 20
_DPI = 144


@dataclass(frozen=True)
class Epoch:
    """What happened in one epoch, in all processes that use the cache."""

    seconds: float
    hits: int
    misses: int
    decoded: int  #: samples that were decoded, whether there was room for them or not
    samples: int  #: that were read: as told to `end_epoch`, or hits and misses
    bytes: float  #: of these, by the mean size of what was stored

    @property
    def hit_rate(self) -> float:
        """Hits of all look-ups, 0.0 to 1.0; NaN where there was none."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else float("nan")


class Recorder:
    """Takes a cache's counts at the ends of epochs. One process of a node does so for all: the counts are of all.

    Its first epoch begins when it is made. ``epochs`` is the list of what it has recorded.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.epochs: list[Epoch] = []
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Leaves out what has happened since the last epoch ended, as a validation. Not needed otherwise."""
        self._before, self._clock = self._cache.stats(), time.perf_counter()

    def end_epoch(self, samples: int | None = None) -> Epoch:
        """Records what has happened since the last epoch ended, and begins another one. Never blocks.

        Args:
            samples: how many the node has read in it. None: all look-ups in the cache, which are a few more where
                loaders read ahead for the next epoch, and where CachedLoader looks for a sample before it decodes it.
        """
        before, seconds = self._before, time.perf_counter() - self._clock
        self.begin_epoch()
        now = self._before
        hits, misses = now.hits - before.hits, now.misses - before.misses
        read = hits + misses if samples is None else number("samples", samples, 0, 1 << 62)
        decoded = now.fills + now.bypasses - before.fills - before.bypasses
        self.epochs.append(Epoch(seconds, hits, misses, decoded, read, read * _mean_bytes(now)))
        return self.epochs[-1]


Runs = Recorder | Sequence[Epoch] | Mapping[str, Recorder | Sequence[Epoch]]


def _mean_bytes(stats: CacheStats) -> float:
    return stats.bytes_filled / max(1, stats.fills)


def hit_rate(
    runs: Runs, ax: Axes | None = None, *, ranks: int | None = None, path: str | os.PathLike[str] | None = None
) -> Axes:
    """The hit rate of each epoch, in percent.

    Args:
        runs: a Recorder, or its epochs, or several by name.
        ranks: also draws what a cache in each of so many ranks would hit in the mean, under a sampler that shuffles
            over all of them: 1 - (1 - 1/ranks)^(epoch - 1).
    """
    named = _named(runs)
    picture = _Picture(ax, path)
    for name, epochs in named.items():
        label = name or ("this cache" if ranks is not None else "")
        picture.line(label, epochs, [100 * epoch.hit_rate for epoch in epochs])
    if ranks is not None:
        ranks = number("ranks", ranks, 1, 1 << 24)
        numbers = np.arange(max(map(len, named.values())))
        picture.ax.plot(
            numbers + 1,
            100 * (1 - (1 - 1 / ranks) ** numbers),
            "--",
            color=_OTHER,
            label=f"a cache in each of {ranks} ranks (computed)",
        )
    picture.ax.set(title="Hit rate", ylabel="look-ups that hit (%)", ylim=(-3, 103))
    return picture.over_epochs(named)


def throughput(
    runs: Runs,
    ax: Axes | None = None,
    *,
    unit: Literal["samples", "bytes"] = "samples",
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """What the node has read in each second of an epoch: samples, or GB."""
    if unit not in ("samples", "bytes"):
        raise ValueError(f"unit is 'samples' or 'bytes', not {unit!r}")
    named = _named(runs)
    picture = _Picture(ax, path)
    for name, epochs in named.items():
        read = [epoch.samples if unit == "samples" else epoch.bytes / 1e9 for epoch in epochs]
        picture.line(name, epochs, [one / epoch.seconds for one, epoch in zip(read, epochs, strict=True)])
    picture.ax.set(title="Throughput of the node", ylabel="samples/s" if unit == "samples" else "GB/s")
    picture.ax.set_ylim(bottom=0)
    picture.ax.yaxis.set_major_formatter("{x:,.6g}")
    return picture.over_epochs(named)


def residency(
    cache: Cache, ax: Axes | None = None, *, cells: int = 4096, path: str | os.PathLike[str] | None = None
) -> Axes:
    """Which samples are in the cache: its indices row by row, in at most `cells` cells, 1 to 2**20.

    Where there are more indices than cells, a cell stands for several and shows how many percent of them are there.
    """
    length, cells = len(cache), number("cells", cells, 1, 1 << 20)
    picture = _Picture(ax, path)
    from matplotlib.colors import LinearSegmentedColormap

    each = -(-length // cells)
    shares, resident = _shares(cache, each)
    columns = int(np.ceil(np.sqrt(len(shares))))
    rows = -(-len(shares) // columns)
    grid = np.full(rows * columns, np.nan)
    grid[: len(shares)] = 100 * shares
    row_length = columns * each

    ax = picture.ax
    colors = LinearSegmentedColormap.from_list("resident", [_PALE, _COLOR])
    image = ax.imshow(
        grid.reshape(rows, columns),
        colors,
        aspect="auto",
        interpolation="none",
        vmin=0,
        vmax=100,
        extent=(0, row_length, rows, 0),
    )
    entries = "entries" if cache.keyed else "samples"
    percent = f"{100 * resident / length:.1f}\N{NO-BREAK SPACE}%"
    ax.set(
        title=_folded(f"{cache.name}: {resident:,} of {length:,} {entries} in the cache ({percent})"),
        xlabel="index in its row" + (f" (a cell is {each:,} indices)" if each > 1 else ""),
        ylabel="first index of the row",
    )
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ticks = np.unique(np.linspace(0, rows - 1, min(rows, 9)).astype(int))
    ax.set_yticks(ticks + 0.5, [f"{row * row_length:,}" for row in ticks])
    if each > 1:
        ax.figure.colorbar(image, ax=ax, label="of a cell's indices in the cache (%)")
    else:
        _legend_of_colors(ax, {"in the cache": _COLOR, "not in the cache": _PALE})
    return picture.done()


def memory(
    cache: Cache,
    ax: Axes | None = None,
    *,
    ranks: Sequence[int] = (1, 2, 4, 8),
    limit: int | str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """The memory of a node for samples: one cache for all ranks, as measured, against a copy in each rank.

    Copies are computed: the arrays of the samples that are in the cache now, for each rank.

    Args:
        ranks: numbers of ranks on the node.
        limit: what the node has, in bytes or as "64GiB": a line.
    """
    counts = [number("ranks", count, 1, 1 << 24) for count in ranks]
    if not counts:
        raise ValueError("ranks is one number of ranks on the node or several, not none")
    stats, info = cache.stats(), cache.info
    shared = stats.reserved_bytes + info.control_bytes
    copies = [count * stats.resident * _mean_bytes(stats) for count in counts]
    most = max(shared, *copies, parse_bytes(limit) if limit is not None else 0)
    scale, unit = (1e9, "GB") if most >= 1e9 else (1e6, "MB")

    picture = _Picture(ax, path)
    ax = picture.ax
    places = np.arange(len(counts))
    for offset, label, color, values in (
        (-0.2, "a copy in each rank (computed)", _OTHER, copies),
        (0.2, "one ddpcache a node", _COLOR, [shared] * len(counts)),
    ):
        bars = ax.bar(places + offset, np.array(values) / scale, 0.38, color=color, label=label)
        ax.bar_label(bars, [readable_bytes(value) for value in values], padding=2, fontsize="small")
    if limit is not None:
        ax.axhline(parse_bytes(limit) / scale, linestyle="--", color="0.3", label="memory of the node")
    ax.set(
        title=_folded(f"{cache.name}: memory of a node for {stats.resident:,} samples"),
        xlabel="ranks on the node",
        ylabel=f"memory for samples ({unit})",
    )
    ax.set_xticks(places, [f"{count:,}" for count in counts])
    ax.margins(y=0.12)
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend()
    return picture.done()


def _named(runs: Any) -> dict[str, Sequence[Epoch]]:
    several = runs if isinstance(runs, Mapping) else {"": runs}
    named = {name: run.epochs if isinstance(run, Recorder) else run for name, run in several.items()}
    for name, epochs in named.items():
        if not len(epochs):
            raise ValueError(f"no epoch has been recorded{f' of {name!r}' if name else ''}: call Recorder.end_epoch")
    if not named:
        raise ValueError("there is no run to draw")
    return named


def _shares(cache: Cache, each: int) -> tuple[Any, int]:
    """For `each` indices after another the share that is in the cache, and how many are in all."""
    length = len(cache)
    counts = np.zeros(-(-length // each), np.int64)
    for first in range(0, length, _PAGE):
        there = cache.residency(first, min(_PAGE, length - first))
        cells = np.arange(first // each, (first + there.size - 1) // each + 1)
        starts = np.maximum(cells * each - first, 0)
        counts[cells] += np.add.reduceat(there, starts, dtype=np.int64)
    sizes = np.full(counts.size, each)
    sizes[-1] = length - (counts.size - 1) * each
    return counts / sizes, int(counts.sum())


class _Picture:
    """The Axes to draw into, and where the figure goes."""

    def __init__(self, ax: Axes | None, path: str | os.PathLike[str] | None) -> None:
        self._own = ax is None
        self._path = path
        self.ax = _new_axes(shown=path is None) if ax is None else ax

    def line(self, name: str, epochs: Sequence[Epoch], values: Sequence[float]) -> None:
        self.ax.plot(np.arange(len(epochs)) + 1, values, "o-", markersize=5, label=name or None)

    def over_epochs(self, named: Mapping[str, Sequence[Epoch]]) -> Axes:
        from matplotlib.ticker import MaxNLocator

        self.ax.set_xlabel("epoch")
        self.ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        self.ax.grid(alpha=0.3)
        if self.ax.get_legend_handles_labels()[1]:
            self.ax.legend()
        return self.done()

    def done(self) -> Axes:
        if self._path is not None:
            self.ax.figure.savefig(self._path, dpi=_DPI)
        return self.ax


def _new_axes(shown: bool) -> Any:
    try:
        if shown:
            figure = import_module("matplotlib.pyplot").figure(figsize=(7, 4.5), layout="constrained")
        else:
            figure = import_module("matplotlib.figure").Figure(figsize=(7, 4.5), layout="constrained")
    except ImportError as error:
        raise ImportError(
            f"ddpcache.plot draws with matplotlib, which cannot be imported ({error}): pip install matplotlib"
        ) from error
    return figure.add_subplot()


def _legend_of_colors(ax: Axes, colors: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=color, edgecolor="0.6", label=label) for label, color in colors.items()]
    ax.legend(handles=patches, loc="upper right", bbox_to_anchor=(1, -0.11), ncols=len(patches), frameon=False)


def _folded(title: str) -> str:
    """A title in lines that fit a figure: names of caches may have 200 characters."""
    return "\n".join(textwrap.wrap(title, 64))
