"""Reading and writing Apache TVM's bytes: single modules, imports blobs, and shared libraries that
TVM exported.

The loaded modules are stored modules, as from a ``.devmod`` file: no runtime is needed, and nothing
is executed. They are saved in devmod's format. The ``dump_`` functions return TVM's bytes
unchanged. The functions need devmod-readers, and no build side.
"""

from __future__ import annotations

import os
from itertools import pairwise

from devmod._formats import LIBRARY
from devmod._formats import wire as _wire
from devmod._formats.msgpack import Reader
from devmod._formats.trust import check_raw, check_raw_file
from devmod._modules.const_loader import KIND as CONST_LOADER
from devmod._modules.const_loader import ConstantTensor, ConstLoaderModule
from devmod._modules.const_loader import load_from_bytes as load_constants
from devmod._modules.module import LibraryModule, Module, ordered
from devmod._modules.stored import StoredModule, own_bytes
from devmod._modules.variant import payload_of
from devmod._plugins.discovery import shared_scan
from devmod._plugins.specs import find_spec, spec_of_loader
from devmod._util.buffers import snapshot
from devmod._util.elf import TVM_LIBRARY
from devmod._util.regular_files import path_to_str
from devmod._util.text import is_valid_name
from devmod.errors import FormatError, function_not_found, quote_name
from devmod.interop import reader
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Buffer

    from devmod._formats.index import Entry, ReadParts
    from devmod._values.code import AnyPath, Binary, Fields
    from devmod._values.spec import TargetSpec
    from devmod_readers.tvm import TvmReader

__all__ = ["dump_imports", "dump_module_bytes", "load_imports", "load_library", "load_module_bytes"]


def load_module_bytes(kind: str, data: Buffer) -> Module:
    """Load a stored module from the bytes of TVM's ``SaveToBytes``.

    Parameters
    ----------
    kind
        TVM's name of the kind: one of the seven backends', an alias such as "hip", or
        "const_loader".
    data
        The bytes; any buffer.

    Raises
    ------
    FormatError
        The kind has no target, or `data` is not a module's bytes; the message has the field and the
        offset.
    ArgumentError
        `data` is not a buffer.
    """
    view = snapshot(data, "load_module_bytes(kind, data)")
    check_raw(f"load_module_bytes({kind!r}, data)")
    spec = _spec(kind)
    if spec is None and kind != CONST_LOADER:
        raise FormatError(f"a module of the kind {quote_name(kind)} is not supported", kind=kind)
    return _from_tvm(kind, spec, view, f"TVM's bytes of the {kind} module")


def dump_module_bytes(module: Module) -> bytes:
    """Return the bytes for TVM's loader of the module's kind. A module loaded from TVM's bytes has
    the same bytes again.

    OpenCL C without TVM's "// Function:" lines gets them: TVM builds one program for each function.

    Raises
    ------
    FormatError
        TVM does not support the kind, or its runtime cannot run the module: it does not support the
        format or the OpenCL options, a function's symbol differs from its name, or the four fields
        of TVM's format cannot describe a function.
    """
    return b"".join(_dump_parts(module))


def load_imports(data: Buffer) -> Module:
    """Load the tree of modules in an imports blob, which ``runtime.ModulePackImportsToTensor``
    writes.

    The root has the kind ``_lib``, the place of the host library, if TVM exported one. A module of
    an unknown kind has its place in the tree and its bytes; it can be dumped again and not saved.

    Raises
    ------
    FormatError
        `data` is not an imports blob, or its imports have a cycle; the message has the place.
    ArgumentError
        `data` is not a buffer.
    """
    check_raw("the imports blob")
    view = snapshot(data, "load_imports(data)", "load_library(path)")
    return _load_imports(view, "the imports blob")


