"""`devmod.verify`: whether the payloads of a module are intact, and its candidates agree on the
devices of this machine.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devmod._modules.agreement import by_node, kernel_nodes
from devmod._modules.bundle import BundleModule
from devmod._modules.choice import describe_candidate, program_kernels
from devmod._modules.module import owner_of
from devmod._modules.stored import StoredModule, release
from devmod._plugins import messages
from devmod._util.text import shorten_repeat
from devmod.backend import (
    BINARY_SERIALIZABLE,
    escape_line,
    newer_program,
    numpy_dtype,
    payload_of,
    tag_problem,
    temporary_folder,
    usable_functions,
    walk,
)
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FormatError,
    count_text,
    function_not_found,
)
from devmod.targets import PROGRAM
from devmod_runtime import source_text
from devmod_runtime._module import shader_entry
from devmod_workbench._arguments import check_module, check_names, check_values
from devmod_workbench._programs import check_program
from devmod_workbench._tables import aligned
from devmod_workbench._tools.checks import is_sanitized
from devmod_workbench._tools.devices import text_of
from devmod_workbench._tools.difference import default_rtol, worst_difference
from devmod_workbench._tools.draws import SCALES, random_array
from devmod_workbench._tools.trials import FAULTS, Draw, Planned, Trials, load_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo, Module, TargetSpec
    from devmod_runtime._device.host import NumPyArray
    from devmod_workbench._tools.difference import Difference

_OUTSIDE = ("writes outside", "reads outside")
#: The outcomes of candidates that were not launched.
_UNLAUNCHED = ("left out", "not compared")
#: What an outcome says of a candidate, in the reason why a draw is not judged.
_VERBS = {
    "writes outside": "writes outside",
    "reads outside": "reads outside",
    "unwritten": "depends on memory that nothing wrote",
    "failed": "fails",
}
_COMPARED = ("reference", "agrees", "differs")
_ERRORS = ("differs", *FAULTS.values(), "failed")


class Payload(NamedTuple):
    """The check of one module's payload.

    Attributes
    ----------
    name
        The module: its kind, format and variant.
    digest
        Whether its bytes were compared with a digest; False for a file without digests.
    damage
        What is wrong with its bytes; "" if they are intact.
    problem
        Why intact bytes cannot be compiled or called, such as an error in a source, or a function
        that they lack; "" without a reason.
    checked
        Whether its contents were read. A kind of another wheel may have no check, the wheel that
        has the check may be missing, and only a driver reads some formats.
    """

    name: str
    digest: bool
    damage: str
    problem: str
    checked: bool


class Comparison(NamedTuple):
    """The check of one candidate of a function on one device.

    Attributes
    ----------
    candidate
        The kind, the format and the variant, such as ``cuda/cubin for sm_90``.
    device
        The device such as "cuda:0"; "" if it was not launched.
    outcome
        "reference" for the first, with which the others are compared; "agrees"; "ran" alone;
        "differs"; "unwritten" for a program that returns or reads memory that nothing wrote;
        "writes outside" of an array; "reads outside" of its arrays; "failed"; "left out" for a
        device that runs no small kernel either, or lacks what the candidate needs; "not compared".
    text
        Why, or the worst error.
    """

    candidate: str
    device: str
    outcome: str
    text: str


class Verification:
    """The result of `devmod.verify`. Its text is a table.

    Attributes
    ----------
    payloads
        A `Payload` for each module with bytes.
    functions
        Function name to a `Comparison` for each candidate and device.
    draws
        Function name to a `Draw` for each launch of its candidates; empty if none were compared.
    """

    def __init__(
        self,
        payloads: Sequence[Payload],
        functions: Mapping[str, tuple[Comparison, ...]],
        draws: Mapping[str, tuple[Draw, ...]],
    ) -> None:
        self.payloads = tuple(payloads)
        self.functions = functions
        self.draws = draws

    @property
    def ok(self) -> bool:
        """Whether no payload has a problem, no candidate is wrong or fails, and one was launched if
        there is one.
        """
        if any(each.damage or each.problem for each in self.payloads):
            return False
        checked = [*chain.from_iterable(self.functions.values())]
        if any(each.outcome in _ERRORS for each in checked):
            return False
        return not checked or any(each.device for each in checked)

    @property
    def uncompared(self) -> list[str]:
        """The functions of which no result was compared with another one: one candidate ran, or
        none, or they write to no array.
        """
        names = []
        for name, checked in self.functions.items():
            outcomes = {each.outcome for each in checked}
            if not outcomes & {"agrees", "differs"}:
                names.append(name)
        return names

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as plain data."""
        return {
            "ok": self.ok,
            "uncompared": self.uncompared,
            "payloads": _as_dicts(self.payloads),
            "functions": {name: _as_dicts(each) for name, each in self.functions.items()},
            "draws": {name: _as_dicts(each) for name, each in self.draws.items()},
        }

    def __str__(self) -> str:
        lines = [*self.describe_payloads()]
        seen: set[str] = set()
        for name, checked in self.functions.items():
            lines.append(f"{name}:")
            lines += describe_comparisons(checked, seen)
            lines += describe_draws(self.draws[name])
        if self.functions:
            lines.append(self.summary())
        return "\n".join(map(escape_line, lines))

    def describe_payloads(self) -> Iterator[str]:
        """Yield the lines of the payloads."""
        intact = [each for each in self.payloads if not each.damage]
        digests = sum(each.digest for each in intact)
        yield f"payloads: {len(intact)} of {len(self.payloads)} intact, {digests} compared with a digest"
        for each in self.payloads:
            if each.damage:
                yield f"  damaged {each.name}: {each.damage}"
        for each in self.payloads:
            if each.problem:
                yield f"  invalid {each.name}: {each.problem}"
        for each in self.payloads:
            if not each.checked:
                yield f"  intact, contents not checked: {each.name}"

    def summary(self) -> str:
        """Return how many candidates were compared on how many devices."""
        if not any(each.device for each in chain.from_iterable(self.functions.values())):
            return "no candidate could be launched"
        candidates = 0
        devices_used = set()
        for checked in self.functions.values():
            # Two candidates may have one name: on a device each has a comparison.
            compared = [each[:2] for each in checked if each.outcome in _COMPARED]
            counts: dict[str, int] = {}
            for (candidate, device), number in Counter(compared).items():
                devices_used.add(device)
                counts[candidate] = max(counts.get(candidate, 0), number)
            candidates += sum(counts.values())
        number_of_devices = count_text(len(devices_used), "device")
        return f"{count_text(candidates, 'candidate')} compared on {number_of_devices}"

    __repr__ = __str__


