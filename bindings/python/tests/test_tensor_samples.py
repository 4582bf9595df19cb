"""Torch tensors as samples: the same dtype, shape and values; private copies by default, views where asked for."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import threading
import warnings

import ddpcache
import numpy as np
import pytest
import torch
from ddpcache import _samples

DTYPES = [getattr(torch, name) for name in _samples.TORCH_CODES]


def tensor(dtype: torch.dtype, shape: tuple[int, ...] = (2, 3)) -> torch.Tensor:
    count = int(np.prod(shape, dtype=int))
    return torch.arange(count, dtype=torch.float32).reshape(shape).to(dtype)


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert type(found) is torch.Tensor and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.is_contiguous() and not found.requires_grad
    as_bytes = [one.contiguous().reshape(-1).view(torch.uint8) for one in (found, expected.detach().resolve_conj())]
    assert torch.equal(*as_bytes)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (0, 4), (1, 2, 1, 2, 1, 2, 1, 3)], ids=str)
@pytest.mark.parametrize("view", [False, True])
def test_tensors_of_every_dtype_and_shape(cache, dtype, shape, view):
    expected = tensor(dtype, shape)
    cache[1] = expected
    cache[2] = {"pair": (expected, 5), "array": np.arange(3)}
    assert_same(cache.get(1, view=view), expected)
    assert_same(cache.get_or_load(1, int, view=view), expected)
    found = cache.get(2, view=view)
    assert_same(found["pair"][0], expected)
    assert found["pair"][1] == 5 and type(found["array"]) is np.ndarray and not found["array"].flags.writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda: tensor(torch.float32, (4, 6)).T,
        lambda: tensor(torch.float32, (4, 6))[::2, 1::3],
        lambda: tensor(torch.float32, (4, 1)).expand(4, 5),
        lambda: tensor(torch.complex64).conj(),
        lambda: tensor(torch.complex64).conj().imag,
        lambda: tensor(torch.float32).requires_grad_(),
        lambda: tensor(torch.float32, (2, 3, 4, 5)).to(memory_format=torch.channels_last),
    ],
)
def test_tensors_of_any_layout_are_stored_plainly(cache, make):
    cache[1] = make()
    assert_same(cache[1], make())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Parameter(torch.zeros(3)),
        lambda: torch.zeros(3).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8),
        lambda: torch.zeros(3, device="meta"),
        lambda: torch.zeros(3).to(torch.float8_e4m3fn),
    ],
)
def test_other_tensors_are_refused(cache, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        special = make()
    with pytest.raises(TypeError, match="plain dense"):
        cache[1] = special
    assert 1 not in cache


CHANGES = [
    lambda t: t.add_(1),
    lambda t: t.zero_(),
    lambda t: t.__setitem__(0, 5),
    lambda t: t.resize_(20),
    lambda t: t.numpy().fill(7),
    lambda t: t.requires_grad_().sum().backward(),
    lambda t: t.share_memory_().add_(1),
    lambda t: t.set_(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_tensors_may_be_changed_and_the_cache_is_not(cache, change):
    cache[1] = tensor(torch.float32)
    cache[2] = [tensor(torch.float32), "text"]
    for find in (lambda: cache[1], lambda: cache.get(1), lambda: cache.get_or_load(1, int), lambda: cache[2][0]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            change(find())
        assert_same(find(), tensor(torch.float32))


def test_a_full_cache_gives_the_loaders_tensor(open_cache):
    cache = open_cache(capacity="1MiB", sample_bytes=1 << 19)
    made = [torch.full((1 << 17,), float(index)) for index in range(5)]
    found = [cache.get_or_load(index, made.__getitem__) for index in range(5)]
    assert all(torch.equal(one, other) for one, other in zip(found, made, strict=True))
    assert found[-1] is made[-1] and cache.stats().bypasses > 0


def test_view_tensors_outlive_the_handle(name):
    cache = ddpcache.Cache(name, length=5, capacity="4MiB", fingerprint=None)
    cache[1] = tensor(torch.float32)
    cache[2] = (tensor(torch.int64), tensor(torch.bfloat16))
    one, (two, three) = cache.get(1, view=True), cache.get(2, view=True)
    part = one[1:]
    cache.close()
    del cache, one, two
    gc.collect()
    assert torch.equal(part, tensor(torch.float32)[1:]) and torch.equal(three, tensor(torch.bfloat16))
    thread = threading.Thread(target=lambda held: held.clear(), args=([part, three],))
    del part, three
    thread.start()
    thread.join()
    assert name not in ddpcache.Cache.list()


def _write_to_view(cache: ddpcache.Cache) -> None:
    faulthandler.disable()
    cache.get(1, view=True).add_(1)


def test_writing_to_a_view_ends_the_writer_and_changes_nothing(cache):
    cache[1] = tensor(torch.float32)
    writer = multiprocessing.get_context("fork").Process(target=_write_to_view, args=(cache,))
    writer.start()
    writer.join(60)
    assert writer.exitcode == -11
    assert_same(cache[1], tensor(torch.float32))


def test_batches_may_be_read_into_tensors(cache):
    for index in range(10):
        cache[index] = torch.full((2, 3), index)
    out = torch.empty((3, 2, 3), dtype=torch.int64)
    assert cache.read_batch(torch.tensor([5, 1, 9]), out) is out
    assert out[:, 0, 0].tolist() == [5, 1, 9]
    assert cache.read_batch([5]).shape == (1, 2, 3)
    assert torch.equal(cache[torch.tensor(5)], torch.full((2, 3), 5))


def test_tensors_do_not_leak(open_cache):
    cache = open_cache(sample_bytes_max=1 << 20)
    cache[1] = torch.zeros(100_000)
    cache[2] = [torch.zeros(10), 5]

    def use(rounds: int) -> None:
        for _ in range(rounds):
            cache[1], cache[2], cache.get(1, view=True), cache.get(2, view=True)

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4096

    use(200)
    before = resident()
    use(2000)
    assert resident() - before < 8 << 20
