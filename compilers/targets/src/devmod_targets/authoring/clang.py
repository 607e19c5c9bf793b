"""Read the signatures of C-like kernels with libclang, without the toolchain of their language."""

from __future__ import annotations

import ctypes
import os
import re
from bisect import bisect_left
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from devmod.backend import RLock
from devmod.errors import CompileError, ToolchainNotFoundError, own_module, pip_install
from devmod.worker import Worker, answer_writer, can_start_python
from devmod_readers.c_numbers import C_NUMBERS
from devmod_readers.reflection import struct_type
from devmod_targets._groups import grouped
from devmod_targets._text import is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod import TargetSpec

#: CXPrintingPolicy_TerseOutput: declarations without their bodies.
_TERSE = 17
_load_lock = RLock()
#: The environment variables with folders of headers, and the one with the sources of the options of
#: clang's driver.
_SEARCH_PATHS = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "OBJCPLUS_INCLUDE_PATH",
    "CCC_OVERRIDE_OPTIONS",
)
#: A folder that does not exist. Files that libclang receives in memory have names in it.
VIRTUAL_FOLDER = os.path.join(os.path.abspath(os.sep), "devmod.invalid")
#: Readers stop after this many errors: for a text that is no program, clang reports an error for
#: each character.
MAX_ERRORS = 1000
#: The categories of clang's errors that do not depend on declarations.
SYNTAX_CATEGORIES = ("Parse Issue", "Lexical or Preprocessor Issue")
# Where to change: a compiler's name of an element type
#   here: for C, `compilers/targets/src/devmod_targets/cuda/signatures/types.py` (`_SMALL`) for
#     CUDA's headers, `compilers/readers/src/devmod_readers/spirv/_reflect.py` (`_FLOATS`) for
#     SPIR-V
#   tests: `compilers/targets/tests/test_compile_opencl.py`,
#     `compilers/targets/tests/test_cuda_signatures.py`, `compilers/readers/tests/test_spirv.py`
#: The numbers of libclang's type kinds to dtypes. cindex does not name all of them.
_DTYPES = {
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
#: The elements of the vectors in the headers of CUDA and HIP, by the start of a vector's name:
#: ``uchar4``, ``float2``.
VECTOR_ELEMENTS = {**C_NUMBERS, "double": "float64"}
#: Constructs on which clang's parser recurses: long statements, and keywords of nested statements.
#: A thousand of them take an eighth of its stack.
_END_OF_STATEMENT = re.compile(r"[;{}]")
#: The definition of a macro, or a line of a comment or of a string that looks like one, which then
#: has one of the marks.
_MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\\\n]|\\.)*", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"[\"']|\*/")
_MAX_STATEMENT = 2000
_NESTING_WORDS = re.compile(r"\b(?:else|for|while|do|if|switch)\b")
_MAX_NESTING_WORDS = 2000
#: clang's kinds of types.
_UNEXPOSED = 1
POINTERS = (101, 103, 104)  # pointers, references, references to values
REFERENCES = POINTERS[1:]
RECORD = 105
ENUM = 106
FIXED_ARRAY = 112
ARRAYS = (FIXED_ARRAY, 114, 115)  # of fixed, unknown and variable length
_VECTORS = (113, 176)


