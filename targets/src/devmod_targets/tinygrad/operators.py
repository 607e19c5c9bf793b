"""Operators of ONNX that tinygrad computes wrongly in some cases, by ONNX's specification.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OnnxDataType, OpSetId, onnx_ops

__all__ = ["OPERATORS"]


def _slice(data: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    """tinygrad's takes an end beyond the length for the largest length."""
    axes = axes or range(len(starts))
    inner = []
    for axis, end in zip(axes, ends, strict=True):
        length = data.shape[axis]
        is_beyond = isinstance(end, int) and not isinstance(length, int) and bool(end >= length)
        inner.append(length if is_beyond else end)
    return onnx_ops["Slice"](data, starts, inner, axes, steps)


def _of_copy(name: str) -> Any:
    """Return an operator of tinygrad whose own assigns its first input, which others may use."""

    def operator(data: Tensor, *inputs: Tensor, **options: Any) -> Tensor:
        return onnx_ops[name](data.clone(), *inputs, **options)

    return operator


def _lp_normalization(x: Tensor, **options: int) -> Tensor:
    """tinygrad's divides zeros by their norm, which is zero."""
    return (x == 0).where(x, onnx_ops["LpNormalization"](x, **options))


# -- Quantized numbers.


def _quantize_linear(
    x: Tensor, scale: Tensor, zero: Any = None, *, output_dtype: int = 0, **options: int
) -> Tensor:
    """tinygrad's for uint8 rounds halves down."""
    own = onnx_ops["QuantizeLinear"]
    if zero is None and output_dtype in (0, OnnxDataType.UINT8):
        zero = Tensor(0, dtype=dtypes.uint8)
    if zero is None:
        return own(x, scale, output_dtype=output_dtype, **options)
    if zero.dtype != dtypes.uint8:
        return own(x, scale, zero, **options)
    wide = own(x, scale, zero.cast(dtypes.int16), **options)
    return wide.clamp(0, 255).cast(dtypes.uint8)


def _dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """tinygrad's multiplies by 1/255, which is not exact: so is each number, but no tensor."""
    steps = Tensor([255.0]).realize().reshape(())
    least = x.min().minimum(0)
    scale = (x.max().maximum(0) - least) / steps
    zero = (-least / scale).round().clamp(0, 255).cast(dtypes.uint8)
    return _quantize_linear(x, scale, zero), scale, zero


def _conv_integer(
    x: Tensor, w: Tensor, x_zero: Any = None, w_zero: Any = None, **options: Any
) -> Tensor:
    """tinygrad's takes the zero points of channels for those of columns."""
    x_zero = Tensor(0) if x_zero is None else x_zero
    w_zero = Tensor(0) if w_zero is None else w_zero.reshape(-1, *[1] * (w.ndim - 1))
    return onnx_ops["ConvInteger"](x, w, x_zero, w_zero, **options)


# -- Attention.


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
    *,
    is_causal: int = 0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
    **windows: int,
) -> tuple[Tensor, ...]:
    """tinygrad's has other heads where queries share keys, and NaN where a query sees no key. It
    caps after the mask, and its causal mask has no past.
    """
    if windows or lengths is not None:
        raise NotImplementedError("nonpad_kv_seqlen and windows of attention are not supported")
    rank = q.ndim
    if rank == 3:
        q = _heads(q, q_num_heads)
        k = _heads(k, kv_num_heads)
        v = _heads(v, kv_num_heads)
    past: Any = 0
    if past_key is not None:
        past = past_key.shape[2]
        k = past_key.cat(k, dim=2)
        v = past_value.cat(v, dim=2)
    shared = q.shape[1] // k.shape[1]
    keys = k.repeat_interleave(shared, 1).transpose(-1, -2)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    products = (q * factor) @ keys
    capped = (products / softcap).tanh() * softcap if softcap else products
    bias = _bias(q, k, mask, past, is_causal)
    scores = capped + bias
    precision = OnnxDataType(softmax_precision).to_dtype() if softmax_precision else q.dtype
    weights = scores.cast(precision).softmax(-1).cast(q.dtype)
    weights = (bias.max(-1, keepdim=True) == -inf).where(0, weights)
    result = weights @ v.repeat_interleave(shared, 1)
    if rank == 3:
        result = result.transpose(1, 2).flatten(2)
    return result, k, v, (products, capped, scores, weights)[qk_matmul_output_mode]


def _heads(x: Tensor, count: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _bias(q: Tensor, k: Tensor, mask: Any, past: Any, is_causal: int) -> Tensor:
    """Return what is added to the products: -inf where a query does not see a key."""
    result = Tensor.zeros(q.shape[2], k.shape[2], dtype=q.dtype)
    if is_causal:
        result = (result == 0).tril(past).where(0.0, -inf)
    if mask is None:
        return result.cast(q.dtype)
    if mask.dtype == dtypes.bool:
        mask = mask.where(0.0, -inf)
    missing = k.shape[2] - mask.shape[-1]
    mask = mask.pad(((0, 0),) * (mask.ndim - 1) + ((0, missing),), value=-inf)
    return (result + mask).cast(q.dtype)


#: tinygrad's operators, with those of this file.
OPERATORS: dict[str, Any] = {
    **onnx_ops,
    "Attention": {**onnx_ops["Attention"], OpSetId(Domain.ONNX, 1): _attention},
    "ConvInteger": _conv_integer,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "LpNormalization": _lp_normalization,
    "QuantizeLinear": _quantize_linear,
    "ScatterND": _of_copy("ScatterND"),
    "Slice": _slice,
    "TensorScatter": _of_copy("TensorScatter"),
}
