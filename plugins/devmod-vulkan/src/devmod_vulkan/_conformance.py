"""Entry point ``devmod.conformance.vulkan``: shaders with their expected results, for `devmod
conformance vulkan` and this plugin's tests.

The shaders are stored as SPIR-V, so that the kit needs no compiler. glslangValidator and
``spirv-opt -O --strip-debug`` made each from the GLSL beside it. One more shader is compiled, for
the rows about the compiler.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from devmod import Block, FunctionInfo, Interface, Param
from devmod.backend import GRID_TAGS
from devmod_conformance import (
    Call,
    Conformance,
    Sample,
    axpy_call,
    count_call,
    spin_call,
    transpose_call,
)

_SAMPLES = files("devmod_vulkan") / "samples"

#: A kernel that samples, for the types of images.
_SAMPLED = """#version 450
layout(local_size_x = 32) in;
layout(binding = 0) uniform sampler{type} source;
layout(binding = 1) readonly buffer Places {{ float places[]; }};
layout(binding = 2) writeonly buffer Result {{ vec4 result[]; }};
void main()
{{
    uint i = gl_GlobalInvocationID.x;
    result[i] = textureLod(source, {place}, 0);
}}
"""
_PLACES = {
    "1D": "places[i]",
    "2D": "vec2(places[2 * i], places[2 * i + 1])",
    "3D": "vec3(places[3 * i], places[3 * i + 1], places[3 * i + 2])",
    "2DArray": "vec3(places[3 * i], places[3 * i + 1], places[3 * i + 2])",
}
#: The same with a sampler of its own.
_SEPARATE = """#version 450
layout(local_size_x = 32) in;
layout(binding = 0) uniform texture2D source;
layout(binding = 3) uniform sampler source_sampler;
layout(binding = 1) readonly buffer Places { float places[]; };
layout(binding = 2) writeonly buffer Result { vec4 result[]; };
void main()
{
    uint i = gl_GlobalInvocationID.x;
    result[i] = textureLod(sampler2D(source, source_sampler), vec2(places[2 * i], places[2 * i + 1]), 0);
}
"""
_WRITTEN = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0, {format}) writeonly uniform image2D destination;
void main()
{{
    uvec2 at = gl_GlobalInvocationID.xy;
    imageStore(destination, ivec2(at), vec4(at, at.x + at.y, 255) / 255);
}}
"""
_STORE = """#version 450
layout(push_constant) uniform Scalars {{ {type} value; }};
layout(binding = 0) writeonly buffer Result {{ {type} result[]; }};
void main() {{ result[0] = value; }}
"""
_SUBGROUP = """#version 450
#extension GL_KHR_shader_subgroup_basic : enable
layout(local_size_x = 64) in;
layout(binding = 0) writeonly buffer Result { uint result[]; };
void main() { result[gl_GlobalInvocationID.x] = gl_SubgroupSize; }
"""


def _shader(name: str, flag: int = 0) -> bytes:
    words = (_SAMPLES / f"{name}.spv").read_bytes()
    return flag.to_bytes(4, "little") + (len(words) // 4).to_bytes(8, "little") + words


def _buffers(*buffers: tuple[str, str, str]) -> list[Param]:
    return [
        Param(name, "buffer", dtype, access, (0, binding))
        for binding, (name, dtype, access) in enumerate(buffers)
    ]


def _linear_info() -> dict[str, FunctionInfo]:
    a = Param("a", "scalar", "float32", at=(0, 0))
    n = Param("n", "scalar", "int32", at=(0, 4))
    axpy = Interface(
        [*_buffers(("x", "float32", "r"), ("y", "float32", "rw")), a, n],
        [Block("push", 8)],
        (32, 1, 1),
    )
    # The scalar is in a uniform buffer of another set.
    uniform = Param("n", "scalar", "int32", at=(0, 0))
    count = Interface(
        [*_buffers(("values", "int32", "r"), ("counts", "uint32", "rw")), uniform],
        [Block((1, 2), 4)],
        (8, 1, 1),
    )
    return {
        "axpy": FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], GRID_TAGS, (), axpy),
        "count": FunctionInfo("main", ["handle", "handle", "int32"], GRID_TAGS, (), count),
    }


def _spin_info() -> dict[str, FunctionInfo]:
    spin = Interface(
        [*_buffers(("x", "uint32", "rw")), Param("n", "scalar", "int32", at=(0, 0))],
        [Block("push", 4)],
        (16, 1, 1),
    )
    return {"spin": FunctionInfo("spin", ["handle", "int32"], GRID_TAGS, (), spin)}


def _scale(x: Any) -> None:
    x *= 3


class VulkanConformance(Conformance):
    """SPIR-V with an interface, and SPIR-V in TVM's form: scalars in push constants or, if the flag
    is set, in a uniform buffer.
    """

    kind = "vulkan"
    build_step = "devmod_vulkan._pipeline.Pipeline"
    driver_modules = ("vulkan",)
    samples = (
        Sample(
            {"axpy": _shader("axpy"), "count": _shader("count")},
            "spv",
            _linear_info(),
            source={"spv": "; a listing"},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            {
                "transpose": _shader("transpose"),
                "transpose_uniform": _shader("transpose_uniform", 1),
            },
            "spv",
            {
                name: FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)
                for name in ("transpose", "transpose_uniform")
            },
            calls=[transpose_call(), transpose_call("transpose_uniform")],
        ),
        Sample(
            {"transpose": _shader("transpose")},
            "spv",
            {
                "transpose": FunctionInfo(
                    "transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS
                )
            },
            calls=[transpose_call()],
        ),
        Sample.compiled(
            (_SAMPLES / "scale.comp").read_text("utf-8"),
            "vulkan",
            name="scale",
            calls=[Call("scale", lambda rng: [rng.random(64, "float32")], _scale, grid=2)],
        ),
    )
    images = (
        *(
            Sample.compiled(
                _SAMPLED.format(type=each, place=place), "vulkan", name=f"sample_{each}"
            )
            for each, place in _PLACES.items()
        ),
        Sample.compiled(_SEPARATE, "vulkan", name="sample_separate"),
        *(
            Sample.compiled(_WRITTEN.format(format=each), "vulkan", name=f"write_{each}")
            for each in ("rgba8", "rgba32f")
        ),
    )
    scalars = tuple(
        Sample.compiled(_STORE.format(type=each), "vulkan", name=f"store_{each}")
        for each in ("int", "uint", "float")
    )
    subgroups = tuple(
        Sample.compiled(_SUBGROUP, "vulkan", name="reports", subgroup=size) for size in (4, 8, 32)
    )
    slow = Sample({"spin": _shader("spin")}, "spv", _spin_info(), calls=[spin_call(grid=64)])
    bad_payloads = (
        Sample({"k": b""}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": b"\x00\xff"}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": bytes(12)}, "spv", {"k": FunctionInfo("k", ["handle"])}),
        Sample({"k": _shader("axpy")[:-4]}, "spv", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample({"k": _shader("axpy")}, "spv", {"k": FunctionInfo("other", ["handle"])}),
        Sample({"k": _shader("axpy")}, "spv", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample({"j": _shader("axpy")}, "spv", {"k": FunctionInfo("k", ["handle"])}),
    )
