"""The launches of a program's kernels, as a call of the program makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devmod import FunctionInfo, Module
from devmod.backend import usable_functions
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.stream import Stream
from devmod_runtime._launch.opening import Opening
from devmod_runtime.tools.inputs import call_once, on_device, parameters
from devmod_runtime.tools.observed import Methods, replaced


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


def step_arguments(program: Any, kernel: str, host: dict[str, Any]) -> dict[str, Any]:
    """Call a program, and return copies on the host of the arguments that a kernel has at its first
    launch.
    """
    names = parameters(program.functions[kernel])
    found: dict[str, Any] = {}

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def queue(
            launch: Callable[..., Any], name: str, stream: Stream, arguments: Sequence[Any] | None
        ) -> Callable[..., Any]:
            launch = original(launch, name, stream, arguments)
            if arguments is None or not name.endswith(f": {kernel}"):
                return launch

            def launch_step(values: Sequence[Any]) -> Any:
                if not found:
                    found.update(zip(names, map(_on_host, arguments), strict=True))
                return launch(values)

            return launch_step

        return queue

    # A batch would gather the launches and queue none of them before its end.
    methods: Methods = {(Opening, "queue"): replace, (Stream, "gathers"): lambda _: False}
    with replaced(methods, order=2):
        call_once(program, on_device(program, host))
    return found


def _on_host(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value.numpy()
    return value
