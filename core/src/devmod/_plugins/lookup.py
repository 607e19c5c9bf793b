"""The look-up that raises an error on a miss, and the call of what it returns."""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.discovery import shared_scan
from devmod._util.text import is_valid_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The groups for which a person names a kind, rather than a file.
_CHOSEN = ("devmod.device", "devmod.conformance")


def lookup(group: str, name: str) -> Any:
    """Return the object under `name` in `group`: the cached one, one registered in this process, or
    an entry point.

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
        if group in _CHOSEN and isinstance(name, str) and not is_valid_name(name):
            from devmod._plugins.miss import invalid_kind

            raise invalid_kind(group, name)
        with shared_scan():
            result = registry.find(group, name)
            if result is None:
                from devmod._plugins.miss import not_registered

                raise not_registered(group, name)
    return result


def call_entry(group: str, name: str, entry: Any, *arguments: object) -> Any:
    """Call an entry. Its exceptions pass through. A foreign one gets a note with the distribution.

    Raises
    ------
    NotRegisteredError, PluginError
        As for `explain_import`.
    """
    try:
        return entry(*arguments)
    except Exception as error:
        from devmod._plugins.messages import add_note

        claim = registry.used_claim(group, name)
        if isinstance(error, ImportError):
            explain_import(error, group, name, claim.value.partition(":")[0])
        add_note(error, claim)
        raise


def explain_import(error: ImportError, group: str, name: str, module: str) -> None:
    """Raise the error for an import in the code of an entry, if it failed because a distribution is
    missing.

    Raises
    ------
    NotRegisteredError
        The distribution with the entry has been uninstalled since the entry was used.
    PluginError
        It needs another wheel of devmod, which is missing.
    """
    from devmod._plugins.messages import missing_wheel

    package = missing_wheel(error)
    found = registry.claims(group, name)
    if not found and (package or (error.name or "").partition(".")[0] == module.partition(".")[0]):
        from devmod._plugins.miss import not_registered

        raise not_registered(group, name) from error
    if found and found[0].object is None and package:
        from devmod._plugins.load import broken
        from devmod.errors import describe_error

        why = f"importing {package} failed ({describe_error(error)})"
        raise broken(found[0], why, error) from error
