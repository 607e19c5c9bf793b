"""Record the kernels that a function of tinygrad's Tensors runs, on tinygrad's CPU device."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from keyword import iskeyword
from math import prod
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tinygrad import Tensor, codegen, dtypes
from tinygrad.codegen import simplify
from tinygrad.engine import realize
from tinygrad.engine.jit import JitError
from tinygrad.helpers import Context
from tinygrad.runtime.support import compiler_cpu
from tinygrad.uop import ops
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, sym_infer

from devmod.backend import LAUNCH_KEYWORDS, RLock
from devmod.errors import ArgumentError, CompileError, list_names
from devmod_models._names import named_results
from devmod_models._patched import patched
from devmod_models.onnx import FIXED_LENGTH, TYPES
from devmod_readers.programs import RESERVED
from devmod_targets.authoring.zig import run_zig

#: The settings on which kernels and constants depend, and those by which tinygrad writes to disk or
#: starts processes. SCACHE ignores the limit of buffers.
_SETTINGS: dict[str, Any] = {
    "DEV": "CPU:CLANG",
    "NUM_CPU_THREADS": 1,
    "CAPTURING": 1,
    "TC": 1,
    "TC_SELECT": -1,
    "EMULATED_DTYPES": "",
    "TRANSCENDENTAL": 1,
    "DISABLE_FAST_IDIV": 1,
    "SPLIT_REDUCEOP": 1,
    **dict.fromkeys(
        (
            *("ALLOW_TF32", "BEAM", "CACHELEVEL", "CAPTURE_PROCESS_REPLAY", "DEBUG", "FLOAT16"),
            *("IMAGE", "MAX_KERNEL_BUFFERS", "NOLOCALS", "NOOPT", "OPENPILOT_HACKS", "PARALLEL"),
            *("PCONTIG", "PROFILE", "SCACHE", "TC_OPT", "TRACK_MATCH_STATS", "USE_ATOMICS"),
            *("VALIDATE_WITH_CPU", "VIZ", "WINO"),
        ),
        0,
    ),
}
#: devmod's names of the element types. tinygrad's own are C's.
DTYPES = {getattr(dtypes, name): name for name in TYPES.values()}
_OPERATORS = {
    Ops.ADD: "({} + {})",
    Ops.SUB: "({} - {})",
    Ops.MUL: "({} * {})",
    Ops.CDIV: "({} // {})",
    Ops.FLOORDIV: "({} // {})",
    Ops.CMOD: "({} % {})",
    Ops.FLOORMOD: "({} % {})",
    Ops.MAX: "max({}, {})",
    Ops.NEG: "(0 - {})",
}
#: A variable that is a length, divided by the number of which that is a multiple.
_MULTIPLE = re.compile(r"(\w+)_multiples_of_([1-9]\d*)", re.ASCII)
_PARTS = re.compile(r"\((\w+) // (\d+)\)", re.ASCII)
#: A renderer's forms of an operation with a power of two.
_POWERS = {Ops.SHL: "({} * {})", Ops.SHR: "({} // {})", Ops.AND: "({} % {})"}
#: The steps of loops that take about a second without optimizations.
_LONG = 1 << 28
_lock = RLock()

#: A function that gets lines about the progress, and which part of the work is done.
Report = Callable[[str, float], object]


@contextmanager
def settings(**more: Any) -> Iterator[None]:
    """Give tinygrad fixed settings, no cache on disk, and the clang of the wheel ziglang for its
    CPU device. The end restores all.

    Parameters
    ----------
    more
        Other context variables of tinygrad.
    """
    clang = SimpleNamespace(check_output=_run_clang)
    with (
        _lock,
        Context(**_SETTINGS | more),
        patched(compiler_cpu, "subprocess", clang),
        # tinygrad reads these for each operation of a tree, and a number is compared at once.
        patched(ops, "SPEC", 1),
        patched(ops, "REWRITE_STACK_LIMIT", 250_000),
        patched(UOp, "_eval", _evaluated),
        patched(codegen, "pm_simplify_ranges", _SIMPLIFY_RANGES),
    ):
        yield


def _evaluated(self: UOp, dtype: Any, expected: Any) -> Any:
    """Return the number of an expression. tinygrad's rules do not multiply all sums of lengths, so
    that some products of the same value differ there: numbers of elements.
    """
    try:
        return _own_eval(self, dtype, expected)
    except ValueError:
        if self.op is Ops.CMPNE:
            one, two = map(polynomial, self.src)
            if one == two:
                return False
        raise


_own_eval = UOp._eval


def _mark_gated(ctx: dict[UOp, UOp], idx: UOp) -> None:
    """tinygrad's compares the ends of ranges, of which those that are lengths are no numbers: such
    a range stays as it is.
    """
    numbers = {each: end for each, end in ctx.items() if end.op is Ops.CONST}
    lengths = {each: end for each, end in ctx.items() if end.op is not Ops.CONST}
    simplify.mark_gated(numbers, idx)
    ctx.update({**numbers, **lengths})


_SIMPLIFY_RANGES = PatternMatcher(
    [
        (pattern, _mark_gated if function is simplify.mark_gated else function)
        for pattern, function in simplify.pm_simplify_ranges.patterns
    ]
)


def polynomial(value: UOp) -> dict[tuple[UOp, ...], int]:
    """Return an expression as a sum: the factors of each product, which are no sums, and their
    number.
    """
    own = value.simplify()
    if own.op is Ops.CONST:
        return {(): own.val} if own.val else {}
    if own.op not in (Ops.ADD, Ops.MUL):
        return {(own,): 1}
    one, two = map(polynomial, own.src)
    terms = [*one.items(), *two.items()]
    if own.op is Ops.MUL:
        terms = []
        for left, first in one.items():
            for right, second in two.items():
                terms.append((tuple(sorted((*left, *right), key=id)), first * second))
    result: dict[tuple[UOp, ...], int] = {}
    for factors, count in terms:
        result[factors] = result.get(factors, 0) + count
    return {factors: count for factors, count in result.items() if count}


@contextmanager
def _captured_by(*tapes: Tape) -> Iterator[None]:
    """Give tapes the calls of the block. Without one, tinygrad runs them."""
    captured = [*realize.capturing]
    realize.capturing[:] = tapes
    try:
        yield
    finally:
        realize.capturing[:] = captured


def _run_clang(command: Sequence[str], input: bytes) -> bytes:  # noqa: A002 - that of subprocess.check_output
    """Run tinygrad's command for clang by zig. Its input and its output, the last three arguments,
    are files.

    No multiplication and addition are one operation: the result is the same on each processor.
    """
    arguments = ["clang", *command[1:-3], "-ffp-contract=off", "kernel.c", "-o", "kernel.o"]
    result = run_zig(
        arguments,
        {"kernel.c": input},
        "kernel.o",
        kind="tinygrad's CPU device",
        distribution="devmod-core[tinygrad]",
    )
    if result.status:
        raise CompileError("clang refuses a kernel for tinygrad's CPU device", log=result.log)
    return result.output


class Array(NamedTuple):
    """An array of the program, in which a buffer of tinygrad is. `original` is the name of a tensor
    that has the elements of the buffer in their order, as the function has it; "" for another.
    """

    buffer: UOp
    name: str
    dtype: str
    shape: tuple[Any, ...]
    original: str = ""

    @property
    def text(self) -> str:
        """Its declaration."""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape)) or '()'}]"


class Recording(NamedTuple):
    """The kernels that a function runs.

    Attributes
    ----------
    calls
        Their calls, in order, and repeats of others. The first source of a call is the kernel's
        tree, the others are buffers and bound variables.
    inputs, outputs
        The arrays of the caller.
    held
        The tensors that the function has from outside, by their buffer.
    states
        The buffers that keep a value from call to call: the function writes them, and they have a
        value before.
    variables
        The integer inputs by name, also those that are lengths.
    names
        The names in use.
    fixed
        The buffers whose values other constants were computed from.
    parts
        The buffers of parts of arrays, each with those of all parts of the same array.
    """

    calls: Calls
    inputs: list[Array]
    outputs: list[Array]
    held: dict[UOp, Array]
    states: set[UOp]
    variables: dict[str, UOp]
    names: Names
    fixed: set[UOp]
    parts: dict[UOp, list[UOp]]

    @property
    def most_buffers(self) -> int:
        """The most buffers of a kernel."""
        counts = map(len, map(realize.get_call_arg_uops, each_call(self.calls)))
        return max(counts, default=0)

    def evaluate(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Run the kernels on tinygrad's CPU device, and return the outputs. Temporaries are freed
        after their last use. Lengths are fixed, and states keep their values from call to call.

        Few kernels are optimized: to compile one takes longer than to run it once, unless it is
        long.

        Parameters
        ----------
        inputs
            The elements of each input, as an object with a buffer.
        """
        for array, elements in zip(self.inputs, inputs, strict=True):
            fill(array.buffer, elements)
        kept = {each.buffer for each in (*self.inputs, *self.outputs)}
        #: The temporaries that are used last by each item of `calls`, of the last item first.
        free: list[set[UOp]] = []
        for item in reversed(self.calls):
            used = _used([item])
            free.append({each for each in used - kept if not each.is_realized})
            kept |= used
        for item in self.calls:
            is_long = any(map(_is_long, each_call([item])))
            with settings(NOOPT=int(not is_long)):
                _run([item], {}, {})
            for each in free.pop():
                each.buffer.deallocate()
        return [Tensor(each.buffer).reshape(each.shape) for each in self.outputs]


