"""What is in the wheels."""

from __future__ import annotations

import base64
import csv
import hashlib
import lzma
import shlex
import sys
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from devmod.targets import KINDS
from devmod_simulators import StandinLibrary

ROOT = Path(__file__).resolve().parent.parent
#: The modules of a wheel beside its package: the pytest plugins import nothing of devmod until they
#: are used.
BESIDE = {
    "devmod-workbench": ("devmod_pytest.py",),
    "devmod-simulators": ("devmod_simulators_pytest.py",),
}
#: The platforms of a wheel with libraries of C.
PLATFORMS = {"devmod-simulators": "manylinux_2_28_aarch64.manylinux_2_28_x86_64"}

#: The files of wheels that are no text.
BINARIES = {
    "devmod-hexagon": {"devmod_hexagon/runner", "devmod_hexagon/samples/axpy.elf"},
    "devmod-rocm": {"devmod_rocm/samples.bundle.xz"},
    "devmod-simulators": {
        f"devmod_simulators/drivers/built/{machine}/{name}"
        for machine in ("aarch64", "x86_64")
        for name in (
            "libcuda.so.1",
            "libcudart.so.12",
            "libcudart.so.13",
            "libdevmod_cubins.so.1",
            "libdevmod_engine.so.1",
        )
    },
    "devmod-targets": {
        "devmod_targets/libclc/amdgcn-amd-amdhsa.bc.xz",
        "devmod_targets/libclc/nvptx64--.bc.xz",
    },
    "picture-kernels": {"picture_kernels/picture_kernels.devmod"},
    "devmod-vulkan": {
        f"devmod_vulkan/samples/{name}.spv"
        for name in ("axpy", "count", "spin", "transpose", "transpose_uniform")
    },
}
for _kind in KINDS:
    BINARIES.setdefault(f"devmod-{_kind}", set()).add(f"devmod_{_kind}/small_kernel.module")
#: The licences of wheels that also have the code of others.
LICENCES = {
    "devmod-hexagon": "Apache-2.0 AND MIT AND BSD-2-Clause AND SunPro",
    "devmod-targets": "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND MIT AND SunPro",
}


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> dict[str, list[str]]:
    (text,) = (
        data.decode()
        for name, data in contents(wheel).items()
        if name.endswith(".dist-info/METADATA")
    )
    parsed = Parser().parsestr(text, headersonly=True)
    return {key: parsed.get_all(key, []) for key in parsed}


def test_a_wheel_has_the_code_its_types_and_its_licence_and_no_tests(
    wheels: dict[str, Path], code_distribution: str
) -> None:
    package = (
        "devmod" if code_distribution == "devmod-core" else code_distribution.replace("-", "_")
    )
    result = contents(wheels[code_distribution])
    assert f"{package}/py.typed" in result
    assert f"{package}/__init__.py" in result
    top = {path.split("/")[0] for path in result}
    assert top == {
        package,
        *BESIDE.get(code_distribution, ()),
        next(part for part in top if part.endswith(".dist-info")),
    }
    own = [
        path for path in result if not path.endswith(".tmpl")
    ]  # the templates of `devmod new-backend` lie in the folders of their files
    assert not [
        path
        for path in own
        if "/tests/" in path or path.rpartition("/")[2].startswith(("test_", "conftest"))
    ]
    stray = (
        ".pyc",
        ".pyo",
        ".so",
        ".o",
        ".log",
        ".orig",
        ".rej",
        ".swp",
        "~",
        ".DS_Store",
        ".gitignore",
    )
    assert not [path for path in result if path.endswith(stray) or "__pycache__" in path]


