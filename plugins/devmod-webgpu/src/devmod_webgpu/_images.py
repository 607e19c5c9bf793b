"""Images: their textures, their copies from and to the host, and wgpu's own textures and samplers
as arguments.

The handle of an `Image` is its GPUTextureView, which has the GPUTexture, and that of a `Sampler` is
its GPUSampler.
"""

from __future__ import annotations

from devmod.backend import IMAGE_FORMATS, ConversionError
from devmod.errors import ArgumentError
from devmod_runtime import Image, Sampler, call_uninterrupted, check_extent
from devmod_webgpu import _driver
from devmod_webgpu._copy import Staging, map_copied
from devmod_webgpu._driver import launch_error, wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from devmod import Device, Param

_USAGE = wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_SRC | wgpu.TextureUsage.COPY_DST
#: The rows of a copy between a texture and a buffer begin at a multiple of this number of bytes.
_PITCH = 256
_ADDRESSES = {"clamp": "clamp-to-edge", "repeat": "repeat", "mirror": "mirror-repeat"}


def create(gpu: Any, image: Image, *, is_storage: bool) -> Any:
    """Return the view of a new texture. Raise ArgumentError or DeviceMemoryError if the device
    cannot make it.
    """
    device = image.device
    dimensions = len(image.shape)
    if image.layers and dimensions == 1:
        raise ArgumentError(
            "image: WebGPU has no arrays of 1-D images; use a 2-D image with a row for each layer",
            kind="webgpu",
            argument="layers",
        )
    names = [f"maxTextureDimension{dimensions}D"] * dimensions
    check_extent(image, [(name, device.limits[name]) for name in (*names, "maxTextureArrayLayers")])
    width, height, depth = image.extent
    usage = _USAGE
    if is_storage:
        usage |= wgpu.TextureUsage.STORAGE_BINDING
    try:
        texture = gpu.create_texture(
            size=(width, height, image.layers or depth),
            dimension=f"{dimensions}d",
            format=image.format,
            usage=usage,
        )
        return texture.create_view(dimension=image.type.replace("_", "-"))
    except KeyError as error:  # wgpu-py before 0.30, whose library lacks some formats
        raise image.format_error(f"this version of wgpu has no {error.args[0]}") from None
    except _driver.Error as error:
        reason = _driver.describe_error(error)
        if _driver.is_lost(error):
            raise launch_error(f"{device} cannot make an image", device, error) from error
        if isinstance(error, wgpu.GPUOutOfMemoryError) or "memory" in reason:
            raise device.memory_error(image.nbytes, reason) from error
        raise image.format_error(reason) from error


def create_sampler(gpu: Any, sampler: Sampler) -> Any:
    """Return a GPUSampler. Raise ArgumentError for what WebGPU does not have."""
    if not sampler.normalized:
        raise ArgumentError(
            "sampler: WebGPU has normalized coordinates only: divide by textureDimensions in the kernel, or use textureLoad",
            kind="webgpu",
            argument="normalized",
        )
    address = _ADDRESSES.get(sampler.address)
    if address is None:
        raise ArgumentError(
            f"sampler: WebGPU has no address mode for {sampler.address!r}, only {', '.join(_ADDRESSES.values())}; test the coordinates "
            "in the kernel",
            kind="webgpu",
            argument="address",
        )
    modes = {f"address_mode_{axis}": address for axis in "uvw"}
    try:
        return gpu.create_sampler(**modes, mag_filter=sampler.filter, min_filter=sampler.filter)
    except _driver.Error as error:
        raise launch_error(
            f"{sampler.device} cannot make a sampler", sampler.device, error
        ) from error


# -- copies


def _texture(image: Image) -> Any:
    view: Any = image.handle
    return view.texture


