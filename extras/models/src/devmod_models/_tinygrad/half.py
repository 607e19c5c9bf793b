"""Half precision: weights in float16, and operators that compute in float16 where their results
allow it. Sums and products of matrices are accumulated in float32, by tinygrad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_models.onnx import Model, Node

__all__ = ["Precision", "halved"]

#: The least magnitude that float16 has with all its digits, and the largest.
_LEAST = 6.2e-5
_LARGEST = 65504.0
#: Operators whose time is that of their products.
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
#: Operators that compute in half precision if their inputs are of it: the results are of the
#: magnitude of the inputs.
_FOLLOWING = (
    *("Add", "AveragePool", "Clip", "Concat", "DepthToSpace", "Dropout", "Elu", "Expand"),
    *("Flatten", "Gather", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Max", "MaxPool", "Min", "Mul", "Neg", "PRelu", "Pad", "Relu"),
    *("Reshape", "Sigmoid", "Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "Tanh"),
    *("Tile", "Transpose", "Unsqueeze", "Where"),
)
#: Operators that compute in float32, and whose results have bounds.
_BOUNDED = (
    *("BatchNormalization", "Erf", "Gelu", "GroupNormalization"),
    *("InstanceNormalization", "LayerNormalization", "RMSNormalization", "Resize", "Softmax"),
)


def halved(model: Model, half: str) -> Model:
    """Return a model whose float32 constants of several elements are float16 where their magnitudes
    allow it. `half` is "all" for operators that compute in float16, too, or "weights".
    """
    halves = {}
    for name, each in model.constants.items():
        if each.dtype != np.float32 or each.size < 2:
            continue
        # Numbers that are all small, such as those by which weights are scaled, lose digits.
        if _LEAST <= abs(each).max() <= _LARGEST:
            halves[name] = each.astype(np.float16)
    return model._replace(constants=model.constants | halves, halved=frozenset(halves), half=half)


class Precision:
    """Which values of a run of a model are float16 in the place of float32."""

    def __init__(self, model: Model) -> None:
        self._constants = model.constants
        self._names = {*model.halved}
        self._computes = model.half == "all"

    def enter(self, node: Node, values: dict[str, Any]) -> tuple[str, ...]:
        """Return the names of a node's inputs. Those in another precision are added to `values`."""
        wanted = dtypes.float32
        if self._is_half(node, values):
            wanted = dtypes.float16
        names = []
        for name in node.inputs:
            value: Any = values.get(name)
            if self._is_own(name, value) and value.dtype != wanted:
                name += f" as {wanted.name}"
                values[name] = value.cast(wanted)
            names.append(name)
        return tuple(names)

    def leave(self, node: Node, inputs: tuple[str, ...], values: dict[str, Any]) -> None:
        """Record the precision of a node's outputs. `inputs` is what `enter` has returned."""
        if inputs == node.inputs and self._names.isdisjoint(inputs):
            return
        is_bounded = self._computes and node.operator in _BOUNDED
        for name in filter(None, node.outputs):
            value = values[name]
            if not isinstance(value, Tensor):
                continue
            if is_bounded and value.dtype == dtypes.float32:
                value = value.cast(dtypes.float16)
                values[name] = value
            if value.dtype == dtypes.float16 and node.operator != "Cast":
                self._names.add(name)

    def restored(self, name: str, value: Any) -> Any:
        """Return a value in the type that it has in the model."""
        if name in self._names and isinstance(value, Tensor):
            return value.cast(dtypes.float32)
        return value

    def _is_own(self, name: str, value: Any) -> bool:
        """Return whether a value is one of float32 in the model."""
        if not isinstance(value, Tensor):
            return False
        return value.dtype == dtypes.float32 or name in self._names

    def _is_half(self, node: Node, values: Mapping[str, Any]) -> bool:
        """Return whether a node computes in float16."""
        if not self._computes:
            return False
        if node.operator in _PRODUCTS:
            return True
        if node.operator not in _FOLLOWING:
            return False
        floats = [name for name in node.inputs if self._is_own(name, values.get(name))]
        return not self._names.isdisjoint(floats) and all(map(self._fits, floats))

    def _fits(self, name: str) -> bool:
        """Return whether a value is in float16, or is a number that float16 has."""
        if name in self._names:
            return True
        if name not in self._constants:
            return False
        magnitudes = abs(self._constants[name])
        is_moderate = (magnitudes >= _LEAST) & (magnitudes <= _LARGEST)
        return bool((is_moderate | (magnitudes == 0)).all())
