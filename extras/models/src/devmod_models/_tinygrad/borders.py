"""Inputs at borders, which random ones never meet: numbers on a grid, NaN and infinities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod_models.onnx import Node

__all__ = ["GRID", "NOT_FINITE", "draw", "is_open"]

#: What the inputs are, in errors.
GRID = " for numbers on a grid"
NOT_FINITE = " for NaN and infinities"
#: Half of the numbers on the grid are multiples of a half up to this. The others are at the middles
#: and the ends of the 255 steps of a quantization of this range.
_MOST = 4
_STEPS = 510
_SPECIAL = (np.nan, np.inf, -np.inf)
#: The operators whose results are defined for these numbers: one element gives one, elements move,
#: or they are summed. Elsewhere ONNX leaves them open (MaxPool, Clip), or they depend on the order
#: of the computation (DFT, Resize).
_DEFINED = {
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "AveragePool"),
    *("BatchNormalization", "Ceil", "Celu", "Concat", "Conv", "Cos", "Cosh", "DepthToSpace"),
    *("Div", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather"),
    *("GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "Greater"),
    *("GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu"),
    *("Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Mish", "Mul", "Neg", "Not", "Or"),
    *("PRelu", "Reciprocal", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Round", "Selu"),
    *("Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Slice", "Softmax", "Softplus"),
    *("Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan"),
    *("Tanh", "ThresholdedRelu", "Tile", "Transpose", "Unsqueeze", "Where", "Xor"),
}


def draw(inputs: Mapping[str, Any], names: Iterable[str], what: str) -> dict[str, Any]:
    """Return inputs of which some have other numbers: those on a grid, or three that are not
    finite.
    """
    random = np.random.default_rng(0)
    result = dict(inputs)
    for name in names:
        array = inputs[name]
        if what == GRID:
            numbers = _on_grid(array.size, random)
        else:
            numbers = array.astype(np.float64).ravel()
            count = min(array.size, len(_SPECIAL))
            places = random.choice(array.size, count, replace=False)
            numbers[places] = _SPECIAL[:count]
        result[name] = numbers.astype(array.dtype).reshape(array.shape)
    return result


def _on_grid(size: int, random: np.random.Generator) -> Any:
    halves = random.permutation(np.arange(-2 * _MOST, 2 * _MOST + 1) / 2)
    steps = random.integers(0, _STEPS + 1, size) * (2 * _MOST / _STEPS) - _MOST
    is_half = random.random(size) < 0.5
    is_half[: len(halves)] = True  # few numbers have each
    return np.where(is_half, np.resize(halves, size), steps)


def is_open(nodes: Iterable[Node]) -> bool:
    """Return whether what one of the nodes gives for NaN or an infinity is not defined."""
    return not all(each.operator in _DEFINED and not each.domain for each in nodes)
