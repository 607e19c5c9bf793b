"""WGSL in PTX, through the SPIR-V of naga: it has the results of WebGPU, and the sanitizer reports
lines of the source.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod.backend import find_spec
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_simulators import SanitizeError, sanitize
from devmod_targets.authoring import merge_declared
from devmod_targets.webgpu.naga_spirv import compile_to_spirv, translate_wgsl
from devmod_workbench._tools.dimensions import _dimensions_read

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is installed")

#: The bindings have gaps, in which another entry point has a buffer.
SOURCE = """
override SCALE: f32 = 2.5;
struct Sizes { n: u32, shift: f32, moved: vec3<f32>, turn: mat2x2<f32> }
struct Pair { key: i32, value: vec3<f32> }
@group(0) @binding(1) var<storage> other: array<f32>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;
@group(1) @binding(4) var<storage, read_write> pairs: array<Pair>;
@group(1) @binding(7) var<uniform> sizes: Sizes;
@group(1) @binding(9) var<storage, read_write> counts: array<atomic<u32>, 4>;
var<workgroup> s: array<f32, 64>;

fn weight(i: u32, by: ptr<function, f32>) -> f32 {
    *by *= 2.0;
    switch i % 3u {
        case 0u: { return 1.0; }
        case 1u, default: { return sqrt(f32(i)) + *by; }
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let i = id.x;
    var by = sizes.shift;
    s[l] = 1.0;
    if i < sizes.n && i < arrayLength(&x) { s[l] = x[i] * SCALE * weight(i, &by); }
    atomicAdd(&counts[i % 4u], select(1u, 5u, x[i] > 0.0));
    workgroupBarrier();
    var sum = vec3<f32>(by, 0.5, 1.0);
    for (var j = 0u; j < 4u; j++) {
        if j == 2u { continue; }
        sum[j % 3u] += s[(l + j) % 64u];
    }
    let turned = sizes.turn * sum.xy;
    pairs[i].value += sum * sizes.moved + pairs[i].value.zxy;
    pairs[i].key = i32(arrayLength(&pairs)) - pairs[i].key % 7 + i32(countOneBits(i)) + extractBits(pairs[i].key, 3u, 7u);
    x[i] = turned.x - turned.y + dot(sum, pairs[i].value) * 0.01;
}

@compute @workgroup_size(1)
fn another() { x[0] = other[0]; }
"""


def arguments() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    pairs = np.zeros(
        128,
        {
            "names": ["key", "value"],
            "formats": ["i4", ("f4", 3)],
            "offsets": [0, 16],
            "itemsize": 32,
        },
    )
    pairs["key"] = rng.integers(0, 2**31, 128)
    pairs["value"] = rng.normal(size=(128, 3))
    sizes = np.zeros(
        (),
        {
            "names": ["n", "shift", "moved", "turn"],
            "formats": ["u4", "f4", ("f4", 3), ("f4", (2, 2))],
            "offsets": [0, 4, 16, 32],
            "itemsize": 48,
        },
    )
    sizes["n"] = 100
    sizes["shift"] = 0.75
    sizes["moved"] = 1, 2, -3
    sizes["turn"] = [[1, 2], [3, 5]]
    return {
        "x": rng.normal(size=128).astype(np.float32),
        "pairs": pairs,
        "sizes": sizes,
        "counts": np.zeros(4, np.uint32),
    }


def module_of(text: str, entry: str = "main") -> Any:
    """Return the module of an entry point for the simulated GPU."""
    translation = translate_wgsl(text, "k.wgsl")[entry]
    spec = find_spec("cuda")
    assert spec is not None
    functions = merge_declared(spec, translation.functions, None)
    return devmod.create("cuda", translation.ptx.encode(), "ptx", functions)


def test_a_shader_has_the_results_of_webgpu() -> None:
    first_device("webgpu")
    expected = arguments()
    devmod.compile(SOURCE, "webgpu")["main"](**expected, grid=2)
    found = arguments()
    with sanitize():
        module_of(SOURCE)["main"].on(devmod.device("cuda"))(**found, grid=2)
    np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["pairs"]["value"], expected["pairs"]["value"], rtol=1e-5)
    assert (found["pairs"]["key"] == expected["pairs"]["key"]).all()
    assert (found["counts"] == expected["counts"]).all()


def test_integers_have_the_results_of_webgpu() -> None:
    """Shifts by more bits than a number has, division by zero, and packed dot products."""
    first_device("webgpu")
    text = """@group(0) @binding(0) var<storage, read_write> u: array<u32>;
@group(0) @binding(1) var<storage, read_write> s: array<i32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let a = id.x * 2654435761u;
    let b = a * 2246822519u + 7u;
    let k = i32(id.x) - 32;
    u[id.x] = dot4U8Packed(a, b) + (a << id.x) + (b >> (id.x + 3u)) + a / (b & 1u);
    s[id.x] = dot4I8Packed(a, b) + (i32(a) >> (id.x * 3u)) + (7 / k) + (7 % k) + (1 << id.x)
        + dot(vec3i(i32(a), 2, k), vec3i(3, i32(b), 5)) + (-2147483647 - 1) / (k - k - 1);
}
"""
    results = []
    with sanitize():  # shows the simulated GPU
        for function in (devmod.compile(text, "webgpu")["main"], module_of(text)["main"]):
            u, s = np.zeros(64, np.uint32), np.zeros(64, np.int32)
            function(u, s, grid=1)
            results.append((u.tolist(), s.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize(("index", "dimensions"), [("id.x", 1), ("id.x + id.y", 2)])
def test_a_kernel_reads_its_place_in_as_many_dimensions_as_the_source(
    index: str, dimensions: int
) -> None:
    """A launch of one dimension is not warned of the others."""
    first_device("webgpu")
    text = f"""@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {{ x[{index}] = 1.0; }}
