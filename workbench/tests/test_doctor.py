"""`devmod.doctor` on sound machines and on broken ones: no driver, a wrong driver, no wheel,
versions that differ, no cache, two plugins.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from candidates import Register, Runtime
from distributions import PYTHON, environment, install
from each_case import refusal
from forked import python

import devmod
from devmod.targets import KINDS
from devmod_workbench._cli import main

NPU = {
    "devmod.create": {"npu": "devmod_npu:create"},
    "devmod.device": {"npu": "devmod_npu:devices"},
}
DEVICES = """
import os
import devmod
def create(code, fmt, fmap, source): ...
def devices():
    {}
class Npu(devmod.Device):
    kind, index, name, driver_version = "npu", 0, "NPU 7", "2.1"
Npu.__abstractmethods__ = frozenset()
"""


def checked(report: devmod.Report, kind: str) -> list[tuple[str, str, str]]:
    return [(each.part, each.state, each.text) for each in report.checks if each.kind == kind]


def doctor(
    site: Path, cache: Path, *arguments: object, extra: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run the command with the distributions of a folder, which alone are visible beside core."""
    env = {**os.environ, "DEVMOD_CACHE_DIR": str(cache), "PYTHONPATH": str(site), **(extra or {})}
    env["DEVMOD_PLUGINS_ALLOW"] = ",".join(
        [
            "devmod-core",
            *(each.name.partition("-1.0")[0].replace("_", "-") for each in site.glob("*-1.0.*")),
        ]
    )
    done = python("-m", "devmod", "doctor", *map(str, arguments), env=env)
    assert done.stderr == ""
    return done.returncode, done.stdout


def output_of(program: str, env: Mapping[str, str]) -> str:
    """Return what a program prints that sees the packages of an environment alone."""
    done = python("-S", "-c", program, env=env)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


def npu(site: Path, body: str, name: str = "devmod-npu") -> None:
    install(site, name, groups=NPU, modules={"devmod_npu": DEVICES.format(body)})


def test_a_healthy_machine_has_a_line_for_each_kind(site: Path, tmp_path: Path) -> None:
    npu(site, "return [Npu()]")
    code, out = doctor(site, tmp_path / "cache")
    lines = out.splitlines()
    system = f"Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    assert (
        lines[0]
        == f"devmod   ok             devmod-core {devmod.__version__}, {system}; caches in {tmp_path / 'cache'}"
    )
    assert (code, lines[-2:]) == (
        0,
        ["npu      ok             devmod-npu 1.0; NPU 7 (driver 2.1)", "No problems."],
    )
    assert (
        lines[1:3]
        == [
            "cuda     not installed",
            "           runtime: the runtime devmod-cuda 0.1.0 is excluded by DEVMOD_PLUGINS_ALLOW",
        ]
        or lines[1] == "cuda     not installed"
    )


def test_a_kind_that_is_named_must_be_installed(tmp_path: Path) -> None:
    program = "import devmod\nprint(devmod.doctor(['opencl']))\nprint(devmod.doctor().problems)"
    assert output_of(program, environment([], tmp_path)) == (
        "opencl  problem\n          runtime: the OpenCL runtime is not installed. To add it: pip install devmod-opencl\n1 problem.\n()\n"
    )


def test_no_driver_is_the_drivers_own_sentence(site: Path, tmp_path: Path) -> None:
    text = "no NPU: libnpu.so.2 is not found in /opt/npu. Install it: apt install npu-driver"
    npu(site, f"raise devmod.DeviceNotFoundError({text!r})")
    code, out = doctor(site, tmp_path / "cache", "npu")
    assert (code, out) == (
        1,
        f"npu  no device      devmod-npu 1.0\n       devices: {text}\n1 problem.\n",
    )


LOOK = f""". To see where: {Path(sys.executable).name} -X faulthandler -c "import devmod; devmod.device('npu')\""""


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("os._exit(3)", "listing them ends the process with exit status 3" + LOOK),
        ("os.kill(os.getpid(), 11)", "listing them ends the process with signal 11" + LOOK),
        ("import time; time.sleep(100)", "listing them takes longer than 1 s" + LOOK),
        (
            "raise OSError('wrong ELF class')",
            "devmod.device.npu of devmod-npu 1.0 failed: OSError: wrong ELF class",
        ),
        (
            "return [3]",
            "devmod.device.npu is broken: devmod-npu 1.0 returned int, not a sequence of devmod.Device. Report it to its publisher, or uninstall it",
        ),
    ],
)
def test_a_wrong_driver_is_a_problem_and_the_other_kinds_are_checked(
    site: Path, tmp_path: Path, body: str, end: str
) -> None:
    npu(site, body)
    code, out = doctor(
        site, tmp_path / "cache", "npu", "cuda", "--timeout", 1 if "sleep" in body else 60, "--json"
    )
    report = json.loads(out)
    found = [(each["kind"], each["part"], each["state"], each["text"]) for each in report["checks"]]
    assert (code, report["problems"]) == (1, 2)
    assert ("npu", "devices", "problem", end) in found
    assert found[-1][:3] == ("cuda", "runtime", "problem")


