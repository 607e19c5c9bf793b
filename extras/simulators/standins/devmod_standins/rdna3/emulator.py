"""The emulator: where it is, what it needs, and a launch with it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import warnings
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.drivers.build import CACHE
from devmod_simulators.drivers.worker_process import Failure

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
#: Texts of the emulator's instructions that are wrong for infinities, zeros and subnormal numbers,
#: or where a power of two is infinite or 0 and the product is not.
_CORRECTIONS = {
    # The emulator has no infinite constants of half, and none by their bits.
    "sign_out ? -INF.f16 : +INF.f16": "f32_to_f16(sign_out ? -INF.f32 : +INF.f32)",
    "16'F(0xfe00)": "f32_to_f16(NAN.f32)",
    "S0.f64 * 2.0 ** S1.i32": "S0.f64 * 2.0 ** (S1.i32 >> 1) * 2.0 ** (S1.i32 - (S1.i32 >> 1))",
    "S0.f32 * 2.0F ** S1.i32": "f64_to_f32(f32_to_f64(S0.f32) * 2.0 ** S1.i32)",
    "isNAN(64'F(S0.f32))) then\nD0.f32 = S0.f32\nelse\nD0.f32 = mantissa(S0.f32)": (
        "isNAN(64'F(S0.f32)) || S0.f32 == 0.0F) then\nD0.f32 = S0.f32\nelse\n"
        "D0.f32 = f64_to_f32(mantissa(f32_to_f64(S0.f32)))"
    ),
    "isNAN(64'F(S0.f32))) then\nD0.i32 = 0\nelse\nD0.i32 = exponent(S0.f32) - 127": (
        "isNAN(64'F(S0.f32)) || S0.f32 == 0.0F) then\nD0.i32 = 0\nelse\n"
        "D0.i32 = exponent(f32_to_f64(S0.f32)) - 1023"
    ),
}
#: V_DIV_SCALE as the manual has it, with the quotients that a comparison with DENORM stands for.
#: The emulator's own text gives NaN for a subnormal denominator. Where the quotient and 1 / S1 are
#: subnormal, the manual's product of the denominator and 2 ** SCALE would be infinite.
_DIV_SCALE = """\
VCC.u64[laneId] = 0
if S2.{T} == 0.0 || S1.{T} == 0.0 then
D0.{T} = NAN.{T}
elsif exponent(S2.{T}) - exponent(S1.{T}) >= {FAR} then
VCC.u64[laneId] = 1
D0.{T} = (S0.{T} == S1.{T}) ? ldexp(S0.{T}, {SCALE}) : S0.{T}
elsif isDENORM(S1.{T}) then
D0.{T} = ldexp(S0.{T}, {SCALE})
elsif isDENORM(1.0 / S1.{T}) && divWouldBeDenorm(S2.{T}, S1.{T}) then
VCC.u64[laneId] = 1
D0.{T} = (S0.{T} == S1.{T}) ? ldexp(S0.{T}, -{SCALE}) : S0.{T}
elsif isDENORM(1.0 / S1.{T}) then
D0.{T} = ldexp(S0.{T}, -{SCALE})
elsif divWouldBeDenorm(S2.{T}, S1.{T}) then
VCC.u64[laneId] = 1
D0.{T} = (S0.{T} == S2.{T}) ? ldexp(S0.{T}, {SCALE}) : S0.{T}
elsif exponent(S2.{T}) <= {TINY} then
D0.{T} = ldexp(S0.{T}, {SCALE})
else
D0.{T} = S0.{T}
endif"""
_DIV_SCALE_NUMBERS = {
    "f32": {"FAR": 96, "SCALE": 64, "TINY": 23},
    "f64": {"FAR": 768, "SCALE": 128, "TINY": 53},
}


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
    # Subnormal numbers are numbers, as code objects ask for. The emulator would take them for zero.
    emu._MXCSRContext = nullcontext
    # Its 16 registers of the hardware are the last ones of this count, and the one that it writes
    # would be the operand 248, which is the constant 1 / (2 * pi).
    emu.SGPR_COUNT += 16
    for instruction, text in emu.PCODE_RDNA3.items():
        for wrong, right in _CORRECTIONS.items():
            text = text.replace(wrong, right)
        emu.PCODE_RDNA3[instruction] = text
    emu._fix_div_scale = _div_scale
    # Each launch decodes its instructions, which takes longer than to execute a small kernel.
    emu.decode_inst = cache(emu.decode_inst)
    return rdna3.CodeObject


def _div_scale(_text: str, type_: str) -> str:
    """Return the text of V_DIV_SCALE for "f32" or "f64"."""
    return _DIV_SCALE.format(T=type_, **_DIV_SCALE_NUMBERS[type_])


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
    loaded = load()
    # The emulator's class loads a file into memory of its own. The image has its place here: the
    # rest is set.
    program = loaded.__new__(loaded)
    program.image = image
    program.symbols = {f"{kernel.name}.kd": (kernel.descriptor, 64)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.launch(kernel.name, arguments, dimensions[:3], dimensions[3:], shared)
    # A ValueError: registers that the emulator does not fill.
    except (RuntimeError, ValueError) as error:
        if "infinite loop" in str(error) or "scheduling rounds" in str(error):
            raise Failure(LAUNCH_TIMEOUT, f"the kernel does not end: {error}") from None
        raise Failure(NOT_SUPPORTED, str(error)) from None


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
