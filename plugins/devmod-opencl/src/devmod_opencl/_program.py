"""Programs: the payload of one module, built for each device, and the cache of the binaries."""

from __future__ import annotations

import json

from devmod.backend import DiskCache, Once
from devmod.errors import DeviceNotFoundError, FormatError
from devmod_opencl import _driver
from devmod_opencl._device import devices
from devmod_opencl._pocl import name_processor
from devmod_readers.options.opencl import is_supported
from devmod_runtime import Programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo
    from devmod_opencl._device import OpenCLDevice

#: For each format of a vendor, the words in the names of platforms and vendors that support it, in lower case.
_VENDORS = {"xclbin": ("xilinx", "amd fpga"), "awsxclbin": ("xilinx", "amd fpga"), "aocx": ("altera", "fpga")}
#: The version of the cache entries: a line of JSON (`arguments_of` the program, which a binary does not contain) and the binary.
_FORM = "arguments and binary"
_BINARIES = DiskCache("opencl")


class OpenCLPrograms(Programs):
    """The programs of one payload, one for each device and set of constants.

    Parameters
    ----------
    fmt, code
        The payload, or what a replaced compiler returned for it.
    constants
        Values for constants of the source.
    functions
        The functions of the module, which the trial of a binary runs.
    """

    kind = "opencl"
    source_format = "cl"

    def __init__(
        self, fmt: str, code: bytes, constants: Mapping[str, object] | None = None, functions: Sequence[FunctionInfo] = ()
    ) -> None:
        super().__init__(fmt, code, constants)
        if self.text:
            for option in self.options:
                if not is_supported(option):
                    raise FormatError(
                        f"the opencl source has the build option {option!r}, which devmod-opencl does not pass to a driver", kind="opencl"
                    )
        self._functions = functions
        self._built = Once()
        self._arguments: dict[OpenCLDevice, Mapping[str, Sequence[Sequence[str]]]] = {}

    def with_constants(self, constants: Mapping[str, object]) -> OpenCLPrograms:
        return OpenCLPrograms(self.fmt, self.code, constants)

    def default_device(self) -> OpenCLDevice:
        """Return the first device; for a vendor's binary, the first device of that vendor.

        Raises
        ------
        DeviceNotFoundError
            There is no such device.
        """
        all_devices = devices()
        if self.fmt in _VENDORS:
            supporting = [device for device in all_devices if _is_of_vendor(device, self.fmt)]
            if not supporting:
                text = "; ".join(f"{device.index} {device.name} of {device.platform}" for device in all_devices)
                raise DeviceNotFoundError(
                    f"no OpenCL device here supports the format {self.fmt!r}, a vendor's binary for its FPGAs; the devices are: {text}. "
                    "Install that vendor's OpenCL platform, or use the source (format 'cl')",
                    kind="opencl",
                )
            return supporting[0]
        return all_devices[0]

    def get(self, device: OpenCLDevice) -> Any:
        """Return the program built for a device, once for all threads.

        Raises
        ------
        CompileError, FormatError
            The driver refuses the payload.
        """
        return self._built.get(device, lambda: self._build(device))

    def arguments(self, device: OpenCLDevice, name: str) -> Sequence[Sequence[str]]:
        """Return the address space and type of each argument of a kernel, as `_driver.arguments_of` does; empty if unknown."""
        self.get(device)
        return self._arguments.get(device, {}).get(name, ())

    def _build(self, device: OpenCLDevice) -> Any:
        from devmod_opencl._trial import try_binary, try_linker

        name_processor(device.handle)
        try_linker(device)
        if self.fmt == "cl":
            return self._build_source(device)
        if self.fmt in _VENDORS and not _is_of_vendor(device, self.fmt):
            raise FormatError(f"{device} does not support the format {self.fmt!r}, a vendor's binary for its FPGAs", kind="opencl")
        try_binary(device, self.code, self._functions)
        return _driver.build_binary(device.context, device.handle, self.code)

    def _build_source(self, device: OpenCLDevice) -> Any:
        key = _BINARIES.key(_FORM, device.identity, "\0".join(self.options), self.text)
        line, _, binary = (_BINARIES.read(key) or b"").partition(b"\n")
        if binary:
            try:
                program = _driver.build_binary(device.context, device.handle, binary)
                self._arguments[device] = json.loads(line)
                return program
            except FormatError:
                pass  # the driver changed without a new version and refuses its old binaries
        program = _driver.build_source(device.context, device.handle, self.text, self.options, "the opencl source")
        self._arguments[device] = arguments = _driver.arguments_of(program)
        binary = _driver.binary_of(program)
        if binary:
            _BINARIES.write(key, json.dumps(arguments).encode() + b"\n" + binary)
        return program


def _is_of_vendor(device: OpenCLDevice, fmt: str) -> bool:
    names = f"{device.platform} {device.vendor}".lower()
    return any(word in names for word in _VENDORS[fmt])
