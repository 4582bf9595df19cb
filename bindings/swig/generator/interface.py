"""What the public headers declare, apart from any language."""

from __future__ import annotations

from dataclasses import dataclass, field

from .comments import Comment

INTEGERS = {f"{sign}int{bits}_t": (bits // 8, sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)}
SCALARS = {**{name: size for name, (size, _) in INTEGERS.items()}, "float": 4, "double": 8}


class Refused(Exception):
    """A header holds something that not every language can say; the text begins with its place."""


@dataclass(frozen=True)
class Type:
    base: str  # a scalar, char, void, or the name of a struct or callback
    pointers: int = 0
    const: bool = False
    length: int | None = None  # of an array, which only fields are

    def __str__(self) -> str:
        stars = f" {'*' * self.pointers}" if self.pointers else ""
        bounds = "" if self.length is None else f"[{self.length}]"
        return f"{'const ' if self.const else ''}{self.base}{stars}{bounds}"


@dataclass(frozen=True)
class Variable:
    """A parameter or a field."""

    name: str
    type: Type
    comment: Comment | None = None


@dataclass(frozen=True)
class Function:
    """A function, or the type of a callback."""

    name: str
    result: Type
    parameters: tuple[Variable, ...]
    comment: Comment | None


@dataclass(frozen=True)
class Struct:
    name: str
    fields: tuple[Variable, ...]
    comment: Comment | None


@dataclass(frozen=True)
class Opaque:
    """A struct whose inside no caller knows."""

    name: str
    comment: Comment | None


@dataclass(frozen=True)
class Constant:
    name: str
    value: int
    ctype: str  # as C types the literal: int32_t, uint32_t, int64_t or uint64_t
    text: str  # as it was written, so that a hexadecimal number stays one
    comment: Comment | None


@dataclass(frozen=True)
class Enum:
    name: str
    items: tuple[Constant, ...]
    comment: Comment | None


@dataclass
class Interface:
    functions: dict[str, Function] = field(default_factory=dict)
    callbacks: dict[str, Function] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    opaques: dict[str, Opaque] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)

    def sort(self) -> None:
        """Orders everything by name, but structs after those whose pointers they hold, which no circle can be."""
        for name in ("functions", "callbacks", "opaques", "enums", "constants"):
            setattr(self, name, dict(sorted(getattr(self, name).items())))
        unsorted, self.structs = dict(sorted(self.structs.items())), {}

        def place(name: str) -> None:
            for each in unsorted[name].fields:
                if each.type.base in unsorted:
                    place(each.type.base)
            self.structs.setdefault(name, unsorted[name])

        for name in unsorted:
            place(name)
