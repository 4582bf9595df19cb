"""Trains a small network under DDP, as one would without ddpcache but for two lines: see node_cache.

torchrun starts this file once for each rank. The option --way chooses what it is compared with: see ways.py.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from ddpcache.torch import CachedDataset, NodeSampler
from digits import TRAIN, VALIDATION, DigitFiles
from measure import Epochs, memory_bytes, payload_bytes
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from ways import manager_dict, rank_cache

BATCH = 16
WORKERS = 4


def node_cache(files, name, shuffle, transform):
    """With ddpcache: one cache for all ranks and workers of the machine, and a sampler that makes it hit."""
    # ------------------------------------------------------------------- these two lines are all that changes --------
    dataset = CachedDataset(files, name, transform=transform, capacity="256MiB")
    sampler = NodeSampler(dataset, shuffle=shuffle)
    # -----------------------------------------------------------------------------------------------------------------
    return dataset, sampler


WAYS = {"node_cache": node_cache, "rank_cache": rank_cache, "manager_dict": manager_dict}


def augment(sample):
    """Moves the image by some pixels. What is random comes after the cache: it keeps what is decoded."""
    image, label = sample
    across, down = torch.randint(-6, 7, (2,)).tolist()
    return image.roll((down, across), dims=(1, 2)), label


def make_loader(way, files, name, train):
    dataset, sampler = way(files, name, train, augment if train else None)
    loader = DataLoader(dataset, BATCH, sampler=sampler, num_workers=WORKERS, persistent_workers=True)
    return loader, sampler


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.AvgPool2d(4),
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


def train_epoch(model, optimizer, loader, progress):
    model.train()
    loaded = 0
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loaded += len(labels)
        progress()
    return loaded


@torch.no_grad()
def validate(model, loader, real_size):
    """How many samples were right, were judged and were loaded.

    Ranks are dealt equal numbers of samples, for which some are repeated. They come last: only the first `real_size`
    of a rank count, so that each sample counts once.
    """
    model.eval()
    right = judged = loaded = 0
    for images, labels in loader:
        real = min(len(labels), max(0, real_size - loaded))
        answers = model(images / 255).argmax(1)
        right += int((answers == labels)[:real].sum())
        judged += real
        loaded += len(labels)
    return right, judged, loaded


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=WAYS, default="node_cache")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--name", default="digits", help="of the caches")
    parser.add_argument("--data", type=Path, required=True, help="folder of the PNG files")
    parser.add_argument("--output", type=Path, required=True, help="folder for the logs of decodes and the results")
    options = parser.parse_args()

    # DataLoader would advise fewer workers on a small machine.
    warnings.filterwarnings("ignore", "This DataLoader will create")
    dist.init_process_group("gloo")
    train_files = DigitFiles(options.data, TRAIN, options.output / "train.log")
    validation_files = DigitFiles(options.data, VALIDATION, options.output / "validation.log")

    way = WAYS[options.way]
    loader, sampler = make_loader(way, train_files, f"{options.name}-train", train=True)
    validation, validation_sampler = make_loader(way, validation_files, f"{options.name}-validation", train=False)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    epochs = Epochs(options.epochs, [train_files, validation_files])
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        begin = time.perf_counter()
        loaded = train_epoch(model, optimizer, loader, epochs.progress)
        right, judged, validated = validate(model, validation, validation_sampler.real_size)
        epochs.report(loaded + validated, right, judged, begin)

    results = {
        "epochs": epochs.results,
        "payload": payload_bytes([loader.dataset, validation.dataset]),
        "memory": memory_bytes(options.name),
    }
    if dist.get_rank() == 0:
        (options.output / "results.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
