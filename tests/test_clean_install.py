"""Real wheels in fresh environments: core alone, then with a runtime, then without it again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devmod

TOOLS = Path(__file__).parents[1] / "tools"
#: Makes a module of each kind from a payload, and prints for each its class, and the digest of its
#: bytes.
MODULES = """
import hashlib, json, os, sys
import devmod
info = lambda name: devmod.FunctionInfo(name, ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))
payloads = {
    "cuda": (b"// ptx", "ptx"), "rocm": (b"\\x7fELF", "hsaco"), "opencl": (b"__kernel void k(__global int *x, int n) {}", "cl"),
    "hexagon": (b"\\x7fELF", "so"), "metal": ({"k": b"kernel"}, "metal"), "vulkan": ({"k": b"\\0" * 12}, "spv"),
    "webgpu": ({"k": b"@compute"}, "wgsl"),
}
for forces in sys.argv[1:]:
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = forces
    found = {}
    modules = []
    for kind, (code, fmt) in payloads.items():
        module = devmod.create_with_fallback(kind, code, fmt, {"k": info("k")})
        modules.append(module)
        found[kind] = [type(module).__module__.partition(".")[0], hashlib.sha256(module.save_to_bytes()).hexdigest()]
    found["bundle"] = hashlib.sha256(devmod.dumps(devmod.bundle(*modules))).hexdigest()
    found["imported"] = sorted(name for name in ("pyopencl", "numpy", "devmod_opencl") if name in sys.modules)
    print(json.dumps(found))
"""


def modules(box: Any, *forces: str) -> list[dict[str, Any]]:
    """Return what is made under each value of DEVMOD_COMPILE_FORCE_FALLBACK, in one process."""
    return [json.loads(line) for line in box.run("-c", MODULES, *forces).splitlines()]


@pytest.mark.row("R6", "R18", "R24", "R28", "R29")
def test_installing_a_runtime_is_linking_it(environment: Callable[..., Any], wheels: Any) -> None:
    box = environment(wheels.direct("devmod-core"))
    (alone,) = modules(box, "")
    assert {
        found[0] for kind, found in alone.items() if isinstance(found, list) and kind != "imported"
    } == {"devmod"}
    assert alone["imported"] == []

    box.install(wheels.direct("devmod-core"), wheels.direct("devmod-opencl"))
    forced, linked, unforced = modules(box, "1", "", "0")
    assert forced["opencl"][0] == "devmod"
    assert linked["opencl"][0] == "devmod_opencl"
    assert linked["cuda"][0] == "devmod"
    assert unforced["opencl"][0] == "devmod_opencl"

    box.uninstall("devmod-opencl")
    (again,) = modules(box, "")
    assert again == alone

    # The same bytes, whatever was installed, module by module and as one file.
    for kind in ("cuda", "rocm", "opencl", "hexagon", "metal", "vulkan", "webgpu"):
        digests = {found[kind][1] for found in (alone, linked, forced, unforced, again)}
        assert len(digests) == 1, kind
    assert len({str(found["bundle"]) for found in (alone, linked, forced, unforced, again)}) == 1


RUN = """
import devmod, sys
module = devmod.create_with_fallback("opencl", b"__kernel void k() {}", "cl", {"k": devmod.FunctionInfo("k", ())})
try:
    module["k"]
except devmod.RuntimeNotLinkedError as error:
    print(error)
try:
    devmod.load_from_bytes("opencl", module.save_to_bytes())
except devmod.NotRegisteredError as error:
    print(error)
"""


@pytest.mark.row("R4", "R24", "R25")
def test_without_the_runtime_the_errors_name_the_command_that_adds_it(
    environment: Callable[..., Any], wheels: Any
) -> None:
    box = environment(wheels.direct("devmod-core"))
    fallback, loading = box.run("-c", RUN).splitlines()
    assert fallback == (
        "the opencl function 'k' cannot be used here: this module is a fallback, made while the OpenCL runtime was not installed. "
        "It can be inspected and saved. To run it: pip install devmod-opencl"
    )
    assert "devmod.load_from_bytes.opencl" in loading
    assert "pip install devmod-opencl" in loading


GONE = """
import sys
from pathlib import Path
import devmod
sys.path.append(sys.argv[1])
from environments import uninstall

