"""The C interface of the sampler, called by ctypes: for tests that drive the shipped library from Python."""

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p

NODE, TORCH, VISCY = 0, 1, 2
PAD, DROP, EXACT = 0, 1, 2
RING, INNER, USER = 1, 2, 3
OK, MISS, END, EMPTY, UNSUPPORTED = 0, 1, 4, -61, -6
STATE_BYTES_MAX = 512


class Error(ctypes.Structure):
    _fields_ = [("status", c_int32), ("reserved", c_uint32), ("message", c_char * 1016)]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("order", c_int32),
        ("tail", c_int32),
        ("shuffle", c_uint32),
        ("node", c_uint32),
        ("nodes", c_uint32),
        ("local_rank", c_uint32),
        ("local_size", c_uint32),
        ("length", c_int64),
        ("seed", c_uint64),
        ("ring_seed", c_uint64),
        ("ring_identity", c_uint32),
        ("exchange_ppm", c_uint32),
        ("canonical_nodes", c_uint32),
        ("reserved", c_uint32),
    ]


SIGNATURES = {
    "dc_sampler_options_init": [POINTER(Options), c_uint32],
    "dc_sampler_open": [POINTER(Options), POINTER(c_void_p), POINTER(Error)],
    "dc_sampler_close": [c_void_p],
    "dc_sampler_set_epoch": [c_void_p, c_int64, POINTER(Error)],
    "dc_sampler_next": [c_void_p, POINTER(c_int64)],
    "dc_sampler_size": [c_void_p, POINTER(c_int64)],
    "dc_sampler_real_size": [c_void_p, POINTER(c_int64), POINTER(Error)],
    "dc_sampler_read": [c_void_p, c_int64, POINTER(c_int64), c_int64, POINTER(Error)],
    "dc_sampler_find": [c_void_p, c_int64, POINTER(c_uint32), POINTER(c_int64), POINTER(Error)],
    "dc_sampler_shard_size": [c_void_p, POINTER(c_int64)],
    "dc_sampler_shard_read": [c_void_p, c_int64, POINTER(c_int64), c_int64, POINTER(Error)],
    "dc_sampler_keeps": [c_void_p, c_int64],
    "dc_sampler_state_save": [c_void_p, c_int64, c_char_p, c_uint64, POINTER(c_uint64), POINTER(Error)],
    "dc_sampler_state_load": [c_void_p, c_char_p, c_uint64, POINTER(Error)],
    "dc_permutation_open": [c_int64, c_uint64, c_int64, c_uint32, c_int32, POINTER(c_void_p), POINTER(Error)],
    "dc_permutation_close": [c_void_p],
    "dc_permutation_batch": [c_void_p, c_int64, POINTER(c_int64), c_int64],
}


class Failure(Exception):
    def __init__(self, status, error):
        super().__init__(f"status {status}: {error.message.decode()}")
        self.status = status


def load(path):
    library = ctypes.CDLL(path)
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = None if name.endswith("_close") else c_int32
    return library


class Sampler:
    def __init__(self, library, **options):
        self.library, self.handle, self.error = library, c_void_p(), Error()
        record = Options()
        assert library.dc_sampler_options_init(byref(record), ctypes.sizeof(record)) == OK
        for name, value in options.items():
            assert hasattr(record, name)
            setattr(record, name, value)
        self.check(library.dc_sampler_open(byref(record), byref(self.handle), byref(self.error)))

    def close(self):
        self.library.dc_sampler_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def check(self, status):
        if status < 0:
            raise Failure(status, self.error)
        return status

    def set_epoch(self, epoch):
        self.check(self.library.dc_sampler_set_epoch(self.handle, epoch, byref(self.error)))

    def number(self, function, *more):
        value = c_int64(-1)
        self.check(getattr(self.library, function)(self.handle, byref(value), *more))
        return value.value

    def size(self):
        return self.number("dc_sampler_size")

    def real_size(self):
        return self.number("dc_sampler_real_size", byref(self.error))

    def page(self, function, position, count):
        """A ctypes array, whose memory is the indices as little-endian int64."""
        out = (c_int64 * count)()
        self.check(getattr(self.library, function)(self.handle, position, out, count, byref(self.error)))
        return out

    def read(self, position=0, count=None):
        return self.page("dc_sampler_read", position, self.size() - position if count is None else count)

    def shard(self):
        return list(self.page("dc_sampler_shard_read", 0, self.number("dc_sampler_shard_size")))

    def following(self):
        """What dc_sampler_next gives from the current position to the end."""
        index, found = c_int64(), []
        while self.check(self.library.dc_sampler_next(self.handle, byref(index))) == OK:
            found.append(index.value)
        return found

    def find(self, index):
        """(rank, position), or None where the epoch leaves the index out."""
        rank, position = c_uint32(), c_int64()
        found = self.library.dc_sampler_find(self.handle, index, byref(rank), byref(position), byref(self.error))
        return (rank.value, position.value) if self.check(found) == OK else None

    def keeps(self, index):
        return self.check(self.library.dc_sampler_keeps(self.handle, index)) == OK

    def save(self, consumed):
        state, size = ctypes.create_string_buffer(STATE_BYTES_MAX), c_uint64()
        self.check(
            self.library.dc_sampler_state_save(
                self.handle, consumed, state, STATE_BYTES_MAX, byref(size), byref(self.error)
            )
        )
        return state.raw[: size.value]

    def load(self, state):
        self.check(self.library.dc_sampler_state_load(self.handle, state, len(state), byref(self.error)))


def permutation(library, length, seed, epoch, window, purpose):
    handle, error = c_void_p(), Error()
    if status := library.dc_permutation_open(length, seed, epoch, window, purpose, byref(handle), byref(error)):
        raise Failure(status, error)
    out = (c_int64 * length)()
    assert library.dc_permutation_batch(handle, 0, out, length) == OK
    library.dc_permutation_close(handle)
    return tuple(out)
