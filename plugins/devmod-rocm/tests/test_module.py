"""The ROCm module: before a driver is opened, refused payloads, globals, loading and unloading."""

from __future__ import annotations

import sys
from struct import pack
from typing import Any

import numpy as np
import pytest
from backend_checks import code_of
from hip_modules import ADD, ADD_INFO, WHAT, code_object, create, error_of, loads, module_of

import devmod
from devmod import FunctionInfo

__all__ = ["loads"]
#: ELF headers: the machine, the OS ABI and its version.
HEADER = b"\x7fELF\x02\x01\x01"


def elf(machine: int = 224, abi: int = 64, version: int = 3, flags: int = 0x41) -> bytes:
    """Return the header of an ELF file without sections."""
    return (
        HEADER
        + bytes([abi, version])
        + bytes(7)
        + pack("<HHIQQQI", 3, machine, 1, 0, 0, 0, flags)
        + bytes(12)
    )


# -- before any driver


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each import of the driver fail."""
    for name in ("_driver", "_device"):
        monkeypatch.setitem(sys.modules, f"devmod_rocm.{name}", None)
    for name in ("_launch", "_binaries"):
        monkeypatch.delitem(sys.modules, f"devmod_rocm.{name}", raising=False)


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("fmt", "code", "text"),
    [
        ("hsaco", b"", f"{WHAT} is empty"),
        (
            "hsaco",
            b"// source",
            f"{WHAT} is neither a code object nor a container of code objects: expected b'\\x7fELF' or the magic of an offload bundle, of an "
            "OffloadBinary or of a .kpack file at its start, got b'// sourc'",
        ),
        ("hip", b"", "the rocm payload of format 'hip' is empty"),
        ("hip", b"a\xff", "the rocm payload of format 'hip' is not UTF-8 text: byte 1 is 0xff"),
    ],
)
def test_invalid_payloads_are_refused_before_a_driver_is_opened(
    fmt: str, code: bytes, text: str, no_driver: None
) -> None:
    error = error_of(create(code, ADD_INFO, fmt))
    assert type(error) is devmod.FormatError
    assert str(error) == text


# -- code objects


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (HEADER, f"{WHAT} is truncated: it has 7 bytes; an ELF header has 64"),
        (
            elf(machine=62),
            f"{WHAT} is not a code object: expected a 64-bit little-endian ELF file for the machine 224 (AMD GPU), got the machine 62",
        ),
        (
            elf(abi=65),
            f"{WHAT} is for the OS ABI 65; expected 64 (HSA), for which -target amdgcn-amd-amdhsa compiles",
        ),
        (elf(version=0), f"{WHAT} is a code object of version 2; expected version 3, 4, 5 or 6"),
        (
            elf(version=9),
            f"{WHAT} is a code object of an unknown version (ABI version 9); expected version 3, 4, 5 or 6",
        ),
        (
            elf(flags=0xFE),
            f"the architecture of {WHAT} is unknown: the number 0xfe in the flags of its ELF header",
        ),
        (
            elf(),
            f"{WHAT} is damaged, or is not a code object: its section headers end outside the file",
        ),
    ],
    ids=["truncated", "machine", "abi", "old", "new", "processor", "sections"],
)
def test_headers_of_code_objects(code: bytes, text: str, device: Any, loads: list[bytes]) -> None:
    error = error_of(create(code, ADD_INFO))
    assert type(error) is devmod.FormatError
    assert str(error) == text
    assert loads == []


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("arch", "card", "text"),
    [
        (
            "gfx90a",
            "gfx1100",
            f"{WHAT} is a code object for gfx90a, which does not run on {{device}}, gfx1100; compile it for rocm -arch=gfx1100",
        ),
        (
            "gfx90a:xnack+",
            "gfx90a:sramecc+:xnack-",
            f"{WHAT} is a code object for gfx90a:xnack+, and {{device}} has xnack-: it is gfx90a:sramecc+:xnack-; compile it for rocm "
            "-arch=gfx90a, which runs with xnack on and off",
        ),
        (
            "gfx906:sramecc+:xnack-",
            "gfx906:xnack-",
            f"{WHAT} is a code object for gfx906:sramecc+:xnack-, and {{device}} does not support sramecc: it is gfx906:xnack-; compile it "
            "for rocm -arch=gfx906, which runs with sramecc on and off",
        ),
        (
            "gfx11-generic",
            "gfx1030",
            f"{WHAT} is a code object for gfx11-generic, which does not run on {{device}}, gfx1030; compile it for rocm -arch=gfx1030",
        ),
    ],
)
def test_a_code_object_for_another_card(
    arch: str, card: str, text: str, card_of: Any, loads: list[bytes]
) -> None:
    device = card_of(card)
    error = error_of(create(code_object(ADD, arch), ADD_INFO))
    assert type(error) is devmod.DeviceNotFoundError
    assert str(error) == text.format(device=device)
    assert loads == []


@pytest.mark.parametrize(
    ("archs", "card", "best"),
    [
        ("gfx906,gfx1100,gfx11-generic", "gfx1100", "gfx1100"),
        ("gfx906,gfx11-generic", "gfx1103", "gfx11-generic"),
        ("gfx90a,gfx90a:xnack-,gfx90a:xnack+", "gfx90a:sramecc+:xnack-", "gfx90a:xnack-"),
    ],
)
def test_the_best_variant_of_a_bundle_runs(
    archs: str, card: str, best: str, card_of: Any, loads: list[bytes]
) -> None:
    card_of(card)
    module = devmod.loads(devmod.dumps(module_of(ADD, archs)))
    assert module["add"].info.name == "add"
    assert loads == [code_object(ADD, best)]


# -- loading


def test_truncated_code_objects_do_not_reach_the_driver(device: Any, loads: list[bytes]) -> None:
    code = code_object(ADD)
    for size in range(0, len(code), 97):
        assert isinstance(error_of(create(code[:size], ADD_INFO)), devmod.FormatError)
    assert loads == []


def test_a_damaged_descriptor_does_not_reach_the_driver(device: Any, loads: list[bytes]) -> None:
    code = code_object(ADD)
    descriptor = code.index(
        pack("<IIII", 0, 0, 288, 0)
    )  # shared and private bytes, bytes of the arguments
    damaged = code[: descriptor + 16] + pack("<q", 1 << 32) + code[descriptor + 24 :]
    error = error_of(create(damaged, ADD_INFO))
    assert type(error) is devmod.FormatError
    assert (
        str(error)
        == f"{WHAT} is truncated or damaged: the code of the kernel 'add' is outside of the file"
    )
    assert loads == []


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (["handle"] * 3, "the rocm kernel 'add' takes 4 arguments, and the payload's fmap has 3"),
        (
            ["handle"] * 4,
            "the rocm kernel 'add' takes 4 bytes as argument 4, and the payload's fmap has handle of 8 bytes",
        ),
        (
            ["handle", "int32", "handle", "int32"],
            "the rocm kernel 'add' takes 8 bytes as argument 2, and the payload's fmap has int32 of 4 bytes",
        ),
    ],
)
def test_arguments_that_do_not_match_the_kernel_are_refused(
    types: list[str], text: str, device: Any
) -> None:
    error = error_of(create(code_object(ADD), {"add": FunctionInfo("add", types)}))
    assert type(error) is devmod.FormatError
    assert str(error) == text


def test_a_function_that_the_code_object_does_not_define(device: Any, loads: list[bytes]) -> None:
    error = error_of(create(code_object(ADD), {"add": FunctionInfo("sub", ["handle"])}))
    assert type(error) is devmod.FormatError
    assert str(error) == f"{WHAT} has no kernel 'sub', which its fmap names; it has: 'add'"
    assert loads == []


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (
            209,
            devmod.DeviceNotFoundError,
            "the driver of {device} refuses the rocm payload of format 'hsaco': hipErrorNoBinaryForGpu ({words})",
        ),
        (2, devmod.DeviceMemoryError, "{device} loads no module: hipErrorOutOfMemory ({words})"),
    ],
)
def test_what_the_driver_refuses(
    code: int, kind: type, text: str, device: Any, standin: Any
) -> None:
    standin.set("fail", f"hipModuleLoadData={code}")
    error = error_of(module_of(ADD))
    words = {209: "no binary for gpu", 2: "out of memory"}[code]
    assert type(error) is kind
    assert text.format(device=device, words=words) in str(error)


@pytest.mark.row("R40")
def test_shared_memory_over_the_limit_is_known_before_the_load(
    device: Any, loads: list[bytes]
) -> None:
    limit = device.limits["max_shared_memory_per_block"]
    module = module_of(
        'extern "C" __global__ void k(float *y) { __shared__ float t[256]; t[threadIdx.x] = y[0]; y[1] = t[1]; }'
    )
    info = module.functions["k"]
    assert info.interface is not None
    assert info.interface.extra["workgroup_memory"] == 1024
    larger = info.replace(interface=info.interface.replace(extra={"workgroup_memory": limit + 1}))
    error = error_of(create(code_of(module), {"k": larger}), "k")
    assert type(error) is devmod.DeviceNotFoundError
    assert str(error) == (
        f"the rocm function 'k' cannot run on {device}: its max_shared_memory_per_block is {limit}, but the kernel uses {limit + 1} bytes "
        "of shared memory"
    )
    assert loads == []


def test_a_code_object_that_is_newer_than_the_driver(card_of: Any, standin: Any) -> None:
    card_of("gfx1100", driver_version="50221153")
    standin.set("fail", "hipModuleLoadData=209")
    assert error_of(module_of(ADD)).__notes__ == [
        "it is a code object of version 5, and the driver is that of HIP 5.2, which may not load this version. Update ROCm, or compile for "
        "rocm -arch=gfx1100 with options=['-mcode-object-version=4']"
    ]


# -- global variables


@pytest.mark.row("R20")
def test_constant_memory_has_the_type_and_the_shape_of_the_source(
    emulator: Any, device: Any
) -> None:
    module = module_of(
        "namespace filters { __constant__ float weights[3][4]; }\n__device__ int count = 7;\n"
        'extern "C" __global__ void k(float *x) { x[threadIdx.x] = filters::weights[threadIdx.x][2] + count; }'
    )
    weights = module.get_global("filters::weights")
    assert (weights.dtype, weights.shape) == ("float32", (3, 4))
    weights.copy_from(np.arange(12, dtype="float32").reshape(3, 4))
    module.get_global("count").copy_from(np.array(100, "int32"))
    x = np.zeros(3, "float32")
    module["k"](x, grid=1, block=3)
    assert x.tolist() == [102, 106, 110]
