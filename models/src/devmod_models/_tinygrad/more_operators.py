"""Operators of ONNX that tinygrad does not have, by ONNX's specification.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OnnxDataType, OpSetId, onnx_ops

from devmod.errors import CompileError
from devmod_models._tinygrad import sampling
from devmod_models._tinygrad.attention import split_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPERATORS", "PYTHON_INPUTS"]

#: The most turns of a recurrence, which is unrolled.
_MOST_TURNS = 128


def _constant(array: Any) -> Tensor:
    """Return a tensor of an array of NumPy, which may be a view."""
    return Tensor(np.ascontiguousarray(array))


# -- Bits.


def _bit_cast(x: Tensor, *, to: int) -> Tensor:
    dtype = OnnxDataType(to).to_dtype()
    if dtypes.bool in (x.dtype, dtype):
        return x.cast(dtype)
    return x.bitcast(dtype)


def _bit_shift(x: Tensor, amount: Tensor, *, direction: str) -> Tensor:
    """Shift by a multiplication or a division. A shift by the width or more, or by less than 0,
    leaves no bit but the sign.
    """
    width = x.dtype.itemsize * 8
    unsigned = getattr(dtypes, f"uint{width}")
    powers = _constant(np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64)))
    factor = powers.cast(unsigned)[amount.clamp(0, width - 1).cast(dtypes.int32)]
    is_valid = (amount >= 0) & (amount < width)
    if direction == "LEFT":
        return is_valid.where(x.bitcast(unsigned) * factor, 0).bitcast(x.dtype)
    if dtypes.is_unsigned(x.dtype):
        return is_valid.where(x // factor, 0)
    is_negative = x < 0
    bits = is_negative.where(-1 - x, x).bitcast(unsigned)
    shifted = is_valid.where(bits // factor, 0).bitcast(x.dtype)
    return is_negative.where(-1 - shifted, shifted)


# -- Along an axis.


def _cum_prod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    at = int(np.ravel(axis)[0]) % x.ndim
    if reverse:
        x = x.flip(at)
    if exclusive:
        length = x.shape[at]
        pads: list[Any] = [None] * x.ndim
        pads[at] = (1, 0)
        parts: list[Any] = [None] * x.ndim
        parts[at] = (0, length)
        x = x.pad(tuple(pads), value=1).shrink(tuple(parts))
    result = x.cumprod(at)
    if reverse:
        return result.flip(at)
    return result


def _reverse_sequence(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    count = x.shape[time_axis]
    time = Tensor.arange(count).reshape(1, count)
    own = lengths.cast(dtypes.int32).reshape(-1, 1)
    index = (time < own).where(own - 1 - time, time)
    if time_axis < batch_axis:
        index = index.transpose()
    shape = [1] * x.ndim
    shape[batch_axis] = x.shape[batch_axis]
    shape[time_axis] = count
    return x.gather(time_axis, index.reshape(shape).expand(x.shape))


def _space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    formula = "b c (h h1) (w w1) -> b (h1 w1 c) h w"
    if mode == "CRD":
        formula = "b c (h h1) (w w1) -> b (c h1 w1) h w"
    return x.rearrange(formula, h1=blocksize, w1=blocksize)


def _determinant(x: Tensor) -> Tensor:
    """Eliminate with the largest element of each column as pivot."""
    size = x.shape[-1]
    rows = x.reshape(-1, size, size)
    result: Any = 1
    for _ in range(size):
        column = rows[:, :, 0]
        place = column.abs().argmax(1, keepdim=True)
        is_pivot = Tensor.arange(column.shape[1]).reshape(1, -1) == place
        pivot = is_pivot.unsqueeze(2).where(rows, 0).sum(1)
        value = pivot[:, 0]
        sign = (place.reshape(-1) == 0).where(1, -1)
        result = result * value * sign
        # The first row takes the place of the pivot's.
        rows = is_pivot.unsqueeze(2).where(rows[:, :1], rows)[:, 1:]
        divisor = (value == 0).where(1, value).reshape(-1, 1, 1)
        rows = (rows - rows[:, :, :1] * pivot.unsqueeze(1) / divisor)[:, :, 1:]
    return result.reshape(x.shape[:-2]).cast(x.dtype)


# -- Frequencies.


def _waves(count: int, frequencies: int, length: int) -> tuple[Any, Any]:
    """Return the cosines and the sines of so many times and frequencies."""
    turns = np.outer(np.arange(count), np.arange(frequencies)) % length
    angles = 2 * np.pi * turns / length
    return np.cos(angles), np.sin(angles)


def _complex_parts(x: Tensor, axis: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary part of x, with so many elements of an axis, the last."""
    order = [each for each in range(x.ndim) if each != axis]
    moved = x.permute(*order, axis)
    missing = count - moved.shape[-1]
    if missing > 0:
        moved = moved.pad((*[None] * (x.ndim - 1), (0, missing)))
    moved = moved[..., :count]
    real = moved[..., 0, :]
    if moved.shape[-2] == 2:
        return real, moved[..., 1, :]
    return real, real.zeros_like()


