"""The build side: the payload is the C source itself, complete; its kernels are read from it with libclang.

No C compiler runs here, and no file of this machine is read but the source and its own includes: the same source gives the
same payload everywhere (R38). A kernel is every function that is defined in the source and is neither ``static`` nor ``inline``.
"""

from __future__ import annotations

import os
import re

from devmod import Param
from devmod.backend import CompileRequest, Found, Payload, complete_source, libclang, source_payload, source_refused
from devmod.errors import CompileError
from devmod_host import _headers
from devmod_host._options import check_options
from devmod_host._types import DTYPES
from devmod_host.target import SPEC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod.backend import Libclang

#: A folder that is nowhere: what is given to libclang in memory lies there.
_NOWHERE = os.path.join(os.path.abspath(os.sep), "devmod.invalid")
_QUALIFIERS = re.compile(r"\b(const|volatile|restrict|_Atomic)\b ?")
_LARGEST_STRUCT = 0xFFFF


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """The payload of a C source.

    Parameters
    ----------
    request
        The source and what belongs to it. Its fmap is merged over what libclang reads, and is enough where libclang is missing.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that cannot be called; `log` has every diagnostic.
    """
    target = request.target
    if target.archs:
        raise CompileError(
            f"the target {str(target)!r} names an architecture; C source has none: it is compiled where it runs", kind="host"
        )
    if request.name_expressions:
        raise CompileError("name_expressions= instantiates templates, and C has none", kind="host")
    done = complete_source(request)
    wrong = check_options(done.options)
    if wrong:
        raise CompileError(f"a host payload cannot carry {wrong}", kind="host")
    nothing = f"the C source {request.name} has no kernel: it defines no function that is neither static nor inline"
    return source_payload(SPEC, "c", request, done, lambda: _read(done.text, done.options, request.name), nothing=nothing)


def _read(text: str, options: tuple[str, ...], name: str) -> tuple[dict[str, Found], str]:
    """The kernels of a payload by name, and the toolchain. What libclang reads is what the receiver's compiler will read."""
    library = libclang(SPEC, "C")
    main = os.path.join(_NOWHERE, os.path.basename(name))
    arguments = ["-x", "c", "-std=gnu11", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-isystem", _NOWHERE, "-w"]
    arguments += ["-ferror-limit=0", "-Werror=implicit-function-declaration", "-include", os.path.join(_NOWHERE, _headers.PRELUDE_NAME)]
    arguments += [option for option in options if option.startswith(("-D", "-U"))]
    files = [(main, text), *((os.path.join(_NOWHERE, header), content) for header, content in _headers.files().items())]
    unit = library.parse(main, arguments, files, kind="host", what=f"the C source {name}")
    errors = [_line(library, found) for found in unit.diagnostics if found.severity >= found.Error]
    if errors:
        raise source_refused("host", "C", errors, "\n".join(errors))
    kernels = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind == library.cindex.CursorKind.FUNCTION_DECL and cursor.is_definition():
            before = library.declaration(cursor).partition(cursor.spelling)[0]
            if not re.search(r"\b(static|inline)\b", before):
                kernels[cursor.spelling] = _kernel(library, cursor)
    return kernels, library.toolchain


def _line(library: Libclang, diagnostic: Any) -> str:
    file, line, column = library.place(diagnostic.location)
    message = diagnostic.spelling
    header = re.fullmatch(r"'(.*)' file not found", message)
    if header:
        message = f"<{header[1]}> is not among the headers that a host payload may include: {', '.join(sorted(_headers.HEADERS))}"
    return f"{os.path.basename(file)}:{line}:{column}: {message}"


def _kernel(library: Libclang, cursor: Any) -> Found:
    file, line, _ = library.place(cursor.location)
    where = f"{os.path.basename(file)}:{line}"
    returned = cursor.result_type.get_canonical().spelling
    if returned != "void":
        raise CompileError(
            f"{where}: the function {cursor.spelling!r} returns {returned}, and a kernel returns nothing. "
            "Write its result through a pointer, or make it static where it is a helper",
            kind="host",
            function=cursor.spelling,
        )
    types: list[str] = []
    params: list[Param] = []
    for number, argument in enumerate(cursor.get_arguments(), 1):
        type_, param = _param(argument)
        if not type_:
            raise CompileError(
                f"{where}: the kernel {cursor.spelling!r} takes {argument.type.spelling!r} as argument {number} "
                f"{argument.spelling!r}, which devmod cannot pass; it takes numbers by value, and pointers to numbers and structs",
                kind="host",
                function=cursor.spelling,
                argument=argument.spelling,
            )
        types.append(type_)
        params.append(param)
    return Found(cursor.spelling, types, params, None, where)


def _param(argument: Any) -> tuple[str, Param]:
    """The type for arg_types, "" for one that cannot be passed, and the param of one argument."""
    type_ = argument.type.get_canonical()
    # An array as a parameter is a pointer.
    is_array = type_.kind.name in ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
    if type_.kind.name == "POINTER" or is_array:
        target = type_.element_type if is_array else type_.get_pointee()
        element, align = _element(target)
        known = element or _QUALIFIERS.sub("", target.spelling) == "void"
        access = "r" if target.is_const_qualified() else "rw"
        return "handle" if known else "", Param(argument.spelling, "buffer", element, access, align=align)
    element, align = _element(type_)
    # A struct by value has no name that the launch could give it.
    return ("" if align else element), Param(argument.spelling, "scalar", element)


def _element(type_: Any) -> tuple[str, int]:
    """devmod's name of a C type, "" for one without, and the alignment of a struct, 0 for any other."""
    type_ = type_.get_canonical()
    spelling = _QUALIFIERS.sub("", type_.spelling).strip()
    if spelling in DTYPES:
        return DTYPES[spelling], 0
    if type_.kind.name == "ENUM":
        return _element(type_.get_declaration().enum_type)
    if type_.kind.name == "CONSTANTARRAY":  # a row of float x[][4]
        return _element(type_.element_type)
    size = type_.get_size() if type_.kind.name == "RECORD" else 0
    return (f"uint8x{size}" if size > 1 else "uint8", type_.get_align()) if 0 < size <= _LARGEST_STRUCT else ("", 0)
