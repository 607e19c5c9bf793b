"""Creating modules, with any payload."""

from __future__ import annotations

import contextlib

import devmod
from devmod.backend import BINARY_SERIALIZABLE, RUNNABLE, FallbackModule
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    JUNK,
    expect_error,
    fallback_module,
    list_devices,
    replace_code,
    require,
    require_equal,
    row,
    runtime_module,
    target_spec,
    usable_samples,
)


@row("R11")
def create(case: Conformance) -> None:
    """create returns a module of the kind for code, fmt, fmap and source."""
    for sample in usable_samples(case):
        module = runtime_module(case, sample)
        require_equal(module.kind, case.kind, "the kind")
        require_equal(module.format, sample.fmt, "the format")
        without = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap)
        require_equal(dict(without.source), {}, "the source of a module that is created without source")


@row("R12")
def functions(case: Conformance) -> None:
    """A module's functions are the fmap, in its order."""
    for sample in usable_samples(case):
        for state, module in (("created", runtime_module(case, sample)), ("loaded", _loaded(case, sample))):
            require_equal(list(module.functions), list(sample.fmap), f"the function names of a {state} module")
            require_equal(dict(module.functions), sample.fmap, f"the functions of a {state} module")


@row("R13")
def source(case: Conformance) -> None:
    """A module has the source of its creation, and never saves it."""
    for sample in usable_samples(case):
        values = {**sample.source, "listing": "; a listing"}
        module = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, values)
        require_equal(dict(module.source), values, "the source")
        require(module.save_to_bytes() == runtime_module(case, sample).save_to_bytes(), "the source changes the saved bytes")
        require_equal(dict(_loaded(case, sample).source), {}, "the source of a loaded module")


@row("R14")
def formats(case: Conformance) -> None:
    """create accepts every format of the kind."""
    sample = usable_samples(case)[0]
    for fmt in target_spec(case).formats:
        require_equal(devmod.create(case.kind, sample.code, fmt, sample.fmap).format, fmt, "the format")


@row("R21")
def imports(case: Conformance) -> None:
    """A module can import other modules, but not in a cycle."""
    sample = usable_samples(case)[0]
    root, leaf = runtime_module(case, sample), runtime_module(case, sample)
    require_equal(root.imports, (), "the imports of a new module")
    root.import_module(leaf)
    require(root.imports == (leaf,), f"the imports after import_module: expected the imported module, got {root.imports!r}")
    with expect_error(devmod.FormatError, "an import that closes a cycle"):
        leaf.import_module(root)


@row("R23-same-kind")
def same_as_fallback(case: Conformance) -> None:
    """The fallback has the kind, the format and the functions of the backend's module."""
    for sample in usable_samples(case):
        one, two = runtime_module(case, sample), fallback_module(case, sample)
        require_equal(
            (one.kind, one.format, list(one.functions)), (two.kind, two.format, list(two.functions)), "the kind, format and functions"
        )


@row("R24-runs")
def properties(case: Conformance) -> None:
    """The property_mask has the bits for saving and running, and the module is not a fallback."""
    bits = BINARY_SERIALIZABLE | RUNNABLE
    runs, missing = False, ""
    for sample in usable_samples(case):
        for state, module in (("created", runtime_module(case, sample)), ("loaded", _loaded(case, sample))):
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
            except devmod.DeviceNotFoundError as error:  # a sample may need a device that this machine lacks
                missing = str(error)
            except Exception:  # noqa: BLE001 - other rows report it
                runs = True
    if not runs:
        with contextlib.suppress(Skip):
            devices = list_devices(case)
            raise AssertionError(f"no sample finds a device, but devmod.device returns {devices[0]}: {missing}")


@row("R28")
def fallback_choice(case: Conformance) -> None:
    """create_with_fallback returns the backend's module, or the fallback if DEVMOD_COMPILE_FORCE_FALLBACK is set."""
    import os

    target_spec(case)
    sample = usable_samples(case)[0]
    variable = "DEVMOD_COMPILE_FORCE_FALLBACK"
    before = os.environ.pop(variable, None)
    try:
        module = devmod.create_with_fallback(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)
        require(not isinstance(module, FallbackModule), "create_with_fallback returns the fallback, although the backend is installed")
        os.environ[variable] = "1"
        forced = devmod.create_with_fallback(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)
        require(
            isinstance(forced, FallbackModule), f"create_with_fallback returns a {type(forced).__name__}, although the fallback is forced"
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
        sample = replace_code(usable_samples(case)[0], junk)
        module = runtime_module(case, sample)
        data = module.save_to_bytes()
        module.inspect_source()
        require(devmod.load_from_bytes(case.kind, data).save_to_bytes() == data, "a payload that cannot be parsed is changed by saving")
        if spec.architecture is not None:
            architecture = spec.architecture(sample.fmt, junk)
            require(
                isinstance(architecture, str), f"the architecture of a payload that cannot be parsed: expected a str, got {architecture!r}"
            )


def _loaded(case: Conformance, sample: Sample) -> devmod.Module:
    return devmod.load_from_bytes(case.kind, runtime_module(case, sample).save_to_bytes())
