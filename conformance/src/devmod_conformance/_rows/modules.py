"""A module: its entries, its creation, its files, and the texts that a user reads of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import devmod
from devmod import errors, plugins
from devmod.backend import BINARY_SERIALIZABLE, RUNNABLE, FallbackModule, temporary_folder
from devmod.plugins import PROTOCOLS, find_spec
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._process import probe, steps_of
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    JUNK,
    UNKNOWN_NAME,
    applicable,
    both_modules,
    check_call,
    expect_error,
    fallback_module,
    list_devices,
    replace_code,
    require,
    require_equal,
    require_equal_bytes,
    row,
    runnable_samples,
    runtime_module,
    samples_with_calls,
    skip_without_device,
    summarize,
    target_spec,
    usable_samples,
)

#: The beginnings of the lines that Python prints for errors at exit.
_EXIT_ERRORS = (
    "Traceback (most recent call last)",
    "Exception ignored",
    "Error in atexit",
    "Error in sys.",
    "Fatal Python error",
)

_DRIVER = ("imports ", "opens the library ", "searches the program ", "starts the program ")
#: The events of network access and of started programs.
_OUTSIDE = (
    "does socket.",
    "does subprocess.",
    "does os.system",
    "does os.exec",
    "does os.posix_spawn",
    "does os.fork",
)

# -- The entries that the backend registers, and their look-up.


@row("R1-keys")
def required_entries(case: Conformance) -> None:
    """The entries create and load_from_bytes of the kind can be imported, and one distribution
    provides both.
    """
    providers = set()
    for group in ("devmod.create", "devmod.load_from_bytes"):
        claim = plugins.registered(group).get(case.kind)
        require(claim is not None, f"{group}.{case.kind} is not registered")
        assert claim is not None
        require(not claim.problem, f"{claim.key}: {claim.problem}")
        plugins.load_claim(claim)
        providers.add(claim.provider)
    require(
        len(providers) == 1,
        f"the entries of {case.kind} are in {' and '.join(sorted(providers))}; one distribution must provide both",
    )


@row("R1-groups")
def known_groups(case: Conformance) -> None:
    """The distribution has no entry point in an unknown group whose name begins with devmod."""
    claim = plugins.registered("devmod.create").get(case.kind)
    if claim is None or not claim.distribution:
        raise Skip("an entry that is registered in a process has no metadata")
    problems = [
        each.problem
        for each in plugins.ignored_entries()
        if each.distribution == claim.distribution
    ]
    require(not problems, summarize(problems))


@row("R2-aliases")
def aliases(case: Conformance) -> None:
    """Every alias of the kind loads modules of the kind."""
    spec = target_spec(case)
    if not spec.aliases:
        raise Skip("the kind has no aliases")
    data = runtime_module(case, usable_samples(case)[0]).save_to_bytes()
    for alias in spec.aliases:
        require_equal(
            devmod.load_from_bytes(alias, data).kind,
            case.kind,
            f"the kind of a module that load_from_bytes({alias!r}) returns",
        )


@row("R2-formats")
def format_loaders(case: Conformance) -> None:
    """If one file format of the kind has a loader, every one has."""
    spec = target_spec(case)
    formats = list(dict.fromkeys(spec.suffixes.values()))
    loaders = plugins.registered("devmod.load_from_file")
    registered = [fmt for fmt in formats if fmt in loaders]
    if not registered:
        raise Skip("the backend has no loader of raw payload files (devmod.load_from_file)")
    for fmt in formats:
        require(
            fmt in loaders,
            f"devmod.load_from_file.{fmt} is not registered, but {', '.join(registered)} is",
        )
        require(not loaders[fmt].problem, f"{loaders[fmt].key}: {loaders[fmt].problem}")
        plugins.load_claim(loaders[fmt])


@row("R6")
def lazy_imports(case: Conformance) -> None:
    """The backend is imported at the first look-up of its entry, and that imports no driver."""
    samples: list[Sample] = []
    with contextlib.suppress(Skip, AssertionError):  # the look-ups need none
        samples = usable_samples(case)
    steps = dict(steps_of(case, samples))
    require_equal(
        steps["packages"]["loaded"],
        [],
        "the backend's modules after `import devmod` and a list of the registry",
    )
    for name in (
        "the target spec",
        "the look-up of devmod.create",
        "the look-up of devmod.load_from_bytes",
    ):
        require(not steps[name]["raised"], f"{name} fails: {steps[name]['raised']}")
        driver = [
            event
            for event in steps[name]["events"]
            if event.startswith(("imports ", "opens the library "))
        ]
        require(not driver, f"{name} {summarize(driver)}")


@row("R8")
def quiet_exit(case: Conformance) -> None:
    """A process that has used the backend exits without an error message."""
    answer = probe(case, "leave", runnable_samples(case))
    require(answer.value, "")
    lines = [line for line in answer.stderr.splitlines() if line.startswith(_EXIT_ERRORS)]
    require(
        not lines,
        f"a process that used the backend prints an error at exit: {lines[0] if lines else ''}",
    )


@row("R44")
def protocol(case: Conformance) -> None:
    """The distribution declares the protocol version of the installed core."""
    claim = plugins.registered("devmod.create").get(case.kind)
    require(claim is not None, f"devmod.create.{case.kind} is not registered")
    assert claim is not None
    if not claim.distribution:
        raise Skip("an entry that is registered in a process has no metadata")
    declared = [
        each.name
        for each in plugins.declared_claims("devmod.protocol")
        if each.distribution == claim.distribution
    ]
    if not declared:
        raise Skip(f"{claim.distribution} declares no protocol version, which means version 1")
    require(
        PROTOCOLS.intersection(declared),
        f"{claim.provider} declares protocol version {', '.join(declared)}, but the installed core has version {', '.join(PROTOCOLS)}",
    )


@row("R11")
def create(case: Conformance) -> None:
    """create returns a module of the kind for code, fmt, fmap and source."""
    for sample in usable_samples(case):
        module = runtime_module(case, sample)
        require_equal(module.kind, case.kind, "the kind")
        require_equal(module.format, sample.fmt, "the format")
        without = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap)
        require_equal(
            dict(without.source), {}, "the source of a module that is created without source"
        )


@row("R12")
def functions(case: Conformance) -> None:
    """A module's functions are the fmap, in its order."""
    for sample in usable_samples(case):
        for state, module in both_modules(case, sample):
            require_equal(
                list(module.functions), list(sample.fmap), f"the function names of a {state} module"
            )
            require_equal(dict(module.functions), sample.fmap, f"the functions of a {state} module")


