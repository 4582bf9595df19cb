"""The data: scikit-learn's handwritten digits as PNG files, whose decoding costs what a cache saves."""

from __future__ import annotations

import os
import shutil
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

SIDE = 128
TRAIN = range(1437)
VALIDATION = range(1437, 1797)


def write_files(folder: Path) -> None:
    """Writes the 1,797 images of 8x8 pixels as RGB files of 128x128, if that has not been done."""
    from sklearn.datasets import load_digits

    if folder.exists():
        return
    digits = load_digits()
    random = np.random.default_rng(seed=0)
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        grey = Image.fromarray((image * 15).astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        colour = random.uniform(0.5, 1.0, size=3)
        pixels = np.asarray(grey)[:, :, None] * colour + random.integers(0, 12, size=(SIDE, SIDE, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(fresh / f"{number:04}-{label}.png", compress_level=1)
    try:
        fresh.rename(folder)
    except OSError:  # another run was faster
        shutil.rmtree(fresh)


class DigitFiles(Dataset):
    """Sample i is file i of a range, decoded: an image of uint8, 3x128x128, and its label.

    Each decode is noted in a log, by whatever process it is done, so that the comparison need not believe the caches.
    """

    def __init__(self, folder: Path, numbers: range, log: Path) -> None:
        self.files = sorted(folder.glob("*.png"))[numbers.start : numbers.stop]
        self.log = log

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.log.open("ab", buffering=0) as log:
            log.write(struct.pack("<i", index))
        file = self.files[index]
        pixels = np.array(Image.open(file))
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), int(file.stem[-1])


def decodes(log: Path) -> Counter[int]:
    """How often each sample of a data set was decoded."""
    data = log.read_bytes() if log.exists() else b""
    return Counter(index for (index,) in struct.iter_unpack("<i", data))