code, functions = b"kernel void k(global float *x) {}", {"k": devmod.FunctionInfo("k", ("handle",), ("blockIdx.x", "threadIdx.x"))}
made = devmod.create("opencl", code, "cl", functions)
file = devmod.dumps(made)
used, new = devmod.loads(file), devmod.loads(file)
devmod.load_from_bytes("opencl", made.save_to_bytes())
used._real()
uninstall(Path(sys.executable), sys.argv[2:])
for call in (
    lambda: new["k"],
    lambda: used["k"],
    lambda: made["k"],
    lambda: devmod.create("opencl", code, "cl", functions)["k"],
    lambda: devmod.create_with_fallback("opencl", code, "cl", functions)["k"],
    lambda: devmod.load_from_bytes("opencl", made.save_to_bytes())["k"],
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.row("R4", "R24")
@pytest.mark.parametrize(
    "names",
    [["devmod-opencl"], ["devmod-opencl", "devmod-runtime"], ["devmod-runtime"]],
    ids=" ".join,
)
def test_a_runtime_that_is_uninstalled_in_a_running_process(
    names: list[str], environment: Callable[..., Any], wheels: Any
) -> None:
    box = environment(wheels.direct("devmod-core"), wheels.direct("devmod-opencl"))
    lines = box.run("-c", GONE, str(TOOLS), *names).splitlines()
    key = "devmod.load_from_bytes.opencl"
    miss = f"NotRegisteredError {key} is not registered: the OpenCL runtime is not installed. To add it: pip install devmod-opencl"
    broken = f"PluginError {key} is broken: devmod-opencl {devmod.__version__}: importing devmod_runtime failed (ModuleNotFoundError: "
    text = miss if "devmod-opencl" in names else broken
    assert [line[: len(text)] for line in lines] == [text] * 6


VERIFY = """
import devmod
functions = {"k": devmod.FunctionInfo("absent", [])}
wgsl = {"k": b"@compute @workgroup_size(1) fn k() {}"}
print(devmod.verify(devmod.create_with_fallback("webgpu", wgsl, "wgsl", functions)))
"""


def test_wgsl_is_checked_where_its_reader_is_installed(
    environment: Callable[..., Any], wheels: Any
) -> None:
    names = ["devmod-core", "devmod-workbench", "devmod-opencl"]
    box = environment(*map(wheels.direct, names))
    assert box.run("-c", VERIFY).splitlines()[1] == "  intact, contents not checked: webgpu/wgsl"
    box.install(wheels.direct("devmod-wgsl"))
    assert box.run("-c", VERIFY).splitlines()[1] == (
        "  invalid webgpu/wgsl: the webgpu payload of format 'wgsl' has no kernel 'absent', which its fmap names; it has: 'k'. "
        "Compile it again"
    )


#: A kernel of each kind that doubles numbers, and what brings a device where there is no hardware.
TWICE = {
    "opencl": (
        "twice.cl",
        "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }",
        "pocl",
    ),
    "vulkan": (
        "twice.comp",
        "#version 450\nlayout(local_size_x = 4) in;\nlayout(std430, binding = 0) buffer X { float x[]; };\n"
        "void main() { x[gl_GlobalInvocationID.x] *= 2.0; }\n",
        "",
    ),
    "webgpu": (
        "twice.wgsl",
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
        "@compute @workgroup_size(4) fn twice(@builtin(global_invocation_id) at: vec3<u32>) { x[at.x] = x[at.x] * 2.0; }\n",
        "",
    ),
    "metal": (
        "twice.metal",
        "kernel void twice(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2; }",
        "",
    ),
}
WHOLE_WAY = """
import sys
import numpy as np
import devmod
x = np.arange(8, dtype=np.float32)
twice = devmod.load(sys.argv[1])
try:
    devmod.device(sys.argv[2])
except devmod.DeviceNotFoundError as error:
    print("no device:", error)
    sys.exit()
twice["twice"](x, grid=2, block=4)
assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14], x
print("ran")
"""


@pytest.mark.volume_but("opencl")
@pytest.mark.row("R37")
@pytest.mark.parametrize("kind", TWICE)
def test_from_a_build_box_to_a_device_box(
    kind: str, environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    name, source, extra = TWICE[kind]
    (tmp_path / name).write_text(source)
    box = environment(wheels.direct("devmod-core", f"build-{kind}"))
    bundle = tmp_path / "twice.devmod"
    box.run("-m", "devmod", "compile", str(tmp_path / name), "-t", kind, "-o", str(bundle))
    said = box.run("-m", "devmod", "inspect", str(bundle))
    assert f"pip install devmod-{kind}" in said
    other = environment(
        wheels.direct("devmod-core"),
        wheels.direct("devmod-workbench"),
        wheels.direct(f"devmod-{kind}", *filter(None, [extra])),
        "numpy",
    )
    assert f"devmod-{kind}" in other.run("-m", "devmod", "inspect", str(bundle))
    found = other.run("-c", WHOLE_WAY, str(bundle), kind)
    if found.startswith("no device"):
        pytest.skip(found.strip())
    assert found == "ran\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="devmod-simulators is for Linux")
@pytest.mark.row("R49")
def test_cuda_runs_without_a_gpu_and_without_a_compiler(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """Its libraries are in the wheel. PATH has no program at all."""
    packages = ("cuda-core", "cuda-bindings>=13", "nvidia-cuda-nvrtc", "nvidia-nvjitlink")
    box = environment(wheels.direct("devmod-core"), wheels.direct("devmod-simulators"), *packages)
    program = Path(__file__).with_name("simulated") / "core_add.py"
    lines = box.run(
        "-m", "devmod", "simulate", "--", str(box.python), str(program), env={"PATH": str(tmp_path)}
    ).splitlines()
    assert lines[:3] == ["simulated GPU (devmod-simulators) sm_90", "ptx True", "cubin True"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="devmod-simulators is for Linux")
@pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed, which nvcc needs")
@pytest.mark.volume
@pytest.mark.row("R49")
def test_a_project_of_cmake_is_built_and_tested_without_a_gpu(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """As in CI: nvcc and CMake are those of wheels, and the project is as it is."""
    packages = ("cmake", "ninja", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
    box = environment(wheels.direct("devmod-simulators"), *packages)
    project = tmp_path / "project"
    shutil.copytree(Path(__file__).with_name("simulated") / "cmake", project)
    path = f"{box.python.parent}:/usr/bin:/bin"
    build = "cmake -G Ninja -B build && cmake --build build"
    script = f"cd {project} && {build} && ctest --test-dir build --output-on-failure"

    def ctest(*options: str) -> tuple[set[str], str]:
        """Return the tests that fail, and what the command prints."""
        words = ["-m", "devmod", "simulate", *options, "--", "sh", "-c", script]
        text = box.run(*words, env={"PATH": path}, code=8)
        return set(re.findall(r"(\w+) \(Failed\)", text)), text

    failed, text = ctest()
    assert failed == {"shift"}
    assert f"thread (63, 0, 0), {project}/shift.cu:7" in text
    failed, text = ctest("--sanitize")
    assert failed == {"shift", "total"}
    assert re.findall(r"^(\w.*): \S*?(\w+\.cu:\d+)  ", text, re.MULTILINE) == [
        ("out of bounds (read)", "shift.cu:7"),
        ("race (read and write)", "total.cu:11"),
    ]


#: The functions that a program imports from a plugin, because they concern one kind alone.
PUBLIC = {"devmod-cuda": ("current_device", "tensor_map"), "devmod-vulkan": ("device",)}
SURFACE = """
import importlib, importlib.metadata as metadata, json, sys
found = {}
for plugin in sys.argv[1:]:
    package = importlib.import_module(plugin.replace("-", "_"))
    entries = metadata.distribution(plugin).entry_points
    declared = {entry.attr for entry in entries if entry.module == package.__name__ and entry.attr}
    found[plugin] = sorted(declared), sorted(name for name in vars(package) if not name.startswith("_") and name not in ("annotations", "TYPE_CHECKING"))
print(json.dumps(found))
"""


@pytest.mark.row("R7", "R8")
def test_the_metapackage_brings_core_and_by_its_extras_the_runtimes(
    environment: Callable[..., Any], wheels: Any
) -> None:
    """Their packages have no public names but those of the entry points. No plugin is broken where
    the conformance kit is missing.
    """
    plugins = sorted(
        path.parent.name
        for path in (Path(__file__).parents[1] / "plugins").glob("devmod-*/pyproject.toml")
    )
    extras = [name.removeprefix("devmod-") for name in plugins]
    backends = [*plugins, "devmod-host"]
    box = environment(
        wheels.direct("devmod-core"),
        *map(wheels.direct, backends),
        wheels.direct("devmod", *extras),
    )
    listed = json.loads(box.run("-m", "devmod", "plugins", "--json"))
    assert {row["distribution"] for row in listed} == {
        "devmod-readers",
        "devmod-runtime",
        "devmod-targets",
        *backends,
    }
    assert {(row["group"], row["state"], row["problem"]) for row in listed} == {
        (
            row["group"],
            "needs devmod-conformance" if row["group"] == "devmod.conformance" else "ok",
            "",
        )
        for row in listed
    }
    for plugin, (declared, public) in json.loads(box.run("-c", SURFACE, *backends)).items():
        assert public == sorted([*declared, *PUBLIC.get(plugin, ())])


@pytest.mark.row("R8")
def test_a_command_whose_wheel_is_missing_names_the_wheel(
    environment: Callable[..., Any], wheels: Any
) -> None:
    names = ["devmod-core", "devmod-workbench", "devmod-opencl"]
    box = environment(*map(wheels.direct, names))
    listed = "".join(box.run("-m", "devmod", "--help").split())  # click wraps the lines
    for words, wheel, command in (
        (("conformance", "opencl"), "devmod-conformance", "devmod-conformance"),
        (("new-backend", "acme"), "devmod-conformance", "devmod-conformance"),
        (("compile", "k.cl", "-t", "opencl"), "devmod-targets", '"devmod-core[build]"'),
        (("onnx", "m.onnx", "-t", "opencl"), "devmod-models", '"devmod-core[onnx]"'),
    ):
        assert box.run("-m", "devmod", *words, code=1) == (
            f"devmod: error: the command {words[0]!r} cannot run: {wheel} is not installed. To add it: pip install {command}\n"
        )
        assert f"(pipinstall{command})" in listed


#: A program that is checked on a build box and runs on a device box.
TYPED = """
import devmod

def scale(module: devmod.Module, device: devmod.Device, stream: devmod.Stream | None = None) -> devmod.Array:
    x: devmod.Array = device.zeros(8, "float32")
    function: devmod.Function = module["scale"]
    function(x, 2.0, threads=8, stream=stream)
    return x

kind: str = devmod.compile("", "opencl").kind
wrong: int = devmod.compile("", "opencl").kind
"""


@pytest.mark.volume_but("devmod-core")
@pytest.mark.parametrize("installed", ["devmod-core", "devmod-opencl"])
def test_types_are_checked_where_no_runtime_is_installed(
    installed: str, environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """The names of devmod-runtime have no types there. Those of core do."""
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    box = environment(wheels.direct("devmod-core"), wheels.direct(installed))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*command, "--python-executable", str(box.python), str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout == (
        'program.py:11: error: Incompatible types in assignment (expression has type "str", variable has type "int")  [assignment]\n'
    )
