"""A data set whose samples are decoded once a node and then come from the cache."""

from __future__ import annotations

import hashlib
import inspect
import os
import weakref
from collections.abc import Callable, Sequence
from operator import index as integer
from typing import Any, Self

import numpy as np
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset

from .. import Cache, FingerprintError, MismatchError, RangeError, job_id
from .._samples import flatten
from ._copies import private_copies
from ._loader_workers import Task
from ._workers import has_idle_core

_RESIDENCY_PAGE = 1 << 20
_MISSING = object()


class NondeterministicError(MismatchError):
    """A data set that gives another sample when it is asked for the same index again."""


def fingerprint(dataset: Dataset[Any], name: str, version: str = "") -> str:
    """What CachedDataset opens a cache with: name, the data set's type, length, ``__getitem__`` source, and version.

    The data sets that it wraps (`dataset` or `datasets`, as in torch's Subset and ConcatDataset) count in the same way,
    and so does which samples a Subset takes. Give it to Cache yourself where a cache needs other options.
    """
    kind, length = _qualified(type(dataset)), len(dataset)  # type: ignore[arg-type]
    digest = _digest(name, version, _identity(dataset))
    shown = f", version {version[:100]!r}" if version else ""
    return f"{name}: {length} samples of {kind[:200]}{shown} ({digest})"


def _digest(*identity: Any) -> str:
    return hashlib.blake2b(repr(identity).encode(), digest_size=16).hexdigest()


def _identity(dataset: Any) -> tuple[Any, ...]:
    wrapped = [getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or ())]
    inner = tuple(_identity(item) for item in wrapped if isinstance(item, Dataset))
    chosen = None
    if isinstance(dataset, torch.utils.data.Subset):
        chosen = hashlib.blake2b(np.asarray(dataset.indices, dtype=np.int64).tobytes()).hexdigest()
    return _qualified(type(dataset)), len(dataset), _source(type(dataset)), chosen, inner


def _qualified(cls: type) -> str:
    # Spawned processes know the main script by another name.
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return f"{module}.{cls.__qualname__}"


def _source(cls: Any) -> str:
    """The text of ``__getitem__``; where there is none (an interactive session), its byte code."""
    function = inspect.unwrap(cls.__getitem__)
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return _qualified(cls) if code is None else f"{code.co_code.hex()} {code.co_names} {code.co_consts}"


