"""The registry: the look-up in every group of the plugin interface. Objects registered in this
process precede entry points.

A hit is cached, a miss is not, so a program finds a distribution that is installed while it runs. A
plugin is imported when its key is first used. No lock is held during an import: Python's import
lock synchronizes threads that look up one key.
"""

from __future__ import annotations

import os

from devmod._plugins.claim import (
    CORE,
    GROUPS,
    PROTOCOLS,
    SHARED_GROUPS,
    Claim,
    Distribution,
    is_verify_with_kind,
    normalize_name,
)
from devmod._plugins.discovery import distributions, once_per_scan
from devmod._util.environment import environment_items, environment_text
from devmod._util.text import is_valid_name
from devmod.targets import NAMES, SHARED_OBJECT, spec_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: The entries of core's pyproject.toml. Frozen and vendored programs have no metadata of
#: distributions.
CORE_ENTRIES = {
    "devmod.targets": {kind: spec_entry(kind) for kind in NAMES},
    "devmod.create": {"const_loader": "devmod._modules.const_loader:create"},
    "devmod.load_from_bytes": {"const_loader": "devmod._modules.const_loader:load_from_bytes"},
    "devmod.load_from_file": {
        "devmod": "devmod._files.bundle_file:load_from_file",
        SHARED_OBJECT: "devmod._modules.create:load_shared_object",
    },
    "devmod.protocol": {"1": "devmod"},
}

_cache: dict[tuple[str, str], object] = {}
_owners: dict[tuple[str, str], Claim] = {}
_registered: dict[tuple[str, str], object] = {}


def cached_object(group: str, name: str) -> Any:
    """Return the cached object of a key; None if there is none."""
    try:
        return _cache.get((group, name))
    except TypeError:  # an unhashable object is not a name
        return None


def find(group: str, name: str) -> Any:
    """Return the object under `name` in `group`: the cached one, one registered in this process, or
    an entry point; None on a miss.

    Raises
    ------
    PluginError, ConflictError
        The entry is broken, or two distributions provide the key.
    FormatError
        `name` is invalid.
    """
    result = cached_object(group, name)
    if result is None:
        check_name(group, name)
        if (group, name) in _registered:
            result = _find(group, name)
        else:
            result = once_per_scan((group, name), lambda: _find(group, name))
    return result


def used_claim(group: str, name: str) -> Claim:
    """Return the claim of the object that the last look-up returned."""
    return _owners[group, name]


def is_claimed(group: str, name: str) -> bool:
    """Return whether a valid or a broken entry has the name. No plugin is imported."""
    return bool(claims(group, name))


def claims(group: str, name: str = "") -> list[Claim]:
    """Return the claims in `group` (under `name`), first those registered in this process. No
    plugin is imported.

    The distributions that DEVMOD_PLUGINS_ALLOW or DEVMOD_PLUGINS_DENY excludes are omitted. Several
    claims of one name are a conflict, except in the groups ``devmod.hooks`` and
    ``devmod.protocol``.
    """
    check_group(group)
    results = _own_claims(group, name)
    for claim in declared_claims(group, name):
        if not excluding_variable(claim):
            results.append(claim)
    return results


def _own_claims(group: str, name: str) -> list[Claim]:
    """Return the claims of the objects that are registered in this process."""
    results = []
    for (each, entry), obj in list(_registered.items()):
        if each == group and name in ("", entry):
            results.append(Claim(each, entry, _value_of(obj), obj=obj))
    return results


def load_claim(claim: Claim) -> Any:
    """Return the object of a claim, imported and checked.

    Raises
    ------
    PluginError
        It cannot be imported, or is invalid for its group. The cause is chained.
    """
    if claim.object is not None:
        return claim.object
    from devmod._plugins.load import load

    return load(claim, core_distribution())


