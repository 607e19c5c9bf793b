"""The ``.devmod`` file: a tree of modules, of several kinds and variants, in one file (R21, R41 to
R43).

Opening a file reads the head of its index alone, and the index if it is one page. A module's bytes
are a slice of the mapped file, and are hashed when they are first used. `devmod._files.save`
writes.
"""

from __future__ import annotations

import os

from devmod._files.tree import Tree
from devmod._formats.index import HEADER, MAGIC, head_length, not_a_bundle, read_head
from devmod._formats.pages import Index, data_parts
from devmod._formats.trust import MEMORY, FileHead, policies, read_signature
from devmod._modules.module import Module, holds_candidates
from devmod._util.regular_files import absolute, file_name, open_regular
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.resources.abc import Traversable
    from typing import Any, BinaryIO

    from typing_extensions import Buffer

    from devmod._formats.index import Read
    from devmod._values.code import Binary, Names


def bundle(*modules: Module, mixed: bool = False) -> Module:
    """Return a node that holds candidates: modules of several kinds or variants with the same
    functions, or with different ones.

    Its functions are those of all candidates. A function resolves to the first candidate that is
    installed here and has a device that it fits; see `load` for the order.

    Parameters
    ----------
    modules
        The candidates, in the order of the file.
    mixed
        Whether candidates may take different arguments in functions of one name. Each is then
        called by its own signature.

    Raises
    ------
    FormatError
        There is no module, or an argument is not one; or two candidates take different arguments in
        a function and `mixed` is false.
    """
    if not modules:
        raise FormatError("a bundle holds modules, and none was given", kind="bundle")
    from devmod._modules.bundle import BundleModule

    node = BundleModule(modules)
    if not mixed:
        from devmod._modules.agreement import agreements

        results = agreements(node.imports, check=True)
        if not any(map(holds_candidates, node.imports)):  # a nested bundle may get more candidates
            node.find_agreement = results.get
    return node


def save(
    module: Module,
    path: str | os.PathLike[str],
    *,
    compress: str | None = None,
    with_sources: bool = False,
    sync: bool = False,
    within: str | os.PathLike[str] = "",
) -> None:
    """Write a tree of modules into one file. The file is written beside `path` and replaces it when
    it is complete.

    The same tree gives the same bytes on every host, whatever is installed there.

    Parameters
    ----------
    module
        The root; of a `bundle`, all its candidates.
    path
        The file, by custom ``<name>.devmod``.
    compress
        "zstd", or "zstd:19" for another level than 3 (1 to 22): compress each module's bytes and
        sources if that makes them smaller. It needs ``devmod-core[zstd]``. "none": compress
        nothing. None: bytes that come from a file stay as they are there, and others are not
        compressed.
    with_sources
        Whether to add the `Module.source` of each module. Sources that come from a file are always
        saved.
    sync
        Also flush the file and its folder to the disk.
    within
        The folder that the file must be in, if a stranger named `path` or filled the folder: a
        symbolic link below it is an error. Default: links are followed.

    Raises
    ------
    FormatError
        A module of the tree cannot be saved, or is damaged: its bytes have another digest than the
        index of its file. Or the file is not in `within`. `path` is unchanged.
    NotRegisteredError
        The library of zstd is not installed.
    ArgumentError
        `compress` is invalid.
    OSError
        The file cannot be written, with `path` as its file name.

    Warns
    -----
    UserWarning
        Bytes are not compressed, since a reader refuses a file that unpacks to so many.
    """
    from contextlib import closing

    from devmod._files.save import Plan
    from devmod._util.atomic import replacing

    with (
        closing(Plan(module, compress, with_sources, path)) as plan,
        replacing(path, size=plan.size, sync=sync, within=os.fsdecode(within)) as file,
    ):
        plan.write(file)


def dumps(module: Module, *, compress: str | None = None, with_sources: bool = False) -> bytes:
    """Return the bytes that `save` writes. The parameters and errors are those of `save`."""
    import io

    from devmod._files.save import Plan

    file = io.BytesIO()
    Plan(module, compress, with_sources).write(file)
    return file.getvalue()


def load(
    path: str | os.PathLike[str] | BinaryIO | Traversable,
    *,
    prefer: Sequence[str] = (),
    signature: bytes | None = None,
    offline: bool | None = None,
    timeout: float = 30,
    retries: int = 3,
    storage_options: Mapping[str, Any] | None = None,
) -> Module:
    """Open a ``.devmod`` file: its tree of modules, listed and inspectable with no backend
    imported.

    Only the head of the index is read, or all of a small one; a module's bytes are read when it is
    first used. A file is mapped. Do not change or truncate it while it is in use, which may end the
    process; `save` replaces it. For a copy in memory: ``devmod.loads(path.read_bytes())``.

    Parameters
    ----------
    path
        The file. A str with ``scheme://`` is a URL for fsspec (``pip install
        "devmod-core[remote]"``). It may end with the digest that ``devmod pin`` prints
        (``#devmod-head=…``): another file there is refused then. A binary file object is read by
        ranges, and stays in use. A resource of importlib.resources may be in a zip file.
    prefer
        Kinds whose candidates are tried first, in this order: ``("cuda", "opencl")``.
        The kinds in DEVMOD_PREFER (comma-separated) follow, then the order of the file.
    signature
        For a policy (`trust`): the content of the file with the signatures. None: under a policy it
        is read from beside the file, where it has the file's name with ``.sig``; a file object has
        none.
    offline
        For a URL: use the cache on the disk alone. None: DEVMOD_OFFLINE decides.
    timeout
        For HTTP: the longest wait for the next bytes, in seconds.
    retries
        For a URL: the number of further attempts after a failure.
    storage_options
        For a URL: the options of fsspec's file system.

    Returns
    -------
    Module
        The root; a `bundle` of the roots where there are several.

    Raises
    ------
    FormatError
        The file is not a bundle, is damaged, or was written by a newer devmod.
    ArgumentError
        `path` or an option is invalid.
    FetchError
        The URL or the file object cannot be read.
    TrustError
        A policy refuses the file, or it is not the one that the URL names by its digest.
    OSError
        The file cannot be read.
    """
    return _load(
        path,
        prefer,
        signature,
        offline=offline,
        timeout=timeout,
        retries=retries,
        storage_options=storage_options,
    )


