"""What kernels call: functions of the standard libraries of C and C++, assert, and the intrinsics
of HVX.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error
from hexagon_kernels import module

import devmod

STRINGS = """
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int order(const void *a, const void *b) { return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b); }
void sort(int *x, size_t n) { qsort(x, n, sizeof *x, order); }
int find(const int *x, size_t n, int key) { const int *at = bsearch(&key, x, n, sizeof *x, order); return at ? at - x : -1; }
int distance(int a, int b) { return abs(a - b) + (int)labs((long)a - b) + (int)llabs((long long)a - b); }
int parts(void)
{
    char text[64] = "kernel", copy[64];
    strcat(strcpy(copy, text), ".c");
    return strlen(copy) * 10000 + (strchr(copy, '.') - copy) * 1000 + (strstr(copy, "el") - copy) * 100
        + (strncmp(copy, text, 6) == 0) * 10 + (strcmp(copy, text) > 0) + (memchr(text, 'x', 6) == NULL) * 2;
}
int64_t total(int n)
{
    int64_t sum = 0, *x = malloc(n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = i;
    for (int i = 0; i < n; i++) sum += x[i];
    free(x);
    return sum;
}
"""


def test_functions_of_the_c_library(device: Any) -> None:
    functions = module(STRINGS)
    x = np.random.default_rng(3).integers(-(1 << 31), 1 << 31, 1000).astype("int32")
    expected = np.sort(x)
    functions["sort"](x, x.size)
    np.testing.assert_array_equal(x, expected)
    assert functions["find"](x, x.size, int(x[417])) == 417
    assert functions["find"](x, x.size, 5) == -1
    assert functions["distance"](3, -4) == 21
    assert functions["parts"]() == 86413
    assert functions["total"](100_000) == 4_999_950_000


CPP = """
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>
struct Filter { virtual ~Filter() = default; virtual float operator()(float x) const = 0; };
struct Root : Filter { float operator()(float x) const override { return std::sqrt(std::abs(x)); } };
struct Count { int calls; Count() : calls(40) {} ~Count() { calls = 0; } };
static Count count;
extern "C" float median(const float *x, int n)
{
    static const std::vector<float> zero(1);
    std::vector<float> values(zero);
    values.insert(values.end(), x, x + n);
    std::sort(values.begin(), values.end(), [](float a, float b) { return a < b; });
    std::unique_ptr<Filter> root(new Root);
    count.calls++;
    return (*root)(values[values.size() / 2]);
}
extern "C" int calls() { return count.calls; }
extern "C" void reserve(int n) { std::vector<int> x; x.reserve(n); }
"""


def test_classes_and_templates_of_the_cpp_library(device: Any) -> None:
    functions = module(CPP, "C++")
    x = np.array([9, -3, 25, 16, -7, 4], "float32")
    assert functions["median"](x, 6) == 2
    assert functions["calls"]() == 41
    with pytest.raises(
        devmod.LaunchError,
        match=r"a kernel has ended its runner: length_error was thrown in -fno-exceptions mode with message \"vector\"\. ",
    ):
        call_and_wait(device, functions["reserve"], -1)


def call_and_wait(device: Any, function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
    device.synchronize()


def test_a_failed_assertion_ends_the_call_with_its_place(device: Any) -> None:
    condition = 'n > 0 && "größer als null"'
    long = "ö" * 600
    source = f"""
    #include <assert.h>
    #include <stdlib.h>
    void scale(float *x, int n) {{ assert({condition}); for (int i = 0; i < n; i++) x[i] *= 2; }}
    void stop(int {long}) {{ assert(!{long}); }}
    void leave(int n) {{ if (n) abort(); }}
    """
    functions = module(source)
    x = np.ones(4, "float32")
    functions["scale"](x, 4)
    assert x.tolist() == [2, 2, 2, 2]
    ending = "The next call starts a new runner; arrays of the old one are lost"
    check_error(
        devmod.LaunchError,
        lambda: call_and_wait(device, functions["scale"], x, 0),
        f"{device!r}: a kernel has ended its runner: source.c:4: the assertion '{condition}' failed in scale. {ending}",
    )
    functions["scale"](x, 4)
    with pytest.raises(
        devmod.LaunchError, match=rf"source.c:5: the assertion '!ö+\ufffd. {ending}"
    ):
        call_and_wait(
            device, functions["stop"], 1
        )  # the runner shortens the text, here inside a character
    with pytest.raises(
        devmod.LaunchError,
        match=rf"a kernel has ended its runner: abort\(\) was called in leave\+\d+\. {re.escape(ending)}",
    ):
        call_and_wait(device, functions["leave"], 1)
    call_and_wait(device, module(source, "C", "-DNDEBUG")["stop"], 1)


VECTORS = """
#include <hexagon_types.h>
#include <hexagon_protos.h>
#include <hvx_hexagon_protos.h>
#define EACH(TYPE, NAME, CALL) \\
    void NAME(const TYPE *x, const TYPE *y, TYPE *z, int n) \\
    { \\
        for (; n > 0; n -= 128 / (int)sizeof(TYPE), x += 128 / sizeof(TYPE), y += 128 / sizeof(TYPE), z += 128 / sizeof(TYPE)) { \\
            HVX_Vector a = *(const HVX_Vector *)x, b = *(const HVX_Vector *)y; \\
            *(HVX_Vector *)z = CALL; \\
        } \\
    }
EACH(short, add_saturated, Q6_Vh_vadd_VhVh_sat(a, b))
EACH(unsigned char, distance, Q6_Vub_vabsdiff_VubVub(a, b))
EACH(unsigned char, mean, Q6_Vub_vavg_VubVub_rnd(a, b))
EACH(int, larger, Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(a, b), a, b))
EACH(short, product, Q6_V_vand_VV(Q6_Vh_vmpyi_VhVh(a, b), Q6_V_vsplat_R(-1)))
EACH(int, interleaved, Q6_V_lo_W(Q6_W_vshuff_VVR(b, a, -4)))
EACH(unsigned char, shifted, Q6_V_valign_VVR(b, a, 5))
int dot(const signed char *x, const signed char *y, int n)
{
    HVX_Vector sum = Q6_V_vzero();
    for (int i = 0; i < n; i += 128)
        sum = Q6_Vw_vrmpyacc_VwVbVb(sum, *(const HVX_Vector *)(x + i), *(const HVX_Vector *)(y + i));
    for (int step = 64; step >= 4; step /= 2)
        sum = Q6_Vw_vadd_VwVw(sum, Q6_V_vror_VR(sum, step));
    return Q6_R_vextract_VR(sum, 0);
}
int scalars(int x, int y) { return Q6_R_add_RR_sat(x, y) + Q6_R_popcount_P(y) + Q6_R_max_RR(x, y); }
"""


def widened(x: Any, y: Any) -> tuple[Any, Any]:
    return x.astype("int64"), y.astype("int64")


def saturated_sum(x: Any, y: Any) -> Any:
    a, b = widened(x, y)
    return np.clip(a + b, -32768, 32767)


def rounded_mean(x: Any, y: Any) -> Any:
    a, b = widened(x, y)
    return (a + b + 1) >> 1


def distance(x: Any, y: Any) -> Any:
    a, b = widened(x, y)
    return np.abs(a - b)


def interleaved(x: Any, y: Any) -> Any:
    rows = np.stack([x.reshape(-1, 32)[:, :16], y.reshape(-1, 32)[:, :16]], -1)
    return rows.reshape(-1)


def shifted(x: Any, y: Any) -> Any:
    return np.concatenate([x.reshape(-1, 128)[:, 5:], y.reshape(-1, 128)[:, :5]], 1).reshape(-1)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("add_saturated", "int16", saturated_sum),
        ("distance", "uint8", distance),
        ("mean", "uint8", rounded_mean),
        ("larger", "int32", np.maximum),
        ("product", "int16", np.multiply),
        ("interleaved", "int32", interleaved),
        ("shifted", "uint8", shifted),
    ],
)
def test_intrinsics_of_hvx_compute_what_numpy_does(
    device: Any, name: str, dtype: str, expected: Callable[[Any, Any], Any]
) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(5)
    x, y = (rng.integers(info.min, info.max, 1024, dtype, endpoint=True) for _ in range(2))
    z = np.zeros_like(x)
    module(VECTORS, "C", "-mhvx=v66", "-mhvx-length=128b")[name](x, y, z, z.size)
    np.testing.assert_array_equal(z, expected(x, y).astype(dtype))


def test_reductions_and_scalars_of_intrinsics(device: Any) -> None:
    functions = module(VECTORS, "C", "-mhvx=v66", "-mhvx-length=128b")
    x, y = np.random.default_rng(6).integers(-128, 128, (2, 4096)).astype("int8")
    assert functions["dot"](x, y, x.size) == int(np.dot(*widened(x, y)))
    assert functions["scalars"]((1 << 31) - 5, 12) == (1 << 31) - 1 + 2 + (1 << 31) - 5 - (1 << 32)
