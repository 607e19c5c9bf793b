"""devmod's tests and benchmarks on a machine with an NVIDIA GPU, which may have no network.

    python tools/cuda_machine.py wheels [--python 3.12] [--installed FILE]
    python tools/cuda_machine.py test | questions | bench | sanitize | others
    python tools/cuda_machine.py list

`wheels` fills build/cuda-machine, where there is a network; the others run on the machine. `list`
prints what the machine has, for --installed.

`wheels` makes folders 1, 2, … of at most 42 MiB, and cuts wheels that are larger, so that they can
be copied one by one. With --installed, they have what is not in that list, and the machine's own
environment is used with them: its CuPy, NVRTC and PyTorch take part. Without it, they are a
complete environment. On the machine, the other commands join and install what is there, with its
Python and no index, into build/cuda-machine. Where `.venv` has devmod-cuda (after `make setup`),
they use that.

`test` runs devmod-cuda's tests, its examples, and the kit with ctypes and with pycuda. `questions`
runs tools/cuda_questions.py, and writes each answer to build/cuda-machine/answers.txt, and to $OUT
if it is set, before it asks the next. `bench` runs the CUDA benchmarks. `sanitize` runs the
examples with compute-sanitizer, with memcheck and racecheck. `others` runs the suites of OpenCL,
Vulkan and WebGPU. Each ends after nine minutes. --stand-in tries the commands without a GPU.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

from environments import ROOT, InstallError, make_venv, python_of

FOLDER = ROOT / "build" / "cuda-machine"
#: The file that marks wheels for the machine's own environment.
BESIDE = "beside"
#: What opens the driver, as DEVMOD_CUDA_DRIVER has it.
DRIVERS = ("ctypes", "pycuda")
#: The tests; the environment variable DEVMOD_TEST_CUDA=hardware makes them use the real driver.
TESTS = (
    "plugins/devmod-cuda/tests",
    "plugins/driver-api/tests",
    "compilers/targets/tests/test_interop.py",
    "compilers/targets/tests/test_interop_offload.py",
)
#: What a card changes: bench_cuda_compile.py needs none, and minutes.
BENCHMARKS = ("bench_launch_cuda.py", "cuda_on_gpu.py")
OTHERS = ("opencl", "vulkan", "webgpu")
#: The questions of tools/cuda_questions.py, those of the greatest worth first: the time may end.
QUESTIONS = ("variables", "context", "arrays", "one_graph", "torch_operation", "verify")
#: The tests of what no stand-in knows for sure, which `questions` runs before its own.
DOUBTS = {
    "captures": [
        "plugins/devmod-cuda/tests/test_captures.py",
        "plugins/driver-api/tests/test_batches.py",
        "plugins/driver-api/tests/test_prepared.py",
    ],
    "contexts": [
        "plugins/devmod-cuda/tests/test_stream.py",
        "plugins/driver-api/tests/test_launches.py",
        "-k",
        "context",
    ],
    "tensor maps": ["plugins/devmod-cuda/tests/test_tensor_map.py"],
}
#: Where NVIDIA's driver and container tools put the file by which the Vulkan loader finds the
#: driver.
VULKAN = ("/etc", "/usr/share", "/usr/local/share", "/usr/local/nvidia/share")
LIMIT = 540.0
#: Processes that run tests at a time: each has a context of its own on the GPU.
JOBS = min(os.cpu_count() or 1, 8)


class Environment:
    """A Python with devmod-cuda."""

    def __init__(self, python: Path) -> None:
        self.python = python

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a command: where Python, programs and libraries
        are.
        """
        paths = [
            ROOT / folder
            for folder in ("tests/vendors", "plugins/devmod-cuda/tests", "extras/simulators/src")
        ]
        system = FOLDER / "root" / "usr"
        return {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PATH": os.pathsep.join([str(system / "bin"), os.environ.get("PATH", os.defpath)]),
            "LD_LIBRARY_PATH": os.pathsep.join(
                [
                    *filter(None, [os.environ.get("LD_LIBRARY_PATH")]),
                    *glob.glob(str(system / "lib" / "*-linux-gnu")),
                ]
            ),
        }

    def stand_in(self) -> dict[str, str]:
        """Return the environment variables with which a process finds the stand-in driver."""
        code = "import json; from devmod_simulators import libcuda; print(json.dumps(libcuda.environment()))"
        environment = os.environ | self.variables()
        return dict(
            json.loads(
                subprocess.run(
                    [self.python, "-c", code], env=environment, capture_output=True, check=True
                ).stdout
            )
        )

    def has(self, module: str) -> bool:
        """Return whether the interpreter imports a module."""
        environment = os.environ | self.variables()
        return (
            subprocess.run(
                [self.python, "-c", f"import {module}"],
                env=environment,
                capture_output=True,
                check=False,
            ).returncode
            == 0
        )


