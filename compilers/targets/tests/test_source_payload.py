"""Source payloads are self-contained: their text contains the options, defines and includes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from build_project import built_failure
from each_case import raised, refusal
from hypothesis import given
from hypothesis import strategies as st

import devmod
from devmod_readers.sources import split_options

KERNEL = "kernel void k(global float *x) { x[0] = 1; }\n"


def build(source: str | Path, **arguments: object) -> str:
    """Return the text of the payload."""
    module = devmod.compile(source, "opencl", **arguments)  # type: ignore[arg-type]
    assert module.save_to_bytes().endswith(module.inspect_source("cl").encode())
    return module.inspect_source("cl")


def write(folder: Path, **files: str) -> Path:
    """Write files `name_suffix="text"` to a folder and return the path of k.cl."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return folder / "k.cl"


@pytest.mark.row("R19")
@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        KERNEL.rstrip("\n"),
        KERNEL.replace("\n", "\r\n") + "\r\n",
        '// #include "no.h"\n/* #include "no.h"\n#include "no.h" */\n' + KERNEL,
        'constant char s[] = "\\\n#include \\"no.h\\"";\n' + KERNEL,
        '#if 0\n#include "no.h"\nit isn\'t \\"\n#endif\n' + KERNEL,
        "#define SAY \\\n  #include no\n" + KERNEL,
        "//devmod: -cl-mad-enable\n" + KERNEL,
        "\u00e4\u4e2d".join(["// ", "\n"]) + KERNEL,
    ],
)
def test_plain_source_is_stored_byte_for_byte(text: str, tmp_path: Path) -> None:
    assert build(text) == text
    assert build(write(tmp_path, k_cl=text)) == text


def test_options_and_defines_precede_the_source() -> None:
    text = build(
        KERNEL,
        options=["-cl-fast-relaxed-math", "-cl-std=CL1.2"],
        defines={"A": 1, "B": "x + y", "F(x)": "(x)", "NOTHING": ""},
    )
    assert text == (
        "//devmod: -cl-fast-relaxed-math -cl-std=CL1.2\n"
        '#define A 1\n#define B x + y\n#define F(x) (x)\n#define NOTHING\n#line 1 "<text>"\n'
        + KERNEL
    )
    assert split_options(text) == (("-cl-fast-relaxed-math", "-cl-std=CL1.2"), text)
    assert split_options(KERNEL) == ((), KERNEL)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-1, "-1"),
        (True, "1"),
        (False, "0"),
        (None, "1"),
        (0.5, "0.5"),
        (1e-30, "1e-30"),
        ("a b", "a b"),
        (2**70, str(2**70)),
    ],
)
def test_a_defines_value_as_c_has_it(value: object, text: str) -> None:
    assert build(KERNEL, defines={"A": value}) == f'#define A {text}\n#line 1 "<text>"\n' + KERNEL


def test_numpy_numbers_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    assert "#define A 3\n#define B 0.5\n" in build(
        KERNEL, defines={"A": np.int32(3), "B": np.float64(0.5)}
    )


def test_defines_among_the_options_are_defines() -> None:
    expected = build(KERNEL, defines={"A": 1, "B": "2", "C": "x y"})
    assert build(KERNEL, options=["-DA", "-D", "B=2", "-D C=x y"]) == expected
    assert build(KERNEL, options="-DA=7 -D B=2", defines={"A": None, "C": "x y"}) == expected


def test_the_options_line_of_a_source_stays_first() -> None:
    own = "//devmod: -cl-mad-enable\n"
    assert (
        build(own + KERNEL, options=["-w"])
        == '//devmod: -cl-mad-enable -w\n#line 2 "<text>"\n' + KERNEL
    )
    assert (
        build(own + KERNEL, defines={"A": 1})
        == '//devmod: -cl-mad-enable\n#define A 1\n#line 2 "<text>"\n' + KERNEL
    )


HEADER_GUARD = "#ifndef X_H\n#define X_H\n#define X 1\n#endif\n"


def test_an_include_is_replaced_by_its_text_and_lines_stay(tmp_path: Path) -> None:
    source = write(tmp_path, k_cl='// one\n#include "x.h"\n' + KERNEL, x_h="#define X 1")
    assert build(source) == '// one\n#line 1 "x.h"\n#define X 1\n#line 3 "k.cl"\n' + KERNEL


