"""The callback for Lightning's Trainer, of the package lightning or pytorch_lightning, whichever the program uses."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

import torch.distributed as dist
from torch.utils.data import DataLoader

from .. import StateError, _cache
from .._job import job_id
from ._checking import check_loader, dealers, samplers_of
from ._samplers import NodeBatchSampler, NodeSampler, _Compatible
from ._topology import process_group
from ._warming import caches_of, warm_up

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_STATE_VERSION = 1
_WARM_UP = "warm-up"


@dataclass
class _Counts:
    """What the processes of a job, or of all jobs, did with caches."""

    hits: int = 0
    misses: int = 0
    decoded: int = 0
    read_bytes: float = 0.0  # misses included; by the mean size of what is stored

    def __add__(self, other: _Counts) -> _Counts:
        return _Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: _Counts) -> _Counts:
        return _Counts(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    @staticmethod
    def of(cache: Any) -> _Counts:
        stats = cache.stats()
        mean_bytes = stats.bytes_filled / max(1, stats.fills)
        reads = stats.hits + stats.misses
        return _Counts(stats.hits, stats.misses, stats.fills + stats.bypasses, reads * mean_bytes)


class _Meter:
    """What was read, and in which time, in each phase of the training. Phases follow each other without a gap."""

    def __init__(self) -> None:
        # What is not here yet was made by this job since, and began with nothing.
        self._before: dict[str, _Counts] = {uuid: _Counts.of(cache) for uuid, cache in _caches()}
        self._counts: dict[str, dict[str, _Counts]] = {}
        self._phases: dict[str, set[str]] = {}  # of the loaders that read from a cache
        self._seconds: dict[str, float] = {}
        self._clock = time.perf_counter()

    def adopt(self) -> None:
        """Leaves out what other jobs did with caches that were opened since."""
        for uuid, cache in _caches():
            if uuid not in self._before and cache.info.job_id != job_id():
                self._before[uuid] = _Counts.of(cache)

    def used_by(self, phase: str, loaders: list[Any]) -> None:
        """Loaders of a phase, to know whose reading ahead it is that goes on beside another phase."""
        for loader in loaders:
            for cache in caches_of(loader.dataset):
                self._phases.setdefault(cache.info.uuid, set()).add(phase)

    def restart_clock(self) -> None:
        self._clock = time.perf_counter()

    def end(self, phase: str | None) -> None:
        """What happened since the last call belongs to this phase; to none: it does not count.

        But what loaders read ahead for another phase, from a cache that only that one uses, belongs to that one.
        """
        now = time.perf_counter()
        if phase is not None:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._clock
        self._clock = now
        for uuid, cache in _caches():
            counts = _Counts.of(cache)
            change = counts - self._before.get(uuid, _Counts())
            self._before[uuid] = counts
            if phase is not None:
                phases = self._phases.get(uuid, set())
                owner = next(iter(phases)) if len(phases) == 1 and phase != _WARM_UP else phase
                counted = self._counts.setdefault(owner, {})
                counted[uuid] = counted.get(uuid, _Counts()) + change

    def take(self, phase: str) -> tuple[_Counts, float]:
        """Counts of a phase over all nodes and its seconds, and begins it anew. A collective call."""
        mine = (self._counts.pop(phase, {}), self._seconds.pop(phase, 0.0))
        everyone = [mine]
        if (group := process_group()) is not None and group[1] > 1:
            everyone = [mine] * group[1]
            dist.all_gather_object(everyone, mine)
        # Ranks that share a cache all count what all of its processes did: the first one's word stands.
        by_cache: dict[str, _Counts] = {}
        for counts, _ in reversed(everyone):
            by_cache.update(counts)
        return sum(by_cache.values(), _Counts()), max(seconds for _, seconds in everyone)


def _caches() -> Iterator[tuple[str, Any]]:
    for cache in list(_cache._open_caches):
        if not cache.closed:
            yield cache.info.uuid, cache


class _Hooks:
    """What LightningCallback does, whatever package its base is from."""

    def __init__(self, *, warm_up: bool = False, prefix: str = "ddpcache") -> None:
        if not isinstance(prefix, str):
            raise TypeError(f"prefix is a str, not {prefix!r}")
        super().__init__()
        self.warm_up = bool(warm_up)
        self.prefix = prefix
        self._meter: _Meter | None = None
        self._loaders: list[Any] = []
        self._batches = 0  # trained on in this epoch, or in the rest of one
        self._batches_before = 0  # trained on before the epoch was resumed
        self._state: dict[str, Any] | None = None  # loaded, and not yet used
        self._last_state: dict[str, Any] | None = None  # of a fit that has ended
        # The trainer's numbers of batches of a whole epoch, while it runs the rest of one.
        self._whole: tuple[Any, Any] | None = None

    @property
    def state_key(self) -> str:
        """The same for both packages, so that a run may go on under the other."""
        return "ddpcache.torch.LightningCallback"

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._meter = _Meter()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._last_state = self.state_dict()
        self._meter, self._loaders = None, []

    # Training.

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._loaders = _flat(trainer.train_dataloader)
        _check(trainer, self._loaders)
        self._meter.used_by("train", self._loaders)
        self._meter.adopt()
        if self.warm_up:
            self._fill(trainer)
        self._go_on(trainer)
        trainer.strategy.barrier()
        self._meter.restart_clock()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._batches = self._batches_before = 0
        if self._whole is not None:
            trainer.fit_loop.max_batches, trainer.val_check_batch = self._whole
            self._whole = None
        # Lightning does so for a loader's own sampler, and for that of a batch sampler.
        self._set_epoch(trainer)
        self._meter.restart_clock()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self._batches += 1

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._log(trainer, pl_module, "train", "")

    # Validation and test.

    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        self._meter.adopt()
        self._end(trainer, None)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin(trainer, "val", trainer.val_dataloaders)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._log(trainer, pl_module, "val", "val_")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin(trainer, "test", trainer.test_dataloaders)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._log(trainer, pl_module, "test", "test_")

    def _begin(self, trainer: Any, phase: str, loaders: Any) -> None:
        _check(trainer, _flat(loaders))
        self._meter.used_by(phase, _flat(loaders))
        self._meter.adopt()
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._end(trainer, "train")
        self._meter.restart_clock()

    def _end(self, trainer: Any, phase: str | None) -> None:
        """All ranks are at the end of a phase when it is counted, and none goes on before it is."""
        trainer.strategy.barrier()
        self._meter.end(phase)
        trainer.strategy.barrier()

    def _log(self, trainer: Any, pl_module: Any, phase: str, part: str) -> None:
        self._end(trainer, phase)
        counts, seconds = self._meter.take(phase)
        reads = counts.hits + counts.misses
        if not reads:
            return
        values = {
            "hit_rate": counts.hits / reads,
            "decoded": float(counts.decoded),
            "samples_per_second": reads / seconds,
            "bytes_per_second": counts.read_bytes / seconds,
        }
        # All ranks have the same values: Lightning would otherwise advise to make them so.
        pl_module.log_dict(
            {f"{self.prefix}/{part}{name}": value for name, value in values.items()},
            on_step=False,
            on_epoch=True,
            sync_dist=True,
            reduce_fx="max",
            batch_size=1,
        )

    # Warm-up.

    def _fill(self, trainer: Any) -> None:
        begin = time.perf_counter()
        for loader in self._loaders:
            found = [part for part in samplers_of(loader) if isinstance(part, (NodeSampler, _Compatible))]
            warm_up(
                loader.dataset,
                found[0] if found else None,
                num_workers=loader.num_workers,
                multiprocessing_context=loader.multiprocessing_context,
            )
        self._end(trainer, _WARM_UP)
        counts, _ = self._meter.take(_WARM_UP)
        values = {"warm_up_decoded": float(counts.decoded), "warm_up_seconds": time.perf_counter() - begin}
        for logger in trainer.loggers:
            logger.log_metrics({f"{self.prefix}/{name}": value for name, value in values.items()}, trainer.global_step)

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        kept = self._state or self._last_state
        if kept is not None and not self._loaders:
            return kept
        samplers = [
            None if sampler is None else _saved(sampler, self._batches * _batch_size(loader))
            for loader, sampler in ((loader, _sampler_of(loader)) for loader in self._loaders)
        ]
        return {"version": _STATE_VERSION, "batches": self._batches_before + self._batches, "samplers": samplers}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict.get("version") != _STATE_VERSION:
            raise StateError(
                f"the checkpoint's state of LightningCallback is of version {state_dict.get('version')!r}, "
                f"and this one reads {_STATE_VERSION}"
            )
        self._state = state_dict

    def _go_on(self, trainer: Any) -> None:
        """Brings samplers to where a checkpoint was made.

        Lightning has counted the batches, but it has made the loaders' iterators before samplers knew their epoch.
        """
        state, self._state = self._state, None
        fit = trainer.fit_loop
        epoch = fit.epoch_progress.current.processed
        self._batches = self._batches_before = 0
        if state is not None and state["samplers"]:
            _load(self._loaders, state["samplers"])
        if state is None and epoch == 0:
            self._set_epoch(trainer)
            return
        whole = fit.max_batches
        fetcher = fit._data_fetcher
        # What a CachedLoader was told to go on with, its first iterator has taken.
        for loader in filter(_keeps_state, self._loaders):
            loader.load_state_dict(loader.state_dict())
        self._set_epoch(trainer)
        iter(fetcher)
        resumed = any(
            saved is not None and sampler.epoch == epoch == saved["epoch"]
            for sampler, saved in zip(map(_sampler_of, self._loaders), state["samplers"] if state else (), strict=False)
        )
        if not resumed or fetcher.length is None:
            return
        warnings.filterwarnings("ignore", "You're resuming from a checkpoint that ended before the epoch ended")
        self._batches_before = done = state["batches"]
        rest = fetcher.length
        if trainer.limit_train_batches != 1.0:
            rest = min(rest, max(0, whole - done))
        fetcher.length, fetcher.done = done + rest, rest == 0
        if whole != done + rest:
            # Another number of ranks: the rest of this epoch takes another number of batches.
            self._whole = (whole, trainer.val_check_batch)
            fit.max_batches = done + rest
            if trainer.val_check_batch == whole:
                trainer.val_check_batch = done + rest

    def _set_epoch(self, trainer: Any) -> None:
        for loader in self._loaders:
            for sampler in samplers_of(loader):
                if callable(set_epoch := getattr(sampler, "set_epoch", None)):
                    set_epoch(trainer.fit_loop.epoch_progress.current.processed)


def _check(trainer: Any, loaders: list[Any]) -> None:
    for loader in loaders:
        check_loader(loader)
        if trainer.world_size == 1 or trainer.global_rank or not caches_of(loader.dataset):
            continue
        found = dealers(loader)
        if not found:
            warnings.warn(
                f"a loader of {len(loader.dataset)} samples has no distributed sampler: each of the "
                f"{trainer.world_size} ranks reads all of them. Give it a ddpcache.torch.NodeSampler",
                stacklevel=2,
            )
        elif trainer.num_nodes > 1 and not isinstance(found[0], (NodeSampler, _Compatible)):
            warnings.warn(
                f"a {type(found[0]).__qualname__} deals each epoch's samples anew to {trainer.num_nodes} nodes, whose "
                "caches then miss what another node has decoded. Give the loader a ddpcache.torch.NodeSampler, and the "
                "Trainer use_distributed_sampler=False",
                stacklevel=2,
            )


def _flat(loaders: Any) -> list[Any]:
    """The loaders in what Lightning takes: one, or lists and dicts of them."""
    if isinstance(loaders, DataLoader):
        return [loaders]
    if isinstance(loaders, dict):
        return [loader for item in loaders.values() for loader in _flat(item)]
    if isinstance(loaders, (list, tuple)):
        return [loader for item in loaders for loader in _flat(item)]
    if (flattened := getattr(loaders, "flattened", None)) is not None:  # a CombinedLoader
        return [loader for loader in flattened if isinstance(loader, DataLoader)]
    return []


def _sampler_of(loader: Any) -> Any:
    """The sampler of ddpcache.torch that deals a loader's samples, where there is one and the loader keeps no state."""
    if _keeps_state(loader):
        return None
    found = [part for part in samplers_of(loader) if isinstance(part, (NodeSampler, _Compatible))]
    return found[0] if found else None


