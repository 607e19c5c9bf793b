"""A module's bytes: those of the fallback, those that were loaded, on every host; and bytes that are none."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from array import array
from typing import Any

import devmod
from devmod import backend
from devmod.testing._case import Conformance, Sample
from devmod.testing._process import probe
from devmod.testing._rows._tools import fallback, function_of, must, real, row, same, same_bytes, samples_of, spec_of
from devmod.testing._strange import damaged, in_long_form


@row("R5-buffers")
def buffers(case: Conformance) -> None:
    """Loading takes any buffer."""
    data = real(case, samples_of(case)[0]).save_to_bytes()
    for given in (data, bytearray(data), memoryview(data), array("B", data)):
        module = devmod.load_from_bytes(case.kind, given)
        same_bytes(module.save_to_bytes(), data, f"saved after loading a {type(given).__name__}")


@row("R5-no-file")
def no_file(case: Conformance) -> None:
    """Loading from bytes makes no file."""
    done = probe(case, "steps", samples_of(case)[:1]).value
    for name in ("load_from_bytes once more", "create once more"):
        must(name in done, f"a module cannot be made without the driver: {_raised(done)}")
        made = [
            event for event in done[name]["events"] if event.endswith(" to write") or event.startswith(("does tempfile.", "does os.mkdir"))
        ]
        must(not made, f"{name.removesuffix(' once more')} {'; '.join(made)}")


@row("R17")
def fields(case: Conformance) -> None:
    """A module's bytes are the kind's fields in their order, and wire_parts is the same in parts."""
    spec = spec_of(case)
    for sample in samples_of(case):
        module = real(case, sample)
        data = module.save_to_bytes()
        same_bytes(b"".join(module.wire_parts()), data, "wire_parts, joined")
        fmt, fmap, code = backend.decode(spec, data)
        same((fmt, fmap), (sample.fmt, sample.fmap), "the format and the functions in the bytes")
        same_bytes(_flat(code), _flat(sample.code), "the code in the bytes")


@row("R18")
def same_as_fallback(case: Conformance) -> None:
    """The real module saves the bytes that the fallback saves."""
    for sample in samples_of(case):
        same_bytes(
            real(case, sample).save_to_bytes(), fallback(case, sample).save_to_bytes(), "a real module saves other bytes than the fallback"
        )


@row("R19-same")
def load_and_save(case: Conformance) -> None:
    """Load and save give the same bytes back."""
    for sample in samples_of(case):
        data = real(case, sample).save_to_bytes()
        module = devmod.load_from_bytes(case.kind, data)
        same_bytes(module.save_to_bytes(), data, "loaded and saved")
        same_bytes(b"".join(module.wire_parts()), data, "loaded and saved by wire_parts")
        same_bytes(real(case, sample).save_to_bytes(), data, "a second module of one payload")


@row("R19-forms")
def long_forms(case: Conformance) -> None:
    """Bytes in any valid form of msgpack are loaded, and saved as they came."""
    spec_of(case)
    for sample in samples_of(case):
        data = in_long_form(real(case, sample).save_to_bytes())
        module = devmod.load_from_bytes(case.kind, data)
        same_bytes(module.save_to_bytes(), data, "bytes in a longer form, loaded and saved")
        same(dict(module.functions), sample.fmap, "the functions of bytes in a longer form")


@row("R19-keys")
def unknown_keys(case: Conformance) -> None:
    """What a newer version adds to an interface is kept."""
    sample = samples_of(case)[0]
    added = {"from_the_future": [1, {"two": "three"}]}
    fmap = {name: _with_interface(info, added) for name, info in sample.fmap.items()}
    newer = Sample(sample.code, sample.fmt, fmap)
    data = fallback(case, newer).save_to_bytes()
    same_bytes(real(case, newer).save_to_bytes(), data, "a real module with keys of a newer version")
    module = devmod.load_from_bytes(case.kind, data)
    same_bytes(module.save_to_bytes(), data, "keys of a newer version, loaded and saved")
    for name, info in module.functions.items():
        must(info.interface is not None, f"the interface of {name!r} is lost")
        assert info.interface is not None
        same(dict(info.interface.extra), added, f"what a newer version says of {name!r}")


@row("R19-used")
def saved_after_use(case: Conformance) -> None:
    """A module that has run saves what it was given, and nothing that was made of it."""
    for sample in samples_of(case):
        module = real(case, sample)
        data = module.save_to_bytes()
        for name in sample.fmap:
            function_of(module, name)
        same_bytes(module.save_to_bytes(), data, "saved after get_function")


@row("R19-refused")
def refuses(case: Conformance) -> None:
    """Damaged bytes are refused with an error of devmod's: no crash, no hang, nothing half read."""
    spec = spec_of(case)
    data = min((real(case, sample).save_to_bytes() for sample in samples_of(case)), key=len)
    tries = damaged(spec, data)
    answer = probe(case, "strange", bytes=[base64.b64encode(each).decode() for _, each in tries])
    last = next((step["begins"] for step in reversed(answer.steps) if "begins" in step), -1)
    finished = bool(answer.steps) and "done" in answer.steps[-1]
    must(finished or last >= 0, f"a process that loads damaged bytes {answer.end}")
    must(finished, f"loading damaged bytes ({tries[last][0]}): the process {answer.end}")
    wrong = [step for step in answer.steps if "wrong" in step]
    if wrong:
        what = tries[wrong[0]["number"]][0]
        raise AssertionError(f"{len(wrong)} of {len(tries)} damaged modules; the first ({what}): {wrong[0]['wrong']}")


