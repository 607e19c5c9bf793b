"""Measure large bundles: opening one of many functions, joining files, and compression.

    python tools/benchmarks/bench_bundle.py [--megabytes 1000] [--functions 10000] [--rounds 5] \
        [--folder .]

Opening: a file of many modules with one function each, and a smaller one in which one module has
imports; each figure is the median of new processes, after `import devmod`. Joining: two files of
half the size with `devmod bundle`, beside a raw write and one pass of SHA-256 over the same bytes
in turns. Its peak memory is VmHWM of a new process, above that of the same command for two small
files. Compression: what it adds to a save and to a load, beside the library's own time for the same
bytes in turns. Exits with 1 if devmod exceeds a bound.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from timing import check, in_new_process, medians_of, start_of_python, timed

import devmod
from devmod import Interface, Param

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: The first is of the start of Python.
MAX_OPEN = 1.5
MAX_RATIO = 1.5
MAX_MEMORY = 60.0
MAX_ZSTD = 1.2

OPEN = """
import sys, time
import devmod
start = time.perf_counter(), time.process_time()
root = devmod.load(sys.argv[1])
info = root.functions["kernel_77"]
first = (time.perf_counter() - start[0]) * 1e3, (time.process_time() - start[1]) * 1e3
start = time.perf_counter()
root = devmod.load(sys.argv[1])
info = root.functions["kernel_78"]
again = (time.perf_counter() - start) * 1e3
module = root.imports[78]
start = time.perf_counter()
assert module.save_to_bytes()
print(*first, again, (time.perf_counter() - start) * 1e3)
"""
JOIN = """
import sys, time
from devmod_workbench._cli import main
start = time.perf_counter()
assert main(["bundle", "-q", *sys.argv[2:], "-o", sys.argv[1]]) == 0
took = (time.perf_counter() - start) * 1e3
with open("/proc/self/status") as file:
    print(took, next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024)
