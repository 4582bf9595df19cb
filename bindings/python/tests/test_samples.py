"""What may be stored comes back with the same structure, types and values; what may not is refused with its name."""

from __future__ import annotations

import collections
import ctypes
import json
import math
import subprocess
import sys
from typing import NamedTuple

import ddpcache
import numpy as np
import pytest
from ddpcache import _samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NUMPY_DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128"),
]


class Point(NamedTuple):
    x: int
    image: np.ndarray


def assert_same(found: object, expected: object) -> None:
    """The same types all the way down, and the same values."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected) and list(map(type, found)) == list(map(type, expected))
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, (float, np.floating)) and math.isnan(expected):
        assert math.isnan(found)
    else:
        assert found == expected


def array(dtype: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (0, 4), (1,), (2, 1, 3, 1, 2, 1, 1, 2)], ids=str)
def test_arrays_of_every_dtype_and_shape(cache, dtype, shape):
    expected = array(dtype, shape)
    cache[1] = expected
    assert_same(cache[1], expected)
    assert cache[1].ctypes.data % 64 == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a[::2, ::-1],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[0], (5, 6)),
        lambda a: a.astype(">i4"),
    ],
)
def test_arrays_of_any_layout_are_stored_in_c_order_and_native_bytes(cache, change):
    expected = change(np.arange(24, dtype="i4").reshape(4, 6))
    cache[1] = expected
    assert cache[1].flags.c_contiguous and cache[1].dtype.isnative
    np.testing.assert_array_equal(cache[1], expected)


def test_read_only_and_mapped_arrays_are_arrays(cache, tmp_path):
    frozen = array("int32")
    frozen.setflags(write=False)
    cache[1] = frozen
    assert_same(cache[1], frozen)
    mapped = np.memmap(tmp_path / "file", dtype="i4", mode="w+", shape=(3,))
    mapped[:] = 5
    cache[2] = mapped
    assert_same(cache[2], np.full(3, 5, "i4"))


@pytest.mark.parametrize(
    "sample",
    [
        *(0, 1, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, -(2**200), 1 << 20_000, True, False, None),
        *(0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 5e-324, 1j, complex(-1.5, math.inf)),
        *("", "text", "häß\0 🙂", "\ud800", b"", b"\0\xff", "x" * 100_000, b"y" * 100_000),
        *(np.float32(1.5), np.int8(-3), np.bool_(True), np.complex64(1j), np.float16(0.5), np.longdouble(3)),
        *((), [], {}, (1,), [1], (1, 2, 3), [1, 2, 3], [1.5, 2.5], (True, False), [1j], [1, 2.0, True], [2**70, 1]),
        *([None, None], ["a", "b"], [[1, 2], [3]], ((),), [[]], {"a": {}}, [(1, "x"), (2, "y")]),
        {"image": array("uint8"), "label": 3, "name": "cat", "box": (1, 2, 3, 4), "deep": {"er": [array("float32")]}},
        {1: "int", "1": "str", (1, "a"): "tuple", None: "none", 2.5: "float", ((1,), True): "nested"},
        (array("uint8"), 7),
        Point(1, array("float64")),
        [Point(1, array("bool")), Point(2, array("bool"))],
        [array("int32")] * 64,
    ],
    ids=lambda sample: type(sample).__name__,
)
def test_every_kind_of_sample(cache, sample):
    cache[1] = sample
    assert_same(cache[1], sample)
    assert_same(cache.get_or_load(1, int), sample)
    assert_same(cache.get_or_load(2, lambda index: sample), sample)


def test_a_plain_array_has_no_structure_and_others_say_how_they_nest():
    arrays, structure = _samples.flatten(array("uint8"))
    assert structure is None and [(code, bits, shape) for _, code, bits, shape, _ in arrays] == [(1, 8, (2, 3))]
    arrays, structure = _samples.flatten({"image": array("uint8"), "target": (3, 4.5)})
    assert [name for *_, name in arrays] == ["image", "target.0", "target.1"]
    assert json.loads(structure) == {
        "ddpcache": 1,
        "sample": ["dict", ["image", "target"], [0, ["tuple", [["int", 1], ["float", 2]]]]],
    }


def test_samples_alike_in_shape_have_one_structure():
    structures = {
        _samples.flatten((array("uint8"), label, f"name {label}", list(range(label)), (0.5,) * label))[1]
        for label in range(1, 50)
    }
    assert len(structures) == 1


def test_samples_of_many_small_parts_are_packed(cache):
    objects = [
        {"box": [1.5, 2.5, 3.5, number], "id": number, "crowd": False, "name": f"n{number}", "data": b"\xff\0"}
        for number in range(300)
    ]
    sample = {
        "image": array("uint8"),
        "objects": objects,
        "other": (None, 1j, 2**90, np.float32(0.1), math.nan, "\ud800", array("int64"), {(1, 2): 3}),
    }
    cache[1] = sample
    assert_same(cache[1], sample)
    arrays, structure = _samples.flatten(sample)
    assert len(arrays) == 3 and json.loads(structure) == {"ddpcache": 1, "packed": 2}


def test_more_arrays_than_a_record_holds_are_an_error_with_both_counts(cache):
    with pytest.raises(ddpcache.TooLargeError, match=r"100 arrays.*63") as caught:
        cache[1] = [array("int32")] * 100
    assert isinstance(caught.value, ValueError) and 1 not in cache
    with pytest.raises(ValueError, match="9 dimensions.*8"):
        cache[1] = np.zeros((1,) * 9)


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (object(), "builtins.object"),
        ({1, 2}, "builtins.set"),
        ({"a": [1, {"b": lambda: 0}]}, "item a.1.b is a builtins.function"),
        (np.array(["text"]), "<U4"),
        (np.array([object()]), "object"),
        (np.zeros(2, dtype="i4,f8"), "i4"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
        ((np.datetime64("2020-01-01"),), "datetime64"),
        (np.zeros(2, dtype="clongdouble"), "clongdouble|complex256"),
        (np.ma.masked_array([1, 2], [True, False]), "MaskedArray"),
        (np.str_("text"), "str_|<U4"),
        (collections.OrderedDict(a=1), "OrderedDict"),
        ({b"key": 1}, "b'key'"),
        ({np.int64(3): 1}, "key"),
        (bytearray(b"x"), "bytearray"),
        (range(3), "range"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_a_cache_cannot_hold_is_a_type_error_that_says_where(cache, sample, text):
    for store in (cache.put, cache.__setitem__, lambda index, value: cache.get_or_load(index, lambda _: value)):
        with pytest.raises(TypeError, match=text):
            store(1, sample)
    assert 1 not in cache and cache.stats().open_fills == 0
    assert cache.put(1, 5)


def test_a_sample_that_contains_itself_is_a_recursion_error(cache):
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        cache[1] = loop
    assert 1 not in cache


def test_torch_is_imported_only_where_it_is_used(name):
    program = (
        "import sys, numpy, ddpcache\n"
        f"with ddpcache.Cache({name!r}, length=3, capacity='1MiB', fingerprint=None) as cache:\n"
        "    cache[0] = {'a': numpy.zeros(3), 'b': [1, 'x']}\n"
        "    cache.get(0), cache.get_or_load(1, lambda i: numpy.zeros(2)), cache.read_batch([1])\n"
        "list(ddpcache.Sampler(10))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class _Array(ctypes.Structure):
    """dc_array, as a C program has it."""

    _fields_ = [
        ("data", ctypes.POINTER(ctypes.c_uint8)),
        ("bytes", ctypes.c_uint64),
        ("shape", ctypes.c_int64 * 8),
        ("dimensions", ctypes.c_uint32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("name", ctypes.c_char * 56),
        ("reserved", ctypes.c_uint8 * 24),
    ]


@pytest.fixture
def store_in_c(cache):
    """Stores records as a C program does: (code, bits, lanes, shape, name, content) each, and a structure string."""
    library = ctypes.CDLL(f"{ddpcache.__path__[0]}/libddpcache.so.1")
    handle = ctypes.c_void_p()
    name = cache.name.encode()
    assert library.dc_cache_attach(name, None, ctypes.c_int64(10**9), ctypes.byref(handle), None) == 0

    def store(index: int, *arrays: tuple, structure: bytes | None = None) -> None:
        fill = ctypes.c_void_p()
        assert library.dc_cache_fill_begin(handle, ctypes.c_int64(index), ctypes.c_int64(0), ctypes.byref(fill)) == 0
        record = (_Array * len(arrays))()
        for place, (code, bits, lanes, shape, name, _) in zip(record, arrays, strict=True):
            place.dtype_code, place.dtype_bits, place.dtype_lanes, place.name = code, bits, lanes, name
            place.shape[: len(shape)], place.dimensions = shape, len(shape)
        assert library.dc_cache_fill_allocate(fill, record, len(arrays), structure, None) == 0
        for place, (*_, content) in zip(record, arrays, strict=True):
            assert place.bytes == len(content)
            ctypes.memmove(place.data, content, len(content))
        assert library.dc_cache_fill_commit(fill) == 0

    yield store
    assert library.dc_cache_close(handle) == 0


def test_records_of_c_programs_are_arrays_tuples_and_dicts(cache, store_in_c):
    one = (1, 8, 1, (3,), b"", b"abc")
    image = (1, 8, 1, (3,), b"image", b"abc")
    label = (0, 16, 1, (), b"label", b"\x07\0")
    store_in_c(1, one)
    store_in_c(2, image, label)
    store_in_c(3, one, label)
    store_in_c(4, image, image)
    store_in_c(5, image)
    assert_same(cache[1], np.frombuffer(b"abc", np.uint8))
    assert_same(cache[2], {"image": np.frombuffer(b"abc", np.uint8), "label": np.array(7, np.int16)})
    assert_same(cache[3], (np.frombuffer(b"abc", np.uint8), np.array(7, np.int16)))
    assert type(cache[4]) is tuple and type(cache[5]) is np.ndarray


def test_types_that_numpy_lacks_are_unsigned_integers(cache, store_in_c):
    store_in_c(1, (4, 16, 1, (2,), b"", b"\x80\x3f\0\x40"))
    store_in_c(2, (2, 32, 4, (2,), b"", np.arange(8, dtype="f4").tobytes()))
    assert_same(cache[1], np.array([0x3F80, 0x4000], np.uint16))
    assert_same(cache[2], np.arange(8, dtype="f4").reshape(2, 4))


@pytest.mark.parametrize(
    "structure",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"ddpcache":2,"sample":0}',
        b'{"ddpcache":1}',
        b'{"ddpcache":1,"sample":["strange",0]}',
        b'{"ddpcache":1,"sample":["dict",["a"],[0,0]]}',
        b'{"ddpcache":1,"sample":["dict",[{}],[0]]}',
        b'{"ddpcache":1,"sample":["named","os:system",[0]]}',
        b'{"ddpcache":1,"sample":["named","no.such.module:x",[0]]}',
        b'{"ddpcache":1,"sample":["tuple",[5]]}',
        b'{"ddpcache":1,"sample":-1}',
        b'{"ddpcache":1,"sample":["int",-1]}',
        b'{"ddpcache":1,"sample":["int","0"]}',
        b'{"ddpcache":1,"sample":["int",0]}',
        b'{"ddpcache":1,"sample":["complex",0]}',
        b'{"ddpcache":1,"sample":["numpy"]}',
        b'{"ddpcache":1,"packed":0}',
        b'{"ddpcache":1,"sample":' + b'["list",[' * 250 + b"0" + b"]]" * 250 + b"}",
    ],
)
def test_a_foreign_or_damaged_structure_is_an_error_and_no_crash(cache, store_in_c, structure):
    store_in_c(1, (1, 8, 1, (3,), b"", b"abc"), structure=structure)
    try:
        found = cache[1]
    except (ddpcache.Error, IndexError, TypeError, OverflowError, RecursionError) as error:
        assert str(error)
    else:
        assert structure.count(b"[") == 500 and isinstance(found, list)
    assert cache.read_batch([1], array=0).tolist() == [[97, 98, 99]]


def nested(children: st.SearchStrategy) -> st.SearchStrategy:
    keys = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.tuples(st.text(max_size=3)))
    return st.one_of(
        st.lists(children, max_size=6),
        st.lists(children, max_size=6).map(tuple),
        st.dictionaries(keys, children, max_size=6),
    )


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(allow_nan=False),
    st.text(),
    st.binary(),
    st.sampled_from(NUMPY_DTYPES).flatmap(lambda dtype: st.just(array(dtype, (3,)))),
    st.sampled_from([np.float32(0.5), np.int8(-1), np.bool_(True)]),
)


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(sample=st.recursive(LEAVES, nested, max_leaves=60))
def test_any_nesting_of_samples(open_cache, sample):
    with open_cache(".any", length=1, fingerprint=None) as cache:
        cache[0] = sample
        assert_same(cache[0], sample)


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(sample=st.recursive(LEAVES, nested, max_leaves=60))
def test_any_nesting_of_samples_is_packed_where_it_is_large(open_cache, sample):
    padded = [sample, *([None, number] for number in range(70))]
    with open_cache(".any", length=1, fingerprint=None) as cache:
        cache[0] = padded
        assert_same(cache[0], padded)
