"""Launching on a CUDA device: arguments, limits, clusters, cooperative and dependent launches, faults."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cuda_kernels import adder, info_of
from ptx_sources import ptx_of
from standin_cuda import child_environment

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod_conformance.checks import check_calls, check_scalar, run_python

DIMENSIONS = ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"]
CLUSTER = ["clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z"]
PREFERRED = ["preferredClusterCtaIdx.x", "preferredClusterCtaIdx.y", "preferredClusterCtaIdx.z"]
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
}
X = Param("x", "buffer", "int32", "rw")
#: Writes the number of the thread.
NUMBERS = 'extern "C" __global__ void k(int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = i; }'


def kernel(source: str, params: Sequence[Param] = (X,), tags: Sequence[str] = (), block: Any = None, arch: str = "compute_90") -> Any:
    """Return the kernel `k` of a source."""
    types = ["handle" if param.kind == "buffer" else param.type for param in params]
    info = FunctionInfo("k", types, [*DIMENSIONS, *tags], (), Interface(list(params), (), block))
    return devmod.create("cuda", ptx_of(source, f"--gpu-architecture={arch}").encode(), "ptx", {"k": info})["k"]


def error_of(call: Any, *arguments: Any, **keywords: Any) -> devmod.LaunchError:
    with pytest.raises(devmod.LaunchError) as caught:
        call(*arguments, **keywords)
    return caught.value


def refusal(device: Any, text: str) -> str:
    return f"the cuda function 'k' cannot be launched on {device}: {text}"


# -- arguments


@pytest.mark.row("R34")
@pytest.mark.parametrize("dtype", list(C_TYPES))
def test_scalars_and_elements_of_every_type(dtype: str, device: Any) -> None:
    source = f'extern "C" __global__ void k({C_TYPES[dtype]} *x, {C_TYPES[dtype]} s) {{ x[threadIdx.x] = s; }}'
    f = kernel(source, [Param("x", "buffer", dtype, "rw"), Param("s", "scalar", dtype)])
    check_scalar(lambda x, value: f(x, value, grid=1, block=4), dtype)


@pytest.mark.row("R34")
@pytest.mark.parametrize("has_interface", [True, False])
def test_vectors_structs_and_bools_have_the_sizes_of_cuda(has_interface: bool, device: Any) -> None:
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
    f = devmod.create("cuda", ptx_of(source).encode(), "ptx", {"k": info})["k"]
    struct: Any = {"a": 5, "b": (0, 0, 0.5), "c": -3}
    if not has_interface:
        record = np.array([(5, (0, 0, 0.5), -3)], np.dtype([("a", "i1"), ("b", "f4", 3), ("c", "i2")], align=True))
        assert record.nbytes == 20
        struct = record.tobytes()
    out = np.zeros(4, "float32")
    f(out, True, (1, 2, 3), True, (0, 0, 0, 4), (1, 2, 3), struct, 0.25, (9, 7), -40, grid=1, block=4)
    assert out.tolist() == [3 + 321 + 4000 + 6 + 5 + 0.5 - 3 + 0.25 + 7 - 40] * 4


@pytest.mark.row("R34")
def test_a_function_without_parameters(device: Any, standin: Any) -> None:
    f = devmod.create("cuda", ptx_of('extern "C" __global__ void k() {}').encode(), "ptx", {"k": FunctionInfo("k", [])})["k"]
    f(grid=2, block=3)
    f.bind(grid=2, block=3)()
    device.synchronize()
    assert (standin.last_launch["name"], standin.last_launch["grid"], standin.last_launch["block"]) == ("k", "2,1,1", "3,1,1")


def test_local_memory_is_no_argument(device: Any) -> None:
    f = devmod.create("cuda", ptx_of(NUMBERS).encode(), "ptx", {"k": FunctionInfo("k", ["handle"], DIMENSIONS)})["k"]
    with pytest.raises(devmod.ArgumentError) as caught:
        f(devmod.Local(16), grid=1, block=4)
    assert str(caught.value) == (
        "the cuda function 'k': argument 1 is a Local, and CUDA kernels take no shared memory as an argument: declare it in the kernel as "
        "extern __shared__, and pass shared_memory="
    )


@pytest.mark.row("R34")
def test_calls_of_every_form(device: Any) -> None:
    check_calls(device, adder()["add"], block=32)


@pytest.mark.row("R32")
def test_threads_launch_one_function_and_one_prepared_launch(device: Any) -> None:
    f = kernel('extern "C" __global__ void k(int *x, int a) { x[threadIdx.x] += a; }', [X, Param("a", "scalar", "int32")])
    arrays = [device.zeros(4, "int32") for _ in range(8)]
    shared = device.zeros(4, "int32")
    launch = f.bind(shared, 3, grid=1, block=4)

    def work(number: int) -> None:
        for _ in range(16):
            f(arrays[number], number, grid=1, block=4)
            launch()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.numpy().tolist() for each in arrays] == [[16 * number] * 4 for number in range(8)]
    assert shared.numpy().tolist() == [8 * 16 * 3] * 4


def test_a_launch_in_a_thread_with_another_context_current(device: Any, standin: Any) -> None:
    x = device.zeros(4, "int32")
    f = kernel(NUMBERS)
    launch = f.bind(x, grid=1, block=4)
    results = []

    def work() -> None:
        before = device.driver.current_context()
        launch()
        f(x, grid=1, block=4)
        results.append((before, device.driver.current_context()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert x.numpy().tolist() == [0, 1, 2, 3]
    ((before, after),) = results
    assert before == 0
    assert after in (0, device.context.handle)


def test_a_prepared_launch_keeps_everything_that_it_uses(device: Any) -> None:
    import gc

    x = device.zeros(64, "int32")
    launch = kernel(NUMBERS).bind(x, grid=2, block=32)
    values = x.numpy
    del x
    gc.collect()
    for _ in range(3):
        launch()
    assert values().tolist() == list(range(64))
    with pytest.raises(TypeError):
        launch(1)
    assert launch.stream is device.default_stream
    assert launch.time() >= 0


# -- limits of the device and the kernel


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("shape", "argument", "text"),
    [
        ({"grid": 1, "block": 1025}, "block", "its max_block_dim_x is 1024, got block=(1025, 1, 1)"),
        ({"grid": 1, "block": (1, 1, 65)}, "block", "its max_block_dim_z is 64, got block=(1, 1, 65)"),
        ({"grid": 1, "block": (512, 4)}, "block", "its max_threads_per_block is 1024, and block=(512, 4, 1) has 2048 threads"),
        (
            {"grid": 1, "block": 4, "shared_memory": 300000},
            "shared_memory",
            "its max_shared_memory_per_block_optin is 232448, got shared_memory=300000",
        ),
        (
            {"grid": (1, 65536), "block": 4},
            "grid",
            "its max_grid_dim_y is 65535, got grid=(1, 65536, 1); launch in several parts, or let the kernel index more dimensions",
        ),
        (
            {"threads": (1, 1, 70000), "block": 1},
            "grid",
            "its max_grid_dim_z is 65535, got grid=(1, 1, 70000). threads=(1, 1, 70000) in blocks of 1 needs grid=(1, 1, 70000); give a larger "
            "block=, launch in several parts, or let the kernel index more dimensions",
        ),
    ],
)
def test_limits_of_the_device(shape: dict[str, Any], argument: str, text: str, device: Any, standin: Any) -> None:
    f = kernel(NUMBERS)
    launches = standin.launches
    error = error_of(f, device.zeros(4, "int32"), **shape)
    assert str(error) == refusal(device, text)
    assert (error.kind, error.function, error.argument) == ("cuda", "k", argument)
    assert standin.launches == launches


@pytest.mark.row("R34")
def test_the_block_that_the_kernel_requires_or_bounds(device: Any) -> None:
    x = device.zeros(128, "int32")
    fixed = kernel(NUMBERS.replace("void k", "void __block_size__((64, 1, 1)) k"))
    assert str(error_of(fixed, x, grid=1, block=32)) == refusal(
        device, "the kernel is built for blocks of (64, 1, 1) threads, got block=(32, 1, 1)"
    )
    fixed(x, grid=2, block=64)
    assert x.numpy().tolist() == list(range(128))
    bounded = kernel(NUMBERS.replace("void k", "void __launch_bounds__(64) k"))
    assert str(error_of(bounded, x, grid=1, block=96)) == refusal(
        device, "the kernel is built for blocks of at most 64 threads (__launch_bounds__), and block=(96, 1, 1) has 96"
    )
    x = device.zeros(128, "int32")
    bounded(x, grid=4, block=32)
    assert x.numpy().tolist() == list(range(128))


def test_a_kernel_with_too_many_registers_for_a_block(device: Any, standin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(device.driver).function_attribute
    monkeypatch.setattr(type(device.driver), "function_attribute", lambda self, f, number: 256 if not number else real(self, f, number))
    assert str(error_of(kernel(NUMBERS), device.zeros(4, "int32"), grid=1, block=512)) == refusal(
        device,
        "the kernel's registers allow 256 threads in a block (CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), and block=(512, 1, 1) has 512; compile "
        "it with __launch_bounds__(512)",
    )


def test_the_block_is_chosen_by_the_occupancy(device: Any) -> None:
    params = [X]
    info = FunctionInfo("k", ["handle"], DIMENSIONS, (), Interface(params, open_block=True))
    f = devmod.create("cuda", ptx_of(NUMBERS).encode(), "ptx", {"k": info})["k"]
    block = f.launch_config(threads=5000).block
    assert block[0] >= 32
    assert block[0] & block[0] - 1 == 0
    assert block[1:] == (1, 1)
    x = device.zeros(8192, "int32")
    f(x, threads=5000)
    assert x.numpy()[:5000].tolist() == list(range(5000))
    assert f.launch_config(threads=3).block == (4, 1, 1)


# -- shared memory


SHARED = """
extern __shared__ int scratch[];
extern "C" __global__ void k(int *x, int n) {
    scratch[n - 1 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = scratch[threadIdx.x];
}"""


@pytest.mark.row("R34", "R35")
@pytest.mark.parametrize("nbytes", [1024, 48 << 10, 100_000, 200_000])
def test_dynamic_shared_memory(nbytes: int, device: Any, standin: Any) -> None:
    f = kernel(SHARED, [X, Param("n", "scalar", "int32")])
    calls = standin.calls("cuFuncSetAttribute")
    for _ in range(2):
        x = np.arange(256, dtype="int32")
        f(x, 256, grid=1, block=256, shared_memory=nbytes)
        assert x.tolist() == list(range(255, -1, -1))
    assert standin.calls("cuFuncSetAttribute") == calls + (nbytes > 48 << 10)  # the attribute is raised once, where it must be
    assert standin.last_launch["shared"] == str(nbytes)


@pytest.mark.row("R35")
def test_dynamic_shared_memory_as_a_launch_value_of_tvm(device: Any, standin: Any) -> None:
    info = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"])
    f = devmod.create("cuda", ptx_of(SHARED).encode(), "ptx", {"k": info})["k"]
    x = np.arange(64, dtype="int32")
    f(x, 64, 1, 64, 65536)
    assert x.tolist() == list(range(63, -1, -1))
    assert standin.last_launch["shared"] == "65536"


def test_the_kernels_own_shared_memory_counts(device: Any) -> None:
    source = 'extern "C" __global__ void k(int *x) { __shared__ int s[2048]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[0]; }'
    f = kernel(source)
    x = device.zeros(4, "int32")
    most = device.limits["max_shared_memory_per_block_optin"]
    f(x, grid=1, block=1, shared_memory=most - 8192)
    assert str(error_of(f, x, grid=1, block=1, shared_memory=most - 8191)) == refusal(
        device,
        f"its max_shared_memory_per_block_optin is {most}, got shared_memory={most - 8191}, and the kernel declares 8192 bytes of its own",
    )


# -- clusters, cooperative and dependent launches


@pytest.mark.row("R35")
def test_clusters_of_a_launch(device: Any, standin: Any) -> None:
    source = """extern "C" __global__ void k(int *x) {
        unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        x[blockIdx.x] = rank;
    }"""
    f = kernel(source, tags=CLUSTER)
    x = np.zeros(8, "int32")
    f(x, 8, 1, 1, 1, 1, 1, 4, 1, 1)
    assert x.tolist() == [0, 1, 2, 3] * 2
    assert standin.last_launch["cluster"] == "4,1,1"
    assert str(error_of(f, x, 6, 1, 1, 1, 1, 1, 4, 1, 1)) == refusal(
        device, "grid=(6, 1, 1) is not a multiple of cluster=(4, 1, 1); a grid has whole clusters"
    )


@pytest.mark.row("R35")
def test_clusters_that_not_every_device_supports(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=CLUSTER)
    x = np.zeros(32, "int32")
    f(x, 16, 1, 1, 2, 1, 1, 16, 1, 1)
    assert x.tolist() == list(range(32))
    assert standin.last_launch["cluster"] == "16,1,1"
    assert str(error_of(f, x, 32, 1, 1, 2, 1, 1, 32, 1, 1)) == refusal(
        device,
        "it runs no cluster of 32 blocks with block=(2, 1, 1) and shared_memory=0; every device with clusters runs 8 blocks",
    )


@pytest.mark.row("R35")
def test_a_cluster_that_the_kernel_requires(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS.replace("void k", "void __cluster_dims__(2, 1, 1) k"), tags=CLUSTER)
    x = np.zeros(8, "int32")
    f(x, grid=4, block=2)
    assert x.tolist() == list(range(8))
    assert standin.last_launch["cluster"] == "2,1,1"
    f(x, 4, 1, 1, 2, 1, 1, 2, 1, 1)
    assert str(error_of(f, x, 4, 1, 1, 2, 1, 1, 4, 1, 1)) == refusal(
        device, "the kernel is built for clusters of (2, 1, 1) blocks, got cluster=(4, 1, 1)"
    )
    assert str(error_of(f, x, grid=3, block=2)) == refusal(
        device, "grid=(3, 1, 1) is not a multiple of cluster=(2, 1, 1); a grid has whole clusters"
    )


@pytest.mark.row("R35")
def test_a_preferred_cluster(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=[*CLUSTER, *PREFERRED])
    x = np.zeros(16, "int32")
    f(x, 8, 1, 1, 2, 1, 1, 2, 1, 1, 4, 1, 1)
    assert x.tolist() == list(range(16))
    assert (standin.last_launch["cluster"], standin.last_launch["preferred"]) == ("2,1,1", "4,1,1")
    assert str(error_of(f, x, 6, 1, 1, 2, 1, 1, 2, 1, 1, 3, 1, 1)) == refusal(
        device, "preferred_cluster=(3, 1, 1) is not a multiple of cluster=(2, 1, 1)"
    )


@pytest.mark.row("R35")
def test_a_device_without_clusters(cuda_driver: str, standin: Any) -> None:
    program = (
        "import sys, numpy as np, devmod\n"
        "f = devmod.load(sys.argv[1])['k']\n"
        "try: f(np.zeros(8, 'int32'), 8, 1, 1, 1, 1, 1, 4, 1, 1)\n"
        "except devmod.LaunchError as error: print(error)\n"
    )
    text = in_child(program, NUMBERS, CLUSTER, cuda_driver, arch=80)
    assert text == (
        "the cuda function 'k' cannot be launched on cuda device 0 (stand-in driver (no GPU)): sm_80 does not support clusters, which sm_90 and "
        "newer have; got cluster=(4, 1, 1)\n"
    )


def in_child(program: str, source: str, tags: Sequence[str], driver: str, **settings: object) -> str:
    """Run a program in a new process with other settings of the stand-in driver. Its argument is a file with the kernel."""
    import tempfile

    info = FunctionInfo("k", ["handle"], [*DIMENSIONS, *tags])
    module = devmod.create("cuda", ptx_of(source, "--gpu-architecture=compute_75").encode(), "ptx", {"k": info})
    with tempfile.TemporaryDirectory() as folder:
        devmod.save(module, f"{folder}/k.devmod")
        environment = child_environment(**settings) | {"DEVMOD_CUDA_DRIVER": driver}
        output: str = run_python(f"import sys; sys.argv = ['', {folder + '/k.devmod'!r}]\n{program}", **environment)
        return output


@pytest.mark.row("R35")
def test_cooperative_launches(device: Any, standin: Any) -> None:
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


@pytest.mark.row("R35")
def test_programmatic_dependent_launches(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=["tirx.use_programtic_dependent_launch"])
    x = device.zeros(64, "int32")
    f(x, grid=2, block=32)
    assert standin.last_launch["programmatic"] == "1"
    f.bind(x, grid=2, block=32)()
    assert x.numpy().tolist() == list(range(64))
    assert standin.last_launch["programmatic"] == "1"
    kernel(NUMBERS)(x, grid=2, block=32)
    device.synchronize()
    assert standin.last_launch["programmatic"] == "0"


@pytest.mark.row("R35")
def test_a_required_block_with_and_without_a_cluster(device: Any, standin: Any) -> None:
    tags = ["tirx.use_required_block_dimension"]
    f = kernel(NUMBERS.replace("void k", "void __block_size__((4, 1, 1)) k"), tags=tags)
    x = np.zeros(16, "int32")
    f(x, grid=4, block=4)
    assert x.tolist() == list(range(16))
    assert (standin.last_launch["grid"], standin.last_launch["block"]) == ("4,1,1", "4,1,1")
    f = kernel(NUMBERS.replace("void k", "void __block_size__((4, 1, 1), (2, 1, 1)) k"), tags=[*CLUSTER, *tags])
    x[:] = 0
    f(x, 4, 1, 1, 4, 1, 1, 2, 1, 1)  # the driver's grid counts clusters, and TVM's and devmod's count blocks
    assert x.tolist() == list(range(16))
    assert (standin.last_launch["grid"], standin.last_launch["cluster"]) == ("4,1,1", "2,1,1")


# -- faults


@pytest.mark.parametrize(("code", "text"), [(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (launch out of resources)")])
def test_a_launch_that_the_driver_refuses(code: int, text: str, device: Any, standin: Any) -> None:
    f = kernel(NUMBERS)
    x = device.zeros(4, "int32")
    f(x, grid=1, block=4)
    standin.set("fail", f"cuLaunchKernelEx={code}")
    for call in (lambda: f(x, grid=1, block=4), lambda: f(x, grid=2, block=2)):
        error = error_of(call)
        assert str(error) == f"{device} refused a launch of the cuda function 'k': {text}"
        assert error.function == "k"
    standin.set("fail", None)
    f(x, grid=1, block=4)
    assert x.numpy().tolist() == [0, 1, 2, 3]


def test_a_launch_without_memory(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS)
    x = device.zeros(4, "int32")
    standin.set("fail", "cuLaunchKernelEx=2")
    error = error_of(f, x, grid=1, block=4)
    assert isinstance(error, devmod.DeviceMemoryError)
    assert str(error).startswith(
        f"{device} has too little free memory: CUDA_ERROR_OUT_OF_MEMORY (out of memory) in a launch of the cuda function 'k'; "
    )


def test_a_fault_is_raised_at_the_next_wait_and_the_device_is_lost(cuda_driver: str, standin: Any) -> None:
    program = (
        "import sys, numpy as np, devmod\n"
        "f = devmod.load(sys.argv[1])['k']\n"
        "x = devmod.device('cuda').zeros(4, 'int32')\n"
        "f(x, grid=1, block=4)\n"
        "launch = f.bind(x, grid=1, block=4)\n"
        "device = x.device\n"
        "for call in (device.synchronize, lambda: f(x, grid=1, block=4), x.numpy, launch.time, lambda: device.zeros(4, 'int32')):\n"
        "    try: call()\n"
        "    except devmod.LaunchError as error: print(error)\n"
    )
    output = in_child(program, 'extern "C" __global__ void k(int *x) { *(int *)16 = x[0]; }', (), cuda_driver)
    device = "cuda device 0 (stand-in driver (no GPU))"
    tail = (
        "CUDA_ERROR_ILLEGAL_ADDRESS (illegal address). A kernel has failed on "
        f"{device}: CUDA refuses every later call of this process on it, also of other libraries. Its arrays are lost. Start a new process"
    )
    assert output.splitlines() == [
        f"{device} reports a fault of a launch: {tail}",
        f"{device} refused a launch of the cuda function 'k': {tail}",
        f"{device} reports a fault of a launch: {tail}",
        f"{device} cannot record an event: {tail}",
        f"{device} cannot allocate 16 bytes: {tail}",
    ]


def test_the_declared_names_of_arguments(device: Any) -> None:
    info = info_of("k", [X])
    f = devmod.create("cuda", ptx_of(NUMBERS).encode(), "ptx", {"k": info})["k"]
    x = device.zeros(4, "int32")
    f(x=x, grid=1, block=4)
    assert x.numpy().tolist() == [0, 1, 2, 3]
