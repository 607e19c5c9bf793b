"""Run one reader in this process, with given files, with mutated inputs for a number or for
seconds, or both. Print the result as JSON.

    python -m fuzzing.worker RUN [+ RUN …]

A RUN is READER FOLDER [--seconds S] [--executions N] [--seed TEXT] [--files FILE …] [--large NAME
…] [--untimed]. FOLDER gets a file for each finding, and the file `current` with the input that is
being read. If the process dies, that input caused it.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import mmap
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from random import Random

import devmod
from devmod._plugins.discovery import shared_scan
from fuzzing import limits
from fuzzing.large import LARGE
from fuzzing.limits import bounded
from fuzzing.readers import READERS, Reader, check_error, remove_scratch

#: Seconds that one input may take before the process dumps its stack and ends, and bytes of address
#: space.
PATIENCE = 40
ADDRESSES = 24 << 30
_CURRENT = 64 << 20
ENDLESS = 1 << 62


class Current:
    """The input that is being read, in a file that remains after the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / "current"
        with path.open("w+b") as file:
            file.truncate(_CURRENT)
            self.map = mmap.mmap(file.fileno(), _CURRENT)

    def set(self, data: bytes) -> None:
        """Write an input before it is read."""
        self.map[8 : 8 + len(data)] = data
        self.map[:8] = len(data).to_bytes(8, "little")

    @staticmethod
    def read(folder: Path) -> bytes:
        """Return the input that a process was reading when it ended."""
        with (folder / "current").open("rb") as file:
            return file.read(int.from_bytes(file.read(8), "little"))


class Findings:
    """The findings of a reader, one for each place in the code."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.folder = folder
        self.count = 0
        self.seen: set[str] = set()
        self.texts: list[str] = []

    def add(self, data: bytes, error: BaseException) -> None:
        """Write a finding, unless there is one of the same place."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "fuzzing" not in frame.filename][-1:] or frames[-1:]
        place = (
            f"{type(error).__name__} {own[0].filename}:{own[0].lineno}"
            if own
            else type(error).__name__
        )
        # A property does not hold: the text of the error has the place.
        if type(error).__module__.startswith("fuzzing"):
            place = f"{type(error).__name__} {str(error)[:32]}"
        self.count += 1
        if place in self.seen:
            return
        self.seen.add(place)
        name = hashlib.sha256(data).hexdigest()[:16]
        text = "".join(traceback.format_exception(error))
        (self.folder / f"{name}.bin").write_bytes(data)
        (self.folder / f"{name}.txt").write_text(
            f"{self.reader.name}\n{text}", encoding="utf-8", errors="backslashreplace"
        )
        self.texts.append(f"{place}: {str(error)[:200]} [{name}.bin]")


def execute(reader: Reader, data: bytes, findings: Findings, current: Current) -> bool:
    """Read one input, and add what fails to the findings. Return whether it was read without an
    error.
    """
    current.set(data)
    try:
        bounded(lambda: reader.read(data), len(data), reader.passes, native=reader.native)
    except devmod.DevmodError as error:
        try:
            check_error(error)
        except Exception as breach:  # noqa: BLE001 - any is a finding
            findings.add(data, breach)
    except Exception as error:  # noqa: BLE001 - any is a finding
        findings.add(data, error)
    else:
        return True
    return False


