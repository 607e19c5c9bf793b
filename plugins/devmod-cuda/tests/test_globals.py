"""Global variables with the types of the source: `__constant__` memory set from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod

SOURCE = """
struct Light { float direction[3]; int kind; };
namespace filters {
__constant__ float weights[3][4];
namespace { __device__ int hidden; }
}
static __constant__ Light lights[2];
__device__ int count = 7;
extern "C" __global__ void k(float *x)
{
    x[0] = filters::weights[1][2];
    x[1] = lights[1].direction[2] * 100 + lights[1].kind;
    x[2] = count + FACTOR;
    x[3] = ++filters::hidden;
}
"""


def compiled(target: str = "cuda -arch=compute_80") -> devmod.Module:
    return devmod.compile(SOURCE, target, defines={"FACTOR": 1000})


@pytest.mark.row("R20")
@pytest.mark.parametrize("target", ["cuda -arch=compute_80", "cuda -format=cuda"])
def test_constant_memory_is_set_from_numpy_before_a_launch(target: str, device: Any) -> None:
    module = devmod.loads(devmod.dumps(compiled(target)))
    weights = module.get_global("filters::weights")
    assert (weights.dtype, weights.shape) == ("float32", (3, 4))
    weights.copy_from(np.arange(12, dtype="float32").reshape(3, 4))
    lights = np.array([((1, 2, 3), 4), ((5, 6, 7), 8)], [("direction", "f4", 3), ("kind", "i4")])
    assert (module.get_global("lights").dtype, module.get_global("lights").shape) == (
        "uint8x16",
        (2,),
    )
    module.get_global("lights").copy_from(lights)
    assert module.get_global("count").numpy() == 7
    module.get_global("count").copy_from(np.array(30, "int32"))
    module.get_global("filters::hidden").copy_from(np.array(40, "int32"))
    x = np.zeros(4, "float32")
    module["k"](x, grid=1, block=1)
    assert x.tolist() == [6, 708, 1030, 41]
    # The symbol names the same variable, and dtype= returns one dimension.
    assert module.get_global("_ZN7filters7weightsE", dtype=np.float32).numpy().tolist() == list(
        range(12)
    )
    bundle = devmod.bundle(module)
    assert bundle.get_global("filters::weights").numpy()[1, 2] == 6


@pytest.mark.row("R20")
def test_a_specialized_function_has_variables_of_its_own(device: Any) -> None:
    module = compiled("cuda -format=cuda")
    module.get_global("count").copy_from(np.array(1, "int32"))
    x = np.zeros(4, "float32")
    module["k"].specialize(FACTOR=100)(x, grid=1, block=1)
    assert x[2] == 107
    module["k"](x, grid=1, block=1)
    assert x[2] == 1001


def test_an_unknown_variable_lists_those_of_the_binary(device: Any) -> None:
    assert refusal(devmod.FunctionNotFoundError, compiled().get_global, "filters::weight") == (
        "the cuda module has no global 'filters::weight': its binary has 'lights', 'count', 'filters::hidden', 'filters::weights'. "
        "Did you mean 'filters::weights'?"
    )


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            ["float32", 5],
            "the interface of the cuda module has the global 'count' as float32[5] of 20 bytes, and its binary has a variable of 4 bytes",
        ),
        (
            ["int32", 1 << 62],
            "int32[4611686018427387904] of 18446744073709551616 bytes, and its binary has a variable of 4 bytes",
        ),
    ],
)
def test_types_that_contradict_the_binary_are_refused(
    entry: list[Any], text: str, device: Any
) -> None:
    module = compiled()
    info = module.functions["k"]
    assert info.interface is not None
    fmap = {
        "k": info.replace(interface=info.interface.replace(extra={"globals": {"count": entry}}))
    }
    payload = module.inspect_source("ptx").encode()
    assert refusal(
        devmod.FormatError, devmod.create("cuda", payload, "ptx", fmap).get_global, "count"
    ).endswith(text)


@pytest.mark.parametrize(
    "entry", [{}, [], [3], ["int32", -1], ["int32", "4"], None, "int32", ["int32", *[1] * 33]]
)
def test_types_that_are_no_types_are_ignored(entry: Any, device: Any) -> None:
    module = compiled()
    info = module.functions["k"]
    assert info.interface is not None
    fmap = {
        "k": info.replace(interface=info.interface.replace(extra={"globals": {"count": entry}}))
    }
    array = devmod.create("cuda", module.inspect_source("ptx").encode(), "ptx", fmap).get_global(
        "count"
    )
    assert (array.dtype, array.shape) == ("uint8", (4,))
