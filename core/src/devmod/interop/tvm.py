"""Apache TVM's bytes, in and out: single modules, imports blobs, and shared libraries that TVM exported.

What comes in is stored modules, as from a ``.devmod`` file: no runtime is needed, and nothing is executed. They save as their
payload in devmod's bytes; the ``dump_`` functions give TVM's, as they came.
"""

from __future__ import annotations

import os
from itertools import pairwise

from devmod._const_loader import KIND as CONST_LOADER
from devmod._const_loader import ConstLoaderModule
from devmod._const_loader import load_from_bytes as load_constants
from devmod._formats import wire as _wire
from devmod._formats.msgpack import shown
from devmod._module import Module
from devmod._names import well_formed
from devmod._stored import LIBRARY, LibraryModule, StoredModule, payload_of
from devmod._tree import ordered
from devmod.errors import FormatError, function_not_found
from devmod.interop import _tvm_bytes, _tvm_calls
from devmod.targets import spec_of_loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Buffer

    from devmod._payload import Binary
    from devmod.targets import TargetSpec

__all__ = ["dump_imports", "dump_module_bytes", "load_imports", "load_library", "load_module_bytes"]

#: The symbol under which a library that TVM exported holds its imports blob.
SYMBOL = "__tvm_ffi__library_bin"


def load_module_bytes(kind: str, data: Buffer) -> Module:
    """A stored module of the bytes that TVM's ``SaveToBytes`` wrote for one module.

    Parameters
    ----------
    kind
        The kind as TVM has it: one of the seven backends', an alias such as "hip", or "const_loader".
    data
        The bytes; any buffer.

    Raises
    ------
    FormatError
        No target is known of that kind, or `data` is not a module's bytes; the message names the field and the offset.
    ArgumentError
        `data` is no buffer.
    """
    view = _wire.snapshot(data, "load_module_bytes(kind, data)")
    spec = spec_of_loader(kind) if well_formed(kind) else None
    if spec is None and kind != CONST_LOADER:
        raise FormatError(f"a module of the kind {shown(kind)} has no form that devmod knows", kind=kind)
    return _from_tvm(kind, spec, view)


def dump_module_bytes(module: Module) -> bytes:
    """The bytes that TVM's loader of the module's kind takes. Of a module that came from TVM they are those that came.

    Raises
    ------
    FormatError
        TVM has no such kind, or could not call one of its functions by the four fields that its format has.
    """
    return b"".join(_dump_parts(module))


def load_imports(data: Buffer) -> Module:
    """The tree of modules in an imports blob: what ``runtime.ModulePackImportsToTensor`` packs.

    The root is of the kind ``_lib``, the place of the host library, where TVM exported one. A module of a kind that devmod does
    not know keeps its place and its bytes; it can be dumped again and not saved.

    Raises
    ------
    FormatError
        `data` is not an imports blob, or its modules import each other in a cycle; the message says where.
    ArgumentError
        `data` is no buffer.
    """
    return _load_imports(_wire.snapshot(data, "load_imports(data)"), "the imports blob")


# The layout (tvm-ffi, src/ffi/extra/library_module.cc):
#
#   u64            the number of bytes that follow
#   vector of u64  row pointers: the children of module i stand from entry i up to entry i+1
#   vector of u64  children: the numbers of modules; module 0 is the root
#   then for each module
#     str    its kind
#     bytes  its bytes; nothing for "_lib"
def _load_imports(data: memoryview, what: str) -> Module:
    reader = _tvm_bytes.Reader(data, what)
    reader.field = "length"
    size = reader.read_int(8)
    if size != len(data) - 8:
        raise reader.error(f"{size} bytes are said to follow, and {len(data) - 8} do", 0)
    rows, children = _read_rows(reader)
    modules: list[Module] = []
    for number in range(len(rows) - 1):
        reader.field = f"module {number}"
        kind = reader.read_str()
        if kind == LIBRARY:
            modules.append(LibraryModule())
            continue
        held = reader.read_bytes()
        spec = spec_of_loader(kind) if well_formed(kind) else None
        known = spec is not None or kind == CONST_LOADER
        modules.append(_from_tvm(kind, spec, held, f"{what}: module {number}") if known else _ForeignModule(kind, held))
    reader.finish()
    for number, module in enumerate(modules):
        module.__dict__["_devmod_imports"] = tuple(modules[child] for child in children[rows[number] : rows[number + 1]])
        module.__dict__["_devmod_tvm_number"] = number
    reached = len(ordered(modules[:1]))
    if reached != len(modules):
        raise FormatError(f"{what}: {len(modules)} modules, and {reached} of them hang in the tree of the first")
    return modules[0]


def _read_rows(reader: _tvm_bytes.Reader) -> tuple[list[int], list[int]]:
    reader.field = "row pointers"
    start = reader.at
    rows = [reader.read_int(8) for _ in range(reader.read_count(8))]
    reader.field = "children"
    children = [reader.read_int(8) for _ in range(reader.read_count(8))]
    if len(rows) < 2:
        raise reader.error("there is no module", start)
    if rows[0] != 0 or rows[-1] != len(children) or any(low > high for low, high in pairwise(rows)):
        raise reader.error("the row pointers do not rise from 0 to the number of children", start)
    wrong = next((child for child in children if child >= len(rows) - 1), None)
    if wrong is not None:
        raise reader.error(f"module {wrong} is imported, and there are {len(rows) - 1}", start)
    return rows, children


