"""The batches that a CachedLoader goes through, and how far the user has come with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler

from .. import SamplerStateError
from ._samplers import NodeBatchSampler, NodeSampler

VERSION = 1


class Run(Iterator[Any]):
    """One pass over the batches of a source. What was delivered counts, not what was read ahead."""

    def __init__(self, source: Any, generator: torch.Generator | None, loaded: dict[str, Any] | None) -> None:
        self.loaded = loaded
        self.before = 0 if loaded is None else int(loaded["batches"])
        """Batches of this epoch that were delivered before this pass."""
        self._source = source
        self._generator = generator
        self._left_out = self.before if loaded is not None and loaded["sampler"] is None else 0
        self._first: list[Any] = []
        if loaded is None or not self._left_out:
            self._begin(None)
        elif generator is not None:
            self._begin(loaded["random"])
        else:
            # The user's generator is not this pass's to set. All that a sampler draws it draws when it begins.
            now = torch.get_rng_state()
            try:
                self._begin(loaded["random"])
                self._first = [batch for batch in [next(self, None)] if batch is not None]
            finally:
                torch.set_rng_state(now)
            self.was_asked = False

    def _begin(self, random: Any) -> None:
        self.random = random or [_random_state(self._generator), None]
        """The generator's states before the sampler was asked for an iterator, and that for its first batch."""
        if random is not None:
            _set_random_state(self._generator, self.random[0])
        self.delivered = self.before
        self.finished = self.was_asked = False
        self.epoch = epoch_of(self._source)
        self._pulled = 0
        self._batches = iter(self._source)

    def __next__(self) -> Any:
        if self._first:
            self.was_asked = True
            return self._first.pop()
        if self.is_renewed:
            self.before = self._left_out = 0
            self._begin(None)
        if not self.was_asked:
            self.was_asked = True
            if self._left_out:
                _set_random_state(self._generator, self.random[1])
            else:
                self.random[1] = _random_state(self._generator)
        while self._left_out:
            self._left_out -= 1
            next(self._batches)
        batch = next(self._batches)
        self._pulled += 1
        return batch

    @property
    def is_renewed(self) -> bool:
        """Whether nothing was left of a resumed epoch, and the sampler is in another one by now.

        Trainers begin a pass when they have loaded the end of an epoch, and only then go on to the next epoch.
        """
        return self.before > 0 and not self._pulled and epoch_of(self._source) != self.epoch


class Batches:
    """What a DataLoader takes its batches from: its batch sampler or sampler, and where to go on with it."""

    def __init__(self, source: Any, generator: torch.Generator | None) -> None:
        self.source = source
        self._generator = generator
        self._loaded: dict[str, Any] | None = None
        self._run: Run | None = None

    def __iter__(self) -> Run:
        loaded, self._loaded = self._loaded, None
        if loaded is None and self._run is not None and not self._run.was_asked:
            loaded = self._run.loaded  # torch makes two iterators where there are workers
        if loaded is not None and loaded["epoch"] != epoch_of(self.source):
            loaded = None
        if loaded is None:
            self._make_whole()
        self._run = Run(self.source, self._generator, loaded)
        return self._run

    def __len__(self) -> int:
        """Batches of an epoch; of a resumed one with what was delivered before, as trainers count."""
        before = 0
        if self._node_sampler is not None:
            if self._loaded is not None and self._loaded["epoch"] == epoch_of(self.source):
                before = int(self._loaded["batches"])
            elif self._deals_rest():
                assert self._run is not None
                before = self._run.before
        return before + len(self.source)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}

    @property
    def _sampler(self) -> Any:
        return getattr(self.source, "sampler", self.source)

    @property
    def _node_sampler(self) -> NodeSampler | None:
        """The sampler, where it can deal the rest of an epoch to any ranks, and its batches have one size."""
        known = type(self.source) in (BatchSampler, NodeBatchSampler, NodeSampler)
        return self._sampler if known and isinstance(self._sampler, NodeSampler) else None

    def _deals_rest(self) -> bool:
        """Whether the sampler deals the rest of the epoch that the last pass resumed."""
        sampler, run = self._node_sampler, self._run
        return sampler is not None and run is not None and run.before > 0 and run.epoch == sampler.epoch

    def _make_whole(self) -> None:
        """Where a resumed epoch is gone over again without a set_epoch, it is a whole one, as in any other loader."""
        if self._deals_rest():
            self._sampler.set_epoch(self._sampler.epoch ^ 1)
            self._sampler.set_epoch(self._sampler.epoch ^ 1)
        self._run = None

    def state(self) -> dict[str, Any]:
        """See CachedLoader.state_dict."""
        if self._loaded is not None:
            return dict(self._loaded)
        epoch = epoch_of(self.source)
        if self._run is not None and (self._run.finished or self._run.epoch != epoch):
            self._make_whole()
        run, sampler = self._run, self._node_sampler
        state = {
            "version": VERSION,
            "batches": 0 if run is None else run.delivered,
            "epoch": epoch,
            "world": getattr(self._sampler, "num_replicas", None),
            "sampler": None,
            "random": None if run is None else run.random,
        }
        if run is None and self._generator is not None:
            state["random"] = [_random_state(self._generator), None]
        if sampler is not None:
            delivered = 0 if run is None else run.delivered - run.before
            samples = delivered * getattr(self.source, "batch_size", 1)
            state |= {"world": None, "random": None, "sampler": sampler.save_state(min(samples, len(sampler)))}
        return state

    def load(self, state: dict[str, Any]) -> None:
        """See CachedLoader.load_state_dict."""
        if not isinstance(state, dict) or state.get("version") != VERSION:
            raise SamplerStateError(f"no state of a CachedLoader, or of another version: {state!r:.200}")
        sampler, world = self._node_sampler, getattr(self._sampler, "num_replicas", None)
        if (state["sampler"] is not None) != (sampler is not None):
            raise SamplerStateError(
                f"the state is {'not ' if state['sampler'] is None else ''}one of batches of a NodeSampler, and this "
                f"loader's are of a {type(self.source).__name__} over a {type(self._sampler).__name__}"
            )
        if sampler is not None:
            sampler.load_state(state["sampler"])
        else:
            if state["batches"] and state["world"] != world:
                raise SamplerStateError(
                    f"{state['batches']} batches into an epoch, {state['world']} ranks became {world}: only a "
                    "NodeSampler deals the rest of an epoch to another number of ranks"
                )
            if state["epoch"] is not None:
                self._sampler.set_epoch(state["epoch"])
            if not state["batches"] and state["random"] is not None and self._generator is not None:
                self._generator.set_state(state["random"][0])
        self._run = None
        self._loaded = dict(state) if state["batches"] else None


def epoch_of(source: Any) -> int | None:
    sampler = getattr(source, "sampler", source)
    return getattr(sampler, "epoch", None) if hasattr(sampler, "set_epoch") else None


def _set_random_state(generator: torch.Generator | None, state: torch.Tensor) -> None:
    if generator is None:
        torch.set_rng_state(state)
    else:
        generator.set_state(state)


def _random_state(generator: torch.Generator | None) -> torch.Tensor:
    return torch.get_rng_state() if generator is None else generator.get_state()
