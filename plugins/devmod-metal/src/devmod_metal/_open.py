"""The one Metal of the process: Apple's framework, or a double that a test has set."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_metal._driver import Framework

_opened: list[Framework] = []


def metal() -> Framework:
    """Return Metal. The first call opens the framework.

    Raises
    ------
    DeviceNotFoundError
        Metal is not available here; the message has the reason. A later call tries again.
    """
    if not _opened:
        from devmod_metal._driver import Framework  # importing it opens the framework, which exists only on macOS

        _opened.append(Framework())
    return _opened[0]
