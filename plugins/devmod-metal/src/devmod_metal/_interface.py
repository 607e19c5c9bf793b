"""The values that `devmod_metal._driver.Framework` takes and returns, and its error. This file
imports no Metal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    Dims = tuple[int, int, int]


class MetalError(Exception):
    """An error of Metal; the text is Metal's."""


class DeviceProperties(NamedTuple):
    """The properties of a device: its name, the system, its memory, and limits.

    `read_write_tier` is its MTLReadWriteTextureTier; `filters_float32` is its
    supports32BitFloatFiltering.
    """

    name: str
    system: str
    memory: int
    threads: Dims
    threadgroup_memory: int
    buffer_length: int
    read_write_tier: int
    filters_float32: bool
    has_simdgroups: bool


class TextureProperties(NamedTuple):
    """The properties of a texture: its device, and those of a `devmod.Image`.

    `type` is the number of Metal's MTLTextureType, and `format` that of MTLPixelFormat, if devmod
    has no such images. `usage` has the names of the usages that it lacks.
    """

    device: Any
    type: str | int
    format: str | int
    extent: Dims
    layers: int
    missing_usage: tuple[str, ...]


class Pipeline(NamedTuple):
    """A pipeline, the maximum of threads in a threadgroup, the threadgroup memory that its kernel
    declares, and its execution width.
    """

    handle: Any
    max_threads: int
    static_memory: int
    execution_width: int = 32


class ConstantValue(NamedTuple):
    """The value of a function constant: its index, its type such as "int32", its bytes."""

    at: int
    type: str
    data: bytes