@row("R13")
def source(case: Conformance) -> None:
    """A module has the source of its creation, and never saves it."""
    for sample in usable_samples(case):
        values = {**sample.source, "listing": "; a listing"}
        module = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, values)
        require_equal(dict(module.source), values, "the source")
        (_, created), (_, loaded) = both_modules(case, sample)
        require(
            module.save_to_bytes() == created.save_to_bytes(), "the source changes the saved bytes"
        )
        require_equal(dict(loaded.source), {}, "the source of a loaded module")


@row("R14")
def formats(case: Conformance) -> None:
    """create accepts every format of the kind."""
    sample = usable_samples(case)[0]
    for fmt in target_spec(case).formats:
        require_equal(
            devmod.create(case.kind, sample.code, fmt, sample.fmap).format, fmt, "the format"
        )


@row("R21")
def imports(case: Conformance) -> None:
    """A module can import other modules, but not in a cycle."""
    sample = usable_samples(case)[0]
    root = runtime_module(case, sample)
    leaf = runtime_module(case, sample)
    require_equal(root.imports, (), "the imports of a new module")
    root.import_module(leaf)
    require(
        root.imports == (leaf,),
        f"the imports after import_module: expected the imported module, got {root.imports!r}",
    )
    with expect_error(devmod.FormatError, "an import that closes a cycle"):
        leaf.import_module(root)


