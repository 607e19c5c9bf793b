"""The files of includes that a macro names (``#include STRING(FOLDER/types.h)``), as clang's
preprocessor finds them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from devmod.errors import ToolchainNotFoundError
from devmod_targets._included import macro_values
from devmod_targets._text import define_lines
from devmod_targets.authoring._request import CompileRequest
from devmod_targets.authoring.clang import VIRTUAL_FOLDER, load_libclang

#: CXTranslationUnit_DetailedPreprocessingRecord, _SkipFunctionBodies and _KeepGoing (after a
#: missing file).
_OPTIONS = 0x1 | 0x40 | 0x200
_DEFINES = os.path.join(VIRTUAL_FOLDER, "defines")
_NAME = re.compile(rb"\b[A-Za-z_]\w*")


class MacroIncludes:
    """What clang's preprocessor takes for the includes of one source that a macro names, in the
    branches that are compiled.

    Parameters
    ----------
    request
        The compile request.
    flags
        clang's arguments for the language.
    defines
        The defines, name to text.
    location
        The place of such an include, for an error.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        libclang crashes on the source.
    """

    def __init__(
        self,
        request: CompileRequest,
        flags: Sequence[str],
        defines: Mapping[str, str],
        location: str,
    ) -> None:
        spec = request.spec
        try:
            library = load_libclang(spec, request.language)
        except ToolchainNotFoundError as error:
            raise ToolchainNotFoundError(
                f"{location}: a macro names the file of this include: {error}", kind=spec.kind
            ) from error
        main = os.path.join(
            request.folder or VIRTUAL_FOLDER, request.name
        )  # clang looks for includes beside a link, not beside its target
        arguments = [*flags, "-nostdinc", "-w", "-ferror-limit=0", "-include", _DEFINES]
        arguments += [f"-I{os.path.abspath(folder)}" for folder in request.include]
        head = define_lines(defines)
        description = f"the {request.language} source {request.name}"
        files = [(main, request.text), (_DEFINES, head)]
        unit = library.parse(
            main, arguments, files, kind=spec.kind, description=description, options=_OPTIONS
        )
        self._files: dict[tuple[str, int], dict[tuple[str, str], None]] = {}
        self._main = os.path.realpath(main)
        texts = {main: request.text.encode()}
        for cursor in unit.cursor.get_children():
            if (
                cursor.kind == library.cindex.CursorKind.INCLUSION_DIRECTIVE
                and cursor.location.file is not None
            ):
                place = os.path.realpath(str(cursor.location.file)), cursor.location.line
                path = library.included_file(cursor)
                self._files.setdefault(place, {})[path, cursor.spelling] = None
                if path and path not in texts:
                    with open(path, "rb") as file:
                        texts[path] = file.read()
        # A define of the caller replaces the default in a text.
        self._values = macro_values(texts.values()) | macro_values([head.encode()])

    def files(self, file: str, line: int) -> list[tuple[str, str]]:
        """Return the files of the include in a line: each as it was opened, "" if it is missing;
        and its name.

        `file` is the real path of the file with the line, "" for the source itself.
        """
        return list(self._files.get((file or self._main, line), ()))

    def is_plain(self, operand: str) -> bool:
        """Return whether an operand is a macro whose one value is a name in quotes. A search of the
        texts then finds the file.
        """
        values = self._values.get(operand.encode(), ())
        return len(values) == 1 and next(iter(values)).startswith(b'"')

    def unsure_macro(self, operand: str) -> str:
        """Return a macro in an operand whose value at the receiver may be another: the text has
        several, or the compiler has one.
        """
        pending = [*_NAME.findall(operand.encode())]
        seen: set[bytes] = set()
        while pending:
            name = pending.pop()
            values = self._values.get(name, ())
            if len(values) > 1 or name.startswith(b"__"):
                return str(name, "utf-8")
            if name not in seen:
                seen.add(name)
                for value in values:
                    pending += _NAME.findall(value)
        return ""
