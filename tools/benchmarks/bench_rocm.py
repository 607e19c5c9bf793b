"""The time of compiling HIP and of launching: devmod beside the same clang and lld alone, and
beside a direct call of the same driver.

    python tools/benchmarks/bench_rocm.py [--rounds 31] [--launches 200]

Compiling: the wheel's zig executes the same three steps with the same flags, and does not read the
signatures. Launching: the kernel adds 64 floats and takes three buffers and an int. The direct call
is hipModuleLaunchKernel with a parameter block that was packed before. It goes through ctypes with
argument types. The launches have a process of their own. Each round runs every contender, and the
figures are medians. The exit status is 1 if a figure exceeds its bound.

Without an AMD GPU the runtime is the stand-in of the tests, whose launches return at once: the
figures are the host's side alone. With DEVMOD_TEST_ROCM=hardware it is the real one, and the queue
is emptied after each turn, outside of the measurement.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import check, medians_of, record
from vendor_driver import ROOT, VendorDriver

import devmod

DRIVER = VendorDriver("rocm")
SOURCES = ("softmax.hip", "matmul.hip", "gaussian_blur.hip")
TARGET = "rocm -arch=gfx1100"
#: The bounds: the ratio to clang and lld alone, with the signatures, and the ratio to the driver's
#: direct call.
MOST_COMPILE = 1.35
MOST_PREPARED = 1.2
N = 64
BARE = "the driver, bare and packed"
PREPARED = "devmod, prepared"
GENERAL = "devmod, general call"
#: The marks in the last argument of hipModuleLaunchKernel: a pointer to the parameters, a pointer
#: to their size, the end.
_POINTER = 1
_SIZE = 2
_END = 3


def compile_bare(source: Path, folder: str) -> None:
    """Compile, assemble and link with the wheel's programs."""
    from devmod_targets.authoring.zig import find_zig
    from devmod_targets.rocm._headers import headers as headers_of
    from devmod_targets.rocm.compile import _hip_flags

    zig = find_zig(kind="rocm")
    for name, text in headers_of("HIP").items():
        path = Path(folder, "devmod-headers", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    include = str(Path(zig).parent / "lib" / "include")
    hip = [
        *_hip_flags("gfx1100", []),
        "-nostdinc",
        "-isystem",
        "devmod-headers",
        "-isystem",
        include,
    ]
    version = "-mcode-object-version=5"
    steps = (
        [
            zig,
            "clang",
            "-x",
            "hip",
            *hip,
            version,
            "-O2",
            "-std=gnu++20",
            "-fno-ident",
            "-S",
            str(source),
            "-o",
            "k.s",
        ],
        [
            zig,
            "clang",
            "-x",
            "assembler",
            "-target",
            "amdgcn-amd-amdhsa",
            "-mcpu=gfx1100",
            version,
            "-c",
            "k.s",
            "-o",
            "k.o",
        ],
        [zig, "ld.lld", "-shared", "-s", "--no-undefined", "k.o", "-o", "k.so"],
    )
    for step in steps:
        subprocess.run(
            step,
            cwd=folder,
            check=True,
            env={"ZIG_GLOBAL_CACHE_DIR": folder, "PATH": os.environ["PATH"]},
        )


def medians(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each contender. Each round runs all of them, and the first two
    rounds warm up.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 2):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            if number >= 2:
                times[name].append(time.perf_counter() - start)
    return medians_of(times)


def measure_compile(rounds: int) -> bool:
    """Print the figures of the compiler. Return whether one exceeds its bound."""
    if importlib.util.find_spec("ziglang") is None:
        print("compiling is not measured: ziglang is not installed")
        return False
    over = False
    print(f"{'compiling':<20} {'bare, ms':>9} {'devmod, ms':>11} {'ratio':>6} {'most':>5}")
    for name in SOURCES:
        source = ROOT / "examples" / "rocm" / name
        with tempfile.TemporaryDirectory() as folder:

            def bare(source: Path = source, folder: str = folder) -> None:
                compile_bare(source, folder)

            def whole(source: Path = source) -> None:
                devmod.compile(source, TARGET)

            seconds = medians({"bare": bare, "devmod": whole}, rounds)
        ratio = seconds["devmod"] / seconds["bare"]
        is_over = check(
            f"compiling HIP with its signatures: {name}",
            ratio,
            MOST_COMPILE,
            of="clang and lld alone",
        )
        over |= is_over
        print(
            f"{name:<20} {seconds['bare'] * 1e3:9.0f} {seconds['devmod'] * 1e3:11.0f} {ratio:6.2f} {MOST_COMPILE:5}{'  over' * is_over}"
        )
    return over


class BareLaunch:
    """A call of hipModuleLaunchKernel with a packed parameter block.

    Parameters
    ----------
    code
        The code object.
    device
        devmod's device, whose context is current.
    arguments
        The addresses of the buffers, and the number.
    """

    def __init__(self, code: bytes, device: Any, arguments: tuple[int, int, int, int]) -> None:
        self._block = ctypes.create_string_buffer(struct.pack("<QQQi", *arguments))
        self._size = ctypes.c_size_t(28)
        self._extra = (ctypes.c_void_p * 5)(
            _POINTER, ctypes.addressof(self._block), _SIZE, ctypes.addressof(self._size), _END
        )
        self._stream = device.default_stream.handle
        self.loop = self._make_loop(code)

    def _make_loop(self, code: bytes) -> Callable[[int], None]:
        from devmod_rocm._device import open_library

        library = open_library()
        module = ctypes.c_void_p()
        function = ctypes.c_void_p()
        assert library.hipModuleLoadData(ctypes.byref(module), code) == 0
        assert library.hipModuleGetFunction(ctypes.byref(function), module, b"add") == 0
        call = library.hipModuleLaunchKernel
        pointer = ctypes.c_void_p
        number = ctypes.c_uint
        call.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
        handle = function.value
        stream = self._stream
        extra = ctypes.addressof(self._extra)

        def loop(launches: int) -> None:
            for _ in range(launches):
                if call(handle, 1, 1, 1, N, 1, 1, 0, stream, None, extra):
                    raise RuntimeError("the launch failed")

        return loop


def measure_launches(rounds: int, launches: int) -> dict[str, float]:
    """Return the microseconds of one launch of each contender."""
    DRIVER.launch_nothing()
    device = devmod.device("rocm")
    module = DRIVER.add_kernel()
    function = module["add"]
    arrays: list[Any] = [device.from_numpy(np.ones(N, "float32")) for _ in range(3)]
    a, b, c = arrays
    function(a, b, c, N, grid=1, block=N)
    prepared = function.bind(a, b, c, N, grid=1, block=N)
    addresses = [each.address for each in arrays]
    bare = BareLaunch(bytes(module.code), device, (*addresses, N))

    def call_prepared() -> None:
        for _ in range(launches):
            prepared()

    def call_devmod() -> None:
        for _ in range(launches):
            function(a, b, c, N, grid=1, block=N)

    contenders = {BARE: lambda: bare.loop(launches), PREPARED: call_prepared, GENERAL: call_devmod}
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 2):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            elapsed = time.perf_counter() - start
            device.synchronize()
            if number >= 2:
                times[name].append(elapsed / launches * 1e6)
    return medians_of(times)


