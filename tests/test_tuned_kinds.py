"""Tuned functions on real kinds: a call with each form of arrays, and steps of programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod import TuningRecord
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


def tuned(kind: str, **changes: Any) -> Any:
    """Return a module with the tuned function `scale`."""
    options: dict[str, Any] = {
        "tune": {"BLOCK": [64, 32, 128], "TILE": [1, 2]},
        "sizes": ["n"],
        "grid": "ceildiv(n, BLOCK * TILE)",
        "block": "BLOCK",
    }
    return devmod.compile(SOURCES[kind], kind, name="scale", **options | changes)


def record(device: Any, times: dict[int, tuple[int, int]], name: str = "scale") -> TuningRecord:
    """Return a record in which a variant is the fastest for each n."""
    measured = {((n,), values): 1e-6 for n, values in times.items()}
    return TuningRecord(
        name,
        **identity_of(device)._asdict(),
        constants=("BLOCK", "TILE"),
        sizes=("n",),
        measured=measured,
    )


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.row("R52")
def test_a_call_of_each_kind_takes_the_variant_of_the_record(kind: str, tmp_path: Path) -> None:
    device = first_device(kind)
    module = tuned(kind)
    module.tuning_records = [record(device, {100: (32, 2), 10_000: (128, 2)})]
    path = tmp_path / "k.devmod"
    devmod.save(module, path)
    f: Any = devmod.load(path)["scale"].on(device)
    assert [tuple(each.values()) for each in f.variants] == [
        (block, tile) for block in (64, 32, 128) for tile in (1, 2)
    ]
    for n, grid, block in ((100, 2, 32), (5000, 20, 128)):
        config = f.launch_config(n=n)
        assert (config.grid, config.block) == ((grid, 1, 1), (block, 1, 1))
        x = np.arange(n, dtype="float32")
        for g in (f, f.variant(BLOCK=64, TILE=1), f.specialize(BLOCK=16, TILE=5)):
            for _ in range(3):
                y = np.zeros(n + 1, "float32")
                g(x, y, n, 2.0)
                np.testing.assert_array_equal(y, [*(2 * x), 0])
                on_device = device.zeros(n + 1, "float32")
                g(device.from_numpy(x), on_device, a=2.0, n=n)
                np.testing.assert_array_equal(on_device.numpy(), y)
            g.bind(device.from_numpy(x), on_device, n, 3.0)()
            np.testing.assert_array_equal(on_device.numpy(), [*(3 * x), 0])
    best = "\n".join(str(devmod.explain(devmod.load(path), "scale", device)).splitlines()[-2:])
    assert "BLOCK=32, TILE=2: the fastest in the file's records of this device at n=100" in best


@pytest.mark.row("R52")
def test_each_kind_of_a_bundle_has_its_own_records() -> None:
    devices = {kind: first_device(kind) for kind in SOURCES}
    root: Any = devmod.bundle(*map(tuned, SOURCES))
    best = dict(zip(SOURCES, ((32, 2), (128, 2), (64, 2)), strict=True))
    root.tuning_records = [record(devices[kind], {100: best[kind]}) for kind in SOURCES]
    f: Any = devmod.loads(devmod.dumps(root))["scale"]
    assert f.kind == "opencl"
    for kind, device in devices.items():
        on_device = f.on(device)
        y = np.zeros(300, "float32")
        on_device(np.ones(300, "float32"), y, n=300, a=2.0)
        np.testing.assert_array_equal(y, np.full(300, 2.0))
        assert on_device.launch_config(n=300).block[0] == best[kind][0]


ARRAYS = {
    "inputs": ["x: float32[n]", "a: float32", "k: int32"],
    "outputs": ["y: float32[n]", "z: float32[k]"],
    "temporaries": ["t: float32[n]"],
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.row("R45")
def test_a_step_of_a_program_may_name_a_tuned_function(kind: str, tmp_path: Path) -> None:
    device = first_device(kind)
    root: Any = devmod.program(
        "twice",
        devmod.bundle(tuned(kind)),
        **ARRAYS,  # type: ignore[arg-type]
        steps=[
            "scale(x=x, y=t, n=n, a=a)",
            "scale(x=t, y=y, n=n, a=a)",
            devmod.repeat(2, "turn", "scale(x=t, y=z, n=k, a=a)"),
        ],
    )
    root.tuning_records = [record(device, {100: (32, 2), 10_000: (128, 2)})]
    path = tmp_path / "k.devmod"
    devmod.save(root, path)
    f: Any = devmod.load(path)["twice"].on(device)
    for n, k in ((100, 7), (5000, 100), (100, 99), (100, 0), (5000, 7)) * 2:
        x = np.arange(n, dtype="float32")
        y, z = f(x, 2.0, k)
        np.testing.assert_array_equal(y, 4 * x)
        np.testing.assert_array_equal(z, 4 * x[:k])
        outputs = device.zeros(n, "float32"), device.zeros(k, "float32")
        f.bind(device.from_numpy(x), 3.0, k, y=outputs[0], z=outputs[1])()
        np.testing.assert_array_equal(outputs[0].numpy(), 9 * x)
        np.testing.assert_array_equal(outputs[1].numpy(), 9 * x[:k])
    with devmod.profile() as report:
        f(np.zeros(5000, "float32"), 2.0, 100)
    assert "twice: scale" in {each.name for each in report.records}
    if kind == "opencl":
        assert devmod.verify(devmod.load(path), "twice").ok


@pytest.mark.row("R45")
def test_a_step_leaves_the_grid_to_the_variants() -> None:
    for name in ("threads", "grid", "block"):
        with pytest.raises(devmod.FormatError) as caught:
            devmod.program(
                "p",
                tuned("opencl"),
                inputs=["x: float32[n]"],
                outputs=["y: float32[n]"],
                steps=[f"scale(x=x, y=y, n=n, a=2.0, {name}=64)"],
            )
        text, _, _ = str(caught.value).partition(". As opencl/cl it is scale(")
        assert text == (
            f"the program 'p', step 1 ('scale'): the variants of the kernel decide the {name}; omit {name}="
        )
    with pytest.raises(devmod.FormatError) as caught:
        devmod.program(
            "p",
            tuned("opencl"),
            inputs=["x: float32[n]"],
            outputs=["y: float32[n]"],
            steps=[devmod.repeat(2, "turn", "scale(x=x, y=y, n=n - turn, a=2.0)")],
        )
    assert "the argument decides the variant or the grid of the kernel, and differs by turn" in str(
        caught.value
    )
    assert caught.value.argument == "n"