class Repeat(NamedTuple):
    """Calls that run several times, in turns.

    Attributes
    ----------
    turns
        The number of turns: an int, or a symbolic length.
    variable
        The name of the variable that is the number of the turn, also in the program.
    calls
        The calls.
    layer
        What the turns compute, if one kernel may do so (`layers.Layer`).
    """

    turns: Any
    variable: str
    calls: Calls
    layer: Any = None


Calls = list["UOp | Repeat"]


def each_call(calls: Iterable[UOp | Repeat]) -> Iterator[UOp]:
    """Yield calls, also those of repeats."""
    for each in calls:
        if isinstance(each, Repeat):
            yield from each_call(each.calls)
        else:
            yield each


def replaced(calls: Calls, function: Callable[[UOp], Sequence[UOp]]) -> Calls:
    """Return calls with others in the place of each. A repeat without calls is left out."""
    result: Calls = []
    for each in calls:
        if not isinstance(each, Repeat):
            result += function(each)
        elif inner := replaced(each.calls, function):
            result.append(each._replace(calls=inner))
    return result


def depends(tensor: Tensor, buffers: set[UOp]) -> bool:
    """Return whether a tensor is computed from some buffers, or from one that has no value."""
    for each in tensor.uop.toposort():
        has_value = each.op is not Ops.BUFFER or each.is_variable or each.is_realized
        if each in buffers or not has_value:
            return True
    return False


