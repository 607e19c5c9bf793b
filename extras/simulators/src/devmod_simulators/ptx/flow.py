"""Control flow: the order of basic blocks and the registers that live at their beginnings.

The scheduler always runs the group of lanes whose block comes first. The order that is computed
here makes lanes of a divergent branch meet again at the branch's immediate post-dominator: a loop
comes before everything behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

#: Nodes, the edges of each, and the one to begin with.
Graph = tuple[list[int], dict[int, list[int]], int]


@lru_cache(1 << 12)
def bits(mask: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set."""
    numbers = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return tuple(numbers)


def components(nodes: Sequence[int], successors: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected components in topological order (Tarjan's algorithm, without
    recursion).
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    result: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            following = successors[node]
            while position < len(following):
                other = following[position]
                position += 1
                if other not in index:
                    work.append((node, position))
                    work.append((other, 0))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                if low[node] == index[node]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        component.append(other)
                        if other == node:
                            break
                    result.append(component)
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
    result.reverse()
    return result


def order(entry: int, successors: list[list[int]]) -> list[int]:
    """Return the blocks that `entry` reaches, each loop before the blocks behind it."""
    reached = {entry}
    work = [entry]
    while work:
        for other in successors[work.pop()]:
            if other not in reached:
                reached.add(other)
                work.append(other)
    result: list[int] = []
    edges = {node: list(successors[node]) for node in reached}
    # Depth first with an explicit stack: the parts of a loop are pushed in reverse.
    pending: list[Graph | int] = [(sorted(reached), edges, entry)]
    while pending:
        item = pending.pop()
        if isinstance(item, int):
            result.append(item)
            continue
        nodes, edges, head = item
        parts: list[Graph | int] = []
        for component in components([head, *(node for node in nodes if node != head)], edges):
            if len(component) == 1:
                parts.append(component[0])
            else:
                parts.append(loop_of(item, component))
        pending.extend(reversed(parts))
    return result


def loop_of(graph: Graph, component: list[int]) -> Graph:
    """Return the graph of a loop, without the edges to its header: it is ordered as a graph that
    begins there.
    """
    nodes, edges, head = graph
    inside = set(component)
    header = head
    if head not in inside:
        entries = set()
        for node in nodes:
            if node not in inside:
                entries |= inside.intersection(edges[node])
        header = min(entries or inside)
    kept = inside - {header}
    inner = {node: [other for other in edges[node] if other in kept] for node in component}
    return sorted(component), inner, header


def most_live(after: int, uses: Sequence[tuple[int, int]], wide: int) -> int:
    """Return the most 32-bit registers that live at once in a block.

    Its instructions read and write the registers of `uses`, and those of `after` live behind it.
    Registers of `wide` count twice.
    """
    live = after
    most = 0
    for reads, writes in reversed(uses):
        live = live & ~writes | reads
        most = max(most, live.bit_count() + (live & wide).bit_count())
    return most


def live_registers(
    successors: Sequence[Iterable[int]], reads: Sequence[int], writes: Sequence[int]
) -> list[int]:
    """Return for each block the registers that live at its beginning, as bits."""
    live = list(reads)
    changed = True
    while changed:
        changed = False
        for block in range(len(live) - 1, -1, -1):
            after = 0
            for other in successors[block]:
                after |= live[other]
            new = reads[block] | (after & ~writes[block])
            if new != live[block]:
                live[block] = new
                changed = True
    return live