def _transform(x: Tensor, length: int | None, axis: int, inverse: int, onesided: int) -> Tensor:
    """Return the Fourier transform of x, whose last axis has the real and the imaginary part, or
    the real one alone.
    """
    axis %= x.ndim
    is_real_result = bool(inverse and onesided)
    if length is None:
        length = x.shape[axis]
        if is_real_result:
            length = 2 * (x.shape[axis] - 1)
    half = length // 2 + 1
    needed = length
    if is_real_result:
        needed = half
    real, imaginary = _complex_parts(x, axis, needed)
    if is_real_result:
        cosines, sines = _waves(half, length, length)
        weights = np.full((half, 1), 2.0)
        weights[0] = 1
        if length % 2 == 0:
            weights[-1] = 1
        parts = [_product(real, cosines * weights / length, imaginary, -sines * weights / length)]
    else:
        frequencies = length
        if onesided:
            frequencies = half
        cosines, sines = _waves(length, frequencies, length)
        if inverse:
            cosines = cosines / length
            sines = -sines / length
        parts = [
            _product(real, cosines, imaginary, sines),
            _product(imaginary, cosines, real, -sines),
        ]
    result = Tensor.stack(*parts, dim=-1)
    # The axis, which is now the last but one, returns to its place.
    back = [*range(x.ndim - 2)]
    back.insert(axis, x.ndim - 2)
    return result.permute(*back, x.ndim - 1)


def _product(a: Tensor, factors_a: Any, b: Tensor, factors_b: Any) -> Tensor:
    """Return the sum of two products with matrices of NumPy."""
    numbers = "float32"
    if a.dtype == dtypes.float64:
        numbers = "float64"
    first = a @ _constant(factors_a.astype(numbers)).cast(a.dtype)
    return first + b @ _constant(factors_b.astype(numbers)).cast(b.dtype)


def _number(value: Any) -> int | None:
    if value is None:
        return None
    return int(np.ravel(value)[0])


