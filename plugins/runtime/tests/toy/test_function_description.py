"""A function looks like a Python function: name, signature, docstring."""

from __future__ import annotations

import functools
import inspect
import pydoc
import sys
from typing import Any

import toy_backend as toy
from each_case import check_texts

import devmod
from devmod import FunctionInfo, Interface, Local, Member, Param


def make(
    *params: Param, launcher: type[toy.ToyLauncher] = toy.ToyLauncher, **interface: Any
) -> devmod.Function:
    types = {"buffer": "handle", "local": "handle"}
    info = FunctionInfo(
        "entry",
        [types.get(param.kind, param.type) for param in params],
        (),
        (),
        Interface(params, **interface),
    )
    return toy.module({"f": info}, {}, launcher)["f"]


X = Param("x", "buffer", "float32", "rw")
N = Param("n", "scalar", "int32")
SCRATCH = Param("scratch", "local", "float32", default=Local(per_thread=4))


def test_the_signature() -> None:
    check_texts(
        {
            "(x: 'float32* rw', n: 'int32', *, grid=None, block=None, threads=None, stream=None) -> None": (
                X,
                N,
            ),
            "(x: 'float32* rw', n: 'int32', *, scratch: 'local float32' = Local(per_thread=4), grid=None, block=None, threads=None, "
            "stream=None) -> None": (X, SCRATCH, N),
            "(lambda_: 'int32', n: 'int32', *, grid=None, block=None, threads=None, stream=None) -> None": (
                Param("lambda", "scalar", "int32"),
                N,
            ),
            "(grid_: 'int32', n: 'int32', *, grid=None, block=None, threads=None, stream=None) -> None": (
                Param("grid", "scalar", "int32"),
                N,
            ),
            "(argument_1: 'int32', argument_2: 'int32', n: 'int32', n_: 'int32', /, *, grid=None, block=None, threads=None, stream=None) "
            "-> None": (Param("", "scalar", "int32"), Param("a b", "scalar", "int32"), N, N),
            "(*, grid=None, block=None, threads=None, stream=None) -> None": (),
        },
        lambda params: str(inspect.signature(make(*params))),
    )


def test_the_signature_follows_the_kind_and_the_rules() -> None:
    f = make(X, N, launcher=toy.SharedLauncher)
    assert list(inspect.signature(f).parameters)[2:] == [
        "grid",
        "block",
        "threads",
        "stream",
        "shared_memory",
    ]
    assert (
        str(inspect.signature(make(N, launcher=toy.GridlessLauncher)))
        == "(n: 'int32', *, stream=None) -> None"
    )
    by_name = inspect.signature(f.replace(keywords_only="a reason"))
    assert {each.kind for each in by_name.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    bare = toy.module({"f": FunctionInfo("f", ["handle", "int32"])})["f"]
    assert list(inspect.signature(bare).parameters)[:2] == ["argument_1", "argument_2"]


def test_a_call_binds_to_the_signature(devices: list[toy.ToyDevice]) -> None:
    f = make(X, SCRATCH, N)
    bound = inspect.signature(f).bind(devices[0].empty(4, "float32"), n=3, grid=1, block=2)
    f(*bound.args, **bound.kwargs)
    assert len(devices[0].default_stream.queued) == 1


def test_the_name_is_that_of_the_function() -> None:
    f = make(X)
    assert f.__name__ == f.name == "f"

    @functools.wraps(f)
    def wrapper() -> None:
        pass

    assert (wrapper.__name__, wrapper.__doc__) == ("f", f.__doc__)


def test_the_docstring() -> None:
    struct = Param(
        "p",
        "scalar",
        "uint8x8",
        align=4,
        members=[Member("a", "float32", 0), Member("k", "int32", 4)],
    )
    f = make(X, SCRATCH, struct, Param("lambda", "scalar", "int32"), default_block=(16, 2, 1))
    assert f.__doc__ == (
        "The toy kernel f.\n"
        "\n"
        "Parameters\n"
        "----------\n"
        "x : float32* rw\n"
        "scratch : local float32 = Local(per_thread=4)\n"
        "p : {a: float32, k: int32}\n"
        "lambda_ : int32\n"
        "\n"
        "Launch\n"
        "------\n"
        "    threads= or grid=; default block 16×2×1"
    )
    assert "    threads= or grid=; any block" in (make(open_block=True).__doc__ or "")
    assert "    threads= or grid=, and block=" in (make(N).__doc__ or "")
    assert "Launch" not in (make(N, launcher=toy.GridlessLauncher).__doc__ or "")
    text = make(N).replace(keywords_only="its candidates take them in different orders").__doc__
    assert "Arguments are given by name: its candidates take them in different orders.\n" in (
        text or ""
    )


def test_help_has_the_docstring() -> None:
    f = make(X, N)
    assert f.__doc__ is not None
    for line in f.__doc__.splitlines():
        assert line in pydoc.render_doc(f, renderer=pydoc.plaintext)
    what = "Function in module"
    if sys.version_info >= (3, 14):  # each partial is one
        what = "method descriptor f in module"
    first = pydoc.render_doc(f, renderer=pydoc.plaintext)
    assert first.startswith(f"Python Library Documentation: {what}")


def test_the_class_has_a_docstring_and_a_signature_of_its_own() -> None:
    assert (devmod.Function.__doc__ or "").startswith("A callable function of a module.")
    assert devmod.Function.__name__ == "Function"
    assert "name" in inspect.signature(devmod.Function).parameters
    assert devmod.Function.__signature__ is None  # which `inspect` ignores


def test_control_characters_of_a_name_are_escaped() -> None:
    f = toy.module(
        {
            "f": FunctionInfo(
                "f", ["int32"], (), (), Interface([Param("\x1b[31m", "scalar", "int32")])
            )
        }
    )["f"]
    assert "\x1b" not in (f.__doc__ or "")
    assert "\x1b" not in str(inspect.signature(f))
