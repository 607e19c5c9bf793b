"""Launching on a device: arguments, limits, arrays of other libraries, streams, events, several
devices.
"""

from __future__ import annotations

import ctypes
import gc
import math
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import (
    host_arrays,
    run_python,
)
from each_case import refusal
from opencl_kernels import adder, kernel

import devmod
from devmod import Param
from devmod_opencl import _driver


def test_a_function_and_what_it_launches_are_released_without_the_collector(device: Any) -> None:
    array = device.from_numpy(np.ones(4, np.float32))
    module = adder()
    function = module["twice"].on(device)
    function(array, grid=1, block=4)
    function(array, grid=1, block=4)  # a plain call
    owner = weakref.ref(function._callers.owner)
    launches = [weakref.ref(each) for each in function._callers.values()]
    source = weakref.ref(module)
    gc.disable()
    try:
        del function, module
        assert (owner(), source(), [each() for each in launches]) == (None, None, [None])
    finally:
        gc.enable()


def test_the_first_call_of_a_file_imports_nothing_that_it_does_not_use(
    device: Any, tmp_path: Path
) -> None:
    """Without a policy devmod-trust checks nothing. The second process has what the driver built
    from a cache.
    """
    devmod.save(adder(), tmp_path / "add.devmod")
    program = (
        "import sys, numpy as np, pyopencl, devmod\n"
        "before, x = set(sys.modules), np.ones(4, np.float32)\n"
        f"devmod.load({str(tmp_path / 'add.devmod')!r})['twice'](x, grid=1, block=4)\n"
        "print(x[0], {'devmod_trust', 'heapq', 'json', 'pluggy', 'queue'} & (set(sys.modules) - before))\n"
    )
    _, second = (
        run_python(program, DEVMOD_CACHE_DIR=str(tmp_path / "cache"), DEVMOD_TRUST="")
        for _ in (1, 2)
    )
    assert second == "2.0 set()\n"


# -- arguments


#: The numbers of a kernel that takes many: name, type, and the range of the type (of a float: its
#: largest value).
NUMBERS = {
    "a": ("int8", "char", -(2**7), 2**7 - 1),
    "b": ("uint8", "uchar", 0, 2**8 - 1),
    "c": ("int16", "short", -(2**15), 2**15 - 1),
    "d": ("uint16", "ushort", 0, 2**16 - 1),
    "e": ("int32", "int", -(2**31), 2**31 - 1),
    "f": ("uint32", "uint", 0, 2**32 - 1),
    "g": ("int64", "long", -(2**63), 2**63 - 1),
    "h": ("uint64", "ulong", 0, 2**64 - 1),
    "s": ("float32", "float", -3.4028234663852886e38, 3.4028234663852886e38),
}


@pytest.fixture
def many(device: Any) -> Any:
    params = ", ".join(f"{type_} {name}" for name, (_, type_, _, _) in NUMBERS.items())
    body = " ".join(
        f"out[{place}] = {name};" if name != "s" else f"out[{place}] = as_uint(s);"
        for place, name in enumerate(NUMBERS)
    )
    return devmod.compile(
        f"kernel void many(global long *out, {params}, global const float *x) {{ {body} out[9] = x[0]; }}",
        "opencl",
    )["many"]


def wanted(values: dict[str, Any]) -> list[int]:
    integers = [
        np.array(value).astype(np.int64).item() for name, value in values.items() if name != "s"
    ]
    return [*integers, int(np.float32(values["s"]).view(np.uint32)), 3]


