"""Whether a loader's samples are dealt to the ranks once, after a trainer has had its hands on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.utils.data

from ._samplers import NodeBatchSampler


class DealtTwiceError(ValueError):
    """A loader deals its samples to the ranks twice, so that each rank reads a part of its part."""


def check_loader(loader: Any) -> None:
    """Sees to it that a loader deals its samples to the ranks at most once.

    Call it with what a trainer made of your loader, as in ``check_loader(accelerator.prepare(loader))``: many put a
    sampler of their own over yours, without a word. `LightningCallback` calls it itself. It looks at the loader, its
    samplers and what these hold, for torch's DistributedSampler, whatever else has a `num_replicas` or `num_processes`
    above 1, and accelerate's dispatching loader. Makes no collective call.

    Raises DealtTwiceError (a ValueError), which names both.
    """
    found = dealers(loader)
    if len(found) > 1:
        names = " and then by ".join(dict.fromkeys(map(_named, reversed(found))))
        raise DealtTwiceError(
            f"samples are dealt to the ranks {len(found)} times, by {names}: each rank would read a part of its part. "
            "Tell the trainer to leave the loader alone: Trainer(use_distributed_sampler=False) in Lightning, "
            "setup_dataloaders(loader, use_distributed_sampler=False) in Fabric; with accelerate, do not prepare the "
            "loader"
        )


def dealers(loader: Any) -> list[Any]:
    """What deals a loader's samples to several ranks, outermost first."""
    return [part for part in _parts(loader) if _deals(part)]


def samplers_of(loader: Any) -> list[Any]:
    """The samplers of a loader and what these hold, outermost first."""
    return [part for part in _parts(loader) if not isinstance(part, torch.utils.data.DataLoader) and part is not loader]


def _parts(loader: Any) -> Iterator[Any]:
    """A loader, then its samplers and what they hold, each once."""
    seen: set[int] = set()
    queue = [loader]
    while queue:
        part = queue.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        queue += [value for value in getattr(part, "__dict__", {}).values() if _leads_on(value)]


def _leads_on(value: Any) -> bool:
    # Lightning's wrapper holds the sampler that it wraps in a class that is no Sampler, but has one's name. The loaders
    # of Fabric and accelerate hold another loader.
    known = isinstance(value, (torch.utils.data.Sampler, torch.utils.data.DataLoader))
    return known or type(value).__name__.endswith(("Sampler", "SamplerWrapper"))


def _deals(part: Any) -> bool:
    if isinstance(part, NodeBatchSampler):
        return False  # its sampler does
    if type(part).__name__ == "DataLoaderDispatcher":
        return True
    return any(_number(part, name) > 1 for name in ("num_replicas", "num_processes"))


def _number(part: Any, name: str) -> int:
    value = getattr(part, name, 0)
    return value if isinstance(value, int) else 0


def _named(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"
