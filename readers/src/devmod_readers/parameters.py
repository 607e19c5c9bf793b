"""The parameters of a kernel by their sizes, for a function of which some arguments are several values (`devmod.Param.pack`).

Such values are parameters of their own, or the members of structs in the layout of C, as in ``struct { float *data; size_t count; }``.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod import Interface


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


def group_values(values: Sequence[tuple[int, int]], followers: Iterable[int], sizes: Sequence[int]) -> list[Group]:
    """Return the groups in which the values of a function lie in the parameters of its kernel.

    Values without a parameter are groups of their own. The caller compares the sizes of groups and parameters.

    Parameters
    ----------
    values
        The size and the alignment of each value.
    followers
        The values that may lie behind the one before, as `follower_numbers` returns them.
    sizes
        The sizes of the parameters.
    """
    groups: list[Group] = []
    numbers = frozenset(followers)
    first = 0
    while first < len(values):
        expected = sizes[len(groups)] if len(groups) < len(sizes) else 0
        size, align = values[first]
        end, offsets, number = size, [0], first + 1
        while size < expected and number in numbers:
            each, each_align = values[number]
            offsets.append(-(-end // each_align) * each_align)
            end, align, number = offsets[-1] + each, max(align, each_align), number + 1
            size = -(-end // align) * align
        groups.append(Group(size, tuple(offsets)))
        first = number
    return groups


def follower_numbers(interface: Interface | None) -> list[int]:
    """Return the numbers of the values that follow another one of the same `devmod.Param.pack`."""
    numbers: list[int] = []
    start = 0
    for param in interface.params if interface is not None else ():
        count = len(param.pack) or 1
        numbers += range(start + 1, start + count)
        start += count
    return numbers
