"""bindings/swig/generate: what it refuses, what it reads, and that the committed files are what it writes."""

import re
import shutil
import subprocess
import sys

import pytest
from generator import comments, julia, layout, python, rust
from generator.interface import Refused, Type
from generator.public import EXPORTS, ROOT, find_swig, header_names, public_interface
from generator.tree import parse_headers

GENERATE = ROOT / "bindings" / "swig" / "generate"
WRITERS = [julia.write, python.write, rust.write]


def read(folder, text):
    """The interface of one header that holds this text."""
    include = folder / "include"
    (include / "ddpcache").mkdir(parents=True, exist_ok=True)
    guard = "#ifndef DDPCACHE_SMALL_H\n#define DDPCACHE_SMALL_H\n#include <stdint.h>\n"
    hidden = "#ifndef SWIG\n#define DC_API\n#endif\n"
    (include / "ddpcache" / "small.h").write_text(f"{guard}{hidden}{text}\n#endif\n")
    return include, parse_headers(find_swig(), include, ["ddpcache/small.h"])


# The declaration begins in line 7, after the guard and DC_API.
REFUSED = {
    "a cast": ("#define DC_A ((int32_t)5)", 7, "DC_A is no literal"),
    "UINT32_C": ("#define DC_A UINT32_C(5)", 7, "DC_A is no literal"),
    "sizeof": ("#define DC_A sizeof(int32_t)", 7, "DC_A is no literal"),
    "an initialiser": ("#define DC_A {1, 2}", 7, "DC_A is no literal"),
    "a macro with parameters": ("#define DC_A(x) (x)", 7, "DC_A is no literal"),
    "an empty macro": ("#define DC_A", 7, "DC_A is no literal"),
    "an indented define": ("#  define DC_A ((int32_t)5)", 7, "DC_A is no literal"),
    "text": ('#define DC_A "text"', 7, "not an expression of integers"),
    "a float": ("#define DC_A 1.5", 7, "not an expression of integers"),
    "a character": ("#define DC_A 'c'", 7, "not an expression of integers"),
    "an octal number": ("#define DC_A 010", 7, "octal"),
    "more than 64 bits": ("#define DC_A 18446744073709551616", 7, "does not fit"),
    "a decimal that C makes a 128-bit number": ("#define DC_A 9223372036854775808", 7, "fits no type"),
    "an enum without values": ("enum dc_e { DC_A = 1, DC_B };", 7, "DC_B has no value"),
    "an enum that is no int32": ("enum dc_e { DC_A = 1 << 31 };", 7, "DC_A is no int32"),
    "an enum of an unknown name": ("enum dc_e { DC_A = OTHER };", 7, "known names"),
    "a value twice": ("enum dc_e { DC_A = 1 };\nenum dc_f { DC_A = 1 };", None, "DC_A"),
    "an enum without a name": ("enum { DC_A = 1 };", 7, "an enum without a name"),
    "a typedef of an enum": ("typedef enum dc_e { DC_A = 1 } dc_e;", 7, "typedef dc_e"),
    "a union": ("union dc_u { int32_t a; float b; };", 7, "union dc_u"),
    "a union inside": ("typedef struct dc_s { union { int32_t a; float b; } u; } dc_s;", 7, "typedef union"),
    "a struct inside": ("typedef struct dc_s { struct { int32_t a; } u; } dc_s;", 7, "typedef struct"),
    "a struct by value inside": (
        "typedef struct dc_r { int32_t a; } dc_r;\ntypedef struct dc_s { dc_r r; } dc_s;",
        8,
        "dc_s.r: no type of a field: dc_r",
    ),
    "a bit-field": ("typedef struct dc_s {\n  uint32_t a : 4;\n} dc_s;", 8, "dc_s.a is a bit-field"),
    "two dimensions": ("typedef struct dc_s {\n  int32_t a[2][3];\n} dc_s;", 8, "dc_s.a: no type of the bindings"),
    "an array of nothing": ("typedef struct dc_s {\n  int32_t a[0];\n} dc_s;", 8, "an array of 0"),
    "an open array": ("typedef struct dc_s {\n  int32_t n;\n  int32_t a[];\n} dc_s;", 9, "dc_s.a: an array without"),
    "a volatile field": ("typedef struct dc_s {\n  volatile int32_t a;\n} dc_s;", 8, "dc_s.a: no type"),
    "text in a struct": ("typedef struct dc_s {\n  const char *a;\n} dc_s;", 8, "dc_s.a: no type of a field"),
    "a callback in a struct": ("typedef struct dc_s {\n  int32_t (*a)(void);\n} dc_s;", 8, "dc_s.a"),
    "a type of the compiler": (
        "typedef struct dc_s {\n  size_t a;\n} dc_s;",
        8,
        "dc_s.a: no type of the bindings: size_t",
    ),
    "a struct before it is declared": (
        "typedef struct dc_r dc_r;\ntypedef struct dc_s { dc_r *r; } dc_s;\ntypedef struct dc_r { dc_s *s; } dc_r;",
        8,
        "dc_s.r: no type of the bindings: p.dc_r",
    ),
    "a struct that points to itself": ("typedef struct dc_s {\n  struct dc_s *s;\n} dc_s;", 8, "dc_s.s: no type"),
    "size_t": ("/** x */\nDC_API int32_t dc_f(size_t a);", 8, "dc_f, parameter a: no type of the bindings: size_t"),
    "bool": ("/** x */\nDC_API bool dc_f(void);", 8, "the result of dc_f"),
    "long": ("/** x */\nDC_API long dc_f(void);", 8, "the result of dc_f"),
    "varargs": ("/** x */\nDC_API int32_t dc_f(int32_t a, ...);", 8, "dc_f takes any number"),
    "a parameter without a name": ("/** x */\nDC_API int32_t dc_f(int32_t);", 8, "parameter without a name"),
    "an array as parameter": ("/** x */\nDC_API int32_t dc_f(int32_t a[4]);", 8, "dc_f, parameter a"),
    "char without const": ("/** x */\nDC_API int32_t dc_f(char *a);", 8, "dc_f, parameter a"),
    "text in two stars": ("/** x */\nDC_API int32_t dc_f(const char **a);", 8, "dc_f, parameter a"),
    "numbers in two stars": ("/** x */\nDC_API int32_t dc_f(int32_t **a);", 8, "dc_f, parameter a"),
    "a constant pointer": ("/** x */\nDC_API int32_t dc_f(int32_t *const a);", 8, "dc_f, parameter a"),
    "a struct by value": (
        "typedef struct dc_s { int32_t a; } dc_s;\n/** x */\nDC_API int32_t dc_f(dc_s a);",
        9,
        "dc_f, parameter a: no type of a parameter or result: dc_s",
    ),
    "a callback without a type": ("/** x */\nDC_API int32_t dc_f(int32_t (*a)(void));", 8, "dc_f"),
    "a function that gives a function": ("/** x */\nDC_API void (*dc_f(void))(int32_t);", 8, "dc_f"),
    "no prototype": ("/** x */\nDC_API int32_t dc_f();", 8, "dc_f has no prototype"),
    "inline code": ("static inline int32_t dc_f(int32_t a) { return a; }", 7, "dc_f is static"),
    "a variable": ("extern int32_t dc_a;", 7, "variable dc_a"),
    "a typedef of a number": ("typedef int32_t dc_a;", 7, "typedef dc_a"),
    "a function without a comment": ("DC_API int32_t dc_f(void);", 7, "dc_f has no comment"),
    "a foreign prefix": ("/** x */\nDC_API int32_t f(void);", 8, "no name that begins with dc_"),
    "a word of Python": ("typedef struct dc_s {\n  int32_t from;\n} dc_s;", 8, "`from` is a reserved word"),
    "a word of Julia": ("/** x */\nDC_API int32_t dc_f(int32_t end);", 8, "`end` is a reserved word"),
    "a word of Rust": ("/** x */\nDC_API int32_t dc_f(int32_t match);", 8, "`match` is a reserved word"),
    "a word of C++": ("/** x */\nDC_API int32_t dc_f(int32_t delete_, int32_t xor);", None, "xor"),
    "an unknown command": ("/** @brief x */\nDC_API int32_t dc_f(void);", 8, "unknown command: @brief"),
    "a parameter that is not there": (
        "/** x\n *  @param b no */\nDC_API int32_t dc_f(int32_t a);",
        9,
        "a parameter b, which it has not",
    ),
    "a comment of nothing": ("/** of what? */\n\n/** x */\nDC_API int32_t dc_f(void);", None, "dc_f"),
    "two comments at one": ("/** before */\n#define DC_A 5 /**< after */", 8, "the comment of DC_A"),
    "a comment at the end": ("#define DC_A 5\n/** of what? */", None, "belongs to no declaration"),
}


