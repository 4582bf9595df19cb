"""SharedDict: a dict for all processes of a machine, checked against a plain dict and against Manager().dict()."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import time

import ddpcache
import numpy as np
import pytest
from test_shared_dict_values import Colour, Point, grid, same

METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize(
    ("key", "equal"),
    [(np.int64(7), 7), (Colour.RED, 7), (np.str_("a"), "a"), (Point("a", 1), ("a", 1)), (("a", np.uint8(1)), ("a", 1))],
    ids=repr,
)
def test_what_is_equal_to_a_key_is_that_key(shared, key, equal):
    shared[key] = "value"
    assert shared[equal] == "value" and equal in shared
    (listed,) = shared
    assert same(listed, equal)


@pytest.mark.parametrize("key", [True, 1.0, None, b"a", frozenset(), ("a", b"b"), ("a", (None,))], ids=repr)
def test_other_types_are_no_keys(shared, key):
    calls = [
        shared.__getitem__,
        shared.__contains__,
        shared.get,
        shared.pop,
        shared.setdefault,
        shared.__delitem__,
        lambda k: shared.__setitem__(k, 1),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="a key of a SharedDict is an int, a str or a tuple of these, not"):
            call(key)
    assert len(shared) == 0


KEYS = [*range(-2, 5), "a", "b", "", ("a", 1), ("a", ("b", 2)), (), 10**30]


def random_call(generator):
    """The name of a method and its arguments."""
    key = generator.choice(KEYS)
    value = generator.choice([None, generator.randrange(1000), [1, "a"], {1, 2}, grid(generator.randrange(50)), "text"])
    return generator.choice(
        [
            ("__setitem__", key, value),
            ("__setitem__", key, value),
            ("__setitem__", key, value),
            ("__getitem__", key),
            ("get", key),
            ("get", key, "default"),
            ("__contains__", key),
            ("__delitem__", key),
            ("pop", key),
            ("pop", key, "default"),
            ("setdefault", key),
            ("setdefault", key, value),
            ("update", {key: value, 3: value}),
            ("update", [(key, value)]),
            ("__len__",),
            ("keys",),
            ("items",),
            ("values",),
            ("copy",),
            ("popitem",) if generator.random() < 0.1 else ("__len__",),
            ("clear",) if generator.random() < 0.03 else ("__iter__",),
        ]
    )


def outcome(mapping, name, *arguments):
    """What a call gives, so that it can be compared whatever the order of the keys."""
    try:
        result = getattr(mapping, name)(*arguments)
    except Exception as error:
        return type(error)
    if name in ("keys", "__iter__"):
        return sorted(result, key=repr)
    if name == "values":
        return sorted(result, key=repr)
    if name in ("items", "copy"):
        return dict(sorted(dict(result).items(), key=lambda item: repr(item[0])))
    return result


def compare(one, model, call):
    """Makes a call on a SharedDict, or what answers for it, and on the plain dict, and compares."""
    if call[0] == "popitem" and model:
        key, value = one(*call)
        assert same(value, model.pop(key))
        return
    found, wanted = one(*call), outcome(model, *call)
    assert same(found, wanted), f"{call}: {found!r}, but a dict has {wanted!r}"


@pytest.mark.parametrize("seed", range(5))
def test_it_does_what_a_dict_does(shared, seed):
    generator, model = random.Random(seed), {}
    for _ in range(600):
        compare(lambda *call: outcome(shared, *call), model, random_call(generator))
    assert same(dict(sorted(shared.items(), key=repr)), dict(sorted(model.items(), key=repr)))


def serve(shared, calls):
    while (call := calls.recv()) is not None:
        calls.send(outcome(shared, *call))


@pytest.mark.parametrize("method", METHODS)
def test_several_processes_together_do_what_a_dict_does(shared, method):
    """Each call is made by another process, and all see what the others did."""
    context, generator, model = multiprocessing.get_context(method), random.Random(method), {}
    pipes, processes = [], []
    for _ in range(3):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=serve, args=(shared, theirs)))
        processes[-1].start()
        pipes.append(ours)

    def remote(*call):
        pipe = generator.choice(pipes)
        pipe.send(call)
        assert pipe.poll(60), f"no answer to {call}"
        return pipe.recv()

    for _ in range(600):
        compare(remote, model, random_call(generator))
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join(60)
        assert process.exitcode == 0
    assert same(dict(sorted(shared.items(), key=repr)), dict(sorted(model.items(), key=repr)))


def test_it_does_what_a_managers_dict_does(shared):
    """As test_it_does_what_a_dict_does, with the original; and every method that it has is here."""
    with multiprocessing.Manager() as manager:
        original = manager.dict()
        public = {name for name in dir(original) if not name.startswith("_")} - {"BaseProxy"}
        assert public <= set(dir(shared)), public - set(dir(shared))
        generator = random.Random(8)
        for _ in range(400):
            call = random_call(generator)
            if call[0] == "popitem":
                continue
            found, wanted = outcome(shared, *call), outcome(original, *call)
            assert same(found, wanted), f"{call}: {found!r}, but Manager().dict() has {wanted!r}"
        value = {"a": [1]}
        for one in (shared, original):
            one["nested"] = value
            one["nested"]["a"].append(2)
            assert one["nested"] == {"a": [1]}


def test_operators(shared):
    shared |= {1: "a", 2: "b"}
    assert shared | {2: "c"} == {1: "a", 2: "c"} and {2: "c", 3: "d"} | shared == {1: "a", 2: "b", 3: "d"}
    assert dict(shared) == {1: "a", 2: "b"} == {**shared} and shared != {1: "a"}
    assert sorted(shared.keys() & {1, 5}) == [1]


def test_a_name_is_one_dict(open_dict):
    one, other = open_dict(), open_dict()
    one[1] = grid(3)
    assert other[1].tolist() == [0, 1, 2]
    other[1] = "b"
    assert one.copy() == {1: "b"}
    with pytest.raises(ddpcache.MismatchError, match="length"):
        open_dict(length=2000)


def test_without_a_name_it_is_for_those_whom_it_reaches():
    with ddpcache.SharedDict(capacity="1MiB") as one, ddpcache.SharedDict(capacity="1MiB") as other:
        assert one.name != other.name
        one[1] = "a"
        assert 1 not in other
        with pickle.loads(pickle.dumps(one)) as same_one:
            assert same_one[1] == "a"
        name = one.name
    assert name not in ddpcache.Cache.list()


def test_a_dict_that_is_kept_is_there_for_a_later_job(name):
    for fingerprint, found in [("v1", None), ("v1", "left"), ("v2", None)]:
        with ddpcache.SharedDict(name, length=10, capacity="1MiB", keep=True, fingerprint=fingerprint) as shared:
            assert shared.get(1) == found
            shared[1] = "left"
    ddpcache.Cache.unlink(name)


def test_arguments_that_cannot_be(name):
    with pytest.raises(TypeError, match="the first argument is a name"):
        ddpcache.SharedDict({"a": 1})
    with pytest.raises(ValueError, match="full is 'raise' or 'skip', not 'drop'"):
        ddpcache.SharedDict(name, full="drop")
    with pytest.raises(ValueError, match="length is from 1 to"):
        ddpcache.SharedDict(name, length=0)


def test_no_room_is_an_error_and_loses_nothing(open_dict):
    shared = open_dict(capacity="4MiB", sample_bytes_max="1MiB")
    model = {}
    with pytest.raises(ddpcache.FullError, match="has no room for the value, and stays as it was: its capacity is 3"):
        for number in range(100):
            shared[number] = model[number] = np.full(100_000, number, np.uint8)
    assert len(model) > 10
    with pytest.raises(MemoryError):
        shared[0] = np.zeros(100_000, np.uint8)
    with pytest.raises(MemoryError):
        shared.setdefault("new", np.zeros(100_000, np.uint8))
    with pytest.raises(MemoryError):
        shared.update(new=np.zeros(100_000, np.uint8))
    with pytest.raises(ddpcache.TooLargeError, match="sample_bytes_max"):
        shared[1] = np.zeros(2 << 20, np.uint8)
    assert same(dict(sorted(shared.items())), model)
    del shared[5], model[5]
    shared[0] = model[0] = np.ones(100_000, np.uint8)
    assert same(dict(sorted(shared.items())), model)


def test_no_room_can_be_no_error(open_dict):
    shared = open_dict(capacity="4MiB", sample_bytes_max="1MiB", full="skip")
    for number in range(100):
        shared[number] = np.full(100_000, number, np.uint8)
    count = len(shared)
    assert 10 < count < 100 and 0 in shared and 99 not in shared
    shared[0] = np.full(100_000, 77, np.uint8)
    assert shared[0][0] == 0
    assert shared.setdefault(99, np.full(100_000, 5, np.uint8))[0] == 5
    assert len(shared) == count and shared.get(99) is None
    with pickle.loads(pickle.dumps(shared)) as other:
        other[98] = np.zeros(100_000, np.uint8)


def test_more_keys_than_its_length_are_an_error(open_dict):
    shared = open_dict(length=10)
    with pytest.raises(ddpcache.FullError, match=r"of 44 entries for keys are taken .*larger capacity= or length="):
        for number in range(100):
            shared[number] = number
    assert len(shared) >= 26
    for number in range(5):
        shared.pop(number)
        assert number not in shared
    assert 1000 not in shared and shared.pop(1000, "none") == "none"


def test_iterating_leaves_out_what_is_removed_meanwhile(shared):
    shared.update({number: number for number in range(10)})
    seen = []
    for key, value in shared.items():
        seen.append((key, value))
        for later in [k for k in range(10) if k not in dict(seen)][:1]:
            shared.pop(later, None)
    assert 0 < len(seen) < 10 and all(key == value for key, value in seen)
    assert len(shared) == len(seen)


def test_it_is_of_no_other_format(open_dict, name):
    shared = open_dict()
    shared.cache["foreign"] = grid(3)
    with pytest.raises(ddpcache.FormatError, match="has a sample that no SharedDict has put there"):
        shared["foreign"]
    shared.cache.clear()


def replace_always(shared, who, keys, seconds, start):
    start.wait(60)
    until = time.monotonic() + seconds
    count = 0
    generator = random.Random(who)
    while time.monotonic() < until:
        for key in generator.sample(keys, len(keys)):
            count += 1
            shared[key] = (who, count, np.full(generator.choice([10, 1000, 10_000]), count))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_whoever_reads_a_key_that_others_replace_finds_a_whole_value(shared, method):
    keys = ["hot", 1, ("x", 2)]
    for key in keys:
        shared[key] = (0, 0, np.zeros(10))
    context = multiprocessing.get_context(method)
    start = context.Barrier(4)
    writers = [context.Process(target=replace_always, args=(shared, who, keys, 1.5, start)) for who in (1, 2, 3)]
    for writer in writers:
        writer.start()
    start.wait(60)
    until = time.monotonic() + 1.5
    newest, reads = {}, 0
    while time.monotonic() < until:
        for key in keys:
            who, count, array = shared[key]
            assert (array == count).all(), f"a mixture under {key}: {who} {count} {array}"
            assert count >= newest.get((key, who), 0), f"{key} has a value of {who} that was replaced before"
            newest[key, who] = count
            reads += 1
            assert key in shared
        assert sorted(shared, key=repr) == sorted(keys, key=repr) and len(shared) == 3
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert reads > 50 and len(newest) > 3


def test_a_kill_at_any_moment_leaves_every_key_its_value(shared):
    keys = ["a", "b", 3]
    for key in keys:
        shared[key] = (0, 0, np.zeros(10))
    context, generator, between = multiprocessing.get_context("fork"), random.Random(3), 0
    for _ in range(40):
        start = context.Barrier(3)
        victims = [context.Process(target=replace_always, args=(shared, who, keys, 60, start)) for who in (1, 2)]
        for victim in victims:
            victim.start()
        start.wait(60)
        time.sleep(generator.random() * 0.02)
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        for victim in victims:
            victim.join(60)
        filled = int(np.count_nonzero(shared.cache.residency()))
        between += filled > 3
        for key in keys:
            _, count, array = shared[key]
            assert (array == count).all()
        assert sorted(shared, key=repr) == sorted(keys, key=repr) and len(shared) == 3
    print(f"{between} of 40 rounds left a key with two values")
    for key in keys:
        shared[key] = "last"
        assert shared[key] == "last" and shared.pop(key) == "last" and key not in shared
    assert len(shared) == 0 and shared.cache.check().violations == 0


def claim(shared, start, answers):
    start.wait(60)
    mine = [key for key in range(200) if shared.setdefault(key, os.getpid()) == os.getpid()]
    answers.put(("set", mine))
    start.wait(60)
    popped = [key for key in random.Random(os.getpid()).sample(range(200), 200) if shared.pop(key, None) is not None]
    answers.put(("popped", popped))
    start.wait(60)


def test_setdefault_and_pop_have_one_winner(shared):
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(3), context.Queue()
    processes = [context.Process(target=claim, args=(shared, start, answers)) for _ in range(3)]
    for process in processes:
        process.start()
    given_out = {"set": [], "popped": []}
    for _ in range(6):
        what, keys = answers.get(timeout=60)
        given_out[what] += keys
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(given_out["set"]) == sorted(given_out["popped"]) == list(range(200))
    assert len(shared) == 0


def test_threads_share_it(shared):
    from concurrent.futures import ThreadPoolExecutor

    def work(thread):
        for number in range(100):
            shared["hot"] = (thread, number)
            shared[thread, number] = number
            assert shared["hot"][0] in range(8)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(shared) == 801


def test_it_can_be_changed_inside_the_loader_of_a_cache(shared, open_cache):
    """A thread that has a fill open does not wait in the library, and still gets its turn."""
    cache = open_cache(".cache", droppable=True)
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    other = context.Process(target=replace_always, args=(shared, 1, ["hot"], 1, start))
    other.start()
    start.wait(60)
    stop = time.monotonic() + 1

    def load(index):
        for number in range(20):
            shared["hot"] = (2, number, np.full(5, number))
        return grid(3)

    while time.monotonic() < stop:
        cache.get_or_load(0, load)
        cache.clear()
    other.join(60)
    assert other.exitcode == 0 and len(shared) == 1


def test_the_way_a_data_set_uses_it(shared):
    """In data-loader workers: each sample is decoded once."""
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    for method in ("fork", "spawn"):
        shared.clear()
        workers = {"num_workers": 2, "multiprocessing_context": method, "persistent_workers": True}
        loader = DataLoader(Decoding(shared), batch_size=4, **workers)
        for epoch in range(2):
            batches = list(loader)
            assert torch.cat([images for images, _ in batches])[:, 0].tolist() == list(range(40)), epoch
        decoded = [value for key, value in shared.items() if isinstance(key, tuple)]
        assert sorted(decoded) == list(range(40))


class Decoding:
    def __init__(self, cache):
        self.cache = cache

    def __len__(self):
        return 40

    def __getitem__(self, index):
        sample = self.cache.get(index)
        if sample is None:
            sample = self.cache[index] = (np.full((3, 4), index, np.float32)[0], index)
            self.cache["decode", os.getpid(), time.monotonic_ns()] = index
        return sample
