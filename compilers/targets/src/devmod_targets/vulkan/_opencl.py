"""OpenCL C for Vulkan: the kernels as OpenCL's own reader returns them, what clspv cannot compile,
and the places that clspv gives to the arguments.

The signature is that of the kind opencl, so that one call serves both. clspv's reflection has
neither signs nor const.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.errors import ToolchainNotFoundError, not_installed
from devmod_targets._text import blank_code, blank_comments
from devmod_targets.authoring import CompileRequest, SelfContainedSource, complete_source
from devmod_targets.opencl.clang import check_calls
from devmod_targets.opencl.compile import (
    function_definitions,
    kernel_extents,
    read,
    triple_of,
)
from devmod_targets.vulkan._clspv import DISTRIBUTION, TABLE
from devmod_targets.vulkan._jumps import jump_into_loop

if TYPE_CHECKING:
    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring.clang import Libclang

#: The macro that clspv defines.
_MACRO = {"VULKAN": "100"}
#: The functions of doubles that clspv compiles to wrong code, or on which it crashes: it masks 64
#: bits by 32 (pyclspv 0.0.1, each compared with PoCL).
_WRONG_TEXT = """
acos acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt copysign cos cosh cospi degrees erf erfc fabs fmod frexp hypot ilogb
lgamma lgamma_r logb maxmag minmag modf nextafter pow pown powr radians remainder remquo rootn round sin sincos sinh sinpi tan tanh tanpi
tgamma
"""
_WRONG_DOUBLES = frozenset(_WRONG_TEXT.split())
_INLINE = r"\b(?:inline|__inline(?:__)?)\b"
#: The word `extern` of an inline function, before or after the other one.
_EXTERN_INLINE = re.compile(
    rf"\b(?P<before>extern)\b(?=(?:[^;{{}}#\n]*|\s+){_INLINE})|{_INLINE}[^;{{}}#\n]*?\b(?P<after>extern)\b"
)
#: The address space of variables of the program in clang.
_GLOBAL = 1
_JUMP = "clspv compiles a jump into a loop to wrong code. Move the label before the loop, or use branches"


class KernelSource:
    """An OpenCL C source for clspv.

    Attributes
    ----------
    source
        The self-contained source.
    kernels
        Its kernels by name.
    reader
        The program that read them.
    """

    def __init__(
        self,
        request: CompileRequest,
        source: SelfContainedSource,
        kernels: Mapping[str, ReflectedFunction],
        reader: str,
        standard: str,
        findings: _Findings,
    ) -> None:
        self.source = source
        self.kernels = kernels
        self.reader = reader
        self._request = request
        self._standard = standard
        self._findings = findings

    def problem(self, kernel: str) -> str:
        """Return what clspv does not support in a kernel or in what it calls, with the line; "" if
        nothing is known.
        """
        problems = self._findings.problems
        return next((problems[each] for each in self._used(kernel) if each in problems), "")

    def suspects(self, kernel: str) -> list[str]:
        """Return the statements of a kernel, and of what it calls, on which clspv may fail without
        a reason.
        """
        suspects: list[str] = []
        for each in ("", *self._used(kernel)):
            suspects += self._findings.suspects.get(each, ())
        return suspects

    def text_of(self, kernels: Sequence[str]) -> str:
        """Return the text with some of the kernels, and those that they call. The lines keep their
        numbers.
        """
        if len(kernels) == len(self.kernels):
            return _with_definitions(self.source.text)
        kept: set[str] = set()
        for each in kernels:
            kept |= self._used(each).keys()
        own = {extent for name in kept for extent in self._extents.get(name, ())}
        data = self.source.text.encode()
        for name, extents in self._extents.items():
            if name in kept:
                continue
            # One macro may define several kernels.
            for start, end in set(extents) - own:
                blanks = blank_code(data[start:end].decode()).encode()
                data = data[:start] + blanks + data[end:]
        return _with_definitions(data.decode())

    @cached_property
    def _extents(self) -> dict[str, list[tuple[int, int]]]:
        return kernel_extents(self._request, _as_for_clspv(self.source), self._standard)

    def _used(self, kernel: str) -> dict[str, None]:
        """Return a kernel and the functions that it calls, in order."""
        used = {kernel: None}
        rest = [kernel]
        while rest:
            for name in self._findings.calls.get(rest.pop(), ()):
                if name not in used:
                    used[name] = None
                    rest.append(name)
        return used


def _with_definitions(text: str) -> str:
    """Return a text without the word `extern` of inline functions. clspv defines these functions
    only without it.
    """
    for match in reversed([*_EXTERN_INLINE.finditer(blank_comments(text))]):
        start, end = match.span(match.lastgroup or 0)
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _as_for_clspv(source: SelfContainedSource) -> SelfContainedSource:
    return source._replace(defines={**_MACRO, **source.defines})


def read_source(request: CompileRequest, messages: list[str]) -> KernelSource:
    """Return the source of a request. Add the warnings to `messages`.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The source has errors, no kernel, or a variable of the program, or an option is none of
        OpenCL or of clspv.
    """
    source = complete_source(request, dialect=("-x", "cl", "-target", triple_of(request)))
    for option in source.options:
        if option not in TABLE:
            raise request.error(
                f"the vulkan option {option!r} is not supported: expected an option of OpenCL such as -cl-std=CL2.0, or one of clspv "
                f"for the code such as -inline-entry-points{TABLE.hint(option)}"
            )
    findings = _Findings({}, {}, {})
    check = partial(_check, request, source, findings)
    try:
        kernels, reader, standard = read(request, _as_for_clspv(source), messages, check)
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
    return KernelSource(request, source, kernels, reader, standard, findings)


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
            its = placed.get(param.name, param)
            params.append(param.replace(at=its.at, format=its.format, sample=its.sample))
        result[name] = kernel.replace(
            params=params,
            blocks=own.blocks,
            extra=own.extra,
            needs=(*kernel.needs, *own.needs),
        )
    return result


# -- What clspv compiles to wrong code, or crashes on.


class _Findings(NamedTuple):
    """What is known of the functions of a program, by their names: the first problem of each, the
    statements on which clspv may fail, and the functions that it calls. "" is the program itself.
    """

    problems: dict[str, str]
    suspects: dict[str, list[str]]
    calls: dict[str, list[str]]


def _check(
    request: CompileRequest,
    source: SelfContainedSource,
    findings: _Findings,
    library: Libclang,
    unit: Any,
) -> None:
    """Add the findings of a program. Raise CompileError for a variable of the program and for
    recursion.
    """
    kinds = library.cindex.CursorKind
    checked = (kinds.CALL_EXPR, kinds.BINARY_OPERATOR, kinds.VAR_DECL)
    cursors = {"": [each for each in unit.cursor.get_children() if each.kind == kinds.VAR_DECL]}
    for function in function_definitions(library, unit):
        name = str(function.spelling)
        own = library.descendants(function, checked)
        cursors.setdefault(name, []).extend(own)
        calls = findings.calls.setdefault(name, [])
        calls += [str(each.spelling) for each in own if each.kind == kinds.CALL_EXPR]
        if library.descendants(function, (kinds.GOTO_STMT, kinds.SWITCH_STMT)):
            jump = jump_into_loop(function)
            if jump is not None:
                findings.problems[name] = _at(library, jump, f"error: {_JUMP}")
    for name, own in cursors.items():
        for cursor in own:
            problem = _problem(cursor)
            suspect = _suspect(library, cursor)
            if not problem and not suspect:
                continue
            if problem:
                findings.problems.setdefault(name, _at(library, cursor, f"error: {problem}"))
            else:
                findings.suspects.setdefault(name, []).append(_at(library, cursor, suspect))
    if "" in findings.problems:
        raise request.error(findings.problems[""])
    check_calls(request, source, findings.calls)


def _at(library: Libclang, cursor: Any, text: str) -> str:
    """Return a text with the place of a cursor before it."""
    file, line, column = library.location(cursor.location)
    return f"{os.path.basename(file)}:{line}:{column}: {text}"


def _problem(cursor: Any) -> str:
    """Return why clspv does not support a call, an operation or a variable; "" if it may do so."""
    kind = cursor.kind.name
    name = str(cursor.spelling)
    if kind == "VAR_DECL" and cursor.type.get_address_space() == _GLOBAL:
        return f"Vulkan has no variables of the program, which keep their values. Make {name!r} an argument"
    if kind == "BINARY_OPERATOR" and _relates_pointers(cursor):
        return "clspv cannot compare or subtract pointers. Compare the indices"
    if kind != "CALL_EXPR":
        return ""
    if name == "printf":
        return "printf has no output on Vulkan. Put it under #ifndef VULKAN, or write the values to an array"
    if name.startswith("convert_double"):
        return f"clspv crashes on {name}(). Write a cast to double"
    if name in _WRONG_DOUBLES and "double" in _type_of_argument(cursor):
        return (
            f"clspv compiles {name}() of double to wrong code. Use float (-cl-single-precision-constant for constants), or a function of "
            "your own"
        )
    if name.startswith("atomic_compare_exchange") and "float" in _type_of_argument(cursor):
        return (
            f"clspv crashes on {name}() of atomic_float. Use atomic_uint, as_uint() and as_float()"
        )
    # Its result is the smallest number where the product is zero.
    if name == "mad_sat" and _type_of_argument(cursor).startswith(("int", "long")):
        return "clspv compiles mad_sat() of int and long to wrong code. Use a function of your own"
    return ""


def _suspect(library: Libclang, cursor: Any) -> str:
    """Return what clspv may fail on without a reason, and what to write; "" for other code."""
    name = str(cursor.spelling)
    type_ = cursor.type.get_canonical()
    is_array = cursor.kind.name == "VAR_DECL" and type_.kind.name.endswith("ARRAY")
    if is_array and type_.element_type.get_canonical().kind.name == "POINTER":
        return f"{name}, an array of pointers; use branches"
    if name.startswith("atom") and _casts_pointer(library, cursor):
        return f"{name}() with a pointer that is cast; declare the array as integers, and use as_float()"
    return ""


def _casts_pointer(library: Libclang, call: Any) -> bool:
    casts = library.descendants(call, (library.cindex.CursorKind.CSTYLE_CAST_EXPR,))
    return any(_is_pointer(each.type) for each in casts)


def _type_of_argument(call: Any) -> str:
    """Return the type of the first argument of a call; "" if it has none."""
    argument = next(call.get_arguments(), None)
    if argument is None:
        return ""
    return str(argument.type.get_canonical().spelling)


def _relates_pointers(operation: Any) -> bool:
    """Whether an operator takes two pointers, none of them null, and its result is none."""
    operands = list(operation.get_children())
    if _is_pointer(operation.type) or not all(_is_pointer(each.type) for each in operands):
        return False
    return not any(map(_is_null, operands))


def _is_pointer(type_: Any) -> bool:
    name: str = type_.get_canonical().kind.name
    return name == "POINTER" or name.endswith("ARRAY")


def _is_null(cursor: Any) -> bool:
    """Whether an expression is a number, converted to a pointer."""
    children = list(cursor.get_children())
    while len(children) == 1:
        cursor = children[0]
        children = list(cursor.get_children())
    return bool(cursor.kind.name == "INTEGER_LITERAL")
