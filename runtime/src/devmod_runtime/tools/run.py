"""The launch of `devmod run`, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import Any

from devmod import Function, Module, profile
from devmod import device as find_device
from devmod._plugins.devices import device_label
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_runtime.tools.difference import Difference, worst_difference
from devmod_runtime.tools.dimensions import warn_of_dimensions
from devmod_runtime.tools.guard import guarded_twice
from devmod_runtime.tools.inputs import (
    PICTURES,
    Arguments,
    arguments_of,
    call_once,
    on_device,
    parameters,
    program_of,
    read_array,
    results_of,
    write_array,
)
from devmod_runtime.tools.launches import open_modules
from devmod_runtime.tools.profile import duration_text


def launcher(settings: Mapping[str, Any]) -> Callable[[Any], Any]:
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
        "report": the result as data; "lines": as text; "agrees": whether each expected array
        agrees.
    """
    function, expected, saved, printed = (
        options[each] for each in ("function", "expected", "saved", "printed")
    )
    kernel = module[function]
    target = (
        kernel.default_device() if options["device"] is None else find_device(options["device"])
    )
    kernel = kernel.on(target)
    host, params = arguments_of(kernel, options["given"], {}), parameters(kernel)
    for name in (*expected, *saved, *printed):
        _check_name(kernel, name, host)
    wanted = {name: read_array(name, path, params.get(name)) for name, path in expected.items()}
    if program_of(kernel) is None and not options["guard"]:
        warn_of_dimensions(
            kernel,
            dict(host.items()).values(),
            *map(options["sizes"].get, ("grid", "block", "threads")),
        )

    def launch() -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = on_device(kernel, host, target)
        with profile() as recorded:
            begin = perf_counter()
            result, call = call_once(kernel, call, target, **options["sizes"])
            target.synchronize()
            seconds = perf_counter() - begin
        arrays = results_of(kernel, call, (*expected, *saved, *printed))
        return (result, seconds, recorded, arrays), arrays

    result, seconds, recorded, results = (
        guarded_twice(kernel, launch) if options["guard"] else launch()[0]
    )
    times = [each.on_device for each in recorded.records if each.action == "launch"]
    report: dict[str, Any] = {
        "function": function,
        "device": device_label(target),
        "device_name": target.name,
        "host": seconds,
        "on_device": sum(each for each in times if each is not None)
        if times and None not in times
        else None,
        "result": result,
        "arrays": {
            name: {"type": str(array.dtype), "shape": list(array.shape)}
            for name, array in results.items()
        },
        "printed": {name: str(results[name]) for name in printed},
        "expected": {},
        "saved": saved,
    }
    for name, path in saved.items():
        write_array(name, path, results[name])
    differences: dict[str, Difference] = {}
    for name, path in expected.items():
        result = results[name]
        is_scaled = (
            path.lower().endswith(PICTURES)
            and result.dtype.kind == "f"
            and wanted[name].dtype.kind == "u"
        )  # an image, as saved
        expected_array = wanted[name] / 255 if is_scaled else wanted[name]
        differences[name] = worst_difference(
            name, result, expected_array, options["rtol"], options["atol"]
        )
        report["expected"][name] = {"file": path, **_plain(differences[name])}
    return {
        "report": report,
        "lines": list(_lines(report, differences)),
        "agrees": not any(each.is_error for each in differences.values()),
    }


def _check_name(function: Function, name: str, call: Arguments) -> None:
    program = program_of(function)
    arrays = [
        each
        for each, param in parameters(function).items()
        if param.kind in ("buffer", "image") and each in dict(call.items())
    ]
    arrays += (
        []
        if program is None
        else [each for each in (*program.outputs, *program.states) if each not in arrays]
    )
    if name not in arrays:
        raise ArgumentError(
            f"{function.name} has no array {name!r} to compare, print or save{did_you_mean(name, arrays)}; it has {list_names(arrays)}",
            argument=name,
        )


def _plain(each: Difference) -> dict[str, Any]:
    return {
        "error": each.error,
        "index": each.place,
        "value": each.value,
        "expected": each.expected,
        "agrees": not each.is_error,
    }


def _lines(report: Mapping[str, Any], differences: Mapping[str, Difference]) -> Iterator[str]:
    seconds = report["on_device"]
    on_device = (
        f"{duration_text(seconds)} on the device"
        if seconds is not None
        else "no time on the device"
    )
    yield f"{report['function']} on {report['device']} ({report['device_name']}): {on_device}, {duration_text(report['host'])} on the host"
    if report["result"] is not None:
        yield f"returned {report['result']}"
    for name, array in report["arrays"].items():
        text = f"{name}: {array['type']}[{','.join(map(str, array['shape']))}]"
        if name in report["saved"]:
            text += f", saved to {report['saved'][name]}"
        yield text
        yield from report["printed"].get(name, "").splitlines()
    for name, each in differences.items():
        path = report["expected"][name]["file"]
        values = (
            f"at {name}{each.subscript}, which is {each.value!r}, expected {each.expected!r}"
            if each.place
            else ""
        )
        verdict = "differs from" if each.is_error else "agrees with"
        yield f"{name} {verdict} {path}: worst error {each.error:.3g} {values}".rstrip()
