"""The build side: the payload is the complete C source, and libclang reads its kernels.

No C compiler runs here. Only the source and its includes are read, so one source gives the same
payload on every machine (R38). A kernel is a function that the source defines and that is neither
``static`` nor ``inline``.
"""

from __future__ import annotations

import os
import re

from devmod import Param
from devmod.backend import compile_error
from devmod.errors import CompileError
from devmod_host import _headers
from devmod_host._options import check_options
from devmod_host._types import DTYPES
from devmod_host.target import SPEC
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import CompileRequest, Payload, complete_source, source_payload
from devmod_targets.authoring.clang import load_libclang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_targets.authoring.clang import Libclang

#: A folder that does not exist: the path of the files that libclang gets in memory.
_NOWHERE = os.path.join(os.path.abspath(os.sep), "devmod.invalid")
_QUALIFIERS = re.compile(r"\b(const|volatile|restrict|_Atomic)\b ?")
_LARGEST_STRUCT = 0xFFFF


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - the verb of the entry point
    """Return the payload of a C source.

    Parameters
    ----------
    request
        The source and its parameters. Its fmap overrides what libclang reads, and is sufficient
        without libclang.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and the request has no fmap.
    CompileError
        The source has errors, no kernel, or a kernel that devmod cannot call; `log` has every
        diagnostic.
    """
    target = request.target
    if target.archs:
        raise CompileError(
            f"the target {str(target)!r} names an architecture, and C source has none: the receiver compiles it. Remove the architecture",
            kind="host",
        )
    if request.name_expressions:
        raise CompileError(
            "name_expressions= instantiates templates, and C has no templates", kind="host"
        )
    source = complete_source(request)
    problem = check_options(source.options)
    if problem:
        raise CompileError(f"a host payload cannot have {problem}", kind="host")
    nothing = f"the C source {request.name} has no kernel: it defines no function that is neither static nor inline"
    return source_payload(
        SPEC,
        "c",
        request,
        source,
        lambda: _read(source.text, source.options, request.name),
        empty_error=nothing,
    )


def _read(
    text: str, options: tuple[str, ...], name: str
) -> tuple[dict[str, ReflectedFunction], str]:
    """Return the kernels of a payload by name, and the toolchain."""
    library = load_libclang(SPEC, "C")
    main = os.path.join(_NOWHERE, os.path.basename(name))
    arguments = [
        "-x",
        "c",
        "-std=gnu11",
        "-target",
        "x86_64-unknown-linux-gnu",
        "-nostdinc",
        "-isystem",
        _NOWHERE,
        "-w",
    ]
    arguments += [
        "-ferror-limit=0",
        "-Werror=implicit-function-declaration",
        "-include",
        os.path.join(_NOWHERE, _headers.PRELUDE_NAME),
    ]
    arguments += [option for option in options if option.startswith(("-D", "-U"))]
    files = [
        (main, text),
        *(
            (os.path.join(_NOWHERE, header), content)
            for header, content in _headers.files().items()
        ),
    ]
    unit = library.parse(main, arguments, files, kind="host", description=f"the C source {name}")
    errors = [_line(library, each) for each in unit.diagnostics if each.severity >= each.Error]
    if errors:
        raise compile_error("host", "C", errors, "\n".join(errors))
    kernels = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind == library.cindex.CursorKind.FUNCTION_DECL and cursor.is_definition():
            before = library.declaration(cursor).partition(cursor.spelling)[0]
            if not re.search(r"\b(static|inline)\b", before):
                kernels[cursor.spelling] = _kernel(library, cursor)
    return kernels, library.toolchain


def _line(library: Libclang, diagnostic: Any) -> str:
    file, line, column = library.location(diagnostic.location)
    message = diagnostic.spelling
    header = re.fullmatch(r"'(.*)' file not found", message)
    if header:
        message = f"<{header[1]}> is not a header that a host payload may include; expected one of: {', '.join(sorted(_headers.HEADERS))}"
    return f"{os.path.basename(file)}:{line}:{column}: {message}"


def _kernel(library: Libclang, cursor: Any) -> ReflectedFunction:
    file, line, _ = library.location(cursor.location)
    location = f"{os.path.basename(file)}:{line}"
    returned = cursor.result_type.get_canonical().spelling
    if returned != "void":
        raise CompileError(
            f"{location}: the function {cursor.spelling!r} returns {returned}, and a kernel returns void. "
            "Write the result through a pointer, or make a helper static",
            kind="host",
            function=cursor.spelling,
        )
    types: list[str] = []
    params: list[Param] = []
    for number, argument in enumerate(cursor.get_arguments(), 1):
        type_, param = _param(argument)
        if not type_:
            raise CompileError(
                f"{location}: the kernel {cursor.spelling!r} takes {argument.type.spelling!r} as argument {number} "
                f"{argument.spelling!r}, which devmod cannot pass; expected a number, or a pointer to numbers or structs",
                kind="host",
                function=cursor.spelling,
                argument=argument.spelling,
            )
        types.append(type_)
        params.append(param)
    return ReflectedFunction(cursor.spelling, types, params, None, location)


def _param(argument: Any) -> tuple[str, Param]:
    """Return the type for arg_types ("" if devmod cannot pass it) and the Param of one argument."""
    type_ = argument.type.get_canonical()
    # In C an array parameter is a pointer.
    is_array = type_.kind.name in ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
    if type_.kind.name == "POINTER" or is_array:
        target = type_.element_type if is_array else type_.get_pointee()
        element, align = _element(target)
        is_known = element or _QUALIFIERS.sub("", target.spelling) == "void"
        access = "r" if target.is_const_qualified() else "rw"
        return "handle" if is_known else "", Param(
            argument.spelling, "buffer", element, access, align=align
        )
    element, align = _element(type_)
    # The launch cannot name the type of a struct, so it cannot pass one by value.
    return ("" if align else element), Param(argument.spelling, "scalar", element)


def _element(type_: Any) -> tuple[str, int]:
    """Return the dtype of a C type ("" if it has none), and the alignment of a struct (0 for other
    types).
    """
    type_ = type_.get_canonical()
    spelling = _QUALIFIERS.sub("", type_.spelling).strip()
    if spelling in DTYPES:
        return DTYPES[spelling], 0
    if type_.kind.name == "ENUM":
        return _element(type_.get_declaration().enum_type)
    if type_.kind.name == "CONSTANTARRAY":  # a row of float x[][4]
        return _element(type_.element_type)
    size = type_.get_size() if type_.kind.name == "RECORD" else 0
    return (
        (f"uint8x{size}" if size > 1 else "uint8", type_.get_align())
        if 0 < size <= _LARGEST_STRUCT
        else ("", 0)
    )
