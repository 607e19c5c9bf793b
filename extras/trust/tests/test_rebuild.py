"""`devmod check --rebuild`: files that are the same as a build here, and files that are not."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import call as run
from signing import key, policy, rule

import devmod
from devmod.backend import Payload, module_of, walk
from devmod_trust import sign

pytestmark = pytest.mark.once  # the output of compilers, compared with a file

Compare = Callable[[str | Path, Path], tuple[int, list[str]]]

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


#: The results of builds and the bytes of their files, by the folder, its sources and the options.
BUILDS: dict[object, tuple[object, Any]] = {}


@pytest.fixture(autouse=True)
def each_build_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a folder with the same sources once for all tests: compilers take nearly all of their
    time.
    """
    module = pytest.importorskip(
        "devmod_targets.build.build",
        reason='devmod-targets is not installed: pip install "devmod-core[build]"',
    )
    build = module.build_manifest

    def build_manifest(place: str | Path, output: str = "", **options: object) -> object:
        folder = Path(str(place).removesuffix("devmod.toml"))
        texts = [(folder / name).read_text() for name in ("devmod.toml", "scale.cl")]
        file = Path(output or folder / "k.devmod")
        key = (folder.name, *texts, *options.items())
        if key not in BUILDS:
            result = build(place, output=file, **options)
            BUILDS[key] = result, result.written and file.read_bytes()
        result, data = BUILDS[key]
        if data:
            file.write_bytes(data)
        return result

    monkeypatch.setattr(module, "build_manifest", build_manifest)


@pytest.fixture(name="built")
def built_fixture() -> Path:
    """A project and its file."""
    folder = project("here")
    devmod.build(folder, cache=False).raise_for_failures()
    return folder


@pytest.fixture(name="compare")
def compare_fixture(capsys: pytest.CaptureFixture[str]) -> Compare:
    """A function that compares a file with a build. It returns the status and the lines of the
    command.
    """

    def compare(file: str | Path, manifest: Path) -> tuple[int, list[str]]:
        status, out, _ = run(capsys, "check", file, "--rebuild", manifest)
        return status, out.splitlines()

    return compare


SAME = ["opencl cl: 'scale': same", "webgpu wgsl: 'twice': same"]
MISSING = "opencl cl: 'scale': missing (the manifest builds it, and the file does not have it)"


def test_two_signers_who_build_in_two_places_sign_the_same(built: Path, compare: Compare) -> None:
    there = project("there")
    devmod.build(there, output="other name.devmod", cache=False).raise_for_failures()
    assert Path("other name.devmod").read_bytes() == (built / "k.devmod").read_bytes()
    for signer, folder in (("acme", built), ("bob", there)):
        key(signer)
        assert compare(built / "k.devmod", folder) == (0, SAME)
        sign(built / "k.devmod", f"{signer}.pem", name="acme/k", version=1)
    os.environ["DEVMOD_TRUST"] = policy(
        rule('["here/*"]', "acme/k", '["acme.pub", "bob.pub"]', "threshold = 2")
    )
    assert [*devmod.load(built / "k.devmod")] == ["scale", "twice"]


def test_what_is_no_difference(built: Path, compare: Compare) -> None:
    """Comments are in a payload of text. The compression and sources of a file are not in its
    payloads.
    """
    devmod.save(devmod.load(built / "k.devmod"), "other.devmod", compress="zstd", with_sources=True)
    assert compare("other.devmod", built / "devmod.toml") == (0, SAME)


