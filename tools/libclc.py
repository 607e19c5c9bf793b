"""Write the bitcode of OpenCL C's built-in functions for devmod-targets: the libclc of Debian's
package, with devmod's corrections.

    apt-get install libclc-22
    python tools/libclc.py [FOLDER] [--check]

FOLDER is that of libclc's bitcode, /usr/lib/clc by default. With --check, nothing is written, and
the exit code is 1 if devmod-targets has other files. The clang is that of the wheel ziglang, whose
version the record has.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from devmod_targets.authoring.zig import run_zig, toolchain
from environments import ROOT

#: Its LLVM is at most that of the ziglang which the extras for OpenCL C require.
PACKAGE = "libclc-22"
#: The libraries, and clang's flags for their targets.
LIBRARIES = {
    "nvptx64--": ("-target", "nvptx64-nvidia-cuda"),
    "amdgcn-amd-amdhsa": (
        "-target",
        "amdgcn-amd-amdhsa",
        "-nogpulib",
        "-Xclang",
        "-mcode-object-version=none",
    ),
}
CORRECTIONS = ROOT / "tools" / "libclc_corrections.cl"
HEADER = ROOT / "compilers/targets/src/devmod_targets/opencl/headers/opencl-c-base.h"
#: The prefix of libclc's own functions in the corrections.
_PREFIX = "libclc_"
#: AMD's function for an OpenCL driver's packet, whose sizes HIP's hidden arguments have too.
_PACKET = ("@llvm.amdgcn.dispatch.ptr(", "@devmod_packet(")
#: The hidden arguments that a function does not use. LLVM infers them anew.
_UNUSED = re.compile(r' "amdgpu-no-[a-z0-9-]+"')
_DEFINED = re.compile(r"^define (?!internal)[^@\n]*@(\w+)\(", re.MULTILINE)
_BODY = re.compile(
    r"^define (?P<head>[^@\n]*@(?P<name>\w+)\([^\n]*\)) [^\n)]*\{\n.*?^\}$",
    re.MULTILINE | re.DOTALL,
)
_MANGLED = re.compile(r"_Z(\d+)(\w+)")
TARGET = ROOT / "compilers" / "targets" / "src" / "devmod_targets" / "libclc"


def package_version() -> str:
    """Return the version of the installed package, such as 1:22.1.8-1~deb12u1."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(f"{PACKAGE} is not installed: apt-get install {PACKAGE}") from None


def files(folder: Path, version: str) -> dict[str, bytes]:
    """Return the files of devmod-targets by name: the libraries and their record."""
    number = re.search(r"\d+\.\d+\.\d+", version)
    if number is None:
        raise SystemExit(f"{version!r} has no version of LLVM")
    libraries = {}
    result = {}
    for name in LIBRARIES:
        data = corrected((folder / f"{name}.bc").read_bytes(), LIBRARIES[name])
        libraries[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        result[f"{name}.bc.xz"] = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    record = {
        "version": number[0],
        "package": f"{PACKAGE} {version}",
        "compiler": toolchain(),
        "corrections": corrections_digest(),
        "libraries": libraries,
    }
    result["record.json"] = (json.dumps(record, indent=2) + "\n").encode()
    return result


def corrections_digest() -> str:
    """Return the digest of the corrections."""
    return hashlib.sha256(CORRECTIONS.read_bytes()).hexdigest()


def corrected(library: bytes, target: Sequence[str]) -> bytes:
    """Return the bitcode of a library with the corrections in place of its own functions."""
    common = ("clang", *target, "-Wno-override-module", "-Xclang", "-disable-llvm-passes")
    source = ("-x", "cl", "-cl-std=CL3.0", "-Xclang", "-finclude-default-header", "-O2", "-w")
    ir = ("-x", "ir", "-emit-llvm")
    text = _clang([*common, *ir, "-S"], library).decode()
    extensions = ("-Xclang", "-cl-ext=+cl_khr_fp64,+cl_khr_fp16")
    flags = [*common, *source, *extensions, "-emit-llvm"]
    corrections = CORRECTIONS.read_bytes()
    own = _clang([*flags, "-S"], corrections).decode()
    renamed = _without(text, _DEFINED.findall(own), own)
    rest = _clang([*common, *ir, "-c"], renamed.encode())
    link = ("-Xclang", "-mlink-bitcode-file", "-Xclang", "library.bc")
    return _clang([*flags, *link, "-c"], corrections, {"library.bc": rest})


def _without(text: str, replaced: Sequence[str], corrections: str) -> str:
    """Return a library in LLVM IR text without functions that the corrections define. Those
    that the corrections call have a prefix in their names.
    """
    called = set(re.findall(r"@(\w+)\(", corrections))
    names = {}
    for symbol in replaced:
        original = _MANGLED.sub(_with_prefix, symbol)
        if original in called:
            names[symbol] = original
    removed = set(replaced) - set(names)

    def declared(definition: re.Match[str]) -> str:
        if definition["name"] in removed:
            return _declaration(definition)
        return definition[0]

    text = _BODY.sub(declared, _UNUSED.sub("", text.replace(*_PACKET)))
    return re.sub(r"(?<=@)_Z\w+", lambda match: names.get(match[0], match[0]), text)


def _declaration(definition: re.Match[str]) -> str:
    words = re.sub(r"\b(?:dso_local|hidden) ", "", definition["head"])
    return f"declare {words}"


def _with_prefix(match: re.Match[str]) -> str:
    length = int(match[1])
    return f"_Z{length + len(_PREFIX)}{_PREFIX}{match[2]}"


def _clang(
    arguments: Sequence[str], source: bytes, files: Mapping[str, bytes] = MappingProxyType({})
) -> bytes:
    """Return the output of clang for a source."""
    inputs = {"source": source, HEADER.name: HEADER.read_bytes(), **files}
    command = [*arguments, "-I.", "source", "-o", "output"]
    result = run_zig(command, inputs, "output", kind="opencl")
    if result.status:
        raise SystemExit(result.log)
    return result.output


def main() -> int:
    """Write the files and return the exit code."""
    arguments = [each for each in sys.argv[1:] if each != "--check"]
    folder = Path(arguments[0] if arguments else "/usr/lib/clc")
    written = files(folder, package_version())
    if "--check" not in sys.argv:
        for name, data in written.items():
            (TARGET / name).write_bytes(data)
        return 0
    other = [name for name, data in written.items() if (TARGET / name).read_bytes() != data]
    for name in other:
        print(f"{name} differs from that of the package")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
