"""Caches in a directory of the user's: on whatever disk the tests' temporary folder is."""

import pickle
import subprocess
import sys

import ddpcache
import numpy as np
import pytest

SAMPLE = np.arange(5000, dtype=np.int32)


@pytest.fixture
def open_on_disk(tmp_path, name):
    """Opens the cache of this test, kept, in its folder. At the end it is removed; the lock file may stay."""
    try:
        ddpcache.Cache.gc(directory=tmp_path)
    except ddpcache.UnsupportedError as error:
        pytest.skip(f"the tests' temporary folder is on no disk for caches: {error}")
    opened = []

    def open_one(**options):
        arguments = {"length": 100, "capacity": "8MiB", "fingerprint": "disk v1", "keep": True, **options}
        opened.append(ddpcache.Cache(name, directory=tmp_path, **arguments))
        return opened[-1]

    yield open_one
    for cache in opened:
        cache.close()
    if name in ddpcache.Cache.list(directory=tmp_path):
        ddpcache.Cache.unlink(name, directory=tmp_path)
    assert len(list(tmp_path.iterdir())) <= 1


def test_kept_samples_are_there_after_everybody_has_left(open_on_disk, tmp_path, name):
    with open_on_disk() as cache:
        assert cache.directory == str(tmp_path)
        assert cache.info.created
        cache[7] = SAMPLE
    with open_on_disk() as again:
        assert again.info.adopted
        assert np.array_equal(again[7], SAMPLE)
    assert ddpcache.Cache.list(directory=tmp_path) == [name]
    assert name not in ddpcache.Cache.list()


def test_samples_on_a_disk_always_have_checksums(open_on_disk, tmp_path, name):
    cache = open_on_disk(checksums="off")
    assert cache.info.checksums == "fill"
    cache[0] = SAMPLE
    cache.close()
    [path] = tmp_path.glob(f"ddpcache.*.{name}")
    content = bytearray(path.read_bytes())
    content[content.index(SAMPLE.tobytes()) + 400] ^= 1
    path.write_bytes(content)
    with pytest.raises(ddpcache.DamagedError, match="entry 0"):
        open_on_disk().check()


def test_a_pickled_cache_is_the_one_in_the_directory(open_on_disk, tmp_path):
    cache = open_on_disk()
    cache[3] = SAMPLE
    program = (
        "import pickle, sys; cache = pickle.load(sys.stdin.buffer); print(int(cache[3].sum())); cache[4] = cache[3]"
    )
    child = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(cache), capture_output=True, check=True)
    assert int(child.stdout) == SAMPLE.sum()
    assert np.array_equal(cache[4], SAMPLE)


def test_a_saved_cache_is_restored_into_a_directory(open_on_disk, tmp_path, name):
    with open_on_disk() as cache:
        cache[9] = SAMPLE
        cache.save(tmp_path / "saved")
    ddpcache.Cache.unlink(name, directory=tmp_path)
    with ddpcache.Cache.restore(tmp_path / "saved", name, directory=tmp_path, fingerprint="disk v1") as restored:
        assert restored.directory == str(tmp_path)
        assert np.array_equal(restored[9], SAMPLE)
    assert ddpcache.Cache.list(directory=tmp_path) == []
    (tmp_path / "saved").unlink()


def test_a_file_system_that_cannot_hold_caches_is_an_error_that_names_it():
    with pytest.raises(ddpcache.UnsupportedError, match="proc"):
        ddpcache.Cache("refused", directory="/proc", length=1, fingerprint=None)