def test_a_planted_difference(
    built: Path, compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = project("evil", KERNEL.replace("*= factor", "*= factor + 1"))
    devmod.build(evil, output="k.devmod", cache=False).raise_for_failures()
    status, lines = compare("k.devmod", built)
    assert (status, lines[1:]) == (1, SAME[1:])
    assert lines[0].startswith("opencl cl: 'scale': differs (both were built by libclang ")
    assert lines[0].endswith("; of other sources: 'scale.cl')")
    status, report, _ = run(capsys, "check", "k.devmod", "--rebuild", built, "--json")
    assert (status, [each["outcome"] for each in json.loads(report)["payloads"]]) == (
        1,
        ["differs", "same"],
    )


PROGRAM = """[programs.grow]
updates = ["x: float32[n]"]
steps = ["scale(x=x, factor=2.0, threads=n, block=1)"]
"""
GROW = ["program steps1: 'grow': same", *SAME]
TREE = [
    *GROW,
    "the tree of modules: differs (it has the same payloads in another order, or with other imports)",
]
LESS = [
    SAME[1],
    "program steps1: 'grow': missing (the manifest builds it, and the file does not have it)",
]
FEWER = "not rebuilt (the manifest builds fewer of these payloads)"
EQUAL = "opencl cl: 'scale': differs (its bytes are the same; "


def renewed(
    module: devmod.Module, source: dict[str, str] | None = None, **fields: object
) -> devmod.Module:
    """Return a module with the bytes of another one, and with another origin or other sources
    beside it.
    """
    origin = module.origin.replace(**fields)  # type: ignore[union-attr]
    code = module.code  # type: ignore[attr-defined]
    return module_of(Payload("opencl", code, module.format, module.functions, source, origin))


#: The modules of a file that is made of those of the build, and of equal new ones: the program, the
#: two kernels.
CASES: dict[
    str,
    tuple[Callable[[devmod.Module, Sequence[devmod.Module]], Sequence[devmod.Module]], list[str]],
] = {
    "as it is": (lambda file, new: file.imports, GROW),
    "a copy of a payload": (
        lambda file, new: [file, new[1]],
        [*GROW, f"opencl cl: 'scale': {FEWER}"],
    ),
    "a copy of a program": (
        lambda file, new: [file, new[0]],
        [*GROW, *(each.replace("same", FEWER) for each in GROW)],
    ),
    "a payload twice in the tree": (lambda file, new: [*file.imports, file], TREE),
    "another order": (
        lambda file, new: [file.imports[0], devmod.bundle(*file.imports[1].imports[::-1])],
        TREE,
    ),
    "other sources in the origin": (
        lambda file, new: [renewed(new[1], sources={"scale.cl": "0" * 64}), new[2]],
        [f"{EQUAL}of other sources: 'scale.cl')", *LESS],
    ),
    "other options in the origin": (
        lambda file, new: [renewed(new[1], options=["-O0"]), new[2]],
        [f"{EQUAL}for another target or with other options)", *LESS],
    ),
    "other sources beside it": (
        lambda file, new: [renewed(new[1], {"hip": "nothing"}), new[2]],
        [f"{EQUAL[:-2]}; with other sources beside it)", *LESS],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_file_has_beyond_the_payloads_of_the_build(case: str, compare: Compare) -> None:
    folder = project("here", manifest=MANIFEST + PROGRAM)
    devmod.build(folder, cache=False).raise_for_failures()
    (make, lines), file = CASES[case], devmod.load(folder / "k.devmod")
    new = [each for each in walk(devmod.load(folder / "k.devmod")) if each.kind != "bundle"]
    devmod.save(devmod.bundle(*make(file, new), mixed=True), "other.devmod", with_sources=True)
    assert compare("other.devmod", folder) == (int(lines != GROW), lines)


def test_the_same_bytes_by_another_version_of_a_tool(built: Path, compare: Compare) -> None:
    scale, twice = devmod.load(built / "k.devmod").imports
    devmod.save(devmod.bundle(renewed(scale, toolchain="libclang 1.0"), twice), "old.devmod")
    status, lines = compare("old.devmod", built)
    assert (status, lines[1]) == (0, SAME[1])
    assert lines[0].startswith(
        "opencl cl: 'scale': same (the file was built by libclang 1.0, and libclang "
    )


def test_another_version_of_a_tool_is_named(built: Path, compare: Compare) -> None:
    scale, twice = devmod.load(built / "k.devmod").imports
    assert scale.origin is not None
    origin = devmod.Origin("opencl", "libclang 1.0", sources=scale.origin.sources)
    code = b"kernel void scale(global float *x, float factor) {}"
    module = module_of(Payload("opencl", code, "cl", scale.functions, origin=origin))
    devmod.save(devmod.bundle(module, twice), "old.devmod")
    line = compare("old.devmod", built)[1][0]
    assert line.startswith(
        "opencl cl: 'scale': differs (the file was built by libclang 1.0, and libclang "
    )
    assert line.endswith(" is here)")


def test_a_payload_that_cannot_be_rebuilt(built: Path, compare: Compare) -> None:
    status, lines = compare(built / "k.devmod", project("broken", "kernel void scale("))
    assert (status, lines[1]) == (1, SAME[1])
    assert lines[0].startswith("opencl cl: 'scale': not rebuilt (")
    assert "scale.cl" in lines[0]
    less = project(
        "less", manifest=MANIFEST.partition("[kernels.twice]")[0].replace(', "webgpu"', "")
    )
    assert compare(built / "k.devmod", less) == (
        1,
        [SAME[0], "webgpu wgsl: 'twice': not rebuilt (the manifest builds no such payload)"],
    )


def test_a_payload_that_the_file_lacks_and_a_function_of_another_name(
    built: Path, compare: Compare
) -> None:
    devmod.save(devmod.load(built / "k.devmod").imports[1], "part.devmod")
    assert compare("part.devmod", built) == (1, [SAME[1], MISSING])
    devmod.build(
        project("renamed", KERNEL.replace("void scale", "void grow")), cache=False
    ).raise_for_failures()
    renamed = "opencl cl: 'grow': not rebuilt (the manifest builds no such payload)"
    assert compare("renamed/k.devmod", built) == (1, [renamed, SAME[1], MISSING])


def test_a_rebuild_is_no_check_by_a_policy(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(
        capsys, "check", built / "k.devmod", "--rebuild", built, "--source", "memory"
    )
    assert (status, "--rebuild asks no policy" in err) == (2, True)


def test_without_devmod_targets_an_error_has_the_command_that_installs_it(
    built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "devmod_targets.build.build", None)
    status, out, err = run(capsys, "check", built / "k.devmod", "--rebuild", built)
    assert (status, out) == (1, "")
    assert err.startswith("devmod: error: devmod-targets, which builds files, ")