def print_launches(rounds: int, launches: int) -> bool:
    """Print the figures of the launches. Return whether one exceeds its bound."""
    if reason := DRIVER.missing():
        print(f"launching is not measured: {reason}")
        return False
    over = False
    print(f"\n{'launching, ' + DRIVER.place():<40} {'µs':>7} {'ratio':>6} {'most':>5}")
    command = [
        sys.executable,
        __file__,
        "--json",
        "--rounds",
        str(rounds),
        "--launches",
        str(launches),
    ]
    output = subprocess.run(
        command, env=DRIVER.environment(), check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    figures = json.loads(output)
    for name, figure in figures.items():
        ratio = figure / figures[BARE]
        most = MOST_PREPARED if name == PREPARED else None
        is_over = most is not None and check(f"ROCm, {name}", ratio, most, of=BARE)
        over |= is_over
        record(f"A ROCm launch {DRIVER.place()}", name, figure, "µs")
        print(f"{name:<40} {figure:7.2f} {ratio:6.2f} {most or '':>5}{'  over' * is_over}")
    return over


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument(
        "--json", action="store_true", help="measure the launches alone, and print JSON"
    )
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure_launches(options.rounds * 4, options.launches)))
        return 0
    over = measure_compile(options.rounds)
    return int(print_launches(options.rounds, options.launches) or over)


if __name__ == "__main__":
    sys.exit(main())
