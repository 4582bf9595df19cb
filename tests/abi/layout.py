"""The layout of every public struct, as the C compiler sees it."""

from pathlib import Path

from project import INCLUDE, interface, run

LAYOUT = Path(__file__).with_name("layout.txt")


def probe_source() -> str:
    lines = ["#include <ddpcache/ddpcache.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for struct, fields in interface().open_structs().items():
        lines.append(f'  printf("{struct} size %zu align %zu\\n", sizeof({struct}), _Alignof({struct}));')
        for field in fields:
            place = f"offsetof({struct}, {field.name}), sizeof((({struct} *)0)->{field.name})"
            lines.append(f'  printf("  {field.name} at %zu size %zu\\n", {place});')
    for names in interface().enums.values():
        lines += [f'  printf("{name} = %lld\\n", (long long)({name}));' for name in names]
    for name, value in interface().constants.items():
        # The library's version is no part of its layout.
        if not name.startswith("DC_VERSION_") and not value.startswith('"'):
            lines.append(f'  printf("{name} = %lld\\n", (long long)({name}));')
    return "\n".join([*lines, "}"])


def actual_layout(folder: Path) -> str:
    source, program = folder / "probe.c", folder / "probe"
    source.write_text(probe_source())
    run("cc", "-std=c11", "-Wall", "-Werror", f"-I{INCLUDE}", source, "-o", program)
    return run(program)
