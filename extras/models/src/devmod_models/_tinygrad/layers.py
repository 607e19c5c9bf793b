"""Kernels of recurrent layers, written by hand: one launch in the place of a few for each turn.

On a processor, a thread has some sequences alone, and computes with vectors. Elsewhere a block of
threads has one sequence, and a thread some units of its state. A block does not read many weights
in each turn: then each turn is a launch, in which a block has a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tinygrad.engine import realize
from tinygrad.uop.ops import KernelInfo, UOp

from devmod_models._tinygrad.attention import merged
from devmod_models._tinygrad.products import SUM, number_text
from devmod_models._tinygrad.record import (
    Calls,
    Recording,
    Repeat,
    each_call,
    expression,
    largest,
)

#: The gates of each operator.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: The largest state, which is in the memory of a thread or a block; and the most weights that one
#: block reads in each turn.
_MOST_SIZE = 1024
_MOST_WEIGHTS = 1 << 18
#: The most blocks of an axis other than the first one: that of cuda, vulkan and webgpu.
_MOST_BLOCKS = 65535
#: The lanes of a vector, the sums of a tile, and the most sequences of a thread.
_LANES = 16
_SUMS = 8
_MOST_SEQUENCES = 4
#: The threads of a block: what each device of a kind has.
_THREADS = {"vulkan": 128}
_MOST_THREADS = 256
#: Those of a block that has a unit, whose sums they share.
_SHARING = 64
#: log2(e).
_LOG = 1.4426950408889634


class Activation(NamedTuple):
    """A function of a cell: its name in lower case, its numbers, and the limit of its argument, or
    0.
    """

    name: str
    numbers: tuple[float, ...]
    clip: float


class Layer(NamedTuple):
    """What the turns of a repeat compute.

    Attributes
    ----------
    operator
        The operator of ONNX.
    size
        The length of a state.
    turns, batch
        The positions and the sequences. In a kernel's tree, a symbolic one is an expression.
    is_reversed
        Whether the first turn has the last position.
    functions
        The activations.
    options
        The names of attributes that are set: input_forget, linear_before_reset.
    arrays
        For each array its name, its buffer, and its first element. In a kernel's tree, the buffer
        is a slot. ``states`` has a position more than the turns, ``inputs`` the product of each
        position by its weights, and ``weights`` a row for each unit of each gate. ``cells``,
        ``bias``, ``peepholes`` and ``lengths`` are those of the operator, if it has them.
    turn
        The name of the number of the turn, if a kernel has one turn; else "".
    room
        The most sequences. In a kernel's tree; the arrays of each position have room for them.
    """

    operator: str
    size: int
    turns: Any
    batch: Any
    is_reversed: bool
    functions: tuple[Activation, ...]
    options: frozenset[str]
    arrays: tuple[tuple[str, Any, int], ...]
    turn: str = ""
    room: int = 0


@dataclass(frozen=True)
class LayerInfo(KernelInfo):  # type: ignore[misc]
    """tinygrad's description of a kernel, with the layer that it computes."""

    layer: Layer | None = None


def with_layers(recording: Recording, *, for_processors: bool) -> Calls:
    """Return the calls of a recording with one in the place of those of each repeat that is a
    layer, and of the repeat itself if a kernel has all turns.
    """

    def joined(calls: Calls) -> Calls:
        result: Calls = []
        for each in calls:
            own = each
            if isinstance(each, Repeat):
                own = each._replace(calls=joined(each.calls))
                if (layer := _joined(each, recording, for_processors)) is not None:
                    own = layer
            result.append(own)
        return result

    return joined(recording.calls)


