"""The installed `ddpcache` command, beside a Python process that holds a cache."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from project import INSTALL, pkg_config, run

TOOL = INSTALL / "bin" / "ddpcache"
# Fills four of ten samples, keeps the cache until it is told to leave, and then shows that it still has them.
HOLDER = """
import sys, ddpcache, numpy
options = {"kept": {"keep": True}, "checksums": {"checksums": "fill"}}.get(sys.argv[2], {})
with ddpcache.Cache(sys.argv[1], length=10, fingerprint="tool 1", capacity="4MiB", **options) as cache:
    for index in range(4):
        cache[index] = numpy.full(1024, index, dtype=numpy.uint8)
    print(cache.info.uuid, flush=True)
    sys.stdin.read()
    print([int(cache[index][0]) for index in range(4)])
"""

# Takes over a kept cache of the same kind, and shows what it has.
READER = """
import sys, ddpcache
with ddpcache.Cache(sys.argv[1], length=10, fingerprint="tool 1") as cache:
    print([int(cache[index][0]) for index in range(4)])
"""


@pytest.fixture
def name(request):
    name = f"test-tool-{os.getpid()}-{request.node.name.removeprefix('test_')}"
    yield name
    subprocess.run([TOOL, "unlink", name], capture_output=True, stdin=subprocess.DEVNULL)


class Holder:
    """A process that holds a cache while the block runs; `kill` ends it before it can remove anything."""

    def __init__(self, name, kind="dropped"):
        self.process = Popen([sys.executable, "-c", HOLDER, name, kind], stdin=PIPE, stdout=PIPE, text=True)
        self.uuid = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def leave(self):
        assert self.process.communicate("", timeout=60)[0] == "[0, 1, 2, 3]\n"
        assert self.process.returncode == 0

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def refused(*arguments):
    """The status and the one sentence of a command that must fail without any other output."""
    result = subprocess.run([TOOL, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.stdout == ""
    return result.returncode, result.stderr


def listed(name):
    """What `ddpcache list` says after a cache's name; None where it does not name it."""
    lines = dict(line.split(maxsplit=1) for line in run(TOOL, "list").splitlines())
    return lines.get(name)


def shown(name):
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in run(TOOL, "show", name).splitlines())


def cache_file(name):
    return Path(f"/dev/shm/ddpcache.{os.getuid()}.{name}")


def test_version_is_that_of_the_library():
    assert run(TOOL, "--version").split() == pkg_config("--modversion")


def test_list_has_a_line_for_a_cache_while_it_is_held(name):
    assert listed(name) is None
    with Holder(name) as holder:
        assert re.fullmatch(r"4 of 10 samples, [\d.]+ [KM]iB of [\d.]+ MiB, 1 clients", listed(name))
        holder.leave()
    assert listed(name) is None


def test_show_tells_options_and_counts(name):
    with Holder(name) as holder:
        facts = shown(name)
        holder.leave()
    assert (facts["name"], facts["uuid"], facts["fingerprint"]) == (name, holder.uuid, "tool 1")
    assert facts["samples"].startswith("4 of 10, ")
    assert facts["clients"].startswith("1 of 1024")
    assert facts["creator"] == f"process {holder.process.pid}"
    assert (facts["kept"], facts["misses"], facts["fills"], facts["aborts"]) == ("no", "0", "4", "0")
    assert facts["filled"] == "4 KiB"
    assert facts["open fills"].startswith("0, ")


def test_check_proves_a_sound_cache_and_refuses_what_is_none(name):
    with Holder(name) as holder:
        assert run(TOOL, "check", name).startswith(
            "sound: 4 ready, 0 being filled, 0 orphaned, 0 bad; 4 extents owned, "
        )
        with cache_file(name).open("r+b") as file:  # the first bytes say what kind of file it is
            file.write(b"\xff" * 8)
        status, sentence = refused("check", name)
        assert status == 1
        assert re.fullmatch(rf"ddpcache: .*{re.escape(name)}.*\n", sentence)
        holder.leave()


def test_check_says_which_sample_was_damaged(name):
    with Holder(name, "checksums") as holder:
        assert shown(name)["checksums"] == "fill"
        data = cache_file(name).read_bytes()
        place = data.index(b"\2" * 1024)  # sample 2
        with cache_file(name).open("r+b") as file:
            file.seek(place + 1000)
            file.write(b"\3")
        status, sentence = refused("check", name)
        assert status == 1
        wanted = r"entry 2 .*checksum [0-9a-f]{16}, whose bytes have [0-9a-f]{16} \(bytes \d+ to \d+\)$"
        assert re.search(wanted, sentence.strip()), sentence
        with cache_file(name).open("r+b") as file:
            file.seek(place + 1000)
            file.write(b"\2")
        assert run(TOOL, "check", name).startswith("sound: 4 ready, ")
        holder.leave()


def test_unlink_removes_the_name_and_leaves_the_holder_its_samples(name):
    with Holder(name) as holder:
        assert run(TOOL, "unlink", name) == ""
        assert listed(name) is None
        holder.leave()


def test_gc_removes_what_a_killed_process_left_and_nothing_else(name):
    held, kept = f"{name}-held", f"{name}-kept"
    try:
        with Holder(held) as holder, Holder(name) as dead, Holder(kept, "kept") as keeper:
            dead.kill()
            keeper.leave()
            assert cache_file(name).exists()
            assert int(re.fullmatch(r"removed (\d+)\n", run(TOOL, "gc"))[1]) >= 1
            assert not cache_file(name).exists()
            assert listed(held).endswith(", 1 clients")
            assert listed(kept).endswith(", 0 clients, kept")
            assert shown(kept)["kept"] == "yes"
            holder.leave()
    finally:
        run(TOOL, "unlink", kept)


