"""What `devmod.verify` finds: twelve wrong candidates, and innocent ones that look like them.
docs/reliability.md has the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from backend_checks import first_device
from checker import checker, policy
from command_line import call

import devmod
from devmod.worker import End
from devmod_workbench._tools.difference import worst_difference
from devmod_workbench._tools.launches import Conversation

__all__ = ["checker", "policy"]

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = "__attribute__((reqd_work_group_size({}, 1, 1)))"
SQUARE = "__attribute__((reqd_work_group_size(16, 16, 1)))"
I = "uint i = get_global_id(0);"  # noqa: E741 - the kernels' name


class Pair(NamedTuple):
    """A kernel, and another candidate of it: a wrong one, or an innocent one that looks wrong."""

    label: str
    parameters: str
    sound: str
    other: str
    attributes: str = BLOCK.format(64)
    other_attributes: str = ""


WRONG = {
    "local_id": Pair(
        "the local number of a thread for the global one",
        "__global float *y, __global const float *x, uint n",
        f"{I} if (i < n) y[i] = 2 * x[i];",
        "uint i = get_local_id(0); if (i < n) y[i] = 2 * x[i];",
    ),
    "last": Pair(
        "the last element lost",
        "__global float *y, uint n",
        f"{I} if (i < n) y[i] = i;",
        f"{I} if (i < n - 1) y[i] = i;",
    ),
    "axes": Pair(
        "axes exchanged",
        "__global float *y, __global const float *x, uint width, uint height",
        "uint a = get_global_id(0), b = get_global_id(1); if (a < width && b < height) y[b * width + a] = x[b * width + a] + 1;",
        "uint a = get_global_id(0), b = get_global_id(1); if (a < height && b < width) y[b * width + a] = x[b * width + a] + 1;",
        SQUARE,
    ),
    "stride": Pair(
        "the stride of the other axis",
        "__global float *y, __global const float *x, uint width, uint height",
        "uint a = get_global_id(0), b = get_global_id(1); if (a < width && b < height) y[a * height + b] = x[b * width + a];",
        "uint a = get_global_id(0), b = get_global_id(1); if (a < width && b < height) y[a * width + b] = x[b * width + a];",
        SQUARE,
    ),
    "overflow": Pair(
        "an integer that overflows",
        "__global int *y, int n",
        f"{I} if (i < n) y[i] = n * n * n;",
        f"{I} if (i < n) y[i] = (short)(n * n * n);",
    ),
    "narrow": Pair(
        "a sum in float16",
        "__global float *y, __global const float *x, uint n",
        "if (get_global_id(0) == 0) { float s = 0; for (uint j = 0; j < n; ++j) s += x[j]; y[0] = s; }",
        "if (get_global_id(0) == 0) { uint h[1]; float s = 0; for (uint j = 0; j < n; ++j) "
        "{ vstore_half(s + x[j], 0, (half *)h); s = vload_half(0, (half *)h); } y[0] = s; }",
    ),
    "digit": Pair(
        "a constant that is wrong in its fifth digit",
        "__global float *y, __global const float *x, uint n",
        f"{I} if (i < n) y[i] = 3.1416f * x[i];",
        f"{I} if (i < n) y[i] = 3.1415f * x[i];",
    ),
    "unwritten": Pair(
        "an output that is not written",
        "__global float *y, __global float *z, uint n",
        f"{I} if (i < n) {{ y[i] = 5; z[i] = 1; }}",
        f"{I} if (i < n) z[i] = 1 + 0 * y[i];",
    ),
    "bytes": Pair(
        "bytes in the other order",
        "__global uint *y, uint n",
        f"{I} if (i < n) y[i] = 0xff102030u;",
        f"{I} if (i < n) y[i] = 0xff302010u;",
    ),
    "invalid": Pair(
        "NaN for some inputs",
        "__global float *y, __global const float *x, uint n",
        f"{I} if (i < n) y[i] = x[i] > 0.5f ? sqrt(x[i] - 0.5f) : 0;",
        f"{I} if (i < n) y[i] = sqrt(x[i] - 0.5f);",
    ),
    "reversed": Pair(
        "a missing barrier",
        "__global float *y, __global const float *x, uint n",
        "__local float t[64]; uint l = get_local_id(0); t[l] = x[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); "
        "y[get_global_id(0)] = t[63 - l];",
        "__local float t[64]; uint l = get_local_id(0); t[l] = x[get_global_id(0)]; y[get_global_id(0)] = t[63 - l];",
    ),
    "race": Pair(
        "a race",
        "__global int *y, uint n",
        f"{I} if (i < n) atomic_inc(&y[0]);",
        f"{I} if (i < n) y[0] += 1;",
    ),
}
INNOCENT = {
    "cancellation": Pair(
        "a difference of sums in another order",
        "__global float *y, __global const float *x, uint n",
        f"{I} if (i < n) {{ float s = 0; for (uint j = 0; j < n; ++j) s += x[j] - x[i + j]; y[i] = s; }}",
        f"{I} if (i < n) {{ float s = 0, t = 0; for (uint j = 0; j < n; ++j) {{ s += x[j]; t += x[i + j]; }} y[i] = s - t; }}",
    ),
    "padding": Pair(
        "another number behind three",
        "__global float3 *y, uint n",
        f"{I} if (i < n) vstore3((float3)(i), 0, (__global float *)(y + i));",
        f"{I} if (i < n) ((__global float4 *)y)[i] = (float4)(i, i, i, 5);",
    ),
    "loop": Pair(
        "a loop over the grid",
        "__global float *y, uint n",
        f"{I} if (i < n) y[i] = i;",
        f"{I} for (; i < n; i += get_global_size(0)) y[i] = i;",
        BLOCK.format(64),
        BLOCK.format(32),
    ),
    "unbounded": Pair(
        "other blocks, and no test of the bounds",
        "__global float *y, uint n",
        f"{I} y[i] = n;",
        f"{I} y[i] = n;",
        BLOCK.format(64),
        BLOCK.format(256),
    ),
    "open_block": Pair(
        "a block that the call chooses",
        "__global float *y, uint n",
        f"{I} if (i < n) y[i] = i;",
        f"{I} if (i < n) y[i] = i;",
        BLOCK.format(64),
        " ",
    ),
    "atomics": Pair(
        "a sum of integers in another order",
        "__global int *y, __global const int *x, uint n",
        f"{I} if (i < n) atomic_add(&y[0], x[i]);",
        "if (get_global_id(0) == 0) for (uint j = 0; j < n; ++j) y[0] += x[n - 1 - j];",
    ),
    "rows": Pair(
        "a row for each thread, of three sizes",
        "__global float *y, __global const float *x, int batch, int rows, int columns",
        "int i = get_global_id(0); if (i < batch * rows) for (int j = 0; j < columns; ++j) y[i * columns + j] = 2 * x[i * columns + j];",
        "int i = get_global_id(0); if (i < batch * rows) for (int j = columns; j-- > 0;) y[i * columns + j] = 2 * x[i * columns + j];",
    ),
}


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("opencl")
    monkeypatch.setenv("DEVMOD_DEVICE", "opencl:0,vulkan:0,webgpu:0")


def outcomes(pairs: dict[str, Pair]) -> dict[str, tuple[devmod.Verification, str]]:
    """Return the outcome of the other candidate of each pair, by its label."""

    def source(body: str, attributes: str) -> str:
        return "".join(
            f"__kernel {getattr(pair, attributes) or pair.attributes} void {name}({pair.parameters}) {{ {getattr(pair, body)} }}\n"
            for name, pair in pairs.items()
        )

    modules = (
        devmod.compile(source("sound", "attributes"), "opencl"),
        devmod.compile(source("other", "other_attributes"), "opencl"),
    )
    functions = devmod.verify(devmod.bundle(*modules, mixed=True)).functions
    assert {compared[0].outcome for compared in functions.values()} == {"reference"}
    return {pairs[name].label: compared[1].outcome for name, compared in functions.items()}


@pytest.mark.usefixtures("in_process")
def test_verify_finds_wrong_candidates() -> None:
    found = outcomes(WRONG)
    page = (
        (DOCS / "reliability.md")
        .read_text()
        .partition("| verify | wrong source |")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| ([a-z ]+) \| (.*) \|$", page, re.MULTILINE)
    expected = {label: outcome for outcome, labels in rows for label in labels.split("; ")}
    by_order = {label: found[label] for label, outcome in expected.items() if outcome == "sanitize"}
    assert found == expected | by_order
    assert len(expected) == 12


@pytest.mark.usefixtures("in_process")
def test_verify_accuses_no_innocent_candidate() -> None:
    found = outcomes(INNOCENT)
    assert found == dict.fromkeys(found, "agrees")


def compare(
    *sources: str, target: str = "opencl", **options: object
) -> tuple[devmod.Verification, list[tuple[str, str]]]:
    """Return the verification of the candidates of one function `f`, and their outcomes and
    texts.
    """
    modules = [devmod.compile(source, target) for source in sources]
    verification = devmod.verify(devmod.bundle(*modules, mixed=True), **options)  # type: ignore[arg-type]
    return verification, [(each.outcome, each.text) for each in verification.functions["f"]]


OUTSIDE = "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(__global float *y, int n) { y[get_global_id(0) + n * %s] = 1; }"


@pytest.mark.usefixtures("in_process")
def test_a_write_outside_that_every_candidate_makes_with_the_sizes_of_verify_is_no_error() -> None:
    both, outcomes = compare(
        OUTSIDE % "16384", OUTSIDE % "16384"
    )  # 16 * 16384 is the end of the array
    assert (both.ok, [outcome for outcome, _ in outcomes]) == (True, ["not compared"] * 2)
    assert outcomes[0][1].startswith(
        "every candidate does this for n=16 with sizes that devmod chose: the opencl function 'f' has written outside"
    )
    assert outcomes[0][1].endswith(". Give the sizes: NAME=VALUE and --threads")
    second, outcomes = compare(
        OUTSIDE % "2114", OUTSIDE % "2114"
    )  # 124 * 2114 + 8 is the end of the array
    assert (second.ok, [outcome for outcome, _ in outcomes]) == (True, ["reference", "agrees"])
    assert "every candidate does this for n=124 with sizes that devmod chose: " in outcomes[1][1]
    one, outcomes = compare(OUTSIDE % "1", OUTSIDE % "2114")
    assert (one.ok, [outcome for outcome, _ in outcomes]) == (False, ["ran", "writes outside"])
    given, outcomes = compare(
        *[OUTSIDE % "1"] * 2, arguments={"y": "zeros:float32[100]", "n": 90}, threads=64
    )
    assert (given.ok, [outcome for outcome, _ in outcomes]) == (False, ["writes outside"] * 2)


@pytest.mark.usefixtures("in_process")
def test_a_read_outside_is_a_finding_unless_every_candidate_makes_it_with_the_sizes_of_verify() -> (
    None
):
    reads = (
        "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(__global float *y, __global const float *x, int n) {\
 y[get_global_id(0)] = x[get_global_id(0) + n * %s]; }"
    )
    both, outcomes = compare(*[reads % "16384"] * 2)
    assert (both.ok, [outcome for outcome, _ in outcomes]) == (True, ["not compared"] * 2)
    start = "every candidate does this for n=16 with sizes that devmod chose: the opencl function 'f' has read outside of its arrays: y["
    assert outcomes[0][1].startswith(start)
    one, outcomes = compare(reads % "1", reads % "16384")
    assert (one.ok, [outcome for outcome, _ in outcomes]) == (False, ["ran", "reads outside"])


@pytest.mark.usefixtures("in_process")
def test_an_array_that_another_candidate_writes_is_compared() -> None:
    writes = "__kernel void f(__global float *y, __global float *z) { y[get_global_id(0)] = 5; z[get_global_id(0)] = 1; }"
    reads = "__kernel void f(__global const float *y, __global float *z) { z[get_global_id(0)] = 1 + 0 * y[get_global_id(0)]; }"
    for sources in ((writes, reads), (reads, writes)):
        verification, outcomes = compare(*sources)
        assert (verification.ok, outcomes[1][0], outcomes[1][1][:2]) == (False, "differs", "y[")


UNTYPED = (
    f"typedef %s E; __kernel {BLOCK.format(64)} void f(__global const %s *bytes, __global uint *y, int n)\
 {{ int i = get_global_id(0); if (i < n) y[i] = ((__global const E *)bytes)[i]%s + %s; }}"
)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("element", "member"), [("uint", ""), ("struct { float v; uint x; }", ".x")]
)
def test_an_array_without_a_type_has_that_of_another_candidate(element: str, member: str) -> None:
    bodies = (("void", 1), ("E", 1), ("void", 2))
    _, outcomes = compare(*[UNTYPED % (element, type_, member, plus) for type_, plus in bodies])
    assert [outcome for outcome, _ in outcomes] == ["reference", "agrees", "differs"]
    assert "with opencl/cl on opencl:0 for n=16; they differ by 1" in outcomes[2][1]


@pytest.mark.usefixtures("in_process")
def test_a_given_array_without_a_type_has_that_of_another_candidate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    void, typed, floats = [UNTYPED % ("uint", type_, "", 1) for type_ in ("void", "E", "float")]
    _, outcomes = compare(void, typed, arguments={"bytes": "random[1000]", "n": 900})
    assert [outcome for outcome, _ in outcomes] == ["reference", "agrees"]
    # Two types are none, and one candidate is compared with nothing.
    _, outcomes = compare(void, typed, floats)
    assert outcomes[0] == ("not compared", "bytes: its type is unknown")
    devmod.save(devmod.compile(void, "opencl"), tmp_path / "k.devmod")
    for strict in (False, True):
        words = [
            "verify",
            tmp_path / "k.devmod",
            "bytes=random:uint8[8000]",
            "n=900",
            "--threads",
            "900",
            *["--strict"] * strict,
        ]
        status, out, err = call(capsys, *words)
        assert (status, err, " ran " in out) == (
            int(strict),
            "devmod: warning: nothing was compared for 'f'\n",
            True,
        )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("type_", "sound", "passes", "fails"),
    [
        ("float", "x[i] / 3", "x[i] * (1 / 3.0f)", "x[i] * 0.3334f"),
        ("double", "x[i] / 3", "x[i] * (1 / 3.0)", "(float)(x[i] / 3)"),
        ("int", "i * 65537", "(i << 16) + i", "i * 65537 + 1"),
        ("ulong", "i + (1ul << 60)", "(1ul << 60) + i", "i + (1ul << 60) + 1"),
    ],
)
def test_the_tolerance_follows_the_type(type_: str, sound: str, passes: str, fails: str) -> None:
    source = "__kernel void f(__global {0} *y, __global const {0} *x) {{ int i = get_global_id(0); y[i] = {1}; }}"
    verification, outcomes = compare(
        *(source.format(type_, each) for each in (sound, passes, fails))
    )
    assert [outcome for outcome, _ in outcomes] == ["reference", "agrees", "differs"], verification


def test_one_integer_differs_by_more_than_its_type_has() -> None:
    one = [np.array(number, "int64") for number in (-(2**63), 0)]
    assert worst_difference("y", *one, None, None)[::4] == (2.0**63, True)


@pytest.mark.parametrize("names", [("small", "large"), ("large", "small")])
def test_a_wrong_member_of_a_struct_is_found_beside_a_larger_rounding(
    names: tuple[str, str],
) -> None:
    dtype = [(each, "float32") for each in names]
    expected = np.zeros(3, dtype)
    expected["small"], expected["large"] = 1, 1 << 20
    array = expected.copy()
    array["large"] += 1  # within the tolerance
    array["small"][1] += 0.125
    found = worst_difference("y", array, expected, None, None)
    assert (found.is_error, found.error, found.place) == (True, 0.125, (1,))
    array["small"][1] = 1
    found = worst_difference("y", array, expected, None, None)
    assert (found.is_error, found.error) == (False, 1)


@pytest.mark.usefixtures("in_process")
def test_results_of_bfloat16_are_compared() -> None:
    module = devmod.compile(
        "__kernel void f(__global ushort *y) { y[get_global_id(0)] = 0x3f80; }", "opencl"
    )
    other = devmod.compile(
        "__kernel void f(__global ushort *y) { y[get_global_id(0)] = 0x4000; }", "opencl"
    )
    param = devmod.Param("y", "buffer", "bfloat16", "rw")

    def bfloat16(module: devmod.Module) -> devmod.Module:
        info = module.functions["f"]
        assert info.interface is not None
        fmap = {
            "f": devmod.FunctionInfo(
                "f", ["handle"], info.launch_param_tags, (), info.interface.replace(params=[param])
            )
        }
        return devmod.create("opencl", module.inspect_source().encode(), "cl", fmap)

    verification = devmod.verify(devmod.bundle(bfloat16(module), bfloat16(module), bfloat16(other)))
    assert [each.outcome for each in verification.functions["f"]] == [
        "reference",
        "agrees",
        "differs",
    ], verification


@pytest.fixture
def broken_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> devmod.Device:
    """Let PoCL build nothing, in this process and in those that it starts."""
    device = next(
        (each for each in devmod.devices("opencl") if each.name.startswith("pthread")),
        None,
    )
    if device is None or device.index == 0:
        pytest.skip("no PoCL device behind another OpenCL device")
    monkeypatch.delenv("DEVMOD_DEVICE")
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "--no-such-flag")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return device


def test_verify_leaves_out_a_device_that_runs_no_kernel(broken_device: devmod.Device) -> None:
    source = "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(__global int *y, int n) { y[get_global_id(0)] = n; }"
    wrong = source.replace("{ y", "{ *(__global volatile int *)(ulong)(n & 0) = 1; y")
    verification, outcomes = compare(source, source, wrong)
    assert (verification.ok, [outcome for outcome, _ in outcomes]) == (
        False,  # a candidate fails on a device in order
        ["reference", "left out", "agrees", "left out", "failed", "left out"],
    )
    assert outcomes[1][1].startswith(f"opencl:{broken_device.index} runs no small kernel either: ")
    assert str(verification).splitlines()[-1] == "2 candidates compared on 1 device"


def test_doctor_runs_a_kernel_on_each_device(
    broken_device: devmod.Device,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [each for each in devmod.doctor("opencl").checks if each.part == "kernel"]
    assert [each.state for each in rows] == ["problem"]
    place = f"opencl:{broken_device.index} ({broken_device.name})"
    assert rows[0].text.startswith(f"{place} does not run a small kernel: ")
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "")
    status, out, _ = call(capsys, "doctor", "opencl")
    assert (status, "; a small kernel runs" in out) == (0, True)


@pytest.mark.row("R46")
def test_verify_and_doctor_run_under_a_policy(
    checker: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they pass to their own processes has no signature, and no policy is asked about it."""
    monkeypatch.setenv("REFUSE_RAW", "1")
    source = "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(__global int *y, int n) { y[get_global_id(0)] = n; }"
    verification, outcomes = compare(source, source)
    assert (verification.ok, outcomes[1][0]) == (True, "agrees")
    assert [each.state for each in devmod.doctor("opencl").checks if each.part == "kernel"] == [
        "ok"
    ]


def test_a_candidate_that_ends_its_process_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = (None, End(-6, "ends the process with signal 6"))
    monkeypatch.setattr(Conversation, "ask", lambda *_: ended)
    monkeypatch.setattr("devmod_workbench._tools.trials.device_problems", lambda _: {})
    given = {"y": "zeros:float32[100]", "n": 90}
    verification = devmod.verify(
        devmod.compile(OUTSIDE % "0", "opencl"), arguments=given, threads=64
    )
    (found,) = verification.functions["f"]
    assert (found.outcome, found.text) == (
        "failed",
        "its launch ends the process with signal 6. The driver ended it after an error, or the kernel wrote over the driver's memory. Give "
        "arguments whose sizes the kernel requires to fit each other, such as n=64",
    )
