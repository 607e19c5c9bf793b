"""The modules of an open file."""

from __future__ import annotations

from devmod._formats.index import BUNDLE
from devmod._modules.module import LibraryModule, Module
from devmod._modules.stored import StoredModule
from devmod._util.once import Once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._formats.pages import Index
    from devmod._formats.trust import FileHead
    from devmod._modules.agreement import Agreement


class Tree:
    """The modules of an open file, which are made when they are needed. They do not refer to it."""

    def __init__(self, index: Index, head: FileHead, prefer: tuple[str, ...]) -> None:
        self.index, self._head, self._prefer = index, head, prefer
        self._made = Once()
        read = index.read  # the modules do not refer to the index
        self._read = lambda at, size, digest: read(at, [(size, digest)])[0]

    def module(self, number: int) -> Module:
        """Return a module with its imports. All threads get the same one."""
        if number not in self._made:
            self.index.checked(number)
        return self._make_once(number)

    def agreement(self, name: str) -> Agreement | None:
        """Return what the candidates of a function have in common, as its page says."""
        from devmod._modules.agreement import read_agreement

        return read_agreement(self.index.calls(name))

    def _make_once(self, number: int) -> Module:
        return self._made.get(number, lambda: self._make(number))

    def _make(self, number: int) -> Module:
        index, entry = self.index, self.index.entry(number)
        imports = tuple(
            [self._make_once(each) for each in entry.imports]
        )  # the check has excluded cycles
        if entry.kind == BUNDLE:
            from devmod._modules.bundle import (
                BundleModule,
            )  # few files have nodes, and opening one should cost little

            return BundleModule(imports, self._prefer)
        module: Module = LibraryModule()
        if entry.offset is not None:
            read_origin = None if entry.origin_at < 0 else lambda: index.origin(number)
            find_sources = (
                None if entry.sources is None else lambda: index.entry(entry.sources, source=True)
            )
            module = StoredModule(
                entry,
                self._read,
                index.place,
                read_origin=read_origin,
                find_sources=find_sources,
                head=self._head,
            )
        if imports:
            module.__dict__["_devmod_imports"] = imports
        return module
