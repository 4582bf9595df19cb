"""Rust's tools, as the tests call them: offline, with what they build in build/rust."""

import os
from pathlib import Path

from project import INSTALL, ROOT, run

TARGET = ROOT / "build" / "rust"
ENVIRONMENT = {
    **os.environ,
    "PKG_CONFIG_PATH": str(INSTALL / "lib" / "pkgconfig"),
    "CARGO_NET_OFFLINE": "true",
    "CARGO_TARGET_DIR": str(TARGET),
    "CARGO_TERM_COLOR": "never",
}


def cargo(*arguments: str | Path, folder: Path, **environment: str) -> str:
    return run("cargo", *arguments, cwd=folder, env=ENVIRONMENT | environment)


def build_examples() -> Path:
    """The folder with the programs of examples/rust."""
    cargo("build", "--quiet", "--release", "--bins", folder=ROOT / "examples" / "rust")
    return TARGET / "release"
