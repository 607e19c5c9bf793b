"""The checks of a program: its own names, and what it gives to its kernels."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

import devmod
from devmod import Interface, Member, Module, Param
from devmod.backend import (
    ADDRESS_MODES,
    FILTERS,
    constants_of,
    expression_text,
    interface_text,
    members_by_value,
    parse_dtype,
)
from devmod.errors import FormatError, FunctionNotFoundError, did_you_mean, list_names, quote_name
from devmod_readers.programs._expressions import Expression, names_in
from devmod_readers.programs._model import (
    BINDING,
    FLOATS,
    Array,
    Program,
    Sampler,
    Scalar,
    Step,
    View,
)

#: The names that expressions have already, and those of a call: its keyword, and keywords that
#: later versions may have.
RESERVED = ("min", "max", "ceildiv", "stream", "workspace", "constants", "device", "devices")
#: DLPack's codes of integers, and of booleans. The others of numbers are floats.
_INTEGERS, _BOOL = (0, 1), 6
#: The types of scalars.
_SCALARS = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "bool",
)
_NOUNS = {"image": "an image", "sampler": "a sampler", "local": "local memory"}


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


class Gradient(NamedTuple):
    """What the program of the gradients of another one takes and returns.

    Attributes
    ----------
    sources
        Where each of its arguments is from: "grad", "output" or "input", and the place among the
        outputs or the arguments.
    results
        The names of its outputs: "grad_" and the name of an array.
    """

    sources: list[tuple[str, int]]
    results: list[str]


class _Problem(Exception):
    """What is wrong at a place of a program: the argument of the step, and a clause."""

    def __init__(self, text: str, argument: str = "") -> None:
        super().__init__(text)
        self.argument = argument


def _error(
    program: Program, problem: _Problem, places: Sequence[str], number: int | None = None
) -> FormatError:
    """Return the error for a problem, at a step if there is a number."""
    place = ""
    if number is not None:
        step = program.steps[number]
        place = (
            f", {places[number] if places else f'step {number + 1} ({quote_name(step.kernel)})'}"
        )
        place += (
            f", argument {quote_name(problem.argument)}"
            if problem.argument in step.arguments
            else ""
        )
    text = f"the program {quote_name(program.name)}{place}: {problem}"
    return FormatError(text, kind="program", function=program.name, argument=problem.argument)


# -- The program alone.


def check_names(program: Program, places: Sequence[str] = ()) -> None:
    """Check the names and the shapes of a program.

    Parameters
    ----------
    program
        The program.
    places
        Each step in a message, such as ``step 1 ('scale')``; by default its number and its kernel.

    Raises
    ------
    FormatError
        A name is no identifier, has two meanings, or is bound by nothing; a declaration has an
        invalid type.
    """
    number: int | None = None
    try:
        names = _check_declarations(program)
        for comparison, left, right in program.requires:
            try:
                _check_bound(program, names, (left, right), "")
            except _Problem as problem:
                raise _Problem(
                    f"requires: '{expression_text(left)} {comparison} {expression_text(right)}': {problem}"
                ) from None
        for number, step in enumerate(program.steps):  # noqa: B007 - the error names it
            for name, value in step.arguments.items():
                if type(value) is View:
                    _check_view(program, value, name)
                elif not (isinstance(value, str) and value in program.declared):
                    _check_bound(program, names, (value,), "", name)
            for word in ("grid", "threads", "block"):
                _check_bound(program, names, getattr(step, word), f"{word}: ")
    except _Problem as problem:
        raise _error(program, problem, places, number) from None


def _check_declarations(program: Program) -> set[str]:
    """Check the declarations, and return the names that may stand in expressions."""
    _check_identifier(program.name)
    if not program.steps:
        raise _Problem("it has no steps")
    names = {each.name for each in program.scalars if each.is_integer}
    for each in program.declared.values():
        _check_identifier(each.name)
        if isinstance(each, Sampler):
            if each.filter not in FILTERS or each.address not in ADDRESS_MODES:
                expected = f"a filter of {list_names(FILTERS)} and an address mode of {list_names(ADDRESS_MODES)}"
                raise _Problem(
                    f"the sampler {each.name!r} has {each.filter!r} and {each.address!r}; expected {expected}",
                    each.name,
                )
        elif isinstance(each, Scalar):
            _check_default(each)
        else:
            _check_array(each)
            _check_state(program, each)
            for length in each.shape if each.role in BINDING else ():
                if not isinstance(length, str):
                    continue
                if length in program.declared:
                    what = f"{length!r} in the shape of {each.name!r} is {_described(program.declared[length])}"
                    raise _Problem(f"{what}; a length has a name that nothing else has", each.name)
                _check_identifier(length)
                names.add(length)
    for array in program.arrays():
        _check_bound(program, names, array.shape, f"the shape of {array.name!r}: ", array.name)
    return names


def _check_identifier(name: str) -> None:
    if not name.isidentifier() or iskeyword(name):
        raise _Problem(
            f"{quote_name(name)} is no name: expected an identifier that is no keyword of Python",
            name,
        )
    if name in RESERVED:
        raise _Problem(f"{name!r} is reserved for calls and expressions; take another name", name)


def _check_view(program: Program, view: View, argument: str) -> None:
    array = program.declared.get(view)
    if not isinstance(array, Array) or array.format:
        raise _Problem(
            f"'{view}' is the view of an array, and {quote_name(view[:])} is none{did_you_mean(view[:], program.declared)}",
            argument,
        )
    if not _is_number(_type_of(view.type, argument)):
        raise _Problem(
            f"'{view}': an array of {view.type} cannot be seen; expected numbers, such as {view[:]}.view(uint32)",
            argument,
        )


def _is_number(dtype: tuple[int, int, int]) -> bool:
    code, bits, lanes = dtype
    return (lanes == 1 and code != 3 and bits % 8 == 0 and bits > 0) or dtype == (1, 1, 1)


def _check_array(array: Array) -> None:
    if not _is_number(_type_of(array.type, array.name)):
        raise _Problem(
            f"an array of {array.type} cannot be declared; expected numbers, such as {array.name}: float32[n, 4]",
            array.name,
        )
    if array.cleared and (array.role not in ("output", "temporary") or array.format):
        raise _Problem(
            f"{array.name!r} cannot begin cleared: only an output or a temporary that is an array can",
            array.name,
        )
    if array.format and array.role in ("constant", "state"):
        raise _Problem(
            f"the {array.role} {array.name!r} is an image; a {array.role} is an array", array.name
        )
    if array.format and len(array.shape) != 2:
        shape = ", ".join(map(expression_text, array.shape))
        raise _Problem(
            f"the image {array.name!r} has the shape [{shape}]; expected two lengths, [height, width]",
            array.name,
        )


def _check_state(program: Program, array: Array) -> None:
    if array.role == "state" and "state" in program.declared:
        raise _Problem(
            "'state' is the keyword of a call that gives the program its state; take another name",
            "state",
        )
    first = program.declared.get(array.initial)
    if array.initial and (
        array.role != "state"
        or not isinstance(first, Array)
        or first.role != "constant"
        or first[2:4] != array[2:4]
    ):
        text = f"{array.name!r} cannot begin as {quote_name(array.initial)}: only a state can, as a constant of its type and shape"
        raise _Problem(text, array.name)


def _check_default(scalar: Scalar) -> None:
    if scalar.type not in _SCALARS:
        _type_of(scalar.type, scalar.name)
        raise _Problem(
            f"a scalar of {scalar.type} cannot be declared; expected an integer, a float or bool",
            scalar.name,
        )
    if scalar.default is not None and (
        problem := _number_mismatch(scalar.default, scalar.type, taker="its type is")
    ):
        raise _Problem(f"the default of {scalar.name!r}: {problem}", scalar.name)


def _type_of(name: str, argument: str) -> tuple[int, int, int]:
    try:
        return parse_dtype(name)
    except FormatError as error:
        raise _Problem(f"{quote_name(argument)}: {error}", argument) from None


def _check_bound(
    program: Program,
    names: Collection[str],
    expressions: Sequence[Any],
    where: str,
    argument: str = "",
) -> None:
    """Check that each name in expressions is that of a length or of an integer scalar."""
    for name in (name for each in expressions if type(each) is not int for name in names_in(each)):
        if name in names:
            continue
        if name in program.declared:
            text = f"{name!r} is {_described(program.declared[name])}; an expression has lengths and integer scalars"
        else:
            text = f"nothing binds {quote_name(name)}: a length has its name alone in the shape of "
            text += "an input, an update, a state or a constant"
            text += did_you_mean(name, [*program.declared, *names])
        raise _Problem(where + text, argument)


def _described(each: Array | Scalar | Sampler) -> str:
    if isinstance(each, Array):
        return "an image" if each.format else "an array"
    return f"a scalar of {each.type}" if isinstance(each, Scalar) else "a sampler"


def constant_of(program: Program, array: Array, modules: Iterable[Module]) -> devmod.Array:
    """Return a constant of a program from a const_loader among modules. FormatError if none has it
    with its type and rank.
    """
    problem = f"the module of the kernels has no const_loader with {quote_name(array.name)}"
    values = []
    for module in modules:
        if module.kind == "const_loader":
            try:
                values.append(module.get_global(array.name))
            except FunctionNotFoundError as error:
                problem = str(error)
    if len(values) > 1:
        problem = f"several const_loaders have {quote_name(array.name)}, as those of merged files"
    elif values:
        (value,) = values
        if (value.dtype, len(value.shape)) == (array.type, len(array.shape)):
            return value
        found = f"{quote_name(array.name)} is an array of {value.dtype} of {len(value.shape)} dimensions"
        problem = f"{found}; declared is {array.type} of {len(array.shape)}"
    raise _error(program, _Problem(f"constants: {problem}"), ())


def gradient_of(program: Program, backward: Program | None) -> Gradient:
    """Check the gradient of a program, and return its arguments and its results.

    Parameters
    ----------
    program
        A program with a `backward`.
    backward
        The program of that name; None if there is none.

    Raises
    ------
    FormatError
        It is missing, one of both has updates, or it has other arguments or outputs.
    """
    try:
        if backward is None:
            raise _Problem(
                f"backward: the module has no program {quote_name(program.backward)}; make the program of the gradients first"
            )
        for each in (program, backward):
            if any(each.arrays("update", "state")):
                raise _Problem(
                    f"backward: {each.name!r} has updates or a state, and an operation in place has no gradient"
                )
        outputs = [each.name for each in program.arrays("output")]
        sources = {f"grad_{name}": ("grad", number) for number, name in enumerate(outputs)}
        sources |= {name: ("output", number) for number, name in enumerate(outputs)}
        sources |= {each.name: ("input", number) for number, each in enumerate(program.arguments)}
        results = [each.name for each in backward.arrays("output")]
        known = [f"grad_{each.name}" for each in program.arrays("input")]
        unknown = [each.name for each in backward.arguments if each.name not in sources] + [
            each for each in results if each not in known
        ]
        if unknown:
            expected = (
                f"expected inputs of {list_names(sources)}, and outputs of {list_names(known)}"
            )
            raise _Problem(f"backward: {backward.name!r} has {list_names(unknown)}; {expected}")
    except _Problem as problem:
        raise _error(program, problem, ()) from None
    return Gradient([sources[each.name] for each in backward.arguments], results)


# -- The kernels.


class _Kernel:
    """A candidate and what a step gives to it: its parameters, and in the place of a struct its
    members.
    """

    def __init__(self, name: str, candidate: Candidate) -> None:
        interface = candidate.interface
        if interface is None:
            raise _Problem(
                f"the kernel has no interface as {candidate.label}, so that its arguments are unknown"
            )
        self.interface: Interface = interface
        self.has_grid, self._name, self._label = candidate.has_grid, name, candidate.label
        found = arguments_of(interface)
        self.form = {each.name: each for each in found}
        self.needed = {
            name for name, each in self.form.items() if getattr(each, "default", None) is None
        }
        unset = [each.name for each in constants_of(interface) if each.default is None]
        if len(self.form) < len(found) or "" in self.form:
            raise self.of_kernel(_Problem("the kernel has parameters without a name of their own"))
        if unset:
            raise self.of_kernel(
                _Problem(
                    f"the kernel has constants without a value, {list_names(unset)}, which a program cannot set"
                )
            )

    def of_kernel(self, problem: _Problem) -> _Problem:
        """Return a problem with the kernel's signature."""
        signature = f"{self._name}{interface_text(self.interface, short=True)}"
        return _Problem(
            f"{problem}{'' if str(problem)[-1] == '?' else '.'} As {self._label} it is {signature}",
            problem.argument,
        )


