"""The row `driver` of `devmod doctor`: what each plugin finds, and every place where it has looked,
on machines that are made broken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import devmod
from devmod_runtime import driver_row, open_library

#: A library of the system that a program can open by its name.
C = "libc.so.6"


def rows(kind: str, **variables: str) -> dict[str, tuple[str, str]]:
    """Return the state and the text of each part of a kind, from the command in a process of its
    own. Compilers are not tried.
    """
    env = {**os.environ, "DEVMOD_PLUGINS_DENY": "devmod-targets", **variables}
    command = [sys.executable, "-m", "devmod", "doctor", kind, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return {
        each["part"]: (each["state"], each["text"]) for each in json.loads(done.stdout)["checks"]
    }


@pytest.mark.volume_but("vulkan")
@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu", "hexagon"])
def test_a_machine_with_the_driver_tells_its_files(kind: str) -> None:
    if not devmod.devices(kind):
        pytest.skip(f"no {kind} device")
    state, text = rows(kind)["driver"]
    assert state == "ok"
    paths = [each.rpartition(" is ")[2] for each in text.split(", ")]
    assert [each for each in paths if not os.path.exists(each)] == []


def test_no_driver_lists_each_place(tmp_path: Path) -> None:
    found = rows("hexagon", PATH=f"{tmp_path}{os.pathsep}{tmp_path / 'b'}", DEVMOD_HEXAGON_QEMU="")
    assert found["driver"] == (
        "not installed",
        f"not found: {tmp_path}/qemu-hexagon {tmp_path}/b/qemu-hexagon",
    )
    assert found["devices"][1].endswith(
        "Install it (Debian and Ubuntu: apt install qemu-user), or name it in DEVMOD_HEXAGON_QEMU"
    )
    state, text = rows(
        "vulkan", VK_DRIVER_FILES=f"{tmp_path}/a.json", VK_ICD_FILENAMES=f"{tmp_path}/a.json"
    )["driver"]
    assert (state, text.rpartition(", ")[2] or text) == (
        "not installed",
        f"not found: {tmp_path}/a.json",
    )
    found = rows("rocm", LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path))
    if found["devices"][0] != "ok":
        names = ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
        files = " ".join(f"{tmp_path}/lib/{name}" for name in names)
        assert found["driver"] == (
            "not installed",
            f"not found: {files}, not found by the system's linker: {' '.join(names)}",
        )


def test_a_wrong_driver_is_told_with_its_file(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_text("no library")
    found = rows("cuda", LD_LIBRARY_PATH=str(tmp_path))
    assert found["driver"] == ("problem", f"{library}: file too short")
    assert found["devices"][0] == "no device"
    assert f"libcuda.so.1 cannot be opened ({library}: file too short)" in found["devices"][1]
    (tmp_path / "acme.icd").write_text(f"{library}\n")
    assert rows("opencl", OCL_ICD_VENDORS=str(tmp_path / "acme.icd"))["driver"] == (
        "problem",
        f"{library}: file too short",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the names of libraries are Linux's")
def test_the_first_library_that_opens_is_used_and_each_part_of_a_driver_needs_one(
    tmp_path: Path,
) -> None:
    missing, found = open_library(["libdevmod-no-such.so", C, "libm.so.6"])
    assert (missing.found, missing.problem, found.place) == (None, "", C)
    part, state, text = driver_row([missing, found])
    assert (part, state) == ("driver", "ok")
    assert text.startswith(f"{C} is /")
    other = open_library([str(tmp_path / "driver.so")])
    assert driver_row([missing, found], other) == (
        "driver",
        "not installed",
        f"{text}, not found: {tmp_path}/driver.so",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the files of devices are Linux's")
def test_devices_that_the_user_may_not_open() -> None:
    import grp

    groups = {each.gr_gid: each.gr_name for each in grp.getgrall()}
    group = next(each for each in reversed(groups) if each) if os.getuid() == 0 else os.getgid()
    unnamed = max(groups) + 1
    modes = {
        "renderD128": (0o060, group),
        "renderD129": (0o000, group),
        "renderD130": (0o666, group),
    }
    # The super user opens every file, so the program below becomes another user.
    if os.getuid() == 0:
        modes["renderD131"] = 0o060, unnamed
    program = (
        "import grp, json, os, sys, devmod_runtime\n"
        "rows = devmod_runtime.permission_rows\n"
        "os.getuid() or os.setgroups([]) or os.setuid(65534)\n"
        "print(json.dumps(rows(sys.argv[1], '/dev/devmod-no-such')))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name, (mode, owner) in modes.items():
            path = os.path.join(folder, name)
            with open(path, "wb"):
                os.chown(path, -1, owner)
                os.chmod(path, mode)
        command = [sys.executable, "-c", program, os.path.join(folder, "renderD*")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    advice = {
        "renderD128": f"sudo usermod -a -G {groups[group]} $LOGNAME, then log in again",
        "renderD129": f"sudo chmod a+rw {folder}/renderD129",
        "renderD131": f"start the container with --group-add {unnamed}",
    }
    assert json.loads(done.stdout) == [
        [
            "permissions",
            "problem",
            f"this user may not open {folder}/{name}, so its device is not listed: {advice[name]}",
        ]
        for name in modes
        if name != "renderD130"
    ]
