"""Calls of the stand-in HIP runtime through ctypes, with the signatures of `calls.md`, for its own
tests.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

import devmod_standins
from devmod_standins import libamdhip64

_CALLS = resources.files(devmod_standins) / "libamdhip64" / "calls.md"
_TYPES = {
    "size_t": ctypes.c_size_t,
    "unsigned long long": ctypes.c_uint64,
    "unsigned int": ctypes.c_uint,
}
_HANDLES = re.compile(r"hip(Ctx|Module|Function|Stream|Event|Graph|GraphNode|GraphExec|HostFn)_t")
#: Numbers of errors.
(
    SUCCESS,
    INVALID_VALUE,
    OUT_OF_MEMORY,
    INVALID_CONFIGURATION,
    INVALID_IMAGE,
    NO_BINARY,
    INVALID_HANDLE,
    NOT_FOUND,
    NOT_READY,
    ILLEGAL_ADDRESS,
    LAUNCH_TIMEOUT,
    LAUNCH_FAILURE,
    TOO_LARGE,
    NOT_SUPPORTED,
) = (0, 1, 2, 9, 200, 209, 400, 500, 600, 700, 702, 719, 720, 801)


@cache
def signatures() -> dict[str, str]:
    """Return the parameters of each function of the list."""
    return dict(
        re.findall(r"^[\w *]*?(hip\w+)\((.*?)\);", _CALLS.read_text(encoding="utf-8"), re.MULTILINE)
    )


def _type_of(parameter: str) -> Any:
    if "*" in parameter or _HANDLES.search(parameter):
        return ctypes.c_void_p
    base = parameter.rpartition(" ")[0]
    return _TYPES.get(
        base,
        {"unsigned char": ctypes.c_ubyte, "unsigned short": ctypes.c_ushort}.get(
            base, ctypes.c_int
        ),
    )


@cache
def _function(name: str) -> Any:
    function = getattr(libamdhip64.load().api, name)
    parameters = signatures()[name]
    function.argtypes = (
        [] if parameters == "void" else [_type_of(each) for each in parameters.split(", ")]
    )
    if name in {"hipGetErrorName", "hipGetErrorString", "hipKernelNameRef"}:
        function.restype = ctypes.c_char_p
    return function


class _Hip:
    """The functions of the runtime: each returns the code of its error."""

    def __getattr__(self, name: str) -> Any:
        return _function(name)


hip: Any = _Hip()


def check(code: int) -> None:
    """Raise an error unless a call has succeeded."""
    assert code == SUCCESS, (hip.hipGetErrorName(code), libamdhip64.load().reason)


def made(function: Any, *arguments: Any) -> int:
    """Return the handle or pointer that a function writes to its first argument."""
    result = ctypes.c_void_p()
    check(function(ctypes.byref(result), *arguments))
    return result.value or 0


def allocate(array: np.ndarray[Any, Any]) -> int:
    """Return device memory with the bytes of an array."""
    pointer = made(hip.hipMalloc, array.nbytes)
    check(hip.hipMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
    check(hip.hipDeviceSynchronize())
    return pointer


def read(pointer: int, count: int = 4, dtype: Any = np.int32) -> list[Any]:
    """Return the numbers at a device pointer, with no wait for any stream but the null stream."""
    result = np.zeros(count, dtype)
    check(hip.hipMemcpyDtoH(result.ctypes.data, pointer, result.nbytes))
    return list(result.tolist())


def stream(flags: int = 1) -> int:
    """Return a new stream, which does not wait for the null stream."""
    return made(hip.hipStreamCreateWithFlags, flags)


def function_of(code: bytes, name: str) -> int:
    """Return a kernel of a code object."""
    return made(hip.hipModuleGetFunction, made(hip.hipModuleLoadData, code), name.encode())


def launch_block(
    function: int,
    block: bytes,
    grid: Any = (1, 1, 1),
    threads: Any = (1, 1, 1),
    shared: int = 0,
    stream: int = 0,
) -> int:
    """Launch with a block of arguments and return the code."""
    buffer, size = ctypes.create_string_buffer(block, len(block)), ctypes.c_size_t(len(block))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
    code: int = hip.hipModuleLaunchKernel(function, *grid, *threads, shared, stream, None, extra)
    return code
