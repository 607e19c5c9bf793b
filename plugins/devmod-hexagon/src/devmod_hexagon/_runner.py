"""The host's end of the connection to a runner: send requests and read replies. docs/hexagon-runner.md describes the protocol.

A frame is its length (u32, little-endian) and one msgpack array. A request is ``[operation, number, ...]``. Its reply is
``[number, 0, ...]``, or ``[number, 1, code, text]`` for an error. The replies have the order of the requests. After an
error with the number 0 the runner ends.

Calls are queued: the reply is read at the next wait. A wait raises the error of an earlier call.
"""

from __future__ import annotations

from collections import deque
from threading import RLock

import msgpack  # type: ignore[import-untyped]

from devmod.backend import environment_text, fork_safe, lend
from devmod.errors import DeviceMemoryError, DeviceNotFoundError, FormatError, LaunchError
from devmod_hexagon._image import PACKED
from devmod_hexagon._memory import Arena, Memory
from devmod_hexagon._transport import Disconnected, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from devmod.backend import Lease
    from devmod_hexagon._transport import Transport

    Handler = Callable[[Sequence[Any]], object]

PROTOCOL_VERSION = 1
#: The limit on the bytes of a reply, except that of a read.
_MAX_REPLY = 1 << 24
#: The limit on unread replies. Their bytes fit into the smallest pipe, so the runner never waits for the host.
_MAX_QUEUED = 512
#: The head of the reply to a read: an array of three, two numbers, and a bin.
_READ_HEAD = 5 + 9 + 9 + 5
#: The limit on the calls of one frame.
MAX_BATCH = 4096
#: The seconds for the first reply of a runner.
_START_TIMEOUT = 60.0
#: The bytes of a page, whose protection the runner sets.
_PAGE = 4096


