"""What the examples of this folder share: handwritten digits behind a cache, a network, and what is printed at the end.

Each decode is noted in a file by the process that did it, so that "decoded once" need not be believed of the cache.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from ddpcache.torch import CachedDataset, NodeSampler
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

PARTS = {"train": range(1438), "validation": range(1438, 1797)}
EPOCHS, BATCH, WORKERS = 3, 32, 1


def parse_options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("name", nargs="?", default="digits", help="of the caches, and of the files that note decodes")
    parser.add_argument("--notes", type=Path, default=Path(tempfile.gettempdir()), help="folder of these files")
    return parser.parse_args()


class Digits(Dataset):
    """scikit-learn's digits as PNG files in memory. Sample i is the i-th one decoded, 1x8x8, and its label."""

    def __init__(self, part: str, notes: Path) -> None:
        digits, numbers = load_digits(), PARTS[part]
        self.files = [png(digits.images[number]) for number in numbers]
        self.labels = [int(digits.target[number]) for number in numbers]
        self.notes = notes

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.notes.open("a") as notes:
            notes.write(f"{index}\n")
        pixels = np.asarray(Image.open(io.BytesIO(self.files[index])), np.float32)
        return torch.from_numpy(pixels[None] / 255), self.labels[index]


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray((image * 15).astype(np.uint8)).save(file, "png")
    return file.getvalue()


def make_loader(part: str, name: str, notes: Path) -> DataLoader:
    """The two lines of ddpcache: what decodes goes behind a cache, and a sampler leaves samples on their node."""
    dataset = CachedDataset(Digits(part, notes_of(part, name, notes)), f"{name}-{part}", capacity="8MiB")
    sampler = NodeSampler(dataset, shuffle=part == "train")
    return DataLoader(dataset, BATCH, sampler=sampler, num_workers=WORKERS, persistent_workers=WORKERS > 0)


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def real_size(loader: DataLoader, batch: int, size: int) -> int:
    """How many samples of a batch are no repeats, which come last: only these count in a metric."""
    return min(size, max(0, loader.sampler.real_size - batch * BATCH))


@torch.no_grad()
def count_right(model: nn.Module, loader: DataLoader) -> torch.Tensor:
    """How many samples of this rank the model reads right, and how many there are, repeats not counted."""
    counts = torch.zeros(2, dtype=torch.int64)
    for batch, (images, labels) in enumerate(loader):
        real = real_size(loader, batch, len(labels))
        right = (model(images).argmax(1) == labels)[:real].sum()
        counts += torch.tensor([right, real])
    return counts


def notes_of(part: str, name: str, notes: Path) -> Path:
    return notes / f"{name}-{part}.decodes"


def report(name: str, notes: Path, right: int, count: int) -> None:
    """Said by one rank when all have trained. Takes the notes away."""
    print(f"reads {right} of {count} right, {right / count:.1%}")
    for part, numbers in PARTS.items():
        file = notes_of(part, name, notes)
        times = Counter(map(int, file.read_text().split()))
        file.unlink()
        others = {index: times[index] for index in range(len(numbers)) if times[index] != 1}
        if others:
            raise SystemExit(f"{part}: not decoded once, but as often as this: {others}")
        print(f"{part}: {times.total()} of {len(numbers)} samples decoded on this node, each once", flush=True)


def rank_threads() -> None:
    """Ranks that share cores are fastest with one thread each."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
