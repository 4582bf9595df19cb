"""Each public header by itself, in C and C++, without a warning, and in the subset that every binding reads."""

import re
import shutil

import pytest
from headers import Interface, NotInSubset, parse_header
from project import HEADERS, INCLUDE, WARNINGS, interface, run

COMPILERS = {"c11": ["cc", "-std=c11"], "c++17": ["c++", "-std=c++17"], "c++20": ["c++", "-std=c++20"]}
if shutil.which("clang"):
    COMPILERS |= {"clang c11": ["clang", "-std=c11"], "clang c++17": ["clang++", "-std=c++17"]}
COMPILERS |= {
    f"{name} without exceptions": [*command, "-fno-exceptions"] for name, command in COMPILERS.items() if "c++" in name
}


CPP_HEADERS = sorted(INCLUDE.glob("ddpcache/*.hpp"))
PAIRS = [(compiler, header) for compiler in COMPILERS for header in HEADERS]
PAIRS += [(compiler, header) for compiler in COMPILERS if "c++" in compiler for header in CPP_HEADERS]


@pytest.mark.parametrize(("compiler", "header"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_header_compiles_alone_and_twice(compiler, header, tmp_path):
    source = tmp_path / f"alone{'.c' if 'c11' in compiler else '.cpp'}"
    source.write_text(f'#include "ddpcache/{header.name}"\n' * 2 + "int main(void) { return 0; }\n")
    run(*COMPILERS[compiler], *WARNINGS, "-Wshadow", "-Wconversion", f"-I{INCLUDE}", "-fsyntax-only", source)


def test_headers_are_in_the_subset():
    assert {"dc_version", "dc_abi_version", "dc_strerror"} <= interface().functions.keys()


def test_umbrella_includes_every_header():
    umbrella = (INCLUDE / "ddpcache" / "ddpcache.h").read_text()
    assert {path.name for path in HEADERS} - {"ddpcache.h"} == set(
        re.findall(r'#include "ddpcache/(\w+\.h)"', umbrella)
    )


def test_every_function_is_documented_with_its_first_version():
    for header in HEADERS:
        text = header.read_text()
        documented = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*DC_API [^;]*?\b(dc_\w+)\(", text, re.DOTALL)
        assert [name for _, name in documented] == re.findall(r"^DC_API [^;(]*?\b(dc_\w+)\(", text, re.MULTILINE)
        assert [name for comment, name in documented if "@since" not in comment] == []


PREAMBLE = "typedef struct dc_thing dc_thing;\ntypedef int32_t (*dc_call)(dc_thing *thing, void *user);\n"
FINE = """
enum dc_kind { DC_KIND_ONE = 1, DC_KIND_LAST = -0x7FFFFFFF };
#define DC_LIMIT 12
#define DC_WORD "text"
typedef struct dc_more { uint32_t struct_size; char name[8]; int64_t shape[2];
                         const uint8_t *data; dc_thing *owner; } dc_more;
DC_API int32_t dc_open(const char *name, dc_call call, void *user, dc_more *more, dc_thing **thing);
DC_API const char *dc_text(void);
"""


def parse(text):
    found = Interface()
    parse_header(found, "test.h", f"#ifndef DDPCACHE_TEST_H\n#define DDPCACHE_TEST_H\n{text}\n#endif\n")
    return found


def test_checker_takes_what_is_in_the_subset():
    found = parse(PREAMBLE + FINE)
    assert list(found.functions) == ["dc_open", "dc_text"]
    assert found.enums == {"dc_kind": {"DC_KIND_ONE": 1, "DC_KIND_LAST": -(2**31) + 1}}
    assert found.constants == {"DC_LIMIT": "12", "DC_WORD": '"text"'}
    assert [field.name for field in found.open_structs()["dc_more"]] == [
        "struct_size",
        "name",
        "shape",
        "data",
        "owner",
    ]


@pytest.mark.parametrize(
    "declaration",
    [
        "DC_API int32_t dc_f(size_t n);",
        "DC_API bool dc_f(void);",
        "DC_API _Bool dc_f(void);",
        "DC_API int dc_f(void);",
        "DC_API int32_t dc_f(long n);",
        "DC_API int32_t dc_f(unsigned n);",
        "DC_API int32_t dc_f(uintptr_t n);",
        "DC_API int32_t dc_f(char c);",
        "DC_API int32_t dc_f(char *text);",
        "DC_API int32_t dc_f(const char **texts);",
        "DC_API int32_t dc_f(int64_t **rows);",
        "DC_API int32_t dc_f(int64_t rows[4]);",
        "DC_API int32_t dc_f(const int64_t *const rows);",
        "DC_API int32_t dc_f(dc_thing thing);",
        "DC_API dc_thing dc_f(void);",
        "DC_API int32_t dc_f(const char *format, ...);",
        "DC_API int32_t dc_f();",
        "DC_API int32_t dc_f(int32_t);",
        "DC_API int32_t dc_f(enum dc_kind kind);",
        "DC_API int32_t dc_f(int32_t in);",
        "DC_API int32_t dc_f(int32_t end);",
        "DC_API int32_t dc_f(int32_t ref);",
        "DC_API int32_t dc_f(int32_t type);",
        "DC_API int32_t dc_f(int32_t template);",
        "DC_API int32_t other_f(void);",
        "int32_t dc_f(void);",
        "static inline int32_t dc_f(void) { return 0; }",
        "DC_API __attribute__((pure)) int32_t dc_f(void);",
        "DC_API _Noreturn void dc_f(void);",
        "DC_API int32_t dc_f(int32_t (*call)(void));",
        "extern int32_t dc_variable;",
        "typedef int32_t dc_number;",
        "typedef union dc_u { int32_t a; float b; } dc_u;",
        "union dc_u { int32_t a; float b; };",
        "struct dc_s { uint32_t struct_size; };",
        "typedef struct dc_s { uint32_t struct_size; int32_t bits : 4; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; const char *name; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; char letter; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; void *user; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; dc_call call; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; dc_thing thing; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; int32_t class; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; int32_t a, b; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; int32_t rest[]; } dc_s;",
        "typedef struct dc_s { uint32_t struct_size; struct { int32_t a; } inner; } dc_s;",
        "typedef struct dc_s_options { int32_t a; } dc_s_options;",
        "typedef struct dc_s { int64_t struct_size; } dc_s;",
        "typedef struct dc_view { uint32_t struct_size; } dc_view;",
        "typedef struct dc_s { uint32_t struct_size; } dc_t;",
        "enum dc_e { DC_A };",
        "enum dc_e { DC_A = 1, DC_B };",
        "enum dc_e { DC_A = 1 << 3 };",
        "enum dc_e { DC_A = 2147483648 };",
        "enum dc_e { DC_A = DC_LIMIT };",
        "enum { DC_A = 1 };",
        "typedef enum dc_e { DC_A = 1 } dc_e;",
        "#define DC_TWICE(x) (2 * (x))",
        "#define DC_SUM (1 + 2)",
        "#define OTHER 1",
        "#if __GNUC__ > 4\n#endif",
        "#ifdef DC_DEBUG\nDC_API int32_t dc_f(void);\n#endif",
        "#pragma once",
        "#include <stdlib.h>",
        "// a comment of C++",
        "_Static_assert(sizeof(int32_t) == 4);",
    ],
)
def test_checker_refuses_what_is_not(declaration):
    with pytest.raises(NotInSubset):
        parse(f"{PREAMBLE}#define DC_LIMIT 12\n{declaration}")
