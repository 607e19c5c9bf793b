"""libclang, which reads the signatures of C-like sources where their own toolchain is not."""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from importlib import import_module
from threading import Lock

from devmod.errors import CompileError, ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod.targets import TargetSpec

#: CXPrintingPolicy_TerseOutput: declarations without their bodies.
_TERSE = 17
_loading = Lock()
#: A folder that is nowhere: what is given to libclang in memory lies there.
NOWHERE = os.path.join(os.path.abspath(os.sep), "devmod.invalid")
#: Of a text that is no program clang tells as many errors as it has characters, and each takes time: so many are told.
MOST_ERRORS = 1000
#: libclang's kinds of types to ours, by number: cindex has no name for all of them.
_NUMBERS = {
    3: "bool",
    4: "uint8",
    5: "uint8",
    8: "uint16",
    9: "uint32",
    10: "uint64",
    11: "uint64",
    13: "int8",
    14: "int8",
    16: "int16",
    17: "int32",
    18: "int64",
    19: "int64",
    21: "float32",
    22: "float64",
    31: "float16",
    32: "float16",
    39: "bfloat16",
}
#: What clang's parser goes into anew for: characters without an end of a statement, and words that statements begin with. A thousand
#: of them take an eighth of its stack.
_LONG = re.compile(r"[^;{}]{2000}")
_BEGINS = re.compile(r"\b(?:else|for|while|do|if|switch)\b")
_MOST_BEGINS = 2000
#: Parses what it is given on stdin, and ends.
_TRIAL = """
import json, sys
sys.path[:], main, arguments, files = json.load(sys.stdin)
from clang import cindex
try:
    cindex.Index.create().parse(main, args=arguments, unsaved_files=[tuple(each) for each in files])
except cindex.TranslationUnitLoadError:
    pass
"""
_UNEXPOSED, _RECORD, _ENUM, _VECTORS = 1, 105, 106, (113, 176)
_LARGEST_STRUCT = 0xFFFF


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

    def parse(self, main: str, arguments: Sequence[str], files: Sequence[tuple[str, str]], *, kind: str, what: str) -> Any:
        """The translation unit of a program that is given in memory, as the first of the files; `what` in errors.

        Raises
        ------
        CompileError
            libclang gives none, or would end the process.
        """
        text = files[0][1]
        if _LONG.search(text) or len(_BEGINS.findall(text)) > _MOST_BEGINS:
            self._try(main, arguments, files, kind, what)
        try:
            return self.cindex.Index.create().parse(main, args=arguments, unsaved_files=files)
        except self.cindex.TranslationUnitLoadError as error:
            raise CompileError(f"libclang cannot parse {what}", kind=kind) from error

    def _try(self, main: str, arguments: Sequence[str], files: Sequence[tuple[str, str]], kind: str, what: str) -> None:
        """Have another process parse it first: clang's stack overflows on what is nested too deeply, and the process ends with it."""
        import json
        import subprocess
        import sys

        if getattr(sys, "frozen", False) or not sys.executable:
            return  # no interpreter to ask
        given = json.dumps([sys.path, main, list(arguments), files])
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter
                [sys.executable, "-c", _TRIAL], input=given, text=True, encoding="utf-8", capture_output=True, check=False
            )
        except OSError:
            return
        if done.returncode < 0 or (os.name == "nt" and done.returncode > 1):
            raise CompileError(
                f"libclang ends its process on {what}: an expression, a statement or brackets are nested too deeply for it. Write it "
                "in steps, as with variables or a loop",
                kind=kind,
            )

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


def kind_id(type_: Any) -> int:
    """The number of a type's kind: `kind` fails for those that cindex does not know."""
    return int(type_._kind_id)


def lane(type_: Any) -> Any:
    """The canonical type of a vector's lanes, or of an array's elements."""
    # Type.element_type would fail for those that cindex does not know.
    return import_module("clang.cindex").conf.lib.clang_getElementType(type_).get_canonical()


def element(type_: Any) -> tuple[str, int]:
    """The type of one element, "" where it has no name here, and the alignment of a struct, 0 for any other.

    Parameters
    ----------
    type_
        A canonical clang.cindex.Type.
    """
    kind = kind_id(type_)
    if kind in _NUMBERS:
        return _NUMBERS[kind], 0
    if kind == _UNEXPOSED and type_.spelling.endswith("__bf16"):  # libclang 18 has no kind for it
        return "bfloat16", 0
    if kind == _ENUM:
        return element(type_.get_declaration().enum_type.get_canonical())
    if kind in _VECTORS:
        number, _ = element(lane(type_))
        # A vector of three takes the place of one of four; the type says what it is, the runtime what place it takes.
        return (f"{number}x{type_.element_count}" if number else ""), 0
    size = type_.get_size() if kind == _RECORD else 0
    if 0 < size <= _LARGEST_STRUCT:
        return (f"uint8x{size}" if size > 1 else "uint8"), type_.get_align()
    return "", 0


@cache
def _load() -> Libclang:
    return Libclang(import_module("clang.cindex"))
