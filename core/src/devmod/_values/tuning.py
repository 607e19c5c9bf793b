"""The key ``tune`` of an interface: the variants of a tuned function, by the values of its
constants.

Few functions have it, so an interface keeps its map as it is, and `tuning_of` reads it. The maps
come from untrusted files.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from devmod._values.dtypes import parse_dtype
from devmod._values.expressions import ExpressionError, evaluate, names_in, read_expression
from devmod._values.features import TUNED, newer_text, unknown_needs
from devmod._values.info import Interface, newer_interface
from devmod._values.requirements import fits, requirements
from devmod._values.value import read_list, read_map
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from devmod._values.expressions import Expression
    from devmod._values.requirements import Capabilities

#: The most variants of a function.
MAX_VARIANTS = 1024
#: The most constants, and the most sizes.
MAX_NAMES = 16


class Variant(NamedTuple):
    """A variant of a tuned function.

    Attributes
    ----------
    constants
        The values of the function's constants by name, in their order.
    grid
        The blocks of a launch, one to three expressions of constants and of integer arguments; ()
        if the call gives them.
    block
        The threads of a block, one to three expressions of constants; () if the interface has them,
        or the call.
    interface
        The map of its own interface; None for that of the function.
    """

    constants: dict[str, bool | int | float | str]
    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    interface: Any = None

    def grid_of(self, arguments: Mapping[str, int]) -> tuple[int, ...]:
        """Return the blocks of a launch; () if the call gives them.

        Parameters
        ----------
        arguments
            The values of the integer arguments by name.

        Raises
        ------
        ExpressionError
            A number is negative, or there is none.
        """
        return _numbers("grid", self.grid, {**arguments, **self.constants}, 0)

    def block_of(self) -> tuple[int, ...]:
        """Return the threads of a block; () if the interface has them, or the call.

        Raises
        ------
        ExpressionError
            A number is less than 1, or there is none.
        """
        return _numbers("block", self.block, {**self.constants}, 1)


def _numbers(
    noun: str, expressions: Iterable[Expression], values: dict[Any, Any], least: int
) -> tuple[int, ...]:
    numbers = tuple([evaluate(each, values) for each in expressions])
    if min(numbers, default=least) < least:
        text = " × ".join(map(str, numbers))
        raise ExpressionError(f"the {noun} is {text}; expected at least {least}")
    return numbers


class Tuning(NamedTuple):
    """The variants of a tuned function, and what they have in common.

    Attributes
    ----------
    constants
        The names of the constants.
    variants
        The variants. The first is the default.
    sizes
        The names of the integer arguments that decide which variant is the best.
    specialized
        Whether the receiver sets the constants, so that one payload has all variants. Otherwise
        each variant runs the payload as it is.
    """

    constants: tuple[str, ...]
    variants: tuple[Variant, ...]
    sizes: tuple[str, ...] = ()
    specialized: bool = False


def tuning_of(interface: Interface | None) -> Tuning | None:
    """Return the variants of a tuned function; None if it is not tuned. The interface keeps them.

    Raises
    ------
    FormatError
        The map of its key ``tune`` is invalid, or only a newer devmod reads it.
    """
    if interface is None or "tune" not in interface.extra:
        return None
    tuning: Tuning | None = getattr(interface, "tuning", None)
    if tuning is None:
        try:
            tuning = _read_tuning(interface)
        except FormatError:
            # A later devmod may write variants that are invalid here, with a need that says so.
            needs = unknown_needs(interface.needs)
            if not needs:
                raise
            raise FormatError(f"the tuned function {newer_text(needs)}") from None
        interface._set(tuning=tuning)
    return tuning


def _read_tuning(interface: Interface) -> Tuning:
    tune = read_map(interface.extra["tune"], "the key tune", "constants", "variants")
    constants = read_names(tune, "constants")
    sizes = read_names(tune, "sizes")
    integers = integer_arguments(interface)
    _check_known(sizes, integers, "sizes")
    maps = read_list(tune["variants"], "the variants of a function")
    if not constants or not 0 < len(maps) <= MAX_VARIANTS:
        raise FormatError(
            f"a tuned function has {len(constants)} constants and {len(maps)} variants; expected at least one constant, and 1 to "
            f"{MAX_VARIANTS} variants"
        )

    fields_of = {}
    #: The constants that are integers in each variant.
    numbers = dict.fromkeys(constants)
    for data in maps:
        fields = read_map(data, "a variant", "values")
        values = tuple(read_list(fields["values"], "the values of a variant"))
        if len(values) != len(constants):
            raise FormatError(f"a variant has {len(values)} values for {len(constants)} constants")
        for name, value in zip(constants, values, strict=True):
            check_constant(value)
            if type(value) is not int:
                numbers.pop(name, None)
        if values in fields_of:
            raise FormatError(f"two variants have the values {values!r:.200}")
        fields_of[values] = fields

    # A variant without expressions has those of the function, which are read once.
    names = [*numbers]
    names += [each for each in integers if each not in constants]
    grid = _expressions(tune, "grid", names, ())
    block = _expressions(tune, "block", numbers, ())
    variants = []
    for values, fields in fields_of.items():
        own_grid = _expressions(fields, "grid", names, grid)
        own_block = _expressions(fields, "block", numbers, block)
        own = dict(zip(constants, values, strict=True))
        variants.append(Variant(own, own_grid, own_block, fields.get("interface")))
    if len({bool(each.grid) for each in variants}) > 1:
        raise FormatError("some variants have a grid, and others have none")
    return Tuning(constants, tuple(variants), sizes, tune.get("specialized") is True)


def variant_interface(interface: Interface, variant: Variant) -> Interface:
    """Return the interface of one variant, that of a function that is not tuned.

    Parameters
    ----------
    interface
        That of the tuned function.
    variant
        One of its variants.

    Raises
    ------
    FormatError
        The variant's own interface is invalid, or has other parameters.
    """
    result = interface
    if variant.interface is not None:
        result = Interface.from_dict(variant.interface)
        if result.newer:  # `fits` refuses it
            return result
        expected = [(each.name, each.type) for each in interface.values]
        if [(each.name, each.type) for each in result.values] != expected:
            problem = "the interface of a variant has other parameters than the function"
            return newer_interface(variant.interface, FormatError(problem))
    extra = dict(result.extra)
    extra.pop("tune", None)
    return result.replace(extra=extra, needs=[each for each in result.needs if each != TUNED])


def interface_with_block(interface: Interface, variant: Variant) -> Interface:
    """Return the `variant_interface`, with the block of the variant's expressions."""
    result = variant_interface(interface, variant)
    if result.newer:
        return result
    try:
        block = variant.block_of()
    except ExpressionError as error:
        raise FormatError(f"the tuned function is invalid: {error}") from None
    if not block:
        return result
    return result.replace(block=(*block, 1, 1)[:3])


