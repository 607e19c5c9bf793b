"""devmod.Target: parsing, printing, and the current target."""

from __future__ import annotations

import copy
import pickle
import string
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
from each_case import refusal
from hypothesis import given
from hypothesis import strategies as st

import devmod
from devmod import Target


@pytest.mark.parametrize(
    ("text", "kind", "archs", "options"),
    [
        ("opencl", "opencl", (), ()),
        ("cuda -arch=sm_90", "cuda", ("sm_90",), ()),
        ("cuda -arch=sm_80,sm_90,compute_90", "cuda", ("sm_80", "sm_90", "compute_90"), ()),
        ("rocm -arch=gfx90a:sramecc+:xnack-", "rocm", ("gfx90a:sramecc+:xnack-",), ()),
        (
            "hexagon -arch=v68 -vtcm=4 -opt=a=b",
            "hexagon",
            ("v68",),
            (("vtcm", "4"), ("opt", "a=b")),
        ),
        ("somebody_elses_kind2", "somebody_elses_kind2", (), ()),
    ],
)
def test_parse_reads_what_str_writes(
    text: str, kind: str, archs: tuple[str, ...], options: tuple[tuple[str, str], ...]
) -> None:
    target = Target.parse(text)
    assert (target.kind, target.archs, target.options) == (kind, archs, options)
    assert str(target) == text
    assert target == Target(kind, arch=archs, options=dict(options)) == Target.parse(str(target))
    assert eval(repr(target)) == target
    assert hash(target) == hash(Target.parse(text))


def test_the_spellings_of_one_target_are_equal() -> None:
    target = Target("cuda", arch="sm_80,sm_90")
    assert (
        target
        == Target("cuda", arch=["sm_80", "sm_90"])
        == Target.parse("  cuda   -mcpu=sm_80,sm_90 ")
    )
    assert target.arch == "sm_80,sm_90"
    assert str(Target.parse("rocm -mcpu=gfx90a")) == "rocm -arch=gfx90a"
    assert Target.parse(target) is target
    assert target != Target("cuda", arch="sm_90,sm_80")
    assert target != "cuda -arch=sm_80,sm_90"
    assert target.variants() == (Target("cuda", arch="sm_80"), Target("cuda", arch="sm_90"))


def test_each_variant_has_the_options() -> None:
    assert list(map(str, Target.parse("cuda -arch=sm_80,sm_90 -x=1").variants())) == [
        "cuda -arch=sm_80 -x=1",
        "cuda -arch=sm_90 -x=1",
    ]
    assert Target("opencl").variants() == (Target("opencl"),)


def test_a_target_cannot_change_and_can_be_copied() -> None:
    target = Target("cuda", arch="sm_90")
    with pytest.raises(AttributeError, match="Target is immutable"):
        target.kind = "rocm"
    assert pickle.loads(pickle.dumps(target)) == copy.deepcopy(target) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a target is a kind and options, such as 'cuda -arch=sm_90'; this one is empty"),
        ("   ", "a target is a kind and options, such as 'cuda -arch=sm_90'; this one is empty"),
        (
            "a-b",
            "'a-b' is not a kind: a kind is a lower-case letter and up to 31 lower-case letters, digits and underscores",
        ),
        (
            "opencl,webgpu",
            "a target is one kind, got 'opencl,webgpu'; give each by itself: opencl and webgpu",
        ),
        (
            "OpenCL",
            "'OpenCL' is not a kind: a kind is a lower-case letter and up to 31 lower-case letters, digits and underscores. "
            "Did you mean 'opencl'?",
        ),
        (
            "cuda -a=b -arch sm_80 -c d",
            "the target 'cuda -a=b -arch sm_80 -c d' has '-arch', which is not of the form -name=value. Did you mean '-arch=sm_80'?",
        ),
        (
            "opencl -cl-mad-enable",
            "the target 'opencl -cl-mad-enable' has '-cl-mad-enable', which is not of the form -name=value. "
            "For the compiler, give options=['-cl-mad-enable']",
        ),
        (
            "cuda -a=b -arch",
            "the target 'cuda -a=b -arch' has '-arch', which is not of the form -name=value",
        ),
        (
            "cuda -arch sm_80",
            "the target 'cuda -arch sm_80' has '-arch', which is not of the form -name=value. Did you mean '-arch=sm_80'?",
        ),
        (
            "cuda -arch -x=1",
            "the target 'cuda -arch -x=1' has '-arch', which is not of the form -name=value",
        ),
        (
            "cuda -arch = sm_80",
            "the target 'cuda -arch = sm_80' has '-arch', which is not of the form -name=value",
        ),
        (
            "cuda:sm_80",
            "the target 'cuda:sm_80' gives the architecture behind a colon; write 'cuda -arch=sm_80'",
        ),
        (
            "cuda:sm_80 -compiler=nvcc",
            "the target 'cuda:sm_80 -compiler=nvcc' gives the architecture behind a colon; write 'cuda -arch=sm_80 -compiler=nvcc'",
        ),
        ("cuda sm_90", "the target 'cuda sm_90' has 'sm_90', which is not of the form -name=value"),
        ("cuda -arch", "the target 'cuda -arch' has '-arch', which is not of the form -name=value"),
        ("cuda -arch=", "the target 'cuda -arch=' gives -arch no value"),
        ("cuda -=x", "the target 'cuda -=x' has '-=x', which is not of the form -name=value"),
        ("cuda -arch=a -mcpu=b", "the target 'cuda -arch=a -mcpu=b' gives -arch twice"),
        ("cuda -x=1 -x=2", "the target 'cuda -x=1 -x=2' gives -x twice"),
        (
            "cuda -arch=sm_80,,sm_90",
            "'' is not an architecture of cuda: expected a name such as 'sm_90', 'gfx90a:xnack+' or 'v68'",
        ),
        ("cuda -arch=sm_80,sm_80", "the cuda target names an architecture twice: sm_80,sm_80"),
        ("cuda --x=1", "'-x' is not the name of an option of a cuda target"),
        (
            "cuda -x=\u00e4",
            "the option -x of a cuda target has the value '\u00e4'; a value is printable ASCII without spaces",
        ),
        (7, "a target is a Target or a string such as 'cuda -arch=sm_90', not int"),
        ("x" * 5000, "a target of 5000 characters is too long; the limit is 4096"),
    ],
)
def test_the_errors_for_invalid_targets(text: str, message: str) -> None:
    assert refusal(devmod.FormatError, Target.parse, text) == message


