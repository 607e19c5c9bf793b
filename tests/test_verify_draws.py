"""What `devmod.verify` finds with several draws of values and with many blocks."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock, create_autospec
from unittest.mock import call as call_of
from zlib import crc32

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from verify_pairs import (
    BY_LUCK,
    FLOATS,
    IDENTITY,
    INNOCENT,
    INTS,
    MAY_AGREE,
    WRONG,
    Pair,
    source,
)

import devmod
from devmod_workbench._tools.draws import moved

DEVICE = "opencl:0,vulkan:0,webgpu:0"
FOUND = {"differs", "writes outside", "reads outside", "failed"}
VALUES = ("0 to 1", "0 to 1", "-8 to 8", "-8 to 0", "-1e5 to 1e5")
#: One of each kind of fault, and of each kind of innocent, for `make test`.
FAULTS = ("a maximum from 0", "rounding half up", "a negative scalar", "four blocks")
FAULTS += ("a signed division", "an int16", "softmax")
SOUND = ("a fused multiply-add", "a sum in another order", "sin by cos", "another NaN")
SOUND += ("an index in range", "a code of a table")
#: A write behind the end, whatever the length of the array is.
OUTSIDE = "if (x[i] < -1) y[n > 999 ? 1048576 : 262144] = 1; else y[i] = x[i];"
LOG = "y[i] = log(x[i]);"
#: Of an array of any integers this reads elements, and some a little outside.
CHOSEN = Pair(
    INNOCENT["an index with another name"].parameters,
    "if (i < n) y[i] = x[clamp(chosen[i], -8, 1048584)];",
    "if (i < n) { int j = clamp(chosen[i], -8, 1048584); y[i] = *(x + j); }",
    True,
)
#: What one verification compares, since the processes and the compiler of several take most of the
#: time.
TOGETHER = {
    **{label: WRONG[label] for label in FAULTS},
    **{label: INNOCENT[label] for label in SOUND},
    "the reference leaves": Pair(FLOATS, OUTSIDE, IDENTITY),
    "the other leaves": Pair(FLOATS, IDENTITY, OUTSIDE),
    "chosen": CHOSEN,
    "fabs": CHOSEN._replace(other=CHOSEN.sound.replace("= x", "= fabs(x").replace("];", "]);")),
    "five for NaN": Pair(FLOATS, LOG, f"if (x[i] < 0) y[i] = 5; else {LOG}"),
    "NaN": Pair(FLOATS, IDENTITY, "y[i] = x[i] < 0 ? NAN : x[i];"),
    "one more": Pair(INTS, IDENTITY, "y[i] = x[i] + (x[i] > 1000 && x[i] < 1000000);"),
    "abs": Pair(FLOATS, "y[i] = fabs(x[i]);", IDENTITY),
}


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("opencl")
    monkeypatch.setenv("DEVMOD_DEVICE", DEVICE)


def verified(pairs: dict[str, Pair]) -> devmod.Verification:
    modules = [devmod.compile(source(pairs, body), "opencl") for body in ("sound", "other")]
    return devmod.verify(devmod.bundle(*modules, mixed=True))


def others(verification: devmod.Verification) -> list[devmod.Comparison]:
    """Return the comparison of the other body of each pair."""
    results = []
    for reference, other in verification.functions.values():
        assert reference.outcome == "reference", reference
        results.append(other)
    return results


def outcomes(pairs: dict[str, Pair]) -> dict[str, str]:
    return {
        label: other.outcome for label, other in zip(pairs, others(verified(pairs)), strict=True)
    }


class Together:
    """What one verification in this process finds of `TOGETHER`."""

    def __init__(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEVMOD_DEVICE", DEVICE)
            patch.setattr(sys, "frozen", True, raising=False)
            self.verification = verified(TOGETHER)
        self.others = dict(zip(TOGETHER, others(self.verification), strict=True))
        self.draws = dict(zip(TOGETHER, self.verification.draws.values(), strict=True))


@pytest.fixture(scope="module")
def together() -> Together:
    first_device("opencl")
    return Together()


def test_verify_finds_what_some_values_or_many_blocks_alone_show_and_no_innocent_candidate(
    together: Together,
) -> None:
    """It is one test: each worker of pytest-xdist that ran one of several would verify anew."""
    found = {label: together.others[label].outcome for label in (*FAULTS, *SOUND)}
    assert found == dict.fromkeys(FAULTS, "differs") | dict.fromkeys(SOUND, "agrees")
    # Integers have no last place: nothing excuses a difference of 1.
    assert together.others["one more"].outcome == "differs"


@pytest.mark.volume
def test_verify_finds_28_wrong_candidates_but_three() -> None:
    assert len(WRONG) == 28
    outcome_of = outcomes(WRONG)
    agree = {label for label, outcome in outcome_of.items() if outcome == "agrees"}
    assert agree <= {*MAY_AGREE, *BY_LUCK}
    assert {outcome_of[label] for label in outcome_of.keys() - agree} <= FOUND


@pytest.mark.volume
def test_verify_accuses_none_of_29_innocent_candidates() -> None:
    assert len(INNOCENT) == 29
    assert outcomes(INNOCENT) == dict.fromkeys(INNOCENT, "agrees")


@pytest.mark.usefixtures("in_process")
def test_the_first_draw_that_differs_is_printed_with_its_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, together: Together
) -> None:
    other = together.others["abs"]
    # The input can be made again.
    identity = source({"abs": TOGETHER["abs"]}, "other")
    devmod.save(devmod.compile(identity, "opencl"), tmp_path / "k.devmod")
    words = ["y=zeros[1048576]", "x=signed[1048576]", "n=1000", "--threads", "1024"]
    words += ["--save", f"y={tmp_path / 'y.npy'}"]
    assert call(capsys, "run", tmp_path / "k.devmod", "k0", *words)[0] == 0
    y = np.load(tmp_path / "y.npy")[:1000]
    at = int(np.argmax(np.abs(y) - y))
    assert other.text.startswith(
        f"y[{at}] is {float(y[at])!r}, and {-float(y[at])!r} with opencl/cl on opencl:0 for "
        f"n=1000, with values from -8 to 8; they differ by 16, where x[{at}] is {y[at]!s}"
    )
    assert other.text.endswith(". Inputs: x=signed[1048576] y=signed[1048576]")
    as_dict = together.verification.to_dict()
    assert [*as_dict["draws"].values()][-1][2] == {
        "values": "-8 to 8",
        "numbers": {"n": 1000},
        "problem": "",
    }
    assert str(together.verification).splitlines()[-2] == (
        "  4 draws: 0 to 1, -8 to 8, -8 to 0, -1e5 to 1e5; n 16, 124, 1000"
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("word", "floats", "integers"),
    [
        ("random", (0, 1), (0, 15)),
        ("signed", (-8, 8), (-8, 8)),
        ("negative", (-8, 0), (-8, 0)),
        ("wide", (-1e5, 1e5), (-(2**31), 2**31 - 1)),
    ],
)
def test_run_takes_the_words_of_draws(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    word: str,
    floats: tuple[float, float],
    integers: tuple[int, int],
) -> None:
    for parameters, limits in ((FLOATS, floats), (INTS, integers)):
        module = devmod.compile(source({"": Pair(parameters, IDENTITY, "")}, "sound"), "opencl")
        devmod.save(module, tmp_path / "k.devmod")
        words = ["y=zeros[4096]", f"x={word}[4096]", "n=4096", "--threads", "4096"]
        words += ["--save", f"y={tmp_path / 'y.npy'}"]
        assert call(capsys, "run", tmp_path / "k.devmod", "k0", *words)[0] == 0
        y = np.load(tmp_path / "y.npy").astype(float)
        size = limits[1] - limits[0]
        assert limits[0] <= y.min() < limits[0] + size / 50
        assert limits[1] - size / 50 < y.max() <= limits[1]
        if word != "random":
            assert 0 in y
            assert (parameters == INTS) or -0.5 in y


@pytest.mark.usefixtures("in_process")
def test_candidates_share_the_array_of_a_draw_and_functions_their_module_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = Mock(side_effect=np.random.default_rng)
    monkeypatch.setattr(np.random, "default_rng", generator)
    opened = create_autospec(Path.read_bytes, side_effect=Path.read_bytes)
    monkeypatch.setattr(Path, "read_bytes", opened)
    assert len(verified(dict.fromkeys("ab", Pair(FLOATS, IDENTITY, IDENTITY))).draws["k0"]) == 5
    # The first two have arrays of one length.
    assert generator.mock_calls.count(call_of(crc32(b"x"))) == 4
    assert opened.call_count == 2


def test_a_draw_in_which_the_reference_leaves_its_arrays_is_not_judged(together: Together) -> None:
    label = "the reference leaves"
    assert together.others[label].outcome == "agrees"
    assert together.draws[label][2].problem == "the reference writes outside"
    text = """
  1 draw: 0 to 1; n 16, 124
  not judged with values from -8 to 8: the reference writes outside
  not judged with values from -8 to 0: the reference writes outside
  not judged with values from -1e5 to 1e5: the reference writes outside