# The layout (tvm-ffi, src/ffi/extra/library_module.cc):
#
#   u64            the number of bytes that follow
#   vector of u64  row pointers: the children of module i are from entry i up to entry i+1
#   vector of u64  children: the numbers of modules; module 0 is the root
#   then for each module
#     str    its kind
#     bytes  its bytes; nothing for "_lib"
def _load_imports(data: memoryview, subject: str) -> Module:
    values = _tvm().TvmReader(data, subject)
    values.field = "length"
    size = values.read_number(8)
    if size != len(data) - 8:
        raise values.error(f"expected {size} more bytes, got {len(data) - 8}", 0)
    rows, children = _read_rows(values)
    modules: list[Module] = []
    with shared_scan():
        for number in range(len(rows) - 1):
            values.field = f"module {number}"
            kind = values.read_str()
            if kind == LIBRARY:
                modules.append(LibraryModule())
                continue
            saved = values.read_bytes()
            spec = _spec(kind)
            if spec is None and kind != CONST_LOADER:
                modules.append(ForeignModule(kind, saved))
            else:
                modules.append(_from_tvm(kind, spec, saved, f"{subject}: module {number}"))
    values.finish()
    for number, module in enumerate(modules):
        imports = children[rows[number] : rows[number + 1]]
        module._devmod_imports = tuple(modules[child] for child in imports)
        module.__dict__["_devmod_tvm_number"] = number
    reached = len(ordered(modules[:1]))
    if reached != len(modules):
        raise FormatError(
            f"{subject}: {len(modules)} modules, and {reached} of them are in the tree of the first"
        )
    return modules[0]


def _read_rows(values: TvmReader) -> tuple[list[int], list[int]]:
    values.field = "row pointers"
    start = values.at
    rows = [values.read_number(8) for _ in range(values.read_count(8))]
    values.field = "children"
    children = [values.read_number(8) for _ in range(values.read_count(8))]
    if len(rows) < 2:
        raise values.error("there is no module", start)
    if rows[0] != 0 or rows[-1] != len(children) or any(low > high for low, high in pairwise(rows)):
        raise values.error("the row pointers do not rise from 0 to the number of children", start)
    wrong = next((child for child in children if child >= len(rows) - 1), None)
    if wrong is not None:
        raise values.error(f"module {wrong} is imported, and there are {len(rows) - 1}", start)
    return rows, children


def dump_imports(module: Module) -> bytes:
    """Return the imports blob of a tree, for TVM's loader. A tree loaded from TVM's blob has the
    same blob again.

    Raises
    ------
    FormatError
        As for `dump_module_bytes`, for any module of the tree. TVM does not support a `bundle`.
    """
    order = ordered((module,))
    numbers = [each.__dict__.get("_devmod_tvm_number", -1) for each, _ in order]
    # The order of the loaded blob.
    if sorted(numbers) == [*range(len(order))] and numbers[0] == 0:
        order = [each for _, each in sorted(zip(numbers, order, strict=True))]
    place = {id(each): number for number, (each, _) in enumerate(order)}
    rows = [0]
    children: list[int] = []
    for _, imports in order:
        children += [place[id(child)] for child in imports]
        rows.append(len(children))
    parts: list[Binary] = []
    for vector in (rows, children):
        parts += (_u64(len(vector)), *map(_u64, vector))
    with shared_scan():
        for each, _ in order:
            kind = _tvm_kind(each).encode()
            parts += (_u64(len(kind)), kind)
            if not isinstance(each, LibraryModule):
                saved = _dump_parts(each)
                parts += (_u64(sum(map(len, saved))), *saved)
    return b"".join((_u64(sum(map(len, parts))), *parts))


def _tvm_kind(module: Module) -> str:
    """Return TVM's name of a module's kind."""
    if isinstance(module, TvmModule):
        return module.tvm_kind
    spec = None
    if is_valid_name(module.kind):
        spec = find_spec(module.kind)
    if spec is None:
        return module.kind
    return spec.tvm_kind


def load_library(path: str | os.PathLike[str]) -> Module:
    """Load the tree in a shared library that TVM's ``export_library`` wrote. The library is not
    executed.

    Raises
    ------
    FormatError
        The file is not an ELF library, is damaged, or has no device modules.
    OSError
        The file cannot be read.
    """
    from devmod._files.bundle_file import map_file

    hint = "load_imports(data) takes an imports blob in memory"
    name = path_to_str(path, "load_library(path)", hint)
    check_raw_file(name)
    blob = _tvm().symbol_bytes(name, map_file(name), TVM_LIBRARY)
    if blob is None:
        raise FormatError(
            f"{name!r} has no symbol {TVM_LIBRARY!r}: TVM did not export it, or it has no device modules"
        )
    return _load_imports(blob, repr(name))


