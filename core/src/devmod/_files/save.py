"""Write a tree into a bundle: first the plan of the file, then the bytes.

No payload is copied, and hashing overlaps with writing. The comment above the reader in
`devmod._formats.index` has the layout.
"""

from __future__ import annotations

import gc
import os
import sys
from itertools import chain

from devmod._files.carried import Unknown, attachments, files_of, kept_head
from devmod._files.index_writer import IndexWriter
from devmod._files.order import Order
from devmod._formats import index as _index
from devmod._formats.index import ATTACHMENT, MODULE, NO_DIGEST, PART, SOURCES, Unpacking
from devmod._formats.pages import Index, data_parts
from devmod._formats.wire import pack, packer, share_shaders, split_payloads
from devmod._modules.module import LibraryModule, Module, holds_candidates, ordered
from devmod._modules.payload import PayloadModule
from devmod._modules.stored import StoredModule
from devmod._modules.variant import variant_of, variant_of_code
from devmod._plugins.discovery import shared_scan
from devmod._plugins.specs import find_spec
from devmod._util.buffers import flat
from devmod._util.digest import run_both, sha256_of, sha256_of_parts
from devmod._util.text import escape, is_valid_name
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from typing import IO, BinaryIO

    from devmod._files.constants import ConstantForm
    from devmod._files.index_writer import Parts, Record
    from devmod._formats.index import Entry
    from devmod._formats.parts import StoredPart
    from devmod._formats.repeats import Repeats
    from devmod._modules.bundle import BundleModule
    from devmod._values.code import AnyPath, Binary, Fields
    from devmod._values.spec import TargetSpec

    #: The size and the digest to which compressed bytes unpack. None: they are not compressed.
    Unpacked = tuple[int, bytes] | None
    #: The size of the bytes of a record, their digest, to what they unpack, and the bytes.
    Location = tuple[int, bytes, Unpacked, Parts]
    #: The variant of a module, the repeats in its bytes, how many bytes behind a multiple of 64
    #: they begin, and their location.
    Located = tuple[str | None, Repeats, int, Location]
    #: What the bytes of a record are of: a module, a part of a loaded file, or the role
    #: of a new part.
    Owner = Module | StoredPart | str

#: Bytes of less than this size are hashed before the index is packed, which then is not packed
#: again.
_SMALL = 1 << 16
#: The size of the pieces in which bytes are hashed and written, and of compressed bytes that stay
#: in memory until they are written.
_PIECE = 4 << 20
_MOST_KEPT = 16 << 20
_SUBJECT = "the index of a bundle"
_NONE: Record = (b"", 0, (), 0)
#: The names of parts in messages, by their roles.
_NOUNS = {SOURCES: "a source", PART: "a constant", ATTACHMENT: "an attachment"}
#: A payload that is not text begins at a multiple of this size: its format may have words.
_PAYLOAD_ALIGN = 16
#: Of what number the offset of a part is a multiple, by its least size. Devices take memory in
#: place that begins with a page, of 16 KiB on some processors. It costs few parts of a large file.
_PART_ALIGNS = ((1 << 20, 16 << 10), (64 << 10, 4 << 10))
#: The form of nodes without bytes.
_BARE = object()


