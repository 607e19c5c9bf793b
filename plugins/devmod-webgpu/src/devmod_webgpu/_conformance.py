"""Entry point ``devmod.conformance.webgpu``: shaders with their expected results, for the kit and for this plugin's tests."""

from __future__ import annotations

from devmod import Block, FunctionInfo, Interface, Param
from devmod_conformance import Call, Conformance, Sample, axpy_call, spin_call, transpose_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array = np.ndarray[Any, Any]

_LINEAR = b"""
struct Scalars { a: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read> values: array<i32>;

@compute @workgroup_size(32)
fn axpy(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < scalars.n) { y[id.x] += scalars.a * x[id.x]; }
}

@compute @workgroup_size(8)
fn count(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&values)) { atomicAdd(&counts[values[id.x] & 7], 1u); }
}
"""
_TVM = b"""
@group(0) @binding(0) var<storage, read> source : array<f32>;
@group(0) @binding(1) var<storage, read_write> scaled : array<f32>;
struct PODArgs {
  by: f32,
  n: i32,
  packGridDimX: u32
}
@group(0) @binding(2) var<uniform> podArgs : PODArgs;

@compute @workgroup_size(4, 1, 1)
fn scale_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(num_workgroups) gridDim : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }
  let i : i32 = i32(blockIdx.z * gridDim.x + blockIdx.x) * 4i + i32(threadIdx.x);
  if (i < podArgs.n) { scaled[i] = podArgs.by * source[i]; }
}
"""
_TRANSPOSE = """
override TILE: u32 = 4;
struct Size { width: u32, height: u32 }
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> turned: array<f32>;
@group(1) @binding(0) var<uniform> size: Size;
var<workgroup> tile: array<array<f32, 16>, 16>;

@compute @workgroup_size(TILE, TILE)
fn transpose(@builtin(workgroup_id) block: vec3u, @builtin(local_invocation_id) thread: vec3u) {
  let corner = block.xy * TILE;
  let from_ = corner + thread.xy;
  if all(from_ < vec2u(size.width, size.height)) { tile[thread.y][thread.x] = source[from_.y * size.width + from_.x]; }
  workgroupBarrier();
  let to = corner + thread.yx;
  if all(to < vec2u(size.width, size.height)) { turned[to.x * size.height + to.y] = tile[thread.x][thread.y]; }
}
"""
_SPIN = """
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<uniform> n: i32;

@compute @workgroup_size(16)
fn spin(@builtin(global_invocation_id) id: vec3u) {
  var value = x[id.x];
  for (var i = 0i; i < n; i++) { value = value * 1664525u + 1013904223u; }
  x[id.x] = value;
}
"""
_TAGS = ("blockIdx.x", "threadIdx.x")


def _linear_info() -> dict[str, FunctionInfo]:
    axpy = Interface(
        [
            Param("x", "buffer", "float32", "r", (0, 0)),
            Param("y", "buffer", "float32", "rw", (0, 1)),
            Param("a", "scalar", "float32", at=(0, 0)),
            Param("n", "scalar", "uint32", at=(0, 4)),
        ],
        [Block((0, 2), 8)],
        (32, 1, 1),
    )
    count = Interface([Param("counts", "buffer", "uint32", "rw", (0, 3)), Param("values", "buffer", "int32", "r", (0, 4))], block=(8, 1, 1))
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "uint32"], _TAGS, (), axpy),
        "count": FunctionInfo("count", ["handle", "handle"], _TAGS, (), count),
    }


def _count(counts: Array, values: Array) -> None:
    for value in values & 7:
        counts[value] += 1


def _scale(source: Array, scaled: Array, by: float, n: int) -> None:
    scaled[:n] = source.dtype.type(by) * source[:n]


def _bad(text: bytes, interface: Interface | None = None, types: tuple[str, ...] = ("handle",), entry: str = "k") -> Sample:
    return Sample({"k": text}, "wgsl", {"k": FunctionInfo(entry, types, interface=interface)})


class WebGPUConformance(Conformance):
    """WGSL with an interface, WGSL in TVM's form without one, and WGSL that devmod compiles."""

    kind = "webgpu"
    driver_modules = ("wgpu",)
    samples = (
        Sample(
            {"axpy": _LINEAR, "count": _LINEAR},
            "wgsl",
            _linear_info(),
            source={"wgsl": _LINEAR.decode()},
            calls=[
                axpy_call(),
                Call("count", lambda rng: [rng.integers(0, 9, 8, "uint32"), rng.integers(0, 99, 64, "int32")], _count, grid=8, block=8),
            ],
        ),
        Sample(
            {"scale": _TVM},
            "wgsl",
            {"scale": FunctionInfo("scale_kernel", ["handle", "handle", "float32", "int32"], [*_TAGS, "paramWriteAccess:[0,1]"])},
            calls=[
                Call("scale", lambda rng: [rng.random(64, "float32"), rng.random(64, "float32"), 3.0, 50], _scale, grid=16, block=4),
            ],
        ),
        Sample.compiled(_TRANSPOSE, "webgpu", calls=[transpose_call()]),
    )
    slow = Sample.compiled(_SPIN, "webgpu", calls=[spin_call(grid=64, block=16)])
    bad_payloads = (
        _bad(b"@compute @workgroup_size(1) fn k() { nonsense(); }", types=()),
        _bad(b"\x00\xff"),
        _bad(b"no shader of any kind"),
        _bad(b"#version 450\nvoid main() {}"),
        _bad(b"@compute @workgroup_size(1) fn k() {}", types=(), entry="other"),
        _bad(b"@compute @workgroup_size(1) fn k() {}", types=("float64",)),
        _bad(b"@compute @workgroup_size(1) fn k() {}", Interface([Param("x", "buffer", "float32", "r", (0, 1 << 40))])),
        _bad(
            b"@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() { x[0] = 1.0; }",
            Interface([Param("x", "buffer", "float32", "r", (0, 0))]),
        ),
    )
