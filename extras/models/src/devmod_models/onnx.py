"""Models in files of ONNX: their nodes, their constants as arrays, and their inputs with lengths.
The package `onnx` parses the file.

A file comes from a stranger. What it says is compared with the bytes that are there before anything
is allocated.
"""

from __future__ import annotations

import os
import re
from collections import ChainMap, Counter
from math import prod
from mmap import ACCESS_READ, mmap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from devmod.backend import open_regular
from devmod.errors import (
    ArgumentError,
    CompileError,
    FormatError,
    ToolchainNotFoundError,
    did_you_mean,
    list_names,
    not_installed,
    quote_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    #: A tensor of the file. NumPy gets bfloat16 from ml_dtypes, which the package onnx needs.
    Constant = np.ndarray[Any, Any]

__all__ = [
    "Dim",
    "Graph",
    "Model",
    "Node",
    "Range",
    "Shape",
    "State",
    "read_constants",
    "read_model",
]

#: What protobuf takes, and the most nodes, initializers and inputs.
MAX_BYTES = (1 << 31) - 1
MAX_NODES = 100_000
#: The most elements of an array: kernels index them by int32.
MAX_ELEMENTS = (1 << 31) - 1
#: What errors name as their argument if another length may do: a fixed one, or smaller ones. Who
#: prints such an error adds how a caller chooses it.
FIXED_LENGTH = "length"
SMALLER_LENGTHS = "lengths"
#: The element types by ONNX's numbers.
TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
#: The types of attributes by ONNX's numbers: numbers and texts, of which one or many; graphs.
_PLAIN = (1, 2, 3, 6, 7, 8)
_GRAPHS = (5, 10)
#: The attributes of a node `Constant` that are numbers, with their element types.
_NUMBERS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}
# Where to change: an operator of ONNX that tinygrad lacks or computes wrongly
#   here: if ONNX defines it by others, `extras/models/src/devmod_models/_tinygrad/operators.py`
#     (`OPERATORS`), `more_operators.py` there, `fused.py` for one of Microsoft's, `recurrent.py`
#     for one that runs a cell for each position, `control.py` for one with graphs
#   also: `python tools/onnx_counts.py OPERATOR` runs its cases, and without a name writes the
#     counts of docs/models.md
#   tests: `tests/test_onnx_nodes.py`
#: The operators that tinygrad lacks or computes wrongly, and that ONNX itself writes by others.
_WRITTEN_BY_OTHERS = (
    *("Attention", "CausalConvWithState", "LinearAttention", "SpaceToDepth", "SwiGLU"),
)
#: The operators with graphs, and the most graphs around a node.
_CONTROL = ("If", "Loop", "Scan")
_MAX_GRAPHS = 8
#: Operators on tensors whose names have the words of other values.
_TENSOR_OPERATORS = ("OptionalGetElement", "OptionalHasElement", "ReverseSequence")
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
Result = TypeVar("Result")
#: A length; its first and last value; or these and the step between the values.
Length = int | tuple[int, int] | tuple[int, int, int]
#: One, or all those of an input.
Dim = Length | list[Length]


class Range(NamedTuple):
    """A length that each call chooses: a multiple of `step`."""

    name: str
    low: int
    high: int
    step: int = 1


Shape = tuple[int | Range, ...]


class Node(NamedTuple):
    """A node. A tensor among the attributes is an array, and a graph is a `Graph`."""

    operator: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]

    def walk(self) -> Iterator[Node]:
        """Yield the node, and those of the graphs in it."""
        yield self
        for graph in self._graphs:
            for node in graph.nodes:
                yield from node.walk()

    @property
    def _graphs(self) -> list[Graph]:
        return [each for each in self.attributes.values() if isinstance(each, Graph)]

    @property
    def uses(self) -> set[str]:
        """The names of the values that it uses, also in its graphs."""
        result = set(self.inputs)
        for graph in self._graphs:
            result.update(graph.outputs, *[node.uses for node in graph.nodes])
        return result


