"""The emulator: where it is, what it needs, and a launch with it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import sys
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.drivers.build import CACHE
from devmod_simulators.drivers.worker_process import Failure
from devmod_standins.rdna3.corrections import correct

if TYPE_CHECKING:
    from devmod_standins.rdna3.code_object import CodeObject, Kernel

VARIABLE = "DEVMOD_RDNA3_EMULATOR"
TARGET = "gfx1100"
_BESIDE = Path(__file__).resolve().parents[6] / "shared" / "emulators" / "rdna3"
#: What the emulator compiles for each instruction is kept here: `make clean` removes it.
_CACHE = CACHE / "rdna3"
LAUNCH_TIMEOUT = 702
NOT_SUPPORTED = 801
_GL0_INVALIDATE = 0xE0AC0000
_GL1_INVALIDATE = 0xE0B00000
_NOP = 0xBF800000
#: What a kernel takes in registers: the bits of the properties in its descriptor.
_REGISTERS = 0x7F
_DISPATCH_POINTER = 2
_ARGUMENTS_POINTER = 8
#: The field of a kernel's settings that has its local memory, in units of 512 bytes.
_LDS_AT = 15
_LDS = 0x1FF


def folder() -> Path:
    """Return the folder of the emulator."""
    return Path(os.environ.get(VARIABLE) or _BESIDE)


def missing() -> str:
    """Return the reason why the emulator cannot run here; "" if it can."""
    if not (folder() / "rdna3.py").exists():
        return f"there is no emulator of RDNA3 here; {VARIABLE} names the folder of one"
    for name in ("tinygrad", "elftools", "ziglang"):
        if importlib.util.find_spec(name) is None:
            return f"the emulator of RDNA3 needs {name}, which is not installed"
    return ""


def _compiler() -> Path:
    """Return a program that is zig's clang: the emulator compiles a C function for each
    instruction.
    """
    spec = importlib.util.find_spec("ziglang")
    assert spec is not None
    assert spec.origin is not None
    path = _CACHE / "cc"
    text = f'#!/bin/sh\nexec "{Path(spec.origin).with_name("zig")}" clang "$@"\n'
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"cc-{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(path)
    return path


def environment() -> dict[str, str]:
    """Return the environment variables that the emulator reads: its compiler, and where it keeps
    what it has compiled.
    """
    variables = {"CC": str(_compiler()), "CACHEDB": str(_CACHE / "instructions.db")}
    return variables | dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(_CACHE))


@cache
def load() -> Any:
    """Return the emulator's class of loaded code objects."""
    reason = missing()
    if reason:
        raise Failure(NOT_SUPPORTED, reason)
    os.environ.update(environment())
    sys.path.insert(0, str(folder()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _keep_programs()
        import rdna3  # type: ignore[import-not-found]  # this repository does not contain it
        from test.mockgpu.amd import emu  # type: ignore[import-not-found]  # this neither
    correct(emu)
    # Each launch decodes its instructions, which takes longer than to execute a small kernel.
    emu.decode_inst = cache(emu.decode_inst)
    return rdna3.CodeObject


def _keep_programs() -> None:
    """Keep on the disk what tinygrad makes of each instruction, and of its own functions. It takes
    0.1 s each, and each process would make the same.
    """
    import tinygrad.codegen
    from tinygrad.helpers import diskcache_get, diskcache_put
    from tinygrad.renderer import Renderer
    from tinygrad.uop import Ops
    from tinygrad.uop.ops import UOp

    make = tinygrad.codegen.do_to_program
    table = f"devmod_programs_{version('tinygrad')}"

    def kept(ast: UOp, renderer: Renderer) -> UOp:
        key = hashlib.sha256(
            repr(tinygrad.codegen.to_program_key(ast, renderer)).encode()
        ).hexdigest()
        program: UOp | None = diskcache_get(table, key)
        if program is None:
            made = make(ast, renderer)
            _, lines, source, binary = made.src
            # A launch needs the parameters and the binary.
            parameters = lines.replace(
                src=tuple(line for line in lines.src if line.op is Ops.PARAM)
            )
            program = made.replace(src=(UOp(Ops.SINK), parameters, source, binary))
            diskcache_put(table, key, program)
        return program

    tinygrad.codegen.do_to_program = kept


def launch(
    code: CodeObject,
    image: np.ndarray[Any, Any],
    kernel: Kernel,
    dimensions: tuple[int, ...],
    shared: int,
    arguments: bytes,
) -> None:
    """Execute a kernel: `image` is the loaded code object, `dimensions` the grid and the block."""
    if not code.target.startswith(TARGET):
        raise Failure(
            NOT_SUPPORTED,
            f"the emulator executes code for {TARGET} alone; this is for {code.target}",
        )
    load()
    from test.mockgpu.amd import emu

    header = image.data
    lds, private = struct.unpack_from("<II", header, kernel.descriptor)
    (entry,) = struct.unpack_from("<q", header, kernel.descriptor + 16)
    (settings,) = struct.unpack_from("<I", header, kernel.descriptor + 52)
    (properties,) = struct.unpack_from("<H", header, kernel.descriptor + 56)
    if properties & _REGISTERS & ~(_DISPATCH_POINTER | _ARGUMENTS_POINTER):
        raise Failure(
            NOT_SUPPORTED,
            f"the kernel takes registers that the emulator does not fill (properties {properties:#x})",
        )
    memory = np.frombuffer(arguments, np.uint8).copy()
    packet = np.frombuffer(_dispatch_packet(dimensions, private, lds + shared), np.uint8).copy()
    registers: list[int] = []
    if properties & _DISPATCH_POINTER:
        registers += _halves(packet.ctypes.data)
    registers += _halves(memory.ctypes.data)
    settings = settings & ~(_LDS << _LDS_AT) | (lds + shared + 511) // 512 << _LDS_AT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            emu.run_asm(
                image.ctypes.data + kernel.descriptor + entry,
                len(image),
                *dimensions,
                memory.ctypes.data,
                rsrc2=settings,
                scratch_size=private,
                user_data=registers,
            )
    except (RuntimeError, ValueError) as error:
        if "infinite loop" in str(error) or "scheduling rounds" in str(error):
            raise Failure(LAUNCH_TIMEOUT, f"the kernel does not end: {error}") from None
        raise Failure(NOT_SUPPORTED, str(error)) from None


def _halves(address: int) -> list[int]:
    """Return the two registers that have an address."""
    return [address & 0xFFFFFFFF, address >> 32]


def _dispatch_packet(dimensions: tuple[int, ...], private: int, shared: int) -> bytes:
    """Return the packet of a launch as a queue of HSA has it. LLVM reads the block's size there
    where it moves an array of a thread to shared memory.
    """
    grid, block = dimensions[:3], dimensions[3:]
    threads = [blocks * size for blocks, size in zip(grid, block, strict=True)]
    head = struct.pack("<2H4H", 0, 3, *block, 0)
    return head + struct.pack("<5I4Q", *threads, private, shared, 0, 0, 0, 0)


def prepare(code: CodeObject, image: np.ndarray[Any, Any]) -> None:
    """Replace instructions that invalidate caches, of which there are none, by such that do
    nothing.
    """
    for offset, size in code.code_ranges():
        words = image[offset : offset + size // 4 * 4].view("<u4")
        places = np.flatnonzero(
            np.isin(words[:-1], (_GL0_INVALIDATE, _GL1_INVALIDATE))
            & np.isin(words[1:], (0, 0x80000000))
        )
        words[places] = words[places + 1] = _NOP
