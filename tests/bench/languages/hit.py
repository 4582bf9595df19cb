"""Hits through Python by SWIG, each giving a NumPy array: as hit.c."""

import sys

import ddpcache


def hit(cache, length, count):
    total, get = 0, cache.get
    for _ in range(count // length):
        for index in range(length):
            total += get(index).nbytes
    return total


with ddpcache.Cache(sys.argv[1]) as cache:
    for line in sys.stdin:
        print(hit(cache, len(cache), int(line)), flush=True)
