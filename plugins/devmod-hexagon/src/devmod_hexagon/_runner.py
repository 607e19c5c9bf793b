"""The host's end of the connection to a runner: send requests and read replies. docs/hexagon-runner.md describes the protocol.

A frame is its length (u32, little-endian) and one msgpack array. A request is ``[operation, number, ...]``. Its reply is
``[number, 0, ...]``, or ``[number, 1, code, text]`` for an error. The replies have the order of the requests. After an
error with the number 0 the runner ends.

Calls are queued: the reply is read at the next wait. A wait raises the error of an earlier call.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import msgpack  # type: ignore[import-untyped]

from devmod.errors import DeviceMemoryError, DeviceNotFoundError, FormatError
from devmod_hexagon._image import PACKED
from devmod_hexagon._memory import Arena, Memory
from devmod_hexagon._transport import Disconnected, TimedOut
from devmod_runtime import lend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from devmod_hexagon._runner_thread import RunnerThread
    from devmod_hexagon._transport import Limit, Transport
    from devmod_runtime import Lease

    Handler = Callable[[Sequence[Any]], object]

PROTOCOL_VERSION = 1
#: The limit on the bytes of a reply, except that of a read.
_MAX_REPLY = 1 << 24
#: The bytes of the reply to a call, without the results: 8 bytes for each call of the frame.
_CALL_REPLY = 64
#: The head of the reply to a read: an array of three, two numbers, and a bin.
_READ_HEAD = 5 + 9 + 9 + 5
#: The limit on the calls of one frame.
_MAX_BATCH = 4096
#: The seconds for the first reply of a runner.
_START_TIMEOUT = 60.0
#: The bytes of a page, whose protection the runner sets.
_PAGE = 4096


class Runner:
    """A runner that was started, with the connection to it, its memory and its modules. One thread uses it (`RunnerThread`).

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
        Its memory as the host maps it; None without a mapping.
    """

    def __init__(self, transport: Transport, label: str, owner: RunnerThread) -> None:
        self._transport = transport
        self._label = label
        self._owner = owner
        self._number = 0
        #: The queued requests, the oldest first: the number, the handler, and the bytes of the reply.
        self._queued: deque[tuple[int, Handler | None, int]] = deque()
        #: The bytes of the unread replies.
        self._unread = 0
        #: The calls of the next frame.
        self._calls: list[bytes] = []
        self.address, nbytes, is_shared = self._start()
        shared = transport.arena if is_shared else None
        self.shared = None if shared is None else shared[:nbytes]
        self._arena = Arena(owner, self.address, nbytes)
        #: The leases of loaded images, each with its number and its memory, and those of collected images.
        self._images: dict[int, Lease] = {}
        self._collected: deque[Any] = deque()

    def _start(self) -> Sequence[int]:
        try:
            self._send("hello")
            values = self._reply(self._number, lambda: _START_TIMEOUT)
        except TimedOut:
            reason = f"its runner did not reply within {_START_TIMEOUT:g} seconds"
        except (EndedError, Disconnected) as error:
            reason = end_reason(error, self._transport)
        except RunnerError:
            reason = "the runner refused the first request"
        else:
            if not (len(values) == 4 and all(type(value) is int for value in values)):
                reason = f"the runner replied {values!r} to the first request"
            elif values[0] != PROTOCOL_VERSION:
                reason = (
                    f"its runner has version {values[0]} of the protocol, expected {PROTOCOL_VERSION}. Use a runner and a devmod-hexagon "
                    "of the same release"
                )
            else:
                return values[1:]
        raise DeviceNotFoundError(f"{self._label} cannot be used: {reason}", kind="hexagon")

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
        self._unload_collected()
        return self._arena.allocate(nbytes)

    def free_bytes(self) -> int:
        """Return the free bytes of the arena."""
        return self._arena.free_bytes

    def symbol(self, number: int, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a symbol of an image; (0, 0) if the image defines none of that name."""
        address, size = self._request("symbol", number, name)
        return address, size

    def _unload_collected(self) -> None:
        """Unload the images without references. Their memory becomes free only then, because the runner has write-protected the code."""
        for _ in range(len(self._collected)):
            lease = self._collected.popleft()
            if not lease.expired:
                self._collected.append(lease)
            elif self._images.pop(id(lease), None) is not None:
                self._request("unload", lease.value[0])

    def queue_call(self, call: bytes) -> None:
        """Queue a call, as `call_item` returns it. It is sent with the following ones by `flush`, at the latest.

        With a time limit it is sent alone, after the reply to the one before: a reply comes after all calls of a frame.
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
        """Call a function and wait. Return the nanoseconds of the call and the bytes of its result."""
        self.wait()
        reply: list[Any] = []
        self._send_calls([call], reply.extend)
        self.wait()
        return reply

    def _send_calls(self, calls: Sequence[bytes], handle: Handler | None = None) -> None:
        count = len(calls)
        self._make_room(size := _CALL_REPLY + 8 * count)
        self._number += 1
        head = b"\xdd" + (3 + 3 * count).to_bytes(4, "big") + b"\xa4call\xcf" + self._number.to_bytes(8, "big")
        # One buffer: a frame of 1,000 parts takes longer to send than to join.
        self._send_frame(head + b"\xcd" + count.to_bytes(2, "big") + b"".join(calls))
        self._add_queued(handle, size)

    def queue_clock(self, handle: Handler) -> None:
        """Queue a reading of the runner's clock. A later wait calls `handle` with a list: the clock in nanoseconds."""
        self.flush()
        self._make_room(_CALL_REPLY)
        self._send("clock")
        self._add_queued(handle, _CALL_REPLY)

    def _make_room(self, size: int) -> None:
        """Read replies until the connection has room for one of `size` bytes: a runner that cannot send a reply reads no request.

        Half of the capacity is used, since a pipe stores small replies in whole pages.
        """
        while self._queued and self._unread + size > self._transport.capacity // 2:
            self._finish_oldest()

    def _add_queued(self, handle: Handler | None, size: int) -> None:
        self._queued.append((self._number, handle, size))
        self._unread += size

    def wait(self) -> None:
        """Wait for all queued calls."""
        self.flush()
        while self._queued:
            self._finish_oldest()

    def write(self, address: int, data: memoryview) -> None:
        """Copy bytes to an address, after the queued calls."""
        self._request("write", address, data)

    def read(self, address: int, nbytes: int) -> bytearray:
        """Return bytes at an address, after the queued calls."""
        self.wait()
        self._send("read", address, nbytes)
        return self._read_reply(nbytes)

    def clear(self, address: int, nbytes: int) -> None:
        """Set bytes to zero, after the queued calls."""
        self._request("clear", address, nbytes)

    def copy(self, source: int, target: int, nbytes: int) -> None:
        """Copy bytes inside the arena, after the queued calls."""
        self._request("copy", source, target, nbytes)

    def close(self) -> NoReturn:
        """End the runner."""
        raise EndedError("its runner was closed")

    @property
    def is_idle(self) -> bool:
        """Whether no call is queued."""
        return not self._calls and not self._queued

    # -- frames

    def _request(self, operation: str, *values: Any) -> Sequence[Any]:
        """Send a request after the queued calls, and return the contents of its reply."""
        self.wait()
        self._send(operation, *values)
        return self._reply(self._number, self._limit)

    def _limit(self) -> float | None:
        return self._owner.limit

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
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)
        self._transport.send(self._limit, size.to_bytes(4, "little"), *parts)

    def _finish_oldest(self) -> None:
        """Read the reply of the oldest queued request."""
        number, handle, size = self._queued.popleft()
        self._unread -= size
        try:
            values = self._reply(number, self._limit)
        except RunnerError as error:
            raise EndedError(f"its runner refused a call: {error}") from None
        if handle is not None:
            handle(values)

    def _reply(self, number: int, limit: Limit) -> Sequence[Any]:
        """Return the contents of the next reply, which is that to the request `number`.

        Raises
        ------
        RunnerError
            The runner refuses the request. It continues.
        EndedError
            The runner has ended, or must end.
        """
        return self._contents(self._transport.receive(self._frame_size(_MAX_REPLY, limit), limit), number)

    def _frame_size(self, most: int, limit: Limit) -> int:
        size = int.from_bytes(self._transport.receive(4, limit), "little")
        if not 0 < size <= most:
            raise EndedError(f"its runner sent a frame of {size} bytes, expected 1 to {most}")
        return size

    def _contents(self, frame: bytearray, number: int) -> Sequence[Any]:
        try:
            values = msgpack.unpackb(frame, use_list=True, strict_map_key=True)
        except (ValueError, msgpack.UnpackException):
            values = None
        if not (type(values) is list and len(values) >= 2 and type(values[0]) is int and values[1] in (0, 1)):
            raise EndedError("its runner sent bytes that are not a reply")
        if values[1] == 0:
            if values[0] != number:
                raise EndedError(f"its runner replied to request {values[0]}, expected {number}")
            return values[2:]
        code, text = (*values[2:4], "", "")[:2]
        if values[0] == 0:
            raise EndedError(_error_reason(str(code), str(text)))
        raise RunnerError(str(code), str(text))

    def _read_reply(self, nbytes: int) -> bytearray:
        size = self._frame_size(nbytes + _MAX_REPLY, self._limit)
        head = self._transport.receive(min(size, _READ_HEAD), self._limit)
        if size == _READ_HEAD + nbytes and head[-5:] == b"\xc6" + nbytes.to_bytes(4, "big"):
            return self._transport.receive(nbytes, self._limit)
        if size > _MAX_REPLY:
            raise EndedError("its runner sent bytes that are not a reply")
        self._contents(head + self._transport.receive(size - len(head), self._limit), self._number)
        raise EndedError("its runner replied to a read with the wrong number of bytes")


