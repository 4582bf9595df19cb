"""VisCy itself, of its own environment (tests/setup --viscy): its data module, its script and its sampler with ours."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
import viscy.data.distributed
from ddpcache.torch import ShardedDistributedSampler

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "frameworks" / "viscy_pretraining.py"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def name():
    name = f"fw-{os.getpid()}-{secrets.token_hex(4)}"
    yield name
    assert not list(Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.{name}*"))


def run(*command, **more):
    done = subprocess.run(
        [sys.executable, *command], env=ENVIRONMENT | more, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the first training writes the plate that the second one takes too."""
    return tmp_path_factory.mktemp("viscy")


@pytest.mark.parametrize("sampler", ["node", "viscy"])
def test_fcmae_pretraining_reads_each_volume_once_on_the_node(sampler, folder, name):
    printed = run(EXAMPLE, folder, name, "--sampler", sampler)
    # 9 of 12 fields of view are for training, each with 2 time points: 3 batches of 3 for each rank, in 2 epochs.
    found = re.search(r"^after 6 steps: .*loss/train_epoch ([\d.]+).*$", printed, re.MULTILINE)
    assert found and 0 < float(found[1]) < 10 and "loss/val" in found[0]
    assert re.search(r"^24 volumes of the plate read on this node, each once$", printed, re.MULTILINE)


def test_viscys_script_of_a_shared_dict_runs_unchanged_and_adds_each_item_once(name):
    printed = run(HERE / "shared_dict.py", DICT_NAME=name)
    times = Counter(map(int, re.findall(r"\* Adding (\d+) to cache dict on rank [012]", printed)))
    assert set(times) == set(range(50))
    # In all of its 5 epochs.
    assert {times[item] for item in range(30)} == {1}
    # 20 items of validation over 3 ranks: VisCy's sampler repeats the first, which two ranks may look for at once.
    assert {times[item] for item in range(31, 50)} == {1} and times[30] <= 2


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_our_order_is_that_of_viscys_own_sampler(shuffle, drop_last):
    compared = 0
    for length in (1, 2, 7, 8, 30, 101):
        for ranks in (1, 2, 3, 8):
            for rank in range(ranks):
                options = {"num_replicas": ranks, "rank": rank, "shuffle": shuffle, "drop_last": drop_last, "seed": 5}
                theirs = viscy.data.distributed.ShardedDistributedSampler(range(length), **options)
                ours = ShardedDistributedSampler(range(length), **options)
                for epoch in (0, 1, 9):
                    theirs.set_epoch(epoch)
                    ours.set_epoch(epoch)
                    assert len(ours) == len(theirs)
                    try:
                        expected = list(theirs)
                    except (AssertionError, RuntimeError):
                        continue  # theirs cannot deal so few samples
                    assert list(ours) == expected, (length, ranks, rank, epoch)
                    compared += len(expected)
    assert compared > 1000


def test_one_dict_for_both_parts_gives_validation_the_volumes_of_training(folder, name):
    """What the example's second dict is for: if VisCy comes to tell the two apart, the example needs it no more."""
    sys.path.insert(0, str(EXAMPLE.parent))
    import viscy_pretraining

    plate = folder / "plate-of-one.zarr"
    viscy_pretraining.write_plate(plate)
    viscy.data.gpu_aug.Manager, before = viscy_pretraining.SharedManager, viscy.data.gpu_aug.Manager
    try:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = viscy_pretraining.make_data(name, "viscy", plate)
            ours.setup("fit")
            training, validation = (part[0][0]["Image"] for part in (ours.train_dataset, ours.val_dataset))
            assert not torch.equal(training, validation)
            ours.val_dataset._cache_map.close()
            # As VisCy's own setup leaves it.
            ours.val_dataset._cache_map = ours.train_dataset._cache_map
            assert torch.equal(raw(ours.val_dataset, 0), raw(ours.train_dataset, 0))
    finally:
        viscy.data.gpu_aug.Manager = before
        ours.train_dataset._cache_map.close()


def raw(dataset, index):
    transform, dataset.transform = dataset.transform, None
    try:
        return dataset[index][0]["Image"]
    finally:
        dataset.transform = transform
