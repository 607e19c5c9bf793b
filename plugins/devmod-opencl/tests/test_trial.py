"""Another process builds a program binary before this process loads it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opencl_kernels import ADD, add_info

import devmod
from devmod_opencl import _driver, _trial


@pytest.fixture
def binary(device: Any) -> bytes:
    if device.platform != _driver.POCL:
        pytest.skip("the device is not PoCL's, whose binaries hold LLVM's bitcode")
    return _driver.binary_of(_driver.build_source(device.context, device.handle, ADD, (), "the source"))


def load_add(binary: bytes) -> Any:
    return devmod.create("opencl", binary, "clbin", {"add": add_info()})["add"]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Return the sizes of the tried binaries, a list that grows. The cache is empty."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    sizes: list[int] = []
    run = _trial._run

    def count(request: Any, binary: bytes, folder: str) -> Any:
        sizes.append(len(binary))
        return run(request, binary, folder)

    monkeypatch.setattr(_trial, "_run", count)
    return sizes


@pytest.mark.row("R31")
def test_a_valid_binary_is_tried_once(binary: bytes, trials: list[int]) -> None:
    for _ in range(2):
        c = np.zeros(64, "float32")
        load_add(binary)(np.ones(64, "float32"), np.ones(64, "float32"), c, 64, grid=1, block=64)
        assert c.tolist() == [2] * 64
    assert trials == [len(binary)]


#: Loads a binary and launches it. PoCL ignores the code of a binary that its cache contains, so the cache is empty.
LAUNCH = """
import sys, numpy as np, devmod
info = devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"], ["blockIdx.x", "threadIdx.x"])
try:
    add = devmod.create("opencl", sys.stdin.buffer.read(), "clbin", {"add": info})["add"]
    add(*(np.ones(64, "float32") for _ in range(3)), 64, grid=1, block=64)
except devmod.FormatError as error:
    print(error)
"""


@pytest.mark.row("R41")
def test_a_damaged_binary_does_not_end_the_process(binary: bytes, tmp_path: Path) -> None:
    rng = random.Random(5)
    body = binary.index(b"BC\xc0\xde")
    count = int(os.environ.get("DEVMOD_TEST_BINARIES", "6"))
    number = refused = 0
    while number < count or refused < count // 3:  # not every damage makes the compiler crash
        data = bytearray(binary)
        for _ in range(8):  # a single flipped bit often hits code that the kernel does not use
            data[rng.randrange(body, body + 35000)] ^= 1 << rng.randrange(8)
        env = os.environ | {"POCL_CACHE_DIR": str(tmp_path / str(number)), "DEVMOD_CACHE_DIR": str(tmp_path / "cache")}
        (tmp_path / str(number)).mkdir()
        process = subprocess.run([sys.executable, "-c", LAUNCH], input=bytes(data), env=env, capture_output=True, timeout=300, check=False)
        assert process.returncode == 0, process.stderr.decode(errors="replace")
        refused += b"the process that built it" in process.stdout
        number += 1


def test_a_kernel_that_crashes_on_zeros_is_not_reported_as_damaged(device: Any, trials: list[int]) -> None:
    source = "kernel void k(global int *a) { global int *p = (global int *)(size_t)a[0]; *p = 1; }"
    binary = _driver.binary_of(_driver.build_source(device.context, device.handle, source, (), "the source"))
    info = devmod.FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"])
    assert devmod.create("opencl", binary, "clbin", {"k": info})["k"]
    assert trials == [len(binary)]


def test_an_environment_variable_disables_the_trial(binary: bytes, trials: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_OPENCL_TRIAL", "0")
    assert load_add(binary)
    assert trials == []
