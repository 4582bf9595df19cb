"""What the two players in Python have in common: the commands, and what records and cases say. See ../README.md."""

import sys
from dataclasses import dataclass, field

BOOL = 6
PERIOD = 251
_RING = bytes(range(PERIOD)) * 2
_MODULO_2 = bytes(value % 2 for value in range(256))


class Failure(Exception):
    """What a player answers behind `error`."""


@dataclass(frozen=True)
class Array:
    name: str
    code: int
    bits: int
    lanes: int
    shape: tuple

    @property
    def bytes(self):
        elements = 1
        for extent in self.shape:
            elements *= extent
        return elements * self.bits * self.lanes // 8


@dataclass
class Record:
    structure: str | None
    arrays: list = field(default_factory=list)

    def content(self, index, number):
        """The bytes of an array of the record with this index."""
        array, first = self.arrays[number], (31 * index + 7 * number) % PERIOD
        period = _RING[first : first + PERIOD]
        content = (period * (array.bytes // PERIOD + 1))[: array.bytes]
        return content.translate(_MODULO_2) if array.code == BOOL else content

    def compare(self, index, structure, found):
        """`found` is a list of pairs: an Array and its bytes."""
        if structure != self.structure:
            raise Failure(f"sample {index} has the structure {structure}")
        if [array for array, _ in found] != self.arrays:
            raise Failure(f"sample {index} is {[array for array, _ in found]}")
        for number, (_, content) in enumerate(found):
            if content != self.content(index, number):
                raise Failure(f"array {number} of sample {index} has other bytes")


def records_in(path):
    records = []
    with open(path) as file:
        for line in file:
            kind, *words = line.split()
            if kind == "record":
                records.append(Record(None if words[0] == "-" else bytes.fromhex(words[0]).decode()))
            else:
                name, *numbers = words
                code, bits, lanes, *shape = map(int, numbers)
                records[-1].arrays.append(Array("" if name == "-" else name, code, bits, lanes, tuple(shape)))
    return records


@dataclass
class Case:
    order: int
    tail: int
    shuffle: int
    length: int
    seed: int
    epoch: int
    nodes: int
    local_size: int
    node: int
    local_rank: int
    indices: list

    def options(self):
        names = ("order", "tail", "shuffle", "length", "seed", "nodes", "local_size", "node", "local_rank")
        return {name: getattr(self, name) for name in names}


def cases_in(path):
    with open(path) as file:
        for line in file:
            numbers = list(map(int, line.split()))
            if len(numbers[11:]) != numbers[10]:
                raise Failure(f"{numbers[10]} indices are said to follow, and {len(numbers[11:])} do")
            yield Case(*numbers[:10], numbers[11:])


class Player:
    """The commands. A player says how each is done with its layer."""

    CAPACITY, SAMPLE_BYTES_MAX = 64 << 20, 1 << 20
    WAIT_NS = 60 * 10**9

    def __init__(self):
        self.caches = {}

    def play(self, command, *words):
        return getattr(self, f"do_{command}")(*words)

    def cache(self, name, records):
        if name not in self.caches:
            self.caches[name] = self.open(name, len(records))
        return self.caches[name]

    def do_fill(self, name, path):
        records = records_in(path)
        for index, record in enumerate(records):
            self.fill(self.cache(name, records), index, record)

    def do_read(self, name, path):
        records = records_in(path)
        for index, record in enumerate(records):
            self.read(self.cache(name, records), index, record)

    def do_load(self, name, path):
        records = records_in(path)
        return sum(self.load(self.cache(name, records), index, record) for index, record in enumerate(records))

    def do_close(self, name):
        self.close(self.caches.pop(name))

    def do_sampler(self, path):
        for case in cases_in(path):
            sampler = self.sampler(case)
            self.compare(sampler, case.indices)
            self.close_sampler(sampler)

    def do_save(self, path, consumed, to):
        (case,) = cases_in(path)
        sampler = self.sampler(case)
        with open(to, "wb") as file:
            file.write(self.save_state(sampler, int(consumed)))
        self.close_sampler(sampler)

    def do_resume(self, path, state):
        (case,) = cases_in(path)
        sampler = self.sampler(case)
        with open(state, "rb") as file:
            self.load_state(sampler, file.read())
        self.set_epoch(sampler, case.epoch)  # as a trainer does after loading; it changes nothing
        left = len(self.dealt(sampler))
        self.compare(sampler, case.indices[len(case.indices) - left :])
        self.close_sampler(sampler)

    def compare(self, sampler, wanted):
        for dealt in (self.dealt(sampler), self.iterated(sampler)):
            if dealt != wanted:
                raise Failure(f"the sampler deals {dealt}, not {wanted}")


def main(player):
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        try:
            number = player.play(*words)
        except Exception as reason:  # whatever it is, it is the answer
            print("error", type(reason).__name__, " ".join(str(reason).split()), flush=True)
        else:
            print("ok" if number is None else f"ok {number}", flush=True)
    for name in list(player.caches):
        player.do_close(name)
