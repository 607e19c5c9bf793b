"""The builds of a payload whose source has a C preprocessor, for each set of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from devmod import FunctionInfo, Interface
from devmod.errors import FormatError, LaunchError
from devmod_readers.source_constants import source_constants as source_constants
from devmod_readers.source_constants import specialize_source as specialize_source
from devmod_readers.sources import closed_source, split_options
from devmod_runtime._launch.launcher import Launcher
from devmod_runtime._module import source_text


class Builds:
    """Base class of the builds of one payload with one set of constants. A backend makes one for
    each device or architecture.

    A subclass sets the attributes, and defines `with_constants` and `is_option`.

    Parameters
    ----------
    fmt, code
        The payload, or the result of a replaced compiler for it. A source is decoded at its first
        use.
    constants
        Values for constants of the source.
    others
        Constants of the functions that are not in the source, for messages.

    Attributes
    ----------
    kind, source_format : str
        The kind, and its format of source payloads.
    compiler : str
        The receiver's compiler, in messages.
    """

    kind = ""
    source_format = ""
    compiler = ""

    def __init__(
        self,
        fmt: str,
        code: bytes,
        constants: Mapping[str, object] | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self.fmt = fmt
        self.code = code
        self._set = dict(constants or {})
        self._others = others
        self._specialized: dict[tuple[tuple[str, str], ...], Self] = {}
        if self._set:
            _ = self.source  # an unknown constant is an error here

    @cached_property
    def source(self) -> str:
        """The source with the values of the constants; "" for other formats. FormatError if it is
        not text.
        """
        if self.fmt != self.source_format:
            return ""
        text = source_text(self.kind, f"the {self.kind} payload of format {self.fmt!r}", self.code)
        if not self._set:
            return text
        return specialize_source(self.kind, text, self._set, self._others)

    @cached_property
    def text(self) -> str:
        """The source for the receiver's compiler (`closed_source`); "" for other formats.
        FormatError if it may read a file.
        """
        if not self.source:
            return ""
        return closed_source(self.kind, self.source)

    @property
    def options(self) -> tuple[str, ...]:
        """The options in the first line of the source; empty for other formats. FormatError for an
        option that is not allowed.
        """
        return split_options(self.source, self.kind)[0]

    def check_options(self) -> None:
        """Check the build options of a source. FormatError if the receiver does not pass one of
        them to its compiler.
        """
        for option in self.options:
            if not self.is_option(option):
                raise FormatError(
                    f"the {self.kind} source has the build option {option!r}, which devmod-{self.kind} does not pass to {self.compiler}",
                    kind=self.kind,
                )

    @staticmethod
    def is_option(option: str) -> bool:
        """Return whether the receiver's compiler takes an option of a source."""
        raise NotImplementedError

    @property
    def constants(self) -> Sequence[str]:
        """The names of the constants that the source defines."""
        return source_constants(self.source)

    def specialize(self, constants: Mapping[str, object]) -> Self:
        """Return the builds with values for constants, in addition to those that are set. Equal
        values give the same object.

        Raises
        ------
        ArgumentError
            The source has no such constant, or C cannot represent a value.
        LaunchError
            The payload is not source.
        """
        if self.fmt != self.source_format:
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise LaunchError(
                f"{article} {self.kind} function of format {self.fmt!r} cannot be specialized: its constants were fixed when it was built. "
                f"Use the source (format {self.source_format!r})",
                kind=self.kind,
            )
        constants = {**self._set, **constants}
        key = tuple(sorted((name, repr(value)) for name, value in constants.items()))
        builds = self._specialized.get(key)
        if builds is None:
            builds = self._specialized.setdefault(key, self.with_constants(constants))
        return builds

    def with_constants(self, constants: Mapping[str, object]) -> Self:
        """Return new builds of the payload with these values for constants, and no others."""
        raise NotImplementedError


class BuildLauncher(Launcher):
    """One function of a module whose payload is `Builds`. Its kernels have the attribute
    `required_block`, None without such a block.

    Parameters
    ----------
    info, builds
        The function, and the builds of its module.
    interface
        The interface, if it is not that of `info`.
    """

    def __init__(self, info: FunctionInfo, builds: Any, interface: Interface | None = None) -> None:
        self.info = info
        self.builds = builds
        self.interface = interface

    @property
    def constants(self) -> Sequence[str]:
        constants: Sequence[str] = self.builds.constants
        return constants

    def specialize(self, constants: Mapping[str, object]) -> Self:
        builds = self.builds.specialize(constants)
        interface = self.info.interface
        launcher = type(self)(self.info, builds)
        if interface is None or interface.block is None:
            return launcher
        # The block size in the interface may depend on the constants, so it is read from the kernel
        # that was built with them.
        kernel: Any = launcher.kernel(launcher.default_device())
        return type(self)(self.info, builds, interface.replace(block=kernel.required_block))