def first_seeds(reader: Reader, executions: int) -> list[bytes]:
    """Return the seeds to read themselves: at most half of the inputs."""
    return reader.seeds()[: max(executions // 2, 1)]


def inputs(reader: Reader, seed: str, executions: int) -> Generator[bytes, bool | None, None]:
    """Yield the first seeds, then mutated ones without end.

    Send whether the last one was read without an error: those are mutated again.
    """
    random = Random(f"{reader.name} {seed}")
    pool = reader.seeds()
    for data in first_seeds(reader, executions):  # `yield from` would send to the list
        yield data
    first = len(pool)
    while True:
        data = random.choice(pool)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            data = reader.mutate(data, random)
        accepted = yield data
        if accepted and len(pool) < first + 2000:
            pool.append(data)


def scan_of(reader: Reader) -> AbstractContextManager[object]:
    """What is installed does not change. The reader of look-ups looks for it each time."""
    return nullcontext() if reader.name == "lookup" else shared_scan()


def warm_up(reader: Reader, current: Current, executions: int = ENDLESS) -> None:
    """Read the first seeds without limits. The imports and drivers of their first use are then in
    no input's time and memory.
    """
    seeds = first_seeds(reader, executions)
    if reader.native:  # its memory has no limit, but its program may be built at the first use
        seeds = seeds[:1]
    for data in seeds:
        current.set(data)
        with suppress(Exception):  # the seeds are read again, and then any error is a finding
            reader.read(data)


def run(
    reader: Reader, findings: Findings, current: Current, seed: str, seconds: float, executions: int
) -> int:
    """Run for so many seconds or so many inputs, and return the number of inputs."""
    data = inputs(reader, seed, executions)
    done = 0
    end = time.monotonic() + seconds
    armed = 0.0
    accepted = None
    while done < executions and (now := time.monotonic()) < end:
        if now > armed + 1:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            armed = now
        accepted = execute(reader, data.send(accepted), findings, current)
        done += 1
    faulthandler.cancel_dump_traceback_later()
    return done


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--executions", type=int, default=ENDLESS)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--files", type=Path, nargs="*")
    parser.add_argument("--large", nargs="*", help="names of large files (fuzzing.large)")
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="no limit of time, so the result is the same on a loaded machine",
    )
    return parser.parse_args(arguments)


def prepare(given: argparse.Namespace) -> tuple[Reader, Findings, Current]:
    """Limit this process' memory, and return the reader with the files of its run."""
    global PATIENCE
    if given.untimed:
        limits.SECONDS = float("inf")
        PATIENCE = 1000
    faulthandler.enable()
    warnings.simplefilter("error")
    with suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1])
        )
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ["DEVMOD_CACHE_DIR"] = str(given.folder / "cache")
    os.environ.setdefault(
        "XDG_RUNTIME_DIR", tempfile.gettempdir()
    )  # Mesa prints a warning without it
    reader = READERS[given.reader]
    return reader, Findings(reader, given.folder), Current(given.folder)


def main(arguments: Sequence[str]) -> int:
    """Run each reader, and return the exit code."""
    runs = [list(words) for plus, words in groupby(arguments, "+".__eq__) if not plus]
    return max(run_one(each) for each in runs or [[]])


def run_one(arguments: Sequence[str]) -> int:
    """Run one reader, print the result, and return the exit code."""
    given = parse(arguments)
    reader, findings, current = prepare(given)
    with scan_of(reader):
        done = run_all(given, reader, findings, current)
    finish(reader, done, findings)
    return 1 if findings.count else 0


def run_all(given: argparse.Namespace, reader: Reader, findings: Findings, current: Current) -> int:
    """Read the given files and the mutated inputs, and return the number of inputs."""
    warm_up(reader, current, given.executions)
    done = 0
    if given.files is not None or given.large is not None:
        fixed = [path.read_bytes() for path in given.files or ()]
        execute(reader, reader.seeds()[0], findings, current)
        for data in (
            *fixed,
            *(make(size) for _, make, size in map(LARGE.__getitem__, given.large or ())),
        ):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            execute(reader, data, findings, current)
        done = 1 + len(fixed) + len(given.large or ())
    if not done or given.executions < ENDLESS:
        done += run(reader, findings, current, given.seed, given.seconds, given.executions)
    return done


def finish(reader: Reader, done: int, findings: Findings) -> None:
    """Remove the files of this process, and print the result as the last line."""
    remove_scratch()
    found = {
        "reader": reader.name,
        "executions": done,
        "count": findings.count,
        "findings": findings.texts,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
