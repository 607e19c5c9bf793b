"""Devices: the base class of each backend's own.

A backend's Device implements `allocate`, `write`, `read` and the streams. Core implements arrays (`DeviceArray`); an array holds the
object that `allocate` returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from devmod._device.array import DeviceArray, HostArray
from devmod._device.elements import dtype_name_of, dtype_of, elements_of, shape_of
from devmod._util.html import html_table
from devmod._util.text import escape_line
from devmod._values.dtypes import array_bytes, parse_dtype
from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod._device.array import Array
    from devmod._device.stream import Stream
else:
    from devmod._util.numpy import np


class Device(ABC):
    """A device of one kind. `devmod.device` returns one; the device allocates nothing before its first use.

    Attributes
    ----------
    kind : str
        The backend's kind, such as "opencl".
    index : int
        The device's number among the devices of its kind.
    name, vendor, driver_version : str
        The texts that the driver reports.
    memory : int
        The device's memory in bytes; 0 if the driver's interface does not report it (WebGPU).
    limits : Mapping[str, int]
        The limits of a launch by name, as errors name them.
    arch : str
        The architecture by which variants are chosen (R40), such as "sm_90"; "" if the kind has none.
    dlpack_type : int
        DLPack's device type.
    """

    kind: str
    index: int
    name: str = ""
    vendor: str = ""
    driver_version: str = ""
    memory: int = 0
    limits: Mapping[str, int] = {}
    arch: str = ""
    dlpack_type: int = 12  # kDLExtDev: a kind without a number in DLPack

    # -- implemented by a backend

    @property
    @abstractmethod
    def default_stream(self) -> Stream:
        """The stream of every launch that names none; the same object each time."""

    @abstractmethod
    def stream(self) -> Stream:
        """Return a new stream."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all streams of the device are done. Raise LaunchError for a failure that the device reports."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Return memory of at least `nbytes` (1 or more) bytes. The memory is freed with the returned object.

        Raises
        ------
        LaunchError
            The device has too little free memory; the message has the number of bytes.
        """

    @abstractmethod
    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        """Copy `data` (bytes, contiguous, not empty) to the start of `memory`, in the stream's order.

        The caller may change `data` as soon as this method returns.
        """

    @abstractmethod
    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        """Copy the start of `memory` to `out` (bytes, contiguous, not empty), in the stream's order, and wait for the copy."""

    def view(self, memory: Any) -> memoryview | None:
        """Return a writable view of `memory` from the host, without a copy; None if host and device do not share memory.

        The view keeps `memory` alive.
        """
        return None

    # -- implemented by core

    def empty(self, shape: int | Sequence[int], dtype: object) -> Array:
        """Return an uninitialized array.

        Parameters
        ----------
        shape
            A length, or one for each dimension.
        dtype
            A name such as "float32" or "float32x4", or a NumPy dtype.

        Raises
        ------
        ArgumentError
            `shape` or `dtype` is invalid.
        LaunchError
            The device has too little free memory.
        """
        lengths, name = shape_of(shape), dtype_of(dtype)
        nbytes = array_bytes(parse_dtype(name), lengths)
        return DeviceArray(self, self.allocate(max(nbytes, 1)), lengths, name)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Array:
        """Copy a NumPy array, or any object that ``numpy.asarray`` accepts, to this device.

        Raises
        ------
        ArgumentError
            No device supports the element type.
        LaunchError
            The device has too little free memory.
        """
        if isinstance(array, HostArray):
            data, shape, dtype = array.data, array.shape, array.dtype
        else:
            try:
                flat = np.asarray(array)
                dtype = dtype_name_of(flat.dtype)
            except (FormatError, TypeError, ValueError) as error:  # NumPy raises the last two for an object that is no array
                raise ArgumentError(f"from_numpy takes an array of numbers: {error}", argument="array") from None
            shape, data = flat.shape, elements_of(np.ascontiguousarray(flat))
        result = DeviceArray(self, self.allocate(max(data.nbytes, 1)), shape, dtype)
        if data.nbytes:
            self.write(result.memory, data, self.default_stream)
        return result

    def __repr__(self) -> str:
        return escape_line(f"{self.kind} device {self.index} ({self.name})")

    def _repr_html_(self) -> str:
        rows = [("name", self.name), ("vendor", self.vendor), ("driver", self.driver_version), ("architecture", self.arch)]
        rows.append(("memory", f"{self.memory:,} bytes" if self.memory else ""))
        return html_table(f"{self.kind} device {self.index}", [row for row in rows if row[1]])