@row("R23-same-kind")
def same_as_fallback(case: Conformance) -> None:
    """The fallback has the kind, the format and the functions of the backend's module."""
    for sample in usable_samples(case):
        one = runtime_module(case, sample)
        two = fallback_module(case, sample)
        require_equal(
            (one.kind, one.format, list(one.functions)),
            (two.kind, two.format, list(two.functions)),
            "the kind, format and functions",
        )


@row("R24-runs")
def properties(case: Conformance) -> None:
    """The property_mask has the bits for saving and running, and the module is not a fallback."""
    bits = BINARY_SERIALIZABLE | RUNNABLE
    runs = False
    missing = ""
    for sample in usable_samples(case):
        for state, module in both_modules(case, sample):
            require(not isinstance(module, FallbackModule), f"a {state} module is a fallback")
            require(
                module.property_mask & bits == bits,
                f"the property_mask of a {state} module: expected the bits 1 (can be saved) and 2 (can run), got {module.property_mask}",
            )
            try:
                module.get_function(next(iter(sample.fmap)))
                runs = True
            except devmod.RuntimeNotLinkedError as error:
                raise AssertionError(f"a {state} module behaves as a fallback: {error}") from error
            except (
                devmod.DeviceNotFoundError
            ) as error:  # a sample may need a device that this machine lacks
                missing = str(error)
            except Exception:  # noqa: BLE001 - other rows report it
                runs = True
    if not runs:
        with contextlib.suppress(Skip):
            devices = list_devices(case)
            raise AssertionError(
                f"no sample finds a device, but devmod.device returns {devices[0]}: {missing}"
            )


@row("R28")
def fallback_choice(case: Conformance) -> None:
    """create_with_fallback returns the backend's module, or the fallback if
    DEVMOD_COMPILE_FORCE_FALLBACK is set.
    """
    target_spec(case)
    sample = usable_samples(case)[0]
    variable = "DEVMOD_COMPILE_FORCE_FALLBACK"
    before = os.environ.pop(variable, None)
    try:
        module = devmod.create_with_fallback(
            case.kind, sample.code, sample.fmt, sample.fmap, sample.source
        )
        require(
            not isinstance(module, FallbackModule),
            "create_with_fallback returns the fallback, although the backend is installed",
        )
        os.environ[variable] = "1"
        forced = devmod.create_with_fallback(
            case.kind, sample.code, sample.fmt, sample.fmap, sample.source
        )
        require(
            isinstance(forced, FallbackModule),
            f"create_with_fallback returns a {type(forced).__name__}, although the fallback is forced",
        )
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


@row("R40-wraps")
def any_payload(case: Conformance) -> None:
    """Creating, saving, inspecting and loading accept a payload that cannot be parsed."""
    spec = target_spec(case)
    for junk in (JUNK, b""):
        sample = replace_code(usable_samples(case)[0], lambda _, junk=junk: junk)  # type: ignore[misc]
        module = runtime_module(case, sample)
        data = module.save_to_bytes()
        module.inspect_source()
        require(
            devmod.load_from_bytes(case.kind, data).save_to_bytes() == data,
            "a payload that cannot be parsed is changed by saving",
        )
        if spec.architecture is not None:
            architecture = spec.architecture(sample.fmt, junk)
            require(
                isinstance(architecture, str),
                f"the architecture of a payload that cannot be parsed: expected a str, got {architecture!r}",
            )


# -- Raw payload files and bundles.


