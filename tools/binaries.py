"""The code of others in the binaries of a wheel, and whether the wheel has its notices."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Mapping

# Where to change: a binary of a wheel, or what it is linked with
#   here: the wheel's notices; `make hexagon-runner` writes
#     `plugins/devmod-hexagon/THIRD-PARTY-NOTICES`
#   also: `tools/binaries.py` (`_MARKS`), `tests/test_wheels.py` (`BINARIES`)
#   tests: `tests/test_wheels.py`, `tests/test_release.py`
#: What a binary has in it if it contains the code of somebody else, and what their notice says.
_MARKS = {
    "musl": (b"No error information\0Illegal byte sequence\0", "Copyright © 2005-2020 Rich Felker"),
    "glibc": (b"GNU C Library", "GNU Lesser General Public License"),
    "LLVM's libunwind": (b"libunwind: ", "LLVM Project"),
    "LLVM's libc++": (b"libc++abi: ", "LLVM Project"),
    "LLVM's libclc": (
        b"__clc_",
        "Copyright (c) 2011-2019 by the contributors listed in CREDITS.TXT",
    ),
    "AMD's device libraries": (b"__ocml_", "Advanced Micro Devices"),
    "NVIDIA's libdevice": (b"__nv_", "NVIDIA"),
    "TVM's headers": (b"libtvm_runtime.so", "Apache TVM"),
}
#: The C library that ziglang links statically comes with parts of Zig.
_ALONG = {"musl": ("Zig", "Copyright (c) Zig contributors")}
_XZ = b"\xfd7zXZ\0"
#: ELF: the types of a file, and the type of the segment that names the libraries at run time.
_EXECUTABLE = 2
_DYNAMIC = 2


def binaries_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a wheel that are no text, unpacked."""
    result = {}
    for name, data in files.items():
        if data.startswith(_XZ):
            result[name] = lzma.decompress(data)
        elif not _is_text(data):
            result[name] = data
    return result


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def missing_notices(files: Mapping[str, bytes]) -> list[str]:
    """Return the code of others in the binaries of a wheel for which the wheel has no notice.

    Parameters
    ----------
    files
        The contents of the wheel by name.
    """
    notices = ""
    for name, data in files.items():
        if ".dist-info/licenses/" in name:
            notices += data.decode("utf-8")
    result = []
    for name, data in binaries_of(files).items():
        owners = _owners(data)
        if not owners and _is_static_program(data):
            result.append(f"{name} is linked statically, with a C library that is not known")
        for owner, text in owners.items():
            if text not in notices:
                result.append(f"{name} has code of {owner}, whose notice is not in the wheel")
    return result


def _owners(data: bytes) -> dict[str, str]:
    """Return whose code a binary has, with a text of their notice."""
    result = {}
    for owner, (mark, text) in _MARKS.items():
        if mark not in data:
            continue
        result[owner] = text
        if owner in _ALONG:
            other, other_text = _ALONG[owner]
            result[other] = other_text
    return result


def _is_static_program(data: bytes) -> bool:
    """Return whether a little-endian ELF file is a program that needs no library at run time."""
    if not data.startswith(b"\x7fELF"):
        return False
    is_64 = data[4] == 2
    kind = struct.unpack_from("<H", data, 16)[0]
    if kind != _EXECUTABLE:
        return False
    start = struct.unpack_from("<Q" if is_64 else "<I", data, 32 if is_64 else 28)[0]
    size, count = struct.unpack_from("<HH", data, 54 if is_64 else 42)
    types = [struct.unpack_from("<I", data, start + number * size)[0] for number in range(count)]
    return _DYNAMIC not in types
