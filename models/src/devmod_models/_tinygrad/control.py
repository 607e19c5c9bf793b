"""ONNX's control flow where what it decides is known at the export: If, Loop and Scan.

A loop is recorded once, as a repeat, or its turns stand one behind the other, where a turn has
other shapes than the one before, or reads the number of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.engine import realize

from devmod.errors import CompileError
from devmod_models._tinygrad.record import depends, largest, reading, recording
from devmod_models._tinygrad.recurrent import at, buffer, part, write
from devmod_models.onnx import Graph, Node

__all__ = ["CONTROL"]

#: The most turns that stand one behind the other.
_MOST_TURNS = 256


class Decisions:
    """What a trial has decided, which later runs decide alike: they cannot read values. Each value
    or node has its own list: later runs leave out nodes.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, list[Any]] = {}
        self._left: dict[Hashable, Iterator[Any]] = {}
        self.is_trial = False

    def begin(self) -> None:
        """Begin a run."""
        if self.is_trial:
            self._known.clear()
        self._left = {key: iter(each) for key, each in self._known.items()}

    def take(self, key: Hashable, decide: Callable[[], Any]) -> Any:
        """Return the next decision. `key` is the name of the value, or names that a node binds."""
        if realize.capturing and not self.is_trial:
            return next(self._left[key])
        result = decide()
        if self.is_trial:
            self._known.setdefault(key, []).append(result)
        return result

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget what the block decides, as its nodes run again."""
        known = {key: [*each] for key, each in self._known.items()}
        try:
            yield
        finally:
            self._known = known


def _number(runner: Any, name: str, what: str) -> Any:
    """Return a number that is known, as a trial has decided: an int, a bool, or a length of a
    call.
    """

    def decide() -> Any:
        value = runner.graph_values[name]
        if isinstance(value, np.ndarray):
            return value.item()
        if not isinstance(value, Tensor):
            return value
        if depends(value, runner.buffers) or value.uop.variables():
            raise CompileError(
                f"{what} depends on the data of an input or on the turn, and no program has that"
            )
        with reading():
            return value.reshape(()).item()

    return runner.decisions.take(name, decide)


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
    most = max(largest(count), 0)
    loop = _Loop(runner, node, body, firsts, body.inputs[2:], body.outputs[1:])
    loop.condition = body.outputs[0]
    # A body that hands its condition on runs in all turns, if these have a limit.
    last = _source(body, body.outputs[0])
    loop.goes_on = limit and (last == body.inputs[1] or last in runner.true)
    runner.graph_values[body.inputs[1]] = Tensor(True)
    loop.sequences.append(_Sequence(body.inputs[0], Tensor.arange(most, dtype=dtypes.int64)))
    loop.run(count, most)


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
    outputs = len(body.outputs) - carried

    def option(name: str, count: int) -> Any:
        return node.attributes.get(name) or (0,) * count

    axes = option("scan_input_axes", inputs)
    reversed_ = option("scan_input_directions", inputs)
    loop = _Loop(runner, node, body, node.inputs[:carried], body.inputs[:carried], body.outputs)
    for name, own, axis, backward in zip(
        node.inputs[carried:], body.inputs[carried:], axes, reversed_, strict=True
    ):
        loop.sequences.append(
            _Sequence(own, _moved(runner.restored(name), axis, 0), bool(backward))
        )
    count = loop.sequences[0].values.shape[0]
    loop.axes = option("scan_output_axes", outputs)
    loop.backward = option("scan_output_directions", outputs)
    loop.run(count, largest(count))


def _moved(value: Tensor, source: int, axis: int) -> Tensor:
    """Return a tensor with an axis at another place."""
    order = [*range(len(value.shape))]
    order.insert(axis % len(order), order.pop(source))
    return value.permute(order)


class _Sequence(NamedTuple):
    """A tensor of which each turn gets the next part by a name of the body."""

    name: str
    values: Tensor
    is_backward: bool = False


def _place(turn: Any, count: Any, is_backward: Any) -> Any:
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
    """

    def __init__(
        self,
        runner: Any,
        node: Node,
        body: Graph,
        firsts: Any,
        carried: Any,
        results: Any,
    ) -> None:
        self._runner = runner
        self._node = node
        self._body = body
        self._values = [runner.restored(name) for name in firsts]
        self._carried = carried
        self._results = results[: len(carried)]
        self._stacked = results[len(carried) :]
        self.condition = ""
        self.goes_on: Any = True
        self.axes: Any = (0,) * len(self._stacked)
        self.backward: Any = (0,) * len(self._stacked)
        self.sequences: list[_Sequence] = []

    def run(self, count: Any, most: int) -> None:
        """Run the turns, and set the outputs of the node."""
        decisions = self._runner.decisions
        kept = {**self._runner.graph_values}
        is_repeat = decisions.take(self._node.outputs, lambda: self._can_repeat(count, most))
        self._runner.graph_values = kept
        if is_repeat:
            states, stacks = self._repeat(count, most)
        else:
            states, stacks = self._unroll(count)
        outputs = [_moved(each, 0, axis) for each, axis in zip(stacks, self.axes, strict=True)]
        kept.update(zip(self._node.outputs, [*states, *outputs], strict=True))

    def _can_repeat(self, count: Any, most: int) -> bool:
        """Return whether the turns can be a repeat, which is tried where the inputs have no values:
        others may be read.
        """
        has_values = all(each.is_realized for each in self._runner.buffers)
        if has_values or not self.goes_on or most < 2:
            return False
        try:
            with self._runner.decisions.forgetting():
                self._repeat(count, most)
        except CompileError:
            return False
        return True

    def _enter(
        self, sequences: list[_Sequence], count: Any, turn: Any, states: list[Tensor]
    ) -> None:
        """Give the body the parts of a turn, whose number is a variable or an int."""
        values = self._runner.graph_values
        for name, sequence, is_backward in sequences:
            values[name] = at(sequence, _place(turn, count, is_backward))
        values.update(zip(self._carried, states, strict=True))

    def _repeat(self, count: Any, most: int) -> tuple[list[Tensor], list[Tensor]]:
        with recording() as tape:
            states = []
            for value in self._values:
                state = buffer(*value.shape, dtype=value.dtype)
                state.assign(value).realize()
                states.append(state)
            sequences = []
            for each in self.sequences:
                sequences.append(each._replace(values=each.values.contiguous().realize()))
            with tape.repeat(count, most) as turn:
                self._enter(sequences, count, turn, states)
                stacks = self._turn(states, count, most, turn)
        return states, [part(each, 0, count) for each in stacks]

    def _turn(self, states: list[Tensor], count: Any, most: int, turn: Any) -> list[Tensor]:
        """Run a turn, which writes the states, and return what it writes at its place."""
        runner = self._runner
        runner.run_nodes(self._body.nodes)
        results = []
        for name, state in zip(self._results, states, strict=True):
            result = runner.restored(name)
            if result.shape != state.shape or result.dtype != state.dtype:
                raise CompileError("a turn has a result of another shape or type")
            results.append(result.contiguous())
        stacks = []
        for name, backward in zip(self._stacked, self.backward, strict=True):
            result = runner.restored(name)
            stack = buffer(most, *result.shape, dtype=result.dtype)
            write(stack, _place(turn, count, backward), result)
            stacks.append(stack)
        if results:
            Tensor.realize(*results)
        for state, result in zip(states, results, strict=True):
            state.assign(result).realize()
        return stacks

    def _unroll(self, count: Any) -> tuple[list[Tensor], list[Tensor]]:
        runner = self._runner
        if not isinstance(count, int):
            raise CompileError("its turns differ, and their number is a length of the call")
        states = self._values
        stacks: list[list[Tensor]] = [[] for _ in self._stacked]
        for turn in range(count):
            if turn == _MOST_TURNS:
                limit = f"{_MOST_TURNS} turns that differ, or whose condition decides"
                raise CompileError(f"it has more than {limit}")
            self._enter(self.sequences, count, turn, states)
            with runner.reading(self._body):
                runner.run_nodes(self._body.nodes)
            states = [runner.restored(name) for name in self._results]
            for name, stack in zip(self._stacked, stacks, strict=True):
                stack.append(runner.restored(name))
            if self.goes_on:
                continue
            if not _number(runner, self.condition, "the condition of its body"):
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
