"""The stand-in CUDA runtimes: graphs of nodes."""

from __future__ import annotations

import ctypes
from ctypes import byref

import pytest
from cudart_calls import Dim3, Program
from runtime_calls import (
    INVALID_VALUE,
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    ChannelFormat,
    Copy3D,
    Extent,
    PitchedPointer,
    Runtime,
)

pytestmark = pytest.mark.row("R55")
KERNEL, COPY, FILL, HOST, GRAPH, EMPTY = range(6)  # cudaGraphNodeType


class Fill(ctypes.Structure):
    """cudaMemsetParams."""

    _fields_ = (
        ("target", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Kernel(ctypes.Structure):
    """cudaKernelNodeParams."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", Dim3),
        ("block", Dim3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


class Node(ctypes.Structure):
    """cudaGraphNodeParams of a kernel."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("kernel", Kernel),
        ("more", ctypes.c_int64 * 30),
    )


class Graph:
    """A graph whose nodes follow each other."""

    def __init__(self, calls: Runtime) -> None:
        self.calls = calls
        self.handle = calls.make("cudaGraphCreate", 0)
        self.nodes: list[int] = []

    def add(self, name: str, *arguments: object) -> int:
        """Add a node behind the last one."""
        before = (ctypes.c_void_p * 1)(*self.nodes[-1:])
        count = len(self.nodes[-1:])
        self.nodes.append(self.calls.make(name, self.handle, before, count, *arguments))
        return self.nodes[-1]

    def add_any(self, node: Node) -> int:
        """Add a node of any kind, by the form that has data of edges."""
        before = (ctypes.c_void_p * 1)(*self.nodes[-1:])
        name = "cudaGraphAddNode" if self.calls.major == 13 else "cudaGraphAddNode_v2"
        arguments = (before, None, len(self.nodes[-1:]), byref(node))
        self.nodes.append(self.calls.make(name, self.handle, *arguments))
        return self.nodes[-1]

    def instantiate(self) -> int:
        """Return the executable graph."""
        return self.calls.make("cudaGraphInstantiateWithFlags", self.handle, 0)

    def launch(self, executable: int) -> None:
        """Launch an executable graph and wait for it."""
        self.calls.check("cudaGraphLaunch", executable, 0)
        self.calls.check("cudaStreamSynchronize", 0)


@pytest.fixture
def graph(calls: Runtime) -> Graph:
    return Graph(calls)


def counting(
    program: Program, by: ctypes.c_int, parameters: ctypes.Array[ctypes.c_void_p]
) -> Kernel:
    """Return the parameters of a kernel that adds three times a number to the counter."""
    parameters[0] = ctypes.addressof(by)
    address = program.address("count")
    return Kernel(address, Dim3(1, 1, 1), Dim3(2, 1, 1), 0, ctypes.addressof(parameters), None)


def test_the_nodes_of_a_graph_run_in_the_order_of_its_edges(calls: Runtime, graph: Graph) -> None:
    first, second = calls.upload(b"old!"), calls.upload(b"then")
    found: list[bytes] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def note(data: int) -> None:
        found.append(ctypes.string_at(data, 4))

    target = ctypes.create_string_buffer(4)
    fill = Fill(first, 0, 7, 1, 4, 1)
    nodes = [
        graph.add("cudaGraphAddMemsetNode", byref(fill)),
        graph.add("cudaGraphAddMemcpyNode1D", second, first, 4, ON_DEVICE),
        graph.add("cudaGraphAddEmptyNode"),
        graph.add("cudaGraphAddMemcpyNode1D", target, second, 4, TO_HOST),
        graph.add(
            "cudaGraphAddHostNode",
            (ctypes.c_void_p * 2)(
                ctypes.cast(note, ctypes.c_void_p).value, ctypes.addressof(target)
            ),
        ),
    ]
    executable = graph.instantiate()
    assert not found
    graph.launch(executable)
    fill.value = 9
    calls.check("cudaGraphExecMemsetNodeSetParams", executable, nodes[0], byref(fill))
    graph.launch(executable)
    assert found == [b"\7" * 4, b"\11" * 4]
    own = Fill()
    calls.check("cudaGraphMemsetNodeGetParams", nodes[0], byref(own))
    assert own.value == 7
    kinds = []
    for node in nodes:
        kind = ctypes.c_int()
        calls.check("cudaGraphNodeGetType", node, byref(kind))
        kinds.append(kind.value)
    assert kinds == [FILL, COPY, EMPTY, COPY, HOST]
    outer = Graph(calls)
    outer.add("cudaGraphAddChildGraphNode", graph.handle)
    outer.launch(outer.instantiate())
    assert found[2:] == [b"\7" * 4]


@pytest.mark.parametrize("generic", [False, True])
def test_a_kernel_of_a_graph_takes_its_parameters_when_it_is_added(
    calls: Runtime, graph: Graph, program: Program, generic: bool
) -> None:
    by, parameters = ctypes.c_int(2), (ctypes.c_void_p * 1)()
    kernel = counting(program, by, parameters)
    if generic:
        node = graph.add_any(Node(type=KERNEL, kernel=kernel))
    else:
        node = graph.add("cudaGraphAddKernelNode", byref(kernel))
    by.value = 100
    executable = graph.instantiate()
    graph.launch(executable)
    assert program.value() == 5 + 2 * 3 * 2
    own = Kernel()
    calls.check("cudaGraphKernelNodeGetParams", node, byref(own))
    assert (own.block.x, own.grid.x) == (2, 1)
    own.block.x = 1
    calls.check("cudaGraphExecKernelNodeSetParams", executable, node, byref(own))
    graph.launch(executable)
    assert program.value() == 5 + 2 * 3 * 3
    kernel.function = 0
    assert calls.cudaGraphKernelNodeSetParams(node, byref(kernel)) != 0


def test_nodes_copy_to_and_from_variables(calls: Runtime, graph: Graph, program: Program) -> None:
    table, target = program.address("table"), ctypes.create_string_buffer(4)
    graph.add("cudaGraphAddMemcpyNodeToSymbol", table, b"new!", 4, 12, TO_DEVICE)
    node = graph.add("cudaGraphAddMemcpyNodeFromSymbol", target, table, 4, 12, TO_HOST)
    graph.launch(graph.instantiate())
    assert target.raw == b"new!"
    name = "cudaGraphMemcpyNodeSetParamsFromSymbol"
    assert getattr(calls, name)(node, target, table, 4, 13, TO_HOST) == INVALID_VALUE


def test_a_node_returns_the_copy_that_it_does(calls: Runtime, graph: Graph) -> None:
    form = ChannelFormat(16, 0, 0, 0, 1)
    array = calls.make("cudaMallocArray", byref(form), 4, 2, 0)
    data = ctypes.create_string_buffer(bytes(range(8)), 8)
    source = PitchedPointer(ctypes.addressof(data), 4, 4, 2)
    copy = Copy3D(source=source, target_array=array, extent=Extent(2, 2, 1), kind=TO_DEVICE)
    copy.target_at.width = 1
    node = graph.add("cudaGraphAddMemcpyNode", byref(copy))
    found = Copy3D()
    calls.check("cudaGraphMemcpyNodeGetParams", node, byref(found))
    assert bytes(found) == bytes(copy)
    graph.launch(graph.instantiate())
    target = ctypes.create_string_buffer(8)
    calls.check("cudaMemcpy2DFromArray", target, 4, array, 2, 0, 4, 2, TO_HOST)
    assert target.raw == data.raw


def test_edges_are_added_removed_and_found(calls: Runtime, graph: Graph) -> None:
    first, second = graph.add("cudaGraphAddEmptyNode"), graph.add("cudaGraphAddEmptyNode")
    data: tuple[object, ...] = ()
    if calls.major == 13:
        data = (None,)
    sources, targets, count = (ctypes.c_void_p * 4)(), (ctypes.c_void_p * 4)(), ctypes.c_size_t(4)
    calls.check("cudaGraphGetEdges", graph.handle, sources, targets, *data, byref(count))
    assert (count.value, sources[0], targets[0]) == (1, first, second)
    calls.check("cudaGraphRemoveDependencies", graph.handle, sources, targets, *data, 1)
    count.value = 4
    calls.check("cudaGraphGetRootNodes", graph.handle, sources, byref(count))
    assert count.value == 2
    back = (ctypes.c_void_p * 1)(second)
    calls.check("cudaGraphAddDependencies", graph.handle, back, sources, *data, 1)
    calls.check("cudaGraphNodeGetDependencies", first, targets, *data, byref(count))
    assert (count.value, targets[0]) == (1, second)


def test_a_capture_continues_a_graph(calls: Runtime, graph: Graph) -> None:
    memory = calls.upload(b"old!")
    fill = Fill(memory, 0, 7, 1, 4, 1)
    node = (ctypes.c_void_p * 1)(graph.add("cudaGraphAddMemsetNode", byref(fill)))
    stream = calls.make("cudaStreamCreate")
    calls.check("cudaStreamBeginCaptureToGraph", stream, graph.handle, node, None, 1, 0)
    status, own = ctypes.c_int(), ctypes.c_void_p()
    data: tuple[object, ...] = (None,)
    name = "cudaStreamGetCaptureInfo_v2"
    if calls.major == 13:
        name = "cudaStreamGetCaptureInfo"
        data = (None, None)
    calls.check(name, stream, byref(status), None, byref(own), *data, None)
    assert (status.value, own.value) == (1, graph.handle)
    calls.check("cudaMemsetAsync", memory, 8, 2, stream)
    calls.check("cudaStreamEndCapture", stream, byref(own))
    graph.launch(graph.instantiate())
    assert calls.read(memory, 4) == b"\10\10\7\7"
