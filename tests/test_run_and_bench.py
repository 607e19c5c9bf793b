"""`devmod run`, `bench` and `verify` on real devices."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from distributions import install
from each_case import check_each, refusal
from interruptible import HANGS, interruptible_python
from PIL import Image

import devmod
from devmod import Local
from devmod_workbench._cli import main

CL = """
__kernel void saxpy(__global float *y, __global const float *x, float a, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
SOURCES = {
    "opencl": CL,
    "vulkan": """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(push_constant) uniform P { float a; uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = a * x[i] + y[i]; }
""",
    "webgpu": """@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
struct P { a: f32, n: u32 }
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64) fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.n) { y[id.x] = p.a * x[id.x] + y[id.x]; }
}
""",
    "hexagon": "void saxpy(float *y, const float *x, float a, unsigned n) { for (unsigned i = 0; i < n; ++i) y[i] = a * x[i] + y[i]; }",
}
TARGETS = {"hexagon": "hexagon -arch=v67"}
KINDS = tuple(SOURCES)


@pytest.fixture(autouse=True)
def one_device_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one device of each kind; some machines have several."""
    monkeypatch.setenv("DEVMOD_DEVICE", "opencl:0,vulkan:0,webgpu:0")


def saxpy(kind: str, source: str = "") -> Any:
    return devmod.compile(
        source or SOURCES[kind], TARGETS.get(kind, kind), name="saxpy" if kind == "vulkan" else None
    )


@functools.cache
def saxpy_of_opencl() -> bytes:
    return devmod.dumps(saxpy("opencl"))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with saxpy for OpenCL. The current folder has it."""
    first_device("opencl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.devmod").write_bytes(saxpy_of_opencl())
    return Path("k.devmod")


# -- run


@pytest.mark.usefixtures("in_process")
def test_an_array_is_filled_with_a_number_that_is_not_finite(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(saxpy("opencl"), file)
    for text, value in (("nan", np.nan), ("-inf", -np.inf), ("inf", np.inf)):
        words = [file, "saxpy", f"y=fill:{text}[8,4]", "x=fill:1[32]", "a=2", "n=32"]
        saved = ["--threads", "32", "--save", f"y={tmp_path}/y.npy"]
        assert call(capsys, "run", *words, *saved)[::2] == (0, "")
        assert np.array_equal(np.load(tmp_path / "y.npy"), np.full((8, 4), value), equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_run_compares_and_saves_on_each_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    device = first_device(kind)
    devmod.save(saxpy(kind), tmp_path / "k.devmod")
    x = np.arange(100, dtype="float32")
    np.savez(tmp_path / "x.npz", x=x, other=x)
    np.save(tmp_path / "want.npy", 2 * x + 0.5)
    words = [
        tmp_path / "k.devmod",
        "saxpy",
        "y=fill:0.5[100]",
        f"x={tmp_path}/x.npz:x",
        "a=2",
        "n=100",
        "--guard",
    ]
    words += [] if kind == "hexagon" else ["--threads", "100"]
    results = ["--expect", f"y={tmp_path}/want.npy", "--save", f"y={tmp_path}/y.npy"]
    status, out, err = call(capsys, "run", *words, *results)
    first, second, third = out.splitlines()
    assert (status, err) == (0, "")
    assert first.startswith(f"saxpy on {kind}:0 ({device.name}): ")
    assert first.endswith(" on the host")
    assert second == f"y: float32[100], saved to {tmp_path}/y.npy"
    assert (
        third
        == f"y agrees with {tmp_path}/want.npy: worst error 0 at y[0], which is 0.5, expected 0.5"
    )
    assert np.array_equal(np.load(tmp_path / "y.npy"), 2 * x + 0.5)

    np.save(tmp_path / "want.npy", np.where(x == 7, 15, 2 * x + 0.5))
    status, out, _ = call(capsys, "run", *words, *results, "--json")
    report = json.loads(out)
    assert status == 1
    expected = {
        "file": f"{tmp_path}/want.npy",
        "error": 0.5,
        "index": [7],
        "value": 14.5,
        "expected": 15.0,
        "agrees": False,
    }
    assert report["expected"] == {"y": expected}
    assert (report["device"], report["arrays"]) == (
        f"{kind}:0",
        {"y": {"type": "float32", "shape": [100]}},
    )
    assert report["host"] > 0
    assert call(capsys, "run", *words, *results, "--atol", "1")[0] == 0


@pytest.mark.row("R22")
@pytest.mark.usefixtures("in_process")
def test_a_raw_payload_with_its_metadata_runs(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    saxpy("opencl").write_to_file("raw.cl")
    words = ["raw.cl", "saxpy", "y=zeros[8]", "x=random[8]", "a=2", "n=8", "--threads", "8"]
    assert call(capsys, "run", *words)[1].splitlines()[1:] == ["y: float32[8]"]
    assert (
        "  best     opencl/cl  it fits opencl device 0; a compiler there"
        in call(capsys, "inspect", "raw.cl", "--here")[1]
    )
    status, out, _ = call(capsys, "verify", "raw.cl")
    assert (status, out.splitlines()[0]) == (0, "payloads: 1 of 1 intact, 0 compared with a digest")
    assert out.splitlines()[2].startswith("  ran             opencl/cl on opencl:0 ")


@pytest.mark.usefixtures("in_process")
def test_run_takes_a_picture_and_writes_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    kernels = devmod.compile(
        """
        __kernel void bytes(__global uchar *out, __global const uchar *in) { out[get_global_id(0)] = 255 - in[get_global_id(0)]; }
        __kernel void words(__global uint *out, __global const uint *in) { out[get_global_id(0)] = in[get_global_id(0)] ^ 0xFFFFFF; }
        __kernel void lanes(__global uchar4 *out, __global const uchar4 *in) { out[get_global_id(0)] = in[get_global_id(0)].zyxw; }
        __kernel void floats(__global float *out, __global const float *in) { out[get_global_id(0)] = 1 - in[get_global_id(0)]; }
        __kernel void image(__global float4 *out, read_only image2d_t in) {
            out[get_global_id(0)] = read_imagef(in, (int2)(get_global_id(0) % 5, get_global_id(0) / 5));
        }
        """,
        "opencl",
    )
    devmod.save(kernels, tmp_path / "p.devmod")
    pixels = np.random.default_rng(1).integers(0, 256, (4, 5, 3)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / "in.png")
    inverse = {"bytes": ("[4,5,3]", 60, 3), "words": ("[4,5]", 20, 4), "floats": ("[4,5,3]", 60, 3)}
    for name, (shape, threads, channels) in inverse.items():
        words = [
            f"out=zeros{shape}",
            f"in={tmp_path}/in.png",
            "--grid",
            threads // 20,
            "--block",
            20,
            "--save",
            f"out={tmp_path}/{name}.png",
        ]
        assert call(capsys, "run", tmp_path / "p.devmod", name, *words)[::2] == (0, "")
        result = np.asarray(Image.open(tmp_path / f"{name}.png"))
        assert (result.shape, result[..., :3].tolist()) == (
            (4, 5, channels),
            (255 - pixels).tolist(),
        )
    for name, order in {"lanes": slice(None, None, -1), "image": slice(None)}.items():
        words = [
            "out=zeros[4,5]",
            f"in={tmp_path}/in.png",
            "--grid",
            1,
            "--block",
            20,
            "--save",
            f"out={tmp_path}/{name}.png",
        ]
        assert call(capsys, "run", tmp_path / "p.devmod", name, *words)[::2] == (0, "")
        assert (
            np.asarray(Image.open(tmp_path / f"{name}.png"))[..., :3].tolist()
            == pixels[..., order].tolist()
        )


@pytest.mark.usefixtures("in_process")
def test_what_is_no_number_is_black_in_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    source = "__kernel void k(__global float *out) { out[get_global_id(0)] = get_global_id(0) == 2 ? NAN : INFINITY; }"
    devmod.save(devmod.compile(source, "opencl"), tmp_path / "p.devmod")
    assert call(
        capsys,
        "run",
        tmp_path / "p.devmod",
        "k",
        "out=zeros[1,4]",
        "--grid",
        1,
        "--block",
        4,
        "--save",
        f"out={tmp_path}/p.png",
    )[::2] == (0, "")
    assert np.asarray(Image.open(tmp_path / "p.png")).tolist() == [[255, 255, 0, 255]]


@pytest.mark.usefixtures("in_process")
def test_run_compares_pictures_in_the_form_in_which_it_saves_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    source = """
    __kernel void words(__global uint *out) { out[get_global_id(0)] = get_global_id(0) * 1000000; }
    __kernel void floats(__global float *out) { out[get_global_id(0)] = get_global_id(0) / 20.0f; }
    __kernel void image(write_only image2d_t out) {
        write_imagef(out, (int2)(get_global_id(0) % 5, get_global_id(0) / 5), (float4)(get_global_id(0) / 20.0f));
    }
    """
    devmod.save(devmod.compile(source, "opencl"), tmp_path / "p.devmod")
    for name, value in {
        "words": "zeros[4,5]",
        "floats": "zeros[4,5]",
        "image": "zeros:float32[4,5,4]",
    }.items():
        picture = tmp_path / f"{name}.png"
        words = [
            "run",
            tmp_path / "p.devmod",
            name,
            f"out={value}",
            "--grid",
            1,
            "--block",
            20,
            "--atol",
            "0.003",
        ]
        assert call(capsys, *words, "--expect", f"out={picture}")[0] == 1
        assert call(capsys, *words, "--save", f"out={picture}")[0] == 0
        assert call(capsys, *words, "--expect", f"out={picture}")[0] == 0
        # What differs is saved.
        Image.new("RGBA" if name != "floats" else "L", (5, 4)).save(tmp_path / "black.png")
        again = tmp_path / "again.png"
        assert (
            call(capsys, *words, "--expect", f"out={tmp_path}/black.png", "--save", f"out={again}")[
                0
            ]
            == 1
        )
        assert again.read_bytes() == picture.read_bytes()
        again.unlink()


@pytest.mark.usefixtures("in_process")
def test_run_with_a_guard_finds_a_write_outside(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    devmod.save(saxpy("opencl", CL.replace("i < n", "i <= n").replace("+ y[i]", "")), file)
    words = [
        "run",
        file,
        "saxpy",
        "y=zeros[100]",
        "x=fill:1[101]",
        "a=2",
        "n=100",
        "--threads",
        "128",
    ]
    status, out, err = call(capsys, *words, "--guard")
    assert (status, out) == (1, "")
    assert err.startswith(
        "devmod: error: the opencl function 'saxpy' has written outside of argument 1 'y': y[100] is "
    )
    devmod.save(saxpy("opencl", CL.replace("x[i]", "x[i + 1]")), file)
    words[4] = "x=fill:1[100]"
    assert call(capsys, *words)[0] == 0
    status, out, err = call(capsys, *words, "--guard")
    assert (status, out) == (1, "")
    assert err.startswith(
        "devmod: error: the opencl function 'saxpy' has read outside of its arrays: y[99] is "
    )


@pytest.mark.usefixtures("in_process")
def test_run_prints_arrays_and_lists_functions(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    words = [
        "run",
        file,
        "saxpy",
        "y=zeros[2000]",
        "x=fill:1[2000]",
        "a=2",
        "n=1999",
        "--threads",
        "2000",
        "--print",
        "y",
        "--print",
        "x",
    ]
    status, out, err = call(capsys, *words)
    assert (status, err, out.splitlines()[1:]) == (
        0,
        "",
        [
            "y: float32[2000]",
            "[2. 2. 2. ... 2. 2. 0.]",
            "x: float32[2000]",
            "[1. 1. 1. ... 1. 1. 1.]",
        ],
    )
    assert json.loads(call(capsys, *words, "--json")[1])["printed"] == {
        "y": "[2. 2. 2. ... 2. 2. 0.]",
        "x": "[1. 1. 1. ... 1. 1. 1.]",
    }
    text = "devmod: error: saxpy has no array 'z' to compare, print or save; it has 'y', 'x'\n"
    assert call(capsys, *words[:-1], "z") == (1, "", text)
    signature = "saxpy(y: float32* rw, x: float32* r, a: float32, n: uint32) any block"
    assert call(capsys, "run", file) == (0, f"{signature}\n", "")
    assert json.loads(call(capsys, "run", file, "--json")[1]) == {"functions": {"saxpy": signature}}


@pytest.mark.parametrize("guard", [[], ["--guard"]])
def test_run_and_verify_warn_of_missing_dimensions(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    guard: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_device("vulkan")
    body = "if (t.x < width && t.y < height) y[t.y * width + t.x] = 1;"
    source = f"""[shader("compute")] [numthreads(16, 1, 1)] void rows(RWStructuredBuffer<int> y, uniform uint width, uniform uint height, uint3 t :
        SV_DispatchThreadID) {{ {body} }}"""
    devmod.save(devmod.compile(source, "vulkan", language="Slang"), tmp_path / "k.devmod")
    text = "the vulkan function 'rows' reads its place in 2 dimensions, and the launch has 1; give all, such as threads=(100, 1)"
    words = ["run", tmp_path / "k.devmod", "rows", "y=zeros[5,100]", "width=100"]
    assert (
        call(capfd, *words, "height=5", "--threads", "100", *guard)[2].count(
            f"devmod: warning: {text.replace('threads=(100, 1)', '--threads 100,1')}\n"
        )
        == 1
    )
    monkeypatch.setattr(sys, "frozen", True, raising=False)  # the rest in this process
    for options in (["height=5", "--threads", "100,5"], ["height=1", "--threads", "100"]):
        assert "warning" not in call(capfd, *words, *options, *guard)[2]
    (comparison,) = devmod.verify(devmod.load(tmp_path / "k.devmod")).functions["rows"]
    assert (comparison.outcome, comparison.text) == ("ran", f"nothing to compare with; {text}")


FORMS = "a number, random[64], zeros[8,8], fill:NUMBER[9], a file (.npy, .npz:KEY, a picture), local:BYTES, or a tuple or dict"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["y"], "saxpy: expected NAME=VALUE, got 'y'"),
        (
            ["y.npy"],
            "saxpy: expected NAME=VALUE, got 'y.npy'. Add the name, such as x=y.npy; `devmod inspect` shows the names",
        ),
        (["=3"], "saxpy: expected NAME=VALUE, got '=3'"),
        (["y=1", "y=2"], "saxpy: 'y' is given twice"),
        (
            ["yy=zeros[3]"],
            "the opencl function 'saxpy' has no argument 'yy'. Did you mean 'y'?; its arguments: 'y', 'x', 'a', 'n'",
        ),
        (["y=zeros"], "y=zeros: it has no shape; give one, as in y=zeros[1024]"),
        (["y=zeros:flot[3]"], "y: 'flot' is not a type: expected a name such as "),
        (
            ["y=zeros:float99[3]"],
            "y=zeros:float99[3]: NumPy has no elements of type 'float99'; expected int8, uint8, int16, uint16, int32, uint32, "
            "int64, uint64, float16, float32, float64, complex64, complex128, bool, or a type of ml_dtypes such as bfloat16. "
            "Did you mean 'float64'?",
        ),
        (
            ["y=zeros[3,k]"],
            "y: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got 'k'",
        ),
        (["y=fill:1e99:int32[3]"], "y=fill:1e99:int32[3]: "),
        (["y=fill:nan:int32[3]"], "y=fill:nan:int32[3]: invalid value encountered in cast"),
        (["y=fill:nam[3]"], f"y=nam: expected {FORMS}"),
        (["x=rondom[3]"], f"x=rondom[3]: expected {FORMS}"),
        (["x=no.npy"], "x: no.npy cannot be read: No such file or directory"),
        (["x=k.npz:b"], "x: k.npz has no array 'b'; it has 'a', 'c'"),
        (["x=k.npz"], "x: k.npz has several arrays; it has 'a', 'c'"),
        (["x=k.png"], "x: k.png cannot be read: "),
        (["x=cut.npz"], "x: cut.npz cannot be read: File is not a zip file"),
        (["x=damaged.npz:a"], "x: damaged.npz cannot be read: Bad CRC-32"),
        (["x=none.npz"], "x: none.npz has no array\n"),
        (
            ["x=random.npy"],
            "x: random.npy cannot be read: it is no file .npy of NumPy, or it has Python objects\n",
        ),
        (["x=zeros[1000000000000000]"], "x=zeros[1000000000000000]: Unable to allocate "),
        (
            ["x=random[999999999999999999,999999999999999999]"],
            "x=random[999999999999999999,999999999999999999]: ",
        ),
        (
            ["y=zeros[8]", "x=zeros:int32[8]", "a=1", "n=8"],
            "the opencl function 'saxpy': argument 2 'x' ",
        ),
        (
            ["y=zeros[8]", "x=zeros[8]", "a=1", "n=8", "--save", "z=z.npy"],
            "saxpy has no array 'z' to compare, print or save; it has 'y', 'x'",
        ),
        (
            ["y=zeros[8]", "x=zeros[8]", "a=1", "n=8", "--save", "y=y.txt"],
            "--save y=y.txt: expected a file .npy or a picture (",
        ),
        (
            ["y=zeros[8]", "x=zeros[8]", "a=1", "n=8", "--save", "y=y.png"],
            "--save y=y.png: expected height × width or ",
        ),
        (
            ["y=zeros[8]", "x=zeros[8]", "a=1", "n=8", "--expect", "y=k.npz:a"],
            "y has the shape (8,), and the expected array (2,)",
        ),
    ],
)
def test_the_errors_of_run_name_the_argument(
    capsys: pytest.CaptureFixture[str], file: Path, words: list[str], text: str
) -> None:
    np.savez("k.npz", a=np.zeros(2), c=np.zeros(2))
    Path("k.png").write_text("no picture")
    data = bytearray(Path("k.npz").read_bytes())
    Path("cut.npz").write_bytes(data[:100])
    data[data.index(b"NUMPY") + 140] ^= 1
    Path("damaged.npz").write_bytes(data)
    np.savez("none.npz")
    Path("random.npy").write_bytes(b"no array")
    status, _, err = call(capsys, "run", file, "saxpy", *words, "--threads", "8")
    assert (status, err[: len(text) + 15]) == (1, f"devmod: error: {text}"), err


@pytest.mark.usefixtures("in_process")
def test_errors_of_a_launch_name_options_and_names_of_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = "kernel void f(global const float *in, global float *out) { out[get_global_id(0)] = in[get_global_id(0)]; }"
    devmod.save(devmod.compile(source, "opencl"), tmp_path / "f.devmod")
    words = ["in=random[8]", "out=zeros[8]"]
    subject = "devmod: error: the opencl function 'f'"

    def check(case: tuple[str, list[str], str]) -> None:
        command, given, text = case
        status, _, err = call(capsys, command, tmp_path / "f.devmod", "f", *given)
        assert (status, err) == (1, f"{subject} {text}\n")

    needs = "needs --threads, the number of threads, or --grid, the number of blocks: an int, or up to three ints for x, y, z"
    twice = "was given --grid 2 and --threads 8: give --grid, the number of blocks, or --threads, the number of threads"
    cases = [
        ("run", words, needs),
        ("bench", words, needs),
        *((each, [*words, "--threads", "8", "--grid", "2"], twice) for each in ("run", "verify")),
        ("run", ["im=zeros[8]"], "has no argument 'im'; its arguments: 'in', 'out'"),
        (
            "run",
            ["out=zeros[8]"],
            "is missing an argument: 'in'; it takes 2 arguments (in, out). Give each as NAME=VALUE, such as x=random[1024] or n=1024",
        ),
    ]
    check_each(cases, check)
    given = ("in=random[8]", "out=[1.0, 2.0]", "--threads", "8")
    assert call(capsys, "run", tmp_path / "f.devmod", "f", *given)[2] == (
        f"{subject}: argument 2 'out' is a list, and the kernel takes an array of float32; give a file .npy, or random[N]\n"
    )
    # A size in the place of a type, of an argument whose name is a word of Python.
    assert call(capsys, "run", tmp_path / "f.devmod", "f", "in=random:48", words[1])[2] == (
        "devmod: error: in=random:48: expected a type behind the colon, got '48'; for that many elements: in=random[48]\n"
    )
    printed = call(
        capsys, "run", tmp_path / "f.devmod", "f", *words, "--threads", "8", "--print", "in"
    )
    assert printed[1].splitlines()[1] == "in: float32[8]"


@pytest.mark.parametrize("number", ["nan", "-1", "inf"])
def test_a_tolerance_is_a_finite_number_from_0(
    capsys: pytest.CaptureFixture[str], file: Path, number: str
) -> None:
    for command, option in (
        ("run", "--rtol"),
        ("run", "--atol"),
        ("verify", "--rtol"),
        ("verify", "--atol"),
    ):
        status, out, err = call(capsys, command, file, "saxpy", option, number)
        assert (status, out) == (2, "")
        assert err.splitlines()[-1].startswith(f"devmod: error: Invalid value for '{option}': ")


def test_a_launch_that_is_no_number_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    for command, option in (
        ("run", "--threads"),
        ("run", "--grid"),
        ("verify", "--block"),
        ("bench", "--threads"),
        ("bench", "--block"),
        ("tune", "--grid"),
    ):
        assert call(capsys, command, file, "saxpy", option, "x") == (
            2,
            "",
            f"devmod: error: {option}: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got 'x'\n",
        )
    assert call(capsys, "run", file, "saxpy", "--threads", "48x64x2") == (
        2,
        "",
        "devmod: error: --threads: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got '48x64x2'. "
        "Write a comma between two: 48,64,2\n",
    )


#: A process that runs each command twice: as it is, which imports what it needs and fills caches,
#: and with a limit of 100 bytes for the file that it writes. Commands launch here, as in a frozen
#: program.
LIMITED = """
import json, pkgutil, resource, signal, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from devmod_workbench._cli import main

sys.frozen = True
commands = json.loads(sys.argv[1])

def limited(write):
    def written(*values):
        # As Python sets it; the LLVM of a driver prints and ends the process later.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            write(*values)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return written

def results():
    for command in commands.values():
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            status = main(command)
        yield status, out.getvalue(), err.getvalue()

first = list(results())
for place in ("run.write_array", "bench.Benchmark.plot", "profile.Profile.save"):
    owner, _, name = f"devmod_workbench._tools.{place}".rpartition(".")
    found = pkgutil.resolve_name(owner)
    setattr(found, name, limited(getattr(found, name)))
for name in commands:
    with open(name, "w") as file:
        file.write("old")
print(json.dumps([first, list(results())]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a file's size is one of POSIX")
def test_a_file_that_cannot_be_written_whole_is_unchanged(file: Path) -> None:
    Path("program.py").touch()
    run = [
        "run",
        str(file),
        "saxpy",
        "y=random[9,9]",
        "x=random[9,9]",
        "a=1",
        "n=81",
        "--threads",
        "81",
        "--save",
    ]
    commands = {
        "y.npy": [*run, "y=y.npy"],
        "y.png": [*run, "y=y.png"],
        "p.svg": [
            "bench",
            str(file),
            "saxpy",
            "--threads",
            "64",
            "--repeat",
            "1",
            "--plot",
            "p.svg",
        ],
        "t.json": ["profile", "-o", "t.json", "program.py"],
    }
    command = [sys.executable, "-c", LIMITED, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    as_they_are, limited = json.loads(done.stdout)
    assert [status for status, *_ in as_they_are] == [0, 0, 0, 0]
    shown = ["y.npy", "y.png", "p.svg", str(Path("t.json").absolute())]
    for name, (status, out, err) in zip(shown, limited, strict=True):
        assert (status, out, err.splitlines()[-1:]) == (
            1,
            "",
            [f"devmod: error: {name}: File too large"],
        )
    assert {Path(name).read_text() for name in commands} == {"old"}
    assert [each.name for each in Path().iterdir() if each.suffix == ".partial"] == []


def test_an_unknown_suffix_is_an_error_before_the_launch(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    words = ["saxpy", "y=y.npy", "--threads", "8"]  # there is no such file
    assert call(capsys, "run", file, *words, "--save", "y=y.txt")[2].startswith(
        "devmod: error: --save y=y.txt: expected a file .npy or "
    )
    status, _, err = call(capsys, "bench", file, *words, "--plot", "p")
    assert (status, err) == (1, "devmod: error: plot('p'): expected a file .svg, .png, .pdf\n")


def test_a_missing_folder_is_an_error_before_the_launch(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text("raise AssertionError")
    words = ["saxpy", "y=y.npy", "--threads", "8"]  # there is no such file
    for command in (
        ["run", file, *words, "--save", "y=no/y.npy"],
        ["bench", file, *words, "--plot", "no/p.svg"],
        ["profile", "-o", "no/t.json", "program.py"],
    ):
        assert call(capsys, *command) == (1, "", "devmod: error: no: No such file or directory\n")


def test_bench_prints_in_one_format(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, _, err = call(capsys, "bench", file, "saxpy", "--threads", "8", "--json", "--csv")
    assert (status, err.splitlines()[-1]) == (
        2,
        "devmod: error: expected --json or --csv, got both",
    )


def test_the_shell_completes_the_kinds_of_devices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "bench"):
        words = f"devmod {command} --device open"
        for name, value in (
            ("DEVMOD_COMPLETE", "bash_complete"),
            ("COMP_WORDS", words),
            ("COMP_CWORD", "3"),
        ):
            monkeypatch.setenv(f"_{name}" if name == "DEVMOD_COMPLETE" else name, value)
        with pytest.raises(SystemExit):
            main([])
        assert capsys.readouterr().out == "plain,opencl\n"


def test_a_picture_without_pillow_and_a_plot_without_matplotlib_name_the_install(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("PIL.py").write_text("raise ImportError")  # for the process of the launch
    monkeypatch.syspath_prepend(Path.cwd())
    status, _, err = call(capsys, "run", file, "saxpy", "x=a.png", "--threads", "8")
    assert (status, err) == (
        1,
        "devmod: error: x=a.png: a picture needs Pillow, which is missing: pip install pillow\n",
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    status, _, err = call(
        capsys, "bench", file, "--threads", "8", "--repeat", "1", "--plot", "p.svg"
    )
    assert (status, err) == (
        1,
        "devmod: error: a plot needs matplotlib, which is not installed: pip install matplotlib\n",
    )


@pytest.mark.usefixtures("in_process")
def test_run_returns_the_value_of_a_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("hexagon")
    devmod.save(
        devmod.compile("int add(int a, int b) { return a + b; }", "hexagon -arch=v67"),
        tmp_path / "k.devmod",
    )
    status, out, _ = call(capsys, "run", tmp_path / "k.devmod", "add", "a=40", "b=2")
    assert (status, out.splitlines()[1:]) == (0, ["returned 42"])


# -- the process of the launch


CRASHES = """
__kernel void wild(__global float *x, long distance) { x[get_global_id(0) + distance] = 1; }
__kernel void endless(__global volatile int *x, int limit) { while (x[0] < limit) if (x[0] < 1) x[0] = 0; x[1] = 7; }
__kernel void fine(__global int *x) { x[get_global_id(0)] = 7; }
"""
WILD = ("wild", "x=zeros[64]", "distance=100000000000", "--threads", "64")
OUTSIDE = "The kernel probably accesses memory outside of its arrays."


@pytest.fixture
def crashes(file: Path) -> Path:
    """A file with kernels that end their process, run for ever, and end."""
    devmod.save(devmod.compile(CRASHES, "opencl"), "crashes.devmod")
    return Path("crashes.devmod")


def test_a_kernel_that_ends_its_process_is_an_error_of_run(
    capsys: pytest.CaptureFixture[str], crashes: Path
) -> None:
    begin = (
        "devmod: error: 'wild' of crashes.devmod{}: its launch ends the process with signal 11. "
        + OUTSIDE
    )
    near = "--guard finds the argument of a write near the end of an array; devmod verify crashes.devmod wild launches all candidates"
    far = "A guard finds writes within 4096 bytes of an array: compare the sizes of the arrays and --threads with the kernel's indices"
    assert call(capsys, "run", crashes, *WILD) == (1, "", f"{begin.format('')} {near}\n")
    words = ("--device", "opencl:0", "--guard", "--save", "x=x.npy")
    assert call(capsys, "run", crashes, *WILD, *words) == (
        1,
        "",
        f"{begin.format(' on opencl:0')} {far}\n",
    )
    assert not Path("x.npy").exists()


def test_bench_goes_on_after_a_kernel_that_ends_its_process(
    capsys: pytest.CaptureFixture[str], crashes: Path
) -> None:
    status, out, err = call(
        capsys, "bench", crashes, "wild", "fine", *WILD[2:], "--repeat", "2", "--json"
    )
    rows = [
        (each["function"], each["median"] == "NaN", each["problem"])
        for each in json.loads(out)["measurements"]
    ]
    problem = (
        f"its launch ends the process with signal 11. {OUTSIDE} devmod run crashes.devmod wild with --guard finds the argument of a write "
        "outside of it"
    )
    assert (status, err) == (1, "")
    assert rows == [("wild", True, problem), ("fine", False, "")]


def test_a_time_limit_ends_a_launch_and_none_is_the_default(
    capsys: pytest.CaptureFixture[str], crashes: Path
) -> None:
    endless = ["endless", "x=zeros[2]", "limit=1", "--threads", "1", "--timeout", "1"]
    assert call(capsys, "run", crashes, *endless) == (
        1,
        "",
        "devmod: error: 'endless' of crashes.devmod: its launch takes longer than 1 s. The kernel may never end. Launch fewer threads, or set "
        "a longer --timeout\n",
    )
    status, out, _ = call(capsys, "bench", crashes, *endless, "--json")
    (row,) = json.loads(out)["measurements"]
    assert (status, row["problem"]) == (
        1,
        "its launch takes longer than 1 s. The kernel may never end. Set a longer --timeout",
    )


def test_run_and_bench_read_standard_input(
    capsys: pytest.CaptureFixture[str], crashes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        ["run", "-", "fine", "x=zeros[64]", "--save", "x=x.npy", "--timeout", "600"],
        ["bench", "-", "fine", "x=zeros[64]", "--repeat", "1"],
    ):
        with crashes.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert call(capsys, *words, "--threads", "64")[::2] == (0, "")
    assert np.load("x.npy").tolist() == [7] * 64


def test_an_error_of_the_process_has_its_traceback_with_debug(
    capsys: pytest.CaptureFixture[str], crashes: Path
) -> None:
    text = "the opencl module has no function 'fin'; it has: 'wild', 'endless', 'fine'. Did you mean 'fine'?"
    assert call(capsys, "run", crashes, "fin") == (1, "", f"devmod: error: {text}\n")
    status, _, err = call(capsys, "run", crashes, "fin", "--debug")
    assert status == 1
    assert err.endswith(f"\ndevmod.errors.FunctionNotFoundError: {text}\n")
    assert "in get_function" in err


@pytest.mark.parametrize("reason", ["frozen", "registered"])
def test_a_frozen_program_and_a_registered_kind_launch_in_this_process(
    reason: str, capsys: pytest.CaptureFixture[str], crashes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod.worker.Worker", None)  # no process can be started
    words = ["fine", "x=zeros[64]", "--threads", "64"]
    if reason == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        devmod.register("devmod.device", "opencl", devmod.plugins.lookup("devmod.device", "opencl"))
    try:
        assert call(capsys, "run", crashes, *words)[::2] == (0, "")
        assert call(capsys, "bench", crashes, *words, "--repeat", "1")[::2] == (0, "")
    finally:
        devmod.register("devmod.device", "opencl", None, replace=True)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the state of other processes is read from /proc"
)
@pytest.mark.volume_but("2-run", "15-bench", "9-run")
@pytest.mark.parametrize("command", ["run", "bench"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_launch_that_hangs_ends_with_its_command(
    command: str, number: signal.Signals, tmp_path: Path
) -> None:
    """It hangs with Python's lock, as after a write over the heap, so no thread of its process can
    end it.
    """
    marker = tmp_path / "pid"
    body = (
        "import ctypes, os, pathlib\n"
        f"path = pathlib.Path({str(marker)!r})\npath.with_suffix('.new').write_text(str(os.getpid()))\n"
        "path.with_suffix('.new').rename(path)\nctypes.PyDLL(None).pause()\n"
    )
    install(
        tmp_path / "site",
        "devmod-hangs",
        groups={"devmod.load_from_bytes": {"opencl": "hangs:load"}},
        modules={"hangs": body},
    )
    env = os.environ | {
        "PYTHONPATH": str(tmp_path / "site"),
        "DEVMOD_PLUGINS_ALLOW": "devmod-hangs,devmod-runtime",
    }
    devmod.save(devmod.compile(CL, "opencl"), tmp_path / "k.devmod")
    words = interruptible_python("-m", "devmod", command, str(tmp_path / "k.devmod"), "saxpy")
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    ) as process:
        for _ in range(HANGS * 100):
            if marker.exists():
                break
            time.sleep(0.01)
        stat = Path("/proc") / marker.read_text() / "stat"
        assert stat.exists()
        process.send_signal(number)
        out, err = process.communicate(timeout=HANGS)
    interrupted = number == signal.SIGINT
    assert (process.returncode, out, err) == (
        130 if interrupted else -number,
        "",
        "\ninterrupted\n" if interrupted else "",
    )
    for _ in range(HANGS * 100):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the process of the launch runs")


# -- verify


def bundle(kinds: tuple[str, ...], **sources: str) -> Any:
    for kind in kinds:
        first_device(kind)
    return devmod.bundle(*(saxpy(kind, sources.get(kind, "")) for kind in kinds))


@pytest.mark.usefixtures("in_process")
def test_verify_finds_that_all_candidates_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    devmod.save(bundle(KINDS), tmp_path / "k.devmod")
    (tmp_path / "one.devmod").write_bytes(saxpy_of_opencl())
    status, out, err = call(capsys, "verify", tmp_path / "k.devmod", "--json")
    data = json.loads(out)
    assert (status, err, data["ok"]) == (0, "", True)
    assert [(each["digest"], each["problem"]) for each in data["payloads"]] == [(True, "")] * 4
    compared = {
        each["candidate"].partition("/")[0]: each["outcome"] for each in data["functions"]["saxpy"]
    }
    assert compared == {
        "opencl": "reference",
        "vulkan": "agrees",
        "webgpu": "agrees",
        "hexagon": "agrees",
    }
    text = call(capsys, "verify", tmp_path / "one.devmod", "a=3")[1]
    assert text.startswith(
        "payloads: 1 of 1 intact, 1 compared with a digest\nsaxpy:\n  ran             opencl/cl on opencl:0"
    )
    assert (
        call(capsys, "verify", tmp_path / "one.devmod", "b=3")[2]
        == "devmod: error: verify: no compared function has an argument 'b'\n"
    )


@pytest.mark.usefixtures("in_process")
def test_verify_finds_a_candidate_that_differs_and_one_that_writes_outside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = SOURCES["vulkan"].replace("+ y[i]", "- y[i]")
    outside = SOURCES["webgpu"].replace("y[id.x] = p.a", "y[id.x + 262138u] = p.a")
    module = bundle(("opencl", "vulkan", "webgpu"), vulkan=wrong, webgpu=outside)
    verification = devmod.verify(module)
    first, differs, writes = verification.functions["saxpy"]
    assert (verification.ok, first.outcome, differs.outcome, writes.outcome) == (
        False,
        "reference",
        "differs",
        "writes outside",
    )
    assert " with opencl/cl on opencl:0 for n=16; they differ by " in differs.text
    assert differs.text.startswith("y[")
    assert writes.text.startswith(
        "the webgpu function 'saxpy' has written outside of argument 1 'y': y[262144] is "
    )
    # With any tolerance the write is outside.
    devmod.save(bundle(("opencl", "webgpu"), webgpu=outside), tmp_path / "k.devmod")
    assert call(capsys, "verify", tmp_path / "k.devmod", "saxpy", "--rtol", "1e9")[0] == 1


@pytest.mark.usefixtures("in_process")
@pytest.mark.filterwarnings("ignore:a call of 'saxpy' needs block=")
def test_verify_compares_vectors_with_numbers() -> None:
    """One candidate has a buffer of float, another one of float4: both get the same numbers."""
    vectors = """
    __kernel void saxpy(__global float4 *y, __global const float4 *x, float a, uint n) {
        for (uint i = get_global_id(0); i < n / 4; i += get_global_size(0)) y[i] = a * x[i] + y[i];
    }
    """
    verification = devmod.verify(bundle(("opencl", "webgpu"), opencl=vectors))
    assert [each.outcome for each in verification.functions["saxpy"]] == ["reference", "agrees"]


@pytest.mark.usefixtures("in_process")
def test_verify_compares_arguments_by_name() -> None:
    """The candidates take the arguments in different orders."""
    swapped = "__kernel void two(__global int *b, __global int *a) { a[get_global_id(0)] = 1; b[get_global_id(0)] = 2; }"
    other = swapped.replace("__global int *b, __global int *a", "__global int *a, __global int *b")
    verification = devmod.verify(devmod.bundle(saxpy("opencl", swapped), saxpy("opencl", other)))
    assert [each.outcome for each in verification.functions["two"]] == ["reference", "agrees"]


@pytest.mark.usefixtures("in_process")
def test_verify_lists_the_devices_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no answer")

    first_device("opencl")
    monkeypatch.delenv("DEVMOD_DEVICE")
    source = " ".join(
        f"__kernel void {name}(__global int *a) {{ a[get_global_id(0)] = 2; }}"
        for name in ("one", "two")
    )
    devmod.register("devmod.device", "broken", broken)
    try:
        with pytest.warns(RuntimeWarning) as caught:
            verification = devmod.verify(
                devmod.bundle(saxpy("opencl", source), saxpy("opencl", source))
            )
    finally:
        devmod.register("devmod.device", "broken", None, replace=True)
    assert [{each.outcome for each in checked} for checked in verification.functions.values()] == [
        {"reference", "agrees"}
    ] * 2
    assert [str(each.message) for each in caught] == [
        "devmod.device.broken, registered in this process, failed: RuntimeError: no answer"
    ]


@pytest.mark.usefixtures("in_process")
def test_verify_lists_what_it_cannot_call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    module = devmod.compile(
        """
        __kernel void shared(__local float *s, __global float *x) { s[get_local_id(0)] = 1; x[0] = s[0]; }
        __kernel void fine(__global int *x, int n) { if (get_global_id(0) < n) x[get_global_id(0)] = n; }
        """,
        "opencl",
    )
    functions = devmod.verify(module).functions
    assert {name: (each.outcome, each.text) for name, (each,) in functions.items()} == {
        "shared": (
            "not compared",
            "s: the size of this local memory is unknown; give its bytes, such as local:256 or local:4/thread",
        ),
        "fine": ("ran", "nothing to compare with"),
    }
    given = {"s": "local:4096"}
    with pytest.raises(
        devmod.ArgumentError, match=r"^verify: no compared function has an argument 'q'$"
    ):
        devmod.verify(module, "fine", {"q": 1})
    (shared,) = devmod.verify(module, "shared", given).functions["shared"]
    assert (shared.outcome, shared.text) == (
        "not compared",
        "its interface has no block of threads; give one: --block, or block=",
    )
    for local in ("local:4096", "local:4/thread", Local(256), Local(per_thread=4)):
        (shared,) = devmod.verify(module, "shared", {"s": local}, block=64).functions["shared"]
        assert shared.outcome == "ran"
    devmod.save(module, tmp_path / "k.devmod")
    status, out, _ = call(
        capsys,
        "verify",
        tmp_path / "k.devmod",
        "shared",
        "s=local:4096",
        "--block",
        "16,4",
        "--json",
    )
    assert (status, json.loads(out)["functions"]["shared"][0]["outcome"]) == (0, "ran")
    with pytest.raises(devmod.FunctionNotFoundError):
        devmod.verify(module, "fin")


@pytest.mark.skipif(sys.platform == "darwin", reason="Metal's devices are there")
def test_verify_prints_once_what_the_machine_lacks() -> None:
    source = "kernel void NAME(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 1; }\n"
    modules = [devmod.compile(source.replace("NAME", name), "metal") for name in ("f", "g")]
    lines = str(devmod.verify(devmod.bundle(*modules))).splitlines()
    (reason,) = [line for line in lines if "Metal needs macOS" in line]
    assert lines[1:] == [
        "f:",
        reason,
        "g:",
        "  not compared    metal/metal  as above",
        "no candidate could be launched",
    ]


def test_verify_goes_on_after_a_candidate_that_ends_its_process(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    source = """
    __kernel void crash(__global int *x) { *(__global volatile int *)(ulong)(x[0] & 0) = 1; }
    __kernel void fine(__global int *x) { x[get_global_id(0)] = 1; }
    """
    devmod.save(devmod.compile(source, "opencl"), tmp_path / "k.devmod")
    status, out, _ = call(capsys, "verify", tmp_path / "k.devmod", "--json")
    functions = {
        name: (each["outcome"], each["text"])
        for name, (each,) in json.loads(out)["functions"].items()
    }
    next_step = "Give arguments whose sizes the kernel requires to fit each other, such as n=64"
    crash = "failed", f"its launch ends the process with signal 11. {OUTSIDE} {next_step}"
    assert (status, functions) == (1, {"crash": crash, "fine": ("ran", "nothing to compare with")})


IMAGES = {
    "opencl": """__kernel void image(read_only image2d_t a, sampler_t s, write_only image2d_t b, __global float *x) {
        int2 at = (int2)(get_global_id(0), get_global_id(1));
        float4 texel = read_imagef(a, s, (convert_float2(at) + 0.5f) / 64.0f);
        write_imagef(b, at, texel * 0.7f);
        x[at.y * 64 + at.x] = texel.x;
    }""",
    "vulkan": """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) uniform texture2D a;
layout(binding = 1) uniform sampler s;
layout(binding = 2, rgba16f) uniform writeonly image2D b;
layout(binding = 3) buffer X { float x[]; };
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    vec4 texel = textureLod(sampler2D(a, s), (vec2(at) + 0.5f) / 64.0f, 0.0f);
    imageStore(b, at, texel * 0.7f);
    x[at.y * 64 + at.x] = texel.x;
}""",
    "webgpu": """@group(0) @binding(0) var a: texture_2d<f32>;
@group(0) @binding(1) var s: sampler;
@group(0) @binding(2) var b: texture_storage_2d<rgba16float, write>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(16, 16) fn image(@builtin(global_invocation_id) id: vec3<u32>) {
    let texel = textureSampleLevel(a, s, (vec2f(id.xy) + 0.5) / 64.0, 0.0);
    textureStore(b, id.xy, texel * 0.7);
    x[id.y * 64 + id.x] = texel.x;
}""",
}


@pytest.mark.usefixtures("in_process")
def test_verify_makes_images() -> None:
    """One candidate declares no format, so it gets that of the others. Each texel has a thread."""
    for kind in IMAGES:
        first_device(kind)
    module = devmod.bundle(
        *(devmod.compile(source, kind, name="image") for kind, source in IMAGES.items())
    )
    compared = devmod.verify(module).functions["image"]
    assert [each.outcome for each in compared] == ["reference", "agrees", "agrees"], compared
    wrong = devmod.compile(IMAGES["webgpu"].replace("* 0.7", "* 0.8"), "webgpu")
    first, differs = devmod.verify(
        devmod.bundle(devmod.compile(IMAGES["opencl"], "opencl"), wrong)
    ).functions["image"]
    assert (first.outcome, differs.outcome, differs.text[:2]) == ("reference", "differs", "b[")


@pytest.mark.usefixtures("in_process")
def test_verify_makes_no_input_of_a_size_that_fills_the_memory() -> None:
    first_device("opencl")
    x, n = (
        devmod.Param("x", "buffer", "float32", "rw", size=1 << 29),
        devmod.Param("n", "scalar", "int32"),
    )
    info = devmod.FunctionInfo(
        "f", ["handle", "int32"], interface=devmod.Interface([x, n], block=(1, 1, 1))
    )
    module = devmod.create_with_fallback(
        "opencl", b"__kernel void f(__global float *x, int n) { x[0] = n; }", "cl", {"f": info}
    )
    (compared,) = devmod.verify(module).functions["f"]
    text = "x: the kernel declares 536870912 bytes for it, more than 268435456"
    assert (compared.outcome, compared.text) == ("not compared", text)


@pytest.mark.usefixtures("in_process")
def test_verify_names_the_temporary_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(4):
        (tmp_path / f"{number}-0-0.npy").mkdir()  # it stands for a full folder
    monkeypatch.setattr(
        "devmod_workbench._tools.verify.temporary_folder", lambda: nullcontext(str(tmp_path))
    )
    message = refusal(devmod.DevmodError, devmod.verify, saxpy("opencl"))
    text = "-0-0.npy: Is a directory. Free space there, or set TMPDIR to another folder"
    assert message.startswith(f"verify: the results cannot be written to {tmp_path}")
    assert message.endswith(text)


def test_verify_finds_damaged_payloads(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    data = file.read_bytes()
    at = data.index(b"y[i] = a")
    file.write_bytes(data[:at] + b"z" + data[at + 1 :])
    status, out, _ = call(capsys, "verify", file)
    assert (status, out.splitlines()[0]) == (1, "payloads: 0 of 1 intact, 0 compared with a digest")
    assert (
        "  damaged opencl/cl: 'k.devmod': the opencl module with 'saxpy' is damaged: its SHA-256 "
        in out
    )
    info = devmod.FunctionInfo("f", ["handle"])
    for kind, fmt, code in (
        ("cuda", "cubin", b"\x7fELF junk"),
        ("rocm", "hsaco", b"junk"),
        ("vulkan", "spv", {"f": b"junk" * 8}),
    ):
        (payload,) = devmod.verify(
            devmod.create_with_fallback(kind, code, fmt, {"f": info})
        ).payloads
        assert payload.problem, kind


def test_verify_calls_intact_bytes_with_an_invalid_source_invalid(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    info = devmod.FunctionInfo("f", ["handle"])
    devmod.save(
        devmod.create_with_fallback("webgpu", {"f": b"fn f( {"}, "wgsl", {"f": info}),
        tmp_path / "k.devmod",
    )
    status, out, _ = call(capsys, "verify", tmp_path / "k.devmod")
    first, second = out.splitlines()
    assert (status, first) == (1, "payloads: 1 of 1 intact, 1 compared with a digest")
    assert second.startswith("  invalid webgpu/wgsl: ")
    (payload,) = devmod.verify(devmod.load(tmp_path / "k.devmod")).payloads
    assert (payload.digest, payload.damage, bool(payload.problem)) == (True, "", True)


@pytest.mark.usefixtures("in_process")
def test_verify_takes_a_grid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first_device("opencl")
    source = "__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void f(__global int *x) { x[get_global_id(0)] = get_num_groups(0); }"
    other = source.replace("get_num_groups(0)", "3")
    devmod.save(
        devmod.bundle(*(devmod.compile(each, "opencl") for each in (source, other))),
        tmp_path / "k.devmod",
    )
    assert call(capsys, "verify", tmp_path / "k.devmod")[0] == 1
    status, out, err = call(capsys, "verify", tmp_path / "k.devmod", "--grid", "3")
    assert (status, err, out.splitlines()[-1]) == (0, "", "2 candidates compared on 1 device")


@pytest.mark.usefixtures("in_process")
def test_verify_fails_if_no_candidate_can_be_launched(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    info = devmod.FunctionInfo(
        "f",
        ["handle"],
        interface=devmod.Interface(
            [devmod.Param("x", "buffer", "float32", "rw")], needs=["absent"]
        ),
    )
    source = b"__kernel void f(__global float *x) {}"
    devmod.save(
        devmod.create_with_fallback("opencl", source, "cl", {"f": info}), tmp_path / "k.devmod"
    )
    status, out, err = call(capsys, "verify", tmp_path / "k.devmod")
    assert (status, err, out.splitlines()[-1]) == (
        1,
        "devmod: warning: nothing was compared for 'f'\n",
        "no candidate could be launched",
    )


# -- bench


@pytest.mark.usefixtures("in_process")
def test_bench_measures_each_combination(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    devmod.save(bundle(("opencl", "vulkan", "webgpu")), "k.devmod")
    words = [
        "bench",
        "k.devmod",
        "saxpy",
        "y=zeros[N]",
        "x=random[N]",
        "n=N",
        "a=1",
        "--threads",
        "N",
        "--size",
        "N=1024,4096",
    ]
    words += [
        "--device",
        "opencl",
        "--device",
        "vulkan",
        "--device",
        "webgpu",
        "--repeat",
        "3",
        "--warmup",
        "1",
    ]
    status, out, err = call(capsys, *words, "--csv", "--plot", "p.svg")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (status, err) == (0, "")
    assert [(row["device"], row["sizes"]) for row in rows] == [
        (f"{kind}:0", f"N={size}")
        for kind in ("opencl", "vulkan", "webgpu")
        for size in (1024, 4096)
    ]
    for row in rows:
        low, median, high = (float(row[name]) for name in ("quartile1", "median", "quartile3"))
        assert 0 < low <= median <= high < 10
        moved = 12 * int(row["sizes"][2:])  # y is read and written, and x is read
        assert float(row["gb_per_s"]) == pytest.approx(moved / median * 1e-9)
        assert row["clock"] in ("device", "host")
    assert Path("p.svg").read_text().startswith("<?xml")
    status, out, _ = call(capsys, *words[:-8], "--repeat", "1")
    assert (status, " ".join(out.split("\n")[0].split())) == (
        0,
        "file function device sizes median 25 % 75 % GB/s clock",
    )


@pytest.mark.parametrize("words", [("-t", "cuda"), ("--simulated", "--sanitize")])
def test_run_names_the_option_of_compile_that_a_source_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 x, .param .f32 y) { ret; }\n"
    (tmp_path / "f.ptx").write_text(ptx)
    status, out, err = call(capsys, "run", tmp_path / "f.ptx", "f", *words, "y=1")
    assert (status, out) == (3 if "--sanitize" in words else 1, "")
    assert (
        "Declare the kernels that you call: devmod compile … --function 'f(handle, float32)'. "
        in err
    )


@pytest.mark.usefixtures("in_process")
def test_bench_measures_the_others_beside_a_function_that_fits_no_device(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    params = [devmod.Param("x", "buffer", "float32", "rw")]
    info = devmod.FunctionInfo(
        "f", ["handle"], interface=devmod.Interface(params, needs=["absent"])
    )
    other = devmod.create_with_fallback(
        "opencl", b"__kernel void f(__global float *x) {}", "cl", {"f": info}
    )
    devmod.save(
        devmod.bundle(
            other, devmod.compile("__kernel void g(__global float *x) { x[0] = 1; }", "opencl")
        ),
        tmp_path / "k.devmod",
    )
    status, out, err = call(
        capsys, "bench", tmp_path / "k.devmod", "x=zeros[1]", "--threads", "1", "--csv"
    )
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (status, err, [row["function"] for row in rows]) == (1, "", ["f", "g"])
    assert rows[0]["problem"].startswith(
        "no candidate of the bundle can run 'f' here: 1. opencl/cl: needs 'absent', which neither this devmod nor opencl device "
    )
    assert (rows[1]["problem"], float(rows[1]["median"]) > 0) == ("", True)


@pytest.mark.usefixtures("in_process")
def test_bench_lists_what_cannot_be_measured(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    status, out, _ = call(
        capsys,
        "bench",
        file,
        "--threads",
        "64",
        "--block",
        "32",
        "--block",
        "1048576",
        "--repeat",
        "2",
        "--json",
    )
    good, bad = json.loads(out)["measurements"]
    assert (status, good["block"], good["problem"], good["gb_per_s"]) == (1, "32", "", None)
    assert (bad["block"], bad["median"]) == ("1048576", "NaN")
    assert bad["problem"].startswith("the opencl function 'saxpy' cannot be launched on ")
    status, _, err = call(capsys, "bench", "no.devmod", "--threads", "64")
    assert (status, err.splitlines()[-1]) == (2, "devmod: error: there is no file 'no.devmod'")
    status, _, err = call(capsys, "bench", file, "saxpi", "--threads", "64")
    assert (status, err) == (
        1,
        "devmod: error: there is no file and no function 'saxpi'; the functions: 'saxpy'\n",
    )


@pytest.mark.usefixtures("in_process")
def test_bench_goes_on_after_a_combination_that_does_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("vulkan")
    first_device("opencl")
    path = tmp_path / "k.devmod"
    devmod.save(bundle(("opencl", "vulkan")), path)  # Vulkan's has blocks of 64 threads
    words = [
        "bench",
        path,
        "--threads",
        "64",
        "--device",
        "opencl",
        "--device",
        "vulkan",
        "--repeat",
        "1",
        "--json",
    ]
    status, out, _ = call(capsys, *words, "--block", "64", "--block", "32")
    found = {
        (each["device"], each["block"]): each["problem"] for each in json.loads(out)["measurements"]
    }
    text = "the vulkan function 'saxpy' is built for blocks of (64, 1, 1) threads, and (32, 1, 1) was given; omit block="
    assert (status, found) == (
        1,
        {
            ("opencl:0", "64"): "",
            ("opencl:0", "32"): "",
            ("vulkan:0", "64"): "",
            ("vulkan:0", "32"): text,
        },
    )
    status, out, err = call(capsys, *words, "q=1")  # wrong in each combination
    assert (status, out) == (1, "")
    assert (
        err
        == "devmod: error: the opencl function 'saxpy' has no argument 'q'; its arguments: 'y', 'x', 'a', 'n'\n"
    )


@pytest.mark.usefixtures("in_process")
def test_bench_gives_each_function_its_arguments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_device("opencl")
    devmod.save(
        saxpy(
            "opencl",
            CL
            + "__kernel void half_of(__global float *z, uint n) { z[get_global_id(0) % n] /= 2; }",
        ),
        tmp_path / "k.devmod",
    )
    words = [
        "bench",
        tmp_path / "k.devmod",
        "y=zeros[N*2]",
        "x=random[N*2]",
        "z=zeros[N*2]",
        "n=N*2",
        "a=1",
        "--threads",
        "N*2",
    ]
    status, out, _ = call(capsys, *words, "--size", "N=64", "--repeat", "1", "--json")
    assert status == 0
    assert {(each["function"], each["problem"]) for each in json.loads(out)["measurements"]} == {
        ("saxpy", ""),
        ("half_of", ""),
    }


@pytest.mark.usefixtures("in_process")
def test_bench_lists_a_problem_of_a_bundle_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own, newer = "v67", "v68"
    if "(v73 " in repr(first_device("hexagon")):  # the emulator of Debian 13
        own, newer = "v73", "v75"
    devmod.save(
        devmod.bundle(
            saxpy("opencl"), devmod.compile(SOURCES["hexagon"], f"hexagon -arch={newer}")
        ),
        tmp_path / "k.devmod",
    )
    data = json.loads(
        call(
            capsys,
            "bench",
            tmp_path / "k.devmod",
            "--device",
            "hexagon",
            "--threads",
            "64",
            "--json",
        )[1]
    )
    assert data["measurements"][0]["problem"] == (
        f"no candidate of the bundle can run 'saxpy' here: 1. hexagon/so for {newer}: no hexagon device fits {newer}; there is: {own}"
    )


def test_bench_in_a_program_and_on_hexagon() -> None:
    first_device("hexagon")
    x = np.ones(256, "float32")
    benchmark = devmod.bench(
        {"a": saxpy("hexagon"), "b": saxpy("hexagon")},
        "saxpy",
        {"x": x, "y": x, "a": 1, "n": 256},
        devices="hexagon:0",
        repeat=2,
    )
    assert [(each.label, each.clock, each.problem) for each in benchmark.measurements] == [
        ("a saxpy hexagon:0", "device", ""),
        ("b saxpy hexagon:0", "device", ""),
    ]
    with pytest.raises(
        devmod.ArgumentError, match=r"^bench\(repeat\): expected an int of 1 or more, got 0$"
    ):
        devmod.bench(saxpy("hexagon"), repeat=0)
    with pytest.raises(devmod.ArgumentError, match=r"^sizes: expected lists .*, got \['n'\]$"):
        devmod.bench(saxpy("hexagon"), sizes=["n"])  # type: ignore[arg-type]
