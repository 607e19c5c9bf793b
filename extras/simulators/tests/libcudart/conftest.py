"""Fixtures: the stand-in CUDA runtimes over the stand-in driver of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from runtime_calls import Program, Runtime

from devmod_simulators import StandinDriver, StandinLibrary, UnavailableError, libcuda
from devmod_simulators.drivers.library import libcudart12, libcudart13

LIBRARIES = {12: libcudart12, 13: libcudart13}


@pytest.fixture(scope="session", params=LIBRARIES, ids="cuda{}".format)
def library(request: pytest.FixtureRequest) -> StandinLibrary:
    """The runtime of each major version. Tests are skipped, with the reason, where it cannot be
    built.
    """
    library = LIBRARIES[request.param]
    try:
        library.build()
    except UnavailableError as error:
        pytest.skip(str(error))
    return library


@pytest.fixture
def runtime(standin: StandinDriver, library: StandinLibrary) -> Iterator[ctypes.CDLL]:
    """The functions of the runtime in this process. The thread has the first device and no error
    before and after.
    """
    functions = ctypes.CDLL(str(library.build()))
    yield functions
    functions.cudaSetDevice(0)
    functions.cudaDeviceReset()
    functions.cudaGetLastError()
    # Tests of the driver begin without a context.
    libcuda.load().api.cuCtxSetCurrent(None)


@pytest.fixture
def calls(runtime: ctypes.CDLL, library: StandinLibrary) -> Runtime:
    """The functions of the runtime, with checks of what they return."""
    return Runtime(runtime, int(library.soname.rpartition(".")[2]))


@pytest.fixture
def program(calls: Runtime) -> Iterator[Program]:
    """A program with two kernels and three variables."""
    program = Program(calls.library, calls.major)
    yield program
    program.close()
