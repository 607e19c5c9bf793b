"""Walks over a program's tree of modules.

A module may be imported many times: 41 modules that each import the next one twice have 2**40 paths. So a walk visits each module once,
in time and memory linear in modules and imports. No walk recurses, since a chain of imports may be long.
"""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from devmod._modules.module import Module


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
    seen: set[int] = set()
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            if enter is None or enter(module):
                pending.extend(reversed(module.imports))


def holds_candidates(module: Module) -> bool:
    """Return whether a module is a `bundle`, a node whose functions are those of its imports."""
    return getattr(type(module), "_devmod_candidates", False)


def owner_of(name: str, *modules: Module) -> Module | None:
    """Return the first module in the trees that has the function `name`, or None."""
    return next(owners_of(name, *modules), None)


def owners_of(name: str, *modules: Module) -> Iterator[Module]:
    """Yield the `owner_of` each tree that has the function `name`. Modules shared by several trees are searched once."""
    in_candidates: dict[int, Module | None] = {}
    in_tree: dict[int, Module | None] = {}

    def has(module: Module) -> bool:
        return name in module.function_names

    def provides(module: Module) -> bool:
        # Search the candidates, not a bundle's own names: bundles that share candidates would list the names repeatedly.
        if not holds_candidates(module):
            return has(module)
        return _first(module, in_candidates, lambda each: not holds_candidates(each) and has(each), holds_candidates) is not None

    for module in modules:
        owner = _first(module, in_tree, provides)
        if owner is not None:
            yield owner


def _first(
    root: Module,
    cache: dict[int, Module | None],
    matches: Callable[[Module], bool],
    enter: Callable[[Module], bool] | None = None,
) -> Module | None:
    """Return the first module of a `walk` from `root` that matches. `cache` has the answer for each searched module."""
    path = [(root, iter((root,)))]  # a module, and an iterator over its unsearched imports
    while path:
        child = next(path[-1][1], None)
        if child is None:
            path.pop()
            continue
        if id(child) not in cache:
            cache[id(child)] = None
            if matches(child):
                cache[id(child)] = child
            elif enter is None or enter(child):
                path.append((child, iter(child.imports)))
        result = cache[id(child)]
        if result is not None:
            cache.update((id(module), result) for module, _ in path)
            return result
    return None


def ordered(roots: Sequence[Module]) -> list[tuple[Module, tuple[Module, ...]]]:
    """Return the modules of the trees, each once with its imports: every importer before its imports, otherwise in their order.

    The property ``imports`` of each module is read once, so that the result is consistent even if a module computes it.

    Raises
    ------
    FormatError
        A module imports itself, directly or through other modules.
    """
    finished: list[tuple[Module, tuple[Module, ...]]] = []
    state: dict[int, bool] = {}  # whether a module is finished; the others are on the path
    for root in reversed(roots):
        pending = [root] if id(root) not in state else []
        path: list[tuple[Module, tuple[Module, ...], list[Module]]] = []
        while pending or path:
            if pending:
                module = pending.pop()
                state[id(module)] = False
                imports = tuple(module.imports)
                path.append((module, imports, list(imports)))
            module, imports, remaining = path[-1]
            if not remaining:
                path.pop()
                state[id(module)] = True
                finished.append((module, imports))
                continue
            child = remaining.pop()
            if id(child) not in state:
                pending.append(child)
            elif not state[id(child)]:
                raise FormatError(f"the {child.kind} module imports itself, directly or through others: a program is a tree")
    finished.reverse()
    return finished
