"""The versions that belong to the keys of a build's cache."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from each_case import refusal

import devmod
from devmod_targets._executables import clear_caches, file_digest, version_of
from devmod_targets._toolchain import SmallKernel, Toolchain
from devmod_targets.build import toolchains
from devmod_targets.build.plan import Job
from devmod_targets.build.skeleton import find_sources, manifest_text


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("DEVMOD_CLANG", "DEVMOD_ROCM_DEVICE_LIBS"):
        monkeypatch.delenv(name, raising=False)
    clear_caches()
    yield
    clear_caches()


def key(target: str, *options: str) -> str:
    clear_caches()
    return toolchains.toolchain_of(Job("k", "/p", "k.x", target, options=options))


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "target",
    [
        "opencl",
        "metal",
        "vulkan",
        "webgpu",
        "cuda -arch=sm_90",
        "rocm -arch=gfx1100",
        "hexagon -arch=v68",
    ],
)
def test_each_kind_has_the_versions_of_devmod_and_of_its_wheels(target: str) -> None:
    names = [line.partition(" ")[0] for line in key(target).splitlines()]
    assert names[:3] == ["devmod-core", "devmod-readers", "devmod-targets"]
    wheels = {
        "opencl": ["libclang", "ziglang"],
        "metal": ["libclang"],
        "vulkan": ["slangpy"],
        "rocm": ["libclang", "ziglang"],
        "hexagon": ["libclang", "ziglang"],
    }
    for wheel in wheels.get(target.partition(" ")[0], []):
        assert wheel in names


@pytest.mark.parametrize(("target", "wheel"), [("opencl", "libclang"), ("vulkan", "slangpy")])
def test_another_version_of_a_wheel_is_another_key(
    target: str, wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = set()
    for version in ("18.1.1", "19.0.0"):
        folder = tmp_path / version
        (folder / f"{wheel}-{version}.dist-info").mkdir(parents=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [str(folder), *sys.path])
            keys.add(key(target))
    assert len(keys) == 2


def test_a_wheel_that_counts_for_another_kind_does_not_change_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key("opencl")
    (tmp_path / "nvidia_cuda_nvrtc-99.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert key("opencl") == before
    assert "nvidia-cuda-nvrtc 99.0" in key("cuda -arch=sm_90").splitlines()


def test_a_changed_header_of_nvidias_wheels_is_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "nvidia" / "cu13" / "include" / "crt" / "extra.h"
    header.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    keys = set()
    for text in ("#define A 1\n", "#define A 2\n"):
        header.write_text(text)
        keys.add(key("cuda -arch=sm_90"))
    header.rename(header.with_name("other.h"))
    keys.add(key("cuda -arch=sm_90"))
    assert len(keys) == 3


def test_a_libclang_of_an_unknown_version_has_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_wheel = key("opencl")
    (tmp_path / "clang").mkdir()
    (tmp_path / "clang" / "__init__.py").touch()
    monkeypatch.setattr(
        sys,
        "path",
        [str(tmp_path), *(folder for folder in sys.path if "site-packages" not in folder)],
    )
    monkeypatch.delitem(sys.modules, "clang", raising=False)
    assert (with_wheel != "", key("opencl")) == (True, "")
    assert key("webgpu") != ""


def test_the_digest_of_a_file_that_was_just_written_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second write within one step of the file system's clock would leave the same times."""
    path = tmp_path / "data"
    path.write_bytes(b"one")
    now = path.stat().st_ctime_ns

    def stored() -> int:
        file_digest(str(path))
        return sum(each.is_file() for each in (tmp_path / "cache").rglob("*"))

    monkeypatch.setattr("time.time_ns", lambda: now + 10**9)
    assert stored() == 0
    monkeypatch.setattr("time.time_ns", lambda: now + 10**10)
    assert stored() > 0


@pytest.mark.skipif(os.name != "posix", reason="the programs are scripts")
def test_a_changed_program_in_path_is_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    without = key("vulkan")
    program(tmp_path / "bin" / "glslangValidator", "#!/bin/sh\n# one\n")
    first = key("vulkan")
    program(tmp_path / "bin" / "glslangValidator", "#!/bin/sh\n# two\n")
    second = key("vulkan")
    assert len({without, first, second}) == 3
    assert key("opencl") == key("opencl")
    (tmp_path / "bin").rename(tmp_path / "moved")
    monkeypatch.setenv("PATH", str(tmp_path / "moved"))
    assert key("vulkan") == second  # the folder is no part of it


@pytest.mark.skipif(os.name != "posix", reason="the programs are scripts")
def test_a_clang_that_the_user_names_belongs_to_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [key("rocm -arch=gfx1100")]
    clang = program(tmp_path / "bin" / "clang-19", "#!/bin/sh\n# clang\n")
    job = Job("k", "/p", "k.x", "rocm -arch=gfx1100", options=(f"-toolchain={clang}",))
    assert not toolchains.knows_headers(job)  # and its results are not cached
    headers = tmp_path / "lib" / "clang" / "19" / "include"
    headers.mkdir(parents=True)
    (tmp_path / "lib" / "clang" / "18" / "include").mkdir(parents=True)
    clear_caches()
    assert toolchains.knows_headers(job)
    keys.append(key("rocm -arch=gfx1100", f"-toolchain={clang}"))
    program(tmp_path / "bin" / "ld.lld", "#!/bin/sh\n# lld\n")
    keys.append(key("rocm -arch=gfx1100", f"-toolchain={clang}"))
    (tmp_path / "lib" / "libLLVM.so.19.1").write_text("the optimizer and the code generators")
    keys.append(key("rocm -arch=gfx1100", f"-toolchain={clang}"))
    assert len({"", *keys}) == 5
    monkeypatch.setenv("DEVMOD_CLANG", str(clang))
    assert key("rocm -arch=gfx1100") == keys[-1]
    assert toolchains.system_headers(Job("k", "/p", "k.x", "hexagon -arch=v68")).folders[1] == str(
        headers
    )


