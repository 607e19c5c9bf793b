"""The preprocessor of WGSL: the dialect of docs/webgpu.md, its errors and its bounds."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from build_project import built_failure
from each_case import refusal
from work import assert_linear

import devmod
from devmod_targets.authoring import CompileRequest
from devmod_targets.webgpu import _preprocess
from devmod_targets.webgpu._preprocess import preprocess

pytestmark = pytest.mark.once  # devmod's own parser

KERNEL = "@compute @workgroup_size(1) fn k() { }\n"


@pytest.fixture(autouse=True)
def no_naga(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a naga that is installed on this machine."""
    monkeypatch.setenv("PATH", "")


def text_of(source: str | Path, **arguments: object) -> str:
    return devmod.compile(source, "webgpu", **arguments).inspect_source()  # type: ignore[arg-type]


error_of = partial(refusal, devmod.CompileError, text_of)


def expand(text: str, defines: Mapping[str, str] | None = None) -> str:
    """Return the text of a source without its directives. It need not be WGSL."""
    return preprocess(
        CompileRequest(text, devmod.Target("webgpu"), name="k.wgsl"), defines or {}
    ).text


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files. Return the path of the first."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / next(iter(files))


def test_a_file_that_ends_in_an_empty_macro(tmp_path: Path) -> None:
    source = write(tmp_path, {"k.wgsl": '#define E\n#include "e.wgsl"\n' + KERNEL, "e.wgsl": "E"})
    assert text_of(source).endswith(KERNEL)
    assert expand("#define E\nE") == ""
    assert expand("#define F(x)\nF(1)") == ""


def test_a_part_of_a_name_is_no_macro() -> None:
    assert expand("#define e 1\nconst e\u0301 = e;") == "\nconst e\u0301 = 1;\n"


# -- macros and conditions


@pytest.mark.parametrize(
    ("source", "expanded"),
    [
        ("#define N 4\nconst a = N + N.x;", "\nconst a = 4 + 4 .x;"),
        ("#define N\nconst a = 1 N;", "\nconst a = 1 ;"),
        (
            "#define T vec4<f32>\nconst a = array<T, 2>(T(), T());",
            "\nconst a = array<vec4<f32>, 2>(vec4<f32>(), vec4<f32>());",
        ),
        ("#define MINUS -1\nconst a = -MINUS;", "\nconst a = - -1;"),  # '--' is another token
        ("#define LESS <\nconst a = 1 LESS 2;", "\nconst a = 1 < 2;"),
        (
            "#define MUL(a, b) ((a) * (b))\nconst c = MUL(1 + 2, vec2(3, 4).x);",
            "\nconst c = ((1 + 2) * (vec2(3, 4).x));",
        ),
        ("#define F(x) x\nconst a = F(\n  2); const b = 1;", "\nconst a = 2\n; const b = 1;"),
        ("#define F() 1\nconst a = F() + F ( );", "\nconst a = 1 + 1;"),
        ("#define F(x) x\nconst F = 1;", "\nconst F = 1;"),
        ("#define F(x) G(x)\n#define G(x) F(x + 1)\nconst a = F(1);", "\n\nconst a = F(1 + 1);"),
        ("#define A B\n#define B A\nconst a = A;", "\n\nconst a = A;"),
        ("#define A 1\n#undef A\n#undef A\nconst a = A;", "\n\n\nconst a = A;"),
        ("#define A 1\n#define A 2\nconst a = A;", "\n\nconst a = 2;"),
        ("#define LONG 1 + \\\n  2\nconst a = LONG;", "\n\nconst a = 1 + 2;"),
        ("#define A 1 /* one */ + 2 // three\nconst a = A;", "\nconst a = 1 + 2;"),
        ("  #  define A 1\r\nconst a = A; // A\r\n", "\nconst a = 1; // A\r\n"),
        (
            "#define A 1\n/* /* */\n#define A 2\n*/ const a = A; // #define A 3\n/* A */ const b = A;",
            "\n/* /* */\n#define A 2\n*/ const a = 1; // #define A 3\n/* A */ const b = 1;",
        ),
        ("#define A1 1\nconst a = A1e + 0xA1 + 1e-5f;", "\nconst a = A1e + 0xA1 + 1e-5f;"),
        ("#define é 1\nconst a = é;", "\nconst a = 1;"),
    ],
)
def test_a_macro_is_replaced(source: str, expanded: str) -> None:
    assert expand(source + "\n") == expanded + "\n"


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("1", True),
        ("0", False),
        ("A", False),
        ("N", True),
        ("N == 4u && M == 0x10", True),
        ("defined(N) && !defined M", False),
        ("defined ( M ) || X", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("1 + 2 * 3 == 7 && (1 + 2) * 3 == 9", True),
        ("1 << 4 == 16 && 256 >> 4 == 16", True),
        ("(6 & 3) == 2 && (6 | 3) == 7 && (6 ^ 3) == 5 && ~0 == -1", True),
        ("0 && 1 / 0", False),
        ("1 || 1 % 0", True),
        ("MAX(N, M) > 15", True),
        ("true && !false && (N >= 4) != (N < 4)", True),
        ("N /* four */ > 3 // so it is", True),
        ("N > \\\n 3", True),
    ],
)
def test_a_condition_chooses_its_lines(condition: str, value: bool) -> None:
    head = "#define N 4\n#define M 16\n#define MAX(a, b) (b)\n"
    source = f"{head}#if {condition}\nconst yes = 1;\n#else\nconst no = 1;\n#endif\n{KERNEL}"
    assert ("yes" in text_of(source), "no" in text_of(source)) == (value, not value)


