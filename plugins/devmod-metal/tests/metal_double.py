"""A double of Metal: it records every call in order, and computes launches in NumPy. It does not
show that a kernel runs on a device.

Kernels that are not in KERNELS run as C++ on the CPU (`metal_standin`), those with textures
too: their samplers filter.

devmod's reader of Metal parses the sources. So the double refuses sources with errors, unknown
functions and wrong arguments, as Metal does. Commands run only when the host waits for them, so a
test that reads too early sees the old values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from threading import RLock
from time import monotonic
from typing import Any

import metal_standin
import numpy as np
import pytest

import devmod
from devmod.backend import IMAGE_FORMATS, Once
from devmod_metal import _device
from devmod_metal._interface import (
    ConstantValue,
    DeviceProperties,
    MetalError,
    Pipeline,
    TextureProperties,
)
from devmod_targets.authoring import CompileRequest, complete_source
from devmod_targets.metal._reflect import read


class Fault(Exception):
    """A kernel of the double raises it to fail like a kernel on a device."""


class Device:
    def __init__(self, name: str, facts: DeviceProperties) -> None:
        self.name, self.facts = name, facts

    def __repr__(self) -> str:
        return self.name


class Queue:
    def __init__(self, number: int) -> None:
        self.number = number
        self.commands: list[Commands] = []

    def __repr__(self) -> str:
        return f"queue {self.number}"


class Buffer:
    def __init__(self, nbytes: int) -> None:
        self.data = bytearray(nbytes)

    def __repr__(self) -> str:
        return f"buffer of {len(self.data)}"


class Part(Buffer):
    """An argument that begins within a buffer."""

    def __init__(self, buffer: Buffer, offset: int) -> None:
        self.data = memoryview(buffer.data)[offset:]  # type: ignore[assignment]


class Texture:
    """A texture, with the selector of pyobjc's objects that tells protocols. New memory of a device
    is not zero.
    """

    def __init__(
        self,
        device: Device,
        type_: Any,
        format_: Any,
        extent: Any,
        layers: int,
        missing_usage: tuple[str, ...] = (),
    ) -> None:
        self.facts = TextureProperties(device, type_, format_, extent, layers, missing_usage)
        if isinstance(format_, str):
            width, height, depth = extent
            nbytes = width * height * depth * max(layers, 1) * IMAGE_FORMATS[format_].texel_bytes
            self.simulated = metal_standin.Texture(
                format_, extent, layers, bytearray(b"\xa5" * nbytes)
            )

    def conformsToProtocol_(self, name: str) -> bool:
        return name == "MTLTexture"

    def __repr__(self) -> str:
        return f"texture {self.facts.type} {self.facts.format}"


class Sampler:
    """A sampler, with the selector of pyobjc's objects that tells protocols."""

    def __init__(self, device: Device, filter_: str, address: str, normalized: bool) -> None:
        self.device, self.simulated = device, metal_standin.Sampler(filter_, address, normalized)

    def conformsToProtocol_(self, name: str) -> bool:
        return name == "MTLSamplerState"

    def __repr__(self) -> str:
        return f"sampler {self.simulated.filter} {self.simulated.address}"


class Event:
    value = 0


class Commands:
    def __init__(self, queue: Queue, run: Callable[[], None]) -> None:
        self.queue, self.run = queue, run
        self.done, self.failure = False, ""
        self.start = self.end = 0.0
        queue.commands.append(self)


class Library:
    def __init__(self, functions: dict[str, Any], text: str) -> None:
        self.functions, self.text = functions, text


class Function:
    """A function of a library, with its constants."""

    def __init__(self, found: Any, constants: dict[str, Any], text: str) -> None:
        self.found, self.constants, self.text = found, constants, text


