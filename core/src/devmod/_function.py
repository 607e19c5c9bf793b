"""Functions: what a call checks, converts and launches, the same for every backend.

The path of a call whose arguments are plain (device arrays of the exact type, ints and floats, a shape seen before) is
`Function.__call__` and nothing else. Whatever is not plain goes to `_Call`, which does everything and words the errors.
"""

from __future__ import annotations

from struct import error as struct_error

from devmod._arguments import Plan
from devmod._array import DeviceArray
from devmod._once import Once
from devmod._shape import ShapeReader
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._device import Device, Stream
    from devmod._info import FunctionInfo
    from devmod._launcher import Kernel, Launcher

    Dims = int | Sequence[int] | None

#: How many shapes of launch are remembered with all that was found out about them.
_REMEMBERED = 256


class Local:
    """Memory that the threads of a block share, as an argument: OpenCL's ``__local`` and Metal's threadgroup pointers.

    Parameters
    ----------
    nbytes
        Its size in bytes, 1 or more.

    Raises
    ------
    ArgumentError
        `nbytes` is no such number.
    """

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        try:
            number = nbytes.__index__()
        except (AttributeError, TypeError):
            number = 0
        if number < 1:
            raise ArgumentError(f"Local(nbytes) takes a number of bytes from 1 up, not {nbytes!r}", argument="nbytes")
        self.nbytes = number

    def __repr__(self) -> str:
        return f"Local({self.nbytes})"


class Function:
    """A function of a module, ready to be called. `Module.get_function` gives it.

    Attributes
    ----------
    name : str
        The name that callers use.
    info : FunctionInfo
        What is known of it.
    """

    __slots__ = ("__weakref__", "_count", "_fast", "_kernels", "_launcher", "_plan", "_ready", "_shapes", "info", "name")

    def __init__(self, name: str, info: FunctionInfo, launcher: Launcher) -> None:
        self.name = name
        self.info = info
        self._launcher = launcher
        plan = Plan(info, interface=launcher.interface, bool_bytes=launcher.bool_bytes, vec3_lanes=launcher.vec3_lanes)
        self._plan = plan
        self._shapes = ShapeReader(self.described, launcher, plan)
        self._kernels = Once()
        # For each argument the converter of plain scalars, or None and what is plain: a device array of that element type ("" any),
        # a Local, or nothing (None).
        self._fast = tuple((each.fast, _PLAIN.get(each.kind, each.type if each.kind == "buffer" else None)) for each in plan.arguments)
        self._count = len(plan.arguments)
        #: (device, grid, block, stream) as a plain call has them, to all that it takes to enqueue.
        self._ready: dict[Any, tuple[Callable[[Stream, Any, list[Any]], None], Stream, Any]] = {}

    @property
    def described(self) -> str:
        """The function in a message, as in ``the opencl function 'vadd'``."""
        return f"the {self._launcher.kind} function {self.name!r}"

    def __call__(self, *args: Any, grid: Dims = None, block: Dims = None, stream: Stream | None = None, shared_memory: int = 0) -> None:
        """Launch the function.

        Parameters
        ----------
        *args
            The arguments in order: arrays (NumPy, buffers, DLPack on the host, devmod's, the backend's own), numbers, sequences of
            lanes, bytes of a struct, `Local`. TVM's launch values may follow as plain integers in place of `grid` and `block`.
        grid
            Blocks in x, y, z: an int or up to three. A zero launches nothing.
        block
            Threads of a block in x, y, z. It may be left out where the payload fixes it.
        stream
            Where it is queued; the device's default stream.
        shared_memory
            Dynamic shared memory in bytes, for kinds that have it.

        Notes
        -----
        With any array of the host the call returns after what was written is copied back. With device arrays alone it returns
        when the launch is queued.

        Raises
        ------
        ArgumentError
            An argument is wrong; the message names it. Nothing was launched.
        LaunchError
            The device's limits or its driver refuse the launch.
        """
        if len(args) == self._count and shared_memory == 0:
            values: list[Any] = []
            put = values.append
            device = ready = None
            try:
                # The loop that every launch pays for: about 90 ns an argument.
                for value, (pack, want) in zip(args, self._fast):  # noqa: B905 - the lengths are equal, and strict= costs 100 ns
                    if pack is not None:
                        kind = type(value)
                        if kind is not int and kind is not float:
                            break
                        put(pack(value))
                    elif type(value) is DeviceArray:
                        if want is not value.dtype and want != value.dtype and want != "":
                            break
                        if device is not value.device:
                            if device is not None:
                                break
                            device = value.device
                        put(value.memory)
                    elif want is Local and type(value) is Local:
                        put(self._launcher.local(value.nbytes))
                    else:
                        break
                else:
                    ready = self._ready.get((device, grid, block, stream))
            except (struct_error, OverflowError, TypeError, ValueError):
                pass  # a number out of range, a grid that is a list: the long way finds the words for it
            if ready is not None:
                enqueue, where, shape = ready
                enqueue(where, shape, values)
                return
        from devmod._call import Call

        Call(self, args, grid, block, stream, shared_memory).launch()

    def bind(self, *args: Any, grid: Dims = None, block: Dims = None, stream: Stream | None = None, shared_memory: int = 0) -> Launch:
        """A prepared launch: everything is checked now, and calling it does nothing but launch.

        Parameters
        ----------
        *args
            As in a call, but arrays must be in the device's memory. The Launch holds them.
        grid, block, stream, shared_memory
            As in a call.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call; and for an array of the host.
        """
        from devmod._call import Call

        call = Call(self, args, grid, block, stream, shared_memory, bound=True)
        assert call.where is not None
        return Launch(self, call.kernel, call.where, call.shape, call.values, args)

    def specialize(self, **constants: object) -> Function:
        """The function with constants set: defines of a source payload, a pipeline's constants.

        Raises
        ------
        ArgumentError
            There is no such constant, or a value does not fit it.
        LaunchError
            A payload of this format cannot be specialized.
        """
        return Function(self.name, self.info, self._launcher.specialized(constants))

    def open(self, device: Device | None = None) -> Kernel:
        """The kernel for a device (default: the kind's first), built at the first use, once for all threads.

        Raises
        ------
        DeviceNotFoundError, CompileError, FormatError
            It cannot be had there, and why.
        """
        where = device if device is not None else self._launcher.default_device()
        kernel: Kernel = self._kernels.get(where, lambda: self._launcher.kernel(where))
        return kernel

    def _remember(self, key: tuple[Any, ...], kernel: Kernel, stream: Stream, shape: Any) -> None:
        """Keep what a plain call of this shape needs, so that the next one takes the short path."""
        if len(self._ready) >= _REMEMBERED:
            self._ready.clear()
        try:
            self._ready[key] = (kernel.enqueue, stream, shape)
        except TypeError:
            return  # a grid given as a list cannot be a key

    def __repr__(self) -> str:
        return f"<Function {self._launcher.kind} {self.name}({self._plan.signature})>"


