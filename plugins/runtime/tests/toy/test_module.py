"""RuntimeModule, the base class of backends' modules: what it does with a payload before the driver
gets it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from each_case import refusal
from stored import BAD_TYPE, THREE, from_wire, module_of
from support import KINDS

import devmod
from devmod._plugins import discovery
from devmod.backend import find_spec
from devmod_runtime import Launcher, RuntimeModule

Register = Callable[[str, str, object], None]


class Receiver(RuntimeModule):
    """A module whose driver is missing. The error has the function and the format that the driver
    would get.
    """

    target = "opencl"

    def launcher(self, name: str, info: devmod.FunctionInfo) -> Launcher:
        raise devmod.DeviceNotFoundError(
            f"{name} is {info.name} in a payload of format {self.payload()[0]}", kind=self.kind
        )


@pytest.fixture(autouse=True)
def no_compilers() -> Iterator[None]:
    yield
    for kind in KINDS:
        devmod.set_compiler(kind, None)


# -- a replaced compiler


@pytest.mark.row("R30", "R31")
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_receives_source_and_no_compiled_payload(kind: str) -> None:
    spec = find_spec(kind)
    assert spec is not None
    requests = {}
    for fmt in spec.formats:
        seen: list[bytes] = []

        def compiler(code: bytes, fmt: str = fmt, seen: list[bytes] = seen) -> tuple[str, bytes]:
            seen.append(code)
            return fmt, b"compiled"

        devmod.set_compiler(kind, compiler)
        code: Any = {"f": b"payload"} if spec.shader_map else b"payload"
        module = Receiver(spec, fmt, {}, code)
        assert module.payload("f" if spec.shader_map else "") == (
            fmt,
            b"compiled" if seen else b"payload",
        )
        requests[fmt] = bool(seen)
    source = {
        "cuda": ["cuda"],
        "rocm": ["hip"],
        "metal": ["metal"],
        "opencl": ["cl"],
        "webgpu": ["wgsl"],
    }.get(kind, [])
    assert [fmt for fmt, was in requests.items() if was] == source


@pytest.mark.row("R31")
def test_a_compiler_sees_the_target() -> None:
    seen = []

    def compiler(code: bytes) -> bytes:
        seen.append(devmod.Target.current())
        return b"text"

    devmod.set_compiler("opencl", compiler)
    own = devmod.Target("opencl", options={"level": "3"})
    for current in (None, devmod.Target("cuda", arch="sm_90"), own):
        module = Receiver.create(b"kernel", "cl", {})
        for _ in range(2):
            with current or contextlib.nullcontext():
                module.payload()
        assert devmod.Target.current() is None
    assert seen == [devmod.Target("opencl"), devmod.Target("opencl"), own]


# -- a module from bytes


@pytest.mark.row("R19")
@pytest.mark.parametrize("view", [lambda data: data, lambda data: memoryview(data).toreadonly()])
def test_a_module_copies_a_writable_buffer(view: Any, register: Register) -> None:
    """The module is compiled and saved later, when the caller may have overwritten the buffer."""
    register("devmod.load_from_bytes", "opencl", Receiver.load)
    fallback = module_of("opencl")
    data = bytearray(fallback.save_to_bytes())
    module = devmod.load_from_bytes("opencl", view(data))
    data[:] = bytes(len(data))
    assert type(module) is Receiver
    assert module.save_to_bytes() == fallback.save_to_bytes()
    assert module.inspect_source() == fallback.inspect_source()


@pytest.mark.row("R18")
def test_equal_shaders_are_saved_to_the_same_file(register: Register) -> None:
    class Metal(Receiver):
        target = "metal"

    register("devmod.load_from_bytes", "metal", Metal.load)
    source, names = (
        b"kernel void k() { /* " + bytes(range(48, 96)) * 100 + b" */ }",
        [f"k{number}" for number in range(9)],
    )
    fallback = module_of(
        "metal",
        code=dict.fromkeys(names, source),
        fmap=dict.fromkeys(names, devmod.FunctionInfo("k", ["handle"])),
    )
    module = devmod.load_from_bytes("metal", fallback.save_to_bytes())
    assert type(module) is Metal
    assert devmod.dumps(module) == devmod.dumps(fallback)
    assert len(devmod.dumps(module)) < 2 * len(source)


@pytest.mark.row("R19")
def test_the_functions_beside_an_invalid_one_run(register: Register) -> None:
    register("devmod.load_from_bytes", "opencl", Receiver.load)
    module = from_wire("opencl", THREE, ("a", "bad", "b"))
    with pytest.raises(devmod.DeviceNotFoundError, match=r"^b is l in a payload of format cl"):
        module.get_function("b")
    assert refusal(devmod.FormatError, module.get_function, "bad") == BAD_TYPE


@pytest.mark.row("R3", "R24")
def test_the_look_ups_of_a_first_use_share_one_scan(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[None] = []
    scan_all = discovery._scan_all
    monkeypatch.setattr(discovery, "_scan_all", lambda: (scans.append(None), scan_all())[1])
    register("devmod.load_from_bytes", "opencl", Receiver.load)
    module = devmod.loads(devmod.dumps(module_of("opencl")))
    scans.clear()
    with pytest.raises(
        devmod.DeviceNotFoundError, match=r"^add is add_kernel in a payload of format cl"
    ):
        module.get_function("add")
    assert len(scans) == 1
