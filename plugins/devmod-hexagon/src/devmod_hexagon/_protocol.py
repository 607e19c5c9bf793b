"""The protocol of a runner: requests and replies in frames. runner/README.md describes it.

A frame is its length (u32, little-endian) and one msgpack array. A request is ``[operation, number,
...]``. Its reply is ``[number, 0, ...]``, or ``[number, 1, code, text]`` for an error. The replies
have the order of the requests. After an error with the number 0 the runner ends.
"""

from __future__ import annotations

from contextlib import suppress

import msgpack  # type: ignore[import-untyped]

from devmod_hexagon._transport import Disconnected, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_hexagon._transport import Limit, Transport

#: The limit on the bytes of a reply.
_MAX_REPLY = 1 << 24


class EndedError(Exception):
    """The runner has ended, or must end. The text is the reason."""


class RunnerError(Exception):
    """The error reply to a request: `code` for programs, `text` for users."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Connection:
    """The host's end of the connection to a runner.

    Parameters
    ----------
    transport
        The connection. The caller closes it.
    limit
        Returns the seconds of a wait for a reply, or None without a limit.

    Attributes
    ----------
    number
        The number of the last request.
    """

    def __init__(self, transport: Transport, limit: Limit) -> None:
        self._transport = transport
        self.limit = limit
        self.number = 0

    def send(self, operation: str, *values: Any) -> int:
        """Send a request, and return its number."""
        self.number += 1
        self.send_frame(msgpack.packb([operation, self.number, *values]))
        return self.number

    def send_frame(self, contents: bytes) -> None:
        """Send a frame."""
        self._transport.send(self.limit, len(contents).to_bytes(4, "little") + contents)

    def reply(self, number: int, limit: Limit | None = None) -> Sequence[Any]:
        """Return the contents of the next reply, which is that to the request `number`.

        Raises
        ------
        RunnerError
            The runner refuses the request. It continues.
        EndedError
            The runner has ended, or must end.
        """
        limit = limit or self.limit
        size = int.from_bytes(self._transport.receive(4, limit), "little")
        if not 0 < size <= _MAX_REPLY:
            raise EndedError(f"its runner sent a frame of {size} bytes, expected 1 to {_MAX_REPLY}")
        frame = self._transport.receive(size, limit)
        try:
            values = msgpack.unpackb(
                frame, use_list=True, unicode_errors="replace", strict_map_key=True
            )
        except (ValueError, msgpack.UnpackException):
            values = None
        if not (
            type(values) is list
            and len(values) >= 2
            and type(values[0]) is int
            and values[1] in (0, 1)
        ):
            raise EndedError("its runner sent bytes that are not a reply")
        if values[1] == 0:
            if values[0] != number:
                raise EndedError(f"its runner replied to request {values[0]}, expected {number}")
            return values[2:]
        code, text = (*values[2:4], "", "")[:2]
        if values[0] == 0:
            raise EndedError(_error_reason(str(code), str(text)))
        raise RunnerError(str(code), str(text))


def end_reason(error: Exception, transport: Transport | None) -> str:
    """Return the reason for the end of a runner, and close the transport."""
    if isinstance(error, TimedOut):
        reason = f"a kernel did not end within {error.args[0]:g} seconds (DEVMOD_HEXAGON_TIMEOUT), so its runner was stopped"
    elif isinstance(error, Disconnected) and transport is not None:
        reason = _last_error(transport)
    else:
        reason = str(error) or type(error).__name__
    status = (
        transport.close(is_ending=isinstance(error, Disconnected)) if transport is not None else ""
    )
    return reason or (f"its runner has ended ({status})" if status else "its runner has ended")


def _last_error(transport: Transport) -> str:
    """Return the error that a runner has sent before it closed its end; "" if it sent none."""
    with suppress(Disconnected, TimedOut, ValueError, msgpack.UnpackException):
        while (
            0 < (size := int.from_bytes(transport.receive(4, _last_limit), "little")) <= _MAX_REPLY
        ):
            values = msgpack.unpackb(
                transport.receive(size, _last_limit), use_list=True, unicode_errors="replace"
            )
            if type(values) is list and len(values) == 4 and values[:2] == [0, 1]:
                return _error_reason(str(values[2]), str(values[3]))
    return ""


def _last_limit() -> float:
    return 1.0


def _error_reason(code: str, text: str) -> str:
    if code == "fault":
        return f"a kernel has ended its runner: {text}"
    return f"its runner has ended: {text}"
