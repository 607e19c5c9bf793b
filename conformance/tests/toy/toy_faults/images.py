"""Faults of images and samplers."""

from __future__ import annotations

import numpy as np
from devmod_toy._device import ToyDevice, devices
from devmod_toy._module import ToyLauncher

import devmod
from toy_faults._fault import changes_values, replaces

SAMPLED = "'sample' of an image of type 2d and format rgba8unorm with <Sampler "


def changed_sampler(value, **changes):
    """Return a sampler with other attributes, and any other value unchanged."""
    if not isinstance(value, devmod.Sampler):
        return value
    return devmod.Sampler(
        value.device,
        **{
            "filter": value.filter,
            "address": value.address,
            "normalized": value.normalized,
            **changes,
        },
    )


@replaces(
    ToyLauncher,
    "adopt",
    "R34-images",
    reason="'sample' with a host array as an image: expected ArgumentError, but the kernel was launched",
)
def adopts_host(before, self, value):
    """A host array is an image, whose format is a guess."""
    if isinstance(value, np.ndarray) and value.dtype == "uint8":
        return devices()[0].image_from_numpy(value), None
    return None


@changes_values(
    "R37-sampled",
    reason=SAMPLED
    + "filter='nearest', address='clamp', normalized=False on …>: argument 1 is wrong in …",
)
def always_normalized(value):
    """Coordinates are from 0 to 1 also where they are to be in texels."""
    return changed_sampler(value, normalized=True)


@changes_values(
    "R37-sampled",
    reason=SAMPLED
    + "filter='nearest', address='border', normalized=True on …>: argument 1 is wrong in …",
)
def clamps_border(value):
    """A sampler reads the texel at the edge where it is to read zero."""
    return (
        changed_sampler(value, address="clamp")
        if getattr(value, "address", "") == "border"
        else value
    )


@changes_values(
    "R37-sampled",
    reason=SAMPLED
    + "filter='linear', address='clamp', normalized=True on …>: argument 1 is wrong in …",
)
def nearest_only(value):
    """A linear sampler reads the nearest texel."""
    return changed_sampler(value, filter="nearest")


@changes_values(
    "R37-sampled",
    reason=SAMPLED
    + "filter='nearest', address='mirror', normalized=True on …>: argument 1 is wrong in …",
)
def repeats_mirror(value):
    """A sampler repeats the image where it is to mirror it."""
    return (
        changed_sampler(value, address="repeat")
        if getattr(value, "address", "") == "mirror"
        else value
    )


@changes_values(
    "R37-written", reason="'write' called, which writes to an image: argument 1 is wrong in …"
)
def copies_target(value):
    """A kernel writes to a copy of its image."""
    if isinstance(value, devmod.Image):
        return devmod.Image(
            value.device, value.shape, value.format, value.layers, bytearray(value.handle)
        )
    return value


@replaces(
    ToyDevice,
    "create_image",
    "R37-images",
    reason="an image of rgba8unorm with the shape (7, 5) has other values than zero",
)
def dirty_image(before, self, image):
    """A new image has the contents of freed memory."""
    return bytearray(b"\1") * len(before(self, image))


@replaces(
    ToyDevice,
    "create_image",
    "R37-images",
    reason="an image that is wider than any device supports: expected ArgumentError, but no error was raised",
)
def unlimited_image(before, self, image):
    """An image that no device has is made."""
    return bytearray(min(image.nbytes, 1 << 20))


@replaces(
    ToyDevice,
    "write_image",
    "R37-images",
    reason="an image of rgba8unorm with the shape (4, 3) and 3 layers has other values after a copy from the host and back",
)
def layered_alike(before, self, image, data, stream):
    """All layers of an image are the first."""
    layers = max(image.layers, 1)
    before(self, image, bytes(data[: len(data) // layers]) * layers, stream)


@replaces(
    ToyDevice,
    "write_image",
    "R37-images",
    reason="an image of r8snorm with the shape (7, 5) has other values after a copy from the host and back",
)
def unsigned_texels(before, self, image, data, stream):
    """The texels of signed formats lose their sign."""
    values = np.frombuffer(data, image.texel.dtype)
    before(self, image, np.abs(values).tobytes(), stream)


def turned(data, image):
    """Return the rows of an image in the opposite order."""
    row = len(data) // image.extent[1]
    return b"".join(bytes(data[at : at + row]) for at in range(len(data) - row, -1, -row))


@replaces(
    ToyDevice,
    "write_image",
    "R37-sampled",
    "R37-written",
    reason=SAMPLED + "filter='nearest', address='clamp', …>: argument 1 is wrong in …",
)
def upside_down(before, self, image, data, stream):
    """The first row of an image is the last of its NumPy array."""
    before(self, image, turned(data, image), stream)


@upside_down.replaces(ToyDevice, "read_image")
def _(before, self, image, out, stream):
    out[:] = turned(image.handle, image)
