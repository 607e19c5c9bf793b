"""Explicit graphs of the stand-in CUDA driver, through cuda-bindings. Those of the runtime show
kernels, copies and functions as nodes.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, code, cuda, driver, errors, read, zeros
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.volume_but]

INVALID = "CUDA_ERROR_INVALID_VALUE"
UNSUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"
RELAXED = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
COUNT = """
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
extern "C" __global__ void count(unsigned long long handle, int *left, int *done) {
    *done += 1;
    cudaGraphSetConditional(handle, --*left > 0);
}
"""


@pytest.fixture
def graph() -> Any:
    return driver.cuGraphCreate(0)


@pytest.fixture
def memory() -> Any:
    return zeros(1)


def fill(address: Any, value: int) -> Any:
    """Return the parameters of a fill of one int."""
    params = cuda.CUDA_MEMSET_NODE_PARAMS()
    params.dst = cuda.CUdeviceptr(int(address))
    params.value = value
    params.elementSize = 4
    params.width = params.height = 1
    return params


def add_fill(graph: Any, address: Any, value: int, *before: Any) -> Any:
    """Add a node that fills one int."""
    params = fill(address, value)
    return driver.cuGraphAddMemsetNode(graph, [*before], len(before), params, None)


def add_empty(graph: Any, *before: Any) -> Any:
    return driver.cuGraphAddEmptyNode(graph, [*before], len(before))


def result_of(executable: Any, memory: Any) -> int:
    """Launch and return the int in memory."""
    driver.cuGraphLaunch(executable, 0)
    driver.cuCtxSynchronize()
    return read(memory, 1)[0]


def run(graph: Any, memory: Any) -> int:
    """Instantiate and launch, and return the int in memory."""
    return result_of(driver.cuGraphInstantiate(graph, 0), memory)


@pytest.mark.parametrize("length", [2, 40])
def test_edges_alone_order_nodes(length: int, graph: Any, memory: Any) -> None:
    nodes = [add_fill(graph, memory, value) for value in range(length)]
    assert run(graph, memory) == 0  # the youngest ran first
    pairs = nodes[:-1], nodes[1:], None, length - 1
    driver.cuGraphAddDependencies(graph, *pairs)
    assert run(graph, memory) == length - 1
    driver.cuGraphRemoveDependencies(graph, *pairs)
    assert run(graph, memory) == 0


def test_nodes_and_edges_are_listed_and_checked(graph: Any, memory: Any) -> None:
    first, second = add_fill(graph, memory, 1), add_empty(graph)
    last = add_empty(graph, first, second)
    other = driver.cuGraphCreate(0)
    foreign = add_empty(other)
    assert driver.cuGraphGetRootNodes(graph, 1)[1] == 1
    assert int(driver.cuGraphNodeGetDependentNodes(first, 1)[0][0]) == int(last)
    for starts, ends in (
        ([first], [first]),
        ([first], [foreign]),
        ([first], [last]),
        ([second, first], [first, last]),  # all or none
    ):
        found = cuda.cuGraphAddDependencies(graph, starts, ends, None, len(starts))
        assert code(found) == INVALID, (starts, ends)
    assert driver.cuGraphGetEdges(graph, 9)[3] == 2
    for refused in (
        cuda.cuGraphAddEmptyNode(graph, [first, first], 2),
        cuda.cuGraphAddEmptyNode(graph, [foreign], 1),
        cuda.cuGraphNodeFindInClone(foreign, graph),
    ):
        assert code(refused) == INVALID
    copy = driver.cuGraphNodeFindInClone(last, driver.cuGraphClone(graph))
    driver.cuGraphDestroyNode(first)
    assert int(driver.cuGraphGetEdges(graph, 1)[0][0]) == int(second)
    assert driver.cuGraphNodeGetDependencies(copy, 2)[2] == 2
    driver.cuGraphAddDependencies(graph, [last], [second], None, 1)
    params = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    assert errors.cuGraphInstantiateWithParams(graph, params) == INVALID
    assert params.result_out.name == "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE"


def test_an_executable_graph_is_independent(graph: Any, memory: Any, tmp_path: Path) -> None:
    first = add_fill(graph, memory, 1)
    second = add_fill(graph, memory, 2, first)
    empty = add_empty(graph, second)
    file = tmp_path / "graph.dot"
    driver.cuGraphDebugDotPrint(graph, bytes(file), 0)
    text = file.read_text()
    assert [text.count(part) for part in ("MEMSET", "EMPTY", " -> ")] == [2, 1, 2]
    executable = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphMemsetNodeSetParams(second, fill(memory, 3))
    assert (result_of(executable, memory), run(graph, memory)) == (2, 3)
    driver.cuGraphLaunch(executable, 0)
    driver.cuGraphExecMemsetNodeSetParams(executable, second, fill(memory, 4), None)
    driver.cuCtxSynchronize()
    assert read(memory, 1) == [2]  # a launch before the change
    assert result_of(executable, memory) == 4
    driver.cuGraphNodeSetEnabled(executable, second, 0)
    assert result_of(executable, memory) == 1
    driver.cuGraphNodeSetEnabled(executable, second, 1)
    driver.cuGraphExecUpdate(executable, graph)
    assert result_of(executable, memory) == 3
    assert errors.cuGraphNodeSetEnabled(executable, empty, 0) == INVALID
    update = ctypes.CDLL("libcuda.so.1").cuGraphExecUpdate_v2  # cuda-bindings drops the reason
    driver.cuGraphDestroyNode(empty)
    handles = [ctypes.c_void_p(int(each)) for each in (executable, graph)]
    info = (ctypes.c_uint64 * 3)()  # the result, the node, the node before it
    assert (update(*handles, info), info[0]) == (910, 2)
    node = add_fill(graph, memory, 1, second)
    assert (update(*handles, info), *info) == (910, 3, int(node), 0)


def test_a_node_waits_for_what_was_recorded_before_the_launch(graph: Any, memory: Any) -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    event = driver.cuEventCreate(0)
    wait = driver.cuGraphAddEventWaitNode(graph, [], 0, event)
    add_fill(graph, memory, 2, wait)
    assert errors.cuGraphEventRecordNodeGetEvent(wait) == INVALID
    executable = driver.cuGraphInstantiate(graph, 0)
    driver.cuMemsetD32Async(memory, 1, 1, first)
    driver.cuEventRecord(event, first)
    driver.cuGraphLaunch(executable, second)
    driver.cuEventRecord(event, second)  # no cycle
    driver.cuStreamSynchronize(second)
    driver.cuStreamSynchronize(first)
    assert read(memory, 1) == [2]


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_memory_of_a_graph_lives_until_something_frees_it(size: int, graph: Any) -> None:
    params = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.bytesize = size
    node = driver.cuGraphAddMemAllocNode(graph, [], 0, params)
    add_fill(graph, params.dptr, 6, node)
    executable = driver.cuGraphInstantiate(graph, 0)
    assert result_of(executable, params.dptr) == 6
    other = driver.cuGraphCreate(0)
    for refused, name in (
        (cuda.cuGraphClone(graph), UNSUPPORTED),
        (cuda.cuGraphInstantiate(graph, 0), UNSUPPORTED),
        (cuda.cuGraphAddChildGraphNode(other, [], 0, graph), UNSUPPORTED),
        (cuda.cuGraphLaunch(executable, 0), INVALID),  # it is still allocated
    ):
        assert code(refused) == name
    driver.cuMemFreeAsync(params.dptr, 0)
    assert result_of(executable, params.dptr) == 6
    driver.cuGraphAddMemFreeNode(other, [], 0, params.dptr)
    assert errors.cuGraphAddMemFreeNode(other, [], 0, params.dptr) == INVALID
    driver.cuGraphLaunch(driver.cuGraphInstantiate(other, 0), 0)
    driver.cuGraphExecDestroy(executable)
    automatic = driver.cuGraphInstantiate(graph, 1)
    assert int(driver.cuGraphExecGetFlags(automatic)) == 1
    driver.cuGraphLaunch(automatic, 0)
    assert result_of(automatic, params.dptr) == 6
    driver.cuMemFree(params.dptr)


def condition(graph: Any, value: int) -> Any:
    """Return the handle of a value."""
    current = driver.cuCtxGetCurrent()
    return driver.cuGraphConditionalHandleCreate(graph, current, value, 1)


def conditional_params(handle: Any, kind: str, size: int) -> Any:
    """Return the parameters of a conditional node."""
    params = cuda.CUgraphNodeParams()
    params.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    fields = params.conditional
    fields.handle = handle
    fields.type = getattr(cuda.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}")
    fields.size = size
    fields.ctx = driver.cuCtxGetCurrent()
    return params


def conditional(graph: Any, value: int, kind: str, size: int) -> tuple[Any, list[Any]]:
    """Add a conditional node, and return the handle of its value and its bodies."""
    handle = condition(graph, value)
    params = conditional_params(handle, kind, size)
    driver.cuGraphAddNode(graph, [], None, 0, params)
    return handle, list(params.conditional.phGraph_out)


@pytest.mark.parametrize(
    ("kind", "size", "value", "expected"),
    [
        ("IF", 1, 0, 0),
        ("IF", 1, 7, 1),
        ("IF", 2, 0, 2),
        ("SWITCH", 3, 2, 3),
        ("SWITCH", 3, 3, 0),
    ],
)
def test_a_condition_chooses_a_body(
    kind: str, size: int, value: int, expected: int, graph: Any, memory: Any
) -> None:
    for number, body in enumerate(conditional(graph, value, kind, size)[1]):
        add_fill(body, memory, number + 1)
    assert run(graph, memory) == expected


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_body_with_an_event_is_made_and_does_not_run(
    is_nested: bool, graph: Any, standin: StandinDriver
) -> None:
    _, (body,) = conditional(graph, 1, "IF", 1)
    event = driver.cuEventCreate(0)
    place = body
    if is_nested:
        place = driver.cuGraphCreate(0)
    node = driver.cuGraphAddEventRecordNode(place, [], 0, event)
    if is_nested:
        node = driver.cuGraphAddChildGraphNode(body, [], 0, place)
    assert errors.cuGraphInstantiate(graph, 0) == UNSUPPORTED
    assert standin.reason == "a conditional node may not run functions of the host or events"
    driver.cuGraphDestroyNode(node)
    driver.cuGraphInstantiate(graph, 0)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_value_of_a_graph_is_read_within_its_bodies(depth: int, graph: Any, memory: Any) -> None:
    """One node reads it, and another graph's value is none."""
    inner = condition(graph, 1)
    body = graph
    for _ in range(depth):
        _, (body,) = conditional(body, 1, "IF", 1)
    params = conditional_params(inner, "IF", 1)
    driver.cuGraphAddNode(body, [], None, 0, params)
    add_fill(params.conditional.phGraph_out[0], memory, 7)
    assert run(graph, memory) == 7
    assert errors.cuGraphAddNode(body, [], None, 0, params) == INVALID
    foreign = conditional_params(condition(driver.cuGraphCreate(0), 1), "IF", 1)
    assert errors.cuGraphAddNode(body, [], None, 0, foreign) == INVALID


