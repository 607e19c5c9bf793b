"""Commands in the folder of a stranger run none of its files: every process that they start
imports, reads and searches elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
#: Packages that devmod's processes import, also those that are optional.
PACKAGES = (
    "clang",
    "click",
    "cuda",
    "devmod",
    "devmod_readers",
    "devmod_targets",
    "devmod_wgsl",
    "devmod_driver_api",
    "distributed",
    "fsspec",
    "msgpack",
    "numpy",
    "slangpy",
    "wgpu",
    "ziglang",
    "zstandard",
)
#: Programs that devmod searches or that its compilers start.
PROGRAMS = (
    *(
        "as",
        "cc",
        "clang",
        "clang++",
        "dxc",
        "gcc",
        "glslang",
        "glslangValidator",
        "glslc",
        "ld",
        "ld.lld",
        "lld",
        "llc",
        "llvm-mc",
        "naga",
        "node",
        "npm",
    ),
    *("opt", "ptxas", "qemu-hexagon", "spirv-dis", "spirv-opt", "spirv-val", "xcrun", "zig"),
)
OPENCL = "__kernel void k(__global int *x) { x[0] = 1; }\n"
SOURCES = {
    "k.cl": OPENCL,
    "deep.cl": "__kernel void deep(__global int *x) { x[0] = "
    + "+".join(["1"] * 2000)
    + "; }\n",  # parsed in a process first
    "k.cu": 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n',
    "k.hip": 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n',
    "k.c": "void k(int *x) { x[0] = 1; }\n",
    "k.comp": "#version 450\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer X { int x[]; };\nvoid main() { x[0] = 1; }\n",
    "k.wgsl": "@group(0) @binding(0) var<storage, read_write> x: array<i32>;\n@compute @workgroup_size(1) fn k() { x[0] = 1; }\n",
    "k.metal": "kernel void k(device int *x [[buffer(0)]]) { x[0] = 1; }\n",
}
MANIFEST = """\
output = "k.devmod"
targets = ["opencl", "cuda -arch=compute_90", "rocm -arch=gfx1100", "hexagon -arch=v68", "vulkan", "webgpu", "metal"]

[kernels.k]
sources = ["k.cl", "k.cu", "k.hip", "k.c", "k.comp", "k.wgsl", "k.metal"]

[kernels.k.target.cuda]
options = ["-lineinfo"]

