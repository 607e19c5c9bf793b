"""Launches that kernels make, and their streams.

The grids of a grid run when all its blocks have ended, in the order in which it has launched them,
each with those that it launches itself. Streams and events permit that order; those of the tail
stream come last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmod_simulators.ptx.columns import Launch, Triple
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import CODE_WINDOW, Heap
from devmod_simulators.ptx.ops_memory import load, read_bytes, save
from devmod_simulators.ptx.ptx_types import U32, U64, Array, Function

#: The prefix of the functions of a device's CUDA runtime, as its headers name them.
PREFIX = "__cudaCDP2"
#: cudaErrorInvalidValue, cudaErrorInvalidConfiguration, cudaErrorLaunchMaxDepthExceeded,
#: cudaErrorMemoryAllocation.
_INVALID_VALUE = 1
_INVALID_CONFIGURATION = 9
_TOO_DEEP = 65
_NO_MEMORY = 2
_DEPTH = 24
_MOST_THREADS = 1024
_MOST_SHARED = 227 << 10
_TAIL = 3  # cudaStreamTailLaunch
#: The handle of a stream and of an event: all are in one order.
_HANDLE = 16


@dataclass
class Child:
    """A launch that waits for the end of its grid."""

    kernel: Function
    launch: Launch
    is_tail: bool


@dataclass
class Children:
    """The launches of a grid that runs, and those whose parameters it writes, by the address of
    these.
    """

    begun: dict[int, tuple[Function, Triple, Triple, int]]
    launched: list[Child]
    error: int = 0

    def take(self) -> list[Child]:
        """Return the launches in their order, and forget them."""
        launched = sorted(self.launched, key=lambda child: child.is_tail)
        self.launched = []
        return launched


def children_of(lanes: Lanes) -> Children:
    """Return the launches of the grid of lanes."""
    children: Children = lanes.frame.execution.arena.children
    return children


def heap_of(lanes: Lanes) -> Heap:
    """Return the heap of the device."""
    arena = lanes.frame.execution.arena
    if arena.heap is None:
        arena.heap = arena.make_heap()
    return arena.heap


def argument(lanes: Lanes, name: str, dtype: Any, count: int = 1) -> list[Array]:
    """Return the elements of an argument of a call: it is in a parameter of the caller's frame."""
    fetch = load("local", dtype)
    place = lanes.frame.place(name)
    ends = place + dtype.itemsize * count
    addresses = np.arange(place, ends, dtype.itemsize, dtype=U64).reshape(count, 1)
    return [lanes.spread(fetch(lanes, address)[0]) for address in addresses]


def put_result(lanes: Lanes, results: list[str], value: Array) -> None:
    """Set the result of a call."""
    if results:
        address = np.array([lanes.frame.place(results[0])], U64)
        save("local", value.dtype)(lanes, address, [value])


def is_valid(grid: Triple, block: Triple, shared: int) -> bool:
    """Return whether a device has a configuration."""
    if min(*grid, *block) < 1 or max(grid[1:]) > 0xFFFF or grid[0] >> 31:
        return False
    return math.prod(block) <= _MOST_THREADS and block[2] <= 64 and shared <= _MOST_SHARED