def variants_on(
    interface: Interface, fmt: str, capabilities: Capabilities | None
) -> Iterator[tuple[Variant, Interface, str]]:
    """Yield each variant of a tuned function, its interface, and what a device lacks for it as
    `fits` returns it.

    Raises
    ------
    FormatError
        The key ``tune`` or a variant is invalid.
    """
    tuning = tuning_of(interface)
    assert tuning is not None
    for variant in tuning.variants:
        own = interface_with_block(interface, variant)
        yield variant, own, fits(requirements(own, fmt), capabilities)


def lacking(interface: Interface, fmt: str, capabilities: Capabilities | None) -> str:
    """Return why no variant of a tuned function fits a device, as `fits` does; "" if one does."""
    first = ""
    try:
        for *_, problem in variants_on(interface, fmt, capabilities):
            if not problem:
                return ""
            first = first or problem
    except FormatError:  # the first use raises it
        needs = unknown_needs(interface.needs)
        if needs:
            return newer_text(needs)
        return ""
    return first


def integer_arguments(interface: Interface) -> list[str]:
    """Return the names of the arguments that are one integer each."""
    names = []
    for param in interface.params:
        if param.kind == "scalar" and param.type and not param.members:
            code, _, lanes = parse_dtype(param.type)
            if code in (0, 1) and lanes == 1:
                names.append(param.name)
    return names


def check_constant(value: object) -> None:
    """Raise FormatError if `value` is not one that a constant can have."""
    if type(value) in (bool, str):
        return
    if type(value) is int and -(2**63) <= value < 2**63:
        return
    if type(value) is float and math.isfinite(value):
        return
    raise FormatError(
        f"a constant has the value {value!r:.200}; expected a boolean, an int of 64 bits, a finite float or a string"
    )


def _expressions(
    data: dict[str, Any], key: str, known: Iterable[str], missing: tuple[Expression, ...]
) -> tuple[Expression, ...]:
    """Return the expressions in a map; `missing` if it has none."""
    values = data.get(key)
    if values is None:
        return missing
    if not isinstance(values, list) or not 0 < len(values) <= 3:
        raise FormatError(f"the {key} of a tuned function is a list of one to three expressions")
    try:
        expressions = tuple(map(read_expression, values))
    except ExpressionError as error:
        raise FormatError(f"the {key} of a tuned function {error}") from None
    for each in expressions:
        _check_known(names_in(each), known, key)
    return expressions


def _check_known(names: Iterable[str], known: Iterable[str], key: str) -> None:
    for name in names:
        if name not in known:
            raise FormatError(
                f"the {key} of a tuned function: unknown name {name!r:.200}; expected one of {list_names(known)}"
            )


def read_names(data: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return the identifiers in a list of a map. Raise FormatError for other values."""
    names = data.get(key, [])
    if not isinstance(names, list) or not _are_identifiers(names):
        raise FormatError(
            f"the {key} of a tuned function are {names!r:.200}; expected at most {MAX_NAMES} different identifiers"
        )
    return tuple(names)


def _are_identifiers(names: list[Any]) -> bool:
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            return False
    return len(set(names)) == len(names) <= MAX_NAMES
