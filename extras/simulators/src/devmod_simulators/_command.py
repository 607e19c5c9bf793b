"""`devmod simulate`: run CUDA programs without a GPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

import click

from devmod.backend import program_cache, temporary_folder
from devmod.commands import OptionalValue, OptionalValueCommand, WholeNumber, debug_option
from devmod.errors import DeviceNotFoundError, DevmodError
from devmod_simulators import UnavailableError, _toolkit, libcuda
from devmod_simulators._sanitize import CHECKS, check_names, read_reports
from devmod_simulators._toolkit import KIND
from devmod_simulators.drivers.library import cubins

_SHIMS = Path(__file__).resolve().parent / "shims"
#: The variables of the caches whose entries were compiled for a GPU, or, in the simulator's, for
#: none. XDG_CACHE_HOME is that of cuda.core.
_CACHES = (
    "CUDA_CACHE_PATH",
    "DEVMOD_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "PYCUDA_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
)
_SHELLS = ("sh", "bash", "dash", "zsh")
#: A command of a shell that runs tests.
_TESTS = re.compile(
    r"(?:^|[;&|(\n])\s*(?:\S*/)?(?:py\.?test|ctest|python\S* (?:-\S+ )*-m pytest)\b"
)
_UNUSED = (
    "COMMAND has launched no kernel, so nothing ran on the simulated GPU: it may have found no "
    "device and used the CPU. --no-require-gpu permits that"
)


# Where to change: where programs get PTX for a cubin, and what `devmod simulate` sets
#   here: `extras/simulators/src/devmod_simulators/shims`, `_command.py` beside it, and
#     `_toolkit.py` for nvcc and CMake; a program of `tests/simulated` shows it
#   tests: `tests/test_simulate.py`, `tests/test_simulate_nvcc.py`
def environment(arch: str = "90", devices: int = 1, checks: str = "") -> dict[str, str]:
    """Return the environment variables of a process with simulated devices, and with checks of its
    launches.
    """
    run = "sanitize" if checks else "simulate"
    values = {name: program_cache(KIND, run, name.partition("_")[0].lower()) for name in _CACHES}
    try:
        values |= libcuda.environment(
            arch=arch, devices=devices, **({"sanitize": checks} if checks else {})
        )
        values |= _toolkit.variables(values["LD_LIBRARY_PATH"])
        # Not by its path, where a space would end it.
        values["LD_LIBRARY_PATH"] = os.pathsep.join(
            [str(cubins.build().parent), values["LD_LIBRARY_PATH"]]
        )
    except UnavailableError as error:
        raise DeviceNotFoundError(str(error), kind="cuda") from error
    values["LD_PRELOAD"] = " ".join(filter(None, [cubins.soname, os.environ.get("LD_PRELOAD")]))
    values |= dict.fromkeys(
        ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), str(_SHIMS / "ptxas")
    )
    # Python imports sitecustomize.py of this folder.
    python = [str(_SHIMS / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    values["PYTHONPATH"] = os.pathsep.join(python)
    values["CUDA_FORCE_PTX_JIT"] = "1"  # devmod compiles a source to PTX
    values["CACHEDB"] = os.path.join(values["XDG_CACHE_HOME"], "tinygrad.db")
    return values


def run_with_checks(words: Sequence[str], checks: str) -> int:
    """Run a command of devmod on the simulated GPU with checks, and return its exit code."""
    os.environ.update(environment(checks=check_names([checks])))
    # It imports nothing of the current folder.
    return _run([sys.executable, "-P", "-m", "devmod", *words], has_checks=True)


def _runs_tests(program: Sequence[str]) -> bool:
    """Return whether a command runs pytest or ctest."""
    words = [os.path.basename(program[0]), *program[1:]]
    if words[0] in _SHELLS and "-c" in words[:-1]:
        return bool(_TESTS.search(words[words.index("-c") + 1]))
    return words[0] in ("pytest", "py.test", "ctest") or ("-m", "pytest") in pairwise(words)


def _run(program: Sequence[str], *, has_checks: bool, requires_gpu: bool = False) -> int:
    """Run a command and return its exit code. If that is 0, return 1 for a fault that a check has
    found, or for a GPU that is required and not used. Signals reach the command.
    """
    with temporary_folder() as folder:
        log = Path(folder, "reports")
        launched = Path(folder, "launched")
        early: list[int] = []
        caught = [
            each
            for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(each) != signal.SIG_IGN
        ]
        for each in caught:
            signal.signal(each, lambda number, _: early.append(number))
        try:
            variables = {"DEVMOD_STANDIN_LAUNCHED": str(launched)}
            if has_checks:
                variables["DEVMOD_STANDIN_SANITIZE_LOG"] = str(log)
                variables["DEVMOD_STANDIN_SANITIZE_STATUS"] = "1"
            process = subprocess.Popen(program, env=os.environ | variables)
        except OSError as error:
            raise _not_started(program[0], error.strerror) from error

        def pass_on(number: int, _frame: object) -> None:
            # A terminal sends SIGINT to both.
            if number != signal.SIGINT:
                process.send_signal(number)

        for each in caught:
            signal.signal(each, pass_on)
        for number in early:
            process.send_signal(number)
        code = process.wait()
        has_launched = launched.exists() and launched.stat().st_size > 0
        count = _print_reports(log, has_launched=has_launched) if has_checks else 0
    if code < 0:
        # The number of a signal, as shells say it.
        return 128 - code
    if not code and requires_gpu and not has_launched:
        click.echo(f"devmod-simulators: {_UNUSED}", err=True)
        return 1
    return code or int(count > 0)


def _print_reports(log: Path, *, has_launched: bool) -> int:
    """Print what the processes of a command have reported, each text once, and return the number.

    The command's own output may hide them, as pytest hides what a test prints that passes. Without
    a launch, "0 reports" would read as a clean run.
    """
    reports = read_reports(log)
    for text, count in Counter(each["text"] for each in reports).items():
        click.echo(text, err=True)
        if count > 1:
            click.echo(f"  found {count} times", err=True)
    number = len(reports)
    if not number and not has_launched:
        click.echo("devmod-simulators: nothing was checked: no launch ran to its end", err=True)
        return 0
    click.echo(f"devmod-simulators: {number} report{'s' if number != 1 else ''}", err=True)
    return number


def _not_started(program: str, reason: str | None) -> DevmodError:
    """Return the error for a COMMAND that the system does not start."""
    advice = ""
    if all(each in CHECKS for each in program.split(",")):
        advice = f". Checks are given with an equals sign: --sanitize={program}"
    return DevmodError(f"{program!r} cannot be started: {reason}{advice}")


def _architectures(context: click.Context, parameter: click.Parameter, text: str) -> str:
    numbers = re.fullmatch(r"(?:sm_)?([0-9]{2,3})a?(,(?:sm_)?[0-9]{2,3}a?)*", text)
    if numbers is None:
        raise click.BadParameter(
            f"{text!r} is no architecture such as sm_90, or one for each device: sm_90,sm_80"
        )
    return ",".join(re.findall(r"\d+", text))


@click.command(
    "simulate",
    cls=OptionalValueCommand,
    short_help="Run CUDA without a GPU.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  devmod simulate -- python -m pytest tests        # a CUDA device for these tests
  devmod simulate --arch sm_80 -- python train.py
  devmod simulate --devices 2 -- devmod devices
  devmod simulate --sanitize -- python program.py  # writes out of bounds, races, …
  devmod simulate -- sh -c "cmake -B build && cmake --build build && ctest --test-dir build"
""",
)
@click.option(
    "--arch",
    default="sm_90",
    show_default=True,
    callback=_architectures,
    help="The architecture of the devices.",
)
@click.option(
    "--devices",
    default=1,
    show_default=True,
    metavar="NUMBER",
    type=WholeNumber(1, 8),
    help="The number of devices.",
)
@click.option(
    "--sanitize",
    cls=OptionalValue,
    flag_value="",
    metavar="[=CHECKS]",
    help="Check each kernel: bounds, align, free, race, sync, init, or some of them, with commas; leak if named.",
)
@click.option(
    "--require-gpu/--no-require-gpu",
    default=None,
    help="End with 1 if COMMAND launches no kernel. The default if it is pytest or ctest.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Print which kernels are interpreted, and why, and how many launches.",
)
@click.argument("program", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
@debug_option
def command(
    arch: str,
    devices: int,
    sanitize: str | None,
    require_gpu: bool | None,
    verbose: bool,
    program: tuple[str, ...],
) -> None:
    """Run COMMAND with a CUDA driver that interprets PTX on the CPU. It needs no GPU and no driver
    of NVIDIA.

    The processes that COMMAND starts have the simulated devices too. NVRTC, nvJitLink, nvcc and
    Triton's ptxas give them PTX for cubins. Programs that nvcc and CMake build have PTX, and are
    linked with a simulated CUDA runtime. Caches of compiled kernels are apart from those of GPUs.
    The exit code is that of COMMAND.

    It cannot show: the code that ptxas makes, how long a kernel takes on a GPU, the order of memory
    accesses, NVIDIA's libraries such as cuBLAS, programs with NVIDIA's CUDA runtime inside
    (PyTorch, CuPy, Warp), the last bits of approximations such as sin.approx.

    --sanitize reports faults by source line and thread, and ends with 1 if there are any. It sees
    the paths that run, and no fault of the memory model: a clean run is no proof.
    """
    checks = check_names([sanitize]) if sanitize is not None else ""
    if program[0].startswith("-"):
        name = program[0].partition("=")[0]
        known = [each for option in command.params for each in option.opts if each[0] == "-"]
        # A list of all would be longer than the error.
        raise click.NoSuchOption(name, possibilities=get_close_matches(name, known, 1))
    if not program[0]:  # for execvp a ValueError
        raise _not_started("", "the name of the program is empty")
    os.environ.update(environment(arch, devices, checks))
    if verbose:
        os.environ["DEVMOD_STANDIN_VERBOSE"] = "1"
    required = _runs_tests(program) if require_gpu is None else require_gpu
    if checks or required:
        code = _run(program, has_checks=bool(checks), requires_gpu=required)
        click.get_current_context().exit(code)
    for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and COMMAND would too
        signal.signal(each, signal.SIG_DFL)
    sys.stdout.flush()
    try:
        os.execvp(program[0], program)
    except OSError as error:
        raise _not_started(program[0], error.strerror) from error
