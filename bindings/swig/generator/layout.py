"""Where each field lies: computed, and asked of a C compiler, which must say the same."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .interface import SCALARS, Interface, Refused, Struct, Type

POINTER_BYTES = 8


@dataclass(frozen=True)
class Layout:
    size: int
    alignment: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def element_bytes(type_: Type) -> int:
    if type_.pointers:
        return POINTER_BYTES
    return 1 if type_.base == "char" else SCALARS[type_.base]


def layout_of(struct: Struct) -> Layout:
    """By the rule of every ABI of a 64-bit Linux: each field at the next multiple of its own size."""
    end, alignment, offsets, sizes = 0, 1, [], []
    for field in struct.fields:
        element = element_bytes(field.type)
        offsets.append(-(-end // element) * element)
        sizes.append(element * (field.type.length or 1))
        end, alignment = offsets[-1] + sizes[-1], max(alignment, element)
    return Layout(-(-end // alignment) * alignment, alignment, tuple(offsets), tuple(sizes))


def computed(interface: Interface) -> str:
    """The layout of all structs and the values of all constants, as text."""
    lines = []
    for struct in interface.structs.values():
        layout = layout_of(struct)
        lines.append(f"{struct.name} size {layout.size} align {layout.alignment}")
        for field, offset, size in zip(struct.fields, layout.offsets, layout.sizes, strict=True):
            lines.append(f"  {field.name} at {offset} size {size}")
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in values(interface).items()), ""])


def values(interface: Interface) -> dict[str, int]:
    """The library's own version is no part of its layout."""
    constants = {name: each.value for name, each in interface.constants.items() if not name.startswith("DC_VERSION_")}
    return {item.name: item.value for enum in interface.enums.values() for item in enum.items} | constants


def probe_source(interface: Interface, headers: Sequence[str]) -> str:
    """A C program that prints what `computed` says."""
    lines = [f"#include <{name}>" for name in headers]
    lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for name, struct in interface.structs.items():
        lines.append(f'  printf("{name} size %zu align %zu\\n", sizeof({name}), _Alignof({name}));')
        for field in struct.fields:
            place = f"offsetof({name}, {field.name}), sizeof((({name} *)0)->{field.name})"
            lines.append(f'  printf("  {field.name} at %zu size %zu\\n", {place});')
    for name, value in values(interface).items():
        form, ctype = ("llu", "unsigned long long") if value >= 2**63 else ("lld", "long long")
        lines.append(f'  printf("{name} = %{form}\\n", ({ctype})({name}));')
    return "\n".join([*lines, "}", ""])


def probed(interface: Interface, include: Path, headers: Sequence[str], compiler: str = "cc") -> str:
    """What the C compiler says of the same."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "probe.c", Path(folder) / "probe"
        source.write_text(probe_source(interface, headers))
        command = [compiler, "-std=c11", "-Wall", "-Werror", f"-I{include}", source, "-o", program]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            raise Refused(f"the C compiler refuses the layout probe:\n{built.stderr.strip()}")
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def check(interface: Interface, include: Path, headers: Sequence[str]) -> None:
    """No padding, which one language copies and another leaves undefined; and what the C compiler says."""
    for struct in interface.structs.values():
        layout = layout_of(struct)
        if layout.size != sum(layout.sizes):
            raise Refused(f"{struct.name} has {layout.size - sum(layout.sizes)} bytes of hidden padding: name them")
    mine, theirs = computed(interface).splitlines(), probed(interface, include, headers).splitlines()
    for expected, actual in zip(mine, theirs, strict=True):
        if expected != actual:
            raise Refused(f"the generator computes `{expected.strip()}`, the C compiler says `{actual.strip()}`")