def test_comments_beside_an_include_stay_on_their_line(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='/* a */ # /* b */ include\\\n "x.h" /* c\nd */\n' + KERNEL,
        x_h="#define X 1\n",
    )
    assert (
        build(source)
        == '/* a */ \n#line 1 "x.h"\n#define X 1\n#line 2 "k.cl"\n /* c\nd */\n' + KERNEL
    )


def test_includes_are_found_as_a_compiler_finds_them(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#include "sub/a.h"\n#include <b.h>\n' + KERNEL,
        sub__a_h='#include "b.h"\n',
        sub__b_h="#define NEAR 1\n",
        inc__b_h="#define FAR 1\n",
        b_h="#define BESIDE 1\n",
    )
    text = build(source, include=tmp_path / "inc")
    assert text == (
        '#line 1 "sub/a.h"\n#line 1 "b.h"\n#define NEAR 1\n#line 2 "sub/a.h"\n#line 2 "k.cl"\n'
        '#line 1 "b.h"\n#define FAR 1\n#line 3 "k.cl"\n' + KERNEL
    )


@pytest.mark.parametrize(
    "header",
    [
        HEADER_GUARD,
        "#pragma once\n#define X 1\n",
        "// why\n" + HEADER_GUARD.replace("endif", "endif // X_H"),
    ],
)
def test_a_guarded_file_is_embedded_once(header: str, tmp_path: Path) -> None:
    text = build(
        write(tmp_path, k_cl='#include "x.h"\n#include "x.h" // again\n' + KERNEL, x_h=header)
    )
    assert text.count("#define X 1\n") == 1
    assert "#pragma once" not in text
    assert text.endswith('#line 2 "k.cl"\n // again\n' + KERNEL)


def test_a_file_inside_a_condition_is_embedded_again(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#if 0\n#include "x.h"\n#endif\n#include "x.h"\n' + KERNEL.replace("1;", "X;"),
        x_h=HEADER_GUARD,
    )
    assert build(source).count("#define X 1\n") == 2


def test_a_file_is_embedded_once_in_a_branch(tmp_path: Path) -> None:
    guarded = "#ifndef {0}_H\n#define {0}_H\n{1}#endif\n"
    source = write(
        tmp_path,
        k_cl='#if 1\n#include "a.h"\n#include "b.h"\n#ifdef A_H\n#include "b.h"\n#endif\n#else\n#include "b.h"\n#endif\n#include "b.h"\n'
        + KERNEL.replace("1;", "X;"),
        a_h=guarded.format("A", '#include "b.h"\n'),
        b_h=guarded.format("B", "#define X 1\n"),
    )
    text = build(source)
    # Once in the first branch, by a.h; once in the #else; once after the condition.
    branch, _, rest = text.partition("#else\n")
    assert (branch.count("#define X 1"), rest.count("#define X 1")) == (1, 2)


def test_lines_stay_behind_a_branch_that_is_not_taken(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#if 0\n#include "x.h"\n#else\n#include "x.h"\n#endif\n\n#if 1\n#endif\n' + KERNEL,
        x_h="\n\n\n",
    )
    assert build(source) == (
        '#if 0\n#line 1 "x.h"\n\n\n\n#line 3 "k.cl"\n#else\n#line 4 "k.cl"\n#line 1 "x.h"\n\n\n\n#line 5 "k.cl"\n#endif\n#line 6 "k.cl"\n'
        "\n#if 1\n#endif\n" + KERNEL
    )


@pytest.mark.parametrize(
    "header",
    [
        "#ifndef A\n#define A\n#else\nconstant int again = 1;\n#endif\n",
        "#ifndef A\n#define A\n#endif\nconstant int outside = 1;\n#if 1\n#endif\n",
        "#ifndef A\n#define B\n#endif\n",
    ],
)
def test_a_file_with_an_incomplete_guard_is_embedded_again(header: str, tmp_path: Path) -> None:
    text = header.partition("\n")[0]
    source = write(
        tmp_path,
        k_cl='#include "x.h"\n#define outside other\n#include "x.h"\n' + KERNEL,
        x_h=header,
    )
    assert build(source).count(text) == 2


