"""The documents of the repository as a reader finds them."""

import re

from project import ROOT


def test_no_placeholder_stands_in_a_document():
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name != "build" and path.name[0] != "."]
    documents = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]
    assert {ROOT / "README.md", ROOT / "docs" / "format.md"} <= set(documents)
    found = {str(path.relative_to(ROOT)): re.findall(r"@[A-Z]+@", path.read_text()) for path in documents}
    assert {name: marks for name, marks in found.items() if marks} == {}
