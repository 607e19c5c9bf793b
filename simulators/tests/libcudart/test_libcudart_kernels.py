"""The stand-in CUDA runtimes: registered kernels and variables, launches, libraries."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from threading import Thread

import pytest
from cudart_calls import PTX, Dim3, Program

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.row("R55")


class Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", Dim3),
        ("block", Dim3),
        ("shared", c_size_t),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


class Attribute(ctypes.Structure):
    """cudaLaunchAttribute, with a number."""

    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


@pytest.mark.volume_but("cuda13")
def test_the_host_reads_and_writes_a_managed_variable(program: Program) -> None:
    assert program.call("__cudaInitModule", program.handle) == 1
    assert program.value() == 5
    c_int.from_address(program.counter.value).value = 10
    assert program.count(2, grid=2, block=3) == "cudaSuccess"
    assert program.call("cudaDeviceSynchronize") == 0
    assert program.value() == 10 + 2 * 3 * 2 * 3


def test_any_call_places_a_managed_variable(program: Program) -> None:
    assert program.counter.value is None
    assert program.call("cudaDeviceSynchronize") == 0
    assert program.value() == 5


@pytest.mark.volume_but("cuda13")
def test_a_reset_gives_variables_their_first_values(program: Program) -> None:
    for _ in range(2):
        assert program.count(1) == "cudaSuccess"
        assert program.call("cudaDeviceSynchronize") == 0
        assert program.value() == 8
        assert program.call("cudaDeviceReset") == 0
    assert program.call("cudaDeviceSynchronize") == 0
    assert program.value() == 5


def test_the_place_of_a_variable(program: Program) -> None:
    address = c_void_p()
    size = c_size_t()
    assert program.call("cudaGetSymbolSize", byref(size), program.address("table")) == 0
    assert size.value == 16
    assert program.call("cudaGetSymbolAddress", byref(address), program.address("table")) == 0
    assert address.value
    # What nvcc passes for a managed variable is its memory.
    assert program.call("cudaGetSymbolAddress", byref(address), program.counter) == 0
    assert address.value == program.counter.value
    for symbol in (program.address("count"), byref(size)):
        result = program.call("cudaGetSymbolSize", byref(size), symbol)
        assert program.name(result) == "cudaErrorInvalidSymbol"


@pytest.mark.parametrize("form", ["", "Async"])
def test_copies_to_and_from_a_variable(program: Program, form: str) -> None:
    source = (c_int * 2)(7, 8)
    result = (c_int * 4)()
    stream = [None] if form else []
    table = program.address("table")
    words = (table, source, c_size_t(8), c_size_t(4), 1, *stream)
    assert program.call(f"cudaMemcpyToSymbol{form}", *words) == 0
    words = (result, table, c_size_t(12), c_size_t(4), 2, *stream)
    assert program.call(f"cudaMemcpyFromSymbol{form}", *words) == 0
    assert program.call("cudaDeviceSynchronize") == 0
    assert list(result)[:2] == [7, 8]
    words = (result, table, c_size_t(12), c_size_t(8), 2, *stream)
    assert program.name(program.call(f"cudaMemcpyFromSymbol{form}", *words)) == (
        "cudaErrorInvalidValue"
    )
    words = (result, table, c_size_t(4), c_size_t(0), 1, *stream)
    assert program.name(program.call(f"cudaMemcpyFromSymbol{form}", *words)) == (
        "cudaErrorInvalidMemcpyDirection"
    )


@pytest.mark.volume_but("cuda13-1-1025-0-cudaErrorInvalidConfiguration")
@pytest.mark.parametrize(
    ("grid", "block", "shared", "error"),
    [
        (1, 1024, 48 << 10, "cudaSuccess"),
        (1, 1025, 0, "cudaErrorInvalidConfiguration"),
        (1, 0, 0, "cudaErrorInvalidConfiguration"),
        (0, 1, 0, "cudaErrorInvalidConfiguration"),
        (1 << 31, 1, 0, "cudaErrorInvalidConfiguration"),
        (1, 1, (48 << 10) + 1, "cudaErrorInvalidValue"),
    ],
)
def test_a_configuration_is_checked(
    program: Program, grid: int, block: int, shared: int, error: str
) -> None:
    assert program.count(1, grid, block, shared) == error
    assert program.name(program.call("cudaGetLastError")) == error


@pytest.mark.volume_but("cuda13")
def test_a_function_that_is_no_kernel_is_an_error(program: Program, standin: StandinDriver) -> None:
    result = program.call(
        "cudaLaunchKernel", program.address("table"), *[Dim3(1, 1, 1)] * 2, None, c_size_t(0), None
    )
    assert program.name(result) == "cudaErrorInvalidDeviceFunction"
    other = Program(program.runtime)
    other.close()
    assert other.count(1) == "cudaErrorInvalidDeviceFunction"
    standin.reset()  # the driver notes that these are no handles


@pytest.mark.volume_but("cuda13")
def test_the_stubs_of_nvcc_launch_by_a_handle(program: Program, standin: StandinDriver) -> None:
    handle = c_void_p()
    assert program.call("__cudaGetKernel", byref(handle), program.address("count")) == 0
    by = c_int(2)
    arguments = (c_void_p * 1)(ctypes.addressof(by))
    for name in ("__cudaLaunchKernel", "__cudaLaunchKernel_ptsz"):
        words = (handle, Dim3(2, 1, 1), Dim3(3, 1, 1), arguments, c_size_t(16), None)
        assert program.call(name, *words) == 0
        assert standin.last_launch["grid"] == "2,1,1"
        assert standin.last_launch["shared"] == "16"
    assert program.call("cudaDeviceSynchronize") == 0
    assert program.value() == 5 + 2 * 2 * 3 * 2 * 3


def test_configurations_are_a_stack_of_the_thread(program: Program) -> None:
    grid, block = Dim3(), Dim3()
    shared, stream = c_size_t(), c_void_p()
    words = (byref(grid), byref(block), byref(shared), byref(stream))

    def push_and_pop() -> None:
        for depth in range(50):
            pushed = (Dim3(depth, 1, 1), Dim3(1, depth, 1), c_size_t(depth), c_void_p(depth))
            assert program.call("__cudaPushCallConfiguration", *pushed) == 0
        thread = Thread(target=pop_nothing)
        thread.start()
        thread.join()
        for depth in reversed(range(50)):
            assert program.call("__cudaPopCallConfiguration", *words) == 0
            assert (grid.x, block.y, shared.value, stream.value or 0) == (depth,) * 4

    errors = []

    def pop_nothing() -> None:
        errors.append(program.name(program.call("__cudaPopCallConfiguration", *words)))

    push_and_pop()
    pop_nothing()
    assert errors == ["cudaErrorMissingConfiguration"] * 2


def test_a_launch_with_attributes(program: Program, standin: StandinDriver) -> None:
    by = c_int(2)
    arguments = (c_void_p * 1)(ctypes.addressof(by))
    cluster = Attribute(4, 0, (c_int * 16)(2, 1, 1))
    config = Config(Dim3(4, 1, 1), Dim3(8, 1, 1), 32, None, ctypes.addressof(cluster), 1)
    for form in ("", "_ptsz"):
        words = (byref(config), program.address("count"), arguments)
        assert program.call(f"cudaLaunchKernelExC{form}", *words) == 0
        launch = standin.last_launch
        assert [launch[key] for key in ("grid", "block", "cluster", "shared")] == [
            *("4,1,1", "8,1,1", "2,1,1"),
            "32",
        ]
    result = program.call("cudaLaunchKernelExC", None, program.address("count"), arguments)
    assert program.name(result) == "cudaErrorInvalidValue"


def test_a_cooperative_launch(program: Program, standin: StandinDriver) -> None:
    by = c_int(2)
    arguments = (c_void_p * 1)(ctypes.addressof(by))
    for grid, error in ((16, "cudaSuccess"), (1 << 20, "cudaErrorCooperativeLaunchTooLarge")):
        words = (Dim3(grid, 1, 1), Dim3(8, 1, 1), arguments, c_size_t(0), None)
        result = program.call("cudaLaunchCooperativeKernel", program.address("count"), *words)
        assert program.name(result) == error
    assert standin.last_launch["cooperative"] == "1"


@pytest.mark.volume_but("cuda13")
def test_a_fault_of_a_kernel_stays(
    program: Program, standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (Dim3(1, 1, 1), Dim3(1, 1, 1), None, c_size_t(0), None)
    assert program.call("cudaLaunchKernel", program.address("fault"), *words) == 0
    assert program.call("cudaGetLastError") == 0
    results = [
        program.call(name) for name in ("cudaDeviceSynchronize", "cudaGetLastError") for _ in "12"
    ]
    assert [program.name(each) for each in results] == ["cudaErrorIllegalAddress"] * 4
    reason = "fault: write of 4 bytes at global address 0x10 is out of bounds"
    assert f"devmod-simulators: {reason}" in capfd.readouterr().err
    text: bytes = program.runtime.cudaGetErrorString(results[0])
    assert text.decode().startswith(f"an illegal memory access was encountered: {reason}")
    standin.forget_failures()


def test_names_and_attributes_of_a_kernel(program: Program) -> None:
    name = c_char_p()
    kernel = c_void_p()
    count = program.address("count")
    assert program.call("cudaFuncGetName", byref(name), count) == 0
    assert name.value == b"count"
    assert program.call("cudaGetKernel", byref(kernel), count) == 0
    assert program.call("cudaFuncGetName", byref(name), kernel) == 0
    assert name.value == b"count"
    assert program.call("cudaFuncSetAttribute", count, 8, 64 << 10) == 0
    attributes = (c_int * 64)()
    assert program.call("cudaFuncGetAttributes", byref(attributes), kernel) == 0
    # Three sizes, then maxThreadsPerBlock, and six numbers later maxDynamicSharedSizeBytes.
    assert attributes[6] == 1024
    assert attributes[11] == 64 << 10
    assert program.count(1, shared=64 << 10) == "cudaSuccess"
    result = program.call("cudaFuncSetAttribute", count, 8, 1 << 30)
    assert program.name(result) == "cudaErrorInvalidValue"
    offset, size = c_size_t(), c_size_t()
    assert program.call("cudaFuncGetParamInfo", count, c_size_t(0), byref(offset), byref(size)) == 0
    assert (offset.value, size.value) == (0, 4)


def test_a_library_that_the_program_loads(program: Program, standin: StandinDriver) -> None:
    assert program.call("cudaDeviceSynchronize") == 0
    before = standin.report["libraries"]
    library, kernel, other, address = (c_void_p() for _ in range(4))
    number, size = c_uint(), c_size_t()
    image = ctypes.create_string_buffer(PTX)
    nothing = (None, None, 0, None, None, 0)
    assert program.call("cudaLibraryLoadData", byref(library), image, *nothing) == 0
    assert program.call("cudaLibraryGetKernelCount", byref(number), library) == 0
    assert number.value == 2
    kernels = (c_void_p * 2)()
    assert program.call("cudaLibraryEnumerateKernels", kernels, 2, library) == 0
    assert program.call("cudaLibraryGetKernel", byref(kernel), library, b"count") == 0
    names = []
    for each in kernels:
        name = c_char_p()
        assert program.call("cudaFuncGetName", byref(name), c_void_p(each)) == 0
        names.append(name.value)
    assert names == [b"count", b"fault"]
    assert (
        program.call("cudaLibraryGetManaged", byref(address), byref(size), library, b"counter") == 0
    )
    assert size.value == 4
    by = c_int(7)
    arguments = (c_void_p * 1)(ctypes.addressof(by))
    words = (Dim3(1, 1, 1), Dim3(1, 1, 1), arguments, c_size_t(0), None)
    assert program.call("cudaLaunchKernel", kernel, *words) == 0
    assert program.call("cudaDeviceSynchronize") == 0
    assert address.value is not None
    assert c_int.from_address(address.value).value == 5 + 21
    for name, error in (
        (b"table", "cudaErrorSymbolNotFound"),
        (b"none", "cudaErrorSymbolNotFound"),
    ):
        result = program.call("cudaLibraryGetManaged", byref(other), None, library, name)
        assert program.name(result) == error
    assert program.call("cudaLibraryUnload", library) == 0
    assert standin.report["libraries"] == before


@pytest.mark.parametrize("version", [1, 2])
def test_a_program_without_ptx(
    runtime: ctypes.CDLL, version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    header = b"\x50\xed\x55\xba" + b"\x01\x00" + b"\x10\x00" + bytes(8)  # a fatbin of no members
    program = Program(runtime, header, version)
    assert program.count(1) == "cudaErrorNoKernelImageForDevice"
    assert ("nvcc -rdc=true" in capfd.readouterr().err) == (version == 2)
    program.close()
