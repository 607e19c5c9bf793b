"""The demo's scripts on this environment's device, and that they fail loudly. `make demo` itself runs them in two fresh ones."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo"
sys.path.insert(0, str(DEMO))

from build import SOURCES, compile_kind, compile_one_source  # noqa: E402


def build(out: Path, *, kinds: Sequence[str] = ("opencl",), only: Sequence[str] = (), **replace: tuple[str, str]) -> None:
    """What build.py writes, with parts of some sources replaced, or with some sources alone, which may be replaced."""
    modules = []
    digests: dict[str, dict[str, str]] = {}
    for kind in kinds:
        stems = [(name.partition(".")[0], module) for name, module in compile_kind(ROOT, kind)]
        made = [module for stem, module in stems if stem not in replace and (not only or stem in only)]
        for stem, (old, new) in replace.items():
            text = (ROOT / "examples" / kind / f"{stem}{Path(SOURCES[kind]).suffix}").read_text()
            assert old in text
            made.append(devmod.compile(text.replace(old, new), kind))
        digests[kind] = {next(iter(module.functions)): hashlib.sha256(module.save_to_bytes()).hexdigest() for module in made}
        modules += made
    devmod.save(devmod.bundle(*modules), out / "kernels.devmod")
    (out / "digests.json").write_text(json.dumps({"kernels.devmod": digests}))


def run(out: Path, demo: Path = DEMO) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"DEVMOD_CACHE_DIR": str(out / "cache"), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, str(demo / "run.py"), str(ROOT), str(out)], capture_output=True, text=True, check=False, env=env, cwd=out
    )


SHADERS = ("softmax", "tiled matmul", "Gaussian blur", "Mandelbrot", "sum")
RUNS = {"opencl": (*SHADERS, "TVM's matmul"), "vulkan": SHADERS, "webgpu": (*SHADERS, "TVM's matmul")}


@pytest.mark.volume_but("one")
@pytest.mark.row("R18", "R37")
@pytest.mark.parametrize("kinds", [("opencl",), tuple(SOURCES)], ids=["one", "all"])
def test_everything_runs_on_every_kind_agrees_and_is_drawn(kinds: tuple[str, ...], tmp_path: Path) -> None:
    build(tmp_path, kinds=kinds)
    pictures = devmod.build(ROOT / "examples" / "applications" / "pictures", targets=["opencl"], output=tmp_path / "pictures.devmod")
    pictures.raise_for_failures()
    process = run(tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "pictures.devmod: one call launches bilateral, equalize, histogram, mapping, resize" in process.stdout
    assert re.search(r"│ enhance +│ opencl +│.* ms │ resize 0\.", process.stdout), process.stdout
    assert (tmp_path / "opencl-enhanced.png").read_bytes().startswith(b"\x89PNG")
    for kind, names in ((kind, RUNS[kind]) for kind in kinds if kind in RUNS):
        if f"not run, {kind}: " in process.stdout:
            continue  # the tests of that runtime say in the list of skips that there is no device
        for name in names:
            assert re.search(rf"│ {name} +│ {kind} ", process.stdout), process.stdout
        for name in ("blur.png", "mandelbrot.png"):
            assert (tmp_path / f"{kind}-{name}").read_bytes().startswith(b"\x89PNG")
            assert str(tmp_path / f"{kind}-{name}") in process.stdout
    assert "│ opencl " in process.stdout
    _, _, calls = process.stdout.partition("the same line of Python on every kind")
    listed = ", ".join(kind for kind in kinds if f"not run, {kind}: " not in process.stdout)
    call = re.escape('module["softmax"].on(device)(x=…, y=…, columns=1000, grid=512)')
    assert re.search(rf"│ softmax +│ {call} +│ {listed} +│", calls), calls
    assert (tmp_path / "demo.png").stat().st_size < 60_000  # the README's picture is a copy of it
    assert process.stdout.count("│ same ") == len(kinds)


@pytest.mark.volume
@pytest.mark.row("R37")
def test_one_file_of_two_languages_runs_on_each_kind(tmp_path: Path) -> None:
    targets = {"opencl": "OpenCL C", "hexagon -arch=v66": "Slang"}
    modules = {target.partition(" ")[0]: compile_one_source(ROOT, language, target) for target, language in targets.items()}
    devmod.save(devmod.bundle(*(module for named in modules.values() for _, module in named)), tmp_path / "one_source.devmod")
    digests = {
        kind: {next(iter(module.functions)): hashlib.sha256(module.save_to_bytes()).hexdigest() for _, module in named}
        for kind, named in modules.items()
    }
    (tmp_path / "digests.json").write_text(json.dumps({"one_source.devmod": digests}))
    process = run(tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    _, _, calls = process.stdout.partition("the same line of Python on every kind")
    kinds = "opencl" if "not run, hexagon: " in process.stdout else r"opencl, hexagon \(smaller\)"
    for name in ("Gaussian blur", "Mandelbrot"):
        assert re.search(rf"│ {name} +│ .* │ {kinds} +│", calls), calls
    assert process.stdout.count("│ same ") == 2


def test_the_demo_lists_each_failure(tmp_path: Path) -> None:
    """A call that differs between kinds, a wrong result, and other bytes than the build machine's."""
    build(tmp_path, kinds=("opencl", "webgpu"), only=("softmax", "reduction"), matmul=("sum += ", "sum -= "))
    digests = json.loads((tmp_path / "digests.json").read_text())
    digests["kernels.devmod"]["opencl"]["softmax"] = "0" * 64
    (tmp_path / "digests.json").write_text(json.dumps(digests))
    demo = tmp_path / "demo"
    shutil.copytree(DEMO, demo, ignore=shutil.ignore_patterns("__pycache__"))
    text = (demo / "cases.py").read_text()
    call = 'module["softmax"](x=x, y=y, columns=columns, grid=rows)'
    assert call in text
    (demo / "cases.py").write_text(text.replace(call, f"{call[:-1]}, **({{}} if device.kind == 'opencl' else {{'block': 64}}))"))
    process = run(tmp_path, demo)
    assert process.returncode == 1
    assert "FAILED tiled matmul on opencl: the largest error is " in process.stdout
    assert "FAILED the opencl module with softmax: the build machine saved other bytes" in process.stdout
    if "not run, webgpu: " in process.stdout:
        pytest.skip("there is no WebGPU device")
    assert "FAILED the call of softmax is not the same on every kind" in process.stdout
    assert "block=64" in process.stdout
    assert re.search(r"│ sum +│ .* │ opencl, webgpu +│", process.stdout), process.stdout


@pytest.mark.row("R29")
def test_the_build_fails_where_a_runtime_is_installed(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, str(DEMO / "build.py"), str(ROOT), str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert process.returncode == 1
    assert "the opencl runtime is installed; expected an environment without runtimes" in process.stderr
