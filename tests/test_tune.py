"""`devmod tune` on real devices, with faults planted among the variants."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from each_case import check_errors, error_of

import devmod
from devmod.backend import read_tuning_file
from devmod_runtime._tuning.noise import LEAST_TURNS
from devmod_workbench._tools.launches import Conversation
from devmod_workbench._tools.search import LAUNCHES
from devmod_workbench._tools.tune import VariantTimes
from devmod_workbench._tools.tuning_files import write_tuning_file

#: The launches are in this process, unless a test needs another.
here = pytest.mark.usefixtures("in_process")
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
    if (i >= n) return;
    if (MODE % 10 == 0) y[i] += 2 * x[i];
    if (MODE == 1) y[i] += (i == 5 ? 3 : 2) * x[i];
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
    options = {"opencl": {"block": 64}, "vulkan": {"name": "scale"}, "webgpu": {}}
    return devmod.compile(
        SOURCES[kind],
        kind,
        tune={"MODE": modes},
        sizes=["n"],
        grid="ceildiv(n, 64)",
        **options[kind],
    )


def tune(*modes: int, sizes: tuple[int, ...] = (100,), **options: Any) -> devmod.TuningResult:
    """Tune `scale` with variants by MODE."""
    return devmod.tune(tuned(*modes), arguments=GIVEN, sizes={"n": sizes}, **options)


def failed(result: devmod.TuningResult) -> list[bool]:
    """Return whether each variant failed with each size."""
    return [each.problem != "" for each in result.times]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, variant: int, end: BaseException) -> None:
    """Let the launches of a variant raise an exception."""
    ask = Conversation.ask

    def ask_until(self: Conversation, item: Any) -> Any:
        if item[0] != "times" or item[1] != variant:
            return ask(self, item)
        raise end

    monkeypatch.setattr(Conversation, "ask", ask_until)


def fake_times(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[int]:
    """Let the turns of each variant take some seconds, without noise. Return the variants of the
    turns.
    """
    ask = Conversation.ask
    turns: list[int] = []

    def ask_and_replace(self: Conversation, item: Any) -> Any:
        answer, end = ask(self, item)
        if item[0] == "times":
            turns.append(item[1])
            if answer[0]:
                answer = ((seconds[item[1]],) * LAUNCHES, *answer[1:])
        return answer, end

    monkeypatch.setattr(Conversation, "ask", ask_and_replace)
    return turns


@here
@pytest.mark.parametrize("kind", SOURCES)
def test_each_kind_is_measured_and_variants_that_are_wrong_or_do_nothing_fail(kind: str) -> None:
    device = f"{kind}:0"
    module = tuned(0, 1, 2, 10, kind=kind)
    result = devmod.tune(module, "scale", GIVEN, sizes={"n": [1000, 3000]}, devices=device)
    assert result.is_complete
    assert failed(result) == [False, True, True, False] * 2
    first, wrong, *_ = result.times
    assert first.quartile1 <= first.median <= first.quartile3
    assert first.launches >= LAUNCHES
    assert " with the first variant" in wrong.problem

    (record,) = result.records
    assert (record.function, record.kind) == ("scale", kind)
    assert record.device == devmod.device(device).name
    assert (record.constants, record.sizes) == (("MODE",), ("n",))
    assert record.measured[(1000,), (0,)] == result.times[0].median
    assert record.measured[(3000,), (2,)] is False
    turns, spread = record.turns[(1000,), (0,)]
    assert turns >= LEAST_TURNS
    assert spread == pytest.approx(first.quartile3 - first.quartile1)
    assert {values for _, values in record.turns} == {(0,), (10,)}


def test_a_variant_that_ends_the_process_or_hangs_has_failed() -> None:
    """The first that can be launched is the reference."""
    for timeout in (1.0, 20.0, 100.0):
        result = tune(3, 4, 0, 10, timeout=timeout)
        problems = [each.problem for each in result.times]
        late = f"its launch takes longer than {timeout:g} s"
        if problems.count(late) == 1:  # else the machine is busy
            break
    assert problems == ["its launch ends the process with signal 11", late, "", ""]
    assert result.is_complete


@here
@pytest.mark.parametrize("second", [10, 1])
def test_a_variant_that_damages_its_process_is_no_fault_of_another(
    second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Conversation.ask
    close = Conversation.__exit__
    damaged = []

    def ask_damaged(self: Conversation, item: Any) -> Any:
        if damaged:
            self.__exit__()
            return None, "ends the process with signal 11"
        if item[:2] == ["times", 1]:
            damaged.append(item)
        return ask(self, item)

    def new_process(self: Conversation, *_: object) -> None:
        damaged.clear()
        close(self)

    monkeypatch.setattr(Conversation, "ask", ask_damaged)
    monkeypatch.setattr(Conversation, "__exit__", new_process)
    assert failed(tune(0, second, 20)) == [False, second == 1, False]


@here
def test_a_variant_that_is_wrong_with_one_size_has_failed_with_others() -> None:
    """MODE 1 is wrong from the sixth element on."""
    module = tuned(0, 1)
    for size in (6, 5):
        result = devmod.tune(module, "scale", GIVEN, sizes={"n": [size]})
        module.tuning_records = [*module.tuning_records, *result.records]
        assert failed(result) == [False, True]
        assert result.records[0].measured[(size,), (1,)] is False
    assert failed(tune(0, 1, sizes=(5, 6))) == [False, False, False, True]


@here
def test_arrays_that_a_variant_writes_are_reset_before_each_launch() -> None:
    """A second launch on its own results would differ from the first variant's."""
    y = np.ones(64, "float32")
    with devmod.profile() as recorded:
        result = devmod.tune(tuned(0, 10), arguments={"y": y, "x": y, "n": 64}, rtol=0, atol=0)
    assert failed(result) == [False, False]
    names = [each.name for each in recorded.records]
    assert names.count("copy on the device") >= sum(each.launches for each in result.times) + 2
    assert y.tolist() == [1.0] * 64


