"""Building: when, by whom, how often, and what is left of a build that failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import devmod
from devmod.testing._case import Conformance, Sample
from devmod.testing._row import Skip
from devmod.testing._rows._tools import (
    called_samples,
    compare,
    expected,
    function_of,
    launch,
    must,
    no_device_skips,
    real,
    refused,
    row,
    same,
    samples_of,
    source_samples,
)
from devmod.testing._rows.making import JUNK, with_code
from devmod.testing._turn import device_turn

_THREADS = 8
#: How long a build is held, so that every thread comes while it goes on.
_HELD = 0.05


class Refusal(Exception):
    """What the kit's own build step raises."""


class Builds:
    """The builds of a backend while a row watches: how many there were, and what happens in the next."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False
        self.held = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """One more."""
        with self._lock:
            self.count += 1
            number = self.count
        if self.held:
            time.sleep(self.held)
        if self.fails:
            raise Refusal(f"build {number} is refused")


@contextmanager
def watched(case: Conformance, sample: Sample) -> Iterator[Builds]:
    """Watch the builds of modules of a sample."""
    builds = Builds()
    with case.builds(sample, builds):
        yield builds


def counted_samples(case: Conformance) -> list[Sample]:
    """The samples whose builds can be watched."""
    found, reason = [], ""
    for sample in samples_of(case):
        try:
            with watched(case, sample):
                found.append(sample)
        except NotImplementedError as error:
            reason = str(error)
    if not found:
        raise Skip(f"builds cannot be counted: {reason}")
    return found


@row("R30")
def when(case: Conformance) -> None:
    """A payload is built at the first get_function, not when it is created, saved or loaded."""
    for sample in counted_samples(case):
        with watched(case, sample) as builds:
            module = devmod.load_from_bytes(case.kind, real(case, sample).save_to_bytes())
            same(builds.count, 0, "the number of builds before the first get_function")
            function_of(module, next(iter(sample.fmap)))
            unseen = "the replaced compiler is not asked (devmod.backend.run_compiler), or Conformance.builds does not see it"
            must(builds.count, f"get_function builds nothing: {unseen}")


@row("R31-once")
def replaced(case: Conformance) -> None:
    """The replaced compiler gets the code alone, once a module (once a shader), and changes nothing that is saved."""
    for sample in source_samples(case):
        given: list[bytes] = []

        def compiler(code: bytes, sample: Sample = sample, given: list[bytes] = given) -> tuple[str, bytes]:
            given.append(code)
            return sample.fmt, code

        module = real(case, sample)
        data = module.save_to_bytes()
        devmod.set_compiler(case.kind, compiler)
        try:
            for _ in range(2):
                for name in sample.fmap:
                    function_of(module, name)
        finally:
            devmod.set_compiler(case.kind, None)
        code = sample.code
        wanted = [bytes(code)] if isinstance(code, (bytes, memoryview)) else sorted(map(bytes, code.values()))
        same(sorted(given), wanted, "what the replaced compiler was given, all functions asked for twice,")
        must(module.save_to_bytes() == data, "the replaced compiler changes what the module saves")


@row("R31-used")
def replaced_is_used(case: Conformance) -> None:
    """What the replaced compiler returns is what runs."""
    samples = source_samples(case)
    sample = next((each for each in samples if each.calls), samples[0])
    junk: Any = JUNK
    fine: dict[bytes, Any] = {JUNK: sample.code}
    if not isinstance(sample.code, (bytes, memoryview)):
        junk = {name: JUNK + name.encode() for name in sample.code}  # each its own, to tell which shader is asked for
        fine = {junk[name]: shader for name, shader in sample.code.items()}
    given: list[bytes] = []

    def compiler(code: bytes) -> tuple[str, bytes]:
        given.append(code)
        return sample.fmt, bytes(fine[bytes(code)])

    module = real(case, Sample(junk, sample.fmt, sample.fmap))
    devmod.set_compiler(case.kind, compiler)
    try:
        function_of(module, next(iter(sample.fmap)))
        must(given, "get_function never asks the replaced compiler")
        for call in sample.calls:
            arguments, wanted = call.make_arguments(), expected(call)
            launch(case, function_of(module, call.function), arguments, **call.shape)
            compare(call, arguments, wanted, "with a replaced compiler")
    finally:
        devmod.set_compiler(case.kind, None)


@row("R32-once")
def once(case: Conformance) -> None:
    """Threads that ask for a function at once build it once, and all get it."""
    for sample in counted_samples(case)[:2]:
        with watched(case, sample) as builds:
            name = next(iter(sample.fmap))
            function_of(real(case, sample), name)  # the driver is open now, and what it takes is not counted
            alone, builds.count, builds.held = builds.count, 0, _HELD
            module = real(case, sample)
            answers = together(case, lambda module=module, name=name: module[name])  # type: ignore[misc]
            for answer in answers:
                must(not isinstance(answer, BaseException), f"a thread of {_THREADS} that asked at once got {answer!r}")
            same(builds.count, max(alone, 1), f"the number of builds when {_THREADS} threads ask at once")
            module[name]
            same(builds.count, max(alone, 1), "the number of builds when the function is asked for again")


@row("R32-failure")
def failure(case: Conformance) -> None:
    """A build that fails is raised as it is to everyone who waits, is not kept, and the next call succeeds."""
    sample = counted_samples(case)[0]
    name = next(iter(sample.fmap))
    with watched(case, sample) as builds:
        function_of(real(case, sample), name)
        module = real(case, sample)
        builds.fails, builds.held = True, _HELD
        for answer in together(case, lambda: module[name]):
            must(isinstance(answer, BaseException), "get_function gives a function though its build failed")
            must(isinstance(answer, Refusal), f"what a build raises does not come through unchanged: {type(answer).__name__}: {answer}")
        builds.count, builds.held = 0, 0.0
        with refused(Refusal, "get_function after a build that failed, while builds still fail,"):
            module[name]
        must(builds.count, "a failure is kept: the next get_function does not build again")
        builds.fails = False
        try:
            module[name]
        except Exception as error:
            raise AssertionError(f"a failure is kept: get_function still raises {type(error).__name__}: {error}") from error


@row("R40-refused")
def bad_payloads(case: Conformance) -> None:
    """A payload that is none is refused at the first get_function, each time, and leaves the backend sound."""
    good = samples_of(case)[0]
    for bad in case.bad_payloads or [with_code(good, JUNK)]:
        module = real(case, bad)
        data = module.save_to_bytes()
        said: list[type] = []
        for _ in range(2):
            with refused(devmod.DevmodError, "get_function of a payload that is none") as caught, no_device_skips():
                module[next(iter(bad.fmap))]
            must(
                isinstance(caught[0], (devmod.FormatError, devmod.CompileError)),
                f"a payload that is none raises {type(caught[0]).__name__}, and not FormatError or CompileError: {caught[0]}",
            )
            said.append(type(caught[0]))  # a driver's own words name a temporary file
        same(said[1], said[0], "the type of the second refusal of a payload that is none")
        must(module.save_to_bytes() == data, "a module that was refused saves other bytes")
    function_of(real(case, good), next(iter(good.fmap)))


@row("R32-calls")
def calls(case: Conformance) -> None:
    """Threads that call one function at once get right results."""
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        wanted = expected(call)

        def several(call: Any = call, function: Any = function, wanted: list[Any] = wanted) -> None:
            for _ in range(4):
                arguments = call.make_arguments()
                function(*arguments, **call.shape)
                compare(call, arguments, wanted, f"called by {_THREADS} threads")

        with device_turn(case.kind):
            for answer in together(case, several):
                if isinstance(answer, BaseException):
                    raise answer


def together(case: Conformance, action: Callable[[], Any]) -> list[Any]:
    """What `action` returns or raises in several threads that begin at once."""
    begin = threading.Barrier(_THREADS)
    answers: list[Any] = [None] * _THREADS

    def work(number: int) -> None:
        begin.wait()
        try:
            answers[number] = action()
        except BaseException as error:  # noqa: BLE001 - it is the row's to judge
            answers[number] = error

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + case.patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    must(not any(thread.is_alive() for thread in threads), f"{_THREADS} threads that ask at once wait for each other for ever")
    return answers
