"""The interface of this backend to Metal.

The rest of the backend uses only `Metal`. `devmod_metal._driver` implements it with pyobjc; the double of the tests implements it on
machines without Metal. Its objects (devices, queues, buffers, libraries, pipelines, commands, events) are opaque to the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Metal(Protocol):
    """The operations of Metal that the backend needs. Each raises `MetalError` for an error of Metal."""

    def devices(self) -> Sequence[Any]:
        """Return all devices of this machine, the preferred one first."""

    def properties(self, device: Any) -> DeviceProperties:
        """Return the properties of a device."""

    def queue(self, device: Any) -> Any:
        """Create a command queue."""

    def buffer(self, device: Any, nbytes: int) -> Any:
        """Create a buffer in memory that host and device share."""

    def contents(self, buffer: Any, nbytes: int) -> memoryview:
        """Return the bytes of a buffer, writable and without a copy. They are valid while the buffer exists."""

    def compile(self, device: Any, text: str, options: Sequence[str]) -> Any:
        """Compile a source to a library. The text of an error is the compiler's whole log."""

    def load(self, device: Any, data: bytes) -> Any:
        """Load a metallib as a library."""

    def functions(self, library: Any) -> Sequence[str]:
        """Return the names of the functions of a library."""

    def pipeline(self, device: Any, library: Any, name: str, constants: Sequence[ConstantValue]) -> Pipeline:
        """Create the pipeline of a function with values for its constants."""

    def launch(
        self,
        queue: Any,
        pipeline: Any,
        buffers: Sequence[tuple[int, Any, int]],
        values: Sequence[tuple[int, bytes]],
        local: Sequence[tuple[int, int]],
        grid: Dims,
        block: Dims,
    ) -> Any:
        """Commit one launch and return its commands. Buffers, values and sizes of threadgroup memory each have an index.

        A buffer has the first byte of the argument in it.
        """

    def copy(self, queue: Any, source: Any, start: int, target: Any, offset: int, nbytes: int) -> Any:
        """Commit a copy from one buffer to another, and return its commands. All numbers are multiples of 4."""

    def address(self, buffer: Any) -> int:
        """Return the address of the buffer's object, as DLPack has it."""

    def allocated(self, device: Any) -> int:
        """Return the bytes that this process has allocated on a device."""

    def event(self, device: Any) -> Any:
        """Create an event with the value 0, for queues of all devices."""

    def signal(self, queue: Any, event: Any, value: int, scratch: Any) -> Any:
        """Commit commands that set an event to a value after all earlier commands of the queue, and return them.

        They also copy the first half of `scratch`, a buffer of 8 bytes, to the second, since commands without work may have no times.
        """

    def wait_for(self, queue: Any, event: Any, value: int) -> Any:
        """Commit commands that block the queue until an event has a value, and return them."""

    def wait(self, commands: Any) -> None:
        """Wait on the host until commands have completed or failed."""

    def is_complete(self, commands: Any) -> bool:
        """Return whether commands have completed or failed."""

    def failure(self, commands: Any) -> str:
        """Return the error of completed commands; "" if there is none."""

    def times(self, commands: Any) -> tuple[float, float]:
        """Return the start and the end of completed commands, in seconds of the device's clock."""