@here
def test_a_kernel_of_a_program_is_launched_as_by_its_first_step() -> None:
    """With other threads the kernel changes nothing, which is an error."""
    first_device("opencl")
    source = """
    __kernel void scale(__global float *y, __global const float *x, uint n) {
        if (get_global_size(0) != n || get_global_size(1) != 2) return;
        if (get_global_id(1) == 0) y[get_global_id(0)] += MODE * x[get_global_id(0)] / MODE;
    }"""
    kernel = devmod.compile(source, "opencl", tune={"MODE": [1, 2]})
    for extent in ("threads=(n, 2), block=(8, 1)", "grid=(n // 8, 1), block=(8, 2)"):
        module = devmod.program(
            "p",
            kernel,
            inputs=["x: float32[n]"],
            updates=["y: float32[n]"],
            steps=[
                "scale(x=x, y=y, n=n, threads=(n - n, 1), block=(1, 1))",  # launches nothing
                f"scale(x=x, y=y, n=n, {extent})",
                "scale(x=x, y=y, n=n, threads=(1, 1), block=(1, 1))",
            ],
        )
        result = devmod.tune(module, "p", GIVEN, sizes={"n": [64]})
        assert failed(result) == [False, False]


@here
def test_a_second_search_measures_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_times(monkeypatch, 1.0, 2.0, 3.0)
    first = tune(0, 1)
    second = tune(1, 0, 10, records=first.records)
    assert [each.launches >= LAUNCHES for each in second.times] == [False, False, True]
    assert second.times[1].median == first.times[0].median
    assert second.records[0].measured.keys() > first.records[0].measured.keys()
    assert "MODE=20 (first)" in str(tune(20, 0, records=first.records))
    third = tune(0, 1, 10, records=[first.records[0].replace(driver="another")])
    assert [each.launches >= LAUNCHES for each in third.times] == [True, False, True]
    late = {((10**9,), (0,)): None}
    assert failed(tune(0, records=[first.records[0].replace(measured=late)])) == [False]


