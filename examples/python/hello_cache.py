"""hello_cache: ten samples in a cache that any number of programs, in any language, share while one of them runs.

Start it, or its namesakes in the other languages, several times at once with the same name: each sample is decoded by
one of them and found by the others.

    python hello_cache.py [NAME]
"""

import sys

import ddpcache
import numpy as np

LENGTH, ROWS, COLUMNS = 10, 2, 3

decoded = []


def decode(index: int) -> np.ndarray:
    """Stands for reading and decoding a file."""
    decoded.append(index)
    return (index * 100 + np.arange(ROWS * COLUMNS, dtype=np.int32)).reshape(ROWS, COLUMNS)


name = sys.argv[1] if len(sys.argv) > 1 else "hello_cache"
with ddpcache.Cache(name, length=LENGTH, fingerprint="hello_cache 1", capacity="1MiB") as cache:
    for index in range(LENGTH):
        sample = cache.get_or_load(index, decode)
        rows, columns = sample.shape
        print(f"sample {index}: {rows} x {columns}, from {sample[0, 0]} to {sample[-1, -1]}")
print(f"decoded {len(decoded)}, found {LENGTH - len(decoded)}")