class Graph(NamedTuple):
    """A graph within a node: the names of its inputs and of its results, and its nodes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]


class State(NamedTuple):
    """An input that keeps its value from call to call: its element type, its shape, and the name of
    the output that is its next value.
    """

    dtype: str
    shape: tuple[int, ...]
    output: str


class Model(NamedTuple):
    """What a file has.

    Attributes
    ----------
    inputs
        The element type and the shape of each input.
    outputs, nodes
        The names of the outputs, and the nodes, each after those whose outputs it uses.
    constants
        The initializers, and the values of nodes `Constant`.
    notes
        Sentences about what the file leaves open and this reader has chosen.
    chosen
        The names of lengths that are 1 because the caller gave none.
    halved
        The names of the constants that are float16 here, and float32 in the file.
    half
        "all" if nodes compute in float16, too.
    states
        The inputs that are state, which are not among `inputs`, nor are their next values among
        `outputs`.
    given
        The names of the constants that are inputs in the file.
    """

    inputs: dict[str, tuple[str, Shape]]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: dict[str, Constant]
    notes: tuple[str, ...]
    chosen: tuple[str, ...]
    halved: frozenset[str] = frozenset()
    half: str = ""
    states: Mapping[str, State] = MappingProxyType({})
    given: frozenset[str] = frozenset()


def read_model(
    path: str | os.PathLike[str],
    dims: Mapping[str, Dim],
    states: Mapping[str, str] = MappingProxyType({}),
    constants: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Model:
    """Read a model, and external data from files below its folder alone.

    Parameters
    ----------
    path
        The file.
    dims
        The lengths that the file leaves open: by input and axis as in "x.0", by the name that the
        file has for a length, or all those of an input; "" is the only input. A pair of numbers is
        a range from which each call chooses, and with a third number it chooses a multiple of that.
        A first length that is missing is 1.
    states
        The inputs that are state, with the names of the outputs that are their next values.
    constants
        The inputs that are constants, with the texts of their numbers: one for all elements, or
        one for each.

    Raises
    ------
    FormatError
        The file is damaged, or exceeds a limit.
    CompileError
        No program has what the model does: control flow, sequences, strings, several devices.
    ArgumentError
        A length is missing, contradicts the file, or is not in it; or a state is, or a constant.
    ToolchainNotFoundError
        The package `onnx` is not installed.
    """

    def read(model: Any, files: _Files) -> Model:
        return _with_states(_with_constants(_model(model, files, dims), constants), states)

    return _read(path, read)


def read_constants(path: str | os.PathLike[str]) -> dict[str, Constant]:
    """Read the constants of a model alone, by name.

    Raises as `read_model`.
    """
    return _read(path, _constants)


def _read(path: str | os.PathLike[str], read: Callable[[Any, _Files], Result]) -> Result:
    """Return what `read` returns for the model in a file. Its errors get the name of the file."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        missing = not_installed("the package onnx", "devmod-core[onnx]", "onnx")
        raise ToolchainNotFoundError(f"files of ONNX cannot be read here: {missing}") from error
    name = os.fspath(path)
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise ValueError(
                    f"the file has {size} bytes, more than {MAX_BYTES}; store its constants as external data"
                )
            model = onnx.ModelProto.FromString(file.read())
            _check_names(model.graph)
            return read(model, _Files(os.path.dirname(name)))
        except DecodeError as error:
            raise FormatError(
                f"{name}: this is no model of ONNX, or it is damaged: {error}"
            ) from None
        except CompileError as error:
            raise CompileError(f"{name}: {error}") from None
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error}", argument=error.argument or "dims") from None
        except (ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"{name}: {error}") from None


def _check_names(graph: Any) -> None:
    """Raise an error if there are too many nodes or values, or several of one name."""
    for what, values in (
        ("nodes", graph.node),
        ("initializers", graph.initializer),
        ("inputs", graph.input),
    ):
        if len(values) > MAX_NODES:
            raise ValueError(f"the graph has {len(values)} {what}, more than {MAX_NODES}")
        if what == "nodes":
            continue
        for name, count in Counter(each.name for each in values).most_common(1):
            if count > 1:
                raise ValueError(f"{count} of the {what} have the name {quote_name(name)}")
    if graph.sparse_initializer:
        raise CompileError("the graph has sparse initializers, which no program has")


def _initializers(graph: Any, files: _Files) -> dict[str, Constant]:
    return {
        each.name: _tensor(each, f"the initializer {quote_name(each.name)}", files)
        for each in graph.initializer
    }


