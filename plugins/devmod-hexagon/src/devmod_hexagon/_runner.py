"""Runners: the programs that execute kernels, each with its memory, and the thread that alone talks
to it.

Calls are queued: the reply is read at the next wait. A wait raises the error of an earlier call.
"""

from __future__ import annotations

from _thread import get_ident, start_new_thread
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, TypeVar

from devmod.backend import RLock, environment_text, release_import_lock
from devmod.errors import (
    DeviceMemoryError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    LaunchError,
)
from devmod_hexagon._binary import PACKED
from devmod_hexagon._protocol import Connection, EndedError, RunnerError, end_reason
from devmod_hexagon._transport import Disconnected, TimedOut, Transport
from devmod_runtime import Lease, fork_safe, lend, wait_for_answer

Handler = Callable[[Sequence[Any]], object]
Result = TypeVar("Result")


# -- The memory of a device: the arena of its runner, divided by the host.


#: The vectors of HVX have 128 bytes.
ALIGNMENT = 128

#: The bytes of the reply to a call, without the results: 8 bytes for each call of the frame.
_CALL_REPLY = 64
#: The limit on the calls of one frame.
_MAX_BATCH = 4096
#: The seconds for the first reply of a runner.
_START_TIMEOUT = 60.0
#: The bytes of a page, whose protection the runner sets.
_PAGE = 4096

#: The limit on the requests that wait for the thread.
_MAX_REQUESTS = 1 << 16


class Memory:
    """Bytes of a device's arena. They become free after the last reference is gone.

    Parameters
    ----------
    owner
        For a part: the whole memory or the binary that contains it, which the part keeps alive.

    Attributes
    ----------
    runner
        The runner of the arena. After its end, the memory cannot be used.
    address, nbytes
        The place in the address space of the kernels.
    """

    __slots__ = ("__weakref__", "_owner", "address", "nbytes", "runner")

    def __init__(
        self, runner: RunnerThread, address: int, nbytes: int, owner: object = None
    ) -> None:
        self.runner = runner
        self.address = address
        self.nbytes = nbytes
        self._owner = owner


