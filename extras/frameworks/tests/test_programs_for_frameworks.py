"""What all frameworks share: the programs of a module, without a device."""

from __future__ import annotations

import numpy as np
import pytest
from each_case import refusal

import devmod
from devmod_frameworks._programs import identity_of, programs_of

SOURCE = "kernel void copy(global const float *x, global float *y, const int n) { int i = get_global_id(0); if (i < n) y[i] = x[i]; }"


def make(name: str = "p", **declared: object) -> devmod.Module:
    """Return a module with one program."""
    keys = {
        "inputs": ["x: float32[rows, columns]", "n: int32 = 4"],
        "outputs": ["y: float32[rows, ceildiv(columns, n)]"],
    } | declared
    steps = keys.pop("steps", "copy(x=x, y=y, n=n, grid=1)")
    return devmod.program(name, devmod.compile(SOURCE, "opencl", block=1), steps=steps, **keys)  # type: ignore[arg-type]


def test_a_program_has_its_arguments_in_the_order_of_a_call() -> None:
    program = programs_of(
        make(
            inputs=["n: int32 = 4", "x: float32[m]", "e: float32"],
            updates=["u: float32[m]"],
            outputs=["y: float32[n]"],
        )
    )["p"]
    assert [each.name for each in program.arguments] == ["x", "e", "u", "n"]
    assert ([each.name for each in program.outputs], program.sizes, program.gradient({})) == (
        ["y"],
        {"n"},
        None,
    )


def test_the_shapes_of_the_results() -> None:
    program = programs_of(make(requires=["rows <= 3"]))["p"]
    assert program.output_shapes([(3, 9)], {"n": 4}) == [(3, 3)]
    for shape, n, text in (
        ((4, 9), 4, "it requires rows <= 3"),
        ((3, 9), 0, "ceildiv(columns, n) divides by zero"),
        ((3, 9), -2, "the shape of 'y' is (3, -4)"),
    ):
        assert (
            refusal(devmod.ArgumentError, program.output_shapes, [shape], {"n": n})
            == f"the program 'p': {text}"
        )


def test_equal_names_are_equal_lengths_and_constants_bind_names() -> None:
    constants = devmod.const_loader({"c": np.zeros(5, np.float32)}, {})
    kernels = devmod.bundle(devmod.compile(SOURCE, "opencl", block=1), constants, mixed=True)
    arrays = {
        "inputs": ["x: float32[n]", "w: float32[n]"],
        "outputs": ["y: float32[n * m]"],
        "constants": ["c: float32[m]"],
    }
    tree = devmod.program("p", kernels, steps="copy(x=x, y=y, n=n, grid=1)", **arrays)
    program = programs_of(devmod.loads(devmod.dumps(tree)))["p"]
    assert program.output_shapes([(3,), (3,)], {}) == [(15,)]
    assert (
        refusal(devmod.ArgumentError, program.output_shapes, [(3,), (4,)], {})
        == "the program 'p': dimension 1 of the argument 'w' is 4, and expected is n, which is 3"
    )


def test_a_module_without_programs_and_names_that_are_refused() -> None:
    kernels = devmod.compile(SOURCE, "opencl", block=1)
    assert refusal(devmod.FormatError, programs_of, kernels) == (
        "the module has no programs: it has the kernels 'copy', and only a program declares its results (devmod.program)"
    )
    with pytest.raises(devmod.ArgumentError, match=r"expected a module, such as devmod\.load"):
        programs_of("file.devmod")  # type: ignore[arg-type]
    with pytest.raises(
        devmod.FormatError,
        match="the name 'größe' begins with two underscores, or has characters that are not ASCII",
    ):
        programs_of(make("größe"))
    with pytest.raises(
        devmod.FormatError,
        match="it has a state, which no framework keeps: declare the arrays as updates",
    ):
        programs_of(make(states=["s: float32[4] = 0"]))


def test_two_loads_of_a_file_are_the_same() -> None:
    data, other = devmod.dumps(make()), devmod.dumps(make(outputs=["y: float32[rows, columns]"]))
    assert (
        identity_of(devmod.loads(data))
        == identity_of(devmod.loads(data))
        == identity_of(make())
        != identity_of(devmod.loads(other))
    )
