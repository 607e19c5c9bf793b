"""Compilations and builds: the output and its origin, the time of a build, its compiler, and the
state after a failure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import partial
from typing import Any

import devmod
from devmod.backend import RLock, function_to_json, temporary_folder
from devmod.plugins import find_spec
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._fake_host import EAST, WEST
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    JUNK,
    called_functions,
    check_call,
    compare_arrays,
    expect_error,
    get_function,
    reference_arrays,
    replace_code,
    require,
    require_equal,
    require_equal_bytes,
    row,
    run_in_threads,
    runnable_samples,
    runtime_module,
    skip_without_device,
    source_samples,
    target_spec,
    usable_samples,
)
from devmod_conformance._turn import device_turn

# -- The output of `devmod.compile` for the compiled samples, and its origin.


#: The seconds between two compilations. A time in whole seconds differs then.
_APART = 1.1

_THREADS = 8
#: The seconds that a build is delayed, so that all threads ask during the build.
_DELAY = 0.05


@row("R38-compiled")
def reproducible_output(case: Conformance) -> None:
    """The compiler's output is the same at another time, in another folder, for another user and in
    another process.
    """
    texts = _texts(case)
    with temporary_folder() as one, temporary_folder() as two:
        compile_in = partial(_compile, case, texts)
        start = time.monotonic()
        first = compile_in(one)
        if all(isinstance(each, str) for each in first):
            raise Skip(f"no text can be compiled on this machine: {first[0]}")
        time.sleep(max(0.0, _APART - (time.monotonic() - start)))
        if first == compile_in(
            two, user=two, seed="2", other_host=True, zone=WEST, changed=1_000_000_000
        ):
            return
        # Find the cause. All but one of these compilations have the same replaced clock.
        fixed = compile_in(one, other_host=True)
        again = compile_in(one, other_host=True)
        require(
            fixed == again,
            f"{_difference(fixed, again)}, in another process with the same folder, user, environment and clock",
        )
        causes: dict[str, tuple[str, dict[str, Any]]] = {
            "in another folder": (two, {}),
            "for another user": (one, {"user": two}),
            "with another PYTHONHASHSEED": (one, {"seed": "2"}),
            "from a file with another modification time": (one, {"changed": 1_000_000_000}),
        }
        for cause, (folder, changes) in causes.items():
            other = compile_in(folder, other_host=True, **changes)
            require(fixed == other, f"{_difference(fixed, other)}, {cause}")
        require(
            first == fixed,
            f"{_difference(first, fixed)}, at another time or with another host name",
        )
        other = compile_in(one, other_host=True, zone=WEST)
        require(fixed == other, f"{_difference(fixed, other)}, in another time zone")
        raise AssertionError(
            "the compiler's output differs between processes with different folders, users, times and environments"
        )


@row("R42")
def origin(case: Conformance) -> None:
    """A compiled module has an origin with the target and the digests of the sources; it has no
    paths and is not in the module's bytes.
    """
    compiled = False
    missing = None
    for sample, text, target, options in _compilations(case):
        if len(devmod.Target.parse(target).archs) > 1:
            continue  # the result is a bundle, and each module in it has an origin
        try:
            module = devmod.compile(text, target, **options)
        except devmod.ToolchainNotFoundError as error:
            missing = error
            continue
        compiled = True
        result = module.origin
        require(
            result is not None,
            "a module of devmod.compile has no origin; give the Payload an Origin",
        )
        assert result is not None
        require_equal(result.target, str(devmod.Target.parse(target)), "the target in the origin")
        digests = list(result.sources.values())
        require(
            hashlib.sha256(text.encode()).hexdigest() in digests,
            f"the sources in the origin: expected the SHA-256 of the compiled text, got {dict(result.sources)!r}",
        )
        text_of_origin = json.dumps(result.to_dict(), ensure_ascii=False)
        for folder in {os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir()} - {"/", ""}:
            require(
                json.dumps(folder)[1:-1] not in text_of_origin,
                f"the origin contains the path {folder!r}: {text_of_origin}",
            )
        loaded = devmod.loads(devmod.dumps(module))
        require_equal(loaded.origin, result, "the origin after devmod.dumps and devmod.loads")
        if sample.fmap:
            require_equal_bytes(
                module.save_to_bytes(),
                runtime_module(case, sample).save_to_bytes(),
                "the saved bytes of a module with an origin",
            )
    if not compiled and missing is not None:
        raise Skip(f"no text can be compiled on this machine: {missing}")
    if not compiled:
        raise Skip("no sample is created by Sample.compiled")


@row("R40-example")
def example_architectures(case: Conformance) -> None:
    """The languages of needs_arch are those of the target spec, and the first architecture compiles
    the samples of its language.
    """
    spec = target_spec(case)
    if not spec.needs_arch:
        raise Skip("the target spec has no needs_arch")
    unknown = [name for name in spec.needs_arch if name not in spec.languages.values()]
    require(
        not unknown, f"needs_arch names languages that the target spec lacks: {', '.join(unknown)}"
    )
    compiled = False
    missing = None
    for _, text, _, options in _compilations(case):
        language = options.get("language") or next(iter(spec.languages))
        language = spec.languages.get(language, language)
        if language not in spec.needs_arch:
            continue
        target = devmod.Target(case.kind, arch=spec.needs_arch[language].partition(",")[0])
        try:
            devmod.compile(text, target, **options)
        except devmod.ToolchainNotFoundError as error:
            missing = error
            continue
        except devmod.DevmodError as error:
            raise AssertionError(
                f"the example {str(target)!r} for {language} does not compile a sample: {error}"
            ) from error
        compiled = True
    if not compiled and missing is not None:
        raise Skip(f"no text can be compiled on this machine: {missing}")
    if not compiled:
        raise Skip("no sample of its languages is created by Sample.compiled")


def _compilations(case: Conformance) -> list[tuple[Sample, str, str, dict[str, Any]]]:
    """Return the samples that `Sample.compiled` created, each with its text, target and options."""
    return [
        (sample, *sample.compilation) for sample in case.samples if sample.compilation is not None
    ]


def _compile(
    case: Conformance,
    texts: list[dict[str, Any]],
    folder: str,
    *,
    user: str = "",
    seed: str = "1",
    zone: str = EAST,
    **more: Any,
) -> list[Any]:
    """Return the output for each text in a process in a folder, or the error of a missing
    toolchain. The parameters change the process.
    """
    environment = {"PYTHONHASHSEED": seed, "TZ": zone}
    if user:
        environment |= dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), user)
        environment |= dict.fromkeys(("USER", "LOGNAME", "USERNAME", "HOSTNAME"), "nobody")
    return list(
        probe(
            case,
            "compiled",
            texts=texts,
            environment=environment,
            folder=folder,
            **{"changed": 1_100_000_000, **more},
        ).value
    )


def _texts(case: Conformance) -> list[dict[str, Any]]:
    """Return the texts of the compiled samples as JSON, for another process."""
    results = []
    for _, text, target, options in _compilations(case):
        rest = {name: value for name, value in options.items() if name != "fmap"}
        declared = options.get("fmap")
        functions = ""
        if declared:
            described = {name: function_to_json(info) for name, info in declared.items()}
            functions = json.dumps({"func_info": described})
        suffix = _suffix(devmod.Target.parse(target).kind, options.get("language"))
        try:
            json.dumps(rest)
        except TypeError:
            continue  # an option such as include= may have values that JSON lacks
        results.append(
            {
                "text": text,
                "target": str(target),
                "options": rest,
                "functions": functions,
                "suffix": suffix,
            }
        )
    if not results:
        raise Skip("no sample is created by Sample.compiled")
    return results


def _suffix(kind: str, language: str | None) -> str:
    """Return the suffix of a language's source files, or "" if the target has no languages."""
    spec = find_spec(kind)
    if spec is None:
        return ""
    for suffix, name in spec.languages.items():
        if language in (None, suffix, name):
            return suffix
    return ""