def test_one_branch_of_a_condition_is_compiled() -> None:
    source = (
        "#ifdef A\nconst a = 1;\n#elif B == 2\nconst b = 2;\n#ifndef C\nconst c = 3;\n#endif // C\n#elif nonsense (\n#error no\n#else\n"
        f"#unknown\n#if 1 /\n#endif\nconst d = 4;\n#endif\n{KERNEL}"
    )
    for defines, names in (({"A": None, "B": 2}, "a"), ({"B": 2}, "bc"), ({"B": 2, "C": 1}, "b")):
        assert re.findall("const (.)", text_of(source, defines=defines)) == list(names)


@pytest.mark.row("R12", "R42")
def test_defines_are_macros_that_the_source_does_not_change() -> None:
    source = f"#define TILE 8\n#undef SIZE\n#ifndef N\n#define N 1\n#endif\nconst a = TILE * SIZE * N * HALF(4);\n{KERNEL}"
    module = devmod.compile(
        source,
        "webgpu",
        defines={"TILE": 16, "SIZE": None, "HALF(x)": "(x / 2)"},
        options=["-DN=3"],
    )
    assert "const a = 16 * 1 * 3 * (4 / 2);" in module.inspect_source()
    assert module.origin is not None
    assert module.origin.options == ("-DN=3", "-DTILE=16", "-DSIZE=1", "-DHALF(x)=(x / 2)")
    assert "const a = 8 * SIZE * 1 * HALF(4);" in expand(source)
    # A text without directives is WGSL already, and a define is still replaced.
    assert text_of(f"const a = N;\n{KERNEL}", defines={"N": 2}) == f"const a = 2;\n{KERNEL}"


@pytest.mark.row("R38")
@pytest.mark.parametrize(
    "source",
    [
        KERNEL,
        "// # no directive\n/* \n#if 1\n */" + KERNEL.rstrip(),
        "\r\n/* #x */\r" + KERNEL,
        KERNEL + "\n\n\n",
    ],
)
def test_a_source_without_directives_is_the_payload(source: str) -> None:
    assert text_of(source) == source
    assert text_of(source, defines={"UNUSED": 1}) == source


# -- includes


def test_an_include_is_replaced_by_its_file(tmp_path: Path) -> None:
    files = {
        "k.wgsl": f'#include "lib/tile.tmpl"\n#include <types.wgsl> // the types\n{KERNEL}#include "last.wgsl"',
        "lib/tile.tmpl": '#include "size.wgsl"\nconst tile = SIZE;',
        "lib/size.wgsl": "#ifndef SIZE\n#define SIZE 4\n#endif\n",
        "inc/types.wgsl": "#pragma once\n#include <types.wgsl>\nalias T = f32;\n",
        "last.wgsl": "const last = 1;",
    }
    path = write(tmp_path, files)
    module = devmod.compile(path, "webgpu", include=tmp_path / "inc")
    assert module.inspect_source() == (
        '//#line 2 "lib/tile.tmpl"\nconst tile = 4;\n//#line 3 "types.wgsl"\nalias T = f32;\n//#line 3 "k.wgsl"\n'
        f'{KERNEL}//#line 1 "last.wgsl"\nconst last = 1;\n'
    )
    names = {
        "k.wgsl": "k.wgsl",
        "size.wgsl": "lib/size.wgsl",
        "lib/tile.tmpl": "lib/tile.tmpl",
        "types.wgsl": "inc/types.wgsl",
    }
    names["last.wgsl"] = "last.wgsl"
    assert module.origin is not None
    assert module.origin.sources == {
        name: hashlib.sha256(files[place].encode()).hexdigest() for name, place in names.items()
    }
    assert "'lib/tile.tmpl' is missing" in error_of(path.read_text())  # a text has no folder


