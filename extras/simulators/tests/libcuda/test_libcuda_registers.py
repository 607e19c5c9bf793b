"""The stand-in CUDA driver: its estimate of the registers of a kernel, and limits of them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, cuda, driver, read

pytestmark = pytest.mark.usefixtures("context")

COUNT = 30
NUM_REGS = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
MAX_REGISTERS = cuda.CUjit_option.CU_JIT_MAX_REGISTERS


def ptx(directives: str = "", pragma: str = "") -> bytes:
    """Return a kernel that loads `COUNT` numbers of 64 bits, and then adds them from the last to
    the first: all and their address live at once.
    """
    loads = [f"ld.global.f64 %d{each}, [%p+{8 * each}];" for each in range(COUNT)]
    sums = [f"add.f64 %d{each}, %d{each}, %d{each + 1};" for each in reversed(range(COUNT - 1))]
    lines = [
        ".version 8.0",
        ".target sm_90",
        ".address_size 64",
        pragma,
        f".visible .entry k(.param .u64 p) {directives} {{",
        f".reg .b64 %p; .reg .f64 %d<{COUNT}>; .reg .pred %q<50>;",
        "ld.param.u64 %p, [p];",
        *loads,
        *sums,
        f"st.global.f64 [%p+{8 * COUNT}], %d0; ret; }}",
    ]
    return "\n".join(lines).encode() + b"\0"


#: Each of them, and the address, in two, and some that the compiler takes.
REGISTERS = 2 * COUNT + 2 + 8


def kernel(text: bytes, *options: Any) -> Any:
    """Return the kernel of a module."""
    names = [name for name, _ in options]
    values = [value for _, value in options]
    module = driver.cuModuleLoadDataEx(text, len(options), names, values)
    return driver.cuModuleGetFunction(module, b"k")


def registers(function: Any) -> int:
    """Return the registers of a kernel."""
    return int(driver.cuFuncGetAttribute(NUM_REGS, function))


@pytest.mark.volume_but(".maxnreg 57--57")
@pytest.mark.parametrize(
    ("directives", "pragma", "expected"),
    [
        ("", "", REGISTERS),
        (".maxnreg 57", "", 57),
        (".maxntid 1024", "", 64),
        (".maxntid 256, 1, 1", "", REGISTERS),
        ("", '.pragma "maxrregcount 38";', 38),
        ("", '.pragma "nounroll";', REGISTERS),
    ],
)
def test_a_kernel_has_as_many_registers_as_live_at_once(
    directives: str, pragma: str, expected: int
) -> None:
    assert registers(kernel(ptx(directives, pragma))) == expected


@pytest.mark.volume_but
def test_an_option_of_the_compiler_limits_registers() -> None:
    assert registers(kernel(ptx(), (MAX_REGISTERS, 40))) == 40
    assert registers(kernel(ptx(), (MAX_REGISTERS, 200))) == REGISTERS
    library = driver.cuLibraryLoadData(ptx(), [MAX_REGISTERS], [40], 1, [], [], 0)
    function = driver.cuLibraryGetKernel(library, b"k")
    device = driver.cuCtxGetDevice()
    assert driver.cuKernelGetAttribute(NUM_REGS, function, device) == 40


def test_an_estimate_refuses_no_launch() -> None:
    memory = allocate(np.ones(COUNT + 1))
    values = ((int(memory),), (ctypes.c_void_p,))
    driver.cuLaunchKernel(kernel(ptx()), 1, 1, 1, 1024, 1, 1, 0, 0, values, 0)
    assert REGISTERS * 1024 > 65536
    assert read(memory, COUNT + 1, np.float64) == [1] * COUNT + [COUNT]