def _as_dicts(values: Iterable[NamedTuple]) -> list[dict[str, Any]]:
    return [each._asdict() for each in values]


def describe_comparisons(checked: Sequence[Comparison], seen: set[str]) -> Iterator[str]:
    """Yield the lines of a function's candidates. `seen` are the texts of functions before it: what
    a machine lacks is the same for each.
    """
    width = max(map(len, _VERBS))  # the longest outcome is one of them
    rows = []
    for outcome, place, text in comparison_rows(checked, seen):
        rows.append([outcome.ljust(width), place, text])
    for line in aligned(rows):
        yield f"  {line}"


def comparison_rows(checked: Sequence[Comparison], seen: set[str]) -> Iterator[tuple[str, ...]]:
    """Yield the outcome, the candidate with its device, and the reason of each candidate."""
    for each in checked:
        place = each.candidate
        text = each.text
        if each.device:
            place += f" on {each.device}"
        else:
            text = shorten_repeat(text, seen)
        yield each.outcome, place, text


def describe_draws(draws: Sequence[Draw]) -> Iterator[str]:
    """Yield the lines of a function's draws, none if there are none."""
    judged = [each for each in draws if not each.problem]
    values = dict.fromkeys(each.values for each in judged)
    numbers: dict[str, dict[int, None]] = {}
    for each in judged:
        for name, number in each.numbers.items():
            numbers.setdefault(name, {})[number] = None
    if judged:
        parts = [f"{count_text(len(values), 'draw')}: {', '.join(values)}"]
        parts += [f"{name} {', '.join(map(str, found))}" for name, found in numbers.items()]
        yield f"  {'; '.join(parts)}"
    for each in draws:
        if each.problem:
            yield f"  not judged with values from {each.values}: {each.problem}"