# -- modules


class TvmModule(StoredModule):
    """A stored module loaded from TVM's bytes. It has these bytes beside its own."""

    def __init__(
        self, entry: Entry, read: ReadParts, place: str, tvm_kind: str, tvm_bytes: memoryview
    ) -> None:
        super().__init__(entry, read, place)
        self.tvm_kind = tvm_kind
        self.tvm_bytes = tvm_bytes


class ForeignModule(Module):
    """A module of an unknown kind: its place in the tree and its bytes, for `dump_imports`."""

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
        """Raise FunctionNotFoundError: the functions are unknown."""
        raise function_not_found(quote_name(self._kind), name, ())

    def save_to_bytes(self) -> bytes:
        """Raise FormatError: devmod has no format for the module."""
        raise FormatError(
            f"TVM's {quote_name(self._kind)} module cannot be saved in devmod's format: only TVM can run it. Save the modules that it "
            "imports (.imports), or write the bytes of devmod.interop.tvm.dump_imports(module) for TVM"
        )

    def write_to_file(self, path: AnyPath) -> None:
        """Raise FormatError, as `save_to_bytes`."""
        self.save_to_bytes()


def _from_tvm(kind: str, spec: TargetSpec | None, data: memoryview, subject: str) -> Module:
    values = _tvm().TvmReader(data, subject, kind)
    if spec is None:
        tensors, by_symbol = values.read_constants()
        values.finish()
        tensors = {name: ConstantTensor(*tensor) for name, tensor in tensors.items()}
        constants = ConstLoaderModule(tensors, by_symbol)
        own = own_bytes(kind, "", constants.by_symbol, constants.wire_parts())
        return TvmModule(*own, subject, kind, data)
    fields: Fields = {"fmt": spec.formats[0]}
    for field in spec.fields:
        values.field = field
        if field == "fmt":
            fields[field] = values.read_str()
        elif field == "fmap":
            fields[field] = values.read_fmap()
        elif spec.shader_map:
            fields[field] = values.read_shaders()
        else:
            fields[field] = values.read_bytes()
    values.finish()
    wire = _wire.encode(spec, **fields)
    fmt = spec.canonical_format(fields["fmt"])
    own = own_bytes(spec.kind, fmt, fields["fmap"], wire)
    return TvmModule(*own, subject, kind, data)


def _spec(kind: str) -> TargetSpec | None:
    """Return the spec of a kind that TVM may have."""
    if not is_valid_name(kind) or kind == PROGRAM:
        return None
    return spec_of_loader(kind)


def _dump_parts(module: Module) -> list[Binary]:
    if isinstance(module, (TvmModule, ForeignModule)):
        return [module.tvm_bytes]
    if module.kind == CONST_LOADER:
        constants: Any = module
        if not isinstance(module, ConstLoaderModule):
            constants = load_constants(memoryview(module.save_to_bytes()))
        return [*_tvm().constants_parts(constants.tensors, constants.by_symbol)]
    if module.kind == PROGRAM:
        raise FormatError(
            "TVM has no programs: its own host functions launch the kernels. Dump the modules of the kernels",
            kind=PROGRAM,
        )
    payload = payload_of(module)
    if payload is None:
        raise FormatError(
            f"TVM does not support the kind {quote_name(module.kind)}; for a bundle, dump a candidate",
            kind=module.kind,
        )
    spec, fmt, fmap, code = payload
    saved_format = fmt
    # The format in a module's own bytes may be an alias, and TVM's Vulkan runtime accepts any.
    if spec.format_aliases:
        data = memoryview(b"".join(module.wire_parts()))
        saved_format = Reader(data, f"the bytes of the {spec.kind} module", spec.kind).read_str()
    return [*_tvm().module_parts(spec, fmt, saved_format, fmap, code)]


def _tvm() -> Any:
    """Return the reader and the writer of TVM's bytes. ToolchainNotFoundError without
    devmod-readers.
    """
    return reader("devmod_readers.tvm")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
