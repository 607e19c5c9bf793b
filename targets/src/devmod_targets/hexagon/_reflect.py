"""Read the signatures of the functions that a C or C++ source exports, with libclang."""

from __future__ import annotations

import os

from devmod.targets.hexagon.spec import SPEC
from devmod_targets.authoring import ReflectedFunction
from devmod_targets.authoring.c_functions import CFunctions
from devmod_targets.authoring.clang import VIRTUAL_FOLDER, element_type, load_libclang
from devmod_targets.hexagon import _headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.llvm import LlvmToolchain

_FRONTEND_OPTIONS = ("-std=", "-U", "-f", "-mhvx")


def read_functions(
    request: CompileRequest,
    language: str,
    toolchain: LlvmToolchain,
    flags: Sequence[str],
    defines: Mapping[str, str],
    symbols: Sequence[str],
) -> tuple[dict[str, ReflectedFunction], str]:
    """Read the exported functions of a source.

    Parameters
    ----------
    request, language, toolchain, flags, defines
        The source, and how clang has compiled it.
    symbols
        The exported symbols.

    Returns
    -------
    dict of str to ReflectedFunction
        The functions by name, qualified in C++, in the order of the source.
    str
        The reader, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A function has a parameter that devmod does not support.
    """
    library = load_libclang(SPEC, request.language)
    main = os.path.join(request.folder or VIRTUAL_FOLDER, os.path.basename(request.name))
    arguments = ["-x", language, "-target", "hexagon-unknown-none-elf", "-ffreestanding", "-nostdinc", "-w", "-ferror-limit=0"]
    arguments += [option for option in flags if option.startswith(_FRONTEND_OPTIONS)]
    arguments += [f"-D{name}={value}" for name, value in defines.items()]
    arguments += [f"-I{folder}" for folder in request.include]
    arguments += ["-isystem", VIRTUAL_FOLDER, "-isystem", toolchain.include]
    files = [(main, request.text), *((os.path.join(VIRTUAL_FOLDER, name), text) for name, text in _headers.files().items())]
    unit = library.parse(main, arguments, files, kind="hexagon", description=f"the {request.language} source {request.name}")
    source = CFunctions(library, unit, "hexagon", "function")
    functions: dict[str, ReflectedFunction] = {}
    for cursor in source.definitions():
        symbol = cursor.mangled_name if language == "c++" else cursor.spelling
        if symbol in symbols:
            name = source.qualified_name(cursor)
            functions[symbol if name in functions else name] = _function(source, cursor, symbol)
    return functions, library.toolchain


def _function(source: CFunctions, cursor: Any, symbol: str) -> ReflectedFunction:
    types, params = source.parameters(cursor)
    result = cursor.result_type.get_canonical()
    extra = {}
    if result.spelling != "void":
        dtype, align = element_type(result)
        if not dtype or align or "x" in dtype:
            raise source.unsupported(cursor, f"returns {cursor.result_type.spelling!r}")
        extra = {"result": dtype}
    return ReflectedFunction(symbol, types, params, None, source.location(cursor), extra=extra)
