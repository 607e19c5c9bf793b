"""`devmod.guard` on a device: kernels that write at any element, and what a guard finds. The same
test for each kind.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from each_case import raised, refusal

import devmod

SOURCES = {
    "opencl": "__kernel void put(__global float *x, __global const float *y, int at) { if (get_global_id(0) == 0) x[at] = y[0]; }",
    "cuda": 'extern "C" __global__ void put(float *x, const float *y, int at) { if (threadIdx.x == 0) x[at] = y[0]; }',
    "metal": """kernel void put(device float *x [[buffer(0)]], device const float *y [[buffer(1)]], constant int &at [[buffer(2)]],
        uint i [[thread_position_in_grid]]) { if (i == 0) x[at] = y[0]; }""",
    "hexagon": "void put(float *x, const float *y, int at) { x[at] = y[0]; }",
    "vulkan": """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(push_constant) uniform P { int at; };
void main() { x[at] = y[0]; }
""",
    "webgpu": """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<uniform> at: i32;
@compute @workgroup_size(1) fn put() { x[at] = y[0]; }
""",
}
SOURCES["rocm"] = SOURCES["cuda"]
#: Kernels with the number of a row, and of what a launch has in a row; the third has a parameter
#: for it.
ROWS = {
    "opencl": (
        "__kernel void rows(__global int *x, int n) {{ int i = get_global_id(0) + {0}; if (i < n) x[i] = 1; }} "
        "__kernel void other(__global int *x) {{ x[get_global_id(1)] = 1; }}",
        "get_global_id(1)",
        "get_global_size(0)",
    ),
    "cuda": (
        'extern "C" __global__ void rows(int *x, int n) {{ int i = threadIdx.x + {0}; if (i < n) x[i] = 1; }} '
        'extern "C" __global__ void other(int *x) {{ x[blockIdx.y] = 1; }}',
        "blockIdx.y",
        "gridDim.x",
    ),
    "metal": (
        """kernel void rows(device int *x [[buffer(0)]], constant int &n [[buffer(1)]], uint2 id [[thread_position_in_grid]]{1}) {{
        int i = id.x + {0}; if (i < n) x[i] = 1; }}
        kernel void other(device int *x [[buffer(0)]], uint2 id [[thread_position_in_grid]]) {{ x[id.y] = 1; }}""",
        "id.y",
        "all.x",
        ", uint2 all [[threads_per_grid]]",
    ),
    "vulkan": (
        """#version 450
layout(local_size_x = 1) in; layout(binding = 0) buffer X {{ int x[]; }}; layout(push_constant) uniform P {{ int n; }};
void main() {{ int i = int(gl_GlobalInvocationID.x + {0}); if (i < n) x[i] = 1; }}""",
        "gl_GlobalInvocationID.y",
        "gl_NumWorkGroups.x",
    ),
    "webgpu": (
        """@group(0) @binding(0) var<storage, read_write> x: array<i32>; @group(0) @binding(1) var<uniform> n: i32;
