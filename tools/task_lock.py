"""One task at a time on the files that it writes: another run waits, and names the one that has
them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from environments import ROOT


@contextmanager
def task_lock(task: str) -> Iterator[None]:
    """Wait until no other process runs `task` in this clone, and print who does."""
    if sys.platform == "win32":  # the tasks of the Makefile do not run there
        yield
        return
    import fcntl

    path = ROOT / "build" / f"{task}.lock"
    path.parent.mkdir(exist_ok=True)
    # The lock ends with the process. The file stays: another process may wait for it.
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            print(f"{task}: waits for {owner}, which writes the same files", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()}, make {task} since {time.strftime('%H:%M:%S')}\n")
        file.flush()
        yield
