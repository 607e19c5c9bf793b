"""A plugin of pytest for tools/peers_simulated.py: write to a log which test runs and how it ended.

A test that the log has is not run again. So the next process goes on after one that ended.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LOG = Path(os.environ["DEVMOD_PEERS_LOG"])


def write(test: str, state: str, text: str = "") -> None:
    """Append a line to the log."""
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "state": state, "text": text}) + "\n")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out the tests that have begun."""
    begun = {json.loads(line)["test"] for line in LOG.read_text(encoding="utf-8").splitlines()}
    left = []
    for item in items:
        if item.nodeid not in begun:
            left.append(item)
    items[:] = left


def pytest_collectreport(report: Any) -> None:
    """Count a file that cannot be imported as a test that failed."""
    if report.failed:
        write(report.nodeid, "failed", report.longreprtext)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write that a test begins."""
    write(nodeid, "begun")


def pytest_runtest_logreport(report: Any) -> None:
    """Write how a test, its set-up or its teardown has ended."""
    if report.failed:
        write(report.nodeid, "failed", report.longreprtext)
    elif report.skipped:
        write(report.nodeid, "skipped", str(report.longrepr))
    elif report.when == "call":
        write(report.nodeid, "passed")


def pytest_sessionfinish() -> None:
    """Write that no test is left."""
    write("", "finished")
