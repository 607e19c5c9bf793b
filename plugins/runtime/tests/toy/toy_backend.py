"""A backend in this process: memory is a bytearray, a kernel is a Python function. pytest's
`pythonpath` has this folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import devmod
from devmod._values.spec import TargetSpec
from devmod.backend import ConversionError
from devmod_runtime import DeviceArray, Kernel, LaunchConfig, Launcher, RuntimeModule

SPEC = TargetSpec(
    "toy",
    title="Toy",
    distribution="devmod-toy",
    formats=("toy",),
    text_formats=("toy",),
    compiled_as={"text": "toy"},
)


class ToyEvent(devmod.Event):
    def __init__(self, at: float) -> None:
        self.at = at

    def synchronize(self) -> None:
        pass

    def elapsed(self, earlier: devmod.Event) -> float:
        assert isinstance(earlier, ToyEvent)
        return self.at - earlier.at


class ToyStream(devmod.Stream):
    """A stream that records the queued work. `synchronize` raises `fault`."""

    def __init__(self, device: ToyDevice) -> None:
        self.device = device
        self.queued: list[Any] = []
        self.fault = ""

    def synchronize(self) -> None:
        fault, self.fault = self.fault, ""
        if fault:
            raise devmod.LaunchError(
                f"{self.device} reports a fault of a launch: {fault}", kind="toy"
            )

    def record(self) -> ToyEvent:
        return ToyEvent(float(len(self.queued)))

    def wait(self, event: devmod.Event) -> None:
        self.queued.append(("wait", event))


class InPlaceMemory(bytearray):
    """The memory of a host array that kernels use where it is. `finish_in_place` shows the host
    what they have written.
    """

    host: memoryview


class ToyDevice(devmod.Device):
    kind = "toy"
    limits = {"max_block": 64, "view_alignment": 16}

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"toy number {index}"
        self.allocated: list[int] = []
        #: The bytes of each host array that kernels used where it is.
        self.in_place: list[int] = []
        self._stream = ToyStream(self)
        self.streams = [self._stream]

    @property
    def default_stream(self) -> ToyStream:
        return self._stream

    def stream(self) -> ToyStream:
        self.streams.append(ToyStream(self))
        return self.streams[-1]

    def synchronize(self) -> None:
        for stream in self.streams:
            stream.synchronize()

    def allocate(self, nbytes: int) -> bytearray:
        assert nbytes >= 1
        if nbytes > 1 << 20:
            raise self.memory_error(nbytes, "it has one MiB")
        self.allocated.append(nbytes)
        return bytearray(nbytes)

    def write(self, memory: bytearray, data: memoryview, stream: devmod.Stream) -> None:
        memory[: data.nbytes] = data

    def read(self, memory: bytearray, out: memoryview, stream: devmod.Stream) -> None:
        stream.synchronize()
        out[:] = memory[: out.nbytes]

    def use_in_place(self, data: memoryview, address: int, *, written: bool) -> InPlaceMemory:
        self.in_place.append(data.nbytes)
        memory = InPlaceMemory(data)
        memory.host = data
        return memory

    def finish_in_place(self, memory: InPlaceMemory, stream: devmod.Stream) -> None:
        memory.host[:] = memory

    def copy(self, source: Any, target: Any, nbytes: int, stream: devmod.Stream) -> None:
        assert isinstance(stream, ToyStream)
        assert not np.shares_memory(
            np.frombuffer(source, np.uint8)[:nbytes], np.frombuffer(target, np.uint8)[:nbytes]
        ), "an overlap"
        stream.queued.append(("copy", nbytes))
        memoryview(target)[:nbytes] = memoryview(source)[:nbytes]

    def slice(self, memory: bytearray, offset: int, nbytes: int) -> memoryview:
        assert isinstance(memory, bytearray), "a part of a part"
        return memoryview(memory)[offset : offset + nbytes]


class ForeignArray:
    """An array of a library that the toy backend adopts. `stream` is that library's stream."""

    def __init__(
        self, device: ToyDevice, data: np.ndarray[Any, Any], stream: ToyStream | None = None
    ) -> None:
        self.on, self.data, self.work = device, bytearray(data.tobytes()), stream
        self.dtype, self.shape = data.dtype.name, data.shape


