"""Slang for Vulkan, WebGPU and Metal: each entry point becomes SPIR-V, WGSL or MSL of its own.

The kind's compiler reflects that text without knowing Slang. Its places and layouts are kept, since
a runtime needs those of the code; the names, the order and what a value is come from Slang's
reflection. Both must agree.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from devmod import Block, Member, Param
from devmod.backend import array_bytes, dtype_name, parse_dtype
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_readers.c_numbers import bytes_type
from devmod_readers.reflection import ReflectedFunction, with_members
from devmod_targets._compilers import function_name
from devmod_targets.authoring import CompileRequest, Payload, merge_declared
from devmod_targets.slang._driver import Entry, translate
from devmod_targets.slang._interface import (
    ReflectedArgument,
    Slot,
    ValueBlock,
    member_bytes,
    numbers_of,
    read_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from devmod.backend import Place
    from devmod_targets._compilers import Compiler

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
_ENTRY_BLOCK = "entryPointParams"
_GLOBAL_BLOCK = "globalParams"
_MAX_SCALARS = 4096
#: The types of samples by the codes of numbers, each with its name in a format.
_SAMPLES = (("int", "sint"), ("uint", "uint"), ("float", "float"))
#: The types of numbers that WGSL lacks: it has those of 32 bits, and half floats.
_MISSING_IN_WGSL = ("float64", "int64", "uint64", "int16", "uint16", "int8", "uint8")
#: The channels of a format by the numbers of a texel.
_CHANNELS = {1: "r", 2: "rg", 3: "rgba", 4: "rgba"}


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


def compile(request: CompileRequest, compiler: Compiler) -> Payload:  # noqa: A001 - what it does
    """Translate a source, and compile each entry point."""
    kind = request.target.kind
    target = _TARGETS[kind]
    options: tuple[str, ...] = ()
    if kind == "vulkan":
        from devmod_targets.vulkan.compile import environment_of

        version = environment_of(request).spirv.replace(".", "_")
        options = ("-fvk-use-entrypoint-name", "-profile", f"spirv_{version}")
    translation = translate(
        request, target.name, options, check=lambda entry: _check_supported(request, entry)
    )
    functions: dict[str, ReflectedFunction] = {}
    payloads = {}
    for entry in translation.entries:
        payload = _compiled(request, compiler, target, entry, translation.rest)
        name = function_name(request, entry.name, functions)
        functions[name] = _Match(request, entry, payload).function()
        payloads[name] = payload
    fmap = merge_declared(request.spec, functions, request.fmap)
    by_symbol = {functions[name].symbol: payload for name, payload in payloads.items()}
    code = {}
    for name, info in fmap.items():
        payload = payloads.get(name) or by_symbol[info.name]
        code[name] = next(iter(payload.code.values()))  # type: ignore[union-attr]
    texts: dict[str, list[str]] = {}
    for payload in payloads.values():
        for key, text in (payload.source or {}).items():
            if not isinstance(text, str):
                text = bytes(text).decode()
            texts.setdefault(key, []).append(text)
    first = next(iter(payloads.values()))
    return Payload(
        kind,
        code,
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
    compiler: Compiler,
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
    data = entry.code
    if target.suffix != "spv":
        text = entry.code.decode("utf-8", "replace")
        data = b""
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
                data=data,
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
        why = _why_unsupported(kind, argument)
        if why:
            name = ".".join(argument.path)
            raise request.error(
                f"the Slang function {entry.name!r} cannot be translated to {language}: its argument {name!r} is {why}",
                function=entry.name,
                argument=name,
            )


def _why_unsupported(kind: str, argument: ReflectedArgument) -> str:
    """Return what the language of a kind lacks for an argument; "" if it can express it."""
    types = {argument.type, *_types(argument.members)}
    if argument.kind != "scalar" and argument.place[0] == "uniform":
        return "in a ParameterBlock, which is an argument buffer there: use a parameter of its own"
    if kind != "vulkan" and "handle" in types:
        return "or contains an address, which an argument cannot have there: use a StructuredBuffer or a RWStructuredBuffer"
    if kind != "webgpu":
        return ""
    if argument.kind == "scalar" and types & {"bool", "uint1"}:
        return "or contains a bool, which a uniform cannot have there: use a uint"
    for type_ in sorted(types):
        if type_.partition("x")[0] in _MISSING_IN_WGSL:
            return f"or contains a {type_}, which it lacks"
    return ""


def _types(members: Sequence[Member]) -> Iterator[str]:
    for member in members:
        if member.members:
            yield from _types(member.members)
        else:
            yield member.type


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
        self._request = request
        self._entry = entry
        self._arguments = read_arguments(request, entry)
        (self._info,) = payload.fmap.values()
        interface = self._info.interface
        assert interface is not None  # the kind's compiler has reflected it
        self._interface = interface
        self._is_metal = request.target.kind == "metal"
        self._params: dict[Slot, list[Param]] = {}
        self._blocks: list[_OwnBlock] = []
        self._read()
        self._bases = self._entry_bases()

    def function(self) -> ReflectedFunction:
        """Return the function with the arguments as its author wrote them."""
        blocks = [self._block(number) for number in range(len(self._arguments.blocks))]
        #: The blocks that arguments use, with their new numbers.
        numbers: dict[int, int] = {}
        params = []
        types = []
        for argument in self._arguments.arguments:
            if argument.kind != "scalar":
                found = self._resource(argument)
                params += found
                types += ["handle"] * len(found)
                continue
            param = _value(argument, numbers.setdefault(argument.block, len(numbers)))
            params.append(param)
            if argument.type == "handle":
                types.append("uint64")
            else:
                types.append(param.type)
        self._check_rest()
        own = self._interface
        return ReflectedFunction(
            self._info.name,
            types,
            params,
            own.block or self._arguments.threads,
            self._request.name,
            blocks=[blocks[number] for number in numbers],
            extra=self._extra(),
            tags=self._info.launch_param_tags,
            extra_tags=self._info.arg_extra_tags,
            needs=own.needs,
            subgroup=own.subgroup,
        )

    def _check_rest(self) -> None:
        """Raise CompileError if the code has parameters that no argument is, or other threads."""
        left: list[Param | _OwnBlock] = [*chain.from_iterable(self._params.values()), *self._blocks]
        if left:
            raise self._error(f"the code has {left[0].name!r}, which is no parameter")
        own = self._interface
        threads = self._arguments.threads
        if own.block is None or threads is None or "block_constants" in own.extra:
            return
        if own.block != threads:
            raise self._error(f"the code has blocks of {own.block} threads, expected {threads}")

    def _extra(self) -> dict[str, Any]:
        """Return the extra of the code, with the names of constants in the source."""
        extra = dict(self._interface.extra)
        constants = extra.get("constants")
        if isinstance(constants, list):
            names = self._arguments.constants
            extra["constants"] = [
                {**each, "name": names.get(each.get("id"), each["name"])} for each in constants
            ]
        return extra

    @property
    def _has_plain_names(self) -> bool:
        """Whether the code has the names of the source. WGSL and MSL have them with numbers."""
        return str(self._request.target.kind) == "vulkan"

    # -- the code

    def _read(self) -> None:
        """Sort the parameters of the code into resources and blocks."""
        values: dict[int, list[Param]] = {}
        others = []
        for param in self._interface.params:
            if param.kind == "scalar" and isinstance(param.at, tuple):
                values.setdefault(param.at[0], []).append(param)
            else:
                others.append(param)

        for number, block in enumerate(self._interface.blocks):
            name = block.name
            numbers = []
            for param in values.get(number, ()):
                assert isinstance(param.at, tuple)
                name = name or param.name
                numbers += _numbers_of(param.type, param.members, param.at[1])
            self._blocks.append(_OwnBlock(name, block.at, block.size, numbers))

        for param in others:
            is_value = param.kind in ("scalar", "uniform")
            if self._is_metal and param.kind == "buffer":
                is_value = self._is_value_block(param)
            if is_value:
                size = array_bytes(parse_dtype(param.type))
                numbers = _numbers_of(param.type, param.members, 0)
                self._blocks.append(_OwnBlock(param.name, param.at, size, numbers))
            elif param.at is not None:
                self._params.setdefault(self._slot(param.kind, param.at), []).append(param)

    def _is_value_block(self, param: Param) -> bool:
        """Return whether a buffer of MSL is one of Slang's blocks of values, which it takes by a
        pointer.
        """
        if self._path(param.name) in (_ENTRY_BLOCK, _GLOBAL_BLOCK):
            return True
        slot = self._slot("buffer", param.at)
        return any(block.is_global and block.place == slot for block in self._arguments.blocks)

    def _slot(self, kind: str, at: Place) -> Slot:
        if isinstance(at, tuple):
            return _SLOT, at[0], at[1]
        assert isinstance(at, int)
        return _METAL_TABLES.get(kind, "constantBuffer"), 0, at

    def _path(self, name: str) -> str:
        """Return a name of the code as `_plain` returns that of an argument."""
        if self._has_plain_names:
            return _plain(name.replace(".", "_"))
        return _plain(re.sub(r"_\d+$", "", name))

    def _entry_bases(self) -> dict[str, int]:
        """Return the first index of the entry point's parameters in each table: the reflection
        counts them from there.

        The names of the code have the paths of the parameters, so one that is used is enough.
        """
        bases: dict[str, set[int]] = {}
        tables = set()
        for argument in self._arguments.arguments:
            if argument.is_global or argument.kind == "scalar":
                continue
            table, space, _ = argument.place
            tables.add(table)
            found = self._possible_bases(argument)
            if found and not space:
                bases[table] = bases.get(table, found) & found
        for block in self._blocks:
            if self._path(block.name) == _ENTRY_BLOCK and block.at != "push":
                table, _, index = self._slot("buffer", block.at)
                bases[table] = bases.get(table, {index}) & {index}

        result = {}
        for table, found in bases.items():
            if len(found) != 1:
                raise self._error(f"the parameters in the table {table} have other places")
            (result[table],) = found
        for table in tables - set(result):
            result[table] = self._free(table)
        return result

    def _possible_bases(self, argument: ReflectedArgument) -> set[int]:
        """Return the first indices of a table with which the place of an argument would be that of
        a parameter of the code with its name.
        """
        table, _, index = argument.place
        name = _plain(f"{_ENTRY_BLOCK}_{argument.name}")
        found = set()
        for slot, params in self._params.items():
            if slot[0] == table and slot[2] >= index and self._path(params[0].name) == name:
                found.add(slot[2] - index)
        return found

    def _free(self, table: str) -> int:
        """Return the first index of a table that nothing of the code or of the file has."""
        slots = list(self._params)
        for own in self._blocks:
            if own.at != "push":
                slots.append(self._slot("buffer", own.at))
        for argument in self._arguments.arguments:
            if argument.is_global:
                slots.append(argument.place)
        for block in self._arguments.blocks:
            if block.is_global and block.place is not None:
                slots.append(block.place)
        used = [slot[2] for slot in slots if slot[:2] == (table, 0)]
        return max(used, default=-1) + 1

    # -- what both have

    def _resource(self, argument: ReflectedArgument) -> list[Param]:
        """Return the parameters of a resource."""
        table, space, index = argument.place
        prefix = ""
        if not argument.is_global:
            prefix = f"{_ENTRY_BLOCK}_"
            if not space:
                index += self._bases[table]
        kinds = [argument.kind]
        if argument.kind == "combined":
            kinds = ["image", "sampler"]
        own = self._params.pop((table, space, index), [])
        if not own:
            return [_unused(argument, kind, self._at(space, index)) for kind in kinds]

        if self._path(own[0].name) != _plain(prefix + argument.name):
            raise self._error(f"{argument.name!r} is at the place of {own[0].name!r}")
        is_image = argument.kind in ("image", "combined")
        if [param.kind for param in own] != kinds or (is_image and own[0].type != argument.type):
            raise self._error(
                f"{argument.name!r} is of kind {argument.kind} {argument.type}, and in the code of kind {own[0].kind}"
            )
        if argument.kind == "buffer":
            return [self._buffer(argument, own[0].replace(name=argument.name))]
        params = [own[0].replace(name=argument.name)]
        for sampler in own[1:]:
            params.append(sampler.replace(name=f"{argument.name}_sampler"))
        return params

    def _buffer(self, argument: ReflectedArgument, param: Param) -> Param:
        """Return a buffer of the code with the elements of the source."""
        if self._is_metal:  # MSL has no access of buffers that Slang would write
            param = param.replace(access=argument.access)
        # MSL has packed vectors, which its reader sees as numbers. Those of three numbers have no
        # type of their own.
        if argument.type in ("uint32", f"{param.type}x2", f"{param.type}x4"):
            return param.replace(type=argument.type, align=0, members=())
        row = _row_type(param.type, argument.members)
        if row:
            return param.replace(type=row, align=0, members=())
        if _agree(param.members, argument.members):
            return with_members(param.replace(members=()), argument.members)
        return param.replace(members=())

    def _at(self, space: int, index: int) -> Place:
        """Return a place as a parameter or a block has it."""
        return index if self._is_metal else (space, index)

    def _block(self, number: int) -> Block:
        """Return a block of values, after a comparison with that of the code."""
        block = self._arguments.blocks[number]
        values = [
            each
            for each in self._arguments.arguments
            if each.kind == "scalar" and each.block == number
        ]
        size = max((each.place[2] + each.size for each in values), default=0)
        own = self._own_block(block)
        if own is None:
            # Whole groups of 16 bytes, and at least one.
            whole = max(-(-size // 16), 1) * 16
            return Block(self._unused_place(block), whole, name=block.record)

        self._blocks.remove(own)
        if size > own.size:
            raise self._error(f"{own.name!r} has {own.size} bytes, and its values take {size}")
        known = set(own.numbers)
        for value in values:
            numbers = _numbers_of(value.type, value.members, value.place[2])
            if known and not known.issuperset(numbers):
                raise self._error(
                    f"{own.name!r} has other numbers than {value.name!r} at byte {value.place[2]}"
                )
        return Block(own.at, own.size, name=block.record)

    def _unused_place(self, block: ValueBlock) -> Place:
        """Return the place of a block that the code does not have, since nothing uses it."""
        if self._has_plain_names and not block.is_global:
            return "push"
        slot = self._place(block)
        if slot is None:
            return self._at(0, self._free(self._table))
        return self._at(slot[1], slot[2])

    def _own_block(self, block: ValueBlock) -> _OwnBlock | None:
        """Return the block of the code; None if it has none."""
        name = _ENTRY_BLOCK
        if block.is_global:
            name = _GLOBAL_BLOCK
        slot = self._place(block)
        for own in self._blocks:
            if block.place is None:
                is_same = self._path(own.name) == name
            elif block.place[0] == "pushConstantBuffer":
                is_same = own.at == "push"
            else:
                is_same = own.at != "push" and self._slot("buffer", own.at) == slot
            if is_same:
                return own
        return None

    @property
    def _table(self) -> str:
        """The table of blocks."""
        return "constantBuffer" if self._is_metal else _SLOT

    def _place(self, block: ValueBlock) -> Slot | None:
        """Return the place of a constant buffer, or of the uniform parameters of an entry point;
        None for the uniform parameters of the file, which can have any.
        """
        if block.place is not None:
            table, space, index = block.place
            if not block.is_global and not space:
                index += self._bases.get(table, 0)
            return table, space, index
        if block.is_global:
            return None
        table = self._table
        return table, 0, self._bases.get(table, self._free(table))

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
    if rest:
        return ""
    if lanes == 3 and row == 3 * bits // 8:
        return dtype_name((code, bits, 1))
    padded = 4 if lanes == 3 else lanes
    if row == padded * bits // 8:
        return members[0].type
    return ""


def _plain(name: str) -> str:
    """Return a name with single underscores inside of it alone, as Slang writes names."""
    return re.sub(r"_+", "_", name).strip("_")


def _value(argument: ReflectedArgument, number: int) -> Param:
    at = (number, argument.place[2])
    if argument.type:
        return Param(argument.name, "scalar", argument.type, argument.access, at)
    param = Param(argument.name, "scalar", bytes_type(argument.size), at=at, align=4)
    return with_members(param, argument.members)


def _unused(argument: ReflectedArgument, kind: str, at: Place) -> Param:
    """Return the parameter of a resource that the code does not have, since nothing uses it."""
    name = argument.name
    access = argument.access
    if kind == "sampler":
        if argument.kind == "combined":
            name = f"{name}_sampler"
        return Param(name, kind, at=at)
    if kind == "image":
        (texel,) = argument.members
        code, _, lanes = parse_dtype(texel.type)
        sample, suffix = _SAMPLES[min(code, 2)]
        format_ = ""
        if access != "r":
            format_ = f"{_CHANNELS[lanes]}32{suffix}"
        return Param(name, kind, argument.type, access, at, format=format_, sample=sample)
    if argument.type:
        return Param(name, kind, argument.type, access, at)
    size = max(member.offset + member_bytes(member) for member in argument.members)
    param = Param(name, kind, bytes_type(size), access, at, 4)
    return with_members(param, argument.members)


#: The offset of a number, and its bytes.
_Number = tuple[int, int]


def _agree(own: Sequence[Member], members: Sequence[Member]) -> bool:
    """Return whether the numbers of a struct are where the code has numbers of that size."""
    return not own or set(_numbers_of("", own, 0)).issuperset(_numbers_of("", members, 0))


def _numbers_of(type_: str, members: Sequence[Member], offset: int) -> list[_Number]:
    """Return the numbers of a value; [] for bytes, and for too many.

    A bool of a block has 32 bits.
    """
    if type_:
        code, bits, _ = parse_dtype(type_)
        if not members and (code, bits) != (1, 8):
            members = (Member("", type_),)
    numbers = list(islice(numbers_of(members, offset, 4), _MAX_SCALARS + 1))
    if len(numbers) > _MAX_SCALARS:
        return []
    return numbers
