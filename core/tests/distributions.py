"""Installed distributions made by hand, and new processes that look at them: what the tests of registries and discovery share."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
#: Makes a process take what lies in its folders for long settled: the time of a change cannot be set back from outside.
AN_HOUR_LATER = """
import time, types
import devmod._scan
devmod._scan.time = types.SimpleNamespace(time_ns=lambda: time.time_ns() + 3600 * 10**9)
"""
#: Prints {name: "distribution version"} of a group.
LIST = """
import json, sys
import devmod
print(json.dumps({name: each.who for name, each in devmod.registered("devmod.create").items()}))
"""
#: Without the folders of installed packages; PYTHONPATH is all there is.
PYTHON = (sys.executable, "-S", "-c")
GOOD = "def create(code, fmt, fmap, source):\n    return None\n"


def entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    """The text of an entry_points.txt."""
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items()) + "\n" for group, names in groups.items()
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
    """Put a distribution into a folder as an installer does; its metadata's folder."""
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
    """A sound plugin for `devmod.create.<kind>`."""
    module = name.replace("-", "_")
    return install(folder, name, version, {"devmod.create": {kind: f"{module}:create"}}, {module: GOOD})


def uninstall(info: Path) -> None:
    """Take a distribution's metadata away again."""
    for file in info.iterdir():
        file.unlink()
    info.rmdir()


def wheel(path: Path, name: str, version: str, groups: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]) -> Path:
    """A wheel file in the folder `path`."""
    path.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    files = {f"{module}.py": textwrap.dedent(text) for module, text in modules.items()}
    files[f"{stem}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files[f"{stem}.dist-info/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{stem}.dist-info/entry_points.txt"] = entry_points(groups)
    record = "".join(f"{file},,\n" for file in files) + f"{stem}.dist-info/RECORD,,\n"
    made = path / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{stem}.dist-info/RECORD", record)
    return made


def environment(path: Iterable[Path], cache: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that sees these folders, core, and a cache folder of the test's own."""
    made = {name: value for name, value in os.environ.items() if not name.startswith(("DEVMOD_", "PYTHON"))}
    made["PYTHONPATH"] = os.pathsep.join([*map(str, path), str(SOURCE), str(_dependencies())])
    # An imported module would leave __pycache__ in the folder, which is a change of it.
    return made | {"DEVMOD_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


@functools.cache
def _dependencies() -> Path:
    """A folder with what core needs and no distribution, so that a process sees nothing that happens to be installed here."""
    made = tempfile.TemporaryDirectory()
    atexit.register(made.cleanup)
    folder = Path(made.name)
    for name in ("importlib_metadata", "zipp", "lazy_importer", "msgpack", "pluggy"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            source = Path(found.origin)
            source = source.parent if source.name == "__init__.py" else source
            (folder / source.name).symlink_to(source)
    return folder


def run(
    program: str, path: Iterable[Path], cache: Path, extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[str, str]:
    """What a new process prints, and what it says on standard error."""
    done = subprocess.run(
        [*PYTHON, textwrap.dedent(program)],
        env=environment(path, cache, extra),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def seen(path: Iterable[Path], cache: Path, extra: Mapping[str, str] | None = None, *, before: str = AN_HOUR_LATER) -> dict[str, str]:
    """What a new process finds registered for `devmod.create`: who, by kind."""
    found: Any = json.loads(run(before + LIST, path, cache, extra)[0])
    assert isinstance(found, dict)
    return found


def folders_read(path: Iterable[Path], cache: Path, *, before: str = AN_HOUR_LATER) -> list[str]:
    """The folders, of those given, that a new process read itself instead of going by an index."""
    path = list(path)
    told = run(before + LIST, path, cache, {"DEVMOD_LOG": "debug"})[1]
    return [str(folder) for folder in path if f"devmod: read {str(folder)!r}" in told]


def indexes(cache: Path) -> list[Path]:
    """The index files in a cache folder."""
    return sorted((cache / "discovery").glob("*")) if (cache / "discovery").exists() else []


class Session:
    """A process that stays: `ask` evaluates an expression in it, `do` runs statements."""

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

    def __init__(self, path: Iterable[Path], cache: Path, *, before: str = AN_HOUR_LATER, python: str = "") -> None:
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
        """Run statements; what they raise fails the test."""
        answer = self._send("do", text)
        assert answer is None, answer

    def ask(self, text: str) -> Any:
        """The value of an expression; of what it raises, the type and the text."""
        return self._send("ask", text)

    def seen(self) -> Any:
        """As the function of this name, in this process."""
        return self.ask("{name: each.who for name, each in devmod.registered('devmod.create').items()}")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()
