from __future__ import annotations

import os

import devmod
from devmod import Block, FunctionInfo, Interface, Param
from devmod_conformance import Call, Conformance, Sample, transpose_call

AXPY = FunctionInfo(
    "axpy",
    ["handle", "handle", "float32", "int32"],
    ["blockIdx.x", "threadIdx.x"],
    interface=Interface(
        [
            Param("x", "buffer", "float32", "r"),
            Param("y", "buffer", "float32", "rw"),
            Param("a", "scalar", "float32", at=(0, 0)),
            Param("n", "scalar", "int32", at=(0, 4)),
        ],
        [Block("push", 8)],
    ),
)
NEGATE = FunctionInfo("negate", ["handle"], ["blockIdx.x", "threadIdx.x"])

SHIFT = FunctionInfo(
    "shift",
    ["handle", "uint8x8", "handle"],
    interface=Interface(
        [
            Param("x", "buffer", "int32", "rw"),
            Param(
                "how",
                "scalar",
                "uint8x8",
                members=[devmod.Member("amount", "int32", 0), devmod.Member("count", "int32", 4)],
            ),
            Param("scratch", "local"),
        ],
        open_block=True,
    ),
)

SAMPLE = FunctionInfo(
    "sample",
    ["handle", "handle", "handle", "handle"],
    interface=Interface(
        [
            Param("source", "image", "2d", "r", sample="float"),
            Param("source_sampler", "sampler"),
            Param("places", "buffer", "float32", "r"),
            Param("result", "buffer", "float32", "w"),
        ]
    ),
)
WRITE = FunctionInfo(
    "write",
    ["handle"],
    interface=Interface(
        [Param("destination", "image", "2d", "w", format="rgba8unorm", sample="float")]
    ),
)
SUBGROUP = FunctionInfo(
    "subgroup",
    ["handle"],
    interface=Interface([Param("result", "buffer", "uint32", "w")], subgroup=4),
)


TYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def axpy(x, y, a, n):
    y[:n] += x.dtype.type(a) * x[:n]


def negate(x):
    x *= -1


def shift(x, how, scratch):
    x[: how[1]] += how[0]


def wait(x):
    pass


def weights():
    import numpy as np

    return np.arange(4, dtype="float32")


class ToyConformance(Conformance):
    kind = "toy"
    timeout = float(os.environ.get("TOY_TIMEOUT", "120"))
    driver_modules = ("toydriver",)
    samples = (
        Sample(
            b"toy 1\naxpy\nnegate\n",
            "toy",
            {"negate": NEGATE, "axpy": AXPY},
            calls=[
                Call(
                    "axpy",
                    lambda rng: [rng.random(50, "float32"), rng.random(50, "float32"), 2.5, 40],
                    axpy,
                    grid=4,
                    block=16,
                ),
                Call(
                    "negate",
                    lambda rng: [rng.integers(1, 99, (4, 4), "int32")],
                    negate,
                    grid=(1, 2),
                    block=8,
                ),
            ],
        ),
        Sample(
            b"TOY\0negate",
            "toybin",
            {"negative": NEGATE},
            calls=[
                Call(
                    "negative",
                    lambda rng: [rng.integers(1, 99, 8, "int32")],
                    negate,
                    grid=1,
                    block=8,
                )
            ],
        ),
        Sample.compiled(
            "negate\n",
            "toy -arch=t2",
            calls=[
                Call(
                    "negate", lambda rng: [rng.integers(1, 99, 8, "int32")], negate, grid=1, block=8
                )
            ],
            global_arrays={"weights": weights},
        ),
        Sample(
            b"toy 1\nshift\n",
            "toy",
            {"shift": SHIFT},
            calls=[
                Call(
                    "shift",
                    lambda rng: [rng.integers(1, 99, 30, "int32"), (5, 20), devmod.Local(128)],
                    shift,
                    grid=4,
                    block=8,
                ),
            ],
        ),
        Sample(
            b"toy 1\ntranspose\n",
            "toy",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"])},
            calls=[transpose_call()],
        ),
    )
    slow = Sample(
        b"toy 1\nwait\n",
        "toy",
        {"wait": devmod.FunctionInfo("wait", ["handle"])},
        calls=[Call("wait", lambda rng: [rng.integers(1, 99, 8, "int32")], wait, grid=1, block=1)],
    )
    images = (Sample(b"toy 1\nsample\nwrite\n", "toy", {"sample": SAMPLE, "write": WRITE}),)
    scalars = (
        Sample(
            b"toy 1\nstore\n",
            "toy",
            {f"store_{each}": devmod.FunctionInfo("store", ["handle", each]) for each in TYPES},
        ),
    )
    subgroups = (Sample(b"toy 1\nsubgroup\n", "toy", {"subgroup": SUBGROUP}),)

    def new_handle(self):
        from devmod_toy._device import driver

        return driver().Queue()
