"""ddpcache.compat.stocaching beside the package stocaching itself: the same calls on both, in one process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import textwrap

import ddpcache
import pytest

torch = pytest.importorskip("torch")
original = pytest.importorskip("stocaching")
from ddpcache.compat import stocaching as ours  # noqa: E402


def outcome(call, *arguments, **options):
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error)


def same(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    return type(one) is type(other) and one == other


def both(*arguments, **options):
    return original.SharedCache(*arguments, **options), ours.SharedCache(*arguments, **options)


def test_names_are_the_originals():
    assert set(original.__all__) <= set(ours.__all__)
    for name in dir(original.SharedCache):
        assert name.startswith("__") or hasattr(ours.SharedCache, name), name
    assert [(state.name, state.value) for state in ours.SlotState] == [
        (state.name, state.value) for state in original.SlotState
    ]
    assert ours.get_shm_size() == original.get_shm_size()


@pytest.mark.parametrize(
    "arguments",
    [
        (1, 10, (3,)),
        (0, 10, (3,)),
        (1, 0, (3,)),
        (1, 10, ()),
        (1, 10, (0, 3)),
        (1e-7, 50, (10,)),
        (1e-7, 100, (1,)),
        (1e-7, 200, (10,)),
        (1e-9, 10, (0,)),
        (1, 10, 5),
        (1, 10, [2, 3]),
        (1, 10, torch.Size((2, 2)), torch.float64),
        (1, 10, (3,), "uint8"),
        (1, 10, (3,), torch.complex64, "more"),
        (1, 10),
        (1, -1, (3,)),
        (1, 10, (-3,)),
        (1, 10, (2.5,)),
    ],
    ids=str,
)
def test_what_can_be_made_and_what_is_printed_of_it(arguments, capsys):
    made = []
    for package in (original, ours):
        cache = outcome(package.SharedCache, *arguments)
        seen = cache if isinstance(cache, type) else (len(cache), cache.array.tolist(), cache.aux_array.tolist())
        made.append((seen, capsys.readouterr().out))
    (wanted, printed), (found, also_printed) = made
    assert found == wanted
    if not isinstance(wanted, type):
        assert also_printed == printed


def random_value(generator, dims, dtype):
    shape = generator.choice([dims, dims, dims, dims, (1,) * len(dims), (7,), ()])
    kind = generator.choice([dtype, dtype, torch.int64, torch.float32])
    value = torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(generator.randrange(1000))).to(kind)
    return generator.choice([value] * 8 + [3, 2.7, True, [1, 2], "text", None])


def random_call(generator, dims, dtype):
    slot = generator.choice([*range(-9, 24), 0, 1, 2, 3, 4, 5, 1.5, None, "a", True, torch.tensor(3)])
    part = generator.choice(
        [slice(1, 4), slice(None), slice(5, 1, -1), slice(-3, None, 2), [1, 2], torch.tensor([0, 4])]
    )
    part = generator.choice([slot, slot, slot, part, (1, ...), (slice(None), 0), Ellipsis])
    flag = generator.random() < 0.5
    return generator.choice(
        [
            ("get_slot", slot),
            ("get_slot", slot),
            ("get_slot", slot, flag),
            ("get_slot", slot, True, flag),
            ("set_slot", slot, random_value(generator, dims, dtype)),
            ("set_slot", slot, random_value(generator, dims, dtype)),
            ("set_slot", slot, random_value(generator, dims, dtype), flag),
            ("set_slot", slot, random_value(generator, dims, dtype), True, True),
            ("__getitem__", part),
            ("__getitem__", part),
            ("__setitem__", part, random_value(generator, dims, dtype)),
            ("__setitem__", slot, random_value(generator, dims, dtype)),
            ("__len__",),
            ("clear",) if generator.random() < 0.1 else ("__len__",),
        ]
    )


# The original does not take bool any more, since torch does not multiply it by 0: see test_slots_of_more_types.
@pytest.mark.parametrize("dtype", [dtype for dtype in original.C_DTYPES if dtype != torch.bool], ids=str)
@pytest.mark.parametrize(
    ("limit", "dims"), [(1, (2, 3)), (5.8e-8, (2, 3)), (1, ())], ids=["all fit", "some fit", "scalars"]
)
def test_every_call_gives_what_the_original_gives(limit, dims, dtype):
    """Seeded random calls: values, shapes and types of results, types of errors, and all of the state afterwards."""
    generator = random.Random(f"{limit} {dims} {dtype}")
    theirs, mine = both(limit * (dtype.itemsize if limit < 1 else 1), 20, dims, dtype)
    assert len(mine) == len(theirs)
    errors = set()
    for _ in range(250):
        name, *arguments = random_call(generator, dims, dtype)
        wanted = outcome(getattr(theirs, name), *arguments)
        wanted = wanted.clone() if isinstance(wanted, torch.Tensor) else wanted
        found = outcome(getattr(mine, name), *arguments)
        assert same(found, wanted), f"{name}{tuple(arguments)}: {found}, but the original {wanted}"
        assert same(mine.aux_array.clone(), theirs.aux_array)
        errors.add(wanted if isinstance(wanted, type) else None)
    assert same(mine.array.clone(), theirs.array)
    assert {IndexError, RuntimeError, TypeError} <= errors


def test_slots_of_more_types():
    assert outcome(original.SharedCache, 1, 5, (2,), torch.bool) is RuntimeError
    more = [torch.bfloat16, torch.float16, torch.uint16, torch.uint32, torch.uint64, torch.complex64]
    assert [outcome(original.SharedCache, 1, 5, (2,), dtype) for dtype in more] == [ValueError] * len(more)
    for dtype in [*more, torch.bool]:
        cache = ours.SharedCache(1, 5, (2,), dtype)
        value = torch.arange(2).to(dtype)
        cache.set_slot(3, value)
        found = cache.get_slot(3)
        assert found.dtype == dtype and torch.equal(found, value) and cache.array[3].dtype == dtype


def test_nothing_that_would_be_lost_is_done():
    cache = ours.SharedCache(1, 5, (2,))
    cache.set_slot(1, torch.tensor([1, 2]))

    def assign(array):
        array[1] = 0

    def multiply(array):
        array *= 0

    changes = [assign, multiply, lambda a: a.zero_(), lambda a: a.add_(1), lambda a: torch.add(a, 1, out=a)]
    for array in (cache.array, cache.aux_array):
        for change in changes:
            with pytest.raises(RuntimeError, match="would change a copy of the cache only"):
                change(array)
        assert type(array + 1) is torch.Tensor and type(array[1]) is torch.Tensor
        assert isinstance(array, torch.Tensor) and array.float().mean() > 0
    cache.get_slot(1).zero_()
    cache[1].zero_()
    assert cache.get_slot(1).tolist() == [1, 2], "what is read is the reader's own"


def test_few_large_slots_take_little_more_than_their_bytes():
    cache = ours.SharedCache(0.03, 40, (1 << 20,))
    assert len(cache) == 30
    info = cache._dict.cache.info
    assert 30 << 20 < info.capacity_bytes < 40 << 20
    for index in range(40):
        cache.set_slot(index, torch.full((1 << 20,), index, dtype=torch.uint8))
    for index in range(30):
        cache.set_slot(index, torch.full((1 << 20,), index + 1, dtype=torch.uint8), allow_overwrite=True)
    assert all((cache.get_slot(index) == index + 1).all() for index in range(30)) and cache.get_slot(30) is None


def fill_in_child(cache, done):
    cache.set_slot(2, torch.full((3,), 7))
    cache[4] = torch.full((3,), 8)
    done.put((cache.get_slot(1).tolist(), cache.aux_array.tolist()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_share_it(method):
    cache = ours.SharedCache(1, 6, (3,))
    cache.set_slot(1, torch.ones(3))
    context = multiprocessing.get_context(method)
    done = context.Queue()
    child = context.Process(target=fill_in_child, args=(cache, done))
    child.start()
    assert done.get(timeout=120) == ([1, 1, 1], [0, 1, 1, 0, 0, 0])
    child.join(60)
    assert cache.get_slot(2).tolist() == [7, 7, 7] and cache[4].tolist() == [8, 8, 8] and cache.get_slot(4) is None


def test_a_pickle_is_the_same_cache():
    cache = ours.SharedCache(1, 6, (3,))
    other = pickle.loads(pickle.dumps(cache))
    other.set_slot(5, torch.ones(3))
    assert cache.get_slot(5).tolist() == [1, 1, 1]


def test_two_caches_of_a_process_are_two():
    one, other = ours.SharedCacheDDP(1, 6, (3,)), ours.SharedCacheDDP(1, 6, (3,))
    one.set_slot(1, torch.ones(3))
    assert other.get_slot(1) is None
    third, fourth = ours.SharedCacheDDP(1, 6, (3,), name="x"), ours.SharedCacheDDP(1, 6, (3,), name="x")
    third.set_slot(1, torch.ones(3))
    assert fourth.get_slot(1).tolist() == [1, 1, 1]
    with pytest.raises(ddpcache.FingerprintError, match=r"\(3,\) of torch.uint8"):
        ours.SharedCacheDDP(1, 6, (3,), torch.int8, name="x")


def test_ranks_that_set_a_slot_at_once_are_no_error_unless_they_disagree():
    one, other = (ours.SharedCacheDDP(1, 6, (3,), torch.float32, name="at.once") for _ in range(2))
    value = torch.tensor([1, float("nan"), 3])
    one.set_slot(1, value)
    other.set_slot(1, value)
    with pytest.raises(RuntimeError, match="is set already"):
        other.set_slot(1, value + 1)
    one.set_slot(1, value + 1, allow_overwrite=True)
    assert other.get_slot(1)[0] == 2


RANK = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset, DistributedSampler
    from ddpcache.compat.stocaching import SharedCacheDDP

    class Images(Dataset):
        def __init__(self):
            self.cache = SharedCacheDDP(1, 60, (4, 4), torch.bfloat16)
        def __len__(self):
            return 60
        def __getitem__(self, index):
            image = self.cache.get_slot(index)
            if image is None:
                with open(sys.argv[1], "a") as log:
                    log.write(f"{index}\\n")
                image = torch.full((4, 4), index, dtype=torch.bfloat16)
                self.cache.set_slot(index, image)
            return image, index

    if __name__ == "__main__":
        dist.init_process_group("gloo")
        images = Images()
        for epoch in range(3):
            sampler = DistributedSampler(images)
            sampler.set_epoch(epoch)
            for batch, indices in DataLoader(images, batch_size=5, sampler=sampler, num_workers=1):
                assert (batch[:, 0, 0].long() == indices).all()
            dist.barrier()
        assert images.cache.aux_array.sum() == 60
        dist.barrier()
        dist.destroy_process_group()
""")


def test_all_ranks_of_a_machine_share_one(tmp_path):
    """stochastic-caching#2: with the original each rank decodes what it sees, 60 at first and more in each epoch."""
    script, log = tmp_path / "rank.py", tmp_path / "decodes"
    script.write_text(RANK)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, log]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(run, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stderr[-3000:]
    decodes = sorted(map(int, log.read_text().split()))
    assert decodes == list(range(60))
    assert not [name for name in ddpcache.Cache.list() if name.startswith("stocaching.") and "number" in name]
