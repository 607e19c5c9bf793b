"""Merge reflected functions with the fmap that the caller declares, and make the payload of a
source.
"""

from __future__ import annotations

from devmod import FunctionInfo, Interface, Param
from devmod.backend import (
    DYNAMIC_SHARED_MEMORY,
    GRID_TAGS,
    Payload,
    array_bytes,
    escape,
    parse_dtype,
    tag_problem,
)
from devmod.errors import CompileError, ToolchainNotFoundError, list_names
from devmod_readers.parameters import Group, follower_numbers, group_values
from devmod_targets.authoring._request import CompileRequest
from devmod_targets.authoring._types import Functions, Reflected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod import Member, TargetSpec
    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring._source import SelfContainedSource

#: The limit on the members of structs in the interfaces of one payload, each of which may be
#: repeated for each function.
_MAX_MEMBERS = 1 << 16


def merge_declared(
    spec: TargetSpec,
    reflected: Reflected | None,
    declared: Mapping[str, FunctionInfo] | None,
) -> Functions:
    """Return the fmap of a payload.

    ``FunctionInfo.name`` of a declared function is its symbol. Its arg_types, tags and interface
    replace the reflected ones; empty fields are filled in from reflection. Functions that are not
    declared are unchanged.

    Parameters
    ----------
    spec
        The kind's spec, which defines whether a launch has a grid.
    reflected
        The reflected functions, in the order of the source; None without reflection.
    declared
        The fmap argument of `devmod.compile`, or None.

    Raises
    ------
    CompileError
        A declared function is missing from the source or contradicts it, or a type is neither
        declared nor reflected.
    """
    declared = declared or {}
    if _count_all(reflected) > _MAX_MEMBERS and reflected is not None:
        # A call checks arrays of structs by their members, and needs those of structs by value.
        reflected = {
            name: function.replace(params=map(_without_structs, function.params))
            for name, function in reflected.items()
        }
    if _count_all(reflected) > _MAX_MEMBERS:
        raise CompileError(
            f"the arguments of the {spec.kind} functions have more than {_MAX_MEMBERS} members of structs together; split the source",
            kind=spec.kind,
        )
    if reflected is None:
        return {
            name: _with_tags(spec, info, info.arg_types, info.interface)
            for name, info in declared.items()
        }
    symbols = [function.symbol for function in reflected.values()]
    by_symbol: dict[str, Functions] = {}
    for name, info in declared.items():
        if info.name not in symbols:
            known = list_names(symbols)
            raise CompileError(
                f"the declared fmap maps {name!r} to the {spec.kind} function {info.name!r}, which is missing in the source. "
                f"Functions in the source: {known}",
                kind=spec.kind,
                function=name,
            )
        by_symbol.setdefault(info.name, {})[name] = info
    merged: Functions = {}
    for name, function in reflected.items():
        undeclared = {name: FunctionInfo(function.symbol, ())}
        for key, info in by_symbol.get(function.symbol, undeclared).items():
            merged[key] = _merge_one(spec, key, info, function)
    return merged


def _count_all(reflected: Reflected | None) -> int:
    result = 0
    for function in (reflected or {}).values():
        result += sum(_count(param.members) for param in function.params)
    return result


def _without_structs(param: Param) -> Param:
    if param.kind != "buffer":
        return param
    return param.replace(members=())


def _count(members: Sequence[Member]) -> int:
    return sum(1 + _count(member.members) for member in members)


