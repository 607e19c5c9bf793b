"""Corrections of the emulator's instructions and launches."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import numpy as np

#: Texts of the emulator's instructions that are wrong for infinities, zeros and subnormal numbers,
#: or where a power of two is infinite or 0 and the product is not.
_CORRECTIONS = {
    # The emulator has no infinite constants of half, and none by their bits.
    "sign_out ? -INF.f16 : +INF.f16": "f32_to_f16(sign_out ? -INF.f32 : +INF.f32)",
    "16'F(0xfe00)": "f32_to_f16(NAN.f32)",
    # The emulator does not extend the sign of 24 bits.
    "64'I(S0.i24) * 64'I(S1.i24)) >> 32U": "64'I(S0.i32 << 8U) * 64'I(S1.i32 << 8U)) >> 48U",
    # It has 64 bits of the operands: a name that it does not know is an error of the launch.
    "DATA[127 : 64].u64": "THE_OTHER_64_BITS.u64",
    "S0.f64 * 2.0 ** S1.i32": "S0.f64 * 2.0 ** (S1.i32 >> 1) * 2.0 ** (S1.i32 - (S1.i32 >> 1))",
    # Its logarithm of float has an error of 3.1 ULP, where the hardware has 1.
    "log2(S0.f32)": "f64_to_f32(log2(f32_to_f64(S0.f32)))",
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
#: Sums and differences of pairs of integers of 16 bits.
_PAIRS = re.compile(r"V_PK_(?P<name>ADD|SUB)_(?P<type>[IU])16")
#: The register that has the offset of a relative register.
_M0 = 125


def correct(emu: Any) -> None:
    """Change the emulator's module."""
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
    _saturate_shorts(emu)
    _move_relative(emu)
    _take_ids(emu)
    _store_at_any_byte(emu)
    _load_at_any_byte(emu)
    _saturate_pairs(emu)


def _div_scale(_text: str, type_: str) -> str:
    """Return the text of V_DIV_SCALE for "f32" or "f64"."""
    return _DIV_SCALE.format(T=type_, **_DIV_SCALE_NUMBERS[type_])


def _saturate_shorts(emu: Any) -> None:
    """Let sums and differences of 16 bits with a sign be saturated. The emulator lets them wrap."""
    original, types = emu._int_clamp, emu.dtypes

    def saturated(name: str, sources: dict[str, Any]) -> Any:
        if name not in ("V_ADD_NC_I16", "V_SUB_NC_I16"):
            return original(name, sources)
        left, right = (
            (sources[each].cast(types.uint32) << 16).bitcast(types.int32) >> 16
            for each in ("S0", "S1")
        )
        result = left - right if "SUB" in name else left + right
        return (result.clamp(-(2**15), 2**15 - 1).cast(types.uint32) & 0xFFFF).cast(types.uint16)

    emu._int_clamp = saturated


def _move_relative(emu: Any) -> None:
    """Add V_MOVRELS_B32 and V_MOVRELD_B32, which read and write the register at an offset in M0."""
    for type_, original in [*emu._INST_HANDLERS.items()]:
        if type_ is emu.ir3.VOP1:
            emu._INST_HANDLERS[type_] = _relative_or(original, emu)


def _relative_or(original: Any, emu: Any) -> Any:
    def compiled(inst: Any, context: Any) -> Any:
        name = emu._op_name(inst)
        if name not in ("V_MOVRELS_B32_E32", "V_MOVRELD_B32_E32"):
            return original(inst, context)
        lane, mask = context.range(), context.rexec()
        source = context.inst_field(type(inst).src0)
        target = context.inst_field(type(inst).vdst)
        offset = context.rsgpr_dyn(emu._c(_M0))
        if name == "V_MOVRELS_B32_E32":
            source += offset
        else:
            target += offset
        value = context.rsrc_dyn(source, lane)
        store = context.wvgpr_dyn(target, lane, value, mask)
        return emu.UOp.sink(store.end(lane), *context.inc_pc())

    return compiled


def _take_ids(emu: Any) -> None:
    """Let a thread have the ids that its kernel asks for. The emulator gives all three, in one
    register, and a kernel of one dimension takes that register for the first one.
    """
    original = emu._init_wave

    def begin(*arguments: Any) -> Any:
        state = original(*arguments)
        dimensions = 1 + (arguments[7] >> 11 & 3)
        first_register = np.frombuffer(state._vgpr_mv, np.uint32)[: state.n_lanes]
        first_register &= (1 << 10 * dimensions) - 1
        return state

    emu._init_wave = begin


