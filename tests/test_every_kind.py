"""Modules of every kind and format, with payloads that no driver runs: the kit's rows about bytes and files, and the imports."""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import run_python

from devmod import FunctionInfo
from devmod.backend import find_spec
from devmod.targets import KINDS
from devmod_conformance import Conformance, Sample, run

INFO = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "threadIdx.x"])
ROWS = ("R18", "R19-same", "R22-round", "R23-same-kind", "R26")


def spec_of(kind: str) -> Any:
    spec = find_spec(kind)
    assert spec is not None
    return spec


def code_of(kind: str) -> Any:
    """Return a payload. Vulkan's has a flag and the number of its words, and Hexagon's has the header by which a file is recognized."""
    headers = {"vulkan": bytes(4) + b"\1" + bytes(7) + b"\3\2#\7", "hexagon": b"\x7fELF\1\1\1" + bytes(9) + b"\3\0\xa4\0"}
    code = headers.get(kind, b"// a payload")
    return {"k": code} if spec_of(kind).shader_map else code


@pytest.mark.row("R14", "R18", "R19", "R22", "R23", "R26")
@pytest.mark.parametrize(("kind", "fmt"), [(kind, fmt) for kind in KINDS for fmt in spec_of(kind).formats])
def test_a_module_of_each_format_equals_its_fallback(kind: str, fmt: str) -> None:
    source = dict.fromkeys((*spec_of(kind).source_keys, "x"), "a text")
    case = Conformance()
    case.kind, case.samples = kind, [Sample(code_of(kind), fmt, {"k": INFO}, source=source)]
    assert [(result.row.id, result.outcome, result.reason) for result in run(case, ROWS)] == [(row, "passed", "") for row in ROWS]


@pytest.mark.row("R5", "R6", "R39")
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_made_saved_and_loaded_without_numpy(kind: str) -> None:
    """The kit's rows R6 and R23-lazy show that no driver is imported."""
    formats = [fmt for fmt in spec_of(kind).formats if fmt != "cuda"]  # CUDA C++ may be compiled by create
    program = (
        f"import sys, devmod, devmod_{kind}\n"
        f"for fmt in {formats}:\n"
        f"    module = devmod.create({kind!r}, {code_of(kind)!r}, fmt, {{'k': devmod.FunctionInfo('k', [])}})\n"
        f"    devmod.load_from_bytes({kind!r}, module.save_to_bytes()).save_to_bytes()\n"
        "    module.inspect_source()\n"
        "print('numpy' in sys.modules)\n"
    )
    assert run_python(program) == "False\n"
