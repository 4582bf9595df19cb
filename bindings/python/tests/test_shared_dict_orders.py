"""SharedDict's own code, step by step: every order of a few processes' steps with up to two switches or kills.

Each process is a thread here that stops before each call of the cache below the dict, and the test says who goes on.
What they found must be what one dict gives that takes the calls in some order, each between its beginning and its end;
a call that was killed may be in that order or not. Mutants of the code show that the test would notice.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ddpcache
import pytest

MISSING = "missing"
SWITCHES = 3 if os.environ.get("DDPCACHE_SOAK") else 2


class Killed(BaseException):
    """Ends a process at a step."""


class Player:
    """One process: its calls, where it stands, and what it waits for."""

    def __init__(self, stage: Stage, number: int, calls: list[tuple[Any, ...]]) -> None:
        self.stage, self.calls = stage, calls
        self.go = threading.Semaphore(0)
        self.done = self.killed = False
        self.waits_for: Any = None
        self.history: list[dict[str, Any]] = []
        self.thread = threading.Thread(target=self.play, daemon=True)
        self.thread.start()

    def play(self) -> None:
        self.go.acquire()
        try:
            for name, *arguments in self.calls:
                event = {"call": (name, *arguments), "begin": self.stage.now(), "end": None, "result": None}
                self.history.append(event)
                event["result"] = perform(self.stage.shared, self.stage.key, name, *arguments)
                event["end"] = self.stage.now()
        except Killed:
            pass
        except BaseException as error:
            self.stage.error = error
        self.done = True
        self.stage.turn_is_over.release()

    def step(self) -> None:
        self.stage.turn_is_over.release()
        self.go.acquire()
        if self.killed:
            raise Killed

    def enabled(self) -> bool:
        return not self.done and (self.waits_for is None or self.waits_for.holder is None)


class Lock:
    """Stands for a lock of the dict, which a dead process holds no more."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.holder: Player | None = None

    def __enter__(self) -> None:
        player = self.stage.current
        if player is None:
            return
        player.waits_for = self
        player.step()
        player.waits_for, self.holder = None, player

    def __exit__(self, *exception: object) -> None:
        self.holder = None


class Steps:
    """The cache, with a step before each call."""

    def __init__(self, stage: Stage, cache: ddpcache.Cache) -> None:
        self._stage, self._cache = stage, cache

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cache, name)
        return self._stage.stepping(found) if callable(found) else found

    def __contains__(self, key: Any) -> bool:
        return self._stage.stepping(self._cache.__contains__)(key)

    def __setitem__(self, key: Any, record: Any) -> None:
        self._stage.stepping(self._cache.__setitem__)(key, record)

    def __len__(self) -> int:
        return len(self._cache)


class Stage:
    """Plays the calls of some processes on one key in one order of their steps."""

    def __init__(self, shared: ddpcache.SharedDict) -> None:
        self.shared, self.current, self.error = shared, None, None
        self.turn_is_over = threading.Semaphore(0)
        self.clock = 0
        self.key: Any = None
        shared._cache = Steps(self, shared._cache)
        shared._locks = [Lock(self) for _ in shared._locks]

    def now(self) -> int:
        self.clock += 1
        return self.clock

    def stepping(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any) -> Any:
            if self.current is not None:
                self.current.step()
            return call(*arguments)

        return stepped

    def play(self, programs: list[list[tuple[Any, ...]]], choices: list[int], killed: int) -> list[int]:
        """Makes the players go on, by `choices` and then without a switch; how many could have gone on at each turn.

        The player of number `killed` dies where the choice is -1.
        """
        players = [Player(self, number, calls) for number, calls in enumerate(programs)]
        options, turn = [], 0
        last: Player | None = None
        while enabled := [player for player in players if player.enabled()]:
            # To go on with the same one is choice 0.
            enabled.sort(key=lambda player: player is not last)
            choice = choices[turn] if turn < len(choices) else 0
            options.append(len(enabled))
            turn += 1
            if choice < 0 and players[killed].enabled():
                players[killed].killed = True
                last = players[killed]
            else:
                last = enabled[max(choice, 0) % len(enabled)]
            self.current = last
            last.go.release()
            assert self.turn_is_over.acquire(timeout=60)
            self.current = None
            if self.error:
                raise self.error
        assert all(player.done for player in players), "nobody can go on"
        self.players = players
        return options

    def histories(self) -> list[dict[str, Any]]:
        return [event for player in self.players for event in player.history]


def perform(shared: ddpcache.SharedDict, key: Any, name: str, *arguments: Any) -> Any:
    if name == "set":
        shared[key] = arguments[0]
        return None
    if name == "del":
        try:
            del shared[key]
        except KeyError:
            return MISSING
        return None
    if name == "in":
        return key in shared
    return getattr(shared, name)(key, *(arguments if name == "setdefault" else (MISSING,)))


def model(state: Any, name: str, *arguments: Any) -> tuple[Any, Any]:
    """The state of the key after a call, and what the call gives."""
    if name == "set":
        return arguments[0], None
    if name == "get":
        return state, state
    if name == "in":
        return state, state != MISSING
    if name == "pop":
        return MISSING, state
    if name == "del":
        return MISSING, MISSING if state == MISSING else None
    assert name == "setdefault"
    value = arguments[0] if state == MISSING else state
    return value, value