def _load(
    path: Any,
    prefer: Sequence[str],
    signature: bytes | None = None,
    package: str = "",
    **options: Any,
) -> Module:
    if not isinstance(path, (str, os.PathLike)) or (isinstance(path, str) and "://" in path):
        from devmod._formats.ranges import read_head_of

        return tree_of(*read_head_of(path, signature, package, **options), prefer)
    name = file_name(path)
    paths = policies()
    source = name
    if paths:
        source = absolute(name)
    if paths and signature is None:
        signature = read_signature(lambda: open_regular(f"{name}.sig"))
    data = map_file(name, hint="For bytes in memory there is devmod.loads")
    if not data or data[:8] != MAGIC[: len(data)]:
        from devmod._plugins.specs import loading_hint

        raise FormatError(f"{not_a_bundle(repr(name))}{loading_hint(name)}")
    return _open(data, repr(name), source, prefer, paths, package, signature)


def loads(data: Buffer, *, prefer: Sequence[str] = (), signature: bytes | None = None) -> Module:
    """Open a bundle in memory, as `load` opens a file. A writable buffer is copied first.

    Raises
    ------
    FormatError
        `data` is not a bundle, is damaged, or was written by a newer devmod.
    ArgumentError
        `data` is not a buffer, or `signature` is not bytes.
    TrustError
        A policy refuses the bytes.
    """
    from devmod._util.buffers import snapshot

    view = snapshot(data, "loads(data)", "devmod.load(path)")
    return _open(view, "the bundle in memory", MEMORY, prefer, policies(), "", signature)


def loads_own(data: bytes, place: str = "the bundle in memory") -> Module:
    """Open a bundle that this program made or checks itself, as `loads` does. No policy is asked.

    Parameters
    ----------
    data
        The bundle.
    place
        Its name in messages.
    """
    return _open(memoryview(data), place, MEMORY, (), ())


def installed(name: str, *, prefer: Sequence[str] = ()) -> Module:
    """Open the bundle that an installed distribution provides under a name, the name of an entry
    point in ``devmod.bundles``.

    The value of the entry point is a package, which is imported. Its ``*.devmod`` files are opened
    as `load` opens them. Several files are the candidates of one `bundle`, sorted by name.

    Raises
    ------
    NotRegisteredError
        No distribution provides the name. The message lists the names that there are.
    PluginError, ConflictError
        The package cannot be imported or has no such file, or two distributions provide the name.
    """
    from devmod._plugins.load import bundle_files
    from devmod._plugins.lookup import lookup

    package = lookup("devmod.bundles", name)
    modules = [_load(file, prefer, package=package.__name__) for file in bundle_files(package)]
    if len(modules) == 1:
        return modules[0]
    from devmod._modules.bundle import BundleModule, kinds_in

    return BundleModule(modules, kinds_in(prefer))


def load_from_file(path: str, _fmt: str) -> Module:
    """Load a bundle: the loader of the format "devmod" (R24)."""
    return load(path)


# -- reading


def map_file(name: str, *, hint: str = "") -> memoryview:
    """Map a regular file, and return its bytes. The error for any other file contains `hint`."""
    import mmap

    with open_regular(name, hint=hint) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:  # nothing can be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


def _open(
    data: memoryview,
    place: str,
    source: str,
    prefer: Sequence[str] | str,
    paths: Names,
    package: str = "",
    signature: bytes | None = None,
) -> Module:
    head_data: Binary = data[: HEADER + head_length(data, place)]
    # Under a policy, what is hashed is what is used, also if the file changes.
    if paths:
        head_data = bytes(head_data)
    head = FileHead(head_data, place, source, len(data), package, signature, paths)
    return tree_of(head, data_parts(data, copied=bool(paths)), prefer)


def tree_of(head: FileHead, read: Read, prefer: Sequence[str] | str) -> Module:
    """Return the tree in a bundle.

    Parameters
    ----------
    head
        Its header and head.
    read
        Reads its pages, and modules' bytes.
    prefer
        As for `load`.
    """
    if head.paths:
        head.check()
    kinds: Names = ()
    if prefer != ():
        from devmod._modules.bundle import kinds_in

        kinds = kinds_in(prefer, "prefer")
    index = Index(read_head(memoryview(head.data), head.place), head.place, head.size, read)
    tree = Tree(index, head, kinds)
    if index.has_one_root:
        return tree.module(index.roots()[0])
    from devmod._files.stored_bundle import (
        StoredBundle,
    )  # not needed for a file of one root: opening one should cost little

    return StoredBundle(tree, kinds)
