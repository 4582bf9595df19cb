"""Writes to a file which lines and branches of src/ the tests of build/coverage reached, and checks that
docs/testing.md gives a reason for every file of which some lines were never reached. Branches that only an exception
takes are left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "build" / "coverage"


@dataclass
class Coverage:
    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0
    missed: list[int] = field(default_factory=list)

    def add(self, line: dict) -> None:
        if line.get("gcovr/excluded"):
            return
        branches = [branch["count"] for branch in line["branches"] if not branch.get("gcovr/excluded")]
        self.lines += 1
        self.lines_reached += line["count"] > 0
        self.branches += len(branches)
        self.branches_reached += sum(count > 0 for count in branches)
        if not line["count"]:
            self.missed.append(line["line_number"])

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.lines + other.lines,
            self.lines_reached + other.lines_reached,
            self.branches + other.branches,
            self.branches_reached + other.branches_reached,
        )

    def row(self, name: str) -> str:
        counts = f"{self.lines_reached:>6}/{self.lines:<6}{self.branches_reached:>6}/{self.branches:<6}"
        return f"{name:<38}{share(self.lines_reached, self.lines)}{share(self.branches_reached, self.branches)}{counts}"


def share(reached: int, total: int) -> str:
    return f"{100 * reached / total:7.1f} %" if total else f"{'':>9}"


def ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def measure() -> dict[str, Coverage]:
    options = ["--exclude-throw-branches", "--exclude-unreachable-branches", "--gcov-ignore-parse-errors"]
    result = subprocess.run(
        [sys.executable, "-m", "gcovr", "--root", ROOT, "--filter", "src/", *options, "--json", "-", TREE],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    files: dict[str, Coverage] = {}
    for file in json.loads(result.stdout)["files"]:
        coverage = files.setdefault(file["file"], Coverage())
        for line in file["lines"]:
            coverage.add(line)
    return files


def table(files: dict[str, Coverage]) -> str:
    head = f"{'':<38}{'lines':>9}{'branches':>9}{'lines':>10}{'branches':>14}   lines never reached"
    rows = [f"{coverage.row(name)}   {ranges(coverage.missed)}".rstrip() for name, coverage in sorted(files.items())]
    return "\n".join([head, *rows, sum(files.values(), Coverage()).row("all of src/")]) + "\n"


def main(report: Path) -> int:
    files = measure()
    report.write_text(table(files))
    explained = set(re.findall(r"^\| `(src/[^`]+)`", (ROOT / "docs" / "testing.md").read_text(), re.MULTILINE))
    missing = [name for name, coverage in sorted(files.items()) if coverage.missed and name not in explained]
    for name in missing:
        print(f"{name}: lines {ranges(files[name].missed)} are never reached, and docs/testing.md does not say why")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
