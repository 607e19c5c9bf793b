"""Launches, for each vendor: arguments, limits, shared memory, cooperative launches, faults."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error
from each_case import refusal
from vendor import DIMENSIONS, Vendor, launch_error

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod.plugins import find
from devmod_conformance import run
from devmod_simulators import StandinDriver

X = Param("x", "buffer", "int32", "rw")
A = Param("a", "scalar", "int32")
#: Writes the number of the thread.
NUMBERS = 'extern "C" __global__ void k(int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = i; }'
ADDEND = 'extern "C" __global__ void k(int *x, int a) { x[threadIdx.x] += a; }'


# -- arguments


@pytest.mark.row("R34")
def test_a_null_pointer_in_place_of_an_array(device: Any, vendor: Vendor, executes: None) -> None:
    source = 'extern "C" __global__ void k(int *x, const int *y) { int i = threadIdx.x; if (x) x[i] = y ? y[i] : -1; }'
    info = FunctionInfo(
        "k", ["handle"] * 2, DIMENSIONS, (), Interface([X, Param("y", "buffer", "int32", "r")])
    )
    k = vendor.module(source, {"k": info})["k"]
    null = ctypes.c_void_p()
    host, values = np.zeros(4, "int32"), np.arange(4, dtype="int32")
    on_device = device.zeros(4, "int32")
    for x, y in ((host, values), (on_device, device.from_numpy(values))):
        for _ in range(3):
            k(x, null, grid=1, block=4)
            assert (x if x is host else x.numpy()).tolist() == [-1] * 4
            k(null, y, grid=1, block=4)
            k(x, y, grid=1, block=4)
            assert (x if x is host else x.numpy()).tolist() == [0, 1, 2, 3]
    k.bind(on_device, null, grid=1, block=4)()
    assert on_device.numpy().tolist() == [-1] * 4


@pytest.mark.row("R34")
@pytest.mark.parametrize("has_interface", [True, False])
def test_vectors_structs_and_bools_have_the_places_of_c(
    has_interface: bool, device: Any, vendor: Vendor, executes: None
) -> None:
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
    f = vendor.module(source, {"k": info})["k"]
    struct: Any = {"a": 5, "b": (0, 0, 0.5), "c": -3}
    if not has_interface:
        record = np.array(
            [(5, (0, 0, 0.5), -3)], np.dtype([("a", "i1"), ("b", "f4", 3), ("c", "i2")], align=True)
        )
        assert record.nbytes == 20
        struct = record.tobytes()
    out = np.zeros(4, "float32")
    f(
        out,
        True,
        (1, 2, 3),
        True,
        (0, 0, 0, 4),
        (1, 2, 3),
        struct,
        0.25,
        (9, 7),
        -40,
        grid=1,
        block=4,
    )
    assert out.tolist() == [3 + 321 + 4000 + 6 + 5 + 0.5 - 3 + 0.25 + 7 - 40] * 4


@pytest.mark.row("R34")
def test_a_function_without_parameters(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    source = '__device__ int count; extern "C" __global__ void k() { atomicAdd(&count, (int)blockDim.x); }'
    module = vendor.module(source, {"k": FunctionInfo("k", [])})
    module["k"](grid=2, block=3)
    module["k"].bind(grid=2, block=3)()
    assert module.get_global("count", device, dtype="int32").numpy().tolist() == [2 * 2 * 3 * 3]
    assert (
        standin.last_launch["name"],
        standin.last_launch["grid"],
        standin.last_launch["block"],
    ) == ("k", "2,1,1", "3,1,1")


#: x = y, element by element: the kernel takes a struct, three numbers of a shape, and an address
#: behind the count.
PACKED = """
struct span { float *data; unsigned long long count; };
extern "C" __global__ void k(span x, const float *data, int rows, int columns, long long row, unsigned count, const float *y, int n) {
    unsigned i = threadIdx.x;
    if (i < x.count && i < count) x.data[i] = data[i / columns * row + i % columns] + y[0] + n * rows;
}"""
SPAN = Param("x", "buffer", "float32", "w", pack=("ptr:handle", "count:uint64"))
MATRIX = Param(
    "a",
    "buffer",
    "float32",
    "r",
    pack=("ptr:handle", "shape0:int32", "shape1:int32", "stride0:int64"),
)
COUNTED = Param("y", "buffer", "float32", "r", pack=("count:uint32", "ptr:handle"))


def packed_kernel(vendor: Vendor) -> Any:
    return vendor.kernel(PACKED, [SPAN, MATRIX, COUNTED, Param("n", "scalar", "int32")])


@pytest.mark.volume_but("cuda-ctypes")
@pytest.mark.each_driver
@pytest.mark.row("R34")
def test_one_array_is_several_values_of_the_kernel(
    device: Any, vendor: Vendor, executes: None
) -> None:
    f = packed_kernel(vendor)
    a, y = np.arange(6, dtype="float32").reshape(2, 3), np.full(4, 0.5, "float32")
    expected = [0.5 + 200, 1.5 + 200, 2.5 + 200, 3.5 + 200, 0, 0]  # y has four elements
    out = np.zeros(6, "float32")
    f(out, a, y, 100, grid=1, block=8)
    assert out.tolist() == expected
    # An array in column order is copied in row order.
    f(out, np.asfortranarray(a), y=y, n=100, grid=1, block=8)
    assert out.tolist() == expected
    x, b, c = device.zeros(6, "float32"), device.from_numpy(a), device.from_numpy(y)
    for count in range(3):
        f(x, b, c, count, grid=1, block=8)
        f(x, b, c, count, grid=1, block=8)
        assert x.numpy().tolist() == [
            0.5 + 2 * count,
            1.5 + 2 * count,
            2.5 + 2 * count,
            3.5 + 2 * count,
            0,
            0,
        ]
    # Another shape in a call with the same configuration.
    f(x[:2], b, c, 0, grid=1, block=8)
    f(x, b.reshape(3, 2), c, 0, grid=1, block=8)
    assert x.numpy().tolist() == [0.5, 1.5, 2.5, 3.5, 0, 0]
    launch = f.bind(x[1:4], b, c, 7, grid=1, block=8)
    for _ in range(2):
        launch()
    assert launch.time() >= 0
    assert x.numpy().tolist() == [0.5, 14.5, 15.5, 16.5, 0, 0]


@pytest.mark.row("R34")
def test_the_elements_of_a_vector_or_a_struct_are_counted(
    device: Any, vendor: Vendor, executes: None
) -> None:
    source = 'extern "C" __global__ void k(const float4 *v, int rows, int *out) { out[threadIdx.x] = rows; }'
    v = Param("v", "buffer", "float32x4", "r", pack=("ptr:handle", "shape0:int32"))
    f = vendor.kernel(source, [v, X.replace(name="out")])
    for array, rows in (
        (np.zeros((3, 4), "float32"), 3),
        (np.zeros(8, "float32"), 2),
        (np.zeros((0, 4), "float32"), 0),
    ):
        for given in (array, device.from_numpy(array)):
            out = np.zeros(1, "int32")
            f(given, out, grid=1, block=1)
            assert out.tolist() == [rows]


#: A view whose last member is where the padding of those before it would be, and a second struct of
#: the same array.
VIEW = """
struct view { float *data; int rows, columns; };
struct steps { int row; long long column; };
extern "C" __global__ void k(view x, int *out) { out[0] = x.rows; out[1] = x.columns; out[2] = x.data[0]; }
extern "C" __global__ void both(view x, steps s, int *out) { out[0] = x.rows; out[1] = x.columns; out[2] = s.row; out[3] = s.column; }"""


@pytest.mark.row("R34")
def test_the_last_member_of_a_struct_is_in_the_padding_of_those_before_it(
    device: Any, vendor: Vendor, executes: None
) -> None:
    x = Param("x", "buffer", "float32", "r", pack=("ptr:handle", "shape0:int32", "shape1:int32"))
    both = x.replace(pack=(*x.pack, "stride0:int32", "stride1:int64"))
    out = X.replace(name="out")
    types = ["handle", "int32", "int32", "handle"]
    fmap = {
        "k": FunctionInfo("k", types, interface=devmod.Interface([x, out])),
        "both": FunctionInfo(
            "both",
            [*types[:3], "int32", "int64", "handle"],
            interface=devmod.Interface([both, out]),
        ),
    }
    module = vendor.module(VIEW, fmap)
    for name, expected in (("k", [2, 3, 7]), ("both", [2, 3, 3, 1])):
        result = np.zeros(len(expected), "int32")
        module[name](np.full((2, 3), 7, "float32"), result, grid=1, block=1)
        assert result.tolist() == expected


@pytest.mark.row("R35")
def test_values_that_are_not_those_of_the_binary_are_refused(device: Any, vendor: Vendor) -> None:
    for pack, text in (
        (
            ("ptr:handle", "count:uint64", "shape0:int32"),
            "takes 8 bytes as argument 2, and the payload's fmap has int32 of 4 bytes",
        ),
        (
            ("ptr:handle",),
            "takes 16 bytes as argument 1, and the payload's fmap has a buffer of 8 bytes",
        ),
        (
            ("count:uint64", "shape0:int64", "ptr:handle"),
            "takes 4 bytes as argument 3, and the payload's fmap has a buffer of 8 bytes",
        ),
        (
            ("count:int32", "shape0:int32", "shape1:int32", "ptr:handle"),
            "takes 16 bytes as argument 1, and the payload's fmap has int32 and int32 and int32 and a buffer of 24 bytes",
        ),
    ):
        assert text in refusal(
            devmod.FormatError, vendor.kernel, PACKED, [SPAN.replace(pack=pack), MATRIX, COUNTED, A]
        )


#: It shows the offsets of its local memory if `n` is not 0, and else what the block shares there.
OFFSETS = """
extern __shared__ char memory[];
extern "C" __global__ void k(int *x, unsigned first, unsigned second, int n) {
    int i = threadIdx.x;
    int *a = (int *)(memory + first), *b = (int *)(memory + second);
    a[i] = x[i];
    b[i] = 10 * x[i];
    __syncthreads();
    int last = blockDim.x - 1 - i;
    x[i] = n ? (int)(first + 1000 * second) : a[last] + b[last];
}"""
FIRST = Param("first", "local", "int32")
SECOND = Param("second", "local", "float64x8", default=devmod.Local(per_thread=4))
LOCAL = [X, FIRST, SECOND, A.replace(name="n")]


@pytest.mark.each_driver
@pytest.mark.row("R34", "R58")
def test_local_memory_is_an_offset_into_shared_memory(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    f = vendor.kernel(OFFSETS, LOCAL)
    x = np.arange(5, dtype="int32")
    f(x, devmod.Local(20), 0, grid=1, block=5)
    assert x.tolist() == [44, 33, 22, 11, 0]
    y = device.from_numpy(np.zeros(5, "int32"))
    # A multiple of the alignment of their elements, behind shared_memory=. Another size has others.
    for shared, size, first, second in (
        (0, 20, 0, 64),
        (0, 70, 0, 128),
        (0, 20, 0, 64),
        (100, 64, 112, 192),
    ):
        f(y, devmod.Local(size), 1, grid=1, block=5, shared_memory=shared)
        assert standin.last_launch["shared"] == str(second + 20)
        assert y.numpy().tolist() == [first + 1000 * second] * 5
    launch = f.bind(y, devmod.Local(48), 1, second=devmod.Local(256), grid=1, block=5)
    f(y, devmod.Local(1), 1, grid=1, block=5, shared_memory=0)
    launch()
    assert standin.last_launch["shared"] == str(64 + 256)
    assert y.numpy().tolist() == [64000] * 5


@pytest.mark.row("R34", "R58")
def test_local_memory_beyond_the_shared_memory_of_the_device(device: Any, vendor: Vendor) -> None:
    f = vendor.kernel(OFFSETS, LOCAL)
    x = device.zeros(64, "int32")
    limit = device.limits[vendor.shared_memory_limit]
    for call in (f, f.bind):
        error = launch_error(call, x, devmod.Local(limit), 1, grid=1, block=64)
        assert str(error) == (
            f"the {vendor.kind} function 'k' cannot be launched on {device}: its {vendor.shared_memory_limit} is {limit}, got devmod.Local "
            f"arguments of {limit + 256} bytes; argument 3 'second' takes 256 bytes by default, Local(per_thread=4) with 64 threads in a "
            "block: give it by name, or a smaller block="
        )
        assert error.argument == "first"
    check_error(
        devmod.ArgumentError,
        lambda: f(x, 16, 1, grid=1, block=64),
        f"the {vendor.kind} function 'k': argument 2 'first' is 16, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)",
    )


def test_local_memory_is_no_argument(device: Any, vendor: Vendor) -> None:
    f = vendor.module(NUMBERS, {"k": FunctionInfo("k", ["handle"], DIMENSIONS)})["k"]
    check_error(
        devmod.ArgumentError,
        lambda: f(devmod.Local(16), grid=1, block=4),
        f"the {vendor.kind} function 'k': argument 1 is a Local, and {vendor.title} kernels take no shared memory as an argument: declare it "
        "in the kernel as extern __shared__, and pass shared_memory=",
    )


@pytest.mark.volume_but("cuda-ctypes", "cuda-pycuda")
@pytest.mark.each_driver
@pytest.mark.row("R34", "R37")
def test_calls_of_every_form(device: Any, vendor: Vendor, executes: None) -> None:
    rows = (
        "R34-names",
        "R34-part",
        "R34-threads",
        "R37-bind",
        "R37-current",
        "R37-deleted",
        "R37-device",
        "R37-elapsed",
        "R37-events",
        "R37-nothing",
        "R37-stream",
        "R52-variants",
    )
    results = run(find("devmod.conformance", vendor.kind)(), rows)
    assert {result.row.id: (result.outcome, result.reason) for result in results} == dict.fromkeys(
        rows, ("passed", "")
    )


@pytest.mark.each_driver
@pytest.mark.row("R32")
def test_threads_launch_one_function_and_one_prepared_launch(
    device: Any, vendor: Vendor, executes: None
) -> None:
    f = vendor.kernel(ADDEND, [X, A])
    arrays = [device.zeros(4, "int32") for _ in range(4)]
    shared = device.zeros(4, "int32")
    launch = f.bind(shared, 3, grid=1, block=4)

    def work(number: int) -> None:
        for _ in range(16):
            f(arrays[number], number, grid=1, block=4)
            launch()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.numpy().tolist() for each in arrays] == [[16 * number] * 4 for number in range(4)]
    assert shared.numpy().tolist() == [4 * 16 * 3] * 4


@pytest.mark.each_driver
def test_a_launch_in_a_thread_with_another_context_current(
    device: Any, vendor: Vendor, executes: None
) -> None:
    x = device.zeros(4, "int32")
    f = vendor.kernel(NUMBERS, [X])
    launch = f.bind(x, grid=1, block=4)
    results = []

    def work() -> None:
        before = device.driver.call("current_context")
        launch()
        f(x, grid=1, block=4)
        results.append((before, device.driver.call("current_context")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert x.numpy().tolist() == [0, 1, 2, 3]
    ((before, after),) = results
    assert before == 0
    assert after in (0, device.context.handle)


def test_a_prepared_launch_keeps_everything_that_it_uses(
    device: Any, vendor: Vendor, executes: None
) -> None:
    x = device.zeros(64, "int32")
    launch = vendor.kernel(NUMBERS, [X]).bind(x, grid=2, block=32)
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

IN_PARTS = "launch in several parts, or let the kernel index more dimensions"
#: For each vendor, launches beyond a limit of the stand-in driver's device: the argument and the
#: reason in the error.
BEYOND: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "cuda": [
        (
            {"grid": 1, "block": 1025},
            "block",
            "its max_block_dim_x is 1024, got block=(1025, 1, 1)",
        ),
        (
            {"grid": 1, "block": (1, 1, 65)},
            "block",
            "its max_block_dim_z is 64, got block=(1, 1, 65)",
        ),
        (
            {"grid": 1, "block": (512, 4)},
            "block",
            "its max_threads_per_block is 1024, and block=(512, 4, 1) has 2048 threads",
        ),
        (
            {"grid": 1, "block": 4, "shared_memory": 300000},
            "shared_memory",
            "its max_shared_memory_per_block_optin is 232448, got shared_memory=300000",
        ),
        (
            {"grid": (1, 65536), "block": 4},
            "grid",
            f"its max_grid_dim_y is 65535, got grid=(1, 65536, 1); {IN_PARTS}",
        ),
        (
            {"threads": (1, 1, 70000), "block": 1},
            "grid",
            "its max_grid_dim_z is 65535, got grid=(1, 1, 70000). threads=(1, 1, 70000) in blocks of 1 needs grid=(1, 1, 70000); give a larger "
            f"block=, {IN_PARTS}",
        ),
    ],
    "rocm": [
        (
            {"grid": 1, "block": (1, 1, 1025)},
            "block",
            "its max_block_dim_z is 1024, got block=(1, 1, 1025)",
        ),
        (
            {"grid": 1, "block": (64, 32)},
            "block",
            "its max_threads_per_block is 1024, and block=(64, 32, 1) has 2048 threads",
        ),
        (
            {"grid": (1, 65537), "block": 1},
            "grid",
            f"its max_grid_dim_y is 65536, got grid=(1, 65537, 1); {IN_PARTS}",
        ),
        (
            {"grid": 1 << 30, "block": 64},
            "grid",
            f"a launch has at most 4294967295 threads in x, got grid=(1073741824, 1, 1) with block=(64, 1, 1); {IN_PARTS}",
        ),
        (
            {"grid": 1, "block": 1, "shared_memory": 65537},
            "shared_memory",
            "its max_shared_memory_per_block is 65536, got shared_memory=65537",
        ),
    ],
}


@pytest.mark.row("R34")
def test_limits_of_the_device(device: Any, vendor: Vendor, standin: StandinDriver) -> None:
    f, x = vendor.kernel(NUMBERS, [X]), device.zeros(4, "int32")
    launches = standin.launches
    for shape, argument, text in BEYOND[vendor.kind]:
        error = launch_error(f, x, **shape)
        assert str(error) == vendor.refusal(device, text)
        assert (error.kind, error.function, error.argument) == (vendor.kind, "k", argument)
    assert standin.launches == launches


@pytest.mark.row("R34")
def test_the_block_that_the_kernel_bounds(device: Any, vendor: Vendor, executes: None) -> None:
    bounded = vendor.kernel(NUMBERS.replace("void k", "void __launch_bounds__(64) k"), [X])
    x = device.zeros(128, "int32")
    assert str(launch_error(bounded, x, grid=1, block=96)) == vendor.refusal(
        device,
        "the kernel is built for blocks of at most 64 threads (__launch_bounds__), and block=(96, 1, 1) has 96",
    )
    bounded(x, grid=4, block=32)
    assert x.numpy().tolist() == list(range(128))


# -- shared memory

REVERSE = """
extern "C" __global__ void k(int *x) {
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}"""


@pytest.mark.row("R34", "R35")
@pytest.mark.parametrize("nbytes", [1024, 48 << 10, 64 << 10])
def test_dynamic_shared_memory(
    nbytes: int, device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    f = vendor.kernel(REVERSE, [X])
    for _ in range(2):
        x = np.arange(64, dtype="int32")
        f(x, grid=1, block=64, shared_memory=nbytes)
        assert x.tolist() == list(range(63, -1, -1))
    assert standin.last_launch["shared"] == str(nbytes)


@pytest.mark.row("R34", "R35")
def test_dynamic_shared_memory_is_given_by_the_call_or_the_interface(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    tags = ["tirx.use_dyn_shared_memory"]
    x = np.arange(64, dtype="int32")
    assert refusal(
        devmod.ArgumentError, vendor.kernel(REVERSE, [X], tags), x, grid=1, block=64
    ) == (
        f"the {vendor.kind} function 'k' uses dynamic shared memory, and its interface has no default: give shared_memory=, the bytes for "
        "each block, or a default to devmod.compile(…, shared_memory=…)"
    )
    assert x.tolist() == list(range(64))
    vendor.kernel(REVERSE, [X], tags, shared_memory=256)(x, grid=1, block=64)
    assert x.tolist() == list(range(63, -1, -1))
    assert standin.last_launch["shared"] == "256"


@pytest.mark.row("R35")
def test_dynamic_shared_memory_as_a_launch_value_of_tvm(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    info = FunctionInfo(
        "k", ["handle"], ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"]
    )
    x = np.arange(64, dtype="int32")
    vendor.module(REVERSE, {"k": info})["k"](x, 1, 64, 65536)
    assert x.tolist() == list(range(63, -1, -1))
    assert standin.last_launch["shared"] == "65536"


def test_the_kernels_own_shared_memory_counts(device: Any, vendor: Vendor, executes: None) -> None:
    source = 'extern "C" __global__ void k(int *x) { __shared__ int s[2048]; s[x[0]] = x[0]; __syncthreads(); x[1] = s[x[2]]; }'
    f = vendor.kernel(source, [X])
    x = device.zeros(4, "int32")
    limit = vendor.shared_memory_limit
    most = device.limits[limit]
    f(x, grid=1, block=1, shared_memory=most - 8192)
    assert str(launch_error(f, x, grid=1, block=1, shared_memory=most - 8191)) == vendor.refusal(
        device,
        f"its {limit} is {most}, got shared_memory={most - 8191}, and the kernel declares 8192 bytes of its own",
    )


# -- cooperative launches


@pytest.mark.each_driver
@pytest.mark.row("R35")
def test_cooperative_launches(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    f = vendor.kernel(NUMBERS, [X], ["tirx.use_cooperative_launch"])
    x = np.zeros(64, "int32")
    f(x, grid=2, block=32)
    assert x.tolist() == list(range(64))
    assert standin.last_launch["cooperative"] == "1"
    most = 2 * device.limits["multiprocessor_count"]
    error = launch_error(f, x, grid=most + 1, block=1024)
    assert str(error) == vendor.refusal(
        device,
        f"a cooperative launch runs all its blocks at once, and with block=(1024, 1, 1) it runs {most}; got grid=({most + 1}, 1, 1) of "
        f"{most + 1} blocks; launch in several parts, or let the kernel index more dimensions",
    )
    assert error.argument == "grid"
    vendor.kernel(NUMBERS, [X])(x, grid=2, block=32)
    assert standin.last_launch["cooperative"] == "0"


# -- faults


def test_a_launch_that_the_driver_refuses(
    device: Any, vendor: Vendor, standin: StandinDriver, executes: None
) -> None:
    f = vendor.kernel(NUMBERS, [X])
    x = device.zeros(4, "int32")
    f(x, grid=1, block=4)
    vendor.fail("launch", 701)
    for call in (lambda: f(x, grid=1, block=4), lambda: f(x, grid=2, block=2)):
        error = launch_error(call)
        assert (
            str(error)
            == f"{device} refused a launch of the {vendor.kind} function 'k': {vendor.error('launch out of resources')}"
        )
        assert error.function == "k"
    vendor.succeed()
    f(x, grid=1, block=4)
    assert x.numpy().tolist() == [0, 1, 2, 3]


def test_a_launch_without_memory(device: Any, vendor: Vendor, standin: StandinDriver) -> None:
    f = vendor.kernel(NUMBERS, [X])
    x = device.zeros(4, "int32")
    vendor.fail("launch", 2)
    error = launch_error(f, x, grid=1, block=4)
    assert isinstance(error, devmod.DeviceMemoryError)
    assert str(error).startswith(
        f"{device} has too little free memory: {device} refused a launch of the {vendor.kind} function 'k': {vendor.error('out of memory')}; "
    )
