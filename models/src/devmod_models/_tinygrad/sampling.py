"""Operators of ONNX that read an image at computed places, by ONNX's specification."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes

from devmod.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATORS", "PYTHON_INPUTS"]

#: A choice of the neighbours of a coordinate along one axis: their numbers, and their weights.
Neighbours = list[tuple[Tensor, Tensor]]


def _pick(x: Tensor, places: Sequence[Tensor], is_inside: Tensor) -> Tensor:
    """Return the elements of x (N, C, lengths) at integer places, one (N, Q) for each length, as
    (N, C, Q). Those outside are 0.
    """
    batch, channels, *lengths = x.shape
    flat: Any = 0
    for place, length in zip(places, lengths, strict=True):
        flat = flat * length + place.clamp(0, length - 1).cast(dtypes.int32)
    index = flat.unsqueeze(1).expand(batch, channels, flat.shape[1])
    values = x.reshape(batch, channels, prod(lengths)).gather(2, index)
    return is_inside.unsqueeze(1).where(values, 0)


def _interpolate(
    x: Tensor,
    coordinates: Sequence[Tensor],
    neighbours: Callable[[Tensor], Neighbours],
    move: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """Return x (N, C, lengths) at coordinates, one (N, Q) for each length, as (N, C, Q).

    Parameters
    ----------
    neighbours
        A function that returns the neighbours of a coordinate and their weights.
    move
        A function that moves neighbours along an axis, of that number, into the image.
    """
    lengths = x.shape[2:]
    axes = [neighbours(each) for each in coordinates]
    result: Any = 0
    for corner in product(*axes):
        weight: Any = 1
        is_inside: Any = True
        places = []
        for axis, (place, share) in enumerate(corner):
            moved = move(place, axis)
            places.append(moved)
            is_inside = (moved >= 0) & (moved < lengths[axis]) & is_inside
            weight = weight * share
        result = result + _pick(x, places, is_inside) * weight.unsqueeze(1)
    return result.cast(x.dtype)


def _nearest(place: Tensor) -> Neighbours:
    return [(place.round(), place.const_like(1))]


def _linear(place: Tensor) -> Neighbours:
    low = place.floor()
    share = place - low
    return [(low, 1 - share), (low + 1, share)]


def _cubic(place: Tensor) -> Neighbours:
    """Return four neighbours with the weights of cubic convolution."""
    alpha = -0.75
    low = place.floor()
    result = []
    for offset in (-1, 0, 1, 2):
        distance = (place - low - offset).abs()
        if offset in (0, 1):
            weight = ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1
        else:
            weight = ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha
        result.append((low + offset, weight))
    return result


def _stay(place: Tensor, _: int) -> Tensor:
    """Move no neighbour."""
    return place


_MODES = {
    "nearest": _nearest,
    "linear": _linear,
    "bilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
}


def _reflect(place: Tensor, low: float, high: float) -> Tensor:
    """Return places between two borders, at which others are reflected."""
    span = high - low
    if not span:
        return place.const_like(low)
    distance = (place - low).abs()
    turns = (distance / span).floor()
    rest = distance - turns * span
    is_even = (turns / 2).floor() * 2 == turns
    return is_even.where(low + rest, high - rest)


def _grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    lengths = x.shape[2:]

    def move(place: Tensor, axis: int) -> Tensor:
        if padding_mode == "border":
            return place.clamp(0, lengths[axis] - 1)
        if padding_mode == "reflection":
            if align_corners:
                return _reflect(place, 0, lengths[axis] - 1)
            return _reflect(place, -0.5, lengths[axis] - 0.5)
        return place

    batch = grid.shape[0]
    coordinates = []
    for axis, length in enumerate(lengths):
        own = grid[..., len(lengths) - 1 - axis].reshape(batch, -1).cast(dtypes.float32)
        if align_corners:
            place = (own + 1) / 2 * (length - 1)
        else:
            place = ((own + 1) * length - 1) / 2
        if mode == "nearest":
            place = place.round()
        coordinates.append(move(place, axis))
    # A neighbour of a half pixel beyond the border has the number of that pixel.
    result = _interpolate(
        x, coordinates, _MODES[mode], lambda place, axis: move(place, axis).round()
    )
    return result.reshape(batch, x.shape[1], *grid.shape[1:-1])


def _deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    offset_group: int = 1,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
) -> Tensor:
    if x.ndim != 4:
        raise CompileError("a deformed convolution of another number of dimensions than 2")
    batch, channels = x.shape[:2]
    kernel = tuple(kernel_shape or weight.shape[2:])
    out = offset.shape[2:]
    size = prod(kernel)
    offset = offset.reshape(batch * offset_group, size, 2, *out).cast(dtypes.float32)
    coordinates = []
    for axis in range(2):
        own = np.arange(kernel[axis])[:, None] * dilations[axis] - pads[axis]
        own = own + np.arange(out[axis]) * strides[axis]
        shape = [1, 1, 1, 1]
        shape[axis] = kernel[axis]
        shape[axis + 2] = out[axis]
        whole = np.broadcast_to(own.reshape(shape), (*kernel, *out)).astype(np.float32)
        base = Tensor(whole.copy()).reshape(1, size, *out)
        coordinates.append((base + offset[:, :, axis]).reshape(batch * offset_group, -1))
    parts = x.reshape(batch * offset_group, channels // offset_group, *x.shape[2:])
    columns = _interpolate(parts, coordinates, _linear, _stay)
    columns = columns.reshape(batch, offset_group, channels // offset_group, size, prod(out))
    if mask is not None:
        columns = columns * mask.reshape(batch, offset_group, 1, size, prod(out))
    columns = columns.reshape(batch, group, channels // group * size, prod(out))
    rows = weight.reshape(1, group, weight.shape[0] // group, -1)
    result = (rows @ columns).reshape(batch, weight.shape[0], *out)
    if bias is not None:
        result = result + bias.reshape(1, -1, 1, 1)
    return result


def _roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    if sampling_ratio <= 0:
        raise CompileError(
            "its number of samples depends on the data of an input. Give it: sampling_ratio"
        )
    count = rois.shape[0]
    shift = 0.0
    if coordinate_transformation_mode == "half_pixel":
        shift = 0.5
    edges = rois * spatial_scale - shift
    outputs = (output_height, output_width)
    axes = []
    for axis, output in enumerate(outputs):
        low = edges[:, 1 - axis : 2 - axis]
        size = edges[:, 3 - axis : 4 - axis] - low
        if not shift:
            size = size.maximum(1.0)
        steps = (np.arange(output * sampling_ratio) + 0.5) / (output * sampling_ratio)
        place = low + size * Tensor(steps.astype(np.float32)).reshape(1, -1)
        axes.append(place)
    shape = (count, axes[0].shape[1], axes[1].shape[1])
    places = [axes[0].unsqueeze(2).expand(shape), axes[1].unsqueeze(1).expand(shape)]
    images = x[batch_indices.cast(dtypes.int32)]
    is_near: Any = True
    corners = []
    for axis, place in enumerate(places):
        length = x.shape[axis + 2]
        flat = place.reshape(count, -1)
        is_near = (flat >= -1) & (flat <= length) & is_near
        moved = flat.clamp(0, length - 1)
        corners.append(_linear(moved))
    values = []
    for corner in product(*corners):
        weight = corner[0][1] * corner[1][1] * is_near
        places_of_corner = [each[0] for each in corner]
        picked = _pick(images, places_of_corner, is_near)
        values.append(picked * weight.unsqueeze(1))
    if mode == "max":
        result = values[0]
        for each in values[1:]:
            result = result.maximum(each)
    else:
        result = values[0] + values[1] + values[2] + values[3]
    ratio = sampling_ratio
    result = result.reshape(count, x.shape[1], output_height, ratio, output_width, ratio)
    if mode == "max":
        return result.max((3, 5))
    return result.mean((3, 5))


def _col2im(
    x: Tensor,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    dims = len(image_shape)
    dilations = dilations or [1] * dims
    pads = pads or [0] * (2 * dims)
    strides = strides or [1] * dims
    block = prod(block_shape)
    places = []
    for axis, length in enumerate(image_shape):
        span = dilations[axis] * (block_shape[axis] - 1) + 1
        steps = (length + pads[axis] + pads[dims + axis] - span) // strides[axis] + 1
        own = np.arange(block_shape[axis])[:, None] * dilations[axis] - pads[axis]
        own = own + np.arange(steps) * strides[axis]
        places.append(own)  # (block, steps)
    sources = _sources(places, image_shape)
    batch = x.shape[0]
    columns = x.reshape(batch, x.shape[1] // block, -1).pad((None, None, (0, 1)))
    result: Any = 0
    for row in sources:
        index = Tensor(row.astype(np.int32)).reshape(1, 1, -1)
        result = result + columns.gather(2, index.expand(*columns.shape[:2], len(row)))
    return result.reshape(batch, x.shape[1] // block, *image_shape)


def _sources(places: Sequence[Any], image_shape: Sequence[int]) -> list[Any]:
    """Return for each element of an image the columns' elements whose sum it is: arrays of their
    numbers, in which the number after the last is none.
    """
    dims = len(places)
    sizes = [each.shape[0] for each in places] + [each.shape[1] for each in places]
    target = np.zeros(sizes, np.int64)
    is_inside = np.ones(sizes, bool)
    for axis, own in enumerate(places):
        shape = [1] * (2 * dims)
        shape[axis] = own.shape[0]
        shape[dims + axis] = own.shape[1]
        own = own.reshape(shape)
        target = target * image_shape[axis] + own
        is_inside &= (own >= 0) & (own < image_shape[axis])
    numbers = np.flatnonzero(is_inside)
    targets = target.ravel()[numbers]
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=prod(image_shape))
    starts = np.cumsum(counts) - counts
    ranks = np.arange(len(numbers)) - starts[targets[order]]
    rows = np.full((int(counts.max(initial=1)), prod(image_shape)), target.size)
    rows[ranks, targets[order]] = numbers[order]
    return [*rows]


OPERATORS: dict[str, Any] = {
    "Col2Im": _col2im,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
#: The inputs that are numbers of Python.
PYTHON_INPUTS = {"Col2Im": (1, 2)}
