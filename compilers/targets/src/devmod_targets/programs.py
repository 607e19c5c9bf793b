"""Make programs from text: declarations, steps and comparisons are Python's expressions, of which a
few forms are allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

import devmod
from devmod import FunctionInfo, Module
from devmod.backend import (
    IMAGE_FORMATS,
    LAUNCH_KEYWORDS,
    create_own,
    find_spec,
    interface_text,
    load_stored,
    parse_dtype,
    payload_of,
    unknown_needs,
)
from devmod.errors import FormatError, did_you_mean, list_names, pip_install, quote_name
from devmod_readers.programs import (
    COMPARISONS,
    MAX_EXPRESSION,
    MAX_STEPS,
    Array,
    Candidate,
    Expression,
    ExpressionError,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
    arguments_of,
    check_kernels,
    check_names,
    constant_of,
    gradient_of,
    integer_range,
    interface_of,
    mismatch,
    names_in,
    pack_steps,
    read_expression,
    read_program,
)

Declared = Array | Scalar | Sampler
#: Gets the key, the index and the text of a mistake.
_Report = Callable[[str, int, str], None]

_KIND = "program"
_FORMAT = "steps1"
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = dict(
    zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), COMPARISONS, strict=True)
)
_LAUNCH = ("grid", "threads", "block")
#: A comparison with its operands.
_Comparison = tuple[str, Expression, Expression]
# Where to change: a key of programs
#   here: `_ROLES` parses it; `compilers/readers/src/devmod_readers/programs/` (`_model.py`,
#     `_wire.py`, `_check.py`)
#   also: `core/src/devmod/_modules/compile.py` (`program`): the parameter; `docs/programs.md`,
#     `docs/formats.md`; `plugins/runtime/src/devmod_runtime/_program/plan.py`: what a call does
#     with it
#   tests: `tests/test_two_places.py`, `compilers/targets/tests/test_programs.py`,
#     `tests/test_program_calls.py`
#: The roles of the declared arrays by their key.
_ROLES = {
    "inputs": "input",
    "outputs": "output",
    "updates": "update",
    "temporaries": "temporary",
    "constants": "constant",
    "states": "state",
}
#: The most characters of a declaration or a step.
_MAX_TEXT = 100_000


class _Problem(ValueError):
    """What is wrong with a text, as the end of a sentence that begins with it."""


class Repeated(NamedTuple):
    """Steps that run several times.

    Attributes
    ----------
    count
        The number of turns: an int, or an expression as text.
    name
        The name of the number of the turn.
    steps
        The steps: texts, `Step` and `Repeated`.
    """

    count: Any
    name: str
    steps: tuple[Any, ...]


def make_program(
    name: str,
    module: Module,
    steps: Iterable[str | Step | Repeated],
    declared: Mapping[str, Iterable[str]],
    backward: str | None = None,
    originals: Mapping[str, str] | None = None,
    folded: Mapping[str, str] | None = None,
) -> Module:
    """Make a program: see `devmod.program`. `declared` has its declarations by their key. Of a
    model, `originals` has the names of its constants there by their names here, and `folded` those
    that are in kernels, as `Program` has them.
    """

    def fail(key: str, number: int, text: str) -> None:
        if key == "steps":
            raise _error(name, text, f"step {number + 1}")
        raise _error(name, f"{key}: {text}")

    program = parse_program(name, steps, declared, backward or "", fail)
    for own, original in (originals or {}).items():
        array: Any = program.declared[own]
        program.declared[own] = array._replace(original=original)
    program = program._replace(folded=folded or {})
    parts = Parts(name, module)
    parts.add(program)
    if program.backward:
        gradient_of(program, parts.program(program.backward))
    return parts.module()


def make_step(kernel: str, arguments: Mapping[str, Any], launch: Mapping[str, Any]) -> Step:
    """Return a step: see `devmod.step`."""
    if not isinstance(kernel, str):
        raise FormatError(
            f"devmod.step: the kernel is its name, not {type(kernel).__name__}", kind=_KIND
        )
    try:
        values = {name: _given(value) for name, value in arguments.items()}
        dims = {}
        for word, value in launch.items():
            if value is not None:
                dims[word] = tuple(map(parse_integer, _dims(word, value)))
    except _Problem as problem:
        raise FormatError(
            f"devmod.step({kernel!r}): {problem}", kind=_KIND, function=kernel
        ) from None
    return Step(kernel, values, **dims)


def make_repeat(count: Any, name: str, steps: Any) -> Repeated:
    """Return steps that run several times: see `devmod.repeat`."""
    if not isinstance(name, str):
        raise FormatError(
            f"devmod.repeat: the name of the turn's number is a string, not {type(name).__name__}",
            kind=_KIND,
        )
    try:
        parse_integer(count)
        values = tuple(_list_of(steps, (str, Step, Repeated), _STEPS))
    except _Problem as problem:
        raise FormatError(f"devmod.repeat({name!r}): {problem}", kind=_KIND) from None
    return Repeated(count, name, values)


def _with_own_names(step: Step, candidates: Sequence[Candidate]) -> Step:
    """Return a step with the kernel's names of its arguments."""
    if not candidates or candidates[0].interface is None:
        return step
    names = [each.name for each in arguments_of(candidates[0].interface)]
    return step._replace(arguments=_own_names(step.arguments, names))


