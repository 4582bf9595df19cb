"""What the installed library shows to the world: the declared functions, and nothing else."""

import ctypes
import re

from project import INSTALL, ROOT, interface, pkg_config, run

LIBRARY = INSTALL / "lib" / "libddpcache.so"


def exports_map():
    text = (ROOT / "src" / "capi" / "exports.map").read_text()
    names = re.fullmatch(r"DDPCACHE_(\d+) \{\n  global:\n(.*)  local:\n    \*;\n\};\n", text, re.DOTALL)
    assert names, "exports.map is not of its usual form"
    return names[1], re.findall(r"^    (\w+);$", names[2], re.MULTILINE)


def dynamic_entries(kind):
    return re.findall(rf"\({kind}\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", LIBRARY))


def test_export_list_is_what_the_headers_declare():
    _, names = exports_map()
    assert names == sorted(interface().functions)


def test_library_defines_the_export_list_and_nothing_else():
    version, names = exports_map()
    symbols = [line.split()[-2:] for line in run("nm", "--dynamic", "--defined-only", LIBRARY).splitlines()]
    assert sorted(name for kind, name in symbols if kind == "T") == [f"{name}@@DDPCACHE_{version}" for name in names]
    assert [name for kind, name in symbols if kind != "T"] == [f"DDPCACHE_{version}"]


def test_static_library_defines_every_function():
    symbols = run("nm", "--defined-only", "--extern-only", INSTALL / "lib" / "libddpcache.a")
    defined = set(re.findall(r" T (dc_\w+)$", symbols, re.MULTILINE))
    assert defined == interface().functions.keys()


def test_soname_and_symbol_version_carry_the_abi_version():
    abi_version = interface().constants["DC_ABI_VERSION"]
    assert dynamic_entries("SONAME") == [f"libddpcache.so.{abi_version}"]
    assert exports_map()[0] == abi_version


def test_library_needs_only_the_c_library():
    allowed = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert set(dynamic_entries("NEEDED")) <= allowed


def test_library_is_never_unloaded():
    assert "NODELETE" in run("readelf", "--dynamic", "--wide", LIBRARY)


def test_versions_agree():
    library = ctypes.CDLL(str(LIBRARY))
    library.dc_version.restype = ctypes.c_char_p
    constants = interface().constants
    version = ".".join(constants[f"DC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))
    assert pkg_config("--modversion") == [version]
    assert library.dc_version().decode() == version
    assert library.dc_abi_version() == int(constants["DC_ABI_VERSION"])
    assert LIBRARY.resolve().name == f"libddpcache.so.{version}"
