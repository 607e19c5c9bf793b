"""The row `driver` of `devmod doctor`: what each plugin finds, and every place where it has looked, on machines that are made broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import devmod
from devmod_runtime import driver_row, open_library

#: A library of the system that a program can open by its name.
C = "libc.so.6"


def rows(kind: str, **variables: str) -> dict[str, tuple[str, str]]:
    """Return the state and the text of each part of a kind, from the command in a process of its own. Compilers are not tried."""
    env = {**os.environ, "DEVMOD_PLUGINS_DENY": "devmod-targets", **variables}
    command = [sys.executable, "-m", "devmod", "doctor", kind, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return {each["part"]: (each["state"], each["text"]) for each in json.loads(done.stdout)["checks"]}


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu", "hexagon"])
def test_a_machine_with_the_driver_tells_its_files(kind: str) -> None:
    if not [each for each in devmod.devices() if each.kind == kind]:
        pytest.skip(f"no {kind} device")
    state, text = rows(kind)["driver"]
    assert state == "ok"
    paths = [each.rpartition(" is ")[2] for each in text.split(", ")]
    assert [each for each in paths if not os.path.exists(each)] == []


def test_no_driver_lists_each_place(tmp_path: Path) -> None:
    found = rows("hexagon", PATH=f"{tmp_path}{os.pathsep}{tmp_path / 'b'}", DEVMOD_HEXAGON_QEMU="", DEVMOD_HEXAGON_ADDRESS="")
    assert found["driver"] == ("not installed", f"not found: {tmp_path}/qemu-hexagon {tmp_path}/b/qemu-hexagon")
    assert found["devices"][1].endswith("Install it (Debian and Ubuntu: apt install qemu-user), or name it in DEVMOD_HEXAGON_QEMU")
    state, text = rows("vulkan", VK_DRIVER_FILES=f"{tmp_path}/a.json", VK_ICD_FILENAMES=f"{tmp_path}/a.json")["driver"]
    assert (state, text.rpartition(", ")[2] or text) == ("not installed", f"not found: {tmp_path}/a.json")
    found = rows("rocm", LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path))
    if found["devices"][0] != "ok":
        names = ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
        files = " ".join(f"{tmp_path}/lib/{name}" for name in names)
        assert found["driver"] == ("not installed", f"not found: {files}, not found by the system's linker: {' '.join(names)}")


def test_a_wrong_driver_is_told_with_its_file(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_text("no library")
    found = rows("cuda", LD_LIBRARY_PATH=str(tmp_path))
    assert found["driver"] == ("problem", f"{library}: file too short")
    assert found["devices"][0] == "no device"
    assert f"libcuda.so.1 cannot be opened ({library}: file too short)" in found["devices"][1]
    (tmp_path / "acme.icd").write_text(f"{library}\n")
    assert rows("opencl", OCL_ICD_VENDORS=str(tmp_path / "acme.icd"))["driver"] == ("problem", f"{library}: file too short")


@pytest.mark.skipif(sys.platform != "linux", reason="the names of libraries are Linux's")
def test_the_first_library_that_opens_is_used_and_each_part_of_a_driver_needs_one(tmp_path: Path) -> None:
    missing, found = open_library(["libdevmod-no-such.so", C, "libm.so.6"])
    assert (missing.found, missing.problem, found.place) == (None, "", C)
    part, state, text = driver_row([missing, found])
    assert (part, state) == ("driver", "ok")
    assert text.startswith(f"{C} is /")
    other = open_library([str(tmp_path / "driver.so")])
    assert driver_row([missing, found], other) == ("driver", "not installed", f"{text}, not found: {tmp_path}/driver.so")
