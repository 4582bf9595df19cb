"""Where things are, and the public interface as the headers of this checkout declare it."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from headers import Interface, check_options, parse_header

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL = ROOT / "build" / "install"
INCLUDE = ROOT / "include"
# Those that others include come first; the umbrella comes last.
INCLUDED_FIRST = ["base.h", "cache.h"]
HEADERS = [INCLUDE / "ddpcache" / name for name in INCLUDED_FIRST] + sorted(
    (path for path in INCLUDE.glob("ddpcache/*.h") if path.name not in INCLUDED_FIRST),
    key=lambda path: (path.name == "ddpcache.h", path.name),
)
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


@functools.cache
def interface() -> Interface:
    found = Interface()
    for header in HEADERS:
        parse_header(found, header.name, header.read_text())
    check_options(found)
    return found


def run(*command: str | Path, **options: object) -> str:
    """The output of a command that must succeed; an error shows all that it printed."""
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL, **options
    )
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


def pkg_config(*arguments: str, prefix: Path = INSTALL) -> list[str]:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    return run("pkg-config", *arguments, "ddpcache", env=environment).split()


def compiler(source: Path) -> list[str]:
    return ["cc", "-std=c11"] if source.suffix == ".c" else ["c++", "-std=c++17"]


def build_program(source: Path, program: Path, *arguments: str, prefix: Path = INSTALL) -> Path:
    """Builds a program against the installed library as a user would, by what pkg-config says."""
    flags = pkg_config("--cflags", "--libs", prefix=prefix)
    run(*compiler(source), *WARNINGS, "-O2", source, "-o", program, *arguments, *flags, f"-Wl,-rpath,{prefix / 'lib'}")
    return program
