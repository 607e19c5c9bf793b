"""The payloads of ROCm: code objects and HIP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from devmod.errors import ToolchainNotFoundError
from devmod_readers.amdgpu import check_code_object, read_code_object
from devmod_readers.offload import is_container, read_images
from devmod_readers.payloads import check_names, check_source
from devmod_readers.payloads._dimensions import CUDA_CPP, text_dimensions

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    if fmt == "hip":
        return check_source("rocm", fmt, data, functions)
    try:
        names = _names(data)
    except ToolchainNotFoundError:  # what decompresses it is not installed here
        return False
    check_names("rocm", fmt, names, functions)
    return True


def _names(data: Binary) -> list[str]:
    images: list[Binary] = [data]
    if is_container(data):
        images = [each.data for each in read_images(data) if each.fmt == "hsaco"]
    names: list[str] = []
    for image in images:
        kernels = read_code_object(image)
        check_code_object(image, [each.symbol for each in kernels.values()])
        names += kernels
    return names


#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"hip": CUDA_CPP})
