"""`closed_source`: what the receiver's compiler gets of a source payload, which reads no file of
the receiver.
"""

from __future__ import annotations

import pytest

import devmod
from devmod_readers.sources import closed_source

pytestmark = pytest.mark.once  # texts, which the reader reads itself

REFUSED = (
    "#error devmod: a source payload is complete, and does not include a file of its receiver: "
)
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
        (
            "opencl",
            "//devmod: -cl-mad-enable\n#define A \\\n  1\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#pragma unroll\n"
            + KERNEL,
        ),
        (
            "opencl",
            '#line 3 "tile.h"\n#error no\n#undef included\n#define TEXT(important) #important\nint include; // includes\n',
        ),
        (
            "cuda",
            '#include <cuda_fp16.h>\n#  include "cub/cub.cuh" // blocks\n#if __has_include(<cuda/std/array>)\n#endif\n',
        ),
        ("cuda", '#define OP(x) asm("cp.async." #x " [%0];" : "=r"(a))\n#define JOIN(a, b) a##b\n'),
        (
            "cuda",
            'asm("mov.u32 %0, 1;" : "=r"(x)); // a path: C:\\u0041\nconst char *s = "\\x{41}";\n',
        ),
        (
            "rocm",
            "struct S { int rep, section; };\n__global__ void k(S s, int *x) { x[0] = s.rep + s.section; }\n",
        ),
        (
            "opencl",
            '/* this pragma has a dependency "a" */\n#pragma unroll 4 // no dependency\n_Pragma("unroll") int x; // a module\n'
            + KERNEL,
        ),
        ("opencl", "#define TEXT(x) #x\n#define UNROLL(n) _Pragma(TEXT(unroll n))\n" + KERNEL),
        ("metal", "#include <metal_stdlib>\n#include <simd/simd.h>\n"),
        ("opencl", '#\\include "a.h"\n'),
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
        ("#import <a>", [f"{REFUSED} <a>"]),
        ("#embed <a>", [f"{REFUSED} <a>"]),
        ("#__include_macros <a>", [f"{REFUSED} <a>"]),
        ("%:include <a>", [f"{REFUSED} <a>"]),
        ("# /* c */ include <a>", [f"{REFUSED} c */ include <a>"]),
        ("#\u180e\x1c\\\r\n include <a>", [f"{REFUSED}\\", " <a>"]),
        ('import "a";', [f'{REFUSED} "a";']),
        ("# \\ \ninclude <a>", [f"{REFUSED}\\", " <a>"]),
        ("// c\r#include <a>", [f"// c\r{REFUSED} <a>"]),
        ("/* #include <a> */", [f"/* {REFUSED} <a> */"]),
    ],
)
def test_an_include_is_an_error_where_it_is_compiled(spelling: str, lines: list[str]) -> None:
    text = f"#if 0\n{spelling}\n#endif\n{KERNEL}"
    assert closed_source("opencl", text).split("\n") == [
        "#if 0",
        *lines,
        "#endif",
        KERNEL.rstrip(),
        "",
    ]


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "cuda",
            [
                "</etc/passwd>",
                '"/etc/passwd"',
                '"../x.h"',
                "<a/../../x.h>",
                '"a/.."',
                '"C:/x.h"',
                '"a\\b.h"',
                "MACRO",
                "<>",
            ],
        ),
        ("rocm", ["<stdio.h>", '"x.h"', "<hip/../x.h>", "<hip>", "</hip/x.h>"]),
        ("metal", ["</etc/passwd>", '"../x.h"']),
    ],
)
def test_a_header_of_the_compiler_has_a_relative_name(kind: str, names: list[str]) -> None:
    for name in names:
        assert closed_source(kind, f"#include {name}\n") == f"{REFUSED} {name}\n"
        query = f"#if __has_include({name})\n#endif\n"
        assert closed_source(
            kind, query
        ) == "#define devmod_has_no_file(file) 0\n#line 1\n" + query.replace(
            "__has_include", "devmod_has_no_file"
        )


