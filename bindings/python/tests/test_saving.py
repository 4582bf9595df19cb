"""A cache to a file and back."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import ddpcache
import numpy as np
import pytest
from ddpcache import Cache

OPTIONS = {"length": 50, "fingerprint": "saving 1", "capacity": "48MiB"}


@pytest.fixture
def names(request):
    """Names of caches of the test's own, which are gone at its end."""
    made = [f"test-saving-{os.getpid()}-{request.node.name[:80].translate({91: 45, 93: 45})}-{i}" for i in range(3)]
    yield made
    for name in made:
        if name in Cache.list():
            Cache.unlink(name)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "saved.cache"


@pytest.fixture
def cache(names):
    with Cache(names[0], **OPTIONS) as cache:
        yield cache


SAMPLES = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    {"image": np.full((5, 5), 7, np.uint8), "label": 3, "path": "a/b.png"},
    (np.zeros((0, 3)), [1.5, None, b"bytes"], True),
    "text",
    np.float64(2.5),
]


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_samples_of_every_structure_come_back(cache, file, names):
    for index, sample in enumerate(SAMPLES):
        cache[index] = sample
    assert cache.save(file) == len(SAMPLES)
    with Cache.restore(file, names[1], fingerprint="saving 1") as back:
        assert (len(back), back.info.created, back.info.fingerprint) == (50, True, "saving 1")
        for index, sample in enumerate(SAMPLES):
            assert_same(back[index], sample)
        assert int(back.residency().sum()) == len(SAMPLES)
        back[40] = 1
    assert names[1] not in Cache.list()


def test_keys_come_back(file, names):
    with Cache(names[0], **OPTIONS, keyed=True) as cache:
        cache["train", 7] = 70
        cache["valid"] = 80
        assert cache.save(str(file)) == 2
    with Cache.restore(file, names[1]) as back:
        assert (back["train", 7], back["valid"]) == (70, 80)
        assert ("train", 8) not in back


def test_saved_tells_what_is_in_a_file(cache, file):
    cache[3] = np.zeros(1000, np.uint8)
    cache.save(os.fsencode(file))
    saved = Cache.saved(file)
    assert (saved.length, saved.samples, saved.fingerprint) == (50, 1, "saving 1")
    assert (saved.name, saved.uuid, saved.file_bytes) == (cache.name, cache.info.uuid, file.stat().st_size)
    assert (saved.droppable, saved.keyed, saved.library) == (False, False, ddpcache.__version__)


def test_options_are_the_files_unless_given(file, names):
    with Cache(names[0], **OPTIONS, droppable=True, sample_bytes=4096) as cache:
        cache[0] = 1
        cache.save(file)
    with Cache.restore(file, names[1]) as back:
        assert (back.info.droppable, back.info.sample_bytes) == (True, 4096)
    with Cache.restore(file, names[1], droppable=False, capacity="64MiB", checksums="read") as back:
        assert (back.info.droppable, back.info.checksums) == (False, "read")
        assert back.info.capacity_bytes > 63 << 20
        assert back[0] == 1


def test_another_fingerprint_a_damaged_file_and_none_are_errors(cache, file, names):
    cache[0] = np.arange(100)
    cache.save(file)
    with pytest.raises(ddpcache.FingerprintError, match=r"saving 1.*saving 2"):
        Cache.restore(file, names[1], fingerprint="saving 2")
    with pytest.raises(ValueError, match="fingerprint"):
        Cache.restore(file, names[1], fingerprint="")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ddpcache.DamagedError, match=r"is damaged at byte 4096: the sample of index 0 "):
        Cache.restore(file, names[1])
    file.write_bytes(whole[:-1])
    with pytest.raises(ddpcache.DamagedError, match=rf"has {len(whole) - 1} bytes, of {len(whole)} that were saved"):
        Cache.saved(file)
    with pytest.raises(FileNotFoundError):
        Cache.restore(file.with_name("none"), names[1])
    with pytest.raises(ValueError, match="not a regular file"):
        cache.save(file.parent)
    with pytest.raises(TypeError):
        cache.save(None)
    with pytest.raises(ValueError, match="null"):
        cache.save("a\0b")
    assert names[1] not in Cache.list()


