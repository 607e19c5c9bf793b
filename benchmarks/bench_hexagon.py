"""Measure Hexagon: a compile against the same clang and lld without devmod, the round trip of a call, calls in a batch, and copies.

    python benchmarks/bench_hexagon.py [--rounds 31]

The source is the demo's softmax. Without devmod, the wheel's zig executes the same three steps with the same flags, and the signatures are
not read. Each round runs all contenders; the figures are medians. A round trip is a prepared launch of an empty function and a wait. Its
bound and that of a call in a batch are ratios to a bare round trip: 64 bytes through two pipes, to the program cat and back.
Copies transfer 100 MB to memory that was touched before. Their bound is 5 GB/s, or 0.8 of the rate at which NumPy copies the same bytes
here, if that is less. The exit status is 1 if a figure exceeds its bound. It is 0, with a message, if qemu-hexagon or ziglang is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import check

import devmod

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "examples" / "hexagon" / "softmax.c"
TARGET = "hexagon -arch=v66"
EMPTY = "void nothing(int *x, int n) {}"
SIZE = 100 << 20
#: The most time of a compile with its signatures, of clang and lld alone.
MOST_COMPILE = 1.25
#: The most time of a call and of one in a batch, of a bare round trip.
MOST_CALL, MOST_IN_BATCH = 3.0, 0.1


def compile_without_devmod(folder: str) -> None:
    """Compile, assemble and link with the wheel's programs."""
    from devmod_targets._text import header_files
    from devmod_targets.authoring.zig import find_zig, library_headers

    zig = find_zig(kind="hexagon")
    headers = Path(folder, "devmod-headers")
    headers.mkdir(exist_ok=True)
    for name, text in header_files("devmod_targets.hexagon").items():
        (headers / name).write_text(text)
    machine = ["-target", "hexagon-unknown-none-elf", "-mv66", "-fPIC"]
    folders = ("devmod-headers", str(Path(zig).parent / "lib" / "include"), *library_headers(zig, "hexagon").c)
    flags = ["-O2", "-std=gnu17", "-ffreestanding", "-fno-ident", "-nostdinc", *(part for each in folders for part in ("-isystem", each))]
    steps = (
        [zig, "clang", "-x", "c", *machine, *flags, "-S", str(SOURCE), "-o", "k.s"],
        [zig, "clang", "-x", "assembler", *machine, "-c", "k.s", "-o", "k.o"],
        [zig, "ld.lld", "-m", "hexagonelf", "-shared", "-s", "k.o", "-o", "k.so"],
    )
    for step in steps:
        subprocess.run(step, cwd=folder, check=True, env={"ZIG_GLOBAL_CACHE_DIR": folder, "PATH": os.environ["PATH"]})


def median(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each contender. Each round runs all of them."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=31)
    rounds = parser.parse_args().rounds
    if importlib.util.find_spec("ziglang") is None:
        print("ziglang is not installed: nothing is measured")
        return 0
    try:
        device = devmod.device("hexagon")
    except devmod.DeviceNotFoundError as error:
        print(error)
        return 0
    rows: list[tuple[str, str, str, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        seconds = median({"zig": lambda: compile_without_devmod(folder), "devmod": lambda: devmod.compile(SOURCE, TARGET)}, rounds)
    ratio = seconds["devmod"] / seconds["zig"]
    rows.append(
        (
            f"compile softmax.c (clang and lld without devmod: {seconds['zig'] * 1e3:.0f} ms)",
            f"{seconds['devmod'] * 1e3:.0f} ms ({ratio:.2f})",
            f"{MOST_COMPILE}",
            check("compiling C for Hexagon with its signatures", ratio, MOST_COMPILE, of="clang and lld alone"),
        )
    )

    x = device.zeros(16, "int32")
    launch = devmod.compile(EMPTY, TARGET, language="C")["nothing"].bind(x, 1)

    def round_trip() -> None:
        launch()
        device.synchronize()

    def batch() -> None:
        with device.default_stream.batch():
            for _ in range(1000):
                launch()
        device.synchronize()

    host = np.ones(SIZE, "uint8")
    array, back, other = device.from_numpy(host), np.ones(SIZE, "uint8"), np.ones(SIZE, "uint8")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as cat:
        into, out = cat.stdin, cat.stdout
        assert into is not None
        assert out is not None

        def bare_trip() -> None:
            into.write(b"x" * 64)
            out.read(64)

        calls = median({"bare": bare_trip, "round trip": round_trip, "batch": batch}, max(rounds * 10, 10))
        into.close()
    copies = median(
        {"NumPy": lambda: np.copyto(other, host), "up": lambda: array.copy_from(host), "down": lambda: array.numpy(out=back)},
        min(rounds, 15),
    )
    bare = SIZE / 1e9 / copies.pop("NumPy")
    least = min(5.0, 0.8 * bare)
    for text, took, most in (
        ("round trip of a call", calls["round trip"], MOST_CALL),
        ("a call in a batch of 1,000", calls["batch"] / 1e3, MOST_IN_BATCH),
    ):
        ratio = took / calls["bare"]
        label = f"{text} (a bare round trip: {calls['bare'] * 1e6:.0f} µs)"
        over = check(f"Hexagon, {text}", ratio, most, of="a bare round trip through pipes")
        rows.append((label, f"{took * 1e6:.2f} µs ({ratio:.3f})", f"{most}", over))
    for name, each in copies.items():
        rate = SIZE / 1e9 / each
        text = f"100 MB {name}, through shared memory (NumPy copies {bare:.1f} GB/s)"
        over = check(f"Hexagon, 100 MB {name}, through shared memory", bare / rate, bare / least, of="NumPy's copy")
        rows.append((text, f"{rate:.1f} GB/s", f"at least {least:.1f} GB/s", over))
    for name, each in copy_through_the_pipe(device.arch, rounds).items():
        rate = SIZE / 1e9 / each
        over = check(f"Hexagon, 100 MB {name}, through the pipe", 1 / rate, 1, of="the time at 1 GB/s")
        rows.append((f"100 MB {name}, through the pipe", f"{rate:.1f} GB/s", "at least 1.0 GB/s", over))
    width = max(len(row[0]) for row in rows)
    for name, figure, limit, over in rows:
        print(f"{name:{width}}  {figure:>16}  {limit:>24}  {'OVER' if over else ''}")
    return int(any(row[3] for row in rows))


def copy_through_the_pipe(arch: str, rounds: int) -> dict[str, float]:
    """Return the seconds of both copies if the host does not map the runner's memory."""
    from devmod_hexagon import _emulator
    from devmod_hexagon._runner import Runner

    runner = _emulator.runner(_emulator.find_emulator(), arch, "the runner", 1 << 28)
    memory = runner.request(Runner.allocate, SIZE)
    assert memory is not None
    assert runner._runner is not None
    runner._runner.shared = None  # the host then copies through the pipe
    data = bytearray(b"\1" * SIZE)
    result = median(
        {"up": lambda: runner.write(memory, memoryview(data)), "down": lambda: runner.read(memory, memoryview(data))}, min(rounds, 9)
    )
    runner.close()
    return result


if __name__ == "__main__":
    sys.exit(main())
