"""Every language on one cache: each ordered pair of languages, each with itself included, and each by itself."""

import itertools
import os
from pathlib import Path

import pytest
import sampler_library
from programs import COMMANDS, Player
from project import INSTALL
from records import DTYPES, golden_cases, model_cases, records, resumed_cases, write_cases, write_records

LANGUAGES = list(COMMANDS)
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    """The files that all players are given."""
    folder = tmp_path_factory.mktemp("interop")
    write_records(folder / "records")
    write_cases(folder / "golden", golden_cases())
    write_cases(folder / "model", model_cases())
    for number, (line, _) in enumerate(resumed_cases()):
        write_cases(folder / f"case{number}", [line])
    return folder


@pytest.fixture(scope="session")
def cast(tmp_path_factory):
    """Two players of a language, started when first asked for: one fills, one reads."""
    started = {}

    def player(language, role):
        if (language, role) not in started:
            started[language, role] = Player(language, tmp_path_factory.mktemp("player"))
        return started[language, role]

    yield player
    assert {who: status for who, one in started.items() if (status := one.end())} == {}


def file_of(name):
    return SHARED_MEMORY / f"ddpcache.{os.getuid()}.{name}"


def state_of(line, consumed):
    """What the sampler of a case must save, as the C library does when called from here."""
    order, tail, shuffle, length, seed, epoch, nodes, local_size, node, local_rank = map(int, line.split()[:10])
    library = sampler_library.load(INSTALL / "lib" / "libddpcache.so")
    layout = {"nodes": nodes, "local_size": local_size, "node": node, "local_rank": local_rank}
    with sampler_library.Sampler(
        library, order=order, tail=tail, shuffle=shuffle, length=length, seed=seed, **layout
    ) as sampler:
        sampler.set_epoch(epoch)
        return sampler.save(consumed)


@pytest.fixture
def name(request):
    """Of a cache of the test's own."""
    return f"test-interop-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"


def share_a_cache(fills, reads, name, stage):
    """One fills, the other finds every byte; each goes on when the other has left."""
    fills("fill", name, stage / "records")
    reads("read", name, stage / "records")
    assert reads("load", name, stage / "records") == "0"
    fills("read", name, stage / "records")
    fills("close", name)
    reads("read", name, stage / "records")
    # Who left comes back, and finds all of it.
    assert fills("load", name, stage / "records") == "0"
    reads("close", name)
    fills("read", name, stage / "records")
    fills("close", name)
    assert not file_of(name).exists()


def resume_each_other(saves, resumes, stage, folder):
    for number, (line, consumed) in enumerate(resumed_cases()):
        state = folder / f"state{number}"
        saves("save", stage / f"case{number}", consumed, state)
        assert state.read_bytes() == state_of(line, consumed)
        resumes("resume", stage / f"case{number}", state)


@pytest.mark.parametrize(("filler", "reader"), list(itertools.product(LANGUAGES, repeat=2)))
def test_one_fills_and_the_other_reads_bit_for_bit(filler, reader, name, cast, stage, pairs, tmp_path):
    pairs[filler, reader] = False
    fills, reads = cast(filler, "fills"), cast(reader, "reads")
    share_a_cache(fills, reads, name, stage)
    resume_each_other(fills, reads, stage, tmp_path)
    pairs[filler, reader] = True


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_loads_what_nobody_filled(language, name, cast, stage):
    player = cast(language, "reads")
    assert player("load", name, stage / "records") == str(len(list(records())))
    player("read", name, stage / "records")
    player("close", name)
    assert not file_of(name).exists()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("cases", ["golden", "model"])
def test_a_language_deals_what_the_files_say(language, cases, cast, stage):
    cast(language, "reads")("sampler", stage / cases)


def changed(path, to, old, new):
    text = path.read_text()
    assert old in text
    to.write_text(text.replace(old, new, 1))
    return to


# Each by itself must be told, or what the players answer says nothing.
CHANGES = {
    "a dtype": (" 2 64 1 3 5", " 0 64 1 3 5"),
    "lanes": (" 2 32 4 3 5", " 2 128 1 3 5"),
    "a shape": (" 1 8 1 300 1000", " 1 8 1 3000 100"),
    "a name": ("array mask ", "array musk "),
    "a structure": (f"record {b'{'.hex()}", f"record {b'['.hex()}"),
    "bytes, by the number of the record": ("record -\narray - 1 8 1 1000\n", "record -\narray - 1 8 1 1000\n" * 2),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_player_notices_every_difference(language, name, cast, stage, tmp_path):
    player = cast(language, "fills")
    player("fill", name, stage / "records")
    for what, (old, new) in CHANGES.items():
        wrong = changed(stage / "records", tmp_path / "wrong", old, new)
        with pytest.raises(AssertionError, match="error"):
            player("read", name, wrong)
            pytest.fail(f"{language} does not notice {what}")
    player("close", name)
    line, consumed = next(resumed_cases())
    first, *rest = line.rsplit(" ", 1)
    wrong = tmp_path / "case"
    write_cases(wrong, [f"{first} {int(rest[0]) + 1}"])
    state = tmp_path / "state"
    player("save", wrong, consumed, state)
    for command in (("sampler", wrong), ("resume", wrong, state)):
        with pytest.raises(AssertionError, match="error"):
            player(*command)


def test_records_hold_every_dtype_and_rank():
    arrays = [line.split()[2:] for _, lines in records() for line in lines]
    assert {tuple(map(int, words[:3])) for words in arrays} == set(DTYPES)
    assert {len(words) - 3 for words in arrays} == set(range(9))
    assert any(words[3:].count("0") for words in arrays)
