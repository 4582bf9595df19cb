"""Samplers for torch's DataLoader. All are DistributedSamplers of torch, since trainers replace or wrap any other.

Indices come from the C library's sampler (sampler.h), which computes them where they are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sized
from itertools import islice
from operator import attrgetter
from typing import Any, Literal

import torch.utils.data
from torch.utils.data import Dataset, Subset

from .. import Cache, Sampler, StateError, Topology, _swig
from .._arguments import number
from ._dataset import CachedDataset
from ._topology import Layout, process_group, rank_and_world, resolve

_Base = torch.utils.data.DistributedSampler


class _Compatible(_Base[int]):
    """Torch's constructor, attributes and errors, with the order of the C library."""

    _order: Literal["torch", "viscy"]
    _resumed: tuple[int, bytes] | None = None  # an epoch of which the rest is dealt, and its state

    def _dealt(self) -> Sampler:
        """The current epoch. Attributes may have been set since the last one, as torch allows."""
        if self.shuffle and not -(2**63) <= self.seed + self.epoch < 2**64:
            raise ValueError(f"seed + epoch is from -2**63 to 2**64 - 1, not {self.seed + self.epoch}")
        sampler = Sampler(
            len(self.dataset),  # type: ignore[arg-type]
            order=self._order,
            tail="drop" if self.drop_last else "pad",
            shuffle=self.shuffle,
            # torch adds the two, and takes the sum as an unsigned number of 64 bits.
            seed=(self.seed + self.epoch) % 2**64,
            topology=Topology(local_rank=self.rank, local_size=self.num_replicas),
        )
        if len(sampler) != self.num_samples:
            raise StateError(
                f"the data set has {len(self.dataset)} samples, "  # type: ignore[arg-type]
                f"and had another number when this sampler was made, for {self.num_samples} samples a rank"
            )
        if self._resumed is not None and self._resumed[0] == self.epoch:
            sampler.load_state(self._resumed[1])
        return sampler

    def __iter__(self) -> Iterator[int]:
        return iter(self._dealt())

    def __len__(self) -> int:
        return self.num_samples if self._resumed is None else len(self._dealt())

    def set_epoch(self, epoch: int) -> None:
        """Goes to an epoch. That of a state that was just loaded stays what it is, the rest of one."""
        if self._resumed is not None and epoch != self._resumed[0]:
            self._resumed = None
        super().set_epoch(epoch)

    def save_state(self, consumed: int) -> bytes:
        """Where the current epoch stands, for `load_state`; see ddpcache.Sampler.save_state."""
        return self._dealt().save_state(consumed)

    def load_state(self, state: bytes) -> None:
        """Goes on where the current epoch was stopped, under the same number of ranks: call `set_epoch` first.

        `len` is then that of the rest, until `set_epoch` goes to another epoch. Raises SamplerStateError, which says
        what differs, and changes nothing then.
        """
        before, self._resumed = self._resumed, (self.epoch, bytes(state))
        try:
            self._dealt()
        except BaseException:
            self._resumed = before
            raise

    @property
    def real_size(self) -> int:
        """How many of this rank's samples, the first ones, are no repeats: a metric over these alone is exact.

        Raises UnsupportedError for a shuffled and padded ShardedDistributedSampler, whose repeats lie scattered.
        """
        return self._dealt().real_size


class DistributedSampler(_Compatible):
    """torch.utils.data.DistributedSampler to the bit, for every argument, with `real_size` besides.

    Each epoch deals the whole data set anew to all ranks, so that caches that ranks do not share miss.
    """

    _order = "torch"


class ShardedDistributedSampler(_Compatible):
    """VisCy's ShardedDistributedSampler to the bit, for every argument: each rank shuffles a fixed part of its own.

    Same arguments as torch's DistributedSampler.
    """

    _order = "viscy"