def _constants(model: Any, files: _Files) -> dict[str, Constant]:
    result = _initializers(model.graph, files)
    for each in model.graph.node:
        if each.op_type == "Constant" and each.output:
            what = _described(each)
            attributes = {one.name: _attribute(one, what, files) for one in each.attribute}
            result[each.output[0]] = _value(attributes, what)
    return result


def _written_by_others(model: Any) -> Any:
    """Return a model with others in the place of some operators, by ONNX's definitions of these."""
    from onnx.inliner import inline_selected_functions

    names = {each.op_type for each in model.graph.node if not _domain(each.domain)}
    own = {each.name for each in model.functions}
    wanted = [name for name in _WRITTEN_BY_OTHERS if name in names - own]
    if not wanted:
        return model
    # onnx looks up the type of an input that a node leaves out, too, and those of constants.
    values = model.graph.value_info
    values.add().type.tensor_type.elem_type = 1
    known = {each.name for each in (*values, *model.graph.input)}
    for each in model.graph.initializer:
        if each.name not in known:
            own = values.add(name=each.name)
            own.type.tensor_type.elem_type = each.data_type
            for length in each.dims:
                own.type.tensor_type.shape.dim.add(dim_value=length)
    try:
        result = inline_selected_functions(
            model, [("", name) for name in wanted], inline_schema_functions=True
        )
    except Exception as error:  # noqa: BLE001 - onnx's C++ may raise anything
        raise ValueError(
            f"the definition of {', '.join(wanted)} does not fit the model: {error}"
        ) from None
    _check_names(result.graph)
    return result


def _model(model: Any, files: _Files, dims: Mapping[str, Dim]) -> Model:
    from onnx.defs import onnx_opset_version

    model = _written_by_others(model)
    graph = model.graph
    notes: list[str] = []
    constants = _initializers(graph, files)
    read = _Inputs([each for each in graph.input if each.name not in constants], dims, notes)
    read.move_empty(constants)
    inputs = read.result
    reader = _Nodes(model, files, constants, {"", *constants, *inputs})
    version = reader.versions.get("", 0)
    newest = onnx_opset_version()
    if version > newest:
        notes.append(
            f"its operators are of version {version}, and the package onnx knows {newest}: newer rules are not followed"
        )
    nodes = reader.nodes_of(graph)

    outputs = tuple(dict.fromkeys(each.name for each in graph.output))
    for name in outputs:
        if name not in reader.known:
            raise ValueError(f"no node has the output {quote_name(name)} of the graph")
    if not outputs or "" in outputs:
        raise ValueError("the graph has no output")
    return Model(inputs, outputs, nodes, constants, tuple(notes), tuple(read.chosen))


def _with_constants(model: Model, given: Mapping[str, Sequence[str]]) -> Model:
    """Return a model of which some inputs are constants."""
    import numpy as np

    inputs = dict(model.inputs)
    constants = dict(model.constants)
    for name, texts in given.items():
        if name not in inputs:
            advice = did_you_mean(name, inputs) or "."
            raise ArgumentError(
                f"a constant is given for the input {quote_name(name)}, and the model has no such input{advice} "
                f"The inputs: {list_names(inputs)}",
                argument="constants",
            )
        dtype, shape = inputs.pop(name)
        lengths = [side for side in shape if isinstance(side, int)]
        count = prod(lengths)
        if len(lengths) < len(shape) or len(texts) not in (1, count):
            sides = [getattr(side, "name", side) for side in shape]
            raise ArgumentError(
                f"the input {quote_name(name)} is {dtype}{sides}, and {len(texts)} numbers are given: "
                "expected one, or one for each element of fixed lengths",
                argument="constants",
            )
        try:
            values = np.array([_number_of(text, dtype) for text in texts]).astype(dtype)
            constants[name] = np.broadcast_to(values, (count,)).reshape(lengths).copy()
        except (ValueError, OverflowError):
            raise ArgumentError(
                f"the input {quote_name(name)} is {dtype}, and {', '.join(texts):.100} is no number of this type",
                argument="constants",
            ) from None
    return model._replace(inputs=inputs, constants=constants, given=frozenset(given))


