"""Operators of ONNX that run a cell for each position of a sequence: LSTM, GRU, RNN and
DynamicQuantizeLSTM.

The cell is recorded once, as a repeat. Its state is in the array of the results, which has one
position more: each turn reads a position and writes the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import onnx_ops

from devmod.errors import CompileError
from devmod_models._tinygrad.layers import Activation, Layer
from devmod_models._tinygrad.record import buffer_of, largest, recording

__all__ = ["OPERATORS"]

#: ONNX's activations: functions of a tensor and of their numbers, whose defaults follow: of alpha,
#: or of alpha and beta.
_ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "affine": (lambda x, alpha, beta: x * alpha + beta, 1.0, 0.0),
    "elu": (Tensor.elu, 1.0),
    "hardsigmoid": (Tensor.hardsigmoid, 0.2, 0.5),
    "leakyrelu": (Tensor.leaky_relu, 0.01),
    "relu": (Tensor.relu,),
    "scaledtanh": (lambda x, alpha, beta: (x * beta).tanh() * alpha, 1.0, 1.0),
    "sigmoid": (Tensor.sigmoid,),
    "softplus": (Tensor.softplus,),
    "softsign": (Tensor.softsign,),
    "tanh": (Tensor.tanh,),
    "thresholdedrelu": (onnx_ops["ThresholdedRelu"], 1.0),
}
#: For each direction whether it begins at the end.
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
#: The attributes that change what a kernel of a whole layer computes.
_OPTIONS = ("input_forget", "linear_before_reset")
#: Multiplies rows by the weights of a direction, whose number is first.
_Product = Callable[[int, Tensor], Tensor]


class _Direction(NamedTuple):
    """What a cell knows of its direction.

    Attributes
    ----------
    number
        Its number.
    functions
        Its activations.
    bias
        The bias of the states, if the cell adds it.
    position
        The position of the turn, of each sequence or of all.
    lengths
        The length of each sequence; None: all positions.
    """

    number: int
    functions: list[Callable[[Tensor], Tensor]]
    bias: Any
    position: Tensor
    lengths: Tensor | None

    def keep(self, new: Tensor, old: Tensor) -> Tensor:
        """Return the new value where a sequence has the position, and else the old one."""
        if self.lengths is None:
            return new
        return (self.position < self.lengths.reshape(-1, 1)).where(new, old)

    def without_ended(self, state: Tensor) -> Tensor:
        """Return a state with zeros where a sequence had no position in the turn before."""
        if self.lengths is None:
            return state
        return (self.position <= self.lengths.reshape(-1, 1)).where(state, 0)


class _Known(NamedTuple):
    """What a kernel of a whole layer needs of a node.

    Attributes
    ----------
    operator
        The operator of ONNX.
    arrays
        The weights of the states, and the peepholes if there are some: those of all directions,
        each in a buffer of its own.
    """

    operator: str
    arrays: dict[str, Tensor]

    def layer(
        self,
        number: int,
        functions: tuple[Activation, ...],
        options: dict[str, Any],
        is_reversed: bool,
        bias: Tensor | None,
        **arrays: Any,
    ) -> Layer:
        """Return the description of a direction. `arrays` has those of this direction alone."""
        places = []
        for name, each in arrays.items():
            if each is not None:
                places.append((name, buffer_of(each), 0))
        of_all = {**self.arrays}
        if bias is not None and options.get("linear_before_reset"):
            of_all["bias"] = bias
        gates, size = self.arrays["weights"].shape[1:]
        for name, each in of_all.items():
            first = number * prod(each.shape[1:])
            if name == "bias":  # of the states, behind that of the inputs
                first += gates
            places.append((name, buffer_of(each), first))
        turns, batch, _ = arrays["inputs"].shape
        return Layer(
            self.operator,
            size,
            turns,
            batch,
            is_reversed,
            functions,
            frozenset(name for name in _OPTIONS if options.get(name)),
            tuple(places),
        )


def _layer(
    cell: Callable[..., Tensor],
    of_inputs: _Product,
    x: Tensor,
    size: int,
    functions: Sequence[str],
    options: dict[str, Any],
    known: _Known | None,
    bias: Any = None,
    lengths: Any = None,
    *initial: Any,
) -> tuple[Tensor, ...]:
    """Return the results of a node: the states of its directions behind all positions, and the last
    ones.

    Parameters
    ----------
    cell
        Returns the next state for a direction, its inputs at a position, and the state. It assigns
        the next value of other states, which follow.
    of_inputs
        The product by the weights of the inputs.
    x
        The sequences: positions, batch, features; with the option `layout`, batch first.
    size
        The length of a state.
    functions
        The default activations of one direction.
    options
        The attributes.
    known
        What a kernel of the whole layer needs; None if there is none.
    bias
        The biases of each direction: of the inputs, then of the states.
    lengths
        The length of each sequence; None: all positions.
    initial
        The first states; None: zeros.
    """
    name = options.get("direction", "forward")
    if name not in _DIRECTIONS:
        raise CompileError(f"the direction {name!r} is unknown")
    directions = _DIRECTIONS[name]
    activations = _functions(options, functions, len(directions))
    is_batch_first = options.get("layout", 0)
    if is_batch_first:
        x = x.transpose(0, 1)
    length = x.shape[0]
    most = largest(length)
    shape = (len(directions), x.shape[1], size)
    firsts = [_first(each, shape, x.dtype, is_batch_first) for each in initial or (None,)]
    bias = _whole(bias)
    lengths = _whole(lengths)
    ends = lengths if options.get("is_quantized") else None

    def run(number: int) -> tuple[Tensor, ...]:
        is_reversed = directions[number]
        inputs = of_inputs(number, x)
        positions = Tensor.arange(most)[:length].reshape(-1, 1)
        other: Any = 0
        if bias is not None:
            own, other = bias[number].chunk(2)
            inputs = inputs + own
        if not options.get("linear_before_reset"):
            inputs = inputs + other
        ordered = _order(is_reversed, positions, ends)
        is_flipped = is_reversed and ends is None
        if is_flipped:
            positions = positions.flip(0)
        inputs = ordered(inputs)
        states = Tensor.empty(most + 1, *firsts[0].shape[1:], dtype=x.dtype)
        with recording() as tape:
            others = [copied(each[number]) for each in firsts[1:]]
            inputs = inputs.contiguous()
            positions = positions.contiguous()
            Tensor.realize(inputs, positions)
            write(states, 0, firsts[0][number])
            layer = None
            if known is not None and inputs.dtype == states.dtype == dtypes.float32:
                arrays = {"states": states, "inputs": inputs, "lengths": lengths}
                arrays |= dict(zip(["cells"], others, strict=False))
                own = tuple(activations[number])
                layer = known.layer(number, own, options, is_flipped, bias, **arrays)
            callables = list(map(_function, activations[number]))
            with tape.repeat(length, layer) as turn:
                direction = _Direction(number, callables, other, at(positions, turn), lengths)
                state = at(states, turn)
                new = cell(direction, at(inputs, turn), state, *others)
                write(states, turn + 1, direction.keep(new, state))

        last = [at(states, length), *others]
        y, *last = _within(lengths, positions, states[1 : length + 1], *last)
        return ordered(y), *last

    first, *last = zip(*map(run, range(len(directions))), strict=True)
    y = Tensor.stack(*first, dim=1)
    stacked = [Tensor.stack(*each) for each in last]
    if is_batch_first:
        y = y.permute(2, 0, 1, 3)
        stacked = [each.transpose(0, 1) for each in stacked]
    return (y, *stacked)


def _first(given: Any, shape: Sequence[Any], dtype: Any, is_batch_first: bool) -> Tensor:
    """Return the first states of all directions: zeros if none are given."""
    if given is None:
        return Tensor.zeros(*shape, dtype=dtype)
    if is_batch_first:
        given = given.transpose(0, 1)
    return given


def _functions(
    options: dict[str, Any], defaults: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Return the activations of each direction."""
    names = [*defaults] * directions
    if options.get("activations"):
        names = [each.lower() for each in options["activations"]]
    count = len(defaults)
    if len(names) != count * directions:
        raise CompileError(f"it has {len(names)} activations; expected {count * directions}")
    # Each number of a list is that of the next function that has one.
    given = [iter(options.get(f"activation_{each}", ())) for each in ("alpha", "beta")]
    result: list[list[Activation]] = []
    for place, name in enumerate(names):
        if name not in _ACTIVATIONS:
            raise CompileError(f"the activation {name!r} is unknown")
        _, *numbers = _ACTIVATIONS[name]
        own = [next(values, number) for values, number in zip(given, numbers, strict=False)]
        # The third function, of an LSTM, gets the state as it is.
        clip = 0.0
        if place % count < 2:
            clip = options.get("clip", 0.0)
        if not place % count:
            result.append([])
        result[-1].append(Activation(name, tuple(own), clip))
    return result


