"""In place of the package stocaching (0.2.1): the same names, arguments, properties and errors, over ddpcache.

    from ddpcache.compat.stocaching import SharedCache       # was: from stocaching import SharedCache

`SharedCache` is, as the original, for one process and its children. `SharedCacheDDP` takes the same arguments, and all
ranks of a machine share one. What differs from the original is in docs/drop-ins.md.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch

from .. import Cache, SharedDict, job_id
from .._samples import TORCH_CODES

__all__ = ["SharedCache", "SharedCacheDDP", "get_shm_size"]

BYTES_PER_GIB = 1024**3
_DTYPES = {name: getattr(torch, name) for name in TORCH_CODES if hasattr(torch, name)}
_IN_PLACE = frozenset(
    f"__{name}__"
    for name in "setitem iadd isub imul itruediv idiv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
)

# The ranks that mp.spawn or Lightning start inherit the job's name from the process that has imported this.
job_id()


class SlotState(Enum):
    """What `aux_array` holds of a sample."""

    EMPTY = 0
    SET = 1
    OOB = 2


class SharedCache:
    """Slots for the first samples of a data set, as many as fit, in memory that this process shares with its children.

    ``cache[i]`` and ``cache[i] = x`` read and write slots and do not care whether they are set, so a slot that was
    never written is zeros; `get_slot` and `set_slot` take indices of the whole data set, and do care. What is read is
    the reader's own.

    Args:
        size_limit_gib: largest size of the samples in the cache, with a byte for each of the data set, in GiB. Each
            slot that is filled takes up to 256 bytes more.
        dataset_len: samples of the data set
        data_dims: the shape of a sample
        dtype: of the samples: any of torch's bool, int, uint, float, bfloat and complex types

    Prints how many samples have slots. Raises ValueError for another dtype; NoSpaceError (a MemoryError) where the
    machine has not that much.
    """

    def __init__(
        self, size_limit_gib: int, dataset_len: int, data_dims: tuple[int, ...], dtype: torch.dtype = torch.uint8
    ) -> None:
        self._open(size_limit_gib, dataset_len, data_dims, dtype, None, None)

    def _open(
        self, limit: int, dataset_len: int, dims: tuple[int, ...], dtype: torch.dtype, name: str | None, job: int | None
    ) -> None:
        if dtype not in _DTYPES.values():
            raise ValueError(f"Unsupported dtype: {dtype}. It is one of {', '.join(_DTYPES)}")
        slot_bytes = int(np.prod(dims) * dtype.itemsize)
        self._length = _slots(limit, dataset_len, slot_bytes)
        self._dims, self._dtype = tuple(torch.Size(dims)), dtype
        if any(size < 0 for size in self._dims):
            raise ValueError(f"a sample's shape has no negative sizes: {self._dims}")
        # Without memory of its own; it says which indices torch takes, and what it raises for others.
        self._of_samples = torch.zeros((), dtype=torch.uint8).expand(dataset_len)
        # Spare ones for slots that several processes replace at one moment; of large slots, which are few, only some.
        spare = 4 + min(60, self._length // 16)
        capacity = Cache.estimate(self._length + spare, max(slot_bytes, 1) + 64, fixed=True).capacity_bytes
        # Sample i is under i where its slot is set, and under -1-i where it was written by cache[i] = x only.
        self._dict = SharedDict(
            name,
            length=2 * self._length + 1,
            capacity=capacity,
            sample_bytes=max(slot_bytes, 1),
            fingerprint=None if job is None else f"{dataset_len} samples, {self._dims} of {dtype}, job {job}",
        )

    @property
    def array(self) -> torch.Tensor:
        """A copy of all slots, of shape (slots, *data_dims). What would change it in place raises RuntimeError."""
        return self._rows(range(self._length)).as_subclass(_Snapshot)

    @property
    def aux_array(self) -> torch.Tensor:
        """For each sample of the data set: 0 its slot is not set, 1 it is, 2 it has none; a copy, as `array`."""
        states = np.full(len(self._of_samples), SlotState.OOB.value, np.uint8)
        states[: self._length] = np.fromiter(
            (index in self._dict for index in range(self._length)), np.uint8, self._length
        )
        return torch.from_numpy(states).as_subclass(_Snapshot)

    def __getitem__(self, idx: Any) -> torch.Tensor:
        if type(idx) is int and -self._length <= idx < self._length:
            return self._row(idx % self._length)
        if isinstance(idx, slice):
            return self._rows(torch.arange(self._length)[idx].tolist())
        if type(idx) is int:
            raise self._beyond(idx)
        return self._rows(range(self._length))[idx]

    def __setitem__(self, idx: Any, value: Any) -> None:
        if type(idx) is int:
            if not -self._length <= idx < self._length:
                with contextlib.suppress(RuntimeError):
                    self._made(value)  # torch looks at the value's type first, and at its shape last
                raise self._beyond(idx)
            self._write(idx % self._length, self._made(value))
            return
        # What torch makes of it, done to a copy, of which those rows are stored that it is about.
        rows = self._rows(range(self._length))
        touched = torch.zeros(rows.shape, dtype=torch.bool)
        rows[idx] = value
        touched[idx] = True
        for number in torch.nonzero(touched.reshape(self._length, -1).any(1)).flatten().tolist():
            self._write(number, rows[number])

    def __len__(self) -> int:
        return self._length

    def _beyond(self, idx: int) -> IndexError:
        return IndexError(f"index {idx} is out of bounds for a SharedCache of {self._length} slots")

    def _row(self, number: int) -> torch.Tensor:
        value = self._dict.get(number)
        if value is None:
            value = self._dict.get(-1 - number)
        return torch.zeros(self._dims, dtype=self._dtype) if value is None else value

    def _rows(self, numbers: Any) -> torch.Tensor:
        rows = torch.zeros((len(numbers), *self._dims), dtype=self._dtype)
        for place, number in enumerate(numbers):
            rows[place] = self._row(number)
        return rows

    def _made(self, value: Any) -> torch.Tensor:
        """A slot's content: cast, broadcast and refused as torch does when it is assigned."""
        slot = torch.zeros(self._dims, dtype=self._dtype)
        with torch.no_grad():
            slot[...] = value
        return slot

    def _write(self, number: int, slot: torch.Tensor) -> None:
        self._dict[number if number in self._dict else -1 - number] = slot

    def _slot_state(self, idx: int) -> SlotState:
        if idx < 0 or idx >= len(self._of_samples):
            raise IndexError(f"Index {idx} is out of bounds for a data set of {len(self._of_samples)} samples")
        if type(idx) is not int:
            idx = int(torch.arange(len(self._of_samples))[idx].item())
        if idx >= self._length:
            return SlotState.OOB
        return SlotState.SET if idx in self._dict else SlotState.EMPTY

    def set_slot(self, idx: int, value: Any, allow_oob_idx: bool = True, allow_overwrite: bool = False) -> None:
        """Sets the slot of a sample; does nothing where the sample has none.

        IndexError for an index that is none of the data set's or, with `allow_oob_idx` False, has no slot; RuntimeError
        for a slot that is set, unless `allow_overwrite`.
        """
        state = self._slot_state(idx)
        if state is SlotState.OOB:
            self._refuse_beyond(idx, allow_oob_idx)
            return
        if state is SlotState.SET and not allow_overwrite:
            self._refuse_overwriting(idx, value)
            return
        number = int(idx)
        self._dict[number] = self._made(value)
        self._dict.pop(-1 - number, None)

    def _refuse_overwriting(self, idx: int, value: Any) -> None:
        raise RuntimeError(f"Slot {idx=} of the SharedCache is set already, and allow_overwrite is False.")

    def _refuse_beyond(self, idx: int, allow_oob_idx: bool) -> None:
        if not allow_oob_idx:
            raise IndexError(f"Index {idx} is out of bounds for a SharedCache of {len(self)} slots")

    def get_slot(self, idx: int, allow_oob_idx: bool = True, allow_empty_slot: bool = True) -> torch.Tensor | None:
        """What the slot of a sample is set to, or None where the sample has no slot or it is not set.

        IndexError for an index that is none of the data set's or, with `allow_oob_idx` False, has no slot; RuntimeError
        for a slot that is not set, with `allow_empty_slot` False.
        """
        if type(idx) is int and 0 <= idx < self._length:
            value: torch.Tensor | None = self._dict.get(idx)
        elif self._slot_state(idx) is SlotState.OOB:
            self._refuse_beyond(idx, allow_oob_idx)
            return None
        else:
            value = self._dict.get(int(idx))
        if value is None and not allow_empty_slot:
            raise RuntimeError(f"Slot {idx=} of the SharedCache is empty, and allow_empty_slot is False.")
        return value

    def clear(self) -> None:
        """Empties all slots, for everybody."""
        self._dict.clear()