@pytest.mark.parametrize(("text", "line", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_not_every_language_can_say_is_refused_with_its_place(text, line, reason, tmp_path):
    with pytest.raises(Refused) as refused:
        read(tmp_path, text)
    assert reason in str(refused.value)
    if line:
        assert str(refused.value).startswith(f"include/ddpcache/small.h:{line}: ")


def test_a_lost_constant_does_not_pass_its_comment_on(tmp_path):
    """SWIG gives the comment of a constant that it drops to the next item."""
    header = "/** of A */\n#define DC_A ((int32_t)5)\n#define DC_B 6\n"
    tree = tmp_path / "tree.xml"
    (tmp_path / "small.h").write_text(header)
    (tmp_path / "small.i").write_text('%module small\n%include "small.h"\n')
    command = [find_swig(), "-python", "-doxygen", "-outdir", tmp_path, "-o", tmp_path / "wrap.c", "-xmlout", tree]
    subprocess.run([*command, f"-I{tmp_path}", tmp_path / "small.i"], check=True)
    assert "DC_A" not in tree.read_text() and " of A " in tree.read_text(), "the trap is gone: its guards may go too"
    with pytest.raises(Refused, match="small.h:8: DC_A is no literal"):
        read(tmp_path, header)


FINE = """
/** A handle. Opaque. */
typedef struct dc_thing dc_thing;
#define DC_LIMIT 12 /**< of things */
#define DC_HALF (DC_LIMIT - 6)
#define DC_HEX 0xFFFFFFFF
#define DC_LARGE 4294967296
#define DC_HUGE 18446744073709551615u
/** Kinds. */
enum dc_kind { DC_KIND_ONE = 1, /**< the first */ DC_KIND_LEAST = INT32_MIN, DC_KIND_BIT = 1 << 3 };
/** Called back. */
typedef int32_t (*dc_call)(dc_thing *thing, const uint8_t *bytes, void *user);
/** A struct. */
typedef struct dc_more {
  char name[2 * 4]; /**< ends in NUL */
  int64_t shape[DC_LIMIT];
  const uint8_t *data;
  dc_thing *owner;
  float scale;
  uint16_t small[2];
} dc_more;
/** Opens.
 *
 *  Between [0, n), *not* n*m*k, costs $5:
 *    kept as it is
 *  - one
 *    and a half
 *  - two
 *
 *  @param thing  receives
 *    it
 *  @return 0
 *  Never blocks. @since 0.1 */
DC_API int32_t dc_open(const char *name, dc_call call, void *user, const dc_more *more, dc_thing **thing);
/** Some text. */
DC_API const char *dc_text(void);
/** Closes. */
DC_API void dc_close(dc_thing *thing);
"""


@pytest.fixture(scope="module")
def fine(tmp_path_factory):
    return read(tmp_path_factory.mktemp("fine"), FINE)


def test_types_values_and_bounds_are_read(fine):
    _, interface = fine
    values = {name: (each.value, each.ctype) for name, each in interface.constants.items()}
    assert values == {
        "DC_HALF": (6, "int32_t"),
        "DC_HEX": (2**32 - 1, "uint32_t"),
        "DC_HUGE": (2**64 - 1, "uint64_t"),
        "DC_LARGE": (2**32, "int64_t"),
        "DC_LIMIT": (12, "int32_t"),
    }
    assert [item.value for item in interface.enums["dc_kind"].items] == [1, -(2**31), 8]
    assert [field.type for field in interface.structs["dc_more"].fields] == [
        Type("char", length=8),
        Type("int64_t", length=12),
        Type("uint8_t", pointers=1, const=True),
        Type("dc_thing", pointers=1),
        Type("float"),
        Type("uint16_t", length=2),
    ]
    opening = interface.functions["dc_open"]
    assert [each.type for each in opening.parameters] == [
        Type("char", pointers=1, const=True),
        Type("dc_call"),
        Type("void", pointers=1),
        Type("dc_more", pointers=1, const=True),
        Type("dc_thing", pointers=2),
    ]
    assert interface.functions["dc_text"].result == Type("char", pointers=1, const=True)
    assert interface.callbacks["dc_call"].parameters[1].type == Type("uint8_t", pointers=1, const=True)


def test_the_c_compiler_says_the_same(fine):
    include, interface = fine
    layout.check(interface, include, ["ddpcache/small.h"])
    assert layout.probed(interface, include, ["ddpcache/small.h"]) == layout.computed(interface)


def test_a_wrong_computation_is_noticed(fine, monkeypatch):
    include, interface = fine
    monkeypatch.setitem(layout.SCALARS, "uint16_t", 4)
    with pytest.raises(Refused, match="small at 128 size 8`, the C compiler says `small at 128 size 4|padding"):
        layout.check(interface, include, ["ddpcache/small.h"])


def test_hidden_padding_is_refused(tmp_path):
    include, interface = read(tmp_path, "typedef struct dc_s { int32_t a; int64_t b; } dc_s;")
    with pytest.raises(Refused, match="dc_s has 4 bytes of hidden padding"):
        layout.check(interface, include, ["ddpcache/small.h"])


def test_comments_keep_their_parts(fine):
    _, interface = fine
    comment = interface.functions["dc_open"].comment
    assert [(piece.kind, piece.text) for piece in comment if piece.kind != "verbatim"] == [
        ("text", "Opens."),
        ("text", "Between [0, n), *not* n*m*k, costs $5:"),
        ("bullet", "one and a half"),
        ("bullet", "two"),
        ("param", "receives it"),
        ("return", "0"),
        ("text", "Never blocks."),
        ("since", "0.1"),
    ]
    rustdoc = "\n".join(comments.markdown(comment, 90, rust.MARKUP))
    assert "Between \\[0, n), *not* n\\*m\\*k, costs $5:" in rustdoc and "```text\nkept as it is\n```" in rustdoc
    assert "costs \\$5" in julia.write(interface, "banner")
    assert ":param thing: receives it\n" in python.write(interface, "banner")
    for write in WRITERS:
        text = write(interface, "banner")
        assert all(words in text for words in ("of things", "the first", "ends in NUL", "A handle. Opaque.", "Kinds."))


def test_output_is_sorted_whatever_the_order_of_the_header(tmp_path):
    forward = (
        "/** a */\nDC_API int32_t dc_a(void);\n/** b */\nDC_API int32_t dc_b(void);\n#define DC_Y 1\n#define DC_Z 2\n"
    )
    back = (
        "#define DC_Z 2\n#define DC_Y 1\n/** b */\nDC_API int32_t dc_b(void);\n/** a */\nDC_API int32_t dc_a(void);\n"
    )
    _, one = read(tmp_path / "one", forward)
    _, two = read(tmp_path / "two", back)
    assert [write(one, "") for write in WRITERS] == [write(two, "") for write in WRITERS]


def test_committed_files_are_what_the_generator_writes():
    result = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_stale_file_fails_the_check(tmp_path):
    shutil.copytree(ROOT / "bindings", tmp_path / "bindings", ignore=shutil.ignore_patterns("__pycache__", "target"))
    raw = tmp_path / "bindings" / "julia" / "src" / "raw.jl"
    raw.write_text(raw.read_text().replace("dc_version", "dc_verzion"))
    command = [sys.executable, GENERATE, "--check", "--output", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "not up to date: bindings/julia/src/raw.jl" in result.stderr and "+function dc_version()" in result.stdout


def test_another_checkout_and_folder_give_the_same_bytes(tmp_path):
    """SWIG's tree holds paths and addresses; none of them may show."""
    checkout = tmp_path / "another" / "checkout"
    for name in ("include", "bindings/swig"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (EXPORTS.relative_to(ROOT), "pyproject.toml"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    command = [sys.executable, checkout / "bindings/swig/generate", "--output", checkout]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    written = re.findall(r"^wrote (.*)$", result.stdout, re.MULTILINE)
    assert len(written) == len(WRITERS)
    for name in written:
        assert (checkout / name).read_bytes() == (ROOT / name).read_bytes()
        assert str(ROOT) not in (ROOT / name).read_text()


def test_every_export_is_in_every_file():
    exports = re.findall(r"^    (\w+);$", EXPORTS.read_text(), re.MULTILINE)
    forms = {
        "julia/src/raw.jl": r"^function (dc_\w+)\(",
        "python/ddpcache/raw.py": r"^def (dc_\w+)\(",
        "rust/ddpcache-sys/src/raw.rs": r"^    pub fn (dc_\w+)\(",
    }
    for name, form in forms.items():
        assert re.findall(form, (ROOT / "bindings" / name).read_text(), re.MULTILINE) == exports, name


def test_every_header_is_read():
    assert {f"ddpcache/{path.name}" for path in ROOT.glob("include/ddpcache/*.h")} == {
        *header_names(),
        "ddpcache/ddpcache.h",
    }


def test_every_constant_but_the_versions_says_what_it_is():
    interface = public_interface()
    items = [item for enum in interface.enums.values() for item in enum.items]
    undocumented = {each.name for each in [*interface.constants.values(), *items] if not each.comment}
    assert undocumented <= {f"DC_{word}" for word in ("ABI_VERSION", "FORMAT_VERSION")} | {
        f"DC_VERSION_{part}" for part in ("MAJOR", "MINOR", "PATCH")
    }