def test_a_file_without_a_guard_is_embedded_each_time(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#define OP(n) constant int n##_ = 0;\n#include "ops.h"\n#undef OP\n#define OP(n) constant int n##2 = 0;\n#include "ops.h"\n'
        + KERNEL,
        ops_h="OP(add)\nOP(mul)\n",
    )
    assert build(source).count("OP(add)\n") == 2


def test_files_that_include_each_other(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#include "a.h"\n' + KERNEL,
        a_h='#pragma once\n#include "b.h"\nconstant int a = 1;\n',
        b_h='#ifndef B\n#define B\n#include "a.h"\nconstant int b = 1;\n#endif\n',
    )
    text = build(source)
    assert (text.count("constant int a"), text.count("constant int b")) == (1, 1)


def test_unusual_file_ends_do_not_affect_the_next_lines(tmp_path: Path) -> None:
    source = write(tmp_path, k_cl='#include "x.h"\n' + KERNEL, x_h="// ends in a backslash \\")
    assert build(source) == '#line 1 "x.h"\n// ends in a backslash \\\n\n#line 2 "k.cl"\n' + KERNEL


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    source = write(tmp_path, k_cl='\ufeff#include "x.h"\n' + KERNEL, x_h="\ufeff#define X 1\n")
    assert build(source) == '#line 1 "x.h"\n#define X 1\n#line 2 "k.cl"\n' + KERNEL


def test_a_name_is_escaped_in_line_directives(tmp_path: Path) -> None:
    source = tmp_path / 'we"ird.cl'
    source.write_text(KERNEL)
    assert build(source, defines={"A": 1}) == '#define A 1\n#line 1 "we\\"ird.cl"\n' + KERNEL


ADD_FOLDER = "Add the folder that contains it: include=['FOLDER']"
UNSURE = (
    "a macro names the file of this include, and the macro {} may have another value where the payload is compiled. It cannot be embedded in "
    "the payload; write the name in quotes, once in each branch"
)
BAD_SOURCES = [
    (
        '#include "no.h"\n',
        f"k.cl:1: the include 'no.h' is missing. Searched: '{{folder}}'. {ADD_FOLDER}",
    ),
    (
        '\n\n#include "/no.h"\n',
        "k.cl:3: the include of '/no.h' is an absolute path; write a path relative to a folder of include=",
    ),
    (
        '#include "me.h"\n',
        "me.h:2: the include of 'me.h' never ends: the file includes itself and has no include guard",
    ),
    (
        "#include_next <x.h>\n",
        "k.cl:1: #include_next is not supported in a source payload; use #include",
    ),
    (
        '#define H "no.h"\n#if 1\n#include H\n#endif\n',
        f"k.cl:3: the include 'no.h', which a macro names, is missing. Searched: '{{folder}}'. {ADD_FOLDER}",
    ),
    (
        '#define H "x.h"\n#include "pick.h"\n#undef H\n#define H "y.h"\n#include "pick.h"\n',
        f"pick.h:1: {UNSURE.format('H')}",
    ),
    (
        '#include "bad.h"\n',
        "bad.h:2: the source is not UTF-8: byte 0xe4 outside of a comment; save the file as UTF-8",
    ),
    ("\0", "k.cl:1: the source has a zero character"),
    (
        "//devmod: -I/home/me/x\n",
        "the source's first line has the option '-I/home/me/x', which names a path",
    ),
]


@pytest.mark.parametrize(("head", "message"), BAD_SOURCES)
def test_unsupported_includes_are_refused(head: str, message: str, tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl=head + KERNEL,
        x_h="#define X 1\n",
        y_h="",
        pick_h="#include H\n",
        me_h='\n#include "me.h"\n',
    )
    (tmp_path / "bad.h").write_bytes(b"// ok\n\xe4\n")
    assert refusal(devmod.CompileError, build, source) == message.format(folder=tmp_path)


# As hashcat's kernels have it: the folder is a define, and a macro makes a string of it.
BY_MACRO = (
    "#define TEXT(x) #x\n#define FILE(x) TEXT(x)\n#include FILE(FOLDER/types.h)  // the types\n"
)


