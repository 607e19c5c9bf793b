"""The table of docs/reliability.md: what `devmod.testing` finds. The plugins' tests
compare each kind with its column.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from backend_checks import first_device
from each_case import raised
from faults import FAULTS, FOUND, KINDS, check_faults, check_verify, table

import devmod
from devmod.testing import assert_kernel


def test_the_table_has_each_fault() -> None:
    rows = table()
    assert sorted(rows) == sorted(fault.label for fault in FAULTS.values())
    assert len(rows) == 24
    assert {cell for row in rows.values() for cell in row.values()} <= set(FOUND)
    assert {tuple(row) for row in rows.values()} == {KINDS}


@pytest.mark.filterwarnings(
    "ignore:Non-empty compiler output"
)  # of pyopencl, for any text of a build
@pytest.mark.volume_but("opencl:0")
@pytest.mark.devices("opencl", "vulkan", "webgpu", "hexagon")
def test_what_is_found_on_each_device(device: devmod.Device) -> None:
    target = {"hexagon": "hexagon -arch=v66"}.get(device.kind, device.kind)
    check_faults(device, target, "OpenCL C" if device.kind == "opencl" else "Slang")


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.volume  # test_verify.py has one for each finding
@pytest.mark.devices("vulkan")
def test_what_verify_finds(device: devmod.Device) -> None:
    check_verify(FAULTS)


#: What a kernel with one element too many writes, by the types for which OpenCL C has it. The other
#: languages have the first. WGSL has a function for a choice.
COPIES = {
    "y[i] = x[i]": "f32 i32 u32 u8",
    "y[i] = x[n - i]": "f32 i32 u32 u8",
    "y[i] = x[i] + x[i]": "f32 i32 u32",
    "y[i] = y[i] + x[i]": "f32 i32 u32",
    "y[i] = y[i] ^ x[i]": "i32 u32",
    "y[i] = x[i] & MASK": "i32 u32",
    "y[i] = max(x[i], ZERO)": "f32 i32",
    "y[i] = max(y[i], x[i])": "f32 i32",
    "y[i] = min(y[i], x[i])": "f32 i32",
    "y[i] = min(max(x[i], LOW), HIGH)": "f32 i32",
    "y[i] = x[min(i, n - 1)]": "f32 i32 u32 u8",
    "y[i] = x[i] > ZERO ? x[i] : y[i]": "f32 i32",
    "y[i] = x[i] > ZERO ? x[i] : x[0]": "f32 i32",
    "if (x[i] > ZERO) { y[i] = x[i]; }": "f32 i32",
}
#: What a source begins with, and each of its kernels.
TEXTS = {
    "OpenCL C": (
        "",
        "kernel __attribute__((reqd_work_group_size(64, 1, 1))) void {name}(global {type} *y, global const {type} *x, int n) {{ int i = get_global_id(0); if (i {test} n) {{ {body}; }} }}",
    ),
    "Slang": (
        "",
        '[shader("compute")] [numthreads(64, 1, 1)] void {name}(RWStructuredBuffer<{type}> y, StructuredBuffer<{type}> x, uniform int n, uint3 '
        "thread : SV_DispatchThreadID) {{ int i = int(thread.x); if (i {test} n) {{ {body}; }} }}",
    ),
    "WGSL": (
        "@group(0) @binding(0) var<storage, read_write> y: array<{dtype}>; @group(0) @binding(1) var<storage, read> x: array<{dtype}>;"
        "@group(0) @binding(2) var<uniform> n: i32;",
        "@compute @workgroup_size(64) fn {name}(@builtin(global_invocation_id) id: vec3u) "
        "{{ let i = i32(id.x); if (i {test} n) {{ {body}; }} }}",
    ),
}
TYPES = {"f32": "float", "i32": "int", "u32": "uint", "u8": "uchar"}
NUMBERS = {"MASK": "0x7DFDFDFD", "ZERO": "0", "LOW": "-40000000", "HIGH": "100"}


def texts_of(language: str, name: str, body: str, dtype: str, test: str) -> list[str]:
    """Return what the source of a kernel begins with, and the kernel."""
    zero = ".0f" * (dtype == "f32")
    text = re.sub("|".join(NUMBERS), lambda match: NUMBERS[match[0]] + zero, body)
    if language == "WGSL":
        text = re.sub(r"= (.*) \? (.*) : (.*)", r"= select(\3, \2, \1)", text)
    if test == "<":
        text = text.replace("x[n - i]", "x[n - 1 - i]")
    fields = {"name": name, "type": TYPES[dtype], "dtype": dtype, "test": test, "body": text}
    return [each.format(**fields) for each in TEXTS[language]]


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.parametrize(
    ("target", "language"),
    [("opencl", "OpenCL C"), ("vulkan", "Slang"), ("webgpu", "WGSL")],
)
def test_one_element_too_many_is_found_whatever_is_written(target: str, language: str) -> None:
    """The element behind the end gets bytes of another zone. With `<` for `<=` each kernel is
    innocent.
    """
    device = first_device(target)
    kernels = {}
    sources: dict[str, str] = {}
    for body, names in COPIES.items():
        types = names.split()
        if language != "OpenCL C":
            types = types[:1]
        for dtype, test in product(types, ("<", "<=")):
            name = f"k{len(kernels)}"
            start, text = texts_of(language, name, body, dtype, test)
            sources[start] = sources.get(start, start) + text + "\n"
            kernels[name] = start, body, dtype, test
    modules = {  # a build of all takes a tenth of the time of as many builds
        start: devmod.compile(source, target, language=language)
        for start, source in sources.items()
    }
    for name, (start, body, dtype, test) in kernels.items():
        array = np.arange(1, 101).astype(f"{dtype[0]}{int(dtype[1:]) // 8}")
        case = {"y": array, "x": array, "n": 100, "threads": 128}
        found = ""
        try:  # any result will do
            assert_kernel(modules[start][name].on(device), lambda y, x, n: y, [case], atol=1e30)
        except devmod.GuardError as error:
            found = str(error).partition(" has ")[2].partition(" outside")[0]
        assert found == ("written" if test == "<=" else ""), (body, dtype)


READS = """kernel void past(global float *y, global const float *x, int n) { int i = get_global_id(0); if (i < n) y[i] = x[i + 1]; }
kernel void both(global float *y, global float *z, int n) { int i = get_global_id(0); if (i < n) { y[i] = 1; z[i] = y[n + i]; } }
"""


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.devices("opencl")
def test_a_read_outside_names_the_result(device: devmod.Device) -> None:
    module = devmod.compile(READS, "opencl")
    text = (
        r"the opencl function '{}' has read outside of its arrays: {} is [-.\de+]+, and [-.\de+]+ with other bytes there\. "
        "Compare the indices in the kernel with the sizes of the arrays"
    )
    ones = np.ones(8, "float32")
    refused = raised(
        devmod.GuardError,
        lambda: assert_kernel(
            module["past"].on(device),
            lambda y, x, n: x,
            [{"y": 0 * ones, "x": ones, "n": 8, "threads": 64}],
        ),
    )
    assert re.fullmatch(text.format("past", r"y\[7\]"), str(refused))
    error = refused
    assert (error.kind, error.function, error.argument, error.index, abs(error.value) > 1e22) == (
        "opencl",
        "past",
        "y",
        7,
        True,
    )
    # What the reference does not have is compared too.
    case = {"y": 0 * ones, "z": 0 * ones, "n": 8, "threads": 64}
    with pytest.raises(devmod.GuardError, match=text.format("both", r"z\[\d\]")):
        assert_kernel(module["both"].on(device), lambda y, z, n: {"y": ones}, [case])
    # An array of a device is not copied, so the kernel is called once.
    x = device.from_numpy(ones)
    with pytest.raises(AssertionError, match=r"the worst is y\[7\]"):
        assert_kernel(
            module["past"].on(device),
            lambda y, x, n: ones,
            [{"y": 0 * ones, "x": x, "n": 8, "threads": 64}],
        )


#: What a call may depend on beside its arguments: the number of calls before it, and the order of
#: threads.
CALLS = {
    "counter": "y[0] = calls++;",
    "toggle": "y[0] = calls++ & 1;",
    "fourth": "y[0] = ++calls % 4 == 0;",
    "first": "y[0] = calls++ == 0;",
}
ORDERS = """kernel void compact(global int *y, global int *count, int n) { int i = get_global_id(0); if (i < n) y[atomic_inc(count)] = i; }
kernel void last(global int *y, global int *count, int n) { int i = get_global_id(0); if (i < n) *(global volatile int *)y = i; }
kernel void sum(global int *y, global int *count, int n) {
    int i = get_global_id(0);
    if (i >= n) return;
    for (int old = *y, got;; old = got) { got = atomic_cmpxchg(y, old, as_int(as_float(old) + 1.0f / (i + 1))); if (got == old) break; }
}
kernel void update(global int *y, global int *count, int n) { int i = get_global_id(0); if (i < n) y[i] += i; atomic_inc(count); }
"""


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.devices("opencl", "hexagon")
def test_a_result_that_differs_by_itself_is_no_fault(device: devmod.Device) -> None:
    if device.kind == "hexagon":
        source = "".join(
            f"void {name}(int *y) {{ static int calls; {body} }}" for name, body in CALLS.items()
        )
        module, cases = (
            devmod.compile(source, "hexagon -arch=v66"),
            [{"y": np.zeros(1, "int32")}] * 2,
        )
    else:
        module = devmod.compile(ORDERS, "opencl", block=16)
        cases = [
            {
                "y": np.zeros(5000, "int32"),
                "count": np.zeros(1, "int32"),
                "n": 5000,
                "threads": 5008,
            }
        ] * 5
    for name in module.functions:
        assert_kernel(module[name].on(device), lambda y, **_: {"y": y}, cases, atol=2**32)