@pytest.mark.row("R34")
def test_a_call_with_many_numbers_passes_each(device: Any, many: Any) -> None:
    out, x = device.zeros(10, "int64"), device.from_numpy(np.full(1, 3, np.float32))
    middle: dict[str, Any] = {name: number + 1 for number, name in enumerate(NUMBERS)}
    numpy_values = {name: np.dtype(NUMBERS[name][0]).type(value) for name, value in middle.items()}
    for values in (
        middle,
        {name: each[2] for name, each in NUMBERS.items()},
        {name: each[3] for name, each in NUMBERS.items()},
        middle | {"e": True},
        numpy_values,
        middle | {"s": Decimal("0.5")},
        middle | {"s": 0.0},
        middle | {"s": -0.0},
        middle | {"s": math.inf},
        middle | {"s": -math.inf},
        middle | {"s": math.nan},
        middle,  # once more
    ):
        many(out, *values.values(), x, grid=1, block=1)
        assert out.numpy().tolist() == wanted(values)
        device.default_stream.synchronize()
        out.copy_from(np.zeros(10, np.int64))
        many(x=x, **values, out=out, grid=1, block=1)
        assert out.numpy().tolist() == wanted(values)


@pytest.mark.row("R34")
def test_a_call_with_many_numbers_checks_each(device: Any, many: Any) -> None:
    out, x = device.zeros(10, "int64"), device.from_numpy(np.full(1, 3, np.float32))
    values: dict[str, Any] = dict.fromkeys(NUMBERS, 1)

    def call(**changed: Any) -> None:
        many(**({"out": out, "x": x} | values | changed), grid=1, block=1)

    for _ in range(2):  # before and after a plain call
        for name, (dtype, _, low, high) in NUMBERS.items():
            for value, problem in [
                (low * 2 - 1, f"does not fit {dtype}"),
                (high * 2, f"does not fit {dtype}"),
                ("1", "is"),
            ]:
                with pytest.raises(
                    devmod.ArgumentError,
                    match=f"argument {list(NUMBERS).index(name) + 2} '{name}'.*{problem}",
                ):
                    call(**{name: value})
        with pytest.raises(devmod.ArgumentError, match="argument 6 'e': "):
            call(e=1.0)
        with pytest.raises(
            devmod.ArgumentError,
            match=r"argument 6 'e': an array of shape \(1,\) is not a whole number",
        ):
            call(e=np.ones(1, np.int32))
        with pytest.raises(
            devmod.ArgumentError, match="argument 6 'e': a ndarray is not a whole number"
        ):
            call(e=np.array(1.5))
        with pytest.raises(devmod.ArgumentError, match="argument 10 's': "):
            call(s=np.ones(1, np.float32))
        with pytest.raises(
            devmod.ArgumentError,
            match="argument 11 'x' is an array of int32, and the kernel takes float32",
        ):
            call(x=device.zeros(1, "int32"))
        with pytest.raises(devmod.ArgumentError, match="has no argument 'y'"):
            call(y=1)
        call()
        assert out.numpy().tolist() == wanted(values)


@pytest.mark.parametrize("numbers", [1, 3])
@pytest.mark.row("R34")
def test_each_call_has_numbers_of_its_own(device: Any, numbers: int) -> None:
    params = ", ".join(f"int n{number}" for number in range(numbers))
    sum_ = " + ".join(f"n{number}" for number in range(numbers))
    put = devmod.compile(
        f"kernel void put(global int *x, {params}) {{ x[0] = {sum_}; }}", "opencl"
    )["put"].on(device)
    on_host, array = np.zeros(1, np.int32), device.zeros(1, "int32")
    for value in (1, 1, 2, 1, 1, 2, 2, 1):
        for x in (on_host, array):
            put(x, *[value] * numbers, grid=1, block=1)
        assert on_host[0] == array.numpy()[0] == numbers * value


class Counter:
    """An int that is another one at each use."""

    def __init__(self) -> None:
        self.value = 0

    def __index__(self) -> int:
        self.value += 1
        return self.value


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.row("R34")
def test_numbers_that_compare_equal_are_passed_by_their_bytes(device: Any, others: int) -> None:
    """A call with the objects of the call before does not convert them again."""
    params = "".join(f", int n{number}" for number in range(others))
    put = devmod.compile(
        f"kernel void put(global float *x, float value{params}) {{ x[0] = value; }}", "opencl"
    )["put"]
    x = device.zeros(1, "float32")
    zero, negative, nan = 0.0, -0.0, math.nan
    for value in (zero, zero, zero, negative, zero, negative, negative, negative, 0, nan, nan, nan):
        put(x, value, *range(others), grid=1, block=1)
        assert x.numpy().tobytes() == np.float32(value).tobytes()


