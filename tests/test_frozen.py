"""Programs without an installer's metadata of their own: frozen by PyInstaller, with devmod copied
into their tree, from a zip, in a notebook.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from each_case import some

import devmod
from environments import InstallError

ROOT = Path(__file__).resolve().parent.parent
PAGE = (
    (ROOT / "docs" / "own-wheel.md")
    .read_text(encoding="utf-8")
    .partition("\n## Frozen, vendored, registered by hand\n")[2]
)

#: A backend of a few lines; its kind is one that core does not know.
ACME = """
import devmod
class Made(devmod.Module):
    kind = "acme"
    functions = {"f": devmod.FunctionInfo("f", ())}
    def __init__(self, data):
        self.data = bytes(data)
    def get_function(self, name, query_imports=False):
        return lambda: f"{name} of {self.data.decode()}"
    def save_to_bytes(self):
        return self.data
def create(code, fmt, fmap, source):
    return Made(code)
def load_from_bytes(data):
    return Made(data)
"""
#: Uses core, the backend where it is there, and what is not there.
PROGRAM = """
import json, sys
import devmod

def said(call):
    try:
        return call()
    except devmod.DevmodError as error:
        return f"{type(error).__name__}: {error}"

found = {"frozen": bool(getattr(sys, "frozen", False)), "who": {}}
for group in ("devmod.create", "devmod.load_from_bytes"):
    found["who"][group] = {name: claim.provider for name, claim in devmod.registered(group).items()}
info = {"f": devmod.FunctionInfo("f", ())}
found["specs"] = [devmod.backend.find_spec(kind).title for kind in devmod.targets.KINDS]
found["acme"] = said(lambda: devmod.create("acme", b"the box", "x", info)["f"]())
found["loaded"] = said(lambda: devmod.load_from_bytes("acme", b"the bytes")["f"]())
found["fallback"] = said(lambda: devmod.create_with_fallback("cuda", b"// ptx", "ptx", info)["f"])
found["missing"] = said(lambda: devmod.load_from_bytes("cuda", b""))
constants = devmod.const_loader({"w": b"abc"}, {"init": ["w"]})
cuda = devmod.create_with_fallback("cuda", b"// ptx", "ptx", info)
cuda.import_module(constants)
devmod.save(cuda, sys.argv[1])
opened = devmod.load(sys.argv[1])
assert devmod.dumps(opened) == devmod.dumps(cuda)
found["constants"] = [bytes(memoryview(each)).decode() for each in opened.imports[0].get_function("init")()]
found["file"] = said(lambda: devmod.load_from_file(sys.argv[1]).kind)
found["target"] = str(devmod.Target("cuda", arch="sm_90"))
print(json.dumps(found))
"""


def expected(*, frozen: bool, who: str, acme: str, opencl: str = "") -> dict[str, Any]:
    core = f"devmod-core {devmod.__version__}"
    named = {name: provider for name, provider in (("acme", who), ("opencl", opencl)) if provider}
    # An installed backend brings devmod-runtime, which runs programs.
    runtime = {"program": f"devmod-runtime {devmod.__version__}"} if opencl else {}
    return {
        "frozen": frozen,
        "who": {
            "devmod.create": {"const_loader": core} | named,
            "devmod.load_from_bytes": {"const_loader": core} | named | runtime,
        },
        "specs": ["CUDA", "ROCm", "Metal", "Vulkan", "OpenCL", "Hexagon", "WebGPU"],
        "acme": "f of the box" if who else acme.format("create"),
        "loaded": "f of the bytes" if who else acme.format("load_from_bytes"),
        "fallback": "RuntimeNotLinkedError: the cuda function 'f' cannot be used here: this module is a fallback, made while the CUDA runtime was "
        "not installed. It can be inspected and saved. To run it: pip install devmod-cuda",
        "missing": "NotRegisteredError: devmod.load_from_bytes.cuda is not registered: the CUDA runtime is not installed. To add it: pip install "
        "devmod-cuda",
        "constants": ["abc"],
        "file": "cuda",
        "target": "cuda -arch=sm_90",
    }


NOBODY = (
    "NotRegisteredError: devmod.{}.acme is not registered, and no known distribution provides it; by convention it would be devmod-acme; "
    "install that only if you trust its publisher"
)


def clean(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment without settings of devmod or Python."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "DEVMOD_OPENCL_POCL_CPU" or not name.startswith(("DEVMOD_", "PYTHON"))
    }
    return kept | {"DEVMOD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONUTF8": "1"} | more


def ran(command: list[str], tmp_path: Path, **env: str) -> Any:
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=clean(tmp_path, **env),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


# -- PyInstaller


def acme_wheel(folder: Path) -> Path:
    folder.mkdir()
    made = folder / "devmod_acme-1.5-py3-none-any.whl"
    info = "devmod_acme-1.5.dist-info"
    entries = "".join(
        f"[devmod.{group}]\nacme = devmod_acme._entries:{group}\n"
        for group in ("create", "load_from_bytes")
    )
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("devmod_acme/__init__.py", "")
        archive.writestr(
            "devmod_acme/_entries.py",
            "from importlib import import_module\n_real = import_module('devmod_acme._' + 'hidden')\n"
            "create, load_from_bytes = _real.create, _real.load_from_bytes\n",
        )
        archive.writestr("devmod_acme/_hidden.py", ACME)
        archive.writestr("devmod_acme/small_kernel.module", b"")
        archive.writestr("devmod_acme/_cases.py", "raise AssertionError('for developers')\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: devmod-acme\nVersion: 1.5\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{info}/entry_points.txt",
            f"{entries}[devmod.conformance]\nacme = devmod_acme._cases:CASES\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return made


#: Copies what PyInstaller's hook of devmod collects into a folder.
COLLECTS = """
import os, runpy, shutil, sys
from importlib.metadata import entry_points
from importlib.util import find_spec

