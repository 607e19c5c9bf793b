"""The programs of a payload whose source has a C preprocessor, one for each set of constants."""

from __future__ import annotations

from devmod.backend import closed_source, split_options
from devmod.errors import LaunchError
from devmod_runtime._launch.specialize import source_constants, specialize_source
from devmod_runtime._module import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self


class Programs:
    """Base class of the programs of one payload and set of constants. A backend builds them for its devices.

    A subclass sets `kind` and `source_format`, and defines `with_constants`.

    Parameters
    ----------
    fmt, code
        The payload, or the result of a replaced compiler for it. A source is decoded at its first use.
    constants
        Values for constants of the source.

    Attributes
    ----------
    kind, source_format : str
        The kind, and its format of source payloads.
    """

    kind = ""
    source_format = ""

    def __init__(self, fmt: str, code: bytes, constants: Mapping[str, object] | None = None) -> None:
        self.fmt, self.code = fmt, code
        self._set = dict(constants or {})
        self._source = self._text = ""
        self._specialized: dict[tuple[tuple[str, str], ...], Self] = {}
        if self._set:
            self._source = self.source

    @property
    def source(self) -> str:
        """The source with the values of the constants; "" for other formats. FormatError if it is not text."""
        if not self._source and self.fmt == self.source_format:
            text = source_text(self.kind, f"the {self.kind} payload of format {self.fmt!r}", self.code)
            self._source = specialize_source(self.kind, text, self._set) if self._set else text
        return self._source

    @property
    def text(self) -> str:
        """The source for the receiver's compiler (`closed_source`); "" for other formats. FormatError if it may read a file."""
        if not self._text and self.source:
            self._text = closed_source(self.kind, self.source)
        return self._text

    @property
    def options(self) -> tuple[str, ...]:
        """The options in the first line of the source; empty for other formats. FormatError for an option that is not allowed."""
        return split_options(self.source)[0]

    @property
    def constants(self) -> Sequence[str]:
        """The names of the constants that the source defines."""
        return source_constants(self.source)

    def specialize(self, constants: Mapping[str, object]) -> Self:
        """Return the programs with values for constants, in addition to those that are set. Equal values give the same object.

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
        programs = self._specialized.get(key)
        return programs if programs is not None else self._specialized.setdefault(key, self.with_constants(constants))

    def with_constants(self, constants: Mapping[str, object]) -> Self:
        """Return new programs of the payload with these values for constants, and no others."""
        raise NotImplementedError
