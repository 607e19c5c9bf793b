"""Kernels of other compilers run: Triton's, a fatbin's, with the hidden arguments that
their own launchers pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from containers import FATBIN
from each_case import refusal
from recorded_triton import FOLDER, recorded_kernel

import devmod
from devmod.interop import offload, triton

rng = np.random.default_rng(7)


def ptx(name: str, device: Any, arch: int = 80) -> devmod.Module:
    """Return a recorded kernel of Triton as PTX for an older device and driver; skip the test if
    this device is older still.
    """
    check(device, arch, 8.0)
    kernel = recorded_kernel(name)
    kernel.asm["ptx"] = (
        kernel.asm["ptx"]
        .replace(".target sm_90a", f".target sm_{arch}")
        .replace(".version 9.4", ".version 8.0")
    )
    return triton.load(kernel, "ptx")


def check(device: Any, arch: int, version: float) -> None:
    """Skip the test if the device or its driver does not run such PTX."""
    number, _, supported = device.arch.removeprefix("sm_").partition(":ptx")
    if int(number.rstrip("af")) < arch or float(supported or 99) < version:
        pytest.skip(f"needs PTX {version} for sm_{arch}, and the device is {device.arch}")


def test_a_kernel_of_triton_is_called_without_its_hidden_pointers(device: Any) -> None:
    f = ptx("add", device)["add"]
    n = 1000
    x, y = (rng.random(n, np.float32) for _ in range(2))
    out = np.zeros(n, np.float32)
    f(x, y, out, n, grid=4)
    assert np.array_equal(out, x + y)
    result = device.zeros(n, "float32")
    f.bind(device.from_numpy(x), device.from_numpy(y), result, n, grid=4)()
    assert np.array_equal(result.numpy(), x + y)
    out[:] = 0
    f(out=out, n=n, y=y, x=x, threads=4 * 128)
    assert np.array_equal(out, x + y)


def test_the_shared_memory_of_a_kernel_of_triton_is_passed(device: Any) -> None:
    f = ptx("softmax", device)["softmax"]
    x = rng.standard_normal((6, 100)).astype(np.float32)
    out = np.zeros_like(x)
    f(out, x, 100, 100, grid=6)
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(out, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # Triton's own
def test_functions_that_triton_compiles_here(device: Any) -> None:
    pytest.importorskip("triton", reason="needs triton, a wheel of 286 MB")
    check(device, 80, 8.8)
    source, settings = (
        FOLDER.parents[1] / "kernels/triton/kernels.py",
        {"target": "cuda -arch=compute_80", "defines": {"BLOCK": 128}},
    )
    types = "out: *fp32, x: *kfp32, stride: i32, n: i32"
    modules = [
        devmod.compile(source, name_expressions=[each], **settings)
        for each in (f"softmax({types})", "add(x: *fp32, y: *fp32, out: *fp32, n: i32)")
    ]
    x = rng.standard_normal((6, 100)).astype(np.float32)
    out = np.zeros_like(x)
    modules[0]["softmax"](out, x, 100, 100, grid=6)
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(out, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)
    total = np.zeros(600, np.float32)
    modules[1]["add"](x.ravel(), out.ravel(), total, 600, grid=5)
    assert np.array_equal(total, x.ravel() + out.ravel())


def test_a_kernel_of_triton_with_a_tuple_and_a_cluster(device: Any) -> None:
    f = ptx("line", device, 90)["line"]
    x = np.zeros(300, np.float32)
    f(x, 0.5, 3, 2.0, True, 300, grid=6)  # three programs, each a cluster of two blocks
    assert np.array_equal(x, -(0.5 + 3 * np.arange(300, dtype=np.float32) + 2.0))
    with pytest.raises(devmod.LaunchError):
        f(x, 0.5, 3, 2.0, True, 300, grid=5)


@pytest.mark.row("R34")
def test_a_wrong_number_of_arguments_of_triton_is_an_error(device: Any) -> None:
    f = ptx("add", device)["add"]
    x = np.zeros(8, np.float32)
    assert refusal(devmod.ArgumentError, f, x, x, x, 8, 0, 0, grid=1) == (
        "the cuda function 'add' takes 4 arguments by position (x, y, out, n), and 'global_scratch', 'profile_scratch' by name; 6 were given"
    )
    assert refusal(devmod.ArgumentError, f, x, x, x, grid=1) == (
        "the cuda function 'add' is missing an argument: 'n'; it takes 4 arguments by position (x, y, out, n), and 'global_scratch', "
        "'profile_scratch' by name"
    )
    assert f.block == (128, 1, 1)


def test_a_fatbin_is_taken_apart_and_its_ptx_runs(device: Any) -> None:
    check(device, 90, 9.4)
    data = FATBIN.replace(b"sm_90a", b"sm_90 ")
    module = offload.load(data, ptx("add", device).functions)
    binaries = [each for each in module.imports if each.format == "ptx"]
    x = np.arange(10, dtype=np.float32)
    out = np.zeros(10, np.float32)
    binaries[0]["add"](x, x, out, 10, grid=1)
    assert np.array_equal(out, 2 * x)