@here
def test_what_is_not_settled_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that was stopped left a time of one turn while the machine was busy."""
    turns = fake_times(monkeypatch, 1.0, 0.4, 2.0)
    (record,) = tune(0, 10, 20).records
    case = ((100,), (10,))
    assert record.measured[case] == 0.4
    assert tune(0, 10, 20, records=[record]).records == (record,)

    stopped = record.replace(
        measured=record.measured | {case: 10.5}, turns=record.turns | {case: (1, 0.0)}
    )
    turns.clear()
    result = tune(0, 10, 20, records=[stopped])
    assert {*turns} == {0, 1}
    assert result.records[0].measured == record.measured
    assert [each.launches >= LAUNCHES for each in result.times] == [False, True, False]

    of_another_tool = stopped.replace(turns={})
    assert tune(0, 10, 20, records=[of_another_tool]).records == (of_another_tool,)


@here
def test_variants_that_cannot_be_told_apart_are_named(
    monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """The first two take turns in being twice as slow."""
    turns: list[int] = []
    ask = Conversation.ask

    def ask_on_a_busy_machine(self: Conversation, item: Any) -> Any:
        if item[0] != "times":
            return ask(self, item)
        turns.append(item[1])
        number = turns.count(item[1])
        seconds = {0: 1.0 + number % 2, 1: 2.0 - number % 2, 2: 9.0, 3: 8.0}[item[1]]
        return ((seconds,) * LAUNCHES,), None

    monkeypatch.setattr(Conversation, "ask", ask_on_a_busy_machine)
    status, out, err = command.run(*WORDS[:-1], "n=1000")
    assert (status, err) == (0, "")
    text = (
        "not settled: this machine was busy. The fastest variant of scale at n=1000 is MODE=0 or MODE=10; run it again. "
        "Until then, calls take the first variant unless another one is certainly faster"
    )
    assert out.splitlines()[-2:] == [text, "k.devmod: 4 times written"]
    assert "none is certainly faster than the first variant" in str(
        devmod.explain(devmod.load(command.file))
    )
    turns.clear()
    _, out, _ = command.run(*WORDS[:-1], "n=1000", "--json")
    assert len({*turns}) == 2
    settled = [each["is_settled"] for each in json.loads(out)["times"]]
    assert settled == [False, False, True, True]


@here
def test_variants_whose_arguments_are_refused_start_no_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[Conversation] = []
    end = Conversation.__exit__

    def count(self: Conversation, *details: object) -> None:
        ends.append(self)
        end(self, *details)

    monkeypatch.setattr(Conversation, "__exit__", count)
    arguments = {**GIVEN, "x": "random:float64[n]"}
    error = error_of(devmod.tune, tuned(0, 1, 2, 10), "scale", arguments, sizes={"n": [100]})
    assert "and the kernel takes float32" in str(error)
    assert len(ends) == 1


@here
def test_the_time_of_a_search_has_a_limit() -> None:
    result = tune(0, 10, budget=0)
    assert (result.times, result.records, result.is_complete) == ((), (), False)
    assert str(result) == (
        "the search has not come to its end; run it again for the times that are missing or not settled"
    )


@here
def test_what_a_search_leaves_of_the_budget_the_others_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each turn takes a second. Equal variants need 18 turns: 20, 21 and 24 seconds are enough."""
    now = [0.0]
    for name in ("tune", "search"):
        monkeypatch.setattr(f"devmod_workbench._tools.{name}.monotonic", lambda: now[0])
    ask = Conversation.ask

    def ask_in_a_second(self: Conversation, item: Any) -> Any:
        if item[0] != "times":
            return ask(self, item)
        now[0] += 1
        return ((1.0,) * LAUNCHES,), None

    monkeypatch.setattr(Conversation, "ask", ask_in_a_second)
    result = tune(0, 10, sizes=(100, 200, 300), budget=60)
    assert (result.is_complete, now) == (True, [54.0])


