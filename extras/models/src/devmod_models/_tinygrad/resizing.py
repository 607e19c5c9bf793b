"""Operators of ONNX that change a length which each call chooses, by ONNX's specification: Resize,
ConvTranspose and DFT. tinygrad's take fixed lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import pi
from operator import and_
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.helpers import make_tuple, polyN
from tinygrad.nn.onnx import onnx_ops
from tinygrad.uop.ops import ssimplify

from devmod.errors import CompileError
from devmod_models._tinygrad.lengths import slice_of, taken
from devmod_models._tinygrad.record import are_fixed, largest
from devmod_models.onnx import FIXED_LENGTH

__all__ = ["conv_transpose", "of_length", "resize", "transform"]

#: The largest divisor of a scale that is a fraction.
_MOST_PARTS = 1024
#: The places of the elements of a mode beside that of a coordinate.
_NEIGHBOURS = {"linear": (0, 1), "cubic": (-1, 0, 1, 2)}


def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    """tinygrad's computes padding from lengths, also where there is none, and takes VALID for
    SAME_LOWER. Where a filter is smaller than its step, it adds zeros; onnxruntime and ONNX's
    inference of shapes have no padding there.
    """
    own = {**options}
    sides = x.shape[2:]
    count = len(sides)
    mode = own.pop("auto_pad", "NOTSET")
    wanted = own.get("output_shape")
    if wanted is None and mode != "NOTSET":
        excess = [0] * count
        if mode.startswith("SAME"):
            excess = [max(each, 0) for each in _excess(weight.shape[2:], own, count)]
        halves = [each // 2 for each in excess]
        others = [each - half for each, half in zip(excess, halves, strict=True)]
        own["pads"] = halves + others
        if mode == "SAME_LOWER":
            own["pads"] = others + halves
    elif are_fixed(sides):
        own["auto_pad"] = mode
    elif own.get("pads") is not None:
        return _with_pads(x, weight, bias, own)
    else:
        own["pads"] = [0] * count * 2
        if wanted is not None:
            del own["output_shape"]
            whole = onnx_ops["ConvTranspose"](x, weight, bias, **own)
            return _cropped(whole, wanted[-count:], is_upper=mode == "SAME_UPPER")
    return onnx_ops["ConvTranspose"](x, weight, bias, **own)


def _with_pads(x: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """Return a transposed convolution without what its pads take. Those that are wider than a
    filter would be negative padding of a length that a call chooses: they crop the result.
    """
    count = x.ndim - 2
    gaps = options.get("dilations") or [1] * count
    spans = [(size - 1) * gap for size, gap in zip(weight.shape[2:], gaps, strict=True)]
    kept = [min(pad, span) for pad, span in zip(options["pads"], spans * 2, strict=True)]
    more = [pad - each for pad, each in zip(options["pads"], kept, strict=True)]
    whole = onnx_ops["ConvTranspose"](x, weight, bias, **{**options, "pads": kept})
    if not any(more):
        return whole
    bounds: list[Any] = [None, None]
    for side, before, after in zip(whole.shape[2:], more[:count], more[count:], strict=True):
        if getattr(side, "vmin", side) <= before + after:
            raise CompileError("its pads leave no element of the least length that a call chooses")
        bounds.append((before, ssimplify(side - after)))
    return whole.shrink(tuple(bounds))


def _cropped(x: Tensor, lengths: Any, *, is_upper: bool) -> Tensor:
    """Return the middle of the last axes, with `is_upper` the lower one of two middles."""
    first = x.ndim - len(lengths)
    bounds: list[Any] = [None] * first
    for side, length in zip(x.shape[first:], lengths, strict=True):
        excess = ssimplify(side - length)
        if getattr(excess, "vmin", excess) < 0:
            raise _refuse(
                f"its output_shape has {length}, and the least length that a call chooses gives {getattr(side, 'vmin', side)}"
            )
        begin = excess // 2
        if not is_upper:
            begin = ssimplify(excess - begin)
        bounds.append((begin, ssimplify(begin + length)))
    return x.shrink(tuple(bounds)).reshape([*x.shape[:first], *lengths])


def _excess(kernel: Any, options: Any, count: int) -> list[int]:
    """Return how many more elements than strides times the input's a convolution gives by axis."""
    names = (("strides", 1), ("dilations", 1), ("output_padding", 0))
    values = [make_tuple(options.get(name) or default, count) for name, default in names]
    result = []
    for size, step, gap, more in zip(kernel, *values, strict=True):
        result.append((size - 1) * gap + 1 + more - step)
    return result


def _refuse(text: str) -> CompileError:
    return CompileError(f"{text}; a fixed length may do", argument=FIXED_LENGTH)


# -- Resize.


