"""The player in Python by ctypes: see ../README.md. It uses raw.py, the standard library, and nothing else."""

import sys
from ctypes import POINTER, addressof, byref, c_int64, c_uint8, c_uint64, memmove, sizeof, string_at

import raw
from play import Array, Failure, Player, main

error = raw.dc_error()


def expect(status, expected, what):
    if status != expected:
        reason = error.message if status < 0 and error.status == status else raw.dc_strerror(status)
        raise Failure(f"{what} gave status {status}: {reason.decode()}")


def described(array):
    found = raw.dc_array(
        dimensions=len(array.shape),
        dtype_code=array.code,
        dtype_bits=array.bits,
        dtype_lanes=array.lanes,
        name=array.name.encode(),
    )
    found.shape[: len(array.shape)] = array.shape
    return found


def description(array):
    return Array(
        array.name.decode(),
        array.dtype_code,
        array.dtype_bits,
        array.dtype_lanes,
        tuple(array.shape[: array.dimensions]),
    )


def write(fill, index, record):
    arrays = (raw.dc_array * len(record.arrays))(*map(described, record.arrays))
    structure = None if record.structure is None else record.structure.encode()
    status = raw.dc_cache_fill_allocate(fill, arrays, len(arrays), structure, byref(error))
    expect(status, raw.DC_OK, "dc_cache_fill_allocate")
    for number, array in enumerate(arrays):
        content = record.content(index, number)
        if array.bytes != len(content):
            raise Failure(f"array {number} of sample {index} has {array.bytes} bytes")
        memmove(array.data, content, len(content))


def release_compared(view, index, record):
    try:
        length = c_uint64()
        structure = raw.dc_view_structure(byref(view), byref(length))
        found = []
        for number in range(view.array_count):
            array = raw.dc_array()
            expect(raw.dc_view_array(byref(view), number, byref(array)), raw.DC_OK, "dc_view_array")
            found.append((description(array), string_at(array.data, array.bytes)))
        record.compare(index, None if structure is None else structure.decode(), found)
        if view.index != index or (structure is not None and length.value != len(structure)):
            raise Failure(f"sample {index} is number {view.index}, its structure of {length.value} bytes")
    finally:
        raw.dc_cache_view_release(byref(view))


class RawPlayer(Player):
    def open(self, name, length):
        options, cache = raw.dc_cache_options(), POINTER(raw.dc_cache)()
        expect(raw.dc_cache_options_init(byref(options), sizeof(options)), raw.DC_OK, "dc_cache_options_init")
        options.length, options.capacity_bytes, options.sample_bytes_max = length, self.CAPACITY, self.SAMPLE_BYTES_MAX
        status = raw.dc_cache_open(name.encode(), None, b"interop", byref(options), byref(cache), byref(error))
        expect(status, raw.DC_OK, "dc_cache_open")
        return cache

    def close(self, cache):
        expect(raw.dc_cache_close(cache), raw.DC_OK, "dc_cache_close")

    def fill(self, cache, index, record):
        fill = POINTER(raw.dc_fill)()
        expect(raw.dc_cache_fill_begin(cache, index, self.WAIT_NS, byref(fill)), raw.DC_OK, "dc_cache_fill_begin")
        write(fill, index, record)
        expect(raw.dc_cache_fill_commit(fill), raw.DC_OK, "dc_cache_fill_commit")

    def read(self, cache, index, record):
        view = raw.dc_view()
        expect(raw.dc_cache_view(cache, index, byref(view)), raw.DC_OK, "dc_cache_view")
        release_compared(view, index, record)

    def load(self, cache, index, record):
        calls = 0

        @raw.dc_loader
        def loader(fill, wanted, user):
            nonlocal calls
            calls += 1
            write(fill, wanted, record)
            return raw.DC_LOADED

        view = raw.dc_view()
        expect(raw.dc_cache_load(cache, index, loader, None, self.WAIT_NS, byref(view)), raw.DC_OK, "dc_cache_load")
        release_compared(view, index, record)
        return calls

    def sampler(self, case):
        options, sampler = raw.dc_sampler_options(), POINTER(raw.dc_sampler)()
        expect(raw.dc_sampler_options_init(byref(options), sizeof(options)), raw.DC_OK, "dc_sampler_options_init")
        for name, value in case.options().items():
            setattr(options, name, value)
        expect(raw.dc_sampler_open(byref(options), byref(sampler), byref(error)), raw.DC_OK, "dc_sampler_open")
        self.set_epoch(sampler, case.epoch)
        return sampler

    def set_epoch(self, sampler, epoch):
        expect(raw.dc_sampler_set_epoch(sampler, epoch, byref(error)), raw.DC_OK, "dc_sampler_set_epoch")

    def dealt(self, sampler):
        size = c_int64()
        expect(raw.dc_sampler_size(sampler, byref(size)), raw.DC_OK, "dc_sampler_size")
        indices = (c_int64 * size.value)()
        status = raw.dc_sampler_read(sampler, 0, indices, size.value, byref(error))
        expect(status, raw.DC_OK, "dc_sampler_read")
        return list(indices)

    def iterated(self, sampler):
        found, index = [], c_int64()
        while (status := raw.dc_sampler_next(sampler, byref(index))) == raw.DC_OK:
            found.append(index.value)
        expect(status, raw.DC_END, "dc_sampler_next")
        return found

    def save_state(self, sampler, consumed):
        state, needed = (c_uint8 * raw.DC_SAMPLER_STATE_BYTES_MAX)(), c_uint64()
        status = raw.dc_sampler_state_save(sampler, consumed, state, len(state), byref(needed), byref(error))
        expect(status, raw.DC_OK, "dc_sampler_state_save")
        return string_at(addressof(state), needed.value)

    def load_state(self, sampler, state):
        status = raw.dc_sampler_state_load(sampler, (c_uint8 * len(state))(*state), len(state), byref(error))
        expect(status, raw.DC_OK, "dc_sampler_state_load")

    def close_sampler(self, sampler):
        raw.dc_sampler_close(sampler)


if __name__ == "__main__":
    main(RawPlayer())
    assert not [name for name in sys.modules if name.split(".")[0] in ("ddpcache", "_ddpcache", "numpy")]
