"""The plugin of pytest: `--devmod-sanitize` fails a test in which a check has found a fault."""

from __future__ import annotations

from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    text = "Run CUDA kernels on the simulated GPU, and fail a test in which a check finds a fault."
    parser.getgroup("devmod").addoption("--devmod-sanitize", action="store_true", help=text)
    parser.addini(
        "devmod_sanitize",
        "The checks of --devmod-sanitize, separated by commas: bounds, align, free, race, sync, init. Default: all.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give this process the simulated GPU before anything loads a driver."""
    if not config.getoption("devmod_sanitize"):
        return
    from devmod.errors import DevmodError
    from devmod_simulators import sanitize

    try:
        with sanitize(config.getini("devmod_sanitize")):
            pass
    except DevmodError as error:
        raise pytest.UsageError(f"--devmod-sanitize: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with the checks, and its fixtures."""
    if not item.config.getoption("devmod_sanitize"):
        return (yield)
    from devmod_simulators import sanitize

    with sanitize(item.config.getini("devmod_sanitize")):
        return (yield)


pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call
