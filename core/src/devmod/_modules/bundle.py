"""The `bundle` node: candidates for the same functions, and the choice of one candidate.

A function resolves to the first candidate that is installed and fits a device. The candidates are tried kind by kind: the kinds of
``prefer``, then those of DEVMOD_PREFER, then the others in the order of the file. Within a kind, the target's spec ranks the variants
for the first device that any of them fits; an unreadable variant ("") comes last. A candidate without a working runtime or device is
skipped and noted. If the chosen candidate fails (its source does not compile, its bytes are damaged), the error is raised: another kind
would hide it.
"""

from __future__ import annotations

from collections.abc import Mapping

from devmod._modules.fallback import FallbackModule
from devmod._modules.module import RUNNABLE, Module
from devmod._modules.stored import StoredModule
from devmod._modules.tree import holds_candidates, owners_of, walk
from devmod._modules.variant import parts_of, variant_of
from devmod._plugins import registry
from devmod._plugins.discovery import shared_scan
from devmod._plugins.lookup import lookup
from devmod._plugins.specs import find_spec
from devmod._util.environment import environment_text
from devmod._util.log import debug
from devmod.errors import (
    MAX_LISTED,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    FunctionNotFoundError,
    NotRegisteredError,
    PluginError,
    RuntimeNotLinkedError,
    function_not_found,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from devmod._device.array import Array
    from devmod._values.info import FunctionInfo

#: The errors of an unavailable candidate, after which the next one is tried.
_UNAVAILABLE = (NotRegisteredError, RuntimeNotLinkedError, DeviceNotFoundError, PluginError)


class BundleModule(Module):
    """A node of candidates; see `devmod.bundle`. It can run. Only `devmod.save` and `devmod.dumps` save it.

    Parameters
    ----------
    candidates
        The candidates in the order of the file. A candidate may be a bundle.
    prefer
        The kinds to try first.
    """

    _devmod_candidates = True

    def __init__(self, candidates: Iterable[Module], prefer: tuple[str, ...] = ()) -> None:
        modules = tuple(candidates)
        for module in modules:
            if not isinstance(module, Module):
                raise FormatError(f"a bundle holds modules, not {type(module).__name__}", kind="bundle")
        self._prefer = prefer
        #: The chosen candidates by request, so that devices are listed once for each. A failure is not cached.
        self._choices: dict[tuple[object, ...], Module] = {}
        self.__dict__["_devmod_imports"] = modules

    @property
    def kind(self) -> str:
        return "bundle"

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        """The functions of all candidates. A function of several candidates has the info of the first, which is decoded when it is used."""
        return _Functions(self._owners)

    @property
    def function_names(self) -> Collection[str]:
        return self._owners.keys()

    @property
    def _owners(self) -> dict[str, Module]:
        """The first candidate of each function."""
        owners: dict[str, Module] = {}
        with shared_scan():
            for candidate in self.candidates:
                for name in candidate.function_names:
                    owners.setdefault(name, candidate)
        return owners

    @property
    def candidates(self) -> tuple[Module, ...]:
        """The candidates in order, with those of nested bundles."""
        found = walk(*self.imports, enter=holds_candidates)
        return tuple(module for module in found if not holds_candidates(module))

    @property
    def property_mask(self) -> int:
        return RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the function of the first candidate that is installed and fits a device.

        Raises
        ------
        FunctionNotFoundError
            No candidate has the function.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate with the function can run here; the message lists the problem of each. The error class is the first that
            applies: a runtime is broken; no device fits an installed runtime's candidate; some are fallbacks; all are missing.
        """
        order = kinds_in(environment_text("DEVMOD_PREFER"))
        key = (name, query_imports, order, len(self.imports))
        candidate = self._choices.get(key)
        if candidate is not None:
            return candidate.get_function(name)
        candidates = self.candidates
        with shared_scan():
            owners = list(owners_of(name, *candidates)) if query_imports else [each for each in candidates if name in each.function_names]
            if not owners:
                raise function_not_found("bundle", name, self.function_names)
            self._choices[key], function = _resolve(name, owners, (*self._prefer, *order), lambda module: module.get_function(name))
        return function

    def get_global(self, name: str) -> Array:
        """Return the global of the first candidate that has it, is installed and fits a device.

        Raises
        ------
        FunctionNotFoundError
            Candidates can run here, and none has the global.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate can run here, as for `get_function`. Only a runtime can list the globals.
        """
        order = kinds_in(environment_text("DEVMOD_PREFER"))
        with shared_scan():
            found: Array = _resolve(name, self.candidates, (*self._prefer, *order), lambda module: _global_of(module, name))[1]
        return found

    def save_to_bytes(self) -> bytes:
        """Raise FormatError: a bundle is saved as a whole file."""
        raise FormatError("a bundle has no bytes of its own; devmod.save and devmod.dumps write it with its candidates", kind="bundle")


class _Functions(Mapping[str, "FunctionInfo"]):
    """The functions of a bundle. A damaged function raises FormatError when it is used, and the others are not affected."""

    __slots__ = ("_owners",)

    def __init__(self, owners: dict[str, Module]) -> None:
        self._owners = owners

    def __getitem__(self, name: str) -> FunctionInfo:
        return self._owners[name].functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def __repr__(self) -> str:
        return repr(dict(self))


def kinds_in(prefer: Sequence[str] | str) -> tuple[str, ...]:
    """Return the kinds in a sequence, or in a text separated by commas.

    Raises
    ------
    FormatError
        A kind is not a string.
    """
    listed = prefer.split(",") if isinstance(prefer, str) else list(prefer)
    if not all(isinstance(kind, str) for kind in listed):
        raise FormatError(f"prefer is a sequence of kinds such as ('cuda', 'opencl'), not {prefer!r}")
    return tuple(kind.strip() for kind in listed if kind.strip())


# -- the choice of a candidate


def _resolve(name: str, owners: Sequence[Module], prefer: tuple[str, ...], get: Callable[[Module], Any]) -> tuple[Module, Any]:
    """Return the chosen candidate and the result of ``get(candidate)``. A candidate with the result None is skipped."""
    notes: list[tuple[Module, DevmodError]] = []
    has_runnable = False
    for kind, group in _by_kind(owners, prefer).items():
        fitting, problems = _fitting(kind, group)
        notes += problems
        for module, reason in fitting:
            try:
                result = get(module)
            except _UNAVAILABLE as error:
                notes.append((module, error))
                continue
            if result is None:
                has_runnable = True
                continue
            debug(f"{name!r} of the bundle resolves to {_describe(module)}: {reason}{_skipped(notes)}")
            return module, result
    if has_runnable:
        raise FunctionNotFoundError(f"no candidate of the bundle that can run here has a global {name!r}", kind="bundle", function=name)
    raise _no_candidate(name, notes)


def _global_of(module: Module, name: str) -> Array | None:
    """Return a module's global, or None."""
    try:
        return module.get_global(name)
    except FunctionNotFoundError:
        return None


def _by_kind(owners: Sequence[Module], prefer: tuple[str, ...]) -> dict[str, list[Module]]:
    """Group the candidates by kind, in the order in which the kinds are tried."""
    groups: dict[str, list[Module]] = {}
    for module in owners:
        groups.setdefault(module.kind, []).append(module)
    return {kind: groups[kind] for kind in dict.fromkeys((*prefer, *groups)) if kind in groups}


def _fitting(kind: str, group: Sequence[Module]) -> tuple[list[tuple[Module, str]], list[tuple[Module, DevmodError]]]:
    """Return the candidates of one kind that can run here, best first, with reasons; and the others, with their problems."""
    notes: list[tuple[Module, DevmodError]] = []
    usable = []
    for module in group:
        problem = _not_runnable(module)
        if problem is None:
            usable.append(module)
        else:
            notes.append((module, problem))
    if not usable:
        return [], notes
    try:
        devices = _devices(kind)
        spec = find_spec(kind)
    except DevmodError as error:
        return [], notes + [(module, error) for module in usable]
    rank = spec.rank if spec is not None else None
    if devices is None or rank is None:
        return [(module, "its runtime is installed") for module in usable], notes
    for number, device in enumerate(devices):
        arch = str(getattr(device, "arch", ""))
        ranked = [(_rank(rank, variant_of(module), arch), module) for module in usable]
        fits = sorted((pair for pair in ranked if pair[0] is not None), key=lambda pair: -(pair[0] or 0))
        if fits:
            return [(module, f"it fits {kind} device {number}, {arch or 'of unknown architecture'}") for _, module in fits], notes
    for module in usable:
        archs = ", ".join(dict.fromkeys(str(getattr(device, "arch", "")) or "unknown" for device in devices))
        notes.append((module, DeviceNotFoundError(f"no {kind} device fits {variant_of(module)}; there is: {archs}", kind=kind)))
    return [], notes


def _not_runnable(module: Module) -> DevmodError | None:
    """Return the reason why a module cannot run; None if it may."""
    if isinstance(module, FallbackModule):
        spec = find_spec(module.kind)
        hint = f"; {spec.install}" if spec and not module.excluded else ""
        return RuntimeNotLinkedError(f"a fallback, made while {module.cause}{hint}", kind=module.kind)
    if isinstance(module, StoredModule) and not registry.is_claimed("devmod.load_from_bytes", module.kind):
        try:
            lookup("devmod.load_from_bytes", module.kind)
        except DevmodError as error:
            return error
    return None


def _devices(kind: str) -> Sequence[Any] | None:
    """Return the devices of a kind; None if its runtime has no entry point for devices.

    Raises
    ------
    DeviceNotFoundError
        The kind has no device.
    PluginError
        The runtime is broken.
    """
    if registry.find("devmod.device", kind) is None:
        return None
    from devmod._device.find import probe

    devices = probe(kind)
    if not devices:
        raise DeviceNotFoundError(f"the {kind} runtime is installed, and there is no {kind} device", kind=kind)
    return devices


def _rank(rank: Any, variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device, or None if it does not fit. An unknown variant ranks below all that fit."""
    if not variant:
        return -1
    ranks = [rank(part, arch) for part in parts_of(variant)]
    return None if None in ranks else max(0, min(ranks))


def _no_candidate(name: str, notes: Sequence[tuple[Module, DevmodError]]) -> DevmodError:
    """Return the error that lists the problem of each candidate."""
    lines = [f"\n  {number}. {_describe(module)}: {problem}" for number, (module, problem) in enumerate(notes[:MAX_LISTED], 1)]
    more = f"\n  and {len(notes) - MAX_LISTED} more" if len(notes) > MAX_LISTED else ""
    text = f"no candidate of the bundle can run {name!r} here:{''.join(lines)}{more}"
    for family in (PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError):
        cause = next((problem for _, problem in notes if isinstance(problem, family)), None)
        if cause is not None:
            error = family(text, kind="bundle", function=name)
            error.__cause__ = cause
            return error
    return DevmodError(text, kind="bundle", function=name)


def _describe(module: Module) -> str:
    variant = variant_of(module)
    return f"{module.kind}{'/' + module.format if module.format else ''}{' for ' + variant if variant else ''}"


def _skipped(notes: Sequence[tuple[Module, DevmodError]]) -> str:
    return "".join(f"; skipped {_describe(module)} ({problem})" for module, problem in notes[:MAX_LISTED])