def verify(
    module: Module,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 120,
) -> Verification:
    """Check the payloads of a module, and compare the results of each function's candidates on the
    devices of this machine.

    Each candidate is launched with several inputs on each device that it fits, in another process,
    each in two guards that have other bytes around the arrays (`devmod.guard`). The inputs are made
    from the interface: arrays and images of random numbers, first with integers of 16 and floats of
    0.5, then with a different number for each scalar, one of which is greater than a block and no
    multiple of it, then with values of both signs, negative ones and large ones, in launches of
    many blocks. A further input with which the first candidate fails is not judged. Each array that
    a candidate may write is compared with that of the first candidate. A candidate that ends the
    process has failed. A write or read outside that every candidate makes with such sizes is no
    error; the function is not compared then. ``DEVMOD_DEVICE`` restricts a kind to one device. The
    candidates of a program are the kinds of its kernels: each step gets the arrays of the first
    kind, and the arrays that it writes are compared. Programs of one name with kernels of their own
    have other steps, so their outputs, updates and states are compared, by default with five times
    the tolerance, of the largest number. A program has one guard, and is called twice more with
    other bytes in its new outputs and temporaries: results that depend on them return or read
    memory that nothing wrote. A program of more than 1,024 steps is compared as a whole.

    Parameters
    ----------
    module
        Any module. The candidates are those of its bundles.
    name
        The function. Default: all functions, without the kernels of one candidate that programs
        launch: each is compared as a step.
    arguments
        Name to value, in place of inputs from the interface; a str is a text as of ``devmod run``,
        such as "random:float32[64,64]". They are used for each function that has such a parameter.
        The name of a program's length has a number; the others get numbers that the program
        accepts.
    threads
        The threads of each launch. Default: two of the candidates' largest blocks in each dimension
        in which a block has threads.
    grid
        The blocks of each launch, in place of `threads`.
    block
        The block of threads of a candidate that has none of its own. Default: that of another
        candidate.
    rtol, atol
        The tolerance: ``atol + rtol * abs(expected)``, and 16 times what the expected value changes
        by if the inputs move by one unit in the last place. The default of `rtol` follows the type
        of the elements: 1e-10 for float64, 2e-5 for float32, 1e-2 for float16, 5e-2 for bfloat16.
        That of `atol` is `rtol`. Integers and bools must be equal: `rtol` does not apply to them,
        and `atol` has the default 0. Numbers that an image stores as integers for floats may differ
        by 1.
    timeout
        The limit for a launch of a candidate, the first with its build, in seconds.

    Raises
    ------
    FunctionNotFoundError
        The module has no such function.
    ArgumentError
        An argument of `arguments` is invalid, or no function has it.
    DevmodError
        The temporary folder has too little free space for the results.
    """
    check_module("verify", module)
    check_names("verify", name)
    check_values("verify", arguments)
    modules = list(walk(module))
    leaves = [each for each in modules if each.property_mask & BINARY_SERIALIZABLE]
    payloads = [_payload(each) for each in leaves]
    sound = []
    for leaf, payload in zip(leaves, payloads, strict=True):
        if not payload.damage and not payload.problem and leaf.kind != "const_loader":
            sound.append(leaf)
    names = dict.fromkeys(chain.from_iterable(leaf.function_names for leaf in sound))
    if name is not None and name not in names:
        raise function_not_found(module.kind, name, list(names))
    nodes = kernel_nodes([module])
    groups = {each: by_node(_candidates(each, module, sound), nodes) for each in names}
    if name is not None:
        groups = {name: groups[name]}
    else:
        for kernel in _launched_kernels(sound):
            if all(len(group) == 1 for group in groups.get(kernel, ())):
                groups.pop(kernel, None)
    comparisons: dict[str, tuple[Comparison, ...]] = dict.fromkeys(groups, ())
    draws: dict[str, tuple[Draw, ...]] = dict.fromkeys(groups, ())
    with temporary_folder() as folder:
        trials = Trials(Path(folder), arguments or {}, threads=threads, grid=grid, block=block)
        for each, found in groups.items():
            for group in found:
                trials.add_function(each, group)
        for each, planned in trials.run(timeout):
            compared = _Compared(planned, rtol, atol)
            comparisons[each] += tuple(compared.comparisons())
            draws[each] += tuple(compared.draws())
    if trials.unused:
        unused = min(trials.unused)
        raise ArgumentError(
            f"verify: no compared function has an argument {unused!r}", argument=unused
        )
    return Verification(payloads, comparisons, draws)


def _launched_kernels(sound: Sequence[Module]) -> set[str]:
    """Return the kernels that programs launch."""
    names: set[str] = set()
    for program in sound:
        if program.kind == PROGRAM:
            for each in program.functions:
                names.update(program_kernels(each, program))
    return names


def _candidates(name: str, module: Module, sound: Sequence[Module]) -> list[Module]:
    """Return the sound modules in which a function is looked up."""
    owner = owner_of(name, module)
    among: Sequence[Module | None] = [owner]
    if isinstance(owner, BundleModule):
        among = owner.candidates
    found = []
    for leaf in sound:
        if name in leaf.function_names and leaf in among:
            found.append(leaf)
    return found


# -- Payloads.


