"""Launching: calls of the compiled functions, each of which runs all threads of a launch."""

from __future__ import annotations

from time import perf_counter

from devmod_host import _driver
from devmod_host._device import HostStream, devices
from devmod_runtime import Kernel, LaunchConfig, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device
    from devmod_host._program import Program


class HostLauncher(Launcher):
    """One function of a host module. `number` is its position in the fmap."""

    kind = "host"
    no_shared_memory = (
        "the threads of a block run one after the other, and share only their arguments"
    )

    def __init__(self, program: Program, number: int, name: str) -> None:
        self._program = program
        self._number = number
        self._name = name

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> HostKernel:
        return HostKernel(self._program.library(), self._number, self._name, device)

    @property
    def constants(self) -> Sequence[str]:
        return self._program.constants

    def specialize(self, constants: Mapping[str, object]) -> HostLauncher:
        return HostLauncher(self._program.specialize(constants), self._number, self._name)


class HostKernel(Kernel):
    """A compiled function. cffi releases the GIL during a call."""

    def __init__(self, library: _driver.Library, number: int, name: str, device: Device) -> None:
        self._library = library  # a reference: the code is unloaded with it
        self._launch = library.launch(number)
        self._name = name
        self._device = device

    def shape(self, launch: LaunchConfig) -> Any:
        limit = self._device.limits["max_dimension"]
        if max(*launch.grid, *launch.block) > limit:
            problem = f"its max_dimension is {limit}, got grid={launch.grid}, block={launch.block}"
            raise self._device.invalid_launch(
                self._name, problem, "grid" if max(launch.grid) > limit else ""
            )
        return _driver.ffi.new("unsigned int[]", [*launch.grid, *launch.block])

    def caller(self, stream: HostStream, shape: Any) -> Callable[[Sequence[Any]], None]:
        # Local names: this function runs at every call.
        launch, turn, new, address = (
            self._launch,
            stream.turn,
            _driver.ffi.new,
            _driver.ffi.from_buffer,
        )

        def call(values: Sequence[Any]) -> None:
            pointers = [address(value) if type(value) is bytes else value for value in values]
            with turn:
                launch(new("void *[]", pointers), shape)

        return call

    def time(self, stream: HostStream, shape: Any, values: Sequence[Any]) -> float:
        call = self.caller(stream, shape)
        start = perf_counter()
        call(values)
        return perf_counter() - start
