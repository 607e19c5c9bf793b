"""The code of a kernel for LLVM: a function that runs a warp until its lanes wait or have left.

A region is a loop over the warp's chunks of eight lanes. Its instructions are vectors of eight;
registers that live behind it are in the memory of the warp. Memory that lanes share is accessed in
lockstep: a region ends between a store and a load that may meet.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from ctypes import sizeof
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.columns import CHANGING_REGISTERS
from devmod_simulators.ptx.compiled import context
from devmod_simulators.ptx.compiled.context import CHUNK, CHUNKS, WARP, Context, offset
from devmod_simulators.ptx.compiled.graph import Copy, Graph, Unit
from devmod_simulators.ptx.decoder import Decoder
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.flow import live_registers
from devmod_simulators.ptx.memory import FUNCTION_PARAMETERS
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    PRED,
    DType,
    Float,
    Integer,
    Name,
    Negation,
    Register,
    aligned,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_simulators.ptx.program import Code, Program
    from devmod_simulators.ptx.ptx_types import Instruction

#: The most instructions of a kernel that gets better code. The time to compile it grows with their
#: square: 16 s for 2,000.
MOST_IMPROVED = 1500
#: A register of a copy of a function: by its number there, or a part of a parameter.
Key = tuple[Any, ...]

#: Special registers that all threads of a launch share, by their places among the numbers of its
#: context.
NUMBERS = (
    "smid",
    *(f"{name}.{axis}" for name in ("ntid", "nctaid") for axis in "xyz"),
    "dynamic_smem_size",
    "total_smem_size",
)
#: Others of which each is one of those, or of these.
_ALIASES = {
    "aggr_smem_size": "total_smem_size",
    **{f"nclusterid.{axis}": f"nctaid.{axis}" for axis in "xyz"},
    **{f"clusterid.{axis}": f"ctaid.{axis}" for axis in "xyz"},
}
#: Those that are the same for all launches that the engine executes.
_FIXED = {
    "nwarpid": 64,
    "nsmid": 132,
    "gridid": 1,
    "cluster_ctarank": 0,
    "cluster_nctarank": 1,
    "is_explicit_cluster": 0,
    "reserved_smem_offset_begin": 0,
    "current_graph_exec": 0,
    **{f"cluster_ctaid.{axis}": 0 for axis in "xyz"},
    **{f"cluster_nctaid.{axis}": 1 for axis in "xyz"},
    **{f"envreg{number}": 0 for number in range(32)},
}
_FLOATS = {16: "half", 32: "float", 64: "double"}
#: Values of all lanes that a unit passes to engine.c, each with as many bytes.
_SCRATCH = 6
_SCRATCH_BYTES = WARP * 8
EVERY_LANE = f"<{CHUNK} x i32> <{', '.join(f'i32 {lane}' for lane in range(CHUNK))}>"


def vector(width: int) -> str:
    """Return LLVM's type of a vector of integers."""
    return f"<{CHUNK} x i{width}>"


def floats(width: int) -> str:
    """Return LLVM's type of a vector of floats."""
    return f"<{CHUNK} x {_FLOATS[width]}>"


def bits_of(dtype: DType) -> int:
    """Return the bits of a register."""
    if dtype == PRED:
        return 1
    if dtype.itemsize > 8:
        raise UnsupportedError("registers of 128 bits")
    return 8 * dtype.itemsize


def constant(value: int, width: int) -> str:
    """Return a vector that has one integer in each lane."""
    value &= (1 << width) - 1
    return f"splat (i{width} {value})"


def constants_of(code: Code) -> dict[int, Integer]:
    """Return the registers of a function that one instruction writes, with a literal."""
    counts: Counter[int] = Counter()
    literals = {}
    for block in code.blocks:
        for (_, writes), instruction in zip(block.uses, block.instructions, strict=True):
            counts.update(writes)
            if instruction.root == "mov" and instruction.guard is None:
                destination, value = instruction.operands
                if isinstance(destination, Register) and isinstance(value, Integer):
                    literals[destination.number] = value
    return {number: value for number, value in literals.items() if counts[number] == 1}


