"""Checks of launches on the simulated GPU: in this process, and in those that a command starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from devmod.backend import RLock, temporary_folder
from devmod.errors import DeviceNotFoundError, DevmodError, LaunchError
from devmod_simulators._toolkit import library_path_of_programs
from devmod_simulators.drivers.build import UnavailableError
from devmod_simulators.drivers.driver import PREFIX, StandinDriver
from devmod_simulators.drivers.library import libcuda
from devmod_simulators.shims.python import devmod_cudart

# Where to change: a check of the sanitizer
#   here: the check itself: `extras/simulators/src/devmod_simulators/ptx/checked.py`; of races
#     `sanitizer.py` and `shadows.py` beside it, of what nothing wrote `poison.py`; or
#     `extras/simulators/src/devmod_simulators/drivers/common/notes.c`
#   also: `docs/cuda-without-a-gpu.md`
#   tests: `tests/test_two_places.py`, `extras/simulators/tests/ptx/test_sanitize.py`
#: The checks, and two options: copies of memory that nothing wrote are faults too; a warp's
#: volatile accesses have the program's order.
CHECKS = ("bounds", "align", "free", "leak", "race", "sync", "init")
OPTIONS = ("copies", "volatile")

_CHECKS = PREFIX + "SANITIZE"
_LOG = PREFIX + "SANITIZE_LOG"
#: The file that a launch makes, and to which one that has run to its end writes.
_LAUNCHED = PREFIX + "LAUNCHED"
#: Environment variables: those of the bodies of `sanitize` that run now, in all threads, behind
#: those of the process. The last ones count.
_variables: list[dict[str, str]] = []
_lock = RLock()


class SanitizeError(LaunchError):
    """A check has found a fault in a kernel. `function` is its name, and `argument` the array's,
    where the source tells it.

    Attributes
    ----------
    index : int or None
        The element of the array.
    block, thread : tuple of int
        The first thread with the fault.
    source : str
        The line, as "k.cu:12  y[i] = 2 * x[i];".
    reports : list of dict
        All that was found: the attributes above, ``check``, ``kind``, ``threads`` and ``text``.
    """

    index: int | None = None
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    source: str = ""
    reports: list[dict[str, Any]]


def check_names(names: Sequence[str]) -> str:
    """Return the names of checks, separated by commas: for none all but "leak", since a program may
    keep its arrays to its end.

    Raises
    ------
    DevmodError
        A name is unknown.
    """
    given: set[str] = set()
    for name in ",".join(names).split(","):
        if name and name not in (*CHECKS, *OPTIONS, "all"):
            raise DevmodError(
                f"{name!r} is no check; there are {', '.join(CHECKS)}, and the options {' and '.join(OPTIONS)}"
            )
        given.add(name)
    if "all" in given:
        given |= {*CHECKS}
    elif given.isdisjoint(CHECKS):
        given |= {*CHECKS} - {"leak"}
    return ",".join(each for each in (*CHECKS, *OPTIONS) if each in given)


def read_reports(log: Path) -> list[dict[str, Any]]:
    """Return the reports in a file, without a last one that is cut short."""
    reports = []
    if log.exists():
        for line in log.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                reports.append(json.loads(line))
    return reports


def error_of(reports: list[dict[str, Any]]) -> SanitizeError:
    """Return the error of reports, with the facts of the first one."""
    first = reports[0]
    text = "\n".join(each["text"] for each in reports)
    error = SanitizeError(
        text, kind="cuda", function=first.get("function", ""), argument=first.get("argument", "")
    )
    error.index = first.get("index")
    error.source = first.get("source", "")
    error.block = tuple(first.get("block", ()))
    error.thread = tuple(first.get("thread", ()))
    error.reports = reports
    return error


def _simulated_driver() -> StandinDriver:
    """Return the simulated driver of this process, which devmod and other libraries use from now
    on.

    Raises
    ------
    DeviceNotFoundError
        This process uses another driver, or the simulated one cannot be built.
    """
    if libcuda.is_taken:
        raise DeviceNotFoundError(
            f"checks need the simulated GPU, and this process has loaded another {libcuda.soname} before. Run the program with: "
            "devmod simulate --sanitize -- COMMAND",
            kind="cuda",
        )
    try:
        driver = libcuda.load()
    except UnavailableError as error:
        raise DeviceNotFoundError(str(error), kind="cuda") from error
    os.environ |= {"DEVMOD_CUDA_DRIVER": "simulator", "CUDA_FORCE_PTX_JIT": "1"}
    devmod_cudart.install()
    driver.show()
    return driver


class Coverage:
    """Whether the checks of a body had a launch.

    Attributes
    ----------
    progress : int
        That of the body's launches: 0 without one, 1 if none ran to its end, else 2.
    """

    progress = 0

    def read(self, launched: Path) -> None:
        """Read what the launches of the body have written."""
        if launched.exists():
            self.progress = 2 if launched.stat().st_size else 1


def _pass_on(launched: Path) -> None:
    """Let a body of `sanitize` around this one, or the command, know of the launches too."""
    outer = os.environ[_LAUNCHED]
    if outer and launched.exists():
        with open(outer, "ab") as file:
            file.write(launched.read_bytes())


@contextmanager
def sanitize(*checks: str) -> Iterator[Coverage]:
    """Check the launches in the body, also of processes that it starts, and raise an error at its
    end for what was found.

    Kernels run on the simulated GPU.

    Parameters
    ----------
    checks
        Some of "bounds", "align", "free", "leak", "race", "sync" and "init". Default: all but
        "leak", which is found at the end of the process; "all" has it.

    Yields
    ------
    Coverage
        Whether there was a launch. That is known after the body.

    Raises
    ------
    SanitizeError
        A check has found a fault.
    DeviceNotFoundError
        This process uses a real driver already.
    """
    names = check_names(checks)
    driver = _simulated_driver()
    # What was launched before.
    driver.settle()
    failed = None
    with temporary_folder() as folder:
        # Of this process, and of those that the body starts.
        log = Path(folder, "reports")
        launched = Path(folder, "launched")
        coverage = Coverage()
        # Compilers see it too.
        own = {_CHECKS: names, _LOG: str(log), _LAUNCHED: str(launched), **libcuda.environment()}
        own["LD_LIBRARY_PATH"] = library_path_of_programs(own["LD_LIBRARY_PATH"])
        with _lock:
            if not _variables:
                _variables.append({name: os.environ.get(name, "") for name in own})
            _variables.append(own)
            os.environ |= own
        try:
            yield coverage
        except BaseException as error:
            failed = error
            raise
        finally:
            driver.settle()
            coverage.read(launched)
            with _lock:
                _variables.remove(own)
                # That of `devmod simulate --sanitize`.
                command_log = _variables[0][_LOG]
                os.environ |= _variables[-1]
                if len(_variables) == 1:
                    _variables.clear()
            _pass_on(launched)
            reports = [json.loads(line) for line in driver.sanitize_reports()]
            reports += [each for each in read_reports(log) if each not in reports]
            if reports and command_log:
                with open(command_log, "a") as file:
                    file.writelines(f"{json.dumps(each)}\n" for each in reports)
            if reports and not isinstance(failed, KeyboardInterrupt):
                raise error_of(reports) from failed
            if not command_log:
                sys.stderr.writelines(f"{each['text']}\n" for each in reports)
