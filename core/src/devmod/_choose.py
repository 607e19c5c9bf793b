"""The `bundle` node: candidates that stand for one thing, and which of them a function resolves to.

A function resolves to the first candidate that is installed and has a device that it fits. The candidates are tried
kind by kind: the kinds of ``prefer``, then those of DEVMOD_PREFER, then the others as the file has them; within a kind
the variant that its target's spec ranks best for the first device that any of them fits, a variant that could not be read
("") last. A candidate whose runtime is missing or broken, or has no device, is passed over and noted. One that is chosen
and then fails (its source does not compile, its bytes are damaged) raises: another kind would hide that.
"""

from __future__ import annotations

import os

from devmod import _registry
from devmod._fallback import FallbackModule
from devmod._log import debug
from devmod._module import RUNNABLE, Module
from devmod._stored import StoredModule
from devmod._tree import function_names, owner_of
from devmod._variant import parts_of, variant_of
from devmod.errors import (
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    FunctionNotFoundError,
    NotRegisteredError,
    PluginError,
    RuntimeNotLinkedError,
    function_not_found,
)
from devmod.targets import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from devmod._info import FunctionInfo
    from devmod._memory.array import Array

#: What a candidate may raise that leaves the next one to try: it is not there, rather than wrong.
_ABSENT = (NotRegisteredError, RuntimeNotLinkedError, DeviceNotFoundError, PluginError)


class BundleModule(Module):
    """A node of candidates; see `devmod.bundle`. It can be run, and is saved with `devmod.save` alone.

    Parameters
    ----------
    candidates
        In the order of the file. One may be a bundle itself.
    prefer
        Kinds that go first.
    """

    def __init__(self, candidates: Iterable[Module], prefer: tuple[str, ...] = ()) -> None:
        modules = tuple(candidates)
        for module in modules:
            if not isinstance(module, Module):
                raise FormatError(f"a bundle holds modules, not {type(module).__name__}", kind="bundle")
        self._prefer = prefer
        #: What was found for a question, so that devices are listed once for each; what was not is asked anew.
        self._chosen: dict[tuple[object, ...], Module] = {}
        self.__dict__["_devmod_imports"] = modules

    @property
    def kind(self) -> str:
        return "bundle"

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        """The functions of all candidates; of those that several have, as the first has it."""
        union: dict[str, FunctionInfo] = {}
        for candidate in self.candidates:
            for name, info in candidate.functions.items():
                union.setdefault(name, info)
        return union

    @property
    def function_names(self) -> tuple[str, ...]:
        """The names of `functions`."""
        return tuple(dict.fromkeys(name for candidate in self.candidates for name in function_names(candidate)))

    @property
    def candidates(self) -> tuple[Module, ...]:
        """The candidates in order, those of bundles among them included."""
        found: dict[int, Module] = {}
        pending = list(reversed(self.imports))
        while pending:
            module = pending.pop()
            if isinstance(module, BundleModule):
                pending.extend(reversed(module.imports))
            else:
                found.setdefault(id(module), module)
        return tuple(found.values())

    @property
    def property_mask(self) -> int:
        return RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """The function of the first candidate that is installed and has a device that it fits.

        Raises
        ------
        FunctionNotFoundError
            No candidate has a function of that name.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            None of those that have it can run here; the message lists what each lacks. The first that applies: a runtime is
            broken; one is installed and has no device that fits; all are fallbacks or missing; all are missing.
        """
        order = kinds_in(os.environ.get("DEVMOD_PREFER", ""))
        key = (name, query_imports, order, len(self.imports))
        chosen = self._chosen.get(key)
        if chosen is not None:
            return chosen.get_function(name)
        owners = []
        for candidate in self.candidates:
            owner = owner_of(name, candidate) if query_imports else candidate
            if owner is not None and name in function_names(owner):
                owners.append(owner)
        if not owners:
            raise function_not_found("bundle", name, self.function_names)
        self._chosen[key], function = _resolve(name, owners, (*self._prefer, *order), lambda module: module.get_function(name))
        return function

    def get_global(self, name: str) -> Array:
        """The global of the first candidate that has it, is installed and has a device that it fits.

        Raises
        ------
        FunctionNotFoundError
            Candidates can run here, and none has a global of that name.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate can run here, as for `get_function`: what globals there are, only a runtime knows.
        """
        order = kinds_in(os.environ.get("DEVMOD_PREFER", ""))
        found: Array = _resolve(name, self.candidates, (*self._prefer, *order), lambda module: _global_of(module, name))[1]
        return found

    def save_to_bytes(self) -> bytes:
        """Raise FormatError: a bundle is saved as a whole file."""
        raise FormatError("a bundle has no bytes of its own; devmod.save and devmod.dumps write it with all it holds", kind="bundle")


