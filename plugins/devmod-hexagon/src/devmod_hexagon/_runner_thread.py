"""The thread of a runner. It alone uses the connection, the memory and the modules of the runner; other threads send it requests.

Python raises KeyboardInterrupt in the main thread alone. So no interrupt comes between two changes of that state: an interrupt ends the
wait for an answer, and the thread completes the request.
"""

from __future__ import annotations

from _thread import RLock, get_ident, start_new_thread
from contextlib import suppress
from queue import Empty, SimpleQueue

from devmod.backend import environment_text
from devmod.errors import DeviceNotFoundError, DevmodError, LaunchError
from devmod_hexagon._runner import Runner, end_reason
from devmod_runtime import fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod_hexagon._memory import Memory
    from devmod_hexagon._runner import Image
    from devmod_hexagon._transport import Transport

#: The limit on the requests that wait for the thread.
_MAX_REQUESTS = 1 << 16
#: The bytes of a piece of a copy through the connection: the fastest through pipes of 1 MiB.
_READ_PIECE, _WRITE_PIECE = 1 << 20, 4 << 20


class RunnerThread:
    """A runner for all threads. It is started by the first request.

    Parameters
    ----------
    connect
        Start a runner, or connect to one.
    label
        The device in messages.

    Attributes
    ----------
    lock
        Held while a module is loaded.
    ended
        The reason why the runner cannot be used; "" until it ends.
    limit
        The seconds that a kernel may take; None without a limit.
    """

    def __init__(self, connect: Callable[[], Transport], label: str) -> None:
        self._connect = connect
        self._label = label
        self.lock = fork_safe(RLock())
        self.ended = ""
        self.limit: float | None = None
        #: Whether no call has raised the error of the runner's end.
        self._is_unreported = False
        self._is_closed = False
        #: Calls, and other requests: a function, its values, and the queue for its answer.
        self._requests: SimpleQueue[Any] = SimpleQueue()
        #: Whether the thread has no request, and no call is queued.
        self._is_idle = False
        #: Held while a request is added, and while `_is_idle` or `ended` is set: no request is added after the end.
        self._requests_lock = fork_safe(RLock())
        #: The threads that were started: an interrupt may cause more than one. The first one serves.
        self._threads: list[object] = []
        #: The identifier of the thread that serves.
        self._thread = 0
        self._transport: Transport | None = None
        self._runner: Runner | None = None

    # -- requests, in any thread

    def load(self, code: bytes | memoryview, span: int, alignment: int) -> Image:
        """As `Runner.load`."""
        image: Image = self._request(Runner.load, code, span, alignment)
        return image

    def allocate(self, nbytes: int) -> Memory | None:
        """As `Runner.allocate`."""
        memory: Memory | None = self._request(Runner.allocate, nbytes)
        return memory

    def free_bytes(self) -> int:
        """As `Runner.free_bytes`."""
        return int(self._request(Runner.free_bytes))

    def symbol(self, image: Image, name: str) -> tuple[int, int]:
        """As `Runner.symbol`."""
        address, size = self._request(Runner.symbol, image.number, name)
        return address, size

    def queue_call(self, call: bytes) -> None:
        """As `Runner.queue_call`."""
        if self._requests.qsize() > _MAX_REQUESTS:
            self.wait()
        self._add(call)

    def queue_clock(self, handle: Callable[[Sequence[Any]], object]) -> None:
        """As `Runner.queue_clock`."""
        self._add((Runner.queue_clock, (handle,), None))

    def call(self, call: bytes) -> Sequence[Any]:
        """As `Runner.call`."""
        reply: Sequence[Any] = self._request(Runner.call, call)
        return reply

    def wait(self) -> None:
        """Wait for all queued calls.

        Raises
        ------
        LaunchError
            A kernel has ended the runner, or does not end in time. One call raises the error.
        """
        if self.ended:
            self.report()
        elif not self._is_idle:
            self._request(Runner.wait)

    def write(self, memory: Memory, data: memoryview) -> None:
        """Copy bytes to the start of memory, after the queued calls."""
        view = self.view(memory)
        if view is not None:
            self.wait()
            view[: data.nbytes] = data
            return
        for start in range(0, data.nbytes, _WRITE_PIECE):
            # A copy, because an interrupt may come before the thread has sent the bytes.
            self._request(Runner.write, memory.address + start, memoryview(bytes(data[start : start + _WRITE_PIECE])))

    def read(self, memory: Memory, out: memoryview) -> None:
        """Copy the start of memory to `out`, after the queued calls."""
        view = self.view(memory)
        if view is not None:
            self.wait()
            out[:] = view[: out.nbytes]
            return
        for start in range(0, out.nbytes, _READ_PIECE):
            piece = out[start : start + _READ_PIECE]
            piece[:] = self._request(Runner.read, memory.address + start, piece.nbytes)

    def view(self, memory: Memory) -> memoryview | None:
        """Return the bytes of memory that the host shares with the runner; None if it shares none."""
        runner = self._runner
        if runner is None or runner.shared is None:
            return None
        start = memory.address - runner.address
        return runner.shared[start : start + memory.nbytes]

    def clear(self, memory: Memory, nbytes: int) -> None:
        """Set the first bytes of memory to zero, after the queued calls."""
        if self.view(memory) is None:
            self._request(Runner.clear, memory.address, nbytes)
        else:
            self.write(memory, memoryview(bytes(nbytes)))

    def copy(self, source: Memory, target: Memory, nbytes: int) -> None:
        """Copy bytes inside the arena, after the queued calls."""
        view = self.view(source)
        if view is None:
            self._request(Runner.copy, source.address, target.address, nbytes)
        else:
            self.write(target, view[:nbytes])

    def check(self) -> None:
        """Raise LaunchError if the runner has ended."""
        if self.ended:
            self.report()
            raise LaunchError(f"{self._label} cannot be used: {self.ended}", kind="hexagon")

    def report(self) -> None:
        """Raise the error of the runner's end, if no call has raised it."""
        if self._is_unreported:
            self._is_unreported = False
            raise self._end_error()

    def close(self) -> None:
        """End the runner, also during a call."""
        if self._threads:
            self._is_closed = True
            with suppress(LaunchError):  # it has ended
                answer = self._add_request(Runner.close)
                if self._transport is not None:
                    self._transport.stop()
                answer.get()
            self._is_unreported = False

    def try_out(self) -> None:
        """Start the runner and end it.

        Raises
        ------
        DeviceNotFoundError
            It cannot be started.
        """
        _, error = self._add_request(Runner.close).get()  # one request: an interrupt of the wait leaves no runner
        if isinstance(error, DeviceNotFoundError):
            raise error

    def _request(self, function: Callable[..., object], *values: object) -> Any:
        """Send a request, and return the result of the function."""
        if get_ident() == self._thread:
            raise LaunchError(f"a finalizer cannot wait for {self._label}: it runs in the thread of the device", kind="hexagon")
        self.limit = _time_limit()
        answer = self._add_request(function, *values)
        try:
            result, error = answer.get()
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(
                "the kernel continues. To stop it, set DEVMOD_HEXAGON_TIMEOUT to a number of seconds; the arrays of the device are then "
                "lost"
            )
            raise
        if error is not None:
            self._is_unreported = False
            raise error
        return result

    def _add_request(self, function: Callable[..., object], *values: object) -> SimpleQueue[Any]:
        answer: SimpleQueue[Any] = SimpleQueue()
        self._add((function, values, answer))
        return answer

    def _add(self, request: object) -> None:
        with self._requests_lock:
            self.check()
            self._is_idle = False
            self._requests.put(request)
        if not self._threads:
            start_new_thread(self._serve, ())

    # -- the thread

    def _serve(self) -> None:
        """Start the runner, and answer requests until it ends."""
        thread = object()
        self._threads.append(thread)
        if self._threads[0] is not thread:
            return
        self._thread = get_ident()
        try:
            self._transport = self._connect()
            self._runner = runner = Runner(self._transport, self._label, self)
        except Exception as error:  # noqa: BLE001 - the waiting threads raise it
            self._end(error)
            return
        while not self.ended:
            self._serve_request(runner)

    def _serve_request(self, runner: Runner) -> None:
        answer: SimpleQueue[Any] | None = None
        outcome: tuple[object, Exception | None]
        try:
            if self._requests.empty():
                runner.flush()
            request = self._requests.get()
            if type(request) is bytes:
                runner.queue_call(request)
                return
            function, values, answer = request
            outcome = (function(runner, *values), None)
        except DevmodError as error:
            outcome = (None, error)
        except Exception as error:  # noqa: BLE001 - the connection may be in the middle of a frame
            outcome = (None, self._end(error))
        if runner.is_idle:
            with self._requests_lock:
                self._is_idle = self._requests.empty()
        if answer is not None:
            answer.put(outcome)

    def _end(self, error: Exception) -> Exception:
        """End the runner, and answer the other requests. Return the error for a caller."""
        reason = end_reason(error, self._transport)
        has_started, self._runner, self._thread = self._runner is not None, None, 0
        with self._requests_lock:
            self._is_unreported = has_started
            self.ended = "its runner was closed" if self._is_closed else reason
        result = self._end_error() if has_started else error
        with suppress(Empty):
            while True:
                request = self._requests.get_nowait()
                if type(request) is not bytes and request[2] is not None:
                    request[2].put((None, result))
        return result

    def _end_error(self) -> LaunchError:
        return LaunchError(
            f"{self._label}: {self.ended}. The next call starts a new runner; arrays of the old one are lost", kind="hexagon"
        )


def _time_limit() -> float | None:
    """Return the seconds of DEVMOD_HEXAGON_TIMEOUT; None without a limit."""
    text = environment_text("DEVMOD_HEXAGON_TIMEOUT")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise LaunchError(f"DEVMOD_HEXAGON_TIMEOUT is {text!r}: expected a number of seconds above 0", kind="hexagon")
    return seconds
