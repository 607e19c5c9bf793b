"""Streams and events: command queues, their commands, and shared events."""

from __future__ import annotations

from itertools import count
from threading import RLock

from devmod import Event, Stream
from devmod.backend import Once, check_driver, check_earlier_event, check_event, fork_safe
from devmod.errors import LaunchError
from devmod_metal._interface import MetalError
from devmod_metal._open import metal

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

    def __init__(self, queue: Any, make_event: Callable[[], Any]) -> None:
        self._queue = queue
        self._make_event = make_event
        self._recorded: dict[int, Any] = {}
        self._number = count()
        self._failure = ""
        self._is_incomplete = False
        self._event = Once()
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

    def signal(self) -> tuple[Any, int, Any]:
        """Commit a command that sets the stream's event. Return the event, its value and the command."""
        event = self._event.get("event", self._make_event)
        with self._lock:
            value = next(self._count)
            return event, value, self.commit(lambda: metal().signal(self._queue, event, value))

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
        self.commands = Commands(queue, lambda: metal().event(device.handle))
        #: The token of the stream's lease.
        self.token: object = None
        self._last_launch: Any = None

    def launch(self, commit: Callable[[], Any]) -> Any:
        """Commit a launch in the order of the stream, and record it."""
        commands = self._last_launch = self.commands.commit(commit)
        return commands

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
        # Commands that only signal may have no times.
        return MetalEvent(self.device, event, value, commands, self._last_launch or commands)

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
    """A value that a queue sets a shared event to. The end of the commands `timed` is the time of the event."""

    __slots__ = ("commands", "device", "handle", "timed", "value")

    def __init__(self, device: MetalDevice, handle: Any, value: int, commands: Any, timed: Any) -> None:
        self.device, self.handle, self.value = device, handle, value
        self.commands, self.timed = commands, timed

    def synchronize(self) -> None:
        check_driver("metal")
        failure = wait_for([self.timed, self.commands])
        if failure:
            raise self.device.launch_error(failure)

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, MetalEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        return metal().times(self.timed)[1] - metal().times(earlier.timed)[1]

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def wait_for(commands: list[Any]) -> str:
    """Wait for commands. Return the first failure, or ""."""
    driver, failure = metal(), ""
    for each in commands:
        driver.wait(each)
        failure = failure or driver.failure(each)
    return failure
