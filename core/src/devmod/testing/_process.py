"""New processes that look at a backend: what a row asks there, and what comes back. `_probe` is the other side."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from devmod import _registry
from devmod._formats import raw
from devmod.testing._case import Conformance, Sample
from devmod.testing._row import Skip, must

#: The first thing that the new process does: it looks for modules where this one does.
_BEGIN = "import json,sys;r=json.loads(sys.stdin.buffer.readline());sys.path[:]=r['path'];from {} import main;main(r)"


def beginning(module: str) -> list[str]:
    """The command of a new process that hands `main` of a module the request, a line of JSON with the key "path"."""
    return [sys.executable, "-P", "-c", _BEGIN.format(module)]


def path_here() -> list[str]:
    """Where this process looks for modules; the folder that it is in is not that of the other."""
    return [os.path.abspath(each) for each in sys.path]


def ending(code: int) -> str:
    """How a process ended, by its exit status."""
    return f"ends with signal {-code}" if code < 0 else f"ends with exit status {code}"


class Answer:
    """What a process did.

    Attributes
    ----------
    steps : list
        What it told of before it ended, a JSON value each; the last is its answer where it came to one.
    code : int
        Its exit status; negative: the signal that ended it.
    said : str
        What it wrote to standard error, and to standard output beside the answer.
    timed_out : bool
        Whether it was ended because it took too long.
    """

    def __init__(self, steps: list[Any], code: int, said: str, timed_out: bool) -> None:
        self.steps = steps
        self.code = code
        self.said = said
        self.timed_out = timed_out

    @property
    def end(self) -> str:
        """How it ended, for a message."""
        if self.timed_out:
            return "does not end"
        last = self.said.strip().splitlines()[-1:] or ["it says nothing"]
        return ending(self.code) + (f": {last[0]}" if self.code >= 0 else "")

    @property
    def value(self) -> Any:
        """Its answer; a failure of the row where it came to none."""
        must(self.code == 0 and not self.timed_out and self.steps, f"a process that uses the backend {self.end}")
        return self.steps[-1]


def probe(
    case: Conformance,
    task: str,
    samples: Iterable[Sample] = (),
    *,
    hide: bool = False,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    **more: Any,
) -> Answer:
    """Have a new process do a task of `_probe`.

    Parameters
    ----------
    case
        The backend.
    task
        A function of `_probe`.
    samples
        The payloads that it needs.
    hide
        Whether the driver is hidden from it.
    environment
        Variables that it has beside those of this process.
    folder
        Its working folder.
    more
        What else the task takes; it goes as JSON.
    """
    claim = _registry.registered("devmod.create").get(case.kind)
    if claim is None or not claim.distribution:
        raise Skip("the backend is registered in this process alone, and this row looks at a new one")
    if getattr(sys, "frozen", False):
        raise Skip("this program is frozen, and cannot begin a new Python")
    request = {
        "path": path_here(),
        "task": task,
        "kind": case.kind,
        "modules": list(case.driver_modules),
        "libraries": list(case.driver_libraries),
        "hide": hide,
        "samples": [_portable(sample) for sample in samples],
        **more,
    }
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", **(environment or {})}
    env.pop("DEVMOD_COMPILE_FORCE_FALLBACK", None)
    try:
        done = subprocess.run(  # noqa: S603 - this very Python
            beginning("devmod.testing._probe"),
            input=json.dumps(request).encode() + b"\n",
            capture_output=True,
            env=env,
            cwd=folder,
            timeout=case.patience,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Answer(_steps(late.stdout or b""), 0, (late.stderr or b"").decode("utf-8", "replace"), True)
    return Answer(_steps(done.stdout), done.returncode, done.stderr.decode("utf-8", "replace"), False)


def _steps(output: bytes) -> list[Any]:
    """The lines that the process wrote; one that its end cut off does not count."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def _portable(sample: Sample) -> dict[str, Any]:
    """A payload as JSON; `_probe.Payload` reads it."""
    code = sample.code
    return {
        "code": {name: _text(each) for name, each in code.items()} if isinstance(code, Mapping) else _text(code),
        "fmt": sample.fmt,
        "functions": json.dumps({"func_info": {name: raw._to_json(info) for name, info in sample.fmap.items()}}),
        "source": {name: each if isinstance(each, str) else [_text(each)] for name, each in sample.source.items()},
    }


def _text(data: bytes | memoryview) -> str:
    return base64.b64encode(data).decode()
