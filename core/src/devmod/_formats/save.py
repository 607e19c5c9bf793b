"""Write a tree into a bundle: first the plan of the file, then the bytes.

No payload is copied, and hashing overlaps with writing. The comment above the reader in `devmod._formats.index` has the layout.
"""

from __future__ import annotations

import gc
import os
import sys
from bisect import bisect_right
from itertools import accumulate, chain, pairwise

from devmod._formats import index as _index
from devmod._formats.blobs import compress as compressed
from devmod._formats.blobs import level_of, library_text, pack_sources, too_many_values
from devmod._formats.index import Entry, Unpacking
from devmod._formats.pages import Index, data_parts
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
    from typing import IO, BinaryIO

    from devmod._modules.agreement import Agreement
    from devmod._values.code import Binary
    from devmod._values.spec import TargetSpec

    #: The bytes of an entry in parts, or a function that returns them: those that must be read or decompressed are not kept.
    Parts = Sequence[Binary] | Callable[[], Sequence[Binary]]
    #: An entry with the size of its bytes, the bytes, and the stored module that has a digest for them.
    Blob = tuple[Entry, Parts, StoredModule | None]

#: Bytes of less than this size are hashed before the index is packed, which then is not packed again.
_SMALL = 1 << 16
#: The size of the pieces in which bytes are hashed and written, and of compressed bytes that stay in memory until they are written.
_PIECE, _MOST_KEPT = 4 << 20, 16 << 20
#: The size of a page, unless the records of one name take more; and the number of records that are in one page whatever their size.
PAGE_SIZE, MAX_SINGLE = 32 << 10, 64


