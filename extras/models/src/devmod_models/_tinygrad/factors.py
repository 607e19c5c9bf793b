"""Which values of a model get arrays of their own, so that the products beside them are kernels
that are written by hand.

tinygrad computes what precedes a product in its kernel, for each row or column again, and what
follows it in the kernel of a reduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tinygrad import Tensor
from tinygrad.uop.ops import GroupOp, Ops, UOp

from devmod_models.onnx import Node

__all__ = ["Factors"]

#: Operators that read an element of their first inputs for many results.
_PRODUCTS = (
    *("Conv", "ConvInteger", "ConvTranspose", "FusedConv", "FusedMatMul", "Gemm", "MatMul"),
    *("MatMulInteger", "MatMulIntegerToFloat", "QLinearConv", "QLinearMatMul"),
)
#: Those that read an element for one result, or a few.
_REDUCTIONS = (
    *("ArgMax", "ArgMin", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"),
    *("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"),
)
#: Those that move the elements of their first input.
_VIEWS = (
    *("Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze"),
)
#: Those that choose between arrays for each element.
_JOINED = ("Concat",)
#: Those whose results are made of several arrays, one for each direction.
_STACKED = ("GRU", "LSTM", "RNN")
#: The weights of an attention: a kernel of attention has them with the product that follows.
_IN_ATTENTION = ("Softmax",)


class Factors:
    """The values that products and reductions read, but for those that come from constants alone:
    an array of these would be in the file, computed.

    Parameters
    ----------
    nodes
        The nodes of a model, in order.
    constants
        The names of its constants.
    """

    def __init__(self, nodes: Iterable[Node], constants: Iterable[str]) -> None:
        nodes = [*nodes]
        self._fixed = {"", *constants}
        for node in nodes:
            if self._fixed.issuperset(node.inputs):
                self._fixed.update(node.outputs)
        self._products: set[str] = set()
        self._reductions: set[str] = set()
        for node in reversed(nodes):
            if node.operator in _PRODUCTS:
                self._products.update(node.inputs)
            elif node.operator in _REDUCTIONS:
                self._reductions.update(node.inputs[:1])
            elif node.operator in _VIEWS:
                for names in (self._products, self._reductions):
                    if not names.isdisjoint(node.outputs):
                        names.add(node.inputs[0])

    def inputs(self, node: Node, values: Mapping[str, Any]) -> list[str]:
        """Return the inputs of a node that are to be in arrays, so that its kernel has one product
        at most.
        """
        names = []
        present: set[UOp] = set()
        for name in dict.fromkeys(node.inputs):
            value = values.get(name)
            if name in self._fixed or not isinstance(value, Tensor):
                continue
            sums = _sums(value.uop)
            if sums and (node.operator in _JOINED or (present and not sums <= present)):
                names.append(name)
            present |= sums
        return names

    def separates(self, node: Node, name: str, value: Any) -> bool:
        """Return whether an output of a node is to be in an array."""
        is_computed = value.uop.op in GroupOp.Elementwise or node.operator in _JOINED + _STACKED
        if not is_computed or node.operator in _IN_ATTENTION or name in self._fixed:
            return False
        if name in self._products:
            return True
        return name in self._reductions and bool(_sums(value.uop))


def _sums(value: UOp) -> set[UOp]:
    """Return the sums of products that the kernel of a value computes."""
    result = set()
    for each in value.toposort(gate=lambda uop: uop.op not in (Ops.BUFFER, Ops.CONTIGUOUS)):
        if each.op is not Ops.REDUCE or each.arg[0] is not Ops.ADD:
            continue
        factors = each.src[0]
        while factors.op in (*GroupOp.Movement, Ops.CAST):
            factors = factors.src[0]
        # A square is that of a variance, whose kernel has the sum alone.
        if factors.op is Ops.MUL and factors.src[0] is not factors.src[1]:
            result.add(each)
    return result
