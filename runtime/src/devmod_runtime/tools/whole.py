"""Programs that `devmod.verify` launches as a whole: with new memory of two fillings, and long ones between the zones of a guard."""

from __future__ import annotations

from devmod.errors import GuardError
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._program.call import CheckedProgramCall
from devmod_runtime._program.plan import LaunchPlan
from devmod_runtime.tools.guard import GuardedMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod_runtime.tools.difference import Difference
    from devmod_runtime.tools.observed import Methods

#: The most steps of a program that are launched and compared one by one.
MOST_STEPS = 1024
#: The bytes of new memory in the two launches: a float32 of them is -4.2e37 and 0.05, so that neither its square nor its sign hides it.
_FILLINGS = 0xFD, 0x3D


def filled(value: int) -> Methods:
    """Return what gives each new output and each temporary of a program memory of its own, with a value in each byte."""

    def make_new(original: Callable[..., Any]) -> Callable[..., Any]:
        def new(self: CheckedProgramCall, declared: Any) -> Any:
            array = original(self, declared)
            if nbytes := self._shapes.nbytes[declared.name]:
                content = memoryview(bytes([value]) * nbytes)
                if declared.format:
                    self._device.write_image(array, content, self._stream)
                else:
                    self._device.write(array.memory, content, self._stream)
            return array

        return new

    def launch(self: CheckedProgramCall, arrays: Sequence[Any], _: object) -> None:
        _launch(self, self._named(arrays, ()))

    return {(CheckedProgramCall, "_new"): make_new, (CheckedProgramCall, "_launch"): lambda _: launch}


def unwritten(run: Callable[[Methods], Mapping[str, Any]], compare: Callable[[str, Any, Any], Difference]) -> str:
    """Return where the results of a program depend on what its new memory had before, as a clause; "" if they do not.

    `run` calls the program with replaced methods, and returns its results. Results that differ with one filling too depend on
    something else, such as the order of the threads.
    """
    results = [run(filled(value)) for value in _FILLINGS]
    for name in results[0]:
        difference = compare(name, results[1][name], results[0][name])
        if difference.is_error:
            again = [run(filled(value)) for value in _FILLINGS]
            if any(compare(name, one[name], two[name]).is_error for one, two in zip(results, again, strict=True)):
                return ""
            return (
                f"returns or reads memory that nothing wrote: {name}{difference.subscript} is {difference.expected!r} or "
                f"{difference.value!r} by what new outputs and temporaries had before. Write all elements, or declare the array with = 0"
            )
    return ""


def zoned() -> Methods:
    """Return what compares the zones of a guard after all steps of a long program. A GuardError then names no step."""

    def make_launch(original: Callable[..., Any]) -> Callable[..., Any]:
        def launch(self: CheckedProgramCall, arrays: Sequence[Any], slots: list[Any]) -> None:
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

    return {(CheckedProgramCall, "_launch"): make_launch}


def _launch(call: CheckedProgramCall, arrays: Mapping[str, Any]) -> None:
    """Queue the launches of a program on given memory."""
    LaunchPlan(call._function, call._shapes, call._stream, arrays, call._scalars, {}).run([], call._scalars, is_checked=False)


def _with_zone(array: Any) -> Any:
    """Return an array of which a kernel also sees the zone behind it."""
    base = getattr(array, "_base", None)
    if not isinstance(base, GuardedMemory) or array._offset + array.nbytes != base.end:
        return array
    memory = array.device.slice(base.memory, array._offset, base.nbytes - array._offset)
    return DeviceArray(array.device, memory, array.shape, array.dtype)
