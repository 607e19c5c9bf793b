"""The stand-in CUDA runtimes: registered kernels and variables, launches, libraries."""

from __future__ import annotations

import ctypes
import struct
from threading import Thread

import pytest
from runtime_calls import PTX, Dim3, Program

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.row("R55")


@pytest.mark.volume_but("cuda13")
def test_the_host_reads_and_writes_a_managed_variable(program: Program) -> None:
    assert program["__cudaInitModule"](program.handle) & 0xFF == 1
    number = ctypes.c_int.from_address(program.counter.value or 0)
    assert number.value == 5
    number.value = 10
    assert program.count(2, grid=2, block=3) == "cudaSuccess"
    assert program.value() == 10 + 2 * 3 * 2 * 3


@pytest.mark.volume_but("cuda13")
def test_a_reset_gives_variables_their_first_values(program: Program) -> None:
    assert program.counter.value is None
    for _ in range(2):
        assert program.value() == 5
        assert program.count() == "cudaSuccess"
        assert program.value() == 8
        program.check("cudaDeviceReset")


@pytest.mark.parametrize("form", ["", "Async"])
def test_a_variable_has_a_place_and_copies(program: Program, form: str) -> None:
    table = program.address("table")
    assert program.make("cudaGetSymbolSize", table) == 16
    source, result = (ctypes.c_int * 2)(7, 8), (ctypes.c_int * 4)()
    stream = [0] * bool(form)
    to, from_ = f"cudaMemcpyToSymbol{form}", f"cudaMemcpyFromSymbol{form}"
    program.check(to, table, source, 8, 4, 1, *stream)
    program.check(from_, result, table, 12, 4, 2, *stream)
    program.check("cudaDeviceSynchronize")
    assert result[:2] == [7, 8]
    for symbol, offset, kind, error in (
        (table, 8, 2, "cudaErrorInvalidValue"),
        (table, 0, 1, "cudaErrorInvalidMemcpyDirection"),
        (program.address("count"), 0, 2, "cudaErrorInvalidSymbol"),
    ):
        assert program.error(from_, result, symbol, 12, offset, kind, *stream) == error
    # nvcc passes the memory of a managed variable.
    assert program.make("cudaGetSymbolAddress", program.counter) == program.counter.value


CONFIGURATIONS = [
    (1, 1024, 48 << 10, "cudaSuccess"),
    (1, 1025, 0, "cudaErrorInvalidConfiguration"),
    (1, 0, 0, "cudaErrorInvalidConfiguration"),
    (0, 1, 0, "cudaErrorInvalidConfiguration"),
    (1 << 31, 1, 0, "cudaErrorInvalidConfiguration"),
    (1, 1, (48 << 10) + 1, "cudaErrorInvalidValue"),
]


@pytest.mark.volume_but("cuda13")
def test_a_configuration_is_checked(program: Program) -> None:
    for *configuration, error in CONFIGURATIONS:
        assert (program.count(1, *configuration), configuration) == (error, configuration)
        assert program.error("cudaGetLastError") == error


@pytest.mark.volume_but("cuda13")
def test_each_dimension_of_a_launch_has_its_limit(program: Program) -> None:
    fault = "cudaErrorInvalidConfiguration"

    def launch(grid: list[int], block: list[int]) -> str:
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_int(1)))
        sizes = (Dim3(*grid), Dim3(*block))
        return program.error("cudaLaunchKernel", program.address("count"), *sizes, arguments, 0, 0)

    limits = (2**31 - 1, 65535, 65535, 1024, 1024, 64)
    for place, limit in enumerate(limits):
        for size, error in ((0, fault), (2, "cudaSuccess"), (limit + 1, fault)):
            sizes = [1] * len(limits)
            sizes[place] = size
            assert (launch(sizes[:3], sizes[3:]), sizes) == (error, sizes)
    assert launch([1, 1, 1], [1, 16, 64]) == "cudaSuccess"
    assert launch([1, 1, 1], [3, 7, 49]) == fault  # 1029 threads


@pytest.mark.volume_but("cuda13")
def test_a_function_that_is_no_kernel_is_an_error(program: Program, standin: StandinDriver) -> None:
    other = Program(program.library, program.major)
    other.close()
    results = [other.count(), program.launch(program.address("table"))]
    assert results == ["cudaErrorInvalidDeviceFunction"] * 2
    standin.reset()  # the driver notes that these are no handles


