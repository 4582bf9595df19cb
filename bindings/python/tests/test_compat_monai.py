"""ddpcache.compat.monai.CacheDataset beside monai.data.CacheDataset: the same data, transforms and seeds for both."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import ddpcache
import numpy as np
import pytest

torch = pytest.importorskip("torch")
monai = pytest.importorskip("monai", reason="MONAI is not installed")
from ddpcache.compat.monai import CacheDataset  # noqa: E402
from monai.data import CacheDataset as Original  # noqa: E402
from monai.data import DataLoader, MetaTensor  # noqa: E402
from monai.transforms import (  # noqa: E402
    Compose,
    EnsureChannelFirstd,
    EnsureTyped,
    MapTransform,
    RandFlipd,
    RandGaussianNoised,
    RandSpatialCropd,
    ScaleIntensityd,
    ToTensord,
    Transform,
)

ITEMS = 12


class Counted(MapTransform):
    """Deterministic; counts its calls by a line in a file each, which all processes can append to."""

    def __init__(self, keys, log):
        super().__init__(keys)
        self.log = log

    def __call__(self, data):
        with open(self.log, "a") as log:
            log.write(f"{data['number']}\n")
        return {**data, **{key: data[key] * 2 + 1 for key in self.keys}}


class InPlace(Transform):
    """What the original's deepcopy is for: it changes what it is given."""

    def __call__(self, data):
        data["image"] += 1
        data["label"][:] = 7
        data["more"]["list"].append("changed")
        return data


def items():
    return [
        {
            "image": np.random.RandomState(number).rand(9, 8, 7).astype(np.float32),
            "label": np.full((3,), number),
            "number": number,
            "path": f"scan {number}.nii",
            "more": {"list": [number], "none": None},
        }
        for number in range(ITEMS)
    ]


def steps(log, *, random=True):
    fixed = [
        Counted(["image"], log),
        EnsureChannelFirstd(["image"], channel_dim="no_channel"),
        ScaleIntensityd(["image"]),
        EnsureTyped(["image"], track_meta=True),
    ]
    rest = [
        RandFlipd(["image"], prob=0.5, spatial_axis=0),
        RandSpatialCropd(["image"], roi_size=(5, 5, 5), random_size=False),
        RandGaussianNoised(["image"], prob=0.8),
        ToTensord(["label"]),
    ]
    return Compose([*fixed, *(rest if random else [])])


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def transformed(log):
    return sorted(map(int, log.read_text().split())) if log.exists() else []


