"""Programs in a module's bytes: the declarations are the interface, the steps are the code."""

from __future__ import annotations

from typing import Any

from devmod import FunctionInfo, Interface, Param
from devmod.backend import (
    COMPARISONS,
    IMAGE_FORMATS,
    Expression,
    ExpressionError,
    Reader,
    read_expression,
    unknown_needs,
)
from devmod.errors import FormatError, list_names, quote_name
from devmod_readers.programs._model import (
    MAX_ARGUMENTS,
    MAX_DECLARED,
    MAX_NESTED,
    MAX_RANK,
    MAX_REPEATS,
    MAX_STEPS,
    MAX_TEMPORARIES,
    REPEAT,
    ROLES,
    Array,
    Comparison,
    Declared,
    Program,
    Repeat,
    Repeats,
    Sampler,
    Scalar,
    Step,
    View,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod.backend import Binary

_DIMS = ("grid", "threads", "block")


def interface_of(program: Program) -> FunctionInfo:
    """Return the function of a program in a module's fmap."""
    from devmod_readers.reflection import argument_types

    params = [_param(each) for each in program.declared.values()]
    extra: dict[str, Any] = {"kernels": program.kernels}
    if program.backward:
        extra["backward"] = program.backward
    if program.folded:
        extra["folded"] = dict(program.folded)
    needs = []
    if program.repeats:
        needs.append(REPEAT)
    interface = Interface(params, needs=needs, extra=extra)
    return FunctionInfo(program.name, argument_types(params), interface=interface)


def _param(each: Declared) -> Param:
    if isinstance(each, Scalar):
        extra: dict[str, Any] = {"role": "input"}
        if each.default is not None:
            extra["value"] = each.default
        return Param(each.name, "scalar", each.type, extra=extra)
    if isinstance(each, Sampler):
        extra = {"role": "sampler", "filter": each.filter, "address": each.address}
        return Param(each.name, "sampler", extra=extra)

    extra = {"role": each.role, "shape": list(map(_plain, each.shape))}
    if each.cleared:
        extra["cleared"] = True
    if each.initial:
        extra["initial"] = each.initial
    if each.original is not None:
        extra["original"] = each.original
    access = ROLES[each.role]
    if each.texel is None:
        return Param(each.name, "buffer", each.type, access, extra=extra)
    return Param(
        each.name,
        "image",
        "2d",
        access,
        format=each.format,
        sample=each.texel.sample,
        extra=extra,
    )


# The layout of a program's code: a map.
#
#   requires   array of [comparison, expression, expression]
#   steps      array of [kernel, map of argument to value, map of "grid", "threads", "block" to an
#              array of 1 to 3 expressions]
#   repeats    array of [number of the first step, that behind the last, expression, name]
#
# A value is a name, ["view", name, type], an expression, a float or a boolean. An expression is an
# int, a name, or an array of an operator and its operands. A reader ignores other keys of the map
# and of a step's last map.
def pack_steps(program: Program) -> bytes:
    """Return the code of a program."""
    import msgpack  # type: ignore[import-untyped]

    steps = []
    for step in program.steps:
        arguments = {name: _plain(value) for name, value in step.arguments.items()}
        launch = {}
        for name in _DIMS:
            dims = getattr(step, name)
            if dims:
                launch[name] = _plain(dims)
        steps.append([step.kernel, arguments, launch])
    code: dict[str, Any] = {"requires": list(map(_plain, program.requires)), "steps": steps}
    if program.repeats:
        code["repeats"] = list(map(_plain, program.repeats))
    result: bytes = msgpack.packb(code)
    return result


def _plain(value: Any) -> Any:
    if type(value) is View:
        return ["view", value[:], value.type]
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value


def read_program(name: str, info: FunctionInfo, code: Binary) -> Program:
    """Return the program of a function and its code. Its names and its kernels are not checked: see
    `check_names`.

    Raises
    ------
    FormatError
        They are no program, have more than a program may have, or need what no program here has.
    """
    other = unknown_needs(info.interface)
    if other:
        raise FormatError(
            f"the program {quote_name(name)} needs {list_names(other)}, and a program here has no other need than {REPEAT!r}",
            kind="program",
            function=name,
        )
    try:
        declared = _read_declarations(info.interface)
    except ExpressionError as error:
        raise FormatError(
            f"the program {quote_name(name)}: {error}", kind="program", function=name
        ) from None
    assert info.interface is not None
    # The shortest operator with its operands takes five bytes, and each is one array.
    reader = Reader(
        bytes(code),
        f"the code of the program {quote_name(name)}",
        "program",
        size=len(code) * 8 // 5,
    )
    requires, steps, repeats = _read_code(reader)
    backward = info.interface.extra.get("backward", "")
    if not isinstance(backward, str):
        backward = ""
    program = Program(name, declared, requires, steps, backward, repeats=repeats)
    if repeats and REPEAT not in info.interface.needs:
        raise FormatError(
            f"the program {quote_name(name)} has repeats and does not need {REPEAT!r}",
            kind="program",
            function=name,
        )
    if info.interface.extra.get("kernels") != program.kernels:
        raise FormatError(
            f"the program {quote_name(name)} lists other kernels than its steps launch",
            kind="program",
            function=name,
        )
    return program


def _read_declarations(interface: Interface | None) -> dict[str, Declared]:
    """Return the declarations by name. Raise ExpressionError with a clause if they are invalid."""
    if interface is None or len(interface.params) > MAX_DECLARED:
        raise ExpressionError(f"it has no declarations, or more than {MAX_DECLARED}")
    declared: dict[str, Declared] = {}
    for param in interface.params:
        if param.name in declared:
            raise ExpressionError(f"it declares {quote_name(param.name)} twice")
        each = _declaration(param)
        # The tools read the parameter itself.
        if each is None or not _same(param, _param(each)):
            raise ExpressionError(f"the declaration of {quote_name(param.name)} is invalid")
        declared[param.name] = each
    count = 0
    for each in declared.values():
        if isinstance(each, Array) and each.role == "temporary":
            count += 1
    if count > MAX_TEMPORARIES:
        raise ExpressionError(f"it has {count} temporaries, and the maximum is {MAX_TEMPORARIES}")
    return declared


def _same(param: Param, expected: Param) -> bool:
    names = ("kind", "type", "access", "format", "sample")
    return all(getattr(param, name) == getattr(expected, name) for name in names)


def _declaration(param: Param) -> Declared | None:
    """Return the declaration of a parameter; None if it is invalid."""
    extra = param.extra
    role = extra.get("role")
    if param.kind == "scalar":
        value = extra.get("value")
        if role != "input" or type(value) not in (bool, int, float, type(None)):
            return None
        return Scalar(param.name, param.type, value)
    if param.kind == "sampler":
        if role != "sampler":
            return None
        return Sampler(param.name, str(extra.get("filter")), str(extra.get("address")))
    if not isinstance(role, str) or role not in ROLES:
        return None
    return _array(param, role)


def _array(param: Param, role: str) -> Array | None:
    """Return the array or the image of a parameter; None if it is invalid."""
    texel = IMAGE_FORMATS.get(param.format)
    if (texel is None) is (param.kind == "image"):
        return None
    shape = param.extra.get("shape")
    cleared = param.extra.get("cleared", False)
    initial = param.extra.get("initial", "")
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_RANK:
        return None
    if type(cleared) is not bool or type(initial) is not str:
        return None
    try:
        lengths = tuple(map(read_expression, shape))
    except ExpressionError as error:
        raise ExpressionError(f"the shape of {quote_name(param.name)} {error}") from None
    dtype = texel.dtype if texel else param.type
    array = Array(param.name, role, dtype, lengths, param.format, cleared, initial)
    original = param.extra.get("original")
    if isinstance(original, str):
        array = array._replace(original=original)
    return array


def _read_code(
    reader: Reader,
) -> tuple[tuple[Comparison, ...], tuple[Step, ...], Repeats]:
    requires: list[Comparison] = []
    steps: list[Step] = []
    repeats: list[Repeat] = []
    keys: dict[str, None] = {}
    for _ in range(reader.read_map()):
        reader.field = key = reader.read_key(keys)
        keys[key] = None
        if key == "requires":
            count = _count(reader, MAX_STEPS, "comparisons")
            requires = [_comparison(reader) for _ in range(count)]
        elif key == "steps":
            for number in range(_count(reader, MAX_STEPS, "steps")):
                reader.field = f"step {number + 1}"
                steps.append(_step(reader))
        elif key == "repeats":
            for number in range(_count(reader, MAX_REPEATS, "repeats")):
                reader.field = f"repeat {number + 1}"
                repeats.append(_repeat(reader))
        else:
            reader.read_value()
    reader.finish()
    _check_repeats(reader, repeats, len(steps))
    return tuple(requires), tuple(steps), tuple(repeats)


def _repeat(reader: Reader) -> Repeat:
    start = reader.at
    if reader.read_array() != 4:
        raise reader.error("expected two steps, a count and a name", start)
    first = reader.read_value()
    end = reader.read_value()
    if type(first) is not int or type(end) is not int:
        raise reader.error("expected two steps, a count and a name", start)
    return Repeat(first, end, _integer(reader), reader.read_str())


def _check_repeats(reader: Reader, repeats: list[Repeat], count: int) -> None:
    """Raise the reader's error unless each repeat has steps and is behind, or within, the one
    before.
    """
    around = [Repeat(0, count, 1, "")]
    least = 0
    for number, each in enumerate(repeats):
        reader.field = f"repeat {number + 1}"
        while len(around) > 1 and around[-1].end <= each.first:
            around.pop()
        if not least <= each.first < each.end <= around[-1].end:
            raise reader.error("it has no steps of the program, or some of another repeat")
        if len(around) > MAX_NESTED:
            raise reader.error(f"it is nested more than {MAX_NESTED} deep")
        around.append(each)
        least = each.first


def _count(reader: Reader, most: int, what: str) -> int:
    count = reader.read_array()
    if count > most:
        raise reader.error(f"{count} {what}, and the maximum is {most}")
    return count


def _comparison(reader: Reader) -> Comparison:
    start = reader.at
    if reader.read_array() != 3 or (name := reader.read_str()) not in COMPARISONS:
        raise reader.error("expected a comparison", start)
    return name, _integer(reader), _integer(reader)


def _step(reader: Reader) -> Step:
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
        arguments[argument] = _value(reader, views=True)
    launch: dict[str, Any] = {}
    for _ in range(reader.read_map()):
        key = reader.read_key(launch)
        if key in _DIMS:
            rank = _count(reader, 3, "dimensions")
            launch[key] = tuple([_integer(reader) for _ in range(rank)])
        else:
            launch[key] = reader.read_value()
    return Step(kernel, arguments, *(launch.get(word, ()) for word in _DIMS))


def _integer(reader: Reader) -> Expression:
    start = reader.at
    value = _value(reader)
    if type(value) in (bool, float):
        raise reader.error("expected an integer expression", start)
    result: Expression = value
    return result


def _is_view(value: Any) -> bool:
    if type(value) is not list or value[:1] != ["view"]:
        return False
    return [type(each) for each in value] == [str, str, str]


def _value(reader: Reader, *, views: bool = False) -> Any:
    start = reader.at
    value = reader.read_value()
    if type(value) in (bool, float):
        return value
    if views and _is_view(value):
        return View(*value[1:])
    try:
        return read_expression(value)
    except ExpressionError as error:
        raise reader.error(f"it {error}", start) from None
