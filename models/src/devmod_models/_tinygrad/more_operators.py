"""Operators of ONNX that tinygrad does not have, by ONNX's specification.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OnnxDataType, OpSetId, onnx_ops

from devmod_models._tinygrad import sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPERATORS", "PYTHON_INPUTS"]


def _constant(array: Any) -> Tensor:
    """Return a tensor of an array of NumPy, which may be a view."""
    return Tensor(np.ascontiguousarray(array))


def _number(value: Any) -> Any:
    """Return a number of a list of one, or None."""
    if value is None:
        return None
    return int(np.ravel(value)[0])


# -- Bits.


def _bit_cast(x: Tensor, *, to: int) -> Tensor:
    dtype = OnnxDataType(to).to_dtype()
    if dtypes.bool in (x.dtype, dtype):
        return x.cast(dtype)
    return x.bitcast(dtype)


def _bit_shift(x: Tensor, amount: Tensor, *, direction: str) -> Tensor:
    """A shift by the width or more, or by less than 0, leaves no bit but the sign."""
    width = x.dtype.itemsize * 8
    unsigned = getattr(dtypes, f"uint{width}")
    is_valid = (amount >= 0) & (amount < width)
    places = is_valid.where(amount, width - 1)
    if direction == "LEFT":
        # C shifts small numbers as int, so a kernel that uses the result at once has its high bits.
        wide = unsigned
        if width < 32:
            wide = dtypes.uint32
        shifted = x.bitcast(unsigned).cast(wide) << places.cast(wide)
        return is_valid.where(shifted.cast(unsigned), 0).bitcast(x.dtype)
    if dtypes.is_unsigned(x.dtype):
        return is_valid.where(x >> places, 0)
    return x >> places


# -- Along an axis.


def _cum_prod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    at = _number(axis)
    own = x.transpose(at, -1)
    if reverse:
        own = own.flip(-1)
    if exclusive:
        own = own[..., :1].ones_like().cat(own[..., :-1], dim=-1)
    result = own.cumprod(-1)
    if reverse:
        result = result.flip(-1)
    return result.transpose(at, -1)


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


def _transform(x: Tensor, length: int | None, axis: int, inverse: int, onesided: int) -> Tensor:
    """Return the Fourier transform of x, whose last axis has the real and the imaginary part, or
    the real one alone: a product with the matrix that NumPy's transforms of unit vectors give.
    """
    axis %= x.ndim
    count = x.shape[axis]
    parts = x.shape[-1]
    is_real_result = bool(inverse and onesided)
    if length is None:
        length = count
        if is_real_result:
            length = 2 * (count - 1)
    units = np.eye(count * parts).reshape(-1, count, parts)
    signals = units[..., 0] + 1j * (parts - 1) * units[..., -1]
    if is_real_result:
        results = np.fft.irfft(signals, length)[..., None]
    else:
        transform = np.fft.fft
        if inverse:
            transform = np.fft.ifft
        result = transform(signals, length)
        if onesided:
            result = result[:, : length // 2 + 1]
        results = np.stack([result.real, result.imag], -1)
    numbers = "float32"
    if x.dtype == dtypes.float64:
        numbers = "float64"
    matrix = _constant(results.reshape(count * parts, -1).astype(numbers)).cast(x.dtype)
    last = x.ndim - 2
    rows = x.transpose(axis, last).flatten(last)
    return (rows @ matrix).unflatten(last, results.shape[1:]).transpose(axis, last)


def _dft(default: int) -> Any:
    """Return the operator of a version. Its axis is an attribute or an input."""

    def operator(
        x: Tensor,
        length: Any = None,
        own_axis: Any = None,
        *,
        axis: int = default,
        inverse: int = 0,
        onesided: int = 0,
    ) -> Tensor:
        if own_axis is not None:
            axis = _number(own_axis)
        return _transform(x, _number(length), axis, inverse, onesided)

    return operator


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
    if signal.ndim == 2:
        signal = signal.unsqueeze(2)
    stacked = signal.unfold(1, size, _number(step)).transpose(2, 3)
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
        wanted = _constant(grams.astype(np.int32))
        for step in range(1, max_skip_count + 2):
            span = step * (size - 1) + 1
            # A gram of one element has no gaps.
            if span > rows.shape[1] or step > span:
                break
            windows = rows.unfold(1, span, 1)[:, :, ::step].unsqueeze(2)
            found = (windows == wanted).all(3).cast(dtypes.float32).sum(1)
            result = result + found @ _constant(matrix)
    if mode == "IDF":
        result = (result > 0).cast(dtypes.float32)
    if weights and mode != "TF":
        result = result * _constant(np.array(weights, np.float32))
    return result.reshape(*x.shape[:-1], width)


OPERATORS: dict[str, Any] = {
    **sampling.OPERATORS,
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "CumProd": _cum_prod,
    "Det": _determinant,
    "DFT": {OpSetId(Domain.ONNX, 1): _dft(1), OpSetId(Domain.ONNX, 20): _dft(-2)},
    "LpPool": _lp_pool,
    "MelWeightMatrix": _mel_weight_matrix,
    "ReverseSequence": _reverse_sequence,
    "STFT": _stft,
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
