"""`--sanitize` for sources that are compiled a second time for the simulated GPU: in each language,
faults are found at their lines, and innocents that look like them are not accused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any

import forked
import pytest
from each_case import raised
from faults import FAULTS, source
from sanitized_kernels import FORMS, cases, expected_parts

import devmod
from devmod.errors import DevmodError
from devmod.testing import assert_kernel
from devmod_targets.authoring import _library
from devmod_workbench._tools import checks
from devmod_workbench._tools.checks import NotCheckedError, check_simulator, compile_for_checks

pytestmark = pytest.mark.usefixtures("simulator")
#: The languages that reach the simulated GPU.
LANGUAGES = tuple(FORMS)
PROGRAM = Path(__file__).with_name("sanitized_kernels.py")
EXAMPLES = Path(__file__).with_name("sanitized_examples.py")


@cache
def found(language: str) -> dict[str, Any]:
    """Return what is found in each kernel."""
    return printed(PROGRAM, language)


def printed(program: Path, *arguments: str) -> dict[str, Any]:
    """Return what a program prints. It loads the simulated driver, so it is another process."""
    words = [sys.executable, str(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_the_faults_and_the_innocents_are_those_of_the_page() -> None:
    faults = [case for case in cases() if case.is_fault]
    assert (len(faults), len(cases())) == (27, 53)


@pytest.mark.row("R49")
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_fault_is_found_at_its_line(language: str) -> None:
    missed = set()
    for case in cases():
        if not case.is_fault:
            continue
        each = found(language)[f"{case.check} {case.title}"]
        texts = [report["text"] for report in each["reports"]]
        if case.title in FORMS[language].lacks:
            assert texts == []
            continue
        parts = expected_parts(case, FORMS[language])
        if not any(all(part in text for part in parts) for text in texts):
            missed.add(case.title)
            continue
        assert each["at a line"], (case.title, texts)
        assert {report["check"] for report in each["reports"]} == {case.check}, texts
    assert missed == set()


@pytest.mark.row("R49")
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_innocent_is_accused(language: str) -> None:
    accused = {}
    for case in cases():
        reports = found(language)[f"{case.check} {case.title}"]["reports"]
        if reports and not case.is_fault:
            accused[case.title] = [report["text"] for report in reports]
    assert accused == {}


CASES = {"softmax", "tiled matmul", "Gaussian blur", "Mandelbrot", "sum"}


@pytest.mark.row("R49")
@pytest.mark.parametrize(
    ("folder", "target", "more", "refused"),
    [
        ("opencl", "opencl", {"resize"}, {}),
        (
            "vulkan",
            "vulkan",
            set(),
            {
                "gaussian_blur.glsl": "#version: compute shaders require",  # the others include it
                "resize.comp": "OpLoad at resize.comp:14 (imageStore(result, here, ",
            },
        ),
        ("one_source", "webgpu", {"fitted Gaussian"}, {}),
        ("webgpu", "webgpu", set(), {"resize.wgsl": "it uses 'source', an image"}),
    ],
)
def test_no_example_is_accused(
    folder: str, target: str, more: set[str], refused: dict[str, str]
) -> None:
    """The results are those of the demo."""
    result = printed(EXAMPLES, folder, target)
    assert set(result["found"]) == CASES | more
    for case in result["found"].values():
        assert case["reports"] == []
        error, tolerance = case["error"]
        assert error <= tolerance
    assert result["refused"].keys() == refused.keys()
    for file, why in refused.items():
        assert why in result["refused"][file]


def sanitized(*words: str, code: int, folder: Path) -> tuple[str, str]:
    """Return what `devmod run … --sanitize` prints, and its errors."""
    done = forked.python("-m", "devmod", "run", *words, "--sanitize", cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


HLSL = """#include "twice.h"
groupshared float tile[128];
cbuffer Values : register(b2) { int n; };
RWStructuredBuffer<float> y : register(u0);
StructuredBuffer<float> x : register(t1);
[numthreads(128, 1, 1)]
void reverse(uint i : SV_GroupIndex)
{
    tile[i] = twice(x[i]);
    if (i <= n)
        y[i] = tile[127 - i];
}
"""
CALL = ("reverse", "x=random[128]", "y=zeros[100]", "n=100", "--threads", "128")


@pytest.mark.row("R49", "R59")
def test_a_source_for_another_kind(tmp_path: Path) -> None:
    """The command is that of a launch there. The text of an included file is in the reports."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.hlsl").write_text(HLSL)
    (tmp_path / "src" / "twice.h").write_text("float twice(float v) { return v * 2; }\n")
    for words in (("-t", "vulkan"), ()):
        output, errors = sanitized("src/k.hlsl", *CALL, *words, code=1, folder=tmp_path)
        assert output.startswith("reverse on cuda:0 (simulated GPU")
        assert errors.splitlines() == [
            "race (read and write): k.hlsl:11  y[i] = tile[127 - i];",
            "  block (0, 0, 0), thread (0, 0, 0): tile[127]; block (0, 0, 0), thread (127, 0, 0) writes it at k.hlsl:9  "
            "tile[i] = twice(x[i]);, and nothing orders the two",
            "  100 more threads at this line",
            "out of bounds (write): k.hlsl:11  y[i] = tile[127 - i];",
            "  block (0, 0, 0), thread (100, 0, 0): 4 bytes at y[100]; y is float32[100] of argument 1 ('y')",
            "devmod-simulators: 2 reports",
        ]
    (tmp_path / "k.hlsl").write_text(
        HLSL.replace('#include "twice.h"', "float twice(float v) { return 2 * v; }")
        .replace("<= n", "< n")
        .replace("    if", "    GroupMemoryBarrierWithGroupSync();\n    if")
    )
    _, errors = sanitized("k.hlsl", *CALL, "-t", "vulkan", code=0, folder=tmp_path)
    assert errors == "devmod-simulators: 0 reports\n"


