"""Made candidates under, at and over the limits of the devices here: `explain` and the call agree
in each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod.backend import FEATURES, IMAGE_FORMATS, Capabilities

WGSL = """{head}@group(0) @binding(0) var<storage, read_write> y: array<f32>;
{declared}
@compute @workgroup_size({block}) fn k(@builtin(local_invocation_index) i: u32) {{ {body} if i == 0 {{ y[0] = y[0] * 0.0 + 7.0; }} }}"""
GLSL = """#version 450
layout(local_size_x = {block[0]}, local_size_y = {block[1]}, local_size_z = {block[2]}) in;
layout(binding = 0) buffer Y {{ float y[]; }};
{declared}
void main() {{ uint i = gl_LocalInvocationIndex; {body} if (i == 0) y[0] = y[0] * 0.0 + 7.0; }}"""
CL = "__kernel void k(__global float *y) { if (get_global_id(0) == 0) y[0] = VALUE; }"
C = "void k(float *y) { y[0] = 7; }"
#: Formats of storage images in WGSL, with GLSL's.
FORMATS = {
    "rgba8unorm": "rgba8",
    "r32float": "r32f",
    "rgba16float": "rgba16f",
    "rgba32float": "rgba32f",
    "r8unorm": "r8",
    "rg16float": "rg16f",
    "rgba16unorm": "rgba16",
}


#: The limits on numbers of bindings that the made shaders approach, by kind.
BINDING_LIMITS = {
    "vulkan": ["maxPerStageDescriptorStorageBuffers"],
    "webgpu": ["maxStorageBuffersPerShaderStage", "maxSampledTexturesPerShaderStage"],
}


def near(rng: random.Random, most: int, unit: int = 1) -> int:
    """Return an amount under, at or over a limit, a multiple of a unit."""
    return max(
        unit, rng.choice((unit, most // 2, most, most, most + unit, 2 * most)) // unit * unit
    )


def make_block(rng: random.Random, limits: Any, *names: str) -> tuple[int, int, int]:
    """Return a block of which one dimension, or all threads together, are near a limit."""
    block = [1, 1, 1]
    axis = rng.randrange(3)
    block[axis] = near(rng, limits[names[axis]])
    if rng.random() < 0.4:
        block[(axis + 1) % 3] = rng.choice((2, 4))
    return block[0], block[1], block[2]


def webgpu(rng: random.Random) -> devmod.Module:
    limits = first_device("webgpu").limits
    block, head, declared, body = (64, 1, 1), "", "", ""
    match rng.choice(
        ("block", "memory", "uniform", "buffers", "textures", "group", "format", "enable")
    ):
        case "block":
            block = make_block(rng, limits, *(f"maxComputeWorkgroupSize{axis}" for axis in "XYZ"))
        case "memory":
            count = near(rng, limits["maxComputeWorkgroupStorageSize"], 16) // 4
            declared, body = (
                f"var<workgroup> t: array<f32, {count}>;",
                f"t[i % {count}] = y[0]; y[1] = t[(i + 1) % {count}];",
            )
        case "uniform":
            count = min(near(rng, limits["maxUniformBufferBindingSize"], 16) // 16, 4095)
            declared = (
                f"struct U {{ m: array<vec4f, {count}> }} @group(0) @binding(1) var<uniform> u: U;"
            )
            body = "_ = u.m[0];"
        case "buffers":
            count = near(rng, limits["maxStorageBuffersPerShaderStage"])
            declared = "".join(
                f"@group(0) @binding({n}) var<storage> b{n}: array<f32>;" for n in range(1, count)
            )
            body = "".join(f"_ = b{n}[0];" for n in range(1, count))
        case "textures":
            count = near(rng, limits["maxSampledTexturesPerShaderStage"])
            declared = "".join(
                f"@group(1) @binding({n}) var b{n}: texture_2d<f32>;" for n in range(count)
            )
            body = "".join(f"_ = textureLoad(b{n}, vec2(0, 0), 0);" for n in range(count))
        case "group":
            most = limits["maxBindGroups"] - 1
            declared, body = (
                f"@group({near(rng, most)}) @binding(0) var<storage> b: array<f32>;",
                "_ = b[0];",
            )
        case "format":
            name, access = rng.choice([*FORMATS]), rng.choice(("write", "read", "read_write"))
            declared = f"@group(0) @binding(1) var t: texture_storage_2d<{name}, {access}>;"
            body = (
                "_ = textureLoad(t, vec2(0, 0));"
                if access == "read"
                else "textureStore(t, vec2(0, 0), vec4f());"
            )
        case _:
            head = rng.choice(("enable f16;", "enable subgroups;", "enable f16; enable subgroups;"))
    text = WGSL.format(head=head, declared=declared, block=", ".join(map(str, block)), body=body)
    return with_needs(devmod.compile(text, "webgpu"), rng)


def vulkan(rng: random.Random) -> devmod.Module:
    limits = first_device("vulkan").limits
    block, declared, body = (64, 1, 1), "", ""
    match rng.choice(("block", "memory", "push", "uniform", "buffers", "set", "format")):
        case "block":
            block = make_block(
                rng, limits, *(f"maxComputeWorkGroupSize[{axis}]" for axis in range(3))
            )
        case "memory":
            count = near(rng, limits["maxComputeSharedMemorySize"], 4) // 4
            declared, body = (
                f"shared float t[{count}];",
                f"t[i % {count}] = y[0]; barrier(); y[1] = t[(i + 1) % {count}];",
            )
        case "push":
            count = near(rng, limits["maxPushConstantsSize"], 4) // 4
            declared = f"layout(push_constant) uniform P {{ {''.join(f'float p{n};' for n in range(count))} }};"
            body = f"y[1] = p{count - 1};"
        case "uniform":
            count = min(near(rng, limits["maxUniformBufferRange"], 16) // 16, 4095)
            declared, body = (
                f"layout(binding = 1) uniform U {{ vec4 m[{count}]; }};",
                "y[1] = m[0].x;",
            )
        case "buffers":
            count = near(rng, limits["maxPerStageDescriptorStorageBuffers"])
            declared = "".join(
                f"layout(binding = {n}) buffer B{n} {{ float b{n}[]; }};" for n in range(1, count)
            )
            body = "".join(f"y[1] += b{n}[0];" for n in range(1, count))
        case "set":
            declared = f"layout(set = {near(rng, limits['maxBoundDescriptorSets'] - 1)}, binding = 0) buffer B {{ float b[]; }};"
            body = "y[1] = b[0];"
        case _:
            name = rng.choice([*FORMATS])
            declared = f"layout(binding = 1, {FORMATS[name]}) uniform writeonly image2D t;"
            body = "imageStore(t, ivec2(0), vec4(0));"
    text = GLSL.format(declared=declared, block=block, body=body)
    return with_needs(devmod.compile(text, "vulkan", name="k"), rng)


def opencl(rng: random.Random) -> devmod.Module:
    limits = first_device("opencl").limits
    fields: dict[str, Any] = {"block": (64, 1, 1)}
    if rng.random() < 0.5:
        fields["block"] = make_block(
            rng, limits, *(f"max_work_item_sizes[{axis}]" for axis in range(3))
        )
    else:
        fields["extra"] = {"workgroup_memory": near(rng, limits["local_mem_size"])}
    return with_needs(devmod.compile(CL, "opencl", defines={"VALUE": "7"}), rng, **fields)


def hexagon(rng: random.Random) -> devmod.Module:
    first_device("hexagon")
    return with_needs(devmod.compile(C, "hexagon -arch=v67"), rng)


def with_needs(module: devmod.Module, rng: random.Random, **fields: Any) -> devmod.Module:
    """Return a module whose function has other fields in its interface, and sometimes needs."""
    info = module.functions["k"]
    interface = info.interface
    assert interface is not None
    if rng.random() < 0.3:
        fields["needs"] = {*interface.needs, *rng.sample([*FEATURES, "unknown"], rng.randint(1, 2))}
    if rng.random() < 0.15:
        fields["subgroup"] = rng.choice((4, 8, 16, 32, 1024))
    return devmod.create(
        module.kind,
        module.code,
        module.format,
        {"k": info.replace(interface=interface.replace(**fields))},
    )


def arguments(function: devmod.Function) -> list[Any]:
    """Return arguments for a call: the first is the result."""
    interface = function.info.interface
    assert interface is not None
    values: list[Any] = [np.zeros(64, "float32")]
    for param in interface.params[1:]:
        match param.kind:
            case "buffer":
                values.append(np.zeros(64, "float32"))
            case "image":
                values.append(function.default_device().image((4, 4), param.format or "rgba8unorm"))
            case "uniform":
                values.append(bytes(np.prod([int(each) for each in param.type.split("x")[1:]])))
            case _:
                values.append(1.0)
    return values


def disagreement(module: devmod.Module) -> str:
    """Return how `explain` and a call of the function "k" differ; "" if they agree."""
    candidate = devmod.explain(module, "k").functions["k"][0]
    try:
        function = module["k"]
        values = arguments(function)
        function(*values, **({} if module.kind == "hexagon" else {"grid": 1}))
    except devmod.DeviceNotFoundError as error:
        return (
            ""
            if str(error) == f"the {module.kind} function 'k' {candidate.text}"
            else f"{candidate.text}; the call: {error}"
        )
    except devmod.DevmodError as error:
        return f"{candidate.text}; the call: {error}"
    if candidate.outcome != "best" or values[0][0] != 7:
        return f"{candidate.text}; the call: {values[0][0]}"
    other = devmod.compile(CL, "opencl", defines={"VALUE": "5"})
    return "" if module.kind in ("opencl", "hexagon") else bundle_disagreement(module, other)


def bundle_disagreement(module: devmod.Module, other: devmod.Module) -> str:
    """Return how a bundle differs from what `explain` says of it; "" if it does not."""
    if list(module.functions["k"].arg_types) != ["handle"]:
        return ""
    bundle = devmod.bundle(module, other, mixed=True)
    best = devmod.explain(bundle, "k").best("k")
    y = np.zeros(64, "float32")
    bundle["k"](y, grid=1, **({} if bundle["k"].block else {"block": 1}))
    expected = 7 if best is not None and best.kind == module.kind else 5
    return "" if y[0] == expected else f"{best}; the call: {y[0]}"


MAKERS: dict[str, Callable[[random.Random], devmod.Module]] = {
    "vulkan": vulkan,
    "webgpu": webgpu,
    "opencl": opencl,
    "hexagon": hexagon,
}


@pytest.mark.row("R40")
@pytest.mark.volume_but("vulkan-14-0", "webgpu-14-0", "opencl-10-0", "hexagon-2-0")
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(
    ("kind", "count"), [("vulkan", 14), ("webgpu", 14), ("opencl", 10), ("hexagon", 2)]
)
def test_explain_and_the_call_agree(
    kind: str, count: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that no shader can exceed, such as 1,000,000 bindings, is lowered."""
    for name in BINDING_LIMITS.get(kind, ()):
        limits = first_device(kind).limits
        monkeypatch.setitem(limits, name, min(limits[name], 64))
    rng = random.Random(f"{kind} {part}")
    assert set(FORMATS) <= set(IMAGE_FORMATS)
    assert [problem for _ in range(count) if (problem := disagreement(MAKERS[kind](rng)))] == []


def test_a_disagreement_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that only the driver has, and one that only the table has."""
    device = first_device("opencl")
    module = with_needs(
        devmod.compile(CL, "opencl", defines={"VALUE": "7"}),
        random.Random(1),
        block=(1 << 20, 1, 1),
        needs=(),
        subgroup=None,
    )
    assert disagreement(module) == ""
    assert devmod.explain(module, "k").best("k") is None
    monkeypatch.setattr(type(device), "capabilities", property(lambda device: Capabilities(device)))
    assert (
        f"the call: the opencl function 'k' cannot be launched on {device}: its max_work_item_sizes[0] is "
        in disagreement(module)
    )
