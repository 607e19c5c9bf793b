"""The stand-in CUDA runtimes: the nodes of graphs, whose structures and edges are translated."""

from __future__ import annotations

import ctypes
import struct
from ctypes import addressof, create_string_buffer

import pytest
from runtime_calls import INVALID_VALUE, ON_DEVICE, TO_DEVICE, TO_HOST, Program, Runtime

pytestmark = pytest.mark.row("R55")


class Graph:
    """A graph whose nodes follow each other."""

    def __init__(self, calls: Runtime) -> None:
        self.calls = calls
        self.handle = calls.make("cudaGraphCreate", 0)
        self.last: list[int] = []

    def add(self, name: str, *arguments: object, data: tuple[object, ...] = ()) -> int:
        """Add a node behind the last one; `data`: that of the edge, if the function takes it."""
        before = (ctypes.c_void_p * 1)(*self.last)
        words = (self.handle, before, *data, len(self.last), *arguments)
        self.last = [self.calls.make(name, *words)]
        return self.last[0]

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


def fill(address: int, value: int) -> bytes:
    """Return a cudaMemsetParams for four bytes."""
    return struct.pack("QQIIQQ", address, 0, value, 1, 4, 1)


def test_the_nodes_of_a_graph_run_in_the_order_of_its_edges(calls: Runtime, graph: Graph) -> None:
    first, second, target = calls.upload(b"old!"), calls.upload(b"then"), create_string_buffer(4)
    found: list[bytes] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def note(data: int) -> None:
        found.append(ctypes.string_at(data, 4))

    host = (ctypes.c_void_p * 2)(ctypes.cast(note, ctypes.c_void_p).value, addressof(target))
    node = graph.add("cudaGraphAddMemsetNode", fill(first, 7))
    graph.add("cudaGraphAddMemcpyNode1D", second, first, 4, ON_DEVICE)
    graph.add("cudaGraphAddEmptyNode")
    graph.add("cudaGraphAddMemcpyNode1D", target, second, 4, TO_HOST)
    graph.add("cudaGraphAddHostNode", host)
    executable = graph.instantiate()
    graph.launch(executable)
    calls.check("cudaGraphExecMemsetNodeSetParams", executable, node, fill(first, 9))
    graph.launch(executable)
    outer = Graph(calls)
    outer.add("cudaGraphAddChildGraphNode", graph.handle)
    outer.launch(outer.instantiate())
    assert found == [b"\7" * 4, b"\11" * 4, b"\7" * 4]


@pytest.mark.parametrize("generic", [False, True])
def test_a_kernel_of_a_graph_takes_its_parameters_when_it_is_added(
    calls: Runtime, graph: Graph, program: Program, generic: bool
) -> None:
    """It adds three times a number to a counter, for each thread."""
    by = ctypes.c_int(2)
    places = (ctypes.c_void_p * 1)(addressof(by))
    function = program.address("count")
    form, launch = "Q7I4xQQ", (1, 1, 1, 2, 1, 1, 0, addressof(places), 0)
    kernel = struct.pack(form, function, *launch)
    if generic:
        name = "cudaGraphAddNode" if calls.major == 13 else "cudaGraphAddNode_v2"
        node = graph.add(name, bytes(16) + kernel + bytes(240 - len(kernel)), data=(None,))
    else:
        node = graph.add("cudaGraphAddKernelNode", kernel)
    by.value = 100
    executable = graph.instantiate()
    graph.launch(executable)
    assert program.value() == 5 + 2 * 3 * 2
    handle, *own = calls.get("cudaGraphKernelNodeGetParams", node, ..., form=form)
    assert own[:7] == list(launch[:7])
    one = struct.pack(form, handle, 1, 1, 1, 1, *own[4:])
    calls.check("cudaGraphExecKernelNodeSetParams", executable, node, one)
    graph.launch(executable)
    assert program.value() == 5 + 2 * 3 * 3


@pytest.mark.volume_but("cuda13")
def test_nodes_copy_to_and_from_variables(calls: Runtime, graph: Graph, program: Program) -> None:
    table, target = program.address("table"), create_string_buffer(4)
    graph.add("cudaGraphAddMemcpyNodeToSymbol", table, b"new!", 4, 12, TO_DEVICE)
    node = graph.add("cudaGraphAddMemcpyNodeFromSymbol", target, table, 4, 12, TO_HOST)
    graph.launch(graph.instantiate())
    assert target.raw == b"new!"
    beyond = calls.cudaGraphMemcpyNodeSetParamsFromSymbol(node, target, table, 4, 13, TO_HOST)
    assert beyond == INVALID_VALUE
