"""Entry point ``devmod.conformance.webgpu``: shaders with their expected results, for the kit and
for this plugin's tests.
"""

from __future__ import annotations

from importlib.resources import files

import devmod
from devmod import Block, FunctionInfo, Interface, Param
from devmod_conformance import Call, Conformance, Sample, axpy_call, spin_call, transpose_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array = np.ndarray[Any, Any]

_SAMPLES = files("devmod_webgpu") / "samples"
_LINEAR = (_SAMPLES / "linear.wgsl").read_bytes()
_TVM = (_SAMPLES / "tvm.wgsl").read_bytes()
_TRANSPOSE = (_SAMPLES / "transpose.wgsl").read_text("utf-8")
_SPIN = (_SAMPLES / "spin.wgsl").read_text("utf-8")
_TAGS = ("blockIdx.x", "threadIdx.x")

_STORE = """@group(0) @binding(0) var<storage, read_write> result: array<{type}>;
@group(0) @binding(1) var<uniform> value: {type};
@compute @workgroup_size(1) fn store_{type}() {{ result[0] = value; }}
"""
_SAMPLED = """@group(0) @binding(0) var source: texture_{type}<f32>;
@group(0) @binding(1) var source_sampler: sampler;
@group(0) @binding(2) var<storage, read> places: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4f>;
@compute @workgroup_size(32) fn sample_{type}(@builtin(global_invocation_id) at: vec3u) {{
    let i = at.x;
    result[i] = textureSampleLevel(source, source_sampler, {place}, 0.0);
}}
"""
_PLACES = {
    "2d": "vec2f(places[2 * i], places[2 * i + 1])",
    "3d": "vec3f(places[3 * i], places[3 * i + 1], places[3 * i + 2])",
    "2d_array": "vec2f(places[3 * i], places[3 * i + 1]), i32(places[3 * i + 2])",
}
_WRITTEN = """@group(0) @binding(0) var destination: texture_storage_2d<{format}, write>;
@compute @workgroup_size(8, 8) fn write_{format}(@builtin(global_invocation_id) at: vec3u) {{
    textureStore(destination, at.xy, vec4f(vec4u(at.xy, at.x + at.y, 255u)) / 255.0);
}}
"""


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
    count = Interface(
        [
            Param("counts", "buffer", "uint32", "rw", (0, 3)),
            Param("values", "buffer", "int32", "r", (0, 4)),
        ],
        block=(8, 1, 1),
    )
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "uint32"], _TAGS, (), axpy),
        "count": FunctionInfo("count", ["handle", "handle"], _TAGS, (), count),
    }


def _count(counts: Array, values: Array) -> None:
    for value in values & 7:
        counts[value] += 1


def _scale(source: Array, scaled: Array, by: float, n: int) -> None:
    scaled[:n] = source.dtype.type(by) * source[:n]


def _bad(
    text: bytes,
    interface: Interface | None = None,
    types: tuple[str, ...] = ("handle",),
    entry: str = "k",
) -> Sample:
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
                Call(
                    "count",
                    lambda rng: [rng.integers(0, 9, 8, "uint32"), rng.integers(0, 99, 64, "int32")],
                    _count,
                    grid=8,
                    block=8,
                ),
            ],
        ),
        Sample(
            {"scale": _TVM},
            "wgsl",
            {
                "scale": FunctionInfo(
                    "scale_kernel",
                    ["handle", "handle", "float32", "int32"],
                    [*_TAGS, "paramWriteAccess:[0,1]"],
                )
            },
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(64, "float32"), rng.random(64, "float32"), 3.0, 50],
                    _scale,
                    grid=16,
                    block=4,
                ),
            ],
        ),
        Sample.compiled(_TRANSPOSE, "webgpu", calls=[transpose_call()]),
    )
    images = (
        *(
            Sample.compiled(_SAMPLED.format(type=each, place=place), "webgpu")
            for each, place in _PLACES.items()
        ),
        *(
            Sample.compiled(_WRITTEN.format(format=each), "webgpu")
            for each in ("rgba8unorm", "rgba32float")
        ),
    )
    scalars = tuple(
        Sample.compiled(_STORE.format(type=each), "webgpu") for each in ("i32", "u32", "f32")
    )
    slow = Sample.compiled(_SPIN, "webgpu", calls=[spin_call(grid=64, block=16)])
    bad_payloads = (
        _bad(b"@compute @workgroup_size(1) fn k() { nonsense(); }", types=()),
        _bad(b"\x00\xff"),
        _bad(b"no shader of any kind"),
        _bad(b"#version 450\nvoid main() {}"),
        _bad(b"@compute @workgroup_size(1) fn k() {}", types=(), entry="other"),
        _bad(b"@compute @workgroup_size(1) fn k() {}", types=("float64",)),
        _bad(
            b"@compute @workgroup_size(1) fn k() {}",
            Interface([Param("x", "buffer", "float32", "r", (0, 1 << 40))]),
        ),
        _bad(
            b"@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() { x[0] = 1.0; }",
            Interface([Param("x", "buffer", "float32", "r", (0, 0))]),
        ),
    )

    def new_handle(self) -> object:
        device: Any = devmod.device("webgpu")
        return device.gpu.adapter.request_device_sync()