class Region:
    """A loop over the chunks of a warp, and what runs behind it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: list[str] = []
        self.tail: list[str] = []
        self.reads: set[Key] = set()
        self.tail_reads: set[Key] = set()
        #: The latest values of registers, and those that are written.
        self.values: dict[Key, str] = {}
        self.written: dict[Key, None] = {}
        #: What it has done in memory that lanes share.
        self.loads = False
        self.stores = False
        #: The register that has the lanes which run it.
        self.mask = ""
        #: The next region of the unit, or the units that may follow.
        self.following: list[int] = []
        self.units: list[int] = []
        #: The registers of those written that live behind it.
        self.kept: list[Key] = []


class Emitter:
    """The code of one kernel while it is made."""

    def __init__(self, program: Program, *, inlines: bool = False) -> None:
        self.program = program
        self.graph = Graph(program)
        #: Whether each access has its own code, and not a call of a function for its form, which is
        #: compiled in half the time.
        self.inlines = inlines or self.graph.count > MOST_IMPROVED
        #: The functions that the text calls, by their names: each as a text of its own.
        self.functions: dict[str, str] = {}
        self.names = 0
        self.sites: list[context.Site] = []
        self.site_instructions: list[Instruction] = []
        #: The end of the frame of each site's function in local memory.
        self.site_frames: list[int] = []
        self.waits: list[context.Wait] = []
        self.symbols: list[str] = []
        self.regions: list[Region] = []
        self.region: Region = Region(-1)
        self.has_atomics = False
        self.prints = False
        self.can_wait = False
        self.clears = False
        self.data: dict[str, None] = {"declare i64 @llvm.cttz.i64(i64, i1)": None}
        self.slots: dict[str, str] = {}
        self.guard = ""
        self.instruction: Instruction | None = None
        self.in_tail = False
        self.constants: dict[int, dict[int, Integer]] = {}
        units = len(self.graph.units)
        self.words = -(-units // 64)
        self.set_at = aligned(sizeof(context.Warp), 64)
        self.lanes_at = self.set_at + 8 * self.words
        self.waiting_at = self.lanes_at + 4 * units
        self.scratch_at = aligned(self.waiting_at + 4 * units, 64)
        self.registers_at = self.scratch_at + _SCRATCH * _SCRATCH_BYTES
        self.warp_bytes = self.registers_at
        self.registers: dict[Key, tuple[int, int]] = {}
        self.unit: Unit = self.graph.units[0]
        self.copy: Copy = self.unit.copy
        self.text = ""
        self.heads: dict[int, int] = {}
        self.loops()

    # Lines

    def name(self) -> str:
        """Return a new name of a value."""
        self.names += 1
        return f"%v{self.names}"

    def label(self) -> str:
        """Return a new name of a label."""
        self.names += 1
        return f"l{self.names}"

    def line(self, text: str) -> None:
        """Add an instruction without a value, or a label."""
        (self.region.tail if self.in_tail else self.region.lines).append(text)

    def declare(self, text: str) -> None:
        """Add a line outside of the function, once."""
        self.data[text] = None

    def op(self, text: str) -> str:
        """Add an instruction of LLVM and return its value."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def slot(self, kind: str, number: int = 0) -> str:
        """Return a place on the stack for a value of a type."""
        name = f"%s{number}_" + "".join(each if each.isalnum() else "_" for each in kind)
        self.slots[name] = kind
        return name

    def cast(self, value: str, source: str, target: str) -> str:
        """Return the bits of a value as another type."""
        if source == target:
            return value
        return self.op(f"bitcast {source} {value} to {target}")

    def splat(self, scalar: str, kind: str) -> str:
        """Return a vector of a scalar."""
        one = self.op(f"insertelement <{CHUNK} x {kind}> poison, {kind} {scalar}, i32 0")
        return self.op(
            f"shufflevector <{CHUNK} x {kind}> {one}, <{CHUNK} x {kind}> poison, "
            f"<{CHUNK} x i32> zeroinitializer"
        )

    def at(self, base: str, place: int) -> str:
        """Return a pointer to some bytes behind another one."""
        return self.op(f"getelementptr i8, ptr {base}, i64 {place}")

    def field(self, name: str, kind: str, place: int = 0) -> str:
        """Load a field of the context."""
        return self.op(f"load {kind}, ptr {self.at('%c', offset(Context, name) + place)}")

    def call(self, function: str, result: str, arguments: str) -> str:
        """Call a function of engine.c."""
        pointer = self.field("functions", "ptr", 8 * context.FUNCTIONS.index(function))
        if result == "void":
            self.line(f"call void {pointer}({arguments})")
            return ""
        return self.op(f"call {result} {pointer}({arguments})")

    @contextmanager
    def function(self, name: str, head: str) -> Iterator[None]:
        """Let what is emitted be a function, which has its own `fault`. Its text is the same for
        all kernels.
        """
        before = self.region, self.in_tail, self.slots, self.data, self.names
        self.region, self.in_tail, self.slots, self.data, self.names = Region(-1), False, {}, {}, 0
        yield
        lines = [f"define {head} {{", "entry:", *self._slots(), "br label %body", "body:"]
        self.functions[name] = "\n".join([*self.data, *lines, *self.region.lines, "}\n"])
        self.region, self.in_tail, self.slots, self.data, self.names = before
        self.declare(f"declare {head}")

    def fails(self, state: str) -> None:
        """Return from the function where a state is not 0."""
        go_on = self.label()
        bad = self.op(f"icmp ne i32 {state}, 0")
        self.line(f"br i1 {bad}, label %fault, label %{go_on}")
        self.line(f"{go_on}:")

    # Registers

    def key(self, register: Register) -> Key:
        """Return the key of a register here."""
        return self.known((self.copy.number, register.number), bits_of(register.dtype))

    def known(self, key: Key, width: int) -> Key:
        """Return a key, after it has got a place in the warp."""
        if key not in self.registers:
            size = max(width // 8 * WARP, 4)
            self.warp_bytes = aligned(self.warp_bytes, min(size, 64))
            self.registers[key] = self.warp_bytes, width
            self.warp_bytes += size
        return key

    def part(self, key: Key) -> str:
        """Return a pointer to the part of a register that a chunk has."""
        place, width = self.registers[key]
        return self.at(f"%p{width}.{self.region.number}", place)

    def read(self, key: Key) -> str:
        """Return the value of a register."""
        region = self.region
        if key not in region.values:
            region.reads.add(key)
            _, width = self.registers[key]
            if width == 1:
                byte = self.op(f"load i8, ptr {self.part(key)}")
                region.values[key] = self.op(f"bitcast i8 {byte} to {vector(1)}")
            else:
                region.values[key] = self.op(f"load {vector(width)}, ptr {self.part(key)}, align 8")
        return region.values[key]

    def write(self, key: Key, value: str) -> None:
        """Give a register a value, where the guard of the instruction holds."""
        if self.guard:
            kind = vector(self.registers[key][1])
            value = self.op(
                f"select {vector(1)} {self.guard}, {kind} {value}, {kind} {self.read(key)}"
            )
        self.region.values[key] = value
        self.region.written[key] = None

    def all_lanes(self, key: Key) -> str:
        """Return the bits of a predicate for all lanes, behind the loop of a region."""
        self.region.tail_reads.add(key)
        return self.op(f"load i32, ptr {self.at('%w', self.registers[key][0])}")

    # Operands

    def plain(self, operand: Any) -> Any:
        """Return an operand, or the literal that a register always has."""
        if not isinstance(operand, Register):
            return operand
        number = self.copy.number
        if number not in self.constants:
            self.constants[number] = constants_of(self.copy.code)
        value = self.constants[number].get(operand.number)
        if value is None or operand.dtype == PRED:
            return operand
        return Integer(value.value & (1 << bits_of(operand.dtype)) - 1)

    def source(self, operand: Any, width: int) -> str:
        """Return an operand as a vector of integers of some bits; 1 for predicates."""
        operand = self.plain(operand)
        if isinstance(operand, Register):
            key = self.key(operand)
            have = self.registers[key][1]
            value = self.read(key)
            if have == width:
                return value
            if have == 1 or width == 1:
                raise UnsupportedError("an operand of the wrong type")
            change = "trunc" if have > width else "zext"
            return self.op(f"{change} {vector(have)} {value} to {vector(width)}")
        if isinstance(operand, Negation):
            inner = self.source(operand.operand, 1)
            return self.op(f"xor {vector(1)} {inner}, splat (i1 1)")
        if isinstance(operand, Integer):
            return constant(operand.value != 0 if width == 1 else operand.value, width)
        if isinstance(operand, Name):
            return self._name(operand, width)
        raise UnsupportedError(f"an operand {type(operand).__name__}")

    def literal(self, operand: Integer | Float, kind: str) -> str:
        """Return a literal of a float type or as bits, as a vector of integers."""
        dtype = DTYPES[kind]
        decoder: Any = Decoder.constant
        value = decoder(None, operand, dtype)
        return constant(int.from_bytes(value.tobytes(), "little"), 8 * dtype.itemsize)

    def number(self, operand: Any, kind: str) -> str:
        """Return an operand of a PTX type as a vector of integers of its bits."""
        if kind == "pred":
            return self.source(operand, 1)
        dtype = DTYPES[kind]
        width = bits_of(dtype)
        if isinstance(operand, Float) or (isinstance(operand, Integer) and dtype.kind == "f"):
            return self.literal(operand, kind)
        return self.source(operand, width)

    def float(self, operand: Any, kind: str) -> str:
        """Return an operand as a vector of floats of f16, f32 or f64."""
        width = 8 * DTYPES[kind].itemsize
        return self.cast(self.number(operand, kind), vector(width), floats(width))

    def target(self, operand: Any, value: str, kind: str) -> None:
        """Give a destination a value of a PTX type, as a vector of integers of its bits."""
        if isinstance(operand, Name) and operand.text == "_":
            return
        if not isinstance(operand, Register):
            raise UnsupportedError("a destination that is no register")
        key = self.key(operand)
        have = self.registers[key][1]
        dtype = DTYPES[kind]
        width = bits_of(dtype)
        if have != width:
            if have == 1 or width == 1 or have < width:
                raise UnsupportedError("a destination of the wrong type")
            change = "sext" if dtype.kind == "i" else "zext"
            value = self.op(f"{change} {vector(width)} {value} to {vector(have)}")
        self.write(key, value)

    def target_float(self, operand: Any, value: str, kind: str) -> None:
        """Give a destination a vector of floats."""
        width = 8 * DTYPES[kind].itemsize
        self.target(operand, self.cast(value, floats(width), vector(width)), kind)

    def _name(self, operand: Name, width: int) -> str:
        text = operand.text
        if text.startswith("%"):
            return self._special(text[1:], width)
        address = self.address_of(text)
        if address is None:
            raise UnsupportedError(f"the address of {text}")
        space, base = address
        if space == "global":
            symbols = self.field("symbols", "ptr")
            if text not in self.symbols:
                self.symbols.append(text)
            place = self.at(symbols, 8 * self.symbols.index(text))
            value = self.splat(self.op(f"load i64, ptr {place}"), "i64")
            if operand.offset:
                value = self.op(f"add {vector(64)} {value}, {constant(operand.offset, 64)}")
            return (
                value if width == 64 else self.op(f"trunc {vector(64)} {value} to {vector(width)}")
            )
        return constant(base + operand.offset, width)

    def address_of(self, name: str) -> tuple[str, int] | None:
        """Return the space of a variable and its address there."""
        program = self.program
        layout = program.layout(self.copy.code.function)
        if name in layout:
            space, place = layout[name]
            if space != "local":
                return space, place
            if place >= FUNCTION_PARAMETERS:
                raise UnsupportedError(f"the address of the parameter {name}")
            return space, self.copy.base + place
        if name in program.shared:
            return "shared", program.shared[name][0]
        if name in program.module.addresses:
            return "global", 0
        return None

    def lane_id(self) -> str:
        """Return the number of each lane in its warp."""
        first = self.splat(f"%f32.{self.region.number}", "i32")
        return self.op(f"add {EVERY_LANE}, {first}")

    def _special(self, name: str, width: int) -> str:
        name = _ALIASES.get(name, name)
        base, _, axis = name.partition(".")
        if name in _FIXED:
            return constant(_FIXED[name], width)
        have = 32
        if base == "tid":
            place = offset(context.Warp, "thread") + 4 * WARP * "xyz".index(axis)
            pointer = self.at(f"%p32.{self.region.number}", place)
            value = self.op(f"load {vector(32)}, ptr {pointer}, align 4")
        elif base == "ctaid":
            value = self.splat(self.field("place", "i32", 4 * "xyz".index(axis)), "i32")
        elif name in NUMBERS:
            numbers = self.field("numbers", "ptr")
            pointer = self.at(numbers, 4 * NUMBERS.index(name))
            value = self.splat(self.op(f"load i32, ptr {pointer}"), "i32")
        elif name == "laneid":
            value = self.lane_id()
        elif name == "warpid":
            pointer = self.at("%w", offset(context.Warp, "number"))
            value = self.splat(self.op(f"load i32, ptr {pointer}"), "i32")
        elif name in CHANGING_REGISTERS:
            have = 64
            which = int(name.startswith("globaltimer"))
            value = self.splat(self.call("clock", "i64", f"ptr %c, i32 {which}"), "i64")
            if name.endswith("_hi"):
                value = self.op(f"lshr {vector(64)} {value}, {constant(32, 64)}")
        elif name.startswith("lanemask"):
            value = self._lane_mask(name[-2:])
        else:
            raise UnsupportedError(f"%{name}")
        if have == width:
            return value
        change = "trunc" if have > width else "zext"
        return self.op(f"{change} {vector(have)} {value} to {vector(width)}")

    def _lane_mask(self, which: str) -> str:
        kind = vector(32)
        bit = self.op(f"shl {kind} splat (i32 1), {self.lane_id()}")
        if which == "eq":
            return bit
        below = self.op(f"sub {kind} {bit}, splat (i32 1)")
        if which == "lt":
            return below
        if which == "ge":
            return self.op(f"xor {kind} {below}, splat (i32 -1)")
        up_to = self.op(f"or {kind} {below}, {bit}")
        if which == "le":
            return up_to
        return self.op(f"xor {kind} {up_to}, splat (i32 -1)")

    # Regions

    def new_region(self, mask: str) -> Region:
        """Begin a region whose lanes are in a register."""
        region = Region(len(self.regions))
        if self.regions and self.region.units == []:
            self.region.following = [region.number]
        region.mask = mask
        self.regions.append(region)
        self.region = region
        self.in_tail = False
        return region

    def part_regions(self, *, loads: bool, stores: bool) -> None:
        """Begin a region before an access to memory that may meet one of the others of this
        region.
        """
        region = self.region
        if (stores and (region.loads or region.stores)) or (loads and region.stores):
            region = self.new_region(region.mask)
            self.set_guard()
        region.loads |= loads
        region.stores |= stores

    def mask(self) -> str:
        """Return which lanes of the chunk execute the instruction."""
        lanes = f"%k.{self.region.number}"
        if not self.guard:
            return lanes
        return self.op(f"and {vector(1)} {lanes}, {self.guard}")

    def scratch(self, number: int) -> str:
        """Return the address of values of all lanes, for engine.c."""
        return self.at("%w", self.scratch_at + number * _SCRATCH_BYTES)

    def put_scratch(self, number: int, value: str, width: int) -> None:
        """Store the values of a chunk for engine.c."""
        place = self.scratch_at + number * _SCRATCH_BYTES
        if width == 1:
            byte = self.op(f"bitcast {vector(1)} {value} to i8")
            self.line(f"store i8 {byte}, ptr {self.at(f'%p1.{self.region.number}', place)}")
            return
        pointer = self.at(f"%p{width}.{self.region.number}", place)
        self.line(f"store {vector(width)} {value}, ptr {pointer}, align 8")

    def get_scratch(self, number: int, width: int) -> str:
        """Load the values of a chunk that engine.c has computed."""
        place = self.scratch_at + number * _SCRATCH_BYTES
        pointer = self.at(f"%p{width}.{self.region.number}", place)
        return self.op(f"load {vector(width)}, ptr {pointer}, align 8")

    def bits_of_lanes(self, lanes: str) -> str:
        """Return the part of a chunk of 32 bits for the lanes."""
        moved = self.op(f"lshr i32 {lanes}, %f32.{self.region.number}")
        byte = self.op(f"trunc i32 {moved} to i8")
        return self.op(f"bitcast i8 {byte} to {vector(1)}")

    # Units

    def is_constant(self, instruction: Instruction) -> bool:
        """Return whether an instruction sets a register that is a literal wherever it is read."""
        if instruction.root != "mov" or instruction.guard is not None:
            return False
        return self.plain(instruction.operands[0]) is not instruction.operands[0]

    def set_guard(self) -> None:
        """Fetch the guard of the instruction in this region."""
        self.guard = ""
        instruction = self.instruction
        if instruction is not None and instruction.guard is not None:
            self.guard = self.source(instruction.guard, 1)
            if instruction.negated:
                self.guard = self.op(f"xor {vector(1)} {self.guard}, splat (i1 1)")

    def loops(self) -> None:
        """Find the units at which loops begin, and those of loops that may wait for other lanes."""
        self.loop_heads: dict[int, bool] = {}
        units = self.graph.units
        for unit in units:
            for target in unit.following():
                if target <= unit.number:
                    spins = any(each.spins for each in units[target : unit.number + 1])
                    self.loop_heads[target] = self.loop_heads.get(target, False) or spins
        self.can_wait = any(self.loop_heads.values())

    def tail(self) -> None:
        """Add what follows behind the loop of the region."""
        self.in_tail = True

    def queue(self, unit: int, lanes: str) -> None:
        """Make lanes ready to run a unit, behind the loop of a region."""
        self.line(f"call fastcc void @queue(ptr %w, i32 {unit}, i32 {lanes})")

    def _queue(self) -> str:
        """Return the function that makes lanes ready to run a unit."""
        return f"""define internal fastcc void @queue(ptr %w, i32 %unit, i32 %lanes) {{
%all.lanes = getelementptr i8, ptr %w, i64 {self.lanes_at}
%place = getelementptr i32, ptr %all.lanes, i32 %unit
%before = load i32, ptr %place
%after = or i32 %before, %lanes
store i32 %after, ptr %place
%is.empty = icmp eq i32 %before, 0
%is.new = zext i1 %is.empty to i32
%ready = getelementptr i8, ptr %w, i64 {offset(context.Warp, "ready")}
%count = load i32, ptr %ready
%more = add i32 %count, %is.new
store i32 %more, ptr %ready
%all.set = getelementptr i8, ptr %w, i64 {self.set_at}
%number = lshr i32 %unit, 6
%word = getelementptr i64, ptr %all.set, i32 %number
%place64 = zext i32 %unit to i64
%in.word = and i64 %place64, 63
%bit = shl i64 1, %in.word
%bits = load i64, ptr %word
%set = or i64 %bits, %bit
store i64 %set, ptr %word
ret void
}}"""

    def go(self, unit: int, lanes: str, *, is_now: bool = False) -> None:
        """Go to a unit with all lanes that run, unless others are ready."""
        alone = self.label()
        others = self.label()
        empty = self.op(f"icmp eq i32 {self.op('load i32, ptr %ready')}, 0")
        self.line(f"br i1 {empty}, label %{alone}, label %{others}")
        self.line(f"{alone}:")
        if not is_now:
            self.line(f"store i32 {lanes}, ptr %now")
        self.line(f"br label %U{unit}")
        self.line(f"{others}:")
        self.queue(unit, lanes)
        self.line("br label %dispatch")

    # The text

    def assemble(self) -> None:
        """Make the text of the function."""
        heads = self.heads
        self._live(heads)
        function = [*self._head()]
        starts = {region: unit for unit, region in heads.items()}
        for region in self.regions:
            if region.number in starts:
                function += self._unit_head(starts[region.number])
            function += self._region_text(region)
        self.text = "\n".join([*self.data, self._queue(), *function, "}"]) + "\n"

    def _live(self, heads: dict[int, int]) -> None:
        """Find the registers that each region must store: those that live behind it."""
        numbers = {key: number for number, key in enumerate(self.registers)}

        def mask(keys: Any) -> int:
            return sum(1 << numbers[key] for key in keys)

        successors = []
        reads = []
        writes = []
        for region in self.regions:
            following = region.following
            if region.units:
                following = [heads[unit] for unit in region.units if unit >= 0]
            successors.append(following)
            own = region.reads | (region.tail_reads - set(region.written))
            reads.append(mask(own))
            # Lanes that do not run it keep their values.
            writes.append(mask(region.written))
        lives = live_registers(successors, reads, writes)
        for region, following in zip(self.regions, successors, strict=True):
            after = mask(region.tail_reads)
            for other in following:
                after |= lives[other]
            region.kept = [key for key in region.written if after >> numbers[key] & 1]
        self.clears = bool(lives[heads[0]])

    def _slots(self) -> list[str]:
        return [f"{name} = alloca {kind}, align 64" for name, kind in self.slots.items()]

    def _head(self) -> list[str]:
        units = len(self.graph.units)
        lines = ["define i32 @kernel(ptr %c, ptr %w, i32 %first) {", "entry:"]
        lines += self._slots()
        now = offset(context.Warp, "now")
        lines += [
            f"%now = getelementptr i8, ptr %w, i64 {now}",
            f"%ready = getelementptr i8, ptr %w, i64 {offset(context.Warp, 'ready')}",
            f"%all.lanes = getelementptr i8, ptr %w, i64 {self.lanes_at}",
            f"%all.set = getelementptr i8, ptr %w, i64 {self.set_at}",
            "%b.first = zext i32 %first to i64",
            "br label %take",
            "dispatch:",
            "br label %word0",
        ]
        entries = ["[%b.first, %entry]"]
        for word in range(self.words):
            following = f"word{word + 1}" if word + 1 < self.words else "finished"
            lines += [
                f"word{word}:",
                f"%wp{word} = getelementptr i8, ptr %all.set, i64 {8 * word}",
                f"%ws{word} = load i64, ptr %wp{word}",
                f"%wn{word} = icmp ne i64 %ws{word}, 0",
                f"br i1 %wn{word}, label %found{word}, label %{following}",
                f"found{word}:",
                f"%wz{word} = call i64 @llvm.cttz.i64(i64 %ws{word}, i1 true)",
                f"%wb{word} = add i64 %wz{word}, {64 * word}",
                "br label %take",
            ]
            entries.append(f"[%wb{word}, %found{word}]")
        lines += [
            "finished:",
            "ret i32 0",
            "fault:",
            "ret i32 2",
            "take:",
            f"%b = phi i64 {', '.join(entries)}",
            "%b.lanes = getelementptr i32, ptr %all.lanes, i64 %b",
            "%b.now = load i32, ptr %b.lanes",
            "store i32 0, ptr %b.lanes",
            "store i32 %b.now, ptr %now",
            "%b.ready = load i32, ptr %ready",
            "%b.less = sub i32 %b.ready, 1",
            "store i32 %b.less, ptr %ready",
            "%b.word = lshr i64 %b, 6",
            "%b.set = getelementptr i64, ptr %all.set, i64 %b.word",
            "%b.before = load i64, ptr %b.set",
            "%b.place = and i64 %b, 63",
            "%b.bit = shl i64 1, %b.place",
            "%b.other = xor i64 %b.bit, -1",
            "%b.after = and i64 %b.before, %b.other",
            "store i64 %b.after, ptr %b.set",
            f"switch i64 %b, label %nowhere [{' '.join(f'i64 {n}, label %U{n}' for n in range(units))}]",
            "nowhere:",
            "unreachable",
        ]
        return lines

    def _unit_head(self, unit: int) -> list[str]:
        """Return what a unit begins with: at a loop, a count of its passes, after which engine.c
        looks at the clock, or lets others of the block run.
        """
        lines = [f"U{unit}:", f"%m{unit} = load i32, ptr %now"]
        if unit not in self.loop_heads:
            return lines
        waits = self.loop_heads[unit]
        counter = f"getelementptr i8, ptr %c, i64 {offset(Context, 'budget')}"
        kind = "i64"
        if waits:
            counter = f"getelementptr i8, ptr %w, i64 {offset(context.Warp, 'fuel')}"
            kind = "i32"
        region, self.region = self.region, Region(-1)
        self.in_tail = False
        self.queue(unit, f"%m{unit}")
        self.line(f"store i32 {unit}, ptr {self.at('%w', offset(context.Warp, 'last'))}")
        self.line(f"ret i32 {context.YIELDED if waits else context.PAUSED}")
        give_up = self.region.lines
        self.region = region
        return [
            *lines,
            f"%fuel.at{unit} = {counter}",
            f"%fuel{unit} = load {kind}, ptr %fuel.at{unit}",
            f"%less{unit} = sub {kind} %fuel{unit}, 1",
            f"store {kind} %less{unit}, ptr %fuel.at{unit}",
            f"%spent{unit} = icmp eq {kind} %less{unit}, 0",
            f"br i1 %spent{unit}, label %G{unit}, label %H{unit}",
            f"G{unit}:",
            *give_up,
            f"H{unit}:",
        ]

    def _region_text(self, region: Region) -> list[str]:
        n = region.number
        lines = [f"br label %R{n}", f"R{n}:"]
        if not region.lines and not region.kept:
            return [*lines, *region.tail]
        self.region = region
        stores: list[str] = []
        before, region.lines = region.lines, stores
        self.in_tail = False
        for key in region.kept:
            self._store(key, region.values[key])
        region.lines = before
        body = "\n".join([*before, *stores])
        places = []
        for width in (1, 8, 16, 32, 64):
            if f"%p{width}.{n}," in body:
                places += [
                    f"%q{width}.{n} = mul i64 %n{n}, {width}",
                    f"%p{width}.{n} = getelementptr i8, ptr %w, i64 %q{width}.{n}",
                ]
        return [
            *lines,
            f"br label %L{n}",
            f"L{n}:",
            f"%n{n} = phi i64 [0, %R{n}], [%n.next{n}, %E{n}]",
            f"%f.{n} = shl i64 %n{n}, 3",
            f"%f32.{n} = trunc i64 %f.{n} to i32",
            f"%part{n} = lshr i32 {region.mask}, %f32.{n}",
            f"%k8.{n} = trunc i32 %part{n} to i8",
            f"%none{n} = icmp eq i8 %k8.{n}, 0",
            f"br i1 %none{n}, label %E{n}, label %B{n}",
            f"B{n}:",
            f"%k.{n} = bitcast i8 %k8.{n} to {vector(1)}",
            *places,
            *region.lines,
            *stores,
            f"br label %E{n}",
            f"E{n}:",
            f"%n.next{n} = add i64 %n{n}, 1",
            f"%last{n} = icmp eq i64 %n.next{n}, {CHUNKS}",
            f"br i1 %last{n}, label %T{n}, label %L{n}",
            f"T{n}:",
            *region.tail,
        ]

    def _store(self, key: Key, value: str) -> None:
        """Store a register for the lanes that run."""
        width = self.registers[key][1]
        region = self.region.number
        if width == 1:
            pointer = self.at(f"%p1.{region}", self.registers[key][0])
            old = self.op(f"load i8, ptr {pointer}")
            fresh = self.op(f"bitcast {vector(1)} {value} to i8")
            change = self.op(f"and i8 {self.op(f'xor i8 {old}, {fresh}')}, %k8.{region}")
            self.line(f"store i8 {self.op(f'xor i8 {old}, {change}')}, ptr {pointer}")
            return
        pointer = self.part(key)
        kind = vector(width)
        old = self.op(f"load {kind}, ptr {pointer}, align 8")
        new = self.op(f"select {vector(1)} %k.{region}, {kind} {value}, {kind} {old}")
        self.line(f"store {kind} {new}, ptr {pointer}, align 8")
