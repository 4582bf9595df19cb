"""`train` learns in processes that share the digits: those that it reads itself, and those that Python has cached."""

import os
import re
import subprocess
import sys

import pytest
from julia import julia_example
from project import ROOT, build_program, run
from rust import build_examples

DIGITS = 1797
EPOCHS = 5
CACHE_DIGITS = ROOT / "examples" / "python" / "cache_digits.py"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("digits") / "digits.csv"
    run(sys.executable, CACHE_DIGITS, "--file", file)
    return file


def built(language, folder):
    source = ROOT / "examples" / language / f"train.{language}"
    return [build_program(source, folder / language, "-pthread", "-lm")]


# What starts `train` of a language; its arguments follow.
TRAIN = {
    "c": lambda folder: built("c", folder),
    "cpp": lambda folder: built("cpp", folder),
    "julia": lambda _: julia_example("train"),
    "python": lambda _: [sys.executable, ROOT / "examples" / "python" / "train.py"],
    "rust": lambda _: [build_examples() / "train"],
}


@pytest.fixture(scope="module", params=TRAIN)
def train(request, tmp_path_factory):
    return TRAIN[request.param](tmp_path_factory.mktemp("train"))


@pytest.fixture
def name(request):
    return f"test-train-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"


def results(output):
    """Loss and accuracy of each epoch, and how many samples were decoded and found."""
    lines = output.splitlines()
    form = rf"epoch (\d)/{EPOCHS}  loss ([\d.]+)  accuracy ([\d.]+)%"
    epochs = [re.fullmatch(form, line) for line in lines[:-1]]
    assert all(epochs) and [int(epoch[1]) for epoch in epochs] == list(range(1, EPOCHS + 1)), output
    counts = re.fullmatch(r"decoded (\d+), found (\d+)", lines[-1])
    assert counts, output
    return [(float(epoch[2]), float(epoch[3])) for epoch in epochs], int(counts[1]), int(counts[2])


def check_learning(epochs):
    assert epochs[0][0] > 1 > 0.6 > epochs[-1][0]
    assert epochs[-1][1] > 80


@pytest.mark.parametrize("ranks", ["1", "2", "3"])
def test_ranks_decode_each_digit_once_and_learn(train, file, name, ranks):
    epochs, decoded, found = results(run(*train, file, name, ranks, timeout=120))
    check_learning(epochs)
    assert decoded == DIGITS
    assert DIGITS * (EPOCHS - 1) <= found <= DIGITS * (EPOCHS - 1) + EPOCHS * 2 * int(ranks)


def test_digits_that_python_cached_are_found(train, name, tmp_path):
    holder = subprocess.Popen(
        [sys.executable, CACHE_DIGITS, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == f"cached {DIGITS} digits; Enter ends it\n"
        # There is no file that they could be read from.
        epochs, decoded, _ = results(run(*train, tmp_path / "none.csv", name, timeout=120))
        check_learning(epochs)
        assert decoded == 0
        holder.communicate("\n", timeout=60)
        assert holder.returncode == 0
    finally:
        holder.kill()
        holder.wait()


def test_a_file_that_is_not_there_is_named(train, name, tmp_path):
    result = subprocess.run([*train, tmp_path / "none.csv", name], capture_output=True, text=True, timeout=120)
    assert result.returncode != 0
    assert "none.csv" in result.stderr
