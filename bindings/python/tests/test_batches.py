"""Batches copied out of a cache: of one array, of whole samples, and of samples of different shape."""

from __future__ import annotations

from typing import NamedTuple

import ddpcache
import numpy as np
import pytest
from ddpcache import _swig


def image(index: int, shape: tuple[int, ...] = (4, 5)) -> np.ndarray:
    return np.full(shape, index, dtype=np.int32)


class Pair(NamedTuple):
    left: np.ndarray
    right: float


class TestReadBatch:
    @pytest.fixture
    def filled(self, cache):
        for index in range(50):
            cache[index] = image(index)
        return cache

    @pytest.mark.parametrize("threads", [1, 2])
    def test_it_gathers_samples_in_the_order_asked(self, filled, threads):
        indices = [7, 3, 3, 49, 0]
        batch = filled.read_batch(indices, threads=threads)
        assert batch.shape == (5, 4, 5) and batch.dtype == np.int32 and batch.flags.writeable
        assert (batch == np.stack([image(index) for index in indices])).all()

    def test_it_fills_the_array_that_it_is_given(self, filled):
        out = np.empty((3, 4, 5), dtype=np.int32)
        assert filled.read_batch(np.array([1, 2, 3]), out) is out
        assert (out[2] == 3).all()
        assert filled.read_batch([], np.empty((0, 4, 5))).shape == (0, 4, 5)

    def test_it_reads_one_array_of_each_sample(self, open_cache):
        cache = open_cache(".pairs")
        for index in range(4):
            cache[index] = (image(index), index * 10)
        assert cache.read_batch([3, 1], array=1).tolist() == [30, 10]
        for out in (None, np.empty((2, 1), np.int64)):
            with pytest.raises(ddpcache.RecordError, match="array"):
                cache.read_batch([3, 1], out, array=2)

    @pytest.mark.parametrize(
        "out",
        [
            np.zeros((3, 4, 5), np.float32),
            np.zeros((3, 5, 4), np.int32),
            np.zeros((3, 20), np.int32),
            np.zeros((3, 80), np.uint8),
            np.zeros((2, 4, 5), np.int32),
        ],
    )
    def test_it_refuses_memory_that_is_not_like_the_samples(self, filled, out):
        with pytest.raises(ddpcache.RecordError, match=r"out is .* index 1 take int32 of shape \(3, 4, 5\)"):
            filled.read_batch([1, 2, 3], out)
        assert not out.any()

    def test_missing_samples_are_named(self, filled):
        with pytest.raises(KeyError, match="1 of 3 samples: indices 77"):
            filled.read_batch([1, 77, 2])
        with pytest.raises(KeyError, match="77"):
            filled.read_batch([77, 1])
        with pytest.raises(IndexError, match="100"):
            filled.read_batch([1, 100])
        out = np.zeros((3, 4, 5), dtype=np.int32)
        with pytest.raises(KeyError):
            filled.read_batch([1, 77, 2], out)
        assert (out[0] == 1).all() and (out[1] == 0).all() and (out[2] == 2).all()

    def test_samples_of_another_size_are_named(self, filled):
        filled[60] = image(60, (2, 2))
        with pytest.raises(ddpcache.RecordError, match="not of the shape that index 1 has: 1 of 2 samples: indices 60"):
            filled.read_batch([1, 60])

    @pytest.mark.parametrize(
        ("indices", "out", "error"),
        [
            ([], None, ValueError),
            ([1.5], None, TypeError),
            ([[1]], None, TypeError),
            ("12", None, TypeError),
            ([1], np.empty((2, 4, 5), np.int32), ValueError),
            ([1, 2], np.empty((2, 5, 8), np.int32)[:, :, ::2], ValueError),
            ([1], b"123", (TypeError, ValueError)),
            ([1], [0] * 20, TypeError),
        ],
    )
    def test_wrong_arguments(self, filled, indices, out, error):
        with pytest.raises(error):
            filled.read_batch(indices, out)

    @pytest.mark.parametrize("threads", [0, 65, "2"])
    def test_wrong_threads(self, filled, threads):
        with pytest.raises((ValueError, TypeError), match=str(threads)):
            filled.read_batch([1], threads=threads)


