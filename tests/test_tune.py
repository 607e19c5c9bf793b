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
from devmod import Interface, TuningRecord
from devmod_runtime.tools.launches import Conversation

#: MODE is the fault of a variant: 0 none.
CL = """
#ifndef MODE
#define MODE 0
#endif
#ifndef TILE
#define TILE 1
#endif
__kernel void scale(__global float *y, __global const float *x, uint n) {
    if (MODE == 3) y[(size_t)1 << 40] = 0;
    if (MODE == 4) while (y[0] > -1e30f) y[0] += 1;
    for (uint i = get_global_id(0) * TILE; i < n && i < get_global_id(0) * TILE + TILE; ++i) {
        if (MODE == 0) y[i] = y[i] + 2 * x[i];
        if (MODE == 1) y[i] = y[i] + (i == 5 ? 3 : 2) * x[i];
        for (int j = 0; MODE == 5 && j < 2000; ++j) y[i] = j + 1 < 2000 ? y[i] + x[i] * 0.5f : y[i] * 0 + 1;
    }
}
"""
WGSL = """
override TILE: u32 = 1;
override MODE: u32 = 0;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<uniform> n: u32;
@compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var i = id.x * TILE; i < min(n, id.x * TILE + TILE); i++) {
        if (MODE == 0) { y[i] = y[i] + 2 * x[i]; }
        if (MODE == 1) { y[i] = y[i] + 3 * x[i]; }
    }
}
"""
GLSL = """#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint TILE = 1;
layout(constant_id = 1) const uint MODE = 0;
layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(push_constant) uniform P { uint n; };
void main() {
    uint first = gl_GlobalInvocationID.x * TILE;
    for (uint i = first; i < min(n, first + TILE); ++i) {
        if (MODE == 0) y[i] = y[i] + 2 * x[i];
        if (MODE == 1) y[i] = y[i] + 3 * x[i];
    }
}
"""
SOURCES = {"opencl": CL, "vulkan": GLSL, "webgpu": WGSL}
GIVEN = {"y": "random[n]", "x": "random[n]"}


def tuned(
    *variants: tuple[int, int], kind: str = "opencl", sizes: tuple[str, ...] = ("n",)
) -> devmod.Module:
    """Return the function `scale` with variants of TILE and MODE."""
    first_device(kind)
    name = None
    if kind == "vulkan":
        name = "scale"
    module = devmod.compile(SOURCES[kind], kind, name=name)
    info = module.functions["scale"]
    assert info.interface is not None
    data = info.interface.to_dict()
    data["tune"] = {
        "constants": ["TILE", "MODE"],
        "variants": [{"values": list(each)} for each in variants],
        "specialized": True,
        "sizes": list(sizes),
        "grid": [["//", ["+", "n", 63], 64]],
    }
    if kind == "opencl":
        data["tune"]["block"] = [64]
    data["needs"] = [*data.get("needs", []), "tuned"]
    payload = devmod.backend.payload_of(module)
    assert payload is not None
    _, fmt, _, code = payload
    functions = {"scale": info.replace(interface=Interface.from_dict(data))}
    return devmod.create(kind, code, fmt, functions)


def times_of(result: devmod.TuningResult) -> dict[tuple[int, ...], float]:
    """Return the median of each variant; nan if it failed."""
    return {tuple(each.constants.values()): each.median for each in result.times}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", SOURCES)
def test_each_kind_is_measured_and_variants_that_are_wrong_or_do_nothing_fail(kind: str) -> None:
    module = tuned((1, 0), (2, 1), (4, 2), (2, 0), kind=kind)
    result = devmod.tune(module, "scale", GIVEN, sizes={"n": [1000, 3000]}, devices=[f"{kind}:0"])
    assert result.is_complete
    outcomes = [
        (each.sizes["n"], *each.constants.values(), bool(each.problem)) for each in result.times
    ]
    assert outcomes == [
        (n, *variant, failed)
        for n in (1000, 3000)
        for variant, failed in (((1, 0), False), ((2, 1), True), ((4, 2), True), ((2, 0), False))
    ]
    wrong = [each.problem for each in result.times if each.problem]
    assert all(" with the first variant" in each for each in wrong)
    for each in result.times:
        assert each.problem or each.quartile1 <= each.median <= each.quartile3
        assert each.problem or each.launches >= 3

    (record,) = result.records
    device = devmod.device(f"{kind}:0")
    assert (record.function, record.kind, record.device) == ("scale", kind, device.name)
    assert (record.constants, record.sizes) == (("TILE", "MODE"), ("n",))
    assert record.measured[(1000,), (1, 0)] == result.times[0].median
    assert record.measured[(3000,), (4, 2)] is None


def test_a_variant_that_ends_the_process_or_hangs_has_failed() -> None:
    module = tuned((1, 0), (1, 3), (1, 4), (2, 0))
    for timeout in (4.0, 40.0, 400.0):  # the machine may be busy
        result = devmod.tune(module, arguments=GIVEN, sizes={"n": [100]}, timeout=timeout)
        problems = [each.problem for each in result.times]
        if not problems[0] and not problems[3]:
            break
    assert problems == [
        "",
        "its launch ends the process with signal 11",
        f"its launch takes longer than {timeout:g} s",
        "",
    ]
    assert result.is_complete


