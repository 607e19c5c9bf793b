"""What all tests share: the user's settings are left in peace, and a run ends with the list of what
was skipped here, and why.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A deadline depends on the load of the machine, and random examples differ from run to run.
# --hypothesis-profile=default has both.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")

# Mesa's drivers look for such a folder, and complain in every process where a session has none (CI,
# a container).
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


# OpenBLAS starts a thread for each core in each process that imports NumPy, a fifth of that import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# A CI machine may have a processor that PoCL's LLVM does not know.
os.environ.setdefault("DEVMOD_OPENCL_POCL_CPU", "1")


# A shell script that starts a run with "&" ignores Ctrl-C in it, and in each process that a test
# starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The tests start thousands of Python processes. Without cached bytecode, such a process spends up
# to half of its time compiling imports: NumPy takes 0.30 s instead of 0.19 s, the emulator of RDNA3
# 1.37 s instead of 0.42 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


#: The tests that execute machine code of AMD's gfx1100 need an emulator that is not in this
#: repository. They are one group in the results.
WITHOUT_EMULATOR = "there is no emulator of RDNA3 here"
GROUP = "without the emulator of RDNA3"

ROOT = Path(__file__).resolve().parent

# `make test-setup` puts Node.js there if the system's is missing or too old.
os.environ["PATH"] = os.pathsep.join([str(ROOT / ".venv" / "node"), os.environ.get("PATH", "")])

#: The order in which a run without workers collects.
FOLDERS = pytest.StashKey[list[str]]()

#: Rows of the conformance kit that start processes. make test runs them for OpenCL: each backend
#: has tests of its own forks, and core writes the bytes of every kind.
PROCESS_ROWS = {
    "R8",
    "R33-several",
    "R37-forks",
    "R37-interrupts",
    "R38-compiled",
    "R38-saved",
    "R61",
}
#: Those of ROCm's rows that compile many times. What the stand-in for hiprtc reads shows nothing of
#: the real one.
ROCM_ROWS = {"R30-files"}

#: What a person or a CI service may have set, and no test may see. (Which device and which driver
#: is tested is theirs to say.)
SETTINGS = (
    "CI",
    "DEVMOD_BUILD_CACHE",
    "DEVMOD_COMPILE_FORCE_FALLBACK",
    "DEVMOD_LOG",
    "DEVMOD_PLUGINS_ALLOW",
    "DEVMOD_PLUGINS_CHOOSE",
    "DEVMOD_PLUGINS_DENY",
    "DEVMOD_PREFER",
)


#: What `devmod_simulators.sanitize` sets for good.
SIMULATED = ("CUDA_FORCE_PTX_JIT", "DEVMOD_CUDA_DRIVER")

COLLECTION = "start and collection"
SHARED = "the end of what tests share, such as the browser"
#: The processor's seconds, user and system, of this process and of those that it has waited for.
SECONDS: Counter[str] = Counter()
#: The seconds of each of pytest-xdist's workers that has ended.
WORKERS: dict[str, dict[str, float]] = {}


def _lap(name: str) -> None:
    """Count for `name` what was used since the last call."""
    SECONDS[name] += sum(os.times()[:4]) - SECONDS.total()


@pytest.fixture(autouse=True, scope="session")
def own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the run's own, and nobody's settings."""
    cache = tmp_path_factory.getbasetemp() / "devmod-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_CACHE_DIR", str(cache))
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        yield
    unknown = _unknown_files(cache)
    assert not unknown, f"devmod cache neither shows nor removes {unknown}"


