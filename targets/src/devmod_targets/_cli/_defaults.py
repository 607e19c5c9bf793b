"""The options --block, --local and --function of `devmod compile`."""

from __future__ import annotations

import re

import click

from devmod import FunctionInfo, Local
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: ``name(types)`` or ``name=symbol(types)``. The name of an overload contains brackets and commas.
_FUNCTION = re.compile(r"(?:(?P<name>.+)=)?(?P<symbol>[^=()]+)\((?P<types>[^()]*)\)")


def parse_blocks(texts: Sequence[str]) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """Return the argument `block` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or contradicts another.
    """
    result: dict[str, tuple[int, ...]] = {}
    for text in texts:
        function, mark, numbers = text.rpartition("=")
        try:
            dims = tuple(int(number) for number in numbers.split(","))
        except ValueError:
            dims = ()
        if (mark and not function) or not 1 <= len(dims) <= 3 or min(dims) < 1:
            raise click.UsageError(f"--block {text}: expected threads in x, y, z, such as 64, 16,16 or blur=16,16")
        if function in result:
            raise click.UsageError(f"--block is given twice for {f'the function {function!r}' if function else 'all functions'}")
        result[function] = dims
    if "" not in result:
        return result or None
    if len(result) > 1:
        raise click.UsageError("--block is given for all functions and for one; give it for each function")
    return result[""]


def parse_locals(texts: Sequence[str]) -> dict[str, Local | dict[str, Local]] | None:
    """Return the argument `local` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or a name is given twice.
    """
    result: dict[str, Local | dict[str, Local]] = {}
    for text in texts:
        names, _, size = text.rpartition("=")
        function, _, parameter = names.rpartition(".")
        number, mark, unit = size.partition("/")
        if not parameter or not (number.isascii() and number.isdigit() and 0 < int(number) < 2**63) or (mark and unit != "thread"):
            raise click.UsageError(f"--local {text}: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread")
        default = Local(per_thread=int(number)) if mark else Local(int(number))
        group = result.setdefault(function, {}) if function else result
        if not isinstance(group, dict) or parameter in group:
            raise click.UsageError(f"--local {text}: {names} is given twice")
        group[parameter] = default
    return result or None


def parse_functions(texts: Sequence[str]) -> dict[str, FunctionInfo] | None:
    """Return the argument `fmap` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or a name is given twice.
    """
    result: dict[str, FunctionInfo] = {}
    for text in texts:
        match = _FUNCTION.fullmatch(text.strip())
        if match is None:
            raise click.UsageError(f"--function {text}: expected a name and the types of the arguments, such as 'scale(handle, float32)'")
        types = [each.strip() for each in match["types"].split(",")] if match["types"].strip() else []
        symbol = match["symbol"].strip()
        name = (match["name"] or symbol).strip()
        if name in result:
            raise click.UsageError(f"--function {text}: {name} is given twice")
        try:
            result[name] = FunctionInfo(symbol, types)
        except FormatError as error:
            raise click.UsageError(f"--function {text}: {error}") from None
    return result or None