@pytest.mark.usefixtures("in_process")
def test_a_variant_that_is_wrong_with_one_size_is_used_with_none() -> None:
    """MODE 1 is wrong from the sixth element on."""
    module = tuned((1, 0), (1, 1))
    result = devmod.tune(module, arguments=GIVEN, sizes={"n": [5, 6]})
    assert [each.problem != "" for each in result.times] == [False, False, False, True]
    (record,) = result.records
    assert record.measured[(5,), (1, 1)] is None
    assert record.measured[(6,), (1, 1)] is None


@pytest.mark.usefixtures("in_process")
def test_the_first_variant_that_can_be_launched_is_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = tuned((1, 0), (2, 0), (1, 1))
    ask = Conversation.ask

    def crash(self: Conversation, item: Any) -> Any:
        if item[0] == "check" and item[2] == 0:
            return None, "ends the process with signal 6"
        return ask(self, item)

    monkeypatch.setattr(Conversation, "ask", crash)
    result = devmod.tune(module, arguments=GIVEN, sizes={"n": [100]})
    assert [each.problem != "" for each in result.times] == [True, False, True]


@pytest.mark.usefixtures("in_process")
def test_arrays_that_a_variant_writes_are_reset_before_each_launch() -> None:
    """A second launch on its own results would differ from the first variant's."""
    module = tuned((1, 0), (2, 0), (4, 0))
    y = np.ones(64, "float32")
    with devmod.profile() as recorded:
        result = devmod.tune(module, arguments={"y": y, "x": y, "n": 64}, rtol=0, atol=0)
    assert not any(each.problem for each in result.times)
    resets = [each for each in recorded.records if each.name == "copy on the device"]
    assert len(resets) >= sum(each.launches for each in result.times) + len(result.times)
    assert y.tolist() == [1.0] * 64


@pytest.mark.usefixtures("in_process")
def test_a_second_search_measures_what_is_new() -> None:
    first = devmod.tune(tuned((1, 0), (2, 1)), arguments=GIVEN, sizes={"n": [500]})
    module = tuned((2, 1), (1, 0), (4, 0))
    second = devmod.tune(module, arguments=GIVEN, sizes={"n": [500]}, records=first.records)
    launches = {tuple(each.constants.values()): each.launches for each in second.times}
    assert (launches[2, 1], launches[1, 0]) == (0, 0)
    assert launches[4, 0] >= 3
    assert times_of(second)[1, 0] == times_of(first)[1, 0]
    assert second.records[0].measured.keys() > first.records[0].measured.keys()
    old = first.records[0].replace(driver="another")
    third = devmod.tune(module, arguments=GIVEN, sizes={"n": [500]}, records=[old])
    assert all(each.launches or each.problem for each in third.times)


