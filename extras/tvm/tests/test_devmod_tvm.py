"""devmod-tvm in processes: with a double of TVM, and with TVM itself where it is installed."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device, run_python

import devmod

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[3]
VECTOR = ROOT / "core" / "tests" / "vectors" / "tvm" / "vadd.opencl.tvmimports"
needs_tvm = pytest.mark.skipif(
    not [*distributions(name="apache-tvm")],
    reason="TVM is not installed: make frameworks installs it",
)

DOUBLE = """
import ctypes, sys, types
from pathlib import Path
registry, devices = {}, {}
ffi, tvm = types.ModuleType("tvm_ffi"), types.ModuleType("tvm")
ffi.get_global_func = lambda name, allow_missing=False: registry.get(name)
ffi.register_global_func = lambda name, function, override=False: registry.__setitem__(name, function)
ffi.convert, ffi.register_error = (lambda value: value), (lambda name, error: None)
ffi.Tensor, tvm.__version__ = type("Tensor", (), {}), "0.27.0"
sys.modules |= {"tvm": tvm, "tvm_ffi": ffi}
registry["devmod.tvm.module"] = lambda kind, mask, serve: (kind, mask, serve)
registry |= {"devmod.tvm.device": devices.__setitem__, "devmod.tvm.close": lambda: None, "device_api.metal": "TVM's own"}
library = ctypes.CDLL
ctypes.CDLL = lambda path, **options: None if "bridge-" in str(path) else library(path, **options)
import devmod_tvm
devmod_tvm.autoload()
assert "devmod" not in sys.modules
assert [*devices] == ["opencl", "vulkan", "webgpu", "rocm", "hexagon"]
names = {f"ffi.Module.{verb}.{kind}" for verb in ("create", "load_from_bytes") for kind in devices}
assert names == {name for name in registry if name.startswith("ffi.") and name.split(".")[-1] not in ("devmod", "hip", "hsaco")}

import numpy as np
import devmod
data = devmod.interop.tvm.dump_module_bytes(devmod.interop.tvm.load_imports(Path(VECTOR).read_bytes()).imports[0])
kind, mask, serve = registry["ffi.Module.load_from_bytes.opencl"](data)
assert (kind, mask, serve("save") == data, serve("function", "other")) == ("opencl", 3, True, None)
x, out, device = np.arange(1024, dtype="float32"), np.zeros(512, "float32"), devices["opencl"]
pointers = [device("allocate", 0, x.nbytes) for _ in range(3)]
for each in pointers[:2]:
    device("write", x.ctypes.data, 0, each, 0, x.nbytes, 0)
serve("function", "vadd_kernel")(*map(ctypes.c_void_p, pointers), 16, 64)
device("read", pointers[2], 2048, out.ctypes.data, 0, out.nbytes, 0)
assert (out == 2 * x[512:]).all()
"""


@pytest.mark.row("R48")
def test_tvms_registry_has_what_its_build_lacks() -> None:
    """TVM is a double here: a registry, and a module that keeps its callback. The kernel has TVM's
    stored bytes.
    """
    first_device("opencl")
    run_python(
        f"VECTOR = {str(VECTOR)!r}\n{DOUBLE}", PYTHONPATH=str(ROOT / "extras" / "tvm" / "src")
    )


POLICY = """
import os
import devmod_tvm._bridge
folder = Path(os.environ["FOLDER"])
os.environ["DEVMOD_TRUST"] = str(folder / "trust.toml")
calls = {
    "load_module_bytes('opencl', data)": lambda: registry["ffi.Module.load_from_bytes.opencl"](data),
    "create('opencl', …)": lambda: registry["ffi.Module.create.opencl"](b"", "cl", {}, {}),
}
for name, call in calls.items():
    try:
        call()
    except devmod.TrustError as error:
        assert str(error) == (
            f"{name}: 'memory' is refused by {str(folder / 'trust.toml')!r}: it has no index that "
            "could be signed. Save it in a .devmod file and sign that, or add the line "
            'raw = "allow" at the top of the policy'
        ), error
    else:
        raise AssertionError(name)
text = (folder / "trust.toml").read_text()
(folder / "trust.toml").write_text('raw = "allow"\\n' + text)
for call in calls.values():
    assert call()[0] == "opencl"
