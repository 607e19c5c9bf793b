"""The execution of a launch: lanes in groups, the scheduler, calls, exits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.barriers import Barriers, Waiting
from devmod_simulators.ptx.columns import MOVING, Launch, make_column
from devmod_simulators.ptx.device_launches import Child, Children
from devmod_simulators.ptx.ends import Call
from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.lanes import Frame, Lanes
from devmod_simulators.ptx.memory import HEAP, Arena, LaneMemory
from devmod_simulators.ptx.ops_together import release_warps
from devmod_simulators.ptx.program import Block, Program
from devmod_simulators.ptx.ptx_types import U64, Array

#: Lanes that execute at once, unless one block or a cooperative grid has more.
LANES = 1 << 16
#: Bytes of shared and of local memory of the lanes that execute at once.
LANE_BYTES = 1 << 28
#: Blocks of instructions with atomics or volatile loads that run before lanes that wait get a turn.
PATIENCE = 32
#: The same for other blocks of instructions.
LONG_PATIENCE = 1 << 16

#: The setting that has the time in which threads may wait for others, and how many times as long
#: an execution may run: one that computes makes progress.
SETTING = "DEVMOD_STANDIN_KERNEL_SECONDS"
TOTAL = 10
_WORKSPACE = 64


def run(
    program: Program,
    launch: Launch,
    arena: Arena,
    execution: "type[Execution] | None" = None,
    switch: Callable[[int], bool] | None = None,
) -> None:
    """Run a launch: as many blocks at a time as fit. `switch` may run those from one on, and
    returns whether it did.
    """
    threads = math.prod(launch.block)
    cluster = math.prod(launch.cluster)
    blocks = math.prod(launch.grid)
    code = program.code(program.name)
    each = program.shared_size(launch.shared) + threads * code.frame_size
    lanes = LANES
    if any(isinstance(block.end, Call) for block in code.blocks):
        # The stacks of threads grow while they run, up to STACK_BYTES each.
        lanes >>= 3
    at_once = max(1, min(lanes // threads, LANE_BYTES // max(each, 1)) // cluster) * cluster
    if launch.cooperative:
        at_once = blocks
    maker = execution or Execution
    arena.children = Children({}, [])
    began = time.monotonic()
    with np.errstate(all="ignore"):
        for start in range(0, blocks, at_once):
            if start and switch is not None and switch(start):
                break
            part = range(start, min(start + at_once, blocks))
            blocks_of_part = maker(program, launch, arena, part)
            blocks_of_part.began = began
            blocks_of_part.run()
    for child in arena.children.take():
        run(maker.child(program, child, arena), child.launch, arena, execution)


def time_limit_text(launch: Launch, waited: float, ran: float) -> str:
    """Return why a kernel takes too long, which has waited for other threads and run for some
    seconds; "" if it does not.
    """
    limit = launch.seconds
    if not limit:
        return ""
    origin = f"the limit that {SETTING} sets"
    if launch.is_last:
        origin = f"the limit at the end of a program, less than {SETTING} sets"
    if waited > limit:
        return f"its threads have waited for others for {limit} s, {origin}"
    if ran > TOTAL * limit:
        return f"it has run for {TOTAL * limit} s, {TOTAL} times {origin}"
    return ""


class Execution:
    """The blocks of a launch that execute at once."""

    # Checks have others.
    memory: Any = LaneMemory
    make_barriers: Any = Barriers
    #: Whether something looks at each access, and at lanes that go to a block.
    checks = False

    @staticmethod
    def child(program: Program, child: Child, arena: Arena) -> Program:
        """Return the program of a kernel that another one has launched."""
        return program.module.program(child.kernel.name)

    def __init__(self, program: Program, launch: Launch, arena: Arena, blocks: range) -> None:
        self.program = program
        self.launch = launch
        self.arena = arena
        self.blocks = blocks
        self.threads = math.prod(launch.block)
        self.count = len(blocks) * self.threads
        self.warps_per_block = -(-self.threads // 32)
        self.slots = len(blocks) * self.warps_per_block * 32
        #: Columns by name, and those of every execution of as many blocks of this form, which the
        #: program keeps.
        self.columns: dict[str, Array] = {}
        form = (launch.grid, launch.block, launch.cluster, launch.shared, len(blocks))
        if program.columns[0] != form:
            program.columns = form, {}
        self.kept: dict[str, Array] = program.columns[1]
        lane = self.column("lanes")
        self.shared = self.memory("shared", len(blocks), program.shared_size(launch.shared), self)
        self.parameters = self.memory("parameter", 1, len(launch.parameters), self)
        self.parameters.bytes[: len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
        root = program.code(program.name)
        self.local = self.memory("local", self.count, root.frame_size, self)
        self.alive = np.ones(self.count, bool)
        self.alive_count = self.count
        self.alive_bits_now: Array | None = None
        self.ready: dict[tuple[Frame, int], list[Lanes]] = {}
        self.waiting_since: dict[tuple[Frame, int], int] = {}
        #: Where instructions access memory, if they do so for few lanes.
        self.windows: dict[Any, Any] = {}
        self.parked: dict[tuple[Frame, int], Lanes] = {}
        self.barriers = self.make_barriers(self)
        self.steps = 0
        #: The values of the latest store, for checks.
        self.stored: list[Array] = []
        self.workspace = 0
        if launch.cooperative:
            arena.heap = arena.heap or arena.make_heap()
            self.workspace = arena.heap.allocate(_WORKSPACE)
            start = self.workspace - HEAP
            arena.heap.bytes[start : start + _WORKSPACE] = 0
        self.start = time.monotonic_ns()
        #: When the launch began, of which these blocks may be a part.
        self.began = self.latest = time.monotonic()
        #: Seconds in loops that may wait for other threads.
        self.seconds_waited = 0.0
        frame = Frame(self, root, lane, 0)
        self.add(Lanes(frame, None), 0)

    # Columns: values of each lane that do not change

    def column(self, name: str) -> Array:
        """Return an array with an element for each lane, or with one element if it is the same for
        all.
        """
        columns = self.kept
        if name.startswith(MOVING):
            columns = self.columns
        if name not in columns:
            columns[name] = make_column(self, name)
        return columns[name]

    def clock(self, name: str) -> Array:
        """Return a clock, in nanoseconds."""
        if name.startswith("globaltimer"):
            now = time.time_ns()
        else:
            now = time.monotonic_ns() - self.start
        if name.endswith("_hi"):
            now >>= 32
        return np.array([now], U64)

    def where(self, lane: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return block and thread of a lane."""
        return self.launch.place(self.blocks.start * self.threads + lane)

    # What checks do at mbarriers

    def waited_for_copies(self, lanes: Lanes, kind: str, count: int) -> None:
        """Do nothing: copies happen at once."""

    def arrived(self, lanes: Lanes, places: list[int], ends: list[bool]) -> None:
        """Do nothing: lanes have arrived at mbarriers, some of which ended a phase."""

    def waited(self, lanes: Lanes, places: Array, done: Array) -> None:
        """Do nothing: lanes have asked mbarriers whether a phase has ended."""

    # The scheduler

    def add(self, lanes: Lanes, number: int) -> None:
        """Make lanes ready to run a block; they join those that are ready there."""
        key = (lanes.frame, number)
        if key not in self.ready:
            self.ready[key] = []
            self.waiting_since[key] = self.steps
        self.ready[key].append(lanes)

    def join(self, groups: list[Lanes], number: int) -> Lanes:
        """Return the lanes of the groups of a frame that are at one block."""
        frame = groups[0].frame
        if len(groups) == 1:
            return groups[0]
        frame.flush(groups, frame.code.blocks[number].live)
        total = sum(lanes.count for lanes in groups)
        if total == frame.count:
            return Lanes(frame, None)
        if total < frame.count >> 4:
            return Lanes(frame, np.sort(np.concatenate([lanes.index for lanes in groups])))
        present = np.zeros(frame.count, bool)
        for lanes in groups:
            present[lanes.index] = True
        return Lanes(frame, np.flatnonzero(present))

    def split(self, lanes: Lanes, chosen: Array, live: int) -> tuple[Lanes, Lanes]:
        """Return the lanes where `chosen` is true and the others."""
        (taken,) = chosen.nonzero()
        (others,) = (~chosen).nonzero()
        return lanes.part(taken, live), lanes.part(others, live)

    def pick(self, patience: int) -> tuple[Frame, int]:
        """Return the place to run next: the first block of the deepest call, or the one that has
        waited for too long.
        """
        ready = self.ready
        if len(ready) == 1:
            return next(iter(ready))
        if patience <= 0:
            return min(ready, key=self.waiting_since.__getitem__)
        return min(ready)

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
            frame, number = key
            lanes = self.join(self.ready.pop(key), number)
            self.steps += 1
            if not self.ready:
                patience = LONG_PATIENCE
            elif frame.code.blocks[number].spins:
                patience -= LONG_PATIENCE // PATIENCE
            else:
                patience -= 1
            self.run_lanes(number, lanes)
        if self.workspace and self.arena.heap is not None:
            self.arena.heap.release(self.workspace)

    def run_lanes(self, number: int | None, lanes: Lanes) -> None:
        """Run lanes from a block on, until they part or wait, or others are ready."""
        blocks = lanes.frame.code.blocks
        while number is not None:
            block = blocks[number]
            if lanes.index is not None:
                lanes.load(block.reads)
                lanes.dirty |= block.writes
            step = None
            try:
                for step in block.steps:
                    step(lanes)
                step = None
                number = self.finish(block, lanes)
                self.check_time(block, lanes)
            except PtxError as error:
                instruction = block.instructions[-1]
                if step is not None:
                    instruction = block.instructions[block.steps.index(step)]
                place = self.program.module.text.place(instruction)
                raise PtxError(error.name, f"{error.text}, {place}") from None
            if number is not None and (self.ready or self.checks):
                self.add(lanes, number)
                return

    def check_time(self, block: Block, lanes: Lanes) -> None:
        """Raise the error of a kernel that does not end, after the time of its launch."""
        now = time.monotonic()
        if block.spins:
            self.seconds_waited += now - self.latest
        self.latest = now
        what = time_limit_text(self.launch, self.seconds_waited, now - self.began)
        if not what:
            return
        text = f"the kernel does not end: {what} (0 for no limit)"
        raise lanes.error("CUDA_ERROR_LAUNCH_TIMEOUT", text)

    def resume(self) -> None:
        """Let lanes that wait for others of their warp try again: some of those may have left."""
        parked = self.parked
        self.parked = {}
        before = sum(lanes.count for lanes in parked.values())
        for (_, number), lanes in parked.items():
            block = lanes.frame.code.blocks[number]
            lanes.load(block.reads)
            next_number = self.finish(block, lanes)
            if next_number is not None:
                self.add(lanes, next_number)
        if self.ready or self.barriers.release():
            return
        if sum(lanes.count for lanes in self.parked.values()) != before:
            return
        if not release_warps(self):
            self.deadlock()

    def waiting(self) -> list[Waiting]:
        """Return the groups of lanes that wait for others."""
        groups = []
        for (_, number), lanes in self.parked.items():
            groups.append(Waiting(lanes, lanes.frame.code.blocks[number]))
        return groups + self.barriers.groups()

    def deadlock(self) -> None:
        """Raise the error for lanes that wait for ever."""
        waiting = self.waiting()
        text = f"{sum(each.lanes.count for each in waiting)} threads wait at a barrier or a warp operation that other threads never reach"
        raise waiting[0].lanes.error("CUDA_ERROR_LAUNCH_TIMEOUT", text)

    def finish(self, block: Block, lanes: Lanes) -> int | None:
        """Execute the end of a block. Return the block that its lanes go to, if they do so
        together.
        """
        number: int | None = block.end.run(self, block, lanes)
        return number
