"""LibraryModule: the host library at the root of a tree that TVM exported."""

from __future__ import annotations

from devmod._modules.module import LIBRARY, RUNNABLE, Module
from devmod.errors import FunctionNotFoundError, function_not_found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LibraryModule(Module):
    """The root of a tree that TVM exported. It represents the host library, whose functions are not in the tree."""

    @property
    def kind(self) -> str:
        return LIBRARY

    @property
    def property_mask(self) -> int:
        return RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the function of the first import that has it, if `query_imports` is true.

        Raises
        ------
        FunctionNotFoundError
            There is no function of that name. If an import has it, the message has the call that returns it.
        """
        from devmod._modules.tree import owner_of

        owner = owner_of(name, *self.imports)
        if owner is None:
            raise function_not_found(self.kind, name, ())
        if not query_imports:
            text = f"{function_not_found(self.kind, name, ())}. Its {owner.kind} import has it: get_function({name!r}, query_imports=True)"
            raise FunctionNotFoundError(text, kind=self.kind, function=name)
        return owner.get_function(name)
