"""The module that SWIG makes: all of the C interface, with a Cache standing for its handle."""

from __future__ import annotations

import inspect
import re
import subprocess

import ddpcache
import numpy as np
import pytest
from ddpcache import raw


def test_every_exported_function_is_there():
    library = f"{ddpcache.__path__[0]}/libddpcache.so.1"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = set(re.findall(r" T (dc_\w+)", symbols))
    wrapped = {name for name, _ in inspect.getmembers(raw, inspect.isfunction) if name.startswith("dc_")}
    assert exported == wrapped and len(exported) > 30


def test_constants_have_their_whole_values():
    assert raw.DC_SAMPLER_LENGTH_MAX == 2**62 and raw.DC_LENGTH_MAX == 2**34 - 1
    assert raw.DC_SAMPLE_BYTES_MAX == 2**32 and raw.DC_LOADED == 0x44434C44
    assert (raw.DC_MISS, raw.DC_ERROR_FINGERPRINT, raw.DC_PURPOSE_USER) == (1, -23, 3)


def test_comments_of_the_headers_are_docstrings():
    assert "without a copy" in raw.dc_cache_view.__doc__ or "Looks at a sample" in raw.dc_cache_view.__doc__
    assert raw.dc_strerror(raw.DC_MISS) and raw.dc_version() == ddpcache.__version__


@pytest.mark.parametrize("wrong", [None, 5, object(), "name"])
def test_only_a_cache_stands_for_a_handle(wrong):
    with pytest.raises(TypeError, match="Cache"):
        raw.dc_cache_contains(wrong, 1)


def test_an_open_cache_is_not_opened_again(cache, name):
    with pytest.raises(ddpcache.StateError, match="open already"):
        raw.dc_cache_attach(name, None, 0, cache, None)


def test_closing_by_the_raw_function_closes_the_cache(cache):
    assert raw.dc_cache_close(cache) == raw.DC_OK
    assert cache.closed
    with pytest.raises(ddpcache.StateError, match="closed"):
        raw.dc_cache_contains(cache, 1)


def test_raw_calls_return_statuses_and_values(cache):
    cache[1] = np.arange(6, dtype=np.int16)
    assert raw.dc_cache_contains(cache, 1) == raw.DC_OK
    assert raw.dc_cache_contains(cache, 2) == raw.DC_MISS
    assert raw.dc_cache_contains(cache, 1000) == raw.DC_ERROR_RANGE
    buffer = bytearray(12)
    assert raw.dc_cache_read(cache, 1, 0, buffer) == [raw.DC_OK, 12]
    assert np.frombuffer(buffer, np.int16).tolist() == [0, 1, 2, 3, 4, 5]
    assert raw.dc_cache_read(cache, 1, 0, bytearray(5)) == [raw.DC_ERROR_BUFFER, 12]
    with pytest.raises(BufferError):
        raw.dc_cache_read(cache, 1, 0, b"read only")
    status, permutation = raw.dc_permutation_open(10, 1, 0, 0, raw.DC_PURPOSE_USER, None)
    indices = np.empty(10, dtype=np.int64)
    assert status == raw.dc_permutation_batch(permutation, 0, indices, 10) == raw.DC_OK
    assert sorted(indices) == list(range(10))
    assert raw.dc_permutation_at(permutation, 3) == [raw.DC_OK, indices[3]]
    assert raw.dc_permutation_inverse(permutation, int(indices[3])) == [raw.DC_OK, 3]
    raw.dc_permutation_close(permutation)
