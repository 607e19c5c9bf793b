"""The errors of OpenCL C's functions on the simulated GPU and on an emulator of gfx1100: the end of
docs/opencl.md.

python tools/opencl_accuracy.py              print the section
python tools/opencl_accuracy.py --measure    measure the functions that opencl_accuracy.json lacks

The numbers are 100,000 draws and edges, and all numbers of half for functions of one. An hour of
processor time measures all. compilers/targets/tests/test_opencl_math.py compares the errors with
OpenCL's bounds.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
#: By function and type: the bound, and the largest errors on cuda and rocm.
FILE = Path(__file__).with_suffix(".json")
TYPES = ("float", "double", "half")
DRAWS = 100_000
_PRAGMA = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
HEAD = """\
The largest error in ULP, compared with results of mpmath, of 100,000 draws and edges, and of all numbers of half.
Each cell has OpenCL's bound, and the errors on the simulated GPU (cuda) and on an emulator of gfx1100 (rocm).

| function | float: bound, cuda, rocm | double | half |
|---|---|---|---|
"""


def section() -> str:
    """Return the section of the page."""
    rows = []
    for name, types in json.loads(FILE.read_text()).items():
        cells = [", ".join(f"{number:.3g}" for number in types[each]) for each in TYPES]
        rows.append(f"| `{name}` | {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


class Case(NamedTuple):
    """A function of a type, and its arguments."""

    name: str
    type_: str
    function: Any
    call: str
    parameters: str
    arguments: list[NDArray[Any]]
    special: NDArray[Any] | None = None


def cases() -> Iterator[Case]:
    """Yield the functions of one and two numbers of each type."""
    import numpy as np

    functions: Any = import_module("opencl_functions")
    for name, function in functions.UNARY.items():
        for type_ in TYPES:
            (x,) = functions.whole_blocks(functions.draws(type_, DRAWS, 1))
            if type_ == "half":
                x = np.arange(2**16, dtype=np.uint16).view(np.float16)
            yield Case(name, type_, function, f"{name}(x[i])", f"global const {type_} *x", [x])
    for name in (*functions.BINARY, "powr"):
        function, reference = functions.BINARY["pow" if name == "powr" else name]
        call = "x[i] / y[i]" if name == "divide" else f"{name}(x[i], y[i])"
        for type_ in TYPES:
            x, y = functions.pairs(type_, DRAWS, 3)
            if name == "powr":  # as pow, for x > 0
                chosen = (x > 0) & np.isfinite(x) & np.isfinite(y)
                x, y = x[chosen], y[chosen]
            x, y = functions.whole_blocks(x, y)
            special = reference(x.astype(np.longdouble), y.astype(np.longdouble)).astype(x.dtype)
            parameters = f"global const {type_} *x, global const {type_} *y"
            yield Case(name, type_, function, call, parameters, [x, y], special)
    for name, function in functions.WITH_INTEGER.items():
        root = {"pown": functions.special_power, "rootn": functions.special_root}[name]
        for type_ in TYPES:
            x, n = functions.with_integers(type_, DRAWS)
            wanted = (n != 0) | (name == "rootn")  # the power 0 is 1
            x, n = functions.whole_blocks(x[wanted], n[wanted])
            parameters = f"global const {type_} *x, global const int *y"
            special = root(x, n).astype(x.dtype)
            yield Case(name, type_, function, f"{name}(x[i], y[i])", parameters, [x, n], special)


def measured(case: Case) -> list[float]:
    """Return the bound, and the largest errors on cuda and rocm."""
    import numpy as np

    import devmod
    from devmod_simulators.ptx import run_ptx

    functions: Any = import_module("opencl_functions")
    block = functions.BLOCK
    count = len(case.arguments[0])
    parameters = f"{case.parameters}, global {case.type_} *z"
    source = f"{_PRAGMA}kernel void k({parameters}) {{ size_t i = get_global_id(0); z[i] = {case.call}; }}"
    cuda, rocm = (
        devmod.compile(source, target, language="OpenCL C")
        for target in ("cuda -arch=compute_80", "rocm -arch=gfx1100")
    )
    results = [np.zeros_like(case.arguments[0]) for _ in range(2)]
    ptx = str(cuda.inspect_source("ptx"))
    run_ptx(ptx, "k", count // block, block, [*case.arguments, results[0]])
    rocm["k"](*case.arguments, results[1], grid=count // block, block=block)
    errors: list[float] = []
    for each in results:
        if errors and functions.same(*results).all():
            errors.append(errors[0])
            continue
        found = functions.errors(case.function, case.type_, case.arguments, each, case.special)
        errors.append(max(error for error, *_ in found))
    return [case.function.bounds[case.type_ == "half"], *errors]


def measure() -> None:
    """Measure what the file lacks, and write it."""
    import numpy as np

    found: dict[str, dict[str, list[float]]] = {}
    if FILE.exists():
        found = json.loads(FILE.read_text())
    with np.errstate(all="ignore"):
        for case in cases():
            types = found.setdefault(case.name, {})
            if case.type_ in types:
                continue
            types[case.type_] = [float(f"{number:.3g}") for number in measured(case)]
            print(case.name, case.type_, *types[case.type_], flush=True)
            FILE.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Print the section, or measure."""
    if sys.argv[1:] != ["--measure"]:
        print(section())
        return
    folders = ("compilers/targets/tests", "plugins/devmod-rocm/tests", "tests/vendors")
    sys.path[:0] = [str(ROOT / folder) for folder in (*folders, "extras/simulators/standins")]
    environment = import_module("standin_rocm").ROCM.environment()
    worker = "DEVMOD_STANDIN_WORKER"
    if os.environ.get(worker) == environment[worker]:
        measure()
        return
    # The linker reads LD_LIBRARY_PATH when a process begins. The environment has it before the
    # folders that are there already, so it is another one in each process.
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | environment)


if __name__ == "__main__":
    main()