class Arena:
    """An allocator by first fit. One thread uses it.

    Parameters
    ----------
    runner
        The runner of the arena.
    address, nbytes
        Its place.
    """

    def __init__(self, runner: RunnerThread, address: int, nbytes: int) -> None:
        self._runner = runner
        #: The start and the end of each free range, by address. Adjacent ranges are merged.
        self._free = [(-(-address // ALIGNMENT) * ALIGNMENT, address + nbytes)]
        self._leases: dict[int, Lease] = {}
        #: Leases of collected memory. A finalizer of another object may still use it until the
        #: lease has expired.
        self._ended: deque[Any] = deque()

    @property
    def free_bytes(self) -> int:
        """The sum of the free ranges in bytes."""
        self._collect()
        return sum(end - start for start, end in self._free)

    def allocate(self, nbytes: int, alignment: int = ALIGNMENT) -> Memory | None:
        """Return memory of `nbytes` bytes; None if no range is large enough."""
        self._collect()
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        for place, (start, end) in enumerate(self._free):
            address = -(-start // alignment) * alignment
            if address + size <= end:
                self._free[place : place + 1] = [
                    each for each in ((start, address), (address + size, end)) if each[0] < each[1]
                ]
                memory = Memory(self._runner, address, nbytes)
                lease = lend(memory, (address, size), self._ended.append)
                memory._owner = lease.token
                self._leases[id(lease)] = lease
                return memory
        return None

    def _collect(self) -> None:
        for _ in range(len(self._ended)):
            lease = self._ended.popleft()
            if lease.expired:
                self._leases.pop(id(lease), None)
                self._release(*lease.value)
            else:
                self._ended.append(lease)

    def _release(self, start: int, size: int) -> None:
        end = start + size
        first = last = bisect_left(self._free, (start, end))
        if last < len(self._free) and self._free[last][0] == end:
            end = self._free[last][1]
            last += 1
        if first and self._free[first - 1][1] == start:
            first -= 1
            start = self._free[first][0]
        self._free[first:last] = [(start, end)]


# Where to change: a request of the Hexagon runner
#   here: `plugins/devmod-hexagon/runner/main.c` (`operations`); then `make hexagon-runner`
#   also: the class below; `plugins/devmod-hexagon/runner/README.md`
#   tests: `tests/test_two_places.py`, `plugins/devmod-hexagon/tests/test_runner.py`
class Runner:
    """A runner that was started, with the connection to it, its memory and its modules. One thread
    uses it (`RunnerThread`).

    Parameters
    ----------
    transport
        The connection. The caller closes it.
    label
        The device in messages.
    owner
        The runner of arrays and modules for other threads.

    Attributes
    ----------
    address
        The address of its memory.
    shared
        Its memory as the host maps it.
    """

    def __init__(self, transport: Transport, label: str, owner: RunnerThread) -> None:
        self._transport = transport
        self._connection = Connection(transport, lambda: owner.limit)
        self._label = label
        self._owner = owner
        #: The queued requests, the oldest first: the number, the handler, and the bytes of the
        #: reply.
        self._queued: deque[tuple[int, Handler | None, int]] = deque()
        #: The bytes of the unread replies.
        self._unread = 0
        #: The calls of the next frame.
        self._calls: list[bytes] = []
        self.address = self._start()
        self.shared = transport.arena
        self._arena = Arena(owner, self.address, self.shared.nbytes)
        #: The leases of loaded binaries, each with its number and its memory, and those of
        #: collected binaries.
        self._binaries: dict[int, Lease] = {}
        self._collected: deque[Any] = deque()

    def _start(self) -> int:
        try:
            values = self._connection.reply(self._connection.send("hello"), lambda: _START_TIMEOUT)
        except TimedOut:
            reason = f"its runner did not reply within {_START_TIMEOUT:g} seconds"
        except (EndedError, Disconnected) as error:
            reason = end_reason(error, self._transport)
        except RunnerError:
            reason = "the runner refused the first request"
        else:
            if len(values) == 1 and type(values[0]) is int:
                return values[0]
            reason = f"the runner replied {values!r} to the first request"
        raise DeviceNotFoundError(f"{self._label} cannot be used: {reason}", kind="hexagon")

    # -- requests

    def load(self, code: bytes | memoryview, span: int, alignment: int) -> LoadedBinary:
        """Load a shared object into the arena.

        Parameters
        ----------
        code
            The file.
        span, alignment
            The bytes that its segments take, and their alignment.

        Raises
        ------
        FormatError
            The runner refuses the file.
        DeviceMemoryError
            The arena has no room for it.
        """
        self._unload_collected()
        memory = self._arena.allocate(-(-span // _PAGE) * _PAGE, max(alignment, _PAGE))
        if memory is None:
            raise DeviceMemoryError(
                f"{self._label} has no room for a module of {span} bytes", kind="hexagon"
            )
        try:
            (number,) = self.ask("load", memory.address, span, code)
        except RunnerError as error:
            raise FormatError(_load_error(error), kind="hexagon") from None
        binary = LoadedBinary(number, memory.address)
        lease = lend(binary, (number, memory), self._collected.append)
        binary.token = lease.token
        self._binaries[id(lease)] = lease
        return binary

    def allocate(self, nbytes: int) -> Memory | None:
        """Return memory of `nbytes` bytes; None if the arena has no room."""
        self._unload_collected()
        return self._arena.allocate(nbytes)

    def free_bytes(self) -> int:
        """Return the free bytes of the arena."""
        return self._arena.free_bytes

    def symbol(self, binary: LoadedBinary, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a symbol of a binary; (0, 0) if the binary defines
        none of that name.
        """
        address, size = self.ask(
            "symbol", binary.number, name
        )  # here: another reply ends the runner
        return address, size

    def _unload_collected(self) -> None:
        """Unload the binaries without references. Their memory becomes free only then, because the
        runner has write-protected the code.
        """
        for _ in range(len(self._collected)):
            lease = self._collected.popleft()
            if not lease.expired:
                self._collected.append(lease)
            elif self._binaries.pop(id(lease), None) is not None:
                self.ask("unload", lease.value[0])

    def queue_call(self, call: bytes) -> None:
        """Queue a call, as `call_item` returns it. It is sent with the following ones by `flush`,
        at the latest.

        With a time limit it is sent alone, after the reply to the one before: a reply comes after
        all calls of a frame.
        """
        self._calls.append(call)
        if self._owner.limit is not None:
            self.wait()
        elif len(self._calls) == _MAX_BATCH:
            self.flush()

    def flush(self) -> None:
        """Send the queued calls in one frame."""
        if self._calls:
            calls, self._calls = self._calls, []
            self._send_calls(calls)

    def call(self, call: bytes) -> Sequence[Any]:
        """Call a function and wait. Return the nanoseconds of the call and the bytes of its
        result.
        """
        self.wait()
        reply: list[Any] = []
        self._send_calls([call], reply.extend)
        self.wait()
        return reply

    def _send_calls(self, calls: Sequence[bytes], handle: Handler | None = None) -> None:
        count = len(calls)
        self._make_room(size := _CALL_REPLY + 8 * count)
        connection = self._connection
        connection.number += 1
        head = (
            b"\xdd"
            + (3 + 3 * count).to_bytes(4, "big")
            + b"\xa4call\xcf"
            + connection.number.to_bytes(8, "big")
        )
        # One buffer: a frame of 1,000 parts takes longer to send than to join.
        connection.send_frame(head + b"\xcd" + count.to_bytes(2, "big") + b"".join(calls))
        self._add_queued(connection.number, handle, size)

    def queue_clock(self, handle: Handler) -> None:
        """Queue a reading of the runner's clock. A later wait calls `handle` with a list: the clock
        in nanoseconds.
        """
        self.flush()
        self._make_room(_CALL_REPLY)
        self._add_queued(self._connection.send("clock"), handle, _CALL_REPLY)

    def _make_room(self, size: int) -> None:
        """Read replies until the connection has room for one of `size` bytes: a runner that cannot
        send a reply reads no request.

        Half of the capacity is used, since a pipe stores small replies in whole pages.
        """
        while self._queued and self._unread + size > self._transport.capacity // 2:
            self._finish_oldest()

    def _add_queued(self, number: int, handle: Handler | None, size: int) -> None:
        self._queued.append((number, handle, size))
        self._unread += size

    def wait(self) -> None:
        """Wait for all queued calls."""
        self.flush()
        while self._queued:
            self._finish_oldest()

    def close(self) -> NoReturn:
        """End the runner."""
        raise EndedError("its runner was closed")

    @property
    def is_idle(self) -> bool:
        """Whether no call is queued."""
        return not self._calls and not self._queued

    def ask(self, operation: str, *values: Any) -> Sequence[Any]:
        """Send a request after the queued calls, and return the contents of its reply."""
        self.wait()
        return self._connection.reply(self._connection.send(operation, *values))

    def _finish_oldest(self) -> None:
        """Read the reply of the oldest queued request."""
        number, handle, size = self._queued.popleft()
        self._unread -= size
        try:
            values = self._connection.reply(number)
        except RunnerError as error:
            raise EndedError(f"its runner refused a call: {error}") from None
        if handle is not None:
            handle(values)


class LoadedBinary:
    """A shared object in a runner. It is unloaded after the last reference is gone.

    Attributes
    ----------
    number
        Its number in requests.
    address
        The place of the file's address 0.
    """

    __slots__ = ("__weakref__", "address", "number", "token")

    def __init__(self, number: int, address: int) -> None:
        self.number = number
        self.address = address
        self.token: object = None


def call_item(address: int, places: bytes) -> bytes:
    """Return a call as `Runner.queue_call` takes it: the address, the registers and the stack."""
    stack = places[24:]
    return (
        b"\xce"
        + address.to_bytes(4, "big")
        + b"\xc4\x18"
        + places[:24]
        + b"\xc6"
        + len(stack).to_bytes(4, "big")
        + stack
    )


def _load_error(error: RunnerError) -> str:
    if error.code == "unresolved":
        names = error.text.removeprefix("unresolved ")
        if any(name.startswith("TVM") for name in names.split(", ")):
            return PACKED
        return (
            f"the hexagon module imports functions that the runner does not have: {names}. Define them in the module, or link it with "
            "the library that has them"
        )
    return f"the hexagon module cannot be loaded: {error.text}"


# -- The thread of a runner. It alone uses the connection, the memory and the modules of the runner;
# other threads send it requests.
#
# Python raises KeyboardInterrupt in the main thread alone. So no interrupt comes between two
# changes of that state: an interrupt ends the wait for an answer, and the thread completes the
# request.


class RunnerThread:
    """A runner for all threads. It is started by the first request.

    Parameters
    ----------
    command
        The emulator and its options, then the runner.
    memory
        The bytes of the arena.
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

    def __init__(self, command: Sequence[str], memory: int, label: str) -> None:
        self._command = command
        self._memory = memory
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
        #: Held while a request is added, and while `_is_idle` or `ended` is set: no request is
        #: added after the end.
        self._requests_lock = fork_safe(RLock())
        #: The threads that were started: an interrupt may cause more than one. The first one
        #: serves.
        self._threads: list[object] = []
        #: The identifier of the thread that serves.
        self._thread = 0
        self._transport: Transport | None = None
        self._runner: Runner | None = None

    # -- requests, in any thread

    def queue_call(self, call: bytes) -> None:
        """As `Runner.queue_call`."""
        if self._requests.qsize() > _MAX_REQUESTS:
            self.wait()
        self._add(call)

    def queue_clock(self, handle: Callable[[Sequence[Any]], object]) -> None:
        """As `Runner.queue_clock`."""
        self._add((Runner.queue_clock, (handle,), None))

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
            self.request(Runner.wait)

    def write(self, memory: Memory, data: memoryview) -> None:
        """Copy bytes to the start of memory, after the queued calls."""
        self.wait()
        self.view(memory)[: data.nbytes] = data

    def read(self, memory: Memory, out: memoryview) -> None:
        """Copy the start of memory to `out`, after the queued calls."""
        self.wait()
        out[:] = self.view(memory)[: out.nbytes]

    def view(self, memory: Memory) -> memoryview:
        """Return the bytes of memory, which the host shares with the runner."""
        runner = self._runner
        if runner is None:  # it has ended since the caller's check
            self._is_unreported = False
            raise self._end_error()
        start = memory.address - runner.address
        return runner.shared[start : start + memory.nbytes]

    def clear(self, memory: Memory, nbytes: int) -> None:
        """Set the first bytes of memory to zero, after the queued calls."""
        self.write(memory, memoryview(bytes(nbytes)))

    def copy(self, source: Memory, target: Memory, nbytes: int) -> None:
        """Copy bytes inside the arena, after the queued calls."""
        self.write(target, self.view(source)[:nbytes])

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
                transport = self._transport
                if transport is not None:
                    transport.stop()
                wait_for_answer(answer)
            self._is_unreported = False

    def try_out(self) -> None:
        """Start the runner and end it.

        Raises
        ------
        DeviceNotFoundError
            It cannot be started.
        """
        # One request: an interrupt of the wait leaves no runner.
        _, error = wait_for_answer(self._add_request(Runner.close))
        if isinstance(error, DeviceNotFoundError):
            raise error

    def request(self, function: Callable[..., Result], *values: object) -> Result:
        """Call a method of `Runner` in the thread, and return its result."""
        if get_ident() == self._thread:
            raise LaunchError(
                f"a finalizer cannot wait for {self._label}: it runs in the thread of the device",
                kind="hexagon",
            )
        self.limit = _time_limit()
        answer = self._add_request(function, *values)
        try:
            result, error = wait_for_answer(answer)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(
                "the kernel continues. To stop it, set DEVMOD_HEXAGON_TIMEOUT to a number of seconds; the arrays of the device are then "
                "lost"
            )
            raise
        if error is not None:
            self._is_unreported = False
            raise error
        return result  # type: ignore[no-any-return]

    def _add_request(self, function: Callable[..., object], *values: object) -> SimpleQueue[Any]:
        release_import_lock()
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
            self._transport = Transport(self._command, self._memory)
            self._runner = runner = Runner(self._transport, self._label, self)
        except OSError as error:
            self._end(
                DeviceNotFoundError(
                    f"{self._label} cannot be used: {self._command[0]} cannot be started: {error}",
                    kind="hexagon",
                )
            )
            return
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
        has_started, self._thread = self._runner is not None, 0
        with self._requests_lock:
            self._is_unreported = has_started
            self.ended = "its runner was closed" if self._is_closed else reason
        self._runner = self._transport = None  # and its memory
        result = self._end_error() if has_started else error
        with suppress(Empty):
            while True:
                request = self._requests.get_nowait()
                if type(request) is not bytes and request[2] is not None:
                    request[2].put((None, result))
        return result

    def _end_error(self) -> LaunchError:
        return LaunchError(
            f"{self._label}: {self.ended}. The next call starts a new runner; arrays of the old one are lost",
            kind="hexagon",
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
        raise LaunchError(
            f"DEVMOD_HEXAGON_TIMEOUT is {text!r}: expected a number of seconds above 0",
            kind="hexagon",
        )
    return seconds
