"""Write a tree into a bundle: first the plan of the file, then the bytes.

No payload is copied, and hashing overlaps with writing. The comment above the reader in
`devmod._formats.index` has the layout.
"""

from __future__ import annotations

import gc
import os
import sys
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, chain, pairwise

from devmod._formats import index as _index
from devmod._formats.blobs import compress as compressed
from devmod._formats.blobs import level_of, library_text, pack_sources, too_many_values
from devmod._formats.constants import ConstantPlan
from devmod._formats.index import NO_DIGEST, Unpacking
from devmod._formats.pages import Index, data_parts
from devmod._formats.parts import StoredPart
from devmod._formats.repeats import MAX_REPEATS, repeated_size
from devmod._formats.wire import (
    array_header,
    map_header,
    packer,
    payload_offset,
    share_shaders,
)
from devmod._modules.agreement import agreements, pack_agreements
from devmod._modules.bundle import BundleModule
from devmod._modules.module import LibraryModule, Module, ordered
from devmod._modules.payload import PayloadModule
from devmod._modules.stored import StoredModule
from devmod._modules.variant import variant_of, variant_of_code
from devmod._plugins.discovery import shared_scan
from devmod._plugins.specs import find_spec
from devmod._util.buffers import flat
from devmod._util.digest import run_both, sha256_of, sha256_of_parts
from devmod._util.text import escape, is_valid_name
from devmod._values.origin import Origin
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO, Any, BinaryIO

    from devmod._formats.repeats import Repeats
    from devmod._modules.agreement import Agreement
    from devmod._values.code import Binary
    from devmod._values.spec import TargetSpec

    #: The bytes of a record in parts, or a function that returns them: those that must be read or
    #: decompressed are not kept.
    Parts = Sequence[Binary] | Callable[[], Sequence[Binary]]
    #: The fields of a record in the order of the file; None for one that it lacks.
    Fields = dict[str, Any]
    #: The size and the digest to which compressed bytes unpack, and a function that returns the
    #: result. None: they are not compressed.
    Unpacked = tuple[int, bytes] | None
    Unpack = Callable[[], Binary] | None
    #: A record as the file has it, the size of its bytes, these, and how many bytes behind a
    #: multiple of 64 they begin.
    Record = tuple[bytes, int, Parts, int]
    #: What the bytes of a record are of: a module, a part of a loaded file, or the name of another
    #: thing in messages.
    Owner = Module | StoredPart | str