def _payload(module: Module) -> Payload:
    label = describe_candidate(module)
    damage = problem = ""
    digest = is_checked = False
    try:
        try:
            if isinstance(module, StoredModule):
                digest = module.has_digest
                module.verify()
        except DevmodError as error:
            damage = str(error)
        else:
            is_checked = _check(module)
    except Exception as error:  # noqa: BLE001 - the check may be another wheel's
        problem = text_of(error)
    finally:
        release(module)
    return Payload(label, digest, damage, problem, is_checked or bool(damage or problem))


def _check(module: Module) -> bool:
    """Return whether a payload was read here. Raise FormatError or CompileError for one that no
    device can use, or launch tags with which a function cannot be called.
    """
    for name, info in usable_functions(module.functions):
        if problem := tag_problem(info.launch_param_tags):
            raise FormatError(f"the {module.kind} function {name!r} cannot be called: {problem}")
    if module.kind == PROGRAM:
        for name in module:
            # What a newer devmod runs is refused, and the others are compared.
            if newer_program(name, module) is None:
                check_program(name, module)
        return True
    payload = payload_of(module)
    if payload is None:
        return False

    spec, fmt, functions, code = payload
    if isinstance(code, (bytes, memoryview)):
        return _check_binary(spec, fmt, f"payload of format {fmt!r}", code, functions)
    of_shader: dict[str, dict[str, FunctionInfo]] = {entry: {} for entry in code}
    for name, info in functions.items():
        of_shader[shader_entry(spec.kind, name, info, code)][name] = info
    is_checked = True
    for entry, data in code.items():
        is_checked &= _check_binary(spec, fmt, f"shader {entry!r}", data, of_shader[entry])
    return is_checked


def _check_binary(
    spec: TargetSpec,
    fmt: str,
    subject: str,
    data: bytes | memoryview,
    functions: Mapping[str, FunctionInfo],
) -> bool:
    if fmt in spec.text_formats:
        text = data
        if fmt not in spec.source_formats:  # a driver reads it, and a zero byte may end it
            text = bytes(data).rstrip(b"\0")
        source_text(spec.kind, f"the {spec.kind} {subject}", text)
    try:
        return spec.check is not None and spec.check(fmt, data, functions)
    except ModuleNotFoundError as error:
        # The check of a kind may be in a wheel that only this kind needs.
        if messages.missing_wheel(error):
            return False
        raise


# -- Comparisons.