class Libclang:
    """The module clang.cindex with its library, and the functions of libclang that the module does
    not wrap.

    Attributes
    ----------
    cindex
        The module.
    toolchain
        The library's name and version, such as "libclang 18.1.1".
    """

    def __init__(self, cindex: Any) -> None:
        self.cindex = cindex
        library = cindex.conf.lib
        text = cindex._CXString
        pointer = ctypes.c_void_p
        number = ctypes.POINTER(ctypes.c_uint)
        self._visitor = ctypes.CFUNCTYPE(ctypes.c_int, cindex.Cursor, cindex.Cursor, pointer)
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "clang_getClangVersion": (text, []),
            "clang_getCursorPrintingPolicy": (pointer, [cindex.Cursor]),
            "clang_PrintingPolicy_setProperty": (None, [pointer, ctypes.c_int, ctypes.c_uint]),
            "clang_getCursorPrettyPrinted": (text, [cindex.Cursor, pointer]),
            "clang_PrintingPolicy_dispose": (None, [pointer]),
            "clang_getPresumedLocation": (
                None,
                [cindex.SourceLocation, ctypes.POINTER(text), number, number],
            ),
            "clang_getIncludedFile": (pointer, [cindex.Cursor]),
            "clang_getFileName": (text, [pointer]),
            "clang_visitChildren": (ctypes.c_uint, [cindex.Cursor, self._visitor, pointer]),
        }
        functions = []
        for name, (result, arguments) in signatures.items():
            # A look-up by index makes a new function object. So the argument types that cindex
            # declared for its own objects are unchanged.
            function = library[name]
            function.restype = result
            function.argtypes = arguments
            functions.append(function)
        version, self._policy, self._set, self._pretty, self._dispose, self._presumed_location = (
            functions[:6]
        )
        self._included_file, self._file_name, self._visit_children = functions[6:]
        digits = re.search(r"\d+(?:\.\d+)+", self._text(version()))
        self.toolchain = "libclang unknown"
        if digits:
            self.toolchain = f"libclang {digits[0]}"

    def parse(
        self,
        main: str,
        arguments: Sequence[str],
        files: Sequence[tuple[str, str]],
        *,
        kind: str,
        description: str,
        options: int = 0,
    ) -> Any:
        """Parse a program in memory and return its translation unit.

        Parameters
        ----------
        main
            The program's file name.
        arguments
            clang's arguments.
        files
            Name and text of each file in memory, the program first.
        kind
            The target's kind, for errors.
        description
            The source's description in errors, such as "the C source k.c".
        options
            libclang's flags of a translation unit (CXTranslationUnit_Flags).

        Raises
        ------
        CompileError
            libclang returns no translation unit, or crashes on the program. Or the path of a file
            is not UTF-8.
        """
        text = files[0][1]
        for path in (main, *arguments):
            if not is_utf8(path):
                raise CompileError(
                    f"libclang cannot parse {description}: {path!r} is not UTF-8. Rename the file or the folder",
                    kind=kind,
                )
        # A search for so many characters in a row takes 20 ms for a usual text.
        is_long = _longest_statement(text) >= _MAX_STATEMENT
        if is_long or len(_NESTING_WORDS.findall(text)) > _MAX_NESTING_WORDS:
            request = {
                "main": main,
                "arguments": list(arguments),
                "files": files,
                "options": options,
            }
            if not _survives(request):
                raise CompileError(
                    f"libclang crashes on {description}: an expression, a statement or brackets are nested too deeply. Split it into "
                    "steps, with variables or a loop",
                    kind=kind,
                )
        try:
            with _without_search_paths():
                return self.cindex.Index.create().parse(
                    main, args=arguments, unsaved_files=files, options=options
                )
        except self.cindex.TranslationUnitLoadError as error:
            raise CompileError(f"libclang cannot parse {description}", kind=kind) from error

    def declaration(self, cursor: Any) -> str:
        """Return a declaration as clang prints it: macros expanded, numbers evaluated, without body
        and string contents.
        """
        policy = self._policy(cursor)
        try:
            self._set(policy, _TERSE, 1)
            text = self._text(self._pretty(cursor, policy))
        finally:
            self._dispose(policy)
        return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)

    def descendants(self, cursor: Any, kinds: Sequence[Any]) -> list[Any]:
        """Return the descendants of these kinds. It takes a fifth of the time of `walk_preorder`,
        which makes lists of all of them.
        """
        numbers = {kind.value for kind in kinds}
        found = []

        def visit(child: Any, _parent: Any, _data: Any) -> int:
            if child._kind_id in numbers:
                child._tu = cursor._tu
                found.append(child)
            return 2  # CXChildVisit_Recurse

        self._visit_children(cursor, self._visitor(visit), None)
        return found

    def location(self, location: Any) -> tuple[str, int, int]:
        """Return the file, line and column of a location by the ``#line`` directives; ("", 0, 0) if
        it has none.
        """
        file = self.cindex._CXString()
        line = ctypes.c_uint()
        column = ctypes.c_uint()
        self._presumed_location(
            location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column)
        )
        return self._text(file), line.value, column.value

    def included_file(self, cursor: Any) -> str:
        """Return the path of the file that an include names; "" if the file is missing."""
        return self._text(self._file_name(self._included_file(cursor)))

    def _text(self, string: Any) -> str:
        return str(self.cindex._CXString.from_result(string, None, None) or "")


def _longest_statement(text: str) -> int:
    """Return the length of the longest statement. A macro's definition is one of its own: a list of
    macros is long and not nested.
    """
    macros = []

    def take(macro: re.Match[str]) -> str:
        if _MARKS.search(macro[0]):
            return macro[0]
        macros.append(macro[0])
        return ""

    rest = _MACRO.sub(take, text)
    longest = 0
    for part in (rest, *macros):
        longest = max(longest, *map(len, _END_OF_STATEMENT.split(part)))
    return longest