class Tape:
    """The calls that realizing tensors makes. They do not run.

    Attributes
    ----------
    calls
        The calls, and repeats of them. One has the numbers of its bound variables among its
        sources.

    Parameters
    ----------
    names
        The names in use, to which those of the numbers of turns are added.
    """

    def __init__(self, names: Names) -> None:
        self.calls: Calls = []
        self._names = names
        #: Those that get the next call: those of the innermost repeat.
        self._current = self.calls
        self._variables: set[str] = set()
        self._values: dict[str, int] = {}

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Add the calls of the block. Arrays have no offsets there."""
        with patched(UOp, "contiguous_view", lambda _: None), _captured_by(self):
            yield

    def add_linear(self, linear: UOp, values: dict[str, int]) -> None:
        """Add calls: tinygrad calls this. `values` has the numbers of variables."""
        self._values |= values
        for call in linear.src:
            numbers = []
            for variable in call.src[0].variables():
                name = variable.expr
                if name in values and name not in self._variables:
                    own = UOp.variable(name, variable.vmin, variable.vmax)
                    numbers.append(own.bind(values[name]))
            self._current.append(call.replace(src=(*call.src, *numbers)))

    @contextmanager
    def repeat(self, turns: Any, layer: Any = None) -> Iterator[UOp | int]:
        """Yield the number of the turn, a variable, or 0 of one turn. The calls of the block run in
        each turn.

        Parameters
        ----------
        turns
            Their number: an int, or a symbolic length.
        layer
            What they compute, if one kernel may do so.
        """
        most = largest(turns)
        if most == 1:
            yield 0
            return
        name = self._names.take(f"turn_{len(self._variables)}")
        self._variables.add(name)
        repeat = Repeat(turns, name, [], layer)
        self._current.append(repeat)
        with patched(self, "_current", repeat.calls):
            yield UOp.variable(name, 0, most - 1).bind(0)

    def play(self) -> None:
        """Run the calls: all, or where some depend on buffers without a value, those that depend on
        constants alone. A later run has what these give, such as copies of constants.
        """
        missing = _without_values(effects(each_call(self.calls)))
        items = self.calls
        if missing:
            items = _split(items, missing, set(), {}).once
        _run(items, self._values, {})


def _is_long(call: UOp) -> bool:
    """Return whether the loops of a kernel have so many steps that it is worth to optimize them."""
    steps = 1
    for each in call.src[0].toposort():
        if each.op is Ops.RANGE:
            steps *= int(each.vmax) + 1
    return steps > _LONG


def _run(calls: Calls, values: dict[str, int], compiled: dict[UOp, UOp]) -> None:
    """Run calls with the numbers of variables. `compiled` gets those that can run."""
    for each in calls:
        if isinstance(each, Repeat):
            for turn in range(int(sym_infer(each.turns, values))):
                _run(each.calls, {**values, each.variable: turn}, compiled)
            continue
        if each not in compiled:
            linear = realize.compile_linear(UOp(Ops.LINEAR, src=(each,)))
            compiled[each] = realize.link_linear(linear)
        realize.run_linear(compiled[each], values, jit=True)


@contextmanager
def recording() -> Iterator[Tape]:
    """Yield the tape that gets the calls of the block: the current one, or a new one, which runs at
    the end of the block.
    """
    if realize.capturing:
        yield realize.capturing[0]
        return
    tape = Tape(Names())
    with tape.capturing():
        yield tape
    tape.play()


def reading() -> AbstractContextManager[None]:
    """Run what the block computes, and record none of it."""
    return _captured_by()


class Names(set[str]):
    """The names of a program's arrays and numbers. `renamed` has those that are not as given, and
    `exact` those that only arrays of these names may have.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self.renamed: dict[str, str] = {}
        self.exact = set[str]()

    def take(self, text: str) -> str:
        """Return a name like the text that is an identifier, and that nothing else has."""
        name = identifier(text)
        result = name
        number = 1
        while result in self or (result != text and result in self.exact):
            number += 1
            result = f"{name}_{number}"
        self.add(result)
        if result != text:
            self.renamed[text] = result
        return result