class NodeSampler(_Base[int]):
    """Shuffles anew each epoch without moving samples between nodes, so that what a node has cached stays useful.

    Use it like torch's DistributedSampler: as the `sampler` of a DataLoader, with `set_epoch` before each epoch (which
    Lightning calls itself). All ranks must be given the same arguments but for their place.

    This rank's place is looked up when it is first needed, and never at import or here: in torch.distributed once it is
    initialised, else in the launcher's variables. In a process group of several nodes, a node is the ranks that share
    one cache, so the first use of a sampler there is a collective call, which all ranks must make; on one node it is
    none, and `len` never is except with the tail "exact".

    Args:
        dataset: what is sampled: anything with a length. A CachedDataset brings its cache.
        seed: of the epochs' orders, 0 to 2**64 - 1. Another seed moves no sample to another node.
        tail: where the samples do not divide by the ranks, "pad" repeats some (see `real_size`), "drop" leaves some
            out, "exact" deals each once: then ranks differ by one sample, and a collective call that one rank does not
            reach hangs.
        shuffle: a new order each epoch; False: the same, unshuffled one.
        ring_seed: of the placement of samples on nodes, 0 to 2**64 - 1. Another one moves samples.
        ring_identity: nodes hold contiguous parts of the data set, instead of samples from everywhere.
        cache: the cache that the ranks of this node share; None: that of a CachedDataset, or of a Subset of one.
        num_nodes, node, local_rank, local_world: the layout, where it is not to be found out: this node's number is
            0 to num_nodes - 1, and it runs local_world ranks. What is left out of the four follows from rank and world
            size, ranks being numbered node after node.

    Raises ValueError and TypeError for arguments; at the first use TopologyError (a ValueError), which lists the
    variables, where the layout contradicts itself or stays unknown, and EmptyError (a ValueError) where "drop" leaves
    no sample.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sized,
        *,
        seed: int = 0,
        tail: Literal["pad", "drop", "exact"] = "pad",
        shuffle: bool = True,
        ring_seed: int = 0,
        ring_identity: bool = False,
        cache: Cache | None = None,
        num_nodes: int | None = None,
        node: int | None = None,
        local_rank: int | None = None,
        local_world: int | None = None,
    ) -> None:
        # Not torch's constructor: it asks for rank and world size at once.
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError(f"{type(dataset).__qualname__} is an IterableDataset, which takes no sampler")
        self.dataset = dataset  # type: ignore[assignment]
        self.epoch = 0
        self.seed = seed
        self.shuffle = bool(shuffle)
        self.tail = tail
        self.ring_seed = ring_seed
        self.ring_identity = bool(ring_identity)
        if cache is None:
            cache = _cache_of(dataset)
        elif not isinstance(cache, Cache):
            raise TypeError(f"cache is a ddpcache.Cache, not {cache!r}")
        self._cache = cache
        limits = {"num_nodes": (1, num_nodes), "node": (0, node), "local_rank": (0, local_rank)}
        for name, (least, value) in {**limits, "local_world": (1, local_world)}.items():
            if value is not None:
                number(name, value, least, _swig.DC_SAMPLER_WORLD_MAX)
        self._layout = Layout(num_nodes, node, local_rank, local_world)
        self._found: tuple[tuple[int, int] | None, Sampler] | None = None
        self._state: bytes | None = None  # the last that was loaded
        self._resumed = False  # in the epoch of that state
        self._open(Topology())  # checks the arguments

    def _open(self, place: Topology) -> Sampler:
        return Sampler(
            len(self.dataset),  # type: ignore[arg-type]
            tail=self.tail,
            shuffle=self.shuffle,
            seed=self.seed,
            ring_seed=self.ring_seed,
            ring_identity=self.ring_identity,
            topology=place,
        )

    def _dealt(self) -> Sampler:
        """The C library's sampler for this rank in the current epoch; found anew when a process group came or went."""
        group = process_group()
        if self._found is None or self._found[0] != group:
            sampler = self._open(resolve(self._layout, self._cache))
            if self._state is not None:
                sampler.load_state(self._state)
                if not self._resumed:
                    sampler.set_epoch(self.epoch ^ 1)  # any other, so that it forgets the rest
            self._found = group, sampler
            length, world = len(self.dataset), sampler.topology.world_size  # type: ignore[arg-type]
            if self.tail == "exact" and length % world:
                warnings.warn(
                    f"{length} samples over {world} ranks with tail='exact': some ranks get one sample less, and a "
                    "collective call that they do not reach, as in a training step, hangs. Train with tail='pad' or "
                    "'drop'; mask metrics of 'pad' by real_size.",
                    stacklevel=3,
                )
        sampler = self._found[1]
        if sampler.epoch != self.epoch:
            sampler.set_epoch(self.epoch)
        return sampler

    def __iter__(self) -> Iterator[int]:
        return iter(self._dealt())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Goes to an epoch, 0 to 2**40 - 1. Constant time; running iterations go on in the epoch that they began.

        The epoch of a state that was just loaded stays what it is, the rest of an epoch; any other is whole.
        """
        epoch = number("epoch", epoch, 0, _swig.DC_SAMPLER_EPOCH_MAX)
        if self._resumed and epoch != self.epoch:
            self._resumed = False
            if self._found is not None:
                self._found[1].set_epoch(epoch)  # now: on the way back, the loaded epoch is a whole one
        self.epoch = epoch

    def save_state(self, consumed: int) -> bytes:
        """Where the current epoch stands, for `load_state`, under this or another number of nodes and ranks.

        All ranks give the same bytes. `consumed` is how many samples *each* rank was trained on since the epoch began
        or was resumed: batches * batch_size, at most ``len(sampler)``. See ddpcache.Sampler.save_state.
        """
        return self._dealt().save_state(consumed)

    def load_state(self, state: bytes) -> None:
        """Goes on where a saved epoch was stopped: its rest is dealt anew, nothing twice and nothing lost.

        `len` is then that of the rest, until `set_epoch` goes to another epoch. All ranks load the same state; it may
        be the first use of this sampler, so that what that says of collective calls holds here. Raises
        SamplerStateError, which says what differs, and changes nothing then.
        """
        sampler = self._dealt()
        sampler.load_state(state)
        self._state, self._resumed, self.epoch = bytes(state), True, sampler.epoch

    @property
    def real_size(self) -> int:
        """How many of this rank's samples, the first ones, are no repeats: a metric over these alone is exact."""
        return self._dealt().real_size

    @property
    def topology(self) -> Topology:
        """This rank's place."""
        return self._dealt().topology

    @property
    def node_size(self) -> int:
        """How many samples this node holds, whatever the epoch: what its cache needs room for."""
        return self._dealt().shard_size

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """Ranks of the job."""
        return rank_and_world(self._layout)[1]

    @property
    def rank(self) -> int:  # type: ignore[override]
        """This process's rank, as the process group or the launcher numbers it."""
        return rank_and_world(self._layout)[0]

    @property
    def drop_last(self) -> bool:  # type: ignore[override]
        """Whether the tail is dropped."""
        return self.tail == "drop"

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """Samples of this rank in each epoch, or in the rest of a resumed one."""
        if self.tail == "exact" or self._resumed:
            return len(self._dealt())
        world = self.num_replicas
        return (len(self.dataset) + (0 if self.drop_last else world - 1)) // world  # type: ignore[arg-type]

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """Samples of all ranks in each epoch, repeats counted."""
        length: int = len(self.dataset)  # type: ignore[arg-type]
        return length if self.tail == "exact" else self.num_samples * self.num_replicas