def _merge_one(
    spec: TargetSpec, name: str, info: FunctionInfo, reflected: ReflectedFunction
) -> FunctionInfo:
    types = info.arg_types or reflected.types
    reflected = _with_values(reflected, info)
    location = reflected.location
    if len(types) != len(reflected.types):
        raise CompileError(
            f"the declared fmap gives the {spec.kind} function {name!r} {len(types)} arguments; "
            f"at {location} it has {len(reflected.types)}",
            kind=spec.kind,
            function=name,
        )

    declared_params = reflected.params
    if info.interface is not None:
        declared_params = info.interface.values
    params = []
    for index, (param, declared) in enumerate(zip(reflected.params, declared_params, strict=True)):
        own_type = reflected.types[index]
        problem = _param_problem(spec, name, index, types[index], reflected, declared)
        if problem:
            raise CompileError(problem, kind=spec.kind, function=name, argument=param.name)
        if not own_type:
            param = Param(param.name, param.kind, types[index])
        params.append(param)
    interface = info.interface or Interface(
        params,
        reflected.blocks,
        reflected.block,
        reflected.extra,
        default_block=reflected.default_block,
        open_block=reflected.open_block,
        needs=reflected.needs,
        subgroup=reflected.subgroup,
    )
    info = FunctionInfo(
        info.name,
        (),
        info.launch_param_tags or reflected.tags,
        info.arg_extra_tags or reflected.extra_tags,
    )
    return _with_tags(spec, info, types, interface)


def _param_problem(
    spec: TargetSpec,
    name: str,
    index: int,
    type_name: str,
    reflected: ReflectedFunction,
    declared: Param,
) -> str:
    """Return how the declaration of an argument contradicts the source; "" if it does not."""
    param = reflected.params[index]
    own_type = reflected.types[index]
    location = reflected.location
    argument = f"argument {index + 1}"
    if param.name:
        argument += f" ({param.name!r})"
    gives = f"the declared fmap gives {argument} of the {spec.kind} function {name!r} the"
    for trait, expected, actual in (
        ("kind", declared.kind, param.kind),
        ("place", declared.at, param.at),
    ):
        if expected != actual and expected is not None and actual is not None:
            return f"{gives} {trait} {expected!r}; at {location} it is {actual!r}"
    if not type_name:
        return (
            f"the {spec.kind} function {name!r} at {location} takes {argument} by value, and its type is unknown. Define the type, or "
            "declare the function in fmap= with its arg_types"
        )
    if own_type and not _same_type(type_name, own_type):
        return f"{gives} type {type_name!r}; at {location} it is {own_type!r}"
    return ""


def argument_bytes(type_name: str) -> int:
    """Return the bytes of an argument of a CUDA or AMD kernel, by its type in arg_types; 0 for an
    unknown type.
    """
    if not type_name:
        return 0
    if type_name == "handle":
        return 8
    return array_bytes(parse_dtype(type_name))


def value_groups(info: FunctionInfo, sizes: Sequence[int]) -> list[Group]:
    """Return the groups in which the values of a declared function lie in the parameters of its
    kernel, which have these sizes.
    """
    return group_values(
        [(size, size) for size in map(argument_bytes, info.arg_types)],
        follower_numbers(info.interface),
        sizes,
    )


def _with_values(reflected: ReflectedFunction, info: FunctionInfo) -> ReflectedFunction:
    """Return a reflected function with the declared values of a `Param.pack` in the place of the
    struct that has them as members.
    """
    if info.interface is None or len(info.arg_types) == len(info.interface.params):
        return reflected
    groups = value_groups(info, [argument_bytes(each) for each in reflected.types])
    types = list(reflected.types)
    params = list(reflected.params)
    end = len(info.arg_types)
    for place, group in reversed([*enumerate(groups)]):
        start = end - len(group.offsets)
        if len(group.offsets) > 1 and group.size == argument_bytes(types[place]):
            types[place : place + 1] = info.arg_types[start:end]
            params[place : place + 1] = info.interface.values[start:end]
        end = start
    return reflected.replace(types=types, params=params)


def _same_type(declared: str, reflected: str) -> bool:
    """Return whether a call treats both types alike: they are equal, or a bool and a byte."""
    if declared == reflected:
        return True
    one = parse_dtype(declared)
    other = parse_dtype(reflected)
    return {one[0], other[0]} == {1, 6} and array_bytes(one) == array_bytes(other)