@pytest.mark.usefixtures("in_process")
def test_the_time_of_a_search_has_a_limit() -> None:
    result = devmod.tune(tuned((1, 0), (2, 0)), arguments=GIVEN, sizes={"n": [100]}, budget=0)
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
            "tune: the opencl function 'scale' changes no array with these inputs, so that its variants cannot be compared; give others, such "
            "as y=signed:float32[1024]",
        ),
    ],
)
def test_what_is_missing_or_cannot_be_compared_is_an_error(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.tune(tuned((1, 0), (2, 0)), "scale", **options)
    assert str(caught.value) == text


@pytest.mark.usefixtures("in_process")
def test_functions_without_variants_and_unusable_ones_are_errors() -> None:
    plain = devmod.compile(CL, "opencl")
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.tune(plain, "scale")
    assert str(caught.value) == "tune: 'scale' has no variants; build it with tune={…}"
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.tune(plain)
    assert str(caught.value) == "tune: the module has no tuned function: build one with tune={…}"
    with pytest.raises(devmod.FunctionNotFoundError):
        devmod.tune(plain, "scales")
    with pytest.raises(devmod.DevmodError) as failed:
        devmod.tune(tuned((1, 0)), arguments=GIVEN, sizes={"n": [100]}, threads="n")
    assert str(failed.value).startswith("tune: no variant of 'scale' can be used on opencl:0: ")


@pytest.mark.usefixtures("in_process")
def test_simulated_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device("opencl")
    module = tuned((1, 0), (2, 0))
    monkeypatch.setattr(type(device), "is_simulated", True)
    with pytest.raises(devmod.DevmodError) as caught:
        devmod.tune(module, arguments=GIVEN, sizes={"n": [100]})
    assert str(caught.value) == (
        "tune: opencl:0 is a simulated device, whose times mean nothing: tune 'scale' on another one"
    )


@pytest.mark.usefixtures("in_process")
def test_ctrl_c_keeps_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Conversation.ask

    def interrupt(self: Conversation, item: Any) -> Any:
        if item[0] == "check" and item[2] == 2:
            raise KeyboardInterrupt
        return ask(self, item)

    monkeypatch.setattr(Conversation, "ask", interrupt)
    module = tuned((1, 0), (2, 0), (4, 0))
    result = devmod.tune(module, arguments=GIVEN, sizes={"n": [100, 200]})
    assert (result.is_complete, result.is_interrupted) == (False, True)
    assert [*times_of(result)] == [(1, 0), (2, 0)]
    assert len(result.records[0].measured) == 2


def test_the_table_has_ratios_wins_and_problems() -> None:
    def row(n: int, tile: int, seconds: float, problem: str = "") -> Any:
        times = (seconds, seconds, seconds)
        return ("f", "opencl:0", {"n": n}, {"TILE": tile}, *times, 9, problem)

    rows = [
        *[
            row(10, 1, 4e-3),
            row(10, 2, 1e-3),
            row(10, 4, 2e-3),
            row(10, 8, float("nan"), "differs"),
        ],
        *[
            row(99, 1, 4e-2),
            row(99, 2, 4e-2),
            row(99, 4, 1e-2),
            row(99, 8, float("nan"), "differs"),
        ],
    ]
    kind = type(devmod.tune(tuned((1, 0)), arguments=GIVEN, sizes={"n": [9]}).times[0])
    result = devmod.TuningResult([kind(*each) for each in rows], ())
    assert str(result).splitlines() == [
        "f on opencl:0: 4 variants",
        "  variant         n=10    n=99    to first  wins",
        "  TILE=4          2 ms    10 ms   0.35      1",
        "  TILE=2          1 ms    40 ms   0.50      1",
        "  TILE=1 (first)  4 ms    40 ms   1.00      0",
        "  TILE=8          failed  failed            0",
        "  TILE=8 failed: differs",
    ]


# -- the command


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with four variants. The current folder has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    devmod.save(tuned((1, 0), (2, 0), (4, 0), (2, 1)), tmp_path / "k.devmod")
    return Path("k.devmod")


WORDS = ("scale", "y=random[n]", "x=random[n]", "--size", "n=1e3,3e3")


def records_of(path: Path) -> tuple[TuningRecord, ...]:
    return devmod.load(path).tuning_records


@pytest.mark.usefixtures("in_process")
def test_the_command_writes_the_times_into_the_file(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    status, out, err = call(capsys, "tune", file, *WORDS, "--plot", "times.svg")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("scale on opencl:0: 4 variants")
    assert lines[1].split() == ["variant", "n=1000", "n=3000", "to", "first", "wins"]
    assert lines[-2:] == ["k.devmod: 8 times written", "times.svg: a plot of 8 times"]
    assert "TILE=4" in Path("times.svg").read_text()
    (record,) = records_of(file)
    assert len(record.measured) == 8

    status, out, _ = call(capsys, "tune", file, *WORDS, "--json")
    data = json.loads(out)
    assert status == 0
    assert [each["launches"] for each in data["times"]] == [0] * 8
    assert [TuningRecord.from_dict(each) for each in data["records"]] == [record]
    data = json.loads(call(capsys, "tune", file, *WORDS, "--json", "--again")[1])
    assert [each["launches"] > 2 for each in data["times"]] == [True, True, True, False] * 2


@pytest.mark.usefixtures("in_process")
def test_times_are_exported_imported_and_kept_by_the_user(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    before = file.read_bytes()
    status, out, err = call(capsys, "tune", file, *WORDS, "--export", "r.json")
    assert (status, err, out.splitlines()[-1]) == (0, "", "r.json: 8 times written")
    assert file.read_bytes() == before
    again = ("tune", file, *WORDS, "--export", "r.json", "--json")
    assert {each["launches"] for each in json.loads(call(capsys, *again)[1])["times"]} == {0}

    Path("k.devmod.sig").write_bytes(b"")
    status, out, err = call(capsys, "tune", file, *WORDS)
    assert (status, out) == (1, "")
    assert err.startswith("devmod: error: 'k.devmod' is signed, ")
    Path("k.devmod.sig").unlink()
    assert call(capsys, "tune", file, "--import", "r.json") == (
        0,
        "k.devmod: 8 times written\n",
        "",
    )
    assert len(records_of(file)[0].measured) == 8

    file.write_bytes(before)
    status, out, _ = call(capsys, "tune", file, *WORDS, "--here")
    assert (status, out.splitlines()[-1]) == (0, "the records of this user: 8 times written")
    assert records_of(file) == ()
    data = json.loads(call(capsys, "tune", file, *WORDS, "--here", "--json")[1])
    assert {each["launches"] for each in data["times"]} == {0}


@pytest.mark.usefixtures("in_process")
def test_ctrl_c_of_the_command_writes_what_is_measured(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Conversation.ask

    def interrupt(self: Conversation, item: Any) -> Any:
        if item[0] == "check" and item[2] == 2:
            raise KeyboardInterrupt
        return ask(self, item)

    monkeypatch.setattr(Conversation, "ask", interrupt)
    status, out, _ = call(capsys, "tune", file, *WORDS)
    assert (status, out.splitlines()[-1]) == (130, "k.devmod: 2 times written")
    assert len(records_of(file)[0].measured) == 2


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
