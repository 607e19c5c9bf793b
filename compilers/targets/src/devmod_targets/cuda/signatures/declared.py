"""The kernels of a binary whose source is not read.

The caller declares their types, or the binary has them: in the mangled name of a C++ kernel, or as
the types of PTX's parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from devmod import FunctionInfo, Param
from devmod.backend import DYNAMIC_SHARED_MEMORY
from devmod.errors import CompileError
from devmod_readers.nvidia import KernelEntry, ParamPlace
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring._declared import value_groups
from devmod_targets.authoring._mangled import TypeNode, parse_function
from devmod_targets.authoring._types import Reflected
from devmod_targets.cuda.signatures.types import Argument, bytes_argument, mangled_argument

#: PTX's types of numbers. Compilers write unsigned types for signed integers too. ``.b32`` may be
#: any number, ``.u64`` also a pointer.
_TYPES = {
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "u8": "int8",
    "u16": "int16",
    "u32": "int32",
    "f16": "float16",
    "f16x2": "float16x2",
    "bf16": "bfloat16",
    "bf16x2": "bfloat16x2",
    "f32": "float32",
    "f64": "float64",
}
#: The probable type of a parameter of this size, for the proposed declaration.
_PROBABLE = {8: "handle", 4: "int32", 2: "float16", 1: "bool"}
#: The most kernels of a proposed declaration.
_MAX_PROPOSED = 8


def declared_kernels(
    request: CompileRequest,
    entries: Iterable[KernelEntry],
    lowered: Mapping[str, str] | None = None,
) -> Reflected:
    """Return the kernels of a binary by name, with the types of the declared fmap.

    Parameters
    ----------
    request
        The request.
    entries
        The kernels of the binary.
    lowered
        The symbol of each name expression of a source. The other names are symbols, and types that
        are not declared are "". None: there is no source. Names are qualified C++ names, and a
        kernel that is not declared has the types that its binary contains.

    Raises
    ------
    CompileError
        The declared fmap has another number of arguments for a kernel.
    """
    expressions = {symbol: expression for expression, symbol in (lowered or {}).items()}
    declared = request.declared
    kernels: dict[str, list[tuple[str, ReflectedFunction]]] = {}
    for entry in entries:
        name = expressions.get(entry.name, entry.name)
        signature = name
        nodes = None
        if lowered is None:
            parts = parse_function(entry.name)
            if parts is not None:
                name = parts.name
                signature = parts.signature()
                nodes = parts.params
        arguments = _arguments(entry, nodes, is_source=lowered is not None)
        arguments = _with_declared(declared.get(entry.name), entry, arguments)
        types = [each.type for each in arguments]
        params = [each.param for each in arguments]
        function = ReflectedFunction(entry.name, types, params, location=request.name)
        kernels.setdefault(name, []).append((signature, with_entry(function, entry)))

    functions: Reflected = {}
    for name, overloads in kernels.items():
        if len(overloads) == 1:
            overloads = [(name, overloads[0][1])]
        functions.update(overloads)
    return functions


def with_entry(function: ReflectedFunction, entry: KernelEntry) -> ReflectedFunction:
    """Return a function with what its binary contains: the block, the limits of a launch, and the
    use of dynamic shared memory.
    """
    extra: dict[str, object] = {}
    if entry.max_threads:
        extra["max_threads"] = entry.max_threads
    if entry.cluster is not None and entry.cluster != (1, 1, 1):
        extra["cluster"] = list(entry.cluster)
    tags = []
    if entry.dynamic_shared_memory:
        tags.append(DYNAMIC_SHARED_MEMORY)
    return function.replace(
        block=entry.block,
        open_block=function.open_block and entry.block is None,
        extra=extra,
        tags=tuple(tags),
    )


def with_shared_memory(
    fmap: Mapping[str, FunctionInfo], entries: Mapping[str, KernelEntry]
) -> dict[str, FunctionInfo]:
    """Return functions with the static shared memory of their kernels in one binary, as far as it
    has the exact bytes.
    """
    functions = dict(fmap)
    for name, info in fmap.items():
        memory = entries[info.name].static_shared_memory
        if memory and info.interface is not None:
            extra = {**info.interface.extra, "workgroup_memory": memory}
            functions[name] = info.replace(interface=info.interface.replace(extra=extra))
    return functions


def without_types(functions: Reflected, entries: Mapping[str, KernelEntry]) -> str:
    """Return the symbol of a function whose types are not all known; "" if there is none."""
    for function in functions.values():
        if not all(function.types):
            return function.symbol
        if entries[function.symbol].params is None and not function.types:
            return function.symbol
    return ""


def declaration_error(
    name: str,
    symbol: str,
    functions: Reflected,
    entries: Mapping[str, KernelEntry],
) -> str:
    """Return the error for a kernel whose types are unknown, with a declaration of the kernels to
    complete.

    Parameters
    ----------
    name
        The binary, for the message.
    symbol
        The kernel.
    functions, entries
        The kernels of the binary by name, and by symbol.
    """
    declarations = []
    for key, function in list(functions.items())[:_MAX_PROPOSED]:
        places = entries[function.symbol].params or ()
        types = tuple(
            type_ or _PROBABLE.get(place.size, f"uint8x{place.size}")
            for type_, place in zip(function.types, places, strict=True)
        )
        declarations.append(f"{key!r}: devmod.FunctionInfo({function.symbol!r}, {types!r})")
    if len(functions) > _MAX_PROPOSED:
        declarations.append("…")
    own = []
    for place in entries[symbol].params or ():
        if place.type:
            own.append(f".{place.type}")
        else:
            own.append(f"{place.size} bytes")
    return (
        f"{name} does not contain the types of all arguments: the kernel {symbol!r} takes ({', '.join(own) or 'unknown parameters'}). "
        f"Declare the kernels that you call: fmap={{{', '.join(declarations)}}}. "
        "Some of these types are guesses by size: correct them first. 8 bytes are a pointer ('handle'), 'int64', 'uint64' or 'float64', "
        "4 bytes 'int32', 'uint32' or 'float32'"
    )


def _arguments(
    entry: KernelEntry, nodes: tuple[TypeNode, ...] | None, *, is_source: bool
) -> list[Argument]:
    """Return the arguments of a kernel. The type of one is "" if the binary does not contain it."""
    places = entry.params or ()
    if is_source:
        return [Argument("", Param("", "scalar")) for _ in places]
    if nodes is None or len(nodes) != len(places):
        return [_place_argument(place) for place in places]
    return [_mangled_argument(node, place) for node, place in zip(nodes, places, strict=True)]


def _place_argument(place: ParamPlace) -> Argument:
    """Return the argument by the type of a parameter in PTX."""
    if place.type == "b8" and not place.is_pointer:
        return bytes_argument(place)
    if place.is_pointer:
        return _declared("handle")
    return _declared(_TYPES.get(place.type, ""))


def _mangled_argument(node: TypeNode, place: ParamPlace) -> Argument:
    """Return the argument by its type in a mangled name, which has no sizes of structs."""
    argument = mangled_argument("", node)
    if argument.type_name and argument.type != "handle":
        return bytes_argument(place)
    if argument.size != place.size:
        return _place_argument(place)
    return argument


def _with_declared(
    info: FunctionInfo | None, entry: KernelEntry, arguments: list[Argument]
) -> list[Argument]:
    """Return the arguments with the declared types."""
    if info is None or not info.arg_types:
        return arguments
    groups = value_groups(info, [place.size for place in entry.params or ()])
    if entry.params is not None and len(groups) != len(entry.params):
        raise CompileError(
            f"the declared fmap has {len(info.arg_types)} arguments for the cuda function {entry.name!r}; its binary has "
            f"{len(entry.params)}",
            kind="cuda",
            function=entry.name,
        )
    arguments = arguments or [Argument("", Param("", "scalar"))] * len(groups)
    own = []
    for argument, group in zip(arguments, groups, strict=True):
        own += [argument] * len(group.offsets)
    results = []
    for type_, argument in zip(info.arg_types, own, strict=True):
        if argument.type != type_:
            argument = _declared(type_)
        results.append(argument)
    return results


def _declared(type_: str) -> Argument:
    if type_ == "handle":
        return Argument(type_, Param("", "buffer", "", "rw"))
    return Argument(type_, Param("", "scalar", type_))
