"""The order of a call's arguments: by position, by name, in records, and omitted ones that have a
default.
"""

from __future__ import annotations

from itertools import accumulate
from keyword import iskeyword
from operator import itemgetter
from typing import Any, NamedTuple

from devmod import Local, Member, Param
from devmod._values.param import check_members, is_value, kind_text, members_by_value, type_text
from devmod.backend import LAUNCH_KEYWORDS, ConversionError, parse_dtype
from devmod.errors import ArgumentError, FormatError, did_you_mean, list_names, quote_name
from devmod_runtime._launch.arguments import AddressBlock, Argument, BlockBytes, Signature
from devmod_runtime._launch.scalars import AddressBytes, StructError, struct_packer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Parameter

    Names = Callable[[Mapping[str, Any]], tuple[Any, ...]]
    #: The steps for the arguments of calls with the same names: the number of arguments by
    #: position; the function that returns those by name; and the function that puts all in the
    #: kernel's order and converts records. It is None if they are the kernel's arguments.
    Plan = tuple[int, Names, Callable[[tuple[Any, ...]], tuple[Any, ...]] | None]

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
    """

    def __init__(
        self, signature: Signature, keywords_only: str = "", flattened: frozenset[str] = frozenset()
    ) -> None:
        self._signature, self._error = signature, signature.error
        self.keywords_only, self.flattened = keywords_only, flattened
        self.arguments: Sequence[Argument | MemberArgument] = signature.arguments
        #: For each of the kernel's arguments the names of the members in its place; empty if no
        #: struct is flattened.
        self._groups: list[list[str]] = []
        if flattened:
            self._flatten()
        self._numbers: dict[str, int] = {}
        names = [keyword_of(each) for each in self.arguments]
        for number, name in enumerate(names):
            # A name that two parameters share names neither of them.
            if name and names.count(name) == 1:
                self._numbers[name] = number
        self._optional = [
            each.number
            for each in self.arguments
            if each.default is not None and names[each.number] in self._numbers
        ]
        self.positional = tuple(
            each for each in self.arguments if each.number not in self._optional
        )
        self.records = (
            self._find_records({*LAUNCH_KEYWORDS, *names})
            if signature.interface is not None
            else {}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The keyword of each argument of a call; () if one has none."""
        return tuple(self._numbers) if len(self._numbers) == len(self.arguments) else ()

    @property
    def is_plain(self) -> bool:
        """Whether the arguments of a call by position are the kernel's arguments."""
        return not self._optional and not self.keywords_only and not self._groups

    def _flatten(self) -> None:
        """Replace each struct of `flattened` by its members."""
        arguments: list[Argument | MemberArgument] = []
        params = self._signature.interface.params if self._signature.interface is not None else ()
        for argument, param in zip(self._signature.arguments, params, strict=True):
            members = members_by_value(param) if param.name in self.flattened else ()
            self._groups.append([each.name for each in members])
            if members:
                arguments += [
                    MemberArgument(len(arguments) + place, each.name, kind_text(each))
                    for place, each in enumerate(members)
                ]
            else:
                arguments.append(
                    MemberArgument(
                        len(arguments),
                        argument.name,
                        type_text(param.replace(default=None)),
                        argument.default,
                    )
                )
        self.arguments = arguments

    def _find_records(self, used_names: set[str]) -> dict[str, RecordArgument]:
        """Return the records by keyword: the name of the block or struct, with an underscore behind
        it if another argument has it.
        """
        interface = self._signature.interface
        assert interface is not None
        if not self._groups and not any(block.name for block in interface.blocks):
            return {}
        found: list[RecordArgument] = []
        #: The number in the call of each of the kernel's arguments, or of its first member.
        groups: Sequence[Sequence[str]] = self._groups or [()] * len(interface.params)
        starts = list(accumulate([len(names) or 1 for names in groups], initial=0))
        for index, block in enumerate(interface.blocks):
            params = [
                (number, param)
                for number, param in enumerate(interface.params)
                if _is_in_block(param, index)
            ]
            if block.name and params:
                numbers = [
                    each
                    for number, _ in params
                    for each in range(starts[number], starts[number + 1])
                ]
                found.append(RecordArgument(block.name, numbers, -1, block.size, params))
        for number, names in enumerate(self._groups):
            if names:
                found.append(
                    RecordArgument(
                        interface.params[number].name,
                        list(range(starts[number], starts[number + 1])),
                        number,
                    )
                )
        records: dict[str, RecordArgument] = {}
        for record in found:
            keyword = record.name
            while keyword in used_names or keyword in records or iskeyword(keyword):
                keyword += "_"
            records[keyword] = record
        return records

    def describe_record(self, record: RecordArgument) -> str:
        """Return the members of a record, as text: ``{n: int32, alpha: float32}``."""
        params = self._signature.interface.params if self._signature.interface is not None else ()
        if record.argument >= 0:
            return type_text(params[record.argument])
        return f"{{{', '.join(f'{param.name}: {type_text(param.replace(default=None))}' for _, param in record.params)}}}"

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
        positions = [argument.number for argument in self.positional]
        last = max(
            (number for number in positions if names[number] != keyword_of(self.arguments[number])),
            default=-1,
        )
        parameters: list[Parameter] = []
        behind: list[Parameter] = []
        for argument, name in zip(self.arguments, names, strict=True):
            keyword_only = argument.number not in positions or bool(self.keywords_only)
            kind = (
                Parameter.POSITIONAL_ONLY
                if argument.number <= last
                else Parameter.POSITIONAL_OR_KEYWORD
            )
            default = Parameter.empty if argument.number in positions else argument.default
            parameter = Parameter(
                name,
                Parameter.KEYWORD_ONLY if keyword_only else kind,
                default=default,
                annotation=type_of(argument),
            )
            (behind if keyword_only else parameters).append(parameter)
        for keyword, record in self.records.items():
            if keyword.isidentifier() and keyword not in names:
                behind.append(
                    Parameter(
                        keyword,
                        Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=self.describe_record(record),
                    )
                )
        return [*parameters, *behind]

    def argument_of(self, argument: Argument, path: str) -> Argument | MemberArgument:
        """Return the argument of the call that holds an argument of the kernel, or the member of it
        at `path`, as in ``p.parts[1].n``.
        """
        if not self.flattened:
            return argument
        name = argument.name
        if name in self.flattened:
            name = path.removeprefix(f"{name}.").partition(".")[0].partition("[")[0]
        return next((each for each in self.arguments if each.name == name), argument)

    def arrange(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Plan | None]:
        """Return the arguments of a call in the kernel's order, and the plan of such calls.

        Launch values stay behind the arguments. A call with launch values has no plan.

        Raises
        ------
        ArgumentError
            An argument is unknown, missing, given twice, or by a position where only a name is
            accepted.
        """
        count, names, behind = len(args), tuple(keywords), len(self._signature.launch)
        if count and self.keywords_only:
            example = ", ".join(f"{keyword_of(each) or each.label}=…" for each in self.positional)
            raise self._error(
                f"takes its arguments by name: {self.keywords_only}. Call it as f({example}, threads=…)"
            )
        if behind and count == len(self.positional) + behind:
            if not keywords:
                return self.arrange(args[:-behind], keywords)[0] + args[-behind:], None
            raise self._error(
                "is called with launch values and with arguments by name; launch values follow the arguments by position"
            )
        plan = self._plan(args, names)
        _, get, rearrange = plan
        args += get(keywords)
        return args if rearrange is None else rearrange(args), plan

    def _plan(self, args: Sequence[object], names: Sequence[str]) -> Plan:
        """Return the plan of a call with so many arguments by position and with `names`. Their
        values are for errors alone.
        """
        count = len(args)
        if count > len(self.positional):
            raise self._error(self._wrong_count(count))
        positions = [each.number for each in self.positional[:count]]
        by_name: dict[int, str] = {}
        for name in names:
            if name not in self._numbers and name not in self.records:
                raise self._unknown(name)
            for number in (
                self.records[name].numbers if name in self.records else (self._numbers[name],)
            ):
                if number in positions or number in by_name:
                    twice = self.arguments[number]
                    keyword = next(
                        (each for each in (name, by_name.get(number, "")) if each in self.records),
                        "",
                    )
                    way = "by position" if number in positions else "by name"
                    other = f"in the record {keyword}=" if keyword else "by name"
                    raise self._error(
                        f"got {twice.label} twice: {way} and {other}; it takes {self._count_text()}",
                        twice.name,
                    )
                by_name[number] = name
        present = {*positions, *by_name}
        missing = [
            each
            for each in self.arguments
            if each.number not in present and each.number not in self._optional
        ]
        if missing:
            raise self._missing(missing, args)
        # The arguments by name are taken in the kernel's order, whatever the order of the call. A
        # record is one of them.
        given = list(dict.fromkeys(by_name[number] for number in sorted(by_name)))
        get = getter(given)
        omitted = [number for number in self._optional if number not in present]
        defaults = tuple(self.arguments[number].default for number in omitted)
        places = {number: place for place, number in enumerate(positions)}
        places |= {number: count + given.index(name) for number, name in by_name.items()}
        places |= {number: count + len(given) + place for place, number in enumerate(omitted)}
        groups = list(self._groups)
        converters: list[tuple[int, Callable[[Any], Any]]] = []
        for place, record in enumerate(map(self.records.get, given), count):
            if record is None:
                continue
            if self.keywords_only:
                converters.append((place, self._refuse_tuple(given[place - count])))
            if record.argument < 0:
                converters.append((place, self._converter(given[place - count], record)))
            # A flattened struct is one argument of the kernel, which takes the record as it is, or
            # the content of its block.
            left = iter(record.numbers)
            for argument in [number for number, _ in record.params] or [record.argument]:
                members = [next(left) for _ in (self._groups[argument] if groups else ()) or ("",)]
                for number in members[1:]:
                    del places[number]
                if groups:
                    groups[argument] = []
        order = [places[number] for number in sorted(places)]
        group = _grouper(groups) if groups else None
        if order == list(range(len(self.arguments))) and not converters and not defaults:
            return count, get, group
        pick = itemgetter(*order) if len(order) > 1 else tuple

        def rearrange(values: tuple[Any, ...]) -> tuple[Any, ...]:
            for place, convert in converters:
                values = (*values[:place], convert(values[place]), *values[place + 1 :])
            values = pick(values + defaults)
            return values if group is None else group(values)

        return count, get, rearrange

    def _refuse_tuple(self, keyword: str) -> Callable[[Any], Any]:
        """Return the function that raises ArgumentError for a tuple, whose order would be that of
        one candidate.
        """

        def check(value: Any) -> Any:
            if isinstance(value, tuple):
                raise self._error(
                    f"takes the members of {keyword}= by name, in a mapping: {self.keywords_only}",
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
        if (
            record.size > _MAX_RECORD
        ):  # a file has the size, and the memory is allocated before a device checks its limit
            raise FormatError(
                f"{block} has {record.size} bytes; a record has at most {_MAX_RECORD}"
            )
        members = [
            _member(param, self._signature.arguments[number].type)
            for number, param in record.params
        ]
        check_members(members, record.size, block)
        pack = struct_packer(keyword, members, record.size)

        def convert(value: Any) -> BlockBytes:
            try:
                data = pack(value)
            except ConversionError as error:
                member = (
                    error.path[len(keyword) + 1 :].partition(".")[0].partition("[")[0]
                    if isinstance(error, StructError)
                    else ""
                )
                raise self._error(
                    f"got an invalid record {keyword}=: {error}", member or keyword
                ) from None
            return (
                AddressBlock(data, keyword, data.arrays)
                if isinstance(data, AddressBytes)
                else BlockBytes(data)
            )

        return convert

    def _unknown(self, name: str) -> ArgumentError:
        if any(keyword_of(each) == name for each in self.arguments):
            return self._error(f"has several arguments {name!r}: give them by position", name)
        return self._error(
            f"has no argument {quote_name(name)}; it takes {self._count_text()}"
            f"{did_you_mean(name, [*self._numbers, *self.records, *LAUNCH_KEYWORDS])}",
            name,
        )

    def _missing(
        self, missing: Sequence[Argument | MemberArgument], args: Sequence[object]
    ) -> ArgumentError:
        by_name = all(keyword_of(each) in self._numbers for each in missing)
        if not by_name and self._signature.interface is None:
            return self._error(self._wrong_count(len(args)))
        listed = (
            list_names(each.name for each in missing)
            if by_name
            else ", ".join(each.label for each in missing)
        )
        reserved = [
            f"{each.name!r} as {keyword_of(each)}="
            for each in missing
            if by_name and keyword_of(each) != each.name
        ]
        advice = f". Give {', '.join(reserved)} in a call by name" if reserved else ""
        noun = "an argument" if len(missing) == 1 else "arguments"
        if any(map(is_record, args)):
            advice += next(filter(None, (self.record_hint(each.number) for each in missing)), "")
        return self._error(
            f"is missing {noun}: {listed}; it takes {self._count_text()}{advice}", missing[0].name
        )

    def record_hint(self, number: int) -> str:
        """Return the sentence about the record of an argument of the call, as the end of a message;
        "" if it is in none.
        """
        keyword = next(
            (keyword for keyword, record in self.records.items() if number in record.numbers), ""
        )
        names = (
            list_names(self.arguments[each].name for each in self.records[keyword].numbers)
            if keyword
            else ""
        )
        return (
            f". A record is given by name: {keyword}={{…}} in place of {names}" if keyword else ""
        )

    def _count_text(self) -> str:
        count = len(self.positional)
        text = f"{count} argument{'' if count == 1 else 's'}"
        listed = f" ({', '.join(each.text for each in self.positional)})" if count else ""
        if not self._optional:
            return f"{text}{listed}"
        by_name = list_names(self.arguments[number].name for number in self._optional)
        return f"{text} by position{listed}, and {by_name} by name"

    def _wrong_count(self, count: int) -> str:
        tags = self._signature.tags
        behind = f"; its launch values ({', '.join(tags)}) may follow them" if tags else ""
        return (
            f"takes {self._count_text()}{behind}; {count} {'was' if count == 1 else 'were'} given"
        )


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
    size, params
        A block's size in bytes, and its scalars, each with the number of the kernel's argument.
    """

    name: str
    numbers: Sequence[int]
    argument: int
    size: int = 0
    params: Sequence[tuple[int, Param]] = ()


class MemberArgument:
    """An argument of the call in the place of one of the kernel's: a member of a struct, or the
    argument itself.
    """

    def __init__(
        self, number: int, name: str, description: str, default: Local | int | None = None
    ) -> None:
        self.number, self.name, self.text, self.default = number, name, name, default
        self.description = description

    @property
    def label(self) -> str:
        """The argument in a message: ``argument 2 'b'``."""
        return f"argument {self.number + 1} {self.name!r}"


def _grouper(groups: Sequence[Sequence[str]]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return the function that packs values into mappings, one for each group of names; a group
    without names takes one value.
    """

    def group(values: tuple[Any, ...]) -> tuple[Any, ...]:
        left = iter(values)
        return tuple(
            {name: next(left) for name in names} if names else next(left) for names in groups
        )

    return group


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


def _member(param: Param, type_name: str) -> Member:
    """Return a scalar of a block as a member of the record. One of unknown type is bytes."""
    assert isinstance(param.at, tuple)
    offset, count = param.at[1], parse_dtype(type_name)[2]
    if is_value(param.members):
        return param.members[0].replace(name=param.name, offset=offset)
    if param.members:
        return Member(param.name, "", offset, param.members, count)
    return (
        Member(param.name, "uint8", offset, (), 0, (count,), (1,))
        if param.align
        else Member(param.name, type_name, offset)
    )


def is_record(value: object) -> bool:
    """Return whether a value has named members: a mapping, or an array or a scalar of structs."""
    return hasattr(value, "keys") or bool(getattr(getattr(value, "dtype", None), "names", None))


def keyword_of(argument: Argument | MemberArgument) -> str:
    """Return the keyword of an argument: its name, with an underscore behind a keyword of Python or
    of the launch.
    """
    reserved = iskeyword(argument.name) or argument.name in LAUNCH_KEYWORDS
    return argument.name + "_" if reserved else argument.name
