"""Fixtures for the compilers' tests. They hide the installed runtimes, so `devmod.compile` returns
fallbacks.
"""

from __future__ import annotations

import pytest
from alone import no_installed_runtimes as no_installed_runtimes
from alone import register as register


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds compile in this process: each worker would import its compilers anew.

    The tests of workers have them.
    """
    monkeypatch.setattr("devmod_targets.build.pool.can_start_python", lambda: False)
