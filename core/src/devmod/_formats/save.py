"""Write a tree into a bundle: first the plan of the file, then the bytes.

No payload is copied, and hashing overlaps with writing. The comment above the reader in `devmod._formats.index` has the layout.
"""

from __future__ import annotations

import sys
from itertools import chain

from devmod._formats import index as _index
from devmod._formats.blobs import compress as compressed
from devmod._formats.blobs import level_of, library_text, pack_sources, too_many_values
from devmod._formats.function_table import MIN_MODULES, pack_table
from devmod._formats.index import Entry, Unpacking
from devmod._formats.repeats import MAX_REPEATS, repeated_size
from devmod._formats.wire import array_header, map_header, pack, pack_each, share_shaders
from devmod._modules.agreement import agreements, pack_agreements
from devmod._modules.bundle import BundleModule
from devmod._modules.module import LIBRARY, LibraryModule, Module, ordered
from devmod._modules.payload import PayloadModule
from devmod._modules.stored import StoredModule
from devmod._modules.variant import variant_of, variant_of_code
from devmod._plugins.discovery import shared_scan
from devmod._plugins.specs import find_spec
from devmod._util.buffers import flat
from devmod._util.digest import run_both, sha256_of
from devmod._util.text import escape, is_valid_name
from devmod._values.origin import Origin
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from devmod._values.code import Binary

    #: The bytes of an entry in parts, or a function that returns them: those that must be read or decompressed are not kept.
    Parts = Sequence[Binary] | Callable[[], Sequence[Binary]]
    #: An entry with the size of its bytes, the bytes, and the stored module that has a digest for them.
    Blob = tuple[Entry, Parts, StoredModule | None]

#: Bytes of less than this size are hashed before the index is packed, which then is not packed again.
_SMALL = 1 << 16
#: The size of the pieces in which bytes are hashed and written.
_PIECE = 4 << 20