def are_fixed(lengths: Iterable[object]) -> bool:
    """Return whether a call chooses none of the lengths."""
    return all(isinstance(each, int) for each in lengths)


def multiple_name(name: str, step: int) -> str:
    """Return the name of the variable that is a length divided by a number. The program has the
    length.
    """
    return f"{name}_multiples_of_{step}"


def multiple_of(name: str) -> tuple[str, int]:
    """Return the length of which a variable has parts, and their size: itself, and 1, of others."""
    found = _MULTIPLE.fullmatch(name)
    if found is None:
        return name, 1
    return found[1], int(found[2])


def number_text(name: str) -> str:
    """Return the expression of a variable in the program."""
    length, step = multiple_of(name)
    if step == 1:
        return name
    return f"({length} // {step})"


def identifier(text: str) -> str:
    """Return a text as a name of a program: one that neither calls nor expressions have."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name.isidentifier() or iskeyword(name) or name in (*LAUNCH_KEYWORDS, *RESERVED, "state"):
        return f"_{name}"
    return name


def record(
    fn: Any,
    inputs: Mapping[str, Any],
    outputs: Sequence[str] | None,
    constants: Mapping[str, Tensor],
    whole: Mapping[str, Any] | None = None,
) -> Recording:
    """Call a function, and return the kernels that it would run. Those that depend on constants
    alone run here, once.

    Parameters
    ----------
    fn
        The function.
    inputs
        Its tensors and bound variables, by name.
    outputs
        The names of its results.
    constants
        Tensors that it uses, by the names of their arrays.
    whole
        The inputs with all lengths that a call chooses, if `inputs` have some of them.

    Raises
    ------
    ArgumentError
        The function does what no program does.
    """
    names = Names()
    variables = {names.take(each.expr): each for each in _bound_variables(whole or inputs)}
    before = {**constants, **_held_tensors(fn)}
    names.exact.update(inputs, before)
    arguments = []
    own: list[Array] = []
    for name, each in inputs.items():
        argument = each
        if isinstance(each, Tensor):
            argument = _fresh(each)
            own.append(_array(argument, names.take(name), each.shape))
        arguments.append(argument)
    if others := [name for name, each in before.items() if each.device != "CPU"]:
        raise ArgumentError(
            f"tensors are on another device than tinygrad's CPU: {list_names(others)}. Move them: t.to('CPU')",
            argument="fn",
        )
    if before:
        Tensor.realize(*before.values())

    tape = Tape(names)
    with tape.capturing():
        results = named_results(_returned(fn, arguments), outputs, Tensor, "fn")
        flat = {name: each.reshape(each.numel()).clone() for name, each in results.items()}
        held = {**constants, **_held_tensors(fn)}
        assigned = [each for each in held.values() if each.uop.base.op is Ops.AFTER]
        Tensor.realize(*flat.values(), *assigned)
    _check_random(each_call(tape.calls))

    names.exact.update(results, held)
    made = [_array(flat[name], names.take(name), each.shape) for name, each in results.items()]
    given = {each.buffer for each in own}
    named = _held_arrays(held, given, names)
    split = _split(tape.calls, given, {each.buffer for each in made}, named)
    _run(split.once, {}, {})
    _check_assigned(before, held, split.rest, split.dynamic)
    fixed = _used(split.once)
    return Recording(split.rest, own, made, named, split.states, variables, names, fixed, {})


def _check_assigned(
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    calls: Iterable[UOp | Repeat],
    changed: set[UOp],
) -> None:
    """Raise ArgumentError if calls use a tensor of which the function has made another one, with
    values that depend on buffers of `changed`.
    """
    used = _used(calls)
    for name in sorted(before.keys() & after.keys()):
        old = buffer_of(before[name])
        new = after[name]
        is_replaced = old in used and buffer_of(new) is not old
        if is_replaced and not changed.isdisjoint(new.uop.toposort()):
            raise ArgumentError(
                f"the function replaces the tensor {name!r}, which it uses, and a later call would use the old one. Assign the values: "
                f"{name}.assign(…)",
                argument="fn",
            )


def _bound_variables(inputs: Mapping[str, Any]) -> Iterable[UOp]:
    """Return the variables of inputs, which are lengths or are inputs themselves."""
    result: dict[str, UOp] = {}
    for each in inputs.values():
        for side in (each, *each.shape):
            if isinstance(side, UOp):
                result |= {variable.expr: variable for variable in side.variables()}
    return result.values()


def _check_random(calls: Iterable[UOp]) -> None:
    """Raise ArgumentError if a call makes random numbers."""
    tensors = (*Tensor._device_seeds.values(), *Tensor._device_rng_counters.values())
    seeds = set(map(buffer_of, tensors))
    for call in effects(calls):
        if not seeds.isdisjoint(realize.get_call_arg_uops(call)):
            raise ArgumentError(
                "the function makes random numbers (Tensor.rand, dropout, a tensor whose first values are random), which a program does "
                "not have. Make them an input, or realize such a tensor before the export",
                argument="fn",
            )


def _held_arrays(
    held: Mapping[str, Tensor], inputs: Collection[UOp], names: Names
) -> dict[UOp, Array]:
    """Return the arrays of tensors that a function has from outside, by their buffers."""
    result: dict[UOp, Array] = {}
    for name, each in held.items():
        buffer = buffer_of(each)
        if buffer.op is not Ops.BUFFER or buffer in result or buffer in inputs:
            continue
        shape = each.shape
        if each.numel() != buffer.max_numel():
            shape = (buffer.max_numel(),)
        original = ""
        if each.uop.has_buffer_identity(after_ok=True):  # and the elements in their order
            original = name
        dtype = dtype_of(each.dtype)
        result[buffer] = Array(buffer, names.take(name), dtype, tuple(shape), original)
    return result


class _Split(NamedTuple):
    """The calls of a recording, by what they depend on.

    Attributes
    ----------
    once
        The calls that depend on constants alone.
    rest
        The others.
    states
        The buffers that are state.
    dynamic
        The buffers whose values differ from call to call.
    """

    once: Calls
    rest: Calls
    states: set[UOp]
    dynamic: set[UOp]


def _split(calls: Calls, inputs: set[UOp], outputs: set[UOp], held: Mapping[UOp, Array]) -> _Split:
    """Split the calls of a recording.

    A buffer that the function has made and still holds at its end, such as a cache that its first
    call makes, is state. The calls that fill it before any other uses it are constant. It is no
    state if a call that is not constant gives it all its values first.

    Raises
    ------
    ArgumentError
        A call reads a buffer of `held` that has no values.
    """
    known = effects(each_call(calls))
    missing = [held[each] for each in held.keys() & _without_values(known)]
    if missing:
        names = sorted(each.original or each.name for each in missing)
        raise ArgumentError(
            f"the function uses tensors that have no values (Tensor.empty): {list_names(names)}. Give them values before the export",
            argument="fn",
        )
    changed = inputs | outputs
    for call, written in known.items():
        for each in written:
            if each.is_realized or call.src[0].variables():
                changed.add(each)
    dynamic = reached(known, changed)
    own = dynamic - inputs - outputs
    late = {each for each in own if each in held and not each.is_realized}
    once: Calls = []
    begun: set[UOp] = set()
    filled: set[UOp] = set()
    renewed: set[UOp] = set()

    def kept(call: UOp) -> list[UOp]:
        used = {*realize.get_call_arg_uops(call)}
        if call.src[0].variables() or not used.isdisjoint((dynamic - late) | begun):
            for each in (used & late) - begun - filled:
                if _fills(call, each):
                    renewed.add(each)
            begun.update(used & late)
            return [call]
        once.append(call)
        filled.update(known[call])
        return []

    rest = replaced(calls, kept)
    states = {each for each in own if each.is_realized} | (late - renewed)
    return _Split(once, rest, states, dynamic)


def _fills(call: UOp, buffer: UOp) -> bool:
    """Return whether a call writes all elements of a buffer and reads none."""
    tree = call.src[0]
    written = {each.src[0] for each in tree.toposort() if each.op is Ops.STORE}
    most = 0
    for own, access in accesses(tree, realize.get_call_arg_uops(call)):
        if own is not buffer:
            continue
        if access not in written:
            return False
        most = max(most, prod(each.vmax + 1 for each in access.ranges))
    return bool(most == buffer.max_numel())


def accesses(tree: UOp, buffers: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Yield the buffer and the node of each access of a kernel."""
    for node in tree.toposort():
        if node.op is Ops.INDEX and node.src[0].op is Ops.PARAM:
            yield buffers[node.src[0].arg.slot], node


