"""The grammar and the checker of programs: what makes them and what runs them reads and checks them by the same code.

docs/formats.md has the layout.
"""

from __future__ import annotations

from devmod_readers.programs._check import Candidate, ProgramError, check_kernels, check_names, form_of
from devmod_readers.programs._expressions import COMPARISONS, MAX_DEPTH, OPERATORS, Expression, ExpressionError, evaluate, names_in
from devmod_readers.programs._model import MAX_STEPS, Array, Program, Sampler, Scalar, Step
from devmod_readers.programs._wire import interface_of, pack_steps, read_program

__all__ = [
    "COMPARISONS",
    "MAX_DEPTH",
    "MAX_STEPS",
    "OPERATORS",
    "Array",
    "Candidate",
    "Expression",
    "ExpressionError",
    "Program",
    "ProgramError",
    "Sampler",
    "Scalar",
    "Step",
    "check_kernels",
    "check_names",
    "evaluate",
    "form_of",
    "interface_of",
    "names_in",
    "pack_steps",
    "read_program",
]