def arguments_of(interface: Interface) -> list[Param | Member]:
    """Return what a step gives to a kernel: its parameters, and in the place of a struct its
    members.
    """
    result: list[Param | Member] = []
    for param in interface.params:
        members = members_by_value(param)
        result += members if members and members[0].name else (param,)
    return result


def check_kernels(
    program: Program, kernels: Mapping[str, Sequence[Candidate]], places: Sequence[str] = ()
) -> None:
    """Check each step of a program against the candidates of its kernel. `places` are those of
    `check_names`.

    Raises
    ------
    FormatError
        A kernel or an argument is unknown or missing, has another type, or its access does not
        allow what it is given; an output is not written, or a temporary is read before it is
        written. The message names the program, the step and the argument.
    """
    written = {each.name for each in program.arrays() if each.role in BINDING or each.cleared}
    by_steps: set[str] = set()
    known: dict[str, list[_Kernel]] = {}
    number: int | None = None
    try:
        for number, step in enumerate(program.steps):  # noqa: B007 - the error names it
            if step.kernel not in known:
                if not kernels.get(step.kernel):
                    names = (
                        f"the kernels are {list_names(kernels)}{did_you_mean(step.kernel, kernels)}"
                    )
                    raise _Problem(
                        f"the module of the kernels has no {quote_name(step.kernel)}: {names}"
                    )
                known[step.kernel] = [_Kernel(step.kernel, each) for each in kernels[step.kernel]]
            new: set[str] = set()
            for kernel in known[step.kernel]:
                try:
                    new |= _check_step(program, step, kernel, written)
                except _Problem as problem:
                    raise kernel.of_kernel(problem) from None
            written |= new
            by_steps |= new
        number = None
        used = program.lifetimes()
        for array in program.arrays("output", "temporary"):
            if array.name not in (by_steps if array.role == "output" else used):
                raise _Problem(
                    f"no step {'writes the output' if array.role == 'output' else 'uses the temporary'} {array.name!r}",
                    array.name,
                )
    except _Problem as problem:
        raise _error(program, problem, places, number) from None