class EndedError(Exception):
    """The runner has ended, or must end. The text is the reason."""


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
    """Return a call as `Runner.queue_call` takes it: the address, the registers and the stack."""
    stack = places[24:]
    return b"\xce" + address.to_bytes(4, "big") + b"\xc4\x18" + places[:24] + b"\xc6" + len(stack).to_bytes(4, "big") + stack


def end_reason(error: Exception, transport: Transport | None) -> str:
    """Return the reason for the end of a runner, and close the transport."""
    if isinstance(error, TimedOut):
        reason = f"a kernel did not end within {error.args[0]:g} seconds (DEVMOD_HEXAGON_TIMEOUT), so its runner was stopped"
    elif isinstance(error, Disconnected) and transport is not None:
        reason = _last_error(transport)
    else:
        reason = str(error) or type(error).__name__
    status = transport.close(is_ending=isinstance(error, Disconnected)) if transport is not None else ""
    return reason or (f"its runner has ended ({status})" if status else "its runner has ended")


def _last_error(transport: Transport) -> str:
    """Return the error that a runner has sent before it closed its end; "" if it sent none."""
    with suppress(Disconnected, TimedOut, ValueError, msgpack.UnpackException):
        while 0 < (size := int.from_bytes(transport.receive(4, _last_limit), "little")) <= _MAX_REPLY:
            values = msgpack.unpackb(transport.receive(size, _last_limit), use_list=True)
            if type(values) is list and len(values) == 4 and values[:2] == [0, 1]:
                return _error_reason(str(values[2]), str(values[3]))
    return ""


def _last_limit() -> float:
    return 1.0


def _error_reason(code: str, text: str) -> str:
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
