"""Read the signatures of the functions that a C or C++ source exports, with libclang."""

from __future__ import annotations

from devmod.targets.hexagon import SPEC
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring.c_functions import CFunctions, included_files, parse_source, text_with_instances
from devmod_targets.authoring.clang import element_type, load_libclang
from devmod_targets.hexagon import _headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.clang_options import ClangOptions

_FRONTEND_OPTIONS = ("-std=", "-U", "-f", "-mhvx")


def read_functions(
    request: CompileRequest, language: str, options: ClangOptions, symbols: Sequence[str]
) -> tuple[dict[str, ReflectedFunction], str, dict[str, str]]:
    """Read the exported functions of a source.

    Parameters
    ----------
    request, language, options
        The source, and the arguments with which clang compiled it.
    symbols
        The exported symbols.

    Returns
    -------
    dict of str to ReflectedFunction
        The functions by name, qualified in C++, in the order of the source.
    str
        The reader, such as "libclang 18.1.1".
    dict of str to str
        The files that libclang read, as in `Payload.files`.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A function has a parameter that devmod does not support.
    """
    library = load_libclang(SPEC, request.language)
    flags = ["-x", language, "-target", "hexagon-unknown-none-elf", "-ffreestanding"]
    request = request.replace(text=text_with_instances(request.text, symbols, request.name_expressions))
    unit = parse_source(library, request, options, flags, _FRONTEND_OPTIONS, _headers.files())
    source = CFunctions(library, unit, "hexagon", "function")
    functions = source.functions_by_name(symbols, request.name_expressions).items()
    reflected = {name: _function(source, cursor, symbol) for name, (symbol, cursor) in functions}
    return reflected, library.toolchain, included_files(unit, options)


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
