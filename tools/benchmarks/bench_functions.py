"""Files of many functions: saving, opening, listing and looking up, beside safetensors; and the
first read of a large payload.

    python tools/benchmarks/bench_functions.py [--functions 800 10000] [--rounds 9]

The functions are like the kernels of ggml: 1 kB of code each, and 4 to 12 parameters with names and
types. There are two shapes of file: a module for each function, as a build of cubins has, and one
module of all functions, as Vulkan and WebGPU have. safetensors saves as many tensors of 1 kB. The
contenders alternate in one process. The figures are minima of the processor time, except those of
the first read: it uses two threads, and its figures are minima of the time on the clock. Exits with
1 if devmod exceeds a bound.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from timing import check, start_of_python, timed

import devmod
from devmod import FunctionInfo, Interface, Module, Param

#: Of safetensors' time; of the time for a tenth of the functions; of a start of Python; of a pass
#: of SHA-256, without and with a copy. The copy needs a second idle core.
MAX_SAVE = 4.0
MAX_GROWTH = 1.5
MAX_LIST = 1.5
MAX_READ = 1.05
MAX_COPY = 1.25
#: How many functions one module has at most in a row of the table.
MOST = 100_000
PAYLOAD = 50_000_000

OPERATIONS = [
    "mul_mat_vec",
    "mul_mat",
    "get_rows",
    "cpy",
    "flash_attn",
    "rope_norm",
    "soft_max",
    "rms_norm",
    "argsort",
    "im2col",
]
TYPES = [
    "f16",
    "f32",
    "bf16",
    "q4_0",
    "q4_1",
    "q5_0",
    "q5_1",
    "q8_0",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "iq2_xs",
    "iq4_nl",
]
BUFFERS = [("src0", "uint8"), ("src1", "float16"), ("dst", "float32"), ("ids", "int32")]
SCALARS = ["ne00", "ne01", "ne10", "nb01", "nb02", "ncols_dst", "nrows_x", "stride_row"]


def function(number: int) -> tuple[str, FunctionInfo]:
    """Return the name and the signature of a function."""
    name = f"{OPERATIONS[number % 10]}_{TYPES[number // 10 % 15]}_{number}"
    params = []
    types = []
    for each, element in BUFFERS[: 2 + number % 3]:
        access = "rw" if each == "dst" else "r"
        params.append(Param(each, "buffer", element, access))
        types.append("handle")
    for each in SCALARS[: 2 + number // 3 % 7]:
        params.append(Param(each, "scalar", "int32"))
        types.append("int32")
    return name, FunctionInfo(name, types, interface=Interface(params))


def separate(functions: dict[str, FunctionInfo], codes: list[bytes]) -> Module:
    """Return a bundle with a module for each function."""
    modules = []
    for (name, info), code in zip(functions.items(), codes, strict=True):
        modules.append(devmod.create_with_fallback("cuda", code, "cubin", {name: info}))
    return devmod.bundle(*modules)


def together(functions: dict[str, FunctionInfo], codes: list[bytes]) -> Module:
    """Return one module of all functions."""
    return devmod.create_with_fallback(
        "vulkan", dict(zip(functions, codes, strict=True)), "spv", functions
    )


def minima(
    work: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Run the contenders in turns. Return the least milliseconds of each."""
    least = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, each in work.items():
            least[name] = min(least[name], timed(each, clock))
    return least


