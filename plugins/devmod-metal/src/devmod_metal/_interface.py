"""The values that `devmod_metal._driver.Framework` takes and returns, and its error. This file imports no Metal."""

from __future__ import annotations

from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    Dims = tuple[int, int, int]


class MetalError(Exception):
    """An error of Metal; the text is Metal's."""


class DeviceProperties(NamedTuple):
    """The properties of a device; the last three are its limits."""

    name: str
    system: str
    memory: int
    threads: Dims
    threadgroup_memory: int
    buffer_length: int


class Pipeline(NamedTuple):
    """A pipeline, the maximum of threads in a threadgroup, the threadgroup memory that its kernel declares, and its execution width."""

    handle: Any
    max_threads: int
    static_memory: int
    execution_width: int = 32


class ConstantValue(NamedTuple):
    """The value of a function constant: its index, its type such as "int32", its bytes."""

    at: int
    type: str
    data: bytes
