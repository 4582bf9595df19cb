"""ddpcache: one cache of decoded samples per machine, and the sampler that makes it hit.

    cache = ddpcache.Cache("digits", length=60000, fingerprint="digits v1")
    image, label = cache.get_or_load(7, decode)

Every process of the machine that opens the name shares the cache, in shared memory and without a server: ranks,
data-loader workers, other languages. `ddpcache.torch` has the samplers and the data set for torch.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec(f"{__name__}._ddpcache"):
    from ._public import *  # noqa: F403
    from ._public import __all__ as __all__
else:
    # A Python that the compiled module was not built for: `ddpcache.raw` needs none.
    def __getattr__(name: str) -> object:
        raise ImportError(f"ddpcache has no compiled module for this Python, and so no {name}: only ddpcache.raw works")
