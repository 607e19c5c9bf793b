"""The entries of core and of the installed distributions, without those registered in this process. No plugin is imported."""

from __future__ import annotations

import os

from devmod._plugins.claim import CORE, GROUPS, PROTOCOLS, Claim, Distribution, is_verify_with_kind, normalize_name
from devmod._plugins.discovery import distributions, in_shared_scan, once_per_scan
from devmod._util.environment import environment_items, environment_text
from devmod.targets import NAMES, spec_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The entries of core's pyproject.toml. Frozen and vendored programs have no metadata of distributions.
CORE_ENTRIES = {
    "devmod.targets": {kind: spec_entry(kind) for kind in NAMES},
    "devmod.create": {"const_loader": "devmod._modules.const_loader:create"},
    "devmod.load_from_bytes": {"const_loader": "devmod._modules.const_loader:load_from_bytes"},
    "devmod.load_from_file": {
        "devmod": "devmod._formats.bundle_file:load_from_file",
        "so": "devmod._modules.create:load_shared_object",
    },
    "devmod.protocol": {"1": "devmod"},
}


def declared_claims(group: str, name: str = "") -> list[Claim]:
    """Return the claims of core and of all distributions, including excluded ones."""
    if name and in_shared_scan() and name not in once_per_scan(("names", group), lambda: _names(group)):
        return []
    table = [(entry, value) for entry, value in CORE_ENTRIES.get(group, {}).items() if name in ("", entry)]
    core = core_distribution() if table else None
    result = [Claim(group, entry, value, core) for entry, value in table]
    for source in distributions():
        for each, entry, value in source.entries:
            if group == each and name in ("", entry):
                claim = Claim(group, entry, value, source)
                if not claim.problem and is_verify_with_kind(claim):
                    from devmod._plugins.messages import verify_takes_no_kind

                    claim.problem = verify_takes_no_kind(claim)
                if not claim.problem and PROTOCOLS.isdisjoint(claim.protocols):  # R44
                    from devmod._plugins.messages import protocol_mismatch

                    claim.problem = protocol_mismatch(claim, core_distribution())
                result.append(claim)
    return result


def ignored_entries() -> list[Claim]:
    """Return the entries in groups that begin with ``devmod.`` and are not in `GROUPS`. `problem` has the reason."""
    from devmod._plugins.messages import ignored_entry

    results = [
        Claim(group, name, value, source) for source in distributions() for group, name, value in source.entries if group not in GROUPS
    ]
    for claim in results:
        claim.problem = ignored_entry(claim, core_distribution())
    return results


def _names(group: str) -> frozenset[str]:
    """Return the names of all claims in a group."""
    names = (entry for source in distributions() for each, entry, _ in source.entries if each == group)
    return frozenset(CORE_ENTRIES.get(group, ())).union(names)


def excluding_variable(claim: Claim) -> str:
    """Return the environment variable that excludes the claim's distribution; "" if none does."""
    name = normalize_name(claim.distribution)
    if name not in ("", CORE):
        for variable, excludes_listed in (("DEVMOD_PLUGINS_ALLOW", False), ("DEVMOD_PLUGINS_DENY", True)):
            names = [normalize_name(each) for each in environment_items(variable)]
            if names and (name in names) == excludes_listed:
                return variable
    return ""


def excluded_claim(group: str, name: str) -> tuple[Claim, str] | None:
    """Return the first claim of a name that an environment variable excludes, with the variable; None if there is none."""
    if not environment_text("DEVMOD_PLUGINS_ALLOW") and not environment_text("DEVMOD_PLUGINS_DENY"):
        return None
    return next(((claim, variable) for claim in declared_claims(group, name) if (variable := excluding_variable(claim))), None)


def chosen_distribution(candidates: Sequence[Claim]) -> str:
    """Return the normalized name of the distribution that DEVMOD_PLUGINS_CHOOSE has for a key; "" if it has none.

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

    core = Distribution(CORE, devmod.__version__, os.path.dirname(getattr(devmod, "__file__", None) or ""))
    core.entries = [("devmod.protocol", version, "devmod") for version in PROTOCOLS]
    return core