def get_parameter_buffer(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Give each lane memory for the parameters of a kernel, or none for a wrong configuration."""
    execution = lanes.frame.execution
    children = children_of(lanes)
    module = execution.program.module
    (functions,) = argument(lanes, arguments[0], U64)
    grids, blocks = (argument(lanes, name, U32, 3) for name in arguments[1:3])
    (shared,) = argument(lanes, arguments[3], U32)
    addresses = np.zeros(lanes.count, U64)
    for lane in range(lanes.count):
        number = (int(functions[lane]) - CODE_WINDOW) // 16
        names = module.numbers[number : number + 1] if number >= 0 else []
        kernel = module.text.functions[names[0]] if names else None
        if kernel is None or not kernel.entry:
            raise lanes.error(
                "CUDA_ERROR_LAUNCH_FAILED", "a kernel launches what is no kernel", lane
            )
        grid: Any = tuple(int(each[lane]) for each in grids)
        block: Any = tuple(int(each[lane]) for each in blocks)
        children.error = children.error or _INVALID_CONFIGURATION
        if is_valid(grid, block, int(shared[lane])):
            address = heap_of(lanes).allocate(kernel.offsets_end())
            children.error = 0 if address else _NO_MEMORY
            children.begun[address] = kernel, grid, block, int(shared[lane])
            addresses[lane] = address
    put_result(lanes, results, addresses)


def launch_device(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Launch the kernels whose parameters lanes have written."""
    children = children_of(lanes)
    parent = lanes.frame.execution.launch
    (addresses,) = argument(lanes, arguments[0], U64)
    (streams,) = argument(lanes, arguments[1], U64)
    errors = np.zeros(lanes.count, U32)
    for lane, address in enumerate(addresses.tolist()):
        begun = children.begun.pop(address, None)
        if begun is None:
            errors[lane] = children.error or _INVALID_CONFIGURATION
            continue
        kernel, grid, block, shared = begun
        one = lanes.select(np.array([lane]), [])
        parameters = read_bytes(one, address, kernel.offsets_end())
        heap_of(lanes).release(address)
        if parent.depth == _DEPTH:
            errors[lane] = children.error = _TOO_DEEP
            continue
        launch = Launch(
            grid,
            block,
            parameters,
            shared,
            seconds=parent.seconds,
            is_last=parent.is_last,
            depth=parent.depth + 1,
        )
        children.launched.append(Child(kernel, launch, int(streams[lane]) == _TAIL))
    put_result(lanes, results, errors)


def make_handle(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Make a stream or an event."""
    (addresses,) = argument(lanes, arguments[0], U64)
    save("", U64)(lanes, addresses, [np.full(lanes.count, _HANDLE, U64)])
    put_result(lanes, results, np.zeros(1, U32))


def allocate(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Allocate memory of the heap for each lane, as malloc does."""
    (places,) = argument(lanes, arguments[0], U64)
    (sizes,) = argument(lanes, arguments[1], U64)
    heap = heap_of(lanes)
    addresses = np.array([heap.allocate(int(size)) for size in sizes], U64)
    save("", U64)(lanes, places, [addresses])
    put_result(lanes, results, np.where(addresses == 0, _NO_MEMORY, 0).astype(U32))


def release(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Free memory of the heap of each lane."""
    (addresses,) = argument(lanes, arguments[0], U64)
    errors = np.zeros(lanes.count, U32)
    heap = heap_of(lanes)
    for lane, address in enumerate(addresses.tolist()):
        if address and not heap.release(address):
            errors[lane] = _INVALID_VALUE
    put_result(lanes, results, errors)


def succeed(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Do nothing: all launches are in one order."""
    put_result(lanes, results, np.zeros(1, U32))


def last_error(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Return the error of the latest launch, and forget it."""
    peek_error(lanes, results, arguments)
    children_of(lanes).error = 0


def peek_error(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    """Return the error of the latest launch."""
    put_result(lanes, results, np.full(1, children_of(lanes).error, U32))


_FUNCTIONS = {
    "GetParameterBufferV2": get_parameter_buffer,
    "LaunchDeviceV2": launch_device,
    "StreamCreateWithFlags": make_handle,
    "EventCreateWithFlags": make_handle,
    "StreamDestroy": succeed,
    "StreamWaitEvent": succeed,
    "EventRecord": succeed,
    "EventRecordWithFlags": succeed,
    "EventDestroy": succeed,
    "Malloc": allocate,
    "Free": release,
    "GetLastError": last_error,
    "PeekAtLastError": peek_error,
}
#: The functions of the device's CUDA runtime, also those whose default stream is the thread's.
CALLS = {
    f"{PREFIX}{name}{suffix}": function
    for name, function in _FUNCTIONS.items()
    for suffix in ("", "_ptsz")
}
