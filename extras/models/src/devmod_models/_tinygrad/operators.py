"""Operators of ONNX that tinygrad computes wrongly in some cases, by ONNX's specification.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from itertools import zip_longest
from math import frexp, inf, isfinite, pi, prod
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import (
    Domain,
    OnnxDataType,
    OpSetId,
    onnx_ops,
    required_input_python_consts,
)
from tinygrad.uop.ops import Ops, python_alu

from devmod.errors import CompileError
from devmod_models._tinygrad import fused, lengths, more_operators, recurrent, resizing
from devmod_models._tinygrad.record import are_fixed, largest
from devmod_models.onnx import TYPES

__all__ = ["OPERATORS", "divide"]


def _of_copy(name: str) -> Any:
    """Return an operator of tinygrad whose own assigns its first input, which others may use."""

    def operator(data: Tensor, *inputs: Tensor, **options: Any) -> Tensor:
        return onnx_ops[name](data.clone(), *inputs, **options)

    return operator


def _narrow(name: str) -> Any:
    """Return an operator of tinygrad whose small integers wrap. tinygrad's kernels compute them in
    C's int, and a result that is used at once is not reduced to its type.
    """

    def operator(*inputs: Tensor, **options: Any) -> Tensor:
        dtype = inputs[0].dtype
        if not dtypes.is_int(dtype) or dtype.itemsize >= 4:
            return onnx_ops[name](*inputs, **options)
        wide = [each.cast(dtypes.int32) for each in inputs]
        return onnx_ops[name](*wide, **options).cast(dtype)

    return operator


def _max_pool(x: Tensor, *, storage_order: int = 0, **options: Any) -> tuple[Any, Any]:
    """tinygrad's indices are those within a channel. Along a length of a call, it has none."""
    if not are_fixed(x.shape[2:]):
        return lengths.largest_of_windows(x, **options), None
    values, index = onnx_ops["MaxPool"](x, **options)
    batch, channels, *sides = x.shape
    if storage_order:
        rest = index
        index = 0
        for axis in reversed(range(len(sides))):
            index = index + rest % sides[axis] * prod(sides[:axis])
            rest = rest // sides[axis]
    most = largest(batch)
    first = Tensor.arange(most * channels).reshape(most, channels, *[1] * len(sides))
    return values, index + first[:batch].cast(dtypes.int64) * prod(sides)


def _max_unpool(x: Tensor, index: Tensor, *shape: Any, **options: Any) -> Tensor:
    """tinygrad's takes the indices within a channel."""
    result = onnx_ops["MaxUnpool"](x, index, *shape, **options)
    return onnx_ops["MaxUnpool"](x, index % prod(result.shape[2:]), *shape, **options)


def _relu(x: Tensor) -> Tensor:
    """tinygrad's gives 0 for NaN."""
    return (x < 0).where(0, x)


# -- NaN and infinities, for which tinygrad's have other results.


def _at_infinity(name: str, result: Any) -> Any:
    """Return an operator of tinygrad with another result for an infinity."""

    def operator(x: Tensor) -> Tensor:
        return x.isinf().where(result(x), onnx_ops[name](x))

    return operator


def _elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return (x < 0).where(onnx_ops["Elu"](x, alpha), x)


def _hard_swish(x: Tensor) -> Tensor:
    return x * (x / 6 + 0.5).clamp(0, 1)


def _softplus(x: Tensor) -> Tensor:
    return (x == inf).where(x, onnx_ops["Softplus"](x))


def _mish(x: Tensor) -> Tensor:
    return x * _softplus(x).tanh()


def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    smaller = (x > lambd).where((x - bias).cast(x.dtype), 0)
    return (x < -lambd).where((x + bias).cast(x.dtype), smaller)


def _sign(x: Tensor) -> Tensor:
    own = onnx_ops["Sign"](x)
    if not dtypes.is_float(x.dtype):
        return own
    return x.isnan().where(x, own)


# -- Other operators.


def _upsample(x: Tensor, scales: Any, *, mode: str = "nearest") -> Tensor:
    """Resize as Upsample and the first Resize do. tinygrad's takes the middles of pixels, which a
    later Resize has.
    """
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return resizing.resize(x, None, scales, mode=mode, **options)


