"""What ddpcache is compared with: two usual ways to keep decoded samples in memory."""

from __future__ import annotations

from multiprocessing import Manager

import torch
import torch.distributed as dist
from ddpcache.torch import CachedDataset, DistributedSampler, ShardedDistributedSampler
from torch.utils.data import Dataset


def rank_cache(files, name, shuffle, transform):
    """A cache for each rank, under the order of torch's sampler (ours is the same, and knows real_size).

    Every epoch deals the ranks other samples, most of which another rank has decoded already.
    """
    dataset = CachedDataset(files, f"{name}.{dist.get_rank()}", transform=transform, capacity="256MiB")
    return dataset, DistributedSampler(dataset, shuffle=shuffle)


def manager_dict(files, name, shuffle, transform):
    """VisCy's way: a dict in a server process for each rank, under its sampler, which deals a rank a fixed part."""
    dataset = ManagerDataset(files, transform)
    return dataset, ShardedDistributedSampler(dataset, shuffle=shuffle)


class ManagerDataset(Dataset):
    """Keeps samples in a Manager().dict(), as arrays, which travel faster than tensors."""

    def __init__(self, files, transform) -> None:
        self.files = files
        self.transform = transform
        self.manager = Manager()
        self.samples = self.manager.dict()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index):
        if index not in self.samples:
            image, label = self.files[index]
            self.samples[index] = image.numpy(), label
        array, label = self.samples[index]
        sample = torch.from_numpy(array), label
        return sample if self.transform is None else self.transform(sample)

    def payload_bytes(self) -> int:
        return sum(image.nbytes for image, _ in self.samples.values())

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "manager"}
