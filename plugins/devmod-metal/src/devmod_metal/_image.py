"""Images and samplers: textures in memory of the device, which are copied by way of memory that host and device share."""

from __future__ import annotations

from devmod.backend import ConversionError
from devmod.errors import ArgumentError, LaunchError
from devmod_metal._device import MetalDevice, devices, metal, wait_for
from devmod_metal._interface import MetalError
from devmod_runtime import Image, Sampler, check_driver, check_extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_metal._device import Memory, MetalStream

#: Apple's table of features has these limits for the GPU of every Mac; Metal has no query for them. The last is that of the layers.
_LAYERS = ("maximum number of layers per texture array", 2048)
_LIMITS = {
    1: (("maximum 1D texture width", 16384), _LAYERS),
    2: (("maximum 2D texture width", 16384), ("maximum 2D texture height", 16384), _LAYERS),
    3: (*((f"maximum 3D texture {name}", 2048) for name in ("width", "height", "depth")), _LAYERS),
}
#: The tier of MTLReadWriteTextureTier that a format needs for access::read_write. Other formats have no such textures.
_TIERS = {
    **dict.fromkeys(("r32float", "r32uint", "r32sint"), 1),
    **{f"rgba{bits}{kind}": 2 for bits in (16, 32) for kind in ("float", "uint", "sint")},
    **dict.fromkeys(("rgba8unorm", "rgba8uint", "rgba8sint", "r16float", "r16uint", "r16sint", "r8unorm", "r8uint", "r8sint"), 2),
}
_TIER_NAMES = ("None", "1", "2")


def create_image(device: MetalDevice, image: Image) -> Any:
    """Return a new texture of zeros."""
    check_driver("metal")
    check_extent(image, _LIMITS[len(image.shape)])
    try:
        handle = metal().texture(device.handle, image.type, image.format, image.extent, image.layers)
    except MetalError as error:
        raise device.memory_error(image.nbytes, str(error)) from error
    zeros = device.allocate(image.nbytes)
    zeros.view[:] = bytes(image.nbytes)
    # Other streams may use the image at once.
    failure = wait_for([_copy(image, handle, zeros, device.default_stream, is_read=False)])
    if failure:
        device.default_stream.wait_for_commands()  # removes the failure, which is raised here
        raise device.launch_error(failure)
    return handle


def write_image(image: Image, data: memoryview, stream: MetalStream) -> None:
    """Copy a texture from the host, and wait for the copy."""
    check_driver("metal")
    staging = stream.device.allocate(data.nbytes)
    staging.view[:] = data.cast("B")
    _copy(image, image.handle, staging, stream, is_read=False)
    stream.synchronize()


def read_image(image: Image, out: memoryview, stream: MetalStream) -> None:
    """Copy a texture to the host, and wait for the copy."""
    check_driver("metal")
    staging = stream.device.allocate(out.nbytes)
    _copy(image, image.handle, staging, stream, is_read=True)
    stream.synchronize()
    out.cast("B")[:] = staging.view


def _copy(image: Image, texture: Any, staging: Memory, stream: MetalStream, *, is_read: bool) -> Any:
    row = image.extent[0] * image.texel.texel_bytes
    try:
        return stream.commands.commit(
            lambda: metal().copy_texture(stream.queue, staging.handle, texture, image.extent, image.layers, row, is_read=is_read)
        )
    except MetalError as error:
        raise LaunchError(f"a copy of {image.nbytes} bytes on {stream.device} failed: {error}", kind="metal") from error


def image_problem(device: MetalDevice, format_: str, access: str) -> str:
    """Return why kernels cannot access images of a format in this way, as a clause; "" if they can."""
    if access != "rw":
        return ""  # all formats of `IMAGE_FORMATS` can be read and written
    tier = _TIERS.get(format_)
    if tier is None:
        return "Metal has no textures of this format with access::read_write"
    if tier <= device.read_write_tier:
        return ""
    return (
        f"access::read_write of this format needs MTLReadWriteTextureTier{tier}, and the readWriteTextureSupport of {device} is "
        f"MTLReadWriteTextureTier{_TIER_NAMES[device.read_write_tier]}"
    )


def filter_problem(device: MetalDevice, image: Image) -> str:
    """Return why a linear sampler cannot read an image, as a clause; "" if it can."""
    if image.texel.sample != "float":
        return "Metal filters no integers"
    if image.texel.dtype == "float32" and not device.filters_float32:
        return f"supports32BitFloatFiltering of {device} is NO"
    return ""


def create_sampler(device: MetalDevice, sampler: Sampler) -> Any:
    """Return a new sampler of Metal."""
    check_driver("metal")
    if not sampler.normalized and sampler.address in ("repeat", "mirror"):
        raise ArgumentError(
            f"sampler: with normalized=False, Metal's normalizedCoordinates, address is 'clamp' or 'border', got {sampler.address!r}",
            kind="metal",
            argument="address",
        )
    try:
        return metal().sampler(device.handle, sampler.filter, sampler.address, sampler.normalized)
    except MetalError as error:
        raise LaunchError(f"{device} gives no sampler: {error}", kind="metal") from error


def adopt(value: object) -> Image | Sampler | None:
    """Return an image or a sampler over an object of pyobjc; None for other objects.

    Raises
    ------
    ConversionError
        The texture cannot be used; the text ends a sentence that begins with the argument.
    """
    owner = metal().sampler_device(value)
    if owner is not None:
        return Sampler(_device_of(owner, "a sampler"), "", "", True, value)
    found = metal().texture_properties(value)
    if found is None:
        return None
    device = _device_of(found.device, "a texture")
    for name, number in (("MTLTextureType", found.type), ("MTLPixelFormat", found.format)):
        if isinstance(number, int):
            raise ConversionError(f"is a texture with the {name} {number}, which devmod does not support")
    if found.missing_usage:
        raise ConversionError(f"is a texture whose usage lacks {' and '.join(found.missing_usage)}")
    dimensions = int(str(found.type)[0])
    return Image(device, found.extent[:dimensions], str(found.format), found.layers, value)


def _device_of(handle: Any, subject: str) -> MetalDevice:
    device = next((each for each in devices() if each.handle == handle), None)
    if device is None:
        raise ConversionError(f"is {subject} of a device that devmod does not list")
    return device