def test_an_import_is_the_file_in_shared_or_beside(tmp_path: Path) -> None:
    files = {
        "k.wgsl": f"#import config\n#import segment // both\n#import config\n{KERNEL}",
        "shared/config.wgsl": "#ifndef CONFIG\n#define CONFIG\nconst config = 1;\n#endif\n",
        "shared/segment.wgsl": "#import config\n#import point\nconst segment = config;\n",
        "shared/point.wgsl": "const point = 1;\n",
        "point.wgsl": "const other = 1;\n",
    }
    assert re.findall("const (.*) =", text_of(write(tmp_path, files))) == [
        "config",
        "point",
        "segment",
    ]
    (tmp_path / "shared" / "point.wgsl").unlink()
    place = os.path.join(str(tmp_path), "shared")
    assert error_of(tmp_path / "k.wgsl") == (
        f"shared/segment.wgsl:2: the include 'shared/point.wgsl' is missing. Searched: {place!r}. "
        "Add the folder that contains it: include=['FOLDER']"
    )
    assert "const other" in text_of(tmp_path / "k.wgsl", include=tmp_path)


@pytest.mark.row("R38")
def test_the_payload_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    files = {
        "k.wgsl": f'#include "a.wgsl"\n#include <b.wgsl>\n{KERNEL}',
        "a.wgsl": "const a = 1;\n",
        "i/b.wgsl": "const b = 1;\n",
    }
    modules = [
        devmod.compile(write(folder, files), "webgpu", include=folder / "i")
        for folder in (tmp_path / "one", tmp_path / "another place")
    ]
    assert devmod.dumps(modules[0]) == devmod.dumps(modules[1])


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows")
def test_an_include_outside_the_project_of_a_manifest_is_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "p/k.wgsl": f'#include "../secret.wgsl"\n{KERNEL}',
            "p/link.wgsl": f"#import secret\n{KERNEL}",
            "secret.wgsl": "const s = 1;\n",
        },
    )
    (tmp_path / "p" / "secret.wgsl").symlink_to(tmp_path / "secret.wgsl")
    secret = str(tmp_path / "secret.wgsl")
    for name, included in (("k", "../secret.wgsl"), ("link", "secret.wgsl")):
        assert built_failure(tmp_path / "p" / f"{name}.wgsl", "webgpu") == (
            f"{name}.wgsl:1: the include {included!r} is the file {secret!r}, which is outside the project, the source's folder and the "
            f'folders of include. To allow it, add its folder: include = [".."]'
        )
        assert "const s = 1;" in text_of(tmp_path / "p" / f"{name}.wgsl"), (
            "the user has named this file"
        )
    assert error_of(f'#include "{secret}"\n{KERNEL}') == (
        f"<text>:1: the include of {secret!r} is an absolute path; write a path relative to a folder of include="
    )


# -- lines


def test_a_line_keeps_its_number_and_a_marker_precedes_one_that_moved() -> None:
    skipped = "#if 0\n" + "const no = 1;\n" * 3 + "#endif\n"
    assert text_of(f"const a = 1;\n{skipped}{KERNEL}") == "const a = 1;\n" + "\n" * 5 + KERNEL
    assert (
        text_of(f"const a = 1;\n{skipped * 2}{KERNEL}")
        == f'const a = 1;\n//#line 12 "<text>"\n{KERNEL}'
    )


