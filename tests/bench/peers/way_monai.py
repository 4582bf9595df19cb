"""MONAI's CacheDataset: filled by its constructor in each rank, or at run time in a list that all ranks share."""

from __future__ import annotations

from multiprocessing import Manager
from typing import Any

import torch
from images import Images, Kind
from monai.data import CacheDataset, partition_dataset
from monai.transforms import Compose, RandomizableTrait, Transform
from torch.utils.data import DataLoader, RandomSampler
from ways import Job, Opened, torch_loader


class Decode(Transform):
    def __init__(self, files: Images) -> None:
        self.files = files

    def __call__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.files[index]


class TakePiece(RandomizableTrait, Transform):
    """Random by name, so that it is not cached."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __call__(self, sample: tuple[torch.Tensor, int]) -> tuple[torch.Tensor, int]:
        image, number = sample
        return self.kind.piece(image, number), number


def prepare(job: Job, option: str) -> Any:
    if option != "runtime":
        return None
    manager = Manager()
    return manager, manager.list([None] * len(job.dataset()))


def finish(shared: Any) -> None:
    if shared:
        shared[0].shutdown()


def open(job: Job, shared: Any, option: str) -> Opened:
    files = job.dataset()
    numbers = list(range(len(files)))
    rank = torch.distributed.get_rank()
    if option == "part":
        numbers = partition_dataset(numbers, num_partitions=job.ranks, shuffle=True, seed=0, even_divisible=True)[rank]
    dataset = CacheDataset(
        numbers,
        Compose([Decode(files), *([TakePiece(job.kind)] if job.kind.crop else [])], map_items=False),
        num_workers=max(1, job.workers),
        progress=False,
        copy_cache=False,  # nothing changes the samples
        runtime_cache=shared[1] if shared else False,
    )
    if option == "part":
        return Opened(DataLoader(dataset, sampler=RandomSampler(dataset), **job.loader_arguments()))
    return torch_loader(dataset, job)
