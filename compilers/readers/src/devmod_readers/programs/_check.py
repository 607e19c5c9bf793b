"""The checks of a program: its own names, and what it gives to its kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

import devmod
from devmod import Interface, Member, Module, Param
from devmod.backend import (
    ADDRESS_MODES,
    FILTERS,
    Expression,
    Variant,
    constants_of,
    expression_text,
    interface_text,
    members_by_value,
    names_in,
    parse_dtype,
    tuning_of,
)
from devmod.errors import FormatError, FunctionNotFoundError, did_you_mean, list_names, quote_name
from devmod_readers.programs._model import (
    BINDING,
    Array,
    Declared,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
)

#: The names that expressions have already, and those of a call: its keyword, and keywords that
#: later versions may have.
RESERVED = ("min", "max", "ceildiv", "stream", "workspace", "constants", "device", "devices")
#: DLPack's codes of integers, and of booleans. The others of numbers are floats.
_INTEGERS = (0, 1)
_BOOL = 6
#: The types of scalars.
_SCALARS = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "bool",
)
_NOUNS = {
    "scalar": "a number",
    "uniform": "a number",
    "buffer": "an array",
    "image": "an image",
    "sampler": "a sampler",
    "local": "local memory",
}


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
    text = f"the program {quote_name(program.name)}"
    if number is not None:
        step = program.steps[number]
        if places:
            text += f", {places[number]}"
        else:
            text += f", step {number + 1} ({quote_name(step.kernel)})"
        if problem.argument in step.arguments:
            text += f", argument {quote_name(problem.argument)}"
    text += f": {problem}"
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
        _check_requirements(program, names)
        around = program.repeats_of_steps()
        for number, step in enumerate(program.steps):
            for repeat in around[number]:
                if repeat.first == number:
                    _check_repeat(program, names, repeat, around[number])
            _check_names_of_step(program, names, step, {each.name for each in around[number]})
    except _Problem as problem:
        raise _error(program, problem, places, number) from None


def _check_requirements(program: Program, names: Collection[str]) -> None:
    for comparison, left, right in program.requires:
        try:
            _check_bound(program, names, (left, right), "")
        except _Problem as problem:
            raise _Problem(
                f"requires: '{expression_text(left)} {comparison} {expression_text(right)}': {problem}"
            ) from None


def _check_repeat(
    program: Program, names: Collection[str], repeat: Repeat, around: Sequence[Repeat]
) -> None:
    """Check the count and the name of a repeat. `around` has it and those around its first step."""
    _check_bound(program, names, (repeat.turns,), "the count of its repeat: ")
    name = repeat.name
    _check_identifier(name)
    same = [each for each in around if each.name == name]
    if name in program.declared or name in names or len(same) > 1:
        raise _Problem(
            f"the number of a turn is {name!r}, which something else is too; take another name"
        )


def _check_names_of_step(
    program: Program, names: Collection[str], step: Step, turns: Collection[str]
) -> None:
    """Check the names in a step. `turns` are those of the turns of its repeats."""
    for name, value in step.arguments.items():
        if type(value) is View:
            _check_view(program, value, name)
        elif not (isinstance(value, str) and value in program.declared):
            _check_bound(program, names, (value,), "", name, turns)
    for word in ("grid", "threads", "block"):
        _check_bound(program, names, getattr(step, word), f"{word}: ")


def _check_declarations(program: Program) -> set[str]:
    """Check the declarations, and return the names that may stand in expressions."""
    _check_identifier(program.name)
    if not program.steps:
        raise _Problem("it has no steps")
    names = {each.name for each in program.scalars if each.is_integer}
    for each in program.declared.values():
        _check_identifier(each.name)
        if isinstance(each, Sampler):
            _check_sampler(each)
        elif isinstance(each, Scalar):
            _check_default(each)
        else:
            _check_array(each)
            _check_state(program, each)
            if each.role in BINDING:
                names.update(_lengths(program, each))
    for array in program.arrays():
        _check_bound(program, names, array.shape, f"the shape of {array.name!r}: ", array.name)
    return names


def _check_sampler(sampler: Sampler) -> None:
    if sampler.filter in FILTERS and sampler.address in ADDRESS_MODES:
        return
    expected = (
        f"a filter of {list_names(FILTERS)} and an address mode of {list_names(ADDRESS_MODES)}"
    )
    raise _Problem(
        f"the sampler {sampler.name!r} has {sampler.filter!r} and {sampler.address!r}; expected {expected}",
        sampler.name,
    )


def _lengths(program: Program, array: Array) -> list[str]:
    """Return the names of lengths that the shape of an array binds."""
    names = []
    for length in array.shape:
        if not isinstance(length, str):
            continue
        if length in program.declared:
            what = f"{length!r} in the shape of {array.name!r} is {_described(program.declared[length])}"
            raise _Problem(f"{what}; a length has a name that nothing else has", array.name)
        _check_identifier(length)
        names.append(length)
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
    if dtype == (1, 1, 1):
        return True
    code, bits, lanes = dtype
    return lanes == 1 and code != 3 and bits % 8 == 0 and bits > 0


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
    if array.initial and not _can_begin_as(array, program.declared.get(array.initial)):
        text = f"{array.name!r} cannot begin as {quote_name(array.initial)}: only a state can, as a constant of its type and shape"
        raise _Problem(text, array.name)


def _can_begin_as(array: Array, first: Declared | None) -> bool:
    if array.role != "state" or not isinstance(first, Array):
        return False
    return first.role == "constant" and (first.type, first.shape) == (array.type, array.shape)


def _check_default(scalar: Scalar) -> None:
    if scalar.type not in _SCALARS:
        _type_of(scalar.type, scalar.name)
        raise _Problem(
            f"a scalar of {scalar.type} cannot be declared; expected an integer, a float or bool",
            scalar.name,
        )
    if scalar.default is None:
        return
    problem = _number_mismatch(scalar.default, scalar.type, taker="its type is")
    if problem:
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
    turns: Collection[str] = (),
) -> None:
    """Check that each name in expressions is that of a length, of an integer scalar or of a
    turn.
    """
    for each in expressions:
        if type(each) is int:
            continue
        for name in names_in(each):
            if name not in names and name not in turns:
                raise _Problem(where + _unbound(program, names, name), argument)


def _unbound(program: Program, names: Collection[str], name: str) -> str:
    """Return why a name may not stand in an expression."""
    if name in program.declared:
        return f"{name!r} is {_described(program.declared[name])}; an expression has lengths and integer scalars"
    if any(each.name == name for each in program.repeats):
        return f"{name!r} is the number of a turn, which only an argument of a repeated step has"
    text = f"nothing binds {quote_name(name)}: a length has its name alone in the shape of "
    text += "an input, an update, a state or a constant"
    return text + did_you_mean(name, [*program.declared, *names])


def _described(each: Declared) -> str:
    if isinstance(each, Scalar):
        return f"a scalar of {each.type}"
    if isinstance(each, Sampler):
        return "a sampler"
    return "an image" if each.format else "an array"


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
        return _gradient(program, backward)
    except _Problem as problem:
        raise _error(program, problem, ()) from None


def _gradient(program: Program, backward: Program) -> Gradient:
    for each in (program, backward):
        if any(each.arrays("update", "state")):
            raise _Problem(
                f"backward: {each.name!r} has updates or a state, and an operation in place has no gradient"
            )

    sources: dict[str, tuple[str, int]] = {}
    outputs = list(program.arrays("output"))
    for number, output in enumerate(outputs):
        sources[f"grad_{output.name}"] = "grad", number
    for number, output in enumerate(outputs):
        sources[output.name] = "output", number
    for number, argument in enumerate(program.arguments):
        sources[argument.name] = "input", number

    arguments = [each.name for each in backward.arguments]
    results = [each.name for each in backward.arrays("output")]
    known = [f"grad_{each.name}" for each in program.arrays("input")]
    unknown = [name for name in arguments if name not in sources]
    unknown += [name for name in results if name not in known]
    if unknown:
        expected = f"expected inputs of {list_names(sources)}, and outputs of {list_names(known)}"
        raise _Problem(f"backward: {backward.name!r} has {list_names(unknown)}; {expected}")
    return Gradient([sources[name] for name in arguments], results)


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
        self._name = name
        self._label = candidate.label
        if interface.newer:
            raise self.of_kernel(_Problem("the kernel is newer than this devmod"))
        self.has_grid = candidate.has_grid
        self.tuning = tuning_of(interface)
        #: The arguments by which a tuned kernel chooses its variant and its grid.
        self.sizes: set[str] = set()
        if self.tuning is not None:
            self.sizes.update(self.tuning.sizes)
            for variant in self.tuning.variants:
                for each in variant.grid:
                    self.sizes.update(names_in(each))
        found = arguments_of(interface)
        self.form = {each.name: each for each in found}
        self.needed = {each.name for each in found if getattr(each, "default", None) is None}
        if len(self.form) < len(found) or "" in self.form:
            raise self.of_kernel(_Problem("the kernel has parameters without a name of their own"))
        unset = [each.name for each in constants_of(interface) if each.default is None]
        if self.tuning is not None:
            unset = [each for each in unset if each not in self.tuning.constants]
        if unset:
            raise self.of_kernel(
                _Problem(
                    f"the kernel has constants without a value, {list_names(unset)}, which a program cannot set"
                )
            )

    def of_kernel(self, problem: _Problem) -> _Problem:
        """Return a problem with the kernel's signature."""
        signature = f"{self._name}{interface_text(self.interface, short=True)}"
        text = str(problem)
        if not text.endswith("?"):
            text += "."
        return _Problem(f"{text} As {self._label} it is {signature}", problem.argument)


