"""Entry point ``devmod.conformance.hexagon``: samples for `devmod conformance hexagon` and for the tests of this plugin."""

from __future__ import annotations

import zlib
from base64 import b64decode
from typing import Any

import numpy as np

from devmod import FunctionInfo
from devmod_conformance import Call, Conformance, Sample, linear_functions, spin_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


# -- A shared object for the conformance cases, so that most of them need no compiler.


# void axpy(const float *x, float *y, float a, int n)
# {
#     for (int i = 0; i < n; i++)
#         y[i] += a * x[i];
# }
#: The shared object of this C for v66, as `devmod.compile` writes it, compressed by zlib.
_AXPY = (
    "eNqVVM9rE1EQnre72cSEYvwBRvEQ8RBPSy0FRYRu2mpAImj1IhR028Qk1GxCsi0JCKlE0qpBCQg5KEigJIgecvO62KIXT8U/wEOlNwtiPWnXmd23dYm5OOTb"
    "+ebNvDez83ZSu5S8zBgDV0RYA9caR0RFgLs2j4IfzkAIgiBzn4svHBLH39Mc0ZkDybaY7S8yArOxhTbB5/HfFAiCjfNovx0BOy/5hSF+gszzz3w1UsP2u7Vd"
    "Rz8MERmGi1OvU+dhrJLxNcIJxDL+iPeuPr9PtQmeffuiVYpVOsdcD2+p4pJPhcrs9tQhq2b5xYS4JL9n/diU2KyvQz9i+u+ACjUwoeaL+/qxWr29ajXar2uN"
    "9ifUqwlh5xvyXz+6vQT6DpqN1kW10bqC+hH6FpD/Rl/GqrebaO997/ZWkD9FbiHvIX+GHDa7nY/IXyJnyLeRP0YuID8H4uSTFWFHnpb74udu58OEeise922o"
    "pm8jYkr79Z1Wl19I5oPWw7qwE9jsvAHz1Qz18Si+fAh1mN9rFu0g7/HunlUY59/DNU+T4scoMF3RMgUdGO2WJgMsyJI5fSFduhBNJqejY2PKWQUvVElV9XI1"
    "D0pGX1SyWjkL/EnrRgkUI10xbEvL5+ZBKaXvlQq3i1oqldMzGOtkUTTDKOXmFo10GZT5Qj6f1nFTOYsnGNoc/IfQa4T43dO7E6KeeZB4Lw4gflpWgeKoB4ST"
    "nm9F4voI75vAe0SIDMQRjtsz68RRjwnyQF0kpziXwZ07Z+ZcCXMd4zEiuPPjzJbkyRtAjHJNcU2Ma2KcMfJv3gknpuiuU1xkSH03OB/l9prg9MAbR5jlOV15"
    "Jzj/T4Pn/QHdc8Uf"
)


_TARGET = "hexagon -arch=v66"
_SOURCE = """\
#include <math.h>
#include <stdint.h>

typedef struct { float factor; int count; } Scale;

int32_t table[4] = {2, 3, 5, 7};

void axpy(const float *x, float *y, float a, int n)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

void scale(double *x, Scale how)
{
    for (int i = 0; i < how.count; i++)
        x[i] *= how.factor;
}

void softmax(const float *x, float *y, int rows, int columns)
{
    for (int row = 0; row < rows; row++, x += columns, y += columns) {
        float most = x[0], sum = 0;
        for (int i = 1; i < columns; i++)
            most = fmaxf(most, x[i]);
        for (int i = 0; i < columns; i++)
            sum += y[i] = expf(x[i] - most);
        for (int i = 0; i < columns; i++)
            y[i] /= sum;
    }
}

void many(int64_t *out, int8_t a, int64_t b, float c, double d, uint16_t e, int f, int64_t g, _Bool h, int i, double j, uint8_t k)
{
    out[0] = a + b + (int64_t)c + (int64_t)d + e + f;
    out[1] = g + h + i + (int64_t)j + k;
}

double mean(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

int64_t raise(int32_t *x, int n)
{
    int64_t most = x[0];
    for (int i = 0; i < n; i++) {
        x[i] += 1000;
        most = x[i] > most ? x[i] : most;
    }
    return most << 33;
}

void lookup(int32_t *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = table[x[i] & 3] / 2;
}
"""
_SPIN = """\
void spin(unsigned *x, int n)
{
    for (int i = 0; i < 8; i++)
        for (int round = 0; round < n; round++)
            x[i] = x[i] * 1664525u + 1013904223u;
}
"""
#: LLVM IR has no names and no element types: its functions are called by the declared types alone.
_IR = """\
target triple = "hexagon-unknown-none-elf"

define void @add(ptr %x, ptr %y, i32 %n) {
entry:
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr i32, ptr %x, i32 %i
  %to = getelementptr i32, ptr %y, i32 %i
  %a = load i32, ptr %from
  %b = load i32, ptr %to
  %sum = add i32 %a, %b
  store i32 %sum, ptr %to
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


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
    return np.array([2, 3, 5, 7], "int32").view("uint8")


def _add(x: Any, y: Any, n: int) -> None:
    y[:n] += x[:n]


_CALLS = (
    Call("axpy", lambda rng: [rng.random(100, "float32"), rng.random(100, "float32"), 2.5, 90], _axpy),
    Call("scale", lambda rng: [rng.random(20), (3.0, 15)], _scale),
    Call("softmax", lambda rng: [rng.standard_normal((6, 10), "float32"), np.zeros((6, 10), "float32"), 6, 10], _softmax),
    Call("many", lambda rng: [np.zeros(2, "int64"), -1, -(1 << 40), 3.0, 4.0, 65535, -6, 1 << 33, True, 9, 10.0, 255], _many),
    Call("mean", lambda rng: [rng.random(50, "float32"), 40], _mean),
    Call("raise", lambda rng: [rng.integers(0, 99, 20, "int32"), 20], _raise),
    Call("lookup", lambda rng: [rng.integers(0, 99, 64, "int32"), 60], _lookup),
)


class HexagonConformance(Conformance):
    """A shared object; C with an interface, and LLVM IR without one, compiled by devmod."""

    kind = "hexagon"
    build_step = "devmod_hexagon._image.read_extent"
    driver_programs = ("qemu-hexagon",)
    several_devices: Mapping[str, str] = {"DEVMOD_HEXAGON_DEVICES": "2"}
    samples = (
        Sample(zlib.decompress(b64decode(_AXPY)), "so", {"axpy": linear_functions(())["axpy"]}, calls=_CALLS[:1]),
        Sample.compiled(_SOURCE, _TARGET, language="C", calls=_CALLS, global_arrays={"table": _table}),
        Sample.compiled(
            _IR,
            _TARGET,
            language="LLVM IR",
            fmap={"add": FunctionInfo("add", ["handle", "handle", "int32"])},
            calls=[Call("add", lambda rng: [rng.integers(0, 99, 30, "int32"), rng.integers(0, 99, 30, "int32"), 25], _add)],
        ),
    )
    slow = Sample.compiled(_SPIN, _TARGET, language="C", calls=[spin_call(8, 500_000)])
    bad_payloads = (
        Sample(b"", "so", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF no shared object", "so", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x03\x00\xa4\x00" + bytes(100), "so", {"k": FunctionInfo("k", ["handle"])}),
    )
