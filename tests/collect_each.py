"""Collect each file of tests in a process of its own, as if it were the only file of a run.

    python tests/collect_each.py [FILE...]

Without files, it collects all of the folders that pytest searches. A connection to another process
or machine fails. tests/test_collection.py runs this without programs and without a home.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: What most files import. A child process inherits it, and imports only what its file adds.
COMMON = ("numpy", "hypothesis.strategies", "devmod_conformance", "devmod_targets.programs")
OPTIONS = ("--collect-only", "-qq", "--capture=no", "-p", "no:cacheprovider")
#: This program has imported hypothesis, whose plugin of pytest then warns.
IMPORTED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto"})


def refuse_connections(event: str, arguments: tuple[object, ...]) -> None:
    """Raise an error where code of this process would use the network. Audit hooks call this."""
    if event in NETWORK:
        raise OSError(f"no network at collection: {event} {arguments[1:]}")


class EachAlone:
    """A plugin of pytest that collects each file in a child process."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> pytest.CollectReport | None:
        """Return the outcome of a file, without its tests."""
        if not isinstance(collector, pytest.Module):
            return None
        status = in_child(lambda: collect(collector))
        if status == 0:
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        reason = f"its process ended with exit code {status}"
        return pytest.CollectReport(collector.nodeid, "failed", reason, [])


def in_child(function: Callable[[], int]) -> int:
    """Call a function in a child process and return the exit code of that."""
    child = os.fork()
    if child == 0:
        status = function()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def collect(module: pytest.Module) -> int:
    """Import a file and make its tests. Return 1 if that raises an error."""
    try:
        module.collect()
    except pytest.skip.Exception:
        return 0  # the file needs a package that is not installed
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def collect_folder(files: list[str]) -> int:
    """Collect the files of one folder, with the conftest.py of that folder."""
    status = pytest.main([*OPTIONS, *IMPORTED, *files], plugins=[EachAlone()])
    return status != pytest.ExitCode.NO_TESTS_COLLECTED  # no report has tests


def all_files() -> list[Path]:
    """Return the files of the folders that pytest searches without arguments."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    results: list[Path] = []
    for folder in project["tool"]["pytest"]["ini_options"]["testpaths"]:
        results += sorted((ROOT / folder).rglob("test_*.py"))
    return results


def main() -> int:
    """Collect the files and return the exit code."""
    sys.addaudithook(refuse_connections)
    for name in COMMON:
        importlib.import_module(name)
    folders: dict[Path, list[str]] = {}
    for path in [Path(each) for each in sys.argv[1:]] or all_files():
        folders.setdefault(path.parent, []).append(str(path))
    status = 0
    for files in folders.values():
        status |= in_child(lambda files=files: collect_folder(files))
    return status


if __name__ == "__main__":
    sys.exit(main())
