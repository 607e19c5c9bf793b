"""What this backend asks of Metal: the whole of it, and no more.

Everything else here is written against `Metal`; `devmod_metal._driver` is it on pyobjc's framework, and the tests' double is it on machines
that have none. The objects that it hands out (devices, queues, buffers, libraries, pipelines, commands, events) are opaque to the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Dims = tuple[int, int, int]


class Refused(Exception):
    """Metal refuses something; the text is what it says."""


class Facts(NamedTuple):
    """What a device says of itself; the last three are its limits."""

    name: str
    system: str
    memory: int
    threads: Dims
    threadgroup_memory: int
    buffer_length: int


class Pipeline(NamedTuple):
    """A pipeline, the most threads that its threadgroups may have, and the threadgroup memory that its kernel declares itself."""

    handle: Any
    most_threads: int
    own_memory: int


class Constant(NamedTuple):
    """A function constant that is set: the index it is at, its type such as "int32", its bytes."""

    at: int
    type: str
    data: bytes


class Metal(Protocol):
    """Metal, as far as it is needed. What it refuses is raised as `Refused`."""

    def devices(self) -> Sequence[Any]:
        """All devices of this machine, the one to be used first at the front."""

    def facts(self, device: Any) -> Facts:
        """What the device says of itself."""

    def queue(self, device: Any) -> Any:
        """A new command queue."""

    def buffer(self, device: Any, nbytes: int) -> Any:
        """A new buffer in memory that host and device share."""

    def contents(self, buffer: Any, nbytes: int) -> memoryview:
        """The bytes of a buffer, writable and not copied. They are good as long as the buffer lives."""

    def compile(self, device: Any, text: str, options: Sequence[str]) -> Any:
        """The library of a source. What is refused is the compiler's whole log."""

    def load(self, device: Any, data: bytes) -> Any:
        """The library in a metallib."""

    def functions(self, library: Any) -> Sequence[str]:
        """The names of a library's functions."""

    def pipeline(self, device: Any, library: Any, name: str, constants: Sequence[Constant]) -> Pipeline:
        """The pipeline of a function with constants set."""

    def launch(
        self,
        queue: Any,
        pipeline: Any,
        buffers: Sequence[tuple[int, Any]],
        values: Sequence[tuple[int, bytes]],
        local: Sequence[tuple[int, int]],
        grid: Dims,
        block: Dims,
    ) -> Any:
        """Commit one launch: each buffer at its index, the bytes of values at theirs, threadgroup memory in bytes; its commands."""

    def event(self, device: Any) -> Any:
        """A new event, its value 0, that queues of all devices can signal and wait for."""

    def signal(self, queue: Any, event: Any, value: int) -> Any:
        """Commit commands that set an event to a value when all before them in the queue is done; those commands."""

    def wait_for(self, queue: Any, event: Any, value: int) -> Any:
        """Commit commands that hold the queue until an event has a value; those commands."""

    def wait(self, commands: Any) -> None:
        """Wait on the host until commands are done, whether they failed or not."""

    def done(self, commands: Any) -> bool:
        """Whether commands are done, whether they failed or not."""

    def failure(self, commands: Any) -> str:
        """What went wrong with commands that are done; "" where nothing did."""

    def times(self, commands: Any) -> tuple[float, float]:
        """When the device began and ended commands that are done, in seconds of its clock."""


_chosen: list[Metal] = []


def metal() -> Metal:
    """Metal, opened when it is first asked for.

    Raises
    ------
    DeviceNotFoundError
        It cannot be had here; the message says why. Asking again later is fine.
    """
    if not _chosen:
        from devmod_metal import _driver

        _chosen.append(_driver.Framework())
    return _chosen[0]
