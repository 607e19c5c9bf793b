"""Twenty-four kernels with one fault each, and their sound twins: what `assert_kernel` and its
guard find on each kind.

docs/reliability.md has the table. Each kernel writes y from x; both have n elements. `i`
is the number of the thread, `l` that in its block of 64 threads, and `g` the number of the block.
`t` is an array of 64 elements in local memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from each_case import some

import devmod
from devmod.testing import assert_kernel

DOCS = Path(__file__).parents[2] / "docs"
#: The columns of the table: the kinds, and the command.
KINDS = ("opencl", "cuda", "rocm", "vulkan", "webgpu", "metal", "hexagon", "verify")
#: What the table has for a fault: a GuardError, a result unlike the reference's, or one that
#: depends on the driver or on the order of threads. The checks find the last.
FOUND = ("guard", "result", "by driver", "sanitize", "refused", "-")


class Fault(NamedTuple):
    """A fault: the statements of the kernel with it and without it, and what the sound kernel
    writes.
    """

    label: str
    wrong: str
    right: str
    reference: Callable[[Any], Any]
    n: int = 100
    wrong_n: int = 100
    is_race: bool = False
    languages: tuple[str, ...] = ("OpenCL C", "CUDA C++", "Slang")


def twice(x: Any) -> Any:
    return 2 * x


TWICE = "if (i < n) y[i] = 2 * x[i];"
FAULTS = {
    "last": Fault("off by one at the end", "if (i <= n) y[i] = 2 * x[i];", TWICE, twice),
    "copy": Fault(
        "a copy with one element too many",
        "if (i <= n) y[i] = x[i];",
        "if (i < n) y[i] = x[i];",
        lambda x: x,
    ),
    "clamp": Fault(
        "a clamp with one element too many",
        "if (i <= n) y[i] = min(max(x[i], -1e30f), 50.0f);",
        "if (i < n) y[i] = min(max(x[i], -1e30f), 50.0f);",
        lambda x: np.minimum(x, 50),
    ),
    "choice": Fault(
        "a choice with one element too many",
        "if (i <= n && x[i] > 0) y[i] = x[i];",
        "if (i < n && x[i] > 0) y[i] = x[i];",
        lambda x: x,
    ),
    "bounds": Fault("no test of the bounds", "y[i] = 2 * x[i];", TWICE, twice),
    "loop": Fault(
        "a loop with one step too many",
        "if (i == 0) for (int k = 0; k <= n; k++) y[k] = 2 * x[k];",
        TWICE,
        twice,
    ),
    "negative": Fault(
        "a negative index",
        "if (i < n) y[i - 1] = x[i];",
        "if (i > 0 && i < n) y[i - 1] = x[i];",
        lambda x: np.append(x[1:], 0),
    ),
    "shift": Fault(
        "a shift past the end",
        "if (i < n) y[i + 1] = x[i];",
        "if (i < n - 1) y[i + 1] = x[i];",
        lambda x: np.append(0, x[:-1]),
    ),
    "pitch": Fault(
        "a wrong stride of rows",
        "if (i < n) y[i / 10 * 11 + i % 10] = x[i];",
        "if (i < n) y[i / 10 * 10 + i % 10] = x[i];",
        lambda x: x,
    ),
    "bytes": Fault(
        "a stride in bytes, not elements", "if (i < n) y[4 * i] = 2 * x[i];", TWICE, twice
    ),
    "transpose": Fault(
        "rows and columns exchanged",
        "if (i < n) y[i % 20 * 20 + i / 20] = x[i];",
        "if (i < n) y[i % 20 * 5 + i / 20] = x[i];",
        lambda x: x.reshape(5, 20).T.ravel(),
    ),
    "size": Fault("a wrong size given", TWICE, TWICE, twice, wrong_n=120),
    "tail": Fault(
        "four elements a thread, without a tail",
        "if (4 * i < n) for (int k = 0; k < 4; k++) y[4 * i + k] = 2 * x[4 * i + k];",
        "for (int k = 0; k < 4; k++) if (4 * i + k < n) y[4 * i + k] = 2 * x[4 * i + k];",
        twice,
        n=98,
        wrong_n=98,
    ),
    "far": Fault(
        "a write 900 elements away",
        "if (i < n) y[i] = 2 * x[i]; if (i == 0) y[n + 900] = 1;",
        TWICE,
        twice,
    ),
    "read": Fault(
        "a read past the end",
        "if (i < n) y[i] = x[i + 1];",
        "if (i < n) y[i] = i + 1 < n ? x[i + 1] : 0;",
        lambda x: np.append(x[1:], 0),
    ),
    "before": Fault(
        "a read before the start",
        "if (i < n) y[i] = x[i - 1] + 1;",
        "if (i < n) y[i] = i > 0 ? x[i - 1] + 1 : 0;",
        lambda x: np.append(0, x[:-1] + 1),
    ),
    "constant": Fault(
        "a write to a read-only argument",
        # A union: of an array that a cast makes writable, devmod knows that the kernel writes it.
        "if (i < n) { y[i] = 2 * x[i]; union { GLOBAL const float *r; GLOBAL float *w; } u; u.r = x; u.w[i] = 0; }",
        TWICE,
        twice,
        languages=("OpenCL C", "CUDA C++"),
    ),
    "missing": Fault("the last element left out", "if (i < n - 1) y[i] = 2 * x[i];", TWICE, twice),
    "mask": Fault("an index that wraps", "if (i < n) y[i & 63] = 2 * x[i];", TWICE, twice),
    "block": Fault(
        "a wrong size of the block assumed",
        "if (g * 32 + l < n) y[g * 32 + l] = 2 * x[g * 32 + l];",
        TWICE,
        twice,
    ),
    "divide": Fault(
        "a division of integers",
        "if (i < n) y[i] = x[i] * (1 / 2);",
        "if (i < n) y[i] = x[i] * 0.5f;",
        lambda x: x / 2,
    ),
    "adds": Fault("a sum where a value belongs", "if (i < n) y[i] += 2 * x[i];", TWICE, twice),
    "race": Fault(
        "a race",
        "if (i < n) y[0] = y[0] + x[i];",
        "if (i == 0) { float s = 1; for (int k = 0; k < n; k++) s += x[k]; y[0] = s; }",
        lambda x: np.append(1 + x.sum(), np.ones(len(x) - 1, "float32")),
        is_race=True,
    ),
    "barrier": Fault(
        "a missing barrier",
        "t[l] = i < n ? x[i] : 0; if (g == 0) y[l] = t[63 - l];",
        "t[l] = i < n ? x[i] : 0; BARRIER; if (g == 0) y[l] = t[63 - l];",
        lambda x: np.append(x[63::-1], np.ones(len(x) - 64, "float32")),
        is_race=True,
    ),
}
HEADS = {
    "OpenCL C": (
        "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n#define GLOBAL global\n",
        "__attribute__((reqd_work_group_size(64, 1, 1))) kernel void {name}(global float *y, global const float *x, int n) {{ local float t[64]; "
        "int i = get_global_id(0), l = get_local_id(0), g = get_group_id(0); {body} }}\n",
    ),
    "CUDA C++": (
        "#define BARRIER __syncthreads()\n#define GLOBAL\n",
        'extern "C" __global__ void {name}(float *y, const float *x, int n) {{ [[maybe_unused]] __shared__ float t[64]; '
        "[[maybe_unused]] int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x, g = blockIdx.x; {body} }}\n",
    ),
    "Slang": (
        "#define BARRIER GroupMemoryBarrierWithGroupSync()\ngroupshared float t[64];\n",
        '[shader("compute")] [numthreads(64, 1, 1)] void {name}(RWStructuredBuffer<float> y, StructuredBuffer<float> x, uniform int n, uint3 '
        "thread : SV_DispatchThreadID) {{ int i = int(thread.x), l = i % 64, g = i / 64; {body} }}\n",
    ),
}


def source(language: str, faults: dict[str, Fault]) -> str:
    """The kernels of these faults: `wrong_…` and `right_…`."""
    head, kernel = HEADS[language]
    return head + "".join(
        kernel.format(name=f"{twin}_{name}", body=getattr(fault, twin))
        for name, fault in faults.items()
        for twin in ("wrong", "right")
    )


def table() -> dict[str, dict[str, str]]:
    """The table of the page: what is found, by the label of the fault and the kind."""
    section = (
        (DOCS / "reliability.md")
        .read_text()
        .partition("### What is found\n")[2]
        .partition("\n### ")[0]
    )
    table = {}
    for found, faults in re.findall(r"^\| ([a-z ]+) \| (.*) \|$", section, re.MULTILINE)[1:]:
        for fault in faults.split("; "):
            label, _, exception = fault.removesuffix(")").partition(" (")
            kinds, _, other = exception.partition(": ")
            table[label] = dict.fromkeys(KINDS, found) | dict.fromkeys(
                kinds.split(", ") if kinds else (), other
            )
    return table


def check_faults(device: Any, target: str, language: str) -> None:
    """Compare what is found with the column of the table. A sound twin has no error."""
    refused = {
        name
        for name, fault in FAULTS.items()
        if device.kind == "hexagon" and "BARRIER" in fault.right
    }
    for name in refused:  # a grid has no barriers there
        with pytest.raises(devmod.CompileError):
            devmod.compile(source(language, {name: FAULTS[name]}), target, language=language)
    faults = {
        name: each
        for name, each in FAULTS.items()
        if language in each.languages and name not in refused
    }
    block = 64 if language == "CUDA C++" else None  # the other sources fix it
    module = devmod.compile(source(language, faults), target, language=language, block=block)
    found = {}
    for name, fault in FAULTS.items():
        if name not in faults:
            found[fault.label] = "refused" if name in refused else "-"
            continue
        x = np.arange(1, fault.n + 1, dtype="float32")
        # The elements that a kernel does not write: the reference has zeros there, or ones.
        y = (
            np.ones(fault.n, "float32")
            if fault.is_race or fault.label.startswith("a sum")
            else np.zeros(fault.n, "float32")
        )
        case = {"y": y, "x": x, "n": fault.n, "threads": 128}

        def reference(y: Any, x: Any, n: int, fault: Fault = fault) -> Any:
            return {"y": fault.reference(x).astype("float32")}

        assert_kernel(module[f"right_{name}"].on(device), reference, [case])
        try:
            assert_kernel(
                module[f"wrong_{name}"].on(device), reference, [case | {"n": fault.wrong_n}]
            )
            result = "no"
        except devmod.GuardError:
            result = "guard"
        except AssertionError:
            result = "result"
        if fault.is_race:
            assert result != "guard"
            result = "sanitize"
        found[fault.label] = result
    expected = {label: row[device.kind] for label, row in table().items()}
    by_driver = {label: cell for label, cell in expected.items() if cell == "by driver"}
    assert found | by_driver == expected


def check_verify(faults: dict[str, Fault]) -> None:
    """Compare what `devmod.verify` finds with the column of the table, in a file with each OpenCL C
    kernel and the sound one for vulkan.
    """
    sound = {name: fault._replace(wrong=fault.right) for name, fault in faults.items()}
    modules = [
        devmod.compile(source(language, faults), target, language=language)
        for language, faults, target in (("Slang", sound, "vulkan"), ("OpenCL C", faults, "opencl"))
    ]
    file = devmod.loads(devmod.dumps(devmod.bundle(*modules)))

    def outcomes(n: int, given_n: int, name: str | None = None) -> dict[str, set[str]]:
        arguments = {
            "y": np.ones(n, "float32"),
            "x": np.arange(1, n + 1, dtype="float32"),
            "n": given_n,
        }
        functions = devmod.verify(file, name, arguments, threads=128).functions
        return {
            name: {each.outcome for each in compared[1:]} for name, compared in functions.items()
        }

    found = outcomes(100, 100)
    for name, fault in faults.items():
        if (fault.n, fault.wrong_n) != (100, 100):
            found |= outcomes(fault.n, fault.n, f"right_{name}") | outcomes(
                fault.n, fault.wrong_n, f"wrong_{name}"
            )
    assert all(found[f"right_{name}"] == {"agrees"} for name in some(faults))
    cells = {label: row["verify"] for label, row in table().items()}
    for name, fault in faults.items():
        outside = "reads outside" if fault.label.startswith("a read") else "writes outside"
        expected = {"guard": {outside}, "result": {"differs"}}
        cell = cells[fault.label]
        assert cell == "sanitize" if fault.is_race else found[f"wrong_{name}"] == expected[cell], (
            fault.label
        )
