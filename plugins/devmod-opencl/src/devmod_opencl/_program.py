"""Programs: one module's payload built for each device it is asked for, and the folder that keeps the binaries."""

from __future__ import annotations

import json

from devmod.backend import Kept, Once, specialize_source, split_options
from devmod.errors import DeviceNotFoundError, FormatError, LaunchError
from devmod_opencl import _driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_opencl._device import OpenCLDevice

#: Whose devices take a vendor's binary: a word of the platform's name or vendor, in lower case.
_VENDORS = {"xclbin": ("xilinx", "amd fpga"), "awsxclbin": ("xilinx", "amd fpga"), "aocx": ("altera", "fpga")}
#: The form of what is kept: a line of JSON (`arguments_of` the program, which a binary has lost), the binary.
_FORM = "arguments and binary"


class Programs:
    """The programs of one payload, a device and a set of constants each.

    Parameters
    ----------
    fmt, code
        The payload as this receiver runs it.
    constants
        Constants to set in its source.
    """

    def __init__(self, fmt: str, code: bytes, constants: Mapping[str, object] | None = None) -> None:
        self.fmt = fmt
        self._code = code
        self._options: tuple[str, ...] = ()
        self._text = ""
        self._specialized: dict[tuple[tuple[str, object], ...], Programs] = {}
        self._built = Once()
        self._arguments: dict[OpenCLDevice, Mapping[str, Sequence[Sequence[str]]]] = {}
        if fmt == "cl":
            self._options, self._text = split_options(code.decode())
            if constants:
                self._text = specialize_source("opencl", self._text, constants)

    def specialized(self, constants: Mapping[str, object]) -> Programs:
        """The programs with constants set; the same object for the same constants.

        Raises
        ------
        ArgumentError
            The source has no such constant, or a value has no form in C.
        LaunchError
            The payload is no source.
        """
        if self.fmt != "cl":
            raise LaunchError(
                f"an opencl function of format {self.fmt!r} cannot be specialized: its constants were fixed when it was built. "
                "Carry the source (format 'cl')",
                kind="opencl",
            )
        key = tuple(sorted((name, repr(value)) for name, value in constants.items()))
        found = self._specialized.get(key)
        return found if found is not None else self._specialized.setdefault(key, Programs(self.fmt, self._code, constants))

    def default_device(self) -> OpenCLDevice:
        """The first device; for a vendor's binary, the first of that vendor's.

        Raises
        ------
        DeviceNotFoundError
            There is none.
        """
        from devmod_opencl._device import devices

        found = devices()
        if self.fmt in _VENDORS:
            taking = [device for device in found if _of_vendor(device, self.fmt)]
            if not taking:
                listed = "; ".join(f"{device.index} {device.name} of {device.platform}" for device in found)
                raise DeviceNotFoundError(
                    f"no OpenCL device here takes a payload of format {self.fmt!r}, a vendor's binary for its FPGAs; there are: {listed}. "
                    "Install that vendor's OpenCL platform, or carry the source (format 'cl')",
                    kind="opencl",
                )
            return taking[0]
        return found[0]

    def get(self, device: OpenCLDevice) -> Any:
        """The program built for a device, once for all threads.

        Raises
        ------
        CompileError, FormatError
            The driver refuses it.
        """
        return self._built.get(device, lambda: self._build(device))

    def arguments(self, device: OpenCLDevice, name: str) -> Sequence[Sequence[str]]:
        """Where each argument of a kernel lies and its type, as `_driver.arguments_of` has it; nothing where the driver did not tell."""
        self.get(device)
        return self._arguments.get(device, {}).get(name, ())

    def _build(self, device: OpenCLDevice) -> Any:
        if self.fmt == "cl":
            return self._build_source(device)
        if self.fmt in _VENDORS and not _of_vendor(device, self.fmt):
            raise FormatError(f"{device} does not take a payload of format {self.fmt!r}, a vendor's binary for its FPGAs", kind="opencl")
        return _driver.build_binary(device.context, device.handle, self._code)

    def _build_source(self, device: OpenCLDevice) -> Any:
        kept = Kept("opencl", _FORM, device.identity, "\0".join(self._options), self._text)
        line, _, binary = kept.read().partition(b"\n")
        if binary:
            try:
                program = _driver.build_binary(device.context, device.handle, binary)
                self._arguments[device] = json.loads(line)
                return program
            except FormatError:
                pass  # the driver was changed without a new version: what is kept is worth nothing
        program = _driver.build_source(device.context, device.handle, self._text, self._options, "the opencl source")
        self._arguments[device] = arguments = _driver.arguments_of(program)
        made = _driver.binary_of(program)
        if made:
            kept.write(json.dumps(arguments).encode() + b"\n" + made)
        return program


def _of_vendor(device: OpenCLDevice, fmt: str) -> bool:
    said = f"{device.platform} {device.vendor}".lower()
    return any(word in said for word in _VENDORS[fmt])
