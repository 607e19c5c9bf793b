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
from devmod_models._tinygrad.recurrent import at, copied, write
from devmod_models.onnx import Graph, Node

__all__ = ["CONTROL"]

#: The most turns that stand one behind the other.
_MOST_TURNS = 256
#: The most turns of a repeat: more take hours. PyTorch writes a loop without a limit with the
#: largest int64.
_MOST_REPEATS = 1 << 20


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
        if largest(count) > _MOST_REPEATS:  # its condition ends it
            limit = ""
            count = _MOST_TURNS + 1
    if condition and not _number(runner, condition, "its first condition"):
        count = 0
    numbers = Tensor.arange(max(largest(count), 0), dtype=dtypes.int64)
    runner.graph_values[body.inputs[1]] = Tensor(True)
    sequences = {body.inputs[0]: numbers}
    goes_on, *results = body.outputs
    loop = _Loop(runner, node, firsts, body.inputs[2:], results, sequences, goes_on, bool(limit))
    loop.run(count)


def _run_scan(runner: Any, node: Node) -> None:
    body: Graph = node.attributes["body"]
    inputs = node.attributes["num_scan_inputs"]
    carried = len(node.inputs) - inputs
    axes = _option(node, "scan_input_axes", inputs)
    backward = _option(node, "scan_input_directions", inputs)
    sequences = {}
    for name, own, axis, is_backward in zip(
        node.inputs[carried:], body.inputs[carried:], axes, backward, strict=True
    ):
        values = _moved(runner.restored(name), axis, 0)
        if is_backward:
            values = values.flip(0)
        sequences[own] = values
    firsts = node.inputs[:carried]
    loop = _Loop(runner, node, firsts, body.inputs[:carried], body.outputs, sequences)
    loop.run(values.shape[0])


def _option(node: Node, name: str, count: int) -> Any:
    """Return an attribute with a number for each of some values. By default, all are 0."""
    return node.attributes.get(name) or (0,) * count


def _moved(value: Tensor, source: int, axis: int) -> Tensor:
    """Return a tensor with an axis at another place."""
    order = [*range(len(value.shape))]
    order.insert(axis % len(order), order.pop(source))
    return value.permute(order)


class _Loop(NamedTuple):
    """The turns of a node.

    Attributes
    ----------
    firsts
        The names of the first values that are carried from turn to turn.
    carried
        The names that the body has for them.
    results
        The names of the results of the body: the carried values, then those that are stacked.
    sequences
        The tensors of which each turn gets the next part, by the name that the body has for it.
    condition
        The name of the result of the body that decides whether there is another turn; "": there is.
    has_limit
        Whether there is a limit to the turns.
    """

    runner: Any
    node: Node
    firsts: Sequence[str]
    carried: Sequence[str]
    results: Sequence[str]
    sequences: dict[str, Tensor]
    condition: str = ""
    has_limit: bool = True

    def run(self, count: Any) -> None:
        """Run the turns, and set the outputs of the node."""
        runner = self.runner
        kept = {**runner.graph_values}
        is_repeat = runner.decided(self.node.outputs, lambda: self._can_repeat(count))
        runner.graph_values = kept
        if is_repeat:
            states, stacks = self._repeat(count)
        else:
            states, stacks = self._unroll(count)
        axes = _option(self.node, "scan_output_axes", len(stacks))
        backward = _option(self.node, "scan_output_directions", len(stacks))
        outputs = [*states]
        for stack, axis, is_backward in zip(stacks, axes, backward, strict=True):
            own = stack
            if is_backward:
                own = stack.flip(0)
            outputs.append(_moved(own, 0, axis))
        kept.update(zip(self.node.outputs, outputs, strict=True))

    def _can_repeat(self, count: Any) -> bool:
        """Return whether the turns can be a repeat, which is tried where the inputs have no values:
        others may be read.
        """
        has_values = all(each.is_realized for each in self.runner.buffers)
        if has_values or not self.has_limit or largest(count) < 2:
            return False
        try:
            with self.runner.turn(self.node, "trial"):
                self._repeat(count)
        except CompileError:
            return False
        return True

    def _run_body(
        self, sequences: dict[str, Tensor], turn: Any, states: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], Any]:
        """Run the body in a turn, whose number is a variable or an int. Return the carried values,
        those that are stacked, and whether there is another turn.
        """
        runner = self.runner
        values = runner.graph_values
        for name, each in sequences.items():
            values[name] = at(each, turn)
        values.update(zip(self.carried, states, strict=True))
        runner.run_nodes(self.node.attributes["body"].nodes)
        results = [*map(runner.restored, self.results)]
        goes_on = not self.condition
        if self.condition:
            goes_on = _number(runner, self.condition, "the condition of its body")
        count = len(self.carried)
        return results[:count], results[count:], goes_on

    def _repeat(self, count: Any) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        with recording() as tape:
            states = [copied(self.runner.restored(name)) for name in self.firsts]
            sequences = {}
            for name, each in self.sequences.items():
                sequences[name] = each.contiguous().realize()
            stacks = []
            with tape.repeat(count) as turn:
                carried, stacked, goes_on = self._run_body(sequences, turn, states)
                if not goes_on:
                    raise CompileError("the first turn is the last one")
                results = []
                for result, state in zip(carried, states, strict=True):
                    if result.shape != state.shape or result.dtype != state.dtype:
                        raise CompileError("a turn has a result of another shape or type")
                    results.append(result.contiguous())
                for result in stacked:
                    stack = Tensor.empty(largest(count), *result.shape, dtype=result.dtype)
                    write(stack, turn, result)
                    stacks.append(stack[:count])
                if results:
                    Tensor.realize(*results)
                for state, result in zip(states, results, strict=True):
                    state.assign(result).realize()
        return states, stacks

    def _unroll(self, count: Any) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        if not isinstance(count, int):
            raise CompileError("its turns differ, and their number is a length of the call")
        states = [*map(self.runner.restored, self.firsts)]
        rows = []
        for turn in range(count):
            if turn == _MOST_TURNS:
                limit = f"{_MOST_TURNS} turns that differ, or whose condition decides"
                raise CompileError(f"it has more than {limit}")
            with self.runner.turn(self.node, turn):
                states, stacked, goes_on = self._run_body(self.sequences, turn, states)
            rows.append(stacked)
            if not goes_on:
                break
        names = self.results[len(states) :]
        if names and not rows:
            raise CompileError(f"its result {names[0]!r} is empty, as it has no turn")
        return states, [Tensor.stack(*each) for each in zip(*rows, strict=True)]


#: The functions that set the outputs of a node among the values of a runner. They raise
#: CompileError for what depends on the data of an input.
CONTROL: dict[str, Callable[[Any, Node], None]] = {
    "If": _run_if,
    "Loop": _run_loop,
    "Scan": _run_scan,
}
