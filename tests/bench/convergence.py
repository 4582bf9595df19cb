#!/usr/bin/env python3
"""Does a shuffle that leaves samples on their nodes train as well as a global one?

    tests/setup && build/venv/bin/python tests/bench/convergence.py [--write]

A small convolutional network with batch normalisation is trained on Fashion-MNIST, sorted by label, by eight simulated
ranks: each normalises with its own batch's statistics, gradients are averaged, and the indices are dealt by the real
sampler. docs/convergence.md says what the arms are and holds the results, which --write renews with their plot.
The images are those of Debian's package dataset-fashion-mnist, or any in MNIST's file format in the folder given.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import json
import math
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import ddpcache
import numpy as np
import torch
from convergence_report import write_document
from scipy.stats import t as student
from torch import nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path("/usr/share/datasets/fashion-mnist")
CLASSES = 10
RANKS = 8
RANK_BATCH = 16
LEARNING_RATE = 0.1
# What the claim allows between an arm's mean accuracy and that of the global shuffle, in points.
POINTS = 0.5


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way of dealing the samples to the ranks."""

    name: str
    nodes: int = 1
    order: str = "node"
    ring: bool = True
    exchange: float = 0.0
    reseeded: bool = False

    def samplers(self, length: int, seed: int) -> list[ddpcache.Sampler]:
        """One for each rank. The ring is the seed's too, so that no single placement decides."""
        local_size = RANKS // self.nodes
        return [
            ddpcache.Sampler(
                length,
                order=self.order,
                seed=seed + 10_000 * self.reseeded,
                ring_seed=seed,
                ring_identity=not self.ring,
                exchange=self.exchange,
                topology=ddpcache.Topology(rank // local_size, self.nodes, rank % local_size, local_size),
            )
            for rank in range(RANKS)
        ]


REFERENCE = Arm("global shuffle", order="torch")
ARMS = [
    REFERENCE,
    Arm("global shuffle, other orders", order="torch", reseeded=True),
    *(
        Arm(f"{nodes} nodes, {'NODE' if ring else 'ring off'}, exchange {exchange:g}", nodes, "node", ring, exchange)
        for nodes in (2, 4)
        for ring in (True, False)
        for exchange in (0.0, 0.1)
    ),
]


class RankBatchNorm(nn.Module):
    """BatchNorm2d of RANKS ranks at once. Their batches come one after the other; each has statistics of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("means", torch.zeros(RANKS * channels))
        self.register_buffer("variances", torch.ones(RANKS * channels))
        # Whose running statistics evaluation uses. DistributedDataParallel keeps rank 0's.
        self.rank_0 = True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        count, channels, *sides = images.shape
        if not self.training:
            means, variances = self.means.view(RANKS, channels), self.variances.view(RANKS, channels)
            chosen = (means[0], variances[0]) if self.rank_0 else (means.mean(0), variances.mean(0))
            return functional.batch_norm(images, *chosen, self.weight, self.bias)
        # Channels of different ranks become different channels.
        apart = images.view(RANKS, count // RANKS, channels, *sides).transpose(0, 1).flatten(1, 2)
        normal = functional.batch_norm(
            apart, self.means, self.variances, self.weight.repeat(RANKS), self.bias.repeat(RANKS), training=True
        )
        return normal.unflatten(1, (RANKS, channels)).transpose(0, 1).flatten(0, 1)


def network(side: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        RankBatchNorm(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        RankBatchNorm(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, CLASSES),
    )


Part = tuple[torch.Tensor, torch.Tensor]  # images and labels


def read_idx(file: Path) -> np.ndarray:
    """An array in MNIST's format: a magic number whose last byte counts the dimensions, these, then bytes."""
    if not file.exists():
        raise SystemExit(f"{file} is not there: apt-get install dataset-fashion-mnist, or give its folder by --folder")
    content = gzip.decompress(file.read_bytes())
    dimensions = np.frombuffer(content, ">i4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(dimensions)).reshape(dimensions)


@functools.cache
def read_images(folder: Path) -> tuple[Part, Part]:
    """Training and test images, 28 x 28 ones halved, about zero."""
    parts = []
    for prefix in ("train", "t10k"):
        images = torch.from_numpy(read_idx(folder / f"{prefix}-images-idx3-ubyte.gz").astype(np.float32) / 255)
        labels = torch.from_numpy(read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz").astype(np.int64))
        parts.append((functional.avg_pool2d(images[:, None], max(1, images.shape[-1] // 14)), labels))
    centre = parts[0][0].mean()
    return (parts[0][0] - centre, parts[0][1]), (parts[1][0] - centre, parts[1][1])


def sorted_subset(part: Part, samples: int, seed: int) -> Part:
    """As many of each class, sorted by label."""
    images, labels = part
    generator = np.random.default_rng(seed)
    members = [np.flatnonzero(labels.numpy() == label) for label in range(CLASSES)]
    if samples % CLASSES or samples // CLASSES > min(map(len, members)):
        raise SystemExit(f"{samples} samples are not {CLASSES} equal parts of classes of {min(map(len, members))}")
    chosen = np.concatenate([generator.choice(own, samples // CLASSES, replace=False) for own in members])
    return images[chosen], labels[chosen]


def accuracy(model: nn.Module, part: Part, rank_0: bool) -> float:
    """In per cent."""
    for module in model.modules():
        if isinstance(module, RankBatchNorm):
            module.rank_0 = rank_0
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(images).argmax(1) == labels).sum().item()
            for images, labels in zip(part[0].split(256), part[1].split(256), strict=True)
        )
    return 100 * right / len(part[1])


def train(arm: Arm, seed: int, folder: Path, samples: int, epochs: int) -> tuple[float, float]:
    """Accuracy on the test images with rank 0's running statistics, and with the mean of all ranks'."""
    torch.set_num_threads(1)
    training, test = read_images(folder)
    images, labels = sorted_subset(training, samples, seed)
    torch.manual_seed(seed)
    model = network(images.shape[-1])
    samplers = arm.samplers(samples, seed)
    steps = len(samplers[0]) // RANK_BATCH
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps * epochs)
    model.train()
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        dealt = torch.from_numpy(np.stack([sampler.read() for sampler in samplers]))
        for step in range(steps):
            batch = dealt[:, step * RANK_BATCH : (step + 1) * RANK_BATCH].flatten()
            optimizer.zero_grad()
            # The mean over all is the mean of the ranks' means: their gradients averaged.
            functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    return accuracy(model, test, True), accuracy(model, test, False)


def summary(values: list[float], reference: list[float]) -> dict[str, float | bool]:
    """Mean accuracy, and the mean of the differences to the reference with its 95 % confidence interval."""
    differences = [own - other for own, other in zip(values, reference, strict=True)]
    mean = statistics.mean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = float(student.ppf(0.975, len(differences) - 1)) * error
    return {
        "mean": statistics.mean(values),
        "deviation": statistics.stdev(values),
        "difference": mean,
        "low": mean - half,
        "high": mean + half,
        "within": max(abs(mean - half), abs(mean + half)) <= POINTS,
    }


def study(folder: Path, seeds: int, samples: int, epochs: int, processes: int) -> dict:
    """All arms with all seeds; an arm's run and the reference's share subset, first weights and ring."""
    begin = time.monotonic()
    # Not forked: the threads of the parent's torch would be missing.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        runs = {
            arm.name: [pool.submit(train, arm, seed, folder, samples, epochs) for seed in range(seeds)] for arm in ARMS
        }
        found = {name: [run.result() for run in of_arm] for name, of_arm in runs.items()}
    arms = {}
    for name, accuracies in found.items():
        of_rank_0, of_mean = ([pair[kind] for pair in accuracies] for kind in (0, 1))
        reference_of_rank_0, reference_of_mean = ([pair[kind] for pair in found[REFERENCE.name]] for kind in (0, 1))
        arms[name] = {
            "rank 0": {"accuracies": of_rank_0, **summary(of_rank_0, reference_of_rank_0)},
            "mean of ranks": {"accuracies": of_mean, **summary(of_mean, reference_of_mean)},
        }
    return {
        "seeds": seeds,
        "training samples": samples,
        "test samples": len(read_images(folder)[1][1]),
        "epochs": epochs,
        "ranks": RANKS,
        "batch of a rank": RANK_BATCH,
        "points": POINTS,
        "seconds": round(time.monotonic() - begin),
        "processes": processes,
        "versions": {"ddpcache": ddpcache.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "reference": REFERENCE.name,
        "arms": arms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"of the four files; default {FOLDER}")
    parser.add_argument("--seeds", type=int, default=10, help="at least 2; default 10")
    parser.add_argument("--samples", type=int, default=10_240, help="to train on; default 10240")
    parser.add_argument("--epochs", type=int, default=10, help="default 10")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: as many as there are cores")
    parser.add_argument("--write", action="store_true", help="renew docs/convergence.md, .json and .svg")
    parser.add_argument("--results", type=Path, help="write the results to this file, as JSON")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("a confidence interval needs two seeds")
    read_images(arguments.folder)
    results = study(arguments.folder, arguments.seeds, arguments.samples, arguments.epochs, arguments.processes)
    if arguments.results:
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    write_document(results, ROOT / "docs" if arguments.write else None)


if __name__ == "__main__":
    main()