def _lp_normalization(x: Tensor, **options: int) -> Tensor:
    """tinygrad's divides zeros by their norm, which is zero."""
    return (x == 0).where(x, onnx_ops["LpNormalization"](x, **options))


def _mod(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    """tinygrad's multiplies the infinity by zero."""
    own = onnx_ops["Mod"](x, y, fmod=fmod)
    if fmod or not dtypes.is_float(x.dtype):
        return own
    is_whole = y.isinf() & ~x.isinf()
    return is_whole.where((x.sign() == -y.sign()).where(y, x), own)


def _cast(x: Tensor, *, to: int, **_: Any) -> Tensor:
    """Cast. The other attributes are those of types of 8 bits and less."""
    if to not in TYPES:
        raise CompileError(
            f"it gives ONNX's element type {to}, which no program has; the types are {', '.join(TYPES.values())}"
        )
    return x.cast(OnnxDataType(to).to_dtype())


def _range(start: Any, limit: Any, delta: Any) -> Tensor:
    """tinygrad's has the type of Python's numbers. Lengths of a call are no tensors."""
    numbers = []
    for each in (start, limit, delta):
        number = each
        if isinstance(each, Tensor):
            number = each.numpy().item()
        numbers.append(number)
    result = onnx_ops["Range"](*numbers)
    if isinstance(start, Tensor):
        return result.cast(start.dtype)
    return result


# -- Quantized numbers.


def _conv_integer(x: Tensor, weight: Tensor, *zeros: Any, **options: Any) -> Tensor:
    """tinygrad's takes the zero points of channels for those of columns."""
    numbers = []
    for each, zero in zip_longest((x, weight), zeros):
        wide = each.cast(dtypes.int32)
        if zero is not None:
            wide = wide - zero.reshape(-1, *[1] * (each.ndim - 1))
        numbers.append(wide)
    return onnx_ops["Conv"](*numbers, **options)


def _requantized(
    sums: Tensor, scale: Tensor, zero: Tensor, *, rounds_with_zero: bool = False
) -> Tensor:
    """Return sums of products times a scale as numbers of the type of their zero. The scale is one
    number, as in onnxruntime: tinygrad's rounds twice, and gets to another step.
    """
    numbers = sums.cast(dtypes.float32) * scale
    own = zero.cast(dtypes.float32)
    if rounds_with_zero:
        numbers = (numbers + own).round()
    else:
        numbers = numbers.round() + own
    return numbers.clamp(zero.dtype.min, zero.dtype.max).cast(zero.dtype)


def _qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    *bias: Any,
    **options: Any,
) -> Tensor:
    sums = _conv_integer(x, weight, x_zero, w_zero, **options)
    side = (1, -1, *[1] * (x.ndim - 2))
    if bias and bias[0] is not None:
        sums = sums + bias[0].reshape(side)
    return _requantized(sums, x_scale * w_scale.reshape(side) / scale, zero)


def _qlinear(function: Any, *, rounds_with_zero: bool = False) -> Any:
    """Return an operator of two quantized tensors, such as Tensor.matmul."""

    def operator(
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor,
        scale: Tensor,
        zero: Tensor,
    ) -> Tensor:
        # Those of the rows of the first tensor.
        if a_scale.ndim == 1 and a_scale.numel() > 1:
            a_scale = a_scale.unsqueeze(1)
            a_zero = a_zero.unsqueeze(1)
        sums = function(
            a.cast(dtypes.int32) - a_zero.cast(dtypes.int32),
            b.cast(dtypes.int32) - b_zero.cast(dtypes.int32),
        )
        step = a_scale * b_scale / scale
        return _requantized(sums, step, zero, rounds_with_zero=rounds_with_zero)

    return operator


