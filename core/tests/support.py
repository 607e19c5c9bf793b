"""Functions for several tests of core. pytest's `pythonpath` has this folder."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import devmod
from devmod._plugins.specs import find_spec

KINDS = ("cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu")
MAP_KINDS = ("metal", "vulkan", "webgpu")
#: Element types that NumPy has, and shapes of arrays.
NUMBERS = (
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
    "complex64",
    "complex128",
)
SHAPES: tuple[tuple[int, ...], ...] = ((), (4,), (2, 3), (3, 0, 2), (0,), (2, 1, 2, 2))
#: For the tests that export arrays to NumPy's `from_dlpack`, whose results before 2.2 are
#: read-only, and before 2.1 has no options.
needs_dlpack_1 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.2.0",
    reason="NumPy before 2.2 has a part of DLPack 1 alone",
)


def sample(kind: str) -> tuple[Any, str, dict[str, devmod.FunctionInfo]]:
    """(code, fmt, fmap) of a payload of that kind with one function `add`; the code is no real
    program.
    """
    spec = find_spec(kind)
    assert spec is not None
    fmt = spec.formats[0]
    binary = (
        b"\x00\x00\x00\x00\x01" + bytes(7) + b"\x03\x02\x23\x07"
        if kind == "vulkan"
        else b"// a payload of " + kind.encode()
    )
    info = devmod.FunctionInfo(
        "add_kernel", ["handle", "handle", "float32"], ["blockIdx.x", "threadIdx.x"]
    )
    return {"add": binary} if spec.shader_map else binary, fmt, {"add": info}


def runner_commands(text: str) -> list[str]:
    """Return the lines in which a CI runner finds a command."""
    lines = [
        line.encode("ascii", "ignore").decode().lstrip() for line in re.split(r"\r\n|\r|\n", text)
    ]
    return [
        line
        for line in lines
        if re.match(r"::.*::", line) or re.search(r"##(vso|teamcity)?\[.*\]", line)
    ]