def _joined(repeat: Repeat, recording: Recording, for_processors: bool) -> UOp | Repeat | None:
    """Return the call of a repeat that is a layer, or a repeat of it; None of another one."""
    layer = repeat.layer
    if layer is None or layer.size > _MOST_SIZE:
        return None
    turn = ""
    if not for_processors:
        if largest(layer.batch) > _MOST_BLOCKS:
            return None
        if GATES[layer.operator] * layer.size**2 > _MOST_WEIGHTS:
            turn = repeat.variable
            if _resets(layer):
                return None
    calls = [*each_call(repeat.calls)]
    used = set[UOp]().union(*map(realize.get_call_arg_uops, calls))
    own = {buffer for _, buffer, _ in layer.arrays}
    # Arrays in parts are others.
    if not own <= used or not used.isdisjoint(recording.parts):
        return None
    call = merged(calls)
    slots = {buffer: slot for slot, buffer in enumerate(realize.get_call_arg_uops(call))}
    arrays = tuple((name, slots[buffer], first) for name, buffer, first in layer.arrays)
    turns = expression(layer.turns)
    batch = expression(layer.batch)
    own_layer = layer._replace(
        turns=turns, batch=batch, arrays=arrays, turn=turn, room=largest(layer.batch)
    )
    info = LayerInfo(layer=own_layer)
    call = call.replace(src=(call.src[0].replace(arg=info), *call.src[1:]))
    if turn:
        return repeat._replace(calls=[call], layer=None)
    return call


def _resets(layer: Layer) -> bool:
    """Return whether a gate changes the state that the weights of the last gate multiply."""
    return layer.operator == "GRU" and "linear_before_reset" not in layer.options


# -- The text.


class _Language(NamedTuple):
    """What differs between languages.

    Attributes
    ----------
    real, integer
        The types of numbers.
    variable, loop
        The text of a variable by its type, its name and its value; and of a loop by its variable,
        its first number, its end and its step.
    chosen
        The text of one of two numbers by the type, a condition, the number if it is true, and the
        other one.
    barrier
        What waits for the other threads of a block.
    array, number
        The declaration of an array by its type, its name, its place among the parameters, and
        whether it is written, as two texts, the second one for one that is; and of an integer by
        its name and its place.
    shared
        The declaration of an array of a block by its name and its length.
    kernel
        The text of a kernel by its name, its threads, its parameters, its arrays, and its lines.
    separator
        What is between parameters.
    """

    real: str
    integer: str
    variable: str
    loop: str
    chosen: str
    barrier: str
    array: tuple[str, str]
    number: str
    shared: str
    kernel: str
    separator: str


_OPENCL = _Language(
    "float",
    "int",
    "{0} {1} = {2};",
    "for (int {0} = {1}; {0} < {2}; {0} += {3}) {{",
    "(({1}) ? ({0})({2}) : ({0})({3}))",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    ("const __global {0}* {1}", "__global {0}* {1}"),
    "const int {0}",
    "__local float {0}[{1}];",
    "__kernel void {0}({2}) {{\n{3}\nint place = get_group_id(0);\nint own = get_group_id(1);\nint lane = get_local_id(0);\n{4}\n}}",
    ", ",
)
_CUDA = _OPENCL._replace(
    barrier="__syncthreads();",
    array=("const {0}* {1}", "{0}* {1}"),
    shared="__shared__ float {0}[{1}];",
    kernel='extern "C" __global__ void __launch_bounds__({1}) {0}({2}) {{\n{3}\n'
    "int place = blockIdx.x;\nint own = blockIdx.y;\nint lane = threadIdx.x;\n{4}\n}}",
)
_METAL = _OPENCL._replace(
    barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
    array=("device const {0}* {1}", "device {0}* {1}"),
    number="constant int& {0}",
    shared="threadgroup float {0}[{1}];",
    kernel="#include <metal_stdlib>\nusing namespace metal;\n"
    "kernel void {0}({2}, uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {{\n{3}\n"
    "int place = gid.x;\nint own = gid.y;\nint lane = lid.x;\n{4}\n}}",
)
_WGSL = _Language(
    "f32",
    "i32",
    "var {1} : {0} = {2};",
    "for (var {0} : i32 = {1}; {0} < {2}; {0} += {3}) {{",
    "select({0}({3}), {0}({2}), {1})",
    "workgroupBarrier();",
    (
        "@group(0) @binding({2}) var<storage,read> {1}: array<{0}>;",
        "@group(0) @binding({2}) var<storage,read_write> {1}: array<{0}>;",
    ),
    "@group(0) @binding({1}) var<uniform> {0}: i32;",
    "var<workgroup> {0}: array<f32, {1}>;",
    "{2}\n{3}\n@compute @workgroup_size({1}) fn {0}(@builtin(workgroup_id) group: vec3<u32>, "
    "@builtin(local_invocation_id) local: vec3<u32>) {{\n"
    "let place = i32(group.x);\nlet own = i32(group.y);\nlet lane = i32(local.x);\n{4}\n}}",
    "\n",
)


