"""Raw Rust: bindings/rust/ddpcache-sys/src/raw.rs, laid out as rustfmt would."""

from __future__ import annotations

from collections.abc import Iterable

from .comments import Comment, markdown
from .interface import Constant, Function, Interface, Struct, Type
from .layout import layout_of

WIDTH = 100
MARKUP = "\\*[]<>"
TYPES = {
    **{f"{sign}int{bits}_t": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "f32",
    "double": "f64",
    "char": "c_char",
    "void": "c_void",
}

HEAD = """\
// {banner}
//
// The C interface of ddpcache as it is: types, constants and functions of include/ddpcache/*.h, with their comments.

use core::ffi::{{{imports}}};
use core::marker::{{PhantomData, PhantomPinned}};
use core::mem::{{offset_of, size_of}};
"""

OPAQUE = """\
#[repr(C)]
pub struct {name} {{
    _inside: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}}"""


def write(interface: Interface, banner: str) -> str:
    parts = [
        *(opaque_type(each.name, each.comment) for each in interface.opaques.values()),
        *(callback(each) for each in interface.callbacks.values()),
        *(struct_type(each) for each in interface.structs.values()),
        *(constant(each) for each in interface.constants.values()),
        *(
            lines([*docs(enum.comment), f"pub type {enum.name} = i32;", *map(constant, enum.items)])
            for enum in interface.enums.values()
        ),
        lines(['extern "C" {', "\n\n".join(map(function, interface.functions.values())), "}"]),
        lines(["const _: () = {", *assertions(interface.structs.values()), "};"]),
    ]
    body = "\n\n".join(parts)
    imports = ", ".join(name for name in ("c_char", "c_void") if name in body)
    return f"{HEAD.format(banner=banner, imports=imports)}\n{body}\n"


def lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def docs(comment: Comment | None, indent: str = "") -> list[str]:
    text = markdown(comment, WIDTH - len(indent) - 4, MARKUP) if comment else []
    return [f"{indent}/// {line}".rstrip() for line in text]


def type_name(type_: Type) -> str:
    name = TYPES.get(type_.base, type_.base)
    for depth in range(type_.pointers):
        name = f"*{'const' if type_.const and depth == 0 else 'mut'} {name}"
    return name if type_.length is None else f"[{name}; {type_.length}]"


def opaque_type(name: str, comment: Comment | None) -> str:
    return lines([*docs(comment), OPAQUE.format(name=name)])


def struct_type(struct: Struct) -> str:
    body = []
    for field in struct.fields:
        body += [*docs(field.comment, "    "), f"    pub {field.name}: {type_name(field.type)},"]
    head = ["#[repr(C)]", "#[derive(Clone, Copy, Debug)]", f"pub struct {struct.name} {{"]
    return lines([*docs(struct.comment), *head, *body, "}"])


def constant(each: Constant) -> str:
    text = f"0x{each.value:X}" if each.text.lower().startswith("0x") else str(each.value)
    return lines([*docs(each.comment), f"pub const {each.name}: {TYPES[each.ctype]} = {text};"])


def signature(indent: str, head: str, function_: Function) -> str:
    """On one line, or with each parameter on its own; of a line that just fits, rustfmt breaks off the result."""
    result = "" if function_.result == Type("void") else f"-> {type_name(function_.result)}"
    parameters = [f"{each.name}: {type_name(each.type)}" for each in function_.parameters]
    call = f"{indent}{head}({', '.join(parameters)})"
    short = f"{call} {result};".replace(" ;", ";")
    if len(short) < WIDTH:
        return short
    if len(short) == WIDTH:
        return f"{call}\n{indent}    {result};"
    return lines([f"{indent}{head}(", *(f"{indent}    {each}," for each in parameters), f"{indent}) {result};"])


def callback(each: Function) -> str:
    parameters = ", ".join(f"{parameter.name}: {type_name(parameter.type)}" for parameter in each.parameters)
    head = f"pub type {each.name} ="
    body = f'Option<unsafe extern "C" fn({parameters}) -> {type_name(each.result)}>;'
    fits = len(head) + len(body) + 1 <= WIDTH
    return lines([*docs(each.comment), f"{head} {body}" if fits else f"{head}\n    {body}"])


def function(each: Function) -> str:
    return lines([*docs(each.comment, "    "), signature("    ", f"pub fn {each.name}", each)])


def assertions(structs: Iterable[Struct]) -> list[str]:
    """Checked while compiling: every size and offset is that of C."""
    found = []
    for struct in structs:
        layout = layout_of(struct)
        found.append(f"    assert!(size_of::<{struct.name}>() == {layout.size});")
        for field, offset in zip(struct.fields, layout.offsets, strict=True):
            found.append(f"    assert!(offset_of!({struct.name}, {field.name}) == {offset});")
    return found
