"""The stand-in HIP runtime itself, through ctypes: modules, launches and sticky errors."""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hip_calls import (
    ILLEGAL_ADDRESS,
    INVALID_CONFIGURATION,
    INVALID_HANDLE,
    INVALID_IMAGE,
    INVALID_VALUE,
    LAUNCH_FAILURE,
    LAUNCH_TIMEOUT,
    NO_BINARY,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    TOO_LARGE,
    allocate,
    check,
    function_of,
    hip,
    launch_block,
    made,
    read,
)
from hip_kernels import code_object

from devmod_simulators import StandinDriver
from devmod_simulators.drivers.worker_process import Failure
from devmod_standins.rdna3 import emulator
from devmod_standins.rdna3.code_object import CodeObject

pytestmark = pytest.mark.usefixtures("standin")


def kernel(name: str, target: str = "gfx1100") -> int:
    """Return a kernel of the tests' source."""
    return function_of(code_object(target), name)


@pytest.mark.usefixtures("emulator")
def test_globals_have_memory_and_first_values() -> None:
    module, place, size = (
        made(hip.hipModuleLoadData, code_object()),
        ctypes.c_void_p(),
        ctypes.c_size_t(),
    )
    check(hip.hipModuleGetGlobal(ctypes.byref(place), ctypes.byref(size), module, b"total"))
    assert (size.value, read(place.value or 0, 1)) == (4, [5])
    factor = made(hip.hipModuleGetGlobal, None, module, b"factor")
    assert read(factor, 1) == [0]
    assert hip.hipModuleGetGlobal(ctypes.byref(place), None, module, b"missing") == NOT_FOUND
    check(hip.hipMemsetD32(factor, 10, 1))
    out = allocate(np.zeros(2, np.int32))
    check(
        launch_block(
            made(hip.hipModuleGetFunction, module, b"add"),
            struct.pack("<Qi", out, 7),
            threads=(2, 1, 1),
        )
    )
    assert read(out, 2) == [57, 57]
    check(hip.hipModuleUnload(module))


@pytest.mark.usefixtures("emulator")
def test_arguments_have_their_places(standin: StandinDriver) -> None:
    function, out = kernel("pair"), allocate(np.zeros(1))
    values = (
        ctypes.create_string_buffer(struct.pack("<cxxxxxxxd", b"a", 1.5), 16),
        ctypes.c_char(2),
        ctypes.c_short(3),
        ctypes.c_void_p(out),
    )
    params = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    check(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, None))
    assert read(out, 1, np.float64) == [6.5]
    assert (
        standin.last_launch["params"]
        == struct.pack("<cxxxxxxxdcxhxxxxQ", b"a", 1.5, b"\2", 3, out).hex()
    )


@pytest.mark.usefixtures("emulator")
def test_hidden_arguments_are_those_of_the_launch() -> None:
    out = allocate(np.zeros(6, np.int32))
    check(launch_block(kernel("dimensions"), struct.pack("<Q", out), (3, 2, 4), (5, 6, 7)))
    assert read(out, 6) == [3, 2, 4, 5, 6, 7]


@pytest.mark.usefixtures("emulator")
def test_dynamic_shared_memory() -> None:
    out = allocate(np.zeros(64, np.int32))
    check(launch_block(kernel("dynamic"), struct.pack("<Q", out), threads=(64, 1, 1), shared=256))
    assert read(out, 64) == list(range(63, -1, -1))


def test_a_block_of_arguments_of_another_size_is_refused(standin: StandinDriver) -> None:
    function = kernel("add")
    assert launch_block(function, bytes(11)) == INVALID_VALUE
    assert standin.reason == "add: the parameter block has 11 bytes; expected 12"
    assert launch_block(function, bytes(4096)) == INVALID_VALUE


