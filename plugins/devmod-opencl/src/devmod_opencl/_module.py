"""The runtime module of OpenCL, and the checks of its payload that need no driver."""

from __future__ import annotations

from devmod.backend import detect_form
from devmod.errors import FormatError
from devmod_runtime import RuntimeModule, source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_opencl._launch import OpenCLPrograms
    from devmod_runtime import Launcher

#: The first bytes of the vendors' binaries.
_VENDOR_MAGIC = {"xclbin": b"xclbin2", "awsxclbin": b"xclbin2", "aocx": b"\x7fELF"}


class OpenCLModule(RuntimeModule):
    """OpenCL C, SPIR-V, or a program binary. The first get_function on a device builds it, once for
    all functions.
    """

    target = "opencl"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        programs = self.programs()
        from devmod_opencl._launch import OpenCLLauncher

        return OpenCLLauncher(info, programs)

    def programs(self) -> OpenCLPrograms:
        """Return the module's programs, one for each device. The first call checks the payload,
        without a driver.

        Raises
        ------
        FormatError
            The payload is not valid for OpenCL.
        """

        def create() -> OpenCLPrograms:
            fmt, code = self.payload()
            check_payload(fmt, code)
            from devmod_opencl._launch import OpenCLPrograms

            return OpenCLPrograms(fmt, bytes(code), functions=self.functions)

        return self.once("programs", create)


def check_payload(fmt: str, code: bytes | memoryview) -> None:
    """Check the first bytes of a payload, and the text of a source.

    Raises
    ------
    FormatError
        No OpenCL device supports the payload.
    """
    head = bytes(code[:8])
    if not len(code):
        raise FormatError(f"the opencl payload of format {fmt!r} is empty", kind="opencl")
    is_spirv = detect_form(head[:4]) == "spirv"
    if is_spirv and fmt != "il":
        raise FormatError(
            f"the opencl payload of format {fmt!r} is SPIR-V; use the format 'il' for kernels of OpenCL, or a vulkan module for shaders",
            kind="opencl",
        )
    if fmt == "il":
        from devmod_readers.spirv import read_module

        try:
            read_module(code)  # Intel's reader does not end for an instruction of no words
        except FormatError as error:
            raise FormatError(f"the opencl payload of format 'il' {error}", kind="opencl") from None
    magic = _VENDOR_MAGIC.get(fmt, b"")
    if not head.startswith(magic):
        raise FormatError(
            f"the opencl payload of format {fmt!r} is not such a file: expected {magic!r} at its start, got {head!r}",
            kind="opencl",
        )
    if fmt == "clbin" and head == b"poclbin\0" and _is_truncated_pocl(code):
        raise FormatError(
            "the opencl payload of format 'clbin' is a truncated or damaged binary of PoCL",
            kind="opencl",
        )
    if fmt == "cl":
        source_text("opencl", "the opencl payload of format 'cl'", code)


def _is_truncated_pocl(code: bytes | memoryview) -> bool:
    """Return whether a binary of PoCL ends before its program does. PoCL would read past the end
    and crash.
    """
    head = bytes(code[:256])
    name = b"/program.bc"
    start = head.find(name) + len(name)
    if start < len(name):
        return len(code) <= 256
    return start + 4 + int.from_bytes(head[start : start + 4], "little") > len(code)
