"""pyopencl, but devmod compiles the programs and launches the kernels, on the caller's own queues.

    import devmod_pyopencl as cl        # in place of: import pyopencl as cl

All other names are pyopencl's. With DEVMOD_PORT=vulkan the same kernels run on Vulkan: the arrays
of a launch are copied there, and back.
"""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl
import pyopencl.array

import devmod

KIND = os.environ.get("DEVMOD_PORT", "opencl")
#: The most work-items of a work-group whose size the caller leaves to the driver.
MOST_WORK_ITEMS = 64


def __getattr__(name: str) -> Any:
    return getattr(pyopencl, name)


#: The programs of this process, by source and options.
modules: dict[tuple[str, tuple[str, ...]], devmod.Module] = {}


def compile_source(source: str, options: tuple[str, ...]) -> devmod.Module:
    """Compile a program for the kind, once in a process.

    Raises
    ------
    pyopencl.RuntimeError
        The source has an error, as for a build of pyopencl.
    """
    key = source, options
    if key not in modules:
        try:
            modules[key] = devmod.compile(source, KIND, language="OpenCL C", options=options)
        except devmod.CompileError as error:
            raise pyopencl.RuntimeError(str(error)) from error
    return modules[key]


class Program:
    """pyopencl's Program, from a source."""

    def __init__(self, context: pyopencl.Context, source: str) -> None:
        self.context = context
        self.source = source
        self.options: tuple[str, ...] = ()
        self.devices = context.devices
        #: The device over each queue. What devmod builds for it ends with it.
        self.adopted: dict[pyopencl.CommandQueue, devmod.Device] = {}

    def build(
        self, options: str | Sequence[str] = (), devices: Any = None, cache_dir: Any = None
    ) -> Program:
        """Compile the program."""
        if isinstance(options, str):
            options = shlex.split(options)
        self.options = tuple(options)
        self.module  # noqa: B018 - an error belongs to the build
        return self

    @cached_property
    def module(self) -> devmod.Module:
        """The program as a module of devmod."""
        return compile_source(self.source, self.options)

    def device(self, queue: pyopencl.CommandQueue) -> devmod.Device:
        """Return devmod's device over a queue."""
        if queue not in self.adopted:
            self.adopted[queue] = devmod.device(queue)
        return self.adopted[queue]

    @cached_property
    def driver(self) -> pyopencl.Program:
        """The program as the driver builds it, which has a kernel's limits."""
        return pyopencl.Program(self.context, self.source).build(list(self.options))

    def all_kernels(self) -> list[Kernel]:
        """Return all kernels."""
        return [Kernel(self, name) for name in self.module.functions]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__") or name not in self.module.functions:
            raise AttributeError(name)
        return Kernel(self, name)


class Kernel:
    """pyopencl's Kernel."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.context = program.context
        self.function_name = name
        self.function = program.module[name]
        self.parameters = self.function.info.interface.params
        self.num_args = len(self.parameters)

    def get_work_group_info(self, param: int, device: pyopencl.Device) -> Any:
        """Return a limit of the kernel."""
        if param == pyopencl.kernel_work_group_info.WORK_GROUP_SIZE:
            if KIND == "opencl":
                return self.function.on(devmod.device(device)).max_block_threads
            return self.function.max_block_threads
        kernel = pyopencl.Kernel(self.program.driver, self.function_name)
        return kernel.get_work_group_info(param, device)

    def __call__(
        self,
        queue: pyopencl.CommandQueue,
        global_size: Sequence[int],
        local_size: Sequence[int] | None,
        *arguments: Any,
        wait_for: Sequence[pyopencl.Event] | None = None,
        g_times_l: bool = False,
    ) -> pyopencl.Event:
        """Launch the kernel, and return an event that follows it."""
        values = [
            convert(param, value) for param, value in zip(self.parameters, arguments, strict=True)
        ]
        block = tuple(local_size or self.function.block or choose_block(global_size))
        block = block[: len(global_size)]
        grid = tuple(global_size)
        if not g_times_l:
            grid = work_groups(grid, block)
        if wait_for:
            pyopencl.enqueue_barrier(queue, wait_for=wait_for)
        if KIND == "opencl":
            function = self.function.on(self.program.device(queue))
            function(*values, grid=grid, block=block)
        else:
            host = HostArrays(queue)
            copies = map(host.array_of, self.parameters, values)
            self.function(*copies, grid=grid, block=block)
            host.copy_back()
        return pyopencl.enqueue_marker(queue)


def convert(param: devmod.Param, value: Any) -> Any:
    """Return an argument of pyopencl as one of devmod."""
    if isinstance(value, pyopencl.LocalMemory):
        return devmod.Local(value.size)
    if value is None and param.kind == "buffer":
        return ctypes.c_void_p()
    if param.kind == "scalar" and isinstance(value, (np.generic, np.ndarray)):
        return np.asarray(value).reshape(-1).view(param.dtype)[0]
    return value


def work_groups(global_size: Sequence[int], local_size: Sequence[int]) -> tuple[int, ...]:
    """Return the number of work-groups in each dimension.

    Raises
    ------
    pyopencl.LogicError
        A number of work-items is no multiple of the work-group's.
    """
    sizes = list(zip(global_size, local_size, strict=True))
    if any(size % part for size, part in sizes):
        raise pyopencl.LogicError(
            f"INVALID_WORK_GROUP_SIZE: {tuple(local_size)} does not divide {tuple(global_size)}"
        )
    return tuple(size // part for size, part in sizes)


def choose_block(global_size: Sequence[int]) -> tuple[int, ...]:
    """Return the largest work-group that divides the work-items, from the first dimension on."""
    result = []
    left = MOST_WORK_ITEMS
    for size in global_size:
        part = next(part for part in range(min(left, size) or 1, 0, -1) if size % part == 0)
        result.append(part)
        left //= part
    return tuple(result)


class HostArrays:
    """Host arrays with the contents of the buffers of a launch, for a device of another kind."""

    def __init__(self, queue: pyopencl.CommandQueue) -> None:
        self.queue = queue
        #: The bytes of each buffer, by the driver's pointer, and whether the kernel may write them.
        self.copies: dict[int, tuple[pyopencl.Buffer, np.ndarray[Any, Any]]] = {}
        self.written: set[int] = set()

    def array_of(self, param: devmod.Param, value: Any) -> Any:
        """Return the host array for a buffer, and any other value unchanged."""
        if isinstance(value, pyopencl.array.Array):
            value = value.base_data
        if not isinstance(value, pyopencl.Buffer):
            return value
        number = value.int_ptr
        if number not in self.copies:
            self.copies[number] = value, np.empty(value.size, np.uint8)
            pyopencl.enqueue_copy(self.queue, self.copies[number][1], value)
        if param.access != "r":
            self.written.add(number)
        dtype = (param.dtype or np.dtype(np.uint8)).base
        contents = self.copies[number][1]
        return contents[: contents.size // dtype.itemsize * dtype.itemsize].view(dtype)

    def copy_back(self) -> None:
        """Copy what the kernel may have written into the buffers."""
        for number in self.written:
            buffer, contents = self.copies[number]
            pyopencl.enqueue_copy(self.queue, buffer, contents)