@row("R38")
def every_host(case: Conformance) -> None:
    """The bytes are the same on every host: whatever the driver, the user, the folder, the environment."""
    samples = samples_of(case)
    here = []
    for sample in samples:
        data = real(case, sample).save_to_bytes()
        here.append([sample.fmt, hashlib.sha256(data).hexdigest(), hashlib.sha256(data).hexdigest()])
    with tempfile.TemporaryDirectory() as folder:
        elsewhere: dict[str, Any] = {
            "HOME": folder,
            "USERPROFILE": folder,
            "TMPDIR": folder,
            "TZ": "Asia/Kathmandu",
            "LC_ALL": "C",
            "USER": "nobody",
        }
        hosts: list[tuple[str, dict[str, Any]]] = [
            ("with another user, folder and environment", {"environment": {**elsewhere, "PYTHONHASHSEED": "1"}, "folder": folder}),
            ("with another hash seed and no visible device", {"environment": {"PYTHONHASHSEED": "2", **_NO_DEVICE}}),
            ("without the driver", {"hide": True}),
        ]
        for how, host in hosts:
            found = probe(case, "digests", samples, **host).value
            for number, (there, mine) in enumerate(zip(found, here, strict=True), 1):
                same(there[0], mine[0], f"the format of sample {number}, {how},")
                must(there == mine, f"sample {number} is saved as other bytes {how}: what a module saves depends on the host")


#: What hides devices of one vendor or another from their drivers.
_NO_DEVICE = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "OCL_ICD_VENDORS": "/nowhere"}


def _flat(code: Any) -> bytes:
    return (
        bytes(code)
        if not hasattr(code, "items")
        else b"".join(part for name, each in code.items() for part in (name.encode(), bytes(each)))
    )


def _with_interface(info: devmod.FunctionInfo, added: dict[str, Any]) -> devmod.FunctionInfo:
    there = info.interface
    if there is None:
        params = [
            devmod.Param(f"p{number}", *(("buffer",) if name == "handle" else ("scalar", name)))
            for number, name in enumerate(info.arg_types)
        ]
        there = devmod.Interface(params)
    interface = devmod.Interface(there.params, there.blocks, there.block, {**there.extra, **added})
    return devmod.FunctionInfo(info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, interface)


def _raised(done: dict[str, Any]) -> str:
    return next((f"{name} raises {step['raised']}" for name, step in done.items() if step.get("raised")), "no step fails")
