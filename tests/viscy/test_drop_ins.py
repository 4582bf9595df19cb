"""What ddpcache has in place of VisCy's own, beside VisCy itself: its sampler, and the dict under its caches."""

from __future__ import annotations

import itertools
import multiprocessing
import random

import ddpcache
import numpy as np
import pytest
import torch
from ddpcache.torch import ShardedDistributedSampler
from viscy.data.distributed import ShardedDistributedSampler as Original


def outcome(kind, *arguments, epoch=0):
    try:
        sampler = kind(*arguments)
        sampler.set_epoch(epoch)
        return list(sampler), len(sampler)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_the_sampler_deals_as_viscys(world, drop_last, shuffle):
    """To the bit, for every rank; what the original cannot deal is an error here too."""
    dealt = 0
    for length, seed in itertools.product([1, 2, 3, 7, 8, 9, 24, 25, 1000], [0, 1, 17, 2**31, 2**63 - 3]):
        for rank in range(world):
            arguments = (range(length), world, rank, shuffle, seed, drop_last)
            for epoch in (0, 1, 1000):
                wanted = outcome(Original, *arguments, epoch=epoch)
                found = outcome(ShardedDistributedSampler, *arguments, epoch=epoch)
                if isinstance(wanted, tuple):
                    assert found == wanted, (*arguments[1:], epoch)
                    dealt += 1
                else:
                    assert isinstance(found, type), (*arguments[1:], epoch, wanted, found)
    assert dealt > 50


def test_random_arguments_of_the_sampler():
    generator = random.Random(5)
    for _ in range(200):
        world = generator.randrange(1, 40)
        arguments = (
            range(generator.randrange(world, 3000)),
            world,
            generator.randrange(world),
            generator.random() < 0.8,
            generator.randrange(2**62),
            generator.random() < 0.5,
        )
        epoch = generator.randrange(10_000)
        assert outcome(ShardedDistributedSampler, *arguments, epoch=epoch) == outcome(Original, *arguments, epoch=epoch)


@pytest.fixture
def plate(tmp_path):
    """An OME-Zarr plate of 3 positions with 2 time points of 2 channels, and the statistics that VisCy wants."""
    from iohub.ngff import open_ome_zarr

    generator = np.random.default_rng(3)
    with open_ome_zarr(tmp_path / "plate.zarr", layout="hcs", mode="w", channel_names=["Phase3D", "Nuclei"]) as made:
        for number in range(3):
            position = made.create_position("A", "1", str(number))
            position.create_image("0", generator.integers(0, 4000, (2, 2, 4, 16, 16)).astype(np.uint16))
            statistics = {"dataset_statistics": {"mean": 2000.0, "std": 1000.0}}
            position.zattrs["normalization"] = {"Phase3D": statistics, "Nuclei": statistics}
    return tmp_path / "plate.zarr"


def dataset(plate, cache_map):
    from iohub.ngff import open_ome_zarr
    from viscy.data.gpu_aug import CachedOmeZarrDataset

    opened = open_ome_zarr(plate, mode="r", layout="hcs")
    positions = [position for _, position in opened.positions()]
    return CachedOmeZarrDataset(positions, ["Phase3D", "Nuclei"], cache_map, load_normalization_metadata=False)


def sums(samples):
    return [sample["Nuclei"].double().sum().item() for index in range(len(samples)) for sample in samples[index]]


def test_viscys_data_set_runs_over_the_dict_as_over_a_managers(plate):
    with ddpcache.SharedDict(capacity="16MiB", length=100) as shared, multiprocessing.Manager() as manager:
        ours, theirs = dataset(plate, shared), dataset(plate, manager.dict())
        for _ in range(2):
            for index in range(len(theirs)):
                [one], [other] = ours[index], theirs[index]
                assert list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in other)
        assert sorted(shared) == list(range(6))
        assert all(isinstance(volume, torch.Tensor) for volume in shared.values())

        # Another process finds the volumes, though there are none in the plate any more.
        before = sums(ours)
        for chunk in plate.rglob("A/1/*/0/**/*"):
            if chunk.is_file() and not chunk.name.startswith((".", "zarr")):
                chunk.unlink()
        assert sums(dataset(plate, {})) == [0] * 6
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=lambda: answers.put(sums(ours)))
        child.start()
        assert answers.get(timeout=120) == before and sum(before) > 0
        child.join(60)


def test_viscys_data_module_gives_the_same_batches_over_the_dict(plate, monkeypatch):
    """Its own code makes the dict, by what stands for Manager here."""
    from viscy.data import gpu_aug

    class Manager:
        def dict(self):
            return ddpcache.SharedDict(capacity="16MiB", length=100)

    def epochs():
        torch.manual_seed(4)
        module = gpu_aug.CachedOmeZarrDataModule(
            data_path=plate,
            channels=["Phase3D", "Nuclei"],
            batch_size=2,
            num_workers=2,
            split_ratio=0.67,
            train_cpu_transforms=[],
            val_cpu_transforms=[],
            train_gpu_transforms=[],
            val_gpu_transforms=[],
            pin_memory=False,
        )
        module.setup("fit")
        loader = module.train_dataloader()
        return [batch for _ in range(2) for batch in loader]

    wanted = epochs()
    monkeypatch.setattr(gpu_aug, "Manager", Manager)
    found = epochs()
    assert len(found) == len(wanted) == 4
    for one, other in zip(found, wanted, strict=True):
        assert list(one) == list(other)
        assert all(torch.equal(one[name], other[name]) for name in ("Phase3D", "Nuclei"))
