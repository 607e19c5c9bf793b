"""What all tests share: a run ends with the list of what was skipped here, and why."""

from __future__ import annotations

import os
import tempfile

import pytest

# Mesa's drivers look for such a folder, and complain in every process where a session has none (CI, a container).
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


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
