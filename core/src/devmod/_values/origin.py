"""The origin of a payload (R42): target, toolchain, options and sources."""

from __future__ import annotations

from devmod._values.value import Value, read_map
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


# Where to change: a field of the origin of a module, such as its toolchain
#   here: `Origin`: the docstring, `__slots__`, `__init__` and `to_dict`
#   also: `docs/formats.md`, `tests/spec_reader.py`; who shows it,
#     `workbench/src/devmod_workbench/_cli/_describe.py`
#   tests: `core/tests/test_info.py`, `tests/test_formats_page.py`
class Origin(Value):
    """The origin of a payload (R42). It has no times and no paths, so the same inputs have the same
    origin on every host.

    Parameters
    ----------
    target
        The text of the Target, such as "cuda -arch=sm_90".
    toolchain
        The compiler and its version, such as "libclang 18.1.1"; "" if none was used.
    options
        The build options, in order.
    sources
        The SHA-256 in hexadecimal of each source, by the name in the include directive.
    extra
        Unknown keys, unchanged.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = ("extra", "options", "sources", "target", "toolchain")
    target: str
    toolchain: str
    options: tuple[str, ...]
    sources: Mapping[str, str]
    extra: Mapping[str, Any]

    def __init__(
        self,
        target: str,
        toolchain: str = "",
        options: Iterable[str] = (),
        sources: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(target, str) or not isinstance(toolchain, str):
            raise FormatError("the target and the toolchain of an origin are strings")
        if isinstance(options, str) or not hasattr(options, "__iter__"):
            raise FormatError("the options of an origin are a list of strings")
        options = tuple(options)
        if not all(isinstance(option, str) for option in options):
            raise FormatError("the options of an origin are a list of strings")
        if sources is None:
            sources = {}
        if not hasattr(sources, "items"):
            raise FormatError("the sources of an origin are a map of strings")
        for name, digest in sources.items():
            if not isinstance(name, str) or not isinstance(digest, str):
                raise FormatError("the sources of an origin are a map of strings")
        self._set(
            target=target,
            toolchain=toolchain,
            options=options,
            sources=dict(sources),
            extra=dict(extra or {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the map that a bundle's index has."""
        return self._written(("target",))

    @classmethod
    def from_dict(cls, data: object) -> Origin:
        """Return the origin of a map from `to_dict`. Raise FormatError for other objects."""
        rest = read_map(data, "an origin")
        fields = {"target": ""} | cls._taken(rest)
        if not isinstance(fields.get("options", []), (list, tuple)):
            raise FormatError("the options of an origin are a list of strings")
        if not isinstance(fields.get("sources", {}), dict):
            raise FormatError("the sources of an origin are a map of strings")
        return cls(extra=rest, **fields)
