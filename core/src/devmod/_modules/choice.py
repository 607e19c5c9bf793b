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
    from devmod._values.code import Names
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
    prefer: Names,
    get: Callable[[Module, Device | None], Any],
    device: Device | None,
) -> Any:
    """Return ``get(candidate, device)`` of the chosen candidate. A candidate with the result None
    is skipped; None if it is that of each candidate that can run here.

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
    PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
        No candidate can run here. The message lists the problem of each.
    """
    notes = []
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
        text = f"{name!r} of the bundle resolves to {describe_candidate(module)}: {reason}"
        for each, problem in notes[:MAX_LISTED]:
            text += f"; skipped {describe_candidate(each)} ({problem})"
        debug(text)
        return result
    if has_runnable:
        return None
    raise _no_candidate(name, notes)


def interface_of(module: Module, name: str) -> Interface | None:
    """Return the interface of a module's function; None if it has none, or is damaged: its first
    use raises the error.
    """
    try:
        info = module.functions.get(name)
    except DevmodError:
        return None
    if info is None:
        return None
    return info.interface


def is_tuned(name: str, module: Module) -> bool:
    """Return whether a module's function has variants."""
    interface = interface_of(module, name)
    return interface is not None and "tune" in interface.extra


def verdicts(
    name: str,
    module: Module,
    owners: Sequence[Module],
    prefer: Names,
    device: Any,
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
        usable = []
        refused = []
        for each in group:
            problem = not_runnable(each, device)
            if problem is None:
                usable.append(each)
            else:
                refused.append((each, None, False, problem))
        yield from refused
        if usable:
            yield from _kind_verdicts(name, module, kind, usable, device, read)


def program_verdicts(
    name: str,
    programs: Sequence[Module],
    device: Device | None,
    *,
    read: Callable[[str, Module], Any],
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
        Returns a program of a module, as `devmod.backend.read_program`.

    Raises
    ------
    FormatError
        A module imports no kernels, or two of its imports have one of the program.
    """
    read = cache(read)  # each kind asks
    usable = []
    for program in programs:
        newer = _needs_newer(program, is_chosen=True)
        if newer is None:
            usable.append(program)
        else:
            yield program, PROGRAM, None, {}, newer

    groups = []
    for program in usable:
        kernels = program_kernels(name, program)
        groups.append({kernel: _by_kind(owners, ()) for kernel, owners in kernels.items()})
    for kind in _kinds_of_programs(usable, groups):
        has_class = False  # whether a program before this one is for a class of devices
        for program, candidates in zip(usable, groups, strict=True):
            if not any(kind in group for group in candidates.values()):
                continue
            of_kind = {kernel: group.get(kind, ()) for kernel, group in candidates.items()}
            try:
                fitting, chosen, needs = _program_on(name, program, of_kind, kind, device, read)
            except FormatError:
                raise
            except DevmodError as error:
                yield program, kind, None, {}, error
                continue
            audience = ""
            if "processor" in needs:
                audience = " for processors"
            elif has_class:
                audience = " for every class of devices"
            has_class |= "processor" in needs
            why = f"each kernel has a candidate{audience} that fits {fitting}"
            yield program, kind, fitting, chosen, why


def _kinds_of_programs(
    programs: Sequence[Module], groups: Sequence[Mapping[str, Mapping[str, object]]]
) -> Iterator[str]:
    """Yield the kinds of the kernels in the order in which they are tried: that of the first bundle
    that a program imports, then that of the file.
    """
    kinds: dict[str, None] = {}
    bundles: list[Any] = []
    for program in programs:
        bundles += filter(holds_candidates, program.imports)
    if bundles:
        kinds |= dict.fromkeys(bundles[0].order)
    for kernels in groups:
        for group in kernels.values():
            kinds |= dict.fromkeys(group)
    yield from kinds


def _program_on(
    name: str,
    program: Module,
    groups: Mapping[str, Sequence[Module]],
    kind: str,
    device: Device | None,
    read: Any,
) -> tuple[Device, dict[str, Iterator[Module]], set[str]]:
    """Return the first device of a kind on which each kernel of a program has candidates that fit,
    these, and what the first ones need; an error without one.
    """
    if device is not None and device.kind != kind:
        raise DeviceNotFoundError(f"it is for {kind}", kind=kind)
    _check_runnable(name, program, groups, kind, device)
    devices: Sequence[Any] | None = [device]
    if device is None:
        devices = considered_devices(program, kind)
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
            # The interfaces behind the first are read if it cannot be built.
            kernels[kernel] = chain((first,), fitting)
            interfaces[kernel] = interface_of(first, kernel)
        else:
            lacking = _lacking(name, program, interfaces, each, read)
            if not lacking:
                needs = set[str]()
                for interface in interfaces.values():
                    if interface is not None:
                        needs.update(interface.needs)
                return each, kernels, needs
            unfit[f"it {lacking}"] = None
    raise DeviceNotFoundError("; ".join(unfit), kind=kind)


def unknown_needs(interface: Interface | None) -> list[str]:
    """Return what a program needs that is unknown here."""
    if interface is None:
        return []
    from devmod._values.features import PROGRAM_NEEDS

    return [each for each in interface.needs if each not in PROGRAM_NEEDS]


def _check_runnable(
    name: str,
    program: Module,
    groups: Mapping[str, Sequence[Module]],
    kind: str,
    device: Device | None,
) -> None:
    """Raise the error if the program, or each candidate of a kernel, has no runtime here."""
    problem = not_runnable(program, device)
    if problem is not None:
        raise problem
    upgrade = pip_install("--upgrade devmod-core devmod-runtime")
    spec = find_spec(PROGRAM)
    if spec is not None and program.format not in spec.formats:
        text = f"it has the format {quote_name(program.format)}, which a newer devmod-runtime runs: {upgrade}"
        raise DeviceNotFoundError(text, kind=kind)
    unknown = unknown_needs(interface_of(program, name))
    if unknown:
        text = f"it needs {list_names(unknown)}, which a newer devmod-runtime has: {upgrade}"
        raise DeviceNotFoundError(text, kind=kind)
    for kernel, group in groups.items():
        if not group:
            raise DeviceNotFoundError(
                f"its kernel {quote_name(kernel)} has no candidate of this kind", kind=kind
            )
        problems = [not_runnable(each, device) for each in group]
        first = problems[0]
        if first is not None and None not in problems:
            raise first


def _lacking(
    name: str,
    program: Module,
    interfaces: Mapping[str, Interface | None],
    device: Device,
    read: Callable[[str, Module], Any],
) -> str:
    """Return why a device cannot run a program whose kernels it can run, as the end of a sentence;
    "" if it can.
    """
    capabilities = device.capabilities
    if capabilities is None or not capabilities.limits:
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
    names = _kernel_names(name, program)
    imports: list[Any] = [each for each in program.imports if each.kind != "const_loader"]
    if not imports:
        raise program_error(
            name,
            "has no kernels here: the bytes of its module were loaded alone. devmod.load(path) and devmod.loads(data) load a file with "
            "its kernels",
        )

    result: dict[str, list[Module]] = {kernel: [] for kernel in names}
    owners: dict[str, set[int]] = {kernel: set() for kernel in names}
    for number, owner in enumerate(imports):
        candidates = owner.candidates if holds_candidates(owner) else (owner,)
        for module in candidates:
            for kernel in result.keys() & module.function_names:
                result[kernel].append(module)
                owners[kernel].add(number)
    for kernel, numbers in owners.items():
        if len(numbers) == 1:
            continue
        who = "more than one import" if numbers else "no import"
        raise program_error(name, f"launches {quote_name(kernel)}, which {who} of its module has")
    return result


def _kernel_names(name: str, program: Module) -> list[str]:
    interface = program.functions[name].interface
    names: Any = None
    if interface is not None:
        names = interface.extra.get("kernels")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise program_error(name, "has no list of its kernels")
    return names


def program_error(name: str, problem: str) -> FormatError:
    """Return the error for an invalid program."""
    return FormatError(f"the program {quote_name(name)} {problem}", kind=PROGRAM, function=name)


def _is_described(device: object) -> bool:
    return getattr(device, "is_described", False)


def _by_kind(owners: Sequence[Module], prefer: Names) -> dict[str, list[Module]]:
    """Group the candidates by kind, in the order in which the kinds are tried."""
    groups: dict[str, list[Module]] = {}
    for module in owners:
        groups.setdefault(module.kind, []).append(module)
    order = dict.fromkeys((*prefer, *groups))
    return {kind: groups[kind] for kind in order if kind in groups}


def candidates_on(name: str, modules: Sequence[Module], device: Device) -> Iterator[Module]:
    """Yield those of some candidates that run on a device, best first."""
    of_kind = [each for each in modules if each.kind == device.kind]
    if of_kind:
        yield from _fitting(verdicts(name, of_kind[0], of_kind, (), device), [])


def _kind_verdicts(  # noqa: C901 - each way to end yields all candidates
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
    devices: Sequence[Any] | None = [target_device]
    try:
        if target_device is None:
            devices = considered_devices(owner, kind)
        spec = find_spec(kind)
    except FormatError:
        raise  # DEVMOD_DEVICE is invalid
    except DevmodError as error:
        for module in usable:
            yield module, None, False, error
        return
    if devices is None:
        for module in usable:
            newer = _newer_of(module, read(module, name))
            if newer is not None:
                yield module, None, False, newer
            else:
                yield module, None, True, "its runtime is installed"
        return

    rank = None
    if spec is not None:
        rank = spec.rank
    #: Why the device that was asked about last does not run a candidate whose variant fits it.
    lacking: dict[Module, DevmodError] = {}

    def refusal(module: Module) -> Verdict:
        problem = lacking.get(module) or _unfit(module, devices)
        return module, None, False, problem

    def verdict(module: Module, device: Any) -> Verdict:
        """Return the verdict on a candidate whose variant fits a device."""
        problem = _lacking_of(module, read(module, name), device)
        if problem is not None:
            lacking[module] = problem
            return refusal(module)
        is_default = device is not target_device and device is devices[0]
        label = str(device)
        if not _is_described(device):
            label = _label(device, has_rank=rank is not None)
        return module, device, is_default, f"it fits {label}"

    for device in devices:
        ranked = _ranked(usable, device.arch, rank)
        # The interfaces behind that of the best are read if the caller goes on: a file at a URL
        # would fetch each.
        for number, module in enumerate(ranked):
            best = verdict(module, device)
            if best[1] is None:
                continue
            for each in usable:
                if each not in ranked[number:]:
                    yield refusal(each)
            yield best
            for each in ranked[number + 1 :]:
                yield verdict(each, device)
            return
    for module in usable:
        yield refusal(module)


def _ranked(usable: Sequence[Module], arch: str, rank: Any) -> list[Module]:
    """Return the candidates whose variant fits an architecture, best first. An unknown variant
    ranks below all that fit.
    """
    ranks = {}
    for module in usable:
        variant = ""
        if rank is not None:
            variant = variant_of(module)
        if not variant:
            ranks[module] = -1
            continue
        numbers = [rank(part, arch) for part in parts_of(variant)]
        if None not in numbers:
            ranks[module] = max(0, min(numbers))
    return sorted(ranks, key=ranks.__getitem__, reverse=True)


def _label(device: Any, *, has_rank: bool) -> str:
    """Return a device of this machine in a message, with its architecture if its kind has some."""
    text = f"{device.kind} device {device.index}"
    if device.is_simulated:
        text = f"simulated {text}"
    if has_rank:
        # Behind the colon stand features, of which Vulkan has fifty.
        text += f", {device.arch.partition(':')[0] or 'of unknown architecture'}"
    return text


def _unfit(module: Module, devices: Sequence[Any]) -> DevmodError:
    """Return why the variant of a candidate fits none of the devices of its kind."""
    variant = variant_of(module)
    if _is_described(devices[0]):
        text = f"{devices[0]} does not run {variant}"
    else:
        archs = dict.fromkeys([each.arch or "unknown" for each in devices])
        text = f"no {module.kind} device fits {variant}; there is: {', '.join(archs)}"
    return DeviceNotFoundError(text, kind=module.kind)


def _lacking_of(module: Module, interface: Interface | None, device: Any) -> DevmodError | None:
    """Return why a device does not run a candidate whose variant fits it; None if it does. A tuned
    function needs one of its variants.
    """
    newer = _newer_of(module, interface)
    if newer is not None:
        return newer
    if interface is not None and "tune" in interface.extra:
        from devmod._values.tuning import lacking

        problem = lacking(interface, module.format, device.capabilities)
    else:
        problem = fits(requirements(interface, module.format), device.capabilities)
    if problem:
        return DeviceNotFoundError(problem, kind=module.kind)
    return None


def _newer_of(module: Module, interface: Interface | None) -> DevmodError | None:
    """Return the reason why only a newer devmod uses a chosen candidate's function; None if this
    one does.
    """
    problem = _needs_newer(module, is_chosen=True)
    if problem is None and interface is not None and interface.newer:
        from devmod._values.features import newer_text

        text = newer_text(interface.newer)
        return NotRegisteredError(text, kind=module.kind, distribution="devmod-core")
    return problem


def not_runnable(module: Module, device: object) -> DevmodError | None:
    """Return the reason why a module cannot run; None if it may. Of a described device, it does not
    matter what is installed here.
    """
    problem = _needs_newer(module, is_chosen=False)
    if problem is not None or _is_described(device):
        return problem
    if isinstance(module, FallbackModule):
        text = f"a fallback, made while {module.cause}"
        spec = find_spec(module.kind)
        if spec and not module.excluded:
            text += f"; {spec.install}"
        return RuntimeNotLinkedError(text, kind=module.kind)
    if not isinstance(module, StoredModule):
        return None
    if registry.is_claimed("devmod.load_from_bytes", module.kind):
        return None
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
    if holds_candidates(module) or module.kind == PROGRAM:
        return devices
    return [device_of_call(devices, module.format)]


def _no_candidate(name: str, notes: Sequence[tuple[Module, DevmodError]]) -> DevmodError:
    """Return the error that lists the problem of each candidate."""
    seen: set[str] = set()
    text = f"no candidate of the bundle can run {name!r} here:"
    for number, (module, problem) in enumerate(notes[:MAX_LISTED], 1):
        text += f"\n  {number}. {describe_candidate(module)}: {shorten_repeat(str(problem), seen)}"
    if len(notes) > MAX_LISTED:
        text += f"\n  and {len(notes) - MAX_LISTED} more"

    problems = [problem for _, problem in notes]
    family: type[DevmodError] = DevmodError
    for each in UNAVAILABLE:
        if any(isinstance(problem, each) for problem in problems):
            family = each
            break
    error = family(text, kind="bundle", function=name)
    # A broken plugin has a traceback for its author. The text has the others' reasons.
    broken = [problem for problem in problems if isinstance(problem, PluginError)]
    if broken:
        error.__cause__ = broken[0]
    return error


def describe_candidate(module: Module) -> str:
    """Return a candidate in a message: its kind, format and variant."""
    return candidate_name(module.kind, module.format, variant_of(module))


def candidate_name(kind: str, fmt: str, variant: str) -> str:
    """Return a kind, a format and a variant as text, such as ``cuda/cubin for sm_90``."""
    text = kind
    if fmt:
        text += f"/{fmt}"
    if variant:
        text += f" for {variant}"
    return text
