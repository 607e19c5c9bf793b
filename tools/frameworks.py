"""Run the tests of devmod-frameworks and devmod-tvm with PyTorch, JAX, tvm-ffi and TVM, and
programs on the simulated GPU.

`make setup` does not install these: they have 1 GB.

The examples are compiled for cuda too, with the NVRTC that PyTorch's wheels for CUDA require.

    python tools/frameworks.py [--prepare] [--all] [pytest options]

The environments stay between runs; --prepare makes them and runs nothing. --all runs the volume of
the tests too: more architectures, in about two hours.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from environments import CONSTRAINTS, ROOT, InstallError, constraints, install, kept
from setup import editable, fingerprint, group, interpreter

#: Newer wheels of PyTorch need NVIDIA's. Its newer exporter to ONNX needs onnxscript. TVM calls the
#: functions of tvm-ffi.
PACKAGES = (
    *("torch==2.13.0", "onnxscript==0.7.2", "transformers==5.18.0"),
    *("torchvision==0.28.0", "timm==1.0.31"),
    *("jax", "jax-tvm-ffi", "apache-tvm-ffi", "apache-tvm==0.27.0.post1"),
)
#: What PyTorch 2.13.0 for CUDA requires. The wheel of the CPU does not.
NVRTC = ("nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96")
#: Where PyTorch for the CPU is installed, Triton finds no GPU. So these have an environment of
#: their own.
SIMULATED = ("triton==3.9.0", "numba-cuda[cu13]==0.30.4")
SIMULATED_TESTS = (
    "tests/test_simulate.py",
    "tests/test_triton_packages.py",
    "compilers/targets/tests/test_triton.py",
    "compilers/targets/tests/test_triton_package.py",
)
TVM = ROOT / "extras" / "tvm"
TESTS = (
    "extras/frameworks/tests",
    "extras/models/tests",
    "extras/tvm/tests",
    "compilers/targets/tests/test_compile_cuda.py::test_an_example_compiles_with_the_nvrtc_of_this_environment",
)


def fill(python: Path) -> None:
    """Install into the environment."""
    requirements = [*editable(), *group("test"), *PACKAGES, *NVRTC, "editables"]
    # PyTorch requires other versions of NVIDIA's wheels than development uses.
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    other = [line for line in lines if not line.startswith("nvidia-")]
    path = python.with_name(CONSTRAINTS.name)
    path.write_text("\n".join(other), encoding="utf-8")
    install(python, [*constraints(path), *requirements], cached=True)
    # Its library is compiled with the headers of the TVM that is installed there, so its build is
    # not isolated.
    install(python, ["--no-build-isolation", "--editable", str(TVM)])


def fill_simulated(python: Path) -> None:
    """Install into the environment of the programs for the simulated GPU."""
    install(python, [*constraints(), *editable(), *group("test"), *SIMULATED], cached=True)


def sources() -> str:
    """Return what the library of devmod-tvm is built from."""
    return "".join(
        (TVM / name).read_text(encoding="utf-8")
        for name in ("pyproject.toml", "hatch_build.py", "native/bridge.cpp")
    )


def main() -> int:
    """Run the tests and return the exit code."""
    try:
        python = kept(
            ROOT / "build" / "frameworks",
            f"{interpreter()}{fingerprint()}{PACKAGES}{NVRTC}{sources()}",
            fill,
        )
        simulated = kept(
            ROOT / "build" / "simulated",
            f"{interpreter()}{fingerprint()}{SIMULATED}",
            fill_simulated,
        )
    except InstallError as error:
        print(error)
        return 1
    if "--prepare" in sys.argv:
        return 0
    options = [each for each in sys.argv[1:] if each != "--all"]
    chosen = [*TESTS]
    if "--all" not in sys.argv:
        chosen += ["-m", "not volume"]
    print(
        f"== frameworks: the tests of devmod-frameworks and devmod-tvm with {', '.join(PACKAGES)}, and the examples with {NVRTC[0]}",
        flush=True,
    )
    status = subprocess.call([str(python), "-m", "pytest", *chosen, "-q", *options], cwd=ROOT)
    print(f"== frameworks: programs on the simulated GPU, with {', '.join(SIMULATED)}", flush=True)
    return status | subprocess.call(
        [str(simulated), "-m", "pytest", *SIMULATED_TESTS, "-q", *options], cwd=ROOT
    )


if __name__ == "__main__":
    sys.exit(main())
