"""No cache, a dict in each process, and a dict in a server process."""

from __future__ import annotations

from multiprocessing import Manager
from typing import Any

import torch
from torch.utils.data import Dataset
from ways import Job, Opened, Pieces, torch_loader


class InDict(Dataset):
    def __init__(self, files: Dataset) -> None:
        self.files = files
        self.samples: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index not in self.samples:
            self.samples[index] = self.files[index]
        return self.samples[index]


class InManager(Dataset):
    """Arrays, since they travel faster than tensors."""

    def __init__(self, files: Dataset, samples: Any) -> None:
        self.files = files
        self.samples = samples

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        found = self.samples.get(index)
        if found is None:
            image, _ = self.files[index]
            self.samples[index] = image.numpy()
            return image, index
        return torch.from_numpy(found), index


def prepare(job: Job, option: str) -> Any:
    if option != "manager":
        return None
    manager = Manager()
    return manager, manager.dict()


def finish(shared: Any) -> None:
    if shared:
        shared[0].shutdown()


def open(job: Job, shared: Any, option: str) -> Opened:
    samples: Dataset = job.dataset()
    if option == "manager":
        samples = InManager(samples, shared[1])
    elif option == "dict":
        samples = InDict(samples)
    return torch_loader(Pieces(samples, job.kind) if job.kind.crop else samples, job)
