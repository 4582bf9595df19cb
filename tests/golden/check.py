#!/usr/bin/env python3
"""Holds the orders TORCH and VISCY of the built library against the golden vectors, to the bit and for every rank.

check.py LIBRARY samplers    every case of samplers.json
check.py LIBRARY large N     the case of randperm_large.json with this length
"""

import hashlib
import json
import pathlib
import sys

from sampler_library import DROP, PAD, TORCH, VISCY, Sampler, load

HERE = pathlib.Path(__file__).parent
PAGE = 1 << 20


def digest(sampler, size):
    total = hashlib.sha256()
    for position in range(0, size, PAGE):
        total.update(memoryview(sampler.read(position, min(PAGE, size - position))))
    return total.hexdigest()


def check_long(case, rank, sampler, size):
    assert size == case["size_per_rank"][rank], size
    shown = len(case["first"][rank])
    assert list(sampler.read(0, shown)) == case["first"][rank]
    assert list(sampler.read(size - shown, shown)) == case["last"][rank]
    assert digest(sampler, size) == case["sha256_int64le"][rank]


def check_case(library, case):
    """As one node of many ranks and as many nodes of one: only the rank's number may matter."""
    world = case["world_size"]
    for rank in range(world):
        for layout in ({"local_size": world, "local_rank": rank}, {"nodes": world, "node": rank}):
            with Sampler(
                library,
                order={"torch": TORCH, "viscy": VISCY}[case["sampler"]],
                tail=DROP if case["drop_last"] else PAD,
                shuffle=case["shuffle"],
                length=case["length"],
                seed=case["seed"],
                **layout,
            ) as sampler:
                sampler.set_epoch(case["epoch"])
                if "ranks" in case:
                    assert list(sampler.read()) == sampler.following() == case["ranks"][rank]
                else:
                    check_long(case, rank, sampler, sampler.size())


def samplers(library):
    cases = json.loads((HERE / "samplers.json").read_text())["cases"]
    for case in cases:
        try:
            check_case(library, case)
        except AssertionError:
            print({name: case[name] for name in case if not isinstance(case[name], list)})
            raise
    print(f"{len(cases)} cases hold for every rank")


def large(library, length):
    cases = json.loads((HERE / "randperm_large.json").read_text())["cases"]
    (case,) = [case for case in cases if case["n"] == length]
    with Sampler(library, order=TORCH, length=length, seed=case["seed"]) as sampler:
        shown = len(case["first"])
        assert list(sampler.read(0, shown)) == case["first"]
        assert list(sampler.read(length - shown, shown)) == case["last"]
        assert digest(sampler, length) == case["sha256"]
    print(f"randperm({length}) holds")


if __name__ == "__main__":
    if sys.argv[2] == "samplers":
        samplers(load(sys.argv[1]))
    else:
        large(load(sys.argv[1]), int(sys.argv[3]))
