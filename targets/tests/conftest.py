"""Fixtures for the compilers' tests. They hide the installed runtimes, so `devmod.compile` returns
fallbacks.
"""

from __future__ import annotations

import pytest
from alone import no_installed_runtimes as no_installed_runtimes
from alone import register as register
from build_project import InProcess


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds compile in this process, in a test that is not about workers: each would import
    its compilers anew.
    """
    monkeypatch.setattr("devmod_targets.build.pool.Pool", InProcess)
