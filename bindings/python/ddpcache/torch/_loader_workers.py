"""What a CachedLoader's worker processes do: fill the cache, and give back only what it could not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.utils.data
from torch.utils.data import DataLoader, default_collate
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ._copies import private_copies

if TYPE_CHECKING:
    from ._dataset import CachedDataset


class Left(NamedTuple):
    """What of a batch is not in the cache."""

    rows: Sequence[int] | None
    """The places of its samples in the batch; None: all."""
    batch: Any
    """The samples, collated."""


class Task:
    """Samples that a CachedDataset is asked for in a worker, or in the rank where there are no workers."""

    def __init__(self, indices: Sequence[int], rows: Sequence[int] | None) -> None:
        self.indices = indices
        """Of the data set."""
        self.rows = rows
        """Their places in the batch; None: the batch is to be made here, whatever it is made of."""

    def __len__(self) -> int:
        return len(self.indices)

    def run(self, dataset: CachedDataset) -> Left | None:
        """Fills the cache, and returns what is not in it afterwards (no room, removed, damaged); None: nothing."""
        if self.rows is None:
            return Left(None, default_collate(dataset.__getitems__(self.indices)))
        names, samples = dataset._views_of(self.indices)
        gone = [place for place, name in enumerate(names) if name not in dataset.cache]
        if not gone:
            return None
        rows = [self.rows[place] for place in gone]
        return Left(rows, default_collate(private_copies([samples[place] for place in gone])))


def as_it_is(outcome: Any) -> Any:
    """The collate function of workers, whose tasks end in what is to be sent."""
    return outcome


def loader_of_tasks(loader: DataLoader[Any], seeds: torch.Generator) -> DataLoader[Any]:
    """A DataLoader whose workers run tasks."""
    return DataLoader(
        loader.dataset,
        batch_sampler=[],
        num_workers=loader.num_workers,
        collate_fn=as_it_is,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=seeds,
        persistent_workers=loader.persistent_workers,
    )


class Workers(_MultiProcessingDataLoaderIter):
    """The worker processes of a DataLoader, and torch's care for them, with tasks given one by one.

    Not torch's are: which tasks there are, when, and for which worker; and that outcomes are taken as they come.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._asked: dict[int, tuple[int, int]] = {}
        """Of each task without an outcome: its worker, and how much it asks for."""
        self._busy = [0] * loader.num_workers
        self._given = 0
        super().__init__(loader)

    def _try_put_index(self) -> None:
        """Torch asks its sampler for a task here."""

    def give(self, task: Task) -> int:
        """Gives a task to the worker that has least to do; its number."""
        worker = self._busy.index(min(self._busy))
        self._given += 1
        self._index_queues[worker].put((self._given, task))
        self._asked[self._given] = worker, len(task)
        self._busy[worker] += len(task)
        return self._given

    def take(self, wait: bool) -> tuple[int, Any] | None:
        """A task's number and outcome; None where there is none yet. Raises what DataLoader does of dead workers."""
        if not wait and self._data_queue.empty():
            return None
        number, outcome = self._get_data()  # type: ignore[no-untyped-call]
        worker, size = self._asked.pop(number)
        self._busy[worker] -= size
        return number, outcome

    @property
    def all_live(self) -> bool:
        """Whether no worker has ended."""
        return all(worker.is_alive() for worker in self._workers)

    def shut_down(self) -> None:
        """Ends the workers."""
        self._shutdown_workers()
