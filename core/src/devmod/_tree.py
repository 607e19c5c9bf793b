"""Walking the tree of modules that a program is. A module may be imported more than once, so a walk remembers."""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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


def ordered(roots: Sequence[Module]) -> list[Module]:
    """The modules of the trees, each once, every importer before what it imports, and otherwise in their order.

    Raises
    ------
    FormatError
        A module imports itself, at some distance.
    """
    finished: list[Module] = []
    state: dict[int, bool] = {}  # whether a module is finished; one that is not has the rest of the path above it
    for root in reversed(roots):
        if id(root) in state:
            continue
        state[id(root)] = False
        path = [(root, list(root.imports))]
        while path:
            module, left = path[-1]
            if not left:
                path.pop()
                state[id(module)] = True
                finished.append(module)
                continue
            child = left.pop()
            if id(child) not in state:
                state[id(child)] = False
                path.append((child, list(child.imports)))
            elif not state[id(child)]:
                raise FormatError(f"the {child.kind} module imports itself, directly or through others: a program is a tree")
    finished.reverse()
    return finished