def register(group: str, name: str, obj: object, *, replace: bool = False) -> None:
    """Register an object in this process. It precedes the entry points of distributions.

    Parameters
    ----------
    group
        A group of the plugin interface, such as "devmod.create", except "devmod.protocol".
    name
        The kind, the format or the hook.
    obj
        An object that is valid for the group. None with ``replace=True`` removes the registration,
        if there is one.
    replace
        Whether to replace an earlier registration in this process.

    Raises
    ------
    FormatError
        The group is unknown, or `name` is invalid.
    PluginError
        `obj` is invalid for the group. Nothing was changed.
    ConflictError
        The name is already registered in this process, and `replace` is False. Nothing was changed.
    """
    check_name(group, name)
    key = (group, name)
    if obj is None and replace:
        _registered.pop(key, None)
    else:
        from devmod._plugins.load import check

        check(Claim(group, name, _value_of(obj)), obj)
        if replace:
            _registered[key] = obj
        elif _registered.setdefault(key, obj) is not obj:
            raise _messages().already_registered(group, name, _value_of(_registered.get(key)))
    _cache.pop(key, None)


def _messages() -> Any:
    """Return the module of the errors' texts, which few look-ups need."""
    from devmod._plugins import messages

    return messages


def local_kinds() -> set[str]:
    """Return the kinds that are registered in this process. Another process does not have them."""
    groups = ("devmod.create", "devmod.device", "devmod.load_from_bytes", "devmod.targets")
    return {name for group, name in list(_registered) if group in groups}


def registered(group: str) -> Mapping[str, Claim]:
    """Return the claims of a group by name. No plugin is imported.

    Returns
    -------
    Mapping[str, Claim]
        The claim that a look-up of the name uses. ``.distribution`` and ``.version`` are its
        provider (``.provider`` for messages), ``.value`` is its entry point. ``.problem`` is the
        reason if it cannot be used, such as a conflict.

    Raises
    ------
    FormatError
        The group is unknown.
    """
    by_name: dict[str, list[Claim]] = {}
    for claim in claims(group):
        by_name.setdefault(claim.name, []).append(claim)
    result = {}
    for name, several in by_name.items():
        candidates = _candidates(several)
        result[name] = candidates[0]
        if len(candidates) > 1 and group not in SHARED_GROUPS:
            choice = chosen_distribution(candidates)
            candidates[0].problem = str(_messages().conflict(candidates, choice))
        elif not candidates[0].problem and not is_name(group, name) and group != "devmod.protocol":
            candidates[0].problem = str(_messages().invalid_name(group, name))
    return result


def check_group(group: str) -> None:
    """Raise FormatError unless `group` is a group of the plugin interface."""
    if not isinstance(group, str) or group not in GROUPS:
        from devmod.errors import FormatError

        raise FormatError(f"unknown group of entry points; the groups are {', '.join(GROUPS)}")


def check_name(group: str, name: str) -> None:
    """Raise FormatError unless `name` is valid in `group`. Names may come from untrusted files, so
    this check is the first.
    """
    check_group(group)
    if not is_name(group, name) or group == "devmod.protocol":
        raise _messages().invalid_name(group, name)


def is_name(group: str, name: object) -> bool:
    """Return whether `name` is a valid name in a group."""
    if group == "devmod.commands":
        if not isinstance(name, str) or not 0 < len(name) <= 32 or name[0] == "-":
            return False
        return all(char == "-" or "a" <= char <= "z" for char in name)
    if group == "devmod.hooks" and isinstance(name, str) and name.count(".") == 1:
        return all(is_valid_name(part) for part in name.split("."))
    return is_valid_name(name)


def _find(group: str, name: str) -> object | None:
    key = (group, name)
    while True:
        registration = _registered.get(key)
        # With an object of this process, no folder is read.
        candidates = _own_claims(group, name) or _candidates(claims(group, name))
        if not candidates:
            return None
        if len(candidates) > 1 and group not in SHARED_GROUPS:
            raise _messages().conflict(candidates, chosen_distribution(candidates))
        result = load_claim(candidates[0])
        _owners[key] = candidates[0]
        cached = _cache.setdefault(key, result)
        # If another thread has registered an object since the check above, the cached one is stale.
        if _registered.get(key) is registration:
            return cached
        _cache.pop(key, None)


