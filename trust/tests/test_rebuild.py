"""`devmod check --rebuild`: files that are the same as a build here, and files that are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from signing import key, policy

import devmod
from devmod._cli import main

KERNEL = "kernel void scale(global float *x, float factor) { x[get_global_id(0)] *= factor; }\n"
SHADER = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(64) fn twice() { x[0] *= 2; }\n"
MANIFEST = """
output = "k.devmod"
targets = ["opencl", "webgpu"]
[kernels.scale]
sources = ["scale.cl"]
targets = ["opencl"]
[kernels.twice]
sources = ["twice.wgsl"]
targets = ["webgpu"]
"""


def project(name: str, kernel: str = KERNEL, manifest: str = MANIFEST) -> Path:
    """Write a project, and return its folder."""
    folder = Path(name)
    folder.mkdir()
    (folder / "devmod.toml").write_text(manifest)
    (folder / "scale.cl").write_text(kernel)
    (folder / "twice.wgsl").write_text(SHADER)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], str]:
    status = main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


@pytest.fixture(name="built")
def built_fixture(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project and its file."""
    pytest.importorskip("devmod_targets.build.build", reason='devmod-targets is not installed: pip install "devmod-core[build]"')
    folder = project("here")
    devmod.build(folder, cache=False).raise_for_failures()
    return folder


def test_two_signers_who_build_in_two_places_sign_the_same(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = project("there")
    devmod.build(there, output="other name.devmod", cache=False).raise_for_failures()
    assert Path("other name.devmod").read_bytes() == (built / "k.devmod").read_bytes()
    for signer, folder in (("acme", built), ("bob", there)):
        key(signer)
        assert run(capsys, "check", built / "k.devmod", "--rebuild", folder) == (
            0, ["opencl cl: 'scale': same", "webgpu wgsl: 'twice': same"], "",
        )  # fmt: skip
        assert main(["sign", str(built / "k.devmod"), "--key", f"{signer}.pem", "--name", "acme/k", "--version", "1"]) == 0
        capsys.readouterr()
    os.environ["DEVMOD_TRUST"] = policy('[[rule]]\nsource = ["here/*"]\nname = "acme/k"\nkeys = ["acme.pub", "bob.pub"]\nthreshold = 2\n')
    assert [*devmod.load(built / "k.devmod")] == ["scale", "twice"]


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_what_is_no_difference(built: Path, capsys: pytest.CaptureFixture[str], compress: str) -> None:
    """Comments are in a payload of text. The compression and sources of a file are not in its payloads."""
    devmod.save(devmod.load(built / "k.devmod"), "other.devmod", compress=compress, with_sources=True)
    assert run(capsys, "check", "other.devmod", "--rebuild", built / "devmod.toml")[0] == 0


def test_a_planted_difference(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = project("evil", KERNEL.replace("*= factor", "*= factor + 1"))
    devmod.build(evil, output="k.devmod", cache=False).raise_for_failures()
    status, lines, _ = run(capsys, "check", "k.devmod", "--rebuild", built)
    assert (status, lines[1:]) == (1, ["webgpu wgsl: 'twice': same"])
    assert lines[0].startswith("opencl cl: 'scale': differs (both were built by libclang ")
    assert lines[0].endswith("; of other sources: 'scale.cl')")
    status, report, _ = run(capsys, "check", "k.devmod", "--rebuild", built, "--json")
    payloads = json.loads("".join(report))["payloads"]
    assert (status, [each["outcome"] for each in payloads]) == (1, ["differs", "same"])


def test_another_version_of_a_tool_is_named(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = devmod.load(built / "k.devmod")
    module = devmod.create_with_fallback(
        "opencl", b"kernel void scale(global float *x, float factor) {}", "cl", dict(root.imports[0].functions)
    )
    module.__dict__["_devmod_origin"] = devmod.Origin("opencl", "libclang 1.0", sources=root.imports[0].origin.sources)
    devmod.save(devmod.bundle(module, root.imports[1]), "old.devmod")
    line = run(capsys, "check", "old.devmod", "--rebuild", built)[1][0]
    assert line.startswith("opencl cl: 'scale': differs (the file was built by libclang 1.0, and libclang ")
    assert line.endswith(" is here)")


def test_a_payload_that_cannot_be_rebuilt(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = project("broken", "kernel void scale(", MANIFEST)
    status, lines, _ = run(capsys, "check", built / "k.devmod", "--rebuild", broken)
    assert (status, lines[1]) == (1, "webgpu wgsl: 'twice': same")
    assert lines[0].startswith("opencl cl: 'scale': not rebuilt (")
    assert "scale.cl" in lines[0]
    less = project("less", manifest=MANIFEST.partition("[kernels.twice]")[0].replace(', "webgpu"', ""))
    assert run(capsys, "check", built / "k.devmod", "--rebuild", less)[:2] == (
        1, ["opencl cl: 'scale': same", "webgpu wgsl: 'twice': not rebuilt (the manifest builds no such payload)"],
    )  # fmt: skip


def test_a_payload_that_the_file_lacks_and_a_function_of_another_name(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devmod.save(devmod.load(built / "k.devmod").imports[1], "part.devmod")
    missing = "opencl cl: 'scale': missing (the manifest builds it, and the file does not have it)"
    assert run(capsys, "check", "part.devmod", "--rebuild", built) == (1, ["webgpu wgsl: 'twice': same", missing], "")
    devmod.build(project("renamed", KERNEL.replace("void scale", "void grow")), cache=False).raise_for_failures()
    status, lines, _ = run(capsys, "check", "renamed/k.devmod", "--rebuild", built)
    renamed = "opencl cl: 'grow': not rebuilt (the manifest builds no such payload)"
    assert (status, lines) == (1, [renamed, "webgpu wgsl: 'twice': same", missing])
    status, _, err = run(capsys, "check", "part.devmod", "--rebuild", built, "--source", "memory")
    assert (status, "--rebuild asks no policy" in err) == (2, True)


def test_without_devmod_targets_an_error_has_the_command_that_installs_it(built: Path) -> None:
    program = (
        "import sys\nsys.modules['devmod_targets'] = None\nfrom devmod._cli import main\n"
        f"sys.exit(main(['check', {str(built / 'k.devmod')!r}, '--rebuild', {str(built)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("devmod: error: devmod-targets, which builds files, ")