def _check_step(program: Program, step: Step, kernel: _Kernel, written: set[str]) -> set[str]:
    """Check a step for a candidate, and return the names of the arrays that it writes."""
    form = kernel.form
    accesses: dict[str, list[tuple[str, str]]] = {}
    for name, value in step.arguments.items():
        if name not in form:
            raise _Problem(
                f"the kernel has no argument {quote_name(name)}{did_you_mean(name, form)}", name
            )
        if problem := mismatch(program, value, form[name]):
            raise _Problem(problem, name)
        if isinstance(value, str) and isinstance(program.declared.get(value), Array):
            accesses.setdefault(value, []).append((name, getattr(form[name], "access", "") or "rw"))
    if missing := kernel.needed - step.arguments.keys():
        target = next(form[name] for name in form if name in missing)
        is_local = isinstance(target, Param) and target.kind == "local"
        advice = ": compile the kernel with local={…}, which gives it a size" if is_local else ""
        raise _Problem(f"the kernel also takes {quote_name(target.name)}{advice}", target.name)
    if kernel.has_grid:
        _check_launch(step, kernel.interface)
    new = set()
    for value, uses in accesses.items():
        array = program.declared[value]
        assert isinstance(array, Array)
        for name, access in uses:
            if access == "r":
                if value not in written:
                    raise _Problem(
                        f"the kernel reads {value!r}, which no step before has written", name
                    )
                continue
            if array.role in ("input", "constant"):
                what = "an input" if array.role == "input" else "a constant"
                cast = str(form[name].extra.get("const_cast", ""))
                fix = (
                    f"keep const in the cast {quote_name(cast)}, or declare"
                    if cast
                    else "declare the parameter const in the kernel, or"
                )
                raise _Problem(
                    f"the kernel may write to it, and {value!r} is {what}: {fix} the array in updates",
                    name,
                )
            if len(uses) > 1:
                raise _Problem(f"{value!r} is given twice, and the kernel may write to it", name)
            new.add(value)
    return new


