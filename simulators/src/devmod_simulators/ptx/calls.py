"""Calls of device functions: each gives its lanes a frame of their own."""

from typing import TYPE_CHECKING

import numpy as np

from .errors import PtxError
from .lanes import Frame, Lanes
from .memory import CODE_WINDOW
from .program import Block, Call, Code

if TYPE_CHECKING:
    from .execution import Execution

#: Bytes of local memory of a thread, with all the calls that it is in.
STACK_BYTES = 1 << 16


def copy_local(execution: "Execution", lanes: Lanes, source: Frame, source_name: str, target: Frame, target_name: str, size: int) -> None:
    """Copy a parameter between two frames of the lanes."""
    start, stop = source.place(source_name), target.place(target_name)
    for table in execution.local.tables():
        table[lanes.lanes, stop : stop + size] = table[lanes.lanes, start : start + size]


def call(execution: "Execution", block: Block, end: Call, lanes: Lanes) -> None:
    """Call a device function: its lanes get a frame of their own."""
    lanes.flush(lanes.frame.code.blocks[block.next].live)
    if end.pointer is None:
        enter(execution, block, end, lanes, end.name)
        return
    pointer = end.pointer(lanes)
    names = execution.program.module.numbers
    for value in np.unique(pointer):
        number, remainder = divmod(int(value) - CODE_WINDOW, 16)
        if remainder or not 0 <= number < len(names) or not execution.program.module.text.functions[names[number]].body:
            raise PtxError("CUDA_ERROR_LAUNCH_FAILED", f"a call goes to 0x{int(value):x}, which is no function, {lanes.describe(0)}")
        part = lanes if len(pointer) == 1 else lanes.select(np.flatnonzero(pointer == value), [])
        enter(execution, block, end, part, names[number])


def enter(execution: "Execution", block: Block, end: Call, lanes: Lanes, name: str) -> None:
    """Make the frame of a call."""
    caller = lanes.frame
    code: Code = execution.program.code(name)
    frame = Frame(execution, code, lanes.lanes, caller.base + caller.code.frame_size)
    frame.depth = caller.depth + 1
    frame.parent = caller
    frame.parent_index = np.arange(caller.count) if lanes.index is None else lanes.index
    frame.return_block = block.next
    frame.results = end.results
    size = frame.base + code.frame_size
    if size > execution.local.size:
        if size > STACK_BYTES:
            raise PtxError("CUDA_ERROR_LAUNCH_FAILED", f"the stack of a thread overflows at {size} bytes in {name}, {lanes.describe(0)}")
        execution.local.grow(size + size // 2, execution.count)
    for argument, variable in zip(end.arguments, code.function.params, strict=False):
        copy_local(execution, lanes, caller, argument, frame, variable.name, variable.size)
    execution.add(Lanes(frame, None), 0)
