"""Build pycuda from its source and install it into `.venv`, for the tests of devmod-cuda with the
stand-in driver.

    .venv/bin/python tools/build_pycuda.py

`wheel_for` builds a wheel for another Python, which `make gpu KIND=cuda DO=wheels` takes along.
PyPI has no wheel of pycuda. The wheel built here is cached in the user's cache folder by the
versions that it depends on. It is for tests alone: without CURAND, and linked with an empty library
of the driver's name, so that the process provides the driver.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from environments import VENV, InstallError, install, make_venv, python_of
from system import last_line, report

VERSION = "2026.1"
#: The wheels of cuda.h and cudaProfiler.h, of the oldest CUDA that devmod-cuda supports. With
#: headers of a newer CUDA pycuda links with functions that older drivers lack.
HEADERS = ("nvidia-cuda-runtime-cu12==12.0.146", "nvidia-cuda-profiler-api-cu12>=12.0")
#: A build that failed is not repeated before these inputs change; the file has its reason.
STAMP = "devmod-pycuda"
JOBS = os.cpu_count() or 1

#: Python imports a module of this name at its start: setuptools then compiles several files at
#: once.
PARALLEL = """
from concurrent.futures import ThreadPoolExecutor
try:
    import setuptools
    from distutils.ccompiler import CCompiler
except ImportError:
    pass
else:
    def compile(
        self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None, extra_postargs=None, depends=None
    ):
        macros, objects, extra, options, build = self._setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
        flags = self._get_cc_args(options, debug, extra_preargs)
        with ThreadPoolExecutor(%d) as pool:
            list(pool.map(lambda name: self._compile(name, *build[name], flags, extra, options), build))
        return objects
    CCompiler.compile = compile
"""


def main() -> int:
    """Install pycuda if it is missing; return 0 also if it cannot be built: the tests skip what
    needs it.
    """
    if not sys.platform.startswith("linux"):
        return 0
    inputs = key()
    stamp = VENV / STAMP
    lines = stamp.read_text().split("\n", 1) if stamp.exists() else ["", ""]
    if lines[0] == inputs and "--force" not in sys.argv:
        return 0
    start = time.monotonic()
    try:
        folder = cache_folder() / inputs
        wheels = list(folder.glob("pycuda-*.whl"))
        if not wheels:
            report(
                f"building pycuda {VERSION} for the tests of devmod-cuda (about half a minute, once)"
            )
            wheels = [build(folder)]
        install(python_of(VENV), [str(wheels[0]), *pins()])
    except (InstallError, OSError) as error:
        reason = str(error).strip()
        report(
            f"pycuda cannot be built, so its tests are skipped (tools/build_pycuda.py --force tries again): {last_line(reason)}"
        )
        stamp.write_text(f"{inputs}\n{reason}")
        return 0
    stamp.write_text(f"{inputs}\n")
    report(f"pycuda {VERSION} is installed, after {time.monotonic() - start:.0f} s")
    return 0


def wheel_for(python: str) -> Path:
    """Return the cached wheel for another interpreter, built if necessary.

    Raises
    ------
    InstallError
        It cannot be built.
    """
    code = "import platform, sys; print(platform.python_version() + sys.abiflags)"
    interpreter = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = cache_folder() / key(interpreter)
    wheels = list(folder.glob("pycuda-*.whl"))
    if wheels:
        return wheels[0]
    report(f"building pycuda {VERSION} for Python {interpreter} (about half a minute, once)")
    return build(folder, python)


def pins() -> list[str]:
    """Return the requirement that keeps the installed NumPy, which the wheel was built with."""
    return [f"numpy=={metadata.version('numpy')}"]


def key(interpreter: str = platform.python_version() + sys.abiflags) -> str:
    """Return a digest of what the wheel depends on."""
    versions = [VERSION, interpreter, platform.machine(), f"numpy {metadata.version('numpy')}"]
    compiler = shutil.which("c++")
    if compiler:
        versions.append(
            subprocess.run(
                [compiler, "--version"], capture_output=True, text=True, check=False
            ).stdout
        )
    versions.append(Path(__file__).read_text(encoding="utf-8"))
    return hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of the wheels in the user's cache."""
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "devmod-tests" / "pycuda"
    )


def build(target: Path, python: str = sys.executable) -> Path:
    """Build the wheel for an interpreter, put it into `target` and return its path."""
    for program in ("cc", "c++"):
        if shutil.which(program) is None:
            raise InstallError(f"no {program} is installed; Debian and Ubuntu: apt-get install g++")
    with tempfile.TemporaryDirectory(prefix="devmod-pycuda-") as name:
        folder = Path(name)
        env = make_venv(folder / "env", python=python)
        install(env, ["setuptools", "wheel", *pins(), *HEADERS])
        (folder / "start").mkdir()
        (folder / "start" / "sitecustomize.py").write_text(PARALLEL % JOBS)
        (folder / ".aksetup-defaults.py").write_text(configuration(env, folder))
        environment = {
            **os.environ,
            "HOME": str(folder),
            "PYTHONPATH": str(folder / "start"),
            "LDFLAGS": "-Wl,--no-as-needed",
        }
        command = [
            str(python_of(VENV)),
            "-m",
            "pip",
            "--python",
            str(env),
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
        ]
        command += ["--no-binary", ":all:"]
        run([*command, "--wheel-dir", str(folder / "wheels"), f"pycuda=={VERSION}"], environment)
        wheel = next((folder / "wheels").glob("pycuda-*.whl"))
        target.mkdir(parents=True, exist_ok=True)
        part = target / (wheel.name + f".{os.getpid()}")
        shutil.copy(wheel, part)
        part.rename(target / wheel.name)
        return target / wheel.name


def configuration(python: Path, folder: Path) -> str:
    """Make an empty driver library to link with, and return the settings of pycuda's build."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(
        subprocess.run(
            [str(python), "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    headers = [*(site / "nvidia").rglob("cuda.h"), *(site / "nvidia").rglob("cudaProfiler.h")]
    includes = sorted({str(path.parent) for path in headers})
    if not any((Path(path) / "cuda.h").exists() for path in includes):
        raise InstallError(f"{HEADERS[0]} has no cuda.h")
    (folder / "empty.c").write_text("int pycuda_links_with_this;\n")
    run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcuda.so.1",
            "-o",
            str(folder / "libcuda.so"),
            str(folder / "empty.c"),
        ],
        os.environ,
    )
    settings = {
        "CUDA_INC_DIR": includes,
        "CUDADRV_LIB_DIR": [str(folder)],
        "CUDA_ENABLE_CURAND": False,
        "CXXFLAGS": ["-O1", "-g0", "-w"],
    }
    return "".join(f"{name} = {value!r}\n" for name, value in settings.items())


def run(command: Sequence[str], environment: os._Environ[str] | dict[str, str]) -> None:
    """Run a command, or raise InstallError with its output."""
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if process.returncode:
        raise InstallError(
            f"{' '.join(command)}\nfailed:\n{(process.stdout + process.stderr).strip()}"
        )


if __name__ == "__main__":
    sys.exit(main())
