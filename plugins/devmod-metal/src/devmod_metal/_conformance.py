"""Entry point ``devmod.conformance.metal``: samples for `devmod conformance metal` and for the
tests of this plugin.
"""

from __future__ import annotations

from importlib.resources import files

from devmod import FunctionInfo, Interface
from devmod_conformance import (
    Call,
    Conformance,
    Sample,
    axpy_call,
    count_call,
    linear_functions,
    spin_call,
    transpose_call,
)

_SAMPLES = files("devmod_metal") / "samples"
_LINEAR, _TRANSPOSE, _SPIN = (
    (_SAMPLES / f"{name}.metal").read_bytes() for name in ("linear", "transpose", "spin")
)
#: The types of scalars: kernels store a scalar of each.
_SCALARS = (
    "bool",
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "half",
    "float",
)
_TAGS = ("blockIdx.x", "threadIdx.x")
_FLAT = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")
_K = FunctionInfo("k", ["handle"])


def _linear_info() -> dict[str, FunctionInfo]:
    """Return the kit's functions, with each argument at its index."""
    result = {}
    for name, info in linear_functions(_TAGS).items():
        assert info.interface is not None
        params = [param.replace(at=index) for index, param in enumerate(info.interface.params)]
        result[name] = FunctionInfo(name, info.arg_types, _TAGS, (), Interface(params))
    return result


class MetalConformance(Conformance):
    """Metal source with an interface, without one (as TVM declares functions), and compiled by
    devmod.
    """

    kind = "metal"
    driver_modules = ("Metal", "objc", "Foundation", "libdispatch")
    samples = (
        Sample(
            dict.fromkeys(("axpy", "count"), _LINEAR),
            "metal",
            _linear_info(),
            source={"metal": _LINEAR.decode()},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            {"transpose": _TRANSPOSE},
            "metal",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], _FLAT)},
            calls=[transpose_call()],
        ),
        Sample.compiled(
            "kernel void scale(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= FACTOR; }",
            "metal",
            defines={"FACTOR": "3"},
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(64, "float32")],
                    lambda x: x.__imul__(3),
                    grid=2,
                    block=32,
                )
            ],
        ),
    )
    scalars = (
        Sample.compiled(
            "\n".join(
                f"kernel void store_{each}(device {each} *x [[buffer(0)]], constant {each} &value [[buffer(1)]]) {{ x[0] = value; }}"
                for each in _SCALARS
            ),
            "metal",
        ),
    )
    slow = Sample(
        {"spin": _SPIN},
        "metal",
        {"spin": FunctionInfo("spin", ["handle", "int32"], _TAGS)},
        calls=[spin_call(grid=64, block=16)],
    )
    images = (Sample.compiled((_SAMPLES / "images.metal").read_text(), "metal"),)
    bad_payloads = (
        Sample({"k": b"kernel void k(device float *x) { x[0] = ; }"}, "metal", {"k": _K}),
        Sample({"k": b"\x00\xff"}, "metal", {"k": _K}),
        Sample({"k": b"no library"}, "metallib", {"k": _K}),
        Sample({"k": b"MTLB no library either"}, "metallib", {"k": _K}),
        Sample(
            {"k": b"kernel void k(device float *x) {}"},
            "metal",
            {"k": FunctionInfo("other", ["handle"])},
        ),
        Sample({"other": b"kernel void k(device float *x) {}"}, "metal", {"k": _K}),
    )
