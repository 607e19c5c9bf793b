"""Streams and events: command queues, their commands, and shared events."""

from __future__ import annotations

from itertools import count
from threading import RLock

from devmod import Event, Stream
from devmod.backend import Once
from devmod.errors import LaunchError
from devmod_metal._interface import MetalError
from devmod_metal._open import metal
from devmod_runtime import check_driver, check_earlier_event, check_event, fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod_metal._device import MetalDevice

#: The number of recorded commands of a stream above which completed ones are removed.
_MAX_RECORDED = 32


class Commands:
    """The commands that were committed to a queue and may still run, in order.

    An interrupt may occur between a commit and its record. `_is_incomplete` is therefore set before a commit. If it is set, `wait` commits
    another command and waits for it, since it runs after all others. A command stays recorded until it has completed.
    """

    def __init__(self, queue: Any, device: Any) -> None:
        self._queue = queue
        self._device = device
        self._recorded: dict[int, Any] = {}
        self._number = count()
        self._failure = ""
        self._is_incomplete = False
        self._once = Once()
        self._count = count(1)
        self._lock = fork_safe(RLock())

    def commit(self, commit: Callable[[], Any]) -> Any:
        """Commit a command in the order of the stream, and record it."""
        with self._lock:
            was_incomplete, self._is_incomplete = self._is_incomplete, True
            commands = commit()
            self._recorded[next(self._number)] = commands
            self._is_incomplete = was_incomplete
            if len(self._recorded) > _MAX_RECORDED:
                for number in tuple(self._recorded):
                    if not metal().is_complete(self._recorded[number]):
                        break
                    self._remove(number)
        return commands

    def signal(self) -> tuple[Any, int, list[Any]]:
        """Commit a command that sets the stream's event. Return the event, its value, and the commands whose last end is its time."""
        event = self._once.get("event", lambda: metal().event(self._device))
        # Metal may give commands without work no time, so they copy this.
        scratch = self._once.get("scratch", lambda: metal().buffer(self._device, 8))
        with self._lock:
            value = next(self._count)
            # A GPU may run the copy before the launch ahead of it has ended, since they share no memory.
            last = list(self._recorded.values())[-1:]
            return event, value, [*last, self.commit(lambda: metal().signal(self._queue, event, value, scratch))]

    def wait(self) -> str:
        """Wait for all commands. Return the first failure since the last call, or ""."""
        if self._is_incomplete:
            with self._lock:
                self.signal()
                self._is_incomplete = False
        for number, commands in tuple(self._recorded.items()):
            metal().wait(commands)
            self._remove(number)
        failure, self._failure = self._failure, ""
        return failure

    def _remove(self, number: int) -> None:
        commands = self._recorded.get(number)
        if commands is not None:
            self._failure = self._failure or metal().failure(commands)
            self._recorded.pop(number, None)


class MetalStream(Stream):
    """A command queue, which runs commands in order.

    Attributes
    ----------
    queue
        Metal's command queue.
    commands : Commands
        The commands of the queue.
    """

    device: MetalDevice

    def __init__(self, device: MetalDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        self.commands = Commands(queue, device.handle)
        #: The token of the stream's lease.
        self.token: object = None

    def wait_for_commands(self) -> str:
        """Wait for all commands. Return the first failure since the last call, or ""."""
        check_driver("metal")
        return self.commands.wait()

    def synchronize(self) -> None:
        failure = self.wait_for_commands()
        if failure:
            raise self.device.launch_error(failure)

    def record(self) -> MetalEvent:
        check_driver("metal")
        try:
            event, value, commands = self.commands.signal()
        except MetalError as error:
            raise LaunchError(f"{self.device} gives no event: {error}", kind="metal") from error
        return MetalEvent(self.device, event, value, commands)

    def wait(self, event: Event) -> None:
        event = check_event(event, MetalEvent, self.device)
        check_driver("metal")
        try:
            self.commands.commit(lambda: metal().wait_for(self.queue, event.handle, event.value))
        except MetalError as error:
            raise LaunchError(f"{self.device} cannot wait for an event: {error}", kind="metal") from error

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class MetalEvent(Event):
    """A value that a queue sets a shared event to. The last end of its commands is its time."""

    __slots__ = ("commands", "device", "handle", "value")

    def __init__(self, device: MetalDevice, handle: Any, value: int, commands: list[Any]) -> None:
        self.device, self.handle, self.value, self.commands = device, handle, value, commands

    def synchronize(self) -> None:
        check_driver("metal")
        failure = wait_for(self.commands)
        if failure:
            raise self.device.launch_error(failure)

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, MetalEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        return self._end() - earlier._end()

    def _end(self) -> float:
        return max(metal().times(commands)[1] for commands in self.commands)

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def wait_for(commands: list[Any]) -> str:
    """Wait for commands. Return the first failure, or ""."""
    driver, failure = metal(), ""
    for each in commands:
        driver.wait(each)
        failure = failure or driver.failure(each)
    return failure
