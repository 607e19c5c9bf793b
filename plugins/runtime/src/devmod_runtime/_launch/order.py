"""The order of a call's arguments: by position, by name, in records, and omitted ones that have a
default.
"""

from __future__ import annotations

from keyword import iskeyword
from operator import itemgetter
from typing import Any, NamedTuple

from devmod import Local, Member, Param
from devmod._values.param import check_members, kind_text
from devmod.backend import (
    LAUNCH_KEYWORDS,
    ConversionError,
    is_value,
    members_by_value,
    parse_dtype,
    type_text,
)
from devmod.errors import DevmodError, FormatError, did_you_mean, list_names, quote_name
from devmod_runtime._launch.arguments import AddressBlock, Argument, BlockBytes, Signature
from devmod_runtime._launch.opening import keep
from devmod_runtime._launch.scalars import AddressBytes, StructError, struct_packer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Parameter

    from devmod import Interface

    #: The arguments of a call.
    Arguments = tuple[Any, ...]
    Names = Callable[[Mapping[str, Any]], Arguments]
    #: What puts arguments into another order, or several into one.
    Arrange = Callable[[Arguments], Arguments]
    #: What checks or converts a record.
    Converter = Callable[[Any], Any]
    #: The steps for the arguments of calls with the same names: the number of arguments by
    #: position; the function that returns those by name; and the function that puts all in the
    #: kernel's order and converts records. It is None if they are the kernel's arguments.
    Plan = tuple[int, Names, Arrange | None]

#: The most bytes of a block that is given as a record.
_MAX_RECORD = 1 << 24


