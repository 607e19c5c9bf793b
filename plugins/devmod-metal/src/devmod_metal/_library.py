"""Libraries: a module's shaders, each compiled for each device that asks for it, once."""

from __future__ import annotations

from devmod.backend import Once, source_text, specialize_source, split_options
from devmod.errors import CompileError, FormatError, LaunchError, quoted
from devmod_metal._interface import Refused, metal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_metal._device import MetalDevice
    from devmod_metal._interface import Constant, Pipeline

#: How every metallib begins.
_MAGIC = b"MTLB"


class Libraries:
    """The libraries of one module, a device and a shader each. Functions whose shaders are equal share one."""

    def __init__(self) -> None:
        self._made = Once()

    def shader(self, entry: str, fmt: str, code: bytes | memoryview) -> Shader:
        """One of the module's shaders, after a look at it that needs no driver.

        Raises
        ------
        FormatError
            It is none that Metal takes.
        """
        what = f"the metal shader {entry!r} of format {fmt!r}"
        data = bytes(code)
        if fmt == "metal":
            try:
                options, text = split_options(source_text("metal", what, data))
            except FormatError as error:
                raise FormatError(str(error), kind="metal") from None
            return Shader(self._made, fmt, b"", text, options)
        if not data.startswith(_MAGIC):
            raise FormatError(f"{what} does not begin as such a file does ({_MAGIC!r}): it begins with {data[:8]!r}", kind="metal")
        return Shader(self._made, fmt, data, "", ())


class Shader:
    """One shader: its library and its pipelines on each device."""

    def __init__(self, made: Once, fmt: str, data: bytes, text: str, options: Sequence[str]) -> None:
        self._made = made
        self._fmt, self._data, self._text, self._options = fmt, data, text, tuple(options)

    def with_defines(self, constants: Mapping[str, object]) -> Shader:
        """The shader with constants of its source set.

        Raises
        ------
        ArgumentError
            The source has no such constant, or a value has no form in C.
        LaunchError
            The shader is no source.
        """
        if not constants:
            return self
        if self._fmt != "metal":
            raise LaunchError(
                f"a metal function of format {self._fmt!r} has no constant {next(iter(constants))!r} to specialize: its defines were fixed "
                "when it was built. Carry the source (format 'metal'), or make it a function constant",
                kind="metal",
            )
        return Shader(self._made, self._fmt, b"", specialize_source("metal", self._text, constants), self._options)

    def library(self, device: MetalDevice) -> Any:
        """Metal's library, once for all threads and functions.

        Raises
        ------
        CompileError, FormatError
            Metal refuses the source or the library.
        """
        return self._made.get((device, self._data, self._text, self._options), lambda: self._build(device))

    def _build(self, device: MetalDevice) -> Any:
        if self._fmt != "metal":
            try:
                return metal().load(device.handle, self._data)
            except Refused as error:
                raise FormatError(
                    f"{device} does not take the metallib: {error}. A library runs on the systems it was built for, and later ones; "
                    "carry the source (format 'metal') for others",
                    kind="metal",
                ) from error
        try:
            return metal().compile(device.handle, self._text, self._options)
        except Refused as error:
            log = str(error)
            lines = [line.strip() for line in log.splitlines() if "error:" in line][:3] or [log[:200]]
            raise CompileError(f"{device} cannot build the metal source: {'; '.join(lines)}", kind="metal", log=log) from error

    def pipeline(self, device: MetalDevice, name: str, constants: Sequence[Constant]) -> Pipeline:
        """The pipeline of a function.

        Raises
        ------
        CompileError, FormatError
            The library cannot be had, or has no such function.
        Refused
            Metal makes no pipeline of the function.
        """
        library = self.library(device)
        names = metal().functions(library)
        if name not in names:
            raise FormatError(
                f"the metal library has no function {name!r}, which the payload's fmap names; it has: {quoted(names) or 'none'}",
                kind="metal",
            )
        return metal().pipeline(device.handle, library, name, constants)
