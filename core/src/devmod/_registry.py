"""The registries: one look-up for every group of the plugin interface, in-process registrations first, then entry points.

A hit is kept; a miss is not, so what is installed while a program runs is found. Nothing is imported before its key is used,
and no lock is held while a plugin is: threads that ask for one key at once meet at Python's own import lock.
"""

from __future__ import annotations

import os
import time

from devmod._discovery import Distribution, distributions, held, normalized
from devmod._names import well_formed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The groups of the plugin interface, each with what its entry is called with: None for an object that is not called.
GROUPS: dict[str, tuple[str, ...] | None] = {
    "devmod.create": ("code", "fmt", "fmap", "source"),
    "devmod.load_from_bytes": ("data",),
    "devmod.load_from_file": ("path", "fmt"),
    "devmod.targets": None,
    "devmod.device": (),
    "devmod.hooks": None,
    "devmod.conformance": None,
    "devmod.protocol": None,
}

#: The versions of the plugin interface that this core speaks.
PROTOCOLS = frozenset({"1"})

CORE = "devmod-core"
#: What core's own pyproject.toml declares, for programs where no metadata is (frozen, vendored).
CORE_ENTRIES = {
    "devmod.targets": {
        kind: f"devmod.targets.{kind}.spec:SPEC" for kind in ("cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu")
    },
    "devmod.load_from_bytes": {"const_loader": "devmod._const_loader:load_from_bytes"},
    "devmod.load_from_file": {"devmod": "devmod._formats.bundle:load_from_file", "so": "devmod._create:load_shared_object"},
    "devmod.protocol": {"1": "devmod"},
}

#: What has changed since then may not be in what Python remembers of the folders.
STARTED = time.time_ns()

_SHARED = ("devmod.hooks", "devmod.protocol")
_hits: dict[tuple[str, str], object] = {}
_owners: dict[tuple[str, str], Claim] = {}
_registered: dict[tuple[str, str], object] = {}


class Claim:
    """One entry: what is offered under a group's name, and by whom. Making one imports nothing.

    Attributes
    ----------
    group, name
        The key, such as "devmod.create" and "cuda".
    value
        Where the object is, ``"module:attribute"``; for one registered in the process, its type or qualified name.
    distribution, version
        Who declares it; both "" for an object registered in this process.
    protocols
        The protocol versions that the distribution declares.
    location
        Its metadata's folder; "" for an object registered in this process.
    changed
        When its metadata last changed, in ns since the epoch; 0 not known.
    problem
        Why it cannot be used, as far as that is known without importing it; "" as far as that goes, sound.
    """

    __slots__ = ("changed", "distribution", "group", "location", "name", "object", "problem", "protocols", "value", "version")

    def __init__(self, group: str, name: str, value: str, source: Distribution | None = None, obj: object = None) -> None:
        self.group = group
        self.name = name
        self.value = value
        self.object = obj
        self.distribution = source.name if source else ""
        self.version = source.version if source else ""
        self.location = source.location if source else ""
        self.changed = source.changed if source else 0
        self.problem = source.problem if source else ""
        declared = tuple(entry for each, entry, _ in source.entries if each == "devmod.protocol") if source else ()
        self.protocols = declared or ("1",)
        if not self.problem and PROTOCOLS.isdisjoint(self.protocols):
            from devmod._refusals import other_protocol

            self.problem = other_protocol(self)

    @property
    def key(self) -> str:
        """The group and the name, as errors print them."""
        return f"{self.group}.{self.name}"

    @property
    def who(self) -> str:
        """Who declares it, as errors print it."""
        return f"{self.distribution} {self.version}".rstrip() if self.distribution else "in this process"

    def load(self) -> object:
        """The object, imported and checked.

        Raises
        ------
        PluginError
            It cannot be imported, or is not what an entry of its group must be; the cause is chained.
        """
        if self.object is not None:
            return self.object
        from devmod._load import load

        return load(self)

    def __repr__(self) -> str:
        return f"<Claim {self.key} = {self.value} {'of ' if self.distribution else ''}{self.who}>"


