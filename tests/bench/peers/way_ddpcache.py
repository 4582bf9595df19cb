"""One ddpcache for all ranks."""

from __future__ import annotations

import ddpcache
import ddpcache.torch
import torch
import torch.utils.data
from ddpcache.torch import CachedDataset, NodeSampler, fingerprint
from images import Kind
from ways import Job, Opened


class Piece:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __call__(self, sample: tuple[torch.Tensor, int]) -> tuple[torch.Tensor, int]:
        image, number = sample
        return self.kind.piece(image, number), number


def rounded(size: int) -> int:
    return -(-size // 64) * 64


def cache_options(kind: Kind, count: int) -> dict[str, int]:
    """As documented: `sample_bytes` where all samples have one size; else room for half as much again as there is."""
    if not kind.side:
        mean = 3 * (sum(kind.sides) // 2) ** 2
        return {"capacity": mean * count * 3 // 2, "sample_bytes_max": rounded(3 * kind.sides[1] ** 2) + 64}
    # An image and its number.
    return {"sample_bytes": rounded(3 * kind.side**2) + 64}


def prepare(job: Job, option: str) -> None:
    return None


def finish(shared: None) -> None:
    return None


def open(job: Job, shared: None, option: str) -> Opened:
    files = job.dataset()
    options = cache_options(job.kind, len(files))
    if "capacity" not in options:
        options["capacity"] = ddpcache.Cache.estimate(len(files), options["sample_bytes"], fixed=True).capacity_bytes
    cache = ddpcache.Cache(job.name, length=len(files), fingerprint=fingerprint(files, job.name), **options)
    # Views, where a transform makes something new of each sample anyway.
    transform = Piece(job.kind) if job.kind.crop else None
    dataset = CachedDataset(files, cache, transform=transform, copy=transform is None)
    sampler = NodeSampler(dataset, seed=0)
    loader_type = torch.utils.data.DataLoader if option == "DataLoader" else ddpcache.torch.CachedLoader

    def close() -> None:
        dataset.close()
        cache.close()

    return Opened(loader_type(dataset, sampler=sampler, **job.loader_arguments()), sampler.set_epoch, close)
