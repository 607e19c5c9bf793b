"""Images and samplers. An image has the layout GENERAL from its creation on, so that each use of it
takes the barriers of buffers.
"""

from __future__ import annotations

from devmod.backend import IMAGE_FORMATS
from devmod_runtime import Image, Sampler, check_extent
from devmod_vulkan._driver import error_name, ffi, make, vk
from devmod_vulkan._memory import LOCAL, VISIBLE, find_type, usable_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device
    from devmod_vulkan._logical import Logical
    from devmod_vulkan._physical import Physical
    from devmod_vulkan._shader import Shader

GENERAL = vk.VK_IMAGE_LAYOUT_GENERAL
SAMPLED = "VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT"
STORAGE = "VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT"
LINEAR = "VK_FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT"
_TYPES = ("1D", "2D", "3D")
_COLOR = vk.VK_IMAGE_ASPECT_COLOR_BIT
_ADDRESS_MODES = {
    "clamp": vk.VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
    "repeat": vk.VK_SAMPLER_ADDRESS_MODE_REPEAT,
    "mirror": vk.VK_SAMPLER_ADDRESS_MODE_MIRRORED_REPEAT,
    "border": vk.VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER,
}


def vulkan_format(name: str) -> int:
    """Return the VkFormat of a format of `IMAGE_FORMATS`: VK_FORMAT_R8G8_UNORM of "rg8unorm"."""
    each = IMAGE_FORMATS[name]
    channels = "".join(f"{channel.upper()}{each.bits}" for channel in each.order)
    encoding = each.encoding.upper()
    if encoding == "FLOAT":
        encoding = "SFLOAT"
    return int(getattr(vk, f"VK_FORMAT_{channels}_{encoding}"))


def problem_of(device: Device, physical: Physical, format: str, features: tuple[str, ...]) -> str:  # noqa: A002 - WebGPU's word
    """Return that a format has none of the features (`SAMPLED`, `STORAGE`, `LINEAR`) on a device,
    as a clause; "" if it has one of them.
    """
    bits = physical.format_features.get(format)
    if bits is None:
        out = ffi.new("VkFormatProperties *")
        physical.calls.vkGetPhysicalDeviceFormatProperties(
            physical.handle, vulkan_format(format), out
        )
        bits = physical.format_features[format] = int(out.optimalTilingFeatures)
    if any(bits & getattr(vk, name) for name in features):
        return ""
    return f"{device} does not have {' or '.join(features)} for this format"


