"""The installed tree as its users find it: by pkg-config and CMake, shared and static, in C alone, after a move."""

import shutil

import pytest
from project import INSTALL, WARNINGS, build_program, interface, pkg_config, run

USER = """
#include <ddpcache/ddpcache.h>
#include <stdio.h>

int main(void) {
  printf("%s %d %s\\n", dc_version(), dc_abi_version(), dc_strerror(DC_OK));
  return 0;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES {languages})
find_package(ddpcache {version} REQUIRED)
add_executable(shared user.{suffix})
target_link_libraries(shared PRIVATE ddpcache::ddpcache)
add_executable(static user.{suffix})
target_link_libraries(static PRIVATE ddpcache::ddpcache_static)
"""


def expected_output():
    (version,) = pkg_config("--modversion")
    return f"{version} {interface().constants['DC_ABI_VERSION']} success\n"


@pytest.fixture(params=["c", "cpp"])
def source(request, tmp_path):
    path = tmp_path / f"user.{request.param}"
    path.write_text(USER)
    return path


def test_program_builds_by_pkg_config(source, tmp_path):
    assert run(build_program(source, tmp_path / "user")) == expected_output()


def test_static_program_builds_by_pkg_config_with_a_c_linker(tmp_path):
    source, program = tmp_path / "user.c", tmp_path / "user"
    source.write_text(USER)
    flags = pkg_config("--static", "--cflags", "--libs")
    # The archive in place of the shared library of the same name.
    flags = [str(INSTALL / "lib" / "libddpcache.a") if flag == "-lddpcache" else flag for flag in flags]
    run("cc", "-std=c11", *WARNINGS, source, "-o", program, *flags)
    assert run(program) == expected_output()
    assert "libddpcache" not in run("readelf", "--dynamic", program)


def test_tree_can_be_moved(tmp_path):
    prefix = tmp_path / "elsewhere"
    shutil.copytree(INSTALL, prefix, symlinks=True)
    source = tmp_path / "user.c"
    source.write_text(USER)
    program = build_program(source, tmp_path / "user", prefix=prefix)
    assert str(prefix) in run("ldd", program)
    assert run(program) == expected_output()


def test_cmake_finds_both_libraries(source, tmp_path):
    languages = "C" if source.suffix == ".c" else "CXX"
    (version,) = pkg_config("--modversion")
    text = PROJECT.format(languages=languages, suffix=source.suffix[1:], version=version)
    (tmp_path / "CMakeLists.txt").write_text(text)
    build = tmp_path / "build"
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        tmp_path,
        "-B",
        build,
        f"-DCMAKE_PREFIX_PATH={INSTALL}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    run("cmake", "--build", build)
    for program in ("shared", "static"):
        assert run(build / program) == expected_output()
        assert ("libddpcache" in run("readelf", "--dynamic", build / program)) == (program == "shared")


def test_tree_holds_what_users_need_and_nothing_private():
    files = {str(path.relative_to(INSTALL)) for path in INSTALL.rglob("*") if not path.is_dir()}
    (version,) = pkg_config("--modversion")
    libraries = {"libddpcache.a", "libddpcache.so", f"libddpcache.so.{version}", "pkgconfig/ddpcache.pc"}
    assert {f"lib/{name}" for name in libraries} <= files
    assert {"include/ddpcache/ddpcache.h", "lib/cmake/ddpcache/ddpcacheConfig.cmake"} <= files
    outside = {name for name in files if not name.startswith(("include/ddpcache/", "lib/", "bin/ddpcache"))}
    assert not outside