def test_an_error_of_the_reader_has_the_users_file_and_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "k.wgsl": '#define N 1\n#include "part.wgsl"\n\nconst b: unknown = 1;\n' + KERNEL,
            "part.wgsl": "#define PART(x) x\nconst p = PART(\n  1);\nconst a = 1;\n",
        },
    )
    assert error_of(tmp_path / "k.wgsl") == (
        "the WGSL source is refused at k.wgsl:4:10: unknown type 'unknown': it is neither declared nor predeclared in WGSL"
    )
    write(tmp_path, {"part.wgsl": "#define PART(x) x\nconst p = PART(\n  1); const a = ;\n"})
    assert (
        error_of(tmp_path / "k.wgsl")
        == "the WGSL source is refused at part.wgsl:3:13: expected an expression, got ';'"
    )
    write(
        tmp_path,
        {
            "part.wgsl": "\nconst a = 1;\n",
            "k.wgsl": '#include "part.wgsl"\nconst a = 1;\n' + KERNEL,
        },
    )
    assert error_of(tmp_path / "k.wgsl") == (
        "the WGSL source is refused at k.wgsl:2:7: 'a' is declared twice; the first time at part.wgsl:2"
    )


# -- errors


NAGA_OIL = "Compose the shader with naga_oil, and compile the WGSL that naga writes"
IMPORT = f"expected the name of a file, as in '#import name'. Modules of naga_oil, as in bevy, are not supported. {NAGA_OIL}"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "#define F(x) x\n\nconst a = F(1,\n2);",
            "3: the macro F takes 1 argument, and this call has 2",
        ),
        ("#define F() x\nconst a = F(1);", "2: the macro F takes 0 arguments, and this call has 1"),
        ('#import "a.wgsl"::b', f'1: #import "a.wgsl"::b: {IMPORT}'),
        ("#import a::b", f"1: #import a::b: {IMPORT}"),
        ("#import a::{\n    b, c as d,\n}", f"1: #import a::{{: {IMPORT}"),
        ("#import a as b", f"1: #import a as b: {IMPORT}"),
        (
            "#define_import_path a::b",
            f"1: the directive #define_import_path is not supported: it declares a module of naga_oil. {NAGA_OIL}",
        ),
        ("#include NAME", "1: #include NAME: expected a name in quotes or in angle brackets"),
        (
            '#include "a.wgsl" b',
            '1: #include "a.wgsl" b: expected a name in quotes or in angle brackets',
        ),
        (
            '#include "a.wgsl"',
            "1: the include 'a.wgsl' is missing. No folder was searched: include= is empty. Add the folder that contains it: include=['FOLDER']",
        ),
        ("\n#error no f16 here", "2: #error no f16 here"),
        (
            "#version 450",
            "1: the directive '#version' is not supported. The directives are #define, #undef, #if, #ifdef, #ifndef, #elif, #else, #endif, "
            "#include, #import, #pragma once and #error",
        ),
        ("#elifdef A", "1: the directive #elifdef is not supported: write #elif defined(NAME)"),
        ("const a = 1;\n#if 1\n#if 1\n#endif", "2: this condition has no #endif"),
        ("#endif", "1: #endif without #if"),
        ("#if 1\n#else\n\n#else\n#endif", "4: #else after the #else of the #if in line 1"),
        (
            "#if 1\n#else A\n#endif",
            "2: expected the end of the line after #else; a further condition is #elif",
        ),
        (
            "#if 0\n#else ifdef A\n#endif",
            "2: expected the end of the line after #else; a further condition is #elif",
        ),
        ("#ifdef\n#endif", "1: expected one name after #ifdef"),
        ("#ifdef A B\n#endif", "1: expected one name after #ifdef"),
        ("#undef 1", "1: expected one name after #undef"),
        ("#if\n#endif", "1: the condition '' is invalid: expected an integer at its end"),
        ("#if 1 +\n#endif", "1: the condition '1 +' is invalid: expected an integer at its end"),
        ("#if 1 2\n#endif", "1: the condition '1 2' is invalid: expected an operator, got '2'"),
        ("#if (1\n#endif", "1: the condition '(1' is invalid: a '(' has no ')'"),
        ("#if 010\n#endif", "1: the condition '010' is invalid: expected an integer, got '010'"),
        ("#if 1.5\n#endif", "1: the condition '1.5' is invalid: expected an operator, got '.'"),
        ("#if 1 / 0\n#endif", "1: the condition '1 / 0' is invalid: it divides by zero"),
        (
            "#if 1 << 64\n#endif",
            "1: the condition '1 << 64' is invalid: it shifts by 64; expected 0 to 63",
        ),
        ("#if 1 << 63\n#endif", "1: the condition '1 << 63' is invalid: a value exceeds 64 bits"),
        ("#if defined(\n#endif", "1: expected a name after 'defined', as in defined(NAME)"),
        ("#define", "1: expected the name of a macro after #define, got ''"),
        ("#define 4 N", "1: expected the name of a macro after #define, got '4'"),
        ("#define A+ 1", "1: expected a blank after the name of the macro A, got '+'"),
        ("#define F(a", "1: the parameters of the macro F have no ')'"),
        ("#define F(a, a) a", "1: the parameters of the macro F are not different names: 'a, a'"),
        ("#define F(...) 1", "1: the parameters of the macro F are not different names: '...'"),
        (
            "#define F(a, b) a##b",
            "1: the macro F has '#' in its value: the operators # and ## are not supported",
        ),
        (
            "#define F(a) a\n\nconst a = F(1;\n#undef F",
            "3: the call of the macro F has no ')' before the next directive or the end of the file",
        ),
        ("const a = 1; /* never", "1: this comment has no end; expected '*/'"),
        ("#define A /* never", "1: this comment has no end; expected '*/'"),
    ],
)
def test_a_wrong_directive_is_refused_with_its_line(source: str, problem: str) -> None:
    assert (
        error_of(f"{source}\n{'#define USED 1' if '#' not in source else ''}\n{KERNEL}")
        == f"<text>:{problem}"
    )


