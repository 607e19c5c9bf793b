"""Launches of compiled kernels."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from devmod_simulators.drivers.build import BuildError, UnavailableError
from devmod_simulators.drivers.library import engine
from devmod_simulators.ptx.compiled import context, jit
from devmod_simulators.ptx.compiled.bounds import Bounds
from devmod_simulators.ptx.compiled.context import Context, Kernel
from devmod_simulators.ptx.compiled.emit import MOST_IMPROVED
from devmod_simulators.ptx.compiled.graph import Graph
from devmod_simulators.ptx.compiled.jit import (
    BETTER,
    FIRST,
    Code,
    compile_text,
    give_up,
    link,
    llvm,
    missing,
)
from devmod_simulators.ptx.compiled.loops import loops
from devmod_simulators.ptx.compiled.translate import translate
from devmod_simulators.ptx.errors import PtxError, UnsupportedError
from devmod_simulators.ptx.execution import LANE_BYTES, LANES, time_limit_text
from devmod_simulators.ptx.memory import GRANULE, HEAP, STREAM_ORDERED
from devmod_simulators.ptx.ops_system import printed
from devmod_simulators.ptx.ptx_types import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from devmod_simulators.ptx.columns import Launch
    from devmod_simulators.ptx.compiled.bounds import LimitsOf
    from devmod_simulators.ptx.compiled.emit import Emitter
    from devmod_simulators.ptx.memory import Arena
    from devmod_simulators.ptx.program import Program
    from devmod_simulators.ptx.ptx_types import Instruction

#: The fewest instructions of a kernel that is compiled while the interpreter runs its launches.
MANY_INSTRUCTIONS = 500
#: The same for a kernel with loops, whose launches may take the interpreter any time: compilation
#: takes about a second for this many.
MANY_WITH_LOOPS = 4000
#: The threads of a launch for which compilation and execution of code without loops take as long as
#: the interpreter.
MANY_THREADS = 1 << 18
#: The seconds that compilation takes for each instruction.
COMPILE_SECONDS = 100e-6
#: The seconds that better code takes for each instruction. A kernel that has run for as long is
#: worth it.
IMPROVE_SECONDS = 700e-6
#: What a form raises that the interpreter may know, as for its own decoders.
_UNKNOWN_FORMS = (RuntimeError, LookupError, AttributeError, ValueError, TypeError)
#: The most seconds for which a small kernel waits for the compilation of another one.
_LONGEST_WAIT = 1.0
#: The most bytes of the message of an assertion.
_LONGEST_TEXT = 4096
#: The characters of a text for LLVM whose code has a frame of at most 100 kB, and the bytes of the
#: stacks for larger ones: the largest kernels need 8 MB.
_LARGE_TEXT = 400_000
_STACK_BYTES = 1 << 24
#: The fewest threads of a launch for which a second thread of this process is worth its start.
_SHARED_THREADS = 1 << 13
#: What LLVM's code calls where a processor does not convert halves, and the functions of engine.c.
_HALVES = {"__extendhfsf2": "engine_float_of_half", "__truncsfhf2": "engine_half_of_float"}


#: What compiled code calls for printf: the arguments are those of `_Run.print`.
_PRINT = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    *[ctypes.c_uint32] * 3,
    ctypes.POINTER(ctypes.c_uint64),
)


class _UnreadableError(Exception):
    """A text or an argument of printf is where the kernel has no memory."""


@cache
def library() -> Any:
    """Return engine.c, built and loaded."""
    loaded = ctypes.CDLL(str(engine.build()))
    loaded.engine_find.restype = ctypes.c_void_p
    loaded.engine_find.argtypes = (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint32,
    )
    for name, function in _HALVES.items():
        address = ctypes.cast(getattr(loaded, function), ctypes.c_void_p).value
        llvm().add_symbol(name, address)
    return loaded


def prepare() -> None:
    """Load what the first kernel needs."""
    if llvm() is not None:
        library()
        compile_text("define void @kernel() { ret void }", FIRST)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="devmod-simulators")


@cache
def _large_stacks() -> ThreadPoolExecutor:
    """Return threads for kernels whose code needs more stack than a thread may have."""
    before = threading.stack_size(_STACK_BYTES)
    pool = ThreadPoolExecutor(cores(), thread_name_prefix="devmod-simulators-large")
    try:
        # A task starts a thread unless another one has no task.
        all_started = threading.Barrier(cores())
        wait([pool.submit(all_started.wait) for _ in range(cores())])
    finally:
        threading.stack_size(before)
    return pool


@cache
def _compiler() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="devmod-simulators-compiler")


#: The tasks of that thread.
_tasks: WeakSet[Future[Any]] = WeakSet()


def submit(task: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Compile in the background. llvmlite has one lock: other compilations wait for this one."""
    future: Future[Any] = _compiler().submit(task, *arguments)
    _tasks.add(future)
    return future


