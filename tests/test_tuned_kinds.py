"""Tuned functions on real kinds: calls, and steps of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import error_of

import devmod
from devmod_runtime import identity_of

CL = """
#ifndef BLOCK
#define BLOCK 64
#endif
#ifndef TILE
#define TILE 1
#endif
kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1)))
void scale(global const float *x, global float *y, int n, float a) {
  for (int tile = 0; tile < TILE; tile++) {
    int i = (get_group_id(0) * TILE + tile) * BLOCK + get_local_id(0);
    if (i < n) y[i] = a * x[i];
  }
}"""
GLSL = """#version 450
layout(local_size_x = 64, local_size_x_id = 1) in;
layout(constant_id = 1) const int BLOCK = 64;
layout(constant_id = 2) const int TILE = 1;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform P { int n; float a; };
void main() {
  for (int tile = 0; tile < TILE; tile++) {
    int i = (int(gl_WorkGroupID.x) * TILE + tile) * BLOCK + int(gl_LocalInvocationID.x);
    if (i < n) y[i] = a * x[i];
  }
}"""
WGSL = """
override BLOCK: u32 = 64;
override TILE: u32 = 1;
struct P { n: u32, a: f32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(BLOCK)
fn scale(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
  for (var tile = 0u; tile < TILE; tile++) {
    let i = (group.x * TILE + tile) * BLOCK + local.x;
    if (i < p.n) { y[i] = p.a * x[i]; }
  }
}"""
SOURCES = {"opencl": CL, "vulkan": GLSL, "webgpu": WGSL}


def tuned(kind: str) -> devmod.Module:
    """Return a module with the tuned function `scale`."""
    return devmod.compile(
        SOURCES[kind],
        kind,
        name="scale",
        tune={"BLOCK": [64, 32, 128], "TILE": [1, 2]},
        sizes=["n"],
        grid="ceildiv(n, BLOCK * TILE)",
        block="BLOCK",
    )


def with_record(root: devmod.Module, device: devmod.Device) -> Any:
    """Return a module from a file in which BLOCK=32 is the fastest for n near 100, and BLOCK=128
    for n near 10,000.
    """
    times = {((100,), (32, 2)): 1e-6, ((10_000,), (128, 2)): 1e-6}
    constants = ("BLOCK", "TILE")
    root.tuning_records = [
        devmod.TuningRecord(
            "scale",
            **identity_of(device),
            constants=constants,
            sizes=("n",),
            measured=times,
        )
    ]
    return devmod.loads(devmod.dumps(root))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.row("R52")
def test_a_call_of_each_kind_takes_the_variant_of_the_record(kind: str) -> None:
    device = first_device(kind)
    root = with_record(devmod.bundle(*map(tuned, SOURCES)), device)
    f = root["scale"].on(device)
    assert len(f.variants) == 6
    for n, grid, block in ((100, 2, 32), (5000, 20, 128)):
        assert f.launch_config(n=n) == devmod.LaunchConfig((grid, 1, 1), (block, 1, 1))
        x = np.arange(n, dtype="float32")
        for g in (f, f.specialize(BLOCK=16, TILE=5)):
            y = np.zeros(n + 1, "float32")
            g(x, y, n, 2.0)
            np.testing.assert_array_equal(y, [*(2 * x), 0])


def program(kernels: devmod.Module, *steps: Any) -> devmod.Module:
    return devmod.program(
        "p",
        kernels,
        inputs=["x: float32[n]", "k: int32"],
        outputs=["y: float32[n]", "z: float32[k]"],
        temporaries=["t: float32[n]"],
        steps=steps,
    )


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.row("R45")
def test_a_step_of_a_program_may_name_a_tuned_function(kind: str) -> None:
    device = first_device(kind)
    steps = (
        "scale(x=x, y=t, n=n, a=2.0)",
        "scale(x=t, y=y, n=n, a=3.0)",
        devmod.repeat(2, "turn", "scale(x=t, y=z, n=k, a=5.0)"),
    )
    root = with_record(program(devmod.bundle(tuned(kind)), *steps), device)
    f = root["p"].on(device)
    for n, k in ((100, 7), (5000, 100), (100, 99), (100, 0), (5000, 7)) * 2:
        x = np.arange(n, dtype="float32")
        y, z = f(x, k)
        np.testing.assert_array_equal(y, 6 * x)
        np.testing.assert_array_equal(z, 10 * x[:k])
        outputs = {"y": device.zeros(n, "float32"), "z": device.zeros(k, "float32")}
        f.bind(device.from_numpy(x), k, **outputs)()
        np.testing.assert_array_equal(outputs["y"].numpy(), 6 * x)
        np.testing.assert_array_equal(outputs["z"].numpy(), 10 * x[:k])
    with devmod.profile() as report:
        f(x, 100)
    assert "p: scale" in {each.name for each in report.records}
    if kind == "opencl":
        assert devmod.verify(root, "p").ok


@pytest.mark.row("R45")
def test_a_step_leaves_the_grid_to_the_variants() -> None:
    for name in ("threads", "grid", "block"):
        error = error_of(program, tuned("opencl"), f"scale(x=x, y=y, n=n, a=2.0, {name}=64)")
        assert str(error).startswith(
            f"the program 'p', step 1 ('scale'): the variants of the kernel decide the {name}; omit {name}=. As opencl/cl it is scale("
        )
    turns = devmod.repeat(2, "turn", "scale(x=x, y=y, n=n - turn, a=2.0)")
    error = error_of(program, tuned("opencl"), turns)
    text = "the argument decides the variant or the grid of the kernel, and differs by turn"
    assert text in str(error)
    assert error.argument == "n"
