"""The raw layers of Julia, Rust and ctypes at work on the installed library, each in a program of its own."""

import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import ddpcache
import pytest
from generator.public import EXPORTS
from project import INSTALL, ROOT, run

HERE = Path(__file__).parent
BINDINGS = ROOT / "bindings"
JULIA = ROOT / "build" / "julia" / "bin" / "julia"
LIBRARY = INSTALL / "lib" / "libddpcache.so"
RAW_PYTHON = BINDINGS / "python" / "ddpcache" / "raw.py"
# No site-packages, so that nothing is there but the folders that the program is given.
PYTHON = [sys.executable, "-S"]


@pytest.fixture
def name():
    return f"raw-{uuid.uuid4()}"


def environment(**more):
    """Where pkg-config finds the installed library, and no other trace of ddpcache."""
    kept = {key: value for key, value in os.environ.items() if key not in ("DDPCACHE_LIBRARY", "PYTHONPATH")}
    return {**kept, "PKG_CONFIG_PATH": str(INSTALL / "lib" / "pkgconfig"), **more}


def indices():
    sampler = ddpcache.Sampler(20, seed=7)
    sampler.set_epoch(2)
    return f"{' '.join(map(str, sampler))}\n"


def imported(folder, module, **more):
    """What importing a raw module from a folder comes to, with the module's own path of the library."""
    command = [*PYTHON, "-c", f"import {module} as raw; print(raw._path)"]
    return subprocess.run(command, env=environment(PYTHONPATH=str(folder), **more), capture_output=True, text=True)


def test_julia(name):
    assert run(JULIA, "--startup-file=no", HERE / "program.jl", name, env=environment()) == indices()


def test_julia_by_the_variable(name):
    without_pkg_config = environment(PKG_CONFIG_PATH="/nowhere", DDPCACHE_LIBRARY=str(LIBRARY))
    assert run(JULIA, "--startup-file=no", HERE / "program.jl", name, env=without_pkg_config) == indices()


@pytest.mark.parametrize("library", ["shared", "static"])
def test_rust(name, library, tmp_path):
    program = tmp_path / "program"
    links = ["-l", "dylib=ddpcache", "-C", f"link-arg=-Wl,-rpath,{LIBRARY.parent}"]
    if library == "static":
        links = ["-l", "static=ddpcache", "-l", "dylib=stdc++"]
    edition = ["--edition", "2021", "-D", "warnings"]
    run("rustc", *edition, HERE / "program.rs", "-o", program, "-L", f"native={LIBRARY.parent}", *links)
    assert run(program, name) == indices()


def test_rust_is_formatted_as_rustfmt_does():
    generated = BINDINGS / "rust" / "ddpcache-sys" / "src" / "raw.rs"
    run("rustfmt", "--check", "--edition", "2021", generated, HERE / "program.rs")


def test_ctypes_in_a_package_without_its_compiled_module(name):
    assert not list(RAW_PYTHON.parent.glob("_ddpcache*.so")), "the sources hold no compiled module"
    folder = environment(PYTHONPATH=str(BINDINGS / "python"))
    assert run(*PYTHON, HERE / "program.py", name, "ddpcache.raw", env=folder) == indices()


def test_ctypes_as_a_file_by_itself(name, tmp_path):
    shutil.copy(RAW_PYTHON, tmp_path / "alone.py")
    assert run(*PYTHON, HERE / "program.py", name, "alone", env=environment(PYTHONPATH=str(tmp_path))) == indices()


def test_ctypes_in_the_installed_package_takes_the_library_of_the_package(name):
    ours = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-c", "import ddpcache.raw as raw; print(raw._path)"]
    assert run(*command, env=environment(**ours)) == f"{ddpcache.__path__[0]}/libddpcache.so.1\n"
    assert run(sys.executable, HERE / "program.py", name, "ddpcache.raw", env=environment(**ours)) == indices()


def test_a_package_without_its_compiled_module_says_so():
    script = "import ddpcache; ddpcache.Cache"
    result = subprocess.run(
        [*PYTHON, "-c", script], env=environment(PYTHONPATH=str(BINDINGS / "python")), capture_output=True, text=True
    )
    assert "ImportError: ddpcache has no compiled module for this Python, and so no Cache" in result.stderr


