"""docs/symptoms.md: each error of the page is caused here, and its text is that of the row. `CASES`
has the order of the page.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl
import pyopencl.array
import pytest
from alone import hide
from backend_checks import first_device, run_python
from distributions import install

import devmod
from devmod._plugins import discovery, registry
from devmod.testing import assert_kernel
from devmod_opencl import _pocl
from devmod_workbench._cli import main

# Where to change: an error that users meet first
#   here: the function that raises it
#   also: `docs/symptoms.md`
#   tests: `tests/test_symptoms.py`
PAGE = Path(__file__).resolve().parent.parent / "docs" / "symptoms.md"
ROWS = re.findall(r"^\| `(.+)` \| .+? \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
SCALE = "__kernel void scale(__global float *x, float a) { x[get_global_id(0)] *= a; }"
CUDA = 'extern "C" __global__ void k(float *x) {}'
X = np.zeros(8, "float32")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder. The end of the test restores the plugins that it hides or
    installs.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_cache", {})
    monkeypatch.setattr(discovery, "_scan_all", discovery._scan_all)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "mine"), str(tmp_path / "site"), *sys.path])


def scale() -> devmod.Function:
    first_device("opencl")
    return devmod.compile(SCALE, "opencl")["scale"]


def without(name: str, call: Callable[[], object]) -> object:
    """Call where a distribution is not installed."""
    hide(name)
    return call()


def without_module(name: str, call: Callable[[], object]) -> object:
    """Call where a Python package is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, None)
        return call()


def plugin(kind: str, code: str = "", **groups: str) -> Path:
    """Install a plugin for `devmod.create` of a kind of its own."""
    module = f"acme_{kind}"
    entries = {
        "devmod.create": {kind: f"{module}:create"},
        **{f"devmod.{group}": {name: f"{module}:f"} for group, name in groups.items()},
    }
    return install(Path("site"), f"acme-{kind}", "9.0", entries, {module: code} if code else None)


def create(kind: str) -> object:
    return devmod.create(kind, b"", "x", {})


def broken() -> object:
    plugin("broken", "import no_such_library")
    return create("broken")


def of_another_version() -> object:
    plugin("tomorrow", "from devmod.backend import Tomorrow")
    return create("tomorrow")


def of_another_protocol() -> object:
    plugin("early", protocol="2")
    return create("early")


def claimed_twice() -> object:
    plugin("twice")
    install(Path("site"), "other-twice", "1.0", {"devmod.create": {"twice": "other:create"}})
    return create("twice")


def denied() -> object:
    plugin("denied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_PLUGINS_DENY", "acme-denied")
        return create("denied")


def hidden() -> object:
    plugin("hidden", "import acme_wood.thing")
    for path in ("site/acme_wood/__init__.py", "mine/acme_wood.py"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).touch()
    return create("hidden")


def editable() -> object:
    (plugin("editable") / "direct_url.json").write_text(
        json.dumps({"url": "file:///acme", "dir_info": {"editable": True}})
    )
    return create("editable")


def unreadable() -> object:
    (plugin("mute") / "entry_points.txt").write_bytes(b"[devmod.create]\nmute = \xff:create\n")
    return create("mute")


