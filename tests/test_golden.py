"""Files that a released devmod wrote are read for ever, and the same payloads still give the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
KINDS = ["cuda", "rocm", "opencl", "hexagon", "metal", "vulkan", "webgpu"]
sys.path.insert(0, str(ROOT / "tools"))

import golden  # noqa: E402 - tools/golden.py, which makes the payloads


@pytest.fixture(autouse=True)
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")


def stored(module: devmod.Module) -> list[devmod.Module]:
    found = [] if module.kind == "bundle" else [module]
    return found + [each for child in module.imports for each in stored(child)]


def test_nothing_is_missing() -> None:
    assert sorted(path.name for path in (GOLDEN / "v1").iterdir()) == sorted([*(f"{kind}.bytes" for kind in KINDS), "tree.devmod"])


@pytest.mark.row("R17", "R19", "R21")
@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.glob("v*")))
def test_a_golden_file_is_read_and_saved_back_as_it_is(version: str) -> None:
    path = GOLDEN / version / "tree.devmod"
    module = devmod.load(path)
    assert devmod.dumps(module) == path.read_bytes()
    found = {each.kind: each for each in stored(module)}
    assert sorted(found) == sorted(KINDS)
    for kind, each in found.items():
        assert each.save_to_bytes() == (GOLDEN / version / f"{kind}.bytes").read_bytes()
    assert found["cuda"].functions["add"] == golden.PLAIN
    assert found["webgpu"].functions["scale"] == golden.SHADER
    assert found["cuda"].imports


@pytest.mark.row("R17", "R18", "R38")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_payload_gives_the_bytes_of_the_golden_file(kind: str) -> None:
    (module,) = (module for module in golden.modules() if module.kind == kind)
    assert module.save_to_bytes() == (golden.FOLDER / f"{kind}.bytes").read_bytes()


@pytest.mark.row("R38")
def test_the_same_tree_gives_the_golden_bundle_in_any_process() -> None:
    script = "import sys, golden, devmod; sys.stdout.buffer.write(devmod.dumps(golden.tree()))"
    for seed in ("0", "1"):
        env = {"PYTHONPATH": str(ROOT / "tools"), "PYTHONHASHSEED": seed, "DEVMOD_COMPILE_FORCE_FALLBACK": "1"}
        assert (
            subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=env).stdout
            == (golden.FOLDER / "tree.devmod").read_bytes()
        )
