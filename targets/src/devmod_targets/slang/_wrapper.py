"""The functions that callers call, around the kernels in Slang's CUDA and C++ text.

Slang's CUDA kernels take a buffer as a struct of address and count, and the parameters of a file from a global variable. Its C++ kernels
take pointers to structs. The functions here take what the source has: an address a buffer, a value a parameter, with their own names.
"""

from __future__ import annotations

import re
from itertools import islice, zip_longest
from typing import NamedTuple

from devmod import Member, Origin
from devmod.backend import GRID_TAGS, array_bytes, dtype_name, find_spec, parse_dtype
from devmod.errors import CompileError, FormatError
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._text import header_text, split_arguments
from devmod_targets.authoring import merge_declared
from devmod_targets.slang._driver import reflection_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from devmod import FunctionInfo, Param
    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.slang._driver import Translation

    T = TypeVar("T")
    Type = Mapping[str, Any]


class Wrapped(NamedTuple):
    """A parameter."""

    #: The name and the type in Slang's reflection.
    name: str
    reflected: Type
    #: The parameters of the function that callers call.
    declarations: tuple[str, ...]
    #: The initializer of Slang's own parameter.
    value: str
    #: The type of the value if Slang takes its address; else "".
    type: str = ""


class Wrapper(NamedTuple):
    """A function that callers call."""

    #: The name for callers, and that of the function in the program.
    name: str
    symbol: str
    params: Sequence[Wrapped]
    block: tuple[int, int, int]
    text: str


# -- The text.


_BUFFER = re.compile(r"(?:RW)?StructuredBuffer<(.*)>")
_BYTES = re.compile(r"(?:RW)?ByteAddressBuffer|RWStructuredBuffer<uint(?:32_t)?>")
_DECLARED = re.compile(r"(.*?)\s*\b(\w+)")
_MAX_PARTS = 1 << 16
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: The words that no parameter and no function in C++ can have as its name, and the macros of the prelude.
_WORDS = frozenset(
    """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const consteval
constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
main slang threadIdx blockIdx blockDim gridDim warpSize
""".split()
)


def prelude(text: str) -> str:
    """Return the prelude for a text of Slang."""
    has_half = re.search("half|f16", text) is not None
    return f"#define SLANG_HALF {int(has_half)}\n{header_text(__package__, 'headers/prelude.h')}"


def symbol_for(name: str) -> str:
    """Return the symbol of a function: its name, or another one if C's library may have a function of that name."""
    of_library = name in _WORDS or re.search(rf"::{name}f?\(", header_text(__package__, "headers/prelude.h"))
    return f"slang_{name}" if of_library else name


def fields_of(request: CompileRequest, text: str, name: str) -> list[tuple[str, str]]:
    """Return the type and the name of each field of a struct in Slang's text; [] without the struct."""
    match = re.search(rf"^struct {name}\n\{{\n(.*?)^\}};", text, re.MULTILINE | re.DOTALL)
    return _declared(request, match[1].strip().removesuffix(";").split(";\n")) if match else []


def signature_of(request: CompileRequest, text: str, start: int) -> list[tuple[str, str]]:
    """Return the type and the name of each parameter of a function in Slang's text. `start` is behind its opening parenthesis."""
    declarations = split_arguments(text[start : text.find("\n", start)])
    if declarations is None:
        raise strange_text(request, "a kernel without a list of parameters")
    return _declared(request, declarations)


def _declared(request: CompileRequest, declarations: Iterable[str]) -> list[tuple[str, str]]:
    result = []
    for declaration in declarations:
        match = _DECLARED.fullmatch(declaration.strip())
        if match is None:
            raise strange_text(request, f"the declaration {declaration.strip()[:80]!r}")
        result.append((match[1], match[2]))
    return result


def strange_text(request: CompileRequest, what: str) -> CompileError:
    """Return the error for a text that Slang does not write."""
    return request.error(f"Slang's translation of {request.name} cannot be read: it has {what}")


def wrap(request: CompileRequest, params: Sequence[Type], declared: Sequence[tuple[str, str]], *, has_counts: bool) -> list[Wrapped]:
    """Return the parameters of a function.

    Parameters
    ----------
    request
        The compile request.
    params
        The parameters in Slang's reflection. Those without a place, such as the ids of threads, are ignored.
    declared
        The type and the name of each parameter in Slang's text.
    has_counts
        Whether buffers have the numbers of their elements.
    """
    params = [param for param in params if "binding" in param]
    if len(params) != len(declared):
        raise strange_text(request, f"{len(declared)} parameters for {len(params)} in the source")
    return [_wrapped(request, param["name"], param["type"], text, has_counts) for param, (text, _) in zip(params, declared, strict=True)]


