"""The texts of the registry's errors. Each function receives the claims that its text names. No
function does a look-up.
"""

from __future__ import annotations

import os

from devmod._plugins.claim import (
    CORE,
    GROUPS,
    PROTOCOLS,
    Claim,
    Distribution,
    is_verify_with_kind,
    normalize_name,
)
from devmod._util.text import MAX_NAME, escape, is_valid_name, lower_case_hint
from devmod.errors import (
    ConflictError,
    DevmodError,
    FormatError,
    NotRegisteredError,
    PluginError,
    admission_hint,
    did_you_mean,
    pip_install,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_NOUNS = {
    "devmod.bundles": "bundle's name",
    "devmod.load_from_file": "format",
    "devmod.hooks": "hook",
    "devmod.commands": "command",
}


def ignored_entry(claim: Claim, core: Distribution) -> str:
    """Return the text for an entry point in a group that this core does not have. It is misspelt,
    or a newer core has it.
    """
    advice = did_you_mean(claim.group, GROUPS, cutoff=0.8)
    if not advice:
        advice = f". The groups are {', '.join(GROUPS)}"
    return (
        f"{claim.provider} declares the entry point {claim.name!r} in the group {claim.group!r}, which {core.name} {core.version} does not "
        f"have, so the entry point is ignored{advice}"
    )


def invalid_name(group: str, name: object) -> FormatError:
    """Return the error for an invalid name. The name may come from an untrusted file, so the text
    does not quote it.
    """
    if group == "devmod.protocol":
        return FormatError(
            "devmod.protocol has the entry points of distributions alone; no object can be looked up or registered in it"
        )
    noun = _NOUNS.get(group, "kind")
    if noun == "command":
        return FormatError("a command is of the form [a-z][a-z-]*")
    form = f"a {noun} is of the form [a-z][a-z0-9_]{{0,31}}"
    if noun == "hook":
        form += ", optionally followed by .<kind>"

    if not isinstance(name, str):
        return FormatError(f"{form}; got an object of type {type(name).__name__}")
    if noun == "hook":
        return FormatError(form)
    return FormatError(f"{form}; got {name_problem(name)}{lower_case_hint(name)}")


def name_problem(name: str) -> str:
    """Return what is wrong with an invalid kind or format, without a quotation of it."""
    if not 0 < len(name) <= MAX_NAME:
        return f"{len(name)} characters"
    at = 0
    while is_valid_name(name[: at + 1]):
        at += 1
    return f"U+{ord(name[at]):04X} at character {at + 1}"


def excluded_error(claim: Claim, variable: str) -> NotRegisteredError:
    """Return the error for a key whose distribution an environment variable excludes."""
    return NotRegisteredError(
        f"{claim.key} is not registered: {claim.provider} provides it, and the environment variable {variable} excludes it. "
        f"To use it, {admission_hint(claim.distribution, variable)}",
        kind=claim.name,
        key=claim.key,
        distribution=claim.distribution,
    )


def unknown_distribution(kind: str) -> str:
    """Return the clauses about a kind whose distribution is unknown."""
    return f"no known distribution provides it; by convention it would be devmod-{kind}; install that only if you trust its publisher"


def conflict(candidates: Sequence[Claim], choice: str) -> ConflictError:
    """Return the error for a key of several distributions (R9). The text has the setting that
    selects each of them.

    `choice` is the distribution that DEVMOD_PLUGINS_CHOOSE has for the key, or "".
    """
    key = candidates[0].key
    providers = " and ".join(claim.provider for claim in candidates)
    if choice:
        providers += f"; {choice}, which DEVMOD_PLUGINS_CHOOSE names for it, does not claim it"
    names = list(dict.fromkeys(normalize_name(claim.distribution) for claim in candidates))
    if CORE in names:
        surplus = " or ".join(name for name in names if name != CORE)
        choices = "; ".join(_core_choice(key, name) for name in names)
    else:
        surplus = "one" if len(candidates) == 2 else "all but one"
        choices = " or ".join(f"DEVMOD_PLUGINS_CHOOSE={name}" for name in names)
    todo = f"Uninstall {surplus}, or choose one by the environment variable: {choices}"
    return ConflictError(
        f"{key} is claimed by {providers}. {todo}", kind=candidates[0].name, key=key
    )


def _core_choice(key: str, name: str) -> str:
    """Return the setting that selects a distribution for a key that core has too."""
    setting = f"DEVMOD_PLUGINS_CHOOSE={key}={name}"
    if name == CORE:
        return f"{setting} selects devmod's own"
    return f"{setting} replaces it by {name}'s, which is safe only if you trust its publisher"


def already_registered(group: str, name: str, by: str) -> ConflictError:
    """Return the error for a registration under a name that is in use in this process."""
    return ConflictError(
        f"{group}.{name} is already registered in this process, as {by}. To replace it: "
        f"devmod.register({group!r}, {name!r}, obj, replace=True)",
        kind=name,
        key=f"{group}.{name}",
    )


def broken_entry(claim: Claim, why: str) -> PluginError:
    """Return the error for an invalid entry (R8)."""
    if not claim.distribution:
        return _plugin_error(claim, f"{claim.key} cannot be registered: {why}")
    requirement = claim.distribution
    if claim.version:
        requirement += f"=={claim.version}"
    again = pip_install("--force-reinstall", requirement)
    return _plugin_error(
        claim,
        f"{claim.key} is broken: {claim.provider}: {why}. Install it again ({again}), or report it to its publisher",
    )


def wrong_result(claim: Claim, kind: str, wrong: str) -> PluginError:
    """Return the error for an entry with an invalid result. `wrong` begins with "returned"."""
    text = f"{claim.key} is broken: the function registered {claim.provider} {wrong}"
    if claim.distribution:
        text = f"{claim.key} is broken: {claim.provider} {wrong}. Report it to its publisher, or uninstall it"
    return PluginError(text, kind=kind, key=claim.key, distribution=claim.distribution)


def unusable_entry(claim: Claim, why: str) -> PluginError:
    """Return the error for an entry with invalid metadata."""
    if claim.version and (PROTOCOLS.isdisjoint(claim.protocols) or is_verify_with_kind(claim)):
        return _plugin_error(claim, f"{claim.key} cannot be used: {why}")
    return _plugin_error(
        claim,
        f"{claim.key} is broken: {why}. Remove {claim.location!r}, and install its distribution again",
    )


def verify_takes_no_kind(claim: Claim) -> str:
    """Return the text for an entry point ``devmod_verify.<x>``. The hook would never be called, so
    nothing is loaded.
    """
    return (
        f"{claim.provider} declares the entry point {claim.name!r}, and the hook devmod_verify takes no kind, so the plugin would check no "
        f"file. Its publisher renames the entry point to 'devmod_verify'. To load files without its check: pip uninstall "
        f"{claim.distribution}"
    )


def protocol_mismatch(claim: Claim, core: Distribution) -> str:
    """Return the text for a distribution without a protocol version of this core (R44). It names
    the side to upgrade.
    """
    mine = " and ".join(sorted(PROTOCOLS, key=int))
    protocols = " and ".join(claim.protocols)
    if all(version.isdecimal() for version in claim.protocols):
        behind = core.name
        if max(map(int, claim.protocols)) < max(map(int, PROTOCOLS)):
            behind = claim.distribution
        todo = f"Upgrade {behind}: {pip_install('--upgrade', behind)}"
    else:
        todo = f"Report it to the publisher of {claim.distribution}: a version is a number"
    mismatch = (
        f"{claim.provider} supports version {protocols} of devmod's plugin protocol, "
        f"and {core.name} {core.version} supports version {mine}"
    )
    return f"{mismatch}. {todo}"


def not_found_editable(claim: Claim, module: str) -> PluginError:
    """Return the error for an editable install without its module. Python reads .pth files only at
    its start.
    """
    return _plugin_error(
        claim,
        f"{claim.key} cannot be used: {claim.provider} is an editable install, and its module {module} is not found. If it was installed "
        "after this process began, restart Python; else install it again",
    )


def hidden_entry(claim: Claim, why: str) -> PluginError:
    """Return the error for an entry that a file of the user hides."""
    return _plugin_error(claim, f"{claim.key} cannot be used: {claim.provider}: {why}")


def is_missing_core_name(error: BaseException) -> bool:
    """Return whether a plugin's import failed because core has no such module or name: their
    versions do not match.
    """
    name: object = ""
    if isinstance(error, ImportError):
        name = error.name or ""
    elif isinstance(error, AttributeError):
        name = getattr(error.obj, "__name__", "")
    return isinstance(name, str) and f"{name}.".startswith("devmod.")


def missing_wheel(error: BaseException) -> str:
    """Return the package of another wheel of devmod that an import did not find, as in a folder
    without its wheel; "" otherwise.
    """
    if not isinstance(error, ImportError):
        return ""
    package = (error.name or "").partition(".")[0]
    if package not in (
        "devmod_driver_api",
        "devmod_readers",
        "devmod_runtime",
        "devmod_targets",
        "devmod_wgsl",
    ):
        return ""
    return package


def core_mismatch(claim: Claim, why: str, core: Distribution) -> PluginError:
    """Return the error for a plugin that imports a name which this core does not have."""
    return _plugin_error(
        claim,
        f"{claim.key} cannot be used: {claim.provider}: {why}, so it was written for another version of {core.name} than the "
        f"{core.version} installed here. Upgrade both: {pip_install('--upgrade', core.name, claim.distribution)}",
    )


def unreadable_entries(source: Distribution) -> str:
    """Return the sentence about a distribution with a damaged entry_points.txt."""
    return f"The entry points of {source.name} at {source.location!r} are unknown: {source.problem}"


def add_note(error: BaseException, claim: Claim) -> None:
    """Add a note with the distribution to an exception of its entry. devmod's own errors name the
    distribution already.
    """
    if claim.distribution in ("", CORE) or isinstance(error, DevmodError):
        return
    note = escape(f"devmod: {claim.key} of {claim.provider} raised this")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def is_editable(claim: Claim) -> bool:
    """Return whether the distribution was installed with -e."""
    import json

    try:
        with open(os.path.join(claim.location, "direct_url.json"), encoding="utf-8") as file:
            return bool(json.load(file)["dir_info"]["editable"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _plugin_error(claim: Claim, text: str) -> PluginError:
    return PluginError(text, kind=claim.name, key=claim.key, distribution=claim.distribution)
