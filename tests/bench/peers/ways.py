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
        }


@dataclass
class Opened:
    """What a rank reads from."""

    loader: Iterable
    set_epoch: Callable[[int], object] = lambda epoch: None
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Way:
    """`module` has the functions prepare(job, option) -> shared and finish(shared), for the launcher before it starts
    the ranks and after they have ended, and open(job, shared, option) -> Opened, for each rank."""

    name: str
    module: str
    option: str = ""
    package: str
    form: str
    """How it is used."""
    first: str
    """What its first epoch is."""
    why: str = ""
    """Of the lead that it may have in speed."""
    why_memory: str = ""
    """Of the lead that it may have in memory, where images are of any size."""
    without_workers: bool = True
    """Whether it is also measured with num_workers=0."""
    keeps: bool = True
    """Whether it holds samples, so that its memory can be compared."""
    one_size: bool = False
    """Whether it holds images of one size only."""

    @property
    def is_ours(self) -> bool:
        return self.package == "ddpcache"


OWN_TENSORS = "samples are tensors of the process's own, of which a batch is the only copy"
FEW_SAMPLES = "it packs images of any size closely, where a cache of so few samples wastes some in each class of sizes"
COPIED_AHEAD = "CachedLoader has memory for three batches in each rank, to copy ahead, and keeps it between epochs"

WAYS = {
    "ddpcache-loader": Way(
        name="ddpcache, CachedLoader",
        module="way_ddpcache",
        option="CachedLoader",
        package="ddpcache",
        form="one cache for all ranks; `CachedDataset`, `NodeSampler` and `CachedLoader`",
        first="decodes into the cache",
    ),
    "ddpcache": Way(
        name="ddpcache, DataLoader",
        module="way_ddpcache",
        option="DataLoader",
        package="ddpcache",
        form="one cache for all ranks; `CachedDataset` and `NodeSampler` with torch's `DataLoader`",
        first="decodes into the cache",
    ),
    "none": Way(
        name="no cache",
        module="way_plain",
        option="none",
        package="torch",
        form="`DataLoader` and `DistributedSampler` on the files",
        first="decodes",
        without_workers=False,
        keeps=False,
    ),
    "rank-dict": Way(
        name="a dict in each rank",
        module="way_plain",
        option="dict",
        package="torch",
        form="a dict in the data set, thus in each process that loads; torch's `DistributedSampler`",
        first="decodes into the dicts",
        why=OWN_TENSORS,
        why_memory=f"one rank shares nothing with anybody; {FEW_SAMPLES}",
    ),
    "manager": Way(
        name="Manager().dict()",
        module="way_plain",
        option="manager",
        package="torch",
        form="one dict in a server process, made before the ranks start, for all of them; torch's `DistributedSampler`",
        first="decodes into the dict",
        without_workers=False,
    ),
    "stocaching": Way(
        name="stocaching",
        module="way_stocaching",
        package="stocaching",
        form="`SharedCache` made by the data set, as documented: each rank has one, shared with its workers",
        first="decodes into the caches",
        why="a slot is a tensor that is handed out without a copy, of which a batch is the only one",
        one_size=True,
    ),
    "monai": Way(
        name="MONAI CacheDataset",
        module="way_monai",
        option="all",
        package="monai",
        form="`CacheDataset` with a thread a worker, all of the data in each rank; torch's `DistributedSampler`",
        first="the constructor's decodes, then an epoch",
        why=OWN_TENSORS,
    ),
    "monai-part": Way(
        name="MONAI CacheDataset, partition_dataset",
        module="way_monai",
        option="part",
        package="monai",
        form="the same, of a fixed part of the data for each rank, which never sees other samples: that costs accuracy",
        first="the constructor's decodes, then an epoch",
        why=OWN_TENSORS,
    ),
    "monai-runtime": Way(
        name="MONAI CacheDataset, runtime_cache",
        module="way_monai",
        option="runtime",
        package="monai",
        form="`runtime_cache` a `Manager().list()` made before the ranks start, as documented for distributed training",
        first="decodes into the list",
        without_workers=False,
    ),
    "lmdb": Way(
        name="LMDB",
        module="way_lmdb",
        package="lmdb",
        form="one environment of decoded samples for all ranks, written by whoever decodes (writemap, no sync)",
        first="decodes into the file",
        why="a sample is found in a file that is mapped once, without shapes and types to look up",
        why_memory=FEW_SAMPLES,
    ),
    "streaming": Way(
        name="MosaicML streaming",
        module="way_streaming",
        package="mosaicml-streaming",
        form="decoded samples as MDS shards (`ndarray:uint8`), written in parallel; `StreamingDataset(local=...)`",
        first="`MDSWriter` writes all samples, then an epoch",
        why="shards are read in the order of the disk",
        why_memory=FEW_SAMPLES,
    ),
    "litdata": Way(
        name="LitData",
        module="way_litdata",
        package="litdata",
        form="decoded samples as chunks of 64 MB by `optimize`; `StreamingDataset(shuffle=True)` maps local chunks",
        first="`optimize` writes all samples, then an epoch",
        why="chunks are mapped, and read in the order of the disk",
        why_memory=FEW_SAMPLES,
    ),
}


class Pieces(Dataset):
    """What is delivered of the samples of a data set."""

    def __init__(self, samples: Dataset, kind: Kind) -> None:
        self.samples = samples
        self.kind = kind

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, number = self.samples[index]
        return self.kind.piece(image, number), number


def torch_loader(dataset: Dataset, job: Job, close: Callable[[], object] = lambda: None) -> Opened:
    """torch's DataLoader and its distributed sampler."""
    sampler = DistributedSampler(dataset, seed=0)
    return Opened(DataLoader(dataset, sampler=sampler, **job.loader_arguments()), sampler.set_epoch, close)


def workers_of(ranks: int) -> int:
    """Workers for each rank, where it has any: as many as there are cores for."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)