class Double:
    """`devmod_metal._driver.Framework` with NumPy.

    Attributes
    ----------
    calls
        Every call in order: the name of the method and its relevant arguments.
    """

    def __init__(self, devices: int = 2) -> None:
        facts = DeviceProperties(
            "Double GPU",
            "a double of macOS",
            1 << 30,
            (1024, 1024, 64),
            32768,
            1 << 28,
            2,
            True,
            True,
        )
        # The second device is of an older family.
        self._devices = [
            Device(
                f"device {number}",
                facts._replace(read_write_tier=1, filters_float32=False) if number else facts,
            )
            for number in range(devices)
        ]
        self.calls: list[tuple[Any, ...]] = []
        self._queues = 0
        self._lock = RLock()
        self.refuse: dict[str, str] = {}

    def _record(self, name: str, *what: Any) -> None:
        self.calls.append((name, *what))
        if name in self.refuse:
            raise MetalError(self.refuse[name])

    def names(self) -> list[str]:
        """Return the names of the calls."""
        return [call[0] for call in self.calls]

    def devices(self) -> Sequence[Any]:
        self._record("devices")
        return self._devices

    def properties(self, device: Any) -> DeviceProperties:
        self._record("properties", device)
        return device.facts

    def queue(self, device: Any) -> Any:
        self._record("queue", device)
        self._queues += 1
        return Queue(self._queues)

    def buffer(self, device: Any, nbytes: int) -> Any:
        self._record("buffer", device, nbytes)
        return Buffer(nbytes)

    def contents(self, buffer: Any, nbytes: int) -> memoryview:
        return memoryview(buffer.data)[:nbytes]

    def texture(self, device: Any, type_: str, format_: str, extent: Any, layers: int) -> Any:
        self._record("texture", device, type_, format_, extent, layers)
        return Texture(device, type_, format_, extent, layers)

    def texture_properties(self, value: Any) -> Any:
        return value.facts if isinstance(value, Texture) else None

    def sampler(self, device: Any, filter_: str, address: str, normalized: bool) -> Any:
        self._record("sampler", device, filter_, address, normalized)
        assert normalized or address in ("clamp", "border"), (
            "Metal's assertion for normalizedCoordinates"
        )
        return Sampler(device, filter_, address, normalized)

    def sampler_device(self, value: Any) -> Any:
        return value.device if isinstance(value, Sampler) else None

    def compile(self, device: Any, text: str, options: Sequence[str]) -> Any:
        self._record("compile", device, tuple(options))
        return self._read(text)

    def _read(self, text: str) -> Library:
        try:
            found, warnings = _functions(text)
        except devmod.CompileError as error:
            raise MetalError(error.log or str(error)) from None
        if warnings:
            raise MetalError(warnings[0].replace("warning:", "error:"))
        return Library(found, text)

    def load(self, device: Any, data: bytes) -> Any:
        self._record("load", device, len(data))
        try:
            return self._read(data.removeprefix(b"MTLB").decode())
        except (UnicodeDecodeError, MetalError):
            raise MetalError("Invalid library file") from None

    def functions(self, library: Any) -> Sequence[str]:
        return list(library.functions)

    def pipeline(
        self, device: Any, library: Any, name: str, constants: Sequence[ConstantValue]
    ) -> Pipeline:
        self._record("pipeline", device, name, tuple(constants))
        found = library.functions[name]
        given = {constant.at: constant for constant in constants}
        values = {}
        for declared in found.extra.get("constants", ()):
            constant = given.get(declared["id"])
            if constant is not None:
                assert constant.type == declared["type"], (constant, declared)
                size = {"bool": 1}.get(constant.type) or np.dtype(constant.type).itemsize
                assert len(constant.data) == size, constant
                values[declared["name"]] = np.frombuffer(constant.data, constant.type)[0]
            elif f"is_function_constant_defined({declared['name']})" not in library.text:
                raise MetalError(
                    f"function {name} cannot be used to build a pipeline state: constant {declared['name']} has no value"
                )
        own = sum(
            int(size) * 4 for size in re.findall(r"threadgroup float \w+\[(\d+)\]", library.text)
        )
        return Pipeline(
            Function(found, values, library.text),
            found.extra.get("max_total_threads_per_threadgroup", 1024),
            own,
        )

    def launch(
        self,
        queue: Any,
        pipeline: Any,
        buffers: Any,
        values: Any,
        local: Any,
        textures: Any,
        samplers: Any,
        grid: Any,
        block: Any,
    ) -> Any:
        images = (tuple(textures), tuple(samplers)) if textures or samplers else ()
        self._record(
            "launch",
            queue,
            pipeline.found.symbol,
            tuple(buffers),
            tuple(values),
            tuple(local),
            *images,
            grid,
            block,
        )
        assert all(offset % 32 == 0 for _, _, offset in buffers), "a misaligned argument"
        given = {
            ("buffer", index): Part(buffer, offset) if offset else buffer
            for index, buffer, offset in buffers
        }
        given |= {("buffer", index): data for index, data in values}
        given |= {("local", index): nbytes for index, nbytes in local}
        assert len(given) == len(buffers) + len(values) + len(local), "two arguments at one index"
        bound = {("texture", index): texture.simulated for index, texture in textures}
        bound |= {("sampler", index): sampler.simulated for index, sampler in samplers}
        assert len(bound) == len(textures) + len(samplers), "two textures or samplers at one index"
        assert all(nbytes % 16 == 0 for _, nbytes in local), (
            "threadgroup memory comes in multiples of 16 bytes"
        )
        assert all(len(data) <= 4096 for _, data in values), "too many bytes for setBytes"

        def run() -> None:
            if pipeline.found.symbol not in KERNELS:
                data = bound | {
                    ("threadgroup" if table == "local" else table, index): each.data
                    if isinstance(each, Buffer)
                    else each
                    for (table, index), each in given.items()
                }
                metal_standin.compile_kernel(pipeline.text, pipeline.found.symbol)(
                    data, grid, block
                )
                return
            arguments = {
                param.name: _argument(pipeline.found.symbol, param, given)
                for param in pipeline.found.params
            }
            KERNELS[pipeline.found.symbol](
                arguments,
                pipeline,
                tuple(blocks * threads for blocks, threads in zip(grid, block, strict=True)),
            )

        return Commands(queue, run)

    def copy(
        self, queue: Any, source: Any, start: int, target: Any, offset: int, nbytes: int
    ) -> Any:
        self._record("copy", queue, start, offset, nbytes)
        assert start % 4 == offset % 4 == nbytes % 4 == 0, "Metal copies whole words"
        assert source is not target or abs(start - offset) >= nbytes, "an overlapping copy"

        def run() -> None:
            target.data[offset : offset + nbytes] = source.data[start : start + nbytes]

        return Commands(queue, run)

    def copy_texture(
        self,
        queue: Any,
        buffer: Any,
        texture: Any,
        extent: Any,
        layers: int,
        row: int,
        *,
        is_read: bool,
    ) -> Any:
        self._record("copy_texture", queue, texture, is_read)
        assert (extent, layers) == (texture.facts.extent, texture.facts.layers)
        texels = texture.simulated.data
        assert len(texels) == len(buffer.data) == row * extent[1] * extent[2] * max(layers, 1)

        def run() -> None:
            if is_read:
                buffer.data[:] = texels
            else:
                texels[:] = buffer.data

        return Commands(queue, run)

    def address(self, buffer: Any) -> int:
        return id(buffer)

    def allocated(self, device: Any) -> int:
        return 1 << 29

    def event(self, device: Any) -> Any:
        self._record("event", device)
        return Event()

    def signal(self, queue: Any, event: Any, value: int, scratch: Any) -> Any:
        self._record("signal", queue, value)
        assert len(scratch.data) == 8
        commands = Commands(queue, lambda: setattr(event, "value", value))
        event.by = {**getattr(event, "by", {}), value: commands}
        return commands

    def wait_for(self, queue: Any, event: Any, value: int) -> Any:
        self._record("wait_for", queue, value)
        return Commands(queue, lambda: self._run(event.by[value]))

    def wait(self, commands: Any) -> None:
        self._record("wait", commands.queue)
        self._run(commands)

    def _run(self, commands: Commands) -> None:
        queue = commands.queue
        with self._lock:  # threads may wait for one queue at the same time
            while not commands.done:
                first = queue.commands.pop(0)
                first.start = monotonic()
                try:
                    first.run()
                except Fault as fault:
                    first.failure = str(fault)
                finally:  # also after a mistake of the test, so that later commands run
                    first.end, first.done = monotonic(), True

    def is_complete(self, commands: Any) -> bool:
        return bool(commands.done)

    def failure(self, commands: Any) -> str:
        assert commands.done
        return str(commands.failure)

    def times(self, commands: Any) -> tuple[float, float]:
        assert commands.done
        return commands.start, commands.end


