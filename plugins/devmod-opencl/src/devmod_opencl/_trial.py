"""Work of a driver that may end the process is done in another process first, and its success is
cached on disk.

PoCL's binaries contain LLVM bitcode without a digest, so no check of the bytes can detect damage.
Another process builds each new binary first, for PoCL down to the machine code of each kernel. So
it does with SPIR-V, for which Intel's reader ends the process on an error.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode

from devmod.backend import DiskCache, array_bytes, parse_dtype, temporary_folder
from devmod.errors import DevmodError, FormatError
from devmod.worker import Worker, answer_writer
from devmod_opencl import _driver
from devmod_opencl._driver import cl
from devmod_runtime import Trial, was_killed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo
    from devmod_opencl._device import OpenCLDevice


#: The seconds after which the process is ended.
TIMEOUT = 120.0
#: What the process reports: the binary is built; a kernel is about to run; all kernels were run.
BUILT = "built"
RUNS = "runs"
DONE = "done"
_CACHE = DiskCache("opencl")
#: The cached result for a binary that the process has built.
_PASSED = b"done"
#: Whether other processes try programs, and the text if one cannot.
TRIAL = Trial("opencl", "binary")


def try_binary(
    device: OpenCLDevice, binary: bytes, functions: Sequence[FunctionInfo], *, is_il: bool = False
) -> None:
    """Build a binary or SPIR-V in another process, unless a process has built it before.

    Parameters
    ----------
    device
        The device that the binary is for.
    binary
        The payload.
    functions
        The kernels to run.
    is_il
        Whether the payload is SPIR-V.

    Raises
    ------
    FormatError
        The process crashed or could not be started.
    """
    if not TRIAL.is_enabled:
        return
    # Only for PoCL: other drivers' binaries are machine code, which is not compiled when it first
    # runs.
    kernels = []
    if device.platform == _driver.POCL:
        kernels = [[info.name, _arguments(info)] for info in functions]
    request: dict[str, object] = {"device": device.identity}
    if is_il:
        request["il"] = True
    request["kernels"] = kernels
    key = _CACHE.key("trial 1", json.dumps(request), binary)
    if _CACHE.read(key) == _PASSED:
        return
    with temporary_folder() as folder:
        code, reports, _ = run_trial(request, binary, folder)
        # A kernel that crashes on arrays of zeros may be valid. PoCL's cache then contains its
        # machine code.
        valid = code == 0 or (reports[-1:] == [RUNS] and bool(machine_code(folder)))
    if not valid:
        payload = "binary"
        if is_il:
            payload = "SPIR-V"
        raise FormatError(
            f"the opencl {payload} of {len(binary)} bytes is damaged: the process that built it for {device} crashed (exit status {code}). "
            "That was another process, so this one continues. Get the file again from its origin, or use the OpenCL C source "
            "(format 'cl')",
            kind="opencl",
        )
    _CACHE.write(key, _PASSED)


def run_trial(
    request: Mapping[str, object], program: bytes, folder: str
) -> tuple[int, list[str], str]:
    """Return the exit status of the process, its reports and its output. The status is also 0 if a
    kernel runs until the timeout.
    """
    # What PoCL unpacks from a damaged binary must not enter the user's PoCL cache.
    environment = {**os.environ, "POCL_CACHE_DIR": folder}
    # PoCL must find no linker in the current folder, and without PATH it finds none.
    if "PATH" in environment:
        environment["PATH"] = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    try:
        worker = Worker(
            __name__,
            {**request, "program": b64encode(program).decode()},
            environment=environment,
            captures=True,
        )
    except OSError as error:
        raise _failure(str(error)) from error
    with worker:
        reports = worker.all_answers(TIMEOUT)
        if worker.is_late:
            if reports[-1:] == [RUNS]:
                return 0, reports, ""
            raise _failure(f"it took longer than {TIMEOUT:g} seconds")
        code = worker.process.wait()
        if was_killed(code):
            raise _failure(f"it was killed (exit status {code})")
        return code, reports, worker.printed


def machine_code(folder: str) -> list[str]:
    """Return the files of machine code in a cache of PoCL that are for one block size.

    The folder "0-0-0" has the code for any size, which is always part of a binary.
    """
    found = []
    for parent, _, files in os.walk(folder):
        if os.path.basename(parent) == "0-0-0":
            continue
        found += [os.path.join(parent, name) for name in files if name.endswith(".so")]
    return found


def _arguments(info: FunctionInfo) -> list[str]:
    """Return the kind of each argument, or the size of a scalar in bytes. Kernels with images or
    samplers are not run.
    """
    kinds = [""] * len(info.arg_types)
    if info.interface is not None:
        kinds = [param.kind for param in info.interface.params]
    return [_argument(kind, dtype) for kind, dtype in zip(kinds, info.arg_types, strict=True)]


def _argument(kind: str, dtype: str) -> str:
    if kind in ("buffer", "local", "image", "sampler"):
        return kind
    if dtype == "handle":
        return "buffer"
    code, bits, lanes = parse_dtype(dtype)
    # A vector of three in OpenCL has the size of four; bytes may be a struct of any size.
    if lanes == 3 and bits > 8:
        lanes = 4
    return str(array_bytes((code, bits, lanes)))


def _failure(why: str) -> FormatError:
    return FormatError(TRIAL.failure("the opencl binary", why), kind="opencl")


# -- In the other process: it builds a binary or a source, and runs each kernel on zeros.


_BUFFER_BYTES = 1 << 20
_LOCAL_BYTES = 4096
#: The threads of a block, unless the kernel fixes them: enough for the driver to vectorize.
_THREADS = 64


def main(request: dict[str, Any]) -> None:
    """Build the program of a request and run its kernels. Exit with status 0 unless the driver
    crashes.
    """
    data = b64decode(request["program"])
    report = answer_writer()
    from devmod_opencl._device import devices
    from devmod_opencl._pocl import check_space, name_processor

    device = next((each for each in devices() if each.identity == request["device"]), None)
    if device is not None:
        try:
            check_space(device.handle)
            name_processor(device.handle)
            if request.get("source"):
                program = _driver.build_source(
                    device.context, device.handle, data.decode(), (), "the source"
                )
            elif request.get("il"):
                program = _driver.build_il(device.context, device.handle, data)
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


def _try_kernel(
    device: OpenCLDevice,
    program: Any,
    name: str,
    arguments: Sequence[str],
    report: Callable[[object], None],
) -> None:
    """Run one block of a kernel."""
    kernel = _driver.create_kernel(program, name)
    required = tuple(
        kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device.handle)
    )
    largest = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device.handle)
    block = (min(_THREADS, largest), 1, 1)
    if any(required):
        block = required
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
    """Remove the machine code that PoCL has unpacked, so that files after a run prove that the
    bitcode compiles.
    """
    for path in machine_code(folder):
        os.remove(path)
