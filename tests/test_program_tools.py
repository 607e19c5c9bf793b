"""Programs in the tools: verify, run, bench, profile, guard, inspect and the mark of pytest take
them where they take functions.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from each_case import some

import devmod
from devmod.testing import assert_kernel

CL = """
kernel void square_sums(global const float *x, global float *sums, uint rows, uint columns) {
    uint row = get_global_id(0); float sum = 0; if (row >= rows) return;
    for (uint c = 0; c < columns; ++c) sum += x[row * columns + c] * x[row * columns + c];
    sums[row] += sum;
}
kernel void scale(global const float *x, global const float *sums, global const float *weight, global float *y, uint count, uint columns,
                  float epsilon) {
    uint i = get_global_id(0);
    if (i < count) y[i] = x[i] * rsqrt(sums[i / columns] / columns + epsilon) * weight[i % columns];
}
"""
HEAD = "#version 450\nlayout(local_size_x = 64) in; layout(binding = 0) readonly buffer X { float x[]; };\n"
SUMS = f"""{HEAD}layout(binding = 1) buffer S {{ float sums[]; }};
layout(push_constant) uniform P {{ uint rows; uint columns; }};
void main() {{
    uint row = gl_GlobalInvocationID.x; float sum = 0; if (row >= rows) return;
    for (uint c = 0; c < columns; ++c) sum += x[row * columns + c] * x[row * columns + c];
    sums[row] += sum;
}}"""
SCALE = f"""{HEAD}layout(binding = 1) readonly buffer S {{ float sums[]; }}; layout(binding = 2) readonly buffer W {{ float weight[]; }};
layout(binding = 3) buffer Y {{ float y[]; }}; layout(push_constant) uniform P {{ uint count; uint columns; float epsilon; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < count) y[i] = x[i] * inversesqrt(sums[i / columns] / float(columns) + epsilon) * weight[i % columns];
}}"""
STEPS = [
    "square_sums(x=x, sums=sums, rows=rows, columns=columns, threads=rows)",
    "scale(x=x, sums=sums, weight=weight, y=y, count=rows*columns, columns=columns, epsilon=epsilon, threads=rows*columns)",
]
KINDS = ("opencl", "vulkan")
NUMBER = r"(\d+(\.\d+)?(e-\d+)?)"


@pytest.fixture(autouse=True)
def one_device_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one device of each kind; some machines have several."""
    monkeypatch.setenv("DEVMOD_DEVICE", "opencl:0,vulkan:0")


@cache
def compiled(source: str, name: str) -> devmod.Module:
    """Compile a shader once: glslang is a process."""
    return devmod.compile(source, "vulkan", name=name)


def kernels(cl: str = CL, sums: str = SUMS, scale: str = SCALE) -> Any:
    return devmod.bundle(
        devmod.compile(cl, "opencl", block=64),
        compiled(sums, "square_sums"),
        compiled(scale, "scale"),
    )


def normalize(module: Any = None, **more: Any) -> Any:
    declared: dict[str, Any] = {
        "inputs": [
            "x: float32[rows, columns]",
            "weight: float32[columns]",
            "epsilon: float32 = 1e-5",
        ],
        "outputs": ["y: float32[rows, columns]"],
        "temporaries": ["sums: float32[rows] = 0"],
        "requires": ["columns % 4 == 0"],
        "steps": STEPS,
    }
    return devmod.program("normalize", module or kernels(), **declared | more)