def explained(events: list[dict[str, Any]], state: Any) -> bool:
    """Whether one dict gives these results, taking each call between its beginning and its end."""
    if all(event["end"] is None for event in events):
        return True  # those that were killed need not have happened
    first_end = min(event["end"] for event in events if event["end"] is not None)
    for number, event in enumerate(events):
        if event["begin"] > first_end:
            continue
        after, result = model(state, *event["call"])
        if event["end"] is None or result == event["result"]:
            if explained(events[:number] + events[number + 1 :], after):
                return True
    return False


def orders(options: list[int], choices: list[int], kill: bool) -> Iterator[list[int]]:
    """The orders that differ from one that was played first at a turn that it had not chosen."""
    switches = sum(choice != 0 for choice in choices)
    if switches >= SWITCHES:
        return
    for turn in range(len(choices), len(options)):
        padded = choices + [0] * (turn - len(choices))
        for choice in range(1, options[turn]):
            yield [*padded, choice]
        if kill and -1 not in choices:
            yield [*padded, -1]


def check_all_orders(shared, before, programs, kill):
    """Every order, each on a key of its own, since keys are not forgotten; how many there were."""
    stage, numbers = Stage(shared), itertools.count()
    waiting: list[list[int]] = [[]]
    played = 0
    while waiting:
        choices = waiting.pop()
        stage.key = (*map(str, before), str(programs), kill, next(numbers)) if kill is not None else next(numbers)
        stage.key = repr(stage.key)
        state: Any = MISSING
        for call in before:
            perform(shared, stage.key, *call)
            state, _ = model(state, *call)
        options = stage.play(programs, choices, kill or 0)
        waiting += orders(options, choices, kill is not None)
        played += 1
        events = stage.histories()
        for name in ("get", "in"):
            events.append({"call": (name,), "begin": stage.now(), "result": perform(shared, stage.key, name)})
            events[-1]["end"] = stage.now()
        text = f"before {before}, programs {programs}, order {choices}: {events}"
        assert explained(events, state), text
        listed = [key for key in shared if key == stage.key]
        assert listed == [stage.key] * (events[-2]["result"] != MISSING), text
        assert len(shared) == len(listed), text
        shared.pop(stage.key, None)
        assert stage.key not in shared and len(shared) == 0, text
    return played


BEFORE = {
    "absent": [],
    "first": [("set", 0)],
    "second": [("set", 0), ("set", 9)],
    "first again": [("set", 0), ("set", 9), ("set", 8)],
    "removed": [("set", 0), ("set", 9), ("pop",)],
}
PROGRAMS = {
    "set and get": [[("set", 1)], [("get",), ("get",)]],
    "two sets and get": [[("set", 1), ("set", 2)], [("get",), ("in",)]],
    "set and set": [[("set", 1)], [("set", 2)]],
    "set and pop": [[("set", 1), ("get",)], [("pop",)]],
    "set and setdefault": [[("set", 1)], [("setdefault", 2), ("get",)]],
    "setdefault and pop": [[("setdefault", 1)], [("pop",), ("get",)]],
    "pop and pop": [[("pop",)], [("pop",)]],
    "del and set": [[("del",), ("get",)], [("set", 1)]],
    "two setdefaults": [[("setdefault", 1)], [("setdefault", 2)]],
    "three": [[("set", 1)], [("set", 2)], [("get",), ("get",)]],
}


@pytest.fixture
def shared(name):
    with ddpcache.SharedDict(name, length=200_000, capacity="4MiB") as opened:
        cache = opened.cache
        yield opened
        assert cache.check().violations == 0
        cache.close()


@pytest.mark.soak
@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_whatever_the_order_calls_are_those_of_one_dict(shared, programs):
    played = sum(check_all_orders(shared, before, programs, None) for before in BEFORE.values())
    print(f"{played} orders")
    assert played > 50


@pytest.mark.soak
@pytest.mark.parametrize("programs", ["two sets and get", "set and pop", "del and set"])
def test_a_kill_at_any_step_leaves_the_old_value_or_the_new(shared, programs):
    played = sum(check_all_orders(shared, before, PROGRAMS[programs], 0) for before in BEFORE.values())
    print(f"{played} orders")
    assert played > 200


class EmptiesFirst(ddpcache.SharedDict):
    def _replace(self, key, record):
        self._cache.remove(key)
        super()._replace(key, record)


class LeavesTheSecond(ddpcache.SharedDict):
    """What a killed process left in a second place comes to count."""

    def _take(self, key, look):
        found = super()._find(key)
        if found:
            with self._lock(key):
                self._cache.remove(key) or self._cache.remove((b"second", key))
        return found


class LooksOnce(ddpcache.SharedDict):
    def _elsewhere(self, key, look):
        return look((b"second", key)) or None


class FirstEmptiedBeforeTheSecondIsFilled(ddpcache.SharedDict):
    def _replace(self, key, record):
        second = (b"second", key)
        if key in self._cache:
            self._cache.remove(key)
            self._store(second, record)
        else:
            self._cache.remove(second)
            self._store(key, record)
        self._cache.intern((b"replaced",))


class TakesNoLock(ddpcache.SharedDict):
    def _lock(self, key):
        return contextlib.nullcontext()


@pytest.mark.parametrize(
    "mutant", [EmptiesFirst, LeavesTheSecond, LooksOnce, FirstEmptiedBeforeTheSecondIsFilled, TakesNoLock]
)
def test_mutants_are_found(shared, mutant):
    shared.__class__ = mutant
    with pytest.raises((AssertionError, ddpcache.PresentError), match="before |fill"):
        for kill, programs, before in itertools.product((None, 0), PROGRAMS.values(), BEFORE.values()):
            check_all_orders(shared, before, programs, kill)
