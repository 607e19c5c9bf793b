"""Each check of a program's steps against the kernels that they launch."""

from __future__ import annotations

from typing import Any

import pytest
from each_case import refusal

from devmod import FormatError, Interface, Member, Param
from devmod_readers.programs import (
    Array,
    Candidate,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
    check_kernels,
)

pytestmark = pytest.mark.row("R45")

DECLARED = {
    each.name: each
    for each in (
        Array("x", "input", "float32", ("n",)),
        Array("y", "output", "float32", ("n", 2)),
        Array("c", "constant", "int32", (4,)),
        Array("t", "temporary", "float32", ("n",)),
        Array("picture", "update", "uint8", ("h", "w"), "rgba8unorm"),
        Scalar("a", "float32", 1.5),
        Scalar("count", "int32"),
        Scalar("flag", "bool"),
        Sampler("how", "linear", "clamp"),
    )
}
OUT = Param("y", "buffer", "float32", "rw")


def program(*steps: Step, repeats: tuple[Repeat, ...] = (), **declared: Any) -> Program:
    """Return a program whose temporary and output are used."""
    own = {name: each for name, each in DECLARED.items() if name != "t"}
    return Program("p", own | declared, (), steps, repeats=repeats)


def checked(value: Any, target: Param, **launch: Any) -> None:
    """Check a step that gives a value to an argument of its kernel, and writes the output."""
    params = [target, OUT] if target.name != "y" else [target]
    arguments = {target.name: value}
    if target.name != "y":
        arguments["y"] = "y"
    interface = Interface(params, open_block=True)
    step = Step("k", arguments, **(launch or {"threads": (1,)}))
    check_kernels(program(step), {"k": [Candidate("opencl/cl", True, interface)]})


def scalar(type_: str, **more: Any) -> Param:
    return Param("v", "scalar", type_, **more)


def buffer(type_: str = "float32", access: str = "r", **more: Any) -> Param:
    return Param("v", "buffer", type_, access, **more)


def image(**more: Any) -> Param:
    return Param("v", "image", "2d", "r", **more)


