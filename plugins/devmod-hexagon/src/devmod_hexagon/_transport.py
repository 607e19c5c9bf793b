"""Connections to a runner: the pipes of a process, or TCP. A transport moves bytes. It does not depend on the protocol."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    #: Returns the seconds of a wait, or None without a limit.
    Limit = Callable[[], float | None]

#: Linux's F_SETPIPE_SZ and F_GETPIPE_SZ. A pipe of 1 MiB moves 2.5 times as many bytes in a second as one of 64 KiB.
_SET_PIPE_SIZE, _GET_PIPE_SIZE, _PIPE_BYTES = 1031, 1032, 1 << 20
#: The bytes that a connection on TCP holds at least in the buffers of both ends.
_SOCKET_BYTES = 1 << 15
#: The longest wait, in seconds, before a changed time limit is noticed.
_LIMIT_CHECK = 1.0
#: The seconds in which a process must end after it has closed its pipes.
_END_TIMEOUT = 10
#: The limit on the buffers of one writev.
_MAX_BUFFERS = 64


class Disconnected(Exception):
    """The runner has closed its end."""


class TimedOut(Exception):
    """No byte arrived in time. The argument is the limit in seconds."""


class Transport:
    """Two files. One thread uses it; `stop` may be called from any thread.

    Parameters
    ----------
    reader, writer
        The files or sockets. Their descriptors are requested at each use: a closed file has none.

    Attributes
    ----------
    arena
        The runner's memory as the host maps it; None if the host copies through the connection.
    capacity
        The bytes that the runner can send while the host reads none.
    """

    arena: memoryview | None = None
    capacity = _SOCKET_BYTES

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        os.set_blocking(writer.fileno(), False)
        self._buffer = bytearray(1 << 16)
        self._start = self._end = 0
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(reader, select.POLLIN)
        self._writable.register(writer, select.POLLOUT)

    def send(self, limit: Limit, *parts: bytes | bytearray | memoryview) -> None:
        """Send the parts one after another.

        Parameters
        ----------
        limit
            Returns the seconds of a wait for the runner, or None without a limit. It is called again during a long wait.
        parts
            The bytes.

        Raises
        ------
        Disconnected
            The runner has closed its end.
        TimedOut
            It accepted no byte in time.
        """
        pending: Sequence[memoryview] = [memoryview(part).cast("B") for part in parts if len(part)]
        while pending:
            try:
                count = os.writev(self._writer.fileno(), pending[:_MAX_BUFFERS])
            except BlockingIOError:
                _wait(self._writable, limit)
                continue
            except (BrokenPipeError, ConnectionError):
                raise Disconnected from None
            while pending and count >= pending[0].nbytes:
                count -= pending[0].nbytes
                pending = pending[1:]
            if count:
                pending = [pending[0][count:], *pending[1:]]

    def receive(self, size: int, limit: Limit) -> bytearray:
        """Return the next `size` bytes.

        Parameters
        ----------
        size
            Their number.
        limit
            As in `send`.

        Raises
        ------
        Disconnected
            The runner has closed its end.
        TimedOut
            No byte arrived in time.
        """
        result = bytearray(size)
        out = memoryview(result)
        while len(out):
            available = self._end - self._start
            if available:
                count = min(available, len(out))
                out[:count] = self._buffer[self._start : self._start + count]
                self._start += count
            elif len(out) >= len(self._buffer):
                count = self._read_into(out, limit)  # large contents need no buffer
            else:
                self._start, self._end = 0, self._read_into(memoryview(self._buffer), limit)
                continue
            out = out[count:]
        return result

    def _read_into(self, out: memoryview, limit: Limit) -> int:
        _wait(self._readable, limit)
        try:
            count = os.readv(self._reader.fileno(), [out])
        except ConnectionError:
            count = 0
        if not count:
            raise Disconnected
        return count

    def stop(self) -> None:
        """End the runner or the connection to it, so that a read ends. Any thread may call it."""

    def close(self, *, is_ending: bool = False) -> str:
        """End the runner or the connection to it, and close the files.

        Parameters
        ----------
        is_ending
            Whether the runner has closed its end, so that its process ends without a signal.

        Returns
        -------
        str
            The end of the process, such as "it was killed by SIGKILL"; "" if unknown.
        """
        return ""


def _wait(poll: select.poll, limit: Limit) -> None:
    start = monotonic()
    while True:
        seconds = limit()
        rest = _LIMIT_CHECK if seconds is None else start + seconds - monotonic()
        if poll.poll(1000 * min(max(rest, 0), _LIMIT_CHECK)):
            return
        if seconds is not None and rest <= 0:
            raise TimedOut(seconds)


class ProcessTransport(Transport):
    """A runner in an emulator: pipes, and a file of memory that both processes map.

    Parameters
    ----------
    command
        The emulator and its options, then the runner.
    arena_bytes
        The bytes of the arena.
    """

    def __init__(self, command: Sequence[str], arena_bytes: int) -> None:
        import mmap
        import subprocess
        from fcntl import fcntl

        file = os.memfd_create("devmod-hexagon")
        try:
            os.ftruncate(file, arena_bytes)
            arena = mmap.mmap(file, arena_bytes)
            self._process = subprocess.Popen(  # noqa: S603 - the emulator and this wheel's runner
                [*command, str(arena_bytes), str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[file],
                bufsize=0,
                start_new_session=True,  # Ctrl-C in a terminal must not end the device
            )
        finally:
            os.close(file)
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None
        assert writer is not None
        with suppress(OSError):  # over the user's limit for pipes; small pipes work too
            for pipe in (reader, writer):
                fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
        self.capacity = fcntl(reader, _GET_PIPE_SIZE)
        super().__init__(reader, writer)
        self.arena = memoryview(arena)

    def stop(self) -> None:
        self._process.kill()

    def close(self, *, is_ending: bool = False) -> str:
        import signal
        import subprocess

        process = self._process
        self._reader.close()
        self._writer.close()
        self.arena = None
        if is_ending:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT)
        was_running = process.poll() is None
        if was_running:
            process.kill()
        status = process.wait()
        if was_running:
            return ""
        return f"it was killed by {signal.Signals(-status).name}" if status < 0 else f"it ended with exit status {status}"


class SocketTransport(Transport):
    """A runner that listens on TCP.

    Parameters
    ----------
    host, port
        Its address.
    secret
        The secret that the runner expects as the first bytes.
    """

    def __init__(self, host: str, port: int, secret: str) -> None:
        import socket

        self._socket = socket.create_connection((host, port), timeout=30)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(self._socket, self._socket)
        self.send(lambda: None, secret.encode().ljust(64, b"\0")[:64])

    def stop(self) -> None:
        with suppress(OSError):  # it is closed
            self._socket.shutdown(2)

    def close(self, *, is_ending: bool = False) -> str:
        self._socket.close()
        return ""
