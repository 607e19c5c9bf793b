"""Decoding: each instruction becomes a Python function that executes it for a group of lanes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from devmod_simulators.ptx.columns import CHANGING_REGISTERS, SPECIAL_REGISTERS
from devmod_simulators.ptx.errors import PtxError, invalid_ptx
from devmod_simulators.ptx.instructions import Form, Opcode, forms, opcode_of, strange_parts
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import stepped
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    FLOATS,
    PRED,
    U64,
    UNSIGNED,
    Address,
    Array,
    DType,
    Float,
    Integer,
    Name,
    Negation,
    Pair,
    Register,
    Vector,
)

if TYPE_CHECKING:
    from devmod_simulators.ptx.program import Program
    from devmod_simulators.ptx.ptx_types import Function, Instruction

Step = Callable[[Lanes], None]
Source = Callable[[Lanes], Array]
Target = Callable[[Lanes, Array], None]
Decode = Callable[["Decoder"], Step]

#: The decoders of plain instructions, by the first part of their opcode.
OPERATIONS: dict[str, Decode] = {}


# Where to change: an instruction of the interpreter of PTX
#   here: a row of `extras/simulators/src/devmod_simulators/ptx/instructions.txt`, and `ops_*.py`
#     there by family; `columns.py` there (`SPECIAL_REGISTERS`) for a special register
#   also: `extras/simulators/src/devmod_simulators/ptx/compiled/operations.py` and its neighbours,
#     unless the row has a reason why the interpreter alone has it
#   tests: `extras/simulators/tests/ptx/test_ptx_instructions.py`,
#     `extras/simulators/tests/ptx/test_ptx_integers.py` and its neighbours, by family
def operation(*names: str) -> Callable[[Decode], Decode]:
    """Register the decoder of instructions."""

    def register(decode: Decode) -> Decode:
        for name in names:
            OPERATIONS[name] = decode
        return decode

    return register


def put_all(lanes: Lanes, targets: list[Target], values: Iterable[Array]) -> None:
    """Store arrays in destinations, of which there may be fewer."""
    for target, value in zip(targets, values, strict=False):
        target(lanes, value)


def fits(operand: Any, dtype: DType) -> bool:
    """Return whether an operand is a register of the size of `dtype`, or a literal."""
    if isinstance(operand, Register):
        return operand.dtype.itemsize == dtype.itemsize
    return isinstance(operand, Integer | Float)


def is_predicate(operand: Any) -> bool:
    """Return whether an operand is a predicate, or the inverse of one."""
    if isinstance(operand, Negation):
        return True
    return isinstance(operand, Register) and operand.dtype == PRED


#: The families whose literals have the type of the instruction.
_WITH_LITERALS = (
    "Arithmetic of integers",
    "Arithmetic of floats",
    "Bits",
    "Comparison and selection",
    "Moves and conversion",
    "Memory",
    "Atomic operations",
)


class Decoder:
    """One instruction while it is decoded. It collects the registers that the instruction reads and
    writes.
    """

    def __init__(
        self, program: "Program", function: "Function", instruction: "Instruction"
    ) -> None:
        self.program = program
        self.function = function
        self.instruction = instruction
        self.opcode = instruction.opcode
        opcode = opcode_of(instruction.opcode)
        self.parts = opcode.parts
        self.root = self.parts[0]
        self.modifiers = opcode.modifiers
        self.types = opcode.types
        self.operands = instruction.operands
        if "L2::cache_hint" in self.modifiers:
            self.operands = self._before_policy()
        self.form = self._form(opcode)
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def _form(self, opcode: Opcode) -> Form:
        """Return the form of the instruction, whose operands are as many as it has."""
        form = opcode.form
        if form is None:
            if self.root not in forms():
                raise self.unsupported()
            strange = " ".join(f".{part}" for part in strange_parts(self.opcode))
            what = f"{strange} of this instruction" if strange else "this form of the instruction"
            raise self.unsupported(f"the interpreter lacks {what}")
        counts = form.counts(opcode.modifiers)
        number = len(self.operands)
        if counts is not None and not counts[0] <= number <= counts[1]:
            expected = " or ".join(str(each) for each in sorted({*counts}))
            raise self.invalid(f"expected {expected} operands, got {number}")
        if form.family in _WITH_LITERALS:
            self._check_literals()
        return form

    def _check_literals(self) -> None:
        """Raise if a literal is no value of the type of the operands, which is one."""
        if not self.types or (len(self.types) > 1 and self.root not in ("cvt", "set")):
            return
        kind = self.types[-1]
        takes_integers = kind not in FLOATS
        takes_floats = kind in ("f32", "f64", "b32", "b64")
        for operand in self.operands:
            for each in self.vector(operand):
                if isinstance(each, Integer) and not takes_integers:
                    raise self.invalid(f"an operand of .{kind} is an integer")
                if isinstance(each, Float) and not takes_floats:
                    raise self.invalid(f"an operand of .{kind} is a float")

    def _before_policy(self) -> list[Any]:
        """Return the operands without the last one, which is a policy for a cache."""
        *operands, policy = self.operands
        if not isinstance(policy, Register) or policy.dtype.itemsize != 8:
            raise self.invalid("the last operand is no 64-bit register with a cache policy")
        return operands

    @property
    def type(self) -> str:
        """The last type of the opcode."""
        if not self.types:
            raise self.invalid("the opcode has no type")
        return self.types[-1]

    @property
    def dtype(self) -> DType:
        """The NumPy type of the last type of the opcode."""
        return DTYPES[self.type]

    @property
    def unsigned(self) -> DType:
        """The NumPy type of the bits of the last type of the opcode."""
        if self.type == "pred":
            return PRED
        return UNSIGNED[self.dtype.itemsize]

    @property
    def is_float(self) -> bool:
        """Whether the last type of the opcode is one of floats."""
        return self.type in FLOATS

    @property
    def rounding(self) -> str:
        """The mode in which floats are rounded."""
        return self.first(("rn", "rz", "rm", "rp", "rna"), "rn")

    def has(self, modifier: str) -> bool:
        """Return whether the opcode has a suffix."""
        return modifier in self.modifiers

    def first(self, names: Container[str], default: str = "") -> str:
        """Return the first suffix that is one of `names`."""
        return next((part for part in self.parts[1:] if part in names), default)

    def invalid(self, text: str) -> PtxError:
        """Return an error of this instruction."""
        return invalid_ptx(self.instruction.line, f"{self.opcode}: {text}")

    def unsupported(self, reason: str = "the interpreter lacks this instruction") -> PtxError:
        """Return the error that the interpreter lacks this instruction."""
        return PtxError(
            "CUDA_ERROR_NOT_SUPPORTED", f"line {self.instruction.line}: {self.opcode}: {reason}"
        )

    def operand(self, operand: Any) -> Any:
        """Return an operand, which may be given by its number."""
        if isinstance(operand, int):
            return self.operands[operand]
        return operand

    def source(self, operand: Any, dtype: DType, shape: tuple[int, ...] = (1,)) -> Source:
        """Return a function that fetches an operand as an array of `dtype`, and a literal as one of
        a shape: NumPy takes three times as long for an array of one element as for a scalar.
        """
        operand = self.operand(operand)
        if isinstance(operand, Register):
            return self.register(operand, dtype)
        if isinstance(operand, Negation):
            inner = self.source(operand.operand, PRED)
            return lambda lanes: ~inner(lanes)
        if isinstance(operand, Integer | Float):
            value = self.constant(operand, dtype).reshape(shape)
            return lambda lanes: value
        if isinstance(operand, Name):
            return self.name(operand, dtype)
        raise self.invalid("an operand has the wrong form")

    def constant(self, operand: Integer | Float, dtype: DType) -> Array:
        """Return a literal as an array of one element."""
        if isinstance(operand, Float):
            if dtype.kind == "f":
                return np.array(
                    [operand.value], np.float64 if dtype.itemsize == 8 else np.float32
                ).astype(dtype)
            # An untyped instruction (mov.b32) takes the bits.
            data = struct.pack(
                "<f" if operand.bits == 32 or dtype.itemsize == 4 else "<d", operand.value
            )
            return (
                np.frombuffer(data, UNSIGNED[len(data)])
                .astype(UNSIGNED[dtype.itemsize])
                .view(dtype)
            )
        if dtype == PRED:
            return np.array([operand.value != 0])
        if dtype.kind == "f":
            return np.array([operand.value], dtype)
        bits = 8 * dtype.itemsize
        return np.array([operand.value & ((1 << bits) - 1)], UNSIGNED[dtype.itemsize]).view(dtype)

    def register(self, operand: Register, dtype: DType) -> Source:
        """Return a function that fetches a register."""
        number = operand.number
        self.reads.add(number)
        have = operand.dtype
        if (have == PRED) != (dtype == PRED):
            raise self.invalid("an operand has the wrong type")
        if have.itemsize == dtype.itemsize:
            if dtype == PRED:
                return lambda lanes: lanes.r[number]

            def fetch(lanes: Lanes) -> Array:
                value: Array = lanes.r[number]
                if value.dtype is not dtype:
                    # What is known of an array of addresses is known of this object.
                    value = value.view(dtype)
                    lanes.r[number] = value
                return value

            return fetch
        if have.itemsize > 8 or dtype.itemsize > 8:
            raise self.invalid("an operand has the wrong size")
        wide = UNSIGNED[have.itemsize]
        narrow = UNSIGNED[dtype.itemsize]
        return lambda lanes: lanes.r[number].view(wide).astype(narrow).view(dtype)

    def name(self, operand: Name, dtype: DType) -> Source:
        """Return a function that fetches a special register or the address of a name."""
        if operand.text.startswith("%"):
            return self.special(operand.text[1:], dtype)
        address = self.address_of(operand.text)
        if address is None:
            raise self.invalid(f"unknown identifier {operand.text!r}")
        space, base = address
        unsigned = UNSIGNED[dtype.itemsize]
        mask = (1 << 8 * dtype.itemsize) - 1
        if space == "local":
            return lambda lanes: np.array(
                [(lanes.frame.base + base + operand.offset) & mask], unsigned
            ).view(dtype)
        value = np.array([(base + operand.offset) & mask], unsigned).view(dtype)
        return lambda lanes: value

    def address_of(self, name: str) -> tuple[str, int] | None:
        """Return the space and the address of a variable, a parameter or a function. Those in local
        memory are relative to the frame.
        """
        program = self.program
        layout = program.layout(self.function)
        if name in layout:
            return layout[name]
        if name in program.shared:
            return "shared", program.shared[name][0]
        if name in program.module.addresses:
            return "global", program.module.addresses[name]
        if name in program.module.text.functions:
            return "code", program.module.function_address(name)
        return None

    def special(self, name: str, dtype: DType) -> Source:
        """Return a function that fetches a special register."""
        if name not in SPECIAL_REGISTERS:
            raise self.unsupported(f"the interpreter lacks the special register %{name}")
        unsigned = UNSIGNED[dtype.itemsize]
        if name in CHANGING_REGISTERS:
            return lambda lanes: lanes.frame.execution.clock(name).astype(unsigned).view(dtype)

        def fetch(lanes: Lanes) -> Array:
            value = lanes.column(name)
            return (
                value if value.dtype.itemsize == dtype.itemsize else value.astype(unsigned)
            ).view(dtype)

        return fetch

    def target(self, operand: Any, dtype: DType) -> Target:
        """Return a function that stores an array of `dtype` in a destination."""
        operand = self.operand(operand)
        if isinstance(operand, Name) and operand.text == "_":
            return lambda lanes, value: None
        if not isinstance(operand, Register):
            raise self.invalid("a destination is no register")
        number = operand.number
        self.writes.add(number)
        have = operand.dtype
        if (have == PRED) != (dtype == PRED):
            raise self.invalid("a destination has the wrong type")
        if have.itemsize == dtype.itemsize:

            def put(lanes: Lanes, value: Array) -> None:
                lanes.r[number] = value

            return put
        if have.itemsize < dtype.itemsize or have.itemsize > 8:
            raise self.invalid("a destination has the wrong size")
        # Instructions such as ld and cvt extend a value to a wider register by its sign.
        wide = DTYPES[f"{'s' if dtype.kind == 'i' else 'u'}{have.itemsize * 8}"]
        if dtype.kind == "f":
            bits = UNSIGNED[dtype.itemsize]

            def put_bits(lanes: Lanes, value: Array) -> None:
                lanes.r[number] = value.view(bits).astype(wide)

            return put_bits

        def put_wide(lanes: Lanes, value: Array) -> None:
            lanes.r[number] = value.astype(wide)

        return put_wide

    def pair(self, first: DType, second: DType) -> tuple[Target, Target]:
        """Return the functions for the two destinations of an instruction. Without a second one,
        its values are dropped.
        """
        both = self.operands[0]
        if not isinstance(both, Pair):
            both = Pair(both, Name("_"))
        return self.target(both.first, first), self.target(both.second, second)

    def vector(self, operand: Any) -> list[Any]:
        """Return the parts of a vector operand, or the operand itself."""
        operand = self.operand(operand)
        if isinstance(operand, Vector):
            return list(operand.parts)
        return [operand]

    def base(self, operand: Any) -> tuple[str, Source, int]:
        """Return the space of an address operand, where its base tells one, a function that
        computes the base, and the constant that comes to it.
        """
        operand = self.operand(operand)
        if not isinstance(operand, Address):
            raise self.invalid("an operand is no address")
        base = operand.base
        offset = operand.offset
        if isinstance(base, Register):
            return "", self.register(base, UNSIGNED[base.dtype.itemsize]), offset
        if isinstance(base, Integer):
            return "", self.source(Integer(base.value + offset), U64), 0
        if isinstance(base, Name):
            known = self.address_of(base.text)
            space = known[0] if known else ""
            return space, self.source(Name(base.text, base.offset + offset), U64), 0
        raise self.invalid("an address has the wrong form")

    def address(self, operand: Any) -> Source:
        """Return a function that computes an address operand."""
        _, fetch, step = self.base(operand)
        if not step:
            return fetch
        return lambda lanes: stepped(fetch(lanes), step)

    def is_used(self, destination: Any) -> bool:
        """Return whether the text names a register once more."""
        return self.function.mentions[getattr(destination, "number", -1)] > 1

    def parameter(self, operand: int) -> int | None:
        """Return where an address operand that names a parameter of the kernel is in the block of
        parameters; else None.
        """
        address = self.operands[operand]
        if not isinstance(address.base, Name):
            return None
        known = self.address_of(address.base.text)
        if not known or known[0] != "param":
            return None
        return known[1] + address.base.offset + address.offset


@contextmanager
def form_of(decoder: Decoder) -> Iterator[None]:
    """Turn the exceptions of a decoder into the error that the interpreter lacks a form of the
    instruction.
    """
    try:
        yield
    except (LookupError, AttributeError, ValueError, TypeError) as error:
        raise decoder.unsupported(
            f"the interpreter lacks this form of the instruction ({type(error).__name__}: {error})"
        ) from error


def decode(decoder: Decoder) -> Step:
    """Decode an instruction."""
    maker = OPERATIONS.get(decoder.root)
    watcher = decoder.program.watcher
    guard = decoder.instruction.guard
    if maker is None:
        raise decoder.unsupported()
    step = maker(decoder)
    if watcher is not None:
        step = watcher.step(decoder, step)
    if guard is None:
        return step
    decoder.reads |= decoder.writes
    step = guarded(
        step,
        guard.number,
        decoder.instruction.negated,
        sorted(decoder.reads),
        sorted(decoder.writes),
    )
    if watcher is not None:
        step = watcher.guard(decoder, guard.number, step)
    decoder.reads.add(guard.number)
    return step


def guarded(step: Step, guard: int, negated: bool, reads: list[int], writes: list[int]) -> Step:
    """Return `step` for the lanes alone whose predicate holds."""

    def run(lanes: Lanes) -> None:
        holds = lanes.r[guard]
        if negated:
            holds = ~holds
        if len(holds) == 1:
            if holds[0]:
                step(lanes)
            return
        positions = np.flatnonzero(holds)
        if len(positions) == lanes.count:
            step(lanes)
        elif len(positions):
            part = lanes.select(positions, reads)
            step(part)
            for number in writes:
                value = part.r[number]
                old = lanes.r[number]
                new = lanes.spread(old).view(value.dtype).copy()
                new[positions] = value
                lanes.r[number] = new

    return run
