"""Trials: another process uses a payload first, because a driver may crash on it."""

from __future__ import annotations

from devmod.backend import environment_flag
from devmod.worker import can_start_python

#: Exit statuses of a process that another process ended: by SIGINT, SIGKILL (as when memory is
#: short) or SIGTERM.
_KILLED = (-2, -9, -15)


def was_killed(code: int) -> bool:
    """Return whether an exit status shows that another process ended the process."""
    return code in _KILLED


class Trial:
    """A rule of a backend: another process builds a payload of unknown origin first, because a
    driver may crash on it.

    ``DEVMOD_<KIND>_TRIAL=0`` (or ``false``) disables the rule. A frozen program has no interpreter,
    and tries no payloads.

    Parameters
    ----------
    kind
        The kind of the payloads.
    payload
        What the messages call a payload, such as "binary".
    """

    def __init__(self, kind: str, payload: str) -> None:
        self._payload = payload
        self._variable = f"DEVMOD_{kind.upper()}_TRIAL"

    @property
    def is_enabled(self) -> bool:
        """Whether payloads are to be tried."""
        return environment_flag(self._variable, default=True) and can_start_python()

    def failure(self, subject: str, reason: str) -> str:
        """Return the message for a payload that could not be tried.

        Parameters
        ----------
        subject
            The payload, with its kind.
        reason
            The reason, a sentence without its full stop.
        """
        return (
            f"{subject} was not loaded: devmod builds a new {self._payload} in another process first, and {reason}. "
            f"If you trust the {self._payload}, set {self._variable}=0 to build it in this process only"
        )
