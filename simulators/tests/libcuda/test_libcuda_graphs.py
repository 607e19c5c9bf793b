"""Explicit graphs of the stand-in CUDA driver, through cuda-bindings."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, check, code, cuda, read
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.usefixtures("context")

INVALID = "CUDA_ERROR_INVALID_VALUE"
KERNELS = """
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
extern "C" __global__ void step(int *x, int factor, int add) { *x = *x * factor + add; }
extern "C" __device__ int left;
extern "C" __global__ void count(unsigned long long handle, int unused) { cudaGraphSetConditional(handle, --left > 0); }
"""


def new_graph() -> Any:
    """Return an empty graph."""
    return check(cuda.cuGraphCreate(0))


def integer() -> Any:
    """Return device memory with an int, 0."""
    return allocate(np.zeros(1, np.int32))


def load() -> Any:
    """Return the module of the kernels."""
    return check(cuda.cuModuleLoadData(ptx_of(KERNELS).encode() + b"\0"))


def kernel(module: Any = None, name: bytes = b"step") -> Any:
    """Return a kernel of a module, or of a new one."""
    return check(cuda.cuModuleGetFunction(module or load(), name))


def fill_params(address: Any, value: int) -> Any:
    """Return the parameters of a fill of one int."""
    params = cuda.CUDA_MEMSET_NODE_PARAMS()
    params.dst, params.value = cuda.CUdeviceptr(int(address)), value
    params.elementSize, params.width, params.height = 4, 1, 1
    return params


def add_fill(graph: Any, before: Sequence[Any], address: Any, value: int) -> Any:
    """Add a node that fills one int."""
    current = check(cuda.cuCtxGetCurrent())
    params = fill_params(address, value)
    return check(cuda.cuGraphAddMemsetNode(graph, list(before), len(before), params, current))


def with_params(
    call: Callable[[Any], Any], function: Any, numbers: Sequence[int], block: int = 1
) -> Any:
    """Return what a call with a kernel's parameters gives, an address and ints. They change
    afterwards.
    """
    values = [ctypes.c_uint64(numbers[0]), *(ctypes.c_int(number) for number in numbers[1:])]
    places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    params = cuda.CUDA_KERNEL_NODE_PARAMS()
    params.func = function
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX, params.blockDimY, params.blockDimZ = block, 1, 1
    params.kernelParams = ctypes.addressof(places)
    result = call(params)
    values[1].value, places[0] = 77, None
    return result


def add_kernel(graph: Any, before: Sequence[Any], function: Any, *numbers: int) -> Any:
    """Add a kernel's node."""
    nodes = list(before)
    return check(
        with_params(
            lambda params: cuda.cuGraphAddKernelNode(graph, nodes, len(nodes), params),
            function,
            numbers,
        )
    )


def launch(executable: Any) -> None:
    """Launch and wait."""
    check(cuda.cuGraphLaunch(executable, 0))
    check(cuda.cuCtxSynchronize())


def run(graph: Any) -> Any:
    """Instantiate, launch and wait. Return the executable graph."""
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    launch(executable)
    return executable


def edges_of(graph: Any, room: int = 9) -> set[tuple[int, int]]:
    """Return the edges as pairs of handles."""
    before, after, _, count = check(cuda.cuGraphGetEdges(graph, room))
    return {(int(before[i]), int(after[i])) for i in range(count)}


@pytest.mark.parametrize("length", [2, 40])
def test_edges_alone_order_nodes(length: int) -> None:
    graph, memory = new_graph(), integer()
    nodes = [add_fill(graph, [], memory, value) for value in range(1, length + 1)]
    run(graph)
    assert read(memory, 1) == [1]  # the youngest ran first
    pairs = list(pairwise(nodes))
    check(cuda.cuGraphAddDependencies(graph, nodes[:-1], nodes[1:], None, length - 1))
    assert edges_of(graph, length) == {(int(first), int(second)) for first, second in pairs}
    run(graph)
    assert read(memory, 1) == [length]
    check(cuda.cuGraphRemoveDependencies(graph, nodes[:-1], nodes[1:], None, length - 1))
    assert edges_of(graph) == set()
    run(graph)
    assert read(memory, 1) == [1]