def _function(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function of a tensor, whose elements are clipped first unless the limit is 0."""
    name, numbers, clip = activation
    function = _ACTIVATIONS[name][0]
    if not clip:
        return lambda x: function(x, *numbers)
    return lambda x: function(x.clamp(-clip, clip), *numbers)


def _within(
    lengths: Tensor | None, positions: Tensor, y: Tensor, *last: Tensor
) -> tuple[Tensor, ...]:
    """Return the states behind all positions, and the last ones, with zeros where there are none.
    As in onnxruntime, a sequence without positions has no last state.
    """
    if lengths is None:
        return (y, *last)
    y = (positions.unsqueeze(2) < lengths.reshape(1, -1, 1)).where(y, 0)
    has_positions = (lengths > 0).reshape(-1, 1)
    return (y, *(has_positions.where(each, 0) for each in last))


def _order(is_reversed: bool, positions: Tensor, ends: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Return what gives sequences the order of the turns, and results that of the positions. With
    the ends of sequences, the first turn has these; else it has the last position.
    """
    if not is_reversed:
        return lambda rows: rows
    if ends is None:
        return lambda rows: rows.flip(0)
    ends = ends.reshape(1, -1)
    sources = (positions < ends).where(ends - 1 - positions, positions).unsqueeze(1)
    is_source = (sources == positions.unsqueeze(0)).unsqueeze(3)
    return lambda rows: is_source.where(rows.unsqueeze(0), 0).sum(1)


def at(tensor: Tensor, place: Any) -> Tensor:
    """Return the part of a tensor at a position of its first dimension."""
    return tensor[place : place + 1].reshape(tensor.shape[1:])


def write(tensor: Tensor, place: Any, value: Tensor) -> None:
    """Write the part of a tensor at a position of its first dimension."""
    tensor[place : place + 1].assign(value.reshape(1, *value.shape).cast(tensor.dtype))
    tensor.realize()


def copied(value: Tensor) -> Tensor:
    """Return a copy that turns may assign."""
    return value.empty_like().assign(value).realize()


def _whole(tensor: Any) -> Any:
    """Return a tensor whose elements are in a buffer of their own, in their order, or None."""
    if tensor is None or tensor.uop.has_buffer_identity(after_ok=True):
        return tensor
    result = tensor.contiguous()
    with recording():
        Tensor.realize(result)
    return result


def _product(weights: Tensor) -> _Product:
    return lambda number, rows: rows @ weights[number].transpose(0, 1)


def _lstm(x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    r = _whole(r)
    return _lstm_of(x, _product(w), _product(r), r.shape[2], options, {"weights": r}, *inputs)


def _lstm_of(
    x: Tensor,
    of_inputs: _Product,
    of_states: _Product,
    size: int,
    options: dict[str, Any],
    arrays: dict[str, Tensor],
    bias: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
) -> tuple[Tensor, ...]:
    """Return the results of an LSTM with the products by the weights of the inputs and of the
    states. `arrays` has the latter; it has none if they are no floats.
    """
    known = None
    if arrays:
        known = _Known("LSTM", arrays)
        peepholes = _whole(peepholes)
        if peepholes is not None:
            arrays["peepholes"] = peepholes

    def cell(own: _Direction, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        f, g, last = own.functions
        places: Any = (0, 0, 0)
        if peepholes is not None:
            places = peepholes[own.number].reshape(3, size)
        for_input, for_output, for_forget = places
        counted = h
        if options.get("has_states"):
            counted = own.without_ended(h)
        gates = (x + of_states(own.number, counted)).contiguous().realize()
        input_, output, forget, new = gates.chunk(4, dim=-1)
        i = f(input_ + c * for_input)
        kept = 1 - i
        if not options.get("input_forget"):
            kept = f(forget + c * for_forget)
        c.assign(own.keep(kept * c + i * g(new), c)).realize()
        return f(output + c * for_output) * last(c)

    functions = ("sigmoid", "tanh", "tanh")
    initial = (initial_h, initial_c)
    return _layer(cell, of_inputs, x, size, functions, options, known, bias, lengths, *initial)


def _gru(x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    size = r.shape[2]
    both = 2 * size
    r = _whole(r)
    known = _Known("GRU", {"weights": r})

    def cell(own: _Direction, x: Tensor, h: Tensor) -> Tensor:
        f, g = own.functions
        weights = r[own.number].transpose(0, 1)
        if options.get("linear_before_reset"):
            sums = (h @ weights + own.bias).contiguous().realize()
            z, reset = f(x[:, :both] + sums[:, :both]).chunk(2, dim=-1)
            new = x[:, both:] + reset * sums[:, both:]
        else:
            gates = f(x[:, :both] + h @ weights[:, :both])
            z, reset = gates.contiguous().realize().chunk(2, dim=-1)
            new = x[:, both:] + (reset * h) @ weights[:, both:]
        return (1 - z) * g(new) + z * h

    return _layer(cell, _product(w), x, size, ("sigmoid", "tanh"), options, known, *inputs)


def _rnn(x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    r = _whole(r)
    known = _Known("RNN", {"weights": r})
    of_states = _product(r)

    def cell(own: _Direction, x: Tensor, h: Tensor) -> Tensor:
        (f,) = own.functions
        return f(x + of_states(own.number, h))

    return _layer(cell, _product(w), x, r.shape[2], ("tanh",), options, known, *inputs)


def quantized(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers of 0 to 255 for rows, which are quantized together by their least and their
    largest number; the scale, and the number of zero. All are floats.

    The least and the largest number are computed once: a kernel that uses them would compute them
    again for each of its elements.
    """
    rows = rows.contiguous()
    least = rows.min().minimum(0).contiguous()
    most = rows.max().maximum(0).contiguous()
    with recording():
        Tensor.realize(rows, least, most)
    scale = (most - least) / 255
    scale = (scale == 0).where(1, scale)
    zero = (-least / scale).round().clamp(0, 255)
    return ((rows / scale).round() + zero).clamp(0, 255), scale, zero


def quantized_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the steps of quantized rows for a product, and their scale: once, and not for each
    column.
    """
    numbers, scale, zero = quantized(rows)
    steps = (numbers - zero).contiguous()
    with recording():
        Tensor.realize(steps)
    return steps, scale


def _quantized_product(weights: Tensor, scale: Tensor, zero: Tensor) -> _Product:
    """Return the product by quantized weights of rows, which are quantized, too."""

    def product(number: int, rows: Tensor) -> Tensor:
        columns = weights[number].cast(dtypes.float32) - zero[number].cast(dtypes.float32)
        steps, step = quantized_rows(rows)
        return (steps @ columns) * (step * scale[number])

    return product


def _dynamic_quantize_lstm(
    x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any
) -> tuple[Tensor, ...]:
    """Microsoft's. Its weights are transposed, and have a scale for all or for each column.

    Its page leaves open what is quantized together. onnxruntime takes the inputs up to the longest
    sequence, and the states of a turn, of which a sequence that has ended has the result, 0. If
    nothing reads the results of the turns, it has its last state. Each thread of onnxruntime takes
    the rows of its own: this is what one thread computes.
    """
    bias, lengths, *others, w_scale, w_zero, r_scale, r_zero = inputs
    if lengths is not None:
        positions = Tensor.arange(largest(x.shape[0]))[: x.shape[0]].reshape(-1, 1, 1)
        x = (positions < lengths.max()).where(x, 0)
    options["is_quantized"] = True
    of_inputs = _quantized_product(w, w_scale, w_zero)
    of_states = _quantized_product(r, r_scale, r_zero)
    return _lstm_of(x, of_inputs, of_states, r.shape[1], options, {}, bias, lengths, *others)


OPERATORS: dict[str, Any] = {
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "GRU": _gru,
    "LSTM": _lstm,
    "RNN": _rnn,
}