#: Values, and the parameters that take them.
TAKEN: list[tuple[Any, Param]] = [
    (1, scalar("int8")),
    (-128, scalar("int8")),
    (255, scalar("uint8")),
    (2**63 - 1, scalar("int64")),
    (-(2**63), scalar("int64")),
    (3, scalar("float32")),
    (0.5, scalar("float16")),
    (65519, scalar("float16")),
    (True, scalar("bool")),
    ("a", scalar("float64")),
    ("count", scalar("int64")),
    ("count", scalar("float32")),
    ("flag", scalar("bool")),
    ("n", scalar("uint32")),
    (("+", "n", 1), scalar("int32")),
    (1, scalar("")),
    (1, Param("v", "uniform", "int32")),
    ("x", buffer()),
    ("x", buffer("")),
    ("x", buffer("float32x4")),
    ("c", buffer("int32")),
    (View("x", "uint8"), buffer("uint8")),
    ("how", Param("v", "sampler")),
    ("picture", image()),
    ("picture", image(format="rgba8unorm", sample="float")),
]
#: Values, parameters that do not take them, and why.
REFUSED: list[tuple[Any, Param, str]] = [
    (128, scalar("int8"), "128 is not between -128 and 127, and the kernel takes int8"),
    (-129, scalar("int8"), "-129 is not between -128 and 127, and the kernel takes int8"),
    (256, scalar("uint8"), "256 is not between 0 and 255, and the kernel takes uint8"),
    (-1, scalar("uint8"), "-1 is not between 0 and 255, and the kernel takes uint8"),
    (0.5, scalar("int32"), "0.5 is a float, and the kernel takes int32"),
    (True, scalar("int32"), "True is a boolean, and the kernel takes int32"),
    (True, scalar("float32"), "True is a boolean, and the kernel takes float32"),
    (1, scalar("bool"), "1 is an integer, and the kernel takes bool"),
    (0.5, scalar("bool"), "0.5 is a float, and the kernel takes bool"),
    (65520, scalar("float16"), "65520 is too large for float16"),
    (1e39, scalar("float32"), "1e+39 is too large for float32"),
    ("a", scalar("int32"), "'a' is a float, and the kernel takes int32"),
    ("flag", scalar("int32"), "'flag' is a boolean, and the kernel takes int32"),
    ("count", scalar("bool"), "'count' is an integer, and the kernel takes bool"),
    (1, scalar("float32x4"), "1 is a number, and the kernel takes float32x4"),
    (("+", "n", 1), scalar("bool"), "'n + 1' is an integer, and the kernel takes bool"),
    (1, buffer(), "1 is a number, and the kernel takes an array"),
    (1, scalar("handle"), "1 is a number, and the kernel takes an array"),
    (1, image(), "1 is a number, and the kernel takes an image"),
    (1, Param("v", "sampler"), "1 is a number, and the kernel takes a sampler"),
    (1, Param("v", "local", "float32"), "1 is a number, and the kernel takes local memory"),
    ("x", scalar("int32"), "'x' is an array, and the kernel takes a number"),
    ("x", Param("v", "sampler"), "'x' is an array, and the kernel takes a sampler"),
    ("x", image(), "'x' is an array, and the kernel takes an image"),
    ("x", buffer("float64"), "'x' is an array of float32, and the kernel takes float64"),
    ("x", buffer("int32"), "'x' is an array of float32, and the kernel takes int32"),
    (
        View("x", "uint8"),
        buffer("int8"),
        "'x.view(uint8)' is an array of uint8, and the kernel takes int8",
    ),
    ("how", scalar("int32"), "'how' is a sampler, and the kernel takes a number"),
    ("how", buffer(), "'how' is a sampler, and the kernel takes an array"),
    ("picture", buffer("uint8"), "'picture' is an image, and the kernel takes an array"),
    ("picture", scalar("int32"), "'picture' is an image, and the kernel takes a number"),
    (
        "picture",
        Param("v", "image", "3d", "r"),
        "'picture' is an image of two dimensions, and the kernel takes 3d",
    ),
    (
        "picture",
        image(format="r32float"),
        "'picture' is an image of rgba8unorm, and the kernel takes r32float",
    ),
    (
        "picture",
        image(sample="int"),
        "'picture' has texels of float, and the kernel takes int",
    ),
    (
        1,
        scalar("uint8x8", members=[Member("", "int32", 0), Member("", "int32", 4)]),
        "the kernel takes a struct, an array or a matrix by value, which a program cannot give",
    ),
    ("x", buffer(access="rw"), "the kernel may write to it, and 'x' is an input: "),
    ("x", scalar("handle"), "the kernel may write to it, and 'x' is an input: "),
    ("c", buffer("int32", "w"), "the kernel may write to it, and 'c' is a constant: "),
]


@pytest.mark.parametrize(("value", "target"), TAKEN)
def test_a_value_that_a_parameter_takes(value: Any, target: Param) -> None:
    checked(value, target)


@pytest.mark.parametrize(("value", "target", "problem"), REFUSED)
def test_a_value_that_a_parameter_does_not_take(value: Any, target: Param, problem: str) -> None:
    text = refusal(FormatError, checked, value, target)
    assert text.startswith(f"the program 'p', step 1 ('k'), argument 'v': {problem}")
    assert ". As opencl/cl it is k(" in text


def check(*steps: Step, params: list[Param], **more: Any) -> None:
    declared = {key: more.pop(key) for key in [*more] if isinstance(more[key], Array)}
    repeats = more.pop("repeats", ())
    interface = Interface(params, **more)
    kernels = {"k": [Candidate("opencl/cl", True, interface)]}
    check_kernels(program(*steps, repeats=repeats, **declared), kernels)