@pytest.fixture(autouse=True)
def own_driver() -> Iterator[None]:
    """The simulated GPU of `sanitize`, which a process keeps, only for the processes of the same
    test: another test may expect that there is no device.
    """
    before = {name: os.environ.get(name) for name in SIMULATED}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _unknown_files(cache: Path) -> list[str]:
    """Return the files that a run has left in the cache folder, without those that `devmod cache`
    shows and removes.
    """
    from devmod._util.cache_files import TAG, files

    found = []
    for path in cache.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name != TAG:
            found.append(str(path))
    known: set[str] = set()
    if found:
        for folder in cache.iterdir():
            known.update(each.path for each in files(str(folder)))
    return sorted({*found} - known)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of the simulators whose tests are all volume, where a run has none of
    those and does not name the file.
    """
    if not config.option.markexpr.startswith("not volume"):
        return None
    if not _is_of_simulators(collection_path):
        return None
    name = collection_path.name
    if not name.startswith("test_") or any(name in each for each in config.args):
        return None
    return "volume_but" not in collection_path.read_text(encoding="utf-8") or None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker begin to collect at another folder: of a file that another worker has
    collected before, it reads the bytecode. To make that takes most of the time of a fresh clone.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        folders = session.config.args
        session.config.stash[FOLDERS] = [each.partition("::")[0] for each in folders]
        start = int(worker["workerid"][2:]) * len(folders) // worker["workercount"]
        folders[:] = folders[start:] + folders[:start]


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Mark the tests of the simulators, and more as volume, after all workers have the same order.

    Volume are those that `volume_but` leaves out, the others of the simulators, which the tests of
    the backends use, and the kits' rows of processes.
    """
    folders = [config.invocation_params.dir / each for each in config.stash.get(FOLDERS, [])]

    @functools.cache
    def place(path: Path) -> int:
        return next((at for at, each in enumerate(folders) if path.is_relative_to(each)), 0)

    items.sort(key=lambda item: place(item.path))
    for item in items:
        kept = item.get_closest_marker("volume_but")
        if item.name in _volume_rows(item.path):
            item.add_marker("volume")
        if _is_of_simulators(item.path) or item.path.match("tests/test_simulate*.py"):
            item.add_marker("simulators")
        if kept is None:
            is_volume = _is_of_simulators(item.path)
        else:
            is_volume = bool(kept.args) and item.callspec.id not in kept.args
        if is_volume:
            item.add_marker("volume")


@functools.cache
def _volume_rows(path: Path) -> frozenset[str]:
    """Return the names of a file's tests that are rows of a kit for make test-all."""
    is_kit = path.match("plugins/*/tests/test_conformance.py")
    if not is_kit or "devmod-opencl" in path.parts:
        return frozenset()
    rows = PROCESS_ROWS
    if "devmod-rocm" in path.parts:
        rows = rows | ROCM_ROWS
    return frozenset(f"test_row[{row}]" for row in rows)


@functools.cache
def _is_of_simulators(path: Path) -> bool:
    return path.is_relative_to(ROOT / "extras" / "simulators")


def _skip_reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count the tests that need the emulator of RDNA3 as one group, and print no letter for
    each.
    """
    if report.skipped and _skip_reason(report).startswith(WITHOUT_EMULATOR):
        return GROUP, "", ""
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while pytest collects tests, which makes none: that took a sixth of the
    time. Leave out what it has made when tests collect garbage: each time, that took 0.14 s more.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        _lap(COLLECTION)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count the processor's seconds of each file."""
    result = yield
    _lap(item.nodeid.partition("::")[0])
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Count the end of the session's fixtures apart from the last test."""
    if nextitem is not None:
        return (yield)
    _lap(item.nodeid.partition("::")[0])
    try:
        return (yield)
    finally:
        _lap(SHARED)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the seconds of this worker to the process that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["processor"] = dict(SECONDS)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist has it
def pytest_testnodedown(node: Any) -> None:
    """Take the seconds of a worker that ended, unless it crashed."""
    output = getattr(node, "workeroutput", {})
    if "processor" in output:
        WORKERS[node.gateway.id] = output["processor"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests by their reason, and what the processor's seconds went to."""
    _list_skipped(terminalreporter)
    if WORKERS:
        _list_processor(terminalreporter)


def _list_processor(reporter: pytest.TerminalReporter) -> None:
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    collections = {}
    for name, worker in WORKERS.items():
        files.update(worker)
        collections[f"{COLLECTION} in {name}"] = worker[COLLECTION]
    for name, seconds in files.items():
        folders[os.path.dirname(name) or name] += seconds
    total = files.total()
    rows = folders.most_common()
    for name in (COLLECTION, SHARED):
        del files[name]

    reporter.section(f"processor: {total:.0f} s of user and system, with child processes")
    for name, seconds in (*sorted(collections.items()), *rows):
        reporter.write_line(f"{seconds:8.1f} s  {name}")
    reporter.write_line("the costliest files:")
    for name, seconds in files.most_common(10):
        reporter.write_line(f"{seconds:8.1f} s  {name}")


def _list_skipped(terminalreporter: pytest.TerminalReporter) -> None:
    reasons: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        where = report.longrepr[0] if isinstance(report.longrepr, tuple) else ""
        reasons.setdefault(_skip_reason(report), []).append(report.nodeid or where)
    group = terminalreporter.stats.get(GROUP, [])
    if not reasons and not group:
        return
    terminalreporter.section("not run here, and why")
    if group:
        terminalreporter.write_line(f"{len(group)} × {_skip_reason(group[0])}")
    for why, names in sorted(reasons.items()):
        terminalreporter.write_line(f"{len(names)} × {why}")
        for name in names[:3]:
            terminalreporter.write_line(f"      {name}")
        if len(names) > 3:
            terminalreporter.write_line(f"      and {len(names) - 3} more")
