"""The stand-in CUDA runtimes: what they export, errors, versions, devices."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from runtime_calls import NOT_READY, Program

from devmod_simulators import StandinDriver, StandinLibrary

pytestmark = pytest.mark.row("R55")


def real_library(library: StandinLibrary) -> Path:
    """Return the path of NVIDIA's library of the same soname."""
    suffix = "-cu12" if library.soname.endswith("12") else ""
    for file in metadata.files(f"nvidia-cuda-runtime{suffix}") or ():
        if file.name == library.soname:
            return Path(str(file.locate()))
    pytest.skip(f"{library.soname} is not in NVIDIA's wheel")


def exported(path: Path) -> set[str]:
    """Return the exported symbols of a shared library with their version nodes."""
    words = ["readelf", "--dyn-syms", "-W", str(path)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" DEFAULT +\d+ (\S+@@\S+)", text))


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
        "    for number in (*range(-1, 1002), 10000): print(number, function(number).decode())\n"
    )
    texts = []
    for path in (library.build(), real_library(library)):
        command = [sys.executable, "-c", script, str(path)]
        texts.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert texts[0].count("unrecognized error code") > 1000
    assert texts[0] == texts[1]


@pytest.mark.volume_but("cuda13")
def test_a_missing_function_is_an_error_with_its_name_on_standard_error_once(
    program: Program, capfd: pytest.CaptureFixture[str]
) -> None:
    results = [program.error("cudaGLSetGLDevice", 0) for _ in range(2)]
    results.append(program.error("cudaGetLastError"))
    assert results == ["cudaErrorNotSupported"] * 3
    assert (
        capfd.readouterr().err
        == "devmod-simulators: the simulated CUDA runtime does not have cudaGLSetGLDevice\n"
    )


@pytest.mark.volume_but("cuda13")
def test_the_last_error_stays_until_it_is_asked_for(
    program: Program, standin: StandinDriver
) -> None:
    standin.set("fail", f"cuCtxSynchronize={NOT_READY}@1")
    names = ("cudaSetDevice", "cudaPeekAtLastError", "cudaGetLastError")
    assert [program.error(each, 7) for each in names] == ["cudaErrorInvalidDevice"] * 3
    assert program.cudaGetLastError() == 0
    # Work that is not done is no error.
    standin.set("fail", f"cuCtxSynchronize={NOT_READY}")
    assert program.cudaDeviceSynchronize() == NOT_READY
    assert program.cudaGetLastError() == 0


def test_versions_devices_limits_and_caches(program: Program) -> None:
    assert program.make("cudaRuntimeGetVersion") // 1000 == program.major
    assert program.make("cudaDriverGetVersion") >= 13000
    assert program.make("cudaGetDeviceCount") == 1
    assert program.make("cudaGetDevice") == 0
    assert program.make("cudaDeviceGetAttribute", 10, 0) == 32  # the warp size
    assert program.make("cudaDeviceGetByPCIBusId", b"0000:01:00.0") == 0
    assert program.make("cudaGetDeviceFlags") == 8  # cudaDeviceMapHost
    program.check("cudaSetDeviceFlags", 4)
    assert program.make("cudaGetDeviceFlags") == 12
    program.check("cudaDeviceSetLimit", 0, 4096)
    assert program.make("cudaDeviceGetLimit", 0) == 4096
    assert program.error("cudaDeviceSetLimit", 99, 1) == "cudaErrorUnsupportedLimit"
    program.check("cudaDeviceSetCacheConfig", 1)
    assert program.make("cudaDeviceGetCacheConfig") == 1
    assert program.make("cudaDeviceGetSharedMemConfig") == 1


@pytest.mark.volume_but("cuda13")
def test_the_properties_are_those_of_the_driver(program: Program, standin: StandinDriver) -> None:
    is_12 = program.major == 12
    standin.set("multiprocessors", 24)
    name = "cudaGetDeviceProperties" + "_v2" * is_12
    # name, sharedMemPerBlock, regsPerBlock and warpSize; maxThreadsPerBlock and the dimensions;
    # major and minor; multiProcessorCount.
    form = f"33s263xQ2i8x7i12x2i{'20' if is_12 else '16'}xi"
    assert program.get(name, ..., 0, form=form) == (
        b"simulated GPU (devmod-simulators)",
        *(48 << 10, 65536, 32),
        *(1024, 1024, 1024, 64, 2147483647, 65535, 65535),
        *(9, 0, 24),
    )


def test_functions_of_the_driver_by_name(program: Program) -> None:
    for name, status in (("cuMemAlloc", 0), ("cuNothing", 1)):
        place = ctypes.c_void_p()
        words = (name.encode(), ctypes.byref(place), 0, ...)
        assert program.get("cudaGetDriverEntryPoint", *words) == (status,)
        assert bool(place.value) == (status == 0)
