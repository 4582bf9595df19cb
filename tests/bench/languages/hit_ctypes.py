"""Hits through Python by ctypes: as hit.c."""

import sys
from ctypes import POINTER, byref, sizeof

from ddpcache import raw


def hit(cache, length, count):
    total, view = 0, raw.dc_view()
    place, look, release = byref(view), raw.dc_cache_view, raw.dc_cache_view_release
    for _ in range(count // length):
        for index in range(length):
            if look(cache, index, place):
                return 0
            total += view.bytes
            release(place)
    return total


cache, error, info = POINTER(raw.dc_cache)(), raw.dc_error(), raw.dc_cache_info()
info.struct_size = sizeof(info)
if raw.dc_cache_attach(sys.argv[1].encode(), None, 0, byref(cache), byref(error)):
    sys.exit(error.message)
if raw.dc_cache_info_get(cache, byref(info)):
    sys.exit("no information")
for line in sys.stdin:
    print(hit(cache, info.length, int(line)), flush=True)
raw.dc_cache_close(cache)
