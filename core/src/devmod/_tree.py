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


def ordered(roots: Sequence[Module]) -> list[tuple[Module, tuple[Module, ...]]]:
    """The modules of the trees, each once and with its imports: every importer before what it imports, else in their order.

    Each is asked for its imports once, so that the answer is one tree also where a module makes them up.

    Raises
    ------
    FormatError
        A module imports itself, at some distance.
    """
    finished: list[tuple[Module, tuple[Module, ...]]] = []
    state: dict[int, bool] = {}  # whether a module is finished; one that is not has the rest of the path above it
    for root in reversed(roots):
        pending = [root] if id(root) not in state else []
        path: list[tuple[Module, tuple[Module, ...], list[Module]]] = []
        while pending or path:
            if pending:
                module = pending.pop()
                state[id(module)] = False
                imports = tuple(module.imports)
                path.append((module, imports, list(imports)))
            module, imports, left = path[-1]
            if not left:
                path.pop()
                state[id(module)] = True
                finished.append((module, imports))
                continue
            child = left.pop()
            if id(child) not in state:
                pending.append(child)
            elif not state[id(child)]:
                raise FormatError(f"the {child.kind} module imports itself, directly or through others: a program is a tree")
    finished.reverse()
    return finished
