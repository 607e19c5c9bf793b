"""Models of ONNX by tinygrad's runner: each node becomes Tensors. An error names the node."""

from __future__ import annotations

import json
import operator
import re
from collections import ChainMap
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from tinygrad import Tensor, UOp, Variable, dtypes
from tinygrad.helpers import cdiv
from tinygrad.nn.onnx import (
    Domain,
    OnnxNode,
    OnnxRunner,
    OpSetId,
    required_input_python_consts,
)
from tinygrad.uop.ops import Ops, ssimplify

import devmod
from devmod import Target
from devmod.backend import constant_identity, expression_text, walk
from devmod.commands import size
from devmod.errors import (
    ArgumentError,
    CompileError,
    DevmodError,
    count_text,
    describe_error,
    list_names,
    quote_name,
)
from devmod.worker import processors
from devmod_models import tinygrad
from devmod_models._buckets import read_buckets
from devmod_models._patched import patched
from devmod_models._tinygrad.borders import GRID, NOT_FINITE, draw, is_open
from devmod_models._tinygrad.buckets import join
from devmod_models._tinygrad.check import (
    FAST,
    Reference,
    call_text,
    calls_text,
    check_devices,
    compare,
    compare_all,
    describe_records,
    device_labels,
    remarks,
    results_on,
    summary,
    tolerance,
    typed,
    with_other_digits,
)
from devmod_models._tinygrad.control import CONTROL
from devmod_models._tinygrad.factors import Factors
from devmod_models._tinygrad.half import Precision, halved
from devmod_models._tinygrad.lengths import ceil_pads, length_text, pool, same_pads
from devmod_models._tinygrad.operators import OPERATORS, divide
from devmod_models._tinygrad.record import (
    DTYPES,
    are_fixed,
    buffer_of,
    depends,
    fill,
    identifier,
    largest,
    multiple_name,
    reading,
    record,
    settings,
)
from devmod_models.onnx import FIXED_LENGTH, MAX_ELEMENTS, Model, Node, Range, Shape, read_model
from devmod_readers.programs import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from devmod_models._buckets import Buckets
    from devmod_models._tinygrad.check import Difference
    from devmod_models._tinygrad.record import Recording, Report

