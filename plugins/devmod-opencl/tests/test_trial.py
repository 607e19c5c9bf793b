"""Another process builds a program binary before this process loads it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opencl_kernels import ADD, add_info

import devmod
from devmod_opencl import _driver, _linker, _trial


@pytest.fixture
def binary(pocl: Any) -> bytes:
    return _driver.binary_of(_driver.build_source(pocl.context, pocl.handle, ADD, (), "the source"))


def load_add(binary: bytes) -> Any:
    return devmod.create("opencl", binary, "clbin", {"add": add_info()})["add"]


@pytest.fixture
def trials(pocl: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Return the sizes of the tried programs, a list that grows. The cache is empty."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_linker, "_tried", set())
    sizes: list[int] = []
    run = _trial.run_trial

    def count(request: Any, binary: bytes, folder: str) -> Any:
        sizes.append(len(binary))
        return run(request, binary, folder)

    monkeypatch.setattr(_trial, "run_trial", count)
    return sizes


@pytest.fixture
def binary_trials(pocl: Any, trials: list[int]) -> list[int]:
    """Return the same list after a trial of the linker, which is not in it."""
    _linker.try_linker(pocl)
    trials.clear()
    return trials


@pytest.mark.row("R31")
def test_a_valid_binary_is_tried_once(binary: bytes, binary_trials: list[int]) -> None:
    for _ in range(2):
        c = np.zeros(64, "float32")
        load_add(binary)(np.ones(64, "float32"), np.ones(64, "float32"), c, 64, grid=1, block=64)
        assert c.tolist() == [2] * 64
    assert binary_trials == [len(binary)]


#: Loads a binary and launches it. PoCL ignores the code of a binary that its cache contains, so the
#: cache is empty.
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
    count = int(os.environ.get("DEVMOD_TEST_BINARIES", "2"))
    number = refused = 0
    # Not every damage makes the compiler crash.
    while number < count or refused < max(1, count // 3):
        data = bytearray(binary)
        for _ in range(8):  # a single flipped bit often hits code that the kernel does not use
            data[rng.randrange(body, body + 35000)] ^= 1 << rng.randrange(8)
        env = os.environ | {
            "POCL_CACHE_DIR": str(tmp_path / str(number)),
            "DEVMOD_CACHE_DIR": str(tmp_path / "cache"),
        }
        (tmp_path / str(number)).mkdir()
        process = subprocess.run(
            [sys.executable, "-c", LAUNCH],
            input=bytes(data),
            env=env,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, process.stderr.decode(errors="replace")
        refused += b"the process that built it" in process.stdout
        number += 1


def test_a_kernel_that_crashes_on_zeros_is_not_reported_as_damaged(
    pocl: Any, binary_trials: list[int]
) -> None:
    source = "kernel void k(global int *a) { global int *p = (global int *)(size_t)a[0]; *p = 1; }"
    binary = _driver.binary_of(
        _driver.build_source(pocl.context, pocl.handle, source, (), "the source")
    )
    info = devmod.FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"])
    assert devmod.create("opencl", binary, "clbin", {"k": info})["k"]
    assert binary_trials == [len(binary)]


@pytest.mark.volume_but("unset")
@pytest.mark.parametrize("path", ["a folder without programs", "unset"])
def test_a_machine_without_a_linker_is_an_error(
    path: str,
    pocl: Any,
    binary: bytes,
    trials: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """PoCL searches it in PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    if path == "unset":
        monkeypatch.delenv("PATH")
    text = (
        f"{pocl} cannot run kernels: PoCL runs the system's linker (ld), which needs gcc's library, and the process that tried it "
        'ended with signal 6 (error: unable to execute command: Executable "ld" doesn\'t exist!). Install gcc (Debian, Ubuntu: apt-get '
        "install gcc; Fedora: dnf install gcc; macOS: xcode-select --install). DEVMOD_OPENCL_TRIAL=0 disables this check"
    )
    messages = []
    for fmt, code in (("cl", ADD.encode()), ("clbin", binary)):
        try:
            devmod.create("opencl", code, fmt, {"add": add_info()})["add"]
        except devmod.ToolchainNotFoundError as error:
            messages.append(str(error))
    assert messages in ([text] * 2, [])  # on other systems PoCL finds the linker beside gcc


def test_a_linker_that_links_needs_no_process_with_a_driver(pocl: Any, trials: list[int]) -> None:
    if not shutil.which("ld") or not shutil.which("gcc"):
        pytest.skip("no linker, or no library of gcc")
    assert devmod.create("opencl", ADD.encode(), "cl", {"add": add_info()})["add"]
    assert trials == []


