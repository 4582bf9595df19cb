"""Values that SWIG hands on as text, such as `INT32_MIN` and `2*4`, evaluated as C does."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping

LIMITS = {
    **{f"INT{bits}_MIN": -(2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"INT{bits}_MAX": 2 ** (bits - 1) - 1 for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}_MAX": 2**bits - 1 for bits in (8, 16, 32, 64)},
}
NUMBER = re.compile(r"\b(0[xX][0-9A-Fa-f]+|\d+)([uU]?)\b")
# Without division and remainder, which C rounds otherwise.
BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of an expression of integers, known names and the operators above; ValueError for any other."""
    if re.search(r"\b0\d", text):
        raise ValueError(f"an octal number: {text}")
    try:
        tree = ast.parse(NUMBER.sub(r"\1", text).strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"not an expression of integers: {text}") from None
    value = evaluate_node(tree, {**LIMITS, **names}, text)
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{text} does not fit 64 bits")
    return value


def evaluate_node(node: ast.expr, names: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int(value)) if type(node.value) is int:
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            right_value = evaluate_node(right, names, text)
            if isinstance(op, ast.LShift | ast.RShift) and not 0 <= right_value < 64:
                raise ValueError(f"a shift by {right_value}: {text}")
            return BINARY[type(op)](evaluate_node(left, names, text), right_value)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
            return UNARY[type(op)](evaluate_node(operand, names, text))
    raise ValueError(f"not an expression of integers and known names: {text}")


def literal_type(text: str, value: int) -> str:
    """The type that C gives a constant: the first that holds it, an unsigned one for hexadecimal numbers and U only."""
    unsigned = bool(NUMBER.search(text)) and any(suffix for _, suffix in NUMBER.findall(text))
    candidates = ["uint32_t", "uint64_t"] if unsigned else ["int32_t", "int64_t"]
    if not unsigned and re.search(r"0[xX]", text):
        candidates = ["int32_t", "uint32_t", "int64_t", "uint64_t"]
    for name in candidates:
        bits, signed = int(re.sub(r"\D", "", name)), not name.startswith("u")
        if -(2 ** (bits - 1)) * signed <= value < 2 ** (bits - signed):
            return name
    raise ValueError(f"{text} fits no type that C would give it")
