"""LitData on local files: chunks of decoded samples, written before the ranks start."""

from __future__ import annotations

import multiprocessing
from functools import partial
from typing import Any

import torch
from images import Images, Kind
from litdata import StreamingDataLoader, StreamingDataset, optimize
from ways import Job, Opened


def sample(files: Images, number: int) -> dict[str, Any]:
    image, _ = files[number]
    return {"image": image, "number": number}


def write(job: Job) -> None:
    optimize(
        fn=partial(sample, job.dataset()),
        inputs=list(range(job.kind.count)),
        output_dir=str(job.stores),
        chunk_bytes="64MB",
        num_workers=min(job.decoders, multiprocessing.cpu_count()),
        start_method="fork",
        verbose=False,
    )


def prepare(job: Job, option: str) -> None:
    # In a process of its own: it leaves threads and variables behind.
    writer = multiprocessing.get_context("fork").Process(target=write, args=(job,))
    writer.start()
    writer.join()
    if writer.exitcode:
        raise RuntimeError(f"optimize ended with {writer.exitcode}")


def finish(shared: None) -> None:
    return None


def as_pair(kind: Kind, one: dict[str, Any]) -> tuple[torch.Tensor, int]:
    return kind.piece(one["image"], one["number"]), one["number"]


def open(job: Job, shared: None, option: str) -> Opened:
    dataset = StreamingDataset(str(job.stores), shuffle=True, drop_last=False, transform=partial(as_pair, job.kind))
    return Opened(StreamingDataLoader(dataset, **job.loader_arguments()))