"""
    assert text in str(together.verification)


def test_a_candidate_that_leaves_its_arrays_in_a_further_draw_is_wrong(together: Together) -> None:
    other = together.others["the other leaves"]
    assert (together.verification.ok, other.outcome) == (False, "writes outside")
    assert other.text.endswith(" for n=1000, with values from -8 to 8")


def test_integers_that_may_be_indices_are_small_in_one_draw_of_both_signs(
    together: Together,
) -> None:
    outside = "the reference reads outside"
    assert together.others["chosen"].outcome == "agrees"
    assert [(each.values, each.problem) for each in together.draws["chosen"]] == [
        *zip(VALUES, ("", "", "", outside, outside), strict=True)
    ]
    values = together.others["fabs"].text.partition(", with values ")[2]
    assert values.startswith("from -8 to 8;")
    # The name suggests indices.
    assert [(each.values, each.problem) for each in together.draws["an index in range"]] == [
        (values, "") for values in VALUES
    ]


def test_a_candidate_may_leave_its_arrays_for_integers_that_may_be_indices() -> None:
    """Integers of any size end the process."""
    pair = INNOCENT["an index with another name"]
    pair = pair._replace(sound=pair.sound.replace("[i]]", "[i] & 15]"))
    verification = verified({"": pair})
    assert [each.outcome for each in others(verification)] == ["agrees"]
    problems = [each.problem for each in verification.draws["k0"]]
    assert problems[:3] == [""] * 3
    assert set(problems[3:]) <= {"a candidate reads outside", "a candidate fails"}


def test_elements_that_are_not_finite_in_the_reference_are_not_judged(together: Together) -> None:
    assert together.others["five for NaN"].outcome == "agrees"
    assert together.others["NaN"].outcome == "differs"


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_an_array_of_integers_stays_where_floats_are_moved(dtype: str) -> None:
    numbers = np.arange(20, 120, dtype="u1").astype(dtype)
    both = np.zeros(100, [("number", dtype), ("float", "f4")])
    both["number"], both["float"] = numbers, 1 / 3
    one = np.float32(1) / 3
    neighbours = {float(np.nextafter(one, to, dtype="f4")) for to in (0, 1)}
    for seed in (1, 2):
        assert moved(numbers, seed).tolist() == numbers.tolist()
        result = moved(both, seed)
        assert result["number"].tolist() == numbers.tolist()
        assert {*result["float"].tolist()} == neighbours


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_each_float_is_moved_by_one_unit_up_or_down(dtype: str) -> None:
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    numbers = np.array([0.3, -0.3, 7.7, -7.7, 9, -9, 100] * 10, dtype)
    up, down = (np.nextafter(numbers, np.array(to, dtype)) for to in (np.inf, -np.inf))
    for seed in (1, 2):
        result = moved(numbers, seed)
        is_up = result == up
        assert (is_up | (result == down)).all()
        assert 0 < is_up.sum() < is_up.size
    assert (moved(numbers, 0) == numbers).all()


def test_small_multiples_of_one_half_and_floats_of_one_byte_stay() -> None:
    exact = np.array([0, 0.5, -0.5, 7.5, -8, np.inf, -np.inf], "float32")
    assert moved(exact, 1).tolist() == exact.tolist()
    small = np.array([0.3, -7.7, 9], pytest.importorskip("ml_dtypes").float8_e4m3fn)
    assert (moved(small, 1) == small).all()