def kinds_in(prefer: Sequence[str] | str) -> tuple[str, ...]:
    """Kinds given as a sequence, or as text with commas.

    Raises
    ------
    FormatError
        One is not a string.
    """
    listed = prefer.split(",") if isinstance(prefer, str) else list(prefer)
    if not all(isinstance(kind, str) for kind in listed):
        raise FormatError(f"prefer is a sequence of kinds such as ('cuda', 'opencl'), not {prefer!r}")
    return tuple(kind.strip() for kind in listed if kind.strip())


# -- which candidate


def _resolve(name: str, owners: Sequence[Module], prefer: tuple[str, ...], ask: Callable[[Module], Any]) -> tuple[Module, Any]:
    """The candidate that is chosen, and what it gives when it is asked: None passes it over."""
    notes: list[tuple[Module, DevmodError]] = []
    without = False
    for kind, group in _by_kind(owners, prefer).items():
        fitting, passed = _fitting(kind, group)
        notes += passed
        for module, why in fitting:
            try:
                given = ask(module)
            except _ABSENT as error:
                notes.append((module, error))
                continue
            if given is None:
                without = True
                continue
            debug(f"{name!r} of the bundle resolves to {_described(module)}: {why}{_passed_over(notes)}")
            return module, given
    if without:
        raise FunctionNotFoundError(f"no candidate of the bundle that can run here has a global {name!r}", kind="bundle", function=name)
    raise _none_left(name, notes)


def _global_of(module: Module, name: str) -> Array | None:
    """A module's global; None where it has none of that name."""
    try:
        return module.get_global(name)
    except FunctionNotFoundError:
        return None


def _by_kind(owners: Sequence[Module], prefer: tuple[str, ...]) -> dict[str, list[Module]]:
    """The candidates by kind, in the order in which the kinds are tried."""
    groups: dict[str, list[Module]] = {}
    for module in owners:
        groups.setdefault(module.kind, []).append(module)
    return {kind: groups[kind] for kind in dict.fromkeys((*prefer, *groups)) if kind in groups}


def _fitting(kind: str, group: Sequence[Module]) -> tuple[list[tuple[Module, str]], list[tuple[Module, DevmodError]]]:
    """Those of one kind that may run here, the best first, each with the reason; and those that may not, with theirs."""
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
            return [(module, f"it fits {kind} device {number}, {arch or 'of no known architecture'}") for _, module in fits], notes
    for module in usable:
        have = ", ".join(dict.fromkeys(str(getattr(device, "arch", "")) or "unknown" for device in devices))
        notes.append((module, DeviceNotFoundError(f"no {kind} device fits {variant_of(module)}; there is: {have}", kind=kind)))
    return [], notes


def _not_runnable(module: Module) -> DevmodError | None:
    """Why a module cannot be asked at all; None where it can."""
    if isinstance(module, FallbackModule):
        spec = find_spec(module.kind)
        hint = f"; {spec.install}" if spec else ""
        made = "DEVMOD_COMPILE_FORCE_FALLBACK was set" if module.forced else "the runtime was not installed"
        return RuntimeNotLinkedError(f"a fallback, made while {made}{hint}", kind=module.kind)
    if isinstance(module, StoredModule) and not _registry.installed("devmod.load_from_bytes", module.kind):
        try:
            _registry.lookup("devmod.load_from_bytes", module.kind)
        except DevmodError as error:
            return error
    return None


def _devices(kind: str) -> Sequence[Any] | None:
    """The devices of a kind; None for one whose runtime does not list any.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    PluginError
        The runtime is broken.
    """
    if _registry.find("devmod.device", kind) is None:
        return None
    from devmod._memory.device import probe

    devices = probe(kind)
    if not devices:
        raise DeviceNotFoundError(f"the {kind} runtime is installed, and there is no {kind} device", kind=kind)
    return devices


def _rank(rank: Any, variant: str, arch: str) -> int | None:
    """How well a variant fits; what is not known to fit and not known not to goes behind all that is."""
    if not variant:
        return -1
    ranks = [rank(part, arch) for part in parts_of(variant)]
    return None if None in ranks else max(0, min(ranks))


def _none_left(name: str, notes: Sequence[tuple[Module, DevmodError]]) -> DevmodError:
    """The error that lists candidate by candidate what is missing."""
    lines = [f"\n  {number}. {_described(module)}: {problem}" for number, (module, problem) in enumerate(notes, 1)]
    text = f"no candidate of the bundle can run {name!r} here:{''.join(lines)}"
    for family in (PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError):
        cause = next((problem for _, problem in notes if isinstance(problem, family)), None)
        if cause is not None:
            error = family(text, kind="bundle", function=name)
            error.__cause__ = cause
            return error
    return DevmodError(text, kind="bundle", function=name)


def _described(module: Module) -> str:
    variant = variant_of(module)
    return f"{module.kind}{'/' + module.format if module.format else ''}{' for ' + variant if variant else ''}"


def _passed_over(notes: Sequence[tuple[Module, DevmodError]]) -> str:
    return "".join(f"; passed over {_described(module)} ({problem})" for module, problem in notes)