def find_environment() -> Environment:
    """Return `.venv`, or an environment of the fetched wheels, which are installed if they have
    changed.

    Raises
    ------
    InstallError
        There is neither, or the wheels do not install.
    """
    own = Environment(python_of(ROOT / ".venv"))
    if own.python.exists() and own.has("devmod_cuda, pytest"):
        return own
    wheels = joined_wheels()
    if not wheels:
        raise InstallError(
            f"there is neither .venv with devmod-cuda (make setup) nor a wheel in {FOLDER}. Fetch the wheels on a machine with a network: "
            "python tools/cuda_machine.py wheels"
        )
    beside = bool(list(FOLDER.glob(f"[0-9]*/{BESIDE}")))
    result = Environment(python_of(FOLDER / "venv"))
    stamp = FOLDER / "installed"
    names = "\n".join(path.name for path in wheels)
    if stamp.exists() and stamp.read_text() == names:
        return result
    command = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    if beside:
        target = make_venv_beside(FOLDER / "venv")
        command = [sys.executable, *command, "--no-compile", "--target", str(target)]
    else:
        command = [str(make_venv(FOLDER / "venv", pip=True)), *command]
    if subprocess.run([*command, *map(str, wheels)], check=False).returncode:
        raise InstallError(
            f"the wheels in {FOLDER} do not install with Python {sys.version_info.major}.{sys.version_info.minor}"
        )
    for package in FOLDER.glob("[0-9]*/*.deb"):
        if subprocess.run(
            ["dpkg-deb", "--extract", str(package), str(FOLDER / "root")], check=False
        ).returncode:
            print(f"{package.name} was not unpacked")
    stamp.write_text(names)
    return result


