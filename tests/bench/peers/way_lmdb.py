"""One LMDB environment of decoded samples, in a file that all processes map."""

from __future__ import annotations

import os
import struct

import lmdb
import numpy as np
import torch
from images import Images, Kind
from torch.utils.data import Dataset
from ways import Job, Opened, torch_loader

HEIGHT_AND_WIDTH = struct.Struct("<II")


class InLmdb(Dataset):
    """An environment must not cross a fork: each process opens its own at its first sample."""

    def __init__(self, files: Images, kind: Kind, path: str) -> None:
        self.files = files
        self.kind = kind
        self.path = path
        side = kind.side or kind.sides[1]
        self.size = len(files) * (3 * side**2 + 8192) + 2**26
        self.opened_by = 0
        self.environment: lmdb.Environment | None = None

    def __len__(self) -> int:
        return len(self.files)

    def _open(self) -> lmdb.Environment:
        if self.opened_by != os.getpid():
            self.environment = lmdb.open(
                self.path,
                map_size=self.size,
                writemap=True,
                sync=False,
                metasync=False,
                map_async=True,
                meminit=False,
                readahead=False,
                max_readers=256,
            )
            self.opened_by = os.getpid()
        return self.environment

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        environment, key = self._open(), index.to_bytes(8, "big")
        with environment.begin(buffers=True) as reading:
            value = reading.get(key)
            if value is not None:
                shape = (*HEIGHT_AND_WIDTH.unpack_from(value), 3)
                image = np.frombuffer(value, np.uint8, offset=HEIGHT_AND_WIDTH.size).reshape(shape)
                # A buffer ends with its transaction.
                return torch.from_numpy(self.kind.piece(image, index).copy()), index
        image, _ = self.files[index]
        with environment.begin(write=True) as writing:
            writing.put(key, HEIGHT_AND_WIDTH.pack(*image.shape[:2]) + image.numpy().tobytes())
        return self.kind.piece(image, index), index

    def close(self) -> None:
        if self.environment is not None and self.opened_by == os.getpid():
            self.environment.close()


def prepare(job: Job, option: str) -> None:
    job.stores.mkdir(parents=True)


def finish(shared: None) -> None:
    return None


def open(job: Job, shared: None, option: str) -> Opened:
    files = job.dataset()
    dataset = InLmdb(files, job.kind, str(job.stores))
    return torch_loader(dataset, job, dataset.close)
