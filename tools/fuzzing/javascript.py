"""The reader in JavaScript, run by node with the same bytes and compared with Python: both must
accept the same bytes.
"""

from __future__ import annotations

import atexit
import json
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import devmod
from fuzzing.readers import Breach, check_text, index_problem
from fuzzing.specification import use_bundle

SCRIPT = Path(__file__).with_name("reader.mjs")


class Node:
    """A process of node that handles one request after the other."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [program, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()

    def ask(self, kind: str, data: bytes) -> dict[str, Any]:
        """Return the answer to one input: {"ok": true}, or {"error": class, "message": text}.

        With "ok", the message has the errors for compressed bytes, which JavaScript does not read.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        head = kind.encode()
        try:
            self.process.stdin.write(struct.pack("<II", len(head), len(data)) + head + data)
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise Breach(f"node ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def node() -> Node | None:
    """Return the process, which is started once; None if node is not installed."""
    program = shutil.which("node")
    return Node(program) if program else None


def compare_bundle(data: bytes) -> None:
    """Read a bundle with all its modules in both readers."""
    process = node()
    if process is None:
        return
    mine = ""
    try:
        use_bundle(data)
    except devmod.FormatError as error:
        mine = str(error)
    theirs = process.ask("", data)
    if theirs.get("error", "FormatError") != "FormatError":
        raise Breach(f"JavaScript raises {theirs['error']}: {theirs['message'][:300]}")
    check_text(theirs["message"], "an error of JavaScript")
    # Python's problem may be in the compressed bytes.
    if mine and "ok" in theirs and theirs["message"] and not index_problem(data):
        return
    if bool(mine) == ("ok" in theirs):
        raise Breach(
            f"Python: {mine[:300] or 'accepted'}; JavaScript: {theirs['message'][:300] or 'accepted'}"
        )