def make_venv_beside(path: Path) -> Path:
    """Make an environment that also has the packages of this one, which may be an environment
    itself; return its folder of packages.
    """
    shutil.rmtree(path, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = Path(
        subprocess.run(
            [python_of(path), "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    folders = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (target / "beside.pth").write_text(
        "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)
    )
    return target


def joined_wheels() -> list[Path]:
    """Return the fetched wheels, with those in parts put together."""
    joined = FOLDER / "joined"
    joined.mkdir(parents=True, exist_ok=True)
    for start in FOLDER.glob("[0-9]*/*.part00of*"):
        name, _, count = start.name.rpartition(".part00of")
        parts = [
            next(iter(FOLDER.glob(f"[0-9]*/{glob.escape(name)}.part{index:02}of{count}")), None)
            for index in range(int(count))
        ]
        if None in parts:
            print(f"{name} is incomplete and not installed")
        elif not (joined / name).exists():
            (joined / name).write_bytes(
                b"".join(part.read_bytes() for part in parts if part is not None)
            )
    return sorted([*joined.glob("*.whl"), *FOLDER.glob("[0-9]*/*.whl")])


def commands(
    task: str, environment: Environment, stand_in: bool
) -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the commands of a task, each with a title and its environment variables."""
    hardware = {} if stand_in else {"DEVMOD_TEST_CUDA": "hardware"}
    python = str(environment.python)
    parallel = ["-n", str(JOBS)] if environment.has("xdist") else []
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not volume"]
    if task == "test":
        kit = [
            (
                f"the kit with {driver}",
                [python, "-m", "devmod", "conformance", "cuda"],
                hardware | {"DEVMOD_CUDA_DRIVER": driver},
            )
            for driver in DRIVERS
        ]
        return [("tests", [*pytest, *parallel, *TESTS], hardware), *([] if stand_in else kit)]
    if task == "bench":
        return [
            (name, [python, str(ROOT / "tools" / "benchmarks" / name)], hardware)
            for name in BENCHMARKS
        ]
    if task == "questions":
        doubts = [
            (title, [*pytest, *parallel, *chosen], hardware) for title, chosen in DOUBTS.items()
        ]
        found = environment.stand_in() if stand_in else driver_files() | hardware
        return doubts + [
            (name, [python, str(ROOT / "tools" / "cuda_questions.py"), name], found)
            for name in QUESTIONS
        ]
    if task == "others":
        drivers = {} if stand_in else driver_files()
        return [
            (kind, [*pytest, *parallel, f"plugins/devmod-{kind}/tests"], drivers) for kind in OTHERS
        ]
    # The program "faults" has wrong kernels, which are found.
    chosen = ["-k", "not faults", "plugins/devmod-cuda/tests/test_examples.py"]
    examples = [*pytest, *parallel, *chosen]
    if stand_in:
        simulate = [python, "-m", "devmod", "simulate", "--sanitize", "--"]
        return [("the checks of the simulated GPU", [*simulate, *examples], {})]
    sanitizer = find_sanitizer(environment)
    # An error that the driver returns to a call is no fault of a kernel: the tests check such
    # errors.
    options = {"memcheck": ["--report-api-errors=no"], "racecheck": []}
    return [
        (
            tool,
            [
                sanitizer,
                f"--tool={tool}",
                *own,
                "--target-processes=all",
                "--error-exitcode=7",
                *examples,
            ],
            hardware,
        )
        for tool, own in options.items()
    ]


def list_installed() -> int:
    """Print the distributions of this Python, with that of compute-sanitizer if CUDA's toolkit has
    it, and return the exit code.
    """
    if toolkit_sanitizer() is not None:
        print("nvidia-cuda-sanitizer-api", flush=True)
    command = [sys.executable, "-m", "pip", "list", "--format=freeze"]
    return subprocess.run(command, check=False).returncode


def toolkit_sanitizer() -> str | None:
    """Return the path of compute-sanitizer of CUDA's toolkit; None if it is not installed."""
    for path in sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")):
        return path
    return shutil.which("compute-sanitizer")


def find_sanitizer(environment: Environment) -> str:
    """Return the path of compute-sanitizer: of CUDA's toolkit, or of the fetched wheels.

    Raises
    ------
    InstallError
        It is not here, so nothing would be checked.
    """
    found = toolkit_sanitizer()
    if found is not None:
        return found
    code = "import nvidia; print(*nvidia.__path__, sep='\\n')"
    done = subprocess.run(
        [environment.python, "-c", code], capture_output=True, text=True, check=False
    )
    for place in done.stdout.splitlines():
        for path in sorted(glob.glob(f"{place}/*/bin/compute-sanitizer")):
            return path
    raise InstallError(
        "compute-sanitizer is not installed: pip install nvidia-cuda-sanitizer-api, or fetch "
        "the wheels again on a machine with a network: python tools/cuda_machine.py wheels"
    )


def driver_files() -> dict[str, str]:
    """Return environment variables by which the loaders of OpenCL and Vulkan find NVIDIA's driver,
    where the system has none.
    """
    variables: dict[str, str] = {}
    if not glob.glob("/etc/OpenCL/vendors/*.icd"):
        vendors = FOLDER / "vendors"
        vendors.mkdir(parents=True, exist_ok=True)
        (vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
        variables["OCL_ICD_VENDORS"] = str(vendors)
    files: list[str] = []
    for base in VULKAN:
        files += glob.glob(f"{base}/vulkan/icd.d/nvidia*.json")
    if files:
        # A loader older than 1.3.207 reads the second.
        variables["VK_DRIVER_FILES"] = variables["VK_ICD_FILENAMES"] = files[0]
    return variables


def describe() -> str:
    """Return the card and the driver's version, for the record."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(
            query, capture_output=True, text=True, check=True, timeout=120
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "nvidia-smi gives no card"


def run(task: str, stand_in: bool) -> int:
    """Run a task, and return the exit code: 0 if each command succeeded."""
    end = time.monotonic() + LIMIT
    environment = find_environment()
    about = f"{time.strftime('%Y-%m-%d')}, {'the stand-in driver' if stand_in else describe()}, {environment.python}"
    print(about, flush=True)
    if task == "questions":
        keep("on", about)
    failed = False
    for title, command, variables in commands(task, environment, stand_in):
        print(f"\n== {title}", flush=True)
        began = time.monotonic()
        merged: Mapping[str, str] = os.environ | environment.variables() | variables
        output = subprocess.PIPE if task == "questions" else None
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=merged,
                stdout=output,
                stderr=output,
                text=True,
                check=False,
                timeout=max(end - began, 1),
            )
        except subprocess.TimeoutExpired:
            print(f"stopped: the nine minutes of `{task}` are over")
            return 1
        if output is not None:
            keep(title, done.stdout + done.stderr)
        print(
            f"== {title}: {'failed' if done.returncode else 'done'} after {time.monotonic() - began:.0f} s",
            flush=True,
        )
        failed |= bool(done.returncode)
    return int(failed)


def keep(title: str, answer: str) -> None:
    """Print an answer, and append it to the files of answers."""
    print(answer.rstrip(), flush=True)
    for folder in (str(FOLDER), os.environ.get("OUT")):
        if folder is None:
            continue
        Path(folder).mkdir(parents=True, exist_ok=True)
        with open(Path(folder, "answers.txt"), "a", encoding="utf-8") as file:
            file.write(f"== {title}\n{answer.rstrip()}\n")


def main() -> int:
    """Run a task, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "task", choices=("wheels", "list", "test", "questions", "bench", "sanitize", "others")
    )
    parser.add_argument(
        "--python",
        default=f"{sys.version_info.major}.{sys.version_info.minor}",
        help="the Python of the machine, for wheels",
    )
    parser.add_argument(
        "--installed", type=Path, help="a file with the output of `list` on the machine, for wheels"
    )
    parser.add_argument(
        "--stand-in", action="store_true", help="use the stand-in driver of the tests"
    )
    options = parser.parse_args()
    if options.task == "list":
        return list_installed()
    if options.task == "wheels":
        import machine_wheels

        installed = machine_wheels.read_installed(options.installed) if options.installed else None
        machine_wheels.fetch(FOLDER, options.python, installed)
        if installed is not None:
            (FOLDER / "1" / BESIDE).write_text("")
        return 0
    return run(options.task, options.stand_in)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InstallError as error:
        raise SystemExit(f"cuda_machine: {error}") from None