def test_the_device_library_of_rocm_belongs_to_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ocml.bc").write_bytes(b"one")
    monkeypatch.setenv("DEVMOD_ROCM_DEVICE_LIBS", str(tmp_path))
    first = key("rocm -arch=gfx1100")
    (tmp_path / "ocml.bc").write_bytes(b"two")
    assert key("rocm -arch=gfx1100") != first
    assert key("rocm -arch=gfx1100", f"-device-libs={tmp_path}") == key("rocm -arch=gfx1100")


def test_a_metallib_has_no_key() -> None:
    assert key("metal -format=metallib") == ""


def test_a_compiler_of_another_wheel_gives_its_versions_by_a_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = ModuleType("toy_compiler")
    compiler.compile = compiler.toolchain_key = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_compiler", compiler)
    spec = devmod.TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=["toy"],
        compiler="toy_compiler:compile",
    )
    devmod.register("devmod.targets", "toy", spec)
    try:
        assert key("toy") == ""
        compiler.toolchain_key = lambda target, options: f"toycc 1.0 for {target}"  # type: ignore[attr-defined]
        assert key("toy -arch=a").splitlines()[-1] == "toycc 1.0 for toy -arch=a"
        compiler.toolchain_key = lambda target, options: 1 / 0  # type: ignore[attr-defined]
        assert key("toy") == ""
    finally:
        devmod.register("devmod.targets", "toy", None, replace=True)


@pytest.fixture
def toolchain_of_toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that the spec of a kind of another wheel names."""
    module = ModuleType("toy_compiler")
    monkeypatch.setitem(sys.modules, "toy_compiler", module)
    spec = devmod.TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=["toy"],
        languages={"toy": "Toy C"},
        compiler="toy_compiler:compile",
        toolchain="toy_compiler:TOOLCHAIN",
    )
    devmod.register("devmod.targets", "toy", spec)
    yield module
    devmod.register("devmod.targets", "toy", None, replace=True)


def fails(*_: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize("broken", ["versions", "files"])
def test_a_toolchain_that_fails_has_no_key(broken: str, toolchain_of_toy: ModuleType) -> None:
    sound = Toolchain("toy_compiler", SmallKernel("k.toy"), versions=lambda target: ["toycc 1.0"])
    toolchain_of_toy.TOOLCHAIN = sound  # type: ignore[attr-defined]
    assert key("toy").splitlines()[-1] == "toycc 1.0"
    toolchain_of_toy.TOOLCHAIN = sound._replace(**{broken: fails})  # type: ignore[attr-defined]
    assert key("toy") == ""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a text", "TypeError: expected a Toolchain, got str"),
        (None, "AttributeError: module 'toy_compiler' has no attribute 'TOOLCHAIN'"),
    ],
)
def test_a_broken_toolchain_stops_its_own_kind_alone(
    value: Any, reason: str, toolchain_of_toy: ModuleType, tmp_path: Path
) -> None:
    if value is not None:
        toolchain_of_toy.TOOLCHAIN = value  # type: ignore[attr-defined]
    (tmp_path / "k.cl").write_text("kernel void k(local float *s) {}")
    found = find_sources(str(tmp_path), ["opencl"])
    assert found == (["k.cl"], [])
    assert '# local = { s = "4/thread" }' in manifest_text(str(tmp_path), found[0], ["opencl"])
    assert (
        refusal(devmod.PluginError, find_sources, str(tmp_path), ["toy"])
        == f"the toolchain of the target 'toy' (toy_compiler:TOOLCHAIN) is broken: {reason}"
    )


@pytest.mark.skipif(os.name != "posix", reason="the programs are scripts")
def test_a_program_is_asked_for_its_version_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it, or a library beside it, changes. A script may run another program, and is asked
    each time.
    """
    now = time.time_ns()
    monkeypatch.setattr(
        "time.time_ns", lambda: now + 10**10
    )  # a change within a step of the file system's clock is not stored
    compiler = program(tmp_path / "bin" / "glslangValidator", "\x7fELF one")
    script = program(tmp_path / "bin" / "glslc", "#!/bin/sh\n")
    (tmp_path / "lib").mkdir()
    asked: list[str] = []

    def version(path: Path) -> str:
        clear_caches()
        return version_of(str(path), lambda: asked.append(path.name) or f"{path.name} {len(asked)}")  # type: ignore[func-returns-value]

    assert [version(compiler), version(compiler)] == ["glslangValidator 1"] * 2
    program(compiler, "\x7fELF another")
    assert [version(compiler), version(compiler)] == ["glslangValidator 2"] * 2
    (tmp_path / "lib" / "libSPIRV-Tools.so").write_text("the optimizer")
    assert [version(compiler), version(compiler)] == ["glslangValidator 3"] * 2
    assert [version(script), version(script)] == ["glslc 4", "glslc 5"]
    dxc = program(tmp_path / "bin" / "dxc", "\x7fELF")
    answers = ["", "1.7"]  # first without a library that a variable of the environment names
    assert [version_of(str(dxc), lambda: answers.pop(0)) for _ in range(3)] == ["", "1.7", "1.7"]
