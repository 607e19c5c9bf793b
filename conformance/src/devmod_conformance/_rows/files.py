"""Raw payload files and bundles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import devmod
from devmod import plugins
from devmod.plugins import find_spec
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    compare_arrays,
    expect_error,
    fallback_module,
    launch,
    reference_arrays,
    require_equal,
    require_equal_bytes,
    row,
    runtime_module,
    samples_with_calls,
    skip_without_device,
    target_spec,
    usable_samples,
)


@row("R22-round")
def round_trip(case: Conformance) -> None:
    """write_to_file writes a raw payload and its metadata, and load_from_file loads them."""
    for sample, suffix in _writable(case):
        with tempfile.TemporaryDirectory() as folder:
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
                raise Skip(f"devmod.load_from_file.{sample.fmt} is not registered; the written files are correct")
            for way, loaded in (("by suffix", devmod.load_from_file(path)), ("by format", devmod.load_from_file(path, sample.fmt))):
                require_equal((loaded.kind, loaded.format), (case.kind, sample.fmt), f"the kind and the format of a file loaded {way}")
                require_equal(dict(loaded.functions), sample.fmap, f"the functions of a file loaded {way}")
                require_equal_bytes(loaded.save_to_bytes(), module.save_to_bytes(), f"the saved bytes of a file loaded {way}")


@row("R22-clash")
def other_metadata(case: Conformance) -> None:
    """write_to_file does not overwrite the metadata of other functions."""
    sample, suffix = next(_writable(case))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"k.{suffix}")
        runtime_module(case, sample).write_to_file(path)
        before = _read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")
        name, info = next(iter(sample.fmap.items()))
        other = devmod.FunctionInfo(info.name + "_2", info.arg_types, info.launch_param_tags, info.arg_extra_tags, info.interface)
        wrong = devmod.create(case.kind, sample.code, sample.fmt, {**sample.fmap, name: other})
        with expect_error(devmod.FormatError, "write_to_file over the metadata of other functions"):
            wrong.write_to_file(path)
        require_equal((_read(folder, f"k.{suffix}"), _read(folder, "k.tvm_meta.json")), before, "the files after that error")


@row("R24-stored")
def stored(case: Conformance) -> None:
    """A bundle has the bytes of the fallback's bundle, and its module is loaded at the first use."""
    for sample in usable_samples(case):
        data = devmod.dumps(runtime_module(case, sample))
        loaded = devmod.loads(data)
        require_equal(loaded.kind, case.kind, "the kind of a stored module")
        if find_spec(case.kind) is not None:  # else core cannot parse the bytes
            require_equal_bytes(
                data, devmod.dumps(fallback_module(case, sample)), "the bundles of the backend's module and of the fallback"
            )
            require_equal(loaded.format, sample.fmt, "the format of a stored module")
            require_equal(list(loaded.functions), list(sample.fmap), "the functions of a stored module")
        require_equal_bytes(loaded.save_to_bytes(), runtime_module(case, sample).save_to_bytes(), "the saved bytes of a stored module")
    for sample, call in samples_with_calls(case):
        with skip_without_device():
            function: Any = devmod.loads(devmod.dumps(runtime_module(case, sample)))[call.function]
        arguments = call.make_arguments()
        expected = reference_arrays(call)
        launch(case, function, arguments, **call.keywords)
        compare_arrays(call, arguments, expected, "loaded from a bundle")


def _writable(case: Conformance) -> Iterator[tuple[Sample, str]]:
    """Yield the samples that fit in one raw file, with a suffix each."""
    spec = target_spec(case)
    suffix_of = {fmt: suffix for suffix, fmt in reversed(spec.suffixes.items())}
    applies = False
    for sample in usable_samples(case):
        one_shader = isinstance(sample.code, (bytes, memoryview)) or len(sample.code) == 1
        if sample.fmt not in suffix_of or not one_shader:
            continue
        if type(runtime_module(case, sample)).write_to_file is devmod.Module.write_to_file:
            raise Skip("the backend writes no raw payload files (Module.write_to_file)")
        applies = True
        yield sample, suffix_of[sample.fmt]
    if not applies:
        raise Skip("no sample fits in one raw payload file")


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()
