"""Launches on ROCm: arguments at the places of the metadata, limits, shared memory, cooperative launches, faults."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hip_modules import ADD, DIMENSIONS, code_object, function_of, module_of
from standin_rocm import device_arch

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod_conformance.checks import check_calls, check_error, check_scalar, code_of

C_TYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
    "float16": "_Float16",
}
X = Param("x", "buffer", "int32", "rw")
#: Writes the number of the thread.
NUMBERS = 'extern "C" __global__ void k(int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = i; }'
ADDEND = 'extern "C" __global__ void k(int *x, int a) { x[threadIdx.x] += a; }'
SCALARS = "".join(
    f'extern "C" __global__ void k_{name}({c_type} *x, {c_type} s) {{ x[threadIdx.x] = s; }}\n' for name, c_type in C_TYPES.items()
)
#: Writes the number of the thread in its block of 32.
REQUIRED_BLOCK = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %x) !reqd_work_group_size !0 {
    %i = call i32 @llvm.amdgcn.workitem.id.x()
    %place = getelementptr i32, ptr addrspace(1) %x, i32 %i
    store i32 %i, ptr addrspace(1) %place
    ret void
}
!0 = !{i32 32, i32 1, i32 1}
"""
#: Reverses a block by dynamic shared memory.
REVERSE = """
extern "C" __global__ void k(int *x)
{
    extern __shared__ int memory[];
    memory[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}
"""


def kernel(source: str, params: Sequence[Param] = (X,), tags: Sequence[str] = (), block: Any = None) -> Any:
    """Return the kernel `k` of a source with a declared interface."""
    types = ["handle" if param.kind == "buffer" else param.type for param in params]
    info = FunctionInfo("k", types, [*DIMENSIONS, *tags], (), Interface(list(params), (), block))
    return devmod.create("rocm", code_object(source), "hsaco", {"k": info})["k"]


def refusal(device: Any, text: str) -> str:
    return f"the rocm function 'k' cannot be launched on {device}: {text}"


def error_of(call: Any, *arguments: Any, **keywords: Any) -> devmod.LaunchError:
    with pytest.raises(devmod.LaunchError) as caught:
        call(*arguments, **keywords)
    return caught.value


# -- arguments


@pytest.mark.row("R34")
@pytest.mark.parametrize("dtype", list(C_TYPES))
def test_scalars_and_elements_of_every_type(dtype: str, emulator: Any, device: Any) -> None:
    f = module_of(SCALARS)[f"k_{dtype}"]
    check_scalar(lambda x, value: f(x, value, grid=1, block=4), dtype)


@pytest.mark.row("R34")
@pytest.mark.parametrize("has_interface", [True, False])
def test_vectors_structs_and_bools_have_the_places_of_the_metadata(has_interface: bool, emulator: Any, device: Any) -> None:
    source = """
    struct S { char a; float3 b; short c; };
    extern "C" __global__ void k(float *out, bool first, float3 v, bool second, float4 w, char3 c, S s, double d, uchar2 u, short n) {
        out[threadIdx.x] = first + 2 * second + v.x + 10 * v.y + 100 * v.z + 1000 * w.w + c.x + c.y + c.z + s.a + s.b.z + s.c + d + u.y + n;
    }"""
    members = [Member("a", "int8", 0), Member("b", "float32x3", 4), Member("c", "int16", 16)]
    params = [
        Param("out", "buffer", "float32", "w"),
        Param("first", "scalar", "bool"),
        Param("v", "scalar", "float32x3"),
        Param("second", "scalar", "bool"),
        Param("w", "scalar", "float32x4"),
        Param("c", "scalar", "int8x3"),
        Param("s", "scalar", "uint8x20", align=4, members=members),
        Param("d", "scalar", "float64"),
        Param("u", "scalar", "uint8x2"),
        Param("n", "scalar", "int16"),
    ]
    types = ["handle" if param.kind == "buffer" else param.type for param in params]
    info = FunctionInfo("k", types, DIMENSIONS, (), Interface(params) if has_interface else None)
    f = devmod.create("rocm", code_object(source), "hsaco", {"k": info})["k"]
    struct: Any = {"a": 5, "b": (0, 0, 0.5), "c": -3}
    if not has_interface:
        record = np.array([(5, (0, 0, 0.5), -3)], np.dtype([("a", "i1"), ("b", "f4", 3), ("c", "i2")], align=True))
        assert record.nbytes == 20
        struct = record.tobytes()
    out = np.zeros(4, "float32")
    f(out, True, (1, 2, 3), True, (0, 0, 0, 4), (1, 2, 3), struct, 0.25, (9, 7), -40, grid=1, block=4)
    assert out.tolist() == [3 + 321 + 4000 + 6 + 5 + 0.5 - 3 + 0.25 + 7 - 40] * 4


