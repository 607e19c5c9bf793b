"""The texts of parameters: expressions, declarations, and where a text is cut."""

from __future__ import annotations

from typing import Any

import pytest

from devmod import Local, Member, Param
from devmod._values.param import (
    cut_text,
    declaration_text,
    expression_text,
    join_texts,
    parameter_text,
    short_repr,
)

pytestmark = pytest.mark.once  # texts alone


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (5, "5"),
        ("n", "n"),
        (["+", "a", "b"], "a + b"),
        (("*", ("+", "a", 1), "b"), "(a + 1) * b"),
        (["*", "b", ["+", "a", 1]], "b * (a + 1)"),
        (["+", ["*", "a", "b"], ["%", "c", 2]], "a * b + c % 2"),
        (["-", ["-", "a", "b"], "c"], "a - b - c"),
        (["-", "a", ["-", "b", "c"]], "a - (b - c)"),
        (["//", ["*", "a", 2], ["//", "b", 2]], "a * 2 // (b // 2)"),
        (["ceildiv", ["+", "n", 1], 4], "ceildiv(n + 1, 4)"),
        (["*", ["max", "a", ["-", "b", 1], 3], 2], "max(a, b - 1, 3) * 2"),
        (["+", "a"], "a"),
        (["+"], "…"),
        ([], "…"),
        ([5, "a"], "5(a)"),
        (None, "None"),
    ],
)
def test_an_expression_is_written_as_in_python(expression: Any, text: str) -> None:
    assert expression_text(expression) == text


@pytest.mark.parametrize("form", [["+", None, 1], ["+", 1, None], ["max", None, 1]])
def test_an_expression_is_cut_at_its_seventeenth_level(form: list[Any]) -> None:
    def nested(levels: int) -> Any:
        value: Any = "n"
        for _ in range(levels):
            value = [value if each is None else each for each in form]
        return value

    whole = expression_text(nested(17))
    assert whole.count("1") == 17
    assert "n" in whole.replace("max", "")
    assert "…" not in whole
    cut = expression_text(nested(18))
    assert cut == whole.replace("max", "M").replace("n", "…").replace("M", "max")


def declared(type_: str = "float32", format_: str = "", **extra: Any) -> Param:
    kind = "image" if format_ else "buffer"
    return Param("x", kind, "2d" if format_ else type_, format=format_, extra=extra)


@pytest.mark.parametrize(
    ("param", "text"),
    [
        (declared(shape=["rows", ["+", "n", 1]]), "x: float32[rows, n + 1]"),
        (declared(shape=()), "x: float32[()]"),
        (declared("", shape=[4]), "x: ?[4]"),
        (declared(format_="r32float", shape=["h", "w"]), "x: r32float[h, w]"),
        (declared(shape=[4], role="update"), "x: float32[4] rw"),
        (declared(shape=[4], role="state"), "x: float32[4] = 0"),
        (declared(shape=[4], role="state", initial="y"), "x: float32[4] = y"),
        (declared(shape=[4], role="update", cleared=True), "x: float32[4] rw = 0"),
        (declared(shape=[4], role="output"), "x: float32[4]"),
        (declared(shape="rows"), "x: float32*"),
        (Param("e", "scalar", "float32", extra={"value": 0.5}), "e: float32 = 0.5"),
        (Param("e", "scalar", "float32", extra={"value": 0}), "e: float32 = 0"),
        (Param("e", "scalar", "float32"), "e: float32"),
    ],
)
def test_a_parameter_of_a_program_is_written_as_it_is_declared(param: Param, text: str) -> None:
    assert declaration_text(param) == text


POINT = [Member("a", "float32", 0), Member("n", "int32", 4, shape=(2, 3), strides=(12, 4))]
MATRIX = [Member("", "float32x4", 0, shape=(4,), strides=(16,))]


@pytest.mark.parametrize(
    ("param", "text"),
    [
        (Param("x", "buffer", "float32", "rw"), "x: float32* rw"),
        (Param("", "buffer"), "void*"),
        (
            Param("x", "buffer", "uint8x32", "r", members=POINT),
            "x: {a: float32, n: int32[2][3]}* r",
        ),
        (
            Param("x", "buffer", "float32", "r", pack=("count:uint64", "ptr:handle")),
            "x: float32* r pack count ptr",
        ),
        (Param("p", "uniform", "uint8x32", members=POINT), "p: {a: float32, n: int32[2][3]}"),
        (Param("m", "uniform", "uint8x64", members=MATRIX), "m: float32x4[4]"),
        (Param("n", "scalar", "int32", default=0), "n: int32 = 0"),
        (Param("n", "scalar"), "n: ?"),
        (Param("p", "scalar", "handle", "rw"), "p: handle rw"),
        (Param("t", "local", "float32", default=Local(64)), "t: local float32 = Local(64)"),
        (Param("t", "local"), "t: local"),
        (Param("i", "image", "2d", "r", sample="float"), "i: image 2d float r"),
        (
            Param("i", "image", "2d", "w", sample="float", format="rgba8unorm"),
            "i: image 2d rgba8unorm w",
        ),
        (Param("s", "sampler"), "s: sampler"),
    ],
)
def test_a_parameter(param: Param, text: str) -> None:
    assert parameter_text(param) == text


def test_where_texts_are_cut() -> None:
    letters = "".join(chr(97 + number % 26) for number in range(400))
    assert cut_text(letters[:60], True) == letters[:60]
    assert cut_text(letters[:61], True) == f"{letters[:59]}…"
    assert cut_text(letters[:61], False) == letters[:61]
    parts = [*letters[:9]]
    assert join_texts(parts[:8], True) == "a, b, c, d, e, f, g, h"
    assert join_texts(parts, True) == "a, b, c, d, e, f, g, h, …"
    assert join_texts(parts, False) == "a, b, c, d, e, f, g, h, i"
    assert join_texts([letters, "b"], True) == f"{letters[:59]}…, b"
    assert short_repr("K", letters[:300]) == f"<K {letters[:300]}>"
    assert short_repr("K", letters[:301]) == f"<K {letters[:299]}…>"
    assert short_repr("K", "a\nb") == "<K a\\nb>"