def test_save_and_restore_bring_a_cache_back_under_another_name(name, tmp_path):
    file, other = tmp_path / "saved", f"{name}-other"
    with Holder(name) as holder:
        assert run(TOOL, "save", name, file) == "saved 4 samples\n"
        holder.leave()
    try:
        assert run(TOOL, "restore", file, other, "--capacity", "8MiB").startswith(
            "restored: 4 of 10 samples; kept until"
        )
        assert listed(other).endswith(", 0 clients, kept")
        assert run(TOOL, "restore", file, other).startswith("it is there already: 4 of 10 samples; kept until ")
        assert run(TOOL, "check", other).startswith("sound: 4 ready, ")
        assert run(sys.executable, "-c", READER, other) == "[0, 1, 2, 3]\n"
    finally:
        run(TOOL, "unlink", other)
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in run(TOOL, "show", file).splitlines())
    assert (facts["name"], facts["fingerprint"], facts["capacity"]) == (name, "tool 1", "4 MiB")
    assert re.fullmatch(r"4 of 10, with 4\.25 KiB as stored, the largest 1\.062 KiB", facts["samples"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, by ddpcache [\d.]+", facts["saved"])
    file.write_bytes(file.read_bytes()[:-1])
    for command in (["show", file], ["restore", file, other]):
        status, sentence = refused(*command)
        assert status == 1
        assert re.fullmatch(rf"ddpcache: {file} has \d+ bytes, of \d+ that were saved\n", sentence)
    assert not cache_file(other).exists()


def test_progress_is_shown_on_a_terminal_only(name, tmp_path):
    file = tmp_path / "saved"
    with Holder(name):
        result = subprocess.run([TOOL, "save", name, file], capture_output=True, text=True)
        assert (result.stdout, result.stderr) == ("saved 4 samples\n", "")
        terminal, end = os.openpty()
        result = subprocess.run([TOOL, "save", name, file], stdout=PIPE, stderr=end, text=True)
        os.close(end)
        assert result.stdout == "saved 4 samples\n"
        assert "saving: 100 % of" in os.read(terminal, 10_000).decode()
        os.close(terminal)


# Restores, and stands still when all is read but the cache has no name yet.
RESTORER = """
import sys, time, ddpcache

def wait(done, total):
    if done == total:
        print("here", flush=True)
        time.sleep(60)

ddpcache.Cache.restore(sys.argv[1], sys.argv[2], progress=wait)
"""


def test_ctrl_c_ends_a_restore_that_waits_with_status_130(name, tmp_path):
    file, other = tmp_path / "saved", f"{name}-other"
    with Holder(name):
        run(TOOL, "save", name, file)
    with Popen([sys.executable, "-c", RESTORER, file, other], stdout=PIPE, text=True) as restorer:
        try:
            assert restorer.stdout.readline() == "here\n"
            with Popen([TOOL, "restore", file, other], stdout=PIPE, stderr=PIPE, text=True) as waiter:
                with pytest.raises(subprocess.TimeoutExpired):
                    waiter.communicate(timeout=1)
                waiter.send_signal(signal.SIGINT)
                assert waiter.communicate(timeout=60) == ("", "ddpcache: interrupted, nothing has changed\n")
                assert waiter.returncode == 130
        finally:
            restorer.kill()
    assert not cache_file(other).exists()


@pytest.mark.parametrize("command", ["show", "check", "unlink"])
def test_name_that_is_not_there_is_a_sentence_and_status_1(command):
    name = f"test-tool-{os.getpid()}-missing"
    status, sentence = refused(command, name)
    assert status == 1
    assert re.fullmatch(rf"ddpcache: .*no cache.*{name}\n", sentence)


# Keeps a cache of one sample in a directory; says why where that can hold none.
KEEPER = """
import sys, ddpcache
options = dict(length=10, fingerprint="tool 1", capacity="4MiB", keep=True)
try:
    with ddpcache.Cache(sys.argv[1], directory=sys.argv[2], **options) as cache:
        cache[0] = b"on disk"
except ddpcache.UnsupportedError as error:
    print(error)
"""


def test_caches_in_a_directory_are_seen_checked_and_removed_there(tmp_path):
    if reason := run(sys.executable, "-c", KEEPER, "kept", tmp_path):
        pytest.skip(reason)
    assert run(TOOL, "--directory", tmp_path, "list").split()[0] == "kept"
    shown = dict(line.split(maxsplit=1) for line in run(TOOL, "--directory", tmp_path, "show", "kept").splitlines())
    assert (shown["checksums"], shown["kept"]) == ("fill", "yes")
    run(TOOL, "--directory", tmp_path, "check", "kept")
    run(TOOL, "--directory", tmp_path, "unlink", "kept")
    assert run(TOOL, "--directory", tmp_path, "list") == ""


def test_directory_that_is_not_there_is_a_sentence_and_status_1(tmp_path):
    for command in ("list", "gc"):
        status, sentence = refused("--directory", tmp_path / "missing", command)
        assert status == 1
        assert re.fullmatch(rf"ddpcache: .*{tmp_path}/missing.*\n", sentence)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [([], "subcommand is required"), (["show"], "NAME is required"), (["remove"], ""), (["gc", "--all"], "--all")],
)
def test_call_that_says_too_little_or_too_much_is_refused_with_a_hint(arguments, complaint):
    status, text = refused(*arguments)
    assert status > 1  # 1 is for what the caches say
    assert complaint in text
    assert "--help" in text
