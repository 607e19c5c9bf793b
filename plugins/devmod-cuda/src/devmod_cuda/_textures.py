"""Images of CUDA: arrays, with a texture object for each sampler and a surface object.

A texture object contains its sampler. A kernel's parameter of type cudaTextureObject_t is two
arguments with one place, as a combined sampler of GLSL is. A cudaSurfaceObject_t is one argument.

A kernel in Slang takes an image as the address of its description, and a sampler as a number. So
does one in OpenCL C, which older files have. The description has the texture objects of all
samplers, the surface object, the size and the format. devmod's compiler writes the code that reads
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, create_string_buffer
from struct import Struct
from typing import Any

from devmod import Interface, Param, Sampler
from devmod.backend import IMAGE_FORMATS, ConversionError, Once
from devmod_driver_api.device import DriverDevice
from devmod_driver_api.handles import Handle, Handles, Memory
from devmod_driver_api.kernel import has_places
from devmod_runtime import Image, address_of, check_extent

#: CUDA_ARRAY3D_DESCRIPTOR: width, height, depth, format, channels, flags.
_ARRAY = Struct("<3Q3I4x")
#: CUDA_MEMCPY3D: for each side x, y, z, level, type of memory, host, device, array, reserved,
#: pitch, height; then width, height, depth.
_COPY = Struct("<4QI4x6Q4QI4x6Q3Q")
#: CUDA_RESOURCE_DESC of an array: type, array, flags.
_RESOURCE = Struct("<I4xQ120xI4x")
#: CUDA_TEXTURE_DESC: address modes, filter, flags, and zeros for anisotropy, mip levels and the
#: border's color.
_TEXTURE = Struct("<5I84x")
#: CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_ARRAY.
_HOST_SIDE = 1
_ARRAY_SIDE = 3
#: CUDA_ARRAY3D_LAYERED and CUDA_ARRAY3D_SURFACE_LDST.
_LAYERED = 1
_SURFACE = 2
#: CU_TRSF_READ_AS_INTEGER and CU_TRSF_NORMALIZED_COORDINATES.
_READ_AS_INTEGER = 1
_NORMALIZED = 2
#: CUarray_format by the element type of NumPy.
_FORMATS = {
    "uint8": 1,
    "uint16": 2,
    "uint32": 3,
    "int8": 8,
    "int16": 9,
    "int32": 10,
    "float16": 16,
    "float32": 32,
}
#: CUaddress_mode and CUfilter_mode.
_ADDRESSES = {"repeat": 0, "clamp": 1, "mirror": 2, "border": 3}
_FILTERS = {"nearest": 0, "linear": 1}
#: The description of an image, which images.h (Slang) of devmod-targets declares: textures by the
#: bits of a sampler, the surface, width, height, depth, layers, numbers of a texel, bytes of a
#: number, OpenCL's channel type and channel order.
_DESCRIPTION = Struct("<33Q8I")
#: OpenCL's bits of a sampler, CLK_…, and its channel types and orders.
_NORMALIZED_BIT = 1
_ADDRESS_BITS = {"clamp": 2, "border": 4, "repeat": 6, "mirror": 8}
_FILTER_BITS = {"nearest": 16, "linear": 32}
_CHANNEL_TYPES = {
    "8snorm": 4304,
    "16snorm": 4305,
    "8unorm": 4306,
    "16unorm": 4307,
    "8sint": 4311,
    "16sint": 4312,
    "32sint": 4313,
    "8uint": 4314,
    "16uint": 4315,
    "32uint": 4316,
    "16float": 4317,
    "32float": 4318,
}
_CHANNEL_ORDERS = {1: 4272, 2: 4274, 4: 4277}
#: The device attributes that limit an image, by its type: in each dimension, and in layers. An
#: array with surfaces has those of surfaces.
_LIMITS = {
    "1d": {"maximum_surface1d_width": 55},
    "2d": {"maximum_surface2d_width": 56, "maximum_surface2d_height": 57},
    "3d": {
        "maximum_surface3d_width": 58,
        "maximum_surface3d_height": 59,
        "maximum_surface3d_depth": 60,
    },
    "1d_array": {"maximum_surface1d_layered_width": 61, "maximum_surface1d_layered_layers": 62},
    "2d_array": {
        "maximum_surface2d_layered_width": 63,
        "maximum_surface2d_layered_height": 64,
        "maximum_surface2d_layered_layers": 65,
    },
}

_NO_SURFACE = "is a CUDA array without a surface, which CUDA_ARRAY3D_SURFACE_LDST gives it"
_NO_FILTER = "CUDA filters no integers (CU_TR_FILTER_MODE_LINEAR)"


class ImageArray:
    """The array of an image, which is destroyed after its textures and its surface.

    Parameters
    ----------
    device, image
        The device, and the image, whose format and size are those of the array.
    array
        The handle of the array, with its owner.
    has_surface
        Whether the array may be a surface.
    """

    def __init__(
        self,
        device: DriverDevice,
        image: Image,
        array: Handle | Memory,
        *,
        has_surface: bool = True,
    ) -> None:
        self._device = device
        self._nbytes = image.nbytes
        self._is_integer = image.texel.sample != "float"
        self._size = (*image.extent, image.layers)
        self._texel = image.texel
        #: The texture objects by sampler, and the surface object.
        self._objects = Once()
        self._array = array
        self.has_surface = has_surface
        self.handle: int
        if isinstance(array, Handle):
            self.handle = array.value
        else:
            self.handle = array

    def __del__(self) -> None:
        # They are destroyed before the array. At the end of the process the name `Once` may have no
        # value any more.
        self.__dict__.pop("_objects", None)

    def texture(self, sampler: Sampler) -> int:
        """Return the texture object with a sampler, which is created once."""

        def make() -> Handle:
            mode = _ADDRESSES[sampler.address]
            flags = 0
            if self._is_integer:
                flags |= _READ_AS_INTEGER
            if sampler.normalized:
                flags |= _NORMALIZED
            texture = _TEXTURE.pack(mode, mode, mode, _FILTERS[sampler.filter], flags)
            return self._object(self._device.context.textures, texture, None)

        return self._objects.get((sampler.filter, sampler.address, sampler.normalized), make).value

    def surface(self) -> int:
        """Return the surface object, which is created once."""
        return self._objects.get(
            "surface", lambda: self._object(self._device.context.surfaces)
        ).value

    def _object(self, handles: Handles, *arguments: Any) -> Handle:
        handle = _create(
            self._device, self._nbytes, handles, _RESOURCE.pack(0, self.handle, 0), *arguments
        )
        if not isinstance(self._array, int):
            self._array.destroy_after(handle)
        return handle

    def _sampler_of(self, number: int) -> Sampler:
        """Return the sampler of a texture of the description. The number has OpenCL's bits, the
        upper one of the filter in the place of both.
        """
        is_normalized = bool(number & _NORMALIZED_BIT)
        # What OpenCL does not define is the nearest texel of the image.
        address = "clamp"
        for name, bits in _ADDRESS_BITS.items():
            if bits == number & 14 and (is_normalized or name == "border"):
                address = name
        kind = "nearest"
        if number & 16 and not self._is_integer:
            kind = "linear"
        return Sampler(self._device, kind, address, is_normalized)

    def description(self) -> Memory:
        """Return the address of the description, which is created once."""

        def make() -> Memory:
            textures = [self.texture(self._sampler_of(number)) for number in range(32)]
            texel = self._texel
            name = texel.name.removeprefix({1: "r", 2: "rg", 4: "rgba"}[texel.channels])
            bytes_ = texel.texel_bytes // texel.channels
            numbers = (
                *self._size,
                texel.channels,
                bytes_,
                _CHANNEL_TYPES[name],
                _CHANNEL_ORDERS[texel.channels],
            )
            surface = 0
            if self.has_surface:
                surface = self.surface()
            memory = self._device.allocate(_DESCRIPTION.size)
            data = _DESCRIPTION.pack(*textures, surface, *numbers)
            self._device.write(memory, memoryview(data), self._device.default_stream)
            return memory

        return self._objects.get("description", make)


def new_array(device: DriverDevice, image: Image) -> ImageArray:
    """Return a new array for an image.

    Raises
    ------
    ArgumentError
        CUDA does not have the format, or the device the size.
    DeviceMemoryError
        The device has too little free memory.
    """
    texel = image.texel
    if texel.name.startswith("bgra"):
        raise image.format_error("CUDA has no array format (CUarray_format) for it; use rgba8unorm")
    check_extent(image, [*device.read_limits(_LIMITS[image.type]).items()])
    width, height, depth = (*image.shape, 0, 0)[:3]
    flags = _SURFACE
    if image.layers:
        flags |= _LAYERED
    form = _ARRAY.pack(
        width, height, image.layers or depth, _FORMATS[texel.dtype], texel.channels, flags
    )
    return ImageArray(device, image, _create(device, image.nbytes, device.context.arrays, form))


def image_over(device: DriverDevice, handle: int, owner: object) -> Image:
    """Return the image over an array of another library.

    Raises
    ------
    ConversionError
        Images do not have its format, or it is a cube map; the text ends a sentence that begins
        with the argument.
    """
    form = create_string_buffer(_ARRAY.size)
    with device.context:
        device.driver.call("array_form", addressof(form), handle)
    width, height, depth, number, channels, flags = _ARRAY.unpack(form.raw)
    # An array has no normalized numbers, which are a choice of a texture.
    names = [
        each.name
        for each in IMAGE_FORMATS.values()
        if (_FORMATS[each.dtype], each.channels) == (number, channels)
    ]
    name = next((each for each in names if "norm" not in each), "")
    if not name or flags & ~(_LAYERED | _SURFACE):
        raise ConversionError(
            f"is a CUDA array of the format {number:#x} with {channels} channels and the flags {flags:#x}; expected 1, 2 or 4 channels of "
            "a number, and no flags but CUDA_ARRAY3D_LAYERED (0x1) and CUDA_ARRAY3D_SURFACE_LDST (0x2)"
        )
    layers = 0
    if flags & _LAYERED:
        layers = depth
        depth = 0
    shape = [each for each in (width, height, depth) if each]
    image = Image(device, shape, name, layers, usage=flags)
    image.handle = ImageArray(
        device, image, Memory(handle, owner), has_surface=bool(flags & _SURFACE)
    )
    return image


def _create(device: DriverDevice, nbytes: int, handles: Handles, *arguments: Any) -> Handle:
    with device.calls(f"{{}} cannot create an image of {nbytes} bytes", nbytes) as context, context:
        return handles.create(*arguments)


def copy_of(image: Image, array: ImageArray, data: memoryview, *, to_device: bool) -> bytes:
    """Return the CUDA_MEMCPY3D between the bytes of a NumPy array and the array of an image."""
    _, height, depth = image.extent
    row = image.row_bytes
    host = (0, 0, 0, 0, _HOST_SIDE, address_of(data), 0, 0, 0, row, height)
    texels = (0, 0, 0, 0, _ARRAY_SIDE, 0, 0, array.handle, 0, 0, 0)
    if to_device:
        return _COPY.pack(*host, *texels, row, height, image.layers or depth)
    return _COPY.pack(*texels, *host, row, height, image.layers or depth)


class ImagePlaces:
    """The images among the arguments of a kernel.

    Parameters
    ----------
    interface
        The interface of the kernel.
    """

    def __init__(self, interface: Interface) -> None:
        self._params = interface.params
        self._is_combined = has_places(interface.params)
        self._textures, self._surfaces = _numbers(interface.params)
        # A parameter may be several values.
        self._texture_values, self._surface_values = _numbers(interface.values)
        self._samplers = [
            number for number, param in enumerate(interface.values) if param.kind == "sampler"
        ]
        self._images = [
            number for number, param in enumerate(interface.values) if param.kind == "image"
        ]

    def check(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        """Return the number of an image that its sampler cannot filter, or that is no surface, and
        the reason; None if there is none.
        """
        if not self._is_combined:
            return self._check_described(images)
        for number in self._surfaces:
            array: Any = images[number].handle
            if not array.has_surface:
                return number, _NO_SURFACE
        for number, other in self._textures:
            image = images[number]
            sampler: Any = images[other]
            if not isinstance(image, Image) or image.texel.sample == "float":
                continue
            if sampler.filter == "linear":
                return number, image.filter_mismatch(_NO_FILTER)
        return None

    def _check_described(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        """Do the same for a kernel whose samplers may read each of the images."""
        is_linear = any(getattr(each, "filter", "") == "linear" for each in images.values())
        read = []
        for number, image in images.items():
            if not isinstance(image, Image):
                continue
            access = self._params[number].access
            if "w" in access and not image.handle.has_surface:
                return number, _NO_SURFACE
            if "r" in access:
                read.append((number, image))
        if is_linear and read and all(image.texel.sample != "float" for _, image in read):
            number, image = read[0]
            return number, image.filter_mismatch(_NO_FILTER)
        return None

    def packer(self, pack: Callable[..., bytes]) -> Callable[..., bytes]:
        """Return the function that takes the value of each argument, and packs the objects in place
        of images and samplers.
        """

        def pack_descriptions(*values: Any) -> bytes:
            numbers: list[Any] = list(values)
            for number in self._images:
                numbers[number] = values[number].handle.description()
            for number in self._samplers:
                sampler = values[number]
                bits = _ADDRESS_BITS[sampler.address] | _FILTER_BITS[sampler.filter]
                if sampler.normalized:
                    bits |= _NORMALIZED_BIT
                numbers[number] = bits
            return pack(*numbers)

        if not self._is_combined:
            return pack_descriptions

        def pack_objects(*values: Any) -> bytes:
            objects: list[Any] = list(values)
            for number in self._surface_values:
                objects[number] = values[number].handle.surface()
            for number, sampler in self._texture_values:
                objects[number] = values[number].handle.texture(values[sampler])
            for _, sampler in reversed(self._texture_values):
                del objects[sampler]
            return pack(*objects)

        return pack_objects


def _numbers(params: Sequence[Param]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the numbers of each image that is read through a texture and of its sampler, and the
    numbers of the other images.
    """
    kinds = [param.kind for param in params]
    textures = [(number - 1, number) for number, kind in enumerate(kinds) if kind == "sampler"]
    read = {image for image, _ in textures}
    return textures, [
        number for number, kind in enumerate(kinds) if kind == "image" and number not in read
    ]
