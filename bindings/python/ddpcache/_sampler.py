"""Which samples a rank reads in an epoch, and in which order: the C library's sampler, with NumPy arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _ddpcache as core
from . import _swig
from ._arguments import number
from ._errors import check
from ._records import sized

_ORDERS = {"node": _swig.DC_ORDER_NODE, "torch": _swig.DC_ORDER_TORCH, "viscy": _swig.DC_ORDER_VISCY}
_TAILS = {"pad": _swig.DC_TAIL_PAD, "drop": _swig.DC_TAIL_DROP, "exact": _swig.DC_TAIL_EXACT}
_LAUNCHERS = ("none", "torchrun", "open_mpi", "mpi", "slurm", "lightning")
# Indices drawn at once by an iteration: where a batch reaches its full speed.
_BLOCK = 4096
_UINT32_MAX = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Topology:
    """Where a process stands among the nodes and ranks of a job."""

    node: int = 0  #: 0..nodes-1
    nodes: int = 1
    local_rank: int = 0  #: 0..local_size-1
    local_size: int = 1  #: ranks on each node
    rank: int = -1  #: the launcher's number, 0..world_size-1; -1 becomes node * local_size + local_rank
    launcher: str = "none"  #: whose variables said so: "torchrun", "slurm", "open_mpi", "mpi", "lightning", "none"

    def __post_init__(self) -> None:
        if self.rank == -1:
            object.__setattr__(self, "rank", self.node * self.local_size + self.local_rank)

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.nodes * self.local_size


def topology() -> Topology:
    """The layout of the job, from the environment variables of its launcher; one process where there are none.

    Raises TopologyError (a ValueError), which lists the variables, where they contradict each other or leave it
    unknown.
    """
    found = sized(_swig.dc_topology, core.SIZEOF_TOPOLOGY)
    error = _swig.dc_error()
    check(_swig.dc_topology_detect(found, error), error)
    values = {field.name: getattr(found, field.name) for field in dataclasses.fields(Topology)}
    return Topology(**{**values, "launcher": _LAUNCHERS[found.launcher]})


def _millionths(what: str, fraction: float) -> int:
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError(f"{what} is a fraction from 0 to 1, not {fraction!r}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"{what} is a fraction from 0 to 1, not {fraction!r}")
    return round(fraction * 1e6)


def _choice(what: str, value: Any, choices: dict[str, int]) -> int:
    if value not in choices:
        raise ValueError(f"{what} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return choices[value]


class Sampler:
    """Deals the indices 0..length-1 of a data set to the ranks of a job, anew each epoch.

    The order "node" shuffles without moving samples between nodes, so that what a node has cached stays useful; "torch"
    and "viscy" deal exactly as torch's DistributedSampler and VisCy's ShardedDistributedSampler do. All ranks must be
    given the same arguments but for their place, and the same epochs.

    ``len(sampler)`` and ``for index in sampler`` are of this rank in the current epoch. It may be pickled and copied. A
    sampler is for one thread at a time.

    Args:
        length: samples of the data set, 0 to 2**62.
        order: "node", "torch" or "viscy".
        tail: what happens where the samples do not divide: "pad" repeats some, "drop" leaves some out, "exact" deals
            each once, so that ranks differ by one ("node" only).
        shuffle: a new order each epoch.
        seed: of the orders, 0 to 2**64 - 1.
        ring_seed: of the placement of samples on nodes, 0 to 2**64 - 1: another one moves samples.
        ring_identity: nodes hold contiguous parts of the data set.
        exchange: with "node", the fraction of a node's samples that are new to it each epoch, 0 to 1, rounded to
            millionths: in time every node sees everything. What `keeps` does not name may be dropped.
        canonical_nodes: with "node", deal as for this many nodes, a multiple of those there are, so that global batches
            are the same whatever the layout; 0: as many as there are.
        topology: this rank's place; None: as the launcher's variables say.
        epoch: the first epoch, 0 to 2**40 - 1.

    Raises ValueError for arguments (RangeError, EmptyError, TopologyError among them), TypeError for numbers that are
    none.
    """

    def __init__(
        self,
        length: int,
        *,
        order: Literal["node", "torch", "viscy"] = "node",
        tail: Literal["pad", "drop", "exact"] = "pad",
        shuffle: bool = True,
        seed: int = 0,
        ring_seed: int = 0,
        ring_identity: bool = False,
        exchange: float = 0.0,
        canonical_nodes: int = 0,
        topology: Topology | None = None,
        epoch: int = 0,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "length": length,
            "order": order,
            "tail": tail,
            "shuffle": shuffle,
            "seed": seed,
            "ring_seed": ring_seed,
            "ring_identity": ring_identity,
            "exchange": exchange,
            "canonical_nodes": canonical_nodes,
            "topology": topology if topology is not None else globals()["topology"](),
        }
        options = self._options(**self._arguments)
        error = _swig.dc_error()
        status, handle = _swig.dc_sampler_open(options, error)
        check(status, error)
        self._handle: Any = handle
        self._place = _Place(0, None, False)
        self._size: int = value_of(_swig.dc_sampler_size(handle))
        if epoch:
            self.set_epoch(epoch)

    @staticmethod
    def _options(
        *,
        length: int,
        order: str,
        tail: str,
        shuffle: bool,
        seed: int,
        ring_seed: int,
        ring_identity: bool,
        exchange: float,
        canonical_nodes: int,
        topology: Topology,
    ) -> _swig.dc_sampler_options:
        options = _swig.dc_sampler_options()
        check(_swig.dc_sampler_options_init(options, core.SIZEOF_SAMPLER_OPTIONS))
        options.order = _choice("order", order, _ORDERS)
        options.tail = _choice("tail", tail, _TAILS)
        options.length = number("length", length, 0, _swig.DC_SAMPLER_LENGTH_MAX)
        options.seed = number("seed", seed, 0, 2**64 - 1)
        options.ring_seed = number("ring_seed", ring_seed, 0, 2**64 - 1)
        options.shuffle = int(bool(shuffle))
        options.ring_identity = int(bool(ring_identity))
        options.exchange_ppm = _millionths("exchange", exchange)
        options.canonical_nodes = number("canonical_nodes", canonical_nodes, 0, _UINT32_MAX)
        for name in ("node", "nodes", "local_rank", "local_size"):
            setattr(options, name, number(name, getattr(topology, name), 0, _UINT32_MAX))
        return options

    def __del__(self) -> None:
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            _swig.dc_sampler_close(handle)

    @property
    def topology(self) -> Topology:
        """This rank's place."""
        place: Topology = self._arguments["topology"]
        return place

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Goes to an epoch, 0 to 2**40 - 1. Constant time; running iterations go on in the epoch that they began.

        The epoch of a state that was just loaded stays what it is, the rest of an epoch; any other is whole.
        """
        epoch = number("epoch", epoch, 0, _swig.DC_SAMPLER_EPOCH_MAX)
        error = _swig.dc_error()
        check(_swig.dc_sampler_set_epoch(self._handle, epoch, error), error)
        resumed = self._place.resumed and epoch == self._place.epoch
        self._move(_Place(epoch, self._place.state, resumed))

    def _move(self, place: _Place) -> None:
        self._place = place
        self._size = value_of(_swig.dc_sampler_size(self._handle))

    def save_state(self, consumed: int) -> bytes:
        """Where the epoch stands, for `load_state` of samplers under this or another number of nodes and ranks.

        All ranks give the same bytes, so that one copy is enough. `consumed` is how many samples *each* rank was
        trained on since the epoch began or was resumed (batches * batch size), 0 to len(sampler): loaders read ahead,
        so only the trainer knows. Raises RangeError.
        """
        buffer = bytearray(_swig.DC_SAMPLER_STATE_BYTES_MAX)
        error = _swig.dc_error()
        consumed = number("consumed", consumed, 0, _swig.DC_SAMPLER_LENGTH_MAX)
        size = value_of(_swig.dc_sampler_state_save(self._handle, consumed, buffer, error), error)
        return bytes(buffer[:size])

    def load_state(self, state: bytes) -> None:
        """Goes on where a saved epoch was stopped: its rest is dealt anew, nothing twice and nothing lost.

        `len(sampler)` is then that of the rest, until `set_epoch` goes to another epoch. The sampler has the arguments
        of the one that was saved, but for its place and `exchange`. All ranks load the same state. "torch" and "viscy"
        need the same number of ranks. Raises SamplerStateError, which says what differs, and changes nothing then.
        """
        error = _swig.dc_error()
        check(_swig.dc_sampler_state_load(self._handle, state, error), error)
        _, epoch, _ = _swig.dc_sampler_tell(self._handle)
        self._move(_Place(epoch, bytes(state), True))

    def keeps(self, index: int) -> bool:
        """Whether this node holds the sample in this epoch or held it in the last: others may be dropped.

        Raises RangeError (an IndexError).
        """
        index = number("index", index, 0, max(0, self._arguments["length"] - 1))
        return check(_swig.dc_sampler_keeps(self._handle, index)) == _swig.DC_OK

    def __len__(self) -> int:
        return self._size

    @property
    def real_size(self) -> int:
        """How many of this rank's samples, the first ones, are no repeats: a metric that counts only these is exact.

        Raises UnsupportedError for a shuffled and padded "viscy" order, whose repeats lie scattered.
        """
        error = _swig.dc_error()
        return value_of(_swig.dc_sampler_real_size(self._handle, error), error)

    @property
    def shard_size(self) -> int:
        """How many samples this node holds, always as many: its cache needs room for 1 + exchange times that."""
        return value_of(_swig.dc_sampler_shard_size(self._handle))

    def read(self, position: int = 0, count: int | None = None) -> NDArray[np.int64]:
        """The indices at `count` positions of this rank from `position` on (None: all that follow), in this epoch."""
        position, count = _window(position, count, self._size)
        return self._read(_swig.dc_sampler_read, position, count)

    def shard(self, position: int = 0, count: int | None = None) -> NDArray[np.int64]:
        """The indices that this node holds, from `position` on, in one order for all its ranks.

        Without `exchange` it is the same in every epoch.
        """
        position, count = _window(position, count, self.shard_size)
        return self._read(_swig.dc_sampler_shard_read, position, count)

    def _read(self, function: Any, position: int, count: int) -> NDArray[np.int64]:
        indices = np.empty(count, dtype=np.int64)
        error = _swig.dc_error()
        check(function(self._handle, position, indices, count, error), error)
        return indices

    def find(self, index: int) -> tuple[int, int] | None:
        """The rank (node * local_size + local_rank) and position where this epoch deals an index first.

        None where the tail "drop" leaves it out, or where it was consumed before the epoch was resumed. Raises
        RangeError (an IndexError).
        """
        index = number("index", index, 0, max(0, self._arguments["length"] - 1))
        error = _swig.dc_error()
        status, rank, position = _swig.dc_sampler_find(self._handle, index, error)
        return None if check(status, error) == _swig.DC_END else (rank, position)

    def __iter__(self) -> Iterator[int]:
        place, size = self._place, self._size
        reader = self
        for position in range(0, size, _BLOCK):
            if reader._place != place:
                reader = _reopen(Sampler, self._arguments, place)
            yield from reader.read(position, min(_BLOCK, size - position)).tolist()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._arguments, self._place)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if name != "topology")
        return f"<ddpcache.Sampler {shown}, epoch={self.epoch}, {self._size} samples of rank {self.topology.rank}>"


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a sampler stands: what another one needs to deal the same."""

    epoch: int
    state: bytes | None  # the last that was loaded: later epochs' windows move on from it
    resumed: bool  # in the epoch of that state


def _reopen(cls: type[Sampler], arguments: dict[str, Any], place: _Place) -> Sampler:
    sampler = cls(**arguments)
    if place.state is not None:
        sampler.load_state(place.state)
        if not place.resumed and sampler.epoch == place.epoch:
            sampler.set_epoch(place.epoch ^ 1)  # any other: it forgets the resumed one
    sampler.set_epoch(place.epoch)
    return sampler


def value_of(result: Any, error: _swig.dc_error | None = None) -> int:
    """The value of a raw call that gives [status, value]."""
    status, value = result
    check(status, error)
    return int(value)


def _window(position: int, count: int | None, size: int) -> tuple[int, int]:
    position = number("position", position, 0, size)
    return position, size - position if count is None else number("count", count, 0, size - position)