def _check_launch(step: Step, interface: Interface) -> None:
    if bool(step.grid) == bool(step.threads):
        raise _Problem(
            "the step needs either grid=, the number of blocks, or threads=, the number of threads",
            "grid",
        )
    block = (*step.block, 1, 1)[:3] if step.block else None
    if block is not None and interface.block is not None and block != interface.block:
        raise _Problem(
            f"the kernel is built for blocks of {interface.block} threads; omit block=", "block"
        )
    if block is None and not (interface.block or interface.default_block or interface.open_block):
        advice = "or compile the kernel with block=, which gives it a default"
        raise _Problem(
            f"the step needs block=, the number of threads in a block; give it, {advice}", "block"
        )


def mismatch(program: Program, value: Any, target: Param | Member) -> str:
    """Return why a parameter cannot take a value of a step, as a clause; "" if it can."""
    given = program.declared.get(value) if isinstance(value, str) else None
    if type(value) is View and isinstance(given, Array):
        given = given._replace(name=str(value), type=value.type, shape=(0,))
    kind = target.kind if isinstance(target, Param) else "scalar"
    is_address = kind == "scalar" and target.type == "handle"
    wanted = (
        "an array"
        if kind == "buffer" or is_address
        else "a number"
        if kind in ("scalar", "uniform")
        else _NOUNS[kind]
    )
    if isinstance(given, Sampler):
        return "" if kind == "sampler" else f"{value!r} is a sampler, and the kernel takes {wanted}"
    if isinstance(given, Array):
        if given.format or kind == "image":
            return _image_mismatch(given, target, wanted)
        if is_address:
            return ""
        return (
            _buffer_mismatch(given, target)
            if kind == "buffer"
            else f"{value!r} is an array, and the kernel takes {wanted}"
        )
    if wanted != "a number":
        return f"{_shown(value)} is a number, and the kernel takes {wanted}"
    if target.members or getattr(target, "shape", ()):
        return (
            "the kernel takes a struct, an array or a matrix by value, which a program cannot give"
        )
    return (
        _number_mismatch(value, target.type, given.type if given is not None else "")
        if target.type
        else ""
    )


