"""Run a file of tests, and write which lines each test executes, and its seconds.

    python tools/mutating/executed.py FOLDER RESULT pytest's arguments …

`FOLDER` is that of `lines.py`. A test's lines are those of all its processes. Lines that run before
the first test, such as an import's, are those of the file.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

#: The key of the lines that no test of the file alone executes.
SHARED = ""


class Recorder:
    """A plugin of pytest that reads the marks of the lines after each test."""

    def __init__(self, folder: Path) -> None:
        self._lines = folder / "lines"
        self.tests: dict[str, tuple[float, list[int]]] = {}

    def take(self) -> list[int]:
        """Return the marked places, and remove the marks."""
        with self._lines.open("r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(bytes(len(data)))
        return [found.start() for found in re.finditer(b"\1", data)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the lines and the seconds of a test with its fixtures."""
        shared = self.tests.setdefault(SHARED, (0.0, []))[1]
        shared += self.take()
        before = sys.gettrace()
        start = time.monotonic()
        result = yield
        self.tests[item.nodeid] = (time.monotonic() - start, self.take())
        sys.settrace(before)  # a test that sets its own leaves none
        return result


def main(folder: str, result: str, *arguments: str) -> Any:
    """Run the tests, and return pytest's exit code."""
    recorder = Recorder(Path(folder))
    recorder.take()
    code = pytest.main(list(arguments), plugins=[recorder])
    Path(result).write_text(json.dumps(recorder.tests), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.path.pop(0)  # tests do not see this folder
    sys.exit(main(*sys.argv[1:]))
