"""The look-up that raises an error on a miss."""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.discovery import shared_scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lookup(group: str, name: str) -> Any:
    """Return the object under `name` in `group`: the cached one, one registered in this process, or an entry point.

    Raises
    ------
    NotRegisteredError
        The key is missing. The message has the command that installs it.
    PluginError, ConflictError
        The entry is broken, or two distributions provide the key.
    FormatError
        `name` is invalid.
    """
    result = registry.cached_object(group, name)
    if result is None:
        with shared_scan():
            result = registry.find(group, name)
            if result is None:
                from devmod._plugins.miss import not_registered

                raise not_registered(group, name)
    return result