OPENCL = """#include "twice.h"
kernel void reverse(global const float *x, global float *y, local float *tile, int n)
{
    int i = get_local_id(0);
    local float first;
    if (i == 1)
        first = x[0];
    tile[i] = twice(x[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i <= n)
        y[i] = tile[128 - i] + first;
}
"""
GLSL = """#version 450
#extension GL_GOOGLE_include_directive : enable
#include "twice.h"
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Values { int n; };
shared float tile[128];
void main()
{
    int i = int(gl_LocalInvocationIndex);
    tile[i] = twice(x[i]);
    barrier();
    if (i <= n)
        y[i] = tile[127 - i];
}
"""


@pytest.mark.row("R49")
def test_files_that_a_source_includes(tmp_path: Path) -> None:
    """A fault there has its file and its line, and lines behind an include have their own."""
    (tmp_path / "twice.h").write_text("float twice(float v)\n{\n    return v * 2;\n}\n")
    (tmp_path / "k.cl").write_text(OPENCL)
    (tmp_path / "k.comp").write_text(GLSL)
    words = ("x=random[128]", "y=zeros[100]", "--threads", "128")
    _, errors = sanitized(
        *("k.cl", "reverse", "-t", "opencl", *words, "n=99", "tile=local:512", "--block", "128"),
        code=1,
        folder=tmp_path,
    )
    assert errors.splitlines() == [
        "out of bounds (read): k.cl:11  y[i] = tile[128 - i] + first;",
        "  block (0, 0, 0), thread (0, 0, 0): 4 bytes at tile[128]; tile is uint32[128] in shared memory",
        "devmod-simulators: 1 report",
    ]
    _, errors = sanitized("k.comp", "k", "-t", "vulkan", *words, "n=100", code=1, folder=tmp_path)
    assert errors.splitlines() == [
        "out of bounds (write): k.comp:15  y[i] = tile[127 - i];",
        "  block (0, 0, 0), thread (100, 0, 0): 4 bytes at y[100]; y is float32[100] of argument 2 ('y')",
        "devmod-simulators: 1 report",
    ]
    (tmp_path / "twice.h").write_text(
        "layout(std430, binding = 2) buffer Z { float z[]; };\nfloat twice(float v)\n{\n    z[int(v)] = 1;\n    return v;\n}\n"
    )
    more = ("x=fill:7[128]", "z=zeros[4]", "y=zeros[128]", "n=4", "--threads", "128")
    _, errors = sanitized("k.comp", "k", "-t", "vulkan", *more, code=1, folder=tmp_path)
    assert errors.startswith("out of bounds (write): twice.h:4  z[int(v)] = 1;\n")


