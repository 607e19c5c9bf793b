"""Programs on each vendor's stand-in: calls, prepared launches, and arrays of other libraries."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from foreign_arrays import Tensor
from vendor import DIMENSIONS, Vendor

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod_simulators import StandinDriver


@pytest.fixture
def program(vendor: Vendor, device: Any, executes: None) -> Any:
    """y = 2 (x + w) + w, with a temporary that begins cleared."""
    module = devmod.program(
        "p",
        vendor.kernels(),
        inputs=["x: float32[n]", "w: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["t: float32[n] = 0", "u: float32[n]"],
        steps=[
            "add(a=t, b=x, c=u, n=n, threads=n, block=64)",
            "add(a=u, b=w, c=t, n=n, threads=n, block=64)",
            "twice(x=t, threads=n, block=64)",
            "add(a=t, b=w, c=y, n=n, threads=n, block=64)",
        ],
    )
    return devmod.loads(devmod.dumps(module))["p"]


@pytest.mark.row("R45")
def test_a_program_on_each_vendor(program: Any, device: Any, standin: StandinDriver) -> None:
    x, w = np.arange(64, dtype="float32"), np.ones(64, "float32")
    on_device, weight, result = (
        device.from_numpy(x),
        device.from_numpy(w),
        device.empty(64, "float32"),
    )
    bound = program.bind(on_device, weight, y=result)
    for _ in range(2):
        assert np.array_equal(program(x, w), 2 * x + 3)
        assert np.array_equal(program(on_device, w).numpy(), 2 * x + 3)
        bound()
        device.synchronize()
        assert np.array_equal(result.numpy(), 2 * x + 3)
        result.copy_from(np.zeros(64, "float32"))
    stream = device.stream()
    assert np.array_equal(program(on_device, weight, stream=stream).numpy(), 2 * x + 3)
    kept = weakref.ref(result)
    del bound, result
    assert kept() is None


@pytest.mark.row("R45")
def test_arrays_of_other_libraries_overlap_by_their_addresses(
    program: Any, device: Any, standin: StandinDriver
) -> None:
    root = device.from_numpy(np.arange(128, dtype="float32"))
    w, y = device.from_numpy(np.ones(64, "float32")), Tensor(root[64:])
    assert program(Tensor(root[:64]), w, y=y) is y
    device.synchronize()
    assert np.array_equal(root[64:].numpy(), 2 * np.arange(64) + 3)
    text = f"the {device.kind} program 'p': the argument 'y' overlaps the argument 'x', and the program writes to one of them; pass a copy of it"
    for x, out in (
        (Tensor(root[:64]), Tensor(root[32:96])),
        (root[:64], Tensor(root[:64])),
        (Tensor(root[:64]), root[32:96]),
    ):
        assert refusal(devmod.ArgumentError, program, x, w, y=out) == text


@pytest.mark.row("R45")
def test_an_address_in_a_struct_is_that_of_the_call(
    vendor: Vendor, device: Any, executes: None
) -> None:
    source = """
    struct target { int *data; int n; };
    extern "C" __global__ void k(target t, int value) { if (threadIdx.x < t.n) t.data[threadIdx.x] += value; }"""
    members = [Member("data", "handle"), Member("n", "int32", 8)]
    interface = Interface(
        [
            Param("t", "scalar", "uint8x16", members=members, align=8),
            Param("value", "scalar", "int32"),
        ]
    )
    module = vendor.module(
        source, {"k": FunctionInfo("k", ["uint8x16", "int32"], DIMENSIONS, (), interface)}
    )
    declared: dict[str, Any] = {"inputs": ["value: int32"], "updates": ["y: int32[n]"]}
    program = devmod.program(
        "p", module, **declared, steps=["k(data=y, n=n, value=value, grid=1, block=8)"]
    )
    f = devmod.loads(devmod.dumps(program))["p"]
    arrays = [device.zeros(4, "int32") for _ in range(3)]
    for value, y in enumerate(arrays, 1):
        f(value, y)
    device.synchronize()
    assert [each.numpy().tolist() for each in arrays] == [[1] * 4, [2] * 4, [3] * 4]
