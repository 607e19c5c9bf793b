"""`devmod.explain`: which candidate of each function a device gets, and why the others do not fit.
The choice itself is in `devmod._modules.choice`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from devmod import Module, _import_wheel
from devmod._modules.bundle import BundleModule
from devmod._modules.choice import candidate_name, program_verdicts, verdicts
from devmod._modules.stored import StoredModule
from devmod._modules.variant import variant_of
from devmod._plugins import devices
from devmod._util.text import shorten_repeat
from devmod.backend import escape_line, find_spec, interface_of, is_tuned, read_program, walk
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    NotRegisteredError,
    RuntimeNotLinkedError,
    did_you_mean,
    function_not_found,
)
from devmod.plugins import shared_scan
from devmod.targets import KINDS, PROGRAM
from devmod_workbench._arguments import check_module, check_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from devmod import Device, Interface
    from devmod.backend import Capabilities

#: The most variants of a function in the text.
_MAX_VARIANTS = 8
#: The reason for a refusal, by the class of its error; that of another class is "broken".
_REASONS = (
    (NotRegisteredError, "not installed"),
    (RuntimeNotLinkedError, "not installed"),
    (DeviceNotFoundError, "no device"),
)


class Candidate(NamedTuple):
    """A candidate of a function, and whether it can run.

    Attributes
    ----------
    kind, format, variant
        Those of its module. The variant is its architecture; "" if it has none.
    outcome
        "best" for the candidate that a call gets, "fits" for the others that can run, "refused" for
        those that cannot. "unknown" in the place of "best" or "fits" if only the payload has what
        the function needs, which is not read, or which devices it is for: its driver decides.
    compiles
        Whether a compiler on the machine of the device compiles it before its first launch: it is
        source or PTX.
    device
        The device that it fits, such as "cuda:0"; "" for a refused one, and for a runtime that
        lists no devices.
    reason
        Of a refused candidate: "not installed", "no device" (there is none, or none that can run
        it), "broken" or "other kind". "" for the others.
    text
        Why, as a sentence.
    """

    kind: str
    format: str
    variant: str
    outcome: str
    compiles: bool
    device: str
    reason: str
    text: str

    @property
    def name(self) -> str:
        """The kind, the format and the variant, such as ``cuda/cubin for sm_90``."""
        return candidate_name(self.kind, self.format, self.variant)


class ChosenVariant(NamedTuple):
    """A variant that calls of a tuned function take.

    Attributes
    ----------
    constants
        The values of its constants by name.
    text
        Why, as a clause: with the record, its sizes and its times.
    """

    constants: Mapping[str, Any]
    text: str


class Explanation:
    """The result of `devmod.explain`. Its text is a table.

    Attributes
    ----------
    device
        The device that was asked about, such as "cuda:sm_90"; "" for all devices of this machine.
    functions
        Function name to its candidates: the one that a call gets, the others in the order of the
        choice, then the refused ones.
    variants
        The name of a tuned function to what its calls take: a ChosenVariant for each of the
        measured sizes, or one for all.
    """

    def __init__(
        self,
        device: str,
        functions: Mapping[str, tuple[Candidate, ...]],
        variants: Mapping[str, tuple[ChosenVariant, ...]],
    ) -> None:
        self.device = device
        self.functions = functions
        self.variants = variants

    def best(self, name: str) -> Candidate | None:
        """Return the candidate that a call of a function gets; None if none can run.

        Raises
        ------
        FunctionNotFoundError
            There is no such function.
        """
        if name not in self.functions:
            raise function_not_found("explained", name, self.functions)
        first = self.functions[name][0]
        if first.outcome == "refused":
            return None
        return first

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        functions = {}
        for name, candidates in self.functions.items():
            functions[name] = [each._asdict() for each in candidates]
        result: dict[str, Any] = {"device": self.device, "functions": functions}
        if self.variants:
            result["variants"] = {
                name: [each._asdict() for each in variants]
                for name, variants in self.variants.items()
            }
        return result

    def __str__(self) -> str:
        lines = []
        seen: set[str] = set()
        for name, candidates in self.functions.items():
            lines.append(f"{name} on {self.device or 'this machine'}:")
            width = max(len(each.name) for each in candidates)
            for each in candidates:
                text = each.text
                # What a machine lacks is the same for each function.
                if each.reason in ("not installed", "no device"):
                    text = shorten_repeat(text, seen)
                lines.append(f"  {each.outcome:<8} {each.name:<{width}}  {text}")
            for number, chosen in enumerate(self.variants.get(name, ())):
                if number == _MAX_VARIANTS:
                    lines.append(f"  and {len(self.variants[name]) - number} more sizes")
                    break
                values = ", ".join(f"{key}={value!r}" for key, value in chosen.constants.items())
                lines.append(f"  variant  {values}: {chosen.text}")
        return "\n".join(map(escape_line, lines))

    __repr__ = __str__


class _Described:
    """A device of another machine. Its features are unknown."""

    is_described = True
    capabilities = None
    name = ""
    driver_version = ""

    def __init__(self, kind: str, arch: str) -> None:
        self.kind = kind
        self.arch = arch
        self.index = arch
        self.hardware = arch

    def __str__(self) -> str:
        return devices.device_label(self)


def explain(
    module: Module, name: str | None = None, device: Device | str | None = None
) -> Explanation:
    """Return which candidate of a function a call gets on a machine, and why each other one is not
    used.

    No payload is compiled or loaded. Drivers list their devices, unless `device` describes one.

    Parameters
    ----------
    module
        Any module; a bundle's functions have several candidates, those of another module have one.
    name
        The function. Default: all functions.
    device
        A device of this machine (a Device, "cuda", "cuda:0"), or the description of another
        machine's: its kind and architecture, as in "cuda:sm_90". The features of a described device
        are unknown, and so are not compared. Default: all devices of this machine.

    Raises
    ------
    FunctionNotFoundError
        The module and its imports have no such function.
    ArgumentError
        `device` describes an architecture that its kind does not have.
    DevmodError
        As for `devmod.device`, if `device` names a device of this machine.
    """
    check_module("explain", module)
    check_names("explain", name)
    target: Any = device
    if isinstance(device, str):
        target = _parse(device)
    is_device = hasattr(target, "kind") and hasattr(target, "index")
    if target is not None and not is_device:
        raise ArgumentError(
            f"explain: expected a device or its name such as 'cuda:0', got {type(target).__name__}",
            argument="device",
        )
    with shared_scan():
        owners: dict[str, Module] = {}
        for owner in walk(module):
            for each in owner.function_names:
                owners.setdefault(each, owner)
        if name is not None and name not in owners:
            raise function_not_found(module.kind, name, list(owners))
        names = owners if name is None else [name]
        variants: dict[str, tuple[ChosenVariant, ...]] = {}
        functions = {}
        for each in names:
            functions[each] = tuple(_candidates(owners[each], each, target, variants))
        label = ""
        if target is not None:
            label = devices.device_label(target)
        return Explanation(label, functions, variants)


def _candidates(
    owner: Module, name: str, device: Any, variants: dict[str, tuple[ChosenVariant, ...]]
) -> Iterator[Candidate]:
    """Yield the candidates of a function of `owner`, in the order of `Explanation.functions`.
    `variants` gets those of the best candidate.
    """
    owners = [owner]
    prefer: tuple[str, ...] = ()
    if isinstance(owner, BundleModule):
        owners = [each for each in owner.candidates if name in each.function_names]
        prefer = owner.order
    if owners[0].kind == PROGRAM:
        yield from _of_program([each for each in owners if each.kind == PROGRAM], name, device)
        return

    fitting = []
    refused = []
    for each in owners:
        if device is None or each.kind == device.kind:
            fitting.append(each)
        else:
            refused.append((each, "other kind", f"it is for {each.kind}"))
    outcome = "best"

    def is_unread(module: Module) -> bool:
        """Whether a candidate behind the one that a call gets is at a URL: its interface is there
        beside its payload.
        """
        return outcome == "fits" and isinstance(module, StoredModule) and module.is_remote

    def read(module: Module, name: str) -> Interface | None:
        if is_unread(module):
            return None
        return interface_of(module, name)

    for each, fits, _, why in verdicts(name, owner, fitting, prefer, device, read=read):
        if isinstance(why, DevmodError):
            refused.append((each, _reason(why), str(why)))
            continue
        label = ""
        if fits is not None:
            label = devices.device_label(fits)
        problem = ""
        # The architecture alone of a described device is compared.
        capabilities = getattr(fits, "capabilities", None)
        if capabilities is not None:
            problem = _unknown(each, name, is_unread(each), capabilities)
        if problem:
            yield _candidate(each, "unknown", label, "", f"{label} decides: {problem}")
        else:
            yield _candidate(each, outcome, label, "", why)
        if outcome == "best" and fits is not None and is_tuned(name, each):
            of_kind = [other for other in owners if other.kind == each.kind]
            variants[name] = _variants(name, each, of_kind, fits, owner)
        outcome = "fits"
    for each, reason, text in refused:
        yield _candidate(each, "refused", "", reason, text)


def _variants(
    name: str, module: Module, owners: Sequence[Module], device: Any, root: Module
) -> tuple[ChosenVariant, ...]:
    """Return the variants that calls of a tuned function take; none without devmod-runtime, or if
    the function is damaged.
    """
    try:
        tools = _import_wheel(
            "devmod_workbench._tools.variants", "nothing is chosen here", "devmod_runtime"
        )
        found = tools.explain_variants(name, module, owners, device, root._records_of(name))
        return tuple([ChosenVariant(*each) for each in found])
    except (DevmodError, ValueError):
        return ()


def _of_program(programs: Sequence[Module], name: str, device: Any) -> Iterator[Candidate]:
    """Yield a candidate for each kind of a program's kernels, those that can run first."""
    outcome = "best"
    refused = []
    for _, kind, fits, _, why in program_verdicts(name, programs, device, read=read_program):
        if isinstance(why, DevmodError):
            reason = _reason(why)
            if device is not None and kind not in (device.kind, PROGRAM):
                reason = "other kind"
            refused.append(Candidate(kind, "", "", "refused", False, "", reason, str(why)))
        else:
            yield Candidate(kind, "", "", outcome, False, devices.device_label(fits), "", why)
            outcome = "fits"
    yield from refused