def _with_tags(
    spec: TargetSpec, info: FunctionInfo, types: Sequence[str], interface: Interface | None
) -> FunctionInfo:
    tags = info.launch_param_tags
    if spec.has_grid and not any(tag in GRID_TAGS for tag in tags):
        tags = (*GRID_TAGS, *tags)
    tags = tuple(sorted(tags, key=lambda tag: tag == DYNAMIC_SHARED_MEMORY))  # it is the last one
    if problem := tag_problem(tags):
        raise CompileError(
            f"the {spec.kind} function {info.name!r} of the declared fmap cannot be called: {problem}",
            kind=spec.kind,
            function=info.name,
        )
    return FunctionInfo(info.name, types, tags, info.arg_extra_tags, interface)


def source_payload(
    spec: TargetSpec,
    fmt: str,
    request: CompileRequest,
    source: SelfContainedSource,
    read: Callable[[], tuple[Reflected, str]],
    *,
    empty_error: str,
) -> Payload:
    """Return the payload of a source that its receiver compiles.

    Parameters
    ----------
    spec, fmt
        The target's spec, and the source's format.
    request
        The compile request. Its fmap is merged with the reflected functions. If the reader's
        library is missing, a fmap with all arg_types replaces reflection.
    source
        The self-contained source.
    read
        Returns the functions in the source by name, and the reader's name and version.
    empty_error
        The error text for a source without functions.

    Raises
    ------
    ToolchainNotFoundError
        `read` raised it, and the request's fmap is empty or incomplete.
    CompileError
        The source has no function, or a declared function contradicts it.
    """
    unvalidated = ""
    try:
        reflected, toolchain = read()
    except ToolchainNotFoundError as error:
        # Without reflection, empty fields of a declared function cannot be filled in.
        if not request.fmap or not all(info.arg_types for info in request.fmap.values()):
            raise
        fmap = merge_declared(spec, None, request.fmap)
        toolchain = ""
        unvalidated = str(error)
    else:
        if not reflected:
            raise request.error(empty_error)
        fmap = merge_declared(spec, reflected, request.fmap)
    data = source.text.encode()
    code = dict.fromkeys(fmap, data) if spec.shader_map else data
    return Payload(
        spec.kind,
        code,
        fmt,
        fmap,
        {fmt: source.text},
        source.origin(request, toolchain),
        source.files,
        unvalidated=unvalidated,
    )


class CompilerReport(UserWarning):
    """What a compiler prints on request, such as the registers of each kernel. It reports no
    problem, so ``--werror`` ignores it.
    """

    #: How the command line introduces the text.
    level = "note"


def warn_caller(
    request: CompileRequest,
    texts: Sequence[str],
    reports: Sequence[str] = (),
    *,
    doubts: Sequence[str] = (),
    frames: int = 0,
) -> None:
    """Issue a UserWarning for each text and a `CompilerReport` for each report, attributed to the
    caller of `devmod.compile`.

    Parameters
    ----------
    request
        The compile request.
    texts, reports
        The warnings and the reports.
    doubts
        The warnings about what the receiver's compiler may refuse.
    frames
        The number of frames between this one and that of the compiler.

    Raises
    ------
    CompileError
        ``--werror`` is set, and there is a warning; or ``--strict`` is set, and there is a doubt.
    """
    for option, is_set, errors in (
        ("--werror", request.warnings_as_errors, [*doubts, *texts]),
        ("--strict", request.strict, doubts),
    ):
        if errors and is_set:
            raise request.error(
                f"{option} turns this warning into an error: {errors[0]}", log="\n".join(errors)
            )
    import warnings

    for text in (*doubts, *texts):
        # Frames between this one and the caller: the compiler, and three of `devmod.compile`.
        warnings.warn(escape(text), UserWarning, stacklevel=6 + frames)
    for text in reports:
        warnings.warn(escape(text), CompilerReport, stacklevel=6 + frames)