@pytest.mark.row("R30")
def test_no_query_finds_a_file() -> None:
    text = "//devmod: -w\n#if defined(__has_include) && __has_include_next(<a>) || __has_embed(<b>)\n#define H(x) __has_include(x)\n#endif\n"
    assert closed_source("opencl", text) == (
        "#define devmod_has_no_file(file) 0\n#line 1\n//devmod: -w\n#if defined(devmod_has_no_file) && devmod_has_no_file(<a>) || "
        "devmod_has_no_file(<b>)\n#define H(x) devmod_has_no_file(x)\n#endif\n"
    )
    for word in ("__has_include", "__asm__", "_Pragma", "__volatile__"):
        assert (
            error_of("opencl", f"//devmod: -w -DH={word}\n")
            == f"has an option with {word}. Leave it out"
        )
    joined = "could make __has_include with the operator ##. Rename what the operator joins"
    assert error_of("cuda", "#define C(a, b) a##b\n#if C(__has_, include)(<a>)\n#endif\n") == joined
    assert error_of("opencl", "#define C(a) __has_ %:%: a\n#if C(include)(<a>)\n#endif\n") == joined
    header = "#include <cuda/std/__cccl/preprocessor.h>\n#if _CCCL_PP_CAT(__has_, include)(<a>)\n#endif\n"
    assert error_of("cuda", header) == joined


@pytest.mark.row("R30")
def test_what_metal_has_in_strings_joins_no_names() -> None:
    """As MLX names its kernels: "_" is between the texts of types, and single letters are
    elsewhere.
    """
    text = """#include <metal_stdlib>
#define NAMED(type) template [[host_name("k_" #type "_" "_has_" #type)]] [[kernel]] decltype(k<type>) k<type>;
#define C(a, b) a##b
int h, a, s, n, e, x, t;
"""
    assert closed_source("metal", text) == text
    joined = "could make __has_include_next with the operator ##. Rename what the operator joins"
    for other in ("C(_, x)", '"a" _', "'\"'_", 'u8R"(a)" _'):
        assert error_of("metal", text + other + ";\n") == joined
    assert error_of("metal", '//devmod: -DU="_\n' + text) == joined
    # In C, a name may follow a string.
    assert error_of("opencl", text) == joined
    assert error_of("cuda", text) == joined


SPLIT = "has a word or an operator in two lines or with a trigraph. Write it in one line, with its own characters"
PRAGMA = "has a pragma with the name of a file, or with a comment in its place: {}"
MADE = "could make {} with the operator ##. Rename what the operator joins"


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#in\\\nclude <a>", SPLIT),
        ("__h\\ \r\nas_include", SPLIT),
        ("#define C(a, b) a %:\\\n%: b", SPLIT),
        ("#/\\\u00a0\n* c */ include <a>", SPLIT),
        ("// c\\\x1c\n__asm__(TEXT)", SPLIT),
        ("??=include <a>", SPLIT),
        ("#define C(a, b) a #??= b", SPLIT),
        ("// c??/\nasm(TEXT)", SPLIT),
        ('#pragma GCC dependency "/etc/passwd"', PRAGMA.format("dependency")),
        ("#pragma GCC \\\n dependency NAME", PRAGMA.format("dependency")),
        ('#pragma GCC /*a*/ dependency "a"', PRAGMA.format("/*")),
        ('#pragma GCC dependency /*a*/ "a"', PRAGMA.format("dependency")),
        ("#pragma clang/**/module import std", PRAGMA.format("/*")),
        ("%:pragma clang module import std", PRAGMA.format("module")),
        ('#pragma comment(lib, "a")', PRAGMA.format("comment")),
        ('#pragma include_alias("a", "b")', PRAGMA.format("include_alias")),
        ('_Pragma("clang dependency </etc/passwd>")', PRAGMA.format("dependency")),
        (
            '#define P(x) _Pragma(#x)\nP(GCC D)\n#define D dependency "a"',
            PRAGMA.format("dependency"),
        ),
        (
            "#define C(a, b) a##b\n#define P(x) _Pragma(T(x))\nP(GCC C(depend, ency) <a>)",
            MADE.format("dependency"),
        ),
        ('#define C(a, b) a##b\nC(_Prag, ma)("GCC dependency <a>")', MADE.format("_Pragma")),
    ],
)
def test_names_of_files_in_other_places_are_refused(text: str, problem: str) -> None:
    assert error_of("opencl", text) == problem


