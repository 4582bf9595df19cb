"""ddpcache for torch: samplers that leave samples on their node, and a data set whose samples are decoded once a node.

    dataset = ddpcache.torch.CachedDataset(dataset, "digits")
    sampler = ddpcache.torch.NodeSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        ...

With Lightning, set ``Trainer(use_distributed_sampler=False)``, which says that the samplers are yours. Lightning leaves
these alone either way, since they are DistributedSamplers of torch, and calls set_epoch itself. ``LightningCallback``
shows what caches do, and resumes exactly. For other trainers, docs/frameworks.md has an example each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._job import job_id
from ._checking import DealtTwiceError, check_loader
from ._dataset import CachedDataset, NondeterministicError, fingerprint
from ._loader import CachedLoader
from ._samplers import DistributedSampler, NodeBatchSampler, NodeSampler, ShardedDistributedSampler
from ._warming import warm_up

if TYPE_CHECKING:
    from ._lightning import LightningCallback as LightningCallback

# Without LightningCallback, so that `import *` needs no Lightning.
__all__ = [
    "CachedDataset",
    "CachedLoader",
    "DealtTwiceError",
    "DistributedSampler",
    "NodeBatchSampler",
    "NodeSampler",
    "NondeterministicError",
    "ShardedDistributedSampler",
    "check_loader",
    "fingerprint",
    "warm_up",
]


def __getattr__(name: str) -> object:
    # Lightning takes seconds to import, and is no requirement.
    if name == "LightningCallback":
        from ._lightning import LightningCallback

        return LightningCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Where no launcher names the job, its first process does so in a variable. Lightning and mp.spawn start the other ranks
# from a script that has imported this module, but perhaps opened no cache yet.
job_id()