def test_a_define_is_refused_too() -> None:
    assert (
        error_of(KERNEL, defines={"A": "x#y"})
        == "defines=: the macro A has '#' in its value: the operators # and ## are not supported"
    )
    assert (
        error_of(KERNEL, defines={"A b": 1})
        == "the define 'A b' is invalid: expected a name, or a name with parameters such as 'F(x)'"
    )


def test_a_number_sign_before_a_macro_is_refused_by_the_reader() -> None:
    assert error_of("#define N 1\nconst a = #{N};\n" + KERNEL) == (
        "the WGSL source is refused at <text>:2:11: the character '#' is not valid in WGSL; a directive is the first of its line, and a "
        "macro is written as NAME, not as #NAME or #{NAME}"
    )


# -- bounds


BOMB = "#define A0 x\n" + "".join(
    f"#define A{number + 1} A{number} A{number}\n" for number in range(40)
)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (BOMB + "A40\n", "42: the macros of the source expand to more than 1 MiB"),
        (
            BOMB.replace("A0 x", "A0") + "A40\n",
            "42: the macros of the source expand to more than 0 MiB",
        ),
        (
            "#define F(x) x x\n" + "F(" * 40 + ")" * 40,
            "2: the macros of the source expand to more than 0 MiB",
        ),
        (
            "#define A0\n"
            + "".join(f"#define A{n + 1} A{n}\n" for n in range(1000))
            + f"#define F(x) {'x ' * 200}\nF(A1000)",
            "1003: the macros of the source expand to more than 0 MiB",
        ),
        (
            "#define F(x) x\n" + "F(" * 200 + ")" * 200,
            "2: the calls of macros are nested more than 64 deep, here by F",
        ),
        (
            "#if " + "(" * 99 + "1" + ")" * 99,
            f"1: the condition '{'(' * 80}' is invalid: it is nested more than 32 deep",
        ),
    ],
)
def test_macros_are_bounded(source: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not source.startswith(BOMB):  # the first has the real bound
        monkeypatch.setattr(_preprocess, "_MAX_EXPANDED", 1 << 16)
    assert error_of(f"{source}\n{KERNEL}") == f"<text>:{problem}"


def test_includes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path,
        {
            "k.wgsl": f'#include "a.wgsl"\n{KERNEL}',
            "a.wgsl": '\n#include "b.wgsl"\n',
            "b.wgsl": '#include "a.wgsl"\n',
        },
    )
    guard = "A file that may include itself needs a guard: #ifndef NAME"
    assert (
        error_of(path)
        == f"b.wgsl:1: the includes are nested more than 64 deep, here by 'a.wgsl'. {guard}"
    )
    assert _preprocess._MAX_INCLUDES == 10_000
    monkeypatch.setattr(_preprocess, "_MAX_INCLUDES", 1000)
    write(
        tmp_path,
        {
            "a.wgsl": '#include "b.wgsl"\n' * 200,
            "b.wgsl": '#include "c.wgsl"\n' * 200,
            "c.wgsl": "",
        },
    )
    assert (
        error_of(path) == f"b.wgsl:195: the includes are more than 1000, here by 'c.wgsl'. {guard}"
    )