def test_two_plugins_for_a_kind_are_a_problem(site: Path, tmp_path: Path) -> None:
    npu(site, "return [Npu()]")
    npu(site, "return [Npu()]", "devmod-rival")
    code, out = doctor(site, tmp_path / "cache", "npu")
    assert code == 1
    assert out in {
        f"npu  problem\n       runtime: devmod.create.npu is claimed by {one} 1.0 and {other} 1.0. Uninstall one, or choose one by the "
        f"environment variable: DEVMOD_PLUGINS_CHOOSE={one} or DEVMOD_PLUGINS_CHOOSE={other}\n1 problem.\n"
        for one, other in (("devmod-npu", "devmod-rival"), ("devmod-rival", "devmod-npu"))
    }
    code, out = doctor(
        site, tmp_path / "cache", "npu", extra={"DEVMOD_PLUGINS_CHOOSE": "devmod-rival"}
    )
    assert (code, out) == (
        0,
        "npu  ok             devmod-rival 1.0; NPU 7 (driver 2.1)\nNo problems.\n",
    )


def test_versions_that_differ_are_a_problem(site: Path, tmp_path: Path) -> None:
    install(site, "devmod-runtime", "9.9")
    program = "import devmod\nprint(devmod.doctor().checks[0].text)"
    env = environment([site], tmp_path / "cache")
    assert output_of(program, env) == (
        f"devmod-core is {devmod.__version__}, and devmod-runtime is 9.9; they need one version. To mend it: "
        "pip install --upgrade devmod-core devmod-runtime\n"
    )
    npu(site, "return [Npu()]")
    program = "import devmod\nreport = devmod.doctor(['npu', 'npu'])\nprint([each[:3] for each in report.checks])"
    checks = "('devmod', 'versions', 'problem'), ('npu', 'runtime', 'ok'), ('npu', 'devices', 'ok')"  # each kind once
    assert output_of(program, env) == f"[{checks}]\n"


def test_a_machine_without_compilers_has_the_command_that_installs_them(tmp_path: Path) -> None:
    program = "import devmod\nprint(devmod.doctor().checks[0].state)\nprint(devmod.doctor().checks[0].text)"
    state, text = output_of(program, environment([], tmp_path)).splitlines()
    assert state == "ok"
    assert text.endswith(
        '; no compilers, which a machine that only runs does not need. To add them: pip install "devmod-core[build]"'
    )


@pytest.mark.parametrize("problem", ["a file", "other users", "read-only"])
def test_a_cache_folder_that_cannot_be_used_is_a_problem(tmp_path: Path, problem: str) -> None:
    folder = tmp_path / "cache"
    if problem == "a file":
        folder.write_text("")
        why = f"[Errno 17] File exists: {str(folder)!r}"
    elif problem == "other users":
        folder.mkdir()
        folder.chmod(0o777)
        why = (
            f"other users can write to {str(folder)!r} (mode 0777); to mend it: chmod go-w {folder}"
        )
    else:
        folder = Path("/sys/kernel/devmod")  # root cannot write there either
        if not folder.parent.is_dir():
            pytest.skip("this system has no such folder")
        why = "[Errno "
    program = "import devmod\n(found,) = (each for each in devmod.doctor().checks if each.part == 'caches')\nprint(found.state)\nprint(found.text)"
    state, text = output_of(program, environment([], folder)).splitlines()
    assert state == "problem"
    assert text.startswith(
        f"{str(folder)!r} is not used, so every process reads and compiles again: {why}"
    )
    assert text.endswith(". To use another folder: export DEVMOD_CACHE_DIR=$(mktemp -d)")


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a file's size is one of POSIX")
def test_a_cache_folder_without_space_is_a_problem(tmp_path: Path) -> None:
    program = "import devmod, resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint(devmod.doctor().checks[1].text)"
    output = subprocess.check_output([*PYTHON, program], env=environment([], tmp_path), text=True)
    assert output.startswith(
        f"{str(tmp_path)!r} is not used, so every process reads and compiles again: [Errno 27] File too large. To"
    )


