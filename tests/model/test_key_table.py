"""The key table's protocol (src/cache/keys.hpp), searched exhaustively: every interleaving of processes that intern
keys, each of which may be killed, or stopped for ever, before any step. Mutants of the protocol must fail."""

import itertools

import pytest

SLOTS = 3
# (tag, rest, home): two that differ in the rest alone, one in the tag alone, one in everything.
KEYS = {"a": (1, 1, 0), "A": (1, 2, 0), "b": (2, 1, 0), "c": (3, 3, 1)}

# What a process does: the step that comes next, the slots that it has passed, and at the end its index.
START, DONE, FULL = "look at tag", "done", "full"


def look_at_tag(slots, key, passed, rules):
    at = place(key, passed)
    tag, _ = slots[at]
    if tag == 0:
        return slots, "take tag", passed
    return slots, *after_tag(tag, key, passed, rules)


def take_tag(slots, key, passed, rules):
    at = place(key, passed)
    tag, rest = slots[at]
    if tag == 0:
        slots, tag = replaced(slots, at, (KEYS[key][0], rest)), KEYS[key][0]
        if "only who took the tag takes the rest" in rules:
            return slots, "take rest", passed
    elif "lost tag is passed" in rules:
        return slots, *go_on(passed)
    return slots, *after_tag(tag, key, passed, rules)


def look_at_rest(slots, key, passed, rules):
    _, rest = slots[place(key, passed)]
    if rest == 0 and "only who took the tag takes the rest" in rules:
        return slots, *go_on(passed)
    if rest == 0:
        return slots, "take rest", passed
    return slots, *after_rest(rest, key, passed, rules)


def take_rest(slots, key, passed, rules):
    at = place(key, passed)
    tag, rest = slots[at]
    if rest == 0 or "rest is overwritten" in rules:
        slots, rest = replaced(slots, at, (tag, KEYS[key][1])), KEYS[key][1]
    elif "lost rest is taken" in rules:
        rest = KEYS[key][1]
    return slots, *after_rest(rest, key, passed, rules)


STEPS = {START: look_at_tag, "take tag": take_tag, "look at rest": look_at_rest, "take rest": take_rest}


def place(key, passed):
    return (KEYS[key][2] + passed) % SLOTS


def replaced(slots, at, slot):
    return (*slots[:at], slot, *slots[at + 1 :])


def go_on(passed):
    return (START, passed + 1) if passed + 1 < SLOTS else (FULL, SLOTS)


def after_tag(tag, key, passed, rules):
    if tag != KEYS[key][0]:
        return go_on(passed)
    if "tag alone decides" in rules:
        return DONE, passed
    return "look at rest", passed


def after_rest(rest, key, passed, rules):
    del rules
    return (DONE, passed) if rest == KEYS[key][1] else go_on(passed)


def intern_alone(slots, key, rules):
    """What a process comes to that nobody disturbs: the slots, its last step and its index. It takes a bounded time."""
    step, passed = START, 0
    for _ in range(4 * SLOTS):
        if step in (DONE, FULL):
            return slots, step, place(key, passed)
        slots, step, passed = STEPS[step](slots, key, passed, rules)
    raise AssertionError(f"{key} does not end in {slots}")


def look_up(slots, key):
    for passed in range(SLOTS):
        tag, rest = slots[place(key, passed)]
        if tag == 0 or (tag == KEYS[key][0] and rest == 0):
            return None
        if (tag, rest) == KEYS[key][:2]:
            return place(key, passed)
    return None


def check(slots, given, rules):
    """What must be true in every state, `given` being the keys that have been told their index."""
    assert all(tag for tag, rest in slots if rest), f"a rest without its tag: {slots}"
    for key, index in given.items():
        assert look_up(slots, key) == index, f"{key} was given {index}: {slots}"
    assert len(set(given.values())) == len(given), f"two keys have one index: {given}"
    # Everybody else may be dead: whoever comes now, in any order, has the same index as those before him.
    for order in itertools.permutations(KEYS, 2):
        later, known = slots, dict(given)
        for key in order:
            later, step, index = intern_alone(later, key, rules)
            assert key not in known or (step, index) == (DONE, known[key]), f"{key} has two indices: {later}"
            if step == DONE:
                assert index not in {other for name, other in known.items() if name != key}, f"one index: {later}"
                known[key] = index
            else:
                tag, rest, _ = KEYS[key]
                takes_it = [slot in ((0, 0), (tag, 0), (tag, rest)) for slot in later]
                assert not any(takes_it), f"{key} finds no place: {later}"


def search(keys, rules=frozenset()):
    """All states that processes interning these keys can reach. How many."""
    start = (((0, 0),) * SLOTS, tuple((START, 0) for _ in keys))
    seen, todo = {start}, [start]
    while todo:
        slots, processes = todo.pop()
        given = {}
        for key, (step, passed) in zip(keys, processes, strict=True):
            if step == DONE:
                index = place(key, passed)
                assert given.setdefault(key, index) == index, f"{key} has two indices: {slots}"
        check(slots, given, rules)
        for i, (step, passed) in enumerate(processes):
            if step in STEPS:
                after, *process = STEPS[step](slots, keys[i], passed, rules)
                state = (after, (*processes[:i], tuple(process), *processes[i + 1 :]))
                if state not in seen:
                    seen.add(state)
                    todo.append(state)
    return len(seen)


@pytest.mark.parametrize("keys", list(itertools.combinations_with_replacement(KEYS, 3)), ids="".join)
def test_no_interleaving_gives_a_key_two_indices_or_two_keys_one(keys):
    assert search(keys) > 100


@pytest.mark.parametrize("keys", ["aaaA", "aaAA", "aAbc", "aAAb"])
def test_nor_does_one_of_four_processes(keys):
    assert search(tuple(keys)) > 1000


@pytest.mark.parametrize(
    "rule",
    [
        "lost tag is passed",
        "only who took the tag takes the rest",
        "rest is overwritten",
        "lost rest is taken",
        "tag alone decides",
    ],
)
def test_a_protocol_with_one_rule_less_fails(rule):
    with pytest.raises(AssertionError):
        for keys in itertools.combinations_with_replacement(KEYS, 3):
            search(keys, frozenset([rule]))