@pytest.mark.row("R59")
def test_a_source_that_cannot_be_checked(tmp_path: Path) -> None:
    """Nothing was launched, so no command says "0 reports"."""
    nothing = "devmod-simulators: nothing was checked: no launch ran to its end\n"
    (tmp_path / "k.metal").write_text("kernel void f(device float *y [[buffer(0)]]) {}\n")
    (tmp_path / "depth.hlsl").write_text(
        "Texture3D<float> volume : register(t4);\n"
        + HLSL.replace(
            '#include "twice.h"', "float twice(float v) { return v * volume[uint3(0, 0, 0)]; }"
        )
    )
    for file, words, why in (
        (
            "k.metal",
            ("f", "y=zeros[1]"),
            "MSL is not translated for the simulated GPU: it checks CUDA C++, HIP, ",
        ),
        ("depth.hlsl", CALL, "takes 'volume', a texture of type 3d"),
    ):
        _, errors = sanitized(file, *words, "--threads", "1", code=3, folder=tmp_path)
        start = f"devmod: error: {file} was not checked, since it cannot be compiled for the simulated GPU: "
        assert errors.startswith(start)
        assert why in errors
        assert errors.endswith(nothing)


EARLY = """    if (i >= n)
        return;
    s[i] = y[i];
    BARRIER;
    y[i] = s[n - 1 - i];
}
"""
#: The beginning of a kernel by its file and its target, and the barrier.
EARLY_HEADS = {
    ("k.cl", "opencl"): (
        "kernel void k(global float *y, int n)\n{\n    local float s[64];\n    int i = get_local_id(0);\n",
        "barrier(CLK_LOCAL_MEM_FENCE)",
    ),
    ("k.hlsl", "vulkan"): (
        "groupshared float s[64];\ncbuffer Values : register(b1) { int n; };\nRWStructuredBuffer<float> y : register(u0);\n"
        "[numthreads(64, 1, 1)] void k(uint3 id : SV_GroupThreadID) {\n    int i = id.x;\n",
        "GroupMemoryBarrierWithGroupSync()",
    ),
    ("k.slang", "webgpu"): (
        'groupshared float s[64];\n[shader("compute")] [numthreads(64, 1, 1)]\n'
        "void k(RWStructuredBuffer<float> y, uniform int n, int3 id : SV_GroupThreadID) {\n    int i = id.x;\n",
        "GroupMemoryBarrierWithGroupSync()",
    ),
    ("k.comp", "vulkan"): (
        "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer Y { float y[]; };\n"
        "layout(push_constant) uniform Values { int n; };\nshared float s[64];\nvoid main() {\n    int i = int(gl_LocalInvocationID.x);\n",
        "barrier()",
    ),
}


