"""Operators of Microsoft's domain that onnxruntime's optimizer writes in the place of several, by
the page ContribOperators.md of onnxruntime.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OpSetId, onnx_ops

from devmod.errors import CompileError
from devmod_models._tinygrad.recurrent import quantized_rows

__all__ = ["OPERATORS", "PYTHON_INPUTS"]

#: The activations of FusedConv, with their numbers.
_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "": lambda x: x,
    "Clip": lambda x, least, most: x.clamp(least, most),
    "HardSigmoid": lambda x, alpha, beta: (x * alpha + beta).clamp(0, 1),
    "LeakyRelu": lambda x, alpha: x.leaky_relu(alpha),
    "Relu": lambda x: (x < 0).where(0, x),
    "Sigmoid": Tensor.sigmoid,
    "Tanh": Tensor.tanh,
}


# -- Products.


def _fused_conv(
    x: Tensor,
    weight: Tensor,
    bias: Any = None,
    other: Any = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **options: Any,
) -> Tensor:
    result = onnx_ops["Conv"](x, weight, bias, **options)
    if other is not None:
        result = result + other
    if activation not in _ACTIVATIONS:
        raise CompileError(f"the activation {activation!r} is unknown")
    return _ACTIVATIONS[activation](result, *activation_params)


def _fused_mat_mul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """With `transBatchA`, the first dimension is behind the others of the batch."""

    def moved(x: Tensor, is_batch: int, is_transposed: int) -> Tensor:
        order = [*range(x.ndim)]
        if is_batch:
            order.insert(x.ndim - 2, order.pop(0))
        if is_transposed and x.ndim > 1:
            order[-2:] = order[:-3:-1]
        return x.permute(order)

    return moved(a, transBatchA, transA) @ moved(b, transBatchB, transB) * alpha


def _mat_mul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Any = None,
    b_zero: Any = None,
    bias: Any = None,
) -> Tensor:
    numbers = []
    for each, zero in ((a, a_zero), (b, b_zero)):
        wide = each.cast(dtypes.int32)
        if zero is not None:
            wide = wide - zero.cast(dtypes.int32)
        numbers.append(wide)
    sums = numbers[0] @ numbers[1]
    result = sums.cast(dtypes.float32) * (a_scale * b_scale)
    if bias is not None:
        result = result + bias
    return result


def _dynamic_quantize_mat_mul(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Any = None, bias: Any = None
) -> Tensor:
    columns = b.cast(dtypes.float32)
    if b_zero is not None:
        columns = columns - b_zero.cast(dtypes.float32)
    rows, scale = quantized_rows(a)
    result = (rows @ columns) * (scale * b_scale)
    if bias is not None:
        result = result + bias
    return result


# -- Normalizations and activations.


def _root_mean_square(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> tuple[Tensor, Tensor]:
    axes = tuple(range(axis % x.ndim, x.ndim))
    inverse = (x.cast(dtypes.float32).square().mean(axes, keepdim=True) + epsilon).rsqrt()
    return (x * inverse).cast(x.dtype) * scale, inverse


def _skip_root_mean_square(
    x: Tensor, skip: Tensor, scale: Tensor, bias: Any = None, *, epsilon: float = 1e-5
) -> tuple[Any, ...]:
    total = x + skip
    if bias is not None:
        total = total + bias
    result, inverse = _root_mean_square(total, scale, epsilon=epsilon)
    return result, None, inverse, total


def _quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * (x * alpha).sigmoid()


# -- Attention.


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int) -> Tensor:
    """Return heads (batch, heads, positions, size) turned by angles (batch, positions, half)."""
    half = cos.shape[-1]
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    turned = x[..., : 2 * half]
    if interleaved:
        one = turned[..., ::2]
        two = turned[..., 1::2]
    else:
        one, two = turned.chunk(2, dim=-1)
    first = one * cos - two * sin
    second = one * sin + two * cos
    if interleaved:
        result = Tensor.stack(first, second, dim=-1).flatten(-2)
    else:
        result = first.cat(second, dim=-1)
    return result.cat(x[..., 2 * half :], dim=-1)


def _rotary_embedding(
    x: Tensor,
    positions: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """ONNX's own operator has the positions behind the angles."""
    if is_packed_batching or scale != 1.0:
        raise CompileError("packed batches and a scale are not supported")
    heads = x
    if x.ndim == 3:
        size = cos.shape[-1] * 2
        if rotary_embedding_dim:
            size = x.shape[-1] // num_heads
        heads = x.unflatten(-1, (-1, size)).transpose(1, 2)
    if positions.numel() == 1:  # that of the first position
        positions = positions.reshape(1, 1) + Tensor.arange(heads.shape[2])
    own = [each[positions.cast(dtypes.int32)] for each in (cos, sin)]
    result = _rotated(heads, *own, interleaved=interleaved)
    if x.ndim == 3:
        result = result.transpose(1, 2).flatten(2)
    return result


