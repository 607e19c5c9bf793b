"""The translation of one entry point: its variables, and its functions, which are inlined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from devmod_readers.spirv import (
    EntryPoint,
    SpirvCode,
    SpirvConstants,
    SpirvFunction,
    SpirvInstruction,
)
from devmod_readers.spirv import SpirvModule as Module
from devmod_targets.spirv_ptx._inputs import group_size, input_value, local_index
from devmod_targets.spirv_ptx._memory import SPACES, Memory, Pointer, Segment, Value
from devmod_targets.spirv_ptx._opcodes import opcode_name
from devmod_targets.spirv_ptx._promotion import Promotion
from devmod_targets.spirv_ptx._sources import Sources
from devmod_targets.spirv_ptx._types import OPAQUE_TYPES, U32, RefusedError, Scalar, Types
from devmod_targets.spirv_ptx._writer import Names, Writer, float_literal, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_readers.spirv import SpirvLine

#: Storage classes.
_INPUT = 1
_PRIVATE = 6
_WORKGROUP = 4
_VOLATILE = 21
_BUILT_IN = 11
PHI = 245
_VOID = 19
_MAX_CALLS = 64
#: Memory of a block, and of a thread.
_MOST_BYTES = 1 << 20
#: The numbers of all values.
_MOST_HELD = 1 << 21
#: The alignment of variables.
_WIDEST = 16

_HANDLERS: dict[int, Handler] = {}


class Buffer(NamedTuple):
    """The parameters of a buffer: its address, the number of its elements, "" without it, and the
    bytes of one.
    """

    address: str
    length: str
    element: int


class Frame:
    """A function that is inlined: the values of its ids, its labels, and where its result goes."""

    def __init__(self, function: SpirvFunction, depth: int) -> None:
        self.function = function
        self.depth = depth
        self.values: dict[int, Value] = {}
        self.labels: dict[int, str] = {}
        #: The instructions OpPhi of each block, and the registers of their results.
        self.phis: dict[int, list[SpirvInstruction]] = {}
        self.phi_registers: dict[int, list[str]] = {}
        self.result: list[str] = []
        self.end = ""
        #: The id of the block that is translated.
        self.block = 0


class Kernel:
    """One entry point while it is translated."""

    def __init__(
        self,
        module: Module,
        code: SpirvCode,
        constants: SpirvConstants,
        types: Types,
        sources: Sources,
        promotion: Promotion,
        *,
        clears: bool,
    ) -> None:
        self.module = module
        self.code = code
        self.constants = constants
        self.types = types
        self.promotion = promotion
        self._clears = clears
        self.names = Names()
        self.writer = Writer(sources)
        self.memory = Memory(types, self.writer)
        self.frame = Frame(SpirvFunction(0, 0, [], []), 0)
        self.globals: dict[int, Value] = {}
        self.instruction: SpirvInstruction | None = None
        #: The registers with the bytes of buffers, by their variables.
        self.lengths: dict[int, str] = {}
        self._held = 0
        self.has_barriers = False
        #: The variables in shared memory that begin as zeros.
        self._cleared: list[Pointer] = []
        self._undefined = ""

    # -- values

    def value(self, number: int) -> Value:
        """Return what an id stands for."""
        value = self.frame.values.get(number)
        if value is None:
            value = self.globals.get(number)
        if value is not None:
            return value
        if number in self.module.constants:
            value = self.globals[number] = self._constant(number)
            return value
        if number in self.code.undefined:
            return self.undefined(self.code.undefined[number])
        if number in self.module.variables:
            name = self.module.names.get(number, "") or f"%{number}"
            pointee = self.types.pointee(self.module.variables[number][0])[1]
            kind = OPAQUE_TYPES.get(self.module.types[pointee][0], "a variable")
            raise RefusedError(f"it uses {name!r}, {kind}, which the translation does not support")
        raise RefusedError(f"its operand %{number} is not defined")

    def numbers(self, number: int) -> list[str]:
        """Return the registers or literals of a value; of a pointer its address."""
        value = self.value(number)
        if isinstance(value, Pointer):
            return [self.memory.address(value)]
        return value

    def one(self, number: int) -> str:
        """Return the register or literal of a scalar."""
        return self.numbers(number)[0]

    def pointer(self, number: int) -> Pointer:
        """Return a pointer."""
        value = self.value(number)
        if isinstance(value, Pointer):
            return value
        return self.memory.pointer(self.type_of(number), value[0])

    def literal_of(self, number: int) -> int | None:
        """Return the value of an integer constant; None for other ids."""
        if number in self.frame.values:
            return None
        return self.constants.values.get(number)

    def type_of(self, number: int) -> int:
        """Return the type of an id."""
        known = self.frame_types.get(number)
        if known is not None:
            return known
        if number in self.module.constants:
            return self.module.constants[number][1][0]
        if number in self.module.variables:
            return self.module.variables[number][0]
        if number in self.code.undefined:
            return self.code.undefined[number]
        raise RefusedError(f"its operand %{number} is not defined")

    def scalar_of(self, number: int) -> Scalar:
        """Return the scalar of an id's type."""
        return self.types.scalar(self.type_of(number))

    def undefined(self, type_: int) -> list[str]:
        """Return registers that the sanitizer takes for what nothing wrote."""
        if not self._undefined:
            self._undefined = self.names.add("undefined", "undefined")
            self.writer.variables.append(f"\t.local .align 8 .b8 {self._undefined}[8];")
        return [self._unwritten(scalar, self._undefined, 0) for scalar in self.types.numbers(type_)]

    def _unwritten(self, scalar: Scalar, name: str, offset: int) -> str:
        writer = self.writer
        if scalar.form == "bool":
            value = writer.op("b32", "ld.local.u32", f"[{name}+{offset}]")
            return writer.op("pred", "setp.ne.u32", value, "0")
        return writer.op(scalar.register, f"ld.local.{scalar.memory}", f"[{name}+{offset}]")

    def _constant(self, number: int, depth: int = 0) -> list[str]:
        module = self.module
        opcode, operands = module.constants[number]
        type_ = operands[0]
        if depth > 32 or not opcode:
            raise RefusedError(f"its operand %{number} is not a constant")
        if opcode in (44, 51):
            values: list[str] = []
            for part in operands[1:]:
                values += self._constant(part, depth + 1)
                if len(values) > len(self.types.numbers(type_)):
                    raise RefusedError(f"its operand %{number} has too many parts")
            return values
        if opcode == 46:
            return [literal(scalar, 0) for scalar in self.types.numbers(type_)]
        if opcode == 52 and number not in self.constants.values:
            return self._operation(number, type_, operands[1:])
        return [self._scalar_constant(number, self.types.scalar(type_), operands[1:])]

    def _scalar_constant(self, number: int, scalar: Scalar, words: Sequence[int]) -> str:
        given = self.constants.spec_constants.get(number)
        if scalar.form == "float" and isinstance(given, (int, float)):
            return float_literal(scalar.bits, given)
        value = self.constants.values.get(number)
        if value is None:
            value = sum(word << 32 * index for index, word in enumerate(words[:2]))
        if scalar.form != "bool":
            value &= (1 << scalar.bits) - 1
        return literal(scalar, value)

    def _operation(self, number: int, type_: int, operands: Sequence[int]) -> list[str]:
        """Translate an OpSpecConstantOp that is no integer. `run` has seen it first."""
        instruction = SpirvInstruction(operands[0], (type_, number, *operands[1:]), None)
        value = self.translate(instruction)
        if not isinstance(value, list):
            raise RefusedError("it is a constant expression without a value")
        return value

    # -- the entry point

    def run(
        self,
        entry: EntryPoint,
        buffers: dict[int, Buffer],
        blocks: dict[int, tuple[Segment, ...]],
    ) -> None:
        """Translate an entry point.

        Parameters
        ----------
        entry
            The entry point.
        buffers
            The parameters of each buffer, by its variable.
        blocks
            The parameters with the values of each block of numbers, by its variable.
        """
        function = self.code.functions[entry.function]
        self.frame_types: dict[int, int] = {}
        for variable in self.module.used_by(entry):
            self._declare(variable, buffers, blocks)
        self._clear_shared()
        for number, (opcode, _) in self.module.constants.items():
            # Functions use it in any block, so it is computed before all of them.
            if opcode == 52 and number not in self.constants.values:
                self.value(number)
        self.inline(function, [])
        self._finish(function)

    def _finish(self, function: SpirvFunction) -> None:
        """End the kernel. PTX has barriers for the threads that have not exited; those of Vulkan
        are for all of a group, so all of them meet at the end.
        """
        if self.has_barriers:
            self.writer.at(function.blocks[0].instructions[0].line)
            self.writer.put("bar.sync", "0")
        self.writer.put("ret")

    def _declare(
        self,
        variable: int,
        buffers: dict[int, Buffer],
        blocks: dict[int, tuple[Segment, ...]],
    ) -> None:
        """Declare a variable of the module."""
        pointer_type, storage = self.module.variables[variable]
        type_ = self.types.pointee(pointer_type)[1]
        volatile = _VOLATILE in self.module.decorations.get(variable, {})
        if storage == _INPUT:
            self._declare_input(variable, type_)
        elif variable in blocks:
            layout = self.types.layout(type_, True)
            pointer = Pointer("param", type_, layout, segments=blocks[variable], variable=variable)
            self.globals[variable] = pointer
        elif variable in buffers:
            buffer = buffers[variable]
            base = self.writer.op("b64", "ld.param.u64", f"[{buffer.address}]")
            base = self.writer.op("b64", "cvta.to.global.u64", base)
            layout = self.types.layout(type_, True)
            self.globals[variable] = Pointer(
                "global", type_, layout, base, variable=variable, volatile=volatile
            )
            if buffer.length:
                count = self.writer.op("b64", "ld.param.u64", f"[{buffer.length}]")
                size = self.writer.op("b64", "mul.lo.u64", count, str(buffer.element))
                self.lengths[variable] = size
        elif storage in (_WORKGROUP, _PRIVATE):
            self.globals[variable] = self.allocate(variable, type_, storage, volatile)
            self._initialize(variable, storage)

    def _initialize(self, variable: int, storage: int) -> None:
        initializer = self.code.initializers.get(variable)
        if storage == _WORKGROUP:
            # The initializer is null: Vulkan allows no other one.
            if initializer is not None or self._clears:
                self._cleared.append(self.pointer(variable))
        elif initializer is not None:
            self.memory.store(self.pointer(variable), self.numbers(initializer))

    def _clear_shared(self) -> None:
        """Write zeros to shared memory, by all threads together."""
        if not self._cleared:
            return
        writer = self.writer
        (own,) = local_index(writer)
        threads = group_size(writer)
        for pointer in self._cleared:
            words = -(-pointer.layout.size // 4)
            base = writer.op("b64", "mov.u64", pointer.base)
            index = writer.copy(U32, own)
            again, end = writer.label(), writer.label()
            writer.put_label(again)
            done = writer.op("pred", "setp.ge.u32", index, str(words))
            writer.put("bra", end, guard=f"@{done}")
            address = writer.op("b64", "mad.wide.u32", index, "4", base)
            writer.put("st.shared.u32", f"[{address}]", "0")
            writer.put("add.u32", index, index, threads)
            writer.put("bra", again)
            writer.put_label(end)
        writer.put("bar.sync", "0")

    def _declare_input(self, variable: int, type_: int) -> None:
        number = self.module.mark(variable, _BUILT_IN)
        if number is None:
            return
        values = input_value(self.writer, number)
        if values is None:
            return
        layout = self.types.layout(type_, False)
        self.globals[variable] = Pointer(
            "registers", type_, layout, registers=tuple(values), variable=variable
        )

    def allocate(self, variable: int, type_: int, storage: int, volatile: bool = False) -> Pointer:
        """Return the pointer to a new variable."""
        name = self.module.names.get(variable, "")
        layout = self.types.layout(type_, False)
        if layout.size > _MOST_BYTES:
            raise RefusedError(f"the variable {name!r} has {layout.size} bytes")
        symbol = self.names.add(name, "variable")
        space = SPACES[storage]
        size = max(layout.size, 1)
        if space == "shared":
            # Words are cleared.
            size = -(-size // 4) * 4
        if space == "local" and self.promotion.allows(variable):
            return self._registers(variable, type_, symbol, size)
        align = max(layout.align, _WIDEST)
        self.writer.variables.append(f"\t.{space} .align {align} .b8 {symbol}[{size}];")
        return Pointer(space, type_, layout, symbol, variable=variable, volatile=volatile)

    def _registers(self, variable: int, type_: int, symbol: str, size: int) -> Pointer:
        """Return the pointer to a variable that is registers."""
        layout = self.types.layout(type_, False)
        numbers = self.types.numbers(type_)
        is_own = variable not in self.module.variables
        if is_own and self.promotion.is_written_first(variable):
            registers = [self.writer.new(scalar.register) for scalar in numbers]
        else:
            self.writer.variables.append(f"\t.local .align {_WIDEST} .b8 {symbol}[{size}];")
            memory = Pointer("local", type_, layout, symbol)
            registers = self.memory.load(memory)
        return Pointer("registers", type_, layout, registers=tuple(registers), variable=variable)

    # -- functions

    def inline(self, function: SpirvFunction, arguments: list[Value]) -> list[str]:
        """Translate a function where it is called, and return its result."""
        outer = self.frame
        if outer.depth >= _MAX_CALLS:
            raise RefusedError(f"it has calls that are nested more than {_MAX_CALLS} levels deep")
        frame = self.frame = Frame(function, outer.depth + 1)
        if len(arguments) != len(function.parameters):
            raise RefusedError(
                f"it has {len(arguments)} arguments for a function with {len(function.parameters)}"
            )
        for (type_, number), argument in zip(function.parameters, arguments, strict=True):
            frame.values[number] = argument
            self.frame_types[number] = type_
        frame.end = self.writer.label()
        if self.module.types[function.result][0] != _VOID:
            numbers = self.types.numbers(function.result)
            frame.result = [self.writer.new(scalar.register) for scalar in numbers]
        self._start_phis(frame)
        for block in function.blocks:
            self.writer.put_label(frame.labels[block.label])
            frame.block = block.label
            for instruction in block.instructions:
                self._step(instruction)
        self.writer.put_label(frame.end)
        self.frame = outer
        return frame.result

    def translate(self, instruction: SpirvInstruction) -> Value | None:
        """Translate an instruction."""
        handler = _HANDLERS.get(instruction.opcode)
        if handler is None:
            raise RefusedError("it has no translation")
        return handler(self, instruction)

    def _start_phis(self, frame: Frame) -> None:
        """Give each block of a function its label, and each OpPhi its registers."""
        for block in frame.function.blocks:
            frame.labels[block.label] = self.writer.label()
            phis = [each for each in block.instructions if each.opcode == PHI]
            frame.phis[block.label] = phis
            for phi in phis:
                type_, number = phi.operands[:2]
                numbers = self.types.numbers(type_)
                registers = [self.writer.new(scalar.register) for scalar in numbers]
                frame.phi_registers[number] = frame.values[number] = registers
                self.frame_types[number] = type_

    def _step(self, instruction: SpirvInstruction) -> None:
        """Translate an instruction of a block, and keep its result."""
        self.instruction = instruction
        self.writer.at(instruction.line)
        value = self.translate(instruction)
        if value is None:
            return
        number = instruction.operands[1]
        if isinstance(value, list):
            self._held += len(value)
            if self._held > _MOST_HELD:
                raise RefusedError(f"the kernel has values of more than {_MOST_HELD} numbers")
        self.frame.values[number] = value
        self.frame_types[number] = instruction.operands[0]

    @property
    def line(self) -> SpirvLine | None:
        """The line of the instruction that is translated."""
        return self.instruction.line if self.instruction else None

    @property
    def doing(self) -> str:
        """The name of the instruction that is translated."""
        return opcode_name(self.instruction) if self.instruction else ""


#: Translates an instruction, and returns the value of its result; None without one.
Handler = Callable[[Kernel, SpirvInstruction], Value | None]


def handles(*opcodes: int) -> Callable[[Handler], Handler]:
    """Register the translation of instructions by their opcodes."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            _HANDLERS[opcode] = handler
        return handler

    return register
