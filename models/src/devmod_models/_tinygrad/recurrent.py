"""Operators of ONNX that run a cell for each position of a sequence: LSTM, GRU, RNN and
DynamicQuantizeLSTM.

The cell is recorded once, as a repeat. Its state is in the array of the results, which has one
position more: each turn reads a position and writes the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import onnx_ops

from devmod.errors import CompileError
from devmod_models._tinygrad.record import largest, recording

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
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
#: Multiplies rows by the weights of a direction.
_Product = Callable[[Tensor], Tensor]
#: Returns the new value where a sequence has the position, and else the old one.
_Keep = Callable[[Tensor, Tensor], Tensor]


class _Layer:
    """A node.

    Parameters
    ----------
    x
        The sequences: positions, batch, features; with `layout` 1, batch first.
    size
        The length of a state.
    functions
        The default activations of one direction.
    options
        The attributes.
    bias
        The biases of each direction: of the inputs, then of the states.
    lengths
        The length of each sequence; None: all positions.
    initial
        The first states.

    Attributes
    ----------
    x
        The sequences, positions first.
    reversed
        For each direction whether it begins at the end.
    functions
        The activations of each direction.
    """

    def __init__(
        self,
        x: Tensor,
        size: int,
        functions: Sequence[str],
        options: dict[str, Any],
        bias: Any = None,
        lengths: Any = None,
        initial: Any = None,
    ) -> None:
        self.layout = options.get("layout", 0)
        if self.layout:
            x = x.transpose(0, 1)
        self.x = x
        direction = options.get("direction", "forward")
        if direction not in _DIRECTIONS:
            raise CompileError(f"the direction {direction!r} is unknown")
        self.reversed = _DIRECTIONS[direction]
        self.size = size
        self.clip = float(options.get("clip", 0.0))
        self.functions = _functions(options, functions, len(self.reversed))
        self.length = x.shape[0]
        self._most = largest(self.length)
        self._bias = bias
        self._lengths = lengths
        self._initial = initial

    def biases(self, number: int) -> Any:
        """Return the biases of the inputs and of the states of a direction; zeros without some."""
        if self._bias is None:
            return 0, 0
        return self._bias[number].chunk(2)

    def clipped(self, x: Tensor) -> Tensor:
        """Return what an activation gets."""
        if not self.clip:
            return x
        return x.clamp(-self.clip, self.clip)

    def first(self, initial: Any, number: int) -> Any:
        """Return the first state of a direction."""
        if initial is None:
            return Tensor.zeros(self.x.shape[1], self.size, dtype=self.x.dtype)
        if self.layout:
            initial = initial.transpose(0, 1)
        return initial[number]

    def run(
        self,
        number: int,
        inputs: Tensor,
        cell: Callable[[Tensor, Tensor, _Keep], Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Run the cell of a direction, and return its states behind all positions, and the last
        one.

        Parameters
        ----------
        number
            The direction.
        inputs
            What the cell gets of each position.
        cell
            Returns the next state for the inputs of a position and the state.
        """
        is_reversed = self.reversed[number]
        length = self.length
        first = self.first(self._initial, number)
        states = Tensor.empty(self._most + 1, *first.shape, dtype=first.dtype)
        positions = Tensor.arange(self._most).reshape(-1, 1).contiguous()
        with recording() as tape:
            Tensor.realize(inputs := inputs.contiguous(), positions)
            start = length if is_reversed else 0
            write(states, start, first)
            with tape.repeat(length) as turn:
                place = turn
                before = turn
                after = turn + 1
                if is_reversed:
                    before = length - turn
                    place = before - 1
                    after = place

                def keep(new: Tensor, old: Tensor) -> Tensor:
                    if self._lengths is None:
                        return new
                    return (at(positions, place) < self._lengths.reshape(-1, 1)).where(new, old)

                state = at(states, before)
                write(states, after, cell(at(inputs, place), state, keep))

        if is_reversed:
            return self._masked(states[:length]), at(states, 0)
        return self._masked(states[1 : length + 1]), at(states, length)

    def _masked(self, states: Tensor) -> Tensor:
        """Return zeros behind the end of each sequence."""
        if self._lengths is None:
            return states
        positions = Tensor.arange(self._most)[: self.length].reshape(-1, 1, 1)
        return (positions < self._lengths.reshape(1, -1, 1)).where(states, 0)

    def results(self, direction: Callable[[int], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Return the results of the node: the states of its directions behind all positions, and
        the last ones. `direction` returns those of a direction.
        """
        first, *last = zip(*map(direction, range(len(self.reversed))), strict=True)
        y = Tensor.stack(*first, dim=1)
        ends = [Tensor.stack(*each) for each in last]
        if self.layout:
            y = y.permute(2, 0, 1, 3)
            ends = [each.transpose(0, 1) for each in ends]
        return (y, *ends)


def _functions(
    options: dict[str, Any], defaults: Sequence[str], directions: int
) -> list[list[Callable[[Tensor], Tensor]]]:
    """Return the activations of each direction."""
    names = [*defaults] * directions
    if options.get("activations"):
        names = [each.lower() for each in options["activations"]]
    count = len(defaults)
    if len(names) != count * directions:
        raise CompileError(f"it has {len(names)} activations; expected {count * directions}")
    # Each number of a list is that of the next function that has one.
    given = [list(options.get(f"activation_{each}", ())) for each in ("alpha", "beta")]
    functions = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise CompileError(f"the activation {name!r} is unknown")
        function, *numbers = _ACTIVATIONS[name]
        for place in range(len(numbers)):
            if given[place]:
                numbers[place] = given[place].pop(0)
        functions.append(_with_numbers(function, numbers))
    return [functions[number * count :][:count] for number in range(directions)]


def _with_numbers(function: Any, numbers: Sequence[float]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(x, *numbers)


def at(tensor: Tensor, place: Any) -> Tensor:
    """Return the part of a tensor at a position of its first dimension."""
    return tensor[place : place + 1].reshape(tensor.shape[1:])


def write(tensor: Tensor, place: Any, value: Tensor) -> None:
    """Write the part of a tensor at a position of its first dimension."""
    tensor[place : place + 1].assign(value.reshape(1, *value.shape).cast(tensor.dtype))
    tensor.realize()


def _product(weights: Tensor) -> _Product:
    return lambda rows: rows @ weights.transpose(0, 1)


def _lstm(x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    products = [(_product(w[number]), _product(r[number])) for number in range(w.shape[0])]
    return _lstm_of(x, products, r.shape[2], options, *inputs)


def _lstm_of(
    x: Tensor,
    products: Sequence[tuple[_Product, _Product]],
    size: int,
    options: dict[str, Any],
    bias: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
) -> tuple[Tensor, ...]:
    """Return the results of an LSTM, with the products of each direction by the weights of the
    inputs and of the states.
    """
    functions = ("sigmoid", "tanh", "tanh")
    layer = _Layer(x, size, functions, options, bias, lengths, initial_h)
    has_one_gate = options.get("input_forget")

    def direction(number: int) -> tuple[Tensor, ...]:
        of_inputs, of_states = products[number]
        own, other = layer.biases(number)
        f, g, last = layer.functions[number]
        places: Any = (0, 0, 0)
        if peepholes is not None:
            places = peepholes[number].reshape(3, size)
        for_input, for_output, for_forget = places
        first_c = layer.first(initial_c, number)
        c = first_c.empty_like()

        def cell(x: Tensor, h: Tensor, keep: _Keep) -> Tensor:
            gates = (x + of_states(h)).contiguous().realize()
            input_, output, forget, new = gates.chunk(4, dim=-1)
            i = f(layer.clipped(input_ + c * for_input))
            kept = 1 - i
            if not has_one_gate:
                kept = f(layer.clipped(forget + c * for_forget))
            c.assign(keep(kept * c + i * g(layer.clipped(new)), c)).realize()
            o = f(layer.clipped(output + c * for_output))
            return keep(o * last(c), h)

        with recording():
            c.assign(first_c).realize()
            inputs = of_inputs(layer.x) + own + other
            return *layer.run(number, inputs, cell), c

    return layer.results(direction)


def _gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    *inputs: Any,
    linear_before_reset: int = 0,
    **options: Any,
) -> tuple[Tensor, ...]:
    layer = _Layer(x, r.shape[2], ("sigmoid", "tanh"), options, *inputs)
    both = 2 * layer.size

    def direction(number: int) -> tuple[Tensor, ...]:
        own, other = layer.biases(number)
        weights = r[number].transpose(0, 1)
        f, g = layer.functions[number]

        def cell(x: Tensor, h: Tensor, keep: _Keep) -> Tensor:
            if linear_before_reset:
                sums = (h @ weights + other).contiguous().realize()
                gates = f(layer.clipped(x[:, :both] + sums[:, :both]))
                z, reset = gates.chunk(2, dim=-1)
                new = x[:, both:] + reset * sums[:, both:]
            else:
                gates = f(layer.clipped(x[:, :both] + h @ weights[:, :both]))
                z, reset = gates.contiguous().realize().chunk(2, dim=-1)
                new = x[:, both:] + (reset * h) @ weights[:, both:]
            return keep((1 - z) * g(layer.clipped(new)) + z * h, h)

        inputs = layer.x @ w[number].transpose(0, 1) + own
        if not linear_before_reset:
            inputs = inputs + other
        return layer.run(number, inputs, cell)

    return layer.results(direction)


def _rnn(x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    layer = _Layer(x, r.shape[2], ("tanh",), options, *inputs)

    def direction(number: int) -> tuple[Tensor, ...]:
        own, other = layer.biases(number)
        of_states = _product(r[number])
        (f,) = layer.functions[number]

        def cell(x: Tensor, h: Tensor, keep: _Keep) -> Tensor:
            return keep(f(layer.clipped(x + of_states(h))), h)

        inputs = layer.x @ w[number].transpose(0, 1) + own + other
        return layer.run(number, inputs, cell)

    return layer.results(direction)


def _quantized_product(weights: Tensor, scale: Tensor, zero: Tensor) -> _Product:
    """Return the product by quantized weights of rows, which are quantized together by their least
    and their largest number.
    """
    columns = weights.cast(dtypes.float32) - zero.cast(dtypes.float32)

    def product(rows: Tensor) -> Tensor:
        least = rows.min().minimum(0)
        step = (rows.max().maximum(0) - least) / 255
        step = (step == 0).where(1, step)
        shift = (-least / step).round().clamp(0, 255)
        numbers = ((rows / step).round() + shift).clamp(0, 255) - shift
        return (numbers @ columns) * (step * scale)

    return product


def _dynamic_quantize_lstm(
    x: Tensor, w: Tensor, r: Tensor, *inputs: Any, **options: Any
) -> tuple[Tensor, ...]:
    """Microsoft's. Its weights are transposed, and have a scale for all or for each column."""
    *others, w_scale, w_zero, r_scale, r_zero = inputs
    products = []
    for number in range(w.shape[0]):
        of_inputs = _quantized_product(w[number], w_scale[number], w_zero[number])
        of_states = _quantized_product(r[number], r_scale[number], r_zero[number])
        products.append((of_inputs, of_states))
    return _lstm_of(x, products, r.shape[1], options, *others)


OPERATORS: dict[str, Any] = {
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "GRU": _gru,
    "LSTM": _lstm,
    "RNN": _rnn,
}
