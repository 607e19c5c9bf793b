"""A module's bytes: equal to the fallback's, equal after loading, equal on every host. Damaged
bytes raise an error.
"""

from __future__ import annotations

import base64
import hashlib
import random
from array import array
from collections.abc import Iterator
from typing import Any

import devmod
from devmod import TargetSpec, backend
from devmod.backend import temporary_folder
from devmod_conformance._case import Conformance, Sample
from devmod_conformance._process import probe, steps_of
from devmod_conformance._rows._tools import (
    fallback_module,
    get_function,
    plain_params,
    require,
    require_equal,
    require_equal_bytes,
    row,
    runnable_samples,
    runtime_module,
    summarize,
    target_spec,
    usable_samples,
)

#: The variables that hide devices from the drivers of several vendors.
_NO_DEVICE = {
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
    "OCL_ICD_VENDORS": "/nowhere",
}

#: The total size of the damaged bytes of one row.
_MAX_TOTAL = 16 << 20
_WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    1.5,
    "",
    "x",
    b"",
    b"x",
    [],
    [[]],
    {},
    {"x": 1},
    {"x": []},
)
_LENGTHS = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
)


@row("R5-buffers")
def any_buffer(case: Conformance) -> None:
    """load_from_bytes accepts any buffer."""
    data = runtime_module(case, usable_samples(case)[0]).save_to_bytes()
    for value in (data, bytearray(data), memoryview(data), array("B", data)):
        module = devmod.load_from_bytes(case.kind, value)
        require_equal_bytes(
            module.save_to_bytes(), data, f"the bytes after loading a {type(value).__name__}"
        )


@row("R5-no-file")
def no_file(case: Conformance) -> None:
    """load_from_bytes and create write no file."""
    steps = steps_of(case, usable_samples(case))
    for name in ("the second load_from_bytes", "the second create"):
        found = [step for each, step in steps if each == name]
        require(found, f"a module cannot be created without the driver: {_first_error(steps)}")
        writes = [
            event
            for step in found
            for event in step["events"]
            if event.endswith(" to write") or event.startswith(("does tempfile.", "does os.mkdir"))
        ]
        require(not writes, f"{name.removeprefix('the second ')} {summarize(writes)}")


@row("R17")
def fields(case: Conformance) -> None:
    """A module's bytes are the fields of the kind in order; wire_parts returns the same bytes in
    parts.
    """
    spec = target_spec(case)
    for sample in usable_samples(case):
        module = runtime_module(case, sample)
        data = module.save_to_bytes()
        require_equal_bytes(b"".join(module.wire_parts()), data, "the joined wire_parts")
        fmt, fmap, code = backend.decode(spec, data)
        require_equal(
            (fmt, fmap),
            (sample.fmt, sample.fmap),
            "the format and the functions in the saved bytes",
        )
        require_equal_bytes(_flat(code), _flat(sample.code), "the code in the saved bytes")


@row("R18")
def same_as_fallback(case: Conformance) -> None:
    """The backend's module and the fallback save equal bytes."""
    for sample in usable_samples(case):
        require_equal_bytes(
            runtime_module(case, sample).save_to_bytes(),
            fallback_module(case, sample).save_to_bytes(),
            "the saved bytes of the backend's module and of the fallback",
        )


@row("R19-same")
def load_and_save(case: Conformance) -> None:
    """Loading and saving returns the same bytes."""
    for sample in usable_samples(case):
        data = runtime_module(case, sample).save_to_bytes()
        module = devmod.load_from_bytes(case.kind, data)
        require_equal_bytes(module.save_to_bytes(), data, "the bytes after loading and saving")
        require_equal_bytes(
            b"".join(module.wire_parts()), data, "the joined wire_parts after loading"
        )
        require_equal_bytes(
            runtime_module(case, sample).save_to_bytes(),
            data,
            "the saved bytes of a second module of the same payload",
        )


@row("R19-forms")
def long_forms(case: Conformance) -> None:
    """Bytes in another valid form of msgpack are loaded, and saved unchanged."""
    target_spec(case)
    for sample in usable_samples(case):
        data = in_long_form(runtime_module(case, sample).save_to_bytes())
        module = devmod.load_from_bytes(case.kind, data)
        require_equal_bytes(
            module.save_to_bytes(),
            data,
            "bytes in msgpack's longest forms, after loading and saving",
        )
        require_equal(
            dict(module.functions), sample.fmap, "the functions of bytes in msgpack's longest forms"
        )


