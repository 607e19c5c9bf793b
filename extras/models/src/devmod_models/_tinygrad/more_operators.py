"""Operators of ONNX that tinygrad does not have, by ONNX's specification.

Inputs are positional, and attributes have their names.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OnnxDataType, OpSetId, onnx_ops
from tinygrad.uop.ops import UOp

from devmod_models._tinygrad import sampling
from devmod_models._tinygrad.record import are_fixed
from devmod_models._tinygrad.resizing import of_length, transform

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPERATORS", "PYTHON_INPUTS"]


def _constant(array: Any) -> Tensor:
    """Return a tensor of an array of NumPy, which may be a view."""
    return Tensor(np.ascontiguousarray(array))


def _number(value: Any) -> Any:
    """Return a number of a list of one, or None. A length of a call stays."""
    if value is None:
        return None
    number = np.ravel(value)[0]
    if isinstance(number, UOp):
        return number
    return int(number)


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
        own = own.pad((1, -1), value=1)
    result = own.cumprod(-1)
    if reverse:
        result = result.flip(-1)
    return result.transpose(at, -1)


def _reverse_sequence(x: Tensor, lengths: Tensor, *, time_axis: int = 0, **_: int) -> Tensor:
    """Time and batch are the first two axes, in one order or the other."""
    rows = x.transpose(time_axis, 1)
    time = Tensor.arange(rows.shape[1])
    own = lengths.cast(dtypes.int32).reshape(-1, 1)
    index = (time < own).where(own - 1 - time, time)
    index = index.reshape(*index.shape, *[1] * (x.ndim - 2)).expand(rows.shape)
    return rows.gather(1, index).transpose(time_axis, 1)


def _determinant(x: Tensor) -> Tensor:
    """Multiply the diagonal that one reflection for each column gives. Each changes the sign."""
    _, triangle = x.qr()
    size = x.shape[-1]
    diagonal = (triangle * Tensor.eye(size, dtype=x.dtype)).sum(-1)
    return diagonal.prod(-1) * (-1) ** size


# -- Frequencies.


def _transform(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Tensor:
    """Return the Fourier transform of x, whose last axis has the real and the imaginary part, or
    the real one alone: a product with the matrix that onnx.reference's transforms of unit vectors
    give.
    """
    from onnx.reference.ops.op_dft import DFT_20

    axis %= x.ndim
    if not are_fixed([x.shape[axis]]):
        if length is None or not are_fixed([length]):
            return transform(x, length, axis, inverse, onesided)
        x = of_length(x, length, axis)
    count = x.shape[axis]
    parts = x.shape[-1]
    units = np.eye(count * parts).reshape(-1, count, parts)
    (results,) = DFT_20._run(None, units, length, 1, bool(inverse), bool(onesided))
    # The numbers of the matrix are in double precision at the export alone.
    matrix = _constant(results.reshape(count * parts, -1)).cast(x.dtype).contiguous()
    last = x.ndim - 2
    rows = x.transpose(axis, last).flatten(last)
    return (rows @ matrix).unflatten(last, results.shape[1:]).transpose(axis, last)


def _dft(
    x: Tensor,
    length: Any = None,
    own_axis: Any = None,
    *,
    axis: int = -2,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """The axis is an attribute or, in later versions, an input."""
    if own_axis is not None:
        axis = _number(own_axis)
    return _transform(x, _number(length), axis, inverse, onesided)


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
    counts = []
    pool = np.array(pool_int64s, np.int32)
    for size, part in enumerate(np.split(pool, ngram_counts[1:]), 1):
        grams = part.reshape(-1, size)
        if not len(grams):
            continue
        wanted = _constant(grams)
        count: Any = Tensor.zeros(rows.shape[0], len(grams))
        for step in range(1, max_skip_count + 2):
            span = step * (size - 1) + 1
            # A gram of one element has no gaps.
            if (
                span > rows.shape[1]
                or step > span
                or not min_gram_length <= size <= max_gram_length
            ):
                break
            windows = rows.unfold(1, span, 1)[:, :, ::step].unsqueeze(2)
            count = count + (windows == wanted).all(3).cast(dtypes.float32).sum(1)
        counts.append(count)
    width = max(ngram_indexes) + 1
    columns = _constant(np.array(ngram_indexes)).one_hot(width).cast(dtypes.float32)
    result = Tensor.cat(*counts, dim=1) @ columns
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
    "DFT": {OpSetId(Domain.ONNX, 1): partial(_dft, axis=1), OpSetId(Domain.ONNX, 20): _dft},
    "LpPool": _lp_pool,
    "MelWeightMatrix": _mel_weight_matrix,
    "ReverseSequence": _reverse_sequence,
    "STFT": _stft,
    "TfIdfVectorizer": _tf_idf,
}
#: The inputs that are numbers of Python.
PYTHON_INPUTS = {
    "Col2Im": (1, 2),
    "CumProd": (1,),
    "DFT": (1, 2),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "STFT": (1, 3),
}
