"""The stand-in CUDA driver itself, through cuda-bindings: modules, launches, graphs and sticky
errors.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, check, code, cuda, driver, errors, read, zeros
from cuda_sources import AXPY
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver
from devmod_targets.cuda.nvrtc import compile_program

pytestmark = pytest.mark.usefixtures("context")

KERNELS = """
__device__ int total = 5;
__constant__ int factor;
struct Pair { char tag; double value; };
extern "C" __global__ void add(int *out, int value) { out[threadIdx.x] = value + total * factor; }
extern "C" __global__ void pair(Pair p, char c, short s, double *out) { *out = p.value + c + s; }
extern "C" __global__ void dynamic(int *out) { extern __shared__ int memory[]; memory[threadIdx.x] = 1; *out = memory[threadIdx.x]; }
extern "C" __global__ void __launch_bounds__(128) bounded(int *out) { *out = 1; }
"""


def function_of(name: str, source: str = KERNELS, options: tuple[str, ...] = ()) -> Any:
    """Return a function of CUDA C++ that is loaded as PTX."""
    return driver.cuModuleGetFunction(
        driver.cuModuleLoadData(ptx_of(source, *options).encode() + b"\0"), name.encode()
    )


def launch(
    function: Any,
    values: Any,
    grid: Any = (1, 1, 1),
    block: Any = (1, 1, 1),
    shared: int = 0,
    stream: Any = 0,
) -> str:
    """Launch and return the name of the error."""
    return errors.cuLaunchKernel(function, *grid, *block, shared, stream, values, 0)


def launch_with(
    function: Any, values: Any, *attributes: Any, grid: Any = (1, 1, 1), block: Any = (1, 1, 1)
) -> str:
    """Launch with attributes and return the name of the error."""
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.hStream = cuda.CUstream(0)
    config.attrs = list(attributes)
    config.numAttrs = len(attributes)
    return errors.cuLaunchKernelEx(config, function, values, 0)


def attribute(name: str, **fields: Any) -> Any:
    """Return a launch attribute."""
    result = cuda.CUlaunchAttribute()
    result.id = getattr(cuda.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    for field, value in fields.items():
        if isinstance(value, tuple):
            part = getattr(result.value, field)
            part.x, part.y, part.z = value
        else:
            setattr(result.value, field, value)
    return result


def pointer_argument(pointer: Any) -> Any:
    """Return kernelParams of one pointer."""
    return ((int(pointer),), (ctypes.c_void_p,))


def test_globals_have_memory_and_first_values() -> None:
    module = driver.cuModuleLoadData(ptx_of(KERNELS).encode() + b"\0")
    total, size = driver.cuModuleGetGlobal(module, b"total")
    factor, _ = driver.cuModuleGetGlobal(module, b"factor")
    assert (size, read(total, 1), read(factor, 1)) == (4, [5], [0])
    assert errors.cuModuleGetGlobal(module, b"missing") == "CUDA_ERROR_NOT_FOUND"
    driver.cuMemsetD32(factor, 10, 1)
    out = zeros(2)
    values = ((int(out), 7), (ctypes.c_void_p, ctypes.c_int))
    assert (
        launch(driver.cuModuleGetFunction(module, b"add"), values, block=(2, 1, 1))
        == "CUDA_SUCCESS"
    )
    assert read(out, 2) == [57, 57]
    driver.cuModuleUnload(module)


def test_parameters_have_their_places() -> None:
    function = function_of("pair")
    places = [driver.cuFuncGetParamInfo(function, i) for i in range(4)]
    assert places == [(0, 16), (16, 1), (18, 2), (24, 8)]
    assert errors.cuFuncGetParamInfo(function, 4) == "CUDA_ERROR_INVALID_VALUE"


def test_a_parameter_block_of_another_size_is_refused(standin: StandinDriver) -> None:
    function, out = function_of("add"), zeros(1)
    block = np.zeros(64, np.uint8)
    block[:8].view(np.uint64)[0] = int(out)
    block[8:12].view(np.int32)[0] = 3

    def launch_block(size: int) -> str:
        number = ctypes.c_size_t(size)
        extra = (ctypes.c_void_p * 5)(1, block.ctypes.data, 2, ctypes.addressof(number), 0)
        return errors.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(extra))

    assert launch_block(11) == "CUDA_ERROR_INVALID_VALUE"
    assert standin.reason == "add: the parameter block has 11 bytes; expected 12"
    assert launch_block(17) == "CUDA_ERROR_INVALID_VALUE"
    assert launch_block(12) == "CUDA_SUCCESS"
    assert launch_block(16) == "CUDA_SUCCESS"
    assert read(out, 1) == [3]
    assert standin.last_launch["params"] == bytes(block[:12]).hex()


@pytest.mark.parametrize(
    ("grid", "block", "shared", "name"),
    [
        ((0, 1, 1), (1, 1, 1), 0, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 65536, 1), (1, 1, 1), 0, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (0, 1, 1), 0, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (1, 1, 65), 0, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (64, 32, 1), 0, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (1, 1, 1), 49153, "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (1024, 1, 1), 49152, "CUDA_SUCCESS"),
    ],
)
def test_dimensions_are_checked(grid: Any, block: Any, shared: int, name: str) -> None:
    out = zeros(1)
    assert launch(function_of("dynamic"), pointer_argument(out), grid, block, shared) == name


def test_more_dynamic_shared_memory_needs_the_attribute() -> None:
    function, out = function_of("dynamic"), zeros(1)
    largest = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.cuFuncGetAttribute(largest, function) == 48 << 10
    assert launch(function, pointer_argument(out), shared=100 << 10) == "CUDA_ERROR_INVALID_VALUE"
    assert errors.cuFuncSetAttribute(function, largest, 228 << 10) == "CUDA_ERROR_INVALID_VALUE"
    driver.cuFuncSetAttribute(function, largest, 100 << 10)
    assert launch(function, pointer_argument(out), shared=100 << 10) == "CUDA_SUCCESS"
    assert read(out, 1) == [1]


def test_the_bounds_of_a_kernel_are_checked() -> None:
    function, out = function_of("bounded"), zeros(1)
    assert (
        driver.cuFuncGetAttribute(
            cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function
        )
        == 128
    )
    assert launch(function, pointer_argument(out), block=(129, 1, 1)) == "CUDA_ERROR_INVALID_VALUE"
    assert launch(function, pointer_argument(out), block=(128, 1, 1)) == "CUDA_SUCCESS"


def test_clusters_are_checked(standin: StandinDriver) -> None:
    function, out = function_of("bounded"), pointer_argument(zeros(1))
    cluster = attribute("CLUSTER_DIMENSION", clusterDim=(2, 1, 1))
    assert launch_with(function, out, cluster, grid=(3, 1, 1)) == "CUDA_ERROR_INVALID_CLUSTER_SIZE"
    assert launch_with(function, out, cluster, grid=(4, 1, 1)) == "CUDA_SUCCESS"
    assert (standin.last_launch["cluster"], standin.last_launch["preferred"]) == ("2,1,1", "0,0,0")
    preferred = attribute("PREFERRED_CLUSTER_DIMENSION", preferredClusterDim=(4, 1, 1))
    assert launch_with(function, out, cluster, preferred, grid=(4, 1, 1)) == "CUDA_SUCCESS"
    assert standin.last_launch["preferred"] == "4,1,1"
    large = attribute("CLUSTER_DIMENSION", clusterDim=(16, 1, 1))
    assert launch_with(function, out, large, grid=(16, 1, 1)) == "CUDA_ERROR_INVALID_CLUSTER_SIZE"
    driver.cuFuncSetAttribute(
        function,
        cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        1,
    )
    assert launch_with(function, out, large, grid=(16, 1, 1)) == "CUDA_SUCCESS"


def test_a_cooperative_launch_fits_on_the_device(standin: StandinDriver) -> None:
    function, out = function_of("bounded"), pointer_argument(zeros(1))
    standin.set("multiprocessors", 2)
    cooperative = attribute("COOPERATIVE", cooperative=1)
    assert (
        launch_with(function, out, cooperative, grid=(32, 1, 1), block=(128, 1, 1))
        == "CUDA_SUCCESS"
    )
    assert standin.last_launch["cooperative"] == "1"
    assert (
        launch_with(function, out, cooperative, grid=(33, 1, 1), block=(128, 1, 1))
        == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
    )
    assert (
        launch_with(
            function,
            out,
            attribute(
                "PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1
            ),
        )
        == "CUDA_SUCCESS"
    )
    assert (standin.last_launch["programmatic"], standin.last_launch["cooperative"]) == ("1", "0")


def test_an_illegal_address_ends_the_device_for_the_process(standin: StandinDriver) -> None:
    gc.collect()  # what other tests have in this context, which the reset below destroys
    function, stream = function_of("bounded"), driver.cuStreamCreate(0)
    pointer = driver.cuMemAlloc(16)
    # It has not run.
    assert launch(function, pointer_argument(int(pointer) + 16), stream=stream) == "CUDA_SUCCESS"
    assert errors.cuStreamSynchronize(stream) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert f"{int(pointer) + 16:x}" in standin.reason
    assert errors.cuMemAlloc(16) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    device = driver.cuDeviceGet(0)
    driver.cuDevicePrimaryCtxReset(device)
    assert errors.cuDevicePrimaryCtxRetain(device) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert standin.failed


def test_memory_that_was_freed_is_an_illegal_address() -> None:
    function, pointer = function_of("bounded"), driver.cuMemAlloc(16)
    driver.cuMemFree(pointer)
    driver.cuMemAlloc(16)
    assert launch(function, pointer_argument(pointer)) == "CUDA_SUCCESS"
    assert errors.cuCtxSynchronize() == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_there_is_a_gap_between_two_allocations() -> None:
    function, pointers = function_of("bounded"), [driver.cuMemAlloc(512) for _ in range(2)]
    assert launch(function, pointer_argument(int(pointers[0]) + 512)) == "CUDA_SUCCESS"
    assert errors.cuCtxSynchronize() == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_large_allocations_start_at_pages() -> None:
    """Taichi counts on it: it aligns what it divides an allocation into."""
    sizes = [512, 1 << 20, 1, 5 << 20, (1 << 20) - 1, 3 << 20]
    pointers = [int(driver.cuMemAlloc(size)) for size in sizes]
    assert [pointer % (2 << 20) for pointer in pointers[1::2]] == [0, 0, 0]
    assert [pointer % 512 for pointer in pointers] == [0] * 6


@pytest.mark.volume_but
def test_a_kernel_needs_the_allocation_of_its_stream_before_it(standin: StandinDriver) -> None:
    function, first, second = (
        function_of("bounded"),
        *(driver.cuStreamCreate(1) for _ in range(2)),
    )
    pointer = driver.cuMemAllocAsync(16, first)
    assert launch(function, pointer_argument(pointer), stream=second) == "CUDA_SUCCESS"
    assert errors.cuStreamSynchronize(second) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    reason, _, place = standin.reason.partition(", kernel bounded, block (0, 0, 0), ")
    assert reason == (
        f"bounded: write of 4 bytes at global address 0x{int(pointer):x} is unordered: it is in "
        "memory that a stream allocates in its order (cuMemAllocAsync), and nothing orders this "
        "kernel behind it"
    )
    assert place.startswith("thread (0, 0, 0), PTX line ")


LACKING = """.version 8.0
.target sm_90
.address_size 64
.visible .entry lacking() {
.reg .b64 %x;
@BODY
ret;
}
.visible .entry one(.param .u64 out) {
.reg .b64 %x;
ld.param.u64 %x, [out];
st.global.u32 [%x], 1;
ret;
}
"""


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%x], [%x], 16;",
            "line 6: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32: the interpreter "
            "lacks .reduce .add .u32 of this instruction",
        ),
        ("call missing, ();", "line 6: call: the interpreter lacks the function 'missing'"),
    ],
    ids=["instruction", "function"],
)
def test_what_the_interpreter_lacks_is_an_error_of_that_launch_alone(
    standin: StandinDriver, body: str, reason: str
) -> None:
    module = driver.cuModuleLoadData(LACKING.replace("@BODY", body).encode() + b"\0")
    lacking, one = (driver.cuModuleGetFunction(module, name) for name in (b"lacking", b"one"))
    out = zeros(1)
    name = cuda.CUresult.CUDA_ERROR_NOT_SUPPORTED
    for _ in range(2):
        assert launch(lacking, 0) == "CUDA_SUCCESS"
        assert launch(one, pointer_argument(out)) == "CUDA_SUCCESS"
        assert errors.cuCtxSynchronize() == "CUDA_ERROR_NOT_SUPPORTED"
        text = driver.cuGetErrorString(name).decode()
        assert text == f"operation not supported: lacking: {reason}"
        assert errors.cuCtxSynchronize() == "CUDA_SUCCESS"
        assert driver.cuGetErrorString(name) == b"operation not supported"
    assert read(out, 1) == [1]
    assert not standin.failed


@pytest.mark.parametrize(
    ("seconds", "source", "reason"),
    [
        (
            1,
            "while (*(volatile int *)o == 0);",
            "its threads have waited for others for 1 s, the limit that "
            "DEVMOD_STANDIN_KERNEL_SECONDS sets",
        ),
        (0, "for (int i = 0; i < 2000; i++) if (*(volatile int *)o) *o = i;", ""),
    ],
    ids=["a limit", "none"],
)
def test_a_kernel_that_does_not_end_has_the_time_of_a_setting(
    standin: StandinDriver, seconds: int, source: str, reason: str
) -> None:
    standin.set("kernel_seconds", seconds)
    source = f'extern "C" __global__ void k(int *o) {{ {source} }}'
    out = zeros(1)
    assert launch(function_of("k", source), pointer_argument(out)) == "CUDA_SUCCESS"
    result = errors.cuCtxSynchronize()
    if not reason:
        assert result == "CUDA_SUCCESS"
        return
    assert result == "CUDA_ERROR_LAUNCH_TIMEOUT"
    text, _, place = standin.reason.partition(", kernel k, block (0, 0, 0), ")
    assert text == f"k: the kernel does not end: {reason} (0 for no limit)"
    assert place.startswith("thread (0, 0, 0), PTX line ")


@pytest.mark.volume_but
def test_a_stream_of_another_context_is_refused(context: Any) -> None:
    function, out = function_of("bounded"), zeros(1)
    other = driver.cuCtxCreate(None, 0, 0)
    stream = driver.cuStreamCreate(0)
    driver.cuCtxSetCurrent(context)
    own = driver.cuStreamCreate(0)
    for handle, name in ((stream, "CUDA_ERROR_INVALID_HANDLE"), (own, "CUDA_SUCCESS")):
        assert launch(function, pointer_argument(out), stream=handle) == name
    driver.cuStreamSynchronize(own)
    assert read(out, 1) == [1]
    driver.cuCtxDestroy(other)


def test_a_launch_does_nothing_for_a_benchmark(standin: StandinDriver) -> None:
    function, out = function_of("bounded"), zeros(1)
    standin.skip_launches()
    assert launch(function, pointer_argument(out), block=(0, 0, 0)) == "CUDA_SUCCESS"
    standin.skip_launches(False)
    assert read(out, 1) == [0]


def test_the_header_of_ptx_is_checked(standin: StandinDriver) -> None:
    text = ptx_of(AXPY)
    standin.set("driver_version", 12020)
    assert errors.cuModuleLoadData(text.encode() + b"\0") == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    standin.set("driver_version", None)
    standin.set("arch", 80)
    assert errors.cuModuleLoadData(text.encode() + b"\0") == "CUDA_ERROR_INVALID_PTX"
    assert errors.cuModuleLoadData(b"not PTX\0") == "CUDA_ERROR_INVALID_PTX"
    assert standin.reason == "the text has no .version and .target: it is not PTX"
    assert errors.cuModuleLoadData(b"\1\2\3\4\0") == "CUDA_ERROR_INVALID_IMAGE"


def test_the_log_has_what_ptx_lacks(standin: StandinDriver) -> None:
    standin.set("ptx_version", 80)
    options = cuda.CUjit_option
    log = bytearray(500)
    names = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    result = cuda.cuModuleLoadDataEx(b".version 9.5\n.target sm_90\n\0", 2, names, [log, len(log)])
    assert code(result) == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    # The text of NVIDIA's compiler, as in test_real_jit.py.
    assert (
        bytes(log).rstrip(b"\0")
        == b"ptxas application ptx input, line 1; fatal   : Unsupported .version 9.5; current version is '8.0'\n"
    )


def test_a_cubin_is_checked_and_not_executed(standin: StandinDriver) -> None:
    cubin = compile_program(KERNELS, "k.cu", ["--gpu-architecture=sm_90"]).cubin
    assert errors.cuModuleLoadData(cubin) == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert standin.reason == (
        "the simulated GPU executes PTX, and this is a cubin for sm_90. Compile for compute_90 (NVRTC: -arch=compute_90; nvcc: -gencode "
        "arch=compute_90,code=compute_90). With `devmod simulate`, cuda.core, numba-cuda, pycuda and Triton compile to PTX"
    )
    standin.set("skip_cubins", 1)
    module = driver.cuModuleLoadData(cubin)
    function = driver.cuModuleGetFunction(module, b"pair")
    assert [driver.cuFuncGetParamInfo(function, i) for i in range(4)] == [
        (0, 16),
        (16, 1),
        (18, 2),
        (24, 8),
    ]
    total, size = driver.cuModuleGetGlobal(module, b"total")
    assert (read(total, 1), size) == ([5], 4)
    bounded = driver.cuModuleGetFunction(module, b"bounded")
    out = pointer_argument(zeros(1))
    assert launch(bounded, out, block=(129, 1, 1)) == "CUDA_ERROR_INVALID_VALUE"
    assert launch(bounded, out) == "CUDA_SUCCESS"
    standin.set("arch", 80)
    assert errors.cuModuleLoadData(cubin) == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert errors.cuModuleLoadData(cubin[:40] + bytes(64)) == "CUDA_ERROR_INVALID_IMAGE"


def test_a_graph_has_the_order_of_events_and_no_other() -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    fork, join = (driver.cuEventCreate(0) for _ in range(2))
    ordered, unordered = zeros(1), zeros(1)
    driver.cuStreamBeginCapture(first, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    driver.cuMemsetD32Async(ordered, 1, 1, first)
    driver.cuEventRecord(fork, first)
    driver.cuStreamWaitEvent(second, fork, 0)
    driver.cuMemsetD32Async(unordered, 1, 1, first)
    driver.cuMemsetD32Async(unordered, 2, 1, second)
    driver.cuMemsetD32Async(ordered, 2, 1, second)
    driver.cuEventRecord(join, second)
    driver.cuStreamWaitEvent(first, join, 0)
    graph = driver.cuStreamEndCapture(first)
    executable = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphLaunch(executable, first)
    driver.cuStreamSynchronize(first)
    assert (read(ordered, 1), read(unordered, 1)) == ([2], [1])
    driver.cuGraphExecDestroy(executable)
    driver.cuGraphDestroy(graph)


def test_a_capture_ends_with_an_error_where_cuda_has_one() -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    memory = zeros(1)
    assert errors.cuStreamEndCapture(first) == "CUDA_ERROR_ILLEGAL_STATE"
    driver.cuStreamBeginCapture(first, mode)
    assert errors.cuStreamSynchronize(first) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert errors.cuMemsetD32Async(memory, 1, 1, first) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    assert errors.cuStreamEndCapture(first) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    driver.cuStreamBeginCapture(first, mode)
    assert errors.cuMemAlloc(16) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert errors.cuStreamEndCapture(first) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    driver.cuStreamBeginCapture(first, mode)
    event = driver.cuEventCreate(0)
    driver.cuEventRecord(event, first)
    driver.cuStreamWaitEvent(second, event, 0)
    driver.cuMemsetD32Async(memory, 1, 1, second)
    assert errors.cuStreamEndCapture(first) == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
    assert errors.cuStreamWaitEvent(second, event, 0) == "CUDA_ERROR_CAPTURED_EVENT"


STRICT, LOCAL, RELAXED = range(3)  # CUstreamCaptureMode


@pytest.mark.parametrize("is_another", [False, True])
@pytest.mark.parametrize(
    ("capture", "thread", "allowed"),
    [
        (STRICT, STRICT, ""),
        (LOCAL, STRICT, "another"),
        (RELAXED, STRICT, "own another"),
        (STRICT, LOCAL, "another"),
        (STRICT, RELAXED, "own another"),
    ],
)
def test_the_mode_of_a_capture_decides_what_it_forbids(
    capture: int, thread: int, allowed: str, is_another: bool, context: Any
) -> None:
    stream, names = driver.cuStreamCreate(1), []

    def attempt() -> None:
        driver.cuCtxSetCurrent(context)
        before = driver.cuThreadExchangeStreamCaptureMode(cuda.CUstreamCaptureMode(thread))
        names.append(errors.cuMemAlloc(16))
        driver.cuThreadExchangeStreamCaptureMode(before)

    driver.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(capture))
    if is_another:
        worker = Thread(target=attempt)
        worker.start()
        worker.join()
    else:
        attempt()
    expected = ["CUDA_SUCCESS", "CUDA_SUCCESS"]
    if ("another" if is_another else "own") not in allowed.split():
        reasons = ("UNSUPPORTED", "INVALIDATED")
        expected = [f"CUDA_ERROR_STREAM_CAPTURE_{reason}" for reason in reasons]
    assert [*names, errors.cuStreamEndCapture(stream)] == expected


def test_a_relaxed_capture_forbids_to_wait_for_the_context() -> None:
    stream = driver.cuStreamCreate(1)
    driver.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(RELAXED))
    assert errors.cuCtxSynchronize() == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert errors.cuStreamEndCapture(stream) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"


def test_a_library_has_kernels_of_each_context(standin: StandinDriver) -> None:
    counts = [standin.report[kind] for kind in ("libraries", "kernels")]
    library = driver.cuLibraryLoadData(ptx_of(KERNELS).encode() + b"\0", [], [], 0, [], [], 0)
    kernel = driver.cuLibraryGetKernel(library, b"bounded")
    out = zeros(1)
    assert launch(cuda.CUfunction(int(kernel)), pointer_argument(out)) == "CUDA_SUCCESS"
    assert read(out, 1) == [1]
    driver.cuLibraryUnload(library)
    assert [standin.report[kind] for kind in ("libraries", "kernels")] == counts


def test_a_library_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kernels.ptx"
    file.write_text(ptx_of(KERNELS))

    def load(path: Path) -> Any:
        return cuda.cuLibraryLoadFromFile(str(path).encode(), [], [], 0, [], [], 0)

    kernel = driver.cuLibraryGetKernel(check(load(file)), b"dynamic")
    device = driver.cuDeviceGet(0)
    attributes = cuda.CUfunction_attribute
    most = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(most, 1000, kernel, device)
    assert driver.cuKernelGetAttribute(most, kernel, device) == 1000
    constant = attributes.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
    assert driver.cuKernelGetAttribute(constant, kernel, device) == 4
    shared = cuda.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED
    driver.cuKernelSetCacheConfig(kernel, shared, device)
    assert code(load(tmp_path / "missing")) == "CUDA_ERROR_FILE_NOT_FOUND"
    file.write_bytes(bytes(64))
    assert code(load(file)) == "CUDA_ERROR_INVALID_IMAGE"
    driver.cuProfilerStart()
    driver.cuProfilerStop()


def test_a_tensor_map_has_the_limits_of_cuda(standin: StandinDriver) -> None:
    memory = int(allocate(np.zeros((8, 16), np.float32)))
    room = (ctypes.c_char * 256)()
    aligned = ctypes.addressof(room) + 128 - ctypes.addressof(room) % 128

    def encode(
        address: int,
        size: Any = (16, 8),
        strides: Any = (64,),
        box: Any = (4, 4),
        target: int = aligned,
    ) -> int:
        numbers = [(ctypes.c_uint64 * len(values))(*values) for values in (size, strides)]
        boxes = [(ctypes.c_uint32 * len(values))(*values) for values in (box, [1] * len(box))]
        float32 = int(cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32)
        pointers = ctypes.c_void_p(target), float32, len(size), ctypes.c_void_p(address)
        return standin.api.cuTensorMapEncodeTiled(*pointers, *numbers, *boxes, 0, 0, 0, 0)

    assert encode(memory) == 0
    assert encode(memory, target=aligned + 16) == 0  # objects of cuda.core have this alignment
    assert encode(memory, target=aligned + 8) == 1
    assert encode(memory + 4) == 1  # 16 bytes of alignment
    assert encode(memory, strides=(60,)) == 1
    assert encode(memory, box=(257, 4)) == 1
    assert encode(memory, box=(3, 4)) == 1  # 12 bytes
    assert encode(memory, size=(16, 9)) == 0  # beyond the allocation: a kernel's access is checked
    assert (encode(4096), encode(0)) == (0, 1)


@pytest.mark.parametrize(
    ("rank", "lower", "upper", "channels", "pixels", "expected"),
    [
        (3, -32768, 32767, 64, 1, 0),
        (3, -32769, 0, 64, 1, 1),
        (4, -128, 127, 256, 1024, 0),
        (4, 0, 128, 64, 1, 1),
        (5, -16, 15, 4, 1, 0),
        (5, -17, 15, 4, 1, 1),
        (3, 0, 1, 257, 1, 1),
        (3, 0, 1, 64, 1025, 1),
        (3, 0, 1, 3, 1, 1),
        (2, 0, 1, 64, 1, 1),
    ],
)
def test_a_tensor_map_of_columns_has_the_limits_of_cuda(
    rank: int,
    lower: int,
    upper: int,
    channels: int,
    pixels: int,
    expected: int,
    standin: StandinDriver,
) -> None:
    room = (ctypes.c_char * 256)()
    target = ctypes.c_void_p(ctypes.addressof(room) + 128 - ctypes.addressof(room) % 128)
    address = ctypes.c_void_p(int(allocate(np.zeros(64, np.float32))))
    sizes, strides = (ctypes.c_uint64 * 5)(64, 8, 8, 4, 1), (ctypes.c_uint64 * 4)(*[1 << 16] * 4)
    corners = [(ctypes.c_int * 3)(*[each] * 3) for each in (lower, upper)]
    tensor = target, 7, rank, address, sizes, strides
    steps, api = (ctypes.c_uint32 * 5)(*[1] * 5), standin.api
    columns = channels, pixels, steps
    assert api.cuTensorMapEncodeIm2col(*tensor, *corners, *columns, 0, 0, 0, 0) == expected
    if rank == 3:
        wide = api.cuTensorMapEncodeIm2colWide(*tensor, lower, upper, *columns, 0, 0, 0, 0, 0)
        assert wide == expected


def test_the_launch_api_of_cuda_3(standin: StandinDriver) -> None:
    handle = int(function_of("add"))
    out, value = zeros(4), ctypes.c_int(7)
    pointer, function = ctypes.c_uint64(int(out)), ctypes.c_void_p(handle)
    api = standin.api
    assert api.cuFuncSetBlockShape(function, 0, 1, 1) == 1
    assert api.cuParamSetv(function, 4090, ctypes.byref(pointer), 8) == 1
    assert api.cuFuncSetBlockShape(function, 4, 1, 1) == api.cuFuncSetSharedSize(function, 64) == 0
    assert (
        api.cuParamSetv(function, 0, ctypes.byref(pointer), 8)
        == api.cuParamSeti(function, 8, value)
        == 0
    )
    assert api.cuLaunch(function) == 1  # the size is not set
    assert api.cuParamSetSize(function, 12) == api.cuLaunchGrid(function, 1, 1) == 0
    assert read(out) == [7, 7, 7, 7]
    assert standin.last_launch["shared"] == "64"
    assert (
        api.cuParamSetf(function, 8, ctypes.c_float(1.0))
        == api.cuLaunchGridAsync(function, 2, 1, None)
        == 0
    )
    assert read(out) == [0x3F800000] * 4


def test_the_form_of_get_proc_address_without_a_status(standin: StandinDriver) -> None:
    pointer = ctypes.c_void_p()
    assert (
        standin.api.cuGetProcAddress(
            b"cuMemAlloc", ctypes.byref(pointer), 12000, ctypes.c_uint64(0)
        )
        == 0
    )
    assert pointer.value == ctypes.cast(standin.api.cuMemAlloc_v2, ctypes.c_void_p).value
    assert (
        standin.api.cuGetProcAddress(b"cuMissing", ctypes.byref(pointer), 12000, ctypes.c_uint64(0))
        == 500
    )


GRID_SYNC = """#include <cooperative_groups.h>
extern "C" __global__ void k(int *x, int n) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    x[i] = i;
    grid.sync();
    int other = x[n - 1 - i];
    grid.sync();
    x[i] = other;
}"""


def test_a_cooperative_launch_synchronizes_its_grid() -> None:
    out = zeros(128)
    values = ((int(out), 128), (ctypes.c_void_p, ctypes.c_int))
    assert (
        errors.cuLaunchCooperativeKernel(
            function_of("k", GRID_SYNC), 4, 1, 1, 32, 1, 1, 0, 0, values
        )
        == "CUDA_SUCCESS"
    )
    assert read(out, 128) == list(range(127, -1, -1))


@pytest.mark.parametrize(
    ("waits", "expected"), [(None, "CUDA_SUCCESS"), (0, "CUDA_ERROR_ILLEGAL_ADDRESS")]
)
def test_a_free_waits_for_the_kernels_before_it(
    standin: StandinDriver, waits: int | None, expected: str
) -> None:
    standin.set("frees_wait", waits)
    out = zeros(4)
    assert (
        launch(function_of("add"), ((int(out), 7), (ctypes.c_void_p, ctypes.c_int)))
        == "CUDA_SUCCESS"
    )
    assert errors.cuMemFree(out) == "CUDA_SUCCESS"
    assert errors.cuCtxSynchronize() == expected


@pytest.mark.volume_but
def test_a_fault_is_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    function = function_of("add", KERNELS, ("-lineinfo",))
    out = zeros(4)
    launch(function, ((int(out), 7), (ctypes.c_void_p, ctypes.c_int)), block=(8, 1, 1))
    assert errors.cuCtxSynchronize() == "CUDA_ERROR_ILLEGAL_ADDRESS"
    error = capfd.readouterr().err
    assert error.startswith(
        f"devmod-simulators: add: write of 4 bytes at global address 0x{int(out) + 16:x} is out of bounds, kernel add, "
    )
    assert ", block (0, 0, 0), thread (4, 0, 0), kernel.cu:5, PTX line " in error
    text = driver.cuGetErrorString(cuda.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS).decode()
    message = error.removeprefix("devmod-simulators: ").rstrip()
    assert text == f"an illegal memory access was encountered: {message}"