def lookup(group: str, name: str) -> Any:
    """The object under `name` in `group`: a kept hit, an in-process registration, or an entry point.

    Raises
    ------
    NotRegisteredError
        Nothing is registered there; the message says how it is added.
    PluginError, ConflictError
        An entry is there and is broken, or two distributions claim it.
    FormatError
        `name` is not of the form of a kind.
    """
    try:
        found = _hits.get((group, name))
    except TypeError:  # a name that cannot be hashed is not a name
        found = None
    if found is None:
        check_name(group, name)
        with held():
            found = _find(group, name)
            if found is None:
                from devmod._refusals import not_registered

                raise not_registered(group, name)
    return found


def find(group: str, name: str) -> object | None:
    """As `lookup`, with None where nothing is registered."""
    try:
        found = _hits.get((group, name))
    except TypeError:
        found = None
    if found is None:
        check_name(group, name)
        found = _find(group, name)
    return found


def owner(group: str, name: str) -> Claim | None:
    """Whose the object is that the last look-up gave, also when it has been uninstalled since; None for one registered in this process."""
    return _owners.get((group, name))


def called(group: str, name: str, entry: Any, *arguments: object) -> Any:
    """What an entry returns. What it raises passes through as it is; where the words are not ours, with a note of whose entry it was."""
    try:
        return entry(*arguments)
    except Exception as error:
        from devmod._refusals import add_owner

        add_owner(error, group, name)
        raise


def installed(group: str, name: str) -> bool:
    """Whether something is registered there, sound or broken; nothing of it is imported."""
    return bool(claims(group, name))


def claims(group: str, name: str = "") -> list[Claim]:
    """Everything offered in `group` (under `name`), in-process registrations first; nothing is imported.

    Distributions that DEVMOD_PLUGINS_ALLOW or DEVMOD_PLUGINS_DENY shuts out do not count. Several claims of one name are a
    conflict, but for the groups ``devmod.hooks`` and ``devmod.protocol``.
    """
    check_group(group)
    found = [
        Claim(each, entry, _value_of(obj), obj=obj)
        for (each, entry), obj in list(_registered.items())
        if each == group and name in ("", entry)
    ]
    return found + [claim for claim in declared(group, name) if refusal(claim) == ""]


def declared(group: str, name: str = "") -> list[Claim]:
    """Every claim of core and of distributions, allowed or not. `group` "" stands for all groups."""
    table = [
        (each, entry, value)
        for each, entries in CORE_ENTRIES.items()
        for entry, value in entries.items()
        if group in ("", each) and name in ("", entry)
    ]
    made = []
    if table:
        core = _core()
        made = [Claim(each, entry, value, core) for each, entry, value in table]
    for source in distributions():
        for each, entry, value in source.entries:
            if group in ("", each) and name in ("", entry):
                made.append(Claim(each, entry, value, source))
    return made


def unreadable() -> list[Distribution]:
    """The distributions with entries of ours that nobody can tell, since their entry_points.txt is damaged."""
    return [source for source in distributions() if source.problem and not source.entries]


def refusal(claim: Claim) -> str:
    """The environment variable that shuts the claimant out; "" where it may be used."""
    who = normalized(claim.distribution)
    if who not in ("", CORE):
        for variable, named in (("DEVMOD_PLUGINS_ALLOW", False), ("DEVMOD_PLUGINS_DENY", True)):
            listed = [normalized(each.strip()) for each in os.environ.get(variable, "").split(",") if each.strip()]
            if listed and (who in listed) == named:
                return variable
    return ""


def register(group: str, name: str, obj: object, *, replace: bool = False) -> None:
    """Register an object in this process. It goes before whatever distributions declare under that name.

    Parameters
    ----------
    group
        A group of the plugin interface, such as "devmod.create"; "devmod.protocol" is for distributions alone.
    name
        The kind, the format or the hook.
    obj
        What an entry of that group is: see the plugin interface. None, with ``replace=True``, takes a registration back
        (and does nothing where there is none).
    replace
        Whether it may take the place of an earlier registration in this process.

    Raises
    ------
    FormatError
        There is no such group, or `name` is not of the form that it must have.
    PluginError
        `obj` is not what an entry of that group must be. Nothing has been changed.
    ConflictError
        The name is taken in this process, and `replace` is False. Nothing has been changed.
    """
    check_name(group, name)
    key = (group, name)
    if obj is None and replace:
        _registered.pop(key, None)
    else:
        from devmod._load import check

        check(Claim(group, name, _value_of(obj)), obj)
        if replace:
            _registered[key] = obj
        elif _registered.setdefault(key, obj) is not obj:
            from devmod._refusals import taken

            raise taken(group, name, _value_of(_registered.get(key)))
    _hits.pop(key, None)