def test_a_value_has_all_printable_characters_but_the_space() -> None:
    values = string.digits + string.ascii_letters + string.punctuation
    assert dict(Target("hexagon", options={"opt": values}).options) == {"opt": values}
    for character in (" ", "\x7f", "\x80", "\xa0"):
        with pytest.raises(devmod.FormatError):
            Target("hexagon", options={"opt": f"a{character}b"})


@pytest.mark.parametrize("source", ["kernel void f(global float *x) { x[0] = 1; }" * 9, "k.cl"])
def test_swapped_arguments_of_compile_do_not_print_the_source(source: str) -> None:
    assert refusal(devmod.FormatError, devmod.compile, "cuda -arch=sm_90", source) == (
        "the source is 'cuda -arch=sm_90', and the target is none: devmod.compile(source, 'cuda -arch=sm_90') takes the source first, a str "
        "with its text or a pathlib.Path"
    )
    with pytest.raises(devmod.FormatError) as caught:
        Target.parse(source)
    assert len(str(caught.value)) < 250


def test_a_target_with_options_is_not_a_kind() -> None:
    assert (
        refusal(devmod.FormatError, Target, "cuda -arch=sm_90")
        == "a target's kind is one word; for 'cuda -arch=sm_90' use Target.parse"
    )
    with pytest.raises(devmod.FormatError, match="is not the name of an option"):
        Target("cuda", options={"arch": "sm_90"})
    text = refusal(devmod.FormatError, Target, "cuda", arch=90)
    assert (
        text == "the architectures of a cuda target are a string or a sequence of strings, not 90"
    )


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_a_format_error(text: str) -> None:
    try:
        target = Target.parse(text)
    except devmod.FormatError:
        return
    assert Target.parse(str(target)) == target


def test_current_is_the_innermost_target_of_the_context() -> None:
    outer, inner = Target("opencl"), Target("cuda", arch="sm_90")
    assert Target.current() is None
    with outer as entered:
        assert entered is outer
        assert Target.current() is outer
        with inner, outer, inner:  # one object may be entered many times
            assert Target.current() is inner
        assert Target.current() is outer
        with pytest.raises(ZeroDivisionError), inner:
            raise ZeroDivisionError
        assert Target.current() is outer
    assert Target.current() is None


def test_threads_have_their_own_current_targets() -> None:
    shared, meeting = Target("opencl"), threading.Barrier(8)

    def work(index: int) -> tuple[Target | None, Target | None, Target | None]:
        before = Target.current()
        own = Target("cuda", arch=f"sm_{index}")
        with shared, own:
            meeting.wait()
            inside = Target.current()
            meeting.wait()
        return before, inside, Target.current()

    with shared, ThreadPoolExecutor(8) as pool:
        for index, (before, inside, after) in enumerate(pool.map(work, range(8))):
            assert (before, inside, after) == (None, Target("cuda", arch=f"sm_{index}"), None)
    with shared:
        assert copy_context().run(Target.current) is shared
