"""Products of a model whose factors are computed, or that a reduction follows: their kernels are
those that are written by hand.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from each_case import check_each

import devmod

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from onnx import helper
from onnx_models import check_close, expected, program, save

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("renders_here")]
RANDOM = np.random.default_rng(11)
#: A line that each kernel of a product has that is written by hand, and no other.
MARK = "int outer ="


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def node(operator: str, inputs: str, output: str, **options: Any) -> Any:
    return helper.make_node(operator, inputs.split(), [output], **options)


X = floats(1, 6, 10, 18)
W = {"w": floats(20, 6, 3, 3), "v": floats(20, 6, 1, 1)}
PADS = {"pads": [1, 1, 1, 1]}
#: The nodes, the inputs, the constants, and the numbers of kernels by hand and of all.
CASES: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], tuple[int, int]]] = {
    "a scaled factor": (
        [node("Min", "s one", "m"), node("Mul", "x m", "f"), node("Conv", "f w", "y", **PADS)],
        {"x": X, "s": floats(1, 6, 1, 1)},
        {**W, "one": np.float32(0.5)},
        (1, 2),
    ),
    "a factor in two views": (
        [node("Sigmoid", "x", "s"), node("Reshape", "s shape", "f"), node("Transpose", "f", "t"), node("MatMul", "t u", "y")],
        {"x": X},
        {"shape": np.array([6, 180]), "u": floats(6, 9).repeat(4, 1)[:, :36].reshape(6, 36)[:, :33]},
        (0, 2),
    ),
    "joined factors": (
        [node("Concat", "x z", "f", axis=1), node("Conv", "f u", "y", **PADS)],
        {"x": X, "z": floats(1, 2, 10, 18)},
        {"u": floats(7, 8, 3, 3)},
        (1, 2),
    ),
    "joined products": (
        [node("Conv", "x w", "a", **PADS), node("Conv", "x v", "b"), node("Concat", "a b", "y", axis=1)],
        {"x": X},
        W,
        (1, 3),
    ),
    "a sum of products": (
        [node("Conv", "x w", "a", **PADS), node("Conv", "x u", "b"), node("Add", "a b", "y")],
        {"x": X},
        {"w": W["w"], "u": floats(20, 6, 1, 1)},
        (1, 2),
    ),
    "the largest of a product": (
        [
            *(node("Transpose", "x", "t", perm=[0, 2, 1]), node("Conv", "t w", "c")),
            *(node("Sigmoid", "c", "s"), node("Mul", "c s", "a"), node("ReduceMax", "a axes", "y")),
        ],
        {"x": floats(1, 40, 24)},
        {"w": floats(17, 24, 5), "axes": np.array([2])},
        (1, 2),
    ),
    "a step over a border": (
        [node("Conv", "x w", "y", strides=[2, 2], **PADS)],
        {"x": floats(1, 3, 12, 32)},
        {"w": floats(5, 3, 3, 3)},
        (1, 1),
    ),
    "an attention": (
        [
            *(node("Transpose", "k", "t", perm=[0, 2, 1]), node("MatMul", "q t", "s")),
            *(node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y")),
        ],
        {"q": floats(2, 9, 16), "k": floats(2, 33, 16), "v": floats(2, 33, 16)},
        {},
        (1, 1),
    ),
    "the mean of values that no product reads": (
        [node("Add", "x s", "f"), node("ReduceMean", "f axes", "y")],
        {"x": X, "s": floats(1, 6, 1, 1)},
        {"axes": np.array([3])},
        (0, 1),
    ),
}  # fmt: skip


def test_kernels_of_products_beside_other_operators(texts: list[str]) -> None:
    """Each kernel has one product. What one reads or gives is in an array, where that is less
    work.
    """
    first_device("opencl")

    def run(label: str) -> None:
        nodes, inputs, constants, (by_hand, count) = CASES[label]
        save(nodes, inputs, constants, ["y"])
        wanted = expected(inputs)
        texts.clear()
        made = program("opencl")
        for device in devmod.devices("opencl"):
            check_close(made.on(device)(*inputs.values()), wanted, 1e-4)
        assert (texts[0].count(MARK), texts[0].count("__kernel")) == (by_hand, count)

    check_each(CASES, run)


def test_a_factor_of_constants_alone_is_not_in_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A quantized weight has four times the bytes as numbers of float32."""
    weight = RANDOM.integers(-128, 128, (256, 256)).astype("int8")
    constants = {"w": weight, "s": np.float32(0.02), "z": np.int8(3)}
    nodes = [node("DequantizeLinear", "w s z", "f"), node("MatMul", "x f", "y")]
    save(nodes, {"x": floats(24, 256)}, constants, ["y"])
    assert call(capsys, "onnx", "case.onnx", "-t", "opencl", "--no-check", "-o", "m.devmod")[0] == 0
    assert weight.nbytes < os.path.getsize("m.devmod") < 2 * weight.nbytes
