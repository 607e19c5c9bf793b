"""Module: what every backend's module is, written as a contract.

A module is a unit of device code of one *kind* ("cuda", "opencl", …). It names its functions, shows its source,
saves its bytes, and holds other modules as imports, so that a program is a tree. A backend subclasses Module and
gives `kind` and `get_function`; everything else has a body here that says "nothing of that sort".
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from devmod.errors import FormatError, function_not_found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any

    from devmod._info import FunctionInfo
    from devmod._memory.device import Array
    from devmod._payload import Origin

#: The bits of `Module.property_mask`, TVM's `ffi::Module::ModulePropertyMask`.
BINARY_SERIALIZABLE = 1
RUNNABLE = 2
COMPILATION_EXPORTABLE = 4


class Module(ABC):
    """A unit of device code. Abstract in `kind` and `get_function`.

    There is no constructor to call: a subclass need not call ``super().__init__()``. One that can be saved overrides
    `save_to_bytes` or `wire_parts`; each default is made from the other.
    """

    # -- what a module is

    @property
    @abstractmethod
    def kind(self) -> str:
        """The backend's kind, such as "cuda": the same for the real module and the fallback."""

    @property
    def format(self) -> str:
        """The format of the payload, such as "ptx"; "" where there is none."""
        return ""

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        """The functions by the names that callers use, in the order of the payload."""
        return {}

    @property
    def source(self) -> Mapping[str, str | bytes]:
        """Source and listings by format, as given to create; in memory only, never saved."""
        return {}

    @property
    def origin(self) -> Origin | None:
        """Where the payload came from; None where that is not known."""
        return self.__dict__.get("_devmod_origin")

    @property
    def property_mask(self) -> int:
        """TVM's bits: 1 can be saved to bytes, 2 can run, 4 can be exported through a host compiler."""
        own = type(self)
        saves = own.save_to_bytes is not Module.save_to_bytes or own.wire_parts is not Module.wire_parts
        return RUNNABLE | (BINARY_SERIALIZABLE if saves else 0)

    # -- the tree

    @property
    def imports(self) -> tuple[Module, ...]:
        """The modules that this one imports, in order."""
        found: tuple[Module, ...] = self.__dict__.get("_devmod_imports", ())
        return found

    def import_module(self, other: Module) -> None:
        """Add `other` to the imports.

        Raises
        ------
        FormatError
            `other` is this module or imports it: a program is a tree.
        """
        if not isinstance(other, Module):
            raise FormatError(f"{self.kind}: a module imports a Module, not {type(other).__name__}")
        pending, seen = [other], set()
        while pending:
            module = pending.pop()
            if module is self:
                raise FormatError(
                    f"{self.kind}: importing that {other.kind} module would make a cycle, for it is this module or imports it"
                )
            if id(module) not in seen:
                seen.add(id(module))
                pending.extend(module.imports)
        self.__dict__["_devmod_imports"] = (*self.imports, other)

    # -- what it gives

    @abstractmethod
    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """The function of that name, ready to be called.

        Parameters
        ----------
        name
            A key of `functions`.
        query_imports
            Look into the imports, in order, when this module has no such function.

        Raises
        ------
        FunctionNotFoundError
            There is none of that name; the message lists those there are.
        RuntimeNotLinkedError, DeviceNotFoundError, CompileError, FormatError
            There is one, and why it cannot run here.
        """

    def __getitem__(self, name: str) -> Any:
        return self.get_function(name)

    def get_global(self, name: str) -> Array:
        """The global array of that name (`__device__` data, a const_loader's tensor).

        Raises
        ------
        FunctionNotFoundError
            There is none of that name.
        """
        raise function_not_found(self.kind, name, (), what="global")

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        """The text of the payload, or of a source in another format; "" where there is none."""
        return ""

    # -- bytes

    def save_to_bytes(self) -> bytes:
        """The module's bytes (its imports are not part of them).

        Raises
        ------
        FormatError
            This kind of module cannot be saved, or a part is too large for its format.
        """
        if type(self).wire_parts is Module.wire_parts:
            raise FormatError(f"a module of kind {self.kind!r} cannot be saved to bytes", kind=self.kind)
        return b"".join(self.wire_parts())

    def wire_parts(self) -> Sequence[bytes | memoryview]:
        """The bytes of `save_to_bytes` in parts that are not copied."""
        if type(self).save_to_bytes is Module.save_to_bytes:
            raise FormatError(f"a module of kind {self.kind!r} cannot be saved to bytes", kind=self.kind)
        return (self.save_to_bytes(),)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        """Write the raw payload, and beside it ``<stem>.tvm_meta.json`` with what its functions are.

        Raises
        ------
        FormatError
            The payload is not one file, the suffix is another format's, or a metadata file that is there describes
            other functions.
        """
        raise FormatError(f"a module of kind {self.kind!r} has no raw payload to write; use devmod.save", kind=self.kind)

    def __repr__(self) -> str:
        names = list(self.functions)
        shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        return f"<{type(self).__name__} {self.kind}{'/' + self.format if self.format else ''}: {shown or 'no functions'}>"