"""


@pytest.mark.row("R46", "R48")
def test_a_policy_refuses_tvms_modules_unless_it_allows_them(tmp_path: Path) -> None:
    from devmod_trust._keys import write_new_key

    write_new_key(str(tmp_path / "acme.pem"), "")
    rule = '[[rule]]\nsource = ["*"]\nname = "acme/f"\nkeys = ["acme.pub"]\n'
    (tmp_path / "trust.toml").write_text(rule)
    code = f"VECTOR = {str(VECTOR)!r}\n{DOUBLE}{POLICY}"
    run_python(code, PYTHONPATH=str(ROOT / "extras" / "tvm" / "src"), FOLDER=str(tmp_path))


@needs_tvm
@pytest.mark.once
@pytest.mark.row("R48")
def test_tvm_runs_on_the_runtimes_of_devmod() -> None:
    # With another mode, pytest would take the folder `tvm` for the package.
    options = ["-q", "-p", "no:xdist", "--import-mode=prepend"]
    environment = {**os.environ, "POCL_DEVICES": "pthread pthread"}
    process = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(HERE / "tvm_cases.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=ROOT,
        env=environment,
    )
    assert process.returncode == 0, process.stdout + process.stderr


START = "import os, numpy as np, tvm\nx = tvm.runtime.tensor(np.ones(3, 'float32'), device=tvm.runtime.device(%r))\n"
#: A program, a variable, its value, and what the program prints.
PROGRAMS = {
    "an import": (
        "import sys, tvm\nprint([each for each in sys.modules if each.startswith(('devmod', 'pyopencl', 'wgpu', 'vulkan'))])",
        *("DEVMOD_TVM", "", "['devmod_tvm._kinds', 'devmod_tvm']\n"),
    ),
    "another version": (
        "import tvm, warnings, devmod_tvm\ntvm.__version__ = '0.28.1'\nwith warnings.catch_warnings(record=True) as caught:\n"
        "    devmod_tvm.autoload()\nprint(*(each.message for each in caught), tvm.runtime.device('opencl').exist)",
        *("TVM_DEVICE_BACKEND_AUTOLOAD", "0"),
        "devmod-tvm 0.1.0 supports TVM 0.27; this is TVM 0.28.1. TVM runs without devmod's runtimes. To upgrade: pip install --upgrade "
        "devmod-tvm False\n",
    ),
    "a choice of kinds": (
        "import tvm_ffi, warnings\nwith warnings.catch_warnings(record=True) as caught:\n    import tvm\nprint(caught[-1].message)\n"
        "print([name for name in tvm_ffi.registry.list_global_func_names() if name.startswith('device_api.')])",
        *("DEVMOD_TVM", "webgpu, cuda"),
        "DEVMOD_TVM has 'cuda'; expected kinds of opencl, vulkan, webgpu, metal, rocm, hexagon, separated by commas\n"
        "['device_api.cpu', 'device_api.rpc', 'device_api.webgpu']\n",
    ),
    "a fork": (
        START
        % "opencl"
        + "child = os.fork()\nif not child:\n    try:\n        x.numpy()\n    except RuntimeError as error:\n"
        "        print(str(error).partition(':')[0], flush=True)\n    os._exit(0)\nos.waitpid(child, 0)\nprint(x.numpy())",
        *("DEVMOD_TVM", "", "opencl devices cannot be used in this process\n[1. 1. 1.]\n"),
    ),
    "a lost device": (
        START
        % "webgpu"
        + "import devmod, tvm_models\nname, interop = 'ffi.Module.load_from_bytes.webgpu', devmod.interop.tvm\n"
        "stored = interop.load_imports((tvm_models.VECTORS / 'vadd.webgpu.tvmimports').read_bytes()).imports[0]\n"
        "vadd = tvm.get_global_func(name)(interop.dump_module_bytes(stored))['vadd_kernel']\n"
        "devmod.device('webgpu').gpu.destroy()\nfor call in (x.numpy, lambda: x.copyfrom(np.ones(3, 'float32')), lambda: vadd(x, x, x, 16, 64)):\n"
        "    try:\n        call()\n    except RuntimeError as error:\n        print('is lost: its driver failed' in str(error))",
        *("DEVMOD_TVM", "", "True\n" * 3),
    ),
    "objects that live until the end": (
        START % "webgpu" + "import builtins, tvm_models\nmodule, inputs = tvm_models.model('mlp')\n"
        "executable = tvm_models.compiled(module, 'webgpu')\nresult = tvm_models.run(executable, 'webgpu', inputs)\n"
        "tvm.kept = builtins.kept = x, executable, tvm.relax.VirtualMachine(executable, x.device), executable.mod.imports[0]",
        *("DEVMOD_TVM", "", ""),
    ),
}


@pytest.mark.parametrize(
    ("symbols", "platform"),
    [
        ("GLIBC_2.14 GLIBCXX_3.4.21", "manylinux_2_28_x86_64"),
        ("GLIBC_2.14 GLIBCXX_3.4.26", "linux_x86_64"),
        ("GLIBC_2.38", "linux_x86_64"),
        ("", "linux_x86_64"),
    ],
)
def test_the_platform_of_the_wheel(
    symbols: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "linux-x86_64")
    assert (
        runpy.run_path(str(ROOT / "extras" / "tvm" / "hatch_build.py"))["_platform"](
            f" {symbols} ".replace(" ", "\0").encode()
        )
        == platform
    )


@needs_tvm
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_with(name: str) -> None:
    program, variable, value, expected = PROGRAMS[name]
    first_device("opencl"), first_device("webgpu")
    assert run_python(program, **{variable: value, "PYTHONPATH": str(HERE)}) == expected


# -- The switch: an environment of links to the packages of this one, without the runtimes of
# devmod.

STATE = """
import os, numpy as np, tvm, tvm_ffi, tvm_models
def attempt(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error)
device, load = tvm.runtime.device("opencl"), tvm.get_global_func("ffi.Module.load_from_bytes.opencl")
def show():
    found = attempt(lambda: load(DATA).kind), attempt(lambda: str(tvm.runtime.tensor(np.ones(3, "float32"), device=device)))
    print([tvm_ffi.get_global_func("ffi.Module.create.opencl", allow_missing=True) is not None, device.exist, *found])