def test_ctypes_finds_the_library_by_the_variable_then_beside_it_then_by_pkg_config(tmp_path):
    shutil.copy(RAW_PYTHON, tmp_path / "alone.py")
    assert Path(imported(tmp_path, "alone").stdout.strip()).samefile(LIBRARY)
    shutil.copy(LIBRARY, tmp_path / "libddpcache.so.1")
    assert imported(tmp_path, "alone").stdout == f"{tmp_path / 'libddpcache.so.1'}\n"
    assert imported(tmp_path, "alone", DDPCACHE_LIBRARY=str(LIBRARY)).stdout == f"{LIBRARY}\n"


def test_a_missing_library_is_an_error_that_says_what_to_do(tmp_path):
    shutil.copy(RAW_PYTHON, tmp_path / "alone.py")
    nowhere = {"PKG_CONFIG_PATH": "/nowhere", "PKG_CONFIG_LIBDIR": "/nowhere"}
    assert "ImportError: libddpcache.so.1 was not found" in imported(tmp_path, "alone", **nowhere).stderr
    wrong = imported(tmp_path, "alone", DDPCACHE_LIBRARY="/nowhere/libddpcache.so").stderr
    assert "ImportError: the library of ddpcache cannot be loaded: /nowhere/libddpcache.so" in wrong
    program = BINDINGS / "julia" / "src" / "raw.jl"
    julia = subprocess.run([JULIA, program], env=environment(**nowhere), capture_output=True, text=True)
    assert julia.returncode and "libddpcache was not found: set DDPCACHE_LIBRARY" in julia.stderr


@pytest.fixture(scope="module")
def other_release(tmp_path_factory):
    """A library that has every function, and another ABI version."""
    folder = tmp_path_factory.mktemp("other")
    names = re.findall(r"^    (\w+);$", EXPORTS.read_text(), re.MULTILINE)
    (folder / "other.c").write_text("".join(f"int {each}(void) {{ return 99; }}\n" for each in names))
    run("cc", "-shared", "-fPIC", folder / "other.c", "-o", folder / "libddpcache.so.1")
    (folder / "newer.c").write_text("int dc_abi_version(void) { return 99; }\n")
    run("cc", "-shared", "-fPIC", folder / "newer.c", "-o", folder / "newer.so")
    (folder / "old.c").write_text("int dc_abi_version(void) { return 1; }\n")
    run("cc", "-shared", "-fPIC", folder / "old.c", "-o", folder / "old.so")
    return folder


def test_another_abi_version_is_refused(other_release):
    library = str(other_release / "libddpcache.so.1")
    result = imported(BINDINGS / "python", "ddpcache.raw", DDPCACHE_LIBRARY=library)
    assert re.search(r"ImportError: .*raw.py is for ABI version \d+, but .*libddpcache.so.1 has 99", result.stderr)
    program = BINDINGS / "julia" / "src" / "raw.jl"
    julia = subprocess.run([JULIA, program], env=environment(DDPCACHE_LIBRARY=library), capture_output=True, text=True)
    assert julia.returncode and re.search(r"for ABI version \d+, but .*libddpcache.so.1 has 99", julia.stderr)


def test_another_abi_version_that_lacks_functions_is_called_so_by_julia(other_release):
    library = str(other_release / "newer.so")
    program = BINDINGS / "julia" / "src" / "raw.jl"
    julia = subprocess.run([JULIA, program], env=environment(DDPCACHE_LIBRARY=library), capture_output=True, text=True)
    assert julia.returncode and re.search(r"for ABI version \d+, but .*newer.so has 99", julia.stderr)


def test_a_library_that_lacks_functions_is_refused(other_release):
    library = str(other_release / "old.so")
    result = imported(BINDINGS / "python", "ddpcache.raw", DDPCACHE_LIBRARY=library)
    assert "is not of this release" in result.stderr and "dc_cache_attach" in result.stderr
    program = BINDINGS / "julia" / "src" / "raw.jl"
    julia = subprocess.run([JULIA, program], env=environment(DDPCACHE_LIBRARY=library), capture_output=True, text=True)
    assert julia.returncode and "dc_cache_attach" in julia.stderr
