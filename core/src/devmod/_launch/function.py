"""Functions: what a call checks, converts and launches, the same for every backend.

The path of a call whose arguments are plain (device arrays of the exact type, ints and floats, a shape seen before) is
`Function.__call__` and nothing else. Whatever is not plain goes to `_Call`, which does everything and words the errors.
"""

from __future__ import annotations

from functools import partial
from struct import error as struct_error

from devmod._launch.arguments import Plan
from devmod._launch.shape import ShapeReader
from devmod._once import Once
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._info import FunctionInfo
    from devmod._launch.arguments import Argument
    from devmod._launch.launcher import Kernel, Launcher
    from devmod._memory.device import Device, Stream

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

    __slots__ = (
        "__weakref__",
        "_count",
        "_first",
        "_kernels",
        "_launcher",
        "_packs",
        "_plan",
        "_ready",
        "_shapes",
        "_wants",
        "info",
        "name",
    )

    def __init__(self, name: str, info: FunctionInfo, launcher: Launcher) -> None:
        self.name = name
        self.info = info
        self._launcher = launcher
        plan = Plan(info, interface=launcher.interface, bool_bytes=launcher.bool_bytes, vec3_lanes=launcher.vec3_lanes)
        self._plan = plan
        self._shapes = ShapeReader(self.described, launcher, plan)
        self._kernels = Once()
        # What plain arguments are, by which the short path goes. Numbers and Locals: their exact type, and the converter. Buffers: the
        # element type ("" any), and None. The rest: a type that no array has, and None.
        plain = [self._plain(each) for each in plan.arguments]
        self._wants = tuple(want for want, _ in plain)
        self._packs = tuple(pack for _, pack in plain)
        self._first = next((each.number for each in plan.arguments if each.kind == "buffer"), -1)
        self._count = len(plan.arguments)
        #: (device, grid, block, stream) as a plain call has them, to the function that queues the launch.
        self._ready: dict[Any, Callable[[list[Any]], None]] = {}

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

        Raises
        ------
        ArgumentError
            An argument is wrong; the message names it. Nothing was launched.
        LaunchError
            The device's limits or its driver refuse the launch.

        Notes
        -----
        With any array of the host the call returns after what was written is copied back. With device arrays alone it returns
        when the launch is queued.
        """
        if len(args) == self._count and shared_memory == 0:
            values: list[Any] = []
            call = None
            first = self._first
            try:
                device = args[first].device if first >= 0 else None
                # The loop that every launch pays for: about 70 ns an argument. That something is a DeviceArray is seen from its
                # device being one of ours. The lengths are equal; strict= would cost 100 ns.
                for value, pack, want in zip(args, self._packs, self._wants):  # noqa: B905
                    if pack is None:
                        if value.device is not device or (want is not value.dtype and want):
                            break
                        values.append(value.memory)
                    else:
                        kind = type(value)
                        if kind is not want and (want is not float or kind is not int):
                            break
                        values.append(pack(value))
                else:
                    call = self._ready.get((device, grid, block, stream))
            # Another type, a number out of range, a grid that is a list: the long way finds the words for it.
            except (AttributeError, struct_error, OverflowError, TypeError, ValueError):
                pass
            if call is not None:
                call(values)
                return
        from devmod._launch.call import Call

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
        from devmod._launch.call import Call

        call = Call(self, args, grid, block, stream, shared_memory, bound=True)
        assert call.where is not None
        return Launch.of(self, call.kernel, call.where, call.shape, call.values, args)

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

    def caller(self, key: tuple[Any, ...], kernel: Kernel, stream: Stream, shape: Any) -> Callable[[list[Any]], None]:
        """The function that queues a launch. It is kept under `key`, so that the next plain call of this shape takes the short path."""
        made = kernel.caller(stream, shape)
        if len(self._ready) >= _REMEMBERED:
            self._ready.clear()
        try:
            return self._ready.setdefault(key, made)
        except TypeError:
            return made  # a grid given as a list cannot be a key

    def _plain(self, argument: Argument) -> tuple[type | str, Callable[[Any], Any] | None]:
        if argument.kind == "buffer":
            return argument.type, None
        if argument.kind == "local":
            return Local, lambda value: self._launcher.local(value.nbytes)
        return argument.fast or ("-", None)

    def __repr__(self) -> str:
        return f"<Function {self._launcher.kind} {self.name}({self._plan.signature})>"


class Launch(partial[object]):
    """A prepared launch, made by `Function.bind`. Calling it, without arguments, queues the launch and returns.

    It holds the arrays that it was bound to. It may be called again before the last launch has finished, and by several
    threads. Everything was checked when it was made; what a call returns has no meaning, and what the driver raises in it (it is
    out of resources, the device is lost) comes through as it is. What the device reports later, `Stream.synchronize` raises.

    Attributes
    ----------
    function : Function
        What it launches.
    """

    # A functools.partial of a driver's function runs no line of Python when it is called. An object with a __call__ of its own
    # costs 100 ns more, a sixth of the whole launch.

    function: Function
    _kernel: Kernel
    _stream: Stream
    _shape: Any
    _held: tuple[Sequence[Any], Sequence[Any]]

    @classmethod
    def of(cls, function: Function, kernel: Kernel, stream: Stream, shape: Any, values: Sequence[Any], arguments: Sequence[Any]) -> Launch:
        """The launch of a kernel with values, which hold what `arguments` own."""
        made = cls(_nothing if shape is None else kernel.prepare(stream, shape, values))
        made.function, made._kernel, made._stream, made._shape = function, kernel, stream, shape
        made._held = (values, arguments)
        return made

    def time(self) -> float:
        """Launch once, wait, and give the seconds that it took on the device (0.0 for an empty grid).

        Raises
        ------
        LaunchError
            The driver refuses the launch, or reports a fault.
        """
        return 0.0 if self._shape is None else self._kernel.time(self._stream, self._shape, self._held[0])

    def __repr__(self) -> str:
        return f"<Launch of {self.function!r} on {self._stream.device}>"


def _nothing() -> None:
    """What an empty grid launches."""
