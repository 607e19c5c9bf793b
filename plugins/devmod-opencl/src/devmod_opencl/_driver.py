"""pyopencl, and the calls that build programs. This is the only file that imports it.

Importing this file opens the OpenCL loader; where that cannot be done it raises DeviceNotFoundError, and trying again later is
fine.
"""

from __future__ import annotations

import re

from devmod.errors import CompileError, DeviceNotFoundError, FormatError

try:
    import pyopencl as cl
except ModuleNotFoundError as error:
    if error.name != "pyopencl":
        raise DeviceNotFoundError(
            f"pyopencl cannot be imported: {error}. Install it again: pip install --force-reinstall pyopencl", kind="opencl"
        ) from error
    raise DeviceNotFoundError(
        'pyopencl is not installed, so no OpenCL device can be used. To add it and a CPU device: pip install "devmod-opencl[pocl]"',
        kind="opencl",
    ) from error
except ImportError as error:
    raise DeviceNotFoundError(
        f"pyopencl cannot be imported: {error}. Where the OpenCL loader is what is missing, pyopencl's own wheels bring one: "
        'pip install --force-reinstall "pyopencl[pocl]"',
        kind="opencl",
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "POCL",
    "Error",
    "arguments_of",
    "binary_of",
    "build_binary",
    "build_source",
    "cl",
    "code_name",
    "kernel_names",
    "list_devices",
    "status_name",
]

#: What pyopencl raises for a driver's error code.
Error = cl.Error

#: What PoCL's platform is called.
POCL = "Portable Computing Language"

NO_DEVICE = (
    "no OpenCL device was found: {why}. For a device on the CPU, with no system package: "
    'pip install "devmod-opencl[pocl]"; for a GPU, install its vendor\'s OpenCL driver (Linux: `clinfo -l` lists what the loader sees)'
)
#: The versions of OpenCL whose compilers do not know -cl-kernel-arg-info.
_BEFORE_INFO = ("OpenCL 1.0", "OpenCL 1.1")
_ERROR_LINE = re.compile(r"\berror\b", re.IGNORECASE)


def list_devices() -> list[Any]:
    """All devices of all platforms: GPUs and accelerators before CPUs, otherwise in the platforms' order.

    Raises
    ------
    DeviceNotFoundError
        There is none; the message says why and what to install.
    """
    try:
        platforms = cl.get_platforms()
    except Error as error:
        raise DeviceNotFoundError(NO_DEVICE.format(why=f"the OpenCL loader has no platform ({code_name(error)})"), kind="opencl") from error
    found: list[Any] = []
    troubles = []
    for platform in platforms:
        try:
            found.extend(platform.get_devices())
        except Error as error:  # one platform that is broken leaves the others
            troubles.append(f"{platform.name}: {code_name(error)}")
    if not found:
        names = [str(platform.name) for platform in platforms]
        why = "; ".join(troubles) or f"the platform{'s' * (len(names) > 1)} {', '.join(names)} {'have' if len(names) > 1 else 'has'} none"
        if POCL in names:
            why += " (PoCL has none where it cannot write its cache: set POCL_CACHE_DIR to a folder that it may write to)"
        raise DeviceNotFoundError(NO_DEVICE.format(why=why), kind="opencl")
    found.sort(key=lambda device: bool(device.type & cl.device_type.CPU))
    return found


def code_name(error: Exception) -> str:
    """OpenCL's name of the error, such as "OUT_OF_RESOURCES"."""
    code = getattr(error, "code", None)
    return status_name(code) if isinstance(code, int) else str(error)


def status_name(code: int) -> str:
    """OpenCL's name of a status code."""
    try:
        return str(cl.status_code.to_string(code))  # type: ignore[operator]  # pyopencl's stubs take the class for an enum
    except ValueError:
        return f"error {code}"


def build_source(context: Any, device: Any, text: str, options: tuple[str, ...], what: str) -> Any:
    """A program built from source for one device. pyopencl's own cache and include folder are not used.

    Raises
    ------
    CompileError
        The driver's compiler refuses it; `log` has all it said.
    """
    program = cl._cl._Program(context, text)
    if not device.version.startswith(_BEFORE_INFO):
        options = (*options, "-cl-kernel-arg-info")  # what `arguments_of` asks for
    try:
        program.build(" ".join(options).encode(), [device])
    except Error as error:
        log = build_log(program, device) or str(error)
        raise CompileError(
            f"{device.name.strip()} cannot build {what}: {first_errors(log, code_name(error))}", kind="opencl", log=log
        ) from error
    return program


def build_binary(context: Any, device: Any, binary: bytes) -> Any:
    """A program from the device's own binary.

    Raises
    ------
    FormatError
        It is none of that device.
    """
    try:
        program = cl._cl._Program(context, [device], [binary])
        program.build(b"", [device])
    except Error as error:
        raise FormatError(
            f"the program binary is not one that {device.name.strip()} takes ({code_name(error)}): a binary runs on the device and driver "
            "that made it; carry the source (format 'cl') for others",
            kind="opencl",
        ) from error
    return program


def binary_of(program: Any) -> bytes:
    """The program's binary; b"" where the driver gives none."""
    try:
        return bytes(program.get_info(cl.program_info.BINARIES)[0])
    except (Error, IndexError):
        return b""


def kernel_names(program: Any) -> list[str]:
    """The kernels in a built program."""
    try:
        return [name for name in program.get_info(cl.program_info.KERNEL_NAMES).split(";") if name]
    except Error:  # before OpenCL 1.2
        return []


def arguments_of(program: Any) -> dict[str, list[list[str]]]:
    """For each kernel of a program built from source, where each argument lies, "GLOBAL", "CONSTANT", "LOCAL" or "PRIVATE" (by value),
    and its type; of what the driver does not tell, nothing.
    """
    info = cl.kernel_arg_info
    named = {value: name for name, value in vars(cl.kernel_arg_address_qualifier).items() if name.isupper()}
    found = {}
    for name in kernel_names(program):
        try:
            kernel = cl.Kernel(program, name)
            found[name] = [
                [named.get(kernel.get_arg_info(number, info.ADDRESS_QUALIFIER), ""), str(kernel.get_arg_info(number, info.TYPE_NAME))]
                for number in range(kernel.num_args)
            ]
        except Error:
            continue
    return found


def build_log(program: Any, device: Any) -> str:
    """What the compiler said."""
    try:
        return str(program.get_build_info(device, cl.program_build_info.LOG)).strip("\0\n ")
    except Error:
        return ""


def first_errors(log: str, code: str) -> str:
    """The first lines of a build log that tell of an error, for a message."""
    lines = [line.strip() for line in log.splitlines() if _ERROR_LINE.search(line)][:3]
    return "\n  ".join(["", *lines]) if lines else f"{code}: {log[:200]}"
