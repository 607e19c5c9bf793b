"""The order of a call's arguments: by position, by name, and omitted ones that have a default."""

from __future__ import annotations

from keyword import iskeyword
from operator import itemgetter

from devmod.errors import ArgumentError, did_you_mean, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._launch.arguments import Argument, Signature

    Pick = Callable[[Sequence[Any]], tuple[Any, ...]]

#: The launch's own keywords. A parameter of such a name is given by position.
LAUNCH_KEYWORDS = ("grid", "block", "threads", "stream", "shared_memory")


class ArgumentOrder:
    """The rules by which one function takes its arguments.

    Parameters
    ----------
    label, kind, name
        The function in a message, its kind and its name.
    signature
        Its arguments.
    keywords_only
        Why arguments are given by name alone, as a sentence without its period; "" if positions are accepted.

    Attributes
    ----------
    defaults : tuple
        The defaults of the arguments that have one. A `pick` takes them behind the arguments of the call.
    positional : tuple of Argument
        The arguments that may be given by position.
    """

    __slots__ = (
        "_arguments",
        "_default_places",
        "_kind",
        "_label",
        "_name",
        "_numbers",
        "_signature",
        "defaults",
        "keywords_only",
        "positional",
    )

    def __init__(self, label: str, kind: str, name: str, signature: Signature, keywords_only: str = "") -> None:
        self._label, self._kind, self._name = label, kind, name
        self._signature, self.keywords_only = signature, keywords_only
        self._arguments = signature.arguments
        self._numbers: dict[str, int] = {}
        names = [keyword_of(each) for each in self._arguments]
        for number, name in enumerate(names):
            # A name that two parameters share names neither of them.
            if name and names.count(name) == 1:
                self._numbers[name] = number
        with_default = [each for each in self._arguments if each.default is not None and names[each.number] in self._numbers]
        self._default_places = {each.number: place for place, each in enumerate(with_default)}
        self.defaults = tuple(each.default for each in with_default)
        self.positional = tuple(each for each in self._arguments if each.number not in self._default_places)

    @property
    def is_plain(self) -> bool:
        """Whether the arguments of a call by position are the kernel's arguments."""
        return not self.defaults and not self.keywords_only

    def pick(self, count: int, names: Sequence[str]) -> Pick | None:
        """Return the function that puts arguments in the kernel's order; None for a call with launch values, which needs none.

        Parameters
        ----------
        count
            The number of arguments by position.
        names
            The names of the others, in the order of the call.

        Returns
        -------
        callable
            Takes one tuple: the arguments by position, those by name in the order of `names`, and `defaults`.

        Raises
        ------
        ArgumentError
            An argument is unknown, missing, given twice, or by a position where only a name is accepted.
        """
        if count and self.keywords_only:
            raise self._error(f"takes its arguments by name: {self.keywords_only}. Call it as {self._example()}")
        if self._signature.launch and count == len(self._arguments) + len(self._signature.launch):
            if not names:
                return None
            raise self._error("is called with launch values and with arguments by name; launch values follow the arguments by position")
        if count > len(self.positional):
            raise self._error(f"takes {self._count_text()}; {_given(count)}")
        sources = {argument.number: place for place, argument in enumerate(self.positional[:count])}
        for place, name in enumerate(names, count):
            number = self._numbers.get(name)
            if number is None:
                raise self._unknown(name)
            if number in sources:
                twice = self._arguments[number]
                raise self._error(f"got {twice.label} twice: by position and by name; it takes {self._count_text()}", twice.name)
            sources[number] = place
        missing = [each for each in self._arguments if each.number not in sources and each.number not in self._default_places]
        if missing:
            raise self._missing(missing, count)
        first_default = count + len(names)
        order = [sources[n] if n in sources else first_default + self._default_places[n] for n in range(len(self._arguments))]
        if len(order) == 1:
            (only,) = order
            return lambda given: (given[only],)
        return itemgetter(*order) if order else lambda given: ()

    def _unknown(self, name: str) -> ArgumentError:
        if any(keyword_of(each) == name for each in self._arguments):
            return self._error(f"has several arguments {name!r}: give them by position", name)
        return self._error(f"has no argument {name!r}; it takes {self._count_text()}{did_you_mean(name, self._numbers)}", name)

    def _missing(self, missing: Sequence[Argument], count: int) -> ArgumentError:
        named = all(keyword_of(each) in self._numbers or each.name in LAUNCH_KEYWORDS for each in missing)
        if not named and self._signature.interface is None:
            return self._error(f"takes {self._count_text()}; {_given(count)}")
        what = list_names(each.name for each in missing) if named else ", ".join(each.label for each in missing)
        by_position = ""
        if any(each.name in LAUNCH_KEYWORDS for each in missing):
            by_position = f". {', '.join(LAUNCH_KEYWORDS)} are keywords of the launch: give a parameter of such a name by position"
        return self._error(
            f"misses {'an argument' if len(missing) == 1 else 'arguments'}: {what}; it takes {self._count_text()}{by_position}",
            missing[0].name,
        )

    def _count_text(self) -> str:
        count = len(self._arguments)
        tags = self._signature.tags
        behind = f"; its launch values ({', '.join(tags)}) may follow them" if tags else ""
        return f"{count} argument{'' if count == 1 else 's'}{f' ({self._signature.text})' if count else ''}{behind}"

    def _example(self) -> str:
        return f"f({', '.join(f'{keyword_of(each) or each.label}=…' for each in self.positional)}, grid=…)"

    def _error(self, text: str, argument: str = "") -> ArgumentError:
        return ArgumentError(f"{self._label} {text}", kind=self._kind, function=self._name, argument=argument)


def _given(count: int) -> str:
    return f"{count} {'was' if count == 1 else 'were'} given"


def keyword_of(argument: Argument) -> str:
    """Return the keyword of an argument: its name, with an underscore behind a keyword of Python; "" if it is given by position."""
    if iskeyword(argument.name):
        return argument.name + "_"
    return "" if argument.name in LAUNCH_KEYWORDS else argument.name