def test_nodes_and_edges_are_listed() -> None:
    graph, memory = new_graph(), integer()
    first, second = (add_fill(graph, [], memory, value) for value in (1, 2))
    last = check(cuda.cuGraphAddEmptyNode(graph, [first, second], 2))
    roots, count = check(cuda.cuGraphGetRootNodes(graph, 3))
    assert ([int(each) for each in roots], count) == ([int(first), int(second), 0], 2)
    assert check(cuda.cuGraphGetRootNodes(graph, 1))[1] == 1
    assert check(cuda.cuGraphNodeGetDependencies(last, 2))[2] == 2
    followers, _, count = check(cuda.cuGraphNodeGetDependentNodes(first, 1))
    assert ([int(each) for each in followers], count) == ([int(last)], 1)
    clone = check(cuda.cuGraphClone(graph))
    copy = check(cuda.cuGraphNodeFindInClone(last, clone))
    check(cuda.cuGraphDestroyNode(first))
    assert edges_of(graph) == {(int(second), int(last))}
    assert check(cuda.cuGraphNodeGetDependencies(copy, 2))[2] == 2
    assert code(cuda.cuGraphNodeFindInClone(copy, graph)) == INVALID


def test_edges_that_are_refused() -> None:
    graph, other = new_graph(), new_graph()
    first, second, third = (check(cuda.cuGraphAddEmptyNode(graph, [], 0)) for _ in range(3))
    foreign = check(cuda.cuGraphAddEmptyNode(other, [], 0))
    check(cuda.cuGraphAddDependencies(graph, [first], [second], None, 1))
    for before, after in (
        ([first], [first]),
        ([first], [foreign]),
        ([first], [second]),
        ([third, third], [first, first]),
        ([third, first], [first, second]),  # all or none
    ):
        assert code(cuda.cuGraphAddDependencies(graph, before, after, None, len(before))) == INVALID
    assert edges_of(graph) == {(int(first), int(second))}
    assert code(cuda.cuGraphRemoveDependencies(graph, [second], [third], None, 1)) == INVALID
    assert code(cuda.cuGraphAddEmptyNode(graph, [first, first], 2)) == INVALID
    assert code(cuda.cuGraphAddEmptyNode(graph, [foreign], 1)) == INVALID
    check(cuda.cuGraphAddDependencies(graph, [second], [first], None, 1))
    assert code(cuda.cuGraphInstantiate(graph, 0)) == INVALID  # a cycle
    params = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    assert code(cuda.cuGraphInstantiateWithParams(graph, params)) == INVALID
    assert params.result_out.name == "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE"


def test_a_kernel_has_the_parameters_it_had_when_it_was_added() -> None:
    graph, memory, function = new_graph(), integer(), kernel()
    node = add_kernel(graph, [], function, int(memory), 3, 5)
    executable = run(graph)
    assert read(memory, 1) == [5]
    stored = check(cuda.cuGraphKernelNodeGetParams(node))
    address = ctypes.c_void_p.from_address(int(stored.kernelParams) + 8).value
    assert address is not None
    assert (int(stored.func), ctypes.c_int.from_address(address).value) == (int(function), 3)

    def change(factor: int, add: int, block: int = 1, of: Any = None) -> str:
        def call(params: Any) -> Any:
            if of is None:
                return cuda.cuGraphKernelNodeSetParams(node, params)
            return cuda.cuGraphExecKernelNodeSetParams(of, node, params)

        return code(with_params(call, function, (int(memory), factor, add), block))

    assert change(1, 100) == "CUDA_SUCCESS"
    launch(executable)
    assert read(memory, 1) == [20]  # it does not depend on the graph
    run(graph)
    assert read(memory, 1) == [120]
    check(cuda.cuGraphLaunch(executable, 0))
    assert change(0, 1, of=executable) == "CUDA_SUCCESS"
    check(cuda.cuCtxSynchronize())
    assert read(memory, 1) == [365]  # a launch before the change
    launch(executable)
    assert read(memory, 1) == [1]
    assert change(0, 0, 1024) == "CUDA_SUCCESS"
    assert change(0, 0, 1025) == INVALID


def test_a_node_of_an_executable_graph_is_disabled() -> None:
    graph, memory = new_graph(), integer()
    first = add_fill(graph, [], memory, 1)
    second = add_fill(graph, [first], memory, 2)
    empty = check(cuda.cuGraphAddEmptyNode(graph, [second], 1))
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    check(cuda.cuGraphNodeSetEnabled(executable, second, 0))
    assert check(cuda.cuGraphNodeGetEnabled(executable, second)) == 0
    launch(executable)
    assert read(memory, 1) == [1]
    check(cuda.cuGraphNodeSetEnabled(executable, second, 1))
    launch(executable)
    assert read(memory, 1) == [2]
    assert code(cuda.cuGraphNodeSetEnabled(executable, empty, 0)) == INVALID
    check(cuda.cuGraphDestroyNode(second))
    assert code(cuda.cuGraphInstantiate(cuda.CUgraph(0), 0)) == INVALID


