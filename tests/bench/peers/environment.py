"""build/venv-peers: a Python with the peers, apart from build/venv since they ask for much, and with this ddpcache.

Run after tests/setup, this file makes it in advance; `tests/bench/run peers` does so by itself.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build"
VENV, PYTHON = BUILD / "venv-peers", BUILD / "venv-peers" / "bin" / "python"
LOG = BUILD / "log" / "peers.log"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"
STAMP, ABSENT = VENV / "requirements.sha256", VENV / "absent.json"
PACKAGE_STAMP = BUILD / "stamps" / "package"  # tests/setup writes it
PEERS_MARK = "# peers\n"


def _run(*command: str | Path) -> str:
    """Its last words where it fails."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as log:
        print(*command, file=log, flush=True)
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        log.write(done.stdout)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit status {done.returncode}") if done.returncode else ""


def _needed(*command: str | Path) -> None:
    if words := _run(*command):
        sys.exit(f"{' '.join(map(str, command))} failed: {words}. See {LOG.relative_to(ROOT)}")


def _install_peers() -> dict[str, str]:
    """Together, or else one by one; which could not be, and why."""
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if not _run(*pip, "-r", REQUIREMENTS):
        return {}
    common, _, peers = REQUIREMENTS.read_text().partition(PEERS_MARK)
    _needed(*pip, *[line for line in common.splitlines() if line and not line.startswith("#")])
    absent = {}
    for peer in peers.split():
        if words := _run(*pip, "-c", REQUIREMENTS, peer):
            absent[peer.partition("==")[0]] = words
    return absent


def make(python: Path) -> dict[str, str]:
    """Sees to the environment; `python` is that of build/venv, which has the build tools. Returns what could not be
    installed, and why."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + bytes(ROOT)).hexdigest()
    if not STAMP.exists() or STAMP.read_text() != key:
        print("build/venv-peers, which takes some minutes ...", file=sys.stderr, flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        _needed(python, "-m", "venv", VENV)
        ABSENT.write_text(json.dumps(_install_peers()))
        STAMP.write_text(key)
    installed = VENV / "package"
    if not installed.exists() or installed.read_bytes() != PACKAGE_STAMP.read_bytes():
        wheels = BUILD / "peers-wheel"
        shutil.rmtree(wheels, ignore_errors=True)
        options = ["--no-build-isolation", "--no-deps", "--config-settings=build-dir=build/package", "-w", wheels]
        _needed(python, "-m", "pip", "wheel", *options, ROOT)
        _needed(PYTHON, "-m", "pip", "install", "--no-deps", "--force-reinstall", *wheels.glob("ddpcache-*.whl"))
        shutil.copy(PACKAGE_STAMP, installed)
    return json.loads(ABSENT.read_text())


if __name__ == "__main__":
    for package, words in make(BUILD / "venv" / "bin" / "python").items():
        print(f"{package} cannot be installed: {words}")
