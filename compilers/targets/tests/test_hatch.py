"""The build hook for hatchling: its settings, and what stops a build."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from support import runner_commands

MANIFEST = (
    'output = "src/pkg/k.devmod"\ntargets = ["webgpu"]\n\n[kernels.k]\nsources = ["k.wgsl"]\n'
)
WGSL = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn k() { x[0] = 1; }\n"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "pkg"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["src/pkg"]
[tool.hatch.build.targets.sdist]
include = ["src"]
[tool.hatch.build.hooks.devmod]
"""


def project(folder: Path, settings: str = "", manifest: str = MANIFEST, source: str = WGSL) -> Path:
    """Write a project and return its folder."""
    (folder / "src" / "pkg").mkdir(parents=True)
    (folder / "src" / "pkg" / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(PROJECT + settings)
    (folder / "devmod.toml").write_text(manifest)
    (folder / "k.wgsl").write_text(source)
    return folder


def build(folder: Path) -> Path:
    return Path(
        next(WheelBuilder(str(folder)).build(directory=str(folder / "dist"), versions=["standard"]))
    )


def refusal(folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what a build prints that ends with status 1."""
    with pytest.raises(SystemExit) as caught:
        build(folder)
    assert caught.value.code == 1
    output = "".join(capfd.readouterr())
    assert "Traceback" not in output
    assert not list((folder / "dist").glob("*.whl"))
    return output.replace(str(folder), "PROJECT")


@pytest.mark.row("R38")
def test_the_wheel_holds_the_bundle_and_clean_removes_it(tmp_path: Path) -> None:
    folder = project(tmp_path)
    with ZipFile(build(folder)) as wheel:
        assert wheel.read("pkg/k.devmod") == (folder / "src" / "pkg" / "k.devmod").read_bytes()
    builder = WheelBuilder(str(folder))
    builder.get_build_hooks(str(folder / "dist"))["devmod"].clean([])
    assert not (folder / "src" / "pkg" / "k.devmod").exists()
    builder.get_build_hooks(str(folder / "dist"))["devmod"].clean([])


def test_clean_removes_no_file_behind_a_link(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / "project", manifest=MANIFEST.replace("src/pkg/", "out/"))
    precious = tmp_path / "home" / "k.devmod"
    precious.parent.mkdir()
    precious.touch()
    (folder / "out").symlink_to("../home")
    with pytest.raises(SystemExit):
        WheelBuilder(str(folder)).get_build_hooks(str(folder / "dist"))["devmod"].clean([])
    assert (
        "'PROJECT/out' is a symbolic link".replace("PROJECT", str(folder)) in capfd.readouterr().err
    )
    assert precious.exists()


def test_a_source_distribution_holds_all_inputs(tmp_path: Path) -> None:
    folder = project(tmp_path)
    path = next(
        SdistBuilder(str(folder)).build(directory=str(folder / "dist"), versions=["standard"])
    )
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert names == {"PKG-INFO", "pyproject.toml", "devmod.toml", "k.wgsl", "src/pkg/__init__.py"}


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows")
def test_a_source_distribution_holds_links_and_their_targets(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("webgpu", "opencl").replace("k.wgsl", "kernels/k.cl")
    folder = project(tmp_path / "p", manifest=manifest)
    for name, text in (
        ("shared/k.cl", '#include "a.h"\n'),
        ("shared/real.h", ""),
        ("kernels/x.h", ""),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "kernels" / "k.cl").symlink_to("../shared/k.cl")
    (folder / "kernels" / "a.h").symlink_to("../shared/real.h")
    (tmp_path / "link").symlink_to("p")
    for place in (folder, tmp_path / "link"):
        path = next(
            SdistBuilder(str(place)).build(directory=str(tmp_path / "dist"), versions=["standard"])
        )
        with tarfile.open(path) as file:
            names = [name.partition("/")[2] for name in file.getnames()]
        inputs = ["devmod.toml", "kernels/a.h", "kernels/k.cl", "shared/k.cl", "shared/real.h"]
        assert sorted(names) == sorted(
            ["PKG-INFO", "pyproject.toml", "src/pkg/__init__.py", *inputs]
        )


def test_the_targets_of_the_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    manifest = MANIFEST.replace('["webgpu"]', '["webgpu", "opencl"]').replace(
        '["k.wgsl"]', '["k.wgsl", "k.cl"]'
    )
    folder = project(tmp_path, 'targets = ["webgpu"]', manifest)
    (folder / "k.cl").write_text("no OpenCL C")
    build(folder)
    assert "devmod: src/pkg/k.devmod: 1 " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ('manifests = "."', "the key 'manifests' is unknown; expected 'manifest', 'targets'"),
        ("manifest = 1", "manifest is the path of a file, not 1"),
        ('targets = "webgpu"', "targets is a list of strings, not 'webgpu'"),
    ],
)
def test_mistakes_in_the_table(
    settings: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        refusal(project(tmp_path, settings), capfd)
        == f"devmod: pyproject.toml, [tool.hatch.build.hooks.devmod]: {text}\n"
    )


def test_a_source_that_does_not_compile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = refusal(project(tmp_path, source=WGSL.replace("x[0] =", "x[0")), capfd)
    assert output.startswith("devmod: 1 of 1 compiles failed:\nk.wgsl for webgpu: ")


def test_warnings_are_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build(project(tmp_path, source=WGSL.replace("= 1", "= y")))
    assert capfd.readouterr().err.startswith(
        "devmod: warning: the WGSL source k.wgsl uses the unknown name 'y' at k.wgsl:2."
    )


def test_a_bundle_in_no_package_of_the_wheel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path, manifest=MANIFEST.replace("src/pkg/", "other/"))
    (folder / "other").mkdir()
    assert refusal(folder, capfd).endswith(
        "devmod: the wheel does not hold other/k.devmod: the file is in no package of the wheel. Write it into a package: set output in the "
        "manifest\n"
    )


def test_a_manifest_with_a_mistake(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = refusal(project(tmp_path, manifest=MANIFEST + "[kernels"), capfd)
    assert output.startswith("devmod: ")
    assert "devmod.toml" in output


def test_no_text_of_a_compiler_is_a_command_for_a_ci_runner(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest = 'output = "src/pkg/k.devmod"\ntargets = ["opencl"]\n\n[kernels.k]\nsources = ["::add-mask::k.cl"]\n'
    folder = project(tmp_path, manifest=manifest)
    (folder / "::add-mask::k.cl").write_text(
        '_Static_assert(0, "x\\n::set-output name=token::owned");\nkernel void k() {}\n'
    )
    text = refusal(folder, capfd)
    assert "\\x3a:add-mask::k.cl for opencl: " in text
    assert "\\x3a:set-output name=token::owned" in text
    assert runner_commands(text) == []