def test_an_executable_graph_takes_the_parameters_of_a_graph_of_its_form() -> None:
    memory = integer()
    graphs = [new_graph() for _ in range(4)]
    for value, graph in enumerate(graphs):
        first = add_fill(graph, [], memory, value)
        if graph is graphs[3]:
            check(cuda.cuGraphAddEmptyNode(graph, [first], 1))
            continue
        add_fill(graph, [] if graph is graphs[2] else [first], memory, value + 10)
    executable = run(graphs[0])
    check(cuda.cuGraphExecUpdate(executable, graphs[1]))
    launch(executable)
    assert read(memory, 1) == [11]
    update = ctypes.CDLL("libcuda.so.1").cuGraphExecUpdate_v2  # cuda-bindings drops the reason
    for graph, reason in ((graphs[2], 2), (graphs[3], 3)):
        info = (ctypes.c_uint64 * 3)()  # the result, the node, the node before it
        handles = (ctypes.c_void_p(int(each)) for each in (executable, graph))
        assert update(*handles, info) == 910
        assert list(info) == [reason, int(check(cuda.cuGraphGetNodes(graph, 2))[0][1]), 0]
    launch(executable)
    assert read(memory, 1) == [11]


def test_copies_functions_children_and_events_are_nodes() -> None:
    child, memory, copy = new_graph(), integer(), integer()
    calls: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: calls.append(data or 0))
    host = cuda.CUDA_HOST_NODE_PARAMS()
    host.fn = cuda.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    host.userData = 5
    called = check(cuda.cuGraphAddHostNode(child, [], 0, host))
    add_fill(child, [called], memory, 8)
    graph, event = new_graph(), check(cuda.cuEventCreate(0))
    inner = check(cuda.cuGraphAddChildGraphNode(graph, [], 0, child))
    add_fill(child, [called], memory, 9)  # the node has a copy
    record = check(cuda.cuGraphAddEventRecordNode(graph, [inner], 1, event))
    params = cuda.CUDA_MEMCPY3D()
    params.srcMemoryType = params.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcDevice, params.dstDevice = memory, copy
    params.WidthInBytes, params.Height, params.Depth = 4, 1, 1
    current = check(cuda.cuCtxGetCurrent())
    check(cuda.cuGraphAddMemcpyNode(graph, [inner], 1, params, current))
    assert check(cuda.cuGraphGetNodes(check(cuda.cuGraphChildGraphNodeGetGraph(inner)), 9))[1] == 2
    assert int(check(cuda.cuGraphEventRecordNodeGetEvent(record))) == int(event)
    assert code(cuda.cuGraphEventWaitNodeGetEvent(record)) == INVALID
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    check(cuda.cuGraphLaunch(executable, 0))
    assert calls == []
    check(cuda.cuEventSynchronize(event))
    assert (calls, read(copy, 1)) == ([5], [8])


def test_a_node_waits_for_what_was_recorded_before_the_launch() -> None:
    graph, memory, event = new_graph(), integer(), check(cuda.cuEventCreate(0))
    wait = check(cuda.cuGraphAddEventWaitNode(graph, [], 0, event))
    add_fill(graph, [wait], memory, 2)
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    first, second = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    check(cuda.cuMemsetD32Async(memory, 1, 1, first))
    check(cuda.cuEventRecord(event, first))
    check(cuda.cuGraphLaunch(executable, second))
    check(cuda.cuEventRecord(event, second))  # no cycle
    check(cuda.cuStreamSynchronize(second))
    check(cuda.cuStreamSynchronize(first))
    assert read(memory, 1) == [2]