#: Bytes of less than this size are hashed before the index is packed, which then is not packed
#: again. They are written together.
_SMALL = 1 << 16
#: The size of the pieces in which bytes are hashed and written, and of compressed bytes that stay
#: in memory until they are written.
_PIECE, _MOST_KEPT = 4 << 20, 16 << 20
#: The size of a page, unless the records of one name take more; and the number of records that are
#: in one page whatever their size.
PAGE_SIZE, MAX_SINGLE = 32 << 10, 64
#: The bytes that a page has for each candidate of another page by a name: three integers.
_CLAIM_SIZE = 8
_SUBJECT = "the index of a bundle"
_NONE: Record = (b"", 0, (), 0)
_SOURCE = "a source"
_CONSTANT = "a constant"
#: A payload that is not text begins at a multiple of this size: its format may have words.
_PAYLOAD_ALIGN = 16
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
        path: str | os.PathLike[str] = "",
    ) -> None:
        if not isinstance(module, Module):
            raise FormatError(f"expected a Module to save, got {type(module).__name__}")
        self._level = level_of(compress)
        self._path = path
        self._file: IO[bytes] | None = None
        self._kept = self._mapped = self._bare = 0
        #: The results of `_form_of`.
        self._known: dict[tuple[type, str], tuple[object, TargetSpec | None]] = {}
        self._unpacking = Unpacking()
        #: The payloads and sources that are not compressed because of a limit: each with the
        #: reason.
        self._uncompressed: list[str] = []
        #: The numbers of the sources, and whether they are compressed, by their digest: variants of
        #: one kernel have the same.
        self._sources: dict[bytes, tuple[int, bool]] = {}
        #: The fields and the modules of the records whose digests are computed while the file is
        #: written.
        self._unknown: dict[int, tuple[Fields, Owner]] = {}
        #: The numbers of the parts, by their positions in the plan of the constants.
        self._parts: dict[int, int] = {}
        #: The rank of each candidate, with its kind, format and variant.
        self._claims: dict[int, tuple[int, tuple[str, str, str]]] = {}
        #: What `_others` returned, by the position of the first name of a page.
        self._said: dict[int, tuple[bytes, bytes]] = {}
        #: Whether all texts are strings, and no origin has keys that devmod does not know.
        self._is_plain = True
        self._pack = packer()
        collects = gc.isenabled()
        gc.disable()  # the plan of many modules is many objects and no cycle, and the collector would visit them again and again
        try:
            self._plan(module, with_sources)
        finally:
            if collects:
                gc.enable()
        if self._uncompressed:
            import warnings

            others = (
                f". So are {len(self._uncompressed) - 1} more"
                if len(self._uncompressed) > 1
                else ""
            )
            warnings.warn(escape(f"{self._uncompressed[0]}{others}"), UserWarning, stacklevel=3)

    def _plan(self, module: Module, with_sources: bool) -> None:
        roots = module.imports if isinstance(module, BundleModule) else (module,)
        order = ordered(roots)
        self._constants = ConstantPlan([each for each, _ in order])
        same = self._constants.same
        order = [each for each in order if id(each[0]) not in same]
        places = {id(each): place for place, (each, _) in enumerate(order)}
        places |= {other: places[id(each)] for other, each in same.items()}
        imports = {
            place: [places[id(each)] for each in below]
            for place, (_, below) in enumerate(order)
            if below
        }
        bundles = {
            cls for cls in {type(each) for each, _ in order} if issubclass(cls, BundleModule)
        }
        nodes = {
            place: imports.get(place, ())
            for place, (each, _) in enumerate(order)
            if type(each) in bundles
        }
        tops = list(dict.fromkeys(places[id(root)] for root in roots))
        ranks = {place: rank for rank, place in enumerate(_index.candidates_of(tops, nodes.get))}
        with shared_scan():
            names = [
                () if place in nodes else tuple(each.function_names)
                for place, (each, _) in enumerate(order)
            ]
            keys = _keys_of(names, ranks)
            named = sorted(keys, key=keys.__getitem__)  # it keeps the order of equals
            numbers = {
                old: new
                for new, old in enumerate(
                    [*named, *(place for place in range(len(order)) if place not in keys)]
                )
            }
            self._modules, self._records = len(order), [_NONE] * len(order)
            with_parts: list[tuple[Any, ...]] = []
            for place, (each, _) in enumerate(order):
                below = [numbers[other] for other in imports[place]] if place in imports else ()
                arguments = each, numbers[place], below, names[place], ranks.get(place)
                form = self._constants.forms.get(id(each))
                if form is not None and form.parts:
                    # Their records are behind those of all sources.
                    self._sources_of(each, with_sources)
                    with_parts.append(arguments)
                else:
                    self._add_module(*arguments, with_sources)
            #: The number of the first part.
            self._first_part = len(self._records)
            for arguments in with_parts:
                self._add_module(*arguments, with_sources)
        self._keys = [keys[place] for place in named]
        #: The numbers of the candidates that have a name, by names that are not their keys.
        self._further: dict[str, list[int]] = {}
        for number, place in enumerate(named if len(self._records) > MAX_SINGLE else ()):
            for name in {*names[place]} - {keys[place]} if len(names[place]) > 1 else ():
                self._further.setdefault(name, []).append(number)
        self._candidates, self._roots = (
            [numbers[place] for place in ranks],
            [numbers[place] for place in tops],
        )
        functions = Counter(chain.from_iterable(names))
        shared = [name for name, count in functions.items() if count > 1]
        calls: Mapping[str, Agreement] = {}
        if isinstance(module, BundleModule) and len(roots) > 1 and shared:
            find = module.find_agreement
            calls = (
                agreements(roots)
                if find is None
                else {name: found for name in shared if (found := find(name)) is not None}
            )
        self._calls = pack_agreements(calls)
        #: The names, and where the pages begin: no length depends on the digests, of which some are
        #: known last.
        self._layout = self._split()
        head, pages, size = self._index = self._pack_index()
        if (most := max(map(len, (head, *pages)))) > _index.MAX_INDEX:
            raise FormatError(
                f"a part of the bundle's index would be {most} bytes, and the most a file holds are {_index.MAX_INDEX}"
            )
        self._start = _index.aligned(_index.HEADER + sum(map(len, (head, *pages))))
        #: The size of the whole file.
        self.size = self._start + size
        # Every file that is written can be read. The reader of the index takes longer than the rest
        # of the plan, so it checks only values that it might refuse.
        subject = "the bundle to be saved"
        heights: dict[int, int] = {}
        inner = {
            numbers[place]: [numbers[other] for other in below] for place, below in imports.items()
        }
        for number in [number for number in self._roots if number in inner]:
            _index.check_tree(number, lambda number: inner.get(number, ()), heights, subject)
        _index.check_nodes(self._bare, len(order), subject)
        if not self._is_plain or not {*map(type, functions)} <= {str}:
            index = Index(
                memoryview(head),
                subject,
                self.size,
                data_parts(memoryview(b"".join([bytes(_index.HEADER), head, *pages]))),
            )
            for number, entry in enumerate(index.entries()):
                if entry.origin_at >= 0:
                    index.origin(number)

    def write(self, file: BinaryIO) -> None:
        """Write the file. The index, which has the digests, is written last."""
        file.write(bytes(self._start))
        digests = run_both(self._digests, lambda: self._write_parts(file), self.size)
        for (number, (fields, owner)), digest in zip(self._unknown.items(), digests, strict=True):
            _check(owner, digest)
            self._records[number] = (
                self._pack(fields | {"sha256": digest}, _SUBJECT),
                *self._records[number][1:],
            )
        head, pages, _ = self._pack_index() if self._unknown else self._index
        file.seek(0)
        file.write(
            b"".join(
                (
                    _index.MAGIC,
                    _index.NUMBER.to_bytes(4, "little"),
                    len(head).to_bytes(4, "little"),
                    sha256_of(head),
                    head,
                )
            )
        )
        file.writelines(pages)

    def close(self) -> None:
        """Remove the temporary file of compressed bytes."""
        if self._file is not None:
            self._file.close()

    def _digests(self) -> list[bytes]:
        """Compute the digests that are unknown, in their order."""
        return [sha256_of_parts(self._pieces(self._records[number][2])) for number in self._unknown]

    def _write_parts(self, file: BinaryIO) -> None:
        pending: list[Binary] = []
        held = end = 0
        for _, size, parts, shift in self._records:
            if size:
                pending.append(bytes(-end % _index.ALIGN + shift))
                end = shift + size
                held += size
                if size < _SMALL:
                    pending += self._pieces(parts) if callable(parts) else parts
                if held >= _SMALL:
                    file.write(b"".join(pending))
                    pending, held = [], 0
                    for piece in self._pieces(parts) if size >= _SMALL else ():
                        file.write(piece)
        file.write(b"".join(pending))

    def _pieces(self, parts: Parts) -> Iterator[Binary]:
        """Yield the bytes; those of a mapped file in pieces, and release its pages now and then:
        they count as memory of the process.
        """
        for part in parts() if callable(parts) else parts:
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
        """Keep compressed bytes until they are written:

        in memory, or in a file if they are many.
        """
        self._kept += len(data)
        if self._kept <= _MOST_KEPT or not self._path:
            return (data,)
        if self._file is None:
            from tempfile import TemporaryFile

            self._file = TemporaryFile(dir=os.path.dirname(os.path.realpath(self._path)))  # noqa: SIM115 - until the plan ends
        file, at, size = self._file, self._file.seek(0, 2), len(data)
        file.write(data)
        return lambda: (file.seek(at), (file.read(size),))[1]

    def _add_module(
        self,
        module: Module,
        number: int,
        imports: Sequence[int],
        names: Sequence[str],
        rank: int | None,
        with_sources: bool,
    ) -> None:
        """Make the record of a module. `imports` are the numbers of its imports."""
        kind = module.kind
        form, spec = self._known.get((type(module), kind)) or self._form_of(module, kind)
        fmt = module.format
        if form is _BARE:
            self._bare += 1
            if rank is not None:
                self._claims[number] = rank, (kind, "", "")
            self._records[number] = self._record(
                number, {"kind": kind, "imports": imports or None, "rank": rank}
            )
            return
        parts: Parts
        repeats: Repeats = ()
        shift = 0
        constants = self._constants.forms.get(id(module))
        if form is StoredModule and (constants is None or constants.wire is None):
            assert isinstance(module, StoredModule)
            stored, variant, repeats = module.entry, variant_of(module), module.entry.repeats
            shift = stored.shift
            of_tvm = None if module.has_digest else find_spec(kind)
            if of_tvm is not None:
                shift = _shift_of(of_tvm, fmt, module.wire_parts())
            location = self._locate(
                stored.size,
                module.unverified,
                module,
                repeats,
                stored.unpacked,
                module.unpack,
                NO_DIGEST,
            )
        else:
            wire = module.wire_parts() if constants is None else constants.wire
            assert wire is not None
            parts = [part if type(part) is bytes else flat(part) for part in wire]
            if form is PayloadModule and spec is not None:
                variant = variant_of_code(spec, fmt, module.code)  # type: ignore[attr-defined]
                shift = _shift_of(spec, fmt, parts)
            else:
                variant = variant_of(module, parts)
            if spec is not None and spec.shader_map:
                parts, repeats = share_shaders(spec, parts)
            location = self._locate(
                sum(map(len, parts)), parts, module, repeats, None, None, NO_DIGEST
            )
        size, digest, unpacked, parts = location
        if repeats:
            shift = 0
        if rank is not None:
            self._claims[number] = rank, (kind, fmt, variant or "")
        sources, compressed = (
            self._sources_of(module, with_sources)
            if with_sources or form is not PayloadModule
            else (None, False)
        )
        origin = module.origin
        if origin is not None or self._level > 0:
            origin = self._with_library(origin, compressed or unpacked is not None)
        if (
            type(fmt) is not str
            or type(variant) is not str
            or (origin is not None and origin.extra)
        ):
            self._is_plain = False
        fields = {
            "kind": kind,
            "imports": imports or None,
            "format": fmt or None,
            "functions": names or None,
            "variant": variant or None,
            "rank": rank,
            "origin": None if origin is None else origin.to_dict(),
            "size": size,
            "sha256": digest,
            "shift": shift or None,
            _index.COMPRESSED: unpacked,
            "repeats": repeats or None,
            "sources": sources,
        }
        if constants is not None and constants.parts:
            fields["parts"] = [self._part_of(position) for position in constants.parts]
        self._records[number] = self._record(number, fields, parts, module)

    def _form_of(self, module: Module, kind: str) -> tuple[object, TargetSpec | None]:
        """Return how modules of a class and a kind are saved, and the spec of the kind."""
        form: object = next(
            (each for each in (PayloadModule, StoredModule) if isinstance(module, each)), None
        )
        spec = None
        if isinstance(module, (BundleModule, LibraryModule)):
            form = _BARE
        elif is_valid_name(kind) and kind != _index.BUNDLE:
            spec = (
                None if form is StoredModule else find_spec(kind)
            )  # a stored module does not need it
        else:
            module.wire_parts()  # a module of TVM alone has an error of its own
            raise FormatError(
                f"a {type(module).__name__} of kind {kind!r} cannot be saved: no file may hold such a kind",
                kind=kind,
            )
        self._known[type(module), kind] = form, spec
        return form, spec

    def _record(
        self, number: int, fields: Fields, parts: Parts = (), owner: Owner = _SOURCE
    ) -> Record:
        """Return a record. A digest that is unknown is computed while the file is written, and
        compared with that of a stored module.
        """
        fields = {key: value for key, value in fields.items() if value is not None}
        if fields.get("sha256") == NO_DIGEST:
            self._unknown[number] = fields, owner
        size, shift = fields.get("size", 0), fields.get("shift", 0)
        return self._pack(fields, _SUBJECT), size, parts, shift

    def _locate(
        self,
        size: int,
        parts: Parts,
        owner: Owner,
        repeats: Repeats,
        unpacked: Unpacked,
        unpack: Unpack,
        digest: bytes,
    ) -> tuple[int, bytes, Unpacked, Parts]:
        """Return the size, the digest, `unpacked` and the bytes, compressed or decompressed as the
        file is to have them.

        Parameters
        ----------
        size, parts
            The bytes.
        owner
            What they are of. A stored module, or a stored part, checks the digest of `parts`.
        unpacked, unpack
            If they are compressed, the size and the digest of the result of `unpack`, and that.
        digest
            Their SHA-256, if it is known.
        """
        if unpacked is not None:
            if not self._level or not self._fits(owner, size, unpacked[0], repeats):
                assert unpack is not None
                (size, digest), parts, unpacked = unpacked, lambda: (unpack(),), None
        elif self._level > 0:
            # The output of the library depends on the pieces of its input, so the input is one
            # piece.
            pieces = parts() if callable(parts) else parts
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            results: list[bytes] = []
            digest = run_both(
                lambda: sha256_of(data), lambda: results.append(compressed(data, self._level)), size
            )
            _check(owner, digest)
            if len(results[0]) < size and self._fits(owner, len(results[0]), size, repeats, data):
                unpacked, size, digest, parts = (
                    (size, digest),
                    len(results[0]),
                    sha256_of(results[0]),
                    self._keep(results[0]),
                )
            elif not callable(parts):
                parts = (data,)
            for _ in self._pieces(pieces):  # they were read
                pass
        if size < _SMALL and digest == NO_DIGEST:
            digest = sha256_of(b"".join(self._pieces(parts) if callable(parts) else parts))
            if callable(parts):
                _check(owner, digest)
        return size, digest, unpacked, parts

    def _fits(
        self, owner: Owner, size: int, unpacked: int, repeats: Repeats, data: Binary = b""
    ) -> bool:
        """Return whether the file may have `unpacked` bytes compressed to `size`, and note it if
        not.
        """
        total, most = unpacked + repeated_size(repeats), size * MAX_REPEATS
        values = 0
        if isinstance(owner, Module) or owner == _SOURCE:
            values = too_many_values(data, size)
        if total <= most and not values:
            if self._unpacking.add(size, unpacked):
                return True
            most = self._unpacking.free + size * _index.MAX_RATIO
        subject = _CONSTANT
        if isinstance(owner, Module):
            subject = f"the {owner.kind} module with {list_names(owner.function_names)}"
        elif owner == _SOURCE:
            subject = _SOURCE
        self._uncompressed.append(
            f"{subject} is stored without compression: its {total} bytes compress to {size}, and readers of a file accept at most "
            f"{f'{values} msgpack objects' if values else most} from these"
        )
        return False

    def _sources_of(self, module: Module, with_sources: bool) -> tuple[int | None, bool]:
        """Return the number of a module's sources, and whether they are compressed; None and False
        if there are none to save.
        """
        parts: Parts
        if isinstance(module, StoredModule):
            stored, read = module.sources, module.source_bytes  # it checks the digest
            if stored is None or not stored.stored_size:
                return None, False
            size, digest, unpacked, parts = (
                stored.size,
                stored.digest,
                stored.unpacked,
                lambda: (read(unpack=False),),
            )
        else:
            data = pack_sources(module) if with_sources else b""
            if not data:
                return None, False
            size, digest, unpacked, parts = len(data), sha256_of(data), None, (data,)
        key = digest if unpacked is None else unpacked[1]
        if key not in self._sources:
            size, digest, unpacked, parts = self._locate(
                size, parts, _SOURCE, (), unpacked, lambda: read(unpack=True), digest
            )
            self._sources[key] = number, _ = len(self._records), unpacked is not None
            self._records.append(
                self._record(
                    number, {"size": size, "sha256": digest, _index.COMPRESSED: unpacked}, parts
                )
            )
        return self._sources[key]

    def _part_of(self, position: int) -> int:
        """Return the number of a part in the plan of the constants. It is added once."""
        if position not in self._parts:
            part = self._constants.parts[position]
            owner: Owner = _CONSTANT
            if isinstance(part, StoredPart):
                owner, entry = part, part.entry
                location = self._locate(
                    entry.size,
                    part.unverified,
                    owner,
                    (),
                    entry.unpacked,
                    part.unpack,
                    NO_DIGEST,
                )
            else:
                digest = self._constants.digests[position] or NO_DIGEST
                location = self._locate(len(part), (part,), owner, (), None, None, digest)
            size, digest, unpacked, parts = location
            number = self._parts[position] = len(self._records)
            fields = {"size": size, "sha256": digest, _index.COMPRESSED: unpacked}
            self._records.append(_NONE)
            self._records[number] = self._record(number, fields, parts, owner)
        return self._parts[position]

    def _with_library(self, origin: Origin | None, compressed: bool) -> Origin | None:
        """Return an origin with the version of the library, if the bytes are compressed, or without
        it.
        """
        extra = origin.extra if origin is not None else {}
        if compressed and self._level > 0 and _index.COMPRESSION not in extra:
            return (origin or Origin("")).replace(
                extra={**extra, _index.COMPRESSION: library_text(self._level)}
            )
        if not compressed and origin is not None and _index.COMPRESSION in extra:
            origin = origin.replace(
                extra={key: value for key, value in extra.items() if key != _index.COMPRESSION}
            )
            return origin if origin != Origin("") else None
        return origin

    def _pack_index(self) -> tuple[bytes, list[bytes], int]:
        """Return the head, the pages, and the size of the bytes behind them."""
        rows, pages, before, total = list[list[object]](), list[bytes](), b"", 0
        names, starts = self._layout
        for (first, position, name), (stop, behind, _) in pairwise(
            [*starts, (len(self._records), len(names), None)]
        ):
            own = names[position:behind]
            modules = max(first, min(stop, self._modules))
            sources = max(first, min(stop, self._first_part))
            if position not in self._said:
                self._said[position] = self._others(own, first, stop)
            others, variants = self._said[position]
            calls = {each: self._calls[each] for each in sorted(self._calls.keys() & own)}
            keys = {
                "modules": self._array(first, modules),
                "sources": self._array(modules, sources),
                "parts": self._array(sources, stop),
                "names": others,
                "variants": variants,
                "calls": self._pack(calls, _SUBJECT) if calls else b"",
            }
            used = [self._pack(key, _SUBJECT) + value for key, value in keys.items() if value]
            pages.append(map_header(len(used)) + b"".join(used))
            end = 0
            for _, size, _, shift in self._records[first:stop]:
                if size:
                    end = _index.aligned(end) + shift + size
            total = _index.aligned(total) + end if end else total
            rows.append([stop - first, len(pages[-1]), end, sha256_of(pages[-1])])
            if name is not None:
                kept = _common(before, name)
                rows[-1] += [kept, name[kept:]]
                before = name
        roots = {} if self._candidates == self._roots else {"roots": self._roots}
        return (
            self._pack({"candidates": len(self._candidates), **roots, "pages": rows}, _SUBJECT),
            pages,
            total,
        )

    def _others(self, names: Sequence[str], first: int, stop: int) -> tuple[bytes, bytes]:
        """Return `names` and `variants` of the page with these names and records; b"" for none."""
        others: list[tuple[str, list[int]]] = []
        variants: dict[tuple[str, str, str], int] = {}
        for name in sorted(self._further.keys() & names):
            numbers: list[int] = []
            for number in self._further[name]:
                if not first <= number < stop:
                    rank, variant = self._claims[number]
                    numbers += number, rank, variants.setdefault(variant, len(variants))
            if numbers:
                others.append((name, numbers))
        if not others:
            return b"", b""
        return self._pack(others, _SUBJECT), self._pack(list(variants), _SUBJECT)

    def _array(self, first: int, stop: int) -> bytes:
        """Return the array of some records; b"" if there are none."""
        return (
            array_header(stop - first)
            + b"".join([packed for packed, *_ in self._records[first:stop]])
            if first < stop
            else b""
        )

    def _split(self) -> tuple[list[str], list[tuple[int, int, bytes | None]]]:
        """Return the names in their order, and of each page its first record, the position of its
        first name, and that name.

        The last is None for a page without names. For one page, the names are those with something
        to say of calls.
        """
        records, further, count = Counter(self._keys), self._further, len(self._records)
        if count <= MAX_SINGLE:
            return sorted(self._calls), [(0, 0, b"")]
        names = sorted([*records, *(further.keys() - records.keys())])
        stops = list(accumulate(map(records.__getitem__, names)))
        before = [0, *accumulate([len(packed) for packed, *_ in self._records])]
        sizes = [before[stop] - before[start] for start, stop in pairwise([0, *stops])]
        for position in [position for position, name in enumerate(names) if name in further]:
            sizes[position] += (
                len(names[position]) + 4 + _CLAIM_SIZE * len(further[names[position]])
            )
        ends = [0, *accumulate(sizes)]
        starts: list[tuple[int, int, bytes | None]] = []
        position = size = 0
        while position < len(names):
            starts.append(
                (stops[position - 1] if position else 0, position, _between(names, position))
            )
            behind = max(position + 1, bisect_right(ends, ends[position] + PAGE_SIZE) - 1)
            if behind < len(
                names
            ):  # the shortest text between the names of two pages keeps the head small
                behind = min(
                    range(behind - (behind - position) // 8, behind + 1),
                    key=lambda each: len(_between(names, each)),
                )
            position, size = behind, ends[behind] - ends[position]
        for number in range(len(self._keys), count):
            length = before[number + 1] - before[number]
            if not starts or size + length > PAGE_SIZE:
                starts.append((number, len(names), None))
                size = 0
            size += length
        return names, starts


def _check(owner: Owner, digest: bytes) -> None:
    if isinstance(owner, (StoredModule, StoredPart)):
        owner.check(digest)


def _keys_of(names: Sequence[Sequence[str]], candidates: Iterable[int]) -> dict[int, str]:
    """Return for each candidate with functions the name whose page has its record: the one that the
    fewest candidates have, and of several the lowest. So a name that all have fills no page.
    """
    counts = Counter(chain.from_iterable([{*names[place]} for place in candidates]))
    keys: dict[int, str] = {}
    for place in candidates:
        own = names[place]
        if len(own) > 1:
            found = [counts[name] for name in own]
            least = min(found)
            if max(found) > least:
                own = [name for name in own if counts[name] == least]
        if own:
            keys[place] = min(map(str, own))
    return keys


def _shift_of(spec: TargetSpec, fmt: str, parts: Sequence[Binary]) -> int:
    """Return how many bytes behind a multiple of 64 a module's bytes begin."""
    if fmt in spec.text_formats:
        return 0
    return -payload_offset(spec, parts) % _PAYLOAD_ALIGN


def _between(names: Sequence[str], position: int) -> bytes:
    """Return the shortest text behind the name before a position, and not behind the name there."""
    name = names[position].encode()
    return name[: _common(names[position - 1].encode(), name) + 1] if position else b""


def _common(one: bytes, other: bytes) -> int:
    """Return the number of bytes with which both begin."""
    size = min(len(one), len(other))
    different = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (different.bit_length() + 7) // 8
