"""The standard library: libc++ and glibc's headers of the wheel ziglang, for the host's half of a
source.

clang checks the host's half also in a compile for the device, and the functions of libc++ that
are constexpr run there. clang reads these headers, and devmod's declarations that few kernels
use, only after a compile that failed without them: they take time.
"""

from __future__ import annotations

import os
import re

from devmod.errors import CompileError
from devmod_targets._paths import below
from devmod_targets.authoring.clang_build import LlvmToolchain

#: The host whose headers these are. The flags are those of ``zig c++`` (ZIG_VERBOSE_CC=1) for it.
HOST = "--target=x86_64-linux-gnu"
_LIBRARY_FOLDERS = (
    "libcxx/include",
    "libcxxabi/include",
    "include",
    "libc/include/x86-linux-gnu",
    "libc/include/generic-glibc",
    "libc/include/x86-linux-any",
    "libc/include/any-linux-any",
)
_LIBRARY_DEFINES = """
_LIBCPP_ABI_VERSION=1 _LIBCPP_ABI_NAMESPACE=__1 _LIBCPP_HAS_THREADS=1 _LIBCPP_HAS_MONOTONIC_CLOCK _LIBCPP_HAS_TERMINAL
_LIBCPP_HAS_MUSL_LIBC=0 _LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS _LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS
_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 _LIBCPP_HAS_FILESYSTEM=1 _LIBCPP_HAS_RANDOM_DEVICE _LIBCPP_HAS_LOCALIZATION
_LIBCPP_HAS_UNICODE _LIBCPP_HAS_WIDE_CHARACTERS _LIBCPP_HAS_NO_STD_MODULES _LIBCPP_HAS_TIME_ZONE_DATABASE _LIBCPP_PSTL_BACKEND_SERIAL
_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE _LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE
_LIBCPP_ENABLE_EXPERIMENTAL __GLIBC_MINOR__=31 DEVMOD_STANDARD_LIBRARY
"""
#: clang's note about a type of the program, such as ``typedef long long int64_t``, that differs
#: from the one in stdint.h.
OWN_INTEGER = re.compile(
    r"^(?:.*[/\\])?stdint\.h:\d+:\d+: note: previous definition is here", re.MULTILINE
)
_MISSING_HEADER = re.compile(r"fatal error: '([\w./]+)' file not found")


def library_flags(error: CompileError, toolchain: LlvmToolchain) -> list[str]:
    """Return clang's flags for the standard library, if a compile failed for the want of one of its
    headers; else [].
    """
    missing = _MISSING_HEADER.search(error.log)
    if not missing or ".." in missing[1]:
        return []
    root = os.path.dirname(toolchain.include[0])
    folders = [below(root, each) for each in _LIBRARY_FOLDERS]
    if not any(os.path.isfile(os.path.join(folder, missing[1])) for folder in folders):
        return []
    flags = [f"-D{each}" for each in _LIBRARY_DEFINES.split()]
    for folder in folders:
        flags += ["-isystem", folder]
    flags.append(f"-fmacro-prefix-map={root}{os.sep}=")
    return flags