def allocation(size: int) -> Any:
    """Return the parameters of an allocation's node."""
    params = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.bytesize = size
    return params


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_memory_of_a_graph_lives_from_a_launch_until_something_frees_it(size: int) -> None:
    graph, params = new_graph(), allocation(size)
    node = check(cuda.cuGraphAddMemAllocNode(graph, [], 0, params))
    add_fill(graph, [node], params.dptr, 6)
    assert code(cuda.cuGraphClone(graph)) == "CUDA_ERROR_NOT_SUPPORTED"
    assert code(cuda.cuGraphDestroyNode(node)) == "CUDA_ERROR_NOT_SUPPORTED"
    executable = run(graph)
    assert code(cuda.cuGraphInstantiate(graph, 0)) == "CUDA_ERROR_NOT_SUPPORTED"
    assert read(params.dptr, 1) == [6]
    assert code(cuda.cuGraphLaunch(executable, 0)) == INVALID  # it is still allocated
    check(cuda.cuMemFreeAsync(params.dptr, 0))
    launch(executable)
    other = new_graph()
    check(cuda.cuGraphAddMemFreeNode(other, [], 0, params.dptr))
    assert code(cuda.cuGraphAddMemFreeNode(other, [], 0, params.dptr)) == INVALID
    run(other)
    check(cuda.cuGraphExecDestroy(executable))
    automatic = check(cuda.cuGraphInstantiate(graph, 1))
    assert int(check(cuda.cuGraphExecGetFlags(automatic))) == 1
    launch(automatic)
    launch(automatic)
    check(cuda.cuMemFree(params.dptr))
    assert code(cuda.cuGraphAddMemAllocNode(graph, [], 0, allocation(0))) == INVALID


def test_memory_of_a_graph_is_not_there_without_an_edge(standin: StandinDriver) -> None:
    graph, params = new_graph(), allocation(4)
    check(cuda.cuGraphAddMemAllocNode(graph, [], 0, params))
    add_fill(graph, [], params.dptr, 6)
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    check(cuda.cuGraphLaunch(executable, 0))
    assert code(cuda.cuCtxSynchronize()) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    standin.forget_failures()


def conditional(graph: Any, handle: Any, kind: str, size: int) -> list[Any]:
    """Add a conditional node and return its bodies."""
    params = cuda.CUgraphNodeParams()
    params.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = handle
    params.conditional.type = getattr(cuda.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}")
    params.conditional.size = size
    params.conditional.ctx = check(cuda.cuCtxGetCurrent())
    check(cuda.cuGraphAddNode(graph, [], None, 0, params))
    return list(params.conditional.phGraph_out)


@pytest.mark.parametrize(
    ("kind", "size", "value", "expected"),
    [
        ("IF", 1, 0, 0),
        ("IF", 1, 7, 1),
        ("IF", 2, 0, 2),
        ("SWITCH", 3, 0, 1),
        ("SWITCH", 3, 2, 3),
        ("SWITCH", 3, 3, 0),
        ("WHILE", 1, 0, 0),
    ],
)
def test_a_condition_chooses_a_body(kind: str, size: int, value: int, expected: int) -> None:
    graph, memory = new_graph(), integer()
    current = check(cuda.cuCtxGetCurrent())
    handle = check(cuda.cuGraphConditionalHandleCreate(graph, current, value, 1))
    for number, body in enumerate(conditional(graph, handle, kind, size)):
        add_fill(body, [], memory, number + 1)
    run(graph)
    assert read(memory, 1) == [expected]


