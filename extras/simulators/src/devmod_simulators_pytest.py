"""The plugin of pytest: `--devmod-sanitize` fails a test in which a check has found a fault.

Below `devmod simulate --sanitize`, pytest has the option without being asked.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

#: The variables that `devmod simulate --sanitize` sets.
_CHECKS = "DEVMOD_STANDIN_SANITIZE"
_LOG = "DEVMOD_STANDIN_SANITIZE_LOG"


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with the checks, and its fixtures."""
    if not item.config.getoption("devmod_sanitize"):
        return (yield)
    from devmod_simulators import sanitize

    with sanitize(_checks(item.config)):
        return (yield)


pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call
