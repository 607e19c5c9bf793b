"""The connection to a runner: the pipes of its process, and memory that both map. It does not
depend on the protocol.
"""

from __future__ import annotations

import os
import select
from contextlib import ExitStack, suppress
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Returns the seconds of a wait, or None without a limit.
    Limit = Callable[[], float | None]

#: Linux's F_SETPIPE_SZ and F_GETPIPE_SZ. Many batches take 1.6 times as long with pipes of 64 KiB
#: as with 1 MiB.
_SET_PIPE_SIZE = 1031
_GET_PIPE_SIZE = 1032
_PIPE_BYTES = 1 << 20
#: The longest wait, in seconds, before a changed time limit is noticed.
_LIMIT_CHECK = 1.0
#: The seconds in which a process must end after it has closed its pipes.
_END_TIMEOUT = 10
#: The limit on the bytes of one read.
_READ_BYTES = 1 << 16


class Disconnected(Exception):
    """The runner has closed its end."""


class TimedOut(Exception):
    """No byte arrived in time. The argument is the limit in seconds."""


class Transport:
    """A runner in an emulator: pipes, and a file of memory that both processes map. One thread uses
    it.

    Parameters
    ----------
    command
        The emulator and its options, then the runner.
    arena_bytes
        The bytes of the arena.

    Attributes
    ----------
    arena
        The runner's memory as the host maps it.
    capacity
        The bytes that the runner can send while the host reads none.
    """

    def __init__(self, command: Sequence[str], arena_bytes: int) -> None:
        import mmap
        import subprocess
        from fcntl import fcntl

        from devmod.worker import guarded_group

        #: Ends the runner with this process.
        self._guard = ExitStack()
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
                process_group=self._guard.enter_context(
                    guarded_group()
                ),  # without Ctrl-C of a terminal, too
            )
        except BaseException:
            self._guard.close()
            raise
        finally:
            os.close(file)
        reader = self._process.stdout
        writer = self._process.stdin
        assert reader is not None
        assert writer is not None
        with suppress(OSError):  # over the user's limit for pipes; small pipes work too
            for pipe in (reader, writer):
                fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
        self.capacity = fcntl(reader, _GET_PIPE_SIZE)
        os.set_blocking(writer.fileno(), False)
        #: Their descriptors are requested at each use: a closed file has none.
        self._reader = reader
        self._writer = writer
        #: The bytes that were read and not returned.
        self._received = bytearray()
        self._readable = select.poll()
        self._writable = select.poll()
        self._readable.register(reader, select.POLLIN)
        self._writable.register(writer, select.POLLOUT)
        self.arena = memoryview(arena)

    def send(self, limit: Limit, data: bytes) -> None:
        """Send bytes.

        Parameters
        ----------
        limit
            Returns the seconds of a wait for the runner, or None without a limit. It is called
            again during a long wait.
        data
            The bytes.

        Raises
        ------
        Disconnected
            The runner has closed its end.
        TimedOut
            It accepted no byte in time.
        """
        pending = memoryview(data)
        while pending:
            try:
                pending = pending[os.write(self._writer.fileno(), pending) :]
            except BlockingIOError:
                _wait(self._writable, limit)
            except BrokenPipeError:
                raise Disconnected from None

    def receive(self, size: int, limit: Limit) -> bytes:
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
        while len(self._received) < size:
            _wait(self._readable, limit)
            data = os.read(self._reader.fileno(), _READ_BYTES)
            if not data:
                raise Disconnected
            self._received += data
        result = bytes(self._received[:size])
        del self._received[:size]
        return result

    def stop(self) -> None:
        """End the runner, so that a read ends. Any thread may call it."""
        self._process.kill()

    def close(self, *, is_ending: bool = False) -> str:
        """End the runner, and close the pipes.

        Parameters
        ----------
        is_ending
            Whether the runner has closed its end, so that its process ends without a signal.

        Returns
        -------
        str
            The end of the process, such as "it was killed by SIGKILL"; "" if it was still running.
        """
        import signal
        import subprocess

        process = self._process
        self._reader.close()
        self._writer.close()
        if is_ending:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT)
        was_running = process.poll() is None
        if was_running:
            process.kill()
        status = process.wait()
        self._guard.close()
        if was_running:
            return ""
        return (
            f"it was killed by {signal.Signals(-status).name}"
            if status < 0
            else f"it ended with exit status {status}"
        )


def _wait(poll: select.poll, limit: Limit) -> None:
    start = monotonic()
    while True:
        seconds = limit()
        rest = _LIMIT_CHECK if seconds is None else start + seconds - monotonic()
        if poll.poll(1000 * min(max(rest, 0), _LIMIT_CHECK)):
            return
        if seconds is not None and rest <= 0:
            raise TimedOut(seconds)
