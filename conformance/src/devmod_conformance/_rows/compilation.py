"""The output of `devmod.compile` for the compiled samples, and its origin."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import time
from typing import Any

import devmod
from devmod.backend import function_to_json
from devmod.plugins import find_spec
from devmod_conformance._case import Conformance
from devmod_conformance._fake_host import EAST, WEST
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import require, require_equal, require_equal_bytes, row, runtime_module, target_spec

#: The seconds between two compilations. A time in whole seconds differs then.
_APART = 1.1


@row("R38-compiled")
def reproducible_output(case: Conformance) -> None:
    """The compiler's output is the same at another time, in another folder, for another user and in another process."""
    texts = _texts(case)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        here, there = _Place(case, texts, one), _Place(case, texts, two)
        start = time.monotonic()
        first = here.compile()
        if all(isinstance(each, str) for each in first):
            raise Skip(f"no text can be compiled on this machine: {first[0]}")
        time.sleep(max(0.0, _APART - (time.monotonic() - start)))
        if _same(first, there.compile(folder=two, user=two, seed="2", other_host=True, zone=WEST, changed=1_000_000_000)):
            return
        # Find the cause. All but one of these compilations have the same replaced clock.
        fixed = here.compile(other_host=True)
        again = here.compile(other_host=True)
        require(_same(fixed, again), f"{_difference(fixed, again)}, in another process with the same folder, user, environment and clock")
        causes: dict[str, dict[str, Any]] = {
            "in another folder": {"folder": two},
            "for another user": {"user": two},
            "with another PYTHONHASHSEED": {"seed": "2"},
            "from a file with another modification time": {"changed": 1_000_000_000},
        }
        for cause, changes in causes.items():
            other = here.compile(other_host=True, **changes)
            require(_same(fixed, other), f"{_difference(fixed, other)}, {cause}")
        require(_same(first, fixed), f"{_difference(first, fixed)}, at another time or with another host name")
        other = here.compile(other_host=True, zone=WEST)
        require(_same(fixed, other), f"{_difference(fixed, other)}, in another time zone")
        raise AssertionError("the compiler's output differs between processes with different folders, users, times and environments")


@row("R42")
def origin(case: Conformance) -> None:
    """A compiled module has an origin with the target and the digests of the sources; it has no paths and is not in the module's bytes."""
    compiled, missing = False, None
    for sample in case.samples:
        if sample.compilation is None:
            continue
        text, target, options = sample.compilation
        if len(devmod.Target.parse(target).archs) > 1:
            continue  # the result is a bundle, and each module in it has an origin
        try:
            module = devmod.compile(text, target, **options)
        except devmod.ToolchainNotFoundError as error:
            missing = error
            continue
        compiled = True
        result = module.origin
        require(result is not None, "a module of devmod.compile has no origin; give the Payload an Origin")
        assert result is not None
        require_equal(result.target, str(devmod.Target.parse(target)), "the target in the origin")
        digests = list(result.sources.values())
        require(
            hashlib.sha256(text.encode()).hexdigest() in digests,
            f"the sources in the origin: expected the SHA-256 of the compiled text, got {dict(result.sources)!r}",
        )
        text_of_origin = json.dumps(result.to_dict(), ensure_ascii=False)
        for folder in {os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir()} - {"/", ""}:
            require(json.dumps(folder)[1:-1] not in text_of_origin, f"the origin contains the path {folder!r}: {text_of_origin}")
        loaded = devmod.loads(devmod.dumps(module))
        require_equal(loaded.origin, result, "the origin after devmod.dumps and devmod.loads")
        if sample.fmap:
            require_equal_bytes(
                module.save_to_bytes(), runtime_module(case, sample).save_to_bytes(), "the saved bytes of a module with an origin"
            )
    if not compiled:
        raise Skip("no sample is created by Sample.compiled" if missing is None else f"no text can be compiled on this machine: {missing}")


@row("R40-example")
def example_architectures(case: Conformance) -> None:
    """The languages of needs_arch are those of the target spec, and the first architecture compiles the samples of its language."""
    spec = target_spec(case)
    if not spec.needs_arch:
        raise Skip("the target spec has no needs_arch")
    unknown = [name for name in spec.needs_arch if name not in spec.languages.values()]
    require(not unknown, f"needs_arch names languages that the target spec lacks: {', '.join(unknown)}")
    compiled, missing = False, None
    for sample in case.samples:
        if sample.compilation is None:
            continue
        text, _, options = sample.compilation
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
            raise AssertionError(f"the example {str(target)!r} for {language} does not compile a sample: {error}") from error
        compiled = True
    if not compiled:
        reason = "no sample of its languages is created by Sample.compiled"
        raise Skip(reason if missing is None else f"no text can be compiled on this machine: {missing}")


class _Place:
    """Compiles the samples' texts in processes whose default folder is the same."""

    def __init__(self, case: Conformance, texts: list[dict[str, Any]], folder: str) -> None:
        self._case = case
        self._texts = texts
        self._folder = folder

    def compile(
        self, *, folder: str = "", user: str = "", seed: str = "1", zone: str = EAST, other_host: bool = False, changed: int = 1_100_000_000
    ) -> list[Any]:
        """Return the output for each text, or the error of a missing toolchain. The parameters change the process."""
        environment = {"PYTHONHASHSEED": seed, "TZ": zone}
        if user:
            environment |= dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), user)
            environment |= dict.fromkeys(("USER", "LOGNAME", "USERNAME", "HOSTNAME"), "nobody")
        answer = probe(
            self._case,
            "compiled",
            texts=self._texts,
            environment=environment,
            folder=folder or self._folder,
            other_host=other_host,
            changed=changed,
        )
        outputs: list[Any] = answer.value
        return outputs


def _texts(case: Conformance) -> list[dict[str, Any]]:
    """Return the texts of the compiled samples as JSON, for another process."""
    results = []
    for sample in case.samples:
        if sample.compilation is None:
            continue
        text, target, options = sample.compilation
        rest = {name: value for name, value in options.items() if name != "fmap"}
        declared = options.get("fmap")
        functions = json.dumps({"func_info": {name: function_to_json(info) for name, info in declared.items()}}) if declared else ""
        suffix = _suffix(devmod.Target.parse(target).kind, options.get("language"))
        try:
            json.dumps(rest)
        except TypeError:
            continue  # an option such as include= may have values that JSON lacks
        results.append({"text": text, "target": str(target), "options": rest, "functions": functions, "suffix": suffix})
    if not results:
        raise Skip("no sample is created by Sample.compiled")
    return results


def _suffix(kind: str, language: str | None) -> str:
    """Return the suffix of a language's source files, or "" if the target has no languages."""
    spec = find_spec(kind)
    languages = spec.languages if spec is not None else {}
    return next((suffix for suffix, name in languages.items() if language in (None, suffix, name)), "")


def _same(one: list[Any], other: list[Any]) -> bool:
    return one == other


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
    at = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))
    begin = max(0, at - 8)
    return f"from byte {at} on, {one[begin : at + 24]!r} and {other[begin : at + 24]!r}"
