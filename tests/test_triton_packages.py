"""Kernels of Triton, recorded, built and served on a simulated GPU, with Triton itself."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import forked
import pytest
from simulate_command import simulate

from devmod_readers.triton import read_record

pytestmark = [
    pytest.mark.usefixtures("simulator"),
    pytest.mark.skipif(
        find_spec("triton") is None,
        reason="triton is not installed (make frameworks installs it in an environment)",
    ),
]
PROGRAM = str(Path(__file__).parent / "simulated" / "triton_launches.py")
FOLDER = str(Path(PROGRAM).parent)
MANAGER = {"TRITON_CACHE_MANAGER": "devmod_runtime.triton:CacheManager"}
#: Variables of a machine without a C compiler and without a folder for Triton's cache.
BARE = ("-u", "TRITON_CACHE_DIR", "CC=/missing/cc", "HOME=/proc/missing")
QUIET = ("-W", "ignore")


def launch(*words: str, code: int = 0, **variables: str) -> list[str]:
    """Run the program on the simulated GPU, and return the lines that it prints."""
    variables.setdefault("TRITON_CACHE_DIR", "")
    python = ("env", f"TRITON_CACHE_DIR={variables.pop('TRITON_CACHE_DIR')}", sys.executable)
    return simulate(*python, *QUIET, PROGRAM, *words, code=code, **variables).splitlines()


def record(*words: str, options: tuple[str, ...]) -> str:
    """Run the program below `devmod triton record` on the simulated GPU."""
    command = [sys.executable, "-m", "devmod", "triton", "record", *options, "--"]
    return simulate(*command, sys.executable, *QUIET, PROGRAM, *words)


def build(*words: str, code: int = 0) -> str:
    done = forked.python("-m", "devmod", "triton", "build", *words, cwd=Path(FOLDER))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a record of two runs, its file, and the file of a run with -t."""
    folder = tmp_path_factory.mktemp("triton")
    output = ("-o", str(folder / "k.json"))
    assert record("small", options=output).splitlines()[-1].endswith("k.json: 1 kernel")
    assert record(options=output).splitlines()[-1].endswith("k.json: 3 kernels")
    target = ("-t", "cuda -arch=compute_90", "-t", "rocm -arch=gfx942")
    assert "3 of 3 kernels" in build(output[1], *target, "-o", str(folder / "k.devmod"))
    record("inner", options=(*target[:2], "-o", str(folder / "inner.devmod")))
    return folder


@pytest.mark.row("R60")
def test_recorded_kernels_are_served_and_the_results_have_equal_bits(
    files: Path, tmp_path: Path
) -> None:
    digest, compiles = launch(TRITON_CACHE_DIR=str(tmp_path / "jit"))
    assert compiles == "compiles 3"
    strict = {"DEVMOD_TRITON": f"{files / 'k.devmod'}:strict", **MANAGER}
    cache = tmp_path / "served"
    assert launch(TRITON_CACHE_DIR=str(cache), **strict) == [digest, "compiles 0"]
    assert not cache.exists()
    version, kernels, _ = read_record((files / "k.json").read_text(), "")
    assert version.startswith("3.")
    assert [each.function for each in kernels] == [
        "triton_packaged:add",
        "triton_packaged:add",
        "triton_packaged:total",
    ]


@pytest.mark.row("R60")
def test_a_specialization_that_was_left_out_is_compiled_or_an_error(
    files: Path, tmp_path: Path
) -> None:
    place = {"DEVMOD_TRITON": str(files / "k.devmod"), "TRITON_CACHE_DIR": str(tmp_path)}
    text = "\n".join(launch("inner", **place, **MANAGER))
    assert "compiles 0\ninner 7.0 1\n" in text
    assert (
        "devmod: Triton compiled 1 kernel not in 'k.devmod': triton_launches:inner(out: *fp32:16, N=7) enable_fp_fusion=True: no file has the "
        "function" in text
    )
    place["DEVMOD_TRITON"] += ":strict"
    text = "\n".join(launch("inner", code=1, **place, **MANAGER))
    assert "LaunchError: the Triton kernel triton_launches:inner(out: *fp32:16, N=7) " in text