@row("R22-round")
def round_trip(case: Conformance) -> None:
    """write_to_file writes a raw payload and its metadata, and load_from_file loads them."""
    for sample, suffix in _writable(case):
        with temporary_folder() as folder:
            path = os.path.join(folder, f"real.{suffix}")
            module = runtime_module(case, sample)
            module.write_to_file(path)
            fallback_module(case, sample).write_to_file(os.path.join(folder, f"core.{suffix}"))
            for ending in (f".{suffix}", ".tvm_meta.json"):
                require_equal_bytes(
                    _read(folder, "real" + ending),
                    _read(folder, "core" + ending),
                    f"the file *{ending} of the backend's module and of the fallback",
                )
            if sample.fmt not in plugins.registered("devmod.load_from_file"):
                raise Skip(
                    f"devmod.load_from_file.{sample.fmt} is not registered; the written files are correct"
                )
            for way, loaded in (
                ("by suffix", devmod.load_from_file(path)),
                ("by format", devmod.load_from_file(path, sample.fmt)),
            ):
                require_equal(
                    (loaded.kind, loaded.format),
                    (case.kind, sample.fmt),
                    f"the kind and the format of a file loaded {way}",
                )
                require_equal(
                    dict(loaded.functions), sample.fmap, f"the functions of a file loaded {way}"
                )
                require_equal_bytes(
                    loaded.save_to_bytes(),
                    module.save_to_bytes(),
                    f"the saved bytes of a file loaded {way}",
                )


