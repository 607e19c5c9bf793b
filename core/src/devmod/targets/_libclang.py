"""libclang, which reads the signatures of C-like sources where their own toolchain is not."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib import import_module
from threading import Lock

from devmod.errors import ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod.targets import TargetSpec

#: CXPrintingPolicy_TerseOutput: declarations without their bodies.
_TERSE = 17
_loading = Lock()


class Libclang:
    """The module clang.cindex with its library loaded, and what it does not offer itself.

    Attributes
    ----------
    cindex
        The module.
    toolchain
        The library's name and version, such as "libclang 18.1.1".
    """

    __slots__ = ("_dispose", "_policy", "_presumed", "_pretty", "_set", "cindex", "toolchain")

    def __init__(self, cindex: Any) -> None:
        self.cindex = cindex
        library = cindex.conf.lib
        # Function objects of our own (a look-up by index makes new ones): those of the module keep what it declared for them.
        version, self._policy, self._set, self._pretty, self._dispose, self._presumed = (
            library[name]
            for name in (
                "clang_getClangVersion",
                "clang_getCursorPrintingPolicy",
                "clang_PrintingPolicy_setProperty",
                "clang_getCursorPrettyPrinted",
                "clang_PrintingPolicy_dispose",
                "clang_getPresumedLocation",
            )
        )
        version.argtypes, version.restype = [], cindex._CXString
        self._policy.argtypes, self._policy.restype = [cindex.Cursor], ctypes.c_void_p
        self._set.argtypes, self._set.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint], None
        self._pretty.argtypes, self._pretty.restype = [cindex.Cursor, ctypes.c_void_p], cindex._CXString
        self._dispose.argtypes, self._dispose.restype = [ctypes.c_void_p], None
        numbers = [ctypes.POINTER(ctypes.c_uint)] * 2
        self._presumed.argtypes = [cindex.SourceLocation, ctypes.POINTER(cindex._CXString), *numbers]
        self._presumed.restype = None
        number = re.search(r"\d+(?:\.\d+)+", self._text(version()))
        self.toolchain = f"libclang {number[0] if number else 'unknown'}"

    def declaration(self, cursor: Any) -> str:
        """A declaration as clang prints it: macros expanded, numbers evaluated, no body, string literals emptied."""
        policy = self._policy(cursor)
        try:
            self._set(policy, _TERSE, 1)
            text = self._text(self._pretty(cursor, policy))
        finally:
            self._dispose(policy)
        return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)

    def place(self, location: Any) -> tuple[str, int, int]:
        """The file, line and column of a location as ``#line`` directives have them; ("", 0, 0) for none."""
        file, line, column = self.cindex._CXString(), ctypes.c_uint(), ctypes.c_uint()
        self._presumed(location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column))
        return self._text(file), line.value, column.value

    def _text(self, string: Any) -> str:
        return str(self.cindex._CXString.from_result(string, None, None) or "")


def libclang(spec: TargetSpec, language: str) -> Libclang:
    """Load libclang, once.

    Raises
    ------
    ToolchainNotFoundError
        It is not installed, or does not load; the message says how to go on, for that target and language.
    """
    try:
        with _loading:
            return _load()
    except Exception as error:  # noqa: BLE001 - whatever a library of another version fails with
        cause = error
    missing = isinstance(cause, ImportError)
    what = "libclang is not installed" if missing else f"libclang does not load ({cause}); another package of that name may be in its place"
    package = f'"devmod-core[{spec.build_extra}]"' if spec.build_extra else "libclang"
    raise ToolchainNotFoundError(
        f"cannot read the kernels of the {language} source: {what}. Either pip install {package}, "
        "or declare the kernels: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
        kind=spec.kind,
    ) from cause


@cache
def _load() -> Libclang:
    return Libclang(import_module("clang.cindex"))
