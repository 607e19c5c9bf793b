"""Make programs from text: declarations, steps and comparisons are Python's expressions, of which a few forms are allowed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import devmod
from devmod.backend import IMAGE_FORMATS, find_spec, parse_dtype, walk
from devmod.errors import FormatError, FunctionNotFoundError, did_you_mean, list_names, quote_name
from devmod_readers.programs import (
    MAX_DEPTH,
    MAX_STEPS,
    Array,
    Candidate,
    Expression,
    Program,
    ProgramError,
    Sampler,
    Scalar,
    Step,
    check_kernels,
    check_names,
    form_of,
    interface_of,
    pack_steps,
    read_program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Module

_KIND = "program"
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_LAUNCH = ("grid", "threads", "block")
#: The roles of the declared arrays by their key.
_ROLES = {"inputs": "input", "outputs": "output", "updates": "update", "temporaries": "temporary", "constants": "constant"}
#: The most characters of a declaration or a step.
_MAX_TEXT = 100_000


class _SyntaxProblem(ValueError):
    """What is wrong with a text, as the end of a sentence that begins with it."""


def make_program(
    name: str, module: Module, steps: Iterable[str | Step], declared: Mapping[str, Iterable[str]], backward: str | None = None
) -> Module:
    """Make a program: see `devmod.program`. `declared` has its declarations by their key."""

    def fail(key: str, number: int, text: str) -> None:
        is_step = key == "steps"
        raise _error(name, f"{f'step {number + 1}' if is_step else key}: {text}", number if is_step else None)

    parts = _Parts(module)
    program = parse_program(name, steps, declared, backward or "", fail)
    if not program.steps:
        raise _error(name, "it has no steps")
    program, numbers = _inlined(program, parts.programs)
    candidates = {kernel: parts.candidates(kernel) for kernel in program.kernels}
    program = program._replace(steps=tuple(_with_own_names(step, candidates[step.kernel]) for step in program.steps))
    check_names(program, numbers)
    check_kernels(program, dict.fromkeys(parts.kernel_names, ()) | candidates, numbers)
    parts.check_constants(program)
    if name in parts.kernel_names:
        raise _error(name, f"the kernels have a function {name!r} too; take another name for the program")
    return parts.with_program(program)


def make_step(kernel: str, arguments: Mapping[str, Any], launch: Mapping[str, Any]) -> Step:
    """Return a step: see `devmod.step`."""
    if not isinstance(kernel, str):
        raise FormatError(f"devmod.step: the kernel is its name, not {type(kernel).__name__}", kind=_KIND)
    try:
        values = {each: _given(value) for each, value in arguments.items()}
        dims = {word: tuple(map(_integer, _sequence(value))) for word, value in launch.items() if value is not None}
    except _SyntaxProblem as problem:
        raise FormatError(f"devmod.step({kernel!r}): {problem}", kind=_KIND, function=kernel) from None
    return Step(kernel, values, **dims)


def _with_own_names(step: Step, candidates: Sequence[Candidate]) -> Step:
    """Return a step with the kernel's names of its arguments: a call has an underscore behind a keyword of Python and of a launch."""
    interface = candidates[0].interface if candidates else None
    if interface is None:
        return step
    form = form_of(interface)
    names = {name: name[:-1] if name not in form and name[-1:] == "_" and name[:-1] in form else name for name in step.arguments}
    return step._replace(arguments={names[name]: value for name, value in step.arguments.items()})


# -- Text to trees.


def parse_program(
    name: str, steps: Iterable[str | Step], declared: Mapping[str, Iterable[str]], backward: str, report: Callable[[str, int, str], None]
) -> Program:
    """Return the program of a text, whose names and kernels are not checked. `report` gets the key, the index and the text of a mistake."""
    if not isinstance(name, str):
        raise FormatError(f"the name of a program is a string, not {type(name).__name__}", kind=_KIND)
    names: dict[str, Array | Scalar | Sampler] = {}
    requires: list[tuple[str, Expression, Expression]] = []
    for key, texts in declared.items():
        for number, text in enumerate(_texts(name, key, texts)):
            try:
                if key == "requires":
                    requires += _comparisons(text)
                    continue
                each = _sampler(text) if key == "samplers" else _declaration(text, _ROLES[key])
            except _SyntaxProblem as problem:
                report(key, number, f"{quote_name(text)} {problem}")
                continue
            if each.name in names:
                report(key, number, f"{each.name!r} is declared twice")
            names[each.name] = each
    result: list[Step] = []
    for number, step in enumerate(_texts(name, "steps", steps)):
        try:
            result.append(step if isinstance(step, Step) else _step(step))
        except _SyntaxProblem as problem:
            report("steps", number, f"{quote_name(step)} {problem}")
    return Program(name, names, tuple(requires), tuple(result), backward)


