"""Kernels in OpenCL C, compiled for ROCm: machine code of gfx1100 computes what NumPy does, with
the calls of the kind opencl.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import test_il_functions
import test_il_kernels
from one_source import OPENCL_C, check_one_source
from test_il_functions import test_the_functions_of_floats as test_the_functions_of_floats

import devmod

pytestmark = [pytest.mark.row("R58"), pytest.mark.usefixtures("emulator")]
TARGET = test_il_kernels.TARGETS["ROCm"]


@pytest.fixture
def target(device: Any) -> str:
    """The target of the tests of OpenCL's SPIR-V, which run here too."""
    return "ROCm"


for _name, _test in vars(test_il_kernels).copy().items():
    if _name.startswith("test_") and _name not in (
        "test_print",
        "test_conversions_with_a_rounding",
        # The emulator has no addresses of local memory among those of global memory.
        "test_pointers_to_any_address_space",
    ):
        globals()[_name] = _test


@pytest.mark.row("R37")
def test_the_examples(device: Any) -> None:
    check_one_source(device, "OpenCL C", TARGET, OPENCL_C)


#: LLVM replaces calls of functions with these names and types, whose definitions it takes for
#: OpenCL's.
OWN = """
__device__ float powr(float x, float y) { return x - y; }
__device__ float rootn(float x, int n) { return x + n; }
extern "C" __global__ void k(float *x) { x[0] = powr(x[0], 2.0f); x[1] = rootn(x[1], 1); }
"""


def test_a_function_of_the_program_with_the_name_of_opencls(device: Any) -> None:
    x = np.array([9, 7], "float32")
    module = devmod.compile(OWN, TARGET, language="HIP")
    module["k"].on(device)(x, grid=1, block=1)
    assert x.tolist() == [7, 8]


def test_a_function_of_constants_is_not_used_for_other_arguments(device: Any) -> None:
    """LLVM puts the 0.5 into powr, and then took that function for pow."""
    x = np.array([4, 0], "float32")
    text = "kernel void k(global float *x) { float v = fabs(x[0]); x[0] = pow(v, 1.5f); x[1] = powr(v, 0.5f); }"
    devmod.compile(text, TARGET, language="OpenCL C")["k"].on(device)(x, grid=1, block=1)
    assert x.tolist() == [8, 2]


#: clang writes saturated sums of 16 bits, products of 24 bits, a relative move, an array that moves
#: to local memory, and one id of a block of two rows.
INSTRUCTIONS = """
kernel void k(global const int *x, global int *sums, global long *high, global int *moved) {
    size_t i = get_global_id(0);
    sums[i] = as_int(add_sat(as_char4(x[i]), as_char4(x[i + 1])));
    high[i] = mad_hi((long)x[i], (long)x[i + 1], 3L);
    union { int word; char bytes[4]; } own;
    own.word = x[i];
    own.bytes[i % 4] += 7;
    moved[i] = own.word;
}
kernel void turned(global const float *x, global float *y, int turns) {
    float own[16];
    for (int j = 0; j < 16; j++)
        own[j] = x[j] * get_local_id(0);
    y[get_global_id(0)] = own[turns & 15];
}
"""


def test_instructions_that_the_emulator_corrects(device: Any) -> None:
    x = np.random.default_rng(6).integers(-(2**31), 2**31, 33).astype("int32")
    sums, high, moved = (np.zeros(32, type_) for type_ in ("int32", "int64", "int32"))
    module = devmod.compile(INSTRUCTIONS, TARGET, language="OpenCL C")
    module["k"].on(device)(x, sums, high, moved, grid=1, block=(32, 2))
    bytes_ = x.view("int8").reshape(-1, 4).astype(int)
    saturated = np.clip(bytes_[:-1] + bytes_[1:], -128, 127)
    np.testing.assert_array_equal(sums.view("int8").reshape(-1, 4), saturated)
    numbers = x.tolist()
    assert high.tolist() == [(a * b >> 64) + 3 for a, b in pairwise(numbers)]
    expected = bytes_[:-1].copy()
    expected[np.arange(32), np.arange(32) % 4] += 7
    np.testing.assert_array_equal(moved.view("int8").reshape(-1, 4), expected.astype("int8"))

    x, y = np.arange(1, 17, dtype="float32") ** 2, np.zeros(64, "float32")
    module["turned"].on(device)(x, y, 21, grid=2, block=32)
    assert y.tolist() == [36.0 * i for i in range(32)] * 2


def test_shorts_at_any_byte(device: Any) -> None:
    """clang loads a vector of three bytes as a short and a byte."""
    text = "kernel void k(global const char *x, global short *y, global char *z) { int i = get_global_id(0); y[i] = *(global const short *)(x + 2 * i + 1); vstore3(vload3(i, x), i, z); }"
    x = np.random.default_rng(11).integers(-128, 128, 97).astype("int8")
    y, z = np.zeros(32, "int16"), np.zeros(96, "int8")
    devmod.compile(text, TARGET, language="OpenCL C")["k"].on(device)(x, y, z, grid=1, block=32)
    np.testing.assert_array_equal(y, x[1:65].view("int16"))
    np.testing.assert_array_equal(z, x[:96])


@pytest.mark.parametrize("type_", ["float3", "long2"])
def test_copies_of_a_group(type_: str, target: str) -> None:
    """The emulator loads a byte or a short of local memory (ds_load_u8_d16) as zero."""
    test_il_functions.test_copies_of_a_group(type_, target)


#: The emulator has no compare and exchange of 64 bits.
ATOMICS_OF_64_BITS = """
kernel void k(global long *s, global ulong *u) {
    long i = get_global_id(0);
    atom_add(&s[0], i * 4294967296L);
    atom_sub(&s[1], i);
    atom_min(&s[2], -i * i);
    atom_max(&s[3], i << 33);
    atom_xor(&s[4], i << 40);
    atom_or(&s[5], 1L << i);
    atom_and(&s[6], ~(2L << i));
    atom_inc(&s[7]);
    atom_dec(&u[0]);
    if (i == 0)
        u[2] = atom_xchg(&u[1], 99ul << 35);
}
"""


def test_atomics_of_64_bits(device: Any) -> None:
    s, u = np.array([1, 2, 3, 4, 5, 6, -1, 8]), np.array([100, 7, 0], "uint64")
    module = devmod.compile(ATOMICS_OF_64_BITS, TARGET, language="OpenCL C")
    module["k"].on(device)(s, u, grid=2, block=32)
    assert s.tolist() == [(2016 << 32) + 1, 2 - 2016, -63 * 63, 63 << 33, 5, -1, 1, 8 + 64]
    assert u.tolist() == [100 - 64, 99 << 35, 7]