@pytest.mark.parametrize("times", [1, 5])
def test_a_kernel_ends_a_loop(times: int, graph: Any, memory: Any) -> None:
    stream, left = driver.cuStreamCreate(1), allocate(np.full(1, times, np.int32))
    module = driver.cuModuleLoadData(ptx_of(COUNT).encode() + b"\0")
    function = driver.cuModuleGetFunction(module, b"count")
    handle, (body,) = conditional(graph, 1, "WHILE", 1)
    driver.cuStreamBeginCaptureToGraph(stream, body, [], None, 0, RELAXED)
    values = (int(handle), int(left), int(memory)), (ctypes.c_uint64,) * 3
    driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, values, 0)
    (node,) = driver.cuStreamGetCaptureInfo(stream)[3]
    driver.cuStreamEndCapture(stream)
    cooperative, value = cuda.CUlaunchAttributeID(2), cuda.CUkernelNodeAttrValue()
    value.cooperative = 1
    driver.cuGraphKernelNodeSetAttribute(node, cooperative, value)
    driver.cuGraphKernelNodeSetParams(node, driver.cuGraphKernelNodeGetParams(node))
    assert driver.cuGraphKernelNodeGetAttribute(node, cooperative).cooperative == 1
    assert run(graph, memory) == times


def test_a_user_object_lives_as_long_as_a_launch(graph: Any, memory: Any) -> None:
    threads: list[int] = []
    done = threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def destroy(data: int) -> None:
        threads.append(threading.get_ident())
        done.set()

    address = cuda.CUhostFn(ctypes.cast(destroy, ctypes.c_void_p).value)
    item = driver.cuUserObjectCreate(0, address, 2, 1)
    add_fill(graph, memory, 1)
    driver.cuGraphRetainUserObject(graph, item, 1, 1)
    driver.cuUserObjectRelease(item, 1)
    executable = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphLaunch(executable, 0)
    driver.cuGraphDestroy(graph)
    driver.cuGraphExecDestroy(executable)
    driver.cuUserObjectRetain(item, 1)  # the launch has it
    driver.cuUserObjectRelease(item, 1)
    assert threads == []
    driver.cuCtxSynchronize()
    assert done.wait(120)
    assert threads != [threading.get_ident()]
    assert errors.cuUserObjectCreate(0, address, 0, 1) == INVALID


