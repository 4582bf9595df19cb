"""What is compared: each peer in the best form that its documentation has for ranks that share a machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import Images, Kind
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclass(frozen=True)
class Job:
    """One run of a way: its data, its ranks and where it may write."""

    kind: Kind
    images: Path
    folder: Path
    ranks: int
    workers: int
    """Of each rank."""
    name: str

    @property
    def log(self) -> Path:
        return self.folder / "decodes"

    @property
    def stores(self) -> Path:
        """Where files of decoded samples go."""
        return self.folder / "stores"

    @property
    def decoders(self) -> int:
        """Processes that prepare, where that is done before the ranks start: as many as decode in the other ways."""
        return max(1, self.ranks * max(1, self.workers))

    def dataset(self) -> Images:
        return Images(self.images, self.log)

    def loader_arguments(self) -> dict[str, Any]:
        return {
            "batch_size": self.kind.batch,
            "num_workers": self.workers,
            "persistent_workers": self.workers > 0,
            "collate_fn": list if self.kind.ragged else None,
        }


@dataclass
class Opened:
    """What a rank reads from."""

    loader: Iterable
    set_epoch: Callable[[int], object] = lambda epoch: None
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Way:
    """`module` has the functions prepare(job) -> shared, run by the launcher before it starts the ranks, and
    open(job, shared) -> Opened, run by each rank; `option` is given to both where it is not empty."""

    name: str
    module: str
    package: str
    form: str
    first: str
    """What the first epoch is."""
    why: str
    """What it saves where it is ahead."""
    why_memory: str = ""
    option: str = ""
    without_workers: bool = True
    """Whether it is also measured with num_workers=0."""
    keeps: bool = True
    """Whether it holds samples, so that its memory can be compared."""
    one_size: bool = False
    """Whether it holds images of one size only."""

    @property
    def is_ours(self) -> bool:
        return self.package == "ddpcache"


WAYS = {
    "ddpcache-loader": Way(
        "ddpcache, CachedLoader",
        "way_ddpcache",
        "ddpcache",
        "one cache for all ranks; `CachedDataset`, `NodeSampler` and `CachedLoader`",
        "decodes into the cache",
        "",
        option="CachedLoader",
    ),
    "ddpcache": Way(
        "ddpcache, DataLoader",
        "way_ddpcache",
        "ddpcache",
        "one cache for all ranks; `CachedDataset` and `NodeSampler` with torch's `DataLoader`",
        "decodes into the cache",
        "",
        option="DataLoader",
    ),
    "none": Way(
        "no cache",
        "way_plain",
        "torch",
        "`DataLoader` and `DistributedSampler` on the files",
        "decodes",
        "",
        option="none",
        keeps=False,
        without_workers=False,
    ),
    "rank-dict": Way(
        "a dict in each rank",
        "way_plain",
        "torch",
        "a dict in the data set, thus in each process that loads; torch's `DistributedSampler`",
        "decodes into the dicts",
        "a sample is a tensor of the process's own already, of which a batch is the only copy",
        option="dict",
    ),
    "manager": Way(
        "Manager().dict()",
        "way_plain",
        "torch",
        "one dict in a server process, made before the ranks start, for all of them; torch's `DistributedSampler`",
        "decodes into the dict",
        "",
        option="manager",
        without_workers=False,
    ),
    "stocaching": Way(
        "stocaching",
        "way_stocaching",
        "stocaching",
        "`SharedCache` made by the data set, as documented: each rank has one, shared with its workers",
        "decodes into the caches",
        "a slot is a tensor view that is handed out without a copy or a look-up of its shape",
        one_size=True,
    ),
    "monai": Way(
        "MONAI CacheDataset",
        "way_monai",
        "monai",
        "`CacheDataset` with a thread a worker, all of the data in each rank; torch's `DistributedSampler`",
        "the constructor's decodes, then an epoch",
        "samples are tensors in a list of the process's own, of which a batch is the only copy",
        option="all",
    ),
    "monai-part": Way(
        "MONAI CacheDataset, partition_dataset",
        "way_monai",
        "monai",
        "the same, of a fixed part of the data for each rank: a rank never sees other samples, which costs accuracy",
        "the constructor's decodes, then an epoch",
        "samples are tensors in a list of the process's own, of which a batch is the only copy; ranks share nothing",
        option="part",
    ),
    "monai-runtime": Way(
        "MONAI CacheDataset, runtime_cache",
        "way_monai",
        "monai",
        "`runtime_cache` a `Manager().list()` made before the ranks start, as documented for distributed training",
        "decodes into the list",
        "",
        option="runtime",
        without_workers=False,
    ),
    "lmdb": Way(
        "LMDB",
        "way_lmdb",
        "lmdb",
        "one environment of decoded samples for all ranks, written by whoever decodes (writemap, no sync)",
        "decodes into the file",
        "a sample is in a sorted file that is mapped once, and is looked up without shape or type",
    ),
    "streaming": Way(
        "MosaicML streaming",
        "way_streaming",
        "mosaicml-streaming",
        "decoded samples as MDS shards (`ndarray:uint8`), written in parallel; `StreamingDataset(local=...)`",
        "`MDSWriter` writes all samples, then an epoch",
        "shards are read in whole and in order of the disk",
    ),
    "litdata": Way(
        "LitData",
        "way_litdata",
        "litdata",
        "decoded samples as chunks of 64 MB by `optimize`; `StreamingDataset(shuffle=True)`, which maps local chunks",
        "`optimize` writes all samples, then an epoch",
        "chunks are mapped, and read in order of the disk",
    ),
}


def torch_loader(dataset: Dataset, job: Job, close: Callable[[], object] = lambda: None) -> Opened:
    """torch's DataLoader and its distributed sampler."""
    sampler = DistributedSampler(dataset, seed=0)
    return Opened(DataLoader(dataset, sampler=sampler, **job.loader_arguments()), sampler.set_epoch, close)


def workers_of(ranks: int) -> int:
    """Workers for each rank, where it has any: as many as there are cores for."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)
