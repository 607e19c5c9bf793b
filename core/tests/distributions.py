"""Functions that write installed distributions and run processes with them, for the tests of the
registry and discovery.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forked import SOURCE, dependencies, python

#: Code that sets the clock of a process one hour ahead, so its folders are old. Change times of
#: files cannot be set.
AN_HOUR_LATER = """
import time, types
import devmod._plugins.scan, devmod._plugins.discovery
devmod._plugins.scan.time = types.SimpleNamespace(time_ns=lambda: time.time_ns() + 3600 * 10**9)
devmod._plugins.discovery.time = devmod._plugins.scan.time
"""


def stop_clock(folder: Path) -> str:
    """Return code that stops the clock of a process one second after the last change of a folder,
    however late it starts.
    """
    return f"""
import types
import devmod._plugins.scan, devmod._plugins.discovery
devmod._plugins.scan.time = devmod._plugins.discovery.time = types.SimpleNamespace(time_ns=lambda: {folder.stat().st_ctime_ns + 10**9})
"""


#: Code that prints {name: "distribution version"} of the creators.
LIST = """
import json, sys
import devmod
found = devmod.registered("devmod.create").items()
print(json.dumps({name: each.provider for name, each in found if each.distribution != "devmod-core"}))
"""
#: Python without the folders of installed packages: sys.path has PYTHONPATH and the standard
#: library.
PYTHON = (sys.executable, "-S", "-c")
GOOD = "def create(code, fmt, fmap, source):\n    return None\n"


def entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of an entry_points.txt."""
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items()) + "\n"
        for group, names in groups.items()
    )


def install(
    folder: Path,
    name: str,
    version: str = "1.0",
    groups: Mapping[str, Mapping[str, str]] | None = None,
    modules: Mapping[str, str] | None = None,
    *,
    kind: str = "dist-info",
) -> Path:
    """Write a distribution into a folder, as an installer does. Return its metadata folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_")
    info = folder / (f"{stem}-{version}.dist-info" if kind == "dist-info" else f"{stem}.egg-info")
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nA test.\n"
    (info / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(metadata)
    if groups:
        (info / "entry_points.txt").write_text(entry_points(groups))
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text))
    return info


def npu(folder: Path, version: str = "1.0", name: str = "devmod-npu", kind: str = "npu") -> Path:
    """Install a valid plugin for `devmod.create.<kind>`."""
    module = name.replace("-", "_")
    return install(
        folder, name, version, {"devmod.create": {kind: f"{module}:create"}}, {module: GOOD}
    )


def uninstall(info: Path) -> None:
    """Remove a distribution's metadata."""
    for file in info.iterdir():
        file.unlink()
    info.rmdir()


def wheel(
    path: Path,
    name: str,
    version: str,
    groups: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
) -> Path:
    """Write a wheel into the folder `path`."""
    path.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    files = {f"{module}.py": textwrap.dedent(text) for module, text in modules.items()}
    files[f"{stem}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    files[f"{stem}.dist-info/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{stem}.dist-info/entry_points.txt"] = entry_points(groups)
    record = "".join(f"{file},,\n" for file in files) + f"{stem}.dist-info/RECORD,,\n"
    result = path / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(result, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{stem}.dist-info/RECORD", record)
    return result


def environment(
    path: Iterable[Path], cache: Path, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a process with these folders, core, and the cache folder
    `cache`.
    """
    result = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTHON"))
    }
    result["PYTHONPATH"] = os.pathsep.join([*map(str, path), str(SOURCE), str(dependencies())])
    # __pycache__ of an imported module would change the folder.
    return (
        result
        | {"DEVMOD_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
        | dict(extra or {})
    )


def run(
    program: str,
    path: Iterable[Path],
    cache: Path,
    extra: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[str, str]:
    """Return the output and the standard error of a process that has looked up nothing."""
    done = python(
        "-S", "-c", textwrap.dedent(program), env=environment(path, cache, extra), cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def seen(
    path: Iterable[Path],
    cache: Path,
    extra: Mapping[str, str] | None = None,
    *,
    before: str = AN_HOUR_LATER,
) -> dict[str, str]:
    """Return the providers by kind that a new process finds for `devmod.create`, without core's
    own.
    """
    found: Any = json.loads(run(before + LIST, path, cache, extra)[0])
    assert isinstance(found, dict)
    return found


def folders_read(path: Iterable[Path], cache: Path, *, before: str = AN_HOUR_LATER) -> list[str]:
    """Return the given folders that a new process reads without an index."""
    path = list(path)
    log = run(before + LIST, path, cache, {"DEVMOD_LOG": "debug"})[1]
    return [str(folder) for folder in path if f"devmod: read {str(folder)!r}" in log]


def indexes(cache: Path) -> list[Path]:
    """Return the index files in a cache folder."""
    return sorted((cache / "discovery").glob("*")) if (cache / "discovery").exists() else []


class Session:
    """A running process: `ask` evaluates an expression in it, `do` runs statements."""

    LOOP = """
import json, sys
names = {}
for line in sys.stdin:
    how, text = json.loads(line)
    try:
        answer = (eval if how == "ask" else exec)(text, names)
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""

    def __init__(
        self, path: Iterable[Path], cache: Path, *, before: str = AN_HOUR_LATER, python: str = ""
    ) -> None:
        self.process = subprocess.Popen(
            [*((python, "-c") if python else PYTHON), self.LOOP],
            env=environment(path, cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.do(before + "import devmod")

    def _send(self, how: str, text: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([how, textwrap.dedent(text)]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def do(self, text: str) -> None:
        """Run statements. An exception fails the test."""
        answer = self._send("do", text)
        assert answer is None, answer

    def ask(self, text: str) -> Any:
        """Return the value of an expression, or the type and the text of its exception."""
        return self._send("ask", text)

    def seen(self) -> Any:
        """Return the result of the function `seen` in this process."""
        return self.ask(
            "{name: each.provider for name, each in devmod.registered('devmod.create').items() if each.distribution != 'devmod-core'}"
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()
