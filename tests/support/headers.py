"""Reads the public headers, strictly: what is not in the subset of C that all bindings can parse is refused.

The subset: fixed-width integers, float, double and pointers to them or to our structs; `void *` for a caller's own
data; arrays of them, and of char, as fields; `const char *` as parameter or result only; enums that only name
constants, with explicit literals; `#define` of a literal; callbacks as parameters; opaque handles as structs of their
own. Every token of a header must belong to one of the forms below, so nothing outside the subset passes unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from generator.words import RESERVED

INTEGERS = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
SCALARS = INTEGERS | {"float", "double"}
# Structs that never grow: their size is part of the interface.
FROZEN = {"dc_array", "dc_gather", "dc_view", "dc_error"}


class NotInSubset(Exception):
    """A header holds something that not every binding can read."""


@dataclass(frozen=True)
class Type:
    base: str
    pointers: int
    const: bool


@dataclass(frozen=True)
class Variable:
    name: str
    type: Type
    length: int | None = None


@dataclass
class Function:
    name: str
    result: Type
    parameters: list[Variable]


@dataclass
class Interface:
    """All that the headers declare, in their order."""

    functions: dict[str, Function] = field(default_factory=dict)
    callbacks: dict[str, Function] = field(default_factory=dict)
    structs: dict[str, list[Variable] | None] = field(default_factory=dict)  # None: opaque
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def open_structs(self) -> dict[str, list[Variable]]:
        return {name: fields for name, fields in self.structs.items() if fields is not None}


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(r"\s*([A-Za-z_]\w*|0[xX][0-9A-Fa-f]+|\d+|[-*(){}\[\];,=])")
LITERAL = re.compile(r'-?(\d+|0[xX][0-9A-Fa-f]+|\d+\.\d+)|"[^"\\]*"')


class Parser:
    def __init__(self, interface: Interface, name: str, text: str):
        self.interface, self.name = interface, name
        text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
        self.tokens = self._tokenize(self._preprocess(text))
        self.next = 0

    def refuse(self, reason: str) -> NotInSubset:
        around = " ".join(self.tokens[max(0, self.next - 6) : self.next + 3]) if hasattr(self, "tokens") else ""
        return NotInSubset(f"{self.name}: {reason} (near `{around}`)")

    def _preprocess(self, text: str) -> str:
        """Takes directives away: guard, includes, `extern "C"` for C++, macros hidden from SWIG, and constants."""
        guard = re.fullmatch(r"\s*#ifndef (\w+)\n#define \1\n(.*)\n#endif\s*", text, re.DOTALL)
        if not guard:
            raise self.refuse("the whole header must stand between an include guard")
        if guard[1] != f"DDPCACHE_{self.name.partition('.')[0].upper()}_H":
            raise self.refuse(f"unexpected guard {guard[1]}")
        text = guard[2]
        for form in (
            r'^#ifdef __cplusplus\nextern "C" \{\n#endif$',
            r"^#ifdef __cplusplus\n\}\n#endif$",
            r"^#ifndef SWIG\n(?:#define .*\n)*#endif$",
            r'^#include (?:<stdint\.h>|"ddpcache/\w+\.h") *$',
        ):
            text = re.sub(form, "", text, flags=re.MULTILINE)
        return re.sub(r"^#define (DC_\w+) (.*)$", self._take_constant, text, flags=re.MULTILINE)

    def _take_constant(self, directive: re.Match) -> str:
        name, value = directive[1], directive[2].strip()
        if not LITERAL.fullmatch(value):
            raise self.refuse(f"{name} is not a literal: {value}")
        self.interface.constants[name] = value
        return ""

    def _tokenize(self, text: str) -> list[str]:
        tokens, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if not match:
                raise NotInSubset(f"{self.name}: not in the subset: {text[position : position + 60].strip()!r}")
            tokens.append(match[1])
            position = match.end()
        return tokens

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.next + ahead] if self.next + ahead < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise self.refuse(f"expected `{expected}`, found `{token}`")
        self.next += 1
        return token

    def take_name(self, prefix: str = "") -> str:
        name = self.take()
        if not re.fullmatch(r"[A-Za-z]\w*", name) or not name.startswith(prefix):
            raise self.refuse(f"`{name}` is no name" + (f" that begins with {prefix}" if prefix else ""))
        if name in RESERVED:
            raise self.refuse(f"`{name}` is a keyword of Python, C++, Julia or Rust")
        return name

    def take_integer(self) -> int:
        sign = -1 if self.peek() == "-" else 1
        if sign < 0:
            self.take("-")
        digits = self.take()
        if not digits[0].isdigit():
            raise self.refuse(f"`{digits}` is no number")
        return sign * int(digits, 0)

    def parse(self) -> None:
        while self.peek():
            match self.peek():
                case "enum":
                    self.parse_enum()
                case "typedef":
                    self.parse_typedef()
                case "DC_API":
                    self.take()
                    function = self.parse_signature()
                    self.take(";")
                    self.interface.functions[function.name] = function
                case other:
                    raise self.refuse(f"`{other}` begins no declaration of the subset")

    def parse_enum(self) -> None:
        self.take("enum")
        constants = self.interface.enums.setdefault(self.take_name("dc_"), {})
        self.take("{")
        while True:
            name = self.take_name("DC_")
            self.take("=")
            constants[name] = self.take_integer()
            if not -(2**31) <= constants[name] < 2**31:
                raise self.refuse(f"{name} is no int32")
            if self.peek() != ",":
                break
            self.take(",")
        self.take("}")
        self.take(";")

    def parse_typedef(self) -> None:
        self.take("typedef")
        if self.peek() != "struct":
            callback = self.parse_signature(pointer=True)
            self.interface.callbacks[callback.name] = callback
        else:
            self.take("struct")
            name = self.take_name("dc_")
            fields = None
            # Its own pointers may occur inside.
            self.interface.structs.setdefault(name, None)
            if self.peek() == "{":
                fields = self.parse_fields()
                self.interface.structs[name] = fields
                self.check_growth(name, fields)
            self.take(name)
        self.take(";")

    def parse_fields(self) -> list[Variable]:
        self.take("{")
        fields = []
        while self.peek() != "}":
            type_, name, length = self.parse_type(), self.take_name(), None
            if self.peek() == "[":
                self.take()
                length = self.take_integer()
                self.take("]")
            self.take(";")
            if type_.base == "char" and (type_.pointers or length is None):
                raise self.refuse(f"field {name}: char stands in fields as an array only")
            if type_.base in self.interface.callbacks:
                raise self.refuse(f"field {name}: callbacks are parameters, never members")
            if type_.base == "void":
                raise self.refuse(f"field {name}: no void pointers in structs")
            self.check_value(type_, f"field {name}", char_is_fine=True)
            fields.append(Variable(name, type_, length))
        self.take("}")
        return fields

    def check_growth(self, name: str, fields: list[Variable]) -> None:
        sized = fields[0] == Variable("struct_size", Type("uint32_t", 0, False))
        if name in FROZEN and sized:
            raise self.refuse(f"{name} is frozen and has no struct_size")
        if name not in FROZEN and not sized:
            raise self.refuse(f"{name} may grow and must begin with uint32_t struct_size")

    def parse_type(self) -> Type:
        const = self.peek() == "const"
        if const:
            self.take()
        base = self.take()
        known = SCALARS | {"char", "void"} | self.interface.structs.keys() | self.interface.callbacks.keys()
        if base not in known:
            raise self.refuse(f"`{base}` is no type of the subset")
        pointers = 0
        while self.peek() == "*":
            self.take()
            pointers += 1
        return Type(base, pointers, const)

    def check_value(self, type_: Type, what: str, char_is_fine: bool = False) -> None:
        if type_.base in self.interface.structs and not type_.pointers:
            raise self.refuse(f"{what}: {type_.base} by value")
        if type_.base == "char" and not char_is_fine and type_ != Type("char", 1, True):
            raise self.refuse(f"{what}: of char only `const char *` is allowed")
        if type_.base == "void" and type_.pointers != 1:
            raise self.refuse(f"{what}: void")
        is_handle = type_.base in self.interface.structs and self.interface.structs[type_.base] is None
        if type_.pointers > 1 and (type_.pointers > 2 or type_.const or not is_handle):
            raise self.refuse(f"{what}: two stars are for receiving a handle only")

    def parse_signature(self, pointer: bool = False) -> Function:
        result = self.parse_type()
        if result != Type("void", 0, False):
            self.check_value(result, "result")
        if pointer:
            self.take("(")
            self.take("*")
        name = self.take_name("dc_")
        if pointer:
            self.take(")")
        self.take("(")
        parameters = []
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        else:
            while True:
                type_, parameter = self.parse_type(), self.take_name()
                self.check_value(type_, f"{name}, parameter {parameter}")
                parameters.append(Variable(parameter, type_))
                if self.peek() != ",":
                    break
                self.take()
        self.take(")")
        return Function(name, result, parameters)


def parse_header(interface: Interface, name: str, text: str) -> None:
    """Adds what a header declares; the headers that it includes must have been added before."""
    Parser(interface, name, text).parse()


def check_options(interface: Interface) -> None:
    """Each options struct has its function that sets the defaults."""
    for name in interface.structs:
        if name.endswith("_options"):
            initializer = interface.functions.get(f"{name}_init")
            parameters = (
                [(parameter.type, parameter.name) for parameter in initializer.parameters] if initializer else None
            )
            if parameters != [(Type(name, 1, False), "options"), (Type("uint32_t", 0, False), "struct_size")]:
                raise NotInSubset(f"{name} needs int32_t {name}_init({name} *options, uint32_t struct_size)")
