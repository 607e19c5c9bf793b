"""Images and samplers in a device's memory, and the formats of images.

A kernel receives the `Image` and the `Sampler` objects themselves: a backend reads their `handle`.
"""

from __future__ import annotations

from math import inf, prod

from devmod.backend import (
    IMAGE_FORMATS,
    ConversionError,
    ProcessLocal,
    bytes_of,
    describe_value,
    escape_line,
)
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_runtime._device.host import host_view
from devmod_runtime._fork import check_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from devmod import Device, Param
    from devmod.backend import ImageFormat
else:
    from devmod.backend import np


#: The format of `Device.image_from_numpy` for an element type, without its channels.
_DEFAULT_TYPES = {
    "uint8": "8unorm",
    "int8": "8snorm",
    "uint16": "16uint",
    "int16": "16sint",
    "float16": "16float",
    "uint32": "32uint",
    "int32": "32sint",
    "float32": "32float",
}


class Image(ProcessLocal):
    """An image in a device's memory. `Device.image` and `Device.image_from_numpy` return one.

    ``image.type`` is its type as in `devmod.Param`: "1d", "2d", "3d", "1d_array" or "2d_array".

    Attributes
    ----------
    device : Device
        The device that has the memory.
    shape : tuple of int
        Its width, height and depth in texels: x first, like a grid.
    format : str
        Its format by WebGPU's name, such as "rgba8unorm".
    layers : int
        The number of its layers; 0 if it is no array of images.
    handle
        The backend's object.
    usage
        What else decides whether a kernel takes the image of another library, such as its flags, as
        a value to compare; None for others.
    """

    _pickle_advice = "pass image.numpy(), and call device.image_from_numpy there"

    __slots__ = ("__weakref__", "device", "format", "handle", "layers", "shape", "usage")

    def __init__(
        self,
        device: Device,
        shape: Sequence[int],
        format: str,  # noqa: A002 - a public name
        layers: int = 0,
        handle: Any = None,
        usage: object = None,
    ) -> None:
        self.device = device
        self.shape = tuple(shape)
        self.format = format
        self.layers = layers
        self.handle = handle
        self.usage = usage

    @property
    def type(self) -> str:
        """Its type as in `devmod.Param`."""
        name = f"{len(self.shape)}d"
        if self.layers:
            name += "_array"
        return name

    @property
    def memory(self) -> Any:
        """The memory of the image, as `Device.place` takes it: equal for the objects of one
        image.
        """
        return self.handle

    @property
    def _span(self) -> tuple[int, float, float]:
        """As `DeviceArray._span`. An image has all of its allocation."""
        return self.device.place(self.memory)[0], 0, inf

    @property
    def texel(self) -> ImageFormat:
        """The format of its texels."""
        return IMAGE_FORMATS[self.format]

    @property
    def extent(self) -> tuple[int, int, int]:
        """Its width, its height and its depth; 1 for a missing dimension."""
        x, y, z = (*self.shape, 1, 1)[:3]
        return x, y, z

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of its NumPy array: layers, depth, height, width, channels. A texel of one
        channel has no dimension for it.
        """
        channels = self.texel.channels
        shape = [*reversed(self.shape)]
        if self.layers:
            shape.insert(0, self.layers)
        if channels > 1:
            shape.append(channels)
        return tuple(shape)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of texels in its NumPy array."""
        return self.shape[0] * self.texel.texel_bytes

    @property
    def nbytes(self) -> int:
        """The bytes of its NumPy array."""
        return prod(self.shape) * max(self.layers, 1) * self.texel.texel_bytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy of the texels, after all work queued on the device. Its shape is
        `array_shape`.
        """
        check_driver(self.device.kind)
        result = np.empty(self.array_shape, self.texel.dtype)
        self.device.synchronize()
        self.device.read_image(self, bytes_of(result), self.device.default_stream)
        return result

    def copy_from(self, source: object) -> None:
        """Copy an array of the host to the image, in the order of the device's current stream, and
        wait for the copy.

        Parameters
        ----------
        source
            A NumPy array, or any object with a buffer or DLPack, of the shape `array_shape` and the
            element type of the format.

        Raises
        ------
        ArgumentError
            `source` is no array of the host, or has another shape or type.
        LaunchError
            The driver refuses the copy.
        """
        check_driver(self.device.kind)
        try:
            view = host_view(source)
        except ConversionError as error:
            raise self._error(f"the source {error}") from None
        if view is None:
            raise self._error(
                f"the source is {describe_value(source)}, expected an array of the host"
            )
        if (view.dtype, view.shape) != (self.texel.dtype, self.array_shape):
            raise self._error(
                f"the source is an array of {view.dtype} with the shape {view.shape}; expected {self.texel.dtype} and {self.array_shape} "
                f"for an image of {self.format}"
            )
        self.device.write_image(self, view.read(), self.device.current_stream)

    def mismatch(self, param: Param, taker: str = "kernel") -> str:
        """Return why a kernel or a program cannot take the image for a parameter, as the end of a
        sentence; "" if it can.
        """
        if param.type and self.type != param.type:
            return f"is an image of type {self.type}, and the {taker} takes {param.type}"
        if param.format and self.format != param.format:
            return (
                f"is an image of {self.format}, and the {taker} takes {escape_line(param.format)}"
            )
        if param.sample and self.texel.sample != param.sample:
            return f"is an image of {self.format}, whose texels are {self.texel.sample}, and the kernel takes {param.sample}"
        problem = self.device.image_problem(self.format, param.access)
        if not problem:
            return ""
        return f"is an image of {self.format}: {problem}"

    def format_error(self, reason: str) -> ArgumentError:
        """Return the error for a new image whose format the device does not support. `reason` is a
        clause.
        """
        return ArgumentError(
            f"image: {self.device} supports no image of {self.format}: {reason}",
            kind=self.device.kind,
            argument="format",
        )

    def filter_mismatch(self, reason: str) -> str:
        """Return that a sampler with a linear filter cannot read the image, and why, as the end of
        a sentence.
        """
        return f"is an image of {self.format}, which a linear sampler cannot read: {reason}; pass a sampler with filter='nearest'"

    def _error(self, text: str) -> ArgumentError:
        return ArgumentError(f"copy_from: {text}", kind=self.device.kind, argument="source")

    def __repr__(self) -> str:
        size = "×".join(map(str, self.shape))
        if self.layers:
            size += f"[{self.layers!r}]"
        return escape_line(f"<Image {self.format!r} {size} on {self.device}>")


class Sampler(ProcessLocal):
    """The rules by which a kernel reads between and beyond the texels of an image. `Device.sampler`
    returns one.

    Attributes
    ----------
    device : Device
        The device.
    filter : str
        "nearest" or "linear".
    address : str
        "clamp", "repeat", "mirror" or "border".
    normalized : bool
        Whether coordinates are from 0 to 1; otherwise they are in texels.
    handle
        The backend's object.
    """

    _pickle_advice = "call device.sampler there"

    __slots__ = ("__weakref__", "address", "device", "filter", "handle", "normalized")

    def __init__(
        self,
        device: Device,
        filter: str,  # noqa: A002 - a public name
        address: str,
        normalized: bool,
        handle: Any = None,
    ) -> None:
        self.device = device
        self.filter = filter
        self.address = address
        self.normalized = normalized
        self.handle = handle

    def __repr__(self) -> str:
        return escape_line(
            f"<Sampler filter={self.filter!r}, address={self.address!r}, normalized={self.normalized!r} on {self.device}>"
        )


def new_image(device: Device, shape: tuple[int, ...], format: object, layers: object) -> Image:  # noqa: A002
    """Return an image without memory, for `Device.image`. Raise ArgumentError for an invalid shape,
    format or number of layers.
    """
    if not isinstance(format, str) or format not in IMAGE_FORMATS:
        hint = ""
        if isinstance(format, str):
            hint = did_you_mean(format, IMAGE_FORMATS)
        problem = f"{describe_value(format)} is not a format of images; expected one of {', '.join(IMAGE_FORMATS)}{hint}"
        argument = "format"
    elif not 1 <= len(shape) <= 3 or 0 in shape:
        problem = f"expected a shape of 1 to 3 lengths of 1 or more, x first, got {shape}"
        argument = "shape"
    elif type(layers) is not int or not 0 <= layers < 2**63 or (layers and len(shape) == 3):
        got = f"layers={describe_value(layers)} for the shape {shape}"
        problem = f"expected a number of layers, which a 3-D image does not have, got {got}"
        argument = "layers"
    else:
        return Image(device, shape, format, layers)
    raise ArgumentError(f"image: {problem}", kind=device.kind, argument=argument)


def format_of(device: Device, dtype: str, shape: tuple[int, ...]) -> str:
    """Return the format of a 2-D image for a NumPy array of height × width or height × width ×
    channels.

    Raises
    ------
    ArgumentError
        The array has no format of its own.
    """
    count = 0
    if len(shape) == 2:
        count = 1
    elif len(shape) == 3:
        count = shape[-1]
    prefix = next((each.order for each in IMAGE_FORMATS.values() if each.channels == count), "")
    if not prefix or dtype not in _DEFAULT_TYPES:
        expected = f"elements of {list_names(_DEFAULT_TYPES)}"
        advice = "array.astype('float32')"
        if not prefix:
            expected = (
                "an array of height × width, or height × width × channels with 1, 2 or 4 channels"
            )
            advice = "device.image(shape, format) and image.copy_from(array) for other images"
        raise ArgumentError(
            f"image_from_numpy: expected {expected}, got {dtype} of the shape {shape}; use {advice}",
            kind=device.kind,
            argument="array",
        )
    return prefix + _DEFAULT_TYPES[dtype]


def check_extent(image: Image, limits: Sequence[tuple[str, int]]) -> None:
    """Raise ArgumentError if a dimension of an image, or the number of its layers, exceeds a
    device's limit.

    `limits` has the driver's name and the value of the limit for each dimension, and at its end the
    limit of the layers.
    """
    extents = list(zip(image.shape, limits, strict=False))
    layers = ""
    if image.layers:
        extents.append((image.layers, limits[-1]))
        layers = f" with {image.layers} layers"
    for extent, (name, limit) in extents:
        if extent > limit:
            raise ArgumentError(
                f"image: {image.device} supports no image of the shape {image.shape}{layers}: its {name} is {limit}",
                kind=image.device.kind,
                argument="shape",
            )
