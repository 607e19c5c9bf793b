"""The formats of images. Readers, compilers and runtimes have them from here; a backend adds the
numbers of its driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: The filters and the address modes of samplers.
FILTERS = ("nearest", "linear")
ADDRESS_MODES = ("clamp", "repeat", "mirror", "border")

#: For each encoding: the class of the element type, the sample, and the bits of a channel.
_ENCODINGS = {
    "unorm": ("uint", "float", (8, 16)),
    "snorm": ("int", "float", (8, 16)),
    "uint": ("uint", "uint", (8, 16, 32)),
    "sint": ("int", "int", (8, 16, 32)),
    "float": ("float", "float", (16, 32)),
}


class ImageFormat(NamedTuple):
    """The format of an image's texels.

    Attributes
    ----------
    order : str
        The channels of a texel in their order in memory: "r", "rg", "rgba" or "bgra".
    bits : int
        The bits of a channel: 8, 16 or 32.
    encoding : str
        What a channel's bits mean: "unorm", "snorm", "uint", "sint" or "float".
    dtype : str
        The element type of the image's NumPy array.
    sample : str
        What a kernel reads and writes: "float", "int" or "uint".
    """

    order: str
    bits: int
    encoding: str
    dtype: str
    sample: str

    @property
    def name(self) -> str:
        """WebGPU's name, such as "rgba8unorm"."""
        return f"{self.order}{self.bits}{self.encoding}"

    @property
    def channels(self) -> int:
        """The numbers of a texel: 1, 2 or 4."""
        return len(self.order)

    @property
    def texel_bytes(self) -> int:
        """The bytes of a texel."""
        return self.channels * self.bits // 8


def _formats() -> Iterator[ImageFormat]:
    for order in ("r", "rg", "rgba"):
        for bits in (8, 16, 32):
            for encoding, (base, sample, sizes) in _ENCODINGS.items():
                if bits in sizes:
                    yield ImageFormat(order, bits, encoding, f"{base}{bits}", sample)
    yield ImageFormat("bgra", 8, "unorm", "uint8", "float")


# Where to change: an image format
#   also: the driver's numbers, where they do not follow from the name: `_image.py`, `_images.py` or
#     `_textures.py` of the backend; `compilers/readers/src/devmod_readers/spirv/_reflect.py` for
#     SPIR-V; `extras/browser/js/src/formats.js` has the browser's copy; `tests/spec_reader.py`;
#     `docs/images.md`, `docs/formats.md`
#   tests: `core/tests/test_image_formats.py`, `plugins/devmod-vulkan/tests/test_images.py`,
#     `tests/test_browser_images.py`
#: All formats by name.
IMAGE_FORMATS = {each.name: each for each in _formats()}
