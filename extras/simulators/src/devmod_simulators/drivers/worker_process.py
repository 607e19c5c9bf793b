"""What the workers of stand-in drivers share: the fields of requests and responses, and the loop
over the pipes (protocol.md).
"""

from __future__ import annotations

import os
import select
import struct
import traceback
from threading import Thread

#: Descriptors that a worker gets from the driver.
REQUESTS = 3
RESPONSES = 4
ARENA = 5
#: MAP_NORESERVE of Linux. Python 3.13 has the name mmap.MAP_NORESERVE.
NO_RESERVE = 0x4000
#: The methods of a worker for the requests, by their numbers from 1 on.
REQUEST_NAMES = ("load", "place", "unload", "launch", "notes")
_UNKNOWN = 999  # CUDA_ERROR_UNKNOWN, hipErrorUnknown
#: Seconds in which a thread is to end the process, once its program has closed a pipe.
_ENDING = 1.0


class Failure(Exception):
    """A failure with a code of the vendor's API."""

    def __init__(self, code: int, text: str, fields: bytes = b"") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.fields = fields


class Fields:
    """The fields of a request, read in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return integers in the notation of the module struct."""
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def u32(self) -> int:
        """Return one integer of 32 bits."""
        return self.numbers("I")[0]

    def bytes(self) -> bytes:
        """Return bytes with their length before them."""
        length = self.u32()
        value = self.data[self.at : self.at + length]
        self.at += length
        return value

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of memory of a launch: address and size."""
        count = self.u32()
        numbers = self.numbers(f"{2 * count}Q")
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def text(value: str) -> bytes:
    """Return text with its length before it."""
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def frame(status: int, message: str, fields: bytes = b"") -> bytes:
    """Return a response with its length before it."""
    body = struct.pack("<I", status) + text(message) + fields
    return struct.pack("<I", len(body)) + body


def answer(request: bytes, worker: object) -> bytes:
    """Return the response to a request."""
    try:
        fields = Fields(request)
        return frame(0, "", getattr(worker, REQUEST_NAMES[fields.u32() - 1])(fields))
    except Failure as error:
        return frame(error.code, error.text, error.fields)
    except Exception:  # noqa: BLE001  # the driver turns every one into an error of its API
        return frame(_UNKNOWN, traceback.format_exc())


def read(descriptor: int, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end of the pipe."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _end(worker: object) -> None:
    """Let a worker do what it does at its end."""
    end = worker.__dict__.pop("at_end", None)
    if end is not None:
        end()


def _end_with_the_program(worker: object) -> None:
    """End this process when the driver has closed its end of the responses: a kernel may run for
    hours more, or without end.
    """
    poll = select.poll()
    poll.register(RESPONSES, 0)  # the other end is closed: an event that needs no name
    poll.poll()
    _end(worker)
    os._exit(0)


def serve(worker: object) -> None:
    """Answer requests with the methods of a worker until the pipe ends."""
    watcher = Thread(target=_end_with_the_program, args=(worker,), daemon=True)
    watcher.start()
    while len(head := read(REQUESTS, 4)) == 4:
        data = answer(read(REQUESTS, *struct.unpack("<I", head)), worker)
        try:
            while data:
                data = data[os.write(RESPONSES, data) :]
        except BrokenPipeError:  # the program has ended meanwhile
            break
    watcher.join(_ENDING)
    _end(worker)