class Plan:
    """The plan of a file: its modules and sources with their offsets. Nothing is written yet, and only compressed bytes were hashed.

    The parameters are those of `devmod.save`; many compressed bytes are in a file beside `path` until they are written. The
    caller's caller gets a UserWarning if a limit prevented the compression of payloads.
    """

    def __init__(self, module: Module, compress: str | None = None, with_sources: bool = False, path: str | os.PathLike[str] = "") -> None:
        if not isinstance(module, Module):
            raise FormatError(f"expected a Module to save, got {type(module).__name__}")
        self._level = level_of(compress)
        self._path = path
        self._file: IO[bytes] | None = None
        self._kept = self._mapped = 0
        #: Whether modules of a class and a kind have a payload, and the spec of the kind.
        self._known: dict[tuple[type, str], tuple[bool, TargetSpec | None]] = {}
        self._unpacking = Unpacking()
        #: The payloads and sources that are not compressed because of a limit: each with the reason.
        self._uncompressed: list[str] = []
        collects = gc.isenabled()
        gc.disable()  # the plan of many modules is many objects and no cycle, and the collector would visit them again and again
        try:
            self._plan(module, with_sources)
        finally:
            if collects:
                gc.enable()
        if self._uncompressed:
            import warnings

            others = f". So are {len(self._uncompressed) - 1} more" if len(self._uncompressed) > 1 else ""
            warnings.warn(escape(f"{self._uncompressed[0]}{others}"), UserWarning, stacklevel=3)

    def _plan(self, module: Module, with_sources: bool) -> None:
        roots = module.imports if isinstance(module, BundleModule) else (module,)
        order = ordered(roots)
        same = _equal_constants([module for module, _ in order])
        order = [each for each in order if id(each[0]) not in same]
        numbers = {id(module): number for number, (module, _) in enumerate(order)}
        numbers |= {other: numbers[id(module)] for other, module in same.items()}
        #: The sources by their digest: variants of one kernel have the same.
        self._sources: dict[bytes, Blob] = {}
        with shared_scan():
            modules = [self._blob_of(module, with_sources) for module, _ in order]
        for (_, imports), (entry, _, _) in zip(order, modules, strict=True):
            entry.imports = tuple([numbers[id(child)] for child in imports])
        entries = [entry for entry, _, _ in modules]
        texts = chain.from_iterable((entry.fmt, entry.variant, *entry.functions) for entry in entries)
        is_plain = {*map(type, texts)} <= {str}
        in_order, self._roots = _in_order(entries, list(dict.fromkeys(numbers[id(root)] for root in roots)), is_plain)
        blobs = [*(modules[number] for number in in_order), *self._sources.values()]
        self._entries, self._blobs = [entry for entry, _, _ in blobs], [blob for blob in blobs if blob[0].offset is not None]
        for entry, parts, _ in self._blobs:
            if entry.size < _SMALL and entry.digest == _index.NO_DIGEST:
                entry.digest = sha256_of(self._joined(parts))
        calls: Mapping[str, Agreement] = {}
        if isinstance(module, BundleModule) and len(roots) > 1:
            names = [name for entry in entries for name in entry.functions]
            if module.agreements is not None:
                calls = module.agreements
            elif len({*names}) < len(names):  # else no function has several candidates
                calls = agreements(roots)
        self._calls = pack_agreements(calls)
        self._index = head, pages = pack_index(self._roots, self._entries, self._calls)
        if (most := max(map(len, (head, *pages)))) > _index.MAX_INDEX:
            raise FormatError(f"a part of the bundle's index would be {most} bytes, and the most a file holds are {_index.MAX_INDEX}")
        self._start = _index.aligned(_index.HEADER + sum(map(len, (head, *pages))))
        end = self._start
        for entry, _, _ in self._blobs:
            entry.offset = _index.aligned(end)
            end = entry.offset + entry.size if entry.size else end
        #: The size of the whole file.
        self.size = end
        # Every file that is written can be read. The reader of the index takes longer than the rest of the plan, so it checks only values
        # that it might refuse.
        subject = "the bundle to be saved"
        heights: dict[int, int] = {}
        for root in [root for root in self._roots if self._entries[root].imports]:
            _index.check_tree(root, lambda number: self._entries[number].imports, heights, subject)
        _index.check_nodes(entries, subject)
        if not is_plain or any(entry.origin.extra for entry in entries if entry.origin is not None):
            data = memoryview(b"".join([bytes(_index.HEADER), head, *pages]))
            index = Index(memoryview(head), subject, end, data_parts(data))
            for number, entry in enumerate(index.entries()):
                if entry.origin_at >= 0:
                    index.origin(number)

    def write(self, file: BinaryIO) -> None:
        """Write the file. The index, which has the digests, is written last."""
        file.write(bytes(self._start))
        digests = run_both(self._digests, lambda: self._write_blobs(file), self.size)
        head, pages = self._index
        for (entry, _, module), digest in zip(self._blobs, digests, strict=True):
            if entry.digest == _index.NO_DIGEST:
                entry.digest, pages = digest, []
            if module is not None:
                module.check(digest)
        if not pages:
            head, pages = pack_index(self._roots, self._entries, self._calls)
        file.seek(0)
        for part in (pack_header(head), head, *pages):
            file.write(part)

    def _digests(self) -> list[bytes]:
        from hashlib import sha256

        results = []
        for entry, parts, _ in self._blobs:
            if entry.digest != _index.NO_DIGEST:  # `parts` checks it
                results.append(entry.digest)
                continue
            digest = sha256()
            for piece in self._pieces(_read(parts)):
                digest.update(piece)
            results.append(digest.digest())
        return results

    def _write_blobs(self, file: BinaryIO) -> None:
        end = self._start
        for entry, parts, _ in self._blobs:
            if entry.size:
                assert entry.offset is not None
                padding = bytes(entry.offset - end)
                for piece in (padding + self._joined(parts),) if entry.size < _SMALL else self._pieces([padding, *_read(parts)]):
                    file.write(piece)
                end = entry.offset + entry.size

    def _joined(self, parts: Parts) -> bytes:
        return b"".join(self._pieces(parts()) if callable(parts) else parts)

    def _pieces(self, parts: Iterable[Binary]) -> Iterator[Binary]:
        """Yield the bytes; those of a mapped file in pieces, and release its pages now and then: they count as memory of the process."""
        for part in parts:
            view = memoryview(part)
            release = getattr(view.obj, "madvise", None)
            if release is None:
                yield part
                continue
            for at in range(0, len(view), _PIECE):
                yield (piece := view[at : at + _PIECE])
                self._mapped += len(piece)
                if self._mapped >= _PIECE:
                    release(sys.modules["mmap"].MADV_DONTNEED)
                    self._mapped = 0

    def _keep(self, data: bytes) -> Parts:
        """Keep compressed bytes until they are written: in memory, or in a file if they are many."""
        self._kept += len(data)
        if self._kept <= _MOST_KEPT or not self._path:
            return (data,)
        if self._file is None:
            from tempfile import TemporaryFile

            self._file = TemporaryFile(dir=os.path.dirname(os.path.realpath(self._path)))  # noqa: SIM115 - until the plan ends
        file, at, size = self._file, self._file.seek(0, 2), len(data)
        file.write(data)
        return lambda: (file.seek(at), (file.read(size),))[1]

    def _blob_of(self, module: Module, with_sources: bool) -> Blob:
        """Return a module's entry without imports, offset and digest; its bytes; and the stored module that checks their digest."""
        if isinstance(module, (BundleModule, LibraryModule)):
            return Entry(_index.BUNDLE if isinstance(module, BundleModule) else LIBRARY), (), None
        kind = module.kind
        known = self._known.get((type(module), kind))
        if known is None:
            if not is_valid_name(kind) or kind == _index.BUNDLE:
                module.wire_parts()  # a module of TVM alone has an error of its own
                raise FormatError(f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind", kind=kind)
            spec = None if isinstance(module, StoredModule) else find_spec(kind)  # a stored module does not need it
            known = self._known[type(module), kind] = isinstance(module, PayloadModule), spec
        has_payload, spec = known
        entry = Entry(kind, fmt=module.format, functions=tuple(module.function_names), origin=module.origin, offset=0)
        if not has_payload and isinstance(module, StoredModule):
            stored = module.entry
            entry.variant, entry.repeats = variant_of(module), stored.repeats
            entry.size, entry.unpacked = stored.size, stored.unpacked
            # `write` compares the digest of a stored module with the one that it computes for the file.
            blob = self._pack(entry, module.unverified, module.unpack, module)
        else:
            parts: Sequence[Binary] = tuple([part if type(part) is bytes else flat(part) for part in module.wire_parts()])
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
            entry.size, entry.digest, entry.unpacked = len(results[0]), sha256_of(results[0]), (len(data), digest)
            parts = self._keep(results[0])
        elif not callable(parts):
            parts = (data,)
        for _ in self._pieces(pieces):  # they were read
            pass
        return entry, parts, None

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
            blob = module.sources
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


def _in_order(entries: Sequence[Entry], roots: Sequence[int], is_plain: bool) -> tuple[list[int], list[int]]:
    """Set the ranks of candidates, and number the records: candidates in the order of their first names, then the others in theirs.

    Returns
    -------
    tuple
        The old numbers in the new order, and the new numbers of the roots. The imports have new ones.
    """
    nodes = {number: entry.imports for number, entry in enumerate(entries) if entry.kind == _index.BUNDLE}
    candidates = _index.candidates_of(roots, nodes.get)
    for rank, number in enumerate(candidates):
        entries[number].rank = rank
    firsts = {
        number: min(entries[number].functions if is_plain else map(str, entries[number].functions), default="") for number in candidates
    }
    named = sorted((number for number in candidates if entries[number].functions), key=firsts.__getitem__)  # it keeps the order of equals
    chosen = {*named}
    order = named + [number for number in range(len(entries)) if number not in chosen]
    numbers = {old: new for new, old in enumerate(order)}
    for entry in [entry for entry in entries if entry.imports]:
        entry.imports = tuple([numbers[each] for each in entry.imports])
    return order, [numbers[each] for each in roots]


def pack_index(roots: Sequence[int], entries: Sequence[Entry], calls: Mapping[str, object]) -> tuple[bytes, list[bytes]]:
    """Return the head and the pages. Their lengths do not depend on the digests, which are known last.

    `entries` are the records in their order: candidates in the order of their first names, the other modules, and sources.
    """
    subject = "the index of a bundle"
    sources = {entry: number for number, entry in enumerate(entries) if not entry.kind}
    packed = pack_each((entry.to_dict(sources) for entry in entries), subject)
    modules = len(entries) - len(sources)
    rows, pages, before = list[list[object]](), list[bytes](), b""
    for first, stop, name, others, names in _split(entries, packed, calls):
        middle = max(first, min(stop, modules))
        parts = {
            "modules": [array_header(middle - first), *packed[first:middle]] if middle > first else [],
            "sources": [array_header(stop - middle), *packed[middle:stop]] if stop > middle else [],
            "names": [pack(others, subject)] if others else [],
            "calls": [pack({each: calls[each] for each in names}, subject)] if names else [],
        }
        used = {key: part for key, part in parts.items() if part}
        pages.append(map_header(len(used)) + b"".join([piece for key, part in used.items() for piece in (pack(key, subject), *part)]))
        end = 0
        for entry in entries[first:stop]:
            end = _index.aligned(end) + entry.size if entry.size else end
        rows.append([stop - first, len(pages[-1]), end, sha256_of(pages[-1])])
        if name is not None:
            kept = _common(before, name)
            rows[-1] += [kept, name[kept:]]
            before = name
    ranked = [number for _, number in sorted((entry.rank, number) for number, entry in enumerate(entries) if entry.rank is not None)]
    fields: dict[str, object] = {"candidates": len(ranked), "roots": roots, "pages": rows}
    if ranked == roots:
        del fields["roots"]
    return pack(fields, subject), pages


def _split(
    entries: Sequence[Entry], packed: Sequence[bytes], calls: Mapping[str, object]
) -> Iterator[tuple[int, int, bytes | None, list[tuple[str, list[int]]], list[str]]]:
    """Yield the parts of each page.

    They are its first record and the one behind its last, the name from which on it has the names (None: it has none), those names that
    candidates of other pages have with their numbers, and its names in `calls`.
    """
    if len(entries) <= MAX_SINGLE:
        yield 0, len(entries), b"", [], sorted(calls)
        return
    firsts = [min(entry.functions) for entry in entries if entry.rank is not None and entry.functions]
    further: dict[str, list[int]] = {}
    for number, first in enumerate(firsts):
        for name in {*entries[number].functions} - {first} if len(entries[number].functions) > 1 else ():
            further.setdefault(name, []).append(number)
    names = sorted({*firsts, *further})
    starts: list[tuple[int, int, bytes | None]] = []  # of each page, its first record, the position of its first name, and that name
    stops = [bisect_right(firsts, name) for name in names]
    before = [0, *accumulate(map(len, packed))]
    sizes = [before[stop] - before[start] for start, stop in pairwise([0, *stops])]
    for position in [position for position, name in enumerate(names) if name in further]:
        sizes[position] += len(names[position]) + 4 + 5 * len(further[names[position]])
    position = 0
    while position < len(names):
        behind, size = position, 0
        while behind < len(names) and (behind == position or size + sizes[behind] <= PAGE_SIZE):
            size += sizes[behind]
            behind += 1
        if behind < len(names):  # the shortest text between the names of two pages keeps the head small
            behind = min(range(behind - (behind - position) // 8, behind + 1), key=lambda each: len(_between(names, each)))
        starts.append((stops[position - 1] if position else 0, position, _between(names, position)))
        position = behind
    size = PAGE_SIZE if not names else sum(sizes[starts[-1][1] :])
    for number in range(len(firsts), len(entries)):
        if size + len(packed[number]) > PAGE_SIZE:
            starts.append((number, len(names), None))
            size = 0
        size += len(packed[number])
    for (begin, position, between), (stop, behind, _) in pairwise([*starts, (len(entries), len(names), None)]):
        own = names[position:behind]
        others = [(each, found) for each in own if each in further and (found := [one for one in further[each] if not begin <= one < stop])]
        yield begin, stop, between, others, [name for name in own if name in calls]


def _between(names: Sequence[str], position: int) -> bytes:
    """Return the shortest text behind the name before a position, and not behind the name there."""
    name = names[position].encode()
    return name[: _common(names[position - 1].encode(), name) + 1] if position else b""


def _common(one: bytes, other: bytes) -> int:
    """Return the number of bytes with which both begin."""
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))


def pack_header(head: bytes) -> bytes:
    """Return the header of a file."""
    return _index.MAGIC + _index.NUMBER.to_bytes(4, "little") + len(head).to_bytes(4, "little") + sha256_of(head)