@cache  # each test opens the library of a text for itself
def _functions(text: str) -> tuple[dict[str, Any], list[str]]:
    request = CompileRequest(text, devmod.Target("metal"), name="program_source")
    return read(request, complete_source(request))[:2]


def _argument(function: str, param: Any, given: dict[tuple[str, int], Any]) -> Any:
    table = "local" if param.kind == "local" else "buffer"
    if (table, param.at) not in given:
        raise Fault(f"{function}: nothing is bound at {table} index {param.at} for {param.name}")
    value = given[table, param.at]
    if table == "local":
        return value
    base, _, lanes = param.type.partition("x")
    data = value.data if isinstance(value, Buffer) else value
    if param.kind == "scalar":
        size = np.dtype(base).itemsize * int(lanes or 1)
        assert len(data) >= size, f"{param.name}: {len(data)} bytes for {param.type}"
        return np.frombuffer(data[:size], base) if lanes else np.frombuffer(data[:size], base)[0]
    found: Any = np.frombuffer(
        data, base or "uint8", count=len(data) // np.dtype(base or "uint8").itemsize
    )
    return found


# -- the kernels of the tests: f(arguments by name, the function, the threads in x, y, z)


def _axpy(a: dict[str, Any], f: Any, threads: Any) -> None:
    count = min(int(a["n"]), threads[0])
    a["y"][:count] += a["a"] * a["x"][:count]


