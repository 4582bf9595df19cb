"""The Julia package: its own tests, and installing it as its README says."""

import os
import re

import pytest
from julia import JULIA, LIBRARY, PACKAGE
from project import INSTALL, ROOT, run

PKG_CONFIG = {"PKG_CONFIG_PATH": str(INSTALL / "lib" / "pkgconfig")}


@pytest.fixture(scope="module")
def depot(tmp_path_factory):
    """Where Julia keeps what it has compiled: new, so that nothing of an earlier run is found."""
    return tmp_path_factory.mktemp("depot")


def julia(depot, *arguments, timeout=600, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in {*PKG_CONFIG, *LIBRARY}}
    environment |= {"JULIA_DEPOT_PATH": str(depot), **variables}
    return run(JULIA, *arguments, timeout=timeout, cwd=ROOT, env=environment)


def test_package_tests(depot):
    printed = julia(depot, f"--project={PACKAGE}", PACKAGE / "test" / "runtests.jl", **PKG_CONFIG)
    passed, total = re.search(r"^DDPCache +\| +(\d+) +(\d+) *$", printed, re.MULTILINE).groups()
    assert passed == total and int(total) > 1000


def test_library_that_is_not_found_is_a_clear_error(depot, tmp_path):
    with pytest.raises(AssertionError, match="set DDPCACHE_LIBRARY to its file, or PKG_CONFIG_PATH"):
        julia(depot, f"--project={PACKAGE}", "-e", "using DDPCache", PKG_CONFIG_LIBDIR=str(tmp_path))


def test_package_is_added_to_a_project_offline_as_its_readme_says(depot, tmp_path):
    readme = (PACKAGE / "README.md").read_text()
    commands = re.search(r"mkdir -p ~/.julia/registries/Empty\n.*?(?=```)", readme, re.DOTALL)[0]
    run("sh", "-c", commands, env={**os.environ, "HOME": str(tmp_path)})
    assert (tmp_path / ".julia" / "registries" / "Empty" / "Registry.toml").exists()
    project = tmp_path / "project"
    develop = f'using Pkg; Pkg.activate("{project}"); Pkg.develop(PackageSpec(path = "{PACKAGE}"))'
    use = 'using DDPCache; print(collect(ShardedSampler(5; shuffle = false)), " ", pathof(DDPCache))'
    home = tmp_path / ".julia"
    julia(home, "-e", develop, **LIBRARY)
    printed = julia(home, f"--project={project}", "-e", use, **LIBRARY)
    assert printed == f"[1, 2, 3, 4, 5] {PACKAGE / 'src' / 'DDPCache.jl'}"
    julia(home, "-e", f'using Pkg; Pkg.activate("{project}"); Pkg.test("DDPCache"; test_args = ["keys"])', **LIBRARY)