def registered(group: str) -> Mapping[str, Claim]:
    """What is offered in a group, by name, without importing any of it.

    Returns
    -------
    Mapping[str, Claim]
        The claim that a look-up would use: ``.distribution`` and ``.version`` say whose it is (``.who`` in words), ``.value`` where
        the object is, and ``.problem`` why it cannot be used; a name that several claim says so there.

    Raises
    ------
    FormatError
        There is no such group.
    """
    by_name: dict[str, list[Claim]] = {}
    for claim in claims(group):
        by_name.setdefault(claim.name, []).append(claim)
    made = {}
    for name, several in by_name.items():
        rivals = _rivals(several)
        made[name] = rivals[0]
        if len(rivals) > 1 and group not in _SHARED:
            from devmod._refusals import conflict

            rivals[0].problem = str(conflict(rivals))
        elif not rivals[0].problem and not _may_be(group, name) and group != "devmod.protocol":
            from devmod._refusals import ill_formed

            rivals[0].problem = str(ill_formed(group, name))
    return made


def check_group(group: str) -> None:
    """FormatError unless `group` is one of the plugin interface."""
    if not isinstance(group, str) or group not in GROUPS:
        from devmod._refusals import no_group

        raise no_group()


def check_name(group: str, name: str) -> None:
    """FormatError unless `name` may stand in `group`: strangers' files name kinds, so this comes before anything else."""
    check_group(group)
    if not _may_be(group, name) or group == "devmod.protocol":
        from devmod._refusals import ill_formed

        raise ill_formed(group, name)


def _may_be(group: str, name: object) -> bool:
    good = well_formed(name)
    if not good and group == "devmod.hooks" and isinstance(name, str) and name.count(".") == 1:
        good = all(well_formed(part) for part in name.split("."))
    return good


def _find(group: str, name: str) -> object | None:
    key = (group, name)
    while True:
        mine = found = _registered.get(key)
        if found is not None:
            _owners.pop(key, None)
        else:
            rivals = _rivals(claims(group, name))
            if not rivals:
                return None
            if len(rivals) > 1 and group not in _SHARED:
                from devmod._refusals import conflict

                raise conflict(rivals)
            found = rivals[0].load()
            _owners[key] = rivals[0]
        kept = _hits.setdefault(key, found)
        # A registration that came meanwhile, in another thread, took away what was kept before this was.
        if _registered.get(key) is mine:
            return kept
        _hits.pop(key, None)


def _rivals(several: list[Claim]) -> list[Claim]:
    """Those of the claims to one name that a look-up is between: one, but for a conflict."""
    if several and several[0].object is not None:
        return several[:1]
    # Metadata that an interrupted install left behind is no rival of a whole distribution.
    whole = [claim for claim in several if not claim.problem or claim.version]
    several = list({normalized(claim.distribution): claim for claim in reversed(whole)}.values())[::-1] or several[:1]
    if len(several) > 1:
        wanted = chosen(several[0].key)
        several = [claim for claim in several if normalized(claim.distribution) == wanted] or several
    return several


def chosen(key: str) -> str:
    """The normalized name of the distribution that DEVMOD_PLUGINS_CHOOSE gives a key to; "" where it says nothing of it."""
    for choice in os.environ.get("DEVMOD_PLUGINS_CHOOSE", "").split(","):
        left, _, right = choice.partition("=")
        if left.strip() == key:
            return normalized(right.strip())
    return ""


def _core() -> Distribution:
    import devmod

    core = Distribution(CORE, devmod.__version__, os.path.dirname(getattr(devmod, "__file__", None) or ""))
    core.entries = [("devmod.protocol", version, "devmod") for version in PROTOCOLS]
    return core


def _value_of(obj: object) -> str:
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    return f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', '')}"