DIRECTIVE = "has inline assembly with {!r}, where a directive that reads a file may begin. Use assembly without it"
FORM = 'has inline assembly in another form than {} volatile("text" "text" : ...). Write its text in plain strings there'
WEAKREF = "has inline assembly and the attribute weakref, which may bring a directive. Leave the attribute out"


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ('__asm__("nop");', '__asm__("nop");'),
        ('__asm__ __volatile__ ("nop" : : );', '__asm__ __volatile__ ("nop" : : );'),
        (
            'asm("v_mul_f32 %0, 0.5, %1\\n\\t" "s_nop 0" : "=v"(x) : "v"(y));',
            '__asm__("v_mul_f32 %0, 0.5, %1\\n\\t" "s_nop 0" : "=v"(x) : "v"(y));',
        ),
        (
            '__asm volatile(\n  "a"\n\n  "b" \\\n  :\n  "=v"(x));',
            '__asm__ __volatile__( \\\n  "a" \\\n \\\n  "b"  \\\n  :\n  "=v"(x));',
        ),
        ('asm\r\nvolatile("a");', '__asm__ \\\r\n__volatile__("a");'),
        (
            'int x asm("name"); // "foo..." and "etc."',
            'int x __asm__("name"); // "foo..." and "etc."',
        ),
        (
            'asm("{\\n .reg .pred p;\\n\\tld.global.u32 %0, [%1];}" : "=r"(x));',
            '__asm__("{\\n .reg .pred p;\\n\\tld.global.u32 %0, [%1];}" : "=r"(x));',
        ),
        (
            'asm("");printf("done. %d.%d R\\"\\x41", s.rep);\n#define T(x) #x\n',
            '__asm__("");printf("done. %d.%d R\\"\\x41", s.rep);\n#define T(x) #x\n',
        ),
        (
            '#define __volatile__ (TEXT)\nasm volatile("");',
            '#define volatile (TEXT)\n__asm__ __volatile__("");',
        ),
        ("// asm version uses .rept", "// devmod_has_no_assembly version uses .rept"),
        ('asm\\("nop");', 'devmod_has_no_assembly\\("nop");'),
        ("#define M asm\nint __volatile__ x;", "#define M devmod_has_no_assembly\nint volatile x;"),
    ],
)
def test_assembly_in_plain_strings_remains(text: str, closed: str) -> None:
    for kind in ("opencl", "rocm"):
        assert closed_source(kind, text) == closed
    assert closed_source("cuda", text) == text  # PTX has no such directive