@pytest.mark.parametrize(
    ("grid", "threads", "shared", "expected"),
    [
        ((0, 1, 1), (1, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 65537, 1), (1, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (1, 0, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (1025, 1, 1), 0, INVALID_CONFIGURATION),
        ((1 << 24, 1, 1), (256, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (129, 1, 1), 0, LAUNCH_FAILURE),
        ((1, 1, 1), (1, 1, 1), 65537, INVALID_VALUE),
    ],
)
def test_dimensions_are_checked(
    standin: StandinDriver, grid: Any, threads: Any, shared: int, expected: int
) -> None:
    out = allocate(np.zeros(1, np.int32))
    assert (
        launch_block(kernel("bounded"), struct.pack("<Q", out), grid, threads, shared) == expected
    )
    assert not standin.failed


def test_a_cooperative_launch_must_fit_the_device(standin: StandinDriver) -> None:
    standin.set("multiprocessors", 2)
    pointer = ctypes.c_void_p(allocate(np.zeros(1, np.int32)))
    params = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    function, launches = kernel("dimensions"), standin.launches
    assert (
        hip.hipModuleLaunchCooperativeKernel(function, 65, 1, 1, 64, 1, 1, 0, None, params)
        == TOO_LARGE
    )
    assert (
        hip.hipModuleLaunchCooperativeKernel(function, 64, 1, 1, 1024, 1, 1, 0, None, params)
        == TOO_LARGE
    )
    assert standin.launches == launches


@pytest.mark.usefixtures("emulator")
def test_a_kernel_that_writes_elsewhere_is_a_sticky_error(standin: StandinDriver) -> None:
    out, freed = allocate(np.zeros(4, np.int32)), made(hip.hipMalloc, 16)
    check(hip.hipFree(freed))
    check(launch_block(kernel("fill"), struct.pack("<Qii", freed, 7, 1)))
    assert hip.hipDeviceSynchronize() == ILLEGAL_ADDRESS
    assert standin.reason == f"fill: an access at 0x{freed:x}, where the kernel has no memory"
    assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), 16) == ILLEGAL_ADDRESS
    assert hip.hipGetLastError() == ILLEGAL_ADDRESS
    standin.forget_failures()
    check(launch_block(kernel("fill"), struct.pack("<Qii", out, 7, 4)))  # a new worker
    assert read(out) == [7] * 4


@pytest.mark.usefixtures("emulator")
def test_a_write_behind_the_end_of_an_allocation_is_found(standin: StandinDriver) -> None:
    out = allocate(np.zeros(4, np.int32))
    check(launch_block(kernel("fill"), struct.pack("<Qii", out, 7, 5)))
    assert hip.hipDeviceSynchronize() == ILLEGAL_ADDRESS
    assert (
        standin.reason
        == f"fill: a write at 0x{out + 16:x}, 0 bytes behind the end of an allocation"
    )


@pytest.mark.parametrize(
    ("target", "device", "expected"),
    [
        ("gfx1100", "gfx1101", NO_BINARY),
        ("gfx11-generic", "gfx1100", SUCCESS),
        ("gfx11-generic", "gfx1200", NO_BINARY),
        ("gfx90a", "gfx90a:sramecc+:xnack-", SUCCESS),
        ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", NO_BINARY),
        ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", SUCCESS),
    ],
)
def test_a_code_object_for_another_device_is_refused(
    standin: StandinDriver, target: str, device: str, expected: int
) -> None:
    standin.set("arch", device)
    assert (
        hip.hipModuleLoadData(
            ctypes.byref(ctypes.c_void_p()),
            code_object(target, 'extern "C" __global__ void k() {}'),
        )
        == expected
    )
    if expected:
        assert standin.reason == f"a code object for {target} does not run on {device}"


@pytest.mark.usefixtures("emulator")
def test_code_for_another_device_than_the_emulator_s_is_checked_and_not_executed(
    standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    standin.set("arch", "gfx90a:sramecc+:xnack-")
    out = allocate(np.zeros(4, np.int32))
    function = kernel("fill", "gfx90a")
    assert launch_block(function, struct.pack("<Qi", out, 7)) == INVALID_VALUE
    check(launch_block(function, struct.pack("<Qii", out, 7, 4)))
    assert hip.hipDeviceSynchronize() == NOT_SUPPORTED
    reason = "fill: the emulator executes code for gfx1100 alone; this is for gfx90a"
    assert standin.reason == reason
    assert capfd.readouterr().err == f"stand-in runtime: {reason}\n"


@pytest.mark.parametrize("length", [0, 3, 63, 500])
def test_a_damaged_image_is_refused(length: int) -> None:
    """The runtime gets no size: what follows a truncated file are zeros here."""
    image = code_object()[:length].ljust(1 << 14, b"\0")
    assert hip.hipModuleLoadData(ctypes.byref(ctypes.c_void_p()), image) == INVALID_IMAGE


def test_what_a_function_is() -> None:
    module, value = made(hip.hipModuleLoadData, code_object()), ctypes.c_int()
    function = made(hip.hipModuleGetFunction, module, b"bounded")
    check(hip.hipFuncGetAttribute(ctypes.byref(value), 0, function))
    assert value.value == 128
    assert hip.hipKernelNameRef(function) == b"bounded"
    assert (
        hip.hipModuleGetFunction(ctypes.byref(ctypes.c_void_p()), module, b"missing") == NOT_FOUND
    )
    check(hip.hipModuleUnload(module))
    assert hip.hipFuncGetAttribute(ctypes.byref(value), 0, None) == INVALID_HANDLE


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (
            "exceeded 1M instructions in single wave, likely infinite loop",
            LAUNCH_TIMEOUT,
            "the kernel does not end: {}",
        ),
        ("[emu] unimplemented instruction type: MIMG image_load", NOT_SUPPORTED, "{}"),
    ],
)
def test_what_the_emulator_raises_is_an_error_of_the_runtime(
    text: str, code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_asm(*arguments: object, **more: object) -> None:
        raise RuntimeError(text)

    # To load it would set the compiler of this process.
    monkeypatch.setattr(emulator, "load", lambda: None)
    loaded = SimpleNamespace(emu=SimpleNamespace(run_asm=run_asm))
    monkeypatch.setitem(sys.modules, "test.mockgpu.amd", loaded)
    object_ = CodeObject(code_object())
    with pytest.raises(Failure) as failure:
        emulator.launch(
            object_,
            np.zeros(object_.size, np.uint8),
            object_.kernels[0],
            (1, 1, 1, 1, 1, 1),
            0,
            b"",
        )
    assert (failure.value.code, failure.value.text) == (code, reason.format(text))


def test_the_folder_of_a_variable_is_that_of_the_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(emulator.VARIABLE, str(tmp_path))
    assert (
        emulator.missing()
        == f"there is no emulator of RDNA3 here; {emulator.VARIABLE} names the folder of one"
    )
