"""The mark ``devices`` of pytest: a test runs on every device of this machine.
docs/find-out-what-is-wrong.md shows the use.

pytest imports this module in every session, so it is outside of `devmod_runtime`, and imports that
for the first test with the mark.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "devices(*kinds): run the test on every device here, or on those of these kinds; its argument `device` is the device",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a marked test one run for each device. A kind without a device has one run that is
    skipped, with the reason.
    """
    mark = metafunc.definition.get_closest_marker("devices")
    if mark is None:
        return
    if "device" not in metafunc.fixturenames:
        pytest.fail(
            f"{metafunc.definition.nodeid} has the mark devices, so it needs the argument `device`",
            pytrace=False,
        )
    from devmod.errors import DevmodError
    from devmod_workbench.testing import device_runs

    try:
        runs = device_runs(mark)
    except DevmodError as error:
        pytest.fail(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
    metafunc.parametrize("device", runs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a marked test that asks a bundle for a function, or for a program, on a device of a kind
    that it does not have.
    """
    try:
        yield
    except Exception as error:
        about = getattr(error, "kind", ""), getattr(error, "argument", "")
        if item.get_closest_marker("devices") is None or about not in (
            ("bundle", "device"),
            ("program", "device"),
        ):
            raise
        pytest.skip(str(error))