def arguments_of(interface: Interface) -> list[Param | Member]:
    """Return what a step gives to a kernel: its parameters, and in the place of a struct its
    members.
    """
    result: list[Param | Member] = []
    for param in interface.params:
        members = members_by_value(param)
        if members and members[0].name:
            result += members
        else:
            result.append(param)
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
                known[step.kernel] = _candidates(step.kernel, kernels)
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
            if array.role == "output":
                if array.name not in by_steps:
                    raise _Problem(f"no step writes the output {array.name!r}", array.name)
            elif array.name not in used:
                raise _Problem(f"no step uses the temporary {array.name!r}", array.name)
    except _Problem as problem:
        raise _error(program, problem, places, number) from None


def _candidates(name: str, kernels: Mapping[str, Sequence[Candidate]]) -> list[_Kernel]:
    if not kernels.get(name):
        names = f"the kernels are {list_names(kernels)}{did_you_mean(name, kernels)}"
        raise _Problem(f"the module of the kernels has no {quote_name(name)}: {names}")
    return [_Kernel(name, each) for each in kernels[name]]


def _check_step(program: Program, step: Step, kernel: _Kernel, written: set[str]) -> set[str]:
    """Check a step for a candidate, and return the names of the arrays that it writes."""
    form = kernel.form
    #: The arguments that each array is given to.
    arguments: dict[str, list[str]] = {}
    for name, value in step.arguments.items():
        if name not in form:
            raise _Problem(
                f"the kernel has no argument {quote_name(name)}{did_you_mean(name, form)}", name
            )
        if problem := mismatch(program, value, form[name]):
            raise _Problem(problem, name)
        if isinstance(value, str) and isinstance(program.declared.get(value), Array):
            arguments.setdefault(value, []).append(name)
    if missing := kernel.needed - step.arguments.keys():
        raise _missing(next(form[name] for name in form if name in missing))
    turns = {each.name for each in program.repeats}
    for name in sorted(kernel.sizes):
        if turns.intersection(names_in(step.arguments.get(name))):
            raise _Problem(
                "the argument decides the variant or the grid of the kernel, and differs by turn",
                name,
            )
    if kernel.has_grid:
        _check_launch(step, kernel)
    return _check_accesses(program, form, arguments, written)


