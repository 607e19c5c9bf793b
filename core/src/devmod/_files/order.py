"""The order of a tree in a file: the number of each module's record, and the name whose page has
it.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from devmod._formats.index import candidates_of
from devmod._modules.module import holds_candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod._modules.module import Module


class Order:
    """The modules of a tree in the order of `devmod._modules.module.ordered`. The position of one
    in this order is its place.

    Parameters
    ----------
    roots
        The roots of the tree.
    found
        The modules in their order, each with its imports.
    same
        For the identity of a module that is not saved, another one that is saved in its place.

    Attributes
    ----------
    modules
        The modules.
    names
        The functions of each module; none for a node of candidates.
    imports
        For each place of a module with imports, the places of these.
    tops
        The places of the roots.
    ranks
        For each place of a candidate, its position among the candidates.
    counts
        The number of candidates that have each function.
    keys
        For each place of a candidate with functions, the name whose page has its record.
    named
        The places that have a key, in the order of the keys and then of the ranks. Their records
        are the first ones of the file.
    numbers
        The number of the record of each place.
    """

    def __init__(
        self,
        roots: Sequence[Module],
        found: Sequence[tuple[Module, Sequence[Module]]],
        same: Mapping[int, Module],
    ) -> None:
        if same:
            found = [each for each in found if id(each[0]) not in same]
        self.modules = [module for module, _ in found]
        places = {id(module): place for place, module in enumerate(self.modules)}
        for identity, module in same.items():
            places[identity] = places[id(module)]

        self.imports: dict[int, list[int]] = {}
        for place, (_, imports) in enumerate(found):
            if imports:
                self.imports[place] = [places[id(each)] for each in imports]

        nodes = self._nodes()
        self.tops = list(dict.fromkeys([places[id(root)] for root in roots]))
        self.ranks: dict[int, int] = {}
        for rank, place in enumerate(candidates_of(self.tops, nodes.get)):
            self.ranks[place] = rank

        self.names: list[tuple[str, ...]] = []
        for place, module in enumerate(self.modules):
            if place in nodes:
                self.names.append(())
            else:
                self.names.append(tuple(module.function_names))

        self.counts = Counter(chain.from_iterable([{*self.names[place]} for place in self.ranks]))
        self.keys = self._choose_keys()
        self.named = sorted(self.keys, key=self.keys.__getitem__)  # it keeps the order of equals
        self.numbers = self._number_records()

    def _nodes(self) -> dict[int, Sequence[int]]:
        """Return the places of the nodes of candidates, with the places of their imports."""
        nodes: dict[int, Sequence[int]] = {}
        for place, module in enumerate(self.modules):
            if holds_candidates(module):
                nodes[place] = self.imports.get(place, ())
        return nodes

    def _choose_keys(self) -> dict[int, str]:
        """Return for each candidate with functions the name that the fewest candidates have, and of
        several the lowest. So a name that all have fills no page.
        """
        counts = self.counts
        shared = {name for name, count in counts.items() if count > 1}
        keys = {}
        for place in self.ranks:
            names: Sequence[str] = self.names[place]
            if not names:
                continue
            if not shared.isdisjoint(names):
                least = min([counts[name] for name in names])
                names = [name for name in names if counts[name] == least]
            keys[place] = min(map(str, names))
        return keys

    def _number_records(self) -> list[int]:
        numbers = [0] * len(self.modules)
        for number, place in enumerate(self.named):
            numbers[place] = number
        number = len(self.named)
        for place in range(len(self.modules)):
            if place not in self.keys:
                numbers[place] = number
                number += 1
        return numbers
