"""Time the function `call` of a program: the processor's seconds of the first call, with its
compilation, and the seconds of the fastest of later ones.

    python time_call.py PROGRAM
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ports_plugin

#: The seconds of the later calls, and the most of them.
SECONDS = 3
MOST = 200


def main(program: str) -> None:
    """Print the two numbers as JSON."""
    ports_plugin.prepare()
    space: dict[str, Any] = {}
    exec(program, space)
    call = space["call"]
    start = time.process_time()
    call()
    first = time.process_time() - start
    durations: list[float] = []
    end = time.perf_counter() + SECONDS
    while not durations or (time.perf_counter() < end and len(durations) < MOST):
        begin = time.perf_counter()
        call()
        durations.append(time.perf_counter() - begin)
    print(json.dumps([first, min(durations)]))


if __name__ == "__main__":
    main(sys.argv[1])