@pytest.mark.row("R34")
def test_a_function_without_parameters(emulator: Any, device: Any, standin: Any) -> None:
    module = module_of('__device__ int count; extern "C" __global__ void k() { atomicAdd(&count, (int)blockDim.x); }')
    module["k"](grid=2, block=3)
    module["k"].bind(grid=2, block=3)()
    assert module.get_global("count", device, dtype="int32").numpy().tolist() == [2 * 2 * 3 * 3]
    assert (standin.last_launch["grid"], standin.last_launch["block"]) == ("2,1,1", "3,1,1")


def test_local_memory_is_no_argument(device: Any) -> None:
    f = devmod.create("rocm", code_object(NUMBERS), "hsaco", {"k": FunctionInfo("k", ["handle"], DIMENSIONS)})["k"]
    check_error(
        devmod.ArgumentError,
        lambda: f(devmod.Local(16), grid=1, block=4),
        "the rocm function 'k': argument 1 is a Local, and ROCm kernels take no shared memory as an argument: declare it in the kernel as "
        "extern __shared__, and pass shared_memory=",
    )


@pytest.mark.row("R34")
def test_calls_of_every_form(emulator: Any, device: Any) -> None:
    check_calls(device, module_of(ADD)["add"], block=32)


@pytest.mark.row("R32")
def test_threads_launch_one_function_and_one_prepared_launch(emulator: Any, device: Any) -> None:
    f = function_of(ADDEND)
    arrays = [device.zeros(4, "int32") for _ in range(4)]
    shared = device.zeros(4, "int32")
    launch = f.bind(shared, 3, grid=1, block=4)

    def work(number: int) -> None:
        for _ in range(8):
            f(arrays[number], number, grid=1, block=4)
            launch()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.numpy().tolist() for each in arrays] == [[8 * number] * 4 for number in range(4)]
    assert shared.numpy().tolist() == [4 * 8 * 3] * 4


def test_a_prepared_launch_keeps_everything_that_it_uses(emulator: Any, device: Any) -> None:
    x = device.zeros(64, "int32")
    launch = module_of(NUMBERS)["k"].bind(x, grid=2, block=32)
    gc.collect()
    launch()
    assert x.numpy().tolist() == list(range(64))


# -- limits


