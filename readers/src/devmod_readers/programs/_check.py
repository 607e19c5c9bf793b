"""The checks of a program: its own names, and what it gives to its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

from devmod import Interface, Member, Param
from devmod.backend import expression_text, interface_text, members_by_value, parse_dtype
from devmod.errors import FormatError, did_you_mean, list_names, quote_name
from devmod_readers.programs._expressions import names_in
from devmod_readers.programs._model import BINDING, Array, Program, Sampler, Scalar, Step

#: Names that a call of a program or an expression has already.
_RESERVED = ("stream", "min", "max", "ceildiv")
#: DLPack's codes of integers, and of booleans. The others of numbers are floats.
_INTEGERS, _BOOL = (0, 1), 6
FILTERS, ADDRESS_MODES = ("nearest", "linear"), ("clamp", "repeat", "mirror", "border")


class Candidate(NamedTuple):
    """A candidate of a kernel.

    Attributes
    ----------
    label
        It in a message, such as "opencl/cl".
    has_grid
        Whether a launch of its kind has a grid.
    interface
        Its interface; None without one.
    """

    label: str
    has_grid: bool
    interface: Interface | None


class ProgramError(FormatError):
    """A program is invalid.

    Attributes
    ----------
    step
        The number of the step from 0; None for a mistake of a declaration or of the whole program.
    reason
        What is wrong, as a clause.
    """

    step: int | None = None
    reason = ""


class _Problem(Exception):
    """What is wrong at a place of a program: the argument of the step, and a clause."""

    def __init__(self, text: str, argument: str = "") -> None:
        super().__init__(text)
        self.argument = argument


# -- The program alone.


def check_names(program: Program, numbers: Sequence[int] = ()) -> None:
    """Check the names and the shapes of a program.

    Parameters
    ----------
    program
        The program.
    numbers
        For messages, the number of each step in the text, from 0. Default: its own.

    Raises
    ------
    ProgramError
        A name is no identifier, has two meanings, or is bound by nothing; a declaration has an invalid type.
    """
    try:
        shapes = _check_declarations(program)
        for _, *operands in program.requires:
            _check_bound(operands, shapes, "requires")
    except _Problem as problem:
        raise _error(program, problem) from None
    for number, step in enumerate(program.steps):
        try:
            for name, value in step.arguments.items():
                for each in () if isinstance(value, str) and value in program.declared else names_in(value):
                    if each not in shapes:
                        raise _Problem(_unbound(each, [*program.declared, *shapes]), name)
            for word in ("grid", "threads", "block"):
                _check_bound(getattr(step, word), shapes, word)
        except _Problem as problem:
            raise _error(program, problem, number, numbers) from None


def _check_declarations(program: Program) -> set[str]:
    """Check the declarations, and return the names that may stand in expressions."""
    _check_identifier(program.name)
    bound: dict[str, None] = {}
    for each in program.declared.values():
        _check_identifier(each.name)
        if isinstance(each, Sampler):
            if each.filter not in FILTERS or each.address not in ADDRESS_MODES:
                expected = f"a filter of {list_names(FILTERS)} and an address mode of {list_names(ADDRESS_MODES)}"
                raise _Problem(f"the sampler has {each.filter!r} and {each.address!r}; expected {expected}", each.name)
        elif isinstance(each, Scalar):
            _check_scalar(each)
        else:
            code, bits, lanes = _type_of(each.type, each.name)
            if (lanes != 1 or code == 3 or bits % 8) and (code, bits, lanes) != (1, 1, 1):
                raise _Problem(f"an array of {each.type} cannot be declared; expected numbers, such as float32[n, 4]", each.name)
            if each.cleared and (each.role != "temporary" or each.format):
                raise _Problem("only a temporary array begins cleared", each.name)
            if each.format and len(each.shape) != 2:
                raise _Problem(f"an image has the shape [height, width], not {len(each.shape)} lengths", each.name)
            if each.role in BINDING:
                bound |= {length: None for length in each.shape if isinstance(length, str) and length not in program.declared}
    for name in bound:
        _check_identifier(name)
    names = {*bound, *(each.name for each in program.scalars if each.is_integer)}
    for array in program.arrays():
        _check_bound(array.shape, names, array.name)
    return names


def _check_identifier(name: str) -> None:
    if not name.isidentifier() or iskeyword(name):
        raise _Problem(f"{quote_name(name)} is no name: expected an identifier", name)
    if name in _RESERVED:
        raise _Problem(f"{name!r} is a name that calls and expressions have already; take another", name)


def _check_scalar(scalar: Scalar) -> None:
    code, bits, lanes = _type_of(scalar.type, scalar.name)
    if lanes != 1 or code not in (0, 1, 2, 4, 6):
        raise _Problem(f"a scalar of {scalar.type} cannot be declared; expected an integer, a float or bool", scalar.name)
    value = scalar.default
    fits = (type(value) is bool) if code == _BOOL else type(value) is int or (type(value) is float and code not in _INTEGERS)
    if value is not None and fits and code in _INTEGERS:
        low, high = (0, 2**bits - 1) if code == 1 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        fits = low <= value <= high
    if value is not None and not fits:
        raise _Problem(f"its default {value!r} is no {scalar.type}", scalar.name)


def _type_of(name: str, argument: str) -> tuple[int, int, int]:
    try:
        return parse_dtype(name)
    except FormatError as error:
        raise _Problem(str(error), argument) from None


def _check_bound(expressions: Sequence[Any], names: set[str], argument: str) -> None:
    for each in expressions:
        for name in names_in(each):
            if name not in names:
                raise _Problem(_unbound(name, names), argument)


def _unbound(name: str, known: Sequence[str] | set[str]) -> str:
    return (
        f"nothing binds {quote_name(name)}: a length has its name alone in the shape of an input, an update or a constant"
        f"{did_you_mean(name, known)}"
    )


# -- The kernels.


def check_kernels(program: Program, kernels: Mapping[str, Sequence[Candidate]], numbers: Sequence[int] = ()) -> None:
    """Check each step of a program against the candidates of its kernel. `numbers` is as in `check_names`.

    Raises
    ------
    ProgramError
        A kernel or an argument is unknown or missing, has another type, or its access does not allow what it is given; an output is not
        written, or a temporary is read before it is written. The message names the program, the step and the argument.
    """
    written = {each.name for each in program.arrays() if each.role in BINDING or each.cleared}
    used: set[str] = set()
    for number, step in enumerate(program.steps):
        try:
            candidates = kernels.get(step.kernel, ())
            if not candidates:
                known = f"the kernels are {list_names(kernels)}{did_you_mean(step.kernel, kernels)}"
                raise _Problem(f"the kernels have no {quote_name(step.kernel)}: {known}")
            new: set[str] = set()
            for each in candidates:
                if each.interface is None:
                    raise _Problem(f"the kernel has no interface as {each.label}, so that its arguments are unknown")
                try:
                    new |= _check_candidate(program, step, each.interface, each.has_grid, written)
                except _Problem as problem:
                    signature = f"{step.kernel}{interface_text(each.interface, short=True)}"
                    raise _Problem(f"{problem}. As {each.label} it is {signature}", problem.argument) from None
            written |= new
            used |= {value for value in step.arguments.values() if isinstance(value, str)}
        except _Problem as problem:
            raise _error(program, problem, number, numbers) from None
    for array in program.arrays("output", "temporary"):
        if array.name not in (written if array.role == "output" else used):
            what = "writes the output" if array.role == "output" else "uses the temporary"
            raise _error(program, _Problem(f"no step {what} {array.name!r}", array.name))


def form_of(interface: Interface) -> dict[str, Param | Member]:
    """Return what a step gives to a kernel, by name: its parameters, and in the place of a struct its members."""
    form: dict[str, Param | Member] = {}
    for param in interface.params:
        members = members_by_value(param)
        for each in members if members and members[0].name else (param,):
            if not each.name or each.name in form:
                raise _Problem("the kernel has parameters without a name of their own")
            form[each.name] = each
    return form


def _check_candidate(program: Program, step: Step, interface: Interface, has_grid: bool, written: set[str]) -> set[str]:
    """Check a step for a candidate, and return the names of the arrays that it writes."""
    form = form_of(interface)
    for name in step.arguments:
        if name not in form:
            raise _Problem(f"the kernel has no argument {quote_name(name)}{did_you_mean(name, form)}", name)
    for name, target in form.items():
        if name not in step.arguments and getattr(target, "default", None) is None:
            is_local = isinstance(target, Param) and target.kind == "local"
            advice = ": compile the kernel with local={…}, which gives it a size" if is_local else ""
            raise _Problem(f"the kernel also takes {quote_name(name)}{advice}", name)
    if has_grid:
        _check_launch(step, interface)
    accesses: dict[str, list[tuple[str, str]]] = {}
    for name, value in step.arguments.items():
        if problem := _mismatch(program, value, form[name]):
            raise _Problem(problem, name)
        if isinstance(program.declared.get(value) if isinstance(value, str) else None, Array):
            accesses.setdefault(value, []).append((name, getattr(form[name], "access", "") or "rw"))
    new = set()
    for value, uses in accesses.items():
        array = program.declared[value]
        assert isinstance(array, Array)
        for name, access in uses:
            if "w" in access and array.role in ("input", "constant"):
                raise _Problem(
                    f"the kernel may write to it, and {value!r} is {'an input' if array.role == 'input' else 'a constant'}: declare the "
                    "parameter const in the kernel, or the array in updates",
                    name,
                )
            if access == "r" and value not in written:
                raise _Problem(f"no step before has written {value!r}, which the kernel reads", name)
            if "w" in access and len(uses) > 1:
                raise _Problem(f"{value!r} is given twice, and the kernel may write to it", name)
            if "w" in access:
                new.add(value)
    return new


def _check_launch(step: Step, interface: Interface) -> None:
    if bool(step.grid) == bool(step.threads):
        raise _Problem("the step needs either grid=, the number of blocks, or threads=, the number of threads", "grid")
    block = (*step.block, 1, 1)[:3] if step.block else None
    if block is not None and interface.block is not None and block != interface.block:
        raise _Problem(f"the kernel is built for blocks of {interface.block} threads; omit block=", "block")
    if block is None and not (interface.block or interface.default_block or interface.open_block):
        raise _Problem("the step needs block=, the number of threads in a block", "block")


def _mismatch(program: Program, value: Any, target: Param | Member) -> str:
    """Return why a parameter cannot take a value of a step, as a clause; "" if it can."""
    given = program.declared.get(value) if isinstance(value, str) else None
    kind = target.kind if isinstance(target, Param) else "scalar"
    if isinstance(given, Sampler):
        return "" if kind == "sampler" else f"{value!r} is a sampler, and the kernel takes a {kind}"
    if isinstance(given, Array):
        if given.texel is not None:
            return _image_mismatch(given, target)
        if kind == "scalar" and target.type == "handle":
            return ""
        return _buffer_mismatch(given, target) if kind == "buffer" else f"{value!r} is an array, and the kernel takes a {kind}"
    if kind not in ("scalar", "uniform") or target.type == "handle":
        return f"{_shown(value)} is a number, and the kernel takes {'an array' if kind in ('buffer', 'scalar') else f'a {kind}'}"
    if target.members or getattr(target, "shape", ()):
        return "the kernel takes a struct, an array or a matrix by value, which a program cannot give"
    code, _, lanes = parse_dtype(target.type) if target.type else (2, 32, 1)
    if lanes != 1:
        return f"the kernel takes {target.type}, and a program gives single numbers"
    if isinstance(given, Scalar):
        own = parse_dtype(given.type)[0]
        sort = bool if own == _BOOL else int if own in _INTEGERS else float
    else:
        sort = type(value) if type(value) in (bool, float) else int
    fits = code == _BOOL if sort is bool else code != _BOOL if sort is int else code not in (*_INTEGERS, _BOOL)
    names = {bool: "a boolean", int: "an integer", float: "a float"}
    return "" if fits else f"{_shown(value)} is {names[sort]}, and the kernel takes {target.type}"


def _buffer_mismatch(array: Array, target: Param | Member) -> str:
    assert isinstance(target, Param)
    shapes = sum(value.startswith("shape") for value in target.pack)
    if shapes and shapes != len(array.shape):
        return f"{array.name!r} has {len(array.shape)} dimensions, and the kernel takes {shapes}"
    if not target.type or target.members or target.align:
        return ""
    code, bits, _ = parse_dtype(target.type)
    if (code, bits) == parse_dtype(array.type)[:2] or (code, bits) == (3, 0):
        return ""
    return f"{array.name!r} is an array of {array.type}, and the kernel takes {target.type}"


def _image_mismatch(image: Array, target: Param | Member) -> str:
    assert image.texel is not None
    if not isinstance(target, Param) or target.kind != "image":
        return f"{image.name!r} is an image, and the kernel takes a {getattr(target, 'kind', 'scalar')}"
    if target.type not in ("", "2d"):
        return f"{image.name!r} is an image of two dimensions, and the kernel takes {target.type}"
    if target.format not in ("", image.format):
        return f"{image.name!r} is an image of {image.format}, and the kernel takes {target.format}"
    if target.sample not in ("", image.texel.sample):
        return f"{image.name!r} has texels of {image.texel.sample}, and the kernel takes {target.sample}"
    return ""


def _shown(value: Any) -> str:
    return f"{expression_text(value)!r}" if isinstance(value, (str, tuple)) else repr(value)


def _error(program: Program, problem: _Problem, number: int | None = None, numbers: Sequence[int] = ()) -> ProgramError:
    place = ""
    if number is not None:
        step = program.steps[number]
        number = numbers[number] if numbers else number
        argument = f", argument {quote_name(problem.argument)}" if problem.argument in step.arguments else ""
        place = f", step {number + 1} ({quote_name(step.kernel)}){argument}"
    text = f"the program {quote_name(program.name)}{place}: {problem}"
    error = ProgramError(text, kind="program", function=program.name, argument=problem.argument)
    error.step, error.reason = number, str(problem)
    return error
