"""`devmod.errors`: conditions of OpenCL C, the log of a compiler, and IPython's traceback."""

from __future__ import annotations

import sys
from types import SimpleNamespace, TracebackType

import pytest

import devmod
from devmod.errors import condition_hint, with_log


def conditional(text: str) -> str:
    """Return a program of which a line for each part between slashes begins with it."""
    return text.replace("/", "\n")


@pytest.mark.parametrize(
    ("text", "condition", "macro"),
    [
        ("#if cl_a/kernel void f(", "#if cl_a", "cl_a"),
        ("# ifdef __opencl_c_b/float f = 1;", "# ifdef __opencl_c_b", "__opencl_c_b"),
        ("#ifdef cl_a/# define f(x) x/#endif", "#ifdef cl_a", "cl_a"),
        ("#ifdef cl_a/  #define f 1/#endif", "#ifdef cl_a", "cl_a"),
        ("#ifdef cl_a/void *f(/#endif", "#ifdef cl_a", "cl_a"),
        ("#ifdef cl_a/float f[2];/#endif", "#ifdef cl_a", "cl_a"),
        ("#ifdef cl_a/kernel void f/(int n)/#endif", "#ifdef cl_a", "cl_a"),
        # the innermost that depends on the device's compiler
        ("#if cl_a/#if cl_b/void f(/#endif/#endif", "#if cl_b", "cl_b"),
        ("#if cl_a/#if OTHER/void f(/#endif/#endif", "#if cl_a", "cl_a"),
        ("#if cl_a/#if cl_b/#endif/void f(/#endif", "#if cl_a", "cl_a"),
        ("#if cl_a/#ifndef cl_b/void f(/#endif/#endif", "#if cl_a", "cl_a"),
        # other branches of a condition
        ("#if OTHER/#elif cl_b/void f(/#endif", "#elif cl_b", "cl_b"),
        ("#if cl_a/#elif cl_b/void f(/#endif", "#elif cl_b", "cl_b"),
        ("#if cl_a/#else/void f(/#endif", "", ""),
        ("#if cl_a/#else/#endif/void f(", "", ""),
        ("#ifndef cl_a/void f(/#endif", "", ""),
        ("#endif/#if cl_a/void f(", "#if cl_a", "cl_a"),
        # a second definition has a condition
        ("void f();/#ifdef cl_a/void f(/#endif", "#ifdef cl_a", "cl_a"),
        # a macro that a condition negates
        ("#if !defined(cl_a)/void f(/#endif", "", ""),
        ("#if !cl_a/void f(/#endif", "", ""),
        (
            "#if !defined(cl_a) && defined(cl_b)/void f(/#endif",
            "#if !defined(cl_a) && defined(cl_b)",
            "cl_b",
        ),
        ("#if my_cl_a/void f(/#endif", "", ""),
        # no definition
        ("#if cl_a/g(f, 1);/#endif", "", ""),
        ("#if cl_a/void xf(/#endif", "", ""),
        ("#if cl_a/# define g f/#endif", "#if cl_a", "cl_a"),
        ("void f(", "", ""),
    ],
)
def test_a_definition_that_depends_on_the_compiler_of_a_device(
    text: str, condition: str, macro: str
) -> None:
    expected = ""
    if macro:
        expected = (
            f". 'f' is in a branch of {condition!r}, and each device's compiler has its own macros: "
            f"defines={{{macro!r}: 1}} compiles the branch"
        )
    assert condition_hint(conditional(text), "f") == expected


def test_a_hint_is_for_identifiers_of_the_program() -> None:
    assert condition_hint("#if cl_a\nvoid f(", "g") == ""
    assert condition_hint("#if cl_a\nvoid +(", "+") == ""


@pytest.mark.parametrize(
    ("message", "log", "expected"),
    [
        ("it fails: no", "no", "it fails: no"),
        ("it fails", "  no\n", "it fails\nno"),
        ("it fails", "", "it fails"),
        # the message quotes a line of the log, which is not repeated
        ("it fails: b.c:1: no", "note\n b.c:1: no \nend", "it fails:\nnote\n b.c:1: no \nend"),
        ("it fails: no (and 3 more in .log)", "no\nyes", "it fails:\nno\nyes"),
        ("it fails: no. Install x", "no\nyes", "it fails:\nno\nyes\nInstall x"),
        ("it fails: no, or no", "a\nno", "it fails:\na\nno\n, or no"),
        ("it fails with no", "a\nno", "it fails with no\na\nno"),
        ("it fails", "\n\na\n\nb", "it fails\na\n\nb"),
    ],
)
def test_a_log_is_below_its_message(message: str, log: str, expected: str) -> None:
    assert with_log(message, log) == expected


def test_ipython_prints_the_frames_of_the_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[tuple[object, object, TracebackType]] = []

    def structured_traceback(kind: object, error: object, trace: TracebackType) -> list[str]:
        printed.append((kind, error, trace))
        return ["a line"]

    shell = SimpleNamespace(
        InteractiveTB=SimpleNamespace(structured_traceback=structured_traceback)
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    def inner() -> None:
        devmod.load_from_bytes("missing-kind-of-a-test", b"")

    def outer() -> None:
        inner()

    with pytest.raises(devmod.DevmodError) as caught:
        outer()
    assert caught.value._render_traceback_() == ["a line"]
    ((kind, error, trace),) = printed
    assert (kind, error) == (type(caught.value), caught.value)
    frames = []
    lines = []
    place: TracebackType | None = trace
    while place is not None:
        frames.append(place.tb_frame.f_code.co_name)
        lines.append(place.tb_lineno)
        place = place.tb_next
    own = test_ipython_prints_the_frames_of_the_caller_alone.__name__
    assert frames == [own, "outer", "inner"]
    assert lines[1:] == [outer.__code__.co_firstlineno + 1, inner.__code__.co_firstlineno + 1]
