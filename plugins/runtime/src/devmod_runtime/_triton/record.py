"""The record of what a program compiles with Triton, below `devmod triton record`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from devmod.errors import describe_error
from devmod_readers.triton import (
    RECORD_VARIABLE,
    TARGETS_VARIABLE,
    Choice,
    Specialization,
    UnsupportedError,
    arguments_of,
    function_name,
    is_import_path,
    source_digest,
)
from devmod_runtime._triton.choices import config_of, gpu, key_of
from devmod_runtime._triton.specialization import options_of, recorded_options


def record(jit: Any, compile: Mapping[str, Any]) -> None:  # noqa: A002 - Triton's name
    """Append a specialization to the record of this process. Nothing of it ends the program."""
    name = "?"
    try:
        name = function_name(jit)
        if not is_import_path(name) and not os.environ.get(TARGETS_VARIABLE):
            raise UnsupportedError(
                "no import has this name; rename the file of the program, or compile in this run "
                "(devmod triton record -t TARGET -o FILE.devmod)"
            )
        _, backend, options = options_of(jit, compile)
        (attributes,) = compile["configs"]
        arguments = arguments_of(compile["signature"], compile["constants"], attributes)
        kernel = Specialization(name, arguments, recorded_options(backend, options))
        version = str(import_module("triton").__version__)
        _append({"triton": version, "kernel": kernel._asdict()})
        _compile_now(jit, kernel)
    except Exception as error:  # noqa: BLE001 - the program goes on
        _append({"skipped": f"{name}: {describe_error(error)}"})


def _compile_now(jit: Any, kernel: Specialization) -> None:
    """Compile a specialization for the targets of `devmod triton record`, which has no import path
    of a function inside of another.
    """
    targets = os.environ.get(TARGETS_VARIABLE, "").splitlines()
    if not targets:
        return
    package = import_module("devmod_targets.triton.package")
    for line in package.compile_here(jit, kernel, targets, os.environ[RECORD_VARIABLE]):
        _append({"skipped": line})


def _append(line: Mapping[str, Any]) -> None:
    """Append a line of JSON to the file of this process."""
    folder = os.environ.get(RECORD_VARIABLE, "")
    with suppress(OSError), open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a") as file:
        file.write(f"{json.dumps(line)}\n")


def record_choice(function: Any, key: Any, best_config: Any, timings: Mapping[Any, Any]) -> None:
    """Append autotune's choice. Nothing of it ends the program."""
    name = "?"
    try:
        name = function_name(function)
        times = {}
        for config, each in timings.items():
            time = each[0] if isinstance(each, (list, tuple)) else each
            times[config] = time if math.isfinite(time) else None
        best = times.pop(best_config)
        if best is None:
            return
        others = [(config_of(config), time) for config, time in times.items()]
        choice = Choice(
            name, source_digest(function), gpu(), key_of(key), config_of(best_config), best, others
        )
        version = str(import_module("triton").__version__)
        _append({"triton": version, "choice": choice._asdict()})
    except Exception as error:  # noqa: BLE001 - the program goes on
        _append({"skipped": f"{name}: the choice of autotune: {describe_error(error)}"})