def _number_of(text: str, dtype: str) -> Any:
    """Return the number of a text. A whole one has no digits behind a point."""
    import numpy as np

    if "float" in dtype:
        return float(text)
    number = int(text)
    least, most = 0, 1
    if dtype != "bool":
        limits = np.iinfo(dtype)
        least, most = limits.min, limits.max
    if not least <= number <= most:
        raise OverflowError(f"{number} is not {least} to {most}")
    return np.array(number, dtype)


def _with_states(model: Model, states: Mapping[str, str]) -> Model:
    """Return a model of which some inputs are state."""
    inputs = dict(model.inputs)
    own = {}
    for name, output in states.items():
        for what, each, known in (("input", name, inputs), ("output", output, model.outputs)):
            if each not in known:
                advice = did_you_mean(each, known) or "."
                raise ArgumentError(
                    f"a state is an input and the output that is its next value, and the model has no {what} {quote_name(each)}{advice} "
                    f"The {what}s: {list_names(known)}",
                    argument="states",
                )
        dtype, shape = inputs.pop(name)
        lengths = tuple(side for side in shape if isinstance(side, int))
        if len(lengths) < len(shape):
            raise ArgumentError(
                f"the input {quote_name(name)} is state, which has one shape, and each call chooses a length of it; "
                f"choose that now: --dim {name}=N,N,…",
                argument="states",
            )
        own[name] = State(dtype, lengths, output)
    outputs = tuple(each for each in model.outputs if each not in states.values())
    if not outputs:
        raise ArgumentError(
            f"each output is the next value of a state: {list_names(model.outputs)}. A program has a result",
            argument="states",
        )
    return model._replace(inputs=inputs, outputs=outputs, states=own)