def is_compiling() -> bool:
    """Return whether there is a compilation in the background."""
    return any(not each.done() for each in _tasks)


_compiled_at_fork: list[bool] = []


def _before_fork() -> None:
    _compiled_at_fork[:] = [is_compiling() or jit.is_compiling()]


def _after_fork_in_child() -> None:
    """Forget the threads, which a child does not have, and LLVM if one of them used it."""
    if any(_compiled_at_fork):
        give_up()
    _tasks.clear()
    for pool in (_pool, _large_stacks, _compiler):
        pool.cache_clear()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _machine_code(emitter: Emitter, level: int) -> Code:
    """Return the machine code of a kernel, after that of the functions which it calls."""
    for name, text in emitter.functions.items():
        link(name, text)
    return compile_text(emitter.text, level)


class CompiledKernel:
    """A kernel for this process."""

    def __init__(self, program: Program) -> None:
        if llvm() is None:
            raise UnsupportedError(missing())
        library()
        emitter = translate(program)
        self.program = program
        self.emitter = emitter
        self.sites = (context.Site * max(len(emitter.sites), 1))(*emitter.sites)
        self.waits = (context.Wait * max(len(emitter.waits), 1))(*emitter.waits)
        self.codes: list[Code] = [_machine_code(emitter, FIRST)]
        self.seconds = 0.0
        #: How long it runs until better code is worth its compilation.
        self.improves_after = math.inf
        if emitter.graph.count <= MOST_IMPROVED:
            self.improves_after = emitter.graph.count * IMPROVE_SECONDS
        self.kernel = Kernel(
            run=self.codes[0].address,
            units=len(emitter.graph.units),
            words=emitter.words,
            set=emitter.set_at,
            lanes=emitter.lanes_at,
            waiting=emitter.waiting_at,
            registers=emitter.registers_at,
            warp_bytes=aligned(emitter.warp_bytes, 64),
            clears=emitter.clears,
            frame=emitter.graph.frame,
            wait_count=len(emitter.waits),
            site_count=len(emitter.sites),
            can_wait=emitter.can_wait,
            waits=ctypes.addressof(self.waits),
            sites=ctypes.addressof(self.sites),
        )
        #: What the contexts of all launches have.
        self.context = Context(kernel=ctypes.addressof(self.kernel))
        functions = (ctypes.c_void_p * len(context.FUNCTIONS)).in_dll(library(), "engine_functions")
        for number, function in enumerate(functions):
            self.context.functions[number] = function
        for number, (loop, data) in enumerate(loops() or ()):
            self.context.loops[number] = loop
            self.context.loop_data[number] = data
        self.spare: _Prepared | None = None

    def prepared(self, program: Program, launch: Launch, arena: Arena) -> _Prepared:
        """Return contexts for a launch, which has them alone until they are `spare` again."""
        spare, self.spare = self.spare, None
        if spare is None or spare.shape != _shape(launch, arena):
            spare = _Prepared(self, program, launch, arena)
        return spare

    def ran(self, seconds: float) -> None:
        """Count time of execution. After enough of it, better code takes the place of the first,
        also while warps run: both have the same registers in the memory of a warp.
        """
        before = self.seconds
        self.seconds += seconds
        if before < self.improves_after <= self.seconds:
            submit(self.improve)

    def improve(self) -> None:
        """Compile once more."""
        code = _machine_code(translate(self.program, inlines=True), BETTER)
        self.codes.append(code)
        self.kernel.run = code.address

    def threads(self, launch: Launch) -> int:
        """Return how many threads of this process execute a launch.

        Blocks that wait for each other, and those whose atomics' results or texts depend on an
        order, have one.
        """
        blocks = math.prod(launch.grid)
        if self.emitter.has_atomics or self.emitter.can_wait or self.emitter.prints:
            return 1
        if blocks * math.prod(launch.block) < _SHARED_THREADS:
            return 1
        return min(cores(), blocks)