class Plan:
    """The plan of a file: the records of its modules and sources. Nothing is written yet, and only
    small and compressed bytes were hashed.

    The parameters are those of `devmod.save`; many compressed bytes are in a file beside `path`
    until they are written. The caller's caller gets a UserWarning if a limit prevented the
    compression of payloads.
    """

    def __init__(
        self,
        module: Module,
        compress: str | None = None,
        with_sources: bool = False,
        path: AnyPath = "",
    ) -> None:
        if not isinstance(module, Module):
            hint = ""
            if isinstance(path, Module):
                hint = ". The module comes before the path"
            raise FormatError(f"expected a Module to save, got {type(module).__name__}{hint}")
        #: The level of zstd: 0 compresses nothing, -1 leaves bytes as they are.
        self._level = -1
        if compress is not None:
            from devmod._formats.blobs import level_of

            self._level = level_of(compress)
        self._with_sources = with_sources
        self._path = path
        self._file: IO[bytes] | None = None
        self._kept = self._mapped = self._bare = 0
        #: The results of `_form_of`.
        self._known: dict[tuple[type, str], tuple[object, TargetSpec | None]] = {}
        self._unpacking = Unpacking()
        #: The payloads and sources that are not compressed because of a limit: each with the
        #: reason.
        self._uncompressed: list[str] = []
        self._names = Unknown()
        #: The numbers of the sources, and whether they are compressed, by their digest: variants of
        #: one kernel have the same.
        self._sources: dict[bytes, tuple[int, bool]] = {}
        #: The fields and the modules of the records whose digests are computed while the file is
        #: written.
        self._unknown: dict[int, tuple[Fields, Owner]] = {}
        #: The numbers of the parts, by their identities.
        self._parts: dict[int, int] = {}
        #: The fields of the records of large parts, whose offset depends on what is before them,
        #: and of what number each is a multiple.
        self._large: dict[int, tuple[Fields, int]] = {}
        #: Whether all texts are strings, and no origin has keys that devmod does not know.
        self._is_plain = True
        self._pack = packer()
        collects = gc.isenabled()
        # The plan of many modules is many objects and no cycle, and the collector would visit them
        # again and again.
        gc.disable()
        try:
            self._plan(module)
        finally:
            if collects:
                gc.enable()
        for problems, words in (
            (self._uncompressed, "So are"),
            (self._names.dropped, "So it is with"),
        ):
            if problems:
                self._warn(problems, words)

    def _warn(self, problems: Sequence[str], words: str) -> None:
        """Warn about the first problem, with the number of the others."""
        import warnings

        text = problems[0]
        others = len(problems) - 1
        if others:
            text += f". {words} {others} more"
        warnings.warn(escape(text), UserWarning, stacklevel=4)

    def _plan(self, module: Module) -> None:
        roots: Sequence[Module] = (module,)
        if holds_candidates(module):
            roots = module.imports
        found = ordered(roots)
        loaders = []
        for each, _ in found:
            if each.kind == _index.CONSTANTS or (
                each._devmod_file is not None and _has_parts(each)
            ):
                loaders.append(each)
        forms: dict[int, ConstantForm] = {}
        same: dict[int, Module] = {}
        if loaders:
            from devmod._files.constants import plan_constants

            forms, same = plan_constants(loaders)
        with shared_scan():
            order = Order(roots, found, same)
            count = len(order.modules)
            self._records = [_NONE] * count
            #: The kind, the format and the variant of each module.
            self._claims = [("", "", "")] * count
            self._add_modules(order, forms)

        calls = _calls_of(module, roots, order.counts)
        files = files_of((module, *order.modules))
        attached = self._attach(module, files, order)
        self._writer = IndexWriter(
            order,
            self._records,
            self._first_part,
            attached,
            self._claims,
            calls,
            self._further_head(files),
        )
        if self._large:
            self._place_large()
        head, pages, size = self._index = self._writer.pack()
        sizes = [len(head), *map(len, pages)]
        if max(sizes) > _index.MAX_INDEX:
            raise FormatError(
                f"a part of the bundle's index would be {max(sizes)} bytes, and the most a file holds are {_index.MAX_INDEX}"
            )
        self._start = _index.aligned(_index.HEADER + sum(sizes), self._align)
        #: The size of the whole file.
        self.size = self._start + size
        for data in self._sections:
            if data:
                self.size = _index.aligned(self.size) + len(data)
        self._check_index(order)

    def _add_modules(self, order: Order, forms: dict[int, ConstantForm]) -> None:
        """Make the records of all modules, of their sources and of the parts."""
        last = []
        for place, module in enumerate(order.modules):
            form = forms.get(id(module))
            if form is not None and form.parts:
                # The records of parts are behind those of all sources.
                self._sources_of(module)
                last.append((place, form))
            else:
                self._add_module(order, place, form)
        #: The number of the first part.
        self._first_part = len(self._records)
        for place, form in last:
            self._add_module(order, place, form)

    def _attach(self, module: Module, files: Sequence[Index], order: Order) -> dict[str, list[int]]:
        """Make the records of attachments, and return their numbers by function."""
        results: dict[str, list[int]] = {}
        sources = module._records.sources
        if not files and not sources:
            return results
        names = {*chain.from_iterable(order.names)}
        for function, by_tag in attachments(sources, files, names, self._names).items():
            for tag, part in by_tag.items():
                fields: Fields = {"function": function, "tag": tag}
                number = self._append_part(part, ATTACHMENT, NO_DIGEST, fields)
                results.setdefault(function, []).append(number)
        return results

    def _further_head(self, files: Sequence[Index]) -> Fields:
        """Return the further keys of the head, and keep the bytes of sections."""
        head: Fields = {}
        #: Of what number the offset of the first record's bytes is a multiple.
        self._align = _index.ALIGN
        if self._large:
            self._align = head["align"] = max([align for _, align in self._large.values()])
        #: The bytes of the sections.
        self._sections: Sequence[Binary] = ()
        if not files:
            return head
        keys, sections = kept_head(files, self._names)
        self._sections = [*sections.values()]
        if sections:
            head["sections"] = [
                [name, len(data), sha256_of(data)] for name, data in sections.items()
            ]
        if keys or sections:
            self._is_plain = False
        return head | keys

    def _place_large(self) -> None:
        """Decide where the large parts begin."""
        end = 0
        for number in self._writer.numbers:
            packed, size, parts, shift = self._records[number]
            start = _index.aligned(end)
            if number in self._large:
                fields, align = self._large[number]
                shift = _index.aligned(start, align) - start
                fields["shift"] = shift
                if not shift:
                    del fields["shift"]
                packed = self._pack(fields, _SUBJECT)
                self._records[number] = (packed, size, parts, shift)
            if size:
                end = start + shift + size

    def _check_index(self, order: Order) -> None:
        """Check that the file can be read.

        The reader of the index takes longer than the rest of the plan, so it checks only values
        that it might refuse.
        """
        subject = "the bundle to be saved"
        heights: dict[int, int] = {}
        numbers = order.numbers
        inner = {}
        for place, imports in order.imports.items():
            inner[numbers[place]] = [numbers[each] for each in imports]
        for place in order.tops:
            if place in order.imports:
                _index.check_tree(
                    numbers[place], lambda number: inner.get(number, ()), heights, subject
                )
        _index.check_nodes(self._bare, len(order.modules), subject)

        if self._is_plain and {*map(type, chain.from_iterable(order.names))} <= {str}:
            return
        head, pages, _ = self._index
        data = memoryview(b"".join([bytes(_index.HEADER), head, *pages]))
        index = Index(memoryview(head), subject, self.size, data_parts(data))
        for number, entry in enumerate(index.entries()):
            if entry.origin_at >= 0:
                index.origin(number)

    # -- the bytes

    def write(self, file: BinaryIO) -> None:
        """Write the file. The index, which has the digests, is written last."""
        file.write(bytes(self._start))
        digests = run_both(self._digests, lambda: self._write_parts(file), self.size)
        for (number, (fields, owner)), digest in zip(self._unknown.items(), digests, strict=True):
            _check(owner, digest)
            packed = self._pack(fields | {"sha256": digest}, _SUBJECT)
            self._records[number] = (packed, *self._records[number][1:])
        head, pages, _ = self._index
        if self._unknown:
            head, pages, _ = self._writer.pack()
        file.seek(0)
        header = (
            _index.MAGIC,
            _index.NUMBER.to_bytes(4, "little"),
            len(head).to_bytes(4, "little"),
            sha256_of(head),
            head,
        )
        file.write(b"".join(header))
        file.writelines(pages)

    def close(self) -> None:
        """Remove the temporary file of compressed bytes."""
        if self._file is not None:
            self._file.close()

    def _digests(self) -> list[bytes]:
        """Compute the digests that are unknown, in their order."""
        return [sha256_of_parts(self._pieces(self._records[number][2])) for number in self._unknown]

    def _write_parts(self, file: BinaryIO) -> None:
        end = 0
        for number in self._writer.numbers:
            _, size, parts, shift = self._records[number]
            if size:
                file.write(bytes(-end % _index.ALIGN + shift))
                file.writelines(self._pieces(parts))
                end = shift + size
        for data in self._sections:
            if data:
                file.writelines((bytes(-end % _index.ALIGN), data))
                end = len(data)

    def _pieces(self, parts: Parts) -> Iterator[Binary]:
        """Yield the bytes; those of a mapped file in pieces, and release its pages now and then:
        they count as memory of the process.
        """
        if callable(parts):
            parts = parts()
        for part in parts:
            view = memoryview(part)
            release = getattr(view.obj, "madvise", None)
            if release is None:
                yield part
                continue
            for at in range(0, len(view), _PIECE):
                piece = view[at : at + _PIECE]
                yield piece
                self._mapped += len(piece)
                if self._mapped >= _PIECE:
                    release(sys.modules["mmap"].MADV_DONTNEED)
                    self._mapped = 0

    def _keep(self, data: bytes) -> Parts:
        """Keep compressed bytes until they are written: in memory, or in a file if they are
        many.
        """
        self._kept += len(data)
        if self._kept <= _MOST_KEPT or not self._path:
            return (data,)
        if self._file is None:
            from tempfile import TemporaryFile

            self._file = TemporaryFile(dir=os.path.dirname(os.path.realpath(self._path)))  # noqa: SIM115 - until the plan ends
        file = self._file
        at = file.seek(0, os.SEEK_END)
        size = len(data)
        file.write(data)

        def read() -> Sequence[Binary]:
            file.seek(at)
            return (file.read(size),)

        return read

    # -- the records

    def _add_module(self, order: Order, place: int, constants: ConstantForm | None) -> None:
        """Make the record of a module. `constants` is the form of constants, which have one."""
        module = order.modules[place]
        kind = module.kind
        form, spec = self._known.get((type(module), kind)) or self._form_of(module, kind)
        fmt = module.format
        number = order.numbers[place]
        if form is _BARE:
            self._bare += 1
            self._claims[number] = (kind, "", "")
            self._records[number] = self._record(number, _fields_of(order, place, kind, "", ""))
            return

        wire: Sequence[Binary] | None = None
        if constants is not None:
            wire = constants.wire
        if form is StoredModule and wire is None:
            variant, repeats, shift, location = self._locate_stored(module, fmt)
        else:
            if wire is None:
                wire = module.wire_parts()
            variant, repeats, shift, location = self._locate_made(module, form, spec, fmt, wire)
        if type(fmt) is not str or type(variant) is not str:
            self._is_plain = False
        self._claims[number] = (kind, fmt, variant or "")
        fields = _fields_of(order, place, kind, fmt, variant)

        sources = None
        are_compressed = False
        if self._with_sources or form is not PayloadModule:
            sources, are_compressed = self._sources_of(module)
        entry = None
        if form is StoredModule:
            entry = module.entry  # type: ignore[attr-defined]
        origin = self._origin_of(module, are_compressed or location[2] is not None, entry)
        if origin:
            fields["origin"] = origin
        _add_location(fields, location, shift, repeats)
        if sources is not None:
            fields["sources"] = sources
        if constants is not None and constants.parts:
            fields["parts"] = [self._part_of(*each) for each in constants.parts]
        if entry is not None and (entry.features or entry.extra):
            self._add_newer(fields, module)  # type: ignore[arg-type]
        self._records[number] = self._record(number, fields, location[3], module)

    def _add_newer(self, fields: Fields, owner: StoredModule | StoredPart) -> None:
        """Add the features and the unknown keys of a stored record."""
        entry = owner.entry
        if entry.features:
            fields["features"] = entry.features
        explained = bool(entry.features)
        fields |= self._names.keys(entry.extra, owner.subject, explained=explained)
        self._is_plain = False

    def _locate_stored(self, module: Module, fmt: str) -> Located:
        """Return the variant, the repeats and the shift of a stored module, and its location."""
        assert isinstance(module, StoredModule)
        shift = module.entry.shift
        if not module.has_digest:
            spec = find_spec(module.kind)
            if spec is not None:
                shift = _shift_of(spec, fmt, module.wire_parts())
        return variant_of(module), module.entry.repeats, shift, self._locate_part(module)

    def _locate_made(
        self,
        module: Module,
        form: object,
        spec: TargetSpec | None,
        fmt: str,
        wire: Sequence[Binary],
    ) -> Located:
        """Return the same for another module, whose bytes are `wire`."""
        parts: Sequence[Binary] = [
            part if type(part) is bytes else flat(part)  # nearly every part is bytes
            for part in wire
        ]
        repeats: Repeats = ()
        shift = 0
        if form is PayloadModule and spec is not None:
            variant = variant_of_code(spec, fmt, module.code)  # type: ignore[attr-defined]
            shift = _shift_of(spec, fmt, parts)
        else:
            variant = variant_of(module, parts)
        if spec is not None and spec.shader_map:
            parts, repeats = share_shaders(spec, parts)
        size = sum(map(len, parts))
        return variant, repeats, shift, self._locate(size, parts, module, repeats)

    def _form_of(self, module: Module, kind: str) -> tuple[object, TargetSpec | None]:
        """Return how modules of a class and a kind are saved, and the spec of the kind."""
        form: object = None
        spec = None
        if holds_candidates(module) or isinstance(module, LibraryModule):
            form = _BARE
        elif not is_valid_name(kind) or kind == _index.BUNDLE:
            module.wire_parts()  # a module of TVM alone has an error of its own
            raise FormatError(
                f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind",
                kind=kind,
            )
        elif isinstance(module, PayloadModule):
            form = PayloadModule
            spec = find_spec(kind)
        elif isinstance(module, StoredModule):
            form = StoredModule  # it does not need the spec
        else:
            spec = find_spec(kind)
        self._known[type(module), kind] = form, spec
        return form, spec

    def _origin_of(self, module: Module, is_compressed: bool, entry: Entry | None) -> Fields:
        """Return the origin of a module as the file is to have it: with the library that compressed
        its bytes or its sources, or without it; as it is if its record has features. {}: there is
        none.
        """
        origin = module.origin
        fields: Fields = {}
        if origin is not None:
            fields = origin.to_dict()
            if origin.extra:
                self._is_plain = False
        if entry is not None and entry.features:
            return fields
        if not is_compressed:
            if fields.pop(_index.COMPRESSION, "") and fields == {"target": ""}:
                return {}
        elif self._level > 0 and _index.COMPRESSION not in fields:
            from devmod._formats.blobs import library_text

            return {"target": "", **fields, _index.COMPRESSION: library_text(self._level)}
        return fields

    def _record(
        self, number: int, fields: Fields, parts: Parts = (), owner: Owner = SOURCES
    ) -> Record:
        """Return a record. A digest that is unknown is computed while the file is written, and
        compared with that of a stored module.
        """
        if fields.get("sha256") == NO_DIGEST:
            self._unknown[number] = fields, owner
        return self._pack(fields, _SUBJECT), fields.get("size", 0), parts, fields.get("shift", 0)

    def _locate_part(self, part: StoredModule | StoredPart) -> Location:
        """Return the location of bytes of a loaded file, decompressed if the new one has them
        so.
        """
        entry = part.entry
        unpacked = entry.unpacked
        if entry.features:  # what the bytes are is unknown
            return self._hashed(entry.size, part.unverified, part, unpacked)
        if unpacked is None:
            return self._locate(entry.size, part.unverified, part, entry.repeats)
        if self._level and self._fits(part, entry.size, unpacked[0], entry.repeats):
            return self._hashed(entry.size, part.unverified, part, unpacked)
        return (*unpacked, None, lambda: (part.unpack(),))

    def _locate(
        self,
        size: int,
        parts: Parts,
        owner: Owner,
        repeats: Repeats = (),
        digest: bytes = NO_DIGEST,
    ) -> Location:
        """Return the location of bytes that are not compressed, compressed if the file is to have
        them so.

        Parameters
        ----------
        size, parts
            The bytes.
        owner
            What they are of. A stored module, or a stored part, checks the digest of `parts`.
        digest
            Their SHA-256, if it is known.
        """
        if self._level > 0:
            return self._compress(size, parts, owner, repeats)
        return self._hashed(size, parts, owner, digest=digest)

    def _hashed(
        self,
        size: int,
        parts: Parts,
        owner: Owner,
        unpacked: Unpacked = None,
        digest: bytes = NO_DIGEST,
    ) -> Location:
        """Return a location. The digest of few bytes is computed and checked now."""
        if size < _SMALL and digest == NO_DIGEST:
            digest = sha256_of(b"".join(self._pieces(parts)))
            _check(owner, digest)
        return size, digest, unpacked, parts

    def _compress(self, size: int, parts: Parts, owner: Owner, repeats: Repeats) -> Location:
        """Compress bytes, if that makes them smaller."""
        from devmod._formats.blobs import compress

        pieces = parts() if callable(parts) else parts
        # The output of the library depends on the pieces of its input, so the input is one piece.
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        results = []
        digest = run_both(
            lambda: sha256_of(data), lambda: results.append(compress(data, self._level)), size
        )
        _check(owner, digest)
        result = results[0]
        location: Location = (size, digest, None, parts)
        if len(result) < size and self._fits(owner, len(result), size, repeats, data):
            location = (len(result), sha256_of(result), (size, digest), self._keep(result))
        elif not callable(parts):
            location = (size, digest, None, (data,))
        for _ in self._pieces(pieces):  # they were read
            pass
        return location

    def _fits(
        self, owner: Owner, size: int, unpacked: int, repeats: Repeats, data: Binary = b""
    ) -> bool:
        """Return whether the file may have `unpacked` bytes compressed to `size`, and note it if
        not.
        """
        from devmod._formats.blobs import too_many_values
        from devmod._formats.repeats import MAX_REPEATS, repeated_size

        total = unpacked + repeated_size(repeats)
        most = size * MAX_REPEATS
        role = _role_of(owner)
        values = 0
        if role in (MODULE, SOURCES):
            values = too_many_values(data, size)
        if total <= most and not values:
            if self._unpacking.add(size, unpacked):
                return True
            most = self._unpacking.free + size * _index.MAX_RATIO
        if isinstance(owner, Module):
            subject = f"the {owner.kind} module with {list_names(owner.function_names)}"
        else:
            subject = _NOUNS[role]
        limit = f"{most}"
        if values:
            limit = f"{values} msgpack objects"
        self._uncompressed.append(
            f"{subject} is stored without compression: its {total} bytes compress to {size}, and readers of a file accept at most "
            f"{limit} from these"
        )
        return False

    def _sources_of(self, module: Module) -> tuple[int | None, bool]:
        """Return the number of a module's sources, and whether they are compressed; None and False
        if there are none to save.
        """
        if isinstance(module, StoredModule):
            sources = module.sources
            if sources is None or not sources.entry.stored_size:
                return None, False
            key = sources.digest
            if key not in self._sources:
                self._add_sources(key, self._locate_part(sources), sources)
            return self._sources[key]

        if not self._with_sources:
            return None, False
        data = _pack_sources(module)
        if not data:
            return None, False
        key = sha256_of(data)
        if key not in self._sources:
            self._add_sources(key, self._locate(len(data), (data,), SOURCES, digest=key), SOURCES)
        return self._sources[key]

    def _add_sources(self, key: bytes, location: Location, owner: StoredPart | str) -> None:
        number = self._append(location, owner)
        self._sources[key] = number, location[2] is not None

    def _part_of(self, part: StoredPart | Binary, digest: bytes) -> int:
        """Return the number of a part. It is added once."""
        key = id(part)
        if key not in self._parts:
            self._parts[key] = self._append_part(part, PART, digest)
        return self._parts[key]

    def _append_part(
        self, part: StoredPart | Binary, role: str, digest: bytes, fields: Fields | None = None
    ) -> int:
        """Add the record of a new part, or of one of an open file, and return its number."""
        if isinstance(part, (bytes, memoryview)):
            location = self._locate(len(part), (part,), role, digest=digest)
            return self._append(location, role, fields)
        return self._append(self._locate_part(part), part, fields)

    def _append(
        self, location: Location, owner: StoredPart | str, fields: Fields | None = None
    ) -> int:
        """Add the record of bytes that are no module, with more fields, and return its number."""
        number = len(self._records)
        fields = fields or {}
        shift = 0
        align = _index.ALIGN
        if _role_of(owner) == PART and location[2] is None:
            align = _align_of(location[0])
        if align > _index.ALIGN:
            shift = _index.MAX_SHIFT  # until the place is known
            self._large[number] = fields, align
        _add_location(fields, location, shift)
        if not isinstance(owner, str):
            self._add_newer(fields, owner)
        self._records.append(self._record(number, fields, location[3], owner))
        return number


