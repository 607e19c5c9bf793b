"""Entry point ``devmod.conformance.hexagon``: samples for `devmod conformance hexagon` and for the
tests of this plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from devmod import FunctionInfo
from devmod_conformance import C_SCALARS, Call, Conformance, Sample, linear_functions, spin_call

#: `devmod.compile` wrote axpy.elf for v66 from the function `axpy` of kernels.c, so that most cases
#: need no compiler.
_SAMPLES = files("devmod_hexagon") / "samples"
_TARGET = "hexagon -arch=v66"


def _axpy(x: Any, y: Any, a: float, n: int) -> None:
    y[:n] += np.float32(a) * x[:n]


def _scale(x: Any, how: tuple[float, int]) -> None:
    x[: how[1]] *= how[0]


def _softmax(x: Any, y: Any, _rows: int, _columns: int) -> None:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    y[...] = powers / powers.sum(axis=1, keepdims=True)


def _many(out: Any, *values: float) -> None:
    out[0], out[1] = sum(map(int, values[:6])), sum(map(int, values[6:]))


def _lookup(x: Any, n: int) -> None:
    x[:n] = np.array([1, 1, 2, 3])[x[:n] & 3]


def _mean(x: Any, n: int) -> float:
    return float(x[:n].mean(dtype="float64"))


def _raise(x: Any, n: int) -> int:
    x[:n] += 1000
    return int(x[:n].max()) << 33


def _table() -> Any:
    return np.array([2, 3, 5, 7], "int32")


def _add(x: Any, y: Any, n: int) -> None:
    y[:n] += x[:n]


_CALLS = (
    Call(
        "axpy", lambda rng: [rng.random(100, "float32"), rng.random(100, "float32"), 2.5, 90], _axpy
    ),
    Call("scale", lambda rng: [rng.random(20), (3.0, 15)], _scale),
    Call(
        "softmax",
        lambda rng: [rng.standard_normal((6, 10), "float32"), np.zeros((6, 10), "float32"), 6, 10],
        _softmax,
    ),
    Call(
        "many",
        lambda rng: [
            np.zeros(2, "int64"),
            -1,
            -(1 << 40),
            3.0,
            4.0,
            65535,
            -6,
            1 << 33,
            True,
            9,
            10.0,
            255,
        ],
        _many,
    ),
    Call("mean", lambda rng: [rng.random(50, "float32"), 40], _mean),
    Call("raise", lambda rng: [rng.integers(0, 99, 20, "int32"), 20], _raise),
    Call("lookup", lambda rng: [rng.integers(0, 99, 64, "int32"), 60], _lookup),
)


class HexagonConformance(Conformance):
    """A shared object; C with an interface, and LLVM IR without one, compiled by devmod."""

    kind = "hexagon"
    build_step = "devmod_hexagon._binary.read_extent"
    driver_programs = ("qemu-hexagon",)
    several_devices: Mapping[str, str] = {"DEVMOD_HEXAGON_DEVICES": "2"}
    samples = (
        Sample(
            (_SAMPLES / "axpy.elf").read_bytes(),
            "so",
            {"axpy": linear_functions(())["axpy"]},
            calls=_CALLS[:1],
        ),
        Sample.compiled(
            (_SAMPLES / "kernels.c").read_text("utf-8"),
            _TARGET,
            language="C",
            calls=_CALLS,
            global_arrays={"table": _table},
        ),
        Sample.compiled(
            (_SAMPLES / "add.ll").read_text("utf-8"),
            _TARGET,
            language="LLVM IR",
            fmap={"add": FunctionInfo("add", ["handle", "handle", "int32"])},
            calls=[
                Call(
                    "add",
                    lambda rng: [
                        rng.integers(0, 99, 30, "int32"),
                        rng.integers(0, 99, 30, "int32"),
                        25,
                    ],
                    _add,
                )
            ],
        ),
    )
    scalars = (
        Sample.compiled(
            "#define bool _Bool\n"
            + "\n".join(
                f"void store_{number}({each} *result, {each} value) {{ result[0] = value; }}"
                for number, each in enumerate(C_SCALARS.values())
            ),
            _TARGET,
            language="C",
        ),
    )
    slow = Sample.compiled(
        (_SAMPLES / "spin.c").read_text("utf-8"),
        _TARGET,
        language="C",
        calls=[spin_call(8, 500_000)],
    )
    bad_payloads = (
        Sample(b"", "so", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF no shared object", "so", {"k": FunctionInfo("k", ["handle"])}),
        Sample(
            b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x03\x00\xa4\x00" + bytes(100),
            "so",
            {"k": FunctionInfo("k", ["handle"])},
        ),
    )
