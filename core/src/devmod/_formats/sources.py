"""The sources beside a module's bytes: a msgpack map of format to text, or to bytes (R13)."""

from __future__ import annotations

from devmod._formats.msgpack import Reader
from devmod._formats.wire import pack
from devmod._plugins.specs import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._modules.module import Module
    from devmod._values.code import Source


def pack_sources(module: Module) -> bytes:
    """Return the sources of a module as bytes for a file; b"" if there are none. A payload of text is not repeated."""
    source = dict(module.source)
    spec = find_spec(module.kind) if source else None
    if spec is not None and module.format in spec.text_formats:
        source.pop(module.format, None)
    return pack(source, f"the sources of the {module.kind} module") if source else b""


def read_sources(data: memoryview, subject: str, kind: str) -> Source:
    """Return the sources in the bytes of a file. FormatError if the bytes are invalid."""
    reader = Reader(data, subject, kind)
    source: dict[str, Any] = {}
    for _ in range(reader.read_map()):
        name = reader.field = reader.read_key(source)
        start = reader.at
        value = source[name] = reader.read_value()
        if not isinstance(value, (str, bytes)):
            raise reader.error("expected a string or a binary", start)
    reader.finish()
    return source
