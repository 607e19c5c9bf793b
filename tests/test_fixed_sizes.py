"""Limits of a device that a file is known to exceed: `explain` refuses the candidate, as the call
does, and the next one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

import devmod
from devmod.errors import DeviceMemoryError

pytestmark = pytest.mark.row("R40", "R45")
#: The limits of an array and of a binding, on the kinds that run here.
LIMITS = {
    "opencl": ["max_mem_alloc_size"],
    "vulkan": ["maxMemoryAllocationSize", "maxStorageBufferRange"],
    "webgpu": ["maxBufferSize", "maxStorageBufferBindingSize"],
    "hexagon": ["memory"],
}
CASES = [(kind, limit) for kind, limits in LIMITS.items() for limit in limits]
#: A kernel whose arrays have a fixed length or none.
COPY = {
    "opencl": "kernel void copy(global const float *x, global float *y) {{ y[0] = x[0]; }}",
    "vulkan": (
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) readonly buffer X {{ float x[{0}]; }};\n"
        "layout(binding = 1) buffer Y {{ float y[]; }};\nvoid main() {{ y[0] = x[0]; }}"
    ),
    "webgpu": (
        "@group(0) @binding(0) var<storage> x: array<f32{1}{0}>; @group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(1) fn copy() {{ y[0] = x[0]; }}"
    ),
    "hexagon": "void copy(const float *x, float *y) {{ y[0] = x[0]; }}",
}
ADDRESSES = """[shader("compute")] [numthreads(1, 1, 1)] void copy(uniform float* x, uniform float* y) { y[0] = x[0]; }"""
#: An array with a fixed length, in each role. The call needs no memory for it: it is refused
#: before.
ROLES: dict[str, Callable[[int], Any]] = {
    "constant": lambda count: {"constants": [f"x: float32[{count}]"], "outputs": ["y: float32[1]"]},
    "input": lambda count: {"inputs": [f"x: float32[{count}]"], "outputs": ["y: float32[1]"]},
    "output": lambda count: {"inputs": ["x: float32[1]"], "outputs": [f"y: float32[{count}]"]},
    "temporary": lambda count: {
        "temporaries": [f"x: float32[{count}] = 0"],
        "outputs": ["y: float32[1]"],
    },
}


def kernel(kind: str, count: int | str = "") -> devmod.Module:
    target = f"hexagon -arch={first_device(kind).arch}" if kind == "hexagon" else kind
    return devmod.compile(COPY[kind].format(count, ", " if count else ""), target, name="copy")


def launch(
    kernels: devmod.Module, step: str = "copy(x=x, y=y, threads=1)", **declared: Any
) -> devmod.Module:
    if "constants" in declared:
        lengths = [int(each.partition("[")[2][:-1]) for each in declared["constants"]]
        constants = devmod.const_loader({"x": np.zeros(lengths[0], "float32")}, {"init": ["x"]})
        kernels = devmod.bundle(kernels, constants, mixed=True)
    return devmod.program("p", kernels, steps=[step], **declared)


def check(module: devmod.Module, name: str, kind: str, problem: str) -> None:
    """Check that a function fits the kind, or that `explain` and the look-up have the same
    problem.
    """
    best = devmod.explain(module, name, kind).functions[name][0]
    if not problem:
        assert best.outcome == "best"
        return
    assert (best.outcome, best.reason, best.text) == ("refused", "no device", problem)
    # Other devices of the kind have their own.
    assert problem in refusal(devmod.DeviceNotFoundError, lambda: module[name].on(kind))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("kind", "limit"), CASES)
def test_an_array_of_a_program(
    kind: str, limit: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = first_device(kind)
    kernels = kernel(kind)
    monkeypatch.setitem(device.limits, limit, 4096)
    name = "y" if role == "output" else "x"
    text = f"it cannot run on {device}: its {limit} is 4096, but the array {name!r} has 4100 bytes"
    for count, problem in ((1024, ""), (1025, text)):
        check(launch(kernels, **ROLES[role](count)), "p", kind, problem)
    assert (
        devmod.explain(
            launch(kernels, inputs=["x: float32[n]"], outputs=["y: float32[n]"]), "p", kind
        ).best("p")
        is not None
    )


def test_a_constant_whose_length_is_not_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is in the payload, which the choice does not read."""
    device = first_device("opencl")
    constants = devmod.const_loader({"x": np.zeros(1025, "float32")}, {})
    module = devmod.bundle(kernel("opencl"), constants, mixed=True)
    declared: Any = {
        "constants": ["x: float32[n]"],
        "outputs": ["y: float32[n]"],
        "steps": ["copy(x=x, y=y, threads=1)"],
    }
    monkeypatch.setattr(device, "_max_bytes", 4096)
    message = refusal(
        DeviceMemoryError, lambda: devmod.program("p", module, **declared)["p"].on(device)
    )
    text = f"the program 'p': the constant 'x': {device} cannot allocate 4100 bytes: its max_mem_alloc_size is 4096"
    assert message == text


@pytest.mark.parametrize(
    ("kind", "limit"), [case for case in CASES if case[0] in ("vulkan", "webgpu")]
)
def test_an_array_of_a_kernel(kind: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device(kind)
    monkeypatch.setitem(device.limits, limit, 4096)
    what = "a storage buffer" if "Storage" in limit else "an array"
    for count, problem in (
        (1024, ""),
        (
            1025,
            f"cannot run on {device}: its {limit} is 4096, but the kernel takes {what} of 4100 bytes",
        ),
    ):
        check(kernel(kind, count), "copy", kind, problem)


def test_an_array_at_an_address_is_no_storage_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device("vulkan")
    monkeypatch.setitem(device.limits, "maxStorageBufferRange", 4096)
    module = launch(
        devmod.compile(ADDRESSES, "vulkan", language="Slang"),
        updates=["x: float32[1025]", "y: float32[1]"],
    )
    check(module, "p", "vulkan", "")
    x, y = np.ones(1025, "float32"), np.zeros(1, "float32")
    module["p"].on("vulkan")(x, y)
    assert y.tolist() == [1]


def test_the_block_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device("opencl")
    most = device.limits["max_work_group_size"]
    step = "copy(x=x, y=y, threads=1, block={})".format
    text = f"it cannot run on {device}: its max_work_group_size is {most}, but step 1 launches 'copy' in blocks of {most} × 2 × 1 threads"
    for block, problem in ((most, ""), (f"({most}, 2)", text)):
        check(launch(kernel("opencl"), step(block), **ROLES["input"](1)), "p", "opencl", problem)


def test_the_next_kind_of_the_file_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(first_device("webgpu").limits, "maxStorageBufferBindingSize", 4096)
    monkeypatch.setenv("DEVMOD_PREFER", "webgpu,opencl")
    first_device("opencl")
    kernels = devmod.bundle(kernel("webgpu"), kernel("opencl"))
    assert [launch(kernels, **ROLES["input"](count))["p"].kind for count in (1024, 1025)] == [
        "webgpu",
        "opencl",
    ]