(entry,) = [each for each in entry_points(group="pyinstaller40") if each.value.startswith("devmod")]
(folder,) = entry.load()()
hook = runpy.run_path(os.path.join(folder, "hook-devmod.py"))
for source, target in hook["datas"]:
    place = os.path.join(sys.argv[1], target)
    if os.path.isdir(source):
        shutil.copytree(source, place)
    else:
        os.makedirs(place, exist_ok=True)
        shutil.copy(source, place)
for name in hook["hiddenimports"]:
    if name.startswith("importlib"):  # Python has it, or core's requirement
        continue
    origin = find_spec(name).origin
    base = os.path.dirname(os.path.dirname(find_spec(name.partition(".")[0]).origin))
    target = os.path.join(sys.argv[1], os.path.relpath(origin, base))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(origin, target)
"""
DENIED = (
    "NotRegisteredError: devmod.{}.acme is not registered: devmod-acme 1.5 provides it, and the environment variable "
    "DEVMOD_PLUGINS_DENY excludes it. To use it, remove devmod-acme from DEVMOD_PLUGINS_DENY"
)


def test_the_hook_of_pyinstaller_has_each_module_that_core_imports_by_name() -> None:
    from devmod._pyinstaller import BY_NAME

    found = set()
    for path in some((ROOT / "core" / "src").rglob("*.py")):
        found |= set(
            re.findall(r"import_with_pathlib\(\"(.*?)\"", path.read_text(encoding="utf-8"))
        )
    assert sorted(found) == BY_NAME


@pytest.mark.row("R1", "R4", "R20", "R24", "R28", "R37")
def test_a_program_runs_with_what_the_hook_of_pyinstaller_collects(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """The small form of a freeze, which takes twenty seconds."""
    acme = acme_wheel(tmp_path / "wheels")
    try:
        box = environment("pyinstaller>=6.10", wheels.direct("devmod-core"), str(acme))
    except InstallError as error:
        pytest.skip(f"PyInstaller cannot be installed here: {str(error).splitlines()[-1]}")
    collected = tmp_path / "collected"
    box.run("-c", COLLECTS, str(collected))
    assert not (collected / "devmod_acme" / "_cases.py").exists()
    assert not (collected / "devmod" / "_cli").exists()
    assert (collected / "devmod_acme" / "small_kernel.module").exists()
    # The packages that core imports are still there, as in a freeze, which follows imports.
    box.uninstall("devmod-core", "devmod-acme")
    program = f"import sys\nsys.frozen = True\n{PROGRAM}"
    command = [str(box.python), "-c", program, str(tmp_path / "k.devmod")]
    found = ran(command, tmp_path, PYTHONPATH=str(collected))
    assert found == expected(frozen=True, who="devmod-acme 1.5", acme="")
    found = ran(command, tmp_path, PYTHONPATH=str(collected), DEVMOD_PLUGINS_DENY="devmod-acme")
    assert found == expected(frozen=True, who="", acme=DENIED)


@pytest.mark.volume
@pytest.mark.row("R1", "R4", "R20", "R24", "R28", "R37")
def test_the_recipe_on_the_page_freezes_a_program_with_the_installed_backends_that_runs_a_kernel(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """The backend of the page comes with PoCL's LLVM, which is most of the time."""
    (program,) = re.findall(r"with this `program\.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    install, command, _ = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    assert install == 'pip install pyinstaller "devmod-opencl[pocl]" numpy'
    tool, source, *options = command.split()
    assert (tool, source) == ("pyinstaller", "program.py")
    backends = [str(acme_wheel(tmp_path / "wheels")), wheels.direct("devmod-opencl", "pocl")]
    try:
        box = environment("pyinstaller>=6.10", wheels.direct("devmod-core"), *backends, "numpy")
    except InstallError as error:
        pytest.skip(f"PyInstaller cannot be installed here: {str(error).splitlines()[-1]}")
    # Freezing takes most of the time, so one executable is both programs.
    (tmp_path / source).write_text(
        f"import sys\nif len(sys.argv) > 2:\n{indent(PROGRAM, ' ')}\nelse:\n{indent(program, ' ')}"
    )
    # No program needs setuptools, and following its imports takes a quarter of the time.
    line = [
        str(box.python),
        "-m",
        "PyInstaller",
        source,
        "--noconfirm",
        "--log-level=WARN",
        "--exclude-module=setuptools",
        *options,
    ]
    done = subprocess.run(
        line, cwd=tmp_path, env=clean(tmp_path), capture_output=True, text=True, timeout=500
    )
    if "without a shared library" in done.stderr:
        pytest.skip("PyInstaller wants a Python that was built with a shared library")
    assert done.returncode == 0, done.stderr
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "dist" / "program", moved)
    shutil.rmtree(box.folder / "venv")  # nothing of the environment is needed any more
    frozen = str(moved / "program")

    opencl = f"devmod-opencl {devmod.__version__}"
    kernel = b"__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }"
    info = devmod.FunctionInfo("twice", ("handle",), ("blockIdx.x", "threadIdx.x"))
    devmod.save(
        devmod.create_with_fallback("opencl", kernel, "cl", {"twice": info}),
        tmp_path / "twice.devmod",
    )
    done = subprocess.run(
        [frozen, "twice.devmod"],
        cwd=tmp_path,
        env=clean(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == (
        f"[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]\ndevmod.create {opencl}\ndevmod.load_from_bytes {opencl}\ndevmod.device {opencl}\n"
    )

    # Core, and the backends that were installed.
    check = [frozen, str(tmp_path / "k.devmod"), "check"]
    assert ran(check, tmp_path) == expected(
        frozen=True, who="devmod-acme 1.5", acme="", opencl=opencl
    )
    assert ran(check, tmp_path, DEVMOD_PLUGINS_DENY="devmod-acme") == expected(
        frozen=True, who="", acme=DENIED, opencl=opencl
    )
    names = {path.name for path in moved.rglob("*")}
    assert {
        "devmod_core-" + devmod.__version__ + ".dist-info",
        "devmod_acme-1.5.dist-info",
        "small_kernel.module",
    } <= names


# -- a copy of core, without metadata

SOURCE = ROOT / "core" / "src" / "devmod"


def beside(folder: Path) -> Path:
    """A folder with what core needs to read and write files, and nothing else."""
    folder.mkdir()
    spec = find_spec("msgpack")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "msgpack")
    return folder


def without_caches(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__"}


BY_HAND = """
import devmod, devmod_acme
for group in ("create", "load_from_bytes"):
    devmod.register(f"devmod.{group}", "acme", getattr(devmod_acme, group))
"""


@pytest.mark.volume_but("none-a folder", "registered-a zip")
@pytest.mark.row("R10", "R20", "R24", "R28")
@pytest.mark.parametrize("form", ["a folder", "a zip"])
@pytest.mark.parametrize("backend", ["none", "registered"])
def test_a_copy_of_core_without_metadata_works_with_registered_backends(
    tmp_path: Path, form: str, backend: str
) -> None:
    vendored = tmp_path / "vendored"
    shutil.copytree(SOURCE, vendored / "devmod", ignore=without_caches)
    (vendored / "devmod_acme.py").write_text(ACME)
    place = vendored
    if form == "a zip":
        place = Path(shutil.make_archive(str(tmp_path / "lib"), "zip", vendored))
    program = (BY_HAND if backend == "registered" else "") + PROGRAM
    path = os.pathsep.join((str(place), str(beside(tmp_path / "beside"))))
    found = ran(
        [sys.executable, "-S", "-c", program, str(tmp_path / "k.devmod")], tmp_path, PYTHONPATH=path
    )
    assert found == expected(
        frozen=False, who="in this process" if backend == "registered" else "", acme=NOBODY
    )


@pytest.mark.row("R7", "R10")
def test_the_page_registers_every_declared_entry_of_modules_and_devices(tmp_path: Path) -> None:
    pytest.importorskip("devmod_opencl", reason="devmod-opencl is not installed")
    (block,) = re.findall(
        r"```python\n(import devmod\nimport devmod_opencl\n.*?)```", PAGE, re.DOTALL
    )
    program = (
        block
        + "import json\nprint(json.dumps([devmod.registered(group)['opencl'].provider for group in devmod_groups]))\n"
    )
    groups = ["devmod.create", "devmod.load_from_bytes", "devmod.device"]
    found = ran([sys.executable, "-c", f"devmod_groups = {groups}\n{program}"], tmp_path)
    assert found == ["in this process"] * 3


# -- a notebook

CELLS = {
    "define": ACME,
    "register": "devmod.register('devmod.load_from_bytes', 'acme', load_from_bytes)",
    "use": "answer = devmod.load_from_bytes('acme', b'cell one')['f']()",
    "list": "answer = devmod.registered('devmod.load_from_bytes')['acme'].provider",
    "again": "devmod.register('devmod.load_from_bytes', 'acme', load_from_bytes, replace=True)",
    "keep": "kept = devmod.load_from_bytes('acme', b'kept')\nold = kept['f']()",
    "redefine": "def load_from_bytes(data):\n    return Made(b'new ' + bytes(data))",
    "back": "devmod.register('devmod.load_from_bytes', 'acme', None, replace=True)",
    "kept": "answer = [kept['f'](), old]",
}
KERNEL = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<cell>", "exec"), names)
        said = names.pop("answer", None)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
"""


@pytest.mark.row("R10")
def test_a_backend_is_made_in_the_cells_of_a_notebook(tmp_path: Path) -> None:
    path = os.pathsep.join((str(SOURCE.parent), str(beside(tmp_path / "beside"))))
    cells = [
        "define",
        "use",
        "register",
        "use",
        "list",
        "register",
        "redefine",
        "register",
        "keep",
        "again",
        "use",
        "back",
        "use",
        "kept",
    ]
    done = subprocess.run(
        [sys.executable, "-S", "-c", KERNEL],
        input="".join(json.dumps(CELLS[name]) + "\n" for name in cells),
        cwd=tmp_path,
        env=clean(tmp_path, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    miss = NOBODY.format("load_from_bytes")
    taken = (
        "ConflictError: devmod.load_from_bytes.acme is already registered in this process, as __main__:load_from_bytes. To replace it: "
        "devmod.register('devmod.load_from_bytes', 'acme', obj, replace=True)"
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        None,
        miss,
        None,
        "f of cell one",
        "in this process",
        None,
        None,
        taken,
        None,
        None,
        "f of new cell one",
        None,
        miss,
        ["f of kept", "f of kept"],
    ]
