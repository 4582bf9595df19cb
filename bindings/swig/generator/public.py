"""The public headers of this checkout, read and checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import layout
from .interface import Interface, Refused
from .tree import parse_headers

ROOT = Path(__file__).resolve().parent.parent.parent.parent
INCLUDE = ROOT / "include"
EXPORTS = ROOT / "src" / "capi" / "exports.map"
UMBRELLA = "ddpcache/ddpcache.h"


def find_swig() -> str:
    """SWIG of exactly the version that the package is built with."""
    wanted = re.search(r"swig==([\d.]+)", (ROOT / "pyproject.toml").read_text())[1]
    folders = [str(Path(sys.executable).parent), str(ROOT / "build/venv/bin"), os.environ.get("PATH", "")]
    swig = shutil.which("swig", path=os.pathsep.join(folders))
    if not swig:
        raise Refused(f"no SWIG was found; SWIG {wanted} comes with tests/setup")
    said = subprocess.run([swig, "-version"], capture_output=True, text=True, check=True).stdout
    actual = re.search(r"SWIG Version ([\d.]+)", said)[1]
    if actual != wanted:
        raise Refused(f"{swig} is SWIG {actual}, not {wanted}: its tree may differ")
    return swig


def header_names() -> list[str]:
    """All public headers of C but the umbrella, those that define what others mention first."""
    names = sorted(f"ddpcache/{path.name}" for path in INCLUDE.glob("ddpcache/*.h"))
    first = ["ddpcache/base.h", "ddpcache/cache.h"]
    return first + [name for name in names if name not in (*first, UMBRELLA)]


def check_exports(interface: Interface) -> None:
    exports = set(re.findall(r"^    (\w+);$", EXPORTS.read_text(), re.MULTILINE))
    if different := exports ^ interface.functions.keys():
        raise Refused(f"{EXPORTS.relative_to(ROOT)} and the headers differ in {', '.join(sorted(different))}")


def public_interface() -> Interface:
    """All that the library offers, with every layout and value compared with the C compiler's."""
    interface = parse_headers(find_swig(), INCLUDE, header_names())
    check_exports(interface)
    layout.check(interface, INCLUDE, [UMBRELLA])
    return interface
