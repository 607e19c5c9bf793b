"""The process that `devmod_opencl._trial` starts: it builds a binary or a source, and runs each kernel on zeros."""

from __future__ import annotations

import os
import sys

from devmod.errors import DevmodError
from devmod.worker import answer_writer
from devmod_opencl import _driver
from devmod_opencl._driver import cl
from devmod_opencl._trial import BUILT, DONE, RUNS, machine_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod_opencl._device import OpenCLDevice

_BUFFER_BYTES, _LOCAL_BYTES = 1 << 20, 4096
#: The threads of a block, unless the kernel fixes them: enough for the driver to vectorize.
_THREADS = 64


def main(request: dict[str, Any]) -> None:
    """Read a program from standard input, build it and run its kernels. Exit with status 0 unless the driver crashes."""
    data = sys.stdin.buffer.read()
    report = answer_writer()
    from devmod_opencl._device import devices
    from devmod_opencl._pocl import name_processor

    device = next((each for each in devices() if each.identity == request["device"]), None)
    if device is not None:
        try:
            name_processor(device.handle)
            if request.get("source"):
                program = _driver.build_source(device.context, device.handle, data.decode(), (), "the source")
            else:
                program = _driver.build_binary(device.context, device.handle, data)
        except DevmodError:
            os._exit(0)  # the driver refuses the program; the first process gets the same error
        report(BUILT)
        if request["kernels"]:
            _remove_machine_code(os.environ["POCL_CACHE_DIR"])
        for name, arguments in request["kernels"]:
            try:
                _try_kernel(device, program, name, arguments, report)
            except (_driver.Error, DevmodError, ValueError, TypeError):
                continue  # the kernel does not match its fmap; a call of it raises the error
    report(DONE)
    os._exit(0)


def _try_kernel(device: OpenCLDevice, program: Any, name: str, arguments: Sequence[str], report: Callable[[object], None]) -> None:
    """Run one block of a kernel."""
    kernel: Any = cl.Kernel(program, name)
    required = tuple(kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device.handle))
    largest = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device.handle)
    block = required if any(required) else (min(_THREADS, largest), 1, 1)
    queue = device.default_stream.queue
    buffers = []
    for number, argument in enumerate(arguments):
        if argument == "buffer":
            buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, _BUFFER_BYTES)
            buffers.append(buffer)  # an argument of a kernel holds no reference
            cl.enqueue_fill_buffer(queue, buffer, b"\0", 0, _BUFFER_BYTES)
            try:
                kernel.set_arg(number, buffer)
            except _driver.Error:  # without an interface, a pointer may be __local
                kernel.set_arg(number, cl.LocalMemory(_LOCAL_BYTES))
        elif argument == "local":
            kernel.set_arg(number, cl.LocalMemory(_LOCAL_BYTES))
        else:
            kernel._set_arg_buf(number, bytes(int(argument)))
    queue.finish()
    report(RUNS)
    cl.enqueue_nd_range_kernel(queue, kernel, block, block)
    queue.finish()


def _remove_machine_code(folder: str) -> None:
    """Remove the machine code that PoCL has unpacked, so that files after a run prove that the bitcode compiles."""
    for path in machine_code(folder):
        os.remove(path)
