"""Fuzz every reader of strangers' bytes for a given time.

    python tools/fuzz.py --seconds 600 [--jobs N] [--readers NAME …] [--seed TEXT] [--unguided]

Coverage guides the inputs if atheris' wheel installs, else the project's own mutators make them
alone. The readers and their properties are in `tools/fuzzing/readers.py`. Findings go to
`build/fuzz/<reader>/`: the input (`.bin`) and the traceback (`.txt`). The exit code is 1 if there
is one. The input of a fixed finding goes into `tests/fuzz/corpus/`, with a line in its
`corpus.toml`.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from environments import ROOT, InstallError, install, python_of
from environments import VENV as ENVIRONMENT
from fuzzing.process import Run, run_reader
from fuzzing.readers import READERS, Reader

FOLDER = ROOT / "build" / "fuzz"
#: Seconds below which coverage is not used: its start takes long, because the packages are imported
#: with counters in them.
_GUIDED = 8.0


def main() -> int:
    """Run the fuzzers and return the exit code."""
    parser = argparse.ArgumentParser(description="Fuzz every reader of strangers' bytes.")
    parser.add_argument(
        "--seconds", type=float, default=600, help="the time for all readers together, in seconds"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--readers", nargs="*", choices=READERS, metavar="READER", help="only these"
    )
    parser.add_argument(
        "--seed",
        default=time.strftime("%Y%m%d%H%M%S"),
        help="without atheris, the same seed gives the same inputs",
    )
    parser.add_argument("--unguided", action="store_true", help="do without atheris")
    options = parser.parse_args()
    guided = not options.unguided and has_atheris()
    choice = [READERS[name] for name in options.readers or READERS]
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(
        f"{len(choice)} readers, {options.seconds:.0f} s, seed {options.seed}, {'guided by atheris' if guided else 'not guided'}",
        flush=True,
    )
    start = time.monotonic()
    runs = run_all(choice, options.seconds, options.jobs, options.seed, guided)
    findings = sum(len(run.findings) for run in runs)
    total = sum(max(run.executions, 0) for run in runs)
    print(
        f"{total} inputs in {time.monotonic() - start:.0f} s, {findings} findings{f' in {FOLDER}' if findings else ''}"
    )
    return 1 if findings else 0


def has_atheris() -> bool:
    """Return whether atheris is installed, after an attempt to install its wheel."""
    if importlib.util.find_spec("atheris") is None:
        try:
            install(python_of(ENVIRONMENT), ["--only-binary=atheris", "atheris>=2.3"])
        except InstallError as error:
            print(
                f"atheris does not install here, so inputs are not guided by coverage: {str(error).strip().splitlines()[-1]}"
            )
            return False
        importlib.invalidate_caches()
    if importlib.util.find_spec("atheris") is None:
        print("atheris has no wheel for this system, so inputs are not guided by coverage")
        return False
    return True


def run_all(readers: list[Reader], seconds: float, jobs: int, seed: str, guided: bool) -> list[Run]:
    """Run each reader for its part of the time. A reader that ends its process is restarted until
    its time is over.
    """
    weight = sum(reader.weight for reader in readers)

    def run(reader: Reader) -> list[Run]:
        share = seconds * jobs * reader.weight / weight
        end = time.monotonic() + share
        results: list[Run] = []
        while not results or end - time.monotonic() > 1:
            left = end - time.monotonic()
            arguments = ("--seconds", f"{left:.1f}", "--seed", f"{seed}-{len(results)}")
            steered = guided and not reader.native and left > _GUIDED
            result = run_reader(
                reader.name, FOLDER / reader.name, *arguments, guided=steered, timeout=left + 120
            )
            results.append(result)
            print(
                f"{reader.name:26} {result.executions:9} inputs, {len(result.findings)} findings",
                flush=True,
            )
            for line in result.findings:
                print(f"    {line}", flush=True)
        return results

    with ThreadPoolExecutor(jobs) as pool:
        return list(chain.from_iterable(pool.map(run, readers)))


if __name__ == "__main__":
    sys.exit(main())
