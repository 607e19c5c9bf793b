"""devmod's tests and benchmarks on a machine with an NVIDIA GPU, which may have no network.

    python tools/cuda_machine.py wheels [--python 3.12]     where there is a network: fetch wheels into build/cuda-machine
    python tools/cuda_machine.py test | bench | sanitize    on the machine; --stand-in tries the commands with the stand-in driver

`wheels` makes folders 1, 2, … of at most 60 MiB, and cuts wheels that are larger, so that they can be copied one by one. On the machine,
the other commands join and install what is there, with its Python and no index, into build/cuda-machine/venv. Where `.venv` has devmod-cuda
(after `make setup`), they use that.

`test` runs devmod-cuda's tests, its examples and the kit with both drivers of Python. `bench` runs the CUDA benchmarks. `sanitize` runs the
examples with compute-sanitizer, with memcheck and racecheck. Each ends after nine minutes.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from environments import ROOT, InstallError, make_venv, python_of

FOLDER = ROOT / "build" / "cuda-machine"
PART = 60 << 20
#: What the tests and benchmarks import, beside devmod's own wheels. CuPy is too large for most lines; give its wheel beforehand.
PACKAGES = (
    "backports.zstd", "click", "cuda-bindings>=13.0", "cuda-core>=1.0", "filelock", "hatchling", "hypothesis", "importlib-metadata",
    "libclang", "ml_dtypes", "msgpack", "numpy", "pillow", "pluggy", "pytest", "pytest-xdist", "pytools", "rich", "typing-extensions",
    "nvidia-cuda-nvrtc>=13.0", "nvidia-cuda-runtime>=13.0", "nvidia-cuda-crt>=13.0", "nvidia-cuda-cccl>=13.0", "nvidia-nvfatbin>=13.0",
)  # fmt: skip
#: The wheels of this repository that the machine needs.
OWN = ("devmod_core", "devmod_targets", "devmod_conformance", "devmod_driver_api", "devmod_cuda")
DRIVERS = ("cuda-bindings", "pycuda")
#: The tests; the environment variable DEVMOD_TEST_CUDA=hardware makes them use the real driver.
TESTS = ("plugins/devmod-cuda/tests", "driver-api/tests", "targets/tests/test_interop.py", "targets/tests/test_interop_offload.py")
BENCHMARKS = ("bench_launch_cuda.py", "cuda_on_gpu.py", "bench_cuda_compile.py")
LIMIT = 540.0


def fetch(version: str) -> None:
    """Fetch the wheels for a Python version, with those of this repository and of pycuda if they are there."""
    import wheels

    downloads = FOLDER / "downloads"
    shutil.rmtree(FOLDER, ignore_errors=True)
    downloads.mkdir(parents=True)
    platforms = [
        f"--platform={tag}_x86_64" for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34")
    ]
    options = ["--only-binary=:all:", f"--python-version={version}", "--implementation=cp", *platforms]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(downloads), *options, *PACKAGES], check=True)
    wheels.build(FOLDER / "own")
    files = [*downloads.glob("*.whl"), *(path for path in (FOLDER / "own").glob("*.whl") if path.name.startswith(OWN))]
    tag = f"cp{version.replace('.', '')}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    files += [path for path in cache.glob("devmod-tests/pycuda/*/pycuda-*.whl") if tag in path.name][:1]
    if not any(path.name.startswith("pycuda-") for path in files):
        print(f"no wheel of pycuda for Python {version}: tools/build_pycuda.py builds one with that Python; its tests will be skipped")
    for number, size in enumerate(_pack(files), 1):
        print(f"{FOLDER / str(number)}: {size / (1 << 20):.0f} MiB")
    shutil.rmtree(downloads)
    shutil.rmtree(FOLDER / "own")


def _pack(files: list[Path]) -> list[int]:
    """Copy files into folders of at most `PART` bytes, in parts where necessary; return the sizes of the folders."""
    sizes = [0]
    for path in sorted(files, key=lambda path: -path.stat().st_size):
        data = path.read_bytes()
        parts = [data[start : start + PART] for start in range(0, len(data), PART)]
        for index, part in enumerate(parts):
            number = next((each for each, size in enumerate(sizes) if size + len(part) <= PART), len(sizes))
            if number == len(sizes):
                sizes.append(0)
            sizes[number] += len(part)
            folder = FOLDER / str(number + 1)
            folder.mkdir(exist_ok=True)
            (folder / (f"{path.name}.part{index:02}of{len(parts):02}" if len(parts) > 1 else path.name)).write_bytes(part)
    return sizes


def interpreter() -> Path:
    """Return a Python with devmod-cuda: that of `.venv`, or of an environment of the fetched wheels."""
    own = python_of(ROOT / ".venv")
    if own.exists() and subprocess.run([own, "-c", "import devmod_cuda, pytest"], capture_output=True, check=False).returncode == 0:
        return own
    joined = FOLDER / "joined"
    joined.mkdir(parents=True, exist_ok=True)
    for path in sorted(FOLDER.glob("[0-9]*/*.whl")):
        shutil.copyfile(path, joined / path.name)
    starts = sorted(FOLDER.glob("[0-9]*/*.part00of*"))
    for start in starts:
        name, _, count = start.name.rpartition(".part00of")
        parts = [next(iter(FOLDER.glob(f"[0-9]*/{glob.escape(name)}.part{index:02}of{count}")), None) for index in range(int(count))]
        if None in parts:
            print(f"{name} is incomplete and not installed")
            continue
        (joined / name).write_bytes(b"".join(part.read_bytes() for part in parts if part is not None))
    wheels = sorted(joined.glob("*.whl"))
    if not wheels:
        raise InstallError(
            f"there is neither .venv with devmod-cuda (make setup) nor a wheel in {FOLDER}. Fetch the wheels on a machine with a network: "
            "python tools/cuda_machine.py wheels"
        )
    stamp, names = FOLDER / "venv" / "devmod-wheels", "\n".join(path.name for path in wheels)
    python = python_of(FOLDER / "venv")
    if not (stamp.exists() and stamp.read_text() == names):
        make_venv(FOLDER / "venv", pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *map(str, wheels)]
        if subprocess.run(command, check=False).returncode:
            raise InstallError(f"the wheels in {FOLDER} do not install with Python {sys.version_info.major}.{sys.version_info.minor}")
        stamp.write_text(names)
    return python


def commands(task: str, python: Path, stand_in: bool) -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the commands of a task, each with a title and its environment variables."""
    hardware = {} if stand_in else {"DEVMOD_TEST_CUDA": "hardware"}
    if task == "test":
        tests = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        kit = [(f"the kit with {driver}", [str(python), "-m", "devmod", "conformance", "cuda"], hardware | {"DEVMOD_CUDA_DRIVER": driver})
               for driver in DRIVERS]  # fmt: skip
        return [("tests", tests, hardware), *([] if stand_in else kit)]
    if task == "bench":
        return [(name, [str(python), str(ROOT / "benchmarks" / name)], hardware) for name in BENCHMARKS]
    sanitizer = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if sanitizer is None:
        print("compute-sanitizer is not installed (it is part of CUDA's toolkit): skipped")
        return []
    if stand_in:
        print("compute-sanitizer needs a GPU: skipped")
        return []
    examples = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugins/devmod-cuda/tests/test_examples.py"]
    return [
        (tool, [sanitizer, f"--tool={tool}", "--target-processes=all", "--error-exitcode=7", *examples], hardware)
        for tool in ("memcheck", "racecheck")
    ]


