"""Connections to a runner: the pipes of a process, or TCP. A transport moves bytes. It does not depend on the protocol."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Linux's F_SETPIPE_SZ. A pipe of 1 MiB moves 2.5 times as many bytes in a second as one of 64 KiB.
_SET_PIPE_SIZE, _PIPE_BYTES = 1031, 1 << 20
#: The seconds in which a process must end after it has closed its pipes.
_END_TIMEOUT = 10
#: The limit on the buffers of one writev.
_MAX_BUFFERS = 64


class Disconnected(Exception):
    """The runner has closed its end."""


class TimedOut(Exception):
    """No byte arrived in time."""


class Transport:
    """Two file descriptors. One thread at a time uses it.

    Attributes
    ----------
    arena
        The runner's memory as the host maps it; None if the host copies through the connection.
    """

    arena: memoryview | None = None

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray(1 << 16)
        self._start = self._end = 0
        self._poll = select.poll()
        self._poll.register(reader, select.POLLIN)

    def send(self, *parts: bytes | bytearray | memoryview) -> None:
        """Send the parts one after another.

        Raises
        ------
        Disconnected
            The runner has closed its end.
        """
        pending: Sequence[memoryview] = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while pending:
                count = os.writev(self._writer, pending[:_MAX_BUFFERS])
                while pending and count >= pending[0].nbytes:
                    count -= pending[0].nbytes
                    pending = pending[1:]
                if count:
                    pending = [pending[0][count:], *pending[1:]]
        except (BrokenPipeError, ConnectionError):
            raise Disconnected from None

    def receive_into(self, out: memoryview, timeout: float | None = None) -> None:
        """Fill `out` with the next bytes.

        Parameters
        ----------
        out
            A writable view of bytes.
        timeout
            The seconds for the first byte; None without a limit.

        Raises
        ------
        Disconnected
            The runner has closed its end.
        TimedOut
            No byte arrived in time.
        """
        while len(out):
            available = self._end - self._start
            if available:
                count = min(available, len(out))
                out[:count] = self._buffer[self._start : self._start + count]
                self._start += count
            elif len(out) >= len(self._buffer):
                count = self._read_into(out, timeout)  # large contents need no buffer
            else:
                self._start, self._end = 0, self._read_into(memoryview(self._buffer), timeout)
                continue
            out = out[count:]

    def receive(self, size: int, timeout: float | None = None) -> bytes:
        """Return the next `size` bytes. The errors are those of `receive_into`."""
        if self._end - self._start >= size:
            self._start += size
            return bytes(self._buffer[self._start - size : self._start])
        out = bytearray(size)
        self.receive_into(memoryview(out), timeout)
        return bytes(out)

    def _read_into(self, out: memoryview, timeout: float | None) -> int:
        if timeout is not None:
            end = monotonic() + timeout
            while not self._poll.poll(max(end - monotonic(), 0) * 1000):
                if monotonic() >= end:
                    raise TimedOut
        try:
            count = os.readv(self._reader, [out])
        except ConnectionError:
            count = 0
        if not count:
            raise Disconnected
        return count

    def close(self, *, is_ending: bool = False) -> str:
        """End the runner or the connection to it.

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

        file = os.memfd_create("devmod-hexagon")
        try:
            os.ftruncate(file, arena_bytes)
            self._map = mmap.mmap(file, arena_bytes)
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        reader, writer = self._process.stdout.fileno(), self._process.stdin.fileno()
        self._enlarge(reader, writer)
        super().__init__(reader, writer)
        self.arena = memoryview(self._map)

    @staticmethod
    def _enlarge(*pipes: int) -> None:
        from fcntl import fcntl

        for pipe in pipes:
            try:
                fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
            except OSError:  # over the user's limit for pipes; small pipes work too
                return

    def close(self, *, is_ending: bool = False) -> str:
        import signal
        import subprocess

        process = self._process
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
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
        super().__init__(self._socket.fileno(), self._socket.fileno())
        self.send(secret.encode().ljust(64, b"\0")[:64])

    def close(self, *, is_ending: bool = False) -> str:
        self._socket.close()
        return ""
