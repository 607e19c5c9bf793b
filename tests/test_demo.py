"""The demo's scripts on this environment's device, and that they fail loudly. `make demo` itself runs them in two fresh ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo"


def build(out: Path, **replace: tuple[str, str]) -> None:
    """What build.py writes, with parts of some sources replaced."""
    modules = []
    for source in sorted((ROOT / "examples" / "opencl").glob("*.cl")):
        text = source.read_text()
        for old, new in [pair for stem, pair in replace.items() if stem == source.stem]:
            assert old in text
            text = text.replace(old, new)
        modules.append(devmod.compile(text, "opencl"))
    blob = ROOT / "core" / "tests" / "vectors" / "tvm" / "matmul.opencl.tvmimports"
    modules += devmod.interop.tvm.load_imports(blob.read_bytes()).imports
    devmod.save(devmod.bundle(*modules), out / "kernels.devmod")
    digests = {next(iter(module.functions)): hashlib.sha256(module.save_to_bytes()).hexdigest() for module in modules}
    (out / "digests.json").write_text(json.dumps(digests))


def run(out: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"DEVMOD_CACHE_DIR": str(out / "cache"), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, str(DEMO / "run.py"), str(ROOT), str(out)], capture_output=True, text=True, check=False, env=env, cwd=out
    )


@pytest.mark.row("R18", "R37")
def test_everything_runs_agrees_and_is_drawn(tmp_path: Path) -> None:
    build(tmp_path)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("softmax", "tiled matmul", "Gaussian blur", "Mandelbrot", "sum", "TVM's matmul"):
        assert f"│ {name} " in done.stdout
    assert done.stdout.count("│ same ") == 6
    for name in ("blur.png", "mandelbrot.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert str(tmp_path / name) in done.stdout


def test_a_wrong_result_fails_the_demo(tmp_path: Path) -> None:
    build(tmp_path, matmul=("sum += ", "sum -= "))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "FAILED tiled matmul: the largest error is " in done.stdout


def test_other_bytes_fail_the_demo(tmp_path: Path) -> None:
    build(tmp_path)
    digests = json.loads((tmp_path / "digests.json").read_text())
    (tmp_path / "digests.json").write_text(json.dumps(digests | {"softmax": "0" * 64}))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "FAILED the module with softmax: the build box saved other bytes" in done.stdout


@pytest.mark.row("R29")
def test_the_build_box_refuses_to_be_one_where_a_runtime_is_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO / "build.py"), str(ROOT), str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "the opencl runtime is installed; this environment was to have none" in done.stderr
