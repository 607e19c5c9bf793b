"""Programs in a module's bytes: the declarations are the interface, the steps are the code."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]

from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS, Reader
from devmod.errors import FormatError, quote_name
from devmod_readers.programs._expressions import COMPARISONS, LEAST, MAX_DEPTH, MOST, OPERATORS, Expression
from devmod_readers.programs._model import (
    MAX_ARGUMENTS,
    MAX_DECLARED,
    MAX_RANK,
    MAX_STEPS,
    ROLES,
    Array,
    Program,
    Sampler,
    Scalar,
    Step,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod.backend import Binary

#: The most operators of all expressions of a program.
_MAX_OPERATORS = 1_000_000
_DIMS = ("grid", "threads", "block")


def interface_of(program: Program) -> FunctionInfo:
    """Return the function of a program in a module's fmap."""
    params = [_param(each) for each in program.declared.values()]
    types = [each.type if each.kind == "scalar" else "handle" for each in params]
    extra: dict[str, Any] = {"kernels": program.kernels, **({"backward": program.backward} if program.backward else {})}
    return FunctionInfo(program.name, types, interface=Interface(params, extra=extra))


def _param(each: Array | Scalar | Sampler) -> Param:
    if isinstance(each, Scalar):
        value = {} if each.default is None else {"value": each.default}
        return Param(each.name, "scalar", each.type, extra={"role": "input", **value})
    if isinstance(each, Sampler):
        return Param(each.name, "sampler", extra={"role": "sampler", "filter": each.filter, "address": each.address})
    extra = {"role": each.role, "shape": list(map(_plain, each.shape)), **({"cleared": True} if each.cleared else {})}
    if each.texel is not None:
        return Param(each.name, "image", "2d", ROLES[each.role], format=each.format, sample=each.texel.sample, extra=extra)
    return Param(each.name, "buffer", each.type, ROLES[each.role], extra=extra)


# The layout of a program's code: a map.
#
#   requires   array of [comparison, expression, expression]
#   steps      array of [kernel, map of argument to value, map of "grid", "threads", "block" to an array of 1 to 3 expressions]
#
# A value is a name, an expression, a float or a boolean. An expression is an int, a name, or an array of an operator and its operands.
# A reader ignores other keys of the map and of a step's last map.
def pack_steps(program: Program) -> bytes:
    """Return the code of a program."""
    steps = [
        [
            step.kernel,
            {name: _plain(value) for name, value in step.arguments.items()},
            {name: list(map(_plain, dims)) for name in _DIMS if (dims := getattr(step, name))},
        ]
        for step in program.steps
    ]
    result: bytes = msgpack.packb({"requires": list(map(_plain, program.requires)), "steps": steps})
    return result


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def read_program(name: str, info: FunctionInfo, code: Binary) -> Program:
    """Return the program of a function and its code. Its names and its kernels are not checked: see `check_names`.

    Raises
    ------
    FormatError
        They are no program, or have more than a program may have.
    """
    subject = f"the program {quote_name(name)}"
    if info.interface is None or len(info.interface.params) > MAX_DECLARED:
        raise FormatError(f"{subject} has no declarations, or more than {MAX_DECLARED}", kind="program", function=name)
    declared: dict[str, Array | Scalar | Sampler] = {}
    for param in info.interface.params:
        if param.name in declared:
            raise FormatError(f"{subject} declares {quote_name(param.name)} twice", kind="program", function=name)
        declared[param.name] = _declaration(param, subject, name)
    backward = info.interface.extra.get("backward", "")
    return Program(name, declared, *_Steps(code, subject).read(), backward if isinstance(backward, str) else "")


def _declaration(param: Param, subject: str, function: str) -> Array | Scalar | Sampler:
    role, extra = param.extra.get("role"), param.extra
    if param.kind == "scalar" and role == "input":
        value = extra.get("value")
        if value is None or type(value) in (bool, int, float):
            return Scalar(param.name, param.type, value)
    elif param.kind == "sampler" and role == "sampler":
        return Sampler(param.name, str(extra.get("filter")), str(extra.get("address")))
    elif param.kind in ("buffer", "image") and role in ROLES:
        shape = extra.get("shape")
        cleared = extra.get("cleared", False)
        texel = IMAGE_FORMATS.get(param.format)
        is_known = texel is not None or param.kind == "buffer"
        if isinstance(shape, list) and 1 <= len(shape) <= MAX_RANK and type(cleared) is bool and is_known:
            try:
                lengths = tuple(map(_expression, shape))
            except ValueError as error:
                raise FormatError(f"{subject}: the shape of {quote_name(param.name)} {error}", kind="program", function=function) from None
            return Array(param.name, role, texel.dtype if texel else param.type, lengths, param.format, cleared)
    raise FormatError(f"{subject}: the declaration of {quote_name(param.name)} is invalid", kind="program", function=function)


