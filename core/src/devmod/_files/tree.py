"""The modules of an open file."""

from __future__ import annotations

from devmod._formats import LIBRARY
from devmod._formats.index import BUNDLE
from devmod._modules.module import LibraryModule, Module, Records
from devmod._modules.stored import StoredModule
from devmod._util.once import Once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod._formats.index import Entry, ReadParts
    from devmod._formats.pages import Claim, Index
    from devmod._formats.trust import FileHead
    from devmod._modules.agreement import Agreement


class Tree:
    """The modules of an open file, which are made when they are needed. They do not refer to it."""

    def __init__(self, index: Index, head: FileHead, prefer: tuple[str, ...]) -> None:
        self.index = index
        self._head = head
        self._prefer = prefer
        self._made = Once()
        self.records = Records(index)

    def module(self, number: int) -> Module:
        """Return a module with its imports. All threads get the same one."""
        self.index.checked(number)
        return self._make_once(number)

    def find(self, name: str) -> list[Module]:
        """Return the candidates that have a function. The page of the name alone is read; the
        record of a candidate in another page is read when more than its kind is needed.
        """
        return [self._found(number) for number in self.index.find(name)]

    def agreement(self, name: str) -> Agreement | None:
        """Return what the candidates of a function have in common, as its page says."""
        from devmod._modules.agreement import read_agreement

        return read_agreement(self.index.calls(name))

    def _found(self, number: int) -> Module:
        claim = self.index.claim(number)
        if claim is None or claim[1] in (BUNDLE, LIBRARY):
            return self.module(number)
        return self._made.get(number, lambda: self._find(number, claim))

    def _make_once(self, number: int) -> Module:
        return self._made.get(number, lambda: self._make(number))

    def _make(self, number: int) -> Module:
        index = self.index
        entry = index.entry(number)
        imports = self._imports_of(entry)
        if entry.kind == BUNDLE:
            # few files have nodes, and opening one should cost little
            from devmod._modules.bundle import BundleModule

            module: Module = BundleModule(imports, self._prefer)
        elif entry.offset is not None:
            module = StoredModule(
                entry,
                index.read,
                index.place,
                read_origin=lambda: index.origin(number),
                find=index.entry,
                head=self._head,
            )
        else:
            module = LibraryModule()
        if imports:
            module._devmod_imports = imports
        self.own(module)
        return module

    def own(self, module: Module) -> None:
        """Note that a module is from the file."""
        module._devmod_file = self.index
        module._devmod_tuning = self.records

    def _checked(self, number: int) -> tuple[Entry, tuple[Module, ...]]:
        """Return the entry of a module and its imports, after a check of the tree below it."""
        entry = self.index.checked(number)
        return entry, self._imports_of(entry)

    def _imports_of(self, entry: Entry) -> tuple[Module, ...]:
        # The check has excluded cycles.
        return tuple([self._make_once(each) for each in entry.imports])

    def _find(self, number: int, claim: Claim) -> FoundModule:
        index = self.index
        module = FoundModule(
            claim,
            lambda: self._checked(number),
            index.read,
            index.place,
            read_origin=lambda: index.origin(number),
            find=index.entry,
            head=self._head,
        )
        self.own(module)
        return module


class FoundModule(StoredModule):
    """A candidate that a look-up found. The page of the name has its kind, format and variant; its
    record is read when something else is needed.

    Parameters
    ----------
    claim
        What the page says of it.
    resolve
        Returns its entry and its imports.
    read, place, **more
        As for `StoredModule`.
    """

    def __init__(
        self,
        claim: Claim,
        resolve: Callable[[], tuple[Entry, tuple[Module, ...]]],
        read: ReadParts,
        place: str,
        **more: Any,
    ) -> None:
        super().__init__(None, read, place, **more)
        self._claim = claim
        self._resolve = resolve

    @property
    def is_listed(self) -> bool:
        return "_entry" in self.__dict__

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._claim[1]

    @property
    def format(self) -> str:
        return self._claim[2]

    @property
    def variant(self) -> str:
        return self._claim[3]

    @property
    def entry(self) -> Entry:  # type: ignore[override]
        """Its entry. The first access reads the page of its record."""
        entry: Entry | None = self.__dict__.get("_entry")
        if entry is None:
            entry, imports = self._resolve()
            if imports:  # a module may have been imported before
                self.__dict__.setdefault("_devmod_imports", imports)
            self.__dict__["_entry"] = entry
        return entry

    @property
    def imports(self) -> tuple[Module, ...]:
        _ = self.entry  # it sets them
        return super().imports
