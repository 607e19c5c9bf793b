"""Builds: their time, their compiler, their number, and the state after a failure."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any

import devmod
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    JUNK,
    compare_arrays,
    expect_error,
    get_function,
    launch,
    reference_arrays,
    replace_code,
    require,
    require_equal,
    row,
    runnable_samples,
    runtime_module,
    samples_with_calls,
    skip_without_device,
    source_samples,
    usable_samples,
)
from devmod_conformance._turn import device_turn

_THREADS = 8
#: The seconds that a build is delayed, so that all threads ask during the build.
_DELAY = 0.05


class BuildError(Exception):
    """Raised by the kit in a build."""


class Builds:
    """Counts the builds of a backend, and delays them or makes them fail."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False
        self.delay = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Count a build."""
        with self._lock:
            self.count += 1
            number = self.count
        if self.delay:
            time.sleep(self.delay)
        if self.fails:
            raise BuildError(f"build {number} fails")


@contextmanager
def count_builds(case: Conformance, sample: Sample) -> Iterator[Builds]:
    """Count the builds of modules of a sample."""
    builds = Builds()
    with case.builds(sample, builds):
        yield builds


def counted_samples(case: Conformance) -> list[Sample]:
    """Return the samples whose builds can be counted."""
    counted, reason = [], ""
    for sample in runnable_samples(case):
        try:
            with count_builds(case, sample):
                counted.append(sample)
        except NotImplementedError as error:
            reason = str(error)
    if not counted:
        raise Skip(f"builds cannot be counted: {reason}")
    return counted


@row("R30-build")
def build_time(case: Conformance) -> None:
    """The first get_function builds the payload; creating, saving and loading do not."""
    for sample in counted_samples(case):
        with count_builds(case, sample) as builds:
            module = devmod.load_from_bytes(case.kind, runtime_module(case, sample).save_to_bytes())
            require_equal(builds.count, 0, "the number of builds before the first get_function")
            get_function(module, next(iter(sample.fmap)))
            hint = "call devmod_runtime.run_compiler, or mend Conformance.builds"
            require(builds.count, f"the number of builds after get_function: expected at least 1, got 0; {hint}")


@row("R30-files")
def named_files(case: Conformance) -> None:
    """A build does not depend on files of the receiver that a source payload names."""
    sample = source_samples(case)[0]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        path = os.path.join(folder, "named.h")
        texts = [
            f"#include {name}" for name in (f'"{path}"', f"<{path}>", '"named.h"', "<named.h>", f'"../{os.path.basename(folder)}/named.h"')
        ]
        texts += [f'#define NAMED "{path}"\n#include NAMED', f'#if __has_include("{path}")\n#error the file exists\n#endif']
        results: list[list[str]] = []
        for content in (None, "#define DEVMOD_NAMED 1\n"):
            if content is not None:
                with open(path, "w", encoding="ascii") as file:
                    file.write(content)
            # A line of its own for each, so that no build is cached.
            results.append([_build(case, sample, f"{text}\n#define DEVMOD_FILE {content is not None:d}") for text in texts])
    for text, missing, existing in zip(texts, *results, strict=True):
        require(
            missing == existing,
            f"a source with {text!r}: {missing or 'it builds'} if the file is missing, and {existing or 'it builds'} if it exists",
        )


def _build(case: Conformance, sample: Sample, head: str) -> str:
    """Build a sample with lines before its source. Return the type of the error, or ""."""

    def with_head(code: bytes | memoryview) -> bytes:
        return f"{head}\n".encode() + bytes(code)

    code = sample.code
    code = with_head(code) if isinstance(code, (bytes, memoryview)) else {name: with_head(each) for name, each in code.items()}
    module = runtime_module(case, Sample(code, sample.fmt, sample.fmap))
    try:
        get_function(module, next(iter(sample.fmap)))
    except (devmod.CompileError, devmod.FormatError) as error:
        return type(error).__name__
    return ""


@row("R31-once")
def replaced_compiler(case: Conformance) -> None:
    """A replaced compiler gets the code and the target, once for each module or shader, and does not change the saved bytes."""
    archs = {device.arch for device in devmod.devices() if device.kind == case.kind and device.arch}
    for sample in source_samples(case):
        inputs: list[bytes] = []
        targets: list[devmod.Target | None] = []

        def compiler(
            code: bytes, sample: Sample = sample, inputs: list[bytes] = inputs, targets: list[devmod.Target | None] = targets
        ) -> tuple[str, bytes]:
            inputs.append(code)
            targets.append(devmod.Target.current())
            return sample.fmt, code

        module = runtime_module(case, sample)
        data = module.save_to_bytes()
        devmod.set_compiler(case.kind, compiler)
        try:
            for _ in range(2):
                for name in sample.fmap:
                    get_function(module, name)
        finally:
            devmod.set_compiler(case.kind, None)
        code = sample.code
        expected = [bytes(code)] if isinstance(code, (bytes, memoryview)) else sorted(map(bytes, code.values()))
        require_equal(sorted(inputs), expected, "the inputs of the replaced compiler after two get_function of each name")
        require(module.save_to_bytes() == data, "the replaced compiler changes the saved bytes")
        for target in targets:
            is_complete = target is not None and target.kind == case.kind and (len(target.archs) == 1 or not archs)
            expected_target = f"a target of the kind{', with the architecture of a device: ' if archs else ''}{', '.join(sorted(archs))}"
            require(
                is_complete,
                f"Target.current() in the replaced compiler: expected {expected_target}; got {target}. Pass it to "
                "devmod_runtime.run_compiler",
            )


@row("R31-used")
def replaced_compiler_output(case: Conformance) -> None:
    """The function runs the output of the replaced compiler."""
    samples = source_samples(case)
    sample = next((each for each in samples if each.calls), samples[0])
    junk: Any = JUNK
    valid: dict[bytes, Any] = {JUNK: sample.code}
    if not isinstance(sample.code, (bytes, memoryview)):
        junk = {name: JUNK + name.encode() for name in sample.code}  # different, so that the compiler recognizes the shader
        valid = {junk[name]: shader for name, shader in sample.code.items()}
    inputs: list[bytes] = []

    def compiler(code: bytes) -> tuple[str, bytes]:
        inputs.append(code)
        return sample.fmt, bytes(valid[bytes(code)])

    module = runtime_module(case, Sample(junk, sample.fmt, sample.fmap))
    devmod.set_compiler(case.kind, compiler)
    try:
        get_function(module, next(iter(sample.fmap)))
        require(inputs, "get_function does not call the replaced compiler")
        for call in sample.calls:
            arguments, expected = call.make_arguments(), reference_arrays(call)
            launch(case, get_function(module, call.function), arguments, **call.keywords)
            compare_arrays(call, arguments, expected, "with a replaced compiler")
    finally:
        devmod.set_compiler(case.kind, None)


@row("R32-once")
def once(case: Conformance) -> None:
    """Threads that get a function at the same time build it once, and each gets it."""
    for sample in counted_samples(case)[:2]:
        with count_builds(case, sample) as builds:
            name = next(iter(sample.fmap))
            get_function(runtime_module(case, sample), name)  # the builds that opening the driver needs are not counted
            single, builds.count, builds.delay = builds.count, 0, _DELAY
            module = runtime_module(case, sample)
            answers = run_threads(case, lambda module=module, name=name: module[name])  # type: ignore[misc]
            for answer in answers:
                require(
                    not isinstance(answer, BaseException), f"one of {_THREADS} threads that get a function at the same time got {answer!r}"
                )
            require_equal(builds.count, max(single, 1), f"the number of builds with {_THREADS} threads")
            module[name]
            require_equal(builds.count, max(single, 1), "the number of builds after another get_function")


@row("R32-failure")
def failed_build(case: Conformance) -> None:
    """A failed build raises the same error in every thread; it is not cached, and the next get_function builds again."""
    sample = counted_samples(case)[0]
    name = next(iter(sample.fmap))
    with count_builds(case, sample) as builds:
        get_function(runtime_module(case, sample), name)
        module = runtime_module(case, sample)
        builds.fails, builds.delay = True, _DELAY
        for answer in run_threads(case, lambda: module[name]):
            require(isinstance(answer, BaseException), "get_function returns a function although its build failed")
            require(isinstance(answer, BuildError), f"the error of a build: expected it unchanged, got {type(answer).__name__}: {answer}")
        builds.count, builds.delay = 0, 0.0
        with expect_error(BuildError, "get_function after a failed build, while builds still fail"):
            module[name]
        require(builds.count, "a failed build is cached: the next get_function does not build again")
        builds.fails = False
        try:
            module[name]
        except Exception as error:
            raise AssertionError(f"a failed build is cached: get_function still raises {type(error).__name__}: {error}") from error


@row("R40-refused")
def invalid_payloads(case: Conformance) -> None:
    """Every get_function of an invalid payload raises FormatError or CompileError, and other modules still work."""
    good = usable_samples(case)[0]
    for bad in case.bad_payloads or [replace_code(good, JUNK)]:
        module = runtime_module(case, bad)
        data = module.save_to_bytes()
        types: list[type] = []
        for _ in range(2):
            with expect_error(devmod.DevmodError, "get_function of an invalid payload") as caught, skip_without_device():
                module[next(iter(bad.fmap))]
            require(
                isinstance(caught[0], (devmod.FormatError, devmod.CompileError)),
                f"get_function of an invalid payload: expected FormatError or CompileError, got {type(caught[0]).__name__}: {caught[0]}",
            )
            types.append(type(caught[0]))  # the texts may differ: a driver names temporary files
        require_equal(types[1], types[0], "the type of the second error of an invalid payload")
        require(module.save_to_bytes() == data, "get_function of an invalid payload changes the saved bytes")
    get_function(runtime_module(case, good), next(iter(good.fmap)))


@row("R32-calls")
def concurrent_calls(case: Conformance) -> None:
    """Threads that call one function at the same time get correct results."""
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        expected = reference_arrays(call)

        def call_repeatedly(call: Any = call, function: Any = function, expected: list[Any] = expected) -> None:
            for _ in range(4):
                arguments = call.make_arguments()
                function(*arguments, **call.keywords)
                compare_arrays(call, arguments, expected, f"called by {_THREADS} threads")

        with device_turn(case.kind):
            for answer in run_threads(case, call_repeatedly):
                if isinstance(answer, BaseException):
                    raise answer


def run_threads(case: Conformance, action: Callable[[], Any]) -> list[Any]:
    """Return what `action` returns or raises in each of several threads that start together."""
    barrier = threading.Barrier(_THREADS)
    answers: list[Any] = [None] * _THREADS

    def work(number: int) -> None:
        barrier.wait()
        try:
            answers[number] = action()
        except BaseException as error:  # noqa: BLE001 - the row checks it
            answers[number] = error

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + case.timeout
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    require(not any(thread.is_alive() for thread in threads), f"{_THREADS} threads that run at the same time do not end")
    return answers
