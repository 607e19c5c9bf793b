"""The stand-in CUDA runtimes: what they export, errors, versions, devices."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p, create_string_buffer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from devmod_simulators import StandinDriver, StandinLibrary

pytestmark = pytest.mark.row("R55")

NOT_READY = 600


def real_library(library: StandinLibrary) -> Path:
    """Return the path of NVIDIA's library of the same soname."""
    suffix = "-cu12" if library.soname.endswith("12") else ""
    for file in metadata.files(f"nvidia-cuda-runtime{suffix}") or ():
        if file.name == library.soname:
            return Path(str(file.locate()))
    pytest.skip(f"{library.soname} is not in NVIDIA's wheel")


def exported(path: Path) -> dict[str, str]:
    """Return the exported symbols of a shared library with their version nodes."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        numbers = elf.get_section_by_name(".gnu.version")
        nodes = {
            number["vd_ndx"]: next(names).name
            for number, names in elf.get_section_by_name(".gnu.version_d").iter_versions()
        }
        return {
            symbol.name: nodes[numbers.get_symbol(index)["ndx"]]
            for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols())
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name
        }


def name(runtime: ctypes.CDLL, number: int) -> str:
    """Return the name of an error."""
    result: bytes = runtime.cudaGetErrorName(number)
    return result.decode()


def value(function: Any, *arguments: Any, kind: Any = c_int) -> int:
    """Return what a function of the runtime writes to its first argument."""
    result = kind()
    assert function(byref(result), *arguments) == 0
    return int(result.value)


@pytest.mark.volume_but("cuda13")
def test_the_symbols_and_their_versions_are_those_of_nvidias_library(
    library: StandinLibrary,
) -> None:
    symbols = exported(real_library(library))
    assert len(symbols) > 430
    assert exported(library.build()) == symbols


def test_the_names_and_texts_of_errors_are_those_of_nvidias_library(
    library: StandinLibrary,
) -> None:
    script = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1])\n"
        "for function in (library.cudaGetErrorName, library.cudaGetErrorString):\n"
        "    function.restype = ctypes.c_char_p\n"
        "    for number in range(-1, 1002): print(number, function(number).decode())\n"
    )
    texts = []
    for path in (library.build(), real_library(library)):
        command = [sys.executable, "-c", script, str(path)]
        texts.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert texts[0].count("unrecognized error code") > 1000
    assert texts[0] == texts[1]


@pytest.mark.volume_but("cuda13")
def test_a_missing_function_is_an_error_with_its_name_on_standard_error_once(
    runtime: ctypes.CDLL, capfd: pytest.CaptureFixture[str]
) -> None:
    results = [name(runtime, runtime.cudaGLSetGLDevice(0)) for _ in range(2)]
    assert results == ["cudaErrorNotSupported"] * 2
    assert name(runtime, runtime.cudaGetLastError()) == "cudaErrorNotSupported"
    assert (
        capfd.readouterr().err
        == "devmod-simulators: the simulated CUDA runtime does not have cudaGLSetGLDevice\n"
    )


@pytest.mark.volume_but("cuda13")
def test_the_last_error_stays_until_it_is_asked_for(runtime: ctypes.CDLL) -> None:
    assert name(runtime, runtime.cudaSetDevice(7)) == "cudaErrorInvalidDevice"
    assert runtime.cudaDeviceSynchronize() == 0
    assert name(runtime, runtime.cudaPeekAtLastError()) == "cudaErrorInvalidDevice"
    assert name(runtime, runtime.cudaGetLastError()) == "cudaErrorInvalidDevice"
    assert runtime.cudaGetLastError() == 0


@pytest.mark.volume_but("cuda13")
def test_work_that_is_not_done_is_no_last_error(
    runtime: ctypes.CDLL, standin: StandinDriver
) -> None:
    standin.set("fail", f"cuCtxSynchronize={NOT_READY}")
    assert runtime.cudaDeviceSynchronize() == NOT_READY
    assert runtime.cudaGetLastError() == 0


def test_the_versions_are_those_of_the_headers(
    runtime: ctypes.CDLL, library: StandinLibrary
) -> None:
    assert value(runtime.cudaRuntimeGetVersion) // 1000 == int(library.soname[-2:])
    assert value(runtime.cudaDriverGetVersion) >= 13000


def test_a_device(runtime: ctypes.CDLL) -> None:
    assert value(runtime.cudaGetDeviceCount) == 1
    assert value(runtime.cudaGetDevice) == 0
    assert value(runtime.cudaDeviceGetAttribute, 10, 0) == 32  # the warp size
    bus = create_string_buffer(16)
    assert runtime.cudaDeviceGetPCIBusId(bus, 16, 0) == 0
    assert bus.value == b"0000:01:00.0"
    assert value(runtime.cudaDeviceGetByPCIBusId, bus) == 0
    assert value(runtime.cudaGetDeviceFlags, kind=c_uint) == 8  # cudaDeviceMapHost
    assert runtime.cudaSetDeviceFlags(4) == 0
    assert value(runtime.cudaGetDeviceFlags, kind=c_uint) == 12


def test_limits_and_caches(runtime: ctypes.CDLL) -> None:
    assert runtime.cudaDeviceSetLimit(0, c_size_t(4096)) == 0
    assert value(runtime.cudaDeviceGetLimit, 0, kind=c_size_t) == 4096
    assert name(runtime, runtime.cudaDeviceSetLimit(99, c_size_t(1))) == "cudaErrorUnsupportedLimit"
    assert runtime.cudaDeviceSetCacheConfig(1) == 0
    assert value(runtime.cudaDeviceGetCacheConfig) == 1
    assert runtime.cudaDeviceSetSharedMemConfig(2) == 0
    assert value(runtime.cudaDeviceGetSharedMemConfig) == 1


@pytest.mark.volume_but("cuda13")
def test_the_properties_are_those_of_the_driver(
    runtime: ctypes.CDLL, standin: StandinDriver, library: StandinLibrary
) -> None:
    is_12 = library.soname.endswith("12")
    function = runtime.cudaGetDeviceProperties_v2 if is_12 else runtime.cudaGetDeviceProperties
    standin.set("multiprocessors", 24)
    prop = create_string_buffer(b"\xff" * 2048, 2048)
    assert function(prop, 0) == 0
    assert prop.value == b"simulated GPU (devmod-simulators)"
    # Both structures begin alike, up to the clock rate, which CUDA 13 has no more.
    memory, shared = (c_size_t.from_buffer(prop, at).value for at in (288, 296))
    registers, warp = (c_int.from_buffer(prop, at).value for at in (304, 308))
    assert (memory > 1 << 30, shared, registers, warp) == (True, 48 << 10, 65536, 32)
    threads = [c_int.from_buffer(prop, 320 + 4 * index).value for index in range(7)]
    assert threads == [1024, 1024, 1024, 64, 2147483647, 65535, 65535]
    capability = [c_int.from_buffer(prop, at).value for at in (360, 364)]
    assert capability == [9, 0]
    assert c_int.from_buffer(prop, 388 if is_12 else 384).value == 24


def test_functions_of_the_driver_by_name(runtime: ctypes.CDLL) -> None:
    function = c_void_p()
    status = c_int()
    arguments = (byref(function), ctypes.c_uint64(0), byref(status))
    assert runtime.cudaGetDriverEntryPoint(b"cuMemAlloc", *arguments) == 0
    assert (function.value is not None, status.value) == (True, 0)
    assert runtime.cudaGetDriverEntryPoint(b"cuNothing", *arguments) == 0
    assert (function.value, status.value) == (None, 1)
    arguments = (byref(function), 11000, ctypes.c_uint64(0), byref(status))
    assert runtime.cudaGetDriverEntryPointByVersion(b"cuMemAllocAsync", *arguments) == 0
    assert (function.value, status.value) == (None, 2)