def sample(index: int) -> tuple:
    """Of every kind that a batch can be made of."""
    return (
        image(index),
        {"mask": np.full(3, index % 2 == 0), 7: index, "scale": index / 2, "flag": index > 3},
        [Pair(np.array(index, np.float32), 1.5), "sample " * index, b"x" * index, None],
        (index, index + 1),
        [1j * index],
        np.float16(index),
        2**70 + index,
    )


class TestWholeSamples:
    @pytest.fixture
    def filled(self, cache):
        for index in range(20):
            cache[index] = sample(index)
        return cache

    def test_a_batch_is_nested_as_its_samples_are(self, filled):
        indices = [5, 0, 12, 5]
        images, named, mixed, pairs, complexes, half, large = filled.read_batch(indices)
        assert (images == np.stack([image(index) for index in indices])).all()
        assert list(named) == ["mask", 7, "scale", "flag"]
        assert named["mask"].tolist() == [[False] * 3, [True] * 3, [True] * 3, [False] * 3]
        assert named[7].tolist() == indices and named[7].dtype == np.int64
        assert named["scale"].tolist() == [2.5, 0, 6, 2.5]
        assert named["flag"].tolist() == [True, False, True, True] and named["flag"].dtype == np.bool_
        pair, text, data, nothing = mixed
        assert type(pair) is Pair and pair.left.dtype == np.float32 and pair.left.shape == (4,)
        assert pair.right.tolist() == [1.5] * 4
        assert text == ["sample " * index for index in indices] and data == [b"x" * index for index in indices]
        assert nothing is None
        assert pairs.tolist() == [[index, index + 1] for index in indices]
        assert complexes.tolist() == [[1j * index] for index in indices]
        assert half.dtype == np.float16
        assert large == [2**70 + index for index in indices]

    def test_nothing_but_the_copies_is_counted(self, filled):
        before = filled.stats()
        filled.read_batch([1, 2, 3])
        filled.read_batch([1, 2, 3], array=0)
        filled.read_ragged([1, 2, 3])
        after = filled.stats()
        assert after.hits - before.hits == 9 and after.misses == before.misses
        with pytest.raises(KeyError):
            filled.read_batch([1, 50, 60])
        with pytest.raises(KeyError):
            filled.read_batch([50, 60])
        assert filled.stats().misses - after.misses == 4

    def test_the_batch_of_an_earlier_call_is_filled_anew(self, open_cache):
        cache = open_cache(".out")
        for index in range(10):
            cache[index] = {"image": image(index), "labels": (index, np.float32(index))}
        batch = cache.read_batch([1, 2])
        assert cache.read_batch([8, 9], batch) is batch
        assert batch["image"][:, 0, 0].tolist() == [8, 9] and batch["labels"][1].tolist() == [8, 9]
        for out in ({}, (), {"image": batch["image"]}, {**batch, "more": 1}, {"image": batch["image"], "other": 1}):
            with pytest.raises(ddpcache.RecordError, match="out has a"):
                cache.read_batch([1, 2], out)
        with pytest.raises(ddpcache.RecordError, match=r"out is int32 of shape \(2, 4, 5\), but 1 .* like index 3"):
            cache.read_batch([3], batch)
        with pytest.raises(ddpcache.RecordError, match="float32"):
            cache.read_batch([3, 4], {"image": batch["image"].astype(np.float32), "labels": batch["labels"]})
        assert batch["image"][:, 0, 0].tolist() == [8, 9]

    def test_text_has_no_room_in_out(self, open_cache):
        cache = open_cache(".text")
        cache[1] = ("one", 1)
        with pytest.raises(ValueError, match="text"):
            cache.read_batch([1], ([""], np.zeros(1, np.int64)))

    def test_statuses_are_given_instead_of_raised(self, filled):
        filled[30] = ("another", "structure")
        statuses = np.full(5, 9, np.int32)
        batch = filled.read_batch([70, 4, 30, 100, 6], statuses=statuses)
        assert statuses.tolist() == [_swig.DC_MISS, 0, _swig.DC_ERROR_RECORD, _swig.DC_ERROR_RANGE, 0]
        assert batch[0][:, 0, 0].tolist() == [0, 4, 0, 0, 6]
        assert batch[2][1] == [None, "sample " * 4, None, None, "sample " * 6]
        out = np.full((2, 4, 5), 7, np.int32)
        assert filled.read_batch([70, 4], out, array=0, statuses=statuses[:2]) is out
        assert (out[0] == 7).all() and (out[1] == 4).all() and statuses[:2].tolist() == [_swig.DC_MISS, 0]
        assert filled.read_batch([70], out[:1], array=0, statuses=statuses[:1]) is not None
        assert (out[0] == 7).all()
        with pytest.raises(KeyError, match="none of the 2 samples"):
            filled.read_batch([70, 71], statuses=statuses[:2])
        for wrong in (statuses[:3], statuses[:2].astype(np.int64), [0, 0]):
            with pytest.raises(ValueError, match="int32 array of 2"):
                filled.read_batch([1, 2], statuses=wrong)

    def test_the_first_sample_may_go_meanwhile(self, open_cache, monkeypatch):
        cache = open_cache(".first", droppable=True)
        for index in (1, 2):
            cache[index] = (image(index), index)
        structure = _swig.dc_cache_structure

        def structure_too_late(*arguments):
            cache.remove(1)
            return structure(*arguments)

        monkeypatch.setattr(_swig, "dc_cache_structure", structure_too_late)
        statuses = np.zeros(2, np.int32)
        images, numbers = cache.read_batch([1, 2], statuses=statuses)
        assert statuses.tolist() == [_swig.DC_MISS, 0]
        assert (images[0] == 0).all() and (images[1] == 2).all()
        assert numbers.tolist() == [0, 2]
        with pytest.raises(KeyError, match="1 samples like index 2 were removed"):
            monkeypatch.setattr(_swig, "dc_cache_structure", lambda *_: (_swig.DC_MISS, 0))
            cache.read_batch([2])

    @pytest.mark.parametrize("read", ["read_batch", "read_ragged"])
    def test_a_sample_that_goes_meanwhile_leaves_zeros(self, open_cache, monkeypatch, read):
        cache = open_cache(".going", droppable=True)
        for index in (1, 2):
            cache[index] = image(index)
        gather = _swig.dc_cache_gather

        def gather_too_late(*arguments):
            cache.remove(2)
            return gather(*arguments)

        def not_zeroed(shape, dtype=float):
            made = np.zeros(shape, dtype)
            made.reshape(-1).view(np.uint8)[:] = 0xA5
            return made

        monkeypatch.setattr(_swig, "dc_cache_gather", gather_too_late)
        monkeypatch.setattr(np, "empty", not_zeroed)
        statuses = np.zeros(2, np.int32)
        batch = getattr(cache, read)([1, 2], statuses=statuses)
        assert statuses.tolist() == [0, _swig.DC_MISS]
        images = [batch.sample(0), batch.sample(1)] if read == "read_ragged" else batch
        assert (images[0] == 1).all()
        assert (images[1] == 0).all()

    def test_samples_that_are_not_like_the_first_are_named(self, open_cache):
        cache = open_cache(".unlike")
        cache[1] = (image(1), 1)
        cache[2] = (image(2, (5, 4)), 2)
        cache[3] = [image(3), 3]
        cache[4] = (image(4).astype(np.float32), 4)
        cache[5] = (image(5), 5)
        for index, what in ((2, "shape"), (3, "structure"), (4, "shape")):
            with pytest.raises(ddpcache.RecordError, match=f"not of the {what} that index 1 has: 1 of 3.*{index}"):
                cache.read_batch([1, index, 5])
        assert cache.read_batch([1, 2, 3, 4], array=1).tolist() == [1, 2, 3, 4]
        with pytest.raises(ddpcache.RecordError, match="no array 2"):
            cache.read_batch([1], array=2)

    def test_a_sample_in_one_piece_of_text_is_no_batch(self, cache):
        cache[1] = [str(number) for number in range(100)]
        with pytest.raises(ddpcache.RecordError, match="array="):
            cache.read_batch([1])
        assert cache.read_batch([1], array=0).dtype == np.uint8

    def test_samples_with_a_key_are_read_by_it(self, open_cache):
        cache = open_cache(".keys", keyed=True)
        cache["a"], cache["b"] = (image(1), 1), (image(2), 2)
        assert cache.read_batch(["b", "a"])[1].tolist() == [2, 1]
        assert cache.read_ragged(["b", "a"]).values.size == 40
        statuses = np.zeros(2, np.int32)
        assert cache.read_batch(["c", "a"], statuses=statuses)[1].tolist() == [0, 1]
        assert statuses.tolist() == [_swig.DC_MISS, 0]


