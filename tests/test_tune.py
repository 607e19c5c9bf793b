"""`devmod tune` on real devices, with faults planted among the variants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call

import devmod
from devmod_runtime.tools.launches import Conversation
from devmod_runtime.tools.search import LAUNCHES
from devmod_runtime.tools.tune import VariantTimes

#: MODE is the fault of a variant: 0, 10 and 20 have none, 1 is wrong, 2 does nothing, 3 writes far
#: outside, 4 never ends.
CL = """
#ifndef MODE
#define MODE 0
#endif
__kernel void scale(__global float *y, __global const float *x, uint n) {
    uint i = get_global_id(0);
    if (MODE == 3) y[(size_t)1 << 40] = 0;
    if (MODE == 4) while (y[0] > -1e30f) y[0] += 1;
    if (i < n && MODE % 10 == 0) y[i] += 2 * x[i];
    if (i < n && MODE == 1) y[i] += (i == 5 ? 3 : 2) * x[i];
}
"""
WGSL = """
override MODE: u32 = 0;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<uniform> n: u32;
@compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < n && MODE % 10 == 0) { y[id.x] += 2 * x[id.x]; }
    if (id.x < n && MODE == 1) { y[id.x] += 3 * x[id.x]; }
}
"""
GLSL = """#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint MODE = 0;
layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(push_constant) uniform P { uint n; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n && MODE % 10 == 0) y[i] += 2 * x[i];
    if (i < n && MODE == 1) y[i] += 3 * x[i];
}
"""
SOURCES = {"opencl": CL, "vulkan": GLSL, "webgpu": WGSL}
GIVEN = {"y": "random[n]", "x": "random[n]"}


def tuned(*modes: int, kind: str = "opencl") -> devmod.Module:
    """Return the function `scale` with variants by MODE."""
    first_device(kind)
    options: dict[str, Any] = {}
    if kind == "opencl":
        options["block"] = 64
    if kind == "vulkan":
        options["name"] = "scale"
    return devmod.compile(
        SOURCES[kind], kind, tune={"MODE": modes}, sizes=["n"], grid="ceildiv(n, 64)", **options
    )


def interrupt_at(monkeypatch: pytest.MonkeyPatch, variant: int, end: Any) -> None:
    """Let the check of a variant raise an exception, or end its process as `end` says."""
    ask = Conversation.ask

    def ask_until(self: Conversation, item: Any) -> Any:
        if item[0] != "check" or item[2] != variant:
            return ask(self, item)
        if isinstance(end, str):
            return None, end
        raise end

    monkeypatch.setattr(Conversation, "ask", ask_until)


def tune(*modes: int, sizes: tuple[int, ...] = (100,), **options: Any) -> devmod.TuningResult:
    """Tune `scale` with variants by MODE."""
    return devmod.tune(tuned(*modes), arguments=GIVEN, sizes={"n": sizes}, **options)


def failed(result: devmod.TuningResult) -> list[bool]:
    """Return whether each variant failed with each size."""
    return [each.problem != "" for each in result.times]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", SOURCES)
def test_each_kind_is_measured_and_variants_that_are_wrong_or_do_nothing_fail(kind: str) -> None:
    module = tuned(0, 1, 2, 10, kind=kind)
    result = devmod.tune(module, "scale", GIVEN, sizes={"n": [1000, 3000]}, devices=[f"{kind}:0"])
    assert result.is_complete
    assert failed(result) == [False, True, True, False] * 2
    for each in result.times:
        if each.problem:
            assert " with the first variant" in each.problem
        else:
            assert each.quartile1 <= each.median <= each.quartile3
            assert each.launches >= LAUNCHES

    (record,) = result.records
    assert (record.function, record.kind) == ("scale", kind)
    assert record.device == devmod.device(f"{kind}:0").name
    assert (record.constants, record.sizes) == (("MODE",), ("n",))
    assert record.measured[(1000,), (0,)] == result.times[0].median
    assert record.measured[(3000,), (2,)] is None


def test_a_variant_that_ends_the_process_or_hangs_has_failed() -> None:
    for timeout in (4.0, 20.0, 100.0):
        result = tune(0, 3, 4, 10, timeout=timeout)
        problems = [each.problem for each in result.times]
        late = f"its launch takes longer than {timeout:g} s"
        if problems.count(late) == 1:  # else the machine is busy
            break
    assert problems == ["", "its launch ends the process with signal 11", late, ""]
    assert result.is_complete


@pytest.mark.usefixtures("in_process")
def test_a_variant_that_is_wrong_with_one_size_is_used_with_none() -> None:
    """MODE 1 is wrong from the sixth element on."""
    result = tune(0, 1, sizes=(5, 6))
    assert failed(result) == [False, False, False, True]
    (record,) = result.records
    assert record.measured[(5,), (1,)] is record.measured[(6,), (1,)] is None


@pytest.mark.usefixtures("in_process")
def test_the_first_variant_that_can_be_launched_is_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupt_at(monkeypatch, 0, "ends the process with signal 6")
    assert failed(tune(0, 10, 1)) == [True, False, True]


@pytest.mark.usefixtures("in_process")
def test_arrays_that_a_variant_writes_are_reset_before_each_launch() -> None:
    """A second launch on its own results would differ from the first variant's."""
    y = np.ones(64, "float32")
    with devmod.profile() as recorded:
        result = devmod.tune(tuned(0, 10, 20), arguments={"y": y, "x": y, "n": 64}, rtol=0, atol=0)
    assert not any(failed(result))
    resets = [each for each in recorded.records if each.name == "copy on the device"]
    assert len(resets) >= sum(each.launches for each in result.times) + len(result.times)
    assert y.tolist() == [1.0] * 64