@pytest.mark.row("R49")
@pytest.mark.parametrize(("file", "target"), EARLY_HEADS)
def test_a_return_before_a_barrier(file: str, target: str, tmp_path: Path) -> None:
    """CUDA's barrier is for the threads that have not exited, and those of other languages for
    all.
    """
    head, barrier = EARLY_HEADS[file, target]
    (tmp_path / file).write_text(head + EARLY.replace("BARRIER", barrier))
    line = head.count("\n") + 4
    call = (file, "k", "-t", target, "y=random[64]", "--threads", "64", "--block", "64")
    if target != "opencl":
        call = call[:-2]
    _, errors = sanitized(*call, "n=64", code=0, folder=tmp_path)
    assert errors == "devmod-simulators: 0 reports\n"
    _, errors = sanitized(*call, "n=40", code=1, folder=tmp_path)
    assert errors.splitlines() == [
        f"divergent barrier: {file}:{line + 2}  }}",
        f"  block (0, 0, 0), thread (40, 0, 0): waits here while 40 threads wait at {file}:{line}  {barrier};",
        "  23 more threads at this line",
        "devmod-simulators: 1 report",
    ]


HALVES = """groupshared half s[64];
[shader("compute")] [numthreads(64, 1, 1)]
void k(RWStructuredBuffer<half> y, uniform int n, int3 id : SV_GroupThreadID)
{
    s[id.x] = y[id.x] + y[0] * half(n);
    GroupMemoryBarrierWithGroupSync();
    if (id.x >= n)
        return;
    y[id.x] = s[63 - id.x] + s[0];
}
"""


@pytest.mark.row("R49")
def test_a_return_behind_a_barrier(tmp_path: Path) -> None:
    """CUDA's functions of half are statements in asm, which have a brace on a line of its own. What
    follows them is checked.
    """
    (tmp_path / "k.slang").write_text(HALVES)
    call = ("k.slang", "k", "-t", "vulkan", "--threads", "64")
    for length, n, code in ((64, 32, 0), (65, 0, 0), (64, 64, 0), (31, 64, 1)):
        array = f"y=fill:1:float16[{length}]"
        _, errors = sanitized(*call, array, f"n={n}", code=code, folder=tmp_path)
        assert errors.startswith("out of bounds (read): k.slang:5") == bool(code)


LOCALS = """kernel void pair(global float *y, local float *first, local float2 *_2, int n)
{
    local float own[64];
    int i = get_local_id(0);
    own[i] = i;
    first[i] = i;
    _2[i] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = own[i] + first[i + n];
    y[i] += _2[i - n].x;
}
"""


@pytest.mark.row("R49")
def test_each_local_argument_of_opencl_c_has_its_own_bounds(tmp_path: Path) -> None:
    """Their memory is one piece. A report has the argument's name and its index."""
    (tmp_path / "k.cl").write_text(LOCALS)
    call = ("pair", "-t", "opencl", "y=zeros[64]", "first=local:256", "_2=local:512")
    threads = ("--threads", "64", "--block", "64")
    _, errors = sanitized("k.cl", *call, "n=0", *threads, code=0, folder=tmp_path)
    assert errors == "devmod-simulators: 0 reports\n"
    _, errors = sanitized("k.cl", *call, "n=1", *threads, code=1, folder=tmp_path)
    assert errors.splitlines() == [
        "out of bounds (read): k.cl:9  y[i] = own[i] + first[i + n];",
        "  block (0, 0, 0), thread (63, 0, 0): 4 bytes at first[64]; first is uint32[64] in shared memory",
        "out of bounds (read): k.cl:10  y[i] += _2[i - n].x;",
        "  block (0, 0, 0), thread (0, 0, 0): 4 bytes at _2[-2]; _2 is uint32[128] in shared memory",
        "devmod-simulators: 2 reports",
    ]


TAIL = """struct List { count: u32, items: array<u32> }
@group(0) @binding(0) var<storage, read_write> list: List;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x <= list.count) {
        list.items[id.x] = 1;
    }
}
"""
UNIFORMS = """@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> weights: array<vec4f, 4>;
@group(0) @binding(2) var<uniform> last: vec4f;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    y[id.x] = weights[id.x / 16].x + last.x;
}
"""


