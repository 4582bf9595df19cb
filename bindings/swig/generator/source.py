"""The headers' own text: places for messages, and what SWIG loses in silence.

SWIG drops a `#define` whose value it cannot evaluate (a cast, sizeof, UINT32_C(), an initialiser) without a word, and
its comment then moves on to the next item. Both are found by comparing the tree with the text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .comments import plain
from .interface import Refused

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
HIDDEN = re.compile(r"^#ifndef SWIG\n.*?^#endif$", re.DOTALL | re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(DC_\w+)(.*)$", re.MULTILINE)

# What the declaration after a comment declares, and the one before it.
DECLARED_AFTER = re.compile(
    r"""\s*(?:\#[ ]*define\s+(\w+) | enum\s+(\w+)\s*\{ | typedef\s+struct\s+(\w+) | typedef\s[^;{]*?\(\s*\*\s*(\w+)\s*\)
        | DC_API\s[^;{(]*?(\w+)\s*\( | (\w+)\s*= | [\w\s*]*?(\w+)\s*(?:\[[^\]]*\])?\s*[;,}])""",
    re.VERBOSE,
)
DECLARED_BEFORE = re.compile(
    r"(?:^[ \t]*#[ ]*define\s+(\w+)[^\n]*|(\w+)\s*=[^,;{}]*,?|(\w+)\s*(?:\[[^\]]*\])?\s*[;,])\s*\Z", re.MULTILINE
)


def blank(text: str, pattern: re.Pattern) -> str:
    """The text with what matches replaced by spaces, so that every other character stays in its place."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


@dataclass(frozen=True)
class Header:
    path: Path
    shown: str  # the path in messages
    text: str

    @classmethod
    def read(cls, path: Path, shown: str) -> Header:
        return cls(path, shown, path.read_text())

    @property
    def code(self) -> str:
        """The text that SWIG sees, without comments."""
        return blank(blank(self.text, HIDDEN), COMMENT)

    def line(self, name: str, within: str = "") -> int:
        """The line of a name's first mention, after the first mention of what it is declared in."""
        start = 0
        for word in filter(None, (within, name)):
            match = re.compile(rf"\b{re.escape(word)}\b").search(self.code, start)
            start = match.start() if match else start
        return self.code.count("\n", 0, start) + 1

    def refuse(self, reason: str, name: str = "", within: str = "") -> Refused:
        return Refused(f"{self.shown}:{self.line(name, within)}: {reason}")

    def check_defines(self, constants: set[str]) -> None:
        """Every `#define DC_` that SWIG should see is in its tree."""
        for match in DEFINE.finditer(self.code):
            if match[1] not in constants:
                value = match[2].strip() or "nothing"
                raise self.refuse(f"{match[1]} is no literal that SWIG can read: {value}", match[1])

    def comments(self) -> list[tuple[str, str]]:
        """Each documentation comment with the name that it stands at, by the text alone."""
        found = []
        for match in COMMENT.finditer(blank(self.text, HIDDEN)):
            if not re.match(r"/\*\*[^*/]", match[0]):
                continue
            behind = match[0].startswith("/**<")
            if behind:
                at = DECLARED_BEFORE.search(blank(self.text[: match.start()], COMMENT))
            else:
                at = DECLARED_AFTER.match(blank(self.text, COMMENT), match.end())
            if not at:
                line = self.text.count("\n", 0, match.start()) + 1
                raise Refused(f"{self.shown}:{line}: the comment belongs to no declaration")
            name = next(name for name in at.groups() if name)
            found.append((name, plain(match[0][4 if behind else 3 : -2])))
        return found

    def check_comments(self, attached: list[tuple[str, str]]) -> None:
        """SWIG has given every comment to the declaration that it stands at."""
        mine, theirs = Counter(self.comments()), Counter(attached)
        for name, text in [*(mine - theirs), *(theirs - mine)]:
            start = text.partition("\n")[0][:60]
            raise self.refuse(f"SWIG loses or moves the comment of {name}: {start!r}", name)
