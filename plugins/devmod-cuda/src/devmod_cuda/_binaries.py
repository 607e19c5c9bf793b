"""The payload of one module: compiled for each architecture, and loaded once on each device."""

from __future__ import annotations

import re
import sys
from contextlib import suppress

from devmod.backend import compile_error, find_spec
from devmod.errors import DeviceNotFoundError, DevmodError, FormatError, list_names
from devmod_cuda._calls import CUDA
from devmod_driver_api.api import DriverError
from devmod_driver_api.binaries import (
    DriverBinaries,
    LoadedBinary,
    load_error,
)
from devmod_readers.elf import find_damage
from devmod_readers.nvidia import KernelEntry, fatbin_members, index_cubin, read_ptx
from devmod_readers.options.cuda import is_supported
from devmod_runtime import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from devmod import Origin
    from devmod_cuda._device import CudaDevice


# -- Read binaries (PTX, cubins, fatbins) and check them before the driver is called (R40). A driver
# may crash on a damaged binary.


#: What is known of a kernel in a compressed binary.
UNKNOWN = KernelEntry("", None)
#: The start of each binary format, and its name in messages.
_MAGIC = {"cubin": (b"\x7fELF", "an ELF file"), "fatbin": (b"\x50\xed\x55\xba", "a CUDA fatbin")}

#: A line of the log of the driver's compiler with an error.
_LOG_ERROR = re.compile(r"\b(error|fatal)\b")


def check_payload(fmt: str, code: bytes | memoryview) -> None:
    """Check the start of a payload, and the text of PTX and of a source. No device is needed.

    Raises
    ------
    FormatError
        No CUDA device supports the payload.
    """
    what = f"the cuda payload of format {fmt!r}"
    if fmt in _MAGIC:
        magic, title = _MAGIC[fmt]
        if not len(code):
            raise FormatError(f"{what} is empty", kind="cuda")
        if bytes(code[: len(magic)]) != magic:
            raise FormatError(
                f"{what} is not {title}: expected {magic!r} at its start, got {bytes(code[:8])!r}",
                kind="cuda",
            )
    else:
        source_text("cuda", what, _text_of(code) if fmt == "ptx" else code)


def read_binary(
    fmt: str, code: bytes | memoryview, device: CudaDevice, names: Collection[str]
) -> tuple[bytes, Mapping[str, KernelEntry]]:
    """Return a binary for the driver and its kernels by symbol, after its check against a device.
    PTX ends with a zero byte.

    The kernels have those of `names`. They are `UNKNOWN` if the binary is compressed, so that only
    the driver can read it.

    Raises
    ------
    FormatError
        The binary is damaged, or has no kernel of such a name.
    DeviceNotFoundError
        The device cannot run it.
    """
    check_payload(fmt, code)
    check_architecture(fmt, code, device)
    if fmt == "ptx":
        text = _text_of(code)
        kernels: Mapping[str, KernelEntry] = read_ptx(str(text, "utf-8"))
        data = bytes(text) + b"\0"
    elif fmt == "cubin":
        _check_elf(code)
        data = bytes(code)
        kernels = index_cubin(data)
    else:
        data = bytes(code)
        kernels = _read_fatbin(code, device, names)
    for name in names:
        if name not in kernels:
            raise FormatError(
                f"the cuda payload of format {fmt!r} has no kernel {name!r}, which its fmap names; it has: {list_names(kernels)}",
                kind="cuda",
            )
    return data, kernels


def check_architecture(fmt: str, code: bytes | memoryview, device: CudaDevice) -> None:
    """Check that a device can run a binary.

    Raises
    ------
    DeviceNotFoundError
        It cannot.
    FormatError
        The architecture of the binary cannot be read.
    """
    spec: Any = find_spec("cuda")  # a program may have replaced it
    variant = spec.architecture(fmt, code)
    what = f"the cuda payload of format {fmt!r}"
    if not variant:
        expected = {
            "ptx": "expected the directives .version and .target at its start",
            "cubin": "expected an ELF file for the machine 190 (CUDA)",
            "fatbin": "expected an entry of PTX or of a cubin",
        }[fmt]
        raise FormatError(f"the architecture of {what} cannot be read: {expected}", kind="cuda")
    if spec.rank(variant, device.arch) is not None:
        return
    # Whether the device could run it with any driver: the variants without the versions of PTX.
    parts = [part.partition(":ptx") for part in variant.split(",")]
    newer = [
        (name, version)
        for name, mark, version in parts
        if mark and spec.rank(name, device.arch) is not None
    ]
    if newer:
        version = newer[0][1]
        supported = device.arch.partition(":ptx")[2]
        raise DeviceNotFoundError(
            f"{what} is PTX {version}, and the driver of {device} supports PTX up to {supported}. Update the driver, or compile for that "
            f"version; a cubin (cuda -arch={_plain(device.arch)}) needs no newer driver",
            kind="cuda",
        )
    names = [name for name, _, _ in parts]
    advice = f"compile it for cuda -arch={_plain(device.arch)}"
    if device.is_simulated and fmt != "ptx":
        advice = f"the simulated GPU executes PTX: compile it for cuda -arch={_oldest_ptx(names, device.arch)}"
    if fmt == "fatbin":
        raise DeviceNotFoundError(
            f"{what} has code for {', '.join(names)}, and none of it runs on {device}, {_plain(device.arch)}; {advice}",
            kind="cuda",
        )
    title = "PTX for" if fmt == "ptx" else "a cubin for"
    raise DeviceNotFoundError(
        f"{what} is {title} {names[0]}, which does not run on {device}, {_plain(device.arch)}; {advice}",
        kind="cuda",
    )