def _quantize_linear(
    x: Tensor, scale: Tensor, zero: Any = None, *, output_dtype: int = 0, **options: int
) -> Tensor:
    """tinygrad's for uint8 rounds halves down."""
    own = onnx_ops["QuantizeLinear"]
    if zero is None:
        dtype = OnnxDataType(output_dtype or OnnxDataType.UINT8)
        zero = Tensor(0, dtype=dtype.to_dtype())
    if zero.dtype != dtypes.uint8:
        return own(x, scale, zero, **options)
    wide = own(x, scale, zero.cast(dtypes.int16), **options)
    return wide.clamp(0, 255).cast(dtypes.uint8)


def _dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """tinygrad's computes the least and the largest number again for each element."""
    numbers, scale, zero = recurrent.quantized(x)
    return numbers.cast(dtypes.uint8).contiguous(), scale, zero.cast(dtypes.uint8)


def divide(self: Tensor, x: Any, reverse: bool = False, rounding_mode: str | None = None) -> Tensor:
    """Divide as `Tensor.div` does, which multiplies by the reciprocal of a number. That is rounded
    twice: a multiple of a scale becomes another step where it is quantized.
    """
    divisor = x
    if reverse:
        divisor = self
    if rounding_mode is not None or not _has_inexact_reciprocal(divisor):
        return _own_divide(self, x, reverse, rounding_mode)
    one, other = self._broadcasted(x, reverse)
    if not dtypes.is_float(one.dtype):
        return _own_divide(self, x, reverse)
    return one.alu(Ops.FDIV, other.cast(one.dtype))


def _has_inexact_reciprocal(divisor: Any) -> bool:
    """Return whether a divisor is a number, and its reciprocal is rounded."""
    number = divisor
    if isinstance(divisor, Tensor) and divisor.uop.base.op is Ops.CONST:
        number = divisor.uop.base.val
    if not isinstance(number, (int, float)) or not isfinite(number):
        return False
    mantissa, _ = frexp(number)
    return mantissa not in (0, 0.5, -0.5)


_own_divide = Tensor.div
# tinygrad's rules compute what has no variables.
python_alu[Ops.FDIV] = lambda a, b: a * python_alu[Ops.RECIPROCAL](b) if b == 0 else a / b

#: tinygrad's operators, with those of this file.
OPERATORS: dict[str, Any] = {
    **onnx_ops,
    **more_operators.OPERATORS,
    **fused.OPERATORS,
    **{name: _narrow(name) for name in ("Abs", "Add", "Mul", "Neg", "Sub")},
    "ArgMax": lengths.arg_max,
    "ArgMin": lengths.arg_min,
    "Asinh": _at_infinity("Asinh", lambda x: x),
    "Atan": _at_infinity("Atan", lambda x: x.sign() * (pi / 2)),
    "Cast": _cast,
    "Concat": lengths.concat,
    "ConvInteger": _conv_integer,
    "ConvTranspose": resizing.conv_transpose,
    "CumSum": lengths.cum_sum,
    **recurrent.OPERATORS,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "Elu": _elu,
    "Gather": lengths.gather,
    "GatherND": lengths.gather_nd,
    "GreaterOrEqual": lambda x, y: (x > y) | (x == y),
    "HardSwish": _hard_swish,
    "LessOrEqual": lambda x, y: (x < y) | (x == y),
    "LpNormalization": _lp_normalization,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "Mish": _mish,
    "Mod": _mod,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear(Tensor.matmul),
    "QLinearMul": _qlinear(Tensor.mul, rounds_with_zero=True),
    "QuantizeLinear": _quantize_linear,
    "Relu": _relu,
    "Reshape": lengths.reshape,
    "Resize": {OpSetId(Domain.ONNX, 10): _upsample, OpSetId(Domain.ONNX, 11): resizing.resize},
    "Range": _range,
    "ScatterND": lengths.scatter_nd,
    "Shrink": _shrink,
    "Sign": _sign,
    "Slice": lengths.slice_of,
    "Softplus": _softplus,
    "TensorScatter": _of_copy("TensorScatter"),
    "Upsample": _upsample,
}
required_input_python_consts.update(more_operators.PYTHON_INPUTS | fused.PYTHON_INPUTS)
# `_range` gets tensors, which have a type.
del required_input_python_consts["Range"]
