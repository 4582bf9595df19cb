"""Raw Julia: bindings/julia/src/raw.jl, for 1.5 and later."""

from __future__ import annotations

from .comments import Comment, markdown
from .interface import Constant, Enum, Function, Interface, Opaque, Struct, Type
from .layout import layout_of

WIDTH = 92
MARKUP = "\\*[]"
TYPES = {
    **{f"{sign}int{bits}_t": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "Float32",
    "double": "Float64",
    "char": "UInt8",
    "void": "Cvoid",
}

HEAD = '''\
# {banner}

"""
The C interface of ddpcache as it is: types, constants and functions of include/ddpcache/*.h, with their comments.

A function takes what `ccall` converts to the C type: a `Ref` or an array for a pointer, `C_NULL` for none, a `String`
for text. The library is the file that the environment variable DDPCACHE_LIBRARY names, or else what pkg-config finds.
"""
module Raw

using Libdl: dlopen, dlsym
'''

TAIL = """\
# The inside of each struct is that of C.
for (type, size, offsets) in (
{layouts}
)
    sizeof(type) == size && ntuple(at -> Int(fieldoffset(type, at)), fieldcount(type)) == offsets ||
        error("the layout of $type is not that of C")
end

const FUNCTIONS = [
{functions}
]

function library_path()
    path = get(ENV, "DDPCACHE_LIBRARY", "")
    isempty(path) || return path
    folder = try
        readchomp(pipeline(`pkg-config --variable=libdir ddpcache`, stderr = devnull))
    catch
        error(
            "libddpcache was not found: set DDPCACHE_LIBRARY to its file, " *
            "or PKG_CONFIG_PATH to the folder of ddpcache.pc",
        )
    end
    return joinpath(folder, "libddpcache.so.$DC_ABI_VERSION")
end

function __init__()
    path = library_path()
    library = dlopen(path)
    # First: another version may lack the other functions.
    _dc_abi_version[] = dlsym(library, :dc_abi_version)
    dc_abi_version() == DC_ABI_VERSION || error(
        "these bindings are for ABI version $DC_ABI_VERSION, but $path has $(dc_abi_version())",
    )
    for (address, name) in FUNCTIONS
        address[] = dlsym(library, name)
    end
end

end
"""


def write(interface: Interface, banner: str) -> str:
    parts = [
        HEAD.format(banner=banner),
        *(f"const _{name} = Ref(C_NULL)\n" for name in interface.functions),
        "\n",
        *(f"{opaque_type(each)}\n" for each in interface.opaques.values()),
        *(f"{callback(each)}\n" for each in interface.callbacks.values()),
        *(f"{struct_type(each)}\n" for each in interface.structs.values()),
        *(f"{constant(each)}\n" for each in interface.constants.values()),
        *(f"{enum(each)}\n" for each in interface.enums.values()),
        *(f"{function(each)}\n" for each in interface.functions.values()),
        tail(interface),
    ]
    head, *rest = parts
    return f"{head}\n{''.join(rest)}"


def tail(interface: Interface) -> str:
    layouts = []
    for struct in interface.structs.values():
        layout = layout_of(struct)
        offsets = ", ".join(map(str, layout.offsets)) + ("," if len(layout.offsets) == 1 else "")
        layouts.append(f"    ({struct.name}, {layout.size}, ({offsets})),")
    functions = [f"    (_{name}, :{name})," for name in interface.functions]
    # Not by format(), since the text holds braces of its own in none but these two places.
    return TAIL.replace("{layouts}", "\n".join(layouts)).replace("{functions}", "\n".join(functions))


def docs(comment: Comment | None, indent: str = "", head: str = "") -> str:
    text = [f"    {head}", ""] if head else []
    text += markdown(comment, WIDTH - len(indent), MARKUP) if comment else []
    if not text:
        return ""
    quotes = f'{indent}"""\n'
    return quotes + "".join(f"{indent}{escape(line)}".rstrip() + "\n" for line in text) + quotes


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("$", "\\$").replace('"', '\\"')


def type_name(type_: Type, callbacks: tuple[str, ...] = ()) -> str:
    name = TYPES.get(type_.base, type_.base)
    for _ in range(type_.pointers):
        name = f"Ptr{{{name}}}"
    return name if type_.length is None else f"NTuple{{{type_.length}, {name}}}"


def parameter_type(type_: Type) -> str:
    """Of text, Julia checks that no NUL is inside; a caller's own pointer is any Julia object, which the call keeps."""
    if type_.base == "char" and type_.pointers:
        return "Cstring"
    return "Any" if type_ == Type("void", 1) else type_name(type_)


def opaque_type(each: Opaque) -> str:
    return f"{docs(each.comment)}mutable struct {each.name} end\n"


def callback(each: Function) -> str:
    types = ", ".join(parameter_type(parameter.type) for parameter in each.parameters)
    names = ", ".join(parameter.name for parameter in each.parameters)
    head = f"@cfunction({each.name}, {type_name(each.result)}, ({types})) of {each.name}({names})"
    return f"{docs(each.comment, head=head)}const {each.name} = Ptr{{Cvoid}}\n"


def struct_type(each: Struct) -> str:
    fields = "".join(
        f"{docs(field.comment, '    ')}    {field.name}::{type_name(field.type)}\n" for field in each.fields
    )
    return f"{docs(each.comment)}struct {each.name}\n{fields}end\n"


def constant(each: Constant) -> str:
    return f"{docs(each.comment)}const {each.name} = {TYPES[each.ctype]}({each.value})\n"


def enum(each: Enum) -> str:
    return f"{docs(each.comment)}const {each.name} = Int32\n" + "".join(map(constant, each.items))


def function(each: Function) -> str:
    names = [parameter.name for parameter in each.parameters]
    types = [parameter_type(parameter.type) for parameter in each.parameters]
    result = "Cstring" if each.result.base == "char" else type_name(each.result)
    call = f"{each.name}({', '.join(names)})"
    head = call if result == "Cvoid" else f"{call} -> {result}"
    types_tuple = f"({', '.join(types)}{',' if len(types) == 1 else ''})"
    body = ", ".join([f"_{each.name}[]", result, types_tuple, *names])
    if len(body) > WIDTH:
        body = "\n" + "".join(
            f"        {part},\n" for part in (f"_{each.name}[]", result, types_tuple, ", ".join(names))
        )
        body += "    "
    return f"{docs(each.comment, head=head)}function {call}\n    ccall({body})\nend\n"
