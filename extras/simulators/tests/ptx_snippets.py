"""Single PTX instructions as kernels: each thread loads its operands, runs the instruction and
stores the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devmod_simulators.ptx import run_ptx

#: The register class and the NumPy type of each operand type. Types of halves and pairs are bits.
_TYPES = {
    "u8": ("b16", "u1"),
    "s8": ("b16", "i1"),
    "u16": ("b16", "u2"),
    "s16": ("b16", "i2"),
    "u32": ("b32", "u4"),
    "s32": ("b32", "i4"),
    "u64": ("b64", "u8"),
    "s64": ("b64", "i8"),
    "f32": ("f32", "f4"),
    "f64": ("f64", "f8"),
    "f16": ("b16", "f2"),
    "pred": ("b32", "u4"),
}


def numpy_type(kind: str) -> np.dtype[Any]:
    """Return the NumPy type of values of an operand type."""
    return np.dtype(_TYPES[kind][1])


def run_snippet(body: str, inputs: list[tuple[str, Any]], *outputs: str) -> Any:
    """Run PTX for each element of the inputs.

    The inputs are in registers %a, %b, …; the body sets %o, %p, … of the types in `outputs`. A
    predicate is a 32-bit number outside: %a as a predicate is %qa. Return the arrays of the
    outputs, or the one.
    """
    arrays = [np.array(values, numpy_type(kind)) for kind, values in inputs]
    count = len(arrays[0]) if arrays else 32
    results = [np.zeros(count, numpy_type(kind)) for kind in outputs]
    names = [f"%{letter}" for letter in "abcdefgh"[: len(inputs)]] + [
        f"%{letter}" for letter in "opqr"[: len(outputs)]
    ]
    kinds = [kind for kind, _ in inputs] + list(outputs)
    lines = [".version 8.0", ".target sm_90", ".address_size 64", ".visible .entry k("]
    lines.append(", ".join(f".param .u64 p{number}" for number in range(len(names))) + ") {")
    lines += [".reg .b64 %x, %y;", ".reg .b32 %t, %u;", ".reg .pred %v, %w;", ".reg .b128 %wide;"]
    lines += [f".reg .{_TYPES[kind][0]} {name};" for name, kind in zip(names, kinds, strict=True)]
    lines += [
        f".reg .pred %q{name[1:]};"
        for name, kind in zip(names, kinds, strict=True)
        if kind == "pred"
    ]
    lines.append("mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mad.lo.s32 %t, %u, 64, %t;")
    lines.append(f"setp.ge.u32 %v, %t, {count}; @%v exit;")
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        size = numpy_type(kind).itemsize
        place = f"ld.param.u64 %x, [p{number}]; mul.wide.u32 %y, %t, {size}; add.u64 %x, %x, %y;"
        move = "b" + str(size * 8) if kind in ("pred", "f16") else kind
        if number < len(inputs):
            lines.append(f"{place} ld.global.{move} {name}, [%x];")
            if kind == "pred":
                lines.append(f"setp.ne.u32 %q{name[1:]}, {name}, 0;")
        else:
            if number == len(inputs):
                lines.append(body)
            if kind == "pred":
                lines.append(f"selp.u32 {name}, 1, 0, %q{name[1:]};")
            lines.append(f"{place} st.global.{move} [%x], {name};")
    lines.append("ret; }")
    run_ptx("\n".join(lines), "k", -(-count // 64), 64, [*arrays, *results])
    return results[0] if len(results) == 1 else results


def run_alike(body: str, kind: str, *arrays: Any, to: str = "") -> Any:
    """Run PTX for each element of inputs of one type. `to` has the types of the outputs, by default
    that one.
    """
    return run_snippet(body, [(kind, each) for each in arrays], *(to or kind).split())