def _count(a: dict[str, Any], f: Any, threads: Any) -> None:
    for value in a["values"][: min(int(a["n"]), threads[0])]:
        a["counts"][value & 7] += 1


def _transpose(a: dict[str, Any], f: Any, threads: Any) -> None:
    width, height = (int(each) for each in a["arg"].view("int32")[::2])
    x, y = threads[:2]
    target, source = (
        a["target"][: width * height].reshape(width, height),
        a["source"][: width * height].reshape(height, width),
    )
    target[:x, :y] = source[:y, :x].T


def _scale(a: dict[str, Any], f: Any, threads: Any) -> None:
    a["x"][: threads[0]] *= int(re.findall(r"#define FACTOR (\d+)", f.text)[0])


def _add(a: dict[str, Any], f: Any, threads: Any) -> None:
    count = min(int(a["n"]), threads[0])
    a["c"][:count] = f.constants.get("SCALE", 1) * (a["a"][:count] + a["b"][:count])


def _twice(a: dict[str, Any], f: Any, threads: Any) -> None:
    a["x"][: threads[0]] *= 2


def _fails(a: dict[str, Any], f: Any, threads: Any) -> None:
    raise Fault("Caused GPU Address Fault Error")


def _takes(a: dict[str, Any], f: Any, threads: Any) -> None:
    """Record the value of each argument for the tests."""
    taken.append(
        {name: value.tolist() if hasattr(value, "tolist") else value for name, value in a.items()}
        | {"constants": dict(f.constants)}
    )


taken: list[dict[str, Any]] = []
KERNELS: dict[str, Callable[[dict[str, Any], Any, Any], None]] = {
    "axpy": _axpy,
    "count": _count,
    "transpose": _transpose,
    "scale": _scale,
    "add": _add,
    "twice": _twice,
    "fails": _fails,
    "takes": _takes,
}


def replace_metal(monkeypatch: pytest.MonkeyPatch) -> Double:
    """Replace Metal by a double with two devices."""
    double = Double()
    monkeypatch.setattr(_device, "_opened", [double])
    monkeypatch.setattr(_device, "_once", Once())
    return double