@pytest.mark.row("R16")
def test_the_file_that_a_macro_names_is_embedded(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl=BY_MACRO + KERNEL,
        inc__types_h="#include FILE(FOLDER/deep.h)\n#define A 1\n",
        inc__deep_h="#define B 1\n",
    )
    text = build(source, defines={"FOLDER": "inc"}, include=[tmp_path])
    assert text == (
        '#define FOLDER inc\n#line 1 "k.cl"\n#define TEXT(x) #x\n#define FILE(x) TEXT(x)\n'
        '#line 1 "inc/types.h"\n#line 1 "inc/deep.h"\n#define B 1\n#line 2 "inc/types.h"\n#define A 1\n'
        '#line 3 "k.cl"\n// the types\n' + KERNEL
    )
    # The same text in any folder.
    write(tmp_path / "other", k_cl="")
    for name in ("k.cl", "inc/types.h", "inc/deep.h"):
        path = tmp_path / "other" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((tmp_path / name).read_bytes())
    assert (
        build(tmp_path / "other" / "k.cl", defines={"FOLDER": "inc"}, include=[tmp_path / "other"])
        == text
    )


@pytest.mark.parametrize(
    ("head", "macro"),
    [
        ('#if WIDTH == 4\n#define H "four.h"\n#else\n#define H "one.h"\n#endif\n#include H\n', "H"),
        (
            '#define H "one.h"\n#undef H\n#define /**/ H FOUR\n#define FOUR "four.h"\n#include H\n',
            "H",
        ),
        (
            "#ifdef cl_khr_fp64\n#define NAME four\n#else\n#define NAME one\n#endif\n"
            + "#define T(x) #x\n#define F(x) T(x.h)\n#include F(NAME)\n",
            "NAME",
        ),
        (
            "#define T(x) #x\n#define F(x) T(x.h)\n#include F(__OPENCL_VERSION__)\n",
            "__OPENCL_VERSION__",
        ),
    ],
)
def test_a_macro_with_another_value_at_the_receiver_names_no_file(
    head: str, macro: str, tmp_path: Path
) -> None:
    source = write(
        tmp_path, k_cl=head + KERNEL, four_h="#define X 4\n", one_h="#define X 1\n", **{"120_h": ""}
    )
    assert (
        refusal(devmod.CompileError, build, source)
        == f"k.cl:{head.count(chr(10))}: {UNSURE.format(macro)}"
    )


@pytest.mark.filterwarnings("ignore:clang has warnings")
def test_a_define_of_the_caller_replaces_the_default_of_a_macro(tmp_path: Path) -> None:
    head = '#ifndef H\n#define H "one.h"\n#endif\n#include \\ \n H\n'
    source = write(tmp_path, k_cl=head + KERNEL, four_h="#define X 4\n", one_h="#define X 1\n")
    assert "#define X 4\n" in build(source, defines={"H": '"four.h"'})
    text = build(source)
    assert "#define X 1\n" in text
    assert "#define X 4\n" not in text


@pytest.mark.parametrize(
    "include",
    [
        '%:include "x.h"',
        '#import "x.h"',
        '#define H "x.h"\n%:include H',
        '#define H "x.h"\n#import H',
    ],
)
def test_an_include_in_another_spelling_is_refused(include: str, tmp_path: Path) -> None:
    source = write(tmp_path, k_cl=include + "\n" + KERNEL, x_h="#define X 1\n")
    text = refusal(devmod.CompileError, build, source)
    line = include.count("\n") + 1
    assert (
        text
        == f"k.cl:{line}: the file of this include cannot be embedded in the payload; write #include and its name in quotes"
    )


def test_a_file_that_a_macro_names_looks_beside_its_link(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#define H "x.h"\n#include H\n' + KERNEL,
        real__x_h='#include "y.h"\n',
        real__y_h="#define Y 1\n",
        y_h="#define Y 2\n",
    )
    (tmp_path / "x.h").symlink_to(tmp_path / "real" / "x.h")
    text = build(source)
    assert "#define Y 2\n" in text
    assert '#line 1 "x.h"\n' in text


