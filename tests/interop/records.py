"""RECORDS and CASES, which every player is given: see README.md."""

import itertools
import json
import math

import node_model
import sampler_model
from project import ROOT

# The specification, with the library's own permutation put in.
sampler_model.shuffled = node_model.shuffled

BFLOAT, COMPLEX, BOOL, FLOAT8_E4M3FN = 4, 5, 6, 10
# DLPack's type code, bits, lanes.
PLAIN_DTYPES = [
    *((code, bits, 1) for code in (0, 1) for bits in (8, 16, 32, 64)),
    *((2, bits, 1) for bits in (16, 32, 64)),
    (BFLOAT, 16, 1),
    (COMPLEX, 64, 1),
    (COMPLEX, 128, 1),
    (BOOL, 8, 1),
]
# Such as few languages have a name for.
RARE_DTYPES = [(COMPLEX, 32, 1), (FLOAT8_E4M3FN, 8, 1), (2, 32, 4), (0, 8, 3)]
DTYPES = PLAIN_DTYPES + RARE_DTYPES
UINT8, INT64, FLOAT32 = (1, 8, 1), (0, 64, 1), (2, 32, 1)

SHAPES = [(), (7,), (2, 3), (4, 1, 5), (2, 2, 2, 2), (1, 2, 3, 2, 1), (2, 1, 2, 1, 2, 3), (1, 2, 1, 2, 1, 2, 3)]
SHAPES += [(2, 1, 3, 1, 2, 1, 2, 2)]
EMPTY_SHAPES = [(0,), (0, 3), (3, 0, 2), (1, 2, 1, 2, 0, 2, 1, 2)]


def structure(node):
    """As Python nests samples: ddpcache/_samples.py."""
    return json.dumps({"ddpcache": 1, "sample": node}, separators=(",", ":"))


def array(dtype, shape, name="-"):
    return " ".join(["array", name, *map(str, (*dtype, *shape))])


def records():
    """Pairs: a structure or None, and the arrays."""
    yield None, [array(UINT8, (1000,))]
    for dtype in DTYPES:
        for shape in ((3, 5), (2,), (), (0, 4)):
            yield None, [array(dtype, shape)]
    for dtype, shape in itertools.product((FLOAT32, UINT8, INT64), SHAPES + EMPTY_SHAPES):
        yield None, [array(dtype, shape)]
    yield None, [array(UINT8, (300, 1000))]
    image, mask, label = (
        array(UINT8, (4, 6, 3), "image"),
        array((BOOL, 8, 1), (4, 6), "mask"),
        array(INT64, (), "label"),
    )
    yield None, [image, mask, label]
    yield None, [array(FLOAT32, (2, 2)), array(INT64, (3,)), array((BFLOAT, 16, 1), (0,))]
    yield None, [array(FLOAT32, (2,), "ünï" * 10 + "_name"), array(INT64, (3,), "x" * 55)]
    yield None, [array(DTYPES[n % len(DTYPES)], (n % 3, 2), f"array{n}") for n in range(64)]
    yield structure(["dict", ["image", "mask", "label"], [0, 1, ["int", 2]]]), [image, mask, label]
    nested = ["tuple", [0, ["dict", ["a", "b"], [1, ["list", [2, 3]]]]]]
    names = ("0", "1.a", "1.b.0", "1.b.1")
    yield structure(nested), [array(FLOAT32, (2, 3), name) for name in names]
    # What another language made of it, in all its length.
    text = json.dumps({"made_by": "another", "note": "ä"}, ensure_ascii=False)
    yield text, [array(INT64, (2, 2), "kept")]
    yield text.replace('"ä"', f'"{"x" * (4096 - len(text.encode()) + 2)}"'), [array(UINT8, (3,))]


def write_records(path):
    lines = []
    for text, arrays in records():
        assert text is None or len(text.encode()) <= 4096
        lines += [f"record {'-' if text is None else text.encode().hex()}", *arrays]
    path.write_text("\n".join(lines) + "\n")
    return sum(line.startswith("record") for line in lines)


ORDERS = {"node": 0, "torch": 1, "viscy": 2}
TAILS = {"PAD": 0, "DROP": 1, "EXACT": 2}


def case(order, tail, shuffle, length, seed, epoch, nodes, local_size, rank, indices):
    node, local_rank = divmod(rank, local_size)
    head = (ORDERS[order], TAILS[tail], int(shuffle), length, seed, epoch, nodes, local_size, node, local_rank)
    return " ".join(map(str, (*head, len(indices), *indices)))


def golden_cases():
    """What torch's and VisCy's own samplers deal, each rank as if on a node of its own and as if all were on one."""
    for one in json.loads((ROOT / "tests" / "golden" / "samplers.json").read_text())["cases"]:
        world, tail = one["world_size"], "DROP" if one["drop_last"] else "PAD"
        head = one["sampler"], tail, one["shuffle"], one["length"], one["seed"], one["epoch"]
        for rank, indices in enumerate(one.get("ranks", [])):
            yield case(*head, *((world, 1) if one["seed"] % 2 else (1, world)), rank, indices)


def model_cases(lengths=(1, 2, 23, 96, 5000), seeds=(0, 2**63 + 5)):
    """What the specification deals in order NODE."""
    grid = itertools.product(lengths, seeds, ((1, 1), (1, 3), (2, 2), (3, 1)), TAILS, (True, False))
    for length, seed, (nodes, local_size), tail, shuffle in grid:
        if tail == "DROP" and length < nodes * local_size:
            continue
        spec = sampler_model.Spec(length, seed=seed, shuffle=shuffle)
        for epoch in (0, 7):
            for rank, indices in enumerate(sampler_model.Epoch(spec, epoch).ranks(nodes, local_size, tail)):
                yield case("node", tail, shuffle, length, seed, epoch, nodes, local_size, rank, indices)


def write_cases(path, cases):
    lines = list(cases)
    path.write_text("\n".join(lines) + "\n")
    return len(lines)


def resumed_cases():
    """A case of each order, and how much of it a first process has consumed."""
    spec = sampler_model.Spec(96, seed=11)
    yield case("node", "PAD", True, 96, 11, 5, 2, 2, 3, sampler_model.Epoch(spec, 5).ranks(2, 2, "PAD")[3]), 7
    for order in ("torch", "viscy"):
        found = [line for line in golden_cases() if line.startswith(f"{ORDERS[order]} 0 1 ")]
        longest = max(found, key=len)
        yield longest, math.ceil(int(longest.split()[10]) / 3)