def test_the_choice_of_autotune_is_served_and_no_configuration_is_compiled_or_measured(
    tmp_path: Path,
) -> None:
    output = str(tmp_path / "tuned.json")
    digest, _, _, last = record("small", "tuned", options=("-o", output)).splitlines()
    assert last.endswith("tuned.json: 3 kernels")
    _, kernels, choices = read_record(Path(output).read_text(), "")
    assert [each.arguments["BLOCK"] for each in kernels[1:]] == [{"value": 128}, {"value": 256}]
    config = {"BLOCK": 128, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
    (choice,) = choices
    assert choice.function == "triton_packaged:tuned"
    assert choice.gpu.startswith("cuda:90:32:")
    assert (choice.key, choice.config, choice.milliseconds) == ([300, "fp32"], config, 0.5)
    assert choice.others == [[config | {"BLOCK": 256, "num_warps": 8}, 0.5]]
    file = str(tmp_path / "tuned.devmod")
    build(output, "-t", "cuda -arch=compute_90", "-o", file)
    strict = {"DEVMOD_TRITON": f"{file}:strict", **MANAGER}
    for words in (("small", "tuned"), ("first", "small", "tuned")):
        assert launch(*words, **strict) == [digest, "compiles 0", "measured 0"]
    assert launch("small", "tuned", TRITON_CACHE_DIR=str(tmp_path))[2] == "measured 2"


def test_a_run_with_targets_has_the_functions_without_an_import_path(files: Path) -> None:
    strict = {"DEVMOD_TRITON": f"{files / 'inner.devmod'}:strict", **MANAGER}
    assert launch("inner", **strict)[1:] == ["compiles 0", "inner 7.0 0"]


def test_no_compiler_and_no_folder_of_triton_is_needed(files: Path) -> None:
    strict = {"DEVMOD_TRITON": f"{files / 'k.devmod'}:strict", **MANAGER}
    lines = simulate("env", *BARE, sys.executable, *QUIET, PROGRAM, **strict).splitlines()
    assert lines[1:] == ["compiles 0"]


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_each_version_is_served_without_a_compiler_and_a_folder_to_write(
    version: str, environment: Callable[..., Any], tmp_path: Path
) -> None:
    """Triton 3.6 compiles a launcher for each signature."""
    own = environment(
        *(f"triton=={version}", "devmod-workbench", "devmod-targets", "devmod-runtime"),
        *("numpy", "cuda-bindings"),
    )
    python = str(own.python)
    torch = f"PYTHONPATH={Path(FOLDER, 'torch_for_triton')}"
    program = (python, *QUIET, PROGRAM)
    record = ("-m", "devmod", "triton", "record", "-o", str(tmp_path / "k.json"), "--")
    jit = f"TRITON_CACHE_DIR={tmp_path / 'jit'}"
    lines = simulate("env", torch, jit, python, *record, *program).splitlines()
    digest = lines[0]
    assert lines[1:] == ["compiles 3", f"{tmp_path / 'k.json'}: 3 kernels"]
    targets = ("-t", "cuda -arch=compute_90", "-t", "rocm -arch=gfx942")
    words = (str(tmp_path / "k.json"), *targets, "-I", FOLDER, "-o", str(tmp_path / "k.devmod"))
    own.run("-m", "devmod", "triton", "build", *words)

    bare = ("env", *BARE, "PATH=/missing", torch)
    strict = {"DEVMOD_TRITON": f"{tmp_path / 'k.devmod'}:strict", **MANAGER}
    assert simulate(*bare, *program, **strict).splitlines() == [digest, "compiles 0"]
    # The library of AMD's driver has the path of HIP's.
    folder = tmp_path / "rocm of this machine"
    folder.mkdir()
    hip = str(folder / "libamdhip64.so")
    source = str(Path(FOLDER, "libamdhip64.c"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", hip, source], check=True)
    launch = [*bare[1:], f"TRITON_LIBHIP_PATH={hip}", *map("=".join, strict.items())]
    command = ["env", *launch, python, *QUIET, str(Path(FOLDER, "triton_amd.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "compiles 0\n", done.stderr


#: A project whose wheel has kernels of Triton, beside tests/simulated/triton_packaged.py.
PROJECT = {
    "devmod.toml": """\
output = "src/triton_packaged/triton_packaged.devmod"
targets = ["cuda -arch=compute_90", "rocm -arch=gfx942"]
include = ["src"]
triton_records = ["kernels.json"]
""",
    "pyproject.toml": """\
[build-system]
requires = ["hatchling", "devmod-targets", "triton==VERSION"]
build-backend = "hatchling.build"

[project]
name = "triton-packaged"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["triton==VERSION", "devmod-runtime"]

[project.entry-points."devmod.bundles"]
triton_packaged = "triton_packaged"

[tool.hatch.build.hooks.devmod]

[tool.hatch.build.targets.wheel]
packages = ["src/triton_packaged"]
""",
}
HOOK = """\
import hatchling.build, os, sys
os.chdir(sys.argv[1])
print("@" + hatchling.build.build_wheel("dist"))
"""


@pytest.mark.row("R43")
def test_a_wheel_that_hatchling_builds_is_served_without_a_compiler(
    files: Path, environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    """The requirements of each environment are those of the project."""
    project = tmp_path / "project"
    package = project / "src" / "triton_packaged"
    package.mkdir(parents=True)
    version = metadata.version("triton")
    for name, text in PROJECT.items():
        (project / name).write_text(text.replace("VERSION", version))
    source = Path(FOLDER, "triton_packaged.py").read_text()
    (package / "__init__.py").write_text(source)
    (project / "kernels.json").write_bytes((files / "k.json").read_bytes())
    needed = tomllib.loads((project / "pyproject.toml").read_text())["build-system"]["requires"]
    output = environment(*needed).run("-c", HOOK, str(project))
    assert "@triton_packaged-1.0-py3-none-any.whl\n" in output
    wheel = project / "dist" / "triton_packaged-1.0-py3-none-any.whl"

    own = environment(str(wheel), "numpy", "cuda-bindings")
    program = tmp_path / "program"
    program.mkdir()
    for name in ("triton_launches.py", "triton_arrays.py"):
        (program / name).write_bytes(Path(FOLDER, name).read_bytes())
    command = [str(own.python), *QUIET, str(program / "triton_launches.py")]
    strict = {"DEVMOD_TRITON": "strict", **MANAGER}
    digest, compiles = launch(TRITON_CACHE_DIR=str(tmp_path / "jit"))
    assert compiles == "compiles 3"
    lines = simulate("env", *BARE, *command, **strict).splitlines()
    assert lines == [digest, "compiles 0"]
    # Without the entry point's file, the same environment has no kernel.
    (bundle,) = own.folder.glob("venv/lib/*/site-packages/triton_packaged/*.devmod")
    bundle.unlink()
    text = simulate("env", f"TRITON_CACHE_DIR={tmp_path}", *command, code=1, **strict)
    assert "LaunchError: the Triton kernel triton_packaged:add(" in text