@compute @workgroup_size(1) fn rows(@builtin(global_invocation_id) id: vec3u{1}) {{ let i = i32(id.x + {0}); if (i < n) {{ x[i] = 1; }} }}
@compute @workgroup_size(1) fn other(@builtin(global_invocation_id) id: vec3u) {{ if (n > 0) {{ x[id.y] = 1; }} }}""",
        "id.y",
        "all.x",
        ", @builtin(num_workgroups) all: vec3u",
    ),
}
#: The kinds with drivers that drop a write before an array.
BOUND = ("vulkan", "webgpu")

ADVICE = "Compare the bound in the kernel with this number of elements, or pass a larger array"


def check_guard(device: Any, target: str) -> None:
    """Call a kernel that writes inside and outside of an array, with arrays of the host and of the
    device, and prepared.
    """
    kind = device.kind
    put = devmod.compile(SOURCES[kind], target, name="put")["put"].on(device)
    launch: dict[str, Any] = {} if kind == "hexagon" else {"grid": 1, "block": 1}
    label = f"the {kind} function 'put' has written outside of argument 1 'x'"

    with devmod.guard():
        value = np.float32([2.0])  # no byte of it is one of a zone
        for make in (np.zeros, device.zeros):
            for at in (0, 7):
                x = make(8, "float32")
                y = value if make is np.zeros else device.from_numpy(value)
                put(x, y, at, **launch)
                expected = np.zeros(8, "float32")
                expected[at] = 2.0
                assert np.array_equal(x if isinstance(x, np.ndarray) else x.numpy(), expected)
            for at in (8, 13, *(() if kind in BOUND else (-1, -9))):
                with pytest.raises(devmod.GuardError) as caught:
                    put(make(8, "float32"), y, at, **launch)
                text = f"{label}: x[{at}] is 2.0, and the array has 8 elements of float32; changed bytes around it: 4. {ADVICE}"
                assert str(caught.value) == text
                error = caught.value
                assert (error.kind, error.function, error.argument, error.index, error.value) == (
                    kind,
                    "put",
                    "x",
                    at,
                    2.0,
                )

        # An empty array and a view have zones too. The number of the element counts from the start
        # of the view.
        text = f"{{}}: x[{{}}] is 2.0, and the array has {{}} elements of float32; changed bytes around it: 4. {ADVICE}"
        for make in (np.zeros, device.zeros):
            assert refusal(
                devmod.GuardError, put, make(0, "float32"), y, 0, **launch
            ) == text.format(label, 0, 0)
        whole = device.zeros(2 * 64, "float32")
        assert refusal(devmod.GuardError, put, whole[64:], y, 66, **launch) == text.format(
            label, 66, 64
        )

        # After an error the zones are sound again, and a prepared launch is compared each time.
        x, y = device.from_numpy(np.zeros(8, "float32")), device.from_numpy(value)
        inside, outside = put.bind(x, y, 3, **launch), put.bind(x, y, 9, **launch)
        inside()
        for _ in range(2):
            with pytest.raises(devmod.GuardError):
                outside()
            inside()
        with pytest.raises(devmod.GuardError):
            outside.time()
        assert inside.time() >= 0

        # A new array shows what was never written.
        assert device.empty(3, "int32").numpy().tolist() == [-33686019] * 3
        assert device.zeros((2, 0), "float32").numpy().shape == (2, 0)

        # An argument may have another name than in the source.
        renamed = re.sub(r"(?<!\.)\bx\b", "x_packed", SOURCES[kind])
        renamed_put = devmod.compile(renamed, target, name="put", aliases={"x": ["x_packed"]})[
            "put"
        ].on(device)
        renamed_put(x=x, y=y, at=7, **launch)
        refused = raised(devmod.GuardError, renamed_put, x=x, y=y, at=8, **launch)
        assert (refused.argument, refused.index) == ("x", 8)

    check_several(device, target)
    check_dimensions(device, target)
    # Outside of the context nothing is compared.
    x = device.zeros(8, "float32")
    put(x, y, 2, **launch)
    assert x.numpy()[2] == 2.0


def check_several(device: Any, target: str) -> None:
    """Launch kernels that write at several elements outside: the error names the nearest one."""
    kind = device.kind
    launch: dict[str, Any] = {} if kind == "hexagon" else {"grid": 1, "block": 1}
    before = () if kind in BOUND else (-1, -9)
    for also, places in (("2 * at - 7", (8, 13, *before)), ("7 - at", (8, 13) if before else ())):
        source = SOURCES[kind].replace("x[at] = y[0];", f"x[{also}] = y[0]; x[at] = y[0];")
        assert source.count("y[0]") == 2
        put = devmod.compile(source, target, name="put")["put"].on(device)
        for at in places:
            with devmod.guard(), pytest.raises(devmod.GuardError) as caught:
                put(np.zeros(8, "float32"), np.float32([2.0]), at, **launch)
            assert (caught.value.index, caught.value.value) == (at, 2.0)
            assert "; changed bytes around it: 8. " in str(caught.value)


def check_dimensions(device: Any, target: str) -> None:
    """Launch kernels with one dimension: one that reads two has a warning, unless it reads the size
    of the grid, or one row is meant.
    """
    if device.kind not in ROWS:  # no grid, or machine code
        return
    source, row, size, *extra = ROWS[device.kind]
    text = f"the {device.kind} function 'rows' reads its place in 2 dimensions, and the launch has 1; give all, such as threads=(100, 1)"
    for place, expected in ((row, [text]), ("0", []), (f"{row} * {size}", [])):
        name = "rows" if device.kind == "vulkan" else None
        rows = devmod.compile(
            source.format(place, (extra or [""])[0] if size in place else ""), target, name=name
        )["rows"].on(device)
        for n, launch, warned in (
            (8, {"threads": 8}, expected),
            (8, {"grid": 8}, expected),
            (1, {"threads": 8}, []),
            (8, {"threads": (8, 1)}, []),
        ):
            block = {"block": 1} if rows.block is None else {}
            with devmod.guard(), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                rows(np.zeros(8, "int32"), n, **launch, **block)
            # pyopencl has warnings of its own.
            found = [
                str(each.message) for each in caught if each.category.__module__[:6] == "devmod"
            ]
            assert found == warned, (place, n, launch)


def check_lengths(device: Any, source: str) -> None:
    """Call a shader that uses the length of its array, whose binding then has no zone: the length
    is right, and a warning says so.
    """
    for text, aliases in (
        (source, None),
        (re.sub(r"\bx\b", "x_packed", source), {"x": ["x_packed"]}),
    ):
        _check_lengths(
            device,
            devmod.compile(text, device.kind, name="count", aliases=aliases)["count"].on(device),
        )


def _check_lengths(device: Any, count: Any) -> None:
    x = np.zeros(8, "uint32")
    warning = (
        f"the {device.kind} function 'count': guard cannot see writes past argument 1 'x': the kernel uses its run-time length, so devmod "
        "binds the array alone"
    )
    with devmod.guard(), pytest.warns(UserWarning, match=f"^{re.escape(warning)}$"):
        count(x, grid=1)
    assert x[0] == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count(x, grid=1)