@pytest.mark.row("R49")
def test_arrays_in_structs_and_uniforms_of_wgsl(tmp_path: Path) -> None:
    """An array at the end of a struct has the rest of its buffer, and a uniform its own bytes."""
    (tmp_path / "tail.wgsl").write_text(TAIL)
    (tmp_path / "uniforms.wgsl").write_text(UNIFORMS)
    for threads, code in ((64, 0), (128, 1)):
        call = ("tail", "list=fill:64:uint32[65]", "--threads", f"{threads}")
        _, errors = sanitized("tail.wgsl", *call, code=code, folder=tmp_path)
        expected = ["devmod-simulators: 0 reports"]
        if code:
            expected = [
                "out of bounds (write): tail.wgsl:6  list.items[id.x] = 1;",
                "  block (1, 0, 0), thread (0, 0, 0): 4 bytes at list[65]; list is uint32[65] of argument 1 ('list')",
                "devmod-simulators: 1 report",
            ]
        assert errors.splitlines() == expected
        weights = "((1,2,3,4),(1,2,3,4),(1,2,3,4),(5,6,7,8))"
        call = ("uniforms", "y=zeros[128]", f"weights={weights}", "last=(1,2,3,4)")
        words = ("--threads", f"{threads}")
        _, errors = sanitized("uniforms.wgsl", *call, *words, code=code, folder=tmp_path)
        if code:
            expected = [
                "out of bounds (read): uniforms.wgsl:6  y[id.x] = weights[id.x / 16].x + last.x;",
                "  block (1, 0, 0), thread (0, 0, 0): 4 bytes at weights[16]; weights is float32[16] in parameter memory",
                "  63 more threads at this line",
                "devmod-simulators: 1 report",
            ]
        assert errors.splitlines() == expected


ASSERTED = """
from pathlib import Path
import numpy as np, devmod
from devmod.testing import assert_kernel
from devmod_simulators import SanitizeError
case = {"y": np.zeros(64, "float32"), "x": np.ones(64, "float32"), "last": np.zeros(1, "int32"), "threads": 64}
for file in ("wrong.cl", "right.cl"):
    module = devmod.compile(Path(file), "opencl", block=64)
    try:
        assert_kernel(module["reverse"], lambda y, x, last: {"y": x[::-1]}, [case], sanitize=file)
        print(file, "has no fault")
    except SanitizeError as error:
        print(error.source, error.__notes__)
try:
    assert_kernel(module["reverse"], lambda y, x, last: {"y": x}, [case], sanitize="k.metal")
except devmod.CompileError as error:
    print(error)
"""
REVERSE = """kernel void reverse(global float *y, global const float *x, global int *last)
{
    int i = get_local_id(0);
    y[i] = x[63 - i];
    if (i == 63)
        last[0] = i;
}
"""


@pytest.mark.row("R49")
@pytest.mark.devices("opencl")
def test_assert_kernel_with_the_checks(device: devmod.Device, tmp_path: Path) -> None:
    """The reference has no value for the array that has the fault."""
    (tmp_path / "wrong.cl").write_text(REVERSE.replace("if (i == 63)", "if (i > 40)"))
    (tmp_path / "right.cl").write_text(REVERSE)
    (tmp_path / "k.metal").write_text("kernel void reverse() {}\n")
    done = forked.python("-W", "ignore", "-c", ASSERTED, cwd=tmp_path)
    assert done.stderr == ""
    wrong, right, refused = done.stdout.splitlines()
    assert wrong.startswith("wrong.cl:6  last[0] = i; ['in case 0: y=float32[64]")
    assert right == "right.cl has no fault"
    assert refused.startswith("k.metal was not checked, since it cannot be compiled for the sim")


