"""Batches of torch tensors."""

from __future__ import annotations

import ddpcache
import numpy as np
import pytest
import torch
from ddpcache import _samples


def same(batch: torch.Tensor, *samples: torch.Tensor) -> bool:
    """Whether a batch is made of these samples, to the bit: some types have no torch.equal."""
    return batch.reshape(-1).view(torch.uint8).equal(torch.stack(samples).reshape(-1).view(torch.uint8))


DTYPES = [getattr(torch, name) for name in _samples.TORCH_CODES]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_become_one_tensor(cache, dtype):
    stored = [torch.arange(6, dtype=torch.float32).add(index).reshape(2, 3).to(dtype) for index in range(4)]
    for index, tensor in enumerate(stored):
        cache[index] = (tensor, index)
    batch, labels = cache.read_batch([3, 1])
    assert batch.dtype == dtype and same(batch, stored[3], stored[1])
    assert labels.tolist() == [3, 1] and type(labels) is np.ndarray
    batch.zero_()
    assert same(cache[3][0][None], stored[3]), "a batch is a private copy"
    out = torch.zeros(2, 2, 3, dtype=dtype)
    assert cache.read_batch([0, 2], (out, labels))[0] is out
    assert same(out, stored[0], stored[2]) and labels.tolist() == [0, 2]


def test_memory_that_does_not_fit_is_refused(cache):
    cache[1] = torch.zeros(2, 3)
    wrong = [torch.zeros(1, 3, 2), torch.zeros(1, 2, 3, dtype=torch.int32), torch.zeros(1, 3, 2).mT]
    for out in wrong:
        with pytest.raises(ValueError, match=r"out (is|must)"):
            cache.read_batch([1], out)
    with pytest.raises(TypeError, match="meta"):
        cache.read_batch([1], torch.zeros(1, 2, 3, device="meta"))
    array = np.ones((1, 2, 3), np.float32)
    assert cache.read_batch([1], array) is array and not array.any()


def test_ragged_tensors_make_a_nested_one(cache):
    for index, length in enumerate((3, 0, 5)):
        cache[index] = torch.full((length, 4), float(index), dtype=torch.bfloat16)
    batch = cache.read_ragged([2, 0, 1], tensors=True)
    assert batch.values.dtype == torch.bfloat16 and batch.offsets.dtype == batch.shapes.dtype == torch.int64
    assert torch.equal(batch.sample(0), torch.full((5, 4), 2.0, dtype=torch.bfloat16))
    nested = torch.nested.nested_tensor_from_jagged(*batch.jagged())
    assert [tuple(part.shape) for part in nested.unbind()] == [(5, 4), (3, 4), (0, 4)]
    assert cache.read_ragged([2, 0]).values.dtype == np.uint16, "NumPy has no bfloat16"


def test_a_type_that_torch_lacks_is_an_error(cache):
    cache[1] = np.zeros(3, np.longdouble)
    with pytest.raises(TypeError, match="128 bits"):
        cache.read_ragged([1], tensors=True)
    assert cache.read_ragged([1]).values.dtype == np.longdouble
    with pytest.raises(ddpcache.MissError):
        cache.read_ragged([2], tensors=True)
