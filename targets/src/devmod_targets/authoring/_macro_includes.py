"""The files of includes that a macro names (``#include STRING(FOLDER/types.h)``), as clang's preprocessor finds them."""

from __future__ import annotations

import os

from devmod.backend import find_spec
from devmod.errors import ToolchainNotFoundError
from devmod_targets.authoring.clang import VIRTUAL_FOLDER, load_libclang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring._request import CompileRequest

#: CXTranslationUnit_DetailedPreprocessingRecord, _SkipFunctionBodies and _KeepGoing (after a missing file).
_OPTIONS = 0x1 | 0x40 | 0x200
_DEFINES = os.path.join(VIRTUAL_FOLDER, "defines")


def main_path(request: CompileRequest) -> str:
    """Return the real path of the source of a request; a path that does not exist if the source is no file."""
    return os.path.realpath(os.path.join(request.folder or VIRTUAL_FOLDER, request.name))


def files_of_macros(
    request: CompileRequest, flags: Sequence[str], defines: Mapping[str, str], location: str
) -> dict[tuple[str, int], dict[tuple[str, str], None]]:
    """Return the file of each include that a macro names, in the branches that are compiled.

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

    Returns
    -------
    dict of (str, int) to dict
        The real path and the line of the include to its files. Each is the real path, "" if the file is missing, and the name below the
        folder where it was found.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        libclang crashes on the source.
    """
    spec = find_spec(request.target.kind)
    assert spec is not None
    try:
        library = load_libclang(spec, request.language)
    except ToolchainNotFoundError as error:
        raise ToolchainNotFoundError(f"{location}: a macro names the file of this include: {error}", kind=spec.kind) from error
    main = os.path.join(request.folder or VIRTUAL_FOLDER, request.name)  # clang looks for includes beside a link, not beside its target
    arguments = [*flags, "-nostdinc", "-w", "-ferror-limit=0", "-include", _DEFINES]
    arguments += [f"-I{os.path.abspath(folder)}" for folder in request.include]
    files = [(main, request.text), (_DEFINES, "".join(f"#define {name} {value}\n" for name, value in defines.items()))]
    unit = library.parse(
        main, arguments, files, kind=spec.kind, description=f"the {request.language} source {request.name}", options=_OPTIONS
    )
    roots = [os.path.join(os.path.realpath(each), "") for each in (request.folder, *request.include) if each]
    found: dict[tuple[str, int], dict[tuple[str, str], None]] = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.INCLUSION_DIRECTIVE or cursor.location.file is None:
            continue
        place = os.path.realpath(str(cursor.location.file)), cursor.location.line
        file = library.included_file(cursor)
        path = os.path.realpath(file) if file else ""
        root = next((each for each in roots if path.startswith(each)), "")
        name = path.removeprefix(root).replace(os.sep, "/") if root else cursor.spelling
        found.setdefault(place, {})[path, name] = None
    return found