class CachedDataset(Dataset[Any]):
    """A data set whose samples are decoded once a node, by whichever process asks first, and then shared by all.

        dataset = CachedDataset(Slides(folder), "slides", transform=augment)

    Works in data-loader workers however they are started. A sample is what a ddpcache.Cache holds: arrays, tensors,
    numbers, str, bytes and tuples, lists and dicts of them.

    Args:
        dataset: a map-style data set, which gives the same sample whenever it is asked for the same index. What is
            random belongs into `transform`; see `check_deterministic`.
        cache: a name, or an open Cache of the data set's length, or an open keyed Cache. A name opens a cache that is
            removed when the last process has left, with the fingerprint of `fingerprint`. Training and validation need
            two names. A keyed cache may be shared by any number of data sets.
        transform: is given each sample, from the cache or fresh, whenever it is read; what it returns is not cached.
        copy: samples are the caller's own: tensors and arrays may be changed. Those of a batch are parts of one
            allocation: keeping one keeps the batch, and torch.save and resize_ see all of it, so clone() first. False
            saves the copy: arrays are read-only views of the cache, and tensors are too, but torch cannot know: an
            in-place operation on one is a segmentation fault. For a `transform` that makes something new of each
            sample.
        version: change it when the samples of the data set change, but not their number or its source.
        key: with a keyed cache: what index i is known by, as in ``key=lambda i: ("train", i)``. Samples of one key are
            one sample, whichever data set asks, so it must say all that tells samples apart. Without it, the key is the
            index with a digest of what `fingerprint` looks at: data sets and subsets that differ in that share no
            sample, and those that differ in their files only need `version`. Spawned workers get it by pickle.
        capacity: with a name: memory for samples, in bytes or as "8GiB"; None: half of what is free.
        populate: a process calls Cache.populate when it first reads, so that its first pass has few page faults. None:
            in data-loader workers that have a core to spare, that is, where the process may run on more cores than
            there are ranks and workers on its node.

    Indices are 0 to len-1, or count from the end where they are negative, else it is RangeError (an IndexError).
    Waits for up to 60 s where another process is decoding a sample, and then decodes it itself.

    Raises TypeError for an IterableDataset; MismatchError (a ValueError) for a Cache of another length, or a keyed one
    with too few entries; FingerprintError (a ValueError) for a second data set under one name or cache in this process
    (in a keyed cache without `key`: for one that nothing tells apart from the first), until the first is closed or
    gone, and where the cache holds another data set's samples: when joining a cache that another job has filled, one
    sample is decoded again and compared; and what opening a Cache raises.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        cache: Cache | str,
        *,
        transform: Callable[[Any], Any] | None = None,
        copy: bool = True,
        version: str = "",
        key: Callable[[int], Any] | None = None,
        capacity: int | str | None = None,
        populate: bool | None = None,
    ) -> None:
        if isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        ):
            raise TypeError(
                f"{_qualified(type(dataset))} has no samples by number: a cache needs a map-style data set, with "
                "__getitem__ and __len__, and no IterableDataset"
            )
        if transform is not None and not callable(transform):
            raise TypeError(f"transform is a function of a sample, not {transform!r}")
        if not isinstance(version, str):
            raise TypeError(f"version is a str, not {version!r}")
        if not isinstance(cache, (str, Cache)):
            raise TypeError(f"cache is a ddpcache.Cache or the name of one, not {cache!r}")
        if capacity is not None and not isinstance(cache, str):
            raise TypeError(f"capacity={capacity!r} is for a cache that is opened here, by name")
        if key is not None and not callable(key):
            raise TypeError(f"key is a function of an index, not {key!r}")
        if key is not None and not (isinstance(cache, Cache) and cache.keyed):
            raise TypeError("key= is for an open Cache that was made with keyed=True")
        self.dataset = dataset
        self.transform = transform
        self.key = key
        self.copy = bool(copy)
        self.populate = populate
        self._populated_in = 0  # the last process that did
        self._claims: list[tuple[str, _Holder]] = []
        # A notebook cell that is run again after `del` has nobody who could call close.
        weakref.finalize(self, _give_up, self._claims).atexit = False
        self._owns_cache = isinstance(cache, str)
        if isinstance(cache, str):
            self._claim(f"the name {cache!r}")
        try:
            self.cache = self._open(cache, version, capacity)
            self._digest = _digest(version, _identity(dataset)) if self.cache.keyed and key is None else ""
            if key is None:
                self._claim(f"the cache of uuid {self.cache.info.uuid}", self._digest)
            self._compare_with_other_job()
        except BaseException:
            self.close()
            raise

    def _open(self, cache: Cache | str, version: str, capacity: int | str | None) -> Cache:
        length = len(self)
        if isinstance(cache, str):
            identity = fingerprint(self.dataset, cache, version)
            return Cache(cache, length=length, fingerprint=identity, capacity=capacity)
        if cache.keyed:
            if self.key is None and len(cache) < length:
                raise MismatchError(
                    f"the keyed cache {cache.name!r} has {len(cache)} entries, and the data set {length} samples: "
                    "its length should be 1.3 times the number of samples of all its data sets"
                )
        elif len(cache) != length:
            raise MismatchError(f"the cache {cache.name!r} is of {len(cache)} samples, and the data set has {length}")
        return cache

    def _claim(self, what: str, digest: str = "") -> None:
        """Takes a name, a cache or its keys of a digest for this data set, until close or the end of this object."""
        holder = _holders.setdefault(what + digest, _Holder(self.dataset))
        if holder.dataset() is not self.dataset:
            taken = (
                f"{what} has another data set of this process, of the same type, length, source and version: give "
                "`version` or `key`"
                if digest
                else f"{what} is taken by another data set of this process: training and validation need two names"
            )
            raise FingerprintError(
                f"{taken}. close() or delete the CachedDataset that has it, if you have done with that"
            )
        holder.count += 1
        self._claims.append((what + digest, holder))

    def _compare_with_other_job(self) -> None:
        """Decodes one sample again where the cache holds another job's."""
        info = self.cache.info
        if info.created or info.job_id == job_id():
            return
        index = self._any_resident()
        if index is None:
            return
        cached = self.cache.get(self._name_of(index), _MISSING, view=True)
        if cached is not _MISSING and not _equal(self._decode(index), cached):
            raise FingerprintError(
                f"the cache {self.cache.name!r}, which another job made, holds other samples: its sample {index} is "
                f"not what {_qualified(type(self.dataset))} gives now. If the data changed, give another `version`; if "
                "samples are random, move what is random into `transform` (see check_deterministic)"
            )

    def _any_resident(self) -> int | None:
        """One sample that is in the cache; another one for each process, so that together they compare more."""
        if self.cache.keyed:
            known = len(self) if self.cache.info.keys else 0
            places = ((os.getpid() + i) % known for i in range(known))
            return next((index for index in places if self._name_of(index) in self.cache), None)
        for first in range(0, len(self), _RESIDENCY_PAGE):
            count = min(_RESIDENCY_PAGE, len(self) - first)
            found = np.flatnonzero(self.cache.residency(first, count))
            if found.size:
                return first + int(found[os.getpid() % found.size])
        return None

    def _decode(self, index: int) -> Any:
        return self.dataset[index]

    def _name_of(self, index: int) -> Any:
        """What the cache knows a sample by."""
        if not self.cache.keyed:
            return index
        return (self._digest, index) if self.key is None else self.key(index)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A batch of samples, as DataLoader asks for it. Their copies are made at once, in one piece of memory."""
        if isinstance(indices, Task):
            return indices.run(self)  # type: ignore[return-value]  # of a CachedLoader, which knows what comes back
        _, samples = self._views_of(indices)
        if self.copy:
            samples = private_copies(samples)
        return samples if self.transform is None else [self.transform(sample) for sample in samples]

    def _views_of(self, indices: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """What the cache knows samples by, and views of them, `transform` aside: decoded where they are not there."""
        self._populate_once()
        load, decode, indices = self.cache.get_or_load, self._decode, list(indices)
        names = self._names_of(indices)
        if not self.cache.keyed:
            return names, [load(index, decode, view=True) for index in names]

        def load_at(name: Any, index: int) -> Any:
            return load(name, lambda _: decode(self._position(index)), view=True)

        return names, list(map(load_at, names, indices))

    def _names_of(self, indices: Sequence[int]) -> list[Any]:
        """What the cache knows samples by. Raises RangeError (an IndexError)."""
        if set(map(type, indices)) == {int} and min(indices) >= 0 and max(indices) < len(self):
            positions = list(indices)
        else:
            positions = [self._position(index) for index in indices]
        return positions if not self.cache.keyed else [self._name_of(position) for position in positions]

    def _populate_once(self) -> None:
        """Has the cache's pages mapped, if this process is to have them mapped and has not."""
        if self._populated_in != os.getpid():
            self._populate()

    def _populate(self) -> None:
        self._populated_in = os.getpid()
        if has_idle_core() if self.populate is None else self.populate:
            self.cache.populate()

    def _position(self, index: int) -> int:
        length, position = len(self), integer(index)
        if not -length <= position < length:
            raise RangeError(f"index {position} of a data set of {length} samples")
        return position % length

    def check_deterministic(self, k: int = 8) -> None:
        """Decodes k samples twice, from all over the data set, and compares; the cache and `transform` have no part.

        Raises NondeterministicError (a ValueError) for the first that differs.
        """
        k = min(integer(k), len(self))
        if k < 1:
            raise ValueError(f"check_deterministic compares 1 sample or more, not {k}")
        for index in (position * len(self) // k for position in range(k)):
            if not _equal(self._decode(index), self._decode(index)):
                raise NondeterministicError(
                    f"sample {index} of {_qualified(type(self.dataset))} is another one when it is decoded again: the "
                    "cache would keep the first for ever. Move what is random into `transform`"
                )

    def close(self) -> None:
        """Gives up the name, and closes the cache if it was opened here. Does nothing the second time."""
        _give_up(self._claims)
        if self._owns_cache and hasattr(self, "cache"):
            self.cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_claims": []}

    def __repr__(self) -> str:
        return f"<ddpcache.torch.CachedDataset of {_qualified(type(self.dataset))}, {self.cache!r}>"


class _Holder:
    """The data set that has a name."""

    def __init__(self, dataset: Any) -> None:
        self.count = 0
        try:
            # Gone, it is no other data set's equal: a name may be held for longer than its data set lives.
            self.dataset: Callable[[], Any] = weakref.ref(dataset)
        except TypeError:
            self.dataset = lambda: dataset


_holders: dict[str, _Holder] = {}


def _give_up(claims: list[tuple[str, _Holder]]) -> None:
    while claims:
        what, holder = claims.pop()
        holder.count -= 1
        if not holder.count and _holders.get(what) is holder:
            del _holders[what]


def _equal(one: Any, other: Any) -> bool:
    """Whether two samples are the same to the bit, types and structure included."""
    (arrays, structure), (other_arrays, other_structure) = flatten(one), flatten(other)
    return structure == other_structure and list(map(_content, arrays)) == list(map(_content, other_arrays))


def _content(array: tuple[Any, ...]) -> tuple[Any, ...]:
    buffer, *description = array
    return memoryview(buffer).tobytes(), *description
