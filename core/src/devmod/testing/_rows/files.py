"""Raw payload files, bundles, and what is stored in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import devmod
from devmod import _registry
from devmod.targets import find_spec
from devmod.testing._case import Conformance, Sample
from devmod.testing._row import Skip
from devmod.testing._rows._tools import (
    called_samples,
    compare,
    expected,
    fallback,
    launch,
    no_device_skips,
    real,
    refused,
    row,
    same,
    same_bytes,
    samples_of,
    spec_of,
)


@row("R22-round")
def round_trip(case: Conformance) -> None:
    """One raw payload and its metadata are written to files, and loaded from them."""
    for sample, suffix in _writable(case):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"real.{suffix}")
            module = real(case, sample)
            module.write_to_file(path)
            fallback(case, sample).write_to_file(os.path.join(folder, f"core.{suffix}"))
            for ending in (f".{suffix}", ".tvm_meta.json"):
                same_bytes(
                    _read(folder, "real" + ending),
                    _read(folder, "core" + ending),
                    f"the file *{ending} of a real module and of the fallback",
                )
            if sample.fmt not in _registry.registered("devmod.load_from_file"):
                raise Skip(f"devmod.load_from_file.{sample.fmt} is not registered; what is written is right")
            for how, found in (("by its suffix", devmod.load_from_file(path)), ("by its format", devmod.load_from_file(path, sample.fmt))):
                same((found.kind, found.format), (case.kind, sample.fmt), f"kind and format of a file loaded {how}")
                same(dict(found.functions), sample.fmap, f"the functions of a file loaded {how}")
                same_bytes(found.save_to_bytes(), module.save_to_bytes(), f"a file loaded {how} and saved as bytes")


@row("R22-clash")
def clash(case: Conformance) -> None:
    """Metadata of other functions is not overwritten, and a wrong suffix writes nothing."""
    sample, suffix = next(_writable(case))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"k.{suffix}")
        real(case, sample).write_to_file(path)
        before = _read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")
        name, info = next(iter(sample.fmap.items()))
        other = devmod.FunctionInfo(info.name + "_2", info.arg_types, info.launch_param_tags, info.arg_extra_tags, info.interface)
        wrong = devmod.create(case.kind, sample.code, sample.fmt, {**sample.fmap, name: other})
        with refused(devmod.FormatError, "writing over metadata that describes other functions"):
            wrong.write_to_file(path)
        same((_read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")), before, "what is in the files after a clash")


@row("R24-stored")
def stored(case: Conformance) -> None:
    """A module goes into a bundle as the fallback does, and is loaded from it at its first use."""
    for sample in samples_of(case):
        data = devmod.dumps(real(case, sample))
        found = devmod.loads(data)
        same(found.kind, case.kind, "the kind of a stored module")
        if find_spec(case.kind) is not None:  # else core cannot look into the bytes
            same_bytes(data, devmod.dumps(fallback(case, sample)), "a bundle of a real module and of the fallback")
            same(found.format, sample.fmt, "the format of a stored module")
            same(list(found.functions), list(sample.fmap), "the functions of a stored module")
        same_bytes(found.save_to_bytes(), real(case, sample).save_to_bytes(), "a stored module's bytes")
    for sample, call in called_samples(case):
        with no_device_skips():
            function: Any = devmod.loads(devmod.dumps(real(case, sample)))[call.function]
        arguments = call.make_arguments()
        wanted = expected(call)
        launch(case, function, arguments, **call.shape)
        compare(call, arguments, wanted, "of a bundle")


def _writable(case: Conformance) -> Iterator[tuple[Sample, str]]:
    """The samples that a raw file can hold, with a suffix each."""
    spec = spec_of(case)
    suffix_of = {fmt: suffix for suffix, fmt in reversed(spec.suffixes.items())}
    found = False
    for sample in samples_of(case):
        one_shader = isinstance(sample.code, (bytes, memoryview)) or len(sample.code) == 1
        if sample.fmt not in suffix_of or not one_shader:
            continue
        if type(real(case, sample)).write_to_file is devmod.Module.write_to_file:
            raise Skip("modules of this backend are not written as raw payload files (Module.write_to_file)")
        found = True
        yield sample, suffix_of[sample.fmt]
    if not found:
        raise Skip("no sample is a payload of one file")


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()
