"""The ``.devmod`` file: a tree of modules, of several kinds and variants, in one file (R21, R41 to R43).

Opening a file reads its index alone. A module's bytes are a slice of the mapped file, and are hashed when they are first
used. `devmod._formats.save` writes.
"""

from __future__ import annotations

import os
import stat

from devmod._formats.index import BUNDLE, HEADER, Entry, aligned, read_head, read_index
from devmod._module import Module
from devmod._stored import LibraryModule, StoredModule
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

    from devmod._choose import BundleModule


def bundle(*modules: Module) -> Module:
    """A node that holds candidates: modules of several kinds or variants for one thing, or with different functions.

    Its functions are those of all candidates. A function resolves to the first candidate that is installed here and has a
    device that it fits; see `load` for the order.

    Parameters
    ----------
    modules
        The candidates, in the order of the file.

    Raises
    ------
    FormatError
        There is no module, or an argument is not one.
    """
    if not modules:
        raise FormatError("a bundle holds modules, and none was given", kind="bundle")
    return _bundle_of(modules, ())


def save(module: Module, path: str | os.PathLike[str], *, sync: bool = False) -> None:
    """Write a whole tree into one file. It is written beside `path` and moved over it when it is complete.

    The same tree gives the same bytes on every host, whatever is installed there.

    Parameters
    ----------
    module
        The root; of a `bundle`, all its candidates.
    path
        The file, by custom ``<name>.devmod``.
    sync
        Also flush the file and its folder to the disk.

    Raises
    ------
    FormatError
        A module of the tree cannot be saved, or is damaged: a stored one whose bytes are not those that its index
        describes. `path` is as it was.
    OSError
        The file cannot be written, with `path` as its file name.
    """
    from devmod._atomic import replacing
    from devmod._formats.save import Plan

    plan = Plan(module)
    with replacing(path, size=plan.size, sync=sync) as file:
        plan.write(file)


def dumps(module: Module) -> bytes:
    """The bytes that `save` writes, in memory.

    Raises
    ------
    FormatError
        As for `save`.
    """
    import io

    from devmod._formats.save import Plan

    file = io.BytesIO()
    Plan(module).write(file)
    return file.getvalue()


def load(path: str | os.PathLike[str], *, prefer: Sequence[str] = ()) -> Module:
    """Open a ``.devmod`` file: its tree of modules, listed and inspectable with no backend imported.

    The file is mapped, and its index alone is read. Do not change the file in place while it is in use; `save` does not.

    Parameters
    ----------
    path
        The file.
    prefer
        Kinds that go first where several candidates stand for one function, in their order: ``("cuda", "opencl")``.
        The kinds in DEVMOD_PREFER (comma-separated) follow, then the order of the file.

    Returns
    -------
    Module
        The root; a `bundle` of the roots where there are several.

    Raises
    ------
    FormatError
        The file is not a bundle, is damaged, or was written by a newer devmod; the message says which.
    OSError
        The file cannot be read.
    """
    name = os.fsdecode(path)
    return _open(mapped(name), repr(name), prefer)


def loads(data: Buffer, *, prefer: Sequence[str] = ()) -> Module:
    """The same as `load` from memory, from any buffer. A writable one is copied first.

    Raises
    ------
    FormatError
        `data` is not a bundle, is damaged, or was written by a newer devmod; the message says which.
    ArgumentError
        `data` is no buffer.
    """
    from devmod._formats.wire import snapshot

    return _open(snapshot(data, "loads(data)"), "the bundle in memory", prefer)


def load_from_file(path: str, fmt: str) -> Module:
    """The loader that core registers for the format "devmod" (R24)."""
    return load(path)


# -- reading


def mapped(name: str) -> memoryview:
    """The bytes of a regular file, mapped."""
    import mmap

    there = os.stat(name)  # before the opening: a pipe would block it
    if stat.S_ISDIR(there.st_mode):
        import errno

        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(there.st_mode):
        raise FormatError(f"{name!r} is a device, a pipe or a socket; for bytes that are no file there is devmod.loads")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:  # nothing can be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


def _open(data: memoryview, place: str, prefer: Sequence[str] | str) -> Module:
    if prefer:
        from devmod._choose import kinds_in

        prefer = kinds_in(prefer)
    index = read_head(data, place)
    start = aligned(HEADER + len(index))
    if len(data) < start:
        raise FormatError(f"{place} is cut short: {len(data)} bytes, and its head alone takes {start}")
    roots, entries = read_index(index, len(data) - start, place)
    modules = [_module_of(entry, data[start:], place, tuple(prefer), index) for entry in entries]
    for entry, module in zip(entries, modules, strict=True):
        if entry.imports:  # the numbering rules cycles out, which import_module would look for each time
            module.__dict__["_devmod_imports"] = tuple(modules[number] for number in entry.imports)
    if len(roots) == 1:
        return modules[roots[0]]
    return _bundle_of([modules[number] for number in roots], tuple(prefer))


def _bundle_of(candidates: Iterable[Module], prefer: tuple[str, ...]) -> BundleModule:
    from devmod._choose import BundleModule  # not needed for a file of one root: opening one should cost little

    return BundleModule(candidates, prefer)


def _module_of(entry: Entry, blobs: memoryview, place: str, prefer: tuple[str, ...], index: memoryview) -> Module:
    if entry.kind == BUNDLE:
        return _bundle_of((), prefer)
    if entry.offset is None:
        return LibraryModule()
    return StoredModule(
        entry.kind,
        blobs[entry.offset : entry.offset + entry.size],
        fmt=entry.fmt,
        names=entry.functions,
        variant=entry.variant,
        origin=entry.origin,
        digest=entry.digest,
        place=place,
        index=index,
    )
