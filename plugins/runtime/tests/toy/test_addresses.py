"""Addresses of device arrays as arguments: what every backend shares. The toy backend's address is
a number of its own.
"""

from __future__ import annotations

from typing import Any

import pytest
import toy_backend as toy
from each_case import refusal

import devmod
from devmod import Block, FunctionInfo, Interface, Param

PARAMS = [
    Param("p", "scalar", "handle", "rw", at=(0, 0)),
    Param("n", "scalar", "uint32", at=(0, 8)),
]
INFO = FunctionInfo(
    "f", ["uint64", "uint32"], (), (), Interface(PARAMS, [Block("push", 16, name="push")])
)


class AddressLauncher(toy.ToyLauncher):
    has_addresses = True


def test_a_backend_with_addresses_gets_the_memory_or_the_bytes_of_an_int(
    devices: list[toy.ToyDevice],
) -> None:
    seen: list[Any] = []
    f = toy.module({"f": INFO}, {"f": lambda shape, *values: seen.append(values)}, AddressLauncher)[
        "f"
    ]
    array = devices[0].zeros(4, "float32")
    for _ in range(2):  # by `KernelCall`, then by the plain path
        f(array, 3, grid=1, block=1)
        assert seen.pop()[0] is array.memory
    f(7, 3, grid=1, block=1)
    assert seen.pop()[0] == (7).to_bytes(8, "little")
    foreign = devices[1].zeros(4, "float32")
    f(foreign, 3, grid=1, block=1)
    assert seen.pop()[0] is foreign.memory
    assert [repr(each) for each in INFO.interface.params] == [
        "<Param p: handle rw>",
        "<Param n: uint32>",
    ]  # type: ignore[union-attr]


def test_a_backend_without_addresses(devices: list[toy.ToyDevice]) -> None:
    f = toy.module({"f": INFO}, {"f": lambda shape, *values: None})["f"]
    array = devices[0].zeros(4, "float32")
    for value in (array, 7):
        assert refusal(devmod.LaunchError, f, value, 3, grid=1, block=1) == (
            "the toy function 'f' cannot be called: argument 1 'p' is an address, and the toy backend does not support such arguments"
        )
    with pytest.raises(devmod.ArgumentError) as refused:
        _ = array.address
    assert str(refused.value) == f"the array is on {devices[0]}, which gives arrays no addresses"