@here
def test_records_have_the_arguments_that_decide_and_not_the_given_sizes() -> None:
    arguments = {"y": "random[m]", "x": "random[m]", "n": "50"}
    result = devmod.tune(tuned(0, 10), arguments=arguments, sizes={"m": [100]})
    (record,) = result.records
    assert {*record.measured} == {((50,), (0,)), ((50,), (10,))}
    assert {tuple(each.sizes.items()) for each in result.times} == {(("m", 100),)}


N = {"n": [100]}
#: Errors, and the arguments of `devmod.tune`.
REFUSED = {
    "tune: the opencl function 'scale' is tuned by n, which is missing; give some, as in --size n=1e5,1e6": {},
    "tune: the opencl function 'scale' needs 'y', 'x', whose lengths do not follow from the sizes; give them, as in y=random[n]": {
        "sizes": N
    },
    "the opencl function 'scale' has no argument 'z'; its arguments: 'y', 'x', 'n'": {
        "arguments": {**GIVEN, "z": "1"},
        "sizes": N,
    },
    "tune: 'scale' is tuned by 'n', and two combinations of sizes are equal in that; give one of them": {
        "arguments": {**GIVEN, "n": "50"},
        "sizes": {"n": [100, 200]},
    },
    "sizes: expected lists of positive whole numbers by name, such as {'n': [1000]}, got {'n': 5}": {
        "sizes": {"n": 5}
    },
    "sizes: expected lists of positive whole numbers by name, such as {'n': [1000]}, got {'n': [9, -5]}": {
        "sizes": {"n": [9, -5]}
    },
    "tune: no argument has the size 'm'": {
        "arguments": {"y": "random[9]", "x": "random[9]"},
        "sizes": {"n": [9], "m": [9]},
    },
    "tune: the first variant changes no array with these inputs, so that the others cannot be compared; give others, such as "
    "y=signed:float32[1024]": {"arguments": {"y": "zeros[n]", "x": "zeros[n]"}, "sizes": N},
}


@here
def test_what_cannot_be_tuned_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    check_errors(REFUSED, lambda options: devmod.tune(tuned(0, 10), "scale", **options))
    plain = devmod.compile(CL, "opencl")
    names = {
        "tune: 'scale' has no variants; build it with tune={…} or --tune": "scale",
        "tune: the module has no tuned function: build one with tune={…} or --tune": None,
    }
    check_errors(names, lambda name: devmod.tune(plain, name))
    mixed = devmod.bundle(plain, tuned(0), mixed=True)
    text = "tune: 'scale' has no variants on opencl:0: the candidate for it is not tuned. Give another device, or build that candidate with tune={…} or --tune too"
    assert str(error_of(devmod.tune, mixed)) == text
    assert isinstance(error_of(devmod.tune, plain, "scales"), devmod.FunctionNotFoundError)
    text = "tune: expected a module, as of devmod.load, got 'k.devmod'. To open a file: tune(devmod.load('k.devmod'))"
    assert str(error_of(devmod.tune, "k.devmod")) == text
    unusable = str(error_of(tune, 0, threads="n"))
    assert unusable.startswith("tune: no variant of 'scale' can be used on opencl:0: ")
    monkeypatch.setattr(type(first_device("opencl")), "is_simulated", True)
    assert str(error_of(tune, 0, 10)) == (
        "tune: opencl:0 is a simulated device, whose times mean nothing: tune 'scale' on another one"
    )


def test_the_table_has_ratios_wins_and_problems() -> None:
    times = []
    for tile, milliseconds in {1: (4, 40), 2: (1, 40), 4: (2, 10), 8: (0, 0)}.items():
        for n, each in zip((10, 99), milliseconds, strict=True):
            problem = ""
            if tile == 8:
                problem = "differs"
            about = ("f", "opencl:0", {"n": n}, {"TILE": tile})
            times.append(VariantTimes(*about, *[each / 1e3] * 3, LAUNCHES, problem))
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


