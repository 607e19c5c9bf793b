"""Images and samplers of OpenCL devices, and those of pyopencl as their arguments. A `device` is an
OpenCLDevice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devmod.backend import IMAGE_FORMATS, ConversionError, ImageFormat
from devmod.errors import ArgumentError
from devmod_opencl import _driver
from devmod_opencl._driver import cl, driver_error
from devmod_runtime import Image, Sampler, check_extent


def _channel_type(format: ImageFormat) -> str:  # noqa: A002 - the name in the interface
    """Return OpenCL's name of the type of a channel: UNORM_INT8 of "rgba8unorm", UNSIGNED_INT32 of
    "r32uint".
    """
    if format.encoding == "float":
        if format.bits == 16:
            return "HALF_FLOAT"
        return "FLOAT"
    return f"{ {'uint': 'UNSIGNED', 'sint': 'SIGNED'}.get(format.encoding, format.encoding.upper()) }_INT{format.bits}"


#: The numbers of a format's channel order and channel type, by its name.
_FORMATS = {
    name: (
        getattr(cl.channel_order, each.order.upper()),
        getattr(cl.channel_type, _channel_type(each)),
    )
    for name, each in IMAGE_FORMATS.items()
}
_NAMES = {numbers: name for name, numbers in _FORMATS.items()}
#: OpenCL's types of images.
_OBJECTS = {
    name: getattr(cl.mem_object_type, f"IMAGE{name.upper()}")
    for name in ("1d", "2d", "3d", "1d_array", "2d_array", "1d_buffer")
}
_FLAGS = {"r": "READ_ONLY", "w": "WRITE_ONLY", "rw": "KERNEL_READ_AND_WRITE"}
_VERBS = {"r": "read", "w": "write to", "rw": "both read and write"}
_ADDRESSES = {
    "clamp": "CLAMP_TO_EDGE",
    "repeat": "REPEAT",
    "mirror": "MIRRORED_REPEAT",
    "border": "CLAMP",
}


class OpenCLImage(Image):
    """An image. `handle` is pyopencl's Image."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """Its type; "1d_buffer" for pyopencl's image over a buffer."""
        handle: Any = self.handle
        if handle.type == _OBJECTS["1d_buffer"]:
            return "1d_buffer"
        return super().type


def supported_formats(device: Any, flags: str, type: str) -> frozenset[str]:  # noqa: A002 - the name in the interface
    """Return the formats of a device's images of a type that kernels use in a way, such as
    "READ_ONLY".
    """
    try:
        formats = cl.get_supported_image_formats(
            device.context, getattr(cl.mem_flags, flags), _OBJECTS[type]
        )
    except _driver.Error:  # images that kernels both read and write, before OpenCL 2.0
        return frozenset()
    return frozenset(
        filter(None, (_NAMES.get((each.channel_order, each.channel_data_type)) for each in formats))
    )


def image_problem(device: Any, format: str, access: str) -> str:  # noqa: A002 - the name in the base class
    """Return why kernels cannot access images of a format, as `Device.image_problem` does."""
    # The formats are those of 2-D images; drivers have the same for the other types.
    if not access or format in device.image_formats(_FLAGS[access], "2d"):
        return ""
    return f"{device} does not list it for kernels that {_VERBS[access]} images (clGetSupportedImageFormats, CL_MEM_{_FLAGS[access]})"


def create_image(device: Any, image: Image) -> Any:
    """Return pyopencl's Image of zeros, as `Device.create_image` does."""
    try:
        _check_image(device, image)
        description = cl.ImageDescriptor()
        description.image_type = _OBJECTS[image.type]
        description.shape = image.extent
        description.array_size = image.layers
        description.pitches = (0, 0)
        description.num_mip_levels = description.num_samples = 0
        description.buffer = None
        result = cl.Image(
            device.context,
            device.buffer_flags,
            cl.ImageFormat(*_FORMATS[image.format]),
            desc=description,
        )
        # A zero has the same bytes in each type of the color.
        cl.enqueue_fill_image(
            device.default_stream.queue, result, bytes(16), (0, 0, 0), _region(image)
        ).wait()
    except _driver.Error as error:
        if _driver.is_memory_error(error):
            raise device.memory_error(image.nbytes, _driver.code_name(error)) from error
        raise driver_error(f"{device} gives no image", error) from error
    return result


def _check_image(device: Any, image: Image) -> None:
    """Raise ArgumentError for an image that the device does not support, DeviceMemoryError for one
    that is too large.
    """
    handle = device.handle
    if not handle.image_support:
        raise ArgumentError(
            f"image: {device} has no images: its image_support is 0",
            kind="opencl",
            argument="shape",
        )
    prefix = "image2d_max_"
    if len(image.shape) == 3:
        prefix = "image3d_max_"
    names = [prefix + each for each in ("width", "height", "depth")[: len(image.shape)]]
    names.append("image_max_array_size")
    check_extent(image, [(name, getattr(handle, name)) for name in names])
    formats = device.image_formats("READ_WRITE", image.type)
    if image.format not in formats:
        similar = []
        for name, each in IMAGE_FORMATS.items():
            if each.dtype == image.texel.dtype and name in formats:
                similar.append(name)
        raise image.format_error(
            f"clGetSupportedImageFormats does not list it for the type {image.type}; of {image.texel.dtype} it lists: "
            f"{', '.join(similar) or 'none'}"
        )
    limit = device.limits["max_mem_alloc_size"]
    if image.nbytes > limit:
        raise device.memory_error(image.nbytes, f"its max_mem_alloc_size is {limit}")


