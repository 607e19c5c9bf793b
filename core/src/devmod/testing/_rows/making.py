"""Making a module: what it is, whatever is in its payload."""

from __future__ import annotations

import contextlib

import devmod
from devmod._fallback import FallbackModule
from devmod._module import BINARY_SERIALIZABLE, RUNNABLE
from devmod.testing._case import Conformance, Sample
from devmod.testing._row import Skip
from devmod.testing._rows._tools import devices_of, fallback, must, real, refused, row, same, samples_of, spec_of

#: A payload that nobody can read.
JUNK = b"\x00\xffno payload at all\x00"


@row("R11")
def makes(case: Conformance) -> None:
    """What create makes of code, fmt, fmap and source is a real module of the kind."""
    for sample in samples_of(case):
        module = real(case, sample)
        same(module.kind, case.kind, "the kind")
        same(module.format, sample.fmt, "the format")
        without = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap)
        same(dict(without.source), {}, "the source of a module that was given none")


@row("R12")
def functions(case: Conformance) -> None:
    """A module's functions are the fmap, in its order."""
    for sample in samples_of(case):
        for how, module in (("created", real(case, sample)), ("loaded", _loaded(case, sample))):
            same(list(module.functions), list(sample.fmap), f"the names of the functions of a {how} module")
            same(dict(module.functions), sample.fmap, f"the functions of a {how} module")


@row("R13")
def source(case: Conformance) -> None:
    """A module shows the source that it was given, and never saves it."""
    for sample in samples_of(case):
        given = {**sample.source, "listing": "; a listing that was given"}
        module = devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, given)
        same(dict(module.source), given, "the source")
        must(module.save_to_bytes() == real(case, sample).save_to_bytes(), "the source changes what is saved")
        same(dict(_loaded(case, sample).source), {}, "the source of a loaded module")


@row("R14")
def formats(case: Conformance) -> None:
    """Every format of the kind is wrapped."""
    sample = samples_of(case)[0]
    for fmt in spec_of(case).formats:
        same(devmod.create(case.kind, sample.code, fmt, sample.fmap).format, fmt, "the format")


@row("R21")
def imports(case: Conformance) -> None:
    """A module imports others, and no cycle."""
    sample = samples_of(case)[0]
    root, leaf = real(case, sample), real(case, sample)
    same(root.imports, (), "the imports of a new module")
    root.import_module(leaf)
    must(root.imports == (leaf,), f"the imports are {root.imports!r} after one was added")
    with refused(devmod.FormatError, "an import that makes a cycle"):
        leaf.import_module(root)


@row("R23-same-kind")
def same_as_fallback(case: Conformance) -> None:
    """The fallback has the kind of the real module, and tells the same of it."""
    for sample in samples_of(case):
        one, two = real(case, sample), fallback(case, sample)
        same((one.kind, one.format, list(one.functions)), (two.kind, two.format, list(two.functions)), "kind, format and functions")


@row("R24-runs")
def properties(case: Conformance) -> None:
    """A real module says that it can be saved and can run, and never passes for a fallback."""
    wanted = BINARY_SERIALIZABLE | RUNNABLE
    runs, missing = False, ""
    for sample in samples_of(case):
        for how, module in (("created", real(case, sample)), ("loaded", _loaded(case, sample))):
            must(not isinstance(module, FallbackModule), f"a {how} module is a fallback")
            must(
                module.property_mask & wanted == wanted,
                f"the property_mask of a {how} module is {module.property_mask}: it must have the bits 1 (can be saved) and 2 (can run)",
            )
            try:
                module.get_function(next(iter(sample.fmap)))
                runs = True
            except devmod.RuntimeNotLinkedError as error:
                raise AssertionError(f"a {how} module behaves as a fallback: {error}") from error
            except devmod.DeviceNotFoundError as error:  # one payload of several may be for a device that is not here
                missing = str(error)
            except Exception:  # noqa: BLE001 - other rows tell of it
                runs = True
    if not runs:
        with contextlib.suppress(Skip):
            found = devices_of(case)
            raise AssertionError(f"there is {found[0]}, and no sample finds a device to run on: {missing}")


@row("R28")
def chosen(case: Conformance) -> None:
    """The real module is what create_with_fallback gives, and the fallback where that is forced."""
    import os

    spec_of(case)
    sample = samples_of(case)[0]
    variable = "DEVMOD_COMPILE_FORCE_FALLBACK"
    before = os.environ.pop(variable, None)
    try:
        made = devmod.create_with_fallback(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)
        must(not isinstance(made, FallbackModule), "create_with_fallback gives the fallback, though the backend is installed")
        os.environ[variable] = "1"
        forced = devmod.create_with_fallback(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)
        must(isinstance(forced, FallbackModule), f"create_with_fallback gives a {type(forced).__name__} where the fallback is forced")
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


@row("R40-wraps")
def wraps_anything(case: Conformance) -> None:
    """Wrapping, saving, inspecting and loading refuse no payload for what is inside it."""
    spec = spec_of(case)
    for junk in (JUNK, b""):
        sample = with_code(samples_of(case)[0], junk)
        module = real(case, sample)
        data = module.save_to_bytes()
        module.inspect_source()
        must(devmod.load_from_bytes(case.kind, data).save_to_bytes() == data, "a payload that cannot be read is changed when it is saved")
        if spec.architecture is not None:
            made = spec.architecture(sample.fmt, junk)
            must(isinstance(made, str), f"the architecture of a payload that cannot be read is {made!r}; it must be a str")


def with_code(sample: Sample, code: bytes) -> Sample:
    """The sample with other code, for each shader where it is a map."""
    made = code if isinstance(sample.code, (bytes, memoryview)) else dict.fromkeys(sample.code, code)
    return Sample(made, sample.fmt, sample.fmap)


def _loaded(case: Conformance, sample: Sample) -> devmod.Module:
    return devmod.load_from_bytes(case.kind, real(case, sample).save_to_bytes())