class TestRagged:
    SHAPES = ((2, 3), (0, 3), (4, 3), (1, 3))

    @pytest.fixture
    def filled(self, cache):
        for index, shape in enumerate(self.SHAPES):
            cache[index] = (np.full(shape, index, np.float32), np.full(shape[::-1], index, np.uint8))
        return cache

    @pytest.mark.parametrize("threads", [1, 3])
    def test_samples_of_different_shape_lie_one_after_the_other(self, filled, threads):
        values, offsets, shapes = batch = filled.read_ragged([2, 0, 1, 3], threads=threads)
        assert values.tolist() == [2] * 12 + [0] * 6 + [3] * 3 and values.dtype == np.float32
        assert offsets.tolist() == [0, 12, 18, 18, 21] and offsets.dtype == np.int64
        assert shapes.tolist() == [[4, 3], [2, 3], [0, 3], [1, 3]] and shapes.dtype == np.int64
        assert batch.sample(1).shape == (2, 3) and (batch.sample(1) == 0).all()
        assert np.shares_memory(batch.sample(3), values)
        with pytest.raises(IndexError):
            batch.sample(4)
        with pytest.raises(IndexError):
            batch.sample(-1)
        other = filled.read_ragged([2, 3], array=1)
        assert other.values.dtype == np.uint8 and other.shapes.tolist() == [[3, 4], [3, 1]]

    def test_rows_are_what_jagged_tensors_are_made_of(self, filled):
        values, offsets = filled.read_ragged([2, 0, 1]).jagged()
        assert values.shape == (6, 3) and offsets.tolist() == [0, 4, 6, 6]
        with pytest.raises(ValueError, match="first dimension"):
            filled.read_ragged([2, 0], array=1).jagged()

    def test_numbers_are_samples_without_dimensions(self, open_cache):
        cache = open_cache(".numbers")
        cache[1], cache[2] = 10, 20
        batch = cache.read_ragged([2, 1])
        assert batch.values.tolist() == [20, 10] and batch.shapes.shape == (2, 0) and batch.sample(0) == 20
        with pytest.raises(ValueError):
            batch.jagged()

    def test_misses_are_raised_or_given(self, filled):
        with pytest.raises(KeyError, match="1 of 2 samples: indices 9"):
            filled.read_ragged([1, 9])
        with pytest.raises(KeyError, match="1 of 1 samples: indices 9"):
            filled.read_ragged([9])
        statuses = np.zeros(3, np.int32)
        values, offsets, shapes = filled.read_ragged([9, 3, 200], statuses=statuses)
        assert values.tolist() == [3, 3, 3] and offsets.tolist() == [0, 0, 3, 3]
        assert shapes.tolist() == [[0, 0], [1, 3], [0, 0]]
        assert statuses.tolist() == [_swig.DC_MISS, 0, _swig.DC_ERROR_RANGE]

    def test_types_and_numbers_of_dimensions_must_be_alike(self, filled):
        filled[7] = np.zeros(3, np.float32)
        filled[8] = np.zeros((1, 3), np.float64)
        for index in (7, 8):
            with pytest.raises(ddpcache.RecordError, match=f"dtype and number of dimensions.*indices {index}"):
                filled.read_ragged([0, index])
        with pytest.raises(ddpcache.RecordError, match="without such an array.*indices 7"):
            filled.read_ragged([0, 7], array=1)
        with pytest.raises(ValueError, match="empty"):
            filled.read_ragged([])


def test_a_process_maps_its_cache_in_the_background(open_cache):
    cache = open_cache(".populate", populate=True)
    for index in range(100):
        cache[index] = np.full(100_000, index, np.uint8)
    cache.populate()
    cache.populate()
    assert all((cache[index] == index).all() for index in range(100))
    cache.close()
    with pytest.raises(ddpcache.StateError):
        cache.populate()
