"""What a user is shown and told: source, unknown names, a missing runtime, a missing driver."""

from __future__ import annotations

import devmod
from devmod import errors
from devmod.testing._case import Conformance
from devmod.testing._process import probe
from devmod.testing._row import Skip
from devmod.testing._rows._tools import NOBODY, fallback, must, real, refused, row, same, samples_of, spec_of

_DRIVER = ("imports ", "opens the library ")
#: What asks the network, or another program, for anything.
_ELSEWHERE = ("does socket.", "does subprocess.", "does os.system", "does os.exec", "does os.posix_spawn", "does os.fork")


@row("R23-lazy")
def without_driver(case: Conformance) -> None:
    """The target, create, save, inspect, load and an unknown function work without the driver, and do not ask for it."""
    samples = samples_of(case)
    for hide in (True, False):
        done = probe(case, "steps", samples, hide=hide).value
        for name, step in done.items():
            if name != "packages":
                must(not step["raised"], f"{name} fails{' where the driver is missing' if hide else ''}: {step['raised']}")
                asked = [event for event in step["events"] if event.startswith(_DRIVER)]
                must(not asked, f"{name} {'; '.join(asked)}: the driver waits for the first get_function")


@row("R23-absent")
def driver_absent(case: Conformance) -> None:
    """Without the driver, get_function and devmod.device say what is missing and what to do."""
    if not case.driver_modules and not case.driver_libraries:
        raise Skip("the backend has no driver: its Conformance names neither driver_modules nor driver_libraries")
    done = probe(case, "absent", samples_of(case), hide=True).value
    must(done["events"], f"nothing asked for {', '.join([*case.driver_modules, *case.driver_libraries])}: is that the driver?")
    for what, error in done["told"].items():
        must(error["types"], f"{what} succeeds without the driver")
        must(
            "DeviceNotFoundError" in error["types"],
            f"{what} raises {error['types'][:1] and error['types'][0]} without the driver: {error['text']}",
        )
        same(error["kind"], case.kind, f"the kind of the error of {what} without the driver")
        must("install" in error["text"].lower(), f"{what} without the driver does not say what to install: {error['text']!r}")
        first = done["told"][what.removesuffix(" again")]
        same(error["text"], first["text"], f"what {what} says without the driver")


@row("R25-unknown")
def unknown_function(case: Conformance) -> None:
    """An unknown function is refused in core's words, and so is one of a loaded module."""
    for sample in samples_of(case):
        made = real(case, sample)
        near = next(iter(sample.fmap)) + "_"
        for how, module in (("created", made), ("loaded", devmod.load_from_bytes(case.kind, made.save_to_bytes()))):
            for name in (NOBODY, near, ""):
                with refused(devmod.FunctionNotFoundError, f"get_function({name!r}) of a {how} module") as caught:
                    module.get_function(name)
                wanted = errors.function_not_found(case.kind, name, sample.fmap)
                says = f"what get_function({name!r}) of a {how} module says (devmod.backend.function_not_found makes it)"
                same(str(caught[0]), str(wanted), says)
                same((caught[0].kind, caught[0].function), (case.kind, name), "kind and function of that error")
            with refused(devmod.FunctionNotFoundError, f"module[{NOBODY!r}]"):
                module[NOBODY]


@row("R25-fallback")
def fallback_says(case: Conformance) -> None:
    """The fallback says that the runtime is missing, and which command adds it."""
    spec = spec_of(case)
    for sample in samples_of(case):
        module = fallback(case, sample)
        for name in sample.fmap:
            with refused(devmod.RuntimeNotLinkedError, f"get_function({name!r}) of the fallback") as caught:
                module.get_function(name)
            same(str(caught[0]), str(errors.runtime_not_linked(case.kind, spec.title, name, spec.install)), "what the fallback says")


@row("R26")
def inspection(case: Conformance) -> None:
    """Inspection shows what the fallback shows, for every format."""
    spec = spec_of(case)
    for sample in samples_of(case):
        given = {**{key: f"the {key} of a sample" for key in spec.source_keys}, **sample.source}
        for source in (given, {}):
            one = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, source)
            two = fallback(case, sample)
            two._source = source
            loaded = devmod.load_from_bytes(case.kind, one.save_to_bytes())
            for wanted in dict.fromkeys(("", sample.fmt, *spec.formats, *spec.source_keys, *source, "no_such_format")):
                same(one.inspect_source(wanted), two.inspect_source(wanted), f"inspect_source({wanted!r})")
                if not source:
                    same(loaded.inspect_source(wanted), two.inspect_source(wanted), f"inspect_source({wanted!r}) of a loaded module")


@row("R39")
def asks_nobody(case: Conformance) -> None:
    """Neither importing, creating nor loading asks the network or another program for anything."""
    for name, step in probe(case, "steps", samples_of(case)[:1]).value.items():
        asked = [event for event in step.get("events", ()) if event.startswith(_ELSEWHERE)]
        must(not asked, f"{name} {'; '.join(asked)}")