def _texts(name: str, key: str, texts: Any) -> list[Any]:
    values = [texts] if isinstance(texts, str) else list(texts)
    for each in values:
        if not isinstance(each, str) and not (key == "steps" and isinstance(each, Step)):
            raise _error(name, f"{key}: expected text{', or a devmod.step,' if key == 'steps' else ','} got {type(each).__name__}")
    return values


def _tree(text: str, mode: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise _SyntaxProblem(f"has {len(text)} characters, and the maximum is {_MAX_TEXT}")
    try:
        tree = ast.parse(text.strip(), mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _SyntaxProblem(f"cannot be read: {getattr(error, 'msg', None) or error}") from None
    return tree


def _declaration(text: str, role: str) -> Array | Scalar:
    expected = "is no declaration; expected one such as 'x: float32[rows, columns]'"
    body = _tree(text, "exec").body
    node = body[0] if len(body) == 1 else None
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        raise _SyntaxProblem(expected)
    name, annotation = node.target.id, node.annotation
    default = None if node.value is None else _literal(node.value)
    if isinstance(annotation, ast.Name):
        if role != "input":
            raise _SyntaxProblem("has no shape; only an input is a number")
        return Scalar(name, annotation.id, default)
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.value, ast.Name):
        raise _SyntaxProblem(expected)
    if default is not None and (role != "temporary" or default != 0 or isinstance(default, bool)):
        raise _SyntaxProblem("has a value; of the arrays, only temporaries have one, which is 0")
    lengths = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    shape = tuple(map(_expression, lengths))
    type_ = annotation.value.id
    if not shape:
        raise _SyntaxProblem("has no lengths")
    if type_ in IMAGE_FORMATS:
        return Array(name, role, IMAGE_FORMATS[type_].dtype, shape, type_, default is not None)
    try:
        parse_dtype(type_)
    except FormatError:
        raise _SyntaxProblem(f"has the type {type_!r}, which is neither an element type nor the format of an image") from None
    return Array(name, role, type_, shape, cleared=default is not None)


def _sampler(text: str) -> Sampler:
    name, mark, options = text.partition(":")
    words = options.split()
    if not mark or len(words) != 2:
        raise _SyntaxProblem("is no sampler; expected one such as 'linear: linear clamp'")
    return Sampler(name.strip(), *words)


def _comparisons(text: str) -> list[tuple[str, Expression, Expression]]:
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Compare) or any(type(each) not in _COMPARISONS for each in node.ops):
        raise _SyntaxProblem("is no comparison; expected one such as 'columns % 4 == 0'")
    operands = list(map(_expression, (node.left, *node.comparators)))
    return [(_COMPARISONS[type(each)], operands[at], operands[at + 1]) for at, each in enumerate(node.ops)]


def _step(text: str) -> Step:
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _SyntaxProblem("is no step; expected a call such as 'scale(x=x, y=y, threads=n)'")
    if node.args:
        raise _SyntaxProblem("gives an argument by position; give all by name")
    arguments: dict[str, Any] = {}
    launch: dict[str, tuple[Expression, ...]] = {}
    for each in node.keywords:
        if each.arg is None:
            raise _SyntaxProblem("has **, which a step cannot have")
        if each.arg in _LAUNCH:
            dims = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
            if not 1 <= len(dims) <= 3:
                raise _SyntaxProblem(f"has {each.arg}= with {len(dims)} values; expected one to three")
            launch[each.arg] = tuple(map(_expression, dims))
        else:
            arguments[each.arg] = _value(each.value)
    return Step(node.func.id, arguments, **launch)


def _value(node: Any) -> Any:
    """Return the argument of a step: a name, an expression, or a literal."""
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        try:
            return _literal(node)
        except _SyntaxProblem:
            pass
    return _expression(node)


def _literal(node: Any) -> bool | int | float:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign, node = -1 if isinstance(node.op, ast.USub) else 1, node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float) and not (sign < 0 and isinstance(node.value, bool)):
        value: bool | int | float = node.value if sign > 0 else -node.value
        if type(value) is not int or abs(value) < 2**64:
            return value
    raise _SyntaxProblem("has a value that is no number of 64 bits, True or False")


