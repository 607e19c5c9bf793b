"""Writing a tree into a bundle: first the plan of the file, then the bytes.

No payload is copied, and hashing overlaps with writing. The comment above the reader in `devmod._formats.index` has the layout.
"""

from __future__ import annotations

from devmod._formats.index import BUNDLE, HEADER, MAGIC, MAX_INDEX, VERSION, Entry, aligned, read_index, read_origin
from devmod._formats.wire import pack
from devmod._modules.bundle import BundleModule
from devmod._modules.library import LibraryModule
from devmod._modules.module import LIBRARY, Module
from devmod._modules.stored import StoredModule
from devmod._modules.tree import ordered
from devmod._modules.variant import variant_of
from devmod._plugins.discovery import shared_scan
from devmod._util.buffers import flat
from devmod._util.digest import sha256_of
from devmod._util.names import is_valid_name
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, BinaryIO

    from devmod._values.code import Binary

#: From this size on, hashing in a second thread costs less than it saves.
_OVERLAP_FROM = 1 << 20


class Plan:
    """The plan of a file: its modules with their offsets. Nothing is written or hashed yet."""

    def __init__(self, module: Module) -> None:
        if not isinstance(module, Module):
            raise FormatError(f"expected a Module to save, got {type(module).__name__}")
        roots = module.imports if isinstance(module, BundleModule) else (module,)
        order = ordered(roots)
        numbers = {id(module): number for number, (module, _) in enumerate(order)}
        self._modules = [module for module, _ in order]
        self._roots = list(dict.fromkeys(numbers[id(root)] for root in roots))
        self._parts: list[Sequence[Binary]] = []
        self._entries: list[Entry] = []
        end = 0
        with shared_scan():
            described = [_described(module) for module, _ in order]
        for (_, imports), (parts, entry) in zip(order, described, strict=True):
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
        # The reader checks the index, so that every file that is written can be read.
        subject = "the bundle to be saved"
        for number, entry in enumerate(read_index(memoryview(index), end, subject)[1]):
            if entry.origin_at >= 0:
                read_origin(memoryview(index), entry, number, subject)
        self._start = aligned(HEADER + len(index))
        #: The size of the whole file.
        self.size = self._start + end

    def write(self, file: BinaryIO) -> None:
        """Write the file. The head, which has the digests, is written last."""
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

        results = []
        for parts in self._parts:
            digest = sha256()
            for part in parts:
                digest.update(part)
            results.append(digest.digest())
        return results

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
    """Return a module's bytes in parts, and its entry without imports, offset and digest."""
    if isinstance(module, BundleModule):
        return (), Entry(BUNDLE)
    if isinstance(module, LibraryModule):
        return (), Entry(LIBRARY)
    kind = module.kind
    if not is_valid_name(kind) or kind == BUNDLE:
        raise FormatError(f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind", kind=kind)
    # `write` compares the digest of a stored module with the one that it computes for the file.
    parts = module.unverified if isinstance(module, StoredModule) else [flat(part) for part in module.wire_parts()]
    entry = Entry(
        kind,
        fmt=module.format,
        functions=tuple(module),
        variant=variant_of(module, parts),
        origin=module.origin,
        offset=0,
    )
    return parts, entry


def _meanwhile(one: Callable[[], Any], other: Callable[[], None]) -> Any:
    """Run `one` in a second thread and `other` in this one, and return the result of `one`. Both have ended on return."""
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
    head = MAGIC + VERSION.to_bytes(4, "little") + len(index).to_bytes(4, "little") + sha256_of(index) + index
    return head.ljust(aligned(len(head)), b"\0")