@row("R19-keys")
def unknown_keys(case: Conformance) -> None:
    """Unknown keys of an interface are preserved."""
    sample = usable_samples(case)[0]
    added = {"from_the_future": [1, {"two": "three"}]}
    fmap = {name: _with_interface(info, added) for name, info in sample.fmap.items()}
    newer = Sample(sample.code, sample.fmt, fmap)
    data = fallback_module(case, newer).save_to_bytes()
    require_equal_bytes(
        runtime_module(case, newer).save_to_bytes(),
        data,
        "the saved bytes of a module with unknown keys",
    )
    module = devmod.load_from_bytes(case.kind, data)
    require_equal_bytes(
        module.save_to_bytes(), data, "bytes with unknown keys, after loading and saving"
    )
    for name, info in module.functions.items():
        require(info.interface is not None, f"the interface of {name!r} is missing after loading")
        assert info.interface is not None
        require_equal(dict(info.interface.extra), added, f"the unknown keys of {name!r}")


@row("R19-used")
def saved_after_use(case: Conformance) -> None:
    """get_function does not change the bytes that a module saves."""
    for sample in runnable_samples(case):
        module = runtime_module(case, sample)
        data = module.save_to_bytes()
        for name in sample.fmap:
            get_function(module, name)
        require_equal_bytes(module.save_to_bytes(), data, "the saved bytes after get_function")


@row("R19-refused")
def damaged_bytes(case: Conformance) -> None:
    """Damaged bytes raise an error of devmod when they are loaded or first used: no crash, no hang,
    no partial result.
    """
    spec = target_spec(case)
    data = min(
        (runtime_module(case, sample).save_to_bytes() for sample in usable_samples(case)), key=len
    )
    variants = damaged(spec, data)
    answer = probe(case, "damaged", bytes=[base64.b64encode(each).decode() for _, each in variants])
    last = next((step["begins"] for step in reversed(answer.steps) if "begins" in step), -1)
    finished = bool(answer.steps) and "done" in answer.steps[-1]
    require(finished or last >= 0, f"a process that loads damaged bytes {answer.end}")
    require(finished, f"loading damaged bytes ({variants[last][0]}): the process {answer.end}")
    wrong = [step for step in answer.steps if "wrong" in step]
    if wrong:
        damage = variants[wrong[0]["number"]][0]
        raise AssertionError(
            f"{len(wrong)} of {len(variants)} variants of damaged bytes fail; the first ({damage}): {wrong[0]['wrong']}"
        )


@row("R38-saved")
def every_host(case: Conformance) -> None:
    """A module saves the same bytes with any driver, user, folder, time and environment."""
    samples = usable_samples(case)
    here = []
    for sample in samples:
        digest = hashlib.sha256(runtime_module(case, sample).save_to_bytes()).hexdigest()
        here.append([sample.fmt, digest, digest])
    with temporary_folder() as folder:
        user = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR"), folder) | dict.fromkeys(
            ("USER", "LOGNAME"), "nobody"
        )
        environment = {**user, "TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
        hosts: list[tuple[str, dict[str, Any]]] = [
            (
                "with another user, folder, time and environment",
                {"environment": environment, "folder": folder, "other_host": True},
            ),
            (
                "with another hash seed and no visible device",
                {"environment": {"PYTHONHASHSEED": "2", **_NO_DEVICE}},
            ),
            ("without the driver", {"hide": True}),
        ]
        for condition, host in hosts:
            digests = probe(case, "digests", samples, **host).value
            for number, (there, mine) in enumerate(zip(digests, here, strict=True), 1):
                require_equal(there[0], mine[0], f"the format of sample {number} {condition}")
                require(
                    there == mine,
                    f"sample {number} saves other bytes {condition}: the saved bytes must not depend on the host",
                )


def _flat(code: Any) -> bytes:
    return (
        b"".join(name.encode() + bytes(each) for name, each in code.items())
        if hasattr(code, "items")
        else bytes(code)
    )


def _with_interface(info: devmod.FunctionInfo, added: dict[str, Any]) -> devmod.FunctionInfo:
    known = info.interface
    if known is None:
        known = devmod.Interface(plain_params(info.arg_types))
    return info.replace(interface=known.replace(extra={**known.extra, **added}))


def _first_error(steps: list[tuple[str, dict[str, Any]]]) -> str:
    return next(
        (f"{name} raises {step['raised']}" for name, step in steps if step.get("raised")),
        "no step fails",
    )


# -- A module's bytes in other forms of msgpack, and damaged bytes.


def fields_of(data: bytes) -> list[Any]:
    """Return the msgpack objects in a module's bytes. Maps are lists of pairs, so that they can
    have duplicate keys.
    """
    import msgpack  # type: ignore[import-untyped]

    unpacker = msgpack.Unpacker(
        raw=False, strict_map_key=False, object_pairs_hook=_Map, max_buffer_size=0
    )
    unpacker.feed(data)
    return list(unpacker)


class _Map(list[tuple[Any, Any]]):
    """A map as a list of pairs."""


def in_long_form(data: bytes) -> bytes:
    """Return the same objects in msgpack's longest forms. They are valid, and devmod does not write
    them.
    """
    return b"".join(map(_long, fields_of(data)))


def _long(value: Any) -> bytes:
    import msgpack

    if isinstance(value, bool) or value is None or isinstance(value, float):
        return bytes(msgpack.packb(value))
    if isinstance(value, int):
        return (
            b"\xd3" + value.to_bytes(8, "big", signed=True)
            if value < 2**63
            else b"\xcf" + value.to_bytes(8, "big")
        )
    if isinstance(value, str):
        text = value.encode()
        return b"\xdb" + len(text).to_bytes(4, "big") + text
    if isinstance(value, bytes):
        return b"\xc6" + len(value).to_bytes(4, "big") + value
    if isinstance(value, _Map):
        return (
            b"\xdf"
            + len(value).to_bytes(4, "big")
            + b"".join(_long(each) for pair in value for each in pair)
        )
    return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(_long, value))


