"""What `devmod.verify` finds with several draws of values and with many blocks."""

from __future__ import annotations

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

FOUND = {"differs", "writes outside", "reads outside", "failed"}
FIRST = ("0 to 1", "0 to 1")
VALUES = (*FIRST, "-8 to 8", "-8 to 0", "-1e5 to 1e5")
#: One of each kind of fault, and of each kind of innocent, for `make test`.
FAULTS = ("relu", "a maximum from 0", "rounding half up", "a negative scalar", "four blocks")
FAULTS += ("a signed division", "an int16", "softmax")
SOUND = ("a fused multiply-add", "a sum in another order", "sin by cos", "another NaN")
SOUND += ("an index in range", "an index with another name", "a code of a table")


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("opencl")
    monkeypatch.setenv("DEVMOD_DEVICE", "opencl:0,vulkan:0,webgpu:0")


def verified(pairs: dict[str, Pair]) -> devmod.Verification:
    modules = [devmod.compile(source(pairs, body), "opencl") for body in ("sound", "other")]
    return devmod.verify(devmod.bundle(*modules, mixed=True))


def outcomes(pairs: dict[str, Pair]) -> dict[str, str]:
    """Return the outcome of the other body of each pair."""
    found = {}
    functions = verified(pairs).functions
    for label, (reference, other) in zip(pairs, functions.values(), strict=True):
        assert reference.outcome == "reference", (label, reference)
        found[label] = other.outcome
    return found


def test_verify_finds_what_some_values_or_many_blocks_alone_show() -> None:
    found = outcomes({label: WRONG[label] for label in FAULTS})
    assert found == dict.fromkeys(FAULTS, "differs")


@pytest.mark.volume
def test_verify_finds_33_wrong_candidates_but_three() -> None:
    assert len(WRONG) == 33
    found = outcomes(WRONG)
    agree = {label for label, outcome in found.items() if outcome == "agrees"}
    assert agree <= {*MAY_AGREE, *BY_LUCK}
    assert {found[label] for label in found.keys() - agree} <= FOUND


def test_values_or_many_blocks_make_no_innocent_candidate_differ() -> None:
    found = outcomes({label: INNOCENT[label] for label in SOUND})
    assert found == dict.fromkeys(SOUND, "agrees")


@pytest.mark.volume
def test_verify_accuses_none_of_31_innocent_candidates() -> None:
    assert len(INNOCENT) == 31
    found = outcomes(INNOCENT)
    assert found == dict.fromkeys(INNOCENT, "agrees")


@pytest.mark.usefixtures("in_process")
def test_the_first_draw_that_differs_is_printed_with_its_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    verification = verified({"an int16": WRONG["an int16"]._replace(other="y[i] = 0;")})
    text = verification.functions["k0"][1].text
    assert "with opencl/cl on opencl:0 for n=16; they differ by " in text
    pair = Pair(FLOATS, "y[i] = fabs(x[i]);", IDENTITY)
    verification = verified({"abs": pair})
    other = verification.functions["k0"][1]
    # The input can be made again.
    devmod.save(devmod.compile(source({"abs": pair}, "other"), "opencl"), tmp_path / "k.devmod")
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
    assert verification.to_dict()["draws"]["k0"][2] == {
        "values": "-8 to 8",
        "numbers": {"n": 1000},
        "problem": "",
    }
    assert str(verification).splitlines()[-2] == (
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


#: A write behind the end, whatever the length of the array is.
OUTSIDE = "if (x[i] < -1) y[n > 999 ? 1048576 : 262144] = 1; else y[i] = x[i];"


def test_a_draw_in_which_the_reference_leaves_its_arrays_is_not_judged() -> None:
    verification = verified({"": Pair(FLOATS, OUTSIDE, IDENTITY)})
    assert [each.outcome for each in verification.functions["k0"]] == ["reference", "agrees"]
    assert verification.draws["k0"][2].problem == "the reference writes outside"
    assert str(verification).splitlines()[4:8] == [
        "  1 draw: 0 to 1; n 16, 124",
        "  not judged with values from -8 to 8: the reference writes outside",
        "  not judged with values from -8 to 0: the reference writes outside",
        "  not judged with values from -1e5 to 1e5: the reference writes outside",
    ]


def test_a_candidate_that_leaves_its_arrays_in_a_further_draw_is_wrong() -> None:
    verification = verified({"": Pair(FLOATS, IDENTITY, OUTSIDE)})
    other = verification.functions["k0"][1]
    assert (verification.ok, other.outcome) == (False, "writes outside")
    assert other.text.endswith(" for n=1000, with values from -8 to 8")


def test_integers_that_may_be_indices_are_small_in_one_draw_of_both_signs() -> None:
    pair = INNOCENT["an index with another name"]
    verification = verified({"": pair})
    draws = verification.draws["k0"]
    assert tuple(each.values for each in draws) == VALUES
    assert [each.problem for each in draws[:3]] == [""] * 3
    assert {each.problem for each in draws[3:]} <= {
        "the reference reads outside",
        "the reference fails",
    }
    wrong = verified(
        {"": pair._replace(other=pair.sound.replace("= x", "= fabs(x").replace("];", "]);"))}
    )
    assert wrong.functions["k0"][1].text.partition(", with values ")[2].startswith("from -8 to 8;")
    # The name suggests indices.
    verification = verified({"": INNOCENT["an index in range"]})
    assert [(each.values, each.problem) for each in verification.draws["k0"]] == [
        (values, "") for values in VALUES
    ]


def test_a_candidate_may_leave_its_arrays_for_integers_that_may_be_indices() -> None:
    pair = INNOCENT["an index with another name"]
    verification = verified({"": pair._replace(sound=pair.sound.replace("[i]]", "[i] & 15]"))})
    assert [each.outcome for each in verification.functions["k0"]] == ["reference", "agrees"]
    problems = [each.problem for each in verification.draws["k0"]]
    assert problems[:3] == [""] * 3
    assert set(problems[3:]) <= {"a candidate reads outside", "a candidate fails"}


def test_elements_that_are_not_finite_in_the_reference_are_not_judged() -> None:
    body = "y[i] = log(x[i]);"
    verification = verified({"": Pair(FLOATS, body, f"if (x[i] < 0) y[i] = 5; else {body}")})
    assert [each.outcome for each in verification.functions["k0"]] == ["reference", "agrees"]
    other = verified({"": Pair(FLOATS, IDENTITY, "y[i] = x[i] < 0 ? NAN : x[i];")})
    assert other.functions["k0"][1].outcome == "differs"
