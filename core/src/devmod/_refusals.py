"""What the registries say when they refuse: imported only when there is something to say."""

from __future__ import annotations

import os
import time

from devmod import _registry
from devmod._discovery import distributions, normalized
from devmod.errors import ConflictError, DevmodError, FormatError, NotRegisteredError, PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._discovery import Distribution
    from devmod._registry import Claim
    from devmod.targets import TargetSpec

_NOUNS = {
    "devmod.load_from_file": "format",
    "devmod.hooks": "hook",
}


def no_group() -> FormatError:
    """For a group that is none of the interface."""
    return FormatError(f"there is no such registry; the registries are {', '.join(_registry.GROUPS)}")


def ill_formed(group: str, name: object) -> FormatError:
    """For a name that cannot be one. It may come from a stranger's file, so the text repeats nothing of it."""
    noun = _NOUNS.get(group, "kind")
    if group == "devmod.protocol":
        return FormatError("devmod.protocol is what distributions declare in their metadata; nothing is looked up or registered there")
    form = f"a {noun} is of the form [a-z][a-z0-9_]{{0,31}}" + (", with .<kind> behind it or not" if noun == "hook" else "")
    if isinstance(name, str) and noun == "hook":
        return FormatError(form)
    if not isinstance(name, str):
        return FormatError(f"{form}; this one is no string but of type {type(name).__name__}")
    if not name:
        return FormatError(f"{form}; this one is empty")
    if len(name) > 32:
        return FormatError(f"{form}; this one has {len(name)} characters")
    from devmod._names import well_formed

    at = next(at for at in range(len(name)) if not well_formed(name[: at + 1]))
    return FormatError(f"{form}; this one has U+{ord(name[at]):04X} at character {at + 1}")


def not_registered(group: str, name: str) -> NotRegisteredError:
    """For a miss: what it would take (R4)."""
    key = f"{group}.{name}"
    refused = [(claim, _registry.refusal(claim)) for claim in _registry.declared(group, name)]
    if any(variable for _, variable in refused):
        claim, variable = next(each for each in refused if each[1])
        how = "does not name it" if variable.endswith("ALLOW") else "names it"
        return NotRegisteredError(
            f"{key} is not registered: {claim.who} provides it and may not be used here, since the environment variable {variable} {how}",
            kind=name,
            key=key,
            distribution=claim.distribution,
        )
    spec = _spec(group, name)
    whose = _kind_of_alias(group, name) if spec is None else ""
    if spec is None and whose:
        distribution = ""
        text = (
            f"{key} is not registered: {name} is an alias of {whose}, under which its bytes are loaded; everywhere else the kind is {whose}"
        )
    elif spec is None:
        distribution = f"devmod-{name}"
        text = (
            f"{key} is not registered, and no known distribution provides it. By convention it would be {distribution}; "
            "install that only if you trust its publisher"
        )
    else:
        distribution = spec.distribution
        present = next((each for each in distributions() if normalized(each.name) == normalized(distribution)), None)
        if present is None:
            text = f"{key} is not registered: the {spec.title} runtime is not installed. To add it: {spec.install}"
        else:
            text = (
                f"{key} is not registered: {present.name} {present.version} is installed and does not provide it. "
                f"To upgrade it: pip install --upgrade {distribution}"
            )
    for each in _registry.unreadable():
        text += f". {unknown_offer(each)}"
    return NotRegisteredError(text, kind=name, key=key, distribution=distribution)


def _spec(group: str, name: str) -> TargetSpec | None:
    """The spec of the kind that would provide this key."""
    from devmod import targets

    if group in ("devmod.targets", "devmod.hooks"):
        return None
    try:
        if group == "devmod.load_from_file":
            return targets.spec_of_format(name)
        return targets.spec_of_loader(name) if group == "devmod.load_from_bytes" else targets.find_spec(name)
    except PluginError:
        return None


def _kind_of_alias(group: str, name: str) -> str:
    """The kind that this name is an alias of; "" where it is none, or the group's names are no kinds."""
    from devmod import targets

    if group in ("devmod.load_from_file", "devmod.hooks"):
        return ""
    try:
        spec = targets.spec_of_loader(name)
    except PluginError:
        return ""
    return spec.kind if spec is not None and spec.kind != name else ""


def conflict(rivals: list[Claim]) -> ConflictError:
    """For a key that several distributions claim (R9)."""
    key = rivals[0].key
    who = " and ".join(claim.who for claim in rivals)
    wanted = _registry.chosen(key)
    if wanted:
        who += f"; {wanted}, which DEVMOD_PLUGINS_CHOOSE names for it, does not claim it"
    return ConflictError(
        f"{key} is claimed by {who}. Uninstall one, or choose one by the environment variable: "
        f"DEVMOD_PLUGINS_CHOOSE={key}={normalized(rivals[-1].distribution)}",
        kind=rivals[0].name,
        key=key,
    )