def _expression(node: Any, depth: int = 0) -> Expression:
    if depth > MAX_DEPTH:
        raise _SyntaxProblem(f"has an expression that is nested more than {MAX_DEPTH} deep")
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 2**63:
        return node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _expression(node.operand, depth + 1)
        return -operand if isinstance(operand, int) else ("-", 0, operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return (_BINARY[type(node.op)], _expression(node.left, depth + 1), _expression(node.right, depth + 1))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "ceildiv") and not node.keywords:
        count = len(node.args)
        if count == 2 or (2 < count <= 15 and node.func.id != "ceildiv"):
            return (node.func.id, *(_expression(each, depth + 1) for each in node.args))
    known = "integers, names, + - * // %, min, max and ceildiv"
    raise _SyntaxProblem(f"has {ast.unparse(node)[:60]!r}, which no expression has; expected {known}")


def _given(value: Any) -> Any:
    """Return the argument of a `devmod.step`."""
    if isinstance(value, str):
        return _value(_tree(value, "eval").body)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy
    if type(value) is float or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    raise _SyntaxProblem(f"expected a number, or a name or an expression as text, got {type(value).__name__}")


def _sequence(value: Any) -> Sequence[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not 1 <= len(values) <= 3:
        raise _SyntaxProblem(f"grid, threads and block have one to three values, got {len(values)}")
    return values


def _integer(value: Any) -> Expression:
    result = _given(value)
    if isinstance(result, bool) or not isinstance(result, (int, str, tuple)):
        raise _SyntaxProblem(f"expected an integer or an expression, got {value!r}")
    return result


def _error(name: str, text: str, step: int | None = None) -> ProgramError:
    error = ProgramError(f"the program {quote_name(name)}: {text}", kind=_KIND, function=name)
    error.step, error.reason = step, text
    return error


# -- Programs of the file as steps: their steps stand in their place.


def _inlined(program: Program, programs: Mapping[str, Program]) -> tuple[Program, list[int]]:
    """Replace each step that calls another program by the steps of that one. Return also the number of each in the text, from 0."""
    declared, requires, steps, numbers = dict(program.declared), list(program.requires), list[Step](), list[int]()
    for number, step in enumerate(program.steps):
        new = [step]
        if step.kernel in programs:
            try:
                inner = _Inlined(program, programs[step.kernel], step, number + 1, declared)
            except _SyntaxProblem as problem:
                raise _error(program.name, f"step {number + 1} ({step.kernel!r}): {problem}", number) from None
            requires += [each for each in inner.requires if each not in requires]
            new = inner.steps
        steps += new
        numbers += [number] * len(new)
        if len(steps) > MAX_STEPS:
            raise _error(program.name, f"it has more than {MAX_STEPS} steps")
    return Program(program.name, declared, tuple(requires), tuple(steps), program.backward), numbers


class _Inlined:
    """The steps of a program in the terms of the one that calls it. `declared` gets the temporaries, the constants and the samplers."""

    def __init__(self, outer: Program, inner: Program, step: Step, number: int, declared: dict[str, Array | Scalar | Sampler]) -> None:
        if step.grid or step.threads or step.block:
            raise _SyntaxProblem("a program takes no grid, threads and block: its steps have them")
        arguments = {**{each.name: each.default for each in inner.scalars if each.default is not None}, **step.arguments}
        own = [each.name for each in inner.declared.values() if isinstance(each, Scalar) or getattr(each, "role", "") in _CALL_ROLES]
        if unknown := [name for name in arguments if name not in own]:
            raise _SyntaxProblem(f"the program has no argument {unknown[0]!r}{did_you_mean(unknown[0], own)}")
        if missing := [name for name in own if name not in arguments]:
            raise _SyntaxProblem(f"the program also takes {list_names(missing)}")
        self._values: dict[str, Any] = dict(arguments)
        self.requires: list[tuple[str, Expression, Expression]] = []
        arrays = [each for each in inner.arrays() if each.role in _CALL_ROLES]
        for each in arrays:
            self._bind(outer, each, declared.get(arguments[each.name]) if isinstance(arguments[each.name], str) else None)
        for each in inner.declared.values():
            if each.name not in own and not isinstance(each, Scalar):
                is_constant = isinstance(each, Array) and each.role == "constant"
                self._add(each, each.name if is_constant else f"{inner.name}_{number}_{each.name}", declared)
        for array in arrays:
            target = declared[arguments[array.name]]
            assert isinstance(target, Array)
            pairs = [(self._replaced(one), two) for one, two in zip(array.shape, target.shape, strict=True)]
            self.requires += [("==", one, two) for one, two in pairs if one != two]
        self.requires += [(name, self._replaced(one), self._replaced(two)) for name, one, two in inner.requires]
        self.steps = [
            Step(
                each.kernel,
                {name: self._replaced(value) for name, value in each.arguments.items()},
                *(tuple(map(self._replaced, dims)) for dims in (each.grid, each.threads, each.block)),
            )
            for each in inner.steps
        ]

    def _bind(self, outer: Program, array: Array, target: Any) -> None:
        """Bind the names of an array's shape to the lengths of the array that is given for it."""
        if not isinstance(target, Array) or (target.type, target.format, len(target.shape)) != (array.type, array.format, len(array.shape)):
            what = f"{array.format or array.type} of {len(array.shape)} dimensions"
            raise _SyntaxProblem(f"its argument {array.name!r} takes an array of {what}")
        if array.role in ("output", "update") and target.role in ("input", "constant"):
            raise _SyntaxProblem(f"it writes its argument {array.name!r}, and {target.name!r} is no array of the program that it may write")
        if array.role != "output":
            for name, length in zip(array.shape, target.shape, strict=True):
                if isinstance(name, str):
                    self._values.setdefault(name, length)

    def _add(self, each: Array | Sampler, name: str, declared: dict[str, Array | Scalar | Sampler]) -> None:
        self._values[each.name] = name
        if isinstance(each, Array):
            each = each._replace(shape=tuple(map(self._replaced, each.shape)))
        if declared.setdefault(name, each._replace(name=name)) != each._replace(name=name):
            raise _SyntaxProblem(f"its {name!r} has another meaning here")

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return (value[0], *map(self._replaced, value[1:]))
        return self._values.get(value, value) if isinstance(value, str) else value


_CALL_ROLES = ("input", "output", "update")


# -- The module.


def _roots(module: Module) -> Iterator[Module]:
    """Yield the roots of a file, also of one in a bundle: modules of programs, bundles of kernels or kernels, and constants."""
    for each in module.imports if module.kind == "bundle" else (module,):
        if each.kind == "bundle" and any(own.kind in (_KIND, "const_loader") for own in each.imports):
            yield from _roots(each)
        else:
            yield each


class _Parts:
    """The programs, the kernels and the constants of a module."""

    def __init__(self, module: Module) -> None:
        if not isinstance(module, devmod.Module):
            raise FormatError(f"the kernels of a program are a module, not {type(module).__name__}", kind=_KIND)
        roots = [*_roots(module)]
        known = [each for each in roots if each.kind == _KIND]
        self._old = known[0] if known else None
        self._constants = [each for each in roots if each.kind == "const_loader"]
        rest = [each for each in roots if each.kind not in (_KIND, "const_loader")]
        if not rest:
            raise FormatError("the kernels of a program are a module with kernels, and this one has none", kind=_KIND)
        # The node that other programs import, or a new one.
        self._kernels = rest[0] if len(rest) == 1 and rest[0].kind == "bundle" else devmod.bundle(*rest, mixed=True)
        self.kernel_names = set(self._kernels)
        self.programs: dict[str, Program] = {}
        if self._old is not None:
            code: Any = self._old.code  # type: ignore[attr-defined]
            self.programs = {name: read_program(name, info, code[name]) for name, info in self._old.functions.items()}

    def candidates(self, kernel: str) -> list[Candidate]:
        """Return the candidates of a kernel."""
        result = []
        for each in walk(self._kernels):
            if each.kind == "bundle" or kernel not in each.function_names:
                continue
            spec = find_spec(each.kind)
            label = f"{each.kind}/{each.format}" if each.format else each.kind
            result.append(Candidate(label, spec is None or spec.has_grid, each.functions[kernel].interface))
        return result

    def check_constants(self, program: Program) -> None:
        """Check that the constants are there, with their types and ranks."""
        for array in program.arrays("constant"):
            if not self._constants:
                raise _error(program.name, f"constants: the module of the kernels has no const_loader with {array.name!r}")
            value = None
            for module in self._constants:
                try:
                    value = module.get_global(array.name)
                except FunctionNotFoundError as error:
                    problem = error
            if value is None:
                raise _error(program.name, f"constants: {problem}")
            if (value.dtype, len(value.shape)) != (array.type, len(array.shape)):
                found = f"{value.dtype} of shape {value.shape}"
                declared = f"{array.type} of {len(array.shape)} dimensions"
                raise _error(program.name, f"constants: {array.name!r} is an array of {found}; declared is {declared}")

    def with_program(self, program: Program) -> Module:
        """Return the module with a program more."""
        programs = self.programs | {program.name: program}
        fmap = {name: interface_of(each) for name, each in programs.items()}
        code = {name: pack_steps(each) for name, each in programs.items()}
        module = devmod.create_with_fallback(_KIND, code, "steps1", fmap)
        if _KIND in devmod.registered("devmod.load_from_bytes") and not module.variable:  # type: ignore[attr-defined]
            module = devmod.load_from_bytes(_KIND, module.save_to_bytes())
        for each in (self._kernels, *self._constants):
            module.import_module(each)
        return devmod.bundle(module, self._kernels, *self._constants, mixed=True)