def _has_parts(module: Module) -> bool:
    """Return whether a module of a file has parts. Newer modules of other kinds may."""
    return isinstance(module, StoredModule) and bool(module.entry.parts)


def _check(owner: Owner, digest: bytes) -> None:
    """Compare the digest of bytes with that of the file in which they were."""
    # What is neither a module nor a text is a part of a file.
    if isinstance(owner, StoredModule) or not isinstance(owner, (Module, str)):
        owner.check(digest)


def _role_of(owner: Owner) -> str:
    if isinstance(owner, str):
        return owner
    if isinstance(owner, Module):
        return MODULE
    return owner.role


def _calls_of(
    module: Module, roots: Sequence[Module], functions: Counter[str]
) -> dict[str, list[object]]:
    """Return what the candidates of functions have in common. `functions` has the number of
    candidates with each function.
    """
    if not holds_candidates(module) or len(roots) < 2:
        return {}
    shared = [name for name, count in functions.items() if count > 1]
    if not shared:
        return {}
    from devmod._modules.agreement import agreements, pack_agreements

    bundle: BundleModule = module  # type: ignore[assignment]
    find = bundle.find_agreement
    if find is None:
        return pack_agreements(agreements(roots))
    calls = {}
    for name in shared:
        found = find(name)
        if found is not None:
            calls[name] = found
    return pack_agreements(calls)