def unsigned() -> object:
    devmod.save(devmod.compile(SCALE, "opencl"), "k.devmod")
    main(["keygen", "-o", "acme.pem"])
    Path("trust.toml").write_text(
        '[[rule]]\nsource = ["*"]\nname = "acme/k"\nkeys = ["acme.pub"]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_TRUST", "trust.toml")
        return devmod.load("k.devmod")


def failing_driver() -> object:
    def devices() -> list[devmod.Device]:
        raise OSError("no libnpu.so")

    devmod.register("devmod.device", "failing", devices)
    try:
        return devmod.devices()
    finally:
        devmod.register("devmod.device", "failing", None, replace=True)


def unknown_processor() -> object:
    """PoCL describes a processor that its LLVM does not know as a generic one."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("the name of the processor is only repaired on Linux and x86-64")
    version = "pthread-x86_64-unknown-linux-gnu-generic"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(_pocl.VARIABLE, raising=False)
        patch.setattr(_pocl, "_name_pointer", lambda record: 1)
        _pocl.name_processor(
            SimpleNamespace(
                name="cpu", platform=SimpleNamespace(name=_pocl.POCL), version=version, int_ptr=0
            )
        )


def too_old() -> object:
    install(Path("site"), "devmod-cuda", "0.0.1", {"devmod.targets": {"acme": "acme:SPEC"}})
    return devmod.device("cuda")


def file(change: Callable[[bytes], bytes]) -> object:
    """Load a bundle after a change of its bytes."""
    Path("k.devmod").write_bytes(change(devmod.dumps(devmod.compile(SCALE, "opencl"))))
    return devmod.load("k.devmod")["scale"]


def cache_of_others() -> object:
    Path("cache").mkdir()
    Path("cache").chmod(0o777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_CACHE_DIR", "cache")
        return main(["cache", "clear"])


def wrong_suffix() -> object:
    Path("k.cl").write_text(SCALE)
    return main(["compile", "k.cl", "-t", "metal"])


def wrong_manifest() -> object:
    Path("devmod.toml").write_text('targets = ["opencl"]\n[kernels.scale]\nsource = ["k.cl"]\n')
    return main(["build"])


def program(key: str) -> devmod.Module:
    """Make a program of one step, whose array is declared under `key`."""
    declared: dict[str, Any] = {key: ["x: float32[n]"]}
    return devmod.program(
        "double",
        devmod.compile(SCALE, "opencl"),
        **declared,
        steps=["scale(x=x, a=2.0, threads=n)"],
    )


def fallback() -> devmod.Module:
    hide("devmod-cuda")
    return devmod.create_with_fallback(
        "cuda", b"... PTX ...", "ptx", {"k": devmod.FunctionInfo("k", ("handle",))}
    )


def no_candidate() -> object:
    return devmod.bundle(fallback(), devmod.create_with_fallback("webgpu", {}, "wgsl", {}))["k"]


def no_driver() -> object:
    """The other tests of the process may have opened a stand-in, also for the processes that it
    starts.
    """
    if ctypes.util.find_library("cuda"):
        pytest.skip("the driver is installed here")
    raise RuntimeError(
        run_python(
            "import devmod\ntry: devmod.device('cuda')\nexcept devmod.DeviceNotFoundError as error: print(error)",
        ).strip()
    )


def without_interface(**options: Any) -> devmod.Function:
    """A kernel without bounds on its block, which may have needs."""
    first_device("opencl")
    interface = (
        devmod.Interface([devmod.Param("x", "buffer", "float32", "rw")], **options)
        if options
        else None
    )
    info = devmod.FunctionInfo("f", ["handle"], interface=interface)
    return devmod.create("opencl", b"__kernel void f(__global float *x) {}", "cl", {"f": info})["f"]


def on_another_device() -> object:
    return scale()(first_device("vulkan").from_numpy(X), 1, threads=8)


def strided() -> object:
    function = scale()
    queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
    return function(
        pyopencl.array.to_device(queue, np.zeros((4, 4), "float32"))[:, ::2], 1, threads=8
    )


def read_only() -> object:
    array = X.copy()
    array.flags.writeable = False
    return scale()(array, 1, threads=8)


def forked() -> object:
    function = scale()
    function(X, 1, threads=8)
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
        child = os.fork()
    if not child:
        try:
            function(X, 1, threads=8)
        except devmod.LaunchError as error:
            os.write(writes, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    raise RuntimeError(os.read(reads, 10000).decode())


def reads() -> object:
    f = devmod.compile(
        "kernel void f(global int *y, global const int *x) { *y = x[8]; }", "opencl"
    )["f"].on(first_device("opencl"))
    return assert_kernel(
        f, lambda y, x: y, [{"y": np.zeros(1, "int32"), "x": np.zeros(8, "int32"), "threads": 1}]
    )


def crash() -> object:
    first_device("opencl")
    devmod.save(
        devmod.compile(
            "__kernel void f(__global int *x) { *(__global volatile int *)(ulong)(x[0] & 0) = 1; }",
            "opencl",
        ),
        "k.devmod",
    )
    return main(["run", "k.devmod", "f", "x=zeros[8]", "--threads", "8"])


#: A kernel writes eight elements more than the array has, into the record of malloc behind it.
DOUBLE_FREE = """
import numpy as np, devmod
text = "kernel void fill(global float *x, int n) { int i = get_global_id(0); if (i < n) x[i] = 7; }"
device = devmod.device("opencl")
device.in_place_from = 1
arrays = [np.zeros(1000, "float32") for _ in range(64)]
starts = [each.ctypes.data % device.in_place_unit for each in arrays]
x = arrays.pop(starts.index(0))  # PoCL copies an array that begins elsewhere
devmod.compile(text, "opencl")["fill"](x, 1008, threads=1008)
del x
"""


def double_free() -> int:
    first_device("opencl")
    command = [sys.executable, "-W", "ignore", "-c", DOUBLE_FREE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode < 0, done.stderr
    print(done.stderr.splitlines()[0], file=sys.stderr)
    return 1


CASES: dict[str, Callable[[], object]] = {
    "no runtime": lambda: without("devmod-cuda", lambda: devmod.device("cuda")),
    "unknown kind": lambda: devmod.device("opncl"),
    "no command": lambda: without(
        "devmod-targets", lambda: main(["compile", "k.cl", "-t", "opencl"])
    ),
    "too old": too_old,
    "broken": broken,
    "another version": of_another_version,
    "another protocol": of_another_protocol,
    "claimed twice": claimed_twice,
    "denied": denied,
    "hidden": hidden,
    "editable": editable,
    "unreadable": unreadable,
    "failing driver": failing_driver,
    "unknown processor": unknown_processor,
    "no bundle": lambda: file(lambda data: b"PK\3\4" + data),
    "cut short": lambda: file(lambda data: data[:60]),
    "damaged": lambda: file(lambda data: data.replace(b"scale(__global", b"scale( _global")),
    "newer": lambda: file(lambda data: data[:8] + b"\x09" + data[9:]),
    "unsigned": unsigned,
    "url": lambda: without_module(
        "devmod_remote", lambda: devmod.load("https://example.org/k.devmod")
    ),
    "cache": cache_of_others,
    "source": lambda: devmod.compile(SCALE.replace("*= a", "*="), "opencl"),
    "include": lambda: devmod.compile('#include "util.h"\n' + SCALE, "opencl"),
    "unknown target": lambda: devmod.compile(SCALE, "opncl"),
    "no architecture": lambda: devmod.compile(CUDA, "cuda"),
    "unknown architecture": lambda: devmod.compile(CUDA, "cuda -arch=sm_12345"),
    "no compiler": lambda: without_module(
        "ziglang", lambda: devmod.compile("void f(int *x) {}", "hexagon -arch=v66", language="C")
    ),
    "suffix": wrong_suffix,
    "manifest": wrong_manifest,
    "input of a program": lambda: program("inputs"),
    "fallback": lambda: fallback()["k"],
    "no candidate": no_candidate,
    "program": lambda: without("devmod-opencl", lambda: program("updates")["double"]),
    "no driver": no_driver,
    "needs": lambda: without_interface(needs=["launch_constants"])(X, threads=8),
    "later need": lambda: without_interface(needs=["later"])(X, threads=8),
    "no function": lambda: devmod.compile(SCALE, "opencl")["scales"],
    "missing argument": lambda: scale()(X, threads=8),
    "unknown argument": lambda: scale()(X, b=1, threads=8),
    "element type": lambda: scale()(X.astype("float64"), 1, threads=8),
    "another device": on_another_device,
    "strided": strided,
    "read-only": read_only,
    "no size": lambda: scale()(X, 1),
    "no block": lambda: without_interface()(X, grid=1),
    "large block": lambda: scale()(X, 1, grid=1, block=1_000_000),
    "memory": lambda: first_device("opencl").empty(1 << 50, "uint8"),
    "fork": forked,
    "reads": reads,
    "crash": crash,
    "double free": double_free,
}


def test_the_page_has_a_row_for_each_case() -> None:
    assert len(ROWS) == len(CASES)


@pytest.mark.parametrize(
    ("case", "row"),
    [pytest.param(case, row, id=case) for case, (row, _) in zip(CASES, ROWS, strict=False)],
)
def test_the_error_has_the_text_of_the_page(
    case: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if case == "fork" and not hasattr(os, "fork"):
        pytest.skip("there are no forks here")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            status = CASES[case]()
        except (devmod.DevmodError, RuntimeError, RuntimeWarning) as error:
            text = str(error)
        else:
            assert status == 1
            text = capsys.readouterr().err.removeprefix("devmod: error: ")
    text = " ".join(text.split())  # a list has a line for each item
    pattern = ".*".join(map(re.escape, row.split("…")))
    assert re.fullmatch(pattern, text), f"the page has\n{row}\nand the error is\n{text}"


def test_the_commands_of_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each `devmod COMMAND` of the last column, with its options; and each `pip install` of a
    distribution of devmod, with its extra.
    """
    commands = {
        found
        for _, todo in ROWS
        for found in re.findall(r"`(devmod [a-z].*?|pip install .*?)`", todo)
    }
    extras = re.findall(
        r"^(\S+) = \[", (PAGE.parent.parent / "core/pyproject.toml").read_text(), re.MULTILINE
    )
    assert len(commands) > 8
    for command in commands:
        program, name, *words = shlex.split(command)
        options = [word for word in words if word.startswith("-")]
        if program == "devmod":
            assert main([name, "--help"]) == 0
            shown = capsys.readouterr().out
            assert [
                option for option in options if not re.search(rf"(?<![\w-]){option}\b", shown)
            ] == [], command
        else:
            assert {
                extra for found in re.findall(r"\[(.+?)\]", command) for extra in found.split(",")
            } <= set(extras), command
