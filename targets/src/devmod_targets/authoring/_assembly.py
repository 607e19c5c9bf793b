"""The guard of assembly: no directive reads a file, because a payload depends on its inputs alone (R38).

The assembler looks for a macro before it looks for a directive, also for a name that another macro puts together. So macros with the
names of these directives make them errors. The names of directives have no case, and those of macros do.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

from devmod.errors import CompileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.authoring._request import CompileRequest

_DIRECTIVES = (".include", ".incbin")
_ERROR = re.compile(r"error: devmod: (\.\w+)\n")
#: The directives that remove the guard.
_REMOVES = re.compile(rb"purgem|macros_off", re.IGNORECASE)


def guarded(text: bytes, name: str) -> bytes:
    """Return assembly after the guard. The messages of the assembler have the lines of the text."""
    return _guard() + b'# 1 "%s"\n' % name.encode() + text


def removes_guard(text: bytes) -> bool:
    """Return whether assembly may remove the guard, so that the files that it reads are unknown."""
    return _REMOVES.search(text) is not None


def check_guard(request: CompileRequest, output: str, name: str) -> None:
    """Raise CompileError if the output of the assembler has an error of the guard. `name` is that of the text."""
    found = _ERROR.search(output)
    if not found:
        return
    line = re.compile(rf"^{re.escape(name)}:(\d+):", re.MULTILINE).search(output, found.end())
    if request.language == "assembly" and line:
        place = f"{request.name}:{line[1]}: the directive {found[1]}"
    else:
        place = f"{request.name}: the directive {found[1]} in its inline assembly"
    raise CompileError(
        f"{place} reads a file of the build machine, and equal sources give equal payloads; write the contents into the source",
        kind=request.target.kind,
    )


@cache
def _guard() -> bytes:
    names = [(name, "".join(letters)) for name in _DIRECTIVES for letters in product(*({each, each.upper()} for each in name))]
    return "".join(f'.macro {spelled} rest:vararg\n.error "devmod: {name}"\n.endm\n' for name, spelled in sorted(names)).encode()
