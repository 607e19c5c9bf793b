"""The types of paths, and of a payload's bytes and sources, for annotations."""

from __future__ import annotations

import os
from collections.abc import Mapping

from devmod._values.info import FunctionInfo

AnyPath = str | os.PathLike[str]
Binary = bytes | memoryview
Code = Binary | Mapping[str, Binary]
Source = Mapping[str, str | bytes]
#: The functions of a module by the names that callers use.
Functions = Mapping[str, FunctionInfo]
#: The format, the functions and the code of a module.
Contents = tuple[str, Functions, Code]