def _boxes(image: Image, row: int, most: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of an image with at most `most` bytes, whose rows have `row` bytes: y, z, and
    the numbers of rows and of layers.
    """
    _, height, depth = image.extent
    depth = image.layers or depth
    if row * height * depth <= most:
        yield 0, 0, height, depth
        return
    rows = max(most // row, 1)
    for z in range(depth):
        for y in range(0, height, rows):
            yield y, z, min(rows, height - y), 1


def write(gpu: Any, image: Image, data: memoryview, most: int) -> None:
    """Copy bytes to an image. The caller may change `data` when this returns."""
    _driver.end_submissions()
    row = image.row_bytes
    start = 0
    for y, z, height, depth in _boxes(image, row, most):
        end = start + row * height * depth
        gpu.queue.write_texture(
            {"texture": _texture(image), "origin": (0, y, z)},
            data[start:end],
            {"bytes_per_row": row, "rows_per_image": height},
            (image.shape[0], height, depth),
        )
        start = end


def read(gpu: Any, staging: Staging, image: Image, out: memoryview, most: int) -> None:
    """Copy an image to the host's memory, and wait."""
    import numpy as np  # `Image.numpy` has imported it

    row = image.row_bytes
    pitch = -(-row // _PITCH) * _PITCH
    rows = np.frombuffer(out, "uint8").reshape(-1, row)
    start = 0
    for y, z, height, depth in _boxes(image, pitch, most):
        count = height * depth
        buffer = staging.take(gpu, pitch * count)
        encoder = gpu.create_command_encoder()
        encoder.copy_texture_to_buffer(
            {"texture": _texture(image), "origin": (0, y, z)},
            {"buffer": buffer, "bytes_per_row": pitch, "rows_per_image": height},
            (image.shape[0], height, depth),
        )
        _driver.submit(gpu, [encoder.finish()])
        mapped = call_uninterrupted(map_copied, buffer)[: pitch * count]
        rows[start : start + count] = np.frombuffer(mapped, "uint8").reshape(count, pitch)[:, :row]
        staging.give(buffer)
        start += count


# -- wgpu's own textures and samplers


class AdoptedImage(Image):
    """An image over the caller's GPUTexture or GPUTextureView. The caller may destroy its texture.

    Attributes
    ----------
    is_view : bool
        Whether the caller gave the view. wgpu-py does not report its dimension, its format and its
        levels.
    """

    __slots__ = ("is_view",)

    def __init__(self, device: Device, texture: Any, view: Any) -> None:
        self.is_view = view is not None
        dimensions = int(texture.dimension[0])
        layers = 0
        if dimensions == 2 and texture.depth_or_array_layers > 1:
            layers = texture.depth_or_array_layers
        usage = texture.usage, texture.mip_level_count, self.is_view
        super().__init__(device, texture.size[:dimensions], texture.format, layers, usage=usage)
        if view is None:
            view = texture.create_view(dimension=self.type.replace("_", "-"))
        self.handle = view

    @property
    def memory(self) -> Any:
        """What it shares with other images: the texture, or the view where it may be a part of
        it.
        """
        texture = _texture(self)
        if self.is_view and texture.mip_level_count * texture.depth_or_array_layers > 1:
            return self.handle
        return texture

    def mismatch(self, param: Param, taker: str = "kernel") -> str:
        if self.is_view:
            return ""
        return super().mismatch(param, taker)

    def problem(self, *, is_storage: bool) -> str:
        """Return why the texture cannot be bound as a storage texture, or as another, as the end of
        a sentence; "" if it can.
        """
        texture = _texture(self)
        name = "STORAGE_BINDING" if is_storage else "TEXTURE_BINDING"
        if not texture.usage & getattr(wgpu.TextureUsage, name):
            return f"is a wgpu.GPUTexture without TextureUsage.{name}; create it with that usage"
        if is_storage and not self.is_view and texture.mip_level_count > 1:
            return (
                f"is a wgpu.GPUTexture with {texture.mip_level_count} mip levels, and a kernel writes to one; pass "
                "texture.create_view(mip_level_count=1)"
            )
        return ""


def adopt(device: Device, value: Any) -> Image | Sampler:
    """Return an image over a GPUTexture or a GPUTextureView, or a sampler over a GPUSampler, whose
    options wgpu-py does not report.

    Raises
    ------
    ConversionError
        devmod has no such images. The text ends a sentence that begins with the argument.
    """
    if isinstance(value, wgpu.GPUSampler):
        return Sampler(device, "", "", normalized=True, handle=value)
    is_view = isinstance(value, wgpu.GPUTextureView)
    texture = value
    view = None
    if is_view:
        texture = value.texture
        view = value
    what = f"is a wgpu.{type(value).__name__}"
    if texture.sample_count > 1:
        raise ConversionError(f"{what} with {texture.sample_count} samples, expected one")
    if not is_view and texture.format not in IMAGE_FORMATS:
        raise ConversionError(
            f"{what} of {texture.format}, which is not a format of devmod's images; pass a view with such a format"
        )
    try:
        return AdoptedImage(device, texture, view)
    except _driver.Error as error:
        raise ConversionError(
            f"{what} that cannot be used: {_driver.describe_error(error)}"
        ) from error
