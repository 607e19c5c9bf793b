"""Payload: the record that goes through compile and create into a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod._values.code import Code, Source
    from devmod._values.info import FunctionInfo
    from devmod._values.origin import Origin


class Payload(NamedTuple):
    """The result of a compiler: the arguments of `devmod.create`, and what the module keeps beside
    them.

    Parameters
    ----------
    kind, code, fmt, fmap, source
        The arguments of `devmod.create`.
    origin
        An Origin, or None.
    files
        The files that the compiler read, besides the source and its own headers: path to the
        SHA-256 of what it read. None if they are unknown: `devmod build` then does not cache the
        result.
    validator
        The program that checked the source and compiles nothing, such as "naga"; "" if there is
        none.
    unvalidated
        Why such a program did not check the source, with the command that installs it; "" if one
        did, or the kind has none.
    """

    kind: str
    code: Code
    fmt: str
    fmap: Mapping[str, FunctionInfo]
    source: Source | None = None
    origin: Origin | None = None
    files: Mapping[str, str] | None = None
    validator: str = ""
    unvalidated: str = ""

    def replace(self, **fields: Any) -> Payload:
        """Return a payload with other values for some fields."""
        return self._replace(**fields)