def simple(first: str = "t[i] = x[i];", second: str = "y[i] = t[i];", **more: Any) -> Any:
    """Return a program of two kernels of OpenCL, whose bodies may be wrong."""
    source = f"""
kernel void first(global const float *x, global float *t, int n) {{ int i = get_global_id(0); {first} }}
kernel void second(global const float *t, global float *y, int n) {{ int i = get_global_id(0); {second} }}
"""
    declared: dict[str, Any] = {
        "inputs": ["x: float32[n]"],
        "outputs": ["y: float32[n]"],
        "temporaries": ["t: float32[n]"],
        "steps": ["first(x=x, t=t, n=n, threads=n)", "second(t=t, y=y, n=n, threads=n)"],
    }
    return devmod.program("twice", devmod.compile(source, "opencl", block=1), **declared | more)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a program for OpenCL and Vulkan. The current folder has it."""
    for kind in KINDS:
        first_device(kind)
    monkeypatch.chdir(tmp_path)
    devmod.save(normalize(), tmp_path / "n.devmod")
    return "n.devmod"


# -- verify


def verified(module: Any, name: str = "normalize", **arguments: Any) -> list[tuple[str, str, str]]:
    for kind in KINDS:
        first_device(kind)
    return [
        (each.candidate, each.outcome, each.text)
        for each in devmod.verify(module, name, arguments).functions[name]
    ]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("wrong", "step"),
    [
        (
            {"sums": SUMS.replace("row >= rows", "row >= min(rows, 64)")},
            "step 1 (square_sums): sums",
        ),
        ({"scale": SCALE.replace("i % columns", "i / columns % columns")}, "step 2 (scale): y"),
    ],
    ids=["rows beyond a block", "another weight"],
)
def test_verify_finds_a_wrong_kernel_in_a_program(wrong: dict[str, str], step: str) -> None:
    first, second = verified(normalize(kernels(**wrong)))
    assert first == ("opencl", "reference", "")
    assert second[:2] == ("vulkan", "differs")
    text = rf"{re.escape(step)}\[\d+(, \d+)?\] is {NUMBER}, and {NUMBER} with opencl on opencl:0 for rows=\d+, columns=\d+; they differ by {NUMBER}(, where \w+\[[^]]*\] is {NUMBER})?\. Inputs: x=random\[\d+,\d+\] weight=random\[\d+\]"
    assert re.fullmatch(text, second[2])


@pytest.mark.volume_but("the same", "rounding that grows")
@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "innocent",
    [
        {},
        {
            "sums": SUMS.replace("c = 0; c < columns; ++c", "c = columns; c-- > 0;")
        },  # the sum in another order
        {"scale": SCALE.replace("* inversesqrt(", "/ sqrt(")},
        # The rounding of the first step would be a difference of whole numbers after the second.
        {
            "sums": SUMS.replace("c = 0; c < columns; ++c", "c = columns; c-- > 0;"),
            "scale": SCALE.replace("x[i] * inversesqrt(", "floor(1e6 * ").replace(
                "epsilon) * ", "epsilon); // "
            ),
            "cl": CL.replace("x[i] * rsqrt(", "floor(1e6f * ").replace(
                "epsilon) * ", "epsilon); // "
            ),
        },
    ],
    ids=["the same", "another order", "a division", "rounding that grows"],
)
def test_verify_finds_no_fault_in_rounding(innocent: dict[str, str]) -> None:
    first, second = verified(normalize(kernels(**innocent)))
    assert (first, second[:2]) == (("opencl", "reference", ""), ("vulkan", "agrees"))


def test_verify_in_other_processes_lists_a_program_before_its_kernels(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    status, out, err = call(capsys, "verify", file, "normalize", "rows=3", "columns=8")
    lines = [
        "payloads: 4 of 4 intact, 4 compared with a digest",
        "normalize:",
        "  reference       opencl on opencl:0",
    ]
    assert (status, err, out.splitlines()[:3]) == (0, "", lines)
    assert re.fullmatch(
        rf"  agrees          vulkan on vulkan:0  worst error {NUMBER}\n"
        r"  4 draws: 0 to 1, -8 to 8, -8 to 0, -1e5 to 1e5; rows 3; columns 8\n"
        "2 candidates compared on 2 devices",
        "\n".join(out.splitlines()[3:]),
    )
    assert call(capsys, "verify", file, "normalize", "columns=7")[1:] == (
        "",
        "devmod: error: the opencl program 'normalize': it requires columns % 4 == 0, and that is 3 == 0 with columns=7\n",
    )


#: Programs that return or read memory that nothing wrote, each with the place in a result; and
#: innocents.
UNWRITTEN: dict[str, tuple[dict[str, Any], str]] = {
    "an element of the output": ({"second": "if (i != 3) y[i] = t[i];"}, r"y\[3\]"),
    "the end of the output": ({"outputs": ["y: float32[n + 2]"]}, r"y\[\d+\]"),
    "a sum in the output": ({"second": "y[i] += t[i];"}, r"y\[\d+\]"),
    "an element of the temporary": ({"first": "if (i) t[i] = x[i];"}, r"y\[0\]"),
    "a square of it": (
        {"first": "if (i) t[i] = x[i];", "second": "y[i] = t[i] * t[i];"},
        r"y\[0\]",
    ),
    "the maximum with it": (
        {"first": "if (i) t[i] = x[i];", "second": "y[i] = max(t[i], 0.0f) + 1;"},
        r"y\[0\]",
    ),
    "in the place of another temporary": (
        {
            "temporaries": ["t: float32[n]", "u: float32[n]", "v: float32[n]"],
            "first": "if (i || n < 0) t[i] = x[i];",
            "steps": [
                "second(t=x, y=t, n=n, threads=n)",
                "second(t=t, y=u, n=n, threads=n)",
                "first(x=u, t=v, n=n, threads=n)",
                "second(t=v, y=y, n=n, threads=n)",
            ],
        },
        r"y\[0\]",
    ),
    "into an update": (
        {"outputs": [], "updates": ["y: float32[n]"], "first": "if (i) t[i] = x[i];"},
        r"y\[0\]",
    ),
}
WRITTEN: dict[str, dict[str, Any]] = {
    "sound": {},
    "a sum in an update": {"outputs": [], "updates": ["y: float32[n]"], "second": "y[i] += t[i];"},
    "a part of an update": {
        "outputs": [],
        "updates": ["y: float32[n]"],
        "second": "if (i != 3) y[i] = t[i];",
    },
    "a sum in what begins cleared": {
        "outputs": ["y: float32[n] = 0"],
        "temporaries": ["t: float32[n] = 0"],
        "first": "t[i] += x[i];",
        "second": "y[i] += t[i];",
    },
    "a part of what begins cleared": {
        "outputs": ["y: float32[n + 2] = 0"],
        "second": "if (i != 3) y[i] = t[i];",
    },
    "an element that nothing reads": {
        "first": "if (i) t[i] = x[i];",
        "second": "y[i] = i ? t[i] : 0;",
    },
    "atomics": {
        "temporaries": ["t: float32[n] = 0"],
        "first": "atomic_add((volatile global int *)t, (int)(x[i] * 100));",
    },
    "atomics in any order": {
        "temporaries": ["t: float32[n] = 0"],
        "first": "volatile global float *sum = t; float old, seen = *sum; "
        "do { old = seen; seen = as_float(atomic_cmpxchg((volatile global int *)sum, as_int(old), as_int(old + x[i]))); } while (seen != old);",
    },
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("case", UNWRITTEN)
def test_verify_finds_memory_that_nothing_wrote(case: str) -> None:
    declared, place = UNWRITTEN[case]
    ((_, outcome, text),) = [
        each for each in verified(simple(**declared), "twice") if each[0] == "opencl"
    ]
    assert outcome == "unwritten"
    number = r"(-?\d+(\.\d+)?(e[-+]\d+)?|inf)"
    assert re.fullmatch(
        rf"the opencl program 'twice' returns or reads memory that nothing wrote: {place} is {number} or {number} by what new outputs and temporaries had before\. "
        r"Write all elements, or declare the array with = 0",
        text,
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("case", WRITTEN)
def test_verify_accuses_no_program_that_writes_what_it_reads(case: str) -> None:
    assert verified(simple(**WRITTEN[case]), "twice") == [
        ("opencl", "ran", "nothing to compare with")
    ]


#: Steps that write vectors of three numbers: `first` has the values and what is behind them, `last`
#: is a statement.
VECTORS = """
kernel void spread(global const float *x, global float3 *t, uint n)
{{ uint i = get_global_id(0); if (i < n) ((global float4 *)t)[i] = (float4)({first}); }}
kernel void next(global const float3 *t, global float3 *y, uint n)
{{ uint i = get_global_id(0); if (i < n) {last}; }}
"""
SPREAD = f"""{HEAD}layout(binding = 1) buffer T {{ vec3 t[]; }}; layout(push_constant) uniform P {{ uint n; }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) t[i] = vec3(x[i], 2 * x[i], 0); }}"""
NEXT = """#version 450
layout(local_size_x = 64) in; layout(binding = 0) readonly buffer T { vec3 t[]; }; layout(binding = 1) buffer Y { vec3 y[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = t[i] + 1; }"""


def vectors(*shaders: devmod.Module, first: str, last: str, shape: str) -> Any:
    cl = devmod.compile(VECTORS.format(first=first, last=last), "opencl", block=64)
    return devmod.program(
        "p",
        devmod.bundle(cl, *shaders),
        inputs=["x: float32[n]"],
        outputs=[f"y: {shape}"],
        temporaries=[f"t: {shape}"],
        steps=["spread(x=x, t=t, n=n, threads=n)", "next(t=t, y=y, n=n, threads=n)"],
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("shape", "first", "last", "found"),
    [
        ("n, 4", "x[i], 2 * x[i], 0, 5", "((global float4 *)y)[i] = (float4)(t[i] + 1, 6)", ""),
        ("4 * n", "x[i], 2 * x[i], 0, 5", "vstore3(t[i] + 1, 0, (global float *)(y + i))", ""),
        (
            "4 * n",
            "x[i], 2 * x[i], 1, 5",
            "y[i] = t[i] + 1",
            r"step 1 \(spread\): t\[\d+\] is 0.0, and 1.0 with ",
        ),
        (
            "n, 4",
            "x[i], 2 * x[i], 0, 5",
            "y[i] = t[i] + 2",
            r"step 2 \(next\): y\[\d+, \d+\] is .*, and .* with ",
        ),
    ],
    ids=["another number", "no number", "a number of the first step", "a number of the last step"],
)
def test_verify_compares_nothing_behind_three_numbers_of_a_step(
    shape: str, first: str, last: str, found: str
) -> None:
    shaders = compiled(SPREAD, "spread"), compiled(NEXT, "next")
    module = vectors(*shaders, first=first, last=last, shape=f"float32[{shape}]")
    reference, other = verified(module, "p")
    assert reference == ("opencl", "reference", "")
    if found:
        assert other[:2] == ("vulkan", "differs")
        assert re.match(found, other[2])
    else:
        assert other[:2] == ("vulkan", "agrees")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ("vstore3(t[i], 0, (global float *)(y + i))", "ran"),
        ("vstore2(t[i].xy, 0, (global float *)(y + i))", "unwritten"),
    ],
)
def test_verify_accuses_no_program_of_what_is_behind_three_numbers(last: str, outcome: str) -> None:
    module = vectors(first="x[i], 1, 2, 3", last=last, shape="float32[n, 4]")
    ((_, found, text),) = verified(module, "p")
    assert (found, "y[0, 2]" in text) == (outcome, outcome == "unwritten")


@pytest.mark.usefixtures("in_process")
def test_verify_accuses_no_program_whose_results_differ_in_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEVMOD_DEVICE", "hexagon:0")
    first_device("hexagon")
    kernel = devmod.compile(
        "static int calls; void count(int *y) { y[0] = ++calls; }", "hexagon -arch=v66"
    )
    module = devmod.program(
        "p", kernel, inputs=["k: int32"], outputs=["y: int32[1]"], steps=["count(y=y, threads=1)"]
    )
    assert verified(module, "p") == [("hexagon", "ran", "nothing to compare with")]


@pytest.mark.usefixtures("in_process")
def test_verify_finds_texels_that_nothing_wrote() -> None:
    source = "kernel void put(write_only image2d_t y) { int2 at = (int2)(get_global_id(0), get_global_id(1)); write_imagef(y, at, at.x * 0.01f); }"
    for width, outcome in (("n", "ran"), ("n - 1", "unwritten")):
        module = devmod.program(
            "p",
            devmod.compile(source, "opencl", block=(1, 1)),
            inputs=["x: float32[n]"],
            outputs=["y: r32float[2, n]"],
            steps=[f"put(y=y, threads=({width}, 2))"],
        )
        ((_, found, text),) = verified(module, "p")
        assert (found, "y[0, " in text) == (outcome, outcome == "unwritten")


@pytest.mark.usefixtures("in_process")
def test_verify_calls_a_program_of_many_steps_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_workbench._tools.trials._MOST_STEPS", 16)
    steps = ["first(x=x, t=t, n=n, threads=n)", *["second(t=t, y=y, n=n, threads=n)"] * 19]
    module, device = simple(steps=steps), first_device("opencl")
    launches: list[object] = []
    kernel: Any = type(module["first"].open(device))  # type: ignore[attr-defined]
    caller = kernel.caller

    def counted(self: Any, *args: Any) -> Any:
        queue = caller(self, *args)
        return lambda values: (launches.append(values), queue(values))[1]

    monkeypatch.setattr(kernel, "caller", counted)
    ran = [("opencl", "ran", "nothing to compare with")]
    assert verified(module, "twice", x="random[8]") == ran
    assert len(launches) == 6 * len(steps)
    # What is wrong is found in the whole, and named by a call of each step.
    ((_, outcome, text),) = verified(
        simple(second="y[i] = t[i]; if (n == i + 1) y[n] = 0;", steps=steps), "twice", n=8
    )
    assert (outcome, text.partition(": ")[0]) == (
        "not compared",
        "every candidate does this for n=8 with sizes that devmod chose",
    )
    assert (
        ": the opencl program 'twice', step 2: the opencl function 'second' has written outside of argument 2 'y': y[8] is 0.0"
        in text
    )
    ((_, outcome, text),) = verified(simple(first="if (i) t[i] = x[i];", steps=steps), "twice")
    assert outcome == "unwritten"


@pytest.mark.usefixtures("in_process")
def test_verify_names_the_step_that_writes_outside() -> None:
    first, second = verified(
        normalize(kernels(sums=SUMS.replace("row >= rows", "row >= rows + 1"))), rows=8
    )
    assert (first[1], second[1]) == ("ran", "writes outside")
    assert second[2].startswith(
        "the vulkan program 'normalize', step 1: the vulkan function 'square_sums' has written outside of argument 2 'sums'"
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "declared",
    [
        {"requires": ["n % 48 == 0", "n > 100"]},
        {"inputs": ["x: float32[n + 1]", "z: float32[n * 2, m]"], "requires": ["m == n // 4 + 3"]},
        {
            "inputs": ["x: float32[n]", "length: int32"],
            "requires": ["length * 3 == n", "length > 20"],
        },
        {
            "inputs": ["x: float32[n]", "z: float32[heads * m]"],
            "updates": ["k: float32[m, heads]"],
            "requires": ["n // heads * m == n"],
        },
        {
            "inputs": ["x: float32[n]", "z: float32[batch, n]"],
            "requires": ["batch <= 7", "batch >= 2", "n % 64 == 0", "n > 100", "n // batch > 30"],
        },
    ],
    ids=["requires", "expressions", "a scalar", "products", "ranges"],
)
def test_lengths_are_made_that_a_program_accepts(declared: dict[str, Any]) -> None:
    module = simple(**{"updates": ["u: float32[n]"], **declared})
    assert verified(module, "twice") == [("opencl", "ran", "nothing to compare with")]


@pytest.mark.usefixtures("in_process")
def test_a_program_that_accepts_no_lengths_is_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    module = simple(requires=["n > 10", "n < 10"])
    text = "the opencl program 'twice': no lengths that it accepts were found: give 'n'"
    assert verified(module, "twice") == [("opencl", "not compared", text)]
    devmod.save(module, tmp_path / "t.devmod")
    assert call(capsys, "run", tmp_path / "t.devmod", "twice", "x=random") == (
        1,
        "",
        f"devmod: error: {text}\n",
    )


IMAGES = {
    "opencl": """kernel void halve(read_only image2d_t source, sampler_t s, write_only image2d_t half_size, int width, int height) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    if (at.x < width && at.y < height) write_imagef(half_size, at, read_imagef(source, s, (convert_float2(at) + 0.5f) / (float2)(width, height)));
}""",
    "vulkan": """#version 450
