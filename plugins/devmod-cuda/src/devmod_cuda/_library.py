"""libcuda by ctypes: calls of its symbols, and the errors of the driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class DriverError(Exception):
    """An error code of the driver.

    Attributes
    ----------
    name : str
        CUDA's name, such as "CUDA_ERROR_INVALID_VALUE".
    text : str
        CUDA's description of it.
    call : str
        The function that returned it, such as "cuLaunchKernelEx".
    log : str
        The error log of the driver's compiler and linker, for `Driver.load_module`.
    """

    def __init__(self, name: str, text: str, call: str, log: str = "") -> None:
        super().__init__(f"{call}: {name} ({text})" if text else f"{call}: {name}")
        self.name = name
        self.text = text
        self.call = call
        self.log = log


class Failures(dict):  # type: ignore[type-arg]
    """A function of C for the result of a call: its ``__getitem__`` returns for a success, and calls a Python function otherwise.

    Parameters
    ----------
    success
        The result of a success.
    handle
        The function for other results. It repeats the call or raises DriverError.
    """

    def __init__(self, success: object, handle: Callable[[Any], None]) -> None:
        super().__init__({success: None})
        self._handle = handle

    def __missing__(self, result: Any) -> None:
        self._handle(result)


class Symbols:
    """The functions of libcuda by name.

    Parameters
    ----------
    library
        ctypes' CDLL of the libcuda that the process has opened.
    """

    def __init__(self, library: Any) -> None:
        self.library = library

    def symbol(self, name: str) -> Any:
        """Return a new object of ctypes for a symbol; CUDA_ERROR_NOT_SUPPORTED if the driver lacks it."""
        try:
            return self.library[name]  # a new object each time, unlike an attribute
        except AttributeError:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "this driver has no such function", name) from None

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function with arguments of ctypes."""
        status = self.symbol(name)(*arguments)
        if status:
            raise self.error(name, status)

    def error(self, call: str, status: int) -> DriverError:
        """Return the error for a status that is not CUDA_SUCCESS."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            self.symbol(name)(c_int(status), byref(text))
            texts.append((text.value or b"").decode())
        return DriverError(texts[0] or f"error {status}", texts[1], call)

    def encode_tensor_map(
        self,
        dtype: int,
        pointer: int,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int],
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        fill: int = 0,
    ) -> bytes:
        """Return the 128 bytes of a tensor map. The numbers are those of ``cuTensorMapEncodeTiled``; `strides` has one fewer, in bytes."""
        rank = len(shape)
        memory = ctypes.create_string_buffer(128 + 63)
        start = -ctypes.addressof(memory) % 64  # a CUtensorMap is aligned to 64 bytes, which that of cuda-bindings is not
        self.check(
            "cuTensorMapEncodeTiled",
            c_void_p(ctypes.addressof(memory) + start),
            c_int(dtype),
            c_uint(rank),
            c_void_p(pointer),
            (c_uint64 * rank)(*shape),
            (c_uint64 * rank)(*strides),
            (c_uint * rank)(*box),
            (c_uint * rank)(*element_strides),
            *map(c_int, (interleave, swizzle, l2_promotion, fill)),
        )
        return memory.raw[start : start + 128]
