"""cache_digits: scikit-learn's handwritten digits for `train`, which is here in several languages.

    python cache_digits.py --file digits.csv    writes them to a file: in each line 64 pixels, 0 to 16, and the digit
    python cache_digits.py [NAME]               caches them, and keeps the cache until Enter is pressed

While it runs, `train` with the same NAME (digits) finds every sample in the cache, in whatever language it is.
"""

import argparse
import sys

import ddpcache
import numpy as np
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", nargs="?", default="digits", help="of the cache")
parser.add_argument("--file", help="write the digits to this file instead")
arguments = parser.parse_args()

digits = load_digits()
if arguments.file:
    rows = np.column_stack([digits.data, digits.target])
    np.savetxt(arguments.file, rows, fmt="%d", delimiter=",")
else:
    length = len(digits.target)
    with ddpcache.Cache(arguments.name, length=length, fingerprint="digits 1", capacity="4MiB") as cache:
        for index, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            cache.get_or_load(
                index, lambda _, image=image, label=label: {"image": image.astype(np.uint8), "label": np.array(label)}
            )
        print(f"cached {length} digits; Enter ends it", flush=True)
        sys.stdin.readline()
