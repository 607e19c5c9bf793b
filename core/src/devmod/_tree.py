"""Walking the tree of modules that a program is. A module may be imported more than once, so a walk remembers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from devmod._module import Module


def walk(*roots: Module) -> Iterator[Module]:
    """Each module of the trees once, an importer before its imports, in their order."""
    pending = list(reversed(roots))
    seen: set[int] = set()
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            pending.extend(reversed(module.imports))


def function_names(module: Module) -> Collection[str]:
    """The names of a module's functions, without parsing a stored module's bytes where its index has them."""
    names: Collection[str] | None = getattr(module, "function_names", None)
    return module.functions if names is None else names


def owner_of(name: str, *modules: Module) -> Module | None:
    """The first module in the trees that has a function of that name; None where there is none."""
    return next((module for module in walk(*modules) if name in function_names(module)), None)