def _keeps_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def _batch_size(loader: Any) -> int:
    own = [part for part in samplers_of(loader) if isinstance(part, NodeBatchSampler)]
    size = own[0].batch_size if own else loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    if not isinstance(size, int):
        raise StateError("a batch sampler without batch_size: how many samples an epoch has used is not known")
    return size


def _saved(sampler: Any, consumed: int) -> dict[str, Any]:
    return {"epoch": sampler.epoch, "state": sampler.save_state(min(consumed, len(sampler))).hex()}


def _load(loaders: list[Any], states: list[dict[str, Any] | None]) -> None:
    samplers = [_sampler_of(loader) for loader in loaders]
    if [sampler is None for sampler in samplers] != [state is None for state in states]:
        raise StateError(
            f"the checkpoint has {sum(state is not None for state in states)} states of samplers for {len(states)} "
            f"loaders, and there are {sum(sampler is not None for sampler in samplers)} samplers of ddpcache.torch in "
            f"{len(samplers)}"
        )
    for sampler, state in zip(samplers, states, strict=True):
        if state is not None:
            sampler.set_epoch(state["epoch"])
            sampler.load_state(bytes.fromhex(state["state"]))


def _bases() -> tuple[type, ...]:
    """Callback of each package that the program has imported, or of the first that is installed."""
    names = [name for name in _PACKAGES if name in sys.modules]
    errors = []
    for name in names or _PACKAGES:
        try:
            import_module(name)
        except ImportError as error:
            errors.append(f"{name}: {error}")
            continue
        if not names:
            names = [name]
            break
    if not names:
        raise ImportError(f"LightningCallback needs the package lightning or pytorch_lightning ({'; '.join(errors)})")
    return tuple(dict.fromkeys(sys.modules[name].Callback for name in names))