#: The arrays of the inputs of a call, by name.
Arrays = dict[str, Any]
#: For each run the lengths that its calls choose, and the inputs of calls in a row, which share the
#: state of the model.
Runs = list[tuple[dict[str, int], list[Arrays]]]
#: The calls of a run of a model with state.
_CALLS = 3
#: The parts of the work before the trace, the kernels and the check. The time left follows.
_TRACES = 0.02
_RENDERS = 0.15
_CHECKS = 0.65
#: Operators on numbers. Symbolic lengths that are divided are not negative.
_ARITHMETIC: dict[str, Any] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Mod": operator.mod,
    "Div": lambda a, b: _divided(a, b),
    "Equal": lambda a, b: not operator.ne(a, b),
    "Where": lambda condition, a, b: a if condition else b,
}
#: The operators with windows that auto_pad may pad, and which input has a filter of their size.
_WINDOWS = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), 0),
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv"), 1),
    "QLinearConv": 3,
}
#: Operators whose results have the elements of their first input.
_SAME_ELEMENTS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
#: Operators that move the elements of their first input. Lengths say where to.
_MOVES = ("Expand", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze")
#: Operators that draw random numbers.
_RANDOM = (
    *("Bernoulli", "Multinomial", "RandomNormal"),
    *("RandomNormalLike", "RandomUniform", "RandomUniformLike"),
)
#: Operators that divide their first input by the second.
_DIVISIONS = ("Div", "Mod")
#: The operators on sequences, and which input has the lengths of these.
_SEQUENCE_LENGTHS = {
    "ReverseSequence": 1,
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"), 4),
}
#: The end of errors about `FIXED_LENGTH`. Who prints one adds how that is written.
_ADVICE = "; a fixed length may do"
#: What tinygrad's errors have of lengths without a number: trees of pages, or a comparison of them.
_SYMBOLIC = re.compile(r"UOp\(|eval failed to be a single number|symbolic shape not supported")
#: The operations whose results are in arrays, and the most others between these.
_IN_ARRAYS = (Ops.BUFFER, Ops.CONTIGUOUS, Ops.REDUCE)
_MOST_OPERATIONS = 128
#: How often the last digits of all values change, to see how far the results move.
_DRAWS = 5
#: The most indices of a Gather that are copies of one element each.
_MOST_INDICES = 8
_DOMAINS = {each.value for each in Domain} | {""}


class Runner(OnnxRunner):  # type: ignore[misc]
    """Runs a model. The first run is a trial: later ones keep the values that depend on no input.

    Attributes
    ----------
    constants
        The model's constants by name, which several runners may share.
    read
        The buffers whose values a trial has read.
    buffers
        The buffers of the inputs of the last run.
    """

    def __init__(self, model: Model, constants: Mapping[str, Tensor] | None = None) -> None:
        _check_nodes(model)
        self._precision = Precision(model)
        if constants is None:
            constants = {name: _tensor(each) for name, each in model.constants.items()}
        self.constants = constants
        self.read = set[UOp]()
        self._init_from_graph({"node": [], "initializer": [], "input": [], "output": []})
        self.onnx_ops = OPERATORS
        self._outputs = model.outputs
        self._states = model.states
        self._nodes = model.nodes
        self._factors = Factors(model.nodes, model.constants)
        self._kept: dict[str, Any] = {"": None, **self.constants}
        #: How many operations are between a value and the arrays of the kernel that computes it.
        self._depths: dict[UOp, int] = {}
        self._arrays = model.constants
        #: The constants that tinygrad's Gather gets as lists: it copies each element by itself.
        self.const_names = set()
        for name, constant in model.constants.items():
            if constant.ndim < 2 and 0 < constant.size <= _MOST_INDICES:
                self.const_names.add(name)

    def run(
        self,
        inputs: Mapping[str, Tensor],
        judge: Callable[[Node, Any], object] = lambda node, values: None,
    ) -> dict[str, Tensor]:
        """Return the outputs by name, also the next values of states, which are among the inputs.
        `judge` gets each node, and the values by name after it.
        """
        self.graph_values = {**self._kept, **inputs}
        self._depths = {}
        self.buffers = set(map(buffer_of, inputs.values()))
        self._has_lengths = not all(isinstance(each.numel(), int) for each in inputs.values())
        for node in self._nodes:
            self.run_nodes([node])
            judge(node, self.graph_values)
        nexts = [each.output for each in self._states.values()]
        return {name: self.restored(name) for name in (*self._outputs, *nexts)}

    def update(
        self, states: Mapping[str, Tensor], results: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Give states their next values, and return the outputs. All is computed from the old
        values first.
        """
        old = set(map(buffer_of, states.values()))

        def computed(tensor: Tensor) -> Tensor:
            if tensor.uop.base in old:
                return tensor.clone()
            return tensor.contiguous()

        values = {}
        for name, state in self._states.items():
            value = results[state.output]
            sides = map(length_text, value.shape)
            found = _text(DTYPES.get(value.dtype, value.dtype.name), sides)
            wanted = _text(state.dtype, state.shape)
            if found != wanted:
                raise CompileError(
                    f"the state {quote_name(name)} is {wanted}, and its next value {quote_name(state.output)} is {found}; "
                    "a state keeps its shape"
                )
            values[name] = computed(value)
        outputs = {name: computed(results[name]) for name in self._outputs}
        Tensor.realize(*outputs.values(), *values.values())
        for name, value in values.items():
            states[name].assign(value).realize()
        return outputs

    def run_nodes(self, nodes: Iterable[Node]) -> None:
        """Run nodes, of the model or of a graph within it."""
        for node in nodes:
            # The runner stores an output without a name, and an input without one would get it.
            self.graph_values[""] = None
            try:
                if node.operator in CONTROL:
                    CONTROL[node.operator](self, node)
                    continue
                with (
                    patched(Tensor, "div", divide),
                    patched(Tensor, "_pool", pool),
                    patched(Tensor, "_apply_ceil_mode", ceil_pads),
                ):
                    self._run_node(node)
            except DevmodError as error:
                text = f"{_called(node)}: {error}"
                raise CompileError(text, argument=error.argument) from error
            except Exception as error:
                text = describe_error(error)
                advice = ""
                argument = ""
                if self._has_lengths:
                    advice = _ADVICE
                    argument = FIXED_LENGTH
                    if _SYMBOLIC.search(text):
                        text = "a length that each call chooses decides what it does"
                raise CompileError(
                    f"{_called(node)}: tinygrad cannot trace it: {text}{advice}", argument=argument
                ) from error

    def _check_indices(self, node: Node) -> None:
        """Raise an error for a constant index that is outside of what the node reads."""
        if node.operator not in ("Gather", "GatherElements") or node.domain:
            return
        indices = self._arrays.get(node.inputs[1])
        data = self.graph_values[node.inputs[0]]
        axis = node.attributes.get("axis", 0)
        if indices is None or not indices.size or not -data.ndim <= axis < data.ndim:
            return
        length = largest(data.shape[axis])
        for index in (int(indices.min()), int(indices.max())):
            if not -length <= index < length:
                raise CompileError(
                    f"its index {index} in {quote_name(node.inputs[1])} is outside of axis {axis} of {quote_name(node.inputs[0])}, "
                    f"whose indices are {-length} to {length - 1}"
                )

    def _run_node(self, node: Node) -> None:
        self._check_indices(node)
        for name in self._factors.inputs(node, self.graph_values):
            self.graph_values[name] = self.graph_values[name].contiguous()
        names = self._precision.enter(node, self.graph_values)
        lengths = self._on_lengths(node)
        if lengths is not None:
            self.graph_values[node.outputs[0]] = lengths
        else:
            options = {}
            for key, each in node.attributes.items():
                options[key] = each
                if isinstance(each, np.ndarray):
                    options[key] = _tensor(each)
            if node.operator == "DynamicQuantizeLSTM":
                options["has_states"] = bool(node.outputs[0])
            if node.operator in _WINDOWS and str(options.get("auto_pad")).startswith("SAME"):
                options = self._padded(node, options)
            operators = OpSetId(Domain.from_onnx(node.domain), node.version)
            self.graph_nodes = (OnnxNode(node.operator, operators, names, node.outputs, options),)
            self({})
        self._check_size(node)
        self._precision.leave(node, names, self.graph_values)
        self._divide(node)

    def _padded(self, node: Node, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a node with the pads of its windows."""
        kernel = options.get("kernel_shape")
        if kernel is None:
            kernel = self.graph_values[node.inputs[_WINDOWS[node.operator]]].shape[2:]
        return same_pads(self.graph_values[node.inputs[0]].shape[2:], kernel, options)

    def _divide(self, node: Node) -> None:
        """Give the results of a node arrays of their own if a product reads them, or if a kernel
        would have too many operations that depend on each other: the time of tinygrad and of
        compilers rises faster than these.
        """
        known = self._depths
        for name in node.outputs:
            value = self.graph_values.get(name)
            if not name or not isinstance(value, Tensor):
                continue
            for each in value.uop.toposort(gate=lambda uop: uop not in known):
                if each in known:
                    continue
                known[each] = 0
                if each.op not in _IN_ARRAYS:
                    known[each] = 1 + max([known.get(src, 0) for src in each.src], default=0)
            if known[value.uop] > _MOST_OPERATIONS or self._factors.separates(node, name, value):
                self.graph_values[name] = value.contiguous()

    def _check_size(self, node: Node) -> None:
        """Raise an error for a result that no kernel can index, before it takes memory or time."""
        for name in node.outputs:
            value = self.graph_values.get(name)
            if name and value is None:
                raise CompileError(
                    f"its output {quote_name(name)} has no values along a length that each call chooses{_ADVICE}",
                    argument=FIXED_LENGTH,
                )
            if isinstance(value, Tensor) and value.max_numel() > MAX_ELEMENTS:
                raise CompileError(
                    f"its output {quote_name(name)} has {value.max_numel()} elements, more than the {MAX_ELEMENTS} that a kernel indexes"
                )

    def restored(self, name: str) -> Any:
        """Return a value of the last run, in the type that it has in the model."""
        value = self._get_python_const(name, "", 0)
        return self._precision.restored(name, value)

    def decided(self, key: tuple[Any, ...], decide: Callable[[], Any]) -> Any:
        """Return what the trial has decided, since later runs cannot read values."""
        known: Any = self._python_const_cache
        if key not in known:
            known[key] = decide()
        return known[key]

    def turn(self, loop: Node, turn: Any) -> AbstractContextManager[None]:
        """Keep apart what a turn of a loop reads and decides."""
        known: Any = self._python_const_cache
        own = known.setdefault((*loop.outputs, turn), {})
        return patched(self, "_python_const_cache", ChainMap(own, known))

    def _get_python_const(self, name: str, op: str, idx: int) -> Any:
        value = self.graph_values[name]
        if not isinstance(value, np.ndarray):
            return super()._get_python_const(name, op, idx)
        if op == "Range" or idx in required_input_python_consts.get(op, ()):
            return value.tolist()
        if not value.size:
            return Tensor(value.astype(np.int64))
        dtype = dtypes.int64
        if all(isinstance(each, bool) for each in value.flat):
            dtype = dtypes.bool
        return Tensor.stack(*(Tensor(each, dtype=dtype) for each in value.flat)).reshape(
            value.shape
        )

    def _on_lengths(self, node: Node) -> Any:
        """Return what a node computes from lengths alone, which may be symbolic, as an array of
        objects; None for another node.
        """
        values = [self.graph_values[name] for name in node.inputs]
        options = node.attributes
        if node.operator == "Shape":
            shape = values[0].shape[options.get("start") : options.get("end")]
            return np.fromiter(shape, object, len(shape))
        if node.operator == "Size":
            return _objects(prod(values[0].shape))
        if not any(isinstance(each, np.ndarray) for each in values):
            return None
        if node.operator in _MOVES and isinstance(values[0], Tensor):
            return None
        for each in values:
            if not isinstance(each, Tensor):
                continue
            if (
                not are_fixed(each.shape)
                or dtypes.is_float(each.dtype)
                or depends(each, self.buffers)
            ):
                return None
        arrays = []
        with reading():
            for each in values:
                arrays.append(each.numpy().astype(object) if isinstance(each, Tensor) else each)
        return _of_lengths(node.operator, arrays, options)

    def trial(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run for the first time, and keep what does not depend on the inputs.

        A value on the host that depends on the data of an input is an error: another call would
        have another one.
        """
        read = Tensor._buffer
        dependent = set(inputs)

        def checked(tensor: Tensor) -> Any:
            if depends(tensor, self.buffers):
                raise CompileError(
                    "a shape or an option depends on the data of an input. That is control flow, which no program has. "
                    "An input that is always the same can be an initializer of the model. "
                    "Else cut the model there with onnx.utils.extract_model: each call of the second part chooses the length"
                )
            if tensor.uop.variables():
                raise CompileError(
                    f"a shape or an option is computed from a length that a call chooses{_ADVICE}",
                    argument=FIXED_LENGTH,
                )
            self.read |= {each for each in tensor.uop.toposort() if each.op is Ops.BUFFER}
            return read(tensor)

        with patched(Tensor, "_buffer", checked):
            result = self.run(inputs)
        for node in self._nodes:
            if node.operator not in ("Shape", "Size") and not dependent.isdisjoint(node.uses):
                dependent |= {*node.outputs} - {""}
                continue
            for name in node.outputs:
                if name in self.graph_values:
                    self._kept[name] = self.graph_values[name]
        self._nodes = tuple(each for each in self._nodes if not dependent.isdisjoint(each.outputs))
        return result


def _check_nodes(model: Model) -> None:
    """Raise CompileError for a node that no program has, or that tinygrad does not have."""
    unknown: dict[str, Node] = {}
    nodes = [*chain.from_iterable(map(Node.walk, model.nodes))]
    for each in nodes:
        if each.operator in CONTROL and not each.domain:
            continue
        if each.operator not in OPERATORS or each.domain not in _DOMAINS:
            unknown.setdefault(f"{each.domain}.{each.operator}".lstrip("."), each)
    random = [each for each in model.nodes if each.operator in _RANDOM and not each.domain]
    if random:
        inputs = [*model.inputs, *model.states, *sorted(model.given)]
        inputs += [each.outputs[0] for each in random]
        raise CompileError(
            f"{_called(random[0])}: it draws random numbers, which no program has. Give them as an input: "
            f'onnx.utils.extract_model(FILE, "cut.onnx", {json.dumps(inputs)}, {json.dumps(model.outputs)}) cuts the model there'
        )
    if unknown:
        first = next(iter(unknown.values()))
        raise CompileError(
            f"{_called(first)}: tinygrad does not have this operator. It lacks {list_names(sorted(unknown))}"
        )
    for each in nodes:
        if each.domain.endswith("training"):
            raise CompileError(f"{_called(each)}: a step of training, which no program has")
        if each.operator not in _DIVISIONS:
            continue
        # A division by zero ends a process on a CPU.
        for name in each.inputs[1:]:
            divisor = model.constants.get(name)
            if divisor is not None and divisor.dtype.kind in "iu" and not divisor.all():
                raise CompileError(
                    f"{_called(each)}: it divides integers by {quote_name(name)}, which has a zero"
                )


def function(
    runner: Runner,
    inputs: Iterable[str],
    states: Mapping[str, Tensor] = MappingProxyType({}),
) -> Callable[..., dict[str, Tensor]]:
    """Return a run for `tinygrad.export`, as a function of the inputs, which assigns the states.
    That looks for tensors in what a function refers to, and those of a former run are no constants:
    a partial refers to nothing.
    """
    return partial(_run_with, runner, [*inputs], states)


def _run_with(
    runner: Runner, inputs: Sequence[str], states: Mapping[str, Tensor], *tensors: Tensor
) -> dict[str, Tensor]:
    results = runner.run({**dict(zip(inputs, tensors, strict=True)), **states})
    if not states:
        return results
    return runner.update(states, results)


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return cdiv(a, b)
    return a // b


def _of_lengths(operator_name: str, values: list[Any], options: Mapping[str, Any]) -> Any:
    """Return what an operator computes from arrays of lengths; None if it is not one on these."""
    first, *others = values
    numbers = [tuple(each.ravel()) for each in others if each is not None]
    axes: Any = options.get("axes") or next(iter(numbers), None)
    match operator_name:
        case "Identity":
            return first
        case "Cast":
            # int64, or int32 if one is symbolic.
            is_symbolic = any(isinstance(each, UOp) for each in first.flat)
            if options["to"] == 7 or (options["to"] == 6 and is_symbolic):
                return first
        case "Concat":
            return np.concatenate(values, options["axis"])
        case "Gather":
            return first[others[0].astype(int), ...]
        case "ReduceProd":
            return _objects(first.prod(keepdims=bool(options.get("keepdims", 1))))
        case "Reshape":
            return first.reshape(axes)
        case "Slice":
            bounds = (*numbers[:2], *numbers[3:]) or (options["starts"], options["ends"])
            return first[slice(*[each[0] for each in bounds])]
        case "Squeeze":
            return first.squeeze(axes)
        case "Unsqueeze":
            return np.expand_dims(first, axes)
    if operator_name in _ARITHMETIC:
        compute = _ARITHMETIC[operator_name]
        # Lengths that are equal have one form then.
        function = np.frompyfunc(lambda *own: ssimplify(compute(*own)), len(values), 1)
        result = _objects(function(*values))
        if any(abs(getattr(each, "vmax", each)) >> 63 for each in result.flat):
            raise OverflowError("a length has more than 63 bits")
        return result
    return None


def _objects(value: Any) -> Any:
    """Return an array of objects, which one value becomes."""
    if isinstance(value, np.ndarray):
        return value
    result = np.empty((), object)
    result.fill(value)
    return result


def _maker(node: Node) -> str:
    """Return whose function computes a node."""
    function = OPERATORS.get(node.operator)
    if isinstance(function, dict):
        domain = Domain.from_onnx(node.domain)
        versions = [each for each in function if each.domain == domain]
        function = function[max(each for each in versions if each.version <= node.version)]
    if str(getattr(function, "__module__", "")).startswith("tinygrad."):
        return "tinygrad"
    return "devmod"


def _called(node: Node) -> str:
    return f"{node.operator} (output {quote_name(next(iter(node.outputs), ''))})"


def _tensor(array: Any) -> Tensor:
    """Return a constant. A number stands in the kernel."""
    if not array.shape and array.dtype != "bfloat16":
        return Tensor(array.item(), dtype=getattr(dtypes, array.dtype.name))
    result = tensor_of(array)
    if array.shape:
        with reading():  # its elements are not copied in each call
            result.realize()
    return result


def tensor_of(array: Any) -> Tensor:
    """Return a tensor of an array."""
    if array.dtype == "bfloat16":
        return Tensor(array.astype(np.float32)).cast(dtypes.bfloat16)
    if not array.size:
        return Tensor(array)
    # tinygrad's own would schedule and run a copy.
    flat = Tensor.empty(array.size, dtype=getattr(dtypes, array.dtype.name))
    fill(flat.uop, array)
    return flat.reshape(array.shape)


def array_of(tensor: Tensor) -> Any:
    """Return an array of a tensor."""
    if tensor.dtype != dtypes.bfloat16:
        return tensor.numpy()
    return tensor.cast(dtypes.float32).numpy().astype("bfloat16")  # of ml_dtypes


def export(request: Mapping[str, Any], report: Report) -> tuple[list[str], list[str]]:
    """Write a file with the program of a model, and return lines about it and its check, and notes.

    Parameters
    ----------
    request
        "model", "targets" and "name"; "dims", texts; "constants", the texts of the numbers of
        inputs; "states", the names of outputs by those of inputs that are state, and "labels",
        other names for these; "buckets", the last length of each range of a length that has kernels
        of its own, by the name of the length; "inputs", for each run and call the paths of arrays
        by the names of inputs, where the last ones are those of all further calls, and the first
        values of states are in the first call of the last run; "output", the file to write, and
        "file", its name for a call; "half": "all", "weights" or ""; "expected", for each run and
        call the paths of PyTorch's results by the names of outputs, or []; "is_checked";
        "is_tuned".
    report
        A function that gets lines about the progress, and which part of the work is done.
    """
    files = [[*map(_read_arrays, calls)] for calls in request["inputs"]]
    *_, (call, *_) = files
    dims: dict[str, Any] = {}
    for name, each in call.items():
        dims[name] = list(each.shape)
    for name, text in request["dims"].items():
        dims[name] = _dim(text)
    constants = {name: text.split(",") for name, text in request["constants"].items()}
    model = read_model(request["model"], dims, request["states"], constants)
    buckets = read_buckets(request["buckets"], _ranges(model))
    if request["half"]:
        model = halved(model, request["half"])
    first = {}
    for name, state in model.states.items():
        first[name] = call.pop(name, None)
        if first[name] is None:
            first[name] = np.zeros(state.shape, state.dtype)
        _check_array(name, first[name], state.dtype, state.shape)
    runs: Runs = []
    for calls in files:
        given = []
        for arrays in calls:
            given.append({name or next(iter(model.inputs)): each for name, each in arrays.items()})
        own = buckets
        if request["expected"]:  # the runs have those of each range
            own = None
        runs += choose_inputs(model, *given, buckets=own)
    with ExitStack() as stack:
        return _export(model, buckets, runs, first, request, report, stack)


def _export(
    model: Model,
    buckets: Buckets | None,
    runs: Runs,
    first: Arrays,
    request: Mapping[str, Any],
    report: Report,
    stack: ExitStack,
) -> tuple[list[str], list[str]]:
    """Return what `export` returns. `first` has the first values of states, and `stack` ends what
    works beside this.
    """
    _check_nodes(model)
    check = None
    if request["is_checked"]:
        check = _Check(model, runs, first, request, report)
        # The processes of an error end with this one.
        stack.callback(check.threads.shutdown, wait=False, cancel_futures=True)
    report("tracing", _TRACES)
    runner = Runner(model)
    lengths, calls = runs[-1]
    example = example_tensors(model, lengths)
    states = {name: tensor_of(each).realize() for name, each in first.items()}
    results = runner.trial({**example, **states})
    tune = None
    if request["is_tuned"]:
        tune = [*calls[0].values()]
    constants = {name: each for name, each in runner.constants.items() if each.shape}
    for name, each in states.items():
        constants[request["labels"].get(name, name)] = each
    record_whole: Callable[[], Recording] = partial(
        record, function(runner, example, states), example, None, constants
    )
    if buckets is not None:
        record_whole = _bucket_recorder(runner, model, buckets, results, example, states, constants)
    module, recording = tinygrad.make(
        record_whole,
        targets=request["targets"],
        name=request["name"],
        folded=_folded(model, runner),
        report=lambda text, done: report(text, _RENDERS + (_CHECKS - _RENDERS) * done),
        # For the error of a call with other lengths.
        options=[f"--dim {each}=1" for each in model.chosen],
        tune=tune,
    )
    devmod.save(module, request["output"])
    names, about = _about(module, request["name"], model)
    if buckets is not None:
        about += f"; {buckets.text}"
    own = names[: len(model.inputs)]
    outputs = names[len(model.inputs) :]
    lines = [about]
    if tune is not None:
        lines += describe_records(module)
    if check is not None:
        lines += check.run(module, recording, states)
    else:
        lines.append("not checked: --no-check")
    loaded = f"devmod.load({json.dumps(request['file'])})[{json.dumps(request['name'])}]"
    if model.states:
        lines += [f"f = {loaded}", "state = f.state()"]
        loaded = "f"
        own.append("state=state")
    return [*lines, f"{', '.join(outputs)} = {loaded}({', '.join(own)})"], list(model.notes)


def _bucket_recorder(
    runner: Runner,
    model: Model,
    buckets: Buckets,
    results: Mapping[str, Tensor],
    example: Mapping[str, Tensor],
    states: Mapping[str, Tensor],
    constants: Mapping[str, Tensor],
) -> Callable[[], Recording]:
    """Return a function that records a model for each range of a length. The runners of the ranges
    share the constants of `runner`, which gets what these have read. `results` and `example` have
    the shapes of all ranges.
    """
    functions = []
    for bucket in buckets.ranges:
        own = buckets.model_of(model, bucket)
        part = Runner(own, runner.constants)
        tensors = example_tensors(own, {each.name: each.high for each in _ranges(own)})
        part.trial({**tensors, **states})
        runner.read |= part.read
        functions.append((function(part, tensors, states), tensors))
    outputs = {name: results[name] for name in model.outputs}

    def record_each() -> Recording:
        recordings = [record(fn, tensors, None, constants, example) for fn, tensors in functions]
        return join(recordings, buckets, identifier(buckets.name), example, outputs)

    return record_each


def _folded(model: Model, runner: Runner) -> dict[str, str]:
    """Return the digests of the constants that may not get other values: numbers, which stand in
    kernels, what a trial has read, and integers by which a kernel divides.
    """
    divisors = set[str]()
    for node in model.nodes:
        if node.operator in _DIVISIONS:
            divisors.update(node.inputs[1:])
    result = {}
    for name, each in model.constants.items():
        is_divisor = name in divisors and each.dtype.kind in "iu"
        has_buffer = each.shape and each.size
        if is_divisor or not has_buffer or runner.constants[name].uop.base in runner.read:
            result[name] = constant_identity(name, each)
    return result


class _Check:
    """Compares tinygrad's results of a model with those of another program, and those of devices
    with tinygrad's, so that an error says whose mistake it is.

    The other program, and the search for devices, work beside the export from the start.
    """

    def __init__(
        self,
        model: Model,
        runs: Runs,
        first: Arrays,
        request: Mapping[str, Any],
        report: Report,
    ) -> None:
        self._model = model
        self._runs = runs
        self._first = first
        self._request = request
        self._report = report
        self._reference = Reference(request["model"])
        self._at_borders = Reference(request["model"], ["onnxruntime"])
        #: The other program that has computed the last call of each run, and that of this run.
        self._programs: list[str] = []
        self._program = ""
        #: The inputs of further calls after those of the last run, by what they are.
        self._borders = self._border_calls()
        self.threads = ThreadPoolExecutor(processors())
        kinds = [Target.parse(each).kind for each in request["targets"]]
        self._devices = self.threads.submit(device_labels, kinds)
        self._expected = self.threads.submit(self._reference_results)
        self._expected_at_borders = self.threads.submit(self._border_results)
        self._done = 0
        self._allowed = 0.0

    def _reference_results(self) -> list[list[Arrays]]:
        """Return the results of the other program for the calls of each run: those of PyTorch are
        given.
        """
        given = [[*map(_read_arrays, calls)] for calls in self._request["expected"]]
        if given:
            self._programs = ["PyTorch"] * len(given)
            return given
        results = []
        for _, calls in self._runs:
            results.append(self._results_of(calls))
            self._programs.append(self._reference.program)
        return results

    def _results_of(self, calls: Iterable[Arrays]) -> list[Arrays]:
        """Return the results of the other program for calls in a row."""
        states = self._first
        results = []
        for inputs in calls:
            own = self._reference.results(self._with_empty({**inputs, **states}))
            results.append(own)
            if own:
                states = self._next(own)
        return results

    def _border_calls(self) -> dict[str, Arrays]:
        """Return inputs at borders for further calls. Those that the user gives for `devmod onnx`
        stay. onnx.reference has too little time, and follows rules of its own.
        """
        given = set[str]()
        if not self._request["expected"]:
            given.update(*chain.from_iterable(self._request["inputs"]))
        names = []
        for name, (dtype, _) in self._model.inputs.items():
            if "float" in dtype and given.isdisjoint((name, "")):
                names.append(name)
        if not names or not self._at_borders.program:
            return {}
        _, calls = self._runs[-1]
        return {what: draw(calls[-1], names, what) for what in (GRID, NOT_FINITE)}

    def _border_results(self) -> dict[str, tuple[Arrays, Arrays]]:
        """Return the inputs and states of the further calls, and the results of onnxruntime."""
        results: dict[str, tuple[Arrays, Arrays]] = {}
        last = self._expected.result()[-1][-1]
        for what, inputs in self._borders.items():
            if not last:
                break
            given = {**inputs, **self._next(last)}
            last = self._at_borders.results(self._with_empty(given))
            if last:
                results[what] = (given, last)
        return results

    def _next(self, results: Mapping[str, Any]) -> Arrays:
        """Return the next values of the states among results."""
        return {name: results[state.output] for name, state in self._model.states.items()}

    def _with_empty(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs of the file: also those that are constants here, as those without
        elements are.
        """
        model = self._model
        empty = {name for name, each in model.constants.items() if not each.size}
        return inputs | {name: model.constants[name] for name in empty | model.given}

    def _step(self, text: str) -> None:
        """Report what is compared next."""
        devices = len(self._devices.result())
        steps = len(self._runs) * (devices + 2)
        self._report(text, _CHECKS + (1 - _CHECKS) * self._done / steps)
        self._done += 1

    def run(
        self, module: devmod.Module, recording: Recording, states: Mapping[str, Tensor]
    ) -> list[str]:
        """Return lines about the results for all inputs. `states` has the tensors that the recorded
        kernels assign.

        Raises
        ------
        CompileError
            A result is wrong.
        """
        self._allowed = tolerance(module)
        name = self._request["name"]
        file = self._request["output"]
        running: dict[str, Any] = {}
        further: dict[str, Any] = {}

        def results(count: int) -> Iterator[tuple[str, str, list[Any]]]:
            for label, each in running.items():
                self._step(f"checking on {label}")
                problem, got = each.result()
                if not problem:
                    further[label] = got[count:]
                yield label, problem, got[:count]

        lines = []
        for number, (lengths, calls) in enumerate(self._runs):
            count = len(calls)
            every = calls
            further.clear()  # a device may run the least lengths alone
            if number == len(self._runs) - 1:
                every = [*calls, *self._borders.values()]
            values = [[*inputs.values()] for inputs in every]
            for label in self._devices.result():
                running[label] = self.threads.submit(results_on, label, file, name, values)

            self._step("computing on tinygrad:CPU")
            if len(running) >= processors():  # the compilers of devices take longer
                wait(running.values(), return_when=FIRST_COMPLETED)
            own = self._own_results(recording, lengths, every, states)
            own_lines = [self._compare_own(number, calls, own)]
            outputs = [[*each.values()][: len(self._model.outputs)] for each in own]
            movements = partial(self._movements_of, every, own)
            own_lines += check_devices(module, name, results(count), outputs[:count], movements)
            where = ""
            if lengths:
                where = f" ({', '.join(f'{key}={length}' for key, length in lengths.items())})"
            lines += [line + where for line in (*own_lines, *remarks(outputs[count - 1]))]
        return lines + self._compare_borders(module, own[count:], further, movements)

    def _compare_borders(
        self,
        module: devmod.Module,
        own: Sequence[Arrays],
        further: Mapping[str, Any],
        movements: Callable[[int], list[float]],
    ) -> list[str]:
        """Compare the results of the further calls, `own` those of tinygrad and `further` those of
        devices, and return lines about what is not judged.
        """
        self._report("comparing results at borders", 1.0)
        expected = self._expected_at_borders.result()
        calls = len(self._runs[-1][1])
        for number, (what, results) in enumerate(zip(self._borders, own, strict=True)):
            if what not in expected:
                problem = self._at_borders.problem
                return [f"not compared{what}: {problem}"] if problem else []
            given, wanted = expected[what]
            if not self._is_right_there(what, given, results, wanted):
                return [
                    f"not judged{what}: each node alone is right, or ONNX leaves its result open"
                ]
            outputs = [*results.values()][: len(self._model.outputs)]
            for label, got in further.items():
                kind = label.partition(":")[0]
                if what == NOT_FINITE and (kind in FAST or is_open(self._model.nodes)):
                    continue
                found = (label, "", [got[number]])
                call = calls + number
                name = self._request["name"]
                check_devices(module, name, [found], [outputs], movements, what, call)
        return []

    def _is_right_there(
        self, what: str, given: Arrays, own: Arrays, wanted: Mapping[str, Any]
    ) -> bool:
        """Compare tinygrad's results of a further call. Return whether they are those of
        onnxruntime: where they are not finite, each node alone is judged.

        Raises
        ------
        CompileError
            A node gives something else.
        """
        reference = self._at_borders
        if what == GRID:
            self._compare_call(given, own, wanted, what, reference)
            return True
        try:
            results = [wanted[name] for name in own]
            compare_all("it", [*own.values()], results, reference.program, self._allowed)
        except CompileError:
            values = reference.results(self._with_empty(given), every=True)
            with settings(NOOPT=1):
                self._compare_nodes(_tensors(given), values, reference, what)
            return False
        return True

    def _own_results(
        self,
        recording: Recording,
        lengths: Mapping[str, int],
        calls: Iterable[Arrays],
        tensors: Mapping[str, Tensor],
    ) -> list[Arrays]:
        """Return tinygrad's results of calls in a row, also the next values of states: of the
        recorded kernels, or for lengths of a call, of those that a trace with these lengths gives.
        """
        states = self._first
        results = []
        for inputs in calls:
            if lengths:
                with settings(NOOPT=1):
                    returned = Runner(self._model).run(_tensors({**inputs, **states}))
            else:
                outputs = recording.evaluate([*inputs.values()])
                returned = dict(zip(self._model.outputs, outputs, strict=True))
                for name, state in self._model.states.items():
                    returned[state.output] = Tensor(buffer_of(tensors[name])).reshape(state.shape)
            # A later call writes to the same buffers.
            own = {name: np.array(array_of(each)) for name, each in returned.items()}
            states = self._next(own)
            results.append(own)
        return results

    def _compare_own(self, number: int, calls: Sequence[Arrays], own: Sequence[Arrays]) -> str:
        """Compare tinygrad's results of a run, and return a line about it."""
        self._step("comparing with another program")
        expected = self._expected.result()[number]
        self._program = self._programs[number]
        if not all(expected):
            return f"not compared with another program: {self._reference.problem}"
        program = self._program
        states = self._first
        differences = []
        moved = 0.0
        for at, inputs in enumerate(calls):
            where = call_text(at, calls)
            given = {**inputs, **states}
            own_differences, movement = self._compare_call(
                given, own[at], expected[at], where, self._reference
            )
            differences += own_differences
            moved = max(moved, movement)
            if self._model.states:
                states = self._next(expected[at])
        line = summary(["tinygrad:CPU"], program, differences) + calls_text(calls)
        if moved:
            line += f"; each node alone is right, and other last digits of its values move a result by {moved:.1e}"
        return line

    def _compare_call(
        self,
        inputs: Arrays,
        own: Arrays,
        expected: Mapping[str, Any],
        where: str,
        reference: Reference,
    ) -> tuple[list[Difference], float]:
        """Compare tinygrad's results of a call. Where they differ, some node alone does, too: else
        it is the last digits that many nodes enlarge, and no more than these. Return the
        differences, and how far last digits move a result, if that is why they are allowed.
        """
        program = reference.program
        border = where
        if reference is self._reference:
            program = self._program
            border = ""
        got = [*own.values()]
        wanted = [expected[name] for name in own]
        try:
            place = f"tinygrad on the CPU{where}"
            return compare_all(place, got, wanted, program, self._allowed), 0.0
        except CompileError:
            self._report(f"comparing each node with {reference.program}", 1.0)
            values = reference.results(self._with_empty(inputs), every=True)
            if not values:
                raise
            tensors = _tensors(inputs)
            with settings(NOOPT=1):
                self._compare_nodes(tensors, values, reference, border)
                movements = self._movements(tensors)
            place = f"tinygrad on the CPU{where}, where each node alone is right,"
            moved = [movements[name] for name in own]
            differences = compare_all(place, got, wanted, program, self._allowed, moved)
            return differences, max(moved)

    def _compare_nodes(
        self,
        tensors: dict[str, Tensor],
        values: Mapping[str, Any],
        reference: Reference,
        where: str = "",
    ) -> None:
        """Compare the results of each node that gets those of the reference, `values`."""

        def judge(node: Node, current: Any) -> None:
            self._report(f"comparing {_called(node)}", 1.0)
            is_judged = where != NOT_FINITE or not is_open([node])
            for name in node.outputs:
                if name not in values or not isinstance(current.get(name), Tensor):
                    continue
                got = array_of(runner.restored(name))
                what = f"{_called(node)}: {_maker(node)} computes it wrongly{where}: its output {quote_name(name)}"
                if is_judged:
                    compare(what, got, values[name], reference.program, self._allowed)
                current[name] = tensor_of(values[name])

        runner = Runner(self._model)
        runner.run(tensors, judge)

    def _movements_of(
        self, calls: Sequence[Arrays], own: Sequence[Arrays], number: int
    ) -> list[float]:
        """Return how far each output of a call moves if the last digits of each value change."""
        states = self._first
        if number and self._model.states:
            states = self._next(own[number - 1])
        with settings(NOOPT=1):
            movements = self._movements(_tensors({**calls[number], **states}))
        return [movements[name] for name in self._model.outputs]

    def _movements(self, tensors: dict[str, Tensor]) -> dict[str, float]:
        """Return how far each result moves if the last digits of each value change."""
        random = np.random.default_rng(0)

        def change(node: Node, current: Any) -> None:
            self._report(f"changing the last digits of {_called(node)}", 1.0)
            for name in node.outputs:
                value = current.get(name)
                if isinstance(value, Tensor):
                    changed = with_other_digits(array_of(value), random, self._allowed)
                    current[name] = tensor_of(changed)

        runner = Runner(self._model)
        runner.trial(tensors)  # values that depend on no input give shapes, and stay
        draws: dict[str, list[Any]] = {}
        for _ in range(_DRAWS):
            for name, each in runner.run(tensors, change).items():
                draws.setdefault(name, []).append(array_of(each))
        movements = {}
        for name, arrays in draws.items():
            ranges = np.ptp(np.array(arrays, np.float64), axis=0)
            movements[name] = float(np.nanmax(ranges, initial=0))
        return movements


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return tensors of arrays by name."""
    return {name: tensor_of(each) for name, each in arrays.items()}


def _dim(text: str) -> Any:
    """Return the lengths of a text: 3, 1..64, 32..640:32 or 1,3,1..64."""
    values: list[Any] = []
    for each in text.split(","):
        numbers = [*map(int, each.replace(":", "..").split(".."))]
        values.append(tuple(numbers) if len(numbers) > 1 else numbers[0])
    if "," in text:
        return values
    return values[0]


# -- Inputs.


def _read_arrays(paths: Mapping[str, str]) -> dict[str, Any]:
    """Return the arrays of files by name."""
    return dict(zip(paths, map(_read_array, paths.values()), strict=True))


def _read_array(path: str) -> Any:
    why = "expected a file .npy with one array of numbers, got another file"
    try:
        array = np.load(path, allow_pickle=False)
        if isinstance(array, np.ndarray):
            return typed(array)
        array.close()
        why = "expected a file .npy with one array, got an archive .npz"
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, EOFError) as error:
        if "allow_pickle" not in str(error):  # NumPy's advice for all that is no array
            why = f"this is no file .npy of NumPy: {error}"
    raise ArgumentError(f"--inputs {path}: {why}", argument="inputs")


def choose_inputs(model: Model, *given: Arrays, buckets: Buckets | None = None) -> Runs:
    """Return the lengths that a call chooses and arrays for one run, or for two: with the least and
    with the largest lengths. Each range of `buckets` has its own. A run of a model with state has
    several calls.

    Floats are normally distributed. Integers are 0 to 255, or fewer where they are indices of a
    constant.

    Parameters
    ----------
    given
        Arrays for each call. The last ones are for all further calls, too.

    Raises
    ------
    ArgumentError
        A given array does not fit.
    """
    given = given or ({},)
    if buckets is not None:
        return _inputs_of_buckets(model, given, buckets)
    lengths: dict[str, int] = {}
    for each in given:
        lengths |= _given_lengths(model, each)
    least = {}
    most = {}
    for side in _ranges(model):
        least[side.name] = side.low
        most[side.name] = side.high
    choices = [most | lengths]
    if most.keys() - lengths:
        choices.insert(0, least | lengths)
    count = 1
    if model.states:
        count = max(_CALLS, len(given))
    result = []
    for choice in choices:
        calls = []
        for call in range(count):
            arrays = {name: _random(model, name, choice, call) for name in model.inputs}
            calls.append(arrays | given[min(call, len(given) - 1)])
        result.append((choice, calls))
    return result


def _inputs_of_buckets(model: Model, given: Sequence[Arrays], buckets: Buckets) -> Runs:
    """Return runs for each range of a length. Given arrays with the length are for their range,
    which is the last.
    """
    lengths: dict[str, int] = {}
    for each in given:
        lengths |= _given_lengths(model, each)
    others = set(model.inputs)
    for name, (_, shape) in model.inputs.items():
        if buckets.name in [getattr(side, "name", None) for side in shape]:
            others.remove(name)
    last = buckets.ranges[-1]
    if buckets.name in lengths:
        last = buckets.bucket_of(lengths[buckets.name])
    runs: Runs = []
    for bucket in sorted(buckets.ranges, key=lambda each: each == last):
        own = buckets.model_of(model, bucket)
        arrays = given
        if bucket != last:
            arrays = [{name: each[name] for name in others & each.keys()} for each in given]
        for chosen, calls in choose_inputs(own, *arrays):
            runs.append(({buckets.name: bucket.low, **chosen}, calls))
    return runs


def _ranges(model: Model) -> Iterator[Range]:
    """Yield the lengths of inputs that a call chooses."""
    for _, shape in model.inputs.values():
        for side in shape:
            if isinstance(side, Range):
                yield side


def _given_lengths(model: Model, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the lengths that arrays fix, by name.

    Raises
    ------
    ArgumentError
        An array does not fit.
    """
    lengths: dict[str, int] = {}
    for name, array in given.items():
        dtype, shape = model.inputs[name]
        fits = True
        for length, side in zip(array.shape, shape, strict=True):
            wanted: Any = side
            if isinstance(side, Range):
                is_multiple = length % side.step == 0
                fits = fits and is_multiple and side.low <= length <= side.high
                wanted = lengths.setdefault(side.name, length)
            fits = fits and length == wanted
        _check_array(name, array, dtype, shape, fits=fits)
    return lengths


def _check_array(name: str, array: Any, dtype: str, shape: Shape, *, fits: bool = True) -> None:
    """Raise an error for an array of another element type, or whose shape does not fit."""
    if not fits or str(array.dtype) != dtype:
        raise ArgumentError(
            f"--inputs {name}: expected {_text(dtype, shape)}, got {_text(array.dtype, array.shape)}",
            argument=name,
        )


def _lengths(shape: Shape, lengths: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a shape with lengths in the place of ranges."""
    result = []
    for side in shape:
        result.append(lengths[side.name] if isinstance(side, Range) else side)
    return tuple(result)


def _random(model: Model, name: str, lengths: Mapping[str, int], call: int) -> Any:
    """Return an array for an input of a call: another for each. Integers that nodes divide by are
    not 0, and lengths of sequences are those that an axis has.
    """
    inputs = [*model.inputs]
    random = np.random.default_rng(inputs.index(name) + call * len(inputs))
    dtype = model.inputs[name][0]
    shape = _lengths(model.inputs[name][1], lengths)
    if "float" in dtype:
        return random.standard_normal(shape).astype(dtype)
    least, most = {"bool": (0, 1), "int8": (-128, 127)}.get(dtype, (0, 255))
    aliases = {name}
    for node in model.nodes:
        if node.operator in _SAME_ELEMENTS and node.inputs[0] in aliases:
            aliases.add(node.outputs[0])
        place = _SEQUENCE_LENGTHS.get(node.operator)
        if place is not None and place < len(node.inputs) and node.inputs[place] in aliases:
            least = max(least, 0)
            most = min(most, _longest_sequence(model, node, lengths))
        if len(node.inputs) < 2 or node.inputs[1] not in aliases:
            continue
        if node.operator.startswith("Gather") and node.inputs[0] in model.constants:
            for side in model.constants[node.inputs[0]].shape:
                most = min(most, side - 1)
        if node.operator in _DIVISIONS:
            least = 1
    return random.integers(least, most + 1, shape).astype(dtype)


def _longest_sequence(model: Model, node: Node, lengths: Mapping[str, int]) -> int:
    """Return the length of the axis that the sequences of a node are along, or 1 if it is not that
    of an input.
    """
    if node.inputs[0] not in model.inputs:
        return 1
    axis = node.attributes.get("time_axis", 0)
    if node.attributes.get("layout"):
        axis = 1
    return int(_lengths(model.inputs[node.inputs[0]][1], lengths)[axis])


def example_tensors(model: Model, lengths: Mapping[str, int]) -> dict[str, Tensor]:
    """Return tensors of the inputs without values, with the lengths that a call chooses as bound
    variables.
    """
    bound = {}
    for each in _ranges(model):
        name = re.sub(r"\W", "_", each.name)
        if each.step > 1:
            name = multiple_name(name, each.step)
        variable = Variable(name, each.low // each.step, each.high // each.step)
        bound[each.name] = variable.bind(lengths[each.name] // each.step) * each.step
    result = {}
    for name, (dtype, shape) in model.inputs.items():
        result[name] = Tensor.empty(*_lengths(shape, bound), dtype=getattr(dtypes, dtype))
    return result


# -- The lines about a program.


def _text(dtype: Any, shape: Any) -> str:
    return f"{dtype}[{', '.join(getattr(side, 'name', str(side)) for side in shape)}]"


def _about(module: devmod.Module, name: str, model: Model) -> tuple[list[str], str]:
    """Return the names of the inputs and the outputs in the program, and a line about it."""
    programs = []
    part: Any
    for part in walk(module):
        if part.kind == "program":
            programs.append(read_program(name, part.functions[name], part.code[name]))
    counts = dict.fromkeys(
        f"{count_text(len(each.kernels), 'kernel')}, {count_text(len(each.steps), 'step')}"
        for each in programs
    )
    arrays = list(programs[0].arrays("constant"))
    constants = count_text(len(arrays), "constant")
    if arrays:
        total = sum(each.nbytes([int(str(side)) for side in each.shape]) for each in arrays)
        constants += f" ({size(total)})"

    names = []
    shown = []
    for array in programs[0].arrays("input", "state", "output"):
        if array.role != "state":
            names.append(array.name)
        lengths = map(expression_text, array.shape)
        shown.append(f"{array.role} {array.name}: {_text(array.type, lengths)}")
    for key, own in zip((*model.inputs, *model.outputs), names, strict=True):
        if key != own:
            shown.append(f"{key!r} is {own}")
    return names, f"{name}: {' or '.join(counts)}, {constants}; {'; '.join(shown)}"
