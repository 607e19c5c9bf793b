"""The emulator qemu-hexagon: its path, its newest architecture, and runners in it."""

from __future__ import annotations

import os

from devmod.backend import DiskCache, environment_text, find_program
from devmod.errors import DeviceNotFoundError
from devmod_hexagon._runner import RunnerThread

#: The program in this wheel. It is built for v66, and every emulator runs v66.
RUNNER = os.path.join(os.path.dirname(__file__), "runner")
#: The architectures that `find_arch` tries, the newest first.
_ARCHS = ("v81", "v79", "v75", "v73", "v71", "v69", "v68", "v67", "v66")
_CACHE = DiskCache("hexagon")
_DEFAULT_MEMORY = 1 << 30
#: The address space of a kernel has 32 bits; its code, its stack and the runner need the rest.
_MAX_MEMORY = 2 << 30
_INSTALL = (
    "Install it (Debian and Ubuntu: apt install qemu-user), or name it in DEVMOD_HEXAGON_QEMU"
)


def emulator_name() -> str:
    """Return the name or the path of the emulator."""
    return environment_text("DEVMOD_HEXAGON_QEMU") or "qemu-hexagon"


def find_emulator() -> str:
    """Return the path of the emulator.

    Raises
    ------
    DeviceNotFoundError
        It is not installed.
    """
    name = emulator_name()
    result = find_program(name)
    if not result:
        is_named = bool(environment_text("DEVMOD_HEXAGON_QEMU"))
        problem = (
            f"DEVMOD_HEXAGON_QEMU is {name!r}, which is not a program"
            if is_named
            else f"{name} is not in PATH"
        )
        raise DeviceNotFoundError(
            f"no Hexagon device was found: {problem}. {_INSTALL}", kind="hexagon"
        )
    return result


def find_arch(emulator: str) -> str:
    """Return the newest architecture that the emulator runs, such as "v67". The result is cached on
    disk.

    Raises
    ------
    DeviceNotFoundError
        It runs none.
    """
    status = os.stat(emulator)
    key = _CACHE.key(
        "arch 1", os.path.realpath(emulator), str(status.st_size), str(status.st_mtime_ns)
    )
    cached = (_CACHE.read(key) or b"").decode("ascii", "replace")
    if cached in _ARCHS:
        return cached
    for arch in _ARCHS:
        try:
            RunnerThread(runner_command(emulator, arch), 1 << 20, "the emulator").try_out()
        except DeviceNotFoundError:
            continue
        _CACHE.write(key, arch.encode())
        return arch
    raise DeviceNotFoundError(
        f"no Hexagon device was found: {emulator} does not run devmod-hexagon's runner with any of {', '.join(_ARCHS)}. {_INSTALL}",
        kind="hexagon",
    )


def runner_command(emulator: str, arch: str) -> list[str]:
    """Return the command of a runner in an emulator with an architecture."""
    return [emulator, "-cpu", arch, RUNNER]


def memory_bytes() -> int:
    """Return the bytes of DEVMOD_HEXAGON_MEMORY, or the default."""
    return read_number("DEVMOD_HEXAGON_MEMORY", _DEFAULT_MEMORY, "bytes", 1 << 16, _MAX_MEMORY)


def read_number(variable: str, default: int, unit: str, least: int, most: int) -> int:
    """Return the number in an environment variable, or the default."""
    text = environment_text(variable)
    if not text:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    if not least <= number <= most:
        raise DeviceNotFoundError(
            f"{variable} is {text!r}: expected a number of {unit} from {least} to {most}",
            kind="hexagon",
        )
    return number
