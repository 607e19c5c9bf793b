"""Module: the base class of every backend's module.

A module is a unit of device code of one *kind* ("cuda", "opencl", …). It has functions, a source,
bytes for saving, and imports of other modules, so that a file is a tree. A backend subclasses
Module and implements `kind` and `get_function`. The default of every other method returns an empty
result or raises FormatError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from devmod._formats import LIBRARY
from devmod._util.pickling import ProcessLocal
from devmod._util.text import escape_line, shorten
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FormatError,
    FunctionNotFoundError,
    function_not_found,
    list_names,
    quote_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any, NoReturn, Self, TypeAlias

    from devmod import Device, Function
    from devmod._arrays.array import Array
    from devmod._formats.pages import Index
    from devmod._values.code import Functions
    from devmod._values.info import FunctionInfo
    from devmod._values.origin import Origin
    from devmod._values.payload import Payload
    from devmod._values.records import TuningRecord

    RecordSource: TypeAlias = "Index | GivenRecords"

#: The bits of `Module.property_mask`, TVM's `ffi::Module::ModulePropertyMask`.
BINARY_SERIALIZABLE = 1
RUNNABLE = 2

#: The number of functions that a notebook shows.
_MAX_SHOWN = 20


class ModuleAttributeError(AttributeError):
    """A module has no such attribute. The text, which `hasattr` does not make, has the expression
    for a function of that name.
    """

    def __str__(self) -> str:
        text = super().__str__()
        try:
            if self.name in self.obj:  # type: ignore[operator]
                text += f". It has the function module[{self.name!r}]"
            elif self.name == "save":
                text += ". The function devmod.save writes it to a file"
        except Exception:  # noqa: BLE001 - a damaged or an incomplete module
            return text
        return text


def branches_of(module: Module) -> str:
    """Return the source in which `condition_hint` looks for a name; "" if it cannot be read, or the
    kind has no branches for devices, or a broken spec.
    """
    from devmod._plugins.specs import find_spec

    try:
        spec = find_spec(module.kind)
        if spec is None or not spec.has_conditions:
            return ""
        return module.inspect_source()
    except DevmodError:
        return ""


class Module(ProcessLocal, ABC):
    """A unit of device code. Abstract in `kind` and `get_function`.

    A subclass need not call ``super().__init__()``. A subclass that can be saved overrides
    `save_to_bytes` or `wire_parts`; the default of each calls the other.

    ``module["name"]`` is ``module.get_function("name")``. ``"name" in module``, ``len(module)`` and
    ``for name in module`` use the names of the functions, and build nothing.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"
    #: The imports, the open file that the module is from, where its tuning records are, the origin
    #: or what reads it, and the payload of `module_of`. The classes of backends set none of them.
    _devmod_imports: tuple[Module, ...] | None = None
    _devmod_file: Index | None = None
    _devmod_tuning: Records | None = None
    _devmod_origin: Any = None
    _devmod_payload: Payload | None = None

    def _with(self, **attributes: Any) -> Self:
        """Return a copy with other attributes. A function refers to a copy of its module that has
        no functions: a cycle, with what is on a device, is freed late.
        """
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__, **attributes)
        return result

    # -- properties

    @property
    @abstractmethod
    def kind(self) -> str:
        """The backend's kind, such as "cuda"; the same for the runtime's module and the
        fallback.
        """

    @property
    def format(self) -> str:
        """The format of the payload, such as "ptx"; "" without a payload."""
        return ""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise ArgumentError: a module has functions, which are called."""
        names = [*self]
        example = names[0] if names else "name"
        raise ArgumentError(
            f"a module is no function: call one of its own, such as module[{quote_name(example)}](…); it has: {list_names(names)}",
            kind=self.kind,
        )

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        """The functions by name, in the order of the payload."""
        return {}

    @property
    def function_names(self) -> Collection[str]:
        """The names of `functions`, without their signatures."""
        return self.functions

    @property
    def source(self) -> Mapping[str, str | bytes]:
        """Source and listings by format, as passed to create or as in the file. `save` writes them
        on request alone.
        """
        return {}

    @property
    def origin(self) -> Origin | None:
        """The origin of the payload (target, toolchain, options); None if it is unknown.
        FormatError if that of a file is invalid.
        """
        value = self._devmod_origin
        if callable(value):
            value = value()
        return value  # type: ignore[no-any-return]

    @property
    def property_mask(self) -> int:
        """TVM's bits: 1 can be saved to bytes, 2 can run, 4 can be exported through a host
        compiler.
        """
        cls = type(self)
        if cls.save_to_bytes is Module.save_to_bytes and cls.wire_parts is Module.wire_parts:
            return RUNNABLE
        return RUNNABLE | BINARY_SERIALIZABLE

    @property
    def tuning_records(self) -> tuple[TuningRecord, ...]:
        """What devices took for the variants of tuned functions: the records of the file, or else
        those of the imports together. Assign others for `save` to write.
        """
        return self._records_of()

    @tuning_records.setter
    def tuning_records(self, records: Iterable[TuningRecord]) -> None:
        from devmod._values.records import TuningRecord

        own = tuple(records)
        if not all(isinstance(each, TuningRecord) for each in own):
            raise ArgumentError(f"tuning_records: expected TuningRecords, got {own!r:.200}")
        self._devmod_tuning = Records(GivenRecords(own))

    def _add_records(self, records: Iterable[TuningRecord]) -> None:
        """Add tuning records to those that the module has, which are not read."""
        self._devmod_tuning = Records(*self._records.sources, GivenRecords(records))

    @property
    def _records(self) -> Records:
        """Where the tuning records are."""
        sources: dict[RecordSource, None] = {}  # the modules of a file have one
        for module in walk(self, enter=lambda each: each._devmod_tuning is None):
            if module._devmod_tuning is not None:
                sources |= dict.fromkeys(module._devmod_tuning.sources)
        return Records(*sources)

    def _records_of(self, function: str | None = None) -> tuple[TuningRecord, ...]:
        """Return the tuning records, or those of one function: a file may have many."""
        return self._records(function)

    # -- the tree

    @property
    def imports(self) -> tuple[Module, ...]:
        """The modules that this one imports, in order."""
        return self._devmod_imports or ()

    def import_module(self, other: Module) -> None:
        """Add `other` to the imports.

        Raises
        ------
        FormatError
            `other` is this module or imports it: a file is a tree.
        """
        if not isinstance(other, Module):
            raise FormatError(f"{self.kind}: a module imports a Module, not {type(other).__name__}")
        if any(module is self for module in walk(other)):
            raise FormatError(
                f"{self.kind}: importing the {other.kind} module would make a cycle: it is this module or imports it"
            )
        self._devmod_imports = (*self.imports, other)

    # -- functions, globals and source

    @abstractmethod
    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return a callable function.

        Parameters
        ----------
        name
            A key of `functions`.
        query_imports
            Whether to search the imports, in order, if this module has no such function.

        Raises
        ------
        FunctionNotFoundError
            There is no such function; the message lists the functions.
        RuntimeNotLinkedError, DeviceNotFoundError, CompileError, FormatError
            The function cannot run here; the message has the reason.
        """

    def __getitem__(self, name: str) -> Function:
        function: Function = self.get_function(name)
        return function

    def _find_owner(self, name: str, query_imports: bool = False) -> Module:
        """Return the module that has the function `name`: this one, or one of its imports.

        Raises
        ------
        FunctionNotFoundError
            There is no such function.
        """
        if name in self.function_names:
            return self
        owner = None
        if query_imports:
            owner = owner_of(name, *self.imports)
        if owner is None:
            raise function_not_found(self.kind, name, self.function_names, source=branches_of(self))
        return owner

    def _function_on(self, name: str, device: Device) -> Function:
        """Return the function `name` for one device, for a bundle. A runtime's module builds it for
        no other device.
        """
        return self[name].on(device)

    def _unopened(self, name: str) -> Any:
        """Return the function `name` to join variants. A runtime's module does not build it."""
        return self[name]

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            # A property has raised AttributeError: raise its own error.
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)
            raise ModuleAttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

    # These methods read the names only. A module is no Mapping: it is hashable, is equal to itself
    # alone, and is true when it is empty.

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.function_names

    def __iter__(self) -> Iterator[str]:
        return iter(self.function_names)

    def __len__(self) -> int:
        return len(self.function_names)

    def __bool__(self) -> bool:
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def get_global(self, name: str, device: Device | None = None, **options: Any) -> Array:
        """Return a global array (`__device__` data, a const_loader's tensor).

        Parameters
        ----------
        name
            The name in the payload.
        device
            The device that has it; None for the default device of the kind.
        **options
            Options of the kind: CUDA has ``dtype``.

        Raises
        ------
        FunctionNotFoundError
            There is no such global.
        """
        raise function_not_found(self.kind, name, (), noun="global")

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        """Return the text in a format; for "" the source, or else a payload that is text. Return ""
        if there is no such text.
        """
        return ""

    # -- bytes

    def save_to_bytes(self) -> bytes:
        """Return the module's bytes, without its imports.

        Raises
        ------
        FormatError
            This kind of module cannot be saved, or a part is too large for the format.
        """
        return b"".join(self.wire_parts())

    def wire_parts(self) -> Sequence[bytes | memoryview]:
        """Return the bytes of `save_to_bytes` in parts, without copying them."""
        if type(self).save_to_bytes is Module.save_to_bytes:
            raise FormatError(
                f"a module of kind {self.kind!r} cannot be saved to bytes", kind=self.kind
            )
        return (self.save_to_bytes(),)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        """Write the raw payload, and beside it ``<stem>.tvm_meta.json`` with the metadata of its
        functions.

        Raises
        ------
        FormatError
            The payload is not one file, the suffix belongs to another format, or an existing
            metadata file describes other functions or is a symbolic link.
        """
        raise FormatError(
            f"a module of kind {self.kind!r} has no raw payload to write; use devmod.save",
            kind=self.kind,
        )

    def _signature_of(self, name: str) -> str:
        """Return a function's signature as one short line, or the reason why it cannot be read."""
        from devmod._values.info import signature_text

        try:
            return signature_text(name, self.functions[name], short=True)
        except DevmodError as error:  # one damaged function
            return f"{name}: {error}"

    def _repr_html_(self) -> str:
        from devmod._util.html import html_table

        names = list(self)
        rows = [("function", self._signature_of(name)) for name in names[:_MAX_SHOWN]]
        if len(names) > _MAX_SHOWN:
            rows.append(("", f"and {len(names) - _MAX_SHOWN} more functions"))
        role = "candidate" if self.kind == "bundle" else "import"
        rows += [(role, f"{each.kind} {each.format}".rstrip()) for each in self.imports]
        return html_table(f"{type(self).__name__} {self.kind} {self.format}".rstrip(), rows)

    def __repr__(self) -> str:
        names = list(self)
        kind = [self.kind]
        if self.format:
            kind.append(self.format)
        shown = ", ".join(names[:4])
        if len(names) > 4:
            shown += ", …"
        text = escape_line(f"<{type(self).__name__} {'/'.join(kind)}: {shown or 'no functions'}>")
        return shorten(text)