@pytest.fixture
def no_link(pocl: Any, trials: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the linker alone fail, as where PoCL finds gcc's library and devmod does not."""
    monkeypatch.setattr(_linker, "_LIBRARIES", ("-l-missing",))


def test_the_linker_is_tried_once_for_a_path(
    no_link: None, trials: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: Any, binary: bytes, __: str) -> Any:
        trials.append(len(binary))
        return 0, [], ""

    monkeypatch.setattr(_trial, "run_trial", run)
    path = os.environ["PATH"]
    for number, (value, count) in enumerate(
        ((path, 1), (path, 1), (f"{path}{os.pathsep}/nowhere", 2), (path, 2))
    ):
        if number < 2:
            monkeypatch.setattr(_linker, "_tried", set())  # as in a new process
        monkeypatch.setenv("PATH", value)
        assert devmod.create("opencl", f"// {number}\n{ADD}".encode(), "cl", {"add": add_info()})[
            "add"
        ]
        assert len(trials) == count


@pytest.mark.volume
def test_a_relative_folder_in_path_may_have_the_linker_of_pocl(
    pocl: Any, trials: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"nowhere{os.pathsep}{os.environ['PATH']}")
    assert devmod.create("opencl", ADD.encode(), "cl", {"add": add_info()})["add"]
    assert len(trials) == 1


def test_an_environment_variable_disables_the_trial(
    binary: bytes, trials: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_OPENCL_TRIAL", "0")
    assert load_add(binary)
    assert trials == []


#: Makes PoCL forget its name of the processor, as on one that its LLVM does not know; then builds
#: and runs a kernel.
UNKNOWN_PROCESSOR = """
import ctypes, os, sys
import numpy as np, devmod, pyopencl
pyopencl.Device.version = property(lambda device: "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic")
device = devmod.device("opencl")
record, known = device.handle.int_ptr, sys.argv[2].encode()
unknown = ctypes.create_string_buffer(b"generic")
with open("/proc/self/mem", "rb", buffering=0) as memory:
    def read(address, size):
        try:
            return os.pread(memory.fileno(), size, address)
        except (OSError, OverflowError):
            return b""
    words = [int.from_bytes(read(record + place, 8), "little") for place in range(0, 4096, 8)]
    text = lambda address: read(address, 64).partition(bytes(1))[0] if address > 4096 else b""
    place = next(place for place, word in enumerate(words) if text(word) == b"x86_64-unknown-linux-gnu" and text(words[place + 1]) == known) + 1
ctypes.c_void_p.from_address(record + 8 * place).value = ctypes.addressof(unknown)
info = devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"], ["blockIdx.x", "threadIdx.x"])
out = np.zeros(64, "float32")
try:
    devmod.create("opencl", sys.argv[1].encode(), "cl", {"add": info})["add"](np.ones(64, "float32"), np.ones(64, "float32"), out, 64, grid=1, block=64)
    print(out[0])
except devmod.DeviceNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("allowed", ["", "1"])
def test_a_processor_that_pocl_does_not_know(allowed: str, pocl: Any, tmp_path: Path) -> None:
    triple, _, processor = pocl.handle.version.rpartition("-")
    if not triple.endswith("x86_64-unknown-linux-gnu"):
        pytest.skip("the name of the processor is only repaired on Linux and x86-64")
    env = os.environ | {
        "POCL_CACHE_DIR": str(tmp_path),
        "DEVMOD_CACHE_DIR": str(tmp_path / "cache"),
        "DEVMOD_OPENCL_POCL_CPU": allowed,
        "DEVMOD_OPENCL_TRIAL": "0",
    }
    command = [sys.executable, "-c", UNKNOWN_PROCESSOR, ADD, processor]
    process = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, process.stderr
    expected = (
        f"the opencl function 'add' cannot be built: {pocl.name} cannot compile kernels: the LLVM of this PoCL does not know the processor. Either use another OpenCL driver, such as "
        'Intel\'s for the CPU (pip install "devmod-opencl[intel]"), or set DEVMOD_OPENCL_POCL_CPU=1: devmod then writes a name that PoCL knows into its record of the device, '
        "in the memory of this process"
    )
    assert process.stdout.strip() == ("2.0" if allowed else expected)


BUILD = """
import sys, numpy as np, devmod
info = devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"], ["blockIdx.x", "threadIdx.x"])
out = np.zeros(64, "float32")
try:
    devmod.create("opencl", sys.argv[1].encode(), "cl", {"add": info})["add"](np.ones(64, "float32"), np.ones(64, "float32"), out, 64, grid=1, block=64)
    print(out[0])
except devmod.ToolchainNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(("size", "is_enough"), [("64k", False), ("16m", True)])
def test_a_full_disk_of_pocls_cache_is_an_error(
    size: str, is_enough: bool, pocl: Any, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"',
        str(small),
    ]
    if (
        not shutil.which("unshare")
        or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine permits no mount in a namespace")
    env = os.environ | {
        "POCL_CACHE_DIR": str(small / "pocl"),
        "DEVMOD_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [*mount, sys.executable, "-c", BUILD, ADD],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    text = (
        f"{pocl.name} cannot compile kernels: PoCL writes them to {str(small / 'pocl')!r}, whose disk has 65536 bytes free; a build needs "
        "2097152, and PoCL ends the process without them. Free space on that disk, or set POCL_CACHE_DIR to a folder on another one"
    )
    assert (done.returncode, done.stdout) == (0, "2.0\n" if is_enough else f"{text}\n"), done.stderr


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"POCL_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/pocl/kcache"),
        ({"HOME": "/c"}, "/c/.cache/pocl/kcache"),
        ({}, "/tmp/pocl/kcache"),
    ],
)
def test_the_error_names_the_folder_that_pocl_uses(
    variables: dict[str, str], folder: str, pocl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))  # type: ignore[attr-defined]
    with pytest.raises(
        devmod.ToolchainNotFoundError,
        match=f"PoCL writes them to '{folder}', whose disk has 0 bytes free",
    ):
        devmod.create("opencl", f"// {folder}\n{ADD}".encode(), "cl", {"add": add_info()})["add"]


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
def test_the_linker_of_a_killed_process_ends(pocl: Any, tmp_path: Path) -> None:
    """Also where a fork of the process remains."""
    linker = tmp_path / "ld"
    linker.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000\n"
    )
    linker.chmod(0o755)
    program = (
        "import os, sys, threading, time; from devmod_opencl import _linker\n"
        "threading.Thread(target=_linker._links, daemon=True).start()\n"
        f"while not os.path.exists('{tmp_path}/pid'): time.sleep(0.01)\n"
        "if os.fork(): print(flush=True)\n"
        "sys.stdin.read()"
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"PATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
        process.kill()
        for _ in range(12000):
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.01)
    raise AssertionError("the linker runs after two minutes")
