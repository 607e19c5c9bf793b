"""What a sampler reads, in NumPy."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: The largest value of the integers of a format whose texels are numbers up to 1.
_UNITS = {"8unorm": 255, "8snorm": 127, "16unorm": 65535, "16snorm": 32767}


def texel_values(array: Array, format: str, layers_and_dimensions: int) -> Array:  # noqa: A002 - a public name of images
    """Return what a kernel reads of an image's NumPy array: floats or integers, with the channels
    in the last dimension.

    Parameters
    ----------
    array
        The array of `devmod.Image.numpy`.
    format
        The format of the image.
    layers_and_dimensions
        The number of the array's dimensions without that of the channels.
    """
    import numpy as np

    values = array.reshape((*array.shape, 1)) if array.ndim == layers_and_dimensions else array
    if format == "bgra8unorm":
        values = values[..., [2, 1, 0, 3]]
    unit = _UNITS.get(format.lstrip("rgba"))
    return np.maximum(values / np.float32(unit), -1) if unit else values


def sample_image(
    values: Array,
    places: Array,
    *,
    filter: str,  # noqa: A002 - a public name
    address: str,
    normalized: bool = True,
    layered: bool = False,
) -> Array:
    """Return what a sampler reads at places: an array of places × channels.

    Parameters
    ----------
    values
        The texels: layers if `layered`, depth, height, width, channels, as `texel_values` returns
        them.
    places
        An array of places × coordinates: x, y, z, as many as the image has dimensions, then the
        layer if `layered`.
    filter, address, normalized
        As for `devmod.Device.sampler`.
    """
    import numpy as np

    layer = [places[:, -1].astype(int)] if layered else []
    sizes = values.shape[-2 : 0 if layered else None : -1]
    at = places[:, : len(sizes)].astype("float64") * (sizes if normalized else 1) - (
        0.5 if filter == "linear" else 0
    )
    first = np.floor(at).astype(int)
    result = np.zeros((len(places), values.shape[-1]))
    for corner in product((0, 1), repeat=len(sizes)) if filter == "linear" else [(0,) * len(sizes)]:
        weight = np.ones(len(places))
        if filter == "linear":
            weight = np.prod(np.where(corner, at - first, 1 - (at - first)), axis=1)
        texels, inside = zip(
            *(
                _texels(first[:, axis] + far, size, address)
                for axis, (far, size) in enumerate(zip(corner, sizes, strict=True))
            ),
            strict=True,
        )
        result += values[(*layer, *reversed(texels))] * (weight * np.all(inside, axis=0))[:, None]
    return result


def _texels(index: Array, size: int, address: str) -> tuple[Array, Array]:
    """Return the indices of texels in one dimension, and whether the sampler reads them: outside of
    a border it reads zeros.
    """
    import numpy as np

    inside = (index >= 0) & (index < size) if address == "border" else np.ones(len(index), bool)
    if address == "repeat":
        return index % size, inside
    if address == "mirror":
        turned = index % (2 * size)
        return np.where(turned < size, turned, 2 * size - 1 - turned), inside
    return np.clip(index, 0, size - 1), inside
