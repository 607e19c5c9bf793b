"""The grammar and the checker of programs: what makes them and what runs them reads and checks them
by the same code.

docs/formats.md has the layout.
"""

from __future__ import annotations

from devmod.backend import (
    COMPARISONS,
    MAX_EXPRESSION,
    OPERATORS,
    Expression,
    ExpressionError,
    evaluate,
    names_in,
    read_expression,
)
from devmod_readers.programs._check import (
    RESERVED,
    Candidate,
    Gradient,
    arguments_of,
    check_kernels,
    check_names,
    constant_of,
    gradient_of,
    integer_range,
    mismatch,
)
from devmod_readers.programs._model import (
    MAX_LAUNCHES,
    MAX_STEPS,
    REPEAT,
    Array,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
    bind_lengths,
)
from devmod_readers.programs._wire import interface_of, pack_steps, read_program

__all__ = [
    "COMPARISONS",
    "MAX_EXPRESSION",
    "MAX_LAUNCHES",
    "MAX_STEPS",
    "OPERATORS",
    "REPEAT",
    "RESERVED",
    "Array",
    "Candidate",
    "Expression",
    "ExpressionError",
    "Gradient",
    "Program",
    "Repeat",
    "Sampler",
    "Scalar",
    "Step",
    "View",
    "arguments_of",
    "bind_lengths",
    "check_kernels",
    "check_names",
    "constant_of",
    "evaluate",
    "gradient_of",
    "integer_range",
    "interface_of",
    "mismatch",
    "names_in",
    "pack_steps",
    "read_expression",
    "read_program",
]