def _cache_of(dataset: Any) -> Cache | None:
    """The cache of a CachedDataset, or of one that a Subset is taken from."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset.cache if isinstance(dataset, CachedDataset) else None


class NodeBatchSampler(_Base[list[int]]):
    """Batches of a sampler of this module, for a DataLoader's `batch_sampler`.

    Iterations give lists of `batch_size` indices, the last one shorter, or none if `drop_last`.

    Over a sampler of another kind it is a TypeError: trainers that distribute a data set themselves put theirs in
    place of ours without a word, and each rank would then train on a part of its part.
    """

    def __init__(self, sampler: _Compatible | NodeSampler, batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(sampler, (_Compatible, NodeSampler)):
            kind = f"{type(sampler).__module__}.{type(sampler).__qualname__}"
            raise TypeError(
                f"NodeBatchSampler over a {kind}, which is no sampler of ddpcache.torch. If a trainer put it there to "
                "distribute the data set itself, tell it not to: Trainer(use_distributed_sampler=False) in Lightning. "
                "For trainer.predict, give the DataLoader sampler=NodeSampler(...) and batch_size instead"
            )
        self.sampler = sampler
        self.batch_size = number("batch_size", batch_size, 1, 2**62)
        self.drop_last = bool(drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        """Batches of this rank in each epoch."""
        return (len(self.sampler) + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Goes to an epoch, as the sampler does."""
        self.sampler.set_epoch(epoch)

    def save_state(self, consumed: int) -> bytes:
        """As the sampler's: `consumed` counts samples, not batches."""
        return self.sampler.save_state(consumed)

    def load_state(self, state: bytes) -> None:
        """As the sampler's."""
        self.sampler.load_state(state)

    @property
    def real_size(self) -> int:
        """How many of this rank's samples (not batches), the first ones, are no repeats."""
        return self.sampler.real_size

    # What else torch's class has, from the sampler.
    dataset, epoch, seed, shuffle, rank, num_replicas, num_samples, total_size = (
        property(attrgetter(f"sampler.{name}"))
        for name in ("dataset", "epoch", "seed", "shuffle", "rank", "num_replicas", "num_samples", "total_size")
    )
