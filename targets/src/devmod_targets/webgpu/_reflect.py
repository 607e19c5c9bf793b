"""From a WGSL text to its compute entries: what each takes, its overrides and its workgroup."""

from __future__ import annotations

from devmod._info import Param
from devmod._launch.constants import Constant
from devmod.errors import CompileError
from devmod.targets._declared import Found
from devmod.targets._shader import Member, Resource, Shader, found_shader
from devmod_targets.webgpu import _types
from devmod_targets.webgpu._parse import parse
from devmod_targets.webgpu._tokens import Source
from devmod_targets.webgpu._types import Type, Types
from devmod_targets.webgpu._values import Unknown, Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from devmod_targets.webgpu._parse import Declaration, Module

#: The extensions that a device has to be opened for, and WebGPU's names of them.
FEATURES = {"f16": "shader-f16", "subgroups": "subgroups", "primitive_index": "primitive-index", "clip_distances": "clip-distances"}
_CONSTANT_TYPES = {"bool": "bool", "i32": "int32", "u32": "uint32", "f32": "float32", "f16": "float16"}
_SPACES = ("storage", "uniform", "private", "workgroup", "")
_LARGEST_STRUCT = 0xFFFF


def read(text: str, name: str, constants: Mapping[str, Any] | None = None) -> dict[str, Found]:
    """The compute entries of a WGSL text by name, in its order.

    Parameters
    ----------
    text, name
        The text, and what messages call it.
    constants
        Values for its overrides, by name: what its workgroups are with them.

    Raises
    ------
    CompileError
        It is no WGSL as far as this reader sees, or one of the entries cannot be called; the message has line and column.
    """
    return _read(text, name, constants)[0]


def survey(text: str, name: str) -> tuple[dict[str, Found], str, str]:
    """The compute entries, as `read` gives them, a sentence about names that nobody has, and one about what naga does otherwise.

    A sentence is "" where there is nothing to say.

    Raises
    ------
    CompileError
        As `read`.
    """
    from devmod_targets.webgpu._names import unknown

    found, reader = _read(text, name, None)
    misplaced = reader.misplaced
    if reader.fatal is not None:
        misplaced = f"{reader.module.source.where(reader.fatal[0])}: {reader.fatal[1]}"
    return found, unknown(reader.module), misplaced


def check_matrices(text: str, name: str) -> None:
    """Refuse a uniform on whose matrices naga ends the process; what is no WGSL is left to it.

    Raises
    ------
    CompileError
        There is one.
    """
    if "uniform" not in text or not any(f"mat{columns}x2" in text for columns in "234"):
        return
    try:
        _, reader = _read(text, name, None)
    except CompileError:
        return
    if reader.fatal is not None:
        raise reader.module.source.wrong(*reader.fatal)


def _read(text: str, name: str, constants: Mapping[str, Any] | None) -> tuple[dict[str, Found], _Reader]:
    source = Source(text, name)
    try:
        reader = _Reader(parse(source), constants)
        return reader.entries(), reader
    except RecursionError:
        raise source.wrong(0, "its declarations stand deeper in each other than this Python can follow") from None


