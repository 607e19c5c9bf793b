"""The plugin of pytest: `--devmod-sanitize` fails a test in which a check has found a fault."""

from __future__ import annotations

from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("devmod").addoption(
        "--devmod-sanitize", nargs="?", const="all", metavar="CHECKS",
        help="Run CUDA kernels on the simulated GPU, and fail a test in which a check finds a fault, all or some of them.",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Give this process the simulated GPU before anything loads a driver."""
    if config.getoption("devmod_sanitize") is not None:
        from ._sanitize import simulated_driver

        simulated_driver()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with the checks."""
    checks = item.config.getoption("devmod_sanitize")
    if checks is None:
        return (yield)
    from ._sanitize import sanitize

    with sanitize(checks):
        return (yield)