def _number_mismatch(
    value: Any, wanted: str, given: str = "", taker: str = "the kernel takes"
) -> str:
    """Return why a number of a type cannot be one of another, as a clause. Without a type it is a
    literal or an integer expression.
    """
    code, _, lanes = parse_dtype(wanted)
    own = parse_dtype(given)[0] if given else {bool: _BOOL, float: 2}.get(type(value), 0)
    if lanes != 1:
        return f"{_shown(value)} is a number, and {taker} {wanted}"
    if (own == _BOOL) is not (code == _BOOL) or (code in _INTEGERS and own not in _INTEGERS):
        what = "a boolean" if own == _BOOL else "an integer" if own in _INTEGERS else "a float"
        return f"{_shown(value)} is {what}, and {taker} {wanted}"
    if type(value) is int and code in _INTEGERS:
        low, high = integer_range(wanted)
        if not low <= value <= high:
            return f"{value} is not between {low} and {high}, and {taker} {wanted}"
    if type(value) in (int, float) and wanted in FLOATS:
        try:
            struct.pack(FLOATS[wanted], value)
        except OverflowError:
            return f"{value} is too large for {wanted}"
    return ""


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of a type of integers."""
    code, bits, _ = parse_dtype(dtype)
    return (0, 2**bits - 1) if code == 1 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _buffer_mismatch(array: Array, target: Param | Member) -> str:
    assert isinstance(target, Param)
    shapes = sum(value.startswith("shape") for value in target.pack)
    if shapes and shapes != len(array.shape):
        return f"{array.name!r} has {len(array.shape)} dimensions, and the kernel takes {shapes}"
    if not target.type or parse_dtype(target.type)[:2] == parse_dtype(array.type)[:2]:
        return ""
    return f"{array.name!r} is an array of {array.type}, and the kernel takes {target.type}"


def _image_mismatch(image: Array, target: Param | Member, wanted: str) -> str:
    if not isinstance(target, Param) or target.kind != "image" or image.texel is None:
        what = "an image" if image.format else "an array"
        return f"{image.name!r} is {what}, and the kernel takes {wanted}"
    if target.type not in ("", "2d"):
        return f"{image.name!r} is an image of two dimensions, and the kernel takes {target.type}"
    if target.format not in ("", image.format):
        return f"{image.name!r} is an image of {image.format}, and the kernel takes {target.format}"
    if target.sample not in ("", image.texel.sample):
        return f"{image.name!r} has texels of {image.texel.sample}, and the kernel takes {target.sample}"
    return ""


def _shown(value: Expression | float) -> str:
    return f"{expression_text(value)!r}" if isinstance(value, (str, tuple)) else repr(value)
