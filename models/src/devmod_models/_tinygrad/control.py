"""ONNX's control flow where what it decides is known at the export: If, Loop and Scan.

A loop is recorded once, as a repeat, or its turns stand one behind the other, where a turn has
other shapes than the one before, or reads the number of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from tinygrad import Tensor, dtypes

from devmod.errors import CompileError
from devmod_models._tinygrad.record import depends, largest, reading, recording
from devmod_models._tinygrad.recurrent import at, write
from devmod_models.onnx import Graph, Node

__all__ = ["CONTROL"]

#: The most turns that stand one behind the other.
_MOST_TURNS = 256


def _number(runner: Any, name: str, what: str) -> Any:
    """Return a number that is known: an int, a bool, or a length of a call."""
    value = runner.graph_values[name]
    if isinstance(value, np.ndarray):
        return value.item()
    if not isinstance(value, Tensor):
        return value

    def decide() -> Any:
        if depends(value, runner.buffers) or value.uop.variables():
            raise CompileError(
                f"{what} depends on the data of an input or on the turn, and no program has that"
            )
        with reading():
            return value.reshape(()).item()

    return runner.decided((name, None), decide)


def _run_if(runner: Any, node: Node) -> None:
    condition = _number(runner, node.inputs[0], "its condition")
    branch: Graph = node.attributes["then_branch" if condition else "else_branch"]
    runner.run_nodes(branch.nodes)
    for name, own in zip(node.outputs, branch.outputs, strict=True):
        value = runner.graph_values[own]
        if isinstance(value, Tensor):  # and no length of a call
            value = runner.restored(own)
        runner.graph_values[name] = value


def _run_loop(runner: Any, node: Node) -> None:
    body: Graph = node.attributes["body"]
    limit, condition, *firsts = (*node.inputs, "")[: max(len(node.inputs), 2)]
    count: Any = _MOST_TURNS + 1
    if limit:
        count = _number(runner, limit, "its count")
    if condition and not _number(runner, condition, "its first condition"):
        count = 0
    numbers = Tensor.arange(max(largest(count), 0), dtype=dtypes.int64)
    sequences = [_Sequence(body.inputs[0], numbers)]
    loop = _Loop(runner, node, firsts, body.inputs[2:], body.outputs[1:], sequences)
    loop.condition = body.outputs[0]
    # A body that hands its condition on runs in all turns, if these have a limit.
    last = _source(body, body.outputs[0])
    loop.goes_on = limit and (last == body.inputs[1] or last in runner.true)
    runner.graph_values[body.inputs[1]] = Tensor(True)
    loop.run(count)


def _source(body: Graph, name: str) -> str:
    """Return the value of which another one is a copy."""
    sources = {}
    for node in body.nodes:
        if node.operator in ("Identity", "Cast"):
            sources[node.outputs[0]] = node.inputs[0]
    while name in sources:
        name = sources[name]
    return name


def _run_scan(runner: Any, node: Node) -> None:
    body: Graph = node.attributes["body"]
    inputs = node.attributes["num_scan_inputs"]
    carried = len(node.inputs) - inputs

    def option(name: str, count: int) -> Any:
        return node.attributes.get(name) or (0,) * count

    axes = option("scan_input_axes", inputs)
    reversed_ = option("scan_input_directions", inputs)
    sequences = []
    for name, own, axis, backward in zip(
        node.inputs[carried:], body.inputs[carried:], axes, reversed_, strict=True
    ):
        sequences.append(_Sequence(own, _moved(runner.restored(name), axis, 0), backward))
    firsts = node.inputs[:carried]
    loop = _Loop(runner, node, firsts, body.inputs[:carried], body.outputs, sequences)
    loop.axes = option("scan_output_axes", len(loop.axes))
    loop.backward = option("scan_output_directions", len(loop.axes))
    loop.run(sequences[0].values.shape[0])


def _moved(value: Tensor, source: int, axis: int) -> Tensor:
    """Return a tensor with an axis at another place."""
    order = [*range(len(value.shape))]
    order.insert(axis % len(order), order.pop(source))
    return value.permute(order)


class _Sequence(NamedTuple):
    """A tensor of which each turn gets the next part by a name of the body."""

    name: str
    values: Tensor
    is_backward: int = 0


def _place(turn: Any, count: Any, is_backward: int) -> Any:
    """Return the place of a turn in a sequence."""
    if is_backward:
        return count - 1 - turn
    return turn


class _Loop:
    """The turns of a node.

    Parameters
    ----------
    firsts
        The names of the first values that are carried from turn to turn.
    carried
        The names that the body has for them.
    results
        The names of the results of the body: the carried values, then those that are stacked.
    sequences
        What each turn gets a part of.
    """

    def __init__(
        self,
        runner: Any,
        node: Node,
        firsts: Sequence[str],
        carried: Sequence[str],
        results: Sequence[str],
        sequences: list[_Sequence],
    ) -> None:
        self._runner = runner
        self._node = node
        self._body: Graph = node.attributes["body"]
        self._values = [runner.restored(name) for name in firsts]
        self._carried = carried
        self._results = results[: len(carried)]
        self._stacked = results[len(carried) :]
        self._sequences = sequences
        self.condition = ""
        self.goes_on: Any = True
        self.axes: Any = (0,) * len(self._stacked)
        self.backward: Any = self.axes

    def run(self, count: Any) -> None:
        """Run the turns, and set the outputs of the node."""
        kept = {**self._runner.graph_values}
        is_repeat = self._runner.decided(self._node.outputs, lambda: self._can_repeat(count))
        self._runner.graph_values = kept
        if is_repeat:
            states, stacks = self._repeat(count)
        else:
            states, stacks = self._unroll(count)
        outputs = [_moved(each, 0, axis) for each, axis in zip(stacks, self.axes, strict=True)]
        kept.update(zip(self._node.outputs, [*states, *outputs], strict=True))

    def _can_repeat(self, count: Any) -> bool:
        """Return whether the turns can be a repeat, which is tried where the inputs have no values:
        others may be read.
        """
        has_values = all(each.is_realized for each in self._runner.buffers)
        if has_values or not self.goes_on or largest(count) < 2:
            return False
        try:
            with self._runner.turn(self._node, "trial"):
                self._repeat(count)
        except CompileError:
            return False
        return True

    def _run_body(
        self, sequences: list[_Sequence], count: Any, turn: Any, states: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run the body in a turn, whose number is a variable or an int. Return the carried values,
        and those that are stacked.
        """
        runner = self._runner
        values = runner.graph_values
        for name, sequence, is_backward in sequences:
            values[name] = at(sequence, _place(turn, count, is_backward))
        values.update(zip(self._carried, states, strict=True))
        runner.run_nodes(self._body.nodes)
        return [*map(runner.restored, self._results)], [*map(runner.restored, self._stacked)]

    def _repeat(self, count: Any) -> tuple[list[Tensor], list[Tensor]]:
        with recording() as tape:
            states = []
            for value in self._values:
                state = value.empty_like()
                state.assign(value).realize()
                states.append(state)
            sequences = []
            for each in self._sequences:
                sequences.append(each._replace(values=each.values.contiguous().realize()))
            stacks = []
            with tape.repeat(count) as turn:
                carried, stacked = self._run_body(sequences, count, turn, states)
                results = []
                for result, state in zip(carried, states, strict=True):
                    if result.shape != state.shape or result.dtype != state.dtype:
                        raise CompileError("a turn has a result of another shape or type")
                    results.append(result.contiguous())
                for result, backward in zip(stacked, self.backward, strict=True):
                    stack = Tensor.empty(largest(count), *result.shape, dtype=result.dtype)
                    write(stack, _place(turn, count, backward), result)
                    stacks.append(stack[:count])
                if results:
                    Tensor.realize(*results)
                for state, result in zip(states, results, strict=True):
                    state.assign(result).realize()
        return states, stacks

    def _unroll(self, count: Any) -> tuple[list[Tensor], list[Tensor]]:
        if not isinstance(count, int):
            raise CompileError("its turns differ, and their number is a length of the call")
        goes_on = self.goes_on
        states = self._values
        stacks: list[list[Tensor]] = [[] for _ in self._stacked]
        for turn in range(count):
            if turn == _MOST_TURNS:
                limit = f"{_MOST_TURNS} turns that differ, or whose condition decides"
                raise CompileError(f"it has more than {limit}")
            with self._runner.turn(self._node, turn):
                states, stacked = self._run_body(self._sequences, count, turn, states)
                if not self.goes_on:
                    goes_on = _number(self._runner, self.condition, "the condition of its body")
            for result, stack in zip(stacked, stacks, strict=True):
                stack.append(result)
            if not goes_on:
                break
        for name, stack, backward in zip(self._stacked, stacks, self.backward, strict=True):
            if not stack:
                raise CompileError(f"its result {name!r} is empty, as it has no turn")
            if backward:
                stack.reverse()
        return states, [Tensor.stack(*each) for each in stacks]


#: The functions that set the outputs of a node among the values of a runner. They raise
#: CompileError for what depends on the data of an input.
CONTROL: dict[str, Callable[[Any, Node], None]] = {
    "If": _run_if,
    "Loop": _run_loop,
    "Scan": _run_scan,
}
