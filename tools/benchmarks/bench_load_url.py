"""A bundle of 1 GB on an HTTP server: the bytes that are transferred to run one function, the time,
and the memory.

    python tools/benchmarks/bench_load_url.py [--candidates 100] [--megabytes 10] [--rounds 15]

The server is a process of its own on this machine, with the server of extras/remote/tests, which
counts the bytes that it sends with their headers. The candidates that are not chosen are holes in a
sparse file. Times are medians of the rounds, each with an empty cache. "The ranges alone" are the
same two reads with fsspec's `cat_file`. Peak memory is VmHWM (Linux) of new processes, above its
value after a small bundle was loaded. Exits with 1 if devmod exceeds a bound.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import msgpack  # type: ignore[import-untyped]
from timing import check, medians_of, record

import devmod

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from handmade import head_of, headed, row

ROOT = Path(__file__).resolve().parents[2]
MAX_BEFORE = 29 << 10
#: The most memory, of the bytes of the module. It has 8 MiB, since what Python and the libraries
#: take is more than a module of 1 MiB.
MAX_MEMORY = 2.0
CHOSEN = 8 << 20

SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
from http_server import http_server
with http_server() as server:
    print(server.address, flush=True)
    for path in (sys.argv[2], sys.argv[3]):
        server.files[path.rpartition("/")[2]] = lambda path=path: open(path, "rb")
    for line in sys.stdin:
        server.ranges = line.strip() != "no ranges"
        print(server.sent, len(server.requests), flush=True)
"""
CLIENT = """
import sys
import devmod
def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
address, number = sys.argv[1], int(sys.argv[2])
devmod.load(f"{address}/small.devmod").save_to_bytes()
before = memory()
devmod.load(f"{address}/large.devmod").imports[number].save_to_bytes()
print(memory() - before)
"""


class Server:
    """A server process."""

    def __init__(self, *paths: Path) -> None:
        command = [
            sys.executable,
            "-c",
            SERVER,
            str(ROOT / "extras" / "remote" / "tests"),
            *map(str, paths),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def counts(self, command: str = "counts") -> tuple[int, int]:
        """Return the bytes that were sent and the number of requests, after a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        sent, requests = self._line().split()
        return int(sent), int(requests)


def write_sparse(path: Path, candidates: int, size: int) -> int:
    """Write a bundle whose middle candidate has bytes and the others are holes. Return the number
    of that candidate.
    """
    chosen = candidates // 2
    blob = os.urandom(CHOSEN)
    modules: list[dict[str, Any]] = []
    starts: list[int] = []
    end = 0
    for number in range(candidates):
        start = -(-end // 64) * 64
        end = start + (CHOSEN if number == chosen else size)
        digest = hashlib.sha256(blob).digest() if number == chosen else bytes(32)
        about = {
            "kind": f"kind{number}",
            "functions": ["f"],
            "variant": f"arch{number}",
            "origin": {"target": f"kind{number} -arch=arch{number}"},
        }
        starts.append(start)
        modules.append(about | {"rank": number, "size": end - start, "sha256": digest})
    page = msgpack.packb({"modules": modules})
    head = headed({"candidates": candidates, "pages": [row(page, candidates, end)]}, page)
    with path.open("wb") as file:
        file.write(head)
        file.seek(len(head) + starts[chosen])
        file.write(blob)
        file.truncate(len(head) + end)
    return chosen


def main() -> int:
    """Print the table. Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder, "large.devmod")
        small = Path(folder, "small.devmod")
        chosen = write_sparse(large, options.candidates, options.megabytes * 1_000_000)
        write_sparse(small, 1, 0)
        header = large.open("rb").read(1 << 20)
        index = int.from_bytes(header[12:16], "little") + sum(
            size for _, size, *_ in head_of(header)["pages"]
        )
        server = Server(large, small)
        url = f"{server.address}/large.devmod"

        def with_cache(name: str) -> None:
            os.environ["DEVMOD_CACHE_DIR"] = str(Path(folder, name))

        with_cache("counts")
        module = devmod.load(url)
        before, requests = server.counts()
        data = module.imports[chosen].save_to_bytes()
        after, all_requests = server.counts()
        print(
            f"{large.stat().st_size / 1e9:.2f} GB, {options.candidates} candidates, an index of {index} bytes\n"
        )
        print(
            f"{'bytes before the module, without the index':48}{before - index:12} in {requests} requests"
        )
        print(
            f"{'bytes for the module, without its own':48}{after - before - len(data):12} in {all_requests - requests}"
        )

        times: dict[str, list[float]] = {}

        def measure(name: str, work: Any) -> None:
            start = time.perf_counter()
            work()
            times.setdefault(name, []).append((time.perf_counter() - start) * 1e3)

        files = fsspec.filesystem("http")
        start = large.stat().st_size - 1  # only the size of the range counts
        for number in range(options.rounds):
            with_cache(f"round{number}")
            measure(
                "load and read the module", lambda: devmod.load(url).imports[chosen].save_to_bytes()
            )
            measure(
                "the same again, from the cache",
                lambda: devmod.load(url).imports[chosen].save_to_bytes(),
            )
            measure(
                "the same offline",
                lambda: devmod.load(url, offline=True).imports[chosen].save_to_bytes(),
            )
            measure(
                "the ranges alone",
                lambda: (
                    files.cat_file(url, 0, 48 + index),
                    files.cat_file(url, start - CHOSEN, start),
                ),
            )
        print()
        medians = medians_of(times)
        for name, took in medians.items():
            print(f"{name:48}{took:9.1f} ms{took / medians['the ranges alone']:9.2f}")
            record("One module of a bundle of 1 GB at a URL", name, took, "ms")
        peaks = {}
        for how in ("ranges", "no ranges"):
            server.counts(how)
            with_cache(f"memory {how}")
            done = subprocess.run(
                [sys.executable, "-c", CLIENT, server.address, str(chosen)],
                capture_output=True,
                text=True,
                check=True,
            )
            peaks[how] = float(done.stdout)
        print()
        for how, peak in peaks.items():
            print(f"{f'peak memory for the module of 8 MiB, {how}':48}{peak:9.1f} MiB")
        server.process.kill()
    failed = []
    if check(
        "a bundle at a URL, bytes before the module",
        (before - index) / MAX_BEFORE,
        1,
        of=f"{MAX_BEFORE} bytes",
    ):
        failed.append(f"{before - index} bytes moved before the module; {MAX_BEFORE} is the bound")
    for how, peak in peaks.items():
        if check(
            f"a bundle at a URL, peak memory, {how}",
            peak * (1 << 20) / CHOSEN,
            MAX_MEMORY,
            of="the module's bytes",
        ):
            failed.append(f"{how}: {peak:.1f} MiB; {MAX_MEMORY} is the bound")
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