def test_progress_hears_all_of_it(cache, file, names):
    for index in range(20):
        cache[index] = np.zeros(100_000, np.uint8)
    heard = []
    cache.save(file, progress=lambda done, total: heard.append((done, total)))
    assert heard[0][0] == 0
    assert heard[-1] == (file.stat().st_size,) * 2
    heard.clear()
    Cache.restore(file, names[1], progress=lambda *progress: heard.append(progress)).close()
    assert heard[0] == (0, file.stat().st_size)
    assert heard[-1] == (file.stat().st_size,) * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_progress_raises_stops_it_and_leaves_nothing(cache, file, names, error):
    def fail(done, total):
        raise error("mine")

    cache[0] = 1
    file.write_text("old")
    with pytest.raises(error, match="mine"):
        cache.save(file, fail)
    assert file.read_text() == "old"
    assert list(file.parent.iterdir()) == [file]
    cache.save(file)
    with pytest.raises(error, match="mine"):
        Cache.restore(file, names[1], progress=fail)
    assert names[1] not in Cache.list()
    with pytest.raises(TypeError, match="callable"):
        cache.save(file, progress=7)


def test_closing_in_progress_is_refused(cache, file):
    with pytest.raises(ddpcache.StateError):
        cache.save(file, progress=lambda done, total: cache.close())
    assert not cache.closed


def test_other_threads_go_on_meanwhile(cache, file):
    for index in range(40):
        cache[index] = np.zeros(150_000, np.uint8)
    turns = 0
    stop = threading.Event()

    def count():
        nonlocal turns
        while not stop.is_set():
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = turns
        cache.save(file)
        assert turns > before
    finally:
        stop.set()
        thread.join()


RESTORER = """
import sys, ddpcache
with ddpcache.Cache.restore(sys.argv[1], sys.argv[2], fingerprint="saving 1") as cache:
    print(int(cache.info.created), int(cache[7].sum()), flush=True)
    sys.stdin.read()
"""


def test_of_processes_that_restore_at_once_one_reads(cache, file, names):
    cache[7] = np.arange(100)
    cache.save(file)
    cache.close()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RESTORER, file, names[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = [rank.stdout.readline().split() for rank in ranks]
    for rank in ranks:
        rank.communicate("", timeout=60)
    assert sorted(answers) == [["0", "4950"], ["0", "4950"], ["0", "4950"], ["1", "4950"]]
    assert names[1] not in Cache.list()


# Says when it is in the middle, and waits there for Ctrl-C.
INTERRUPTED = """
import sys, time, ddpcache

def wait(done, total):
    print("here", flush=True)
    time.sleep(60)

try:
    if sys.argv[1] == "save":
        ddpcache.Cache(sys.argv[3]).save(sys.argv[2], wait)
    else:
        ddpcache.Cache.restore(sys.argv[2], sys.argv[3], progress=wait)
except KeyboardInterrupt:
    sys.exit(77)
"""


@pytest.mark.parametrize("verb", ["save", "restore"])
def test_ctrl_c_leaves_nothing(cache, file, names, verb):
    cache[0] = 1
    if verb == "restore":
        cache.save(file)
    before = sorted(Path(file.parent).iterdir())
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, verb, file, names[verb == "restore"]], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 77
    assert sorted(Path(file.parent).iterdir()) == before
    assert names[1] not in Cache.list()


# The two lines of a training script, in a process of its own, which decodes nothing that the file has.
TRAINER = """
import sys, ddpcache
from ddpcache.torch import CachedDataset, fingerprint
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    decoded = 0

    def __len__(self):
        return 20

    def __getitem__(self, index):
        Squares.decoded += 1
        return index * index

data, file, name = Squares(), sys.argv[2], sys.argv[3]
if sys.argv[1] == "cold":
    cache = ddpcache.Cache(name, length=len(data), fingerprint=fingerprint(data, name), capacity="4MiB")
else:
    cache = ddpcache.Cache.restore(file, name, fingerprint=fingerprint(data, name))
dataset = CachedDataset(data, cache)
total = sum(int(batch.sum()) for batch in DataLoader(dataset, batch_size=5))
if sys.argv[1] == "cold":
    dataset.cache.save(file)
print(total, Squares.decoded, cache.stats().fills)
"""


def test_a_training_script_starts_warm(file, names, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TRAINER)
    answers = []
    for start in ("cold", "warm"):
        command = [sys.executable, script, start, file, names[0]]
        answers.append(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split())
    total = str(sum(i * i for i in range(20)))
    assert answers[0] == [total, "20", "20"]
    assert answers[1][0] == total
    assert int(answers[1][1]) <= 1, "but for the one sample that is decoded again and compared"
