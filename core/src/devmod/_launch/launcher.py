"""What a backend gives so that its functions can be called: a Launcher for each function, a Kernel for each device.

Core (`devmod._launch.function`) checks and converts every argument, moves host arrays, parses grid and block, chooses device and
stream, and builds once for all threads. A backend turns the result into one call of its driver:

- a Launcher finds or builds the kernel of one function for a device;
- a Kernel checks a launch's shape against the device's limits once, and enqueues.

A kernel's values come in the order of the arguments: for a buffer the object that `Device.allocate` returned, for a scalar its
bytes in little-endian order, for a `Local` what `Launcher.local` made of it. A backend whose scalars lie in blocks of memory
makes them of these with `block_packer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod._info import Interface
    from devmod._memory.array import DeviceArray
    from devmod._memory.device import Device, Stream

    Dims = tuple[int, int, int]


class LaunchShape:
    """The shape of a launch, all of it checked but for the device's limits.

    Attributes
    ----------
    grid : tuple of int
        Blocks in x, y, z; each 1 or more.
    block : tuple of int
        Threads of a block in x, y, z; each 1 or more.
    cluster : tuple of int
        Blocks of a cluster in x, y, z; (1, 1, 1) where nothing asks for one.
    shared_memory : int
        Dynamic shared memory in bytes.
    """

    __slots__ = ("block", "cluster", "grid", "shared_memory")

    def __init__(self, grid: Dims, block: Dims, cluster: Dims = (1, 1, 1), shared_memory: int = 0) -> None:
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.shared_memory = shared_memory

    @property
    def key(self) -> tuple[object, ...]:
        """All of it, to be compared."""
        return (self.grid, self.block, self.cluster, self.shared_memory)


class Kernel(ABC):
    """One function on one device, ready to be enqueued. Its methods may be called by several threads at once."""

    @abstractmethod
    def shape(self, launch: LaunchShape) -> Any:
        """The launch's shape as the other methods want it. Core keeps what is returned and hands it in again.

        Raises
        ------
        LaunchError
            The device cannot launch this; the message names the limit, its value, and what was asked for.
        """

    @abstractmethod
    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        """A function that queues one launch with the values it is given, and returns.

        Core makes it once for a stream and a shape, keeps it, and calls it for every such call. What the values hold must
        stay valid in the driver until the launch is done. It raises LaunchError where the driver refuses.
        """

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        """A function that queues this one launch each time it is called, with as little work as there can be.

        Several threads may call it, and again before the last launch has finished. Best is a functools.partial of the
        driver's own function: then no line of Python runs in a launch. What it returns is nobody's business, and what the
        driver raises comes through.
        """
        call, kept = self.caller(stream, shape), tuple(values)
        return lambda: call(kept)

    @abstractmethod
    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        """Launch once, after what the stream holds, wait, and give the seconds that it took on the device."""


class Launcher(ABC):
    """What a backend gives for one function. Its attributes say what holds for all functions of the kind.

    Attributes
    ----------
    kind : str
        The backend's kind, as messages name it.
    has_grid : bool
        Whether a launch has a grid and a block.
    bool_bytes, vec3_lanes : int
        The bytes of a bool, and the lanes that a three-vector takes (`devmod._launch.scalars.packer`).
    no_shared_memory : str
        Why ``shared_memory=`` is refused, as the end of a sentence; "" where it is taken.
    """

    kind: str
    has_grid: bool = True
    bool_bytes: int = 1
    vec3_lanes: int = 4
    no_shared_memory: str = "this kind has no dynamic shared memory"

    @property
    def interface(self) -> Interface | None:
        """An interface that stands for a missing one (a kind with a fixed rule for TVM's modules); None for none."""
        return None

    @abstractmethod
    def default_device(self) -> Device:
        """The device of a call that names none.

        Raises
        ------
        DeviceNotFoundError
            There is none.
        """

    @abstractmethod
    def kernel(self, device: Device) -> Kernel:
        """The function on that device, built where it must be. Core asks once a device, whatever the number of threads.

        Raises
        ------
        CompileError, FormatError, DeviceNotFoundError
            It cannot be had there, and why.
        """

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        """A devmod array over an array of the backend's own libraries (no copy); None for what is not one.

        With it comes the stream that the library queues its work on; None where that is not known, in which case a call waits
        for the launch before it returns. Untyped memory has the element type "void" and one element a byte.

        Raises
        ------
        Unfit
            It is one, and cannot be used (strided, of another context); the text ends a sentence that begins with the argument.
        """
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        """A Stream over a stream of the backend's own libraries; None for what is not one."""
        return None

    def local(self, nbytes: int) -> Any:
        """The value of a `Local` of so many bytes.

        Raises
        ------
        Unfit
            This kind takes none; the text ends a sentence that begins with the argument.
        """
        from devmod._launch.scalars import Unfit

        raise Unfit("is a Local, which this kind does not take")

    def specialized(self, constants: Mapping[str, object]) -> Launcher:
        """A launcher of the function with constants of the source or of the pipeline set.

        Raises
        ------
        ArgumentError
            There is no such constant, or a value does not fit it.
        LaunchError
            This payload cannot be specialized.
        """
        from devmod.errors import LaunchError

        raise LaunchError(f"a {self.kind} function of this format cannot be specialized", kind=self.kind)