def test_the_name_is_that_of_the_include_wherever_its_folder_is(tmp_path: Path) -> None:
    source = write(
        tmp_path, k_cl='#define H "x.h"\n#include H\n' + KERNEL, inc__x_h="#define X 1\n"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "k.cl").write_bytes(source.read_bytes())
    assert build(source, include=[tmp_path / "inc"]) == build(
        tmp_path / "other" / "k.cl", include=[tmp_path / "inc"]
    )


def test_an_include_by_macro_of_another_branch_stays(tmp_path: Path) -> None:
    source = write(tmp_path, k_cl="#ifdef NEVER\n#include FILE(x)\n#endif\n" + KERNEL)
    assert build(source) == source.read_text()


def test_a_macro_leads_to_a_file_beside_a_link(tmp_path: Path) -> None:
    write(
        tmp_path,
        real__k_cl='#define H "x.h"\n#include H\n' + KERNEL,
        real__x_h="#define X 1\n",
        x_h="#define X 2\n",
    )
    (tmp_path / "k.cl").symlink_to(tmp_path / "real" / "k.cl")
    assert "#define X 2\n" in build(tmp_path / "k.cl")


def test_a_macro_may_name_a_header_of_the_compiler() -> None:
    text = "#define H <metal_stdlib>\n#include H\nusing namespace metal;\nkernel void k(device float *x [[buffer(0)]]) { x[0] = 1; }\n"
    assert devmod.compile(text, "metal").inspect_source() == text


def test_a_guarded_file_that_a_macro_names_twice_is_embedded_once(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#define H "x.h"\n#include H\n#include H\n' + KERNEL,
        x_h="#ifndef X\n#define X 1\n#endif\n",
    )
    assert build(source).count("#define X 1\n") == 1


OUTSIDE = "which is outside the project, the source's folder and the folders of include. To allow it, add its folder: "


def test_a_macro_does_not_lead_out_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("// a password\n")
    (tmp_path / "src").mkdir()
    source = write(tmp_path / "src", k_cl='#define H "../secret.txt"\n#include H\n' + KERNEL)
    assert "a password" in build(source)
    assert built_failure(source, "opencl") == (
        f"k.cl:2: the include '../secret.txt' is the file '{tmp_path}/secret.txt', {OUTSIDE}include = [\"..\"]"
    )


@pytest.mark.parametrize(
    ("target", "name", "source", "header"),
    [
        (
            "cuda -arch=compute_80",
            "k.cu",
            'extern "C" __global__ void k(float *x) { x[0] = twice(1); }',
            "__device__ float twice(float x) { return 2 * x; }",
        ),
        (
            "rocm -format=hip",
            "k.hip",
            '#include <hip/hip_runtime.h>\nextern "C" __global__ void k(float *x) { x[0] = twice(1); }',
            "__device__ float twice(float x) { return 2 * x; }",
        ),
        (
            "metal",
            "k.metal",
            "kernel void k(device float *x [[buffer(0)]]) { x[0] = twice(1); }",
            "float twice(float x) { return 2 * x; }",
        ),
    ],
)
def test_every_kind_embeds_the_file_that_a_macro_names(
    target: str, name: str, source: str, header: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(f"{BY_MACRO}{source}\n")
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "types.h").write_text(header + "\n")
    module = devmod.compile(path, target, defines={"FOLDER": "inc"})
    assert module.origin is not None
    assert list(module.origin.sources) == [name, "inc/types.h"]


def test_an_include_of_text_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x.h").write_text("#define X 1\n")
    source = '#include "x.h"\n' + KERNEL
    assert (
        build(source, include=[tmp_path])
        == '#line 1 "x.h"\n#define X 1\n#line 2 "<text>"\n' + KERNEL
    )
    assert refusal(devmod.CompileError, build, source) == (
        f"<text>:1: the include 'x.h' is missing. No folder was searched: include= is empty. {ADD_FOLDER}"
    )


def test_an_include_in_angles_that_is_not_found_names_the_folders(tmp_path: Path) -> None:
    source = write(tmp_path, k_cl="#include <no.h>\n" + KERNEL)
    assert refusal(devmod.CompileError, build, source, include=[tmp_path]) == (
        f"the OpenCL C source does not compile: k.cl:1:10: error: 'no.h' file not found. Searched: '{tmp_path}'. {ADD_FOLDER}"
    )