def test_two_threads_launch_one_graph_at_once(
    standin: StandinDriver, context: Any, graph: Any
) -> None:
    add_empty(graph)
    first, second = (driver.cuGraphInstantiate(graph, 0) for _ in range(2))
    streams = [driver.cuStreamCreate(1) for _ in range(2)]

    def launch(executables: tuple[Any, Any]) -> None:
        start = threading.Barrier(2)

        def launch_often(executable: Any, stream: Any) -> None:
            driver.cuCtxSetCurrent(context)
            start.wait(120)
            for _ in range(300):  # each takes 0.1 ms
                driver.cuGraphLaunch(executable, stream)

        threads = [
            threading.Thread(target=launch_often, args=pair)
            for pair in zip(executables, streams, strict=True)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        driver.cuCtxSynchronize()

    launch((first, second))
    assert standin.violations == []
    launch((first, first))
    assert set(standin.violations) == {"two threads launch one executable graph at once"}
    standin.reset()


def test_a_stream_that_was_joined_is_destroyed_in_the_capture(memory: Any) -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    event = driver.cuEventCreate(0)
    external = cuda.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
    assert errors.cuEventRecordWithFlags(event, first, external) == INVALID
    driver.cuStreamBeginCapture(first, RELAXED)
    for before, after in ((first, second), (second, first)):
        driver.cuEventRecord(event, before)
        driver.cuStreamWaitEvent(after, event, 0)
        driver.cuMemsetD32Async(memory, 5, 1, after)
    driver.cuStreamDestroy(second)
    driver.cuEventRecordWithFlags(event, first, external)
    graph = driver.cuStreamEndCapture(first)
    assert driver.cuGraphGetNodes(graph, 9)[1] == 3
    driver.cuGraphLaunch(driver.cuGraphInstantiate(graph, 0), first)
    driver.cuEventSynchronize(event)
    assert read(memory, 1) == [5]


def test_a_destroyed_node_and_a_destroyed_graph(standin: StandinDriver, graph: Any) -> None:
    node = add_empty(graph)
    driver.cuGraphDestroy(graph)
    assert errors.cuGraphNodeGetType(node) == INVALID
    assert errors.cuGraphAddEmptyNode(graph, [], 0) == INVALID
    kinds = [text.rpartition(" ")[2] for text in standin.violations]
    assert kinds == ["graph-nodes", "graphs"]
    standin.reset()


def test_a_capture_into_a_graph_ends_without_a_result(standin: StandinDriver) -> None:
    """NVIDIA's sample graphConditionalNodes passes NULL."""
    stream, graph, memory = driver.cuStreamCreate(1), driver.cuGraphCreate(0), zeros(4)
    handle = ctypes.c_void_p(int(stream))
    driver.cuStreamBeginCaptureToGraph(stream, graph, [], None, 0, RELAXED)
    driver.cuMemsetD32Async(memory, 7, 4, stream)
    assert standin.api.cuStreamEndCapture(handle, None) == 0
    driver.cuGraphLaunch(driver.cuGraphInstantiate(graph, 0), stream)
    driver.cuStreamSynchronize(stream)
    assert read(memory) == [7] * 4

    assert standin.api.cuStreamEndCapture(handle, None) == 1
    driver.cuStreamBeginCapture(stream, RELAXED)
    assert standin.api.cuStreamEndCapture(handle, None) == 1
    driver.cuGraphDestroy(driver.cuStreamEndCapture(stream))
