"""Python processes that are forked from one with the imports of most tests: a new interpreter takes
0.02 to 0.4 s of a processor before it runs the first line of a test, a fork 0.01 s. pytest's
`pythonpath` has this folder.

A fork has looked up nothing, as a new process. It has more modules.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The folder of core's package.
SOURCE = Path(__file__).parents[1] / "src"
#: The packages that the first process imports with all their modules, and what these import late.
_PACKAGES = "devmod devmod_runtime devmod_workbench"
_LATE = (
    "click ctypes email.message hashlib importlib_metadata._adapters json msgpack socket traceback"
)
#: Those with the installed packages too, for commands and for rows of the conformance kit.
_INSTALLED = "devmod_conformance"
_INSTALLED_LATE = "numpy rich.table"
#: The first process reads a line of JSON for each fork, which it answers with the exit status.
_SERVER = """
import atexit, contextlib, gc, importlib, json, os, pkgutil, runpy, sys, types
base = sys.path[1:]
sys.path[:0] = PATH
names = LATE.split()
for package in PACKAGES.split():
    names.append(package)
    found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    names += [each.name for each in found if not each.name.endswith(".__main__")]
for name in names:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
sys.path[:] = base
gc.freeze()
for line in open(0, "rb", buffering=0, closefd=False):
    child = os.fork()
    if not child:
        break
    os.write(1, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    os._exit(0)
request = json.loads(line)
for number, path in enumerate(request["files"]):
    os.dup2(os.open(path, os.O_RDWR), number)
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["folder"])
sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
sys.path_importer_cache.clear()
paths = os.environ.get("PYTHONPATH")
how, text, *words = request["arguments"]
sys.path[:] = [os.getcwd() if how == "-m" else "", *(paths.split(os.pathsep) if paths else ()), *base]
sys.argv[:] = [how, *words]
main = sys.modules["__main__"] = types.ModuleType("__main__")
status = 1
try:
    if how == "-m":
        runpy.run_module(text, run_name="__main__", alter_sys=True)
    else:
        exec(compile(text, "<string>", "exec"), main.__dict__)
    status = 0
except SystemExit as error:
    status = error.code or 0
    assert isinstance(status, int), status
except Exception as error:
    sys.excepthook(type(error), error, error.__traceback__.tb_next)
# An end that takes each module apart is as long as most programs here.
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
"""


@functools.cache
def dependencies() -> Path:
    """Return a folder with core's dependencies, devmod-runtime and devmod-workbench, without
    metadata: a process discovers no distribution of this environment.
    """
    result = tempfile.TemporaryDirectory()
    atexit.register(result.cleanup)
    folder = Path(result.name)
    for name in (
        "importlib_metadata",
        "zipp",
        "lazy_importer",
        "msgpack",
        "pluggy",
        "devmod_runtime",
        "devmod_workbench",
        "click",
    ):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            source = Path(found.origin)
            source = source.parent if source.name == "__init__.py" else source
            (folder / source.name).symlink_to(source)
    return folder


@functools.cache
def _server(*flags: str) -> subprocess.Popen[bytes]:
    path: list[str] = []
    packages, late = f"{_PACKAGES} {_INSTALLED}", f"{_LATE} {_INSTALLED_LATE}"
    if "-S" in flags:
        path, packages, late = [str(SOURCE), str(dependencies())], _PACKAGES, _LATE
    start = f"PATH, PACKAGES, LATE = {path, packages, late!r}"
    command = [sys.executable, *flags, "-c", start + _SERVER]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    server = subprocess.Popen(command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)
    return server


def python(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    input: str = "",
    cwd: Path | None = None,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run Python as `subprocess.run` does: flags, and "-c" with a program or "-m" with a module.

    A new process runs it where there are no forks, and with other flags than -S.
    """
    env = dict(os.environ if env is None else env)
    place = next(at for at, each in enumerate(arguments) if each in ("-c", "-m"))
    if not hasattr(os, "fork") or arguments[:place] not in ((), ("-S",)):
        how: Any = {"env": env, "input": input, "cwd": cwd, "timeout": timeout}
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, **how)
    server = _server(*arguments[:place])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("input", "output", "error")]
        for each in files:
            each.write_text(input if each.name == "input" else "")
        request = {
            "arguments": arguments[place:],
            "environment": env,
            "folder": str(cwd or Path.cwd()),
            "files": [*map(str, files)],
        }
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            server.kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired([*arguments], timeout)
        status = int(server.stdout.readline())
        _, out, err = (each.read_text() for each in files)
    return subprocess.CompletedProcess([*arguments], status, out, err)
