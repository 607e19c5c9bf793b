"""Vulkan and WebGPU on SwiftShader, the driver in Chromium's package: a second implementation
beside Mesa's lavapipe.

Each test starts a process with that driver: the loader reads its variables once. The kit runs on
SwiftShader in `make lowest`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from backend_checks import run_python

from system import SWIFTSHADER, vulkan_drivers

ROOT = Path(__file__).resolve().parent.parent
#: The tests that execute kernels, of each backend.
FILES = {
    "vulkan": ("launch", "images", "addresses", "block_constants", "clspv", "examples"),
    "webgpu": ("launch", "images", "arrays", "examples_webgpu"),
}
#: Slow tests whose result does not depend on the driver, and a second compiler.
OMITTED = "not interrupt and not fork and not two_devices and not no_adapter and not listing and not glslangValidator and not deeply and not c_type"

pytestmark = pytest.mark.skipif(
    not SWIFTSHADER.exists(), reason="SwiftShader is not installed (Debian: apt install chromium)"
)

LISTED = """
import os
import devmod
for each in devmod.devices("vulkan", "webgpu"):
    print(each.kind, each.index, each.name.partition(" ")[0], each.driver_version or each.vendor)
print([devmod.device(kind).index for kind in ("vulkan", "webgpu")])
os.environ["DEVMOD_DEVICE"] = "vulkan:1,webgpu:1"
print([devmod.device(kind).index for kind in ("vulkan", "webgpu")])
"""


def mesa() -> Path:
    """Return the file of lavapipe, or skip the test."""
    found = next(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"), None)
    if found is None:
        pytest.skip("Mesa's driver for the CPU is not where Debian has it")
    return found


def run_tests(folder: Path, *arguments: str | Path, **variables: str) -> str:
    """Run tests in a process, and return what it prints. A test fails if one of them does, or if
    there is no device.
    """
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *("-p", "no:xdist", "-p", "no:cacheprovider"),
            f"--basetemp={folder}",
            *arguments,
        ],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert " was found" not in process.stdout, process.stdout
    return process.stdout


@pytest.mark.volume
@pytest.mark.row("R34")
@pytest.mark.parametrize("kind", FILES)
def test_kernels_on_swiftshader(kind: str, tmp_path: Path) -> None:
    files = [
        ROOT / "plugins" / f"devmod-{kind}" / "tests" / f"test_{name}.py" for name in FILES[kind]
    ]
    files.append(ROOT / "tests" / "test_faults.py")
    run_tests(
        tmp_path / "tests", "-m", "not volume", "-k", OMITTED, *files, **vulkan_drivers(SWIFTSHADER)
    )


@pytest.mark.row("R33")
def test_swiftshader_beside_lavapipe() -> None:
    """The devices of two drivers have one order. DEVMOD_DEVICE chooses each."""
    lavapipe = mesa()
    orders = [vulkan_drivers(lavapipe, SWIFTSHADER), vulkan_drivers(SWIFTSHADER, lavapipe)]
    (first, last), (second, _) = (
        (listed[:-2], listed[-2:])
        for listed in (run_python(LISTED, **order).splitlines() for order in orders)
    )
    assert first == second
    assert [line.split()[:2] for line in first] == [
        [kind, number] for kind in FILES for number in "01"
    ]
    for lines in (first[:2], first[2:]):
        assert sorted(line.split()[2] for line in lines) == ["SwiftShader", "llvmpipe"]
        assert (
            sum("SwiftShader driver" in line for line in lines)
            == sum("Mesa" in line for line in lines)
            == 1
        )
    assert last == ["[0, 0]", "[1, 1]"]


SHORT = '''
import devmod
source = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer Y { int y[]; };
layout(push_constant) uniform P { int n; };
void main() { y[gl_GlobalInvocationID.x] = int16_t(n); }"""
module = devmod.bundle(*[devmod.compile(source, "vulkan", name="f") for _ in range(2)])
verification = devmod.verify(module, arguments={"n": 7})
print([each.outcome for each in verification.functions["f"]])
'''


@pytest.mark.row("R33")
def test_verify_builds_a_candidate_for_the_device_alone_that_it_fits() -> None:
    """SwiftShader, which has no int16, is the first device."""
    found = run_python(SHORT, **vulkan_drivers(SWIFTSHADER, mesa()))
    assert found.strip() == "['reference', 'agrees']"


@pytest.mark.volume
@pytest.mark.row("R33")
def test_the_kit_with_the_devices_of_two_drivers(tmp_path: Path) -> None:
    kits = [ROOT / "plugins" / f"devmod-{kind}" / "tests" / "test_conformance.py" for kind in FILES]
    assert "2 passed" in run_tests(
        tmp_path / "tests", "-k", "R33-several", *kits, **vulkan_drivers(mesa(), SWIFTSHADER)
    )
