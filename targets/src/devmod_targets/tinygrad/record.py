"""Record the kernels that a function of tinygrad's Tensors runs, on tinygrad's CPU device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from keyword import iskeyword
from threading import RLock
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tinygrad import Tensor, dtypes
from tinygrad.engine import realize
from tinygrad.helpers import Context
from tinygrad.nn.state import get_state_dict
from tinygrad.runtime.support import compiler_cpu
from tinygrad.uop.ops import Ops, UOp

from devmod.backend import LAUNCH_KEYWORDS
from devmod.errors import ArgumentError, CompileError, list_names
from devmod_targets.authoring.zig import run_zig

#: The settings on which kernels and constants depend, and those by which tinygrad writes to disk or starts processes.
_SETTINGS: dict[str, Any] = {
    "DEV": "CPU:CLANG", "CACHELEVEL": 0, "PARALLEL": 0, "NUM_CPU_THREADS": 1, "BEAM": 0, "DEBUG": 0, "VIZ": 0, "PROFILE": 0,
    "CAPTURING": 1, "CAPTURE_PROCESS_REPLAY": 0, "VALIDATE_WITH_CPU": 0, "TRACK_MATCH_STATS": 0, "NOOPT": 0, "NOLOCALS": 0, "TC": 1,
    "TC_OPT": 0, "TC_SELECT": -1, "ALLOW_TF32": 0, "IMAGE": 0, "FLOAT16": 0, "WINO": 0, "OPENPILOT_HACKS": 0, "EMULATED_DTYPES": "",
    "TRANSCENDENTAL": 1, "DISABLE_FAST_IDIV": 1, "SPLIT_REDUCEOP": 1, "PCONTIG": 0, "USE_ATOMICS": 0, "MAX_KERNEL_BUFFERS": 0,
}  # fmt: skip
#: The other types have names of their own in tinygrad, which are those of C.
_DTYPES = {getattr(dtypes, name): name for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
)}  # fmt: skip
_OPERATORS = {
    Ops.ADD: "({} + {})", Ops.SUB: "({} - {})", Ops.MUL: "({} * {})", Ops.CDIV: "({} // {})", Ops.FLOORDIV: "({} // {})",
    Ops.CMOD: "({} % {})", Ops.FLOORMOD: "({} % {})", Ops.MAX: "max({}, {})", Ops.NEG: "(0 - {})",
}  # fmt: skip
_POWERS = {Ops.SHL: "({} * {})", Ops.SHR: "({} // {})", Ops.AND: "({} % {})"}
_lock = RLock()


@contextmanager
def settings(**more: Any) -> Iterator[None]:
    """Give tinygrad fixed settings, no cache on disk, and the clang of the wheel ziglang for its CPU device. The end restores all.

    Parameters
    ----------
    more
        Other context variables of tinygrad.
    """
    own = SimpleNamespace(check_output=_run_clang)
    with _lock, Context(**_SETTINGS | more):
        module, compiler_cpu.subprocess = compiler_cpu.subprocess, own  # type: ignore[assignment]
        try:
            yield
        finally:
            compiler_cpu.subprocess = module


def _run_clang(command: Sequence[str], input: bytes) -> bytes:  # noqa: A002 - that of subprocess.check_output
    """Run the command that tinygrad has for clang with its input and output in files, by zig."""
    arguments = ["clang", *command[1:-3], "kernel.c", "-o", "kernel.o"]
    result = run_zig(arguments, {"kernel.c": input}, "kernel.o", kind="tinygrad's CPU device", distribution="devmod-core[tinygrad]")
    if result.status:
        raise CompileError("clang refuses a kernel for tinygrad's CPU device", log=result.log)
    return result.output


class Array(NamedTuple):
    """A tensor of the function as an array of the program: its buffer, its name, type and shape."""

    buffer: UOp
    name: str
    dtype: str
    shape: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Its declaration."""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape)) or '()'}]"


class Recording(NamedTuple):
    """The calls of kernels in their order, and what they use.

    Attributes
    ----------
    calls
        The calls. The first source of one is the kernel's tree, the others are buffers and bound variables.
    inputs, outputs
        The arrays of the caller, in order.
    held
        Tensors that the function has from outside, by their buffer.
    states
        The buffers that keep a value from call to call: the function writes them, and they have a value before.
    computed
        The buffers whose values tinygrad has computed here, from constants alone.
    variables
        The integer inputs by name, also those that are lengths of inputs.
    names
        The names of arrays that are not yet used.
    """

    calls: list[UOp]
    inputs: list[Array]
    outputs: list[Array]
    held: dict[UOp, Array]
    states: set[UOp]
    computed: set[UOp]
    variables: dict[str, UOp]
    names: Names


