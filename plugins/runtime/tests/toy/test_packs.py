"""Buffers that are several values of a kernel, and local memory as an offset: what every backend
shares.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import toy_backend as toy
from backend_checks import check_error

import devmod
from devmod import FunctionInfo, Interface, Param

PARAMS = [
    Param("x", "buffer", "float32", "rw", pack=("count:uint32", "ptr:handle")),
    Param(
        "y",
        "buffer",
        "",
        "r",
        pack=("ptr:handle", "shape0:int32", "shape1:int32", "stride0:int64", "stride1:int64"),
    ),
    Param("n", "scalar", "int32"),
]
INFO = FunctionInfo(
    "f",
    ["uint32", "handle", "handle", "int32", "int32", "int64", "int64", "int32"],
    interface=Interface(PARAMS),
)


class PackLauncher(toy.ToyLauncher):
    has_packs = True


def number(value: int, nbytes: int = 4) -> bytes:
    return value.to_bytes(nbytes, "little")


def test_a_kernel_gets_the_values_of_its_arrays(devices: list[toy.ToyDevice]) -> None:
    seen: list[Any] = []
    f = toy.module({"f": INFO}, {"f": lambda shape, *values: seen.append(values)}, PackLauncher)[
        "f"
    ]
    for device in devices:
        x, y = device.zeros(6, "float32"), device.zeros((2, 3), "int8")
        expected = [
            number(6),
            x.memory,
            y.memory,
            number(2),
            number(3),
            number(3, 8),
            number(1, 8),
            number(7),
        ]
        # By `KernelCall`, by the plain path, prepared.
        for call in (f, f, f.bind(x, y, 7, grid=1, block=1)):
            arguments = (x, y, 7) if call is f else ()
            call(*arguments, **({"grid": 1, "block": 1} if call is f else {}))
            values = list(seen.pop())
            assert values == expected
            assert values[1] is x.memory
            assert values[2] is y.memory
    assert f._callers.keys() == {(device, 1, 1, None, None) for device in devices}
    rows = np.zeros((1, 5))
    constant = devmod.const_loader({"y": rows}, {}).get_global(
        "y"
    )  # its NumPy array is one of bytes
    for context, array in (
        (nullcontext(), rows),
        (devmod.guard(), rows),
        (nullcontext(), constant),
        (devmod.guard(), constant),
    ):
        with context:
            f(np.ones(3, "float32"), array, 7, grid=1, block=1)
        values = list(seen.pop())
        assert (values[0], bytes(values[1])) == (number(3), np.ones(3, "float32").tobytes())
        assert values[3:] == [number(1), number(5), number(5, 8), number(1, 8), number(7)]


def test_arrays_that_a_kernel_cannot_take(devices: list[toy.ToyDevice]) -> None:
    f = toy.module({"f": INFO}, {"f": lambda shape, *values: None}, PackLauncher)["f"]
    x, y = devices[0].zeros(6, "float32"), devices[0].zeros((2, 3), "int8")
    f(x, y, 7, grid=1, block=1)
    for array, text in (
        (
            devices[1].zeros((2, 3), "int8"),
            f"is on {devices[1]}, and argument 1 'x' is on {devices[0]}; a launch runs on one device: copy the array through the host",
        ),
        (
            devices[0].zeros(6, "int8"),
            "is an array of shape (6,), and the kernel takes 2 dimensions; pass array.reshape(…)",
        ),
    ):
        check_error(
            devmod.ArgumentError,
            lambda array=array: f(x, array, 7, grid=1, block=1),
            f"the toy function 'f': argument 2 'y' {text}",
        )
    integers = devices[0].zeros(6, "int32")
    check_error(
        devmod.ArgumentError,
        lambda: f(integers, y, 7, grid=1, block=1),
        "the toy function 'f': argument 1 'x' is an array of int32, and the kernel takes float32; convert it before the call: array = "
        "device.from_numpy(array.numpy().astype(np.float32))",
    )
    large = toy.ForeignArray(devices[0], np.zeros(1, "int8"))
    large.shape = (1, 2**31)
    check_error(
        devmod.ArgumentError,
        lambda: f(x, large, 7, grid=1, block=1),
        "the toy function 'f': argument 2 'y' is an array of shape (1, 2147483648): its shape1 2147483648 does not fit int32 (-2147483648 to "
        "2147483647)",
    )


def test_a_backend_without_such_arguments(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({"f": INFO}, {"f": lambda shape, *values: None})
    check_error(
        devmod.LaunchError,
        lambda: module["f"],
        "the toy function 'f' cannot be called: argument 1 'x' is several values of the kernel, and the toy backend does not support such "
        "arguments",
    )
