"""The launches of a program's kernels, as a call of the program makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from devmod import Device, FunctionInfo, Module
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.stream import Stream
from devmod_runtime._launch.opening import Opening
from devmod_runtime.tools.inputs import Arguments, call_once, on_device, parameters
from devmod_runtime.tools.observed import Methods, replaced

#: A function that gets the name of a kernel, the arguments of its launch in the kernel's order, and
#: the function that launches it.
Visit = Callable[[str, Sequence[Any], Callable[[], object]], object]


@contextmanager
def first_launches(visit: Visit) -> Iterator[None]:
    """In the context, call `visit` in place of the first launch of each kernel of a program.

    What was queued before it is done or in the stream, so that it may read arrays, and launch other
    kernels with them. At its end they must have what the kernel's launch gives them.
    """
    seen: set[str] = set()

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def queue(
            launch: Callable[..., Any], name: str, stream: Stream, arguments: Sequence[Any] | None
        ) -> Callable[..., Any]:
            launch = original(launch, name, stream, arguments)
            _, separator, kernel = name.rpartition(": ")
            if not separator or arguments is None:  # no step of a program
                return launch

            def launch_step(values: Sequence[Any]) -> Any:
                if kernel in seen:
                    return launch(values)
                seen.add(kernel)
                return visit(kernel, arguments, partial(launch, values))

            return launch_step

        return queue

    # A batch would gather the launches and queue none of them before its end.
    methods: Methods = {(Opening, "queue"): replace, (Stream, "gathers"): lambda _: False}
    with replaced(methods, order=2):
        yield


def kernels_of(info: FunctionInfo) -> Sequence[str]:
    """Return the kernels that a program launches; () for a function that is no program."""
    if info.interface is None:
        return ()
    kernels: Sequence[str] = info.interface.extra.get("kernels", ())
    return kernels


def program_with(module: Module, kernel: str) -> str:
    """Return the first program of a module that launches a kernel; "" if none does."""
    for name, info in module.functions.items():
        if kernel in kernels_of(info):
            return name
    return ""


def step_arguments(program: Any, kernel: str, host: Arguments, device: Device) -> Arguments:
    """Call a program, and return copies on the host of the arguments that a kernel has at its first
    launch.
    """
    found: dict[str, Any] = {}

    def visit(name: str, values: Sequence[Any], launch: Callable[[], object]) -> None:
        if name == kernel:
            names = parameters(program.functions[kernel])
            for own, value in zip(names, values, strict=True):
                found[own] = value
                if isinstance(value, DeviceArray):
                    found[own] = value.numpy()
        launch()

    with first_launches(visit):
        call_once(program, on_device(program, host, device), device)
    return Arguments((), found)