[kernels.deep]
sources = ["deep.cl"]
targets = ["opencl"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each module of Python and each program that devmod could find, which
    leaves its name in ``../found``.
    """
    folder = tmp_path / "stranger"
    folder.mkdir()
    found = tmp_path / "found"
    python = f"open({str(found)!r}, 'a').write(__name__ + '\\n')\n"
    for name in (*sys.stdlib_module_names, "sitecustomize", "usercustomize", *PACKAGES):
        (folder / f"{name}.py").write_text(python)
    for name in PROGRAMS:
        (folder / name).write_text(f'#!/bin/sh\necho "$0" >> {found}\nexit 1\n')
        (folder / name).chmod(0o755)
    package = folder / "node_modules" / "naga-wasm" / "dist" / "wasm"
    package.mkdir(parents=True)
    (folder / "lib").symlink_to(".")  # npm's prefix has its packages in lib/node_modules
    (package / "naga_bg.wasm").touch()
    (package / "naga.js").write_text(
        f"import {{ appendFileSync }} from 'node:fs';\nappendFileSync({str(found)!r}, 'naga.js\\n');\n"
    )
    (folder / ".npmrc").write_text(f"prefix={folder}\n")
    for name in ("clang.cfg", "zig.cfg", "pyvenv.cfg", ".env"):
        (folder / name).write_text("broken\n")
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    (folder / "devmod.toml").write_text(MANIFEST)
    return folder


def run(folder: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder, which an empty and a relative entry of PATH name too."""
    path = os.pathsep.join(["", ".", os.environ["PATH"]])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env = clean | {"PATH": path, "DEVMOD_CACHE_DIR": str(folder.parent / "cache")} | environment
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def found_in(folder: Path) -> list[str]:
    found = folder.parent / "found"
    return sorted(set(found.read_text().split())) if found.exists() else []


def test_the_files_of_the_folder_show_that_they_run(folder: Path) -> None:
    # Python 3.13 imports `linecache` before it runs the text of -c.
    (folder / "script.py").write_text("import pickle\n")
    run(folder, sys.executable, "-S", "script.py")
    run(folder, "./naga")
    assert {"pickle", "./naga"} <= {*found_in(folder)}


def test_a_build_for_every_kind(folder: Path) -> None:
    done = run(folder, BIN / "devmod", "build", "--json")
    assert found_in(folder) == []
    assert '"status": "compiled"' in done.stdout, done.stderr
    assert "WorkerError" not in done.stdout


@pytest.mark.volume_but(
    "compile deep.cl -t opencl", "compile k.cu -t cuda -arch=compute_90 --option=-G"
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", "k.cl", "-t", "opencl"],
        ["compile", "deep.cl", "-t", "opencl"],
        ["compile", "k.cu", "-t", "cuda -arch=compute_90", "--option=-G"],
        ["compile", "k.wgsl", "-t", "webgpu"],
        ["build", "--plan"],
        ["init", "--force"],
        ["devices"],
        ["plugins"],
        ["conformance", "opencl", "--row", "R8"],
    ],
    ids=" ".join,
)
def test_a_command(folder: Path, arguments: list[str]) -> None:
    run(folder, BIN / "devmod", *arguments)
    assert found_in(folder) == []


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("rocm -arch=gfx1100", '"-fno-integrated-as"'),
        ("hexagon -arch=v68", '"-fno-integrated-as"'),
        ("rocm -arch=gfx1100", '"-std=c++20", "-fimplicit-module-maps", "-fimplicit-modules"'),
    ],
)
def test_options_that_start_programs_or_write_files(
    folder: Path, target: str, options: str
) -> None:
    """The folder is in PATH by its whole name, so its assembler would be found."""
    assembly = '__asm__("no_such_instruction"); ' if "-as" in options else ""
    text = f"void k(int *x) {{ {assembly}x[0] = 1; }}\n"
    (folder / "k.c").write_text(text)
    (folder / "k.hip").write_text('#include "x.h"\nextern "C" __global__ ' + text)
    (folder / "x.h").touch()
    (folder / "module.modulemap").write_text('module X { header "x.h" export * }\n')
    source = "k.c" if "hexagon" in target else "k.hip"
    (folder / "devmod.toml").write_text(
        f'targets = ["{target}"]\n[kernels.k]\nsources = ["{source}"]\noptions = [{options}]\n'
    )
    home = folder.parent / "home"
    home.mkdir()
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    done = run(folder, BIN / "devmod", "build", "--json", PATH=path, HOME=str(home))
    assert found_in(folder) == []
    assert '"status": "failed"' in done.stdout, done.stderr
    assert list(home.rglob("*")) == []


def test_processes_for_payloads(folder: Path) -> None:
    """A runtime tries a payload of unknown origin in a process of its own, and an emulator runs
    that of a DSP.
    """
    program = folder.parent / "program.py"
    program.write_text(
        "import sys, devmod\n"
        "for kind in devmod.registered('devmod.device'):\n"
        "    try:\n"
        "        devmod.device(kind)\n"
        "    except devmod.DevmodError:\n"
        "        continue\n"
        "    if kind == 'webgpu':\n"
        "        devmod.compile(open('k.wgsl').read(), kind, language='WGSL').get_function('k')\n"
    )
    run(folder, sys.executable, program)
    assert found_in(folder) == []


def test_a_run_with_checks(folder: Path) -> None:
    pytest.importorskip("devmod_simulators", reason="devmod-simulators is not installed")
    file = "--guard.devmod"  # it names a file, and is no option
    run(folder, BIN / "devmod", "compile", "k.cu", "-t", "cuda -arch=compute_90", "-o", f"./{file}")
    if not (folder / file).exists():
        pytest.skip("NVRTC is not installed")
    done = run(
        folder,
        BIN / "devmod",
        "run",
        "--grid",
        "1",
        "--block",
        "1",
        "--sanitize=bounds",
        "--",
        file,
        "k",
        "x=zeros[1]",
    )
    assert found_in(folder) == []
    assert (done.returncode, done.stderr) == (0, "devmod-simulators: 0 reports\n")
