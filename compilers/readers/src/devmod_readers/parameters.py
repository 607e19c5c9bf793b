"""The parameters of a kernel by their sizes, for a function of which some arguments are several
values (`devmod.Param.pack`).

Such values are parameters of their own, or the members of structs in the layout of C, as in
``struct { float *data; size_t count; }``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod import Interface

    #: A group, and the groups before it.
    _Path: TypeAlias = "tuple[Group, _Path | None]"


class Group(NamedTuple):
    """Values that lie in one parameter.

    Attributes
    ----------
    size : int
        Their bytes: those of a struct, or of one value.
    offsets : tuple of int
        The offset of each value in the parameter.
    """

    size: int
    offsets: tuple[int, ...]


def group_values(
    values: Sequence[tuple[int, int]], followers: Iterable[int], sizes: Sequence[int]
) -> list[Group]:
    """Return the groups in which the values of a function lie in the parameters of its kernel.

    If several divisions into structs have these sizes, the first struct that differs has as many
    values as it can: ``{ptr, int, int}`` has the size of ``{ptr, int}``. If none has, values
    without a parameter of their size are groups of their own. The caller compares the sizes of
    groups and parameters.

    Parameters
    ----------
    values
        The size and the alignment of each value.
    followers
        The values that may lie behind the one before, as `follower_numbers` returns them.
    sizes
        The sizes of the parameters; 0 if it is unknown: one value.
    """
    numbers = frozenset(followers)
    closest: list[Group] | None = None
    tried: set[tuple[int, int, bool]] = set()
    paths: list[tuple[int, int, bool, _Path | None]] = [(0, 0, True, None)]
    while paths:
        first, place, fits, path = paths.pop()
        if first == len(values):
            if fits and place == len(sizes):
                return _groups(path)
            if closest is None:
                closest = _groups(path)
            continue
        is_needed = fits or closest is None
        if not is_needed or (first, place, fits) in tried:
            continue
        tried.add((first, place, fits))
        expected = sizes[place] if place < len(sizes) else 0
        groups = [*_structs(values, first, numbers, expected)]
        if expected and groups[-1].size != expected:
            # The last one is larger, or smaller than the parameter.
            *groups, last = groups
            if not groups:
                fits = False
                groups = [last]
        for group in groups:
            paths.append((first + len(group.offsets), place + 1, fits, (group, path)))
    return closest or []


def _structs(
    values: Sequence[tuple[int, int]], first: int, followers: frozenset[int], size: int
) -> Iterator[Group]:
    """Yield the structs from the value `first` on that have `size` bytes, and the first one that is
    larger, or has all followers.
    """
    end, align = values[first]
    offsets = [0]
    number = first + 1
    total = end
    while True:
        is_last = total > size or number not in followers
        if is_last or total == size:
            yield Group(total, tuple(offsets))
        if is_last:
            return
        each, each_align = values[number]
        offsets.append(-(-end // each_align) * each_align)
        end = offsets[-1] + each
        align = max(align, each_align)
        number += 1
        total = -(-end // align) * align


def _groups(path: _Path | None) -> list[Group]:
    groups = []
    while path is not None:
        group, path = path
        groups.append(group)
    return groups[::-1]


def follower_numbers(interface: Interface | None) -> list[int]:
    """Return the numbers of the values that follow another one of the same `devmod.Param.pack`."""
    numbers: list[int] = []
    if interface is None:
        return numbers
    start = 0
    for param in interface.params:
        count = len(param.pack) or 1
        numbers += range(start + 1, start + count)
        start += count
    return numbers