def _used(calls: Iterable[UOp | Repeat]) -> set[UOp]:
    """Return the buffers that calls use, also those in repeats."""
    return set[UOp]().union(*map(realize.get_call_arg_uops, each_call(calls)))


def _without_values(known: Mapping[UOp, set[UOp]]) -> set[UOp]:
    """Return the buffers that calls use and none writes, and that have no values before."""
    return {each for each in _used(known).difference(*known.values()) if not each.is_realized}


def reached(known: Mapping[UOp, set[UOp]], buffers: set[UOp]) -> set[UOp]:
    """Return buffers, and all whose values calls compute from these. `known` is of `effects`."""
    result = set(buffers)
    size = 0
    while size != len(result):
        size = len(result)
        for call, written in known.items():
            if not result.isdisjoint(realize.get_call_arg_uops(call)):
                result |= written
    return result


def effects(calls: Iterable[UOp]) -> dict[UOp, set[UOp]]:
    """Return the buffers that each call writes.

    Raises
    ------
    ArgumentError
        A call is not one of a kernel or a copy, or its buffers are those of several devices.
    """
    result: dict[UOp, set[UOp]] = {}
    for call in calls:
        tree = call.src[0]
        buffers = realize.get_call_arg_uops(call)
        strange = [each.op.name for each in buffers if each.op is not Ops.BUFFER]
        if tree.op not in (Ops.SINK, Ops.COPY) or strange:
            raise ArgumentError(
                f"the function has {(*strange, tree.op.name)[0]}, which a program, on one device, does not have",
                argument="fn",
            )
        result[call] = set()
        if tree.op is Ops.COPY:
            result[call].add(buffers[0])
        for each in tree.toposort():
            if each.op is Ops.STORE:
                target = each.src[0].buf_uop
                if target.op is Ops.PARAM:
                    result[call].add(buffers[target.arg.slot])
    return result