@pytest.mark.parametrize(
    "head",
    [
        '#include "../secret.txt"\n',
        '#if 0\n#include "../secret.txt"\n#endif\n',
        '#include "link.h"\n',
    ],
)
def test_a_manifest_stays_inside_its_project(head: str, tmp_path: Path) -> None:
    """The user has not named the sources of a manifest. A payload would publish the text of any
    file.
    """
    (tmp_path / "secret.txt").write_text("// a password\n")
    (tmp_path / "src").mkdir()
    source = write(tmp_path / "src", k_cl=head + KERNEL)
    (tmp_path / "src" / "link.h").symlink_to(tmp_path / "secret.txt")
    line, name = (2 if "#if" in head else 1), ("link.h" if "link" in head else "../secret.txt")
    assert built_failure(source, "opencl") == (
        f"k.cl:{line}: the include {name!r} is the file '{tmp_path}/secret.txt', {OUTSIDE}include = [\"..\"]"
    )
    assert "a password" in build(source), "the user has named this file"


def test_a_text_has_no_file_outside_of_the_named_folders(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("// a password\n")
    (tmp_path / "inc").mkdir()
    assert refusal(
        devmod.CompileError,
        build,
        '#include "../secret.txt"\n' + KERNEL,
        include=[tmp_path / "inc"],
    ) == (
        f"<text>:1: the include '../secret.txt' is the file '{tmp_path}/secret.txt', which is outside the folders of include=. To allow it, "
        f"add its folder: include=['{tmp_path}']"
    )


@pytest.mark.row("R38")
@pytest.mark.parametrize(
    ("target", "name", "text"),
    [
        ("opencl", "k.cl", KERNEL),
        ("cuda -arch=compute_80", "k.cu", 'extern "C" __global__ void k(float *x) { x[0] = N; }\n'),
        (
            "rocm -format=hip",
            "k.hip",
            '#include <hip/hip_runtime.h>\nextern "C" __global__ void k(float *x) { x[0] = N; }\n',
        ),
        ("metal", "k.metal", "kernel void k(device float *x [[buffer(0)]]) { x[0] = N; }\n"),
        (
            "vulkan",
            "k.comp",
            "#version 450\nlayout(local_size_x = N) in; layout(binding = 0) buffer X { float x[]; }; void main() { x[0] = N; }\n",
        ),
    ],
)
def test_a_source_that_the_user_names_includes_files_above_its_folder(
    target: str, name: str, text: str, tmp_path: Path
) -> None:
    """The payload has the name of the include. It does not depend on the folders."""
    payloads = []
    first, end, rest = text.partition("\n") if text.startswith("#") else ("", "", text)
    for project in (tmp_path / "one", tmp_path / "another"):
        (project / "src").mkdir(parents=True)
        (project / "n.h").write_text("#define N 3\n")
        source = project / "src" / name
        head = "#extension GL_GOOGLE_include_directive : require\n" if target == "vulkan" else ""
        source.write_text(f'{first}{end}{head}#include "../n.h"\n{rest}')
        module = devmod.compile(source, target)
        assert module.origin is not None
        assert list(module.origin.sources) == [name, "../n.h"]
        payloads.append(devmod.dumps(module))
        # A manifest of the whole project includes what is inside of it.
        (project / "devmod.toml").write_text(
            f'output = "k.devmod"\ntargets = ["{target}"]\n[kernels.k]\nsources = ["src/{name}"]\n'
        )
        devmod.build(project).raise_for_failures()
    assert payloads[0] == payloads[1]


@pytest.mark.parametrize(
    ("target", "name", "text"),
    [
        ("opencl", "k.cl", KERNEL),
        ("cuda -arch=compute_80", "k.cu", 'extern "C" __global__ void k(float *x) { x[0] = 1; }\n'),
        (
            "rocm -format=hip",
            "k.hip",
            '#include <hip/hip_runtime.h>\nextern "C" __global__ void k(float *x) { x[0] = 1; }\n',
        ),
        ("metal", "k.metal", "kernel void k(device float *x [[buffer(0)]]) { x[0] = 1; }\n"),
        (
            "webgpu",
            "k.wgsl",
            "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn k() { x[0] = 1; }\n",
        ),
    ],
)
def test_bytes_of_comments_that_are_not_utf_8_are_latin_1(
    target: str, name: str, text: str, tmp_path: Path
) -> None:
    header = b"// Herv\xe9, g\xc3\xa9n\xe9ral\n/* \xfcber\n\xa7 */\n"
    (tmp_path / "a.h").write_bytes(header)
    source = tmp_path / name
    source.write_bytes(b'#include "a.h"\n' + text.encode() + b'// \xa9 1999, "caf\xe9"\n')
    payload = devmod.compile(source, target).inspect_source()
    assert "// Herv\xe9, g\xe9n\xe9ral\n/* \xfcber\n\xa7 */\n" in payload
    assert payload.endswith('// \xa9 1999, "caf\xe9"\n')
    manifest = tmp_path / "devmod.toml"
    manifest.write_text(
        f'output = "k.devmod"\ntargets = ["{target}"]\n[kernels.k]\nsources = ["{name}"]\n'
    )
    assert [each.status for _ in range(2) for each in devmod.build(manifest).results] == [
        "compiled",
        "cached",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'constant char s[] = "\xe9";',
        b'constant char s[] = "// \xe9";',
        b"int \xe9;",
        b"constant char c = '\xe9'; // c",
        b'// \xe9\nconstant char s[] = "\xe9";',
    ],
)
def test_a_byte_of_the_program_that_is_not_utf_8_is_an_error(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_bytes(line + b"\n" + KERNEL.encode())
    text = refusal(devmod.CompileError, build, tmp_path / "k.cl")
    number = line.count(b"\n") + 1
    assert (
        text
        == f"k.cl:{number}: the source is not UTF-8: byte 0xe9 outside of a comment; save the file as UTF-8"
    )


def test_a_long_line_of_escapes_is_read_in_one_pass(tmp_path: Path) -> None:
    """The search for the end of a string from each quotation mark of this line takes minutes."""
    (tmp_path / "k.cl").write_bytes(b"'\\" * 200_000 + b"\xe9\n")
    with pytest.raises(devmod.CompileError, match=r"^k\.cl:1: the source is not UTF-8"):
        build(tmp_path / "k.cl")


def test_a_header_includes_its_neighbours_in_a_named_folder(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        k_cl='#include "sub/a.h"\n' + KERNEL,
        sub__a_h='#include "../b.h"\n',
        b_h="#define B 1\n",
    )
    assert "#define B 1" in build(source)


PATH = "names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go into include="


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": ["-I/usr/include"]}, f"the opencl option '-I/usr/include' {PATH}"),
        ({"options": ["-I", "inc"]}, f"the opencl option '-I' {PATH}"),
        ({"options": ["-include", "x.h"]}, f"the opencl option '-include' {PATH}"),
        ({"options": ["-cl-dump=/tmp/x"]}, f"the opencl option '-cl-dump=/tmp/x' {PATH}"),
        ({"options": ["-o", "x"]}, f"the opencl option '-o' {PATH}"),
        ({"options": ["..\\x"]}, f"the opencl option '..\\\\x' {PATH}"),
        ({"options": ["x.cl"]}, "the opencl option 'x.cl' is no option and no value of one"),
        (
            {"options": ["-w -g"]},
            "the opencl option '-w -g' is not one printable word; pass each option as a separate item",
        ),
        (
            {"options": ["-w\n#error"]},
            "the opencl option '-w\\n#error' is not one printable word; pass each option as a separate item",
        ),
        (
            {"options": ["-D"]},
            "the opencl option '-D' has no name after it; write -DNAME or -DNAME=VALUE",
        ),
        (
            {"options": ["-D1=2"]},
            "the define '1' is invalid: expected a name, or a name with parameters such as 'F(x)'",
        ),
        (
            {"defines": {"A B": 1}},
            "the define 'A B' is invalid: expected a name, or a name with parameters such as 'F(x)'",
        ),
        (
            {"defines": {"": 1}},
            "the define '' is invalid: expected a name, or a name with parameters such as 'F(x)'",
        ),
        (
            {"defines": {"A": "1\n#error"}},
            "the value of the define A contains a line break or a control character: '1\\n#error'",
        ),
        (
            {"defines": {"A": "1 \\"}},
            "the value of the define A ends in a backslash or an open comment, which continues in the next line: '1 \\\\'",
        ),
        (
            {"defines": {"A": "/* 1"}},
            "the value of the define A ends in a backslash or an open comment, which continues in the next line: '/* 1'",
        ),
        (
            {"defines": {"A": [1]}},
            "the define A has the value [1]; a value is a str, an int, a finite float, a bool or None",
        ),
        (
            {"defines": {"A": float("inf")}},
            "the define A has the value inf; a value is a str, an int, a finite float, a bool or None",
        ),
        ({"defines": {1: 1}}, "defines= has the name 1; a name is a string"),
        ({"defines": ["N=1"]}, "defines= is a map of name to value, not ['N=1']"),
    ],
)
def test_options_and_defines_that_cannot_travel(arguments: dict[str, object], message: str) -> None:
    error = raised(devmod.CompileError, build, KERNEL, **arguments)
    assert str(error) == message
    assert error.kind == "opencl"


