"""Hexagon devices. The first use of a device starts its runner; after a fault the next use starts
another.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from devmod import Device, Event, Stream
from devmod.backend import Capabilities, Once, RLock, environment_text
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_hexagon._runner import Memory, Runner, RunnerThread
from devmod_runtime import check_driver, check_earlier_event, check_event, fork_safe, open_driver

_once = Once()
_MAX_DEVICES = 64


class HexagonDevice(Device):
    """A device: a runner, or after a fault the runner that replaces it.

    Parameters
    ----------
    index
        Its number.
    arch
        The architecture that the emulator has.
    memory
        The bytes of its memory.
    command
        The command of its runner.
    """

    kind = "hexagon"
    vendor = "QEMU"

    def __init__(self, index: int, arch: str, memory: int, command: Sequence[str]) -> None:
        self.index = index
        self.name = f"{arch} in qemu-hexagon"
        self.arch = arch
        self.memory = memory
        self.limits = {"view_alignment": 1, "memory": memory}
        self._command = command
        self._lock = fork_safe(RLock())
        self._runner: RunnerThread | None = None
        self._is_closed = False
        self._stream = HexagonStream(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self, {"array": "memory"})

    def runner(self) -> RunnerThread:
        """Return the runner. Make one if there is none, or if the last one has ended."""
        runner = self._runner
        if runner is not None and not runner.ended:
            return runner
        check_driver("hexagon")
        with self._lock:
            if self._is_closed or sys.is_finalizing():
                raise self.closed_error()
            runner = self._runner
            if runner is None or runner.ended:
                if runner is None:
                    open_driver("hexagon")
                    atexit.register(self._close)
                else:
                    runner.report()
                runner = self._runner = RunnerThread(self._command, self.memory, repr(self))
            return runner

    def _close(self) -> None:
        """End the runner when the process exits. Earlier runners have ended, so nothing keeps them
        and their memory.
        """
        self._is_closed = True
        with suppress(LaunchError):
            check_driver("hexagon")
            if self._runner is not None:
                self._runner.close()

    def wait(self) -> None:
        """Wait for all calls."""
        if self._runner is not None:
            self._runner.wait()

    @property
    def generation(self) -> RunnerThread:
        return self.runner()

    @property
    def default_stream(self) -> HexagonStream:
        return self._stream

    def stream(self) -> HexagonStream:
        check_driver("hexagon")
        return HexagonStream(self)

    def synchronize(self) -> None:
        self._stream.synchronize()

    def allocate(self, nbytes: int) -> Any:
        check_driver("hexagon")
        memory = self.runner().request(Runner.allocate, nbytes)
        if memory is None:
            raise self.memory_error(nbytes, "no free range of the device's memory is large enough")
        return memory

    def memory_runner(self, memory: Memory) -> RunnerThread:
        """Return the runner of memory.

        Raises
        ------
        LaunchError
            The runner has ended.
        """
        check_driver("hexagon")
        if memory.runner.ended:
            raise LaunchError(
                f"an array of {self} cannot be used: its runner has ended ({memory.runner.ended}), and its contents are lost. Make the "
                "array again; the device works in a new runner",
                kind="hexagon",
            )
        return memory.runner

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        self.memory_runner(memory).write(memory, data)

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        self.memory_runner(memory).read(memory, out)

    def clear(self, memory: Any, nbytes: int, stream: Stream) -> None:
        self.memory_runner(memory).clear(memory, nbytes)

    start_clear = clear  # it follows the queued calls

    def copy(self, source: Any, target: Any, nbytes: int, stream: Stream) -> None:
        self.memory_runner(source)
        self.memory_runner(target).copy(source, target, nbytes)

    def slice(self, memory: Any, offset: int, nbytes: int) -> Memory:
        return Memory(memory.runner, memory.address + offset, nbytes, memory)

    def free_memory(self) -> int | None:
        return self.runner().request(Runner.free_bytes)


def devices() -> list[HexagonDevice]:
    """Return the devices, always the same objects.

    Raises
    ------
    DeviceNotFoundError
        There is no emulator. The next call searches again.
    """
    return _once.get("devices", _find_devices)


def _find_devices() -> list[HexagonDevice]:
    from devmod_hexagon._emulator import (
        find_arch,
        find_emulator,
        memory_bytes,
        read_number,
        runner_command,
    )

    check_driver("hexagon")
    emulator = find_emulator()
    arch = _arch() or find_arch(emulator)
    memory = memory_bytes()
    return [
        HexagonDevice(index, arch, memory, runner_command(emulator, arch))
        for index in range(read_number("DEVMOD_HEXAGON_DEVICES", 1, "devices", 1, _MAX_DEVICES))
    ]


def _arch() -> str:
    text = environment_text("DEVMOD_HEXAGON_ARCH")
    if text and not (text.startswith("v") and text[1:].isascii() and text[1:].isdigit()):
        raise DeviceNotFoundError(
            f"DEVMOD_HEXAGON_ARCH is {text!r}: expected an architecture such as 'v66'",
            kind="hexagon",
        )
    return text


# -- Streams and events. A runner executes requests one after another, so all streams of a device
# share one order.


class HexagonStream(Stream):
    """The order of a device's calls."""

    device: HexagonDevice

    def __init__(self, device: HexagonDevice) -> None:
        self.device = device

    def synchronize(self) -> None:
        check_driver("hexagon")
        self.device.wait()

    def record(self) -> HexagonEvent:
        check_driver("hexagon")
        return HexagonEvent(self.device, self.device.runner())

    def wait(self, event: Event) -> None:
        check_driver("hexagon")
        event = check_event(event, HexagonEvent, self.device)
        if event.device is not self.device:
            event.synchronize()  # the runners of two devices have no common order


class HexagonEvent(Event):
    """A point in the order of a runner's requests, with the runner's clock at that point."""

    __slots__ = ("_runner", "_values", "device")

    def __init__(self, device: HexagonDevice, runner: RunnerThread) -> None:
        self.device = device
        self._runner = runner
        #: The clock in nanoseconds, once the reply has been read.
        self._values: list[Any] = []
        runner.queue_clock(self._values.extend)

    def synchronize(self) -> None:
        check_driver("hexagon")
        if not self._values:
            self._runner.check()
            self._runner.wait()

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, HexagonEvent, self.device)
        self.synchronize()
        earlier.synchronize()
        return float(self._values[0] - earlier._values[0]) * 1e-9
