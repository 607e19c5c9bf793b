"""`make demo`: real wheels, two environments, the same files.

Environment A has the compilers of every kind and no runtime. It compiles examples/ for every kind,
and TVM's matmul, into one bundle. The kernels that have one source for several kinds go into two
others, by language. A fourth has a program: one call launches five kernels. Environment B has
devmod-core and the runtime wheels. It runs everything from those files on each device, compares
with NumPy and draws pictures. Without NVIDIA's driver, CUDA's kernels run on the simulated GPU.
ROCm's kernels run on the emulator of RDNA3, if DEVMOD_RDNA3_EMULATOR names one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from environments import ROOT, VENV, InstallError, install, make_venv, python_of
from wheels import build

OUT = ROOT / "build" / "demo"
#: What environment B needs besides the wheels: numbers and pictures.
BESIDES = ["numpy>=1.26", "pillow>=10"]
#: The extras of runtimes that install a device: PoCL is OpenCL on the CPU of Linux on x86-64; so is
#: Intel's runtime, which `make test-setup` fetches.
EXTRAS = {
    "devmod-opencl": "[pocl,intel]" if (VENV / "lib" / "libintelocl.so").exists() else "[pocl]"
}

BEGUN = time.monotonic()


def step(text: str) -> None:
    """Print the next step, and the seconds since the start."""
    print(f"\n[{time.monotonic() - BEGUN:5.1f} s] {text}", flush=True)


def environment(name: str, requirements: Sequence[str], wheels: Sequence[Path]) -> Path:
    """Return the interpreter of an environment with exactly these requirements. It is reused while
    they and the wheels are unchanged.
    """
    venv = OUT / name
    digest = hashlib.sha256("\n".join((sys.version, str(venv), *requirements)).encode())
    for wheel in wheels:
        digest.update(wheel.read_bytes())
    stamp = venv / "devmod-demo"
    if not (
        stamp.exists() and stamp.read_text() == digest.hexdigest() and python_of(venv).exists()
    ):
        make_venv(venv)
        install(python_of(venv), requirements)
        stamp.write_text(digest.hexdigest())
    return python_of(venv)


def rocm_emulator() -> dict[str, str]:
    """Return the variables for the stand-in HIP runtime and its emulator of AMD's RDNA3; {} if they
    cannot run here.
    """
    sys.path.insert(0, str(ROOT / "extras" / "simulators" / "standins"))
    from devmod_simulators import UnavailableError
    from devmod_standins import libamdhip64, rdna3

    try:
        return (
            {}
            if rdna3.missing()
            else {**libamdhip64.environment(), rdna3.VARIABLE: str(rdna3.folder())}
        )
    except UnavailableError:
        return {}


def simulated_gpu() -> dict[str, str]:
    """Return the variable that gives devmod a simulated GPU, where there is no driver of NVIDIA."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return {}
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"DEVMOD_CUDA_DRIVER": "simulator"}
    return {}


def run(*command: str | Path, variables: Mapping[str, str] | None = None) -> None:
    """Run a command in an empty folder, so that it cannot import from the source tree. `variables`
    are added to its environment.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTHON"))
    }
    # The demo runs on every processor, also on one that PoCL does not know.
    clean |= {
        "DEVMOD_CACHE_DIR": str(OUT / "cache"),
        "DEVMOD_OPENCL_POCL_CPU": "1",
        "PYTHONUTF8": "1",
    }
    clean.setdefault(
        "XDG_RUNTIME_DIR", str(OUT / "runtime")
    )  # Mesa's drivers print an error without it
    clean |= variables or {}
    sys.stdout.flush()
    code = subprocess.call([str(part) for part in command], cwd=OUT / "empty", env=clean)
    if code:
        raise SystemExit(
            f"\nthe demo failed: {' '.join(map(str, command))}\nended with exit code {code}"
        )


def _requirements(wheels: Mapping[str, Path]) -> list[str]:
    return [f"{name} @ {wheel.as_uri()}" for name, wheel in wheels.items()]


def main() -> None:
    """Run the demo."""
    step("building the wheels")
    wheels = build(OUT / "wheels")
    wheel_of = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in wheels}
    for wheel in wheels:
        print(f"  {wheel.name}  {wheel.stat().st_size / 1000:.0f} kB")
    core = wheel_of["devmod-core"]
    build_side = {
        name: wheel_of[name]
        for name in ("devmod-readers", "devmod-wgsl", "devmod-targets", "devmod-workbench")
    }
    runtimes = {
        path.name: wheel_of[path.name]
        for path in sorted((ROOT / "plugins").glob("devmod-*"))
        if path.name in wheel_of
    }
    for folder in ("empty", "runtime"):
        shutil.rmtree(OUT / folder, ignore_errors=True)
        (OUT / folder).mkdir(mode=0o700)

    step("environment A, the build box: devmod-core[build,build-vulkan-opencl], no runtime")
    a = environment(
        "build-box",
        _requirements({"devmod-core[build,build-vulkan-opencl]": core, **build_side}),
        [core, *build_side.values()],
    )
    run(a, "-m", "devmod", "plugins")
    run(a, ROOT / "examples" / "demo" / "build.py", ROOT, OUT)
    run(a, "-m", "devmod", "inspect", OUT / "kernels.devmod")

    expected = {f"{name}{EXTRAS.get(name, '')}": wheel for name, wheel in runtimes.items()}
    step(f"environment B, where it runs: devmod-core, {', '.join(expected)}")
    # Runtimes depend on devmod-runtime, and it on devmod-readers; that of WebGPU on devmod-wgsl,
    # those of CUDA and ROCm on devmod-driver-api. None needs the build side.
    own = {
        "devmod-core[cli]": core,
        "devmod-readers": wheel_of["devmod-readers"],
        "devmod-wgsl": wheel_of["devmod-wgsl"],
        "devmod-runtime": wheel_of["devmod-runtime"],
        "devmod-driver-api": wheel_of["devmod-driver-api"],
        # For the command that the last lines name.
        "devmod-workbench": wheel_of["devmod-workbench"],
        **expected,
    }
    gpu = simulated_gpu()
    if gpu:
        own["devmod-simulators"] = wheel_of["devmod-simulators"]
    b = environment("device-box", [*_requirements(own), *BESIDES], [*own.values()])
    run(b, "-m", "devmod", "devices", variables=gpu)
    step("loading the files, running everything")
    variables = rocm_emulator() | gpu
    run(b, ROOT / "examples" / "demo" / "run.py", ROOT, OUT, variables=variables)
    step("a model that tinygrad trained, in one file")
    run(b, ROOT / "examples" / "applications" / "digits" / "run.py")
    step("done")
    command = b.with_name("devmod").relative_to(ROOT)
    print(f"  the file in the browser: {command} view {(OUT / 'kernels.devmod').relative_to(ROOT)}")
    print(
        f"  its contents:            {command} inspect {(OUT / 'kernels.devmod').relative_to(ROOT)}"
    )


if __name__ == "__main__":
    try:
        main()
    except InstallError as error:
        raise SystemExit(f"demo: {error}") from None
