"""The formats of images: WebGPU's names, and the elements and samples of each."""

from __future__ import annotations

import numpy as np
import pytest

from devmod.backend import IMAGE_FORMATS

pytestmark = pytest.mark.once

#: The formats of colours of WebGPU's specification whose channels have equal sizes.
NAMES = """
    r8unorm r8snorm r8uint r8sint r16unorm r16snorm r16uint r16sint r16float r32uint r32sint r32float
    rg8unorm rg8snorm rg8uint rg8sint rg16unorm rg16snorm rg16uint rg16sint rg16float rg32uint rg32sint rg32float
    rgba8unorm rgba8snorm rgba8uint rgba8sint rgba16unorm rgba16snorm rgba16uint rgba16sint rgba16float
    rgba32uint rgba32sint rgba32float bgra8unorm
"""
#: By the encoding: the type of the elements without its bits, and what a sampler returns.
ENCODINGS = {
    "unorm": ("uint", "float"),
    "snorm": ("int", "float"),
    "uint": ("uint", "uint"),
    "sint": ("int", "int"),
    "float": ("float", "float"),
}


def test_the_formats_are_those_of_webgpu() -> None:
    assert sorted(IMAGE_FORMATS) == sorted(NAMES.split())


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_says_what_a_texel_is(name: str) -> None:
    each = IMAGE_FORMATS[name]
    bits = "".join(filter(str.isdigit, name))
    base, sample = ENCODINGS[name.partition(bits)[2]]
    order = name.partition(bits)[0]
    assert (each.name, each.order, each.channels) == (name, order, len(order))
    assert (each.dtype, each.sample) == (f"{base}{bits}", sample)
    assert each.texel_bytes == len(order) * np.dtype(each.dtype).itemsize
