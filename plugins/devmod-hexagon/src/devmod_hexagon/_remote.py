"""Runners that listen on TCP: on a board, or on this machine for tests."""

from __future__ import annotations

from devmod.backend import environment_text
from devmod.errors import DeviceNotFoundError
from devmod_hexagon._runner import RunnerThread
from devmod_hexagon._transport import Disconnected, SocketTransport

#: The architecture of a remote device if DEVMOD_HEXAGON_ARCH is not set: the one for which the runner is built.
ARCH = "v66"
_SECRET_LENGTH = range(32, 65)


def parse(text: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of DEVMOD_HEXAGON_ADDRESS."""
    results = []
    for item in text.split(","):
        host, _, port = item.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise DeviceNotFoundError(
                f"DEVMOD_HEXAGON_ADDRESS has {item.strip()!r}: expected host:port, several separated by commas", kind="hexagon"
            )
        results.append((host, int(port)))
    return results


def runner(host: str, port: int, label: str) -> RunnerThread:
    """Return a runner, to which its first request connects. That raises DeviceNotFoundError if it cannot connect."""

    def connect() -> SocketTransport:
        secret = environment_text("DEVMOD_HEXAGON_SECRET")
        if len(secret) not in _SECRET_LENGTH or not secret.isascii():
            raise DeviceNotFoundError(
                f"{label} cannot be used: DEVMOD_HEXAGON_SECRET must have the runner's secret of 32 to 64 ASCII characters", kind="hexagon"
            )
        try:
            return SocketTransport(host, port, secret)
        except (OSError, Disconnected) as error:
            reason = str(error) or "the runner has closed the connection"
            raise DeviceNotFoundError(
                f"{label} cannot be used: no connection to {host}:{port}: {reason}. Start its runner there (docs/hexagon.md)",
                kind="hexagon",
            ) from error

    return RunnerThread(connect, label)
