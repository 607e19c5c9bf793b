"""The execution of a launch: lanes in groups, the scheduler, calls, exits."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .barriers import Barriers
from .errors import PtxError
from .lanes import Frame, Lanes
from .memory import CODE_WINDOW, FUNCTION_PARAMETERS, HEAP, Arena, Heap, LaneMemory
from .ops_together import release_warps
from .program import Block, Branch, Call, Code, Jump, Leave, Program, Table
from .ptx_types import S64, U32, U64, Array

#: Lanes that execute at once, unless one block or a cooperative grid has more.
LANES = 1 << 16
#: Bytes of shared and of local memory of the lanes that execute at once.
LANE_BYTES = 1 << 28
#: Blocks of instructions with atomics or volatile loads that run before lanes that wait get a turn.
PATIENCE = 32
#: The same for other blocks of instructions.
LONG_PATIENCE = 1 << 16

#: Blocks of instructions that an execution runs before it counts as endless.
STEPS = 1 << 22
#: Bytes of local memory of a thread, with all the calls that it is in.
STACK_BYTES = 1 << 16
_WORKSPACE = 64

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """The configuration of a launch."""

    grid: Triple
    block: Triple
    parameters: bytes
    shared: int = 0  # bytes of dynamic shared memory
    cluster: Triple = (1, 1, 1)
    cooperative: bool = False


def run(program: Program, launch: Launch, arena: Arena) -> None:
    """Run a launch: as many blocks at a time as fit."""
    threads = int(np.prod(launch.block))
    cluster = int(np.prod(launch.cluster))
    blocks = int(np.prod(launch.grid))
    code = program.code(program.name)
    each = program.shared_size(launch.shared) + threads * code.frame_size
    at_once = max(1, min(LANES // threads, LANE_BYTES // max(each, 1)) // cluster) * cluster
    if launch.cooperative:
        at_once = blocks
    with np.errstate(all="ignore"):
        for start in range(0, blocks, at_once):
            Execution(program, launch, arena, range(start, min(start + at_once, blocks))).run()


class Execution:
    """The blocks of a launch that execute at once."""

    def __init__(self, program: Program, launch: Launch, arena: Arena, blocks: range) -> None:
        self.program = program
        self.launch = launch
        self.arena = arena
        self.blocks = blocks
        self.threads = int(np.prod(launch.block))
        self.count = len(blocks) * self.threads
        self.warps_per_block = -(-self.threads // 32)
        self.slots = len(blocks) * self.warps_per_block * 32
        lane = np.arange(self.count, dtype=S64)
        self.columns: dict[str, Array] = {"lanes": lane}
        self.shared = LaneMemory("shared", len(blocks), program.shared_size(launch.shared))
        self.parameters = LaneMemory("parameter", 1, len(launch.parameters))
        self.parameters.bytes[: len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
        root = program.code(program.name)
        self.local = LaneMemory("local", self.count, root.frame_size)
        self.alive = np.ones(self.count, bool)
        self.alive_count = self.count
        self.alive_bits_now: Array | None = None
        self.ready: dict[tuple[Frame, int], Lanes] = {}
        self.waiting_since: dict[tuple[Frame, int], int] = {}
        self.parked: dict[tuple[Frame, int], Lanes] = {}
        self.barriers = Barriers(self)
        self.steps = 0
        self.workspace = 0
        if launch.cooperative:
            arena.heap = arena.heap or Heap()
            self.workspace = arena.heap.allocate(_WORKSPACE)
            start = self.workspace - HEAP
            arena.heap.bytes[start : start + _WORKSPACE] = 0
        self.start = time.monotonic_ns()
        frame = Frame(self, root, lane, 0)
        self.add(Lanes(frame, None), 0)

    # Columns: values of each lane that do not change

    def column(self, name: str) -> Array:
        """Return an array with an element for each lane, or with one element if it is the same for all."""
        if name not in self.columns:
            self.columns[name] = self.make_column(name)
        return self.columns[name]

    def make_column(self, name: str) -> Array:
        """Compute a column."""
        launch = self.launch
        base, _, axis = name.partition(".")
        sizes: dict[str, Triple] = {
            "ntid": launch.block, "nctaid": launch.grid, "cluster_nctaid": launch.cluster,
            "nclusterid": tuple(a // b for a, b in zip(launch.grid, launch.cluster, strict=True)),  # type: ignore[dict-item]
        }  # fmt: skip
        if base in sizes:
            return np.array([sizes[base]["xyz".index(axis)]], U32)
        lane = self.columns["lanes"]
        thread = lane % self.threads
        block = lane // self.threads
        numbers = block + self.blocks.start
        in_cluster = int(np.prod(launch.cluster))
        place = {
            "tid": (thread, launch.block),
            "clusterid": (numbers // in_cluster, sizes["nclusterid"]),
            "cluster_ctaid": (numbers % in_cluster, launch.cluster),
        }
        if base in place:
            index, extent = place[base]
            position = "xyz".index(axis)
            if extent[position] == 1:
                return np.zeros(1, U32)
            return (index // int(np.prod(extent[:position], dtype=int)) % extent[position]).astype(U32)
        if base == "ctaid":
            length = launch.cluster["xyz".index(axis)]
            outer, inner = self.column(f"clusterid.{axis}"), self.column(f"cluster_ctaid.{axis}")
            return np.asarray(outer * U32.type(length) + inner, U32)
        if name.startswith("envreg"):
            # The cooperative groups of CUDA's headers find the barrier of the grid through these two.
            return np.array([{1: self.workspace >> 32, 2: self.workspace}.get(int(name[6:]), 0) & 0xFFFFFFFF], U32)
        laneid = (thread % 32).astype(U32)
        one = np.ones(1, U32)
        special: dict[str, Any] = {
            "block": lambda: block,
            "slot": lambda: block * (self.warps_per_block * 32) + thread,
            "warp": lambda: block * self.warps_per_block + thread // 32,
            "shared": lambda: block * self.shared.stride if len(self.blocks) > 1 else np.zeros(1, S64),
            "laneid": lambda: laneid,
            "warpid": lambda: (thread // 32).astype(U32),
            "nwarpid": lambda: np.array([64], U32),
            "smid": lambda: (block % 132).astype(U32),
            "nsmid": lambda: np.array([132], U32),
            "gridid": lambda: np.ones(1, U64),
            "cluster_ctarank": lambda: (numbers % in_cluster).astype(U32),
            "cluster_nctarank": lambda: np.array([in_cluster], U32),
            "is_explicit_cluster": lambda: np.array([in_cluster > 1]),
            "lanemask_eq": lambda: one << laneid,
            "lanemask_lt": lambda: (one << laneid) - one,
            "lanemask_le": lambda: (one << laneid) - one | (one << laneid),
            "lanemask_gt": lambda: ~((one << laneid) - one | (one << laneid)),
            "lanemask_ge": lambda: ~((one << laneid) - one),
            "dynamic_smem_size": lambda: np.array([launch.shared], U32),
            "total_smem_size": lambda: np.array([self.shared.size], U32),
            "aggr_smem_size": lambda: np.array([self.shared.size], U32),
            "reserved_smem_offset_begin": lambda: np.zeros(1, U32),
            "current_graph_exec": lambda: np.zeros(1, U64),
        }
        value: Array = special[name]()
        return value

    def clock(self, name: str) -> Array:
        """Return a clock, in nanoseconds."""
        now = time.time_ns() if name.startswith("globaltimer") else time.monotonic_ns() - self.start
        return np.array([now >> 32 if name.endswith("_hi") else now], U64)

    def describe(self, lane: int) -> str:
        """Return kernel, block and thread of a lane, for messages."""
        block, thread = (
            [int(self.column(f"{name}.{axis}")[lane if len(self.column(f"{name}.{axis}")) > 1 else 0]) for axis in "xyz"]
            for name in ("ctaid", "tid")
        )
        return f"kernel {self.program.name}, block ({', '.join(map(str, block))}), thread ({', '.join(map(str, thread))})"

    # The scheduler

    def add(self, lanes: Lanes, number: int) -> None:
        """Make lanes ready to run a block; they join those that are ready there."""
        key = (lanes.frame, number)
        other = self.ready.get(key)
        if other is None:
            self.ready[key] = lanes
            self.waiting_since[key] = self.steps
        else:
            self.ready[key] = self.join(other, lanes, number)

    def join(self, first: Lanes, second: Lanes, number: int) -> Lanes:
        """Return the lanes of two groups of a frame that are at one block."""
        frame = first.frame
        live = frame.code.blocks[number].live
        first.flush(live)
        second.flush(live)
        assert first.index is not None
        assert second.index is not None
        total = first.count + second.count
        if total == frame.count:
            return Lanes(frame, None)
        if total < frame.count >> 4:
            index = np.sort(np.concatenate([first.index, second.index]))
        else:
            present = np.zeros(frame.count, bool)
            present[first.index] = True
            present[second.index] = True
            index = np.flatnonzero(present)
        return Lanes(frame, index)

    def split(self, lanes: Lanes, chosen: Array, live: int) -> tuple[Lanes, Lanes]:
        """Return the lanes where `chosen` is true and the others."""
        lanes.flush(live)
        yes, no = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        if lanes.index is not None:
            yes, no = lanes.index[yes], lanes.index[no]
        return Lanes(lanes.frame, yes), Lanes(lanes.frame, no)

    def pick(self, patience: int) -> tuple[Frame, int]:
        """Return the place to run next: the first block of the deepest call, or the one that has waited for too long."""
        ready = self.ready
        if len(ready) == 1:
            return next(iter(ready))
        if patience <= 0:
            return min(ready, key=self.waiting_since.__getitem__)
        return min(ready, key=lambda key: (-key[0].depth, key[0].serial, key[1]))

    def run(self) -> None:
        """Run until all lanes have left."""
        patience = LONG_PATIENCE
        while True:
            if not self.ready:
                if not self.parked and not self.barriers.waiting:
                    break
                self.resume()
            key = self.pick(patience)
            if patience <= 0:
                patience = LONG_PATIENCE
            lanes = self.ready.pop(key)
            frame, number = key
            block = frame.code.blocks[number]
            self.steps += 1
            if self.steps > STEPS:
                raise PtxError(
                    "CUDA_ERROR_LAUNCH_TIMEOUT", f"the kernel does not end: it ran {STEPS} blocks of instructions, {lanes.describe(0)}"
                )
            patience -= LONG_PATIENCE // PATIENCE if block.spins else 1
            if not self.ready:
                patience = LONG_PATIENCE
            if lanes.index is not None:
                lanes.load(block.reads)
                lanes.dirty |= block.writes
            for step in block.steps:
                step(lanes)
            self.finish(frame, block, lanes)
        if self.workspace and self.arena.heap is not None:
            self.arena.heap.release(self.workspace)

    def resume(self) -> None:
        """Let lanes that wait for others of their warp try again: some of those may have left."""
        parked, self.parked = self.parked, {}
        before = sum(lanes.count for lanes in parked.values())
        for (_, number), lanes in parked.items():
            self.finish(lanes.frame, lanes.frame.code.blocks[number], lanes)
        if self.ready or self.barriers.release() or sum(lanes.count for lanes in self.parked.values()) != before:
            return
        if not release_warps(self):
            self.deadlock()

    def deadlock(self) -> None:
        """Raise the error for lanes that wait for ever."""
        waiting = [*self.parked.values(), *self.barriers.groups()]
        lanes = waiting[0]
        raise PtxError(
            "CUDA_ERROR_LAUNCH_TIMEOUT",
            f"{sum(each.count for each in waiting)} threads wait at a barrier or a warp operation that other threads never reach, {lanes.describe(0)}",
        )

    def finish(self, frame: Frame, block: Block, lanes: Lanes) -> None:
        """Execute the end of a block."""
        end = block.end
        if isinstance(end, Jump):
            self.add(lanes, block.next)
        elif isinstance(end, Branch):
            self.branch(block, end, lanes)
        elif isinstance(end, Table):
            self.table(block, end, lanes)
        elif isinstance(end, Leave):
            self.leave(end, lanes)
        elif isinstance(end, Call):
            self.call(block, end, lanes)
        else:
            end.run(self, block, lanes)

    def branch(self, block: Block, end: Branch, lanes: Lanes) -> None:
        """Execute a conditional branch."""
        holds = lanes.r[end.guard]
        if end.negated:
            holds = ~holds
        number = int(np.count_nonzero(holds))
        if number == len(holds):
            self.add(lanes, block.taken)
        elif not number:
            self.add(lanes, block.next)
        else:
            blocks = lanes.frame.code.blocks
            taken, others = self.split(lanes, holds, blocks[block.taken].live | blocks[block.next].live)
            self.add(taken, block.taken)
            self.add(others, block.next)

    def table(self, block: Block, end: Table, lanes: Lanes) -> None:
        """Execute an indexed branch."""
        index = end.index(lanes)
        for value in np.unique(index):
            if int(value) >= len(block.targets):
                raise PtxError("CUDA_ERROR_ILLEGAL_INSTRUCTION", f"the index {int(value)} of brx.idx is out of range, {lanes.describe(0)}")
        if len(index) == 1:
            self.add(lanes, block.targets[int(index[0])])
            return
        live = 0
        for target in block.targets:
            live |= lanes.frame.code.blocks[target].live
        lanes.flush(live)
        for value in np.unique(index):
            self.add(lanes.select(np.flatnonzero(index == value), []), block.targets[int(value)])

    def leave(self, end: Leave, lanes: Lanes) -> None:
        """Execute a return, an exit or a trap."""
        if end.kind == "trap":
            raise PtxError("CUDA_ERROR_ILLEGAL_INSTRUCTION", f"the kernel executed a trap instruction, {lanes.describe(0)}")
        frame = lanes.frame
        if end.kind == "exit" or frame.parent is None:
            self.alive[lanes.lanes] = False
            self.alive_count -= lanes.count
            self.alive_bits_now = None
            self.barriers.leave(lanes)
            return
        parent = frame.parent
        assert frame.parent_index is not None
        index = frame.parent_index if lanes.index is None else frame.parent_index[lanes.index]
        back = Lanes(parent, None if len(index) == parent.count else index)
        for name, variable in zip(frame.results, frame.code.function.results, strict=True):
            self.copy_local(lanes, frame, variable.name, parent, name, variable.size)
        self.add(back, frame.return_block)

    # Calls

    def local_place(self, frame: Frame, name: str) -> int:
        """Return where a parameter of a device function is in the local memory of a lane."""
        return frame.base + (frame.code.layout[name][1] & (FUNCTION_PARAMETERS - 1))

    def copy_local(self, lanes: Lanes, source: Frame, source_name: str, target: Frame, target_name: str, size: int) -> None:
        """Copy a parameter between two frames of the lanes."""
        table = self.local.bytes.reshape(self.count, self.local.stride)
        start, stop = self.local_place(source, source_name), self.local_place(target, target_name)
        table[lanes.lanes, stop : stop + size] = table[lanes.lanes, start : start + size]

    def call(self, block: Block, end: Call, lanes: Lanes) -> None:
        """Call a device function: its lanes get a frame of their own."""
        lanes.flush(lanes.frame.code.blocks[block.next].live)
        if end.pointer is None:
            self.enter(block, end, lanes, end.name)
            return
        pointer = end.pointer(lanes)
        names = self.program.module.numbers
        for value in np.unique(pointer):
            number, remainder = divmod(int(value) - CODE_WINDOW, 16)
            if remainder or not 0 <= number < len(names) or not self.program.module.text.functions[names[number]].body:
                raise PtxError("CUDA_ERROR_LAUNCH_FAILED", f"a call goes to 0x{int(value):x}, which is no function, {lanes.describe(0)}")
            part = lanes if len(pointer) == 1 else lanes.select(np.flatnonzero(pointer == value), [])
            self.enter(block, end, part, names[number])

    def enter(self, block: Block, end: Call, lanes: Lanes, name: str) -> None:
        """Make the frame of a call."""
        caller = lanes.frame
        code: Code = self.program.code(name)
        frame = Frame(self, code, lanes.lanes, caller.base + caller.code.frame_size)
        frame.depth = caller.depth + 1
        frame.parent = caller
        frame.parent_index = np.arange(caller.count) if lanes.index is None else lanes.index
        frame.return_block = block.next
        frame.results = end.results
        size = frame.base + code.frame_size
        if size > self.local.size:
            if size > STACK_BYTES:
                raise PtxError(
                    "CUDA_ERROR_LAUNCH_FAILED", f"the stack of a thread overflows at {size} bytes in {name}, {lanes.describe(0)}"
                )
            self.local.grow(size + size // 2, self.count)
        for argument, variable in zip(end.arguments, code.function.params, strict=False):
            self.copy_local(lanes, caller, argument, frame, variable.name, variable.size)
        self.add(Lanes(frame, None), 0)