@pytest.mark.parametrize(
    ("shape", "argument", "text"),
    [
        ({"grid": 1, "block": (1, 1, 1025)}, "block", "its max_block_dim_z is 1024, got block=(1, 1, 1025)"),
        ({"grid": 1, "block": (64, 32)}, "block", "its max_threads_per_block is 1024, and block=(64, 32, 1) has 2048 threads"),
        ({"grid": (1, 65537), "block": 1}, "grid", "its max_grid_dim_y is 65536, got grid=(1, 65537, 1)"),
        (
            {"grid": 1 << 30, "block": 64},
            "grid",
            "a launch has at most 4294967295 threads in x, got grid=(1073741824, 1, 1) with block=(64, 1, 1)",
        ),
        (
            {"grid": 1, "block": 1, "shared_memory": 65537},
            "shared_memory",
            "its max_shared_memory_per_block is 65536, got shared_memory=65537",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) and " " not in each else "",
)
def test_limits_of_the_device(shape: dict[str, Any], argument: str, text: str, device: Any, standin: Any) -> None:
    launches = standin.launches
    error = error_of(kernel(NUMBERS), np.zeros(4, "int32"), **shape)
    advice = "; launch in several parts, or let the kernel index more dimensions" if argument == "grid" else ""
    assert str(error) == refusal(device, text + advice)
    assert error.argument == argument
    assert standin.launches == launches


def test_the_block_that_the_kernel_requires_or_bounds(emulator: Any, device: Any) -> None:
    x = np.zeros(64, "int32")
    bounded = kernel(NUMBERS.replace("void k", "void __launch_bounds__(32) k"))
    assert str(error_of(bounded, x, grid=1, block=64)) == refusal(
        device, "the kernel is built for blocks of at most 32 threads (__launch_bounds__), and block=(64, 1, 1) has 64"
    )
    info = FunctionInfo("k", ["handle"], DIMENSIONS)
    code = code_of(devmod.compile(REQUIRED_BLOCK, f"rocm -arch={device_arch()}", language="LLVM IR", fmap={"k": info}))
    required = devmod.create("rocm", code, "hsaco", {"k": info})["k"]
    assert str(error_of(required, x, grid=1, block=16)) == refusal(
        device, "the kernel is built for blocks of (32, 1, 1) threads, got block=(16, 1, 1)"
    )
    required(x, grid=2, block=32)
    assert x.tolist() == list(range(32)) + [0] * 32


def test_the_block_is_chosen(emulator: Any, device: Any, standin: Any) -> None:
    f = function_of(NUMBERS)
    x = device.zeros(1024, "int32")
    f(x, threads=1024)
    assert x.numpy().tolist() == list(range(1024))
    assert (standin.last_launch["grid"], standin.last_launch["block"]) == ("4,1,1", "256,1,1")


# -- shared memory


@pytest.mark.parametrize("nbytes", [16, 65536])
def test_dynamic_shared_memory(nbytes: int, emulator: Any, device: Any, standin: Any) -> None:
    x = np.arange(4, dtype="int32")
    function_of(REVERSE)(x, grid=1, block=4, shared_memory=nbytes)
    assert x.tolist() == [3, 2, 1, 0]
    assert standin.last_launch["shared"] == str(nbytes)


@pytest.mark.row("R35")
def test_dynamic_shared_memory_as_a_launch_value_of_tvm(emulator: Any, device: Any) -> None:
    info = FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"])
    x = np.arange(4, dtype="int32")
    devmod.create("rocm", code_object(REVERSE), "hsaco", {"k": info})["k"](x, 1, 4, 16)
    assert x.tolist() == [3, 2, 1, 0]


def test_the_kernels_own_shared_memory_counts(device: Any) -> None:
    source = 'extern "C" __global__ void k(int *x) { __shared__ int own[256]; own[x[0]] = 1; __syncthreads(); x[1] = own[x[2]]; }'
    error = error_of(kernel(source), np.zeros(4, "int32"), grid=1, block=1, shared_memory=65536)
    text = "its max_shared_memory_per_block is 65536, got shared_memory=65536, and the kernel declares 1024 bytes of its own"
    assert str(error) == refusal(device, text)


# -- launch attributes


@pytest.mark.row("R35")
def test_cooperative_launches(emulator: Any, device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=["tirx.use_cooperative_launch"])
    x = np.zeros(64, "int32")
    f(x, grid=2, block=32)
    assert x.tolist() == list(range(64))
    assert standin.last_launch["cooperative"] == "1"
    most = 2 * device.limits["multiprocessor_count"]
    error = error_of(f, x, grid=most + 1, block=1024)
    assert str(error) == refusal(
        device,
        f"a cooperative launch runs all its blocks at once, and with block=(1024, 1, 1) it runs {most}; got grid=({most + 1}, 1, 1) of "
        f"{most + 1} blocks; launch in several parts, or let the kernel index more dimensions",
    )
    assert error.argument == "grid"
    kernel(NUMBERS)(x, grid=2, block=32)
    assert standin.last_launch["cooperative"] == "0"


@pytest.mark.row("R35")
def test_clusters_are_refused(device: Any) -> None:
    f = kernel(NUMBERS, tags=["clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z"])
    error = error_of(f, np.zeros(16, "int32"), 4, 1, 1, 4, 1, 1, 2, 1, 1)
    assert str(error) == refusal(device, "devices of ROCm have no clusters; got cluster=(2, 1, 1)")


# -- faults


def test_a_launch_that_the_driver_refuses(emulator: Any, device: Any, standin: Any) -> None:
    f = kernel(NUMBERS)
    x = device.zeros(4, "int32")
    f(x, grid=1, block=4)
    standin.set("fail", "hipModuleLaunchKernel=719")
    for call in (lambda: f(x, grid=1, block=4), lambda: f(x, grid=2, block=2)):
        error = error_of(call)
        assert str(error).startswith(f"{device} refused a launch of the rocm function 'k': hipErrorLaunchFailure (")
        assert error.function == "k"
    standin.set("fail", "hipModuleLaunchKernel=2")
    assert isinstance(error_of(f, x, grid=1, block=4), devmod.DeviceMemoryError)
    standin.set("fail", None)
    f(x, grid=1, block=4)
    assert x.numpy().tolist() == [0, 1, 2, 3]
