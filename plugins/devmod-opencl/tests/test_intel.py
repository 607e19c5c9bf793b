"""Intel's CPU runtime is found in its wheel, beside the platforms of the OpenCL loader."""

from __future__ import annotations

import _ctypes
import ctypes
import os
from importlib import metadata
from pathlib import Path

import pytest
from backend_checks import run_python
from opencl_kernels import ADD, add_info

import devmod
from devmod_opencl import _driver, _intel
from devmod_opencl._device import OpenCLDevice

LIST = "import devmod\nfor each in devmod.devices('opencl'): print(each.index, each.platform)"
#: No variable of the user chooses drivers or libraries.
UNSET = {
    **dict.fromkeys(_intel.LOADER_VARIABLES, ""),
    "LD_LIBRARY_PATH": "",
    "DEVMOD_DEVICE": "",
    "DEVMOD_PLUGINS_ALLOW": "devmod-opencl",
}


def platforms(**environment: str) -> list[str]:
    """Return the platform of each device that a new process lists."""
    lines = run_python(LIST, **{**UNSET, **environment}).splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        str(number) for number in range(len(lines))
    ]
    return [line.partition(" ")[2] for line in lines]


@pytest.fixture
def library() -> Path:
    """The driver's library of the wheel."""
    try:
        files = metadata.files("intel-opencl-rt") or ()
    except metadata.PackageNotFoundError:
        pytest.skip('Intel\'s runtime is not installed: pip install "devmod-opencl[intel]"')
    return next(
        Path(str(each.locate())).resolve() for each in files if each.name == "libintelocl.so"
    )


@pytest.mark.usefixtures("library")
def test_the_wheel_is_found_without_settings_and_comes_before_pocl() -> None:
    found = platforms(POCL_DEVICES="pthread pthread")
    assert found.count("Intel(R) OpenCL") == 1
    if "Portable Computing Language" in found:
        assert found[-3:] == ["Intel(R) OpenCL", *["Portable Computing Language"] * 2]


@pytest.mark.usefixtures("library")
def test_the_drivers_that_the_user_chooses_are_used_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Intel(R) OpenCL" not in platforms(OCL_ICD_VENDORS=str(tmp_path))
    for variable in _intel.LOADER_VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path))
            assert _intel.open_platform() == 0


def test_the_driver_that_the_user_chooses_is_not_listed_twice(
    library: Path, tmp_path: Path
) -> None:
    (tmp_path / "intel.icd").write_text(f"{library}\n")
    assert platforms(OCL_ICD_VENDORS=str(tmp_path / "intel.icd")) == ["Intel(R) OpenCL"]
    assert platforms(OCL_ICD_VENDORS=str(tmp_path)).count("Intel(R) OpenCL") == 1


@pytest.mark.usefixtures("library")
def test_the_wheel_is_not_opened_where_the_loader_lists_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handles = [each.handle for each in devmod.devices("opencl") if isinstance(each, OpenCLDevice)]
    if all(handle.platform.name != "Intel(R) OpenCL" for handle in handles):
        pytest.skip("the environment chooses other drivers")
    monkeypatch.setattr(
        _driver.cl,
        "get_platforms",
        lambda: list({handle.platform.int_ptr: handle.platform for handle in handles}.values()),
    )
    assert [handle.int_ptr for handle in _driver.list_devices()] == [
        handle.int_ptr for handle in handles
    ]


@pytest.mark.volume_but("text", "other")
@pytest.mark.parametrize("damage", ["text", "other", "missing"])
def test_a_damaged_wheel_leaves_the_other_devices(damage: str, tmp_path: Path) -> None:
    info = tmp_path / "intel_opencl_rt-2099.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: intel-opencl-rt\nVersion: 2099.0\n"
    )
    (info / "RECORD").write_text("libintelocl.so,,\n")
    if damage == "text":
        (tmp_path / "libintelocl.so").write_text("no library")
    elif damage == "other":  # a library without the functions of an OpenCL driver
        (tmp_path / "libintelocl.so").symlink_to(str(_ctypes.__file__))
    python_path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "Intel(R) OpenCL" not in platforms(PYTHONPATH=python_path)


def test_a_driver_that_only_its_loader_can_initialize_is_not_used() -> None:
    for first, expected in ((int.from_bytes(b"OPENCL31", "big"), True), (0x7F0000001000, False)):
        table = (ctypes.c_void_p * 2)(first, 0)
        platform = (ctypes.c_void_p * 2)(ctypes.addressof(table), 0)
        assert _intel.needs_loader(ctypes.addressof(platform)) == expected


def test_a_build_warns_of_warnings_alone_and_once(
    device: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    _driver._warn_once.cache_clear()
    info = {"add": add_info()}
    assert devmod.create("opencl", f"{ADD}// without a warning".encode(), "cl", info)[
        "add"
    ]  # a warning would be an error

    def build(*conditions: str) -> None:
        for each in conditions:
            devmod.create("opencl", ADD.replace("if (i < n)", f"if ({each})").encode(), "cl", info)[
                "add"
            ]

    with pytest.warns(cl.CompilerWarning) as records:
        build("n = n", "n = 2")
    assert len(records) == 1
    monkeypatch.setenv("PYOPENCL_COMPILER_OUTPUT", "1")
    with pytest.warns(cl.CompilerWarning, match=r"has built a program with warnings:\n") as records:
        build("n = 3", "n = 3 + 0")
    assert len({str(each.message) for each in records}) == len(records)