@pytest.mark.row("R49")
@pytest.mark.devices("opencl")
def test_the_checks_need_the_path_of_a_source(device: devmod.Device, tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(REVERSE)
    function = devmod.compile(tmp_path / "k.cl", "opencl", block=64)["reverse"]
    values: list[tuple[Any, str]] = [(True, "True"), (1, "1"), (b"k.cl", "bytes")]
    for value, shown in values:
        for what, check in (
            ("guard", partial(_enter, devmod.guard(sanitize=value))),
            ("assert_kernel", partial(assert_kernel, function, dict, [], sanitize=value)),
        ):
            text = str(raised(devmod.ArgumentError, check))
            start = f'{what}(sanitize=): expected the path of the source, such as "k.cl", got '
            assert text.startswith(start)
            assert shown in text


def _enter(context: AbstractContextManager[None]) -> None:
    with context:
        pass


GUARDED = """
from pathlib import Path
import numpy as np, devmod
from devmod_simulators import SanitizeError
device = devmod.device("opencl")
before = [np.zeros(64, "float32"), np.arange(64, dtype="float32"), np.zeros(1, "int32")]

def on_host(f):
    arrays = [each.copy() for each in before]
    f(*arrays, threads=64)
    return arrays[0]

def on_device(f):
    arrays = [device.from_numpy(each) for each in before]
    f(*arrays, threads=64)
    return arrays[0].numpy()

def prepared(f):
    arrays = [device.from_numpy(each) for each in before]
    f.bind(*arrays, threads=64)()
    return arrays[0].numpy()

def of_pyopencl(f):
    import pyopencl as cl, pyopencl.array
    queue = cl.CommandQueue(device.context)
    arrays = [cl.array.to_device(queue, each) for each in before]
    f(*arrays, threads=64)
    return arrays[0].get()

def in_program(f):
    program = devmod.program("p", module, inputs=["x: float32[n]"], outputs=["y: float32[n]", "last: int32[1]"],
                             steps=["reverse(y=y, x=x, last=last, threads=64)"])
    return program["p"].on(device)(before[1])[0]

for file in sorted(map(str, Path().glob("*.cl"))):
    module = devmod.compile(Path(file), "opencl", block=64)
    for call in (on_host, on_device, prepared, of_pyopencl, in_program):
        try:
            with devmod.guard(sanitize=file):
                result = call(module["reverse"].on(device))
            print(file, call.__name__, (result == before[1][::-1]).all())
        except SanitizeError as error:
            print(file, call.__name__, error.source)
        except devmod.GuardError as error:
            print(file, call.__name__, error.argument)
try:
    with devmod.guard(sanitize="other/k.cl"):
        module["reverse"](*before, threads=64)
except devmod.ArgumentError as error:
    print(error)
"""


RECORD = """
from pathlib import Path
import numpy as np, devmod
from devmod_simulators import SanitizeError
f = devmod.compile(Path("fill.comp"), "vulkan")["fill"]
for n in (64, 65):
    for given in ({"a": 2.0, "n": n}, {"p": {"a": 2.0, "n": n}}):
        y = np.zeros(64, "float32")
        try:
            with devmod.guard(sanitize="fill.comp"):
                f(y=y, threads=n, **given)
            print((y == 2).all())
        except SanitizeError as error:
            print(error.source)
"""
FILL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer Y { float y[]; };
layout(push_constant) uniform P { float a; int n; } p;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < p.n)
        y[i] = p.a;
}
"""


@pytest.mark.row("R49")
@pytest.mark.devices("vulkan")
def test_a_guard_with_the_checks_takes_a_record(device: devmod.Device, tmp_path: Path) -> None:
    (tmp_path / "fill.comp").write_text(FILL)
    done = forked.python("-W", "ignore", "-c", RECORD, cwd=tmp_path)
    assert done.stdout.splitlines() == ["True", "True", *["fill.comp:8  y[i] = p.a;"] * 2]


@pytest.mark.row("R49")
@pytest.mark.devices("opencl")
def test_a_guard_with_the_checks(device: devmod.Device, tmp_path: Path) -> None:
    """The race and the read outside give the right result here."""
    files = {
        "innocent.cl": REVERSE,
        "race.cl": REVERSE.replace("if (i == 63)", "if (i > 40)"),
        "read.cl": REVERSE.replace("last[0] = i;", "last[0] = x[i + 1] > 1000 ? 0 : i;"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "k.cl").write_text(REVERSE.replace("reverse", "other"))
    done = forked.python("-W", "ignore", "-c", GUARDED, cwd=tmp_path)
    assert done.stderr == ""
    *lines, refused = done.stdout.splitlines()
    expected = {
        "innocent.cl": "True",
        "race.cl": "race.cl:6  last[0] = i;",
        "read.cl": "read.cl:6  last[0] = x[i + 1] > 1000 ? 0 : i;",
    }
    ways = ("on_host", "on_device", "prepared", "of_pyopencl", "in_program")
    assert lines == [f"{file} {way} {text}" for file, text in expected.items() for way in ways]
    assert refused == (
        "guard(sanitize=): other/k.cl has no function 'reverse', so its launch was not checked; it has 'other'"
    )


@pytest.mark.row("R49")
@pytest.mark.parametrize(
    ("language", "suffix", "target"), [("OpenCL C", "cl", "opencl"), ("Slang", "slang", "vulkan")]
)
def test_the_faults_that_a_comparison_may_miss(
    language: str, suffix: str, target: str, tmp_path: Path
) -> None:
    """docs/reliability.md has "sanitize" for those."""
    faults = {name: fault for name, fault in FAULTS.items() if fault.is_race}
    (tmp_path / f"k.{suffix}").write_text(source(language, faults))
    for name in faults:
        for twin, code in (("wrong", 1), ("right", 0)):
            words = (f"k.{suffix}", f"{twin}_{name}", "-t", target)
            values = ("y=zeros[100]", "x=random[100]", "n=100", "--threads", "128")
            _, errors = sanitized(*words, *values, code=code, folder=tmp_path)
            assert errors.startswith("race (") == (code == 1)


@pytest.mark.row("R49", "R59")
def test_verify_with_the_checks(tmp_path: Path) -> None:
    """A file for CUDA alone is launched on the simulated GPU, and its faults are reported."""
    right = (
        'extern "C" __global__ void f(const float *x, float *y, float *last, int n)\n{\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n)\n        y[i] = 2 * x[i];\n"
        "    if (i == 0)\n        last[0] = i;\n}\n"
    )
    for text, code, found in (
        (right, 0, ""),
        (right.replace("i == 0", "i < 9"), 1, "race (write and write): f.cu:7  last[0] = i;\n"),
    ):
        (tmp_path / "f.cu").write_text(text)
        module = devmod.compile(
            tmp_path / "f.cu", "cuda -format=cuda -arch=sm_80", block=32, options="--fmad=false"
        )
        devmod.save(module, tmp_path / "f.devmod")
        done = forked.python("-m", "devmod", "verify", "f.devmod", "--sanitize", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "  ran             cuda/cuda on cuda:0  " in done.stdout
        assert done.stdout.count("not compared for want of a device; sanitized\n") == 1
        assert found in done.stderr
        assert ("devmod-simulators: 0 reports" in done.stderr) == (code == 0)


@pytest.mark.row("R59")
def test_what_compiles_for_the_checks_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error has the command that installs it."""
    (tmp_path / "k.hlsl").write_text(HLSL.replace('#include "twice.h"', "#define twice(v) v"))
    monkeypatch.setattr(_library, "find_library", lambda *_: "")
    refused = raised(NotCheckedError, compile_for_checks, str(tmp_path / "k.hlsl"), "vulkan")
    assert str(refused).startswith(
        f"{tmp_path}/k.hlsl was not checked, since it cannot be compiled"
    )
    assert 'pip install "devmod-core[build-slang]"' in str(refused)
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    for check, why in (
        (
            partial(compile_for_checks, "k.hlsl", "vulkan"),
            "--sanitize compiles the source: devmod-targets",
        ),
        (
            partial(check_simulator, "--sanitize"),
            "--sanitize needs the simulated GPU: devmod-simulators",
        ),
    ):
        missing = str(raised(DevmodError, check))
        assert missing.startswith(why)
        assert f"pip install {why.rpartition(' ')[2]}" in missing
