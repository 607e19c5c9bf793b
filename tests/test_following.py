"""The function of a file takes the candidate for the device of its arrays, with the drivers of
OpenCL, Vulkan and WebGPU, and with the simulated GPU.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device, run_python
from each_case import refusal
from test_programs_by_kind import W as WEIGHTS
from test_programs_by_kind import X as MATRIX
from test_programs_by_kind import squares
from test_tuned_kinds import SOURCES, tuned
from work import work

import devmod

pytestmark = pytest.mark.row("R33", "R34")

AXPY = """
kernel void axpy(global const float *x, global float *y, float a, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] += a * x[i];
}"""
AXPY_WGSL = """
struct P { a: f32, n: i32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(32) fn axpy(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < p.n) { y[i] += p.a * x[i]; }
}"""
KINDS = ("opencl", "vulkan", "webgpu")


def compiled(kind: str) -> devmod.Module:
    if kind == "webgpu":
        return devmod.compile(AXPY_WGSL, kind)
    target = {"cuda": "cuda -arch=compute_80"}.get(kind, kind)
    return devmod.compile(AXPY, target, language="OpenCL C", block=32)


@pytest.fixture(scope="module")
def data() -> bytes:
    return devmod.dumps(devmod.bundle(*map(compiled, (*KINDS, "cuda"))))


def axpy(data: bytes, kind: str) -> Any:
    """Return the function of the file whose host arrays go to a kind."""
    first_device(kind)
    order = (kind, *(each for each in (*KINDS, "cuda") if each != kind))
    function = devmod.loads(data, prefer=order)["axpy"]
    assert function.kind == kind
    return function


def arrays(device: devmod.Device) -> list[Any]:
    return [device.from_numpy(each) for each in (np.arange(64, dtype="float32"), ONES)]


ONES = np.ones(64, "float32")
EXPECTED = 2 * np.arange(64, dtype="float32") + 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_follows_to_each_other(kind: str, data: bytes) -> None:
    f = axpy(data, kind)
    for _ in range(3):
        for each in KINDS:
            device = first_device(each)
            x, y = arrays(device)
            f(x, y, 2, 64, threads=64)
            assert (y.numpy() == EXPECTED).all()
            f(y=y, n=64, x=x, a=-2.0, threads=64)
            launch = f.bind(x, y, 2.0, 64, threads=64)
            launch()
            assert launch.stream.device is device
            assert (y.numpy() == EXPECTED).all()
        x, y = np.arange(64, dtype="float32"), ONES.copy()
        f(x, y, 2.0, 64, threads=64)
        assert (y == EXPECTED).all()


def of_pyopencl(device: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    import pyopencl as cl
    import pyopencl.array as cl_array

    queue = cl.CommandQueue(device.context)
    return [cl_array.to_device(queue, each.numpy()) for each in arrays(device)], lambda y: y.get()


def of_wgpu(device: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    import wgpu

    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffers = [
        device.gpu.create_buffer_with_data(data=each.numpy(), usage=usage)
        for each in arrays(device)
    ]
    return buffers, lambda y: np.frombuffer(device.gpu.queue.read_buffer(y), "float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("library", "made"), [("opencl", of_pyopencl), ("webgpu", of_wgpu)])
def test_the_arrays_of_other_libraries_decide(
    kind: str, library: str, made: Callable[[Any], Any], data: bytes
) -> None:
    f = axpy(data, kind)
    device = first_device(library)
    for _ in range(2):
        (x, y), get = made(device)
        f(x, y, 2.0, 64, threads=64)
        assert (get(y) == EXPECTED).all()
    other = first_device("vulkan")
    assert refusal(devmod.ArgumentError, lambda: f(x, arrays(other)[1], 2.0, 64, threads=64)) == (
        f"the {library} function 'axpy': argument 2 'y' is on {other}, and argument 1 'x' is on {device}; a launch runs on one device: "
        "copy the array through the host"
    )


def test_a_queue_of_pyopencl_decides_for_host_arrays(data: bytes) -> None:
    import pyopencl as cl

    f = axpy(data, "vulkan")
    y = ONES.copy()
    device: Any = first_device("opencl")
    queue = cl.CommandQueue(device.context)
    f(np.arange(64, dtype="float32"), y, 2.0, 64, threads=64, stream=queue)
    assert (y == EXPECTED).all()


@pytest.mark.parametrize(("kind", "other"), [*permutations(KINDS, 2)])
def test_two_kinds_in_a_call_are_both_named(kind: str, other: str, data: bytes) -> None:
    f = axpy(data, "opencl")
    one, two = first_device(kind), first_device(other)
    for _ in range(2):
        assert refusal(
            devmod.ArgumentError,
            lambda: f(arrays(one)[0], arrays(two)[1], 2.0, 64, threads=64),
        ) == (
            f"the {kind} function 'axpy': argument 2 'y' is on {two}, and argument 1 'x' is on {one}; a launch runs on one device: copy "
            "the array through the host"
        )
        x, y = arrays(one)
        f(x, y, 2.0, 64, threads=64)
        assert (y.numpy() == EXPECTED).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_warm_call_that_follows_does_the_work_of_one_that_does_not(
    kind: str, other: str, data: bytes
) -> None:
    f, on = axpy(data, kind), axpy(data, other).on(first_device(other))
    x, y = arrays(first_device(other))

    def counted(function: Any) -> int:
        counts = []
        for _ in range(7):
            # What a call of Vulkan does depends on whether the launches before it have ended.
            x.device.synchronize()
            counts.append(int(work(lambda: function(x, y, 2.0, 64, threads=64))))
        return min(counts[4:])

    # OpenCL converts the numbers itself. A call of another kind that shares the code of OpenCL's
    # calls converts them in a function of its own.
    converts = 25
    assert counted(f) <= counted(on) + converts * (kind == "opencl" != other)
    x, y = arrays(first_device(kind))
    on = axpy(data, kind).on(first_device(kind))
    assert counted(f) <= counted(on) + converts * (other == "opencl" != kind)


def test_a_guard_and_a_profile_see_a_call_that_follows(data: bytes) -> None:
    f = axpy(data, "opencl")
    x, y = arrays(first_device("vulkan"))
    f(x, y, 2.0, 64, threads=64)
    with devmod.guard() as guard:
        x, y = arrays(first_device("vulkan"))
        f(x, y, 2.0, 64, threads=64)
    assert not getattr(guard, "reports", ())
    with devmod.profile() as profile:
        for _ in range(3):
            f(x, y, 2.0, 64, threads=64)
    actions = [each.action for each in profile.records]
    assert actions.count("call") == actions.count("launch") == 3


#: Both directions with the simulated GPU, which the driver of CUDA is in a process of its own.
SIMULATED = """
import sys
sys.path.insert(0, {tests!r})
from test_following import *