class ArgumentOrder:
    """The rules by which one function takes its arguments.

    Parameters
    ----------
    signature
        The function's arguments.
    keywords_only
        Why arguments are given by name alone, as a sentence without its period; "" if positions are
        accepted.
    flattened
        The structs whose members are arguments of the call, in the place of the struct.

    Attributes
    ----------
    arguments : sequence of Argument or MemberArgument
        The arguments of a call: the kernel's, or members in the place of a struct.
    positional : tuple of Argument or MemberArgument
        The arguments that may be given by position.
    records : dict of str to RecordArgument
        By keyword, the blocks and flattened structs that may be given in place of their members.
    plans : dict of tuple to Plan
        The plan of the calls with the same names. One number of arguments by position goes with
        each.
    """

    def __init__(
        self, signature: Signature, keywords_only: str = "", flattened: frozenset[str] = frozenset()
    ) -> None:
        self._signature = signature
        self._error = signature.error
        self.plans: dict[tuple[str, ...], Plan] = {}
        self.keywords_only = keywords_only
        self.flattened = flattened
        self.arguments: Sequence[Argument | MemberArgument] = signature.arguments
        #: For each of the kernel's arguments its number in the call, or those of the members in its
        #: place, and the names of these; () for one that is not flattened.
        self._groups: list[tuple[Sequence[int], Sequence[str]]] = [
            ((each.number,), ()) for each in self.arguments
        ]
        if flattened:
            self._flatten()
        self._numbers: dict[str, int] = {}
        names = [keyword_of(each) for each in self.arguments]
        for number, name in enumerate(names):
            # A name that two parameters share names neither of them.
            if name and names.count(name) == 1:
                self._numbers[name] = number
        self._optional: list[int] = []
        for argument in self.arguments:
            if argument.default is not None and names[argument.number] in self._numbers:
                self._optional.append(argument.number)
        self.positional = tuple(
            each for each in self.arguments if each.number not in self._optional
        )
        self.records: dict[str, RecordArgument] = {}
        if signature.interface is not None:
            self.records = self._find_records(signature.interface, {*LAUNCH_KEYWORDS, *names})

    @property
    def names(self) -> tuple[str, ...]:
        """The keyword of each argument of a call; () if one has none."""
        if len(self._numbers) < len(self.arguments):
            return ()
        return tuple(self._numbers)

    @property
    def is_plain(self) -> bool:
        """Whether the arguments of a call by position are the kernel's arguments."""
        return not self._optional and not self.keywords_only and not self.flattened

    def _flatten(self) -> None:
        """Replace each struct of `flattened` by its members."""
        arguments: list[Argument | MemberArgument] = []
        for argument in self._signature.arguments:
            param = argument.param
            members: Sequence[Member] = ()
            if param.name in self.flattened:
                members = members_by_value(param)
            start = len(arguments)
            for member in members:
                arguments.append(MemberArgument(len(arguments), member.name, kind_text(member)))
            if not members:
                text = type_text(param.replace(default=None))
                arguments.append(
                    MemberArgument(len(arguments), argument.name, text, argument.default)
                )
            self._groups[argument.number] = (
                range(start, len(arguments)),
                [each.name for each in members],
            )
        self.arguments = arguments

    def _find_records(
        self, interface: Interface, used_names: set[str]
    ) -> dict[str, RecordArgument]:
        """Return the records by keyword: the name of the block or struct, with an underscore behind
        it if another argument has it.
        """
        if not self.flattened and not any(block.name for block in interface.blocks):
            return {}
        found = self._block_records(interface)
        for number, (members, names) in enumerate(self._groups):
            if names:
                name = self._signature.arguments[number].name
                found.append(RecordArgument(name, members, number))

        records: dict[str, RecordArgument] = {}
        for record in found:
            keyword = record.name
            while keyword in used_names or keyword in records or iskeyword(keyword):
                keyword += "_"
            records[keyword] = record
        return records

    def _block_records(self, interface: Interface) -> list[RecordArgument]:
        """Return the blocks of scalars that have a name."""
        records: list[RecordArgument] = []
        for index, block in enumerate(interface.blocks):
            scalars = [
                each for each in self._signature.arguments if _is_in_block(each.param, index)
            ]
            numbers: list[int] = []
            for each in scalars:
                numbers += self._groups[each.number][0]
            if block.name and scalars:
                records.append(RecordArgument(block.name, numbers, -1, block.size, scalars))
        return records

    def describe_record(self, record: RecordArgument) -> str:
        """Return the members of a record, as text: ``{n: int32, alpha: float32}``."""
        if record.argument >= 0:
            return type_text(self._signature.arguments[record.argument].param)
        members = [
            f"{each.name}: {type_text(each.param.replace(default=None))}" for each in record.scalars
        ]
        return f"{{{', '.join(members)}}}"

    def parameter_names(self) -> list[str]:
        """Return a unique Python name for each argument: its keyword if it has one."""
        used_names = set(LAUNCH_KEYWORDS)
        names = []
        for argument in self.arguments:
            name = keyword_of(argument) or argument.name
            if not name.isidentifier() or iskeyword(name):
                name = f"argument_{argument.number + 1}"
            while name in used_names:
                name += "_"
            used_names.add(name)
            names.append(name)
        return names

    def parameters(self, type_of: Callable[[Any], str]) -> list[Parameter]:
        """Return the arguments as parameters of a Python function, with the text of `type_of` as
        the annotation.
        """
        from inspect import Parameter

        names = self.parameter_names()
        # Python's positional-only parameters come first, so what precedes the last of them is one
        # in the signature.
        last = -1
        for positional in self.positional:
            if names[positional.number] != keyword_of(positional):
                last = max(last, positional.number)

        parameters: list[Parameter] = []
        for argument, name in zip(self.arguments, names, strict=True):
            default: Any = Parameter.empty
            if argument.number in self._optional:
                default = argument.default
            kind: Any = Parameter.POSITIONAL_OR_KEYWORD
            if self.keywords_only or argument.number in self._optional:
                kind = Parameter.KEYWORD_ONLY
            elif argument.number <= last:
                kind = Parameter.POSITIONAL_ONLY
            parameters.append(Parameter(name, kind, default=default, annotation=type_of(argument)))

        for keyword, record in self.records.items():
            if keyword.isidentifier() and keyword not in names:
                parameters.append(
                    Parameter(
                        keyword,
                        Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=self.describe_record(record),
                    )
                )
        return sorted(parameters, key=lambda each: each.kind)

    def argument_of(self, argument: Argument, path: str) -> Argument | MemberArgument:
        """Return the argument of the call that holds an argument of the kernel, or the member of it
        at `path`, as in ``p.parts[1].n``.
        """
        if not self.flattened:
            return argument
        name = argument.name
        if name in self.flattened:
            name = _first_name(path.removeprefix(f"{name}."))
        return next((each for each in self.arguments if each.name == name), argument)

    def arrange(self, args: Arguments, keywords: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call in the kernel's order, and cache the plan of such calls.

        Launch values stay behind the arguments.

        Raises
        ------
        ArgumentError
            An argument is unknown, missing, given twice, or by a position where only a name is
            accepted.
        """
        count = len(args)
        behind = len(self._signature.launch)
        if count and self.keywords_only:
            example = ", ".join(f"{keyword_of(each) or each.label}=…" for each in self.positional)
            raise self._error(
                f" takes its arguments by name: {self.keywords_only}. Call it as f({example}, threads=…)"
            )
        if behind and count == len(self.positional) + behind:
            if not keywords:
                return self.arrange(args[:-behind], keywords) + args[-behind:]
            raise self._error(
                " is called with launch values and with arguments by name; launch values follow the arguments by position"
            )

        names = tuple(keywords)
        plan = self._plan(args, names)
        _, get, rearrange = plan
        args += get(keywords)
        if rearrange is not None:
            args = rearrange(args)
        keep(self.plans, names, plan)
        return args

    def _plan(self, args: Sequence[object], names: Sequence[str]) -> Plan:
        """Return the plan of a call with so many arguments by position and with `names`. Their
        values are for errors alone.
        """
        count = len(args)
        if count > len(self.positional):
            raise self._error(self._wrong_count(count))

        positions = [each.number for each in self.positional[:count]]
        by_name = self._names_by_number(names, positions)
        present = {*positions, *by_name}
        accounted = {*present, *self._optional}
        missing = [each for each in self.arguments if each.number not in accounted]
        if missing:
            raise self._missing(missing, args)

        # The arguments by name are taken in the kernel's order, whatever the order of the call. A
        # record is one of them.
        given = list(dict.fromkeys(by_name[number] for number in sorted(by_name)))
        get = getter(given)
        omitted = [number for number in self._optional if number not in present]
        defaults = tuple(self.arguments[number].default for number in omitted)

        # The values of a call: those by position, those by name, and the defaults.
        keys: list[int | str] = [*positions, *given, *omitted]
        places = [keys.index(by_name.get(each.number, each.number)) for each in self.arguments]
        sources: list[int | Mapping[str, int]] = []
        for members, member_names in self._groups:
            first = members[0]
            # Without members, the kernel's argument is a value of the call, also the record as it
            # is, or the content of its block.
            if not member_names or by_name.get(first) in self.records:
                sources.append(places[first])
            else:
                sources.append(dict(zip(member_names, places[first:], strict=False)))
        converters = self._converters(given, count)
        pick = _picker(sources)
        if not converters and not defaults:
            if sources == [*range(len(sources))]:
                return count, get, None
            return count, get, pick

        def rearrange(values: Arguments) -> Arguments:
            for place, convert in converters:
                values = (*values[:place], convert(values[place]), *values[place + 1 :])
            return pick(values + defaults)

        return count, get, rearrange

    def _names_by_number(self, names: Sequence[str], positions: Sequence[int]) -> dict[int, str]:
        """Return the name that gives each argument. A record gives several."""
        by_name: dict[int, str] = {}
        for name in names:
            if name in self.records:
                numbers = self.records[name].numbers
            elif name in self._numbers:
                numbers = (self._numbers[name],)
            else:
                raise self._unknown(name)
            for number in numbers:
                if number in positions:
                    raise self._given_twice(number, "by position", (name,))
                if number in by_name:
                    raise self._given_twice(number, "by name", (name, by_name[number]))
                by_name[number] = name
        return by_name

    def _given_twice(self, number: int, way: str, names: Sequence[str]) -> DevmodError:
        argument = self.arguments[number]
        other = "by name"
        record = next((each for each in names if each in self.records), "")
        if record:
            other = f"in the record {record}="
        return self._error(
            f" got {argument.label} twice: {way} and {other}; it takes {self._count_text()}",
            argument.name,
        )

    def _converters(self, given: Sequence[str], first: int) -> list[tuple[int, Converter]]:
        """Return the functions that check and convert the records among the arguments by name, each
        with the place of its record. `first` is the place of the first argument by name.
        """
        converters: list[tuple[int, Converter]] = []
        for place, keyword in enumerate(given, first):
            record = self.records.get(keyword)
            if record is None:
                continue
            if self.keywords_only:
                converters.append((place, self._refuse_tuple(keyword)))
            if record.argument < 0:
                converters.append((place, self._converter(keyword, record)))
        return converters

    def _refuse_tuple(self, keyword: str) -> Converter:
        """Return the function that raises ArgumentError for a tuple, whose order would be that of
        one candidate.
        """

        def check(value: Any) -> Any:
            if isinstance(value, tuple):
                raise self._error(
                    f" takes the members of {keyword}= by name, in a mapping: {self.keywords_only}",
                    keyword,
                )
            return value

        return check

    def _converter(self, keyword: str, record: RecordArgument) -> Callable[[Any], BlockBytes]:
        """Return the function that converts a record to the content of its block. It raises
        ArgumentError.

        Raises
        ------
        FormatError
            The scalars have no valid layout: they overlap, or are outside of the block; or the
            block is too large.
        """
        block = f"the block {quote_name(record.name)} of {self._signature.label}"
        # A file has the size, and the memory is allocated before a device checks its limit.
        if record.size > _MAX_RECORD:
            raise FormatError(
                f"{block} has {record.size} bytes; a record has at most {_MAX_RECORD}"
            )
        members = [*map(_member, record.scalars)]
        check_members(members, record.size, block)
        pack = struct_packer(keyword, members, record.size)

        def convert(value: Any) -> BlockBytes:
            try:
                data = pack(value)
            except ConversionError as error:
                member = ""
                if isinstance(error, StructError):
                    member = _first_name(error.path[len(keyword) + 1 :])
                raise self._error(
                    f" got an invalid record {keyword}=: {error}", member or keyword
                ) from None
            if isinstance(data, AddressBytes):
                return AddressBlock(data, keyword, data.arrays)
            return BlockBytes(data)

        return convert

    def _unknown(self, name: str) -> DevmodError:
        if any(keyword_of(each) == name for each in self.arguments):
            return self._error(f" has several arguments {name!r}: give them by position", name)
        for each in self.arguments:
            if each.name == name and keyword_of(each) in self._numbers:
                return self._error(
                    f" takes its argument {quote_name(name)} as {keyword_of(each)}=", name
                )
        hint = did_you_mean(name, [*self._numbers, *self.records, *LAUNCH_KEYWORDS])
        for each in self.arguments:
            if isinstance(each, MemberArgument) or each.kind == "buffer" or not each.name:
                continue
            if any(member.name == name for member in each.param.members):
                hint = f". {quote_name(name)} is a member of {each.name!r}"
                break
        return self._error(
            f" has no argument {quote_name(name)}; it takes {self._count_text()}{hint}", name
        )

    def _missing(
        self, missing: Sequence[Argument | MemberArgument], args: Sequence[object]
    ) -> DevmodError:
        by_name = all(keyword_of(each) in self._numbers for each in missing)
        if not by_name and self._signature.interface is None:
            return self._error(self._wrong_count(len(args)))
        noun = "arguments"
        if len(missing) == 1:
            noun = "an argument"
        listed = ", ".join(each.label for each in missing)
        advice = ""
        renamed: list[Argument | MemberArgument] = []
        if by_name:
            listed = list_names(each.name for each in missing)
            renamed = [each for each in missing if keyword_of(each) != each.name]
            if renamed:
                keywords = [f"{each.name!r} as {keyword_of(each)}=" for each in renamed]
                advice = f". Give {', '.join(keywords)}"
        for each in missing:
            if by_name and isinstance(each, Argument) and each.param.kind == "local":
                advice += (
                    f". {each.name!r} is memory that a block shares: pass devmod.Local(nbytes)"
                )
        if any(map(is_record, args)):
            hints = [self.record_hint(each.number) for each in missing]
            advice += next(filter(None, hints), "")
        error = self._error(
            f" is missing {noun}: {listed}; it takes {self._count_text()}{advice}", missing[0].name
        )
        error.keywords = (*error.keywords, *map(keyword_of, renamed))
        return error

    def record_hint(self, number: int) -> str:
        """Return the sentence about the record of an argument of the call, as the end of a message;
        "" if it is in none.
        """
        for keyword, record in self.records.items():
            if number in record.numbers:
                names = list_names(self.arguments[each].name for each in record.numbers)
                return f". A record is given by name: {keyword}={{…}} in place of {names}"
        return ""

    def _count_text(self) -> str:
        count = len(self.positional)
        text = f"{count} arguments"
        if count == 1:
            text = "1 argument"
        listed = ""
        if count:
            listed = f" ({', '.join(each.text for each in self.positional)})"
        if not self._optional:
            return f"{text}{listed}"
        by_name = list_names(self.arguments[number].name for number in self._optional)
        return f"{text} by position{listed}, and {by_name} by name"

    def _wrong_count(self, count: int) -> str:
        tags = self._signature.tags
        behind = ""
        # TVM gives launch values, and its functions have no interface.
        if tags and self._signature.interface is None:
            behind = f"; its launch values ({', '.join(tags)}) may follow them"
        elif tags and count > len(self.positional):
            behind = "; the launch is given by name, with threads= or grid="
        verb = "was" if count == 1 else "were"
        return f" takes {self._count_text()}{behind}; {count} {verb} given"


class RecordArgument(NamedTuple):
    """A block of scalars, or a flattened struct, that a call may give as one argument.

    Attributes
    ----------
    name
        Its name in the source.
    numbers
        The arguments of the call in whose place it is given.
    argument
        The kernel's argument that it is, for a flattened struct; -1 for a block.
    size, scalars
        A block's size in bytes, and the kernel's arguments in it.
    """

    name: str
    numbers: Sequence[int]
    argument: int
    size: int = 0
    scalars: Sequence[Argument] = ()


class MemberArgument(NamedTuple):
    """An argument of the call in the place of one of the kernel's: a member of a struct, or the
    argument itself.
    """

    number: int
    name: str
    description: str
    default: Local | int | None = None

    @property
    def text(self) -> str:
        """The argument in a list."""
        return self.name

    @property
    def label(self) -> str:
        """The argument in a message: ``argument 2 'b'``."""
        return f"argument {self.number + 1} {self.name!r}"


def _picker(sources: Sequence[int | Mapping[str, int]]) -> Arrange:
    """Return the function that takes the kernel's arguments from the values of a call: the value
    at a place, or a mapping of those at the places of its members.
    """
    if len(sources) > 1 and all(isinstance(each, int) for each in sources):
        return itemgetter(*sources)

    def pick(values: Arguments) -> Arguments:
        picked: list[Any] = []
        for source in sources:
            if isinstance(source, int):
                picked.append(values[source])
            else:
                picked.append({name: values[place] for name, place in source.items()})
        return tuple(picked)

    return pick


def getter(names: Sequence[str]) -> Names:
    """Return the function that takes a mapping and returns the values of these names."""
    if not names:
        return lambda keywords: ()
    if len(names) == 1:
        (name,) = names
        return lambda keywords: (keywords[name],)
    return itemgetter(*names)


def _is_in_block(param: Param, index: int) -> bool:
    return param.kind == "scalar" and isinstance(param.at, tuple) and param.at[0] == index


def _member(argument: Argument) -> Member:
    """Return a scalar of a block as a member of the record. One of unknown type is bytes."""
    param = argument.param
    assert isinstance(param.at, tuple)
    offset = param.at[1]
    count = parse_dtype(argument.type)[2]
    if is_value(param.members):
        return param.members[0].replace(name=param.name, offset=offset)
    if param.members:
        return Member(param.name, "", offset, param.members, count)
    if param.align:
        return Member(param.name, "uint8", offset, (), 0, (count,), (1,))
    return Member(param.name, argument.type, offset)


def is_record(value: object) -> bool:
    """Return whether a value has named members: a mapping, or an array or a scalar of structs."""
    return hasattr(value, "keys") or bool(getattr(getattr(value, "dtype", None), "names", None))


def keyword_of(argument: Argument | MemberArgument) -> str:
    """Return the keyword of an argument: its name, with an underscore behind a keyword of Python or
    of the launch.
    """
    if iskeyword(argument.name) or argument.name in LAUNCH_KEYWORDS:
        return argument.name + "_"
    return argument.name


def _first_name(path: str) -> str:
    """Return the first member of a path: ``parts`` of ``parts[1].n``."""
    return path.partition(".")[0].partition("[")[0]
