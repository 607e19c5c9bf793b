"""Programs of one name for different kinds, each with steps and kernels of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod import FormatError
from devmod.backend import walk
from devmod_workbench._cli import main

pytestmark = pytest.mark.row("R45")
#: The square of the sum of each row, times a weight: in OpenCL one kernel, in WGSL two, whose first
#: has the same name and other arguments.
CL = """
kernel void k0(global const float *x, global const float *w, global float *y, int rows, int columns) {
  int row = get_global_id(0);
  if (row < rows) { float sum = 0; for (int c = 0; c < columns; c++) sum += x[row * columns + c]; y[row] = sum * sum * w[row % 4]; }
}"""
WGSL = {
    "k0": """
struct P { rows: i32, columns: i32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(32) fn k0(@builtin(global_invocation_id) id: vec3u) {
  let row = i32(id.x);
  if (row < p.rows) { var sum = 0.0; for (var c = 0; c < p.columns; c++) { sum += x[row * p.columns + c]; } sums[row] = sum; }
}""",
    "k1": """
@group(0) @binding(0) var<storage> sums: array<f32>;
@group(0) @binding(1) var<storage> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> rows: i32;
@compute @workgroup_size(32) fn k1(@builtin(global_invocation_id) id: vec3u) {
  let row = i32(id.x);
  if (row < rows) { y[row] = sums[row] * sums[row] * w[row % 4]; }
}""",
}
STEPS = {
    "opencl": ["k0(x=x, w=w, y=y, rows=rows, columns=columns, threads=rows)"],
    "webgpu": [
        "k0(x=x, sums=sums, rows=rows, columns=columns, threads=rows)",
        "k1(sums=sums, w=w, y=y, rows=rows, threads=rows)",
    ],
}
DECLARED = {
    "inputs": ["x: float32[rows, columns]"],
    "outputs": ["y: float32[rows]"],
    "constants": ["w: float32[4]"],
}
X, W = np.random.default_rng(0).normal(size=(5, 7)).astype("float32"), np.arange(4, dtype="float32")


def squares(kind: str, factor: str = "") -> devmod.Module:
    """The program for one kind. `factor` is a fault of its last kernel."""
    if kind == "opencl":
        kernels = [devmod.compile(CL.replace("sum * sum", f"sum * sum{factor}"), "opencl", block=8)]
    else:
        kernels = [
            devmod.compile(text.replace("* w[", f"{factor} * w["), kind, name=name)
            for name, text in WGSL.items()
        ]
    temporaries = ["sums: float32[rows]"] if kind == "webgpu" else []
    module = devmod.bundle(*kernels, devmod.const_loader({"w": W}, {}), mixed=True)
    return devmod.program("squares", module, steps=STEPS[kind], temporaries=temporaries, **DECLARED)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def both() -> devmod.Module:
    return devmod.loads(devmod.dumps(devmod.bundle(squares("opencl"), squares("webgpu"))))


def test_each_kind_has_steps_and_kernels_of_its_own(both: devmod.Module) -> None:
    expected = X.sum(1) ** 2 * W[[0, 1, 2, 3, 0]]
    for kind, steps in (("opencl", 1), ("webgpu", 2)):
        first_device(kind)
        f: Any = both["squares"].on(kind)
        assert np.allclose(f(X), expected, rtol=1e-5)
        assert (f.kind, len(f.program.steps)) == (kind, steps)
    assert both["squares"].kind == "opencl"  # type: ignore[attr-defined]
    again: Any = both["squares"].on("webgpu").on("opencl")  # type: ignore[attr-defined]
    assert np.allclose(again(X), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["opencl", "webgpu"])
def test_the_order_of_the_kinds_chooses_the_program(kind: str, both: devmod.Module) -> None:
    first_device(kind)
    assert devmod.loads(devmod.dumps(both), prefer=(kind,))["squares"].kind == kind  # type: ignore[attr-defined]


def test_a_device_that_is_refused_has_the_reason_of_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = devmod.bundle(squares("opencl"), squares("webgpu"))
    device = first_device("webgpu")
    monkeypatch.setitem(device.limits, "maxStorageBufferBindingSize", 12)
    with pytest.raises(
        devmod.DeviceNotFoundError,
        match="its maxStorageBufferBindingSize is 12, but the array 'w' has 16 bytes",
    ):
        module["squares"].on(device)


@pytest.mark.row("R21")
def test_equal_constants_are_stored_once_and_uploaded_once() -> None:
    size = 40_000
    declared = {**DECLARED, "constants": [f"w: float32[{size}]"]}

    def program(name: str, value: float = 0) -> devmod.Module:
        constants = devmod.const_loader({"w": np.resize(W, size) + np.float32(value)}, {})
        kernels = devmod.bundle(devmod.compile(CL, "opencl", block=8), constants, mixed=True)
        return devmod.program(name, kernels, steps=STEPS["opencl"], **declared)  # type: ignore[arg-type]

    module = devmod.bundle(program("one"), program("two"))
    data = devmod.dumps(module)
    assert 4 * size < len(data) < 4 * size + 10_000
    assert len(devmod.dumps(devmod.bundle(program("one"), program("two", 1)))) > 8 * size
    loaded = devmod.loads(data)
    assert len({id(each) for each in walk(loaded) if each.kind == "const_loader"}) == 1
    assert devmod.dumps(loaded) == data
    first_device("opencl")
    f, g = (loaded[name] for name in ("one", "two"))
    assert f.constants["w"] is g.constants["w"]  # type: ignore[attr-defined]


def test_kernels_of_one_program_must_still_agree() -> None:
    other = devmod.compile(
        "kernel void k0(global const float *x, global float *y) { y[0] = x[0]; }", "opencl", block=8
    )
    with pytest.raises(
        FormatError,
        match="the candidates of the bundle take different arguments in the function 'k0'",
    ):
        devmod.bundle(devmod.compile(CL, "opencl", block=8), other)
    steps = ["k0(x=x, w=x, y=y, rows=rows, columns=1, threads=rows)"]
    module = devmod.compile(CL, "opencl", block=8)
    program = devmod.program(
        "squares", module, inputs=["x: float32[rows]"], outputs=["y: float32[rows]"], steps=steps
    )
    with pytest.raises(
        FormatError,
        match="the candidates of the bundle take different arguments in the function 'squares'",
    ):
        devmod.bundle(squares("webgpu"), program)


@pytest.mark.row("R40")
@pytest.mark.usefixtures("in_process")
def test_verify_compares_what_the_programs_return(both: devmod.Module) -> None:
    for kind in ("opencl", "webgpu"):
        first_device(kind)
    found = devmod.verify(both)
    outcomes = [(each.candidate, each.outcome) for each in found.functions["squares"]]
    assert (found.ok, outcomes[0], outcomes[-1]) == (
        True,
        ("opencl", "reference"),
        ("webgpu", "agrees"),
    )
    # Each program has a kernel k0 of its own: they are steps, and not compared with each other.
    assert (list(found.functions), found.uncompared) == (["squares"], [])
    alone = devmod.verify(both, "k0").functions["k0"]
    assert {each.outcome for each in alone} <= {"ran", "reference", "agrees"}
    wrong = devmod.verify(devmod.bundle(squares("opencl"), squares("webgpu", "* 1.001")), "squares")
    assert [each.outcome for each in wrong.functions["squares"] if each.device == "webgpu:0"] == [
        "differs"
    ]
    assert "y[" in str(wrong)


@pytest.mark.usefixtures("in_process")
def test_verify_allows_for_the_rounding_of_all_steps(both: devmod.Module) -> None:
    """A result in another order of operations differs by more than the tolerance of one kernel, of
    the largest number by less.
    """
    for kind in ("opencl", "webgpu"):
        first_device(kind)
    near = devmod.bundle(squares("opencl"), squares("webgpu", "* 1.00003"))
    assert devmod.verify(near, "squares").ok
    assert not devmod.verify(near, "squares", rtol=1e-5).ok


def test_inspect_shows_each_program_with_its_kernels(
    both: devmod.Module, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    devmod.save(both, tmp_path / "both.devmod")
    main(["inspect", str(tmp_path / "both.devmod")])
    text = capsys.readouterr().out
    assert text.count("squares(x: float32[rows, columns]) -> y: float32[rows]") == 2
    assert "different arguments" not in text