class ToyKernel(Kernel):
    def __init__(self, device: devmod.Device, run: Callable[..., None]) -> None:
        self.device = device
        self.run = run

    def shape(self, launch: LaunchConfig) -> LaunchConfig:
        x, y, z = launch.block
        if x * y * z > 64:
            raise devmod.LaunchError(
                f"max_block is 64, and block={launch.block} was asked for", kind="toy"
            )
        return launch

    def caller(self, stream: devmod.Stream, shape: LaunchConfig) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, ToyStream)

        def call(values: Sequence[Any]) -> None:
            stream.queued.append((shape, list(values)))
            self.run(shape, *values)

        return call

    def time(self, stream: devmod.Stream, shape: LaunchConfig, values: Sequence[Any]) -> float:
        self.caller(stream, shape)(values)
        return 0.25


class ToyLauncher(Launcher):
    kind = "toy"
    no_shared_memory = "a toy has none"

    def __init__(self, module: ToyModule, name: str, run: Callable[..., None]) -> None:
        self.module, self.name, self.run = module, name, run

    def default_device(self) -> devmod.Device:
        return DEVICES[0]

    def kernel(self, device: devmod.Device) -> ToyKernel:
        self.module.payload()
        with self.module.lock:
            self.module.built.append((self.name, device.index))
        return ToyKernel(device, self.run)

    def adopt(self, value: object) -> tuple[DeviceArray, devmod.Stream | None] | None:
        if isinstance(value, ForeignArray):
            if not value.shape:
                raise ConversionError("is a foreign array without dimensions")
            return DeviceArray(value.on, value.data, value.shape, value.dtype), value.work
        return None

    def local(self, nbytes: int) -> tuple[str, int]:
        return ("local", nbytes)

    def specialize(self, constants: Mapping[str, object]) -> ToyLauncher:
        return type(self)(
            self.module, self.name, lambda shape, *values: self.run(shape, *values, **constants)
        )


class LimitedKernel(ToyKernel):
    """A kernel on a device with limits of blocks and of shared memory."""

    def shape(self, launch: LaunchConfig) -> LaunchConfig:
        if max(launch.grid) > 65535:
            raise devmod.LaunchError(
                f"max_blocks is 65535, got grid={launch.grid}", kind="toy", argument="grid"
            )
        return super().shape(launch)

    def check_local(self, sizes: Sequence[int]) -> str:
        return (
            f"max_local is 4096, got devmod.Local arguments of {sum(sizes)} bytes"
            if sum(sizes) > 4096
            else ""
        )


class LimitedLauncher(ToyLauncher):
    def kernel(self, device: devmod.Device) -> ToyKernel:
        return LimitedKernel(device, self.run)


class GridlessLauncher(ToyLauncher):
    has_grid = False


class SharedLauncher(ToyLauncher):
    no_shared_memory = ""
    has_clusters = True


class ToyModule(RuntimeModule):
    launcher_type: type[ToyLauncher] = ToyLauncher
    runs: Mapping[str, Callable[..., None]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.built: list[tuple[str, int]] = []
        self.lock = threading.Lock()

    def launcher(self, name: str, info: devmod.FunctionInfo) -> Launcher:
        return self.launcher_type(self, name, self.runs.get(name, lambda shape, *values: None))


DEVICES = [ToyDevice(0), ToyDevice(1)]


def module(
    functions: Mapping[str, devmod.FunctionInfo],
    runs: Mapping[str, Callable[..., None]] | None = None,
    launcher: type[ToyLauncher] = ToyLauncher,
) -> ToyModule:
    """Return a toy module with functions that run their Python function with (shape, *values)."""
    made = ToyModule(SPEC, "toy", functions, b"toy source")
    made.runs = runs or {}
    made.launcher_type = launcher
    return made


@contextmanager
def fresh_devices() -> Iterator[list[ToyDevice]]:
    """Provide two new devices for a test."""
    before = DEVICES[:]
    DEVICES[:] = [ToyDevice(0), ToyDevice(1)]
    try:
        yield DEVICES
    finally:
        DEVICES[:] = before


def floats(memory: bytearray | memoryview) -> np.ndarray[Any, Any]:
    """Return a writable view of a bytearray as float32."""
    return np.frombuffer(memory, np.float32, len(memory) // 4)
