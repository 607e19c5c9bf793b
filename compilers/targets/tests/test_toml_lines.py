"""The lines of the keys of a TOML document, compared with tomllib's values."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from devmod_targets.build.document import key_lines

KeyPath = tuple[str | int, ...]

DOCUMENT = '''\
# a comment with [brackets] = "and quotes
title = "x"  # another
"quoted key".'lit.eral' . bare-1 = 1

[a.b]
text = """one
"two" \\""" three
four"""
raw = \'\'\'
[not.a.table]
\'\'\'\'\'
list = [ # a comment ]
  1, "]", [ 2,
    3 ],
  { x = 1, y = [4] },
]
inline = { z.w = 1979-05-27 07:32:00, e = "}" }

[[t]]
v = 1
[t.u]
w = 2

[[t]]
v = 3
[[t.s]]
r = 5
[[t.s]]
r = 6
'''


def test_the_lines_of_a_document() -> None:
    lines = key_lines(DOCUMENT)
    assert lines == {
        ("title",): 2,
        ("quoted key",): 3,
        ("quoted key", "lit.eral"): 3,
        ("quoted key", "lit.eral", "bare-1"): 3,
        ("a",): 5,
        ("a", "b"): 5,
        ("a", "b", "text"): 6,
        ("a", "b", "raw"): 9,
        ("a", "b", "list"): 12,
        ("a", "b", "list", 0): 13,
        ("a", "b", "list", 1): 13,
        ("a", "b", "list", 2): 13,
        ("a", "b", "list", 2, 0): 13,
        ("a", "b", "list", 2, 1): 14,
        ("a", "b", "list", 3): 15,
        ("a", "b", "list", 3, "x"): 15,
        ("a", "b", "list", 3, "y"): 15,
        ("a", "b", "list", 3, "y", 0): 15,
        ("a", "b", "inline"): 17,
        ("a", "b", "inline", "z"): 17,
        ("a", "b", "inline", "z", "w"): 17,
        ("a", "b", "inline", "e"): 17,
        ("t",): 19,
        ("t", 0): 19,
        ("t", 0, "v"): 20,
        ("t", 0, "u"): 21,
        ("t", 0, "u", "w"): 22,
        ("t", 1): 24,
        ("t", 1, "v"): 25,
        ("t", 1, "s"): 26,
        ("t", 1, "s", 0): 26,
        ("t", 1, "s", 0, "r"): 27,
        ("t", 1, "s", 1): 28,
        ("t", 1, "s", 1, "r"): 29,
    }
    assert set(lines) == set(paths(tomllib.loads(DOCUMENT)))


def test_carriage_returns_and_the_first_line() -> None:
    assert key_lines('a = 1\r\nb = """\r\n"""\r\n[c]\r\nd = 2') == {
        ("a",): 1,
        ("b",): 2,
        ("c",): 4,
        ("c", "d"): 5,
    }
    assert key_lines("") == {}
    assert key_lines("[a]") == {("a",): 1}


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of the keys and members of tomllib's result."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in items:
        yield (*path, key)
        yield from paths(each, (*path, key))


# -- documents made of random tables. Every key and every scalar is a marker that occurs once


def marker_of(name: str) -> str:
    return name[: name.index("m", 1) + 1]


class _Writer:
    def __init__(self, draw: Any) -> None:
        self.draw, self.count, self.lines = draw, 0, [""]
        self.expected: dict[KeyPath, str] = {}

    def pick(self, *choices: str) -> str:
        return str(self.draw(st.sampled_from(choices)))

    def marker(self) -> str:
        self.count += 1
        return f"m{self.count}m"

    def key(self) -> tuple[str, str]:
        """Return a key, which begins with its marker, and its text."""
        name = self.marker() + self.pick("", "", " x", ".y", "é", '"', "#]")
        bare = name.isascii() and name.isalnum()
        return name, name if bare and self.draw(st.booleans()) else json.dumps(
            name, ensure_ascii=self.draw(st.booleans())
        )

    def value(self, path: KeyPath, depth: int, inline: bool) -> str:
        shape = self.pick("scalar", "scalar", "array", "table") if depth < 3 else "scalar"
        space = "" if inline else self.pick("", " ", "\n", "\n # ] } \" '\n")
        if shape == "array":
            parts = []
            for index in range(self.draw(st.integers(0, 3))):
                mark = self.marker()
                self.expected[(*path, index)] = mark
                # The marker of a member is the string before it: an array of pairs.
                parts.append(f'["{mark}", {self.value((*path, index, 1), depth + 1, inline)}]')
                self.expected[(*path, index, 0)] = mark
                self.expected.setdefault((*path, index, 1), "")
            return "[" + ",".join(space + part for part in parts) + space + "]"
        if shape == "table":
            parts = []
            for _ in range(self.draw(st.integers(0, 2))):
                name, text = self.key()
                self.expected[(*path, name)] = marker_of(name)
                parts.append(f"{text} = {self.value((*path, name), depth + 1, True)}")
            return "{ " + ", ".join(parts) + " }"
        mark = self.marker()
        breaks = "" if inline else self.pick("", "\n")
        return self.pick(
            "1",
            "1.5",
            "true",
            "2020-01-02",
            f'"{mark} \\" # ["',
            f"'{mark} \\'",
            f'"""{breaks}{mark} "" ] \\""" """',
            f"'''{breaks}{mark} '' ] '''''",
        )


@given(st.data())
def test_random_documents(data: st.DataObject) -> None:
    writer = _Writer(data.draw)
    text = ""
    table: KeyPath = ()
    for _ in range(data.draw(st.integers(0, 6))):
        form = writer.pick("pair", "pair", "header", "array of tables", "comment")
        if form == "comment":
            text += writer.pick("# [x]\n", "\n", '  # a = "\n')
            continue
        name, written = writer.key()
        if form == "pair":
            writer.expected[(*table, name)] = marker_of(name)
            text += f"{writer.pick('', '  ')}{written} {writer.pick('=', ' = ')} {writer.value((*table, name), 0, False)}{writer.pick('', ' # c')}\n"
            continue
        table = (name,) if form == "header" else (name, 0)
        for length in range(1, len(table) + 1):
            writer.expected[table[:length]] = marker_of(name)
        text += f"[ {written} ]\n" if form == "header" else f"[[{written}]]\n"
    values = tomllib.loads(text)
    lines = key_lines(text)
    assert set(lines) == set(paths(values)) == set(writer.expected)
    for path, marker in writer.expected.items():
        line = text.split("\n")[lines[path] - 1]
        assert marker in line
