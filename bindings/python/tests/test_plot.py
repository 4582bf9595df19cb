"""Pictures of a cache: what they show is what the cache has."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from ddpcache import plot
from matplotlib.figure import Figure

SAMPLE = np.zeros(1000, np.uint8)


@pytest.fixture(autouse=True)
def own_backend():
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture
def recorder(cache):
    """Three epochs: 100 misses; 20 reads that hit of 40 that are told; nothing."""
    recorder = plot.Recorder(cache)
    for index in range(100):
        cache.get_or_load(index, lambda index: SAMPLE)
    recorder.end_epoch()
    cache.get(99)
    recorder.begin_epoch()
    for index in range(20):
        cache.get(index)
    recorder.end_epoch(samples=40)
    recorder.end_epoch()
    return recorder


def line_of(ax, number=0):
    x, y = ax.lines[number].get_data()
    return list(x), list(y)


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_recorder_takes_what_happened_in_each_epoch(recorder):
    first, second, third = recorder.epochs
    assert (first.hits, first.misses, first.decoded, first.samples, first.bytes) == (0, 100, 100, 100, 100_000)
    assert (second.hits, second.misses, second.decoded, second.samples, second.bytes) == (20, 0, 0, 40, 40_000)
    assert (third.hits, third.misses, third.decoded, third.samples) == (0, 0, 0, 0)
    assert (first.hit_rate, second.hit_rate) == (0.0, 1.0)
    assert np.isnan(third.hit_rate)
    assert all(epoch.seconds > 0 for epoch in recorder.epochs)


def test_hit_rate_shows_percent_over_epochs_from_1(recorder, tmp_path):
    ax = plot.hit_rate(recorder.epochs[:2], ranks=4, path=tmp_path / "hit.png")
    assert line_of(ax) == ([1, 2], [0, 100])
    assert line_of(ax, 1) == ([1, 2], [0, 25])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epoch", "look-ups that hit (%)")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "this cache",
        "a cache in each of 4 ranks (computed)",
    ]
    assert is_png(tmp_path / "hit.png")


def test_several_runs_have_their_names(recorder):
    ax = plot.hit_rate({"one": recorder, "two": recorder.epochs[1:2]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert line_of(ax, 1) == ([1], [100])


def test_throughput_is_of_samples_or_bytes(recorder):
    seconds = [epoch.seconds for epoch in recorder.epochs]
    ax = plot.throughput(recorder)
    assert line_of(ax)[1] == pytest.approx([100 / seconds[0], 40 / seconds[1], 0])
    assert ax.get_ylabel() == "samples/s"
    ax = plot.throughput(recorder, unit="bytes")
    assert line_of(ax)[1] == pytest.approx([1e-4 / seconds[0], 4e-5 / seconds[1], 0])
    assert ax.get_ylabel() == "GB/s"
    with pytest.raises(ValueError, match="'samples' or 'bytes', not 'GB'"):
        plot.throughput(recorder, unit="GB")


def grid_of(ax):
    return np.ma.filled(ax.images[0].get_array().astype(float), np.nan).ravel()


def test_residency_shows_each_index_where_there_are_cells_for_all(cache, tmp_path):
    for index in [0, 3, 42, 99]:
        cache[index] = SAMPLE
    ax = plot.residency(cache, path=tmp_path / "residency.png")
    np.testing.assert_array_equal(grid_of(ax), 100.0 * cache.residency())
    assert ax.images[0].get_array().shape == (10, 10)
    assert "4 of 100 samples in the cache (4.0\xa0%)" in ax.get_title().replace("\n", " ")
    assert is_png(tmp_path / "residency.png")


@pytest.mark.parametrize(
    ("length", "cells", "page"), [(1000, 7, 64), (1000, 300, 1 << 20), (1000, 1, 100), (997, 996, 1)]
)
def test_residency_shows_shares_where_a_cell_is_several_indices(open_cache, monkeypatch, length, cells, page):
    monkeypatch.setattr(plot, "_PAGE", page)
    cache = open_cache(length=length)
    for index in np.random.default_rng(7).permutation(length)[:400]:
        cache[int(index)] = 1
    cache.get_or_load(length - 1, lambda index: 1)
    ax = plot.residency(cache, cells=cells)
    each = -(-length // cells)
    wanted = [100 * part.mean() for part in np.split(cache.residency(), range(each, length, each))]
    shown = grid_of(ax)
    assert len(wanted) <= cells
    np.testing.assert_allclose(shown[: len(wanted)], wanted)
    assert np.isnan(shown[len(wanted) :]).all()
    assert f"a cell is {each:,} indices" in ax.get_xlabel()


def test_memory_shows_one_cache_against_copies(cache, tmp_path):
    for index in range(50):
        cache[index] = SAMPLE
    ax = plot.memory(cache, ranks=[1, 3], limit="1MB", path=tmp_path / "memory.png")
    shared = (cache.stats().reserved_bytes + cache.info.control_bytes) / 1e6
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0.05, 0.15, shared, shared])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "3"]
    assert ax.get_ylabel() == "memory for samples (MB)"
    assert line_of(ax)[1] == [1.0, 1.0]
    assert is_png(tmp_path / "memory.png")
    with pytest.raises(ValueError, match="not none"):
        plot.memory(cache, ranks=[])


def test_what_is_given_is_drawn_into_and_a_file_leaves_no_figure_with_pyplot(cache, recorder, tmp_path):
    axes = Figure().subplots(2, 2).ravel()
    for ax, draw in zip(axes, [plot.hit_rate, plot.throughput, plot.residency, plot.memory], strict=True):
        source = recorder if draw in (plot.hit_rate, plot.throughput) else cache
        assert draw(source, ax) is ax
        draw(source, path=tmp_path / "one.png")
        assert plt.get_fignums() == []
        draw(source)
        assert len(plt.get_fignums()) == 1
        plt.close("all")


def test_no_epoch_is_an_error_that_says_so(cache):
    with pytest.raises(ValueError, match="no epoch has been recorded of 'mine': call Recorder.end_epoch"):
        plot.hit_rate({"mine": plot.Recorder(cache)})
    with pytest.raises(ValueError, match="no run"):
        plot.throughput({})


WITHOUT_MATPLOTLIB = """
import sys
sys.path.insert(0, sys.argv[1])
import ddpcache.plot
assert not any("matplotlib" in name for name in sys.modules)
cache = ddpcache.Cache(sys.argv[2])
recorder = ddpcache.plot.Recorder(cache)
recorder.end_epoch()
for call in (lambda: ddpcache.plot.hit_rate(recorder), lambda: ddpcache.plot.residency(cache, path="none.png")):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_without_matplotlib_recording_works_and_drawing_says_what_to_do(cache, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError(\"No module named 'matplotlib'\")")
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB, tmp_path, cache.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install matplotlib") == 2, done.stdout