#: The languages of kinds, for texts that are not OpenCL C.
_LANGUAGES = {"cuda": _CUDA, "metal": _METAL, "webgpu": _WGSL}


class _Lines:
    """The lines of values of one type, which may be a vector.

    Parameters
    ----------
    language
        The language.
    type_
        The type.
    """

    def __init__(self, language: _Language, type_: str) -> None:
        self.lines: list[str] = []
        self._language = language
        self._type = type_

    def let(self, text: str) -> str:
        """Declare a value, and return its name."""
        name = f"v{len(self.lines)}"
        self.lines.append(self._language.variable.format(self._type, name, text))
        return name

    def chosen(self, condition: str, first: object, second: object) -> str:
        """Return the text of one of two values."""
        return self._language.chosen.format(self._type, condition, first, second)

    def applied(self, function: Activation, text: str) -> str:
        """Declare the value of an activation, and return its name."""
        x = self.let(text)
        if function.clip:
            most = number_text(function.clip)
            x = self.let(self.chosen(f"{x} < -{most}", f"-{most}", x))
            x = self.let(self.chosen(f"{x} > {most}", most, x))
        numbers = map(number_text, function.numbers)
        return self.let(_FUNCTIONS[function.name](self, x, *numbers))

    def sigmoid(self, x: str) -> str:
        return f"1.0f / (1.0f + exp2({x} * {number_text(-_LOG)}))"

    def tanh(self, x: str) -> str:
        return f"2.0f / (1.0f + exp2({x} * {number_text(-2 * _LOG)})) - 1.0f"

    def exp(self, x: str) -> str:
        return f"exp2({x} * {number_text(_LOG)})"

    def hard_sigmoid(self, x: str, alpha: str, beta: str) -> str:
        y = self.let(f"{alpha} * {x} + {beta}")
        y = self.let(self.chosen(f"{y} < 0.0f", "0.0f", y))
        return self.chosen(f"{y} > 1.0f", "1.0f", y)

    def softplus(self, x: str) -> str:
        # The exponential of a large number is infinite.
        small = self.let(self.chosen(f"{x} < 0.0f", x, f"-{x}"))
        large = self.let(self.chosen(f"{x} < 0.0f", "0.0f", x))
        return f"{large} + log2(1.0f + {self.exp(small)}) * {number_text(1 / _LOG)}"


#: The text of each activation by a value's name and the numbers.
_FUNCTIONS: dict[str, Callable[..., str]] = {
    "affine": lambda _, x, alpha, beta: f"{alpha} * {x} + {beta}",
    "elu": lambda own, x, alpha: own.chosen(f"{x} < 0.0f", f"{alpha} * ({own.exp(x)} - 1.0f)", x),
    "hardsigmoid": _Lines.hard_sigmoid,
    "leakyrelu": lambda own, x, alpha: own.chosen(f"{x} < 0.0f", f"{alpha} * {x}", x),
    "relu": lambda own, x: own.chosen(f"{x} < 0.0f", "0.0f", x),
    "scaledtanh": lambda own, x, alpha, beta: f"{alpha} * ({own.tanh(f'({beta} * {x})')})",
    "sigmoid": _Lines.sigmoid,
    "softplus": _Lines.softplus,
    "softsign": lambda own, x: f"{x} / (1.0f + {own.chosen(f'{x} < 0.0f', f'-{x}', x)})",
    "tanh": _Lines.tanh,
    "thresholdedrelu": lambda own, x, alpha: own.chosen(f"{x} > {alpha}", x, "0.0f"),
}


