"""A DataLoader that takes from the cache what is in it, without workers and queues in between."""

from __future__ import annotations

import itertools
from collections import deque
from concurrent.futures import Future
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, default_collate
from torch.utils.data._utils import collate as _collate
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from .. import MissError, _swig
from ._dataset import CachedDataset
from ._loader_gather import Gatherer, Thread, UnlikeError
from ._loader_resume import Batches, Run
from ._loader_workers import Left, Task, Workers, loader_of_tasks

_AHEAD_WITHOUT_WORKERS = 2
_COPIED_AT_ONCE = 2
_UNLIKE_MAX = 3


class CachedLoader(DataLoader[Any]):
    """torch's DataLoader for a CachedDataset: same arguments, same batches, without workers where the cache has them.

        loader = CachedLoader(dataset, batch_size=32, sampler=sampler, num_workers=4)

    A batch whose samples are all in the cache is copied out of it by native threads, ahead of use, into a tensor in
    this process. Only samples that are missing go to the workers, which decode them into the cache. Workers are started
    when they are first needed, so in an epoch that finds everything in the cache there are none.

    Batches, their order, types and errors are DataLoader's. Samplers are read ahead: by `prefetch_factor` batches for
    each worker, as by DataLoader, and by 2 without workers. Order is kept, also with ``in_order=False``. A batch's
    tensors are the caller's own; their memory is used again when no tensor uses it any more. A loader goes on after a
    worker was killed: the iteration raises what DataLoader's does, and can then be continued.

    It is DataLoader itself that loads, in workers, where samples have to be seen one by one: a data set with a
    `transform`, a `collate_fn` of one's own, ``batch_size=None``, subclasses of CachedDataset with a ``__getitem__`` or
    ``__getitems__`` of their own, and where torch's default_collate was given more types.

    `state_dict` and `load_state_dict` stop and resume an epoch, as those of torchdata's StatefulDataLoader do.

    Raises TypeError for a data set that is no CachedDataset.
    """

    dataset: CachedDataset

    def __init__(self, dataset: CachedDataset, *args: Any, **kwargs: Any) -> None:
        if not isinstance(dataset, CachedDataset):
            kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
            raise TypeError(
                f"a CachedLoader is for a ddpcache.torch.CachedDataset, not for a {kind}: wrap it, as in "
                "CachedLoader(CachedDataset(dataset, name), ...). A part of a data set is wrapped too: "
                "CachedDataset(Subset(dataset, indices), name)"
            )
        super().__init__(dataset, *args, **kwargs)
        self._batches = Batches(super()._index_sampler, self.generator)
        self._gatherer: Gatherer | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gatherer": None}

    def _gatherer_of_all(self, pinned: bool) -> Gatherer:
        """The one of all iterations, with its memory for batches."""
        if self._gatherer is None or self._gatherer.is_the_parents:
            threads = min(max(1, self.num_workers), _swig.DC_COPY_THREADS_MAX)
            self._gatherer = Gatherer(self.dataset.cache, threads, pinned)
        return self._gatherer

    @property
    def _index_sampler(self) -> Any:
        return self._batches

    def _get_iterator(self) -> Any:
        if self._gathers and not (self.timeout and not self.num_workers):
            return _Gathering(self)
        self.check_worker_number_rationality()
        return _Multi(self) if self.num_workers else _Single(self)

    @property
    def _gathers(self) -> bool:
        """Whether a batch is what lies in the cache."""
        kind, plain = type(self.dataset), CachedDataset
        return (
            self.collate_fn is default_collate
            and self.batch_sampler is not None
            and self.dataset.transform is None
            and kind.__getitem__ is plain.__getitem__
            and kind.__getitems__ is plain.__getitems__
            and all(made.__module__ == _collate.__name__ for made in _collate.default_collate_fn_map.values())
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands: after the last batch that it has given, however far it has read ahead.

        Over a NodeSampler, as `sampler` or in a NodeBatchSampler, all ranks have the same state, if all were given as
        many batches, and it can be loaded under any number of nodes and ranks. Other samplers are asked for all their
        batches again, of which the first are left out. They must give the same ones: random ones of torch do, since the
        generator's state is kept.

        When an iteration has ended, the state is that of the begin of another one. It can be saved by torch.save.
        """
        return self._batches.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lets the next iteration go on where another loader's stood; those after it are whole epochs again.

        The sampler is set to the epoch that the state is of; a `set_epoch` with the same number changes nothing, and
        one with another number makes the next iteration a whole epoch. `len` counts batches before the stop too.

        Raises SamplerStateError (a ValueError), which says what differs.
        """
        self._batches.load(state_dict)


class _Counting(_BaseDataLoaderIter):
    """An iteration that says what it has delivered."""

    _sampler_iter: Run

    def __next__(self) -> Any:
        try:
            batch = super().__next__()
        except StopIteration:
            self._sampler_iter.finished = True
            raise
        self._sampler_iter.delivered += 1
        return batch


class _Single(_Counting, _SingleProcessDataLoaderIter):
    """DataLoader's iteration without workers."""


class _Multi(_Counting, _MultiProcessingDataLoaderIter):
    """DataLoader's iteration with workers."""

    def _next_data(self) -> Any:
        if self._sampler_iter.is_renewed:
            for _ in range(self._prefetch_factor * self._num_workers):
                self._try_put_index()
        return super()._next_data()  # type: ignore[no-untyped-call]


class _AnewError(Exception):
    """A batch cannot be gathered, and is to be made as a whole."""


class _Batch:
    """One batch on its way."""

    def __init__(self, indices: Any) -> None:
        self.indices = indices
        self.names: list[Any] | None = None
        """What the cache knows its samples by; None: it is not gathered, but made by a worker as a whole."""
        self.task: Task | None = None
        """What is to be done before."""
        self.number: int | None = None
        """Of the task, where a worker has it."""
        self.left: Left | None = None
        self.error: ExceptionWrapper | None = None
        self.copied: Future[Any] | None = None
        self.failed = False

    @property
    def is_cached(self) -> bool:
        """Whether all that is left to do is to gather it."""
        return self.task is None and self.names is not None


class _Gathering(_Counting):
    """An iteration whose batches are gathered from the cache.

    All of it but the copying runs in the user's thread. Batches that were read ahead are with a worker, with the
    copying thread or, where there are no workers, waiting for their turn.
    """

    _dataset: CachedDataset

    def __init__(self, loader: CachedLoader) -> None:
        self._workers: Workers | None = None
        self._ahead: deque[_Batch] = deque()
        self._asked: dict[int, _Batch] = {}
        # Workers get the seeds that DataLoader's get: it draws one number when an iteration is made.
        seeds = torch.Generator()
        seeds.set_state(torch.get_rng_state() if loader.generator is None else loader.generator.get_state())
        super().__init__(loader)
        self._dataset._populate_once()
        self._loader_of_tasks = loader_of_tasks(loader, seeds)
        self._depth = loader.num_workers * (loader.prefetch_factor or 0) or _AHEAD_WITHOUT_WORKERS
        self._gatherer = loader._gatherer_of_all(self._pin_memory)
        self._thread = Thread(self._pin_memory)
        self._unlike = 0
        self._begin()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another epoch with the same workers."""
        super()._reset(loader, first_iter)
        self._give_up()
        if self._workers is not None and not self._workers.all_live:
            self._end_workers()
        self._begin()

    def _begin(self) -> None:
        while len(self._ahead) < self._depth and self._read_ahead():
            pass

    def _give_up(self) -> None:
        """Forgets what was read ahead; outcomes of its tasks are not waited for."""
        for batch in self._ahead:
            if batch.copied is not None:
                batch.copied.cancel()
        self._ahead.clear()
        self._asked.clear()

    def _read_ahead(self) -> bool:
        """Takes one more batch from the sampler, and sets about it."""
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            return False
        self._ahead.append(batch := _Batch(indices))
        self._look(batch)
        self._go_on(batch)
        return True

    def _look(self, batch: _Batch) -> None:
        """Sees what of a batch is in the cache."""
        dataset = self._dataset
        try:
            indices = list(batch.indices)
            names = dataset._names_of(indices)
            missing = [row for row, name in enumerate(names) if name not in dataset.cache]
        except Exception:
            # Who loads it raises this again, in its turn.
            batch.task = Task(batch.indices, None)
            return
        if not names or self._unlike > _UNLIKE_MAX:
            batch.task = Task(indices, None)
            return
        batch.names = names
        if missing:
            batch.task = Task([indices[row] for row in missing], missing)

    def _go_on(self, batch: _Batch) -> None:
        """Gives a batch's task to a worker, if there is one to be done and there are workers."""
        if batch.task is None or batch.number is not None or not self._num_workers:
            return
        if self._workers is None:
            self._thread.stop()  # so that no thread of ours runs while processes are forked
            self._workers = Workers(self._loader_of_tasks)
        batch.number = self._workers.give(batch.task)
        self._asked[batch.number] = batch

    def _copy_ahead(self) -> None:
        """Has the batch that the user asks for copied, and the next, as far as they are in the cache by now."""
        for batch in itertools.islice(self._ahead, _COPIED_AT_ONCE):
            if batch.is_cached and batch.copied is None and not self._gatherer.is_small(len(batch.names or ())):
                batch.copied = self._thread.submit(self._gatherer.batch, batch.names, batch.left)

    def _take(self, wait: bool) -> bool:
        """Takes one outcome from the workers, if there is one. Raises what DataLoader raises of workers and waits."""
        if self._workers is None:
            return False
        try:
            taken = self._workers.take(wait)
        except RuntimeError:
            if not self._workers.all_live:
                self._end_workers()
            raise
        if taken is None:
            return False
        batch = self._asked.pop(taken[0], None)
        if batch is not None:  # else it was given up with its epoch
            failed = isinstance(taken[1], ExceptionWrapper)
            batch.error = taken[1] if failed else None
            self._done(batch, None if failed else taken[1])
        return True

    def _done(self, batch: _Batch, outcome: Any) -> None:
        """A batch's task is done."""
        batch.number = batch.task = None
        batch.left = outcome
        whole = outcome is not None and (outcome.rows is None or len(outcome.rows) == len(batch.names or ()))
        if batch.error is not None or whole:
            batch.names = None
        self._go_on(batch)

    def _end_workers(self) -> None:
        """After the death of one. What they had is for others, which are started if the user goes on."""
        for batch in self._asked.values():
            batch.number = None
        self._asked.clear()
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.shut_down()

    def _next_data(self) -> Any:
        if not self._ahead:
            self._begin()  # there may be more if the sampler is in another epoch by now
        if not self._ahead:
            self._end()
            raise StopIteration
        while self._take(wait=False):
            pass
        self._copy_ahead()
        batch = self._ahead[0]
        try:
            made = self._made(batch)
        except Exception:
            if batch.failed:
                self._sampler_iter.delivered += 1  # as good as delivered: another one comes next
                self._ahead.popleft()
                self._read_ahead()
            raise
        self._ahead.popleft()
        self._read_ahead()
        return made

    def _made(self, batch: _Batch) -> Any:
        """Waits for a batch. Where that raises, `failed` says whether the batch is what failed."""
        while True:
            self._go_on(batch)
            if batch.number is not None:
                self._take(wait=True)
                continue
            try:
                if batch.is_cached:
                    return self._gathered(batch)
                if batch.task is None:
                    return self._left(batch)
                self._done(batch, batch.task.run(self._dataset))
            except _AnewError:
                batch.names = batch.copied = None
                batch.task = Task(list(batch.indices), None)
            except Exception:
                batch.failed = True
                raise

    def _gathered(self, batch: _Batch) -> Any:
        try:
            if batch.copied is None:
                return self._gatherer.batch(batch.names or (), batch.left)
            return self._thread.result(batch.copied)
        except (UnlikeError, MissError) as error:
            self._unlike += isinstance(error, UnlikeError)
            raise _AnewError from error

    def _left(self, batch: _Batch) -> Any:
        """A batch that was made as a whole where its task was done."""
        if batch.error is not None:
            batch.error.reraise()  # type: ignore[no-untyped-call]
        assert batch.left is not None
        if not self._pin_memory:
            return batch.left.batch
        return pin_memory(batch.left.batch, self._pin_memory_device)  # type: ignore[no-untyped-call]

    def _end(self) -> None:
        """After the last batch."""
        if not self._persistent_workers:
            self._end_workers()
        self._thread.stop()

    def __del__(self) -> None:
        if hasattr(self, "_thread") and not self._thread.is_the_parents:
            self._give_up()
            self._thread.stop()
