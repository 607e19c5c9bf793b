"""The table of docs/support.md with the wheels and extras that pip can install, and its tool."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from each_case import refusal, some  # noqa: E402 - core/tests

import installable  # noqa: E402
from environments import InstallError  # noqa: E402

PROJECTS = installable.projects()
LINUX, AARCH64, MAC, INTEL_MAC, WINDOWS = installable.PLATFORMS
#: What uv 0.13.9 printed.
OTHER_PLATFORM = """\
error: No solution found when resolving dependencies
  cause: Because all versions of pocl-binary-distribution have no wheels with a matching platform tag (e.g., `win_amd64`) and pyopencl[pocl]>=2026.1.4 depends on pocl-binary-distribution, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `pyopencl` because building from source is disabled for all packages (i.e., with `--no-build`)

hint: Wheels are available for `pocl-binary-distribution` (v3.0) on the following platforms: `manylinux_2_17_x86_64`, `manylinux2014_x86_64`
"""
OTHER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because slangpy==0.42.0 has no wheels with a matching Python ABI tag (e.g., `cp314`) and you require slangpy==0.42.0, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.14 (`cp314`), but we only found wheels for `slangpy` (v0.42.0) with the following Python ABI tags: `cp39`, `cp310`, `cp311`, `cp312`, `cp313`
"""
NO_WHEEL = """\
error: No solution found when resolving dependencies
  cause: Because all versions of pycuda have no usable wheels and you require pycuda, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `pycuda` because building from source is disabled for all packages (i.e., with `--no-build`)
"""
NO_VERSION = """\
error: No solution found when resolving dependencies
  cause: Because only slangpy<=0.43.1 is available and you require slangpy>=9, we can conclude that your requirements are unsatisfiable.
"""


def packages(requirements: frozenset[str]) -> set[str]:
    return {re.split(r"[\[<>=!~]", each)[0] for each in requirements}


def test_the_table_has_each_wheel_and_each_extra_once() -> None:
    block = re.search(
        r"<!-- installable -->\n(.*?)<!-- end -->", installable.PAGE.read_text(), re.DOTALL
    )
    assert block
    head, _, *rows = (line for line in block[1].splitlines() if line.startswith("|"))
    titles = [each.title for each in installable.PLATFORMS]
    assert [each.strip() for each in head.strip("|").split("|")] == ["wheel", *titles]
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted(installable.names(PROJECTS))
    assert {"devmod", "devmod-core[build]", "devmod-opencl[pocl]", "devmod-tvm"} <= set(listed)
    cells = [cell for row in rows for cell in row.strip("|").split("|")[1:]]
    assert all(cell.startswith(" 3.1") for cell in some(cells))


def test_uvs_errors_name_the_package_without_a_wheel() -> None:
    assert installable.package_without_wheel(OTHER_PLATFORM) == "pocl-binary-distribution"
    assert installable.package_without_wheel(OTHER_PYTHON) == "slangpy"
    assert installable.package_without_wheel(NO_WHEEL) == "pycuda"
    assert installable.package_without_wheel(NO_VERSION) == ""


def uv(monkeypatch: pytest.MonkeyPatch, wheels: dict[str, str]) -> None:
    """Have uv fail for the requirements with these names, with these texts, unless an override
    leaves out the package of the text.
    """

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        overrides = Path(command[command.index("--override") + 1]).read_text()
        wanted = Path(command[-1]).read_text().splitlines()
        for name, text in wheels.items():
            package = installable.package_without_wheel(text)
            if name in wanted and f"{package}; " not in overrides:
                return subprocess.CompletedProcess(command, 1, "", text)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(installable, "find_uv", lambda: "uv")
    monkeypatch.setattr(installable.subprocess, "run", run)


