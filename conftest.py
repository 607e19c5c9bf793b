"""What all tests share: the user's settings are left in peace, and a run ends with the list of what was skipped here, and why."""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# A deadline depends on the load of the machine, and random examples differ from run to run. --hypothesis-profile=default has both.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

# Mesa's drivers look for such a folder, and complain in every process where a session has none (CI, a container).
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


# The tests start thousands of Python processes. Without cached bytecode, such a process spends up to half of its time compiling imports:
# NumPy takes 0.30 s instead of 0.19 s, the emulator of RDNA3 1.37 s instead of 0.42 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


#: What a person or a CI service may have set, and no test may see. (Which device and which driver is tested is theirs to say.)
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


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache of the run's own, and nobody's settings."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "devmod-cache"))
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


def pytest_collection_finish() -> None:
    """Leave out what pytest has collected when tests collect garbage: each time, that took 0.14 s more."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests by their reason."""
    reasons: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        where, _, why = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, str(report.longrepr))
        name = report.nodeid or where
        reasons.setdefault(why.removeprefix("Skipped: "), []).append(name)
    if not reasons:
        return
    terminalreporter.section("not run here, and why")
    for why, names in sorted(reasons.items()):
        terminalreporter.write_line(f"{len(names)} × {why}")
        for name in names[:3]:
            terminalreporter.write_line(f"      {name}")
        if len(names) > 3:
            terminalreporter.write_line(f"      and {len(names) - 3} more")