def _dft_17(
    x: Tensor, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _transform(x, _number(length), axis, inverse, onesided)


def _dft_20(
    x: Tensor, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    at = _number(axis)
    if at is None:
        at = -2
    return _transform(x, _number(length), at, inverse, onesided)


def _stft(
    signal: Tensor,
    step: Any,
    window: Tensor | None = None,
    frame_length: Any = None,
    *,
    onesided: int = 1,
) -> Tensor:
    size = _number(frame_length)
    if size is None and window is not None:
        size = window.shape[0]
    if size is None:
        size = signal.shape[1]
    hop = _number(step)
    assert hop is not None
    frames = []
    for start in range(0, signal.shape[1] - size + 1, hop):
        frames.append(signal[:, start : start + size])
    stacked = Tensor.stack(*frames, dim=1)
    if window is not None:
        stacked = stacked * window.reshape(1, 1, size, 1)
    return _transform(stacked, size, 2, 0, onesided)


def _mel_weight_matrix(*numbers: Any, output_datatype: int = 1) -> Tensor:
    """Compute the matrix by the rules of onnx.reference: all its inputs are numbers."""
    from onnx.reference.ops.op_mel_weight_matrix import MelWeightMatrix

    values = [np.ravel(each)[0] for each in numbers]
    (result,) = MelWeightMatrix._run(None, *values, output_datatype=output_datatype)
    return _constant(result)


# -- Layers.


def _lp_pool(x: Tensor, *, p: int = 2, kernel_shape: Sequence[int], **options: Any) -> Tensor:
    powers = x.abs() ** p
    mean = onnx_ops["AveragePool"](
        powers, kernel_shape=kernel_shape, count_include_pad=1, **options
    )
    return ((mean * prod(kernel_shape)) ** (1 / p)).cast(x.dtype)


def _swiglu(a: Tensor, b: Tensor, *, alpha: float = 1.0) -> Tensor:
    return (a * (a * alpha).sigmoid() * b).cast(a.dtype)


def _causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    width = weight.shape[2] - 1
    if past is None:
        padded = x.pad((None, None, (width, 0)))
    else:
        padded = past.cat(x, dim=2)
    result = padded.conv2d(weight, bias, groups=x.shape[1])
    if activation in ("silu", "swish"):
        wide = result.cast(dtypes.float32)
        result = (wide * wide.sigmoid()).cast(x.dtype)
    return result, padded[:, :, padded.shape[2] - width :]


def _linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence turn by turn. Its rule follows from the inputs."""
    turns = query.shape[1]
    if turns > _MOST_TURNS:
        raise CompileError(
            f"a recurrence of {turns} turns, and at most {_MOST_TURNS} become kernels"
        )
    queries = split_heads(query, q_num_heads).cast(dtypes.float32)
    keys = split_heads(key, kv_num_heads).cast(dtypes.float32)
    values = split_heads(value, kv_num_heads).cast(dtypes.float32)
    decays = None
    if decay is not None:
        decays = split_heads(decay, kv_num_heads).cast(dtypes.float32).exp()
    betas = None
    if beta is not None:
        betas = split_heads(beta, beta.shape[2]).cast(dtypes.float32)
    dtype = query.dtype
    state = Tensor.zeros(query.shape[0], kv_num_heads, keys.shape[3], values.shape[3])
    if past is not None:
        dtype = past.dtype
        state = past.cast(dtypes.float32)
    factor = scale or 1 / sqrt(keys.shape[3])
    group = q_num_heads // kv_num_heads
    results = []
    for turn in range(turns):
        own = keys[:, :, turn].unsqueeze(3)
        new = values[:, :, turn]
        if decays is not None:
            state = state * decays[:, :, turn].unsqueeze(3)
        if betas is not None:
            new = betas[:, :, turn] * (new - (state * own).sum(2))
        state = state + own * new.unsqueeze(2)
        read = state.repeat_interleave(group, 1)
        results.append((queries[:, :, turn].unsqueeze(3) * read).sum(2) * factor)
    result = Tensor.stack(*results, dim=1)
    result = result.reshape(*query.shape[:2], q_num_heads * values.shape[3])
    return result.cast(query.dtype), state.cast(dtype)


def _tf_idf(
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    weights: Sequence[float] = (),
) -> Tensor:
    """Count the n-grams of the pool in each row."""
    rows = x.reshape(-1, x.shape[-1])
    count = rows.shape[1]
    width = max(ngram_indexes) + 1
    result: Any = Tensor.zeros(rows.shape[0], width)
    first = 0
    ends = [*ngram_counts[1:], len(pool_int64s)]
    for size, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        grams = np.reshape(pool_int64s[start:end], (-1, size))
        columns = ngram_indexes[first : first + len(grams)]
        first += len(grams)
        if not min_gram_length <= size <= max_gram_length or not len(grams):
            continue
        matrix = np.zeros((len(grams), width), np.float32)
        matrix[np.arange(len(grams)), columns] = 1
        skips = max_skip_count + 1
        if size == 1:  # it has no gaps
            skips = 1
        for step in range(1, skips + 1):
            windows = count - step * (size - 1)
            if windows < 1:
                continue
            is_equal: Any = True
            for place in range(size):
                own = rows[:, place * step : place * step + windows].unsqueeze(2)
                wanted = _constant(grams[:, place].astype(np.int32)).reshape(1, 1, -1)
                is_equal = (own == wanted) & is_equal
            result = result + is_equal.cast(dtypes.float32).sum(1) @ _constant(matrix)
    if mode == "IDF":
        result = (result > 0).cast(dtypes.float32)
    if weights and mode != "TF":
        result = result * _constant(np.array(weights, np.float32))
    return result.reshape(*x.shape[:-1], width)


OPERATORS: dict[str, Any] = {
    **sampling.OPERATORS,
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "CausalConvWithState": _causal_conv,
    "CumProd": _cum_prod,
    "Det": _determinant,
    "DFT": {OpSetId(Domain.ONNX, 1): _dft_17, OpSetId(Domain.ONNX, 20): _dft_20},
    "LinearAttention": _linear_attention,
    "LpPool": _lp_pool,
    "MelWeightMatrix": _mel_weight_matrix,
    "ReverseSequence": _reverse_sequence,
    "SpaceToDepth": _space_to_depth,
    "STFT": _stft,
    "SwiGLU": _swiglu,
    "TfIdfVectorizer": _tf_idf,
}
#: The inputs that are numbers of Python.
PYTHON_INPUTS = {
    **sampling.PYTHON_INPUTS,
    "CumProd": (1,),
    "DFT": (1, 2),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "STFT": (1, 3),
}