@pytest.mark.parametrize(
    "line",
    [
        "const a = N; /* N */ // N\n",
        "#ifdef N\n#define M 1\n#endif\n",
        "F(F(1, 2), N)\n",
        "#if N > 3 && (N + 1) < 2\n#elif 1\n#endif\n",
    ],
)
def test_the_time_is_linear(line: str) -> None:
    head = "#define N 4\n#define F(a, b) a + b\n"
    assert_linear(lambda count: lambda: expand(head + line * count), 200)


def test_the_time_is_linear_in_the_parameters_of_a_macro() -> None:
    def call(count: int) -> str:
        return expand(
            f"#define F({','.join(f'a{number}' for number in range(count))}) {'(' * count}\nF({',' * (count - 1)})\n"
        )

    assert_linear(lambda count: lambda: call(count), 300)


# -- the same tokens as a C preprocessor


NAMES = "ABCDEFG"


class RandomProgram:
    """Macros, conditions and text, of the part of the dialect that is C's."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        lines: list[str] = []
        branches: list[bool] = []
        for _ in range(self._random.randrange(3, 14)):
            step = self._random.randrange(12)
            name = self._choose(NAMES)
            if step < 3:
                lines += [f"#undef {name}", f"#define {name} {self._body([])}"]
            elif step < 6:
                parameters = ["p", "q"][: self._random.randrange(3)]
                lines += [
                    f"#undef {name}",
                    f"#define {name}({', '.join(parameters)}) {self._body(parameters)}",
                ]
            elif step < 8:
                lines.append(
                    self._choose([f"#ifdef {name}", f"#ifndef {name}", f"#if {self._condition()}"])
                )
                branches.append(False)
            elif step < 9 and branches:
                lines.append("#endif")
                branches.pop()
            elif step < 10 and branches and not branches[-1]:
                lines.append(self._choose(["#else", f"#elif {self._condition()}"]))
                branches[-1] = lines[-1] == "#else"
            else:
                lines.append(" ".join(self._term([]) for _ in range(self._random.randrange(1, 6))))
        self.text = "\n".join([*lines, *["#endif"] * len(branches), ""])

    def _choose(self, items: str | list[str]) -> str:
        return self._random.choice(items)

    def _term(self, parameters: list[str], depth: int = 0) -> str:
        step = self._random.randrange(10)
        if step < 3:
            return self._choose(NAMES)
        if step < 6:
            return self._choose([*parameters, "1", "x", "+", "-", "(", ")", ",", ">"])
        if depth == 3:
            return "x"
        arguments = ",".join(
            self._body(parameters, depth + 1) for _ in range(self._random.randrange(3))
        )
        return f"{self._choose(NAMES)}{self._choose(['(', ' ('])}{arguments})"

    def _body(self, parameters: list[str], depth: int = 0) -> str:
        return " ".join(
            self._term(parameters, depth) for _ in range(self._random.randrange(3 if depth else 4))
        )

    def _condition(self) -> str:
        number, other = self._random.randrange(5), self._random.randrange(5)
        name, second = self._choose(NAMES), self._choose(NAMES)
        return self._choose(
            [
                f"defined({name})",
                f"defined {name} && {second} > 1",
                f"!{name} || {number} - {other} == 2",
                f"({name} + 1) * 2 % 3 <= {number}",
                f"{number} << {other} > -{second} && 7 / ({number} + 1)",
            ]
        )


CPP = shutil.which("cpp")


@pytest.mark.skipif(
    CPP is None, reason="compares with the C preprocessor cpp, which is not installed"
)
@pytest.mark.parametrize("seed", range(8))
def test_the_tokens_are_those_of_a_c_preprocessor(seed: int) -> None:
    expansions = 0
    for number in range(25):
        program = RandomProgram(1000 * seed + number).text
        command = [str(CPP), "-P", "-undef", "-w", "-x", "c", "-"]
        completed = subprocess.run(
            command, input=program, capture_output=True, text=True, check=False
        )
        try:
            text = expand(program)
        except devmod.CompileError:
            assert completed.returncode, program
            continue
        assert completed.returncode == 0, program
        text = re.sub(r"(?m)^//#line.*", "", text)
        assert re.findall(r"\w+|\S", text) == re.findall(r"\w+|\S", completed.stdout), program
        expansions += bool(text.strip())
    assert expansions > 5