show()
module, inputs = tvm_models.model("vadd")
print(attempt(lambda: tvm_models.run(tvm_models.compiled(module, "opencl"), "opencl", inputs).shape))
for each in LINKS:
    os.symlink(each, os.path.join(SITE, os.path.basename(each)))
show()
"""
WITHOUT = 'To add it: pip install devmod-opencl\nTogether with devmod-tvm: pip install "devmod-tvm[opencl]"'


@needs_tvm
def test_the_switch(tmp_path: Path) -> None:
    """Installed, uninstalled and installed again, by processes. The process without it ends with an
    installation.
    """
    first_device("opencl")
    packages, site = Path(np.__file__).resolve().parents[1], tmp_path / "site"
    site.mkdir()
    sources = [
        each for each in packages.iterdir() if "devmod" not in each.name and each.suffix != ".pth"
    ]
    sources.append(ROOT / "core/src/devmod")
    for name in ("core", "readers", "runtime", "tvm"):
        sources += [
            next(packages.glob(f"devmod_{name}-*")),
            *ROOT.glob(f"*/{name}/src/devmod_{name}"),
        ]
    for each in sources:
        (site / each.name).symlink_to(each)
    runtime = [
        ROOT / "plugins/devmod-opencl/src/devmod_opencl",
        next(packages.glob("devmod_opencl-*")),
    ]
    data = devmod.interop.tvm.dump_module_bytes(
        devmod.interop.tvm.load_imports(VECTOR.read_bytes()).imports[0]
    )

    def states(links: list[Path]) -> list[Any]:
        program = f"DATA, SITE, LINKS = {data!r}, {str(site)!r}, {[*map(str, links)]!r}\n{STATE}"
        return run_python(
            program, "-S", PYTHONPATH=os.pathsep.join((str(site), str(HERE)))
        ).splitlines()

    works = "[True, True, 'opencl', '[1. 1. 1.]']"
    for each in runtime:
        (site / each.name).symlink_to(each)
    assert states([]) == [works, "(1024,)", works]
    for each in runtime:
        (site / each.name).unlink()
    first, result, last = states(runtime)
    created, exists, load, allocation = eval(first)
    assert (created, exists, load.endswith(WITHOUT), allocation.endswith(WITHOUT), last) == (
        False,
        False,
        True,
        True,
        works,
    )
    assert "OpenCL runtime is not linked into this build" in result
    assert states([]) == [works, "(1024,)", works]
