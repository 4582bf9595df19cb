"""What the rows are to reach."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """What a row is to reach. By `kind`, "cost" and "throughput" judge ddpcache / peer, "speed-up" peer / ddpcache,
    "value" ddpcache by itself, whatever the peer, and "none" shows what there is no target for."""

    kind: str
    bound: float

    def ratio(self, ours: float, peer: float) -> float:
        if self.kind == "value":
            return ours
        return peer / ours if self.kind == "speed-up" else ours / peer

    def met(self, median: float) -> bool | None:
        if self.kind == "none":
            return None
        return median <= self.bound if self.kind in {"cost", "value"} else median >= self.bound

    def __str__(self) -> str:
        if self.kind in {"value", "none"}:
            return f"≤ {self.bound:g}" if self.kind == "value" else ""
        return f"{'≤' if self.kind == 'cost' else '≥'} {self.bound:g}×"


# The first pattern that is found in "row | peer" gives the target.
TARGETS = {
    r"hit in C": Target("cost", 3),
    r"hit through Python \(ctypes\)": Target("value", 2500),
    r"hit through": Target("value", 1000),
    r"with a checksum|compares a checksum": Target("none", 0),
    r"warm epoch, .* \| memcpy": Target("throughput", 0.9),
    r"warm epoch, .* \| DataLoader with 2": Target("throughput", 5),
    r"warm epoch, .* \| DataLoader with none": Target("throughput", 1),
    r"cold epoch, .* no cache": Target("none", 0),
    r"cold epoch, ": Target("throughput", 1),
    r"gather, .* \| one read_batch": Target("throughput", 0.98),
    r"gather|read_batch": Target("throughput", 0.95),
    r"first pass .* \| its second": Target("throughput", 0.75),
    r"first pass .* \| a first": Target("none", 0),
    r"save, ": Target("throughput", 0.9),
    r"restore, .* \| fills": Target("throughput", 0.6),
    r"restore, .* \| cp": Target("none", 0),
    r"fill": Target("throughput", 0.9),
    r"attach": Target("value", 1),
    r"arena per live byte, 25,000": Target("value", 1.3),
    r"arena per live byte": Target("none", 0),
    r"hit rate of an epoch": Target("throughput", 0.99),
    r"NumPy view \| stocaching": Target("speed-up", 6),
    r"NumPy view \| Manager": Target("speed-up", 100),
    r"torch view \| stocaching": Target("speed-up", 2.5),
    r"torch view \| Manager": Target("speed-up", 300),
    r"and an index, 10\^12": Target("cost", 3),
    r"sampler memory": Target("cost", 1.1),
    r"an eighth of": Target("cost", 0.15),
    r"NODE read of 10\^6 \| torch": Target("speed-up", 5),
    r"NODE read of .* \| torch": Target("speed-up", 12),
    r"NODE read of .* \| NumPy": Target("speed-up", 5),
    r"NODE read of .* \| std::shuffle": Target("speed-up", 3),
    r"NODE order of .*, 1 node": Target("speed-up", 12),
    r"NODE order of .*, 4 nodes": Target("speed-up", 7),
}


def target_of(row: str, peer: str) -> Target:
    return next(target for pattern, target in TARGETS.items() if re.search(pattern, f"{row} | {peer}"))
