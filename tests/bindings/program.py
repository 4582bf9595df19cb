"""The raw ctypes layer at work: the cache named by the first argument, and the sampler. See test_raw.py.

It imports nothing of the package but what the second argument names.
"""

import importlib
import sys
from ctypes import POINTER, byref, c_int32, c_int64, c_uint64, c_void_p, cast, sizeof

raw = importlib.import_module(sys.argv[2])
error = raw.dc_error()


def succeed(status):
    assert status == raw.DC_OK, (status, raw.dc_strerror(status), error.message)


def description():
    array = raw.dc_array(dimensions=2, dtype_code=0, dtype_bits=32, dtype_lanes=1, name=b"x")
    array.shape[:2] = [2, 3]
    return array


def write(fill, first):
    array = description()
    succeed(raw.dc_cache_fill_allocate(fill, byref(array), 1, b'{"v": 1}', byref(error)))
    assert array.bytes == 24
    (c_int32 * 6).from_address(cast(array.data, c_void_p).value)[:] = range(first, first + 6)


def check(view, index, first):
    array, structure_bytes = raw.dc_array(), c_uint64()
    succeed(raw.dc_view_array(byref(view), 0, byref(array)))
    assert (array.name, array.dimensions, array.shape[:2], array.dtype_bits) == (b"x", 2, [2, 3], 32)
    assert view.index == index and cast(view.data, POINTER(c_int32))[:6] == list(range(first, first + 6))
    assert raw.dc_view_structure(byref(view), byref(structure_bytes)) == b'{"v": 1}' and structure_bytes.value == 8
    raw.dc_cache_view_release(byref(view))
    assert not view.owner


@raw.dc_loader
def loader(fill, index, user):
    write(fill, cast(user, POINTER(c_int64))[0])
    return raw.DC_LOADED


def cache():
    options, handle = raw.dc_cache_options(), POINTER(raw.dc_cache)()
    succeed(raw.dc_cache_options_init(byref(options), sizeof(options)))
    options.length, options.capacity_bytes = 10, 1 << 20
    succeed(raw.dc_cache_open(sys.argv[1].encode(), None, b"raw", byref(options), byref(handle), byref(error)))
    fill = POINTER(raw.dc_fill)()
    succeed(raw.dc_cache_fill_begin(handle, 3, 0, byref(fill)))
    write(fill, 100)
    succeed(raw.dc_cache_fill_commit(fill))
    view, user = raw.dc_view(), c_int64(200)
    assert raw.dc_cache_view(handle, 4, byref(view)) == raw.DC_MISS
    succeed(raw.dc_cache_view(handle, 3, byref(view)))
    check(view, 3, 100)
    succeed(raw.dc_cache_load(handle, 4, loader, byref(user), 10**9, byref(view)))
    check(view, 4, 200)
    failing = raw.dc_loader(lambda fill, index, user: 0)
    assert raw.dc_cache_load(handle, 5, failing, None, 0, byref(view)) == raw.DC_ERROR_LOADER
    succeed(raw.dc_cache_close(handle))
    assert raw.dc_cache_attach(sys.argv[1].encode(), None, 0, byref(handle), byref(error)) == raw.DC_ERROR_NOT_FOUND
    assert sys.argv[1].encode() in error.message and error.status == raw.DC_ERROR_NOT_FOUND


def sampler():
    options, handle = raw.dc_sampler_options(), POINTER(raw.dc_sampler)()
    succeed(raw.dc_sampler_options_init(byref(options), sizeof(options)))
    options.length, options.seed = 20, 7
    succeed(raw.dc_sampler_open(byref(options), byref(handle), byref(error)))
    succeed(raw.dc_sampler_set_epoch(handle, 2, None))
    indices, index = (c_int64 * 20)(), c_int64()
    succeed(raw.dc_sampler_read(handle, 0, indices, 20, byref(error)))
    for expected in indices:
        succeed(raw.dc_sampler_next(handle, byref(index)))
        assert index.value == expected
    assert raw.dc_sampler_next(handle, byref(index)) == raw.DC_END
    raw.dc_sampler_close(handle)
    print(*indices)


cache()
sampler()
