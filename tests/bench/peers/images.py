"""The data sets: pieces of real photographs and micrographs, written as JPEG files, so that a decode is real work."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

# Of a sample's bytes so many are added up, to compare what was delivered with what was decoded, and to touch each page.
TOUCH_STRIDE = 997
BYTES_LOGGED = 4

Pixels = TypeVar("Pixels", torch.Tensor, np.ndarray)


@dataclass(frozen=True)
class Kind:
    """Images of one size, or (side 0) of any between `sides`, of which each read takes a piece as large as `crop`."""

    name: str
    count: int
    batch: int
    side: int = 0
    sides: tuple[int, int] = (0, 0)
    crop: int = 0

    def scaled(self, factor: float) -> Kind:
        # At least two batches for each of four ranks.
        return replace(self, count=max(8 * self.batch, round(self.count * factor)))

    def piece(self, image: Pixels, number: int) -> Pixels:
        """What is delivered of a sample, as a view: all, or a piece from a place that its number says."""
        if not self.crop:
            return image
        height, width = (size - self.crop + 1 for size in image.shape[:2])
        top, left = 7919 * number % height, 104729 * number % width
        return image[top : top + self.crop, left : left + self.crop]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("4 KB", count=3072, batch=64, side=37),
        Kind("150 KB", count=1280, batch=32, side=224),
        Kind("4 MB", count=64, batch=2, side=1155),
        Kind("any size, cropped", count=256, batch=32, sides=(256, 640), crop=224),
    )
}


@functools.cache
def _sources() -> list[Image.Image]:
    from skimage import data
    from sklearn.datasets import load_sample_images

    names = ("astronaut", "chelsea", "coffee", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")
    arrays = [getattr(data, name)() for name in names] + list(load_sample_images().images)
    return [Image.fromarray(array) for array in arrays]


def _write_some(work: tuple[Kind, Path, range]) -> list[tuple[int, int, int]]:
    """Writes these files, and returns of each the bytes it decodes to, those delivered and the sum these have."""
    (kind, folder, numbers), sources, known = work, _sources(), []
    for number in numbers:
        random = np.random.default_rng((7, number))
        source = sources[number % len(sources)]
        width, height = (kind.side, kind.side) if kind.side else random.integers(*kind.sides, size=2, endpoint=True)
        # A piece of at least half of the picture each way.
        spans = [int(whole * random.uniform(0.5, 1.0)) for whole in source.size]
        left, upper = (
            int(random.integers(0, whole - span + 1)) for whole, span in zip(source.size, spans, strict=True)
        )
        piece = source.crop((left, upper, left + spans[0], upper + spans[1]))
        file = folder / f"{number:06}.jpg"
        piece.resize((int(width), int(height)), Image.Resampling.BICUBIC).save(file, quality=90)
        pixels = decode(file)
        piece = kind.piece(pixels, number)
        known.append((pixels.numel(), piece.numel(), int(touched(piece.flatten()[None])[0])))
    return known


def write(kind: Kind, folder: Path) -> int:
    """Writes the files of a kind, and what is known of each; returns the bytes that all of them decode to."""
    folder.mkdir(parents=True)
    size = -(-kind.count // 16)
    _sources()  # before the processes are forked
    parts = [(kind, folder, range(first, min(first + size, kind.count))) for first in range(0, kind.count, size)]
    # Ended by the signal for which its parent has a handler.
    context, default = multiprocessing.get_context("fork"), (signal.SIGTERM, signal.SIG_DFL)
    with context.Pool(os.cpu_count(), signal.signal, default) as pool:
        known = [one for part in pool.map(_write_some, parts) for one in part]
    np.save(folder / "known.npy", np.array(known, dtype=np.int64))
    return sum(size for size, *_ in known)


def decode(file: Path) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(file)))


def touched(rows: torch.Tensor) -> torch.Tensor:
    """The sum of some bytes of each row."""
    return rows[:, ::TOUCH_STRIDE].sum(1, dtype=torch.int64)


class Images(Dataset):
    """Sample i is file i, decoded: height x width x 3 of uint8, and i.

    Each decode is noted in a log, by whatever process it is done, so that the comparison need not believe the caches.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self.files = sorted(folder.glob("*.jpg"))
        self.log = log

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.log.open("ab", buffering=0) as log:
            log.write(struct.pack("<i", index))
        return decode(self.files[index]), index


def decodes(log: Path) -> int:
    return log.stat().st_size // BYTES_LOGGED if log.exists() else 0


class Reader:
    """Reads epochs of a loader as a training would, and notices samples that are not what was decoded."""

    def __init__(self, folder: Path) -> None:
        known = torch.from_numpy(np.load(folder / "known.npy"))
        self.sizes, self.sums = known[:, 1], known[:, 2]
        self.bytes = 0

    def epoch(self, loader: object, note: Callable[[torch.Tensor], object] = lambda numbers: None) -> int:
        """Reads all batches, and returns how many samples they had."""
        count = 0
        for images, numbers in loader:
            if not torch.equal(touched(images.flatten(1)), self.sums[numbers]):
                raise ValueError(f"samples of other content were delivered, among {numbers.tolist()}")
            note(numbers)
            count += len(numbers)
            self.bytes += int(self.sizes[numbers].sum())
        return count