def _fields_of(order: Order, place: int, kind: str, fmt: str, variant: str | None) -> Fields:
    """Return the first fields of the record of a module."""
    fields: Fields = {"kind": kind}
    imports = order.imports.get(place)
    if imports is not None:
        fields["imports"] = [order.numbers[each] for each in imports]
    if fmt:
        fields["format"] = fmt
    names = order.names[place]
    if names:
        fields["functions"] = names
    if variant:
        fields["variant"] = variant
    rank = order.ranks.get(place)
    if rank is not None:
        fields["rank"] = rank
    return fields


def _add_location(
    fields: Fields, location: Location, shift: int = 0, repeats: Repeats = ()
) -> None:
    """Add the fields of the bytes of a record."""
    size, digest, unpacked, _ = location
    fields["size"] = size
    fields["sha256"] = digest
    if shift:
        fields["shift"] = shift
    if unpacked is not None:
        fields[_index.COMPRESSED] = unpacked
    if repeats:
        fields["repeats"] = repeats


def _align_of(size: int) -> int:
    """Return of what number the offset of a part of a size is a multiple."""
    for least, align in _PART_ALIGNS:
        if size >= least:
            return align
    return _index.ALIGN


def _shift_of(spec: TargetSpec, fmt: str, parts: Sequence[Binary]) -> int:
    """Return how many bytes behind a multiple of 64 a module's bytes begin."""
    if fmt in spec.text_formats:
        return 0
    pieces = split_payloads(spec, parts)
    if len(pieces) != 2:
        return 0
    return -len(pieces[0]) % _PAYLOAD_ALIGN


def _pack_sources(module: Module) -> bytes:
    """Return the sources of a module for a file; b"" if there are none. A payload of text is not
    repeated.
    """
    source = dict(module.source)
    if not source:
        return b""
    spec = find_spec(module.kind)
    if spec is not None and module.format in spec.text_formats:
        source.pop(module.format, None)
    if not source:
        return b""
    return pack(source, f"the sources of the {module.kind} module")
