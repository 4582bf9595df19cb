"""The Rust crates: their own tests, and what a new user does with them."""

import functools
import json
import os
import re
import shutil
import subprocess

import pytest
import rust
from project import INSTALL, ROOT, interface, run
from rust import ENVIRONMENT, TARGET

CRATES = ROOT / "bindings" / "rust"
CRATE = CRATES / "ddpcache"
EXAMPLES = ROOT / "examples" / "rust"
README = CRATE / "README.md"
LIBRARIES = INSTALL / "lib"

cargo = functools.partial(rust.cargo, folder=CRATES)
FEATURES = {"static": [], "dynamic": ["--features", "ddpcache/dynamic"]}


def refused(*arguments, folder, **environment):
    """What a command that must fail printed as errors."""
    result = subprocess.run(
        list(map(str, arguments)), cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True
    )
    assert result.returncode != 0, result.stdout
    return result.stderr


def need(component):
    if subprocess.run(["cargo", component, "--version"], capture_output=True, env=ENVIRONMENT).returncode:
        pytest.skip(f"this Rust has no cargo {component}")


@pytest.mark.parametrize("folder", [CRATES, EXAMPLES], ids=["crates", "examples"])
def test_source_is_formatted(folder):
    need("fmt")
    cargo("fmt", "--all", "--check", folder=folder)


@pytest.mark.parametrize("features", FEATURES)
def test_clippy_has_nothing_to_say(features):
    """Which also compares what is used of the standard library with `rust-version`."""
    need("clippy")
    cargo("clippy", "--quiet", "--workspace", "--all-targets", *FEATURES[features], "--", "-D", "warnings")
    if features == "static":
        cargo("clippy", "--quiet", "--all-targets", "--", "-D", "warnings", folder=EXAMPLES)


def test_documentation_is_complete():
    cargo("doc", "--quiet", "--workspace", "--no-deps", RUSTDOCFLAGS="-D warnings")


@pytest.mark.parametrize("features", FEATURES)
def test_tests_and_examples_in_documents_pass(features):
    library_path = str(LIBRARIES) if features == "dynamic" else ""
    output = cargo("test", "--workspace", *FEATURES[features], LD_LIBRARY_PATH=library_path)
    results = [tuple(map(int, each)) for each in re.findall(r"test result: ok\. (\d+) passed; (\d+) failed", output)]
    assert sum(passed for passed, _ in results) >= 40, output
    assert "Doc-tests ddpcache" in output or any(passed >= 10 for passed, _ in results[-2:])


def test_cost_of_a_hit_is_told_as_json():
    cargo("build", "--quiet", "--release", "--examples")
    costs = json.loads(run(TARGET / "release" / "examples" / "hit_cost"))
    names = {"rust_view_ns", "rust_typed_view_ns", "c_view_ns", "rust_read_ns", "c_read_ns"}
    assert costs.keys() == names | {"rounds", "hits"}
    assert all(costs[name] > 0 for name in names)


def new_package(folder, name, *options):
    """A package as the README lets its reader make one."""
    cargo("new", "--quiet", "--vcs", "none", "--name", name, folder, folder=folder.parent)
    cargo("add", "--quiet", "--path", CRATE, *options, folder=folder)
    return folder


def readme_program():
    (program,) = re.findall(r"```rust\n(.*?)```", README.read_text(), re.DOTALL)
    return program


@pytest.fixture(scope="module", params=FEATURES)
def user(request, tmp_path_factory):
    """A new user's package with the README's program, and where it is built."""
    folder = tmp_path_factory.mktemp("rust") / "my_training"
    new_package(folder, "my_training", *(["--features", "dynamic"] if request.param == "dynamic" else []))
    (folder / "src" / "main.rs").write_text(readme_program().replace('"digits"', f'"test-rust-readme-{os.getpid()}"'))
    return request.param, folder