def _store_at_any_byte(emu: Any) -> None:
    """Let a word of 32 bits be stored at any byte of global memory. The emulator stores it at the
    address of the word where it begins.
    """
    original = emu._mem_store
    #: The stores of the instruction that is being compiled.
    earlier: list[Any] = []

    def store(
        memory: Any, address: Any, value: Any, active: Any, address_bits: int = 32, bits: int = 32
    ) -> list[Any]:
        if bits != 32 or address_bits != 64:
            parts: list[Any] = original(memory, address, value, active, address_bits, bits)
            return parts
        types, constant = emu.dtypes, emu._c
        word = address >> emu.UOp.const(2, types.uint64)
        place = (address.cast(types.uint32) & constant(3)) * constant(8)
        below = (constant(1) << place) - constant(1)
        is_split = active & (constant(0) < place)
        new = emu._to_u32(value)
        if earlier:
            # The next word begins where this one ends: within one word of the memory.
            memory = memory.after(*earlier)
        first = memory.index(word.valid(active))
        second = memory.index((word + emu.UOp.const(1, types.uint64)).valid(is_split))
        # A shift by 32 bits is undefined.
        rest = new >> constant(1) >> (constant(31) - place)
        low = first & below | new << place
        high = second & (below ^ constant(0xFFFFFFFF)) | rest
        earlier[:] = [
            first.store(active.where(low, first)),
            second.store(is_split.where(high, second)),
        ]
        return [*earlier]

    def from_the_start(compiler: Any) -> Any:
        def compiled(inst: Any, context: Any) -> Any:
            earlier.clear()
            return compiler(inst, context)

        return compiled

    emu._mem_store = store
    for type_, compiler in [*emu._INST_HANDLERS.items()]:
        emu._INST_HANDLERS[type_] = from_the_start(compiler)


def _load_at_any_byte(emu: Any) -> None:
    """Let 16 bits be loaded at any byte. The emulator loads them at the even byte before an odd
    one.
    """
    from test.mockgpu.amd.pcode import Parser  # type: ignore[import-not-found]  # nor this

    original, types = Parser._handle_mem_load, emu.dtypes

    def load(parser: Any, address: Any, type_: Any) -> Any:
        if type_ not in (types.uint16, types.int16):
            return original(parser, address, type_)
        low = original(parser, address, types.uint8)
        high = original(parser, address + emu.UOp.const(1, address.dtype), types.uint8)
        both = low.cast(types.uint32) | high.cast(types.uint32) << emu._c(8)
        return both.cast(types.uint16).bitcast(type_)

    Parser._handle_mem_load = load


def _saturate_pairs(emu: Any) -> None:
    """Let sums and differences of pairs of 16 bits be saturated where the instruction asks for it.
    The emulator lets them wrap.
    """
    for type_, original in [*emu._INST_HANDLERS.items()]:
        if type_ is emu.ir3.VOP3P:
            emu._INST_HANDLERS[type_] = _saturated_or(original, emu)


def _saturated_or(original: Any, emu: Any) -> Any:
    def compiled(inst: Any, context: Any) -> Any:
        match = _PAIRS.fullmatch(emu._op_name(inst))
        if not match or not inst.clmp:
            return original(inst, context)
        sign = "+" if match["name"] == "ADD" else "-"
        least, most = (-(2**15), 2**15 - 1) if match["type"] == "I" else (0, 2**16 - 1)
        lines = []
        for half in ("31 : 16", "15 : 0"):
            left, right = (
                f"32'I({each}[{half}].{match['type'].lower()}16)" for each in ("S0", "S1")
            )
            value = f"({left} {sign} {right})"
            lines.append(
                f"tmp[{half}].u16 = 16'U({value} < {least} ? {least} : {value} > {most} ? {most} : {value})"
            )
        text = ";\n".join([*lines, "D0.b32 = tmp.b32"])
        # It keeps the texts of instructions: with and without saturation, they are the same one.
        get_pcode, emu.get_pcode = emu.get_pcode, lambda _op: text
        try:
            return original(inst, context)
        finally:
            emu.get_pcode = get_pcode

    return compiled
