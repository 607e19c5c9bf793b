"""All operations: importing this file registers the decoders of every family."""

from . import (
    ops_atomic,
    ops_bits,
    ops_convert,
    ops_copy,
    ops_float,
    ops_integer,
    ops_logic,
    ops_mbarrier,
    ops_memory,
    ops_move,
    ops_system,
    ops_texture,
)
from .ops_system import is_system_call
from .ops_together import decode_together
from .ptx_types import Instruction

FAMILIES = (
    ops_atomic, ops_bits, ops_convert, ops_copy, ops_float, ops_integer, ops_logic, ops_mbarrier, ops_memory, ops_move, ops_system,
    ops_texture,
)  # fmt: skip
_SPINNING = ("atom.", "ld.volatile", "ld.relaxed", "ld.acquire", "nanosleep", "ld.weak", "mbarrier")


def may_spin(instruction: Instruction) -> bool:
    """Return whether a loop with this instruction can wait for other lanes."""
    return instruction.opcode.startswith(_SPINNING) or any(
        getattr(operand, "text", "") in ("%clock", "%clock64", "%globaltimer") for operand in instruction.operands
    )


__all__ = ["FAMILIES", "decode_together", "is_system_call", "may_spin"]
