"""The choice of one of a bundle's candidates.

A function resolves to the first candidate that is installed and fits a device. The candidates are
tried kind by kind: the kinds of ``prefer``, then those of DEVMOD_PREFER, then the others in the
order of the file. Within a kind, the target's spec ranks the variants for the first device that any
of them fits; an unreadable variant ("") comes last. A candidate does not fit a device that lacks
what its function requires (`fits`); the candidates are asked one by one, so that the interfaces
behind the chosen one are not read. DEVMOD_DEVICE restricts a kind to one device. A candidate
without a working runtime or device is skipped and noted. If the chosen candidate fails (its source
does not compile, its bytes are damaged), the error is raised: another kind would hide it.

A program runs its kernels on one device: the first of the first kind on which each of them has a
candidate that fits.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

from devmod._formats.index import newer_features
from devmod._modules.fallback import FallbackModule
from devmod._modules.module import Module, holds_candidates
from devmod._modules.stored import StoredModule
from devmod._modules.variant import parts_of, variant_of
from devmod._plugins import registry
from devmod._plugins.lookup import lookup
from devmod._plugins.specs import find_spec
from devmod._util.environment import debug
from devmod._util.text import shorten_repeat
from devmod._values.requirements import device_of_call, fits, program_requirements, requirements
from devmod.errors import (
    MAX_LISTED,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    FunctionNotFoundError,
    NotRegisteredError,
    PluginError,
    RuntimeNotLinkedError,
    list_names,
    pip_install,
    quote_name,
)
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device
    from devmod._values.info import Interface

    #: Returns the interface of a candidate's function.
    Reader = Callable[[Module, str], Interface | None]
    #: A program's module; a kind; the device on which each kernel has candidates that fit; these,
    #: best first; why, or why not.
    ProgramVerdict = tuple[
        Module, str, Device | None, dict[str, Iterator[Module]], str | DevmodError
    ]
    #: A candidate; the device that it fits, and whether that is the default of its kind; why it
    #: fits, or the error that it does not.
    Verdict = tuple[Module, Device | None, bool, str | DevmodError]

#: The errors of an unavailable candidate, after which the next one is tried. If there is none, the
#: error is of the first that applies.
UNAVAILABLE = (PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError)


def choose(
    name: str,
    bundle: Module,
    owners: Sequence[Module],
    prefer: tuple[str, ...],
    get: Callable[[Module, Device | None], Any],
    device: Device | None = None,
) -> Any:
    """Return ``get(candidate, device)`` of the chosen candidate. A candidate with the result None
    is skipped.

    Parameters
    ----------
    name
        The function or global, for messages.
    bundle, owners, prefer
        The bundle, the candidates that may have it, and the kinds to try first.
    get
        Takes the candidate, and the device that the choice is for; None for the default device.
    device
        The device that the candidate must fit; None for any.

    Raises
    ------
    FunctionNotFoundError
        The result is None for each candidate that can run here.
    PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
        No candidate can run here. The message lists the problem of each.
    """
    notes: list[tuple[Module, DevmodError]] = []
    has_runnable = False
    for module, fitting_device, is_default, reason in verdicts(
        name, bundle, owners, prefer, device
    ):
        if isinstance(reason, DevmodError):
            notes.append((module, reason))
            continue
        try:
            # Without a device, the function uses the new default if DEVMOD_DEVICE changes.
            result = get(module, None if is_default else fitting_device)
        except UNAVAILABLE as error:
            notes.append((module, error))
            continue
        if result is None:
            has_runnable = True
            continue
        skipped = "".join(
            f"; skipped {describe_candidate(each)} ({problem})"
            for each, problem in notes[:MAX_LISTED]
        )
        debug(f"{name!r} of the bundle resolves to {describe_candidate(module)}: {reason}{skipped}")
        return result
    if has_runnable:
        raise FunctionNotFoundError(
            f"no candidate of the bundle that can run here has a global {name!r}",
            kind="bundle",
            function=name,
        )
    raise _no_candidate(name, notes)


def interface_of(module: Module, name: str) -> Interface | None:
    """Return the interface of a module's function; None if it has none, or is damaged: its first
    use raises the error.
    """
    try:
        info = module.functions.get(name)
    except DevmodError:
        return None
    return info.interface if info is not None else None


def verdicts(
    name: str,
    module: Module,
    owners: Sequence[Module],
    prefer: tuple[str, ...],
    device: Any = None,
    *,
    read: Reader = interface_of,
) -> Iterator[Verdict]:
    """Yield each candidate once: kind by kind in the order of the choice, and of each kind those
    that cannot run first, then the best.

    The devices of a kind are listed when its first candidate is wanted.

    Parameters
    ----------
    module
        The module whose function is called: a bundle, or the only candidate.
    name, owners, prefer, device
        As for `choose`. A device with `is_described` is a description of another machine's: what is
        installed here then does not matter.
    read
        Returns the interface of a candidate's function.
    """
    for kind, group in _by_kind(owners, prefer).items():
        problems = [(each, _not_runnable(each, device)) for each in group]
        yield from [
            (each, None, False, problem) for each, problem in problems if problem is not None
        ]
        if usable := [each for each, problem in problems if problem is None]:
            yield from kind_verdicts(name, module, kind, usable, device, read)


def program_verdicts(
    name: str,
    programs: Sequence[Module],
    device: Device | None = None,
    *,
    read: Callable[[str, Module], Any] | None = None,
) -> Iterator[ProgramVerdict]:
    """Yield each kind of a program's kernels once for each of its modules, in the order of the
    choice.

    Parameters
    ----------
    name, programs
        The program, and the modules that have it, which import its kernels: a merged file has one
        of each of its parts.
    device
        As for `verdicts`.
    read
        Returns a program of a module, as `devmod.backend.read_program`. Without it, the kernels
        alone are compared with a device.

    Raises
    ------
    FormatError
        A module imports no kernels, or two of its imports have one of the program.
    """
    read = cache(read) if read is not None else None  # each kind asks
    usable: list[Module] = []
    for program in programs:
        newer = _needs_newer(program, is_chosen=True)
        if newer is None:
            usable.append(program)
        else:
            yield program, PROGRAM, None, {}, newer
    programs = usable
    bundles: list[Any] = [
        each for program in programs for each in program.imports if holds_candidates(each)
    ]
    groups = [
        {kernel: _by_kind(owners, ()) for kernel, owners in program_kernels(name, program).items()}
        for program in programs
    ]
    order = bundles[0].order if bundles else ()
    for kind in dict.fromkeys(
        (*order, *(kind for each in groups for group in each.values() for kind in group))
    ):
        for program, candidates in zip(programs, groups, strict=True):
            if not any(kind in group for group in candidates.values()):
                continue
            try:
                groups_of_kind = {
                    kernel: group.get(kind, ()) for kernel, group in candidates.items()
                }
                found, kernels = _program_on(name, program, groups_of_kind, kind, device, read)
                yield (
                    program,
                    kind,
                    found,
                    kernels,
                    f"each kernel has a candidate that fits {found}",
                )
            except FormatError:
                raise
            except DevmodError as error:
                yield program, kind, None, {}, error


def _program_on(
    name: str,
    program: Module,
    groups: Mapping[str, Sequence[Module]],
    kind: str,
    device: Device | None,
    read: Any,
) -> tuple[Device, dict[str, Iterator[Module]]]:
    """Return the first device of a kind on which each kernel of a program has candidates that fit,
    and these; an error without one.
    """
    if device is not None and device.kind != kind:
        raise DeviceNotFoundError(f"it is for {kind}", kind=kind)
    problem = _not_runnable(program, device)
    if problem is not None:
        raise problem
    interface = interface_of(program, name)
    if interface is not None and interface.needs:
        upgrade = pip_install("--upgrade devmod-core devmod-runtime")
        raise DeviceNotFoundError(
            f"it needs {list_names(interface.needs)}, which a newer devmod-runtime has: {upgrade}",
            kind=kind,
        )
    for kernel, group in groups.items():
        problems = [_not_runnable(each, device) for each in group]
        if not problems:
            raise DeviceNotFoundError(
                f"its kernel {quote_name(kernel)} has no candidate of this kind", kind=kind
            )
        if (problem := problems[0]) is not None and None not in problems:
            raise problem
    devices = considered_devices(program, kind) if device is None else [device]
    if devices is None:
        raise DeviceNotFoundError("its runtime lists no devices", kind=kind)
    unfit: dict[str, None] = {}
    for each in devices:
        kernels: dict[str, Iterator[Module]] = {}
        interfaces: dict[str, Interface | None] = {}
        for kernel, group in groups.items():
            reasons: list[object] = []
            fitting = _fitting(verdicts(kernel, program, group, (), each), reasons)
            first = next(fitting, None)
            if first is None:
                unfit[f"its kernel {quote_name(kernel)}: {reasons[-1]}"] = None
                break
            kernels[kernel] = chain(
                (first,), fitting
            )  # the interfaces behind the first are read if it cannot be built
            interfaces[kernel] = interface_of(first, kernel)
        else:
            if not (lacking := _lacking(name, program, interfaces, each, read)):
                return each, kernels
            unfit[f"it {lacking}"] = None
    raise DeviceNotFoundError("; ".join(unfit), kind=kind)


def _lacking(
    name: str,
    program: Module,
    interfaces: Mapping[str, Interface | None],
    device: Device,
    read: Callable[[str, Module], Any] | None,
) -> str:
    """Return why a device cannot run a program whose kernels it can run, as the end of a sentence;
    "" if it can.
    """
    capabilities = getattr(device, "capabilities", None)
    if read is None or capabilities is None or not capabilities.limits:
        return ""
    try:
        return fits(program_requirements(read(name, program), interfaces), capabilities)
    except DevmodError:  # the first use raises it
        return ""


def _fitting(found: Iterator[Verdict], reasons: list[object]) -> Iterator[Module]:
    """Yield the candidates that fit a device. `reasons` gets those of the others."""
    for module, device, _, reason in found:
        if device is None:
            reasons.append(reason)
        else:
            yield module


def program_kernels(name: str, program: Module) -> dict[str, list[Module]]:
    """Return the candidates of each kernel of a program. Raise FormatError if there are none, or
    several imports have one.
    """
    info = program.functions[name]
    names: Any = info.interface.extra.get("kernels") if info.interface is not None else None
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise FormatError(
            f"the program {quote_name(name)} has no list of its kernels",
            kind=PROGRAM,
            function=name,
        )
    imports: list[Any] = [each for each in program.imports if each.kind != "const_loader"]
    if not imports:
        raise FormatError(
            f"the program {quote_name(name)} has no kernels here: the bytes of its module were loaded alone. devmod.load(path) and "
            "devmod.loads(data) load a file with its kernels",
            kind=PROGRAM,
            function=name,
        )
    result: dict[str, list[Module]] = {kernel: [] for kernel in names}
    owners: dict[str, set[int]] = {kernel: set() for kernel in names}
    for number, owner in enumerate(imports):
        for module in owner.candidates if holds_candidates(owner) else (owner,):
            for kernel in result.keys() & module.function_names:
                result[kernel].append(module)
                owners[kernel].add(number)
    for kernel, numbers in owners.items():
        if len(numbers) != 1:
            problem = f"{quote_name(kernel)}, which {'no import' if not numbers else 'more than one import'} of its module has"
            raise FormatError(
                f"the program {quote_name(name)} launches {problem}", kind=PROGRAM, function=name
            )
    return result


def _is_described(device: object) -> bool:
    return getattr(device, "is_described", False)


def _by_kind(owners: Sequence[Module], prefer: tuple[str, ...]) -> dict[str, list[Module]]:
    """Group the candidates by kind, in the order in which the kinds are tried."""
    groups: dict[str, list[Module]] = {}
    for module in owners:
        groups.setdefault(module.kind, []).append(module)
    return {kind: groups[kind] for kind in dict.fromkeys((*prefer, *groups)) if kind in groups}


def kind_verdicts(
    name: str,
    owner: Module,
    kind: str,
    usable: Sequence[Module],
    target_device: Device | None,
    read: Reader,
) -> Iterator[Verdict]:
    """Yield the candidates of one kind with a runtime: those that fit no device first, then the
    others, best first.
    """
    try:
        devices = considered_devices(owner, kind) if target_device is None else [target_device]
        spec = find_spec(kind)
    except FormatError:
        raise  # DEVMOD_DEVICE is invalid
    except DevmodError as error:
        yield from ((module, None, False, error) for module in usable)
        return
    rank, described = spec.rank if spec is not None else None, _is_described(target_device)
    if devices is None:
        for module in usable:
            newer = _needs_newer(module, is_chosen=True)
            if newer is not None:
                yield module, None, False, newer
            else:
                yield module, None, True, "its runtime is installed"
        return
    archs = ", ".join(
        dict.fromkeys(str(getattr(device, "arch", "")) or "unknown" for device in devices)
    )
    lacking: dict[Module, DevmodError] = {}

    def verdict(module: Module) -> Verdict:
        newer = _needs_newer(module, is_chosen=True)
        if newer is not None:
            lacking[module] = newer
            return refusal(module)
        if problem := fits(
            requirements(read(module, name), module.format), getattr(device, "capabilities", None)
        ):
            lacking[module] = DeviceNotFoundError(problem, kind=kind)
            return refusal(module)
        # Behind the colon stand features, of which Vulkan has fifty.
        text = (
            "simulated " * getattr(device, "is_simulated", False) + f"{kind} device {device.index}"
        )
        text += (
            f", {arch.partition(':')[0] or 'of unknown architecture'}" if rank is not None else ""
        )
        is_default = device is not target_device and device is devices[0]
        return module, device, is_default, f"it fits {device if described else text}"

    def refusal(module: Module) -> Verdict:
        variant = variant_of(module)
        unfit = (
            f"{device} does not run {variant}"
            if described
            else f"no {kind} device fits {variant}; there is: {archs}"
        )
        return module, None, False, lacking.get(module) or DeviceNotFoundError(unfit, kind=kind)

    for device in devices:
        arch = str(getattr(device, "arch", ""))
        ranks = {
            module: number for module in usable if (number := _rank(rank, module, arch)) is not None
        }
        ranked = sorted(ranks, key=lambda each: -ranks[each])
        # The interfaces behind that of the best are read if the caller goes on: a file at a URL
        # would fetch each.
        for number, module in enumerate(ranked, 1):
            if (best := verdict(module))[1] is not None:
                yield from (refusal(each) for each in usable if each not in ranked[number - 1 :])
                yield best
                yield from map(verdict, ranked[number:])
                return
    yield from map(refusal, usable)


def _not_runnable(module: Module, device: object) -> DevmodError | None:
    """Return the reason why a module cannot run; None if it may. Of a described device, it does not
    matter what is installed here.
    """
    problem = _needs_newer(module, is_chosen=False)
    if problem is not None or _is_described(device):
        return problem
    return runtime_problem(module)


def runtime_problem(module: Module) -> DevmodError | None:
    """Return the reason why a module cannot run; None if it may."""
    if isinstance(module, FallbackModule):
        spec = find_spec(module.kind)
        hint = f"; {spec.install}" if spec and not module.excluded else ""
        return RuntimeNotLinkedError(
            f"a fallback, made while {module.cause}{hint}", kind=module.kind
        )
    if isinstance(module, StoredModule) and not registry.is_claimed(
        "devmod.load_from_bytes", module.kind
    ):
        try:
            lookup("devmod.load_from_bytes", module.kind)
        except DevmodError as error:
            return error
    return None


def _needs_newer(module: Module, *, is_chosen: bool) -> DevmodError | None:
    """Return the reason why only a newer devmod uses a module's bytes; None if this one does.

    A candidate of which a look-up read nothing yet is compared when it is chosen.
    """
    if not isinstance(module, StoredModule) or not (is_chosen or module.is_listed):
        return None
    if not module.entry.features:
        return None
    text = f"it needs {newer_features(module.entry.features)}"
    return NotRegisteredError(text, kind=module.kind, distribution="devmod-core")


def considered_devices(module: Module, kind: str) -> Sequence[Any] | None:
    """Return the devices of a kind that a call of a module's function considers; None if its
    runtime has no entry point for devices.

    They are that of DEVMOD_DEVICE alone, or else all for a bundle or a program, and for another
    module the one where its functions run.

    Raises
    ------
    DeviceNotFoundError
        The kind has no device.
    PluginError
        The runtime is broken.
    """
    if registry.find("devmod.device", kind) is None:
        return None
    from devmod._plugins.devices import default_device, probe

    default = default_device(kind)
    if default is not None:
        return [default]
    devices = probe(kind)
    if not devices:
        raise DeviceNotFoundError(
            f"the {kind} runtime is installed, and there is no {kind} device", kind=kind
        )
    return (
        devices
        if holds_candidates(module) or module.kind == PROGRAM
        else [device_of_call(devices, module.format)]
    )


def _rank(rank: Any, module: Module, arch: str) -> int | None:
    """Return the rank of a module's variant for a device, or None if it does not fit. An unknown
    variant ranks below all that fit.
    """
    variant = variant_of(module) if rank is not None else ""
    if not variant:
        return -1
    ranks = [rank(part, arch) for part in parts_of(variant)]
    return None if None in ranks else max(0, min(ranks))


def _no_candidate(name: str, notes: Sequence[tuple[Module, DevmodError]]) -> DevmodError:
    """Return the error that lists the problem of each candidate."""
    seen: set[str] = set()
    lines = [
        f"\n  {number}. {describe_candidate(module)}: {shorten_repeat(str(problem), seen)}"
        for number, (module, problem) in enumerate(notes[:MAX_LISTED], 1)
    ]
    more = f"\n  and {len(notes) - MAX_LISTED} more" if len(notes) > MAX_LISTED else ""
    text = f"no candidate of the bundle can run {name!r} here:{''.join(lines)}{more}"
    family = next(
        (each for each in UNAVAILABLE if any(isinstance(problem, each) for _, problem in notes)),
        DevmodError,
    )
    error = family(text, kind="bundle", function=name)
    # A broken plugin has a traceback for its author. The text has the others' reasons.
    error.__cause__ = next(
        (problem for _, problem in notes if isinstance(problem, PluginError)), None
    )
    return error


def describe_candidate(module: Module) -> str:
    """Return a candidate in a message: its kind, format and variant."""
    return candidate_name(module.kind, module.format, variant_of(module))


def candidate_name(kind: str, fmt: str, variant: str) -> str:
    """Return a kind, a format and a variant as text, such as ``cuda/cubin for sm_90``."""
    return f"{kind}{'/' + fmt if fmt else ''}{' for ' + variant if variant else ''}"
