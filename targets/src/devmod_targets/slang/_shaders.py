"""Slang for Vulkan, WebGPU and Metal: each entry point becomes SPIR-V, WGSL or MSL of its own.

The kind's compiler reflects that text without knowing Slang. Its places and layouts are kept, since
a runtime needs those of the code; the names, the order and what a value is come from Slang's
reflection. Both must agree.
"""

from __future__ import annotations

import re
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from devmod import Block, Interface, Member, Param
from devmod.backend import array_bytes, dtype_name, find_spec, parse_dtype
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_readers.reflection import ReflectedFunction, with_members
from devmod_targets._compilers import function_name
from devmod_targets._groups import grouped
from devmod_targets.authoring import CompileRequest, Payload, merge_declared
from devmod_targets.slang._driver import Entry, translate
from devmod_targets.slang._interface import (
    ReflectedArgument,
    member_bytes,
    numbers_of,
    read_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from devmod.backend import Place

    #: A table of places, a space, and an index in it.
    _Slot = tuple[str, int, int]


class _Target(NamedTuple):
    """Slang's name of a kind's language, and the language's own name and suffix."""

    name: str
    language: str
    suffix: str


_TARGETS = {
    "vulkan": _Target("spirv", "SPIR-V", "spv"),
    "webgpu": _Target("wgsl", "WGSL", "wgsl"),
    "metal": _Target("metal", "MSL", "metal"),
}
#: The categories of Slang for the tables of Metal.
_METAL_TABLES = {"image": "shaderResource", "sampler": "samplerState"}
_SLOT = "descriptorTableSlot"
#: Slang's text for an array that it loads from a ByteAddressBuffer as one word, which neither
#: language accepts.
_ARRAY_IN_A_WORD = {
    "WGSL": re.compile(r": array<[^;\n]*> = \w+\[\(u32\("),
    "MSL": re.compile(r"\bas_type<array<"),
}
#: Slang's names of the blocks of uniform parameters.
_ENTRY_BLOCK, _GLOBAL_BLOCK = "entryPointParams", "globalParams"
_MAX_SCALARS = 4096
#: The channels of a format by the numbers of a texel.
_CHANNELS = {1: "r", 2: "rg", 3: "rgba", 4: "rgba"}


def compile(request: CompileRequest, compiler: Callable[[CompileRequest], Payload]) -> Payload:  # noqa: A001 - what it does
    """Translate a source, and compile each entry point."""
    kind = request.target.kind
    target = _TARGETS[kind]
    spec = find_spec(kind)
    assert spec is not None
    options: tuple[str, ...] = ()
    if kind == "vulkan":
        from devmod_targets.vulkan.compile import environment_of

        options = (
            "-fvk-use-entrypoint-name",
            "-profile",
            f"spirv_{environment_of(request).spirv.replace('.', '_')}",
        )
    translation = translate(
        request, target.name, options, check=lambda entry: _check_supported(request, entry)
    )
    functions: dict[str, ReflectedFunction] = {}
    payloads: dict[str, Payload] = {}
    for entry in translation.entries:
        payload = _compiled(request, compiler, target, entry, translation.rest)
        name = function_name(request, entry.name, functions)
        functions[name] = _Match(request, entry, payload).function()
        payloads[name] = payload
    fmap = merge_declared(spec, functions, request.fmap)
    by_symbol = {function.symbol: name for name, function in functions.items()}
    chosen = {
        name: payloads[name if name in payloads else by_symbol[info.name]]
        for name, info in fmap.items()
    }
    first = next(iter(payloads.values()))
    sources = grouped(
        pair for payload in payloads.values() for pair in (payload.source or {}).items()
    )
    texts = {
        key: [text if isinstance(text, str) else bytes(text).decode() for text in each]
        for key, each in sources.items()
    }
    return Payload(
        kind,
        {name: next(iter(payload.code.values())) for name, payload in chosen.items()},  # type: ignore[union-attr]
        first.fmt,
        fmap,
        {key: "\n".join(each) for key, each in texts.items()},
        translation.origin_of(first),
        translation.files,
        validator=first.validator,
        unvalidated=first.unvalidated,
    )


def _compiled(
    request: CompileRequest,
    compiler: Callable[[CompileRequest], Payload],
    target: _Target,
    entry: Entry,
    options: Sequence[str],
) -> Payload:
    """Return the payload of one entry point.

    Raises
    ------
    CompileError
        The kind's compiler refuses what Slang returned.
    """
    text = ""
    if target.suffix != "spv":
        text = entry.code.decode("utf-8", "replace")
        if _ARRAY_IN_A_WORD[target.language].search(text):
            raise request.error(
                f"the Slang function {entry.name!r} cannot be translated to {target.language}: it loads an array from a ByteAddressBuffer, "
                "for which Slang returns an invalid text: load each element",
                function=entry.name,
            )
    try:
        payload = compiler(
            CompileRequest(
                text,
                request.target,
                f"{entry.symbol}.{target.suffix}",
                stem=entry.symbol,
                language=target.language,
                options=options,
                data=entry.code if not text else b"",
                warnings_as_errors=request.warnings_as_errors,
                strict=request.strict,
                listings=request.listings,
            )
        )
    except ToolchainNotFoundError:
        raise
    except CompileError as error:
        raise request.error(
            f"the Slang function {entry.name!r} of {request.name} has no valid {target.language}: {error}",
            function=entry.name,
            log="\n".join(filter(None, (error.log, text))),
        ) from None
    if len(payload.fmap) != 1:
        raise _disagreement(request, entry, f"expected one function, got {len(payload.fmap)}")
    return payload


def _check_supported(request: CompileRequest, entry: Entry) -> None:
    """Raise CompileError for an argument that the kind's language cannot express. Slang itself
    returns invalid texts for some.
    """
    kind = request.target.kind
    language = _TARGETS[kind].language
    for argument in read_arguments(request, entry).arguments:
        types = {argument.type, *_types(argument.members)}
        why = ""
        if argument.kind != "scalar" and argument.place[0] == "uniform":
            why = (
                "in a ParameterBlock, which is an argument buffer there: use a parameter of its own"
            )
        elif kind != "vulkan" and "handle" in types:
            why = "or contains an address, which an argument cannot have there: use a StructuredBuffer or a RWStructuredBuffer"
        elif kind == "webgpu" and argument.kind == "scalar" and types & {"bool", "uint1"}:
            why = "or contains a bool, which a uniform cannot have there: use a uint"
        elif kind == "webgpu" and (
            wide := next((each for each in sorted(types) if _is_missing_in_wgsl(each)), "")
        ):
            why = f"or contains a {wide}, which it lacks"
        if why:
            name = ".".join(argument.path)
            raise request.error(
                f"the Slang function {entry.name!r} cannot be translated to {language}: its argument {name!r} is {why}",
                function=entry.name,
                argument=name,
            )


def _types(members: Sequence[Member]) -> Iterator[str]:
    for member in members:
        yield from _types(member.members) if member.members else (member.type,)


def _is_missing_in_wgsl(type_: str) -> bool:
    """Return whether WGSL has no numbers of such a type:

    it has those of 32 bits, and half floats.
    """
    return type_.partition("x")[0] in (
        "float64",
        "int64",
        "uint64",
        "int16",
        "uint16",
        "int8",
        "uint8",
    )


def _disagreement(request: CompileRequest, entry: Entry, problem: str) -> CompileError:
    return request.error(
        f"Slang's reflection of the function {entry.name!r} of {request.name} and its {_TARGETS[request.target.kind].language} disagree: "
        f"{problem}",
        function=entry.name,
    )


class _OwnBlock(NamedTuple):
    """A block of values in the code: its name, its place, its size, and its numbers; () if they are
    unknown.
    """

    name: str
    at: Place
    size: int
    numbers: Sequence[_Number]


class _Match:
    """The interface of the code, with the arguments of Slang's reflection."""

    def __init__(self, request: CompileRequest, entry: Entry, payload: Payload) -> None:
        self._request, self._entry = request, entry
        self._arguments = read_arguments(request, entry)
        (self._info,) = payload.fmap.values()
        interface = self._info.interface
        assert interface is not None  # the kind's compiler has reflected it
        self._interface: Interface = interface
        self._is_metal = request.target.kind == "metal"
        self._params: dict[_Slot, list[Param]] = {}
        self._blocks: list[_OwnBlock] = []
        self._read()
        self._bases = self._entry_bases()

    def function(self) -> ReflectedFunction:
        """Return the function with the arguments as its author wrote them."""
        blocks = [self._block(number) for number in range(len(self._arguments.blocks))]
        numbers: dict[int, int] = {}
        params: list[Param] = []
        types: list[str] = []
        for argument in self._arguments.arguments:
            if argument.kind == "scalar":
                params.append(_value(argument, numbers.setdefault(argument.block, len(numbers))))
                types.append("uint64" if argument.type == "handle" else params[-1].type)
            else:
                found = self._resource(argument)
                params += found
                types += ["handle"] * len(found)
        left = [param.name for each in self._params.values() for param in each] + [
            block.name for block in self._blocks
        ]
        if left:
            raise self._error(f"the code has {left[0]!r}, which is no parameter")
        own = self._interface
        threads = self._arguments.threads
        if (
            own.block is not None
            and threads is not None
            and own.block != threads
            and "block_constants" not in own.extra
        ):
            raise self._error(f"the code has blocks of {own.block} threads, expected {threads}")
        extra = dict(own.extra)
        if isinstance(extra.get("constants"), list):
            names = self._arguments.constants
            extra["constants"] = [
                {**each, "name": names.get(each.get("id"), each["name"])}
                for each in extra["constants"]
            ]
        return ReflectedFunction(
            self._info.name,
            types,
            params,
            own.block or threads,
            self._request.name,
            blocks=[blocks[number] for number in numbers],
            extra=extra,
            tags=self._info.launch_param_tags,
            extra_tags=self._info.arg_extra_tags,
            needs=own.needs,
            subgroup=own.subgroup,
        )

    @property
    def _has_plain_names(self) -> bool:
        """Whether the code has the names of the source. WGSL and MSL have them with numbers."""
        return str(self._request.target.kind) == "vulkan"

    # -- the code

    def _read(self) -> None:
        """Sort the parameters of the code into resources and blocks."""
        interface = self._interface
        for number, block in enumerate(interface.blocks):
            places = [
                (param, param.at)
                for param in interface.params
                if param.kind == "scalar" and isinstance(param.at, tuple)
            ]
            inside = [(param, at[1]) for param, at in places if at[0] == number]
            numbers = [
                each
                for param, offset in inside
                for each in _numbers_of(param.type, param.members, offset)
            ]
            name = block.name or next((param.name for param, _ in inside), "")
            self._blocks.append(_OwnBlock(name, block.at, block.size, numbers))
        for param in interface.params:
            if param.kind == "scalar" and isinstance(param.at, tuple):
                continue
            is_value = param.kind in ("scalar", "uniform")
            if self._is_metal and param.kind == "buffer":
                is_value = self._is_value_block(param)
            if is_value:
                size = array_bytes(parse_dtype(param.type))
                self._blocks.append(
                    _OwnBlock(param.name, param.at, size, _numbers_of(param.type, param.members, 0))
                )
            elif param.at is not None:
                self._params.setdefault(self._slot(param.kind, param.at), []).append(param)

    def _is_value_block(self, param: Param) -> bool:
        """Return whether a buffer of MSL is one of Slang's blocks of values, which it takes by a
        pointer.
        """
        if self._path(param.name) in (_ENTRY_BLOCK, _GLOBAL_BLOCK):
            return True
        slot = self._slot("buffer", param.at)
        blocks = self._arguments.blocks
        return bool([block for block in blocks if block.is_global and block.place == slot])

    def _slot(self, kind: str, at: Place) -> _Slot:
        if isinstance(at, tuple):
            return _SLOT, at[0], at[1]
        assert isinstance(at, int)
        return _METAL_TABLES.get(kind, "constantBuffer"), 0, at

    def _path(self, name: str) -> str:
        """Return a name of the code as `_plain` returns that of an argument."""
        return _plain(
            name.replace(".", "_") if self._has_plain_names else re.sub(r"_\d+$", "", name)
        )

    def _entry_bases(self) -> dict[str, int]:
        """Return the first index of the entry point's parameters in each table: the reflection
        counts them from there.

        The names of the code have the paths of the parameters, so one that is used is enough.
        """
        bases: dict[str, set[int]] = {}
        arguments = [
            each
            for each in self._arguments.arguments
            if not each.is_global and each.kind != "scalar"
        ]
        for argument in arguments:
            table, space, index = argument.place
            name = _plain(f"{_ENTRY_BLOCK}_{argument.name}")
            found = {
                slot[2] - index
                for slot, params in self._params.items()
                if slot[0] == table and self._path(params[0].name) == name
            }
            found = {base for base in found if base >= 0}
            if found and not space:
                bases[table] = bases.get(table, found) & found
        for block in self._blocks:
            if self._path(block.name) == _ENTRY_BLOCK and block.at != "push":
                table, _, index = self._slot("buffer", block.at)
                bases[table] = bases.get(table, {index}) & {index}
        for table, found in bases.items():
            if len(found) != 1:
                raise self._error(f"the parameters in the table {table} have other places")
        result = {table: found.pop() for table, found in bases.items()}
        for table in {argument.place[0] for argument in arguments} - set(result):
            result[table] = self._free(table)
        return result

    def _free(self, table: str) -> int:
        """Return the first index of a table that nothing of the code or of the file has."""
        used = [slot[2] for slot in self._params if slot[:2] == (table, 0)]
        slots = [self._slot("buffer", block.at) for block in self._blocks if block.at != "push"]
        used += [index for each, space, index in slots if (each, space) == (table, 0)]
        places = [each.place for each in self._arguments.arguments if each.is_global]
        places += [
            each.place
            for each in self._arguments.blocks
            if each.is_global and each.place is not None
        ]
        used += [place[2] for place in places if place[:2] == (table, 0)]
        return max(used, default=-1) + 1

    # -- what both have

    def _resource(self, argument: ReflectedArgument) -> list[Param]:
        """Return the parameters of a resource."""
        table, space, index = argument.place
        index += 0 if argument.is_global or space else self._bases[table]
        own = self._params.pop((table, space, index), [])
        kinds = ["image", "sampler"] if argument.kind == "combined" else [argument.kind]
        at: Place = index if self._is_metal else (space, index)
        if not own:
            return [_unused(argument, kind, at) for kind in kinds]
        prefix = "" if argument.is_global else f"{_ENTRY_BLOCK}_"
        if self._path(own[0].name) != _plain(prefix + argument.name):
            raise self._error(f"{argument.name!r} is at the place of {own[0].name!r}")
        if [param.kind for param in own] != kinds or (
            argument.kind in ("image", "combined") and own[0].type != argument.type
        ):
            raise self._error(
                f"{argument.name!r} is of kind {argument.kind} {argument.type}, and in the code of kind {own[0].kind}"
            )
        if argument.kind == "buffer":
            param = own[0].replace(name=argument.name)
            # MSL has packed vectors, which its reader sees as numbers. Those of three numbers have
            # no type of their own.
            if argument.type in ("uint32", f"{param.type}x2", f"{param.type}x4"):
                param = param.replace(type=argument.type, align=0, members=())
            elif row := _row_type(param.type, argument.members):
                return [
                    param.replace(
                        type=row,
                        access=argument.access if self._is_metal else param.access,
                        align=0,
                        members=(),
                    )
                ]
            if self._is_metal:  # MSL has no access of buffers that Slang would write
                param = param.replace(access=argument.access)
            return [
                with_members(
                    param.replace(members=()),
                    argument.members if _agree(param.members, argument.members) else (),
                )
            ]
        return [
            param.replace(name=argument.name + ("_sampler" if number else ""))
            for number, param in enumerate(own)
        ]

    def _block(self, number: int) -> Block:
        """Return a block of values, after a comparison with that of the code."""
        block = self._arguments.blocks[number]
        values = [
            each
            for each in self._arguments.arguments
            if each.kind == "scalar" and each.block == number
        ]
        size = max((each.place[2] + each.size for each in values), default=0)
        own = self._own_block(number)
        if own is None:
            at: Place = (
                "push"
                if not block.is_global and not self._is_metal and self._has_plain_names
                else None
            )
            if at is None:
                slot = self._place(number) or ("constantBuffer" if self._is_metal else _SLOT, 0, 0)
                index = (
                    slot[2]
                    if block.place is not None or not block.is_global
                    else self._free(slot[0])
                )
                at = index if self._is_metal else (slot[1], index)
            return Block(at, -(-size // 16) * 16 or 16, name=block.record)
        self._blocks.remove(own)
        if size > own.size:
            raise self._error(f"{own.name!r} has {own.size} bytes, and its values take {size}")
        for value in values:
            if own.numbers and not set(own.numbers).issuperset(
                _numbers_of(value.type, value.members, value.place[2])
            ):
                raise self._error(
                    f"{own.name!r} has other numbers than {value.name!r} at byte {value.place[2]}"
                )
        return Block(own.at, own.size, name=block.record)

    def _own_block(self, number: int) -> _OwnBlock | None:
        block = self._arguments.blocks[number]
        if block.place is None:
            name = _GLOBAL_BLOCK if block.is_global else _ENTRY_BLOCK
            return next((each for each in self._blocks if self._path(each.name) == name), None)
        if block.place[0] == "pushConstantBuffer":
            return next((each for each in self._blocks if each.at == "push"), None)
        slot = self._place(number)
        return next(
            (
                each
                for each in self._blocks
                if each.at != "push" and self._slot("buffer", each.at) == slot
            ),
            None,
        )

    def _place(self, number: int) -> _Slot | None:
        """Return the place of a constant buffer, or of the uniform parameters of an entry point."""
        block = self._arguments.blocks[number]
        if block.place is None:
            table = "constantBuffer" if self._is_metal else _SLOT
            return (
                None if block.is_global else (table, 0, self._bases.get(table, self._free(table)))
            )
        table, space, index = block.place
        return table, space, index + (0 if block.is_global or space else self._bases.get(table, 0))

    def _error(self, problem: str) -> CompileError:
        return _disagreement(self._request, self._entry, problem)


def _row_type(own: str, members: Sequence[Member]) -> str:
    """Return the type of the rows of a buffer's matrices or arrays, which are structs in WGSL and
    MSL; "" for other elements and places.

    Three numbers have the place of four. Without padding, the type is that of a number.
    """
    if len(members) != 1 or members[0].name or members[0].members:
        return ""
    code, bits, lanes = parse_dtype(members[0].type)
    row, rest = divmod(array_bytes(parse_dtype(own)), prod(members[0].shape))
    if rest or row not in (lanes * bits // 8, 4 * bits // 8 if lanes == 3 else 0):
        return ""
    return members[0].type if lanes != 3 or row * 8 == 4 * bits else dtype_name((code, bits, 1))


def _plain(name: str) -> str:
    """Return a name with single underscores inside of it alone, as Slang writes names."""
    return re.sub(r"_+", "_", name).strip("_")


def _value(argument: ReflectedArgument, number: int) -> Param:
    at = (number, argument.place[2])
    if argument.type:
        return Param(argument.name, "scalar", argument.type, argument.access, at)
    param = Param(
        argument.name,
        "scalar",
        f"uint8x{argument.size}" if argument.size > 1 else "uint8",
        at=at,
        align=4,
    )
    return with_members(param, argument.members)


def _unused(argument: ReflectedArgument, kind: str, at: Place) -> Param:
    """Return the parameter of a resource that the code does not have, since nothing uses it."""
    if kind == "sampler":
        return Param(
            argument.name if argument.kind == kind else f"{argument.name}_sampler", kind, at=at
        )
    if kind == "image":
        (texel,) = argument.members
        code, _, lanes = parse_dtype(texel.type)
        sample = ("int", "uint", "float")[min(code, 2)]
        format_ = (
            ""
            if argument.access == "r"
            else f"{_CHANNELS[lanes]}32{sample if sample != 'int' else 'sint'}"
        )
        return Param(
            argument.name, kind, argument.type, argument.access, at, format=format_, sample=sample
        )
    if argument.type:
        return Param(argument.name, kind, argument.type, argument.access, at)
    size = max(member.offset + member_bytes(member) for member in argument.members)
    return with_members(
        Param(
            argument.name, kind, f"uint8x{size}" if size > 1 else "uint8", argument.access, at, 4
        ),
        argument.members,
    )


#: The offset of a number, and its bytes.
_Number = tuple[int, int]


def _agree(own: Sequence[Member], members: Sequence[Member]) -> bool:
    """Return whether the numbers of a struct are where the code has numbers of that size."""
    return not own or set(_numbers_of("", own, 0)).issuperset(_numbers_of("", members, 0))


def _numbers_of(type_: str, members: Sequence[Member], offset: int) -> list[_Number]:
    """Return the numbers of a value; [] for bytes, and for too many.

    A bool of a block has 32 bits.
    """
    code, bits, _ = parse_dtype(type_) if type_ else (0, 0, 0)
    if not members and type_ and (code, bits) != (1, 8):
        members = (Member("", type_),)
    numbers = [*islice(numbers_of(members, offset, 4), _MAX_SCALARS + 1)]
    return numbers if len(numbers) <= _MAX_SCALARS else []
