"""Claims: the entries of distributions and of this process under keys of the plugin interface. No
plugin is imported.
"""

from __future__ import annotations

import time

#: When this module was imported, in ns since the epoch. Python's listings of folders may lack later
#: changes.
STARTED = time.time_ns()

# Where to change: an entry-point group of plugins
#   also: `docs/backend.md`; the lookup that uses it, as `core/src/devmod/_plugins/adopt.py` does
#   tests: `tests/test_two_places.py`, `core/tests/test_registry.py`
#: The groups of the plugin interface and the arguments of their entries: None for an object without
#: a call.
GROUPS: dict[str, tuple[str, ...] | None] = {
    "devmod.create": ("code", "fmt", "fmap", "source"),
    "devmod.load_from_bytes": ("data",),
    "devmod.load_from_file": ("path", "fmt"),
    "devmod.targets": None,
    "devmod.device": (),
    "devmod.adopt": ("handle",),
    "devmod.hooks": None,
    "devmod.conformance": None,
    "devmod.commands": None,
    "devmod.bundles": None,
    "devmod.protocol": None,
}

#: The groups in which several distributions may use one name.
SHARED_GROUPS = ("devmod.hooks", "devmod.protocol")

#: The versions of the plugin protocol that this core supports.
PROTOCOLS = frozenset({"1"})

#: The name of core's own distribution.
CORE = "devmod-core"


class Distribution:
    """A distribution with devmod entry points.

    Attributes
    ----------
    name, version
        The name and the version in its metadata.
    location
        The path of its metadata folder, which may be inside an archive.
    changed
        The time of the last change of its metadata, in ns since the epoch; 0 if unknown.
    problem
        Why its entries cannot be used; "" if they can.
    entries
        (group, name, value) of each entry point.
    """

    def __init__(
        self, name: str, version: str, location: str, changed: int = 0, problem: str = ""
    ) -> None:
        self.name = name
        self.version = version
        self.location = location
        self.changed = changed
        self.problem = problem
        self.entries: list[tuple[str, str, str]] = []


class Claim:
    """An entry: the object that a distribution or this process provides under a name of a group.

    Attributes
    ----------
    group, name
        The key, such as "devmod.create" and "cuda".
    value
        The entry point, ``"module:attribute"``; for an object registered in this process, its
        qualified name or type.
    object
        The object registered in this process, else None.
    distribution, version
        The distribution with the entry point; both "" for an object registered in this process.
    protocols
        The protocol versions that the distribution declares.
    location
        The folder of its metadata; "" for an object registered in this process.
    changed
        The time of the last change of its metadata, in ns since the epoch; 0 if unknown.
    problem
        Why the entry cannot be used, according to its metadata; "" otherwise.
    """

    def __init__(
        self,
        group: str,
        name: str,
        value: str,
        source: Distribution | None = None,
        obj: object = None,
    ) -> None:
        self.group = group
        self.name = name
        self.value = value
        self.object = obj
        source = source or Distribution("", "", "")
        self.distribution = source.name
        self.version = source.version
        self.location = source.location
        self.changed = source.changed
        self.problem = source.problem
        versions = [entry for each, entry, _ in source.entries if each == "devmod.protocol"]
        self.protocols = tuple(versions or ["1"])

    @property
    def key(self) -> str:
        """The group and the name, for messages."""
        return f"{self.group}.{self.name}"

    @property
    def provider(self) -> str:
        """The distribution and its version, or "in this process", for messages."""
        if not self.distribution:
            return "in this process"
        return f"{self.distribution} {self.version}".rstrip()

    def __repr__(self) -> str:
        from devmod._util.text import escape_line

        words = [self.key, "=", self.value]
        if self.distribution:
            words.append("of")
        words.append(self.provider)
        return escape_line(f"<Claim {' '.join(words)}>")


def is_verify_with_kind(claim: Claim) -> bool:
    """Return whether a claim is ``devmod_verify.<x>``: that hook takes no kind, and a check that is
    never called must refuse a load.
    """
    return claim.name.startswith("devmod_verify.") and claim.group == "devmod.hooks"


def normalize_name(name: str) -> str:
    """Return a distribution's name normalized by PEP 503: lower case, one hyphen for each run of
    ``-_.``.
    """
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name
