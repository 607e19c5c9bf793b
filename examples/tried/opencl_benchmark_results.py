"""Run the kernels of benchmarks in OpenCL C: Rodinia, SHOC, Parboil. Compare their results.

    pip install "devmod[opencl,pocl,cuda,build-cuda-opencl,build-rocm-opencl]" devmod-simulators
    git clone https://github.com/vetter/shoc
    git clone https://github.com/abduld/Parboil
    git clone https://github.com/yuhc/gpu-rodinia
    python opencl_benchmark_results.py shoc Parboil gpu-rodinia

The checks of the simulated GPU choose random arguments, the block and the grid: the first ones with
which a kernel changes an array, without a report. A line has the kernel, these sizes, and for
opencl and rocm the largest difference from the simulated GPU, relative to the larger of the result
and 1; for integers, it is 1. Each kernel runs in a process of its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from opencl_benchmarks import compile_file, options_of

import devmod
from devmod_simulators import SanitizeError, sanitize

CUDA = "cuda -arch=compute_80"
OTHERS = {"opencl": "opencl", "rocm": "rocm -arch=gfx1100"}
#: A kernel that does not end is left after this time.
SECONDS = 240
LOCAL_BYTES = 8192
#: The value of integers, the elements of an array, and whether one block runs alone. Then all again
#: with 0 as the last integer, such as the step of a loop.
SIZES = (
    *((16, 1 << 14, False), (64, 1 << 14, False), (16, 1 << 14, True), (1, 1 << 14, False)),
    *((4, 1 << 14, False), (4, 1 << 14, True), (1, 1 << 20, False), (16, 1 << 20, False)),
    (32, 1 << 20, True),
)
BLOCKS = ((64,), (16, 16), (256,), (32,), (16, 4), (128,), (16,))


def draw(
    function: devmod.FunctionInfo, number: int, elements: int, *, ends_with_zero: bool
) -> list[Any]:
    """Return arguments of a function: numbers from 0.1 to 1, and small integers, as most are
    indices.
    """
    random = np.random.default_rng(1)
    assert function.interface is not None
    arguments: list[Any] = []
    for param in function.interface.params:
        base, _, lanes = param.type.partition("x")
        count = int(lanes or 1)
        if param.kind == "local":
            arguments.append(devmod.Local(LOCAL_BYTES))
        elif param.kind == "scalar" and param.members:
            arguments.append(values_of(param.members, number))
        elif param.kind == "scalar":
            value = 0.5 if base.startswith("float") else number
            arguments.append([value] * count if lanes else value)
        else:
            shape = (elements, count) if lanes else (elements,)
            drawn = random.uniform(0.1, 1, shape)
            if not base.startswith("float"):
                drawn = random.integers(0, 8, shape).astype("float64")
            arguments.append(drawn.astype(base))
    integers = [at for at, each in enumerate(arguments) if type(each) is int]
    if ends_with_zero and integers:
        arguments[integers[-1]] = 0
    return arguments


def values_of(members: Sequence[Any], number: int) -> tuple[Any, ...]:
    """Return the values of a struct."""
    values: list[Any] = []
    for each in members:
        if each.members:
            value: Any = values_of(each.members, number)
        else:
            value = 0.5 if each.type.startswith("float") else number
        for length in reversed(each.shape):
            value = [value] * length
        values.append(value)
    return tuple(values)


def results(function: Any, arguments: list[Any], launch: dict[str, Any]) -> list[Any]:
    """Launch a function with copies of the arguments, and return its arrays."""
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    function(*copies, **launch)
    return [each for each in copies if isinstance(each, np.ndarray)]


def launches(function: devmod.FunctionInfo) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the value of integers, the elements of an array, and the keywords of a launch."""
    assert function.interface is not None
    for number, elements, is_alone in SIZES:
        if function.interface.block:
            yield number, elements, {"grid": 1 if is_alone else 2}
            continue
        for block in BLOCKS:
            yield number, elements, {"block": block, "grid": (1 if is_alone else 2,) * len(block)}


def difference(left: list[Any], right: list[Any]) -> float:
    """Return the largest difference of two lists of arrays."""
    largest = 0.0
    for a, b in zip(left, right, strict=True):
        if a.dtype.kind != "f":
            largest = max(largest, float((a != b).any()))
            continue
        with np.errstate(all="ignore"):
            errors = np.abs(a.astype("float64") - b) / np.maximum(np.abs(a), 1)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        largest = max(largest, float(np.where(same, 0, np.nan_to_num(errors, nan=np.inf)).max()))
    return largest


def compare(file: Path, name: str, options: str, pipe: Any) -> None:
    """Send the line of a kernel."""
    with sanitize():
        module = compile_file(file, CUDA, f"{options} -lineinfo")
    function, last = module[name], "no launch changes an array"
    for ends_with_zero, (number, elements, launch) in product(
        (False, True), launches(module.functions[name])
    ):
        arguments = draw(module.functions[name], number, elements, ends_with_zero=ends_with_zero)
        try:
            with sanitize():
                expected = results(function, arguments, launch)
        except SanitizeError as error:
            last = str(error.reports[0]["text"])
            continue
        if difference([each for each in arguments if isinstance(each, np.ndarray)], expected):
            break
    else:
        pipe.send(last)
        return
    pipe.send(f"{number}{', 0' * ends_with_zero} {elements} {launch}")
    for kind, target in OTHERS.items():
        if not devmod.devices(kind):
            continue
        try:
            other = compile_file(file, target, options)
            found = results(other[name], arguments, launch)
            pipe.send(f"{kind}: {difference(expected, found):.2g}")
        except devmod.DevmodError as error:
            pipe.send(f"{kind}: {error}")


def line(file: Path, name: str, options: str) -> str:
    """Return the line of a kernel."""
    receiver, sender = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=compare, args=(file, name, options, sender))
    process.start()
    sender.close()
    process.join(SECONDS)
    parts = [name]
    if process.exitcode is None:
        process.kill()
        process.join()
    if process.exitcode:
        parts.append(f"the process ended with {process.exitcode}")
    try:
        while receiver.poll():
            parts.append(receiver.recv())
    except EOFError:
        pass
    return "  ".join(parts).replace("\n", " ")


def main() -> None:
    warnings.simplefilter("ignore")
    for folder in map(Path, sys.argv[1:]):
        for file in sorted(folder.rglob("*.cl")):
            options = options_of(folder)
            try:
                module = compile_file(file, CUDA, options)
            except devmod.DevmodError:
                continue
            for name in module.functions:
                print(file.relative_to(folder), line(file, name, options), flush=True)


if __name__ == "__main__":
    main()
