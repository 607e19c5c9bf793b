"""Measure Hexagon: a compile against the same clang and lld without devmod, the round trip of a
call, calls in a batch, and copies.

    python tools/benchmarks/bench_hexagon.py [--rounds 31]

The source is the demo's softmax. Without devmod, the wheel's zig executes the same three steps with
the same flags, and the signatures are not read. Each round runs all contenders; the figures are
medians. A round trip is a prepared launch of an empty function and a wait. Its bound is a ratio to
a bare round trip: a request for the clock, written to the pipe of a runner in the same emulator
without devmod. A call in a batch is beside one of 1,000 such requests. Copies transfer 100 MB to
memory that was touched before. Their bound is a ratio to NumPy's copy of the same bytes. The exit
status is 1 if a figure exceeds its bound. It is 0, with a message, if qemu-hexagon or ziglang is
missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
from timing import check, medians_of

import devmod

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples" / "hexagon" / "softmax.c"
TARGET = "hexagon -arch=v66"
EMPTY = "void nothing(int *x, int n) {}"
SIZE = 100 << 20
#: The most time of a compile with its signatures, of clang and lld alone.
MOST_COMPILE = 1.25
#: The most time of a call and of one in a batch, of a bare round trip. That takes 15 µs where Linux
#: puts both processes on one core, and 50 µs on two. A thread of devmod's own writes its requests,
#: so a call takes 80 µs in both cases.
MOST_CALL = 6.0
MOST_IN_BATCH = 0.6
#: The most time of a copy through shared memory, of NumPy's copy.
MOST_COPY = 1.7


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
    folders = (
        "devmod-headers",
        str(Path(zig).parent / "lib" / "include"),
        *library_headers(zig, "hexagon").c,
    )
    flags = [
        "-O2",
        "-std=gnu17",
        "-ffreestanding",
        "-fno-ident",
        "-nostdinc",
        *(part for each in folders for part in ("-isystem", each)),
    ]
    steps = (
        [zig, "clang", "-x", "c", *machine, *flags, "-S", str(SOURCE), "-o", "k.s"],
        [zig, "clang", "-x", "assembler", *machine, "-c", "k.s", "-o", "k.o"],
        [zig, "ld.lld", "-m", "hexagonelf", "-shared", "-s", "k.o", "-o", "k.so"],
    )
    for step in steps:
        subprocess.run(
            step,
            cwd=folder,
            check=True,
            env={"ZIG_GLOBAL_CACHE_DIR": folder, "PATH": os.environ["PATH"]},
        )


def median(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each contender. Each round runs all of them."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return medians_of(times)


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
        seconds = median(
            {
                "zig": lambda: compile_without_devmod(folder),
                "devmod": lambda: devmod.compile(SOURCE, TARGET),
            },
            rounds,
        )
    ratio = seconds["devmod"] / seconds["zig"]
    rows.append(
        (
            f"compile softmax.c (clang and lld without devmod: {seconds['zig'] * 1e3:.0f} ms)",
            f"{seconds['devmod'] * 1e3:.0f} ms ({ratio:.2f})",
            f"{MOST_COMPILE}",
            check(
                "compiling C for Hexagon with its signatures",
                ratio,
                MOST_COMPILE,
                of="clang and lld alone",
            ),
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
    array = device.from_numpy(host)
    back = np.ones(SIZE, "uint8")
    other = np.ones(SIZE, "uint8")
    runner = start_runner(device.arch)
    bare = {"bare": bare_exchange(runner, 1), "bare batch": bare_exchange(runner, 1000)}
    calls = median({**bare, "round trip": round_trip, "batch": batch}, max(rounds * 10, 10))
    runner.close()
    copies = median(
        {
            "NumPy": lambda: np.copyto(other, host),
            "up": lambda: array.copy_from(host),
            "down": lambda: array.numpy(out=back),
        },
        min(rounds, 15),
    )
    numpy = SIZE / 1e9 / copies.pop("NumPy")
    for text, took, unit, unit_name, most in (
        (
            "round trip of a call",
            calls["round trip"],
            calls["bare"],
            "a bare round trip to the emulator",
            MOST_CALL,
        ),
        (
            "a call in a batch of 1,000",
            calls["batch"] / 1e3,
            calls["bare batch"] / 1e3,
            "one of 1,000 bare requests",
            MOST_IN_BATCH,
        ),
    ):
        ratio = took / unit
        label = f"{text} ({unit_name}: {unit * 1e6:.1f} µs)"
        over = check(f"Hexagon, {text}", ratio, most, of=unit_name)
        rows.append((label, f"{took * 1e6:.2f} µs ({ratio:.3f})", f"{most}", over))
    for name, each in copies.items():
        rate = SIZE / 1e9 / each
        text = f"100 MB {name}, through shared memory (NumPy copies {numpy:.1f} GB/s)"
        over = check(
            f"Hexagon, 100 MB {name}, through shared memory",
            numpy / rate,
            MOST_COPY,
            of="NumPy's copy",
        )
        rows.append((text, f"{rate:.1f} GB/s ({numpy / rate:.2f})", f"{MOST_COPY}", over))
    width = max(len(row[0]) for row in rows)
    for name, figure, limit, over in rows:
        print(f"{name:{width}}  {figure:>16}  {limit:>24}  {'OVER' if over else ''}")
    return int(any(row[3] for row in rows))


def start_runner(arch: str) -> Any:
    """Return a runner of its own for bare exchanges: their replies are not devmod's."""
    from devmod_hexagon import _emulator
    from devmod_hexagon._runner import Runner, RunnerThread

    runner = RunnerThread(
        _emulator.runner_command(_emulator.find_emulator(), arch), 1 << 28, "the runner"
    )
    runner.request(Runner.free_bytes)  # starts it
    return runner


def bare_exchange(runner: Any, requests: int) -> Callable[[], object]:
    """Return a function that asks a runner for its clock so many times, by the bytes alone: all
    before the first answer is read.

    The pipes hold 1,000 of them.
    """
    into = runner._transport._writer.fileno()
    out = runner._transport._reader.fileno()
    request = msgpack.packb(["clock", 1])
    frames = (len(request).to_bytes(4, "little") + request) * requests

    def exchange() -> None:
        os.write(into, frames)
        for _ in range(requests):
            left = int.from_bytes(os.read(out, 4), "little")
            while left:
                left -= len(os.read(out, left))

    return exchange


if __name__ == "__main__":
    sys.exit(main())
