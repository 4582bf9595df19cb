"""The module that SWIG makes: all of the C interface, with a Cache standing for its handle."""

from __future__ import annotations

import inspect
import re
import subprocess

import ddpcache
import numpy as np
import pytest
from ddpcache import _swig


def test_every_exported_function_is_there():
    library = f"{ddpcache.__path__[0]}/libddpcache.so.1"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = set(re.findall(r" T (dc_\w+)", symbols))
    wrapped = {name for name, _ in inspect.getmembers(_swig, inspect.isfunction) if name.startswith("dc_")}
    assert exported == wrapped and len(exported) > 30


def test_constants_have_their_whole_values():
    assert _swig.DC_SAMPLER_LENGTH_MAX == 2**62 and _swig.DC_LENGTH_MAX == 2**34 - 1
    assert _swig.DC_SAMPLE_BYTES_MAX == 2**32 and _swig.DC_LOADED == 0x44434C44
    assert (_swig.DC_MISS, _swig.DC_ERROR_FINGERPRINT, _swig.DC_PURPOSE_USER) == (1, -23, 3)


def test_comments_of_the_headers_are_docstrings():
    assert "without a copy" in _swig.dc_cache_view.__doc__ or "Looks at a sample" in _swig.dc_cache_view.__doc__
    assert _swig.dc_strerror(_swig.DC_MISS) and _swig.dc_version() == ddpcache.__version__


@pytest.mark.parametrize("wrong", [None, 5, object(), "name"])
def test_only_a_cache_stands_for_a_handle(wrong):
    with pytest.raises(TypeError, match="Cache"):
        _swig.dc_cache_contains(wrong, 1)


def test_an_open_cache_is_not_opened_again(cache, name):
    with pytest.raises(ddpcache.StateError, match="open already"):
        _swig.dc_cache_attach(name, None, 0, cache, None)


def test_closing_by_the_raw_function_closes_the_cache(cache):
    assert _swig.dc_cache_close(cache) == _swig.DC_OK
    assert cache.closed
    with pytest.raises(ddpcache.StateError, match="closed"):
        _swig.dc_cache_contains(cache, 1)


def test_raw_calls_return_statuses_and_values(cache):
    cache[1] = np.arange(6, dtype=np.int16)
    assert _swig.dc_cache_contains(cache, 1) == _swig.DC_OK
    assert _swig.dc_cache_contains(cache, 2) == _swig.DC_MISS
    assert _swig.dc_cache_contains(cache, 1000) == _swig.DC_ERROR_RANGE
    buffer = bytearray(12)
    assert _swig.dc_cache_read(cache, 1, 0, buffer) == [_swig.DC_OK, 12]
    assert np.frombuffer(buffer, np.int16).tolist() == [0, 1, 2, 3, 4, 5]
    assert _swig.dc_cache_read(cache, 1, 0, bytearray(5)) == [_swig.DC_ERROR_BUFFER, 12]
    with pytest.raises(BufferError):
        _swig.dc_cache_read(cache, 1, 0, b"read only")
    status, permutation = _swig.dc_permutation_open(10, 1, 0, 0, _swig.DC_PURPOSE_USER, None)
    indices = np.empty(10, dtype=np.int64)
    assert status == _swig.dc_permutation_batch(permutation, 0, indices, 10) == _swig.DC_OK
    assert sorted(indices) == list(range(10))
    assert _swig.dc_permutation_at(permutation, 3) == [_swig.DC_OK, indices[3]]
    assert _swig.dc_permutation_inverse(permutation, int(indices[3])) == [_swig.DC_OK, 3]
    _swig.dc_permutation_close(permutation)
