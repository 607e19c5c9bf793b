"""Small functions of tinygrad's Tensors, each with what an exporter may get wrong. As a program:
export them for targets, and check them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import devmod
from devmod.interop import tinygrad as interop

#: The names of the cases, for parametrization without tinygrad.
NAMES = (
    *(
        "bool in",
        "bool out",
        "uint8 image",
        "uint8 out",
        "int8 weights",
        "int64 tokens",
        "argmax",
        "topk",
        "float64",
        "half",
        "bfloat16",
    ),
    *(
        "two results",
        "view of a constant",
        "result is a view",
        "infinity",
        "maxpool",
        "cumsum",
        "large",
        "pass through",
        "constant result",
    ),
    *(
        "transposed convolution",
        "scatter",
        "einsum",
        "gradient",
        "numbers outside",
        "bfloat16 weights",
    ),
)


class Case(NamedTuple):
    """A function, and arrays that become its inputs."""

    function: Callable[..., Any]
    arrays: Sequence[Any]

    def made(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return the function and its inputs. tinygrad takes long to make them."""
        return self.function, [_tensor(each) for each in self.arrays]


def _tensor(array: Any) -> Any:
    from tinygrad import Tensor

    return Tensor(np.asarray(array)).realize()


@cache
def cases() -> dict[str, Case]:
    """Return the cases by their names."""
    from tinygrad import Tensor, dtypes

    random = np.random.default_rng(0)

    def f32(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    table = _tensor(f32(100, 16))
    rows = _tensor(f32(8, 16))
    filters = _tensor(f32(8, 3, 3, 3))
    small = _tensor(random.integers(-9, 9, (16, 8)).astype(np.int8))
    two, steps, brain = (
        Tensor(2.0),
        Tensor.arange(4).float() * 0.5,
        _tensor(f32(4, 4)).cast(dtypes.bfloat16).realize(),
    )

    def bfloat(x: Tensor) -> Tensor:
        return (x.cast(dtypes.bfloat16) @ x.cast(dtypes.bfloat16)).cast(dtypes.float)

    functions = [
        (lambda m, x: m.where(x, 0), f32(9) > 0, f32(9)),
        (lambda x: x > 0.0, f32(9)),
        (
            lambda x: x.cast(dtypes.float) / 255,
            random.integers(0, 256, (2, 3, 7, 7)).astype(np.uint8),
        ),
        (lambda x: (x * 10).clamp(0, 255).cast(dtypes.uint8), abs(f32(5, 3))),
        (lambda x: x @ small.cast(dtypes.float), f32(4, 16)),
        (lambda t: table[t], random.integers(0, 100, (2, 5))),
        (lambda x: x.argmax(-1), f32(4, 17)),
        (lambda x: x.topk(3)[0], f32(2, 9)),
        (lambda x: x * 2 + 1, random.standard_normal(9)),
        (lambda x: (x @ x).softmax(), f32(8, 8).astype(np.float16)),
        (bfloat, f32(8, 8)),
        (lambda x: (x + 1, x.sum()), f32(4, 4)),
        (lambda x: rows[2:4].contiguous() + x, f32(2, 16)),
        (lambda x: (x + 1)[2:4], f32(6, 3)),
        (lambda x: x.masked_fill(x > 0, float("-inf")).softmax(), f32(4, 9)),
        (lambda x: x.max_pool2d(2), f32(1, 2, 8, 8)),
        (lambda x: x.cumsum(), f32(3000)),
        (lambda x: x + 1, f32(70000 * 3)),
        (lambda x: x, f32(4)),
        (lambda _: Tensor.full((4,), 3.0), f32(4)),
        (lambda x: x.conv_transpose2d(filters), f32(1, 8, 6, 6)),
        (lambda x: x.scatter(1, Tensor([[0, 1], [1, 0]]), 2.0), f32(2, 3)),
        (lambda x, y: Tensor.einsum("bij,bjk->bik", x, y), f32(2, 3, 4), f32(2, 4, 5)),
        (lambda x: (x * x).sum().gradient(x)[0], f32(4)),
        (lambda x: x * two + steps, f32(4)),
        (lambda x: x @ brain.float(), f32(3, 4)),
    ]
    return {
        name: Case(function, arrays)
        for name, (function, *arrays) in zip(NAMES, functions, strict=True)
    }


def results(value: Any) -> list[Any]:
    """Return what a function gives as arrays of NumPy. To optimize kernels that run once takes
    longer than they do.
    """
    from devmod_models._tinygrad.record import settings

    with settings(NOOPT=1):
        return [each.numpy() for each in (value if isinstance(value, tuple) else (value,))]


def checked(function: Any, inputs: Any, targets: Any, name: str = "f") -> list[str]:
    """Export a function, read the file, and return the lines of the check."""
    module = interop.export(
        function,
        *inputs,
        targets=targets,
        name=name,
        names=[f"x{number}" for number in range(len(inputs))],
    )
    values = {f"x{number}": each.numpy() for number, each in enumerate(inputs)}
    return interop.check(
        devmod.loads(devmod.dumps(module)), name, values, results(function(*inputs))
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of overflow in a stand-in
    with interop.cpu():
        for name in sys.argv[2:] or NAMES:
            print(f"{name}: {checked(*cases()[name].made(), sys.argv[1])}")
