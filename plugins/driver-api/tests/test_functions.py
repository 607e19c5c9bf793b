"""The tables of functions: each operation of the shared code is a function of each vendor's API."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
from each_case import refusal

import devmod_driver_api
from devmod_driver_api.api import Api, DriverError, DriverFunction
from devmod_driver_api.driver import Driver

#: The methods whose arguments have the name of an operation, and the positions of these arguments.
METHODS = {
    "call": (0,),
    "prototype": (0,),
    "create_into": (1,),
    "destroy_from": (1,),
    "_queue": (2,),
    "_find": (0,),
    "Handles": (1, 2),
    "Streams": (1, 2),
    "Modules": (2,),
}
APIS = ["devmod_cuda._calls.CUDA", "devmod_rocm._calls.HIP"]
#: Operations that a driver implements without a function: a context of HIP is the number of its
#: device.
WITHOUT = {
    "devmod_rocm._calls.HIP": {"retain_primary_context"},
    "devmod_cuda._calls.CUDA": set[str](),
}


def operations() -> set[str]:
    """Return the names of the operations in the code of the wheel."""
    results = {"exchange_capture_mode"}
    for path in Path(devmod_driver_api.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = (
                    node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else getattr(node.func, "id", "")
                )
                for place in METHODS.get(name, ()):
                    argument = node.args[place] if place < len(node.args) else None
                    if isinstance(argument, ast.Constant):
                        results.add(argument.value)
    return results


def api_of(path: str) -> Api:
    module, _, name = path.rpartition(".")
    if find_spec(path.partition(".")[0]) is None:  # a machine with a GPU of another vendor
        pytest.skip(f"{path.partition('.')[0]} is not installed")
    result: Api = getattr(importlib.import_module(module), name)
    return result


@pytest.mark.parametrize("path", APIS)
def test_a_vendor_has_a_function_for_each_operation(path: str) -> None:
    assert len(operations()) > 30
    assert operations() - WITHOUT[path] <= set(api_of(path).functions)


@pytest.mark.parametrize("path", APIS)
def test_a_function_has_one_name(path: str) -> None:
    names = [function.name for function in api_of(path).functions.values()]
    assert len(names) == len(set(names))


class Library:
    """A library without functions."""

    def __getitem__(self, name: str) -> object:
        raise AttributeError(name)


def test_a_function_that_the_library_lacks_has_its_own_error() -> None:
    api = api_of(APIS[0])._replace(
        functions={"allocate": DriverFunction("cuMemAlloc", symbol="cuMemAlloc_v2")}
    )
    abstract = dict.fromkeys(Driver.__abstractmethods__)
    driver = type("AnyDriver", (Driver,), {**abstract, "api": api})(Library())
    assert (
        refusal(DriverError, driver.call, "allocate", 4)
        == "cuMemAlloc_v2: CUDA_ERROR_NOT_SUPPORTED (this driver has no such function)"
    )