"""
    with sanitize():  # shows the simulated GPU
        assert _dimensions_read(module_of(text)["main"]) == dimensions


def test_the_sanitizer_reports_lines_of_wgsl() -> None:
    """An index is not limited, as wgpu would have it."""
    first_device("webgpu")
    text = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
var<workgroup> s: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
    s[i] = x[i];
    x[i] = s[i + 1u];
    x[i + 1u] = 1.0;
}
"""
    with pytest.raises(SanitizeError) as caught, sanitize():
        module_of(text)["main"].on(devmod.device("cuda"))(np.ones(64, np.float32), grid=1)
    kinds = {(each["kind"], each["source"]) for each in caught.value.reports}
    assert {
        ("out of bounds (read)", "k.wgsl:6  x[i] = s[i + 1u];"),
        ("race (read and write)", "k.wgsl:6  x[i] = s[i + 1u];"),
        ("out of bounds (write)", "k.wgsl:7  x[i + 1u] = 1.0;"),
    } <= kinds


def test_shared_memory_begins_as_zeros() -> None:
    """wgpu leaves what the memory held."""
    first_device("webgpu")
    text = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
var<workgroup> s: array<vec3<f32>, 50>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) i: u32) { x[i] = s[i].z * 2.0 + s[i + 18u].x; }
"""
    x = np.ones(32, np.float32)
    with sanitize():
        module_of(text)["main"].on(devmod.device("cuda"))(x, grid=1)
    assert not x.any()


def test_what_stands_in_the_way_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first_device("webgpu")
    with pytest.raises(CompileError, match=r"^wgpu does not compile the entry 'none' of k\.wgsl: "):
        compile_to_spirv(SOURCE, "k.wgsl", "none")
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(
        ToolchainNotFoundError, match=r"^the translation of WGSL needs a C compiler"
    ):
        compile_to_spirv(SOURCE, "k.wgsl", "main")