class SharedCacheDDP(SharedCache):
    """A SharedCache that all ranks of a machine share, and the workers of all; with several machines, each has its own.

    The arguments are SharedCache's. Every rank makes its caches in the same order, as it does with process groups: the
    n-th of one rank is the n-th of another. Where that cannot be said, give each a `name`, the same in every rank.

    Two ranks may find a slot empty and set it at the same time. So set_slot of a slot that is set raises only where the
    other value is another one.

    The job is known by the launcher's variables (torchrun, Slurm, Open MPI, PMIx), or by the process that started the
    ranks and has imported this module: what another job left is never taken over. Raises FingerprintError or
    MismatchError (ValueErrors) where ranks give different arguments.
    """

    _made_so_far: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(
        self,
        size_limit_gib: int,
        dataset_len: int,
        data_dims: tuple[int, ...],
        dtype: torch.dtype = torch.uint8,
        *,
        name: str | None = None,
    ) -> None:
        job = job_id()
        which = f"number.{next(self._made_so_far)}" if name is None else f"name.{name}"
        self._open(size_limit_gib, dataset_len, data_dims, dtype, f"stocaching.{job:016x}.{which}", job)

    def _refuse_overwriting(self, idx: int, value: Any) -> None:
        there = self._dict.get(int(idx))
        if there is None or not torch.equal(_bits(there), _bits(self._made(value))):
            super()._refuse_overwriting(idx, value)