def _lstm(layer: Layer, own: _Lines, values: Mapping[str, str]) -> tuple[str, str]:
    f, g, last = layer.functions
    c = values["c"]

    def gate(number: int, cell: str, peephole: int) -> str:
        text = values[f"g{number}"]
        if "p0" in values:
            text += f" + {cell} * {values[f'p{peephole}']}"
        return own.applied(f, text)

    i = gate(0, c, 0)
    kept = f"(1.0f - {i})"
    if "input_forget" not in layer.options:
        kept = gate(2, c, 2)
    new = own.applied(g, values["g3"])
    cell = own.let(f"{kept} * {c} + {i} * {new}")
    if "is_within" in values:
        cell = own.let(own.chosen(values["is_within"], cell, c))
    output = gate(1, cell, 1)
    return f"{output} * {own.applied(last, cell)}", cell


def _gru(layer: Layer, own: _Lines, values: Mapping[str, str]) -> tuple[str, str]:
    f, g = layer.functions
    z = own.applied(f, values["g0"])
    new = values["g2"]
    if "linear_before_reset" in layer.options:
        new = f"{values['x2']} + {own.applied(f, values['g1'])} * {new}"
    new = own.applied(g, new)
    return f"(1.0f - {z}) * {new} + {z} * {values['h']}", ""


def _rnn(layer: Layer, own: _Lines, values: Mapping[str, str]) -> tuple[str, str]:
    return own.applied(layer.functions[0], values["g0"]), ""