def _attended(q: Tensor, k: Tensor, v: Tensor, scale: float, bias: Any, softcap: float) -> Tensor:
    """Return the attention of heads, as (batch, positions, all of the heads)."""
    scores = (q @ k.transpose(-1, -2)) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def _heads(x: Tensor, count: int) -> Tensor:
    """Return a tensor of 3 dimensions as heads; one of 4 has them."""
    if x.ndim == 4:
        return x
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _multi_head_attention(
    query: Tensor,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    padding: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    *others: Any,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    if any(each is not None for each in others):
        raise CompileError("a buffer that past and present share is not supported")
    if query.ndim == 5:  # all three, packed
        query, key, value = (query[:, :, :, number].transpose(1, 2) for number in range(3))
    elif key is not None and key.ndim == 5:
        key, value = (key[:, :, :, number].transpose(1, 2) for number in range(2))
    q, k, v = (_heads(each, num_heads) for each in (query, key, value))
    if bias is not None:
        sizes = [num_heads * each.shape[-1] for each in (q, k, v)]
        q, k, v = (
            each + part.reshape(1, num_heads, 1, -1)
            for each, part in zip((q, k, v), bias.split(sizes), strict=True)
        )
    if past_key is not None:
        k = past_key.cat(k, dim=2)
        v = past_value.cat(v, dim=2)
    places = Tensor.arange(k.shape[2])
    added: Any = 0
    if padding is not None:
        is_kept = padding > 0
        if padding.ndim == 1:
            if padding.shape[0] != q.shape[0]:
                raise CompileError("a mask of cumulated lengths is not supported")
            is_kept = places < padding.reshape(-1, 1)
        while is_kept.ndim < 4:
            is_kept = is_kept.unsqueeze(1)
        added = is_kept.where(0.0, mask_filter_value)
    if unidirectional:
        last = Tensor.arange(q.shape[2]).reshape(-1, 1) + (k.shape[2] - q.shape[2])
        added = added + (places <= last).where(0.0, dtypes.float32.min)
    if attention_bias is not None:
        added = added + attention_bias
    if not isinstance(added, Tensor):
        added = None
    return _attended(q, k, v, scale, added, 0.0), k, v


def _group_query_attention(
    query: Tensor,
    key: Any,
    value: Any,
    past_key: Any,
    past_value: Any,
    lengths: Tensor,
    total: Any,
    cos: Any = None,
    sin: Any = None,
    positions: Any = None,
    attention_bias: Any = None,
    *others: Any,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    local_window_size: int = -1,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """`lengths` has those of the sequences with the new positions, minus one."""
    if any(each is not None for each in others) or any(
        each not in (0, -1, "NONE", "") for each in options.values()
    ):
        names = ", ".join(options) or "a sink of the heads"
        raise CompileError(f"{names} is not supported")
    if key is None:  # all three, packed
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split(
            [num_heads * size, kv_num_heads * size, kv_num_heads * size], dim=-1
        )
    q = _heads(query, num_heads)
    new = [_heads(each, kv_num_heads) for each in (key, value)]
    count = q.shape[2]
    begin = (lengths.cast(dtypes.int32).reshape(-1, 1) + 1 - count).maximum(0)
    own = begin + Tensor.arange(count)  # the positions of the queries
    if do_rotary:
        if positions is None:
            positions = own
        angles = [each[positions.cast(dtypes.int32)] for each in (cos, sin)]
        q = _rotated(q, *angles, interleaved=rotary_interleaved)
        new[0] = _rotated(new[0], *angles, interleaved=rotary_interleaved)

    length = int(total[0] if isinstance(total, list) else total)
    if past_key is not None:
        length = max(length, past_key.shape[2])
    places = Tensor.arange(length)
    present = []
    for past, each in ((past_key, new[0]), (past_value, new[1])):
        at = (places - begin).clamp(0, count - 1).reshape(-1, 1, length, 1)
        value = each.gather(2, at.expand(*each.shape[:2], length, each.shape[3]))
        if past is not None and past.shape[2]:
            is_past = (places < begin).reshape(-1, 1, length, 1)
            padded = past.pad((None, None, (0, length - past.shape[2]), None))
            value = is_past.where(padded, value)
        # onnxruntime has zeros behind the sequence.
        is_own = (places < begin + count).reshape(-1, 1, length, 1)
        present.append(is_own.where(value, 0))
    is_seen = places <= own.unsqueeze(2)
    if local_window_size > 0:
        is_seen = is_seen & (places > own.unsqueeze(2) - local_window_size)
    added = is_seen.unsqueeze(1).where(0.0, dtypes.float32.min)
    if attention_bias is not None:
        added = added + attention_bias
    k, v = (each.repeat_interleave(num_heads // kv_num_heads, 1) for each in present)
    return (_attended(q, k, v, scale, added, softcap), *present)


def _of_microsoft(function: Any, onnx: Any = None) -> Any:
    """Return an operator of Microsoft's domain. `onnx` is ONNX's own of this name."""
    own = {OpSetId(Domain.MICROSOFT_CONTRIB_OPS, 1): function}
    if onnx is not None:
        own[OpSetId(Domain.ONNX, 1)] = onnx
    return own


OPERATORS: dict[str, Any] = {
    "DynamicQuantizeMatMul": _of_microsoft(_dynamic_quantize_mat_mul),
    "FusedConv": _of_microsoft(_fused_conv),
    "FusedMatMul": _of_microsoft(_fused_mat_mul),
    "GroupQueryAttention": _of_microsoft(_group_query_attention),
    "MatMulIntegerToFloat": _of_microsoft(_mat_mul_integer_to_float),
    "MultiHeadAttention": _of_microsoft(_multi_head_attention),
    "QuickGelu": _of_microsoft(_quick_gelu),
    "RotaryEmbedding": _of_microsoft(_rotary_embedding, onnx=onnx_ops["RotaryEmbedding"]),
    "SimplifiedLayerNormalization": _root_mean_square,
    "SkipSimplifiedLayerNormalization": _of_microsoft(_skip_root_mean_square),
}
#: The inputs that are numbers of Python.
PYTHON_INPUTS = {"GroupQueryAttention": (6,)}
