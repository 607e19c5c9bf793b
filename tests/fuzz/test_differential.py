"""Four readers read the same of valid and nearly valid files: devmod, `compilers/readers/c`,
`extras/browser/js`, and the one that is written from docs/formats.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from alone import core_alone as core_alone
from each_case import check_each

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import golden_bad  # noqa: E402
from fuzzing import c_reader, differential, grammar  # noqa: E402
from fuzzing.mutation import Pairs, copy_tree  # noqa: E402
from fuzzing.readers import Breach  # noqa: E402
from handmade import file_of  # noqa: E402

SAMPLES = {each.name: each for each in grammar.all_samples()}


@pytest.mark.row("R19", "R20", "R41")
def test_readers_agree_on_valid_files() -> None:
    check_each(SAMPLES, lambda name: differential.check(SAMPLES[name], SAMPLES[name].tree))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_valid(name: str) -> None:
    data = SAMPLES[name].write(SAMPLES[name].tree, None)
    if not data.startswith(b"\x89"):
        return
    reading = differential.read_in_python(data)
    for key in (*differential.VERDICTS, "form"):
        assert reading[key] == ""
    for record in reading["records"]:
        for info in record.get("infos", ()):
            assert info["state"] == "valid"
            assert None not in info.get("variants", [])
            assert name.startswith("index") or None not in info.get("launches", [])
            assert info.get("kernels", []) is not None


@pytest.mark.row("R19", "R20", "R41")
def test_readers_agree_on_nearly_valid_files() -> None:
    random = Random(1)
    for _ in range(1000):
        differential.read(differential.mutate(b"", random))


@pytest.mark.volume
@pytest.mark.row("R19", "R20", "R41")
@pytest.mark.parametrize("name", SAMPLES)
def test_readers_agree_on_each_change(name: str) -> None:
    """An index has the same changes in each of its records."""
    sample = SAMPLES[name]
    step = 5 if name.startswith("index") else 1
    for number, tree in enumerate(grammar.every(sample)):
        if number % step == 0:
            differential.check(sample, tree)


def opencl(*functions: Any) -> tuple[str, Any]:
    """Return a module with functions of one name."""
    return "opencl", ["cl", Pairs([["f", each] for each in functions]), b""]


def with_value(name: str, key: str, value: Any, *path: int) -> tuple[str, Any]:
    """Return the tree of a sample with a value of a key of the map at a path."""
    tree = copy_tree(SAMPLES[name].tree)
    place = tree
    for at in path:
        place = place[at][1] if isinstance(place, Pairs) else place[at]
    place[[each for each, _ in place].index(key)] = [key, value]
    return name, tree


PLAIN = ["k", [], [], []]
NEWER = Pairs([["needs", ["later"]], ["params", 1]])
NEWER_VARIANT = Pairs([["values", [1, 2]], ["interface", NEWER]])
BOTH = dict(SAMPLES["tune"].tree)["variants"]
METADATA = Pairs([["name", "k"], ["arg_types", []], ["interface", NEWER]])
#: What one of the readers read in another way: the name of a sample, and a tree in its place.
ONCE_DIFFERENT = {
    "an extra tag that is a boolean": opencl(["k", [], [], [True]]),
    "an extra tag of 33 bits": opencl(["k", [], [], [2**31]]),
    "extra tags in a map": opencl(["k", [], [], Pairs()]),
    "a function twice": opencl(PLAIN, PLAIN),
    "a shader twice": ("webgpu", [Pairs(), Pairs([["f", b""], ["f", b""]])]),
    "a variant without keys": with_value(
        "tune", "variants", [Pairs([["values", [1, 2]]]), Pairs()]
    ),
    "an array of no dimensions": with_value("program twice", "shape", [], 0, 0, 4),
    "a filter in an array": with_value("program show", "filter", ["linear"], 0, 0, 6),
    "a filter that is a map": with_value("program show", "filter", Pairs(), 0, 0, 6),
    "a default that is too large": with_value("program twice", "value", 1e300, 0, 0, 1),
    "a newer variant": with_value("tune", "variants", [BOTH[0], NEWER_VARIANT]),
    "a newer variant alone": with_value("tune", "variants", [NEWER_VARIANT]),
    "a newer function in JSON": ("metadata", Pairs([["func_info", Pairs([["f", METADATA]])]])),
}


@pytest.mark.row("R19", "R41")
@pytest.mark.parametrize("name", ONCE_DIFFERENT)
def test_readers_agree_on_what_one_read_in_another_way(name: str) -> None:
    sample, tree = ONCE_DIFFERENT[name]
    differential.compare(SAMPLES[sample].write(tree, None))


@pytest.mark.row("R19", "R41")
def test_readers_refuse_other_symbols_of_constants_than_those_of_the_index() -> None:
    sample = SAMPLES["index constants"]
    head, page = copy_tree(sample.tree)
    modules = dict(page)["modules"]
    for record in modules:
        if dict(record)["kind"] == "const_loader":
            record[:] = [pair for pair in record if pair[0] != "functions"]
    data = sample.write([head, page], None)
    assert "gives the const_loader module" in differential.read_in_python(data)["refused"]
    differential.compare(data)


@pytest.mark.row("R19", "R45")
@pytest.mark.parametrize("value", [65519.0, 65520.0, 10**9, 2**63 - 1])
def test_a_default_of_a_small_float(value: float) -> None:
    name, tree = with_value("program twice", "value", value, 0, 0, 1)
    place = tree[0][0][1][1]
    place[[each for each, _ in place].index("type")] = ["type", "float16"]
    data = SAMPLES[name].write(tree, None)
    (info,) = differential.read_in_python(data)["records"][0]["infos"]
    assert (info["kernels"] is None) == (value >= 65520)
    differential.compare(data)


@pytest.mark.row("R41")
def test_bytes_behind_a_record_of_unknown_features_are_zeros() -> None:
    sample = SAMPLES["index two-features"]
    head, page = copy_tree(sample.tree)
    record = dict(page)["modules"][0]
    record[[each for each, _ in record].index("size")] = ["size", 2]
    data = sample.write([head, page], None)
    assert "not zero" in differential.read_in_python(data)["of_all"]
    differential.compare(data)


#: The stored bytes of modules, each with a range and the position of its repeat.
REPEATS = {
    "a repeat in a payload": ("opencl", "cl", b"\xa2cl\x80\xc4\x02a", [6, 1, 7]),
    "a repeat of a part of a shader": (
        "webgpu",
        "wgsl",
        b"\x80\x82\xa1f\xc4\x02ab\xa1g\xc4\x01",
        [7, 1, 12],
    ),
}


@pytest.mark.row("R19", "R41")
@pytest.mark.parametrize("name", REPEATS)
def test_readers_refuse_repeats_that_are_no_shaders(name: str) -> None:
    kind, form, stored, repeat = REPEATS[name]
    record = golden_bad.entry(stored, kind=kind, format=form, repeats=[repeat])
    data = file_of({"modules": [record]}, stored)
    assert "repeat" in differential.read_in_python(data)["refused"]
    differential.compare(data)


@pytest.mark.skipif(c_reader.compiler() is None, reason="there is no C compiler on PATH")
def test_a_difference_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes) -> dict[str, Any]:
        reading = differential.read_in_c(data)
        for record in reading.get("records", ()):
            record["format"] = record["format"].upper()
        return reading

    monkeypatch.setattr(differential, "readers", lambda: {"C": differential.read_in_c, "D": read})
    expected = r"opencl: C and D differ in \.records\[0\]\.format: 'cl' and 'CL'; the smallest: "
    with pytest.raises(Breach, match=expected + r"\['cl', \[\], b'// k'\]"):
        differential.check(SAMPLES["opencl"], SAMPLES["opencl"].tree)
