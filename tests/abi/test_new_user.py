"""What the README tells a new user to do to install, done word for word. Rust and Julia do so with theirs: tests/rust,
tests/julia; `pip install .` is what tests/setup does, without the download of the build's tools."""

import os
import re
import shutil
import sys

import pytest
from project import ROOT, run

EXAMPLE = ROOT / "examples" / "c" / "hello_cache.c"


def blocks(language):
    section = (ROOT / "README.md").read_text().partition("## Installing\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    install, _ = blocks("sh")
    run("sh", "-e", "-c", install, cwd=ROOT, env={**os.environ, "PREFIX": str(folder)})
    return folder


@pytest.fixture
def project(tmp_path):
    shutil.copy(EXAMPLE, tmp_path / "program.c")
    return tmp_path


def check(program, tmp_path):
    name = f"test-new-user-{os.getpid()}-{tmp_path.name}"
    assert run(program, name).endswith("decoded 10, found 0\n")


def test_c_program_by_pkg_config(prefix, project):
    _, build = blocks("sh")
    run("sh", "-e", "-c", build, cwd=project, env={**os.environ, "PREFIX": str(prefix)})
    check(project / "training", project)


@pytest.mark.parametrize("library", ["ddpcache::ddpcache", "ddpcache::ddpcache_static"])
def test_c_program_by_cmake(prefix, project, library):
    (text,) = blocks("cmake")
    (project / "CMakeLists.txt").write_text(text.replace("ddpcache::ddpcache", library))
    run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", project / "build")
    check(project / "build" / "training", project)


def test_python_by_ctypes_with_the_generated_file_alone(prefix, tmp_path):
    shutil.copy(ROOT / "bindings" / "python" / "ddpcache" / "raw.py", tmp_path)
    environment = {
        **os.environ,
        "DDPCACHE_LIBRARY": str(prefix / "lib" / "libddpcache.so"),
        "PYTHONPATH": str(tmp_path),
    }
    script = "import sys, raw; print(raw.dc_version().decode(), raw.__file__, 'ddpcache' in sys.modules)"
    version, file, imported = run(sys.executable, "-c", script, env=environment).split()
    assert (file, imported) == (str(tmp_path / "raw.py"), "False")
    assert version == run(prefix / "bin" / "ddpcache", "--version").split()[-1]