module = {data!r}
gpu = devmod.device("cuda")

class Foreign:
    "An array of a library with __cuda_array_interface__ alone."
    def __init__(self, array): self.__cuda_array_interface__ = array.__cuda_array_interface__

for kind in ("cuda", *KINDS):
    f = axpy(module, kind)
    for _ in range(3):
        for each in ("cuda", *KINDS):
            x, y = arrays(devmod.device(each))
            f(x, y, 2.0, 64, threads=64)
            assert (y.numpy() == EXPECTED).all(), (kind, each)
        x, y = arrays(gpu)
        f(Foreign(x), Foreign(y), 2.0, 64, threads=64)
        assert (y.numpy() == EXPECTED).all(), kind
    text = refusal(devmod.ArgumentError, lambda: f(arrays(gpu)[0], arrays(devmod.device("opencl"))[1], 2.0, 64, threads=64))
    assert "argument 2 'y' is on opencl device 0" in text and "argument 1 'x' is on cuda device 0" in text, text
print("done")
"""


def test_the_simulated_gpu_follows_in_both_directions(simulator: None, data: bytes) -> None:
    for each in KINDS:
        first_device(each)
    program = SIMULATED.format(tests=str(Path(__file__).parent), data=data)
    path = str(Path(__file__).parents[1] / "core" / "tests")
    printed = run_python(program, DEVMOD_CUDA_DRIVER="simulator", PYTHONPATH=path)
    assert printed == "done\n"


def test_a_program_follows_with_all_of_its_steps() -> None:
    both = devmod.loads(devmod.dumps(devmod.bundle(squares("opencl"), squares("webgpu"))))
    program = both["squares"]
    devices = [first_device("opencl"), first_device("webgpu")]
    expected = MATRIX.sum(1) ** 2 * WEIGHTS[[0, 1, 2, 3, 0]]
    for _ in range(3):
        for device in devices:
            x = device.from_numpy(MATRIX)
            result = device.empty(5, "float32")
            program.bind(x, y=result)()
            for y in (program(x), program(x=x), result):
                assert y.device is device
                np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(program(MATRIX), expected, rtol=1e-5)


def test_a_program_names_two_devices_and_the_kinds_that_it_has() -> None:
    both = devmod.loads(devmod.dumps(devmod.bundle(squares("opencl"), squares("webgpu"))))
    program = both["squares"]
    opencl, webgpu, vulkan = (first_device(each) for each in ("opencl", "webgpu", "vulkan"))
    for _ in range(2):
        for one, other, label in (
            (opencl, webgpu, "the argument 'x'"),
            (webgpu, opencl, "the program"),
        ):
            x, y = one.from_numpy(MATRIX), other.zeros(5, "float32")
            assert refusal(devmod.ArgumentError, lambda x=x, y=y: program(x, y=y)) == (
                f"the {one.kind} program 'squares': the argument 'y' is on {other}, and {label} is on {one}; a launch runs on one device: "
                "copy the array through the host"
            )
    assert refusal(devmod.ArgumentError, lambda: program(vulkan.from_numpy(MATRIX))) == (
        f"the opencl program 'squares': the argument 'x' is on {vulkan}, and the program has code for opencl, webgpu alone: pass a host "
        "array, array.numpy(), or build the program for vulkan too"
    )


def test_a_program_of_one_module_follows_to_the_other_kernels(data: bytes) -> None:
    module = devmod.program(
        "twice",
        devmod.bundle(*map(compiled, KINDS)),
        inputs=["x: float32[n]"],
        updates=["y: float32[n]"],
        steps=["axpy(x=x, y=y, a=1.0, n=n, threads=n)", "axpy(x=x, y=y, a=1.0, n=n, threads=n)"],
    )
    file = devmod.dumps(module)
    for kind in KINDS:
        order = (kind, *(each for each in KINDS if each != kind))
        program = devmod.loads(file, prefer=order)["twice"]
        assert program.kind == kind
        for each in KINDS * 2:
            x, y = arrays(first_device(each))
            program(x, y)
            assert (y.numpy() == EXPECTED).all()
    program = devmod.loads(file, prefer=("opencl",))["twice"]
    device = first_device("vulkan")
    assert refusal(devmod.ArgumentError, lambda: program(*arrays(device))) == (
        f"the opencl program 'twice': the argument 'x' is on {device}, and prefer=('opencl',) has chosen opencl: call f.on(array.device), "
        "or give prefer=('opencl', 'vulkan')"
    )


def test_a_tuned_function_takes_the_variant_of_the_arrays_device() -> None:
    f = devmod.bundle(*map(tuned, SOURCES))["scale"]
    for kind in (*SOURCES, *SOURCES):
        device = first_device(kind)
        for n in (100, 5000, 100):
            x, y = device.from_numpy(np.arange(n, dtype="float32")), device.zeros(n, "float32")
            f(x, y, n, 2.0)
            f(x, y, n=n, a=2.0)
            np.testing.assert_array_equal(y.numpy(), 2 * np.arange(n))


def test_a_file_of_one_module_lists_its_kind() -> None:
    f = devmod.loads(devmod.dumps(compiled("opencl")))["axpy"]
    device = first_device("vulkan")
    assert refusal(devmod.ArgumentError, lambda: f(*arrays(device), 2.0, 64, threads=64)) == (
        f"the opencl function 'axpy': argument 1 'x' is on {device}, and the kernel has code for opencl alone: pass a host array, "
        "array.numpy(), or build the kernel for vulkan too"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_follows_to_a_queue_of_the_caller_and_does_not_keep_it(
    kind: str, data: bytes
) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    f = axpy(data, kind)
    default: Any = first_device("opencl")
    context = cl.Context([default.context.devices[0]])
    device = devmod.device(cl.CommandQueue(context))
    queue = cl.CommandQueue(context)
    for _ in range(3):
        x, y = arrays(device)
        f(x, y, 2.0, 64, threads=64)
        assert (y.numpy() == EXPECTED).all()
        theirs = [cl_array.to_device(queue, each.numpy()) for each in arrays(device)]
        f(*theirs, 2.0, 64, threads=64)
        assert (theirs[1].get() == EXPECTED).all()
        x, y = arrays(default)
        f(x, y, 2.0, 64, threads=64)
        assert (y.numpy() == EXPECTED).all()
    gone = weakref.ref(device)
    del device, x, y, theirs
    gc.collect()
    assert gone() is None