class Plan:
    """The plan of a file: its modules and sources with their offsets. Nothing is written yet, and only compressed bytes were hashed.

    The parameters are those of `devmod.save`. The caller's caller gets a UserWarning if a limit prevented the compression of payloads.
    """

    def __init__(self, module: Module, compress: str | None = None, with_sources: bool = False) -> None:
        if not isinstance(module, Module):
            raise FormatError(f"expected a Module to save, got {type(module).__name__}")
        self._level = level_of(compress)
        self._unpacking = Unpacking()
        #: The payloads and sources that are not compressed because of a limit: each with the reason.
        self._uncompressed: list[str] = []
        roots = module.imports if isinstance(module, BundleModule) else (module,)
        order = ordered(roots)
        same = _equal_constants([module for module, _ in order])
        order = [each for each in order if id(each[0]) not in same]
        numbers = {id(module): number for number, (module, _) in enumerate(order)}
        numbers |= {other: numbers[id(module)] for other, module in same.items()}
        self._roots = list(dict.fromkeys(numbers[id(root)] for root in roots))
        #: The sources by their digest: variants of one kernel have the same.
        self._sources: dict[bytes, Blob] = {}
        with shared_scan():
            modules = [self._blob_of(module, with_sources) for module, _ in order]
        for (_, imports), (entry, _, _) in zip(order, modules, strict=True):
            entry.imports = tuple([numbers[id(child)] for child in imports])
        self._entries = [entry for entry, _, _ in modules]
        self._blobs = [blob for blob in modules if blob[0].offset is not None] + list(self._sources.values())
        end = 0
        for entry, parts, _ in self._blobs:
            entry.offset = _index.aligned(end)
            end = entry.offset + entry.size
            if entry.size < _SMALL and entry.digest == _index.NO_DIGEST:
                entry.digest = sha256_of(b"".join(_read(parts)))
        self._calls: dict[str, list[object]] = {}
        if isinstance(module, BundleModule) and len(self._roots) > 1:
            names = [name for entry in self._entries for name in entry.functions]
            if module.agreements is not None:
                self._calls = pack_agreements(module.agreements())
            elif len({*names}) < len(names):  # else no function has several candidates
                self._calls = pack_agreements(agreements(roots))
        self._index = index = pack_index(self._roots, self._entries, self._calls)
        if len(index) > _index.MAX_INDEX:
            raise FormatError(f"the index of the bundle would be {len(index)} bytes, and the most a file holds are {_index.MAX_INDEX}")
        # Every file that is written can be read. The reader of the index takes longer than the rest of the plan, so it checks only values
        # that it might refuse.
        subject = "the bundle to be saved"
        _index.check_tree(self._roots, self._entries, subject)
        texts = chain.from_iterable((entry.fmt, entry.variant, *entry.functions) for entry in self._entries)
        if {*map(type, texts)} != {str} or any(entry.origin.extra for entry in self._entries if entry.origin is not None):
            for number, entry in enumerate(_index.read_index(memoryview(index), end, subject)[1]):
                if entry.origin_at >= 0:
                    _index.read_origin(memoryview(index), entry, number, subject)
        self._start = _index.aligned(_index.HEADER + len(index))
        #: The size of the whole file.
        self.size = self._start + end
        if self._uncompressed:
            import warnings

            others = f". So are {len(self._uncompressed) - 1} more" if len(self._uncompressed) > 1 else ""
            warnings.warn(escape(f"{self._uncompressed[0]}{others}"), UserWarning, stacklevel=3)

    def write(self, file: BinaryIO) -> None:
        """Write the file. The head, which has the digests, is written last."""
        file.write(bytes(self._start))
        digests = run_both(self._digests, lambda: self._write_blobs(file), self.size)
        for (entry, _, module), digest in zip(self._blobs, digests, strict=True):
            if entry.digest == _index.NO_DIGEST:
                entry.digest, self._index = digest, b""
            if module is not None:
                module.check(digest)
        index = self._index or pack_index(self._roots, self._entries, self._calls)
        version = max((version for version, _ in _index.newer_parts(self._entries, bool(self._sources))), default=1)
        file.seek(0)
        file.write(pack_head(index, version))

    def _digests(self) -> list[bytes]:
        from hashlib import sha256

        results = []
        for entry, parts, _ in self._blobs:
            if entry.digest != _index.NO_DIGEST:  # `parts` checks it
                results.append(entry.digest)
                continue
            digest = sha256()
            for piece in _pieces(_read(parts)):
                digest.update(piece)
            results.append(digest.digest())
        return results

    def _write_blobs(self, file: BinaryIO) -> None:
        end = 0
        for entry, parts, _ in self._blobs:
            assert entry.offset is not None
            padding = bytes(entry.offset - end)
            for piece in [b"".join([padding, *_read(parts)])] if entry.size < _SMALL else _pieces([padding, *_read(parts)]):
                file.write(piece)
            end = entry.offset + entry.size

    def _blob_of(self, module: Module, with_sources: bool) -> Blob:
        """Return a module's entry without imports, offset and digest; its bytes; and the stored module that checks their digest."""
        has_payload = isinstance(module, PayloadModule)  # the most common, and each isinstance takes time
        if not has_payload and isinstance(module, (BundleModule, LibraryModule)):
            return Entry(_index.BUNDLE if isinstance(module, BundleModule) else LIBRARY), (), None
        kind = module.kind
        if not is_valid_name(kind) or kind == _index.BUNDLE:
            module.wire_parts()  # a module of TVM alone has an error of its own
            raise FormatError(f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind", kind=kind)
        entry = Entry(kind, fmt=module.format, functions=tuple(module.function_names), origin=module.origin, offset=0)
        if not has_payload and isinstance(module, StoredModule):
            stored = module.entry
            entry.variant, entry.repeats = variant_of(module), stored.repeats
            entry.size, entry.unpacked = stored.size, stored.unpacked
            # `write` compares the digest of a stored module with the one that it computes for the file.
            blob = self._pack(entry, module.unverified, module.unpack, module)
        else:
            parts: Sequence[Binary] = tuple([part if type(part) is bytes else flat(part) for part in module.wire_parts()])
            spec = find_spec(kind)
            if has_payload and spec is not None:
                entry.variant = variant_of_code(spec, spec.canonical_format(entry.fmt), module.code)  # type: ignore[attr-defined]
            else:
                entry.variant = variant_of(module, parts)
            if spec is not None and spec.shader_map:
                parts, entry.repeats = share_shaders(spec, parts)
            entry.size = sum(map(len, parts))
            blob = (entry, parts, None) if self._level <= 0 else self._pack(entry, parts)
        if with_sources or not has_payload:
            entry.sources = self._sources_of(module, with_sources)
        self._note_library(entry)
        return blob

    def _pack(self, entry: Entry, parts: Parts, unpack: Callable[[], Binary] | None = None, stored: StoredModule | None = None) -> Blob:
        """Return the blob of an entry, compressed or decompressed as the file is to have it.

        Parameters
        ----------
        entry
            The entry, with its size in `parts`. If these are compressed, it has the size and the digest of the result of `unpack`.
        stored
            The module that checks the digest of `parts`.
        """
        if entry.unpacked is not None:
            if self._level and self._fits(entry, entry.size, entry.stored_size):
                return entry, parts, stored
            assert unpack is not None
            (entry.size, entry.digest), entry.unpacked = entry.unpacked, None
            return entry, lambda: (unpack(),), None
        if self._level <= 0:
            return entry, parts, stored
        # The output of the library depends on the pieces of its input, so the input is one piece.
        pieces = _read(parts)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        results: list[bytes] = []
        digest = run_both(lambda: sha256_of(data), lambda: results.append(compressed(data, self._level)), len(data))
        if stored is not None:
            stored.check(digest)
        if len(results[0]) < len(data) and self._fits(entry, len(results[0]), len(data), data):
            entry.size, entry.digest, entry.unpacked = len(results[0]), _index.NO_DIGEST, (len(data), digest)
            return entry, results, None
        return entry, (data,), None

    def _fits(self, entry: Entry, size: int, unpacked: int, data: Binary = b"") -> bool:
        """Return whether the file may have `unpacked` bytes of an entry compressed to `size`, and note it if not."""
        total, most = unpacked + repeated_size(entry.repeats), size * MAX_REPEATS
        values = too_many_values(data, size)
        if total <= most and not values:
            if self._unpacking.add(size, unpacked):
                return True
            most = self._unpacking.free + size * _index.MAX_RATIO
        subject = f"the {entry.kind} module with {list_names(entry.functions)}" if entry.kind else "a source"
        self._uncompressed.append(
            f"{subject} is stored without compression: its {total} bytes compress to {size}, and readers of a file accept at most "
            f"{f'{values} msgpack objects' if values else most} from these"
        )
        return False

    def _sources_of(self, module: Module, with_sources: bool) -> Entry | None:
        """Return the entry of a module's sources; None if there are none to save."""
        if isinstance(module, StoredModule):
            blob = module.entry.sources
            if blob is None or not blob.stored_size:
                return None
            key = blob.digest if blob.unpacked is None else blob.unpacked[1]
            if key not in self._sources:
                entry = Entry("", offset=0, size=blob.size, digest=blob.digest, unpacked=blob.unpacked)
                read = module.source_bytes  # it checks the digest
                self._sources[key] = self._pack(entry, lambda: (read(unpack=False),), lambda: read(unpack=True))
        else:
            data = pack_sources(module) if with_sources else b""
            if not data:
                return None
            key = sha256_of(data)
            if key not in self._sources:
                self._sources[key] = self._pack(Entry("", offset=0, size=len(data)), (data,))
        return self._sources[key][0]

    def _note_library(self, entry: Entry) -> None:
        """Add the version of the library to the origin of compressed bytes, or remove it from the origin of others."""
        compressed = entry.unpacked is not None or (entry.sources is not None and entry.sources.unpacked is not None)
        extra = entry.origin.extra if entry.origin is not None else {}
        if compressed and self._level > 0 and _index.COMPRESSION not in extra:
            origin = entry.origin or Origin("")
            entry.origin = origin.replace(extra={**extra, _index.COMPRESSION: library_text(self._level)})
        elif not compressed and entry.origin is not None and _index.COMPRESSION in extra:
            extra = {key: value for key, value in extra.items() if key != _index.COMPRESSION}
            origin = entry.origin.replace(extra=extra)
            entry.origin = origin if origin != Origin("") else None


def _equal_constants(modules: Iterable[Module]) -> dict[int, Module]:
    """Return for each const_loader with the bytes of a later one that one: several programs may have the same constants."""
    loaders = [each for each in modules if each.kind == "const_loader"]
    if len(loaders) < 2:
        return {}
    from hashlib import sha256

    last: dict[bytes, Module] = {}
    result = {}
    for each in reversed(loaders):
        if isinstance(each, StoredModule):
            digest = each.entry.digest if each.has_digest else str(id(each)).encode()
        else:
            own = sha256()
            for part in each.wire_parts():
                own.update(part)
            digest = own.digest()
        if (other := last.setdefault(digest, each)) is not each:
            result[id(each)] = other
    return result


def _read(parts: Parts) -> Sequence[Binary]:
    return parts() if callable(parts) else parts


def _pieces(parts: Iterable[Binary]) -> Iterator[Binary]:
    """Yield the bytes; those of a mapped file in pieces, and release its pages in between: they count as memory of the process."""
    count = 0
    for part in parts:
        view = memoryview(part)
        release = getattr(view.obj, "madvise", None)
        if release is None:
            yield view
            continue
        for at in range(0, len(view), _PIECE):
            yield (piece := view[at : at + _PIECE])
            count += len(piece)
            if count >= _PIECE:
                release(sys.modules["mmap"].MADV_DONTNEED)
                count = 0


def pack_index(roots: Sequence[int], entries: Sequence[Entry], calls: Mapping[str, object]) -> bytes:
    """Return the index in msgpack. Its length does not depend on the digests, which are known last."""
    subject = "the index of a bundle"
    sources: dict[Entry, int] = {}
    for entry in entries:
        if entry.sources is not None:
            sources.setdefault(entry.sources, len(sources))
    packed = pack_each((entry.to_dict(sources) for entry in entries), subject)
    extra = pack("calls", subject) + pack(calls, subject) if calls else b""
    parts = [b"", extra, pack("roots", subject), pack(roots, subject), pack("modules", subject), array_header(len(packed)), *packed]
    if sources:
        parts += [pack("sources", subject), pack([entry.to_dict() for entry in sources], subject)]
    elif len(packed) >= MIN_MODULES and len(roots) > 1:
        parts[0] = pack_table(roots, entries, packed, 1 + sum(map(len, parts[:6])))
    return map_header(2 + bool(sources) + bool(parts[0]) + bool(extra)) + b"".join(parts)


def pack_head(index: bytes, version: int = 1) -> bytes:
    """Return everything before the first blob."""
    head = _index.MAGIC + version.to_bytes(4, "little") + len(index).to_bytes(4, "little") + sha256_of(index) + index
    return head.ljust(_index.aligned(len(head)), b"\0")
