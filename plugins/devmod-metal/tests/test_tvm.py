"""The 12 kernels of the vectors that TVM compiled for Metal, compared with NumPy. Without a Mac
they run as C++ on the CPU.
"""

from __future__ import annotations

import sys
from typing import Any

import metal_standin
import numpy as np
import pytest
from metal_double import Double
from tvm_vectors import check_matmul, check_vadd, only_function, vector_module

import devmod

pytestmark = pytest.mark.skipif(
    sys.platform != "darwin" and bool(metal_standin.missing()), reason=metal_standin.missing()
)


def softmax(a: Any) -> Any:
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(a: Any, g: Any, w: Any) -> Any:
    return (a - a.mean(axis=1, keepdims=True)) / np.sqrt(
        a.var(axis=1, keepdims=True) + 1e-5
    ) * g + w


def max_pool(a: Any) -> Any:
    """Return the maxima of 3 × 3 elements, at each second place, of an array with one more element
    at each end.
    """
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.max(
        [padded[:, :, y : y + 11 : 2, x : x + 11 : 2] for y in range(3) for x in range(3)], axis=0
    )


def random(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


_A, _X, _Y, _V, _W = (
    random(16, 512),
    random(33, 17),
    random(17, 33).reshape(33, 17),
    random(512),
    random(512) + 1,
)
_PLACES = np.random.default_rng(0).integers(-20, 70, 40)  # also outside
#: The inputs of each kernel of the vector, the place of its result among its arrays, the result,
#: and TVM's grid and block.
KERNELS: dict[str, tuple[list[Any], int, Any, tuple[int, int]]] = {
    "argmax": ([_A], 1, _A.argmax(axis=1).astype("int32"), (16, 64)),
    "axpy": ([_W, _V], 0, _V * 2 + _W, (2, 256)),
    "layer_norm": ([_A, _V, _W], 2, layer_norm(_A, _V, _W), (16, 64)),
    "max_pool": (
        [random(1, 3, 12, 12, dtype="float16")],
        1,
        max_pool(random(1, 3, 12, 12, dtype="float16")),
        (1, 256),
    ),
    "relu": ([_X.astype("float16")], 1, np.maximum(_X.astype("float16"), 0), (3, 256)),
    "select": ([_X, _Y], 0, np.where(_X > _Y, _X - _Y, _Y * 2), (3, 256)),
    "softmax": ([_A], 1, softmax(_A), (16, 64)),
    "sum_rows": ([random(8, 32)], 1, random(8, 32).sum(axis=1), (8, 32)),
    "take": ([random(50, 8), _PLACES], 2, random(50, 8)[np.clip(_PLACES, 0, 49)], (2, 256)),
    "where": ([_X < _Y, _X, _Y], 1, np.where(_X < _Y, _X, _Y), (3, 256)),
}


@pytest.mark.row("R35", "R37")
@pytest.mark.volume_but("argmax", "layer_norm", "softmax", "take")
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str, device: Any) -> None:
    inputs, place, expected, launch = KERNELS[name]
    result = np.zeros(expected.shape, expected.dtype)
    arguments = [
        *inputs[:place],
        result,
        *inputs[place:],
        *([expected.size] if name == "axpy" else []),
    ]
    vector_module("kernels", "metal")[f"{name}_kernel"](*arguments, *launch)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.row("R35", "R37")
def test_vadd_and_matmul(device: Any) -> None:
    check_vadd(only_function("vadd", "metal")[0], block=64)
    check_matmul(*only_function("matmul", "metal"), device, block=(8, 8))


def test_a_kernel_that_the_cpu_cannot_compile_fails_alone(double: Double) -> None:
    text = "#include <metal_stdlib>\nusing namespace metal;\nkernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { %s }"
    x = devmod.device("metal").zeros(4, "float32")
    for _ in range(2):
        devmod.compile(text % "x[i] = simd_product(x[i]);", "metal")["f"](x, grid=1, block=4)
        with pytest.raises(AssertionError, match="simd_product"):
            x.numpy()
        devmod.compile(text % "x[i] += 1;", "metal")["f"](x, grid=1, block=4)
    assert x.numpy().tolist() == [2] * 4
