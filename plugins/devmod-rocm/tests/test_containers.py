"""Containers of code objects as payloads: the best code object for the device runs."""

from __future__ import annotations

import zlib
from struct import pack
from typing import Any

import msgpack
import pytest
from hip_modules import ADD, ADD_INFO, WHAT, code_object, create, error_of, loads, run_add
from standin_rocm import device_arch

import devmod

__all__ = ["loads"]


def make_bundle(entries: dict[str, bytes]) -> bytes:
    """Return an offload bundle as clang's clang-offload-bundler writes it. Its first entry is that
    of the host, which is empty.
    """
    magic = b"__CLANG_OFFLOAD_BUNDLE__"
    entries = {"host-x86_64-unknown-linux-gnu-": b"", **entries}
    table, blobs = b"", b""
    start = -(-(len(magic) + 8 + sum(24 + len(name) for name in entries)) // 4096) * 4096
    for name, code in entries.items():
        blobs += bytes(-len(blobs) % 4096)
        table += pack("<QQQ", start + len(blobs), len(code), len(name)) + name.encode()
        blobs += code
    head = magic + pack("<Q", len(entries)) + table
    return head + bytes(start - len(head)) + blobs


def offload_binary(code: bytes, arch: str) -> bytes:
    """Return an OffloadBinary of version 1 with one image."""
    strings = b"\0triple\0amdgcn-amd-amdhsa\0arch\0" + arch.encode() + b"\0"
    places = [
        (strings.index(key), strings.index(value))
        for key, value in ((b"triple", b"amdgcn"), (b"arch", arch.encode()))
    ]
    start = 32 + 40 + 32
    image = -(-(start + len(strings)) // 8) * 8
    entry = pack("<HHIQQQQ", 1, 4, 0, 72, 2, image, len(code))
    table = b"".join(pack("<QQ", start + key, start + value) for key, value in places)
    body = entry + table + strings
    size = image + len(code)
    return (
        b"\x10\xff\x10\xad"
        + pack("<IQQQ", 1, size, 32, 40)
        + body
        + bytes(image - 32 - len(body))
        + code
    )


def compressed(bundle: bytes) -> bytes:
    """Return a bundle, compressed by zlib, in clang's version 2 of the form."""
    data = zlib.compress(bundle)
    return b"CCOB" + pack("<HHIIQ", 2, 0, 24 + len(data), len(bundle), 0) + data


def kpack(codes: dict[str, bytes]) -> bytes:
    """Return AMD's archive of code objects, without compression."""
    blobs, places = b"", []
    for code in codes.values():
        blobs += bytes(-len(blobs) % 64)
        places.append({"offset": 64 + len(blobs), "size": len(code)})
        blobs += code
    entries = {
        arch: {"ordinal": number, "original_size": len(code)}
        for number, (arch, code) in enumerate(codes.items())
    }
    table = msgpack.packb(
        {"compression_scheme": "none", "blobs": places, "toc": {"lib/libadd.so": entries}}
    )
    return b"KPAK" + pack("<IQ", 1, 64 + len(blobs)) + bytes(48) + blobs + table


def containers() -> dict[str, bytes]:
    codes = {
        arch: code_object(ADD, arch)
        for arch in dict.fromkeys(("gfx90a", device_arch(), "gfx11-generic"))
    }
    bundle = make_bundle({f"hipv4-amdgcn-amd-amdhsa--{arch}": code for arch, code in codes.items()})
    parts = [
        make_bundle({f"hipv4-amdgcn-amd-amdhsa--{arch}": code}) for arch, code in codes.items()
    ]
    return {
        "bundle": bundle,
        "compressed": compressed(bundle),
        "OffloadBinary": b"".join(
            offload_binary(code, arch) + bytes(-len(offload_binary(code, arch)) % 8)
            for arch, code in codes.items()
        ),
        "several": b"".join(part + bytes(4096 - len(part) % 4096) for part in parts),
        "several compressed": b"".join(map(compressed, parts)),
        "kpack": kpack(codes),
    }


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    "name", ["bundle", "compressed", "OffloadBinary", "several", "several compressed", "kpack"]
)
def test_the_best_code_object_of_a_container_runs(
    name: str, emulator: Any, device: Any, loads: list[bytes]
) -> None:
    run_add(create(containers()[name], ADD_INFO))
    assert loads == [code_object(ADD)]


def test_the_code_object_with_the_kernels_is_chosen(device: Any, loads: list[bytes]) -> None:
    other = code_object('extern "C" __global__ void other() {}')
    parts = [
        make_bundle({f"hipv4-amdgcn-amd-amdhsa--{device_arch()}": code})
        for code in (other, code_object(ADD))
    ]
    assert create(b"".join(parts), ADD_INFO)["add"].info.name == "add"
    assert loads == [code_object(ADD)]


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            lambda: make_bundle({"hipv4-amdgcn-amd-amdhsa--gfx906": code_object(ADD, "gfx906")}),
            f"{WHAT} has code objects for 'gfx906', and none of them runs on {{device}}, gfx1100; compile it for rocm -arch=gfx1100",
        ),
        (lambda: make_bundle({}), f"{WHAT} is a container without a code object"),
        (
            lambda: make_bundle({f"hipv4-amdgcn-amd-amdhsa--{device_arch()}": code_object(ADD)})[
                :6000
            ],
            f"{WHAT} cannot be read: entry 2 of the offload bundle at byte 0 is outside of the file: bytes 4096 to {{end}} of 6000",
        ),
        (
            lambda: b"CCOB\x09\0\1\0" + bytes(16),
            f"{WHAT} cannot be read: the compressed offload bundle at byte 0 has version 9; devmod reads versions 1 to 3",
        ),
    ],
    ids=["other cards", "empty", "truncated", "version"],
)
def test_containers_that_do_not_run(code: Any, text: str, device: Any, loads: list[bytes]) -> None:
    error = error_of(create(code(), ADD_INFO))
    assert type(error) is (
        devmod.DeviceNotFoundError if "none of them runs" in text else devmod.FormatError
    )
    assert str(error) == text.format(device=device, end=4096 + len(code_object(ADD)))
    assert loads == []
