"""The installed Python package: one for every Python from 3.11 on, the library inside, nothing of C beside it."""

import importlib.metadata
import re
import sys
import tarfile

import pytest
from project import INSTALL, ROOT, interface, pkg_config, run


@pytest.fixture(scope="module")
def package():
    distribution = importlib.metadata.distribution("ddpcache")
    files = {str(file): file.locate() for file in distribution.files or [] if "__pycache__" not in file.parts}
    return distribution, files


def test_version_is_that_of_the_headers(package):
    assert [package[0].version] == pkg_config("--modversion")


def test_tag_is_the_stable_abi_of_3_11(package):
    assert re.search(r"^Tag: cp311-abi3-linux_\w+$", package[0].read_text("WHEEL"), re.MULTILINE)


def test_package_holds_module_library_types_and_licence(package):
    distribution, files = package
    library = f"ddpcache/libddpcache.so.{interface().constants['DC_ABI_VERSION']}"
    assert {"ddpcache/__init__.py", "ddpcache/_ddpcache.abi3.so", "ddpcache/py.typed", library} <= files.keys()
    assert any(name.endswith("licenses/LICENSE") for name in files)
    stray = [
        name for name in files if not name.startswith(("ddpcache/", f"ddpcache-{distribution.version}.dist-info/"))
    ]
    assert stray == []
    assert [name for name in files if name.endswith((".h", ".hpp", ".a", ".pc", ".cmake", ".i", ".c"))] == []


def test_module_finds_the_library_beside_it(package):
    _, files = package
    dynamic = run("readelf", "--dynamic", "--wide", files["ddpcache/_ddpcache.abi3.so"])
    assert re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic) == ["$ORIGIN"]
    assert f"libddpcache.so.{interface().constants['DC_ABI_VERSION']}" in dynamic


def test_library_inside_exports_what_the_installed_one_does(package):
    _, files = package

    def exports(library):
        return [line.split()[-1] for line in run("nm", "--dynamic", "--defined-only", library).splitlines()]

    (inside,) = (path for name, path in files.items() if name.startswith("ddpcache/libddpcache.so"))
    assert exports(inside) == exports(INSTALL / "lib" / "libddpcache.so")


def test_source_distribution_holds_what_a_build_needs_and_no_more(tmp_path):
    script = f"import scikit_build_core.build as backend; backend.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", script, cwd=ROOT)
    (archive,) = tmp_path.glob("ddpcache-*.tar.gz")
    with tarfile.open(archive) as distribution:
        files = {name.partition("/")[2] for name in distribution.getnames()}
    sources = {
        str(path.relative_to(ROOT))
        for folder in ("bindings/python/ddpcache", "bindings/swig", "cmake", "include", "pkgconfig", "src")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    top = {"CHANGELOG.md", "CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert files - sources <= top
    assert sources <= files