def measure(count: int, rounds: int, folder: Path) -> dict[str, float]:
    """Print the table for so many functions, and return its figures in milliseconds."""
    rng = random.Random(count)
    codes = [rng.randbytes(1000) for _ in range(count)]
    functions = dict(map(function, range(count)))
    a_module_each = separate(functions, codes)
    one_module = together(functions, codes)
    tensors = {
        name: np.frombuffer(code, np.uint8) for name, code in zip(functions, codes, strict=True)
    }
    several = folder / "several.devmod"
    single = folder / "single.devmod"
    peer = folder / "tensors.safetensors"
    name = list(functions)[count // 2]

    def list_tensors() -> int:
        with safe_open(peer, "np") as file:
            return len(file.keys())

    least = minima(
        {
            "save, safetensors": lambda: save_file(tensors, peer),
            "save, a module each": lambda: devmod.save(a_module_each, several),
            "save, one module": lambda: devmod.save(one_module, single),
            "list, safetensors": list_tensors,
            "list, a module each": lambda: len(devmod.load(several).functions),
            "list, one module": lambda: len(devmod.load(single).functions),
            "one signature, a module each": lambda: devmod.load(several).functions[name],
            "one signature, one module": lambda: devmod.load(single).functions[name],
        },
        rounds,
    )
    print(f"\n{count:,} functions{'ms':>32}{'us each':>12}")
    for what, took in least.items():
        print(f"  {what:36}{took:10.2f}{took / count * 1e3:12.2f}")
    return least


def first_read(rounds: int, folder: Path) -> dict[str, float]:
    """Return the milliseconds of a first read of a payload of 50 MB, checked and copied, and those
    of one pass of SHA-256.
    """
    code = random.Random(5).randbytes(1_000_000) * (PAYLOAD // 1_000_000)
    path = folder / "large.devmod"
    devmod.save(separate(dict([function(0)]), [code]), path)
    return minima(
        {
            "SHA-256 pass": lambda: hashlib.sha256(code).digest(),
            "checked": lambda: devmod.load(path).wire_parts(),
            "checked and copied": lambda: devmod.load(path).save_to_bytes(),
        },
        rounds,
        time.perf_counter,
    )


def main() -> int:
    """Print the tables. Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", type=int, nargs=2, default=[800, 10_000])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = options.functions
        times = {count: measure(count, options.rounds, folder) for count in (few, many)}
        functions = dict(map(function, range(MOST)))
        largest = together(functions, [number.to_bytes(1000, "little") for number in range(MOST)])
        save, load = minima(
            {
                "save": lambda: devmod.save(largest, folder / "most"),
                "load": lambda: len(devmod.load(folder / "most").functions),
            },
            4,
        ).values()
        print(
            f"\none module of {MOST:,} functions: save {save / MOST * 1e3:.2f} us each, list {load / MOST * 1e3:.2f} us each"
        )
        read = first_read(options.rounds, folder)
        start = start_of_python()
    print(
        f"\nfirst read of {PAYLOAD // 1_000_000} MB: "
        + ", ".join(f"{what} {took:.1f} ms" for what, took in read.items())
    )
    bad = []
    for shape in ("a module each", "one module"):
        for count, least in times.items():
            ratio = least[f"save, {shape}"] / least["save, safetensors"]
            bad.append(
                check(
                    f"save of {count:,} functions of 1 kB, {shape}",
                    ratio,
                    MAX_SAVE,
                    of="safetensors, as many tensors",
                )
            )
        growth = times[many][f"save, {shape}"] / many / (times[few][f"save, {shape}"] / few)
        bad.append(
            check(
                f"save of {many:,} functions, {shape}, each",
                growth,
                MAX_GROWTH,
                of=f"a function of {few:,}",
            )
        )
    growth = save / MOST / (times[many]["save, one module"] / many)
    bad.append(
        check(
            f"save of {MOST:,} functions, one module, each",
            growth,
            MAX_GROWTH,
            of=f"a function of {many:,}",
        )
    )
    listing = times[many]["list, a module each"] / start
    bad.append(
        check(
            f"open and list {many:,} functions, a module each",
            listing,
            MAX_LIST,
            of="starts of Python",
        )
    )
    for what, most in (("checked", MAX_READ), ("checked and copied", MAX_COPY)):
        ratio = read[what] / read["SHA-256 pass"]
        bad.append(
            check(
                f"first read of a payload of 50 MB, {what}", ratio, most, of="one pass of SHA-256"
            )
        )
    print("\n" + ("A bound is exceeded." if any(bad) else "All within the bounds."))
    return int(any(bad))


if __name__ == "__main__":
    sys.exit(main())