@pytest.mark.usefixtures("in_process")
def test_a_second_search_measures_what_is_new() -> None:
    first = tune(0, 1)
    second = tune(1, 0, 10, records=first.records)
    wrong, old, new = second.times
    assert (wrong.launches, old.launches) == (0, 0)
    assert new.launches >= LAUNCHES
    assert old.median == first.times[0].median
    assert second.records[0].measured.keys() > first.records[0].measured.keys()
    third = tune(0, 1, 10, records=[first.records[0].replace(driver="another")])
    assert [each.launches >= LAUNCHES for each in third.times] == [True, False, True]


@pytest.mark.usefixtures("in_process")
def test_the_time_of_a_search_has_a_limit() -> None:
    result = tune(0, 10, budget=0)
    assert (result.times, result.records, result.is_complete) == ((), (), False)
    assert str(result) == "the search has not come to its end; run it again for the other variants"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {},
            "tune: the opencl function 'scale' is tuned by n, which is missing; give some, as in --size n=1e5,1e6",
        ),
        (
            {"sizes": {"n": [100]}},
            "tune: the opencl function 'scale' needs 'y', 'x', whose lengths do not follow from the sizes; give them, as in y=random[n]",
        ),
        (
            {"arguments": {**GIVEN, "z": "1"}, "sizes": {"n": [100]}},
            "the opencl function 'scale' has no argument 'z'; its arguments: 'y', 'x', 'n'",
        ),
        (
            {"arguments": {**GIVEN, "n": "50"}, "sizes": {"n": [100, 200]}},
            "tune: 'scale' is tuned by 'n', and two combinations of sizes are equal in that; give one of them",
        ),
        (
            {"arguments": {"y": "zeros[n]", "x": "zeros[n]"}, "sizes": {"n": [100]}},
            "tune: the first variant changes no array with these inputs, so that the others cannot be compared; give others, such as "
            "y=signed:float32[1024]",
        ),
    ],
)
def test_what_is_missing_or_cannot_be_compared_is_an_error(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.tune(tuned(0, 10), "scale", **options)
    assert str(caught.value) == text


@pytest.mark.usefixtures("in_process")
def test_functions_without_variants_and_unusable_ones_are_errors() -> None:
    plain = devmod.compile(CL, "opencl")
    texts = {
        "scale": "tune: 'scale' has no variants; build it with tune={…}",
        None: "tune: the module has no tuned function: build one with tune={…}",
    }
    for name, text in texts.items():
        with pytest.raises(devmod.ArgumentError) as caught:
            devmod.tune(plain, name)
        assert str(caught.value) == text
    with pytest.raises(devmod.FunctionNotFoundError):
        devmod.tune(plain, "scales")
    with pytest.raises(devmod.DevmodError) as unusable:
        tune(0, threads="n")
    begin = "tune: no variant of 'scale' can be used on opencl:0: "
    assert str(unusable.value).startswith(begin)


@pytest.mark.usefixtures("in_process")
def test_simulated_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device("opencl")
    monkeypatch.setattr(type(device), "is_simulated", True)
    with pytest.raises(devmod.DevmodError) as caught:
        tune(0, 10)
    assert str(caught.value) == (
        "tune: opencl:0 is a simulated device, whose times mean nothing: tune 'scale' on another one"
    )


def test_the_table_has_ratios_wins_and_problems() -> None:
    milliseconds = {1: (4, 40), 2: (1, 40), 4: (2, 10), 8: (0, 0)}
    times = []
    for at, n in enumerate((10, 99)):
        for tile, each in milliseconds.items():
            problem = ""
            if tile == 8:
                problem = "differs"
            quartiles = [each[at] / 1e3] * 3
            about = ("f", "opencl:0", {"n": n}, {"TILE": tile})
            times.append(VariantTimes(*about, *quartiles, LAUNCHES, problem))
    assert str(devmod.TuningResult(times, ())).splitlines() == [
        "f on opencl:0: 4 variants",
        "  variant         n=10    n=99    to first  wins",
        "  TILE=4          2 ms    10 ms   0.35      1",
        "  TILE=2          1 ms    40 ms   0.50      1",
        "  TILE=1 (first)  4 ms    40 ms   1.00      0",
        "  TILE=8          failed  failed            0",
        "  TILE=8 failed: differs",
    ]


# -- the command

WORDS = ("k.devmod", "scale", "y=random[n]", "x=random[n]", "--size", "n=1e3,3e3")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with four variants. The current folder has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    devmod.save(tuned(0, 10, 20, 1), tmp_path / "k.devmod")
    return Path("k.devmod")


def launches(capsys: pytest.CaptureFixture[str], *options: str) -> list[int]:
    """Return the launches of each variant and size."""
    status, out, _ = call(capsys, "tune", *WORDS, "--json", *options)
    assert status == 0
    return [each["launches"] for each in json.loads(out)["times"]]


@pytest.mark.usefixtures("in_process")
def test_the_command_writes_the_times_into_the_file(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    status, out, err = call(capsys, "tune", *WORDS, "--plot", "times.svg")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "scale on opencl:0: 4 variants"
    assert lines[1].split() == ["variant", "n=1000", "n=3000", "to", "first", "wins"]
    assert lines[-2:] == ["k.devmod: 8 times written", "times.svg: a plot of 8 times"]
    assert "MODE=20" in Path("times.svg").read_text()
    (record,) = devmod.load(file).tuning_records
    assert len(record.measured) == 8

    assert launches(capsys) == [0] * 8
    again = launches(capsys, "--again")
    assert [each >= LAUNCHES for each in again] == [True, True, True, False] * 2


@pytest.mark.usefixtures("in_process")
def test_times_are_exported_imported_and_kept_by_the_user(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    before = file.read_bytes()
    status, out, err = call(capsys, "tune", *WORDS, "--export", "r.json")
    assert (status, err, out.splitlines()[-1]) == (0, "", "r.json: 8 times written")
    assert file.read_bytes() == before
    assert launches(capsys, "--export", "r.json") == [0] * 8

    Path("k.devmod.sig").write_bytes(b"")
    status, out, err = call(capsys, "tune", *WORDS)
    assert (status, out) == (1, "")
    assert err.startswith("devmod: error: 'k.devmod' is signed, ")
    Path("k.devmod.sig").unlink()
    words = ("tune", file, "--import", "r.json")
    assert call(capsys, *words) == (0, "k.devmod: 8 times written\n", "")
    assert launches(capsys) == [0] * 8

    file.write_bytes(before)
    status, out, _ = call(capsys, "tune", *WORDS, "--here")
    assert (status, out.splitlines()[-1]) == (0, "the records of this user: 8 times written")
    assert devmod.load(file).tuning_records == ()
    assert launches(capsys, "--here") == [0] * 8


@pytest.mark.usefixtures("in_process")
def test_results_of_kernel_tuner_are_imported(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    result = {
        "configuration": {"MODE": 10},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}],
        "objectives": ["time"],
    }
    Path("t4.json").write_text(json.dumps({"schema_version": "1.0.0", "results": [result]}))
    words = ("tune", file, "scale", "--size", "n=500", "--import", "t4.json")
    assert call(capsys, *words) == (0, "k.devmod: 1 times written\n", "")
    (record,) = devmod.load(file).tuning_records
    assert record.measured == {((500,), (10,)): 2e-3}


@pytest.mark.usefixtures("in_process")
def test_ctrl_c_keeps_and_writes_what_is_measured(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2, KeyboardInterrupt())
    result = tune(0, 10, 20)
    assert (result.is_complete, result.is_interrupted) == (False, True)
    assert len(result.times) == len(result.records[0].measured) == 2
    status, out, _ = call(capsys, "tune", *WORDS)
    assert (status, out.splitlines()[-1]) == (130, "k.devmod: 2 times written")
    assert len(devmod.load(file).tuning_records[0].measured) == 2


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--budget", "10x"], "expected a time such as 90s, 10m or 1h, got '10x'"),
        (["--here", "--export", "r.json"], "expected --here or --export, got both"),
        (["--size", "n=1e99"], "--size n: expected numbers, got '1e99'"),
        (["--plot", "a.txt"], "plot('a.txt'): expected a file .svg, .png, .pdf"),
        (["--export", "no/r.json"], "No such file or directory"),
    ],
)
def test_wrong_options_are_errors_before_a_launch(
    capsys: pytest.CaptureFixture[str], file: Path, words: list[str], text: str
) -> None:
    status, out, err = call(capsys, "tune", file, *words)
    assert (status in (1, 2), out) == (True, "")
    assert text in err