def record(fn: Any, inputs: Mapping[str, Any], outputs: Sequence[str] | None, constants: Mapping[str, Tensor]) -> Recording:
    """Call a function, and return the kernels that it would run. Those that depend on constants alone run here, once.

    Parameters
    ----------
    fn
        The function.
    inputs
        Its tensors and bound variables, by name.
    outputs
        The names of its results.
    constants
        The names of tensors that it uses.

    Raises
    ------
    ArgumentError
        The function does what no program does.
    """
    names = Names()
    variables: dict[str, UOp] = {each.unbind()[0].expr: each.unbind()[0] for each in inputs.values() if isinstance(each, UOp)}
    for each in inputs.values():
        sides = each.shape if isinstance(each, Tensor) else ()
        variables |= {v.expr: v for side in sides if isinstance(side, UOp) for v in side.variables()}
    for name in variables:
        names.take(name)
    fresh = {name: _fresh(each) if isinstance(each, Tensor) else each for name, each in inputs.items()}
    own = [_array(each, names.take(name), each.shape) for name, each in fresh.items() if isinstance(each, Tensor)]
    before = {**constants, **held_tensors(fn)}
    if before:
        Tensor.realize(*before.values())
    others = [name for name, each in before.items() if each.device != "CPU"]
    if others:
        raise ArgumentError(
            f"tensors are on another device than tinygrad's CPU: {list_names(others)}. Move them: t.to('CPU')", argument="fn"
        )
    calls: list[UOp] = []
    view, UOp.contiguous_view = UOp.contiguous_view, lambda _: None  # type: ignore[method-assign,assignment] - arrays have no offsets
    realize.capturing.append(SimpleNamespace(add_linear=lambda linear, _: calls.extend(linear.src)))
    try:
        results = _results(fn(*fresh.values()), outputs)
        copies = {name: each.reshape(each.numel()).clone() for name, each in results.items()}
        held = {**constants, **held_tensors(fn)}
        Tensor.realize(*copies.values(), *(each for each in held.values() if each.uop.base.op is Ops.AFTER))
    finally:
        realize.capturing.clear()
        UOp.contiguous_view = view  # type: ignore[method-assign]
    seeds = {buffer_of(each) for table in (Tensor._device_seeds, Tensor._device_rng_counters) for each in table.values()}
    if any(not seeds.isdisjoint(effects(call)[1]) for call in calls):
        raise ArgumentError(
            "the function makes random numbers (Tensor.rand, dropout, a tensor whose first values are random), which a program does not "
            "have. Make them an input, or realize such a tensor before the export",
            argument="fn",
        )
    made = [_array(copies[name], names.take(name), each.shape) for name, each in results.items()]
    named: dict[UOp, Array] = {}
    for name, each in held.items():
        buffer = buffer_of(each)
        if buffer.op is Ops.BUFFER and buffer not in named and all(buffer is not array.buffer for array in own):
            shape = each.shape if each.numel() == buffer.max_numel() else (buffer.max_numel(),)
            named[buffer] = Array(buffer, names.take(name), dtype_of(each.dtype), tuple(shape))
    once, kept, states = _split(calls, {each.buffer for each in own}, {each.buffer for each in made}, named)
    if once:
        realize.run_linear(UOp(Ops.LINEAR, src=tuple(once)))
    computed = {each for call in once if call.src[0].op is Ops.SINK for each in effects(call)[0]}
    return Recording(kept, own, made, named, states, computed, variables, names)


def _split(calls: Sequence[UOp], inputs: set[UOp], outputs: set[UOp], held: Mapping[UOp, Array]) -> tuple[list[UOp], list[UOp], set[UOp]]:
    """Return the calls that depend on constants alone, the others, and the buffers that are state.

    A buffer that the function has made and still holds at its end, such as a cache that its first call makes, is state. The calls that
    fill it before any other uses it are constant.
    """
    all_effects = [(call, *effects(call)) for call in calls]
    dynamic = inputs | outputs | {each for _, written, _ in all_effects for each in written if each.is_realized}
    size = 0
    while size != len(dynamic):
        size = len(dynamic)
        for call, written, used in all_effects:
            if call.src[0].variables() or not dynamic.isdisjoint(used):
                dynamic |= written
    late = {each for each in dynamic - inputs - outputs if each in held and not each.is_realized}
    once, kept, begun = [], [], set()
    for call, _, used in all_effects:
        if call.src[0].variables() or not used.isdisjoint((dynamic - late) | begun):
            kept.append(call)
            begun |= used & late
        else:
            once.append(call)
    filled = {each for call in once for each in effects(call)[0]}
    return once, kept, {each for each in dynamic - inputs - outputs if each.is_realized or each in filled}


