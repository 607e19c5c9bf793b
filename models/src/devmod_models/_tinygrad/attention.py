"""ONNX's Attention, by its specification: tinygrad's is wrong with groups of heads, with caches and
where a mask hides all keys from a query.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxDataType

__all__ = ["attention", "split_heads"]


def split_heads(x: Tensor, count: int | None) -> Tensor:
    """Return (B, T, heads * D) as (B, heads, T, D), which other tensors have."""
    if x.ndim == 4:
        return x
    assert count is not None
    split = x.reshape(x.shape[0], x.shape[1], count, x.shape[2] // count)
    return split.transpose(1, 2)


def _bias_of_mask(mask: Tensor, keys: int, dtype: Any) -> Tensor:
    """Return a mask as numbers to add, which hide the keys that it does not have."""
    hidden = -float("inf")
    if mask.dtype == dtypes.bool:
        mask = mask.where(Tensor(0.0, dtype=dtype), Tensor(hidden, dtype=dtype))
    missing = keys - mask.shape[-1]
    if missing > 0:
        mask = mask.pad((*[None] * (mask.ndim - 1), (0, missing)), value=hidden)
    return mask


def _visible(queries: int, keys: int, offset: Any, is_causal: int, left: int, right: int) -> Tensor:
    """Return which keys each query sees, by their places. `offset` is the place of the first query:
    a number, or a tensor with one for each element of the batch.
    """
    distance = Tensor.arange(queries).reshape(queries, 1) - Tensor.arange(keys).reshape(1, keys)
    if isinstance(offset, Tensor):
        offset = offset.cast(dtypes.int32).reshape(-1, 1, 1, 1)
    distance = distance + offset
    result = distance == distance
    if is_causal:
        result = result & (distance >= 0)
    if left >= 0:
        result = result & (distance <= left)
    if right >= 0:
        result = result & (distance >= -right)
    return result


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    softmax_precision: int | None = None,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the output, the keys, the values, and the products of queries and keys."""
    dtype = query.dtype
    is_flat = query.ndim == 3
    query = split_heads(query, q_num_heads)
    key = split_heads(key, kv_num_heads)
    value = split_heads(value, kv_num_heads)
    queries = query.shape[2]
    offset: Any = 0
    if past_key is not None and past_value is not None:
        offset = past_key.shape[2]
        key = past_key.cat(key, dim=2)
        value = past_value.cat(value, dim=2)
    elif lengths is not None:
        offset = lengths - queries
    present = (key, value)
    keys = key.shape[2]

    group = query.shape[1] // key.shape[1]
    factor = sqrt(scale or 1 / sqrt(query.shape[3]))
    wide_key = key.repeat_interleave(group, 1) * factor
    products = (query * factor) @ wide_key.transpose(2, 3)
    shown = products
    if softcap:
        products = (products / softcap).tanh() * softcap
    bias = Tensor.zeros(queries, keys, dtype=dtype)
    if mask is not None:
        bias = bias + _bias_of_mask(mask, keys, dtype)
    visible = _visible(queries, keys, offset, is_causal, left_window_size, right_window_size)
    if lengths is not None:
        is_own = Tensor.arange(keys).reshape(1, 1, 1, keys) < lengths.reshape(-1, 1, 1, 1)
        visible = visible & is_own
    bias = visible.where(bias, -float("inf"))

    scores = products + bias
    precision = dtypes.float32
    if softmax_precision is not None:
        precision = OnnxDataType(softmax_precision).to_dtype()
    # A query from which all keys are hidden gets 0.
    is_hidden = bias.max(-1, keepdim=True) == -float("inf")
    shares = is_hidden.where(0, scores.cast(precision)).softmax(-1)
    shares = is_hidden.where(0, shares).cast(dtype)
    output = shares @ value.repeat_interleave(group, 1)
    if is_flat:
        output = output.transpose(1, 2).reshape(output.shape[0], queries, -1)
    details = [shown, products, scores, shares]
    return output, *present, details[qk_matmul_output_mode].cast(dtype)