def _own_names(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return arguments by the callee's names: the keyword of ``lambda`` or ``grid`` has an
    underscore behind it.
    """
    own = {name: name for name in names}
    for name in names:
        if iskeyword(name) or name in LAUNCH_KEYWORDS:
            own.setdefault(f"{name}_", name)
    return {own.get(name, name): value for name, value in arguments.items()}


# -- Text to trees.


def parse_program(
    name: str,
    steps: Iterable[str | Step | Repeated],
    declared: Mapping[str, Iterable[str]],
    backward: str,
    report: _Report,
) -> Program:
    """Return the program of a text. `report` gets the key, the index and the text of each mistake;
    the index of a step counts those in repeats. The names are not checked.
    """
    if not isinstance(name, str):
        raise FormatError(
            f"the name of a program is a string, not {type(name).__name__}", kind=_KIND
        )
    if not isinstance(backward, str):
        raise _error(
            name, f"backward: expected the name of a program, got {type(backward).__name__}"
        )
    names = {}
    requires = []
    for key, texts in declared.items():
        for number, text in enumerate(_texts(name, key, texts)):
            try:
                if key == "requires":
                    requires += parse_comparisons(text)
                    continue
                each: Declared
                if key == "samplers":
                    each = _sampler(text)
                else:
                    each = _declaration(text, _ROLES[key])
            except _Problem as problem:
                report(key, number, f"{quote_name(text)} {problem}")
                continue
            if each.name in names:
                report(key, number, f"{quote_name(each.name)} is declared twice")
            names[each.name] = each
    given = _texts(name, "steps", steps, (str, Step, Repeated), _STEPS)
    result: list[Step] = []
    repeats: list[Repeat] = []
    _add_steps(given, result, repeats, report)
    return Program(name, names, tuple(requires), tuple(result), backward, repeats=tuple(repeats))


def _add_steps(
    given: Iterable[Any],
    steps: list[Step],
    repeats: list[Repeat],
    report: _Report,
) -> None:
    """Add the steps of a text, with those of its repeats."""
    for each in given:
        number = len(steps)
        if isinstance(each, Repeated):
            place = len(repeats)  # one within it is behind it
            repeats.append(Repeat(number, number, 0, each.name))
            _add_steps(each.steps, steps, repeats, report)
            try:
                count = parse_integer(each.count)
            except _Problem as problem:
                report("steps", number, f"the count of its repeat: {problem}")
                continue
            if len(steps) == number:
                report("steps", number, f"the repeat of {quote_name(each.name)} has no steps")
            repeats[place] = Repeat(number, len(steps), count, each.name)
            continue
        step = Step("", {})
        try:
            step = each if isinstance(each, Step) else _step(each)
        except _Problem as problem:
            report("steps", number, f"{quote_name(each)} {problem}")
        steps.append(step)


_STEPS = "text, a devmod.step or a devmod.repeat"


def _texts(
    name: str, key: str, texts: Any, types: tuple[type, ...] = (str,), expected: str = "text"
) -> list[Any]:
    try:
        return _list_of(texts, types, expected)
    except _Problem as problem:
        raise _error(name, f"{key}: {problem}") from None


def _list_of(values: Any, types: tuple[type, ...], expected: str) -> list[Any]:
    """Return values of some types; one alone is a list of it."""
    if isinstance(values, (str, Repeated, Step)):
        values = [values]
    if not isinstance(values, Iterable):
        raise _Problem(f"expected a list of texts, got {type(values).__name__}")
    result = list(values)
    for each in result:
        if not isinstance(each, types):
            raise _Problem(f"expected {expected}, got {type(each).__name__}")
    return result


def _tree(text: str, mode: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise _Problem(f"has {len(text)} characters, and the maximum is {_MAX_TEXT}")
    try:
        return ast.parse(text.strip(), mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", "") or str(error) or "it is nested too deep"
        raise _Problem(f"cannot be read: {why}") from None


def _declaration(text: str, role: str) -> Array | Scalar:
    expected = "is no declaration; expected one such as 'x: float32[rows, columns]'"
    body = _tree(text, "exec").body
    node = body[0] if len(body) == 1 else None
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        raise _Problem(expected)
    name = node.target.id
    annotation = node.annotation
    default, initial = _first_value(node.value, role)
    if isinstance(annotation, ast.Name):
        if role != "input":
            raise _Problem("has no shape; only an input is a number")
        return Scalar(name, annotation.id, default)
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.value, ast.Name):
        raise _Problem(expected)
    if default is not None:
        _check_first_value(role, default)
    elif role == "state" and not initial:
        raise _Problem(
            "has no first value; a state begins as = 0, or as a constant of its type and shape"
        )

    lengths = [annotation.slice]
    if isinstance(annotation.slice, ast.Tuple):
        lengths = annotation.slice.elts
    shape = tuple(map(_expression, lengths))
    type_ = annotation.value.id
    is_cleared = default is not None and role != "state"
    if type_ in IMAGE_FORMATS:
        return Array(name, role, IMAGE_FORMATS[type_].dtype, shape, type_, is_cleared)
    _check_type(type_)
    return Array(name, role, type_, shape, cleared=is_cleared, initial=initial)


def _check_type(type_: str) -> None:
    try:
        parse_dtype(type_)
    except FormatError:
        raise _Problem(
            f"has the type {type_!r}, which is neither an element type nor the format of an image"
        ) from None


def _first_value(node: Any, role: str) -> tuple[bool | int | float | None, str]:
    """Return the number, or the name of a constant, in a declaration."""
    if role == "state" and isinstance(node, ast.Name):
        return None, node.id
    if node is None:
        return None, ""
    return _literal(node), ""


def _check_first_value(role: str, value: bool | int | float) -> None:
    """Raise _Problem for an array whose first value is not 0."""
    is_zero = value == 0 and not isinstance(value, bool)
    if role not in ("output", "temporary", "state") or not is_zero:
        raise _Problem(
            "has a value; of the arrays, only outputs, temporaries and states have one, which is 0"
        )


def _sampler(text: str) -> Sampler:
    name, mark, options = text.partition(":")
    words = options.split()
    if not mark or len(words) != 2:
        raise _Problem("is no sampler; expected one such as 'linear: linear clamp'")
    return Sampler(name.strip(), *words)


def parse_comparisons(text: str) -> list[_Comparison]:
    """Return the comparisons in a text, each with its operands. Raise ValueError with the end of a
    sentence for another text.
    """
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Compare) or not _COMPARISONS.keys() >= set(map(type, node.ops)):
        raise _Problem("is no comparison; expected one such as 'columns % 4 == 0'")
    operands = list(map(_expression, (node.left, *node.comparators)))
    names = [_COMPARISONS[type(each)] for each in node.ops]
    return list(zip(names, operands, operands[1:], strict=False))


def _step(text: str) -> Step:
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        expected = "expected a call such as 'scale(x=x, y=y, threads=n)', or devmod.step(…) for a kernel whose name is no identifier"
        raise _Problem(f"is no step; {expected}")
    if node.args:
        raise _Problem("gives an argument by position; give all by name")
    arguments = {}
    launch = {}
    for each in node.keywords:
        if each.arg is None:
            raise _Problem("has **, which a step cannot have")
        if each.arg in launch or each.arg in arguments:
            raise _Problem(f"gives {each.arg!r} twice")
        if each.arg in _LAUNCH:
            dims = [each.value]
            if isinstance(each.value, ast.Tuple):
                dims = each.value.elts
            launch[each.arg] = tuple(map(_expression, _dims(each.arg, dims)))
        else:
            arguments[each.arg] = _value(each.value)
    return Step(node.func.id, arguments, **launch)


def _value(node: Any) -> Any:
    """Return the argument of a step: a name, a view, an expression, or a literal."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if is_method and node.func.attr == "view":
        names = [each.id for each in (node.func.value, *node.args) if isinstance(each, ast.Name)]
        if len(names) != 2 or node.keywords or len(node.args) > 1:
            raise _Problem(
                f"has {_text_of(node)!r}; a view is of an array, as one type of elements, such as x.view(uint32)"
            )
        return View(*names)
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        try:
            return _literal(node)
        except _Problem:
            pass
    return _expression(node)


def _literal(node: Any) -> bool | int | float:
    is_negative = False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        is_negative = isinstance(node.op, ast.USub)
        node = node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = -node.value if is_negative else node.value
        if type(value) is not int or _is_integer(value):
            return value
    raise _Problem("has a value that is no number of 64 bits, True or False")


def _is_integer(value: Any) -> bool:
    try:
        return type(value) is int and read_expression(value) == value
    except ExpressionError:
        return False


def _expression(node: Any, depth: int = 0) -> Expression:
    if depth > MAX_EXPRESSION:
        raise _Problem(f"has an expression that is nested more than {MAX_EXPRESSION} deep")
    if isinstance(node, ast.Name):
        return node.id
    result: Any = None
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        try:
            result = _literal(node)
        except _Problem:
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                result = ("-", 0, _expression(node.operand, depth + 1))
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left = _expression(node.left, depth + 1)
        right = _expression(node.right, depth + 1)
        result = (_BINARY[type(node.op)], left, right)
    elif _called(node) in ("min", "max", "ceildiv"):
        result = (node.func.id, *(_expression(each, depth + 1) for each in node.args))
    try:
        return read_expression(result, depth)
    except ExpressionError:
        known = "integers of 64 bits, names, + - * // %, min, max and ceildiv"
        raise _Problem(
            f"has {_text_of(node)!r}, which no expression has; expected {known}"
        ) from None


def _called(node: Any) -> str:
    """Return the name in a call without keywords; "" for another node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return node.func.id
    return ""


def _text_of(node: Any) -> str:
    try:
        return ast.unparse(node)[:60]
    except RecursionError:
        return type(node).__name__


def _given(value: Any) -> Any:
    """Return the argument of a `devmod.step`."""
    if isinstance(value, str):
        try:
            return _value(_tree(value, "eval").body)
        except _Problem as problem:
            raise _Problem(f"{quote_name(value)} {problem}") from None
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy
    if type(value) in (bool, float) or _is_integer(value):
        return value
    raise _Problem(
        f"expected a number of 64 bits, or a name or an expression as text, got {value!r:.60}"
    )


def _dims(word: str, value: Any) -> Sequence[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not 1 <= len(values) <= 3:
        raise _Problem(f"has {word}= with {len(values)} values; expected one to three")
    return values


def parse_integer(value: Any) -> Expression:
    """Return the expression that a text or an int is. Raise ValueError with a sentence or its end
    for another value.
    """
    result = _given(value)
    if type(result) in (bool, float):
        raise _Problem(f"expected an integer or an expression, got {value!r}")
    expression: Expression = result
    return expression


def _error(name: str, text: str, place: str = "") -> FormatError:
    subject = f"the program {quote_name(name)}"
    if place:
        subject += f", {place}"
    return FormatError(f"{subject}: {text}", kind=_KIND, function=name)


# -- Programs of the file as steps: their steps stand in their place.


def _inlined(program: Program, parts: Parts) -> tuple[Program, list[str]]:
    """Return a program whose steps that call programs are replaced by the steps of those, and the
    place of each step in a message.
    """
    declared = dict(program.declared)
    requires = dict.fromkeys(program.requires)
    taken = {*declared, *program.length_names}
    taken.update(each.name for each in program.repeats)
    used: set[Any] = set()
    steps: list[Step] = []
    places = []
    starts = []
    repeats = []
    around = program.repeats_of_steps()
    for number, step in enumerate(program.steps, 1):
        starts.append(len(steps))
        place = f"step {number} ({quote_name(step.kernel)})"
        inner = parts.program(step.kernel)
        if inner is None:
            steps.append(step)
            places.append(place)
        else:
            outer = program._replace(declared=declared)
            turns = {each.name for each in around[number - 1]}
            try:
                call = _ProgramCall(outer, taken, used, inner, step, number, turns)
            except _Problem as problem:
                signature = (
                    f"{inner.name}{interface_text(parts.infos[inner.name].interface, short=True)}"  # type: ignore[arg-type]
                )
                end = "" if str(problem).endswith("?") else "."
                raise _error(program.name, f"{problem}{end} It is {signature}", place) from None
            declared |= call.declared
            requires |= dict.fromkeys(call.requires)
            at = len(steps)
            for repeat in call.repeats:
                repeats.append(repeat._replace(first=repeat.first + at, end=repeat.end + at))
            steps += call.steps
            for own, each in enumerate(call.steps, 1):
                places.append(f"{place}, its step {own} ({quote_name(each.kernel)})")
        for value in step.arguments.values():
            if isinstance(value, str):
                used.add(value)
        if len(steps) > MAX_STEPS:
            raise _error(program.name, f"it has more than {MAX_STEPS} steps")
    starts.append(len(steps))
    around_calls = [
        each._replace(first=starts[each.first], end=starts[each.end]) for each in program.repeats
    ]
    # Of two with the same steps, the one of this program is around the other.
    every = sorted([*around_calls, *repeats], key=lambda each: (each.first, -each.end))
    return program._replace(
        declared=declared, requires=tuple(requires), steps=tuple(steps), repeats=tuple(every)
    ), places


class _ProgramCall:
    """The steps of a program in the terms of the one that calls it, and the declarations that they
    add to it.
    """

    def __init__(
        self,
        outer: Program,
        taken: set[str],
        used: set[Any],
        inner: Program,
        step: Step,
        number: int,
        turns: set[str],
    ) -> None:
        if step.grid or step.threads or step.block:
            raise _Problem("a program takes no grid, threads and block: its steps have them")
        self._outer = outer
        self._taken = taken
        self._used = used
        self._inner = inner
        #: The names of the numbers of the turns around the step.
        self._turns = turns
        self._prefix = f"{inner.name}_{number}_"
        self.declared: dict[str, Declared] = {}
        self.requires: list[_Comparison] = []
        #: What stands for each name of the inner program.
        self._values = self._arguments(step)

        pairs = self._bind_arguments()
        for array in inner.arrays("constant"):
            pairs.append((array, self._constant(array)))
        for other in inner.declared.values():
            if isinstance(other, Sampler) or getattr(other, "role", "") == "temporary":
                self._add(other, self._new_name(other.name))
        for name in dict.fromkeys(each.name for each in inner.repeats):
            self._values[name] = self._new_name(name)
        for array, target in pairs:
            self._require_lengths(array, target)
        for comparison, one, two in inner.requires:
            self.requires.append((comparison, self._replaced(one), self._replaced(two)))
        self.steps = [self._step(each) for each in inner.steps]
        self.repeats: list[Repeat] = []
        for repeat in inner.repeats:
            name = self._values[repeat.name]
            self.repeats.append(repeat._replace(turns=self._replaced(repeat.turns), name=name))
        if turns:
            self._check_cleared()

    def _check_cleared(self) -> None:
        """Raise _Problem if the program has to clear an array in each turn."""
        for array in self._inner.arrays():
            if array.cleared:
                raise _Problem(
                    f"{array.name!r} begins cleared, and a program in a repeat cannot clear it in each turn: write to it by a kernel"
                )

    def _own(self) -> list[Any]:
        """Return the declarations whose values a call gives."""
        return [
            each
            for each in self._inner.declared.values()
            if isinstance(each, Scalar) or getattr(each, "role", "") in _CALL_ROLES
        ]

    def _arguments(self, step: Step) -> dict[str, Any]:
        """Return what the step gives for each declaration, with the defaults."""
        names = [each.name for each in self._own()]
        result: dict[str, Any] = {}
        for scalar in self._inner.scalars:
            if scalar.default is not None:
                result[scalar.name] = scalar.default
        result |= _own_names(step.arguments, names)
        for name in result:
            if name not in names:
                raise _Problem(
                    f"the program has no argument {quote_name(name)}{did_you_mean(name, names)}"
                )
        missing = [name for name in names if name not in result]
        if missing:
            raise _Problem(f"the program also takes {list_names(missing)}")
        return result

    def _bind_arguments(self) -> list[tuple[Array, Array]]:
        """Check what is given. Return the arrays with those that are given for them."""
        arguments = dict(self._values)
        values = list(arguments.values())
        pairs = []
        for each in self._own():
            value = arguments[each.name]
            if isinstance(each, Array):
                pairs.append((each, self._given(each, value)))
                if each.role != "input" and values.count(value) > 1:
                    raise _Problem(
                        f"its argument {each.name!r} is written, and {value!r} is given to another argument too"
                    )
            else:
                self._give_scalar(each, value)
        for array, target in pairs:
            self._bind(array, target)
            if array.role == "output" and array.cleared:
                if target.name in self._used or target.role == "update":
                    text = f"{array.name!r} begins cleared, and {target.name!r} has contents before: give it an array of its own"
                    raise _Problem(f"its output {text}")
                self.declared[target.name] = target._replace(cleared=True)
        return pairs

    def _give_scalar(self, scalar: Scalar, value: Any) -> None:
        param = devmod.Param(scalar.name, "scalar", scalar.type)
        problem = mismatch(self._outer, value, param)
        if problem:
            problem = problem.replace("the kernel takes", "the program takes")
            raise _Problem(f"its argument {scalar.name!r}: {problem}")
        if not self._turns.isdisjoint(names_in(value)):
            return  # a call checks the number of each turn
        if scalar.is_integer and not isinstance(value, int):
            self.requires += _range_of(scalar, value, self._outer.declared.get(value))
        elif type(value) in (int, float):
            rounded = scalar.rounded(value)
            if rounded != value:  # an integer stays as it was written
                self._values[scalar.name] = rounded
        else:
            given = self._outer.declared.get(value)
            if isinstance(given, Scalar) and given.type in _ROUNDED.get(scalar.type, ()):
                raise _other_type(scalar, given)

    def _require_lengths(self, array: Array, target: Array) -> None:
        """Require that an array of the program has the lengths of the one that is given for it."""
        for one, two in zip(map(self._replaced, array.shape), target.shape, strict=True):
            if one == two:
                continue
            if isinstance(one, int) and isinstance(two, int):
                raise _Problem(
                    f"its argument {array.name!r} has a length of {one}, and that of {target.name!r} is {two}"
                )
            self.requires.append(("==", one, two))

    def _step(self, step: Step) -> Step:
        arguments = {name: self._replaced(value) for name, value in step.arguments.items()}
        dims = (step.grid, step.threads, step.block)
        return Step(step.kernel, arguments, *(tuple(map(self._replaced, each)) for each in dims))

    def _given(self, array: Array, value: Any) -> Array:
        """Return the array that is given for one of the program's."""
        target = self._outer.declared.get(value) if type(value) is str else None
        if not isinstance(target, Array) or _kind_of(target) != _kind_of(array):
            noun = "an image" if array.format else "an array"
            what = f"{noun} of {array.format or array.type} and {len(array.shape)} dimensions"
            raise _Problem(f"its argument {array.name!r} takes {what}")
        if array.role != "input" and target.role in ("input", "constant"):
            raise _Problem(
                f"its argument {array.name!r} is written, and {target.name!r} is no array that this program may write"
            )
        return target

    def _bind(self, array: Array, target: Array) -> None:
        """Bind the names in an array's shape to the lengths of the array that is given for it."""
        if array.role == "output":
            return
        for name, length in zip(array.shape, target.shape, strict=True):
            if isinstance(name, str):
                self._values.setdefault(name, length)

    def _constant(self, array: Array) -> Array:
        """Return the constant of the caller, which both share, for one of the program."""
        self._values[array.name] = array.name
        known: Any = self._outer.declared.get(array.name)
        if known is None:
            for name in array.shape:
                if isinstance(name, str) and name not in self._values:
                    self._values[name] = self._new_name(name)
            known = self._add(array, array.name)
        elif (
            not isinstance(known, Array)
            or known[1:3] != array[1:3]
            or len(known.shape) != len(array.shape)
        ):
            raise _Problem(
                f"its constant {array.name!r} is something else in the program that calls it"
            )
        self._bind(array, known)
        result: Array = known
        return result

    def _new_name(self, name: str) -> str:
        """Return a name that the caller does not have."""
        name = self._prefix + name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _add(self, each: Any, name: str) -> Any:
        self._values[each.name] = name
        added = each._replace(name=name)
        if isinstance(each, Array):
            added = added._replace(shape=tuple(map(self._replaced, each.shape)))
        self.declared[name] = added
        return added

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return (value[0], *map(self._replaced, value[1:]))
        if type(value) is View:
            return View(self._values.get(value, value[:]), value.type)
        if isinstance(value, str):
            return self._values.get(value, value)
        return value


def _kind_of(array: Array) -> tuple[str, str, int]:
    return array.type, array.format, len(array.shape)


#: For a float those of which a value may be none of its own: a step has no conversion.
_ROUNDED = {
    "float16": ("bfloat16", "float32", "float64"),
    "bfloat16": ("float16", "float32", "float64"),
    "float32": ("float64",),
}


def _other_type(scalar: Scalar, given: Scalar) -> _Problem:
    return _Problem(
        f"its argument {scalar.name!r}: the program takes {scalar.type}, and {given.name!r} is {given.type}"
    )


def _range_of(scalar: Scalar, value: Any, given: object) -> list[_Comparison]:
    """Return what an expression must meet for an integer of an inlined program. `given` is the
    scalar that it is, if it is one.
    """
    low, high = integer_range(scalar.type)
    if isinstance(given, Scalar):
        least, greatest = integer_range(given.type)
        if least < low or greatest > high:
            raise _other_type(scalar, given)
        return []

    least, greatest = integer_range("int64")
    if isinstance(value, str):
        least = 0  # no length is negative
    result: list[_Comparison] = []
    if low > least:
        result.append(("<=", low, value))
    if high < greatest:
        result.append(("<=", value, high))
    return result


_CALL_ROLES = ("input", "output", "update", "state")


# -- The module.


def _roots(module: Module) -> Iterator[Module]:
    """Yield the modules of programs, the constants, and the nodes of kernels, also those of merged
    files.
    """
    own = (_KIND, "const_loader")
    if module.kind == "bundle" and any(each.kind in own for each in module.candidates):  # type: ignore[attr-defined]
        for each in module.imports:
            yield from _roots(each)
    else:
        yield module


def _kernel_node(kernels: list[Module]) -> Module:
    """Return the node that other programs import, or a new one."""
    if len(kernels) == 1 and kernels[0].kind == "bundle":
        return kernels[0]
    return devmod.bundle(*kernels, mixed=True)


#: The bytes of a kernel in each group of candidates.
_Payloads = dict[tuple[str, ...], list[bytes]]


class Parts:
    """The programs, the kernels and the constants of a module, to which programs are added.

    Parameters
    ----------
    name
        The first program that is added, for messages.
    module
        The module.

    Raises
    ------
    FormatError
        It is no module, has no kernels, or has programs of a newer format.
    """

    def __init__(self, name: str, module: Module) -> None:
        if not isinstance(module, devmod.Module):
            raise _error(name, f"its kernels are a module, not {type(module).__name__}")
        roots = list(_roots(module))
        modules = [each for each in roots if each.kind == _KIND]
        for old in modules:
            roots += old.imports
        self._constants: list[Module] = []
        kernels = []
        for each in dict.fromkeys(roots):
            if each.kind == "const_loader":
                self._constants.append(each)
            elif each.kind != _KIND:
                kernels.append(each)
        if not kernels:
            raise _error(name, "its kernels are a module with kernels, and this one has none")

        self._nodes: list[Module] = []
        if modules and len(kernels) > 1:  # without programs they are the candidates of one bundle
            self._nodes = kernels
        self._kernels = _kernel_node(kernels)
        self._candidates = self._kernels.candidates  # type: ignore[attr-defined]
        self.kernel_names: dict[str, None] = {}
        for candidate in self._candidates:
            self.kernel_names |= dict.fromkeys(candidate.function_names)

        self._codes: dict[str, Any] = {}
        self._programs: dict[str, Program] = {}
        self.infos: dict[str, FunctionInfo] = {}
        self._others: list[Module] = []
        self._added: list[str] = []
        if len(modules) > 1:
            # A file of merged files has several modules of programs, each with kernels of its own.
            # The new program is then in one more.
            self._others = modules
        for old in modules:
            self._take(name, old)
        # The programs that stay in their module get all kernels too.
        if not self._others:
            for info in self.infos.values():
                self._check_owners(name, info)

    def _take(self, name: str, old: Module) -> None:
        """Add the programs of a module that has some."""
        if old.format != _FORMAT:
            upgrade = pip_install("--upgrade devmod-core devmod-targets")
            raise _error(
                name,
                f"the module has programs of the format {quote_name(old.format)}, which a newer devmod reads: {upgrade}",
            )
        payload: Any = payload_of(old)
        self.infos |= payload[2]
        self._codes |= payload[3]

    def add(self, program: Program) -> None:
        """Add a program, in the place of one of its name. Raise FormatError if it is invalid, or
        its kernels do not take what it gives.
        """
        name = program.name
        if name in self.kernel_names:
            raise _error(
                name, f"the kernels have a function {name!r} too; take another name for the program"
            )
        if self._others and name in self.infos:
            raise _error(
                name,
                "the module is of merged files, one of which has a program of this name; take another name",
            )
        program, places = _inlined(program, self)
        candidates = {kernel: self.candidates(kernel) for kernel in program.kernels}
        steps = [_with_own_names(step, candidates[step.kernel]) for step in program.steps]
        program = program._replace(steps=tuple(steps))
        check_names(program, places)
        known: dict[str, Sequence[Candidate]] = dict.fromkeys(self.kernel_names, ())
        known |= {kernel: each for kernel, each in candidates.items() if each}
        check_kernels(program, known, places)
        for array in program.arrays("constant"):
            constant_of(program, array, self._constants)
        info = interface_of(program)
        code = pack_steps(program)
        self._check_owners(name, info)
        # Inlined expressions and temporaries may exceed a bound of the reader.
        self._programs[name] = read_program(name, info, code)
        self.infos[name] = info
        self._codes[name] = code
        self._added.append(name)

    def module(self) -> Module:
        """Return the module with the added programs. The others keep their bytes."""
        names = self._added if self._others else [*self.infos]
        codes = {name: self._codes[name] for name in names}
        infos = {name: self.infos[name] for name in names}
        module = create_own(_KIND, codes, _FORMAT, infos)
        if _KIND in devmod.registered("devmod.load_from_bytes") and not module.variable:  # type: ignore[attr-defined]
            module = load_stored(_KIND, module.save_to_bytes())
        for each in (self._kernels, *self._constants):
            module.import_module(each)
        return devmod.bundle(*self._others, module, self._kernels, *self._constants, mixed=True)

    def program(self, name: str) -> Program | None:
        """Return a program of the module; None if it has none of the name."""
        info = self.infos.get(name)
        if info is None or name in self._programs:
            return self._programs.get(name)
        if unknown := unknown_needs(info.interface):
            raise _error(
                name, f"it needs {list_names(unknown)}, which a newer devmod-targets may have"
            )
        program = self._programs[name] = read_program(name, info, self._codes.get(name, b""))
        check_names(program)
        return program

    def _check_owners(self, name: str, info: FunctionInfo) -> None:
        """Raise FormatError if a kernel of a program has other bytes in another of the nodes, which
        get into one bundle.
        """
        if info.interface is None or not self._nodes:
            return
        for kernel in info.interface.extra.get("kernels", ()):
            known: _Payloads = {}
            for node in self._nodes:
                for key, found in self._payloads(node, kernel).items():
                    if known.setdefault(key, found) != found:
                        raise _error(
                            name,
                            f"the kernel {quote_name(kernel)} of merged files is not the same in all; make the program from one",
                        )

    def _payloads(self, node: Module, kernel: str) -> _Payloads:
        """Return the bytes of a kernel in a node. Those of one group must be the same in all
        nodes.
        """
        result: _Payloads = {}
        for each in getattr(node, "candidates", (node,)):
            if kernel in each.function_names:
                # Kernels beside one file may add candidates of other kinds. Merged files are
                # compared as a whole.
                group = () if self._others else (each.kind, each.format)
                result.setdefault(group, []).append(each.save_to_bytes())
        return result

    def candidates(self, kernel: str) -> list[Candidate]:
        """Return the candidates of a kernel."""
        result = []
        for each in self._candidates:
            if kernel not in each.function_names:
                continue
            if hasattr(each, "verify"):
                each.verify()  # the program takes names and types from a stored module
            spec = find_spec(each.kind)
            has_grid = spec is None or spec.has_grid
            label = f"{each.kind}/{each.format}" if each.format else each.kind
            result.append(Candidate(label, has_grid, each.functions[kernel].interface))
        return result
