"""Operators of ONNX that read an image at computed places, by ONNX's specification."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.helpers import polyN
from tinygrad.nn.onnx import onnx_ops

from devmod.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["OPERATORS"]

#: A choice of the neighbours of a coordinate along one axis: their numbers, and their weights.
Neighbours = list[tuple[Tensor, Tensor]]
#: The polynomials of the distances of near neighbours and of the others that give the weights of
#: cubic convolution with alpha = -0.75.
_NEAR = [1.25, -2.25, 0, 1]
_FAR = [-0.75, 3.75, -6, 3]
#: For each mode the offsets of neighbours, and the polynomials of their weights.
_WEIGHTS: dict[str, dict[int, list[float]]] = {
    "nearest": {0: [1]},
    "linear": {0: [-1, 1], 1: [-1, 1]},
    "cubic": {-1: _FAR, 0: _NEAR, 1: _NEAR, 2: _FAR},
}


def _corners(x: Tensor, axes: Iterable[Neighbours]) -> Iterator[Tensor]:
    """Yield the elements of x (N, C, lengths) at each choice of the neighbours along the axes, (N,
    Q) each, with their weights, as (N, C, Q). Those outside are 0.
    """
    batch, channels, *lengths = x.shape
    values = x.reshape(batch, channels, prod(lengths))
    for corner in product(*axes):
        flat: Any = 0
        weight: Any = 1
        is_inside: Any = True
        for length, (place, share) in zip(lengths, corner, strict=True):
            flat = flat * length + place.clamp(0, length - 1).cast(dtypes.int32)
            is_inside = (place >= 0) & (place < length) & is_inside
            weight = weight * share
        index = flat.unsqueeze(1).expand(batch, channels, flat.shape[1])
        found = is_inside.unsqueeze(1).where(values.gather(2, index), 0)
        yield found * weight.unsqueeze(1)


def _neighbours(place: Tensor, mode: str = "linear") -> Neighbours:
    """Return the neighbours of a coordinate that a mode reads. In the mode "nearest", the
    coordinate is a whole number.
    """
    low = place.floor()
    result = []
    for offset, weight in _WEIGHTS[mode.removeprefix("bi")].items():
        distance = (place - low - offset).abs()
        result.append((low + offset, polyN(distance, weight)))
    return result


def _reflect(place: Tensor, low: float, high: float) -> Tensor:
    """Return places between two borders, at which others are reflected."""
    span = high - low
    if not span:
        return place.const_like(low)
    rest = (place - low).abs() % (2 * span)
    return low + rest.minimum(2 * span - rest)


def _grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    lengths = x.shape[2:]
    # The outermost pixels end at the border, or have their middle there.
    margin = (1 - align_corners) / 2

    def move(place: Tensor, axis: int) -> Tensor:
        if padding_mode == "border":
            return place.clamp(0, lengths[axis] - 1)
        if padding_mode == "reflection":
            return _reflect(place, -margin, lengths[axis] - 1 + margin)
        return place

    batch = grid.shape[0]
    axes = []
    for axis, length in enumerate(lengths):
        own = grid[..., -1 - axis].reshape(batch, -1).cast(dtypes.float32)
        place = (own + 1) / 2 * (length - 1 + 2 * margin) - margin
        if mode == "nearest":
            place = place.round()
        # Each neighbour of cubic convolution is moved by itself, and has the weight of the place.
        if "cubic" not in mode:
            place = move(place, axis)
        neighbours = []
        for near, share in _neighbours(place, mode):
            # That of a half pixel beyond the border has the number of that pixel.
            neighbours.append((move(near, axis).round(), share))
        axes.append(neighbours)
    return (
        Tensor.usum(*_corners(x, axes)).cast(x.dtype).reshape(batch, x.shape[1], *grid.shape[1:-1])
    )


def _deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    offset_group: int = 1,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    **_: Any,
) -> Any:
    if x.ndim != 4:
        raise CompileError("a deformed convolution of another number of dimensions than 2")
    batch, channels = x.shape[:2]
    kernel = weight.shape[2:]
    out = offset.shape[2:]
    groups = batch * offset_group
    offset = offset.reshape(groups, -1, 2, *out).cast(dtypes.float32)
    places = np.indices((*kernel, *out), np.float32)
    axes = []
    for axis in range(2):
        own = places[axis] * dilations[axis] - pads[axis] + places[axis + 2] * strides[axis]
        base = Tensor(own).reshape(1, -1, *out)
        axes.append(_neighbours((base + offset[:, :, axis]).reshape(groups, -1)))
    parts = x.reshape(groups, channels // offset_group, *x.shape[2:])
    columns = Tensor.usum(*_corners(parts, axes)).cast(x.dtype)
    if mask is not None:
        columns = columns * mask.reshape(groups, 1, -1)
    # The elements of each place of the kernel stand side by side in an image.
    columns = columns.reshape(batch, channels, *kernel, *out).permute(0, 1, 4, 2, 5, 3)
    image = columns.flatten(4, 5).flatten(2, 3)
    return onnx_ops["Conv"](image, weight, bias, group=group, strides=kernel)


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
    is_half = coordinate_transformation_mode == "half_pixel"
    edges = rois * spatial_scale - is_half / 2
    shape = (count, output_height * sampling_ratio, output_width * sampling_ratio)
    axes = []
    is_near: Any = True
    for axis, length in enumerate(shape[1:]):
        low = edges[:, 1 - axis : 2 - axis]
        size = edges[:, 3 - axis : 4 - axis] - low
        if not is_half:
            size = size.maximum(1.0)
        place = low + size * ((Tensor.arange(length) + 0.5) / length)
        place = place.unsqueeze(2 - axis).expand(shape).reshape(count, -1)
        is_near = (place >= -1) & (place <= x.shape[axis + 2]) & is_near
        axes.append(_neighbours(place.clamp(0, x.shape[axis + 2] - 1)))
    images = x[batch_indices.cast(dtypes.int32)]
    corners = [*_corners(images, axes)]
    sides = (count, -1, output_height, sampling_ratio, output_width, sampling_ratio)
    samples = Tensor.usum(*corners)
    if mode == "max":
        samples = reduce(Tensor.maximum, corners)
    samples = is_near.unsqueeze(1).where(samples, 0).reshape(sides)
    if mode == "max":
        return samples.max((3, 5))
    return samples.mean((3, 5))


def _col2im(
    x: Tensor,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The gradient of the blocks of an image by the image adds what is at the same place."""
    dims = len(image_shape)
    channels = x.shape[1] // prod(block_shape)
    image = Tensor.empty(x.shape[0], channels, *image_shape, dtype=x.dtype)
    padded = onnx_ops["Pad"](image, pads or [0] * (2 * dims), axes=range(2, 2 + dims))
    blocks = padded._pool(tuple(block_shape), strides or 1, dilations or 1)
    columns = blocks.flatten(2, 1 + dims).flatten(3).transpose(2, 3).reshape(x.shape)
    (result,) = columns.gradient(image, gradient=x)
    return result


OPERATORS: dict[str, Any] = {
    "Col2Im": _col2im,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
