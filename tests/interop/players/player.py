"""The player in Python by SWIG, over ddpcache.Cache and ddpcache.Sampler: see ../README.md.

Python's own samples are fewer than a cache holds: no float8, no names without a structure. What they cannot say is
stored by the same C code all the same, from a Record whose arrays this player takes apart itself; and what is read is
compared by its description, then as the sample that `get` makes of it.
"""

import json

import ddpcache
import numpy as np
from ddpcache import _batches, _ddpcache, _errors, _samples, _swig
from play import Array, Failure, Player, Record, main

NUMPY = {code: np.dtype(name) for code, name in _batches._NUMPY.items() if name != "longdouble"}


def flatten(sample):
    if not isinstance(sample, Foreign):
        return _samples.flatten(sample)
    record = sample.record
    arrays = (
        (record.content(sample.index, number), array.code, array.bits, array.shape, array.name, array.lanes)
        for number, array in enumerate(record.arrays)
    )
    return tuple(arrays), record.structure


_ddpcache._connect(
    _errors.error_of, flatten, _samples.plan_of_structure, _samples.plan_of_names, _samples.plan_of_structure
)


class Foreign:
    """A sample that only another language would store so."""

    def __init__(self, index, record):
        self.index, self.record = index, record


def nested(node, arrays):
    """What a structure's NODE is, as ddpcache._samples says, of the kinds that records.py uses."""
    if isinstance(node, int):
        return arrays[node]
    kind, *rest = node
    if kind == "int":
        return int(arrays[rest[0]])
    if kind == "dict":
        return dict(zip(rest[0], (nested(item, arrays) for item in rest[1]), strict=True))
    return {"list": list, "tuple": tuple}[kind](nested(item, arrays) for item in rest[0])


def own_sample(index, record):
    """The record as a sample of Python's own, or None where Python has none."""
    if any((array.code, array.bits) not in NUMPY or array.lanes != 1 for array in record.arrays):
        return None
    arrays = [
        np.frombuffer(record.content(index, number), NUMPY[array.code, array.bits]).reshape(array.shape)
        for number, array in enumerate(record.arrays)
    ]
    if record.structure is None:
        return arrays[0] if len(arrays) == 1 and not record.arrays[0].name else None
    content = json.loads(record.structure)
    return nested(content["sample"], arrays) if "ddpcache" in content else None


def same(one, other):
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int):
        return one == other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


class SwigPlayer(Player):
    def open(self, name, length):
        return ddpcache.Cache(
            name,
            length=length,
            fingerprint="interop",
            capacity=self.CAPACITY,
            sample_bytes_max=self.SAMPLE_BYTES_MAX,
        )

    def close(self, cache):
        cache.close()

    def sample(self, index, record):
        own = own_sample(index, record)
        return Foreign(index, record) if own is None else own

    def fill(self, cache, index, record):
        cache[index] = self.sample(index, record)

    def read(self, cache, index, record):
        self.compare_description(cache, index, record)
        own = own_sample(index, record)
        if own is not None and not same(own, cache[index]):
            raise Failure(f"sample {index} is {cache[index]!r}")

    def compare_description(self, cache, index, record: Record):
        memory = np.empty(_swig.DC_STRUCTURE_BYTES_MAX, np.uint8)
        status, length = _swig.dc_cache_structure(cache, index, memory)
        _errors.check(status)
        if status != _swig.DC_OK:
            raise Failure(f"sample {index} is not there")
        structure = memory[:length].tobytes().decode() if length else None
        place = np.array([index], np.int64)
        count, found, number = 1, [], 0
        while number < count:
            described = np.zeros(1, _batches._DESCRIPTION)
            counts, structures, statuses = np.zeros(1, np.uint32), np.zeros(1, np.uint64), np.zeros(1, np.int32)
            _errors.check(
                _swig.dc_cache_describe_batch(cache, place, 1, number, described, counts, structures, statuses)
            )
            count, one = int(counts[0]), described[0]
            content = np.empty(int(one["bytes"]), np.uint8)
            status, size = _swig.dc_cache_read(cache, index, number, content)
            _errors.check(status)
            shape = tuple(map(int, one["shape"][: one["dimensions"]]))
            array = Array(one["name"].decode(), *(int(one[key]) for key in ("code", "bits", "lanes")), shape)
            found.append((array, content[:size].tobytes()))
            view = cache._array(index, number)
            if view.tobytes() != content.tobytes() or view.shape != (
                shape if array.lanes == 1 else (*shape, array.lanes)
            ):
                raise Failure(f"array {number} of sample {index} is seen as {view!r}")
            number += 1
        record.compare(index, structure, found)

    def load(self, cache, index, record):
        calls = []

        def loader(wanted):
            calls.append(wanted)
            return self.sample(wanted, record)

        try:
            cache.get_or_load(index, loader)
        except ddpcache.FormatError:
            # It is stored, but its structure says nothing to Python.
            if own_sample(index, record) is not None:
                raise
        self.read(cache, index, record)
        return len(calls)

    def sampler(self, case):
        sampler = ddpcache.Sampler(
            case.length,
            seed=case.seed,
            order=("node", "torch", "viscy")[case.order],
            tail=("pad", "drop", "exact")[case.tail],
            shuffle=bool(case.shuffle),
            topology=ddpcache.Topology(case.node, case.nodes, case.local_rank, case.local_size),
        )
        sampler.set_epoch(case.epoch)
        return sampler

    def set_epoch(self, sampler, epoch):
        sampler.set_epoch(epoch)

    def dealt(self, sampler):
        return sampler.read().tolist()

    def iterated(self, sampler):
        return list(sampler)

    def save_state(self, sampler, consumed):
        return sampler.save_state(consumed)

    def load_state(self, sampler, state):
        sampler.load_state(state)

    def close_sampler(self, sampler):
        pass


if __name__ == "__main__":
    main(SwigPlayer())
