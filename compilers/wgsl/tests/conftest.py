"""Fixtures for the reader's tests. They hide the installed runtimes, so `devmod.compile` returns
fallbacks.
"""

from __future__ import annotations

from alone import no_installed_runtimes as no_installed_runtimes
