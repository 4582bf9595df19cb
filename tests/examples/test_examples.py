"""Every example builds against the installed library as its users would build it, runs, and prints the same as its
namesakes in the other languages."""

import pytest
from julia import julia_example
from project import ROOT, build_program, run
from rust import build_examples

COMPILED = sorted(path for folder in ("c", "cpp") for path in (ROOT / "examples" / folder).glob(f"hello_*.{folder}"))
NAMES = sorted({path.stem for path in COMPILED})
EXAMPLES = [*NAMES, "train"]
SUFFIXES = {"c": "c", "cpp": "cpp", "julia": "jl", "python": "py", "rust": "rs"}


@pytest.fixture(scope="module", params=NAMES)
def outputs(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    found = {}
    for source in COMPILED:
        if source.stem == request.param:
            program = build_program(source, folder / source.suffix[1:], "-pthread")
            found[source.suffix[1:]] = run(program, cwd=folder, timeout=120)
    if (ROOT / "examples" / "rust" / f"{request.param}.rs").exists():
        found["rust"] = run(build_examples() / request.param, cwd=folder, timeout=120)
    found["julia"] = run(*julia_example(request.param), cwd=folder, timeout=120)
    script = ROOT / "examples" / "python" / f"{request.param}.py"
    if script.exists():
        found["python"] = run(ROOT / "build" / "venv" / "bin" / "python", script, cwd=folder, timeout=120)
    return found


def test_example_exists_in_every_language_and_prints(outputs):
    assert outputs.keys() == SUFFIXES.keys()
    assert all(text.strip() for text in outputs.values())


def test_every_language_has_the_same_examples_and_the_readme_names_them():
    readme = (ROOT / "examples" / "README.md").read_text()
    for language, suffix in SUFFIXES.items():
        for name in EXAMPLES:
            path = f"{language}/{name}.{suffix}"
            assert (ROOT / "examples" / path).exists()
            assert f"]({path})" in readme


def test_example_prints_the_same_in_every_language(outputs):
    assert len(set(outputs.values())) == 1, outputs
