"""Bundles made by hand, for tests of what a file may hold and must not."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import msgpack
from support import sample

import devmod

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from handmade import (
    blobs_of as blobs_of,
)
from handmade import (
    file_of as file_of,
)
from handmade import (
    head_of as head_of,
)
from handmade import (
    headed as headed,
)
from handmade import (
    pages_of as pages_of,
)
from handmade import (
    row as row,
)
from handmade import (
    with_pages as with_pages,
)

#: The bytes of an opencl module with the functions a, bad and b: the types of `bad` are invalid,
#: the framing of all is valid.
THREE = b"\xa2cl\x83\xa1a\x94\xa1k\x90\x90\x90\xa3bad\x94\xa1k\x91\xa1x\x90\x90\xa1b\x94\xa1l\x90\x90\x90\xc4\x03abc"
BAD_TYPE = "the bytes of the opencl module: fmap of 'bad', arg_types: expected an array, found a string, at byte 20"


class CountedFile(io.BytesIO):
    """A file object that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.sizes: list[int] = []

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.sizes.append(len(data))
        return data


class Raw(devmod.Module):
    """A module of any kind whose bytes are given."""

    def __init__(
        self, kind: str, data: bytes, fmt: str = "", functions: tuple[str, ...] = ()
    ) -> None:
        self._kind, self._data, self._format = kind, data, fmt
        self._functions = {name: devmod.FunctionInfo(name, ()) for name in functions}

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def format(self) -> str:
        return self._format

    @property
    def functions(self) -> dict[str, devmod.FunctionInfo]:
        return self._functions

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        return lambda: name

    def save_to_bytes(self) -> bytes:
        return self._data


def from_wire(kind: str, data: bytes, functions: tuple[str, ...] = ()) -> devmod.Module:
    """A stored module of a kind with these bytes, whatever they are."""
    try:
        fmt = msgpack.Unpacker(io.BytesIO(data)).unpack()
    except (ValueError, msgpack.UnpackException):
        fmt = ""
    if type(fmt) is not str:
        fmt = {"webgpu": "wgsl"}.get(kind, "")
    return devmod.loads(devmod.dumps(Raw(kind, data, fmt, functions)))


def entry(blob: bytes, **changes: Any) -> dict[str, Any]:
    """A sound record for a blob of an opencl module, with changes; a change to None leaves the key
    out.
    """
    fields: dict[str, Any] = {
        "kind": "opencl",
        "format": "cl",
        "functions": ["f"],
        "size": len(blob),
    }
    fields |= {"sha256": hashlib.sha256(blob).digest()} | changes
    return {key: value for key, value in fields.items() if value is not None}


def module_of(kind: str = "opencl", **changes: Any) -> devmod.Module:
    """A fallback of a kind's sample payload, with changes to its code, fmt or fmap."""
    code, fmt, fmap = sample(kind)
    values = {"code": code, "fmt": fmt, "fmap": fmap} | changes
    return devmod.create_with_fallback(kind, values["code"], values["fmt"], values["fmap"])


def tuning_file(records: Any, tag: str = "tuning+") -> bytes:
    """A file with a tuned function `f`, and with these tuning records of it: an object, or bytes as
    they are.
    """
    code = b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x90\xc4\x01x"
    attached = records if isinstance(records, bytes) else msgpack.packb(records)
    rows = [{"function": "f", "tag": tag, **location_of(attached)}]
    page = msgpack.packb({"modules": [entry(code, rank=0)], "attached": rows})
    blobs = code
    if attached:
        blobs = code.ljust(64, b"\0") + attached
    head = {"candidates": 1, "pages": [row(page, 1, len(blobs))]}
    return headed(head, page, blobs)


def location_of(data: bytes) -> dict[str, Any]:
    """What a record says of its bytes."""
    return {"size": len(data), "sha256": hashlib.sha256(data).digest()}
