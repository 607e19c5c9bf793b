"""The bundle of a file with several roots: a look-up reads the pages that have the function, and
makes the modules that it finds.
"""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections

from devmod._modules.bundle import BundleModule
from devmod._modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod._files.tree import Tree


class StoredBundle(BundleModule):
    """The roots of a file."""

    def __init__(self, tree: Tree, prefer: tuple[str, ...]) -> None:
        super().__init__((), prefer)
        del self._devmod_imports
        self.tree = tree
        self.find_agreement = tree.agreement
        tree.own(self)

    @property
    def imports(self) -> tuple[Module, ...]:
        """The roots. The first access reads the whole index."""
        if self._devmod_imports is None:
            self._devmod_imports = tuple(
                [self.tree.module(number) for number in self.tree.index.roots()]
            )
        return super().imports

    @property
    def _owners(self) -> Mapping[str, Module]:
        if self._devmod_imports is not None:
            return super()._owners
        return _Owners(self.tree)

    def _owners_of(self, name: str, query_imports: bool = False) -> list[Module]:
        # The pages find no functions of imports.
        if self._devmod_imports is None and isinstance(name, str) and not query_imports:
            modules = self.tree.find(name)
            if modules:
                return modules
        return super()._owners_of(name, query_imports)


class _Owners(Mapping[str, Module]):
    """The first candidate of each function. No module is made before it is looked up."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __getitem__(self, name: str) -> Module:
        modules = []
        if isinstance(name, str):
            modules = self._tree.find(name)
        if not modules:
            self._tree.index.check_names()
            raise KeyError(name)
        return modules[0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._tree.index.find(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.index.names())

    def __len__(self) -> int:
        return len(self._tree.index.names())
