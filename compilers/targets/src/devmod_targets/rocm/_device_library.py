"""ROCm's device library, if the user names it: the math functions that amdgcn does not compute by
itself.

The library is bitcode (``ocml.bc``, ``ockl.bc``). It reads constants such as
``__oclc_ISA_version``, which a control module defines. The published modules stop at gfx940 and
gfx1036, so the module is devmod's own.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from devmod.backend import environment_text
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring.clang_build import LlvmToolchain, split_option

DEVICE_LIBS = "-device-libs="
_PLACE = "DEVMOD_ROCM_DEVICE_LIBS"
#: The two modules, with the suffixes of Debian and of AMD's own packages.
_MODULES = ("ocml", "ockl")
_SUFFIXES = (".bc", ".amdgcn.bc")
_CONTROL = "devmod_control"
#: Where to get the library, for errors.
ADVICE = (
    f"name the folder of ROCm's device library with the option {DEVICE_LIBS}FOLDER or the environment variable {_PLACE} (Debian and "
    "Ubuntu: apt install rocm-device-libs, /usr/lib/x86_64-linux-gnu/amdgcn/bitcode; Debian 13: rocm-device-libs-17, "
    "/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode; the wheel triton has it in triton/backends/amd/lib)"
)


def find_modules(folder: str) -> list[Path]:
    """Return the modules of the library in a folder, or in that of DEVMOD_ROCM_DEVICE_LIBS; [] if
    neither is set.

    Raises
    ------
    ToolchainNotFoundError
        The folder does not contain the library.
    """
    place = folder or environment_text(_PLACE)
    if not place:
        return []
    results = []
    for name in _MODULES:
        paths = [Path(place, name + suffix) for suffix in _SUFFIXES]
        path = next(filter(Path.is_file, paths), None)
        if path is None:
            source = f"{_PLACE}={place}"
            if folder:
                source = f"{DEVICE_LIBS}{place}"
            raise ToolchainNotFoundError(f"{source} has no {name}.bc; {ADVICE}", kind="rocm")
        results.append(path)
    return results


def dropped_print(request: CompileRequest, place: str) -> list[str]:
    """Return the warning about a print at a place of a source in another language than HIP; [] with
    the library, which prints.
    """
    if find_modules(split_option(request, DEVICE_LIBS)[1]):
        return []
    return [
        f"{place}: warning: printf prints nothing in a kernel: it needs ROCm's device library (docs/rocm.md)"
    ]


def describe_modules(modules: list[Path]) -> str:
    """Return the library with the digest of its modules, for an origin."""
    digest = hashlib.sha256()
    for path in modules:
        digest.update(path.read_bytes())
    return f"device library sha256:{digest.hexdigest()[:16]}"


def link_flags(
    modules: list[Path], arch: str, wave: int, toolchain: LlvmToolchain, folder: str
) -> list[str]:
    """Return clang's flags that link the library. The control module is written to the folder of
    the build.

    Raises
    ------
    CompileError
        clang cannot compile the control module.
    """
    if not modules:
        return []
    Path(folder, f"{_CONTROL}.ll").write_text(_control_module(arch, wave), encoding="utf-8")
    arguments = [
        "-x",
        "ir",
        "-target",
        "amdgcn-amd-amdhsa",
        "-nogpulib",
        "-emit-llvm",
        "-c",
        f"{_CONTROL}.ll",
        "-o",
        f"{_CONTROL}.bc",
    ]
    code, output = toolchain.clang(arguments, folder, "rocm")
    if code:
        raise CompileError(
            f"clang cannot compile the control module of ROCm's device library: {output}",
            kind="rocm",
            log=output,
        )
    flags = []
    for path in (*map(os.path.abspath, modules), f"{_CONTROL}.bc"):
        flags += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", path]
    return flags


def _control_module(arch: str, wave: int) -> str:
    constants = [
        ("finite_only_opt", "i8", 0),
        ("unsafe_math_opt", "i8", 0),
        ("daz_opt", "i8", 0),
        ("correctly_rounded_sqrt32", "i8", 1),
        ("wavefrontsize64", "i8", int(wave == 64)),
        ("ISA_version", "i32", isa_version(arch)),
        ("ABI_version", "i32", 600 if arch.endswith("-generic") else 500),
    ]
    lines = [
        f"@__oclc_{name} = linkonce_odr hidden local_unnamed_addr addrspace(4) constant {type_} {value}"
        for name, type_, value in constants
    ]
    return "\n".join(['target triple = "amdgcn-amd-amdhsa"', *lines, ""])


def isa_version(arch: str) -> int:
    """Return the number of an architecture in the device library: 11000 for gfx1100, 9010 for
    gfx90a.
    """
    generic = re.fullmatch(r"gfx(\d+)(?:-(\d))?-generic", arch)
    if generic:
        return int(generic[1]) * 1000 + int(generic[2] or 0) * 100
    digits = arch.partition(":")[0].removeprefix("gfx")
    return major_version(arch) * 1000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)


def major_version(arch: str) -> int:
    name = arch.partition(":")[0].removeprefix("gfx")
    if "generic" in name:
        return int(name.partition("-")[0])
    return int(name[:-2])