@pytest.mark.volume_but("cuda13")
def test_each_form_of_a_launch(program: Program, standin: StandinDriver) -> None:
    """Those with __ are what the stubs of nvcc call, with a handle."""
    handle = program.make("__cudaGetKernel", program.address("count"))
    for name in ("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel"):
        for form in (name, f"{name}_ptsz"):
            assert (program.launch(handle, 2, 2, 3, 16, form), form) == ("cudaSuccess", form)
            launch = standin.last_launch
            assert (launch["grid"], launch["block"], launch["shared"]) == ("2,1,1", "3,1,1", "16")
            assert launch["cooperative"] == str(int("Cooperative" in name))
    assert program.value() == 5 + 6 * 2 * 2 * 3 * 3
    result = program.launch(handle, grid=1 << 20, form="cudaLaunchCooperativeKernel")
    assert result == "cudaErrorCooperativeLaunchTooLarge"


def test_a_launch_with_attributes(program: Program, standin: StandinDriver) -> None:
    arguments = (ctypes.c_void_p * 1)(program.address("table"))
    # cudaLaunchAttribute: the dimension of clusters. cudaLaunchConfig_t: the last one is a count.
    cluster = struct.pack("2i3I52x", 4, 0, 2, 1, 1)
    at = ctypes.cast(cluster, ctypes.c_void_p).value
    config = struct.pack("6I3QI4x", 4, 1, 1, 8, 1, 1, 32, 0, at, 1)
    for form in ("cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"):
        program.check(form, config, program.address("count"), arguments)
        launch = standin.last_launch
        assert (launch["grid"], launch["cluster"], launch["shared"]) == ("4,1,1", "2,1,1", "32")


def test_configurations_are_a_stack_of_the_thread(program: Program) -> None:
    grid, errors = ctypes.create_string_buffer(64), []

    def pop() -> None:
        place = ctypes.addressof(grid)
        errors.append(
            program.error("__cudaPopCallConfiguration", place, place + 16, place + 32, place + 48)
        )

    for depth in range(50):
        words = (Dim3(depth, 1, 1), Dim3(1, 1, 1), 0, 0)
        assert program["__cudaPushCallConfiguration"](*words) == 0
    thread = Thread(target=pop)
    thread.start()
    thread.join()
    for depth in reversed(range(50)):
        pop()
        assert grid.raw[0] == depth
    pop()
    missing = "cudaErrorMissingConfiguration"
    assert errors == [missing, *["cudaSuccess"] * 50, missing]


@pytest.mark.volume_but("cuda13")
def test_a_fault_of_a_kernel_stays(program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    assert program.launch(program.address("fault")) == "cudaSuccess"
    assert program.cudaGetLastError() == 0
    calls = ["cudaDeviceSynchronize", *["cudaGetLastError"] * 2, "cudaPeekAtLastError"]
    assert [program.error(each) for each in calls] == ["cudaErrorIllegalAddress"] * 4
    reason = "fault: write of 4 bytes at global address 0x10 is out of bounds"
    assert f"devmod-simulators: {reason}" in capfd.readouterr().err
    program.library.cudaGetErrorString.restype = ctypes.c_char_p
    text: bytes = program.library.cudaGetErrorString(700)
    assert text.decode().startswith(f"an illegal memory access was encountered: {reason}")


def test_names_and_attributes_of_a_kernel(program: Program) -> None:
    count = program.address("count")
    kernel = program.make("cudaGetKernel", count)
    for each in (count, kernel):
        assert ctypes.string_at(program.make("cudaFuncGetName", each)) == b"count"
    program.check("cudaFuncSetAttribute", count, 8, 64 << 10)
    # maxThreadsPerBlock and, four numbers later, maxDynamicSharedSizeBytes.
    found = program.get("cudaFuncGetAttributes", ..., kernel, form="24xi16xi")
    assert found == (1024, 64 << 10)
    assert program.count(shared=64 << 10) == "cudaSuccess"


def test_a_library_that_the_program_loads(program: Program, standin: StandinDriver) -> None:
    program.check("cudaDeviceSynchronize")
    before = standin.report["libraries"]
    library = program.make("cudaLibraryLoadData", PTX + b"\0", *[0] * 6)
    assert program.make("cudaLibraryGetKernelCount", library) == 2
    (kernel,) = program.get("cudaLibraryEnumerateKernels", ..., 1, library, form="Q")
    address = program.make("cudaLibraryGetManaged", 0, library, b"counter")
    assert program.launch(kernel, 7) == "cudaSuccess"
    assert program.value() == 5
    assert ctypes.c_int.from_address(address).value == 5 + 21
    result = program.error("cudaLibraryGetManaged", 0, 0, library, b"table")
    assert result == "cudaErrorSymbolNotFound"
    program.check("cudaLibraryUnload", library)
    assert standin.report["libraries"] == before
