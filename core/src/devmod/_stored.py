"""Stored modules: what a file holds, listed and inspected with no backend imported, and loaded at the first use (R24).

The one place that decides between stored and real. Opening a file imports this and little else: what parses a module is imported
when one is looked into.
"""

from __future__ import annotations

from devmod._module import BINARY_SERIALIZABLE, RUNNABLE, Module
from devmod._once import Once
from devmod._tree import owner_of
from devmod.errors import FormatError, function_not_found, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from devmod._info import FunctionInfo
    from devmod._memory.device import Array
    from devmod._payload import Binary, Code, Origin
    from devmod.targets import TargetSpec

#: The host library at the root of a tree that TVM made. It has a place in the tree, and no bytes.
LIBRARY = "_lib"


class StoredModule(Module):
    """A module of any kind as its bytes. The first `get_function` loads the real one; nothing before that imports a backend.

    A kind whose target spec is not installed can be listed, saved and loaded too; of its functions only the names are known.

    Parameters
    ----------
    kind
        The kind, as the file has it.
    wire
        The module's bytes. They are given back unchanged when it is saved.
    fmt, names
        The format and the names of its functions where an index has them; None: they are read from the bytes.
    variant
        The architecture as the index has it; None: it is read from the payload.
    origin
        Where the payload came from, or None.
    digest
        The SHA-256 that the bytes must have; it is checked before they are used. None: there is none to check.
    place
        Where the bytes came from, for messages: "'k.devmod'".
    index
        The index of the bundle that holds it, for those who verify bundles (the hook ``devmod_verify``); None: it is in none.
    """

    def __init__(
        self,
        kind: str,
        wire: memoryview,
        *,
        fmt: str | None = None,
        names: Iterable[str] | None = None,
        variant: str | None = None,
        origin: Origin | None = None,
        digest: bytes | None = None,
        place: str = "",
        index: memoryview | None = None,
    ) -> None:
        self._kind = kind
        self._wire = wire
        self._format = fmt
        self._names = None if names is None else tuple(names)
        self._variant = variant
        self._origin = origin
        self._digest = digest
        self._place = place
        self._index = index
        self._once = Once()

    # -- what it is

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def format(self) -> str:
        if self._format is None:
            contents = self._contents()
            self._format = contents[0] if contents else ""
        return self._format

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        contents = self._contents()
        if contents is None:
            from devmod._info import FunctionInfo

            return {name: FunctionInfo(name, ()) for name in self._names or ()}
        if self._names is not None and tuple(contents[1]) != self._names:
            raise FormatError(
                f"{self.place}: the index gives the {self.kind} module the functions {quoted(self._names)}, "
                f"and its bytes have {quoted(contents[1])}",
                kind=self.kind,
            )
        return contents[1]

    @property
    def function_names(self) -> tuple[str, ...]:
        """The names of `functions`, without reading the module's bytes where the index has them."""
        if self._names is None:
            contents = self._contents()
            self._names = tuple(contents[1]) if contents else ()
        return self._names

    @property
    def variant(self) -> str | None:
        """The architecture of the payload as the index has it; None where there is no index."""
        return self._variant

    @property
    def origin(self) -> Origin | None:
        return self._origin

    @property
    def place(self) -> str:
        """Where the bytes came from, for messages."""
        return self._place or "the stored bytes"

    @property
    def code(self) -> Code:
        """The payload, as slices of the stored bytes; b"" for a kind whose target spec is not installed."""
        contents = self._contents()
        return contents[2] if contents else b""

    @property
    def property_mask(self) -> int:
        return BINARY_SERIALIZABLE | RUNNABLE

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        contents, spec = self._contents(), self._spec()
        if contents is None or spec is None:
            return ""
        from devmod._payload import inspect_payload

        return inspect_payload(spec, contents[0], contents[2], {}, format)

    # -- what it gives

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """The function of the real module, which is loaded first where that is still to do.

        Raises
        ------
        FunctionNotFoundError
            There is none of that name; nothing was loaded.
        FormatError
            The bytes are not those that the index describes: they were damaged.
        NotRegisteredError
            The kind's runtime is not installed.
        """
        if name in self.function_names:
            return self._real().get_function(name)
        owner = owner_of(name, *self.imports) if query_imports else None
        if owner is None:
            raise function_not_found(self.kind, name, self.function_names)
        return owner.get_function(name)

    def get_global(self, name: str) -> Array:
        return self._real().get_global(name)

    # -- bytes

    def wire_parts(self) -> Sequence[Binary]:
        self.verify()
        return (self._wire,)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        contents, spec = self._contents(), self._spec()
        if contents is None or spec is None:
            return super().write_to_file(path)
        from devmod._formats.raw import write_payload

        self.verify()
        return write_payload(spec, *contents, path)

    def verify(self) -> None:
        """FormatError where the bytes are not those that the index describes. They are hashed once (R41)."""
        if self._digest is not None:
            self._once.get("digest", self._check_digest)

    def check(self, digest: bytes) -> None:
        """The same for a digest that was made of the bytes already."""
        if self._digest is not None and digest != self._digest:
            names = f" with {quoted(self._names)}" if self._names else ""
            raise FormatError(
                f"{self.place}: the {self.kind} module{names} is damaged: its SHA-256 is not the one in the index. "
                "Nothing of it was used. Get the file again from where it came",
                kind=self.kind,
            )

    @property
    def unverified(self) -> tuple[Binary, ...]:
        """The bytes as they are, for a caller who hashes them anyway and calls `check`."""
        return (self._wire,)

    # -- inside

    def _check_digest(self) -> bool:
        from hashlib import sha256

        self.check(sha256(self._wire).digest())
        return True

    def _real(self) -> Module:
        module: Module = self._once.get("real", self._load)
        return module

    def _load(self) -> Module:
        from devmod._create import load_from_bytes

        self.verify()
        if self._index is not None:
            from devmod import _hooks

            _hooks.call("devmod_verify", kind=self.kind, place=self.place, index=self._index)
        return load_from_bytes(self.kind, self._wire)

    def _spec(self) -> TargetSpec | None:
        from devmod.targets import find_spec

        return find_spec(self.kind)

    def _contents(self) -> tuple[str, dict[str, FunctionInfo], Code] | None:
        """The format, the functions and the code in the bytes; None for a kind whose spec is not installed."""
        spec = self._spec()
        if spec is None:
            return None
        from devmod._formats.wire import decode

        contents: tuple[str, dict[str, FunctionInfo], Code] = self._once.get("contents", lambda: decode(spec, self._wire))
        return contents


