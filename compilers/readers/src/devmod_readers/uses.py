"""The transitive uses of declarations, computed once for all of them.

The parts that a declaration uses are the bits of a number. For a chain of functions, sets of names
would take time and memory that grow with the square of its length.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
    from typing import TypeVar

    _Name = TypeVar("_Name", bound=Hashable)


def transitive_parts(
    parts: Mapping[_Name, int], uses: Mapping[_Name, Iterable[_Name]]
) -> dict[_Name, int]:
    """Return for each declaration the bits of its own parts and of all parts that it uses
    indirectly.

    Declarations in a cycle have the same parts (Tarjan's algorithm, without recursion).

    Parameters
    ----------
    parts
        Each declaration to the bits of its own parts.
    uses
        Each declaration to the declarations that it uses. Names that are not in `parts` are
        ignored.
    """
    reached: dict[_Name, int] = {}
    order: dict[_Name, int] = {}
    low: dict[_Name, int] = {}
    component: list[_Name] = []
    path: list[tuple[_Name, Iterator[_Name]]] = []

    def enter(name: _Name) -> None:
        order[name] = low[name] = len(order)
        component.append(name)
        reached[name] = parts[name]
        path.append((name, iter(uses.get(name, ()))))

    for root in parts:
        if root in order:
            continue
        enter(root)
        while path:
            name, following = path[-1]
            for target in following:
                if target not in parts:
                    continue
                if target not in order:
                    enter(target)
                    break
                if low[target] >= 0:  # its cycle is not complete yet
                    low[name] = min(low[name], order[target])
                reached[name] |= reached[target]
            else:
                path.pop()
                if low[name] == order[name]:
                    _close(component, name, low, reached)
                if path:
                    user = path[-1][0]
                    reached[user] |= reached[name]
                    if low[name] >= 0:
                        low[user] = min(low[user], low[name])
    return reached


def users_of(names: Set[str], identifiers: Mapping[str, Set[str]]) -> set[str]:
    """Return the functions that use one of `names`, also through functions that they call.

    Parameters
    ----------
    names
        The names that are searched for.
    identifiers
        Each function to the identifiers in its body.
    """
    own = {function: int(not found.isdisjoint(names)) for function, found in identifiers.items()}
    calls = {function: found & own.keys() for function, found in identifiers.items()}
    return {function for function, is_user in transitive_parts(own, calls).items() if is_user}


def _close(
    component: list[_Name], name: _Name, low: dict[_Name, int], reached: dict[_Name, int]
) -> None:
    """Assign the same parts to all declarations of the cycle that begins with `name`."""
    while True:
        member = component.pop()
        low[member] = -1
        reached[member] = reached[name]
        if member == name:
            return


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, from the lowest."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
