"""The table of the options that a compiler takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from devmod.errors import did_you_mean

#: The least length of an option that is compared with the known ones: any shorter one is like some.
_LEAST = 6


class OptionTable:
    """The options that a compiler takes.

    Parameters
    ----------
    words
        The options without a value, and those with one of few values: ``-w``, ``-std=c++20``.
    values
        The pattern of the value of each other option: ``-maxrregcount`` to ``\\d+``.
    others
        The pattern of further options, such as defines. "" matches none.
    """

    def __init__(
        self,
        words: Iterable[str],
        values: Mapping[str, str] = MappingProxyType({}),
        others: str = "",
    ) -> None:
        self.words = tuple(words)
        self.values = dict(values)
        patterns = [re.escape(word) for word in self.words]
        patterns += [f"{re.escape(name)}={value}" for name, value in self.values.items()]
        if others:
            patterns.append(others)
        self._pattern = re.compile("|".join(patterns), re.ASCII)

    def __contains__(self, option: str) -> bool:
        return self._pattern.fullmatch(option) is not None

    def hint(self, option: str) -> str:
        """Return the end of a message about an option that is not in the table: the nearest one.

        It is "" for an option whose value alone is wrong.
        """
        if len(option) < _LEAST or option.partition("=")[0] in self.values:
            return ""
        names = [*self.words, *(f"{name}=" for name in self.values)]
        longer = [each for each in names if each.startswith(option)]
        if longer:
            return did_you_mean(option, longer, cutoff=0)
        return did_you_mean(option, names)
