"""C, C++ and Python share one cache: whoever comes first decodes, the others find its values, in every direction."""

import itertools
import os
import sys
from subprocess import PIPE, Popen

import pytest
from project import ROOT, build_program, run

SOURCES = {
    "c": ROOT / "examples" / "c" / "hello_cache.c",
    "cpp": ROOT / "examples" / "cpp" / "hello_cache.cpp",
    "python": ROOT / "examples" / "python" / "hello_cache.py",
}
# A client that fills some of the samples and keeps the cache until it is told to leave.
HOLDER = """
import sys, ddpcache, numpy
name, *filled = sys.argv[1:]
with ddpcache.Cache(name, length=10, fingerprint="hello_cache 1", capacity="1MiB") as cache:
    for index in map(int, filled):
        cache[index] = (index * 100 + numpy.arange(6, dtype=numpy.int32)).reshape(2, 3)
    print("ready", flush=True)
    sys.stdin.read()
    for index in range(10):
        assert cache[index].dtype == numpy.int32
        assert cache[index].tolist() == [[index * 100 + 3 * row + k for k in range(3)] for row in range(2)]
    print(cache.stats().fills, cache.check().entries_ready)
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interop")
    found = {language: [build_program(SOURCES[language], folder / language, "-pthread")] for language in ("c", "cpp")}
    return found | {"python": [ROOT / "build" / "venv" / "bin" / "python", SOURCES["python"]]}


@pytest.fixture
def name(request):
    return f"test-interop-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"


def test_programs_share_a_cache_with_a_python_process_both_ways(commands, name):
    """Python fills three samples and the first program finds them; that one fills the rest, and all others find it."""
    for first, *others in itertools.permutations(commands):
        holder = Popen([sys.executable, "-c", HOLDER, name, "1", "4", "9"], stdin=PIPE, stdout=PIPE, text=True)
        try:
            assert holder.stdout.readline() == "ready\n"
            lines = run(*commands[first], name, timeout=60).splitlines()
            assert lines[-1] == "decoded 7, found 3"
            for other in others:
                assert run(*commands[other], name, timeout=60).splitlines() == [*lines[:-1], "decoded 0, found 10"]
            assert holder.communicate("", timeout=60)[0] == "10 10\n"
            assert holder.returncode == 0
        finally:
            holder.kill()
            holder.wait()