def needed_libraries(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", program)))


def check_readme_output(output):
    lines = output.splitlines()
    assert len(lines) == 3, output
    # Sample i is 64 bytes of i modulo 256.
    total = sum(64 * (i % 256) for i in range(1000))
    for epoch, line in enumerate(lines):
        assert line == f"epoch {epoch}: sum {total}, decoded so far 1000"


def test_readme_s_program_builds_and_runs_for_a_new_user(user, tmp_path):
    features, folder = user
    target = TARGET / "user"
    soname = f"libddpcache.so.{interface().constants['DC_ABI_VERSION']}"
    program = target / "debug" / "my_training"
    if features == "static":
        check_readme_output(cargo("run", "--quiet", folder=folder, CARGO_TARGET_DIR=str(target)))
        runtime = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6"}
        assert {name for name in needed_libraries(program) if not name.startswith("ld-linux")} <= runtime
        return
    # As the README has it: a run path by RUSTFLAGS, or the folder in the environment of each run.
    flags = f"-C link-arg=-Wl,-rpath,{LIBRARIES}"
    check_readme_output(cargo("run", "--quiet", folder=folder, CARGO_TARGET_DIR=str(target), RUSTFLAGS=flags))
    assert soname in needed_libraries(program)
    cargo("build", "--quiet", folder=folder, CARGO_TARGET_DIR=str(target))
    assert soname in refused(program, folder=folder, LD_LIBRARY_PATH="")
    check_readme_output(run(program, env=ENVIRONMENT | {"LD_LIBRARY_PATH": str(LIBRARIES)}))


def test_library_of_another_abi_version_is_refused_before_the_first_call(user, tmp_path):
    features, folder = user
    if features == "static":
        return  # what is linked in cannot be another
    other = interface().constants["DC_ABI_VERSION"] + "0"
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        f"#include <stdint.h>\n#include <stdlib.h>\nint32_t dc_abi_version(void) {{ return {other}; }}\n"
        "int32_t dc_cache_options_init(void *options, uint32_t size) { (void)options; (void)size; abort(); }\n"
    )
    run("cc", "-shared", "-fPIC", source, "-o", library)
    cargo("build", "--quiet", folder=folder, CARGO_TARGET_DIR=str(TARGET / "user"))
    program = TARGET / "user" / "debug" / "my_training"
    message = refused(program, folder=folder, LD_LIBRARY_PATH=str(LIBRARIES), LD_PRELOAD=str(library))
    assert f"has ABI version {other}, and this program was built for 1" in message


def test_build_without_the_library_says_what_to_set(tmp_path):
    message = refused(
        *("cargo", "build", "--package", "ddpcache-sys"),
        folder=CRATES,
        PKG_CONFIG_PATH=str(tmp_path),
        PKG_CONFIG_LIBDIR=str(tmp_path),
        CARGO_TARGET_DIR=str(tmp_path / "target"),
    )
    assert "pkg-config does not find ddpcache" in message
    assert "PKG_CONFIG_PATH=PREFIX/lib/pkgconfig" in message


def test_build_without_pkg_config_says_so(tmp_path):
    message = refused(
        *("cargo", "build", "--package", "ddpcache-sys"),
        folder=CRATES,
        PKG_CONFIG=str(tmp_path / "no-pkg-config"),
        CARGO_TARGET_DIR=str(tmp_path / "target"),
    )
    assert "no-pkg-config` cannot be run" in message and "apt-get install pkg-config" in message


def test_build_without_the_archive_names_it(tmp_path):
    shutil.copytree(LIBRARIES, tmp_path / "lib", symlinks=True)
    (tmp_path / "lib" / "libddpcache.a").unlink()
    message = refused(
        *("cargo", "build", "--package", "ddpcache-sys"),
        folder=CRATES,
        PKG_CONFIG_PATH=str(tmp_path / "lib" / "pkgconfig"),
        CARGO_TARGET_DIR=str(tmp_path / "target"),
    )
    assert re.search(r"libddpcache\.a does not exist\..*feature `dynamic`", message)


def must_not_compile():
    """The examples in the documentation that must not compile, each with the error that it must be for."""
    for source in sorted((CRATE / "src").glob("*.rs")):
        for code, body in re.findall(r"/// ```compile_fail,(E\d+)\n(.*?)/// ```", source.read_text(), re.DOTALL):
            lines = [re.sub(r"^\s*/// ?(?:# )?", "", line) for line in body.splitlines()]
            text = "\n".join(lines)
            program = text if "fn main" in text else f"fn main() {{\n{text}\n}}\n"
            yield pytest.param(code, f"#![allow(dead_code)]\n{program}", id=f"{source.stem}-{code}-{len(body)}")


@pytest.mark.parametrize(("code", "program"), list(must_not_compile()))
def test_misuse_does_not_compile_for_the_reason_that_is_meant(code, program, tmp_path):
    """rustdoc of a stable Rust takes any error for the right one."""
    folder = new_package(tmp_path / "misuse", "misuse")
    (folder / "src" / "main.rs").write_text(program)
    target = str(TARGET / "misuse")
    errors = re.findall(r"^error\[(E\d+)\]", refused("cargo", "check", folder=folder, CARGO_TARGET_DIR=target), re.M)
    assert set(errors) == {code}


def test_crates_have_no_dependencies_and_no_lock_file():
    for package in ("ddpcache-sys", "ddpcache"):
        tree = cargo("tree", "--package", package, "--prefix", "none").splitlines()
        assert {line.split()[0] for line in tree if line} <= {"ddpcache", "ddpcache-sys"}
    tracked = run("git", "ls-files", "*Cargo.lock", cwd=ROOT)
    assert tracked == ""


def test_versions_are_those_of_the_headers():
    version = ".".join(interface().constants[f"DC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))
    for package in ("ddpcache-sys", "ddpcache"):
        assert f'\nversion = "{version}"\n' in (CRATES / package / "Cargo.toml").read_text()
