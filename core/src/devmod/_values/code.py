"""The types of a payload's bytes and sources, for annotations."""

from __future__ import annotations

from collections.abc import Mapping

Binary = bytes | memoryview
Code = Binary | Mapping[str, Binary]
Source = Mapping[str, str | bytes]
