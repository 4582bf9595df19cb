"""Julia, and how a program finds the library and the package in it."""

from project import INSTALL, ROOT

JULIA = ROOT / "build" / "julia" / "bin" / "julia"
PACKAGE = ROOT / "bindings" / "julia"
LIBRARY = {"DDPCACHE_LIBRARY": str(INSTALL / "lib" / "libddpcache.so.1")}


def julia_example(name: str) -> list:
    """The command that runs examples/julia/NAME.jl; its arguments follow."""
    variables = [f"{variable}={value}" for variable, value in LIBRARY.items()]
    return ["env", *variables, JULIA, f"--project={PACKAGE}", ROOT / "examples" / "julia" / f"{name}.jl"]
