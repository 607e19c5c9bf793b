"""Prepared launches, made by `Function.bind`."""

from __future__ import annotations

from _weakref import ref
from functools import partial

from devmod._util.pickling import ProcessLocal
from devmod.errors import ArgumentError
from devmod_runtime import _fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.function import Function
    from devmod_runtime._launch.launcher import Kernel


class Launch(ProcessLocal):
    """A prepared launch. `Function.bind` returns one; a call without arguments queues the launch.

    The Launch keeps its arrays alive. Several threads may call it, also before the previous launch has finished. `Function.bind` checks
    everything. The return value of a call is ignored. An exception of the driver (out of resources, device lost) is raised unchanged.
    `Stream.synchronize` raises a failure that the device reports later.

    Attributes
    ----------
    function : Function
        The launched function.
    stream : Stream
        The stream in which it is queued.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"

    # `__call__` is a slot with the kernel's own callable: if that is a C function, a launch runs no Python code. A method `__call__`
    # costs 110 ns more, a sixth of the whole launch.
    __slots__ = ("__call__", "__weakref__", "_kernel", "_shape", "_values", "function", "stream")

    if TYPE_CHECKING:
        function: Function
        stream: Stream

        def __call__(self) -> object: ...

    def __init__(
        self, function: Function, kernel: Kernel, stream: Stream, shape: Any, values: Sequence[Any], arguments: Sequence[Any]
    ) -> None:
        self.function, self._kernel, self.stream, self._shape = function, kernel, stream, shape
        #: The kernel's values, and the arguments, which own them.
        self._values = (values, arguments)
        prepared = _launch_nothing if shape is None else kernel.prepare(stream, shape, values)
        # A method-wrapper raises TypeError for arguments.
        call = prepared if type(prepared) is _METHOD_WRAPPER else _refuse_arguments(prepared, function)
        object.__setattr__(self, "__call__", call)
        _launches.add(ref(self, _launches.discard))

    def time(self) -> float:
        """Launch once, wait, and return the seconds that the launch took on the device (0.0 for an empty grid).

        Raises
        ------
        LaunchError
            The driver refuses the launch or reports a fault.
        """
        _fork.check_driver(self.function._launcher.kind)
        return 0.0 if self._shape is None else self._kernel.time(self.stream, self._shape, self._values[0])

    def __repr__(self) -> str:
        return f"<Launch of {self.function!r} on {self.stream.device}>"


_METHOD_WRAPPER = type(iter(()).__next__)


def _refuse_arguments(prepared: Callable[[], object], function: Function) -> Callable[..., object]:
    """Return a callable that raises ArgumentError for arguments: the kernel's own callable might interpret them."""

    def launch(*args: object, **keywords: object) -> object:
        if args or keywords:
            raise ArgumentError(
                f"a prepared launch of {function.label} takes no arguments: bind received them; to launch with others, call the function "
                "itself, or bind it again",
                kind=function._launcher.kind,
                function=function.name,
            )
        return prepared()

    return launch


def _launch_nothing() -> None:
    """Do nothing: the launch of an empty grid."""


def _refuse_in_child() -> None:
    """Make each prepared launch raise LaunchError if its driver was opened by the parent process."""
    for launch in [each() for each in tuple(_launches)]:
        if launch is not None and _fork.is_inherited(launch.function._launcher.kind):
            object.__setattr__(launch, "__call__", partial(_fork.check_driver, launch.function._launcher.kind))


#: All prepared launches, for the child of a fork. Weak references with a callback, so that they add nothing to the cost of a launch.
_launches: set[ref[Launch]] = set()
_fork.call_in_child(_refuse_in_child)