def test_all_packages_without_a_wheel_are_found_with_their_requirements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uv(monkeypatch, {"pyopencl[pocl]": OTHER_PLATFORM, "slangpy": OTHER_PYTHON, "pycuda": NO_WHEEL})
    wanted = ["click", "msgpack", "numpy", "pycuda", "pyopencl[pocl]", "slangpy"]
    assert installable.missing_of_each(wanted, WINDOWS, "3.14", {}) == {
        "pyopencl[pocl]": {"pocl-binary-distribution"},
        "slangpy": {"slangpy"},
        "pycuda": {"pycuda"},
    }
    assert installable.missing_of_each(wanted[:3], WINDOWS, "3.14", {}) == {}


def test_another_failure_of_uv_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    uv(monkeypatch, {"slangpy": NO_VERSION})
    text = refusal(InstallError, installable.missing, ["slangpy"], MAC, "3.13", {})
    assert text == f"uv cannot resolve slangpy for Python 3.13 on macOS arm64:\n{NO_VERSION}"


COMPLETE = installable.Answer((), ())
LACKS = installable.Answer(("slangpy",), ())
WITHOUT = installable.Answer((), ("pyclspv", "rich"))


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([COMPLETE] * 4, "3.11–3.14"),
        ([installable.Answer(("a-x", "b-1", "b-2", "b-3"), ())] * 4, "3.11–3.14 **no** a-x, b-*"),
        ([COMPLETE, COMPLETE, COMPLETE, LACKS], "3.11–3.13; 3.14 **no** slangpy"),
        (
            [WITHOUT, COMPLETE, COMPLETE, WITHOUT],
            "3.11, 3.14 without pyclspv, rich; 3.12–3.13",
        ),
    ],
)
def test_a_cell_has_what_is_missing_and_what_is_left_out(
    answers: list[installable.Answer], text: str
) -> None:
    assert installable.cell(dict(zip(installable.PYTHONS, answers, strict=True))) == text


def test_wheels_with_the_same_cells_share_a_row() -> None:
    column = {"a": "3.11–3.14", "a[x]": "3.11 **no** y", "b": "3.11–3.14"}
    assert installable.table([column] * 5).splitlines()[2:] == [
        "| `a`, `b` | 3.11–3.14 | 3.11–3.14 | 3.11–3.14 | 3.11–3.14 | 3.11–3.14 |",
        "| `a[x]` | 3.11 **no** y | 3.11 **no** y | 3.11 **no** y | 3.11 **no** y | 3.11 **no** y |",
    ]


@pytest.mark.parametrize("python", installable.PYTHONS)
def test_markers_leave_out_what_has_no_wheel(python: str) -> None:
    def left_out(name: str, platform: installable.Platform) -> set[str]:
        found = installable.needs(PROJECTS, name, platform, python)
        assert not found.left_out & found.wanted
        return set(found.left_out)

    for name in ("devmod-core[build-vulkan-opencl]", "devmod-core[build]", "devmod[pocl]"):
        assert left_out(name, LINUX) == set()
    for platform in (AARCH64, MAC, INTEL_MAC, WINDOWS):
        assert left_out("devmod-core[build-vulkan-opencl]", platform) == {"pyclspv"}
        assert left_out("devmod[pocl]", platform) == {"pyopencl[pocl]"}
        found = installable.needs(PROJECTS, "devmod[pocl]", platform, python)
        assert "pyopencl>=2025.1" in found.wanted
    for name in ("devmod-core[build]", "devmod-core[build-cuda]", "devmod-cuda[jit]"):
        found = installable.needs(PROJECTS, name, MAC, python)
        assert {"cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-cccl"} <= found.left_out
        assert not {each for each in packages(found.wanted) if each.startswith(("cuda", "nvidia"))}


def test_the_wheels_for_linux_are_those_with_a_tag_of_their_own() -> None:
    tagged = {
        path.parent.name
        for path in ROOT.glob("*/*/hatch_build.py")
        if 'build_data["tag"]' in path.read_text()
    }
    assert {f"devmod-{name}" for name in tagged} == installable.FOR_LINUX
