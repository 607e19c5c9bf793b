"""Error texts in other words than Python's. Errors name the arguments of `devmod.compile`; the
command line has options for them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from shlex import quote
from typing import Any, TypeVar

from devmod.errors import DevmodError
from devmod_targets.build import options as build_options

Result = TypeVar("Result")

#: The parameters of `devmod.compile` and the options of `devmod compile`.
OPTIONS = {
    "source": "SOURCE",
    "target": "-t",
    **{name: option.flags[0] for name, option in build_options.OPTIONS.items()},
}
_NAMES = "|".join(OPTIONS)
_STRING = r"'[^']*'|\"[^\"]*\""
#: ``devmod.compile(…, language='GLSL')``, where the argument alone is of interest.
_CALL = re.compile(r"devmod\.compile\((?:…|\.\.\.), (\w+=.*?[\w'\]}])\)(?=[\s.,;)]|$)")
#: ``language='GLSL'``, ``name_expressions=['scale<float>']``
_VALUE = re.compile(rf"(?<![\w.=-])({_NAMES})=({_STRING}|\[(?:'[^']*'(?:, )?)+\])")
#: ``block=(64, 1, 1)``, ``block=64``, ``subgroup=32``
_THREADS = re.compile(r"(?<![\w.=-])(block|subgroup)=(?:\(([\d, ]+)\)|(\d+))")
#: ``block={'f': 64, 'g': (16, 16)}``
_BLOCK_OF = r"'([^']*)': (?:\(([\d, ]+)\)|(\d+))"
_BLOCKS = re.compile(rf"(?<![\w.=-])block=\{{({_BLOCK_OF}(?:, {_BLOCK_OF})*)\}}")
#: ``defines={'cl_khr_fp16': 1}``
_DEFINES = re.compile(r"(?<![\w.=-])defines=\{'(\w+)': 1\}")
#: ``local={'sum': {'scratch': Local(per_thread=4)}}``, ``shared_memory={'sum': 1024}``
_SIZES = re.compile(
    r"(?<![\w.=-])(local|shared_memory)=\{'([^']*)': (?:\{'([^']*)': )?(?:Local\((?:per_thread(=))?)?(\d+)\)?\}{1,2}"
)
#: ``fmap={'f': devmod.FunctionInfo('f', ('handle',)), …}``
_FUNCTION = r"'([^']*)': devmod\.FunctionInfo\('([^']*)', \(([^()]*)\)\)"
_FUNCTIONS = re.compile(rf"(?<![\w.=-])fmap=\{{({_FUNCTION}.*?)\}}")
#: The declaration of any function.
_DECLARATION = "fmap={name: devmod.FunctionInfo(name, arg_types)}"
#: ``language=`` as a word: an argument's name without a value.
_ARGUMENT = re.compile(rf"(?<![\w.=-])({_NAMES})=(?=[\s.,;:)]|$)")


@dataclass(frozen=True)
class Spelling:
    """How a text spells the arguments of `devmod.compile`.

    Parameters
    ----------
    argument
        Returns an argument by its name.
    value
        Returns an argument with its values, which are strings.
    blocks
        Returns the blocks of functions by their names.
    size
        Returns a default size of memory: the argument "local" or "shared_memory", the function, for
        "local" the parameter too, and the size as in ``4/thread``.
    function
        Returns the declaration of a function: its name, its symbol and its types.
    mixed
        The permission for different arguments in a bundle.
    call
        The command that has the options, which precedes them; "" for the present one.
    """

    argument: Callable[[str], str]
    value: Callable[[str, list[str]], str]
    blocks: Callable[[dict[str, list[str]]], str]
    size: Callable[[str, list[str], str], str]
    function: Callable[[str, str, list[str]], str]
    mixed: str
    call: str = ""


def respell(text: str, spelling: Spelling) -> str:
    """Replace Python's arguments in an error's text."""

    def with_call(match: re.Match[str], options: str) -> str:
        if match.string[: match.start()].endswith(spelling.call):
            return options
        return spelling.call + options

    def value(match: re.Match[str]) -> str:
        return with_call(match, spelling.value(match[1], _strings(match[2])))

    def functions(match: re.Match[str]) -> str:
        words = []
        for each in re.finditer(_FUNCTION, match[1]):
            words.append(spelling.function(each[1], each[2], _strings(each[3])))
        if match[1].endswith("…"):
            words.append("…")
        return with_call(match, " ".join(words))

    def blocks(match: re.Match[str]) -> str:
        found = re.finditer(_BLOCK_OF, match[1])
        return spelling.blocks({each[1]: (each[2] or each[3]).split(", ") for each in found})

    def size(match: re.Match[str]) -> str:
        keys = [each for each in match.group(2, 3) if each is not None]
        nbytes = match[5]
        if match[4]:
            nbytes += "/thread"
        return spelling.size(match[1], keys, nbytes)

    text = _CALL.sub(lambda match: spelling.call + match[1], text)
    text = text.replace(_DECLARATION, spelling.function("NAME", "NAME", ["TYPE", "..."]))
    text = _SIZES.sub(size, text)
    text = _BLOCKS.sub(blocks, text)
    text = _DEFINES.sub(lambda match: spelling.value("defines", [f"{match[1]}=1"]), text)
    text = _VALUE.sub(value, text)
    text = _FUNCTIONS.sub(functions, text)
    text = _THREADS.sub(
        lambda match: spelling.value(match[1], (match[2] or match[3]).split(", ")), text
    )
    text = _ARGUMENT.sub(lambda match: spelling.argument(match[1]), text)
    return text.replace("mixed=True", spelling.mixed).replace(" more in .log)", " more)")


def _strings(text: str) -> list[str]:
    """Return the strings in the text of a string, a list or a tuple."""
    return [one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", text)]


def _value(name: str, values: list[str]) -> str:
    if name == "block":
        values = [",".join(values)]
    return " ".join(f"{OPTIONS[name]} {quote(each)}" for each in values)


def _blocks(blocks: dict[str, list[str]]) -> str:
    options = [f"{name}={','.join(dims)}" for name, dims in blocks.items()]
    return " ".join(f"--block {quote(each)}" for each in options)


def _size(name: str, keys: list[str], size: str) -> str:
    value = ".".join(keys)
    return f"{OPTIONS[name]} {quote(f'{value}={size}')}"


def _function(name: str, symbol: str, types: list[str]) -> str:
    if name != symbol:
        name = f"{name}={symbol}"
    return f"--function '{name}({', '.join(types)})'"


SHELL = Spelling(
    argument=OPTIONS.__getitem__,
    value=_value,
    blocks=_blocks,
    size=_size,
    function=_function,
    mixed="--mixed",
)


#: The words of a command that compiles nothing.
SHELL_OF_OTHERS = replace(SHELL, call="devmod compile … ")


def in_shell(command: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate `devmod compile`: its errors and warnings name the options of the command line in
    place of Python's arguments.
    """
    return _in_words(command, SHELL)


def in_shell_of_others(command: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate another command: errors and warnings name the options of `devmod compile`."""
    return _in_words(command, SHELL_OF_OTHERS)


def _in_words(command: Callable[..., Result], spelling: Spelling) -> Callable[..., Result]:
    @wraps(command)
    def run(*args: Any, **options: Any) -> Result:
        try:
            with warnings.catch_warnings():
                show: Callable[..., None] = warnings.showwarning
                warnings.showwarning = lambda each, *place, **more: show(
                    type(each)(respell(str(each), spelling)), *place, **more
                )
                return command(*args, **options)
        except DevmodError as error:
            error.args = (respell(str(error), spelling),)
            raise

    return run
