"""Raw ctypes: bindings/python/ddpcache/raw.py, laid out as ruff would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .comments import Comment, docstring, wrap
from .interface import Constant, Enum, Function, Interface, Struct, Type
from .layout import layout_of

WIDTH = 120
TYPES = {
    **{f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "c_float",
    "double": "c_double",
    "char": "c_char",
}

HEAD = '''\
# {banner}
"""The C interface of ddpcache by ctypes: the types, constants and functions of include/ddpcache/*.h, as they are.

It needs no compiled module, only the shared library, and works as a file by itself in any Python from 3.9 on. The
library is, in this order: the file that the environment variable DDPCACHE_LIBRARY names; the one beside this file, as
in an installed package; the one that pkg-config finds.

Every call releases the GIL. A function takes what ctypes converts to the C type: `byref(x)` or an array for a pointer,
None for none, bytes for text. A callback must be kept by a reference for as long as it may be called; an exception in
it is printed and lost, and it then returns 0, which is not DC_LOADED.
"""

from __future__ import annotations

import os
import subprocess
from ctypes import (
{imports}
)
from pathlib import Path
'''

LIBRARY = """\
def _library_path() -> str:
    if path := os.environ.get("DDPCACHE_LIBRARY"):
        return path
    name = f"libddpcache.so.{DC_ABI_VERSION}"
    beside = Path(__file__).with_name(name)
    if beside.exists():
        return str(beside)
    command = ["pkg-config", "--variable=libdir", "ddpcache"]
    try:
        folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as reason:
        raise ImportError(
            f"{name} was not found: DDPCACHE_LIBRARY is not set, it is not beside {__file__}, and {reason}. "
            "Set DDPCACHE_LIBRARY to its path, or PKG_CONFIG_PATH to the folder of ddpcache.pc"
        ) from None
    return str(Path(folder) / name)


_path = _library_path()
try:
    _library = CDLL(_path)
except OSError as reason:
    raise ImportError(f"the library of ddpcache cannot be loaded: {reason}") from None


def _function(name, result, *parameters):
    try:
        return CFUNCTYPE(result, *parameters)((name, _library))
    except AttributeError as reason:
        raise ImportError(f"{_path} is not of this release: {reason}") from None
"""

LAYOUT_CHECK = """\
def _check_layout(struct, size, offsets):
    actual = [getattr(struct, name).offset for name, _ in struct._fields_]
    if sizeof(struct) != size or actual != [int(offset) for offset in offsets.split()]:
        raise ImportError(f"the layout of {struct.__name__} is not that of C")


"""

ABI_CHECK = """\
if dc_abi_version() != DC_ABI_VERSION:
    raise ImportError(
        f"{__file__} is for ABI version {DC_ABI_VERSION}, but {_path} has {dc_abi_version()}: "
        "take both from one release"
    )
"""


def write(interface: Interface, banner: str) -> str:
    values = [
        *(constant(each) for each in interface.constants.values()),
        *(enum(each) for each in interface.enums.values()),
    ]
    types = [
        *(opaque_type(each.name, each.comment) for each in interface.opaques.values()),
        *(struct_type(each) for each in interface.structs.values()),
    ]
    check = LAYOUT_CHECK + "".join(map(layout, interface.structs.values()))
    callbacks = "\n".join(callback(each) for each in interface.callbacks.values())
    functions = [function(each) for each in interface.functions.values()]
    blocks = ["\n".join(values), *types, f"{check}\n{callbacks}\n\n{LIBRARY}", *functions, ABI_CHECK]
    body = "\n\n".join(blocks)
    known = {"CDLL", "CFUNCTYPE", "POINTER", "Structure", "sizeof", "c_char_p", "c_void_p", *TYPES.values()}
    names = known & set(re.findall(r"\b\w+\b", body))
    imports = "\n".join(f"    {name}," for name in sorted(names, key=import_order))
    return f"{HEAD.replace('{banner}', banner).replace('{imports}', imports)}\n{body}"


def import_order(name: str) -> tuple[bool, str, int]:
    """As ruff sorts names: constants first, numbers by their value."""
    digits = re.search(r"\d+", name)
    return not name.isupper(), re.sub(r"\d+.*", "", name), int(digits[0]) if digits else 0


def docs(comment: Comment | None, indent: str = "    ", more: Sequence[str] = ()) -> str:
    text = docstring(comment, WIDTH - len(indent) - 3) if comment else []
    text += ["", *more] if text and more else more
    if not text:
        return ""
    text = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in text]
    if len(text) == 1 and not text[0].endswith('"'):
        return f'{indent}"""{text[0]}"""\n'
    first, *rest = [f"{indent}{line}".rstrip() for line in text]
    return "\n".join([f'{indent}"""{first.strip()}', *rest, f'{indent}"""']) + "\n"


def hashes(comment: Comment | None, indent: str = "") -> str:
    text = docstring(comment, WIDTH - len(indent) - 3) if comment else []
    return "".join(f"{indent}#: {line}".rstrip() + "\n" for line in text)


def type_name(type_: Type) -> str:
    if type_ == Type("void"):
        return "None"
    if type_.base == "void" and type_.pointers == 1:
        return "c_void_p"
    if type_.base == "char" and type_.pointers == 1:
        return "c_char_p"
    name = TYPES.get(type_.base, type_.base)
    for _ in range(type_.pointers):
        name = f"POINTER({name})"
    return name if type_.length is None else f"{name} * {type_.length}"


def call(head: str, arguments: Sequence[str]) -> str:
    """A call on one line, or else with its arguments on the next, or else each on its own."""
    inside = ", ".join(arguments)
    if len(head) + len(inside) + 2 <= WIDTH:
        return f"{head}({inside})\n"
    if len(inside) + 4 <= WIDTH:
        return f"{head}(\n    {inside}\n)\n"
    return f"{head}(\n" + "".join(f"    {each},\n" for each in arguments) + ")\n"


def constant(each: Constant) -> str:
    text = f"0x{each.value:X}" if each.text.lower().startswith("0x") else str(each.value)
    return f"{hashes(each.comment)}{each.name} = {text}\n"


def enum(each: Enum) -> str:
    return f"{hashes(each.comment)}{each.name} = c_int32\n" + "".join(map(constant, each.items))


def opaque_type(name: str, comment: Comment | None) -> str:
    return f"class {name}(Structure):\n{docs(comment) or '    pass' + chr(10)}"


def struct_type(struct: Struct) -> str:
    fields = "".join(
        f'{hashes(field.comment, " " * 8)}        ("{field.name}", {type_name(field.type)}),\n'
        for field in struct.fields
    )
    return f"class {struct.name}(Structure):\n{docs(struct.comment)}\n    _fields_ = [\n{fields}    ]\n"


def layout(struct: Struct) -> str:
    found = layout_of(struct)
    offsets = " ".join(map(str, found.offsets))
    # As one string where it fits, since a list would take a line for each number.
    rows = wrap(offsets, WIDTH - 12)
    offsets = f'"{rows[0]}"' if len(rows) == 1 else "(\n" + "".join(f'        "{row} "\n' for row in rows) + "    )"
    return call("_check_layout", [struct.name, str(found.size), offsets])


def types_of(each: Function) -> list[str]:
    return [type_name(each.result), *(type_name(parameter.type) for parameter in each.parameters)]


def callback(each: Function) -> str:
    return hashes(each.comment) + call(f"{each.name} = CFUNCTYPE", types_of(each))


def prototype(each: Function) -> str:
    def declared(type_: Type, name: str) -> str:
        text = str(type_)
        return f"{text}{name}" if text.endswith("*") else f"{text} {name}"

    parameters: Iterable[str] = (declared(parameter.type, parameter.name) for parameter in each.parameters)
    return f"In C: {declared(each.result, each.name)}({', '.join(parameters) or 'void'})"


def wrap_prototype(each: Function) -> list[str]:
    return wrap(prototype(each), WIDTH - 7, "", "    ")


def function(each: Function) -> str:
    """A function of Python around the foreign one: its names and its documentation cost 0.05 us a call."""
    names = [parameter.name for parameter in each.parameters]
    found = call(f"_{each.name} = _function", [f'"{each.name}"', *types_of(each)])
    inside = ", ".join(names)
    return (
        f"{found}\n\ndef {each.name}({inside}):\n{docs(each.comment, more=wrap_prototype(each))}"
        f"    return _{each.name}({inside})\n"
    )