T = DECLARED["t"]
READ = Param("x", "buffer", "float32", "r")
WRITE = Step("k", {"x": "x", "y": "y"}, threads=(1,))
OPEN: dict[str, Any] = {"params": [READ, OUT], "open_block": True}
#: Steps, the parameters of their kernel, and the end of the error; "" without one.
STEPS: dict[str, tuple[list[Step], dict[str, Any], str]] = {
    "good": ([WRITE], OPEN, ""),
    "a temporary": (
        [
            Step("k", {"x": "x", "y": "t"}, threads=(1,)),
            Step("k", {"x": "t", "y": "y"}, threads=(1,)),
        ],
        OPEN | {"t": T},
        "",
    ),
    "a temporary that is not written": (
        [Step("k", {"x": "t", "y": "y"}, threads=(1,))],
        OPEN | {"t": T},
        "argument 'x': the kernel reads 't', which no step before has written",
    ),
    "a temporary that begins cleared": (
        [Step("k", {"x": "t", "y": "y"}, threads=(1,))],
        OPEN | {"t": T._replace(cleared=True)},  # type: ignore[union-attr]
        "",
    ),
    "a temporary that is not used": ([WRITE], OPEN | {"t": T}, "no step uses the temporary 't'"),
    "an output that is not written": (
        [Step("k", {"x": "x", "y": "t"}, threads=(1,))],
        OPEN | {"t": T},
        "no step writes the output 'y'",
    ),
    "an output that is read": (
        [Step("k", {"x": "y", "y": "y"}, threads=(1,))],
        OPEN,
        "argument 'x': the kernel reads 'y', which no step before has written",
    ),
    "an array twice": (
        [WRITE, Step("k", {"x": "y", "y": "y"}, threads=(1,))],
        OPEN,
        "argument 'y': 'y' is given twice, and the kernel may write to it",
    ),
    "an unknown argument": (
        [Step("k", {"x": "x", "z": 1, "y": "y"}, threads=(1,))],
        OPEN,
        "argument 'z': the kernel has no argument 'z'",
    ),
    "a missing argument": (
        [Step("k", {"y": "y"}, threads=(1,))],
        OPEN,
        "the kernel also takes 'x'",
    ),
    "missing local memory": (
        [WRITE],
        OPEN | {"params": [READ, OUT, Param("m", "local", "float32")]},
        "the kernel also takes 'm': compile the kernel with local={…}, which gives it a size",
    ),
    "an argument with a default": (
        [WRITE],
        OPEN | {"params": [READ, OUT, Param("m", "scalar", "int32", default=3)]},
        "",
    ),
    "a grid and threads": (
        [WRITE._replace(grid=(1,))],
        OPEN,
        "the step needs either grid=, the number of blocks, or threads=, the number of threads",
    ),
    "neither a grid nor threads": (
        [WRITE._replace(threads=())],
        OPEN,
        "the step needs either grid=, the number of blocks, or threads=, the number of threads",
    ),
    "a grid": ([WRITE._replace(threads=(), grid=(1,))], OPEN, ""),
    "no block": (
        [WRITE],
        {"params": [READ, OUT]},
        "the step needs block=, the number of threads in a block; give it, "
        "or compile the kernel with block=, which gives it a default",
    ),
    "a block": ([WRITE._replace(block=(8,))], {"params": [READ, OUT]}, ""),
    "a default block": ([WRITE], {"params": [READ, OUT], "default_block": (8, 1, 1)}, ""),
    "a fixed block": ([WRITE], {"params": [READ, OUT], "block": (8, 2, 1)}, ""),
    "the fixed block": (
        [WRITE._replace(block=(8, 2))],
        {"params": [READ, OUT], "block": (8, 2, 1)},
        "",
    ),
    "another block than the fixed one": (
        [WRITE._replace(block=(8,))],
        {"params": [READ, OUT], "block": (8, 2, 1)},
        "the kernel is built for blocks of (8, 2, 1) threads; omit block=",
    ),
    "parameters of one name": (
        [WRITE],
        OPEN | {"params": [READ, OUT, Param("", "scalar", "int32")]},
        "the kernel has parameters without a name of their own",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_of_a_program(name: str) -> None:
    steps, kernel, problem = STEPS[name]
    if problem:
        assert problem in refusal(FormatError, check, *steps, **kernel)
    else:
        check(*steps, **kernel)


def test_kernels_that_are_missing_or_unknown() -> None:
    def run(kernels: dict[str, list[Candidate]]) -> str:
        return refusal(FormatError, check_kernels, program(WRITE), kernels)

    alone = Candidate("opencl/cl", True, None)
    assert run({"l": [alone], "other": []}) == (
        "the program 'p', step 1 ('k'): the module of the kernels has no 'k': the kernels are 'l', 'other'"
    )
    assert run({"k": [alone]}) == (
        "the program 'p', step 1 ('k'): the kernel has no interface as opencl/cl, so that its "
        "arguments are unknown"
    )
    # A kernel of another kind than the first one.
    good = Candidate("opencl/cl", True, Interface([READ, OUT], open_block=True))
    bad = Candidate("cuda/ptx", True, Interface([OUT], open_block=True))
    assert "argument 'x': the kernel has no argument 'x'. As cuda/ptx it is k(" in run(
        {"k": [good, bad]}
    )
    # One without a grid.
    step = WRITE._replace(threads=())
    host = Candidate("hexagon/so", False, Interface([READ, OUT]))
    check_kernels(program(step), {"k": [host]})
