"""The types of paths, of payloads and of what modules have, for annotations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from devmod._values.info import FunctionInfo

AnyPath = str | os.PathLike[str]
Binary = bytes | memoryview
Code = Binary | Mapping[str, Binary]
Source = Mapping[str, str | bytes]
#: The functions of a module by the names that callers use.
Functions = Mapping[str, FunctionInfo]
#: The format, the functions and the code of a module.
Contents = tuple[str, Functions, Code]
#: A map of JSON or of msgpack.
Fields = dict[str, Any]
#: Names, such as those of kinds.
Names = tuple[str, ...]
