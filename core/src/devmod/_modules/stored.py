"""Stored modules: the modules of a file, which are listed and inspected without a backend, and
loaded at the first use (R24).

Only this file decides between stored and real. Opening a file imports this and little else; the
parser of module bytes is imported at its first use.
"""

from __future__ import annotations

from devmod._formats.index import StoredBytes, newer_features
from devmod._modules.module import Module
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike
    from typing import Any

    from devmod import Device, Function
    from devmod._arrays.array import Array
    from devmod._formats.index import Entry, ReadParts
    from devmod._formats.parts import StoredPart, StoredSources
    from devmod._formats.trust import FileHead
    from devmod._modules.const_loader import ConstLoaderModule
    from devmod._util.once import Once, Result
    from devmod._values.code import Binary, Code, Contents, Functions, Source
    from devmod._values.origin import Origin
    from devmod._values.spec import TargetSpec

_CONSTANTS = "const_loader"


class StoredModule(Module, StoredBytes):
    """A module of any kind as its bytes. The first `get_function` loads the real one; nothing
    before that imports a backend.

    A module of a kind without an installed target spec can be listed, saved and loaded too; only
    the names of its functions are known.

    Parameters
    ----------
    entry
        The kind, the format, the functions, and where the module's bytes are, as the index has
        them.
    read
        Returns parts of the file, which it may take from a cache. It is called at the first use of
        the module's bytes, and again only after an error.
    place
        Where the bytes came from, for messages: "'k.devmod'".
    read_origin
        Decodes the origin, at its first use; None if there is none.
    find
        Returns an entry of the file by its number and its role, for the sources and the parts.
    head
        The head of the bundle, for the hook ``devmod_verify``; None: the module is not from a
        bundle. The digest of its bytes is then unknown, and its variant is read from the payload.
    """

    def __init__(
        self,
        entry: Entry | None,
        read: ReadParts,
        place: str,
        *,
        read_origin: Callable[[], Origin | None] | None = None,
        find: Callable[[int, str], Entry] | None = None,
        head: FileHead | None = None,
    ) -> None:
        if entry is not None:
            #: As the file has it, for a save.
            self.entry = entry
        self._read = read
        self.place = place
        self._head = head
        self._devmod_origin = read_origin
        self._find = find

    # -- properties

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.entry.kind

    @property
    def format(self) -> str:
        return self.entry.fmt

    @property
    def functions(self) -> Functions:
        # A look-up reads the functions of all candidates. Without a policy it hashes none: damage
        # shows at the first use.
        contents = None
        if not self.entry.features:
            contents = self._contents(verify=self._head is not None and bool(self._head.paths))
        if contents is None:
            from devmod._values.info import FunctionInfo

            return {name: FunctionInfo(name, ()) for name in self.function_names}
        if tuple(contents[1]) != self.function_names:
            raise FormatError(
                f"{self.place}: the index gives the {self.kind} module the functions {list_names(self.function_names)}, "
                f"and its bytes have {list_names(contents[1])}",
                kind=self.kind,
            )
        return contents[1]

    @property
    def function_names(self) -> Sequence[str]:
        """The names of `functions`. The module's bytes are not read."""
        return self.entry.functions

    @property
    def variant(self) -> str | None:
        """The architecture of the payload in the index; None if there is no index."""
        if self._head is None:
            return None
        return self.entry.variant

    @property
    def size(self) -> int:
        """The size of the module's bytes, which are not read, with that of its parts."""
        from devmod._formats.repeats import repeated_size

        size = self.entry.stored_size + repeated_size(self.entry.repeats)
        return size + sum(each.stored_size for each in self._part_entries())

    @property
    def file_size(self) -> int:
        """The number of bytes that the module and its parts have in the file."""
        return self.entry.size + sum(each.size for each in self._part_entries())

    @property
    def source(self) -> Source:
        """The sources that the file has beside the module's bytes, by format. FormatError if they
        are damaged or invalid.
        """
        sources = self.sources
        if sources is None:
            return {}
        return self._once.get("source", sources.read)

    @property
    def sources(self) -> StoredSources | None:
        """The module's sources, which modules may share. They are not read."""
        find = self._find
        if find is None or self.entry.sources is None:
            return None
        from devmod._formats.parts import StoredSources

        subject = f"{self.place}: the sources of the {self.kind} module"
        return StoredSources(find, self.entry.sources, self._read, subject, self.kind)

    @property
    def parts(self) -> Sequence[StoredPart]:
        """The parts of constants, which modules may share. They are not read."""
        if not self.entry.parts:
            return ()
        return self._once.get("parts", self._make_parts)

    @property
    def is_listed(self) -> bool:
        """Whether the record of the module was read: a look-up reads only those of candidates that
        it may choose.
        """
        return True

    @property
    def is_remote(self) -> bool:
        """Whether the module's bytes are at a URL, and the first use of them moves them."""
        return "://" in self.place and "bytes" not in self._once

    @property
    def code(self) -> Code:
        """The payload, as slices of the stored bytes, which are verified; b"" for a kind whose
        target spec is not installed.
        """
        contents = self._contents()
        if contents is None:
            return b""
        return contents[2]

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        text = self.source.get(format)
        if isinstance(text, str):
            return text
        contents = self._contents()
        spec = self._spec()
        if contents is None or spec is None:
            return ""
        from devmod._modules.payload import inspect_payload

        return inspect_payload(spec, contents[0], contents[2], self.source, format)

    # -- functions

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the function of the real module, which is loaded at the first use. It has the
        imports of this module.

        Raises
        ------
        FunctionNotFoundError
            There is no function of that name; nothing was loaded.
        FormatError
            The bytes have another digest than the index: they are damaged.
        NotRegisteredError
            The kind's runtime is not installed.
        """
        owner = self._find_owner(name, query_imports)
        if owner is not self:
            return owner.get_function(name)
        return self._use(lambda real: real.get_function(name))

    def _function_on(self, name: str, device: Device) -> Function:
        self._find_owner(name)
        return self._use(lambda real: real._function_on(name, device))

    def _unopened(self, name: str) -> Any:
        return self._use(lambda real: real._unopened(name))

    def get_global(self, name: str, device: Device | None = None, **options: Any) -> Array:
        return self._use(lambda real: real.get_global(name, device, **options))

    def read_together(self, names: Iterable[str]) -> None:
        """Read some constants before their use, with few requests to a server."""
        if self.entry.parts:
            self._use(lambda real: real.read_together(names))  # type: ignore[attr-defined]

    # -- bytes

    def save_to_bytes(self) -> bytes:
        if self.entry.unpacked is not None or self.entry.repeats or self.entry.parts:
            return super().save_to_bytes()
        from devmod._util.digest import run_both

        copies = []  # a copy takes as long as the digest
        run_both(self._check_bytes, lambda: copies.append(bytes(self._packed())), self.entry.size)
        return copies[0]

    def wire_parts(self) -> Sequence[Binary]:
        self._check_bytes()
        if self.entry.parts:
            return self._constant_module().wire_parts()
        if not self.entry.repeats:
            return (self._stored,)
        from devmod._formats.repeats import expand

        return expand(self._stored, self.entry.repeats)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        contents = self._contents()
        spec = self._spec()
        if contents is None or spec is None:
            return super().write_to_file(path)
        from devmod._formats.raw import write_payload

        return write_payload(spec, *contents, path)

    def unverified(self) -> tuple[memoryview, ...]:
        return (self._raw,)

    def verify(self) -> None:
        """Raise FormatError if the module's bytes, or a part, have another digest than the index.
        The bytes are hashed once (R41).
        """
        if self.entry.features:  # only the digests are known
            self._check_digest()
            for part in self.parts:
                part.verified()
            return
        self._check_bytes()
        for part in self.parts:
            part.data()

    @property
    def _description(self) -> str:
        if not self.function_names:
            return f"the {self.kind} module"
        return f"the {self.kind} module with {list_names(self.function_names)}"

    @property
    def subject(self) -> str:  # type: ignore[override]
        """Its name in messages."""
        return f"{self.place}: {self._description}"

    @property
    def has_digest(self) -> bool:  # type: ignore[override]
        """Whether the index has a digest for `verify`."""
        return self._head is not None

    def release(self) -> None:
        """Drop what was decompressed or decoded. The next use reads it again."""
        self._once.forget("stored", "contents", "source", "constants")

    def check_features(self) -> None:
        """Raise FormatError if a newer devmod is needed to use the module's bytes."""
        if self.entry.features:
            raise self._error(f"needs {newer_features(self.entry.features)}")

    # -- inside

    @property
    def _once(self) -> Once:
        """The values that are made once for all threads. Most modules of a file are never used, so
        this is created at the first use.
        """
        once: Once | None = self.__dict__.get("_values")
        if once is None:
            from devmod._util.once import Once

            once = self.__dict__.setdefault(
                "_values", Once()
            )  # one operation, also between threads
        return once

    def _packed(self) -> memoryview:
        self.check_features()
        return self._raw

    @property
    def _raw(self) -> memoryview:
        """The bytes in the file, also if this devmod cannot use them."""
        location = self.entry.location
        return self._once.get("bytes", lambda: self._read([location])[0])

    @property
    def _stored(self) -> memoryview:
        """The module's bytes without repeats. Their digest is checked if they were compressed;
        hashing the compressed bytes takes time.
        """
        if self.entry.unpacked is None:
            return self._packed()
        return self._once.get("stored", self.unpack)

    def _check_digest(self) -> bool:
        from devmod._util.digest import sha256_of

        self.check(sha256_of(self._raw))
        return True

    def _check_bytes(self) -> None:
        """Raise FormatError if the module's bytes cannot be used, or have another digest."""
        if self.entry.unpacked is not None:
            self._stored  # noqa: B018 - the digest is checked after the decompression
            return
        self.check_features()
        if self.has_digest:
            self._once.get("digest", self._check_digest)

    def _use(self, act: Callable[[Module], Result]) -> Result:
        """Return what `act` returns for the real module. The look-ups of a first use share one
        scan: hooks, loader, spec, compiler.
        """
        if "real" in self._once:
            return act(self._real())
        from devmod._plugins.discovery import shared_scan

        with shared_scan():
            return act(self._real())

    def _real(self) -> Module:
        real = self._once.get("real", self._load)
        if self._devmod_imports is not None:  # a module may be imported at any time
            real._devmod_imports = self._devmod_imports
        return real

    def _load(self) -> Module:
        from devmod._modules.create import load_stored

        self._check_bytes()
        if self._head is not None:
            self._head.check()
        self._check_format()
        module: Module
        if self.entry.parts:
            module = self._constant_module()
        elif self.entry.repeats:
            module = self._load_shared()
        else:
            module = load_stored(self.kind, self._stored)
        module._devmod_origin = self._devmod_origin
        module._devmod_file = self._devmod_file
        module._devmod_tuning = self._devmod_tuning
        return module

    def _check_format(self) -> None:
        """Raise FormatError if the index has another format than the bytes."""
        spec = self._spec()
        if spec is None or self._head is None:
            return
        fmt = spec.formats[0]
        if spec.fields[0] == "fmt":
            from devmod._formats.msgpack import Reader

            reader = Reader(self._stored, f"the bytes of the {self.kind} module", self.kind)
            fmt = spec.canonical_format(reader.read_str())
        self._compare_format(fmt)

    def _compare_format(self, fmt: str) -> None:
        if self._head is not None and fmt != self.format:
            raise FormatError(
                f"{self.place}: the index gives the {self.kind} module the format {self.format!r}, and its bytes have {fmt!r}",
                kind=self.kind,
            )

    def _load_shared(self) -> Module:
        """Load the real module of bytes with repeats: equal shaders are one object, if its
        distribution also creates modules.
        """
        from devmod._modules.create import LOAD_FROM_BYTES, create_shared, load_stored
        from devmod._plugins.lookup import lookup

        lookup(LOAD_FROM_BYTES, self.kind)  # without a loader the bytes are not joined
        contents = self._contents()
        if contents is not None:
            module = create_shared(self.kind, *contents)
            if module is not None:
                return module
        return load_stored(self.kind, self.save_to_bytes())

    def _constant_module(self) -> ConstLoaderModule:
        """Return the module of constants. A part is read when its constant is used."""
        return self._once.get("constants", self._load_constants)

    def _load_constants(self) -> ConstLoaderModule:
        from devmod._modules.const_loader import load_from_bytes

        if self.entry.repeats:
            raise self._error("has repeats, which only shaders have")
        return load_from_bytes(self._stored, self.parts)

    def _make_parts(self) -> list[StoredPart]:
        from devmod._formats.parts import StoredPart

        subject = f"{self.place}: a part of {self._description}"
        if self.kind == _CONSTANTS:
            subject = f"{self.place}: a constant of {self._description}"
        find = self._find
        assert find is not None
        return [
            StoredPart(find, number, self._read, subject, self.kind) for number in self.entry.parts
        ]

    def _part_entries(self) -> list[Entry]:
        """Return the entries of the parts, each once."""
        if self._find is None:
            return []
        return [self._find(number, "part") for number in dict.fromkeys(self.entry.parts)]

    def _spec(self) -> TargetSpec | None:
        from devmod._plugins.specs import find_spec

        return find_spec(self.kind)

    def _contents(self, *, verify: bool = True) -> Contents | None:
        """Return the format, the functions and the code in the bytes, by default verified; None for
        a kind without an installed spec.
        """
        self.check_features()
        spec = self._spec()
        if spec is None and self.kind != _CONSTANTS:
            return None
        if verify:
            self._check_bytes()
        if spec is None:  # constants, whose functions are the init symbols
            return "", self._constant_module().functions, b""
        from devmod._formats.wire import decode

        contents = self._once.get(
            "contents", lambda: decode(spec, self._stored, self.entry.repeats)
        )
        self._compare_format(contents[0])
        return contents


def release(module: Module) -> None:
    """Drop the payload of a module, if it is a stored one: those of a whole file may be many times
    its size.
    """
    if isinstance(module, StoredModule):
        module.release()


def own_bytes(
    kind: str, fmt: str, functions: Iterable[str], parts: Sequence[Binary]
) -> tuple[Entry, ReadParts]:
    """Return the first arguments of a StoredModule whose bytes are in no `.devmod` file."""
    from devmod._formats.index import Entry

    data = memoryview(b"".join(parts))
    entry = Entry(kind, fmt=fmt, functions=tuple(functions), offset=0, size=len(data))
    return entry, lambda places: [data[start : start + size] for start, size, _ in places]
