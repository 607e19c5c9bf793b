"""`closed_source`: what the receiver's compiler gets of a source payload, which reads no file of the receiver."""

from __future__ import annotations

import pytest

import devmod
from devmod.backend import closed_source

REFUSED = "#error devmod: a source payload is complete, and does not include a file of its receiver: "
KERNEL = "kernel void k(global int *x) { x[0] = VALUE; }\n"
ASSEMBLY = 'void f() { __asm__ volatile("'


def error_of(kind: str, text: str) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        closed_source(kind, text)
    assert caught.value.kind == kind
    start = f"{'an' if kind == 'opencl' else 'a'} {kind} source may not read a file of its receiver, and this one "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("opencl", KERNEL),
        ("opencl", "//devmod: -cl-mad-enable\n#define A \\\n  1\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#pragma unroll\n" + KERNEL),
        ("opencl", '#line 3 "tile.h"\n#error no\n#undef included\n#define TEXT(important) #important\nint include; // includes\n'),
        ("cuda", '#include <cuda_fp16.h>\n#  include "cub/cub.cuh" // blocks\n#if __has_include(<cuda/std/array>)\n#endif\n'),
        ("cuda", '#define OP(x) asm("cp.async." #x " [%0];" : "=r"(a))\n#define JOIN(a, b) a##b\n'),
        ("rocm", '#include <hip/hip_runtime.h>\n#include "hip/hip_fp16.h"\n'),
        ("rocm", 'asm volatile("s_waitcnt vmcnt(0)\\n\\t" "v_mul_f32 %0, 0.5, %1" : "=v"(x) : "v"(y));\nchar zero = \'\\0\';\n'),
        (
            "opencl",
            'asm("{\\n .reg .pred p;\\n\\tld.global." "u32 %0, [%1];\\n}" : "=r"(x));\n#define CAT(a, b) a ## b\nprintf("%.3f\\\\x\\n", y);\n',
        ),
        ("metal", "#include <metal_stdlib>\n#include <simd/simd.h>\n"),
    ],
)
def test_a_text_without_a_file_is_unchanged(kind: str, text: str) -> None:
    assert closed_source(kind, text) == text


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("spelling", "lines"),
    [
        ('#include "/etc/passwd"', [f'{REFUSED} "/etc/passwd"']),
        ('\t# \v\f\u00a0include"a"', [f'\t{REFUSED}"a"']),
        ("#include MACRO", [f"{REFUSED} MACRO"]),
        ("#include_next <a>", [f"{REFUSED} <a>"]),
        ("#include\\\n_next <a>", [f"{REFUSED}\\", "_next <a>"]),
        ("#import <a>", [f"{REFUSED} <a>"]),
        ("#embed <a>", [f"{REFUSED} <a>"]),
        ("#__include_macros <a>", [f"{REFUSED} <a>"]),
        ("%:include <a>", [f"{REFUSED} <a>"]),
        ("??=include <a>", [f"{REFUSED} <a>"]),
        ("# /* c */ include <a>", [f"{REFUSED} c */ include <a>"]),
        ("#inc\\\nlude <a>", [f"{REFUSED}\\", " <a>"]),
        ("%\\\r\n:in??/\nclude <a>", [f"{REFUSED}\\", "\\", " <a>"]),
        ("#\\ \ninclude <a>", [f"{REFUSED}\\", " <a>"]),
        ("// c\r#include <a>", [f"// c\r{REFUSED} <a>"]),
        ("/* #include <a> */", [f"/* {REFUSED} <a> */"]),
    ],
)
def test_an_include_is_an_error_where_it_is_compiled(spelling: str, lines: list[str]) -> None:
    text = f"#if 0\n{spelling}\n#endif\n{KERNEL}"
    assert closed_source("opencl", text).split("\n") == ["#if 0", *lines, "#endif", KERNEL.rstrip(), ""]


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("cuda", ["</etc/passwd>", '"/etc/passwd"', '"../x.h"', "<a/../../x.h>", '"a/.."', '"C:/x.h"', '"a\\b.h"', "MACRO", "<>"]),
        ("rocm", ["<stdio.h>", '"x.h"', "<hip/../x.h>", "<hip>", "</hip/x.h>"]),
        ("metal", ["</etc/passwd>", '"../x.h"']),
    ],
)
def test_a_header_of_the_compiler_has_a_relative_name(kind: str, names: list[str]) -> None:
    for name in names:
        assert closed_source(kind, f"#include {name}\n") == f"{REFUSED} {name}\n"
        query = f"#if __has_include({name})\n#endif\n"
        assert closed_source(kind, query) == "#define devmod_has_no_file(file) 0\n#line 1\n" + query.replace(
            "__has_include", "devmod_has_no_file"
        )


