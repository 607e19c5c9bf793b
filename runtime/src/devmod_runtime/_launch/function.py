"""Functions: a call checks, converts and launches in the same way for every backend.

`Function.__call__` alone is the path of a plain call: device arrays of the exact type, ints and floats, a repeated launch
configuration. Any other call goes to `Call`, which implements everything and raises the errors.
"""

from __future__ import annotations

from _weakref import ref
from struct import error as struct_error

from devmod import Local
from devmod._util.numpy import keep_numpy
from devmod._util.pickling import ProcessLocal
from devmod_runtime import _fork
from devmod_runtime._device.stream import current_stream
from devmod_runtime._device.stream import entered as _entered
from devmod_runtime._launch.call import Call
from devmod_runtime._launch.described import InstanceText, describe
from devmod_runtime._launch.kernel_function import KernelFunction
from devmod_runtime._launch.launch import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.launcher import Kernel, Launcher
    from devmod_runtime._launch.order import Plan

    Dims = int | Sequence[int] | None

#: The number of launch configurations that a function caches.
_MAX_CALLERS = 256


class Function(KernelFunction, ProcessLocal):
    """A callable function of a module. `Module.get_function` returns one.

    Attributes
    ----------
    name : str
        The name by which `get_function` finds it.
    info : FunctionInfo
        The types of its arguments, its launch tags and its interface.

    Notes
    -----
    A function has the name, the signature and the docstring of its kernel: ``help(f)`` and ``inspect.signature(f)`` work.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"

    __doc__ = InstanceText(__doc__, describe)
    __slots__ = ("__weakref__", "_are_large", "_callers", "_count", "_first_buffer", "_plain", "_plans")

    def __init__(self, name: str, info: FunctionInfo, launcher: Launcher, **rules: Any) -> None:
        super().__init__(name, info, launcher, **rules)
        signature = self._signature
        #: From the names in a call to its plan. One number of arguments by position goes with each.
        self._plans: dict[tuple[str, ...], Plan] = {}
        # For `__call__`: the number, type and converter of each plain argument. Numbers and Locals: the exact type, and the converter.
        # Buffers: the element type ("" for any), and None. Others: a type that no array has, and None.
        self._plain = tuple((each.number, *_plain_argument(each)) for each in signature.arguments)
        self._first_buffer = next((each.number for each in signature.arguments if each.kind == "buffer"), -1)
        #: The number of arguments by position that need no other order; -1 if there is no such number.
        self._count = len(signature.arguments) if self._order.is_plain else -1
        sizes = [(each.number, each.size) for each in signature.arguments if each.size]
        #: Whether the arrays have the sizes that the kernel declares; None if it declares none.
        self._are_large = (lambda args: all(args[number].nbytes >= size for number, size in sizes)) if sizes else None
        #: From (device, grid, block, threads, stream) of a plain call to the function that queues the launch.
        self._callers: dict[Any, Callable[[list[Any]], Any]] = {}
        _functions.add(ref(self, _functions.discard))
        keep_numpy()

    def __call__(
        self,
        /,
        *args: Any,
        grid: Dims = None,
        block: Dims = None,
        threads: Dims = None,
        stream: Stream | None = None,
        shared_memory: int = 0,
        **keywords: Any,
    ) -> Any:
        """Launch the function.

        Parameters
        ----------
        *args
            The arguments in order: arrays (NumPy, buffers, DLPack on the host, devmod's, the backend's own), numbers, sequences of
            lanes, structs (records, mappings, tuples or bytes), `Local`. TVM's launch values may follow as plain integers in place of
            `grid` and `block`.
        grid
            Blocks in x, y, z: an int, or up to three ints. A zero launches nothing. Exactly one of `grid` and `threads` is given.
        block
            Threads of a block in x, y, z. It may be omitted if the payload fixes it, or if the interface has a default. The backend
            chooses it if the interface has an open block.
        threads
            The threads in x, y, z. The grid is the number of blocks that has at least as many, so the kernel checks its bounds.
        stream
            The stream of the launch. Default: the device's current stream.
        shared_memory
            Dynamic shared memory in bytes, for kinds that have it.
        **keywords
            Arguments by the names of the interface's parameters, in any order. A name that is a keyword of Python, or one of the five
            keywords above, has an underscore behind it.

        Returns
        -------
        None or number
            What the function returns, for kinds whose functions return values (Hexagon). The call then waits for it.

        Raises
        ------
        ArgumentError
            An argument is invalid; the message names it. Nothing was launched.
        LaunchError
            The launch exceeds a limit of the device, or the driver refuses it.

        Notes
        -----
        With a host array the call returns after the results are copied back. With device arrays alone it returns when the launch is
        queued.
        """
        if keywords or len(args) != self._count:
            plan = self._plans.get(tuple(keywords))
            if plan is None or plan[0] != len(args):
                return Call(self, self._arrange(args, keywords), grid, block, threads, stream, shared_memory).launch()
            args += plan[1](keywords)
            if plan[2] is not None:
                args = plan[2](args)
        if shared_memory == 0:
            values = [*args]
            call = None
            first = self._first_buffer
            try:
                device = args[first].device if first >= 0 else None
                # The cost of this loop is about 60 ns for each argument. Only a DeviceArray has a `device` that is a key of `_callers`.
                for number, expected, pack in self._plain:
                    value = args[number]
                    if pack is None:
                        if value.device is not device or (expected is not value.dtype and expected):
                            break
                        values[number] = value.memory
                    else:
                        kind = type(value)
                        if kind is not expected and (expected is not float or kind is not int):
                            break
                        values[number] = pack(value)
                else:
                    # Not an expression with a nested scope: `args` would be a cell, which takes 40 ns of a call.
                    if self._are_large is None or self._are_large(args):
                        # The current stream is part of the key. Nothing looks for it in a program that enters no stream.
                        current = stream if stream is not None or not _entered else current_stream(device or self.default_device())
                        call = self._callers[device, grid, block, threads, current]
            # A new configuration or another type: `Call` converts it or raises the error.
            except (AttributeError, KeyError, struct_error, OverflowError, TypeError, ValueError):
                pass
            if call is not None:
                return call(values)
        return Call(self, args, grid, block, threads, stream, shared_memory).launch()

    def bind(
        self,
        /,
        *args: Any,
        grid: Dims = None,
        block: Dims = None,
        threads: Dims = None,
        stream: Stream | None = None,
        shared_memory: int = 0,
        **keywords: Any,
    ) -> Launch:
        """Check the arguments, and return a prepared launch.

        Parameters
        ----------
        *args, **keywords
            As in a call, but arrays must be in the device's memory. The Launch keeps them alive.
        grid, block, threads, stream, shared_memory
            As in a call. Without `stream`, the launch uses the device's current stream at this time.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call. A host array is an ArgumentError.
        """
        args = self._arrange(args, keywords)
        call = Call(self, args, grid, block, threads, stream, shared_memory, bound=True)
        assert call.stream is not None
        return Launch(self, call.kernel, call.stream, call.shape, call.values, args)

    def caller(
        self, key: tuple[Any, ...], kernel: Kernel, stream: Stream, shape: Any, set_sizes: Callable[[list[Any]], None] | None
    ) -> Callable[[list[Any]], Any]:
        """Return the function that queues a launch, and cache it under `key` for the next plain call."""
        enqueue: Callable[[list[Any]], Any] = kernel.caller(stream, shape)
        if set_sizes is not None:
            enqueue = _with_sizes(set_sizes, enqueue)
        if len(self._callers) >= _MAX_CALLERS:
            self._callers.clear()
        try:
            return self._callers.setdefault(key, enqueue)
        except TypeError:
            return enqueue  # a grid given as a list is not hashable

    def _arrange(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call in the kernel's order. Raise ArgumentError for a wrong name or number of them."""
        args, plan = self._order.arrange(args, keywords)
        if plan is not None:
            if len(self._plans) >= _MAX_CALLERS:
                self._plans.clear()
            self._plans[tuple(keywords)] = plan
        return args


def _plain_argument(argument: Argument) -> tuple[type | str, Callable[[Any], Any] | None]:
    if argument.kind == "buffer":
        return argument.type, None
    if argument.kind == "local":
        return Local, _unchanged
    return argument.plain_packer or ("-", None)


def _unchanged(value: Local) -> Local:
    return value


def _with_sizes(set_sizes: Callable[[list[Any]], None], enqueue: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def call(values: list[Any]) -> Any:
        set_sizes(values)
        return enqueue(values)

    return call


def _clear_callers_in_child() -> None:
    """Clear the caches of functions whose driver was opened by the parent process: the next call raises LaunchError."""
    for function in [each() for each in tuple(_functions)]:
        if function is not None and _fork.is_inherited(function._launcher.kind):
            function._callers.clear()


#: All functions, for the child of a fork. Weak references with a callback, so that they add nothing to the cost of a launch.
_functions: set[ref[Function]] = set()
_fork.call_in_child(_clear_callers_in_child)