def dump_imports(module: Module) -> bytes:
    """The imports blob of a tree, for TVM's loader. Of a tree that came from TVM it is the one that came.

    Raises
    ------
    FormatError
        As for `dump_module_bytes`, for any module of the tree; a `bundle` has no place in TVM's.
    """
    order = ordered((module,))
    numbers = [each.__dict__.get("_devmod_tvm_number") for each, _ in order]
    if sorted(filter(None, numbers), key=int) == list(range(1, len(order))) and numbers[0] == 0:
        order.sort(key=lambda each: int(each[0].__dict__["_devmod_tvm_number"]))  # the order that it came in
    place = {id(each): number for number, (each, _) in enumerate(order)}
    rows, children = [0], []
    for _, imports in order:
        children += [place[id(child)] for child in imports]
        rows.append(len(children))
    parts: list[Binary] = []
    for vector in (rows, children):
        parts += (_tvm_bytes.integer(len(vector)), b"".join(map(_tvm_bytes.integer, vector)))
    for each, _ in order:
        parts.append(_tvm_bytes.string(_tvm_kind(each)))
        if not isinstance(each, LibraryModule):
            held = _dump_parts(each)
            parts += (_tvm_bytes.integer(sum(map(len, held))), *held)
    return b"".join((_tvm_bytes.integer(sum(map(len, parts))), *parts))


def load_library(path: str | os.PathLike[str]) -> Module:
    """The tree in a shared library that TVM's ``export_library`` wrote. The library is read, and nothing of it is executed.

    Raises
    ------
    FormatError
        It is no ELF library, is damaged, or holds no device modules.
    ToolchainNotFoundError
        pyelftools is not installed: ``pip install 'devmod-core[tvm]'``.
    OSError
        It cannot be read.
    """
    from devmod.interop._elf import symbol_bytes

    name = os.fsdecode(path)
    blob = symbol_bytes(name, SYMBOL)
    if blob is None:
        raise FormatError(f"{name!r} has no symbol {SYMBOL!r}: TVM did not export it, or it holds no device modules")
    return _load_imports(blob, repr(name))


# -- modules


class _TvmModule(StoredModule):
    """A stored module that came in TVM's bytes, and keeps them beside its own."""

    def __init__(self, kind: str, wire: memoryview, tvm_kind: str, tvm_bytes: memoryview, **known: Any) -> None:
        super().__init__(kind, wire, **known)
        self.tvm_kind = tvm_kind
        self.tvm_bytes = tvm_bytes


class _ForeignModule(Module):
    """A module of a kind that devmod does not know: its place in the tree and its bytes, to be dumped again."""

    def __init__(self, kind: str, data: memoryview) -> None:
        self._kind = kind
        self.tvm_bytes = data

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def property_mask(self) -> int:
        return 0

    def get_function(self, name: str, query_imports: bool = False) -> NoReturn:
        """Raise FunctionNotFoundError: what it holds is not known here."""
        raise function_not_found(shown(self._kind), name, ())

    def save_to_bytes(self) -> bytes:
        """Raise FormatError: only TVM knows what the bytes are."""
        raise FormatError(
            f"a module of TVM's kind {shown(self._kind)} has no form in devmod; interop.tvm.dump_imports writes it as it came"
        )


def _from_tvm(kind: str, spec: TargetSpec | None, data: memoryview, what: str = "") -> Module:
    reader = _tvm_bytes.Reader(data, what or f"TVM's bytes of the {kind} module", kind)
    if spec is None:
        tensors, by_symbol = reader.read_constants()
        reader.finish()
        constants = ConstLoaderModule(tensors, by_symbol)
        wire = memoryview(constants.save_to_bytes())
        return _TvmModule(kind, wire, kind, data, fmt="", names=constants.by_symbol, place=what)
    fields: dict[str, Any] = {"fmt": spec.formats[0]}
    for field in spec.fields:
        reader.field = field
        if field == "fmt":
            fields[field] = reader.read_str()
        elif field == "fmap":
            fields[field] = reader.read_fmap()
        else:
            fields[field] = reader.read_shaders() if spec.shader_map else reader.read_bytes()
    reader.finish()
    wire = memoryview(b"".join(_wire.encode(spec, fields["fmt"], fields["fmap"], fields["code"])))
    return _TvmModule(spec.kind, wire, kind, data, fmt=fields["fmt"], names=fields["fmap"], place=what)


def _tvm_kind(module: Module) -> str:
    return module.tvm_kind if isinstance(module, _TvmModule) else module.kind


def _dump_parts(module: Module) -> list[Binary]:
    if isinstance(module, (_TvmModule, _ForeignModule)):
        return [module.tvm_bytes]
    if module.kind == CONST_LOADER:
        constants = module if isinstance(module, ConstLoaderModule) else load_constants(memoryview(module.save_to_bytes()))
        assert isinstance(constants, ConstLoaderModule)
        return _tvm_bytes.constants_bytes(constants.tensors, constants.by_symbol)
    payload = payload_of(module)
    if payload is None:
        raise FormatError(f"TVM has no modules of the kind {shown(module.kind)}; of a bundle, dump a candidate", kind=module.kind)
    spec, fmt, fmap, code = payload
    for name, info in fmap.items():
        _tvm_calls.check(spec, name, info)
    parts: list[Binary] = []
    for field in spec.fields:
        if field == "fmt":
            parts.append(_tvm_bytes.string(fmt))
        elif field == "fmap":
            parts.append(_tvm_bytes.fmap_bytes(fmap))
        elif isinstance(code, (bytes, memoryview)):
            parts += (_tvm_bytes.integer(len(code)), code)
        else:
            parts.append(_tvm_bytes.integer(len(code)))
            for name, shader in code.items():
                parts += (_tvm_bytes.string(name), _tvm_bytes.integer(len(shader)), shader)
    return parts