def test_a_receiver_refuses_options_that_name_a_path() -> None:
    assert (
        refusal(devmod.FormatError, split_options, "//devmod: -cl-mad-enable -I/etc\nkernel")
        == "the source's first line has the option '-I/etc', which names a path"
    )


@pytest.mark.row("R42", "R38")
def test_the_origin_names_options_and_the_digest_of_each_source(tmp_path: Path) -> None:
    files = {
        "k_cl": '#include "a.h"\n#include "sub/a.h"\n' + KERNEL,
        "a_h": "#define A 1\n",
        "sub__a_h": '#include "b.h"\n',
        "sub__b_h": "//\n",
    }
    module = devmod.compile(write(tmp_path, **files), "opencl", options=["-w"], defines={"N": 2})
    assert module.origin is not None
    assert module.origin.target == "opencl"
    assert re.fullmatch(r"libclang \d+\.\d+\.\d+", module.origin.toolchain)
    assert module.origin.options == ("-w", "-DN=2")
    names = {"k.cl": "k_cl", "a.h": "a_h", "sub/a.h": "sub__a_h", "b.h": "sub__b_h"}
    assert module.origin.sources == {
        name: hashlib.sha256(files[key].encode()).hexdigest() for name, key in names.items()
    }


def test_two_sources_with_the_same_name_are_both_in_the_origin(tmp_path: Path) -> None:
    module = devmod.compile(
        write(
            tmp_path,
            k_cl='#include "x/a.h"\n#include "y/a.h"\n' + KERNEL,
            x__a_h='#include "b.h"\n',
            y__a_h='#include "b.h"\n',
            x__b_h="//x\n",
            y__b_h="//y\n",
        ),
        "opencl",
    )
    assert module.origin is not None
    assert list(module.origin.sources) == ["k.cl", "x/a.h", "b.h", "y/a.h", "b.h (2)"]


PIECES = [
    '#include "x.h"',
    '"',
    "'",
    "/*",
    "*/",
    "//",
    "\\",
    "\n",
    "\r\n",
    " ",
    "#",
    "if 1",
    "endif",
    "ifndef A",
    "define A",
    "pragma once",
    "include M",
    "define M",
    "x",
    "(",
    ")",
    "R",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=30), st.lists(st.sampled_from(PIECES), max_size=30)
)
def test_any_text_is_carried_or_refused(
    tmp_path_factory: pytest.TempPathFactory, main: list[str], header: list[str]
) -> None:
    from devmod_targets.authoring import CompileRequest, complete_source

    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.h").write_bytes("".join(header).encode())
    text = "".join(main)
    try:
        result = complete_source(
            CompileRequest(text, devmod.Target("opencl"), name="k.cl", folder=str(folder)),
            dialect=("-x", "cl"),
        )
    except devmod.CompileError:
        return
    if result.text != text:
        assert "x.h" in result.names.values()
    assert str(folder) not in result.text
