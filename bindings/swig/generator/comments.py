"""Documentation comments: from the headers' form to pieces that each language renders in its own."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    kind: str  # text, bullet, verbatim, param, return or since
    text: str
    name: str = ""  # of a param


Comment = tuple[Piece, ...]

COMMAND = re.compile(r"@(\w+)")
KNOWN_COMMANDS = {"param", "return", "since"}


def plain(text: str) -> str:
    """The text of a comment without its stars and common indentation; paragraphs stay lines."""
    first, *rest = text.split("\n")
    lines = textwrap.dedent("\n".join(re.sub(r"^\s*\*", "", line) for line in rest)).split("\n") if rest else []
    return "\n".join(line.rstrip() for line in [first.strip(), *lines]).strip()


def parse(text: str) -> Comment:
    """The pieces of a comment. A line that is indented belongs to what stands above it."""
    text = plain(text)
    if unknown := set(COMMAND.findall(text)) - KNOWN_COMMANDS:
        raise ValueError(f"the comment has an unknown command: @{', @'.join(sorted(unknown))}")
    text, since = take_since(text)
    pieces: list[Piece] = []
    for line in text.split("\n"):
        add_line(pieces, line)
    pieces = [piece for piece in pieces if piece.text]
    return (*pieces, Piece("since", since)) if since else tuple(pieces)


def take_since(text: str) -> tuple[str, str]:
    match = re.search(r"\s*@since\s+(\d+(?:\.\d+)*)\s*$", text)
    if not match:
        if "@since" in text:
            raise ValueError("@since must end the comment")
        return text, ""
    return text[: match.start()], match[1]


def add_line(pieces: list[Piece], line: str) -> None:
    words, indent = line.strip(), len(line) - len(line.lstrip())
    last = pieces[-1] if pieces else Piece("text", "")
    if match := re.match(r"@param\s+(\w+)\s*(.*)", words):
        pieces.append(Piece("param", match[2], match[1]))
    elif match := re.match(r"@return\s*(.*)", words):
        pieces.append(Piece("return", match[1]))
    elif match := re.match(r"- (.*)", words):
        pieces.append(Piece("bullet", match[1]))
    elif not words:
        pieces.append(Piece("text", ""))
    elif last.kind == "verbatim" and indent:
        pieces[-1] = Piece("verbatim", f"{last.text}\n{line}")
    elif last.kind in ("param", "return", "bullet") and indent or last.kind == "text" and last.text and not indent:
        pieces[-1] = Piece(last.kind, f"{last.text} {words}".strip(), last.name)
    elif indent:
        pieces.append(Piece("verbatim", line))
    else:
        pieces.append(Piece("text", words))


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def verbatim_lines(piece: Piece) -> list[str]:
    return textwrap.dedent(piece.text).split("\n")


def markdown(comment: Comment, width: int, markup: str) -> list[str]:
    """A comment in Markdown; `markup` are the characters that must be escaped where they are meant as they stand."""
    blocks: list[tuple[str, list[str]]] = []
    for piece in comment:
        text = escape_markdown(piece.text, markup)
        if piece.kind == "verbatim":
            lines = ["```text", *verbatim_lines(piece), "```"]
        elif piece.kind == "bullet":
            lines = wrap(text, width, "- ", "  ")
        elif piece.kind == "param":
            lines = wrap(f"`{piece.name}`: {text}", width, "- ", "  ")
        else:
            lines = wrap({"return": "Returns ", "since": "Since "}.get(piece.kind, "") + text, width)
        blocks.append((piece.kind, lines))
    return join_blocks(blocks)


def join_blocks(blocks: list[tuple[str, list[str]]]) -> list[str]:
    """The lines of all blocks, with empty lines between all but the items of one list."""
    lines: list[str] = []
    before = ""
    for kind, block in blocks:
        if lines and not (kind == before and kind in ("bullet", "param")):
            lines.append("")
        lines += block
        before = kind
    return lines


def escape_markdown(text: str, markup: str) -> str:
    """Shows names as code, and takes care of what would be read as markup; code and *emphasis* are meant as such."""
    pieces = re.split(r"(`[^`]*`|(?<![\w*])\*\w[\w ]*\*(?![\w*])|\b\w*_\w*\b)", text)
    # A minus sign by itself would begin a list where a line is broken before it.
    pattern = rf"([{re.escape(markup)}]|(?<= )[-+](?= ))"
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            pieces[at] = re.sub(pattern, r"\\\1", piece)
        elif "_" in piece and piece[0] != "`":
            pieces[at] = f"`{piece}`"
    return "".join(pieces)


def docstring(comment: Comment, width: int) -> list[str]:
    """A comment as Python's tools read it."""
    blocks = []
    for piece in comment:
        if piece.kind == "verbatim":
            lines = [f"    {line}".rstrip() for line in verbatim_lines(piece)]
        elif piece.kind == "bullet":
            lines = wrap(piece.text, width, "- ", "  ")
        elif piece.kind == "param":
            lines = wrap(f":param {piece.name}: {piece.text}", width, "", "    ")
        elif piece.kind == "return":
            lines = wrap(f":return: {piece.text}", width, "", "    ")
        else:
            lines = wrap({"since": "Since "}.get(piece.kind, "") + piece.text, width)
        blocks.append((piece.kind, lines))
    return join_blocks(blocks)