@pytest.mark.parametrize(
    "text",
    [
        "#define W weak##ref\n",
        "int w, e, a, k, r, f;\n",
        "#define C(a, b) a##b\nint __weak, ref__;\n",
    ],
)
def test_the_operator_makes_no_weak_symbol_beside_assembly(text: str) -> None:
    """A large source has all letters of weakref as words."""
    head = "".join(
        f'#define {word} "devmod: the operator ## makes no name of a symbol"\n'
        for word in ("weakref", "__weakref__")
    )
    joined = "".join(
        f'#define {word} "devmod: the operator ## makes no keyword of assembly"\n'
        for word in ("asm", "_asm")
    )
    closed = closed_source("opencl", text + 'asm("%P0" :: "i"(x));\n')
    assert (
        closed
        == head + joined * ("##" in text) + "#line 1\n" + text + '__asm__("%P0" :: "i"(x));\n'
    )
    assert closed_source("opencl", text) == (joined + "#line 1\n") * ("##" in text) + text


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ASSEMBLY + '.incbin \\"/etc/passwd\\"");}', DIRECTIVE.format(".incbin")),
        (ASSEMBLY + '\\n.INCLUDE \\"a\\"");}', DIRECTIVE.format(".INCLUDE")),
        (ASSEMBLY + '.inc" "bin \\"a\\"");}', DIRECTIVE.format(".incbin")),
        (ASSEMBLY + '.rept 1");}', DIRECTIVE.format(".rept")),
        (
            ASSEMBLY + '.section .deplibs,\\"MS\\",@llvm_dependent_libraries,1");}',
            DIRECTIVE.format(".section"),
        ),
        (ASSEMBLY + '.%c0 \\"a\\"" :: "i"(&incbin));}', DIRECTIVE.format(".")),
        (ASSEMBLY + '.inc{bin|x} \\"a\\"");}', DIRECTIVE.format(".inc")),
        (
            'extern int x asm(".inc"), y asm("bin \\"a\\"");\nasm("%c0%c1" :: "i"(&x), "i"(&y));',
            DIRECTIVE.format(".inc"),
        ),
        (ASSEMBLY + '" ".inc" REST);}', FORM.format("__asm__")),
        (ASSEMBLY + '." INCBIN);}', FORM.format("__asm__")),
        (ASSEMBLY + '.in\\\ncbin \\"a\\"");}', SPLIT),
        (ASSEMBLY + '\\\n.incbin \\"a\\"");}', FORM.format("__asm__")),
        ('#define T R"(.inc)" R"(bin "a")"\n' + ASSEMBLY + '" T);}', FORM.format("__asm__")),
        ('asm(R"(.incbin "a")");', FORM.format("asm")),
        (ASSEMBLY + '\\x2eincbin \\"a\\"");}', FORM.format("__asm__")),
        (ASSEMBLY + '\\56incbin \\"a\\"");}', FORM.format("__asm__")),
        (
            ASSEMBLY + '.macro m a b\\n.\\\\a\\\\b \\"x\\"\\n.endm\\nm inc bin");}',
            FORM.format("__asm__"),
        ),
        ('#define S(x) /*\n*/ #x\nasm(S(.inc) "bin \\"a\\"");', FORM.format("asm")),
        ('//devmod: -DS(x)=#x\n_asm{S(.inc) "bin"};', FORM.format("_asm")),
        ("#define __asm__(x) asm(x)", FORM.format("__asm__")),
        ('asm goto("nop" :::: x);', FORM.format("asm")),
        # A string that ends where the pattern has its beginning, and the other way around.
        ('"asm(";asm(TEXT ":");', FORM.format("asm")),
        ('#if "asm(" == __has_include(":")', FORM.format("asm")),
        ('static int x() __attribute__((weakref(".incbin")));\nasm("%P0" :: "i"(x));', WEAKREF),
        ('#define __volatile__ C(__as,m__)\n#define C(a,b) a##b\nasm("");', MADE.format("__asm__")),
    ],
)
def test_assembly_that_may_read_a_file_is_refused(text: str, problem: str) -> None:
    for kind in ("opencl", "rocm"):
        assert error_of(kind, text) == problem


@pytest.mark.row("R30")
def test_the_operator_cannot_make_the_keyword_of_assembly() -> None:
    macro = '"devmod: the operator ## makes no keyword of assembly"'
    head = f"#define asm {macro}\n#define _asm {macro}\n#line 1\n"
    for text in (
        "#define CAT(a, b) a##b\nint a, as, m;\n",
        "#define CAT(a, b) a %:%: b\n",
        "#include <hip/hip_runtime.h>\nint as, m;\n",  # a macro of the header may have the operator
        '#define CAT(a, b) a##b\n__asm__("nop");\n',
    ):
        assert closed_source("rocm", text) == head + text
        assert closed_source("cuda", text) == text
    text = '#include <hip/hip_runtime.h>\n#include "hip/hip_fp16.h"\nint as, n;\n'  # headers may use the keyword
    assert closed_source("rocm", text) == text
    for keyword in ("__asm", "__asm__"):
        text = f'#define CAT(a, b) a##b\n#define devmod_has_no_assembly CAT(__as,{keyword[4:]})\nCAT(a,sm)("")'
        assert error_of("opencl", text) == MADE.format(keyword)


@pytest.mark.row("R30")
def test_a_kind_without_a_target_includes_nothing() -> None:
    assert closed_source("nobody", "#include <a>\n") == f"{REFUSED} <a>\n"
