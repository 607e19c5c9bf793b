"""Long programs that `devmod.verify` launches as a whole between the zones of a guard."""

from __future__ import annotations

from devmod.errors import GuardError
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._program.call import ProgramCall
from devmod_runtime._program.plan import Plan
from devmod_runtime.tools.guard import GuardedMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod_runtime.tools.observed import Methods

#: The most steps of a program that are launched and compared one by one.
MOST_STEPS = 1024


def zoned() -> Methods:
    """Return what compares the zones of a guard after all steps of a long program. A GuardError then names no step."""

    def make_launch(original: Callable[..., Any]) -> Callable[..., Any]:
        def launch(self: ProgramCall, arrays: Sequence[Any], slots: list[Any]) -> None:
            function = self._function
            if len(function.steps) <= MOST_STEPS:
                original(self, arrays, slots)
                return
            named = self._named(arrays, ())
            constant = [each.name for each in function.program.arrays("input", "constant") if not each.format]
            before = {name: named[name].numpy().tobytes() for name in constant}
            read = {
                given
                for step in function.steps
                for argument, given in step.arguments
                if isinstance(given, str) and argument.number in (step.function._launcher.lengths_read() or ())
            }
            _launch(self, {name: array if name in read else _with_zone(array) for name, array in named.items()})
            self._stream.synchronize()
            for name, array in named.items():
                base = getattr(array, "_base", None)
                if (isinstance(base, GuardedMemory) and base.damage()) or (name in before and array.numpy().tobytes() != before[name]):
                    text = f"{function.label}: a step has written outside of {name!r}, or to it although it is read-only"
                    raise GuardError(text, kind=function.kind, function=function.name, argument=name)

        return launch

    return {(ProgramCall, "_launch"): make_launch}


def _launch(call: ProgramCall, arrays: Mapping[str, Any]) -> None:
    """Queue the launches of a program on given memory."""
    Plan(call._function, call._shapes, call._stream, arrays, call._scalars, {}).run([], call._scalars, is_checked=False)


def _with_zone(array: Any) -> Any:
    """Return an array of which a kernel also sees the zone behind it."""
    base = getattr(array, "_base", None)
    if not isinstance(base, GuardedMemory) or array._offset + array.nbytes != base.end:
        return array
    memory = array.device.slice(base.memory, array._offset, base.nbytes - array._offset)
    return DeviceArray(array.device, memory, array.shape, array.dtype)