def _returned(fn: Any, arguments: Sequence[Any]) -> Any:
    """Return what the function returns. Raise ArgumentError if it reads values of a call."""
    try:
        return fn(*arguments)
    except JitError as error:
        raise ArgumentError(
            "the function reads the values of a tensor (item, numpy, tolist, data), which each call has anew. Compute with Tensors, as in "
            "condition.where(a, b)",
            argument="fn",
        ) from error


def largest(length: Any) -> int:
    """Return a length, or the largest value of a symbolic one."""
    return int(getattr(length, "vmax", length))


def _fresh(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and type whose elements are in a buffer of their own,
    without gaps.
    """
    flat = Tensor.empty(tensor.max_numel(), dtype=tensor.dtype)
    return flat[: tensor.numel()].reshape(tensor.shape)


def _array(tensor: Tensor, name: str, shape: Sequence[Any]) -> Array:
    if 0 in shape:
        raise ArgumentError(
            f"{name!r} is an empty array of shape {tuple(shape)}, which no kernel has",
            argument=name,
        )
    return Array(buffer_of(tensor), name, dtype_of(tensor.dtype), tuple(map(expression, shape)))


def fill(buffer: UOp, elements: Any) -> None:
    """Give a buffer its elements: an object with a buffer."""
    memory = buffer.buffer.ensure_allocated().as_memoryview(force_zero_copy=True)
    memory[:] = elements.tobytes()


def buffer_of(tensor: Tensor) -> UOp:
    """Return the buffer of a realized tensor."""
    result = tensor.uop.base
    while result.op in (Ops.AFTER, Ops.SHRINK, Ops.RESHAPE):
        result = result.src[0].base
    return result


def dtype_of(dtype: Any) -> str:
    """Return devmod's name of an element type.

    Raises
    ------
    ArgumentError
        There is none.
    """
    if dtype not in DTYPES:
        raise ArgumentError(
            f"the function has the element type {dtype.name}, which devmod does not have",
            argument="fn",
        )
    return DTYPES[dtype]


def expression(value: Any) -> Any:
    """Return an integer; a symbolic one as an expression of a program.

    Raises
    ------
    ArgumentError
        No expression has its operator.
    """
    if not isinstance(value, UOp):
        return value
    if value.op is Ops.CONST:
        return int(value.val)
    if value.op in (Ops.CAST, Ops.BITCAST) or value.is_bound_var:
        return expression(value.src[0])
    if value.op is Ops.PARAM or value.is_variable:
        return number_text(identifier(value.expr))
    operands = list(map(expression, value.src))
    if value.op is Ops.MUL:
        # The length of which a variable has the number of parts. A quotient has a remainder.
        found = _PARTS.fullmatch(str(operands[0]))
        quotients = (Ops.CDIV, Ops.FLOORDIV, Ops.SHR)
        is_exact = all(each.op not in quotients for each in value.src[0].toposort())
        if found and is_exact and operands[1] == int(found[2]):
            return found[1]
    if value.op in _OPERATORS:
        return _OPERATORS[value.op].format(*operands)
    if value.op in _POWERS and isinstance(operands[-1], int) and operands[-1] >= 0:
        factor = operands[-1] + 1
        if value.op is not Ops.AND:
            factor = 1 << operands[-1]
        if factor.bit_count() == 1:
            return _POWERS[value.op].format(operands[0], factor)
    raise ArgumentError(
        f"a length or a grid has {value.op.name}, which no expression of a program has; a fixed length may do",
        argument=FIXED_LENGTH,
    )


def _held_tensors(fn: Any) -> dict[str, Tensor]:
    """Return the tensors that a function has from outside, by the names of tinygrad's
    `get_state_dict`, or of variables.

    Other than there, objects may refer to each other.
    """
    result: dict[str, Tensor] = {}
    seen = set[int]()

    def visit(value: Any, name: str, prefix: str) -> None:
        if id(value) in seen or isinstance(value, (type, ModuleType)):
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            result[name if name not in result else f"{prefix}.{name}"] = value
        elif isinstance(value, (FunctionType, MethodType)):
            visit(getattr(value, "__self__", None), "", prefix)
            for key, each in _variables_of(value).items():
                visit(each, key if isinstance(each, (Tensor, list, tuple, dict)) else "", key)
        else:
            for key, each in _items_of(value):
                visit(each, f"{name}.{key}".strip("."), prefix)

    visit(fn, "", "")
    # A tensor without a device is a number.
    return {name: each for name, each in result.items() if each.device is not None}


def _variables_of(function: Any) -> dict[str, Any]:
    """Return the variables from outside that a function uses. `inspect.getclosurevars` raises an
    error for one without a value.
    """
    own = getattr(function, "__func__", function)
    names = own.__code__.co_names
    result = {name: own.__globals__[name] for name in names if name in own.__globals__}
    for name, cell in zip(own.__code__.co_freevars, own.__closure__ or (), strict=True):
        with suppress(ValueError):
            result[name] = cell.cell_contents
    return result


def _items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the parts of an object with their names or numbers."""
    items = getattr(value, "__dict__", value)
    if hasattr(value, "_asdict"):
        items = value._asdict()
    if isinstance(items, (list, tuple)):
        return enumerate(items)
    if isinstance(items, dict):
        return items.items()
    return ()