class Command:
    """`devmod tune` in a folder with a file that has four variants."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.file = Path("k.devmod")
        devmod.save(tuned(0, 10, 20, 1), self.file)

    def run(self, *words: object) -> tuple[int, str, str]:
        return call(self._capsys, "tune", *words)

    def last(self, *options: str) -> str:
        """Return the last line of a search."""
        status, out, err = self.run(*WORDS, *options)
        assert (status, err) == (0, "")
        return out.splitlines()[-1]

    def launches(self, *options: str) -> list[int]:
        """Return the launches of each variant and size."""
        _, out, _ = self.run(*WORDS, "--json", *options)
        return [each["launches"] for each in json.loads(out)["times"]]

    def records(self) -> tuple[devmod.TuningRecord, ...]:
        return devmod.load(self.file).tuning_records


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return Command(capsys)


@here
def test_the_command_writes_the_times_into_the_file(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_times(monkeypatch, 2.0, 1.0, 3.0, 4.0)
    status, out, _ = command.run(*WORDS, "--plot", "times.svg")
    lines = out.splitlines()
    assert (status, lines[0]) == (0, "scale on opencl:0: 4 variants")
    assert lines[1].split() == ["variant", "n=1000", "n=3000", "to", "first", "wins"]
    assert lines[-2:] == ["k.devmod: 8 times written", "times.svg: a plot of 8 times"]
    assert "MODE=20" in Path("times.svg").read_text()
    (record,) = command.records()
    assert len(record.measured) == 8

    assert command.launches() == [0] * 8
    again = command.launches("--again")
    assert [each >= LAUNCHES for each in again] == [True, True, True, False] * 2


@here
def test_times_are_exported_imported_and_kept_by_the_user(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_times(monkeypatch, 2.0, 1.0, 3.0, 4.0)
    before = command.file.read_bytes()
    assert command.last("--export", "r.json") == "r.json: 8 times written"
    assert command.launches("--export", "r.json") == [0] * 8
    assert command.last("--here") == "the records of this user: 8 times written"
    assert command.launches("--here") == [0] * 8
    assert command.file.read_bytes() == before

    words = (command.file, "--import", "r.json")
    signatures = Path("k.devmod.sig")
    signatures.touch()
    text = (
        "devmod: error: 'k.devmod' is signed, and new tuning records make the signatures in 'k.devmod.sig' invalid. Export the records "
        "(devmod tune --export r.json). Where the key is, remove 'k.devmod.sig', import them (devmod tune k.devmod --import r.json), "
        "and sign the file again (devmod sign k.devmod)\n"
    )
    assert command.run(*WORDS) == command.run(*words) == (1, "", text)
    signatures.unlink()
    assert command.run(*words) == (0, "k.devmod: 8 times written\n", "")
    assert command.launches() == [0] * 8


@here
def test_imported_times_go_where_the_options_say(command: Command) -> None:
    record = devmod.TuningRecord(
        "scale", "opencl", constants=("MODE",), sizes=("n",), measured={((500,), (10,)): 1.0}
    )
    write_tuning_file("r.json", [record])
    before = command.file.read_bytes()
    words = (command.file, "--import", "r.json")
    assert command.run(*words, "--export", "all.json") == (0, "all.json: 1 time written\n", "")
    assert read_tuning_file("all.json") == (record,)
    own = "the records of this user: 1 time written\n"
    assert command.run(*words, "--here") == (0, own, "")
    assert command.file.read_bytes() == before

    row = {"configuration": {"MODE": 20}, "invalidity": "correct", "correctness": 1}
    row["measurements"] = [{"name": "time", "value": 2.0}]
    Path("t4.json").write_text(json.dumps({"results": [row]}))  # of Kernel Tuner
    words = (command.file, "scale", "--size", "n=500", "--import", "t4.json", "--import", "r.json")
    assert command.run(*words) == (0, "k.devmod: 2 times written\n", "")
    times = [each.measured for each in command.records()]
    assert times == [{((500,), (20,)): 2e-3}, record.measured]

    write_tuning_file("r.json", [record.replace(function="other")])
    words = (command.file, "--import", "r.json")
    text = "devmod: error: the records are of 'other' for opencl, and the file has no such tuned function\n"
    assert command.run(*words, "--here") == (1, "", text)
    status, _, err = command.run(*words, "--size", "n=1,2")
    assert status == 2
    assert "--size n: expected one number with --import, got several" in err


@here
def test_a_file_that_cannot_be_written_is_an_error_before_a_launch(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 0, AssertionError("a launch"))
    write_tuning_file("r.json", [])
    may = os.access
    monkeypatch.setattr(os, "access", lambda each, mode: mode != os.W_OK and may(each, mode))
    for name, words in (("k.devmod", ()), ("r.json", ("--export", "r.json"))):
        before = Path(name).read_bytes()
        text = f"devmod: error: {name}: Permission denied\n"
        assert command.run(*WORDS, *words) == (1, "", text)
        assert Path(name).read_bytes() == before
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "0")
    text = (
        "devmod: error: the times cannot be written to the cache folder: set DEVMOD_CACHE_DIR to another folder, or give "
        "--export FILE\n"
    )
    assert command.run(*WORDS, "--here") == (1, "", text)


@here
def test_times_that_cannot_be_written_are_printed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "k.devmod")

    monkeypatch.setattr("devmod_workbench._cli.tune.add_tuning_records", full)
    status, out, err = command.run(*WORDS)
    assert (status, err) == (1, "devmod: error: k.devmod: No space left on device\n")
    assert out.startswith("scale on opencl:0: 4 variants\n")
    assert "written" not in out


@here
def test_functions_have_their_own_arguments_and_an_error_of_one_keeps_the_times_of_another(
    command: Command,
) -> None:
    other = "__kernel void other(__global float *z, uint n) { z[0] = MODE + n; }"
    module = devmod.compile(
        CL + other, "opencl", tune={"MODE": [0, 10]}, sizes=["n"], grid="ceildiv(n, 64)", block=64
    )
    devmod.save(module, command.file)
    words = (command.file, "y=random[n]", "x=random[n]", "--size", "n=100")
    status, out, err = command.run(*words)
    assert status == 1
    assert err.startswith("devmod: error: tune: the opencl function 'other' needs 'z', whose ")
    assert out.startswith("scale on opencl:0: 2 variants\n")
    assert out.endswith("\nk.devmod: 2 times written\n")

    status, out, err = command.run(*words, "z=zeros[n]")
    assert (status, err) == (0, "")
    assert out.endswith("\nk.devmod: 4 times written\n")


@here
def test_ctrl_c_keeps_and_writes_what_is_measured(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2, KeyboardInterrupt())
    result = tune(0, 10, 20)
    assert (result.is_complete, result.is_interrupted, len(result.times)) == (False, True, 2)
    status, out, _ = command.run(*WORDS)
    assert (status, out.splitlines()[-1]) == (130, "k.devmod: 2 times written")
    assert len(command.records()[0].measured) == 2


@here
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--budget", "10x"], "expected a time such as 90s, 10m or 1h, got '10x'"),
        (["--here", "--export", "r.json"], "expected --here or --export, got both"),
        (
            ["--size", "n=1e99"],
            "--size n: expected positive whole numbers of up to 18 digits, such as 1024 or 1e6, got '1e99'",
        ),
        (["--plot", "a.txt"], "plot('a.txt'): expected a file .svg, .png, .pdf"),
        (["--export", "no/r.json"], "No such file or directory"),
    ],
)
def test_wrong_options_are_errors_before_a_launch(
    command: Command, words: list[str], text: str
) -> None:
    status, out, err = command.run(command.file, *words)
    assert (status in (1, 2), out) == (True, "")
    assert text in err
