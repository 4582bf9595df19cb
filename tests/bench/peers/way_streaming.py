"""MosaicML streaming on local files: MDS shards of decoded samples, written before the ranks start."""

from __future__ import annotations

import multiprocessing
from typing import Any

import torch
from images import Images, Kind
from ways import Job, Opened

if torch.version.cuda is None:
    # torchvision's wheels are built for a torch with CUDA: with another its library does not load, and its import then
    # fails for want of these declarations. streaming imports it, and uses nothing of it here.
    torchvision_operators = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        torchvision_operators.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402
from streaming.base.util import merge_index  # noqa: E402


def column(side: int) -> str:
    return f"ndarray:uint8:{side},{side},3" if side else "ndarray:uint8"


def write_part(work: tuple[Images, str, int, range]) -> None:
    files, folder, side, numbers = work
    with MDSWriter(out=folder, columns={"image": column(side), "number": "int"}) as out:
        for number in numbers:
            image, _ = files[number]
            out.write({"image": image.numpy(), "number": number})


def prepare(job: Job, option: str) -> None:
    files = job.dataset()
    job.stores.mkdir(parents=True)
    parts = min(job.decoders, multiprocessing.cpu_count())
    size = -(-len(files) // parts)
    works = [
        (files, str(job.stores / f"{part}"), job.kind.side, range(part * size, min((part + 1) * size, len(files))))
        for part in range(parts)
    ]
    with multiprocessing.get_context("fork").Pool(parts) as pool:
        pool.map(write_part, works, chunksize=1)
    merge_index(str(job.stores), keep_local=True)


def finish(shared: None) -> None:
    return None


class Decoded(StreamingDataset):
    def __init__(self, kind: Kind, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind

    def __getitem__(self, at: Any) -> tuple[torch.Tensor, int]:
        sample = super().__getitem__(at)
        # The image is a view of bytes, which must not be written to.
        return torch.from_numpy(self.kind.piece(sample["image"], sample["number"]).copy()), sample["number"]


def open(job: Job, shared: None, option: str) -> Opened:
    dataset = Decoded(job.kind, local=str(job.stores), shuffle=True, batch_size=job.kind.batch, num_canonical_nodes=1)
    return Opened(StreamingDataLoader(dataset, **job.loader_arguments()))