layout(local_size_x = 8, local_size_y = 8) in; layout(binding = 0) uniform texture2D source; layout(binding = 1) uniform sampler s;
layout(binding = 2, rgba8) uniform writeonly image2D half_size; layout(push_constant) uniform P { int width; int height; };
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (at.x >= width || at.y >= height) return;
    imageStore(half_size, at, textureLod(sampler2D(source, s), (vec2(at) + 0.5f) / vec2(width, height), 0.0f));
}""",
}


@pytest.mark.usefixtures("in_process")
def test_verify_run_and_guard_take_programs_with_images(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = devmod.program(
        "quarter",
        devmod.bundle(
            *(
                devmod.compile(text, kind, name="halve", block=(8, 8) if kind == "opencl" else None)
                for kind, text in IMAGES.items()
            )
        ),
        inputs=["picture: rgba8unorm[height, width]"],
        temporaries=["halved: rgba8unorm[height // 2, width // 2]"],
        outputs=["result: rgba8unorm[height // 4, width // 4]"],
        samplers=["s: nearest clamp"],
        steps=[
            "halve(source=picture, s=s, half_size=halved, width=width//2, height=height//2, threads=(width//2, height//2))",
            "halve(source=halved, s=s, half_size=result, width=width//4, height=height//4, threads=(width//4, height//4))",
        ],
    )
    first, second = verified(module, "quarter")
    assert (first[1], second[1:]) == ("reference", ("agrees", "worst error 0"))
    devmod.save(module, tmp_path / "q.devmod")
    words = (
        "picture=random",
        "height=16",
        "width=24",
        "--guard",
        "--save",
        f"result={tmp_path / 'r.png'}",
    )
    status, out, err = call(capsys, "run", tmp_path / "q.devmod", "quarter", *words)
    assert (status, err, out.splitlines()[1]) == (
        0,
        "",
        f"result: uint8[4,6,4], saved to {tmp_path / 'r.png'}",
    )


# -- run and bench


@pytest.mark.usefixtures("in_process")
def test_run_makes_the_declared_shapes_and_returns_the_outputs(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    x, weight = np.random.default_rng(1).random((3, 8), np.float32), np.full(8, 2, np.float32)
    np.save("x.npy", x)
    np.save("want.npy", x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight)
    for kind in KINDS:
        words = (
            "x=x.npy",
            "weight=fill:2",
            "--device",
            kind,
            "--guard",
            "--expect",
            "y=want.npy",
            "--save",
            "y=y.npy",
        )
        status, out, err = call(capsys, "run", file, "normalize", *words)
        name, array, verdict = out.splitlines()
        assert (status, err, array) == (0, "", "y: float32[3,8], saved to y.npy")
        assert re.fullmatch(
            rf"normalize on {kind}:0 \(.*\): {NUMBER} [mun]?s on the device, {NUMBER} m?s on the host",
            name,
        )
        assert verdict.startswith("y agrees with want.npy: worst error ")
    report = json.loads(
        call(
            capsys,
            "run",
            file,
            "normalize",
            "x=random",
            "weight=random",
            "rows=5",
            "columns=4",
            "epsilon=0.5",
            "--json",
        )[1]
    )
    assert (report["arrays"], report["result"]) == (
        {"y": {"type": "float32", "shape": [5, 4]}},
        None,
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["x=random"],
            "the opencl program 'normalize': it also needs 'weight'. Give each as NAME=VALUE, such as x=random or rows=64",
        ),
        (
            ["row=3"],
            "the opencl program 'normalize' has no argument 'row'. Did you mean 'rows'?; its arguments: 'x', 'weight', 'epsilon', 'y'; "
            "its lengths: 'rows', 'columns'",
        ),
        (
            ["rows=x"],
            "rows: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got 'x'",
        ),
        (
            ["x=random", "rows=9223372036854775807"],
            "rows: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got '9223372036854775807'",
        ),
        (
            ["x=random", "weight=random[4]", "--save", "z=z.npy"],
            "normalize has no array 'z' to compare, print or save; it has 'x', 'weight', 'y'",
        ),
        (
            ["x=random[2,8]", "weight=random[4]"],
            "the opencl program 'normalize': the argument 'weight' has the shape (4,); dimension 1 is 4, and "
            "expected is columns, which is 8",
        ),
        (
            ["x=random", "weight=random", "--threads", "8"],
            "the opencl program 'normalize': it takes no --threads: the steps of a program "
            "have their own, which follow from the shapes and the scalars of the call",
        ),
    ],
)
def test_the_errors_of_run_name_the_length_or_the_argument(
    capsys: pytest.CaptureFixture[str], file: str, words: list[str], text: str
) -> None:
    assert call(capsys, "run", file, "normalize", *words) == (1, "", f"devmod: error: {text}\n")


@pytest.mark.usefixtures("in_process")
def test_bench_measures_a_program_by_lengths(capsys: pytest.CaptureFixture[str], file: str) -> None:
    words = (
        "normalize",
        "columns=64",
        "--size",
        "rows=4,8",
        "--device",
        "opencl",
        "--device",
        "vulkan",
        "--repeat",
        "2",
        "--json",
    )
    measured = json.loads(call(capsys, "bench", file, *words)[1])["measurements"]
    assert [(each["device"], each["sizes"], each["problem"]) for each in measured] == [
        (f"{kind}:0", f"rows={rows}", "") for kind in KINDS for rows in (4, 8)
    ]
    nbytes = (2 * 8 * 64 + 64) * 4  # x, y and weight
    assert measured[-1]["gb_per_s"] == pytest.approx(nbytes * 1e-9 / measured[-1]["median"])
    names = ["normalize", "square_sums", "scale"]
    benchmark = devmod.bench(
        devmod.load(file), names, arguments={"columns": 6}, threads=64, repeat=1
    )
    text = "the opencl program 'normalize': it requires columns % 4 == 0, and that is 2 == 0 with columns=6"
    problems = {each.function: each.problem for each in benchmark.measurements}
    assert problems == {"normalize": text, "square_sums": "", "scale": ""}
    table = str(benchmark).splitlines()
    assert table[1].split() == ["normalize", "opencl:0", "not", "measured"]
    assert table[4:] == ["", f"normalize opencl:0: {text}"]


@pytest.mark.usefixtures("in_process")
def test_bench_of_a_file_measures_its_programs_and_the_kernels_apart_from_them(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    own = devmod.compile("kernel void own(global float *q) { q[0] = 1; }", "opencl", block=1)
    # A second program, which launches a kernel twice in a call, with other threads.
    steps = [STEPS[0], STEPS[0].replace("threads=rows", "threads=rows*2"), STEPS[1]]
    program = normalize(devmod.bundle(kernels(), own), steps=steps)
    devmod.save(program, "both.devmod")
    words = ("--device", "opencl", "--repeat", "3", "--json")

    def measured(*more: str) -> list[dict[str, Any]]:
        status, out, err = call(capsys, "bench", "both.devmod", *more, *words)
        assert (status, err) == (0, "")
        rows: list[dict[str, Any]] = json.loads(out)["measurements"]
        return rows

    assert [each["function"] for each in measured("--grid", "1", "columns=64")] == [
        "normalize",
        "own",
    ]
    whole, *parts = measured("normalize", "--kernels", "rows=32", "columns=64")
    assert (whole["function"], whole["share"]) == ("normalize", None)
    assert {each["function"] for each in parts} == {
        "normalize: square_sums",
        "normalize: scale",
    }
    assert sum(each["share"] for each in parts) == pytest.approx(1)
    assert [each["median"] for each in parts] == sorted(
        (each["median"] for each in parts), reverse=True
    )
    nbytes = {"normalize: scale": (2 * 32 * 64 + 32 + 64) * 4}
    nbytes["normalize: square_sums"] = 2 * (32 * 64 + 32) * 4  # both launches of a call
    for each in parts:
        rate = each["gb_per_s"] * 1e9 * each["median"]
        assert rate == pytest.approx(nbytes[each["function"]])
    table = str(devmod.bench(devmod.load(file), devices="opencl", repeat=1, kernels=True))
    assert table.splitlines()[0].split()[-2:] == ["clock", "share"]
    assert table.splitlines()[1].split()[0] == "normalize"
    assert table.splitlines()[2].endswith("%")


@pytest.mark.usefixtures("in_process")
def test_bench_leaves_out_the_kernels_of_programs_of_other_kinds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As in a file of devmod onnx, each kind has kernels of its own names."""
    cl = "kernel void copy_cl(global const float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    shader = f"{HEAD}layout(binding = 1) buffer Y {{ float y[]; }};\nvoid main() {{ y[gl_GlobalInvocationID.x] = x[gl_GlobalInvocationID.x]; }}"
    modules = {
        "copy_cl": devmod.compile(cl, "opencl", block=64),
        "copy_glsl": compiled(shader, "copy_glsl"),
    }
    arrays = {
        "inputs": ["x: float32[n]"],
        "outputs": ["y: float32[n]"],
        "requires": ["n % 64 == 0"],
    }
    programs = [
        devmod.program("copy", module, steps=[f"{name}(x=x, y=y, threads=n)"], **arrays)
        for name, module in modules.items()
    ]
    path = tmp_path / "kinds.devmod"
    devmod.save(devmod.bundle(*programs), path)
    status, out, err = call(capsys, "bench", path, "--device", "opencl", "--json")
    assert (status, err) == (0, "")
    assert [each["function"] for each in json.loads(out)["measurements"]] == ["copy"]


