"""Wheels and environments for the tests that cross distributions: what users install, not the
source tree.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from environments import install, make_venv, uninstall, uv_settings  # noqa: E402
from wheels import build, distributions, is_backend  # noqa: E402

if TYPE_CHECKING:
    from browser_driver import Browser, FileServer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `distribution` or `plugin` runs once for each that is found: a later
    backend joins by itself.
    """
    for argument, names in _distribution_arguments().items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, names)


@functools.cache
def _distribution_arguments() -> dict[str, list[str]]:
    """Return the values of each argument that names distributions. The collection of each test
    asks for them.
    """
    results = {str(table["name"]): table for table in map(project, distributions())}
    return {
        "distribution": list(results),
        "code_distribution": [name for name in results if name != "devmod"],
        "speaking_distribution": [
            name
            for name in results
            if results[name].get("entry-points", {}).keys() - {"devmod.bundles", "pytest11"}
        ],
        "plugin": [name for name in results if is_backend(results[name])],
    }


@functools.cache
def project(folder: Path) -> dict[str, Any]:
    """The project table of a distribution's pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


@pytest.fixture(scope="session")
def projects() -> dict[str, dict[str, Any]]:
    """The project table of every distribution, by its name."""
    return {table["name"]: table for table in map(project, distributions())}


@pytest.fixture(scope="session")
def simulator() -> None:
    """Build the driver of the simulated GPU, or skip the test with the reason."""
    from devmod_simulators import UnavailableError, libcuda

    try:
        libcuda.build()
    except UnavailableError as error:
        pytest.skip(str(error))


def of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """Return the folder for files of the whole run, which pytest-xdist's workers share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


class Wheels(dict[str, Path]):
    """Every distribution's wheel, by its name."""

    def direct(self, name: str, *extras: str) -> str:
        """A requirement for exactly that wheel."""
        return f"{name}{'[' + ','.join(extras) + ']' if extras else ''} @ {self[name].as_uri()}"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """The wheels, built once a session, by the first of pytest-xdist's workers that needs them.

    Their folder has a new name each time: uv's cache knows a wheel by its folder, its name and its
    version, and a system of `make strangers` has the folders of the one before.
    """
    base = of_all_workers(tmp_path_factory)
    built = base / "wheels"  # the name of the folder
    with FileLock(base / "wheels.lock"):
        if not built.exists():
            new = tempfile.mkdtemp(prefix="wheels-", dir=base)
            build(Path(new))
            built.write_text(new)
    folder = Path(built.read_text())
    return Wheels(
        {
            wheel.name.split("-")[0].replace("_", "-"): wheel
            for wheel in sorted(folder.glob("*.whl"))
        }
    )


class Bytecode:
    """What Python has compiled in one environment, for those after it: a first import is mostly
    compilation.

    uv installs hard links to the files of its cache, so a wheel's file is the same inode in each
    environment. All workers use one folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def share(self, environment: Path) -> None:
        """Store the bytecode of an environment, and link into it what is stored."""
        stored: dict[str, set[str]] = {}
        for key, _, name in (each.partition(" ") for each in os.listdir(self.folder)):
            stored.setdefault(key, set()).add(name)
        for folder, _, names in os.walk(environment / "lib"):
            if os.path.basename(folder) == "__pycache__":
                continue
            compiled = Path(folder, "__pycache__")
            present = set(os.listdir(compiled)) if compiled.is_dir() else set()
            for name in names:
                if not name.endswith(".py"):
                    continue
                status = os.stat(os.path.join(folder, name))
                if status.st_nlink < 2:
                    continue  # a copy: after it is deleted, its inode may be that of another file
                key = f"{status.st_dev}-{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
                known = stored.get(key, set())
                for each in present - known:
                    if each.startswith(f"{name[:-3]}."):
                        with suppress(FileExistsError):  # another worker was earlier
                            os.link(compiled / each, self.folder / f"{key} {each}")
                for each in known - present:
                    compiled.mkdir(exist_ok=True)
                    os.link(self.folder / f"{key} {each}", compiled / each)


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Bytecode:
    return Bytecode(of_all_workers(tmp_path_factory) / "bytecode")


@functools.cache
def installer_settings() -> Mapping[str, str]:
    """pip's configuration, which takes longer to ask for than most installations."""
    return uv_settings()


