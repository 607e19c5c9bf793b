"""Build the pages of docs/ into build/docs, and print each phase with its time.

python tools/build_pages.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

from environments import ROOT
from task_lock import task_lock

#: The options of Sphinx. Any warning fails.
OPTIONS = ("--no-color", "--fail-on-warning", "--keep-going", "-j", "auto")
#: Where it keeps what it has read, the sources, and the pages.
_FOLDERS = ("-d", "build/doctrees", "docs", "build/docs")
#: The lines of Sphinx that begin a phase, which may take a minute. The output for catalogues of
#: messages, of which there are none, has no share.
_PHASE = re.compile(
    r"(Running Sphinx|reading sources|pickling environment|preparing documents|copying assets|writing output(?=\.+ \[)|generating indices)"
)


def phases(lines: Iterable[str]) -> Iterator[str]:
    """Yield each phase of Sphinx's output once."""
    before = ""
    for line in lines:
        match = _PHASE.match(line)
        if match and match[1] != before:
            before = match[1]
            yield before


def main() -> int:
    """Build, and return the exit status of Sphinx."""
    with task_lock("docs"):
        shutil.rmtree(ROOT / "build" / "docs", ignore_errors=True)
        begin = time.monotonic()
        command = [sys.executable, "-m", "sphinx", *OPTIONS, *_FOLDERS]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for phase in phases(process.stdout):
                print(f"docs: {time.monotonic() - begin:3.0f} s  {phase}", flush=True)
    if process.returncode == 0:
        print("build/docs/index.html")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
