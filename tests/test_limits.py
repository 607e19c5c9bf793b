"""A candidate that the device cannot run: `explain` refuses it, a bundle takes the next one, and
its own error names the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

import devmod

CL = "__kernel __attribute__((reqd_work_group_size({}, 1, 1))) void k(__global float *y) {{ y[get_global_id(0)] = 7; }}"
WGSL = """@group(0) @binding(0) var<storage, read_write> y: array<f32>;
{}
@compute @workgroup_size({}) fn k(@builtin(global_invocation_id) id: vec3u) {{ {} y[id.x] = 7.0; }}"""
GLSL = """#version 450
layout(local_size_x = {1}) in;
layout(binding = 0) buffer Y {{ float y[]; }};
{0}
void main() {{ {2} y[gl_GlobalInvocationID.x] = 7; }}"""


def wgsl(head: str = "", threads: int = 64, body: str = "") -> Any:
    return devmod.compile(WGSL.format(head, threads, body), "webgpu")


def glsl(head: str = "", threads: int = 64, body: str = "", target: str = "vulkan") -> Any:
    return devmod.compile(GLSL.format(head, threads, body), target, name="k")


READ = "t[gl_LocalInvocationIndex] = y[0]; barrier(); y[0] = t[gl_LocalInvocationIndex ^ 1];"
#: The kind, a kernel that is over the limit, and the limit.
CASES = [
    ("webgpu", lambda most: wgsl(threads=most + 1), "maxComputeWorkgroupSizeX"),
    (
        "webgpu",
        lambda most: wgsl(
            f"var<workgroup> t: array<f32, {most // 4 + 4}>;", body="t[id.x] = y[0];"
        ),
        "maxComputeWorkgroupStorageSize",
    ),
    ("vulkan", lambda most: glsl(threads=most + 1), "maxComputeWorkGroupSize[0]"),
    (
        "vulkan",
        lambda most: glsl(f"shared float t[{most // 4 + 1}];", body=READ),
        "maxComputeSharedMemorySize",
    ),
    (
        "vulkan",
        lambda most: glsl(
            f"layout(push_constant) uniform P {{ {''.join(f'float p{i};' for i in range(most // 4 + 1))} }};",
            body="y[0] = p0;",
        ),
        "maxPushConstantsSize",
    ),
    (
        "opencl",
        lambda most: devmod.compile(CL.format(most + 1), "opencl"),
        "max_work_item_sizes[0]",
    ),
]


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("kind", "make", "limit"), CASES, ids=[f"{kind} {limit}" for kind, _, limit in CASES]
)
def test_a_candidate_over_a_limit(kind: str, make: Any, limit: str) -> None:
    device = first_device(kind)
    first_device("vulkan"), first_device("opencl")
    over, other = (
        make(device.limits[limit]),
        glsl() if kind == "opencl" else devmod.compile(CL.format(64), "opencl"),
    )
    module = devmod.loads(devmod.dumps(devmod.bundle(over, other, mixed=True)))
    assert [
        (each.kind, each.outcome, each.reason)
        for each in devmod.explain(module, "k").functions["k"]
    ] == [
        (other.kind, "best", ""),
        (kind, "refused", "no device"),
    ]
    y = np.zeros(64, "float32")
    module["k"](y, grid=1)
    assert y.tolist() == [7.0] * 64
    message = refusal(devmod.DeviceNotFoundError, over.get_function, "k")
    text = f"the {kind} function 'k' cannot run on {device}: its {limit} is {device.limits[limit]}, but the kernel "
    assert message.startswith(text)
    refused = devmod.explain(over, "k", device).functions["k"][0]
    assert f"the {kind} function 'k' {refused.text}" == message


def test_a_source_that_does_not_compile_is_raised() -> None:
    """Only what the device lacks leaves a candidate out."""
    first_device("vulkan"), first_device("opencl")
    source = devmod.compile(CL.format(64), "opencl")
    broken = devmod.create(
        "opencl", source.code.replace(b"= 7", b"= undeclared"), "cl", dict(source.functions)
    )
    module = devmod.bundle(broken, glsl())
    with pytest.raises(devmod.CompileError, match="undeclared"):
        module["k"]


def test_shared_memory_that_the_optimizer_removes_does_not_count() -> None:
    device = first_device("vulkan")
    most = device.limits["maxComputeSharedMemorySize"]
    module = glsl(f"shared float t[{most // 4 + 1}];", body="t[gl_LocalInvocationIndex] = y[0];")
    interface = module.functions["k"].interface
    assert "workgroup_memory" not in interface.extra
    y = np.zeros(64, "float32")
    module["k"](y, grid=1)
    assert y.tolist() == [7.0] * 64
