"""OpenCL C for Vulkan: the kernels as OpenCL's own reader returns them, what clspv cannot compile,
and the places that clspv gives to the arguments.

The signature is that of the kind opencl, so that one call serves both. clspv's reflection has
neither signs nor const.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.errors import CompileError, ToolchainNotFoundError, not_installed
from devmod_targets.authoring import CompileRequest, SelfContainedSource, complete_source
from devmod_targets.opencl.clang import check_calls
from devmod_targets.opencl.compile import function_definitions, read
from devmod_targets.vulkan._clspv import DISTRIBUTION

if TYPE_CHECKING:
    from devmod import Param
    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring.clang import Libclang

#: The macro that clspv defines.
_MACRO = {"VULKAN": "100"}


class KernelSource(NamedTuple):
    """A source and its kernels.

    Attributes
    ----------
    source
        The self-contained source.
    kernels
        Its kernels by name.
    reader
        The program that read them.
    messages
        Warnings about the source.
    """

    source: SelfContainedSource
    kernels: Mapping[str, ReflectedFunction]
    reader: str
    messages: list[str]


def read_source(request: CompileRequest) -> KernelSource:
    """Return the source of a request and its kernels.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The source has errors, no kernel, or something that clspv does not support.
    """
    source = complete_source(request, dialect=("-x", "cl", "-target", "spir64"))
    messages: list[str] = []
    as_for_clspv = source._replace(defines={**_MACRO, **source.defines})
    check = partial(_check, request, source)
    try:
        kernels, reader, _ = read(request, as_for_clspv, messages, check)
    except ToolchainNotFoundError as error:
        missing = not_installed("libclang", DISTRIBUTION, "libclang")
        raise ToolchainNotFoundError(
            f"cannot read the kernels of the OpenCL C source {request.name}: {missing}",
            kind=request.target.kind,
        ) from error
    if not kernels:
        raise request.error(
            f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel"
        )
    return KernelSource(source, kernels, reader, messages)


def with_places(
    request: CompileRequest,
    kernels: Mapping[str, ReflectedFunction],
    compiled: Mapping[str, ReflectedFunction],
) -> dict[str, ReflectedFunction]:
    """Return the kernels with the places of their arguments in clspv's SPIR-V."""
    result = {}
    for name, kernel in kernels.items():
        own = compiled.get(name)
        if own is None:
            raise request.error(
                f"{kernel.location}: clspv returned no kernel {name!r}", function=name
            )
        placed = {param.name: param for param in own.params}
        params = []
        for param in kernel.params:
            # clspv leaves out what the kernel does not use.
            if param.name in placed:
                param = _placed(request, name, kernel, param, placed[param.name])
            params.append(param)
        result[name] = kernel.replace(
            params=tuple(params),
            blocks=own.blocks,
            extra=own.extra,
            needs=tuple(sorted({*kernel.needs, *own.needs})),
        )
    return result


def _placed(
    request: CompileRequest, name: str, kernel: ReflectedFunction, param: Param, own: Param
) -> Param:
    if param.kind != own.kind:
        raise request.error(
            f"{kernel.location}: the argument {param.name!r} of the kernel {name!r} is of the kind {own.kind} in clspv's SPIR-V; expected "
            f"{param.kind}",
            function=name,
            argument=param.name,
        )
    if param.kind == "image":
        return param.replace(at=own.at, format=own.format, sample=own.sample)
    return param.replace(at=own.at)


# -- What clspv compiles to wrong code, or crashes on.


def _check(
    request: CompileRequest, source: SelfContainedSource, library: Libclang, unit: Any
) -> None:
    """Raise CompileError for a program that clspv does not support, with the line."""
    kinds = library.cindex.CursorKind
    calls = {}
    for function in function_definitions(library, unit):
        callees = set()
        for call in library.descendants(function, (kinds.CALL_EXPR,)):
            callees.add(str(call.spelling))
            if call.spelling == "printf":
                raise _unsupported(
                    request,
                    library,
                    call,
                    "printf has no output on Vulkan. Put it under #ifndef VULKAN, or write the values to an array",
                )
        calls[str(function.spelling)] = sorted(callees)
        for operation in library.descendants(function, (kinds.BINARY_OPERATOR,)):
            if _relates_pointers(operation, kinds):
                raise _unsupported(
                    request,
                    library,
                    operation,
                    "clspv cannot compare or subtract pointers. Compare the indices",
                )
    check_calls(request, source, calls)


def _unsupported(
    request: CompileRequest, library: Libclang, cursor: Any, problem: str
) -> CompileError:
    file, line, column = library.location(cursor.location)
    return request.error(f"{os.path.basename(file)}:{line}:{column}: error: {problem}")


def _relates_pointers(operation: Any, kinds: Any) -> bool:
    """Whether an operator takes two pointers, none of them null, and its result is none."""
    operands = list(operation.get_children())
    if _is_pointer(operation.type) or not all(_is_pointer(each.type) for each in operands):
        return False
    return not any(_is_null(each, kinds) for each in operands)


def _is_pointer(type_: Any) -> bool:
    name: str = type_.get_canonical().kind.name
    return name == "POINTER" or name.endswith("ARRAY")


def _is_null(cursor: Any, kinds: Any) -> bool:
    """Whether an expression is a number, converted to a pointer."""
    children = list(cursor.get_children())
    while len(children) == 1:
        cursor = children[0]
        children = list(cursor.get_children())
    return bool(cursor.kind == kinds.INTEGER_LITERAL)
