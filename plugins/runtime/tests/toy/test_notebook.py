"""What a notebook shows: `_repr_html_` of modules, functions, arrays and devices. Every text is
escaped.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import toy_backend as toy
from stored import from_wire

import devmod
from devmod import FunctionInfo, Interface, Param

HOSTILE = "<script>alert('&\"')</script>\x1b[2J\u202e\n"
ESCAPED = "<script>alert('&\"')</script>\\x1b[2J\\u202e\\n"


class Cells(HTMLParser):
    """The caption and the cells of a table. Any element that is not of a table is a failure."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.caption, self.rows, self.tags = "", list[list[str]](), set[str]()
        self.open = ""
        self.feed(text)
        self.close()
        assert self.tags <= {"table", "caption", "tr", "th", "td"}
        assert text.isprintable()
        assert "<table><caption>" in text

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        assert attributes == []
        self.tags.add(tag)
        self.open = tag
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.open == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


def shown(value: Any) -> tuple[str, list[list[str]]]:
    cells = Cells(value._repr_html_())
    return cells.caption, cells.rows


def info(name: str = "y") -> FunctionInfo:
    params = [Param(name, "buffer", "float32", "rw"), Param("n", "scalar", "int32")]
    return FunctionInfo("f", ["handle", "int32"], (), (), Interface(params, block=(64, 1, 1)))


def test_a_device(devices: list[toy.ToyDevice]) -> None:
    device = devices[1]
    assert shown(device) == ("toy device 1", [["name", "toy number 1"]])
    device.name, device.vendor, device.driver_version, device.arch, device.memory = (
        HOSTILE,
        "v",
        "1.2",
        "a",
        1 << 30,
    )
    assert shown(device)[1] == [
        ["name", ESCAPED],
        ["vendor", "v"],
        ["driver", "1.2"],
        ["architecture", "a"],
        ["memory", "1,073,741,824 bytes"],
    ]


def test_an_array(devices: list[toy.ToyDevice]) -> None:
    rows = [
        ["type", "float32"],
        ["shape", "(2, 300)"],
        ["size", "2,400 bytes"],
        ["memory", "toy device 0 (toy number 0)"],
    ]
    assert shown(devices[0].empty((2, 300), "float32")) == ("Array", rows)
    constant = devmod.const_loader({"w": np.zeros(3, "int8")}, {}).get_global("w")
    assert shown(constant) == (
        "Array",
        [["type", "int8"], ["shape", "(3,)"], ["size", "3 bytes"], ["memory", "the host"]],
    )


def test_a_function(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({"f": info(HOSTILE), HOSTILE: FunctionInfo("g", ["handle", "float32"])})
    head = ["argument", "type"]
    assert shown(module["f"]) == (
        "toy function f block 64×1×1",
        [head, [ESCAPED, "float32* rw"], ["n", "int32"]],
    )
    assert shown(module[HOSTILE]) == (
        f"toy function {ESCAPED}",
        [head, ["1", "handle"], ["2", "float32"]],
    )


def test_a_module(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({HOSTILE: info(HOSTILE), "g": FunctionInfo("g", [])})
    hostile = f"{ESCAPED}({ESCAPED}: float32* rw, n: int32) block 64×1×1"
    assert shown(module) == ("ToyModule toy toy", [["function", hostile], ["function", "g()"]])
    other = devmod.create_with_fallback("opencl", b"", "cl", {"h": FunctionInfo("h", [])})
    caption, rows = shown(devmod.bundle(module, other))
    assert caption == "BundleModule bundle"
    assert rows == [
        ["function", hostile],
        ["function", "g()"],
        ["function", "h()"],
        ["candidate", "toy toy"],
        ["candidate", "opencl cl"],
    ]
    module.import_module(other)
    assert shown(module)[1][-1] == ["import", "opencl cl"]


def test_a_damaged_function_does_not_hide_the_others() -> None:
    data = b"\xa2cl\x82\xa3bad\x94\xa1k\x91\xa1x\x90\x90\xa1b\x94\xa1l\x90\x90\x90\xc4\x03abc"
    rows = shown(from_wire("opencl", data, ("bad", "b")))[1]
    assert rows == [
        [
            "function",
            "bad: the bytes of the opencl module: fmap of 'bad', arg_types: expected an array, found a string, at byte 12",
        ],
        ["function", "b()"],
    ]


def test_long_tables_and_texts_are_cut(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({f"f{number}": FunctionInfo("f", []) for number in range(1000)})
    rows = shown(module)[1]
    assert (len(rows), rows[-1]) == (21, ["", "and 980 more functions"])
    params = [Param("x" * 1000, "scalar", "int32")] * 60
    function = toy.module({"f": FunctionInfo("f", ["int32"] * 60, (), (), Interface(params))})["f"]
    rows = shown(function)[1]
    assert (len(rows), rows[1], rows[-1]) == (52, ["x" * 299 + "…", "int32"], ["and 10 more"])


def test_the_repr_of_functions_lists_their_names() -> None:
    code = devmod.create_with_fallback(
        "opencl", b"", "cl", {name: FunctionInfo(name, []) for name in "abcdefghijklmn"}
    )

    def loaded(module: devmod.Module) -> devmod.Module:
        return devmod.loads(devmod.dumps(module))

    text = "<functions 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l' and 2 more>"
    assert repr(loaded(code).functions) == repr(devmod.bundle(code).functions) == text