class Runner:
    """A runner that was started, with the connection to it.

    Parameters
    ----------
    transport
        The connection. The runner owns it.
    label
        The device in messages.

    Attributes
    ----------
    lock
        Serializes the use of the connection by threads.
    shared
        The runner's memory as the host maps it; None without a mapping.
    ended
        The reason why the runner cannot be used; "" while it runs.
    """

    def __init__(self, transport: Transport, label: str) -> None:
        self._transport = transport
        self._label = label
        self.lock = fork_safe(RLock())
        self.ended = ""
        self._number = 0
        #: The handlers of the queued requests, the oldest first.
        self._queued: deque[Handler | None] = deque()
        try:
            _, address, nbytes, is_shared = self._start()
        except BaseException:
            transport.close()
            raise
        self._address = address
        shared = transport.arena if is_shared else None
        self.shared = None if shared is None else shared[:nbytes]
        self._arena = Arena(self, address, nbytes)
        #: The leases of loaded images, each with its number and its memory, and those of collected images.
        self._images: dict[int, Lease] = {}
        self._collected: deque[Any] = deque()

    def _start(self) -> Sequence[int]:
        try:
            self._send("hello")
            values = self._reply(_START_TIMEOUT)
        except (LaunchError, RunnerError):
            reason = self.ended or "the runner refused the first request"
            raise DeviceNotFoundError(f"{self._label} cannot be used: {reason}", kind="hexagon") from None
        if not (len(values) == 4 and all(type(value) is int for value in values)):
            raise DeviceNotFoundError(f"{self._label} cannot be used: the runner replied {values!r} to the first request", kind="hexagon")
        if values[0] != PROTOCOL_VERSION:
            raise DeviceNotFoundError(
                f"{self._label} cannot be used: its runner has version {values[0]} of the protocol, expected {PROTOCOL_VERSION}. Use a "
                "runner and a devmod-hexagon of the same release",
                kind="hexagon",
            )
        return values

    # -- requests

    def load(self, code: bytes | memoryview, span: int, alignment: int) -> Image:
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
        with self.lock:
            self._unload_collected()
            memory = self._arena.allocate(-(-span // _PAGE) * _PAGE, max(alignment, _PAGE))
            if memory is None:
                raise DeviceMemoryError(f"{self._label} has no room for a module of {span} bytes", kind="hexagon")
            try:
                (number,) = self._request("load", memory.address, span, code)
            except RunnerError as error:
                raise FormatError(_load_error(error), kind="hexagon") from None
            image = Image(number, memory.address)
            lease = lend(image, (number, memory), self._collected.append)
            image.token = lease.token
            self._images[id(lease)] = lease
            return image

    def allocate(self, nbytes: int) -> Memory | None:
        """Return memory of `nbytes` bytes; None if the arena has no room."""
        with self.lock:
            self._unload_collected()
            return self._arena.allocate(nbytes)

    @property
    def free_bytes(self) -> int:
        """The free bytes of the arena."""
        with self.lock:
            return self._arena.free_bytes

    def symbol(self, image: Image, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a symbol; (0, 0) if the image defines none of that name."""
        with self.lock:
            address, size = self._request("symbol", image.number, name)
            return address, size

    def _unload_collected(self) -> None:
        """Unload the images without references. Their memory becomes free only then, because the runner has write-protected the code."""
        for _ in range(len(self._collected)):
            lease = self._collected.popleft()
            if not lease.expired:
                self._collected.append(lease)
            elif self._images.pop(id(lease), None) is not None and not self.ended:
                self._request("unload", lease.value[0])

    def queue_calls(self, calls: Sequence[bytes], handle: Handler | None = None) -> None:
        """Queue calls in one frame.

        Parameters
        ----------
        calls
            The calls, each as `call_item` returns it; MAX_BATCH at most.
        handle
            A function that a later wait calls with a list: the nanoseconds that the calls took, and their results, 8 bytes each.
        """
        with self.lock:
            self._number += 1
            count = len(calls)
            head = b"\xdd" + (3 + 3 * count).to_bytes(4, "big") + b"\xa4call\xcf" + self._number.to_bytes(8, "big")
            # One buffer: a frame of 1,000 parts takes longer to send than to join.
            self._send_frame(head + b"\xcd" + count.to_bytes(2, "big") + b"".join(calls))
            self._add_queued(handle)

    def queue_clock(self, handle: Handler) -> None:
        """Queue a reading of the runner's clock. A later wait calls `handle` with a list: the clock in nanoseconds."""
        with self.lock:
            self._send("clock")
            self._add_queued(handle)

    def _add_queued(self, handle: Handler | None) -> None:
        self._queued.append(handle)
        if len(self._queued) > _MAX_QUEUED:
            self._finish_oldest()

    def wait(self) -> None:
        """Wait for all queued calls.

        Raises
        ------
        LaunchError
            A kernel has ended the runner, or does not end in time.
        """
        with self.lock:
            while self._queued:
                self._finish_oldest()

    def write(self, memory: Memory, data: memoryview) -> None:
        """Copy bytes to the start of memory, after the queued calls."""
        with self.lock:
            self.wait()
            if self.shared is not None:
                start = memory.address - self._address
                self.shared[start : start + data.nbytes] = data
            else:
                self._request("write", memory.address, data)

    def read(self, memory: Memory, out: memoryview) -> None:
        """Copy the start of memory to `out`, after the queued calls."""
        with self.lock:
            self.wait()
            if self.shared is not None:
                start = memory.address - self._address
                out[:] = self.shared[start : start + out.nbytes]
            else:
                timeout = _timeout()
                self._send("read", memory.address, out.nbytes)
                self._read_reply(out, timeout)

    def view(self, memory: Memory) -> memoryview | None:
        """Return the bytes of memory that the host shares with the runner; None if it shares none."""
        start = memory.address - self._address
        return None if self.shared is None else self.shared[start : start + memory.nbytes]

    def clear(self, memory: Memory, nbytes: int) -> None:
        """Set the first bytes of memory to zero, after the queued calls."""
        if self.shared is not None:
            self.write(memory, memoryview(bytes(nbytes)))
            return
        with self.lock:
            self._request("clear", memory.address, nbytes)

    def copy(self, source: Memory, target: Memory, nbytes: int) -> None:
        """Copy bytes inside the arena, after the queued calls."""
        if self.shared is not None:
            with self.lock:
                self.wait()
                start = source.address - self._address
                self.write(target, self.shared[start : start + nbytes])
            return
        with self.lock:
            self._request("copy", source.address, target.address, nbytes)

    def check(self) -> None:
        """Raise LaunchError if the runner has ended."""
        if self.ended:
            raise LaunchError(f"{self._label} cannot be used: {self.ended}", kind="hexagon")

    def close(self) -> None:
        """End the runner."""
        if not self.ended:
            self.ended = "its runner was closed"
            self._transport.close()

    # -- frames

    def _request(self, operation: str, *values: Any) -> Sequence[Any]:
        """Send a request after the queued calls, and return the contents of its reply. The caller holds the lock."""
        self.wait()
        timeout = _timeout()
        self._send(operation, *values)
        return self._reply(timeout)

    def _send(self, operation: str, *values: Any) -> None:
        self._number += 1
        contents = values[-1] if values and isinstance(values[-1], memoryview) else None
        items = values if contents is None else values[:-1]
        packer = msgpack.Packer()
        head = packer.pack_array_header(2 + len(values)) + packer.pack(operation) + packer.pack(self._number)
        head += b"".join(packer.pack(item) for item in items)
        if contents is None:
            self._send_frame(head)
        else:
            self._send_frame(head + b"\xc6" + contents.nbytes.to_bytes(4, "big"), contents)

    def _send_frame(self, *parts: bytes | memoryview) -> None:
        self.check()
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)
        try:
            self._transport.send(size.to_bytes(4, "little"), *parts)
        except Disconnected:
            self._fail_disconnected()

    def _finish_oldest(self) -> None:
        """Read the reply of the oldest queued calls."""
        values = self._reply(_timeout())
        handle = self._queued.popleft()
        if handle is not None:
            handle(values)

    def _reply(self, timeout: float | None) -> Sequence[Any]:
        """Return the contents of the next reply.

        Raises
        ------
        RunnerError
            The runner refuses the request. It continues.
        LaunchError
            The runner has ended.
        """
        return self._contents(self._frame(timeout))

    def _frame(self, timeout: float | None, most: int = _MAX_REPLY) -> bytes:
        size = self._frame_size(timeout, most)
        frame: bytes = self._guard(lambda: self._transport.receive(size, timeout), timeout)
        return frame

    def _frame_size(self, timeout: float | None, most: int) -> int:
        size = int.from_bytes(self._guard(lambda: self._transport.receive(4, timeout), timeout), "little")
        if not 0 < size <= most:
            self._fail(f"its runner sent a frame of {size} bytes, expected 1 to {most}")
        return size

    def _guard(self, read: Callable[[], Any], timeout: float | None) -> Any:
        self.check()
        try:
            return read()
        except Disconnected:
            self._fail_disconnected()
        except TimedOut:
            self._fail(f"a kernel did not end within {timeout:g} seconds (DEVMOD_HEXAGON_TIMEOUT), so its runner was stopped")
        except BaseException:
            # An interrupt between the bytes of a frame: the next reply would be read from its middle.
            self.ended = "a wait for it was interrupted, so its runner was stopped"
            self._transport.close()
            raise

    def _contents(self, frame: bytes) -> Sequence[Any]:
        try:
            values = msgpack.unpackb(frame, use_list=True, strict_map_key=True)
        except (ValueError, msgpack.UnpackException):
            values = None
        if not (type(values) is list and len(values) >= 2 and type(values[0]) is int and values[1] in (0, 1)):
            self._fail("its runner sent bytes that are not a reply")
        if values[1] == 0:
            if values[0] != self._expected():
                self._fail(f"its runner replied to request {values[0]}, expected {self._expected()}")
            return values[2:]
        code, text = (*values[2:4], "", "")[:2]
        if values[0] == 0:
            self._fail(_end_reason(str(code), str(text)))
        raise RunnerError(str(code), str(text))

    def _expected(self) -> int:
        """Return the number of the oldest request without a reply."""
        return self._number - max(len(self._queued) - 1, 0) if self._queued else self._number

    def _read_reply(self, out: memoryview, timeout: float | None) -> None:
        size = self._frame_size(timeout, out.nbytes + _MAX_REPLY)
        head = self._guard(lambda: self._transport.receive(min(size, _READ_HEAD), timeout), timeout)
        if size == _READ_HEAD + out.nbytes and head[-5:] == b"\xc6" + out.nbytes.to_bytes(4, "big"):
            self._guard(lambda: self._transport.receive_into(out, timeout), timeout)
            return
        if size > _MAX_REPLY:
            self._fail("its runner sent bytes that are not a reply")
        self._contents(head + self._guard(lambda: self._transport.receive(size - len(head), timeout), timeout))
        self._fail("its runner replied to a read with the wrong number of bytes")

    def _fail_disconnected(self) -> NoReturn:
        """Raise the error of a runner that has closed its end. An error that it sent before may still be in the connection."""
        reason = ""
        try:
            size = int.from_bytes(self._transport.receive(4, 1.0), "little")
            while 0 < size <= _MAX_REPLY:
                values = msgpack.unpackb(self._transport.receive(size, 1.0), use_list=True)
                if type(values) is list and len(values) == 4 and values[:2] == [0, 1]:
                    reason = _end_reason(str(values[2]), str(values[3]))
                    break
                size = int.from_bytes(self._transport.receive(4, 1.0), "little")
        except (Disconnected, TimedOut, ValueError, msgpack.UnpackException):
            pass
        status = self._transport.close(is_ending=True)
        self._fail(reason or (f"its runner has ended ({status})" if status else "its runner has ended"))

    def _fail(self, reason: str) -> NoReturn:
        """End the runner and raise LaunchError."""
        if not self.ended:
            self._transport.close()
        self._queued.clear()
        self.ended = reason
        raise LaunchError(f"{self._label}: {self.ended}. The next call starts a new runner; arrays of the old one are lost", kind="hexagon")


class RunnerError(Exception):
    """The error reply to a request: `code` for programs, `text` for users."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Image:
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
    """Return a call as `Runner.queue_calls` takes it: the address, the registers and the stack."""
    stack = places[24:]
    return b"\xce" + address.to_bytes(4, "big") + b"\xc4\x18" + places[:24] + b"\xc6" + len(stack).to_bytes(4, "big") + stack


def _timeout() -> float | None:
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


def _end_reason(code: str, text: str) -> str:
    if code == "fault":
        return f"a kernel has ended its runner: {text}"
    return f"its runner has ended: {text}"


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
