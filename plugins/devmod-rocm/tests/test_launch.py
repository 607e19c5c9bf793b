"""What only ROCm's launches have; plugins/driver-api/tests has the tests of launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import code_of
from hip_modules import function_of
from standin_rocm import ROCM, device_arch
from vendor import DIMENSIONS, launch_error

import devmod
from devmod import FunctionInfo, Param

X = Param("x", "buffer", "int32", "rw")
#: Writes the number of the thread.
NUMBERS = 'extern "C" __global__ void k(int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = i; }'
#: Writes the number of the thread in its block of 32.
REQUIRED_BLOCK = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %x) !reqd_work_group_size !0 {
    %i = call i32 @llvm.amdgcn.workitem.id.x()
    %place = getelementptr i32, ptr addrspace(1) %x, i32 %i
    store i32 %i, ptr addrspace(1) %place
    ret void
}
!0 = !{i32 32, i32 1, i32 1}
"""


def test_the_block_that_the_kernel_requires(emulator: Any, device: Any) -> None:
    x = np.zeros(64, "int32")
    info = FunctionInfo("k", ["handle"], DIMENSIONS)
    code = code_of(
        devmod.compile(
            REQUIRED_BLOCK, f"rocm -arch={device_arch()}", language="LLVM IR", fmap={"k": info}
        )
    )
    required = devmod.create("rocm", code, "hsaco", {"k": info})["k"]
    assert str(launch_error(required, x, grid=1, block=16)) == ROCM.refusal(
        device, "the kernel is built for blocks of (32, 1, 1) threads, got block=(16, 1, 1)"
    )
    required(x, grid=2, block=32)
    assert x.tolist() == list(range(32)) + [0] * 32


def test_the_block_is_chosen(emulator: Any, device: Any, standin: Any) -> None:
    f = function_of(NUMBERS)
    x = device.zeros(1024, "int32")
    f(x, threads=1024)
    assert x.numpy().tolist() == list(range(1024))
    assert (standin.last_launch["grid"], standin.last_launch["block"]) == ("4,1,1", "256,1,1")


@pytest.mark.row("R35")
def test_clusters_are_refused(device: Any) -> None:
    f = ROCM.kernel(NUMBERS, [X], ["clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z"])
    error = launch_error(f, np.zeros(16, "int32"), 4, 1, 1, 4, 1, 1, 2, 1, 1)
    problem = "the kind has no clusters of blocks: expected cluster=(1, 1, 1), got (2, 1, 1)"
    assert str(error) == f"the rocm function 'k' cannot be launched: {problem}"


def test_a_launch_that_fails(emulator: Any, device: Any, standin: Any) -> None:
    f = ROCM.kernel(NUMBERS, [X])
    x = device.zeros(4, "int32")
    standin.set("fail", "hipModuleLaunchKernel=719")
    error = launch_error(lambda: f(x, grid=1, block=4))
    assert str(error).startswith(
        f"{device} refused a launch of the rocm function 'k': hipErrorLaunchFailure ("
    )
    assert error.function == "k"


def test_a_launch_that_the_emulator_does_not_execute(
    emulator: None, card_of: Callable[..., Any]
) -> None:
    """A query of the stream sees the failure first, and the wait after it raises the error."""
    device = card_of("gfx90a:sramecc+:xnack-")
    f = devmod.compile(NUMBERS, "rocm -arch=gfx90a")["k"].on(device)
    x = device.zeros(64, "int32")
    expected = f"{device} reports a fault of a launch: hipErrorNotSupported (not supported)"
    for function in (
        lambda: f(np.zeros(64, "int32"), grid=1, block=64),
        lambda: (f(x, grid=1, block=64), device.synchronize()),
        lambda: (f(x, grid=1, block=64), x.numpy()),
    ):
        assert str(launch_error(function)) == expected
    device.synchronize()