def _expression(value: object, depth: int = 0) -> Expression:
    """Return the expression of a plain value. Raise ValueError with the reason, as the end of a sentence."""
    if type(value) is int and LEAST <= value <= MOST:
        return value
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and isinstance(value[0], str) and value[0] in OPERATORS:
        count = len(value) - 1
        if depth >= MAX_DEPTH:
            raise ValueError(f"has an expression that is nested more than {MAX_DEPTH} deep")
        if count == 2 or (value[0] in ("min", "max") and 2 < count <= MAX_RANK):
            return (value[0], *[_expression(each, depth + 1) for each in value[1:]])
    raise ValueError("has a value that is no expression")


class _Steps:
    """Read the code of a program."""

    def __init__(self, code: Binary, subject: str) -> None:
        self._reader = Reader(memoryview(code), f"the code of {subject}", "program")
        self._operators = 0

    def read(self) -> tuple[tuple[tuple[str, Expression, Expression], ...], tuple[Step, ...]]:
        reader = self._reader
        requires: list[tuple[str, Expression, Expression]] = []
        steps: list[Step] = []
        keys: dict[str, None] = {}
        for _ in range(reader.read_map()):
            reader.field = key = reader.read_key(keys)
            keys[key] = None
            if key == "requires":
                requires = [self._comparison() for _ in range(self._count(MAX_STEPS, "comparisons"))]
            elif key == "steps":
                for number in range(self._count(MAX_STEPS, "steps")):
                    reader.field = f"step {number + 1}"
                    steps.append(self._step())
            else:
                reader.read_value()
        reader.finish()
        return tuple(requires), tuple(steps)

    def _count(self, most: int, what: str) -> int:
        count = self._reader.read_array()
        if count > most:
            raise self._reader.error(f"{count} {what}, and the maximum is {most}")
        return count

    def _comparison(self) -> tuple[str, Expression, Expression]:
        start = self._reader.at
        if self._reader.read_array() != 3 or (name := self._reader.read_str()) not in COMPARISONS:
            raise self._reader.error("expected a comparison", start)
        return name, self._integer(), self._integer()

    def _step(self) -> Step:
        reader = self._reader
        start = reader.at
        if reader.read_array() != 3:
            raise reader.error("expected a kernel, its arguments and its launch", start)
        kernel = reader.read_str()
        count = reader.read_map()
        if count > MAX_ARGUMENTS:
            raise reader.error(f"{count} arguments, and the maximum is {MAX_ARGUMENTS}", start)
        arguments: dict[str, Any] = {}
        for _ in range(count):
            argument = reader.read_key(arguments)
            arguments[argument] = self._value()
        launch: dict[str, tuple[Expression, ...]] = {}
        for _ in range(reader.read_map()):
            key = reader.read_key(launch)
            if key in _DIMS:
                dims = [self._integer() for _ in range(self._count(3, "dimensions"))]
                launch[key] = tuple(dims)
            else:
                reader.read_value()
        return Step(kernel, arguments, **launch)

    def _integer(self) -> Expression:
        start = self._reader.at
        value = self._value()
        if type(value) in (int, str, tuple):
            result: Expression = value
            return result
        raise self._reader.error("expected an integer expression", start)

    def _value(self, depth: int = 0) -> Any:
        reader = self._reader
        start = reader.at
        if not (start < len(reader.data) and 0x90 <= reader.data[start] <= 0x9F):
            value = reader.read_value()
            if type(value) in (bool, float) or (type(value) is int and LEAST <= value <= MOST) or (isinstance(value, str) and value):
                return value
            raise reader.error("expected a name, a number or an expression", start)
        self._operators += 1
        if depth >= MAX_DEPTH or self._operators > _MAX_OPERATORS:
            raise reader.error(f"expressions nested more than {MAX_DEPTH} deep, or with more than {_MAX_OPERATORS} operators", start)
        count = reader.read_array()
        name = reader.read_str()
        if name not in OPERATORS or not (count == 3 or (count > 3 and name in ("min", "max"))):
            raise reader.error(f"expected an operator and its operands, found {quote_name(name)} with {count - 1}", start)
        operands: Sequence[Any] = [self._value(depth + 1) for _ in range(count - 1)]
        if any(type(each) not in (int, str, tuple) for each in operands):
            raise reader.error("an operand is no integer expression", start)
        return (name, *operands)