class GivenRecords:
    """Tuning records that a program has given to a module."""

    def __init__(self, records: Iterable[TuningRecord]) -> None:
        self.given = tuple(records)
        #: The records of each function.
        self.by_function: dict[str, list[TuningRecord]] = {}
        for record in self.given:
            self.by_function.setdefault(record.function, []).append(record)

    def tuning_records(self, function: str | None = None) -> Sequence[TuningRecord]:
        """Return the records, or those of one function."""
        if function is not None:
            return self.by_function.get(function, ())
        return self.given


class Records:
    """Where tuning records are: in open files, and those that a program has given. Later ones count
    more.
    """

    def __init__(self, *sources: RecordSource) -> None:
        self.sources = sources

    def __call__(self, function: str | None = None) -> tuple[TuningRecord, ...]:
        """Return the records, or those of one function."""
        records: list[TuningRecord] = []
        for source in self.sources:
            records += source.tuning_records(function)
        if not records:
            return ()
        from devmod._values.records import join_records

        return join_records(records)


class LibraryModule(Module):
    """The root of a tree that TVM exported. It represents the host library, whose functions are not
    in the tree.
    """

    @property
    def kind(self) -> str:
        return LIBRARY

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the function of the first import that has it, if `query_imports` is true.

        Raises
        ------
        FunctionNotFoundError
            There is no function of that name. If an import has it, the message has the call that
            returns it.
        """
        owner = owner_of(name, *self.imports)
        if owner is None:
            raise function_not_found(self.kind, name, ())
        if not query_imports:
            text = f"{function_not_found(self.kind, name, ())}. Its {owner.kind} import has it: get_function({name!r}, query_imports=True)"
            raise FunctionNotFoundError(text, kind=self.kind, function=name)
        return owner.get_function(name)


# -- Walks over the tree of modules of a file.
#
# A module may be imported many times: 41 modules that each import the next one twice have 2**40
# paths. So a walk visits each module once, in time and memory linear in modules and imports. No
# walk recurses, since a chain of imports may be long.


def walk(*roots: Module, enter: Callable[[Module], bool] | None = None) -> Iterator[Module]:
    """Yield each module of the trees once, an importer before its imports, in their order.

    Parameters
    ----------
    roots
        The modules at which the walk starts.
    enter
        Returns whether to walk the imports of a module. None: always.
    """
    pending = list(reversed(roots))
    seen = set()
    while pending:
        module = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        if enter is None or enter(module):
            pending.extend(reversed(module.imports))


def holds_candidates(module: Module) -> bool:
    """Return whether a module is a `bundle`, a node whose functions are those of its imports."""
    return getattr(type(module), "_devmod_candidates", False)


def usable_functions(functions: Functions) -> Iterator[tuple[str, FunctionInfo]]:
    """Yield the functions of a module without the damaged and the newer ones: their first use
    raises the error.
    """
    for name in functions:
        info = usable_function(functions, name)
        if info is not None:
            yield name, info


def usable_function(functions: Functions, name: str) -> FunctionInfo | None:
    """Return a function of a module; None if it is damaged or a newer one."""
    try:
        info = functions[name]
    except FormatError:
        return None
    if info.interface is not None and info.interface.newer:
        return None
    return info


def owner_of(name: str, *modules: Module) -> Module | None:
    """Return the first module in the trees that has the function `name`, or None."""
    return next(owners_of(name, *modules), None)


def owners_of(name: str, *modules: Module) -> Iterator[Module]:
    """Return the `owner_of` each tree that has the function `name`. Modules shared by several trees
    are searched once.
    """
    has: dict[int, bool] = {}
    owners = {}
    for module, imports in reversed(ordered(modules)):  # imports before their importers
        # Not a bundle's own names: bundles that share candidates would list the names repeatedly.
        if holds_candidates(module):
            has[id(module)] = any(has[id(each)] for each in imports)
        else:
            has[id(module)] = name in module.function_names

        if has[id(module)]:
            owners[id(module)] = module
            continue
        for each in imports:
            if id(each) in owners:
                owners[id(module)] = owners[id(each)]
                break
    for each in modules:
        if id(each) in owners:
            yield owners[id(each)]


def ordered(roots: Sequence[Module]) -> list[tuple[Module, tuple[Module, ...]]]:
    """Return the modules of the trees, each once with its imports: every importer before its
    imports, otherwise in their order.

    The property ``imports`` of each module is read once, so that the result is consistent even if a
    module computes it.

    Raises
    ------
    FormatError
        A module imports itself, directly or through other modules.
    """
    finished = []
    state = {}  # whether a module is finished; the others are on the path
    path: list[tuple[Module | None, tuple[Module, ...], list[Module]]] = [(None, (), [*roots])]
    while path:
        importer, imports, remaining = path[-1]
        if remaining:
            module = remaining.pop()
            if id(module) not in state:
                below = tuple(module.imports)
                state[id(module)] = not below
                if below:
                    path.append((module, below, [*below]))
                else:  # nearly every module of a file
                    finished.append((module, below))
            elif not state[id(module)]:
                raise FormatError(
                    f"the {module.kind} module imports itself, directly or through others: a file is a tree"
                )
        else:
            path.pop()
            if importer is not None:
                state[id(importer)] = True
                finished.append((importer, imports))
    finished.reverse()
    return finished
