"""In place of monai.data.CacheDataset: one cache a machine instead of one a process.

    from ddpcache.compat.monai import CacheDataset      # was: from monai.data import CacheDataset

What differs from the original is in docs/drop-ins.md. Needs MONAI 1.4 or later.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from typing import Any, ClassVar

import monai.data
import numpy as np
import torch
from monai.data.dataset import has_tqdm, tqdm
from monai.data.utils import pickle_hashing
from monai.transforms import RandomizableTrait, Transform

from .. import Cache, FingerprintError, MismatchError, job_id
from .._values import decode, encode

__all__ = ["CacheDataset"]

# Who decodes is looked after, and taken over from if it dies: nobody else needs to decode for being impatient.
_TIMEOUT_SECONDS = 24 * 3600.0
_DEPTH_MAX = 12

# The ranks that mp.spawn or Lightning start inherit the job's name from the process that has imported this.
job_id()


class CacheDataset(monai.data.CacheDataset):
    """monai.data.CacheDataset, whose cached items are shared by all ranks of a machine and the workers of all.

    The deterministic transforms before the first random one run once a machine for each of the first `cache_num` items
    (or for each different one, with `hash_as_key`), and their results stay in shared memory; whoever reads an item gets
    a copy of its own and runs the rest of the transforms on it. Each rank is given all of the data, and a sampler
    deals it.

    Args:
        data, transform, cache_num, cache_rate, num_workers, progress, as_contiguous, hash_as_key, hash_func: as for the
            original. With several ranks, each runs the transforms on items that no other is at.
        copy_cache: True or False is the same here: what is read is always a copy.
        runtime_cache: False caches all when the object is made. True, "threads" and "processes" are the same here: an
            item is cached when it is first asked for, by whichever process. A container of yours is a TypeError.
        name: every rank makes its data sets in the same order, so that the n-th of one is the n-th of another; where
            that cannot be said, give each a name, the same in every rank.
        capacity: memory for the cached items, in bytes or as "8GiB"; None: half of what is free. Items without room are
            transformed each time.
        sample_bytes_max: the largest item in bytes; None: capacity/256.

    Raises FingerprintError or MismatchError (ValueErrors) where the ranks' data or deterministic transforms differ, and
    TooLargeError (a ValueError) for an item larger than `sample_bytes_max`.
    """

    _made_so_far: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(
        self,
        data: Sequence[Any],
        transform: Sequence[Callable[..., Any]] | Callable[..., Any] | None = None,
        cache_num: int = sys.maxsize,
        cache_rate: float = 1.0,
        num_workers: int | None = 1,
        progress: bool = True,
        copy_cache: bool = True,
        as_contiguous: bool = True,
        hash_as_key: bool = False,
        hash_func: Callable[..., bytes] = pickle_hashing,
        runtime_cache: bool | str | None = False,
        *,
        name: str | None = None,
        capacity: int | str | None = None,
        sample_bytes_max: int | str | None = None,
    ) -> None:
        if not (runtime_cache is None or isinstance(runtime_cache, bool) or runtime_cache in ("threads", "processes")):
            raise TypeError(
                f"runtime_cache is True, False, 'threads' or 'processes', not {runtime_cache!r}: the cache is shared "
                "memory that all processes find by themselves, and no container has to be passed to them"
            )
        which = f"number.{next(self._made_so_far)}" if name is None else f"name.{name}"
        self._name = f"monai.{job_id():016x}.{which}"
        self._generations = itertools.count()
        self._capacity, self._sample_bytes_max = capacity, sample_bytes_max
        self._shared: Cache | None = None
        super().__init__(
            data=data,
            transform=transform,
            cache_num=cache_num,
            cache_rate=cache_rate,
            num_workers=num_workers,
            progress=progress,
            copy_cache=copy_cache,
            as_contiguous=as_contiguous,
            hash_as_key=hash_as_key,
            hash_func=hash_func,
            runtime_cache=bool(runtime_cache),
        )

    def set_data(self, data: Sequence[Any]) -> None:
        """Takes other data, for which a new cache is made and, unless `runtime_cache` is set, filled.

        Call it in every rank, and make new data-loader workers.
        """
        self.close()
        self.data = data
        # Of equal items the last one is transformed, as in the original, which gives the same result.
        last = {self.hash_func(item): index for index, item in enumerate(data)} if self.hash_as_key else None
        different = len(data) if last is None else len(last)
        self.cache_num = max(0, min(int(self.set_num), int(different * self.set_rate), different))
        self._indices = list(range(self.cache_num)) if last is None else list(last.values())[: self.cache_num]
        self._positions = None if last is None else dict(zip(last, range(self.cache_num), strict=False))
        generation = next(self._generations)
        if self.cache_num:
            self._shared = self._open(f"{self._name}.{generation}")
            if not self.runtime_cache:
                self._fill_shared(self._shared)

    def _open(self, name: str) -> Cache:
        try:
            return Cache(
                name,
                length=self.cache_num,
                fingerprint=f"{self.cache_num} of {len(self.data)} items {self._identity()}, job {job_id()}",
                capacity=self._capacity,
                sample_bytes_max=self._sample_bytes_max,
            )
        except (FingerprintError, MismatchError) as error:
            raise type(error)(
                f"the ranks' data sets differ, or their deterministic transforms: {error}. Give each rank all of the "
                "data and let the sampler deal it; data sets that shall differ from rank to rank need a name= each"
            ) from None

    def _identity(self) -> str:
        """The same for data and deterministic transforms that are the same, in all processes of a job."""
        digest = hashlib.blake2b(digest_size=16)
        prefix = self.transform.transforms[: self._first_random()]
        for part in itertools.chain((self.data[index] for index in self._indices), prefix):
            for piece in _pieces(part, 0):
                digest.update(len(piece).to_bytes(8, "little"))
                digest.update(piece)
        return digest.hexdigest()

    def _first_random(self) -> int | None:
        first: int | None = self.transform.get_index_of_first(
            lambda one: isinstance(one, RandomizableTrait) or not isinstance(one, Transform)
        )
        return first

    def _fill_shared(self, cache: Cache) -> None:
        positions = list(range(self.cache_num))
        if not cache.info.created:
            # Ranks that begin at the same item would wait for each other at each. Not by the global generator, whose
            # numbers belong to the transforms.
            random.Random(os.getpid()).shuffle(positions)

        def load(position: int) -> None:
            if position not in cache:
                self._item(cache, position)

        with ThreadPool(self.num_workers) as pool:
            done = pool.imap_unordered(load, positions)
            if self.progress and has_tqdm:
                done = tqdm(done, total=len(positions), desc="Loading dataset")
            elif self.progress:
                warnings.warn("there is no bar of progress, since tqdm is not installed", stacklevel=4)
            for _ in done:
                pass

    def _item(self, cache: Cache, position: int) -> Any:
        """An item after the deterministic transforms, the caller's own."""
        index = self._indices[position]
        return decode(cache.get_or_load(position, lambda _: encode(self._load_cache_item(index)), _TIMEOUT_SECONDS))

    def _transform(self, index: int) -> Any:
        position = self._position(index)
        if position is None or self._shared is None:
            return monai.data.Dataset._transform(self, index)
        item = self._item(self._shared, position)
        first = self._first_random()
        return item if first is None else self.transform(item, start=first)

    def _position(self, index: int) -> int | None:
        """Where in the cache an item is; None for one that is not to be cached."""
        if self._positions is not None:
            return self._positions.get(self.hash_func(self.data[index]))
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of a data set of {len(self)}")
        position = index % len(self)
        return position if position < self.cache_num else None

    @property
    def cache(self) -> Cache | None:
        """The cache of the machine, for its stats and info; None where nothing is to be cached."""
        return self._shared

    def close(self) -> None:
        """Ends this process's use of the cache; the last process that does, or ends, removes it."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    """What two values that are the same have in common, in every process: no addresses, no order of sets."""
    cls = type(value)
    yield f"{cls.__module__}.{cls.__qualname__}".encode()
    if isinstance(value, str):
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield value
    elif value is None or isinstance(value, int | float | complex | np.generic | torch.dtype):
        yield repr(value).encode()
    elif isinstance(value, os.PathLike):
        yield os.fsencode(value)
    elif isinstance(value, torch.Tensor):
        yield from _pieces(value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy(), depth)
        yield repr((value.dtype, tuple(value.shape))).encode()
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield repr((value.dtype, value.shape)).encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Transform) and depth < _DEPTH_MAX:
        yield from _pieces(vars(value), depth + 1)
    elif hasattr(value, "__code__"):
        yield f"{value.__qualname__} {value.__code__.co_names}".encode()
        yield value.__code__.co_code
    elif isinstance(value, Mapping) and depth < _DEPTH_MAX:
        for key in value:
            yield from _pieces(key, depth + 1)
            yield from _pieces(value[key], depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEPTH_MAX:
        for item in value:
            yield from _pieces(item, depth + 1)
