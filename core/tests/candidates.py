"""Backends in this process, with devices that tests describe, and bundles for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from each_case import refusal
from support import sample

import devmod

Register = Callable[[str, str, object], None]
INFO = devmod.FunctionInfo(
    "k", ["handle"], interface=devmod.Interface([devmod.Param("x", "buffer", "float64")])
)


class FakeDevice(devmod.Device):
    def __init__(self, kind: str, index: int, arch: str) -> None:
        self.kind, self.index, self.arch = kind, index, arch


FakeDevice.__abstractmethods__ = frozenset()  # no method is called


class Runtime:
    """A backend in this process, with its devices and a record of the loaded variants."""

    def __init__(self, register: Register, kind: str, *archs: str, devices: bool = True) -> None:
        self.kind = kind
        self.loaded: list[bytes] = []
        self.listed = 0
        self.archs = archs
        self.fails: Exception | None = None
        register("devmod.load_from_bytes", kind, self.load)
        if devices:
            register("devmod.device", kind, self.devices)

    def devices(self) -> list[FakeDevice]:
        self.listed += 1
        return [FakeDevice(self.kind, index, arch) for index, arch in enumerate(self.archs)]

    def load(self, data: memoryview) -> devmod.Module:
        if self.fails is not None:
            raise self.fails
        self.loaded.append(bytes(data))
        return Loaded(self.kind, bytes(data))


class Loaded(devmod.Module):
    """A runtime module. Its function returns the bytes from which it was loaded."""

    def __init__(self, kind: str, data: bytes) -> None:
        self._kind, self._data = kind, data

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def functions(self) -> dict[str, devmod.FunctionInfo]:
        return {"f": INFO}

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        return lambda: (self._kind, name, self._data)

    def _function_on(self, name: str, device: devmod.Device) -> Any:
        return self.get_function(name)

    def save_to_bytes(self) -> bytes:
        return self._data


def made(kind: str, *names: str, code: bytes = b"") -> devmod.Module:
    default, fmt, _ = sample(kind)
    given = code if isinstance(default, bytes) else {"f": code}
    return devmod.create_with_fallback(kind, given, fmt, dict.fromkeys(names or ("f",), INFO))


def ptx(arch: str, body: str = "") -> devmod.Module:
    code = f".version 8.0\n.target {arch}\n.address_size 64\n{body}".encode()
    return devmod.create_with_fallback("cuda", code, "ptx", {"f": INFO})


def loaded(*modules: devmod.Module, prefer: Any = ()) -> devmod.Module:
    return devmod.loads(devmod.dumps(devmod.bundle(*modules)), prefer=prefer)


def chosen(module: devmod.Module, name: str = "f") -> str:
    found: str = module.get_function(name)()[0]
    return found


def missing(kind: str) -> str:
    """Return the text for a kind that is not installed or that conftest.py excludes."""
    return refusal(devmod.NotRegisteredError, devmod.load_from_bytes, kind, b"")
