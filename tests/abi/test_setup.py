"""tests/setup: a fresh machine is made ready in one call, and a ready one is left as it is."""

import importlib.util
import subprocess
import time
from importlib.machinery import SourceFileLoader

import pytest
from project import ROOT

SETUP = ROOT / "tests" / "setup"
# Ten times what a call takes that only hashes the sources, on a loaded machine.
SECONDS_MAX = 30


@pytest.fixture
def setup(monkeypatch, tmp_path):
    """The script as a module, with a build folder of its own."""
    loader = SourceFileLoader("ddpcache_setup", str(SETUP))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    for name, path in {"BUILD": tmp_path, "VENV": tmp_path / "venv", "PYTHON": tmp_path / "venv/bin/python"}.items():
        monkeypatch.setattr(module, name, path)
    for folder in ("log", "stamps"):
        (tmp_path / folder).mkdir()
    return module


class DebianWithoutPythonHeaders:
    """Answers commands as a Debian that has all packages but those of Python, until they are installed."""

    PYTHON = "/usr/bin/python3.11"

    def __init__(self, setup):
        self.installed = set(setup.DEBIAN_PACKAGES)
        self.needed = set(setup.DEBIAN_PYTHON_PACKAGES)
        self.commands = []

    def run(self, command, **_):
        self.commands.append([str(word) for word in command])
        output = ""
        if command[0] == "dpkg-query":
            output = "".join(f"{package} installed\n" for package in command[3:] if package in self.installed)
        elif tuple(command[:2]) == ("apt-get", "install"):
            self.installed |= {word for word in command[2:] if not word.startswith("-")}
        elif command[1] == "-c":  # the question whether a Python is fit
            output = f"{self.PYTHON}\n" if self.needed <= self.installed else "\n"
        return subprocess.CompletedProcess(command, 0, stdout=output, stderr="")


def test_python_whose_headers_were_just_installed_is_found(setup, monkeypatch):
    machine = DebianWithoutPythonHeaders(setup)
    monkeypatch.setattr(setup.subprocess, "run", machine.run)
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    assert setup.find_python() is None
    setup.install_debian_packages()
    assert machine.needed <= machine.installed
    setup.make_environment()
    assert machine.commands[-1] == [machine.PYTHON, "-m", "venv", "--clear", str(setup.VENV)]


def test_second_call_does_nothing():
    subprocess.run([SETUP], stdin=subprocess.DEVNULL, check=True)
    results = [*(ROOT / "build" / "stamps").iterdir(), *(ROOT / "build" / "install").rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in results}
    assert before
    begin = time.monotonic()
    second = subprocess.run([SETUP], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in results} == before
    assert seconds < SECONDS_MAX
