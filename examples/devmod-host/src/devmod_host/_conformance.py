"""The samples of `devmod conformance host`: kernels, and references in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from devmod import FunctionInfo
from devmod_conformance import Call, Conformance, Sample, axpy_call, spin_call

_SOURCE = """\
#include <math.h>
#include <stdint.h>

static int thread(void) { return blockIdx.x * blockDim.x + threadIdx.x; }

void axpy(const float *x, float *y, float a, int n)
{
    int i = thread();
    if (i < n)
        y[i] += a * x[i];
}

void softmax(const double *x, double *y, int columns)
{
    const double *row = x + (int64_t)blockIdx.x * columns;
    double most = row[0], sum = 0;
    for (int i = 1; i < columns; i++)
        most = fmax(most, row[i]);
    for (int i = 0; i < columns; i++)
        sum += exp(row[i] - most);
    for (int i = 0; i < columns; i++)
        y[blockIdx.x * columns + i] = exp(row[i] - most) / sum;
}

void transpose(const uint16_t *a, uint16_t *b)
{
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    b[column * (gridDim.y * blockDim.y) + row] = a[row * (gridDim.x * blockDim.x) + column];
}

void where(const _Bool *flags, int64_t *out, int64_t yes, int8_t no) { out[threadIdx.z] = flags[threadIdx.z] ? yes : no; }
"""
#: The types of scalars: kernels store a scalar of each.
_SCALARS = (
    "_Bool",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "float",
    "double",
)
_SPIN = """\
void spin(unsigned *x, int n)
{
    for (int i = 0; i < n; i++)
        x[blockIdx.x] = x[blockIdx.x] * 1664525u + 1013904223u;
}
"""


def _softmax(x: Any, y: Any, _columns: int) -> None:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    y[...] = powers / powers.sum(axis=1, keepdims=True)


def _transpose(a: Any, b: Any) -> None:
    b[...] = a.T


def _where(flags: Any, out: Any, yes: int, no: int) -> None:
    out[...] = np.where(flags, yes, no)


_CALLS = (
    axpy_call(),
    Call(
        "softmax",
        lambda rng: [rng.standard_normal((6, 10)), np.zeros((6, 10)), 10],
        _softmax,
        grid=6,
        block=1,
    ),
    Call(
        "transpose",
        lambda rng: [rng.integers(0, 1 << 16, (6, 8), "uint16"), np.zeros((8, 6), "uint16")],
        _transpose,
        grid=(4, 2),
        block=(2, 3),
    ),
    Call(
        "where",
        lambda rng: [rng.random(5) < 0.5, np.zeros(5, "int64"), -(1 << 40), -3],
        _where,
        grid=1,
        block=(1, 1, 5),
    ),
)


class HostConformance(Conformance):
    """The samples of the kind ``host``."""

    kind = "host"
    driver_modules = ("cffi",)
    samples = (
        # A payload of `devmod.compile`, with the interface that libclang reads.
        Sample.compiled(_SOURCE, "host", calls=_CALLS),
        # A payload without an interface, and with options in its first line.
        Sample(
            b"//devmod: -O1\nvoid scale(double *x, double a, int n) { if (threadIdx.x < n) x[threadIdx.x] *= a; }\n",
            "c",
            {
                "scale": FunctionInfo(
                    "scale", ["handle", "float64", "int32"], ["blockIdx.x", "threadIdx.x"]
                )
            },
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(20), 3.0, 15],
                    lambda x, a, n: x[:n].__imul__(a),
                    grid=1,
                    block=20,
                )
            ],
        ),
    )
    scalars = (
        Sample.compiled(
            "#include <stdint.h>\n"
            + "\n".join(
                f"void store_{each}({each} *result, {each} value) {{ result[0] = value; }}"
                for each in _SCALARS
            ),
            "host",
        ),
    )
    slow = Sample.compiled(_SPIN, "host", calls=[spin_call(16, 500_000, grid=16, block=1)])
    bad_payloads = (
        Sample(b"void k(int *x) { x[0] = ; }", "c", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"void other(int *x) { x[0] = 1; }", "c", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"void k(int *x) { x[0] = 1; }", "c", {"k": FunctionInfo("k", ["float32"])}),
        Sample(
            b"//devmod: -fplugin=evil\nvoid k(int *x) { x[0] = 1; }",
            "c",
            {"k": FunctionInfo("k", ["handle"])},
        ),
        Sample(b"\xff\xfe", "c", {"k": FunctionInfo("k", ["handle"])}),
    )