def _region(image: Image) -> tuple[int, int, int]:
    """Return the lengths of a whole image as in the driver's copies, which count layers behind the
    other dimensions.
    """
    lengths = [*image.shape]
    if image.layers:
        lengths.append(image.layers)
    x, y, z = (*lengths, 1, 1)[:3]
    return x, y, z


def copy(image: Image, data: memoryview, stream: Any, *, write: bool) -> None:
    """Copy the host's bytes, which have no padding, to an image or back, and wait."""
    enqueue: Any = cl._cl._enqueue_read_image
    way = "from"
    if write:
        enqueue = cl._cl._enqueue_write_image
        way = "to"
    try:
        queue = stream.begin_command()
        enqueue(queue, image.handle, (0, 0, 0), _region(image), data, is_blocking=True)
    except _driver.Error as error:
        if _driver.is_memory_error(error):
            raise image.device.memory_error(image.nbytes, _driver.code_name(error)) from error
        raise driver_error(
            f"a copy of {data.nbytes} bytes {way} an image on {image.device} failed", error
        ) from error


def create_sampler(device: Any, sampler: Sampler) -> Any:
    """Return pyopencl's Sampler, as `Device.create_sampler` does."""
    address = getattr(cl.addressing_mode, _ADDRESSES[sampler.address])
    try:
        return cl.Sampler(
            device.context,
            sampler.normalized,
            address,
            getattr(cl.filter_mode, sampler.filter.upper()),
        )
    except _driver.Error as error:
        raise driver_error(f"{device} gives no sampler", error) from error


def adopt_image(value: Any, device: Any) -> Image:
    """Return the image over an Image of pyopencl, which is in the device's context.

    Raises
    ------
    ConversionError
        devmod has no format or no type for it.
    """
    name = _NAMES.get((value.format.channel_order, value.format.channel_data_type))
    type_ = next((each for each, number in _OBJECTS.items() if value.type == number), "")
    if name is None or not type_:
        raise ConversionError(
            f"is a pyopencl Image of a format that devmod does not support ({value.format})"
        )
    lengths = (value.width, value.height, value.depth)[: int(type_[0])]
    layers = 0
    if type_.endswith("_array"):
        layers = value.get_image_info(cl.image_info.ARRAY_SIZE)
    return OpenCLImage(device, lengths, name, layers, value, value.flags)


def adopt_sampler(value: Any, device: Any) -> Sampler:
    """Return the sampler over a Sampler of pyopencl, which is in the device's context. For PoCL, it
    is an equal one that is never released, as `OpenCLDevice.create_sampler` says.
    """
    address = "clamp"
    for name, mode in _ADDRESSES.items():
        if value.addressing_mode == getattr(cl.addressing_mode, mode):
            address = name
            break
    filter_name = "nearest"
    if value.filter_mode == cl.filter_mode.LINEAR:
        filter_name = "linear"
    normalized = bool(value.normalized_coords)
    if device.platform == _driver.POCL:
        sampler: Sampler = device.sampler(
            filter=filter_name, address=address, normalized=normalized
        )
        return sampler
    return Sampler(device, filter_name, address, normalized, value)


def check_images(
    images: Mapping[int, Image | Sampler], arguments: Mapping[int, tuple[str, str]]
) -> tuple[int, str] | None:
    """Return the argument that a kernel cannot take, and why, as `Kernel.check_images` does.

    `arguments` has the type in OpenCL C and the access of each image. The type is "" if it is
    unknown.
    """
    readable = []
    is_linear = False
    for number, image in images.items():
        if isinstance(image, Sampler):
            is_linear |= image.filter == "linear"
            continue
        type_name, access = arguments[number]
        problem = _image_problem(image, type_name, access)
        if problem:
            return number, problem
        if "r" in access:
            readable.append((number, image))
    if is_linear and readable and all(each.texel.sample != "float" for _, each in readable):
        number, image = readable[0]
        return number, image.filter_mismatch("OpenCL filters no integers")
    return None


def _image_problem(image: Image, type_name: str, access: str) -> str:
    """Return why a kernel cannot take an image, as the end of a sentence; "" if it can."""
    handle: Any = image.handle
    if type_name and type_name != image_type_name(image.type):
        problem = f"is an image of type {image.type}, and the kernel takes {type_name}"
        if type_name == image_type_name("1d_buffer"):
            problem += "; pass a pyopencl.Image over a buffer"
        return problem
    if "w" in access and handle.flags & cl.mem_flags.READ_ONLY:
        return (
            "is read-only, and the kernel may write to it; pass an image that kernels may write to"
        )
    if "r" in access and handle.flags & cl.mem_flags.WRITE_ONLY:
        return "is write-only, and the kernel may read it; pass an image that kernels may read"
    return ""


def image_type_name(type: str) -> str:  # noqa: A002 - the name in the interface
    """Return OpenCL C's name of a type of images, such as "image2d_array_t"."""
    return f"image{type}_t"
