"""The description of one vendor's driver API: its names in messages, its error codes, and its
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# The numbers of these flags are the same in CUDA and HIP.
#: The flag of a stream that does not wait for the legacy default stream.
NON_BLOCKING = 1
#: The flag of an event without a time.
DISABLE_TIMING = 2
#: The flag of page-locked memory for all contexts.
PORTABLE = 1
#: The mode of a capture that other calls of the process, such as a free by the garbage collector,
#: do not end.
RELAXED_CAPTURE = 2
#: The number of the attribute of a launch whose blocks all run at once.
COOPERATIVE = 2
#: The handle of the default stream of each thread.
PER_THREAD_STREAM = 2
#: The kinds of memory that `Driver.locate` returns: page-locked memory of the host, and memory of a
#: device.
HOST, DEVICE = 1, 2


class DriverFunction(NamedTuple):
    """A function of a driver API, for ctypes.

    Attributes
    ----------
    name : str
        The name in messages and in the vendor's documentation.
    results, parameters : tuple
        The ctypes types of the results, which the function writes through pointers, and of the
        other parameters.
    symbol : str
        The symbol of the library, if it is not the name.
    results_last : bool
        Whether the pointers to the results come after the other parameters.
    """

    name: str
    results: tuple[Any, ...] = ()
    parameters: tuple[Any, ...] = ()
    symbol: str = ""
    results_last: bool = False


class Api(NamedTuple):
    """One vendor's driver API.

    Attributes
    ----------
    kind : str
        The kind of the modules, such as "cuda".
    title : str
        The platform in messages, such as "CUDA".
    name : str
        The API in messages, such as "CUDA" or "HIP".
    functions : mapping
        The function of each operation. An operation is a name that `Driver.call`,
        `Driver.create_into` or `Handles` takes.
    limits : mapping
        The number of the device attribute for each limit of a device.
    version_text : callable
        Returns a version number of the API as text: "12.8" for CUDA's 12080.
    error_name, error_text : str
        The symbols of the functions that return the name and the description of an error code.
    out_of_memory, not_ready, not_supported, not_found, implicit_capture : str
        The names of error codes. `implicit_capture` is that of the legacy default stream while a
        stream is captured that waits for it.
    wrong_context : tuple of str
        The errors of a launch whose thread has another context, or none.
    refusals : frozenset of str
        The errors of a load by which the device never runs the binary, such as one without a binary
        for it. A bundle then tries the next candidate. Memory that is full is none of them.
    sticky : frozenset of str
        The errors after which the driver refuses every later call of the process on the device.
    legacy_stream : int
        The handle of the legacy default stream. No library creates this stream, and the driver does
        not capture it.
    legacy_handles : tuple of int
        All handles of the legacy default stream.
    dlpack_types : tuple of int
        DLPack's device types of the memory that kernels can use.
    dlpack_streams : mapping
        DLPack's numbers of special streams, each with its handle. Other numbers over 2 are handles.
    dlpack_stream_text : str
        The values of ``stream=`` that a consumer of DLPack may pass, for the message.
    """

    kind: str
    title: str
    name: str
    functions: Mapping[str, DriverFunction]
    limits: Mapping[str, int]
    version_text: Callable[[int], str]
    error_name: str
    error_text: str
    out_of_memory: str
    not_ready: str
    not_supported: str
    not_found: str
    implicit_capture: str
    wrong_context: tuple[str, ...]
    refusals: frozenset[str]
    sticky: frozenset[str]
    legacy_stream: int
    legacy_handles: tuple[int, ...]
    dlpack_types: tuple[int, ...]
    dlpack_streams: Mapping[int, int]
    dlpack_stream_text: str


# -- The errors of a driver.


class DriverError(Exception):
    """An error code of the driver.

    Attributes
    ----------
    name : str
        The vendor's name, such as "CUDA_ERROR_INVALID_VALUE".
    text : str
        The vendor's description of it.
    call : str
        The function that returned it, such as "cuLaunchKernelEx".
    log : str
        The error log of the driver's compiler and linker, for the load of a module.
    """

    def __init__(self, name: str, text: str, call: str, log: str = "") -> None:
        self.name = name
        self.text = text
        self.call = call
        self.log = log
        super().__init__(f"{call}: {describe(self)}")


def describe(error: DriverError) -> str:
    """Return the vendor's name and description of an error: ``CUDA_ERROR_INVALID_VALUE (invalid
    argument)``.
    """
    if not error.text:
        return error.name
    return f"{error.name} ({error.text})"