def same(one, other):
    """Whether two items are the same, with types, values and what MONAI keeps beside a tensor."""
    if type(one) is not type(other):
        return False
    if isinstance(one, MetaTensor):
        if not same(one.meta, other.meta) or not same(one.applied_operations, other.applied_operations):
            return False
        return one.dtype == other.dtype and torch.equal(one.as_tensor(), other.as_tensor())
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        # An applied operation has the address of its transform as `id`.
        return list(one) == list(other) and all(key == "id" or same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (one != one and other != other)


def epochs(dataset, order, seed=3):
    dataset.transform.set_random_state(seed)
    return [dataset[index] for _ in range(3) for index in order]


OPTIONS = [
    {},
    {"cache_num": 5},
    {"cache_rate": 0.5},
    {"cache_num": 0},
    {"num_workers": 3},
    {"as_contiguous": False},
    {"runtime_cache": True},
    {"runtime_cache": "threads"},
    {"runtime_cache": "processes"},
    {"hash_as_key": True},
    {"hash_as_key": True, "cache_num": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("random", [True, False], ids=["random", "fixed"])
def test_items_are_the_originals(tmp_path, options, random):
    """Three epochs, from one seed; and each item's deterministic transforms ran once, as in the original."""
    order = list(np.random.RandomState(1).permutation(ITEMS)) + [-1, 3]
    found = []
    for kind in (Original, CacheDataset):
        log = tmp_path / kind.__module__
        dataset = kind(items(), steps(log, random=random), progress=False, **options)
        before = transformed(log)
        found.append((epochs(dataset, order), before, transformed(log), dataset.cache_num, len(dataset)))
    (wanted, *rest), (mine, *my_rest) = found
    assert same(mine, wanted)
    if options != {"cache_num": 5} and options != {"cache_rate": 0.5}:
        assert my_rest == rest
    else:  # the original looks for an index of -1 at another place of its cache
        assert my_rest[0] == rest[0] and my_rest[2:] == rest[2:]


def test_an_index_counts_from_the_end_whatever_is_cached(log):
    dataset = CacheDataset(items(), steps(log, random=False), cache_num=5, progress=False)
    assert [dataset[index]["number"] for index in (-12, -8, -7, -1)] == [0, 4, 5, 11]
    assert transformed(log) == [0, 1, 2, 3, 4, 5, 11]
    for index in (12, -13):
        with pytest.raises(IndexError, match=f"item {index} of a data set of 12"):
            dataset[index]


def test_what_changes_an_item_in_place_changes_the_readers_copy_only(log):
    reference = Original(items(), Compose([Counted(["image"], log), Tail(), InPlace()]), progress=False)
    for copy_cache in (True, False):
        transform = Compose([Counted(["image"], log), Tail(), InPlace()])
        dataset = CacheDataset(items(), transform, progress=False, copy_cache=copy_cache)
        for _ in range(3):
            assert same(dataset[2], reference[2])
            assert dataset[2]["more"]["list"] == [2, "changed"]


class Tail(RandFlipd):
    """Random, though it does nothing: what follows is run after each hit."""

    def __init__(self):
        super().__init__(["image"], prob=0.0)


def test_subsets_and_other_data(log):
    for kind in (Original, CacheDataset):
        dataset = kind(items(), steps(log), progress=False)
        subset = dataset[2:5]
        assert isinstance(subset, torch.utils.data.Subset) and [one["number"] for one in subset] == [2, 3, 4]
        assert [one["number"] for one in dataset[[7, 1]]] == [7, 1]
        dataset.set_data(items()[4:])
        assert len(dataset) == dataset.cache_num == 8 and dataset[0]["number"] == 4
        assert isinstance(dataset, Original)
    assert dataset.cache.stats().resident == 8


def test_equal_items_are_cached_once(log):
    data = items()[:3] * 4
    dataset = CacheDataset(data, steps(log), hash_as_key=True, progress=False)
    assert dataset.cache_num == 3 and transformed(log) == [0, 1, 2]
    assert [dataset[index]["number"] for index in range(12)] == [0, 1, 2] * 4
    assert transformed(log) == [0, 1, 2]


def test_loaders_give_the_same_batches_with_the_same_seed(tmp_path):
    found = []
    for kind, method in ((Original, "fork"), (CacheDataset, "fork"), (CacheDataset, "spawn")):
        log = tmp_path / f"{kind.__module__}.{method}"
        dataset = kind(items(), steps(log), progress=False)
        monai.utils.set_determinism(5)
        options = {"batch_size": 3, "shuffle": True, "num_workers": 2, "collate_fn": list, "persistent_workers": True}
        loader = DataLoader(dataset, multiprocessing_context=method, **options)
        found.append([item for _ in range(2) for batch in loader for item in batch])
        assert transformed(log) == list(range(ITEMS))
    monai.utils.set_determinism(None)
    assert same(found[0], found[1]) and same(found[0], found[2]) and len(found[0]) == 2 * ITEMS


def test_workers_fill_what_is_cached_at_run_time_once(log):
    dataset = CacheDataset(items(), steps(log), runtime_cache=True, progress=False)
    assert transformed(log) == []
    for _ in range(2):
        loader = DataLoader(dataset, batch_size=2, num_workers=3, shuffle=True, collate_fn=list)
        assert sum(map(len, loader)) == ITEMS
    assert transformed(log) == list(range(ITEMS))


def test_progress_is_shown_where_asked(log, capfd):
    CacheDataset(items(), steps(log), progress=False)
    assert "Loading dataset" not in capfd.readouterr().err
    CacheDataset(items(), steps(log))
    assert "Loading dataset: 100%" in capfd.readouterr().err


def test_arguments_that_make_no_sense_are_clear_errors(log):
    with pytest.raises(TypeError, match=r"runtime_cache is True, False, 'threads' or 'processes', not \[None, None\]"):
        CacheDataset(items(), steps(log), runtime_cache=[None, None])
    with pytest.raises(TypeError, match="not 'disk'"):
        CacheDataset(items(), steps(log), runtime_cache="disk")
    big = [{"image": np.zeros(1 << 20, np.float32), "number": 0}]
    with pytest.raises(ddpcache.TooLargeError, match="sample_bytes_max="):
        CacheDataset(big, Compose([Counted(["image"], log)]), capacity="64MiB", progress=False)
    CacheDataset(big, Compose([Counted(["image"], log)]), capacity="64MiB", sample_bytes_max="8MiB", progress=False)


def test_data_sets_of_one_name_that_differ_are_an_error(log):
    first = CacheDataset(items(), steps(log), progress=False, name="differ")
    same_one = CacheDataset(items(), steps(log), progress=False, name="differ")
    assert transformed(log) == list(range(ITEMS)) and same_one[3]["number"] == 3
    other_values = items()
    other_values[7]["image"][2, 2, 2] += 1
    other_steps = Compose([Counted(["image"], log), ScaleIntensityd(["image"], minv=0.5)])
    for data, transform in [(items()[1:], steps(log)), (other_values, steps(log)), (items(), other_steps)]:
        with pytest.raises(ValueError, match="the ranks' data sets differ, or their deterministic transforms"):
            CacheDataset(data, transform, progress=False, name="differ")
    # What is random may differ, and what is not cached.
    CacheDataset(items(), steps(log, random=False), progress=False, name="differ")
    assert transformed(log) == list(range(ITEMS))
    first.close()


def test_a_transform_that_fails_raises_as_in_the_original(log):
    for kind in (Original, CacheDataset):
        with pytest.raises(RuntimeError, match="applying transform"):
            kind([{"image": 1}], Compose([Counted(["image"], log)]), progress=False)


def test_a_pickle_is_the_same_cache(log):
    dataset = CacheDataset(items(), steps(log), progress=False)
    other = pickle.loads(pickle.dumps(dataset))
    assert same(epochs(other, range(ITEMS)), epochs(dataset, range(ITEMS)))
    assert transformed(log) == list(range(ITEMS))


RANK = textwrap.dedent("""
    import sys, torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    from monai.data import DataLoader
    from torch.utils.data import DistributedSampler
    from test_compat_monai import CacheDataset, ITEMS, items, steps

    if __name__ == "__main__":
        dist.init_process_group("gloo")
        train = CacheDataset(items(), steps(sys.argv[2] + ".train"), progress=False)
        val = CacheDataset(items(), steps(sys.argv[2] + ".val", random=False), runtime_cache=True, progress=False)
        for epoch in range(2):
            for dataset in (train, val):
                sampler = DistributedSampler(dataset)
                sampler.set_epoch(epoch)
                loader = DataLoader(dataset, batch_size=2, sampler=sampler, num_workers=1, collate_fn=list)
                numbers = [item["number"] for batch in loader for item in batch]
                assert len(set(numbers)) == ITEMS // 2
            dist.barrier()
        dist.destroy_process_group()
""")


def test_ranks_transform_each_item_once_a_machine(tmp_path):
    """MONAI#913, #3843: with the original, each rank transforms and keeps all items."""
    script, log = tmp_path / "rank.py", tmp_path / "log"
    script.write_text(RANK)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*torchrun, script, os.path.dirname(__file__), log],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    for part in ("train", "val"):
        assert transformed(tmp_path / f"log.{part}") == list(range(ITEMS))
