"""The search for optimizations of a program's kernels on the devices that are here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from math import inf
from time import monotonic
from typing import Any

import devmod
from devmod import TuningRecord
from devmod.backend import TUNED, Payload, module_of, payload_of
from devmod.errors import DevmodError, count_text
from devmod_models._tinygrad.candidates import Amounts, Candidates
from devmod_models._tinygrad.check import device_labels, run_program
from devmod_models._tinygrad.record import Report, settings

#: The part of a program's time from which on a kernel gets variants.
_LEAST_SHARE = 0.02
#: The part of the heuristic's time that a variant may take at most.
_MOST_TIME = 0.95
#: The text that variants may have, as a multiple of that of the kernels.
_ROOM = 1
#: The optimizations of a kernel that others of its form get.
_SHARED = 3
#: The seconds of the search on a device; half as much is for kernels of the same form as others.
_SECONDS = 240.0
#: The constant of a tuned kernel: its variants are optimizations, as a text.
_CONSTANT = "optimizations"

#: The optimizations of each kernel.
Texts = dict[Candidates, list[str]]
#: The seconds that a kernel saves in a call on a device, its name, and the optimizations with
#: which it is faster than with the heuristic's, the fastest first.
Faster = tuple[float, str, list[str]]


def _with_variants(module: devmod.Module, rendered: Mapping[str, Any]) -> devmod.Module:
    """Return a module whose functions of `rendered` are variants by their optimizations."""
    functions: dict[str, Any] = dict(module.functions)
    for name, each in rendered.items():
        info = functions[name]
        variant = {
            "values": [each["optimizations"]],
            "grid": each["grid"],
            "block": each["block"],
        }
        extra = {"tune": {"constants": [_CONSTANT], "variants": [variant]}}
        interface = info.interface
        tuned = interface.replace(
            extra={**interface.extra, **extra}, needs=[*interface.needs, TUNED]
        )
        functions[name] = info.replace(interface=tuned)
    _, fmt, _, code = payload_of(module)  # type: ignore[misc]
    return module_of(Payload(module.kind, code, fmt, functions, origin=module.origin))


class Search:
    """The search for optimizations of a program's kernels, on one device after the other.

    Parameters
    ----------
    plan
        The program's kernels and steps.
    compiled, program
        The kernels and the program with the heuristic's optimizations.
    inputs
        Arrays and integers, one for each input.
    report
        A function that gets lines about the progress, and which part is done.
    """

    def __init__(
        self,
        plan: Any,
        compiled: devmod.Module,
        program: devmod.Module,
        inputs: Sequence[Any],
        report: Report,
    ) -> None:
        self._plan = plan
        self._compiled = compiled
        self._program = program
        # A call has those that the function assigns behind the others.
        interface = program.functions[plan.name].interface
        numbers = (each.name for each in interface.params if each.kind == "scalar")  # type: ignore[union-attr]
        arrays = (each.name for each in plan.recording.inputs)
        #: By the names of the program.
        self._inputs: dict[str, Any] = {}
        for each in inputs:
            names = arrays
            if isinstance(each, int):
                names = numbers
            self._inputs[next(names)] = each
        self._report = report
        self._candidates: dict[str, Candidates] = {}
        self._records: list[TuningRecord] = []
        self._device = ""
        self._end = 0.0

    def tuned(self) -> devmod.Module:
        """Return the program with variants of its slow kernels, and what devices took for them; the
        program itself if it has none.
        """
        kind = self._plan.target.kind
        present = device_labels([kind], has_simulated=False)
        if not present and not self._plan.is_general:
            self._report(f"{kind}: not tuned, since no device of the kind is here", 1.0)
        labels = list(filter(self._plan.fits, present))
        if present and not labels:
            others = "processors"
            if self._plan.is_general:
                others = "devices that are no processors"
            self._report(f"{kind}: the kernels for {others} are not tuned, since none is here", 1.0)
        found = []
        usable = []
        with settings():
            for label in labels:
                try:
                    found += self._faster(label)
                    usable.append(label)
                except DevmodError as error:
                    self._report(f"{label}: not tuned: {error}", 1.0)
            chosen = self._choose(found)
        if not chosen:
            return self._program
        self._report(f"{kind}: measuring the variants", 1.0)
        result = self._tuned_program(chosen)
        result.tuning_records = self._records_of(result, chosen, usable)
        return result

    def _faster(self, device: str) -> list[Faster]:
        """Return the kernels that are faster on a device with other optimizations than the
        heuristic's.
        """
        self._device = device
        self._end = monotonic() + _SECONDS
        for each in self._candidates.values():
            each.times.clear()
        self._report(f"{device}: measuring the kernels", 1.0)
        slow = self._slow()
        forms: dict[str, list[Candidates]] = {}
        for own in slow:
            forms.setdefault(own.form, []).append(own)
        leaders = [each[0] for each in forms.values()]
        self._try(leaders, Candidates.first)
        self._try(leaders, Candidates.neighbours)
        others: Texts = {}
        for leader, *followers in forms.values():
            others |= dict.fromkeys(followers, leader.fastest[:_SHARED])
        self._measure(others, _SECONDS / 2)

        result = []
        for own, seconds in slow.items():
            default = own.times.get(own.default, 0.0)
            faster = [text for text in own.fastest if own.times[text] < _MOST_TIME * default]
            if faster:
                gain = seconds * (1 - own.times[faster[0]] / default)
                result.append((gain, own.kernel, faster))
        return result

    def _of(self, kernel: str) -> Candidates:
        """Return the optimizations of a kernel."""
        if kernel not in self._candidates:
            plan = self._plan
            self._candidates[kernel] = Candidates(plan.item(kernel), plan.rendered[kernel])
        return self._candidates[kernel]

    def _slow(self) -> dict[Candidates, float]:
        """Return the kernels that may get variants, the slowest first, with the seconds of all
        launches of each in a call.
        """
        program = (self._program, self._plan.name, self._device)
        run_program(*program, **self._inputs)  # builds the kernels
        with devmod.profile() as profile:
            run_program(*program, **self._inputs)
        totals: Counter[str] = Counter()
        for each in profile.records:
            if each.action == "launch" and each.on_device is not None:
                totals[each.name.rpartition(": ")[2]] += each.on_device  # type: ignore[assignment]
        least = _LEAST_SHARE * sum(totals.values())
        slow: dict[Candidates, float] = {}
        for kernel, seconds in totals.most_common():
            grid = self._plan.rendered[kernel]["grid"]
            # A variant has no names of the lengths that a call chooses.
            if seconds >= least and all(isinstance(each, int) for each in grid):
                slow[self._of(kernel)] = seconds
        return slow

    def _try(
        self, kernels: Iterable[Candidates], amounts_of: Callable[[Candidates], Iterable[Amounts]]
    ) -> None:
        """Measure kernels with more optimizations."""
        wanted = {}
        for own in kernels:
            texts = dict.fromkeys([*own.others, *map(own.text, amounts_of(own))])
            for text in ("", *own.times):
                texts.pop(text, None)
            wanted[own] = [*texts]
        self._measure(wanted, self._end - monotonic())

    def _measure(self, kernels: Texts, seconds: float) -> None:
        """Measure kernels with more optimizations, beside the heuristic's, in so many seconds."""
        wanted = {own: texts for own, texts in kernels.items() if texts}
        if not wanted or seconds <= 0:
            return
        self._add_rendered(wanted)
        self._report(
            f"{self._device}: measuring variants of {count_text(len(wanted), 'kernel')}", 1.0
        )
        module = self._tuned_program(wanted)
        for record in self._records_of(module, wanted, [self._device], seconds):
            times = self._of(record.function).times
            for (_, values), each in record.measured.items():
                if each:
                    times[str(values[0])] = each

    def _add_rendered(self, kernels: Texts) -> None:
        """Render kernels with more optimizations. With some they cannot be rendered, or have other
        parameters.
        """
        items = []
        for own, texts in kernels.items():
            new = [text for text in texts if text not in own.rendered]
            items.append([own.tree, [self._plan.item(own.kernel, text) for text in new]])
        results = self._plan.results_of(items)
        for (_, wanted), own, (answers, _) in zip(items, kernels, results, strict=True):
            expected = own.rendered[own.default]["parameters"]
            for (*_, text), answer in zip(wanted, answers or [{}] * len(wanted), strict=True):
                own.rendered[text] = {}
                if answer.get("parameters") == expected:
                    own.rendered[text] = answer

    def _records_of(
        self,
        module: devmod.Module,
        kernels: Iterable[Candidates],
        devices: Sequence[str],
        seconds: float = inf,
    ) -> Sequence[TuningRecord]:
        """Return what devices take for the variants of kernels of a program, in order. Known ones
        are not measured again. Each kernel gets half of the rest of the time at most.
        """
        end = monotonic() + seconds
        records: list[TuningRecord] = []
        for own in kernels:
            rest = end - monotonic()
            if rest <= 0:
                break
            result = devmod.tune(
                module,
                own.kernel,
                self._inputs,
                devices=devices,
                records=self._records,
                budget=rest / 2,
            )
            records += result.records
        self._records += records
        return records

    def _tuned_program(self, kernels: Texts) -> devmod.Module:
        """Return the program with the heuristic's and other optimizations of kernels, without those
        that could not be rendered.
        """
        rows = []
        for own, texts in kernels.items():
            row = []
            for text in dict.fromkeys([own.default, *texts]):
                if own.rendered[text]:
                    row.append((own.kernel, {**own.rendered[text], "optimizations": text}))
            rows.append(row)

        # The first variants, those of the heuristic, then the second ones, and so on.
        first, *others = [dict(filter(None, each)) for each in zip_longest(*rows)]
        modules = [_with_variants(self._compiled, first)]
        for column in others:
            modules.append(_with_variants(self._plan.compile(column), column))
        program: devmod.Module = self._plan.program(devmod.bundle(*modules))
        return program

    def _choose(self, found: Sequence[Faster]) -> Texts:
        """Return the optimizations that kernels get beside the heuristic's.

        Variants have as much text as all kernels at most, so that a file has at most twice as much.
        Those that save the most come first. The next fastest is in the place of one without room.
        """
        room = _ROOM * sum(len(each["text"]) for each in self._plan.rendered.values())
        chosen: Texts = {}
        for _, kernel, faster in sorted(found, reverse=True):
            own = self._of(kernel)
            for text in faster:
                length = len(own.rendered[text]["text"])
                if text in chosen.get(own, ()):
                    break
                if length <= room:
                    room -= length
                    chosen.setdefault(own, []).append(text)
                    break
        return chosen