#: Declare the values of a turn, and return the texts of the next state and of the next cell. The
#: values before it have names: g0 the sum of the first gate, p0 the first peephole, h the state, c
#: the cell, x2 the third gate's input, and is_within whether a sequence has the position.
_CELLS: dict[str, Callable[[Layer, _Lines, Mapping[str, str]], tuple[str, str]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}


def layer_kernel(
    layer: Layer, kind: str, name: str, *, for_processors: bool, is_opencl_c: bool
) -> dict[str, Any]:
    """Return the text and the launch of a layer, as `render` does."""
    if for_processors:
        return _Vectors(layer, name).rendered()
    language = _OPENCL if is_opencl_c else _LANGUAGES[kind]
    if layer.turn:
        return _Turn(layer, name, language, _SHARING).rendered()
    threads = min(_THREADS.get(kind, _MOST_THREADS), 1 << (layer.size - 1).bit_length())
    return _Block(layer, name, language, threads).rendered()


class _Form:
    """A kernel of a layer.

    Parameters
    ----------
    layer
        The layer, of a kernel's tree.
    name
        The name of the kernel.
    """

    def __init__(self, layer: Layer, name: str) -> None:
        self._layer = layer
        self._name = name
        self._size = layer.size
        self._first = {label: first for label, _, first in layer.arrays}
        self._gates = GATES[layer.operator]
        self._is_late = "linear_before_reset" in layer.options
        self._resets = _resets(layer)

    def _place(self) -> str:
        """Return the text of a turn's position."""
        if self._layer.is_reversed:
            return "(turns - 1 - turn)"
        return "turn"

    def _numbers(self) -> dict[str, Any]:
        """Return the positions, which may be an expression, and the sequences of each in memory."""
        return {"turns": self._layer.turns, "batch": self._layer.room}

    def _declared(self, language: _Language) -> tuple[list[str], list[str]]:
        """Return the declarations of the parameters, and of known numbers."""
        declared: list[str] = []
        for label, _, _ in self._layer.arrays:
            type_ = language.real
            if label == "lengths":
                type_ = language.integer
            text = language.array[label in ("states", "cells")]
            declared.append(text.format(type_, label, len(declared)))
        known = []
        for label, value in self._numbers().items():
            if isinstance(value, int):
                known.append(language.variable.format(language.integer, label, value))
            else:
                declared.append(language.number.format(label, len(declared)))
        return declared, known

    def _result(self, grid: list[Any], threads: int, text: str) -> dict[str, Any]:
        parameters = [[label, slot, False] for label, slot, _ in self._layer.arrays]
        for label, value in self._numbers().items():
            if not isinstance(value, int):
                parameters.append([label, -1, value])
        return {
            "grid": grid,
            "block": [threads, 1, 1],
            "text": text,
            "prefix": [],
            "parameters": parameters,
        }


class _Vectors(_Form):
    """A kernel for processors, in OpenCL C. A thread has some sequences, and its vectors have
    neighbouring units of a gate.
    """

    def rendered(self) -> dict[str, Any]:
        """Return the text and the launch, as `render` does."""
        layer = self._layer
        self._padded = -(-layer.size // _LANES) * _LANES
        self._sequences = 1
        if isinstance(layer.batch, int):
            choices = range(1, _MOST_SEQUENCES + 1)
            self._sequences = max(each for each in choices if layer.batch % each == 0)
        declared, numbers = self._declared(_OPENCL)
        lines = [*numbers, *self._start(), *self._turn(), *self._end()]
        body = "\n".join(f"  {each}" for each in lines)
        helper = SUM.format(name=f"{self._name}_sum")
        text = f"{helper}\n__kernel void {self._name}({', '.join(declared)}) {{\n{body}\n}}"
        grid = layer.batch
        if isinstance(grid, int):
            grid //= self._sequences
        return self._result([grid, 1, 1], 1, text)

    def _each(self, count: int, text: str) -> str:
        """Return a loop over the units of some gates."""
        size = self._size
        return (
            f"for (int gate = 0; gate < {count}; gate++) for (int k = 0; k < {size}; k++) {text};"
        )

    def _array(self, label: str, gates: int = 1) -> str:
        """Return the declaration of an array of all sequences. Behind its units are zeros."""
        return f"float {label}[{self._sequences * gates * self._padded}] = {{0.0f}};"

    def _start(self) -> Iterator[str]:
        size, padded, sequences = self._size, self._padded, self._sequences
        yield f"int first = (int)get_global_id(0) * {sequences};"
        yield self._array("h")
        yield self._array("gates", self._gates)
        if self._resets:
            yield self._array("changed")
        if self._is_late:
            yield self._array("inputs2")
        if "cells" in self._first:
            yield self._array("c")
        if "peepholes" in self._first:
            yield f"float p[{3 * padded}] = {{0.0f}};"
            source = f"peepholes[{self._first['peepholes']} + gate * {size} + k]"
            yield self._each(3, f"p[gate * {padded} + k] = {source}")
        for label, array in {"h": "states", "c": "cells"}.items():
            if array in self._first:
                source = f"{array}[first * {size} + gate * {size} + k]"
                yield self._each(sequences, f"{label}[gate * {padded} + k] = {source}")

    def _turn(self) -> Iterator[str]:
        size, padded, gates = self._size, self._padded, self._gates
        yield "for (int turn = 0; turn < turns; turn++) {"
        yield f"  const __global float* x = inputs + (turn * batch + first) * {gates * size};"
        if self._is_late:
            yield from self._sums(0, 2, "h", "x + bias")
            yield from self._sums(2, 3, "h", "bias")
            source = f"x[gate * {gates * size} + {2 * size} + k]"
            yield "  " + self._each(self._sequences, f"inputs2[gate * {padded} + k] = {source}")
        elif self._resets:
            yield from self._sums(0, 2, "h", "x")
            yield from self._reset()
            yield from self._sums(2, 3, "changed", "x")
        else:
            yield from self._sums(0, gates, "h", "x")
        yield f"  for (int own = 0; own < {self._sequences}; own++) {{"
        if "lengths" in self._first:
            first = self._first["lengths"]
            yield f"    if ({self._place()} < lengths[{first} + first + own]) {{"
        yield f"    for (int k = own * {padded}; k < (own + 1) * {padded}; k += {_LANES}) {{"
        own = _Lines(_OPENCL, f"float{_LANES}")
        values = {"h": own.let(_vector("h + k"))}
        for gate in range(gates):
            place = f"gates + k + (own * {gates - 1} + {gate}) * {padded}"
            values[f"g{gate}"] = own.let(_vector(place))
        if self._is_late:
            values["x2"] = own.let(_vector("inputs2 + k"))
        if "peepholes" in self._first:
            for each in range(3):
                place = f"p + k + ({each} - own) * {padded}"
                values[f"p{each}"] = own.let(_vector(place))
        if "cells" in self._first:
            values["c"] = own.let(_vector("c + k"))
        state, cell = _CELLS[self._layer.operator](self._layer, own, values)
        yield from (f"      {each}" for each in own.lines)
        if cell:
            yield f"      vstore{_LANES}({cell}, 0, c + k);"
        yield f"      vstore{_LANES}({state}, 0, h + k);"
        yield "    }"
        if "lengths" in self._first:
            yield "    }"
        target = f"states[((turn + 1) * batch + first + own) * {size} + k]"
        yield f"    for (int k = 0; k < {size}; k++) {target} = h[own * {padded} + k];"
        yield "  }"
        yield "}"

    def _reset(self) -> Iterator[str]:
        """Yield the state multiplied by the second gate."""
        padded, gates = self._padded, self._gates
        yield f"  for (int own = 0; own < {self._sequences}; own++) {{"
        yield f"    for (int k = own * {padded}; k < (own + 1) * {padded}; k += {_LANES}) {{"
        own = _Lines(_OPENCL, f"float{_LANES}")
        place = _vector(f"gates + k + (own * {gates - 1} + 1) * {padded}")
        reset = own.applied(self._layer.functions[0], place)
        yield from (f"      {each}" for each in own.lines)
        yield f"      vstore{_LANES}({reset} * {_vector('h + k')}, 0, changed + k);"
        yield "    }"
        yield "  }"

    def _sums(self, begin: int, end: int, source: str, added: str) -> Iterator[str]:
        """Yield the sums of some gates: the weights by a state, and what is added."""
        size, padded, gates = self._size, self._padded, self._gates
        rows = min(_SUMS // self._sequences, size)
        tile = [(row, own) for row in range(rows) for own in range(self._sequences)]
        lanes = f"float{_LANES}"
        yield f"  for (int gate = {begin}; gate < {end}; gate++) {{"
        yield f"    for (int unit = 0; unit < {size}; unit += {rows}) {{"
        yield f"      int row = gate * {size} + min(unit, {size - rows});"
        first = self._first["weights"]
        yield f"      const __global float* w = weights + {first} + row * {size};"
        for row, own in tile:
            yield f"      {lanes} s{row}_{own} = 0.0f;"
        whole = size // _LANES * _LANES
        yield f"      for (int k = 0; k < {whole}; k += {_LANES}) {{"
        for own in range(self._sequences):
            yield f"        {lanes} a{own} = {_vector(f'{source} + {own * padded} + k')};"
        for row in range(rows):
            yield f"        {lanes} b{row} = {_vector(f'w + {row * size} + k')};"
            for own in range(self._sequences):
                yield f"        s{row}_{own} = a{own} * b{row} + s{row}_{own};"
        yield "      }"
        for row, own in tile:
            yield f"      float t{row}_{own} = {self._name}_sum(s{row}_{own});"
        if whole < size:
            yield f"      for (int k = {whole}; k < {size}; k++) {{"
            for row, own in tile:
                product = f"w[{row * size} + k] * {source}[{own * padded} + k]"
                yield f"        t{row}_{own} += {product};"
            yield "      }"
        for row, own in tile:
            text = f"t{row}_{own}"
            if "x" in added:
                text += f" + x[{own * gates * size + row} + row]"
            if "bias" in added and "bias" in self._first:
                text += f" + bias[{self._first['bias'] + row} + row]"
            place = f"{own * gates * padded + row} + row + gate * {padded - size}"
            yield f"      gates[{place}] = {text};"
        yield "    }"
        yield "  }"

    def _end(self) -> Iterator[str]:
        if "cells" in self._first:
            size = self._size
            target = f"cells[first * {size} + gate * {size} + k]"
            yield self._each(self._sequences, f"{target} = c[gate * {self._padded} + k]")


def _vector(place: str) -> str:
    return f"vload{_LANES}(0, {place})"


class _Block(_Form):
    """A kernel in which a block of threads has one sequence. The state is in the memory of the
    block.

    Parameters
    ----------
    layer, name
        As for a `_Form`.
    language
        The language.
    threads
        The threads of a block.
    """

    def __init__(self, layer: Layer, name: str, language: _Language, threads: int) -> None:
        super().__init__(layer, name)
        self._language = language
        self._threads = threads

    def rendered(self) -> dict[str, Any]:
        """Return the text and the launch, as `render` does."""
        language = self._language
        size = self._size
        declared, lines = self._declared(language)
        labels = ["h", "next"]
        given = {"h": "states"}
        if "cells" in self._first:
            labels.append("c")
            given["c"] = "cells"
        if self._resets:
            labels.append("z")
        for label, array in given.items():
            lines += self._each([f"{label}[unit] = {array}[own * {size} + unit];"])
        lines.append(language.barrier)
        lines.append(language.loop.format("turn", 0, "turns", 1))
        lines.append(self._integer("x", f"(turn * batch + own) * {self._gates * size}"))
        if self._resets:
            lines += self._each(self._reset())
            lines.append(language.barrier)
            lines += self._each(self._next("h"))
        else:
            lines += self._each(self._next("next"))
            lines.append(language.barrier)
            lines += self._each(["h[unit] = next[unit];"])
        lines += [language.barrier, "}"]
        if "cells" in self._first:
            lines += self._each([f"cells[own * {size} + unit] = c[unit];"])
        return self._kernel(declared, dict.fromkeys(labels, size), lines, 1)

    def _kernel(
        self,
        declared: Iterable[str],
        shared: Mapping[str, int],
        lines: Iterable[str],
        blocks: int,
    ) -> dict[str, Any]:
        """Return the text and the launch of lines, with so many blocks for each sequence."""
        language = self._language
        text = language.kernel.format(
            self._name,
            self._threads,
            language.separator.join(declared),
            "\n".join(language.shared.format(*each) for each in shared.items()),
            "\n".join(lines),
        )
        return self._result([blocks, self._layer.batch, 1], self._threads, text)

    def _integer(self, name: str, text: str) -> str:
        return self._language.variable.format(self._language.integer, name, text)

    def _number(self, name: str, text: str) -> str:
        return self._language.variable.format(self._language.real, name, text)

    def _each(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield a loop over the units of a thread."""
        yield self._language.loop.format("unit", "lane", self._size, self._threads)
        yield from (f"  {each}" for each in lines)
        yield "}"

    def _sums(self, gates: Sequence[int], source: str) -> Iterator[str]:
        """Yield the sums of some gates: the weights by a state, and what is added."""
        size = self._size
        for gate in gates:
            yield from self._added(gate, "0.0f")
            place = f"{gate * size} + unit"
            yield self._integer(f"w{gate}", f"{self._first['weights']} + ({place}) * {size}")
        yield self._language.loop.format("k", 0, size, 1)
        for gate in gates:
            yield f"  g{gate} += weights[w{gate} + k] * {source}[k];"
        yield "}"

    def _added(self, gate: int, text: str) -> Iterator[str]:
        """Yield the declaration of a gate's sum: a text, the input, and the bias."""
        place = f"{gate * self._size} + unit"
        added = f"inputs[x + {place}]"
        if self._is_late and gate == 2:
            yield self._number("x2", added)
        else:
            text += f" + {added}"
        if "bias" in self._first:
            text += f" + bias[{self._first['bias']} + {place}]"
        yield self._number(f"g{gate}", text)

    def _reset(self) -> Iterator[str]:
        """Yield the first gate of a unit, and its state multiplied by the second one."""
        yield from self._sums([0, 1], "h")
        own = _Lines(self._language, self._language.real)
        reset = own.applied(self._layer.functions[0], "g1")
        yield from own.lines
        yield "z[unit] = g0;"
        yield f"next[unit] = {reset} * h[unit];"

    def _next(self, target: str) -> Iterator[str]:
        """Yield the next state of a unit, and its next cell."""
        values = {f"g{gate}": f"g{gate}" for gate in range(self._gates)}
        if self._resets:
            values["g0"] = "z[unit]"
            yield from self._sums([2], "next")
        else:
            yield from self._sums(range(self._gates), "h")
        yield from self._cell({**values, "h": "h[unit]", "c": "c[unit]"}, target)

    def _cell(self, values: dict[str, str], target: str) -> Iterator[str]:
        """Yield the next state of a unit, and its next cell. `values` has the sums of gates, the
        state and the cell. `target` is another array that gets the state, or "".
        """
        size = self._size
        values["x2"] = "x2"
        if "peepholes" in self._first:
            for each in range(3):
                place = self._first["peepholes"] + each * size
                values[f"p{each}"] = f"peepholes[{place} + unit]"
        if "lengths" in self._first:
            own_length = f"lengths[{self._first['lengths']} + own]"
            values["is_within"] = f"{self._place()} < {own_length}"
        own = _Lines(self._language, self._language.real)
        state, cell = _CELLS[self._layer.operator](self._layer, own, values)
        state = own.let(state)
        if "is_within" in values:
            state = own.let(own.chosen(values["is_within"], state, values["h"]))
        yield from own.lines
        if cell:
            yield f"{values['c']} = {cell};"
        if target:
            yield f"{target}[unit] = {state};"
        yield f"states[((turn + 1) * batch + own) * {size} + unit] = {state};"


class _Turn(_Block):
    """A kernel of one turn. A block has a unit of a sequence, and each of its threads a part of the
    sums.
    """

    def _numbers(self) -> dict[str, Any]:
        return {**super()._numbers(), "turn": self._layer.turn}

    def rendered(self) -> dict[str, Any]:
        """Return the text and the launch, as `render` does."""
        language = self._language
        size = self._size
        threads = self._threads
        declared, lines = self._declared(language)
        lines.append(self._integer("unit", "place"))
        lines.append(self._integer("x", f"(turn * batch + own) * {self._gates * size}"))
        lines.append(self._integer("h", f"(turn * batch + own) * {size}"))
        gates = range(self._gates)
        for gate in gates:
            lines.append(self._number(f"s{gate}", "0.0f"))
            row = f"{self._first['weights']} + ({gate * size} + unit) * {size}"
            lines.append(self._integer(f"w{gate}", row))
        lines.append(language.loop.format("k", "lane", size, threads))
        for gate in gates:
            lines.append(f"  s{gate} += weights[w{gate} + k] * states[h + k];")
        lines.append("}")
        lines += (f"sums[{gate * threads} + lane] = s{gate};" for gate in gates)
        lines.append(language.barrier)
        half = threads // 2
        while half:
            lines.append(f"if (lane < {half}) {{")
            for gate in gates:
                place = f"{gate * threads} + lane"
                lines.append(f"  sums[{place}] += sums[{place} + {half}];")
            lines += ["}", language.barrier]
            half //= 2
        lines.append("if (lane == 0) {")
        for gate in gates:
            lines += self._added(gate, f"sums[{gate * threads}]")
        values = {f"g{gate}": f"g{gate}" for gate in gates}
        values |= {"h": "states[h + unit]", "c": f"cells[own * {size} + unit]"}
        lines += [*self._cell(values, ""), "}"]
        return self._kernel(declared, {"sums": self._gates * threads}, lines, size)