def test_plugins_take_part_by_a_hook(register: Register) -> None:
    from pluggy import HookimplMarker

    class Plugin:
        rows: Any = [
            ("driver", "ok", "libnpu.so.2 in /opt/npu"),
            ("licence", "problem", "it has ended; renew it"),
        ]

        @HookimplMarker("devmod")
        def devmod_doctor(self, kind: str) -> Any:
            return self.rows

    Runtime(register, "npu", "x")
    register("devmod.hooks", "devmod_doctor.npu", Plugin())
    assert checked(devmod.doctor("npu"), "npu")[-2:] == Plugin.rows
    Plugin.rows = [("driver", "good", "?")]
    assert checked(devmod.doctor(["npu"]), "npu")[-1] == (
        "hook",
        "problem",
        "devmod_doctor in this process: it returned the state 'good'; a state is one of ok, not installed, no device, problem",
    )
    for Plugin.rows, problem in (
        (3, "TypeError: 'int' object is not iterable"),
        (
            [("driver", "ok")],
            "it returned the row ('driver', 'ok'); expected (part, state, text), each a str",
        ),
        (
            [("driver", "ok", b"\x1b[2J")],
            "it returned the row ('driver', 'ok', b'\\x1b[2J'); expected (part, state, text), each a str",
        ),
    ):
        assert checked(devmod.doctor(["npu"]), "npu")[-1] == (
            "hook",
            "problem",
            f"devmod_doctor in this process: {problem}",
        )


HOOK = """
import os
from pluggy import HookimplMarker
@HookimplMarker("devmod")
def devmod_doctor(kind):
    {}
"""


def test_a_hook_that_fails_loses_no_check_of_another(site: Path, tmp_path: Path) -> None:
    npu(site, "return [Npu()]")
    endings = {
        "abort": (
            "os.kill(os.getpid(), 11)",
            "ends the process with signal 11. DEVMOD_PLUGINS_DENY with the name of its distribution excludes it",
        ),
        "good": ("return [('licence', 'problem', 'renew \\x1b[2J it')]", ""),
        "raise": ("raise ValueError('no\\x1b[31m licence')", "ValueError: no\\x1b[31m licence"),
    }
    for name, (body, _) in endings.items():
        hook = {
            "devmod.hooks": {"devmod_doctor.npu": f"npu_{name}", "devmod_doctor": f"npu_{name}"}
        }  # one plugin, called once
        install(site, f"devmod-{name}", groups=hook, modules={f"npu_{name}": HOOK.format(body)})
    code, out = doctor(site, tmp_path / "cache", "npu")
    head, *lines, end = out.splitlines()
    assert (code, head, end) == (
        1,
        "npu  problem        devmod-npu 1.0; NPU 7 (driver 2.1)",
        "3 problems.",
    )
    assert sorted(lines) == [
        f"       hook: devmod_doctor of devmod-abort 1.0 {endings['abort'][1]}",
        f"       hook: devmod_doctor of devmod-raise 1.0: {endings['raise'][1]}",
        "       licence: renew \\x1b[2J it",
    ]


def test_a_hook_of_this_process_and_one_of_a_distribution_of_its_kind(register: Register) -> None:
    from pluggy import HookimplMarker

    class Plugin:
        @HookimplMarker("devmod")
        def devmod_doctor(self, kind: str) -> Any:
            return [("licence", "ok", kind)]

    register("devmod.hooks", "devmod_doctor.cuda", Plugin())
    found = checked(devmod.doctor(["cuda"]), "cuda")
    assert ("licence", "ok", "cuda") in found
    assert "compiler" in [part for part, *_ in found]


def test_the_command_names_the_options_of_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Report:
        problems = ()

        def __str__(self) -> str:
            return (
                "opencl  not installed\n  compiler: either install it, or declare the kernels: "
                "devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})\n  licence: name= block=64"
            )

    monkeypatch.setattr(devmod, "doctor", lambda *_, **__: Report(), raising=False)
    assert main(["doctor"]) == 0
    # The last line is a plugin's.
    assert capsys.readouterr().out == (
        "opencl  not installed\n  compiler: either install it, or declare the kernels: "
        "devmod compile … --function 'NAME(TYPE, ...)'\n  licence: name= block=64\n"
    )


def test_an_unknown_kind_is_an_error() -> None:
    assert (
        refusal(devmod.ArgumentError, devmod.doctor, ["opncl"])
        == f"doctor: no installed distribution has the kind 'opncl'. Did you mean 'opencl'? The kinds: {', '.join(KINDS)}"
    )
    # The nearest kind, webgpu, is not what is meant.
    for kind in ("gpu", "GPU", "gpu:0"):
        assert (
            refusal(devmod.ArgumentError, devmod.doctor, [kind])
            == f"doctor: no installed distribution has the kind {kind!r}, since gpu is a word for devices of several kinds; choose cuda (NVIDIA), rocm (AMD), metal (Apple), or vulkan, opencl or webgpu. The kinds: {', '.join(KINDS)}"
        )
    assert refusal(devmod.ArgumentError, devmod.doctor, ["foo"]).endswith(
        f"has the kind 'foo'. The kinds: {', '.join(KINDS)}"
    )


def test_a_machine_without_a_runtime_is_told_so(tmp_path: Path) -> None:
    code, out = doctor(tmp_path / "site", tmp_path / "cache")
    assert (code, out.splitlines()[-1]) == (
        0,
        "No runtime is installed: files can be compiled and inspected here, and no function runs. To add one, that of OpenCL with a device "
        'on the processor: pip install "devmod[opencl,pocl]"',
    )