def _wrapped(request: CompileRequest, name: str, type_: Type, text: str, has_counts: bool) -> Wrapped:
    safe = f"{name}_" if name in _WORDS or name.startswith(("SLANG", "slang")) else name
    if not _NAME.fullmatch(safe):
        raise reflection_error(request, f"a parameter has the name {name!r}")
    kind, shape, access = type_["kind"], type_.get("baseShape", ""), type_.get("access", "read")
    if kind == "resource":
        match = {"structuredBuffer": _BUFFER, "byteAddressBuffer": _BYTES}.get(shape, re.compile("(?!)")).fullmatch(text)
        if match is None or access not in ("read", "readWrite"):
            raise _unsupported(request, name, f"{shape} with the access {access}" if match else str(shape))
        pointee = match[1].strip() if shape == "structuredBuffer" else "uint"
        pointer = f"{'const ' if access == 'read' else ''}{pointee} *{safe}"
        if has_counts:
            return Wrapped(name, type_, (pointer, f"ulonglong {safe}_count"), f"{{({pointee} *){safe}, (size_t){safe}_count}}")
        return Wrapped(name, type_, (pointer,), f"{{({pointee} *){safe}, 0}}")
    if kind in ("constantBuffer", "parameterBlock"):
        type_ = type_["elementType"]
        if _has_resource(type_) or not text.endswith("*"):
            raise _unsupported(request, name, f"{kind} with buffers")
        text = text[:-1].rstrip()
        return Wrapped(name, type_, (f"{text} {safe}",), safe, text)
    if _has_resource(type_):
        raise _unsupported(request, name, f"{kind} with buffers" if kind in ("array", "struct") else kind)
    return Wrapped(name, type_, (f"{text} {safe}",), safe)


def _has_resource(type_: Type) -> bool:
    """Return whether a type contains a buffer, a texture or another object without a value."""
    if type_["kind"] == "struct":
        return any(_has_resource(field["type"]) for field in type_["fields"])
    if type_["kind"] == "array":
        return _has_resource(type_["elementType"])
    return type_["kind"] not in ("scalar", "vector", "matrix", "pointer")


def _unsupported(request: CompileRequest, name: str, what: str) -> CompileError:
    return request.error(
        f"the parameter {name!r} of the Slang source {request.name} is not supported on {request.target.kind}: {what}. Expected a "
        "StructuredBuffer, a ByteAddressBuffer, one of both with RW, a pointer, or a value without buffers"
    )


# -- The payload, with the functions of the source.


def checked(request: CompileRequest, read: Callable[[], T]) -> T:
    """Return the result of a function that reads Slang's reflection. Raise CompileError for an invalid one."""
    try:
        return read()
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, FormatError) as error:
        if isinstance(error, CompileError):
            raise
        raise reflection_error(request, f"{type(error).__name__}: {error}") from None


def finish(
    request: CompileRequest,
    translation: Translation,
    compiler: Callable[[CompileRequest], Payload],
    program: str,
    language: str,
    wrappers: Sequence[Wrapper],
    *,
    blocks: Sequence[str] = (),
) -> Payload:
    """Compile a program with the kind's compiler.

    Parameters
    ----------
    request, translation
        The request for the source in Slang, and its translation.
    compiler, program, language
        The kind's compiler, and the program and its language.
    wrappers
        The functions of the program.
    blocks
        The parameters at the end of each function that have the numbers of blocks.

    Returns
    -------
    Payload
        The payload. Its functions have the parameters of the source.

    Raises
    ------
    CompileError
        The program does not compile, or its functions contradict Slang's reflection.
    """
    payload = compiler(
        request.replace(
            text=program,
            folder="",
            language=language,
            fmap=None,
            options=translation.rest,
            defines={},
            include=(),
            name_expressions=(),
        )
    )
    found = {info.name: info for info in payload.fmap.values()}
    functions = checked(request, lambda: {wrapper.name: _function(request, wrapper, found, blocks) for wrapper in wrappers})
    spec, origin = find_spec(request.target.kind), payload.origin
    assert spec is not None
    assert origin is not None
    toolchain = f"{translation.toolchain}, {origin.toolchain}"
    return payload.replace(
        fmap=merge_declared(spec, functions, request.fmap),
        origin=Origin(origin.target, toolchain, (*translation.options, *origin.options), translation.sources),
        files={**(payload.files or {}), **translation.files} if payload.files is not None else None,
    )


