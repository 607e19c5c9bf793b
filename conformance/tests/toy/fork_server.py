"""A process that has imported the kit and NumPy. It runs rows in forks of itself, each with an installed backend of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ForkServer:
    """The server, as its clients see it.

    Parameters
    ----------
    environment
        The environment variables of the server.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-P", __file__]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rows(self, kind: str, only: Sequence[str], environment: dict[str, str], output: Path) -> list[dict[str, str]]:
        """Return the results of the rows of a backend, in a new fork. The backend's output goes to a file."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"kind": kind, "only": list(only), "environment": environment, "output": str(output)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, list), f"{answer}\n{output.read_text()}"
        return answer

    def stop(self) -> None:
        """Stop the server."""
        self._process.communicate()
        assert self._process.returncode == 0


def main() -> None:
    """Answer requests until the end of standard input."""
    import numpy  # noqa: F401 - the rows import it

    import devmod_conformance
    import devmod_conformance._rows

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _run(request, writer, devmod_conformance.run)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answers.write((answer or json.dumps(f"the process of the rows ended with exit status {status}")) + "\n")
        answers.flush()


def _run(request: dict[str, Any], writer: int, run: Any) -> None:
    """Run the rows in the new process, and end it."""
    try:
        with open(request["output"], "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
        results = run(request["kind"], request["only"])
        found = [{"row": each.row.id, "outcome": each.outcome, "reason": each.reason} for each in results]
        os.write(writer, json.dumps(found).encode())
    except BaseException:  # the server must not return from here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