class _Snapshot(torch.Tensor):
    """A copy of what is shared. It is a plain tensor to whoever reads it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        changed = args[0] if args and (name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))) else None
        if isinstance(changed, cls) or isinstance(kwargs.get("out"), cls):
            raise RuntimeError(
                f"{name} would change a copy of the cache only, and be lost: assign to the cache itself, as in "
                "cache[3] = x, or call set_slot or clear"
            )
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


def _slots(limit_gib: float, dataset_len: int, slot_bytes: int) -> int:
    """How many samples have slots, which it prints."""
    limit = limit_gib * BYTES_PER_GIB
    states = dataset_len * torch.uint8.itemsize
    total = slot_bytes * dataset_len + states
    fits = total <= limit
    slots = dataset_len if fits else int((limit - states) / slot_bytes)
    if slots < 0:
        raise ValueError(
            f"a cache of {limit_gib} GiB has no room for the states of {dataset_len} samples, which take a byte each"
        )
    how = "fits in" if fits else "exceeds"
    print(
        f"Dataset size ({total / BYTES_PER_GIB:.1f} GiB) {how} cache limit ({limit_gib} GiB). "
        f"Allocating space to cache {f'all {slots}' if fits else f'{slots} / {dataset_len}'} samples."
    )
    return slots


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def get_shm_size() -> int:
    """The size of /dev/shm in whole GiB, which no cache's limit should exceed."""
    file_system = os.statvfs("/dev/shm")
    return int(file_system.f_bsize * file_system.f_blocks / BYTES_PER_GIB)
