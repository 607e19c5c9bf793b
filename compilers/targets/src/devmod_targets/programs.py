"""Make programs: their text is parsed, the programs that they call become steps, and a module takes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import devmod
from devmod import FunctionInfo, Module
from devmod.backend import (
    LAUNCH_KEYWORDS,
    create_own,
    find_spec,
    interface_text,
    load_stored,
    payload_of,
    unknown_needs,
)
from devmod.errors import FormatError, did_you_mean, list_names, pip_install, quote_name
from devmod_readers.programs import (
    MAX_STEPS,
    Array,
    Candidate,
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
    read_program,
)
from devmod_targets._program_text import (
    KIND,
    STEPS,
    Comparison,
    Declared,
    Problem,
    Repeated,
    argument_value,
    launch_dims,
    list_of,
    parse_integer,
    parse_program,
    program_error,
)

_FORMAT = "steps1"

#: For a float those of which a value may be none of its own: a step has no conversion.
_ROUNDED = {
    "float16": ("bfloat16", "float32", "float64"),
    "bfloat16": ("float16", "float32", "float64"),
    "float32": ("float64",),
}

_CALL_ROLES = ("input", "output", "update", "state")


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
            raise program_error(name, text, f"step {number + 1}")
        raise program_error(name, f"{key}: {text}")

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
            f"devmod.step: the kernel is its name, not {type(kernel).__name__}", kind=KIND
        )
    try:
        values = {name: argument_value(value) for name, value in arguments.items()}
        dims = {}
        for word, value in launch.items():
            if value is not None:
                dims[word] = tuple(map(parse_integer, launch_dims(word, value)))
    except Problem as problem:
        raise FormatError(
            f"devmod.step({kernel!r}): {problem}", kind=KIND, function=kernel
        ) from None
    return Step(kernel, values, **dims)


def make_repeat(count: Any, name: str, steps: Any) -> Repeated:
    """Return steps that run several times: see `devmod.repeat`."""
    if not isinstance(name, str):
        raise FormatError(
            f"devmod.repeat: the name of the turn's number is a string, not {type(name).__name__}",
            kind=KIND,
        )
    try:
        parse_integer(count)
        values = tuple(list_of(steps, (str, Step, Repeated), STEPS))
    except Problem as problem:
        raise FormatError(f"devmod.repeat({name!r}): {problem}", kind=KIND) from None
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
            except Problem as problem:
                signature = (
                    f"{inner.name}{interface_text(parts.infos[inner.name].interface, short=True)}"  # type: ignore[arg-type]
                )
                end = "" if str(problem).endswith("?") else "."
                raise program_error(
                    program.name, f"{problem}{end} It is {signature}", place
                ) from None
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
            raise program_error(program.name, f"it has more than {MAX_STEPS} steps")
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
            raise Problem("a program takes no grid, threads and block: its steps have them")
        self._outer = outer
        self._taken = taken
        self._used = used
        self._inner = inner
        #: The names of the numbers of the turns around the step.
        self._turns = turns
        self._prefix = f"{inner.name}_{number}_"
        self.declared: dict[str, Declared] = {}
        self.requires: list[Comparison] = []
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
        """Raise Problem if the program has to clear an array in each turn."""
        for array in self._inner.arrays():
            if array.cleared:
                raise Problem(
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
                raise Problem(
                    f"the program has no argument {quote_name(name)}{did_you_mean(name, names)}"
                )
        missing = [name for name in names if name not in result]
        if missing:
            raise Problem(f"the program also takes {list_names(missing)}")
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
                    raise Problem(
                        f"its argument {each.name!r} is written, and {value!r} is given to another argument too"
                    )
            else:
                self._give_scalar(each, value)
        for array, target in pairs:
            self._bind(array, target)
            if array.role == "output" and array.cleared:
                if target.name in self._used or target.role == "update":
                    text = f"{array.name!r} begins cleared, and {target.name!r} has contents before: give it an array of its own"
                    raise Problem(f"its output {text}")
                self.declared[target.name] = target._replace(cleared=True)
        return pairs

    def _give_scalar(self, scalar: Scalar, value: Any) -> None:
        param = devmod.Param(scalar.name, "scalar", scalar.type)
        problem = mismatch(self._outer, value, param)
        if problem:
            problem = problem.replace("the kernel takes", "the program takes")
            raise Problem(f"its argument {scalar.name!r}: {problem}")
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
                raise Problem(
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
            raise Problem(f"its argument {array.name!r} takes {what}")
        if array.role != "input" and target.role in ("input", "constant"):
            raise Problem(
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
            raise Problem(
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


def _other_type(scalar: Scalar, given: Scalar) -> Problem:
    return Problem(
        f"its argument {scalar.name!r}: the program takes {scalar.type}, and {given.name!r} is {given.type}"
    )


def _range_of(scalar: Scalar, value: Any, given: object) -> list[Comparison]:
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
    result: list[Comparison] = []
    if low > least:
        result.append(("<=", low, value))
    if high < greatest:
        result.append(("<=", value, high))
    return result


# -- The module.


def _roots(module: Module) -> Iterator[Module]:
    """Yield the modules of programs, the constants, and the nodes of kernels, also those of merged
    files.
    """
    own = (KIND, "const_loader")
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
            raise program_error(name, f"its kernels are a module, not {type(module).__name__}")
        roots = list(_roots(module))
        modules = [each for each in roots if each.kind == KIND]
        for old in modules:
            roots += old.imports
        self._constants: list[Module] = []
        kernels = []
        for each in dict.fromkeys(roots):
            if each.kind == "const_loader":
                self._constants.append(each)
            elif each.kind != KIND:
                kernels.append(each)
        if not kernels:
            raise program_error(
                name, "its kernels are a module with kernels, and this one has none"
            )

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
            raise program_error(
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
            raise program_error(
                name, f"the kernels have a function {name!r} too; take another name for the program"
            )
        if self._others and name in self.infos:
            raise program_error(
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
        module = create_own(KIND, codes, _FORMAT, infos)
        if KIND in devmod.registered("devmod.load_from_bytes") and not module.variable:  # type: ignore[attr-defined]
            module = load_stored(KIND, module.save_to_bytes())
        for each in (self._kernels, *self._constants):
            module.import_module(each)
        return devmod.bundle(*self._others, module, self._kernels, *self._constants, mixed=True)

    def program(self, name: str) -> Program | None:
        """Return a program of the module; None if it has none of the name."""
        info = self.infos.get(name)
        if info is None or name in self._programs:
            return self._programs.get(name)
        if unknown := unknown_needs(info.interface):
            raise program_error(
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
                        raise program_error(
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
