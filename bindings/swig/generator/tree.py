"""SWIG's parse tree of the public headers, read into an Interface. What is not known here is refused."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from . import comments
from .expressions import evaluate, literal_type
from .interface import (
    SCALARS,
    Constant,
    Enum,
    Function,
    Interface,
    Opaque,
    Refused,
    Struct,
    Type,
    Variable,
)
from .source import Header
from .words import RESERVED

# What SWIG adds to a struct for its own use.
OF_SWIG = {"access", "constructor", "destructor"}


def parse_headers(swig: str, include: Path, names: Sequence[str]) -> Interface:
    """What the headers include/NAME declare."""
    headers = {name: Header.read(include / name, f"{include.name}/{name}") for name in names}
    with tempfile.TemporaryDirectory() as folder:
        root = run_swig(swig, include, names, Path(folder))
    reader = Reader()
    # Nothing else is taken from the tree: it holds SWIG's own library too, and paths.
    for node in root.iter("include"):
        path = attributes(node).get("name", "")
        for name in names:
            if f"/{path}".endswith(f"/{name}"):
                reader.read_header(headers.pop(name), node)
    if headers:
        raise Refused(f"SWIG's tree lacks {', '.join(headers)}")
    reader.interface.sort()
    return reader.interface


def run_swig(swig: str, include: Path, names: Sequence[str], folder: Path) -> ElementTree.Element:
    module, tree = folder / "tree.i", folder / "tree.xml"
    module.write_text("%module tree\n#define DC_API\n" + "".join(f'%include "{name}"\n' for name in names))
    # -xml alone would lose the comments; without SWIGWORDSIZE64 64-bit types become others.
    command = [swig, "-python", "-doxygen", "-DSWIGWORDSIZE64", f"-I{include}", "-outdir", folder]
    result = subprocess.run(
        [*command, "-o", folder / "wrap.c", "-xmlout", tree, module], capture_output=True, text=True
    )
    if result.returncode:
        raise Refused(f"SWIG refuses the headers:\n{result.stderr.strip()}")
    return ElementTree.parse(tree).getroot()


def attributes(node: ElementTree.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in node.findall("attributelist/attribute")}


def children(node: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, dict[str, str]]]:
    for child in node:
        if child.tag != "attributelist":
            yield child, attributes(child)


class Reader:
    """Adds the nodes of one header after another to an interface."""

    def __init__(self) -> None:
        self.interface = Interface()
        self.values: dict[str, int] = {}  # of constants and enums
        self.attached: list[tuple[str, str]] = []  # the comments of this header
        self.header: Header

    def read_header(self, header: Header, node: ElementTree.Element) -> None:
        self.header, self.attached = header, []
        nodes = list(children(node))
        # Structs first, since a typedef alone does not say whether its struct is opaque.
        structs = [attrs.get("name") for child, attrs in nodes if child.tag == "class"]
        for child, attrs in nodes:
            name = attrs.get("name", "")
            match child.tag, attrs.get("kind"):
                case "constant", _:
                    self.interface.constants[name] = self.read_constant(attrs)
                case "enum", _:
                    self.interface.enums[name] = self.read_enum(child, attrs)
                case "class", "struct":
                    self.interface.structs[name] = self.read_struct(child, attrs)
                case "cdecl", "typedef" if attrs["type"] == f"struct {name}" and not attrs.get("decl"):
                    if name not in structs:
                        self.check_name(name, "dc_")
                        self.interface.opaques[name] = Opaque(name, self.take_comment(attrs))
                case "cdecl", "typedef" if attrs.get("decl", "").startswith("p.f("):
                    self.interface.callbacks[name] = self.read_function(child, attrs, attrs["decl"][2:])
                case "cdecl", "function":
                    self.interface.functions[name] = self.read_function(child, attrs, attrs["decl"])
                case tag, kind:
                    raise header.refuse(
                        f"not known to the bindings: {kind or tag} {name or attrs.get('code', '')}", name
                    )
        header.check_defines(set(self.interface.constants))
        header.check_comments(self.attached)

    def refuse(self, reason: str, name: str, within: str = "") -> Refused:
        return self.header.refuse(reason, name, within)

    def check_name(self, name: str, prefix: str = "", within: str = "", renamed: str = "") -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or not name.startswith(prefix):
            raise self.refuse(f"`{name}` is no name" + (f" that begins with {prefix}" if prefix else ""), name, within)
        if name in RESERVED:
            raise self.refuse(f"`{name}` is a reserved word of Python, C++, Julia or Rust", name, within)
        if renamed not in ("", name):
            raise self.refuse(f"SWIG renames {name} to {renamed}", name, within)
        known = self.interface
        kinds = (known.functions, known.callbacks, known.structs, known.opaques, known.enums, known.constants)
        if not within and any(name in kind for kind in kinds):
            raise self.refuse(f"{name} is declared twice", name)

    def take_comment(self, attrs: Mapping[str, str], within: str = "") -> comments.Comment | None:
        if "doxygen" not in attrs:
            return None
        self.attached.append((attrs["name"], comments.plain(attrs["doxygen"])))
        try:
            return comments.parse(attrs["doxygen"])
        except ValueError as reason:
            raise self.refuse(str(reason), attrs["name"], within) from None

    def evaluate(self, text: str, name: str, within: str = "") -> int:
        try:
            return evaluate(text, self.values)
        except ValueError as reason:
            raise self.refuse(f"{name}: {reason}", name, within) from None

    def read_constant(self, attrs: Mapping[str, str]) -> Constant:
        name, text = attrs["name"], attrs.get("value", "")
        self.check_name(name, "DC_", renamed=attrs.get("sym_name", ""))
        self.values[name] = self.evaluate(text, name)
        try:
            ctype = literal_type(text, self.values[name])
        except ValueError as reason:
            raise self.refuse(f"{name}: {reason}", name) from None
        return Constant(name, self.values[name], ctype, text, self.take_comment(attrs))

    def read_enum(self, node: ElementTree.Element, attrs: Mapping[str, str]) -> Enum:
        name = attrs.get("name", "")
        if not name:
            raise self.refuse("an enum without a name", *(item.get("name", "") for _, item in [*children(node)][:1]))
        self.check_name(name, "dc_")
        comment, items = self.take_comment(attrs), []
        for child, item in children(node):
            if child.tag != "enumitem":
                raise self.refuse(f"{name} holds what is no enum item: {child.tag}", name)
            item_name, text = item["name"], item.get("enumvalue", "")
            self.check_name(item_name, "DC_", renamed=item.get("sym_name", ""))
            if item_name in self.values:
                raise self.refuse(f"{item_name} is declared twice", item_name)
            if not text:
                raise self.refuse(f"{item_name} has no value of its own", item_name)
            value = self.values[item_name] = self.evaluate(text, item_name)
            if not -(2**31) <= value < 2**31:
                raise self.refuse(f"{item_name} is no int32: {value}", item_name)
            items.append(Constant(item_name, value, "int32_t", text, self.take_comment(item)))
        return Enum(name, tuple(items), comment)

    def read_struct(self, node: ElementTree.Element, attrs: Mapping[str, str]) -> Struct:
        name = attrs.get("name", "")
        self.check_name(name, "dc_")
        comment, fields = self.take_comment(attrs), []
        for child, member in children(node):
            if child.tag in OF_SWIG:
                continue
            member_name = member.get("name", "")
            if child.tag != "cdecl" or member.get("kind") != "variable":
                raise self.refuse(f"{name} holds what is no field: {member.get('code', child.tag).strip()}", name)
            self.check_name(member_name, within=name, renamed=member.get("sym_name", ""))
            if "bitfield" in member:
                raise self.refuse(f"{name}.{member_name} is a bit-field", member_name, name)
            encoded = member.get("decl", "") + member["type"]
            type_ = self.field_type(encoded, member_name, name)
            fields.append(Variable(member_name, type_, self.take_comment(member, name)))
        return Struct(name, tuple(fields), comment)

    def read_function(self, node: ElementTree.Element, attrs: Mapping[str, str], decl: str) -> Function:
        name = attrs["name"]
        self.check_name(name, "dc_", renamed=attrs.get("sym_name", ""))
        if "code" in attrs or attrs.get("storage") in ("static", "extern"):
            raise self.refuse(f"{name} is {attrs.get('storage', 'inline')}", name)
        signature = re.fullmatch(r"f\((.*)\)\.(.*)", decl)
        if not signature or "f(" in decl[1:]:
            raise self.refuse(f"{name} is of an unknown form: {decl}", name)
        if not signature[1]:
            raise self.refuse(f"{name} has no prototype: write (void)", name)
        result = self.parse_type(signature[2] + attrs["type"], f"the result of {name}", name)
        self.check_value(result, f"the result of {name}", name, is_result=True)
        nodes = map(attributes, node.findall("attributelist/parmlist/parm"))
        parameters = tuple(self.read_parameter(parameter, name) for parameter in nodes if parameter["type"] != "void")
        comment = self.take_comment(attrs)
        self.check_documented(name, comment, [each.name for each in parameters])
        return Function(name, result, parameters, comment)

    def read_parameter(self, attrs: Mapping[str, str], function: str) -> Variable:
        name, encoded = attrs.get("name", ""), attrs["type"]
        if encoded == "v(...)":
            raise self.refuse(f"{function} takes any number of parameters", function)
        if not name:
            raise self.refuse(f"{function} has a parameter without a name: {encoded}", function)
        self.check_name(name, within=function)
        what = f"{function}, parameter {name}"
        type_ = self.parse_type(encoded, what, name, function)
        self.check_value(type_, what, name, function)
        return Variable(name, type_)

    def check_documented(self, name: str, comment: comments.Comment | None, parameters: list[str]) -> None:
        if not comment:
            raise self.refuse(f"{name} has no comment", name)
        for piece in comment:
            if piece.kind == "param" and piece.name not in parameters:
                raise self.refuse(f"the comment of {name} speaks of a parameter {piece.name}, which it has not", name)

    def parse_type(self, encoded: str, what: str, name: str, within: str = "") -> Type:
        """SWIG's notation: `p.` a pointer to, `q(const).` qualified, `a(N).` an array of."""
        match = re.fullmatch(r"(?:a\(([^()]*)\)\.)?((?:p\.)*)(q\(const\)\.)?(\w+)", encoded)
        known = self.interface
        bases = SCALARS.keys() | {"char", "void"} | known.structs.keys() | known.opaques.keys() | known.callbacks.keys()
        if not match or match[4] not in bases:
            raise self.refuse(f"{what}: no type of the bindings: {encoded}", name, within)
        length = None
        if match[1] == "":
            raise self.refuse(f"{what}: an array without a length", name, within)
        if match[1] is not None:
            length = self.evaluate(match[1], name, within)
            if not 1 <= length < 2**31:
                raise self.refuse(f"{what}: an array of {length}", name, within)
        return Type(match[4], len(match[2]) // 2, bool(match[3]), length)

    def field_type(self, encoded: str, name: str, within: str) -> Type:
        what = f"{within}.{name}"
        type_ = self.parse_type(encoded, what, name, within)
        is_chars = type_.base == "char" and type_.length and not type_.pointers and not type_.const
        is_pointer = type_.pointers == 1 and type_.length is None and type_.base not in ("char", "void")
        is_scalar = type_.pointers == 0 and type_.base in SCALARS and not type_.const
        if type_.base in self.interface.callbacks or not (is_chars or is_pointer or is_scalar):
            raise self.refuse(f"{what}: no type of a field: {type_}", name, within)
        return type_

    def check_value(self, type_: Type, what: str, name: str, within: str = "", is_result: bool = False) -> None:
        """A parameter or a result: a scalar, text, a caller's pointer, or a pointer to what we know."""
        known = self.interface
        if type_.length is not None:
            allowed = False
        elif type_.pointers == 0:
            allowed = not type_.const and (
                type_.base in SCALARS
                or (is_result and type_.base == "void")
                or (not is_result and type_.base in known.callbacks)
            )
        elif type_.pointers == 1:
            allowed = type_.const if type_.base == "char" else type_.base not in known.callbacks
        else:
            allowed = type_.pointers == 2 and type_.base in known.opaques and not type_.const
        if not allowed:
            raise self.refuse(f"{what}: no type of a parameter or result: {type_}", name, within)
