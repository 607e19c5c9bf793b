"""What `devmod inspect --disasm` shows: the assembly of payloads, by the disassemblers of wheels and of PATH."""

from __future__ import annotations

import os
from importlib.util import find_spec

from pluggy import HookimplMarker

from devmod.backend import environment_text, find_program, payload_of, temporary_folder
from devmod.errors import DevmodError, FormatError, ToolchainNotFoundError, pip_install
from devmod.worker import describe_exit
from devmod_readers.nvidia import fatbin_members
from devmod_targets.authoring._process import own_environment, run_program
from devmod_targets.cuda import _wheels
from devmod_targets.vulkan import _slangpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod import Module
    from devmod.backend import Binary

_FORMATS = ("cubin", "fatbin", "spv", "il", "hsaco", "so")
#: LLVM's program by its names in PATH: versioned ones are newer than the system's default.
_OBJDUMPS = (*(f"llvm-objdump-{version}" for version in range(24, 14, -1)), "llvm-objdump")
#: How to install one that knows the processors of today. No wheel of PyPI has one.
_INSTALL = "apt install llvm-19 (Debian 12 and Ubuntu 24.04, or later)"


@HookimplMarker("devmod")
def devmod_disassemble(module: Module) -> dict[str, dict[str, str]] | None:
    """Return the assembly of each part of a payload: its ``text``, or the ``problem`` why there is none; None for other formats."""
    payload = payload_of(module)
    if payload is None or (payload[1] not in _FORMATS and payload[1] not in payload[0].text_formats):
        return None
    spec, fmt, _, code = payload
    result = {}
    parts = {fmt: code} if isinstance(code, (bytes, memoryview)) else dict(code)
    for name, data in parts.items():
        try:
            for label, text in _texts(spec.kind, fmt, name, data, fmt in spec.text_formats):
                result[label] = {"text": text}
        except DevmodError as error:
            result[name] = {"problem": str(error)}
    return result


def _texts(kind: str, fmt: str, name: str, data: Binary, is_text: bool) -> Iterator[tuple[str, str]]:
    if is_text:
        yield name, str(bytes(data).rstrip(b"\0"), "utf-8", "replace")
    elif fmt == "fatbin":
        for member in fatbin_members(data):
            if member.kind in ("ptx", "cubin"):
                yield from _texts(kind, member.kind, f"{member.kind} {member.arch}", member.data, member.kind == "ptx")
    elif fmt == "spv":
        yield name, _spirv(name, bytes(data)[12:])  # behind TVM's header
    elif fmt == "il":
        yield name, _spirv(name, bytes(data))
    elif fmt == "cubin":
        yield name, _run([_nvdisasm(), "-c"], data, kind)
    else:
        try:
            yield name, _run([_objdump(kind), "-d"], data, kind)
        except FormatError as error:
            raise FormatError(f"{error}; an older LLVM does not have newer processors: {_INSTALL}", kind=kind) from None


def _nvdisasm() -> str:
    program = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    folder = _wheels.folder_of(os.path.join("bin", program))
    path = os.path.join(folder, "bin", program) if folder else find_program(program)
    if not path:
        raise ToolchainNotFoundError(f"a cubin is disassembled by nvdisasm, which is not installed: {pip_install('nvidia-cuda-nvdisasm')}")
    return path


def _objdump(kind: str) -> str:
    # ROCm's own has its devices, and is not in PATH.
    rocm = [os.path.join(folder, "llvm", "bin", "llvm-objdump") for folder in _rocm_folders()] if kind == "rocm" else []
    path = next(filter(None, map(find_program, (*rocm, *_OBJDUMPS))), "")
    if not path:
        raise ToolchainNotFoundError(f"{kind} code is disassembled by llvm-objdump, which is not in PATH: {_INSTALL}", kind=kind)
    return path


def _rocm_folders() -> Iterator[str]:
    """Yield the folders of ROCm: the one that ROCM_PATH names, that of AMD's packages, and that of AMD's wheel rocm-sdk-core."""
    yield environment_text("ROCM_PATH") or "/opt/rocm"
    spec = find_spec("_rocm_sdk_core")
    yield from (os.path.join(folder, "lib") for folder in (spec.submodule_search_locations if spec else None) or ())


def _spirv(name: str, data: bytes) -> str:
    library = _slangpy.find_library(name)
    if library is not None:
        text, messages, failure = library.disassemble(data)
        if failure:
            raise FormatError(f"slangpy cannot disassemble {name}: {failure}{messages and f': {messages.strip()}'}", kind="vulkan")
        return str(text, "utf-8", "replace")
    path = find_program("spirv-dis")
    if not path:
        raise ToolchainNotFoundError(
            f"SPIR-V is disassembled by spirv-dis, or by the wheel slangpy; none is installed: {pip_install('slangpy')}", kind="vulkan"
        )
    return _run([path, "--no-color"], data, "vulkan")


def _run(command: list[str], data: Binary, kind: str) -> str:
    """Return the output of a program for a file with the data."""
    name = os.path.basename(command[0])
    with temporary_folder() as folder:
        with open(os.path.join(folder, "input"), "wb") as file:
            file.write(data)
        status, output = run_program([*command, "input"], folder, name=name, kind=kind, environment=own_environment(folder))
    if status:
        # A program that crashes prints its stack and where to report it.
        why = output.strip() if status > 0 else ""
        raise FormatError(f"{name} cannot disassemble it: {why or f'it {describe_exit(status)}'}", kind=kind)
    return output
