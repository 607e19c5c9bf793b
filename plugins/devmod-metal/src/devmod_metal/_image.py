"""The limits of Metal's textures and samplers, and what a device supports of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Device, Image

#: Apple's table of features has these limits for the GPU of every Mac; Metal has no query for them.
#: The last is that of the layers.
_LAYERS = ("maximum number of layers per texture array", 2048)
LIMITS = {
    1: (("maximum 1D texture width", 16384), _LAYERS),
    2: (("maximum 2D texture width", 16384), ("maximum 2D texture height", 16384), _LAYERS),
    3: (*((f"maximum 3D texture {name}", 2048) for name in ("width", "height", "depth")), _LAYERS),
}
#: The tier of MTLReadWriteTextureTier that a format needs for access::read_write. Other formats
#: have no such textures.
_TIERS = {
    **dict.fromkeys(("r32float", "r32uint", "r32sint"), 1),
    **{f"rgba{bits}{kind}": 2 for bits in (16, 32) for kind in ("float", "uint", "sint")},
    **dict.fromkeys(
        (
            "rgba8unorm",
            "rgba8uint",
            "rgba8sint",
            "r16float",
            "r16uint",
            "r16sint",
            "r8unorm",
            "r8uint",
            "r8sint",
        ),
        2,
    ),
}
_TIER_NAMES = ("None", "1", "2")


def access_problem(device: Device, format_: str, access: str, tier: int) -> str:
    """Return why kernels cannot access images of a format in this way, as a clause; "" if they can.
    `tier` is the device's.
    """
    if access != "rw":
        return ""  # all formats of `IMAGE_FORMATS` can be read and written
    needed = _TIERS.get(format_)
    if needed is None:
        return "Metal has no textures of this format with access::read_write"
    if needed <= tier:
        return ""
    return (
        f"access::read_write of this format needs MTLReadWriteTextureTier{needed}, and the readWriteTextureSupport of {device} is "
        f"MTLReadWriteTextureTier{_TIER_NAMES[tier]}"
    )


def filter_problem(image: Image, filters_float32: bool) -> str:
    """Return why a linear sampler cannot read an image, as a clause; "" if it can."""
    if image.texel.sample != "float":
        return "Metal filters no integers"
    if image.texel.dtype == "float32" and not filters_float32:
        return f"supports32BitFloatFiltering of {image.device} is NO"
    return ""