def _difference(one: list[Any], other: list[Any]) -> str:
    """Describe the first difference between two compilations."""
    for number, (texts, others) in enumerate(zip(one, other, strict=True), 1):
        if isinstance(texts, str) or isinstance(others, str):
            if texts != others:
                return f"compiled sample {number} is compiled in one process but not in the other"
            continue
        for modules, changed in zip(texts, others, strict=False):
            for (data, source), (other_data, other_source) in zip(modules, changed, strict=False):
                if data != other_data:
                    return f"the compiler's output differs: {_part(base64.b64decode(data), base64.b64decode(other_data))}"
                if source != other_source:
                    return f"the compiler's origin differs: {source!r} and {other_source!r}"
        if texts != others:
            return f"the compiler's output for compiled sample {number} differs"
    return "the compiler's output differs"


def _part(one: bytes, other: bytes) -> str:
    """Show the bytes around the first difference."""
    at = next(
        (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )
    begin = max(0, at - 8)
    return f"from byte {at} on, {one[begin : at + 24]!r} and {other[begin : at + 24]!r}"


class BuildError(Exception):
    """Raised by the kit in a build."""


class Builds:
    """Counts the builds of a backend, and delays them or makes them fail."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False
        self.delay = 0.0
        self._lock = RLock()

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
    counted = []
    reason = ""
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
            require(
                builds.count,
                f"the number of builds after get_function: expected at least 1, got 0; {hint}",
            )


@row("R30-files")
def named_files(case: Conformance) -> None:
    """A build does not depend on files of the receiver that a source payload names."""
    sample = source_samples(case)[0]
    with temporary_folder() as folder, chdir(folder):
        path = os.path.join(folder, "named.h")
        texts = [
            f"#include {name}"
            for name in (
                f'"{path}"',
                f"<{path}>",
                '"named.h"',
                "<named.h>",
                f'"../{os.path.basename(folder)}/named.h"',
            )
        ]
        texts += [
            f'#define NAMED "{path}"\n#include NAMED',
            f'#if __has_include("{path}")\n#error the file exists\n#endif',
        ]
        results: list[list[str]] = []
        for content in (None, "#define DEVMOD_NAMED 1\n"):
            if content is not None:
                with open(path, "w", encoding="ascii") as file:
                    file.write(content)
            # A line of its own for each, so that no build is cached.
            results.append(
                [
                    _build(case, sample, f"{text}\n#define DEVMOD_FILE {content is not None:d}")
                    for text in texts
                ]
            )
    for text, missing, existing in zip(texts, *results, strict=True):
        require(
            missing == existing,
            f"a source with {text!r}: {missing or 'it builds'} if the file is missing, and {existing or 'it builds'} if it exists",
        )


def _build(case: Conformance, sample: Sample, head: str) -> str:
    """Build a sample with lines before its source. Return the type of the error, or ""."""
    with_head = replace_code(sample, lambda code: f"{head}\n".encode() + bytes(code))
    module = runtime_module(case, with_head)
    try:
        get_function(module, next(iter(sample.fmap)))
    except (devmod.CompileError, devmod.FormatError) as error:
        return type(error).__name__
    return ""


@row("R31-once")
def replaced_compiler(case: Conformance) -> None:
    """A replaced compiler gets the code and the target, once for each module or shader, and does
    not change the saved bytes.
    """
    samples = source_samples(case)
    archs = {device.arch for device in devmod.devices(case.kind) if device.arch}
    for sample in samples:
        inputs: list[bytes] = []
        targets: list[devmod.Target | None] = []

        def compiler(
            code: bytes,
            sample: Sample = sample,
            inputs: list[bytes] = inputs,
            targets: list[devmod.Target | None] = targets,
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
        if isinstance(sample.code, (bytes, memoryview)):
            expected = [bytes(sample.code)]
        else:
            expected = sorted(map(bytes, sample.code.values()))
        require_equal(
            sorted(inputs),
            expected,
            "the inputs of the replaced compiler after two get_function of each name",
        )
        require(module.save_to_bytes() == data, "the replaced compiler changes the saved bytes")
        expected_target = "a target of the kind"
        if archs:
            expected_target += f", with the architecture of a device: {', '.join(sorted(archs))}"
        for target in targets:
            is_complete = target is not None and target.kind == case.kind
            if target is not None and archs:
                is_complete = is_complete and len(target.archs) == 1
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
        junk = {
            name: JUNK + name.encode() for name in sample.code
        }  # different, so that the compiler recognizes the shader
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
            check_call(case, call, get_function(module, call.function), "with a replaced compiler")
    finally:
        devmod.set_compiler(case.kind, None)


@row("R32-once")
def once(case: Conformance) -> None:
    """Threads that get a function at the same time build it once, and each gets it."""
    for sample in counted_samples(case)[:2]:
        with count_builds(case, sample) as builds:
            name = next(iter(sample.fmap))
            # The builds that opening the driver needs are not counted.
            get_function(runtime_module(case, sample), name)
            single = builds.count
            builds.count = 0
            builds.delay = _DELAY
            module = runtime_module(case, sample)
            for answer in run_in_threads(
                lambda _, module=module, name=name: module[name],  # type: ignore[misc]
                range(_THREADS),
                case.timeout,
            ):
                require(
                    not isinstance(answer, BaseException),
                    f"one of {_THREADS} threads that get a function at the same time got {answer!r}",
                )
            require_equal(
                builds.count, max(single, 1), f"the number of builds with {_THREADS} threads"
            )
            module[name]
            require_equal(
                builds.count, max(single, 1), "the number of builds after another get_function"
            )


@row("R32-load")
def load_once(case: Conformance) -> None:
    """Threads that get several functions of a module at the same time build no more than one thread
    does.
    """
    samples = [each for each in counted_samples(case) if len(each.fmap) > 1]
    if not samples:
        raise Skip("no sample whose builds can be counted has several functions")
    for sample in samples[:2]:
        names = list(sample.fmap)[:_THREADS]
        with count_builds(case, sample) as builds:
            for _ in range(2):  # the builds that opening the driver needs are not counted
                builds.count = 0
                module = runtime_module(case, sample)
                for name in names:
                    get_function(module, name)
            single = builds.count
            builds.count = 0
            builds.delay = _DELAY
            module = runtime_module(case, sample)
            for answer in run_in_threads(module.get_function, names, case.timeout):
                require(
                    not isinstance(answer, BaseException),
                    f"one of {len(names)} threads that get a function each got {answer!r}",
                )
            require_equal(
                builds.count,
                single,
                f"the number of builds with {len(names)} threads, each for another function of the module",
            )


@row("R32-failure")
def failed_build(case: Conformance) -> None:
    """A failed build raises the same error in every thread; it is not cached, and the next
    get_function builds again.
    """
    sample = counted_samples(case)[0]
    name = next(iter(sample.fmap))
    with count_builds(case, sample) as builds:
        get_function(runtime_module(case, sample), name)
        module = runtime_module(case, sample)
        builds.fails = True
        builds.delay = _DELAY
        for answer in run_in_threads(lambda _: module[name], range(_THREADS), case.timeout):
            require(
                isinstance(answer, BaseException),
                "get_function returns a function although its build failed",
            )
            require(
                isinstance(answer, BuildError),
                f"the error of a build: expected it unchanged, got {type(answer).__name__}: {answer}",
            )
        builds.count = 0
        builds.delay = 0.0
        with expect_error(BuildError, "get_function after a failed build, while builds still fail"):
            module[name]
        require(
            builds.count, "a failed build is cached: the next get_function does not build again"
        )
        builds.fails = False
        try:
            module[name]
        except Exception as error:
            raise AssertionError(
                f"a failed build is cached: get_function still raises {type(error).__name__}: {error}"
            ) from error


@row("R40-refused")
def invalid_payloads(case: Conformance) -> None:
    """Every get_function of an invalid payload raises FormatError or CompileError, and other
    modules still work.
    """
    good = usable_samples(case)[0]
    for bad in case.bad_payloads or [replace_code(good, lambda _: JUNK)]:
        module = runtime_module(case, bad)
        data = module.save_to_bytes()
        types: list[type] = []
        for _ in range(2):
            with (
                expect_error(devmod.DevmodError, "get_function of an invalid payload") as caught,
                skip_without_device(),
            ):
                module[next(iter(bad.fmap))]
            require(
                isinstance(caught[0], (devmod.FormatError, devmod.CompileError)),
                f"get_function of an invalid payload: expected FormatError or CompileError, got {type(caught[0]).__name__}: {caught[0]}",
            )
            types.append(type(caught[0]))  # the texts may differ: a driver names temporary files
        require_equal(types[1], types[0], "the type of the second error of an invalid payload")
        require(
            module.save_to_bytes() == data,
            "get_function of an invalid payload changes the saved bytes",
        )
    get_function(runtime_module(case, good), next(iter(good.fmap)))


@row("R32-calls")
def concurrent_calls(case: Conformance) -> None:
    """Threads that call one function at the same time get correct results."""
    for _, call, function in called_functions(case):
        expected = reference_arrays(call)

        def call_repeatedly(
            _: int, call: Any = call, function: Any = function, expected: list[Any] = expected
        ) -> None:
            for _ in range(4):
                arguments = call.make_arguments()
                function(*arguments, **call.keywords)
                compare_arrays(call, arguments, expected, f"called by {_THREADS} threads")

        with device_turn(case.kind):
            for answer in run_in_threads(call_repeatedly, range(_THREADS), case.timeout):
                if isinstance(answer, BaseException):
                    raise answer