def _check_accesses(
    program: Program,
    form: Mapping[str, Param | Member],
    arguments: Mapping[str, Sequence[str]],
    written: set[str],
) -> set[str]:
    """Check what a kernel does with arrays, each given to some arguments, and return the names of
    those that it writes.
    """
    new = set()
    for value, names in arguments.items():
        array = program.declared[value]
        assert isinstance(array, Array)
        for name in names:
            if getattr(form[name], "access", "") == "r":
                if value not in written:
                    raise _Problem(
                        f"the kernel reads {value!r}, which no step before has written", name
                    )
                continue
            if array.role in ("input", "constant"):
                raise _written_input(array, value, form[name])
            if len(names) > 1:
                raise _Problem(f"{value!r} is given twice, and the kernel may write to it", name)
            new.add(value)
    return new


def _missing(target: Param | Member) -> _Problem:
    """Return the problem of a step without an argument of its kernel."""
    text = f"the kernel also takes {quote_name(target.name)}"
    if isinstance(target, Param) and target.kind == "local":
        text += ": compile the kernel with local={…}, which gives it a size"
    return _Problem(text, target.name)


def _written_input(array: Array, value: str, target: Param | Member) -> _Problem:
    """Return the problem of a kernel that may write to an input or a constant."""
    what = "an input" if array.role == "input" else "a constant"
    cast = str(target.extra.get("const_cast", ""))
    fix = "declare the parameter const in the kernel, or"
    if cast:
        fix = f"keep const in the cast {quote_name(cast)}, or declare"
    return _Problem(
        f"the kernel may write to it, and {value!r} is {what}: {fix} the array in updates",
        target.name,
    )