def _survives(request: dict[str, Any]) -> bool:
    """Return whether libclang parses a program in another process: deep nesting overflows clang's
    stack, which ends the process.

    It is True if no other process can be started.
    """
    if not can_start_python():
        return True
    try:
        with Worker(__name__, request) as worker:
            return worker.answer() is not None
    except OSError:
        return True


def main(request: dict[str, Any]) -> None:
    """Parse the program of a request in the new process, and answer if that does not end the
    process.
    """
    answer = answer_writer()
    cindex = _load().cindex
    files = [tuple(each) for each in request["files"]]
    with suppress(cindex.TranslationUnitLoadError):  # raised again in the first process
        cindex.Index.create().parse(
            request["main"],
            args=request["arguments"],
            unsaved_files=files,
            options=request["options"],
        )
    answer(True)


@contextmanager
def _without_search_paths() -> Iterator[None]:
    """Remove the variables by which clang finds headers of this machine (R38)."""
    values = {name: os.environ[name] for name in _SEARCH_PATHS if name in os.environ}
    if not values:
        yield
        return
    with _load_lock:
        for name in values:
            os.environ.pop(name, None)
        try:
            yield
        finally:
            os.environ.update(values)


class LocationSet:
    """A set of source locations that is searched by the extents of cursors.

    Parameters
    ----------
    locations
        File, line and column of each.
    """

    def __init__(self, locations: Iterable[tuple[str, int, int]]) -> None:
        self._by_file = grouped((file, (line, column)) for file, line, column in sorted(locations))

    def __bool__(self) -> bool:
        return bool(self._by_file)

    def intersects(self, extent: Any) -> bool:
        """Return whether one of the locations is inside a clang extent."""
        if not self._by_file:
            return False
        start = extent.start
        end = extent.end
        in_file = self._by_file.get(str(start.file), [])
        index = bisect_left(in_file, (start.line, start.column))
        return index < len(in_file) and in_file[index] <= (end.line, end.column)


def load_libclang(spec: TargetSpec, language: str) -> Libclang:
    """Load libclang on the first call and return it.

    Parameters
    ----------
    spec
        The target, for the error's install command.
    language
        The source's language, for the error.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    """
    try:
        with _load_lock:
            return _load()
    except Exception as error:  # noqa: BLE001 - a library of another version may raise anything
        cause = error
    own = own_module("clang")
    if own:
        raise ToolchainNotFoundError(
            f"cannot read the kernels of the {language} source: libclang cannot be imported: {own}",
            kind=spec.kind,
        ) from cause
    reason = f"libclang cannot be loaded ({cause}); another package may use its name"
    if isinstance(cause, ImportError):
        reason = "libclang is not installed"
    install = pip_install(spec.build_distribution if spec.build_extra else "libclang")
    raise ToolchainNotFoundError(
        f"cannot read the kernels of the {language} source: {reason}. Either run {install}, "
        "or declare the kernels: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
        kind=spec.kind,
    ) from cause


def type_kind(type_: Any) -> int:
    """Return the number of a type's kind. The attribute `kind` raises for kinds that cindex does
    not define.
    """
    return int(type_._kind_id)


def lane_type(type_: Any) -> Any:
    """Return the canonical type of a vector's lanes or of an array's elements."""
    # Type.element_type raises for kinds that cindex does not define.
    return import_module("clang.cindex").conf.lib.clang_getElementType(type_).get_canonical()


def element_type(type_: Any) -> tuple[str, int]:
    """Return the element type and the alignment of a C type.

    Parameters
    ----------
    type_
        A canonical clang.cindex.Type.

    Returns
    -------
    str, int
        The type as in `devmod.Param`, "" if devmod has no name for it; and the alignment of a
        struct, 0 for all other types.
    """
    kind = type_kind(type_)
    if kind in _DTYPES:
        return _DTYPES[kind], 0
    # libclang 18 has no kind for bfloat16.
    if kind == _UNEXPOSED and type_.spelling.endswith("__bf16"):
        return "bfloat16", 0
    if kind == ENUM:
        return element_type(type_.get_declaration().enum_type.get_canonical())
    if kind in _VECTORS:
        dtype, _ = element_type(lane_type(type_))
        # A three-vector takes the memory of a four-vector. The runtime applies that rule, so the
        # type has three lanes.
        if dtype:
            dtype = f"{dtype}x{type_.element_count}"
        return dtype, 0
    if kind != RECORD:
        return "", 0
    return struct_type(type_.get_size(), type_.get_align())


@cache
def _load() -> Libclang:
    return Libclang(import_module("clang.cindex"))