def _candidates(several: list[Claim]) -> list[Claim]:
    """Return the claims that compete for one name: more than one is a conflict."""
    if several and several[0].object is not None:
        return several[:1]
    # The metadata of an interrupted install does not compete with a valid distribution.
    by_distribution = {}
    for claim in reversed(several):
        if not claim.problem or claim.version:
            by_distribution[normalize_name(claim.distribution)] = claim
    candidates = list(reversed(by_distribution.values()))
    if not candidates:
        return several[:1]
    if len(candidates) > 1:
        choice = by_distribution.get(chosen_distribution(candidates))
        if choice is not None:
            return [choice]
    return candidates


def _value_of(obj: object) -> str:
    owner = obj
    if not hasattr(obj, "__qualname__"):
        owner = type(obj)
    return f"{getattr(owner, '__module__', '')}:{getattr(owner, '__qualname__', '')}"


# -- the entries of core and of the installed distributions


def declared_claims(group: str, name: str = "") -> list[Claim]:
    """Return the claims of core and of all distributions, including excluded ones."""
    result = []
    for entry, value in CORE_ENTRIES.get(group, {}).items():
        if name in ("", entry):
            result.append(Claim(group, entry, value, core_distribution()))
    for source in distributions():
        for each, entry, value in source.entries:
            if group == each and name in ("", entry):
                result.append(_declared_claim(group, entry, value, source))
    return result


def _declared_claim(group: str, name: str, value: str, source: Distribution) -> Claim:
    """Return the claim of an entry of a distribution, with its problem."""
    claim = Claim(group, name, value, source)
    if not claim.problem and is_verify_with_kind(claim):
        claim.problem = _messages().verify_takes_no_kind(claim)
    if not claim.problem and PROTOCOLS.isdisjoint(claim.protocols):  # R44
        claim.problem = _messages().protocol_mismatch(claim, core_distribution())
    return claim


def ignored_entries() -> list[Claim]:
    """Return the entries in groups that begin with ``devmod.`` and are not in `GROUPS`. `problem`
    has the reason.
    """
    results = []
    for source in distributions():
        for group, name, value in source.entries:
            if group not in GROUPS:
                claim = Claim(group, name, value, source)
                claim.problem = _messages().ignored_entry(claim, core_distribution())
                results.append(claim)
    return results


def excluding_variable(claim: Claim) -> str:
    """Return the environment variable that excludes the claim's distribution; "" if none does."""
    name = normalize_name(claim.distribution)
    if name in ("", CORE):
        return ""
    allowed = [normalize_name(each) for each in environment_items("DEVMOD_PLUGINS_ALLOW")]
    if allowed and name not in allowed:
        return "DEVMOD_PLUGINS_ALLOW"
    denied = [normalize_name(each) for each in environment_items("DEVMOD_PLUGINS_DENY")]
    if name in denied:
        return "DEVMOD_PLUGINS_DENY"
    return ""


def excluded_claim(group: str, name: str) -> tuple[Claim, str] | None:
    """Return the first claim of a name that an environment variable excludes, with the variable;
    None if there is none.
    """
    if not environment_text("DEVMOD_PLUGINS_ALLOW") and not environment_text("DEVMOD_PLUGINS_DENY"):
        return None
    for claim in declared_claims(group, name):
        variable = excluding_variable(claim)
        if variable:
            return claim, variable
    return None


def chosen_distribution(candidates: Sequence[Claim]) -> str:
    """Return the normalized name of the distribution that DEVMOD_PLUGINS_CHOOSE has for a key; ""
    if it has none.

    A distribution without a key is chosen for all its keys, except for those of core.
    """
    names = [normalize_name(claim.distribution) for claim in candidates]
    alone = ""
    for choice in environment_items("DEVMOD_PLUGINS_CHOOSE"):
        left, equals, right = choice.partition("=")
        if equals and left.strip() == candidates[0].key:
            return normalize_name(right.strip())
        if not equals and not alone and CORE not in names and normalize_name(left) in names:
            alone = normalize_name(left)
    return alone


def core_distribution() -> Distribution:
    """Return core's own distribution. It needs no metadata."""
    import devmod

    return Distribution(
        CORE, devmod.__version__, os.path.dirname(getattr(devmod, "__file__", None) or "")
    )