def _reason(error: DevmodError) -> str:
    for family, reason in _REASONS:
        if isinstance(error, family):
            return reason
    return "broken"


def _unknown(module: Module, name: str, is_unread: bool, capabilities: Capabilities) -> str:
    """Return why it is unknown what a function needs of a device, as a clause; "" if it is
    known.
    """
    problem = capabilities.format_problem
    if problem is not None and problem(module.format) is None:
        return f"a payload of format {module.format!r} is for some devices, and only a driver knows whether its own is one of them"
    if is_unread:
        return "what the function needs moves with its payload, which a call does not get"
    try:
        info = module.functions.get(name)
    except DevmodError as error:  # the first use raises it
        return f"what the function needs cannot be read: {error}"
    if info is None or info.interface is None:
        return "the function has no interface, so only its payload has what it needs"
    return ""


def _candidate(module: Module, outcome: str, device: str, reason: str, text: str) -> Candidate:
    spec = find_spec(module.kind)
    compiles = spec is not None and module.format in spec.text_formats
    if compiles and not reason:
        text += "; a compiler there builds it before its first launch"
    return Candidate(
        module.kind, module.format, variant_of(module), outcome, compiles, device, reason, text
    )


def _parse(text: str) -> Device | _Described:
    """Return the device of a text such as "opencl:0", or what one such as "cuda:sm_90"
    describes.
    """
    kind, _, arch = text.partition(":")
    try:
        find_spec(kind)
    except FormatError:
        return devices.device(kind)  # its error has the kinds
    if not arch and find_spec(text) is None:
        for owner in KINDS:
            spec = find_spec(owner)
            if spec is not None and spec.rank is not None and spec.rank(text, text) is not None:
                raise ArgumentError(
                    f"{text!r} describes no device: it is an architecture of {owner}; write {f'{owner}:{text}'!r}",
                    argument="device",
                )
    if not arch or arch.isdecimal():
        return devices.device(text)
    spec = find_spec(kind)
    if spec is not None and spec.rank is not None and spec.rank(arch, arch) is not None:
        return _Described(kind, arch)
    if spec is None:
        why = did_you_mean(kind, KINDS)
    elif spec.rank is None:
        why = f": {kind} has no architectures. `devmod devices` lists the devices of this machine, such as {kind}:0"
    else:
        why = f": {kind} has no architecture {arch!r}"
    raise ArgumentError(f"{text!r} describes no device{why}", argument="device")
