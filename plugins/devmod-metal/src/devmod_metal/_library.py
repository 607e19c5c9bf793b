"""The shaders of a module. Each is compiled once for each device that needs it; functions with equal shaders share a library."""

from __future__ import annotations

from devmod.errors import CompileError, FormatError, LaunchError, list_names
from devmod_metal._device import metal
from devmod_metal._interface import MetalError
from devmod_readers.sources import closed_source, split_options
from devmod_runtime import source_constants, source_text, specialize_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod.backend import Once
    from devmod_metal._device import MetalDevice
    from devmod_metal._interface import ConstantValue, Pipeline

#: The first bytes of a metallib.
_MAGIC = b"MTLB"


def read_shader(once: Once, entry: str, fmt: str, code: bytes | memoryview) -> Shader:
    """Return a shader of a module. Check its payload, without a driver.

    Parameters
    ----------
    once
        The libraries of the module.
    entry, fmt, code
        The key of the shader, its format and its bytes.

    Raises
    ------
    FormatError
        The payload is not valid for Metal.
    """
    subject = f"the metal shader {entry!r} of format {fmt!r}"
    data = bytes(code)
    if fmt == "metal":
        try:
            options, text = split_options(source_text("metal", subject, data))
        except FormatError as error:
            raise FormatError(str(error), kind="metal") from None
        return Shader(once, fmt, b"", text, options)
    if not data.startswith(_MAGIC):
        raise FormatError(f"{subject} is not such a file: expected {_MAGIC!r} at its start, got {data[:8]!r}", kind="metal")
    return Shader(once, fmt, data, "", ())


class Shader:
    """One shader: its library and its pipelines on each device."""

    def __init__(self, once: Once, fmt: str, data: bytes, text: str, options: Sequence[str]) -> None:
        self._once = once
        self._fmt, self._data, self._text, self._options = fmt, data, text, tuple(options)
        #: The source without the defines that `with_defines` adds, and those.
        self._source, self._defines = text, dict[str, object]()

    @property
    def constants(self) -> Sequence[str]:
        """The names of the constants that the source defines."""
        return source_constants(self._text)

    def with_defines(self, constants: Mapping[str, object], others: Sequence[str] = ()) -> Shader:
        """Return the shader with values for constants of its source, in addition to those that are set.

        Parameters
        ----------
        constants
            The values.
        others
            The function constants, for messages.

        Raises
        ------
        ArgumentError
            The source has no such constant, or C cannot represent a value.
        LaunchError
            The shader is not source.
        """
        if not constants:
            return self
        if self._fmt != "metal":
            raise LaunchError(
                f"a metal function of format {self._fmt!r} has no constant {next(iter(constants))!r} to specialize: its defines were fixed "
                "when it was built. Use the source (format 'metal'), or a function constant",
                kind="metal",
            )
        defines = {**self._defines, **constants}
        shader = Shader(self._once, self._fmt, b"", specialize_source("metal", self._source, defines, others), self._options)
        shader._source, shader._defines = self._source, defines
        return shader

    def library(self, device: MetalDevice) -> Any:
        """Return Metal's library, built once for all threads and functions.

        Raises
        ------
        CompileError, FormatError
            Metal refuses the source or the library.
        """
        return self._once.get((device, self._data, self._text, self._options), lambda: self._build(device))

    def _build(self, device: MetalDevice) -> Any:
        if self._fmt != "metal":
            try:
                return metal().load(device.handle, self._data)
            except MetalError as error:
                raise FormatError(
                    f"{device} does not support the metallib: {error}. A library runs on the macOS that it was built for, and later; "
                    "use the source (format 'metal') for others",
                    kind="metal",
                ) from error
        text = closed_source("metal", self._text)
        try:
            return metal().compile(device.handle, text, self._options)
        except MetalError as error:
            log = str(error)
            lines = [line.strip() for line in log.splitlines() if "error:" in line][:3] or [log[:200]]
            raise CompileError(f"{device} cannot build the metal source: {'; '.join(lines)}", kind="metal", log=log) from error

    def pipeline(self, device: MetalDevice, name: str, constants: Sequence[ConstantValue]) -> Pipeline:
        """Return the pipeline of a function.

        Raises
        ------
        CompileError, FormatError
            The library cannot be built, or has no such function.
        MetalError
            Metal cannot create the pipeline.
        """
        library = self.library(device)
        names = metal().functions(library)
        if name not in names:
            raise FormatError(
                f"the metal library has no function {name!r}, which the payload's fmap names; it has: {list_names(names) or 'none'}",
                kind="metal",
            )
        return metal().pipeline(device.handle, library, name, constants)