def check_launch(launch: Launch) -> None:
    """Raise the error that the interpreter executes a launch."""
    if launch.cooperative:
        raise UnsupportedError("a cooperative launch")
    if launch.cluster != (1, 1, 1):
        raise UnsupportedError("clusters")


class _Prepared:
    """What launches of one shape have in common: a context for each thread of this process that
    executes them, with its arrays. To make these takes longer than a small launch.
    """

    def __init__(
        self, compiled: CompiledKernel, program: Program, launch: Launch, arena: Arena
    ) -> None:
        self.shape = _shape(launch, arena)
        self.keeps: list[Any] = []
        made = Context.from_buffer_copy(compiled.context)
        made.delta = (arena.address - arena.base) & (1 << 64) - 1
        made.starts = self.kept(ctypes.c_uint64, arena.starts)
        made.ends = self.kept(ctypes.c_uint64, arena.ends)
        made.range_count = len(arena.starts)
        if arena.heap is not None:
            made.heap = arena.heap.address
            made.heap_size = arena.heap.top
        # A device reads the end of the last parameter with its neighbour.
        self.parameters = ctypes.create_string_buffer(len(launch.parameters) + 8)
        made.parameters = ctypes.addressof(self.parameters)
        made.parameters_size = len(launch.parameters)
        addresses = program.module.addresses
        made.symbols = self.kept(
            ctypes.c_uint64, [addresses[name] for name in compiled.emitter.symbols]
        )
        made.shared_size = program.shared_size(launch.shared)
        made.shared_readable = aligned(made.shared_size, GRANULE)
        #: The first block that no thread has taken.
        self.next = (ctypes.c_uint64 * 1)()
        made.next = ctypes.addressof(self.next)
        made.blocks = math.prod(launch.grid)
        made.grid[:] = launch.grid
        made.size[:] = launch.block
        made.threads = math.prod(launch.block)
        made.most = self.most_blocks(compiled.kernel, made)
        numbers = (0, *launch.block, *launch.grid, launch.shared, made.shared_size)
        self.contexts = [Context.from_buffer_copy(made) for _ in range(compiled.threads(launch))]
        for each in self.contexts:
            each.numbers = self.kept(ctypes.c_uint32, numbers)
            each.windows = self.kept(ctypes.c_uint64, (0,) * 2 * len(compiled.sites))

    @staticmethod
    def most_blocks(kernel: Kernel, made: Context) -> int:
        """Return how many blocks may wait beside each other: as many as in the interpreter, and
        fewer where their registers take much memory.
        """
        warps = -(-made.threads // context.WARP)
        size = made.shared_readable + warps * (kernel.warp_bytes + context.WARP * kernel.frame)
        return max(1, min(LANES // made.threads, 2 * LANE_BYTES // size))

    def kept(self, kind: Any, values: Sequence[int]) -> int:
        """Return the address of values, which live as long as this."""
        array = (kind * max(len(values), 1))(*values)
        self.keeps.append(array)
        return ctypes.addressof(array)


def _shape(launch: Launch, arena: Arena) -> tuple[Any, ...]:
    """Return what the contexts of a launch depend on, beside the kernel, whose parameters have one
    size.
    """
    heap = arena.heap and (arena.heap.address, arena.heap.top)
    memory = (arena.base, arena.address, arena.starts, arena.ends, heap)
    return (launch.grid, launch.block, launch.shared, len(launch.parameters), *memory)


class _Run:
    """A launch while it runs."""

    def __init__(
        self,
        compiled: CompiledKernel,
        program: Program,
        launch: Launch,
        arena: Arena,
        limits_of: LimitsOf | None,
        first: int,
    ) -> None:
        self.compiled = compiled
        self.program = program
        self.launch = launch
        self.arena = arena
        self.stops = False
        self.late: PtxError | None = None
        self.began = time.monotonic()
        self.prepared = compiled.prepared(program, launch, arena)
        self.contexts = self.prepared.contexts
        self.prepared.next[0] = first
        self.prepared.parameters.raw = launch.parameters
        self.bounds: Bounds | None = None
        if limits_of is not None:
            size = self.contexts[0].shared_size
            self.bounds = Bounds(limits_of, compiled.emitter, arena, size)
            self.check(*self.bounds.addresses)
        #: The texts of printf that are not shown yet.
        self.texts: list[str] = []
        self.failure: BaseException | None = None
        if compiled.emitter.prints:
            self.callback = _PRINT(self.print)
            address = ctypes.cast(self.callback, ctypes.c_void_p).value
            self.contexts[0].functions[context.FUNCTIONS.index("print")] = address

    def check(self, limits: int | None, undo: int | None) -> None:
        """Let all contexts check bounds, or (with None) none."""
        for made in self.contexts:
            made.limits = limits
            made.undo = undo

    def run(self) -> None:
        """Execute all blocks: this thread of the process, and others of a pool."""
        first, *others = self.contexts
        is_large = len(self.compiled.emitter.text) > _LARGE_TEXT
        futures: list[Future[None]] = []
        if others or is_large:
            pool = _large_stacks() if is_large else _pool()
            futures = [pool.submit(self.drive, each) for each in others]
        try:
            if is_large:
                futures.append(pool.submit(self.drive, first))
                wait(futures)
            else:
                self.drive(first)
        except BaseException:
            self.stops = True
            raise
        finally:
            if futures:
                wait(futures)
            for each in self.contexts:
                if each.count:  # it has not come to its end
                    library().engine_free(ctypes.byref(each))
            faults = [each for each in self.contexts if each.fault]
            if not faults:
                self.compiled.spare = self.prepared
            if self.bounds is not None:
                self.check(None, None)
                undo = ctypes.byref(self.bounds.undo)
                library().engine_forget(undo, bool(faults))
            if self.bounds is None or not faults:
                self.show()
        for future in futures:
            future.result()
        if self.failure is not None:
            raise self.failure
        if faults and self.bounds is not None:
            raise UnsupportedError("a fault, which the interpreter reports")
        if faults:
            raise self.error(min(faults, key=lambda each: int(each.fault_block)))
        if self.late is not None:
            raise self.late

    def drive(self, made: Context) -> None:
        """Execute blocks, with a look at the time after each slice."""
        execute = library().engine_run
        latest = time.monotonic()
        waited = 0.0
        while execute(ctypes.byref(made)) == context.PAUSED and not self.stops:
            now = time.monotonic()
            self.compiled.ran(now - latest)
            if self.bounds is None:
                self.show()
            if made.waits:
                waited += now - latest
            latest = now
            late = time_limit_text(self.launch, waited, now - self.began)
            if late:
                self.stops = True
                self.late = self.error(made, late)
        self.compiled.ran(time.monotonic() - latest)
        if made.fault:
            self.stops = True

    def print(self, made: int, warp: int, lanes: int, first: int, site: int, values: Any) -> int:
        """Print what some lanes of a chunk have given to printf, and return whether it fails."""

        def read(address: int, size: int) -> bytes:
            pieces = []
            for place in range(address, address + size):
                found = library().engine_find(made, warp, site, place, first + lane)
                if not found:
                    raise _UnreadableError
                pieces.append(ctypes.string_at(found, 1))
            return b"".join(pieces)

        try:
            for lane in range(context.CHUNK):
                if lanes >> lane & 1:
                    self.texts.append(printed(read, values[lane], values[context.CHUNK + lane]))
        except _UnreadableError:
            return 1
        except BaseException as error:  # noqa: BLE001  # C passes none on
            self.failure = error
            return 1
        return 0

    def show(self) -> None:
        """Show the texts of printf."""
        if self.texts:
            sys.stdout.write("".join(self.texts))
            sys.stdout.flush()
            self.texts.clear()

    def error(self, made: Context, late: str = "") -> PtxError:
        """Return the error of a fault, as the interpreter has it."""
        block, thread = self.launch.place(
            made.fault_block * math.prod(self.launch.block) + made.fault_lane
        )
        where = f"kernel {self.program.name}, block {block}, thread {thread}"
        emitter = self.compiled.emitter
        if made.fault == context.DEADLOCK:
            return PtxError(
                "CUDA_ERROR_LAUNCH_TIMEOUT",
                f"{made.fault_count} threads wait at a barrier or a warp operation that other threads never reach, {where}",
            )
        if made.fault == context.NO_MEMORY:
            raise MemoryError(f"no memory for the blocks of {self.program.name}")
        instruction: Instruction
        if made.fault in (context.OUTSIDE, context.MISALIGNED):
            instruction = emitter.site_instructions[made.fault_site]
            name, text = self.fault_text(made)
        else:
            unit = emitter.graph.units[made.fault_unit]
            instruction = unit.block.instructions[-1]
            name = "CUDA_ERROR_ILLEGAL_INSTRUCTION"
            text = "the kernel executed a trap instruction"
            if made.fault == context.BAD_TABLE:
                text = f"the index {made.fault_address} of brx.idx is out of range"
            elif made.fault == context.ASSERTION:
                name = "CUDA_ERROR_ASSERT"
                instruction = next(each for each in unit.instructions if each.root == "call")
                text = self.assertion_text(made)
            elif late:
                name = "CUDA_ERROR_LAUNCH_TIMEOUT"
                text = f"the kernel does not end: {late} (0 for no limit)"
        place = self.program.module.text.place(instruction)
        return PtxError(name, f"{text}, {where}, {place}")

    def assertion_text(self, made: Context) -> str:
        """Return the text of an assertion that failed."""
        message, file, line, function = made.fault_values
        texts = [self.text_at(each) for each in (file, function, message)]
        return f"{texts[0]}:{line}: {texts[1]}: assertion {texts[2]!r} failed"

    def text_at(self, address: int) -> str:
        """Return the zero-terminated text at an address of global memory."""
        start = address - self.arena.base
        if not 0 <= start < len(self.arena.bytes):
            return "?"
        data: bytes = self.arena.bytes[start : start + _LONGEST_TEXT].tobytes()
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")

    def fault_text(self, made: Context) -> tuple[str, str]:
        """Return the name and the text of an access to memory that is a fault."""
        site = self.compiled.sites[made.fault_site]
        space = ("global", "shared", "local", "parameter")[made.fault_space]
        kind = ("read", "write", "atomic access")[site.kind]
        what, how = "ILLEGAL", "out of bounds"
        if made.fault == context.MISALIGNED:
            what, how = "MISALIGNED", "misaligned"
        if space == "global" and self.arena.is_unordered(made.fault_address):
            how = f"unordered: it is in {STREAM_ORDERED}"
        size = site.width * site.count
        address = made.fault_address
        return (
            f"CUDA_ERROR_{what}_ADDRESS",
            f"{kind} of {size} bytes at {space} address 0x{address:x} is {how}",
        )


class Tier:
    """What the compilation of a kernel waits for while the interpreter runs its launches: until
    they have taken as long as it takes.
    """

    def __init__(self, program: Program) -> None:
        self.count = 0
        self.has_loops = False
        with suppress(UnsupportedError, PtxError, *_UNKNOWN_FORMS):
            graph = Graph(program)
            self.count = graph.count
            self.has_loops = graph.has_loops
        self.seconds = COMPILE_SECONDS * self.count

    @property
    def is_small(self) -> bool:
        """Whether a launch may wait for the compilation."""
        return self.count < MANY_INSTRUCTIONS

    def compiles(self, launch: Launch) -> bool:
        """Return whether a launch waits for the compilation: one that may run for long."""
        if self.has_loops:
            return self.count < MANY_WITH_LOOPS
        threads = math.prod(launch.grid) * math.prod(launch.block)
        return self.is_small and threads >= MANY_THREADS


def _tier(program: Program) -> Tier:
    if program.tier is None:
        program.tier = Tier(program)
    tier: Tier = program.tier
    return tier


def compile_program(program: Program, launch: Launch | None = None) -> CompiledKernel | None:
    """Return a compiled kernel, which the program keeps. With a launch that need not wait for one,
    None while it is compiled or not worth that.

    Raises
    ------
    UnsupportedError
        The interpreter executes the kernel.
    """
    if isinstance(program.compiled, CompiledKernel):
        return program.compiled
    if isinstance(program.compiled, Future) and program.compiled not in _tasks:
        program.compiled = None  # a task of this process's parent
    if program.compiled is None:
        if launch is None or llvm() is None:
            program.compiled = _compile(program)
        elif not _tier(program).compiles(launch):
            if _tier(program).seconds > 0:
                return None
            program.compiled = submit(_compile, program)
        elif is_compiling():
            program.compiled = submit(_compile, program)
            wait([program.compiled], _LONGEST_WAIT)
        else:
            program.compiled = _compile(program)
    if isinstance(program.compiled, Future):
        if launch is not None and not program.compiled.done():
            return None
        program.compiled = program.compiled.result()
    if isinstance(program.compiled, UnsupportedError):
        raise program.compiled
    compiled: CompiledKernel = program.compiled
    return compiled


@contextmanager
def interpreting(program: Program) -> Iterator[None]:
    """Count the time that the interpreter takes for a launch. A large kernel is compiled meanwhile
    if that is long.
    """
    tier = program.tier
    if tier is None or program.compiled is not None:
        yield
        return
    timer = threading.Timer(max(tier.seconds, 0), _compile_later, (program,))
    began = time.thread_time()
    if not tier.is_small:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if not tier.is_small:
            timer.join()
        tier.seconds -= time.thread_time() - began


def _compile_later(program: Program) -> None:
    program.compiled = submit(_compile, program)


def _compile(program: Program) -> CompiledKernel | UnsupportedError:
    """Return a compiled kernel, or why there is none."""
    try:
        return CompiledKernel(program)
    except UnsupportedError as error:
        return error
    except PtxError as error:
        return UnsupportedError(error.text)
    except (UnavailableError, BuildError) as error:
        return UnsupportedError(str(error))
    except _UNKNOWN_FORMS as error:
        return UnsupportedError(f"{type(error).__name__}: {error}")


def run_compiled(
    program: Program,
    launch: Launch,
    arena: Arena,
    limits_of: LimitsOf | None = None,
    *,
    waits: bool = True,
    first: int = 0,
) -> bool:
    """Run a launch with the compiled kernel, from a block on, and return whether there is one yet.

    Raises
    ------
    UnsupportedError
        The interpreter executes the launch. With `limits_of`, that is also one with a fault, and
        memory is as it was before.
    """
    check_launch(launch)
    compiled = compile_program(program, None if waits else launch)
    if compiled is None:
        return False
    assert arena.base < HEAP
    _Run(compiled, program, launch, arena, limits_of, first).run()
    return True