class DeviceImage:
    """The handles of an image. Collecting this object destroys them.

    Attributes
    ----------
    image, view
        The VkImage and the VkImageView.
    """

    __slots__ = ("__weakref__", "_token", "image", "view")

    def __init__(self, logical: Logical, image: Image) -> None:
        logical.check_open()
        limits = logical.physical.limits
        dimensions = len(image.shape)
        names = [f"maxImageDimension{dimensions}D"] * dimensions
        names.append("maxImageArrayLayers")
        check_extent(image, [(name, limits[name]) for name in names])
        info = _image_info(logical, image)
        logical.destroy_ended()
        #: What is destroyed, and freed then, when this object is collected.
        owned: list[tuple[str, Any]] = []
        memory: list[Any] = []
        self._token = logical.lend_handles(self, owned, memory)
        self.image = logical.create_owned("vkCreateImage", "VkImage", info)
        owned.append(("vkDestroyImage", self.image))
        requirements = ffi.new("VkMemoryRequirements *")
        logical.calls.vkGetImageMemoryRequirements(logical.handle, self.image, requirements)
        # Vulkan guarantees an image a type of memory that is local to the device.
        types = usable_types(logical.physical.memory_types, requirements.memoryTypeBits)
        heap = logical.image_heap(find_type(types, (LOCAL, VISIBLE), (LOCAL, 0)))
        piece = heap.allocate(
            requirements.size + max(0, requirements.alignment - logical.physical.alignment)
        )
        memory.append(piece)
        offset = -(-piece.offset // requirements.alignment) * requirements.alignment
        code = logical.calls.vkBindImageMemory(
            logical.handle, self.image, piece.device_memory, offset
        )
        logical.check(code, "failed in vkBindImageMemory")
        view_type = f"VK_IMAGE_VIEW_TYPE_{_TYPES[dimensions - 1]}"
        if image.layers:
            view_type += "_ARRAY"
        info = make(
            "VkImageViewCreateInfo",
            image=self.image,
            viewType=getattr(vk, view_type),
            format=info.format,
            subresourceRange=_range(image)[0],
        )
        self.view = logical.create_owned("vkCreateImageView", "VkImageView", info)
        owned.append(("vkDestroyImageView", self.view))


def _image_info(logical: Logical, image: Image) -> Any:
    """Return the VkImageCreateInfo of an image.

    Raises
    ------
    ArgumentError
        The device has no such images.
    DeviceMemoryError
        The driver has no image of that many bytes.
    """
    device = logical.device
    physical = logical.physical
    problem = problem_of(device, physical, image.format, (SAMPLED, STORAGE))
    if problem:
        raise image.format_error(problem)
    usage = vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
    for feature, bit in (
        (SAMPLED, vk.VK_IMAGE_USAGE_SAMPLED_BIT),
        (STORAGE, vk.VK_IMAGE_USAGE_STORAGE_BIT),
    ):
        if not problem_of(device, physical, image.format, (feature,)):
            usage |= bit
    width, height, depth = image.extent
    info = make(
        "VkImageCreateInfo",
        imageType=getattr(vk, f"VK_IMAGE_TYPE_{_TYPES[len(image.shape) - 1]}"),
        format=vulkan_format(image.format),
        extent={"width": width, "height": height, "depth": depth},
        mipLevels=1,
        arrayLayers=image.layers or 1,
        samples=vk.VK_SAMPLE_COUNT_1_BIT,
        tiling=vk.VK_IMAGE_TILING_OPTIMAL,
        usage=usage,
    )
    properties = ffi.new("VkImageFormatProperties *")
    code = physical.calls.vkGetPhysicalDeviceImageFormatProperties(
        physical.handle, info.format, info.imageType, info.tiling, usage, 0, properties
    )
    if code:
        raise image.format_error(f"the driver refuses the type {image.type} ({error_name(code)})")
    most = properties.maxExtent
    sides = [
        ("maxExtent.width", most.width),
        ("maxExtent.height", most.height),
        ("maxExtent.depth", most.depth),
    ]
    check_extent(image, [*sides[: len(image.shape)], ("maxArrayLayers", properties.maxArrayLayers)])
    if image.nbytes > properties.maxResourceSize:
        raise device.memory_error(
            image.nbytes, f"its maxResourceSize is {properties.maxResourceSize}"
        )
    return info


def create_sampler(logical: Logical, sampler: Sampler) -> Any:
    """Return the VkSampler of a sampler. Equal ones are one, which lives as long as the device:
    drivers limit their number.
    """
    logical.check_open()
    mode = _ADDRESS_MODES[sampler.address]
    texels = vk.VK_FILTER_NEAREST
    if sampler.filter == "linear":
        texels = vk.VK_FILTER_LINEAR
    info = make(
        "VkSamplerCreateInfo",
        magFilter=texels,
        minFilter=texels,
        addressModeU=mode,
        addressModeV=mode,
        addressModeW=mode,
        borderColor=vk.VK_BORDER_COLOR_FLOAT_TRANSPARENT_BLACK,
        unnormalizedCoordinates=not sampler.normalized,
    )
    return logical.samplers.get(
        (sampler.filter, sampler.address, sampler.normalized),
        lambda: logical.create_owned("vkCreateSampler", "VkSampler", info),
    )


def unfit_image(
    device: Device,
    physical: Physical,
    shader: Shader,
    places: Sequence[tuple[tuple[int, int], int, int]],
    images: Mapping[int, Image | Sampler],
) -> tuple[int, str] | None:
    """Return the number of an argument that the shader cannot take, and the reason; None if it
    takes all.

    Parameters
    ----------
    device, physical
        The device.
    shader
        The shader.
    places
        `devmod_vulkan._pipeline.Places.images`.
    images
        The images and samplers, by the numbers of their arguments.
    """
    for at, number, _ in places:
        image = images.get(number)
        if isinstance(image, Image):
            problem = _format_problem(device, physical, image, shader.images[at].storage)
            if problem:
                return number, problem

    samplers = [each for each in images.values() if isinstance(each, Sampler)]
    if all(each.filter == "nearest" and each.normalized for each in samplers):
        return None  # as most calls: the instructions of the shader are not read
    for image_number, sampler_number, needs_normalized in _samplings(shader, places):
        image = images.get(image_number)
        sampler = images.get(sampler_number)
        if not isinstance(image, Image) or not isinstance(sampler, Sampler):
            continue
        if sampler.filter == "linear":
            problem = problem_of(device, physical, image.format, (LINEAR,))
            if problem:
                return image_number, image.filter_mismatch(problem)
        if not sampler.normalized:
            problem = _coordinates_problem(image, needs_normalized)
            if problem and sampler_number < 0:
                return image_number, f"is read by a sampler of the source, which {problem}"
            if problem:
                return sampler_number, problem
    return None


def _samplings(
    shader: Shader, places: Sequence[tuple[tuple[int, int], int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Yield the numbers of each image and sampler that the shader uses together, and whether it
    needs normalized coordinates there.
    """
    image_numbers = {at: number for at, number, _ in places}
    sampler_numbers = {at: number for at, _, number in places}
    for (image_at, sampler_at), needs_normalized in shader.samplings.items():
        # Else another entry point samples there.
        if image_at in image_numbers and sampler_at in sampler_numbers:
            yield image_numbers[image_at], sampler_numbers[sampler_at], needs_normalized


def _format_problem(device: Device, physical: Physical, image: Image, is_storage: bool) -> str:
    """Return why a shader cannot use an image; "" if it can."""
    feature = SAMPLED
    if is_storage:
        feature = STORAGE
    problem = problem_of(device, physical, image.format, (feature,))
    if not problem:
        return ""
    return f"is an image of {image.format}: {problem}"


def _coordinates_problem(image: Image, needs_normalized: bool) -> str:
    """Return why a shader cannot sample an image at texels; "" if it can."""
    if image.type not in ("1d", "2d"):
        problem = f"the kernel samples an image of type {image.type}"
    elif needs_normalized:
        problem = "the kernel samples with an offset or a projection"
    else:
        return ""
    return f"is a sampler with normalized=False, and {problem}, for which Vulkan requires normalized coordinates"


# -- The commands that fill and copy an image.


def record_zeros(calls: Any, handle: Any, image: Image) -> None:
    """Record the commands that set a new image to zero."""
    everything = _range(image)
    barrier = make(
        "VkImageMemoryBarrier",
        dstAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT,
        oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
        newLayout=GENERAL,
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image.handle.image,
        subresourceRange=everything[0],
    )
    stages = vk.VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
    calls.vkCmdPipelineBarrier(handle, *stages, 0, 0, ffi.NULL, 0, ffi.NULL, 1, barrier)
    calls.vkCmdClearColorImage(
        handle, image.handle.image, GENERAL, ffi.new("VkClearColorValue *"), 1, everything
    )


def regions(image: Image, start: int, size: int, offset: int) -> Iterator[Any]:
    """Return the VkBufferImageCopy structs for a part of an image.

    Parameters
    ----------
    image
        The image.
    start, size
        The first byte and the number of bytes of the part in the image's NumPy array: whole rows.
    offset
        The place of the part in the buffer.
    """
    width, height, _ = image.extent
    row = image.row_bytes
    first = start // row
    count = size // row
    while count:
        # The number of the layer, or of the slice of a 3-D image.
        number, y = divmod(first, height)
        rows = height
        slices = count // height
        if y or count < height:
            rows = min(height - y, count)
            slices = 1
        layers = {"aspectMask": _COLOR, "baseArrayLayer": 0, "layerCount": 1}
        place = {"y": y}
        extent = {"width": width, "height": rows, "depth": 1}
        if image.layers:
            layers["baseArrayLayer"] = number
            layers["layerCount"] = slices
        else:
            place["z"] = number
            extent["depth"] = slices
        yield make(
            "VkBufferImageCopy",
            bufferOffset=offset,
            imageSubresource=layers,
            imageOffset=place,
            imageExtent=extent,
        )
        taken = rows * slices
        first += taken
        count -= taken
        offset += taken * row


def _range(image: Image) -> Any:
    """Return the VkImageSubresourceRange of all of an image."""
    return make(
        "VkImageSubresourceRange", aspectMask=_COLOR, levelCount=1, layerCount=image.layers or 1
    )