class Launch:
    """A prepared launch, made by `Function.bind`. Calling it queues the launch and returns.

    It holds the arrays that it was bound to. It may be called again before the last launch has finished, and by several
    threads.

    Attributes
    ----------
    function : Function
        What it launches.
    """

    __slots__ = ("__weakref__", "_arguments", "_kernel", "_run", "_shape", "_stream", "_values", "function")

    def __init__(
        self, function: Function, kernel: Kernel, stream: Stream, shape: Any, values: Sequence[Any], arguments: Sequence[Any]
    ) -> None:
        self.function = function
        self._kernel, self._stream, self._shape = kernel, stream, shape
        self._values, self._arguments = values, arguments
        self._run = _nothing if shape is None else kernel.prepare(stream, shape, values)

    def __call__(self) -> None:
        """Queue the launch; LaunchError where the driver refuses it."""
        try:
            self._stream.last = self._run()
        except Exception as error:
            raise self._kernel.failed(error) from error

    def time(self) -> float:
        """Launch once, wait, and give the seconds that it took on the device (0.0 for an empty grid).

        Raises
        ------
        LaunchError
            The driver refuses the launch, or reports a fault.
        """
        return 0.0 if self._shape is None else self._kernel.time(self._stream, self._shape, self._values)

    def __repr__(self) -> str:
        return f"<Launch of {self.function!r} on {self._stream.device}>"


def _nothing() -> None:
    """What an empty grid launches."""


#: The kinds of argument whose plain value is not an array.
_PLAIN: dict[str, type] = {"local": Local}
