"""Bars and functions that hear how far a save, a restore or a warm-up has come."""

import os
import subprocess
import sys
from pathlib import Path

import ddpcache
import numpy as np
import pytest
from ddpcache import Cache


@pytest.fixture
def filled(open_cache):
    cache = open_cache()
    for index in range(20):
        cache[index] = np.zeros(100_000, np.uint8)
    return cache


def test_a_save_and_a_restore_show_a_bar_on_stderr_when_asked(filled, tmp_path, capfd):
    file = tmp_path / "saved.cache"
    filled.save(file)
    filled.save(file, progress=False)
    assert capfd.readouterr() == ("", "")
    filled.save(file, progress=True)
    out, err = capfd.readouterr()
    size = f"{file.stat().st_size / 1e6:.2f}M"
    assert out == ""
    assert f"save {filled.name}: 100%" in err
    assert f"{size}/{size}" in err
    Cache.restore(file, f"{filled.name}.b", progress=True).close()
    out, err = capfd.readouterr()
    assert out == ""
    assert f"restore {filled.name}.b: 100%" in err


def test_a_bar_of_what_was_there_already_leaves_nothing_on_the_screen(filled, tmp_path, capfd):
    file = tmp_path / "saved.cache"
    filled.save(file)
    with Cache.restore(file, f"{filled.name}.b"):
        Cache.restore(file, f"{filled.name}.b", progress=True).close()
    screen = capfd.readouterr().err.split("\r")
    assert screen[-1].strip() == ""


@pytest.mark.parametrize(("local_rank", "bars"), [(0, 1), (1, 0)])
def test_only_the_first_rank_of_a_node_shows_the_bar_of_a_restore(filled, tmp_path, local_rank, bars):
    file = tmp_path / "saved.cache"
    filled.save(file)
    ranks = {"RANK": local_rank, "WORLD_SIZE": 2, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": 2}
    code = f"import ddpcache; ddpcache.Cache.restore({str(file)!r}, '{filled.name}.b', progress=True).close()"
    environment = {**os.environ, **{name: str(value) for name, value in ranks.items()}}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("100%") == bars, done.stderr


WITHOUT_TQDM = """
import sys
sys.path.insert(0, sys.argv[1])
import ddpcache
cache = ddpcache.Cache(sys.argv[2])
cache.save(sys.argv[3])
for call in (lambda: cache.save(sys.argv[3], progress=True),
             lambda: ddpcache.Cache.restore(sys.argv[3], sys.argv[2] + ".b", progress=True)):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_a_bar_without_tqdm_is_an_error_that_says_what_to_do(filled, tmp_path):
    (tmp_path / "tqdm.py").write_text("raise ModuleNotFoundError(\"No module named 'tqdm'\")")
    command = [sys.executable, "-c", WITHOUT_TQDM, tmp_path, filled.name, tmp_path / "saved.cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No module named 'tqdm'") == done.stdout.count("pip install tqdm") == 2
    assert f"{filled.name}.b" not in Cache.list()


def test_what_hears_nothing_is_refused_before_anything_is_done(filled, tmp_path):
    file = tmp_path / "saved.cache"
    with pytest.raises(TypeError, match=r"progress is True, False, None or a callable of \(done, total\), not 'yes'"):
        filled.save(file, progress="yes")
    assert not file.exists()
    filled.save(file)
    with pytest.raises(TypeError, match="callable"):
        Cache.restore(file, f"{filled.name}.b", progress=1)


def test_a_bar_that_fails_in_the_middle_stays_and_says_how_far_it_came(filled, tmp_path, capfd):
    file = Path(tmp_path / "saved.cache")
    filled.save(file)
    data = bytearray(file.read_bytes())
    data[-50_000] ^= 1
    file.write_bytes(data)
    with pytest.raises(ddpcache.DamagedError):
        Cache.restore(file, f"{filled.name}.b", progress=True)
    err = capfd.readouterr().err
    assert err.endswith("\n")
    assert "100%" not in err


WARMING = """
import sys, ddpcache, torch
from ddpcache.torch import CachedDataset, NodeSampler, warm_up
from torch.utils.data import Dataset

class Squares(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return torch.full((100,), index * index)

if __name__ == "__main__":
    dataset = CachedDataset(Squares(), ddpcache.Cache(sys.argv[1]))
    heard = []
    progress = {"bar": True, "function": lambda *told: heard.append(told), "none": None}[sys.argv[2]]
    print(warm_up(dataset, NodeSampler(dataset), batch_size=10, num_workers=2, progress=progress), *heard)
"""


def warm(name, script, local_rank, ranks, progress):
    variables = {"RANK": local_rank, "WORLD_SIZE": ranks, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": ranks}
    return subprocess.Popen(
        [sys.executable, script, name, progress],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_warm_up_decodes_each_sample_once_a_node_and_shows_one_bar(cache, tmp_path):
    script = tmp_path / "warming.py"
    script.write_text(WARMING)
    ranks = [warm(cache.name, script, local_rank, 2, "bar") for local_rank in range(2)]
    (first, first_bar), (second, second_bar) = (rank.communicate(timeout=120) for rank in ranks)
    assert (first, second) == ("50\n", "50\n"), first_bar + second_bar
    assert f"warm-up {cache.name}, 1 of 2 ranks: 100%" in first_bar
    assert "50.0/50.0" in first_bar
    assert second_bar == ""
    assert cache.residency().all()
    assert cache.stats().fills == 100

    function = warm(cache.name, script, 0, 1, "function")
    assert function.communicate(timeout=120) == ("0 " + " ".join(f"({n}, 100)" for n in range(10, 101, 10)) + "\n", "")


def test_a_warm_up_that_fills_the_cache_leaves_its_bar_where_it_came_to(open_cache, capfd):
    torch = pytest.importorskip("torch")
    from ddpcache.torch import CachedDataset, warm_up

    class Large(torch.utils.data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return torch.zeros(100_000, dtype=torch.uint8)

    cache = open_cache(".small", capacity="2MiB", sample_bytes=100_000)
    with CachedDataset(Large(), cache) as dataset:
        decoded = warm_up(dataset, batch_size=1, progress=True)
    assert cache.stats().resident < decoded < 100
    err = capfd.readouterr().err
    assert err.endswith("\n")
    assert f"warm-up {cache.name}: " in err
    assert "100%" not in err