def effects(call: UOp) -> tuple[set[UOp], set[UOp]]:
    """Return the buffers that a call writes, and all that it uses.

    Raises
    ------
    ArgumentError
        The call is not one of a kernel or a copy, or uses a part of a buffer.
    """
    tree, buffers = call.src[0], realize.get_call_arg_uops(call)
    if tree.op not in (Ops.SINK, Ops.COPY) or any(each.op is not Ops.BUFFER for each in buffers):
        what = tree.op if tree.op not in (Ops.SINK, Ops.COPY) else next(each.op for each in buffers if each.op is not Ops.BUFFER)
        raise ArgumentError(f"the function has {what.name}, which a program does not have; it runs on one device", argument="fn")
    if tree.op is Ops.COPY:
        return {buffers[0]}, set(buffers)
    written = {each.src[0].buf_uop.arg.slot for each in tree.toposort() if each.op is Ops.STORE and each.src[0].buf_uop.op is Ops.PARAM}
    return {buffers[slot] for slot in written}, set(buffers)


def _results(value: Any, names: Sequence[str] | None) -> dict[str, Tensor]:
    """Return the results of a function by their names."""
    result = {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}
    if not result:
        several = list(value) if isinstance(value, (tuple, list)) else [value]
        result = {"y" if len(several) == 1 else f"y{number}": each for number, each in enumerate(several)}
    wrong = [type(each).__name__ for each in result.values() if not isinstance(each, Tensor)]
    if wrong or not result:
        raise ArgumentError(
            f"the function returned {wrong[0] if wrong else 'nothing'}; expected a Tensor, or several of them", argument="fn"
        )
    if names is not None and len(names) != len(result):
        raise ArgumentError(f"outputs has {len(names)} names; the function has {len(result)} results", argument="outputs")
    return dict(zip(names or result, result.values(), strict=True))


def _fresh(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and type whose elements are in a buffer of their own, without gaps."""
    size, shape = 1, tensor.shape
    for side in shape:
        size *= int(side.vmax) if isinstance(side, UOp) else side
    flat = Tensor(UOp.new_buffer("CPU", size, tensor.dtype))
    return (flat if isinstance(tensor.numel(), int) else flat.shrink(((0, tensor.numel()),))).reshape(shape)


def _array(tensor: Tensor, name: str, shape: Sequence[Any]) -> Array:
    if any(side == 0 for side in shape):
        raise ArgumentError(f"{name!r} is an empty array of shape {tuple(shape)}, which no kernel has", argument=name)
    return Array(buffer_of(tensor), name, dtype_of(tensor.dtype), tuple(map(expression, shape)))


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
    if dtype not in _DTYPES:
        raise ArgumentError(f"the function has the element type {dtype.name}, which devmod does not have", argument="fn")
    return _DTYPES[dtype]


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
    if value.op in (Ops.CAST, Ops.BITCAST):
        return expression(value.src[0])
    if value.is_bound_var:
        return value.src[0].expr
    if value.op is Ops.PARAM or value.is_variable:
        return value.expr
    if value.op in _POWERS and isinstance(amount := expression(value.src[1]), int) and (value.op is not Ops.AND or not amount & amount + 1):
        return _POWERS[value.op].format(expression(value.src[0]), amount + 1 if value.op is Ops.AND else 1 << amount)
    if value.op not in _OPERATORS:
        raise ArgumentError(f"a length or a grid has {value.op.name}, which no expression of a program has", argument="fn")
    return _OPERATORS[value.op].format(*map(expression, value.src))


# -- Names.


class Names:
    """The names of a program's arrays and numbers."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, text: str) -> str:
        """Return a name like the text that is an identifier, and that nothing else has."""
        name = re.sub(r"\W", "_", text, flags=re.ASCII)
        if not name.isidentifier() or iskeyword(name) or name in LAUNCH_KEYWORDS:
            name = f"_{name}"
        result, number = name, 1
        while result in self._taken:
            number += 1
            result = f"{name}_{number}"
        self._taken.add(result)
        return result


def held_tensors(fn: Any) -> dict[str, Tensor]:
    """Return the tensors that a function has from outside, by the names of `get_state_dict`, or of variables."""
    result: dict[str, Tensor] = {}
    for name, value in _held_values(fn, set()):
        is_named = isinstance(value, (Tensor, list, tuple, dict))
        try:
            found = get_state_dict(value, f"{name}." if is_named else "")
        except RecursionError:  # objects that refer to each other
            continue
        for key, each in found.items():
            if all(each is not known for known in result.values()):
                result[key if key not in result else f"{name}.{key}"] = each
    return result


def _held_values(fn: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(fn) in seen:
        return
    seen.add(id(fn))
    if isinstance(fn, partial):
        yield from _held_values(fn.func, seen)
        yield "", [*fn.args, *fn.keywords.values()]
    elif isinstance(fn, MethodType):
        yield "", fn.__self__
        yield from _held_values(fn.__func__, seen)
    elif isinstance(fn, FunctionType):
        codes, names = [fn.__code__], []
        for code in codes:
            names += code.co_names
            codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        cells = {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)}
        for name, value in ({name: fn.__globals__[name] for name in names if name in fn.__globals__} | cells).items():
            if isinstance(value, (FunctionType, MethodType, partial)):
                yield from _held_values(value, seen)
            elif not isinstance(value, (type, ModuleType)):
                yield name, value
    else:
        yield "", fn
