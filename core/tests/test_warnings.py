"""A warning has the place in the program that called devmod."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from stored import entry, headed, row
from support import sample

import devmod
from devmod import FunctionInfo, Interface, Param

#: A program that calls devmod from its fifth line.
PROGRAM = """
def outer():
    inner()
def inner():
    {}
outer()
"""
INFO = FunctionInfo("f", ["handle"], (), (), Interface([Param("x", "buffer", "float32")]))


def newer_module() -> devmod.Module:
    """Return a module of a file with a key of an unknown name, which a save drops."""
    data = msgpack.packb("cl") + msgpack.packb({"f": ["k", [], [], []]}) + msgpack.packb(b"//")
    page = msgpack.packb({"modules": [entry(data, rank=0, functions=["f"])]})
    head = {"candidates": 1, "unknown": 1, "pages": [row(page, 1, len(data))]}
    return devmod.loads(headed(head, page, data))


def with_block(kind: str, *block: int) -> devmod.Module:
    """Return a module whose function has a block, or none."""
    code, fmt, _ = sample(kind)
    interface = Interface([Param("x", "buffer", "float32")], block=block or None)
    info = FunctionInfo("f", ["handle"], (), (), interface)
    return devmod.create_with_fallback(kind, code, fmt, {"f": info})


CALLS = [
    ("devmod.dumps(newer)", "has the key 'unknown'"),
    ("devmod.save(newer, path)", "has the key 'unknown'"),
    ("devmod.dumps(zeros, compress='zstd')", "without compression"),
    ("devmod.bundle(*blocks)", "needs block="),
    ("devmod.devices()", "devmod.device.wood is broken"),
]


@pytest.mark.parametrize(("call", "text"), CALLS)
def test_a_warning_has_the_line_of_the_program(
    call: str, text: str, register: Callable[..., None], tmp_path: Path
) -> None:
    register("devmod.device", "wood", lambda: [3])
    _, fmt, functions = sample("cuda")
    names: dict[str, Any] = {
        "devmod": devmod,
        "newer": newer_module(),
        "path": tmp_path / "k.devmod",
        "zeros": devmod.create_with_fallback("cuda", bytes(2**20 + 200_000), fmt, functions),
        "blocks": [with_block("opencl"), with_block("vulkan", 64, 1, 1)],
    }
    with pytest.warns(match=text) as caught:
        exec(compile(PROGRAM.format(call), "program of a test", "exec"), names)
    assert [(each.filename, each.lineno) for each in caught] == [("program of a test", 5)]
