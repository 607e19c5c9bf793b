"""What only CUDA's launches have: required blocks, clusters, dependent launches;
plugins/driver-api/tests has the tests of launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from backend_checks import run_python
from ptx_sources import ptx_of
from standin_cuda import CUDA, child_environment
from vendor import DIMENSIONS, launch_error

import devmod
from devmod import FunctionInfo, Interface, Param

CLUSTER = ["clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z"]
PREFERRED = ["preferredClusterCtaIdx.x", "preferredClusterCtaIdx.y", "preferredClusterCtaIdx.z"]
X = Param("x", "buffer", "int32", "rw")
#: Writes the number of the thread.
NUMBERS = 'extern "C" __global__ void k(int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = i; }'


def kernel(
    source: str,
    params: Sequence[Param] = (X,),
    tags: Sequence[str] = (),
    block: Any = None,
    arch: str = "compute_90",
) -> Any:
    """Return the kernel `k` of a source."""
    types = ["handle" if param.kind == "buffer" else param.type for param in params]
    info = FunctionInfo("k", types, [*DIMENSIONS, *tags], (), Interface(list(params), (), block))
    return devmod.create(
        "cuda", ptx_of(source, f"--gpu-architecture={arch}").encode(), "ptx", {"k": info}
    )["k"]


# -- limits of the device and the kernel


@pytest.mark.row("R34")
def test_the_block_that_the_kernel_requires(device: Any) -> None:
    x = device.zeros(128, "int32")
    fixed = kernel(NUMBERS.replace("void k", "void __block_size__((64, 1, 1)) k"))
    assert str(launch_error(fixed, x, grid=1, block=32)) == CUDA.refusal(
        device, "the kernel is built for blocks of (64, 1, 1) threads, got block=(32, 1, 1)"
    )
    fixed(x, grid=2, block=64)
    assert x.numpy().tolist() == list(range(128))


def test_a_kernel_with_too_many_registers_for_a_block(
    device: Any, standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = device.driver.call
    monkeypatch.setattr(
        device.driver,
        "call",
        lambda *args: 256 if args[:2] == ("function_attribute", 0) else real(*args),
    )
    assert str(
        launch_error(kernel(NUMBERS), device.zeros(4, "int32"), grid=1, block=512)
    ) == CUDA.refusal(
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
def test_the_attribute_of_a_kernel_with_much_shared_memory(
    nbytes: int, device: Any, standin: Any
) -> None:
    f = kernel(SHARED, [X, Param("n", "scalar", "int32")])
    calls = standin.calls("cuFuncSetAttribute")
    for _ in range(2):
        x = np.arange(256, dtype="int32")
        f(x, 256, grid=1, block=256, shared_memory=nbytes)
        assert x.tolist() == list(range(255, -1, -1))
    # It is raised once, where it must be.
    assert standin.calls("cuFuncSetAttribute") == calls + (nbytes > 48 << 10)


# -- clusters and dependent launches


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
    assert str(launch_error(f, x, 6, 1, 1, 1, 1, 1, 4, 1, 1)) == CUDA.refusal(
        device, "grid=(6, 1, 1) is not a multiple of cluster=(4, 1, 1); a grid has whole clusters"
    )


@pytest.mark.row("R35")
def test_clusters_that_not_every_device_supports(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=CLUSTER)
    x = np.zeros(32, "int32")
    f(x, 16, 1, 1, 2, 1, 1, 16, 1, 1)
    assert x.tolist() == list(range(32))
    assert standin.last_launch["cluster"] == "16,1,1"
    assert str(launch_error(f, x, 32, 1, 1, 2, 1, 1, 32, 1, 1)) == CUDA.refusal(
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
    assert str(launch_error(f, x, 4, 1, 1, 2, 1, 1, 4, 1, 1)) == CUDA.refusal(
        device, "the kernel is built for clusters of (2, 1, 1) blocks, got cluster=(4, 1, 1)"
    )
    assert str(launch_error(f, x, grid=3, block=2)) == CUDA.refusal(
        device, "grid=(3, 1, 1) is not a multiple of cluster=(2, 1, 1); a grid has whole clusters"
    )


@pytest.mark.row("R35")
def test_a_preferred_cluster(device: Any, standin: Any) -> None:
    f = kernel(NUMBERS, tags=[*CLUSTER, *PREFERRED])
    x = np.zeros(16, "int32")
    f(x, 8, 1, 1, 2, 1, 1, 2, 1, 1, 4, 1, 1)
    assert x.tolist() == list(range(16))
    assert (standin.last_launch["cluster"], standin.last_launch["preferred"]) == ("2,1,1", "4,1,1")
    assert str(launch_error(f, x, 6, 1, 1, 2, 1, 1, 2, 1, 1, 3, 1, 1)) == CUDA.refusal(
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
        "the cuda function 'k' cannot be launched on cuda device 0 (simulated GPU (devmod-simulators)): sm_80 does not support clusters, which sm_90 and "
        "newer have; got cluster=(4, 1, 1)\n"
    )


def in_child(
    program: str, source: str, tags: Sequence[str], driver: str, **settings: object
) -> str:
    """Run a program in a new process with other settings of the stand-in driver. Its argument is a
    file with the kernel.
    """
    import tempfile

    info = FunctionInfo("k", ["handle"], [*DIMENSIONS, *tags])
    module = devmod.create(
        "cuda", ptx_of(source, "--gpu-architecture=compute_75").encode(), "ptx", {"k": info}
    )
    with tempfile.TemporaryDirectory() as folder:
        devmod.save(module, f"{folder}/k.devmod")
        environment = child_environment(**settings) | {"DEVMOD_CUDA_DRIVER": driver}
        output: str = run_python(
            f"import sys; sys.argv = ['', {folder + '/k.devmod'!r}]\n{program}", **environment
        )
        return output


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
    f = kernel(
        NUMBERS.replace("void k", "void __block_size__((4, 1, 1), (2, 1, 1)) k"),
        tags=[*CLUSTER, *tags],
    )
    x[:] = 0
    f(
        x, 4, 1, 1, 4, 1, 1, 2, 1, 1
    )  # the driver's grid counts clusters, and TVM's and devmod's count blocks
    assert x.tolist() == list(range(16))
    assert (standin.last_launch["grid"], standin.last_launch["cluster"]) == ("4,1,1", "2,1,1")


# -- functions of one kernel, and errors of the driver


@pytest.mark.row("R35")
def test_functions_of_one_kernel_share_its_limit_of_shared_memory(
    device: Any, standin: Any
) -> None:
    info = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "threadIdx.x"])
    module = devmod.create("cuda", ptx_of(SHARED).encode(), "ptx", {"first": info, "second": info})
    x = device.from_numpy(np.arange(64, dtype="int32"))
    launch = module["first"].bind(x, 64, grid=1, block=64, shared_memory=100 << 10)
    module["second"](
        x, 64, grid=1, block=64, shared_memory=60 << 10
    )  # would lower the limit of the driver's function
    launch()
    module.get_function("first")(x, 64, grid=1, block=64, shared_memory=80 << 10)
    launch()
    assert x.numpy().tolist() == list(range(64))
    assert standin.last_launch["shared"] == str(100 << 10)


def test_a_prepared_launch_that_the_driver_refuses(device: Any, standin: Any) -> None:
    f, x, stream = kernel(NUMBERS), device.zeros(4, "int32"), device.stream()
    launch, on_stream = f.bind(x, grid=1, block=4), f.bind(x, grid=1, block=4, stream=stream)
    standin.set("fail", "cuLaunchKernelEx=701")
    for call in (launch, launch, lambda: stream.graph([on_stream])):
        error = launch_error(call)
        assert (
            str(error)
            == f"{device} refused a launch of the cuda function 'k': CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources requested for launch)"
        )
        assert error.function == "k"
    standin.set("fail", "cuLaunchKernelEx=2")
    assert isinstance(launch_error(launch), devmod.DeviceMemoryError)
    standin.set("fail", None)
    for call in (launch, on_stream, stream.graph([on_stream])):
        x.copy_from(np.zeros(4, "int32"))
        call()
        device.synchronize()
        assert x.numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "tags", "shape"),
    [
        ("cuModuleGetFunction", [], {"grid": 1, "block": 4}),
        ("cuFuncGetAttribute", [], {"grid": 1, "block": 4}),
        (
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ["tirx.use_cooperative_launch"],
            {"grid": 1, "block": 4},
        ),
        ("cuOccupancyMaxPotentialBlockSize", [], {"threads": 4}),
    ],
)
def test_a_kernel_that_the_driver_cannot_load_or_describe(
    call: str, tags: list[str], shape: dict[str, int], device: Any, standin: Any
) -> None:
    params = [Param("x", "buffer", "int32", "rw")]
    info = FunctionInfo(
        "k",
        ["handle"],
        ["blockIdx.x", "threadIdx.x", *tags],
        (),
        Interface(params, open_block="threads" in shape),
    )
    module = devmod.create("cuda", ptx_of(NUMBERS).encode(), "ptx", {"k": info})
    x = device.zeros(4, "int32")
    loads = call == "cuModuleGetFunction"
    standin.set("fail", f"{call}=46")
    what = "cannot load the kernel 'k'" if loads else "refused a query of the cuda function 'k'"
    assert (
        str(launch_error(lambda: module["k"](x, **shape)))
        == f"{device} {what}: CUDA_ERROR_DEVICE_UNAVAILABLE (CUDA-capable device(s) is/are busy or unavailable)"
    )
    standin.set("fail", f"{call}=2")  # a driver loads a function when it is first used
    error = launch_error(lambda: module["k"](x, **shape))
    assert isinstance(error, devmod.DeviceMemoryError)
    assert str(error).startswith(
        f"{device} has too little free memory: {device} {what}: CUDA_ERROR_OUT_OF_MEMORY (out of memory); "
    )
    standin.set("fail", None)
    module["k"](x, **shape)
    assert x.numpy().tolist() == [0, 1, 2, 3]