@row("R22-clash")
def other_metadata(case: Conformance) -> None:
    """write_to_file does not overwrite the metadata of other functions."""
    sample, suffix = next(_writable(case))
    with temporary_folder() as folder:
        path = os.path.join(folder, f"k.{suffix}")
        runtime_module(case, sample).write_to_file(path)
        before = _read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")
        name, info = next(iter(sample.fmap.items()))
        wrong = devmod.create(
            case.kind,
            sample.code,
            sample.fmt,
            {**sample.fmap, name: info.replace(name=info.name + "_2")},
        )
        with expect_error(devmod.FormatError, "write_to_file over the metadata of other functions"):
            wrong.write_to_file(path)
        require_equal(
            (_read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")),
            before,
            "the files after that error",
        )


@row("R24-stored")
def stored(case: Conformance) -> None:
    """A bundle has the bytes of the fallback's bundle, and its module is loaded at the first
    use.
    """
    for sample in usable_samples(case):
        data = devmod.dumps(runtime_module(case, sample))
        loaded = devmod.loads(data)
        require_equal(loaded.kind, case.kind, "the kind of a stored module")
        if find_spec(case.kind) is not None:  # else core cannot parse the bytes
            require_equal_bytes(
                data,
                devmod.dumps(fallback_module(case, sample)),
                "the bundles of the backend's module and of the fallback",
            )
            require_equal(loaded.format, sample.fmt, "the format of a stored module")
            require_equal(
                list(loaded.functions), list(sample.fmap), "the functions of a stored module"
            )
        require_equal_bytes(
            loaded.save_to_bytes(),
            runtime_module(case, sample).save_to_bytes(),
            "the saved bytes of a stored module",
        )
    for sample, call in samples_with_calls(case):
        with skip_without_device():
            function: Any = devmod.loads(devmod.dumps(runtime_module(case, sample)))[call.function]
        check_call(case, call, function, "loaded from a bundle")


def _writable(case: Conformance) -> Iterator[tuple[Sample, str]]:
    """Yield the samples that fit in one raw file, with a suffix each."""
    suffix_of = {fmt: suffix for suffix, fmt in reversed(target_spec(case).suffixes.items())}
    fitting = [
        (sample, suffix_of[sample.fmt])
        for sample in usable_samples(case)
        if sample.fmt in suffix_of
        and (isinstance(sample.code, (bytes, memoryview)) or len(sample.code) == 1)
    ]
    for sample, suffix in applicable(fitting, "no sample fits in one raw payload file"):
        if type(runtime_module(case, sample)).write_to_file is devmod.Module.write_to_file:
            raise Skip("the backend writes no raw payload files (Module.write_to_file)")
        yield sample, suffix


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


# -- Texts that a user reads: source, and the errors for unknown names, a missing runtime and a
# missing driver.


@row("R23-lazy")
def without_driver(case: Conformance) -> None:
    """The target, create, save, inspect, load and an unknown function name work without the driver
    and do not open it.
    """
    samples = usable_samples(case)
    for hide in (True, False):
        for name, step in steps_of(case, samples, hide):
            if name != "packages":
                require(
                    not step["raised"],
                    f"{name} fails{' without the driver' if hide else ''}: {step['raised']}",
                )
                events = [event for event in step["events"] if event.startswith(_DRIVER)]
                require(
                    not events,
                    f"{name} {summarize(events)}; open the driver at the first get_function",
                )


@row("R23-absent")
def driver_absent(case: Conformance) -> None:
    """Without the driver, get_function and devmod.device raise DeviceNotFoundError with the command
    that installs it.
    """
    parts = [*case.driver_modules, *case.driver_libraries, *case.driver_programs]
    if not parts:
        raise Skip(
            "the backend has no driver: its Conformance names no driver_modules, no driver_libraries and no driver_programs"
        )
    answer = probe(case, "absent", usable_samples(case), hide=True).value
    require(
        answer["events"],
        f"{', '.join(parts)} was never imported, opened or started; name the driver's modules",
    )
    for action, error in answer["errors"].items():
        require(
            error["types"],
            f"{action} without the driver: expected DeviceNotFoundError, but no error was raised",
        )
        require(
            "DeviceNotFoundError" in error["types"],
            f"{action} without the driver: expected DeviceNotFoundError, got {error['types'][:1] and error['types'][0]}: {error['text']}",
        )
        require_equal(
            error["kind"], case.kind, f"the kind in the error of {action} without the driver"
        )
        require(
            "install" in error["text"].lower(),
            f"the error of {action} without the driver does not name what to install: {error['text']!r}",
        )
        first = answer["errors"][action.removesuffix(" again")]
        require_equal(error["text"], first["text"], f"the error of {action} without the driver")


@row("R25-unknown")
def unknown_function(case: Conformance) -> None:
    """An unknown function name raises FunctionNotFoundError with core's text, for created and
    loaded modules.
    """
    for sample in usable_samples(case):
        near = next(iter(sample.fmap)) + "_"
        for state, module in both_modules(case, sample):
            for name in (UNKNOWN_NAME, near, ""):
                with expect_error(
                    devmod.FunctionNotFoundError, f"get_function({name!r}) of a {state} module"
                ) as caught:
                    module.get_function(name)
                expected = errors.function_not_found(case.kind, name, sample.fmap)
                subject = f"the error of get_function({name!r}) of a {state} module (use devmod.backend.function_not_found)"
                require_equal(str(caught[0]), str(expected), subject)
                require_equal(
                    (caught[0].kind, caught[0].function),
                    (case.kind, name),
                    "the kind and the function in that error",
                )
            with expect_error(devmod.FunctionNotFoundError, f"module[{UNKNOWN_NAME!r}]"):
                module[UNKNOWN_NAME]


@row("R25-fallback")
def fallback_error(case: Conformance) -> None:
    """get_function of the fallback raises RuntimeNotLinkedError with the command that installs the
    runtime.
    """
    spec = target_spec(case)
    for sample in usable_samples(case):
        module = fallback_module(case, sample)
        for name in sample.fmap:
            with expect_error(
                devmod.RuntimeNotLinkedError, f"get_function({name!r}) of the fallback"
            ) as caught:
                module.get_function(name)
            require_equal(
                str(caught[0]),
                str(errors.runtime_not_linked(case.kind, spec.title, name, spec.install)),
                "the error of the fallback",
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
            for fmt in dict.fromkeys(
                ("", sample.fmt, *spec.formats, *spec.source_keys, *source, "no_such_format")
            ):
                require_equal(
                    one.inspect_source(fmt), two.inspect_source(fmt), f"inspect_source({fmt!r})"
                )
                if not source:
                    require_equal(
                        loaded.inspect_source(fmt),
                        two.inspect_source(fmt),
                        f"inspect_source({fmt!r}) of a loaded module",
                    )


@row("R39")
def no_network_or_programs(case: Conformance) -> None:
    """Importing, creating and loading access no network and start no program."""
    for name, step in steps_of(case, usable_samples(case)):
        events = [event for event in step.get("events", ()) if event.startswith(_OUTSIDE)]
        require(not events, f"{name} {summarize(events)}")