class _Nodes:
    """The nodes of a model.

    Parameters
    ----------
    model, files
        The model, and the files beside it.
    constants
        The initializers, to which the values of nodes `Constant` are added.
    known
        The names of the inputs and the constants.

    Attributes
    ----------
    known
        The names of all values before the next node.
    versions
        The versions of the operators by their domain.
    """

    def __init__(
        self, model: Any, files: _Files, constants: dict[str, Constant], known: set[str]
    ) -> None:
        self._files = files
        self._constants = constants
        self.versions = {_domain(each.domain): each.version for each in model.opset_import}
        self._functions = {(_domain(each.domain), each.name) for each in model.functions}
        self.known = known
        #: The names here of values of graphs around the next node, the innermost graph first.
        self._scopes: ChainMap[str, str] = ChainMap()

    def nodes_of(self, graph: Any) -> tuple[Node, ...]:
        """Return the nodes of a graph. Raise an error for one that no program has, or that uses a
        name before its value.
        """
        return tuple(filter(None, map(self._read, graph.node)))

    def _read(self, node: Any) -> Node | None:
        """Return a node; None for a constant."""
        what = _described(node)
        domain = _domain(node.domain)
        self._check(node, domain, what)
        attributes: dict[str, Any] = {}
        for each in node.attribute:
            # Before version 6, a node could name inputs whose memory it may use.
            if each.name == "consumed_inputs":
                continue
            if each.type == 5 and node.op_type in _CONTROL:
                attributes[each.name] = self._graph(each.g, what)
            else:
                attributes[each.name] = _attribute(each, what, self._files)
        inputs = tuple(self._scopes.get(each, each) for each in node.input)
        outputs = self._bind(node, what, inputs)
        if node.op_type == "Constant" and outputs:
            self._constants[outputs[0]] = _value(attributes, what)
            return None
        version = self.versions[domain]
        if node.op_type in _CONTROL:
            if node.op_type == "Scan" and version < 9:
                raise CompileError(
                    f"{what}: a Scan of version 8 has a batch, and no program has that control flow"
                )
            _check_graphs(node, attributes, what)
        return Node(node.op_type, domain, version, inputs, outputs, attributes)

    def _graph(self, graph: Any, what: str) -> Graph:
        """Return a graph within a node. A value of it whose name another one has gets a new one."""
        if len(self._scopes.maps) > _MAX_GRAPHS:
            raise CompileError(f"{what}: graphs are nested more than {_MAX_GRAPHS} deep")
        _check_names(graph)
        self._scopes = self._scopes.new_child()
        inputs = tuple(self._new_name(each.name) for each in graph.input)
        for name, constant in _initializers(graph, self._files).items():
            self._constants[self._new_name(name)] = constant
        nodes = self.nodes_of(graph)
        outputs = tuple(self._scopes.get(each.name, each.name) for each in graph.output)
        for name in outputs:
            if name not in self.known:
                raise ValueError(f"{what}: its graph has no value {quote_name(name)}")
        self._scopes = self._scopes.parents
        return Graph(inputs, outputs, nodes)

    def _new_name(self, name: str) -> str:
        """Return a new name for a value of a graph within a node."""
        result = name
        number = 1
        while result in self.known:
            number += 1
            result = f"{name}_{number}"
        self._scopes[name] = result
        self.known.add(result)
        return result

    def _check(self, node: Any, domain: str, what: str) -> None:
        if (domain, node.op_type) in self._functions:
            raise CompileError(
                f"{what} is a function of the model; write the model with onnx.inliner.inline_local_functions first"
            )
        if domain not in self.versions:
            raise ValueError(
                f"{what}: the model imports no version of the operators of {domain or 'ai.onnx'}"
            )
        if node.device_configurations:
            raise CompileError(f"{what} is for several devices, and a program runs on one")
        if node.op_type in _TENSOR_OPERATORS:
            return
        if any(word in node.op_type for word in ("Sequence", "Optional", "String")):
            raise CompileError(f"{what}: no program has sequences, optional values or strings")

    def _bind(self, node: Any, what: str, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """Check the names of the inputs, make those of the outputs known, and return them."""
        for name in inputs:
            if name not in self.known:
                raise ValueError(
                    f"{what}: no input, initializer or earlier node has the name of its input {quote_name(name)}"
                )
        if len(self._scopes.maps) > 1:
            return tuple(self._new_name(name) if name else "" for name in node.output)
        for name in filter(None, node.output):
            if name in self.known:
                raise ValueError(
                    f"{what}: another value has the name of its output {quote_name(name)}"
                )
            self.known.add(name)
        return tuple(node.output)


def _check_graphs(node: Any, attributes: Mapping[str, Any], what: str) -> None:
    """Raise an error unless the graphs of a node take and return what it gives and needs."""
    names = ["body"]
    inputs = len(node.input)
    outputs = len(node.output)
    if node.op_type == "If":
        names = ["then_branch", "else_branch"]
        inputs = 0
    elif node.op_type == "Loop":
        inputs = max(inputs, 2)
        outputs += 1
    for name in names:
        graph = attributes.get(name)
        if not isinstance(graph, Graph) or (len(graph.inputs), len(graph.outputs)) != (
            inputs,
            outputs,
        ):
            raise ValueError(
                f"{what}: expected the graph {name!r} with {inputs} inputs and {outputs} outputs"
            )
    scanned = attributes.get("num_scan_inputs")
    is_valid = isinstance(scanned, int) and 1 <= scanned <= inputs
    if node.op_type == "Scan" and not is_valid:
        raise ValueError(f"{what}: num_scan_inputs is {scanned}, and it has {inputs} inputs")


def _described(node: Any) -> str:
    return f"{node.op_type} (output {quote_name(next(iter(node.output), ''))})"


def _domain(name: str) -> str:
    if name == "ai.onnx":
        return ""
    return name


def _attribute(attribute: Any, what: str, files: _Files) -> Any:
    """Return the value of an attribute."""
    from onnx.helper import get_attribute_value

    what = f"{what}: the attribute {quote_name(attribute.name)}"
    if attribute.type == 4:
        return _tensor(attribute.t, what, files)
    if attribute.type in _GRAPHS:
        raise CompileError(f"{what} is control flow")
    if attribute.type not in _PLAIN:
        raise CompileError(f"{what} is of no type that nodes have")
    value = get_attribute_value(attribute)
    if attribute.type > 5:
        return tuple(map(_plain, value))
    return _plain(value)


def _value(attributes: Mapping[str, Any], what: str) -> Constant:
    """Return the value of a node `Constant`."""
    import numpy as np

    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            return value
        if name in _NUMBERS:
            return np.array(value, _NUMBERS[name])
    raise CompileError(f"{what} has strings, or no value")


def _plain(value: Any) -> Any:
    """Return a number or a text of an attribute."""
    if isinstance(value, bytes):
        return value.decode()
    return value


def _type(number: int, what: str) -> str:
    if number not in TYPES:
        from onnx import TensorProto

        names = {value: name.lower() for name, value in TensorProto.DataType.items()}
        raise CompileError(
            f"{what} has ONNX's element type {names.get(number, number)}, which no program has; the types are {', '.join(TYPES.values())}"
        )
    return TYPES[number]


def _tensor(tensor: Any, what: str, files: _Files) -> Constant:
    """Return a constant of the file."""
    import numpy as np
    from onnx.numpy_helper import to_array

    dtype = _type(tensor.data_type, what)
    dims = tuple(tensor.dims)
    stored = np.dtype({"bool": "uint8"}.get(dtype, dtype)).newbyteorder("<")
    size = prod(dims) * stored.itemsize
    try:
        if min(dims, default=0) < 0:
            raise ValueError("a length is negative")
        if not size:  # some programs write data for it
            return np.empty(dims, dtype)
        if tensor.data_location == 1:
            data = files.read(tensor.external_data, size)
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
        else:
            return np.asarray(to_array(tensor))
        return np.frombuffer(data, stored).reshape(dims).astype(dtype, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{what}, {dtype}{list(dims)!s:.200}: {error}") from None


class _Files:
    """The files below a folder that have the data of constants. They are mapped: all constants take
    no more memory than the files.
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder or os.curdir)
        self.mapped: dict[str, memoryview] = {}

    def read(self, entries: Any, size: int) -> memoryview:
        """Return the bytes of a constant. `size` is the length that is expected."""
        values = {each.key: each.value for each in entries}
        location = values.get("location", "")
        numbers = [values.get("offset", "0"), values.get("length", str(size))]
        is_path = location and "\0" not in location
        if not is_path or not all(map(_NUMBER.fullmatch, numbers)):
            raise ValueError(
                f"its external data is not described by a location, an offset and a length: {values!r:.300}"
            )
        offset, length = map(int, numbers)
        path = os.path.realpath(os.path.join(self.folder, location))
        if os.path.isabs(location) or os.path.commonpath((self.folder, path)) != self.folder:
            raise ValueError(
                f"its external data is in {quote_name(location)}, which is not below the model's folder; copy it there"
            )
        if length != size:
            raise ValueError(f"it has {size} bytes, and its external data has {length}")
        if path not in self.mapped:
            try:
                with open_regular(path) as file:
                    self.mapped[path] = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            except OSError as error:
                raise ValueError(
                    f"its external data in {quote_name(location)} cannot be read: {error.strerror}"
                ) from None
        there = self.mapped[path]
        if offset + size > len(there):
            raise ValueError(
                f"{quote_name(location)} has {len(there)} bytes, and constants of more are said to be in it"
            )
        return there[offset : offset + size]


def _inner(kind: Any) -> Any:
    """Return the type of a value, which for an optional one is in its type."""
    if kind.WhichOneof("value") == "optional_type":
        return kind.optional_type.elem_type
    return kind


class _Inputs:
    """The element types and the shapes of inputs. `notes` gets sentences about them, and `chosen`
    the lengths that are 1 because the caller gave none.
    """

    def __init__(self, values: Sequence[Any], dims: Mapping[str, Dim], notes: list[str]) -> None:
        self.dims = dict(dims)
        if len(values) == 1 and "" in dims:
            self.dims.setdefault(values[0].name, self.dims.pop(""))
        #: What a caller may name, and by which names an error lists the lengths.
        self.known = set[str]()
        self.lengths: dict[str, None] = {}
        self.notes = notes
        self.chosen: list[str] = []
        self.missing: list[str] = []
        #: The names that the file has for lengths. An input may have one of them, too.
        self.labels = set[str]()
        for each in values:
            self.labels.update(side.dim_param for side in _inner(each.type).tensor_type.shape.dim)
        self.result = {each.name: self._read(each) for each in values}
        if unknown := next((key for key in self.dims if key not in self.known), None):
            advice = did_you_mean(unknown, self.known) or "."
            raise ArgumentError(
                f"no input and no length of one has the name {quote_name(unknown)}{advice} "
                f"The inputs: {list_names(self.result)}; their lengths: {list_names(self.lengths)}"
            )
        if self.missing:
            choices = " ".join(dict.fromkeys(self.missing))
            raise ArgumentError(
                f"the model leaves lengths open, so choose them: {choices}. A range such as 1..512 in the place of N "
                "is a length that each call chooses"
            )

    def move_empty(self, constants: dict[str, Constant]) -> None:
        """Make constants of the inputs without elements."""
        import numpy as np

        for name, (dtype, shape) in [*self.result.items()]:
            if 0 in shape:
                sides = [getattr(side, "high", side) for side in shape]
                constants[name] = np.empty(sides, dtype)
                del self.result[name]
                self.notes.append(
                    f"the input {quote_name(name)} has no elements, and no call gives it"
                )

    def _read(self, value: Any) -> tuple[str, Shape]:
        what = f"the input {quote_name(value.name)}"
        kind = _inner(value.type)
        if kind is not value.type:
            self.notes.append(f"{what} is optional, and each call gives it")
        if kind.WhichOneof("value") != "tensor_type":
            raise CompileError(
                f"{what} is no tensor; no program has sequences, optional values or maps"
            )
        sides = kind.tensor_type.shape.dim
        whole: Any = self.dims.get(value.name, [])
        if not isinstance(whole, list):
            whole = [whole]
            if value.name in self.labels:  # it is that length
                whole = []
        if not kind.tensor_type.HasField("shape"):
            for _ in whole:
                sides.add()
            if not whole:
                self.missing.append(f"--dim {value.name}=N,N,…")
        whole = whole or [None] * len(sides)
        if len(whole) != len(sides):
            raise ArgumentError(f"{what} has {len(sides)} dimensions, and its lengths are {whole}")
        self.known.add(value.name)
        result = []
        for axis, (side, given) in enumerate(zip(sides, whole, strict=True)):
            result.append(self._length(value.name, axis, side, given))
        count = prod(side if isinstance(side, int) else side.high for side in result)
        if count > MAX_ELEMENTS:
            raise ArgumentError(
                f"{what} has up to {count} elements, more than the {MAX_ELEMENTS} that a kernel indexes; choose smaller lengths",
                argument=SMALLER_LENGTHS,
            )
        return _type(kind.tensor_type.elem_type, what), tuple(result)

    def _length(self, name: str, axis: int, side: Any, given: Any) -> int | Range:
        """Return a length. `given` is that of all lengths of the input."""
        what = f"the input {quote_name(name)}"
        place = f"{name}.{axis}"
        fixed = max(side.dim_value, 0)
        label = side.dim_param
        self.known |= {place, label}
        key = label or place
        self.lengths[key] = None
        if place in self.dims:
            key = place
        value: Any = self.dims.get(key, given)
        if isinstance(value, list):  # those of an input with the name of a length
            value = given
        result: int | Range
        if value is None:
            value = fixed or self._open(what, axis, label, place)
        low = high = result = value
        least = 0
        if isinstance(value, tuple):
            low, high = value[:2]
            least = 1
            result = Range(key, *value)
            if not result.step or low % result.step or high % result.step:
                raise ArgumentError(
                    f"{what}, axis {axis}: its lengths are multiples of {result.step}, and {low} to {high} is given: "
                    "expected two of them"
                )
        if (fixed and value != fixed) or not least <= low <= high < 1 << 31:
            expected: Any = fixed or "a length of 1 or more, or a range of them"
            if high >= 1 << 31:
                expected = f"a length of at most {MAX_ELEMENTS}"
            got: Any = value
            if isinstance(value, tuple):
                got = f"{low} to {high}"
            raise ArgumentError(f"{what}, axis {axis}: expected {expected}, got {got}")
        return result

    def _open(self, what: str, axis: int, label: str, place: str) -> int:
        """Return 1 for a length that is open and that the caller did not give."""
        option = place
        if label.replace(".", "_").isidentifier():
            option = label
        if axis:
            self.missing.append(f"--dim {option}=N")
        else:
            self.chosen.append(option)
            self.notes.append(
                f"{what} leaves its first length open, which is 1 here; for another: --dim {option}=N; "
                f"for one that each call chooses: --dim {option}=1..N"
            )
        return 1