@pytest.mark.row("R34")
def test_an_object_whose_number_changes_is_converted_in_each_call(device: Any) -> None:
    put = devmod.compile("kernel void put(global int *x, int n) { x[0] = n; }", "opencl")["put"]
    x = device.zeros(1, "int32")
    put(x, 1, grid=1, block=1)
    put(x, 1, grid=1, block=1)
    counter = Counter()
    seen = []
    for _ in range(6):
        counter.value = len(seen) // 3 * 10  # the same number, and then another one
        put(x, counter, grid=1, block=1)
        seen.append(x.numpy()[0])
    assert seen == [1, 1, 1, 11, 11, 11]


@pytest.mark.row("R34")
def test_a_number_that_does_not_fit_keeps_the_kernel_object(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = devmod.compile("kernel void put(global int *x, int n) { x[0] = n; }", "opencl")["put"]
    x = device.zeros(1, "int32")
    for _ in range(3):
        put(x, 7, grid=1, block=1)
    monkeypatch.setattr(_driver, "create_kernel", lambda *_: pytest.fail("a new kernel object"))
    for _ in range(3):
        text = refusal(devmod.ArgumentError, put, x, 2**31, grid=1, block=1)
        assert "does not fit int32" in text
        put(x, 7, grid=1, block=1)
    assert x.numpy()[0] == 7


@pytest.mark.row("R34")
def test_calls_with_many_numbers_share_the_kernel_objects_of_all_grids(
    device: Any, many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, x = device.zeros(10, "int64"), device.from_numpy(np.full(1, 3, np.float32))
    values = dict.fromkeys(NUMBERS, 1)
    made: list[str] = []
    create = _driver.create_kernel

    def counted(program: Any, name: str) -> Any:
        made.append(name)
        return create(program, name)

    many(out, *values.values(), x, grid=1, block=1)  # checks it
    monkeypatch.setattr(_driver, "create_kernel", counted)
    for grid in (1, 2, 3, 4) * 2:
        many(out, *values.values(), x, grid=grid, block=1)
    assert made == ["many"]
    assert out.numpy().tolist() == wanted(values)


@pytest.mark.row("R34")
def test_calls_with_many_numbers_from_many_threads(device: Any, many: Any) -> None:
    x = device.from_numpy(np.full(1, 3, np.float32))

    def calls(number: int) -> bool:
        outs = [device.zeros(10, "int64") for _ in range(50)]
        rows = [dict.fromkeys(NUMBERS, number + place) for place in range(50)]
        for out, values in zip(outs, rows, strict=True):
            many(out, *values.values(), x, grid=1, block=1)
        return all(
            out.numpy().tolist() == wanted(values) for out, values in zip(outs, rows, strict=True)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(calls, range(8)))


def test_local_memory_is_counted_without_an_interface(device: Any) -> None:
    source = (
        b"__kernel void k(__global float *x, __local float *t) { t[0] = x[0]; x[0] = t[0] + 1; }"
    )
    f = devmod.create(
        "opencl", source, "cl", {"k": devmod.FunctionInfo("k", ["handle", "handle"])}
    )["k"]
    x = np.zeros(1, "float32")
    f(x, devmod.Local(4), grid=1, block=1)
    # The second has 2⁶⁴ bytes, which no driver takes.
    for size in (devmod.Local(1 << 40), devmod.Local(per_thread=1 << 62)):
        assert "its local_mem_size is" in refusal(devmod.LaunchError, f, x, size, grid=1, block=4)
    assert x.tolist() == [1]


@pytest.mark.row("R34")
@pytest.mark.parametrize("count", [0, 6])
def test_local_and_global_pointers_without_an_interface(count: int, device: Any) -> None:
    more = "".join(f", int n{number}" for number in range(count))
    numbers = range(count)
    source = f"__kernel void k(__global float *x, __local float *s{more}) {{ s[0] = 3; x[get_global_id(0)] = s[0]; }}".encode()
    info = devmod.FunctionInfo(
        "k", ["handle", "handle"] + ["int32"] * count, ["blockIdx.x", "threadIdx.x"]
    )
    f = devmod.create("opencl", source, "cl", {"k": info})["k"]
    x, y = np.zeros(4, "float32"), device.empty(4, "float32")
    f(x, devmod.Local(4), *numbers, grid=1, block=4)
    assert x.tolist() == [3.0] * 4
    f(y, devmod.Local(4), *numbers, grid=1, block=4)
    # A Local of a pointer's size would be a null pointer in the kernel.
    for first, second, text in (
        (devmod.Local(8), devmod.Local(8), "argument 1 is a Local, and the kernel takes an array"),
        (
            x,
            x,
            "argument 2 is an array, and the kernel takes shared memory of a block: pass devmod.Local(nbytes)",
        ),
        (
            y,
            y,
            "argument 2 is an array, and the kernel takes shared memory of a block: pass devmod.Local(nbytes)",
        ),
    ):
        assert (
            refusal(devmod.ArgumentError, f, first, second, *numbers, grid=1, block=4)
            == f"the opencl function 'k': {text}"
        )
    with pytest.raises(devmod.ArgumentError, match="argument 2 is an array"):
        f.bind(y, y, *numbers, grid=1, block=4)


def test_a_kernel_that_the_devices_compiler_skips_is_an_error_with_the_macro(device: Any) -> None:
    source = "#ifdef cl_none\nkernel void k(global int *x) { x[0] = 1; }\n#endif\nkernel void other(global int *x) { x[0] = 1; }"
    module = devmod.create(
        "opencl", source.encode(), "cl", {"k": devmod.FunctionInfo("k", ["handle"])}, {}
    )
    assert refusal(devmod.FormatError, lambda: module["k"].on(device)) == (
        "the built opencl program has no kernel 'k', which the payload's fmap names; it has: other. 'k' is in a branch of '#ifdef cl_none', "
        "and each device's compiler has its own macros: defines={'cl_none': 1} compiles the branch"
    )


@pytest.mark.row("R34")
def test_an_array_whose_const_the_kernel_casts_away_is_copied_back(device: Any) -> None:
    source = "kernel void k(global const int *x, global const char *y) { int i = get_global_id(0); ((global int *)y)[i] = 2 * x[i]; }"
    y = np.zeros(4, "int32")
    devmod.compile(source, "opencl")["k"].on(device)(
        np.arange(4, dtype="int32"), y.view("int8"), threads=4
    )
    assert y.tolist() == [0, 2, 4, 6]


@pytest.mark.row("R34")
def test_a_null_pointer_in_place_of_an_array(device: Any) -> None:
    source = "kernel void k(global int *x, global const int *y, int n) { int i = get_global_id(0); if (x) x[i] = y ? y[i] * n : n; }"
    k = devmod.compile(source, "opencl")["k"].on(device)
    null = ctypes.c_void_p()
    host, factors = np.zeros(4, "int32"), np.arange(4, dtype="int32")
    on_device = device.zeros(4, "int32")
    for x, y in ((host, factors), (on_device, device.from_numpy(factors))):
        for _ in range(3):
            k(x, null, 3, threads=4)
            assert (x if x is host else x.numpy()).tolist() == [3] * 4
            k(null, y, 3, threads=4)
            k(x, y, 3, threads=4)
            assert (x if x is host else x.numpy()).tolist() == [0, 3, 6, 9]
    k.bind(on_device, null, 7, threads=4)()
    assert on_device.numpy().tolist() == [7] * 4
    for value, what in ((None, "None"), (ctypes.c_void_p(8), "a c_void_p")):
        assert refusal(devmod.ArgumentError, k, value, factors, 3, threads=4) == (
            f"the opencl function 'k': argument 1 'x' is {what}, and the kernel takes an array of int32"
        )


@pytest.mark.row("R34")
def test_the_limits_are_those_of_the_driver(device: Any) -> None:
    driver = device.handle
    sizes = driver.max_work_item_sizes
    expected = {
        "max_work_group_size": driver.max_work_group_size,
        "max_work_item_sizes[0]": sizes[0],
        "max_work_item_sizes[1]": sizes[1],
        "max_work_item_sizes[2]": sizes[2],
        "local_mem_size": driver.local_mem_size,
        "address_bits": driver.address_bits,
    }
    assert {name: device.limits[name] for name in expected} == expected


@pytest.mark.row("R34")
def test_the_most_threads_of_a_block_are_those_of_the_driver(device: Any, add: Any) -> None:
    import pyopencl as cl

    handle = cl.Kernel(add._launcher.builds.get(device), "add")
    most = handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device.handle)
    assert add.max_block_threads == add.on(device).max_block_threads == most
    x = device.zeros(most, "float32")
    add(x, x, device.zeros(most, "float32"), most, grid=1, block=most)
    refusal(devmod.LaunchError, add, x, x, x, most, grid=1, block=most + 1)


def test_limits_are_checked_before_the_driver_is_called(device: Any, add: Any) -> None:
    a, b, c = host_arrays()
    start = f"the opencl function 'add' cannot be launched on {device}: "
    limit = device.limits["max_work_item_sizes[0]"]
    assert (
        refusal(devmod.LaunchError, add, a, b, c, 64, grid=1, block=limit + 1)
        == start + f"its max_work_item_sizes[0] is {limit}, got block=({limit + 1}, 1, 1)"
    )
    group = device.limits["max_work_group_size"]
    text = refusal(devmod.LaunchError, add, a, b, c, 64, grid=1, block=(group, 2))
    assert text.startswith(start + "its ")
    assert text.endswith(f", and block=({group}, 2, 1) has {2 * group} threads")
    assert refusal(devmod.LaunchError, add, a, b, c, 64, grid=2**62, block=64) == start + (
        f"its address_bits are {device.limits['address_bits']}, and grid=({2**62}, 1, 1) of block=(64, 1, 1) has {2**68} threads in x"
    )
    f = kernel(
        "__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k(__global int *x) {}",
        "k",
        [Param("x", "buffer", "int32")],
    )
    assert refusal(devmod.LaunchError, f, np.zeros(8, "int32"), grid=1, block=4) == (
        f"the opencl function 'k' cannot be launched on {device}: the kernel is built for blocks of (8, 1, 1) threads, got block=(4, 1, 1)"
    )


def test_shared_memory_is_an_argument(add: Any) -> None:
    assert refusal(
        devmod.ArgumentError, add, *host_arrays(), 64, grid=1, block=64, shared_memory=1024
    ) == (
        "the opencl function 'add' cannot be given shared_memory=1024: in OpenCL the shared memory of a block is an argument; "
        "pass devmod.Local(nbytes)"
    )


# -- arrays of pyopencl


@pytest.mark.row("R34")
@pytest.mark.filterwarnings(
    "ignore:Non-empty compiler output"
)  # of the kernels that pyopencl.array builds
def test_pyopencl_buffers_and_arrays(device: Any, add: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    a, b, _ = host_arrays()
    queue = cl.CommandQueue(device.context)
    x, y, z = (
        cl_array.to_device(queue, a),
        cl_array.to_device(queue, b),
        cl_array.zeros(queue, 64, "float32"),
    )
    add(x, y, z, 64, grid=1, block=64)
    np.testing.assert_array_equal(z.get(), a + b)
    z.fill(0)
    queue.finish()
    add(x.data, y.data, z.data, 64, grid=1, block=64)
    np.testing.assert_array_equal(z.get(), a + b)
    z.fill(0)
    add(x.data, y.data, z.data, 64, grid=1, block=64, stream=queue)
    np.testing.assert_array_equal(z.get(), a + b)
    launch = add.bind(x, y, z, 64, grid=1, block=64)
    z.fill(0)
    launch()
    np.testing.assert_array_equal(z.get(), a + b)
    part = z[32:]
    part.fill(0)
    add(x[:32], y[:32], part, 32, grid=1, block=32)
    np.testing.assert_array_equal(z.get()[32:], (a + b)[:32])


def test_arrays_of_pyopencl_devmod_and_numpy_in_one_call(device: Any, add: Any) -> None:
    import pyopencl as cl

    a, b, c = host_arrays()
    buffer = cl.Buffer(
        device.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=a
    )
    add(buffer, device.from_numpy(b), c, 64, grid=1, block=64)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.row("R34")
@pytest.mark.filterwarnings(
    "ignore:Non-empty compiler output"
)  # of the kernels that pyopencl.array builds
@pytest.mark.row("R34")
def test_the_queue_of_an_array_of_pyopencl_is_that_of_its_call_alone(device: Any, add: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    queue = cl.CommandQueue(device.context)
    theirs = cl_array.to_device(queue, np.ones(4, np.float32))
    add(theirs, theirs, theirs, 4, grid=1, block=4)
    one = device.from_numpy(np.ones(4, np.float32))
    out = device.zeros(4, "float32")
    gate = cl.UserEvent(device.context)
    cl.enqueue_barrier(device.default_stream.queue, wait_for=[gate])
    add(one, one, out, 4, grid=1, block=4)
    seen = np.empty(4, np.float32)
    cl.enqueue_copy(queue, seen, out.memory)  # it waits for nothing of the other queue
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert seen.tolist() == [0] * 4
    assert out.numpy().tolist() == [2] * 4
    assert theirs.get().tolist() == [2] * 4


def test_values_of_pyopencl_that_are_refused(device: Any, add: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    _, b, c = host_arrays()
    queue = cl.CommandQueue(device.context)
    strided = cl_array.to_device(queue, np.zeros((8, 16), "float32"))[:, ::2]
    double, single = cl_array.zeros(queue, 64, "float64"), cl_array.zeros(queue, 67, "float32")
    image = cl.create_image(
        device.context,
        cl.mem_flags.READ_ONLY,
        cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT),
        (4, 4),
    )
    for first, second, text in (
        (strided, b, "argument 1 'a' is a strided pyopencl Array; pass array.copy()"),
        (
            single[3:],
            b,
            "argument 1 'a' is a pyopencl Array that begins 12 bytes into its buffer, which this device does not support "
            "(MISALIGNED_SUB_BUFFER_OFFSET); pass array.copy()",
        ),
        (
            double,
            b,
            "argument 1 'a' is an array of float64, and the kernel takes float32; convert it before the call: "
            "array = array.astype(np.float32)",
        ),
        (image, b, "argument 1 'a' is an Image, and the kernel takes an array of float32"),
    ):
        assert (
            refusal(devmod.ArgumentError, add, first, second, c, 64, grid=1, block=64)
            == f"the opencl function 'add': {text}"
        )


@pytest.mark.row("R34")
def test_values_of_pyopencl_in_another_context(device: Any, add: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    context = cl.Context([device.handle])  # in Intel's runtime its buffers do not keep it
    queue, buffer = cl.CommandQueue(context), cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
    array, (a, b, c) = cl_array.Array(queue, 64, np.float32), host_arrays()
    step = "add(a=a, b=b, c=c, n=n, grid=1, block=64)"
    program = devmod.program(
        "p",
        adder(),
        inputs=["a: float32[n]", "b: float32[n]"],
        outputs=["c: float32[n]"],
        steps=[step],
    )["p"]
    where = (
        f"in {context!r}, which no device of devmod is over; call devmod.device(queue) or devmod.device(context) first and keep the result, "
        f"or create it in devmod.device('opencl', {device.index}).context"
    )
    ours = device.from_numpy(a)
    for values, stream, text in (
        (
            (buffer, buffer, buffer),
            None,
            f"the opencl function 'add': argument 1 'a' is a pyopencl Buffer {where}",
        ),
        ((ours, buffer, c), queue, f"stream= is a pyopencl CommandQueue {where}"),
        (
            (ours, array, c),
            None,
            f"the opencl function 'add': argument 2 'b' is a pyopencl Array {where}",
        ),
        ((a, b, c), queue, f"stream= is a pyopencl CommandQueue {where}"),
    ):
        assert (
            refusal(devmod.ArgumentError, add, *values, 64, grid=1, block=64, stream=stream) == text
        )
        assert refusal(
            devmod.ArgumentError, program, values[0], values[1], c=values[2], stream=stream
        ).endswith(where)


# -- streams, events, time


def test_a_timed_launch_runs_after_the_queued_launches(device: Any) -> None:
    slow = """
    __kernel void k(__global uint *x, uint n) {
        uint value = x[0];
        for (uint i = 0; i < n; i++) value = value * 1664525u + 1013904223u ^ (value >> 7);
        x[0] = value;
    }
    """
    f = kernel(slow, "k", [Param("x", "buffer", "uint32", "rw"), Param("n", "scalar", "uint32")])
    results = []
    for timed in (False, True):
        x = device.from_numpy(np.zeros(1, "uint32"))
        long, short = f.bind(x, 3_000_000, grid=1, block=1), f.bind(x, 3, grid=1, block=1)
        for _ in range(3):
            long()
            assert short.time() > 0 if timed else short() or True
            long()
        results.append(int(x.numpy()[0]))
    assert results[0] == results[1]


def test_a_queue_of_another_library_without_timestamps_has_no_times(device: Any, add: Any) -> None:
    import pyopencl as cl

    a, b, c = (device.from_numpy(each) for each in host_arrays())
    queue = cl.CommandQueue(device.context)
    launch = add.bind(a, b, c, 64, grid=1, block=64, stream=queue)
    event = launch.stream.record()
    remedy = (
        "its queue has no timestamps. Create it with pyopencl.CommandQueue(context, "
        "properties=pyopencl.command_queue_properties.PROFILING_ENABLE), or use device.stream()"
    )
    for call, text in ((launch.time, "a launch"), (lambda: event.elapsed(event), "an event")):
        assert refusal(devmod.LaunchError, call) == f"{device} gives no time of {text}: {remedy}"
    queue = cl.CommandQueue(device.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    launch = add.bind(a, b, c, 64, grid=1, block=64, stream=queue)
    event = launch.stream.record()
    assert launch.time() > 0
    assert launch.stream.record().elapsed(event) > 0


def test_a_stream_waits_for_the_event_of_another_one(device: Any) -> None:
    """The first stream waits for a gate. Work of the second one after `wait` must not begin before
    the gate opens.
    """
    import pyopencl as cl

    twice = adder()["twice"]
    x = device.from_numpy(np.ones(64, "float32"))
    first, second, third = device.stream(), device.stream(), device.stream()
    gate = cl.UserEvent(device.context)
    try:
        cl.enqueue_barrier(first.queue, wait_for=[gate])
        x.copy_from(np.full(64, 3, "float32"), stream=first, wait=False)
        second.wait(first.record())
        twice(x, grid=1, block=64, stream=second)
        second.queue.flush()
        for _ in range(20):  # so that work that does not wait is done before the gate opens
            twice(device.from_numpy(np.ones(64, "float32")), grid=1, block=64, stream=third)
            third.synchronize()
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    second.synchronize()
    assert x.numpy().tolist() == [6.0] * 64


def test_errors_of_the_driver_are_launch_errors(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    from devmod_opencl import _launch

    def refuse(*_: object) -> None:
        raise cl.RuntimeError(
            cl._cl._ErrorRecord(msg="", code=-5, routine="clEnqueueNDRangeKernel")
        )

    a, b, c = (device.from_numpy(each) for each in host_arrays())
    monkeypatch.setattr(_launch, "_enqueue", refuse)
    text = f"{device} refused a launch of the opencl function 'add': OUT_OF_RESOURCES"
    assert refusal(devmod.LaunchError, add, a, b, c, 64, grid=(1, 1), block=64) == text
    launch = add.bind(a, b, c, 64, grid=1, block=64)
    assert refusal(devmod.LaunchError, launch.time) == text

    monkeypatch.setattr(cl, "enqueue_marker", refuse)
    assert (
        refusal(devmod.LaunchError, device.stream().synchronize)
        == f"{device} reports a fault of a launch: OUT_OF_RESOURCES"
    )


# -- devices


TWO_DEVICES = """
import devmod
from backend_checks import check_two_devices
from opencl_kernels import adder
devices = [each for each in devmod.devices("opencl") if each.platform == "Portable Computing Language"]
assert [each.index - devices[0].index for each in devices] == [0, 1], devices
check_two_devices(adder()["add"], *devices, grid=1, block=64)
"""


@pytest.mark.row("R33", "R34")
@pytest.mark.usefixtures("pocl")
def test_two_devices() -> None:
    """Only PoCL can show several devices of one processor."""
    path = str(Path(__file__).parent)
    run_python(
        TWO_DEVICES,
        POCL_DEVICES="pthread pthread",
        DEVMOD_PLUGINS_ALLOW="devmod-opencl",
        PYTHONPATH=path,
    )


@pytest.mark.row("R34")
def test_a_grid_with_more_threads_than_the_address_bits_allow(device: Any, add: Any) -> None:
    a, b, c = (device.empty(64, "float32") for _ in range(3))
    assert refusal(devmod.LaunchError, add, a, b, c, 64, grid=(2**31, 2**31, 2**31), block=1) == (
        f"the opencl function 'add' cannot be launched on {device}: its address_bits are {device.limits['address_bits']}, and "
        f"grid=({2**31}, {2**31}, {2**31}) of block=(1, 1, 1) has {2**93} threads in all"
    )


@pytest.mark.row("R34")
def test_a_read_only_buffer_is_not_written(device: Any, add: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    a, b, _ = host_arrays()
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_ONLY, 256)
    queue = cl.CommandQueue(device.context)
    array = cl_array.Array(queue, 64, "float32", data=buffer)
    for value, what in ((buffer, "a Buffer"), (array, "an array of shape (64,)")):
        add(value, b, np.zeros(64, "float32"), 64, grid=1, block=64)
        assert refusal(devmod.ArgumentError, add, a, b, value, 64, grid=1, block=64) == (
            f"the opencl function 'add': argument 3 'c' is {what} that is read-only, and the kernel may write to it; pass an array that "
            "kernels may write to"
        )


@pytest.mark.row("R34")
def test_a_prepared_launch_takes_no_arguments(device: Any, add: Any) -> None:
    a, b, c = (device.empty(64, "float32") for _ in range(3))
    launch = add.bind(a, b, c, 64, grid=1, block=64)
    launch()
    with pytest.raises(TypeError, match=r"^expected 0 arguments, got 1$"):
        launch(a)
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        launch(grid=1)


@pytest.mark.row("R34")
def test_elements_that_a_kernel_does_not_write_stay(device: Any) -> None:
    source = "kernel void even(global int *y) { y[2 * get_global_id(0)] = 1; }"
    function = kernel(source, "even", [Param("y", "buffer", "int32", "w")])
    for _ in range(3):
        y = np.full(8, 7, np.int32)
        function(y, grid=4, block=1)
        assert y.tolist() == [1, 7] * 4
        read_only = np.frombuffer(np.full(8, 7, np.int32).tobytes(), np.int32)
        assert device.from_numpy(read_only).numpy().tolist() == [7] * 8


@pytest.mark.row("R34")
@pytest.mark.parametrize("how", ["an array's queue", "stream="])
def test_a_result_waits_for_the_queue_of_another_library(device: Any, add: Any, how: str) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    a, b, _ = host_arrays()
    queue, gate = cl.CommandQueue(device.context), cl.UserEvent(device.context)
    given = cl_array.to_device(queue, a) if how == "an array's queue" else device.from_numpy(a)
    c = device.zeros(64, "float32")
    queue.finish()
    cl.enqueue_barrier(queue, wait_for=[gate])
    timer = threading.Timer(0.2, gate.set_status, [cl.command_execution_status.COMPLETE])
    add(
        given,
        device.from_numpy(b),
        c,
        64,
        grid=1,
        block=64,
        **({} if how == "an array's queue" else {"stream": queue}),
    )
    timer.start()
    try:
        np.testing.assert_array_equal(c.numpy(), a + b)
    finally:
        timer.join()