class _Compared:
    """The comparison of one function's launches, whose tolerance is `rtol` and `atol`."""

    def __init__(self, planned: Sequence[Planned], rtol: float | None, atol: float | None) -> None:
        self._planned = planned
        self._rtol = rtol
        self._atol = atol
        #: Why a launch of each candidate is not judged; "" for a candidate without such a launch.
        self._notes = _take_unsound(planned)
        #: The candidates whose first launches have results, the reference first.
        self._sound = []
        for each in planned:
            if {launch["outcome"] for launch in each.first_outcomes} == {"launched"}:
                self._sound.append(each)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparison of each candidate."""
        for each, note in zip(self._planned, self._notes, strict=True):
            device = each.device
            if each in self._sound:
                outcome, verdict = self._verdict(each)
                notes = [verdict]
                if outcome not in _ERRORS:
                    notes += [launch["text"] for launch in each.first_outcomes]
                    notes.append(note)
                text = "; ".join(filter(None, dict.fromkeys(notes)))
            elif note or not device:
                outcome = "not compared"
                text = note or each.reason
            else:
                last = each.first_outcomes[-1]
                outcome = last["outcome"]
                text = last["text"]
                if outcome in _UNLAUNCHED:
                    device = ""
            yield Comparison(each.label, device, outcome, text)

    def draws(self) -> Iterator[Draw]:
        """Yield the draws of the launches that were compared, and of those that were dropped."""
        if len(self._sound) < 2:
            return
        reference = self._sound[0]
        for number in reference.outcomes:
            yield reference.draw(number, self._problem(number))

    def _problem(self, launch: int) -> str:
        """Return why a draw is not judged; "" if it is."""
        inputs = self._sound[0].request["launches"][launch]
        reference, *others = [each.outcomes.get(launch, {}) for each in self._sound]
        if inputs["is_first"]:
            return ""
        if reference["outcome"] != "launched":
            return f"the reference {_VERBS.get(reference['outcome'], 'cannot be called')}"
        for each in others:
            # The integers may be indices or shifts, for which not each device has an error.
            if inputs["may_fail"] and each.get("outcome") in _VERBS:
                return f"a candidate {_VERBS[each['outcome']]}"
        return ""

    def _verdict(self, candidate: Planned) -> tuple[str, str]:
        """Return the outcome of a candidate whose first launches have results, and the text."""
        reference = self._sound[0]
        if len(self._sound) == 1:
            if is_sanitized(candidate.device):
                return "ran", "not compared for want of a device; sanitized"
            return "ran", "nothing to compare with"
        if candidate is reference:
            return "reference", ""

        worst = None
        for number, launch in candidate.outcomes.items():
            if self._problem(number):
                continue
            if launch["outcome"] in _VERBS:
                return launch["outcome"], f"{launch['text']}{candidate.describe(number)}"
            try:
                for name, difference in self._differences(candidate, number):
                    if difference.is_error:
                        return "differs", self._describe(candidate, number, name, difference)
                    worst = max(worst or 0.0, difference.error)
            except ArgumentError as error:
                return "differs", str(error)
        if worst is None:
            return "not compared", "it writes to no array"
        return "agrees", f"worst error {worst:.3g}"

    def _differences(self, candidate: Planned, launch: int) -> Iterator[tuple[str, Difference]]:
        """Yield the name and the difference of each array of a launch."""
        results = self._sound[0].outcomes[launch]["results"]
        word = candidate.request["launches"][launch]["word"]
        files = {name: (path, dtype) for name, path, dtype, _ in results}
        for name, path, dtype, is_rounded in candidate.outcomes[launch].get("results", ()):
            if name not in files:  # reflection may know of one candidate alone that it only reads
                continue
            array = load_result(path, dtype)[0]
            expected, *moved = load_result(*files[name])
            atol = self._atol
            if is_rounded:
                atol = max(atol or 0, 1)
            if atol is None and self._rtol is None:
                atol = _default_atol(candidate, word, array, expected)
            difference = worst_difference(
                name, array, expected, self._rtol, atol, moved, is_finite=word != "random"
            )
            yield name, difference

    def _describe(self, candidate: Planned, launch: int, name: str, difference: Difference) -> str:
        """Return a difference with its input, as text."""
        reference = self._sound[0]
        text = (
            f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} "
            f"with {reference.label} on {reference.device}{candidate.describe(launch)}"
            f"; they differ by {difference.error:.3g}"
        )
        inputs = reference.outcomes[launch]["inputs"]
        elements = []
        words = []
        for each, (word, shape, dtype) in inputs.items():
            words.append(f"{each}={word}[{','.join(map(str, shape))}]")
            if difference.place and [*difference.shape] == shape:
                array = random_array(each, shape, numpy_dtype(dtype), word)
                elements.append(f"{each}{difference.subscript} is {array[difference.place]!s}")
        if elements:
            text += f", where {', '.join(elements)}"
        if words:
            text += f". Inputs: {' '.join(words)}"
        return text


def _default_atol(candidate: Planned, word: str, array: NumPyArray, expected: NumPyArray) -> float:
    """Return the absolute tolerance of the type of an array, for the values of a draw."""
    tolerance = default_rtol(array, expected)
    if not candidate.request["is_whole"]:
        return tolerance * SCALES.get(word, 1)
    # The rounding of all steps adds up.
    largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
    return float(5 * tolerance * largest)


def _take_unsound(planned: Sequence[Planned]) -> list[str]:
    """Take the outcome of the launch in which every candidate is outside, or fails after an earlier
    launch, for invented sizes. Return for each candidate why it is not judged.
    """
    unsound = _unsound_launch(planned)
    notes = []
    for each in planned:
        note = ""
        if each.outcomes.get(unsound, {}).get("outcome") in _VERBS:
            launch = each.describe(unsound)
            text = each.outcomes.pop(unsound)["text"]
            note = (
                f"every candidate does this{launch} with sizes that devmod chose: {text}. "
                "Give the sizes: NAME=VALUE and --threads"
            )
        notes.append(note)
    return notes


def _unsound_launch(planned: Sequence[Planned]) -> int:
    """Return the number of the launch for `_take_unsound`; -1 without one."""
    for number in range(2):
        outcomes = []
        for each in planned:
            for outcome in each.first_outcomes[number : number + 1]:
                if outcome["outcome"] not in _UNLAUNCHED:
                    outcomes.append(outcome)
        names = {each["outcome"] for each in outcomes}
        if not names or not names <= {*_OUTSIDE, "failed"}:
            continue
        if not all(each.get("is_invented", number) for each in outcomes):
            continue
        if number == 0 and "failed" in names:
            break
        return number
    return -1