class Environment:
    """A fresh environment that sees nothing of the source tree."""

    def __init__(self, folder: Path, interpreter: str, wheels: Wheels, bytecode: Bytecode) -> None:
        self.folder = folder
        self.wheels = wheels
        self.bytecode = bytecode
        (folder / "empty").mkdir(parents=True)
        self.python = make_venv(folder / "venv", python=interpreter)

    def install(self, *requirements: str) -> None:
        """Install from the built wheels and the installer's cache; the network is asked only for
        what both lack.
        """
        found = ["--find-links", str(self.wheels["devmod-core"].parent)]
        install(self.python, [*found, *requirements], cached=True, settings=installer_settings())
        self.bytecode.share(self.folder / "venv")

    def uninstall(self, *names: str) -> None:
        """Take distributions out."""
        uninstall(self.python, names)

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, code: int = 0) -> str:
        """Run its Python; gives what it printed, and checks the exit code."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if name == "DEVMOD_OPENCL_POCL_CPU" or not name.startswith(("DEVMOD_", "PYTHON"))
        }
        clean |= {"DEVMOD_CACHE_DIR": str(self.folder / "cache"), "PYTHONUTF8": "1", **(env or {})}
        process = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder / "empty",
            env=clean,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert process.returncode == code, (
            f"exit code {process.returncode}\n{process.stdout}\n{process.stderr}"
        )
        return process.stdout + process.stderr


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `devmod run`, `bench` and `verify` launch in this process, as in a frozen program: a
    process takes half a second to start.
    """
    monkeypatch.setattr(sys, "frozen", True, raising=False)


@pytest.fixture
def renders_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Render models in this process, in a folder of its own: another one imports tinygrad first."""
    from devmod.interop import tinygrad as interop

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interop, "_MANY", 1000)
    with interop.cpu():
        yield


@pytest.fixture(scope="session")
def _browsers() -> Iterator[list[Browser]]:
    results: list[Browser] = []
    yield results
    for each in results:
        each.close()


@pytest.fixture
def browser(_browsers: list[Browser]) -> Browser:
    """Chromium with WebGPU, started once a session, and anew where it is gone."""
    from browser_driver import WEBGPU, Browser

    if not _browsers or not _browsers[-1].alive:
        _browsers.append(Browser(*WEBGPU))
    return _browsers[-1]


@pytest.fixture(scope="session")
def _file_server() -> Iterator[FileServer]:
    from browser_driver import file_server

    with file_server() as made:
        yield made


@pytest.fixture
def server(_file_server: FileServer) -> FileServer:
    """A server of the npm package and of files in memory."""
    _file_server.reset()
    return _file_server


@pytest.fixture
def empty_page(browser: Browser, server: FileServer) -> Iterator[Browser]:
    """An empty page of the server: the one of the last test, if that is still open."""
    if browser.address() != server.url:
        browser.open(server.url)
    browser.messages()  # those of other tests
    yield browser
    assert browser.messages() == []


@pytest.fixture
def environment(
    tmp_path: Path, wheels: Wheels, bytecode: Bytecode
) -> Iterator[Callable[..., Environment]]:
    """Make fresh environments, each with these requirements."""
    results: list[Environment] = []

    def made(*requirements: str, interpreter: str = sys.executable) -> Environment:
        result = Environment(tmp_path / f"box{len(results) + 1}", interpreter, wheels, bytecode)
        results.append(result)
        if requirements:
            result.install(*requirements)
        return result

    yield made
    for each in results:
        bytecode.share(each.folder / "venv")


@pytest.fixture
def exporting_on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let exports of tinygrad trace on the CPU, and compile in this process."""
    from devmod.interop import tinygrad

    monkeypatch.setattr(tinygrad, "_MANY", 1000)
    with tinygrad.cpu():
        yield


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that the exports of a test compile, without those of OpenCL for devices that are
    no processors.
    """
    import devmod

    result: list[str] = []
    own = devmod.compile

    def compile_(text: str, *arguments: Any, **options: Any) -> Any:
        if "_general_k" not in text:
            result.append(text)
        return own(text, *arguments, **options)

    monkeypatch.setattr(devmod, "compile", compile_)
    return result
