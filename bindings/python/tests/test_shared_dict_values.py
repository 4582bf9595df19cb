"""SharedDict: what may be in it, and how it lies there."""

from __future__ import annotations

import collections
import dataclasses
import enum
import pickle
import subprocess
import sys

import numpy as np
import pytest
from ddpcache._values import Pickled, encode
from hypothesis import given, settings
from hypothesis import strategies as st

Point = collections.namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 7


@dataclasses.dataclass
class Volume:
    name: str
    voxels: np.ndarray
    more: list


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __eq__(self, other):
        return type(other) is Plain and same(self.__dict__, other.__dict__)


def same(one, other):
    """Whether two values are equal, with all their types, dtypes and shapes."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return one.tolist() == other.tolist() if one.dtype.hasobject else one.tobytes() == other.tobytes()
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if dataclasses.is_dataclass(one):
        return same(vars(one), vars(other))
    return one == other or (one != one and other != other)


def grid(count, **options):
    return np.arange(count, **options)


VALUES = {
    "None": None,
    "numbers": [1, -(2**70), 2.5, True, 1j, float("nan"), float("inf")],
    "text": ("", "\ud800ä", b"", b"\0\xff"),
    "array": grid(24, dtype=np.float32).reshape(2, 3, 4),
    "empty array": np.empty((0, 3), np.int8),
    "scalar array": np.array(3.5),
    "fortran": np.asfortranarray(grid(12).reshape(3, 4)),
    "strided": grid(100)[::7],
    "big endian": grid(5, dtype=">i4"),
    "nine dimensions": grid(512).reshape((2,) * 9),
    "dates": np.array(["2020-01-01"], dtype="M8[D]"),
    "strings": np.array(["a", "bcd"]),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "masked": np.ma.masked_array([1, 2], [True, False]).data,
    "numpy number": np.float16(1.5),
    "numpy text": np.str_("a"),
    "numpy date": np.datetime64("2020-01-01"),
    "nested": (grid(3), {"a": [grid(4, dtype=np.uint8), {"b": (None, grid(2))}]}, [], {}, ()),
    "set": {1, "a", (2,)},
    "complex keys": {1: "a", 1.5: "b", None: "c", ("a", 1): "d", b"x": grid(3), frozenset((1,)): 2},
    "ordered": collections.OrderedDict(a=1, b=grid(3)),
    "named tuple": Point(grid(3), Point("a", None)),
    "dataclass": Volume("brain", grid(1000), [grid(7), "x"]),
    "instances": {f"item {i}": Plain(value=grid(i)) for i in range(70)},
    "hundred arrays": [grid(i, dtype=np.int16) for i in range(100)],
    "many small": {f"key {i}": i for i in range(1000)},
    "deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
    "slice": slice(1, None, 2),
    "type": collections.OrderedDict,
    "exception": [ValueError],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_value_comes_back_as_it_was(shared, value):
    shared["key"] = value
    assert same(shared["key"], value)
    assert same(shared.get("key"), value)
    assert same(shared.pop("key"), value)
    assert same(shared.setdefault("key", value), value)
    with pickle.loads(pickle.dumps(shared)) as other:
        assert same(other["key"], value)


VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.binary(),
        st.complex_numbers(),
        st.frozensets(st.integers()),
        st.builds(grid, st.integers(0, 100), dtype=st.sampled_from(["u1", "f4", "i8", "c16", ">f8"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.binary()), inner),
        st.builds(Point, inner, inner),
        st.builds(Plain, a=inner, b=inner),
    ),
    max_leaves=30,
)


def test_any_value_comes_back_as_it_was(shared):
    @settings(max_examples=300, deadline=None)
    @given(VALUE)
    def check(value):
        shared["key"] = value
        found = shared["key"]
        assert same(found, value), (found, value)

    check()


def test_objects_in_two_places_come_back_as_one(shared):
    array, inner = grid(5), [1]
    shared[1] = [array, inner, {"a": array, "b": inner}]
    found = shared[1]
    assert found[0] is found[2]["a"] and found[1] is found[2]["b"]
    circle = [grid(3)]
    circle.append(circle)
    shared[2] = circle
    found = shared[2]
    assert found[1] is found and found[0].tolist() == [0, 1, 2]


def test_what_cannot_be_pickled_is_the_error_that_pickle_raises_and_nothing_is_stored(shared):
    shared[1] = "before"
    for value in (lambda: 1, (i for i in "a")):
        with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
            shared[1] = [grid(3), value]
    assert shared[1] == "before" and len(shared) == 1


def test_the_bytes_of_arrays_are_in_no_pickle():
    array = grid(100_000)
    assert encode(array) is array
    nested = (array, {"a": [array + 1]}, "label")
    assert encode(nested) is nested
    pickled = encode(Volume("brain", array, []))
    assert type(pickled) is Pickled and len(pickled.state) < 500
    assert np.shares_memory(pickled.buffers, array), "one array is copied once only, into the cache"
    pickled = encode([Volume("brain", array, [array[::-1].copy()])])
    assert len(pickled.state) < 500 and pickled.buffers.nbytes == 2 * array.nbytes


def test_values_are_private_copies(shared):
    value = [grid(5), {"a": grid(3)}, Volume("v", grid(4), [1])]
    shared[1] = value
    value[0][:] = 9
    value[1]["a"][:] = 9
    first = shared[1]
    first[0] += 5
    first[1]["a"] += 5
    first[2].voxels += 5
    first[2].more.append(2)
    again = shared[1]
    assert again[0].tolist() == [0, 1, 2, 3, 4] and again[1]["a"].tolist() == [0, 1, 2]
    assert again[2].voxels.tolist() == [0, 1, 2, 3] and again[2].more == [1]


def test_views_are_read_only_and_outlive_what_they_show(open_dict):
    shared = open_dict(views=True)
    shared[1] = {"a": grid(1000)}
    view = shared[1]["a"]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    shared[1] = "other"
    for number in range(2, 50):
        shared[number] = np.full(1000, number)
    assert view.tolist() == list(range(1000))
    with pickle.loads(pickle.dumps(shared)) as other:
        assert not other[2].flags.writeable


def test_tensors_are_raw_wherever_they_are(open_dict):
    shared = open_dict(sample_bytes_max="4MiB")
    torch = pytest.importorskip("torch")
    kinds = [torch.float32, torch.bfloat16, torch.float16, torch.uint16, torch.bool, torch.complex64, torch.int64]
    tensors = [torch.arange(12).reshape(3, 4).to(kind) for kind in kinds]
    shared["plain"] = {"a": tensors, "b": (grid(3), torch.tensor(5))}
    found = shared["plain"]
    assert all(map(torch.equal, found["a"], tensors))
    assert [one.dtype for one in found["a"]] == kinds and found["b"][1].item() == 5
    found["a"][0] += 1
    assert torch.equal(shared["plain"]["a"][0], tensors[0])

    big = torch.arange(100_000.0)
    base = torch.zeros(10)
    odd = {
        "parameter": torch.nn.Parameter(big),
        "views of one": [base, base[2:5]],
        "float8": torch.ones(3).to(torch.float8_e5m2),
        "sparse": torch.eye(3).to_sparse(),
        "empty": Plain(a=torch.empty(0, 2)),
        "object": Plain(tensor=big.double()),
        "module": torch.nn.Linear(3, 2),
    }
    shared["odd"] = odd
    found = shared["odd"]
    assert type(found["parameter"]) is torch.nn.Parameter and torch.equal(found["parameter"], big)
    found["views of one"][0][3] = 7
    assert found["views of one"][1].tolist() == [0, 7, 0]
    assert found["float8"].dtype == torch.float8_e5m2 and found["float8"].float().tolist() == [1, 1, 1]
    assert found["sparse"].to_dense().tolist() == torch.eye(3).tolist()
    assert found["empty"].a.shape == (0, 2)
    assert found["object"].tensor.dtype == torch.float64 and torch.equal(found["object"].tensor, big.double())
    assert torch.equal(found["module"].weight, odd["module"].weight)
    assert len(encode(odd).state) < 10_000


def test_it_needs_no_torch():
    program = (
        "import sys, numpy, ddpcache\n"
        "shared = ddpcache.SharedDict(capacity='1MiB', length=10)\n"
        "shared[1] = {'a': numpy.arange(3), 'b': {1, 2}}\n"
        "assert shared[1]['b'] == {1, 2}\n"
        "assert not {'torch', 'multiprocessing'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