def _check_launch(step: Step, kernel: _Kernel) -> None:
    interface = kernel.interface
    variant = Variant({})
    if kernel.tuning is not None:
        variant = kernel.tuning.variants[0]
    own: Sequence[str] = ()
    if variant.grid:
        own = ("grid", "threads", "block")
    elif variant.block:
        own = ("block",)
    for name in own:
        if getattr(step, name):
            raise _Problem(f"the variants of the kernel decide the {name}; omit {name}=", name)
    if variant.grid:
        return
    if bool(step.grid) == bool(step.threads):
        raise _Problem(
            "the step needs either grid=, the number of blocks, or threads=, the number of threads",
            "grid",
        )
    if not step.block:
        if interface.block or interface.default_block or interface.open_block or variant.block:
            return
        advice = "or compile the kernel with block=, which gives it a default"
        raise _Problem(
            f"the step needs block=, the number of threads in a block; give it, {advice}", "block"
        )
    block = (*step.block, 1, 1)[:3]
    if interface.block is not None and block != interface.block:
        raise _Problem(
            f"the kernel is built for blocks of {interface.block} threads; omit block=", "block"
        )


def mismatch(program: Program, value: Any, target: Param | Member) -> str:
    """Return why a parameter cannot take a value of a step, as a clause; "" if it can."""
    given = None
    if isinstance(value, str):
        given = program.declared.get(value)
    if type(value) is View and isinstance(given, Array):
        given = given._replace(name=str(value), type=value.type, shape=(0,))
    wanted = _noun(target)
    if isinstance(given, Sampler):
        if wanted == "a sampler":
            return ""
        return f"{value!r} is a sampler, and the kernel takes {wanted}"
    if isinstance(given, Array):
        if given.format or wanted == "an image":
            return _image_mismatch(given, target, wanted)
        if wanted == "an array":
            return _buffer_mismatch(given, target)
        return f"{value!r} is an array, and the kernel takes {wanted}"
    if wanted != "a number":
        return f"{_shown(value)} is a number, and the kernel takes {wanted}"

    if target.members or getattr(target, "shape", ()):
        return (
            "the kernel takes a struct, an array or a matrix by value, which a program cannot give"
        )
    if not target.type:
        return ""
    given_type = "" if given is None else given.type
    return _number_mismatch(value, target.type, given_type)


def _noun(target: Param | Member) -> str:
    """Return what a parameter takes."""
    kind = target.kind if isinstance(target, Param) else "scalar"
    if kind == "scalar" and target.type == "handle":
        # The address of an array.
        return "an array"
    return _NOUNS[kind]


def _number_mismatch(
    value: Any, wanted: str, given: str = "", taker: str = "the kernel takes"
) -> str:
    """Return why a number of a type cannot be one of another, as a clause. Without a type it is a
    literal or an integer expression.
    """
    code, _, lanes = parse_dtype(wanted)
    if given:
        own, _, _ = parse_dtype(given)
    else:
        own = {bool: _BOOL, float: 2}.get(type(value), 0)
    if lanes != 1:
        return f"{_shown(value)} is a number, and {taker} {wanted}"
    if not _fits(own, code):
        return f"{_shown(value)} is {_number_noun(own)}, and {taker} {wanted}"
    if type(value) is int and code in _INTEGERS:
        low, high = integer_range(wanted)
        if not low <= value <= high:
            return f"{value} is not between {low} and {high}, and {taker} {wanted}"
    if type(value) in (int, float):
        try:
            Scalar("", wanted).rounded(value)
        except OverflowError:
            return f"{value} is too large for {wanted}"
    return ""


def _fits(own: int, code: int) -> bool:
    """Return whether a number of one code can be one of another. A float takes an integer."""
    if own == _BOOL or code == _BOOL:
        return own == code
    return own in _INTEGERS or code not in _INTEGERS


def _number_noun(code: int) -> str:
    if code == _BOOL:
        return "a boolean"
    return "an integer" if code in _INTEGERS else "a float"


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of a type of integers."""
    code, bits, _ = parse_dtype(dtype)
    if code == 1:
        return 0, 2**bits - 1
    half = 2 ** (bits - 1)
    return -half, half - 1


def _buffer_mismatch(array: Array, target: Param | Member) -> str:
    if not isinstance(target, Param) or target.kind != "buffer":
        # An address has no type.
        return ""
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
    if isinstance(value, (str, tuple)):
        value = expression_text(value)
    return repr(value)
