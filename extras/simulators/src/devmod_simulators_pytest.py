"""The plugin of pytest: `--devmod-sanitize` fails a test in which a check has found a fault, and
names the tests in which nothing was checked.

Below `devmod simulate --sanitize`, pytest has the option without being asked.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

#: The variables that `devmod simulate --sanitize` sets.
_CHECKS = "DEVMOD_STANDIN_SANITIZE"
_LOG = "DEVMOD_STANDIN_SANITIZE_LOG"
#: The names of tests for one reason in the summary, without the option -v.
_NAMES = 3
#: Why nothing was checked in a test, by the progress of its launches.
_REASONS = ("no launch on the simulated GPU", "no launch ran to its end")
#: The coverage of the parts of a test: its fixtures and the test itself.
_COVERAGES: pytest.StashKey[list[Any]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    text = "Run CUDA kernels on the simulated GPU, and fail a test in which a check finds a fault."
    parser.getgroup("devmod").addoption("--devmod-sanitize", action="store_true", help=text)
    parser.addini(
        "devmod_sanitize",
        "The checks of --devmod-sanitize, separated by commas: bounds, align, free, race, sync, init. Default: all.",
    )


def _checks(config: pytest.Config) -> str:
    """Return the checks that the settings of pytest name, or else the command above it."""
    named: str = config.getini("devmod_sanitize")
    return named or os.environ.get(_CHECKS, "")


def pytest_configure(config: pytest.Config) -> None:
    """Give this process the simulated GPU before anything loads a driver."""
    if os.environ.get(_CHECKS) and os.environ.get(_LOG):
        config.option.devmod_sanitize = True
    if not config.getoption("devmod_sanitize"):
        return
    from devmod.errors import DevmodError
    from devmod_simulators import sanitize

    try:
        with sanitize(_checks(config)):
            pass
    except DevmodError as error:
        raise pytest.UsageError(f"--devmod-sanitize: {error}") from error
    config.pluginmanager.register(_Summary(), "devmod-sanitize-summary")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with the checks, and its fixtures."""
    if not item.config.getoption("devmod_sanitize"):
        return (yield)
    from devmod_simulators import sanitize

    with sanitize(_checks(item.config)) as coverage:
        try:
            return (yield)
        finally:
            item.stash.setdefault(_COVERAGES, []).append(coverage)


pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the last report of a test the progress of its launches. pytest-xdist sends it to
    the process that prints the summary.
    """
    report = yield
    if report.when == "teardown" and _COVERAGES in item.stash:
        progress = max(each.progress for each in item.stash[_COVERAGES])
        vars(report)["devmod_progress"] = progress
    return report


class _Summary:
    """Prints in how many tests a launch was checked, and those in which nothing was, by reason."""

    def __init__(self) -> None:
        self._progress: dict[str, int] = {}
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)
        progress = getattr(report, "devmod_progress", None)
        if progress is not None:
            self._progress[report.nodeid] = progress

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        ran = {name: each for name, each in self._progress.items() if name not in self._skipped}
        checked = sum(each == len(_REASONS) for each in ran.values())
        terminalreporter.section("devmod-sanitize", sep="-")
        terminalreporter.line(f"{checked} of {len(ran)} tests had a launch that was checked")
        for progress, reason in enumerate(_REASONS):
            names = sorted(name for name, each in ran.items() if each == progress)
            if not names:
                continue
            shown = names
            if len(names) > _NAMES and config.get_verbosity() <= 0:
                shown = [*names[:_NAMES], f"and {len(names) - _NAMES} more (-v)"]
            terminalreporter.line(f"not checked: {len(names)}, {reason}: {', '.join(shown)}")