def resize(
    x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, **options: Any
) -> Tensor:
    """Each axis is resized by itself."""
    if are_fixed((*x.shape, *(sizes or ()))):
        return onnx_ops["Resize"](x, roi, scales, sizes, **options)
    axes = options.get("axes") or range(x.ndim)
    if sizes and options.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise _refuse("it keeps the aspect ratio of lengths that a call chooses")
    if options.get("antialias"):
        raise CompileError("resizing with antialias is not supported")
    rows: list[tuple[int, Any, Any]] = []
    for number, axis in enumerate(axes):
        at = axis % x.ndim
        length = x.shape[at]
        if sizes:
            size = sizes[number]
            scale = _ratio(size, length)
        else:
            scale = Fraction(float(np.float32(scales[number])))
            near = scale.limit_denominator(_MOST_PARTS)
            if np.float32(float(near)) == np.float32(scales[number]):
                scale = near
            size = _size(length, scale)
        if isinstance(scale, Tensor) or scale != 1:
            rows.append((at, size, scale))
    keeps = None
    if not sizes:
        keeps = _keeps([(x.shape[at], size, scale) for at, size, scale in rows])
    for at, size, scale in rows:
        x = _resized(x, at, size, scale, keeps, options)
    return x


def _keeps(rows: Sequence[tuple[Any, Any, Fraction]]) -> Tensor | None:
    """Return whether all axes keep their lengths in a call; None if they never do.

    Then onnxruntime returns the input, whatever the scales are, as tinygrad does for fixed lengths.
    """
    same = []
    for length, size, scale in rows:
        least = getattr(length, "vmin", length)
        if not 1 < scale < 1 + Fraction(1, max(least, 1)):
            return None
        same.append(_number(size) == _number(length))
    return reduce(and_, same) if same else None


