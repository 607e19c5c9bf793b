"""The launch of `devmod run`, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

from devmod import Function, Module, profile
from devmod import device as find_device
from devmod._plugins.devices import device_label
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_workbench._tools.difference import worst_difference
from devmod_workbench._tools.dimensions import warn_of_dimensions
from devmod_workbench._tools.guard import guarded_twice
from devmod_workbench._tools.inputs import (
    arguments_of,
    call_once,
    on_device,
    parameters,
    program_of,
    results_of,
)
from devmod_workbench._tools.launches import Answer, Settings, open_modules
from devmod_workbench._tools.profile import Profile
from devmod_workbench._tools.values import PICTURES, UNTYPED, read_array, write_array


def launcher(settings: Settings) -> Answer:
    """Return the function that launches."""
    (module,) = open_modules(settings).values()
    return partial(_run, module)


def _run(module: Module, options: Mapping[str, Any]) -> dict[str, Any]:
    """Launch a function once, and write the arrays to save.

    Parameters
    ----------
    module
        The module of the file.
    options
        The arguments and the options of the command.

    Returns
    -------
    dict
        The result as data, as ``--json`` prints it.
    """
    expected = options["expected"]
    saved = options["saved"]
    printed = options["printed"]
    kernel = module[options["function"]]
    if options["device"] is None:
        target = kernel.default_device()
    else:
        target = find_device(options["device"])
    kernel = kernel.on(target)
    host = arguments_of(kernel, options["given"], {})
    named = (*expected, *saved, *printed)
    for name in named:
        _check_name(kernel, name)
    params = {param.name or name: param for name, param in parameters(kernel).items()}
    wanted = {
        name: read_array(name, path, params.get(name, UNTYPED)) for name, path in expected.items()
    }
    sizes = options["sizes"]
    if program_of(kernel) is None and not options["guard"]:
        warn_of_dimensions(
            kernel, host.values(), sizes.get("grid"), sizes.get("block"), sizes.get("threads")
        )

    def launch() -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = on_device(kernel, host)
        with profile() as recorded:
            begin = perf_counter()
            result, call = call_once(kernel, call, **sizes)
            target.synchronize()
            seconds = perf_counter() - begin
        arrays = results_of(kernel, call, named)
        names = {keyword: param.name or keyword for keyword, param in parameters(kernel).items()}
        own = {names.get(keyword, keyword): array for keyword, array in arrays.items()}
        return (result, seconds, recorded, own), arrays

    if options["guard"]:
        result, seconds, recorded, results = guarded_twice(kernel, launch)
    else:
        (result, seconds, recorded, results), _ = launch()
    for name, path in saved.items():
        write_array(name, path, results[name])
    compared = {}
    for name, path in expected.items():
        array = _as_saved(path, results[name], wanted[name])
        worst = worst_difference(name, results[name], array, options["rtol"], options["atol"])
        compared[name] = {
            "file": path,
            "error": worst.error,
            "index": worst.place,
            "value": worst.value,
            "expected": worst.expected,
            "agrees": not worst.is_error,
        }
    return {
        "function": options["function"],
        "device": device_label(target),
        "device_name": target.name,
        "host": seconds,
        "on_device": _seconds_on_device(recorded),
        "result": result,
        "arrays": {
            name: {"type": str(array.dtype), "shape": list(array.shape)}
            for name, array in results.items()
        },
        "printed": {name: str(results[name]) for name in printed},
        "expected": compared,
        "saved": saved,
    }


def _seconds_on_device(recorded: Profile) -> float | None:
    """Return the seconds of all launches; None if one has no time, or there is none."""
    total = None
    for each in recorded.records:
        if each.action == "launch":
            if each.on_device is None:
                return None
            total = (total or 0.0) + each.on_device
    return total


def _as_saved(path: str, result: Any, expected: Any) -> Any:
    """Return the expected array, that of a picture as floats if the result is one of floats."""
    is_picture = path.lower().endswith(PICTURES) and expected.dtype.kind == "u"
    if is_picture and result.dtype.kind == "f":
        return expected / 255
    return expected


def _check_name(function: Function, name: str) -> None:
    arrays = []
    for each, param in parameters(function).items():
        if param.kind in ("buffer", "image"):
            arrays.append(param.name or each)
    program = program_of(function)
    if program is not None:
        arrays += program.states
    if name not in arrays:
        raise ArgumentError(
            f"{function.name} has no array {name!r} to compare, print or save{did_you_mean(name, arrays)}; it has {list_names(arrays)}",
            argument=name,
        )