@pytest.mark.row("R30")
def test_no_query_finds_a_file() -> None:
    text = "//devmod: -w\n#if defined(__has_include) && __has_include_next(<a>) || __has_em\\\nbed(<b>)\n#define H(x) __has_include(x)\n#endif\n"
    assert closed_source("opencl", text) == (
        "#define devmod_has_no_file(file) 0\n#line 1\n//devmod: -w\n#if defined(devmod_has_no_file) && devmod_has_no_file(<a>) || "
        "devmod_has_no_file\\\n(<b>)\n#define H(x) devmod_has_no_file(x)\n#endif\n"
    )
    assert error_of("opencl", "//devmod: -DH=__has_include\n") == "has an option with __has_include or __has_embed. Leave it out"
    joined = "could make __has_include with the operator ##. Rename what the operator joins"
    assert error_of("cuda", "#define C(a, b) a##b\n#if C(__has_, include)(<a>)\n#endif\n") == joined
    assert error_of("opencl", "#define C(a) __has_ %\\\n:%: a\n#if C(include)(<a>)\n#endif\n") == joined


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#\\u0069nclude <a>", "has a letter by its number in Unicode, which could be part of such a name. Write the letter itself"),
        ('#pragma GCC dependency "/etc/passwd"', "has a pragma with the name of a file: dependency"),
        ('_Pragma("clang dependency </etc/passwd>")', "has a pragma with the name of a file: dependency"),
        ("#pragma clang module import std", "has a pragma with the name of a file: clang"),
        ('#pragma include_alias("a", "b")', "has a pragma with the name of a file: include_alias"),
    ],
)
def test_names_of_files_in_other_places_are_refused(text: str, problem: str) -> None:
    assert error_of("opencl", text) == problem


DIRECTIVE = "has inline assembly with the directive {}. Use assembly without it"
BEGINNING = "has inline assembly and a text that ends in {!r}, where a directive may begin. Write the text in one string"


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ASSEMBLY + '.incbin \\"/etc/passwd\\"");}', DIRECTIVE.format(".incbin")),
        (ASSEMBLY + '\\n.INCLUDE \\"a\\"");}', DIRECTIVE.format(".INCLUDE")),
        (ASSEMBLY + '.inc" "bin \\"a\\"");}', DIRECTIVE.format(".incbin")),
        (ASSEMBLY + '.in\\\ncbin \\"a\\"");}', DIRECTIVE.format(".incbin")),
        (ASSEMBLY + '.macro m a b\\n.\\\\a\\\\b \\"x\\"\\n.endm\\nm inc bin");}', DIRECTIVE.format(".macro")),
        (ASSEMBLY + '.section .deplibs,\\"MS\\",@llvm_dependent_libraries,1");}', DIRECTIVE.format(".section")),
        (ASSEMBLY + '" ".inc" REST);}', BEGINNING.format(".inc")),
        (ASSEMBLY + '." INCBIN);}', BEGINNING.format(".")),
        (ASSEMBLY + '.%c0 \\"a\\"" :: "i"(&incbin));}', BEGINNING.format(".")),
        (ASSEMBLY + '.inc{bin|x} \\"a\\"");}', BEGINNING.format(".inc")),
        (
            '#define T R"(.inc)" R"(bin "a")"\n' + ASSEMBLY + '" T);}',
            "has inline assembly and a raw string, which may have a directive. Write an ordinary string",
        ),
        (
            ASSEMBLY + '\\x2eincbin \\"a\\"");}',
            "has inline assembly and a string with a character by its number, which may be part of a directive. Write the character",
        ),
        (
            ASSEMBLY + '\\56incbin \\"a\\"");}',
            "has inline assembly and a string with a character by its number, which may be part of a directive. Write the character",
        ),
        (
            ASSEMBLY + '\\q");}',
            "has inline assembly and a string with a character by its number, which may be part of a directive. Write the character",
        ),
        (
            "#define T(x) #x\n" + ASSEMBLY + '" T(.CAT(inc, bin) "a"));}',
            "has inline assembly and a macro with the operator #, which may make a directive. Write the text in a string",
        ),
    ],
)
def test_assembly_that_may_read_a_file_is_refused(text: str, problem: str) -> None:
    for kind in ("opencl", "rocm"):
        assert error_of(kind, text) == problem


@pytest.mark.row("R30")
def test_the_operator_cannot_make_the_keyword_of_assembly() -> None:
    text = "#define CAT(a, b) a##b\nint a, as, m;\n"
    names = "".join(f"#define {name} devmod_has_no_assembly\n" for name in ("asm", "_asm", "__asm", "__asm__"))
    assert closed_source("rocm", text) == f"{names}#line 1\n{text}"
    assert closed_source("cuda", text) == text  # PTX has no such directive


@pytest.mark.row("R30")
def test_a_kind_without_a_target_includes_nothing() -> None:
    assert closed_source("nobody", "#include <a>\n") == f"{REFUSED} <a>\n"
