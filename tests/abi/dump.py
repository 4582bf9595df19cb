"""The interface of the library as libabigail describes it, from the debug information of the dev build."""

from pathlib import Path

from project import INCLUDE, ROOT, run

BASELINE = Path(__file__).with_name("ddpcache.abi")


def dump(output: Path) -> None:
    # What depends on the machine, the checkout and private headers is left out.
    machine = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"]
    private = ["--headers-dir", INCLUDE, "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only"]
    run("abidw", *machine, *private, "--out-file", output, ROOT / "build" / "dev" / "libddpcache.so")
    output.write_text(output.read_text().replace(f"path='{ROOT}/", "path='"))
