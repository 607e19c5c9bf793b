"""The time of compiling one source for several kinds: Slang beside its library alone, and OpenCL C
as SPIR-V beside a run of clang.

    python tools/benchmarks/bench_one_source.py [--rounds 3] [--compiles 8] [--kinds vulkan,metal]

The figures are processor time of this process and of all that it starts, so other processes on the
machine matter less.

Slang: "Slang" is the same calls of its library in this process, whose session is kept: no other
process, no file read, nothing checked. "Reading" is what the kind's compiler takes for the text or
the SPIR-V that Slang returned: for cuda NVRTC and the assembler, for rocm and hexagon clang and
lld, and for each kind the reading of the signatures. "Both" is one after the other in this process,
as a program does it that keeps both libraries; it is more than their sum, since each leaves the
processor's caches to the other. devmod's time has both, the request to its process, and the names
of the source. The ratio is that of devmod to "both". "First" is one compile in a new process, of
the same calls of Slang in a new process.

OpenCL C: the ratio is that to one run of the wheel's clang, which compiles an empty kernel.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import check, record

import devmod

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: The targets with an example that each of them has, and the most that devmod takes of Slang and
#: the reading.
SLANG = {
    "vulkan": ("softmax", 1.1),
    "webgpu": ("softmax", 1.1),
    "metal": ("softmax", 1.2),  # libclang reads the code too: 1.02 and 1.10 on two machines
    "cuda -arch=sm_80": ("softmax", 1.1),
    "rocm -arch=gfx1100": ("softmax", 1.1),
    "hexagon -arch=v68": ("mandelbrot", 1.1),
}
#: The most that devmod takes of a run of clang.
MOST_IL = 2.5
#: The most of a first compile, of the same calls of Slang in a new process.
MOST_FIRST = 1.5
#: Slang alone in a new process, and devmod in one.
BARE = """
import json, sys
from devmod_targets.slang._slang_process import load
ask = load({"library": sys.argv[1]})
assert ask(json.loads(sys.argv[2]), sys.argv[3].encode())[0] == 0
"""
WHOLE = "import sys, devmod, pathlib; devmod.compile(pathlib.Path(sys.argv[1]), sys.argv[2])"


def cpu() -> float:
    """Return the processor time in milliseconds of this process and of those that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(1e3 * (each.ru_utime + each.ru_stime) for each in usages)


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    before = cpu()
    work()
    return cpu() - before


def process(arguments: list[str]) -> float:
    """Return the processor time of a new Python."""
    return cost(lambda: subprocess.run([sys.executable, "-c", *arguments], check=True))


def cost_with_processes(work: Callable[[], object], count: int) -> float:
    """Return the processor time of a call, without the start of the processes of libraries that are
    kept for the next call.
    """
    from devmod_targets.authoring._library import IDLE

    def several(times: int) -> None:
        for _ in range(times):
            work()
        IDLE.end()

    IDLE.end()
    return (cost(lambda: several(count + 1)) - cost(lambda: several(1))) / count


class Recorder:
    """The request that devmod makes to Slang's library for an example, and those that it makes to
    the kind's own compiler.
    """

    def __init__(self, source: Path, target: str) -> None:
        from devmod_targets.authoring import _library
        from devmod_targets.slang import compile as entry

        self.requests: list[Callable[[], object]] = []
        self.library = ""
        self.request: dict[str, Any] = {}
        self.text = b""
        compile_slang = entry.compile
        ask = _library.ask_library

        def recording(request: Any, compiler: Any) -> Any:
            def compile_recorded(own: Any) -> Any:
                self.requests.append(lambda: compiler(own))
                return compiler(own)

            return compile_slang(request, compile_recorded)

        def ask_recorded(
            kind: str,
            subject: str,
            advice: str,
            start: Any,
            request: Any,
            data: bytes,
            **named: Any,
        ) -> Any:
            if start["module"].endswith("_slang_process"):
                self.library = start["library"]
                self.request = {**request}
                self.text = data
            return ask(kind, subject, advice, start, request, data, **named)

        entry.compile = recording
        _library.ask_library = ask_recorded  # type: ignore[assignment]
        try:
            devmod.compile(source, target)
        finally:
            entry.compile = compile_slang
            _library.ask_library = ask

    def read(self) -> None:
        """Call the kind's own compiler as devmod did."""
        for each in self.requests:
            each()


