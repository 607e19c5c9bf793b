"""The constants of a source payload: which it has, and its text with other values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from each_case import refusal

from devmod.errors import ArgumentError
from devmod_readers.source_constants import (
    source_constants,
    source_literal,
    specialize_source,
    unused_constants,
)

#: A source, and the constants that it has.
SOURCES: dict[str, tuple[str, list[str]]] = {
    "none": ("kernel void k() {}", []),
    "compiled with them": ("#define N 4\n#define TYPE float\nTYPE x[N];", ["N", "TYPE"]),
    "behind the options": ("//devmod: -w\n#define N 4\nint x;", ["N"]),
    "behind a line": ("int x;\n#define N 4\n", []),
    "over several lines": ("#define A \\\n 1\n#define N 4", []),
    "the last line": ("#define N 4", ["N"]),
    "no name": ("#define 4\nint x;", [""]),
    "tested": ("#ifdef A\n # ifndef B\n#if C > D && defined(E)\n#elif F\n\t#  if G", [*"ABCDEFG"]),
    "used alone": ("int x = N;\n#define M N\n#error N\n#ifx N", []),
    "in a comment": ('#if A // B\n#if C /* D\n#if E */\nchar *x = "\\"\\\n#if F";', [*"AC"]),
    "of the compiler": (
        "#if __FAST__ && cl_khr_fp16 && a__b && acl_ && _c",
        ["a__b", "acl_", "_c"],
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_constants_of_a_source(name: str) -> None:
    source, constants = SOURCES[name]
    assert source_constants(source) == constants


#: A source, constants, and the source with them.
SPECIALIZED: list[tuple[str, dict[str, object], str]] = [
    ("int x[N];", {"N": 8}, "#define N 8\n#line 1\nint x[N];"),
    (
        "//devmod: -w\n#define N 4\n#define M 5\nint x[N];\nint y[M];",
        {"N": 8},
        "//devmod: -w\n#define N 8\n#line 2\n\n#define M 5\nint x[N];\nint y[M];",
    ),
    (
        "#define N 4\n#define M 5\nint x[N + M];",
        {"M": True, "N": 2},
        "#define M 1\n#define N 2\n#line 1\n\n\nint x[N + M];",
    ),
    (
        "#ifndef N\n#define N 4\n#endif",
        {"N": 8},
        "#define N 8\n#line 1\n#ifndef N\n#define N 4\n#endif",
    ),
    (
        "int y;\n# if !defined(N)\n # define N 4\n#endif",
        {"N": 8},
        "#define N 8\n#line 1\nint y;\n# if !defined(N)\n # define N 4\n#endif",
    ),
    ("#if N\n#endif", {"N": "a b"}, "#define N a b\n#line 1\n#if N\n#endif"),
]


@pytest.mark.parametrize(("source", "constants", "expected"), SPECIALIZED)
def test_a_source_with_other_constants(
    source: str, constants: dict[str, object], expected: str
) -> None:
    assert specialize_source("opencl", source, constants) == expected


@pytest.mark.parametrize(
    ("source", "name", "problem"),
    [
        (
            "#define N 4\nint x[N];",
            "M",
            "the opencl source has no constant 'M' to specialize; it has: 'other', 'N'",
        ),
        (
            'int x; // N\n/* N */ char *y = "N";',
            "N",
            "the opencl source has no constant 'N' to specialize; it has: 'other'",
        ),
        (
            "int x-y;",
            "x-y",
            "the opencl source has no constant 'x-y' to specialize; it has: 'other'",
        ),
        (
            "int y;\n  #  define N 4\nint x[N];",
            "N",
            "the opencl source defines 'N' unconditionally, so it cannot be specialized; "
            "write #ifndef N around its #define",
        ),
        (
            "int y;\n#define N 4\n#ifndef NM\n#if defined(M) || NN",
            "N",
            "the opencl source defines 'N' unconditionally, so it cannot be specialized; "
            "write #ifndef N around its #define",
        ),
    ],
)
def test_a_constant_that_a_source_lacks(source: str, name: str, problem: str) -> None:
    text = refusal(ArgumentError, specialize_source, "opencl", source, {name: 1}, ["other"])
    assert text == problem


def test_the_names_that_a_source_does_not_use() -> None:
    source = "//devmod: -w\n#define A 1\nint x = B; // C\n#define D E"
    assert unused_constants(source, "ABCDEF") == ["A", "C", "F"]


class Index:
    """An integer of another library."""

    def __index__(self) -> int:
        return 7


class Float:
    """A float of another library."""

    def __float__(self) -> float:
        return 1.5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (False, "0"),
        (-3, "-3"),
        (Index(), "7"),
        (Float(), "1.5f"),
        (0.1, "0.1f"),
        (math.inf, "INFINITY"),
        (-math.inf, "(-INFINITY)"),
        (math.nan, "NAN"),
        ("float4", "float4"),
        ("", ""),
    ],
)
def test_the_text_of_a_value(value: object, text: str) -> None:
    assert source_literal("metal", "N", value) == text


@pytest.mark.parametrize("value", [None, "a\nb", "a\\", [], b"1"])
def test_a_value_without_a_text(value: Any) -> None:
    assert refusal(ArgumentError, source_literal, "metal", "N", value) == (
        f"the constant 'N' of the metal source cannot be {value!r}: expected an int, a float, a "
        "bool, or the text of a define"
    )