def _oldest_ptx(names: Sequence[str], arch: str) -> str:
    """Return PTX that a device of an architecture executes, of an architecture of `names` if one is
    as old.
    """
    numbers = []
    for name in (*names, _plain(arch)):
        numbers.append(int("".join(filter(str.isdecimal, name))))
    return f"compute_{min(numbers)}"


def _plain(arch: str) -> str:
    return arch.partition(":")[0]


def _text_of(code: bytes | memoryview) -> bytes:
    """Return PTX without the zero bytes that end it."""
    return bytes(code).rstrip(b"\0")


def _read_fatbin(
    code: bytes | memoryview, device: CudaDevice, names: Collection[str]
) -> Mapping[str, KernelEntry]:
    """Return the kernels of the member that the device runs; those of `names` if it is
    compressed.
    """
    spec: Any = find_spec("cuda")
    best = None
    best_rank = -1
    for member in fatbin_members(code):
        fmt = member.kind
        if fmt not in ("ptx", "cubin"):
            continue
        variant = spec.architecture(fmt, member.data)
        member_rank = spec.rank(variant, device.arch) if variant else None
        if member_rank is not None and member_rank > best_rank:
            best = member
            best_rank = member_rank
    if best is None:
        return dict.fromkeys(names, UNKNOWN)
    if best.kind == "ptx":
        return read_ptx(str(_text_of(best.data), "utf-8", "replace"))
    _check_elf(best.data)
    return index_cubin(best.data)


def _check_elf(code: bytes | memoryview) -> None:
    """Check that each section and each segment of a cubin is inside the file.

    Raises
    ------
    FormatError
        One is not: the file is truncated or damaged.
    """
    problem = find_damage(code)
    if problem:
        raise FormatError(f"the cubin is truncated or damaged: {problem}", kind="cuda")


def open_arch() -> str:
    """Return the architecture of the default device, if the devices are open; else "". Nothing is
    opened.
    """
    module = sys.modules.get("devmod_cuda._device")
    devices = module.open_devices() if module is not None else []
    return devices[0].arch if devices else ""


class Binaries(DriverBinaries):
    """The binaries of one payload and set of constants, one for each device.

    Parameters
    ----------
    fmt, code, names, constants
        As for the base class.
    archs
        The architectures of the program's target, for a source.
    origin
        The origin of the payload, or a function that returns it.
    """

    kind = "cuda"
    source_format = "cuda"
    compiler = "NVRTC"
    check_payload = staticmethod(check_payload)
    is_option = staticmethod(is_supported)

    def __init__(
        self,
        fmt: str,
        code: bytes,
        names: Sequence[str],
        constants: Mapping[str, object] | None = None,
        archs: Sequence[str] = (),
        origin: Origin | Callable[[], Origin] | None = None,
    ) -> None:
        super().__init__(fmt, code, names, constants)
        self.archs = tuple(archs)
        self.origin = origin

    def with_constants(self, constants: Mapping[str, object]) -> Binaries:
        return Binaries(self.fmt, self.code, self.names, constants, self.archs, self.origin)

    def compile_source(self, arch: str) -> tuple[str, bytes]:
        from devmod_cuda._jit import compile_source, lines_for_simulator

        name = self._source_name() if lines_for_simulator() else ""
        return compile_source(self.text, self.options, arch, name)

    def _source_name(self) -> str:
        """Return the name of the file that was compiled; "" if the origin has none."""
        with suppress(FormatError):  # a name alone is no reason to refuse the payload
            origin = self.origin() if callable(self.origin) else self.origin
            if origin is None:
                return ""
            for name in origin.sources:
                if not name.endswith((".h", ".hpp", ".cuh", ".inc")):
                    return name
        return ""

    def load(self, device: CudaDevice) -> LoadedBinary:
        from devmod_cuda._jit import choose_arch

        fmt, code = self.compiled(
            choose_arch(self.archs, device.arch) if self.fmt == "cuda" else ""
        )
        data, kernels = read_binary(fmt, code, device, self.names)
        try:
            return LoadedBinary(device, data, kernels)
        except DriverError as error:
            raise _load_error(device, fmt, error) from error


def _load_error(device: CudaDevice, fmt: str, error: DriverError) -> DevmodError:
    """Return the error for a binary that the driver refuses."""
    if (
        error.log
        and fmt == "ptx"
        and error.name not in (CUDA.out_of_memory, *CUDA.sticky, *CUDA.refusals)
    ):
        lines = [
            line.strip()
            for line in error.log.splitlines()
            if _LOG_ERROR.search(line) and "aborted" not in line
        ]
        return compile_error("cuda", "PTX", lines or [error.log.splitlines()[0]], error.log)
    if error.name == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
        return DeviceNotFoundError(
            f"the driver of {device} cannot compile PTX: its compiler, libnvidia-ptxjitcompiler.so.1, is missing. Install the complete "
            f"driver, or use a cubin (cuda -arch={device.arch.partition(':')[0]})",
            kind="cuda",
        )
    return load_error(device, fmt, error)