"""


def module(code: bytes, name: str) -> devmod.Module:
    params = [
        Param("src", "buffer", "float16", "r"),
        Param("weight", "buffer", "float32", "r"),
        Param("dst", "buffer", "float32", "rw"),
    ]
    params += [
        Param(each, "scalar", "int32") for each in ("ne00", "ne01", "stride_row", "ncols_dst")
    ]
    types = ["handle" if each.kind == "buffer" else each.type for each in params]
    return devmod.create_with_fallback(
        "cuda", code, "cubin", {name: devmod.FunctionInfo(name, types, interface=Interface(params))}
    )


def bench_open(
    folder: Path, size: int, functions: int, *, imports: bool = False
) -> tuple[list[str], list[str]]:
    """Open the file of many functions. With `imports`, one of its modules imports constants."""
    path = folder / "many.devmod"
    chunk = random.Random(1).randbytes(1 << 20)
    part = size // functions
    modules = []
    for number in range(functions):
        code = number.to_bytes(8, "little") + chunk[number % 1000 : number % 1000 + part]
        modules.append(module(code, f"kernel_{number}"))
    if imports:
        modules[77].import_module(
            devmod.const_loader({"weights": chunk[:1000]}, {"load_weights": ["weights"]})
        )
    devmod.save(devmod.bundle(*modules), path)
    total = path.stat().st_size
    del modules
    in_new_process(OPEN, path)
    first, cpu, again, load = in_new_process(OPEN, path, processes=9)
    ratio = min(first, cpu) / start_of_python()
    path.unlink()
    lines = [
        f"opening {total / 1e6:.0f} MB with {functions} functions, and finding one{' of a module with imports' if imports else ''}",
        f"{'  first in a process, with its imports':44}{first:8.2f} ms   ({cpu:.2f} ms of processor time; {ratio:.2f} starts of Python)",
        f"{'  again':44}{again:8.2f} ms",
        f"{'  reading and checking that module':44}{load:8.2f} ms",
    ]
    what = f"open {functions:,} modules{', one of which has imports,' if imports else ''} and find a function"
    exceeded = check(what, ratio, MAX_OPEN, of="starts of Python")
    bad = (
        [f"opening took {ratio:.2f} of the start of Python; {MAX_OPEN} is the bound"]
        if exceeded
        else []
    )
    return lines, bad


def write_raw(path: Path, data: bytes, count: int) -> None:
    with open(path, "wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, len(data) * count)
        for _ in range(count):
            file.write(data)


def hash_raw(data: bytes, count: int) -> None:
    digest = hashlib.sha256()
    for _ in range(count):
        digest.update(data)


def bench_join(folder: Path, size: int, rounds: int) -> tuple[list[str], list[str]]:
    """Join two files of half the size."""
    count = 20
    chunk = random.Random(2).randbytes(size // count)
    names = []
    for file in range(2):
        names.append(folder / f"half{file}.devmod")
        halves = [
            module(chunk[number + file * 10 :], f"kernel_{file}_{number}")
            for number in range(count // 2)
        ]
        devmod.save(devmod.bundle(*halves), names[-1])
    small = folder / "small.devmod"
    devmod.save(module(b"", "f"), small)
    raw = folder / "raw"
    joined = folder / "joined.devmod"
    times: dict[str, list[float]] = defaultdict(list)
    memory = []
    for _ in range(rounds):
        raw.unlink(missing_ok=True)
        times["raw write"].append(timed(lambda: write_raw(raw, chunk, count)))
        raw.unlink()
        times["SHA-256 pass"].append(timed(lambda: hash_raw(chunk, count)))
        joined.unlink(missing_ok=True)
        took, peak = in_new_process(JOIN, joined, *names)
        times["devmod bundle"].append(took)
        memory.append(peak)
    base = in_new_process(JOIN, folder / "base.devmod", small, processes=3)[1]
    for path in (*names, joined):
        path.unlink()
    medians = medians_of(times)
    bound = max(medians["raw write"], medians["SHA-256 pass"])
    lines = [f"joining two files of {size / 2e6:.0f} MB"]
    for name, took in medians.items():
        lines.append(f"{'  ' + name:44}{took:8.0f} ms   {took / bound:5.2f}")
    lines.append(
        f"{'  peak memory of the process':44}{max(memory):8.1f} MiB   (a small file: {base:.1f} MiB)"
    )
    ratio = medians["devmod bundle"] / bound
    slow = check(
        "devmod bundle of two files",
        ratio,
        MAX_RATIO,
        of="the slower of a raw write and a SHA-256 pass",
    )
    large = check("memory of devmod bundle", max(memory), MAX_MEMORY, of="MiB")
    bad = []
    if slow:
        bad.append(f"joining took {ratio:.2f} of the slower part; {MAX_RATIO} is the bound")
    if large:
        bad.append(f"joining took {max(memory):.0f} MiB; {MAX_MEMORY} is the bound")
    return lines, bad


def bench_zstd(rounds: int) -> tuple[list[str], list[str]]:
    """Compress and decompress 64 MB that get about four times smaller."""
    rng = random.Random(3)
    words = [rng.randbytes(rng.randrange(4, 60)) for _ in range(4000)]
    data = b"".join(rng.choice(words) + rng.randbytes(4) for _ in range(1_800_000))[: 64 << 20]
    made = module(data, "f")
    wire = made.save_to_bytes()
    frame = zstd.compress(wire, 3)
    packed = devmod.dumps(made, compress="zstd")
    plain = devmod.dumps(made)
    bounded: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 27}
    work: dict[str, Callable[[], object]] = {
        "libzstd compress": lambda: zstd.compress(wire, 3),
        "save, compressed": lambda: devmod.dumps(made, compress="zstd"),
        "save": lambda: devmod.dumps(made),
        "libzstd decompress": lambda: zstd.ZstdDecompressor(options=bounded).decompress(
            frame, max_length=len(wire) + 1
        ),
        "load, compressed": lambda: devmod.loads(packed).verify(),  # type: ignore[attr-defined]
        "load": lambda: devmod.loads(plain).verify(),  # type: ignore[attr-defined]
    }
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, each in work.items():
            took = timed(each)
            best[name] = min(best.get(name, took), took)
    lines = [
        f"compression of {len(wire) / 1e6:.0f} MB to {len(frame) / 1e6:.0f} MB (best of {rounds} rounds in turns)"
    ]
    for name, took in best.items():
        lines.append(f"{'  ' + name:44}{took:8.0f} ms")
    bad = []
    for name, library_name in (("save", "libzstd compress"), ("load", "libzstd decompress")):
        ratio = (best[f"{name}, compressed"] - best[name]) / best[library_name]
        lines.append(f"{'  what it adds to a ' + name + ', by the library':44}{ratio:8.2f}")
        exceeded = check(
            f"what zstd adds to a {name}", ratio, MAX_ZSTD, of="the library's own time"
        )
        if exceeded:
            bad.append(
                f"zstd adds {ratio:.2f} of the library's time to a {name}; {MAX_ZSTD} is the bound"
            )
    return lines, bad


def main() -> int:
    """Print the tables. Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder",
        default=None,
        help="where the files are written (default: the system's folder for such)",
    )
    options = parser.parse_args()
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
    failed: list[str] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        size = options.megabytes * 1_000_000
        for lines, bad in (
            bench_open(folder, size, options.functions),
            bench_open(folder, options.functions * 1000, options.functions, imports=True),
            bench_join(folder, size, options.rounds),
            bench_zstd(options.rounds),
        ):
            print("\n".join(lines), end="\n\n", flush=True)
            failed += bad
    print("\n".join(failed) or "All within the bounds.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