def describe() -> str:
    """Return the card and the driver's version, for the record."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "nvidia-smi gives no card"


def main() -> int:
    """Run a task, and return the exit code: 0 if each command succeeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("wheels", "test", "bench", "sanitize"))
    parser.add_argument(
        "--python", default=f"{sys.version_info.major}.{sys.version_info.minor}", help="the Python of the machine, for wheels"
    )
    parser.add_argument("--stand-in", action="store_true", help="use the stand-in driver of the tests")
    options = parser.parse_args()
    if options.task == "wheels":
        fetch(options.python)
        return 0
    end = time.monotonic() + LIMIT
    python = interpreter()
    print(f"{time.strftime('%Y-%m-%d')}, {'the stand-in driver' if options.stand_in else describe()}, {python}", flush=True)
    failed = False
    for title, command, variables in commands(options.task, python, options.stand_in):
        print(f"\n== {title}", flush=True)
        path = os.pathsep.join(str(ROOT / folder) for folder in ("tests/standin", "plugins/devmod-cuda/tests"))
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path} | variables, check=False, timeout=max(end - time.monotonic(), 1)
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"stopped: the nine minutes of `{options.task}` are over")
            return 1
        failed |= bool(code)
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InstallError as error:
        raise SystemExit(f"cuda_machine: {error}") from None