@pytest.mark.usefixtures("in_process")
def test_bench_of_a_kernel_of_a_program_takes_the_programs_arguments(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    words = ("scale", "--device", "opencl", "--repeat", "2", "--json")
    status, out, _ = call(capsys, "bench", file, "rows=32", "columns=64", *words)
    (row,) = json.loads(out)["measurements"]
    # y may be both read and written.
    nbytes = (32 * 64 + 32 + 64 + 2 * 32 * 64) * 4
    assert (status, row["function"], row["problem"]) == (0, "scale", "")
    assert row["gb_per_s"] * 1e9 * row["median"] == pytest.approx(nbytes)
    # An argument that the program lacks is the kernel's own, and so are the threads then.
    assert call(capsys, "bench", file, "sums=zeros[8]", *words) == (
        1,
        "",
        "devmod: error: the opencl function 'scale' needs --threads, the number of threads, or --grid, the number of blocks: an int, or up to three ints for x, y, z\n",
    )
    status, out, _ = call(capsys, "bench", file, "sums=zeros[8]", "--threads", "64", *words)
    assert (status, json.loads(out)["measurements"][0]["problem"]) == (0, "")


@pytest.mark.usefixtures("in_process")
def test_bench_measures_nothing_that_its_rows_would_name_wrongly(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    words = ("--device", "opencl", "--repeat", "1")
    no_grid = "the steps of a program have their own, which follow from the shapes and the scalars of the call"
    unused = "is in no argument, --threads, --grid or --block, and is no length of a program"
    for given, text in (
        (("--block", "5"), f"the opencl program 'normalize': it takes no --block: {no_grid}"),
        (("--threads", "5"), f"the opencl program 'normalize': it takes no --threads: {no_grid}"),
        (("--size", "row=4,8"), f"the size 'row' {unused}"),
        (
            ("scale", "--size", "count=4"),
            f"the size 'count' {unused}; give count=count for the argument of this name",
        ),
        (("--size", "rows=4,0"), "--size rows: expected whole numbers of 1 or more, got '4,0'"),
    ):
        assert call(capsys, "bench", file, *given, *words) == (1, "", f"devmod: error: {text}\n")
    # A program beside kernels has one row, without their blocks.
    given = ("normalize", "scale", "--size", "n=64", "--threads", "n", "--block", "64")
    rows = json.loads(call(capsys, "bench", file, *given, *words, "--json")[1])["measurements"]
    assert [(each["function"], each["block"], each["problem"]) for each in rows] == [
        ("normalize", "", ""),
        ("scale", "64", ""),
    ]


@pytest.mark.usefixtures("in_process")
def test_bench_of_a_kernel_that_its_program_does_not_launch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    steps: list[Any] = ["first(x=x, t=t, n=n, threads=n)"]
    steps.append(devmod.repeat("times", "turn", ["second(t=t, y=y, n=n, threads=n)"]))
    inputs = ["x: float32[n]", "times: int32"]
    program = simple(inputs=inputs, outputs=["y: float32[n] = 0"], steps=steps)
    devmod.save(program, tmp_path / "r.devmod")
    words = ("bench", tmp_path / "r.devmod", "second", "n=8", "--repeat", "1", "--csv")
    assert call(capsys, *words, "times=0") == (
        1,
        "",
        "devmod: error: the opencl program 'twice' does not launch 'second' with these arguments: give others, or those of 'second' and the threads\n",
    )
    assert call(capsys, *words, "times=2")[0] == 0


# -- profile and guard


def test_a_profile_names_the_program_and_its_kernels(tmp_path: Path) -> None:
    device = first_device("opencl")
    function = simple()["twice"]
    x = device.from_numpy(np.arange(8, dtype=np.float32))
    y = device.empty(8, "float32")
    before = function.bind(x, y=y)
    function(x)  # its launches are cached
    with devmod.profile() as profile:
        function(x)
        function(np.zeros(8, np.float32))
        before()
        function.bind(x, y=y)()
        device.synchronize()
    records = [
        (each.action, each.name, each.device)
        for each in profile.records
        if each.action in ("call", "launch")
    ]
    launches = [("launch", f"twice: {name}", "opencl:0") for name in ("first", "second")]
    whole = ("launch", "twice", "opencl:0")
    assert records == [
        *launches,
        ("call", "twice", "opencl:0"),
        *launches,
        ("call", "twice", "opencl:0"),
        whole,
        whole,
    ]
    assert {
        each.nbytes for each in profile.records if each.name in ("twice: first", "twice: second")
    } == {64}
    on_device = [each.on_device for each in profile.records if each.action == "launch"]
    assert None not in some(on_device)
    rows = {
        line.split("  ")[0]: line.split()[-4 if "GB" in line else -6 :]
        for line in profile.table().splitlines()
    }
    assert {"twice", "twice: first", "twice: second"} <= rows.keys()
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"twice: first", "twice: second"} <= {
        each["name"] for each in events if each["pid"] == 2
    }
    count = len(profile.records)
    function(x)
    before()
    assert len(profile.records) == count
    with devmod.profile(device_times=False) as other:
        function(x)
    assert [each.name for each in other.records] == ["twice: first", "twice: second", "twice"]


@pytest.mark.parametrize("made", ["host", "device", "prepared", "timed"])
@pytest.mark.parametrize(
    ("bodies", "place"),
    [
        (
            {"first": "t[i] = x[i]; t[n] = 3;"},
            "step 1: the opencl function 'first' has written outside of argument 2 't': t[5] is 3.0",
        ),
        (
            {"second": "y[i] = t[i]; y[-1] = 2;"},
            "step 2: the opencl function 'second' has written outside of argument 2 'y': y[-1] is 2.0",
        ),
    ],
    ids=["a temporary", "an output"],
)
def test_a_guard_names_the_step_of_a_program(made: str, bodies: dict[str, str], place: str) -> None:
    device = first_device("opencl")
    function = simple(**bodies)["twice"]
    x = np.arange(5, dtype=np.float32)

    def run() -> None:
        if made in ("host", "device"):
            function(x if made == "host" else device.from_numpy(x))
            return
        launch = function.bind(device.from_numpy(x), y=device.empty(5, "float32"))
        launch.time() if made == "timed" else launch()

    with pytest.raises(devmod.GuardError) as caught, devmod.guard():
        run()
    assert str(caught.value).startswith(
        f"the opencl program 'twice', {place}, and the array has 5 elements of float32; "
    )


def test_a_guard_checks_each_call_with_the_same_shapes() -> None:
    device = first_device("opencl")
    function = simple(second="y[i] = t[i]; if (t[0] < 0) y[n] = 3;")["twice"]
    good, bad = device.from_numpy(np.ones(5, "float32")), device.from_numpy(-np.ones(5, "float32"))
    function(good)
    with devmod.guard():
        function(good)
        with pytest.raises(
            devmod.GuardError, match="step 2: the opencl function 'second' has written"
        ):
            function(bad)


def test_a_guard_clears_a_temporary_that_is_no_whole_word() -> None:
    device = first_device("vulkan")
    source = """#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = 1) in; layout(binding = 0) buffer T { int8_t t[]; }; layout(binding = 1) buffer Y { int8_t y[]; };
void main() { uint i = gl_GlobalInvocationID.x; t[i] += int8_t(i); y[i] = t[i]; }"""
    declared: dict[str, Any] = {
        "inputs": ["n: int32"],
        "outputs": ["y: int8[n]"],
        "temporaries": ["t: int8[n] = 0"],
    }
    module = devmod.program(
        "p",
        devmod.compile(source, "vulkan", name="add"),
        steps=["add(t=t, y=y, threads=n)"],
        **declared,
    )
    with devmod.guard():
        y = device.empty(3, "int8")
        launch = module["p"].bind(3, y=y)
        launch()
        launch()
        assert (y.numpy().tolist(), module["p"](3).tolist()) == ([0, 1, 2], [0, 1, 2])


def test_a_program_is_compared_with_a_reference() -> None:
    device = first_device("vulkan")
    cases = [
        {
            "x": np.random.default_rng(rows).random((rows, 8), np.float32),
            "weight": np.ones(8, np.float32),
        }
        for rows in (1, 65)
    ]

    def reference(x: Any, weight: Any) -> Any:
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight

    assert_kernel(normalize()["normalize"].on(device), reference, cases)
    wrong = normalize(kernels(sums=SUMS.replace("c = 0", "c = 1")))["normalize"].on(device)
    with pytest.raises(
        AssertionError, match=r"normalize: y differs from the reference in \d+ of 8 elements"
    ):
        assert_kernel(wrong, lambda **case: {"y": reference(**case)}, cases)


# -- inspect


def test_inspect_shows_the_declarations_and_the_steps(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    status, out, err = call(capsys, "inspect", file, "--verify")
    assert (status, err) == (0, "")
    assert "\n".join(out.splitlines()[1:9]) == re.sub(
        "VERSION",
        devmod.__version__,
        """\
bundle
  program steps1, 692 B — runtime: devmod-runtime VERSION
    normalize(x: float32[rows, columns], weight: float32[columns], epsilon: float32 = 1e-05) -> y: float32[rows, columns]
      temporaries: sums: float32[rows] = 0
      requires: columns % 4 == 0
      step 1: square_sums(x=x, sums=sums, rows=rows, columns=columns, threads=rows)
      step 2: scale(x=x, sums=sums, weight=weight, y=y, count=rows * columns, columns=columns, epsilon=epsilon, threads=rows * columns)
    bundle""",
    )
    assert (
        "Digests compared: 4; all match.\nPrograms checked with each candidate of their kernels: 1; all are valid.\n"
        in out
    )
    report = json.loads(call(capsys, "inspect", file, "--verify", "--json")[1])
    assert report["programs"] == {"checked": 1, "problem": ""}
    program = report["module"]["imports"][0]["functions"][0]["program"]
    assert program == {
        "temporaries": ["sums: float32[rows] = 0"],
        "constants": [],
        "states": [],
        "samplers": [],
        "repeats": [],
        "requires": ["columns % 4 == 0"],
        "backward": "",
        "steps": [step.replace("rows*columns", "rows * columns") for step in STEPS],
    }


def test_inspect_has_the_bytes_of_temporaries(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    text = "normalize: 256 B of temporaries for rows=64, columns=8\n"
    assert call(capsys, "inspect", file, "--lengths", "rows=64,columns=8") == (0, text, "")
    assert (
        call(capsys, "inspect", file, "normalize", "--lengths", "rows=64,columns=8", "--json")[1]
        == '{\n  "normalize": 256\n}\n'
    )
    for words, error in (
        (["--lengths", "rows=64"], "the program 'normalize': it also needs 'columns'"),
        (
            ["--lengths", "rows=64,columns=6"],
            "the program 'normalize': it requires columns % 4 == 0, and that is 2 == 0 with columns=6",
        ),
        (
            ["scale", "--lengths", "rows=64"],
            "the program module has no function 'scale'; it has: 'normalize'",
        ),
    ):
        assert call(capsys, "inspect", file, *words) == (1, "", f"devmod: error: {error}\n")
    status, _, err = call(capsys, "inspect", file, "--lengths", "rows")
    assert (status, err.splitlines()[-1]) == (
        2,
        "devmod: error: --lengths: expected NAME=NUMBER, separated by commas, got 'rows'",
    )


def replaced_kernels(module: Any, others: Any) -> Any:
    """Return the program with other kernels, as a stranger's file may have them."""
    program = module.imports[0]
    other = devmod.create_with_fallback(
        "program", dict(program.code), program.format, dict(program.functions)
    )
    other.import_module(others)
    return devmod.bundle(other, others, mixed=True)


@pytest.mark.usefixtures("in_process")
def test_inspect_and_verify_check_a_program_with_each_candidate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = devmod.compile(SUMS.replace("columns", "lanes"), "vulkan", name="square_sums")
    wrong = devmod.bundle(
        devmod.compile(CL, "opencl", block=64), wrong, compiled(SCALE, "scale"), mixed=True
    )
    devmod.save(replaced_kernels(normalize(), wrong), tmp_path / "w.devmod")
    problem = "the program 'normalize', step 1 ('square_sums'), argument 'columns': the kernel has no argument 'columns'"
    status, out, err = call(capsys, "inspect", tmp_path / "w.devmod", "--verify")
    assert (status, out) == (1, "")
    assert err.startswith(f"devmod: error: {problem}")
    assert "vulkan/spv for spirv1.3" in err
    status, out, _ = call(capsys, "verify", tmp_path / "w.devmod", "scale")
    assert status == 1
    assert out.splitlines()[1].startswith(f"  invalid program/steps1: {problem}")


@pytest.mark.parametrize("reason", ["no reader", "newer"])
def test_inspect_says_that_a_program_cannot_be_read_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str, reason: str
) -> None:
    if reason == "newer":
        monkeypatch.setattr(
            "devmod._modules.programs.find_spec", lambda kind: SimpleNamespace(formats=("steps0",))
        )
        text = "the programs have the format 'steps1', which a newer devmod reads: pip install --upgrade devmod-core devmod-runtime"
    else:
        monkeypatch.delitem(sys.modules, "devmod_readers.programs")
        monkeypatch.setitem(sys.modules, "devmod_readers", None)
        text = "programs cannot be read here: devmod-readers is not installed. To add it: pip install devmod-readers"
    assert f"      its steps are not shown: {text}\n" in call(capsys, "inspect", file)[1]
    status, out, err = call(capsys, "inspect", file, "--verify")
    assert (status, f"\nPrograms not checked: {text}\n" in out, err) == (0, True, "")
