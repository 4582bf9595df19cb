"""Filling a cache before training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from .. import Cache
from .._progress import Progress, heard, is_first_of_node
from ._dataset import CachedDataset
from ._samplers import NodeBatchSampler, NodeSampler, _Compatible
from ._topology import process_group


def warm_up(
    dataset: Dataset[Any],
    sampler: NodeSampler | NodeBatchSampler | _Compatible | None = None,
    *,
    batch_size: int = 32,
    num_workers: int = 0,
    multiprocessing_context: Any = None,
    progress: Progress = None,
) -> int:
    """Decodes what this node's cache lacks, so that the first epoch hits; each rank a part of it.

    Blocks until this rank's part is done, or the cache is full; other ranks may then still be busy, so a barrier
    belongs behind it. Samples are neither copied nor transformed.

    Args:
        dataset: a CachedDataset, or Subsets and ConcatDatasets of such.
        sampler: which samples: a NodeSampler's are those that the node holds, another one's those that it deals this
            rank in its epoch. None: all of them, in a job of one rank only.
        batch_size: samples between two calls of `progress`.
        num_workers: processes that decode; 0: this one.
        multiprocessing_context: of the workers, as DataLoader's.
        progress: called with (samples done, samples in all) of this rank. True: a bar on stderr, by the package tqdm,
            in the first rank of each node.

    Returns how many samples this rank decoded. Raises TypeError for a data set without a cache or a sampler of another
    kind, ValueError without a sampler in a job of several ranks, ImportError for a bar without tqdm, and what decoding
    raises.
    """
    indices = _own_part(dataset, sampler)
    batches = [indices[first : first + batch_size] for first in range(0, len(indices), batch_size)]
    loader = DataLoader(
        _Touching(dataset),
        sampler=batches,  # type: ignore[arg-type]
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=multiprocessing_context if num_workers else None,
    )
    decoded = done = 0
    with heard(progress, *_bar_of(dataset, sampler), stays=True) as hear:
        for batch, (fresh, full) in zip(batches, loader, strict=True):
            decoded, done = decoded + fresh, done + len(batch)
            if hear is not None:
                hear(done, len(indices))
            if full:
                break
    return decoded


def _bar_of(dataset: Any, sampler: Any) -> tuple[str, str, bool]:
    """What a bar says, its unit, and whether it is this rank's to show."""
    names = ", ".join(dict.fromkeys(cache.name for cache in caches_of(dataset)))
    if isinstance(sampler, NodeBatchSampler):
        sampler = sampler.sampler
    if not isinstance(sampler, NodeSampler):
        return f"warm-up {names}", " samples", is_first_of_node()
    place = sampler.topology
    share = f", 1 of {place.local_size} ranks" if place.local_size > 1 else ""
    return f"warm-up {names}{share}", " samples", place.local_rank == 0


def _own_part(dataset: Any, sampler: Any) -> list[int]:
    if isinstance(sampler, NodeBatchSampler):
        sampler = sampler.sampler
    if sampler is None:
        group = process_group()
        if group is not None and group[1] > 1:
            raise ValueError(f"warm_up needs the sampler in a job of {group[1]} ranks, to know which samples are whose")
        return list(range(len(dataset)))
    if isinstance(sampler, NodeSampler):
        place, shard = sampler.topology, sampler._dealt().shard()
        own: list[int] = shard[place.local_rank :: place.local_size].tolist()
        return own
    if isinstance(sampler, _Compatible):
        return list(dict.fromkeys(sampler))
    raise TypeError(f"warm_up takes a sampler of ddpcache.torch, not {type(sampler).__qualname__}")


class _Touching(Dataset[tuple[int, bool]]):
    """Its item of a batch of indices: how many samples had to be decoded, and whether there was no room for one."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, indices: Sequence[int]) -> tuple[int, bool]:
        parts = [_touch(cached, wanted) for cached, wanted in _resolved(self.dataset, np.asarray(indices))]
        return sum(fresh for fresh, _ in parts), any(full for _, full in parts)


def _resolved(dataset: Any, indices: Any) -> Iterator[tuple[CachedDataset, list[int]]]:
    """The cached data sets that samples come from, and their numbers there."""
    if isinstance(dataset, CachedDataset):
        yield dataset, indices.tolist()
    elif isinstance(dataset, Subset):
        yield from _resolved(dataset.dataset, np.asarray(dataset.indices)[indices])
    elif isinstance(dataset, ConcatDataset):
        ends = np.asarray(dataset.cumulative_sizes)
        owners = np.searchsorted(ends, indices, side="right")
        for owner in np.unique(owners):
            begin = ends[owner - 1] if owner else 0
            yield from _resolved(dataset.datasets[owner], indices[owners == owner] - begin)
    else:
        raise TypeError(f"{type(dataset).__qualname__} has no cache to warm up: it is no CachedDataset")


def _touch(dataset: CachedDataset, indices: list[int]) -> tuple[int, bool]:
    fresh = 0

    def decode(index: int) -> Any:
        nonlocal fresh
        fresh += 1
        return dataset._decode(index)

    refused = dataset.cache.stats("client").bypasses
    for index in indices:
        dataset.cache.get_or_load(dataset._name_of(index), lambda _, index=index: decode(index), view=True)
    return fresh, dataset.cache.stats("client").bypasses > refused


def caches_of(dataset: Any) -> list[Cache]:
    """The caches that a data set reads from, as far as it shows them: its own, and those of what it wraps."""
    found, queue = [], [dataset]
    while queue:
        part = queue.pop()
        if isinstance(cache := getattr(part, "cache", None), Cache):
            found.append(cache)
        wrapped = [getattr(part, "dataset", None), *(getattr(part, "datasets", None) or ())]
        queue += [one for one in wrapped if isinstance(one, Dataset)]
    return found
