"""Texts that a user reads: source, and the errors for unknown names, a missing runtime and a missing driver."""

from __future__ import annotations

import devmod
from devmod import errors
from devmod_conformance._case import Conformance
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    UNKNOWN_NAME,
    expect_error,
    fallback_module,
    require,
    require_equal,
    row,
    runtime_module,
    summarize,
    target_spec,
    usable_samples,
)

_DRIVER = ("imports ", "opens the library ", "searches the program ", "starts the program ")
#: The events of network access and of started programs.
_OUTSIDE = ("does socket.", "does subprocess.", "does os.system", "does os.exec", "does os.posix_spawn", "does os.fork")


@row("R23-lazy")
def without_driver(case: Conformance) -> None:
    """The target, create, save, inspect, load and an unknown function name work without the driver and do not open it."""
    samples = usable_samples(case)
    for hide in (True, False):
        steps = probe(case, "steps", samples, hide=hide).value
        for name, step in steps.items():
            if name != "packages":
                require(not step["raised"], f"{name} fails{' without the driver' if hide else ''}: {step['raised']}")
                events = [event for event in step["events"] if event.startswith(_DRIVER)]
                require(not events, f"{name} {summarize(events)}; open the driver at the first get_function")


@row("R23-absent")
def driver_absent(case: Conformance) -> None:
    """Without the driver, get_function and devmod.device raise DeviceNotFoundError with the command that installs it."""
    parts = [*case.driver_modules, *case.driver_libraries, *case.driver_programs]
    if not parts:
        raise Skip("the backend has no driver: its Conformance names no driver_modules, no driver_libraries and no driver_programs")
    answer = probe(case, "absent", usable_samples(case), hide=True).value
    require(
        answer["events"],
        f"{', '.join(parts)} was never imported, opened or started; name the driver's modules",
    )
    for action, error in answer["errors"].items():
        require(error["types"], f"{action} without the driver: expected DeviceNotFoundError, but no error was raised")
        require(
            "DeviceNotFoundError" in error["types"],
            f"{action} without the driver: expected DeviceNotFoundError, got {error['types'][:1] and error['types'][0]}: {error['text']}",
        )
        require_equal(error["kind"], case.kind, f"the kind in the error of {action} without the driver")
        require(
            "install" in error["text"].lower(), f"the error of {action} without the driver does not name what to install: {error['text']!r}"
        )
        first = answer["errors"][action.removesuffix(" again")]
        require_equal(error["text"], first["text"], f"the error of {action} without the driver")


@row("R25-unknown")
def unknown_function(case: Conformance) -> None:
    """An unknown function name raises FunctionNotFoundError with core's text, for created and loaded modules."""
    for sample in usable_samples(case):
        original = runtime_module(case, sample)
        near = next(iter(sample.fmap)) + "_"
        for state, module in (("created", original), ("loaded", devmod.load_from_bytes(case.kind, original.save_to_bytes()))):
            for name in (UNKNOWN_NAME, near, ""):
                with expect_error(devmod.FunctionNotFoundError, f"get_function({name!r}) of a {state} module") as caught:
                    module.get_function(name)
                expected = errors.function_not_found(case.kind, name, sample.fmap)
                subject = f"the error of get_function({name!r}) of a {state} module (use devmod.backend.function_not_found)"
                require_equal(str(caught[0]), str(expected), subject)
                require_equal((caught[0].kind, caught[0].function), (case.kind, name), "the kind and the function in that error")
            with expect_error(devmod.FunctionNotFoundError, f"module[{UNKNOWN_NAME!r}]"):
                module[UNKNOWN_NAME]


@row("R25-fallback")
def fallback_error(case: Conformance) -> None:
    """get_function of the fallback raises RuntimeNotLinkedError with the command that installs the runtime."""
    spec = target_spec(case)
    for sample in usable_samples(case):
        module = fallback_module(case, sample)
        for name in sample.fmap:
            with expect_error(devmod.RuntimeNotLinkedError, f"get_function({name!r}) of the fallback") as caught:
                module.get_function(name)
            require_equal(
                str(caught[0]), str(errors.runtime_not_linked(case.kind, spec.title, name, spec.install)), "the error of the fallback"
            )


@row("R26")
def inspection(case: Conformance) -> None:
    """inspect_source returns the same text as the fallback's, for every format."""
    spec = target_spec(case)
    for sample in usable_samples(case):
        values = {**{key: f"the {key} of a sample" for key in spec.source_keys}, **sample.source}
        for source in (values, {}):
            one = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, source)
            two = fallback_module(case, sample)
            two._source = source
            loaded = devmod.load_from_bytes(case.kind, one.save_to_bytes())
            for fmt in dict.fromkeys(("", sample.fmt, *spec.formats, *spec.source_keys, *source, "no_such_format")):
                require_equal(one.inspect_source(fmt), two.inspect_source(fmt), f"inspect_source({fmt!r})")
                if not source:
                    require_equal(loaded.inspect_source(fmt), two.inspect_source(fmt), f"inspect_source({fmt!r}) of a loaded module")


@row("R39")
def no_network_or_programs(case: Conformance) -> None:
    """Importing, creating and loading access no network and start no program."""
    for name, step in probe(case, "steps", usable_samples(case)[:1]).value.items():
        events = [event for event in step.get("events", ()) if event.startswith(_OUTSIDE)]
        require(not events, f"{name} {summarize(events)}")
