"""Names of types that signatures of several compilers have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_readers.reflection import ReflectedFunction

#: Functions by the names for callers.
Functions = dict[str, "FunctionInfo"]
#: Functions as a reader has found them, by name.
Reflected = dict[str, "ReflectedFunction"]
#: The threads of a block in x, y, z.
Threads = tuple[int, int, int]
#: The messages of two levels, such as errors and warnings.
Messages = tuple[list[str], list[str]]