@pytest.mark.parametrize("times", [1, 5])
def test_a_kernel_ends_a_loop(times: int) -> None:
    graph, memory, module = new_graph(), integer(), load()
    left, _ = check(cuda.cuModuleGetGlobal(module, b"left"))
    check(cuda.cuMemsetD32(left, times, 1))
    current = check(cuda.cuCtxGetCurrent())
    handle = check(cuda.cuGraphConditionalHandleCreate(graph, current, 1, 1))
    (body,) = conditional(graph, handle, "WHILE", 1)
    first = add_kernel(body, [], kernel(module), int(memory), 2, 1)
    add_kernel(body, [first], kernel(module, b"count"), int(handle), 0)
    run(graph)
    assert read(memory, 1) == [2**times - 1]


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for another thread."""
    for _ in range(12_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError


def test_a_user_object_lives_as_long_as_what_was_made_of_its_graph() -> None:
    threads: list[int] = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        lambda data: threads.append(threading.get_ident())
    )
    address = cuda.CUhostFn(ctypes.cast(destroy, ctypes.c_void_p).value)
    item = check(cuda.cuUserObjectCreate(0, address, 2, 1))
    graph, stream = new_graph(), check(cuda.cuStreamCreate(1))
    add_fill(graph, [], integer(), 1)
    check(cuda.cuGraphRetainUserObject(graph, item, 1, 1))
    check(cuda.cuUserObjectRelease(item, 1))
    executable = check(cuda.cuGraphInstantiate(graph, 0))
    check(cuda.cuGraphLaunch(executable, stream))
    check(cuda.cuGraphDestroy(graph))
    check(cuda.cuGraphExecDestroy(executable))
    check(cuda.cuUserObjectRetain(item, 1))
    check(cuda.cuUserObjectRelease(item, 1))
    assert threads == []  # the launch has it
    check(cuda.cuStreamSynchronize(stream))
    wait_for(lambda: threads)
    assert threads != [threading.get_ident()]
    assert code(cuda.cuUserObjectCreate(0, address, 0, 1)) == INVALID


def test_a_capture_goes_on_after_other_nodes() -> None:
    stream, memory = check(cuda.cuStreamCreate(1)), integer()
    graph = new_graph()
    start = add_fill(graph, [], memory, 1)
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    check(cuda.cuStreamBeginCaptureToGraph(stream, graph, [start], None, 1, mode))
    assert code(cuda.cuGraphDestroy(graph)) == INVALID
    check(cuda.cuMemsetD32Async(memory, 2, 1, stream))
    status, number, captured, nodes, _, count = check(cuda.cuStreamGetCaptureInfo(stream))
    assert (status, int(captured), count) == (1, int(graph), 1)
    added = add_fill(graph, nodes, memory, 3)
    check(cuda.cuStreamUpdateCaptureDependencies(stream, [added], None, 1, 1))
    check(cuda.cuMemsetD32Async(memory, 4, 1, stream))
    assert int(check(cuda.cuStreamEndCapture(stream))) == int(graph)
    assert len(edges_of(graph)) == 3
    run(graph)
    assert read(memory, 1) == [4]
    assert check(cuda.cuStreamGetCaptureInfo(stream))[0] == 0
    check(cuda.cuStreamBeginCapture(stream, mode))
    assert int(check(cuda.cuStreamGetCaptureInfo(stream))[1]) == int(number) + 1
    check(cuda.cuStreamEndCapture(stream))


def test_a_stream_that_was_joined_is_destroyed_in_the_capture() -> None:
    first, second = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    event, memory = check(cuda.cuEventCreate(0)), integer()
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    external = cuda.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
    assert code(cuda.cuEventRecordWithFlags(event, first, external)) == INVALID
    check(cuda.cuStreamBeginCapture(first, mode))
    for before, after in ((first, second), (second, first)):
        check(cuda.cuEventRecord(event, before))
        check(cuda.cuStreamWaitEvent(after, event, 0))
        check(cuda.cuMemsetD32Async(memory, 5, 1, after))
    check(cuda.cuStreamDestroy(second))
    check(cuda.cuEventRecordWithFlags(event, first, external))
    graph = check(cuda.cuStreamEndCapture(first))
    assert check(cuda.cuGraphGetNodes(graph, 9))[1] == 3
    check(cuda.cuGraphLaunch(check(cuda.cuGraphInstantiate(graph, 0)), first))
    check(cuda.cuEventSynchronize(event))
    assert read(memory, 1) == [5]
    check(cuda.cuStreamBeginCapture(first, mode))
    check(cuda.cuStreamDestroy(first))


def test_a_graph_is_text_for_people(tmp_path: Path) -> None:
    graph, memory = new_graph(), integer()
    first = add_kernel(graph, [], kernel(), int(memory), 1, 1)
    add_fill(graph, [first], memory, 1)
    check(cuda.cuGraphDebugDotPrint(graph, str(tmp_path / "graph.dot").encode(), 0))
    lines = (tmp_path / "graph.dot").read_text().splitlines()
    assert lines[0] == "digraph dot {"
    assert any(line.endswith('label="0\\nstep"];') for line in lines)
    assert sum(" -> " in line for line in lines) == 1


def test_a_destroyed_node_and_a_destroyed_graph(standin: StandinDriver) -> None:
    graph = new_graph()
    node = check(cuda.cuGraphAddEmptyNode(graph, [], 0))
    check(cuda.cuGraphDestroy(graph))
    assert code(cuda.cuGraphNodeGetType(node)) == INVALID
    assert code(cuda.cuGraphAddEmptyNode(graph, [], 0)) == INVALID
    assert [text.partition("is ")[2] for text in standin.violations] == [
        "the handle of a destroyed object of the graph-nodes",
        "the handle of a destroyed object of the graphs",
    ]
    standin.reset()
