"""The functions of OpenCL C for integers compute as source and as SPIR-V what Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opencl_conversions import TYPES, wrong_conversions
from opencl_integers import DTYPES, LANES, ROWS, wrong_integers
from test_il_kernels import run
from test_il_kernels import target as target  # the fixture

import devmod


def wrong_on_target(type_: str, lanes: tuple[int, ...], target: str, rows: int) -> list[str]:
    """Return the wrong results of a target, as `wrong_integers`."""

    def launch(source: str, kernel: str, arrays: Any, threads: int) -> None:
        run(target, kernel, *arrays, block=threads, text=source)

    return wrong_integers(type_, launch, rows, lanes)


#: The types and lanes, few of them in `make test`.
CASES = [
    pytest.param(
        *(type_, lanes),
        id=f"{type_} {lanes[-1]}",
        marks=() if lanes == (1, 3) and type_ in ("char", "uint", "long") else pytest.mark.volume,
    )
    for type_ in DTYPES
    for lanes in ((1, 3), LANES)
]


@pytest.mark.filterwarnings("ignore:clang has warnings", "ignore:Non-empty compiler output")
@pytest.mark.parametrize(("type_", "lanes"), CASES)
def test_functions_of_integers(type_: str, lanes: tuple[int, ...], target: str) -> None:
    if target == "source" and devmod.device("opencl").handle.platform.name.startswith("Portable"):
        pytest.skip("the kernels are of OpenCL C 2.0, and PoCL has 1.2 and 3.0")
    wrong = wrong_on_target(type_, lanes, target, 2 * ROWS)
    if target == "source" and devmod.device("opencl").handle.platform.name.startswith("Intel"):
        # Intel's runtime computes it wrongly.
        wrong = [each for each in wrong if not each.startswith("mad_sat")]
    assert wrong == []


@pytest.mark.volume_but("long", "float")
@pytest.mark.parametrize("source", TYPES)
def test_conversions(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_OPENCL_TRIAL", "0")  # it would build everything once more
    devices = [
        each
        for each in devmod.devices("opencl")
        if {"fp16", "fp64"} <= each.features and "SPIR-V" in each.handle.il_version
    ]
    if not devices:
        pytest.skip(
            "no OpenCL device here takes SPIR-V with half and double: pip install 'devmod-opencl[intel]'"
        )
    assert wrong_conversions(source, "opencl -format=il", devices[0]) == []


SHUFFLES = """
kernel void k(global const {type_} *x, global {type_} *y) {{
    {type_}{lanes} a = vload{lanes}(0, x), b = vload{lanes}(1, x);
    {mask}{count} known = ({mask}{count})({numbers}), drawn = known + ({mask}{count})(x[0] != 3);
    vstore{count}(shuffle(a, known), 0, y);
    vstore{count}(shuffle(a, drawn), 1, y);
    vstore{count}(shuffle2(a, b, known), 2, y);
    vstore{count}(shuffle2(a, b, drawn), 3, y);
}}
"""
MASKS = {"uchar": "uchar", "short": "ushort", "int": "uint", "float": "uint", "ulong": "ulong"}


@pytest.mark.parametrize("type_", MASKS)
def test_shuffles(type_: str, target: str) -> None:
    """Also with indices beyond the vectors, whose higher bits do not count."""
    if target == "source" and devmod.device("opencl").handle.platform.name.startswith("Intel"):
        pytest.skip("Intel's runtime shuffles wrongly with constants, from the source too")
    x = np.arange(3, 35).astype(TYPES[type_])
    for lanes in (2, 4, 8, 16):
        for count in (2, 4, 8, 16):
            mask = np.arange(count) * 7 % 64
            text = SHUFFLES.format(
                type_=type_,
                mask=MASKS[type_],
                lanes=lanes,
                count=count,
                numbers=", ".join(map(str, mask.tolist())),
            )
            y = np.zeros((4, count), x.dtype)
            run(target, "k", x, y, text=text)
            one, two = x[mask % lanes].tolist(), x[mask % (2 * lanes)].tolist()
            assert y.tolist() == [one, one, two, two], (lanes, count)


def test_any_and_all_of_a_number(target: str) -> None:
    """The sign bit decides, as in vectors."""
    lines = []
    for at, type_ in enumerate(("char", "short", "int", "long")):
        values = f"convert_{type_}(x[i])"
        lines.append(f"y[i * 12 + {3 * at}] = any({values});")
        lines.append(f"y[i * 12 + {3 * at + 1}] = all({values});")
        lines.append(f"y[i * 12 + {3 * at + 2}] = any(({type_}2)(0, {values}));")
    text = f"kernel void k(global const char *x, global int *y) {{ int i = get_global_id(0); {' '.join(lines)} }}"
    x, y = np.array([0, 1, 127, -1, -128], "int8"), np.zeros((5, 12), "int32")
    run(target, "k", x, y, block=5, text=text)
    assert y.tolist() == [[each] * 12 for each in (0, 0, 0, 1, 1)]