def payload_of(module: Module, parts: Sequence[Binary] = ()) -> tuple[TargetSpec, str, Mapping[str, FunctionInfo], Code] | None:
    """A module's target spec, format, functions and code; None for a kind without a spec.

    Parameters
    ----------
    module
        Any module, real, fallback or stored.
    parts
        Its bytes, where they are at hand: a module of a class that has no ``code`` is read from them.

    Raises
    ------
    FormatError
        Its bytes are not of the kind's form.
    """
    from devmod._formats.wire import decode
    from devmod._payload import PayloadModule
    from devmod.targets import find_spec

    spec = find_spec(module.kind)
    if spec is None:
        return None
    if isinstance(module, (PayloadModule, StoredModule)):
        return spec, module.format, module.functions, module.code
    fmt, fmap, code = decode(spec, b"".join(parts or module.wire_parts()))
    return spec, fmt, fmap, code


class LibraryModule(Module):
    """The root of a tree that TVM exported: the host library's place. Its own functions are the host's, and stayed there."""

    @property
    def kind(self) -> str:
        return LIBRARY

    @property
    def property_mask(self) -> int:
        return RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """The function of the first import that has it, where `query_imports` is true.

        Raises
        ------
        FunctionNotFoundError
            There is none of that name; where an import has it, the message says how it is reached.
        """
        owner = owner_of(name, *self.imports)
        if owner is None:
            raise function_not_found(self.kind, name, ())
        if not query_imports:
            error = function_not_found(self.kind, name, ())
            error.args = (f"{error}. Its {owner.kind} import has it: get_function({name!r}, query_imports=True)",)
            raise error
        return owner.get_function(name)
