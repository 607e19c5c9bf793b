"""The transformer of examples/applications: one file for every kind with its weights, and run.py.
The tests of each plugin run it.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from transformer_port import PROJECT, build_transformer

import devmod
from devmod.backend import walk

KINDS = {"cuda", "rocm", "metal", "vulkan", "opencl", "webgpu", "hexagon"}


@pytest.mark.row("R37", "R38")
def test_one_file_has_the_kernels_of_every_kind_and_the_model(tmp_path: Path) -> None:
    kernels = build_transformer(tmp_path)
    names = re.findall(r"^\| `(\w+)` ", (PROJECT / "README.md").read_text(), re.MULTILINE)
    modules = [module for module in walk(kernels) if module.kind in KINDS]
    for kind in KINDS:
        candidates = [module for module in modules if module.kind == kind]
        assert sorted(name for module in candidates for name in module.functions) == sorted(
            names
        ), kind
    for name in names:
        interfaces = [
            module.functions[name].interface for module in modules if name in module.functions
        ]
        orders = {
            tuple(param.name for param in interface.params)
            for interface in interfaces
            if interface is not None
        }
        assert (len(interfaces), len(orders)) == (len(KINDS), 1), name

    if not devmod.devices("opencl"):
        pytest.skip("run.py runs here with an OpenCL device")
    runpy.run_path(str(PROJECT / "build_model.py"))["main"](["opencl"], tmp_path)
    env = os.environ | {"DEVMOD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONUTF8": "1"}
    options = [
        "--model",
        str(tmp_path / "transformer.devmod"),
        "--device",
        "opencl",
        "--tokens",
        "8",
    ]
    command = [sys.executable, str(PROJECT / "run.py"), *options]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "\n11 kernels agree with NumPy\n8 steps agree with NumPy; " in process.stdout
    assert re.search(r"^tokens: 1 5 25 125 625( \d+){3}$", process.stdout, re.MULTILINE)