def test_a_wheel_contains_the_files_of_its_source_folder(
    wheels: dict[str, Path], code_distribution: str
) -> None:
    """No file is left out by a pattern, and none is in it that nobody wrote."""
    from wheels import distributions  # tools/wheels.py

    package = (
        "devmod" if code_distribution == "devmod-core" else code_distribution.replace("-", "_")
    )
    (source,) = (
        folder / "src" for folder in distributions() if (folder / "src" / package).is_dir()
    )
    written = {
        str(path.relative_to(source))
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    written |= set(BESIDE.get(code_distribution, ()))
    # The page of `devmod view` lies elsewhere in the source tree; tests/test_browser_package.py
    # holds it to that. The simulators' libraries are built.
    assert {
        path
        for path in contents(wheels[code_distribution])
        if ".dist-info/" not in path and "/_web/" not in path and "/built/" not in path
    } == written


def test_each_binary_of_a_wheel_is_known_and_has_the_notices_of_its_code(
    wheels: dict[str, Path], distribution: str
) -> None:
    """Whoever adds a binary looks at what it is linked with, and adds it to BINARIES."""
    from binaries import binaries_of, missing_notices  # tools/binaries.py

    result = contents(wheels[distribution])
    assert binaries_of(result).keys() == BINARIES.get(distribution, set())
    assert missing_notices(result) == []


def test_a_binary_with_the_code_of_others_needs_their_notices(wheels: dict[str, Path]) -> None:
    from binaries import missing_notices

    result = contents(wheels["devmod-hexagon"])
    runner = "devmod_hexagon/runner"
    others = {name: data for name, data in result.items() if "THIRD-PARTY" not in name}
    assert missing_notices(others) == [
        f"{runner} has code of {owner}, whose notice is not in the wheel"
        for owner in ("musl", "Zig")
    ]
    unknown = {runner: result[runner].replace(b"No error information", b"no error information")}
    assert missing_notices(unknown) == [
        f"{runner} is linked statically, with a C library that is not known"
    ]
    packed = {"samples.xz": lzma.compress(b"\0 __ocml_sin_f32")}
    assert missing_notices(packed) == [
        "samples.xz has code of AMD's device libraries, whose notice is not in the wheel"
    ]


def test_the_notices_of_the_runner_are_those_of_its_libraries(wheels: dict[str, Path]) -> None:
    """`make hexagon-runner` writes them, from the files that it is linked with."""
    result = contents(wheels["devmod-hexagon"])
    (text,) = (data.decode() for name, data in result.items() if name.endswith("NOTICES"))
    for owner in ("Sun Microsystems", "2017-2018, Arm Limited", "2005-2011 David Schultz"):
        assert owner in text


def test_a_wheel_contains_the_licence(wheels: dict[str, Path], distribution: str) -> None:
    (text,) = (
        data
        for path, data in contents(wheels[distribution]).items()
        if path.endswith("licenses/LICENSE")
    )
    assert text == (ROOT / "LICENSE").read_bytes()


def test_a_wheel_records_each_of_its_files(wheels: dict[str, Path], distribution: str) -> None:
    result = contents(wheels[distribution])
    (record,) = (path for path in result if path.endswith(".dist-info/RECORD"))
    rows = {
        name: (digest, size)
        for name, digest, size in csv.reader(result[record].decode().splitlines())
    }
    assert set(rows) == set(result)
    for name, data in result.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert rows[name] == (f"sha256={digest}", str(len(data)))


def test_the_declared_entry_points_are_in_the_wheel(
    wheels: dict[str, Path], code_distribution: str, projects: Mapping[str, Any]
) -> None:
    result = contents(wheels[code_distribution])
    for group, entries in projects[code_distribution].get("entry-points", {}).items():
        for value in entries.values():
            stem = value.partition(":")[0].replace(".", "/")
            if group != "devmod.protocol":  # its value is the side that it speaks with
                assert f"{stem}.py" in result or f"{stem}/__init__.py" in result, (group, value)


def test_a_wheel_is_the_same_each_time(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Core, and those with steps of their own: the others are built as core is."""
    from wheels import build_into, distributions  # tools/wheels.py

    folders = [
        each
        for each in distributions()
        if each.name == "core" or (each / "hatch_build.py").exists()
    ]
    first = {wheel.name: wheel.read_bytes() for wheel in wheels.values()}
    shown: list[str] = []
    again = build_into(sys.executable, tmp_path, folders, "wheel", shown.append)
    assert len(again) == len(folders) == 3
    numbered = [f"{number} of 3: {each.name}" for number, each in enumerate(folders, 1)]
    assert [line for line in shown if line in numbered] == numbered
    for wheel in again:
        assert wheel.read_bytes() == first[wheel.name]


def test_a_compiler_reads_generated_files_in_one_folder_that_stays(tmp_path: Path) -> None:
    """zig compiles anew where a file that it has read is gone."""
    library = StandinLibrary(
        "libmade-up.so", (tmp_path,), "worker", (), generate=lambda _: {"made.h": "int made;\n"}
    )
    program = "import os, sys; open(sys.argv[-1], 'w').write(os.getcwd())"
    for name in "ab":
        library.build_with([sys.executable, "-c", program], tmp_path / name)
    folder = (tmp_path / "a").read_text()
    assert folder == (tmp_path / "b").read_text()
    assert Path(folder, "made.h").exists()


def test_the_command_that_make_wheels_prints_installs_these_wheels(
    wheels: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from wheels import install_command  # tools/wheels.py

    monkeypatch.chdir(ROOT)
    command = shlex.split(install_command(ROOT / "build" / "my wheels"))
    assert command[:4] == ["pip", "install", "--find-links", "build/my wheels"]
    for requirement in command[4:]:
        name, _, rest = requirement.partition("[")
        extra, _, version = rest.partition("]==")
        fields = metadata(wheels[name])
        assert fields["Version"] == [version]
        assert extra in fields["Provides-Extra"]


def test_the_metadata_has_name_version_and_author(
    wheels: dict[str, Path], distribution: str
) -> None:
    fields = metadata(wheels[distribution])
    assert fields["Name"] == [distribution]
    assert (
        wheels[distribution].name
        == f"{distribution.replace('-', '_')}-{fields['Version'][0]}-py3-none-{PLATFORMS.get(distribution, 'any')}.whl"
    )
    assert fields["Description-Content-Type"] == ["text/markdown"]
    assert fields["License-Expression"] == [LICENCES.get(distribution, "Apache-2.0")]
    assert fields["Requires-Python"] == [">=3.11"]
    assert fields["Summary"][0]


def test_core_needs_three_small_distributions_and_names_its_extras(wheels: dict[str, Path]) -> None:
    fields = metadata(wheels["devmod-core"])
    needed = {line.split(">")[0] for line in fields["Requires-Dist"] if "extra ==" not in line}
    assert needed == {"msgpack", "pluggy", "importlib-metadata"}
    assert {"build-opencl", "build", "cli"} <= set(fields["Provides-Extra"])


def test_a_plugin_names_the_core_it_was_written_for(wheels: dict[str, Path], plugin: str) -> None:
    fields = metadata(wheels[plugin])
    core = metadata(wheels["devmod-core"])["Version"][0]
    (needed,) = (
        line
        for line in fields["Requires-Dist"]
        if line.startswith("devmod-core") and "extra ==" not in line
    )
    assert needed == f"devmod-core>={core}"


def test_the_metapackage_has_an_extra_for_each_plugin(
    wheels: dict[str, Path], projects: Mapping[str, Any]
) -> None:
    fields = metadata(wheels["devmod"])
    plugins = {path.parent.name for path in (ROOT / "plugins").glob("devmod-*/pyproject.toml")}
    extras = {name.removeprefix("devmod-") for name in plugins}
    assert extras <= set(fields["Provides-Extra"])
    for extra in extras:
        (needed,) = (
            line for line in fields["Requires-Dist"] if line.endswith(f"extra == '{extra}'")
        )
        assert needed.startswith(f"devmod-{extra}>={projects[f'devmod-{extra}']['version']}")


@pytest.mark.row("R44")
def test_a_wheel_declares_the_protocol_it_speaks(
    wheels: dict[str, Path], speaking_distribution: str
) -> None:
    (text,) = (
        data.decode()
        for path, data in contents(wheels[speaking_distribution]).items()
        if path.endswith("entry_points.txt")
    )
    assert "[devmod.protocol]\n1 = " in text