class LightningCallback(_Hooks, *_bases()):  # type: ignore[misc]
    """For Lightning's Trainer: shows what caches do, resumes exactly, fills caches first.

        trainer = Trainer(callbacks=[LightningCallback(warm_up=True)], use_distributed_sampler=False, ...)

    - At the end of each epoch of training it logs, by the module's `log`, so to every logger and to callbacks that
      monitor: ``ddpcache/hit_rate`` (0 to 1), ``ddpcache/decoded`` (samples that were decoded, not found),
      ``ddpcache/samples_per_second`` and ``ddpcache/bytes_per_second`` (read from caches, in all processes of all
      nodes, without the time of validation; bytes by the mean size of stored samples). For validation and test they
      begin with ``ddpcache/val_`` and ``ddpcache/test_``. All caches that are open in the ranks count, for what all
      processes of the node do with them.
    - `set_epoch` is called for every sampler of the loaders, also for one that another sampler holds.
    - Checkpoints hold where samplers of this package stand. A run that goes on from one in the middle of an epoch
      trains on what that epoch had left, in the order that it would have had, without loading the rest; under another
      number of ranks too, with `NodeSampler`. Loaders that keep a state of their own (``state_dict``) are left to it.
      Of several training loaders, those that are read once an epoch go on exactly.
    - Loaders whose samples are dealt to the ranks twice are a DealtTwiceError (a ValueError): see `check_loader`.

    Args:
        warm_up: before the first step, decode what the caches of the training loaders lack, in as many workers as the
            loaders have; each rank a part. It logs ``ddpcache/warm_up_decoded`` and ``ddpcache/warm_up_seconds``. See
            `ddpcache.torch.warm_up` for what it raises.
        prefix: what the names of metrics begin with, instead of "ddpcache".
    """
