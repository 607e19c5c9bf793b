"""The weight and the density of code: what counts, and that no part is above its limit."""

from __future__ import annotations

from pathlib import Path

import pytest

import density
import weight


def test_no_part_is_larger_than_its_limit_or_smaller_without_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert weight.problems() == []
    limits = {"python": {"core": 10}, "words": {"docs": 1_000_000}}
    monkeypatch.setattr(weight, "limits", lambda: limits)
    core = weight.counts()["python"]["core"]
    docs = weight.counts()["words"]["docs"]
    above = f"core has {core:,} nodes of python, and tools/weight.toml allows 10: make it smaller. Only an issue raises the limit"
    below = f"docs has {docs:,} words of words, and tools/weight.toml allows 1,000,000: write a row of {docs - 1_000_000:,} for the cut"
    assert {above, below} <= set(weight.problems())
    monkeypatch.setattr(weight, "FILE_LIMIT", 4_000)
    large = {text.split()[0] for text in weight.problems() if "one thought" in text}
    expected = set()
    for path, count in weight.nodes().items():
        if count > 4_000 and weight.part_of(path) not in ("", "tests"):
            expected.add(str(path))
    assert large == expected != set()


def test_no_part_is_denser_than_its_limits() -> None:
    assert weight.dense_problems() == {}


#: A statement with each dense form, and the problem of a part of 1,000 nodes that has too many.
PLANTED = {
    "conditional": ("x = a if b else c", "4.00 of the form 'conditional', and 3.0 are allowed"),
    "comprehension": (
        "x = [a for a in b]",
        "6.00 of the form 'comprehension', and 5.5 are allowed",
    ),
    "parallel": ("a, b = c, d", "1.00 of the form 'parallel', and 0.9 are allowed"),
    "nothing": ("for a in b if c else (): pass", "1.00 of the form 'nothing', and 0.0 are allowed"),
}


@pytest.mark.parametrize("form", PLANTED)
@pytest.mark.parametrize("folder", ["core/src", "tools", "plugins/devmod-toy/src"])
def test_a_dense_part_is_named(form: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, sentence = PLANTED[form]
    rate = sentence.partition(".")[0]
    fitting = int(weight.DENSITY_LIMITS[form])
    part = "the small ones" if folder != "tools" else "tools"

    def problems(count: int) -> list[str]:
        text = (statement + "\n") * count
        padding = 1000 - density.nodes(text)
        text += "pass\n" * padding
        monkeypatch.setattr(weight, "files", lambda: {Path(folder, "a.py"): text})
        return [each for each in weight.dense_problems()[part] if f"'{form}'" in each]

    assert problems(fitting) == []
    assert problems(int(rate)) == [sentence]


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ([15] * 100, []),
        ([16], ["1 functions over 15 decisions"]),
        ([16] + [1] * 99, []),
        ([16] * 2 + [1] * 99, ["2 functions over 15 decisions"]),
        ([26] + [1] * 99, ["1 functions over 25 decisions"]),
    ],
)
def test_long_functions_are_named(
    decisions: list[int], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = ["def f():\n" + "    if a: pass\n" * each for each in decisions]
    text = "\n".join(functions)
    monkeypatch.setattr(weight, "files", lambda: {Path("core/src/a.py"): text})
    assert weight.dense_problems().get("the small ones", []) == expected


#: A source, and its nodes: names, calls, constants and statements count, layout does not.
NODES = {
    '"""Doc\nof two lines."""\n\n# comment\nx = 1\n': 4,
    "x=1": 4,
    "x = (\n    1\n)": 4,
    "x = [\n    1,\n    -2,\n]": 7,
    'def f():\n    "Doc."\n    return 1\n': 5,
    'x = "a b c"': 4,
    'x = "a b c".split()': 6 + 3,
    'x = "a,b".split(",")': 7 + 2,
    'x = "a\\nb".splitlines()': 6 + 2,
    'T = "a b c"\nx = T.split()': 4 + 5 + 3,
    "x = json.loads('{\"a\": [1, 2]}')": 7 + 3,
    "@property\ndef f(self): pass": 6,
}


@pytest.mark.parametrize("source", NODES)
def test_nodes_are_counted_without_docstrings_operators_and_contexts(source: str) -> None:
    assert density.nodes(source) == NODES[source]


#: A form, and what it counts as.
FORMS = {
    "x = a if c else b": "conditional",
    "x = c and a or 1": "conditional",
    "x = (a, b)[c > 1]": "conditional",
    "x = '.' * (c > 1)": "conditional",
    "x = [a for a in b]": "comprehension",
    "x = list(map(lambda a: a.b, c))": "comprehension",
    "a, b = c, d": "parallel",
    "for a in b if c else (): pass": "nothing",
    "x += [] if c else [a]": "nothing",
}
#: Forms that look like those.
PLAIN_FORMS = [
    "x = a or b",
    "x = a and b or c == d",
    "x = a[b]",
    "x = a * b",
    "x = list(map(str, c))",
    "a, b = c",
    "for a in b or (): pass",
    "x += [a]",
]


@pytest.mark.parametrize("source", FORMS)
def test_a_dense_form_is_counted(source: str) -> None:
    assert density.measure(source)[FORMS[source]] == 1


@pytest.mark.parametrize("source", PLAIN_FORMS)
def test_a_plain_form_is_not_counted_as_a_dense_one(source: str) -> None:
    counts = density.measure(source)
    assert {name: counts[name] for name in set(FORMS.values()) if counts[name]} == {}


@pytest.mark.parametrize(("decisions", "over"), [(10, 0), (11, 1), (15, 1), (16, 2), (26, 3)])
def test_functions_with_many_decisions_are_counted(decisions: int, over: int) -> None:
    inner = "    def g():\n        if a: pass\n"
    counts = density.measure(f"def f():\n{inner}" + "    if a: pass\n" * decisions)
    assert counts["over10"] + counts["over15"] + counts["over25"] == over


def test_lines_of_c_and_javascript_are_counted_without_comments() -> None:
    assert (
        weight.code_lines('/* a\n b */ int x; // c\n\nchar *s = "/*";\n// d\nint y; /* e */\n') == 3
    )
