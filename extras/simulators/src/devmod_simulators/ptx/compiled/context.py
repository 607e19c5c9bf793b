"""The structures that Python, LLVM's code and engine.c share."""

from __future__ import annotations

from ctypes import (
    Structure,
    c_int32,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

#: Lanes of a warp, and those that one vector has.
WARP = 32
CHUNK = 8
CHUNKS = WARP // CHUNK

GLOBAL, SHARED, LOCAL, PARAM, GENERIC = range(5)
SPACES = {"global": GLOBAL, "const": GLOBAL, "shared": SHARED, "local": LOCAL, "param": PARAM}
LOAD, STORE, ATOMIC = range(3)
#: What a warp's function returns.
DONE, YIELDED, FAULT, PAUSED = range(4)
NO_FAULT, OUTSIDE, MISALIGNED, TRAP, BAD_TABLE, DEADLOCK, NO_MEMORY, ASSERTION = range(8)
#: Of atomic operations and reductions; of the kinds of their numbers.
OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")
#: Of arithmetic that the processor rounds in a direction, and its modes.
ROUNDED = (
    "add",
    "sub",
    "mul",
    "div",
    "fma",
    "sqrt",
    "narrow",
    "s32",
    "u32",
    "s64",
    "u64",
)
MODES = ("rn", "rz", "rm", "rp")

#: The functions of engine.c, in the order of `engine_functions`: the types of their results and of
#: their arguments behind the pointers to the context and the warp, where they take both.
FUNCTIONS = (
    "load",
    "store",
    "atomic",
    "arrive",
    "reduced",
    "gather",
    "leave",
    "table",
    "trap",
    "shuffle",
    "vote",
    "match",
    "reduce",
    "elect",
    "rounded",
    "clock",
    "approximate",
    "assertion",
    "copy",
    "product",
    "matrix",
    "print",
)
#: The kinds of the elements of matrices.
ELEMENTS = ("f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "f64", "s8", "u8", "s32")
#: The most elements of a matrix.
MOST_ELEMENTS = 1024
#: The functions of NumPy that engine.c calls.
LOOPS = ("sin", "cos", "log2", "exp2", "tanh")


class Site(Structure):
    """An access to memory."""

    _fields_: ClassVar[list[Any]] = [
        (name, c_uint32) for name in ("kind", "space", "width", "count", "alignment", "operation")
    ]


class Limit(Structure):
    """The addresses that an access may have in a space, with checks."""

    _fields_: ClassVar[list[Any]] = [("start", c_uint64), ("end", c_uint64)]


class Undo(Structure):
    """What a launch with checks has written to."""

    _fields_: ClassVar[list[Any]] = [
        ("lock", c_uint64),
        ("first", c_void_p),
        ("left", c_void_p),
        ("is_kept", c_void_p),
        ("kept", c_void_p),
    ]


class Wait(Structure):
    """A unit in which lanes wait: the number of its barrier, or one below 0."""

    _fields_: ClassVar[list[Any]] = [("number", c_int32), ("unit", c_uint32), ("next", c_uint32)]


class Warp(Structure):
    """The beginning of a warp."""

    _fields_: ClassVar[list[Any]] = [
        ("alive", c_uint32),
        ("now", c_uint32),
        ("fuel", c_uint32),
        ("last", c_uint32),
        ("block", c_void_p),
        ("local", c_void_p),
        ("member", c_uint32 * WARP),
        ("thread", c_uint32 * WARP * 3),
        ("number", c_uint32),
        ("pauses", c_uint32),
        ("ready", c_uint32),
        ("unused", c_uint32),
    ]


class Kernel(Structure):
    """A compiled kernel."""

    _fields_: ClassVar[list[Any]] = [
        ("run", c_void_p),
        *(
            (name, c_uint32)
            for name in (
                "units",
                "words",
                "set",
                "lanes",
                "waiting",
                "registers",
                "warp_bytes",
                "clears",
                "frame",
                "wait_count",
                "site_count",
                "can_wait",
            )
        ),
        ("waits", c_void_p),
        ("sites", c_void_p),
    ]


class Context(Structure):
    """What a thread of this process executes."""

    _fields_: ClassVar[list[Any]] = [
        ("functions", c_void_p * 24),
        ("loops", c_void_p * len(LOOPS)),
        ("loop_data", c_void_p * len(LOOPS)),
        ("kernel", c_void_p),
        ("delta", c_uint64),
        ("starts", c_void_p),
        ("ends", c_void_p),
        ("range_count", c_uint64),
        ("heap", c_void_p),
        ("heap_size", c_uint64),
        ("parameters", c_void_p),
        ("parameters_size", c_uint64),
        ("symbols", c_void_p),
        ("numbers", c_void_p),
        ("shared", c_void_p),
        ("shared_size", c_uint64),
        ("shared_readable", c_uint64),
        ("budget", c_uint64),
        ("next", c_void_p),
        ("blocks", c_uint64),
        ("windows", c_void_p),
        ("limits", c_void_p),
        ("undo", c_void_p),
        ("grid", c_uint32 * 3),
        ("size", c_uint32 * 3),
        ("place", c_uint32 * 3),
        ("threads", c_uint32),
        ("began", c_uint64),
        ("until", c_uint64),
        ("slots", c_void_p),
        ("count", c_uint32),
        ("room", c_uint32),
        ("rounds", c_uint32),
        ("waits", c_uint32),
        ("most", c_uint32),
        ("unused", c_uint32),
        *(
            (name, c_uint32)
            for name in (
                "fault",
                "fault_site",
                "fault_space",
                "fault_lane",
                "fault_unit",
                "fault_count",
            )
        ),
        ("fault_address", c_uint64),
        ("fault_block", c_uint64),
        ("fault_values", c_uint64 * 4),
    ]


def offset(structure: type[Structure], name: str) -> int:
    """Return where a field is in a structure."""
    place: int = getattr(structure, name).offset
    return place