def _size(length: Any, scale: Fraction) -> Any:
    """Return how long an axis becomes: for each length that a call chooses what the product of
    float32 is without its fraction.
    """
    longest = largest(length)
    parts = _MOST_PARTS
    # Products of lengths are integers of 32 bits.
    while parts * longest * max(scale, Fraction(1)) < 1 << 31:
        near = scale.limit_denominator(parts)
        lengths = np.arange(getattr(length, "vmin", length), longest + 1)
        wanted = np.floor(lengths.astype(np.float32) * np.float32(float(scale)))
        if lengths[0] and not wanted[0]:
            raise CompileError(
                f"its scale {float(scale)} gives no element for {lengths[0]}, the least length that a call chooses"
            )
        if np.array_equal(lengths * near.numerator // near.denominator, wanted):
            return ssimplify(length * near.numerator // near.denominator)
        parts *= 2
    raise _refuse(
        f"its scale {float(scale)} gives lengths up to {int(longest * scale)} that no fraction of small numbers gives"
    )


def _ratio(size: Any, length: Any) -> Any:
    """Return how many times as large a length becomes: a fraction, or a Tensor if each call has its
    own.
    """
    ratio = Fraction(largest(size), largest(length))
    difference = ssimplify(size * ratio.denominator - length * ratio.numerator)
    if are_fixed([difference]) and int(difference) == 0:
        return ratio
    return _number(size) / _number(length)


def _number(length: Any) -> Tensor:
    """Return a length as a number of a kernel."""
    return (Tensor.zeros(1, dtype=dtypes.int32) + length).cast(dtypes.float32)


def _resized(
    x: Tensor, axis: int, size: Any, scale: Any, keeps: Tensor | None, options: Any
) -> Tensor:
    """Return a tensor of which an axis has another size. If `keeps` is true, its elements stay."""
    mode = options.get("mode", "nearest")
    coordinates = options.get("coordinate_transformation_mode", "half_pixel")
    nearest = options.get("nearest_mode", "round_prefer_floor")
    if mode == "nearest" and _repeats(scale, coordinates, nearest):
        return _repeated(x, axis, int(scale))
    length = x.shape[axis]
    place = _coordinates(length, size, scale, coordinates)
    if keeps is not None:
        place = keeps.where(Tensor.arange(size).cast(dtypes.float32), place)
    if mode == "nearest":
        inner = _within(place, length)
        rounded = {
            "round_prefer_floor": (inner - 0.5).ceil(),
            "round_prefer_ceil": (inner + 0.5).floor(),
            "floor": inner.floor(),
            "ceil": inner.ceil(),
        }
        return taken(x, rounded[nearest].cast(dtypes.int32), axis)
    if mode == "linear":
        place = _within(place, length)
    low = place.floor()
    shape = [1] * x.ndim
    shape[axis] = size
    weights = []
    for offset in _NEIGHBOURS[mode]:
        weight = _weight((place - low - offset).abs(), mode, options)
        if options.get("exclude_outside") and mode == "cubic":
            own = low + offset
            weight = ((own >= 0) & (own < length)).where(weight, 0)
        weights.append(weight)
    if options.get("exclude_outside"):
        total = Tensor.usum(*weights)
        weights = [each / total for each in weights]
    parts = []
    for offset, weight in zip(_NEIGHBOURS[mode], weights, strict=True):
        near = _within(low + offset, length).cast(dtypes.int32)
        parts.append(taken(x, near, axis) * weight.reshape(shape))
    return Tensor.usum(*parts).cast(x.dtype)


def _weight(distance: Tensor, mode: str, options: Any) -> Tensor:
    """Return the weights of elements by their distance."""
    if mode == "linear":
        return 1 - distance
    a = options.get("cubic_coeff_a", -0.75)
    near = polyN(distance, [a + 2, -(a + 3), 0, 1])
    return (distance <= 1).where(near, polyN(distance, [a, -5 * a, 8 * a, -4 * a]))


def _within(place: Tensor, length: Any) -> Tensor:
    """Return places of which those outside are the first or the last one."""
    return place.maximum(0).minimum(_number(length) - 1)


def _repeats(scale: Any, coordinates: str, nearest: str) -> bool:
    """Return whether each element is repeated, without a computation of places."""
    if not isinstance(scale, Fraction) or scale.denominator != 1:
        return False
    if coordinates == "asymmetric":
        return nearest == "floor"
    return coordinates == "half_pixel" and nearest.startswith("round")


def _repeated(x: Tensor, axis: int, count: int) -> Tensor:
    sides = [*x.shape]
    x = x.unsqueeze(axis + 1).expand(*sides[: axis + 1], count, *sides[axis + 1 :])
    sides[axis] = sides[axis] * count
    return x.reshape(sides)


def _coordinates(length: Any, size: Any, scale: Any, mode: str) -> Tensor:
    """Return the places of a result's elements among those of the input."""
    index = Tensor.arange(size).cast(dtypes.float32)
    if isinstance(scale, Fraction):
        scale = float(scale)
    if mode == "asymmetric":
        return index / scale
    if mode == "align_corners":
        last = _number(size) - 1
        return index * (_number(length) - 1) / (last == 0).where(1, last)
    middle = (index + 0.5) / scale - 0.5
    if mode == "half_pixel":
        return middle
    if mode == "pytorch_half_pixel":
        return (_number(size) == 1).where(0, middle)
    if mode == "half_pixel_symmetric":
        return _number(length) / 2 * (1 - _number(size) / (_number(length) * scale)) + middle
    raise _refuse(f"its coordinates are {mode!r} along a length that each call chooses")


# -- DFT.


def of_length(x: Tensor, length: int, axis: int) -> Tensor:
    """Return a tensor with a fixed length of an axis of which each call chooses the length: the
    first elements, and zeros.
    """
    x = slice_of(x, [0], [length], [axis])
    more: list[Any] = [None] * x.ndim
    more[axis] = (0, length - x.shape[axis])
    sides = [*x.shape]
    sides[axis] = length
    return x.pad(tuple(more)).reshape(sides)


def transform(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Tensor:
    """Return the Fourier transform along an axis of which each call chooses the length. The last
    axis has the real and the imaginary part, or the real one alone.
    """
    count = x.shape[axis]
    if length is not None and ssimplify(length - count) != 0:
        raise _refuse(
            "its dft_length is another one than that of its axis, which each call chooses"
        )
    if inverse and onesided:
        raise _refuse("it is inverse and one-sided along a length that each call chooses")
    if largest(count) ** 2 >= 1 << 31:
        raise _refuse(f"the length of its axis is up to {largest(count)}")
    own = x.transpose(axis, x.ndim - 2)
    results = count
    if onesided:
        results = count // 2 + 1
    steps = Tensor.arange(results).unsqueeze(1) * Tensor.arange(count)
    # An angle between -pi and pi has all digits in float32.
    steps = steps % count
    steps = (steps * 2 > count).where(steps - count, steps)
    angles = steps.cast(dtypes.float32) * (2 * pi) / _number(count)
    sign = 1 if inverse else -1
    result = Tensor.stack(*_rotated(own, angles.cos(), angles.sin() * sign), dim=-1)
    if inverse:
        result = result / _number(count)
    return result.cast(x.dtype).transpose(axis, x.ndim - 2)


def _rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of complex numbers times those of a matrix."""
    real = x[..., 0].unsqueeze(-2)
    one = (real * cosines).sum(-1)
    two = (real * sines).sum(-1)
    if x.shape[-1] == 1:
        return one, two
    imaginary = x[..., 1].unsqueeze(-2)
    return one - (imaginary * sines).sum(-1), two + (imaginary * cosines).sum(-1)
