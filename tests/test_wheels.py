"""What is in the wheels."""

from __future__ import annotations

import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

CODE = ("devmod-core", "devmod-opencl")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> dict[str, list[str]]:
    (text,) = (data.decode() for name, data in contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    parsed = Parser().parsestr(text, headersonly=True)
    return {key: parsed.get_all(key, []) for key in parsed}


@pytest.mark.parametrize("name", CODE)
def test_a_wheel_has_the_code_its_types_and_its_licence_and_no_tests(wheels: dict[str, Path], name: str) -> None:
    package = "devmod" if name == "devmod-core" else name.replace("-", "_")
    found = contents(wheels[name])
    assert f"{package}/py.typed" in found
    assert f"{package}/__init__.py" in found
    assert [path for path in found if path.endswith("licenses/LICENSE")]
    top = {path.split("/")[0] for path in found}
    assert top == {package, next(part for part in top if part.endswith(".dist-info"))}
    assert not [path for path in found if "/tests/" in path or path.rpartition("/")[2].startswith(("test_", "conftest"))]
    assert not [path for path in found if path.endswith((".pyc", ".so", ".cl"))]


def test_core_is_small(wheels: dict[str, Path]) -> None:
    assert wheels["devmod-core"].stat().st_size < 300_000


def test_a_wheel_is_the_same_each_time(wheels: dict[str, Path], tmp_path: Path) -> None:
    from wheels import build  # tools/wheels.py

    again = {wheel.name: wheel.read_bytes() for wheel in build(tmp_path / "again")}
    assert again == {wheel.name: wheel.read_bytes() for wheel in wheels.values()}


@pytest.mark.parametrize("name", [*CODE, "devmod"])
def test_the_metadata_says_who_it_is(wheels: dict[str, Path], name: str) -> None:
    said = metadata(wheels[name])
    assert said["Name"] == [name]
    assert said["License-Expression"] == ["Apache-2.0"]
    assert said["Requires-Python"] == [">=3.11"]
    assert said["Summary"][0]


def test_core_needs_four_small_distributions_and_names_its_extras(wheels: dict[str, Path]) -> None:
    said = metadata(wheels["devmod-core"])
    needed = {line.split(">")[0] for line in said["Requires-Dist"] if "extra ==" not in line}
    assert needed == {"msgpack", "pluggy", "importlib-metadata", "click"}
    assert {"build-opencl", "build", "cli"} <= set(said["Provides-Extra"])


def test_the_plugin_names_the_core_it_was_written_for(wheels: dict[str, Path]) -> None:
    said = metadata(wheels["devmod-opencl"])
    core = metadata(wheels["devmod-core"])["Version"][0]
    (needed,) = (line for line in said["Requires-Dist"] if line.startswith("devmod-core"))
    assert needed == f"devmod-core>={core}"
    assert "pocl" in said["Provides-Extra"]


@pytest.mark.row("R44")
@pytest.mark.parametrize("name", CODE)
def test_a_wheel_declares_the_protocol_it_speaks(wheels: dict[str, Path], name: str) -> None:
    (text,) = (data.decode() for path, data in contents(wheels[name]).items() if path.endswith("entry_points.txt"))
    assert "[devmod.protocol]\n1 = " in text