def taken(group: str, name: str, by: str) -> ConflictError:
    """For a registration under a name that this process has given already."""
    return ConflictError(
        f"{group}.{name} is registered in this process already, as {by}; to put another in its place: "
        f"devmod.register({group!r}, {name!r}, obj, replace=True)",
        kind=name,
        key=f"{group}.{name}",
    )


def broken(claim: Claim, why: str) -> PluginError:
    """For an entry that is there and is not as it must be (R8)."""
    if not claim.distribution:
        return _plugin_error(claim, f"{claim.key} cannot be registered: {why}")
    again = f"pip install --force-reinstall {claim.distribution}" + (f"=={claim.version}" if claim.version else "")
    return _plugin_error(claim, f"{claim.key} is broken: {claim.who}: {why}. Install it again ({again}), or report it to its publisher")


def answered_wrong(group: str, name: str, wrong: str, kind: str) -> PluginError:
    """For an entry that was called and gave what its group's entries do not give; `wrong` begins with "returned"."""
    claim = _registry.owner(group, name)
    who = claim.who if claim else "the function registered in this process"
    todo = ". Report it to its publisher, or uninstall it" if claim else ""
    key = f"{group}.{name}"
    return PluginError(f"{key} is broken: {who} {wrong}{todo}", kind=kind, key=key, distribution=claim.distribution if claim else "")


def unusable(claim: Claim, why: str) -> PluginError:
    """For an entry of which metadata alone says that it cannot be used."""
    if claim.version and _registry.PROTOCOLS.isdisjoint(claim.protocols):
        return _plugin_error(claim, f"{claim.key} cannot be used: {why}")
    return _plugin_error(claim, f"{claim.key} is broken: {why}. Remove {claim.location!r}, and install its distribution again")


def other_protocol(claim: Claim) -> str:
    """Which versions do not meet, and which side is to be upgraded (R44)."""
    mine = " and ".join(sorted(_registry.PROTOCOLS, key=int))
    theirs = " and ".join(claim.protocols)
    core = _registry._core()
    if all(version.isdecimal() for version in claim.protocols):
        behind = claim.distribution if max(map(int, claim.protocols)) < max(map(int, _registry.PROTOCOLS)) else core.name
        todo = f"Upgrade {behind}: pip install --upgrade {behind}"
    else:
        todo = f"Report it to the publisher of {claim.distribution}: a version is a number"
    return f"{claim.who} speaks version {theirs} of devmod's plugin protocol, and {core.name} {core.version} speaks version {mine}. {todo}"


def restart(claim: Claim, module: str) -> PluginError:
    """For an editable install that this process cannot see: its path files were read when it began."""
    return _plugin_error(
        claim,
        f"{claim.key} cannot be used yet: {claim.who} is an editable install made after this process began, and {module} is found "
        "only by a process that begins after it. Restart Python",
    )


def lacks_name_of_core(error: BaseException) -> bool:
    """Whether a plugin's import failed since core has no such module or name: one of the two is older than the other takes it for."""
    if isinstance(error, ImportError):
        name = error.name or ""
    else:
        name = getattr(error.obj, "__name__", "") if isinstance(error, AttributeError) else ""
    return isinstance(name, str) and f"{name}.".startswith("devmod.")


def other_core(claim: Claim, why: str) -> PluginError:
    """For a plugin that asks core for what it does not have."""
    core = _registry._core()
    return _plugin_error(
        claim,
        f"{claim.key} cannot be used: {claim.who}: {why}, so it was written for another version of {core.name} than the {core.version} "
        f"installed here. Upgrade both: pip install --upgrade {core.name} {claim.distribution}",
    )


def unknown_offer(source: Distribution) -> str:
    """For a distribution whose entries nobody can tell."""
    return f"What {source.name} at {source.location!r} provides is not known: {source.problem}"


def add_owner(error: BaseException, group: str, name: str) -> None:
    """Note on what an entry raised whose entry it is, once; its type, its text and its traceback stay what they are.

    An error of devmod's is left alone: its words are complete.
    """
    claim = _registry.owner(group, name)
    if claim is not None and claim.distribution != _registry.CORE and not isinstance(error, DevmodError):
        note = f"devmod: {claim.key} of {claim.who} raised this"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def is_editable(claim: Claim) -> bool:
    """Whether the distribution was installed with -e."""
    import json

    try:
        with open(os.path.join(claim.location, "direct_url.json"), encoding="utf-8") as file:
            return bool(json.load(file)["dir_info"]["editable"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def process_started(known: int) -> int:
    """When this process began, in ns since the epoch; `known`, a time that cannot be before it, where the system does not say."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return known
    return min(known, time.time_ns() - since_boot)


def _plugin_error(claim: Claim, text: str) -> PluginError:
    return PluginError(text, kind=claim.name, key=claim.key, distribution=claim.distribution)