def _function(request: CompileRequest, wrapper: Wrapper, found: Mapping[str, FunctionInfo], blocks: Sequence[str]) -> ReflectedFunction:
    """Return a function with the parameters of the source, from what the kind's compiler has found."""
    info = found.get(wrapper.symbol)
    if info is None or info.interface is None:
        raise strange_text(request, f"no function {wrapper.symbol!r} in the code")
    own = list(zip(info.arg_types, info.interface.params, strict=True))
    if len(own) != sum(len(each.declarations) for each in wrapper.params) + len(blocks):
        raise strange_text(request, f"another number of parameters in the function {wrapper.symbol!r}")
    types: list[str] = []
    params: list[Param] = []
    for each in wrapper.params:
        values = [own.pop(0) for _ in each.declarations]
        param = _param(request, each, values[0][1])
        params.append(param.replace(pack=("ptr:handle", "count:uint64")) if len(values) > 1 else param)
        types += [param.type if each.reflected["kind"] == "scalar" else values[0][0], *(type_ for type_, _ in values[1:])]
    tags = GRID_TAGS[: len(blocks)]
    needs, subgroup = info.interface.needs, info.interface.subgroup
    return ReflectedFunction(wrapper.symbol, types, params, wrapper.block, request.name, tags=tags, needs=needs, subgroup=subgroup)


def _param(request: CompileRequest, wrapped: Wrapped, own: Param) -> Param:
    """Return a parameter with its name and type in the source. `own` is what the kind's compiler has found in the code."""
    type_ = wrapped.reflected
    if type_["kind"] == "pointer":
        return own.replace(name=wrapped.name)
    if type_["kind"] == "resource":
        type_ = type_["resultType"] if type_["baseShape"] == "structuredBuffer" else {"kind": "scalar", "scalarType": "uint32"}
    member = _member("", type_, 0, array_bytes(parse_dtype(own.type)))
    if not _equal(_parts([member]), _parts(own.members or [Member("", own.type)])):
        raise reflection_error(request, f"the layout of the parameter {wrapped.name!r} is not that of the code")
    is_struct = bool(member.members) and not member.shape
    if is_struct:
        return own.replace(name=wrapped.name, members=member.members)
    if own.kind == "buffer":
        # The elements of arrays and matrices are scalars, and those of vectors of three, which have no padding here.
        is_single = not member.shape and not member.type.endswith("x3")
        dtype = member.type if is_single or member.members else dtype_name((*parse_dtype(member.type)[:2], 1))
        return own.replace(name=wrapped.name, type=dtype or own.type, align=own.align if member.members else 0, members=())
    if type_["kind"] == "scalar":
        return own.replace(name=wrapped.name, type=member.type, align=0, members=())
    return own.replace(name=wrapped.name, members=(member,))


def _member(name: str, type_: Type, offset: int, size: int) -> Member:
    """Return a value in Slang's reflection as a member."""
    kind = type_["kind"]
    if kind == "array":
        count, stride = type_["elementCount"], type_["uniformStride"]
        element = _member(name, type_["elementType"], offset, stride)
        return element.replace(shape=(count, *element.shape), strides=(stride, *element.strides))
    if kind == "struct":
        fields = ((field, field["binding"]) for field in type_["fields"])
        members = [_member(field["name"], field["type"], place["offset"], place["size"]) for field, place in fields]
        return Member(name, "", offset, members, size)
    if kind == "pointer":
        return Member(name, "handle", offset)
    if kind == "scalar":
        return Member(name, type_["scalarType"], offset)
    scalar = type_["elementType"]["scalarType"]
    if kind == "vector":
        lanes = type_["elementCount"]
        return Member(name, f"{scalar}x{lanes}" if lanes > 1 else scalar, offset)
    rows, columns = type_["rowCount"], type_["columnCount"]
    return Member(name, scalar, offset, shape=(rows, columns), strides=(size // rows, array_bytes(parse_dtype(scalar))))


def _parts(members: Iterable[Member], start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the offset and the bytes of each scalar."""
    for member in members:
        for place in _places(member.shape, member.strides, start + member.offset):
            if member.members:
                yield from _parts(member.members, place)
            else:
                code, bits, lanes = parse_dtype(member.type)
                size = array_bytes((code, bits, 1))
                yield from ((place + size * lane, size) for lane in range(lanes))


def _places(shape: Sequence[int], strides: Sequence[int], start: int) -> Iterator[int]:
    """Yield the offset of each element of an array."""
    if not shape:
        yield start
    for number in range(shape[0] if shape else 0):
        yield from _places(shape[1:], strides[1:], start + strides[0] * number)


def _equal(first: Iterable[object], second: Iterable[object]) -> bool:
    """Return whether the first values of two sequences are equal. Arrays in files may have any length."""
    return all(one == other for one, other in islice(zip_longest(first, second), _MAX_PARTS))