class _Reader:
    def __init__(self, module: Module, constants: Mapping[str, Any] | None) -> None:
        self.module = self._module = module
        #: A sentence about memory that naga lays out otherwise.
        self.misplaced = ""
        #: What naga would end the process on.
        self.fatal: tuple[int, str] | None = None
        self._source = module.source
        self._values = Values(module, constants)
        self._types = Types(module, self._values)

    def entries(self) -> dict[str, Found]:
        self._check_extensions()
        for declared in self._module.declared.values():
            self._check(declared)
        return {
            name: self._entry(each) for name, each in self._module.declared.items() if each.kind == "fn" and "compute" in each.attributes
        }

    def _check_extensions(self) -> None:
        declared = self._module.declared
        if "f16" not in self._module.enabled:
            for each in declared.values():
                for name, at in each.uses.items():
                    if name in _types.HALVES and name not in declared:
                        raise self._source.wrong(at, f"{name} needs the extension f16; write 'enable f16;' before all declarations")
        for each in declared.values():
            for name in ("i64", "u64", "f64"):
                if name in each.uses and name not in declared:
                    self._types.of(("name", name, None, each.uses[name]))

    def _check(self, declared: Declaration) -> None:
        """The types that a declaration names are types; a variable lies where it can."""
        if declared.kind in ("alias", "struct"):
            self._types.of(("name", declared.name, None, declared.at))
        elif declared.kind == "fn":
            for parameter in declared.members:
                assert parameter.type is not None
                self._types.of(parameter.type)
            if declared.type is not None:
                self._types.of(declared.type)
        elif declared.type is not None:
            of = self._types.of(declared.type)
            if declared.kind == "var":
                self._check_variable(declared, of)
            elif declared.kind == "override" and of.name not in _CONSTANT_TYPES:
                raise self._source.wrong(declared.at, f"an override is a bool or one number, and {declared.name!r} is {of.name}")
        elif declared.kind == "override" and declared.value is None:
            raise self._source.wrong(declared.at, f"the override {declared.name!r} has neither a type nor a value")
        elif declared.kind == "var" and declared.value is None:
            raise self._source.wrong(declared.at, f"the variable {declared.name!r} has neither a type nor a value")

    def _check_variable(self, declared: Declaration, of: Type) -> None:
        name, at = declared.name, declared.at
        space = declared.words[0] if declared.words else ""
        if space not in _SPACES:
            raise self._source.wrong(at, f"the address space {space!r} of {name!r} is not one that a webgpu function can be called with")
        if space != "storage" and len(declared.words) > 1:
            raise self._source.wrong(at, f"the variable {name!r} has an access mode, which only the address space storage takes")
        if any(word not in ("read", "read_write") for word in declared.words[1:]) or len(declared.words) > 2:
            raise self._source.wrong(at, f"the access mode of {name!r} is {declared.words[1]!r}; for storage it is read or read_write")
        outside = space in ("storage", "uniform") or of.kind in (_types.IMAGE, _types.SAMPLER)
        if not space and not outside:
            raise self._source.wrong(at, f"the variable {name!r} has no address space, as in var<storage, read_write> or var<private>")
        for attribute in ("group", "binding"):
            if outside and attribute not in declared.attributes:
                raise self._source.wrong(at, f"the variable {name!r} has no @{attribute}(…), which tells where it is bound")
        if space in ("storage", "uniform"):
            if not of.shareable:
                inside = _unshareable(of)
                wanted = "; take a u32" if inside == "bool" else ""
                raise self._source.wrong(at, f"the variable {name!r} holds {inside}, which has no form in {space} memory{wanted}")
            if _hangs(of):
                raise self._source.wrong(
                    at, f"the array {name!r} has a length that hangs on an override, which only workgroup memory may have"
                )
            if space == "uniform":
                self._check_uniform(declared, of)
                self._check_matrices(declared, of)
            self.misplaced = self.misplaced or self._misplaced(of)

    def _check_matrices(self, declared: Declaration, of: Type) -> None:
        # naga 29 makes other types of these for SPIR-V, and forgets those of a struct that lies in a struct.
        for outer, _, _ in _parts(of, 0, None):
            for _, inner, _ in outer.members:
                if self.fatal is None and inner.kind == _types.STRUCT and any(_of_two_rows(part) for part, _, _ in _parts(inner, 0, None)):
                    self.fatal = (
                        declared.at,
                        f"the uniform {declared.name!r} holds a matrix of two rows in {inner.name}, which lies in {outer.name}; naga, the "
                        "compiler of wgpu and Firefox, ends the process on that. Make it a storage variable, or the columns vectors",
                    )

    def _misplaced(self, of: Type) -> str:
        for part, _, _ in _parts(of, 0, None):
            if part.misplaced is not None:
                member, kind = part.misplaced
                return (
                    f"the struct {part.name!r} at {self._source.where(member.at)} has the member {member.name!r} of {kind.name}, which "
                    f"an @align inside aligns to {kind.align} bytes; naga, the compiler of wgpu and Firefox, does not heed that here, and "
                    f"lays the struct out otherwise. Write @align({kind.align}) before the member too"
                )
        return ""

    def _check_uniform(self, declared: Declaration, of: Type) -> None:
        name, at = declared.name, declared.at
        if of.unsized:
            raise self._source.wrong(at, f"the uniform {name!r} has an array without a length; make it a storage variable")
        for part, offset, behind in _parts(of, 0, None):
            if part.kind == _types.ATOMIC:
                raise self._source.wrong(at, f"the uniform {name!r} holds {part.name}; make it a storage variable")
            if part.kind == _types.ARRAY and part.element is not None and part.element.stride % 16:
                raise self._source.wrong(
                    at,
                    f"the uniform {name!r} holds {part.name}, whose elements lie {part.element.stride} bytes apart: in a uniform "
                    "it must be a multiple of 16. Take vectors of four, or a storage variable",
                )
            if part.kind in (_types.STRUCT, _types.ARRAY) and offset % 16:
                raise self._source.wrong(at, f"the uniform {name!r} holds {part.name} at byte {offset}, which must be a multiple of 16")
            if behind is not None and behind % 16:
                raise self._source.wrong(
                    at, f"the uniform {name!r} has a member right behind {part.name}; at least to a multiple of 16 bytes must be free"
                )

    # -- one entry

    def _entry(self, declared: Declaration) -> Found:
        where = self._source.where(declared.at)
        used = self._used(declared)
        constants = self._constants(used)
        block, sources = self._block(declared, [each.name for each in constants])
        resources, least = self._resources(declared, used)
        shader = Shader(declared.name, resources, constants=constants, block=block, block_constants=sources, where=where)
        found = found_shader("webgpu", shader)
        params = [_with_least(param, least) for param in found.params]
        extra = dict(found.extra)
        memory = self._workgroup_memory(used)
        if memory:
            extra["workgroup_memory"] = memory
        features = [FEATURES[name] for name in self._module.enabled if name in FEATURES]
        if features:
            extra["features"] = features
        return Found(found.symbol, found.types, params, found.block, found.where, blocks=found.blocks, extra=extra)

    def _workgroup_memory(self, used: list[Declaration]) -> int:
        """The bytes of workgroup memory that an entry takes, as WebGPU counts them; what hangs on unknown overrides not counted."""
        types = [self._types.of(each.type) for each in used if each.words[:1] == ["workgroup"] and each.type is not None]
        return sum(-(-of.size // 16) * 16 for of in types)

    def _used(self, entry: Declaration) -> list[Declaration]:
        """All that an entry uses, itself and through others, in the order of the text."""
        seen = {entry.name}
        waiting = [entry]
        while waiting:
            for name in waiting.pop().uses:
                if name not in seen and name in self._module.declared:
                    seen.add(name)
                    waiting.append(self._module.declared[name])
        return [each for name, each in self._module.declared.items() if name in seen]

    def _constants(self, used: list[Declaration]) -> list[Constant]:
        made = []
        numbers: dict[int, str] = {}
        for each in used:
            if each.kind != "override":
                continue
            number = self._types.number(each, "id", 0) if "id" in each.attributes else None
            if number is not None:
                if number > 0xFFFF:
                    raise self._source.wrong(each.at, f"@id of {each.name!r} is {number}; the most is 65535")
                if number in numbers:
                    raise self._source.wrong(each.at, f"the overrides {numbers[number]!r} and {each.name!r} have one @id, {number}")
                numbers[number] = each.name
            kind = _CONSTANT_TYPES.get(self._values.type_of(each), "")
            default = None
            if each.value is not None:
                try:
                    default = self._values.of(each.name, each.at)[1]
                except Unknown:
                    # It has one that is not known here, or that hangs on one that must be set: the device works it out.
                    continue
            if kind:
                made.append(Constant(each.name, kind, number, default))
        return made

    def _block(self, entry: Declaration, constants: list[str]) -> tuple[tuple[int, int, int] | None, list[int | list[int]]]:
        given = entry.attributes.get("workgroup_size")
        if not given:
            raise self._source.wrong(entry.at, f"the compute entry {entry.name!r} has no @workgroup_size(…)")
        if len(given) > 3:
            raise self._source.wrong(entry.at, f"the @workgroup_size of {entry.name!r} has {len(given)} numbers; it is up to three")
        sizes: list[int] = []
        sources: list[int | list[int]] = []
        known = True
        for each in given:
            self._values.touched = set()
            try:
                kind, size = self._values.evaluate(each)
            except Unknown:
                known, kind, size = False, "u32", 1
            if kind not in ("int", "i32", "u32") or not 1 <= size < 2**31:
                raise self._source.wrong(entry.at, f"the @workgroup_size of {entry.name!r} has {size!r}; it takes whole numbers from 1 up")
            touched = sorted(constants.index(name) for name in self._values.touched if name in constants)
            direct = each[0] == "name" and len(touched) == 1 and constants[touched[0]] == each[1]
            sizes.append(size)
            sources.append((touched[0] if direct else touched) if touched else -1)
        x, y, z = sizes + [1] * (3 - len(sizes))
        return (x, y, z) if known else None, sources + [-1] * (3 - len(sources))

    def _resources(self, entry: Declaration, used: list[Declaration]) -> tuple[list[Resource], dict[tuple[int, int], int]]:
        """What an entry has bound, and how many bytes each takes at least."""
        made: list[Resource] = []
        least: dict[tuple[int, int], int] = {}
        names: dict[tuple[int, int], str] = {}
        for each in used:
            if each.kind != "var" or "binding" not in each.attributes or each.type is None:
                continue
            at = (self._types.number(each, "group", 0), self._types.number(each, "binding", 0))
            if at in names:
                raise CompileError(
                    f"the webgpu function {entry.name!r} at {self._source.where(entry.at)} uses two variables at @group({at[0]}) "
                    f"@binding({at[1]}), {names[at]!r} and {each.name!r}; give one of them another binding",
                    kind="webgpu",
                    function=entry.name,
                    argument=each.name,
                )
            names[at] = each.name
            of = self._types.of(each.type)
            made.append(_resource(each, of, at))
            least[at] = _least(of)
        return made, least


def _resource(declared: Declaration, of: Type, at: tuple[int, int]) -> Resource:
    name = declared.name
    if of.kind == _types.IMAGE:
        return Resource(at, name, "image", access=of.access)
    if of.kind == _types.SAMPLER:
        return Resource(at, name, "sampler")
    if declared.words[0] == "uniform":
        listed = [(member.name, part, offset) for member, part, offset in of.members] if of.kind == _types.STRUCT else [(name, of, 0)]
        members = [Member(called, _number_type(part), offset, part.size, part.align) for called, part, offset in listed]
        if of.kind == _types.ARRAY:
            members = []
        return Resource(at, name, "uniform", size=of.size, align=of.align, members=members)
    access = "rw" if declared.words[1:] == ["read_write"] else "r"
    element, align = _element(of)
    return Resource(at, name, "buffer", element, access, align=align)


def _number_type(of: Type) -> str:
    """The type of a scalar or vector; "" for all else."""
    if of.kind not in (_types.SCALAR, _types.VECTOR):
        return ""
    return of.dtype if of.lanes == 1 else f"{of.dtype}x{of.lanes}"


def _element(of: Type) -> tuple[str, int]:
    """The element type of a buffer that holds this, and the alignment where that is a struct."""
    while of.kind == _types.ARRAY and of.element is not None:
        of = of.element
    if of.unsized:
        return of.dtype, 0
    if of.kind == _types.STRUCT:
        return (f"uint8x{of.stride}", of.align) if 1 < of.stride <= _LARGEST_STRUCT else ("", 0)
    return of.dtype if of.lanes == 1 else f"{of.dtype}x{of.lanes}", 0


def _least(of: Type) -> int:
    """The bytes that a buffer must have for this: WebGPU's minimum binding size."""
    if of.kind == _types.ARRAY:
        assert of.element is not None
        return of.size or of.element.stride
    if of.unsized and of.members:
        _, last, offset = of.members[-1]
        return -(-(offset + _least(last)) // of.align) * of.align
    return of.size


def _with_least(param: Param, least: Mapping[tuple[int, int], int]) -> Param:
    """The param with the least size of its buffer, where that is more than the four bytes that every buffer has."""
    size = least.get(param.at, 0) if param.kind == "buffer" and isinstance(param.at, tuple) else 0
    if size <= 4:
        return param
    return Param(param.name, param.kind, param.type, param.access, param.at, param.align, {**param.extra, "least": size})


def _parts(of: Type, offset: int, behind: int | None) -> Iterator[tuple[Type, int, int | None]]:
    """A type and all that lies in it: type, byte, and how far behind a struct's beginning the next member follows, where one does."""
    yield of, offset, behind
    if of.kind == _types.ARRAY and of.element is not None:
        yield from _parts(of.element, 0, None)
    for number, (_, part, place) in enumerate(of.members):
        follows = of.members[number + 1][2] - place if number + 1 < len(of.members) and part.kind == _types.STRUCT else None
        yield from _parts(part, place, follows)


def _of_two_rows(of: Type) -> bool:
    return of.kind == _types.MATRIX and of.name[5] == "2"


def _unshareable(of: Type) -> str:
    """The name of what in a type the host cannot see."""
    if of.kind == _types.ARRAY and of.element is not None:
        return _unshareable(of.element)
    inside = next((part for _, part, _ in of.members if not part.shareable), None)
    return _unshareable(inside) if inside is not None else of.name


def _hangs(of: Type) -> bool:
    """Whether the length of an array in it hangs on an override."""
    if of.count == -1:
        return True
    if of.element is not None:
        return _hangs(of.element)
    return any(_hangs(part) for _, part, _ in of.members)
