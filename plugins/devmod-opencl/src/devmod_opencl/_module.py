"""The real OpenCL module, and the programs that it builds."""

from __future__ import annotations

from devmod.backend import RealModule, source_text
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Launcher
    from devmod_opencl._program import Programs

_SPIRV = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
#: How the vendors' binaries begin.
_VENDOR_MAGIC = {"xclbin": b"xclbin2", "awsxclbin": b"xclbin2", "aocx": b"\x7fELF"}


class OpenCLModule(RealModule):
    """OpenCL C, or a program's binary. It is built for a device at the first get_function on it, once for all its functions."""

    target = "opencl"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        programs = self.programs()
        from devmod_opencl._launch import OpenCLLauncher

        return OpenCLLauncher(info, programs)

    def programs(self) -> Programs:
        """The module's programs, one for each device: made once, after a look at the payload that needs no driver.

        Raises
        ------
        FormatError
            The payload is none that OpenCL takes.
        """

        def make() -> Programs:
            fmt, code = self.payload()
            check(fmt, code)
            from devmod_opencl._program import Programs

            return Programs(fmt, bytes(code))

        made: Programs = self.once("programs", make)
        return made


def check(fmt: str, code: bytes | memoryview) -> None:
    """FormatError for a payload that no OpenCL device takes, as far as its bytes tell."""
    head = bytes(code[:8])
    if not len(code):
        raise FormatError(f"the opencl payload of format {fmt!r} is empty", kind="opencl")
    if head[:4] in _SPIRV:
        raise FormatError(
            f"the opencl payload of format {fmt!r} is SPIR-V, which opencl modules do not carry; keep the OpenCL C source (format 'cl'), "
            "or a vulkan module for shaders",
            kind="opencl",
        )
    magic = _VENDOR_MAGIC.get(fmt, b"")
    if not head.startswith(magic):
        raise FormatError(
            f"the opencl payload of format {fmt!r} does not begin as such a file does ({magic!r}): it begins with {head!r}", kind="opencl"
        )
    if fmt == "clbin" and head == b"poclbin\0" and _pocl_cut_short(code):
        raise FormatError("the opencl payload of format 'clbin' is a binary of PoCL that is cut short or damaged", kind="opencl")
    if fmt == "cl":
        source_text("opencl", "the opencl payload of format 'cl'", code)


def _pocl_cut_short(code: bytes | memoryview) -> bool:
    """Whether a binary of PoCL ends before its program does: PoCL itself reads on, and crashes."""
    head = bytes(code[:256])
    name = b"/program.bc"
    start = head.find(name) + len(name)
    if start < len(name):
        return len(code) <= 256
    return start + 4 + int.from_bytes(head[start : start + 4], "little") > len(code)
