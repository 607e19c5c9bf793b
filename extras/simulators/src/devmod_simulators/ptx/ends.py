"""What ends a block of instructions: jumps and branches, calls of device functions, returns and
exits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source
from devmod_simulators.ptx.lanes import Frame, Lanes
from devmod_simulators.ptx.memory import CODE_WINDOW
from devmod_simulators.ptx.ops_system import call_of
from devmod_simulators.ptx.ops_together import TOGETHER
from devmod_simulators.ptx.ptx_types import PRED, U32, U64, Register

if TYPE_CHECKING:
    from devmod_simulators.ptx.execution import Execution
    from devmod_simulators.ptx.program import Block

#: Bytes of local memory of a thread, with all the calls that it is in.
STACK_BYTES = 1 << 16


class Jump:
    """An end that goes to the next block."""

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> int:
        """Go there."""
        return block.next


@dataclass(frozen=True, slots=True)
class Branch:
    """An end that goes to `taken` where the predicate holds and to `next` elsewhere."""

    guard: int
    negated: bool

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> int | None:
        """Let lanes part, unless they go to one block together."""
        holds = lanes.r[self.guard]
        if len(holds) == 1:
            number = int(holds[0])
        else:
            number = int(np.count_nonzero(holds))
        where_holds = block.taken
        elsewhere = block.next
        if self.negated:
            where_holds = block.next
            elsewhere = block.taken
        if number == len(holds):
            return where_holds
        if not number:
            return elsewhere
        blocks = lanes.frame.code.blocks
        live = blocks[block.taken].live | blocks[block.next].live
        holding, others = execution.split(lanes, holds, live)
        execution.add(holding, where_holds)
        execution.add(others, elsewhere)
        return None


@dataclass(frozen=True, slots=True)
class Table:
    """An end that goes to one of `targets` by an index."""

    index: Source

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> None:
        """Let lanes part."""
        index = self.index(lanes)
        last = int(index.max())
        if last >= len(block.targets):
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION", f"the index {last} of brx.idx is out of range"
            )
        if len(index) == 1:
            execution.add(lanes, block.targets[last])
            return
        live = 0
        for target in block.targets:
            live |= lanes.frame.code.blocks[target].live
        lanes.flush(live)
        for value in np.unique(index):
            execution.add(
                lanes.select(np.flatnonzero(index == value), []), block.targets[int(value)]
            )


@dataclass(frozen=True, slots=True)
class Leave:
    """An end that returns, exits or traps."""

    kind: str

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> None:
        """Leave the function or the kernel."""
        if self.kind == "trap":
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION", "the kernel executed a trap instruction"
            )
        frame = lanes.frame
        if self.kind == "exit" or frame.parent is None:
            execution.alive[lanes.lanes] = False
            execution.alive_count -= lanes.count
            execution.alive_bits_now = None
            execution.barriers.leave(lanes)
            return
        index = frame.parent_index
        if lanes.index is not None:
            index = index[lanes.index]
        for name, variable in zip(frame.results, frame.code.function.results, strict=True):
            copy_local(lanes, frame, variable.name, frame.parent, name, variable.size)
        if len(index) == frame.parent.count:
            index = None
        execution.add(Lanes(frame.parent, index), frame.return_block)


@dataclass(frozen=True, slots=True)
class Call:
    """An end that calls a function: by its name, or by the address in `pointer`."""

    name: str
    pointer: Source | None
    results: list[str]
    arguments: list[str]

    def run(self, execution: "Execution", block: "Block", lanes: Lanes) -> None:
        """Call a device function: its lanes get a frame of their own."""
        lanes.flush(lanes.frame.code.blocks[block.next].live)
        if self.pointer is None:
            self.enter(execution, block, lanes, self.name)
            return
        pointer = self.pointer(lanes)
        module = execution.program.module
        for value in np.unique(pointer):
            number, remainder = divmod(int(value) - CODE_WINDOW, 16)
            if (
                remainder
                or not 0 <= number < len(module.numbers)
                or not module.text.functions[module.numbers[number]].body
            ):
                raise lanes.error(
                    "CUDA_ERROR_LAUNCH_FAILED",
                    f"a call goes to 0x{int(value):x}, which is no function",
                )
            part = lanes
            if len(pointer) > 1:
                part = lanes.select(np.flatnonzero(pointer == value), [])
            self.enter(execution, block, part, module.numbers[number])

    def enter(self, execution: "Execution", block: "Block", lanes: Lanes, name: str) -> None:
        """Make the frame of a call."""
        caller = lanes.frame
        code = execution.program.code(name)
        frame = Frame(execution, code, lanes.lanes, caller.base + caller.code.frame_size)
        frame.depth = caller.depth + 1
        frame.parent = caller
        frame.parent_index = lanes.index
        if lanes.index is None:
            frame.parent_index = np.arange(caller.count)
        frame.return_block = block.next
        frame.results = self.results
        size = frame.base + code.frame_size
        if size > execution.local.size:
            if size > STACK_BYTES:
                raise lanes.error(
                    "CUDA_ERROR_LAUNCH_FAILED",
                    f"the stack of a thread overflows at {size} bytes in {name}",
                )
            execution.local.grow(size + size // 2)
        for argument, variable in zip(self.arguments, code.function.params, strict=False):
            copy_local(lanes, caller, argument, frame, variable.name, variable.size)
        execution.add(Lanes(frame, None), 0)


def copy_local(
    lanes: Lanes, source: Frame, source_name: str, target: Frame, target_name: str, size: int
) -> None:
    """Copy a parameter between two frames of the lanes."""
    start = source.place(source_name)
    stop = target.place(target_name)
    for table in source.execution.local.tables():
        table[lanes.lanes, stop : stop + size] = table[lanes.lanes, start : start + size]


def _branch(decoder: Decoder) -> Any:
    guard = decoder.instruction.guard
    if guard is None:
        return Jump()
    decoder.register(guard, PRED)
    return Branch(guard.number, decoder.instruction.negated)


def _call(decoder: Decoder) -> Call:
    results, target, arguments = call_of(decoder.instruction)
    if isinstance(target, Register):
        return Call("", decoder.source(target, U64), results, arguments)
    function = decoder.program.module.text.functions.get(target.text)
    if function is None or not function.body:
        raise decoder.unsupported(f"the interpreter lacks the function {target.text!r}")
    return Call(target.text, None, results, arguments)


#: The decoders of instructions that end a block: what they do depends on other lanes, or they
#: change the flow.
ENDS: dict[str, Callable[[Decoder], Any]] = {
    "bra": _branch,
    "brx": lambda decoder: Table(decoder.source(0, U32)),
    **dict.fromkeys(("ret", "exit", "trap"), lambda decoder: Leave(decoder.root)),
    "call": _call,
    **TOGETHER,
}