def damaged(spec: TargetSpec, data: bytes) -> list[tuple[str, bytes]]:
    """Return damaged bytes, each with a description of the damage. Some of them are still valid."""
    described = [*_by_field(spec, data), *_by_hand(data)]
    room = max(64, _MAX_TOTAL // max(len(data), 1))
    rest = list(_by_byte(data))
    if len(rest) > room:
        rest = random.Random(20260).sample(rest, room)  # noqa: S311 - reproducible on purpose
    return [*described, *rest]


def _by_field(spec: TargetSpec, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Replace fields, and parts of the fmap, so that the checks behind the first one run too."""
    fields = fields_of(data)

    def replaced(number: int, *values: Any) -> bytes:
        """Return the bytes with other values in the place of a field."""
        return b"".join(map(_long, [*fields[:number], *values, *fields[number + 1 :]]))

    for number, field in enumerate(spec.fields):
        for wrong in _WRONG:
            yield f"{field} is {wrong!r}", replaced(number, wrong)
        yield f"{field} is missing", replaced(number)
        if isinstance(fields[number], _Map):
            duplicate = _Map([*fields[number], *fields[number][:1]])
            yield f"{field} has a duplicate key", replaced(number, duplicate)
    at = spec.fields.index("fmap")
    name, info = fields[at][0]
    for part in range(len(info)):
        for wrong in _WRONG:
            entry = [*info]
            entry[part] = wrong
            yield f"part {part} of a function is {wrong!r}", replaced(at, _Map([(name, entry)]))


def _by_hand(data: bytes) -> Iterator[tuple[str, bytes]]:
    import msgpack

    yield "empty", b""
    yield "one more byte", data + b"\x00"
    yield "the bytes twice", data + data
    for length in _LENGTHS:
        yield "a length of 4 GiB", length
        yield "a length of 4 GiB after the first field", msgpack.packb(fields_of(data)[0]) + length
    for opener in (b"\x91", b"\x81\xa1x", b"\x81"):
        yield "100,000 nested levels", opener * 100_000
        yield (
            "100,000 nested levels after the first field",
            msgpack.packb(fields_of(data)[0]) + opener * 100_000,
        )


def _by_byte(data: bytes) -> Iterator[tuple[str, bytes]]:
    generator = random.Random(20261)  # noqa: S311 - reproducible on purpose
    places = sorted(
        {*range(min(len(data), 160)), *(generator.randrange(len(data)) for _ in range(64))}
    )
    for at in places:
        yield f"the first {at} bytes", data[:at]
        for value in (data[at] ^ 1, data[at] ^ 0x80, 0xFF, 0xC1, 0x00):
            yield f"byte {at} is {value:#04x}", data[:at] + bytes([value]) + data[at + 1 :]
    for _ in range(64):
        yield "random bytes", generator.randbytes(generator.randrange(1, 200))
