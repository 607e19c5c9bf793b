"""Writing a tree into a bundle: what the file will hold, and where, and then the bytes.

No payload is copied, and hashing overlaps with writing. The layout stands above the reader in `devmod._formats.index`.
"""

from __future__ import annotations

from devmod._choose import BundleModule
from devmod._formats.index import BUNDLE, HEADER, MAGIC, MAX_INDEX, VERSION, Entry, aligned, index_digest, read_index
from devmod._formats.wire import flat, pack
from devmod._module import Module
from devmod._names import well_formed
from devmod._stored import LIBRARY, LibraryModule, StoredModule
from devmod._tree import function_names, ordered
from devmod._variant import variant_of
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, BinaryIO

    from devmod._payload import Binary

#: From this size on, hashing in a second thread costs less than it saves.
_OVERLAP_FROM = 1 << 20


class Plan:
    """What a tree's file will hold, and where; nothing is written or hashed yet."""

    def __init__(self, module: Module) -> None:
        if not isinstance(module, Module):
            raise FormatError(f"what is saved is a Module, not {type(module).__name__}")
        roots = module.imports if isinstance(module, BundleModule) else (module,)
        order = ordered(roots)
        numbers = {id(module): number for number, (module, _) in enumerate(order)}
        self._modules = [module for module, _ in order]
        self._roots = list(dict.fromkeys(numbers[id(root)] for root in roots))
        self._parts: list[Sequence[Binary]] = []
        self._entries: list[Entry] = []
        end = 0
        for module, imports in order:
            parts, entry = _described(module)
            entry.imports = [numbers[id(child)] for child in imports]
            if entry.offset is not None:
                entry.offset = aligned(end)
                entry.size = sum(map(len, parts))
                end = entry.offset + entry.size
            self._parts.append(parts)
            self._entries.append(entry)
        index = pack_index(self._roots, self._entries)
        if len(index) > MAX_INDEX:
            raise FormatError(f"the index of the bundle would be {len(index)} bytes, and the most a file holds are {MAX_INDEX}")
        # What is written can be read: the reader's own checks say what of it could not.
        read_index(memoryview(index), end, "the bundle to be saved")
        self._start = aligned(HEADER + len(index))
        #: The size of the whole file.
        self.size = self._start + end

    def write(self, file: BinaryIO) -> None:
        """Write it all. The head, which has the digests, comes last."""
        file.write(bytes(self._start))
        if self.size < _OVERLAP_FROM:
            digests = self._digests()
            self._write_blobs(file)
        else:
            digests = _meanwhile(self._digests, lambda: self._write_blobs(file))
        for module, entry, digest in zip(self._modules, self._entries, digests, strict=True):
            entry.digest = digest
            if isinstance(module, StoredModule):
                module.check(digest)
        file.seek(0)
        file.write(pack_head(pack_index(self._roots, self._entries)))

    def _digests(self) -> list[bytes]:
        from hashlib import sha256

        made = []
        for parts in self._parts:
            digest = sha256()
            for part in parts:
                digest.update(part)
            made.append(digest.digest())
        return made

    def _write_blobs(self, file: BinaryIO) -> None:
        end = 0
        for entry, parts in zip(self._entries, self._parts, strict=True):
            if entry.offset is None:
                continue
            file.write(bytes(entry.offset - end))
            for part in parts:
                file.write(part)
            end = entry.offset + entry.size


def _described(module: Module) -> tuple[Sequence[Binary], Entry]:
    """A module's bytes in parts, and its entry but for the numbers."""
    if isinstance(module, BundleModule):
        return (), Entry(BUNDLE)
    if isinstance(module, LibraryModule):
        return (), Entry(LIBRARY)
    kind = module.kind
    if not well_formed(kind) or kind == BUNDLE:
        raise FormatError(f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind", kind=kind)
    # A stored module's digest is held against the one that is computed for the file anyway.
    parts = module.unverified if isinstance(module, StoredModule) else [flat(part) for part in module.wire_parts()]
    entry = Entry(
        kind,
        fmt=module.format,
        functions=tuple(function_names(module)),
        variant=variant_of(module, parts),
        origin=module.origin,
        offset=0,
    )
    return parts, entry


def _meanwhile(one: Callable[[], Any], other: Callable[[], None]) -> Any:
    """The result of `one`, which runs in a second thread while this one runs `other`. Both have ended on return."""
    from threading import Thread

    results: list[Any] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(one())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            problems.append(error)

    thread = Thread(target=run, name="devmod-save")
    thread.start()
    try:
        other()
    finally:
        thread.join()
    if problems:
        raise problems[0]
    return results[0]


def pack_index(roots: Sequence[int], entries: Iterable[Entry]) -> bytes:
    """The index in msgpack. Its length does not depend on the digests, which are known last."""
    return pack({"roots": roots, "modules": [entry.to_dict() for entry in entries]}, "the index of a bundle")


def pack_head(index: bytes) -> bytes:
    """Everything before the first blob."""
    head = MAGIC + VERSION.to_bytes(4, "little") + len(index).to_bytes(4, "little") + index_digest(index) + index
    return head.ljust(aligned(len(head)), b"\0")