def in_turns(contenders: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the figures of each contender. Each round has all of them."""
    figures: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, figure in contenders.items():
            figures[name].append(figure())
    return figures


def slang(
    target: str, example: str, most: float, rounds: int, compiles: int, session: dict[str, Any]
) -> bool:
    """Measure a target. Return whether its figure exceeds its bound. `session` keeps Slang's
    library in this process.
    """
    from devmod_targets.slang._slang_process import load

    source = EXAMPLES / "one_source" / f"{example}.slang"
    recorder = Recorder(source, target)
    answer = session.setdefault("answer", None) or load({"library": recorder.library})
    session["answer"] = answer

    def bare() -> None:
        assert answer(recorder.request, recorder.text)[0] == 0

    def several() -> None:
        for _ in range(compiles):
            bare()

    def both() -> None:
        bare()
        recorder.read()

    bare()
    figures = in_turns(
        {
            "slang": lambda: cost(several) / compiles,
            "reading": lambda: cost_with_processes(recorder.read, compiles),
            "both": lambda: cost_with_processes(both, compiles),
            "devmod": lambda: cost_with_processes(lambda: devmod.compile(source, target), compiles),
        },
        rounds,
    )
    rows = list(zip(*figures.values(), strict=True))
    ratio = statistics.median(whole / in_turn for _, _, in_turn, whole in rows)
    alone, reading, in_turn, whole = map(statistics.median, figures.values())
    is_over = check(
        f"Slang to {target.partition(' ')[0]}: {example}",
        ratio,
        most,
        of="Slang alone and the reading",
    )
    print(
        f"{target:<20} {example:<11} {alone:6.1f} {reading:8.1f} {in_turn:6.1f} {whole:7.1f} {ratio:6.2f} {most:>5}{'  over' * is_over}",
        flush=True,
    )
    for column, value in (("Slang alone", alone), ("the reading", reading), ("devmod", whole)):
        record("Processor time of compiling a Slang source", target, value, "ms", column=column)
    return is_over


def first(rounds: int) -> bool:
    """Measure the first compile in a process. Return whether the figure exceeds its bound."""
    source = EXAMPLES / "one_source" / "softmax.slang"
    recorder = Recorder(source, "webgpu")
    bare = [BARE, recorder.library, json.dumps(recorder.request), recorder.text.decode()]
    figures = in_turns(
        {"slang": lambda: process(bare), "devmod": lambda: process([WHOLE, str(source), "webgpu"])},
        rounds,
    )
    ratio = statistics.median(whole / alone for alone, whole in zip(*figures.values(), strict=True))
    is_over = check(
        "Slang to webgpu, first in a process", ratio, MOST_FIRST, of="Slang alone in a process"
    )
    alone, whole = map(statistics.median, figures.values())
    print(
        f"first in a process: Slang {alone:.0f}, devmod {whole:.0f}, ratio {ratio:.2f} (most {MOST_FIRST}){'  over' * is_over}"
    )
    return is_over


def empty_kernel() -> None:
    """Compile an empty kernel with the wheel's clang, for NVIDIA's processors."""
    from devmod_targets.authoring.zig import run_zig

    arguments = [
        "clang",
        "--target=nvptx64-nvidia-cuda",
        "-nogpulib",
        "-x",
        "cl",
        "-cl-no-stdinc",
        "-nostdinc",
        "-S",
        "k.cl",
        "-o",
        "k.s",
    ]
    assert run_zig(
        arguments, {"k.cl": b"kernel void k(global float *x) {}"}, "k.s", kind="cuda"
    ).output


def opencl(rounds: int, compiles: int) -> bool:
    """Measure OpenCL C to SPIR-V. Return whether its figure exceeds its bound."""
    source = EXAMPLES / "opencl" / "softmax.cl"
    target = "opencl -format=il"

    def several(work: Callable[[], object]) -> float:
        return cost(lambda: [work() for _ in range(compiles)]) / compiles

    devmod.compile(source, target)
    figures = in_turns(
        {
            "clang": lambda: several(empty_kernel),
            "devmod": lambda: several(lambda: devmod.compile(source, target)),
        },
        rounds,
    )
    ratio = statistics.median(whole / alone for alone, whole in zip(*figures.values(), strict=True))
    alone, whole = map(statistics.median, figures.values())
    is_over = check(f"OpenCL C to {target}", ratio, MOST_IL, of="a run of clang")
    print(
        f"OpenCL C, {target:<20} {whole:7.1f} ms, {ratio:.1f} runs of clang of {alone:.1f} ms (most {MOST_IL}){'  over' * is_over}",
        flush=True,
    )
    record("Processor time of compiling OpenCL C", target, whole, "ms")
    return is_over


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiles", type=int, default=24)
    parser.add_argument(
        "--kinds", default=",".join([*(each.partition(" ")[0] for each in SLANG), "opencl"])
    )
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    over = False
    session = dict[str, Any]()
    print(
        f"{'processor time, ms':<32} {'Slang':>6} {'reading':>8} {'both':>6} {'devmod':>7} {'ratio':>6} {'most':>5}"
    )
    try:
        over |= first(options.rounds)
        for target, (example, most) in SLANG.items():
            if target.partition(" ")[0] in kinds:
                over |= slang(target, example, most, options.rounds, options.compiles, session)
        if "opencl" in kinds:
            over |= opencl(options.rounds, options.compiles)
    except devmod.ToolchainNotFoundError as error:
        print(f"not measured: {error}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
