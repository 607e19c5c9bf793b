"""The launches of a program's kernels, as a call of the program makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from devmod import FunctionInfo, Module
from devmod.backend import usable_functions
from devmod_runtime import DeviceArray, Stream
from devmod_runtime._launch.opening import Opening
from devmod_runtime._program.plan import Step
from devmod_workbench._tools.inputs import call_once, on_device, parameters
from devmod_workbench._tools.observed import Methods, replaced


def kernels_of(info: FunctionInfo) -> Sequence[str]:
    """Return the kernels that a program launches; () for a function that is no program."""
    if info.interface is None:
        return ()
    kernels: Sequence[str] = info.interface.extra.get("kernels", ())
    return kernels


def program_with(module: Module, kernel: str) -> str:
    """Return the first program of a module that launches a kernel; "" if none does."""
    for name, info in usable_functions(module.functions):
        if kernel in kernels_of(info):
            return name
    return ""


class StepLaunch(NamedTuple):
    """The first launch of a kernel in a call of a program.

    Attributes
    ----------
    arguments
        Copies of the arguments on the host by name; empty if the call does not launch the kernel.
    extent
        The step's grid, block and threads by name, those that it has.
    """

    arguments: dict[str, Any]
    extent: dict[str, Any]


def first_launch(program: Any, kernel: str, host: dict[str, Any]) -> StepLaunch:
    """Call a program with arguments on the host, and return the first launch of a kernel."""
    names = parameters(program.functions[kernel])
    found = StepLaunch({}, {})
    extent: dict[str, Any] = {}

    def replace_call(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(step: Step, stream: Stream, named: dict[str, Any], *make: Any) -> Any:
            dims = zip(("grid", "block", "threads"), step.dims(named), strict=False)
            extent.clear()
            extent.update({name: counts for name, counts in dims if counts is not None})
            return original(step, stream, named, *make)

        return call

    def replace_queue(original: Callable[..., Any]) -> Callable[..., Any]:
        def queue(
            launch: Callable[..., Any], name: str, stream: Stream, arguments: Sequence[Any] | None
        ) -> Callable[..., Any]:
            launch = original(launch, name, stream, arguments)
            if arguments is None or not name.endswith(f": {kernel}"):
                return launch
            own_extent = extent.copy()

            def launch_step(values: Sequence[Any]) -> Any:
                if not found.arguments:
                    found.arguments.update(zip(names, map(_on_host, arguments), strict=True))
                    found.extent.update(own_extent)
                return launch(values)

            return launch_step

        return queue

    methods: Methods = {
        (Step, "call"): replace_call,
        (Opening, "queue"): replace_queue,
        # A batch would gather the launches and queue none of them before its end.
        (Stream, "gathers"): lambda _: False,
    }
    with replaced(methods, order=2):
        call_once(program, on_device(program, host))
    return found


def _on_host(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value.numpy()
    return value
